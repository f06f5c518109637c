//! What a step can see: finished steps for its expressions, upstream records for its prompt, the item and the
//! iteration of the loop around it.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{Asks, whole_ms};
use crate::cel::{CelError, Expression, Scope, StepView};
use crate::document::Approval;
use crate::load::{LoadedApproval, LoadedLoop, LoadedStep, LoadedWorkflow, StepBody};
use crate::{
    AgentName, AgentRequest, ApprovalRequest, Item, Iteration, ModelWish, Purpose, Spent, StepError,
    StepErrorClass, StepKey, StepRecord, StepStatus, Upstream,
};

/// The steps of one level: those of a document, or those of a loop's body.
#[derive(Clone)]
pub(crate) struct StepList {
    workflow: Arc<LoadedWorkflow>,
    /// The loop whose body it is.
    body_of: Option<usize>,
}

impl StepList {
    pub(crate) fn top(workflow: Arc<LoadedWorkflow>) -> StepList {
        StepList { workflow, body_of: None }
    }

    pub(crate) fn steps(&self) -> &[LoadedStep] {
        match self.body_of.and_then(|index| self.workflow.steps.get(index)) {
            None => &self.workflow.steps,
            Some(LoadedStep { body: StepBody::Loop(it), .. }) => &it.steps,
            Some(_) => &[],
        }
    }

    /// The place of each step in the order of dependencies.
    pub(crate) fn position(&self, index: usize) -> usize {
        let order = match self.body_of.and_then(|index| self.workflow.steps.get(index)) {
            None => &self.workflow.order,
            Some(LoadedStep { body: StepBody::Loop(it), .. }) => &it.order,
            Some(_) => return index,
        };
        order.iter().position(|found| *found == index).unwrap_or(index)
    }

    pub(crate) fn step(&self, index: usize) -> StepRef {
        StepRef { list: self.clone(), index }
    }
}

impl std::fmt::Debug for StepList {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "StepList({:?})", self.body_of)
    }
}

/// A step of a document that is kept alive by it.
#[derive(Clone, Debug)]
pub(crate) struct StepRef {
    list: StepList,
    index: usize,
}

impl StepRef {
    pub(crate) fn get(&self) -> &LoadedStep {
        &self.list.steps()[self.index]
    }

    /// The loop that the step is, and the steps of its body.
    pub(crate) fn as_loop(&self) -> Option<(&LoadedLoop, StepList)> {
        match &self.get().body {
            StepBody::Loop(it) => {
                Some((it, StepList { workflow: self.list.workflow.clone(), body_of: Some(self.index) }))
            }
            StepBody::Agent | StepBody::Include(_) | StepBody::Approve(_) => None,
        }
    }
}

/// What stands around a level of steps.
#[derive(Clone, Debug)]
pub(crate) struct Around {
    /// What expressions see before any step of this level is over.
    pub scope: Scope,
    /// Records from outside, for prompts.
    pub outer: Arc<[Upstream]>,
    pub outer_for: OuterFor,
    pub item: Option<Item>,
    pub iteration: Option<Iteration>,
    /// `maxRetries` of the loop or the include around it, for steps that have none.
    pub transport_retries: Option<u32>,
    /// What steps of this level had spent in earlier attempts at all of it.
    pub spent_before: BTreeMap<String, Spent>,
}

/// Which steps of a level are shown the records from outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OuterFor {
    /// Of a loop's body.
    Everyone,
    /// Of a document: those that depend on nothing inside.
    Beginners,
}

impl Around {
    pub(crate) fn outer_of(&self, step: &LoadedStep) -> Arc<[Upstream]> {
        match self.outer_for {
            OuterFor::Beginners if !step.depends_on.is_empty() => Arc::from([]),
            OuterFor::Everyone | OuterFor::Beginners => self.outer.clone(),
        }
    }
}

/// Everything the prompt of one agent is made of, besides its own instructions.
pub(crate) struct Seen<'a> {
    pub scope: &'a Scope,
    pub upstream: &'a [Upstream],
    pub outer: &'a [Upstream],
    pub item: Option<&'a Item>,
    pub iteration: Option<&'a Iteration>,
    /// `maxRetries` of what is around it.
    pub transport_retries: Option<u32>,
}

/// The request for a step that an agent does.
pub(crate) fn work(
    step: &LoadedStep,
    key: &StepKey,
    seen: &Seen<'_>,
    asks: &Asks<'_>,
) -> Result<AgentRequest, StepError> {
    let instructions = step
        .instructions
        .render(seen.scope)
        .map_err(|no| expression("a template in `instructions`", &no.expression, &no.error))?;
    let options = &asks.spec.workflow.workflow.options;
    Ok(AgentRequest {
        step_id: key.step_id(),
        purpose: Purpose::Work,
        agent: AgentName {
            document: asks.spec.document.clone(),
            name: step.agent.as_ref().map(|agent| agent.name.clone()),
        },
        instructions,
        upstream: seen.upstream.to_vec(),
        outer: seen.outer.to_vec(),
        item: seen.item.cloned(),
        iteration: seen.iteration.cloned(),
        context_files: step.spec.context_files.clone(),
        model: ModelWish {
            step: step.spec.model.clone(),
            agent: step.agent.as_ref().and_then(|agent| agent.spec.model.clone()),
        },
        transport_retries: step.spec.max_retries.or(seen.transport_retries).or(options.max_retries),
        isolation: asks.spec.isolation().map(str::to_owned),
        attempt: 1,
    })
}

/// The request for a step that a person answers.
pub(crate) fn question(
    approval: &LoadedApproval,
    key: &StepKey,
    scope: &Scope,
) -> Result<ApprovalRequest, StepError> {
    let message = approval
        .message
        .render(scope)
        .map_err(|no| expression("a template in `approve`", &no.expression, &no.error))?;
    let Approval { timeout, on_timeout, on_deny, data, .. } = &approval.spec;
    Ok(ApprovalRequest {
        step_id: key.step_id(),
        message,
        timeout_ms: timeout.map(whole_ms),
        on_timeout: *on_timeout,
        on_deny: *on_deny,
        data: data.clone(),
    })
}

/// A finished step as expressions see it.
pub(crate) fn for_expressions(record: &StepRecord) -> Arc<StepView> {
    let result = record.result.as_ref().map(crate::JsonText::to_value);
    Arc::new(StepView::new(record.status.name(), record.content.clone(), result))
}

/// Those that completed, for a prompt.
pub(crate) fn completed<'a>(
    steps: impl IntoIterator<Item = (&'a str, &'a Arc<StepRecord>)>,
) -> Arc<[Upstream]> {
    steps
        .into_iter()
        .filter(|(_, record)| record.status == StepStatus::Completed)
        .map(|(id, record)| Upstream { id: id.to_owned(), record: record.clone() })
        .collect()
}

/// `what` is where the expression stands.
pub(crate) fn expression(what: &str, expression: &Expression, error: &CelError) -> StepError {
    let message = format!("{what} cannot be evaluated: {error}, in {}", expression.named());
    StepError::new(StepErrorClass::Expression, message)
}

//! A step that is a workflow of its own: what it is given, and what it gives back.
//!
//! An included workflow runs behind the port with an interpreter of its own: its own options, its own steps in
//! expressions. It sees what its step depends on, and the item or iteration of a loop around it.

use std::sync::Arc;

use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::Value;

use super::Asks;
use super::retry::together;
use super::scope::Around;
use crate::load::{LoadedStep, LoadedWorkflow, StepBody};
use crate::{
    Answer, JsonText, StepError, StepErrorClass, StepKey, StepOutcome, StepOutput, StepRecord, StepRequest,
    StepStatus, SubWorkflowRequest, TimedOutside, Upstream, WorkflowOutcome, WorkflowStatus,
};

/// The member of a result that says what became of the steps of an included workflow.
pub(crate) const INNER_STEPS: &str = "innerSteps";
/// Workflows inside workflows inside workflows.
pub const MAX_INCLUDE_DEPTH: usize = 5;

pub(crate) fn request(
    step: &LoadedStep,
    place: &StepKey,
    key: &StepKey,
    around: &Around,
    outer: &[Upstream],
    asks: &Asks<'_>,
) -> Result<StepRequest, StepError> {
    let mut document = asks.spec.document.clone();
    // The loop around it, if there is one: a body's ids are its own.
    let levels = place.segments().len() - asks.spec.place.segments().len();
    let ids = key.segments().iter().rev().take(levels + 1).rev();
    document.extend(ids.map(|segment| segment.id().to_owned()));
    let depth = asks.spec.depth() + 1;
    if depth > MAX_INCLUDE_DEPTH {
        let message = format!("`{}` is {depth} includes deep, and may be {MAX_INCLUDE_DEPTH}", key.step_id());
        return Err(StepError::new(StepErrorClass::Include, message));
    }
    Ok(StepRequest::SubWorkflow(Box::new(SubWorkflowRequest {
        step_id: key.step_id(),
        document,
        depth: u32::try_from(depth).unwrap_or(u32::MAX),
        outer: outer.to_vec(),
        item: around.item.clone(),
        iteration: around.iteration.clone(),
        inputs: asks.spec.inputs.clone(),
        timed_outside: if step.spec.timeout.is_some() { TimedOutside::Yes } else { TimedOutside::No },
        attempt: 1,
        transport_retries: step.spec.max_retries.or(around.transport_retries),
        spent_before: around.spent_before.get(&step.id).copied().unwrap_or_default(),
    })))
}

/// The document behind a path of step ids, from the run's own.
pub fn included(root: &Arc<LoadedWorkflow>, path: &[String]) -> Option<Arc<LoadedWorkflow>> {
    let mut workflow = root.clone();
    let mut body_of: Option<usize> = None;
    for id in path {
        let steps = match body_of.map(|index| &workflow.steps[index].body) {
            None => &workflow.steps,
            Some(StepBody::Loop(it)) => &it.steps,
            Some(_) => return None,
        };
        let index = steps.iter().position(|step| step.id == *id)?;
        let next = match &steps[index].body {
            StepBody::Include(next) => Some(next.clone()),
            StepBody::Loop(_) if body_of.is_none() => None,
            StepBody::Loop(_) | StepBody::Agent | StepBody::Approve(_) => return None,
        };
        match next {
            Some(next) => {
                workflow = next;
                body_of = None;
            }
            None => body_of = Some(index),
        }
    }
    body_of.is_none().then_some(workflow)
}

/// What an included workflow is to the step that included it.
///
/// Content and result are those of the last step (as written) that completed, or the workflow's `outputs` where it
/// has any; the result also says what became of each step, under `innerSteps`, unless the workflow itself gives something of
/// that name, which stays.
pub fn as_step(step_id: &str, outcome: &WorkflowOutcome) -> StepOutcome {
    let last = outcome.steps.iter().rev().find(|(_, record)| record.status == StepStatus::Completed);
    let content = last.map(|(_, record)| record.content.clone()).unwrap_or_default();
    let own = match &outcome.answer {
        Some(Answer::Outputs(outputs)) => Some(outputs.clone()),
        // A workflow whose last step includes another one: what became of its steps is in the record of that step.
        _ => last.and_then(|(id, record)| {
            without_inner_steps(record.result.as_ref()?, &format!("{step_id}.{id}"))
        }),
    };
    let result = with_inner_steps(step_id, own.as_ref(), outcome);
    let output = StepOutput { content, result: Some(result), spent: outcome.spent };
    match outcome.status {
        WorkflowStatus::Completed => StepOutcome::Completed(output),
        WorkflowStatus::Cancelled | WorkflowStatus::Suspended => StepOutcome::Cancelled(output),
        WorkflowStatus::Failed | WorkflowStatus::Partial | WorkflowStatus::BudgetExceeded => {
            let error = outcome.error.clone().unwrap_or_else(|| {
                StepError::new(StepErrorClass::Include, "the included workflow did not complete")
            });
            let inside = outcome.steps.iter().filter_map(|(_, record)| record.error.as_ref());
            // Whose budget it was that ended the workflow, its error says.
            let error = match outcome.status {
                WorkflowStatus::BudgetExceeded => error,
                _ => together(error, inside),
            };
            StepOutcome::Failed { error, output }
        }
    }
}

/// What a step came to, without what became of the steps inside it: that is for expressions, not for whoever runs the workflow.
pub(crate) fn own_result(step: &LoadedStep, step_id: &str, record: &StepRecord) -> Option<JsonText> {
    fn includes(step: &LoadedStep) -> bool {
        match &step.body {
            StepBody::Include(_) => true,
            StepBody::Loop(it) => it.steps.iter().any(includes),
            StepBody::Agent | StepBody::Approve(_) => false,
        }
    }
    match &record.result {
        Some(result) if includes(step) => without_inner_steps(result, step_id),
        result => result.clone(),
    }
}

/// `None` where nothing else is left. What a model or an output calls by that name stays.
fn without_inner_steps(result: &JsonText, step_id: &str) -> Option<JsonText> {
    let Ok(Members(members)) = result.parse() else { return Some(result.clone()) };
    let is_ours =
        |(name, value): &&(String, JsonText)| name == INNER_STEPS && are_steps_inside(value, step_id);
    if !members.iter().any(|member| is_ours(&member)) {
        return Some(result.clone());
    }
    let left: Vec<String> = members
        .iter()
        .filter(|member| !is_ours(member))
        .map(|(name, value)| format!("{}:{}", Value::from(name.as_str()), value.as_str()))
        .collect();
    (!left.is_empty()).then(|| JsonText::from_text(format!("{{{}}}", left.join(","))))
}

/// Whether it is what [`with_inner_steps`] writes of a step, or of a round of a loop: every name begins with the step's, and has a
/// status.
fn are_steps_inside(value: &JsonText, step_id: &str) -> bool {
    let Ok(Members(steps)) = value.parse() else { return false };
    let is_inside = |(name, step): &(String, JsonText)| {
        let below = name.strip_prefix(step_id).is_some_and(|rest| rest.starts_with(['.', '[']));
        let status = step.to_value().get("status").is_some_and(Value::is_string);
        below && status
    };
    !steps.is_empty() && steps.iter().all(is_inside)
}

/// The members of an object, each value as it is written.
struct Members(Vec<(String, JsonText)>);

impl<'de> Deserialize<'de> for Members {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Members, D::Error> {
        struct Reader;
        impl<'de> Visitor<'de> for Reader {
            type Value = Members;

            fn expecting(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                out.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Members, A::Error> {
                let mut members = Vec::new();
                while let Some(member) = map.next_entry()? {
                    members.push(member);
                }
                Ok(Members(members))
            }
        }
        deserializer.deserialize_map(Reader)
    }
}

/// Written as text, so that the numbers of a result stay as the model wrote them.
fn with_inner_steps(step_id: &str, own: Option<&JsonText>, outcome: &WorkflowOutcome) -> JsonText {
    let text = |text: &str| Value::from(text).to_string();
    let members: Vec<String> = outcome
        .steps
        .iter()
        .map(|(id, record)| {
            let result = record.result.as_ref().map(|result| format!(",\"result\":{}", result.as_str()));
            format!(
                "{}:{{\"content\":{},\"status\":{}{}}}",
                text(&format!("{step_id}.{id}")),
                text(&record.content),
                text(record.status.name()),
                result.unwrap_or_default(),
            )
        })
        .collect();
    let inner = format!("\"{INNER_STEPS}\":{{{}}}", members.join(","));
    // A name that the workflow gives itself is what its author wants to read there; loading has said so.
    let names_it = |own: &JsonText| {
        own.parse::<Members>().is_ok_and(|own| own.0.iter().any(|(name, _)| name == INNER_STEPS))
    };
    if let Some(own) = own.filter(|own| names_it(own)) {
        return own.clone();
    }
    let own = own.map(JsonText::as_str).map(str::trim).unwrap_or("{}");
    let joined = match own.strip_suffix('}') {
        Some("{") => format!("{{{inner}}}"),
        Some(open) if open.trim_end() == "{" => format!("{{{inner}}}"),
        Some(open) => format!("{open},{inner}}}"),
        // A result that is no object, which no gate lets through.
        None => format!("{{{inner}}}"),
    };
    JsonText::from_text(joined)
}

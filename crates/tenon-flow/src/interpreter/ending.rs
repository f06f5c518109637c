//! How a run ended: its status, its answer and its error, computed once from the records of its steps.
//!
//! | steps | status |
//! |---|---|
//! | none failed or was cancelled | `completed`; `failed` where one of the `outputs` cannot be evaluated |
//! | some failed or were cancelled, some completed | `partial` |
//! | some failed or were cancelled, none completed | `failed` |
//!
//! A run that was stopped from outside says so instead (`cancelled`, `budget_exceeded`), unless every step had completed
//! anyway. One that waits for a person, and for nothing else, is `suspended`: it has not ended at all.

use serde_json::Value;
use tenon_core::Whose;

use super::attempts::{SetBy, TimeLimit, timed_out};
use super::includes::own_result;
use super::schedule::Graph;
use super::{RunSpec, WallTime};
use crate::cel::CelError;
use crate::{
    Answer, JsonText, OpenStep, Spent, StepError, StepErrorClass, StepKey, StepRecord, StepStatus,
    WorkflowOutcome, WorkflowStatus, run_budget,
};

/// What to do about a journal that cannot be written, where it does not say so itself ([`crate::StepLog::hint`]).
const NOT_KEPT_HINT: &str = "the run goes on where it was, once the journal can be written";

/// Why a run was stopped.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum StopReason {
    Cancelled,
    /// The journal cannot keep what happens any longer.
    NotKept(String),
    /// The journal has lost something.
    Broken(String),
    /// `options.timeout`.
    Timeout,
    Budget(StepError),
}

impl StopReason {
    pub(crate) fn wall_time(limit: WallTime) -> StopReason {
        let error = timed_out(TimeLimit::of_caller(limit), &Whose::Run);
        StopReason::Budget(StepError { message: format!("the run was {}", error.message), ..error })
    }
}

/// A run in which nothing is left to do until somebody answers. What has not ended stays as it is.
pub(crate) fn suspended(
    graph: &Graph,
    open: Vec<OpenStep>,
    spent: Spent,
    duration_ms: u64,
) -> WorkflowOutcome {
    WorkflowOutcome {
        status: WorkflowStatus::Suspended,
        answer: None,
        steps: graph.records().map(|(step, record)| (step.id.clone(), record.clone())).collect(),
        spent,
        duration_ms,
        error: None,
        coordinator: None,
        open,
        questions: Vec::new(),
    }
}

pub(crate) fn outcome(
    spec: &RunSpec,
    graph: &Graph,
    stopped: Option<&StopReason>,
    spent: Spent,
    duration_ms: u64,
) -> WorkflowOutcome {
    let steps: Vec<_> = graph.records().map(|(step, record)| (step.id.clone(), record.clone())).collect();
    let any = |status| steps.iter().any(|(_, record)| record.status == status);
    let unfinished = any(StepStatus::Failed) || any(StepStatus::Cancelled);
    let by_steps = match (unfinished, any(StepStatus::Completed)) {
        (false, _) => WorkflowStatus::Completed,
        (true, true) => WorkflowStatus::Partial,
        (true, false) => WorkflowStatus::Failed,
    };
    let (status, error) = match stopped.filter(|_| unfinished) {
        None => (by_steps, first_failure(&steps)),
        Some(StopReason::Cancelled) => {
            let error = StepError::new(StepErrorClass::Interrupted, "the run was cancelled");
            (WorkflowStatus::Cancelled, Some(error))
        }
        Some(StopReason::NotKept(message)) => {
            let error = StepError::new(StepErrorClass::Journal, message.clone()).hint(NOT_KEPT_HINT);
            (WorkflowStatus::Failed, Some(error))
        }
        Some(StopReason::Broken(message)) => {
            let error = StepError::new(StepErrorClass::Internal, message.clone());
            (WorkflowStatus::Failed, Some(error))
        }
        Some(StopReason::Timeout) => {
            let time = spec.workflow.workflow.options.timeout.unwrap_or_default();
            let whose = spec.whose();
            let error = timed_out(TimeLimit::new(time, SetBy::WorkflowTimeout), &whose);
            let who = match &whose {
                Whose::Run => "the workflow".to_owned(),
                Whose::Document(_) => whose.to_string(),
            };
            (by_steps, Some(StepError { message: format!("{who} was {}", error.message), ..error }))
        }
        Some(StopReason::Budget(error)) => {
            (WorkflowStatus::BudgetExceeded, Some(whose_budget(spec, &spent, error)))
        }
    };
    let (status, answer, error) = match status {
        WorkflowStatus::Completed => match answer(spec, graph) {
            Ok(answer) => (status, answer, None),
            Err(error) => (WorkflowStatus::Failed, None, Some(error)),
        },
        _ => (status, None, error),
    };
    WorkflowOutcome {
        status,
        answer,
        steps,
        spent,
        duration_ms,
        error,
        coordinator: None,
        open: Vec::new(),
        questions: Vec::new(),
    }
}

/// Why a run did not complete, by its steps.
fn first_failure(steps: &[(String, std::sync::Arc<StepRecord>)]) -> Option<StepError> {
    if let Some((id, error)) = steps.iter().find_map(|(id, record)| Some((id, record.error.as_ref()?))) {
        return Some(StepError {
            message: format!("step `{id}` failed: {}", error.message),
            ..error.clone()
        });
    }
    // Somebody stopped it, and not the run.
    let (id, _) = steps.iter().find(|(_, record)| record.status == StepStatus::Cancelled)?;
    Some(StepError::new(StepErrorClass::Interrupted, format!("step `{id}` was cancelled")))
}

/// `outputs` if declared, else what the steps left behind that nothing depends on. A single such step that was skipped left
/// nothing.
fn answer(spec: &RunSpec, graph: &Graph) -> Result<Option<Answer>, StepError> {
    if !spec.workflow.outputs.is_empty() {
        let mut outputs = serde_json::Map::new();
        for (name, expression) in &spec.workflow.outputs {
            let value = match expression.evaluate_value(graph.scope()) {
                Ok(value) => value,
                // Of a step that was skipped, or that left a field out.
                Err(CelError::MissingKey { .. }) => Value::Null,
                Err(error) => {
                    let what = format!("the output `{name}`");
                    return Err(super::scope::expression(&what, expression, &error));
                }
            };
            outputs.insert(name.clone(), value);
        }
        return Ok(Some(Answer::Outputs(JsonText::of(&Value::Object(outputs)))));
    }
    let needed: Vec<usize> =
        spec.workflow.steps.iter().flat_map(|step| step.depends_on.iter().copied()).collect();
    let sinks: Vec<_> = graph
        .records()
        .enumerate()
        .filter(|(index, _)| !needed.contains(index))
        .map(|(_, (step, record))| {
            let result = own_result(step, &step_id(&spec.place, &step.id), record);
            (step.id.as_str(), record, result)
        })
        .collect();
    if let [(_, only, result)] = sinks.as_slice() {
        return Ok(match (result, only.status) {
            (Some(result), _) => Some(Answer::Result(result.clone())),
            (None, StepStatus::Completed) => Some(Answer::Content(only.content.clone())),
            (None, _) => None,
        });
    }
    let members: Vec<String> = sinks
        .iter()
        .map(|(id, record, result)| {
            let value = match (result, record.status) {
                (Some(result), _) => result.as_str().to_owned(),
                (None, StepStatus::Completed) => Value::from(record.content.as_str()).to_string(),
                (None, _) => Value::Null.to_string(),
            };
            format!("{}:{value}", Value::from(*id))
        })
        .collect();
    Ok(Some(Answer::Sinks(JsonText::from_text(format!("{{{}}}", members.join(","))))))
}

fn step_id(place: &StepKey, id: &str) -> String {
    place.child(crate::Segment::new(id)).step_id()
}

/// An included workflow that has used up what its own document allows fails, and more of the same is of no use: whatever is around
/// it may go on. What a document around it allows is said there.
fn whose_budget(spec: &RunSpec, spent: &Spent, error: &StepError) -> StepError {
    let whose = spec.whose();
    let own = used_up(spec, spent).or_else(|| run_budget::is_of(error, &whose).then(|| error.clone()));
    match (own, whose) {
        (Some(own), Whose::Document(_)) => {
            StepError { class: StepErrorClass::Budget, retryable: Some(false), ..own }
        }
        _ => error.clone(),
    }
}

/// Whether a run has used what it may, with work left to do. Earlier attempts at an included workflow count.
pub(crate) fn used_up(spec: &RunSpec, spent: &Spent) -> Option<StepError> {
    let mut all = *spent;
    if let Some(included) = &spec.included {
        all.add(&included.spent_before);
    }
    let used = run_budget::used_up(&spec.workflow, &spec.whose(), spec.limits.max_usd, &all)?;
    let message = format!("{}, and steps are left ({})", used.message, used.set_by);
    Some(StepError::new(StepErrorClass::Budget, message).hint(format!("raise {}", used.set_by)))
}

//! A workflow in a distributed trace: the run is an agent's run, each step a call of it, and the step's agent works for that call.
//! Telemetry knows these already, so spans nest without a word of its own.

use std::sync::Arc;
use std::time::Instant;

use tenon_agent::Emitter;
use tenon_core::{
    Ending, ErrorClass, EventKind, Failure, Metrics, ModelMetrics, Outcome, Signal, Success, ToolErrorKind,
    ToolReport,
};

use crate::{Spent, StepKey, StepOutcome, StepParts, WorkflowOutcome, WorkflowStatus};

/// The name of every step as a call: ids would be too many for a metric.
const STEP: &str = "flow_step";

/// A run or a step that has begun.
pub(crate) struct Traced {
    emitter: Emitter,
    call_id: String,
    since: Instant,
}

impl Traced {
    pub(crate) fn begin(parts: &StepParts) -> Traced {
        let traced = Traced::new(parts, String::new());
        traced.emitter.emit(EventKind::RunStarted(Box::new(parts.template.info.clone())));
        traced
    }

    pub(crate) fn end(self, outcome: &WorkflowOutcome) {
        let ending = match outcome.status {
            WorkflowStatus::Completed => Ending::Success(Success { text: String::new(), payload: None }),
            WorkflowStatus::Cancelled | WorkflowStatus::Suspended => {
                failed(ErrorClass::Interrupted(Signal::Int), outcome)
            }
            WorkflowStatus::BudgetExceeded => failed(ErrorClass::Budget, outcome),
            WorkflowStatus::Partial | WorkflowStatus::Failed => failed(ErrorClass::Tool, outcome),
        };
        let Spent { usage, cost_usd, turns } = outcome.spent;
        let mut metrics = Metrics::default();
        metrics.models.insert(String::new(), ModelMetrics { usage, ..ModelMetrics::default() });
        let ended = Outcome {
            ending,
            turns,
            duration_ms: outcome.duration_ms,
            api_duration_ms: 0,
            metrics,
            denials: Vec::new(),
            warnings: Vec::new(),
            cost_usd,
        };
        self.emitter.emit(EventKind::RunFinished(Arc::new(ended)));
    }

    pub(crate) fn begin_step(parts: &StepParts, key: &StepKey) -> Traced {
        let traced = Traced::new(parts, key.to_string());
        let call_id = traced.call_id.clone();
        traced.emitter.emit(EventKind::ToolStarted { call_id, name: STEP.to_owned(), terminal: false });
        traced
    }

    pub(crate) fn end_step(self, outcome: &StepOutcome) {
        let error = match outcome {
            StepOutcome::Completed(_) | StepOutcome::Elapsed => None,
            StepOutcome::Failed { .. } => Some(ToolErrorKind::Failed),
            StepOutcome::Cancelled(_) => Some(ToolErrorKind::Cancelled),
        };
        self.emitter.emit(EventKind::ToolFinished(ToolReport {
            call_id: self.call_id,
            name: STEP.to_owned(),
            terminal: false,
            content: String::new(),
            drawing: None,
            stored: None,
            error,
            duration_ms: u64::try_from(self.since.elapsed().as_millis()).unwrap_or(u64::MAX),
        }));
    }

    fn new(parts: &StepParts, call_id: String) -> Traced {
        let emitter = Emitter::new(Arc::clone(&parts.sink), Arc::clone(&parts.template.ids), None);
        Traced { emitter, call_id, since: Instant::now() }
    }
}

fn failed(class: ErrorClass, outcome: &WorkflowOutcome) -> Ending {
    let message = outcome.error.as_ref().map(|error| error.message.clone()).unwrap_or_default();
    Ending::Failure(Box::new(Failure::new(class, message)))
}

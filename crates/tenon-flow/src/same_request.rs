//! Is the same asked for as before? Which endings of a run hold when it goes on with another document (`past.rs`).
//!
//! What counts is what an answer may depend on: the words, what came before, the agent. How many steps run at a time, how long
//! they may take, how often a request is repeated and what anything cost does not. An included workflow is the same when
//! everything in it is, and comes to the same.

use std::collections::HashSet;
use std::sync::Arc;

use ring::digest::{SHA256, digest};
use tenon_core::Timestamp;

use crate::interpreter::includes::as_step;
use crate::past::Past;
use crate::retell::{Counts, Listener};
use crate::{
    AgentRequest, Completion, LoadedWorkflow, Notice, Spent, StepKey, StepOutcome, StepRecord, StepRequest,
    SubWorkflowRequest, Upstream, WorkflowOutcome, included,
};

/// What is asked for, as far as the answer may depend on it.
pub(crate) fn request_hash(root: &Arc<LoadedWorkflow>, request: &StepRequest) -> String {
    let agent = match request {
        StepRequest::Agent(request) => included(root, &request.agent.document)
            .zip(request.agent.name.as_deref())
            .and_then(|(document, name)| document.agents.get(name).cloned())
            .map(|agent| serde_json::to_string(&agent.spec).unwrap_or_default()),
        StepRequest::SubWorkflow(_) | StepRequest::Sleep { .. } | StepRequest::Approval(_) => None,
    };
    let text = serde_json::to_string(&(essence(request), agent)).unwrap_or_default();
    digest(&SHA256, text.as_bytes()).as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Without what nobody's answer depends on.
fn essence(request: &StepRequest) -> StepRequest {
    match request {
        StepRequest::Agent(request) => StepRequest::Agent(Box::new(AgentRequest {
            upstream: timeless(&request.upstream),
            outer: timeless(&request.outer),
            transport_retries: None,
            ..(**request).clone()
        })),
        StepRequest::SubWorkflow(request) => StepRequest::SubWorkflow(Box::new(SubWorkflowRequest {
            outer: timeless(&request.outer),
            ..(**request).clone()
        })),
        StepRequest::Sleep { ms } => StepRequest::Sleep { ms: *ms },
        StepRequest::Approval(request) => StepRequest::Approval(request.clone()),
    }
}

fn timeless(upstream: &[Upstream]) -> Vec<Upstream> {
    let record = |record: &StepRecord| StepRecord {
        spent: Spent::default(),
        duration_ms: 0,
        attempts: 0,
        ..record.clone()
    };
    upstream.iter().map(|it| Upstream { id: it.id.clone(), record: Arc::new(record(&it.record)) }).collect()
}

/// Endings count where the same is asked.
pub(crate) struct Same<'a> {
    past: &'a Past,
    root: &'a Arc<LoadedWorkflow>,
    keys: HashSet<StepKey>,
    /// How many were asked something else than before.
    others: usize,
    /// How many that were when each of the included workflows began that are gone through now.
    marks: Vec<usize>,
}

impl Same<'_> {
    pub(crate) fn new<'a>(past: &'a Past, root: &'a Arc<LoadedWorkflow>) -> Same<'a> {
        Same { past, root, keys: HashSet::new(), others: 0, marks: Vec::new() }
    }

    /// What is asked as before.
    pub(crate) fn into_keys(self) -> HashSet<StepKey> {
        self.keys
    }
}

impl Listener for Same<'_> {
    fn asked(&mut self, key: &StepKey, request: &StepRequest) -> Counts {
        let before = match request {
            StepRequest::Sleep { ms } => self.past.due.get(key).map(|due| due.ms == *ms),
            _ => self.past.asked.get(key).map(|asked| *asked == request_hash(self.root, request)),
        };
        match (before, request) {
            (Some(true), StepRequest::SubWorkflow(_)) => {
                self.marks.push(self.others);
                Counts::InsideDecides
            }
            (Some(true), _) => {
                self.keys.insert(key.clone());
                Counts::Yes
            }
            // Time is not what anything was asked.
            (Some(false), StepRequest::Sleep { .. }) | (None, _) => Counts::No,
            (Some(false), _) => {
                self.others += 1;
                Counts::No
            }
        }
    }

    fn went_inside(
        &mut self,
        key: &StepKey,
        step_id: &str,
        outcome: Option<&WorkflowOutcome>,
        known: Option<&Completion>,
    ) -> bool {
        let others = self.marks.pop().unwrap_or(0);
        let all_same = self.others == others;
        let same = match (outcome, known) {
            (Some(outcome), Some(known)) => {
                all_same && same_ending(&as_step(step_id, outcome), &known.outcome)
            }
            // Cut short from outside; or something is in it that was not.
            (None, Some(known)) => all_same && !matches!(known.outcome, StepOutcome::Completed(_)),
            (_, None) => all_same,
        };
        if same {
            self.keys.insert(key.clone());
        }
        same
    }

    fn told(&mut self, _notice: &Notice, _at: Timestamp) {}

    /// What is inside one that is kept is kept.
    fn looks_inside(&self) -> bool {
        true
    }
}

fn same_ending(left: &StepOutcome, right: &StepOutcome) -> bool {
    match (left, right) {
        (StepOutcome::Completed(left), StepOutcome::Completed(right)) => {
            left.content == right.content && left.result == right.result
        }
        (StepOutcome::Failed { error: left, .. }, StepOutcome::Failed { error: right, .. }) => left == right,
        (StepOutcome::Cancelled(_), StepOutcome::Cancelled(_)) => true,
        _ => false,
    }
}

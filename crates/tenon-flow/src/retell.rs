//! A run gone through once more by what its journal knows, without doing anything: the interpreter is a pure function of
//! what has happened, so it says again what it said then.
//!
//! Who looks at a run (`run_view.rs`) and who finds out what another document would change (`same_request.rs`) listen.

use std::collections::BTreeMap;
use std::sync::Arc;

use tenon_core::Timestamp;

use crate::past::Past;
use crate::{
    Action, Completion, Interpreter, LoadedWorkflow, Notice, RunSpec, StepKey, StepRequest, WorkflowOutcome,
    included,
};

pub(crate) trait Listener {
    /// Something is asked for. Whether its ending, if one is known, is the answer.
    fn asked(&mut self, key: &StepKey, request: &StepRequest) -> Counts;

    /// The same, after what went on inside was told, for an included workflow whose inside decides.
    fn went_inside(
        &mut self,
        _key: &StepKey,
        _step_id: &str,
        _outcome: Option<&WorkflowOutcome>,
        _known: Option<&Completion>,
    ) -> bool {
        true
    }

    /// Said when the time was this.
    fn told(&mut self, notice: &Notice, at: Timestamp);

    /// Whether what went on inside an included workflow is told although its end is known.
    fn looks_inside(&self) -> bool {
        false
    }
}

/// Whether an ending that is known is an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Counts {
    Yes,
    No,
    InsideDecides,
}

/// The outcome, if the run came to one.
pub(crate) fn retell(spec: &RunSpec, past: &Past, listener: &mut dyn Listener) -> Option<WorkflowOutcome> {
    one(spec.clone(), &spec.workflow, past, listener)
}

fn one(
    spec: RunSpec,
    root: &Arc<LoadedWorkflow>,
    past: &Past,
    listener: &mut dyn Listener,
) -> Option<WorkflowOutcome> {
    let mut at = *past.began.get(&spec.place)?;
    let mut interpreter = Interpreter::new(spec.clone());
    // What ended, by its place among all endings.
    let mut ended: BTreeMap<u64, &Completion> = BTreeMap::new();
    let mut actions = interpreter.begin(at);
    loop {
        let mut begun = Vec::new();
        for action in actions {
            match action {
                Action::Start { key, request } => {
                    let known = past.ended.get(&key);
                    let verdict = listener.asked(&key, &request);
                    let counts = match (verdict, &request) {
                        (Counts::InsideDecides, StepRequest::SubWorkflow(sub)) => {
                            let outcome = inside(&spec, root, key.clone(), &request, past, listener);
                            let known = known.map(|(_, completion)| completion);
                            listener.went_inside(&key, &sub.step_id, outcome.as_ref(), known)
                        }
                        (Counts::No, _) => false,
                        (Counts::Yes | Counts::InsideDecides, _) => true,
                    };
                    let known = known.filter(|_| counts);
                    if let Some((place, completion)) = known {
                        ended.insert(*place, completion);
                    }
                    if verdict != Counts::InsideDecides && (known.is_none() || listener.looks_inside()) {
                        begun.push((key, request));
                    }
                }
                Action::Tell(notice) => listener.told(&notice, at),
                Action::Cancel { .. } => {}
            }
        }
        for (key, request) in begun {
            inside(&spec, root, key, &request, past, listener);
        }
        let Some((_, completion)) = ended.pop_first() else { break };
        at = completion.at;
        actions = interpreter.complete(completion);
    }
    interpreter.outcome().cloned()
}

/// A workflow that had begun inside this one.
fn inside(
    spec: &RunSpec,
    root: &Arc<LoadedWorkflow>,
    key: StepKey,
    request: &StepRequest,
    past: &Past,
    listener: &mut dyn Listener,
) -> Option<WorkflowOutcome> {
    let StepRequest::SubWorkflow(request) = request else { return None };
    let workflow = included(root, &request.document)?;
    one(spec.included(workflow, key, request), root, past, listener)
}

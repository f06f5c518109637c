//! A run gone through once more by what its journal knows, without doing anything: the interpreter is a pure function of
//! what has happened, so it says again what it said then.
//!
//! Who looks at a run (`run_view.rs`) and who finds out what another document would change (`same_request.rs`) listen.

use std::collections::{BTreeMap, HashSet, VecDeque};
use std::sync::Arc;

use tenon_core::Timestamp;

use crate::past::Past;
use crate::{
    Action, Completion, Interpreter, LoadedWorkflow, Notice, RunSpec, StepKey, StepOutcome, StepOutput,
    StepRequest, WorkflowOutcome, included,
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

    /// This is taken to have happened.
    fn assumed(&mut self, _completion: &Completion) {}

    /// Whether what went on inside an included workflow is told although its end is known.
    fn looks_inside(&self) -> bool {
        false
    }

    /// Which document it is gone through with.
    fn document(&self) -> Document {
        Document::Own
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Document {
    /// The one that the run had.
    Own,
    /// Perhaps another one: what it may spend, and what it would not have started, says nothing about what was done.
    Another,
}

/// Whether an ending that is known is an answer.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Counts {
    Yes,
    /// And what went on inside is not gone through.
    Whole,
    No,
    InsideDecides,
    /// It was not asked for then, and what came after it was done: this is as good as its end.
    Assumed(StepOutcome),
}

/// The outcome, if the run came to one.
pub(crate) fn retell(spec: &RunSpec, past: &Past, listener: &mut dyn Listener) -> Option<WorkflowOutcome> {
    let mut spec = spec.clone();
    spec.earlier = past.earlier();
    let root = Arc::clone(&spec.workflow);
    one(spec, &root, past, listener)
}

fn one(
    spec: RunSpec,
    root: &Arc<LoadedWorkflow>,
    past: &Past,
    listener: &mut dyn Listener,
) -> Option<WorkflowOutcome> {
    let mut at = *past.began.get(&spec.place)?;
    let mut interpreter = Interpreter::new(spec.clone());
    let document = listener.document();
    if document == Document::Another {
        interpreter.recall();
    }
    // What ended, by its place among all endings.
    let mut ended: BTreeMap<u64, &Completion> = BTreeMap::new();
    // What has no end, and of that what is over now that it was told to stop.
    let (mut open, mut closed) = (HashSet::new(), VecDeque::new());
    let mut actions = interpreter.begin(past.pauses.worked(at));
    loop {
        let mut begun = Vec::new();
        for action in actions {
            match action {
                Action::Start { key, request } => {
                    let known = past.ended.get(&key);
                    let verdict = listener.asked(&key, &request);
                    let is_open = matches!(verdict, Counts::Yes | Counts::No);
                    let counts = match (verdict, &request) {
                        (Counts::InsideDecides, StepRequest::SubWorkflow(sub)) => {
                            let outcome = inside(&spec, root, key.clone(), &request, past, listener);
                            let known = known.map(|(_, completion)| completion);
                            listener.went_inside(&key, &sub.step_id, outcome.as_ref(), known)
                        }
                        (Counts::No, _) => false,
                        (Counts::Assumed(outcome), _) => {
                            let completion = Completion { key: key.clone(), at, outcome };
                            listener.assumed(&completion);
                            closed.push_back(completion);
                            false
                        }
                        (Counts::Yes | Counts::Whole | Counts::InsideDecides, _) => true,
                    };
                    let known = known.filter(|_| counts);
                    if let Some((place, completion)) = known {
                        ended.insert(*place, completion);
                    } else {
                        open.insert(key.clone());
                    }
                    if is_open && (known.is_none() || listener.looks_inside()) {
                        begun.push((key, request));
                    }
                }
                Action::Tell(notice) => listener.told(&notice, at),
                // It was not started then, or cut off while it stopped.
                Action::Cancel { key } if document == Document::Another && open.remove(&key) => {
                    let outcome = StepOutcome::Cancelled(StepOutput::default());
                    closed.push_back(Completion { key, at, outcome });
                }
                Action::Cancel { .. } => {}
            }
        }
        for (key, request) in begun {
            inside(&spec, root, key, &request, past, listener);
        }
        if let Some(completion) = closed.pop_front() {
            actions = interpreter.complete(&by_work(past, &completion));
            continue;
        }
        let Some((_, completion)) = ended.pop_first() else { break };
        at = completion.at;
        actions = interpreter.complete(&by_work(past, completion));
    }
    interpreter.outcome().cloned()
}

/// As the interpreter is to count its time.
fn by_work(past: &Past, completion: &Completion) -> Completion {
    Completion { at: past.pauses.worked(completion.at), ..completion.clone() }
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

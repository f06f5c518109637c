//! A run that is kept nowhere: steps are tasks of this process, and the order of their completions is the order in
//! which they end. `--no-journal`, tests, and callers from Rust that need no more.
//!
//! Agents are run by the caller's [`StepRunner`]; time passes by the runtime's clock; an included workflow is a task
//! with an interpreter and a journal of its own.

use std::collections::BTreeMap;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use tenon_core::{BoxFut, Cancel, Timestamp};
use tokio::task::JoinSet;

use crate::interpreter::includes::{as_step, included};
use crate::load::LoadedWorkflow;
use crate::{
    Completion, DurableRun, Interpreter, Notice, RunSpec, StepError, StepErrorClass, StepKey, StepOutcome,
    StepOutput, StepRequest, StepRunner, Stopped, SubWorkflowRequest, WorkflowOutcome, drive,
};

/// How long a step that was told to stop may take to say what it spent. Then it is dropped.
pub const CANCEL_GRACE: Duration = Duration::from_secs(2);

/// Runs a workflow in this process, without a journal on disk. `cancel` ends it in order; firing `kill` too ends it
/// at once.
pub async fn run_in_memory(
    spec: RunSpec,
    runner: Arc<dyn StepRunner>,
    cancel: Cancel,
    kill: Cancel,
) -> WorkflowOutcome {
    let mut journal = MemoryJournal::new(spec.clone(), spec.workflow.clone(), runner, cancel, kill);
    drive(Interpreter::new(spec), &mut journal).await
}

struct MemoryJournal {
    spec: RunSpec,
    /// The run's own document, where the paths of includes begin.
    root: Arc<LoadedWorkflow>,
    runner: Arc<dyn StepRunner>,
    tasks: JoinSet<Completion>,
    /// Of what is under way.
    cancels: BTreeMap<StepKey, Cancel>,
    cancel: Cancel,
    kill: Cancel,
    told: Told,
}

/// What the interpreter knows about the end of the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Told {
    Nothing,
    Cancelled,
    Killed,
}

impl MemoryJournal {
    fn new(
        spec: RunSpec,
        root: Arc<LoadedWorkflow>,
        runner: Arc<dyn StepRunner>,
        cancel: Cancel,
        kill: Cancel,
    ) -> MemoryJournal {
        let (tasks, cancels) = (JoinSet::new(), BTreeMap::new());
        MemoryJournal { spec, root, runner, tasks, cancels, cancel, kill, told: Told::Nothing }
    }

    /// A future of its own type, or the type of a workflow inside a workflow would contain itself.
    fn sub_workflow(
        &self,
        key: StepKey,
        request: Box<SubWorkflowRequest>,
        cancel: Cancel,
    ) -> BoxFut<'static, StepOutcome> {
        let Some(workflow) = included(&self.root, &request.document) else {
            let message = format!("no workflow is included at `{}`", request.step_id);
            return Box::pin(async { failed(StepErrorClass::Include, message) });
        };
        let spec = self.spec.included(workflow, key, &request);
        let mut journal = MemoryJournal::new(
            spec.clone(),
            self.root.clone(),
            self.runner.clone(),
            cancel,
            self.kill.clone(),
        );
        Box::pin(async move { as_step(&request.step_id, &drive(Interpreter::new(spec), &mut journal).await) })
    }
}

impl DurableRun for MemoryJournal {
    fn start(&mut self, key: StepKey, request: StepRequest) {
        let cancel = Cancel::new();
        self.cancels.insert(key.clone(), cancel.clone());
        let work: BoxFut<'static, StepOutcome> = match request {
            StepRequest::Agent(request) => {
                let (runner, key) = (self.runner.clone(), key.clone());
                Box::pin(within_grace(cancel.clone(), async move { runner.run(key, *request, cancel).await }))
            }
            StepRequest::Sleep { ms } => Box::pin(async move {
                tokio::select! {
                    biased;
                    () = cancel.cancelled() => StepOutcome::Cancelled(StepOutput::default()),
                    () = tokio::time::sleep(Duration::from_millis(ms)) => StepOutcome::Elapsed,
                }
            }),
            // Its own steps have the grace.
            StepRequest::SubWorkflow(request) => self.sub_workflow(key.clone(), request, cancel),
        };
        self.tasks.spawn(async move {
            let outcome = AssertUnwindSafe(work).catch_unwind().await.unwrap_or_else(|panic| {
                failed(
                    StepErrorClass::Internal,
                    format!("panic in step `{}`{}", key.step_id(), said(&*panic)),
                )
            });
            Completion { key, at: Timestamp::now(), outcome }
        });
    }

    fn cancel(&mut self, key: &StepKey) {
        if let Some(cancel) = self.cancels.get(key) {
            cancel.cancel();
        }
    }

    async fn next(&mut self) -> Result<Option<Completion>, Stopped> {
        loop {
            tokio::select! {
                biased;
                () = self.kill.cancelled(), if self.told != Told::Killed => {
                    // The first time it is the end; the second time nobody is waited for.
                    self.told = if self.told == Told::Nothing { Told::Cancelled } else { Told::Killed };
                    return Err(Stopped::Cancelled);
                }
                () = self.cancel.cancelled(), if self.told == Told::Nothing => {
                    self.told = Told::Cancelled;
                    return Err(Stopped::Cancelled);
                }
                joined = self.tasks.join_next() => match joined {
                    None => return Ok(None),
                    Some(Ok(completion)) => {
                        self.cancels.remove(&completion.key);
                        return Ok(Some(completion));
                    }
                    // Panics are caught in the task, and nobody aborts one.
                    Some(Err(_)) => {}
                },
            }
        }
    }

    async fn now(&mut self) -> Timestamp {
        Timestamp::now()
    }

    fn tell(&mut self, notice: Notice) {
        self.runner.tell(notice);
    }
}

/// Work that was told to stop and does not is dropped.
async fn within_grace(cancel: Cancel, work: impl Future<Output = StepOutcome>) -> StepOutcome {
    let late = async {
        cancel.cancelled().await;
        tokio::time::sleep(CANCEL_GRACE).await;
    };
    tokio::select! {
        biased;
        outcome = work => outcome,
        () = late => StepOutcome::Cancelled(StepOutput::default()),
    }
}

fn failed(class: StepErrorClass, message: String) -> StepOutcome {
    StepOutcome::Failed { error: StepError::new(class, message), output: StepOutput::default() }
}

fn said(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
    text.map(|text| format!(": {text}")).unwrap_or_default()
}

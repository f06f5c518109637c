//! A run on this machine: steps are tasks of this process, and the order of their completions is the order in which
//! they are kept.
//!
//! Agents are run by the caller's [`StepRunner`]; time passes by the runtime's clock; an included workflow is a task
//! with an interpreter of its own. What is kept, and what is known from before, is the business of a [`StepLog`]: a
//! completion that the log knows is told again, in its old place, and nothing is started for it.

use std::collections::{BTreeMap, VecDeque};
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use tenon_core::{BoxFut, Cancel, Timestamp};
use tokio::task::JoinSet;

use crate::interpreter::includes::{as_step, included};
use crate::load::LoadedWorkflow;
use crate::past::{add_to_steps, total};
use crate::step_log::Begun;
use crate::{
    Completion, DurableRun, Interpreter, NoLog, Notice, RunSpec, StepError, StepErrorClass, StepKey, StepLog,
    StepOutcome, StepOutput, StepRequest, StepRunner, Stopped, SubWorkflowRequest, WorkflowOutcome, drive,
};

/// How long a step that was told to stop may take to say what it spent. Then it is dropped.
pub const CANCEL_GRACE: Duration = Duration::from_secs(2);

/// Runs a workflow in this process and keeps nothing. `cancel` ends it in order; firing `kill` too ends it at once.
pub async fn run_in_memory(
    spec: RunSpec,
    runner: Arc<dyn StepRunner>,
    cancel: Cancel,
    kill: Cancel,
) -> WorkflowOutcome {
    run_locally(spec, runner, Arc::new(NoLog), cancel, kill).await
}

/// The same, kept in a log, and going on from what is in it.
pub async fn run_locally(
    spec: RunSpec,
    runner: Arc<dyn StepRunner>,
    log: Arc<dyn StepLog>,
    cancel: Cancel,
    kill: Cancel,
) -> WorkflowOutcome {
    let dropped = log.dropped();
    let mut spec = spec;
    let lost = total(&dropped);
    spec.before.add(&lost);
    runner.spent_before(&lost);
    let mut run = LocalRun::new(spec.clone(), spec.workflow.clone(), runner, log, cancel, kill);
    let mut outcome = drive(Interpreter::new(spec), &mut run).await;
    add_to_steps(&mut outcome, &dropped);
    outcome
}

struct LocalRun {
    spec: RunSpec,
    /// The run's own document, where the paths of includes begin.
    root: Arc<LoadedWorkflow>,
    runner: Arc<dyn StepRunner>,
    log: Arc<dyn StepLog>,
    /// What ended before, by its old place; each was asked for again.
    again: BTreeMap<u64, Completion>,
    /// What ended and is kept, to be told.
    kept: VecDeque<Completion>,
    /// A workflow begins once.
    began: Option<Timestamp>,
    /// What is going on now was going on before.
    time: Time,
    /// Steps that started before and have not been seen to end: told when the present begins.
    earlier: Vec<Notice>,
    tasks: JoinSet<Result<Completion, String>>,
    /// Of what is under way.
    cancels: BTreeMap<StepKey, Cancel>,
    cancel: Cancel,
    kill: Cancel,
    told: Told,
}

/// Whether what the interpreter says follows from something that happened before the run was cut off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Time {
    Before,
    Now,
}

/// What the interpreter knows about the end of the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Told {
    Nothing,
    Cancelled,
    Killed,
}

impl LocalRun {
    fn new(
        spec: RunSpec,
        root: Arc<LoadedWorkflow>,
        runner: Arc<dyn StepRunner>,
        log: Arc<dyn StepLog>,
        cancel: Cancel,
        kill: Cancel,
    ) -> LocalRun {
        let time = if log.has_begun(&spec.place) { Time::Before } else { Time::Now };
        LocalRun {
            spec,
            root,
            runner,
            log,
            again: BTreeMap::new(),
            kept: VecDeque::new(),
            began: None,
            time,
            earlier: Vec::new(),
            tasks: JoinSet::new(),
            cancels: BTreeMap::new(),
            cancel,
            kill,
            told: Told::Nothing,
        }
    }

    /// Keeps what has ended by now. What was cut short by the end of the run is not an ending: it goes on when the
    /// run does.
    async fn keep(&mut self, first: Completion) -> Result<(), Stopped> {
        let mut ended = vec![first];
        while let Some(joined) = self.tasks.try_join_next() {
            match joined {
                Ok(Ok(completion)) => ended.push(completion),
                Ok(Err(why)) => return Err(Stopped::Broken(why)),
                // Panics are caught in the task, and nobody aborts one.
                Err(_) => {}
            }
        }
        let is_ending = self.told != Told::Nothing;
        let lasting = |completion: &&Completion| match &completion.outcome {
            StepOutcome::Cancelled(_) => !is_ending,
            // Of the run: with more to spend, the step goes on.
            StepOutcome::Failed { error, .. } => error.class != StepErrorClass::Budget,
            StepOutcome::Completed(_) | StepOutcome::Elapsed => true,
        };
        let lasting: Vec<Completion> = ended.iter().filter(lasting).cloned().collect();
        for completion in &ended {
            self.cancels.remove(&completion.key);
        }
        if !lasting.is_empty() {
            self.log.ends(lasting).await.map_err(Stopped::Broken)?;
        }
        self.kept.extend(ended);
        Ok(())
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
        let mut inner = LocalRun::new(
            spec.clone(),
            self.root.clone(),
            self.runner.clone(),
            self.log.clone(),
            cancel,
            self.kill.clone(),
        );
        Box::pin(async move { as_step(&request.step_id, &drive(Interpreter::new(spec), &mut inner).await) })
    }
}

impl DurableRun for LocalRun {
    fn start(&mut self, key: StepKey, request: StepRequest) {
        if let Some((place, completion)) = self.log.ended(&key, &request) {
            if let Some(output) = completion.outcome.output() {
                self.runner.spent_before(&output.spent);
            }
            self.again.insert(place, completion);
            return;
        }
        let cancel = Cancel::new();
        self.cancels.insert(key.clone(), cancel.clone());
        let begins = self.log.begins(&key, &request);
        let is_sleep = matches!(request, StepRequest::Sleep { .. });
        let until = cancel.clone();
        let work: BoxFut<'static, StepOutcome> = match request {
            StepRequest::Agent(request) => {
                let (runner, key, turns) = (self.runner.clone(), key.clone(), self.log.turns(&key));
                let work = async move { runner.run(key, *request, turns, cancel).await };
                Box::pin(within_grace(until.clone(), work))
            }
            StepRequest::Sleep { ms } => sleep(ms, cancel),
            // Its own steps have the grace.
            StepRequest::SubWorkflow(request) => self.sub_workflow(key.clone(), request, cancel),
        };
        self.tasks.spawn(async move {
            let work = match begins.await? {
                Begun { left_ms: Some(left) } if is_sleep => sleep(left, until),
                Begun { .. } => work,
            };
            let outcome = AssertUnwindSafe(work).catch_unwind().await.unwrap_or_else(|panic| {
                failed(
                    StepErrorClass::Internal,
                    format!("panic in step `{}`{}", key.step_id(), said(&*panic)),
                )
            });
            Ok(Completion { key, at: Timestamp::now(), outcome })
        });
    }

    fn cancel(&mut self, key: &StepKey) {
        if let Some(cancel) = self.cancels.get(key) {
            cancel.cancel();
        }
    }

    async fn next(&mut self) -> Result<Option<Completion>, Stopped> {
        loop {
            if let Some((_, completion)) = self.again.pop_first() {
                self.time = Time::Before;
                return Ok(Some(completion));
            }
            self.time = Time::Now;
            for notice in std::mem::take(&mut self.earlier) {
                self.runner.tell(notice);
            }
            if let Some(completion) = self.kept.pop_front() {
                return Ok(Some(completion));
            }
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
                    Some(Ok(Ok(completion))) => self.keep(completion).await?,
                    Some(Ok(Err(why))) => return Err(Stopped::Broken(why)),
                    // Panics are caught in the task, and nobody aborts one.
                    Some(Err(_)) => {}
                },
            }
        }
    }

    async fn now(&mut self) -> Timestamp {
        if self.began.is_some() {
            return Timestamp::now();
        }
        // A log that cannot be written is found out with the first step.
        let began = self.log.began(&self.spec.place).await.unwrap_or_else(|_| Timestamp::now());
        self.began = Some(began);
        began
    }

    fn tell(&mut self, notice: Notice) {
        if self.time == Time::Now {
            return self.runner.tell(notice);
        }
        match notice {
            Notice::Started(_) => self.earlier.push(notice),
            Notice::Ended { key, agent, record } => {
                self.earlier
                    .retain(|earlier| !matches!(earlier, Notice::Started(started) if started.key == key));
                self.runner.tell(Notice::Restored { key, agent, record });
            }
            Notice::NotRun { .. } => self.runner.tell(notice),
            // Told before.
            Notice::Retrying { .. }
            | Notice::Progress { .. }
            | Notice::JudgeFailed { .. }
            | Notice::Restored { .. } => {}
        }
    }
}

fn sleep(ms: u64, cancel: Cancel) -> BoxFut<'static, StepOutcome> {
    Box::pin(async move {
        tokio::select! {
            biased;
            () = cancel.cancelled() => StepOutcome::Cancelled(StepOutput::default()),
            () = tokio::time::sleep(Duration::from_millis(ms)) => StepOutcome::Elapsed,
        }
    })
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

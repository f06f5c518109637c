//! A run on this machine: steps are tasks of this process, and the order of their completions is the order in which
//! they are kept.
//!
//! Agents are run by the caller's [`StepRunner`]; time passes by the runtime's clock; an included workflow is a task
//! with an interpreter of its own. What is kept, and what is known from before, is the business of a [`StepLog`]: a
//! completion that the log knows is told again, in its old place, and nothing is started for it. A run in which nothing but
//! questions to people is left is set aside (`approval_wait.rs`).

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque};
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::FutureExt;
use tenon_core::{BoxFut, Cancel, Timestamp};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use crate::approval_wait::{Busy, Desk, Waiting};
use crate::earlier::{Place, place_of, places_around};
use crate::grace::within_grace;
use crate::interpreter::includes::{as_step, included};
use crate::load::LoadedWorkflow;
use crate::paid::{UnderWay, add_to_steps, plain, spent_by, total};
use crate::step_log::Begun;
use crate::{
    ApprovalRequest, Completion, DurableRun, Interpreter, NoLog, Notice, Question, Role, RunSpec, Segment,
    Started, StepError, StepErrorClass, StepKey, StepLog, StepOutcome, StepOutput, StepRequest, StepRunner,
    Stopped, SubWorkflowRequest, Suspending, WhenStopped, WorkflowOutcome, WorkflowStatus, drive,
};

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
    spec.earlier = log.earlier();
    runner.spent_before(&lost);
    let desk = Desk::new();
    let inside = Arc::new(UnderWay::default());
    let shared = Shared {
        root: spec.workflow.clone(),
        runner,
        log,
        kill,
        desk: Arc::clone(&desk),
        inside: Arc::clone(&inside),
        runners: Arc::default(),
    };
    let mut run = LocalRun::new(spec.clone(), shared, cancel, None);
    let mut outcome = drive(Interpreter::new(spec), &mut run).await;
    if outcome.status == WorkflowStatus::Suspended {
        outcome.questions = desk.open().into_values().collect();
        inside.add_to(&mut outcome);
    }
    add_to_steps(&mut outcome, &dropped);
    outcome
}

/// What a run shares with the workflows inside it.
#[derive(Clone)]
struct Shared {
    /// The run's own document, where the paths of includes begin.
    root: Arc<LoadedWorkflow>,
    runner: Arc<dyn StepRunner>,
    log: Arc<dyn StepLog>,
    kill: Cancel,
    desk: Arc<Desk>,
    inside: Arc<UnderWay>,
    runners: Arc<Mutex<Runners>>,
}

/// Who runs the steps of included workflows that have rules of their own, by their place whichever attempt.
type Runners = HashMap<Vec<Segment>, Arc<dyn StepRunner>>;

struct LocalRun {
    spec: RunSpec,
    shared: Shared,
    /// What ended before, by its old place; each was asked for again.
    again: BTreeMap<u64, Completion>,
    /// What ended and is kept, to be told.
    kept: VecDeque<(Completion, Option<Busy>)>,
    /// Of what was told to stop, until it has.
    stopping: BTreeMap<StepKey, Busy>,
    /// Until what follows from the last completion has been started.
    holding: Option<Busy>,
    /// Questions that somebody is to be told of.
    asked: mpsc::UnboundedReceiver<(Notice, Busy)>,
    asking: mpsc::UnboundedSender<(Notice, Busy)>,
    /// A workflow begins once.
    began: Option<Timestamp>,
    /// What is going on now was going on before.
    time: Time,
    /// What is to be started when the present begins: until then it is not known whether it may.
    unstarted: Vec<(StepKey, StepRequest)>,
    /// Steps that have started: told before anything else of them happens now, and not at all if nothing does.
    begun: Vec<BegunStep>,
    /// Of these, what had ended before, and is about to be told so.
    recalled: HashSet<Place>,
    /// Steps that were told to have started, and are to be told to have ended.
    running: HashSet<Place>,
    tasks: JoinSet<Result<(Completion, Option<Busy>), String>>,
    /// Of what is under way.
    cancels: BTreeMap<StepKey, Cancel>,
    cancel: Cancel,
    told: Told,
}

/// A step that has started, and what inside it is not run: told after its start, or before its end where that is told again.
struct BegunStep {
    started: Started,
    left_out: Vec<Notice>,
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
    fn new(spec: RunSpec, shared: Shared, cancel: Cancel, holding: Option<Busy>) -> LocalRun {
        let time = if shared.log.has_begun(&spec.place) { Time::Before } else { Time::Now };
        let (asking, asked) = mpsc::unbounded_channel();
        LocalRun {
            spec,
            shared,
            again: BTreeMap::new(),
            kept: VecDeque::new(),
            stopping: BTreeMap::new(),
            holding,
            asked,
            asking,
            began: None,
            time,
            unstarted: Vec::new(),
            begun: Vec::new(),
            recalled: HashSet::new(),
            running: HashSet::new(),
            tasks: JoinSet::new(),
            cancels: BTreeMap::new(),
            cancel,
            told: Told::Nothing,
        }
    }

    /// Keeps what has ended by now. What was cut short by the end of the run is not an ending: it goes on when the
    /// run does.
    async fn keep(&mut self, first: (Completion, Option<Busy>)) -> Result<(), Stopped> {
        let mut ended = vec![first];
        while let Some(joined) = self.tasks.try_join_next() {
            match joined {
                Ok(Ok(completion)) => ended.push(completion),
                Ok(Err(why)) => return Err(Stopped::NotKept(why)),
                // Panics are caught in the task, and nobody aborts one.
                Err(_) => {}
            }
        }
        let is_ending = self.told != Told::Nothing;
        let lasting = |completion: &&Completion| match &completion.outcome {
            StepOutcome::Cancelled(_) => !is_ending,
            // Of the run: with more to spend, the step goes on.
            StepOutcome::Failed { error, .. } => !error.is_of_everybody(),
            StepOutcome::Completed(_) | StepOutcome::Elapsed => true,
        };
        let lasting: Vec<Completion> =
            ended.iter().map(|(completion, _)| completion).filter(lasting).cloned().collect();
        for (completion, _) in &ended {
            self.cancels.remove(&completion.key);
            self.stopping.remove(&completion.key);
        }
        if !lasting.is_empty() {
            self.shared.log.ends(lasting).await.map_err(Stopped::NotKept)?;
        }
        self.kept.extend(ended);
        Ok(())
    }

    /// Nothing but questions is left: the run is set aside, unless an answer has come just now.
    async fn rest(&mut self, waiting: BTreeSet<StepKey>) -> Result<(), Stopped> {
        let Some(approvals) = self.shared.log.approvals() else { return Ok(()) };
        match approvals.suspend(waiting.into_iter().collect()).await.map_err(Stopped::NotKept)? {
            Suspending::Done => Err(Stopped::Suspended),
            Suspending::Answered => {
                self.shared.desk.look_again();
                Ok(())
            }
        }
    }

    /// As the interpreter is to count its time. What it is told is known to it, and to nobody around it.
    fn hand_over(&self, completion: Completion) -> Completion {
        if self.spec.included.is_some() {
            self.shared.inside.add(&self.spec.place, &spent_by(&completion));
        }
        Completion { at: self.shared.log.worked(completion.at), ..completion }
    }

    /// Says what has started, but for what is about to be told to have ended before.
    fn tell_begun(&mut self) {
        let (unsaid, said) = std::mem::take(&mut self.begun)
            .into_iter()
            .partition(|begun| self.recalled.contains(&place_of(&begun.started.key)));
        self.begun = unsaid;
        for BegunStep { started, left_out } in said {
            self.running.insert(place_of(&started.key));
            self.shared.runner.tell(Notice::Started(started));
            left_out.into_iter().for_each(|notice| self.shared.runner.tell(notice));
        }
    }

    fn start_now(&mut self, key: StepKey, request: StepRequest) {
        let cancel = Cancel::new();
        self.cancels.insert(key.clone(), cancel.clone());
        let Shared { runner, log, desk, .. } = &self.shared;
        let begins = log.begins(&key, &request);
        let mut busy = LocalRun::is_work(&key, &request).then(|| desk.busy());
        let work = match request {
            StepRequest::Agent(request) => {
                let (runner, key, turns) = (runner.clone(), key.clone(), log.turns(&key));
                let until = cancel.clone();
                let when_stopped = runner.when_told_to_stop();
                let work = async move { runner.run(key, *request, turns, cancel).await };
                match when_stopped {
                    WhenStopped::EndsByItself => Work::Step(Box::pin(work)),
                    WhenStopped::DroppedAfterGrace => Work::Step(Box::pin(async move {
                        let nothing = || StepOutcome::Cancelled(StepOutput::default());
                        within_grace(&until, work).await.unwrap_or_else(nothing)
                    })),
                }
            }
            StepRequest::Sleep { ms } => Work::Sleep { ms, cancel },
            // Its own steps have the grace.
            StepRequest::SubWorkflow(request) => {
                Work::Inner(self.sub_workflow(key.clone(), request, cancel, busy.take()))
            }
            StepRequest::Approval(request) => Work::Question(self.waiting(key.clone(), cancel), request),
        };
        self.tasks.spawn(async move {
            let begun = begins.await?;
            let work = AssertUnwindSafe(work.carry_out(begun, busy)).catch_unwind().await;
            let (outcome, busy) = work.unwrap_or_else(|panic| {
                let message = format!("panic in step `{}`{}", key.step_id(), said(&*panic));
                Ok((failed(StepErrorClass::Internal, message), None))
            })?;
            Ok((Completion { key, at: Timestamp::now(), outcome }, busy))
        });
    }

    /// A future of its own type, or the type of a workflow inside a workflow would contain itself.
    fn sub_workflow(
        &self,
        key: StepKey,
        request: Box<SubWorkflowRequest>,
        cancel: Cancel,
        busy: Option<Busy>,
    ) -> BoxFut<'static, (StepOutcome, Option<Busy>)> {
        let Some(workflow) = included(&self.shared.root, &request.document) else {
            let message = format!("no workflow is included at `{}`", request.step_id);
            return Box::pin(async { (failed(StepErrorClass::Include, message), busy) });
        };
        let mut shared = self.shared.clone();
        shared.runner = self.runner_inside(&workflow, &key);
        let spec = self.spec.included(workflow, key, &request);
        let mut inner = LocalRun::new(spec.clone(), shared, cancel, busy);
        Box::pin(async move {
            let outcome = drive(Interpreter::new(spec), &mut inner).await;
            inner.shared.inside.over(&inner.spec.place);
            (as_step(&request.step_id, &outcome), inner.holding.take())
        })
    }

    /// Who runs the steps of an included workflow: the same for all attempts at it, so that what it may spend is spent once.
    fn runner_inside(&self, workflow: &LoadedWorkflow, key: &StepKey) -> Arc<dyn StepRunner> {
        let Shared { runner, log, runners, .. } = &self.shared;
        let mut runners = runners.lock().unwrap_or_else(PoisonError::into_inner);
        let place = plain(key.segments());
        if let Some(known) = runners.get(&place) {
            return Arc::clone(known);
        }
        let name = self.spec.name_of(workflow);
        let Some(inside) = runner.inside(workflow, &name, &log.paid_in_all_attempts(key)) else {
            return Arc::clone(runner);
        };
        runners.insert(place, Arc::clone(&inside));
        inside
    }

    /// Whether it is work that keeps the run from being set aside. Time limits are none.
    fn is_work(key: &StepKey, request: &StepRequest) -> bool {
        let is_limit = matches!(key.role(), Role::Timeout | Role::JudgeTimeout | Role::Limit);
        !(is_limit && matches!(request, StepRequest::Sleep { .. }))
    }

    fn waiting(&self, key: StepKey, cancel: Cancel) -> Result<Waiting, String> {
        let Shared { log, desk, .. } = &self.shared;
        let kept = "a run that is not kept cannot wait for an approval".to_owned();
        let approvals = log.approvals().ok_or(kept)?;
        Ok(Waiting { key, desk: Arc::clone(desk), approvals, told: self.asking.clone(), cancel })
    }
}

/// What is done behind a key, once its start is kept.
enum Work {
    Step(BoxFut<'static, StepOutcome>),
    Sleep { ms: u64, cancel: Cancel },
    Inner(BoxFut<'static, (StepOutcome, Option<Busy>)>),
    Question(Result<Waiting, String>, Box<ApprovalRequest>),
}

impl Work {
    async fn carry_out(
        self,
        begun: Begun,
        busy: Option<Busy>,
    ) -> Result<(StepOutcome, Option<Busy>), String> {
        match self {
            Work::Step(work) => Ok((work.await, busy)),
            Work::Sleep { ms, cancel } => Ok((sleep(begun.left_ms.unwrap_or(ms), cancel).await, busy)),
            Work::Inner(work) => Ok(work.await),
            Work::Question(waiting, request) => {
                let waiting = waiting?;
                let asked = begun.asked.unwrap_or_else(Timestamp::now);
                let busy = busy.unwrap_or_else(|| waiting.desk.busy());
                let (outcome, busy) = waiting.answer(Question { request: *request, asked }, busy).await?;
                Ok((outcome, Some(busy)))
            }
        }
    }
}

impl DurableRun for LocalRun {
    fn start(&mut self, key: StepKey, request: StepRequest) {
        if let Some((place, completion)) = self.shared.log.ended(&key, &request) {
            if let Some(output) = completion.outcome.output() {
                self.shared.runner.spent_before(&output.spent);
            }
            self.again.insert(place, completion);
            self.recalled.insert(place_of(&key));
            return;
        }
        match self.time {
            Time::Before => self.unstarted.push((key, request)),
            Time::Now => {
                self.tell_begun();
                self.start_now(key, request);
            }
        }
    }

    fn cancel(&mut self, key: &StepKey) {
        if let Some(at) = self.unstarted.iter().position(|(unstarted, _)| unstarted == key) {
            let (key, _) = self.unstarted.remove(at);
            let spent = self.shared.log.paid_inside(&key);
            let outcome = StepOutcome::Cancelled(StepOutput { spent, ..StepOutput::default() });
            self.kept.push_back((Completion { key, at: Timestamp::now(), outcome }, None));
        } else if let Some(cancel) = self.cancels.get(key) {
            cancel.cancel();
            self.stopping.insert(key.clone(), self.shared.desk.busy());
        }
    }

    fn recalls(&self) -> bool {
        self.time == Time::Before && (self.began.is_none() || !self.again.is_empty())
    }

    async fn next(&mut self) -> Result<Option<Completion>, Stopped> {
        loop {
            if let Some((_, completion)) = self.again.pop_first() {
                self.time = Time::Before;
                return Ok(Some(self.hand_over(completion)));
            }
            self.time = Time::Now;
            self.recalled.clear();
            self.tell_begun();
            for (key, request) in std::mem::take(&mut self.unstarted) {
                self.start_now(key, request);
            }
            if let Some((completion, busy)) = self.kept.pop_front() {
                self.holding = busy;
                return Ok(Some(self.hand_over(completion)));
            }
            self.holding = None;
            let may_rest = self.spec.included.is_none() && self.told == Told::Nothing;
            tokio::select! {
                biased;
                () = self.shared.kill.cancelled(), if self.told != Told::Killed => {
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
                    Some(Ok(Err(why))) => return Err(Stopped::NotKept(why)),
                    // Panics are caught in the task, and nobody aborts one.
                    Some(Err(_)) => {}
                },
                Some((notice, _busy)) = self.asked.recv() => self.shared.runner.tell(notice),
                waiting = self.shared.desk.idle(), if may_rest => self.rest(waiting).await?,
            }
        }
    }

    async fn now(&mut self) -> Timestamp {
        if self.began.is_some() {
            return self.shared.log.worked(Timestamp::now());
        }
        // A log that cannot be written is found out with the first step.
        let began = self.shared.log.began(&self.spec.place).await.unwrap_or_else(|_| Timestamp::now());
        self.began = Some(began);
        self.shared.log.worked(began)
    }

    fn tell(&mut self, notice: Notice) {
        let notice = match notice {
            // What it cost to have given up before was paid for this step.
            Notice::Ended { key, agent, mut record } => {
                if let Some(spent) = self.shared.log.given_up(&key) {
                    Arc::make_mut(&mut record).spent.add(&spent);
                }
                Notice::Ended { key, agent, record }
            }
            other => other,
        };
        match (notice, self.time) {
            (Notice::Started(started), _) => {
                self.begun.push(BegunStep { started, left_out: Vec::new() });
            }
            (Notice::Ended { key, agent, record }, Time::Before) => {
                let place = place_of(&key);
                let is_it = |begun: &mut BegunStep| place_of(&begun.started.key) == place;
                for BegunStep { left_out, .. } in self.begun.extract_if(.., is_it) {
                    left_out.into_iter().for_each(|notice| self.shared.runner.tell(notice));
                }
                let was_told = self.running.remove(&place);
                self.shared.runner.tell(match was_told {
                    true => Notice::Ended { key, agent, record },
                    false => Notice::Restored { key, agent, record },
                });
            }
            (Notice::NotRun { key, agent, why, condition, record }, _) => {
                let around = places_around(&key);
                let is_around = |begun: &&mut BegunStep| around.contains(&place_of(&begun.started.key));
                let notice = Notice::NotRun { key, agent, why, condition, record };
                match self.begun.iter_mut().rev().find(is_around) {
                    Some(begun) => begun.left_out.push(notice),
                    None => self.shared.runner.tell(notice),
                }
            }
            (notice, Time::Now) => {
                self.tell_begun();
                if let Notice::Ended { key, .. } = &notice {
                    self.running.remove(&place_of(key));
                }
                self.shared.runner.tell(notice);
            }
            // Told before.
            (
                Notice::Retrying { .. }
                | Notice::Progress { .. }
                | Notice::Asked { .. }
                | Notice::JudgeFailed { .. }
                | Notice::Restored { .. },
                Time::Before,
            ) => {}
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

fn failed(class: StepErrorClass, message: String) -> StepOutcome {
    StepOutcome::Failed { error: StepError::new(class, message), output: StepOutput::default() }
}

fn said(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
    text.map(|text| format!(": {text}")).unwrap_or_default()
}

//! The interpreter of a workflow: `state = fold(document, completions in order)`.
//!
//! Nothing here waits, measures time, draws lots or touches a file: [`Interpreter::complete`] takes what happened and
//! returns what to do next, and the same completions in the same order always give the same actions. That is what a
//! journal replays. Whoever does the work stands behind the port (`port.rs`); `drive.rs` is the loop between the two.
//!
//! A workflow is a tree while it runs. Start reading at `interpreter/schedule.rs`: a graph of steps, of which some are
//! under way. A step under way is one errand with its attempts (`attempts.rs`, `retry.rs`), a loop (`repeat.rs`,
//! `for_each.rs`) whose iterations (`body.rs`) are errands or graphs again, or an included workflow (`includes.rs`).
//! What expressions and prompts see is gathered in `scope.rs`; how a run ends is decided in `ending.rs`.

mod attempts;
mod body;
mod ended;
mod ending;
mod for_each;
pub(crate) mod includes;
mod repeat;
mod retry;
mod run_spec;
mod schedule;
mod scope;

use std::collections::BTreeMap;
use std::sync::Arc;

use tenon_core::Timestamp;

pub use self::for_each::MAX_ITEMS_AT_A_TIME;
pub use self::run_spec::{AtOnce, Included, MoneyLimit, RunLimits, RunSpec, WallTime};

use self::attempts::{Deadline, SetBy, TimeLimit};
use self::ending::StopReason;
use self::schedule::{Graph, Policy};
use self::scope::{Around, OuterFor, StepList};
use crate::cel::Scope;
use crate::{
    Completion, NotRun, Notice, Role, Spent, StepError, StepKey, StepRequest, Stopped, TimedOutside,
    WorkflowOutcome,
};

/// Steps at a time, when neither the document nor its caller says.
pub const DEFAULT_MAX_CONCURRENCY: u32 = 5;

/// What is to be done next, in this order.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    Start { key: StepKey, request: StepRequest },
    Cancel { key: StepKey },
    Tell(Notice),
}

/// A workflow while it runs.
#[derive(Clone, Debug)]
pub struct Interpreter {
    spec: Arc<RunSpec>,
    began: Timestamp,
    /// The latest time that was told: what had ended before may be told late.
    now: Timestamp,
    graph: Option<Graph>,
    timeout: Option<Deadline>,
    wall_time: Option<Deadline>,
    stopped: Option<StopReason>,
    spent: Spent,
    /// Whether what was spent is held against what may be spent.
    budgets: Budgets,
    outcome: Option<WorkflowOutcome>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Budgets {
    Watched,
    /// What had happened is told again. It was paid for, whatever may be paid for now.
    OfThePast,
}

impl Interpreter {
    pub fn new(spec: RunSpec) -> Interpreter {
        Interpreter {
            spent: spec.before,
            spec: Arc::new(spec),
            began: Timestamp(0),
            now: Timestamp(0),
            graph: None,
            timeout: None,
            wall_time: None,
            stopped: None,
            budgets: Budgets::Watched,
            outcome: None,
        }
    }

    /// From now on it is told what happened before the run was cut off, until [`Interpreter::present`].
    pub fn recall(&mut self) {
        self.budgets = Budgets::OfThePast;
    }

    /// Everything that had happened is told.
    pub fn present(&mut self, at: Timestamp) -> Vec<Action> {
        if self.budgets == Budgets::Watched {
            return Vec::new();
        }
        self.budgets = Budgets::Watched;
        let spec = self.spec.clone();
        let mut actions = Vec::new();
        let mut asks = Asks::new(&spec, self.clock(at), &mut actions, Ends::of(self.stopped.as_ref()));
        asks.exhausted = self.used_up();
        self.after(asks);
        actions
    }

    fn clock(&mut self, at: Timestamp) -> Clock {
        self.now = self.now.max(at);
        Clock { at, now: self.now }
    }

    /// Whether more may be spent. What had happened before is told again whatever may be paid for now.
    fn used_up(&self) -> Option<StepError> {
        let is_over = self.graph.as_ref().is_some_and(Graph::is_over);
        match self.budgets {
            Budgets::Watched if !is_over => ending::used_up(&self.spec, &self.spent),
            Budgets::Watched | Budgets::OfThePast => None,
        }
    }

    /// The first steps. Once, before anything else.
    pub fn begin(&mut self, at: Timestamp) -> Vec<Action> {
        self.began = at;
        let spec = self.spec.clone();
        let mut actions = Vec::new();
        let mut asks = Asks::new(&spec, self.clock(at), &mut actions, Ends::of(self.stopped.as_ref()));
        let options = &spec.workflow.workflow.options;
        let outside = spec.included.as_ref().map_or(TimedOutside::No, |included| included.timed_outside);
        if let (Some(timeout), TimedOutside::No) = (options.timeout, outside) {
            let limit = TimeLimit::new(timeout, SetBy::WorkflowTimeout);
            self.timeout = Some(Deadline::start(spec.place.with_role(Role::Timeout), limit, &mut asks));
        }
        if let Some(limit) = spec.limits.wall_time.map(TimeLimit::of_caller) {
            self.wall_time = Some(Deadline::start(spec.place.with_role(Role::Limit), limit, &mut asks));
        }
        asks.exhausted = self.used_up();
        let (place, list) = (spec.place.clone(), StepList::top(spec.workflow.clone()));
        self.graph = Some(match asks.exhausted {
            Some(_) => Graph::unstarted(place, list, around(&spec)),
            None => {
                let policy = Policy::of(options, spec.limits.max_concurrency, spec.at_once);
                Graph::start(place, list, around(&spec), policy, &mut asks)
            }
        });
        self.after(asks);
        actions
    }

    /// What follows from something that is over.
    pub fn complete(&mut self, completion: &Completion) -> Vec<Action> {
        let spec = self.spec.clone();
        let mut actions = Vec::new();
        let mut asks =
            Asks::new(&spec, self.clock(completion.at), &mut actions, Ends::of(self.stopped.as_ref()));
        if let Some(output) = completion.outcome.output() {
            self.spent.add(&output.spent);
            // Known before anything else is started. A run that is being stopped ends for its first reason.
            asks.exhausted = self.used_up().filter(|_| self.stopped.is_none());
        }
        if self.timeout.as_mut().is_some_and(|timeout| timeout.fires(completion)) {
            self.halt(StopReason::Timeout, &mut asks);
        } else if let Some(limit) = spec.limits.wall_time
            && self.wall_time.as_mut().is_some_and(|deadline| deadline.fires(completion))
        {
            self.halt(StopReason::wall_time(limit), &mut asks);
        } else if let Some(graph) = &mut self.graph {
            graph.complete(completion, &mut asks);
        }
        self.after(asks);
        actions
    }

    /// The run is to end: what is under way is told to stop, and nothing new is started. A run that is only set aside ends
    /// at once, as it stands.
    pub fn stop(&mut self, stopped: &Stopped, at: Timestamp) -> Vec<Action> {
        let spec = self.spec.clone();
        let mut actions = Vec::new();
        let mut asks = Asks::new(&spec, self.clock(at), &mut actions, Ends::of(self.stopped.as_ref()));
        if self.graph.is_none() {
            self.began = at;
            self.graph = Some(Graph::unstarted(
                spec.place.clone(),
                StepList::top(spec.workflow.clone()),
                around(&spec),
            ));
        }
        let reason = match stopped {
            Stopped::Cancelled => StopReason::Cancelled,
            Stopped::NotKept(message) => StopReason::NotKept(message.clone()),
            Stopped::Broken(message) => StopReason::Broken(message.clone()),
            Stopped::Suspended => {
                // Nobody works, so nobody need be told to stop, and nothing of it is said to have ended.
                let duration_ms = at.0.saturating_sub(self.began.0);
                let graph = self.graph.as_ref().filter(|_| self.outcome.is_none());
                if let Some(graph) = graph {
                    let open = graph.open(&asks);
                    self.outcome = Some(ending::suspended(graph, open, self.spent, duration_ms));
                }
                return actions;
            }
        };
        self.halt(reason, &mut asks);
        self.after(asks);
        actions
    }

    /// Gives up on whatever has not said that it stopped.
    pub fn abandon(&mut self, at: Timestamp) -> Vec<Action> {
        let spec = self.spec.clone();
        let mut actions = Vec::new();
        let mut asks = Asks::new(&spec, self.clock(at), &mut actions, Ends::of(self.stopped.as_ref()));
        if let Some(graph) = &mut self.graph {
            graph.abandon(&mut asks);
        }
        self.after(asks);
        actions
    }

    /// Once everything is over.
    pub fn outcome(&self) -> Option<&WorkflowOutcome> {
        self.outcome.as_ref()
    }

    fn halt(&mut self, reason: StopReason, asks: &mut Asks<'_>) {
        if self.stopped.is_some() || self.outcome.is_some() {
            return;
        }
        asks.ends = Ends::of(Some(&reason));
        self.stopped = Some(reason);
        if let Some(graph) = &mut self.graph {
            graph.stop(asks);
        }
    }

    /// Budgets, and whether that was all.
    fn after(&mut self, mut asks: Asks<'_>) {
        // Nobody asks for more where everything is over, whatever came of it.
        let is_done = |graph: &Graph| graph.is_over() && !graph.was_refused();
        if let Some(error) = asks.exhausted.take().filter(|_| !self.graph.as_ref().is_some_and(is_done)) {
            self.halt(StopReason::Budget(error), &mut asks);
        }
        if self.outcome.is_some() {
            return;
        }
        if let Some(graph) = self.graph.as_ref().filter(|graph| graph.is_over()) {
            let duration_ms = asks.clock.now.0.saturating_sub(self.began.0);
            let outcome = ending::outcome(asks.spec, graph, self.stopped.as_ref(), self.spent, duration_ms);
            self.outcome = Some(outcome);
            for timer in [self.timeout.take(), self.wall_time.take()].into_iter().flatten() {
                timer.close(&mut asks);
            }
        }
    }
}

/// What the steps of the document's own level see around them.
fn around(spec: &RunSpec) -> Around {
    let given = spec.included.as_ref();
    let mut scope = Scope::new().with_inputs(Arc::new(spec.inputs.to_value()));
    let (item, iteration) = (given.and_then(|it| it.item.clone()), given.and_then(|it| it.iteration.clone()));
    if let Some(item) = &item {
        scope = scope.with_item(Arc::new(item.value.to_value()), item.index as usize);
    }
    if let Some(iteration) = &iteration {
        scope = scope.with_iteration(iteration.number as usize);
    }
    Around {
        scope,
        outer: given.map(|it| it.outer.clone()).unwrap_or_default().into(),
        outer_for: OuterFor::Beginners,
        item,
        iteration,
        transport_retries: given.and_then(|it| it.transport_retries),
        spent_before: BTreeMap::new(),
    }
}

/// Where decisions are written down while completions are worked off.
pub(crate) struct Asks<'a> {
    pub spec: &'a RunSpec,
    clock: Clock,
    actions: &'a mut Vec<Action>,
    /// The run's budget is used up: nothing more is started.
    pub exhausted: Option<StepError>,
    ends: Ends,
}

/// When something ended, and the present, which is later where that is told late.
#[derive(Clone, Copy, Debug)]
struct Clock {
    at: Timestamp,
    now: Timestamp,
}

/// Why steps of a run are stopped, if they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ends {
    WithoutBudget,
    /// Or not at all.
    Otherwise,
}

impl Ends {
    fn of(reason: Option<&StopReason>) -> Ends {
        match reason {
            Some(StopReason::Budget(_)) => Ends::WithoutBudget,
            _ => Ends::Otherwise,
        }
    }
}

impl<'a> Asks<'a> {
    fn new(spec: &'a RunSpec, clock: Clock, actions: &'a mut Vec<Action>, ends: Ends) -> Asks<'a> {
        Asks { spec, clock, actions, exhausted: None, ends }
    }

    /// Since when something that starts now is under way.
    pub(crate) fn since(&self, key: &StepKey) -> Timestamp {
        self.spec.earlier.since(key, self.clock.now)
    }

    /// How long was worked on something that has just ended.
    pub(crate) fn took(&self, key: &StepKey, since: Timestamp) -> u64 {
        self.spec.earlier.took(key, since, self.clock.at)
    }

    /// Why a step that is left out now is not run.
    pub(crate) fn why_not_run(&self) -> NotRun {
        match (&self.exhausted, self.ends) {
            (None, Ends::Otherwise) => NotRun::RunEnded,
            (Some(_), _) | (_, Ends::WithoutBudget) => NotRun::BudgetExceeded,
        }
    }

    pub(crate) fn start(&mut self, key: StepKey, request: StepRequest) {
        self.actions.push(Action::Start { key, request });
    }

    pub(crate) fn cancel(&mut self, key: StepKey) {
        self.actions.push(Action::Cancel { key });
    }

    pub(crate) fn tell(&mut self, notice: Notice) {
        self.actions.push(Action::Tell(notice));
    }
}

/// Something that may be over as soon as it is begun.
pub(crate) enum Begun<T, E> {
    Running(T),
    Over(E),
}

pub(crate) fn whole_ms(duration: std::time::Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

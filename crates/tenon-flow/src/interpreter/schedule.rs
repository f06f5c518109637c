//! One level of steps: which are ready, which of those start next, and what a failure does to the others.
//!
//! | a step that it depends on | the step |
//! |---|---|
//! | completed | runs |
//! | skipped by its condition | runs |
//! | failed, `onStepFailure: cascade` | is cancelled, and so is what depends on it |
//! | failed, `onStepFailure: skip-dependents` | is skipped, and so is what depends on it |
//! | failed, `onStepFailure: abort` | is cancelled, as is everything that has not started; what is running is told to stop |
//!
//! A condition is evaluated once, when all dependencies are over. False, or a question for data that is not there,
//! skips the step; any other error fails it.

use std::collections::BTreeMap;
use std::sync::Arc;

use tenon_core::Timestamp;

use super::attempts::{Attempts, Errand, SetBy, TimeLimit};
use super::ended::Ended;
use super::for_each::ForEach;
use super::repeat::Repeat;
use super::scope::{self, Around, Seen, StepList};
use super::{Asks, Begun, DEFAULT_MAX_CONCURRENCY, body::LoopPlace, includes};
use crate::cel::{CelError, Expression, Scope};
use crate::document::{OnStepFailure, Options, Scheduler};
use crate::load::{LoadedStep, LoopKind, StepBody};
use crate::{
    AtOnce, Completion, NotRun, Notice, OpenStatus, OpenStep, Role, Segment, Spent, Started, StepError,
    StepErrorClass, StepKey, StepKind, StepRecord, StepRequest, StepStatus, Upstream,
};

/// How a level is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Policy {
    pub max_concurrency: u32,
    pub scheduler: Scheduler,
    pub on_failure: OnStepFailure,
}

impl Policy {
    pub(crate) fn of(options: &Options, fallback: Option<u32>, at_once: AtOnce) -> Policy {
        let positive = |count: Option<u32>| count.filter(|count| *count > 0);
        let max_concurrency = match at_once {
            AtOnce::Everything => u32::MAX,
            AtOnce::AsWritten => {
                positive(options.max_concurrency).or(positive(fallback)).unwrap_or(DEFAULT_MAX_CONCURRENCY)
            }
        };
        Policy { max_concurrency, scheduler: options.scheduler, on_failure: options.on_step_failure }
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Graph {
    /// Where the keys of its steps begin.
    place: StepKey,
    list: StepList,
    around: Around,
    policy: Policy,
    /// What expressions see: grows with every step that is over.
    scope: Scope,
    nodes: Vec<Node>,
    /// For each agent, when one of its steps was last started, counted in starts.
    served: BTreeMap<Option<String>, u64>,
    starts: u64,
    stopping: bool,
}

#[derive(Clone, Debug)]
enum Node {
    /// For its dependencies.
    Waiting,
    /// For its turn.
    Ready,
    Running {
        since: Timestamp,
        activity: Activity,
    },
    Over(Arc<StepRecord>),
}

/// What may be started while so many steps are running.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Room {
    ForAny,
    ForQuestions,
}

/// What a step does while it runs.
#[derive(Clone, Debug)]
enum Activity {
    Errand(Box<Attempts>),
    Repeat(Box<Repeat>),
    ForEach(Box<ForEach>),
}

impl Activity {
    /// By what is over of it.
    fn spent(&self) -> Spent {
        match self {
            Activity::Errand(errand) => errand.spent(),
            Activity::Repeat(repeat) => repeat.spent(),
            Activity::ForEach(each) => each.spent(),
        }
    }
}

impl Graph {
    pub(crate) fn start(
        place: StepKey,
        list: StepList,
        around: Around,
        policy: Policy,
        asks: &mut Asks<'_>,
    ) -> Graph {
        let mut graph = Graph { policy, ..Graph::unstarted(place, list, around) };
        graph.advance(asks);
        graph
    }

    /// Nothing of it runs, and nothing will: for a run that is stopped before it began.
    pub(crate) fn unstarted(place: StepKey, list: StepList, around: Around) -> Graph {
        Graph {
            place,
            nodes: list.steps().iter().map(|_| Node::Waiting).collect(),
            list,
            scope: around.scope.clone(),
            around,
            policy: Policy::of(&Options::default(), None, AtOnce::AsWritten),
            served: BTreeMap::new(),
            starts: 0,
            stopping: false,
        }
    }

    pub(crate) fn is_over(&self) -> bool {
        self.nodes.iter().all(|node| matches!(node, Node::Over(_)))
    }

    /// Whether a step did not get what it asked for, because the budget is used up.
    pub(crate) fn was_refused(&self) -> bool {
        let is_budget = |error: &StepError| error.class == StepErrorClass::Budget;
        self.records().any(|(_, record)| {
            record.status == StepStatus::Cancelled && record.error.as_ref().is_some_and(is_budget)
        })
    }

    /// The records of all steps that are over, in the document's order.
    pub(crate) fn records(&self) -> impl Iterator<Item = (&LoadedStep, &Arc<StepRecord>)> {
        self.list.steps().iter().zip(&self.nodes).filter_map(|(step, node)| match node {
            Node::Over(record) => Some((step, record)),
            _ => None,
        })
    }

    /// By what is over in it.
    pub(crate) fn spent(&self) -> Spent {
        let mut spent = Spent::default();
        for node in &self.nodes {
            spent.add(&match node {
                Node::Waiting | Node::Ready => Spent::default(),
                Node::Running { activity, .. } => activity.spent(),
                Node::Over(record) => record.spent,
            });
        }
        spent
    }

    /// The steps that are not over, of a run that is set aside.
    pub(crate) fn open(&self, asks: &Asks<'_>) -> Vec<OpenStep> {
        let nodes = self.list.steps().iter().zip(&self.nodes).enumerate();
        let open = nodes.filter_map(|(position, (step, node))| {
            let (status, spent, duration_ms) = match node {
                Node::Over(_) => return None,
                Node::Waiting | Node::Ready => (OpenStatus::Waiting, Spent::default(), 0),
                Node::Running { since, activity } => {
                    (OpenStatus::Suspended, activity.spent(), asks.took(&self.key(position), *since))
                }
            };
            Some(OpenStep { id: step.id.clone(), position, status, spent, duration_ms })
        });
        open.collect()
    }

    pub(crate) fn scope(&self) -> &Scope {
        &self.scope
    }

    /// Something is over; it may be none of this level's business.
    pub(crate) fn complete(&mut self, completion: &Completion, asks: &mut Asks<'_>) {
        let depth = self.place.segments().len();
        let segments = completion.key.segments();
        if segments.len() <= depth || segments[..depth] != *self.place.segments() {
            return;
        }
        let id = segments[depth].id();
        let Some(index) = self.list.steps().iter().position(|step| step.id == id) else { return };
        let Node::Running { activity, .. } = &mut self.nodes[index] else { return };
        let ended = match activity {
            Activity::Errand(errand) => errand.complete(completion, asks),
            Activity::Repeat(repeat) => repeat.complete(completion, asks),
            Activity::ForEach(each) => each.complete(completion, asks),
        };
        if let Some(ended) = ended {
            self.end(index, ended, asks);
            if asks.exhausted.is_some() {
                // What depends on the step was not started for want of a budget, not because anything failed.
                self.stop(asks);
            } else {
                self.advance(asks);
            }
        }
    }

    /// Nothing new starts; what runs is told to stop.
    pub(crate) fn stop(&mut self, asks: &mut Asks<'_>) {
        if std::mem::replace(&mut self.stopping, true) {
            return;
        }
        for index in 0..self.nodes.len() {
            let ended = match &mut self.nodes[index] {
                Node::Over(_) => continue,
                Node::Waiting | Node::Ready => {
                    self.leave_out(index, StepStatus::Cancelled, asks.why_not_run(), asks);
                    continue;
                }
                Node::Running { activity, .. } => match activity {
                    Activity::Errand(errand) => errand.stop(asks),
                    Activity::Repeat(repeat) => repeat.stop(asks),
                    Activity::ForEach(each) => each.stop(asks),
                },
            };
            if let Some(ended) = ended {
                self.end(index, ended, asks);
            }
        }
    }

    /// Whatever has not stopped counts as cancelled.
    pub(crate) fn abandon(&mut self, asks: &mut Asks<'_>) {
        self.stop(asks);
        for index in 0..self.nodes.len() {
            if matches!(self.nodes[index], Node::Running { .. }) {
                self.end(index, Ended::cancelled(), asks);
            }
        }
    }

    /// Settles what can be settled and starts what can be started, until neither is left.
    fn advance(&mut self, asks: &mut Asks<'_>) {
        loop {
            let settled = self.settle(asks);
            if self.stopping {
                return;
            }
            let over_at_once = self.dispatch(asks);
            if !settled && !over_at_once {
                return;
            }
        }
    }

    /// Steps whose dependencies are all over become ready, or are over without having run.
    fn settle(&mut self, asks: &mut Asks<'_>) -> bool {
        let mut any = false;
        loop {
            let mut changed = false;
            for index in 0..self.nodes.len() {
                if self.stopping {
                    return any;
                }
                if matches!(self.nodes[index], Node::Waiting) && self.dependencies_over(index) {
                    self.settle_one(index, asks);
                    changed = true;
                }
            }
            any |= changed;
            if !changed {
                return any;
            }
        }
    }

    fn dependencies_over(&self, index: usize) -> bool {
        let step = &self.list.steps()[index];
        step.depends_on.iter().all(|dependency| matches!(self.nodes[*dependency], Node::Over(_)))
    }

    fn settle_one(&mut self, index: usize, asks: &mut Asks<'_>) {
        if let Some(origin) = self.failure_behind(index) {
            let status = match self.policy.on_failure {
                OnStepFailure::SkipDependents => StepStatus::Skipped,
                OnStepFailure::Cascade | OnStepFailure::Abort => StepStatus::Cancelled,
            };
            self.leave_out(index, status, NotRun::DependencyFailed(origin), asks);
            return;
        }
        let Some(condition) = &self.list.steps()[index].condition else {
            self.nodes[index] = Node::Ready;
            return;
        };
        match condition.evaluate_bool(&self.scope) {
            Ok(true) => self.nodes[index] = Node::Ready,
            Ok(false) => self.leave_out(index, StepStatus::Skipped, NotRun::ConditionFalse, asks),
            Err(CelError::MissingKey { key }) => {
                self.leave_out(index, StepStatus::Skipped, NotRun::MissingData(key), asks);
            }
            Err(error) => {
                let failed = Ended::failed(scope::expression("`condition`", condition, &error));
                self.end(index, Ended { attempts: 0, ..failed }, asks);
            }
        }
    }

    /// The step whose failure keeps this one from running, if there is one.
    fn failure_behind(&self, index: usize) -> Option<String> {
        let steps = self.list.steps();
        steps[index].depends_on.iter().find_map(|dependency| match &self.nodes[*dependency] {
            Node::Over(record) => match (record.status, &record.not_run) {
                (StepStatus::Failed, _) => Some(steps[*dependency].id.clone()),
                (_, Some(NotRun::DependencyFailed(origin))) => Some(origin.clone()),
                // A loop or an include that was cancelled on its own account.
                (StepStatus::Cancelled, _) => Some(steps[*dependency].id.clone()),
                _ => None,
            },
            _ => None,
        })
    }

    /// Starts ready steps while there is room. Says whether one of them was over at once.
    fn dispatch(&mut self, asks: &mut Asks<'_>) -> bool {
        loop {
            let room = match self.running() < self.policy.max_concurrency as usize {
                true => Room::ForAny,
                false => Room::ForQuestions,
            };
            let Some(index) = self.next_ready(room) else { return false };
            self.starts += 1;
            self.served.insert(agent_of(&self.list.steps()[index]), self.starts);
            match self.begin(index, asks) {
                Begun::Running(activity) => {
                    let since = asks.since(&self.key(index));
                    self.nodes[index] = Node::Running { since, activity };
                }
                Begun::Over(ended) => {
                    self.end(index, ended, asks);
                    return true;
                }
            }
        }
    }

    /// Those that do something. A person who is asked is in nobody's way.
    fn running(&self) -> usize {
        let nodes = self.nodes.iter().zip(self.list.steps());
        let works = |(node, step): &(&Node, &LoadedStep)| {
            matches!(node, Node::Running { .. }) && !matches!(step.body, StepBody::Approve(_))
        };
        nodes.filter(works).count()
    }

    /// Ties go to the step that was written first. Where there is no room left, a question is still asked.
    fn next_ready(&self, room: Room) -> Option<usize> {
        let steps = self.list.steps();
        let ready = (0..self.nodes.len()).filter(|index| {
            let has_room = room == Room::ForAny || matches!(steps[*index].body, StepBody::Approve(_));
            matches!(self.nodes[*index], Node::Ready) && has_room
        });
        match self.policy.scheduler {
            Scheduler::DependencyFirst => { ready }.next(),
            // The agent that has waited longest.
            Scheduler::RoundRobin => {
                ready.min_by_key(|index| self.served.get(&agent_of(&steps[*index])).copied().unwrap_or(0))
            }
            Scheduler::LeastBusy => ready.min_by_key(|index| {
                let agent = agent_of(&steps[*index]);
                let busy = |(other, node): &(usize, &Node)| {
                    matches!(node, Node::Running { .. }) && agent_of(&steps[*other]) == agent
                };
                self.nodes.iter().enumerate().filter(busy).count()
            }),
        }
    }

    fn begin(&self, index: usize, asks: &mut Asks<'_>) -> Begun<Activity, Ended> {
        let step = &self.list.steps()[index];
        let key = self.place.child(Segment::new(&step.id));
        let upstream = self.upstream(step);
        let outer = self.around.outer_of(step);
        match &step.body {
            StepBody::Agent => {
                self.tell_started(index, StepKind::Agent, asks);
                let seen = Seen {
                    scope: &self.scope,
                    upstream: &upstream,
                    outer: &outer,
                    item: self.around.item.as_ref(),
                    iteration: self.around.iteration.as_ref(),
                    transport_retries: self.around.transport_retries,
                };
                let request = match scope::work(step, &key, &seen, asks) {
                    Ok(request) => StepRequest::Agent(Box::new(request)),
                    Err(error) => return Begun::Over(Ended::failed(error)),
                };
                let options = &asks.spec.workflow.workflow.options;
                self.errand(step, request, TimeLimit::of_agent(step.spec.timeout, options), asks)
            }
            StepBody::Approve(approval) => {
                self.tell_started(index, StepKind::Approval, asks);
                match scope::question(approval, &key, &self.scope) {
                    Ok(request) => self.errand(step, StepRequest::Approval(Box::new(request)), None, asks),
                    Err(error) => Begun::Over(Ended::failed(error)),
                }
            }
            StepBody::Include(_) => {
                let name = step.spec.include.clone().unwrap_or_default();
                self.tell_started(index, StepKind::Include { name }, asks);
                let outer = with_own(&upstream, &outer);
                match includes::request(step, &self.place, &key, &self.around, &outer, asks) {
                    Ok(request) => {
                        let limit = step.spec.timeout.map(|time| TimeLimit::new(time, SetBy::Timeout));
                        self.errand(step, request, limit, asks)
                    }
                    Err(error) => Begun::Over(Ended::failed(error)),
                }
            }
            StepBody::Loop(it) => {
                let mut place = LoopPlace {
                    place: self.place.clone(),
                    step: self.list.step(index),
                    scope: self.scope.clone(),
                    upstream,
                    outer,
                    item: self.around.item.clone(),
                    iteration: self.around.iteration.clone(),
                    policy: self.policy,
                    turns: 0,
                    transport_retries: step.spec.max_retries.or(self.around.transport_retries),
                };
                match &it.kind {
                    LoopKind::RepeatUntil { max_iterations, .. } => {
                        place.turns = *max_iterations;
                        self.tell_started(index, StepKind::Repeat { at_most: *max_iterations }, asks);
                        match Repeat::start(place, asks) {
                            Begun::Running(repeat) => Begun::Running(Activity::Repeat(Box::new(repeat))),
                            Begun::Over(ended) => Begun::Over(ended),
                        }
                    }
                    LoopKind::ForEach { items, .. } => {
                        let last = place.upstream.last().map(|last| scope::for_expressions(&last.record));
                        let items = match last {
                            Some(last) => ForEach::items(items, &self.scope.clone().with_last(last)),
                            None => ForEach::items(items, &self.scope),
                        };
                        let count = items.as_ref().map_or(0, Vec::len);
                        place.turns = u32::try_from(count).unwrap_or(u32::MAX);
                        self.tell_started(index, StepKind::ForEach { items: place.turns }, asks);
                        match items.map(|items| ForEach::start(place, items, asks)) {
                            Ok(Begun::Running(each)) => Begun::Running(Activity::ForEach(Box::new(each))),
                            Ok(Begun::Over(ended)) => Begun::Over(ended),
                            Err(error) => Begun::Over(Ended::failed(error)),
                        }
                    }
                }
            }
        }
    }

    fn errand(
        &self,
        step: &LoadedStep,
        request: StepRequest,
        timeout: Option<TimeLimit>,
        asks: &mut Asks<'_>,
    ) -> Begun<Activity, Ended> {
        let errand = Errand {
            place: self.place.clone(),
            segment: Segment::new(&step.id),
            role: Role::Work,
            request,
            retries: step.spec.retries,
            timeout,
            includes: match &step.body {
                StepBody::Include(workflow) => Some(workflow.clone()),
                StepBody::Agent | StepBody::Loop(_) | StepBody::Approve(_) => None,
            },
        };
        Begun::Running(Activity::Errand(Box::new(Attempts::start(errand, asks))))
    }

    /// The direct dependencies that completed, in the order of `dependsOn`.
    fn upstream(&self, step: &LoadedStep) -> Arc<[Upstream]> {
        let steps = self.list.steps();
        scope::completed(step.depends_on.iter().filter_map(|dependency| match &self.nodes[*dependency] {
            Node::Over(record) => Some((steps[*dependency].id.as_str(), record)),
            _ => None,
        }))
    }

    fn key(&self, index: usize) -> StepKey {
        self.place.child(Segment::new(&self.list.steps()[index].id))
    }

    fn tell_started(&self, index: usize, kind: StepKind, asks: &mut Asks<'_>) {
        let step = &self.list.steps()[index];
        let count = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
        asks.tell(Notice::Started(Started {
            key: self.place.child(Segment::new(&step.id)),
            agent: agent_of(step),
            kind,
            position: count(self.list.position(index)),
            of: count(self.nodes.len()),
        }));
    }

    /// A step has run.
    fn end(&mut self, index: usize, ended: Ended, asks: &mut Asks<'_>) {
        let took = match &self.nodes[index] {
            Node::Running { since, .. } => asks.took(&self.key(index), *since),
            _ => 0,
        };
        let failed = ended.status == StepStatus::Failed;
        let mut ended = ended;
        if ended.status == StepStatus::Cancelled && asks.why_not_run() == NotRun::BudgetExceeded {
            ended.error.get_or_insert_with(|| no_budget("stopped"));
        }
        // One that failed has used up what only a document inside it may use.
        let is_refused = |error: &&StepError| error.class == StepErrorClass::Budget && !failed;
        if let Some(error) = ended.error.as_ref().filter(is_refused) {
            asks.exhausted.get_or_insert_with(|| error.clone());
        }
        let record = ended.into_record(took);
        let step = &self.list.steps()[index];
        asks.tell(Notice::Ended {
            key: self.place.child(Segment::new(&step.id).attempt(record.attempts)),
            agent: agent_of(step),
            record: record.clone(),
        });
        self.keep(index, record);
        if failed && self.policy.on_failure == OnStepFailure::Abort {
            self.stop(asks);
        }
    }

    /// A step will not run.
    fn leave_out(&mut self, index: usize, status: StepStatus, why: NotRun, asks: &mut Asks<'_>) {
        let mut record = StepRecord::not_run(status, why.clone());
        record.error = (why == NotRun::BudgetExceeded).then(|| no_budget("not started"));
        let record = Arc::new(record);
        let step = &self.list.steps()[index];
        asks.tell(Notice::NotRun {
            key: self.place.child(Segment::new(&step.id)),
            agent: agent_of(step),
            condition: match why {
                NotRun::ConditionFalse | NotRun::MissingData(_) => {
                    step.condition.as_ref().map(Expression::named)
                }
                NotRun::DependencyFailed(_) | NotRun::RunEnded | NotRun::BudgetExceeded => None,
            },
            why,
            record: record.clone(),
        });
        self.keep(index, record);
    }

    fn keep(&mut self, index: usize, record: Arc<StepRecord>) {
        self.scope.add_step(self.list.steps()[index].id.clone(), scope::for_expressions(&record));
        self.nodes[index] = Node::Over(record);
    }
}

/// What an included workflow is shown: what its step depends on, and what the level is given from outside. Of two with one
/// name it is the nearer one, as in expressions.
fn with_own(upstream: &[Upstream], outer: &[Upstream]) -> Vec<Upstream> {
    let is_hidden = |it: &&Upstream| upstream.iter().any(|own| own.id == it.id);
    upstream.iter().chain(outer.iter().filter(|it| !is_hidden(it))).cloned().collect()
}

/// What is said of each step that a budget keeps from being done; the run, or the include, says which budget it is.
fn no_budget(what: &str) -> StepError {
    StepError::new(StepErrorClass::Budget, format!("{what}: the budget is used up"))
}

fn agent_of(step: &LoadedStep) -> Option<String> {
    step.agent.as_ref().map(|agent| agent.name.clone())
}

//! One iteration of a loop, or one item: the loop's own agent once, or the steps of its body.
//!
//! A loop's `retries` are further attempts at an iteration. With a body of one step that is the step itself, so they
//! do not multiply; with several steps the whole body is run again, unless what failed in it has had its own (`retry.rs`).

use std::collections::BTreeMap;
use std::sync::Arc;

use tenon_core::Timestamp;

use super::attempts::{Attempts, Errand, TimeLimit};
use super::ended::Ended;
use super::retry::{Retry, decide, had_its_attempts, together};
use super::schedule::{Graph, Policy};
use super::scope::{self, Around, OuterFor, Seen, StepRef};
use super::{Asks, Begun};
use crate::cel::Scope;
use crate::document::OnStepFailure;
use crate::{
    Completion, Item, Iteration, JsonText, Notice, Role, Segment, Spent, Started, StepError, StepKey,
    StepKind, StepOutcome, StepRecord, StepRequest, StepStatus, TriedAgain, Upstream,
};

/// Where a loop stands: what is the same for all of its iterations.
#[derive(Clone, Debug)]
pub(crate) struct LoopPlace {
    /// Of the level that the loop is a step of.
    pub place: StepKey,
    pub step: StepRef,
    pub scope: Scope,
    /// What the loop depends on.
    pub upstream: Arc<[Upstream]>,
    /// What the level of the loop is given from outside.
    pub outer: Arc<[Upstream]>,
    /// Of a loop around the workflow that the loop is in.
    pub item: Option<Item>,
    pub iteration: Option<Iteration>,
    pub policy: Policy,
    /// How many turns there are at most.
    pub turns: u32,
    /// `maxRetries` of the loop, or of what is around it.
    pub transport_retries: Option<u32>,
}

impl LoopPlace {
    pub(crate) fn key(&self) -> StepKey {
        self.place.child(Segment::new(&self.step.get().id))
    }

    pub(crate) fn segment(&self) -> Segment {
        Segment::new(&self.step.get().id)
    }
}

/// Which turn of the loop it is.
#[derive(Clone, Debug)]
pub(crate) enum Turn {
    Item(Item),
    Iteration(Iteration),
}

#[derive(Clone, Debug)]
pub(crate) struct Body {
    turn: Turn,
    attempt: u32,
    state: State,
    since: Timestamp,
    /// By earlier attempts at the whole body, and by each of its steps.
    spent: Spent,
    spent_by: BTreeMap<String, Spent>,
    /// What the attempt before a pause left behind.
    left: (String, Option<JsonText>),
    stopping: bool,
}

#[derive(Clone, Debug)]
enum State {
    One(Box<Attempts>),
    Many(Box<Graph>),
    /// Before the next attempt at many.
    Pausing,
}

/// An iteration that is over.
pub(crate) struct BodyEnded {
    pub ended: Ended,
    /// Of a body of several steps.
    pub steps: Vec<(String, Arc<StepRecord>)>,
}

impl Body {
    pub(crate) fn start(at: &LoopPlace, turn: Turn, asks: &mut Asks<'_>) -> Begun<Body, BodyEnded> {
        let mut body = Body {
            turn,
            attempt: 1,
            state: State::Pausing,
            since: Timestamp(0),
            spent: Spent::default(),
            spent_by: BTreeMap::new(),
            left: Default::default(),
            stopping: false,
        };
        body.since = asks.since(&at.place.child(body.segment(at)));
        match body.run(at, asks) {
            Some(ended) => Begun::Over(ended),
            None => Begun::Running(body),
        }
    }

    /// Starts the present attempt.
    fn run(&mut self, at: &LoopPlace, asks: &mut Asks<'_>) -> Option<BodyEnded> {
        let scope = match &self.turn {
            Turn::Item(item) => {
                at.scope.clone().with_item(Arc::new(item.value.to_value()), item.index as usize)
            }
            Turn::Iteration(iteration) => at.scope.clone().with_iteration(iteration.number as usize),
        };
        let (item, iteration) = match &self.turn {
            Turn::Item(item) => (Some(item), at.iteration.as_ref()),
            Turn::Iteration(iteration) => (at.item.as_ref(), Some(iteration)),
        };
        match at.step.as_loop().filter(|(it, _)| !it.steps.is_empty()) {
            None => {
                let key = at.place.child(self.segment(at));
                let agent = at.step.get().agent.as_ref().map(|agent| agent.name.clone());
                tell_started(&key, agent, self.number(), at.turns, asks);
                let seen = Seen {
                    scope: &scope,
                    upstream: &at.upstream,
                    outer: &at.outer,
                    item,
                    iteration,
                    transport_retries: at.transport_retries,
                };
                let request = match scope::work(at.step.get(), &key, &seen, asks) {
                    Ok(request) => StepRequest::Agent(Box::new(request)),
                    Err(error) => return Some(self.one_over(at, Ended::failed(error), asks)),
                };
                let options = &asks.spec.workflow.workflow.options;
                let errand = Errand {
                    place: at.place.clone(),
                    segment: self.segment(at),
                    role: Role::Work,
                    request,
                    retries: at.step.get().spec.retries,
                    timeout: TimeLimit::of_turn(options),
                    includes: None,
                };
                self.state = State::One(Box::new(Attempts::start(errand, asks)));
                None
            }
            Some((_, list)) => {
                let outer = if at.upstream.is_empty() { &at.outer } else { &at.upstream };
                let around = Around {
                    scope: scope.without_steps(list.steps().iter().map(|step| step.id.as_str())),
                    outer: outer.clone(),
                    outer_for: OuterFor::Everyone,
                    item: item.cloned(),
                    iteration: iteration.cloned(),
                    transport_retries: at.transport_retries,
                    spent_before: self.spent_by.clone(),
                };
                let policy = Policy { on_failure: OnStepFailure::Cascade, ..at.policy };
                let place = at.place.child(self.segment(at));
                let graph = Graph::start(place, list, around, policy, asks);
                self.state = State::Many(Box::new(graph));
                self.many_over(at, asks)
            }
        }
    }

    fn number(&self) -> u32 {
        match &self.turn {
            Turn::Item(item) => item.index,
            Turn::Iteration(iteration) => iteration.number,
        }
    }

    fn one_over(&self, at: &LoopPlace, ended: Ended, asks: &mut Asks<'_>) -> BodyEnded {
        let agent = at.step.get().agent.as_ref().map(|agent| agent.name.clone());
        tell_ended(&at.place.child(self.segment(at)), agent, &ended, self.since, asks);
        BodyEnded { ended, steps: Vec::new() }
    }

    fn segment(&self, at: &LoopPlace) -> Segment {
        let segment = match &self.turn {
            Turn::Item(item) => at.segment().index(item.index),
            Turn::Iteration(iteration) => at.segment().iteration(iteration.number),
        };
        segment.attempt(self.attempt)
    }

    pub(crate) fn complete(
        &mut self,
        at: &LoopPlace,
        completion: &Completion,
        asks: &mut Asks<'_>,
    ) -> Option<BodyEnded> {
        match &mut self.state {
            State::One(errand) => {
                let ended = errand.complete(completion, asks)?;
                Some(self.one_over(at, ended, asks))
            }
            State::Many(graph) => {
                graph.complete(completion, asks);
                self.many_over(at, asks)
            }
            State::Pausing => {
                let pause = at.place.child(self.segment(at)).with_role(Role::Backoff);
                if completion.key != pause || completion.outcome != StepOutcome::Elapsed {
                    return None;
                }
                self.attempt += 1;
                self.run(at, asks)
            }
        }
    }

    pub(crate) fn stop(&mut self, at: &LoopPlace, asks: &mut Asks<'_>) -> Option<BodyEnded> {
        self.stopping = true;
        match &mut self.state {
            State::One(errand) => {
                let ended = errand.stop(asks)?;
                Some(self.one_over(at, ended, asks))
            }
            State::Many(graph) => {
                graph.stop(asks);
                self.many_over(at, asks)
            }
            State::Pausing => {
                asks.cancel(at.place.child(self.segment(at)).with_role(Role::Backoff));
                let (content, result) = std::mem::take(&mut self.left);
                let ended = Ended { content, result, spent: self.spent, ..Ended::cancelled() };
                Some(BodyEnded { ended, steps: Vec::new() })
            }
        }
    }

    /// By what is over in it.
    pub(crate) fn spent(&self) -> Spent {
        let mut spent = self.spent;
        spent.add(&match &self.state {
            State::One(errand) => errand.spent(),
            State::Many(graph) => graph.spent(),
            State::Pausing => Spent::default(),
        });
        spent
    }

    /// When all steps of the body are over: the iteration, or another attempt at it.
    fn many_over(&mut self, at: &LoopPlace, asks: &mut Asks<'_>) -> Option<BodyEnded> {
        loop {
            let State::Many(graph) = &self.state else { return None };
            if !graph.is_over() {
                return None;
            }
            let steps: Vec<_> =
                graph.records().map(|(step, record)| (step.id.clone(), record.clone())).collect();
            let mut ended = sum_up(&steps);
            ended.spent.add(&self.spent);
            ended.attempts = self.attempt;
            let key = at.place.child(self.segment(at));
            let retries = asks.spec.earlier.retries(&key, at.step.get().spec.retries);
            let retry = match &ended.error {
                Some(error) if !self.stopping => decide(error, self.attempt, retries),
                _ => Retry::No,
            };
            let after_ms = match retry {
                // It would be tried again, if anything were left to spend.
                Retry::AtOnce | Retry::After { .. } if asks.exhausted.is_some() => {
                    (ended.status, ended.error) = (StepStatus::Cancelled, None);
                    return Some(BodyEnded { ended, steps });
                }
                Retry::No => {
                    ended.error = ended.error.map(|error| had_its_attempts(error, retries));
                    return Some(BodyEnded { ended, steps });
                }
                Retry::AtOnce => 0,
                Retry::After { ms } => ms,
            };
            let after_ms = match asks.spec.earlier.went_on_at_once(&key.with_role(Role::Backoff)) {
                true => 0,
                false => after_ms,
            };
            self.spent = ended.spent;
            self.left = (ended.content, ended.result);
            for (id, record) in steps {
                self.spent_by.entry(id).or_default().add(&record.spent);
            }
            if let Some(error) = ended.error {
                asks.tell(Notice::Retrying { key, what: TriedAgain::Turn, error, after_ms });
            }
            if after_ms > 0 {
                let key = at.place.child(self.segment(at)).with_role(Role::Backoff);
                asks.start(key, StepRequest::Sleep { ms: after_ms });
                self.state = State::Pausing;
                return None;
            }
            self.attempt += 1;
            self.state = State::Pausing;
            // It is over at once only when nothing in it could start; then the next round ends here too.
            if let Some(over) = self.run(at, asks) {
                return Some(over);
            }
        }
    }
}

/// An agent that is no step of its own begins: an iteration, an item, a judge.
pub(super) fn tell_started(
    key: &StepKey,
    agent: Option<String>,
    position: u32,
    of: u32,
    asks: &mut Asks<'_>,
) {
    asks.tell(Notice::Started(Started { key: key.clone(), agent, kind: StepKind::Agent, position, of }));
}

pub(super) fn tell_ended(
    key: &StepKey,
    agent: Option<String>,
    ended: &Ended,
    since: Timestamp,
    asks: &mut Asks<'_>,
) {
    let record = ended.clone().into_record(asks.took(key, since));
    asks.tell(Notice::Ended { key: key.clone(), agent, record });
}

/// A body counts as what its steps came to: failed as soon as one failed, else cancelled as soon as one was, else
/// completed. In each case it leaves behind what its last completed step (as written) did, as an include does.
fn sum_up(steps: &[(String, Arc<StepRecord>)]) -> Ended {
    let first = |status| steps.iter().find(|(_, record)| record.status == status);
    let stopped =
        steps.iter().find(|(_, record)| record.status == StepStatus::Cancelled && record.attempts > 0);
    let mut ended = match (first(StepStatus::Failed), stopped.or_else(|| first(StepStatus::Cancelled))) {
        (Some((id, record)), _) => {
            let inner = record.error.clone();
            let error = inner.map_or_else(
                || StepError::new(crate::StepErrorClass::Internal, format!("`{id}` failed")),
                |error| StepError { message: format!("`{id}`: {}", error.message), ..error },
            );
            let errors = steps.iter().filter_map(|(_, record)| record.error.as_ref());
            Ended::failed(together(error, errors))
        }
        (None, Some((_, record))) => Ended { error: record.error.clone(), ..Ended::cancelled() },
        (None, None) => Ended::completed(String::new(), None),
    };
    let last = steps.iter().rev().find(|(_, record)| record.status == StepStatus::Completed);
    if let Some((_, record)) = last {
        (ended.content, ended.result) = (record.content.clone(), record.result.clone());
    }
    steps.iter().for_each(|(_, record)| ended.spent.add(&record.spent));
    ended
}

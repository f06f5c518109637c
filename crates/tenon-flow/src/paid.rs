//! What a run has paid for: by its turns, by how its steps ended, by attempts that were given up, and inside what is under way.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tenon_core::{Cost, Models, TurnRecord, Usage};

use crate::past::Past;
use crate::{Completion, Role, Segment, Spent, StepKey, WorkflowOutcome};

/// Adds what is no longer part of a step to what it cost: it was paid for.
pub(crate) fn add_to_steps(outcome: &mut WorkflowOutcome, dropped: &[(StepKey, Spent)]) {
    for (key, spent) in dropped {
        let id = key.segments().get(1).map(Segment::id);
        if let Some((_, record)) = outcome.steps.iter_mut().find(|(step, _)| Some(step.as_str()) == id) {
            Arc::make_mut(record).spent.add(spent);
        } else if let Some(step) = outcome.open.iter_mut().find(|step| Some(step.id.as_str()) == id) {
            step.spent.add(spent);
        }
    }
}

/// What workflows inside a run have spent that are under way themselves: nobody around them knows of it yet.
#[derive(Debug, Default)]
pub(crate) struct UnderWay(Mutex<BTreeMap<StepKey, Spent>>);

impl UnderWay {
    pub(crate) fn add(&self, place: &StepKey, spent: &Spent) {
        self.lock().entry(place.clone()).or_default().add(spent);
    }

    /// It is over, and says itself what it has spent.
    pub(crate) fn over(&self, place: &StepKey) {
        self.lock().remove(place);
    }

    /// Adds it to a run that is set aside, and to its steps.
    pub(crate) fn add_to(&self, outcome: &mut WorkflowOutcome) {
        let under_way: Vec<(StepKey, Spent)> =
            self.lock().iter().map(|(place, spent)| (place.clone(), *spent)).collect();
        outcome.spent.add(&total(&under_way));
        add_to_steps(outcome, &under_way);
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<StepKey, Spent>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

pub(crate) fn total(dropped: &[(StepKey, Spent)]) -> Spent {
    let mut total = Spent::default();
    dropped.iter().for_each(|(_, spent)| total.add(spent));
    total
}

pub(crate) fn spent_by(completion: &Completion) -> Spent {
    completion.outcome.output().map(|output| output.spent).unwrap_or_default()
}

/// What turns cost, by today's prices.
pub(crate) fn cost_of(turns: &[TurnRecord], models: &Models) -> Spent {
    let mut spent = Spent::default();
    for turn in turns {
        let (TurnRecord::ModelTurn { model, usage, .. } | TurnRecord::Besides { model, usage }) = turn else {
            continue;
        };
        let told = (*usage != Usage::default()).then_some(*usage);
        let cost = Cost::of(models.price(model), told);
        spent.add(&Spent { usage: *usage, cost_usd: cost.usd(), turns: 1 });
    }
    spent
}

/// What is in `whole` and not in `part`.
pub(crate) fn beyond(whole: &Spent, part: &Spent) -> Spent {
    let (left, right) = (whole.usage, part.usage);
    let usage = Usage {
        input: left.input.saturating_sub(right.input),
        output: left.output.saturating_sub(right.output),
        cache_read: left.cache_read.saturating_sub(right.cache_read),
        cache_write: left.cache_write.saturating_sub(right.cache_write),
        reasoning: left.reasoning.saturating_sub(right.reasoning),
        total: left.total.saturating_sub(right.total),
    };
    if usage == Usage::default() {
        return Spent::default();
    }
    let cost_usd = whole.cost_usd.zip(part.cost_usd).map(|(whole, part)| (whole - part).max(0.0));
    Spent { usage, cost_usd, turns: whole.turns.saturating_sub(part.turns) }
}

/// Where a step stands, whichever attempt, or its judge.
pub(crate) type Place = (Vec<Segment>, Role);

/// The step of a key and every step around it, whichever attempt.
pub(crate) fn around(key: &StepKey) -> Vec<Place> {
    let segments = plain(key.segments());
    let mut places = Vec::new();
    for upto in 2..=segments.len() {
        let place = segments[..upto].to_vec();
        let is_own = upto == segments.len();
        if place.last().is_some_and(|last| last.of_iteration().is_some() || last.of_item().is_some()) {
            places.push((of_loop(&place), Role::Work));
        }
        match key.role() {
            Role::Judge if is_own => places.push((place, Role::Judge)),
            _ => places.push((place, Role::Work)),
        }
    }
    places
}

/// The way to a step without attempts; a round or an item of a loop also stands for the loop.
pub(crate) fn plain(segments: &[Segment]) -> Vec<Segment> {
    segments.iter().map(|segment| segment.clone().attempt(1)).collect()
}

pub(crate) fn of_loop(segments: &[Segment]) -> Vec<Segment> {
    let mut segments = plain(segments);
    if let Some(last) = segments.pop() {
        segments.push(Segment::new(last.id()));
    }
    segments
}

/// What was given up, by every step that it belongs to.
#[derive(Clone, Debug, Default)]
pub(crate) struct GivenUp(BTreeMap<Place, Spent>);

impl GivenUp {
    pub(crate) fn of(dropped: &[(StepKey, Spent)]) -> GivenUp {
        let mut places: BTreeMap<Place, Spent> = BTreeMap::new();
        for (key, spent) in dropped {
            around(key).into_iter().for_each(|place| places.entry(place).or_default().add(spent));
        }
        GivenUp(places)
    }

    /// Nothing for most.
    pub(crate) fn by(&self, key: &StepKey) -> Option<&Spent> {
        self.0.get(&(plain(key.segments()), key.role()))
    }
}

/// What has been paid for inside a step that has not ended: finished steps in it, and turns.
pub(crate) fn inside(past: &Past, key: &StepKey, models: &Models) -> Spent {
    paid_where(past, models, |other| match key.role() {
        Role::Work => other.segments().starts_with(key.segments()),
        // A timer has the place of its step, and costs nothing.
        _ => other == key,
    })
}

/// The same, over all attempts at it and at what is around it, those that were given up too.
pub(crate) fn in_all_attempts(past: &Past, key: &StepKey, models: &Models) -> Spent {
    let place = plain(key.segments());
    let mut spent = paid_where(past, models, |other| plain(other.segments()).starts_with(&place));
    if let Some(given_up) = past.given_up().by(key) {
        spent.add(given_up);
    }
    spent
}

fn paid_where(past: &Past, models: &Models, is_inside: impl Fn(&StepKey) -> bool) -> Spent {
    let parents = past.parents();
    let mut spent = Spent::default();
    let ended =
        past.ended.iter().filter(|(other, _)| is_inside(other) && !parents.contains(other.segments()));
    ended.for_each(|(_, (_, completion))| spent.add(&spent_by(completion)));
    let under_way =
        past.turns.iter().filter(|(other, _)| is_inside(other) && !past.ended.contains_key(*other));
    under_way.for_each(|(_, turns)| spent.add(&cost_of(turns, models)));
    spent
}

//! What a run that goes on knows of the time before: how often things were tried, since when they were under way, and when nobody
//! worked on them.
//!
//! Durations are of work. A run that was cut off, set aside or over and goes on later counts its time without what lies in between
//! ([`Pauses`]), and a step that had failed does not count the time until the run had ended around it ([`Earlier`]). Where the rows
//! are is `past.rs`.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use tenon_core::Timestamp;

use crate::paid::GivenUp;
use crate::past::{first_attempt, is_tried_again_around};
use crate::{Role, Segment, Spent, StepKey};

/// A step, a round or an item of a loop whichever attempt at it, or a judge.
pub(crate) type Place = (Vec<Segment>, Role);

/// What the interpreter knows of earlier processes; nothing, in a run that begins.
#[derive(Clone, Debug, Default)]
pub struct Earlier(pub(crate) Arc<Known>);

#[derive(Debug, Default)]
pub(crate) struct Known {
    /// How often, where that was more than once.
    pub tried: HashMap<Vec<Segment>, u32>,
    /// When each was begun, by the time of work.
    pub begun: HashMap<Place, Timestamp>,
    /// How long each was not worked on while others were, in milliseconds.
    pub idle: HashMap<Place, u64>,
    /// What attempts had cost that are not told again.
    pub given_up: GivenUp,
    /// The pauses between attempts that are known.
    pub backed_off: HashSet<StepKey>,
}

impl Earlier {
    /// Further attempts: as many as are allowed, and no less than there were; inside something that was tried again since, as many as
    /// there were. What was tried again then is tried again when it is told once more, whatever the document says by now.
    pub(crate) fn retries(&self, key: &StepKey, allowed: u32) -> u32 {
        let tried = &self.0.tried;
        if tried.is_empty() {
            return allowed;
        }
        let there_were = tried.get(&first_attempt(key.segments())).map_or(0, |tried| tried.saturating_sub(1));
        if is_tried_again_around(key, tried) { there_were } else { there_were.max(allowed) }
    }

    /// What attempts at it had cost that are not told again.
    pub(crate) fn given_up(&self, key: &StepKey) -> Spent {
        self.0.given_up.by(key).copied().unwrap_or_default()
    }

    /// Whether the next attempt was made without this pause before it.
    pub(crate) fn went_on_at_once(&self, pause: &StepKey) -> bool {
        let tried = self.0.tried.get(&first_attempt(pause.segments()));
        tried.is_some_and(|tried| *tried > pause.attempt()) && !self.0.backed_off.contains(pause)
    }

    /// Since when something has been under way that starts now, or is told to start.
    pub(crate) fn since(&self, key: &StepKey, now: Timestamp) -> Timestamp {
        self.0.begun.get(&place_of(key)).map_or(now, |begun| now.min(*begun))
    }

    /// How long was worked on it.
    pub(crate) fn took(&self, key: &StepKey, since: Timestamp, until: Timestamp) -> u64 {
        let idle = self.0.idle.get(&place_of(key)).copied().unwrap_or(0);
        until.0.saturating_sub(since.0).saturating_sub(idle)
    }
}

pub(crate) fn place_of(key: &StepKey) -> Place {
    (first_attempt(key.segments()), key.role())
}

/// A step and everything around it.
pub(crate) fn places_around(key: &StepKey) -> Vec<Place> {
    let segments = key.segments();
    let mut places = Vec::new();
    for upto in 2..=segments.len() {
        let place = first_attempt(&segments[..upto]);
        if let Some((last, around)) = place.split_last()
            && (last.of_iteration().is_some() || last.of_item().is_some())
        {
            let mut of_loop = around.to_vec();
            of_loop.push(Segment::new(last.id()));
            places.push((of_loop, Role::Work));
        }
        let role = if upto == segments.len() { key.role() } else { Role::Work };
        places.push((place, role));
    }
    places
}

/// Times in which nobody ran a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pauses(Vec<Pause>);

/// Of a row `paused`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Pause {
    pub from: Timestamp,
    pub until: Timestamp,
}

impl Pauses {
    pub(crate) fn add(&mut self, pause: Pause) {
        self.0.push(pause);
    }

    /// A moment by the time of work.
    pub fn worked(&self, at: Timestamp) -> Timestamp {
        let before = |pause: &Pause| at.0.min(pause.until.0).saturating_sub(pause.from.0);
        Timestamp(at.0.saturating_sub(self.0.iter().map(before).sum()))
    }

    /// How long was worked between two moments, in milliseconds.
    pub fn between(&self, from: Timestamp, until: Timestamp) -> u64 {
        self.worked(until).0.saturating_sub(self.worked(from).0)
    }

    pub fn total_ms(&self) -> u64 {
        self.0.iter().map(|pause| pause.until.0.saturating_sub(pause.from.0)).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_are_left_out_of_time() {
        let mut pauses = Pauses::default();
        for (from, until) in [(10, 20), (50, 150), (200, 190)] {
            pauses.add(Pause { from: Timestamp(from), until: Timestamp(until) });
        }
        let worked: Vec<u64> =
            [5, 10, 15, 20, 49, 100, 150, 250].map(|at| pauses.worked(Timestamp(at)).0).to_vec();
        assert_eq!(worked, [5, 10, 10, 10, 39, 40, 40, 140]);
        assert_eq!(pauses.between(Timestamp(5), Timestamp(160)), 45);
        assert_eq!(pauses.total_ms(), 110);
    }

    /// What was tried again without a pause then, before such an error was waited for, is tried again without one.
    #[test]
    fn a_pause_that_was_not_made_is_not_made_later() {
        let pause = |key: &str| key.parse::<StepKey>().unwrap().with_role(Role::Backoff);
        let place = |key: &str| key.parse::<StepKey>().unwrap().segments().to_vec();
        let known = Known {
            tried: [(place("r/a@1"), 3), (place("r/l[0]@1"), 2)].into(),
            backed_off: [pause("r/a@2")].into(),
            ..Known::default()
        };
        let earlier = Earlier(Arc::new(known));
        let made = ["r/a@1", "r/a@2", "r/a@3", "r/l[0]@1", "r/l[0]@2", "r/b@1"];
        let at_once = made.map(|key| earlier.went_on_at_once(&pause(key)));
        assert_eq!(at_once, [true, false, false, true, false, false]);
    }

    #[test]
    fn a_step_is_inside_of_its_loops() {
        let key: StepKey = "r/inc@2/each[3]@2/x@3".parse().unwrap();
        let places: Vec<String> = places_around(&key)
            .into_iter()
            .map(|(segments, role)| StepKey::of(segments, role).to_string())
            .collect();
        assert_eq!(places, ["r/inc@1", "r/inc@2/each@1", "r/inc@2/each[3]@1", "r/inc@2/each[3]@2/x@1"]);
    }
}

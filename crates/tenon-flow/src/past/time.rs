//! When a run and its steps were worked on, and when not (`earlier.rs`).

use std::sync::Arc;

use tenon_core::Timestamp;

use super::{Past, is_of_step};
use crate::earlier::{Known, Pause, Place, places_around};
use crate::journal::{Entry, RowKind};
use crate::{Earlier, Role, StepKey};

impl Past {
    /// When something is said of a step, something is said of what is around it.
    pub(super) fn hear(&mut self, key: &StepKey, entry: &Entry) {
        let is_about_work = !matches!(entry.kind, RowKind::Resolved | RowKind::Spent | RowKind::Paused);
        if !is_of_step(key) || !is_about_work {
            return;
        }
        for place in places_around(key) {
            if entry.kind == RowKind::Scheduled {
                let begun = self.begun.entry(place.clone()).or_insert(entry.at);
                *begun = entry.at.min(*begun);
            }
            let touched = self.touched.entry(place).or_insert(entry.at);
            *touched = entry.at.max(*touched);
        }
    }

    /// What the interpreter is to know of before.
    pub(crate) fn earlier(&self) -> Earlier {
        let mut tried = self.latest_attempts();
        tried.retain(|_, tried| *tried > 1);
        let by_work = |(place, at): (&Place, &Timestamp)| (place.clone(), self.pauses.worked(*at));
        let begun = self.begun.iter().map(by_work).collect();
        let backed_off = self.due.keys().chain(self.ended.keys());
        let backed_off = backed_off.filter(|key| key.role() == Role::Backoff).cloned().collect();
        let (idle, given_up) = (self.idle.clone(), self.given_up());
        Earlier(Arc::new(Known { tried, begun, idle, given_up, backed_off }))
    }

    /// What is kept of the time in which nobody worked.
    pub(crate) fn pause(
        &mut self,
        run: &StepKey,
        entry: &dyn Fn(&StepKey, RowKind, String) -> Entry,
    ) -> Vec<Entry> {
        let row = |key: &StepKey, pause: &Pause| {
            entry(key, RowKind::Paused, serde_json::to_string(pause).unwrap_or_default())
        };
        let (left, now) = (Timestamp(self.last), Timestamp::now());
        let mut rows = Vec::new();
        for place in std::mem::take(&mut self.resting) {
            let Some(from) = self.touched.get(&place).copied().filter(|from| *from < left) else { continue };
            *self.idle.entry(place.clone()).or_default() += self.pauses.between(from, left);
            rows.push(row(&StepKey::of(place.0, place.1), &Pause { from, until: left }));
        }
        if left < now && left.0 > 0 {
            let pause = Pause { from: left, until: now };
            self.pauses.add(pause);
            rows.push(row(run, &pause));
        }
        rows
    }
}

//! What holds of a run that goes on with another document, and what is run again.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use tenon_core::Models;

use super::{NotKept, Past, Was, has_answers};
use crate::paid::{cost_of, spent_by, total};
use crate::retell::retell;
use crate::same_request::{Same, Verdict};
use crate::{AtOnce, Role, RunSpec, Spent, StepKey};

impl Past {
    /// Keeps what another document asks for in the same words. What is left is run again, if it is run at all.
    pub fn fit(&mut self, spec: &RunSpec) -> Vec<NotKept> {
        let root = Arc::clone(&spec.workflow);
        let mut spec = spec.clone();
        // Whatever could have been started is looked at, however many are started at a time.
        spec.at_once = AtOnce::Everything;
        spec.before = total(&self.spent);
        let mut same = Same::new(self, &root);
        retell(&spec, self, &mut same);
        let Verdict { kept, reopened, assumed, due } = same.into_verdict();
        let known: BTreeSet<StepKey> = self
            .ended
            .keys()
            .chain(self.asked.keys())
            .chain(self.due.keys())
            .chain(self.turns.keys())
            // The coordinator hears of any document, and the plan was one.
            .filter(|key| !kept.contains(*key) && !matches!(key.role(), Role::Coordinator | Role::Plan))
            .filter(|key| !self.forgotten.contains_key(*key))
            .cloned()
            .collect();
        for key in reopened {
            if let Some((_, completion)) = self.ended.remove(&key) {
                self.reopened.insert(key, completion);
            }
        }
        let after = self.ended.values().map(|(place, _)| place + 1).max().unwrap_or(1);
        for (place, completion) in (after..).zip(assumed) {
            self.ended.insert(completion.key.clone(), (place, completion.clone()));
            self.assumed.push(completion);
        }
        let parents = self.parents();
        let mut again: BTreeMap<String, NotKept> = BTreeMap::new();
        for key in known {
            let ended = self.ended.remove(&key).map(|(_, completion)| completion);
            let is_work = matches!(key.role(), Role::Work | Role::Judge) && !parents.contains(key.segments());
            let turns = self.turns.get(&key).filter(|turns| has_answers(turns));
            let was = match (&ended, turns) {
                (Some(_), _) if self.questions.contains_key(&key) => Some(Was::Settled),
                (None, _) if self.resolved.contains_key(&key) => Some(Was::Settled),
                (Some(_), _) => Some(Was::Ended),
                (None, Some(_)) => Some(Was::UnderWay),
                (None, None) => None,
            };
            if let Some(was) = was.filter(|_| is_work) {
                let step_id = key.step_id();
                let wanted = due.wanted(&step_id);
                let entry = again.entry(step_id.clone()).or_insert(NotKept {
                    step_id,
                    was,
                    wanted,
                    spent: Spent::default(),
                });
                entry.was = entry.was.max(was);
                entry.spent.add(&match (&ended, turns) {
                    (Some(completion), _) => spent_by(completion),
                    (None, Some(turns)) => cost_of(turns, &Models::default()),
                    (None, None) => Spent::default(),
                });
            }
            self.forget(key, ended);
        }
        again.into_values().collect()
    }
}

//! What a step's agent has said and used so far, kept as it comes: the conversation itself may be shortened on the way, and an
//! agent that never comes back has no outcome.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tenon_core::{BoxFut, Models, TurnJournal, TurnRecord};

use crate::paid::cost_of;
use crate::{Spent, StepOutput, Turns};

/// Between the texts of two turns.
const BETWEEN_TURNS: &str = "\n\n";

pub(crate) struct SoFar {
    known: Mutex<Known>,
    models: Models,
    /// Where turns are kept.
    journal: Arc<dyn TurnJournal>,
}

#[derive(Default)]
struct Known {
    text: String,
    spent: Spent,
}

impl SoFar {
    pub(crate) fn new(turns: &Turns, models: &Models) -> SoFar {
        let so_far =
            SoFar { known: Mutex::default(), models: models.clone(), journal: Arc::clone(&turns.journal) };
        turns.records.iter().for_each(|record| so_far.add(record));
        so_far
    }

    pub(crate) fn text(&self) -> String {
        self.known().text.clone()
    }

    /// For want of an outcome.
    pub(crate) fn output(&self) -> StepOutput {
        let known = self.known();
        StepOutput { content: known.text.clone(), result: None, spent: known.spent }
    }

    fn add(&self, record: &TurnRecord) {
        let mut known = self.known();
        known.spent.add(&cost_of(std::slice::from_ref(record), &self.models));
        let TurnRecord::ModelTurn { message, .. } = record else { return };
        let said = message.text();
        if said.is_empty() {
            return;
        }
        if !known.text.is_empty() {
            known.text.push_str(BETWEEN_TURNS);
        }
        known.text.push_str(&said);
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl TurnJournal for SoFar {
    fn write(&self, record: TurnRecord) -> BoxFut<'_, io::Result<()>> {
        self.add(&record);
        self.journal.write(record)
    }
}

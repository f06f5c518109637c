//! What happens in a run beside the turns of its steps and is kept as it happens: entries of the shared memory, messages, the
//! coordinator's last word.
//!
//! [`Signals`] is to a whole run what [`crate::Turns`] is to one step: what is known from before, and where more of it is kept.
//! What entries mean is decided in `shared_memory.rs`, `post.rs` and `coordinator.rs`.

use std::collections::HashSet;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use tenon_core::{BoxFut, TurnRecord};

use crate::Spent;
use crate::message::{DropReason, Letter};

/// One thing that is kept.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "signal", rename_all = "snake_case", deny_unknown_fields)]
pub enum Signal {
    /// An entry of the shared memory. The last one of a key holds.
    MemoryWritten { key: String, value: String },
    /// A message, before anybody can read it.
    MessageSent { letter: Letter },
    /// It will not be read.
    MessageDropped { id: String, reason: DropReason },
    /// It was read, and stands in nobody's conversation: it ended its reader.
    MessageDelivered { id: String },
    /// The coordinator's last word.
    Finalized { summary: String },
    /// What the coordinator had cost when it ended. The last one holds; a run that goes on counts anew.
    CoordinatorPaid { spent: Spent },
}

impl Signal {
    /// Whose rows these are in a journal. No step is called like this: keys of steps have an attempt at their end.
    pub(crate) const ROW_KEY: &'static str = "shared";

    /// Of a row. By way of a value: numbers in tagged enums cannot be read from text as long as they keep their spelling.
    pub(crate) fn read(payload: &str) -> Result<Signal, serde_json::Error> {
        serde_json::from_value(serde_json::from_str(payload)?)
    }
}

/// Where signals are kept.
pub trait SignalJournal: Send + Sync {
    /// Kept, all of them or none, when this returns.
    fn write(&self, signals: Vec<Signal>) -> BoxFut<'static, Result<(), String>>;
}

/// The signals of one run.
#[derive(Clone)]
pub struct Signals {
    /// From before the run was cut off, in their order.
    pub records: Vec<Signal>,
    /// Messages that stand in the conversation of a step that goes on, or has ended.
    pub mail_told: HashSet<String>,
    /// Steps that were over.
    pub ended: HashSet<String>,
    pub journal: Arc<dyn SignalJournal>,
}

impl Signals {
    /// Of a run that begins, and that nobody keeps.
    pub fn none() -> Signals {
        Signals {
            records: Vec::new(),
            mail_told: HashSet::new(),
            ended: HashSet::new(),
            journal: Arc::new(NoSignals),
        }
    }
}

/// The messages that stand in a conversation.
pub(crate) fn mail_told(records: &[TurnRecord]) -> impl Iterator<Item = String> {
    let mail = |record: &TurnRecord| match record {
        TurnRecord::UserMessage { mail, .. } => mail.clone(),
        _ => Vec::new(),
    };
    records.iter().flat_map(mail)
}

struct NoSignals;

impl SignalJournal for NoSignals {
    fn write(&self, _signals: Vec<Signal>) -> BoxFut<'static, Result<(), String>> {
        Box::pin(async { Ok(()) })
    }
}

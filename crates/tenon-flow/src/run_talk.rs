//! What the agents of a run told each other beside their work, as its journal has it: messages and what became of them, the
//! shared memory, the coordinator. A part of [`crate::RunView`].
//!
//! `text`, `key`, `value`, `summary` and everything in `turns` are payloads; who wrote to whom, when, and why something was not
//! read is not.

use std::collections::HashMap;

use tenon_core::{Timestamp, TurnRecord};

use crate::addressee::{Place, place};
use crate::journal::{JournalError, RowKind, StoredRun};
use crate::message::{Address, DropReason, Letter, MessageType};
use crate::run_view::{AttemptView, TurnView};
use crate::signal::Signal;
use crate::{LoadedWorkflow, Spent, turn_rows};

/// What stands for a name that no step has.
const UNKNOWN: &str = "(no such step)";

#[derive(Clone, Debug, Default)]
pub struct TalkView {
    /// In the order in which they were sent.
    pub messages: Vec<MessageView>,
    /// By their keys.
    pub memory: Vec<NoteView>,
    pub coordinator: Option<CoordinatorView>,
}

/// A message.
#[derive(Clone, Debug)]
pub struct MessageView {
    pub id: String,
    pub from: Address,
    pub to: Address,
    /// Whether the document has the step it is for. Any other name is a word of a model, and so a payload.
    pub is_known: bool,
    pub msg_type: MessageType,
    pub text: String,
    pub sent: Timestamp,
    pub fate: MessageFate,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MessageFate {
    Read(Timestamp),
    Dropped(DropReason),
    /// Nobody has read it so far. A run that goes on delivers it.
    Waiting,
}

impl MessageView {
    /// Whom it is for, without words of a model.
    pub fn safe_to(&self) -> String {
        if self.is_known { self.to.to_string() } else { UNKNOWN.to_owned() }
    }
}

impl MessageFate {
    /// In a word or two, for people and programs.
    pub fn name(self) -> &'static str {
        match self {
            MessageFate::Read(_) => "read",
            MessageFate::Dropped(_) => "dropped",
            MessageFate::Waiting => "waiting",
        }
    }

    pub fn reason(self) -> Option<DropReason> {
        match self {
            MessageFate::Dropped(reason) => Some(reason),
            MessageFate::Read(_) | MessageFate::Waiting => None,
        }
    }
}

/// An entry of the shared memory, as it was last written.
#[derive(Clone, Debug)]
pub struct NoteView {
    /// `agent/key`
    pub key: String,
    pub value: String,
    pub written: Timestamp,
}

impl NoteView {
    /// Who wrote it.
    pub fn agent(&self) -> &str {
        self.key.split_once('/').map_or("", |(agent, _)| agent)
    }
}

#[derive(Clone, Debug)]
pub struct CoordinatorView {
    /// Its last word.
    pub summary: Option<String>,
    pub turns: Vec<TurnView>,
    /// Its cost is known once it has come to an end.
    pub spent: Spent,
}

impl TalkView {
    /// `coordinator` is what its agent did, if there was one.
    pub(crate) fn of(
        stored: &StoredRun,
        document: &LoadedWorkflow,
        coordinator: Option<AttemptView>,
    ) -> Result<TalkView, JournalError> {
        let mut sent: Vec<(Letter, Timestamp)> = Vec::new();
        let mut fates: HashMap<String, MessageFate> = HashMap::new();
        let mut memory: Vec<NoteView> = Vec::new();
        let (mut summary, mut paid) = (None, None);
        for row in &stored.rows {
            let damaged =
                |why: String| JournalError::Damaged { id: stored.run.id.clone(), seq: row.seq, why };
            let (entry, at) = (&row.entry, row.entry.at);
            if entry.kind == RowKind::Told
                && let Some(record) = turn_rows::read(entry)
                && let TurnRecord::UserMessage { mail, .. } = record.map_err(damaged)?
            {
                // Later attempts of a step are told it once more.
                for id in mail {
                    fates.entry(id).or_insert(MessageFate::Read(at));
                }
            }
            // Rows of other names are somebody else's.
            if entry.kind != RowKind::Signal || entry.key != Signal::ROW_KEY {
                continue;
            }
            match Signal::read(&entry.payload).map_err(|error| damaged(error.to_string()))? {
                Signal::MessageSent { letter } => sent.push((letter, at)),
                Signal::MessageDropped { id, reason } => {
                    fates.insert(id, MessageFate::Dropped(reason));
                }
                Signal::MessageDelivered { id } => {
                    fates.insert(id, MessageFate::Read(at));
                }
                Signal::MemoryWritten { key, value } => {
                    memory.retain(|note| note.key != key);
                    memory.push(NoteView { key, value, written: at });
                }
                Signal::Finalized { summary: said } => summary = Some(said),
                Signal::CoordinatorPaid { spent } => paid = Some(spent),
            }
        }
        memory.sort_by(|left, right| left.key.cmp(&right.key));
        let messages = sent.into_iter().map(|(letter, at)| {
            let fate = fates.get(&letter.id).copied().unwrap_or(MessageFate::Waiting);
            let Letter { id, from, to, msg_type, text } = letter;
            let is_known = to.step_id().is_none_or(|id| place(document, id) != Place::Nowhere);
            MessageView { id, from, to, is_known, msg_type, text, sent: at, fate }
        });
        let coordinator = coordinator.map(|attempt| CoordinatorView {
            summary,
            spent: paid.unwrap_or(attempt.spent),
            turns: attempt.turns,
        });
        Ok(TalkView { messages: messages.collect(), memory, coordinator })
    }
}

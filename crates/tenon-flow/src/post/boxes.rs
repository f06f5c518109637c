//! What lies in the boxes of a run's readers, and who still reads. Who puts it there and takes it out is `../post.rs`.

use std::collections::{BTreeMap, VecDeque};

use tenon_agent::Stop;

use crate::addressee::{around, is_or_is_inside, items};
use crate::message::{Address, DropReason, Letter};
use crate::signal::Signal;

#[derive(Default)]
pub(super) struct State {
    /// Of the next message.
    pub(super) number: u64,
    pub(super) boxes: BTreeMap<Address, Slot>,
    /// How many items loops have, since it is known.
    pub(super) items: BTreeMap<String, u32>,
    /// Nobody reads any more, for this reason.
    pub(super) over: Option<(DropReason, Dropped)>,
    /// What is known and not yet kept.
    pub(super) unwritten: Vec<Signal>,
    /// Dropped until the run goes on; for good, should the reader complete.
    pub(super) set_aside: Vec<(Letter, DropReason)>,
}

#[derive(Default)]
pub(super) struct Slot {
    pub(super) phase: Phase,
    pub(super) unread: VecDeque<Letter>,
    /// The first so many are with the reader, who has not told them yet.
    pub(super) in_hand: usize,
    /// What the reader, or one before it, was told.
    pub(super) read: Vec<Letter>,
    /// What one before it was told, and the reader was not yet.
    pub(super) again: VecDeque<Letter>,
    pub(super) again_in_hand: usize,
    /// Being kept.
    pub(super) arriving: usize,
    /// What the run itself has to say.
    pub(super) notes: VecDeque<Note>,
    pub(super) notes_in_hand: usize,
    /// Whether the reader was told that the run is over, and nothing since.
    pub(super) knows_the_end: bool,
    /// The run is over: there will be nothing more to say.
    pub(super) is_over: bool,
    /// Ends the reader.
    pub(super) stop: Option<Stop>,
    /// A message ended it.
    pub(super) cancelled: bool,
}

/// Something that the run itself tells a reader.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Note {
    /// What it is kept under, when it is told.
    pub(crate) id: String,
    pub(crate) text: String,
}

impl Note {
    /// The run is over.
    pub(crate) const END: &'static str = "end";
    /// A message of the reader's was not read.
    pub(super) const NOT_READ: &'static str = "note";

    pub(super) fn is_the_end(&self) -> bool {
        self.id == Note::END
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Phase {
    /// Somebody will read, later.
    #[default]
    Waiting,
    Open,
    Closed(DropReason, Dropped),
}

/// How long a message stays dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dropped {
    ForGood,
    /// Should the run go on, so does the step that it is for, and reads it.
    UntilResumed,
}

impl State {
    pub(super) fn slot(&mut self, address: &Address) -> &mut Slot {
        self.boxes.entry(address.clone()).or_default()
    }

    pub(super) fn with_all_inside(&self, step_id: &str) -> Vec<Address> {
        let is_meant = |address: &&Address| address.step_id().is_some_and(|id| is_or_is_inside(id, step_id));
        self.boxes.keys().filter(is_meant).cloned().collect()
    }

    /// What was dropped until the run goes on is never read: its reader is done.
    pub(super) fn drop_for_good(&mut self, is_done: impl Fn(&Address) -> bool) {
        let (done, rest) =
            std::mem::take(&mut self.set_aside).into_iter().partition(|(letter, _)| is_done(&letter.to));
        self.set_aside = rest;
        let done: Vec<(Letter, DropReason)> = done;
        let signals =
            done.into_iter().map(|(letter, reason)| Signal::MessageDropped { id: letter.id, reason });
        self.unwritten.extend(signals);
    }

    /// Why nobody reads there any more: it is over, or something that it is inside of, or there is no such item. And for how
    /// long.
    pub(super) fn closed(&self, to: &Address) -> Option<(DropReason, Dropped)> {
        let phase = |address: &Address| self.boxes.get(address).map(|slot| slot.phase);
        let closed = |address: &Address| match phase(address) {
            Some(Phase::Closed(reason, dropped)) => Some((reason, dropped)),
            Some(Phase::Waiting | Phase::Open) | None => None,
        };
        let Some(id) = to.step_id() else { return closed(to) };
        // Whoever reads, reads: also inside a loop that is tried again.
        if phase(to) == Some(Phase::Open) {
            return None;
        }
        let is_beyond = |(each, item): (&str, u32)| self.items.get(each).is_some_and(|count| item >= *count);
        match around(id).find_map(|id| closed(&Address::Step(id.to_owned()))) {
            None if items(id).any(is_beyond) => Some((DropReason::UnknownStep, Dropped::ForGood)),
            closed => closed,
        }
    }
}

impl Slot {
    /// The reader is gone, with what it had in its hand and did not tell.
    pub(super) fn put_back(&mut self) {
        (self.in_hand, self.again_in_hand, self.notes_in_hand) = (0, 0, 0);
    }
}

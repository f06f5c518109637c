//! How an agent reads what the post has for it: between its turns, and once more before it ends.

use std::collections::HashSet;
use std::sync::Arc;

use tenon_agent::{Mail, Mailbox, Stop};
use tenon_core::BoxFut;
use tokio::time::Instant;

use super::boxes::{Phase, Slot, State};
use super::{Dropped, HOLD, Post};
use crate::event::FlowEventData;
use crate::message::{
    Address, AgentIdle, AgentWake, CoordinatorInboxMessage, DropReason, Letter, MaxWakeCyclesWarning,
    MessageType,
};

/// How often messages make an agent go on that had nothing more to do: two that only answer each other would never end.
const MAX_WAKES: u32 = 10;
/// When the end of that is near: 80 %.
const WARN_AT: u32 = MAX_WAKES * 8 / 10;
/// The coordinator has nothing to do but to listen. The last time is for the end of the run.
const MAX_COORDINATOR_WAKES: u32 = 100;
/// What a model is told at once; the rest waits for its next turn. One message always fits.
pub(super) const MAX_MAIL_CHARS: usize = 64_000;

/// What one agent reads.
pub(crate) struct Reader {
    post: Arc<Post>,
    address: Address,
}

impl Reader {
    /// An agent begins to read; a message can end it. `told` are the messages that its conversation holds already.
    pub(crate) fn new(post: &Arc<Post>, address: Address, stop: Stop, told: &HashSet<String>) -> Reader {
        post.open(&address, stop, told);
        Reader { post: Arc::clone(post), address }
    }

    /// When the coordinator has nothing more to do: it waits for the next thing to happen. It has answered when it knows that
    /// the run is over, and nothing is left to tell.
    async fn coordinator_wakes(&self, woken: u32) -> bool {
        let waits_for_the_end = woken + 1 >= MAX_COORDINATOR_WAKES;
        let is_so = |state: &mut State| {
            let slot = state.slot(&self.address);
            slot.is_over || slot.phase != Phase::Open || slot.has_something() && !waits_for_the_end
        };
        while !self.post.wait_until(Instant::now() + HOLD, is_so).await {}
        if woken >= MAX_COORDINATOR_WAKES {
            self.post.close_for(&self.address, DropReason::MaxWakeCycles).await;
            return false;
        }
        let mut state = self.post.state();
        let slot = state.slot(&self.address);
        slot.phase == Phase::Open && slot.has_something()
    }

    async fn step_wakes(&self, woken: u32) -> bool {
        let arrived = |state: &mut State| state.slot(&self.address).arriving == 0;
        if !self.post.wait_until(Instant::now() + HOLD, arrived).await {
            let mut state = self.post.state();
            state.slot(&self.address).phase = Phase::Closed(DropReason::HoldTimeout, Dropped::ForGood);
        }
        let unread = {
            let mut state = self.post.state();
            let slot = state.slot(&self.address);
            let unread = slot.again.len() + slot.unread.len();
            if unread > 0 && woken >= MAX_WAKES {
                let reason = DropReason::MaxWakeCycles;
                self.post.drop_unread(&mut state, &self.address, reason, Dropped::ForGood);
            }
            u32::try_from(unread).unwrap_or(u32::MAX)
        };
        if unread == 0 {
            return false;
        }
        if woken >= MAX_WAKES {
            self.post.write_rest().await;
            return false;
        }
        let tell = |data| self.post.tell(&self.address, data);
        let cycle = woken + 1;
        tell(FlowEventData::AgentIdle(AgentIdle { unread_count: unread }));
        if cycle == WARN_AT {
            tell(FlowEventData::MaxWakeCyclesWarning(MaxWakeCyclesWarning {
                current_cycle: cycle,
                max_cycles: MAX_WAKES,
                unread_remaining: unread,
            }));
        }
        tell(FlowEventData::AgentWake(AgentWake { message_count: unread, cycle }));
        true
    }
}

impl Mailbox for Reader {
    fn take(&self) -> Option<Mail> {
        let mut state = self.post.state();
        let slot = state.slot(&self.address);
        let (mut text, mut chars) = (String::new(), 0);
        let mut ids = Vec::new();
        slot.put_back();
        let notes = slot.notes.iter().map(|note| (note.id.as_str(), note.text.clone()));
        let letters = slot.again.iter().chain(&slot.unread).map(|letter| (letter.id.as_str(), shown(letter)));
        for (id, piece) in notes.chain(letters) {
            chars += piece.chars().count();
            if !ids.is_empty() && chars > MAX_MAIL_CHARS {
                break;
            }
            if !ids.is_empty() {
                text.push_str("\n\n");
            }
            text.push_str(&piece);
            ids.push(id.to_owned());
        }
        slot.notes_in_hand = ids.len().min(slot.notes.len());
        slot.again_in_hand = (ids.len() - slot.notes_in_hand).min(slot.again.len());
        slot.in_hand = ids.len() - slot.notes_in_hand - slot.again_in_hand;
        (!ids.is_empty()).then_some(Mail { ids, text })
    }

    fn told(&self, _mail: &Mail) {
        let mut state = self.post.state();
        let slot = state.slot(&self.address);
        let (notes, again, letters) = (slot.notes_in_hand, slot.again_in_hand, slot.in_hand);
        slot.put_back();
        slot.again.drain(..again.min(slot.again.len()));
        slot.knows_the_end = slot.notes.drain(..notes.min(slot.notes.len())).any(|note| note.is_the_end());
        let read: Vec<Letter> = slot.unread.drain(..letters.min(slot.unread.len())).collect();
        slot.read.extend(read.iter().cloned());
        if self.address == Address::Coordinator {
            for _ in 0..notes {
                let data = CoordinatorInboxMessage {
                    id: None,
                    from: "workflow".to_owned(),
                    msg_type: MessageType::Info,
                };
                self.post.events.emit(FlowEventData::CoordinatorInboxMessage(data));
            }
        }
        read.iter().for_each(|letter| self.post.tell_read(letter));
    }

    fn wakes(&self, woken: u32) -> BoxFut<'_, bool> {
        match self.address {
            Address::Coordinator => Box::pin(self.coordinator_wakes(woken)),
            Address::Step(_) => Box::pin(self.step_wakes(woken)),
        }
    }

    fn close(&self) -> bool {
        let mut state = self.post.state();
        let slot = state.slot(&self.address);
        if matches!(slot.phase, Phase::Closed(..)) {
            return true;
        }
        let hears_notes = self.address == Address::Coordinator && !slot.notes.is_empty();
        if slot.arriving > 0 || !slot.again.is_empty() || !slot.unread.is_empty() || hears_notes {
            return false;
        }
        // For good once the step has completed.
        slot.phase = Phase::Closed(DropReason::TargetTerminal, Dropped::UntilResumed);
        true
    }
}

impl Slot {
    pub(super) fn has_something(&self) -> bool {
        !self.again.is_empty() || !self.unread.is_empty() || !self.notes.is_empty()
    }
}

/// A message as its reader is told it.
fn shown(letter: &Letter) -> String {
    let from = match &letter.from {
        Address::Coordinator => "the coordinator".to_owned(),
        Address::Step(id) => format!("`{id}`"),
    };
    let what = match letter.msg_type {
        MessageType::Info => "Message",
        MessageType::ContextUpdate => "Context update",
        MessageType::Cancel => "Order to stop",
    };
    format!("[{what} {} from {from}]\n{}", letter.id, letter.text)
}

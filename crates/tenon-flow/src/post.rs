//! The post of a run: every message is read once, or dropped for a reason that is told.
//!
//! A message is kept before its sender is answered and before anybody can read it. It is read when it stands in the kept
//! conversation of its reader (`tenon-agent/src/mailbox.rs`), and what was sent and neither read nor dropped waits when the run
//! goes on. A step can be written to before it starts; one that is over stays over, and what comes for it is dropped. A step that
//! is tried again is told once more what its earlier attempts were told: their conversations are not its own.
//! What agents see of this is in `message_tools.rs`, whom a name means in `addressee.rs`.

mod boxes;
#[cfg(test)]
mod interleavings;
mod reader;

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tenon_agent::Stop;
use tenon_core::{ErrorClass, Failure};
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::addressee::{Place, around, is_or_is_inside, items, place};
use crate::coordinator::Coordination;
use crate::emitter::FlowEmitter;
use crate::event::FlowEventData;
use crate::load::LoadedWorkflow;
use crate::message::{
    Address, AgentInboxDrain, CoordinatorInboxMessage, DropReason, Letter, MessageDropped, MessageSent,
    MessageType,
};
use crate::signal::{Signal, SignalJournal, Signals};

use boxes::{Phase, State};
use reader::MAX_MAIL_CHARS;

pub(crate) use boxes::{Dropped, Note};
pub(crate) use reader::Reader;

/// Unread messages of one step.
const MAX_UNREAD: usize = 10_000;
/// How long the end of a step waits for a message that is being kept for it.
const HOLD: Duration = Duration::from_secs(30);

pub(crate) struct Post {
    flow: Arc<LoadedWorkflow>,
    events: Arc<FlowEmitter>,
    journal: Arc<dyn SignalJournal>,
    state: Mutex<State>,
    changed: Notify,
}

/// What became of a message when it was sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Sent {
    Queued(String),
    Dropped(DropReason),
    /// The journal does not take it.
    NotKept(String),
}

impl Post {
    /// With what was sent before and not read.
    pub(crate) fn new(
        flow: Arc<LoadedWorkflow>,
        events: Arc<FlowEmitter>,
        signals: &Signals,
        coordination: Coordination,
    ) -> Post {
        let mut state = State { number: 1, ..State::default() };
        if coordination == Coordination::On {
            state.slot(&Address::Coordinator).phase = Phase::Waiting;
        }
        for id in &signals.ended {
            state.slot(&Address::Step(id.clone())).phase =
                Phase::Closed(DropReason::TargetTerminal, Dropped::ForGood);
        }
        let post = Post {
            flow,
            events,
            journal: Arc::clone(&signals.journal),
            state: Mutex::new(state),
            changed: Notify::new(),
        };
        post.take_over(signals);
        post
    }

    fn take_over(&self, signals: &Signals) {
        let settled: HashSet<&str> = signals
            .records
            .iter()
            .filter_map(|signal| match signal {
                Signal::MessageDropped { id, .. } | Signal::MessageDelivered { id } => Some(id.as_str()),
                _ => None,
            })
            .collect();
        let mut state = self.state();
        for signal in &signals.records {
            let Signal::MessageSent { letter } = signal else { continue };
            let number = letter.id.rsplit('-').next().and_then(|digits| digits.parse().ok()).unwrap_or(0);
            state.number = state.number.max(number + 1);
            if signals.mail_told.contains(&letter.id) {
                state.slot(&letter.to).read.push(letter.clone());
                continue;
            }
            if settled.contains(letter.id.as_str()) {
                continue;
            }
            match self.refuses(&mut state, &letter.to) {
                Some((reason, dropped)) => {
                    self.drop_letter(&mut state, letter, reason, TellSender::No, dropped)
                }
                None => state.slot(&letter.to).unread.push_back(letter.clone()),
            }
        }
    }

    /// Sends a message. Its id begins with `prefix`.
    pub(crate) async fn send(
        &self,
        prefix: &str,
        from: Address,
        to: Address,
        msg_type: MessageType,
        text: &str,
    ) -> Sent {
        let (letter, refused) = {
            let mut state = self.state();
            let id = format!("{prefix}-{}", state.number);
            state.number += 1;
            let letter = Letter { id, from, to, msg_type, text: text.to_owned() };
            let refused = self.refuses(&mut state, &letter.to);
            match refused {
                Some((reason, dropped)) => {
                    self.drop_letter(&mut state, &letter, reason, TellSender::No, dropped);
                }
                None => state.slot(&letter.to).arriving += 1,
            }
            (letter, refused)
        };
        let sent = Signal::MessageSent { letter: letter.clone() };
        if let Some((reason, _)) = refused {
            // It reaches nobody, whether or not that can be kept.
            let mut signals = vec![sent];
            signals.append(&mut self.state().unwritten);
            let _ = self.journal.write(signals).await;
            return Sent::Dropped(reason);
        }
        let id = letter.id.clone();
        let mut arrival = Arrival { post: self, letter: Some(letter) };
        let kept = self.journal.write(vec![sent]).await;
        let Some(letter) = arrival.letter.take() else { return Sent::Queued(id) };
        if let Err(why) = kept {
            let mut state = self.state();
            state.slot(&letter.to).arriving -= 1;
            self.changed.notify_waiters();
            return Sent::NotKept(why);
        }
        match self.land(letter, TellSender::No) {
            None => Sent::Queued(id),
            Some(reason) => {
                self.write_rest().await;
                Sent::Dropped(reason)
            }
        }
    }

    /// Puts a message that is kept before its reader, unless there is none any more.
    fn land(&self, letter: Letter, tell: TellSender) -> Option<DropReason> {
        let mut state = self.state();
        state.slot(&letter.to).arriving -= 1;
        self.changed.notify_waiters();
        if let Some((reason, dropped)) = state.closed(&letter.to).or(state.over) {
            self.drop_letter(&mut state, &letter, reason, tell, dropped);
            return Some(reason);
        }
        self.tell(
            &letter.from,
            FlowEventData::MessageSent(MessageSent {
                id: letter.id.clone(),
                to: letter.to.to_string(),
                text: letter.text.clone(),
                msg_type: letter.msg_type,
            }),
        );
        let (is_cancel, to) = (letter.msg_type == MessageType::Cancel, letter.to.clone());
        state.slot(&to).unread.push_back(letter);
        if is_cancel {
            self.cancel_reader(&mut state, &to);
        }
        None
    }

    /// Why nothing can be sent there.
    fn refuses(&self, state: &mut State, to: &Address) -> Option<(DropReason, Dropped)> {
        if let Some(over) = state.over {
            return Some(over);
        }
        match to {
            Address::Coordinator if !state.boxes.contains_key(to) => {
                return Some((DropReason::NoCoordinator, Dropped::ForGood));
            }
            Address::Step(id) if place(&self.flow, id) != Place::Agent => {
                return Some((DropReason::UnknownStep, Dropped::ForGood));
            }
            _ => {}
        }
        if let Some(closed) = state.closed(to) {
            return Some(closed);
        }
        let slot = state.slot(to);
        let is_full = slot.unread.len() + slot.arriving >= MAX_UNREAD;
        is_full.then_some((DropReason::MailboxFull, Dropped::ForGood))
    }

    /// Something that the run itself tells the coordinator, or an agent that takes another turn anyway.
    pub(crate) fn note(&self, to: &Address, note: Note) {
        let mut state = self.state();
        if state.boxes.get(to).is_some_and(|slot| !matches!(slot.phase, Phase::Closed(..))) {
            state.slot(to).notes.push_back(note);
            drop(state);
            self.changed.notify_waiters();
        }
    }

    /// The run is over, which whoever has been told already is not told again.
    pub(crate) fn note_the_end(&self, to: &Address, text: String) {
        let mut state = self.state();
        let slot = state.slot(to);
        slot.is_over = true;
        if !matches!(slot.phase, Phase::Closed(..)) && (!slot.knows_the_end || slot.has_something()) {
            let end = Note { id: Note::END.to_owned(), text };
            match slot.notes.iter().map(|note| note.text.len()).sum::<usize>() < MAX_MAIL_CHARS / 2 {
                true => slot.notes.push_back(end),
                // What does not fit beside it is of no use any more.
                false => slot.notes.push_front(end),
            }
        }
        drop(state);
        self.changed.notify_waiters();
    }

    /// Before the run went on, the reader was told that it is over, and nothing since.
    pub(crate) fn knew_the_end(&self, reader: &Address) {
        self.state().slot(reader).knows_the_end = true;
    }

    /// Waits for something to tell this reader. Whether there is, before the run is over.
    pub(crate) async fn has_news(&self, reader: &Address) -> bool {
        let is_so = |state: &mut State| state.slot(reader).has_something() || state.slot(reader).is_over;
        while !self.wait_until(Instant::now() + HOLD, is_so).await {}
        self.state().slot(reader).has_something()
    }

    /// An agent begins to read. `told` stands in its conversation already; what was told only to one before it is told once
    /// more.
    pub(crate) fn open(&self, reader: &Address, stop: Stop, told: &HashSet<String>) {
        let mut state = self.state();
        let slot = state.slot(reader);
        slot.phase = Phase::Open;
        slot.stop = Some(stop);
        slot.cancelled = false;
        slot.put_back();
        slot.again = slot.read.iter().filter(|letter| !told.contains(&letter.id)).cloned().collect();
        if slot.unread.iter().any(|letter| letter.msg_type == MessageType::Cancel) {
            self.cancel_reader(&mut state, reader);
        }
    }

    /// A message ends its reader, and has been read with that.
    fn cancel_reader(&self, state: &mut State, reader: &Address) {
        let slot = state.slot(reader);
        let Some(stop) = slot.stop.clone().filter(|_| slot.phase == Phase::Open) else { return };
        slot.cancelled = true;
        slot.phase = Phase::Closed(DropReason::TargetTerminal, Dropped::UntilResumed);
        let at = slot.unread.iter().position(|letter| letter.msg_type == MessageType::Cancel);
        if let Some(letter) = at.and_then(|at| slot.unread.remove(at)) {
            state.unwritten.push(Signal::MessageDelivered { id: letter.id.clone() });
            self.tell_read(&letter);
        }
        stop.now(Failure::new(ErrorClass::Internal, "a message told the step to stop"));
    }

    /// Whether a message ended this reader.
    pub(crate) fn was_cancelled(&self, reader: &Address) -> bool {
        self.state().slot(reader).cancelled
    }

    /// An agent has ended. One that may be tried again leaves what it has not read to its successor.
    pub(crate) async fn read_to_the_end(&self, reader: &Address, then: AfterReading) {
        {
            let mut state = self.state();
            let slot = state.slot(reader);
            slot.put_back();
            slot.stop = None;
            slot.phase = match (then, slot.phase) {
                (AfterReading::Nobody, Phase::Closed(reason, _)) => Phase::Closed(reason, Dropped::ForGood),
                (AfterReading::Nobody, Phase::Waiting | Phase::Open) => {
                    Phase::Closed(DropReason::TargetTerminal, Dropped::ForGood)
                }
                (AfterReading::MaybeAnother, Phase::Open) => Phase::Waiting,
                (AfterReading::MaybeAnother, other) => other,
            };
            if let Phase::Closed(reason, dropped) = slot.phase {
                self.drop_unread(&mut state, reader, reason, dropped);
            }
            if then == AfterReading::Nobody {
                state.drop_for_good(|address| address == reader);
            }
        }
        self.write_rest().await;
    }

    /// A step is over, or will not run, with all that is inside it.
    pub(crate) fn over(&self, step_id: &str, dropped: Dropped) {
        let mut state = self.state();
        let slot = state.slot(&Address::Step(step_id.to_owned()));
        slot.phase = Phase::Closed(DropReason::TargetTerminal, dropped);
        if dropped == Dropped::UntilResumed && around(step_id).any(|outer| outer != step_id) {
            // What is around it may be tried again, and the step with it. If not, that is over, too.
            slot.put_back();
            return;
        }
        for address in state.with_all_inside(step_id) {
            self.drop_unread(&mut state, &address, DropReason::TargetTerminal, dropped);
        }
        if dropped == Dropped::ForGood {
            state.drop_for_good(|address| address.step_id().is_some_and(|id| is_or_is_inside(id, step_id)));
        }
    }

    /// A step is tried again, with all that is inside it.
    pub(crate) fn tried_again(&self, step_id: &str) {
        let mut state = self.state();
        for address in state.with_all_inside(step_id) {
            let slot = state.slot(&address);
            if matches!(slot.phase, Phase::Closed(DropReason::TargetTerminal, _)) {
                slot.phase = Phase::Waiting;
            }
        }
    }

    /// A step is about to be worked on, perhaps once more: inside a loop that is tried again.
    pub(crate) fn begins(&self, step_id: &str) {
        let mut state = self.state();
        let slot = state.slot(&Address::Step(step_id.to_owned()));
        if matches!(slot.phase, Phase::Closed(..)) {
            slot.phase = Phase::Waiting;
        }
    }

    /// A loop over items has begun, and has so many of them.
    pub(crate) fn has_items(&self, step_id: &str, count: u32) {
        let mut state = self.state();
        state.items.insert(step_id.to_owned(), count);
        let beyond = |address: &&Address| {
            let mut items = address.step_id().into_iter().flat_map(items);
            items.any(|(each, item)| each == step_id && item >= count)
        };
        for address in state.boxes.keys().filter(beyond).cloned().collect::<Vec<_>>() {
            self.drop_unread(&mut state, &address, DropReason::UnknownStep, Dropped::ForGood);
        }
    }

    /// Nobody reads here any more, for this reason.
    pub(crate) async fn close_for(&self, reader: &Address, reason: DropReason) {
        {
            let mut state = self.state();
            state.slot(reader).phase = Phase::Closed(reason, Dropped::ForGood);
            self.drop_unread(&mut state, reader, reason, Dropped::ForGood);
        }
        self.write_rest().await;
    }

    /// The run is over, and what was not read is dropped.
    pub(crate) async fn end(&self, reason: DropReason, dropped: Dropped) {
        self.state().over = Some((reason, dropped));
        self.all_arrived().await;
        {
            let mut state = self.state();
            for reader in state.boxes.keys().cloned().collect::<Vec<_>>() {
                self.drop_unread(&mut state, &reader, reason, dropped);
            }
            if dropped == Dropped::ForGood {
                state.drop_for_good(|_| true);
            }
        }
        self.write_rest().await;
    }

    /// The run waits for somebody: everything is kept.
    pub(crate) async fn rest(&self) {
        self.all_arrived().await;
        self.write_rest().await;
    }

    async fn all_arrived(&self) {
        let deadline = Instant::now() + HOLD;
        self.wait_until(deadline, |state| state.boxes.values().all(|slot| slot.arriving == 0)).await;
    }

    fn drop_unread(&self, state: &mut State, reader: &Address, reason: DropReason, dropped: Dropped) {
        let slot = state.slot(reader);
        let letters: Vec<Letter> = slot.unread.drain(..).collect();
        slot.put_back();
        slot.notes.clear();
        // It has been read, if not by everybody.
        slot.again.clear();
        for letter in letters {
            self.drop_letter(state, &letter, reason, TellSender::Yes, dropped);
        }
    }

    fn drop_letter(
        &self,
        state: &mut State,
        letter: &Letter,
        reason: DropReason,
        tell: TellSender,
        dropped: Dropped,
    ) {
        self.tell(
            &letter.from,
            FlowEventData::MessageDropped(MessageDropped {
                id: letter.id.clone(),
                reason,
                from: letter.from.to_string(),
                to: letter.to.to_string(),
                msg_type: letter.msg_type,
            }),
        );
        match dropped {
            Dropped::ForGood => {
                state.unwritten.push(Signal::MessageDropped { id: letter.id.clone(), reason });
            }
            Dropped::UntilResumed => state.set_aside.push((letter.clone(), reason)),
        }
        if tell == TellSender::Yes
            && let Some(sender) = state.boxes.get_mut(&letter.from)
            && sender.phase == Phase::Open
        {
            let (id, to, why) = (&letter.id, &letter.to, reason.name());
            sender.notes.push_back(Note {
                id: Note::NOT_READ.to_owned(),
                text: format!("Your message {id} to `{to}` was not read: {why}."),
            });
        }
    }

    fn tell_read(&self, letter: &Letter) {
        let (id, from, msg_type) = (letter.id.clone(), letter.from.to_string(), letter.msg_type);
        match &letter.to {
            Address::Coordinator => {
                let data = CoordinatorInboxMessage { id: Some(id), from, msg_type };
                self.events.emit(FlowEventData::CoordinatorInboxMessage(data));
            }
            to => self.tell(to, FlowEventData::AgentInboxDrain(AgentInboxDrain { id, from, msg_type })),
        }
    }

    fn tell(&self, whom: &Address, data: FlowEventData) {
        self.events.emit_for(whom.step_id(), None, data);
    }

    /// Keeps what could not be kept where it was found out. What cannot be kept is found out again when the run goes on.
    async fn write_rest(&self) {
        let signals = std::mem::take(&mut self.state().unwritten);
        if !signals.is_empty() {
            let _ = self.journal.write(signals).await;
        }
    }

    /// Whether it came to be in time.
    async fn wait_until(&self, deadline: Instant, is_so: impl Fn(&mut State) -> bool) -> bool {
        loop {
            let changed = self.changed.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            if is_so(&mut self.state()) {
                return true;
            }
            if tokio::time::timeout_at(deadline, changed).await.is_err() {
                return false;
            }
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What happens after an agent has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AfterReading {
    Nobody,
    /// The step may be tried again.
    MaybeAnother,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TellSender {
    Yes,
    /// It is told otherwise, or is not there.
    No,
}

/// A message that is being kept. Should its sender be dropped meanwhile, it may be kept all the same, so it arrives.
struct Arrival<'a> {
    post: &'a Post,
    letter: Option<Letter>,
}

impl Drop for Arrival<'_> {
    fn drop(&mut self) {
        if let Some(letter) = self.letter.take() {
            self.post.land(letter, TellSender::No);
        }
    }
}

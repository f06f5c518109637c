//! Makes room when a conversation fills the model's context.
//!
//! Older messages are replaced by a summary that the model itself writes; the task stays word for word, and so
//! do the last turns, calls together with their results. When there is no useful summary, older tool outputs
//! are left out instead. How full the context is says `context.rs`, what the model is asked `summary.rs`.
//! What was said is not lost: a journal keeps the messages it already has.

use tenon_core::{CompactTrigger, ErrorClass, EventKind, Failure, Message, Part, Role, TurnRecord};
use tenon_tools::HookInput;

use crate::context::{message_bytes, result_bytes};
use crate::failures;
use crate::run_state::Run;
use crate::summary::{self, NoSummary};

/// Turns that stay as they are may take this much of the room; the last one stays whatever it takes.
const KEPT_SHARE: f64 = 0.3;
/// A summary of less than this would cost more than it gains.
const WORTH_SHARE: f64 = 0.1;
/// After a compaction there must be room for a few turns, or it would be needed again at once.
const AFTERWARDS_SHARE: f64 = 0.7;
/// Compactions with at most one turn between them: work that does not fit is not made to fit by more of them.
const MOST_IN_A_ROW: u32 = 5;
/// Shorter outputs are not worth leaving out.
const SMALL_OUTPUT: usize = 200;

/// On request room is made as if the context were at least this large: a summary needs some space itself.
const REQUESTED_ROOM: u64 = 8_000;
/// The context of a model that nobody knows, for the transcript that it is asked to summarise.
const UNKNOWN_LIMIT: u64 = 128_000;

/// What a run remembers about making room.
pub(crate) struct Compactions {
    /// Where the history has the message that says what the run is about.
    task_at: Option<usize>,
    /// The same without a summary that was added to it.
    task: Option<Message>,
    in_a_row: u32,
    last_turn: Option<u32>,
}

/// What there is, and what there should be.
#[derive(Clone, Copy)]
pub(crate) struct Room {
    /// Tokens that a request may hold.
    pub(crate) limit: u64,
    /// Tokens at which room is made.
    pub(crate) trigger: u64,
    /// Tokens of the next request as it stands.
    before: u64,
    why: CompactTrigger,
}

/// What came of making room on request, in tokens of the next request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Relief {
    /// There is nothing that could be replaced.
    Nothing,
    /// The summary was no gain, and was thrown away.
    NoShorter {
        before: u64,
        after: u64,
    },
    Shorter {
        before: u64,
        after: u64,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Made {
    Room,
    Nothing,
}

impl Compactions {
    /// A run that goes on where a history ends is about the last thing that somebody said in it.
    pub(crate) fn new(history: &[Message]) -> Compactions {
        let said = |message: &Message| {
            message.role == Role::User
                && !message.parts.iter().any(|part| matches!(part, Part::ToolResult(_)))
        };
        let task_at = history.iter().rposition(said);
        let task = task_at.and_then(|at| history.get(at)).cloned();
        Compactions { task_at, task, in_a_row: 0, last_turn: None }
    }

    /// The run is about `message`, which stands at `at`, perhaps after something else.
    pub(crate) fn task_is(&mut self, message: Message, at: usize) {
        self.task_at = Some(at);
        self.task = Some(message);
    }

    /// How many it would be in a row with one after this many turns.
    fn in_a_row_with(&self, turns: u32) -> u32 {
        let follows = self.last_turn.is_some_and(|last| turns <= last + 1);
        if follows { self.in_a_row + 1 } else { 1 }
    }

    /// Room was made after this many turns.
    fn count(&mut self, turns: u32) {
        self.in_a_row = self.in_a_row_with(turns);
        self.last_turn = Some(turns);
    }
}

impl Run<'_> {
    /// Before a request: makes room when it would fill the context.
    pub(crate) async fn make_room(&mut self) -> Result<(), Box<Failure>> {
        let Some(room) = self.room() else { return Ok(()) };
        if room.before < room.trigger {
            return Ok(());
        }
        self.compact(room).await?;
        let after = self.next_tokens();
        // Asking all the same would be worse: some servers cut the beginning off and say nothing.
        if after >= room.limit {
            self.does_not_fit = true;
            return Err(self.with_attempts(failures::context_too_small(after, room.limit)));
        }
        Ok(())
    }

    /// After a server refused a request of `tokens` as too long, for the `refused`-th time in this turn.
    pub(crate) async fn make_room_after_refusal(
        &mut self,
        failure: Failure,
        tokens: u64,
        refused: u32,
    ) -> Result<(), Box<Failure>> {
        self.context.refused(tokens);
        let made = match (refused, self.room()) {
            (1, Some(room)) => self.compact(room).await?,
            (2, Some(room)) => self.leave_out_outputs(room).await?,
            _ => Made::Nothing,
        };
        match made {
            Made::Room => Ok(()),
            Made::Nothing => Err(self.with_attempts(failure)),
        }
    }

    /// Because somebody asked for it: all but the last turn is summarised, however little that gains.
    pub(crate) async fn compact_on_request(
        &mut self,
        instructions: Option<&str>,
    ) -> Result<Relief, Box<Failure>> {
        let before = self.next_tokens();
        let limit = self.context.limit(self.agent.models.facts(&self.model)).unwrap_or(UNKNOWN_LIMIT);
        let trigger = before.max(REQUESTED_ROOM);
        let room = Room { limit: limit.max(trigger), trigger, before, why: CompactTrigger::Manual };
        let kept_from = kept_from(&self.history, self.compactions.task_at, 0);
        let replaced = self.replaced_bytes(kept_from);
        if replaced == 0 {
            return Ok(Relief::Nothing);
        }
        if let Some(why) = self.prevented_by_hook(room.why, instructions).await? {
            let message = format!("a `PreCompact` hook kept the conversation from being compacted: {why}");
            return Err(Box::new(Failure::new(ErrorClass::Input, message)));
        }
        match self.summarise(kept_from, replaced, room, instructions).await {
            Ok(summary) => {
                let messages = self.with_summary(&summary, kept_from, room);
                let after = self.tokens_with(&messages);
                if after >= before {
                    return Ok(Relief::NoShorter { before, after });
                }
                self.put_summary(messages, summary, room).await?;
                Ok(Relief::Shorter { before, after })
            }
            Err(NoSummary::Stopped(failure)) => Err(failure),
            Err(NoSummary::Useless(why)) => {
                let message = format!("the conversation was not compressed, because {why}");
                Err(Box::new(Failure::new(ErrorClass::Protocol, message)))
            }
        }
    }

    fn room(&mut self) -> Option<Room> {
        let limit = self.context.limit(self.agent.models.facts(&self.model))?;
        let trigger = share(limit, self.agent.compact_at);
        Some(Room { limit, trigger, before: self.next_tokens(), why: CompactTrigger::Auto })
    }

    /// What a summary of all before `kept_from` would replace. The task stays.
    fn replaced_bytes(&self, kept_from: usize) -> usize {
        let task_bytes = self.compactions.task.as_ref().map_or(0, message_bytes);
        let old_bytes: usize = self.history[..kept_from].iter().map(message_bytes).sum();
        old_bytes.saturating_sub(task_bytes)
    }

    /// Tokens of the next request as it stands.
    fn next_tokens(&mut self) -> u64 {
        let offer = self.offer();
        let load = self.context.weigh(&self.agent.system, &offer, &self.history);
        self.context.tokens(load)
    }

    /// The same with these messages instead.
    fn tokens_with(&mut self, messages: &[Message]) -> u64 {
        let offer = self.offer();
        let fixed = self.context.weigh(&self.agent.system, &offer, &self.history).fixed;
        self.context.tokens_in(fixed + messages.iter().map(message_bytes).sum::<usize>())
    }

    async fn compact(&mut self, room: Room) -> Result<Made, Box<Failure>> {
        if self.compactions.in_a_row_with(self.turns) > MOST_IN_A_ROW {
            return Err(self.with_attempts(failures::compacted_too_often(MOST_IN_A_ROW, room.limit)));
        }
        let kept_bytes = self.context.bytes_in(share(room.trigger, KEPT_SHARE));
        let kept_from = kept_from(&self.history, self.compactions.task_at, kept_bytes);
        let replaced = self.replaced_bytes(kept_from);
        if let Some(why) = self.prevented_by_hook(room.why, None).await? {
            let message = format!("a `PreCompact` hook kept the conversation from being compacted: {why}");
            self.emitter.emit(EventKind::Warning { message });
            return Ok(Made::Nothing);
        }
        if self.context.tokens_in(replaced) >= share(room.trigger, WORTH_SHARE) {
            match self.summarise(kept_from, replaced, room, None).await {
                Ok(summary) => {
                    let messages = self.with_summary(&summary, kept_from, room);
                    self.put_summary(messages, summary, room).await?;
                    return Ok(Made::Room);
                }
                Err(NoSummary::Stopped(failure)) => return Err(self.with_attempts(*failure)),
                Err(NoSummary::Useless(why)) => self.emitter.emit(EventKind::Warning {
                    message: format!(
                        "the conversation could not be summarised to make room ({why}); older tool outputs are left out instead"
                    ),
                }),
            }
        }
        self.leave_out_outputs(room).await
    }

    async fn put_summary(
        &mut self,
        messages: Vec<Message>,
        summary: String,
        room: Room,
    ) -> Result<(), Box<Failure>> {
        self.replace_history(messages, Some(0), room).await?;
        self.fire(HookInput::PostCompact { trigger: room.why, summary }).await?;
        Ok(())
    }

    /// Why a hook does not want this, if one does not.
    async fn prevented_by_hook(
        &self,
        trigger: CompactTrigger,
        instructions: Option<&str>,
    ) -> Result<Option<String>, Failure> {
        let asked = HookInput::PreCompact { trigger, instructions: instructions.map(str::to_owned) };
        Ok(self.fire(asked).await?.denied().map(str::to_owned))
    }

    /// The task, the summary, and the turns that stay.
    fn with_summary(&mut self, summary: &str, kept_from: usize, room: Room) -> Vec<Message> {
        let mut task =
            self.compactions.task.clone().unwrap_or(Message { role: Role::User, parts: Vec::new() });
        task.parts.push(Part::Text { text: summary::note(summary, !task.parts.is_empty()) });
        let mut messages = vec![task];
        messages.extend_from_slice(&self.history[kept_from..]);
        let offer = self.offer();
        let fixed = self.context.weigh(&self.agent.system, &offer, &self.history).fixed;
        let bytes = fixed + messages.iter().map(message_bytes).sum::<usize>();
        let wanted = self.context.bytes_in(share(room.trigger, AFTERWARDS_SHARE));
        if self.context.tokens_in(bytes) >= room.trigger {
            leave_out(&mut messages, bytes.saturating_sub(wanted));
        }
        messages
    }

    /// Without a summary: older tool outputs are cut to a line that says so, those of the last turn only if need be.
    async fn leave_out_outputs(&mut self, room: Room) -> Result<Made, Box<Failure>> {
        let wanted = share(room.trigger, AFTERWARDS_SHARE);
        let mut excess = self.context.bytes_in(room.before.saturating_sub(wanted));
        let mut messages = self.history.clone();
        let last = messages.iter().rposition(|message| message.role == Role::Assistant).unwrap_or(0);
        let mut saved = leave_out(&mut messages[..last], excess);
        excess = excess.saturating_sub(saved);
        if self.context.tokens_in(saved) + room.trigger <= room.before {
            saved += leave_out(&mut messages[last..], excess);
        }
        if saved == 0 {
            return Ok(Made::Nothing);
        }
        let task_at = self.compactions.task_at;
        self.replace_history(messages, task_at, room).await?;
        Ok(Made::Room)
    }

    async fn replace_history(
        &mut self,
        messages: Vec<Message>,
        task_at: Option<usize>,
        room: Room,
    ) -> Result<(), Box<Failure>> {
        self.history = messages;
        self.prompted = None;
        self.compactions.task_at = task_at;
        self.compactions.count(self.turns);
        self.context.start_over();
        let after_tokens = self.next_tokens();
        self.journal(TurnRecord::Compacted {
            messages: self.history.clone(),
            before_tokens: room.before,
            after_tokens,
        })
        .await?;
        self.emitter.emit(EventKind::Compacted {
            trigger: room.why,
            before_tokens: room.before,
            after_tokens,
        });
        Ok(())
    }
}

pub(crate) fn share(tokens: u64, share: f64) -> u64 {
    (tokens as f64 * share) as u64
}

/// Where the turns begin that stay: as many as fit, always the last one, never half a turn.
fn kept_from(history: &[Message], task_at: Option<usize>, room: usize) -> usize {
    let first = task_at.map_or(0, |at| at + 1);
    let mut from = None;
    let mut bytes = 0;
    for at in (first..history.len()).rev() {
        bytes += message_bytes(&history[at]);
        if history[at].role == Role::Assistant {
            if from.is_some() && bytes > room {
                break;
            }
            from = Some(at);
        }
    }
    from.unwrap_or(first.min(history.len()))
}

/// Leaves out tool outputs, oldest first, until this many bytes are saved. Returns how many were.
fn leave_out(messages: &mut [Message], excess: usize) -> usize {
    let mut saved = 0;
    let results = messages.iter_mut().flat_map(|message| &mut message.parts).filter_map(|part| match part {
        Part::ToolResult(result) => Some(result),
        _ => None,
    });
    for result in results {
        if saved >= excess {
            break;
        }
        let bytes = result_bytes(result);
        if bytes > SMALL_OUTPUT {
            let note = format!("[output of {bytes} bytes left out to save room]");
            saved += bytes - note.len();
            result.media.clear();
            result.stored = result.stored.take().map(|_| note.clone());
            result.content = note;
        }
    }
    saved
}

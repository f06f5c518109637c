//! Turns events into deltas: which block is being written, what it held, what the answer ended with.
//!
//! Blocks come one after the other. Servers that speak this wire in their own way may leave out that a block
//! has begun or ended, or send it whole at its beginning.

use serde_json::value::RawValue;
use tenon_core::{Delta, FinishReason, ModelError, Usage};

use super::events::{self, Counts, Event, Message};
use super::native;
use crate::answer::{Give, Next, Reader, Trouble};
use crate::call_id::CallIds;
use crate::errors;
use crate::loose_json::{arguments, number, text, word};
use crate::sse;

pub(super) struct Assembler {
    provider: String,
    ids: CallIds,
    open: Vec<Open>,
    /// How many calls have begun; the next one's index.
    calls: usize,
    /// A call that ended without arguments. Whether it has none or was cut off shows in what follows.
    bare_call: Option<usize>,
    stop: Option<FinishReason>,
    counts: Counts,
    given_usage: Option<Usage>,
}

/// A block that is being written.
struct Open {
    index: Option<u64>,
    block: Block,
}

enum Block {
    Text,
    Thinking {
        signature: Option<String>,
        is_empty: bool,
    },
    Call {
        index: usize,
        /// The arguments that stood at the block's beginning; they count when no others come.
        early: Option<String>,
        is_empty: bool,
    },
    /// Tools that the server runs itself, and whatever else there may be.
    Other,
}

impl Reader for Assembler {
    fn event(&mut self, event: &sse::Event, give: Give<'_>) -> Result<Next, Trouble> {
        let data = event.data.trim();
        // Not of this wire, but gateways add it.
        if data == "[DONE]" {
            return match self.is_finished() {
                true => Ok(Next::Done),
                false => Err(Trouble::Failed(errors::half_an_answer())),
            };
        }
        if event.name.as_deref() == Some("error") {
            return Err(Trouble::ErrorReport);
        }
        let read: Event<'_> = serde_json::from_str(data).map_err(|_| Trouble::NotJson)?;
        let kind = read.kind.and_then(word);
        let kind = kind.as_deref().or(event.name.as_deref()).unwrap_or_default();
        if kind == "error" || read.has_error() {
            return Err(Trouble::ErrorReport);
        }
        if kind == "message_stop" {
            return Ok(Next::Done);
        }
        self.take(kind, &read, give);
        Ok(Next::More)
    }

    fn whole(&mut self, json: &str, give: Give<'_>) -> Result<(), Trouble> {
        let message: Message<'_> = serde_json::from_str(json).map_err(|_| Trouble::NotJson)?;
        if message.has_error() || message.content.is_none() {
            return Err(Trouble::ErrorReport);
        }
        self.message(&message, give);
        Ok(())
    }

    fn is_finished(&self) -> bool {
        self.stop.is_some()
    }

    fn finish(&mut self, give: Give<'_>) -> Result<(), ModelError> {
        while let Some(open) = self.open.pop() {
            self.end(open.block, give);
        }
        let reason = match self.stop {
            Some(reason @ (FinishReason::Length | FinishReason::Refused)) => reason,
            // What came decides: `end_turn` may follow calls, and `tool_use` may follow none.
            _ if self.calls > 0 => FinishReason::ToolCalls,
            _ => FinishReason::Stop,
        };
        match reason {
            FinishReason::Length => self.end_bare_call(Bare::CutOff, give),
            _ => self.end_bare_call(Bare::Complete, give),
        }
        give(Delta::Finished(reason));
        Ok(())
    }
}

/// What to make of a call that ended without arguments.
#[derive(PartialEq, Eq)]
enum Bare {
    Complete,
    CutOff,
}

impl Assembler {
    pub fn new(provider: &str, ids: CallIds) -> Assembler {
        Assembler {
            provider: provider.to_owned(),
            ids,
            open: Vec::new(),
            calls: 0,
            bare_call: None,
            stop: None,
            counts: Counts::default(),
            given_usage: None,
        }
    }

    fn take(&mut self, kind: &str, event: &Event<'_>, give: Give<'_>) {
        let index = event.index.and_then(number);
        match kind {
            "message_start" => {
                if let Some(message) = &event.message {
                    self.message(message, give);
                }
            }
            "content_block_start" => {
                if let Some(block) = &event.content_block {
                    self.start(index, block, give);
                }
            }
            "content_block_delta" => {
                if let Some(delta) = &event.delta {
                    self.delta(index, delta, give);
                }
            }
            "content_block_stop" => {
                if let Some(at) = self.place_of(index) {
                    let open = self.open.remove(at);
                    self.end(open.block, give);
                }
            }
            "message_delta" => {
                self.stop_reason(event.delta.as_ref().and_then(|delta| delta.stop_reason));
                self.usage(event.usage, give);
            }
            _ => {}
        }
    }

    /// A message with whatever it holds already: nothing at the start of a stream, everything in a whole
    /// answer.
    fn message(&mut self, message: &Message<'_>, give: Give<'_>) {
        for block in message.content.iter().flatten() {
            self.start(None, block, give);
            if let Some(open) = self.open.pop() {
                self.end(open.block, give);
            }
        }
        self.stop_reason(message.stop_reason);
        self.usage(message.usage, give);
    }

    fn start(&mut self, index: Option<u64>, block: &events::Block<'_>, give: Give<'_>) {
        self.end_thinking(give);
        self.end_bare_call(Bare::Complete, give);
        let kind = block.kind.and_then(word);
        let begun = match kind.as_deref().unwrap_or_default() {
            "text" => {
                give_text(block.text, Delta::Text, give);
                Block::Text
            }
            "thinking" => Block::Thinking {
                is_empty: !give_text(block.thinking, Delta::Thinking, give),
                signature: block.signature.and_then(text).map(Into::into),
            },
            "redacted_thinking" => {
                if let Some(data) = block.data.and_then(text) {
                    give(Delta::ThinkingNative(native::redacted(&data, &self.provider)));
                }
                Block::Other
            }
            "tool_use" => self.start_call(block, give),
            _ => Block::Other,
        };
        self.open.push(Open { index, block: begun });
    }

    fn start_call(&mut self, block: &events::Block<'_>, give: Give<'_>) -> Block {
        let index = self.calls;
        self.calls += 1;
        let id = self.ids.take(block.id.and_then(word).as_deref());
        let name = block.name.and_then(word).unwrap_or_default().into_owned();
        give(Delta::ToolCallStarted { index, id, name });
        let early = block.input.and_then(arguments).map(Into::into);
        Block::Call { index, early, is_empty: true }
    }

    fn delta(&mut self, index: Option<u64>, delta: &events::Delta<'_>, give: Give<'_>) {
        let kind = delta.kind.and_then(word);
        let kind = kind.as_deref().unwrap_or_default();
        let at = match (self.place_of(index), kind) {
            (Some(at), _) => at,
            // A block that nobody said had begun.
            (None, "text_delta") => self.open_unannounced(index, Block::Text, give),
            (None, "thinking_delta") => {
                self.open_unannounced(index, Block::Thinking { signature: None, is_empty: true }, give)
            }
            (None, _) => return,
        };
        match (&mut self.open[at].block, kind) {
            (Block::Text, "text_delta") => {
                give_text(delta.text, Delta::Text, give);
            }
            (Block::Thinking { is_empty, .. }, "thinking_delta") => {
                *is_empty &= !give_text(delta.thinking, Delta::Thinking, give);
            }
            (Block::Thinking { signature, .. }, "signature_delta") => {
                if let Some(piece) = delta.signature.and_then(text) {
                    signature.get_or_insert_default().push_str(&piece);
                }
            }
            (Block::Call { index, is_empty, .. }, "input_json_delta") => {
                if let Some(fragment) = delta.partial_json.and_then(arguments) {
                    *is_empty = false;
                    give(Delta::ToolCallArguments { index: *index, fragment: fragment.into_owned() });
                }
            }
            _ => {}
        }
    }

    fn open_unannounced(&mut self, index: Option<u64>, block: Block, give: Give<'_>) -> usize {
        self.end_thinking(give);
        self.end_bare_call(Bare::Complete, give);
        self.open.push(Open { index, block });
        self.open.len() - 1
    }

    /// The open block that an event is about; the last one when it does not say.
    fn place_of(&self, index: Option<u64>) -> Option<usize> {
        match index {
            Some(_) => self.open.iter().rposition(|open| open.index == index),
            None => self.open.len().checked_sub(1),
        }
    }

    fn end(&mut self, block: Block, give: Give<'_>) {
        match block {
            Block::Thinking { signature: None, is_empty: true } | Block::Text | Block::Other => {}
            Block::Thinking { signature, .. } => {
                give(Delta::ThinkingNative(native::signed(signature, &self.provider)));
            }
            Block::Call { index, early, is_empty: true } => {
                match early.filter(|early| !is_empty_object(early)) {
                    Some(fragment) => {
                        give(Delta::ToolCallArguments { index, fragment });
                        give(Delta::ToolCallEnded { index });
                    }
                    None => {
                        self.end_bare_call(Bare::Complete, give);
                        self.bare_call = Some(index);
                    }
                }
            }
            Block::Call { index, is_empty: false, .. } => give(Delta::ToolCallEnded { index }),
        }
    }

    /// What a provider wants back with thinking must follow it, before anything else.
    fn end_thinking(&mut self, give: Give<'_>) {
        if let Some(at) = self.open.iter().position(|open| matches!(open.block, Block::Thinking { .. })) {
            let open = self.open.remove(at);
            self.end(open.block, give);
        }
    }

    fn end_bare_call(&mut self, bare: Bare, give: Give<'_>) {
        let Some(index) = self.bare_call.take() else { return };
        if bare == Bare::Complete {
            give(Delta::ToolCallArguments { index, fragment: "{}".to_owned() });
        }
        give(Delta::ToolCallEnded { index });
    }

    fn stop_reason(&mut self, raw: Option<&RawValue>) {
        let Some(reason) = raw.and_then(word) else { return };
        self.stop = Some(match &*reason {
            "max_tokens" | "model_context_window_exceeded" => FinishReason::Length,
            "refusal" => FinishReason::Refused,
            "tool_use" => FinishReason::ToolCalls,
            // `end_turn`, `stop_sequence`, `pause_turn` and what may come to be.
            _ => FinishReason::Stop,
        });
    }

    fn usage(&mut self, raw: Option<&RawValue>, give: Give<'_>) {
        if let Some(raw) = raw {
            self.counts.update(raw);
        }
        let usage = self.counts.usage();
        if let Some(usage) = usage.filter(|_| usage != self.given_usage) {
            self.given_usage = Some(usage);
            give(Delta::Usage(usage));
        }
    }
}

/// Gives the text there is. Tells whether there was any.
fn give_text(raw: Option<&RawValue>, delta: fn(String) -> Delta, give: Give<'_>) -> bool {
    let found = raw.and_then(text);
    let any = found.is_some();
    if let Some(found) = found {
        give(delta(found.into_owned()));
    }
    any
}

fn is_empty_object(json: &str) -> bool {
    json.strip_prefix('{')
        .and_then(|rest| rest.strip_suffix('}'))
        .is_some_and(|inside| inside.trim().is_empty())
}

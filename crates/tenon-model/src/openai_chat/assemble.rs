//! Turns chunks into deltas: whose fragment is this, is its name complete, what did the answer end with.
//!
//! Servers disagree on nearly everything about streamed tool calls. What is relied on here: fragments of
//! one call come in order, and a call's name is complete when its arguments begin.

use std::borrow::Cow;

use serde_json::json;
use serde_json::value::RawValue;
use tenon_core::{Delta, FinishReason, Usage};

use super::chunk::{self, CallDelta, Chunk, Function};
use crate::answer::Give;
use crate::call_id::CallIds;
use crate::loose_json::{arguments, number, text, word};

/// The native part of thinking: `{"field": "reasoning_content"}` says in which field it came.
pub(super) const REASONING_FIELD_KEY: &str = "field";
/// The one field in which reasoning is taken back.
pub(super) const RETURNED_REASONING_FIELD: &str = "reasoning_content";

pub(super) struct Assembler {
    calls: Vec<Call>,
    ids: CallIds,
    /// The field of the thinking that is being streamed.
    thinking: Option<&'static str>,
    /// Something came in a `delta`.
    streams: bool,
    refused: bool,
    finish: Option<Finish>,
    usage: Option<Usage>,
}

enum Finish {
    Reason(FinishReason),
    Error,
}

struct Call {
    key: Key,
    id: String,
    name: String,
    /// Arguments that came before the name was known.
    held: String,
    /// All arguments so far, kept only for a call that has neither index nor id to tell it by.
    anonymous: String,
    state: CallState,
}

/// How the server tells one call from another.
struct Key {
    index: Option<u64>,
    id: Option<String>,
}

#[derive(PartialEq, Eq)]
enum CallState {
    Naming,
    Started,
}

/// How the calls of one chunk belong together.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Pieces {
    Fragments,
    WholeCalls,
}

impl Assembler {
    pub fn new(ids: CallIds) -> Assembler {
        Assembler {
            calls: Vec::new(),
            ids,
            thinking: None,
            streams: false,
            refused: false,
            finish: None,
            usage: None,
        }
    }

    /// One chunk of a stream.
    pub fn chunk(&mut self, chunk: &Chunk<'_>, give: Give<'_>) {
        if let Some(choice) = chunk.choice() {
            if let Some(delta) = &choice.delta {
                let mut gave = false;
                self.delta(delta, Pieces::Fragments, &mut |delta| {
                    gave = true;
                    give(delta);
                });
                self.streams |= gave || !self.calls.is_empty();
            }
            // Servers that cannot stream send the whole message as a chunk. Others stream, and repeat there
            // what came so far.
            if let Some(message) = choice.message.as_ref().filter(|_| !self.streams) {
                self.delta(message, Pieces::WholeCalls, give);
            }
            self.finish_reason(choice.finish_reason);
        }
        self.usage(chunk, give);
    }

    /// An answer in one piece.
    pub fn whole_message(&mut self, chunk: &Chunk<'_>, give: Give<'_>) {
        if let Some(choice) = chunk.choice() {
            if let Some(message) = choice.message.as_ref().or(choice.delta.as_ref()) {
                self.delta(message, Pieces::WholeCalls, give);
            }
            self.finish_reason(choice.finish_reason);
        }
        self.usage(chunk, give);
    }

    /// The server has said why it stopped.
    pub fn knows_reason(&self) -> bool {
        self.finish.is_some()
    }

    pub fn ended_in_error(&self) -> bool {
        matches!(self.finish, Some(Finish::Error))
    }

    /// What is left to give at the end of the answer.
    pub fn give_rest(&mut self, give: Give<'_>) {
        self.end_thinking(give);
        for at in 0..self.calls.len() {
            self.start(at, give);
        }
        let by_content = if self.calls.is_empty() { FinishReason::Stop } else { FinishReason::ToolCalls };
        let reason = match &self.finish {
            _ if self.refused => FinishReason::Refused,
            Some(Finish::Reason(reason @ (FinishReason::Length | FinishReason::Refused))) => *reason,
            // Some servers say `stop` with calls, or `tool_calls` without: what came decides.
            _ => by_content,
        };
        give(Delta::Finished(reason));
    }

    fn delta(&mut self, delta: &chunk::Delta<'_>, pieces: Pieces, give: Give<'_>) {
        if let Some((field, thought)) = thinking(delta) {
            self.thinking = Some(field);
            give(Delta::Thinking(thought.into_owned()));
        }
        if let Some(text) = delta.content.and_then(text) {
            self.end_thinking(give);
            give(Delta::Text(text.into_owned()));
        }
        if let Some(text) = delta.refusal.and_then(text) {
            self.end_thinking(give);
            self.refused = true;
            give(Delta::Text(text.into_owned()));
        }
        let first_new = self.calls.len();
        for call in delta.tool_calls.iter().flatten() {
            self.end_thinking(give);
            let at = match pieces {
                Pieces::WholeCalls => {
                    let key = call_key(call);
                    let came_before = |known: &Call| key.id.is_some() && known.key.id == key.id;
                    if self.calls[..first_new].iter().any(came_before) {
                        continue;
                    }
                    self.open(key)
                }
                Pieces::Fragments => self.find(call, first_new),
            };
            if let Some(function) = &call.function {
                self.function(at, function, give);
            }
        }
        if let Some(function) = &delta.function_call {
            self.end_thinking(give);
            // The older form knows one call only.
            let at = if self.calls.is_empty() { self.open(Key { index: None, id: None }) } else { 0 };
            self.function(at, function, give);
        }
    }

    /// The call a fragment belongs to. `first_new` is the first one this chunk has opened.
    fn find(&mut self, delta: &CallDelta<'_>, first_new: usize) -> usize {
        let key = call_key(delta);
        let name = delta.function.as_ref().and_then(|function| word(function.name?));
        let found = match (key.index, &key.id) {
            (Some(index), id) => {
                let at = self.calls.iter().rposition(|call| call.key.index == Some(index));
                // Servers that do not count give every call index 0, but then each has its id and name.
                // An id that changes without a name is one made up anew for every fragment.
                at.filter(|at| {
                    let known = &self.calls[*at].key.id;
                    name.is_none() || id.is_none() || known.is_none() || known == id
                })
            }
            (None, Some(id)) => self.calls.iter().rposition(|call| call.key.id.as_ref() == Some(id)),
            (None, None) => self.calls.len().checked_sub(1).filter(|last| {
                // A name begins a call, unless it is split, or repeated while the arguments are still open.
                let call = &self.calls[*last];
                let repeats =
                    || name.as_ref().is_some_and(|name| *name == call.name) && !is_json(&call.anonymous);
                name.is_none() || (*last < first_new && (call.state == CallState::Naming || repeats()))
            }),
        };
        found.unwrap_or_else(|| self.open(key))
    }

    fn open(&mut self, key: Key) -> usize {
        let id = self.ids.take(key.id.as_deref());
        let (name, held, anonymous) = (String::new(), String::new(), String::new());
        self.calls.push(Call { key, id, name, held, anonymous, state: CallState::Naming });
        self.calls.len() - 1
    }

    fn function(&mut self, at: usize, function: &Function<'_>, give: Give<'_>) {
        let call = &mut self.calls[at];
        if let (CallState::Naming, Some(name)) = (&call.state, function.name.and_then(word)) {
            // Repeated in every fragment, or split over several?
            if call.name != name {
                call.name.push_str(&name);
            }
        }
        let Some(fragment) = function.arguments.and_then(arguments) else { return };
        if call.key.index.is_none() && call.key.id.is_none() {
            call.anonymous.push_str(&fragment);
        }
        if call.name.is_empty() {
            call.held.push_str(&fragment);
            return;
        }
        // Calls are announced in their order, so an earlier one that has a name starts now too.
        for earlier in 0..at {
            if !self.calls[earlier].name.is_empty() {
                self.start(earlier, give);
            }
        }
        self.start(at, give);
        give(Delta::ToolCallArguments { index: at, fragment: fragment.into_owned() });
    }

    /// Announces a call, once, with whatever arguments came before its name.
    fn start(&mut self, at: usize, give: Give<'_>) {
        let call = &mut self.calls[at];
        if call.state == CallState::Started {
            return;
        }
        call.state = CallState::Started;
        give(Delta::ToolCallStarted { index: at, id: call.id.clone(), name: call.name.clone() });
        if !call.held.is_empty() {
            give(Delta::ToolCallArguments { index: at, fragment: std::mem::take(&mut call.held) });
        }
    }

    fn end_thinking(&mut self, give: Give<'_>) {
        if let Some(field) = self.thinking.take() {
            give(Delta::ThinkingNative(json!({ REASONING_FIELD_KEY: field })));
        }
    }

    fn finish_reason(&mut self, raw: Option<&RawValue>) {
        let Some(reason) = raw.and_then(word) else { return };
        self.finish = Some(match &*reason.to_ascii_lowercase() {
            "length" | "max_tokens" | "model_length" | "max_output_tokens" => {
                Finish::Reason(FinishReason::Length)
            }
            "content_filter" | "refusal" | "safety" | "blocked" | "sensitive" | "content-filter" => {
                Finish::Reason(FinishReason::Refused)
            }
            "error" => Finish::Error,
            _ => Finish::Reason(FinishReason::Stop),
        });
    }

    fn usage(&mut self, chunk: &Chunk<'_>, give: Give<'_>) {
        if let Some(usage) = chunk.usage().filter(|usage| self.usage != Some(*usage)) {
            self.usage = Some(usage);
            give(Delta::Usage(usage));
        }
    }
}

/// The reasoning of a delta. Some servers send the same text in two fields, so the first one counts.
fn thinking<'a>(delta: &chunk::Delta<'a>) -> Option<(&'static str, Cow<'a, str>)> {
    [
        (RETURNED_REASONING_FIELD, delta.reasoning_content),
        ("reasoning", delta.reasoning),
        ("reasoning_text", delta.reasoning_text),
    ]
    .into_iter()
    .find_map(|(field, raw)| Some((field, text(raw?)?)))
}

fn call_key(delta: &CallDelta<'_>) -> Key {
    Key { index: delta.index.and_then(number), id: delta.id.and_then(word).map(Cow::into_owned) }
}

fn is_json(text: &str) -> bool {
    serde_json::from_str::<serde::de::IgnoredAny>(text).is_ok()
}

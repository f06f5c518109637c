//! Folds the deltas of one answer into a message, and tells the world as they come.
//!
//! Parts keep the order in which they arrived. Tool calls may be interleaved, so a call stays open until
//! the stream says that it has ended, or the answer ends; text that arrives while a call is open is held
//! back until then, so that parts of different kinds never overlap in the event stream.

use std::time::{Duration, Instant};

use serde_json::Value;
use tenon_contract::PartialJson;
use tenon_core::{Delta, EventKind, FinishReason, Id, Message, Part, PartKind, Role, ToolCall, Usage};

use crate::{Emitter, Lineage};

/// Snapshots of a growing payload are for people and progress bars: ten a second are plenty.
const SNAPSHOT_INTERVAL: Duration = Duration::from_millis(100);
/// Each snapshot is the whole payload so far. A large one must have grown by a quarter before the next, so
/// that all of them together are a few times the payload and not its square.
const SMALL_PAYLOAD: usize = 16 * 1024;

/// When the parts of an answer are told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Telling {
    /// As they come; the answer can then not be taken back.
    Live { snapshots: bool },
    /// When the answer is complete, so that a broken attempt leaves no trace.
    AtTheEnd,
    /// Never: the answer is for the run itself.
    ToNobody,
}

pub(crate) struct Fold<'a> {
    emitter: &'a Emitter,
    telling: Telling,
    terminal_tool: Option<&'a str>,
    turn: u32,
    /// Who answers; a fallback may take over.
    model: String,
    lineage: &'a Lineage,
    parts: Vec<Building>,
    /// Text and thinking that came while calls were open.
    held_back: Vec<Building>,
    calls: Vec<OpenCall>,
    usage: Usage,
    finish: Option<FinishReason>,
}

/// A call that is still being written.
struct OpenCall {
    /// The stream's index of the call.
    index: usize,
    /// Its place in `parts`.
    at: usize,
    ended: bool,
}

struct Building {
    id: Id,
    content: Part,
    snapshots: Option<Snapshots>,
    stopped: bool,
}

struct Snapshots {
    json: PartialJson,
    last: Option<Instant>,
    pending: bool,
    received: usize,
    received_at_last: usize,
}

/// One whole answer.
pub(crate) struct Turn {
    pub(crate) message: Message,
    pub(crate) usage: Usage,
    pub(crate) finish: FinishReason,
}

impl Turn {
    /// The words of an answer that broke off. Thoughts and calls mean nothing without what should have followed.
    pub(crate) fn seen(self) -> Option<Message> {
        let mut message = self.message;
        message.parts.retain(|part| matches!(part, Part::Text { text } if !text.trim().is_empty()));
        (!message.parts.is_empty()).then_some(message)
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    Whole,
    BrokenOff,
}

impl<'a> Fold<'a> {
    pub(crate) fn new(
        emitter: &'a Emitter,
        telling: Telling,
        terminal_tool: Option<&'a str>,
        turn: u32,
        model: &str,
        lineage: &'a Lineage,
    ) -> Fold<'a> {
        Fold {
            emitter,
            telling,
            terminal_tool,
            turn,
            model: model.to_owned(),
            lineage,
            parts: Vec::new(),
            held_back: Vec::new(),
            calls: Vec::new(),
            usage: Usage::default(),
            finish: None,
        }
    }

    pub(crate) fn push(&mut self, delta: Delta) {
        match delta {
            Delta::Text(text) => self.push_text(text, PartKind::Text),
            Delta::Thinking(text) => self.push_text(text, PartKind::Thinking),
            Delta::ThinkingNative(native) => self.push_native(native),
            Delta::ToolCallStarted { index, id, name } => self.start_call(index, id, name),
            Delta::ToolCallArguments { index, fragment } => self.push_arguments(index, fragment),
            Delta::ToolCallNative { index, native } => {
                self.change_call(index, |call| call.native = Some(native))
            }
            Delta::ToolCallRestored { index, arguments } => {
                self.change_call(index, |call| call.arguments = arguments);
            }
            Delta::ToolCallEnded { index } => self.end_call(index),
            Delta::Usage(usage) => self.usage = usage,
            Delta::Finished(reason) => self.finish = Some(reason),
            Delta::Retrying { .. } => self.forget(),
            Delta::SwitchedModel { to, .. } => {
                self.forget();
                self.model = to;
            }
        }
    }

    /// Has anybody seen something of this answer?
    pub(crate) fn has_told(&self) -> bool {
        self.is_live() && !self.parts.is_empty()
    }

    fn is_live(&self) -> bool {
        matches!(self.telling, Telling::Live { .. })
    }

    /// What has come so far of calls that hand in a payload.
    pub(crate) fn terminal_arguments(&self) -> impl Iterator<Item = &str> {
        self.parts.iter().filter_map(|part| match &part.content {
            Part::ToolCall(call) if call.terminal => Some(call.arguments.as_str()),
            _ => None,
        })
    }

    /// The latest numbers.
    pub(crate) fn usage(&self) -> Usage {
        self.usage
    }

    /// Ends the answer: what is still open is closed and told.
    pub(crate) fn finish(self) -> Turn {
        self.end(End::Whole)
    }

    fn end(mut self, end: End) -> Turn {
        self.release_held_back();
        if self.telling == Telling::AtTheEnd {
            for (at, part) in self.parts.iter().enumerate() {
                if at == 0 {
                    self.emitter.emit(EventKind::TurnStarted { turn: self.turn, model: self.model.clone() });
                }
                self.emitter.emit(EventKind::PartStarted {
                    part: at,
                    id: part.id,
                    kind: part_kind(&part.content),
                });
                self.emitter.emit(EventKind::PartStopped { part: at, content: part.content.clone() });
            }
        }
        // An empty answer has been given, and paid for, all the same.
        let is_told = end == End::Whole || !self.parts.is_empty();
        if is_told && self.telling != Telling::ToNobody {
            self.emitter.emit(EventKind::TurnFinished { turn: self.turn, usage: self.usage });
        }
        let parts = self.parts.into_iter().map(|part| part.content).collect();
        Turn {
            message: Message { role: Role::Assistant, parts },
            usage: self.usage,
            finish: self.finish.unwrap_or(FinishReason::Stop),
        }
    }

    /// Ends an answer that was broken off: finished parts are told, half a tool call is not a call.
    pub(crate) fn abandon(mut self) -> Turn {
        self.held_back.clear();
        if !self.is_live() {
            self.parts.clear();
        }
        self.parts.retain(|part| part.stopped || !matches!(part.content, Part::ToolCall(_)));
        self.end(End::BrokenOff)
    }

    fn forget(&mut self) {
        self.parts.clear();
        self.held_back.clear();
        self.calls.clear();
        self.usage = Usage::default();
        self.finish = None;
    }

    fn push_text(&mut self, text: String, kind: PartKind) {
        if text.is_empty() {
            return;
        }
        let thinking = kind == PartKind::Thinking;
        let hold = self.has_open_call();
        let list = if hold { &mut self.held_back } else { &mut self.parts };
        let goes_on = list.last_mut().and_then(|last| match &mut last.content {
            Part::Text { text } if !thinking => Some(text),
            Part::Thinking { text, native: None } if thinking => Some(text),
            _ => None,
        });
        if let Some(so_far) = goes_on {
            so_far.push_str(&text);
        } else {
            let content = match thinking {
                true => Part::Thinking { text: text.clone(), native: None },
                false => Part::Text { text: text.clone() },
            };
            let id = self.emitter.ids().next();
            if hold {
                self.held_back.push(Building { id, content, snapshots: None, stopped: false });
            } else {
                self.stop_open_parts();
                self.begin_empty(id, content);
            }
        }
        if !hold {
            self.tell_delta(self.parts.len() - 1, text);
        }
    }

    fn push_native(&mut self, value: Value) {
        let hold = self.has_open_call();
        let list = if hold { &mut self.held_back } else { &mut self.parts };
        if let Some(Building { content: Part::Thinking { native: native @ None, .. }, .. }) = list.last_mut()
        {
            *native = Some(value);
            return;
        }
        // Thinking that the provider shows to nobody, and wants back all the same.
        let content = Part::Thinking { text: String::new(), native: Some(value) };
        let id = self.emitter.ids().next();
        if hold {
            self.held_back.push(Building { id, content, snapshots: None, stopped: false });
        } else {
            self.stop_open_parts();
            self.begin_empty(id, content);
        }
    }

    fn has_open_call(&self) -> bool {
        self.calls.iter().any(|call| !call.ended)
    }

    fn start_call(&mut self, index: usize, id: String, name: String) {
        if self.calls.iter().any(|call| call.index == index) {
            return;
        }
        if !self.has_open_call() {
            self.stop_open_parts();
        }
        let call = ToolCall {
            id: self.lineage.unused_call_id(id),
            terminal: self.terminal_tool == Some(name.as_str()),
            name,
            arguments: String::new(),
            native: None,
        };
        self.calls.push(OpenCall { index, at: self.parts.len(), ended: false });
        let id = self.emitter.ids().next();
        self.begin_empty(id, Part::ToolCall(call));
    }

    fn push_arguments(&mut self, index: usize, fragment: String) {
        let Some(at) = self.place_of(index) else { return };
        let Building { content: Part::ToolCall(call), snapshots, .. } = &mut self.parts[at] else { return };
        call.arguments.push_str(&fragment);
        let snapshot = snapshots.as_mut().and_then(|snapshots| snapshots.push(&fragment));
        let call_id = snapshot.is_some().then(|| call.id.clone());
        self.tell_delta(at, fragment);
        if let (Some(snapshot), Some(call_id)) = (snapshot, call_id) {
            self.emitter.emit(EventKind::StructuredPartial { call_id, snapshot });
        }
    }

    fn change_call(&mut self, index: usize, change: impl FnOnce(&mut ToolCall)) {
        let Some(at) = self.place_of(index) else { return };
        if let Part::ToolCall(call) = &mut self.parts[at].content {
            change(call);
        }
    }

    /// Where an open call is built.
    fn place_of(&self, index: usize) -> Option<usize> {
        self.calls.iter().find(|call| call.index == index && !call.ended).map(|call| call.at)
    }

    fn end_call(&mut self, index: usize) {
        if let Some(call) = self.calls.iter_mut().find(|call| call.index == index) {
            call.ended = true;
        }
        if !self.has_open_call() {
            self.release_held_back();
        }
    }

    fn release_held_back(&mut self) {
        self.stop_open_parts();
        for held in std::mem::take(&mut self.held_back) {
            self.begin(held.id, held.content);
            self.stop_open_parts();
        }
    }

    fn begin(&mut self, id: Id, content: Part) {
        let text = match &content {
            Part::Text { text } | Part::Thinking { text, .. } => text.clone(),
            _ => String::new(),
        };
        self.begin_empty(id, content);
        self.tell_delta(self.parts.len() - 1, text);
    }

    fn begin_empty(&mut self, id: Id, content: Part) {
        let part = self.parts.len();
        let mut snapshots = None;
        if let Telling::Live { snapshots: wanted } = self.telling {
            if part == 0 {
                self.emitter.emit(EventKind::TurnStarted { turn: self.turn, model: self.model.clone() });
            }
            self.emitter.emit(EventKind::PartStarted { part, id, kind: part_kind(&content) });
            if wanted && matches!(&content, Part::ToolCall(call) if call.terminal) {
                snapshots = Some(Snapshots::new());
            }
        }
        self.parts.push(Building { id, content, snapshots, stopped: false });
    }

    fn tell_delta(&self, part: usize, text: String) {
        if self.is_live() && !text.is_empty() {
            self.emitter.emit(EventKind::PartDelta { part, text });
        }
    }

    fn stop_open_parts(&mut self) {
        let live = self.is_live();
        for (at, part) in self.parts.iter_mut().enumerate().filter(|(_, part)| !part.stopped) {
            part.stopped = true;
            if !live {
                continue;
            }
            if let (Part::ToolCall(call), Some(snapshots)) = (&part.content, &mut part.snapshots)
                && snapshots.pending
                && let Some(snapshot) = snapshots.json.snapshot()
            {
                self.emitter.emit(EventKind::StructuredPartial { call_id: call.id.clone(), snapshot });
            }
            self.emitter.emit(EventKind::PartStopped { part: at, content: part.content.clone() });
        }
    }
}

impl Snapshots {
    fn new() -> Snapshots {
        Snapshots { json: PartialJson::new(), last: None, pending: false, received: 0, received_at_last: 0 }
    }

    fn push(&mut self, fragment: &str) -> Option<tenon_core::RawJson> {
        self.pending |= self.json.push(fragment);
        self.received += fragment.len();
        let too_soon = self.last.is_some_and(|last| last.elapsed() < SNAPSHOT_INTERVAL);
        let grown = self.received < SMALL_PAYLOAD || self.received >= self.received_at_last / 4 * 5;
        if !self.pending || too_soon || !grown {
            return None;
        }
        self.received_at_last = self.received;
        self.pending = false;
        self.last = Some(Instant::now());
        self.json.snapshot()
    }
}

fn part_kind(content: &Part) -> PartKind {
    match content {
        Part::Thinking { .. } => PartKind::Thinking,
        Part::ToolCall(call) => {
            PartKind::ToolCall { call_id: call.id.clone(), name: call.name.clone(), terminal: call.terminal }
        }
        Part::Text { .. } | Part::ToolResult(_) | Part::Media(_) => PartKind::Text,
    }
}

//! Groups the parts of a model turn into messages.
//!
//! A message of this dialect holds blocks of one type, so a turn gives one message per run of parts of
//! one kind; several calls share one. Only the last message knows the turn's usage, so it is written when
//! the turn ends, and the ones before when a part of another kind starts.

use serde_json::value::RawValue;
use tenon_core::{Id, Part, PartKind, RawJson};

use super::claude::{self, Flavour};
use super::encode::{Framing, Sink};
use super::result::no_usage;
use super::types::{
    AssistantBlock, AssistantLine, AssistantMessage, AssistantRole, BlockDelta, Line, MessageEnd,
    MessageType, StartedMessage, StopReason, StreamEvent, Usage,
};
use crate::values::{Raw, Uuid};

/// One model turn, as far as it has come.
#[derive(Default)]
pub(super) struct Turn {
    model: String,
    /// Has `message_start` been written?
    announced: bool,
    /// Whole messages that wait for the end of the turn, because it may yet be asked for again.
    held: Vec<Group>,
    /// How many blocks the messages before the current one had.
    blocks_before: usize,
    current: Option<Group>,
}

/// Whether a turn came to its own end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TurnEnd {
    Whole,
    CutOff,
}

/// The parts that become one message.
struct Group {
    /// The id of its first part, and of the message.
    id: Id,
    kind: Kind,
    blocks: Vec<Block>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Text,
    Thinking,
    ToolUse,
}

struct Block {
    part: usize,
    state: BlockState,
    content: Content,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum BlockState {
    Open,
    Stopped,
}

enum Content {
    /// Grows with each delta: an interrupted run still shows how far the text had come.
    Text(String),
    Thinking(String),
    /// Without `input` until the call is complete.
    ToolUse {
        id: String,
        name: String,
        input: Option<RawJson>,
    },
}

impl Turn {
    pub fn begin(&mut self, model: &str) {
        *self = Turn { model: model.to_owned(), ..Turn::default() };
    }

    pub fn part_started(&mut self, part: usize, id: Id, kind: &PartKind, sink: &mut Sink<'_>) {
        let content = Content::begin(kind);
        let group_kind = content.kind();
        if let Some(finished) = self.current.take_if(|group| group.kind != group_kind) {
            self.blocks_before += finished.blocks.len();
            match sink.framing {
                Framing::Lines => finished.write(&self.model, no_usage(sink.flavour), sink),
                Framing::Array => self.held.push(finished),
            }
        }
        if !self.announced {
            self.announced = true;
            if sink.parent.is_none() {
                let message = StartedMessage {
                    id: Uuid(id),
                    role: AssistantRole::Assistant,
                    model: &self.model,
                    content: [],
                    claude: claude::start(sink.flavour),
                };
                sink.stream_event(StreamEvent::MessageStart { message });
            }
        }
        let before = self.blocks_before(sink);
        let group = self.current.get_or_insert_with(|| Group { id, kind: group_kind, blocks: Vec::new() });
        if group.is_streamed(sink)
            && let Some(content_block) = content.started()
        {
            sink.stream_event(StreamEvent::ContentBlockStart {
                index: before + group.blocks.len(),
                content_block,
            });
        }
        group.blocks.push(Block { part, state: BlockState::Open, content });
    }

    pub fn part_delta(&mut self, part: usize, text: &str, sink: &mut Sink<'_>) {
        let before = self.blocks_before(sink);
        let Some((group, index)) = self.find(part) else { return };
        let delta = match &mut group.blocks[index].content {
            Content::Text(so_far) => {
                so_far.push_str(text);
                BlockDelta::TextDelta { text }
            }
            Content::Thinking(so_far) => {
                so_far.push_str(text);
                BlockDelta::ThinkingDelta { thinking: text }
            }
            Content::ToolUse { .. } => BlockDelta::InputJsonDelta { partial_json: text },
        };
        if group.is_streamed(sink) {
            sink.stream_event(StreamEvent::ContentBlockDelta { index: before + index, delta });
        }
    }

    pub fn part_stopped(&mut self, part: usize, content: &Part, sink: &mut Sink<'_>) {
        let before = self.blocks_before(sink);
        let Some((group, index)) = self.find(part) else { return };
        let block = &mut group.blocks[index];
        block.state = BlockState::Stopped;
        match (&mut block.content, content) {
            (Content::Text(shown), Part::Text { text })
            | (Content::Thinking(shown), Part::Thinking { text, .. }) => shown.clone_from(text),
            (Content::ToolUse { id, name, input }, Part::ToolCall(call)) => {
                id.clone_from(&call.id);
                name.clone_from(&call.name);
                *input = Some(call.input());
            }
            // A part does not change its kind.
            (
                _,
                Part::Text { .. }
                | Part::Thinking { .. }
                | Part::ToolCall(_)
                | Part::ToolResult(_)
                | Part::Media(_),
            ) => {}
        }
        if group.is_streamed(sink) {
            sink.stream_event(StreamEvent::ContentBlockStop { index: before + index });
        }
    }

    /// The turn is over, or the run is: what came is written, a call that was cut off is not.
    pub fn finish(&mut self, usage: Usage, end: TurnEnd, sink: &mut Sink<'_>) {
        self.stop_open_blocks(sink);
        let stop_reason = match (end, &self.current) {
            (TurnEnd::CutOff, _) => None,
            (TurnEnd::Whole, Some(group)) if group.kind == Kind::ToolUse => Some("tool_use"),
            (TurnEnd::Whole, _) => Some("end_turn"),
        };
        for group in self.held.drain(..) {
            group.write(&self.model, no_usage(sink.flavour), sink);
        }
        if let Some(group) = self.current.take() {
            group.write(&self.model, usage, sink);
        }
        if self.announced && sink.parent.is_none() && sink.flavour == Flavour::Claude {
            let delta = MessageEnd { stop_reason, stop_sequence: () };
            sink.stream_event(StreamEvent::MessageDelta { delta, usage });
        }
        self.announce_end(sink);
    }

    /// The turn will be asked for again: what came of it does not count.
    pub fn abandon(&mut self, sink: &mut Sink<'_>) {
        self.stop_open_blocks(sink);
        self.held.clear();
        self.current = None;
        self.announce_end(sink);
    }

    /// Where the blocks of the current message begin to count: `claude` counts those of the whole turn, as its
    /// provider does, `qwen` those of the message.
    fn blocks_before(&self, sink: &Sink<'_>) -> usize {
        match sink.flavour {
            Flavour::Claude => self.blocks_before,
            Flavour::Qwen => 0,
        }
    }

    fn find(&mut self, part: usize) -> Option<(&mut Group, usize)> {
        let group = self.current.as_mut()?;
        let index = group.blocks.iter().rposition(|block| block.part == part)?;
        Some((group, index))
    }

    fn stop_open_blocks(&self, sink: &mut Sink<'_>) {
        let Some(group) = self.current.as_ref().filter(|group| group.is_streamed(sink)) else { return };
        for (index, block) in group.blocks.iter().enumerate() {
            if block.state == BlockState::Open {
                sink.stream_event(StreamEvent::ContentBlockStop { index: self.blocks_before(sink) + index });
            }
        }
    }

    fn announce_end(&mut self, sink: &mut Sink<'_>) {
        if std::mem::take(&mut self.announced) && sink.parent.is_none() {
            sink.stream_event(StreamEvent::MessageStop);
        }
    }
}

impl Group {
    /// Of a sub-agent, this dialect shows the calls and not the words.
    fn is_shown(&self, sink: &Sink<'_>) -> bool {
        sink.parent.is_none() || self.kind == Kind::ToolUse
    }

    /// Clients of the `claude` dialect put pieces together by the message they belong to, and a sub-agent's have none.
    fn is_streamed(&self, sink: &Sink<'_>) -> bool {
        self.is_shown(sink) && (sink.parent.is_none() || sink.flavour == Flavour::Qwen)
    }

    fn write(&self, model: &str, usage: Usage, sink: &mut Sink<'_>) {
        let content: Vec<AssistantBlock<'_>> =
            self.blocks.iter().filter_map(|block| block.content.complete()).collect();
        if content.is_empty() || !self.is_shown(sink) {
            return;
        }
        let stop_reason = (self.kind == Kind::ToolUse).then_some(StopReason::ToolUse);
        let message = AssistantMessage {
            id: Uuid(self.id),
            r#type: MessageType::Message,
            role: AssistantRole::Assistant,
            model,
            content,
            stop_reason,
            claude: claude::message(sink.flavour),
            usage,
        };
        sink.line(&Line::Assistant(AssistantLine {
            uuid: Uuid(self.id),
            session_id: sink.session_id,
            parent_tool_use_id: sink.parent,
            message,
        }));
    }
}

impl Content {
    fn begin(kind: &PartKind) -> Content {
        match kind {
            PartKind::Text => Content::Text(String::new()),
            PartKind::Thinking => Content::Thinking(String::new()),
            PartKind::ToolCall { call_id, name, .. } => {
                Content::ToolUse { id: call_id.clone(), name: name.clone(), input: None }
            }
        }
    }

    fn kind(&self) -> Kind {
        match self {
            Content::Text(_) => Kind::Text,
            Content::Thinking(_) => Kind::Thinking,
            Content::ToolUse { .. } => Kind::ToolUse,
        }
    }

    /// The block as it begins: a call without arguments yet.
    fn started(&self) -> Option<AssistantBlock<'_>> {
        match self {
            Content::ToolUse { id, name, .. } => serde_json::from_str::<&RawValue>("{}")
                .ok()
                .map(|input| AssistantBlock::ToolUse { id, name, input: Raw(input) }),
            Content::Text(_) | Content::Thinking(_) => self.complete(),
        }
    }

    /// The block as it stands, unless it is half a call.
    fn complete(&self) -> Option<AssistantBlock<'_>> {
        match self {
            Content::Text(text) => Some(AssistantBlock::Text { text }),
            Content::Thinking(thinking) => Some(AssistantBlock::Thinking { thinking, signature: "" }),
            Content::ToolUse { id, name, input } => {
                input.as_ref().map(|input| AssistantBlock::ToolUse { id, name, input: Raw(input) })
            }
        }
    }
}

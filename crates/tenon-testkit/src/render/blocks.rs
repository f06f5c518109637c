//! The pieces of an event stream before anything happens to them: which bytes belong together, and which of
//! them count as an event.

use serde_json::{Value, json};

use crate::Wire;
use crate::reply::Reply;

/// A piece of the stream that belongs together.
pub(super) struct Block {
    pub bytes: Vec<u8>,
    pub kind: BlockKind,
}

#[derive(Clone, Copy, PartialEq)]
pub(super) enum BlockKind {
    Event,
    /// An event of a generated stream: it may share a write with its neighbours.
    BulkEvent,
    /// Comes with the event after it: comments, signs of life, the start and the end of a part.
    Uncounted,
}

/// Writes events the way the wire does.
pub(super) struct Blocks<'a> {
    reply: &'a Reply,
    wire: Wire,
    list: Vec<Block>,
}

impl<'a> Blocks<'a> {
    pub fn new(reply: &'a Reply, wire: Wire) -> Self {
        Self { reply, wire, list: Vec::new() }
    }

    pub fn push(&mut self, kind: BlockKind, event: &Value) {
        let bytes = self.sse(event["type"].as_str(), &event.to_string());
        self.list.push(Block { bytes, kind });
    }

    pub fn event(&mut self, event: &Value) {
        self.push(BlockKind::Event, event);
    }

    pub fn uncounted(&mut self, event: &Value) {
        self.push(BlockKind::Uncounted, event);
    }

    /// A payload that is text already, JSON or not.
    pub fn data(&mut self, kind: BlockKind, payload: &str) {
        let event = if self.names_events() { serde_json::from_str(payload).ok() } else { None };
        let event: Value = event.unwrap_or_default();
        let bytes = self.sse(event["type"].as_str(), payload);
        self.list.push(Block { bytes, kind });
    }

    pub fn raw(&mut self, bytes: &[u8]) {
        self.list.push(Block { bytes: bytes.to_vec(), kind: BlockKind::Event });
    }

    /// An event that other wires have and this one does not.
    pub fn without_bytes(&mut self) {
        self.raw(b"");
    }

    pub fn comment(&mut self, text: &str) {
        let bytes = self.comment_bytes(text);
        self.list.push(Block { bytes, kind: BlockKind::Uncounted });
    }

    /// The whole stream, with signs of life between the events where the reply wants them.
    pub fn finish(self) -> Vec<Block> {
        if !self.reply.keepalives {
            return self.list;
        }
        let sign = match self.wire {
            Wire::Messages => self.sse(Some("ping"), &json!({"type": "ping"}).to_string()),
            Wire::Chat | Wire::Responses | Wire::Gemini => self.comment_bytes("keepalive"),
        };
        let with_sign = |block: Block| {
            let sign = Block { bytes: sign.clone(), kind: BlockKind::Uncounted };
            // Nothing is sent for an event without bytes, so nothing is sent before it.
            if block.bytes.is_empty() { vec![block] } else { vec![sign, block] }
        };
        self.list.into_iter().flat_map(with_sign).collect()
    }

    fn sse(&self, name: Option<&str>, payload: &str) -> Vec<u8> {
        let (space, end) = (self.reply.field_space, self.line_end());
        let name = match name {
            Some(name) if self.names_events() => format!("event:{space}{name}{end}"),
            _ => String::new(),
        };
        format!("{name}data:{space}{payload}{end}{end}").into_bytes()
    }

    fn names_events(&self) -> bool {
        matches!(self.wire, Wire::Messages | Wire::Responses)
    }

    fn comment_bytes(&self, text: &str) -> Vec<u8> {
        let end = self.line_end();
        format!(": {text}{end}{end}").into_bytes()
    }

    fn line_end(&self) -> &'static str {
        let usual = if self.wire == Wire::Gemini { "\r\n" } else { "\n" };
        self.reply.line_end.unwrap_or(usual)
    }
}

//! The provider-neutral conversation.
//!
//! Nothing here implements `Serialize`: a message may hold a payload, and what may be stored is a
//! [`crate::DurableMessage`].

use serde_json::Value;

use crate::{Media, RawJson};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    User,
    Assistant,
}

/// One message. An assistant message is one whole model turn, its parts in the order they came.
#[derive(Clone, Debug)]
pub struct Message {
    pub role: Role,
    pub parts: Vec<Part>,
}

impl Message {
    pub fn user(text: impl Into<String>) -> Message {
        Message { role: Role::User, parts: vec![Part::Text { text: text.into() }] }
    }

    pub fn tool_calls(&self) -> impl Iterator<Item = &ToolCall> {
        self.parts.iter().filter_map(|part| match part {
            Part::ToolCall(call) => Some(call),
            _ => None,
        })
    }

    /// All text of the message, joined.
    pub fn text(&self) -> String {
        self.parts
            .iter()
            .filter_map(|part| if let Part::Text { text } = part { Some(text.as_str()) } else { None })
            .collect()
    }
}

#[derive(Clone, Debug)]
pub enum Part {
    Text {
        text: String,
    },
    /// Reasoning the model showed. `native` is what the provider wants back, byte for byte.
    Thinking {
        text: String,
        native: Option<Value>,
    },
    ToolCall(ToolCall),
    ToolResult(ToolResult),
    /// What a user shows. What a tool shows is in its result.
    Media(Media),
}

/// A call as the model made it.
#[derive(Clone, Debug)]
pub struct ToolCall {
    /// The provider's id, or one of ours where it gave none. Unique within the conversation.
    pub id: String,
    pub name: String,
    /// The arguments exactly as they came, valid JSON or not.
    pub arguments: String,
    /// Set by the agent when this is the contract's terminal tool: its arguments are the payload and
    /// are never stored.
    pub terminal: bool,
    /// What the provider wants back with this call.
    pub native: Option<Value>,
}

impl ToolCall {
    /// The arguments as a JSON object, for showing and for sending back: the text as it came when it is
    /// an object, `{}` when it is blank, and `{"_raw": "…"}` when it is not an object at all.
    pub fn input(&self) -> RawJson {
        let text = self.arguments.trim();
        let shown = if text.is_empty() {
            serde_json::value::RawValue::from_string("{}".to_owned())
        } else if text.starts_with('{') && is_readable(text) {
            serde_json::value::RawValue::from_string(compact_lines(text))
        } else {
            serde_json::value::to_raw_value(&serde_json::json!({ "_raw": self.arguments }))
        };
        shown.unwrap_or_default()
    }
}

/// Read in full: half a surrogate pair is good JSON to a reader that skips strings, and breaks the others.
fn is_readable(text: &str) -> bool {
    serde_json::from_str::<serde_json::Value>(text).is_ok()
}

/// JSON that stands in a JSONL line must not contain a raw line break; outside strings they are only
/// white space, and inside strings JSON forbids them.
fn compact_lines(text: &str) -> String {
    if text.contains(['\n', '\r']) { text.replace(['\n', '\r'], " ") } else { text.to_owned() }
}

/// What a tool answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolResult {
    pub call_id: String,
    pub name: String,
    /// What the model is told.
    pub content: String,
    pub is_error: bool,
    /// What the model is shown with it.
    pub media: Vec<Media>,
    /// What may be stored instead of `content`, where that quotes a payload.
    pub stored: Option<String>,
}

//! Reads back what [`crate::DurableMessage`] (`redact.rs`) and [`crate::JournalMessage`] (`journal_message.rs`) wrote.
//!
//! A durable message that is read can hold a payload only if somebody put it there: the arguments of a terminal call
//! are replaced here as well, so that it never has any.

use serde::{Deserialize, Deserializer};
use serde_json::Value;

use crate::redact::REDACTED_ARGS;
use crate::{DurableMessage, Media, Message, Part, Role, ToolCall, ToolResult};

impl<'de> Deserialize<'de> for DurableMessage {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<DurableMessage, D::Error> {
        read_message(deserializer, Payloads::Replaced).map(DurableMessage::read)
    }
}

/// What is done with the arguments of terminal calls.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Payloads {
    Kept,
    Replaced,
}

pub(crate) fn read_message<'de, D: Deserializer<'de>>(
    deserializer: D,
    payloads: Payloads,
) -> Result<Message, D::Error> {
    let stored = StoredMessage::deserialize(deserializer)?;
    let parts =
        stored.parts.into_iter().map(|part| part.into_part(payloads)).collect::<Result<Vec<Part>, _>>();
    let role = match stored.role {
        StoredRole::User => Role::User,
        StoredRole::Assistant => Role::Assistant,
    };
    parts.map(|parts| Message { role, parts }).map_err(serde::de::Error::custom)
}

#[derive(Deserialize)]
struct StoredMessage {
    role: StoredRole,
    parts: Vec<StoredPart>,
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum StoredRole {
    User,
    Assistant,
}

/// All kinds in one: a tagged enum would read the numbers inside `native` as objects (`arbitrary_precision`).
#[derive(Deserialize)]
struct StoredPart {
    #[serde(rename = "type")]
    kind: String,
    #[serde(default)]
    text: String,
    #[serde(default)]
    native: Option<Value>,
    #[serde(default)]
    id: String,
    #[serde(default)]
    name: String,
    #[serde(default)]
    arguments: String,
    #[serde(default)]
    terminal: bool,
    #[serde(default)]
    call_id: String,
    #[serde(default)]
    content: String,
    #[serde(default)]
    is_error: bool,
    #[serde(default)]
    media: Vec<StoredMedia>,
    #[serde(default)]
    mime: String,
    #[serde(default)]
    data: String,
}

#[derive(Deserialize)]
struct StoredMedia {
    mime: String,
    data: String,
}

impl StoredMedia {
    fn into_media(self) -> Media {
        Media { mime: self.mime, data: self.data.into() }
    }
}

impl StoredPart {
    fn into_part(self, payloads: Payloads) -> Result<Part, String> {
        let is_replaced = self.terminal && payloads == Payloads::Replaced;
        match self.kind.as_str() {
            "text" => Ok(Part::Text { text: self.text }),
            "thinking" => Ok(Part::Thinking { text: self.text, native: self.native }),
            "tool_call" => Ok(Part::ToolCall(ToolCall {
                id: self.id,
                name: self.name,
                arguments: if is_replaced { REDACTED_ARGS.to_owned() } else { self.arguments },
                terminal: self.terminal,
                native: self.native.filter(|_| !is_replaced),
            })),
            "tool_result" => Ok(Part::ToolResult(ToolResult {
                call_id: self.call_id,
                name: self.name,
                content: self.content,
                is_error: self.is_error,
                media: self.media.into_iter().map(StoredMedia::into_media).collect(),
                stored: None,
            })),
            "media" => Ok(Part::Media(Media { mime: self.mime, data: self.data.into() })),
            other => Err(format!("there is no part of the type `{other}`")),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_was_written_is_read_back() {
        let call = |terminal| {
            Part::ToolCall(ToolCall {
                id: "c1".into(),
                name: "t".into(),
                arguments: r#"{"a":1e2}"#.into(),
                terminal,
                native: Some(json!({ "n": 1.50, "deep": [{ "k": 12345678901234567890_u64 }] })),
            })
        };
        let message = Message {
            role: Role::Assistant,
            parts: vec![
                Part::Media(Media { mime: "image/png".into(), data: "QUJD".into() }),
                Part::Text { text: "é \" \n".into() },
                Part::Thinking { text: String::new(), native: Some(json!({ "bytes": 7 })) },
                call(false),
                call(true),
                Part::ToolResult(ToolResult {
                    call_id: "c1".into(),
                    name: "t".into(),
                    content: "quotes the payload".into(),
                    is_error: true,
                    media: vec![Media { mime: "image/png".into(), data: "AAAA".into() }],
                    stored: Some("/a: type".into()),
                }),
            ],
        };
        let written = serde_json::to_string(&message.redact()).unwrap();
        let read: DurableMessage = serde_json::from_str(&written).unwrap();
        assert_eq!(serde_json::to_string(&read).unwrap(), written);
        assert!(!written.contains("quotes") && written.matches("1e2").count() == 1, "{written}");
    }

    #[test]
    fn a_payload_that_somebody_wrote_into_a_file_is_not_read() {
        let text = r#"{"role":"assistant","parts":[{"type":"tool_call","id":"c","name":"s","arguments":"{\"secret\":1}","terminal":true,"native":{"a":1}}]}"#;
        let read: DurableMessage = serde_json::from_str(text).unwrap();
        assert!(!serde_json::to_string(&read).unwrap().contains("secret"));
        assert!(read.message().tool_calls().all(|call| call.native.is_none()));
    }

    #[test]
    fn other_parts_are_refused() {
        for text in [r#"{"role":"user","parts":[{"type":"image"}]}"#, r#"{"role":"system","parts":[]}"#, "{}"]
        {
            assert!(serde_json::from_str::<DurableMessage>(text).is_err(), "{text}");
        }
    }
}

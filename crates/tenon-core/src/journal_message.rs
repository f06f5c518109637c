//! A message as it was, payloads included, for the one place that keeps them: the journal of a workflow, from which a
//! run goes on after a crash. Everything else stores a [`crate::DurableMessage`].

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::redact::{hide, message_json};
use crate::stored_message::{Payloads, read_message};
use crate::{Message, Secrets};

/// The only way to one is [`JournalMessage::of`], which takes known keys out.
#[derive(Clone, Debug)]
pub struct JournalMessage(Message);

impl JournalMessage {
    pub fn of(message: &Message, secrets: &Secrets) -> JournalMessage {
        let mut message = message.clone();
        hide(&mut message, secrets);
        JournalMessage(message)
    }

    pub fn into_message(self) -> Message {
        self.0
    }
}

impl Serialize for JournalMessage {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        message_json(&self.0).serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for JournalMessage {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<JournalMessage, D::Error> {
        read_message(deserializer, Payloads::Kept).map(JournalMessage)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Part, Role, ToolCall, ToolResult};

    #[test]
    fn payloads_stay_and_keys_do_not() {
        let call = ToolCall {
            id: "c".into(),
            name: "submit_result".into(),
            arguments: r#"{"n":1e2,"note":"sk-very-secret-key-0123456789"}"#.into(),
            terminal: true,
            native: Some(serde_json::json!({ "n": 1 })),
        };
        let result = ToolResult {
            call_id: "c".into(),
            name: "submit_result".into(),
            content: "/n: no".into(),
            is_error: true,
            media: Vec::new(),
            stored: Some("rejected".into()),
        };
        let parts = vec![Part::ToolCall(call), Part::ToolResult(result)];
        let message = Message { role: Role::Assistant, parts };
        let secrets: Secrets = [crate::Secret::new("sk-very-secret-key-0123456789")].into_iter().collect();
        let written = serde_json::to_string(&JournalMessage::of(&message, &secrets)).unwrap();
        assert!(!written.contains("sk-very"), "{written}");
        let read: JournalMessage = serde_json::from_str(&written).unwrap();
        let parts = read.into_message().parts;
        let [Part::ToolCall(call), Part::ToolResult(result)] = parts.as_slice() else { panic!("{written}") };
        assert!(call.terminal && call.arguments.starts_with(r#"{"n":1e2,"#), "{call:?}");
        assert_eq!((&call.native, result.content.as_str()), (&Some(serde_json::json!({ "n": 1 })), "/n: no"));
    }
}

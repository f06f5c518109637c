//! What the model is shown of turns that were recorded earlier.
//!
//! The arguments of terminal calls were not kept. Sent back as they are stored they would teach the model to
//! hand in a placeholder, and the tool may not even be offered any more: such calls become a note from outside
//! the conversation, told in the user's place, so that the model is not shown writing notes either. What a provider
//! wants back with an answer goes only to the model it came from.

use std::collections::HashSet;

use tenon_agent::{ACCEPTED, INTERRUPTED, NOT_RUN, tell};
use tenon_core::{Message, Part, Role, ToolResult};

/// Takes away what only the provider of an answer understands, unless that one is asked again.
pub(crate) fn without_natives(message: &mut Message) {
    for part in &mut message.parts {
        match part {
            Part::Thinking { native, .. } => *native = None,
            Part::ToolCall(call) => call.native = None,
            Part::Text { .. } | Part::ToolResult(_) | Part::Media(_) => {}
        }
    }
}

/// The conversation in a form that every provider takes, whatever tools are offered now.
pub(crate) fn shown(history: Vec<Message>) -> Vec<Message> {
    let mut shown = Vec::with_capacity(history.len());
    let mut handed_in = HashSet::new();
    for message in history {
        match message.role {
            Role::Assistant => {
                handed_in =
                    message.tool_calls().filter(|call| call.terminal).map(|call| call.id.clone()).collect();
                shown.extend(said(message, !handed_in.is_empty()));
            }
            Role::User => {
                let (answers, parts): (Vec<Part>, Vec<Part>) = message.parts.into_iter().partition(
                    |part| matches!(part, Part::ToolResult(result) if handed_in.contains(&result.call_id)),
                );
                if !parts.is_empty() {
                    tell(&mut shown, Message { role: Role::User, parts });
                }
                for answer in answers {
                    if let Part::ToolResult(result) = answer {
                        tell(&mut shown, Message::user(note(&result)));
                    }
                }
            }
        }
    }
    shown
}

/// A turn without its terminal calls; `None` if nothing is left that could be sent. Thinking belongs to the
/// call it led to, and servers refuse it alone.
fn said(mut message: Message, handed_in: bool) -> Option<Message> {
    if handed_in {
        message.parts.retain(|part| match part {
            Part::ToolCall(call) => !call.terminal,
            Part::Thinking { .. } => false,
            _ => true,
        });
        without_natives(&mut message);
    }
    let says_something = |part: &Part| match part {
        Part::Text { text } => !text.trim().is_empty(),
        Part::Thinking { .. } => false,
        Part::ToolCall(_) | Part::ToolResult(_) | Part::Media(_) => true,
    };
    message.parts.iter().any(says_something).then_some(message)
}

fn note(result: &ToolResult) -> String {
    let handed_in = format!("[Note: here an answer was handed in with `{}`", result.name);
    match result.content.as_str() {
        ACCEPTED => format!(
            "{handed_in} and accepted. It went to whoever asked for it, and what it said is not part of this \
             conversation.]"
        ),
        NOT_RUN | INTERRUPTED => {
            format!("{handed_in}. What it said and what became of it is not part of this conversation.]")
        }
        told => {
            format!("{handed_in}. What it said is not part of this conversation. It was answered: {told}]")
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use tenon_core::ToolCall;

    use super::*;

    fn call(id: &str, terminal: bool) -> Part {
        let arguments = if terminal { tenon_core::REDACTED_ARGS } else { "{}" };
        Part::ToolCall(ToolCall {
            id: id.into(),
            name: if terminal { "structured_output" } else { "look" }.into(),
            arguments: arguments.into(),
            terminal,
            native: Some(json!({ "id": 1 })),
        })
    }

    fn result(id: &str, name: &str, content: &str) -> Part {
        Part::ToolResult(ToolResult {
            call_id: id.into(),
            name: name.into(),
            content: content.into(),
            is_error: false,
            media: Vec::new(),
            stored: None,
        })
    }

    fn message(role: Role, parts: Vec<Part>) -> Message {
        Message { role, parts }
    }

    #[test]
    fn terminal_calls_become_notes_and_nothing_of_the_placeholder_is_left() {
        let thinking = || Part::Thinking { text: "hm".into(), native: Some(json!({ "s": 1 })) };
        let history = vec![
            Message::user("go"),
            message(Role::Assistant, vec![thinking(), call("t1", true), call("a", false)]),
            message(
                Role::User,
                vec![result("t1", "structured_output", "/n: type"), result("a", "look", "Skipped")],
            ),
            message(Role::Assistant, vec![thinking(), call("t2", true)]),
            message(Role::User, vec![result("t2", "structured_output", ACCEPTED)]),
        ];
        let shown = shown(history);
        let drawn: Vec<String> = shown
            .iter()
            .map(|message| {
                let parts = message.parts.iter().map(|part| match part {
                    Part::Text { text } => format!("text {}", text.split('`').nth(1).unwrap_or(text)),
                    Part::ToolCall(call) => format!("call {} {:?}", call.id, call.native),
                    Part::ToolResult(result) => format!("result {}", result.call_id),
                    other => format!("{other:?}"),
                });
                format!("{:?}: {}", message.role, parts.collect::<Vec<_>>().join(", "))
            })
            .collect();
        assert_eq!(
            drawn,
            ["User: text go", "Assistant: call a None", "User: result a", "User: text structured_output"]
        );
        let notes = shown[3].text();
        assert!(
            notes.contains("It was answered: /n: type]\n\n[Note:") && notes.ends_with("conversation.]"),
            "{notes}"
        );
        assert!(!format!("{shown:?}").contains("__redacted"));
    }

    #[test]
    fn turns_that_say_nothing_are_left_out() {
        let history = vec![
            Message::user("one"),
            message(Role::Assistant, vec![Part::Thinking { text: "hm".into(), native: None }]),
            Message::user("two"),
        ];
        let shown = shown(history);
        assert_eq!((shown.len(), shown[0].text().as_str()), (1, "one\n\ntwo"));
    }
}

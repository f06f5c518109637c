//! Lines of a session that are no part of a run, each once: answers to the client and questions.

use serde_json::json;
use tenon_core::{PermissionAsk, Timestamp};
use tenon_wire::{
    Cancelled, CommandTold, Dialect, HintItem, HintStatus, Question, Replies, SessionState, Suggestion,
    Update,
};

use crate::script::{id, session};

/// The golden file of a dialect; `None` for the one that has no sessions over lines.
pub fn lines(dialect: Dialect) -> Option<String> {
    if dialect == Dialect::Gemini {
        return None;
    }
    let replies = Replies::new(dialect, session());
    let prompt_id = Some("session-123########8");
    let time = Timestamp(1_739_430_123_000);
    let ask = PermissionAsk {
        call_id: "call_1".to_owned(),
        tool: "write_file".to_owned(),
        input: json!({"file_path": "main.py", "content": "print('Hello')"}).as_object().cloned().unwrap(),
        reason: "`write_file` needs approval".to_owned(),
        agent_id: None,
    };
    let suggestion =
        |kind, label, description: &str| Suggestion { kind, label, description: description.to_owned() };
    let suggestions = vec![
        suggestion("allow", "Allow edit", "Change main.py"),
        suggestion("deny", "Deny", "Refuse `write_file`"),
        suggestion("modify", "Review changes", "Allow it with other arguments"),
    ];
    let command = PermissionAsk {
        call_id: "call_2".to_owned(),
        tool: "run_shell_command".to_owned(),
        input: json!({"command": "cargo test"}).as_object().cloned().unwrap(),
        reason: "`run_shell_command` needs approval".to_owned(),
        agent_id: None,
    };
    let rule =
        Update::AllowRule { tool: "run_shell_command".to_owned(), content: Some("cargo test".to_owned()) };
    let of_command = Question::CanUseTool {
        ask: &command,
        suggestions: vec![suggestion("allow", "Allow command", "Run: cargo test")],
        update: Some(rule),
    };
    let questions = [
        Question::CanUseTool { ask: &ask, suggestions, update: Some(Update::AutoEdit) },
        Question::HookCallback {
            callback_id: "h0",
            input: &json!({"hook_event_name": "PreToolUse", "tool_name": "write_file"}),
            tool_use_id: Some("call_1"),
        },
        Question::McpMessage {
            server: "tools",
            message: &json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"}),
        },
    ];
    let answer = json!({"subtype": "set_model", "model": "other-model"});
    let item = |name: &str, description: &str| HintItem {
        label: name.to_owned(),
        value: name.to_owned(),
        description: description.to_owned(),
    };
    let items = [item("chat", "Saved conversations"), item("clear", "Begin anew")];
    let mut out: Vec<Vec<u8>> =
        questions.iter().map(|question| replies.control_request("req-1", prompt_id, question)).collect();
    out.extend([
        replies.control_cancel("req-1"),
        replies.control_response("r1", Ok(&answer)),
        replies.control_response("r2", Err("there is no control request `make_coffee`")),
        replies.input_error(id(1), 7, None, "not valid JSON: expected value at line 1 column 1"),
        replies.heartbeat(id(2), time),
        replies.cancel(prompt_id, Cancelled::Ok, "the turn was stopped"),
        replies.cancel(None, Cancelled::Noop, "no turn is running"),
        replies.command(&CommandTold {
            uuid: id(3),
            time,
            prompt_id,
            command: &json!({"kind": "slash", "path": ["chat", "list"], "args": ""}),
            result: &json!({"type": "message", "level": "info", "content": "There are 3 conversations."}),
        }),
        replies.session_state(id(4), SessionState::RequiresAction).unwrap_or_default(),
        replies.hint(prompt_id, "slash", &HintStatus::Ok, &items, false),
        replies.hint(prompt_id, "slash", &HintStatus::Ok, &items[..1], true),
        replies.hint(prompt_id, "at", &HintStatus::Loading, &[], false),
        replies.hint(prompt_id, "at", &HintStatus::Error("the folder cannot be read".to_owned()), &[], false),
        replies.unsupported_protocol(
            id(5),
            time,
            prompt_id,
            "unsupported_protocol: version `9` was asked for, and there is `1`",
        ),
        replies.input_error(id(4), 8, prompt_id, "the message is empty"),
        replies.control_request("req-2", prompt_id, &of_command),
    ]);
    Some(String::from_utf8(out.concat()).unwrap())
}

/// Without a word for commands, their answer is what the assistant says.
#[test]
fn a_command_in_the_gemini_dialect_is_a_message() {
    let replies = Replies::new(Dialect::Gemini, session());
    let line = replies.command(&CommandTold {
        uuid: id(3),
        time: Timestamp(1_739_430_123_000),
        prompt_id: None,
        command: &json!({}),
        result: &json!({"type": "message", "content": "Help."}),
    });
    let wanted =
        r#"{"type":"message","timestamp":"2025-02-13T07:02:03.000Z","role":"assistant","content":"Help."}"#;
    assert_eq!(String::from_utf8(line).unwrap(), format!("{wanted}\n"));
}

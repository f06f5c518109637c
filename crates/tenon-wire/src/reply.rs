//! Lines that answer a client or ask it something: control requests and responses, and the `result/…` lines
//! of the `openai` dialect. They stand between the lines of a run and are no part of it.
//!
//! What is asked and answered is decided by whoever drives the session; here is only how it is written.

use serde_json::{Map, Value, json};
use tenon_core::{Id, PermissionAsk, Timestamp};

use crate::openai::PROTOCOL_VERSION;
use crate::{Dialect, json_line};

/// Writes the lines of one session.
#[derive(Clone, Debug)]
pub struct Replies {
    dialect: Dialect,
    session_id: Id,
}

/// What is asked of a client.
#[derive(Clone, Debug)]
pub enum Question<'a> {
    CanUseTool { ask: &'a PermissionAsk, suggestions: Vec<Suggestion> },
    HookCallback { callback_id: &'a str, input: &'a Value, tool_use_id: Option<&'a str> },
    McpMessage { server: &'a str, message: &'a Value },
}

/// A way to answer that a client may offer to a person.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Suggestion {
    /// `allow` or `deny`.
    pub kind: &'static str,
    pub label: &'static str,
    pub description: String,
}

/// What became of a cancellation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cancelled {
    Ok,
    /// There was nothing to cancel.
    Noop,
}

/// What became of a command.
#[derive(Clone, Copy, Debug)]
pub struct CommandTold<'a> {
    pub uuid: Id,
    pub time: Timestamp,
    pub prompt_id: Option<&'a str>,
    /// How it was understood.
    pub command: &'a Value,
    pub result: &'a Value,
}

/// One thing that could be meant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HintItem {
    pub label: String,
    pub value: String,
    pub description: String,
}

/// How far a search for hints is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HintStatus {
    Ok,
    Loading,
    Error(String),
}

impl Replies {
    pub fn new(dialect: Dialect, session_id: Id) -> Replies {
        Replies { dialect, session_id }
    }

    /// The same in another session.
    #[must_use]
    pub fn of_session(&self, session_id: Id) -> Replies {
        Replies { session_id, ..self.clone() }
    }

    /// The client speaks a version that there is not; the session ends.
    pub fn unsupported_protocol(&self, time: Timestamp, message: &str) -> Vec<u8> {
        match self.dialect {
            Dialect::OpenAi => line(&json!({
                "object": "chat.completion", "id": format!("chatcmpl-{}", self.session_id),
                "created": time.seconds(), "model": "",
                "choices": [{
                    "index": 0, "message": { "role": "assistant", "content": "", "refusal": null, "tool_calls": null },
                    "logprobs": null, "finish_reason": "error",
                }],
                "session_id": self.session_id,
                "metadata": { "error": "unsupported_protocol", "message": message, "protocol_version": PROTOCOL_VERSION },
            })),
            Dialect::Qwen | Dialect::Claude | Dialect::Gemini => line(&json!({
                "type": "system", "subtype": "unsupported_protocol", "session_id": self.session_id,
                "data": { "error": message, "protocol_version": PROTOCOL_VERSION },
            })),
        }
    }

    pub fn control_request(&self, id: &str, prompt_id: Option<&str>, question: &Question<'_>) -> Vec<u8> {
        match self.dialect {
            Dialect::OpenAi => line(&self.flat_request(id, prompt_id, question)),
            Dialect::Qwen | Dialect::Claude | Dialect::Gemini => line(&json!({
                "type": "control_request", "request_id": id, "request": nested_request(question),
            })),
        }
    }

    /// We no longer want an answer.
    pub fn control_cancel(&self, id: &str) -> Vec<u8> {
        line(&json!({ "type": "control_cancel_request", "request_id": id }))
    }

    pub fn control_response(&self, id: &str, answer: Result<&Value, &str>) -> Vec<u8> {
        match (self.dialect, answer) {
            (Dialect::OpenAi, Ok(result)) => line(&json!({
                "type": "control_response", "request_id": id,
                "response": { "subtype": "success", "result": result },
            })),
            (Dialect::OpenAi, Err(message)) => line(&json!({
                "type": "control_response", "request_id": id,
                "response": { "subtype": "error", "error": { "message": message, "retryable": false } },
            })),
            (_, Ok(response)) => line(&json!({
                "type": "control_response",
                "response": { "subtype": "success", "request_id": id, "response": response },
            })),
            (_, Err(message)) => line(&json!({
                "type": "control_response",
                "response": { "subtype": "error", "request_id": id, "error": message },
            })),
        }
    }

    /// A line that could not be read. `number` counts the client's lines from 1.
    pub fn input_error(&self, uuid: Id, number: u64, message: &str) -> Vec<u8> {
        match self.dialect {
            Dialect::OpenAi => line(&json!({
                "type": "result/error", "session_id": self.session_id, "line": number,
                "error": {
                    "message": message, "type": "invalid_request_error", "param": null, "code": "TENON_INPUT",
                },
            })),
            Dialect::Qwen | Dialect::Claude | Dialect::Gemini => line(&json!({
                "type": "system", "subtype": "input_error", "uuid": uuid, "session_id": self.session_id,
                "parent_tool_use_id": null, "data": { "line": number, "error": message },
            })),
        }
    }

    pub fn heartbeat(&self, uuid: Id, time: Timestamp) -> Vec<u8> {
        match self.dialect {
            Dialect::OpenAi => line(&json!({
                "type": "result/heartbeat", "session_id": self.session_id, "status": "ok", "ts": time.seconds(),
            })),
            Dialect::Qwen | Dialect::Claude | Dialect::Gemini => line(&json!({
                "type": "system", "subtype": "heartbeat", "uuid": uuid, "session_id": self.session_id,
                "data": { "ts": time.seconds(), "status": "ok" },
            })),
        }
    }

    pub fn cancel(&self, prompt_id: Option<&str>, outcome: Cancelled, message: &str) -> Vec<u8> {
        let status = match outcome {
            Cancelled::Ok => "ok",
            Cancelled::Noop => "noop",
        };
        line(&json!({
            "type": "result/cancel", "session_id": self.session_id, "prompt_id": prompt_id, "status": status,
            "message": message,
        }))
    }

    /// `command` is how the command was understood, `result` what came of it.
    pub fn command(&self, told: &CommandTold<'_>) -> Vec<u8> {
        let CommandTold { uuid, time, prompt_id, command, result } = told;
        match self.dialect {
            Dialect::OpenAi => line(&json!({
                "type": "result/command", "session_id": self.session_id, "prompt_id": prompt_id,
                "command": command, "result": result,
            })),
            Dialect::Qwen | Dialect::Claude => line(&json!({
                "type": "system", "subtype": "command_result", "uuid": uuid, "session_id": self.session_id,
                "parent_tool_use_id": null,
                "data": { "prompt_id": prompt_id, "command": command, "result": result },
            })),
            // It has no word for commands: their answer is what the assistant says.
            Dialect::Gemini => line(&json!({
                "type": "message", "timestamp": time.to_iso8601(), "role": "assistant",
                "content": result["content"],
            })),
        }
    }

    pub fn hint(
        &self,
        prompt_id: Option<&str>,
        trigger: &str,
        status: &HintStatus,
        items: &[HintItem],
        is_perfect_match: bool,
    ) -> Vec<u8> {
        let (status, message) = match status {
            HintStatus::Ok => ("ok", None),
            HintStatus::Loading => ("loading", None),
            HintStatus::Error(message) => ("error", Some(message)),
        };
        let suggestions: Vec<Value> = items
            .iter()
            .map(|item| json!({ "label": item.label, "value": item.value, "description": item.description }))
            .collect();
        line(&json!({
            "type": "result/command_hint", "session_id": self.session_id, "prompt_id": prompt_id,
            "trigger": trigger, "status": status, "message": message, "suggestions": suggestions,
            "metadata": { "is_perfect_match": is_perfect_match },
        }))
    }

    fn flat_request(&self, id: &str, prompt_id: Option<&str>, question: &Question<'_>) -> Value {
        let mut fields = Map::new();
        fields.insert("type".to_owned(), json!("control_request"));
        fields.insert("request_id".to_owned(), json!(id));
        let (subtype, rest) = match question {
            Question::CanUseTool { ask, .. } => (
                "can_use_tool",
                json!({
                    "tool": { "name": ask.tool, "arguments": ask.input },
                    "tool_call_id": ask.call_id,
                    "metadata": { "reason": ask.reason },
                }),
            ),
            Question::HookCallback { callback_id, input, tool_use_id } => (
                "hook_callback",
                json!({ "callback_id": callback_id, "input": input, "tool_call_id": tool_use_id }),
            ),
            Question::McpMessage { server, message } => {
                ("mcp_message", json!({ "server_name": server, "message": message }))
            }
        };
        fields.insert("subtype".to_owned(), json!(subtype));
        fields.insert("session_id".to_owned(), json!(self.session_id));
        fields.insert("prompt_id".to_owned(), json!(prompt_id));
        if let Value::Object(rest) = rest {
            fields.extend(rest);
        }
        Value::Object(fields)
    }
}

fn nested_request(question: &Question<'_>) -> Value {
    match question {
        Question::CanUseTool { ask, suggestions } => {
            let suggestions: Vec<Value> = suggestions
                .iter()
                .map(|suggestion| {
                    json!({
                        "type": suggestion.kind, "label": suggestion.label,
                        "description": suggestion.description,
                    })
                })
                .collect();
            json!({
                "subtype": "can_use_tool", "tool_name": ask.tool, "tool_use_id": ask.call_id,
                "input": ask.input, "permission_suggestions": suggestions, "blocked_path": null,
                "decision_reason": ask.reason,
            })
        }
        Question::HookCallback { callback_id, input, tool_use_id } => json!({
            "subtype": "hook_callback", "callback_id": callback_id, "input": input,
            "tool_use_id": tool_use_id,
        }),
        Question::McpMessage { server, message } => {
            json!({ "subtype": "mcp_message", "server_name": server, "message": message })
        }
    }
}

fn line(value: &Value) -> Vec<u8> {
    let mut out = Vec::new();
    json_line::append(&mut out, value);
    out.push(b'\n');
    out
}

//! Lines that answer a client or ask it something: control requests and responses, and the `result/…` lines
//! of the `openai` dialect. They stand between the lines of a run and are no part of it.
//!
//! What is asked and answered is decided by whoever drives the session; here is only how it is written. `types.rs`
//! is the wire format.

mod types;

use std::borrow::Cow;

use serde_json::Value;
use serde_json::value::RawValue;
use tenon_core::{Id, PermissionAsk, Timestamp};

use crate::gemini;
use crate::openai::{self, PROTOCOL_VERSION};
use crate::qwen::{Flavour, mode_name};
use crate::values::{Raw, Uuid};
use crate::{Dialect, json_line};
use types::{
    AskedTool, AskedWhy, Cancel, CommandData, ControlError, FlatRequest, FlatResponse, HeartbeatReply,
    HintMetadata, HintReply, InputErrorData, LineError, Request, Response, Suggested, SuggestedAnswer,
    SuggestedRule, SuggestedUpdate, SuggestionItem, SystemReply, UnsupportedData,
};
pub(crate) use types::{CommonReply, FlatReply, Reply};

/// Writes the lines of one session.
#[derive(Clone, Debug)]
pub struct Replies {
    dialect: Dialect,
    session_id: Id,
}

/// What is asked of a client.
#[derive(Clone, Debug)]
pub enum Question<'a> {
    CanUseTool { ask: &'a PermissionAsk, suggestions: Vec<Suggestion>, update: Option<Update> },
    HookCallback { callback_id: &'a str, input: &'a Value, tool_use_id: Option<&'a str> },
    McpMessage { server: &'a str, message: &'a Value },
}

/// A way to answer that a client may offer to a person.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Suggestion {
    /// `allow`, `deny` or `modify`.
    pub kind: &'static str,
    pub label: &'static str,
    pub description: String,
}

/// A change after which a call like this one would not be asked about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Update {
    /// This tool is allowed, with this in parentheses.
    AllowRule {
        tool: String,
        content: Option<String>,
    },
    AutoEdit,
}

/// What the session is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SessionState {
    Running,
    /// The client is asked something.
    RequiresAction,
    Idle,
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

    pub fn session_id(&self) -> Id {
        self.session_id
    }

    /// The same in another session.
    #[must_use]
    pub fn of_session(&self, session_id: Id) -> Replies {
        Replies { session_id, ..self.clone() }
    }

    /// Whether the line about a version that there is not is all that a client waits for. Elsewhere a result follows.
    pub fn refuses_versions_with_a_result(&self) -> bool {
        self.dialect == Dialect::OpenAi
    }

    /// Whether a client of this dialect waits for a result of every turn, also of one that nobody could read. In the other
    /// dialect, the error is the answer.
    pub fn every_turn_has_a_result(&self) -> bool {
        self.dialect != Dialect::OpenAi
    }

    /// For clients that close their input only when nothing more is asked of them. Of the `claude` dialect.
    pub fn session_state(&self, uuid: Id, state: SessionState) -> Option<Vec<u8>> {
        let state = match state {
            SessionState::Running => "running",
            SessionState::RequiresAction => "requires_action",
            SessionState::Idle => "idle",
        };
        (self.dialect == Dialect::Claude).then(|| {
            line(&Reply::System(SystemReply::SessionStateChanged {
                state,
                sdk_host_only: true,
                uuid: Uuid(uuid),
                session_id: self.session(),
            }))
        })
    }

    /// The client speaks a version that there is not; the session ends.
    pub fn unsupported_protocol(
        &self,
        uuid: Id,
        time: Timestamp,
        prompt_id: Option<&str>,
        message: &str,
    ) -> Vec<u8> {
        match self.dialect {
            Dialect::OpenAi => line(&openai::unsupported_protocol(self.session_id, time, prompt_id, message)),
            Dialect::Qwen | Dialect::Claude | Dialect::Gemini => {
                line(&Reply::System(SystemReply::UnsupportedProtocol {
                    uuid: Uuid(uuid),
                    session_id: self.session(),
                    parent_tool_use_id: (),
                    data: UnsupportedData { error: message, protocol_version: PROTOCOL_VERSION },
                }))
            }
        }
    }

    pub fn control_request(&self, id: &str, prompt_id: Option<&str>, question: &Question<'_>) -> Vec<u8> {
        match self.dialect {
            Dialect::OpenAi => line(&FlatReply::ControlRequest(self.flat_request(id, prompt_id, question))),
            Dialect::Qwen | Dialect::Claude | Dialect::Gemini => {
                let request = nested_request(self.dialect, question);
                line(&Reply::ControlRequest { request_id: id, request })
            }
        }
    }

    /// We no longer want an answer.
    pub fn control_cancel(&self, id: &str) -> Vec<u8> {
        line(&CommonReply::ControlCancelRequest { request_id: id })
    }

    pub fn control_response(&self, id: &str, answer: Result<&Value, &str>) -> Vec<u8> {
        match self.dialect {
            Dialect::OpenAi => {
                let response = match answer {
                    Ok(result) => FlatResponse::Success { result },
                    Err(message) => FlatResponse::Error { error: ControlError { message, retryable: false } },
                };
                line(&FlatReply::ControlResponse { request_id: id, response })
            }
            Dialect::Qwen | Dialect::Claude | Dialect::Gemini => {
                let response = match answer {
                    Ok(response) => Response::Success { request_id: id, response },
                    Err(error) => Response::Error { request_id: id, error },
                };
                line(&Reply::ControlResponse { response })
            }
        }
    }

    /// A record of the session, for a client that keeps it as well. Of the `qwen` and `claude` dialects.
    pub fn transcript_mirror(&self, file_path: &str, record: &RawValue) -> Vec<u8> {
        line(&Reply::TranscriptMirror { file_path, entries: [Raw(record)] })
    }

    /// The client gave its request up before there was an answer: in one dialect it hears no more of it, in the
    /// others that.
    pub fn control_given_up(&self, id: &str) -> Option<Vec<u8>> {
        match self.dialect {
            Dialect::Claude => None,
            Dialect::Qwen | Dialect::Gemini | Dialect::OpenAi => {
                Some(self.control_response(id, Err("the request was given up")))
            }
        }
    }

    /// A line that could not be read. `number` counts the client's lines from 1.
    pub fn input_error(&self, uuid: Id, number: u64, prompt_id: Option<&str>, message: &str) -> Vec<u8> {
        match self.dialect {
            Dialect::OpenAi => line(&FlatReply::Error {
                session_id: self.session(),
                prompt_id,
                line: number,
                error: LineError { message, r#type: "invalid_request_error", param: (), code: "TENON_INPUT" },
            }),
            Dialect::Qwen | Dialect::Claude | Dialect::Gemini => {
                line(&Reply::System(SystemReply::InputError {
                    uuid: Uuid(uuid),
                    session_id: self.session(),
                    parent_tool_use_id: (),
                    data: InputErrorData { line: number, error: message, prompt_id },
                }))
            }
        }
    }

    pub fn heartbeat(&self, uuid: Id, time: Timestamp) -> Vec<u8> {
        let ts = time.seconds();
        match self.dialect {
            Dialect::OpenAi => line(&FlatReply::Heartbeat { session_id: self.session(), status: "ok", ts }),
            Dialect::Qwen | Dialect::Claude | Dialect::Gemini => {
                line(&Reply::System(SystemReply::Heartbeat {
                    uuid: Uuid(uuid),
                    session_id: self.session(),
                    data: HeartbeatReply { ts, status: "ok" },
                }))
            }
        }
    }

    pub fn cancel(&self, prompt_id: Option<&str>, outcome: Cancelled, message: &str) -> Vec<u8> {
        let status = match outcome {
            Cancelled::Ok => "ok",
            Cancelled::Noop => "noop",
        };
        line(&CommonReply::Cancel(Cancel { session_id: self.session(), prompt_id, status, message }))
    }

    /// `command` is how the command was understood, `result` what came of it.
    pub fn command(&self, told: &CommandTold<'_>) -> Vec<u8> {
        let CommandTold { uuid, time, prompt_id, command, result } = *told;
        let session_id = self.session();
        match self.dialect {
            Dialect::OpenAi => line(&FlatReply::Command { session_id, prompt_id, command, result }),
            Dialect::Qwen | Dialect::Claude => line(&Reply::System(SystemReply::CommandResult {
                uuid: Uuid(uuid),
                session_id,
                parent_tool_use_id: (),
                data: CommandData { prompt_id, command, result },
            })),
            // It has no word for commands: their answer is what the assistant says.
            Dialect::Gemini => line(&gemini::said(time, result["content"].as_str().unwrap_or_default())),
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
            HintStatus::Error(message) => ("error", Some(message.as_str())),
        };
        line(&CommonReply::Hint(HintReply {
            session_id: self.session(),
            prompt_id,
            trigger,
            status,
            message,
            suggestions: items
                .iter()
                .map(|item| Suggested {
                    label: &item.label,
                    value: &item.value,
                    description: &item.description,
                })
                .collect(),
            metadata: HintMetadata { is_perfect_match },
        }))
    }

    fn session(&self) -> Uuid {
        Uuid(self.session_id)
    }

    fn flat_request<'a>(
        &self,
        request_id: &'a str,
        prompt_id: Option<&'a str>,
        question: &'a Question<'_>,
    ) -> FlatRequest<'a> {
        let session_id = self.session();
        match question {
            Question::CanUseTool { ask, .. } => FlatRequest::CanUseTool {
                request_id,
                session_id,
                prompt_id,
                tool: AskedTool { name: &ask.tool, arguments: &ask.input },
                tool_call_id: &ask.call_id,
                metadata: AskedWhy { reason: &ask.reason },
            },
            Question::HookCallback { callback_id, input, tool_use_id } => FlatRequest::HookCallback {
                request_id,
                session_id,
                prompt_id,
                callback_id,
                input,
                tool_call_id: *tool_use_id,
            },
            Question::McpMessage { server, message } => {
                FlatRequest::McpMessage { request_id, session_id, prompt_id, server_name: server, message }
            }
        }
    }
}

/// What a hook is told, with the mode under the name that `init` has.
fn with_mode_name(input: &Value) -> Cow<'_, Value> {
    const MODE: &str = "permission_mode";
    let Some(mode) = input.get(MODE).and_then(Value::as_str) else { return Cow::Borrowed(input) };
    let name = mode_name(Flavour::Claude, mode);
    if name == mode {
        return Cow::Borrowed(input);
    }
    let mut named = input.clone();
    named[MODE] = name.into();
    Cow::Owned(named)
}

fn nested_request<'a>(dialect: Dialect, question: &'a Question<'_>) -> Request<'a> {
    match question {
        Question::CanUseTool { ask, suggestions, update } => Request::CanUseTool {
            tool_name: &ask.tool,
            tool_use_id: &ask.call_id,
            input: &ask.input,
            permission_suggestions: match dialect {
                Dialect::Claude => update.iter().map(suggested_update).collect(),
                Dialect::Qwen | Dialect::Gemini | Dialect::OpenAi => {
                    suggestions.iter().map(suggested_answer).collect()
                }
            },
            blocked_path: match dialect {
                Dialect::Claude => None,
                Dialect::Qwen | Dialect::Gemini | Dialect::OpenAi => Some(()),
            },
            decision_reason: &ask.reason,
            agent_id: ask.agent_id.as_deref(),
        },
        Question::HookCallback { callback_id, input, tool_use_id } => {
            let input = match dialect {
                Dialect::Claude => with_mode_name(input),
                Dialect::Qwen | Dialect::Gemini | Dialect::OpenAi => Cow::Borrowed(*input),
            };
            Request::HookCallback { callback_id, input, tool_use_id: *tool_use_id }
        }
        Question::McpMessage { server, message } => Request::McpMessage { server_name: server, message },
    }
}

fn suggested_answer(suggestion: &Suggestion) -> SuggestionItem<'_> {
    SuggestionItem::Answer(SuggestedAnswer {
        r#type: suggestion.kind,
        label: suggestion.label,
        description: &suggestion.description,
    })
}

fn suggested_update(update: &Update) -> SuggestionItem<'_> {
    let destination = "session";
    SuggestionItem::Update(match update {
        Update::AllowRule { tool, content } => SuggestedUpdate::AddRules {
            rules: [SuggestedRule { tool_name: tool, rule_content: content.as_deref() }],
            behavior: "allow",
            destination,
        },
        Update::AutoEdit => SuggestedUpdate::SetMode { mode: "acceptEdits", destination },
    })
}

fn line<T: serde::Serialize>(value: &T) -> Vec<u8> {
    let mut out = Vec::new();
    json_line::append(&mut out, value);
    out.push(b'\n');
    out
}

//! One line, one input: which shape it has.

use serde_json::{Map, Value};

use super::chat_request::{self, Turn};
use super::control::{self, ControlRequest};
use super::openai_request;

/// One line of a client.
#[derive(Clone, Debug)]
pub struct Line {
    pub input: Input,
    /// The version of the protocol that the client says it speaks, wherever in the line it says so.
    pub protocol_version: Option<String>,
}

/// What a client sent.
#[derive(Clone, Debug)]
pub enum Input {
    /// Something for the model, or a command.
    Turn(Box<Turn>),
    ControlRequest {
        id: String,
        request: Box<ControlRequest>,
    },
    /// An answer to a control request of ours.
    ControlResponse {
        id: String,
        reply: Result<Value, String>,
    },
    /// The client no longer wants an answer: to this request, or to any.
    ControlCancel {
        id: Option<String>,
    },
    /// Stop the running turn.
    Cancel {
        session_id: Option<String>,
        prompt_id: Option<String>,
        /// To be answered as a control request as well.
        request_id: Option<String>,
    },
    Hint(Hint),
    HintCancel {
        prompt_id: Option<String>,
    },
    Heartbeat {
        session_id: Option<String>,
    },
    /// A type that says nothing to us: the client may speak a newer version.
    Unknown {
        kind: String,
    },
}

/// What could be meant by what was typed so far.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hint {
    pub session_id: Option<String>,
    pub prompt_id: Option<String>,
    pub trigger: HintTrigger,
    pub text: String,
    /// In UTF-16 code units, as editors count; the end of the text when it is not given.
    pub cursor: Option<usize>,
    /// Where whoever types is (`context.cwd`): files there are meant first.
    pub cwd: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HintTrigger {
    Slash,
    At,
}

impl HintTrigger {
    pub fn name(self) -> &'static str {
        match self {
            HintTrigger::Slash => "slash",
            HintTrigger::At => "at",
        }
    }
}

/// Why a line is not an input. The session goes on.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct InputError {
    /// One sentence for whoever wrote the client.
    pub message: String,
    /// The control request that is to be answered with this error.
    pub request_id: Option<String>,
    /// The control request of ours that the line was to answer, and did not.
    pub unanswered: Option<String>,
    /// The turn that the line would have been.
    pub prompt_id: Option<String>,
    /// What it was to be, where more hangs on it than its own answer.
    pub meant: Option<Meant>,
}

/// What a line that cannot be used was to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Meant {
    /// Something for the model: the client waits for a result.
    Turn,
    /// How the client wants its session: without it, guards may be missing.
    Initialize,
}

impl InputError {
    pub(super) fn new(message: impl Into<String>) -> InputError {
        InputError {
            message: message.into(),
            request_id: None,
            unanswered: None,
            prompt_id: None,
            meant: None,
        }
    }
}

/// Reads one line without its line feed. `None` for a blank one.
pub fn read_line(line: &[u8]) -> Result<Option<Line>, InputError> {
    let text = std::str::from_utf8(line)
        .map_err(|error| InputError::new(format!("not UTF-8 (byte {})", error.valid_up_to())))?;
    let text = text.trim_start_matches('\u{feff}').trim();
    if text.is_empty() {
        return Ok(None);
    }
    let value: Value =
        serde_json::from_str(text).map_err(|error| InputError::new(format!("not valid JSON: {error}")))?;
    let Value::Object(fields) = value else {
        return Err(InputError::new("a line must be a JSON object"));
    };
    let filled = |key: &str| fields.get(key).and_then(Value::as_str).filter(|id| !id.is_empty());
    let is_request = fields.get("type").and_then(Value::as_str) == Some("control_request");
    let read = protocol_version(&fields, is_request)
        .and_then(|protocol_version| Ok(Line { input: read_object(&fields)?, protocol_version }));
    read.map(Some).map_err(|error| InputError {
        request_id: error
            .request_id
            .or_else(|| filled("request_id").filter(|_| is_request).map(str::to_owned)),
        prompt_id: filled("prompt_id").map(str::to_owned),
        meant: meant(&fields),
        ..error
    })
}

fn meant(fields: &Map<String, Value>) -> Option<Meant> {
    let inner = fields.get("request").and_then(Value::as_object).unwrap_or(fields);
    match fields.get("type").and_then(Value::as_str) {
        Some("user") => Some(Meant::Turn),
        Some("control_request") => {
            (inner.get("subtype").and_then(Value::as_str) == Some("initialize")).then_some(Meant::Initialize)
        }
        Some(_) => None,
        None => {
            let answers_call = fields.get("input").is_some_and(|input| input["origin"] == "tool_response");
            let asks = fields.contains_key("input") || fields.contains_key("messages");
            (asks && !answers_call).then_some(Meant::Turn)
        }
    }
}

/// Top-level, in `metadata`, or among the details of a request; a number or a text.
fn protocol_version(fields: &Map<String, Value>, is_request: bool) -> Result<Option<String>, InputError> {
    let mut holders = vec![fields];
    match fields.get("metadata") {
        None | Some(Value::Null) => {}
        Some(Value::Object(metadata)) => holders.push(metadata),
        Some(_) => return Err(InputError::new("`metadata` must be an object")),
    }
    if is_request {
        let inner = fields.get("request").and_then(Value::as_object);
        holders.extend(inner);
        holders.extend(inner.unwrap_or(fields).get("payload").and_then(Value::as_object));
    }
    let mut stated: Option<String> = None;
    for version in holders.into_iter().filter_map(|holder| holder.get("protocol_version")) {
        let version = match version {
            Value::Null => continue,
            Value::String(version) => version.clone(),
            Value::Number(version) => version.to_string(),
            _ => return Err(InputError::new("`protocol_version` must be a number or a string")),
        };
        stated.get_or_insert(version);
    }
    Ok(stated)
}

fn read_object(fields: &Map<String, Value>) -> Result<Input, InputError> {
    let kind = match fields.get("type") {
        None => return read_untyped(fields),
        Some(Value::String(kind)) => kind.as_str(),
        Some(_) => return Err(InputError::new("`type` must be a string")),
    };
    match kind {
        "user" => chat_request::user_message(fields).map(turn),
        "control_request" => control::request(fields),
        "control_response" => control::response(fields),
        "control_cancel_request" => Ok(Input::ControlCancel { id: text(fields, "request_id")? }),
        "control/cancel" => Ok(Input::Cancel {
            session_id: text(fields, "session_id")?,
            prompt_id: id(fields, "prompt_id")?,
            request_id: id(fields, "request_id")?,
        }),
        "command_hint_request" => hint(fields).map(Input::Hint),
        "command_hint_cancel" => Ok(Input::HintCancel { prompt_id: id(fields, "prompt_id")? }),
        "heartbeat_request" => Ok(Input::Heartbeat { session_id: text(fields, "session_id")? }),
        _ => Ok(Input::Unknown { kind: kind.to_owned() }),
    }
}

/// Chat requests say what they are by their fields.
fn read_untyped(fields: &Map<String, Value>) -> Result<Input, InputError> {
    if fields.contains_key("input") {
        return chat_request::chat_request(fields).map(turn);
    }
    if fields.contains_key("messages") {
        return openai_request::openai_request(fields).map(turn);
    }
    Err(InputError::new("`type` is missing, and the line is no chat request (`input` or `messages`)"))
}

fn turn(turn: Turn) -> Input {
    Input::Turn(Box::new(turn))
}

fn hint(fields: &Map<String, Value>) -> Result<Hint, InputError> {
    let trigger = match text(fields, "trigger")?.as_deref() {
        Some("slash") => HintTrigger::Slash,
        Some("at") => HintTrigger::At,
        Some(other) => {
            return Err(InputError::new(format!("`trigger` is `{other}`; it can be `slash` or `at`")));
        }
        None => return Err(InputError::new("`trigger` is missing; it can be `slash` or `at`")),
    };
    let cursor = match fields.get("cursor") {
        None | Some(Value::Null) => None,
        Some(value) => match value.as_u64().and_then(|cursor| usize::try_from(cursor).ok()) {
            Some(cursor) => Some(cursor),
            None => return Err(InputError::new("`cursor` must be a count of 0 or more")),
        },
    };
    let context = fields.get("context");
    let cwd = context.and_then(|context| context.get("cwd")).and_then(Value::as_str);
    Ok(Hint {
        cwd: cwd.filter(|cwd| !cwd.is_empty()).map(str::to_owned),
        session_id: text(fields, "session_id")?,
        prompt_id: id(fields, "prompt_id")?,
        trigger,
        text: text(fields, "text")?.unwrap_or_default(),
        cursor,
    })
}

/// An optional string field; `null` is as good as absent.
pub(super) fn text(fields: &Map<String, Value>, key: &str) -> Result<Option<String>, InputError> {
    match fields.get(key) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text.clone())),
        Some(_) => Err(InputError::new(format!("`{key}` must be a string"))),
    }
}

/// Something that has a name, or has none: an empty name is neither.
pub(super) fn id(fields: &Map<String, Value>, key: &str) -> Result<Option<String>, InputError> {
    match text(fields, key)? {
        Some(id) if id.is_empty() => Err(InputError::new(format!("`{key}` is empty"))),
        id => Ok(id),
    }
}

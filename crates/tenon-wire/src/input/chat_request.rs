//! What is said to the model: a user message, or a chat request. Plain OpenAI requests are in `openai_request.rs`.

use serde_json::{Map, Value};
use tenon_core::Message;

use super::line::{InputError, id, text};
use super::options::{RequestOptions, options};
use super::parts::{InputPart, content_parts};
use super::tool_request;

/// One turn that a client asks for.
#[derive(Clone, Debug, Default)]
pub struct Turn {
    pub session: SessionRef,
    /// Answers to this turn carry it.
    pub prompt_id: Option<String>,
    pub origin: TurnOrigin,
    pub parts: Vec<InputPart>,
    /// What the client's own application tells the model ahead of `parts`. No command stands in it.
    pub preamble: Option<String>,
    /// A command that is declared rather than typed.
    pub command: Option<Command>,
    /// Calls that the client asks for itself; nothing else is asked then.
    pub calls: Vec<RequestedCall>,
    /// What was said before, where the client brings the whole conversation along.
    pub history: Vec<Message>,
    /// Goes on where the conversation stands; there is nothing new to say.
    pub continuation: bool,
    pub options: RequestOptions,
    pub asks: Asks,
    /// Why nobody can be asked this: its result.
    pub refused: Option<String>,
    /// The client's line that it came on, counted from 1, where whoever drives the session knows it.
    pub line: Option<u64>,
}

/// When the model is asked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Asks {
    #[default]
    Now,
    /// It is told with the next turn that asks.
    WithTheNext,
}

/// Whose conversation the turn belongs to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum SessionRef {
    /// The one there is.
    #[default]
    Current,
    New,
    /// A stored one is resumed.
    Id(String),
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum TurnOrigin {
    #[default]
    User,
    System,
    /// The answer to a call that the client carries out.
    ToolResponse {
        call_id: String,
    },
}

/// A call that a client wants to be made, as if the model had asked for it.
#[derive(Clone, Debug, PartialEq)]
pub struct RequestedCall {
    /// Its name from here on, if the client gives it one.
    pub call_id: Option<String>,
    pub tool: String,
    pub args: Map<String, Value>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Command {
    pub kind: CommandKind,
    pub path: Vec<String>,
    pub args: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommandKind {
    Slash,
    At,
    Help,
}

impl CommandKind {
    pub fn name(self) -> &'static str {
        match self {
            CommandKind::Slash => "slash",
            CommandKind::At => "at",
            CommandKind::Help => "help",
        }
    }
}

/// `{"type":"user","message":{"role":"user","content":…}}`
pub(super) fn user_message(fields: &Map<String, Value>) -> Result<Turn, InputError> {
    let Some(Value::Object(message)) = fields.get("message") else {
        return Err(InputError::new("a `user` line needs a `message` object"));
    };
    match text(message, "role")?.as_deref() {
        None | Some("user") => {}
        Some(other) => {
            let why = format!("`message.role` is `{other}`, and a `user` line says what a user says");
            return Err(InputError::new(why));
        }
    }
    let parts = match message.get("content") {
        Some(content) if !content.is_null() => content_parts(content)?,
        _ => return Err(InputError::new("`message` needs `content`: a string or blocks")),
    };
    let session = match text(fields, "session_id")?.as_deref() {
        // Clients of these dialects fill it with whatever they have: the one session is meant.
        Some("_new") => SessionRef::New,
        _ => SessionRef::Current,
    };
    // Nobody typed what a program put together: no command and no file name stands in it.
    let origin = match flag(fields, "client_composed")?.unwrap_or(false) {
        true => TurnOrigin::System,
        false => TurnOrigin::User,
    };
    let asks = match flag(fields, "shouldQuery")?.unwrap_or(true) {
        true => Asks::Now,
        false => Asks::WithTheNext,
    };
    Ok(Turn { session, prompt_id: id(fields, "prompt_id")?, origin, parts, asks, ..Turn::default() })
}

fn flag(fields: &Map<String, Value>, key: &str) -> Result<Option<bool>, InputError> {
    match fields.get(key) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::Bool(flag)) => Ok(Some(*flag)),
        Some(_) => Err(InputError::new(format!("`{key}` must be true or false"))),
    }
}

/// `{"session_id":…,"prompt_id":…,"input":{"origin":…,"parts":[…],"command":…},"options":{…}}`
pub(super) fn chat_request(fields: &Map<String, Value>) -> Result<Turn, InputError> {
    let Some(Value::Object(input)) = fields.get("input") else {
        return Err(InputError::new("`input` must be an object"));
    };
    let mut calls = Vec::new();
    let origin = match text(input, "origin")?.as_deref() {
        Some("tool_response") => {
            let call_id = tool_request::answered(fields, input)?;
            TurnOrigin::ToolResponse {
                call_id: call_id
                    .ok_or_else(|| InputError::new("`origin` `tool_response` needs a `tool_call_id`"))?,
            }
        }
        origin @ (None | Some("user" | "system")) => {
            calls = tool_request::requested(fields, input)?;
            if origin == Some("system") { TurnOrigin::System } else { TurnOrigin::User }
        }
        Some(other) => {
            return Err(InputError::new(format!(
                "`input.origin` is `{other}`; it can be `user`, `system` or `tool_response`"
            )));
        }
    };
    let parts = match input.get("parts") {
        None | Some(Value::Null) => Vec::new(),
        Some(parts) => content_parts(parts)?,
    };
    let session = match text(fields, "session_id")? {
        None => SessionRef::Current,
        Some(id) if id == "_new" => SessionRef::New,
        Some(id) if id.is_empty() => SessionRef::Current,
        Some(id) => SessionRef::Id(id),
    };
    let continuation = match fields.get("continuation") {
        None | Some(Value::Null) => false,
        Some(Value::Bool(continuation)) => *continuation,
        Some(_) => return Err(InputError::new("`continuation` must be true or false")),
    };
    let command = input.get("command").filter(|command| !command.is_null()).map(command).transpose()?;
    if !calls.is_empty() && (!parts.is_empty() || command.is_some() || continuation) {
        return Err(InputError::new(
            "a `tool_request` is a turn of its own: `parts`, a `command` and `continuation` belong in another",
        ));
    }
    if calls.is_empty() && parts.is_empty() && command.is_none() && !continuation {
        return Err(InputError::new("`input` has neither `parts` nor a `command`"));
    }
    Ok(Turn {
        session,
        prompt_id: id(fields, "prompt_id")?,
        origin,
        parts,
        command,
        calls,
        continuation,
        options: options(fields)?,
        ..Turn::default()
    })
}

fn command(value: &Value) -> Result<Command, InputError> {
    let Value::Object(fields) = value else {
        return Err(InputError::new("`input.command` must be an object"));
    };
    let kind = match text(fields, "kind")?.as_deref() {
        Some("slash") | None => CommandKind::Slash,
        Some("at") => CommandKind::At,
        Some("help" | "question") => CommandKind::Help,
        Some(other) => {
            return Err(InputError::new(format!(
                "`input.command.kind` is `{other}`; it can be `slash`, `at` or `help`"
            )));
        }
    };
    let path = match fields.get("path") {
        Some(Value::Array(names)) => names
            .iter()
            .map(|name| name.as_str().map(str::to_owned))
            .collect::<Option<Vec<String>>>()
            .ok_or_else(|| InputError::new("`input.command.path` must be a list of strings"))?,
        Some(Value::String(name)) => vec![name.clone()],
        None | Some(Value::Null) => Vec::new(),
        Some(_) => return Err(InputError::new("`input.command.path` must be a list of strings")),
    };
    if path.is_empty() && kind != CommandKind::Help {
        return Err(InputError::new("`input.command.path` is empty"));
    }
    Ok(Command { kind, path, args: text(fields, "args")?.unwrap_or_default() })
}

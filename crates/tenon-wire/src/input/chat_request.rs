//! What is said to the model: a user message, or a chat request. Plain OpenAI requests are in `openai_request.rs`.

use serde_json::{Map, Value};
use tenon_core::Message;

use super::line::{InputError, id, text};
use super::options::{RequestOptions, options};
use super::parts::{InputPart, content_parts};

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
    /// What was said before, where the client brings the whole conversation along.
    pub history: Vec<Message>,
    /// Goes on where the conversation stands; there is nothing new to say.
    pub continuation: bool,
    pub options: RequestOptions,
    /// The client's line that it came on, counted from 1, where whoever drives the session knows it.
    pub line: Option<u64>,
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
    Ok(Turn { session, prompt_id: id(fields, "prompt_id")?, parts, ..Turn::default() })
}

/// `{"session_id":…,"prompt_id":…,"input":{"origin":…,"parts":[…],"command":…},"options":{…}}`
pub(super) fn chat_request(fields: &Map<String, Value>) -> Result<Turn, InputError> {
    let Some(Value::Object(input)) = fields.get("input") else {
        return Err(InputError::new("`input` must be an object"));
    };
    let tool_call_id = answered_call(fields, input)?;
    let origin = match (text(input, "origin")?.as_deref(), tool_call_id) {
        (None | Some("user"), None) => TurnOrigin::User,
        (Some("system"), None) => TurnOrigin::System,
        (Some("tool_response"), Some(call_id)) => TurnOrigin::ToolResponse { call_id },
        (Some("tool_response"), None) => {
            return Err(InputError::new("`origin` `tool_response` needs a `tool_call_id`"));
        }
        (None | Some("user" | "system"), Some(_)) => {
            return Err(InputError::new(
                "`tool_call_id` and `tool_request` answer a call of the model's: they need the `origin` \
                 `tool_response`",
            ));
        }
        (Some(other), _) => {
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
    if parts.is_empty() && command.is_none() && !continuation {
        return Err(InputError::new("`input` has neither `parts` nor a `command`"));
    }
    Ok(Turn {
        session,
        prompt_id: id(fields, "prompt_id")?,
        origin,
        parts,
        command,
        continuation,
        options: options(fields)?,
        ..Turn::default()
    })
}

/// The call that is answered: named, or quoted as the request it was.
fn answered_call(
    fields: &Map<String, Value>,
    input: &Map<String, Value>,
) -> Result<Option<String>, InputError> {
    let mut named = Vec::new();
    for holder in [fields, input] {
        named.extend(id(holder, "tool_call_id")?);
        match holder.get("tool_request") {
            None | Some(Value::Null) => {}
            Some(Value::Object(request)) => {
                let (snake, camel) = (id(request, "call_id")?, id(request, "callId")?);
                let quoted = snake.or(camel);
                named.push(
                    quoted.ok_or_else(|| InputError::new("`tool_request` needs the `call_id` it answers"))?,
                );
            }
            Some(_) => return Err(InputError::new("`tool_request` must be an object")),
        }
    }
    let call_id = named.first().cloned();
    match named.into_iter().find(|other| Some(other) != call_id.as_ref()) {
        None => Ok(call_id),
        Some(other) => {
            let first = call_id.unwrap_or_default();
            Err(InputError::new(format!("the line answers both the call `{first}` and the call `{other}`")))
        }
    }
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

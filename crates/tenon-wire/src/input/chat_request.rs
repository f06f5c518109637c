//! What is said to the model: a user message, the seed's chat request, or a plain OpenAI request.

use serde_json::{Map, Value};
use tenon_core::{Media, Message, Part, Role, ToolCall, ToolResult};

use super::line::{InputError, text};
use super::options::{RequestOptions, options};

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
    pub protocol_version: Option<String>,
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

#[derive(Clone, Debug, PartialEq)]
pub enum InputPart {
    Text(String),
    File(FileData),
    /// What a tool of the client's answered.
    FunctionResponse {
        name: Option<String>,
        response: Value,
    },
}

/// A file by its address, or its content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FileData {
    Path { path: String, mime: Option<String> },
    Inline { data: String, mime: String },
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
    let parts = match message.get("content") {
        Some(content) => content_parts(content)?,
        None => return Err(InputError::new("`message` needs `content`: a string or blocks")),
    };
    let session = match text(fields, "session_id")?.as_deref() {
        // Clients of these dialects fill it with whatever they have: the one session is meant.
        Some("_new") => SessionRef::New,
        _ => SessionRef::Current,
    };
    Ok(Turn { session, prompt_id: text(fields, "prompt_id")?, parts, ..Turn::default() })
}

/// `{"session_id":…,"prompt_id":…,"input":{"origin":…,"parts":[…],"command":…},"options":{…}}`
pub(super) fn chat_request(fields: &Map<String, Value>) -> Result<Turn, InputError> {
    let Some(Value::Object(input)) = fields.get("input") else {
        return Err(InputError::new("`input` must be an object"));
    };
    let tool_call_id = answered_call(fields, input)?;
    let origin = match (text(input, "origin")?.as_deref(), tool_call_id) {
        (None | Some("user"), _) => TurnOrigin::User,
        (Some("system"), _) => TurnOrigin::System,
        (Some("tool_response"), Some(call_id)) => TurnOrigin::ToolResponse { call_id },
        (Some("tool_response"), None) => {
            return Err(InputError::new("`origin` `tool_response` needs a `tool_call_id`"));
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
        prompt_id: text(fields, "prompt_id")?,
        origin,
        parts,
        command,
        continuation,
        options: options(fields)?,
        protocol_version: protocol_version(fields)?,
        ..Turn::default()
    })
}

/// `{"model":…,"messages":[…]}`: the last message is asked, the ones before it are the conversation.
pub(super) fn openai_request(fields: &Map<String, Value>) -> Result<Turn, InputError> {
    let Some(Value::Array(messages)) = fields.get("messages") else {
        return Err(InputError::new("`messages` must be a list"));
    };
    let mut history: Vec<Message> = Vec::new();
    let mut system = Vec::new();
    // What a user said last, until something follows it.
    let mut asked: Option<Vec<InputPart>> = None;
    for (at, message) in messages.iter().enumerate() {
        let place = |error: InputError| InputError::new(format!("`messages[{at}]`: {error}"));
        let Value::Object(message) = message else {
            return Err(place(InputError::new("a message must be an object")));
        };
        let role = text(message, "role").map_err(place)?;
        if !matches!(role.as_deref(), Some("system" | "developer"))
            && let Some(earlier) = asked.take()
        {
            history.push(said_before(earlier).map_err(place)?);
        }
        match role.as_deref() {
            Some("system" | "developer") => system.extend(content_parts(content(message)).map_err(place)?),
            Some("user") => asked = Some(content_parts(content(message)).map_err(place)?),
            Some("assistant") => history.push(assistant(message).map_err(place)?),
            Some("tool") => {
                let result = tool_result(message).map_err(place)?;
                match history.last_mut().filter(|last| is_results(last)) {
                    Some(last) => last.parts.push(result),
                    None => history.push(Message { role: Role::User, parts: vec![result] }),
                }
            }
            Some(other) => return Err(place(InputError::new(format!("there is no role `{other}`")))),
            None => return Err(place(InputError::new("`role` is missing"))),
        }
    }
    let Some(asked) = asked else {
        return Err(InputError::new("the last of `messages` must be a user's"));
    };
    let mut parts = asked;
    let mut told = Vec::new();
    for part in system {
        match part {
            InputPart::Text(text) if text.trim().is_empty() => {}
            InputPart::Text(text) => told.push(text),
            other => parts.push(other),
        }
    }
    Ok(Turn {
        preamble: (!told.is_empty()).then(|| told.join("\n\n")),
        session: if history.is_empty() { SessionRef::Current } else { SessionRef::New },
        parts,
        history,
        options: options(fields)?,
        protocol_version: protocol_version(fields)?,
        ..Turn::default()
    })
}

/// What a user said in an earlier turn, as the model is shown it again.
fn said_before(parts: Vec<InputPart>) -> Result<Message, InputError> {
    let parts = parts.into_iter().map(|part| match part {
        InputPart::Text(text) => Ok(Part::Text { text }),
        InputPart::File(FileData::Inline { data, mime }) => {
            Ok(Part::Media(Media { mime, data: data.into() }))
        }
        InputPart::File(FileData::Path { path, .. }) => {
            Err(InputError::new(format!("`{path}`: a file by its path can only be in the last message")))
        }
        InputPart::FunctionResponse { .. } => {
            Err(InputError::new("what a function answered belongs into a message with the role `tool`"))
        }
    });
    Ok(Message { role: Role::User, parts: parts.collect::<Result<_, _>>()? })
}

/// The call that is answered: named, or quoted as the request it was.
fn answered_call(
    fields: &Map<String, Value>,
    input: &Map<String, Value>,
) -> Result<Option<String>, InputError> {
    for holder in [fields, input] {
        if let Some(id) = text(holder, "tool_call_id")? {
            return Ok(Some(id));
        }
        match holder.get("tool_request") {
            None | Some(Value::Null) => {}
            Some(Value::Object(request)) => {
                let id = match text(request, "call_id")? {
                    Some(id) => Some(id),
                    None => text(request, "callId")?,
                };
                return match id {
                    Some(id) => Ok(Some(id)),
                    None => Err(InputError::new("`tool_request` needs the `call_id` it answers")),
                };
            }
            Some(_) => return Err(InputError::new("`tool_request` must be an object")),
        }
    }
    Ok(None)
}

fn content(message: &Map<String, Value>) -> &Value {
    message.get("content").unwrap_or(&Value::Null)
}

fn is_results(message: &Message) -> bool {
    message.parts.iter().any(|part| matches!(part, Part::ToolResult(_)))
}

fn assistant(message: &Map<String, Value>) -> Result<Message, InputError> {
    let said = plain(&content_parts(content(message))?);
    let mut parts = Vec::new();
    if !said.is_empty() {
        parts.push(Part::Text { text: said });
    }
    if let Some(Value::Array(calls)) = message.get("tool_calls") {
        for call in calls {
            let function = &call["function"];
            let (Some(id), Some(name)) = (call["id"].as_str(), function["name"].as_str()) else {
                return Err(InputError::new("a tool call needs `id` and `function.name`"));
            };
            parts.push(Part::ToolCall(ToolCall {
                id: id.to_owned(),
                name: name.to_owned(),
                arguments: function["arguments"].as_str().unwrap_or_default().to_owned(),
                terminal: false,
                native: None,
            }));
        }
    }
    Ok(Message { role: Role::Assistant, parts })
}

fn tool_result(message: &Map<String, Value>) -> Result<Part, InputError> {
    let Some(call_id) = text(message, "tool_call_id")? else {
        return Err(InputError::new("a `tool` message needs `tool_call_id`"));
    };
    Ok(Part::ToolResult(ToolResult {
        call_id,
        name: text(message, "name")?.unwrap_or_default(),
        content: plain(&content_parts(content(message))?),
        is_error: false,
        stored: None,
        media: Vec::new(),
    }))
}

/// The texts, a line each.
fn plain(parts: &[InputPart]) -> String {
    let texts = parts.iter().filter_map(|part| match part {
        InputPart::Text(text) => Some(text.as_str()),
        InputPart::File(_) | InputPart::FunctionResponse { .. } => None,
    });
    texts.collect::<Vec<_>>().join("\n")
}

/// A string, or a list of blocks in any of the shapes that clients send.
fn content_parts(content: &Value) -> Result<Vec<InputPart>, InputError> {
    match content {
        Value::Null => Ok(Vec::new()),
        Value::String(text) => Ok(vec![InputPart::Text(text.clone())]),
        Value::Array(blocks) => blocks.iter().map(block).collect(),
        _ => Err(InputError::new("content must be a string or a list of blocks")),
    }
}

fn block(block: &Value) -> Result<InputPart, InputError> {
    let fields = match block {
        Value::String(text) => return Ok(InputPart::Text(text.clone())),
        Value::Object(fields) => fields,
        _ => return Err(InputError::new("a block must be an object or a string")),
    };
    let kind = text(fields, "type")?;
    match kind.as_deref() {
        Some("text" | "input_text") => match text(fields, "text")? {
            Some(text) => Ok(InputPart::Text(text)),
            None => Err(InputError::new("a `text` block needs `text`")),
        },
        None if fields.contains_key("text") => Ok(InputPart::Text(text(fields, "text")?.unwrap_or_default())),
        Some("function_response") => function_response(fields),
        Some("file_data") => file_data(fields),
        Some("image") => anthropic_image(fields),
        Some("image_url") => image_url(fields),
        _ => match (fields.get("function_response"), fields.get("file_data").or(fields.get("inline_data"))) {
            (Some(Value::Object(inner)), _) => function_response(inner),
            (_, Some(Value::Object(inner))) => file_data(inner),
            _ => Err(InputError::new(format!(
                "blocks of type `{}` are not understood; `text`, `image`, `image_url`, `file_data` and \
                 `function_response` are",
                kind.unwrap_or_default()
            ))),
        },
    }
}

fn function_response(fields: &Map<String, Value>) -> Result<InputPart, InputError> {
    let inner = match fields.get("function_response") {
        Some(Value::Object(inner)) => inner,
        _ => fields,
    };
    let response = inner.get("response").or(inner.get("output")).or(inner.get("content"));
    let Some(response) = response.cloned() else {
        return Err(InputError::new("a `function_response` needs `response`"));
    };
    Ok(InputPart::FunctionResponse { name: text(inner, "name")?, response })
}

fn file_data(fields: &Map<String, Value>) -> Result<InputPart, InputError> {
    let inner = match fields.get("file_data") {
        Some(Value::Object(inner)) => inner,
        _ => fields,
    };
    let get = |snake: &str, camel: &str| {
        text(inner, snake).and_then(|found| match found {
            Some(found) => Ok(Some(found)),
            None => text(inner, camel),
        })
    };
    let mime = get("mime_type", "mimeType")?;
    if let Some(data) = text(inner, "data")? {
        let mime = mime.ok_or_else(|| InputError::new("inline `data` needs `mime_type`"))?;
        return Ok(InputPart::File(FileData::Inline { data, mime }));
    }
    let uri = match get("file_uri", "fileUri")? {
        Some(uri) => Some(uri),
        None => text(inner, "path")?,
    };
    match uri {
        Some(uri) if uri.contains("://") && !uri.starts_with("file://") => Err(InputError::new(format!(
            "`{uri}`: only files of this machine can be given (`file://` or a path)"
        ))),
        Some(uri) => {
            let path = uri.strip_prefix("file://").unwrap_or(&uri).to_owned();
            Ok(InputPart::File(FileData::Path { path, mime }))
        }
        None => Err(InputError::new("`file_data` needs `file_uri`, `path` or `data`")),
    }
}

fn anthropic_image(fields: &Map<String, Value>) -> Result<InputPart, InputError> {
    let source = &fields.get("source").cloned().unwrap_or_default();
    match (source["type"].as_str(), source["data"].as_str(), source["media_type"].as_str()) {
        (Some("base64"), Some(data), Some(mime)) => {
            Ok(InputPart::File(FileData::Inline { data: data.to_owned(), mime: mime.to_owned() }))
        }
        _ => Err(InputError::new("an `image` block needs a `source` of type `base64`")),
    }
}

fn image_url(fields: &Map<String, Value>) -> Result<InputPart, InputError> {
    let image = fields.get("image_url").cloned().unwrap_or_default();
    let url = image.as_str().or_else(|| image["url"].as_str()).unwrap_or_default();
    let inline = url.strip_prefix("data:").and_then(|rest| rest.split_once(";base64,"));
    match inline {
        Some((mime, data)) => {
            Ok(InputPart::File(FileData::Inline { data: data.to_owned(), mime: mime.to_owned() }))
        }
        None => Err(InputError::new("an `image_url` must be a `data:` address with base64 content")),
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

/// Top-level, or in `metadata`; a number or a text.
fn protocol_version(fields: &Map<String, Value>) -> Result<Option<String>, InputError> {
    let of_metadata = fields.get("metadata").and_then(|metadata| metadata.get("protocol_version"));
    match fields.get("protocol_version").or(of_metadata) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(version)) => Ok(Some(version.clone())),
        Some(Value::Number(version)) => Ok(Some(version.to_string())),
        Some(_) => Err(InputError::new("`protocol_version` must be a number or a string")),
    }
}

//! A plain request to chat completions: `{"model", "messages"}`. What it asks for is done, or it is refused: a field that
//! would change the answer and is not understood here would be a promise that nobody keeps.

use serde_json::{Map, Value};
use tenon_core::{Media, Message, Part, Role, ToolCall, ToolResult};

use super::chat_request::{SessionRef, Turn};
use super::line::{InputError, id, text};
use super::options::{self, options};
use super::parts::{FileData, InputPart, content_parts};

/// What a request may have, besides what is said about the answer (`options.rs`).
const KNOWN: [&str; 7] = ["messages", "options", "prompt_id", "protocol_version", "metadata", "n", "stream"];

/// `{"model":…,"messages":[…]}`: the last message is asked, the ones before it are the conversation.
pub(super) fn openai_request(fields: &Map<String, Value>) -> Result<Turn, InputError> {
    only_known(fields)?;
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
    answered(&history)?;
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
        prompt_id: id(fields, "prompt_id")?,
        options: options(fields)?,
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

/// Fields that ask for what is not done are an error, and so are those that nobody knows.
fn only_known(fields: &Map<String, Value>) -> Result<(), InputError> {
    for (name, value) in fields.iter().filter(|(_, value)| !value.is_null()) {
        match name.as_str() {
            "n" if value.as_u64() != Some(1) => {
                return Err(InputError::new("`n`: there is one answer to a request"));
            }
            "stream" if value != &Value::Bool(false) => {
                return Err(InputError::new(
                    "`stream`: how answers are written is said with `--output-format` (`stream-chunk-json` writes \
                     pieces)",
                ));
            }
            "response_format" => {
                return Err(InputError::new(
                    "`response_format` cannot be honoured: `--json-schema` is the contract of a run",
                ));
            }
            "tools" | "tool_choice" | "functions" | "function_call" => {
                return Err(InputError::new(format!(
                    "`{name}` cannot be honoured: tools of a client are MCP servers in its process (`initialize`)"
                )));
            }
            name if KNOWN.contains(&name) || options::NAMES.contains(&name) => {}
            name => {
                return Err(InputError::new(format!(
                    "`{name}` is not understood in a request with `messages`"
                )));
            }
        }
    }
    Ok(())
}

/// Every call is followed by its answer, before anything else is said, and every answer has its call.
fn answered(history: &[Message]) -> Result<(), InputError> {
    let mut open: Vec<&str> = Vec::new();
    for message in history {
        for part in &message.parts {
            if let Part::ToolResult(result) = part {
                let Some(at) = open.iter().position(|call| *call == result.call_id) else {
                    return Err(InputError::new(format!(
                        "`messages` answer the call `{}`, and no call before has this id",
                        result.call_id
                    )));
                };
                open.remove(at);
            }
        }
        if let Some(call) = open.first() {
            return Err(unanswered(call));
        }
        open.extend(message.tool_calls().map(|call| call.id.as_str()));
    }
    open.first().map_or(Ok(()), |call| Err(unanswered(call)))
}

fn unanswered(call: &str) -> InputError {
    InputError::new(format!("the call `{call}` in `messages` has no answer: a message with the role `tool`"))
}

fn content(message: &Map<String, Value>) -> &Value {
    message.get("content").unwrap_or(&Value::Null)
}

fn is_results(message: &Message) -> bool {
    message.parts.iter().any(|part| matches!(part, Part::ToolResult(_)))
}

fn assistant(message: &Map<String, Value>) -> Result<Message, InputError> {
    let said = words(message)?;
    let mut parts = Vec::new();
    if !said.is_empty() {
        parts.push(Part::Text { text: said });
    }
    if message.get("function_call").is_some_and(|call| !call.is_null()) {
        return Err(InputError::new("`function_call` is not understood; `tool_calls` are"));
    }
    match message.get("tool_calls") {
        None | Some(Value::Null) => {}
        Some(Value::Array(calls)) => {
            for call in calls {
                parts.push(made_call(call)?);
            }
        }
        Some(_) => return Err(InputError::new("`tool_calls` must be a list")),
    }
    Ok(Message { role: Role::Assistant, parts })
}

fn made_call(call: &Value) -> Result<Part, InputError> {
    let function = &call["function"];
    let filled = |value: &Value| value.as_str().filter(|text| !text.is_empty()).map(str::to_owned);
    let (Some(id), Some(name)) = (filled(&call["id"]), filled(&function["name"])) else {
        return Err(InputError::new("a tool call needs `id` and `function.name`"));
    };
    let arguments = match &function["arguments"] {
        Value::Null => String::new(),
        Value::String(arguments) => arguments.clone(),
        _ => return Err(InputError::new("`function.arguments` must be a string")),
    };
    Ok(Part::ToolCall(ToolCall { id, name, arguments, terminal: false, native: None }))
}

fn tool_result(message: &Map<String, Value>) -> Result<Part, InputError> {
    let Some(call_id) = id(message, "tool_call_id")? else {
        return Err(InputError::new("a `tool` message needs `tool_call_id`"));
    };
    Ok(Part::ToolResult(ToolResult {
        call_id,
        name: text(message, "name")?.unwrap_or_default(),
        content: words(message)?,
        is_error: false,
        stored: None,
        media: Vec::new(),
    }))
}

/// The texts, a line each.
fn words(message: &Map<String, Value>) -> Result<String, InputError> {
    let texts = content_parts(content(message))?.into_iter().map(|part| match part {
        InputPart::Text(text) => Ok(text),
        InputPart::File(_) | InputPart::FunctionResponse { .. } => {
            Err(InputError::new("only what a user says can be more than text"))
        }
    });
    Ok(texts.collect::<Result<Vec<String>, InputError>>()?.join("\n"))
}

//! Calls in a chat request: one of the model's that the client answers, or calls that the client asks for itself. Which of
//! the two it is, the `origin` says (`chat_request.rs`).

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::chat_request::RequestedCall;
use super::line::{InputError, id};

/// The call that is answered: named, or quoted as the request it was.
pub(super) fn answered(
    fields: &Map<String, Value>,
    input: &Map<String, Value>,
) -> Result<Option<String>, InputError> {
    let mut named = Vec::new();
    for holder in [fields, input] {
        named.extend(id(holder, "tool_call_id")?);
        match holder.get("tool_request") {
            None | Some(Value::Null) => {}
            Some(Value::Object(request)) => {
                let quoted = read(request)?.call_id;
                named.push(
                    quoted.ok_or_else(|| InputError::new("`tool_request` needs the `call_id` it answers"))?,
                );
            }
            Some(_) => return Err(InputError::new("a `tool_request` that is answered must be an object")),
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

/// The calls that the client asks for.
pub(super) fn requested(
    fields: &Map<String, Value>,
    input: &Map<String, Value>,
) -> Result<Vec<RequestedCall>, InputError> {
    let mut requests: Option<Vec<RequestedCall>> = None;
    for holder in [fields, input] {
        if id(holder, "tool_call_id")?.is_some() {
            return Err(InputError::new(
                "a `tool_call_id` answers a call of the model's: it needs the `origin` `tool_response`",
            ));
        }
        let calls = match holder.get("tool_request") {
            None | Some(Value::Null) => continue,
            Some(Value::Object(request)) => vec![call(request)?],
            Some(Value::Array(requests)) if !requests.is_empty() => {
                requests.iter().map(member).collect::<Result<_, InputError>>()?
            }
            Some(_) => {
                return Err(InputError::new("`tool_request` must be an object or a list of objects"));
            }
        };
        if requests.replace(calls).is_some() {
            return Err(InputError::new("`tool_request` stands twice in the line"));
        }
    }
    let calls = requests.unwrap_or_default();
    let mut ids = BTreeSet::new();
    for id in calls.iter().filter_map(|call| call.call_id.as_deref()) {
        if !ids.insert(id) {
            return Err(InputError::new(format!("`{id}`: two calls of a `tool_request` have this id")));
        }
    }
    Ok(calls)
}

fn member(request: &Value) -> Result<RequestedCall, InputError> {
    match request {
        Value::Object(request) => call(request),
        _ => Err(InputError::new("`tool_request` must be an object or a list of objects")),
    }
}

fn call(request: &Map<String, Value>) -> Result<RequestedCall, InputError> {
    let Quoted { call_id, tool, args } = read(request)?;
    let tool = tool.ok_or_else(|| {
        InputError::new(
            "a `tool_request` needs the `name` of a tool; to answer a call of the model's, the `origin` must be \
             `tool_response`",
        )
    })?;
    Ok(RequestedCall { call_id, tool, args })
}

struct Quoted {
    call_id: Option<String>,
    tool: Option<String>,
    args: Map<String, Value>,
}

fn read(request: &Map<String, Value>) -> Result<Quoted, InputError> {
    let (snake, camel) = (id(request, "call_id")?, id(request, "callId")?);
    let args = match request.get("args") {
        None | Some(Value::Null) => Map::new(),
        Some(Value::Object(args)) => args.clone(),
        Some(_) => return Err(InputError::new("`args` of a `tool_request` must be an object")),
    };
    Ok(Quoted { call_id: snake.or(camel), tool: id(request, "name")?, args })
}

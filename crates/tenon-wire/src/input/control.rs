//! What a client asks of tenon itself, and what it answers to our own requests.
//!
//! Two envelopes are understood: `{"request_id", "request": {"subtype", …}}`, and the flat one with
//! `subtype` beside `request_id`. In both the details stand beside `subtype`, or all of them in a `payload`.

use serde_json::{Map, Value};
use tenon_core::ApprovalMode;

use super::line::{Input, InputError, id, text};

/// What may stand beside a `payload`: none of it is a detail of the request.
pub(super) const BESIDE_PAYLOAD: [&str; 8] =
    ["type", "request_id", "subtype", "payload", "session_id", "prompt_id", "metadata", "protocol_version"];

/// A control request, read.
#[derive(Clone, Debug, PartialEq)]
pub enum ControlRequest {
    Initialize(Box<Initialize>),
    Interrupt,
    ContinueLastTurn,
    SetModel {
        /// `None` is the one that the session began with.
        model: Option<String>,
    },
    SetPermissionMode {
        mode: ApprovalMode,
    },
    SetEffort {
        effort: String,
    },
    SupportedCommands,
    GetContextUsage,
    GetAvailableModels,
    GetUsageInfo,
    McpStatus,
    McpReconnect {
        server: String,
    },
    McpToggle {
        server: String,
        enabled: bool,
    },
    StopTask {
        task_id: String,
    },
    /// A foreground command goes on in the background.
    PromoteTask {
        call_id: String,
    },
    /// A subtype that is known to nobody here.
    Unknown {
        subtype: String,
    },
}

/// How the client wants the session.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Initialize {
    pub hooks: Vec<ClientHook>,
    /// Servers that live in the client's process.
    pub client_mcp_servers: Vec<String>,
    /// Servers of their own, as in the settings.
    pub mcp_servers: Map<String, Value>,
    /// Sub-agents that the client defines, as it wrote them.
    pub agents: Vec<Value>,
    pub timeouts: ClientTimeouts,
    pub effort: Option<String>,
    /// The system prompt, as with the flags.
    pub system_prompt: Option<String>,
    pub append_system_prompt: Option<String>,
    /// What else it asks for and nothing here can do.
    pub ignored: Vec<&'static str>,
}

/// How long we may wait for the client, in milliseconds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClientTimeouts {
    pub can_use_tool: Option<u64>,
    /// For hooks that name none of their own.
    pub hook_callback: Option<u64>,
    pub mcp_message: Option<u64>,
    /// Names that say nothing to us.
    pub unknown: Vec<String>,
}

/// A hook that is called back over the control channel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientHook {
    /// Such as `PreToolUse`.
    pub event: String,
    pub matcher: Option<String>,
    pub callback_ids: Vec<String>,
    pub timeout_secs: Option<u64>,
}

pub(super) fn request(fields: &Map<String, Value>) -> Result<Input, InputError> {
    let Some(id) = id(fields, "request_id")? else {
        return Err(InputError::new("a `control_request` needs a `request_id`"));
    };
    let inner = match fields.get("request") {
        Some(Value::Object(inner)) => inner,
        None => fields,
        Some(_) => return Err(InputError::new("`request` must be an object")),
    };
    let Some(subtype) = text(inner, "subtype")? else {
        return Err(InputError::new("a `control_request` needs a `subtype`"));
    };
    let details = match inner.get("payload") {
        Some(Value::Object(payload)) => {
            if let Some(name) = inner.keys().find(|name| !BESIDE_PAYLOAD.contains(&name.as_str())) {
                let why = format!("`{name}` stands beside a `payload`, which has all the details");
                return Err(InputError::new(why));
            }
            payload
        }
        None | Some(Value::Null) => inner,
        Some(_) => return Err(InputError::new("`payload` must be an object")),
    };
    Ok(Input::ControlRequest { id, request: Box::new(of_subtype(&subtype, details)?) })
}

fn of_subtype(subtype: &str, fields: &Map<String, Value>) -> Result<ControlRequest, InputError> {
    Ok(match subtype {
        "initialize" => ControlRequest::Initialize(Box::new(initialize(fields)?)),
        "interrupt" => ControlRequest::Interrupt,
        "continue_last_turn" => ControlRequest::ContinueLastTurn,
        "set_model" => match text(fields, "model")? {
            Some(model) if model.trim().is_empty() => {
                return Err(InputError::new("`set_model` needs a `model`"));
            }
            model => ControlRequest::SetModel { model },
        },
        "set_permission_mode" => {
            let mode = needed(fields, &["mode"])?;
            let mode = ApprovalMode::parse(&mode).map_err(|error| InputError::new(error.to_string()))?;
            ControlRequest::SetPermissionMode { mode }
        }
        "set_effort" => ControlRequest::SetEffort { effort: needed(fields, &["effort"])? },
        "supported_commands" => ControlRequest::SupportedCommands,
        "get_context_usage" => ControlRequest::GetContextUsage,
        "get_available_models" => ControlRequest::GetAvailableModels,
        "get_usage_info" => ControlRequest::GetUsageInfo,
        "mcp_server_status" | "mcp_status" => ControlRequest::McpStatus,
        "mcp_reconnect" => {
            ControlRequest::McpReconnect { server: needed(fields, &["serverName", "server_name"])? }
        }
        "mcp_toggle" => ControlRequest::McpToggle {
            server: needed(fields, &["serverName", "server_name"])?,
            enabled: match fields.get("enabled") {
                Some(Value::Bool(enabled)) => *enabled,
                _ => return Err(InputError::new("`mcp_toggle` needs `enabled`: true or false")),
            },
        },
        "stop_task" => ControlRequest::StopTask { task_id: needed(fields, &["task_id"])? },
        "promote_task" | "promote_to_background" => {
            ControlRequest::PromoteTask { call_id: needed(fields, &["tool_use_id", "call_id"])? }
        }
        other => ControlRequest::Unknown { subtype: other.to_owned() },
    })
}

/// The first of these names that has a value.
fn needed(fields: &Map<String, Value>, names: &[&str]) -> Result<String, InputError> {
    let mut found = None;
    for name in names {
        found = found.or(id(fields, name)?);
    }
    found.ok_or_else(|| InputError::new(format!("`{}` is missing", names[0])))
}

fn initialize(fields: &Map<String, Value>) -> Result<Initialize, InputError> {
    let client_mcp_servers = match fields.get("sdkMcpServers") {
        None | Some(Value::Null) => Vec::new(),
        Some(Value::Object(servers)) => servers.keys().cloned().collect(),
        Some(Value::Array(names)) => strings(names, "sdkMcpServers")?,
        Some(_) => return Err(InputError::new("`sdkMcpServers` must be an object or a list")),
    };
    let mcp_servers = match fields.get("mcpServers") {
        None | Some(Value::Null) => Map::new(),
        Some(Value::Object(servers)) => servers.clone(),
        Some(_) => return Err(InputError::new("`mcpServers` must be an object")),
    };
    let agents = match fields.get("agents") {
        None | Some(Value::Null) => Vec::new(),
        Some(Value::Array(agents)) if agents.iter().all(Value::is_object) => agents.clone(),
        Some(Value::Object(by_name)) if by_name.values().all(Value::is_object) => by_name
            .iter()
            .map(|(name, agent)| {
                let mut agent = agent.as_object().cloned().unwrap_or_default();
                agent.insert("name".to_owned(), Value::String(name.clone()));
                Value::Object(agent)
            })
            .collect(),
        Some(Value::Array(_) | Value::Object(_)) => {
            return Err(InputError::new("each of `agents` must be an object"));
        }
        Some(_) => return Err(InputError::new("`agents` must be a list or an object")),
    };
    Ok(Initialize {
        hooks: hooks(fields.get("hooks"))?,
        client_mcp_servers,
        mcp_servers,
        agents,
        timeouts: timeouts(fields.get("timeout"))?,
        effort: text(fields, "effort")?,
        system_prompt: system_prompt(fields.get("systemPrompt"))?,
        append_system_prompt: text(fields, "appendSystemPrompt")?,
        ignored: IGNORED.into_iter().filter(|name| is_asked_for(fields.get(*name))).collect(),
    })
}

/// `{"canUseTool": 60000, "hookCallback": 5000, "mcpMessage": 30000}`
fn timeouts(value: Option<&Value>) -> Result<ClientTimeouts, InputError> {
    let given = match value {
        None | Some(Value::Null) => return Ok(ClientTimeouts::default()),
        Some(Value::Object(given)) => given,
        Some(_) => return Err(InputError::new("`timeout` must be an object")),
    };
    let mut timeouts = ClientTimeouts::default();
    for (name, value) in given {
        let place = match name.as_str() {
            "canUseTool" => &mut timeouts.can_use_tool,
            "hookCallback" => &mut timeouts.hook_callback,
            // Its other name is what an SDK calls the same wait in its own options.
            "mcpMessage" | "mcpRequest" => &mut timeouts.mcp_message,
            // How long the client itself waits for us.
            "controlRequest" | "streamClose" => continue,
            _ => {
                timeouts.unknown.push(name.clone());
                continue;
            }
        };
        if !value.is_null() {
            let ms = value.as_u64().ok_or_else(|| {
                InputError::new(format!("`timeout.{name}` must be a whole number of milliseconds"))
            })?;
            *place = Some(ms);
        }
    }
    Ok(timeouts)
}

/// Fields of `initialize` that ask for what there is not. What they leave out of a prompt or a listing is not a guard.
const IGNORED: [&str; 6] =
    ["planModeInstructions", "toolAliases", "title", "skills", "promptSuggestions", "agentProgressSummaries"];
/// A mark between the parts of a system prompt that change and those that do not; no part of it.
const PROMPT_BOUNDARY: &str = "__SYSTEM_PROMPT_DYNAMIC_BOUNDARY__";

fn is_asked_for(value: Option<&Value>) -> bool {
    !matches!(value, None | Some(Value::Null | Value::Bool(false)))
}

/// A text, or several that follow each other.
fn system_prompt(value: Option<&Value>) -> Result<Option<String>, InputError> {
    match value {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text.clone())),
        Some(Value::Array(texts)) => {
            let mut texts = strings(texts, "systemPrompt")?;
            texts.retain(|text| text != PROMPT_BOUNDARY);
            Ok(Some(texts.join("\n\n")))
        }
        Some(_) => Err(InputError::new("`systemPrompt` must be a string or a list of strings")),
    }
}

fn strings(values: &[Value], name: &str) -> Result<Vec<String>, InputError> {
    let strings: Option<Vec<String>> = values.iter().map(|value| value.as_str().map(str::to_owned)).collect();
    strings.ok_or_else(|| InputError::new(format!("`{name}` must be a list of strings")))
}

/// `{"PreToolUse": [{"matcher": "…", "hookCallbackIds": ["h0"], "timeout": 60}]}`
fn hooks(value: Option<&Value>) -> Result<Vec<ClientHook>, InputError> {
    let by_event = match value {
        None | Some(Value::Null) => return Ok(Vec::new()),
        Some(Value::Object(by_event)) => by_event,
        Some(_) => return Err(InputError::new("`hooks` must be an object")),
    };
    let mut hooks = Vec::new();
    for (event, entries) in by_event {
        let Value::Array(entries) = entries else {
            return Err(InputError::new(format!("`hooks.{event}` must be a list")));
        };
        for entry in entries {
            hooks.push(hook(event, entry)?);
        }
    }
    Ok(hooks)
}

fn hook(event: &str, entry: &Value) -> Result<ClientHook, InputError> {
    let Value::Object(entry) = entry else {
        return Err(InputError::new(format!("an entry of `hooks.{event}` must be an object")));
    };
    let Some(Value::Array(ids)) = entry.get("hookCallbackIds") else {
        return Err(InputError::new(format!("an entry of `hooks.{event}` needs `hookCallbackIds`")));
    };
    let timeout_secs = match entry.get("timeout") {
        None | Some(Value::Null) => None,
        Some(secs) => match secs.as_f64().filter(|secs| *secs >= 0.0) {
            // 0 is none of its own: the one there is for all.
            Some(secs) => Some(secs.ceil() as u64).filter(|secs| *secs > 0),
            None => {
                return Err(InputError::new(format!(
                    "a `timeout` in `hooks.{event}` must be a number of seconds from 0"
                )));
            }
        },
    };
    Ok(ClientHook {
        event: event.to_owned(),
        matcher: text(entry, "matcher")?,
        callback_ids: strings(ids, "hookCallbackIds")?,
        timeout_secs,
    })
}

pub(super) fn response(fields: &Map<String, Value>) -> Result<Input, InputError> {
    let Some(Value::Object(response)) = fields.get("response") else {
        let wrong = "a `control_response` needs a `response` object";
        // Whoever asked need not wait for another one.
        return Err(InputError { unanswered: id(fields, "request_id")?, ..InputError::new(wrong) });
    };
    let id = match id(response, "request_id")? {
        Some(id) => Some(id),
        None => id(fields, "request_id")?,
    };
    let Some(id) = id else {
        return Err(InputError::new("a `control_response` needs the `request_id` it answers"));
    };
    let reply = match response.get("subtype").and_then(Value::as_str) {
        Some("error") => {
            let error = &response.get("error").cloned().unwrap_or_default();
            let message = error.as_str().or_else(|| error["message"].as_str());
            Err(message.unwrap_or("it failed").to_owned())
        }
        Some("success") => {
            Ok(response.get("response").or(response.get("result")).cloned().unwrap_or(Value::Null))
        }
        _ => {
            let why = "`response.subtype` must be `success` or `error`";
            return Err(InputError { unanswered: Some(id), ..InputError::new(why) });
        }
    };
    Ok(Input::ControlResponse { id, reply })
}

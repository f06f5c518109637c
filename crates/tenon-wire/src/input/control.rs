//! What a client asks of tenon itself, and what it answers to our own requests.
//!
//! Two envelopes are understood: `{"request_id", "request": {"subtype", …}}`, and the flat one with
//! `subtype` beside `request_id`. In both the details may stand in a `payload` beside `subtype`.

use std::borrow::Cow;

use serde_json::{Map, Value};
use tenon_core::ApprovalMode;

use super::line::{Input, InputError, text};

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
    /// How long we may wait for `can_use_tool`.
    pub can_use_tool_ms: Option<u64>,
    pub effort: Option<String>,
    pub protocol_version: Option<String>,
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
    let Some(id) = text(fields, "request_id")? else {
        return Err(InputError::new("a `control_request` needs a `request_id`"));
    };
    let inner = match fields.get("request") {
        Some(Value::Object(inner)) => inner,
        None => fields,
        Some(_) => return Err(InputError::of_request(&id, "`request` must be an object")),
    };
    let refuse = |error: InputError| InputError::of_request(&id, error.message);
    let Some(subtype) = text(inner, "subtype").map_err(refuse)? else {
        return Err(InputError::of_request(&id, "a `control_request` needs a `subtype`"));
    };
    let details = match inner.get("payload") {
        Some(Value::Object(payload)) => {
            let mut details = payload.clone();
            details.extend(inner.clone());
            Cow::Owned(details)
        }
        None | Some(Value::Null) => Cow::Borrowed(inner),
        Some(_) => return Err(InputError::of_request(&id, "`payload` must be an object")),
    };
    let request = of_subtype(&subtype, &details).map_err(refuse)?;
    Ok(Input::ControlRequest { id, request: Box::new(request) })
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

fn needed(fields: &Map<String, Value>, names: &[&str]) -> Result<String, InputError> {
    for name in names {
        if let Some(value) = text(fields, name)?.filter(|value| !value.is_empty()) {
            return Ok(value);
        }
    }
    Err(InputError::new(format!("`{}` is missing", names[0])))
}

fn initialize(fields: &Map<String, Value>) -> Result<Initialize, InputError> {
    let client_mcp_servers = match fields.get("sdkMcpServers") {
        None | Some(Value::Null) => Vec::new(),
        Some(Value::Object(servers)) => servers.keys().cloned().collect(),
        Some(Value::Array(names)) => names.iter().filter_map(Value::as_str).map(str::to_owned).collect(),
        Some(_) => return Err(InputError::new("`sdkMcpServers` must be an object or a list")),
    };
    let mcp_servers = match fields.get("mcpServers") {
        None | Some(Value::Null) => Map::new(),
        Some(Value::Object(servers)) => servers.clone(),
        Some(_) => return Err(InputError::new("`mcpServers` must be an object")),
    };
    let agents = match fields.get("agents") {
        None | Some(Value::Null) => Vec::new(),
        Some(Value::Array(agents)) => agents.clone(),
        Some(Value::Object(by_name)) => by_name
            .iter()
            .map(|(name, agent)| {
                let mut agent = agent.as_object().cloned().unwrap_or_default();
                agent.insert("name".to_owned(), Value::String(name.clone()));
                Value::Object(agent)
            })
            .collect(),
        Some(_) => return Err(InputError::new("`agents` must be a list or an object")),
    };
    let version = match fields.get("protocol_version") {
        Some(Value::String(version)) => Some(version.clone()),
        Some(Value::Number(version)) => Some(version.to_string()),
        _ => None,
    };
    Ok(Initialize {
        hooks: hooks(fields.get("hooks"))?,
        client_mcp_servers,
        mcp_servers,
        agents,
        can_use_tool_ms: fields
            .get("timeout")
            .and_then(|timeout| timeout.get("canUseTool"))
            .and_then(Value::as_u64),
        effort: text(fields, "effort")?,
        protocol_version: version,
    })
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
            let ids = entry.get("hookCallbackIds").and_then(Value::as_array);
            let Some(ids) = ids else {
                return Err(InputError::new(format!("an entry of `hooks.{event}` needs `hookCallbackIds`")));
            };
            hooks.push(ClientHook {
                event: event.clone(),
                matcher: entry.get("matcher").and_then(Value::as_str).map(str::to_owned),
                callback_ids: ids.iter().filter_map(Value::as_str).map(str::to_owned).collect(),
                timeout_secs: entry
                    .get("timeout")
                    .and_then(Value::as_f64)
                    .map(|secs| secs.max(0.0).ceil() as u64),
            });
        }
    }
    Ok(hooks)
}

pub(super) fn response(fields: &Map<String, Value>) -> Result<Input, InputError> {
    let Some(Value::Object(response)) = fields.get("response") else {
        let wrong = "a `control_response` needs a `response` object";
        // Whoever asked need not wait for another one.
        return Err(InputError { unanswered: text(fields, "request_id")?, ..InputError::new(wrong) });
    };
    let id = match text(response, "request_id")? {
        Some(id) => Some(id),
        None => text(fields, "request_id")?,
    };
    let Some(id) = id else {
        return Err(InputError::new("a `control_response` needs the `request_id` it answers"));
    };
    let reply = match response.get("subtype").and_then(Value::as_str) {
        Some("error") => Err(match response.get("error") {
            Some(Value::String(message)) => message.clone(),
            Some(Value::Object(error)) => text(error, "message")?.unwrap_or_else(|| "it failed".to_owned()),
            _ => "it failed".to_owned(),
        }),
        _ => Ok(response.get("response").or(response.get("result")).cloned().unwrap_or(Value::Null)),
    };
    Ok(Input::ControlResponse { id, reply })
}

//! What a client asks of the session while it goes on: what there is, what it costs, and changes to servers and
//! tasks. What it sets up when it begins is in `stream_initialize.rs`; turns and interruptions are the session's.

use std::sync::Arc;

use serde_json::{Map, Value, json};
use tenon_core::{Effort, ErrorClass, Failure, McpStatus, Message, Reasoning};
use tenon_session::Answer;
use tenon_tools::{McpReport, StoppedBy};
use tenon_wire::input::ControlRequest;

use crate::mcp::Mcp;
use crate::stream_session::{Live, StreamHost};

impl StreamHost {
    pub(crate) fn answer(&mut self, request: &ControlRequest, history: &[Message]) -> Answer {
        let usage = self.usage();
        let commands = self.command_names();
        let live = match self.live() {
            Ok(live) => live,
            Err(failure) => return Err(failure).into(),
        };
        match request {
            ControlRequest::SupportedCommands => {
                Ok(json!({ "subtype": "supported_commands", "commands": commands })).into()
            }
            ControlRequest::GetContextUsage => Ok(context_usage(live, history)).into(),
            ControlRequest::GetAvailableModels => {
                let model = &live.agent.info.model;
                let models = [json!({
                    "id": model, "label": model,
                    "contextWindowSize": live.agent.models.facts(model).max_input,
                })];
                Ok(json!({ "subtype": "get_available_models", "models": models })).into()
            }
            ControlRequest::GetUsageInfo => Ok(usage).into(),
            ControlRequest::McpStatus => Ok(mcp_status(&live.parts.mcp)).into(),
            ControlRequest::McpReconnect { server } => {
                let (mcp, server) = (Arc::clone(&live.parts.mcp), server.clone());
                Answer::Later(Box::pin(async move {
                    mcp.reconnect(&server).await?;
                    Ok(json!({ "subtype": "mcp_reconnect", "serverName": server, "status": "connected" }))
                }))
            }
            ControlRequest::McpToggle { server, enabled } => {
                let (mcp, server, enabled) = (Arc::clone(&live.parts.mcp), server.clone(), *enabled);
                Answer::Later(Box::pin(async move {
                    mcp.switch(&server, enabled).await?;
                    Ok(json!({ "subtype": "mcp_toggle", "serverName": server, "enabled": enabled }))
                }))
            }
            ControlRequest::StopTask { task_id } => {
                let stopped = live.agent.background.tasks.stop(task_id, StoppedBy::Client);
                let stopped = stopped.map_err(|error| Failure::new(ErrorClass::Input, error.to_string()));
                stopped.map(|()| json!({ "subtype": "stop_task", "task_id": task_id })).into()
            }
            ControlRequest::PromoteTask { call_id } => {
                let (tasks, call_id) = (live.agent.background.tasks.clone(), call_id.clone());
                Answer::Later(Box::pin(async move {
                    let promoted = tasks.promote(&call_id).await;
                    let task_id =
                        promoted.map_err(|error| Failure::new(ErrorClass::Input, error.to_string()))?;
                    Ok(json!({ "subtype": "promote_task", "task_id": task_id }))
                }))
            }
            ControlRequest::SetEffort { effort } => {
                let effort = Effort::parse(effort);
                let effort = effort.map_err(|error| Failure::new(ErrorClass::Input, error.to_string()));
                effort
                    .map(|effort| {
                        let mut answer = live.set_effort(effort);
                        answer["subtype"] = json!("set_effort");
                        answer
                    })
                    .into()
            }
            // Answered by the session itself.
            ControlRequest::Initialize(_)
            | ControlRequest::Interrupt
            | ControlRequest::ContinueLastTurn
            | ControlRequest::SetModel { .. }
            | ControlRequest::SetPermissionMode { .. }
            | ControlRequest::Unknown { .. } => {
                Err(Failure::new(ErrorClass::Internal, "the request is not one of the host's")).into()
            }
        }
    }

    fn usage(&self) -> Value {
        let used = self.used;
        json!({
            "subtype": "get_usage_info", "turns": self.turns,
            "input_tokens": used.input, "output_tokens": used.output, "total_tokens": used.total,
            "total_cost_usd": self.cost_usd,
        })
    }
}

impl Live {
    /// From the next turn on, if the model can be told. What came of it, as clients read it.
    pub(crate) fn set_effort(&mut self, effort: Effort) -> Value {
        let reasoning = Reasoning { effort: Some(effort), ..self.agent.reasoning };
        match self.parts.connections.can_be_told(reasoning) {
            Ok(()) => {
                self.agent.reasoning = reasoning;
                self.offer_helpers();
                json!({ "effort": effort.name(), "applied": true, "override": null })
            }
            Err(failure) => {
                json!({ "effort": effort.name(), "applied": false, "override": null, "reason": failure.message })
            }
        }
    }
}

fn context_usage(live: &Live, history: &[Message]) -> Value {
    let agent = &live.agent;
    let facts = agent.models.facts(&agent.info.model);
    let tools = agent.registry.specs();
    json!({
        "subtype": "get_context_usage", "modelName": agent.info.model,
        "totalTokens": tenon_agent::estimate_tokens(&agent.system, &tools, history),
        "contextWindowSize": facts.max_input, "builtinTools": agent.registry.names(), "isEstimated": true,
    })
}

/// As both SDKs read it: one wants a list with everything, the other a map of words.
fn mcp_status(mcp: &Mcp) -> Value {
    let reports = mcp.reports();
    let words: Map<String, Value> =
        reports.iter().map(|report| (report.name.clone(), json!(status(report.status)))).collect();
    let servers: Vec<Value> = reports.iter().map(server).collect();
    json!({ "subtype": "mcp_server_status", "status": words, "mcpServers": servers })
}

fn server(report: &McpReport) -> Value {
    let tools: Vec<Value> = report.tools.iter().map(|name| json!({ "name": name })).collect();
    let mut fields = Map::new();
    fields.insert("name".to_owned(), json!(report.name));
    fields.insert("status".to_owned(), json!(status(report.status)));
    fields.insert("transport".to_owned(), json!(report.transport));
    if let Some(problem) = &report.problem {
        fields.insert("error".to_owned(), json!(problem));
    }
    fields.insert("tools".to_owned(), Value::Array(tools));
    Value::Object(fields)
}

fn status(status: McpStatus) -> &'static str {
    match status {
        McpStatus::Connected => "connected",
        McpStatus::Starting => "pending",
        McpStatus::Failed => "failed",
        McpStatus::Disabled => "disabled",
    }
}

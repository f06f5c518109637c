//! What a client asks of the session while it goes on: what there is, what it costs, and changes to servers and
//! tasks. What it sets up when it begins is in `stream_initialize.rs`, what it changes for later turns in
//! `stream_changes.rs`; turns and interruptions are the session's.

use std::sync::Arc;

use serde_json::{Map, Value, json};
use tenon_agent::Memory;
use tenon_config::{Place, model_facts};
use tenon_core::{ErrorClass, Failure, McpStatus, Message, ToolSpec};
use tenon_session::Answer;
use tenon_tools::{McpReport, StoppedBy};
use tenon_wire::input::ControlRequest;

use crate::command_kit::Kit;
use crate::mcp::Mcp;
use crate::stream_session::{Live, StreamHost};

impl StreamHost {
    pub(crate) fn answer(&mut self, request: &ControlRequest, history: &[Message]) -> Answer {
        let usage = self.spent().told();
        let models = self.available_models();
        let memory = self.memory_files();
        let commands = self.command_names();
        let live = match self.live() {
            Ok(live) => live,
            Err(failure) => return Err(failure).into(),
        };
        match request {
            ControlRequest::SupportedCommands => {
                Ok(json!({ "subtype": "supported_commands", "commands": commands })).into()
            }
            ControlRequest::GetContextUsage => Ok(context_usage(live, &memory, history)).into(),
            ControlRequest::GetAvailableModels => {
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
            // Answered by the session itself.
            ControlRequest::Initialize(_)
            | ControlRequest::Interrupt
            | ControlRequest::ContinueLastTurn
            | ControlRequest::SetModel { .. }
            | ControlRequest::SetEffort { .. }
            | ControlRequest::SetPermissionMode { .. }
            | ControlRequest::Unknown { .. } => {
                Err(Failure::new(ErrorClass::Internal, "the request is not one of the host's")).into()
            }
        }
    }

    /// Standing instructions, and how much of the context each takes.
    fn memory_files(&self) -> Vec<Value> {
        let memory = self.kit.as_ref().map(Kit::memory).unwrap_or_default();
        let file = |file: &Memory| json!({ "path": file.name, "tokens": tenon_agent::estimate_tokens(&file.text, &[], &[]) });
        memory.iter().map(file).collect()
    }

    /// The same, as `initialize` tells them.
    pub(crate) fn described_models(&self) -> Vec<Value> {
        let described =
            |model: &Value| json!({ "value": model["id"], "displayName": model["label"], "description": "" });
        self.available_models().iter().map(described).collect()
    }

    /// The model that is asked, those that take its place, and those that the settings name.
    fn available_models(&self) -> Vec<Value> {
        let Ok(live) = &self.live else { return Vec::new() };
        let current = self.coming_model().unwrap_or(&live.agent.info.model).to_owned();
        let mut names = vec![current.clone()];
        names.extend(self.args.fallback_model.iter().cloned());
        names.extend(self.known_models());
        let mut seen = Vec::new();
        let mut models = Vec::new();
        for name in names {
            let (provider, id) = name.split_once('/').unwrap_or(("", &name));
            if seen.contains(&id.to_owned()) && name != current {
                continue;
            }
            seen.push(id.to_owned());
            let known = live.agent.models.facts(&name).max_input;
            let window = known.or_else(|| model_facts(&self.settings, provider, id, Place::Remote).max_input);
            models.push(json!({
                "id": name, "label": name, "capabilities": ["tools"], "contextWindowSize": window,
                "isCurrent": name == current,
            }));
        }
        models
    }
}

/// As both SDKs read it. Nothing here was counted by a provider.
fn context_usage(live: &Live, memory: &[Value], history: &[Message]) -> Value {
    let agent = &live.agent;
    let tokens = |system: &str, tools: &[Arc<ToolSpec>], history: &[Message]| {
        tenon_agent::estimate_tokens(system, tools, history)
    };
    let tools = agent.registry.specs();
    let (of_servers, built_in): (Vec<_>, Vec<_>) =
        tools.iter().cloned().partition(|tool| tool.name.starts_with("mcp__"));
    let listed = |tools: &[Arc<ToolSpec>]| -> Vec<Value> {
        let tool = |tool: &Arc<ToolSpec>| json!({ "name": tool.name, "tokens": tokens("", &[Arc::clone(tool)], &[]) });
        tools.iter().map(tool).collect()
    };
    let parts = [
        ("systemPrompt", tokens(&agent.system, &[], &[])),
        ("builtinTools", tokens("", &built_in, &[])),
        ("mcpTools", tokens("", &of_servers, &[])),
        ("messages", tokens("", &[], history)),
    ];
    let total: u64 = parts.iter().map(|(_, tokens)| tokens).sum();
    let window = agent.models.facts(&agent.info.model).max_input;
    // Clients reckon with these: where nobody knows how much there is room for, it is 0.
    let room = window.unwrap_or_default();
    let percentage = if room == 0 { 0.0 } else { total as f64 * 100.0 / room as f64 };
    let breakdown: Map<String, Value> =
        parts.iter().map(|(name, tokens)| ((*name).to_owned(), json!(tokens))).collect();
    let categories: Vec<Value> = parts
        .iter()
        .map(|(name, tokens)| json!({ "name": name, "tokens": tokens, "color": "default", "kind": "used" }))
        .collect();
    let helper = |name: &String| json!({ "agentType": name, "source": "settings", "tokens": 0 });
    let agents: Vec<Value> = agent.info.agents.iter().map(helper).collect();
    json!({
        "subtype": "get_context_usage", "modelName": agent.info.model, "model": agent.info.model,
        "totalTokens": total, "contextWindowSize": window, "maxTokens": room, "rawMaxTokens": room,
        "percentage": percentage, "breakdown": breakdown, "categories": categories,
        "builtinTools": listed(&built_in), "mcpTools": listed(&of_servers), "memoryFiles": memory,
        "agents": agents, "gridRows": [], "apiUsage": null, "isAutoCompactEnabled": agent.compact_at < 1.0, "isEstimated": true,
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

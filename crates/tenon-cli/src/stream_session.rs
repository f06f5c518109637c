//! A session that a client drives over stdin and stdout: the wiring of `tenon-session/src/drive.rs`.
//!
//! Everything that holds for the whole session is put together once, as for a single run (`plan.rs`); a turn
//! is a clone of that with its own prompt. When putting it together fails, the client is still answered: its
//! requests with what there is, and each of its turns with the failure.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde_json::{Value, json};
use tenon_agent::{Agent, SessionEnd, Stop};
use tenon_config::{Settings, Surroundings};
use tenon_core::{
    ApprovalMode, BoxFut, ErrorClass, EventSink, Failure, Hook, HookEvent, HookLayer, HookOrder, HookRule,
    HookRun, HookWait, IdSource, McpStatus, Message, Outcome, Part, Usage,
};
use tenon_session::{Closed, Commanded, Conversation, Deadlines, Host, Incoming, Lines, Peer, Session};
use tenon_tools::StoppedBy;
use tenon_wire::input::{
    ClientHook, ControlRequest, FileData, Hint, Initialize, InputPart, RequestOptions, SessionRef, Turn,
};
use tenon_wire::{Dialect, HintStatus, Replies};
use tokio::sync::mpsc;

use crate::args::RunArgs;
use crate::{model, surroundings};

/// What the client is asked and answered by.
pub struct Connection {
    pub peer: Arc<Peer>,
    pub replies: Replies,
    pub lines: Arc<dyn Lines>,
}

impl Connection {
    pub fn new(
        dialect: Dialect,
        session: tenon_core::Id,
        ids: &Arc<IdSource>,
        lines: Arc<dyn Lines>,
        settings: Option<&Settings>,
    ) -> Connection {
        let timeouts = settings.map(|settings| settings.timeouts).unwrap_or_default();
        let deadlines = Deadlines {
            can_use_tool: timeouts.can_use_tool(),
            hook_callback: timeouts.hook_callback(),
            mcp_message: timeouts.mcp_message(),
        };
        let replies = Replies::new(dialect, session);
        let peer = Arc::new(Peer::new(replies.clone(), Arc::clone(&lines), Arc::clone(ids), deadlines));
        Connection { peer, replies, lines }
    }
}

/// What all turns have in common.
pub struct Common<'a> {
    pub args: &'a RunArgs,
    pub settings: Settings,
    pub here: &'a Surroundings,
    pub ids: Arc<IdSource>,
    pub sink: Arc<dyn EventSink>,
    /// The agent that turns are clones of, or why there is none.
    pub agent: Result<Agent, Failure>,
    pub last: LastOutcome,
}

pub async fn run(
    common: Common<'_>,
    connection: Connection,
    first: Option<Incoming>,
    input: mpsc::Receiver<Incoming>,
    stop: Stop,
) -> Closed {
    let Connection { peer, replies, lines } = connection;
    let mut agent = common.agent;
    let mut history = Vec::new();
    let mut queue = std::collections::VecDeque::new();
    if let Ok(agent) = &mut agent {
        agent.session_end = SessionEnd::Later;
        history = std::mem::take(&mut agent.history);
        // A prompt on the command line is the first turn.
        let parts: Vec<InputPart> =
            agent.prompt.take().map(|prompt| InputPart::Text(prompt.text())).into_iter().collect();
        if !parts.is_empty() {
            queue.push_back(Turn { parts, ..Turn::default() });
        }
    }
    let host = StreamHost {
        agent,
        args: common.args.clone(),
        settings: common.settings,
        here: common.here.clone(),
        lines: Arc::clone(&lines),
        sink: Arc::clone(&common.sink),
        ids: Arc::clone(&common.ids),
        turns: 0,
        used: Usage::default(),
        cost_usd: Some(0.0),
        last: common.last,
    };
    let session = Session { host, peer, lines, sink: common.sink, replies, ids: common.ids, history, queue };
    session.drive(first, input, stop).await
}

struct StreamHost {
    agent: Result<Agent, Failure>,
    args: RunArgs,
    settings: Settings,
    here: Surroundings,
    lines: Arc<dyn Lines>,
    sink: Arc<dyn EventSink>,
    ids: Arc<IdSource>,
    turns: u64,
    used: Usage,
    cost_usd: Option<f64>,
    last: LastOutcome,
}

/// How the last turn ended, for the record of the session.
pub type LastOutcome = Arc<Mutex<Option<Arc<Outcome>>>>;

fn status(status: McpStatus) -> &'static str {
    match status {
        McpStatus::Connected => "connected",
        McpStatus::Starting => "connecting",
        McpStatus::Failed => "failed",
    }
}

impl StreamHost {
    fn common(&mut self) -> Result<&mut Agent, Failure> {
        self.agent.as_mut().map_err(|failure| failure.clone())
    }

    /// The same agent, asking another model.
    fn with_model(&self, mut agent: Agent, name: &str) -> Result<Agent, Failure> {
        let args = RunArgs { model: Some(name.to_owned()), ..self.args.clone() };
        let chosen = model::choose(&args, &self.settings, &self.here, &surroundings::started_in(), &[])?;
        agent.model = chosen.client;
        agent.models = chosen.models;
        agent.info.model = chosen.model;
        Ok(agent)
    }
}

impl Host for StreamHost {
    fn agent(&mut self, options: &RequestOptions) -> Result<Agent, Failure> {
        if options.temperature.is_some() || options.top_p.is_some() || options.max_output_tokens.is_some() {
            let message = "`temperature`, `top_p` and `max_tokens` of a request are not in this version";
            return Err(Failure::new(ErrorClass::Input, message));
        }
        let common = self.common()?;
        let mut agent = common.clone();
        // Only the first turn begins the session.
        common.session_start = None;
        common.warnings.clear();
        if let Some(names) = &options.tools {
            agent.registry = agent.registry.with(|spec| names.contains(&spec.name));
            agent.info.tools.retain(|name| names.contains(name));
        }
        match options.model.as_deref().filter(|name| *name != agent.info.model) {
            Some(name) => self.with_model(agent, name),
            None => Ok(agent),
        }
    }

    fn conversation(&mut self, which: &SessionRef) -> Result<Option<Conversation>, Failure> {
        let common = self.common()?;
        match which {
            SessionRef::Current => Ok(None),
            SessionRef::Id(id) if *id == common.info.session_id.to_string() => Ok(None),
            SessionRef::New if common.session_start.is_some() => Ok(None),
            SessionRef::New | SessionRef::Id(_) => Err(Failure::new(
                ErrorClass::Input,
                "this process has a session already, and cannot change to another",
            )
            .hint("start another process for another session (`--resume ID`)")),
        }
    }

    fn command<'a>(
        &'a mut self,
        _turn: &'a Turn,
        _history: &'a mut Vec<Message>,
        _replies: &'a Replies,
    ) -> BoxFut<'a, Commanded> {
        Box::pin(async { Commanded::NotACommand })
    }

    fn file(&mut self, file: &FileData) -> Result<Part, Failure> {
        let message = match file {
            FileData::Path { path, .. } => format!("`{path}`: files of a request are not in this version"),
            FileData::Inline { mime, .. } => format!("a file of type `{mime}` cannot be used"),
        };
        Err(Failure::new(ErrorClass::Input, message))
    }

    fn hint(&mut self, hint: Hint, replies: &Replies) {
        let status = HintStatus::Error("hints are not in this version".to_owned());
        let line = replies.hint(hint.prompt_id.as_deref(), hint.trigger.name(), &status, &[], false);
        self.lines.line(line);
    }

    fn cancel_hint(&mut self, _prompt_id: Option<&str>) {}

    fn initialize(&mut self, wanted: &Initialize) -> Result<Value, Failure> {
        let not_yet = [
            ("sdkMcpServers", !wanted.client_mcp_servers.is_empty()),
            ("mcpServers", !wanted.mcp_servers.is_empty()),
            ("agents", !wanted.agents.is_empty()),
            ("effort", wanted.effort.is_some()),
        ];
        if let Some((name, _)) = not_yet.iter().find(|(_, given)| *given) {
            let message = format!("`{name}` of `initialize` is not in this version");
            return Err(Failure::new(ErrorClass::Input, message));
        }
        let rules = wanted.hooks.iter().map(hook_rule).collect::<Result<Vec<_>, _>>()?;
        // A failed start is told with every turn; the client is answered all the same.
        let Ok(common) = self.common() else { return Ok(json!({ "subtype": "initialize" })) };
        if !rules.is_empty() {
            common.hooks = common.hooks.with_rules(rules).map_err(|error| {
                Failure::new(ErrorClass::Input, format!("`hooks` of `initialize`: {error}"))
            })?;
        }
        Ok(json!({
            "subtype": "initialize",
            "session_id": common.info.session_id,
            "capabilities": {
                "can_handle_can_use_tool": true, "can_handle_hook_callback": true,
                "can_set_permission_mode": true, "can_set_model": true, "can_set_effort": false,
                "can_get_context_usage": true, "can_get_available_models": true,
                "can_get_usage_info": true, "can_handle_mcp_message": false,
            },
            "commands": [],
            "agents": common.info.agents,
            "output_style": "default",
        }))
    }

    fn set_model(&mut self, name: &str) -> Result<String, Failure> {
        let agent = self.common()?.clone();
        let changed = self.with_model(agent, name)?;
        let model = changed.info.model.clone();
        self.agent = Ok(changed);
        Ok(model)
    }

    fn set_mode(&mut self, mode: ApprovalMode) -> Result<(), Failure> {
        let common = self.common()?;
        common.permissions = common.permissions.with_mode(mode);
        common.info.permission_mode = mode.name().to_owned();
        Ok(())
    }

    fn control(&mut self, request: &ControlRequest, history: &[Message]) -> Result<Value, Failure> {
        let common = self.common()?;
        match request {
            ControlRequest::SupportedCommands => {
                Ok(json!({ "subtype": "supported_commands", "commands": [] }))
            }
            ControlRequest::GetContextUsage => {
                let facts = common.models.facts(&common.info.model);
                let tools = common.registry.specs();
                Ok(json!({
                    "subtype": "get_context_usage", "modelName": common.info.model,
                    "totalTokens": tenon_agent::estimate_tokens(&common.system, &tools, history),
                    "contextWindowSize": facts.max_input, "builtinTools": common.registry.names(), "isEstimated": true,
                }))
            }
            ControlRequest::GetAvailableModels => {
                let model = &common.info.model;
                let models = [json!({
                    "id": model, "label": model,
                    "contextWindowSize": common.models.facts(model).max_input,
                })];
                Ok(json!({ "subtype": "get_available_models", "models": models }))
            }
            ControlRequest::GetUsageInfo => {
                let used = self.used;
                Ok(json!({
                    "subtype": "get_usage_info", "turns": self.turns,
                    "input_tokens": used.input, "output_tokens": used.output, "total_tokens": used.total,
                    "total_cost_usd": self.cost_usd,
                }))
            }
            ControlRequest::McpStatus => {
                let servers: Vec<Value> = common
                    .info
                    .mcp_servers
                    .iter()
                    .map(|server| json!({ "name": server.name, "status": status(server.status) }))
                    .collect();
                Ok(json!({ "subtype": "mcp_server_status", "mcpServers": servers }))
            }
            ControlRequest::StopTask { task_id } => {
                let stopped = common.background.tasks.stop(task_id, StoppedBy::Client);
                stopped.map_err(|error| Failure::new(ErrorClass::Input, error.to_string()))?;
                Ok(json!({ "subtype": "stop_task", "task_id": task_id }))
            }
            other => Err(Failure::new(ErrorClass::Input, format!("{} is not in this version", named(other)))),
        }
    }

    fn promote(&mut self, call_id: String) -> BoxFut<'static, Result<Value, Failure>> {
        let tasks = self.common().map(|common| common.background.tasks.clone());
        Box::pin(async move {
            let promoted = tasks?.promote(&call_id).await;
            let task_id = promoted.map_err(|error| Failure::new(ErrorClass::Input, error.to_string()))?;
            Ok(json!({ "subtype": "promote_task", "task_id": task_id }))
        })
    }

    fn turn_ended(&mut self, outcome: &Arc<Outcome>) {
        self.turns += 1;
        self.used.add(outcome.usage());
        // One turn of unknown price makes the sum unknown.
        self.cost_usd = self.cost_usd.zip(outcome.cost_usd).map(|(sum, more)| sum + more);
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::clone(outcome));
    }

    fn end(&mut self) -> BoxFut<'_, ()> {
        Box::pin(async move {
            if let Ok(agent) = &self.agent {
                agent.background.end(Arc::clone(&self.sink), Arc::clone(&self.ids)).await;
            }
        })
    }
}

fn named(request: &ControlRequest) -> &'static str {
    match request {
        ControlRequest::SetEffort { .. } => "`set_effort`",
        ControlRequest::McpReconnect { .. } => "`mcp_reconnect`",
        ControlRequest::McpToggle { .. } => "`mcp_toggle`",
        _ => "this request",
    }
}

fn hook_rule(hook: &ClientHook) -> Result<HookRule, Failure> {
    let event = HookEvent::parse(&hook.event).ok_or_else(|| {
        let message = format!("`hooks` of `initialize`: nothing here is called `{}`", hook.event);
        Failure::new(ErrorClass::Input, message)
    })?;
    let called = |callback_id: &String| Hook {
        run: HookRun::Client {
            callback_id: callback_id.clone(),
            timeout: hook.timeout_secs.map(Duration::from_secs),
        },
        name: None,
        status_message: None,
        wait: HookWait::ForItsAnswer,
        on_error: None,
    };
    Ok(HookRule {
        event,
        matcher: hook.matcher.clone().unwrap_or_default(),
        order: HookOrder::SideBySide,
        layer: HookLayer::Client,
        hooks: hook.callback_ids.iter().map(called).collect(),
    })
}

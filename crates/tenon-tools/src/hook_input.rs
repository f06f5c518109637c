//! What hooks are told: the JSON of each event. Which hooks are told is decided in `hooks.rs`.

use std::path::PathBuf;

use serde::ser::{Serialize, SerializeMap, Serializer};
use serde_json::{Value, json};
use tenon_core::{CompactTrigger, HookEvent, RawJson, Timestamp, TodoItem};

/// One event, with everything that is known about it.
#[derive(Clone, Debug)]
pub enum HookInput {
    SessionStart {
        source: SessionSource,
        model: String,
    },
    UserPromptSubmit {
        prompt: String,
    },
    PreToolUse(HookedCall),
    PermissionRequest(HookedCall),
    PermissionDenied {
        call: HookedCall,
        reason: String,
    },
    PostToolUse {
        call: HookedCall,
        /// What the model reads.
        content: String,
        /// What clients are shown.
        display: Option<String>,
    },
    PostToolUseFailure {
        call: HookedCall,
        error: String,
        is_interrupt: bool,
    },
    /// All calls of one answer, with what came of them.
    PostToolBatch {
        calls: Vec<(HookedCall, String)>,
    },
    TodoCreated(TodoItem),
    TodoCompleted(TodoItem),
    SubagentStart,
    SubagentStop(Stopping),
    PreCompact {
        trigger: CompactTrigger,
        instructions: Option<String>,
    },
    PostCompact {
        trigger: CompactTrigger,
        summary: String,
    },
    Stop(Stopping),
    StopFailure {
        /// The class of the failure.
        error: &'static str,
        details: String,
        last_message: Option<String>,
    },
    SessionEnd {
        reason: &'static str,
    },
}

/// A call as the model made it.
#[derive(Clone, Debug)]
pub struct HookedCall {
    pub id: String,
    pub tool: String,
    pub input: RawJson,
    /// The arguments are the payload: what a hook says about them may quote it.
    pub terminal: bool,
}

/// The model has nothing more to do.
#[derive(Clone, Debug)]
pub struct Stopping {
    /// It goes on only because a hook did not let it stop.
    pub active: bool,
    pub last_message: String,
}

/// Where a session comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SessionSource {
    Startup,
    Resume,
    /// The conversation was cleared, and begins anew.
    Clear,
}

impl SessionSource {
    pub fn name(self) -> &'static str {
        match self {
            SessionSource::Startup => "startup",
            SessionSource::Resume => "resume",
            SessionSource::Clear => "clear",
        }
    }
}

/// What is the same for every event of a run.
#[derive(Clone, Debug, Default)]
pub(crate) struct Common {
    pub session_id: String,
    pub transcript: Option<PathBuf>,
    pub cwd: PathBuf,
}

/// The sub-agent that hooks are told about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HookAgent {
    pub id: String,
    /// The name of its kind, as in `.tenon/agents`.
    pub kind: String,
}

impl HookInput {
    pub fn event(&self) -> HookEvent {
        match self {
            HookInput::SessionStart { .. } => HookEvent::SessionStart,
            HookInput::UserPromptSubmit { .. } => HookEvent::UserPromptSubmit,
            HookInput::PreToolUse(_) => HookEvent::PreToolUse,
            HookInput::PermissionRequest(_) => HookEvent::PermissionRequest,
            HookInput::PermissionDenied { .. } => HookEvent::PermissionDenied,
            HookInput::PostToolUse { .. } => HookEvent::PostToolUse,
            HookInput::PostToolUseFailure { .. } => HookEvent::PostToolUseFailure,
            HookInput::PostToolBatch { .. } => HookEvent::PostToolBatch,
            HookInput::TodoCreated(_) => HookEvent::TodoCreated,
            HookInput::TodoCompleted(_) => HookEvent::TodoCompleted,
            HookInput::SubagentStart => HookEvent::SubagentStart,
            HookInput::SubagentStop(_) => HookEvent::SubagentStop,
            HookInput::PreCompact { .. } => HookEvent::PreCompact,
            HookInput::PostCompact { .. } => HookEvent::PostCompact,
            HookInput::Stop(_) => HookEvent::Stop,
            HookInput::StopFailure { .. } => HookEvent::StopFailure,
            HookInput::SessionEnd { .. } => HookEvent::SessionEnd,
        }
    }

    /// The call an event is about.
    pub(crate) fn call(&self) -> Option<&HookedCall> {
        match self {
            HookInput::PreToolUse(call)
            | HookInput::PermissionRequest(call)
            | HookInput::PermissionDenied { call, .. }
            | HookInput::PostToolUse { call, .. }
            | HookInput::PostToolUseFailure { call, .. } => Some(call),
            _ => None,
        }
    }

    /// What a matcher is compared with; nothing where there is nothing to choose by.
    pub(crate) fn subject<'a>(&'a self, agent: Option<&'a HookAgent>) -> Option<&'a str> {
        match self {
            HookInput::SessionStart { source, .. } => Some(source.name()),
            HookInput::SessionEnd { reason } => Some(reason),
            HookInput::StopFailure { error, .. } => Some(error),
            HookInput::PreCompact { trigger, .. } | HookInput::PostCompact { trigger, .. } => {
                Some(trigger.name())
            }
            HookInput::SubagentStart | HookInput::SubagentStop(_) => agent.map(|agent| agent.kind.as_str()),
            _ => self.call().map(|call| call.tool.as_str()),
        }
    }

    /// The same event with other arguments, for the hooks after the one that changed them.
    pub(crate) fn with_input(&self, input: RawJson) -> HookInput {
        let mut changed = self.clone();
        if let HookInput::PreToolUse(call) | HookInput::PermissionRequest(call) = &mut changed {
            call.input = input;
        }
        changed
    }

    /// One line of JSON.
    pub(crate) fn to_json(&self, common: &Common, mode: &str, agent: Option<&HookAgent>) -> String {
        let mut facts = Facts::default();
        facts.add("session_id", common.session_id.as_str());
        let transcript = common.transcript.as_ref().map(|path| path.to_string_lossy().into_owned());
        facts.add("transcript_path", transcript.unwrap_or_default());
        facts.add("cwd", common.cwd.to_string_lossy().into_owned());
        facts.add("hook_event_name", self.event().name());
        facts.add("timestamp", Timestamp::now().to_iso8601());
        facts.add("permission_mode", mode);
        if let Some(agent) = agent {
            facts.add("agent_id", agent.id.as_str());
            facts.add("agent_type", agent.kind.as_str());
        }
        self.add_facts(&mut facts);
        // Nothing here can fail to be written: keys are strings and numbers come from JSON.
        serde_json::to_string(&facts).unwrap_or_default()
    }

    fn add_facts(&self, facts: &mut Facts) {
        if let Some(call) = self.call() {
            facts.add("tool_name", call.tool.as_str());
            facts.0.push(("tool_input", Fact::Raw(call.input.clone())));
            facts.add("tool_use_id", call.id.as_str());
        }
        match self {
            HookInput::SessionStart { source, model } => {
                facts.add("source", source.name());
                facts.add("model", model.as_str());
            }
            HookInput::UserPromptSubmit { prompt } => facts.add("prompt", prompt.as_str()),
            HookInput::PreToolUse(_) | HookInput::PermissionRequest(_) | HookInput::SubagentStart => {}
            HookInput::PermissionDenied { reason, .. } => facts.add("reason", reason.as_str()),
            HookInput::PostToolUse { content, display, .. } => {
                let display = display.as_ref().unwrap_or(content);
                facts.add("tool_response", json!({ "llmContent": content, "returnDisplay": display }));
            }
            HookInput::PostToolUseFailure { error, is_interrupt, .. } => {
                facts.add("error", error.as_str());
                facts.add("is_interrupt", *is_interrupt);
            }
            HookInput::PostToolBatch { calls } => facts.0.push((
                "tool_calls",
                Fact::Calls(calls.iter().map(|(call, response)| BatchCall::new(call, response)).collect()),
            )),
            HookInput::TodoCreated(todo) | HookInput::TodoCompleted(todo) => {
                facts.add("todo_id", todo.id.as_str());
                facts.add("todo_content", todo.content.as_str());
                facts.add("todo_status", todo.status.name());
            }
            HookInput::Stop(stopping) | HookInput::SubagentStop(stopping) => {
                facts.add("stop_hook_active", stopping.active);
                facts.add("last_assistant_message", stopping.last_message.as_str());
            }
            HookInput::PreCompact { trigger, instructions } => {
                facts.add("trigger", trigger.name());
                facts.add("custom_instructions", instructions.as_deref().unwrap_or_default());
            }
            HookInput::PostCompact { trigger, summary } => {
                facts.add("trigger", trigger.name());
                facts.add("compact_summary", summary.as_str());
            }
            HookInput::StopFailure { error, details, last_message } => {
                facts.add("error", *error);
                facts.add("error_details", details.as_str());
                facts.add("last_assistant_message", last_message.clone());
            }
            HookInput::SessionEnd { reason } => facts.add("reason", *reason),
        }
    }
}

/// Keys in order. Arguments of calls go in as their text: every digit, every key in its place.
#[derive(Default)]
struct Facts(Vec<(&'static str, Fact)>);

enum Fact {
    Json(Value),
    Raw(RawJson),
    Calls(Vec<BatchCall>),
}

#[derive(serde::Serialize)]
struct BatchCall {
    tool_name: String,
    tool_input: RawJson,
    tool_use_id: String,
    tool_response: String,
}

impl BatchCall {
    fn new(call: &HookedCall, response: &str) -> BatchCall {
        BatchCall {
            tool_name: call.tool.clone(),
            tool_input: call.input.clone(),
            tool_use_id: call.id.clone(),
            tool_response: response.to_owned(),
        }
    }
}

impl Facts {
    fn add(&mut self, key: &'static str, value: impl Into<Value>) {
        self.0.push((key, Fact::Json(value.into())));
    }
}

impl Serialize for Facts {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for (key, fact) in &self.0 {
            match fact {
                Fact::Json(value) => map.serialize_entry(key, value)?,
                Fact::Raw(raw) => map.serialize_entry(key, raw)?,
                Fact::Calls(calls) => map.serialize_entry(key, calls)?,
            }
        }
        map.end()
    }
}

//! What happens in a run, as it happens.
//!
//! [`Event`] does not implement `Serialize`: it may hold a payload, so it cannot be stored by accident.
//! Dialects (`tenon-wire`) read events as they are; whatever stores or exports takes
//! [`crate::DurableEvent`], which only [`Event::redact`] makes.

use std::path::PathBuf;
use std::sync::Arc;

use crate::{
    HookReport, HookStart, Id, Origin, Outcome, Part, PermissionAsk, RawJson, SandboxState, Timestamp,
    ToolDisplay, ToolErrorKind, ToolProgress, Usage,
};

#[derive(Clone, Debug)]
pub struct Event {
    /// 1, 2, 3 … within one run.
    pub seq: u64,
    pub time: Timestamp,
    pub id: Id,
    /// The tool call of the parent run that this run works for (sub-agents).
    pub parent: Option<String>,
    pub kind: EventKind,
}

/// Order within a model turn: `Asking`, then, if an answer comes, `TurnStarted`, then per part `PartStarted`, `PartDelta`…, `PartStopped`,
/// then `TurnFinished`; of an answer that is empty, `TurnFinished` alone. A part of another kind starts only after all earlier parts have stopped; several
/// tool calls may be open at once.
#[derive(Clone, Debug)]
pub enum EventKind {
    RunStarted(Box<RunInfo>),
    /// A model is about to be asked; nothing of its answer is there.
    Asking {
        turn: u32,
        model: String,
    },
    /// The first piece of an answer has arrived.
    TurnStarted {
        turn: u32,
        model: String,
    },
    /// `id` names the part; `part` counts the parts of this turn from 0.
    PartStarted {
        part: usize,
        id: Id,
        kind: PartKind,
    },
    PartDelta {
        part: usize,
        text: String,
    },
    PartStopped {
        part: usize,
        content: Part,
    },
    /// The payload so far: parsed, not validated, and only ever growing.
    StructuredPartial {
        call_id: String,
        snapshot: RawJson,
    },
    TurnFinished {
        turn: u32,
        usage: Usage,
    },
    /// A call waits until somebody agrees.
    PermissionAsked(Box<PermissionAsk>),
    ToolStarted {
        call_id: String,
        name: String,
        terminal: bool,
    },
    ToolProgress {
        call_id: String,
        progress: ToolProgress,
    },
    ToolFinished(ToolReport),
    /// A model request failed and will be repeated after `wait_ms`.
    Retrying {
        attempt: u32,
        /// How many there may be.
        attempts: u32,
        wait_ms: u64,
        class: &'static str,
        /// What the server answered with.
        status: Option<u16>,
        message: String,
    },
    /// A model could not answer, and another one is asked from here on.
    ModelFallback {
        from: String,
        to: String,
        status: Option<u16>,
        /// 1 for the first fallback.
        fallback: u32,
    },
    /// The model is told something between turns, by nobody who drives the run.
    UserMessage {
        /// What clients are shown; the model may read more.
        text: String,
        origin: Origin,
    },
    /// Older parts of the conversation were replaced by a summary.
    Compacted {
        trigger: CompactTrigger,
        before_tokens: u64,
        after_tokens: u64,
    },
    /// Work goes on in the background. Exactly one `TaskEnded` follows.
    TaskStarted(TaskStart),
    TaskEnded(TaskEnd),
    /// A hook is told of something; the run may wait for it.
    HookStarted(HookStart),
    HookEnded(HookReport),
    Warning {
        message: String,
    },
    /// From here on the session is not kept; the run goes on. Told once.
    RecordingDegraded {
        message: String,
    },
    /// Nothing happened for a while, and that is all right.
    Heartbeat,
    RunFinished(Arc<Outcome>),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PartKind {
    Text,
    Thinking,
    ToolCall { call_id: String, name: String, terminal: bool },
}

/// Who runs, with what.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunInfo {
    pub session_id: Id,
    pub cwd: PathBuf,
    pub model: String,
    pub permission_mode: String,
    /// Names of all registered tools.
    pub tools: Vec<String>,
    /// Names of the agents that may be asked to help.
    pub agents: Vec<String>,
    /// Names of the commands that may be typed (`/name`).
    pub commands: Vec<String>,
    /// As they stand when the run starts; some may come up later.
    pub mcp_servers: Vec<McpServer>,
    pub cli_version: String,
    /// What binds shell commands.
    pub sandbox: SandboxState,
    /// What whoever started the run calls itself.
    pub channel: Option<String>,
}

/// A server of tools and whether it is there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct McpServer {
    pub name: String,
    pub status: McpStatus,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum McpStatus {
    Connected,
    /// Its start is not over; its tools are offered when it is.
    Starting,
    Failed,
    /// Somebody switched it off.
    Disabled,
}

/// A finished tool call. Reports come in the order the model made the calls.
#[derive(Clone, Debug)]
pub struct ToolReport {
    pub call_id: String,
    pub name: String,
    pub terminal: bool,
    /// What a client is shown.
    pub content: String,
    /// What clients that draw more than text are shown. Never stored.
    pub drawing: Option<Box<ToolDisplay>>,
    /// What may be stored instead of `content`.
    pub stored: Option<String>,
    pub error: Option<ToolErrorKind>,
    pub duration_ms: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CompactTrigger {
    /// The context window was filling up.
    Auto,
    /// Somebody asked for it.
    Manual,
}

impl CompactTrigger {
    pub fn name(self) -> &'static str {
        match self {
            CompactTrigger::Auto => "auto",
            CompactTrigger::Manual => "manual",
        }
    }
}

/// Work that outlives the call that started it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskStart {
    pub task_id: String,
    /// The call that started it, where a call did.
    pub call_id: Option<String>,
    pub kind: TaskKind,
    /// The type of a sub-agent.
    pub agent_type: Option<String>,
    /// One line for people.
    pub description: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskEnd {
    pub task_id: String,
    pub call_id: Option<String>,
    pub kind: TaskKind,
    /// Never `Running`.
    pub status: TaskStatus,
    /// One sentence for people: how it ended.
    pub summary: String,
    /// Where its output is, when it has a file.
    pub output_file: Option<PathBuf>,
    /// What a sub-agent used.
    pub usage: Option<Usage>,
    /// How many tools a sub-agent called.
    pub tool_calls: u64,
    pub duration_ms: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TaskKind {
    Shell,
    Monitor,
    Agent,
}

impl TaskKind {
    pub fn name(self) -> &'static str {
        match self {
            TaskKind::Shell => "shell",
            TaskKind::Monitor => "monitor",
            TaskKind::Agent => "agent",
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TaskStatus {
    Running,
    Completed,
    Failed,
    Cancelled,
}

impl TaskStatus {
    pub fn name(self) -> &'static str {
        match self {
            TaskStatus::Running => "running",
            TaskStatus::Completed => "completed",
            TaskStatus::Failed => "failed",
            TaskStatus::Cancelled => "cancelled",
        }
    }
}

#[derive(Clone, Debug)]
pub struct PermissionDenial {
    pub tool_name: String,
    pub tool_use_id: String,
    pub tool_input: RawJson,
    pub reason: String,
}

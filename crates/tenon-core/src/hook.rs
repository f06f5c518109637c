//! Hooks as they are configured: which program is told of which event. Reading them from settings is
//! `tenon-config`'s, running them `tenon-tools`'.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

/// What a hook can be told of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum HookEvent {
    SessionStart,
    UserPromptSubmit,
    PreToolUse,
    PermissionRequest,
    PermissionDenied,
    PostToolUse,
    PostToolUseFailure,
    PostToolBatch,
    TodoCreated,
    TodoCompleted,
    SubagentStart,
    SubagentStop,
    PreCompact,
    PostCompact,
    Stop,
    StopFailure,
    SessionEnd,
}

/// What a rule's `matcher` is compared with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HookSubject {
    /// A tool's name.
    Tool,
    /// A word that the event carries in this field.
    Field(&'static str),
    /// There is nothing to choose by.
    None,
}

/// What it means that a hook of an event says no.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HookPower {
    /// What was about to happen does not happen.
    Prevents,
    /// The model reads the reason.
    TellsModel,
    /// Nothing: it is only told.
    Watches,
}

impl HookEvent {
    /// In the order of a run.
    pub const ALL: [HookEvent; 17] = [
        HookEvent::SessionStart,
        HookEvent::UserPromptSubmit,
        HookEvent::PreToolUse,
        HookEvent::PermissionRequest,
        HookEvent::PermissionDenied,
        HookEvent::PostToolUse,
        HookEvent::PostToolUseFailure,
        HookEvent::PostToolBatch,
        HookEvent::TodoCreated,
        HookEvent::TodoCompleted,
        HookEvent::SubagentStart,
        HookEvent::SubagentStop,
        HookEvent::PreCompact,
        HookEvent::PostCompact,
        HookEvent::Stop,
        HookEvent::StopFailure,
        HookEvent::SessionEnd,
    ];
    /// Events that other programs have and that never happen here.
    pub const UNKNOWN_HERE: [&'static str; 19] = [
        "Notification",
        "UserPromptExpansion",
        "SessionDelete",
        "MessageDisplay",
        "InstructionsLoaded",
        "PreModelSwitch",
        "PostModelSwitch",
        "Setup",
        "TeammateIdle",
        "TaskCreated",
        "TaskCompleted",
        "Elicitation",
        "ElicitationResult",
        "ConfigChange",
        "WorktreeCreate",
        "WorktreeRemove",
        "CwdChanged",
        "FileChanged",
        "DirectoryAdded",
    ];

    pub fn name(self) -> &'static str {
        match self {
            HookEvent::SessionStart => "SessionStart",
            HookEvent::UserPromptSubmit => "UserPromptSubmit",
            HookEvent::PreToolUse => "PreToolUse",
            HookEvent::PermissionRequest => "PermissionRequest",
            HookEvent::PermissionDenied => "PermissionDenied",
            HookEvent::PostToolUse => "PostToolUse",
            HookEvent::PostToolUseFailure => "PostToolUseFailure",
            HookEvent::PostToolBatch => "PostToolBatch",
            HookEvent::TodoCreated => "TodoCreated",
            HookEvent::TodoCompleted => "TodoCompleted",
            HookEvent::SubagentStart => "SubagentStart",
            HookEvent::SubagentStop => "SubagentStop",
            HookEvent::PreCompact => "PreCompact",
            HookEvent::PostCompact => "PostCompact",
            HookEvent::Stop => "Stop",
            HookEvent::StopFailure => "StopFailure",
            HookEvent::SessionEnd => "SessionEnd",
        }
    }

    pub fn parse(name: &str) -> Option<HookEvent> {
        HookEvent::ALL.into_iter().find(|event| event.name() == name)
    }

    pub fn subject(self) -> HookSubject {
        match self {
            HookEvent::PreToolUse
            | HookEvent::PermissionRequest
            | HookEvent::PermissionDenied
            | HookEvent::PostToolUse
            | HookEvent::PostToolUseFailure => HookSubject::Tool,
            HookEvent::SessionStart => HookSubject::Field("source"),
            HookEvent::SessionEnd => HookSubject::Field("reason"),
            HookEvent::StopFailure => HookSubject::Field("error"),
            HookEvent::PreCompact | HookEvent::PostCompact => HookSubject::Field("trigger"),
            HookEvent::SubagentStart | HookEvent::SubagentStop => HookSubject::Field("agent_type"),
            HookEvent::UserPromptSubmit
            | HookEvent::PostToolBatch
            | HookEvent::TodoCreated
            | HookEvent::TodoCompleted
            | HookEvent::Stop => HookSubject::None,
        }
    }

    pub fn power(self) -> HookPower {
        match self {
            HookEvent::UserPromptSubmit
            | HookEvent::PreToolUse
            | HookEvent::PermissionRequest
            | HookEvent::TodoCreated
            | HookEvent::TodoCompleted
            | HookEvent::PreCompact
            | HookEvent::Stop
            | HookEvent::SubagentStop => HookPower::Prevents,
            HookEvent::PostToolUse | HookEvent::PostToolUseFailure | HookEvent::PostToolBatch => {
                HookPower::TellsModel
            }
            HookEvent::SessionStart
            | HookEvent::PermissionDenied
            | HookEvent::SubagentStart
            | HookEvent::PostCompact
            | HookEvent::StopFailure
            | HookEvent::SessionEnd => HookPower::Watches,
        }
    }
}

/// Hooks for one event.
#[derive(Clone, Debug, PartialEq)]
pub struct HookRule {
    pub event: HookEvent,
    /// A regular expression for the event's subject; empty or `*` is everything.
    pub matcher: String,
    pub order: HookOrder,
    pub layer: HookLayer,
    pub hooks: Vec<Hook>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum HookOrder {
    #[default]
    SideBySide,
    /// One after the other; each sees what the one before it changed.
    InTurn,
}

/// Whose hook it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HookLayer {
    /// The user's own settings.
    User,
    /// A trusted project's settings.
    Project,
    /// `--settings`: whoever started the run.
    Flag,
    /// Whoever drives the run, over its control channel.
    Client,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Hook {
    pub run: HookRun,
    /// What messages call it.
    pub name: Option<String>,
    /// Shown while it runs, where somebody watches.
    pub status_message: Option<String>,
    pub wait: HookWait,
    pub on_error: Option<OnHookError>,
}

#[derive(Clone, PartialEq)]
pub enum HookRun {
    Command {
        command: String,
        shell: HookShell,
        env: BTreeMap<String, String>,
        timeout: Option<Duration>,
    },
    Http {
        url: String,
        headers: BTreeMap<String, String>,
        timeout: Option<Duration>,
    },
    /// A function of whoever drives the run.
    Client {
        callback_id: String,
        timeout: Option<Duration>,
    },
}

/// Headers and variables may be secrets: only their names are shown.
impl fmt::Debug for HookRun {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            HookRun::Command { command, shell, env, timeout } => f
                .debug_struct("Command")
                .field("command", command)
                .field("shell", shell)
                .field("env", &env.keys().collect::<Vec<_>>())
                .field("timeout", timeout)
                .finish(),
            HookRun::Http { url, headers, timeout } => f
                .debug_struct("Http")
                .field("url", url)
                .field("headers", &headers.keys().collect::<Vec<_>>())
                .field("timeout", timeout)
                .finish(),
            HookRun::Client { callback_id, timeout } => {
                f.debug_struct("Client").field("callback_id", callback_id).field("timeout", timeout).finish()
            }
        }
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum HookShell {
    #[default]
    Bash,
    Sh,
}

impl HookShell {
    pub const NAMES: [&'static str; 2] = ["bash", "sh"];

    pub fn name(self) -> &'static str {
        match self {
            HookShell::Bash => "bash",
            HookShell::Sh => "sh",
        }
    }
}

/// Whether the run waits for a hook.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum HookWait {
    #[default]
    ForItsAnswer,
    /// It is started and left alone; what it answers is not looked at.
    Not,
}

/// What becomes of a call whose `PreToolUse` hook failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnHookError {
    Block,
    Warn,
}

impl OnHookError {
    pub const NAMES: [&'static str; 2] = ["block", "warn"];
}

impl Hook {
    /// A guard that the user or the client put up and that does not work must not let calls through; a hook of
    /// anybody else never gets in the way by failing.
    pub fn on_error(&self, event: HookEvent, layer: HookLayer) -> OnHookError {
        match (event, layer, self.on_error) {
            (HookEvent::PreToolUse, _, Some(set)) => set,
            (HookEvent::PreToolUse, HookLayer::User | HookLayer::Flag | HookLayer::Client, None) => {
                OnHookError::Block
            }
            _ => OnHookError::Warn,
        }
    }
}

/// A hook that begins to run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HookStart {
    /// The same in the report of its end; each run of a hook has its own.
    pub id: u64,
    pub event: HookEvent,
    pub name: String,
    /// What its settings want to be shown meanwhile.
    pub status_message: Option<String>,
}

/// One hook that ran.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HookReport {
    pub id: u64,
    pub event: HookEvent,
    pub name: String,
    pub end: HookEnd,
    pub exit_code: Option<i32>,
    pub duration_ms: u64,
    /// What it answered, shortened. Never stored: it may quote anything it was told.
    pub stdout: String,
    /// What it complained about, or why it failed; shortened, and never stored either.
    pub stderr: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HookEnd {
    /// It answered, and did not say no.
    Success,
    Blocked,
    Failed,
    TimedOut,
    Cancelled,
    /// It runs on; nobody waits for it.
    Started,
}

impl HookEnd {
    pub fn name(self) -> &'static str {
        match self {
            HookEnd::Success => "success",
            HookEnd::Blocked => "blocked",
            HookEnd::Failed => "error",
            HookEnd::TimedOut => "timeout",
            HookEnd::Cancelled => "cancelled",
            HookEnd::Started => "started",
        }
    }
}

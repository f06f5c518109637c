//! The types of annotations, in the order of their keys. The doc comments are the descriptions in the published
//! schema; the lines that carry them are in `types.rs`.

use std::borrow::Cow;

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value};

use crate::values::{Raw, Uuid};

/// What the format of completions has no place for.
#[derive(Serialize, JsonSchema)]
#[serde(tag = "type")]
pub(crate) enum Annotation<'a> {
    #[serde(rename = "x-qwen-terminal")]
    Terminal(Terminal<'a>),
    #[serde(rename = "x-qwen-tool-display")]
    ToolDisplay(Box<ToolDisplay<'a>>),
    #[serde(rename = "x-qwen-thought")]
    Thought(Thought<'a>),
    #[serde(rename = "x-qwen-session-event")]
    SessionEvent(SessionEvent<'a>),
    #[serde(rename = "x-tenon-structured-partial")]
    StructuredPartial(StructuredPartial<'a>),
}

/// How the line's content, or a text of our own, belongs on a terminal.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Terminal<'a> {
    pub channel: Channel,
    pub source: Source,
    /// Offsets into the content, in UTF-16 code units.
    pub spans: Vec<Span>,
    /// Terminal sequences that were taken out of the content; empty without `--raw-ansi`.
    pub ansi: Vec<Ansi>,
    /// `info`, `warn` or `error` for texts of our own; `null` otherwise.
    pub console_level: Option<&'static str>,
    /// The exit code of the process, on the last line.
    pub exit_code: Option<u8>,
    pub prompt_id: String,
    pub log_scope: LogScope,
    /// A text of our own; `null` when the annotation is about the line's content.
    pub text: Option<Cow<'a, str>>,
}

#[derive(Clone, Copy, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Channel {
    Stdout,
    Stderr,
}

/// Whose words they are: the model's, a running tool's, our own, or the end of the flow.
#[derive(Clone, Copy, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Source {
    Assistant,
    Tool,
    Console,
    System,
}

/// For filtering: about the session, about a tool, or for those who look closely (thoughts, pieces).
#[derive(Clone, Copy, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum LogScope {
    System,
    Tool,
    Debug,
}

#[derive(Serialize, JsonSchema)]
pub(crate) struct Span {
    pub start: usize,
    pub end: usize,
    pub style: Style,
}

#[derive(Serialize, JsonSchema)]
pub(crate) struct Style {
    pub theme_token: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub(crate) struct Ansi {
    pub offset: usize,
    pub code: String,
}

/// A tool call, and what came of it.
#[derive(Serialize, JsonSchema)]
pub(crate) struct ToolDisplay<'a> {
    pub tool_call_id: &'a str,
    pub session_id: Uuid,
    pub tool_name: &'a str,
    pub status: ToolStatus,
    pub result_display: Option<ResultDisplay<'a>>,
    /// What waits for somebody's approval.
    pub confirmation: Option<Confirmation<'a>>,
    /// The call has not started yet.
    pub pending: bool,
    /// What the model called it with, as JSON text, while it is pending.
    pub arguments: Option<Cow<'a, str>>,
    /// Seconds since 1970.
    pub timestamp: u64,
    pub log_scope: LogScope,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub(crate) enum ToolStatus {
    /// The model made the call, and nothing has come of it yet.
    Pending,
    /// Somebody is asked.
    Confirming,
    Executing,
    Success,
    Error,
    Canceled,
}

/// A call that waits for approval.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Confirmation<'a> {
    /// `command`, `edit`, `mcp` or `info`.
    pub kind: &'static str,
    /// Why it is asked.
    pub reason: &'a str,
    pub arguments: &'a Map<String, Value>,
}

/// What is shown of a result.
#[derive(Serialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub(crate) enum ResultDisplay<'a> {
    String {
        /// At most 60 KiB as JSON; longer output has its middle left out.
        text: Cow<'a, str>,
    },
    FileDiff {
        file_name: &'a str,
        diff: Cow<'a, str>,
        /// The whole file before and after; `null` when it is too large.
        original: Option<Cow<'a, str>>,
        modified: Option<Cow<'a, str>>,
        stat: DiffStat,
    },
    TodoList {
        todos: Vec<Todo<'a>>,
    },
    PlanSummary {
        plan: Cow<'a, str>,
    },
    TaskExecution {
        subagent_type: &'a str,
        description: &'a str,
        status: &'static str,
        result: Option<Cow<'a, str>>,
        tool_calls: u64,
        total_tokens: u64,
        duration_ms: u64,
    },
}

#[derive(Serialize, JsonSchema)]
pub(crate) struct DiffStat {
    pub ai_added_lines: u64,
    pub ai_removed_lines: u64,
    /// Always 0: nobody else edits during a call.
    pub user_added_lines: u64,
    pub user_removed_lines: u64,
}

#[derive(Serialize, JsonSchema)]
pub(crate) struct Todo<'a> {
    pub id: &'a str,
    pub content: &'a str,
    pub status: &'static str,
}

/// What the model thought.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Thought<'a> {
    /// Its first line.
    pub subject: Cow<'a, str>,
    pub description: Cow<'a, str>,
    pub log_scope: LogScope,
}

/// News about the session.
#[derive(Serialize, JsonSchema)]
pub(crate) struct SessionEvent<'a> {
    /// `Retry`, `ModelFallback`, `ChatCompressed`, `TaskStarted`, `TaskFinished`, `Notification`, `Finished`,
    /// `MaxSessionTurns`, `MAX_TOKENS`, `USER_CANCELLED` or `Error`.
    pub event: &'static str,
    pub message: Cow<'a, str>,
    pub metrics: Option<EventMetrics>,
    pub log_scope: LogScope,
}

/// Tokens before and after.
#[derive(Clone, Copy, Serialize, JsonSchema)]
pub(crate) struct EventMetrics {
    pub original_tokens: u64,
    pub compressed_tokens: u64,
}

/// The payload so far: parsed, not validated, and only ever growing.
#[derive(Serialize, JsonSchema)]
pub(crate) struct StructuredPartial<'a> {
    pub tool_call_id: &'a str,
    pub snapshot: Raw<'a>,
    /// Always `false`: the accepted payload is on the last line.
    pub complete: bool,
    pub log_scope: LogScope,
}

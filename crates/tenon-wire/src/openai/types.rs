//! Every type on the wire of the `openai` dialect, in the order of its keys. The doc comments are the
//! descriptions in the published schema.
//!
//! A line with an `object` is what OpenAI's own clients take for a completion or a chunk: what they know has
//! their names and types, and everything else stands beside it (`annotations`, `metadata`, ids).

use std::borrow::Cow;

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Number, Value};

use crate::publish::publish;
use crate::stats::Stats;
use crate::values::{Raw, Uuid, error_classes};

/// The version of the protocol, in the first line and in a client's first request.
pub const PROTOCOL_VERSION: &str = "1";

/// The JSON Schema of this file.
pub(crate) fn published_schema() -> Value {
    publish::<Line<'static>>("openai")
}

/// What tenon writes in the `openai` dialect: any line of `stream-json` or `stream-chunk-json`, or the
/// object of `json`.
#[derive(Serialize, JsonSchema)]
#[serde(untagged)]
#[schemars(title = "tenon: output in the openai dialect")]
pub(crate) enum Line<'a> {
    Completion(Box<Completion<'a>>),
    Chunk(Box<Chunk<'a>>),
    Heartbeat(Heartbeat),
    Fatal(Fatal<'a>),
}

/// A whole message.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Completion<'a> {
    pub object: CompletionObject,
    /// The same for all lines of a session.
    pub id: String,
    /// Seconds since 1970.
    pub created: u64,
    pub model: &'a str,
    pub choices: [Choice<'a>; 1],
    /// Tokens of this answer; on the last line those of the whole run.
    pub usage: Option<Usage>,
    pub system_fingerprint: String,
    pub session_id: Uuid,
    /// The turn that this line belongs to.
    pub prompt_id: String,
    /// The call that this line works for, when a sub-agent wrote it.
    pub parent_tool_call_id: Option<&'a str>,
    pub annotations: Vec<Annotation<'a>>,
    pub metadata: Option<Metadata<'a>>,
}

/// A piece of a message.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Chunk<'a> {
    pub object: ChunkObject,
    /// The same for all lines of a session.
    pub id: String,
    /// Seconds since 1970.
    pub created: u64,
    pub model: &'a str,
    pub choices: [ChunkChoice<'a>; 1],
    /// On the last chunk of an answer its tokens; on the last line those of the whole run.
    pub usage: Option<Usage>,
    pub system_fingerprint: String,
    pub session_id: Uuid,
    /// The turn that this line belongs to.
    pub prompt_id: String,
    /// The call that this line works for, when a sub-agent wrote it.
    pub parent_tool_call_id: Option<&'a str>,
    pub annotations: Vec<Annotation<'a>>,
    pub metadata: Option<Metadata<'a>>,
}

#[derive(Clone, Copy, Serialize, JsonSchema)]
pub(crate) enum CompletionObject {
    #[serde(rename = "chat.completion")]
    Completion,
}

#[derive(Clone, Copy, Serialize, JsonSchema)]
pub(crate) enum ChunkObject {
    #[serde(rename = "chat.completion.chunk")]
    Chunk,
}

/// The one answer there is.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Choice<'a> {
    /// Always 0.
    pub index: u32,
    pub message: Message<'a>,
    pub logprobs: (),
    pub finish_reason: FinishReason,
}

/// What the model said.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Message<'a> {
    pub role: Role,
    pub content: Option<Cow<'a, str>>,
    pub refusal: (),
    /// Its calls; `null` when it made none.
    pub tool_calls: Option<Vec<ToolCall<'a>>>,
}

#[derive(Clone, Copy, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Role {
    Assistant,
}

/// A call, as the model made it.
#[derive(Serialize, JsonSchema)]
pub(crate) struct ToolCall<'a> {
    pub id: &'a str,
    pub r#type: CallType,
    pub function: Function<'a>,
}

#[derive(Clone, Copy, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum CallType {
    Function,
}

/// What is called.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Function<'a> {
    pub name: &'a str,
    /// JSON as text.
    pub arguments: Cow<'a, str>,
}

/// Why the message ends here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum FinishReason {
    Stop,
    ToolCalls,
    Length,
    ContentFilter,
}

/// The one answer there is, as it comes.
#[derive(Serialize, JsonSchema)]
pub(crate) struct ChunkChoice<'a> {
    /// Always 0.
    pub index: u32,
    pub delta: Delta<'a>,
    pub logprobs: (),
    /// On the last chunk of an answer.
    pub finish_reason: Option<FinishReason>,
}

/// What came. Keys that do not apply are absent.
#[derive(Default, Serialize, JsonSchema)]
pub(crate) struct Delta<'a> {
    /// On the first chunk of an answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub role: Option<Role>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub content: Option<Cow<'a, str>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tool_calls: Vec<ToolCallDelta<'a>>,
}

/// A piece of a call: its name first, then its arguments.
#[derive(Serialize, JsonSchema)]
pub(crate) struct ToolCallDelta<'a> {
    /// Which call of the answer, from 0.
    pub index: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub r#type: Option<CallType>,
    pub function: FunctionDelta<'a>,
}

/// A piece of what is called.
#[derive(Serialize, JsonSchema)]
pub(crate) struct FunctionDelta<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<&'a str>,
    pub arguments: &'a str,
}

/// Tokens.
#[derive(Clone, Copy, Serialize, JsonSchema)]
pub(crate) struct Usage {
    /// Includes cached tokens.
    pub prompt_tokens: u64,
    /// Includes reasoning.
    pub completion_tokens: u64,
    pub total_tokens: u64,
    pub prompt_tokens_details: PromptDetails,
    pub completion_tokens_details: CompletionDetails,
}

#[derive(Clone, Copy, Serialize, JsonSchema)]
pub(crate) struct PromptDetails {
    pub cached_tokens: u64,
}

#[derive(Clone, Copy, Serialize, JsonSchema)]
pub(crate) struct CompletionDetails {
    pub reasoning_tokens: u64,
}

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

#[derive(Clone, Copy, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Source {
    Assistant,
    Console,
    System,
}

#[derive(Clone, Copy, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum LogScope {
    System,
    Tool,
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
    /// Seconds since 1970.
    pub timestamp: u64,
    pub log_scope: LogScope,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub(crate) enum ToolStatus {
    Confirming,
    Executing,
    Success,
    Error,
    Canceled,
}

/// A call that waits for approval.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Confirmation<'a> {
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
}

/// News about the session.
#[derive(Serialize, JsonSchema)]
pub(crate) struct SessionEvent<'a> {
    /// `Retry`, `ModelFallback`, `ChatCompressed`, `TaskStarted`, `TaskFinished`, `Notification`, `Finished`,
    /// `MaxSessionTurns`, `MAX_TOKENS`, `USER_CANCELLED` or `Error`.
    pub event: &'static str,
    pub message: Cow<'a, str>,
    pub metrics: Option<EventMetrics>,
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
}

/// What a line says about the session rather than the conversation.
#[derive(Serialize, JsonSchema)]
#[serde(untagged)]
pub(crate) enum Metadata<'a> {
    Opening(Box<Opening<'a>>),
    Closing(Box<Closing<'a>>),
}

/// On the first line of every turn.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Opening<'a> {
    pub protocol_version: &'static str,
    pub input_format: &'a str,
    pub output_format: &'static str,
    pub capabilities: &'static [&'static str],
    /// The version of this format.
    pub schema_version: u32,
    /// The version of tenon.
    pub cli_version: &'a str,
    pub cwd: Cow<'a, str>,
    pub permission_mode: &'a str,
    /// Names of all registered tools.
    pub tools: &'a [String],
}

/// On the last line of a turn.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Closing<'a> {
    /// Always `true`.
    #[serde(rename = "final")]
    pub is_final: bool,
    pub status: Status,
    /// The payload as it was validated. The key is there exactly when a payload was accepted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub structured_result: Option<Raw<'a>>,
    pub usage: Usage,
    pub stats: Stats<'a>,
    /// Model requests.
    pub num_turns: u32,
    pub duration_ms: u64,
    pub duration_api_ms: u64,
    /// Dollars; `null` when the price is not known.
    pub total_cost_usd: Option<Number>,
    pub permission_denials: Vec<Denial<'a>>,
    pub warnings: &'a [String],
    /// Why the turn failed; `null` on success.
    pub error: Option<Failure<'a>>,
    /// Requests to the client that were not answered as they should have been, and what was done instead.
    pub control_errors: Vec<Cow<'a, str>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Status {
    Success,
    Error,
}

/// A tool call that was not allowed.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Denial<'a> {
    pub tool_name: &'a str,
    pub tool_call_id: &'a str,
    pub reason: &'a str,
}

/// Why the turn failed.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Failure<'a> {
    /// The exit code of the process, if this were its last turn.
    pub code: u8,
    #[schemars(schema_with = "error_classes")]
    pub class: &'static str,
    pub message: &'a str,
    pub retryable: Option<bool>,
    pub http_status: Option<u16>,
    pub hint: Option<&'a str>,
    /// What the model last offered against the schema, when a structured run failed.
    pub candidate: Option<Raw<'a>>,
}

/// A sign of life.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Heartbeat {
    pub r#type: HeartbeatType,
    pub session_id: Uuid,
    pub status: &'static str,
    /// Seconds since 1970.
    pub ts: u64,
}

#[derive(Clone, Copy, Serialize, JsonSchema)]
pub(crate) enum HeartbeatType {
    #[serde(rename = "result/heartbeat")]
    Heartbeat,
}

/// The run failed, and the process ends.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Fatal<'a> {
    pub error: FatalError<'a>,
}

/// Why it failed, in the form of OpenAI's errors.
#[derive(Serialize, JsonSchema)]
pub(crate) struct FatalError<'a> {
    pub message: &'a str,
    /// `invalid_request_error`, `authentication_error`, `rate_limit_error` or `api_error`.
    pub r#type: &'static str,
    pub param: Option<&'a str>,
    /// `TENON_` and the class of the failure.
    pub code: String,
    pub hint: Option<&'a str>,
    pub exit_code: u8,
    /// What the model last offered against the schema, when a structured run failed.
    pub structured_error: Option<Candidate<'a>>,
}

/// What the model last offered against the schema.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Candidate<'a> {
    pub attempts: u32,
    /// JSON as the model wrote it, or a string if it was no JSON. Not valid against the schema.
    pub candidate: Option<Raw<'a>>,
    pub violations: Vec<String>,
}

//! Every type on the wire of the `qwen` dialect, in the order of its keys. The doc comments are the
//! descriptions in the published schema.
//!
//! A field that exists is always there, `null` when empty: the clients of this dialect tell success from
//! failure by `subtype` and `is_error`, never by a missing `result` or `error`. The one exception are
//! `structured_result` and `structured_output`, whose presence is itself the sign that a payload was
//! accepted: their clients declare them as optional keys, and a program that asks "is the key there?"
//! must get the right answer.

use std::borrow::Cow;

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Number, Value};

use super::claude::{
    ClaudeInit, ClaudeMessage, ClaudeNotice, ClaudeResult, ClaudeStart, ClaudeUsage, without_own_fields,
};
use super::hook_lines::{HookResponse, HookStarted};
use crate::failure::{Failure, StructuredFailure};
use crate::publish::publish;
use crate::reply::{CommonReply, Reply};
use crate::stats::Stats;
use crate::values::{Raw, Uuid};

/// The JSON Schema of this file.
pub(crate) fn published_schema() -> Value {
    without_own_fields(publish::<Output<'static>>("qwen"))
}

/// What tenon writes in the `qwen` dialect: one line of `stream-json`, or the document of `json`.
#[derive(Serialize, JsonSchema)]
#[serde(untagged)]
#[schemars(title = "tenon: output in the qwen dialect")]
#[allow(
    dead_code,
    clippy::large_enum_variant,
    reason = "names the shapes for the schema; the encoder and `reply` write their lines"
)]
pub(crate) enum Output<'a> {
    /// One line.
    Line(Line<'a>),
    /// All messages of a run. The last one is the result.
    Document(Vec<Line<'a>>),
    /// In a session: an answer to the client, or a question.
    Reply(Reply<'a>),
    /// The same.
    Common(CommonReply<'a>),
}

/// One message.
#[derive(Serialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(crate) enum Line<'a> {
    System(System<'a>),
    Assistant(AssistantLine<'a>),
    User(UserLine<'a>),
    StreamEvent(StreamEventLine<'a>),
    Result(Box<ResultLine<'a>>),
}

/// News about the run itself.
#[derive(Serialize, JsonSchema)]
#[serde(tag = "subtype", rename_all = "snake_case")]
pub(crate) enum System<'a> {
    Init(Init<'a>),
    Heartbeat(Heartbeat),
    ModelFallback(Notice<'a, ModelFallbackData<'a>>),
    TaskStarted(Notice<'a, TaskStartedData<'a>>),
    TaskNotification(Notice<'a, TaskNotificationData<'a>>),
    HookStarted(HookStarted<'a>),
    HookResponse(HookResponse<'a>),
    CompactBoundary(Notice<'a, CompactBoundaryData>),
    /// Only in the `claude` dialect.
    ApiRetry(Notice<'a, ApiRetryData<'a>>),
    SessionRecordingDegraded(Notice<'a, RecordingDegradedData<'a>>),
}

/// The first line of every run: who runs, with what.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Init<'a> {
    /// Equals `session_id`.
    pub uuid: Uuid,
    pub session_id: Uuid,
    pub cwd: Cow<'a, str>,
    /// Names of all registered tools.
    pub tools: &'a [String],
    pub mcp_servers: Vec<McpServer<'a>>,
    pub model: &'a str,
    pub permission_mode: &'a str,
    pub slash_commands: &'a [String],
    /// The version of tenon, under the name that clients of this dialect read.
    pub qwen_code_version: &'a str,
    pub agents: &'a [String],
    /// The same as `permission_mode`.
    #[serde(rename = "permissionMode")]
    pub permission_mode_camel: &'a str,
    /// The version of this format.
    pub schema_version: u32,
    /// The version of tenon.
    pub cli_version: &'a str,
    /// What binds shell commands: `off`, `unavailable`, `files` or `files+network`.
    pub sandbox: &'a str,
    /// What whoever started the run calls itself (`--channel`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub channel: Option<&'a str>,
    #[serde(flatten)]
    pub claude: Option<ClaudeInit<'a>>,
}

/// An MCP server and whether it is there.
#[derive(Serialize, JsonSchema)]
pub(crate) struct McpServer<'a> {
    pub name: &'a str,
    pub status: McpStatus,
}

/// A server that is connecting may still come up during the run.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum McpStatus {
    Connected,
    Connecting,
    Disconnected,
}

/// Nothing happened for a while, and that is all right.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Heartbeat {
    pub uuid: Uuid,
    pub session_id: Uuid,
    pub data: HeartbeatData,
}

/// When the heartbeat was.
#[derive(Serialize, JsonSchema)]
pub(crate) struct HeartbeatData {
    /// Seconds since 1970.
    pub ts: u64,
    pub status: HeartbeatStatus,
}

/// How the run is.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum HeartbeatStatus {
    Ok,
}

/// Something that happened beside the conversation.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "{Data}Notice")]
pub(crate) struct Notice<'a, Data> {
    pub uuid: Uuid,
    pub session_id: Uuid,
    pub parent_tool_use_id: Option<&'a str>,
    pub data: Data,
    #[serde(flatten)]
    pub claude: Option<ClaudeNotice<'a>>,
}

/// Work goes on in the background; exactly one `task_notification` ends it.
#[derive(Serialize, JsonSchema)]
pub(crate) struct TaskStartedData<'a> {
    pub task_id: &'a str,
    /// The call that started it.
    pub tool_use_id: Option<&'a str>,
    /// `shell`, `monitor` or `agent`.
    pub kind: &'a str,
    pub description: &'a str,
    /// The type of a sub-agent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subagent_type: Option<&'a str>,
}

/// How background work ended.
#[derive(Serialize, JsonSchema)]
pub(crate) struct TaskNotificationData<'a> {
    pub task_id: &'a str,
    pub tool_use_id: Option<&'a str>,
    pub kind: &'a str,
    /// `completed`, `failed` or `cancelled`.
    pub status: &'a str,
    pub summary: &'a str,
    pub output_file: Option<Cow<'a, str>>,
    pub usage: TaskUsage,
}

/// What the work took.
#[derive(Clone, Copy, Serialize, JsonSchema)]
pub(crate) struct TaskUsage {
    /// Tokens of a sub-agent; 0 for commands.
    pub total_tokens: u64,
    /// Tools that a sub-agent called; 0 for commands.
    pub tool_uses: u64,
    pub duration_ms: u64,
}

/// Older parts of the conversation were replaced by a summary.
#[derive(Serialize, JsonSchema)]
pub(crate) struct CompactBoundaryData {
    /// `auto` or `manual`.
    pub trigger: &'static str,
    pub before_tokens: u64,
    pub after_tokens: u64,
}

/// A model request failed and is made again after a while.
#[derive(Serialize, JsonSchema)]
pub(crate) struct ApiRetryData<'a> {
    /// The attempt that follows.
    pub attempt: u32,
    pub wait_ms: u64,
    pub class: &'static str,
    pub message: &'a str,
}

/// A model could not answer, and another one is asked from here on: who gave up, and who takes over.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ModelFallbackData<'a> {
    pub from_model: &'a str,
    pub to_model: &'a str,
    /// What the first one answered with; `null` when that was not an HTTP status.
    pub status_code: Option<u16>,
    /// 1 for the first of `--fallback-model`.
    pub fallback_index: u32,
}

/// The session is not kept from here on: it can be resumed up to this point, or not at all. The run goes on.
#[derive(Serialize, JsonSchema)]
pub(crate) struct RecordingDegradedData<'a> {
    pub session_id: Uuid,
    pub reason: RecordingDegradedReason,
    /// One sentence for people.
    pub message: &'a str,
}

#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum RecordingDegradedReason {
    WriteFailed,
}

/// One message of the model: blocks of one type, so a turn that thinks, speaks and calls gives three.
#[derive(Serialize, JsonSchema)]
pub(crate) struct AssistantLine<'a> {
    pub uuid: Uuid,
    pub session_id: Uuid,
    /// The call that this message works for, when a sub-agent wrote it.
    pub parent_tool_use_id: Option<&'a str>,
    pub message: AssistantMessage<'a>,
}

/// The message of an `assistant` line.
#[derive(Serialize, JsonSchema)]
pub(crate) struct AssistantMessage<'a> {
    /// Equals the line's `uuid`.
    pub id: Uuid,
    pub r#type: MessageType,
    pub role: AssistantRole,
    pub model: &'a str,
    pub content: Vec<AssistantBlock<'a>>,
    /// `tool_use` when the message is made of calls.
    pub stop_reason: Option<StopReason>,
    #[serde(flatten)]
    pub claude: Option<ClaudeMessage>,
    /// Tokens of the whole model turn on its last message, zeros on the ones before.
    pub usage: Usage,
}

/// What kind of object a message is.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum MessageType {
    Message,
}

/// Who wrote an `assistant` line.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum AssistantRole {
    Assistant,
}

/// Why the message ended.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum StopReason {
    ToolUse,
}

/// A piece of a message of the model.
#[derive(Serialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(crate) enum AssistantBlock<'a> {
    Text {
        text: &'a str,
    },
    /// Reasoning that the model showed.
    Thinking {
        thinking: &'a str,
        /// Empty: signatures stay with the provider they came from.
        signature: &'a str,
    },
    /// A tool call. Arguments that are no JSON object are shown as `{"_raw": "…"}`.
    ToolUse {
        id: &'a str,
        name: &'a str,
        input: Raw<'a>,
    },
}

/// The result of one tool call.
#[derive(Serialize, JsonSchema)]
pub(crate) struct UserLine<'a> {
    pub uuid: Uuid,
    pub session_id: Uuid,
    /// The call that this message works for, when a sub-agent made the call.
    pub parent_tool_use_id: Option<&'a str>,
    pub message: UserMessage<'a>,
}

/// The message of a `user` line.
#[derive(Serialize, JsonSchema)]
pub(crate) struct UserMessage<'a> {
    pub role: UserRole,
    pub content: [UserBlock<'a>; 1],
}

/// Who tells the model: the results of calls come as a user's message.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum UserRole {
    User,
}

/// A piece of a `user` message.
#[derive(Serialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(crate) enum UserBlock<'a> {
    ToolResult {
        tool_use_id: &'a str,
        is_error: bool,
        /// At most 60 KiB as JSON; longer output has its middle left out.
        content: Cow<'a, str>,
    },
    /// What the model was told between turns.
    Text { text: Cow<'a, str> },
}

/// A piece of a message while it arrives. Only with `--include-partial-messages`.
#[derive(Serialize, JsonSchema)]
pub(crate) struct StreamEventLine<'a> {
    pub uuid: Uuid,
    pub session_id: Uuid,
    /// The call that this event works for, when it comes from a sub-agent.
    pub parent_tool_use_id: Option<&'a str>,
    pub event: StreamEvent<'a>,
}

/// What arrived.
#[derive(Serialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(crate) enum StreamEvent<'a> {
    /// A model turn begins.
    MessageStart {
        message: StartedMessage<'a>,
    },
    /// A block begins; `index` counts the blocks of the current `assistant` message, in `claude` those of the turn.
    ContentBlockStart {
        index: usize,
        content_block: AssistantBlock<'a>,
    },
    ContentBlockDelta {
        index: usize,
        delta: BlockDelta<'a>,
    },
    ContentBlockStop {
        index: usize,
    },
    /// How the turn ended, in the `claude` dialect.
    MessageDelta {
        delta: MessageEnd,
        usage: Usage,
    },
    /// The model turn is over.
    MessageStop,
    /// A sign of life of a tool that takes long.
    ToolProgress {
        tool_use_id: &'a str,
        content: Progress<'a>,
    },
    /// The payload so far: parsed, not validated, and only ever growing.
    StructuredPartial {
        tool_use_id: &'a str,
        snapshot: Raw<'a>,
        /// Always `false`: the accepted payload is in the result.
        complete: bool,
    },
}

/// The message that a turn begins with.
#[derive(Serialize, JsonSchema)]
pub(crate) struct StartedMessage<'a> {
    /// The `uuid` of the turn's first `assistant` message.
    pub id: Uuid,
    pub role: AssistantRole,
    pub model: &'a str,
    /// Empty.
    pub content: [(); 0],
    #[serde(flatten)]
    pub claude: Option<ClaudeStart>,
}

/// Why the model stopped.
#[derive(Serialize, JsonSchema)]
pub(crate) struct MessageEnd {
    /// `end_turn`, `tool_use`, or `null` where the answer was cut off.
    pub stop_reason: Option<&'static str>,
    pub stop_sequence: (),
}

/// What is added to a block.
#[derive(Serialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
#[allow(clippy::enum_variant_names, reason = "the names on the wire")]
pub(crate) enum BlockDelta<'a> {
    TextDelta {
        text: &'a str,
    },
    ThinkingDelta {
        thinking: &'a str,
    },
    /// The next piece of a call's arguments, which together are `input`.
    InputJsonDelta {
        partial_json: &'a str,
    },
}

/// How far a tool is.
#[derive(Serialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case", rename_all_fields = "camelCase")]
pub(crate) enum Progress<'a> {
    ShellProgress {
        elapsed_ms: u64,
        /// How long ago the command last wrote something; `null` if it never did.
        last_output_age_ms: Option<u64>,
        total_lines: u64,
        total_bytes: u64,
        timeout_ms: u64,
    },
    /// As the tool's server says it.
    McpToolProgress {
        #[schemars(with = "f64")]
        progress: &'a Number,
        #[schemars(with = "Option<f64>")]
        total: Option<&'a Number>,
        message: Option<&'a str>,
    },
}

/// How the run ended. The last line, always.
#[derive(Serialize, JsonSchema)]
pub(crate) struct ResultLine<'a> {
    pub subtype: Subtype,
    pub uuid: Uuid,
    pub session_id: Uuid,
    pub is_error: bool,
    pub duration_ms: u64,
    /// Time spent waiting for models.
    pub duration_api_ms: u64,
    /// Model requests.
    pub num_turns: u32,
    /// The last text of the model, or the payload as text. `null` when the run failed, and with
    /// `--result-text off` in a structured run.
    pub result: Option<&'a str>,
    /// Tokens of the whole run, over all models.
    pub usage: Usage,
    pub permission_denials: Vec<PermissionDenial<'a>>,
    /// Numbers by model and tool, sub-agents included.
    pub stats: Stats<'a>,
    /// The payload as it was validated. The key is there exactly when a payload was accepted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub structured_result: Option<Raw<'a>>,
    /// The same as `structured_result`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub structured_output: Option<Raw<'a>>,
    /// Dollars; `null` when the price is not known.
    pub total_cost_usd: Option<f64>,
    /// Things to know although the run went on.
    pub warnings: &'a [String],
    /// Why the run failed; `null` on success.
    pub error: Option<Failure<'a>>,
    /// What the model last offered against the schema, when a structured run failed.
    pub structured_error: Option<StructuredFailure<'a>>,
    /// The version of this format, also when the run failed before its first line.
    pub schema_version: u32,
    /// The version of tenon.
    pub cli_version: &'a str,
    #[serde(flatten)]
    pub claude: Option<ClaudeResult<'a>>,
}

/// How the run ended, in a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Subtype {
    Success,
    ErrorMaxTurns,
    ErrorMaxStructuredOutputRetries,
    /// The money is spent.
    ErrorMaxBudgetUsd,
    /// Time or tool calls are spent.
    ErrorBudgetExceeded,
    /// Everything else; see `error.class`.
    ErrorDuringExecution,
}

/// Tokens.
#[derive(Clone, Copy, Default, Serialize, JsonSchema)]
pub(crate) struct Usage {
    /// Includes cached tokens.
    pub input_tokens: u64,
    /// Includes reasoning.
    pub output_tokens: u64,
    pub cache_read_input_tokens: u64,
    pub total_tokens: u64,
    pub cache_creation_input_tokens: u64,
    pub reasoning_tokens: u64,
    #[serde(flatten)]
    pub claude: Option<ClaudeUsage>,
}

/// A tool call that was not allowed.
#[derive(Serialize, JsonSchema)]
pub(crate) struct PermissionDenial<'a> {
    pub tool_name: &'a str,
    pub tool_use_id: &'a str,
    pub tool_input: Raw<'a>,
    pub reason: &'a str,
}

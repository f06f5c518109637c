//! Every type on the wire of the `openai` dialect, in the order of its keys. The doc comments are the
//! descriptions in the published schema.
//!
//! A line with an `object` is what OpenAI's own clients take for a completion or a chunk: what they know has
//! their names and types, and everything else stands beside it (`annotations`, `metadata`, ids).

use std::borrow::Cow;

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Number, Value};

use super::annotation_types::Annotation;
use crate::failure::{Failure, StructuredFailure};
use crate::publish::publish;
use crate::reply::{CommonReply, FlatReply};
use crate::stats::Stats;
use crate::values::{Raw, Uuid};

/// The version of the protocol, in the first line and in a client's first request.
pub const PROTOCOL_VERSION: &str = "1";

/// The JSON Schema of this file.
pub(crate) fn published_schema() -> Value {
    publish::<Output<'static>>("openai")
}

/// What tenon writes in the `openai` dialect: any line of `stream-json` or `stream-chunk-json`, or the
/// object of `json`.
#[derive(Serialize, JsonSchema)]
#[serde(untagged)]
#[schemars(title = "tenon: output in the openai dialect")]
#[allow(dead_code, reason = "names the shapes for the schema; the encoder and `reply` write their lines")]
pub(crate) enum Output<'a> {
    Line(Line<'a>),
    /// In a session: an answer to the client, or a question.
    Reply(FlatReply<'a>),
    /// The same.
    Common(CommonReply<'a>),
}

/// A line of a run.
#[derive(Serialize, JsonSchema)]
#[serde(untagged)]
pub(crate) enum Line<'a> {
    Completion(Box<Completion<'a>>),
    Chunk(Box<Chunk<'a>>),
    Heartbeat(Heartbeat),
    Fatal(Fatal<'a>),
}

/// A whole message.
pub(crate) type Completion<'a> = Told<'a, CompletionObject, Choice<'a>>;

/// A piece of a message.
pub(crate) type Chunk<'a> = Told<'a, ChunkObject, ChunkChoice<'a>>;

/// A message, or a piece of one.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Told{Object}")]
pub(crate) struct Told<'a, Object, Choice> {
    pub object: Object,
    /// The same for all lines of a session.
    pub id: String,
    /// Seconds since 1970.
    pub created: u64,
    /// Who answered; on lines without an answer, who was asked first.
    pub model: &'a str,
    pub choices: [Choice; 1],
    /// Tokens of an answer where it ends; on the last line those of the whole run.
    pub usage: Option<Usage>,
    pub system_fingerprint: Option<String>,
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
    /// Only where a session ends at once because the client speaks another version.
    Error,
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
    /// On the first chunk of a turn, and on no other.
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

/// What a line says about the session rather than the conversation.
#[derive(Serialize, JsonSchema)]
#[serde(untagged)]
pub(crate) enum Metadata<'a> {
    Opening(Box<Opening<'a>>),
    Closing(Box<Closing<'a>>),
    Unsupported(Unsupported<'a>),
}

/// On the only line for a client that speaks another version.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Unsupported<'a> {
    /// Always `unsupported_protocol`.
    pub error: &'static str,
    pub message: &'a str,
    /// The version there is.
    pub protocol_version: &'static str,
}

/// On the first line of every turn: which version is spoken, and what a client can count on.
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
    /// What the model last offered against the schema, when a structured run failed.
    pub structured_error: Option<StructuredFailure<'a>>,
    /// Requests to the client that were not answered as they should have been, and what was done instead.
    pub control_errors: Vec<Cow<'a, str>>,
    /// As on the first line, for whoever reads only this one.
    pub protocol_version: &'static str,
    pub schema_version: u32,
    pub cli_version: &'a str,
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
    pub structured_error: Option<StructuredFailure<'a>>,
}

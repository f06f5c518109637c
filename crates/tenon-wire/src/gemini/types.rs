//! Every type on the wire of the `gemini` dialect, in the order of its keys. The doc comments are the
//! descriptions in the published schema.
//!
//! Keys that do not apply are absent here, not `null`: this dialect's clients tell an error from a success
//! by the presence of `error`.

use std::borrow::Cow;
use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use crate::publish::publish;
use crate::stats::Stats;
use crate::values::{Raw, Uuid};

/// The JSON Schema of this file.
pub(crate) fn published_schema() -> Value {
    publish::<Output<'static>>("gemini")
}

/// What tenon writes in the `gemini` dialect: one line of `stream-json`, or the object of `json`.
#[derive(Serialize, JsonSchema)]
#[serde(untagged)]
#[schemars(title = "tenon: output in the gemini dialect")]
#[allow(dead_code, reason = "names the two shapes for the schema; the encoder writes them")]
pub(crate) enum Output<'a> {
    /// One line.
    Line(Line<'a>),
    /// The whole run.
    Document(Document<'a>),
}

/// The object of the `json` format.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Document<'a> {
    /// The version of this format.
    pub version: u32,
    pub session_id: Uuid,
    /// The last text of the model, or the payload as text; absent when the run failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub response: Option<Cow<'a, str>>,
    /// The payload as it was validated. The key is there exactly when a payload was accepted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub structured_result: Option<Raw<'a>>,
    /// Numbers by model and tool; absent when the run failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stats: Option<Stats<'a>>,
    /// Why the run failed; absent on success.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<ErrorObject<'a>>,
    /// Things to know although the run went on; absent when there are none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<Cow<'a, str>>,
}

/// One line.
#[derive(Serialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(crate) enum Line<'a> {
    Init(Init<'a>),
    Message(Message<'a>),
    ToolUse(ToolUse<'a>),
    ToolResult(ToolResult<'a>),
    Error(ErrorLine<'a>),
    Heartbeat(Heartbeat),
    Result(Box<ResultLine<'a>>),
}

/// The first line of every run.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Init<'a> {
    /// ISO 8601, UTC, with milliseconds.
    pub timestamp: String,
    pub session_id: Uuid,
    pub model: &'a str,
    /// The version of this format.
    pub schema_version: u32,
    /// The version of tenon.
    pub cli_version: &'a str,
}

/// What somebody said.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Message<'a> {
    pub timestamp: String,
    pub role: Role,
    /// Without terminal sequences.
    pub content: Cow<'a, str>,
    /// `true` on the pieces of an answer; absent on what the user said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delta: Option<bool>,
}

/// Who spoke.
#[derive(Clone, Copy, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Role {
    User,
    Assistant,
}

/// A call, as the model made it.
#[derive(Serialize, JsonSchema)]
pub(crate) struct ToolUse<'a> {
    pub timestamp: String,
    pub tool_name: &'a str,
    pub tool_id: &'a str,
    pub parameters: Raw<'a>,
}

/// What came of a call.
#[derive(Serialize, JsonSchema)]
pub(crate) struct ToolResult<'a> {
    pub timestamp: String,
    pub tool_id: &'a str,
    pub status: Status,
    /// At most 60 KiB as JSON; longer output has its middle left out.
    pub output: Cow<'a, str>,
    /// Why the call failed; absent when it did not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<ToolError<'a>>,
}

/// How it went.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Status {
    Success,
    Error,
}

/// Why a call failed.
#[derive(Serialize, JsonSchema)]
pub(crate) struct ToolError<'a> {
    /// `invalid_tool_params`, `tool_not_registered`, `policy_violation`, `execution_cancelled`,
    /// `execution_timeout` or `execution_failed`.
    pub r#type: &'static str,
    pub message: Cow<'a, str>,
}

/// Something went wrong that is worth a line.
#[derive(Serialize, JsonSchema)]
pub(crate) struct ErrorLine<'a> {
    pub timestamp: String,
    pub severity: Severity,
    pub message: Cow<'a, str>,
}

/// How bad it is.
#[derive(Clone, Copy, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Severity {
    Warning,
    /// The run cannot go on; its result follows.
    Error,
}

/// Nothing happened for a while, and that is all right.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Heartbeat {
    pub timestamp: String,
}

/// How the run ended. The last line, always.
#[derive(Serialize, JsonSchema)]
pub(crate) struct ResultLine<'a> {
    pub timestamp: String,
    pub status: Status,
    /// Why the run failed; absent on success.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<ErrorObject<'a>>,
    pub stats: StreamStats<'a>,
    /// The payload as text, in a structured run that succeeded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub response: Option<&'a str>,
    /// The payload as it was validated. The key is there exactly when a payload was accepted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub structured_result: Option<Raw<'a>>,
}

/// Why the run failed.
#[derive(Serialize, JsonSchema)]
pub(crate) struct ErrorObject<'a> {
    /// A name such as `MaxSessionTurnsError` or `FatalConfigError`; `Error` where there is none of its own.
    pub r#type: &'static str,
    pub message: Cow<'a, str>,
    /// The exit code of the process.
    pub code: u8,
}

/// Numbers of the whole run.
#[derive(Serialize, JsonSchema)]
pub(crate) struct StreamStats<'a> {
    #[serde(flatten)]
    pub tokens: StreamTokens,
    pub duration_ms: u64,
    pub tool_calls: u64,
    pub models: BTreeMap<&'a str, StreamTokens>,
}

/// Tokens.
#[derive(Clone, Copy, Serialize, JsonSchema)]
pub(crate) struct StreamTokens {
    pub total_tokens: u64,
    /// Includes cached tokens.
    pub input_tokens: u64,
    pub output_tokens: u64,
    pub cached: u64,
    /// Input that was not cached.
    pub input: u64,
}

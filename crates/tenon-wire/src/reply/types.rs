//! Every line that answers a client or asks it something, in the order of its keys. The doc comments are the
//! descriptions in the published schema. The lines of a run are in the folder of each dialect.

use std::borrow::Cow;

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value};

use crate::values::{Raw, Uuid};

/// A line that is no part of a run, in the `qwen` and `claude` dialects.
#[derive(Serialize, JsonSchema)]
#[serde(tag = "type")]
pub(crate) enum Reply<'a> {
    /// tenon asks the client; a `control_response` with the same id answers it.
    #[serde(rename = "control_request")]
    ControlRequest { request_id: &'a str, request: Request<'a> },
    /// The answer to a request of the client.
    #[serde(rename = "control_response")]
    ControlResponse { response: Response<'a> },
    /// A record of the session, as it is kept. Only with `--session-mirror`.
    #[serde(rename = "transcript_mirror")]
    TranscriptMirror {
        /// Where the client believes the session to lie: how it names it.
        #[serde(rename = "filePath")]
        file_path: &'a str,
        /// One record, of `type` and more.
        entries: [Raw<'a>; 1],
    },
    #[serde(rename = "system")]
    System(SystemReply<'a>),
}

/// A line that is no part of a run, in the `openai` dialect.
#[derive(Serialize, JsonSchema)]
#[serde(tag = "type")]
pub(crate) enum FlatReply<'a> {
    /// tenon asks the client; a `control_response` with the same id answers it.
    #[serde(rename = "control_request")]
    ControlRequest(FlatRequest<'a>),
    /// The answer to a request of the client.
    #[serde(rename = "control_response")]
    ControlResponse { request_id: &'a str, response: FlatResponse<'a> },
    /// A line that could not be read; the session goes on.
    #[serde(rename = "result/error")]
    Error {
        session_id: Uuid,
        /// The turn that it would have been, where that is known.
        prompt_id: Option<&'a str>,
        line: u64,
        error: LineError<'a>,
    },
    /// What became of a command.
    #[serde(rename = "result/command")]
    Command {
        session_id: Uuid,
        prompt_id: Option<&'a str>,
        /// How the command was understood: `kind`, `path` and `args`.
        command: &'a Value,
        /// What came of it: a `message`, a `dialog`, a `tool` or a `submit_prompt`, by its `type`.
        result: &'a Value,
    },
    #[serde(rename = "result/heartbeat")]
    Heartbeat { session_id: Uuid, status: &'static str, ts: u64 },
}

/// A line that is no part of a run, the same in all dialects.
#[derive(Serialize, JsonSchema)]
#[serde(tag = "type")]
pub(crate) enum CommonReply<'a> {
    /// An answer to this request of tenon's is no longer wanted.
    #[serde(rename = "control_cancel_request")]
    ControlCancelRequest { request_id: &'a str },
    #[serde(rename = "result/cancel")]
    Cancel(Cancel<'a>),
    #[serde(rename = "result/command_hint")]
    Hint(HintReply<'a>),
}

/// What tenon asks.
#[derive(Serialize, JsonSchema)]
#[serde(tag = "subtype", rename_all = "snake_case")]
pub(crate) enum Request<'a> {
    /// May this call be made? Answered with `{"behavior": "allow", "updatedInput"?, "updatedPermissions"?}` or
    /// `{"behavior": "deny", "message", "interrupt"?}`.
    CanUseTool {
        tool_name: &'a str,
        tool_use_id: &'a str,
        input: &'a Map<String, Value>,
        /// Ways to answer that a client may offer to a person: in `claude`, changes that can be sent back as
        /// `updatedPermissions`.
        permission_suggestions: Vec<SuggestionItem<'a>>,
        /// Always `null`; not there in `claude`.
        #[serde(skip_serializing_if = "Option::is_none")]
        blocked_path: Option<()>,
        /// Why it is asked.
        decision_reason: &'a str,
        /// The sub-agent that wants to make the call; not there for the run's own.
        #[serde(skip_serializing_if = "Option::is_none")]
        agent_id: Option<&'a str>,
    },
    /// A hook that the client registered in `initialize`.
    HookCallback { callback_id: &'a str, input: Cow<'a, Value>, tool_use_id: Option<&'a str> },
    /// JSON-RPC for a server in the client's process; answered with `{"mcp_response": …}`.
    McpMessage { server_name: &'a str, message: &'a Value },
}

/// What tenon asks, in the `openai` dialect.
#[derive(Serialize, JsonSchema)]
#[serde(tag = "subtype", rename_all = "snake_case")]
pub(crate) enum FlatRequest<'a> {
    /// May this call be made? Answered with a `result` of `{"behavior": "approve"}` or `{"behavior": "deny", "message"}`.
    CanUseTool {
        request_id: &'a str,
        session_id: Uuid,
        prompt_id: Option<&'a str>,
        tool: AskedTool<'a>,
        tool_call_id: &'a str,
        metadata: AskedWhy<'a>,
    },
    /// A hook that the client registered in `initialize`.
    HookCallback {
        request_id: &'a str,
        session_id: Uuid,
        prompt_id: Option<&'a str>,
        callback_id: &'a str,
        input: &'a Value,
        tool_call_id: Option<&'a str>,
    },
    /// JSON-RPC for a server in the client's process; answered with a `result` of `{"mcp_response": …}`.
    McpMessage {
        request_id: &'a str,
        session_id: Uuid,
        prompt_id: Option<&'a str>,
        server_name: &'a str,
        message: &'a Value,
    },
}

/// The call that is asked about.
#[derive(Serialize, JsonSchema)]
pub(crate) struct AskedTool<'a> {
    pub name: &'a str,
    pub arguments: &'a Map<String, Value>,
}

/// Why it is asked.
#[derive(Serialize, JsonSchema)]
pub(crate) struct AskedWhy<'a> {
    pub reason: &'a str,
}

/// A way to answer that a client may offer to a person.
#[derive(Serialize, JsonSchema)]
#[serde(untagged)]
pub(crate) enum SuggestionItem<'a> {
    /// In `qwen`.
    Answer(SuggestedAnswer<'a>),
    /// In `claude`.
    Update(SuggestedUpdate<'a>),
}

/// An answer, as a button.
#[derive(Serialize, JsonSchema)]
pub(crate) struct SuggestedAnswer<'a> {
    /// `allow`, `deny` or `modify`.
    pub r#type: &'a str,
    pub label: &'a str,
    pub description: &'a str,
}

/// A change after which it need not be asked again.
#[derive(Serialize, JsonSchema)]
#[serde(tag = "type", rename_all = "camelCase")]
pub(crate) enum SuggestedUpdate<'a> {
    AddRules { rules: [SuggestedRule<'a>; 1], behavior: &'static str, destination: &'static str },
    SetMode { mode: &'static str, destination: &'static str },
}

#[derive(Serialize, JsonSchema)]
pub(crate) struct SuggestedRule<'a> {
    #[serde(rename = "toolName")]
    pub tool_name: &'a str,
    #[serde(rename = "ruleContent", skip_serializing_if = "Option::is_none")]
    pub rule_content: Option<&'a str>,
}

/// What the client is answered.
#[derive(Serialize, JsonSchema)]
#[serde(tag = "subtype", rename_all = "snake_case")]
pub(crate) enum Response<'a> {
    Success { request_id: &'a str, response: &'a Value },
    Error { request_id: &'a str, error: &'a str },
}

/// What the client is answered, in the `openai` dialect.
#[derive(Serialize, JsonSchema)]
#[serde(tag = "subtype", rename_all = "snake_case")]
pub(crate) enum FlatResponse<'a> {
    Success { result: &'a Value },
    Error { error: ControlError<'a> },
}

/// Why a request could not be answered.
#[derive(Serialize, JsonSchema)]
pub(crate) struct ControlError<'a> {
    pub message: &'a str,
    /// Always `false`: the same request would be answered the same way.
    pub retryable: bool,
}

/// News about the connection.
#[derive(Serialize, JsonSchema)]
#[serde(tag = "subtype", rename_all = "snake_case")]
pub(crate) enum SystemReply<'a> {
    /// A line that could not be read; the session goes on.
    InputError { uuid: Uuid, session_id: Uuid, parent_tool_use_id: (), data: InputErrorData<'a> },
    /// What became of a command.
    CommandResult { uuid: Uuid, session_id: Uuid, parent_tool_use_id: (), data: CommandData<'a> },
    /// Whether a turn runs, waits for the client, or none does. In `claude`, for clients that ask for it.
    SessionStateChanged { state: &'static str, sdk_host_only: bool, uuid: Uuid, session_id: Uuid },
    /// A sign of life.
    Heartbeat { uuid: Uuid, session_id: Uuid, data: HeartbeatReply },
    /// The client speaks a version that there is not; the session ends.
    UnsupportedProtocol { uuid: Uuid, session_id: Uuid, parent_tool_use_id: (), data: UnsupportedData<'a> },
}

/// Which line it was, and what is wrong with it.
#[derive(Serialize, JsonSchema)]
pub(crate) struct InputErrorData<'a> {
    /// Counts the client's lines from 1.
    pub line: u64,
    pub error: &'a str,
    /// The turn that it would have been, where that is known.
    pub prompt_id: Option<&'a str>,
}

/// When the heartbeat was.
#[derive(Serialize, JsonSchema)]
pub(crate) struct HeartbeatReply {
    /// Seconds since 1970.
    pub ts: u64,
    pub status: &'static str,
}

/// Which version there is.
#[derive(Serialize, JsonSchema)]
pub(crate) struct UnsupportedData<'a> {
    pub error: &'a str,
    pub protocol_version: &'static str,
}

/// What is wrong with a line, in the form of OpenAI's errors.
#[derive(Serialize, JsonSchema)]
pub(crate) struct LineError<'a> {
    pub message: &'a str,
    pub r#type: &'static str,
    pub param: (),
    pub code: &'static str,
}

/// What became of a cancellation.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Cancel<'a> {
    pub session_id: Uuid,
    pub prompt_id: Option<&'a str>,
    /// `ok`, or `noop` when there was nothing to cancel.
    pub status: &'static str,
    pub message: &'a str,
}

/// What became of a command.
#[derive(Serialize, JsonSchema)]
pub(crate) struct CommandData<'a> {
    pub prompt_id: Option<&'a str>,
    /// How the command was understood: `kind`, `path` and `args`.
    pub command: &'a Value,
    /// What came of it: a `message`, a `dialog`, a `tool` or a `submit_prompt`, by its `type`.
    pub result: &'a Value,
}

/// What could be meant by what was typed so far.
#[derive(Serialize, JsonSchema)]
pub(crate) struct HintReply<'a> {
    pub session_id: Uuid,
    pub prompt_id: Option<&'a str>,
    /// `slash` or `at`.
    pub trigger: &'a str,
    /// `ok`, `loading` or `error`.
    pub status: &'static str,
    /// Why there are no suggestions, when `status` is `error`.
    pub message: Option<&'a str>,
    pub suggestions: Vec<Suggested<'a>>,
    pub metadata: HintMetadata,
}

/// One thing that could be meant.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Suggested<'a> {
    pub label: &'a str,
    pub value: &'a str,
    pub description: &'a str,
}

/// How well the suggestions fit.
#[derive(Serialize, JsonSchema)]
pub(crate) struct HintMetadata {
    /// What was typed is a whole name already.
    pub is_perfect_match: bool,
}

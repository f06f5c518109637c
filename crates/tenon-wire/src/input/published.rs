//! The shapes of a client's lines, for the published schema. The doc comments are its descriptions.
//!
//! Nothing is read through these types: `line.rs` and its neighbours tell a client more exactly what is wrong with
//! a line. Tests hold the two together: what this schema accepts is read, and what is read here and sent by the
//! tests is accepted by it. One schema serves all dialects, as one reader does.

#![allow(dead_code, reason = "they are shapes, and never values")]

use std::collections::BTreeMap;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde_json::{Map, Value};
use tenon_core::ApprovalMode;

use crate::publish::publish_input;

/// The JSON Schema of this file, for a dialect of this name.
pub(crate) fn published_schema(dialect: &str) -> Value {
    let mut schema = publish_input::<ClientLine>(&format!("{dialect}-input"));
    schema["title"] = format!("tenon: input in the {dialect} dialect").into();
    schema
}

/// A line of `--input-format stream-json`. Lines of any dialect are understood in every dialect.
#[derive(JsonSchema)]
#[serde(untagged)]
enum ClientLine {
    Typed(TypedLine),
    Chat(Box<ChatRequest>),
    OpenAi(OpenAiRequest),
}

/// A line that says what it is. Other types are ignored.
#[derive(JsonSchema)]
#[serde(tag = "type")]
enum TypedLine {
    /// A turn.
    #[serde(rename = "user")]
    User {
        message: UserMessage,
        /// `_new` begins a session; anything else means the one there is.
        session_id: Option<String>,
        /// Answers to this turn carry it.
        prompt_id: Option<String>,
    },
    /// A request to tenon itself, answered with a `control_response` under the same id.
    #[serde(rename = "control_request")]
    ControlRequest(ControlRequestLine),
    /// The answer to a `control_request` of tenon's.
    #[serde(rename = "control_response")]
    ControlResponse(ControlResponseLine),
    /// The answer to this request, or to any, is no longer wanted.
    #[serde(rename = "control_cancel_request")]
    ControlCancelRequest { request_id: Option<String> },
    /// Stops the running turn: the one with this `prompt_id`, or any. Answered with `result/cancel`.
    #[serde(rename = "control/cancel")]
    Cancel {
        session_id: Option<String>,
        prompt_id: Option<String>,
        /// Answered with a `control_response` as well.
        request_id: Option<String>,
        /// Such as `escape`.
        reason: Option<Value>,
    },
    /// What could be meant by what was typed so far? Answered with `result/command_hint`.
    #[serde(rename = "command_hint_request")]
    HintRequest {
        session_id: Option<String>,
        prompt_id: Option<String>,
        trigger: HintTrigger,
        text: Option<String>,
        /// In UTF-16 code units; the end of the text when it is not given.
        cursor: Option<usize>,
        /// What the client knows besides.
        context: Option<Value>,
    },
    /// The answer to a hint request is no longer wanted.
    #[serde(rename = "command_hint_cancel")]
    HintCancel { session_id: Option<Value>, prompt_id: Option<String> },
    /// Is tenon alive? Answered at once.
    #[serde(rename = "heartbeat_request")]
    Heartbeat { session_id: Option<String> },
}

/// What the user says.
#[derive(JsonSchema)]
struct UserMessage {
    /// `user`.
    role: Option<String>,
    content: Content,
}

/// Words, or blocks.
#[derive(JsonSchema)]
#[serde(untagged)]
enum Content {
    Text(String),
    Blocks(Vec<Block>),
}

/// A piece of what is said.
#[derive(JsonSchema)]
#[serde(untagged)]
enum Block {
    Bare(String),
    Typed(TypedBlock),
    /// Text without a type.
    Text(BareText),
}

#[derive(JsonSchema)]
#[schemars(extend("not" = { "required": ["type"] }))]
struct BareText {
    text: String,
}

/// A piece of what is said, by its type.
#[derive(JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
enum TypedBlock {
    Text {
        text: String,
    },
    InputText {
        text: String,
    },
    /// What a tool of the client's answered.
    FunctionResponse {
        name: Option<String>,
        response: Value,
    },
    /// A file of this machine, or its content.
    FileData(FileData),
    /// An image, with its content.
    Image {
        source: ImageSource,
    },
    /// An image, with its content in the address.
    ImageUrl {
        image_url: ImageUrl,
    },
}

/// A file of this machine, or its content.
#[derive(JsonSchema)]
#[serde(untagged)]
enum FileData {
    Uri(FileUri),
    Path(FilePath),
    Inline(InlineData),
}

#[derive(JsonSchema)]
struct FileUri {
    /// `file://…` or a path.
    #[schemars(schema_with = "local_address")]
    file_uri: String,
    mime_type: Option<String>,
    #[serde(default)]
    #[schemars(schema_with = "absent")]
    data: Option<()>,
}

#[derive(JsonSchema)]
struct FilePath {
    #[schemars(schema_with = "local_address")]
    path: String,
    mime_type: Option<String>,
    #[serde(default)]
    #[schemars(schema_with = "absent")]
    data: Option<()>,
    #[serde(default)]
    #[schemars(schema_with = "absent")]
    file_uri: Option<()>,
}

#[derive(JsonSchema)]
struct InlineData {
    /// Base64.
    data: String,
    mime_type: String,
}

#[derive(JsonSchema)]
struct ImageSource {
    #[schemars(schema_with = "base64")]
    r#type: String,
    /// Base64.
    data: String,
    media_type: String,
}

/// The address, or an object with it.
#[derive(JsonSchema)]
#[serde(untagged)]
enum ImageUrl {
    Bare(#[schemars(schema_with = "data_address")] String),
    Object {
        #[schemars(schema_with = "data_address")]
        url: String,
    },
}

/// A turn, with everything that may go with it.
#[derive(JsonSchema)]
#[schemars(extend(
    "not" = { "required": ["type"] },
    "anyOf" = [
        { "properties": { "input": { "required": ["parts"], "properties": { "parts": { "type": ["string", "array"], "minItems": 1 } } } } },
        { "properties": { "input": { "required": ["command"], "properties": { "command": { "type": "object" } } } } },
        { "required": ["continuation"], "properties": { "continuation": { "const": true } } },
    ],
    "if" = { "properties": { "input": { "required": ["origin"], "properties": { "origin": { "const": "tool_response" } } } } },
    "then" = { "anyOf": [
        { "required": ["tool_call_id"], "properties": { "tool_call_id": { "type": "string" } } },
        { "required": ["tool_request"], "properties": { "tool_request": { "type": "object" } } },
    ] },
))]
struct ChatRequest {
    /// `_new` begins a session, the id of a stored one resumes it; without one, the one there is goes on.
    session_id: Option<String>,
    /// Answers to this turn carry it.
    prompt_id: Option<String>,
    /// For this turn only.
    model: Option<String>,
    input: ChatInput,
    /// For this turn only.
    options: Option<Options>,
    /// The call that is answered, with `origin` `tool_response`.
    tool_call_id: Option<String>,
    /// The call that is answered, as it was asked for.
    tool_request: Option<ToolRequest>,
    /// Goes on where the conversation stands; nothing new has to be said.
    continuation: Option<bool>,
    protocol_version: Option<Version>,
    metadata: Option<RequestMetadata>,
}

/// What is said.
#[derive(JsonSchema)]
struct ChatInput {
    origin: Option<InputOrigin>,
    parts: Option<Content>,
    /// A command that is declared rather than typed.
    command: Option<CommandInput>,
}

/// Who says it.
#[derive(JsonSchema)]
#[serde(rename_all = "snake_case")]
enum InputOrigin {
    User,
    System,
    ToolResponse,
}

/// Such as `/chat list`.
#[derive(JsonSchema)]
struct CommandInput {
    kind: Option<CommandKind>,
    /// `["chat", "list"]`.
    #[schemars(length(min = 1))]
    path: Vec<String>,
    args: Option<String>,
}

#[derive(JsonSchema)]
#[serde(rename_all = "snake_case")]
enum CommandKind {
    Slash,
    At,
    Help,
}

/// A call of the model's, quoted.
#[derive(JsonSchema)]
struct ToolRequest {
    call_id: String,
}

/// Overrides that hold for one request.
#[derive(JsonSchema)]
struct Options {
    model: Option<String>,
    #[schemars(range(min = 0, max = 2))]
    temperature: Option<f64>,
    #[schemars(range(min = 0, max = 1))]
    top_p: Option<f64>,
    #[schemars(range(min = 1))]
    max_tokens: Option<u64>,
    #[schemars(range(min = 1))]
    max_completion_tokens: Option<u64>,
    #[schemars(range(min = 1))]
    max_output_tokens: Option<u64>,
    /// Only these tools.
    tool_overrides: Option<Vec<String>>,
}

/// What is said about a request.
#[derive(JsonSchema)]
struct RequestMetadata {
    protocol_version: Option<Version>,
}

/// The version of the protocol that the client speaks.
#[derive(JsonSchema)]
#[serde(untagged)]
enum Version {
    Text(String),
    Number(u64),
}

/// A plain request to chat completions. The last message, a user's, is asked; the ones before it are the conversation.
#[derive(JsonSchema)]
#[schemars(extend("not" = { "anyOf": [{ "required": ["type"] }, { "required": ["input"] }] }))]
struct OpenAiRequest {
    #[schemars(length(min = 1))]
    messages: Vec<OpenAiMessage>,
    model: Option<String>,
    #[schemars(range(min = 0, max = 2))]
    temperature: Option<f64>,
    #[schemars(range(min = 0, max = 1))]
    top_p: Option<f64>,
    #[schemars(range(min = 1))]
    max_tokens: Option<u64>,
    #[schemars(range(min = 1))]
    max_completion_tokens: Option<u64>,
    #[schemars(range(min = 1))]
    max_output_tokens: Option<u64>,
    protocol_version: Option<Version>,
    metadata: Option<RequestMetadata>,
}

/// A message of the conversation.
#[derive(JsonSchema)]
#[serde(tag = "role", rename_all = "snake_case")]
enum OpenAiMessage {
    System { content: Option<Content> },
    Developer { content: Option<Content> },
    User { content: Option<Content> },
    Assistant { content: Option<Content>, tool_calls: Option<Vec<MadeCall>> },
    Tool { tool_call_id: String, name: Option<String>, content: Option<Content> },
}

/// A call that the model made.
#[derive(JsonSchema)]
struct MadeCall {
    id: String,
    function: MadeFunction,
}

#[derive(JsonSchema)]
struct MadeFunction {
    name: String,
    arguments: Option<String>,
}

/// A request, inside `request` or beside its id.
#[derive(JsonSchema)]
#[serde(untagged)]
enum ControlRequestLine {
    Nested { request_id: String, request: Request },
    Flat(FlatControlRequest),
}

#[derive(JsonSchema)]
#[schemars(extend("not" = { "required": ["request"] }))]
struct FlatControlRequest {
    request_id: String,
    #[serde(flatten)]
    request: Request,
}

/// What is asked of tenon.
#[derive(JsonSchema)]
#[serde(tag = "subtype", rename_all = "snake_case")]
enum Request {
    /// Introduces the client.
    Initialize(Box<InitializeRequest>),
    /// Stops the running turn.
    Interrupt,
    /// Goes on where an interrupted turn stopped.
    ContinueLastTurn,
    /// Without a model: the one that the session began with.
    SetModel {
        #[serde(default)]
        #[schemars(schema_with = "some_words_or_null")]
        model: Option<String>,
    },
    SetPermissionMode {
        #[schemars(schema_with = "modes")]
        mode: String,
    },
    SetEffort {
        #[schemars(length(min = 1))]
        effort: String,
    },
    SupportedCommands,
    GetContextUsage,
    GetAvailableModels,
    GetUsageInfo,
    McpServerStatus,
    McpStatus,
    McpReconnect {
        #[serde(rename = "serverName")]
        #[schemars(length(min = 1))]
        server_name: String,
    },
    McpToggle {
        #[serde(rename = "serverName")]
        #[schemars(length(min = 1))]
        server_name: String,
        enabled: bool,
    },
    /// Stops background work.
    StopTask {
        #[schemars(length(min = 1))]
        task_id: String,
    },
    /// Puts the command of a running call in the background.
    PromoteTask {
        #[schemars(length(min = 1))]
        tool_use_id: String,
    },
}

/// How the client wants the session.
#[derive(JsonSchema)]
struct InitializeRequest {
    /// Hooks that are called back, by their event.
    hooks: Option<BTreeMap<String, Vec<HookEntry>>>,
    timeout: Option<ClientTimeouts>,
    /// Servers that live in the client's process, by name.
    #[serde(rename = "sdkMcpServers")]
    sdk_mcp_servers: Option<Named>,
    /// Servers of their own, as in the settings.
    #[serde(rename = "mcpServers")]
    mcp_servers: Option<Map<String, Value>>,
    /// Sub-agents, as a list or by name.
    agents: Option<Agents>,
    effort: Option<String>,
    protocol_version: Option<Version>,
}

/// One hook: whose matcher fits is called back under each of these ids.
#[derive(JsonSchema)]
struct HookEntry {
    matcher: Option<String>,
    #[serde(rename = "hookCallbackIds")]
    hook_callback_ids: Vec<String>,
    /// Seconds.
    timeout: Option<f64>,
}

/// How long tenon waits for the client.
#[derive(JsonSchema)]
struct ClientTimeouts {
    /// Milliseconds.
    #[serde(rename = "canUseTool")]
    can_use_tool: Option<u64>,
}

/// Names, or an object whose keys they are.
#[derive(JsonSchema)]
#[serde(untagged)]
enum Named {
    List(Vec<String>),
    Object(Map<String, Value>),
}

#[derive(JsonSchema)]
#[serde(untagged)]
enum Agents {
    List(Vec<Map<String, Value>>),
    ByName(BTreeMap<String, Map<String, Value>>),
}

/// An answer, its id inside `response` or beside it.
#[derive(JsonSchema)]
#[serde(untagged)]
enum ControlResponseLine {
    Nested { response: NestedAnswer },
    Flat { request_id: String, response: FlatAnswer },
}

#[derive(JsonSchema)]
#[serde(tag = "subtype", rename_all = "snake_case")]
enum NestedAnswer {
    Success { request_id: String, response: Option<Value> },
    Error { request_id: String, error: Option<AnswerError> },
}

#[derive(JsonSchema)]
#[serde(tag = "subtype", rename_all = "snake_case")]
enum FlatAnswer {
    Success { result: Option<Value> },
    Error { error: Option<AnswerError> },
}

/// Why there is no answer.
#[derive(JsonSchema)]
#[serde(untagged)]
enum AnswerError {
    Text(String),
    Object { message: Option<String>, retryable: Option<bool> },
}

#[derive(JsonSchema)]
#[serde(rename_all = "snake_case")]
enum HintTrigger {
    Slash,
    At,
}

fn modes(_: &mut SchemaGenerator) -> Schema {
    let others = ["dontAsk", "auto_edit", "autoedit", "autoEdit", "acceptEdits", "bypassPermissions"];
    let names: Vec<&str> = ApprovalMode::NAMES.into_iter().chain(others).collect();
    json_schema!({ "type": "string", "enum": names })
}

fn some_words(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "string", "pattern": "\\S" })
}

fn some_words_or_null(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": ["string", "null"], "pattern": "\\S" })
}

fn base64(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "const": "base64" })
}

fn data_address(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "string", "pattern": "^data:[^;]*;base64," })
}

/// Files of this machine only.
fn local_address(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "string", "anyOf": [{ "pattern": "^file://" }, { "not": { "pattern": "://" } }] })
}

fn absent(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "null" })
}

//! Requests for turns: the chat request, and a plain one to chat completions. Read by `../chat_request.rs` and
//! `../openai_request.rs`.

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde_json::json;

use super::content::{Content, Words};
use super::id_or_null;

/// A turn, with everything that may go with it.
#[derive(JsonSchema)]
#[schemars(extend(
    "not" = { "required": ["type"] },
    "allOf" = [
        // Something is said, or calls are asked for, and not both.
        { "oneOf": [
            { "anyOf": [
                { "properties": { "input": { "required": ["parts"], "properties": { "parts": { "type": ["string", "array"], "minItems": 1 } } } } },
                { "properties": { "input": { "required": ["command"], "properties": { "command": { "type": "object" } } } } },
                { "required": ["continuation"], "properties": { "continuation": { "const": true } } },
            ] },
            {
                "not": { "properties": { "input": { "required": ["origin"], "properties": { "origin": { "const": "tool_response" } } } } },
                "anyOf": [
                    { "required": ["tool_request"], "properties": { "tool_request": { "type": ["object", "array"] } } },
                    { "properties": { "input": { "required": ["tool_request"], "properties": { "tool_request": { "type": ["object", "array"] } } } } },
                ],
            },
        ] },
        // Whoever answers a call says which, and nobody else does.
        {
            "if": { "properties": { "input": { "required": ["origin"], "properties": { "origin": { "const": "tool_response" } } } } },
            "then": {
                "anyOf": [
                    { "required": ["tool_call_id"], "properties": { "tool_call_id": { "type": "string" } } },
                    { "required": ["tool_request"], "properties": { "tool_request": { "type": "object" } } },
                    { "properties": { "input": { "required": ["tool_call_id"], "properties": { "tool_call_id": { "type": "string" } } } } },
                    { "properties": { "input": { "required": ["tool_request"], "properties": { "tool_request": { "type": "object" } } } } },
                ],
                "properties": {
                    "tool_request": { "$ref": "#/$defs/AnsweredRequest" },
                    "input": { "properties": { "tool_request": { "$ref": "#/$defs/AnsweredRequest" } } },
                },
            },
            "else": {
                "not": { "anyOf": [
                    { "required": ["tool_call_id"], "properties": { "tool_call_id": { "type": "string" } } },
                    { "properties": { "input": { "required": ["tool_call_id"], "properties": { "tool_call_id": { "type": "string" } } } } },
                    {
                        "required": ["tool_request"],
                        "properties": {
                            "tool_request": { "type": ["object", "array"] },
                            "input": { "required": ["tool_request"], "properties": { "tool_request": { "type": ["object", "array"] } } },
                        },
                    },
                ] },
                "properties": {
                    "tool_request": { "$ref": "#/$defs/AskedRequest" },
                    "input": { "properties": { "tool_request": { "$ref": "#/$defs/AskedRequest" } } },
                },
            },
        },
    ],
))]
pub(super) struct ChatRequest {
    /// `_new` begins a session, the id of a stored one resumes it; without one, the one there is goes on.
    session_id: Option<String>,
    /// Answers to this turn carry it.
    #[serde(default)]
    #[schemars(schema_with = "id_or_null")]
    prompt_id: Option<String>,
    input: ChatInput,
    /// For this turn only.
    options: Option<Options>,
    /// For this turn only, where `options` do not say otherwise.
    #[serde(flatten)]
    answer: AnswerOptions,
    /// The call that is answered, with `origin` `tool_response`.
    #[serde(default)]
    #[schemars(schema_with = "id_or_null")]
    tool_call_id: Option<String>,
    /// With `origin` `tool_response`: the call that is answered, as it was asked for. Otherwise: calls that the client asks
    /// for itself.
    tool_request: Option<ToolRequests>,
    /// Goes on where the conversation stands; nothing new has to be said.
    continuation: Option<bool>,
}

/// What is said.
#[derive(JsonSchema)]
struct ChatInput {
    origin: Option<InputOrigin>,
    parts: Option<Content>,
    /// A command that is declared rather than typed.
    command: Option<CommandInput>,
    #[serde(default)]
    #[schemars(schema_with = "id_or_null")]
    tool_call_id: Option<String>,
    tool_request: Option<ToolRequests>,
}

/// Who says it.
#[derive(JsonSchema)]
#[serde(rename_all = "snake_case")]
enum InputOrigin {
    User,
    System,
    ToolResponse,
}

/// Such as `/chat list`. Help needs no path.
#[derive(JsonSchema)]
#[schemars(extend("anyOf" = [
    {
        "type": "object", "required": ["path"],
        "properties": { "path": { "type": ["string", "array"], "minItems": 1, "items": { "type": "string" } } },
    },
    {
        "type": "object", "required": ["kind"],
        "properties": { "kind": { "enum": ["help", "question"] } },
    },
]))]
struct CommandInput {
    kind: Option<CommandKind>,
    /// `["chat", "list"]`.
    path: Option<CommandPath>,
    args: Option<String>,
}

#[derive(JsonSchema)]
#[serde(rename_all = "snake_case")]
enum CommandKind {
    Slash,
    At,
    Help,
    Question,
}

#[derive(JsonSchema)]
#[serde(untagged)]
enum CommandPath {
    Names(Vec<String>),
    Name(String),
}

#[derive(JsonSchema)]
#[serde(untagged)]
enum ToolRequests {
    One(ToolRequest),
    Many(Vec<ToolRequest>),
}

/// A call: of the model's, quoted, or of the client's own.
#[derive(JsonSchema)]
struct ToolRequest {
    #[serde(default)]
    #[schemars(schema_with = "id_or_null")]
    call_id: Option<String>,
    #[serde(default, rename = "callId")]
    #[schemars(schema_with = "id_or_null")]
    other_call_id: Option<String>,
    /// The tool. A call of the client's own needs it.
    #[serde(default)]
    #[schemars(schema_with = "id_or_null")]
    name: Option<String>,
    args: Option<serde_json::Map<String, serde_json::Value>>,
}

/// What a `tool_request` needs with `origin` `tool_response`.
pub(super) fn answered_request() -> serde_json::Value {
    json!({
        "description": "The call that is answered, by its id.",
        "anyOf": [
            { "type": "null" },
            { "type": "object", "required": ["call_id"], "properties": { "call_id": { "type": "string" } } },
            { "type": "object", "required": ["callId"], "properties": { "callId": { "type": "string" } } },
        ],
    })
}

/// What it needs with any other.
pub(super) fn asked_request() -> serde_json::Value {
    let call =
        json!({ "type": "object", "required": ["name"], "properties": { "name": { "type": "string" } } });
    json!({
        "description": "Calls that the client asks for, by their tools.",
        "anyOf": [{ "type": "null" }, call, { "type": "array", "minItems": 1, "items": call }],
    })
}

/// Overrides that hold for one request.
#[derive(JsonSchema)]
#[schemars(extend("additionalProperties" = { "type": "null" }))]
struct Options {
    #[serde(flatten)]
    answer: AnswerOptions,
    /// Only these tools.
    tool_overrides: Option<Vec<String>>,
}

/// What the answer is to be like.
#[derive(JsonSchema)]
struct AnswerOptions {
    #[serde(default)]
    #[schemars(schema_with = "id_or_null")]
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
}

/// A plain request to chat completions. The last message, a user's, is asked; the ones before it are the conversation, in
/// which every call has its answer. A field that is not here cannot be honoured.
#[derive(JsonSchema)]
#[schemars(extend(
    "not" = { "anyOf": [{ "required": ["type"] }, { "required": ["input"] }] },
    "additionalProperties" = { "type": "null" },
))]
pub(super) struct OpenAiRequest {
    #[schemars(length(min = 1))]
    messages: Vec<OpenAiMessage>,
    #[serde(flatten)]
    answer: AnswerOptions,
    options: Option<Options>,
    /// Answers to this turn carry it.
    #[serde(default)]
    #[schemars(schema_with = "id_or_null")]
    prompt_id: Option<String>,
    /// There is one answer.
    #[serde(default)]
    #[schemars(schema_with = "one")]
    n: Option<u64>,
    /// How answers are written is said with `--output-format`.
    #[serde(default)]
    #[schemars(schema_with = "no")]
    stream: Option<bool>,
    protocol_version: Option<super::Version>,
    metadata: Option<super::LineMetadata>,
}

/// A message of the conversation.
#[derive(JsonSchema)]
#[serde(tag = "role", rename_all = "snake_case")]
enum OpenAiMessage {
    System {
        content: Option<Content>,
    },
    Developer {
        content: Option<Content>,
    },
    User {
        content: Option<Content>,
    },
    Assistant {
        content: Option<Words>,
        tool_calls: Option<Vec<MadeCall>>,
        #[serde(default)]
        function_call: (),
    },
    Tool {
        #[schemars(length(min = 1))]
        tool_call_id: String,
        name: Option<String>,
        content: Option<Words>,
    },
}

/// A call that the model made.
#[derive(JsonSchema)]
struct MadeCall {
    #[schemars(length(min = 1))]
    id: String,
    function: MadeFunction,
}

#[derive(JsonSchema)]
struct MadeFunction {
    #[schemars(length(min = 1))]
    name: String,
    arguments: Option<String>,
}

fn one(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "enum": [1, null] })
}

fn no(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "enum": [false, null] })
}

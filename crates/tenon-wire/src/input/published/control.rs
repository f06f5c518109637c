//! Control requests and answers to those of tenon's. Read by `../control.rs`.

use std::borrow::Cow;
use std::collections::BTreeMap;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde_json::{Map, Value, json};
use tenon_core::ApprovalMode;

use super::Version;
use crate::input::control::BESIDE_PAYLOAD;

/// A request, inside `request` or beside its id.
pub(super) struct ControlRequestLine;

impl JsonSchema for ControlRequestLine {
    fn schema_name() -> Cow<'static, str> {
        "ControlRequestLine".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let request = generator.subschema_for::<Request>().to_value();
        let mut flat = json!({ "not": { "required": ["request"] } });
        if let (Value::Object(flat), Value::Object(request)) = (&mut flat, &request) {
            flat.extend(request.clone());
        }
        json_schema!({
            "description": "A request, inside `request` or beside its id.",
            "type": "object",
            "required": ["request_id"],
            "properties": { "request_id": { "type": "string", "minLength": 1 } },
            "oneOf": [
                { "type": "object", "required": ["request"], "properties": { "request": request } },
                flat,
            ],
        })
    }
}

/// What is asked of tenon: its details beside `subtype`, or all of them in a `payload`.
struct Request;

impl JsonSchema for Request {
    fn schema_name() -> Cow<'static, str> {
        "Request".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let version = generator.subschema_for::<Version>().to_value();
        let nothing = generator.subschema_for::<NoDetails>().to_value();
        let server = generator.subschema_for::<ServerName>().to_value();
        let table: [(&[&str], &str, Value); 15] = [
            (
                &["initialize"],
                "Introduces the client.",
                generator.subschema_for::<InitializeRequest>().to_value(),
            ),
            (&["interrupt"], "Stops the running turn.", nothing.clone()),
            (&["continue_last_turn"], "Goes on where an interrupted turn stopped.", nothing.clone()),
            (
                &["set_model"],
                "Without a model: the one that the session began with.",
                generator.subschema_for::<SetModel>().to_value(),
            ),
            (
                &["set_permission_mode"],
                "From here on.",
                generator.subschema_for::<SetPermissionMode>().to_value(),
            ),
            (&["set_effort"], "From the next turn on.", generator.subschema_for::<SetEffort>().to_value()),
            (&["supported_commands"], "Which commands are there?", nothing.clone()),
            (&["get_context_usage"], "How full is the context?", nothing.clone()),
            (&["get_available_models"], "Which models are there?", nothing.clone()),
            (&["get_usage_info"], "What was used?", nothing.clone()),
            (&["mcp_server_status", "mcp_status"], "How are the servers?", nothing),
            (&["mcp_reconnect"], "Connects a server anew.", server),
            (&["mcp_toggle"], "Turns a server on or off.", generator.subschema_for::<McpToggle>().to_value()),
            (&["stop_task"], "Stops background work.", generator.subschema_for::<StopTask>().to_value()),
            (
                &["promote_task", "promote_to_background"],
                "Puts the command of a running call in the background.",
                generator.subschema_for::<PromoteTask>().to_value(),
            ),
        ];
        let requests: Vec<Value> = table
            .into_iter()
            .map(|(names, description, details)| {
                json!({
                    "description": description,
                    "type": "object",
                    "required": ["subtype"],
                    "properties": { "subtype": { "enum": names }, "protocol_version": version },
                    "oneOf": [
                        with(&details, json!({ "properties": { "payload": { "type": "null" } } })),
                        {
                            "type": "object",
                            "required": ["payload"],
                            "properties": {
                                "payload": with(
                                    &details,
                                    json!({ "type": "object", "properties": { "protocol_version": version } }),
                                ),
                            },
                            "propertyNames": { "enum": BESIDE_PAYLOAD },
                        },
                    ],
                })
            })
            .collect();
        json_schema!({
            "description": "What is asked of tenon: its details beside `subtype`, or all of them in a `payload`.",
            "oneOf": requests,
        })
    }
}

/// A reference, and more beside it.
fn with(reference: &Value, mut more: Value) -> Value {
    if let (Value::Object(more), Value::Object(reference)) = (&mut more, reference) {
        more.extend(reference.clone());
    }
    more
}

/// It needs no details.
#[derive(JsonSchema)]
struct NoDetails {}

#[derive(JsonSchema)]
struct SetModel {
    #[serde(default)]
    #[schemars(schema_with = "some_words_or_null")]
    model: Option<String>,
}

#[derive(JsonSchema)]
struct SetPermissionMode {
    #[schemars(schema_with = "modes")]
    mode: String,
}

#[derive(JsonSchema)]
struct SetEffort {
    #[schemars(length(min = 1))]
    effort: String,
}

/// A server, by its name.
#[derive(JsonSchema)]
#[schemars(extend("anyOf" = [
    { "type": "object", "required": ["serverName"], "properties": { "serverName": { "type": "string" } } },
    { "type": "object", "required": ["server_name"], "properties": { "server_name": { "type": "string" } } },
]))]
struct ServerName {
    #[serde(default, rename = "serverName")]
    #[schemars(schema_with = "super::id_or_null")]
    server_name: Option<String>,
    #[serde(default, rename = "server_name")]
    #[schemars(schema_with = "super::id_or_null")]
    other_server_name: Option<String>,
}

#[derive(JsonSchema)]
struct McpToggle {
    #[serde(flatten)]
    server: ServerName,
    enabled: bool,
}

#[derive(JsonSchema)]
struct StopTask {
    #[schemars(length(min = 1))]
    task_id: String,
}

/// A call, by its id.
#[derive(JsonSchema)]
#[schemars(extend("anyOf" = [
    { "type": "object", "required": ["tool_use_id"], "properties": { "tool_use_id": { "type": "string" } } },
    { "type": "object", "required": ["call_id"], "properties": { "call_id": { "type": "string" } } },
]))]
struct PromoteTask {
    #[serde(default)]
    #[schemars(schema_with = "super::id_or_null")]
    tool_use_id: Option<String>,
    #[serde(default)]
    #[schemars(schema_with = "super::id_or_null")]
    call_id: Option<String>,
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
    /// As `--system-prompt`; several texts follow each other.
    #[serde(rename = "systemPrompt")]
    system_prompt: Option<Texts>,
    /// As `--append-system-prompt`.
    #[serde(rename = "appendSystemPrompt")]
    append_system_prompt: Option<String>,
}

/// One text, or several.
#[derive(JsonSchema)]
#[serde(untagged)]
enum Texts {
    One(String),
    Several(Vec<String>),
}

/// One hook: whose matcher fits is called back under each of these ids.
#[derive(JsonSchema)]
struct HookEntry {
    matcher: Option<String>,
    #[serde(rename = "hookCallbackIds")]
    hook_callback_ids: Vec<String>,
    /// Seconds; 0 is no limit of its own.
    #[schemars(range(min = 0))]
    timeout: Option<f64>,
}

/// How long tenon waits for the client, in milliseconds.
#[derive(JsonSchema)]
struct ClientTimeouts {
    #[serde(rename = "canUseTool")]
    can_use_tool: Option<u64>,
    /// For hooks that name none of their own.
    #[serde(rename = "hookCallback")]
    hook_callback: Option<u64>,
    #[serde(rename = "mcpMessage")]
    mcp_message: Option<u64>,
    /// Another name of `mcpMessage`.
    #[serde(rename = "mcpRequest")]
    mcp_request: Option<u64>,
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
pub(super) enum ControlResponseLine {
    Nested { response: NestedAnswer },
    Flat(FlatResponse),
}

#[derive(JsonSchema)]
pub(super) struct NestedAnswer {
    subtype: AnswerKind,
    #[schemars(length(min = 1))]
    request_id: String,
    /// The answer, if it is one.
    response: Option<Value>,
    /// Why there is none: a text, or an object with a `message`.
    error: Option<Value>,
}

#[derive(JsonSchema)]
pub(super) struct FlatResponse {
    #[schemars(length(min = 1))]
    request_id: String,
    response: FlatAnswer,
}

#[derive(JsonSchema)]
pub(super) struct FlatAnswer {
    subtype: AnswerKind,
    #[serde(default)]
    request_id: (),
    /// The answer, if it is one.
    result: Option<Value>,
    /// Why there is none: a text, or an object with a `message`.
    error: Option<Value>,
}

#[derive(JsonSchema)]
#[serde(rename_all = "snake_case")]
enum AnswerKind {
    Success,
    Error,
}

fn modes(_: &mut SchemaGenerator) -> Schema {
    let others = ["dontAsk", "auto_edit", "autoedit", "autoEdit", "acceptEdits", "bypassPermissions"];
    let names: Vec<&str> = ApprovalMode::NAMES.into_iter().chain(others).collect();
    json_schema!({ "type": "string", "enum": names })
}

fn some_words_or_null(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": ["string", "null"], "pattern": "\\S" })
}

//! The shapes of a client's lines, for the published schema. The doc comments are its descriptions.
//!
//! Nothing is read through these types: `line.rs` and its neighbours tell a client more exactly what is wrong with
//! a line. Tests hold the two together: what this schema accepts is read, and what it refuses is refused. One schema
//! serves all dialects, as one reader does. What is said is in `published/content.rs`, requests for turns in
//! `published/requests.rs`, control requests and answers in `published/control.rs`.

#![allow(dead_code, reason = "they are shapes, and never values")]

mod content;
mod control;
mod requests;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde_json::{Value, json};

use crate::publish::publish_input;
use content::Content;
use control::{ControlRequestLine, ControlResponseLine};
use requests::{ChatRequest, OpenAiRequest};

/// The JSON Schema of this file, for a dialect of this name.
pub(crate) fn published_schema(dialect: &str) -> Value {
    let mut schema = publish_input::<ClientLine>(&format!("{dialect}-input"));
    schema["title"] = format!("tenon: input in the {dialect} dialect").into();
    // Every line may state the version of the protocol.
    schema["properties"] = json!({
        "protocol_version": { "$ref": "#/$defs/Version" },
        "metadata": { "$ref": "#/$defs/LineMetadata" },
    });
    // A `tool_request` is one of two things, which the `origin` tells apart.
    schema["$defs"]["AnsweredRequest"] = requests::answered_request();
    schema["$defs"]["AskedRequest"] = requests::asked_request();
    schema
}

/// A line of `--input-format stream-json`. Lines of any dialect are understood in every dialect.
#[derive(JsonSchema)]
#[serde(untagged)]
enum ClientLine {
    Typed(TypedLine),
    Chat(Box<ChatRequest>),
    OpenAi(OpenAiRequest),
    Ignored(IgnoredLine),
}

/// A line that says what it is.
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
        #[serde(default)]
        #[schemars(schema_with = "id_or_null")]
        prompt_id: Option<String>,
        /// A program put the words together: no command and no `@path` stands in them.
        client_composed: Option<bool>,
        /// `false` asks nothing: the words are told with the next turn that asks, and have no result of their own.
        #[serde(rename = "shouldQuery")]
        should_query: Option<bool>,
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
        #[serde(default)]
        #[schemars(schema_with = "id_or_null")]
        prompt_id: Option<String>,
        /// Answered with a `control_response` as well.
        #[serde(default)]
        #[schemars(schema_with = "id_or_null")]
        request_id: Option<String>,
        /// Such as `escape`.
        reason: Option<Value>,
    },
    /// What could be meant by what was typed so far? Answered with `result/command_hint`.
    #[serde(rename = "command_hint_request")]
    HintRequest {
        session_id: Option<String>,
        #[serde(default)]
        #[schemars(schema_with = "id_or_null")]
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
    HintCancel {
        session_id: Option<Value>,
        #[serde(default)]
        #[schemars(schema_with = "id_or_null")]
        prompt_id: Option<String>,
    },
    /// Is tenon alive? Answered at once.
    #[serde(rename = "heartbeat_request")]
    Heartbeat { session_id: Option<String> },
}

/// What the user says.
#[derive(JsonSchema)]
struct UserMessage {
    /// Nobody else speaks here.
    role: Option<UserRole>,
    content: Content,
}

#[derive(JsonSchema)]
#[serde(rename_all = "snake_case")]
enum UserRole {
    User,
}

#[derive(JsonSchema)]
#[serde(rename_all = "snake_case")]
enum HintTrigger {
    Slash,
    At,
}

/// A line of another type: it is ignored.
struct IgnoredLine;

impl JsonSchema for IgnoredLine {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "IgnoredLine".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "A line of another type: it is ignored.",
            "type": "object",
            "required": ["type"],
            "properties": { "type": { "type": "string", "not": { "enum": [
                "user", "control_request", "control_response", "control_cancel_request", "control/cancel",
                "command_hint_request", "command_hint_cancel", "heartbeat_request",
            ] } } },
        })
    }
}

/// The version of the protocol that the client speaks: a text or a number.
#[derive(JsonSchema)]
#[serde(untagged)]
enum Version {
    Text(String),
    Number(f64),
    None(()),
}

/// What is said about a line.
#[derive(JsonSchema)]
#[schemars(extend("type" = ["object", "null"]))]
struct LineMetadata {
    #[serde(default)]
    protocol_version: Version,
}

impl Default for Version {
    fn default() -> Version {
        Version::None(())
    }
}

fn id_or_null(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": ["string", "null"], "minLength": 1 })
}

//! The request body of chat completions.

use std::borrow::Cow;

use serde::Serialize;
use serde_json::Value;
use tenon_core::{ErrorClass, Media, Message, ModelError, Part, Request, Role, ToolCall, ToolChoice};

use super::assemble::{REASONING_FIELD_KEY, RETURNED_REASONING_FIELD};
use crate::adapt::{Offer, Strictness, Target, answer_schema, object_arguments};
use crate::media::{PDF, PDF_NAME, Shown, data_url, shown};
use crate::reasoning::openai_effort;

/// Some servers refuse the field that asks for token counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StreamOptions {
    IncludeUsage,
    Omit,
}

/// What the server is known to take.
pub(super) struct Terms<'a> {
    pub choice: &'a ToolChoice,
    pub target: Target,
    pub options: StreamOptions,
    pub strictness: Strictness,
}

pub(super) fn json(
    request: &Request,
    offers: &[Offer<'_>],
    terms: &Terms<'_>,
    url: &str,
) -> Result<String, ModelError> {
    let (max_tokens, max_completion_tokens) = match takes_completion_tokens(url) {
        true => (None, request.max_output_tokens),
        false => (request.max_output_tokens, None),
    };
    let body = Body {
        model: &request.model,
        messages: messages(request),
        tools: offers.iter().map(tool).collect(),
        tool_choice: match terms.choice {
            ToolChoice::Auto => None,
            ToolChoice::Force(name) => Some(Choice { kind: "function", function: Named { name } }),
        },
        response_format: request.response_format.as_ref().map(|format| {
            let (schema, strict) = answer_schema(&format.schema, terms.target, terms.strictness);
            let json_schema = NamedSchema { name: &format.name, schema, strict };
            AnswerFormat { kind: "json_schema", json_schema }
        }),
        max_tokens,
        max_completion_tokens,
        temperature: request.sampling.temperature,
        top_p: request.sampling.top_p,
        reasoning_effort: openai_effort(request.reasoning)?,
        stream: true,
        stream_options: match terms.options {
            StreamOptions::IncludeUsage => Some(Usage { include_usage: true }),
            StreamOptions::Omit => None,
        },
    };
    serde_json::to_string(&body).map_err(|error| {
        ModelError::new(ErrorClass::Internal, format!("the request could not be written as JSON: {error}"))
    })
}

/// OpenAI's own newer models refuse `max_tokens`; most compatible servers know nothing else.
fn takes_completion_tokens(url: &str) -> bool {
    url.starts_with("https://api.openai.com/")
}

#[derive(Serialize)]
struct Body<'a> {
    model: &'a str,
    messages: Vec<WireMessage<'a>>,
    /// Left out when empty: some servers refuse `"tools": []`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<WireTool<'a>>,
    /// Left out for `auto`, which is the default everywhere.
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_choice: Option<Choice<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    response_format: Option<AnswerFormat<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_completion_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    temperature: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    top_p: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reasoning_effort: Option<&'static str>,
    stream: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    stream_options: Option<Usage>,
}

#[derive(Serialize)]
struct Usage {
    include_usage: bool,
}

#[derive(Serialize)]
struct Choice<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    function: Named<'a>,
}

#[derive(Serialize)]
struct Named<'a> {
    name: &'a str,
}

#[derive(Serialize)]
struct AnswerFormat<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    json_schema: NamedSchema<'a>,
}

#[derive(Serialize)]
struct NamedSchema<'a> {
    name: &'a str,
    schema: Value,
    /// Left out where it is not meant: other servers may not know it.
    #[serde(skip_serializing_if = "is_false")]
    strict: bool,
}

#[derive(Serialize)]
struct WireTool<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    function: WireFunction<'a>,
}

#[derive(Serialize)]
struct WireFunction<'a> {
    name: &'a str,
    description: &'a str,
    parameters: &'a Value,
    #[serde(skip_serializing_if = "is_false")]
    strict: bool,
}

fn tool<'a>(offer: &'a Offer<'_>) -> WireTool<'a> {
    WireTool {
        kind: "function",
        function: WireFunction {
            name: offer.name,
            description: &offer.description,
            parameters: &offer.parameters,
            strict: offer.strict,
        },
    }
}

fn is_false(flag: &bool) -> bool {
    !flag
}

#[derive(Serialize)]
#[serde(tag = "role", rename_all = "lowercase")]
enum WireMessage<'a> {
    System {
        content: &'a str,
    },
    User {
        content: Told<'a>,
    },
    Assistant {
        /// `null` beside tool calls when there is no text.
        content: Option<String>,
        #[serde(skip_serializing_if = "Option::is_none")]
        reasoning_content: Option<String>,
        #[serde(skip_serializing_if = "Vec::is_empty")]
        tool_calls: Vec<WireCall<'a>>,
    },
    Tool {
        tool_call_id: &'a str,
        content: &'a str,
    },
}

#[derive(Serialize)]
#[serde(untagged)]
enum Told<'a> {
    Text(String),
    Pieces(Vec<Piece<'a>>),
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Piece<'a> {
    Text { text: Cow<'a, str> },
    ImageUrl { image_url: Image<'a> },
    File { file: File<'a> },
}

#[derive(Serialize)]
struct File<'a> {
    filename: &'static str,
    #[serde(serialize_with = "data_url")]
    file_data: &'a Media,
}

#[derive(Serialize)]
struct Image<'a> {
    #[serde(serialize_with = "data_url")]
    url: &'a Media,
}

#[derive(Serialize)]
struct WireCall<'a> {
    id: &'a str,
    #[serde(rename = "type")]
    kind: &'static str,
    function: WireCalled<'a>,
}

#[derive(Serialize)]
struct WireCalled<'a> {
    name: &'a str,
    arguments: Cow<'a, str>,
}

fn messages(request: &Request) -> Vec<WireMessage<'_>> {
    let mut wire = Vec::with_capacity(request.messages.len() + 1);
    if !request.system.is_empty() {
        wire.push(WireMessage::System { content: &request.system });
    }
    for message in &request.messages {
        match message.role {
            Role::User => user(message, &mut wire),
            Role::Assistant => wire.extend(assistant(message)),
        }
    }
    wire
}

/// Tool results come first: they must follow the calls they answer.
fn user<'a>(message: &'a Message, wire: &mut Vec<WireMessage<'a>>) {
    let mut has_results = false;
    for part in &message.parts {
        if let Part::ToolResult(result) = part {
            has_results = true;
            wire.push(WireMessage::Tool { tool_call_id: &result.call_id, content: &result.content });
        }
    }
    let pieces: Vec<Piece<'_>> = shown(message).into_iter().map(piece).collect();
    if !pieces.is_empty() {
        wire.push(WireMessage::User { content: Told::Pieces(pieces) });
        return;
    }
    let text = message.text();
    if !text.is_empty() || !has_results {
        wire.push(WireMessage::User { content: Told::Text(text) });
    }
}

fn piece(shown: Shown<'_>) -> Piece<'_> {
    match shown {
        Shown::Text(text) => Piece::Text { text },
        Shown::Media(file_data) if file_data.mime == PDF => {
            Piece::File { file: File { filename: PDF_NAME, file_data } }
        }
        Shown::Media(media) => Piece::ImageUrl { image_url: Image { url: media } },
    }
}

/// `None` for a turn in which nothing was said that could be sent back: servers refuse an empty message.
fn assistant(message: &Message) -> Option<WireMessage<'_>> {
    let tool_calls: Vec<_> = message.tool_calls().map(call).collect();
    let content = Some(message.text()).filter(|text| !text.is_empty());
    let reasoning: String = message.parts.iter().filter_map(returned_reasoning).collect();
    let reasoning_content = (!reasoning.is_empty()).then_some(reasoning);
    let is_empty = content.is_none() && tool_calls.is_empty();
    (!is_empty).then_some(WireMessage::Assistant { content, reasoning_content, tool_calls })
}

/// Reasoning goes back only to servers that gave it in the field that they also take.
fn returned_reasoning(part: &Part) -> Option<&str> {
    match part {
        Part::Thinking { text, native: Some(native) }
            if native.get(REASONING_FIELD_KEY).is_some_and(|field| field == RETURNED_REASONING_FIELD) =>
        {
            Some(text)
        }
        _ => None,
    }
}

fn call(call: &ToolCall) -> WireCall<'_> {
    let arguments = object_arguments(call);
    WireCall { id: &call.id, kind: "function", function: WireCalled { name: &call.name, arguments } }
}

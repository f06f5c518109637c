//! The request body of the Responses API.
//!
//! The conversation is sent whole every time, and the server is asked to store nothing. Reasoning goes back
//! exactly as it came, before what the model did because of it.

use std::borrow::Cow;

use serde::Serialize;
use serde_json::Value;
use tenon_core::{ErrorClass, Media, Message, ModelError, Part, Request, Role, ToolChoice};

use super::native;
use super::refusals::{Field, Omitted};
use crate::adapt::{Offer, Target, answer_schema, object_arguments};
use crate::media::{PDF, PDF_NAME, Shown, data_url, shown};
use crate::reasoning::openai_effort;

pub(super) fn json(
    request: &Request,
    offers: &[Offer<'_>],
    target: Target,
    provider: &str,
    omitted: Omitted,
) -> Result<String, ModelError> {
    let tools: Vec<_> = offers.iter().map(tool).collect();
    let unless_omitted = |field: Field| !omitted.has(field);
    let cache_key = match unless_omitted(Field::PromptCacheKey) {
        true => Some(cache_key(&request.system, &tools).map_err(unwritable)?),
        false => None,
    };
    let has_tools = !tools.is_empty();
    let body = Body {
        model: &request.model,
        instructions: &request.system,
        input: input(request, provider, omitted),
        tools,
        tool_choice: match &request.tool_choice {
            _ if !has_tools || omitted.has(Field::ToolChoice) => None,
            ToolChoice::Auto => Some(Choice::Auto("auto")),
            ToolChoice::Force(name) => Some(Choice::Force { kind: "function", name }),
        },
        parallel_tool_calls: (has_tools && unless_omitted(Field::ParallelToolCalls)).then_some(true),
        text: request.response_format.as_ref().map(|format| {
            let (schema, strict) = answer_schema(&format.schema, target, omitted.strictness());
            Text { format: TextFormat { kind: "json_schema", name: &format.name, schema, strict } }
        }),
        max_output_tokens: request.max_output_tokens,
        temperature: request.sampling.temperature,
        top_p: request.sampling.top_p,
        reasoning: openai_effort(request.reasoning)?.map(|effort| Reasoning { effort }),
        stream: true,
        store: unless_omitted(Field::Store).then_some(false),
        include: unless_omitted(Field::Include).then_some(["reasoning.encrypted_content"]),
        prompt_cache_key: cache_key,
    };
    serde_json::to_string(&body).map_err(unwritable)
}

fn unwritable(error: serde_json::Error) -> ModelError {
    ModelError::new(ErrorClass::Internal, format!("the request could not be written as JSON: {error}"))
}

#[derive(Serialize)]
struct Body<'a> {
    model: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    instructions: &'a str,
    input: Vec<Item<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<Tool<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_choice: Option<Choice<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    parallel_tool_calls: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<Text<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_output_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    temperature: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    top_p: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reasoning: Option<Reasoning>,
    stream: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    store: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    include: Option<[&'static str; 1]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    prompt_cache_key: Option<String>,
}

#[derive(Serialize)]
struct Reasoning {
    effort: &'static str,
}

#[derive(Serialize)]
struct Text<'a> {
    format: TextFormat<'a>,
}

#[derive(Serialize)]
struct TextFormat<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    name: &'a str,
    schema: Value,
    strict: bool,
}

#[derive(Serialize)]
struct Tool<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    name: &'a str,
    description: &'a str,
    parameters: &'a Value,
    /// Said, because here the default is `true`.
    strict: bool,
}

fn tool<'a>(offer: &'a Offer<'_>) -> Tool<'a> {
    Tool {
        kind: "function",
        name: offer.name,
        description: &offer.description,
        parameters: &offer.parameters,
        strict: offer.strict,
    }
}

#[derive(Serialize)]
#[serde(untagged)]
enum Choice<'a> {
    Auto(&'static str),
    Force {
        #[serde(rename = "type")]
        kind: &'static str,
        name: &'a str,
    },
}

/// Requests that start alike should reach the same cache. The same prompt and tools give the same key in
/// every run, and nothing else is in it.
fn cache_key(system: &str, tools: &[Tool<'_>]) -> Result<String, serde_json::Error> {
    // FNV-1a: the key must not change between versions of a library, and nobody has to be kept from
    // finding two prompts with the same one.
    let hash = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
    let tools = serde_json::to_string(tools)?;
    let bytes = system.as_bytes().iter().chain(b"\0").chain(tools.as_bytes());
    Ok(format!("tenon-{:016x}", bytes.fold(0xcbf2_9ce4_8422_2325, hash)))
}

#[derive(Serialize)]
#[serde(untagged)]
enum Item<'a> {
    Said {
        #[serde(rename = "type")]
        kind: &'static str,
        role: &'static str,
        content: Told<'a>,
    },
    Call {
        #[serde(rename = "type")]
        kind: &'static str,
        #[serde(skip_serializing_if = "Option::is_none")]
        id: Option<&'a str>,
        call_id: &'a str,
        name: &'a str,
        arguments: Cow<'a, str>,
    },
    Result {
        #[serde(rename = "type")]
        kind: &'static str,
        call_id: &'a str,
        output: &'a str,
    },
    Reasoning(&'a Value),
}

#[derive(Serialize)]
#[serde(untagged)]
enum Told<'a> {
    /// The plain form. Pieces of an answer would need the id and status of the answer they were part of.
    Text(Cow<'a, str>),
    Pieces(Vec<Piece<'a>>),
}

#[derive(Serialize)]
#[serde(tag = "type")]
enum Piece<'a> {
    #[serde(rename = "input_text")]
    Text { text: Cow<'a, str> },
    #[serde(rename = "input_image")]
    Image {
        #[serde(serialize_with = "data_url")]
        image_url: &'a Media,
        detail: &'static str,
    },
    #[serde(rename = "input_file")]
    File {
        filename: &'static str,
        #[serde(serialize_with = "data_url")]
        file_data: &'a Media,
    },
}

fn input<'a>(request: &'a Request, provider: &str, omitted: Omitted) -> Vec<Item<'a>> {
    let mut items = Vec::with_capacity(request.messages.len());
    for message in &request.messages {
        match message.role {
            Role::User => user(message, &mut items),
            Role::Assistant => assistant(message, provider, omitted, &mut items),
        }
    }
    items
}

/// Tool results come first: they answer the calls just before them.
fn user<'a>(message: &'a Message, items: &mut Vec<Item<'a>>) {
    let before = items.len();
    for part in &message.parts {
        if let Part::ToolResult(result) = part {
            let (call_id, output) = (&result.call_id, &result.content);
            items.push(Item::Result { kind: "function_call_output", call_id, output });
        }
    }
    let pieces: Vec<Piece<'_>> = shown(message).into_iter().map(piece).collect();
    if !pieces.is_empty() {
        items.push(Item::Said { kind: "message", role: "user", content: Told::Pieces(pieces) });
        return;
    }
    let text = message.text();
    if !text.is_empty() || items.len() == before {
        items.push(said("user", Cow::Owned(text)));
    }
}

fn piece(shown: Shown<'_>) -> Piece<'_> {
    match shown {
        Shown::Text(text) => Piece::Text { text },
        Shown::Media(file_data) if file_data.mime == PDF => Piece::File { filename: PDF_NAME, file_data },
        Shown::Media(image_url) => Piece::Image { image_url, detail: "auto" },
    }
}

/// A whole turn in the order it came.
fn assistant<'a>(message: &'a Message, provider: &str, omitted: Omitted, items: &mut Vec<Item<'a>>) {
    // Reasoning that nothing follows, as in a turn that was broken off, is refused by servers.
    let mut waiting = Vec::new();
    let mut reasoned = false;
    for part in &message.parts {
        match part {
            Part::Thinking { native, .. } if !omitted.has(Field::Reasoning) => {
                let item = native.as_ref().and_then(|native| native::item(native, provider));
                waiting.extend(item.map(Item::Reasoning));
            }
            Part::Text { text } if !text.is_empty() => {
                reasoned |= !waiting.is_empty();
                items.append(&mut waiting);
                items.push(said("assistant", Cow::Borrowed(text)));
            }
            Part::ToolCall(call) => {
                reasoned |= !waiting.is_empty();
                items.append(&mut waiting);
                // With its id, a call is taken for one that must follow its reasoning.
                let id = call.native.as_ref().filter(|_| reasoned);
                items.push(Item::Call {
                    kind: "function_call",
                    id: id.and_then(|native| native::id(native, provider)),
                    call_id: &call.id,
                    name: &call.name,
                    arguments: object_arguments(call),
                });
            }
            Part::Text { .. } | Part::Thinking { .. } | Part::ToolResult(_) | Part::Media(_) => {}
        }
    }
}

fn said<'a>(role: &'static str, content: Cow<'a, str>) -> Item<'a> {
    Item::Said { kind: "message", role, content: Told::Text(content) }
}

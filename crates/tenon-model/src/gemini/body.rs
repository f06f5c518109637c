//! The request body of `streamGenerateContent`.

use std::borrow::Cow;
use std::collections::HashMap;

use serde::Serialize;
use serde_json::Value;
use tenon_core::{
    ErrorClass, Message, ModelError, Part, RawJson, Request, Role, ToolCall, ToolChoice, ToolResult,
};

use super::native::{self, Signed};
use crate::adapt::{Offer, Strictness, Target, answer_schema, offers};
use crate::media::{Shown, shown};
use crate::reasoning::{GeminiThinking, gemini};

/// Since its third generation Gemini refuses turns whose first call has no signature. This is the one that
/// it documents for calls that came from elsewhere.
const FOREIGN_CALL_SIGNATURE: &str = "skip_thought_signature_validator";

pub(super) fn json(request: &Request, provider: &str) -> Result<String, ModelError> {
    let system = request.system.as_str();
    let offers = offers(request, Target::Gemini, Strictness::Never);
    let body = Body {
        contents: contents(request, provider),
        system_instruction: (!system.is_empty()).then(|| Instruction { parts: [WirePart::text(system)] }),
        tools: match offers.as_slice() {
            [] => None,
            offers => Some([Tools { function_declarations: offers.iter().map(declaration).collect() }]),
        },
        tool_config: match &request.tool_choice {
            ToolChoice::Auto => None,
            ToolChoice::Force(name) => Some(ToolConfig {
                function_calling_config: Calling { mode: "ANY", allowed_function_names: [name] },
            }),
        },
        generation_config: generation(request)?,
    };
    serde_json::to_string(&body).map_err(|error| {
        ModelError::new(ErrorClass::Internal, format!("the request could not be written as JSON: {error}"))
    })
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Body<'a> {
    contents: Vec<Content<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    system_instruction: Option<Instruction<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tools: Option<[Tools<'a>; 1]>,
    /// Left out for `AUTO`, which is the default.
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_config: Option<ToolConfig<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    generation_config: Option<Generation>,
}

#[derive(Serialize)]
struct Instruction<'a> {
    parts: [WirePart<'a>; 1],
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Tools<'a> {
    function_declarations: Vec<Declaration<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Declaration<'a> {
    name: &'a str,
    description: &'a str,
    /// JSON Schema; the older `parameters` is another language.
    parameters_json_schema: &'a Value,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ToolConfig<'a> {
    function_calling_config: Calling<'a>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Calling<'a> {
    mode: &'static str,
    allowed_function_names: [&'a str; 1],
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Generation {
    #[serde(skip_serializing_if = "Option::is_none")]
    max_output_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    temperature: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    top_p: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    thinking_config: Option<GeminiThinking>,
    #[serde(skip_serializing_if = "Option::is_none")]
    response_mime_type: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    response_json_schema: Option<Value>,
}

fn generation(request: &Request) -> Result<Option<Generation>, ModelError> {
    let format = request.response_format.as_ref();
    let thinking_config = gemini(&request.model, request.reasoning)?;
    let generation = Generation {
        max_output_tokens: request.max_output_tokens,
        temperature: request.sampling.temperature,
        top_p: request.sampling.top_p,
        thinking_config,
        response_mime_type: format.map(|_| "application/json"),
        response_json_schema: format
            .map(|format| answer_schema(&format.schema, Target::Gemini, Strictness::Never).0),
    };
    let is_said = request.max_output_tokens.is_some()
        || format.is_some()
        || thinking_config.is_some()
        || !request.sampling.is_default();
    Ok(is_said.then_some(generation))
}

#[derive(Serialize)]
struct Content<'a> {
    role: Speaker,
    parts: Vec<WirePart<'a>>,
}

#[derive(Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Speaker {
    User,
    Model,
}

#[derive(Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct WirePart<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<Cow<'a, str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    inline_data: Option<InlineData<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    thought: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    function_call: Option<WireCall<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    function_response: Option<WireResponse<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    thought_signature: Option<&'a str>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct InlineData<'a> {
    mime_type: &'a str,
    data: &'a str,
}

#[derive(Serialize)]
struct WireCall<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<&'a str>,
    name: &'a str,
    args: RawJson,
}

#[derive(Serialize)]
struct WireResponse<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<&'a str>,
    name: &'a str,
    response: Outcome<'a>,
}

/// The two keys by which Gemini tells a result from a failure.
#[derive(Serialize)]
#[serde(rename_all = "lowercase")]
enum Outcome<'a> {
    Output(&'a str),
    Error(&'a str),
}

impl<'a> WirePart<'a> {
    fn text(text: &'a str) -> WirePart<'a> {
        WirePart { text: Some(Cow::Borrowed(text)), ..WirePart::default() }
    }

    fn is_unsigned_text(&self) -> bool {
        self.text.is_some() && self.thought.is_none() && self.thought_signature.is_none()
    }
}

fn declaration<'a>(offer: &'a Offer<'_>) -> Declaration<'a> {
    Declaration {
        name: offer.name,
        description: &offer.description,
        parameters_json_schema: &offer.parameters,
    }
}

/// Turns alternate: neighbours of one speaker are one turn.
fn contents<'a>(request: &'a Request, provider: &str) -> Vec<Content<'a>> {
    let server_ids = server_ids(&request.messages, provider);
    let mut contents: Vec<Content<'_>> = Vec::with_capacity(request.messages.len());
    for message in &request.messages {
        let (role, parts) = match message.role {
            Role::User => (Speaker::User, user_parts(message, &server_ids)),
            Role::Assistant => (Speaker::Model, model_parts(message, provider)),
        };
        match contents.last_mut() {
            // A turn without parts is refused.
            _ if parts.is_empty() => {}
            Some(last) if last.role == role => last.parts.extend(parts),
            _ => contents.push(Content { role, parts }),
        }
    }
    if wants_signatures(&request.model) {
        contents.iter_mut().for_each(sign_foreign_call);
    }
    contents
}

/// Calls and their results are matched by the ids that the server gave, where it gave any.
fn server_ids<'a>(messages: &'a [Message], provider: &str) -> HashMap<&'a str, &'a str> {
    let calls = messages.iter().flat_map(Message::tool_calls);
    calls.filter_map(|call| Some((call.id.as_str(), server_id(call, provider)?))).collect()
}

fn server_id<'a>(call: &'a ToolCall, provider: &str) -> Option<&'a str> {
    native::call_id(call.native.as_ref()?, provider)
}

/// Tool results come first: they must follow the calls they answer.
fn user_parts<'a>(message: &'a Message, server_ids: &HashMap<&str, &'a str>) -> Vec<WirePart<'a>> {
    let mut parts = Vec::with_capacity(message.parts.len());
    for part in &message.parts {
        if let Part::ToolResult(result) = part {
            let id = server_ids.get(result.call_id.as_str()).copied();
            parts.push(WirePart { function_response: Some(response(result, id)), ..WirePart::default() });
        }
    }
    let shown = shown(message);
    if !shown.is_empty() {
        parts.extend(shown.into_iter().map(shown_part));
        return parts;
    }
    let no_results = parts.is_empty();
    for part in &message.parts {
        if let Part::Text { text } = part
            && (!text.is_empty() || no_results)
        {
            parts.push(WirePart::text(text));
        }
    }
    parts
}

fn shown_part(shown: Shown<'_>) -> WirePart<'_> {
    match shown {
        Shown::Text(text) => WirePart { text: Some(text), ..WirePart::default() },
        Shown::Media(media) => {
            let inline_data = InlineData { mime_type: &media.mime, data: &media.data };
            WirePart { inline_data: Some(inline_data), ..WirePart::default() }
        }
    }
}

fn response<'a>(result: &'a ToolResult, id: Option<&'a str>) -> WireResponse<'a> {
    let response = match result.is_error {
        true => Outcome::Error(&result.content),
        false => Outcome::Output(&result.content),
    };
    WireResponse { id, name: &result.name, response }
}

/// A turn as it came. Thoughts go back only where they are signed: the others are summaries for people.
fn model_parts<'a>(message: &'a Message, provider: &str) -> Vec<WirePart<'a>> {
    let mut parts: Vec<WirePart<'_>> = Vec::with_capacity(message.parts.len());
    for part in &message.parts {
        match part {
            Part::Text { text } if !text.is_empty() => parts.push(WirePart::text(text)),
            Part::Thinking { text, native: Some(native) } => signed(text, native, provider, &mut parts),
            Part::ToolCall(call) => parts.push(WirePart {
                function_call: Some(WireCall {
                    id: server_id(call, provider),
                    name: &call.name,
                    args: call.input(),
                }),
                thought_signature: call
                    .native
                    .as_ref()
                    .and_then(|native| native::call_signature(native, provider)),
                ..WirePart::default()
            }),
            Part::Text { .. } | Part::Thinking { .. } | Part::ToolResult(_) | Part::Media(_) => {}
        }
    }
    parts
}

/// The part that a signature stood on, cut off from what was streamed before it.
fn signed<'a>(thought: &'a str, native: &'a Value, provider: &str, parts: &mut Vec<WirePart<'a>>) {
    let Some(part) = native::signed_part(native, provider) else { return };
    let signed = WirePart { thought_signature: Some(part.signature), ..WirePart::default() };
    match part.signed {
        Signed::Thought => {
            let (_, text) = split_end(thought, part.bytes);
            parts.push(WirePart { text: Some(Cow::Borrowed(text)), thought: Some(true), ..signed });
        }
        Signed::Text => {
            let before = parts.pop_if(|last| last.is_unsigned_text()).and_then(|part| part.text);
            // What the model said is always borrowed from the conversation.
            let before = if let Some(Cow::Borrowed(text)) = before { text } else { "" };
            let (before, text) = split_end(before, part.bytes);
            if !before.is_empty() {
                parts.push(WirePart::text(before));
            }
            parts.push(WirePart { text: Some(Cow::Borrowed(text)), ..signed });
        }
    }
}

/// `text` before its last `bytes`, and those.
fn split_end(text: &str, bytes: usize) -> (&str, &str) {
    text.split_at(text.floor_char_boundary(text.len().saturating_sub(bytes)))
}

/// Models before the third generation sign nothing, or do not insist.
fn wants_signatures(model: &str) -> bool {
    let name = model.strip_prefix("models/").unwrap_or(model);
    !["gemini-1", "gemini-2", "gemma"].iter().any(|older| name.starts_with(older))
}

fn sign_foreign_call(content: &mut Content<'_>) {
    let first = content.parts.iter_mut().find(|part| part.function_call.is_some());
    if let Some(part) = first {
        part.thought_signature.get_or_insert(FOREIGN_CALL_SIGNATURE);
    }
}

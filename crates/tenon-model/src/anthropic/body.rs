//! The request body of the Messages API.
//!
//! The wire is strict about a conversation: users and assistants take turns, results of tools come first in
//! the turn after their calls, no text is blank, no turn is empty and none of the assistant's ends in thinking.

use std::borrow::Cow;

use serde::Serialize;
use serde_json::Value;
use tenon_core::{ErrorClass, Media, Message, ModelError, Part, RawJson, Request, Role, ToolChoice};

use super::native::{self, Kept};
use crate::adapt::{Offer, Strictness, Target, offers};
use crate::media::PDF;
use crate::reasoning::{ClaudeReasoning, ClaudeThinking};

/// What is asked for in the end; a server may not have taken what the request wanted.
pub(super) struct Terms<'a> {
    pub max_tokens: u64,
    pub reasoning: ClaudeReasoning,
    pub tool_choice: &'a ToolChoice,
}

pub(super) fn json(request: &Request, terms: &Terms<'_>, provider: &str) -> Result<String, ModelError> {
    let offers = offers(request, Target::Anthropic, Strictness::Never);
    let mut tools: Vec<WireTool<'_>> = offers.iter().map(tool).collect();
    if let Some(last) = tools.last_mut() {
        last.cache_control = Some(EPHEMERAL);
    }
    let reasoning = terms.reasoning.within(terms.max_tokens);
    let body = Body {
        model: &request.model,
        max_tokens: terms.max_tokens,
        system: system(&request.system),
        // Without tools there is nothing to choose, and saying so is refused.
        tool_choice: (!tools.is_empty()).then(|| match terms.tool_choice {
            ToolChoice::Auto => Choice::Auto,
            ToolChoice::Force(name) => Choice::Tool { name },
        }),
        tools,
        messages: messages(request, provider),
        temperature: request.sampling.temperature,
        top_p: request.sampling.top_p,
        thinking: reasoning.thinking,
        output_config: reasoning.effort.map(|effort| OutputConfig { effort }),
        stream: true,
    };
    serde_json::to_string(&body).map_err(|error| {
        ModelError::new(ErrorClass::Internal, format!("the request could not be written as JSON: {error}"))
    })
}

#[derive(Serialize)]
struct Body<'a> {
    model: &'a str,
    max_tokens: u64,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    system: Vec<Block<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<WireTool<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_choice: Option<Choice<'a>>,
    messages: Vec<WireMessage<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    temperature: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    top_p: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    thinking: Option<ClaudeThinking>,
    #[serde(skip_serializing_if = "Option::is_none")]
    output_config: Option<OutputConfig>,
    stream: bool,
}

#[derive(Serialize)]
struct OutputConfig {
    effort: &'static str,
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "lowercase")]
enum Choice<'a> {
    Auto,
    Tool { name: &'a str },
}

#[derive(Serialize)]
struct WireTool<'a> {
    name: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    description: &'a str,
    input_schema: &'a Value,
    #[serde(skip_serializing_if = "Option::is_none")]
    cache_control: Option<CacheControl>,
}

#[derive(Serialize)]
struct WireMessage<'a> {
    #[serde(serialize_with = "role_name")]
    role: Role,
    content: Vec<Block<'a>>,
}

#[derive(Serialize)]
struct Block<'a> {
    #[serde(flatten)]
    content: Content<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cache_control: Option<CacheControl>,
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Content<'a> {
    Text {
        text: &'a str,
    },
    Thinking {
        thinking: &'a str,
        signature: &'a str,
    },
    RedactedThinking {
        data: &'a str,
    },
    ToolUse {
        id: Cow<'a, str>,
        name: &'a str,
        input: RawJson,
    },
    ToolResult {
        tool_use_id: Cow<'a, str>,
        /// Left out when blank: blank text is refused.
        #[serde(skip_serializing_if = "Option::is_none")]
        content: Option<Told<'a>>,
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        is_error: bool,
    },
    Image {
        source: Source<'a>,
    },
    Document {
        source: Source<'a>,
    },
}

#[derive(Serialize)]
#[serde(untagged)]
enum Told<'a> {
    Text(&'a str),
    /// Text, images and documents.
    Blocks(Vec<Content<'a>>),
}

#[derive(Serialize)]
struct Source<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    media_type: &'a str,
    data: &'a str,
}

/// What comes before this place may be asked for again soon.
#[derive(Clone, Copy, Serialize)]
struct CacheControl {
    #[serde(rename = "type")]
    kind: &'static str,
}

const EPHEMERAL: CacheControl = CacheControl { kind: "ephemeral" };

/// How many user turns are marked, from the last one back: the last one for the next request, the one before
/// it because it was the last one of the request before. A cache is searched only so far back from a mark,
/// and a turn may hold many results. Together with tools and system these are the four marks allowed.
const MARKED_TURNS: usize = 2;

fn role_name<S: serde::Serializer>(role: &Role, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(match role {
        Role::User => "user",
        Role::Assistant => "assistant",
    })
}

fn system(text: &str) -> Vec<Block<'_>> {
    let block = Block { content: Content::Text { text }, cache_control: Some(EPHEMERAL) };
    if is_blank(text) { Vec::new() } else { vec![block] }
}

fn tool<'a>(offer: &'a Offer<'_>) -> WireTool<'a> {
    WireTool {
        name: offer.name,
        description: &offer.description,
        input_schema: &offer.parameters,
        cache_control: None,
    }
}

fn messages<'a>(request: &'a Request, provider: &str) -> Vec<WireMessage<'a>> {
    let mut wire: Vec<WireMessage<'_>> = Vec::with_capacity(request.messages.len());
    for message in &request.messages {
        let content = blocks(message, provider);
        match wire.last_mut() {
            _ if content.is_empty() => {}
            Some(last) if last.role == message.role => last.content.extend(content),
            _ => wire.push(WireMessage { role: message.role, content }),
        }
    }
    for message in wire.iter_mut().filter(|message| message.role == Role::User) {
        // Stable: the order is otherwise kept.
        message.content.sort_by_key(|block| !matches!(block.content, Content::ToolResult { .. }));
    }
    trim_end(&mut wire);
    let user_turns = wire.iter_mut().rev().filter(|message| message.role == Role::User);
    for message in user_turns.take(MARKED_TURNS) {
        if let Some(last) = message.content.last_mut() {
            last.cache_control = Some(EPHEMERAL);
        }
    }
    wire
}

/// An answer that is to be continued may not end in white space.
fn trim_end(wire: &mut [WireMessage<'_>]) {
    let Some(WireMessage { role: Role::Assistant, content }) = wire.last_mut() else { return };
    if let Some(Block { content: Content::Text { text }, .. }) = content.last_mut() {
        *text = text.trim_end();
    }
}

fn blocks<'a>(message: &'a Message, provider: &str) -> Vec<Block<'a>> {
    let contents =
        message.parts.iter().flat_map(|part| content(part, provider).into_iter().chain(beside(part)));
    let mut blocks: Vec<Block<'_>> = contents.map(|content| Block { content, cache_control: None }).collect();
    let is_thinking = |block: &Block<'_>| {
        matches!(block.content, Content::Thinking { .. } | Content::RedactedThinking { .. })
    };
    while blocks.pop_if(|block| is_thinking(block)).is_some() {}
    blocks
}

fn content<'a>(part: &'a Part, provider: &str) -> Option<Content<'a>> {
    match part {
        Part::Text { text } => (!is_blank(text)).then_some(Content::Text { text }),
        Part::Thinking { text, native } => match native::kept(native.as_ref()?, provider)? {
            Kept::Signed(signature) => Some(Content::Thinking { thinking: text, signature }),
            Kept::Redacted(data) => Some(Content::RedactedThinking { data }),
        },
        Part::ToolCall(call) => {
            Some(Content::ToolUse { id: wire_id(&call.id), name: &call.name, input: call.input() })
        }
        Part::ToolResult(result) => {
            let text = (!is_blank(&result.content)).then_some(result.content.as_str());
            let content = match result.media.as_slice() {
                media if !media.is_empty() && !result.is_error => {
                    let text = text.map(|text| Content::Text { text });
                    Some(Told::Blocks(text.into_iter().chain(media.iter().map(attached)).collect()))
                }
                _ => text.map(Told::Text),
            };
            Some(Content::ToolResult {
                tool_use_id: wire_id(&result.call_id),
                content,
                is_error: result.is_error,
            })
        }
        Part::Media(media) => Some(attached(media)),
    }
}

/// A failed result may hold nothing but text: what it shows stands beside it.
fn beside(part: &Part) -> impl Iterator<Item = Content<'_>> {
    let media = match part {
        Part::ToolResult(result) if result.is_error => result.media.as_slice(),
        _ => &[],
    };
    media.iter().map(attached)
}

fn attached(media: &Media) -> Content<'_> {
    let source = Source { kind: "base64", media_type: &media.mime, data: &media.data };
    match media.mime == PDF {
        true => Content::Document { source },
        false => Content::Image { source },
    }
}

fn is_blank(text: &str) -> bool {
    text.trim().is_empty()
}

/// Ids are letters, digits, `_` and `-` only. Those of other wires may hold more, and a conversation may have
/// begun there.
fn wire_id(id: &str) -> Cow<'_, str> {
    let is_plain = |char: char| char.is_ascii_alphanumeric() || matches!(char, '_' | '-');
    if id.chars().all(is_plain) {
        return Cow::Borrowed(id);
    }
    let spell = |char: char| match is_plain(char) {
        true => char.to_string(),
        false => format!("_{:x}", u32::from(char)),
    };
    Cow::Owned(id.chars().map(spell).collect())
}

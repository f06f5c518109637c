//! What a reply says, in nobody's words: the wires that know blocks, items or parts are rendered from this.
//! Deltas written for chat completions are folded into the same few things.

use serde_json::Value;

use crate::reply::{Reply, Step, ThinkingField, UsagePlace};

/// The text of an endless stream, again and again.
pub(super) const ENDLESS_TEXT: &str = "and so on ";

#[derive(Clone)]
pub(super) enum Part {
    Text(String),
    Thinking(ThinkingField, String),
    Signature(String),
    RedactedThinking(String),
    Call(Call),
    Event(String),
    Error(Value),
    Failed(Value),
    Comment(String),
    Raw(Vec<u8>),
    Bulk(usize),
}

#[derive(Clone)]
pub(super) struct Call {
    pub id: String,
    pub name: String,
    /// The pieces in which the arguments arrive.
    pub pieces: Vec<String>,
    pub signature: Option<String>,
}

impl Call {
    pub fn arguments(&self) -> String {
        self.pieces.concat()
    }

    /// The arguments as JSON; a string where they are none.
    pub fn arguments_value(&self) -> Value {
        let text = self.arguments();
        if text.is_empty() {
            return Value::Object(serde_json::Map::new());
        }
        serde_json::from_str(&text).unwrap_or(Value::String(text))
    }
}

pub(super) fn parts(reply: &Reply) -> Vec<Part> {
    let mut parts = Vec::new();
    for step in &reply.steps {
        match step {
            Step::Text(text) => parts.push(Part::Text(text.clone())),
            Step::Thinking(field, text) => parts.push(Part::Thinking(*field, text.clone())),
            Step::Signature(signature) => match parts.last_mut() {
                Some(Part::Call(call)) => call.signature = Some(signature.clone()),
                _ => parts.push(Part::Signature(signature.clone())),
            },
            Step::RedactedThinking(data) => parts.push(Part::RedactedThinking(data.clone())),
            Step::Call { id, name, arguments, .. } => parts.push(Part::Call(Call {
                id: id.clone(),
                name: name.clone(),
                pieces: halves(arguments),
                signature: None,
            })),
            Step::Delta(delta) => fold_delta(&mut parts, delta),
            Step::Event(payload) => parts.push(Part::Event(payload.clone())),
            Step::Error(error) => parts.push(Part::Error(error.clone())),
            Step::Failed(error) => parts.push(Part::Failed(error.clone())),
            Step::Comment(text) => parts.push(Part::Comment(text.clone())),
            Step::Raw(bytes) => parts.push(Part::Raw(bytes.clone())),
            Step::Bulk(count) => parts.push(Part::Bulk(*count)),
        }
    }
    parts
}

/// The same for an answer in one object: one text where there were many pieces of it.
pub(super) fn merged_parts(reply: &Reply) -> Vec<Part> {
    let mut merged: Vec<Part> = Vec::new();
    for part in parts(reply) {
        let part = match part {
            Part::Bulk(count) => Part::Text((0..count).map(bulk_text).collect()),
            other => other,
        };
        match (merged.last_mut(), part) {
            (Some(Part::Text(before)), Part::Text(text))
            | (Some(Part::Thinking(_, before)), Part::Thinking(_, text)) => before.push_str(&text),
            (_, part) => merged.push(part),
        }
    }
    merged
}

/// The text of one generated delta.
pub(super) fn bulk_text(number: usize) -> String {
    format!("chunk {number} ")
}

/// Arguments in two pieces, as real servers send them; an empty piece is not sent.
pub(super) fn halves(arguments: &str) -> Vec<String> {
    let (left, right) = arguments.split_at(arguments.floor_char_boundary(arguments.len() / 2));
    [left, right].into_iter().filter(|piece| !piece.is_empty()).map(str::to_owned).collect()
}

fn fold_delta(parts: &mut Vec<Part>, delta: &Value) {
    let text = |field: &str| delta[field].as_str().map(str::to_owned);
    parts.extend(text("reasoning_content").map(|text| Part::Thinking(ThinkingField::ReasoningContent, text)));
    parts.extend(text("reasoning").map(|text| Part::Thinking(ThinkingField::Reasoning, text)));
    parts.extend(text("content").map(Part::Text));
    for member in delta["tool_calls"].as_array().into_iter().flatten() {
        let mut calls = parts.iter_mut().filter_map(|part| match part {
            Part::Call(call) => Some(call),
            _ => None,
        });
        let known = member["index"].as_u64().and_then(|index| calls.nth(index as usize));
        let piece = member["function"]["arguments"].as_str().filter(|piece| !piece.is_empty());
        let pieces: Vec<String> = piece.map(str::to_owned).into_iter().collect();
        match known {
            Some(call) => call.pieces.extend(pieces),
            None => parts.push(Part::Call(Call {
                id: member["id"].as_str().unwrap_or_default().to_owned(),
                name: member["function"]["name"].as_str().unwrap_or_default().to_owned(),
                pieces,
                signature: None,
            })),
        }
    }
}

/// Tokens used: the numbers of a usage object of chat completions, or an object of the wire's own.
pub(super) enum Counted<'a> {
    Tokens(Tokens),
    Native(&'a Value),
}

#[derive(Clone, Copy)]
pub(super) struct Tokens {
    pub prompt: u64,
    pub cached: u64,
    pub completion: u64,
    pub reasoning: u64,
}

pub(super) fn counted(reply: &Reply) -> Option<Counted<'_>> {
    let usage = reply.usage.as_ref()?;
    if usage.get("prompt_tokens").is_none() && usage.get("completion_tokens").is_none() {
        return Some(Counted::Native(usage));
    }
    let number = |value: &Value| value.as_u64().unwrap_or(0);
    Some(Counted::Tokens(Tokens {
        prompt: number(&usage["prompt_tokens"]),
        cached: number(&usage["prompt_tokens_details"]["cached_tokens"]),
        completion: number(&usage["completion_tokens"]),
        reasoning: number(&usage["completion_tokens_details"]["reasoning_tokens"]),
    }))
}

/// Does chat completions send an event for the usage alone?
pub(super) fn usage_counts_as_event(reply: &Reply) -> bool {
    reply.usage.is_some() && reply.usage_place == UsagePlace::OwnChunk
}

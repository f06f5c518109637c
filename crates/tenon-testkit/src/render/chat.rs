//! A reply as OpenAI chat completions: a stream of `chat.completion.chunk`, or one `chat.completion`.

use serde_json::{Map, Value, json};

use super::blocks::{BlockKind, Blocks};
use super::parts::{ENDLESS_TEXT, bulk_text, halves};
use super::{CREATED, Speech, finish_word};
use crate::reply::{Fault, Step, ThinkingField, UsagePlace};

pub(super) fn stream(speech: &Speech<'_>, out: &mut Blocks<'_>) {
    let reply = speech.reply;
    let delta = |delta: Value| chunk(speech, delta, Value::Null, None);
    out.event(&delta(json!({"role": "assistant", "content": ""})));
    for step in &reply.steps {
        match step {
            Step::Event(payload) => out.data(BlockKind::Event, payload),
            Step::Error(error) | Step::Failed(error) => out.event(&json!({"error": error})),
            Step::Raw(bytes) => out.raw(bytes),
            Step::Comment(text) => out.comment(text),
            Step::Bulk(count) => {
                for number in 0..*count {
                    out.push(BlockKind::BulkEvent, &delta(json!({"content": bulk_text(number)})));
                }
            }
            said => deltas(said).into_iter().for_each(|said| out.event(&delta(said))),
        }
    }
    if reply.fault == Fault::Endless {
        out.event(&delta(json!({"content": ENDLESS_TEXT})));
        return;
    }
    let usage_with_finish = match reply.usage_place {
        UsagePlace::WithFinish => reply.usage.clone(),
        UsagePlace::OwnChunk => None,
    };
    if let Some(reason) = finish_word(reply) {
        out.event(&chunk(speech, json!({}), json!(reason), usage_with_finish));
    }
    if let (Some(usage), UsagePlace::OwnChunk) = (&reply.usage, reply.usage_place) {
        let mut chunk = envelope(speech, "chat.completion.chunk");
        chunk.insert("choices".into(), json!([]));
        chunk.insert("usage".into(), usage.clone());
        out.event(&Value::Object(chunk));
    }
    if reply.done {
        out.data(BlockKind::Event, "[DONE]");
    }
}

/// The deltas folded into the object that a request without `stream` would get.
pub(super) fn whole(speech: &Speech<'_>) -> Value {
    let reply = speech.reply;
    let mut message = Map::new();
    message.insert("role".into(), json!("assistant"));
    message.insert("content".into(), Value::Null);
    let mut calls: Vec<Value> = Vec::new();
    for delta in reply.steps.iter().flat_map(deltas) {
        for field in ["content", "reasoning_content", "reasoning"] {
            if let Some(text) = delta[field].as_str() {
                let before = message.get(field).and_then(Value::as_str).unwrap_or_default();
                message.insert(field.into(), json!(format!("{before}{text}")));
            }
        }
        for call in delta["tool_calls"].as_array().into_iter().flatten() {
            fold_call(&mut calls, call);
        }
    }
    if !calls.is_empty() {
        message.insert("tool_calls".into(), json!(calls));
    }
    let mut whole = envelope(speech, "chat.completion");
    let choice = json!({"index": 0, "message": message, "finish_reason": finish_word(reply)});
    whole.insert("choices".into(), json!([choice]));
    if let Some(usage) = &reply.usage {
        whole.insert("usage".into(), usage.clone());
    }
    Value::Object(whole)
}

/// The `delta` objects that say this; none for what this wire cannot say.
fn deltas(step: &Step) -> Vec<Value> {
    match step {
        Step::Text(text) => vec![json!({"content": text})],
        Step::Thinking(ThinkingField::ReasoningContent, text) => vec![json!({"reasoning_content": text})],
        Step::Thinking(ThinkingField::Reasoning, text) => vec![json!({"reasoning": text})],
        Step::Delta(delta) => vec![delta.clone()],
        Step::Call { index, id, name, arguments } => {
            let function = json!({"name": name, "arguments": ""});
            let open = json!({"index": index, "id": id, "type": "function", "function": function});
            let pieces = halves(arguments).into_iter();
            let pieces = pieces.map(|piece| json!({"index": index, "function": {"arguments": piece}}));
            std::iter::once(open).chain(pieces).map(|call| json!({"tool_calls": [call]})).collect()
        }
        _ => Vec::new(),
    }
}

fn envelope(speech: &Speech<'_>, object: &str) -> Map<String, Value> {
    let mut envelope = Map::new();
    envelope.insert("id".into(), json!(format!("chatcmpl-{}", speech.number)));
    envelope.insert("object".into(), json!(object));
    envelope.insert("created".into(), json!(CREATED));
    envelope.insert("model".into(), json!(speech.reply.model));
    envelope
}

fn chunk(speech: &Speech<'_>, delta: Value, finish_reason: Value, usage: Option<Value>) -> Value {
    let mut chunk = envelope(speech, "chat.completion.chunk");
    let choice = json!({"index": 0, "delta": delta, "finish_reason": finish_reason});
    chunk.insert("choices".into(), json!([choice]));
    if let Some(usage) = usage {
        chunk.insert("usage".into(), usage);
    }
    Value::Object(chunk)
}

fn fold_call(calls: &mut Vec<Value>, delta: &Value) {
    let index = delta["index"].as_u64().map_or(calls.len(), |index| index as usize);
    let piece = delta["function"]["arguments"].as_str().unwrap_or_default();
    if let Some(call) = calls.get_mut(index) {
        let before = call["function"]["arguments"].as_str().unwrap_or_default();
        call["function"]["arguments"] = json!(format!("{before}{piece}"));
    } else {
        let function = json!({"name": delta["function"]["name"], "arguments": piece});
        calls.push(json!({"id": delta["id"], "type": "function", "function": function}));
    }
}

//! A reply as Gemini's `streamGenerateContent`: a stream of `GenerateContentResponse`, or one of them.
//!
//! Written as text, not as values: the arguments of a call are part of the JSON here, and a script decides
//! about their every byte.

use serde_json::{Value, json};

use super::blocks::{BlockKind, Blocks};
use super::parts::{
    Call, Counted, ENDLESS_TEXT, Part, bulk_text, counted, merged_parts, parts, usage_counts_as_event,
};
use super::{Speech, errors, finish_word};
use crate::reply::{Fault, Reply, UsagePlace};

pub(super) fn stream(speech: &Speech<'_>, out: &mut Blocks<'_>) {
    let mut voice = Voice { speech, out, signature: None, broken: false };
    voice.start();
    for part in parts(speech.reply) {
        voice.say(part);
    }
    if speech.reply.fault == Fault::Endless {
        voice.text(BlockKind::Event, ENDLESS_TEXT);
    } else {
        voice.finish();
    }
}

pub(super) fn whole(speech: &Speech<'_>) -> Value {
    let reply = speech.reply;
    let mut signature = None;
    let mut said: Vec<String> = Vec::new();
    for part in merged_parts(reply) {
        match part {
            Part::Text(text) => said.push(text_part(&text, signature.take())),
            Part::Thinking(_, text) => said.push(thought_part(&text, None)),
            Part::Signature(given) => signature = Some(given),
            Part::RedactedThinking(data) => said.push(thought_part("", Some(data))),
            Part::Call(call) => said.push(call_part(&call, signature.take())),
            _ => {}
        }
    }
    said.extend(signature.map(|signature| text_part("", Some(signature))));
    let response = match blocked(speech) {
        Some(response) => response,
        None => {
            let candidate = candidate(&said, finish_reason(reply).as_deref());
            response(speech, &[("candidates", format!("[{candidate}]"))], usage(reply))
        }
    };
    serde_json::from_str(&response).expect("the JSON written above")
}

struct Voice<'a, 'b> {
    speech: &'a Speech<'a>,
    out: &'a mut Blocks<'b>,
    /// Waits for the part it belongs to.
    signature: Option<String>,
    broken: bool,
}

impl Voice<'_, '_> {
    /// The other wires open with an event that says nothing; here it is a candidate without parts.
    fn start(&mut self) {
        if self.speech.reply.blocked.is_some() {
            self.out.without_bytes();
            return;
        }
        let candidate = r#"{"content":{"role":"model"},"index":0}"#;
        let usage = first_usage(self.speech.reply);
        let opening = response(self.speech, &[("candidates", format!("[{candidate}]"))], usage);
        self.out.data(BlockKind::Event, &opening);
    }

    fn say(&mut self, part: Part) {
        match part {
            Part::Text(text) => self.text(BlockKind::Event, &text),
            Part::Bulk(count) => {
                for number in 0..count {
                    self.text(BlockKind::BulkEvent, &bulk_text(number));
                }
            }
            Part::Thinking(_, text) => self.part(BlockKind::Event, thought_part(&text, None)),
            Part::Signature(signature) => self.signature = Some(signature),
            Part::RedactedThinking(data) => self.part(BlockKind::Uncounted, thought_part("", Some(data))),
            Part::Call(call) => {
                // Its name and every piece of its arguments count, although it comes whole.
                call.pieces.iter().for_each(|_| self.out.without_bytes());
                let signature = self.signature.take();
                self.part(BlockKind::Event, call_part(&call, signature));
            }
            Part::Event(payload) => self.out.data(BlockKind::Event, &payload),
            Part::Error(error) | Part::Failed(error) => {
                self.out.event(&errors::gemini_event(&error));
                self.broken = true;
            }
            Part::Comment(text) => self.out.comment(&text),
            Part::Raw(bytes) => self.out.raw(&bytes),
        }
    }

    fn text(&mut self, kind: BlockKind, text: &str) {
        let signature = self.signature.take();
        self.part(kind, text_part(text, signature));
    }

    fn part(&mut self, kind: BlockKind, part: String) {
        let candidate = candidate(&[part], None);
        let chunk = response(self.speech, &[("candidates", format!("[{candidate}]"))], None);
        self.out.data(kind, &chunk);
    }

    fn finish(&mut self) {
        let reply = self.speech.reply;
        let reason = finish_reason(reply);
        if self.broken && reason.is_none() {
            return;
        }
        let last = match (blocked(self.speech), &reason) {
            (Some(blocked), _) => Some(blocked),
            (None, Some(reason)) => {
                let candidate = self.last_candidate(reason);
                Some(response(self.speech, &[("candidates", format!("[{candidate}]"))], usage(reply)))
            }
            (None, None) => usage(reply).map(|usage| response(self.speech, &[], Some(usage))),
        };
        if let Some(last) = last {
            self.out.data(BlockKind::Event, &last);
        }
        if reason.is_some() && usage_counts_as_event(reply) {
            self.out.without_bytes();
        }
        if reply.done {
            self.out.without_bytes();
        }
    }

    /// An answer that was stopped for what it says has no content.
    fn last_candidate(&mut self, reason: &str) -> String {
        let signature = self.signature.take();
        if reason == "SAFETY" && signature.is_none() {
            return candidate(&[], Some(reason));
        }
        candidate(&[text_part("", signature)], Some(reason))
    }
}

fn candidate(parts: &[String], finish_reason: Option<&str>) -> String {
    let mut members = Vec::new();
    if !parts.is_empty() {
        members.push(format!(r#""content":{{"parts":[{}],"role":"model"}}"#, parts.join(",")));
    }
    members.extend(finish_reason.map(|reason| format!(r#""finishReason":{}"#, json!(reason))));
    members.push(r#""index":0"#.to_owned());
    format!("{{{}}}", members.join(","))
}

fn response(speech: &Speech<'_>, members: &[(&str, String)], usage: Option<Value>) -> String {
    let mut all: Vec<String> = members.iter().map(|(name, value)| format!(r#""{name}":{value}"#)).collect();
    all.extend(usage.map(|usage| format!(r#""usageMetadata":{usage}"#)));
    all.push(format!(r#""modelVersion":{}"#, json!(speech.reply.model)));
    all.push(format!(r#""responseId":"response-{}""#, speech.number));
    format!("{{{}}}", all.join(","))
}

fn blocked(speech: &Speech<'_>) -> Option<String> {
    let feedback = json!({"blockReason": speech.reply.blocked.as_ref()?});
    Some(response(speech, &[("promptFeedback", feedback.to_string())], usage(speech.reply)))
}

fn text_part(text: &str, signature: Option<String>) -> String {
    signed(json!({"text": text}), signature)
}

fn thought_part(text: &str, signature: Option<String>) -> String {
    signed(json!({"text": text, "thought": true}), signature)
}

fn signed(mut part: Value, signature: Option<String>) -> String {
    if let Some(signature) = signature {
        part["thoughtSignature"] = json!(signature);
    }
    part.to_string()
}

/// A signature of its own goes before one that waited. An empty id is left out, as some servers do.
fn call_part(call: &Call, waiting: Option<String>) -> String {
    let mut members = Vec::new();
    if !call.id.is_empty() {
        members.push(format!(r#""id":{}"#, json!(call.id)));
    }
    members.push(format!(r#""name":{}"#, json!(call.name)));
    let arguments = call.arguments();
    if !arguments.is_empty() {
        let is_json = serde_json::from_str::<Value>(&arguments).is_ok();
        // In JSON a line can only end between two tokens, and an event is one line.
        let one_line = arguments.replace(['\n', '\r'], " ");
        members.push(format!(r#""args":{}"#, if is_json { one_line } else { json!(arguments).to_string() }));
    }
    let call_object = format!(r#""functionCall":{{{}}}"#, members.join(","));
    match call.signature.clone().or(waiting) {
        Some(signature) => format!(r#"{{{call_object},"thoughtSignature":{}}}"#, json!(signature)),
        None => format!("{{{call_object}}}"),
    }
}

fn finish_reason(reply: &Reply) -> Option<String> {
    let word = finish_word(reply)?;
    Some(match word.as_str() {
        "stop" | "tool_calls" => "STOP".into(),
        "length" => "MAX_TOKENS".into(),
        "content_filter" => "SAFETY".into(),
        _ => word,
    })
}

/// All the numbers. Thoughts are not part of `candidatesTokenCount` here.
fn usage(reply: &Reply) -> Option<Value> {
    Some(match counted(reply)? {
        Counted::Native(usage) => usage.clone(),
        Counted::Tokens(tokens) => json!({
            "promptTokenCount": tokens.prompt,
            "candidatesTokenCount": tokens.completion.saturating_sub(tokens.reasoning),
            "totalTokenCount": tokens.prompt + tokens.completion,
            "cachedContentTokenCount": tokens.cached,
            "thoughtsTokenCount": tokens.reasoning,
        }),
    })
}

/// The opening event knows the input.
fn first_usage(reply: &Reply) -> Option<Value> {
    match (reply.usage_place, counted(reply)?) {
        (UsagePlace::OwnChunk, Counted::Tokens(tokens)) => {
            Some(json!({"promptTokenCount": tokens.prompt, "totalTokenCount": tokens.prompt}))
        }
        _ => None,
    }
}

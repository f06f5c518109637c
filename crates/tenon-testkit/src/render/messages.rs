//! A reply as Anthropic Messages: `message_start`, content blocks, `message_delta`, `message_stop`; or one
//! `message` object.

use serde_json::{Value, json};

use super::blocks::{BlockKind, Blocks};
use super::parts::{
    Call, Counted, ENDLESS_TEXT, Part, bulk_text, counted, merged_parts, parts, usage_counts_as_event,
};
use super::{Speech, errors, finish_word};
use crate::reply::{Fault, Reply, UsagePlace};

pub(super) fn stream(speech: &Speech<'_>, out: &mut Blocks<'_>) {
    let mut voice = Voice { reply: speech.reply, out, started: 0, open: None, broken: false };
    voice.start_message(speech);
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
    let mut content: Vec<Value> = Vec::new();
    for part in merged_parts(reply) {
        match part {
            Part::Text(text) => content.push(json!({"type": "text", "text": text})),
            Part::Thinking(_, text) => content.push(thinking(&text)),
            Part::Signature(signature) => {
                if content.last().is_none_or(|block| block["type"] != "thinking") {
                    content.push(thinking(""));
                }
                if let Some(block) = content.last_mut() {
                    block["signature"] = json!(signature);
                }
            }
            Part::RedactedThinking(data) => content.push(redacted_thinking(&data)),
            Part::Call(call) => content.push(tool_use(&call, call.arguments_value())),
            _ => {}
        }
    }
    let mut message = message(speech, content);
    message["stop_reason"] = json!(stop_reason(reply));
    if let Some(usage) = usage(reply) {
        message["usage"] = usage;
    }
    message
}

struct Voice<'a, 'b> {
    reply: &'a Reply,
    out: &'a mut Blocks<'b>,
    /// How many blocks were started.
    started: usize,
    open: Option<Open>,
    /// An error was said; a server ends the stream there.
    broken: bool,
}

#[derive(Clone, Copy, PartialEq)]
enum Open {
    Text,
    Thinking,
    ToolUse,
}

impl Voice<'_, '_> {
    fn start_message(&mut self, speech: &Speech<'_>) {
        let mut message = message(speech, Vec::new());
        if let Some(usage) = first_usage(self.reply) {
            message["usage"] = usage;
        }
        self.out.event(&json!({"type": "message_start", "message": message}));
        self.out.uncounted(&json!({"type": "ping"}));
    }

    fn say(&mut self, part: Part) {
        match part {
            Part::Text(text) => self.text(BlockKind::Event, &text),
            Part::Bulk(count) => {
                for number in 0..count {
                    self.text(BlockKind::BulkEvent, &bulk_text(number));
                }
            }
            Part::Thinking(_, text) => {
                self.switch_to(Open::Thinking, || thinking(""));
                self.delta(BlockKind::Event, json!({"type": "thinking_delta", "thinking": text}));
            }
            Part::Signature(signature) => {
                self.switch_to(Open::Thinking, || thinking(""));
                let delta = json!({"type": "signature_delta", "signature": signature});
                self.delta(BlockKind::Uncounted, delta);
                self.stop_block();
            }
            Part::RedactedThinking(data) => {
                self.stop_block();
                self.start_block(BlockKind::Uncounted, redacted_thinking(&data));
                self.out.uncounted(&json!({"type": "content_block_stop", "index": self.started - 1}));
            }
            Part::Call(call) => self.call(&call),
            Part::Event(payload) => self.out.data(BlockKind::Event, &payload),
            Part::Error(error) | Part::Failed(error) => {
                self.out.event(&errors::messages_event(&error));
                self.broken = true;
            }
            Part::Comment(text) => self.out.comment(&text),
            Part::Raw(bytes) => self.out.raw(&bytes),
        }
    }

    fn text(&mut self, kind: BlockKind, text: &str) {
        self.switch_to(Open::Text, || json!({"type": "text", "text": ""}));
        self.delta(kind, json!({"type": "text_delta", "text": text}));
    }

    fn call(&mut self, call: &Call) {
        self.stop_block();
        self.start_block(BlockKind::Event, tool_use(call, json!({})));
        self.open = Some(Open::ToolUse);
        self.delta(BlockKind::Uncounted, json!({"type": "input_json_delta", "partial_json": ""}));
        for piece in &call.pieces {
            self.delta(BlockKind::Event, json!({"type": "input_json_delta", "partial_json": piece}));
        }
    }

    fn finish(&mut self) {
        let reason = stop_reason(self.reply);
        if self.broken && reason.is_none() {
            return;
        }
        self.stop_block();
        let usage = last_usage(self.reply);
        if reason.is_some() || usage.is_some() {
            let mut event =
                json!({"type": "message_delta", "delta": {"stop_reason": reason, "stop_sequence": null}});
            if let Some(usage) = usage {
                event["usage"] = usage;
            }
            self.out.event(&event);
        }
        if reason.is_some() && usage_counts_as_event(self.reply) {
            self.out.without_bytes();
        }
        if self.reply.done {
            self.out.event(&json!({"type": "message_stop"}));
        }
    }

    fn switch_to(&mut self, open: Open, block: impl FnOnce() -> Value) {
        if self.open != Some(open) {
            self.stop_block();
            self.start_block(BlockKind::Uncounted, block());
            self.open = Some(open);
        }
    }

    fn start_block(&mut self, kind: BlockKind, block: Value) {
        let event = json!({"type": "content_block_start", "index": self.started, "content_block": block});
        self.out.push(kind, &event);
        self.started += 1;
    }

    fn delta(&mut self, kind: BlockKind, delta: Value) {
        let event = json!({"type": "content_block_delta", "index": self.started - 1, "delta": delta});
        self.out.push(kind, &event);
    }

    fn stop_block(&mut self) {
        if self.open.take().is_some() {
            self.out.uncounted(&json!({"type": "content_block_stop", "index": self.started - 1}));
        }
    }
}

fn message(speech: &Speech<'_>, content: Vec<Value>) -> Value {
    json!({"id": format!("msg_{}", speech.number), "type": "message", "role": "assistant",
        "model": speech.reply.model, "content": content, "stop_reason": null, "stop_sequence": null})
}

fn thinking(text: &str) -> Value {
    json!({"type": "thinking", "thinking": text, "signature": ""})
}

fn redacted_thinking(data: &str) -> Value {
    json!({"type": "redacted_thinking", "data": data})
}

fn tool_use(call: &Call, input: Value) -> Value {
    json!({"type": "tool_use", "id": call.id, "name": call.name, "input": input})
}

fn stop_reason(reply: &Reply) -> Option<String> {
    let word = finish_word(reply)?;
    Some(match word.as_str() {
        "stop" => "end_turn".into(),
        "tool_calls" => "tool_use".into(),
        "length" => "max_tokens".into(),
        "content_filter" => "refusal".into(),
        _ => word,
    })
}

/// All the numbers. Tokens read from the cache are not part of `input_tokens` here.
fn usage(reply: &Reply) -> Option<Value> {
    Some(match counted(reply)? {
        Counted::Native(usage) => usage.clone(),
        Counted::Tokens(tokens) => json!({
            "input_tokens": tokens.prompt.saturating_sub(tokens.cached),
            "cache_creation_input_tokens": 0,
            "cache_read_input_tokens": tokens.cached,
            "output_tokens": tokens.completion,
        }),
    })
}

/// The opening event knows the input; its one token of output is a place holder.
fn first_usage(reply: &Reply) -> Option<Value> {
    if reply.usage_place == UsagePlace::WithFinish {
        return None;
    }
    let mut usage = usage(reply)?;
    usage["output_tokens"] = json!(1);
    Some(usage)
}

fn last_usage(reply: &Reply) -> Option<Value> {
    match (reply.usage_place, counted(reply)?) {
        (UsagePlace::OwnChunk, Counted::Tokens(tokens)) => Some(json!({"output_tokens": tokens.completion})),
        _ => usage(reply),
    }
}

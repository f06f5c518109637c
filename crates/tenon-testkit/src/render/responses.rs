//! A reply as OpenAI Responses: a stream of items between `response.created` and `response.completed`,
//! `response.incomplete` or `response.failed`; or one `response` object.

use serde_json::{Value, json};

use super::blocks::{BlockKind, Blocks};
use super::parts::{
    Call, Counted, ENDLESS_TEXT, Part, bulk_text, counted, merged_parts, parts, usage_counts_as_event,
};
use super::{CREATED, Speech, errors, finish_word};
use crate::reply::{Fault, Reply, ThinkingField};

pub(super) fn stream(speech: &Speech<'_>, out: &mut Blocks<'_>) {
    let mut voice = Voice::new(speech, out);
    voice.created();
    for part in parts(speech.reply) {
        voice.say(part);
    }
    if speech.reply.fault == Fault::Endless {
        voice.text(BlockKind::Event, ENDLESS_TEXT);
    } else {
        voice.finish();
    }
}

/// The object that the last event carries.
pub(super) fn whole(speech: &Speech<'_>) -> Value {
    let mut unheard = Blocks::new(speech.reply, speech.ask.wire);
    let mut voice = Voice::new(speech, &mut unheard);
    for part in merged_parts(speech.reply) {
        voice.say(part);
    }
    let ending = voice.ending.clone().or(ending(speech.reply)).unwrap_or(Ending::Completed);
    voice.close_item(ending.item_status());
    voice.response(&ending)
}

struct Voice<'a, 'b> {
    speech: &'a Speech<'a>,
    out: &'a mut Blocks<'b>,
    sequence: u64,
    /// The items that are complete.
    output: Vec<Value>,
    open: Option<Open>,
    /// How the answer has ended already.
    ending: Option<Ending>,
    broken: bool,
}

/// The item that is being sent.
enum Open {
    Message(String),
    Reasoning(ThinkingField, String),
    Call(Call),
}

#[derive(Clone)]
enum Ending {
    Completed,
    Incomplete(String),
    Failed(Value),
}

impl Ending {
    fn item_status(&self) -> &'static str {
        match self {
            Ending::Completed => "completed",
            Ending::Incomplete(_) | Ending::Failed(_) => "incomplete",
        }
    }
}

impl<'a, 'b> Voice<'a, 'b> {
    fn new(speech: &'a Speech<'a>, out: &'a mut Blocks<'b>) -> Self {
        Self { speech, out, sequence: 0, output: Vec::new(), open: None, ending: None, broken: false }
    }

    fn created(&mut self) {
        let response = response(self.speech, "in_progress", json!([]));
        self.send(BlockKind::Event, json!({"type": "response.created", "response": response}));
        self.send(BlockKind::Uncounted, json!({"type": "response.in_progress", "response": response}));
    }

    fn say(&mut self, part: Part) {
        match part {
            Part::Text(text) => self.text(BlockKind::Event, &text),
            Part::Bulk(count) => {
                for number in 0..count {
                    self.text(BlockKind::BulkEvent, &bulk_text(number));
                }
            }
            Part::Thinking(field, text) => self.thinking(field, &text),
            Part::Signature(encrypted) => {
                if !matches!(self.open, Some(Open::Reasoning(..))) {
                    self.open_reasoning(ThinkingField::ReasoningContent);
                }
                self.close_reasoning(Some(&encrypted));
            }
            Part::RedactedThinking(encrypted) => {
                self.open_reasoning(ThinkingField::ReasoningContent);
                self.close_reasoning(Some(&encrypted));
            }
            Part::Call(call) => self.call(call),
            Part::Event(payload) => self.out.data(BlockKind::Event, &payload),
            Part::Error(error) => {
                self.send(BlockKind::Event, errors::responses_event(&error));
                self.broken = true;
            }
            Part::Failed(error) => {
                let ending = Ending::Failed(errors::response_error(&error));
                let response = self.response(&ending);
                self.send(BlockKind::Event, json!({"type": "response.failed", "response": response}));
                (self.ending, self.broken) = (Some(ending), true);
            }
            Part::Comment(text) => self.out.comment(&text),
            Part::Raw(bytes) => self.out.raw(&bytes),
        }
    }

    fn text(&mut self, kind: BlockKind, text: &str) {
        if !matches!(self.open, Some(Open::Message(_))) {
            self.close_item("completed");
            let item = json!({"id": self.item_id("msg"), "type": "message", "status": "in_progress",
                "role": "assistant", "content": []});
            self.add_item(BlockKind::Uncounted, Open::Message(String::new()), item);
            let part = self.place("msg", "response.content_part.added", "content_index");
            self.send(BlockKind::Uncounted, with(part, "part", output_text("")));
        }
        let delta = self.place("msg", "response.output_text.delta", "content_index");
        self.send(kind, with(delta, "delta", json!(text)));
        if let Some(Open::Message(said)) = &mut self.open {
            said.push_str(text);
        }
    }

    fn thinking(&mut self, field: ThinkingField, text: &str) {
        if !matches!(&self.open, Some(Open::Reasoning(open, _)) if *open == field) {
            self.open_reasoning(field);
            let names = ReasoningNames::of(field);
            let part = self.place("rs", names.part_added, names.index);
            self.send(BlockKind::Uncounted, with(part, "part", names.part("")));
        }
        let names = ReasoningNames::of(field);
        let delta = self.place("rs", names.delta, names.index);
        self.send(BlockKind::Event, with(delta, "delta", json!(text)));
        if let Some(Open::Reasoning(_, said)) = &mut self.open {
            said.push_str(text);
        }
    }

    fn open_reasoning(&mut self, field: ThinkingField) {
        self.close_item("completed");
        let item = json!({"id": self.item_id("rs"), "type": "reasoning", "summary": []});
        self.add_item(BlockKind::Uncounted, Open::Reasoning(field, String::new()), item);
    }

    fn close_reasoning(&mut self, encrypted: Option<&str>) {
        let Some(Open::Reasoning(field, text)) = self.open.take() else { return };
        let names = ReasoningNames::of(field);
        let mut item = json!({"id": self.item_id("rs"), "type": "reasoning", "summary": []});
        if !text.is_empty() {
            let done = self.place("rs", names.text_done, names.index);
            self.send(BlockKind::Uncounted, with(done, "text", json!(text)));
            let done = self.place("rs", names.part_done, names.index);
            self.send(BlockKind::Uncounted, with(done, "part", names.part(&text)));
            item[names.list] = json!([names.part(&text)]);
        }
        if self.speech.ask.encrypted_reasoning {
            item["encrypted_content"] = json!(encrypted);
        }
        self.end_item(item);
    }

    fn call(&mut self, call: Call) {
        self.close_item("completed");
        let item = self.function_call(&call, "in_progress", "");
        let pieces = call.pieces.clone();
        self.add_item(BlockKind::Event, Open::Call(call), item);
        for piece in pieces {
            let delta = json!({"type": "response.function_call_arguments.delta", "item_id": self.item_id("fc"),
                "output_index": self.output.len(), "delta": piece});
            self.send(BlockKind::Event, delta);
        }
    }

    fn function_call(&self, call: &Call, status: &str, arguments: &str) -> Value {
        json!({"id": self.item_id("fc"), "type": "function_call", "status": status, "arguments": arguments,
            "call_id": call.id, "name": call.name})
    }

    fn close_item(&mut self, status: &str) {
        match self.open.take() {
            None => {}
            Some(reasoning @ Open::Reasoning(..)) => {
                self.open = Some(reasoning);
                self.close_reasoning(None);
            }
            Some(Open::Message(text)) => {
                let done = self.place("msg", "response.output_text.done", "content_index");
                self.send(BlockKind::Uncounted, with(done, "text", json!(text)));
                let done = self.place("msg", "response.content_part.done", "content_index");
                self.send(BlockKind::Uncounted, with(done, "part", output_text(&text)));
                let item = json!({"id": self.item_id("msg"), "type": "message", "status": status,
                    "role": "assistant", "content": [output_text(&text)]});
                self.end_item(item);
            }
            Some(Open::Call(call)) => {
                let arguments = call.arguments();
                let done = json!({"type": "response.function_call_arguments.done",
                    "item_id": self.item_id("fc"), "output_index": self.output.len(), "arguments": arguments});
                self.send(BlockKind::Uncounted, done);
                let item = self.function_call(&call, status, &arguments);
                self.end_item(item);
            }
        }
    }

    fn finish(&mut self) {
        let ending = ending(self.speech.reply);
        if self.broken && ending.is_none() {
            return;
        }
        self.close_item(ending.as_ref().map_or("completed", Ending::item_status));
        if let Some(ending) = ending {
            let name = match ending {
                Ending::Completed => "response.completed",
                Ending::Incomplete(_) => "response.incomplete",
                Ending::Failed(_) => "response.failed",
            };
            let response = self.response(&ending);
            self.send(BlockKind::Event, json!({"type": name, "response": response}));
        }
        if usage_counts_as_event(self.speech.reply) {
            self.out.without_bytes();
        }
        if self.speech.reply.done {
            self.out.without_bytes();
        }
    }

    fn response(&self, ending: &Ending) -> Value {
        let status = match ending {
            Ending::Completed => "completed",
            Ending::Incomplete(_) => "incomplete",
            Ending::Failed(_) => "failed",
        };
        let mut response = response(self.speech, status, json!(self.output));
        match ending {
            Ending::Completed => {}
            Ending::Incomplete(reason) => response["incomplete_details"] = json!({"reason": reason}),
            Ending::Failed(error) => response["error"] = error.clone(),
        }
        response["usage"] = json!(usage(self.speech.reply));
        response
    }

    fn add_item(&mut self, kind: BlockKind, open: Open, item: Value) {
        let index = self.output.len();
        let event = json!({"type": "response.output_item.added", "output_index": index, "item": item});
        self.send(kind, event);
        self.open = Some(open);
    }

    fn end_item(&mut self, item: Value) {
        let index = self.output.len();
        let event = json!({"type": "response.output_item.done", "output_index": index, "item": item});
        self.send(BlockKind::Uncounted, event);
        self.output.push(item);
    }

    /// An event about the one part of the item that is being sent.
    fn place(&self, prefix: &str, name: &str, index: &str) -> Value {
        json!({"type": name, "item_id": self.item_id(prefix), "output_index": self.output.len(), index: 0})
    }

    fn item_id(&self, prefix: &str) -> String {
        format!("{prefix}_{}_{}", self.speech.number, self.output.len())
    }

    fn send(&mut self, kind: BlockKind, mut event: Value) {
        event["sequence_number"] = json!(self.sequence);
        self.sequence += 1;
        self.out.push(kind, &event);
    }
}

/// Thinking is a summary of it, or its own text; the events differ only in their words.
struct ReasoningNames {
    list: &'static str,
    index: &'static str,
    part_type: &'static str,
    part_added: &'static str,
    delta: &'static str,
    text_done: &'static str,
    part_done: &'static str,
}

impl ReasoningNames {
    fn of(field: ThinkingField) -> Self {
        match field {
            ThinkingField::ReasoningContent => Self {
                list: "summary",
                index: "summary_index",
                part_type: "summary_text",
                part_added: "response.reasoning_summary_part.added",
                delta: "response.reasoning_summary_text.delta",
                text_done: "response.reasoning_summary_text.done",
                part_done: "response.reasoning_summary_part.done",
            },
            ThinkingField::Reasoning => Self {
                list: "content",
                index: "content_index",
                part_type: "reasoning_text",
                part_added: "response.content_part.added",
                delta: "response.reasoning_text.delta",
                text_done: "response.reasoning_text.done",
                part_done: "response.content_part.done",
            },
        }
    }

    fn part(&self, text: &str) -> Value {
        json!({"type": self.part_type, "text": text})
    }
}

fn response(speech: &Speech<'_>, status: &str, output: Value) -> Value {
    json!({"id": format!("resp_{}", speech.number), "object": "response", "created_at": CREATED,
        "status": status, "error": null, "incomplete_details": null, "model": speech.reply.model,
        "output": output, "usage": null})
}

fn output_text(text: &str) -> Value {
    json!({"type": "output_text", "text": text, "annotations": []})
}

fn with(mut event: Value, field: &str, value: Value) -> Value {
    event[field] = value;
    event
}

fn ending(reply: &Reply) -> Option<Ending> {
    Some(match finish_word(reply)?.as_str() {
        "stop" | "tool_calls" => Ending::Completed,
        "length" => Ending::Incomplete("max_output_tokens".into()),
        reason => Ending::Incomplete(reason.into()),
    })
}

fn usage(reply: &Reply) -> Option<Value> {
    Some(match counted(reply)? {
        Counted::Native(usage) => usage.clone(),
        Counted::Tokens(tokens) => json!({
            "input_tokens": tokens.prompt,
            "input_tokens_details": {"cached_tokens": tokens.cached},
            "output_tokens": tokens.completion,
            "output_tokens_details": {"reasoning_tokens": tokens.reasoning},
            "total_tokens": tokens.prompt + tokens.completion,
        }),
    })
}

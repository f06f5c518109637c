//! Answers whose text is the payload: a request with a [`tenon_core::ResponseFormat`].
//!
//! What comes back is turned into the terminal call that it stands for, so that everything behind it is the
//! same as with a tool; what was called in earlier turns goes out as the text it was. The wire itself only
//! sends the schema in its own place.

use std::collections::HashSet;
use std::sync::Arc;

use futures_util::StreamExt;
use tenon_core::{
    Cancel, Delta, DeltaStream, FinishReason, Message, ModelClient, ModelError, Part, Request, ToolResult,
};

use crate::answer::Give;
use crate::call_id::CallIds;
use crate::delta_stream::{Out, deltas};

/// The stream's index of the call that the text stands for. Wires count theirs from 0.
const INDEX: usize = usize::MAX;
/// The word after a code fence: `json`, `jsonc`, `json5`. What is longer is not the name of a language.
const LONGEST_LANGUAGE: usize = 8;

/// A client whose answers in a response format are terminal calls.
pub struct TextAsCall {
    inner: Arc<dyn ModelClient>,
}

impl TextAsCall {
    pub fn new(inner: Arc<dyn ModelClient>) -> TextAsCall {
        TextAsCall { inner }
    }
}

impl ModelClient for TextAsCall {
    fn stream(&self, request: Request, cancel: Cancel) -> DeltaStream {
        let Some(format) = &request.response_format else { return self.inner.stream(request, cancel) };
        let id = CallIds::of(&request).take(None);
        let translator =
            Translator { name: format.name.clone(), id, calls: Calls::None, reading: Reading::start() };
        let answer = self.inner.stream(calls_as_text(request), cancel.clone());
        deltas(cancel, move |out| async move { translate(answer, translator, &out).await })
    }
}

async fn translate(mut answer: DeltaStream, mut translator: Translator, out: &Out) -> Result<(), ModelError> {
    while let Some(delta) = answer.next().await {
        translator.delta(delta?, &mut |delta| out.push(delta));
        out.pause().await;
    }
    translator.end(FinishReason::Stop, &mut |delta| out.push(delta));
    Ok(())
}

/// The conversation as a model that calls no terminal tool has it.
fn calls_as_text(mut request: Request) -> Request {
    let mut terminal = HashSet::new();
    for part in request.messages.iter_mut().flat_map(|message: &mut Message| &mut message.parts) {
        match part {
            Part::ToolCall(call) if call.terminal => {
                terminal.insert(std::mem::take(&mut call.id));
                *part = Part::Text { text: std::mem::take(&mut call.arguments) };
            }
            Part::ToolResult(result) if terminal.contains(&result.call_id) => {
                *part = Part::Text { text: verdict(result) };
            }
            _ => {}
        }
    }
    request
}

fn verdict(result: &ToolResult) -> String {
    match result.is_error {
        true => format!(
            "That answer does not fit the schema:\n{}\nWrite the whole answer again, as JSON and nothing else.",
            result.content
        ),
        false => result.content.clone(),
    }
}

struct Translator {
    name: String,
    id: String,
    calls: Calls,
    reading: Reading,
}

/// Does the answer call other tools?
#[derive(Clone, Copy, PartialEq, Eq)]
enum Calls {
    None,
    Some,
}

/// What the text of the answer has turned out to be.
enum Reading {
    /// Too little to tell.
    Start(String),
    /// The payload. In a code fence, what may be its end is held back.
    Json { fence: Option<String> },
    /// Not JSON. It is a bad answer, or, beside calls of other tools, a remark.
    Prose(String),
    /// What follows is no part of the payload.
    Remarks(Remarks),
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Remarks {
    NotYet,
    Begun,
}

impl Reading {
    fn start() -> Reading {
        Reading::Start(String::new())
    }
}

impl Translator {
    fn delta(&mut self, delta: Delta, give: Give<'_>) {
        match delta {
            Delta::Text(text) => self.text(&text, give),
            Delta::Finished(reason) => {
                self.end(reason, give);
                give(Delta::Finished(reason));
            }
            Delta::ToolCallStarted { .. } => {
                self.calls = Calls::Some;
                if let Reading::Prose(text) | Reading::Start(text) = &mut self.reading {
                    let text = std::mem::take(text);
                    self.reading = Reading::Remarks(Remarks::NotYet);
                    self.text(&text, give);
                }
                give(delta);
            }
            other => give(other),
        }
    }

    fn text(&mut self, text: &str, give: Give<'_>) {
        match &mut self.reading {
            Reading::Start(so_far) => {
                so_far.push_str(text);
                match begin(so_far) {
                    Beginning::Unknown => {}
                    Beginning::Prose => self.reading = Reading::Prose(std::mem::take(so_far)),
                    Beginning::Json { at, fenced } => {
                        let json = so_far[at..].to_owned();
                        self.reading = Reading::Json { fence: fenced.then(String::new) };
                        give(Delta::ToolCallStarted {
                            index: INDEX,
                            id: self.id.clone(),
                            name: self.name.clone(),
                        });
                        self.text(&json, give);
                    }
                }
            }
            Reading::Json { fence: None } => arguments(text, give),
            Reading::Json { fence: Some(held) } => {
                held.push_str(text);
                if let Some((json, rest)) = closed(held) {
                    arguments(json, give);
                    give(Delta::ToolCallEnded { index: INDEX });
                    let rest = rest.to_owned();
                    self.reading = Reading::Remarks(Remarks::NotYet);
                    self.text(&rest, give);
                } else {
                    let may_be_the_end = |c: char| c.is_whitespace() || c == '`';
                    let at = held.trim_end_matches(may_be_the_end).len();
                    arguments(&held[..at], give);
                    held.drain(..at);
                }
            }
            Reading::Prose(so_far) => so_far.push_str(text),
            Reading::Remarks(remarks) => {
                let text = if *remarks == Remarks::NotYet { text.trim_start() } else { text };
                if !text.is_empty() {
                    *remarks = Remarks::Begun;
                    give(Delta::Text(text.to_owned()));
                }
            }
        }
    }

    /// The text is complete: what was held back is given.
    fn end(&mut self, reason: FinishReason, give: Give<'_>) {
        let over = Reading::Remarks(Remarks::NotYet);
        match std::mem::replace(&mut self.reading, over) {
            Reading::Json { fence: Some(held) } => {
                let held = held.trim_end();
                arguments(held.strip_suffix("```").unwrap_or(held).trim_end(), give);
                give(Delta::ToolCallEnded { index: INDEX });
            }
            Reading::Json { fence: None } => give(Delta::ToolCallEnded { index: INDEX }),
            Reading::Start(text) | Reading::Prose(text) => {
                let is_answer = self.calls == Calls::None && reason == FinishReason::Stop;
                if is_answer && !text.trim().is_empty() {
                    give(Delta::ToolCallStarted {
                        index: INDEX,
                        id: self.id.clone(),
                        name: self.name.clone(),
                    });
                    arguments(text.trim(), give);
                } else {
                    self.text(&text, give);
                }
            }
            Reading::Remarks(_) => {}
        }
    }
}

fn arguments(fragment: &str, give: Give<'_>) {
    if !fragment.is_empty() {
        give(Delta::ToolCallArguments { index: INDEX, fragment: fragment.to_owned() });
    }
}

enum Beginning {
    Unknown,
    /// JSON from this byte on.
    Json {
        at: usize,
        fenced: bool,
    },
    Prose,
}

fn begin(text: &str) -> Beginning {
    let start = text.len() - text.trim_start().len();
    let rest = &text[start..];
    match rest.chars().next() {
        None => Beginning::Unknown,
        // A whole answer in a JSON string happens, and is understood.
        Some('{' | '[' | '"') => Beginning::Json { at: start, fenced: false },
        Some('`') => {
            let Some(after) = rest.strip_prefix("```") else {
                return if "```".starts_with(rest) { Beginning::Unknown } else { Beginning::Prose };
            };
            let language = after.trim_start_matches(|c: char| c.is_ascii_alphanumeric());
            let at = start + rest.len() - language.trim_start().len();
            match language.trim_start().chars().next() {
                Some('{' | '[' | '"') => Beginning::Json { at, fenced: true },
                None if after.len() - language.len() <= LONGEST_LANGUAGE => Beginning::Unknown,
                _ => Beginning::Prose,
            }
        }
        Some(_) => Beginning::Prose,
    }
}

/// The JSON before a closing fence on a line of its own, and what follows it. JSON has no line breaks inside
/// strings, so such a line is never part of it.
fn closed(text: &str) -> Option<(&str, &str)> {
    let end = text.match_indices('\n').find_map(|(at, _)| {
        let line = text[at..].trim_start();
        line.starts_with("```").then_some((at, text.len() - line.len() + 3))
    });
    end.map(|(at, after)| (text[..at].trim_end(), &text[after..]))
}

//! One scripted answer of a model: what it says; `reply/sending.rs` has how it is sent and what goes wrong.
//!
//! Only a description, the same for every wire: `render.rs` turns it into bytes, `server.rs` decides which
//! request gets it.

mod sending;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::{Value, json};

/// A new, empty answer: HTTP 200, a stream that says nothing and finishes with `stop`.
pub fn reply() -> Reply {
    Reply::default()
}

/// A door that a reply waits at until the test opens it.
#[derive(Clone, Debug, Default)]
pub struct Gate(Arc<AtomicBool>);

impl Gate {
    pub fn new() -> Self {
        Self::default()
    }

    pub fn open(&self) {
        self.0.store(true, Ordering::SeqCst);
    }

    pub(crate) fn is_open(&self) -> bool {
        self.0.load(Ordering::SeqCst)
    }
}

pub(crate) type Condition = Arc<dyn Fn(&Value) -> bool + Send + Sync>;

/// Built by chaining; deltas are sent in the order they were added.
#[derive(Clone)]
pub struct Reply {
    pub(crate) steps: Vec<Step>,
    pub(crate) calls: usize,
    pub(crate) model: String,
    pub(crate) finish: Finish,
    pub(crate) blocked: Option<String>,
    pub(crate) usage: Option<Value>,
    pub(crate) usage_place: UsagePlace,
    pub(crate) done: bool,
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Body,
    pub(crate) framing: Framing,
    /// Unless set, what servers of the wire send.
    pub(crate) line_end: Option<&'static str>,
    /// What stands between the colon and the value of a field.
    pub(crate) field_space: &'static str,
    pub(crate) keepalives: bool,
    pub(crate) chunk_by: Option<usize>,
    pub(crate) fault: Fault,
    pub(crate) delay_before_headers: Option<Duration>,
    pub(crate) delay_between_events: Option<Duration>,
    pub(crate) hold: Option<Gate>,
    pub(crate) hold_after_events: Option<(usize, Gate)>,
    pub(crate) hold_until_requests: Option<usize>,
    pub(crate) uses: Uses,
    pub(crate) when: Option<Condition>,
}

#[derive(Clone)]
pub(crate) enum Step {
    Text(String),
    Thinking(ThinkingField, String),
    /// What the provider wants back with the thinking, or with the call, just said.
    Signature(String),
    RedactedThinking(String),
    Call {
        index: usize,
        id: String,
        name: String,
        arguments: String,
    },
    /// A `delta` object of chat completions; the other wires send what it says in their own shape.
    Delta(Value),
    /// A whole `data:` payload, sent as it stands.
    Event(String),
    Error(Value),
    /// The answer itself reports that it failed.
    Failed(Value),
    /// A line the client must skip.
    Comment(String),
    /// Bytes put into the stream as they are.
    Raw(Vec<u8>),
    /// So many generated text deltas, written together.
    Bulk(usize),
}

/// Chat completions has no agreed field for thinking.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum ThinkingField {
    ReasoningContent,
    Reasoning,
}

#[derive(Clone)]
pub(crate) enum Finish {
    /// `tool_calls` when there are calls, `stop` otherwise.
    Natural,
    Reason(String),
    Missing,
}

#[derive(Clone, Copy, PartialEq)]
pub(crate) enum UsagePlace {
    /// In a last chunk whose `choices` is empty.
    OwnChunk,
    WithFinish,
}

#[derive(Clone)]
pub(crate) enum Body {
    Stream,
    /// One object although a stream was asked for.
    Whole,
    /// An error object with these words, in the provider's own shape.
    Error(String),
    Plain {
        content_type: String,
        bytes: Vec<u8>,
    },
}

#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Framing {
    Chunked,
    UntilClose,
}

#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Fault {
    None,
    HangAfterEvents(usize),
    CutAfterEvents(usize),
    CutAfterBytes(usize),
    Endless,
}

#[derive(Clone, Copy)]
pub(crate) enum Uses {
    Times(usize),
    Forever,
}

impl Default for Reply {
    fn default() -> Self {
        Self {
            steps: Vec::new(),
            calls: 0,
            model: "test-model".into(),
            finish: Finish::Natural,
            blocked: None,
            usage: None,
            usage_place: UsagePlace::OwnChunk,
            done: true,
            status: 200,
            headers: Vec::new(),
            body: Body::Stream,
            framing: Framing::Chunked,
            line_end: None,
            field_space: " ",
            keepalives: false,
            chunk_by: None,
            fault: Fault::None,
            delay_before_headers: None,
            delay_between_events: None,
            hold: None,
            hold_after_events: None,
            hold_until_requests: None,
            uses: Uses::Times(1),
            when: None,
        }
    }
}

/// What the model says.
impl Reply {
    /// Text in one delta.
    pub fn text(self, text: impl Into<String>) -> Self {
        self.step(Step::Text(text.into()))
    }

    /// Text in several deltas.
    pub fn text_chunks<T: Into<String>>(self, chunks: impl IntoIterator<Item = T>) -> Self {
        chunks.into_iter().fold(self, |reply, chunk| reply.text(chunk))
    }

    /// Thinking: `reasoning_content`, a reasoning summary, a thinking block, a thought part.
    pub fn reasoning(self, text: impl Into<String>) -> Self {
        self.step(Step::Thinking(ThinkingField::ReasoningContent, text.into()))
    }

    /// Thinking as other servers of the wire send it: `reasoning`, or reasoning text instead of a summary.
    pub fn reasoning_as_reasoning(self, text: impl Into<String>) -> Self {
        self.step(Step::Thinking(ThinkingField::Reasoning, text.into()))
    }

    /// What the provider wants back. After thinking: the signature of its block (Messages), the encrypted
    /// content of its item (Responses, where the request asks for it), the signature of the part that comes
    /// next (Gemini). After a call: the signature of its part (Gemini). Chat completions has none.
    pub fn signature(self, signature: impl Into<String>) -> Self {
        self.step(Step::Signature(signature.into()))
    }

    /// Thinking that nobody may read: a redacted block, an item with encrypted content only, an empty
    /// thought with a signature. Chat completions has none.
    pub fn redacted_thinking(self, data: impl Into<String>) -> Self {
        self.step(Step::RedactedThinking(data.into()))
    }

    /// A tool call; its arguments arrive in two pieces, as they do from real servers.
    pub fn call(self, id: &str, name: &str, arguments: Value) -> Self {
        self.call_raw(id, name, &arguments.to_string())
    }

    /// A tool call whose arguments are exactly this text, valid or not (see `Wire::can_break_arguments`).
    pub fn call_raw(mut self, id: &str, name: &str, arguments: &str) -> Self {
        let index = self.calls;
        self.calls += 1;
        self.step(Step::Call { index, id: id.into(), name: name.into(), arguments: arguments.into() })
    }

    /// Raw members of `delta.tool_calls`, one event each: for interleaved, missing or repeated ids.
    pub fn call_deltas(mut self, deltas: impl IntoIterator<Item = Value>) -> Self {
        self.calls = self.calls.max(1);
        deltas.into_iter().fold(self, |reply, delta| reply.delta(json!({"tool_calls": [delta]})))
    }

    /// Any `delta` object of chat completions. The other wires send its text, its thinking and its calls,
    /// each call in one piece of the stream.
    pub fn delta(self, delta: Value) -> Self {
        self.step(Step::Delta(delta))
    }

    /// A whole event, sent as it stands; on wires that name their events, its `type` is the name.
    pub fn event(self, event: Value) -> Self {
        self.data(event.to_string())
    }

    /// The text after `data: `, JSON or not.
    pub fn data(self, text: impl Into<String>) -> Self {
        self.step(Step::Event(text.into()))
    }

    /// An error in mid-stream, `{"message": …, "type": …, "code": …}`, said as the provider says it; no
    /// finish reason follows unless `finish` sets one.
    pub fn error_event(mut self, error: Value) -> Self {
        self.without_natural_finish();
        self.step(Step::Error(error))
    }

    /// The answer ends by saying that it failed: `response.failed` on the Responses wire, elsewhere the
    /// same as `error_event`.
    pub fn failed(mut self, error: Value) -> Self {
        self.without_natural_finish();
        self.step(Step::Failed(error))
    }

    /// A line that starts with a colon, which a client must skip. It is not counted as an event.
    pub fn comment(self, text: impl Into<String>) -> Self {
        self.step(Step::Comment(text.into()))
    }

    /// Bytes put into the stream as they are; counted as one event.
    pub fn raw_stream(self, bytes: impl Into<Vec<u8>>) -> Self {
        self.step(Step::Raw(bytes.into()))
    }

    /// So many short text deltas, generated once and written as fast as the socket takes them.
    pub fn big(self, chunks: usize) -> Self {
        self.step(Step::Bulk(chunks))
    }

    fn step(mut self, step: Step) -> Self {
        self.steps.push(step);
        self
    }

    fn without_natural_finish(&mut self) {
        if matches!(self.finish, Finish::Natural) {
            self.finish = Finish::Missing;
        }
    }

    /// Tokens used, where real servers of the wire send them.
    pub fn usage(self, prompt: u64, completion: u64) -> Self {
        self.usage_full(json!({
            "prompt_tokens": prompt,
            "completion_tokens": completion,
            "total_tokens": prompt + completion,
        }))
    }

    /// The whole `usage` object of chat completions, with its details (`prompt_tokens_details.cached_tokens`,
    /// `completion_tokens_details.reasoning_tokens`), translated for the other wires. An object without
    /// `prompt_tokens` and `completion_tokens` is sent as it stands.
    pub fn usage_full(mut self, usage: Value) -> Self {
        self.usage = Some(usage);
        self
    }

    /// Usage only in the event that carries the finish reason.
    pub fn usage_with_finish(mut self) -> Self {
        self.usage_place = UsagePlace::WithFinish;
        self
    }

    /// The finish reason (`length`, `content_filter`, …), in the words of chat completions; a word of the
    /// wire's own (`pause_turn`, `MALFORMED_FUNCTION_CALL`) is sent as it stands.
    pub fn finish(mut self, reason: impl Into<String>) -> Self {
        self.finish = Finish::Reason(reason.into());
        self
    }

    /// The provider refuses the prompt: `promptFeedback` with this reason on Gemini, elsewhere a finish for
    /// `content_filter`.
    pub fn blocked_prompt(mut self, reason: impl Into<String>) -> Self {
        self.blocked = Some(reason.into());
        self.finish("content_filter")
    }

    /// No event with a finish reason.
    pub fn no_finish(mut self) -> Self {
        self.finish = Finish::Missing;
        self
    }

    /// The model's name in every answer (`test-model` unless set).
    pub fn model(mut self, name: impl Into<String>) -> Self {
        self.model = name.into();
        self
    }
}

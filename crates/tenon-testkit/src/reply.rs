//! One scripted answer of a model: what it says, how it is sent, and what goes wrong on the way.
//!
//! Only a description: `render.rs` turns it into bytes, `server.rs` decides which request gets it.

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
    pub(crate) usage: Option<Value>,
    pub(crate) usage_place: UsagePlace,
    pub(crate) done: bool,
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Body,
    pub(crate) framing: Framing,
    pub(crate) line_end: &'static str,
    pub(crate) data_prefix: &'static str,
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
    /// A `delta` object, wrapped into a chunk.
    Delta(Value),
    /// A whole `data:` payload, sent as it stands.
    Event(String),
    /// A line the client must skip.
    Comment(String),
    /// Bytes put into the stream as they are.
    Raw(Vec<u8>),
    /// So many generated text deltas, written together.
    Bulk(usize),
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
    /// A `chat.completion` object although a stream was asked for.
    Whole,
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
            usage: None,
            usage_place: UsagePlace::OwnChunk,
            done: true,
            status: 200,
            headers: Vec::new(),
            body: Body::Stream,
            framing: Framing::Chunked,
            line_end: "\n",
            data_prefix: "data: ",
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
        self.delta(json!({"content": text.into()}))
    }

    /// Text in several deltas.
    pub fn text_chunks<T: Into<String>>(self, chunks: impl IntoIterator<Item = T>) -> Self {
        chunks.into_iter().fold(self, |reply, chunk| reply.text(chunk))
    }

    /// Thinking, in the field `reasoning_content`.
    pub fn reasoning(self, text: impl Into<String>) -> Self {
        self.delta(json!({"reasoning_content": text.into()}))
    }

    /// Thinking, in the field `reasoning` that other servers use.
    pub fn reasoning_as_reasoning(self, text: impl Into<String>) -> Self {
        self.delta(json!({"reasoning": text.into()}))
    }

    /// A tool call; its arguments arrive in two pieces, as they do from real servers.
    pub fn call(self, id: &str, name: &str, arguments: Value) -> Self {
        self.call_raw(id, name, &arguments.to_string())
    }

    /// A tool call whose arguments are exactly this text, valid or not.
    pub fn call_raw(mut self, id: &str, name: &str, arguments: &str) -> Self {
        let index = self.calls;
        self.calls += 1;
        let open = json!({"index": index, "id": id, "type": "function", "function": {"name": name, "arguments": ""}});
        let (left, right) = arguments.split_at(arguments.floor_char_boundary(arguments.len() / 2));
        let mut deltas = vec![open];
        for piece in [left, right].into_iter().filter(|piece| !piece.is_empty()) {
            deltas.push(json!({"index": index, "function": {"arguments": piece}}));
        }
        self.call_deltas(deltas)
    }

    /// Raw members of `delta.tool_calls`, one event each: for interleaved, missing or repeated ids.
    pub fn call_deltas(mut self, deltas: impl IntoIterator<Item = Value>) -> Self {
        self.calls = self.calls.max(1);
        deltas.into_iter().fold(self, |reply, delta| reply.delta(json!({"tool_calls": [delta]})))
    }

    /// Any `delta` object, wrapped into a chunk.
    pub fn delta(mut self, delta: Value) -> Self {
        self.steps.push(Step::Delta(delta));
        self
    }

    /// A whole chunk, sent as it stands.
    pub fn event(self, chunk: Value) -> Self {
        self.data(chunk.to_string())
    }

    /// The text after `data: `, JSON or not.
    pub fn data(mut self, text: impl Into<String>) -> Self {
        self.steps.push(Step::Event(text.into()));
        self
    }

    /// An error in mid-stream, `data: {"error": …}`; no finish reason follows unless `finish` sets one.
    pub fn error_event(mut self, error: Value) -> Self {
        if matches!(self.finish, Finish::Natural) {
            self.finish = Finish::Missing;
        }
        self.event(json!({"error": error}))
    }

    /// A line that starts with a colon, which a client must skip. It is not counted as an event.
    pub fn comment(mut self, text: impl Into<String>) -> Self {
        self.steps.push(Step::Comment(text.into()));
        self
    }

    /// Bytes put into the stream as they are; counted as one event.
    pub fn raw_stream(mut self, bytes: impl Into<Vec<u8>>) -> Self {
        self.steps.push(Step::Raw(bytes.into()));
        self
    }

    /// So many short text deltas, generated once and written as fast as the socket takes them.
    pub fn big(mut self, chunks: usize) -> Self {
        self.steps.push(Step::Bulk(chunks));
        self
    }

    /// Tokens used, in a last chunk without choices, like real servers send it.
    pub fn usage(self, prompt: u64, completion: u64) -> Self {
        self.usage_full(json!({
            "prompt_tokens": prompt,
            "completion_tokens": completion,
            "total_tokens": prompt + completion,
        }))
    }

    /// The whole `usage` object.
    pub fn usage_full(mut self, usage: Value) -> Self {
        self.usage = Some(usage);
        self
    }

    /// Usage in the chunk that carries the finish reason.
    pub fn usage_with_finish(mut self) -> Self {
        self.usage_place = UsagePlace::WithFinish;
        self
    }

    /// The finish reason (`length`, `content_filter`, …).
    pub fn finish(mut self, reason: impl Into<String>) -> Self {
        self.finish = Finish::Reason(reason.into());
        self
    }

    /// No chunk with a finish reason.
    pub fn no_finish(mut self) -> Self {
        self.finish = Finish::Missing;
        self
    }

    /// The model's name in every chunk (`test-model` unless set).
    pub fn model(mut self, name: impl Into<String>) -> Self {
        self.model = name.into();
        self
    }
}

/// The shape of the answer.
impl Reply {
    /// An HTTP status; unless a body is set, it is a JSON error object that names the code.
    pub fn status(mut self, code: u16) -> Self {
        self.status = code;
        if matches!(self.body, Body::Stream) && code != 200 {
            return self.json(json!({"error": {
                "message": format!("scripted status {code}"), "type": "scripted_error", "code": code,
            }}));
        }
        self
    }

    /// A response header, such as `retry-after`.
    pub fn header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.headers.push((name.into(), value.into()));
        self
    }

    /// A JSON body instead of a stream.
    pub fn json(self, body: Value) -> Self {
        self.raw_body("application/json", body.to_string())
    }

    /// A plain text body instead of a stream.
    pub fn text_body(self, text: impl Into<String>) -> Self {
        self.raw_body("text/plain", text.into())
    }

    /// Any body instead of a stream.
    pub fn raw_body(mut self, content_type: impl Into<String>, bytes: impl Into<Vec<u8>>) -> Self {
        self.body = Body::Plain { content_type: content_type.into(), bytes: bytes.into() };
        self
    }

    /// What was said as one `chat.completion` object, although a stream was asked for.
    pub fn whole(mut self) -> Self {
        self.body = Body::Whole;
        self
    }

    /// No `data: [DONE]`.
    pub fn no_done(mut self) -> Self {
        self.done = false;
        self
    }

    /// Lines end in CR LF.
    pub fn crlf(mut self) -> Self {
        self.line_end = "\r\n";
        self
    }

    /// `data:{…}` without the optional space.
    pub fn no_space(mut self) -> Self {
        self.data_prefix = "data:";
        self
    }

    /// A comment line before every event.
    pub fn keepalives(mut self) -> Self {
        self.keepalives = true;
        self
    }

    /// The stream is sent in pieces of so many bytes, wherever they fall; each is a write of its own.
    pub fn chunk_by(mut self, bytes: usize) -> Self {
        assert!(bytes > 0, "chunk_by needs at least one byte");
        self.chunk_by = Some(bytes);
        self
    }

    /// No chunked encoding: the body ends where the connection does.
    pub fn until_close(mut self) -> Self {
        self.framing = Framing::UntilClose;
        self
    }
}

/// When it is sent, and what goes wrong. Events are the `data:` blocks, counted from the opening one that
/// names the role; comments do not count.
impl Reply {
    pub fn delay_before_headers(mut self, delay: Duration) -> Self {
        self.delay_before_headers = Some(delay);
        self
    }

    pub fn delay_between_events(mut self, delay: Duration) -> Self {
        self.delay_between_events = Some(delay);
        self
    }

    /// Nothing is sent before the gate opens.
    pub fn hold(mut self, gate: &Gate) -> Self {
        self.hold = Some(gate.clone());
        self
    }

    /// So many events are sent, the rest when the gate opens.
    pub fn hold_after_events(mut self, events: usize, gate: &Gate) -> Self {
        self.hold_after_events = Some((events, gate.clone()));
        self
    }

    /// Nothing is sent before the server has received so many requests.
    pub fn hold_until_requests(mut self, requests: usize) -> Self {
        self.hold_until_requests = Some(requests);
        self
    }

    /// So many events, then silence on an open connection until the client leaves.
    pub fn hang_after_events(mut self, events: usize) -> Self {
        self.fault = Fault::HangAfterEvents(events);
        self
    }

    /// So many events, then the connection closes without an end of the body.
    pub fn cut_after_events(mut self, events: usize) -> Self {
        self.fault = Fault::CutAfterEvents(events);
        self
    }

    /// So many bytes of the body, then the connection closes.
    pub fn cut_after_bytes(mut self, bytes: usize) -> Self {
        self.fault = Fault::CutAfterBytes(bytes);
        self
    }

    /// What was scripted, then text deltas for ever.
    pub fn endless(mut self) -> Self {
        self.fault = Fault::Endless;
        self
    }
}

/// Which requests get it. A request gets the first reply of the script that has uses left and accepts it.
impl Reply {
    /// Only a request whose body passes the test.
    pub fn when(mut self, accepts: impl Fn(&Value) -> bool + Send + Sync + 'static) -> Self {
        self.when = Some(Arc::new(accepts));
        self
    }

    /// Only a request that contains the text in one of its strings.
    pub fn when_contains(self, text: impl Into<String>) -> Self {
        let text = text.into();
        self.when(move |body| any_string_contains(body, &text))
    }

    /// Good for so many requests.
    pub fn repeat(mut self, times: usize) -> Self {
        self.uses = Uses::Times(times);
        self
    }

    /// Good for every request that reaches it.
    pub fn forever(mut self) -> Self {
        self.uses = Uses::Forever;
        self
    }
}

fn any_string_contains(value: &Value, text: &str) -> bool {
    match value {
        Value::String(string) => string.contains(text),
        Value::Array(items) => items.iter().any(|item| any_string_contains(item, text)),
        Value::Object(members) => members.values().any(|member| any_string_contains(member, text)),
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}

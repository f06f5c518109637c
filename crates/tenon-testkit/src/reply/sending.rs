//! How a reply is sent: its shape, its timing, what goes wrong, and which request gets it.

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use super::{Body, Fault, Framing, Gate, Reply, Uses};

/// The shape of the answer.
impl Reply {
    /// An HTTP status; unless a body is set, it is an error object in the provider's own shape.
    pub fn status(mut self, code: u16) -> Self {
        self.status = code;
        if matches!(self.body, Body::Stream) && code != 200 {
            self.body = Body::Error(format!("scripted status {code}"));
        }
        self
    }

    /// The words of the error object that `status` sends.
    pub(crate) fn error_message(mut self, message: String) -> Self {
        self.body = Body::Error(message);
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

    /// What was said as one object, although a stream was asked for.
    pub fn whole(mut self) -> Self {
        self.body = Body::Whole;
        self
    }

    /// No end mark: `data: [DONE]`, or `message_stop` on the Messages wire. The others have none.
    pub fn no_done(mut self) -> Self {
        self.done = false;
        self
    }

    /// Lines end in CR LF (on Gemini they always do).
    pub fn crlf(mut self) -> Self {
        self.line_end = Some("\r\n");
        self
    }

    /// `data:{…}` without the optional space.
    pub fn no_space(mut self) -> Self {
        self.field_space = "";
        self
    }

    /// A sign of life before every event: a comment line, or `ping` on the Messages wire.
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

/// When it is sent, and what goes wrong.
///
/// Events are counted as chat completions has them, on every wire: the opening one, each piece of text or
/// thinking, three for a call (its name, two halves of its arguments), the finish reason, the usage, the end
/// mark. What a wire sends besides (the start and the end of a block, comments) comes with the event after
/// it; an event that a wire does not have counts, but has no bytes.
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

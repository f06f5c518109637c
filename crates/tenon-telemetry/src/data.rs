//! What is sent, as plain data. How it becomes bytes is in `protobuf.rs` and `json.rs`.

use std::borrow::Cow;
use std::sync::Arc;

use tenon_core::{Secrets, Timestamp};

/// Longer texts are cut: names and ids are short, and nothing else has a place here.
const MAX_TEXT: usize = 256;

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Attribute {
    pub(crate) key: Cow<'static, str>,
    pub(crate) value: Value,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Value {
    Text(String),
    Int(i64),
    Double(f64),
    Bool(bool),
}

impl From<&str> for Value {
    fn from(text: &str) -> Value {
        let end = text.char_indices().nth(MAX_TEXT).map_or(text.len(), |(at, _)| at);
        Value::Text(text[..end].to_owned())
    }
}

impl From<u64> for Value {
    fn from(value: u64) -> Value {
        Value::Int(i64::try_from(value).unwrap_or(i64::MAX))
    }
}

impl From<f64> for Value {
    fn from(value: f64) -> Value {
        Value::Double(value)
    }
}

impl From<bool> for Value {
    fn from(value: bool) -> Value {
        Value::Bool(value)
    }
}

pub(crate) fn attribute(key: &'static str, value: impl Into<Value>) -> Attribute {
    Attribute { key: Cow::Borrowed(key), value: value.into() }
}

/// Who sends.
#[derive(Clone, Debug, Default)]
pub(crate) struct Resource {
    pub(crate) attributes: Vec<Attribute>,
    /// The version of tenon.
    pub(crate) version: String,
}

#[derive(Clone, Debug)]
pub(crate) struct Span {
    pub(crate) trace_id: u128,
    pub(crate) span_id: u64,
    pub(crate) parent: Option<u64>,
    pub(crate) state: Option<Arc<str>>,
    pub(crate) name: String,
    pub(crate) kind: SpanKind,
    pub(crate) start: Timestamp,
    pub(crate) end: Timestamp,
    pub(crate) attributes: Vec<Attribute>,
    pub(crate) events: Vec<SpanEvent>,
    pub(crate) ending: SpanEnding,
}

impl Span {
    /// Names and ids come from servers too, and a server knows the key it was sent.
    pub(crate) fn hide(&mut self, secrets: &Secrets) {
        let texts = self.attributes.iter_mut().filter_map(|attribute| match &mut attribute.value {
            Value::Text(text) => Some(text),
            Value::Int(_) | Value::Double(_) | Value::Bool(_) => None,
        });
        for text in texts.chain([&mut self.name]) {
            if let Cow::Owned(hidden) = secrets.hide(text) {
                *text = hidden;
            }
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SpanKind {
    Internal,
    /// It asked somebody else.
    Client,
}

impl SpanKind {
    /// The protocol's number.
    pub(crate) fn number(self) -> u64 {
        match self {
            SpanKind::Internal => 1,
            SpanKind::Client => 3,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SpanEnding {
    /// Nothing to say, which is what the conventions ask of a success.
    Unset,
    Error,
}

/// The protocol's number for a span that failed.
pub(crate) const STATUS_ERROR: u64 = 2;

#[derive(Clone, Debug)]
pub(crate) struct SpanEvent {
    pub(crate) time: Timestamp,
    pub(crate) name: &'static str,
    pub(crate) attributes: Vec<Attribute>,
}

/// One instrument with all its series, as of now.
#[derive(Clone, Debug)]
pub(crate) struct Metric {
    pub(crate) name: &'static str,
    pub(crate) description: &'static str,
    pub(crate) unit: &'static str,
    pub(crate) series: Vec<Series>,
    /// The upper bounds of a histogram's buckets; `None` for a counter.
    pub(crate) bounds: Option<&'static [f64]>,
}

#[derive(Clone, Debug)]
pub(crate) struct Series {
    pub(crate) attributes: Vec<Attribute>,
    /// How many values were recorded, or what a counter says.
    pub(crate) count: u64,
    pub(crate) sum: f64,
    pub(crate) min: f64,
    pub(crate) max: f64,
    /// One more than there are bounds; empty for a counter.
    pub(crate) buckets: Vec<u64>,
}

/// All metrics since the start of the process.
#[derive(Clone, Debug)]
pub(crate) struct Measured {
    pub(crate) since: Timestamp,
    pub(crate) now: Timestamp,
    pub(crate) metrics: Vec<Metric>,
}

/// The protocol's number for "since the start", as opposed to "since the last report".
pub(crate) const CUMULATIVE: u64 = 2;

pub(crate) fn nanoseconds(time: Timestamp) -> u64 {
    time.0.saturating_mul(1_000_000)
}

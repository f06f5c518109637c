//! The lines of a cassette.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;

use crate::sse;

pub(super) const VERSION: u64 = 1;

#[derive(Serialize, Deserialize)]
pub(super) struct Header {
    pub tenon_cassette: u64,
}

#[derive(Serialize, Deserialize)]
pub(super) struct Exchange {
    pub request: Request,
    pub response: Response,
}

#[derive(Serialize, Deserialize)]
pub(super) struct Request {
    #[serde(default)]
    pub method: String,
    /// Without the host.
    #[serde(default)]
    pub path: String,
    pub body: Value,
}

#[derive(Serialize, Deserialize)]
pub(super) struct Response {
    pub status: u16,
    #[serde(default)]
    pub headers: BTreeMap<String, String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub events: Option<Vec<Box<RawValue>>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub cut: bool,
}

/// The headers of an answer that are worth keeping.
pub(super) const KEPT_HEADERS: [&str; 3] = ["content-type", "retry-after", "retry-after-ms"];

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Named {
    sse_event: String,
    sse_data: Box<RawValue>,
}

/// An event as it is written in the file.
pub(super) fn written(name: Option<&str>, data: &str) -> Option<Box<RawValue>> {
    let data = written_data(data)?;
    match name {
        None => Some(data),
        Some(name) => {
            serde_json::value::to_raw_value(&Named { sse_event: name.to_owned(), sse_data: data }).ok()
        }
    }
}

fn written_data(data: &str) -> Option<Box<RawValue>> {
    // Only what fits in one line can stand there as it is.
    let fits = data.starts_with('{') && !data.contains(['\n', '\r']);
    if let Some(object) = fits.then(|| RawValue::from_string(data.to_owned()).ok()).flatten() {
        return Some(object);
    }
    serde_json::value::to_raw_value(data).ok()
}

/// An event as the server sent it.
pub(super) fn read(event: &RawValue) -> (Option<String>, String) {
    match serde_json::from_str::<Named>(event.get()) {
        Ok(named) => (Some(named.sse_event), read_data(&named.sse_data)),
        Err(_) => (None, read_data(event)),
    }
}

fn read_data(data: &RawValue) -> String {
    serde_json::from_str(data.get()).unwrap_or_else(|_| data.get().to_owned())
}

/// The bytes of an event on the wire.
pub(super) fn framed(event: &sse::Event) -> String {
    let mut text = String::with_capacity(event.data.len() + 16);
    if let Some(name) = &event.name {
        text.push_str(&format!("event: {name}\n"));
    }
    for line in event.data.split('\n') {
        text.push_str(&format!("data: {line}\n"));
    }
    text.push('\n');
    text
}

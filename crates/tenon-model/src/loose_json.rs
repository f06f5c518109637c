//! Reads single values of an answer without being strict about their type.
//!
//! Stream events keep their leaves as raw JSON and ask here for what they need, so an unexpected type in one
//! field spoils only that field.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;

/// The text of a string, or of the text parts of a list. Anything else is no text.
pub(crate) fn text<'a>(raw: &'a RawValue) -> Option<Cow<'a, str>> {
    #[derive(Deserialize)]
    struct Piece<'a> {
        #[serde(borrow, default)]
        text: Option<&'a RawValue>,
    }
    let json = raw.get();
    let found = match json.as_bytes().first() {
        Some(b'"') => string(json),
        Some(b'[') => {
            let pieces: Vec<Piece<'a>> = serde_json::from_str(json).ok()?;
            let texts = pieces.into_iter().filter_map(|piece| string(piece.text?.get()));
            Some(Cow::Owned(texts.collect()))
        }
        _ => None,
    };
    found.filter(|text| !text.is_empty())
}

/// A short name: a string, or a number as it is written.
pub(crate) fn word(raw: &RawValue) -> Option<Cow<'_, str>> {
    let json = raw.get();
    match json.as_bytes().first() {
        Some(b'"') => string(json).filter(|text| !text.is_empty()),
        Some(b'-' | b'0'..=b'9') => Some(Cow::Borrowed(json)),
        _ => None,
    }
}

/// A piece of arguments: a string of JSON, or the JSON itself from servers that do not quote it.
pub(crate) fn arguments(raw: &RawValue) -> Option<Cow<'_, str>> {
    let json = raw.get();
    match json.as_bytes().first() {
        Some(b'"') => string(json).filter(|text| !text.is_empty()),
        Some(b'{' | b'[') => Some(Cow::Borrowed(json)),
        _ => None,
    }
}

/// A count, whether it is written as `3`, `3.0` or `"3"`.
pub(crate) fn number(raw: &RawValue) -> Option<u64> {
    let json = raw.get().trim_matches('"');
    json.parse().ok().or_else(|| {
        let float: f64 = json.parse().ok()?;
        (float.is_finite() && float >= 0.0).then_some(float as u64)
    })
}

fn string(json: &str) -> Option<Cow<'_, str>> {
    let inner = json.get(1..json.len().checked_sub(1)?)?;
    if !inner.contains('\\') {
        return Some(Cow::Borrowed(inner));
    }
    match serde_json::from_str(json) {
        Ok(text) => Some(Cow::Owned(text)),
        // A lone surrogate: half of a character that was cut between two chunks. The rest still counts.
        Err(_) => Some(Cow::Owned(
            String::from_utf8_lossy(&serde_json::from_str::<LossyBytes>(json).ok()?.0).into_owned(),
        )),
    }
}

/// A JSON string as bytes, which `serde_json` decodes even where it is not valid Unicode.
struct LossyBytes(Vec<u8>);

impl<'de> Deserialize<'de> for LossyBytes {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<LossyBytes, D::Error> {
        struct Visitor;
        impl serde::de::Visitor<'_> for Visitor {
            type Value = LossyBytes;
            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("a string")
            }
            fn visit_bytes<E: serde::de::Error>(self, bytes: &[u8]) -> Result<LossyBytes, E> {
                Ok(LossyBytes(bytes.to_vec()))
            }
        }
        deserializer.deserialize_bytes(Visitor)
    }
}

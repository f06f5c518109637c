//! What goes back with thinking: a signature over it, or the whole of it where it was hidden.
//!
//! Kept as `{"wire": "anthropic", "signature": "…"}` or `{"wire": "anthropic", "redacted": "…"}`. What another
//! wire left in the conversation means nothing here.

use serde_json::{Value, json};

const WIRE: &str = "anthropic";

/// The native part of thinking that came with this signature.
pub(super) fn signed(signature: Option<String>) -> Value {
    match signature {
        Some(signature) => json!({ "wire": WIRE, "signature": signature }),
        None => json!({ "wire": WIRE }),
    }
}

/// The native part of thinking that nobody may read.
pub(super) fn redacted(data: &str) -> Value {
    json!({ "wire": WIRE, "redacted": data })
}

/// What is known of thinking that may go back.
pub(super) enum Kept<'a> {
    Signed(&'a str),
    Redacted(&'a str),
}

/// `None` for thinking of another wire, and for thinking without a signature, which is not taken back.
pub(super) fn kept(native: &Value) -> Option<Kept<'_>> {
    if native.get("wire")? != WIRE {
        return None;
    }
    let text = |key: &str| native.get(key).and_then(Value::as_str);
    text("redacted").map(Kept::Redacted).or_else(|| text("signature").map(Kept::Signed))
}

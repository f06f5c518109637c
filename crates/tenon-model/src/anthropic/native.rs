//! What goes back with thinking: a signature over it, or the whole of it where it was hidden.
//!
//! Kept as `{"wire": "anthropic", "provider": "…", "signature": "…"}`, or with `redacted` for `signature`. What
//! another wire left in the conversation means nothing here, and a signature of another provider is refused, so
//! only what is ours is sent back.

use serde_json::{Value, json};

const WIRE: &str = "anthropic";

/// The native part of thinking that came with this signature.
pub(super) fn signed(signature: Option<String>, provider: &str) -> Value {
    match signature {
        Some(signature) => json!({ "wire": WIRE, "provider": provider, "signature": signature }),
        None => json!({ "wire": WIRE, "provider": provider }),
    }
}

/// The native part of thinking that nobody may read.
pub(super) fn redacted(data: &str, provider: &str) -> Value {
    json!({ "wire": WIRE, "provider": provider, "redacted": data })
}

/// What is known of thinking that may go back.
pub(super) enum Kept<'a> {
    Signed(&'a str),
    Redacted(&'a str),
}

/// `None` for thinking of another wire or provider, and for thinking without a signature, which is not taken
/// back.
pub(super) fn kept<'a>(native: &'a Value, provider: &str) -> Option<Kept<'a>> {
    if native["wire"] != WIRE || native["provider"] != provider {
        return None;
    }
    let text = |key: &str| native.get(key).and_then(Value::as_str);
    text("redacted").map(Kept::Redacted).or_else(|| text("signature").map(Kept::Signed))
}

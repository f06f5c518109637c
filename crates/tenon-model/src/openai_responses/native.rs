//! What goes back to the server as it came: items of reasoning, and the ids of calls.
//!
//! Both are kept with a mark of where they came from. Encrypted reasoning means nothing to another provider,
//! and an id of a call is refused where its reasoning is missing, so only what is ours is sent back.

use serde_json::{Value, json};

const WIRE: &str = "openai_responses";

/// Keeps an item of reasoning.
pub(super) fn keep_item(item: Value, provider: &str) -> Value {
    json!({ "wire": WIRE, "provider": provider, "item": item })
}

/// Keeps the id of a call's item, which is not the id of the call.
pub(super) fn keep_id(id: &str, provider: &str) -> Value {
    json!({ "wire": WIRE, "provider": provider, "id": id })
}

pub(super) fn item<'a>(native: &'a Value, provider: &str) -> Option<&'a Value> {
    native.get("item").filter(|_| is_ours(native, provider))
}

pub(super) fn id<'a>(native: &'a Value, provider: &str) -> Option<&'a str> {
    native.get("id").filter(|_| is_ours(native, provider))?.as_str()
}

fn is_ours(native: &Value, provider: &str) -> bool {
    native["wire"] == WIRE && native["provider"] == provider
}

//! Shapes schemas and arguments for a provider without changing what they mean.
//!
//! A contract is checked against the user's own schema, so this may only ever loosen or rephrase. Chat
//! completions refuse tool parameters whose root does not say `"type": "object"`: arguments are always
//! an object, so saying it changes nothing.

use std::borrow::Cow;

use serde_json::{Value, json};
use tenon_core::ToolCall;

/// The parameters of a tool as chat completions accept them; everything else stays as it was written.
pub fn tool_parameters(schema: &Value) -> Cow<'_, Value> {
    let Value::Object(keywords) = schema else {
        return Cow::Owned(json!({ "type": "object" }));
    };
    match keywords.get("type") {
        None => {
            let mut keywords = keywords.clone();
            keywords.shift_insert(0, "type".to_owned(), json!("object"));
            Cow::Owned(Value::Object(keywords))
        }
        Some(Value::Array(types)) if types.iter().any(|name| name == "object") => {
            let mut keywords = keywords.clone();
            keywords.insert("type".to_owned(), json!("object"));
            Cow::Owned(Value::Object(keywords))
        }
        Some(_) => Cow::Borrowed(schema),
    }
}

/// The arguments of a call as text for the history: as they came, where they are an object. Servers parse
/// them, so what was no object must become one.
pub(crate) fn object_arguments(call: &ToolCall) -> Cow<'_, str> {
    let is_object = call.arguments.trim_start().starts_with('{')
        && serde_json::from_str::<serde::de::IgnoredAny>(&call.arguments).is_ok();
    match is_object {
        true => Cow::Borrowed(call.arguments.as_str()),
        false => Cow::Owned(call.input().get().to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_root_type_is_touched() {
        for (schema, expected) in [
            (r#"{}"#, r#"{"type":"object"}"#),
            (r#"true"#, r#"{"type":"object"}"#),
            (
                r#"{"z":1,"properties":{"b":{"maximum":1.50},"a":{}}}"#,
                r#"{"type":"object","z":1,"properties":{"b":{"maximum":1.50},"a":{}}}"#,
            ),
            (r#"{"title":"t","type":["object","null"],"x":1}"#, r#"{"title":"t","type":"object","x":1}"#),
            (
                r#"{"$schema":"s","type":"object","properties":{"n":{"maximum":123456789012345678901234567890}}}"#,
                r#"{"$schema":"s","type":"object","properties":{"n":{"maximum":123456789012345678901234567890}}}"#,
            ),
        ] {
            let schema: Value = serde_json::from_str(schema).unwrap();
            assert_eq!(serde_json::to_string(&tool_parameters(&schema)).unwrap(), expected);
        }
    }
}

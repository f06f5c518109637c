//! `default` in a document's `inputs`: what a run is given that nobody gave it.
//!
//! A property that is absent gets its `default`; inside an object that is there, or came this way, the same holds again. Only
//! `properties` are followed: what a `$ref`, a list or an alternative would say is left to whoever gives the inputs. The inputs
//! are checked afterwards, defaults included.

use serde_json::Value;

use crate::{JsonText, LoadedWorkflow};

/// The inputs of a run of this document.
pub fn with_defaults(workflow: &LoadedWorkflow, inputs: JsonText) -> JsonText {
    let Some(schema) = &workflow.workflow.inputs else { return inputs };
    let mut value = inputs.to_value();
    match fill(schema, &mut value) {
        Filled::Something => JsonText::of(&value),
        // As it was written, to the last digit.
        Filled::Nothing => inputs,
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Filled {
    Something,
    Nothing,
}

fn fill(schema: &Value, value: &mut Value) -> Filled {
    let (Some(properties), Value::Object(object)) =
        (schema.get("properties").and_then(Value::as_object), value)
    else {
        return Filled::Nothing;
    };
    let mut filled = Filled::Nothing;
    for (name, schema) in properties {
        if let (None, Some(default)) = (object.get(name), schema.get("default")) {
            object.insert(name.clone(), default.clone());
            filled = Filled::Something;
        }
        if let Some(inner) = object.get_mut(name)
            && fill(schema, inner) == Filled::Something
        {
            filled = Filled::Something;
        }
    }
    filled
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_absent_is_filled_in() {
        let schema = json!({"properties": {
            "tone": {"type": "string", "default": "dry"},
            "deep": {"type": "object", "properties": {"n": {"default": 7}, "m": {}}},
            "made": {"default": {}, "properties": {"x": {"default": null}}},
            "odd": true,
        }});
        let table = [
            (json!({}), json!({"tone": "dry", "made": {"x": null}})),
            (json!({"tone": "wet", "made": 1}), json!({"tone": "wet", "made": 1})),
            (
                json!({"tone": null, "made": {"x": 2}, "deep": {}}),
                json!({"tone": null, "made": {"x": 2}, "deep": {"n": 7}}),
            ),
            (json!([1]), json!([1])),
        ];
        for (given, wanted) in table {
            let mut value = given.clone();
            let filled = fill(&schema, &mut value);
            assert_eq!((&value, filled == Filled::Something), (&wanted, given != wanted), "{given}");
        }
    }
}

//! What a plan may say: the published schema of documents, less what is not the planner's to decide.

use serde_json::{Map, Value, json};

use crate::document_schema::{Detail, schema_of};

/// By object: money, time, models and their settings are the caller's; files are nothing that a plan knows of; a plan is run
/// with no inputs but the goal. Whether a person is asked is a person's to decide.
const LEFT_OUT: &[(&str, &[&str])] = &[
    ("workflow", &["version", "includes", "inputs", "budget", "prices"]),
    ("agent", &["model", "temperature", "topP", "disallowedTools"]),
    ("step", &["contextFiles", "model", "timeout", "maxRetries", "include", "approve"]),
    ("loop", &["delay"]),
    ("options", &["timeout", "stepTimeout", "isolation", "scheduler", "maxRetries"]),
];
/// A step of a loop, which has no loop of its own. Said by the schema, so that no plan is lost over it.
const INNER_STEP: &str = "inner_step";

/// Draft 2020-12, an object, without recursion.
pub fn plan_schema() -> Value {
    let mut schema = schema_of(Detail::Shape);
    let mut definitions = match schema.get_mut("$defs").map(Value::take) {
        Some(Value::Object(definitions)) => definitions,
        _ => Map::new(),
    };
    for (object, names) in LEFT_OUT {
        match *object {
            "workflow" => leave_out(&mut schema, names),
            object => {
                if let Some(definition) = definitions.get_mut(object) {
                    leave_out(definition, names);
                }
            }
        }
    }
    for unused in ["budget", "price", "approve"] {
        definitions.remove(unused);
    }
    if let Some(mut inner) = definitions.get("step").cloned() {
        leave_out(&mut inner, &["loop"]);
        definitions.insert(INNER_STEP.to_owned(), inner);
    }
    if let Some(steps) = definitions.get_mut("loop").and_then(|it| it.pointer_mut("/properties/steps")) {
        steps["items"] = json!({"$ref": format!("#/$defs/{INNER_STEP}")});
    }
    if let Value::Object(members) = &mut schema {
        members.remove("$id");
        members.insert("$defs".to_owned(), Value::Object(definitions));
    }
    schema
}

fn leave_out(object: &mut Value, names: &[&str]) {
    if let Some(properties) = object.get_mut("properties").and_then(Value::as_object_mut) {
        names.iter().for_each(|name| {
            properties.shift_remove(*name);
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fields::OBJECTS;

    #[test]
    fn what_is_left_out_is_in_documents() {
        for (object, names) in LEFT_OUT {
            let known = OBJECTS.iter().find(|known| known.name == *object).expect(object);
            for name in *names {
                assert!(known.names().any(|field| field == *name), "`{name}` is no field of `{object}`");
            }
        }
        let text = plan_schema().to_string();
        for gone in ["\"model\"", "\"include\"", "\"inputs\"", "\"timeout\"", "$id", "\"prices\""] {
            assert!(!text.contains(gone), "{gone}");
        }
    }
}

//! `--input NAME=VALUE` and `--inputs JSON|@FILE`: the object that a document's `inputs` describe, with the defaults
//! that these name. Checked before anything is asked of a model.

use std::path::Path;

use serde_json::{Map, Value};
use tenon_core::{ErrorClass, Failure};
use tenon_flow::{JsonText, LoadedWorkflow, UnfitInputs, check_inputs, with_defaults};

use crate::flow_usage::Asked;
use crate::input::read_text_file;

pub fn read(asked: &Asked, flow: &LoadedWorkflow, started_in: &Path) -> Result<JsonText, Failure> {
    let mut inputs = whole(asked.inputs.as_deref(), started_in)?;
    let schema = flow.workflow.inputs.as_ref();
    for given in &asked.input {
        let (name, value) = given.split_once('=').filter(|(name, _)| !name.is_empty()).ok_or_else(|| {
            bad(format!("`--input {given}` is not `NAME=VALUE`"), "as in `--input topic=cats`")
        })?;
        inputs.insert(name.to_owned(), typed(value, property(schema, name)));
    }
    if let (None, Some(name)) = (&flow.inputs, inputs.keys().next()) {
        return Err(bad(
            format!("the document has no inputs, and `{name}` was given"),
            "`inputs:` in the document describes them by a JSON Schema",
        ));
    }
    let inputs = with_defaults(flow, JsonText::of(&Value::Object(inputs)));
    match check_inputs(flow, inputs.as_str()) {
        Ok(()) => Ok(inputs),
        Err(unfit) => Err(bad(unfit.to_string(), "give them with `--input NAME=VALUE` or `--inputs '{…}'`")),
    }
}

/// The inputs of a run that goes on, for a document that may have changed.
pub fn again(inputs: &JsonText, flow: &LoadedWorkflow) -> Result<JsonText, Failure> {
    const HINT: &str = "a run keeps the inputs it began with; begin another run for other inputs";
    match &flow.inputs {
        Some(_) => match check_inputs(flow, inputs.as_str()) {
            Ok(()) => Ok(inputs.clone()),
            Err(UnfitInputs::Document(told)) => {
                Err(bad(format!("the run's inputs do not fit the document as it is now: {told}"), HINT))
            }
            Err(unfit @ UnfitInputs::Included { .. }) => Err(bad(unfit.to_string(), HINT)),
        },
        None if inputs.to_value().as_object().is_none_or(Map::is_empty) => Ok(inputs.clone()),
        None => Err(bad("the document has no inputs any more, and the run has some", HINT)),
    }
}

fn whole(given: Option<&str>, started_in: &Path) -> Result<Map<String, Value>, Failure> {
    let Some(given) = given else { return Ok(Map::new()) };
    let text = match given.trim().strip_prefix('@') {
        Some(file) => read_text_file(Path::new(file), started_in, "--inputs")?,
        None => given.to_owned(),
    };
    let raw = tenon_contract::compact_json(&text).map_err(|fault| {
        let place = format!("{} at line {} column {}", fault.message, fault.line, fault.column);
        // Of a name that is there twice, nobody can say which value was meant.
        match fault.message.contains("there twice") {
            true => bad(format!("`--inputs`: {place}"), "give each name one value"),
            false => bad(format!("`--inputs` is not JSON: {place}"), "`@FILE` reads a file"),
        }
    })?;
    match JsonText::from(raw).to_value() {
        Value::Object(object) => Ok(object),
        _ => Err(bad("`--inputs` is not a JSON object", "as in `--inputs '{\"topic\":\"cats\"}'`")),
    }
}

/// The part of the schema that describes one input.
fn property<'a>(schema: Option<&'a Value>, name: &str) -> Option<&'a Value> {
    schema?.get("properties")?.get(name)
}

/// By the type that the schema gives: text where text is wanted, JSON where anything else is. Where it gives none, JSON if it
/// is JSON.
fn typed(value: &str, schema: Option<&Value>) -> Value {
    let types: Vec<&str> = match schema.and_then(|schema| schema.get("type")) {
        Some(Value::String(one)) => vec![one],
        Some(Value::Array(several)) => several.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    };
    let text = || Value::from(value);
    if types == ["string"] {
        return text();
    }
    match serde_json::from_str::<JsonText>(value).map(|text| text.to_value()) {
        // A number that may be text too: `"type": ["string", "null"]` wants the text of `7`.
        Ok(parsed) if types.contains(&"string") && !types.contains(&type_of(&parsed)) => text(),
        Ok(parsed) => parsed,
        Err(_) => text(),
    }
}

fn type_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number) if number.is_i64() || number.is_u64() => "integer",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

fn bad(message: impl Into<String>, hint: impl Into<String>) -> Failure {
    Failure::new(ErrorClass::Input, message).hint(hint)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn values_are_read_by_the_type_that_is_wanted() {
        let table = [
            ("7", json!({"type": "string"}), json!("7")),
            ("7", json!({"type": "integer"}), json!(7)),
            ("7", json!({"type": ["string", "null"]}), json!("7")),
            ("null", json!({"type": ["string", "null"]}), json!(null)),
            ("true", json!({"type": "boolean"}), json!(true)),
            ("yes", json!({"type": "boolean"}), json!("yes")),
            ("[1,2]", json!({"type": "array"}), json!([1, 2])),
            ("{\"a\":1}", json!({}), json!({"a": 1})),
            ("plain text", json!({}), json!("plain text")),
            ("", json!({"type": "string"}), json!("")),
        ];
        for (value, schema, wanted) in table {
            assert_eq!(typed(value, Some(&schema)), wanted, "{value} {schema}");
        }
    }
}

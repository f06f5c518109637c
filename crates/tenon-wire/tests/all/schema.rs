//! The published schema: current, and true of everything that is written.

use std::fs;
use std::path::PathBuf;

use jsonschema::Validator;
use serde_json::{Map, Value};
use tenon_testkit::strict_schema;
use tenon_wire::{Dialect, published_schema};

use crate::golden;

fn validator(dialect: Dialect) -> Validator {
    built(&published_schema(dialect))
}

fn built(schema: &Value) -> Validator {
    jsonschema::options().should_validate_formats(true).build(schema).unwrap()
}

/// Every line of every golden file, and every document.
fn golden_values(dialect: Dialect) -> Vec<(String, Value)> {
    let mut values = Vec::new();
    for entry in fs::read_dir(golden::folder(dialect)).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if name.ends_with(".text") {
            continue;
        }
        for (at, line) in fs::read_to_string(&path).unwrap().lines().enumerate() {
            values.push((format!("{name}:{}", at + 1), serde_json::from_str(line).unwrap()));
        }
    }
    values
}

#[test]
fn the_checked_in_schema_is_current() {
    for dialect in Dialect::ALL {
        let path =
            PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(format!("../../schemas/{}.json", dialect.name()));
        let current = serde_json::to_string_pretty(&published_schema(dialect)).unwrap() + "\n";
        if std::env::var_os("UPDATE_SCHEMAS").is_some() {
            fs::write(&path, &current).unwrap();
        }
        let stored = fs::read_to_string(&path).unwrap_or_default();
        assert!(stored == current, "{} is stale; run with `UPDATE_SCHEMAS=1`", path.display());
    }
}

#[test]
fn every_golden_line_and_document_is_valid() {
    for dialect in Dialect::ALL {
        let validator = validator(dialect);
        let values = golden_values(dialect);
        assert!(values.len() > 100, "{}: only {} golden lines were found", dialect.name(), values.len());
        for (place, value) in values {
            let errors: Vec<String> = validator.iter_errors(&value).map(|error| error.to_string()).collect();
            assert!(errors.is_empty(), "{} {place}: {errors:?}\n{value}", dialect.name());
        }
    }
}

/// Nothing is written that the schema does not describe.
#[test]
fn every_key_of_every_golden_line_is_described() {
    for dialect in Dialect::ALL {
        let validator = built(&strict_schema(&published_schema(dialect)));
        for (place, value) in golden_values(dialect) {
            let errors: Vec<String> = validator.iter_errors(&value).map(|error| error.to_string()).collect();
            assert!(errors.is_empty(), "{} {place}: {errors:?}\n{value}", dialect.name());
            if let Value::Object(mut line) = value {
                line.insert("nobody_described_this".to_owned(), Value::Null);
                assert!(!validator.is_valid(&Value::Object(line)), "{} {place}", dialect.name());
            }
        }
    }
}

/// The schema says which keys are always there: a line without any one of them is not valid.
#[test]
fn no_key_of_a_golden_line_can_be_left_out() {
    // The gemini dialect leaves out what does not apply, as its clients expect.
    for dialect in [Dialect::Qwen, Dialect::Claude, Dialect::OpenAi] {
        left_out(dialect);
    }
}

fn left_out(dialect: Dialect) {
    let optional = ["structured_result", "structured_output", "errors"];
    let validator = validator(dialect);
    let mut tried = 0;
    for (place, value) in golden_values(dialect) {
        let Value::Object(line) = value else { continue };
        // What `claude` has beside `data` is for its own clients; the same stands in `data`.
        if dialect == Dialect::Claude && line.contains_key("data") {
            continue;
        }
        for key in line.keys().filter(|key| !optional.contains(&key.as_str())) {
            let shorter: Map<String, Value> = line
                .iter()
                .filter(|(name, _)| *name != key)
                .map(|(name, v)| (name.clone(), v.clone()))
                .collect();
            let valid = validator.is_valid(&Value::Object(shorter));
            assert!(!valid, "{} {place}: `{key}` may be missing", dialect.name());
            tried += 1;
        }
    }
    assert!(tried > 500, "only {tried} keys were tried");
}

#[test]
fn nonsense_is_not_valid() {
    for dialect in Dialect::ALL {
        let validator = validator(dialect);
        for text in
            [r#"{"type":"thought"}"#, r#"{"type":"system","subtype":"init"}"#, "3", r#"[{"type":"result"}]"#]
        {
            let value: Value = serde_json::from_str(text).unwrap();
            assert!(!validator.is_valid(&value), "{}: {text}", dialect.name());
        }
    }
}

//! Arguments of ordinary tools.

use serde_json::{Map, Value, json};
use tenon_contract::{Parameters, check_parameters};

fn args(value: Value) -> Map<String, Value> {
    value.as_object().unwrap().clone()
}

#[test]
fn arguments_are_checked_with_the_same_words() {
    let schema = json!({
        "type": "object",
        "properties": { "file_path": { "type": "string" }, "limit": { "type": "integer", "minimum": 1 } },
        "required": ["file_path"]
    });
    assert_eq!(check_parameters(&schema, &args(json!({ "file_path": "a" }))), Ok(()));
    assert_eq!(
        check_parameters(&schema, &args(json!({ "limit": 0 }))),
        Err(vec![
            "/file_path: required property is missing".to_owned(),
            "/limit: expected at least 1, got 0".to_owned(),
        ])
    );
}

#[test]
fn what_the_gate_refuses_is_let_through_here() {
    for schema in [
        json!({ "propertees": {}, "type": "object" }),
        json!({ "$schema": "https://example.com/own", "type": "object" }),
        json!({ "type": "object", "properties": { "a": { "items": [{ "type": "string" }] } } }),
        json!({ "$ref": "#/$defs/a", "$defs": { "a": { "type": "object" } } }),
        json!({ "type": "object", "properties": { "a": { "pattern": "^(?!x).*$" } } }),
        json!({}),
        json!(true),
    ] {
        assert!(Parameters::compile(&schema).is_ok(), "{schema}");
        assert_eq!(check_parameters(&schema, &Map::new()), Ok(()), "{schema}");
    }
    let tuple = json!({ "properties": { "a": { "items": [{ "type": "string" }] } } });
    assert!(check_parameters(&tuple, &args(json!({ "a": [1] }))).is_err());
}

#[test]
fn a_schema_that_cannot_be_compiled_checks_nothing() {
    for schema in [json!({ "type": "objekt" }), json!({ "$ref": "https://example.com/s.json" }), json!(5)] {
        assert!(Parameters::compile(&schema).is_err(), "{schema}");
        assert_eq!(check_parameters(&schema, &args(json!({ "a": 1 }))), Ok(()), "{schema}");
    }
}

#[test]
fn a_hostile_pattern_ends() {
    let schema = json!({ "properties": { "a": { "pattern": "^(?=(a+)+b)" } } });
    let text = "a".repeat(5_000);
    let _ = check_parameters(&schema, &args(json!({ "a": text })));
}

#[test]
fn many_violations_are_counted() {
    let schema = json!({ "additionalProperties": { "type": "string" } });
    let many: Map<String, Value> = (0..50).map(|n| (format!("k{n}"), json!(n))).collect();
    let lines = check_parameters(&schema, &many).unwrap_err();
    assert_eq!((lines.len(), lines[20].as_str()), (21, "... and 30 more"));
}

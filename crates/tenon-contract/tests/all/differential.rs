//! The gate changes no verdict: whatever it accepts, it checks as the plain validator does.

use proptest::prelude::*;
use serde_json::{Map, Value, json};
use tenon_contract::{Draft, Schema};

/// Schemas without mistakes, in keywords that the drafts from 06 on share.
fn schema() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(json!(true)),
        Just(json!({})),
        Just(json!({ "$ref": "#/definitions/d" })),
        Just(json!({ "$ref": "#" })),
        prop::sample::select(vec!["object", "array", "string", "integer", "number", "null"])
            .prop_map(|name| json!({ "type": name })),
        Just(json!({ "type": ["object", "string"], "minLength": 1 })),
        Just(json!({ "enum": ["a", 1, null, { "a": 1 }] })),
        Just(json!({ "const": 1.0 })),
        Just(json!({ "minimum": 1, "exclusiveMaximum": 3, "multipleOf": 0.5 })),
        Just(json!({ "pattern": "^\\w[^x]?$" })),
        Just(json!({ "minItems": 1, "uniqueItems": true })),
        Just(json!({ "required": ["a"], "maxProperties": 2 })),
    ];
    leaf.prop_recursive(4, 30, 3, |inner| {
        let map = prop::collection::hash_map(prop::sample::select(vec!["a", "b", "c"]), inner.clone(), 0..3);
        let list = prop::collection::vec(inner.clone(), 1..4);
        prop_oneof![
            (map.clone(), prop::option::of(inner.clone())).prop_map(|(properties, rest)| match rest {
                Some(rest) => json!({ "properties": properties, "additionalProperties": rest }),
                None => json!({ "properties": properties, "additionalProperties": false }),
            }),
            map.prop_map(|properties| json!({ "type": "object", "properties": properties })),
            inner.clone().prop_map(|rest| json!({ "patternProperties": { "^[ab]$": rest, "\\d": false } })),
            inner.clone().prop_map(|items| json!({ "items": items })),
            inner.clone().prop_map(|item| json!({ "contains": item })),
            inner.clone().prop_map(|not| json!({ "not": not })),
            (inner.clone(), inner.clone(), inner)
                .prop_map(|(a, b, c)| json!({ "if": a, "then": b, "else": c })),
            list.clone().prop_map(|list| json!({ "allOf": list })),
            list.clone().prop_map(|list| json!({ "anyOf": list })),
            list.prop_map(|list| json!({ "oneOf": list })),
        ]
    })
}

fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        prop::sample::select(vec!["", "a", "ax", "1"]).prop_map(Value::from),
        prop::sample::select(vec!["1", "1.0", "2.5", "0", "1e0"])
            .prop_map(|text| serde_json::from_str(text).unwrap()),
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 20, 3, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
            prop::collection::hash_map(prop::sample::select(vec!["a", "b", "c", "1"]), inner, 0..4)
                .prop_map(|members| json!(members)),
        ]
    })
}

proptest! {
    #![proptest_config(crate::cases(256))]

    #[test]
    fn the_verdict_is_the_plain_validators(
        part in schema(),
        definition in schema(),
        members in prop::collection::hash_map(prop::sample::select(vec!["a", "b", "c", "1"]), value(), 0..4),
        draft in prop::sample::select(vec![Draft::Draft07, Draft::Draft2019, Draft::Draft2020]),
    ) {
        let schema = json!({
            "$schema": draft.uri(),
            "properties": { "a": part, "b": { "$ref": "#/definitions/d" } },
            "definitions": { "d": definition }
        });
        let payload = members.into_iter().map(|(key, value)| (key.to_owned(), value)).collect::<Map<_, _>>();
        let payload = Value::Object(payload);
        let Ok(gated) = Schema::compile(&schema.to_string()) else {
            // Only for references that lead back without going into the value.
            prop_assert!(schema.to_string().contains("$ref"), "{schema}");
            return Ok(());
        };
        let plain = jsonschema::options().build(&schema).unwrap();
        match gated.check(&payload.to_string()) {
            Ok(checked) => {
                prop_assert!(plain.is_valid(&payload), "{schema} {payload}");
                prop_assert_eq!(checked.get(), payload.to_string());
            }
            Err(rejection) => {
                prop_assert!(!plain.is_valid(&payload), "{schema} {payload} {}", rejection.told());
                prop_assert!(rejection.total > 0 && !rejection.told().is_empty());
                for violation in &rejection.violations {
                    let parent = violation.path.rsplit_once('/').map_or("", |(parent, _)| parent);
                    prop_assert!(payload.pointer(parent).is_some(), "{} of {payload}", violation.path);
                }
            }
        }
    }
}

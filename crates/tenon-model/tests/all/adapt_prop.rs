//! Whatever fits the user's schema fits what is sent; in strict mode also the other way round.

use jsonschema::Validator;
use proptest::prelude::*;
use serde_json::{Map, Value, json};
use tenon_model::{Adapted, Target, adapt};

const TARGETS: [Target; 5] =
    [Target::OpenAiChat, Target::OpenAiResponses, Target::Anthropic, Target::Gemini, Target::Compatible];

fn validator(schema: &Value) -> Option<Validator> {
    jsonschema::options().should_validate_formats(true).build(schema).ok()
}

/// Schemas of all kinds, in the keywords of 2020-12.
fn schema() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(json!(true)),
        Just(json!(false)),
        Just(json!({})),
        Just(json!({ "$ref": "#/$defs/d" })),
        Just(json!({ "$ref": "#/$defs/e", "description": "e" })),
        Just(json!({ "$ref": "#" })),
        prop::sample::select(vec!["object", "array", "string", "integer", "null"])
            .prop_map(|name| json!({ "type": name })),
        Just(json!({ "type": ["object", "string"], "minLength": 1 })),
        Just(json!({ "enum": ["a", 1, null, { "a": 1 }, true] })),
        Just(json!({ "enum": [{ "a": 1 }, { "a": "a", "b": null }] })),
        Just(json!({ "const": { "a": 1 } })),
        Just(json!({ "const": "a" })),
        Just(json!({ "minimum": 1, "exclusiveMaximum": 3 })),
        Just(json!({ "exclusiveMinimum": 1 })),
        Just(json!({ "pattern": "^a" })),
        Just(json!({ "type": "array", "minItems": 1, "uniqueItems": true })),
        Just(json!({ "required": ["a"], "maxProperties": 2 })),
        Just(json!({ "dependentRequired": { "a": ["b"] }, "minProperties": 1 })),
    ];
    leaf.prop_recursive(4, 40, 3, |inner| {
        let map = prop::collection::hash_map(prop::sample::select(vec!["a", "b", "c"]), inner.clone(), 0..3);
        let list = prop::collection::vec(inner.clone(), 1..4);
        let required = prop::collection::hash_set(prop::sample::select(vec!["a", "b"]), 0..3);
        prop_oneof![
            4 => (map.clone(), required.clone(), prop::option::of(inner.clone())).prop_map(|(properties, required, rest)| {
                let required: Vec<_> = required.into_iter().collect();
                match rest {
                    Some(rest) => json!({ "properties": properties, "required": required, "additionalProperties": rest }),
                    None => json!({ "type": "object", "properties": properties, "required": required, "additionalProperties": false }),
                }
            }),
            3 => (map.clone(), required)
                .prop_map(|(properties, required)| json!({ "type": "object", "properties": properties, "required": required.into_iter().collect::<Vec<_>>() })),
            1 => (map.clone(), list.clone())
                .prop_map(|(properties, list)| json!({ "properties": properties, "allOf": list, "unevaluatedProperties": false })),
            1 => (map.clone(), list.clone())
                .prop_map(|(properties, list)| json!({ "properties": properties, "anyOf": list, "additionalProperties": false })),
            1 => (inner.clone(), map).prop_map(|(rest, properties)| json!({ "patternProperties": { "^[ab]$": rest }, "properties": properties, "additionalProperties": false })),
            1 => inner.clone().prop_map(|items| json!({ "items": items })),
            1 => inner.clone().prop_map(|item| json!({ "prefixItems": [item], "items": false })),
            1 => inner.clone().prop_map(|item| json!({ "contains": item })),
            1 => inner.clone().prop_map(|not| json!({ "not": not })),
            1 => inner.clone().prop_map(|names| json!({ "propertyNames": names, "dependentSchemas": { "a": { "required": ["b"] } } })),
            1 => (inner.clone(), inner.clone(), inner)
                .prop_map(|(a, b, c)| json!({ "if": a, "then": b, "else": c })),
            3 => list.clone().prop_map(|list| json!({ "allOf": list })),
            2 => list.clone().prop_map(|list| json!({ "anyOf": list })),
            2 => list.prop_map(|list| json!({ "oneOf": list })),
        ]
    })
}

fn document() -> impl Strategy<Value = Value> {
    (schema(), schema(), schema()).prop_map(|(root, d, e)| {
        let mut root = match root {
            Value::Object(root) => root,
            _ => Map::new(),
        };
        // The gate of contracts refuses these.
        root.remove("$ref");
        if root.get("type").is_some_and(|name| name.is_string() && name != "object") {
            root.remove("type");
        }
        root.insert("$defs".to_owned(), json!({ "d": d, "e": e }));
        Value::Object(root)
    })
}

fn value() -> impl Strategy<Value = Value> {
    let leaf =
        prop::sample::select(vec![json!(1), json!(2), json!("a"), json!("b"), json!(null), json!(true)]);
    leaf.prop_recursive(3, 12, 3, |inner| {
        let name = prop::sample::select(vec!["a", "b", "c", "d"]);
        prop_oneof![
            3 => prop::collection::hash_map(name, inner.clone(), 0..4).prop_map(|members| json!(members)),
            1 => prop::collection::vec(inner, 0..3).prop_map(Value::Array),
        ]
    })
}

fn object() -> impl Strategy<Value = Value> {
    prop::collection::hash_map(prop::sample::select(vec!["a", "b", "c", "d"]), value(), 0..4)
        .prop_map(|members| json!(members))
}

/// Schemas near strict mode: closed objects, with all that can be written for it.
fn strict_schema() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(json!({ "type": "string", "minLength": 1 })),
        Just(json!({ "type": "integer", "examples": [1] })),
        Just(json!({ "type": ["string", "null"] })),
        Just(json!({ "type": "boolean", "description": "yes or no" })),
        Just(json!({ "enum": ["x", "y"] })),
        Just(json!({ "enum": ["z", null] })),
        Just(json!({ "const": "t" })),
        Just(json!({ "$ref": "#/$defs/d" })),
        Just(json!({ "allOf": [{ "$ref": "#/$defs/d" }], "description": "d" })),
        Just(json!({ "$ref": "#" })),
    ];
    leaf.prop_recursive(3, 16, 3, |inner| {
        let list = prop::collection::vec(inner.clone(), 1..4);
        prop_oneof![
            4 => strict_object(inner.clone().boxed()),
            1 => inner.prop_map(|items| json!({ "type": "array", "items": items })),
            1 => list.clone().prop_map(|list| json!({ "anyOf": list })),
            1 => list.prop_map(|list| json!({ "oneOf": list })),
        ]
    })
}

fn strict_object(inner: BoxedStrategy<Value>) -> impl Strategy<Value = Value> {
    let name = prop::sample::select(vec!["a", "b", "k"]);
    let member = (inner, any::<bool>());
    (prop::collection::hash_map(name, member, 0..4), prop::option::of(prop::sample::select(vec!["t", "u"])))
        .prop_map(|(members, tag)| {
            let mut required: Vec<&str> =
                members.iter().filter(|(_, (_, required))| *required).map(|(name, _)| *name).collect();
            let mut properties: Map<String, Value> =
                members.iter().map(|(name, (schema, _))| ((*name).to_owned(), schema.clone())).collect();
            if let Some(tag) = tag {
                properties.insert("kind".to_owned(), json!({ "const": tag }));
                required.push("kind");
            }
            json!({ "type": "object", "properties": properties, "required": required, "additionalProperties": false })
        })
}

fn strict_document() -> impl Strategy<Value = Value> {
    (strict_object(strict_schema().boxed()), strict_object(strict_schema().boxed())).prop_map(
        |(mut root, d)| {
            root["$defs"] = json!({ "d": d });
            root
        },
    )
}

/// A value that should fit, with the given choices; `None` where there is no end to it.
fn sample(
    root: &Value,
    schema: &Value,
    choices: &mut dyn FnMut(usize) -> usize,
    depth: usize,
) -> Option<Value> {
    if depth > 6 {
        return None;
    }
    if let Some(reference) = schema.get("$ref").and_then(Value::as_str) {
        return sample(root, root.pointer(reference.strip_prefix('#')?)?, choices, depth + 1);
    }
    for keyword in ["anyOf", "oneOf", "allOf"] {
        if let Some(Value::Array(list)) = schema.get(keyword) {
            let start = choices(list.len());
            // Another one, where the first has no end.
            return (0..list.len())
                .find_map(|more| sample(root, &list[(start + more) % list.len()], choices, depth + 1));
        }
    }
    if let Some(value) = schema.get("const") {
        return Some(value.clone());
    }
    if let Some(Value::Array(values)) = schema.get("enum") {
        return Some(values[choices(values.len())].clone());
    }
    let name = match schema.get("type")? {
        Value::String(name) => name.as_str(),
        Value::Array(names) => names[choices(names.len())].as_str()?,
        _ => return None,
    };
    Some(match name {
        "string" => json!("text"),
        "integer" => serde_json::from_str("12345678901234567890123").ok()?,
        "boolean" => json!(true),
        "null" => Value::Null,
        "array" => {
            let items = (0..choices(3)).map(|_| sample(root, &schema["items"], choices, depth + 1));
            Value::Array(items.collect::<Option<_>>().unwrap_or_default())
        }
        _ => {
            let mut members = Map::new();
            for (name, inner) in schema.get("properties")?.as_object()? {
                let is_required = schema["required"].as_array()?.iter().any(|known| known == name);
                if !is_required && choices(2) == 0 {
                    continue;
                }
                match sample(root, inner, choices, depth + 1) {
                    Some(value) => drop(members.insert(name.clone(), value)),
                    None if is_required => return None,
                    None => {}
                }
            }
            Value::Object(members)
        }
    })
}

/// The value as a server in strict mode would write it: absent properties are null.
fn filled(root: &Value, schema: &Value, value: &Value) -> Value {
    let inside = |branch: &Value| {
        let mut whole = root.clone();
        let definitions = whole.as_object_mut().unwrap().remove("$defs").unwrap();
        let alone = json!({ "allOf": [branch], "$defs": { "d": definitions["d"], "root": whole } });
        let alone = alone.to_string().replace("\"$ref\":\"#\"", "\"$ref\":\"#/$defs/root\"");
        serde_json::from_str(&alone).unwrap()
    };
    if let Some(reference) = schema.get("$ref").and_then(Value::as_str) {
        return filled(root, root.pointer(&reference[1..]).unwrap(), value);
    }
    for keyword in ["anyOf", "oneOf", "allOf"] {
        if let Some(Value::Array(list)) = schema.get(keyword) {
            let fits = |branch: &&Value| validator(&inside(branch)).is_some_and(|it| it.is_valid(value));
            return list
                .iter()
                .find(fits)
                .map_or_else(|| value.clone(), |branch| filled(root, branch, value));
        }
    }
    match (value, schema.get("properties")) {
        (Value::Object(members), Some(Value::Object(properties))) => {
            let filled = properties.iter().map(|(name, schema)| {
                (name.clone(), members.get(name).map_or(Value::Null, |value| filled(root, schema, value)))
            });
            Value::Object(filled.collect())
        }
        (Value::Array(items), _) => {
            Value::Array(items.iter().map(|item| filled(root, &schema["items"], item)).collect())
        }
        _ => value.clone(),
    }
}

fn undone(adapted: &Adapted, value: &Value) -> Value {
    serde_json::from_str(&adapted.undo.apply(&value.to_string())).unwrap()
}

fn chooser(choices: Vec<u8>) -> impl FnMut(usize) -> usize {
    let mut at = 0;
    move |most| {
        at += 1;
        usize::from(choices[at % choices.len()]) % most.max(1)
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: tenon_testkit::cases(128), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn prop_what_is_sent_is_never_tighter(schema in document(), values in prop::collection::vec(object(), 24)) {
        let Some(original) = validator(&schema) else { return Ok(()) };
        for target in TARGETS {
            let adapted = adapt(&schema, target);
            prop_assert_eq!(&adapted.parameters["type"], "object");
            let sent = validator(&adapted.parameters);
            prop_assert!(sent.is_some(), "{target:?}: not a schema: {}", adapted.parameters);
            let sent = sent.unwrap();
            for value in values.iter().filter(|value| original.is_valid(value) && !adapted.undo.is_needed()) {
                prop_assert!(sent.is_valid(value), "{target:?}: {value} does not fit {}", adapted.parameters);
            }
        }
    }

    #[test]
    fn prop_strict_mode_means_the_same(schema in strict_document(), seeds in prop::collection::vec(prop::collection::vec(any::<u8>(), 16), 12)) {
        let adapted = adapt(&schema, Target::OpenAiResponses);
        prop_assert!(adapted.in_description.is_none());
        let (original, sent) = (validator(&schema).unwrap(), validator(&adapted.parameters));
        prop_assert!(sent.is_some(), "not a schema: {}", adapted.parameters);
        let sent = sent.unwrap();
        for choices in seeds {
            let from_sent = sample(&adapted.parameters, &adapted.parameters, &mut chooser(choices.clone()), 0);
            if let Some(answer) = from_sent.filter(|value| sent.is_valid(value)) {
                let payload = undone(&adapted, &answer);
                prop_assert!(original.is_valid(&payload), "{answer} became {payload}, sent {}", adapted.parameters);
            }
            let from_original = sample(&schema, &schema, &mut chooser(choices), 0);
            if let Some(payload) = from_original.filter(|value| original.is_valid(value)) {
                let answer = if adapted.strict { filled(&schema, &schema, &payload) } else { payload.clone() };
                prop_assert_eq!(undone(&adapted, &answer), payload.clone(), "{}", &answer);
                prop_assert!(sent.is_valid(&answer), "{payload} as {answer} does not fit {}", adapted.parameters);
            }
        }
    }

    #[test]
    fn prop_undo_takes_any_text(schema in strict_document(), text in "\\PC{0,40}", value in object()) {
        let adapted = adapt(&schema, Target::OpenAiChat);
        if serde_json::from_str::<Value>(&text).is_err() {
            prop_assert_eq!(adapted.undo.apply(&text), text);
        }
        undone(&adapted, &value);
    }
}

//! What becomes of a schema for each provider, rule by rule. That it is sent so, and what comes back of it, is in
//! `adapt_sent.rs`.

use serde_json::{Value, json};
use tenon_model::{Adapted, MAX_DESCRIBED_SCHEMA_BYTES, Target, adapt};

pub fn parse(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

fn adapted(schema: &str, target: Target) -> Adapted {
    adapt(&parse(schema), target)
}

#[test]
fn roots_become_one_object() {
    for (schema, expected, note) in [
        // Merged, and the same as before.
        (
            r#"{"allOf":[{"type":"object","properties":{"a":{"type":"string"}},"required":["a"]},{"properties":{"b":{}},"required":["b"],"minProperties":3}]}"#,
            r#"{"type":"object","properties":{"a":{"type":"string"},"b":{}},"required":["a","b"],"minProperties":3}"#,
            "root `allOf` merged into one object",
        ),
        (
            r##"{"$schema":"https://json-schema.org/draft/2020-12/schema","title":"T","allOf":[{"$ref":"#/$defs/P"}],"$defs":{"P":{"type":"object","properties":{"q":{"$ref":"#/$defs/Q"}},"additionalProperties":false},"Q":{"type":"string"}}}"##,
            r##"{"$schema":"https://json-schema.org/draft/2020-12/schema","title":"T","type":"object","properties":{"q":{"$ref":"#/$defs/Q"}},"additionalProperties":false,"$defs":{"P":{"type":"object","properties":{"q":{"$ref":"#/$defs/Q"}},"additionalProperties":false},"Q":{"type":"string"}}}"##,
            "root `allOf` merged into one object",
        ),
        (
            r#"{"properties":{"a":{}},"allOf":[{"properties":{"b":{}}}],"unevaluatedProperties":false}"#,
            r#"{"type":"object","properties":{"a":{},"b":{}},"additionalProperties":false}"#,
            "root `allOf` merged into one object",
        ),
        (
            r#"{"properties":{"a":{"type":"string"}},"allOf":[{"properties":{"a":{"minLength":1}}}]}"#,
            r#"{"type":"object","properties":{"a":{"allOf":[{"type":"string"},{"minLength":1}]}}}"#,
            "root `allOf` merged into one object",
        ),
        (
            r#"{"const":{"a":1}}"#,
            r#"{"type":"object","properties":{"a":{"const":1}},"required":["a"],"additionalProperties":false}"#,
            "root `const` merged into one object",
        ),
        (
            r#"{"anyOf":[{"type":"string"},{"type":"object","properties":{"a":{}}}]}"#,
            r#"{"type":"object","properties":{"a":{}}}"#,
            "root `anyOf` merged into one object",
        ),
        // Looser: a tagged union keeps its tag, and what is in one variant only is free in open ones.
        (
            r#"{"oneOf":[{"properties":{"kind":{"const":"a"},"x":{"type":"string"}},"required":["kind","x"]},{"properties":{"kind":{"const":"b"},"y":{"description":"why"}},"required":["kind"]}]}"#,
            r#"{"type":"object","properties":{"kind":{"type":"string","enum":["a","b"]},"x":{},"y":{"description":"why"}},"required":["kind"]}"#,
            "root `oneOf` loosened to one object",
        ),
        (
            r#"{"anyOf":[{"properties":{"x":{"type":"string"}},"additionalProperties":false},{"properties":{"y":{"type":"integer"}},"additionalProperties":false}]}"#,
            r#"{"type":"object","properties":{"x":{"type":"string"},"y":{"type":"integer"}},"additionalProperties":false}"#,
            "root `anyOf` loosened to one object",
        ),
        (
            r#"{"enum":[{"a":1},{"a":2,"b":true}]}"#,
            r#"{"type":"object","properties":{"a":{"enum":[1,2]},"b":{"const":true}},"required":["a"],"additionalProperties":false}"#,
            "root `enum` loosened to one object",
        ),
        (
            r#"{"type":"object","properties":{"a":{}},"not":{"required":["b"]}}"#,
            r#"{"type":"object","properties":{"a":{}}}"#,
            "root `not` loosened to one object",
        ),
        (
            r#"{"properties":{"a":{}},"if":{"required":["a"]},"then":{"required":["b"]}}"#,
            r#"{"type":"object","properties":{"a":{}}}"#,
            "root `if`, `then` loosened to one object",
        ),
        // Nothing left.
        (
            r#"{"not":{"required":["b"]}}"#,
            r#"{"type":"object"}"#,
            "root `not` replaced by {\"type\":\"object\"}",
        ),
        (
            r##"{"anyOf":[{"properties":{"a":{"$ref":"#/anyOf/1"}}},{"required":["x"]}]}"##,
            r#"{"type":"object"}"#,
            "root `$ref` replaced by {\"type\":\"object\"}",
        ),
    ] {
        let found = adapted(schema, Target::Anthropic);
        assert_eq!(found.parameters.to_string(), expected, "{schema}");
        assert_eq!(found.notes[0], note, "{schema}");
        let is_same = note.contains("merged");
        assert_eq!(found.in_description.is_none(), is_same, "{schema}");
        assert_eq!(found.notes.len(), if is_same { 1 } else { 2 }, "{schema}");
        if let Some(text) = found.in_description {
            assert!(text.contains(&parse(schema).to_string()), "{schema}: {text}");
        }
    }
}

#[test]
fn a_plain_object_is_sent_as_written() {
    let schema = r#"{"$schema":"http://json-schema.org/draft-07/schema#","type":"object","properties":{"n":{"type":"number","maximum":1.50}}}"#;
    for target in [Target::OpenAiChat, Target::OpenAiResponses, Target::Anthropic, Target::Compatible] {
        let found = adapted(schema, target);
        assert_eq!(found.parameters.to_string(), schema, "{target:?}");
        assert!(!found.strict && !found.undo.is_needed(), "{target:?}");
    }
    assert_eq!(adapted("{}", Target::Compatible).parameters, json!({ "type": "object" }));
    assert_eq!(adapted("{}", Target::Anthropic).parameters, json!({ "type": "object" }));
    assert_eq!(adapted("{}", Target::OpenAiChat).parameters, json!({ "type": "object", "properties": {} }));
}

#[test]
fn servers_that_are_not_known_are_sent_what_was_written() {
    for schema in [
        r#"{"type":"object","properties":{"a":{"anyOf":[{"required":["a"]},{"required":["b"]}]}}}"#,
        r#"{"type":"object","properties":{"a":{"type":"array","items":[{"type":"string"}]}},"$schema":"http://json-schema.org/draft-07/schema#"}"#,
        r#"{"type":"object","properties":{"a":{"type":"string"}},"required":["a"],"additionalProperties":false}"#,
    ] {
        let found = adapted(schema, Target::Compatible);
        assert_eq!(found.parameters.to_string(), schema);
        assert_eq!((found.strict, found.in_description, found.notes), (false, None, Vec::new()));
    }
}

/// Behind an unknown address there may be a gateway to a provider that refuses them.
#[test]
fn root_combinators_are_adapted_for_unknown_servers_too() {
    let schema = r#"{"type":"object","anyOf":[{"required":["a"]},{"required":["b"]}]}"#;
    let found = adapted(schema, Target::Compatible);
    assert_eq!(found.parameters, json!({ "type": "object" }));
    assert!(found.in_description.is_some_and(|text| text.contains(schema)));
}

#[test]
fn a_branch_that_allows_every_property_is_not_closed_from_outside() {
    let schema =
        r#"{"allOf":[{"properties":{"a":{}},"additionalProperties":true}],"unevaluatedProperties":false}"#;
    for target in [Target::OpenAiChat, Target::Anthropic, Target::Compatible] {
        let found = adapted(schema, target).parameters;
        assert_eq!(found.get("additionalProperties"), None, "{target:?}: {found}");
    }
}

#[test]
fn older_drafts_are_written_as_the_newest() {
    for (schema, expected) in [
        (
            r#"{"$schema":"http://json-schema.org/draft-07/schema#","type":"object","properties":{"t":{"items":[{"type":"string"},{}],"additionalItems":false}}}"#,
            r#"{"type":"object","properties":{"t":{"prefixItems":[{"type":"string"},{}],"items":false}}}"#,
        ),
        (
            r#"{"$schema":"http://json-schema.org/draft-04/schema#","type":"object","properties":{"n":{"minimum":1,"exclusiveMinimum":true,"maximum":3,"exclusiveMaximum":false}}}"#,
            r#"{"type":"object","properties":{"n":{"maximum":3,"exclusiveMinimum":1}}}"#,
        ),
    ] {
        for target in [Target::Anthropic, Target::OpenAiChat] {
            let found = adapted(schema, target);
            assert_eq!(found.parameters.to_string(), expected, "{target:?}");
            assert_eq!(found.notes[0], "older forms written as in 2020-12");
        }
    }
    // OpenAI wants to know what is in an array.
    let arrays = r#"{"type":"object","properties":{"t":{"type":["array","null"]}}}"#;
    assert_eq!(
        adapted(arrays, Target::OpenAiChat).parameters["properties"]["t"],
        json!({ "type": ["array", "null"], "items": {} })
    );
}

#[test]
fn names_that_anthropic_refuses_are_not_declared() {
    let schema = r#"{"type":"object","properties":{"größe":{},"ok":{"type":"string"}},"required":["größe"],"additionalProperties":false}"#;
    let found = adapted(schema, Target::Anthropic);
    assert_eq!(
        found.parameters.to_string(),
        r#"{"type":"object","properties":{"ok":{"type":"string"}},"required":["größe"]}"#
    );
    assert_eq!(
        found.notes,
        ["`größe` not declared (the provider refuses the name)", "full schema in the description"]
    );
}

#[test]
fn a_schema_that_is_too_large_for_a_description_is_left_out() {
    let long = "x".repeat(MAX_DESCRIBED_SCHEMA_BYTES);
    let schema = json!({ "not": { "required": ["a"] }, "description": long });
    let found = adapt(&schema, Target::Anthropic);
    assert_eq!(found.in_description, None);
    assert_eq!(found.notes[1], "the full schema is too large for the description");
    assert!(!adapt(&schema, Target::OpenAiChat).strict);
}

/// What is sent in strict mode, and the note if there is one.
fn strict(schema: &str) -> (String, Vec<String>) {
    let found = adapted(schema, Target::OpenAiChat);
    assert!(found.strict, "{schema}: {:?}", found.notes);
    assert_eq!(adapted(schema, Target::OpenAiResponses), found);
    (found.parameters.to_string(), found.notes)
}

#[test]
fn schemas_for_strict_mode() {
    let as_written = [
        r#"{"type":"object","properties":{"a":{"type":"string","description":"d","pattern":"^x","format":"date"}},"required":["a"],"additionalProperties":false}"#,
        r#"{"type":"object","properties":{"a":{"type":["integer","null"],"minimum":0,"multipleOf":2},"l":{"type":"array","items":{"type":"string","enum":["x","y"]},"minItems":1}},"required":["a","l"],"additionalProperties":false}"#,
        r##"{"type":"object","properties":{"next":{"anyOf":[{"$ref":"#"},{"type":"null"}]},"p":{"$ref":"#/$defs/P"}},"required":["next","p"],"additionalProperties":false,"$defs":{"P":{"type":"boolean"}}}"##,
    ];
    for schema in as_written {
        assert_eq!(strict(schema), (schema.to_owned(), Vec::new()));
    }
    let object = |properties: &str, required: &str| {
        format!(
            r#"{{"type":"object","properties":{properties},"required":{required},"additionalProperties":false}}"#
        )
    };
    for (properties, required, sent, note) in [
        // Optional: required, and null stands for absent.
        (
            r#"{"a":{"type":"string"},"b":{"type":"integer"}}"#,
            r#"["b"]"#,
            r#"{"a":{"type":["string","null"]},"b":{"type":"integer"}}"#,
            "optional properties asked for as nullable",
        ),
        (
            r#"{"a":{"enum":["x"]},"b":{"anyOf":[{"type":"string"},{"type":"integer"}]}}"#,
            "[]",
            r#"{"a":{"anyOf":[{"type":"string","enum":["x"]},{"type":"null"}]},"b":{"anyOf":[{"type":"string"},{"type":"integer"},{"type":"null"}]}}"#,
            "optional properties asked for as nullable",
        ),
        // A type that follows from the values.
        (
            r#"{"a":{"enum":["x","y",null]},"b":{"const":3}}"#,
            r#"["a","b"]"#,
            r#"{"a":{"type":["string","null"],"enum":["x","y",null]},"b":{"type":"number","const":3}}"#,
            "written differently, means the same",
        ),
        // Branches that cannot overlap.
        (
            r#"{"a":{"oneOf":[{"type":"string"},{"type":"null"}]}}"#,
            r#"["a"]"#,
            r#"{"a":{"anyOf":[{"type":"string"},{"type":"null"}]}}"#,
            "written differently, means the same",
        ),
        // What does not constrain is left out.
        (
            r#"{"a":{"type":"string","examples":["x"],"$comment":"c","default":null}}"#,
            r#"["a"]"#,
            r#"{"a":{"type":"string"}}"#,
            "written differently, means the same",
        ),
    ] {
        let names: Vec<String> = parse(properties).as_object().unwrap().keys().cloned().collect();
        let (found, notes) = strict(&object(properties, required));
        assert_eq!(found, object(sent, &json!(names).to_string()), "{properties}");
        assert_eq!(notes, [note]);
    }
    // Nothing may stand beside a reference.
    let (found, _) = strict(
        r##"{"type":"object","properties":{"p":{"allOf":[{"$ref":"#/definitions/P"}],"description":"d"}},"required":["p"],"additionalProperties":false,"definitions":{"P":{"type":"string"},"unused":{}}}"##,
    );
    assert_eq!(
        found,
        r##"{"type":"object","properties":{"p":{"description":"d","anyOf":[{"$ref":"#/definitions/P"}]}},"required":["p"],"additionalProperties":false,"definitions":{"P":{"type":"string"}}}"##
    );
    // A root that was merged without loss.
    let (_, notes) = strict(
        r#"{"allOf":[{"properties":{"a":{"type":"string"}},"required":["a"],"additionalProperties":false}]}"#,
    );
    assert_eq!(notes, ["root `allOf` merged into one object"]);
}

#[test]
fn schemas_that_are_not_for_strict_mode() {
    let deep = (0..11)
        .fold(r#"{"type":"string"}"#.to_owned(), |inner, _| format!(r#"{{"type":"array","items":{inner}}}"#));
    let values: Vec<String> = (0..1001).map(|n| format!("v{n}")).collect();
    let texts: Vec<String> = (0..251).map(|n| format!("{n:060}")).collect();
    let many = json!({ "enum": values }).to_string();
    let long = json!({ "enum": texts }).to_string();
    for (property, note) in [
        (r#"{}"#, "`/properties/a` says nothing about the type"),
        (r#"true"#, "`/properties/a` says nothing about the type"),
        (
            r#"{"type":"object","properties":{}}"#,
            "`/properties/a` allows unknown properties (no `additionalProperties: false`)",
        ),
        (
            r#"{"type":"object","additionalProperties":{"type":"string"}}"#,
            "`/properties/a` allows unknown properties (no `additionalProperties: false`)",
        ),
        (r#"{"type":"array"}"#, "`/properties/a/items` says nothing about the type"),
        (
            r#"{"type":"array","items":{"type":"string"},"uniqueItems":true}"#,
            "`/properties/a` has `uniqueItems`",
        ),
        (r#"{"type":"string","format":"uri"}"#, "`/properties/a` has the `format` \"uri\""),
        (r#"{"enum":[{"b":1}]}"#, "`/properties/a` lists objects or arrays"),
        (r#"{"type":"string","not":{"const":"x"}}"#, "`/properties/a` has `not`"),
        (
            r#"{"oneOf":[{"type":"string"},{"type":"string","minLength":3}]}"#,
            "`/properties/a` has a `oneOf` whose branches may overlap",
        ),
        (
            r#"{"oneOf":[{"type":"integer"},{"type":"number"}]}"#,
            "`/properties/a` has a `oneOf` whose branches may overlap",
        ),
        (r#"{"allOf":[{"type":"string"},{"minLength":1}]}"#, "`/properties/a` has an `allOf`"),
        (
            r#"{"type":"object","properties":{"b":{"type":["string","null"]}},"additionalProperties":false}"#,
            "`/properties/a/properties/b` is optional and may be null, so that null cannot stand for absent",
        ),
        (
            r##"{"$ref":"#/properties/b"}"##,
            "`/properties/a` has a `$ref` to `#/properties/b`, which is no definition",
        ),
        (
            r#"{"type":"object","properties":{},"required":["x"],"additionalProperties":false}"#,
            "`/properties/a` requires `x`, which it does not allow",
        ),
        (
            deep.as_str(),
            "`/properties/a/items/items/items/items/items/items/items/items/items/items` is nested deeper than 10 levels",
        ),
        (many.as_str(), "the root has more than 1000 values in `enum`"),
        (long.as_str(), "`/properties/a` lists more than 15000 characters of values"),
        (
            r#"{"anyOf":[{"type":"object","properties":{"x":{"type":"string"}},"additionalProperties":false},{"type":"object","properties":{"x":{"type":["integer","null"]}},"required":["x"],"additionalProperties":false}]}"#,
            "the root has variants with the same properties, some of them optional",
        ),
    ] {
        let schema = format!(
            r#"{{"type":"object","properties":{{"a":{property}}},"required":["a"],"additionalProperties":false}}"#
        );
        let found = adapted(&schema, Target::OpenAiChat);
        assert_eq!(found.notes, [format!("not strict: {note}")], "{schema}");
        assert!(!found.strict && !found.undo.is_needed() && found.in_description.is_none());
    }
    let open = adapted(r#"{"type":"object","properties":{}}"#, Target::OpenAiResponses);
    assert_eq!(
        open.notes,
        ["not strict: the root allows unknown properties (no `additionalProperties: false`)"]
    );
    let looser = adapted(r#"{"not":{"required":["a"]}}"#, Target::OpenAiChat);
    assert_eq!(looser.notes[1..], ["full schema in the description", "not strict"]);
}

#[test]
fn what_strict_mode_did_is_taken_back() {
    let undo = adapted(
        r##"{"type":"object","additionalProperties":false,"required":["list"],"properties":{
            "list":{"type":"array","items":{"$ref":"#/$defs/item"}},
            "note":{"type":"string"},
            "sub":{"$ref":"#"}},
          "$defs":{"item":{"anyOf":[
            {"type":"object","properties":{"kind":{"const":"a"},"x":{"type":"number"}},"required":["kind"],"additionalProperties":false},
            {"type":"object","properties":{"kind":{"const":"b"},"x":{"type":["number","null"]}},"required":["kind","x"],"additionalProperties":false},
            {"type":"string"}]}}}"##,
        Target::OpenAiChat,
    )
    .undo;
    assert!(undo.is_needed());
    for (answer, payload) in [
        (r#"{"list":[],"note":null,"sub":null}"#, r#"{"list":[]}"#),
        (r#"{ "note" : null , "list" : [ ] }"#, r#"{"list":[ ]}"#),
        // Numbers, order and escapes stay.
        (
            r#"{"sub":{"list":["\u00e4"],"note":"\u0041","sub":null},"list":[{"x":1e2,"kind":"a"},{"kind":"a","x":null},{"kind":"b","x":null}],"note":null}"#,
            r#"{"sub":{"list":["\u00e4"],"note":"\u0041"},"list":[{"x":1e2,"kind":"a"},{"kind":"a"},{"kind":"b","x":null}]}"#,
        ),
        (r#"{"list":[12345678901234567890.10],"\u006eote":null}"#, r#"{"list":[12345678901234567890.10]}"#),
        // Duplicates are for the contract to refuse, not for us to hide.
        (r#"{"list":[1],"list":[2],"note":null}"#, r#"{"list":[1],"list":[2]}"#),
        // Untouched, to the byte.
        (r#"{ "list" : [ 1.0 ] }"#, r#"{ "list" : [ 1.0 ] }"#),
        (r#"{"list":null,"other":null}"#, r#"{"list":null,"other":null}"#),
        (r#"{"list":[{"kind":"c","x":null},{"x":null}]}"#, r#"{"list":[{"kind":"c","x":null},{"x":null}]}"#),
        (r#"[{"note":null}]"#, r#"[{"note":null}]"#),
        ("null", "null"),
        ("", ""),
        (r#"{"note":null"#, r#"{"note":null"#),
        (r#"{"$serde_json::private::Number":"1","note":null}"#, r#"{"$serde_json::private::Number":"1"}"#),
    ] {
        assert_eq!(undo.apply(answer), payload, "{answer}");
    }
    let deep = format!("{}{}", r#"{"note":null,"sub":"#.repeat(3_000), "}".repeat(3_000));
    assert_eq!(undo.apply(&deep), deep);
}

#[test]
fn the_part_that_gemini_takes() {
    for (property, sent, lost) in [
        (
            r#"{"type":"string","pattern":"^x","minLength":1,"format":"date"}"#,
            r#"{"type":"string","pattern":"^x","minLength":1,"format":"date"}"#,
            "",
        ),
        (r#"{"type":"string","$comment":"c","examples":[1],"x-order":1}"#, r#"{"type":"string"}"#, ""),
        (r#"{"const":"x"}"#, r#"{"type":"string","enum":["x"]}"#, ""),
        (
            r#"{"type":["string","null"],"enum":["x",null]}"#,
            r#"{"type":["string","null"],"anyOf":[{"type":"string","enum":["x"]},{"type":"null"}]}"#,
            "",
        ),
        (r#"{"enum":[true,false]}"#, r#"{"type":"boolean"}"#, ""),
        (r#"{"const":true}"#, r#"{"type":"boolean"}"#, "`enum`"),
        (
            r#"{"enum":[{"a":1},1]}"#,
            r#"{"anyOf":[{"type":"number","enum":[1]},{"type":"object"}]}"#,
            "`enum`",
        ),
        (
            r#"{"type":"number","exclusiveMinimum":0,"multipleOf":2}"#,
            r#"{"type":"number","minimum":0}"#,
            "`exclusiveMinimum`, `multipleOf`",
        ),
        (
            r#"{"type":"object","patternProperties":{"^x":{}},"additionalProperties":false}"#,
            r#"{"type":"object"}"#,
            "`patternProperties`",
        ),
        (
            r#"{"type":"object","properties":{"b":true,"c":false},"dependentRequired":{"b":["c"]}}"#,
            r#"{"type":"object","properties":{"b":{},"c":{}}}"#,
            "`dependentRequired`, `false`",
        ),
        (
            r#"{"not":{"type":"string"},"if":{},"then":{},"contains":{},"unevaluatedItems":false}"#,
            r#"{}"#,
            "`contains`, `if`, `not`, `then`, `unevaluatedItems`",
        ),
        (
            r#"{"oneOf":[{"type":"string"},{"type":"null"}]}"#,
            r#"{"anyOf":[{"type":"string"},{"type":"null"}]}"#,
            "",
        ),
        (
            r#"{"oneOf":[{"minLength":1},{"maxLength":9}]}"#,
            r#"{"anyOf":[{"minLength":1},{"maxLength":9}]}"#,
            "`oneOf`",
        ),
        (r#"{"allOf":[{"type":"string"}],"description":"d"}"#, r#"{"description":"d","type":"string"}"#, ""),
        (
            r#"{"allOf":[{"type":"object","properties":{"x":{"const":"1"}}},{"required":["x"]}]}"#,
            r#"{"type":"object","properties":{"x":{"type":"string","enum":["1"]}},"required":["x"]}"#,
            "",
        ),
        (r#"{"allOf":[{"minLength":1},{"maxLength":9}],"type":"string"}"#, r#"{"type":"string"}"#, "`allOf`"),
        (
            r#"{"prefixItems":[{"type":"string"}],"items":false,"uniqueItems":true}"#,
            r#"{"prefixItems":[{"type":"string"}]}"#,
            "`items`, `uniqueItems`",
        ),
        (r##"{"$ref":"#/definitions/T","description":"d"}"##, r##"{"$ref":"#/$defs/T"}"##, ""),
        (r##"{"$ref":"#/definitions/T","minLength":1}"##, r##"{"$ref":"#/$defs/T"}"##, "`minLength`"),
        (r##"{"$ref":"#"}"##, "{}", "`$ref`"),
    ] {
        let schema = format!(
            r#"{{"$schema":"https://json-schema.org/draft/2020-12/schema","$id":"urn:x","type":"object","properties":{{"a":{property}}},"definitions":{{"T":{{"const":"t"}}}}}}"#
        );
        let found = adapted(&schema, Target::Gemini);
        assert_eq!(
            found.parameters.to_string(),
            format!(
                r#"{{"type":"object","properties":{{"a":{sent}}},"$defs":{{"T":{{"type":"string","enum":["t"]}}}}}}"#
            )
        );
        let notes = match lost {
            "" => vec!["written differently, means the same".to_owned()],
            lost => vec![format!("{lost} left out or loosened"), "full schema in the description".to_owned()],
        };
        assert_eq!(found.notes, notes, "{property}");
        assert_eq!(found.in_description.is_some(), !lost.is_empty());
        assert!(!found.strict);
    }
}

#[test]
fn cycles_that_gemini_cannot_unroll_are_cut() {
    let schema = |required: &str| {
        format!(
            r##"{{"type":"object","properties":{{"tree":{{"$ref":"#/$defs/node"}}}},"required":["tree"],"$defs":{{"node":{{"type":"object","properties":{{"children":{{"type":"array","items":{{"$ref":"#/$defs/node"}}}}}},"required":{required}}}}}}}"##
        )
    };
    let optional = schema("[]");
    assert_eq!(adapted(&optional, Target::Gemini).parameters.to_string(), optional);
    let found = adapted(&schema(r#"["children"]"#), Target::Gemini);
    assert_eq!(found.parameters["$defs"]["node"]["properties"]["children"]["items"], json!({}));
    assert_eq!(found.parameters["properties"]["tree"], json!({ "$ref": "#/$defs/node" }));
    assert_eq!(found.notes[0], "`$ref` left out or loosened");
}

#[test]
fn schemas_that_lead_back_to_themselves_come_to_an_end() {
    for schema in [
        r##"{"allOf":[{"$ref":"#/$defs/a"}],"$defs":{"a":{"allOf":[{"$ref":"#/$defs/a"}]}}}"##,
        r##"{"anyOf":[{"$ref":"#/$defs/a"},{"$ref":"#/$defs/a"}],"$defs":{"a":{"anyOf":[{"$ref":"#/$defs/a"},{"$ref":"#/$defs/a"}]}}}"##,
        r##"{"type":"object","additionalProperties":false,"properties":{"a":{"$ref":"#/$defs/a"}},"$defs":{"a":{"$ref":"#/$defs/a"}}}"##,
        r##"{"type":"object","properties":{"a":{"$ref":"#/$defs/a"}},"$defs":{"a":{"type":"object","allOf":[{"$ref":"#/$defs/b"}]},"b":{"type":"object","properties":{"c":{"allOf":[{"$ref":"#/$defs/a"},{"type":"object"}]},"d":{"allOf":[{"$ref":"#/$defs/a"},{"type":"object"}]}}}}}"##,
    ] {
        for target in [Target::OpenAiChat, Target::Anthropic, Target::Gemini, Target::Compatible] {
            assert_eq!(adapted(schema, target).parameters["type"], "object", "{schema}");
        }
    }
    // A long chain of definitions.
    let mut definitions = serde_json::Map::new();
    for n in 0..5_000 {
        let next = json!({ "$ref": format!("#/$defs/d{}", n + 1) });
        definitions.insert(
            format!("d{n}"),
            json!({ "type": "object", "properties": { "n": next }, "required": ["n"], "additionalProperties": false }),
        );
    }
    definitions.insert("d5000".to_owned(), json!({ "type": "string" }));
    let mut chain = definitions["d0"].clone();
    chain["$defs"] = Value::Object(definitions);
    assert_eq!(
        adapt(&chain, Target::OpenAiChat).notes,
        ["not strict: `/$defs/d32/properties/n` is behind more than 32 definitions"]
    );
    assert!(adapt(&chain, Target::Gemini).notes.is_empty());
}

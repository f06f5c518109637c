//! What the strict gate finds in a schema, and what it lets through.

use proptest::prelude::*;
use serde_json::Value;
use tenon_contract::Schema;

use crate::{accepted, payload, refused};

#[test]
fn a_misspelt_keyword_is_named_with_its_place_and_the_nearest_one() {
    let table = [
        (r#"{"propertees":{}}"#, "/propertees", "`properties`"),
        (r#"{"type":"object","properties":{"a":{"minLenght":3}}}"#, "/properties/a/minLenght", "`minLength`"),
        (r#"{"$defs":{"d":{"allOf":[{"requierd":["x"]}]}}}"#, "/$defs/d/allOf/0/requierd", "`required`"),
        (r#"{"additionalproperties":false}"#, "/additionalproperties", "`additionalProperties`"),
        (r#"{"properties":{"a/b":{"typ":"string"}}}"#, "/properties/a~1b/typ", "`type`"),
        (r#"{"items":{"anyof":[{}]}}"#, "/items/anyof", "`anyOf`"),
        (
            r#"{"patternProperties":{"^a":{"descripton":"x"}}}"#,
            "/patternProperties/^a/descripton",
            "`description`",
        ),
        (r#"{"properties":{"a":{"enums":["x"]}}}"#, "/properties/a/enums", "`enum`"),
    ];
    for (schema, pointer, near) in table {
        let error = refused(schema);
        assert_eq!(error.pointer(), Some(pointer), "{error}");
        assert!(error.to_string().contains(&format!("did you mean {near}?")), "{error}");
    }
}

#[test]
fn every_problem_is_reported_at_once() {
    let error = refused(r#"{"propertees":{},"properties":{"a":{"typ":"string"},"b":{"type":"strin"}}}"#);
    let pointers: Vec<&str> = error.problems().iter().map(|problem| problem.pointer.as_str()).collect();
    assert_eq!(pointers, ["/propertees", "/properties/a/typ", "/properties/b/type"]);
    assert_eq!(
        error.to_string(),
        "the schema has 3 problems: \
         at `/propertees`: unknown keyword `propertees`, did you mean `properties`?; \
         at `/properties/a/typ`: unknown keyword `typ`, did you mean `type`?; \
         at `/properties/b/type`: `strin` is not a type, did you mean `string`?"
    );
}

#[test]
fn names_data_and_extensions_are_not_keywords() {
    for schema in [
        r#"{"properties":{"propertees":{"type":"string"},"$ref":{"type":"string"}}}"#,
        r#"{"properties":{"a":{"enum":[{"typ":1}]}}}"#,
        r#"{"properties":{"a":{"const":{"typ":1}}}}"#,
        r#"{"default":{"typ":1},"examples":[{"typ":1}]}"#,
        r#"{"x-foo":{"typ":1},"properties":{"a":{"x-bar":1}}}"#,
        r#"{"dependentRequired":{"typ":["a"]}}"#,
        r#"{"$defs":{"typ":{}}}"#,
    ] {
        assert_eq!(accepted(schema).warnings(), [""; 0], "{schema}");
    }
}

#[test]
fn a_property_outside_properties_gets_a_hint() {
    let error = refused(r#"{"type":"object","customer":{"type":"string"}}"#);
    assert_eq!(error.hint().unwrap(), "if `customer` is a property, it belongs inside `properties`");
}

#[test]
fn a_wrapped_schema_gets_a_hint() {
    let error = refused(r#"{"name":"answer","strict":true,"schema":{"type":"object"}}"#);
    assert!(error.hint().unwrap().contains("pass only the schema inside it"), "{error}");
}

#[test]
fn annotations_of_tools_pass_with_one_warning() {
    let schema = accepted(
        r#"{"discriminator":{"propertyName":"x"},"properties":{"a":{"type":"string","nullable":true,"example":"x"},
            "b":{"example":1,"markdownDescription":"x","errorMessage":"x","$version":1}}}"#,
    );
    assert_eq!(
        schema.warnings(),
        [
            "`$version`, `discriminator`, `errorMessage`, `example`, `markdownDescription`, `nullable` do not constrain \
          the value and are only passed on; to allow null, write `\"type\": [\"string\", \"null\"]`"
        ]
    );
}

#[test]
fn things_without_effect_are_warned_about() {
    let table = [
        (r#"{"if":{"required":["a"]}}"#, "`if` at `(root)` has no effect without `then` or `else`"),
        (r#"{"properties":{"a":{"then":{}}}}"#, "`then` at `/properties/a` has no effect without `if`"),
        (r#"{"else":{}}"#, "`else` at `(root)` has no effect without `if`"),
        (
            r#"{"properties":{"a":{"minContains":2}}}"#,
            "`minContains` at `/properties/a` has no effect without `contains`",
        ),
        (
            r#"{"properties":{"a":{"format":"uint64"},"b":{"format":"uint64"}}}"#,
            "unknown format `uint64` is not checked",
        ),
    ];
    for (schema, warning) in table {
        assert_eq!(accepted(schema).warnings(), [warning], "{schema}");
    }
}

#[test]
fn an_unknown_format_does_not_switch_anything_else_off() {
    let schema = r#"{"properties":{"a":{"type":"integer","format":"uint64"}},"required":["a"]}"#;
    assert_eq!(payload(schema, r#"{"a":1}"#), r#"{"a":1}"#);
    assert!(accepted(schema).check(r#"{"a":"x"}"#).is_err());
}

#[test]
fn values_of_keywords_are_checked() {
    let table = [
        (r#"{"properties":{"a":{"type":"objekt"}}}"#, "`objekt` is not a type, did you mean `object`?"),
        (r#"{"properties":{"a":{"type":"zzzzzz"}}}"#, "the types are string, number"),
        (r#"{"properties":{"a":{"type":[]}}}"#, "an empty `type` accepts nothing"),
        (r#"{"properties":{"a":{"type":["string","string"]}}}"#, "`type` names a type twice"),
        (r#"{"properties":{"a":{"type":{"a":1}}}}"#, "`type` must be the name of a type, got"),
        (r#"{"required":"x"}"#, "`required` must be an array of property names, got \"x\""),
        (r#"{"required":["a","a"]}"#, "`required` names `a` twice"),
        (r#"{"required":[1]}"#, "`required` must hold property names, got 1"),
        (r#"{"properties":{"a":{"required":true}}}"#, "on the object"),
        (r#"{"properties":[]}"#, "`properties` must be an object whose values are schemas, got array"),
        (r#"{"properties":{"a":5}}"#, "expected a schema (an object or a boolean), got integer"),
        (r#"{"properties":{"a":{"enum":"x"}}}"#, "`enum` must be an array of values"),
        (r#"{"properties":{"a":{"enum":[]}}}"#, "an empty `enum` accepts nothing"),
        (r#"{"minProperties":-1}"#, "whole number that is not negative, got -1"),
        (r#"{"minProperties":1.5}"#, "whole number that is not negative, got 1.5"),
        (r#"{"properties":{"a":{"multipleOf":0}}}"#, "`multipleOf` must be a number greater than 0, got 0"),
        (r#"{"properties":{"a":{"multipleOf":-0.0e5}}}"#, "`multipleOf` must be a number greater than 0"),
        (r#"{"properties":{"a":{"minimum":"1"}}}"#, "`minimum` must be a number, got \"1\""),
        (r#"{"properties":{"a":{"format":5}}}"#, "`format` must be a string, got 5"),
        (r#"{"properties":{"a":{"uniqueItems":"yes"}}}"#, "`uniqueItems` must be true or false"),
        (r#"{"properties":{"a":{"allOf":[]}}}"#, "`allOf` needs at least one schema"),
        (r#"{"properties":{"a":{"allOf":{}}}}"#, "`allOf` must be an array of schemas, got object"),
        (r#"{"properties":{"a":{"items":[{}]}}}"#, "its successor is `prefixItems`"),
        (r#"{"properties":{"a":{"not":[]}}}"#, "expected a schema"),
        (r#"{"description":5}"#, "`description` must be a string"),
        (r#"{"examples":5}"#, "`examples` must be an array"),
        (
            r#"{"dependentRequired":{"a":"b"}}"#,
            "`dependentRequired` must hold arrays of property names, got string",
        ),
        (r#"{"$schema":5}"#, "`$schema` must be the address of a draft, got 5"),
    ];
    for (schema, text) in table {
        let error = refused(schema);
        assert!(error.to_string().contains(text), "{schema}: {error}");
    }
}

#[test]
fn values_in_unusual_spelling_are_fine() {
    for schema in [
        r#"{"minProperties":0.0,"properties":{"a":{"maxLength":10.0,"minLength":1e1,"multipleOf":1e-3}}}"#,
        r#"{"required":[],"properties":{}}"#,
        r#"{"properties":{"a":true,"b":false}}"#,
        r#"{"properties":{"a":{"type":["string","null"],"minimum":3}}}"#,
    ] {
        accepted(schema);
    }
}

#[test]
fn references_stay_inside_the_schema() {
    let table = [
        ("https://example.com/s.json", "is outside this schema, and references are not fetched"),
        ("file:///etc/passwd", "is outside this schema, and references are not fetched"),
        ("other.json#/a", "is outside this schema, and references are not fetched"),
        ("#/$defs/usr", "`#/$defs/usr` leads to nothing in this schema"),
        ("#nowhere", "`#nowhere` leads to nothing in this schema"),
        ("#/%zz", "leads to nothing in this schema"),
    ];
    for (reference, text) in table {
        let error =
            refused(&format!(r#"{{"properties":{{"a":{{"$ref":"{reference}"}}}},"$defs":{{"user":{{}}}}}}"#));
        assert_eq!(error.pointer(), Some("/properties/a/$ref"), "{error}");
        assert!(error.to_string().contains(text), "{error}");
    }
    let near = refused(r##"{"properties":{"a":{"$ref":"#/$defs/usr"}},"$defs":{"user":{}}}"##);
    assert_eq!(near.hint().unwrap(), "did you mean `#/$defs/user`?");
    let moved = refused(r##"{"properties":{"a":{"$ref":"#/definitions/user"}},"$defs":{"user":{}}}"##);
    assert_eq!(moved.hint().unwrap(), "did you mean `#/$defs/user`?");
}

#[test]
fn an_address_that_no_id_matches_is_refused() {
    let table = [
        (
            r#"{"$ref":"https://example.com/other"}"#,
            "`https://example.com/other` is outside this schema, and references are not fetched",
        ),
        (
            r#"{"$ref":"other.json#/a"}"#,
            "`https://example.com/other.json` is outside this schema, and references are not fetched",
        ),
        (
            r#"{"$id":"inner","$ref":"nowhere"}"#,
            "`https://example.com/nowhere` is outside this schema, and references are not fetched",
        ),
        (r##"{"$id":"inner","$ref":"#/$defs/no"}"##, "`/$defs/no` leads to nothing in this schema"),
        (r##"{"$id":"inner","$ref":"#no"}"##, "`no` leads to nothing in this schema"),
    ];
    for (property, message) in table {
        let error =
            refused(&format!(r#"{{"$id":"https://example.com/root","properties":{{"a":{property}}}}}"#));
        assert_eq!(error.to_string(), format!("at `/properties/a/$ref`: {message}"));
    }
    let error = refused(r#"{"$id":"http://[::"}"#);
    assert!(error.to_string().starts_with("an address in the schema cannot be read: "), "{error}");
}

#[test]
fn local_references_work() {
    for schema in [
        r##"{"properties":{"a":{"$ref":"#/$defs/n"}},"$defs":{"n":{"type":"integer"}}}"##,
        r##"{"properties":{"a":{"$ref":"#/definitions/n"}},"definitions":{"n":{"type":"integer"}}}"##,
        r##"{"properties":{"a":{"$ref":"#n"}},"$defs":{"x":{"$anchor":"n","type":"integer"}}}"##,
        r##"{"properties":{"a":{"$ref":"#/$defs/a~1b%25"}},"$defs":{"a/b%":{"type":"integer"}}}"##,
        r##"{"properties":{"a":{"$ref":"#/x-shared/n"}},"x-shared":{"n":{"type":"integer"}}}"##,
        r##"{"$id":"https://example.com/root","properties":{"a":{"$id":"in","$ref":"#/$defs/ok",
            "$defs":{"ok":{"type":"integer"}}}}}"##,
        r##"{"$id":"urn:example:root","properties":{"a":{"$ref":"urn:example:root#/$defs/n"}},"$defs":{"n":{"type":"integer"}}}"##,
        r##"{"$id":"root.json","properties":{"a":{"$ref":"root.json#/$defs/n"}},"$defs":{"n":{"type":"integer"}}}"##,
        r##"{"$schema":"http://json-schema.org/draft-04/schema#","id":"http://example.com/root#",
            "properties":{"a":{"$ref":"root#/definitions/n"}},"definitions":{"n":{"type":"integer"}}}"##,
        r#"{"properties":{"a":{"$ref":"n"}},"$defs":{"x":{"$id":"n","type":"integer"}}}"#,
        r#"{"$id":"https://example.com/root","properties":{"a":{"$ref":"https://example.com/n"}},
            "$defs":{"n":{"$id":"n","type":"integer"}}}"#,
    ] {
        assert_eq!(payload(schema, r#"{"a":1}"#), r#"{"a":1}"#);
        assert!(accepted(schema).check(r#"{"a":"x"}"#).is_err(), "{schema}");
    }
    let tree = r##"{"properties":{"child":{"$ref":"#"}},"additionalProperties":false}"##;
    assert!(accepted(tree).check(r#"{"child":{"child":{}}}"#).is_ok());
    assert!(accepted(tree).check(r#"{"child":{"child":{"x":1}}}"#).is_err());
}

#[test]
fn what_a_reference_leads_to_is_checked_too() {
    let error =
        refused(r##"{"properties":{"a":{"$ref":"#/x-shared/n"}},"x-shared":{"n":{"typ":"integer"}}}"##);
    assert_eq!(error.pointer(), Some("/x-shared/n/typ"));
}

#[test]
fn text_that_is_not_json_is_reported_with_line_and_column() {
    let table = [
        ("{", "line 1, column 2: expected a property name in double quotes, found the end of the text"),
        ("{\n  \"a\": tru\n}", "line 2, column 8: expected a value, found `t`"),
        ("{\"a\":1,}", "line 1, column 8: a comma before `}` is not JSON"),
        ("{\"ä\":1 2}", "line 1, column 8: expected `,` or `}`, found `2`"),
        ("{\"type\":1,\"type\":2}", "line 1, column 11: the property `type` is there twice"),
        ("{'a':1}", "line 1, column 2: expected a property name in double quotes, found `'`"),
    ];
    for (schema, text) in table {
        assert_eq!(refused(schema).to_string(), format!("the schema is not valid JSON: {text}"));
    }
}

#[test]
fn hostile_sizes_are_errors() {
    let deep =
        |levels: usize| format!("{}{}", r#"{"not":"#.repeat(levels), "{}".to_owned() + &"}".repeat(levels));
    assert!(refused(&deep(100_000)).to_string().contains("nested deeper than 127 levels"));
    assert!(refused(&"[".repeat(1_000_000)).to_string().contains("nested deeper than 127 levels"));
    accepted(&format!(r#"{{"properties":{{"a":{}}}}}"#, deep(100)));
    let huge = format!(r#"{{"description":"{}"}}"#, "x".repeat(5 * 1024 * 1024));
    assert!(refused(&huge).to_string().contains("bytes"));
}

#[test]
fn the_source_keeps_its_keys_in_order() {
    let text = r#"{"type":"object","properties":{"z":{},"a":{}},"required":["z"]}"#;
    assert_eq!(accepted(text).source().to_string(), text);
}

/// Schemas made of real keywords with values of every kind, right and wrong.
fn any_schema() -> impl Strategy<Value = Value> {
    let keyword = prop::sample::select(vec![
        "$schema",
        "$id",
        "$ref",
        "$anchor",
        "$dynamicRef",
        "$dynamicAnchor",
        "$defs",
        "definitions",
        "allOf",
        "anyOf",
        "oneOf",
        "not",
        "if",
        "then",
        "else",
        "properties",
        "patternProperties",
        "additionalProperties",
        "unevaluatedProperties",
        "propertyNames",
        "required",
        "minProperties",
        "dependentRequired",
        "dependentSchemas",
        "dependencies",
        "items",
        "prefixItems",
        "additionalItems",
        "unevaluatedItems",
        "contains",
        "minContains",
        "maxContains",
        "uniqueItems",
        "type",
        "enum",
        "const",
        "multipleOf",
        "minimum",
        "exclusiveMaximum",
        "minLength",
        "pattern",
        "format",
        "contentEncoding",
        "default",
        "a",
        "b",
    ]);
    let leaf = prop_oneof![
        any::<bool>().prop_map(Value::from),
        Just(Value::Null),
        prop::sample::select(vec!["0", "2", "-1", "1.5", "1e3", "1e400", "99999999999999999999"])
            .prop_map(|number| serde_json::from_str(number).unwrap()),
        prop::sample::select(vec![
            "object",
            "string",
            "integer",
            "a",
            "#",
            "#/$defs/a",
            "#/properties/b",
            "#a",
            "^a",
            "[",
            "date",
            "uuid",
            "base64",
            "https://example.com/a",
            "a b",
            "http://json-schema.org/draft-07/schema#",
            "http://json-schema.org/draft-04/schema#",
            "https://json-schema.org/draft/2019-09/schema",
        ])
        .prop_map(Value::from),
    ];
    leaf.prop_recursive(5, 40, 5, move |inner| {
        prop_oneof![
            1 => prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            4 => prop::collection::vec((keyword.clone(), inner), 0..5)
                .prop_map(|members| members.into_iter().map(|(key, value)| (key.to_owned(), value)).collect::<Value>()),
        ]
    })
}

proptest! {
    #![proptest_config(crate::cases(128))]

    #[test]
    fn no_text_makes_the_gate_panic(text in "[\\[\\]{}\",:a-z$0-9 ]{0,60}") {
        let _ = Schema::compile(&text);
    }

    #[test]
    fn no_schema_makes_the_gate_panic(schema in any_schema(), arguments in any_schema()) {
        if let Ok(schema) = Schema::compile(&schema.to_string()) {
            let _ = schema.check(&arguments.to_string());
            let _ = schema.check(r#"{"a":{"b":["a",1,null]},"b":1.5}"#);
        }
    }

    #[test]
    fn any_property_name_gets_its_own_pointer(name in any::<String>()) {
        let schema = serde_json::json!({ "properties": { (name.clone()): { "typ": 1 } } });
        if name.starts_with("$serde_json::private") {
            return Ok(());
        }
        let error = refused(&schema.to_string());
        let found = schema.pointer(error.pointer().unwrap());
        prop_assert_eq!(found, Some(&serde_json::json!(1)));
    }
}

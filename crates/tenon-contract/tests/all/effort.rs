//! Schemas and payloads that would take forever, or the whole stack.

use tenon_contract::Schema;

use crate::{accepted, refused};

/// Definitions that each refer to the next one.
fn chain(length: usize, link: impl Fn(&str) -> String) -> String {
    let definitions: String = (0..length)
        .map(|index| {
            format!(r##""d{index}":{},"##, link(&format!(r##"{{"$ref":"#/$defs/d{}"}}"##, index + 1)))
        })
        .collect();
    format!(
        r##"{{"properties":{{"a":{{"$ref":"#/$defs/d0"}}}},"$defs":{{{definitions}"d{length}":{{"type":"string"}}}}}}"##
    )
}

#[test]
fn a_chain_of_references_ends_somewhere() {
    let links: [fn(&str) -> String; 3] = [
        |next| next.to_owned(),
        |next| format!(r#"{{"allOf":[{next}]}}"#),
        |next| format!(r#"{{"anyOf":[{{"type":"null"}},{next}]}}"#),
    ];
    for link in links {
        let schema = accepted(&chain(300, link));
        assert!(schema.check(r#"{"a":"x"}"#).is_ok());
        assert!(schema.check(r#"{"a":1}"#).is_err());
        for length in [3000, 20_000] {
            let error = refused(&chain(length, link));
            assert!(error.to_string().contains("too far for any value to be checked"), "{error}");
        }
    }
}

#[test]
fn branches_that_multiply_are_refused() {
    let twice = |next: &str| format!(r#"{{"allOf":[{next},{next}]}}"#);
    let schema = accepted(&chain(8, twice));
    assert!(schema.check(r#"{"a":"x"}"#).is_ok());
    assert!(schema.check(r#"{"a":1}"#).is_err());
    refused(&chain(40, twice));
    refused(&chain(500, twice));
}

#[test]
fn a_schema_that_waits_for_itself_is_refused() {
    for schema in [
        r##"{"allOf":[{"$ref":"#"}]}"##,
        r##"{"$id":"https://example.com/r","allOf":[{"$ref":"https://example.com/r"}]}"##,
        r##"{"properties":{"a":{"anyOf":[{"type":"null"},{"$ref":"#/properties/a"}]}}}"##,
        r##"{"properties":{"a":{"$ref":"#/$defs/x"}},"$defs":{"x":{"$ref":"#/$defs/y"},"y":{"not":{"$ref":"#/$defs/x"}}}}"##,
        r##"{"items":{"$ref":"#me"},"$defs":{"x":{"$anchor":"me","if":{"$ref":"#me"},"then":{}}}}"##,
    ] {
        let error = refused(schema);
        assert!(error.to_string().contains("refers to itself without going into the value"), "{error}");
    }
    for schema in [
        r##"{"properties":{"a":{"$ref":"#"}}}"##,
        r##"{"properties":{"a":{"anyOf":[{"type":"null"},{"items":{"$ref":"#/properties/a"}}]}}}"##,
        r##"{"$dynamicAnchor":"t","additionalProperties":{"$dynamicRef":"#t"}}"##,
    ] {
        accepted(schema);
    }
}

fn nested(levels: usize) -> String {
    format!("{}1{}", r#"{"a":"#.repeat(levels), "}".repeat(levels))
}

#[test]
fn a_payload_that_multiplies_the_branches_is_rejected() {
    let schema = accepted(
        r##"{"anyOf":[{"properties":{"a":{"$ref":"#"}},"required":["x"]},{"properties":{"a":{"$ref":"#"}},"required":["y"]}]}"##,
    );
    let rejection = schema.check(&nested(5)).unwrap_err();
    assert!(rejection.told().contains("fits none of the 2 allowed forms"), "{}", rejection.told());
    let rejection = schema.check(&nested(100)).unwrap_err();
    assert!(rejection.told().starts_with("(root): nested too deeply to be checked"), "{}", rejection.told());
}

#[test]
fn deep_and_wide_payloads_of_ordinary_recursive_schemas_are_checked() {
    let json = accepted(
        r##"{"allOf":[{"$ref":"#/$defs/value"}],"type":"object","$defs":{"value":{"anyOf":[
            {"type":["string","number","boolean","null"]},
            {"type":"array","items":{"$ref":"#/$defs/value"}},
            {"type":"object","additionalProperties":{"$ref":"#/$defs/value"}}]}}}"##,
    );
    assert!(json.check(&nested(126)).is_ok());
    let wide = format!(r#"{{"a":[{}]}}"#, vec!["{\"b\":[1,2]}"; 5000].join(","));
    assert!(json.check(&wide).is_ok());
    let tree = accepted(
        r##"{"$defs":{"node":{"properties":{"op":{"enum":["+","-"]},"args":{"prefixItems":[{"$ref":"#/$defs/node"},
            {"$ref":"#/$defs/node"}]}},"additionalProperties":{"$ref":"#/$defs/node"}}},"allOf":[{"$ref":"#/$defs/node"}]}"##,
    );
    let deep = format!("{}{{}}{}", r#"{"op":"+","args":[{},"#.repeat(60), "]}".repeat(60));
    assert!(tree.check(&deep).is_ok());
}

#[test]
fn a_wide_schema_is_no_problem() {
    let properties: Vec<String> = (0..2000).map(|n| format!(r#""p{n}":{{"type":"string"}}"#)).collect();
    let schema = Schema::compile(&format!(r#"{{"properties":{{{}}}}}"#, properties.join(","))).unwrap();
    assert!(schema.check(r#"{"p1999":1}"#).is_err());
}

//! The words for what is wrong with a payload.

use crate::{accepted, told};

fn schema(property: &str) -> String {
    format!(r#"{{"properties":{{"v":{property}}}}}"#)
}

#[test]
fn every_kind_of_violation_has_its_sentence() {
    let table = [
        (r#"{"type":"boolean"}"#, r#""true""#, "expected boolean, got string"),
        (r#"{"type":"string"}"#, "5", "expected string, got integer"),
        (r#"{"type":"string"}"#, "5.5", "expected string, got number"),
        (r#"{"type":"integer"}"#, "1.5", "expected integer, got number 1.5"),
        (r#"{"type":"object"}"#, "[]", "expected object, got array"),
        (r#"{"type":"string"}"#, "null", "expected string, got null"),
        (
            r#"{"enum":["low","medium","high"]}"#,
            r#""hgih""#,
            r#"expected one of "low", "medium", "high", got "hgih""#,
        ),
        (r#"{"enum":["a",1,null]}"#, "{}", r#"expected one of "a", 1, null, got {}"#),
        (r#"{"const":"x"}"#, r#""y""#, r#"expected "x", got "y""#),
        (r#"{"minimum":1}"#, "0", "expected at least 1, got 0"),
        (r#"{"maximum":1.5}"#, "2", "expected at most 1.5, got 2"),
        (r#"{"exclusiveMinimum":1}"#, "1", "expected more than 1, got 1"),
        (r#"{"exclusiveMaximum":1}"#, "1", "expected less than 1, got 1"),
        (r#"{"multipleOf":5}"#, "7", "expected a multiple of 5, got 7"),
        (r#"{"minLength":3}"#, r#""ä""#, "expected at least 3 characters, got 1"),
        (r#"{"maxLength":1}"#, r#""äöü""#, "expected at most 1 character, got 3"),
        (r#"{"minItems":1}"#, "[]", "expected at least 1 item, got 0"),
        (r#"{"maxItems":1}"#, "[1,2]", "expected at most 1 item, got 2"),
        (r#"{"minProperties":2}"#, r#"{"a":1}"#, "expected at least 2 properties, got 1"),
        (r#"{"maxProperties":0}"#, r#"{"a":1}"#, "expected at most 0 properties, got 1"),
        (r#"{"pattern":"^a"}"#, r#""b""#, r#"expected a string matching the pattern ^a, got "b""#),
        (r#"{"format":"date"}"#, r#""today""#, r#"expected the format date, got "today""#),
        (r#"{"uniqueItems":true}"#, "[1,2,1]", "expected items that differ, but items 0 and 2 are both 1"),
        (r#"{"contains":{"type":"string"}}"#, "[1]", r#"expected an item that fits {"type":"string"}"#),
        (
            r#"{"contains":{"const":1},"minContains":2}"#,
            "[1]",
            r#"expected at least 2 items that fit {"const":1}"#,
        ),
        (
            r#"{"contains":{"const":1},"maxContains":1}"#,
            "[1,1]",
            r#"expected at most 1 item that fit {"const":1}"#,
        ),
        (
            r#"{"not":{"type":"string"}}"#,
            r#""x""#,
            r#"expected a value that does not fit {"type":"string"}, got "x""#,
        ),
        ("false", "1", "nothing is allowed here"),
        (
            r#"{"properties":{"additionalProperties":false}}"#,
            r#"{"additionalProperties":{"a":1}}"#,
            "nothing is allowed here",
        ),
        (
            r#"{"propertyNames":{"maxLength":1}}"#,
            r#"{"ab":1}"#,
            r#"the property name "ab" is not allowed: expected at most 1 character, got 2"#,
        ),
        (r#"{"prefixItems":[{}],"items":false}"#, "[1,2]", "nothing is allowed here"),
        (r#"{"items":false}"#, "[1]", "nothing is allowed here"),
        (r#"{"additionalProperties":false}"#, r#"{"a":1}"#, "unexpected property"),
        (
            r#"{"additionalProperties":false,"patternProperties":{"^x":{}}}"#,
            r#"{"a":1}"#,
            "unexpected property",
        ),
        (
            r#"{"additionalProperties":{"not":{}}}"#,
            r#"{"a":1}"#,
            "expected a value that does not fit {}, got 1",
        ),
        (r#"{"unevaluatedProperties":false}"#, r#"{"a":1}"#, "unexpected property"),
        (r#"{"unevaluatedItems":false}"#, "[1,2]", "has 2 items more than allowed"),
        (r#"{"contains":false}"#, "[1]", "expected an item that fits false"),
        (r#"{"dependentSchemas":{"a":false}}"#, r#"{"a":1}"#, "nothing is allowed here"),
        (r#"{"propertyNames":false}"#, r#"{"a":1}"#, "nothing is allowed here"),
    ];
    for (property, value, message) in table {
        let line = told(&schema(property), &format!(r#"{{"v":{value}}}"#));
        let (path, text) = line.split_once(": ").unwrap();
        assert!(path.starts_with("/v"), "{line}");
        assert_eq!(text, message, "{property} {value}");
    }
}

#[test]
fn missing_and_unexpected_properties_have_their_own_pointers() {
    let schema = r#"{"type":"object","properties":{"name":{"type":"string"},"a/b":{}},"required":["name","a/b"],
        "additionalProperties":false}"#;
    assert_eq!(
        told(schema, r#"{"nmae":"x","extra":1}"#),
        "/name: required property is missing\n\
         /a~1b: required property is missing\n\
         /nmae: unexpected property, did you mean \"name\"?\n\
         /extra: unexpected property"
    );
    let unevaluated = r#"{"allOf":[{"properties":{"a":{}}}],"unevaluatedProperties":false}"#;
    assert_eq!(told(unevaluated, r#"{"a":1,"b":2}"#), "/b: unexpected property");
    let dependent = r#"{"dependentRequired":{"a":["b"]}}"#;
    assert_eq!(told(dependent, r#"{"a":1}"#), "/b: required property is missing");
}

#[test]
fn violations_are_found_at_every_depth() {
    let schema = r##"{"properties":{"items":{"type":"array","items":{"$ref":"#/$defs/item"}}},
        "$defs":{"item":{"properties":{"id":{"type":"integer"}},"required":["id"]}}}"##;
    assert_eq!(
        told(schema, r#"{"items":[{"id":"x"},{},{"id":3}]}"#),
        "/items/0/id: expected integer, got string\n/items/1/id: required property is missing"
    );
    assert_eq!(told(r#"{"minProperties":1}"#, "{}"), "(root): expected at least 1 property, got 0");
}

#[test]
fn unions_are_summed_up() {
    let table = [
        (r#"{"anyOf":[{"type":"string"},{"type":"null"}]}"#, "5", "/v: expected string or null, got integer"),
        (r#"{"type":["string","null"]}"#, "5", "/v: expected null or string, got integer"),
        (
            r#"{"oneOf":[{"const":"a"},{"enum":["b","c"]}]}"#,
            r#""d""#,
            r#"/v: expected one of "a", "b", "c", got "d""#,
        ),
        (
            r#"{"anyOf":[{"type":"integer"},{"const":"auto"}]}"#,
            r#""x""#,
            r#"/v: expected integer or one of "auto", got "x""#,
        ),
        (
            r#"{"oneOf":[{"type":"string"},{"type":"object","required":["a"]}]}"#,
            "{}",
            "/v: fits none of the 2 allowed forms; form 2: /v/a: required property is missing",
        ),
        (
            r#"{"anyOf":[{"properties":{"kind":{"const":"circle"},"r":{"type":"number"}},"required":["kind","r"]},
                {"properties":{"kind":{"const":"square"},"side":{"type":"number"}},"required":["kind","side"]}]}"#,
            r#"{"kind":"square"}"#,
            "/v: fits none of the 2 allowed forms; form 2: /v/side: required property is missing",
        ),
        (
            r#"{"anyOf":[{"properties":{"kind":{"const":"circle"}}},{"properties":{"kind":{"const":"square"}}}]}"#,
            r#"{"kind":"blob"}"#,
            r#"/v: fits none of the 2 allowed forms; /v/kind: expected one of "circle", "square", got "blob""#,
        ),
        (
            r#"{"oneOf":[{"required":["a"]},{"required":["b"]},{"required":["c"]}]}"#,
            r#"{"a":1,"b":2}"#,
            "/v: fits 2 of the 3 forms (1, 2), and only one may fit",
        ),
        (
            r#"{"anyOf":[{"required":["a"]},{"required":["b"]}]}"#,
            "{}",
            "/v: fits none of the 2 allowed forms; form 1: /v/a: required property is missing; or form 2: /v/b: required property is missing",
        ),
    ];
    for (property, value, message) in table {
        assert_eq!(told(&schema(property), &format!(r#"{{"v":{value}}}"#)), message, "{property}");
    }
}

#[test]
fn at_most_twenty_are_listed_and_the_rest_counted() {
    let schema = accepted(r#"{"properties":{"l":{"items":{"type":"string"}}}}"#);
    let rejection = schema.check(&format!(r#"{{"l":[{}]}}"#, vec!["1"; 50].join(","))).unwrap_err();
    assert_eq!((rejection.violations.len(), rejection.total), (20, 50));
    let told = rejection.told();
    assert_eq!(told.lines().count(), 21);
    assert!(told.starts_with("/l/0: expected string, got integer\n"));
    assert!(told.ends_with("\n... and 30 more"));
    let few = schema.check(&format!(r#"{{"l":[{}]}}"#, vec!["1"; 20].join(","))).unwrap_err();
    assert_eq!(few.told().lines().count(), 20);
}

#[test]
fn the_same_violation_is_told_once() {
    let schema = r#"{"properties":{"a":{"allOf":[{"type":"string"},{"type":"string"}]}}}"#;
    assert_eq!(told(schema, r#"{"a":1}"#), "/a: expected string, got integer");
}

#[test]
fn long_values_are_cut_and_lines_stay_lines() {
    let long = "x".repeat(5000);
    let line = told(&schema(r#"{"const":"y"}"#), &format!(r#"{{"v":"{long}"}}"#));
    assert!(line.len() < 300, "{line}");
    assert!(line.ends_with("… (5000 characters)"), "{line}");
    let big = told(&schema(r#"{"const":"y"}"#), &format!(r#"{{"v":{{"{long}":1}}}}"#));
    assert!(big.len() < 400, "{big}");
    let key = told(r#"{"additionalProperties":false}"#, r#"{"a\nb":1}"#);
    assert_eq!(key, "/a b: unexpected property");
    let many = format!(r#"{{"enum":[{}]}}"#, (0..500).map(|n| n.to_string()).collect::<Vec<_>>().join(","));
    let line = told(&schema(&many), r#"{"v":-1}"#);
    assert!(line.contains("(440 more)"), "{line}");
}

#[test]
fn what_is_stored_says_nothing_the_model_wrote() {
    let schema = accepted(
        r##"{"properties":{"risk":{"enum":["low","high"]},"people":{"items":{"$ref":"#/$defs/p"}},
            "map":{"additionalProperties":{"type":"integer"}},"one":{"anyOf":[{"type":"string"},{"const":7}]}},
            "required":["risk"],"additionalProperties":false,
            "$defs":{"p":{"properties":{"name":{"type":"string","maxLength":3}},"required":["name"]}}}"##,
    );
    let rejection = schema
        .check(
            r#"{"risk":"SECRET1","people":[{"name":"SECRET2"},{}],"map":{"SECRET3":"SECRET4"},"SECRET5":1,
                "one":{"name":"SECRET6"}}"#,
        )
        .unwrap_err();
    let told = rejection.told();
    for part in ["SECRET1", "/map/SECRET3", "/SECRET5"] {
        assert!(told.contains(part), "{told}");
    }
    let mut stored: Vec<String> = rejection.stored().lines().map(str::to_owned).collect();
    stored.sort();
    assert_eq!(
        stored,
        [
            "(root): additionalProperties",
            "/map: type",
            "/one: anyOf",
            "/people/0/name: maxLength",
            "/people/1/name: required",
            "/risk: enum"
        ]
    );
}

#[test]
fn unions_inside_unions_do_not_multiply_the_text() {
    let mut schema = r#"{"type":"null"}"#.to_owned();
    for _ in 0..12 {
        schema = format!(
            r#"{{"anyOf":[{{"required":["x"],"properties":{{"a":{schema}}}}},{{"required":["y"],"properties":{{"a":{schema}}}}}]}}"#
        );
        if schema.len() > 20_000 {
            break;
        }
    }
    let arguments = format!("{}1{}", r#"{"a":"#.repeat(8), "}".repeat(8));
    let told = told(&schema, &arguments);
    assert!(told.len() < 10_000, "{}", told.len());
    assert!(told.starts_with("(root): fits none of the 2 allowed forms; form 1: "), "{told}");
}

//! The five drafts: how they are named, and what each of them has.

use tenon_contract::Draft;

use crate::{accepted, payload, refused};

#[test]
fn the_draft_is_named_by_schema() {
    let table = [
        (r#"{}"#, "2020-12"),
        (r#"{"$schema":"https://json-schema.org/draft/2020-12/schema"}"#, "2020-12"),
        (r#"{"$schema":"http://json-schema.org/draft/2020-12/schema#"}"#, "2020-12"),
        (r#"{"$schema":"https://json-schema.org/draft/2019-09/schema"}"#, "2019-09"),
        (r#"{"$schema":"http://json-schema.org/draft-07/schema#"}"#, "draft-07"),
        (r#"{"$schema":"https://json-schema.org/draft-07/schema"}"#, "draft-07"),
        (r#"{"$schema":"http://json-schema.org/draft-06/schema#"}"#, "draft-06"),
        (r#"{"$schema":"http://json-schema.org/draft-04/schema#"}"#, "draft-04"),
    ];
    for (schema, name) in table {
        assert_eq!(accepted(schema).draft().name(), name, "{schema}");
    }
}

#[test]
fn an_unknown_draft_is_refused_with_the_known_ones() {
    for uri in [
        "http://json-schema.org/draft-03/schema#",
        "http://json-schema.org/schema#",
        "https://example.com/own",
        "",
    ] {
        let error = refused(&format!(r#"{{"$schema":"{uri}"}}"#));
        assert_eq!(error.pointer(), Some("/$schema"));
        let hint = error.hint().unwrap();
        for draft in Draft::ALL {
            assert!(hint.contains(draft.uri()), "{hint}");
        }
    }
}

#[test]
fn keywords_of_another_draft_are_named_as_such() {
    let d7 = "http://json-schema.org/draft-07/schema#";
    let d4 = "http://json-schema.org/draft-04/schema#";
    let d19 = "https://json-schema.org/draft/2019-09/schema";
    let d20 = "https://json-schema.org/draft/2020-12/schema";
    let table = [
        (d20, r#""dependencies":{"a":["b"]}"#, "its successor is `dependentRequired` or `dependentSchemas`"),
        (d19, r#""dependencies":{"a":["b"]}"#, "`dependencies` is not a keyword of 2019-09"),
        (
            d20,
            r#""properties":{"a":{"additionalItems":false}}"#,
            "its successor is `items` beside `prefixItems`",
        ),
        (d20, r##""properties":{"a":{"$recursiveRef":"#"}}"##, "its successor is `$dynamicRef`"),
        (d20, r#""id":"x""#, "its successor is `$id`"),
        (d7, r#""properties":{"a":{"prefixItems":[{}]}}"#, "`prefixItems` came with 2020-12, after draft-07"),
        (d7, r#""unevaluatedProperties":false"#, "`unevaluatedProperties` came with 2019-09, after draft-07"),
        (d7, r#""dependentRequired":{}"#, "in draft-07 it is `dependencies`"),
        (d4, r#""properties":{"a":{"const":1}}"#, "in draft-04 it is `enum` with one value"),
        (d4, r#""if":{}"#, "`if` came with draft-07, after draft-04"),
        (d20, r#""extends":{}"#, "its successor is `allOf`"),
    ];
    for (draft, member, text) in table {
        let error = refused(&format!(r#"{{"$schema":"{draft}",{member}}}"#));
        assert!(error.to_string().contains(text), "{draft} {member}: {error}");
    }
    let undeclared = refused(r#"{"dependencies":{"a":["b"]}}"#);
    assert_eq!(
        undeclared.to_string(),
        "at `/dependencies`: `dependencies` is not a keyword of 2020-12 (2020-12 is meant without `$schema`); \
         its successor is `dependentRequired` or `dependentSchemas`"
    );
    assert_eq!(
        undeclared.hint().unwrap(),
        r#"to keep the schema in draft-07, add `"$schema": "http://json-schema.org/draft-07/schema"`"#
    );
}

#[test]
fn definitions_pass_in_every_draft_and_old_drafts_take_new_descriptions() {
    for draft in Draft::ALL {
        let schema = format!(
            r##"{{"$schema":"{}","properties":{{"a":{{"$ref":"#/definitions/n"}},"b":{{"$ref":"#/$defs/n"}}}},
                "definitions":{{"n":{{"type":"integer"}}}},"$defs":{{"n":{{"type":"integer"}}}}}}"##,
            draft.uri()
        );
        assert_eq!(accepted(&schema).warnings(), [""; 0], "{schema}");
        assert!(accepted(&schema).check(r#"{"a":"x"}"#).is_err(), "{schema}");
        assert!(accepted(&schema).check(r#"{"b":"x"}"#).is_err(), "{schema}");
    }
    let old =
        accepted(r#"{"$schema":"http://json-schema.org/draft-04/schema#","$comment":"x","examples":[1]}"#);
    assert_eq!(old.warnings(), ["`$comment`, `examples` do not constrain the value and are only passed on"]);
}

#[test]
fn each_draft_means_its_own_forms() {
    let d4 = r#"{"$schema":"http://json-schema.org/draft-04/schema#","properties":{
        "n":{"minimum":1,"exclusiveMinimum":true},"t":{"items":[{"type":"string"}],"additionalItems":false}},
        "additionalProperties":false,"dependencies":{"n":["t"]}}"#;
    assert_eq!(payload(d4, r#"{"n":2,"t":["a"]}"#), r#"{"n":2,"t":["a"]}"#);
    for bad in [r#"{"n":1,"t":[]}"#, r#"{"t":["a","b"]}"#, r#"{"n":2}"#, r#"{"x":1}"#] {
        assert!(accepted(d4).check(bad).is_err(), "{bad}");
    }
    let d7 = r#"{"$schema":"http://json-schema.org/draft-07/schema#","properties":{"t":{"items":[true,{"type":"null"}]}}}"#;
    assert!(accepted(d7).check(r#"{"t":[1,null,3]}"#).is_ok());
    assert!(accepted(d7).check(r#"{"t":[1,2]}"#).is_err());
    let d19 = r#"{"$schema":"https://json-schema.org/draft/2019-09/schema","allOf":[{"properties":{"a":true}}],
        "unevaluatedProperties":false}"#;
    assert!(accepted(d19).check(r#"{"a":1}"#).is_ok());
    assert!(accepted(d19).check(r#"{"b":1}"#).is_err());
}

#[test]
fn draft_04_has_no_boolean_schemas() {
    let error = refused(r#"{"$schema":"http://json-schema.org/draft-04/schema#","properties":{"a":true}}"#);
    assert_eq!(error.pointer(), Some("/properties/a"));
    assert_eq!(error.hint().unwrap(), "write `{}` instead of `true`");
    let flag = refused(
        r#"{"$schema":"http://json-schema.org/draft-04/schema#","properties":{"a":{"exclusiveMinimum":3}}}"#,
    );
    assert!(flag.to_string().contains("true or false in draft-04"), "{flag}");
}

#[test]
fn a_flag_without_its_bound_is_warned_about() {
    let schema = accepted(
        r#"{"$schema":"http://json-schema.org/draft-04/schema#","properties":{"a":{"exclusiveMinimum":true}}}"#,
    );
    assert_eq!(schema.warnings(), ["`exclusiveMinimum` at `/properties/a` has no effect without `minimum`"]);
}

#[test]
fn siblings_of_a_reference_are_refused_where_they_are_ignored() {
    let members = r##""properties":{"a":{"$ref":"#/definitions/s","minLength":3,"description":"x"}},
        "definitions":{"s":{"type":"string"}}"##;
    for draft in [Draft::Draft07, Draft::Draft06, Draft::Draft04] {
        let error = refused(&format!(r#"{{"$schema":"{}",{members}}}"#, draft.uri()));
        assert_eq!(error.pointer(), Some("/properties/a"));
        assert_eq!(
            error.hint().unwrap(),
            r##"write `{"allOf":[{"$ref":"#/definitions/s"}],"minLength":3,"description":"x"}`"##
        );
    }
    for draft in [Draft::Draft2019, Draft::Draft2020] {
        let schema = format!(r#"{{"$schema":"{}",{members}}}"#, draft.uri());
        assert!(accepted(&schema).check(r#"{"a":"ab"}"#).is_err());
    }
    accepted(
        r##"{"$schema":"http://json-schema.org/draft-07/schema#","properties":{"a":{"$ref":"#/definitions/s",
        "title":"t","description":"x","default":"y","x-own":1}},"definitions":{"s":{"type":"string"}}}"##,
    );
}

#[test]
fn one_schema_is_one_draft() {
    let error = refused(
        r#"{"properties":{"a":{"$schema":"http://json-schema.org/draft-07/schema#","type":"string"}}}"#,
    );
    assert_eq!(error.pointer(), Some("/properties/a/$schema"));
}

#[test]
fn known_formats_are_checked_in_every_draft() {
    let table = [
        ("date-time", "2024-02-29T12:00:00Z", "2024-02-30T12:00:00Z"),
        ("date", "2024-02-29", "2023-02-29"),
        ("time", "12:00:00Z", "25:00:00Z"),
        ("duration", "P1DT2H", "1 day"),
        ("email", "a@example.com", "a@@example"),
        ("idn-email", "ä@example.com", "ä"),
        ("hostname", "example.com", "-example-.com"),
        ("ipv4", "127.0.0.1", "127.0.0.256"),
        ("ipv6", "::1", ":::1"),
        ("uri", "https://example.com/x", "/x"),
        ("uri-reference", "/x?y", "\\x"),
        ("iri", "https://exämple.com/", "/ä"),
        ("uuid", "2eb8aa08-aa98-11ea-b4aa-73b441d16380", "2eb8aa08"),
        ("json-pointer", "/a/0", "a"),
        ("relative-json-pointer", "1/a", "/a"),
        ("regex", "^a+$", "("),
    ];
    for draft in Draft::ALL {
        for (format, good, bad) in table {
            let schema =
                format!(r#"{{"$schema":"{}","properties":{{"v":{{"format":"{format}"}}}}}}"#, draft.uri());
            let schema = accepted(&schema);
            assert_eq!(schema.warnings(), [""; 0], "{format}");
            let text = |value: &str| serde_json::json!({ "v": value }).to_string();
            assert!(schema.check(&text(good)).is_ok(), "{} {format} {good}", draft.name());
            assert!(schema.check(&text(bad)).is_err(), "{} {format} {bad}", draft.name());
        }
    }
}

//! The table of roots that can, and cannot, describe an object.

use crate::{accepted, refused};

#[test]
fn roots_that_no_object_can_fit_are_refused() {
    let table = [
        (r#"{"type":"array"}"#, "/type"),
        (r#"{"type":["string","null"]}"#, "/type"),
        (r#"{"const":5}"#, "/const"),
        (r#"{"const":null}"#, "/const"),
        (r#"{"const":[{}]}"#, "/const"),
        (r#"{"enum":["a",1]}"#, "/enum"),
        (r#"{"enum":[]}"#, "/enum"),
        (r#"{"anyOf":[]}"#, "/anyOf"),
        (r#"{"oneOf":[]}"#, "/oneOf"),
        (r#"{"anyOf":[{"type":"string"},{"type":"array"}]}"#, "/anyOf"),
        (r#"{"anyOf":[false,{"const":1}]}"#, "/anyOf"),
        (r#"{"oneOf":[{"type":"string"},false]}"#, "/oneOf"),
        (r#"{"allOf":[{"type":"object"},false]}"#, "/allOf/1"),
        (r#"{"allOf":[{"type":"object"},{"type":"string"}]}"#, "/allOf/1/type"),
        (r#"{"allOf":[{"anyOf":[{"type":"string"}]}]}"#, "/allOf/0/anyOf"),
        (r##"{"$ref":"#/$defs/a","$defs":{"a":{"type":"object"}}}"##, "/$ref"),
        (r##"{"$ref":"#/$defs/a","type":"object","$defs":{"a":{}}}"##, "/$ref"),
        (r#"{"not":{"type":"object"}}"#, "/not"),
        (r#"{"not":{"type":["object","null"]}}"#, "/not"),
        (r#"{"not":{"type":"object","description":"says nothing"}}"#, "/not"),
        (r#"{"not":{}}"#, "/not"),
        (r#"{"not":true}"#, "/not"),
        (r#"{"if":true,"then":{"type":"string"}}"#, "/then/type"),
        (r#"{"if":false,"else":{"type":"string"}}"#, "/else/type"),
        (r#"{"if":true,"then":false}"#, "/then"),
        (r#"{"type":"object","anyOf":[{"type":"string"}]}"#, "/anyOf"),
    ];
    for (schema, pointer) in table {
        let error = refused(schema);
        assert_eq!(error.pointer(), Some(pointer), "{schema}: {error}");
        assert_eq!(error.problems().len(), 1, "{schema}: {error}");
        assert!(!error.to_string().contains("--"), "{error}");
    }
}

#[test]
fn roots_that_some_object_may_fit_are_accepted() {
    for schema in [
        "{}",
        r#"{"type":"object"}"#,
        r#"{"type":["object","null"]}"#,
        r#"{"const":{"a":1}}"#,
        r#"{"enum":[1,{"a":1}]}"#,
        r#"{"anyOf":[{"type":"string"},{"type":"object"}]}"#,
        r#"{"anyOf":[true]}"#,
        r#"{"oneOf":[{"type":"string"},{"required":["a"]}]}"#,
        r##"{"anyOf":[{"$ref":"#/$defs/s"}],"$defs":{"s":{"type":"string"}}}"##,
        r##"{"allOf":[{"$ref":"#/$defs/o"}],"$defs":{"o":{"type":"object"}}}"##,
        r#"{"not":{"type":"object","required":["a"]}}"#,
        r#"{"not":{"type":"string"}}"#,
        r#"{"not":false}"#,
        r#"{"not":{"anyOf":[{"type":"object"}]}}"#,
        r#"{"if":{"type":"object"},"then":{"type":"string"}}"#,
        r#"{"if":true,"then":{"type":"object"},"else":{"type":"string"}}"#,
        r#"{"if":false,"then":{"type":"string"}}"#,
    ] {
        accepted(schema);
    }
}

#[test]
fn a_root_that_is_no_object_is_refused() {
    for schema in ["true", "false", "[]", "1", r#""{}""#, "null"] {
        let error = refused(schema);
        assert_eq!(error.pointer(), Some(""), "{schema}");
    }
}

#[test]
fn a_root_reference_shows_the_form_to_paste() {
    let error = refused(r##"{"$ref":"#/$defs/user","$defs":{"user":{"type":"object"}}}"##);
    assert_eq!(error.to_string(), "at `/$ref`: the root of the schema cannot be a `$ref`");
    let hint = error.hint().unwrap();
    let form = r##"{"allOf":[{"$ref":"#/$defs/user"}],"$defs":{"user":{"type":"object"}}}"##;
    assert!(hint.ends_with(form), "{hint}");
    accepted(form);
}

#[test]
fn the_pasted_form_keeps_an_all_of_that_was_there() {
    let error = refused(r##"{"allOf":[{"required":["a"]}],"$ref":"#/$defs/u","$defs":{"u":{}}}"##);
    let hint = error.hint().unwrap();
    let form = r##"{"allOf":[{"$ref":"#/$defs/u"},{"required":["a"]}],"$defs":{"u":{}}}"##;
    assert!(hint.ends_with(form), "{hint}");
}

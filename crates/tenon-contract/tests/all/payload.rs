//! What was validated is what is printed.

use proptest::prelude::*;
use serde_json::Value;
use tenon_contract::compact_json;

use crate::{accepted, payload, told};

#[test]
fn the_payload_is_compact_and_otherwise_untouched() {
    let table = [
        ("{ \"b\" : 1.0 ,\n\t\"a\" : [ 1e2 , -0 ] }", r#"{"b":1.0,"a":[1e2,-0]}"#),
        (r#"{"n":123456789012345678901234567890}"#, r#"{"n":123456789012345678901234567890}"#),
        (r#"{"n":0.10,"m":1E+2,"k":-0.0e-10}"#, r#"{"n":0.10,"m":1E+2,"k":-0.0e-10}"#),
        (r#"{"s":"\u00e4\ud83d\ude00\/\u0041"}"#, r#"{"s":"ä😀/A"}"#),
        (
            r#"{"s":"\u000a\u0009\u0008\u000c\u000d\u0001\u0022\u005c\u007f"}"#,
            "{\"s\":\"\\n\\t\\b\\f\\r\\u0001\\\"\\\\\u{7f}\"}",
        ),
        ("{\"s\":\"a  b\u{2028}\"}", "{\"s\":\"a  b\u{2028}\"}"),
        (r#"{"z":1,"a":2,"":3}"#, r#"{"z":1,"a":2,"":3}"#),
        (r#"{"t":true,"f":false,"n":null,"o":{},"l":[]}"#, r#"{"t":true,"f":false,"n":null,"o":{},"l":[]}"#),
        ("", "{}"),
        ("  \n", "{}"),
        ("{}", "{}"),
        (r#""{\"a\": 1}""#, r#"{"a":1}"#),
        (r#""{\"a\":\"\\u00e4\"}""#, r#"{"a":"ä"}"#),
    ];
    for (arguments, expected) in table {
        assert_eq!(payload("{}", arguments), expected, "{arguments}");
    }
}

#[test]
fn arguments_that_are_no_object_are_explained() {
    let table = [
        ("[]", "the arguments must be a JSON object, got array"),
        ("5", "the arguments must be a JSON object, got number"),
        ("true", "the arguments must be a JSON object, got boolean"),
        ("null", "the arguments must be a JSON object, got null"),
        (r#""text""#, "the arguments must be a JSON object, got string"),
        (r#""[1]""#, "the arguments must be a JSON object, got string"),
        (r#""\"{}\"""#, "the arguments must be a JSON object, got string"),
        (
            "{\"a\":1",
            "the arguments are not valid JSON: line 1, column 7: expected `,` or `}`, found the end of the text",
        ),
        (
            "{\"a\":1}x",
            "the arguments are not valid JSON: line 1, column 8: expected the end of the text, found `x`",
        ),
        (
            "```json\n{}\n```",
            "the arguments are not valid JSON: line 1, column 1: expected a value, found ```",
        ),
        (
            r#"{"a":1,"a":2}"#,
            "the arguments are not valid JSON: line 1, column 8: the property `a` is there twice",
        ),
        (
            r#"{"a":1,"\u0061":2}"#,
            "the arguments are not valid JSON: line 1, column 8: the property `a` is there twice",
        ),
        (
            r#"{"a":"\ud800"}"#,
            "the arguments are not valid JSON: line 1, column 7: `\\ud800` is half of a surrogate pair, not a character",
        ),
        (
            r#"{"a":"\ude00x"}"#,
            "the arguments are not valid JSON: line 1, column 7: `\\ude00` is half of a surrogate pair, not a character",
        ),
        (
            r#"{"a":"\ud800\u0041"}"#,
            "the arguments are not valid JSON: line 1, column 7: `\\ud800` is half of a surrogate pair, not a character",
        ),
        (
            r#"{"$serde_json::private::Number":"77"}"#,
            "the arguments are not valid JSON: line 1, column 2: the property name `$serde_json::private::Number` is reserved",
        ),
        (
            r#"{"a":{"$serde_json::private::RawValue":"77"}}"#,
            "the arguments are not valid JSON: line 1, column 7: the property name `$serde_json::private::RawValue` is reserved",
        ),
        (
            "{\"a\":\"\n\"}",
            "the arguments are not valid JSON: line 1, column 7: the control character U+000A must be escaped in a string",
        ),
        (r#"{"a":01}"#, "the arguments are not valid JSON: line 1, column 7: a number may not start with 0"),
        (r#"{"a":+1}"#, "the arguments are not valid JSON: line 1, column 6: expected a value, found `+`"),
        (r#"{"a":1.}"#, "the arguments are not valid JSON: line 1, column 8: expected a digit, found `}`"),
        (r#"{"a":NaN}"#, "the arguments are not valid JSON: line 1, column 6: expected a value, found `N`"),
        (
            r#"{"a":"\x41"}"#,
            "the arguments are not valid JSON: line 1, column 7: a backslash may not stand before `x`",
        ),
        (
            "\u{feff}{}",
            "the arguments are not valid JSON: line 1, column 1: expected a value, found `\u{feff}`",
        ),
    ];
    for (arguments, expected) in table {
        assert_eq!(told("{}", arguments), expected, "{arguments}");
        let rejection = accepted("{}").check(arguments).unwrap_err();
        assert_eq!((rejection.total, rejection.violations[0].path.as_str()), (1, ""));
        assert_eq!(rejection.stored(), "the arguments are not a JSON object");
    }
}

#[test]
fn nesting_has_an_end() {
    let nested = |levels: usize| format!(r#"{{"a":{}{}}}"#, "[".repeat(levels), "]".repeat(levels));
    assert_eq!(payload("{}", &nested(126)), nested(126));
    assert!(told("{}", &nested(127)).ends_with("nested deeper than 127 levels"));
    assert!(told("{}", &nested(1_000_000)).ends_with("nested deeper than 127 levels"));
}

#[test]
fn nothing_is_coerced() {
    let schema = r#"{"properties":{"n":{"type":"integer"},"b":{"type":"boolean"},"s":{"type":"string"},"l":{"type":"array"}}}"#;
    for arguments in [r#"{"n":"5"}"#, r#"{"b":"true"}"#, r#"{"s":5}"#, r#"{"l":"[]"}"#, r#"{"n":1.5}"#] {
        assert!(accepted(schema).check(arguments).is_err(), "{arguments}");
    }
    assert_eq!(payload(schema, r#"{"n":1.0}"#), r#"{"n":1.0}"#, "a whole number however it is written");
}

#[test]
fn numbers_are_compared_exactly() {
    let table = [
        (r#"{"maximum":9007199254740992}"#, "9007199254740992", "9007199254740993"),
        (
            r#"{"const":123456789012345678901234567890}"#,
            "123456789012345678901234567890",
            "123456789012345678901234567891",
        ),
        (r#"{"enum":[0.1]}"#, "0.10", "0.1000000000000000000001"),
        (r#"{"type":"integer"}"#, "1e400", "1e-400"),
        (r#"{"multipleOf":0.01}"#, "1234567.89", "1234567.891"),
        (r#"{"exclusiveMaximum":1}"#, "0.99999999999999999999", "1.0"),
        (r#"{"const":100}"#, "1e2", "1e3"),
    ];
    for (number, good, bad) in table {
        let schema = format!(r#"{{"properties":{{"n":{number}}}}}"#);
        assert_eq!(payload(&schema, &format!(r#"{{"n":{good}}}"#)), format!(r#"{{"n":{good}}}"#));
        assert!(accepted(&schema).check(&format!(r#"{{"n":{bad}}}"#)).is_err(), "{number} {bad}");
    }
}

#[test]
fn numbers_of_absurd_size_are_decided_without_delay() {
    let schema = r#"{"properties":{"n":{"maximum":10,"multipleOf":3,"enum":[1,1e1000000000]}}}"#;
    for number in ["1e999999999", "-1e-999999999", "1e99999999999999999999", &"9".repeat(20_000)] {
        assert!(accepted(schema).check(&format!(r#"{{"n":{number}}}"#)).is_err(), "{number}");
    }
}

fn number_text() -> impl Strategy<Value = String> {
    "-?(0|[1-9][0-9]{0,30})(\\.[0-9]{1,20})?([eE][+-]?[0-9]{1,3})?"
}

/// JSON text together with its compact form, which is built beside it.
fn json_text() -> impl Strategy<Value = (String, String)> {
    let space = "[ \n\r\t]{0,2}";
    let scalar = prop_oneof![
        Just(("true".to_owned(), "true".to_owned())),
        Just(("null".to_owned(), "null".to_owned())),
        number_text().prop_map(|number| (number.clone(), number)),
        any::<String>().prop_map(|text| (escaped(&text), plain(&text))),
    ];
    scalar.prop_recursive(4, 24, 5, move |inner| {
        prop_oneof![
            (prop::collection::vec((space, inner.clone(), space), 0..4)).prop_map(|items| {
                let loose: Vec<String> =
                    items.iter().map(|(a, (text, _), b)| format!("{a}{text}{b}")).collect();
                let tight: Vec<&str> = items.iter().map(|(_, (_, compact), _)| compact.as_str()).collect();
                (format!("[{}]", loose.join(",")), format!("[{}]", tight.join(",")))
            }),
            object(inner),
        ]
    })
}

fn object(inner: impl Strategy<Value = (String, String)>) -> impl Strategy<Value = (String, String)> {
    prop::collection::vec((any::<String>(), "[ \n]{0,2}", inner), 0..5).prop_map(|members| {
        let mut seen = std::collections::HashSet::new();
        let members: Vec<_> = members
            .into_iter()
            .filter(|(key, ..)| !key.starts_with("$serde_json") && seen.insert(key.clone()))
            .collect();
        let loose: Vec<String> = members
            .iter()
            .map(|(key, space, (text, _))| format!("{space}{}{space}:{space}{text}", escaped(key)))
            .collect();
        let tight: Vec<String> =
            members.iter().map(|(key, _, (_, compact))| format!("{}:{compact}", plain(key))).collect();
        (format!("{{{}}}", loose.join(",")), format!("{{{}}}", tight.join(",")))
    })
}

/// Every character as `\uXXXX`.
fn escaped(text: &str) -> String {
    let units: String = text.encode_utf16().map(|unit| format!("\\u{unit:04X}")).collect();
    format!("\"{units}\"")
}

fn plain(text: &str) -> String {
    serde_json::to_string(text).unwrap()
}

proptest! {
    #![proptest_config(crate::cases(256))]

    #[test]
    fn what_goes_in_comes_out((loose, tight) in object(json_text())) {
        let checked = accepted("{}").check(&loose).map_err(|rejection| TestCaseError::fail(rejection.told()))?;
        prop_assert_eq!(checked.get(), &tight);
        let before: Value = serde_json::from_str(&loose).unwrap();
        let after: Value = serde_json::from_str(checked.get()).unwrap();
        prop_assert_eq!(before, after);
        let again = accepted("{}").check(checked.get()).unwrap();
        prop_assert_eq!(again.get(), checked.get());
        let in_a_string = serde_json::to_string(&loose).unwrap();
        let unwrapped = accepted("{}").check(&in_a_string).unwrap();
        prop_assert_eq!(unwrapped.get(), checked.get());
    }

    /// We refuse more than the JSON library does (duplicates, surrogates, depth), and accept nothing else.
    #[test]
    fn only_json_is_accepted(text in "[\\[\\]{}\",:0-9eE.+\\\\utrfalsn -]{0,24}") {
        if compact_json(&text).is_ok() {
            prop_assert!(serde_json::from_str::<Value>(&text).is_ok(), "{}", text);
        }
    }

    #[test]
    fn no_arguments_make_it_panic(text in any::<String>()) {
        let _ = accepted(r#"{"properties":{"a":{"type":"string"}}}"#).check(&text);
    }
}

//! JSON text as a value whose numbers are written as they were: `1E5` and `1.10` stay what they are.
//!
//! `serde_json` keeps digits but writes an exponent anew (`1E5` as `1e+5`). What only passes through a workflow must come
//! out as it went in, so numbers with an exponent are put back from the text.

use serde_json::{Number, Value};

/// The value of a text; nothing if it is no JSON.
pub(crate) fn read(text: &str) -> Option<Value> {
    let mut value: Value = serde_json::from_str(text).ok()?;
    let numbers = with_exponents(text);
    // Keys that appear twice leave fewer numbers than were written: which ones is not known.
    if !numbers.is_empty() && numbers.len() == count(&value) {
        let mut numbers = numbers.into_iter();
        put_back(&mut value, &mut numbers);
    }
    Some(value)
}

/// Each number with an exponent, in the order of the text.
fn with_exponents(text: &str) -> Vec<&str> {
    let bytes = text.as_bytes();
    let mut found = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        match bytes[at] {
            b'"' => {
                at += 1;
                while at < bytes.len() && bytes[at] != b'"' {
                    at += if bytes[at] == b'\\' { 2 } else { 1 };
                }
                at += 1;
            }
            b'-' | b'0'..=b'9' => {
                let length = bytes[at..]
                    .iter()
                    .take_while(|byte| matches!(byte, b'0'..=b'9' | b'-' | b'+' | b'.' | b'e' | b'E'))
                    .count();
                let number = &text[at..at + length];
                if number.contains(['e', 'E']) {
                    found.push(number);
                }
                at += length;
            }
            _ => at += 1,
        }
    }
    found
}

fn is_with_exponent(number: &Number) -> bool {
    number.as_str().contains('e')
}

fn count(value: &Value) -> usize {
    match value {
        Value::Number(number) => usize::from(is_with_exponent(number)),
        Value::Array(items) => items.iter().map(count).sum(),
        Value::Object(members) => members.values().map(count).sum(),
        Value::Null | Value::Bool(_) | Value::String(_) => 0,
    }
}

fn put_back<'t>(value: &mut Value, numbers: &mut impl Iterator<Item = &'t str>) {
    match value {
        Value::Number(number) if is_with_exponent(number) => {
            if let Some(text) = numbers.next() {
                // The only way to a number that is not written anew; the text has just been read as one.
                *number = Number::from_string_unchecked(text.to_owned());
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| put_back(item, numbers)),
        Value::Object(members) => members.values_mut().for_each(|member| put_back(member, numbers)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn numbers_are_written_as_they_were() {
        for text in [
            r#"{"a":1E5,"b":[1e+5,1e5,1E-07,-0,1.10,123456789012345678901234567890],"c":"1E5 \" 2E6"}"#,
            "1E400",
            "-0.0e0",
            r#"["\\",1E2]"#,
        ] {
            assert_eq!(read(text).unwrap().to_string(), text);
        }
        assert_eq!(read("1E"), None);
        assert_eq!(read(r#"{"a":1E5,"a":2E5}"#).unwrap()["a"].as_f64(), Some(2e5));
    }

    fn texts() -> impl Strategy<Value = String> {
        let leaf = prop_oneof![
            "-?(0|[1-9][0-9]{0,30})(\\.[0-9]{1,5})?([eE][+-]?[0-9]{1,3})?",
            "\"([a-z0-9E ]|\\\\\"|\\\\\\\\){0,5}\"",
            Just("null".to_owned()),
        ];
        leaf.prop_recursive(3, 20, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(|all| format!("[{}]", all.join(","))),
                prop::collection::vec(inner, 0..4).prop_map(|all| {
                    let members = all.iter().enumerate().map(|(at, one)| format!("\"k{at}\":{one}"));
                    format!("{{{}}}", members.collect::<Vec<_>>().join(","))
                }),
            ]
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: tenon_testkit::cases(256), failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn any_text_comes_out_as_it_went_in(text in texts()) {
            prop_assert_eq!(read(&text).unwrap().to_string(), text);
        }
    }
}

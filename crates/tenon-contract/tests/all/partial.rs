//! Payloads while they are being written.

use proptest::prelude::*;
use tenon_contract::PartialJson;

fn snapshot(text: &str) -> Option<String> {
    let mut partial = PartialJson::new();
    partial.push(text);
    partial.snapshot().map(|snapshot| snapshot.get().to_owned())
}

#[test]
fn a_snapshot_holds_what_is_complete() {
    let table = [
        ("", None),
        ("{", None),
        (r#"{"a""#, None),
        (r#"{"a":"#, None),
        (r#"{"a":1"#, None),
        (r#"{"a":12"#, None),
        (r#"{"a":1,"#, Some(r#"{"a":1}"#)),
        (r#"{"a":1 "#, Some(r#"{"a":1}"#)),
        (r#"{"a":"x"#, None),
        (r#"{"a":"x\""#, None),
        (r#"{"a":"x\"""#, Some(r#"{"a":"x\""}"#)),
        (r#"{"a":"x""#, Some(r#"{"a":"x"}"#)),
        (r#"{"a":"x","b"#, Some(r#"{"a":"x"}"#)),
        (r#"{"a":"x","b":"#, Some(r#"{"a":"x"}"#)),
        (r#"{"a":[1,2"#, Some(r#"{"a":[1]}"#)),
        (r#"{"a":[1,{"b":true},{"c":nul"#, Some(r#"{"a":[1,{"b":true}]}"#)),
        (r#"{"a":[1,{"b":true},{"c":null,"#, Some(r#"{"a":[1,{"b":true},{"c":null}]}"#)),
        (r#"{"a":[[[1],"#, Some(r#"{"a":[[[1]]]}"#)),
        (r#"{"a":{"b":{"#, None),
        (r#"{"a":1,"b":{"c":["#, Some(r#"{"a":1}"#)),
        (r#"{"a":{}"#, Some(r#"{"a":{}}"#)),
        (r#"{}"#, Some("{}")),
        (" { \"a\" : 1.0 , \"b\" : [ 1 ] } \n", Some(r#"{"a":1.0,"b":[1]}"#)),
        (r#"{"a":"\u00e4","#, Some(r#"{"a":"ä"}"#)),
        ("[1,2,", None),
        (r#""{\"a\":1}""#, None),
        ("{]", None),
        (r#"{"a":1}}"#, None),
        (r#"{"a":1}x"#, None),
        (r#"{"a":truth,"#, None),
        (r#"{"a":"\q","#, None),
    ];
    for (text, expected) in table {
        assert_eq!(snapshot(text).as_deref(), expected, "{text}");
    }
}

#[test]
fn push_says_when_there_is_something_new() {
    let mut partial = PartialJson::new();
    assert!(!partial.push(r#"{"a":1"#));
    assert!(partial.push(","));
    assert!(partial.push(r#""b":"#), "still not shown");
    assert!(partial.snapshot().is_some());
    assert!(!partial.push("2"));
    assert!(partial.push("}"));
    assert_eq!(partial.snapshot().unwrap().get(), r#"{"a":1,"b":2}"#);
    assert!(!partial.push(" "));
}

#[test]
fn deep_nesting_is_given_up() {
    let mut partial = PartialJson::new();
    partial.push(r#"{"a":1,"b":"#);
    assert!(!partial.push(&"[".repeat(100_000)));
    assert!(partial.snapshot().is_none());
}

proptest! {
    #![proptest_config(crate::cases(128))]

    /// However a payload is cut, the snapshots do not depend on it and the last one is the payload.
    #[test]
    fn cutting_does_not_matter(cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..8)) {
        let text = r#"{"näme":"a\"\\b😀","list":[1,-2.5e3,{"x":null},[]],"o":{"t":true,"f":false},"last":"é"}"#;
        let chars: Vec<char> = text.chars().collect();
        let mut at: Vec<usize> = cuts.iter().map(|cut| cut.index(chars.len())).collect();
        at.extend([0, chars.len()]);
        at.sort_unstable();
        let mut partial = PartialJson::new();
        for pair in at.windows(2) {
            partial.push(&chars[pair[0]..pair[1]].iter().collect::<String>());
            let so_far: String = chars[..pair[1]].iter().collect();
            let shown = partial.snapshot().map(|snapshot| snapshot.get().to_owned());
            prop_assert_eq!(shown, snapshot(&so_far));
        }
        let last = partial.snapshot().unwrap();
        prop_assert_eq!(last.get(), text);
    }

    #[test]
    fn every_snapshot_is_json(text in "[\\[\\]{}\",:0-9ab\\\\ ]{0,40}") {
        let mut partial = PartialJson::new();
        for c in text.chars() {
            partial.push(c.encode_utf8(&mut [0; 4]));
            if let Some(snapshot) = partial.snapshot() {
                prop_assert!(serde_json::from_str::<serde_json::Value>(snapshot.get()).unwrap().is_object());
            }
        }
    }
}

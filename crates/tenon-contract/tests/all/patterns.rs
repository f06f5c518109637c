//! Regular expressions: ECMA-262's meaning, in linear time.

use proptest::prelude::*;
use serde_json::json;

use crate::{accepted, refused};

fn matches(pattern: &str, text: &str) -> bool {
    let schema = json!({ "properties": { "v": { "pattern": pattern } } });
    accepted(&schema.to_string()).check(&json!({ "v": text }).to_string()).is_ok()
}

#[test]
fn patterns_mean_what_ecma_262_says() {
    let table: &[(&str, &[&str], &[&str])] = &[
        ("b", &["abc"], &["acd"]),
        ("^a$", &["a"], &["a\n", "ba"]),
        (r"^\d+$", &["0123456789"], &["٣", "a"]),
        (r"^\D$", &["٣", "a"], &["3"]),
        (r"^\w+$", &["aZ_9"], &["ä", "-"]),
        (r"^\W$", &["ä", "-"], &["a", "_"]),
        (r"^\s$", &[" ", "\u{a0}", "\u{feff}", "\u{2028}", "\t"], &["\u{85}", "\u{180e}", "x"]),
        (r"^\S$", &["\u{85}", "x"], &["\u{a0}", "\u{2029}"]),
        (r"^[\d\-]+$", &["1-2"], &["a"]),
        (r"^[\w.-]+$", &["a.b-c"], &["a b"]),
        (r"^[^\s]+$", &["ab"], &["a b", "a\u{a0}b"]),
        (r"^[\S]$", &["x"], &["\u{a0}"]),
        (r"^[^\W\d]$", &["a", "_"], &["1", "-"]),
        (r"^.$", &["a", "\u{85}", "😀"], &["\n", "\r", "\u{2028}", "\u{2029}"]),
        ("^[^]$", &["\n", "a"], &["", "ab"]),
        ("^[]$", &[], &["", "a"]),
        (r"^\0$", &["\0"], &["0"]),
        (r"^\cJ$", &["\n"], &["J"]),
        (r"^\x41\u0042\u{43}$", &["ABC"], &["abc"]),
        (r"^\ud83d\ude00$", &["😀"], &["x"]),
        ("^😀+$", &["😀😀"], &["x"]),
        (r"^\p{Lu}\p{L}*$", &["Ärger"], &["ärger"]),
        (r"^\P{L}$", &["1"], &["a"]),
        (r"^[\p{Script=Greek}]$", &["α"], &["a"]),
        (r"^\-\/\_\:\@\#\!\%\&\~\'\ $", &["-/_:@#!%&~' "], &["-"]),
        (r"^\.\*\+\?\(\)\[\]\{\}\^\$\|\\$", &[r".*+?()[]{}^$|\"], &["a"]),
        (r"^[a&&b]$", &["&", "a", "b"], &["c"]),
        (r"^[+--]$", &["+", ",", "-"], &["."]),
        (r"^[[a]$", &["[", "a"], &["]"]),
        (r"^[\b]$", &["\u{8}"], &["b"]),
        (r"^[\w-z]$", &["-", "z", "a"], &["."]),
        (r"^a{2,3}$", &["aa", "aaa"], &["a", "aaaa"]),
        (r"^a{2}$", &["aa"], &["a"]),
        (r"^a{2,}?$", &["aaa"], &["a"]),
        (r"^{a}$", &["{a}"], &["a"]),
        (r"^a{b$", &["a{b"], &["ab"]),
        (r"^a{,}$", &["a{,}"], &["a"]),
        (r"^]}$", &["]}"], &[]),
        (r"^(?:ab)+(?<year>\d{4})$", &["abab2024"], &["ab"]),
        (r"\bcat\b", &["a cat.", "äcatä"], &["cats"]),
        ("^(a|b|c)$", &["a", "c"], &["d", "ab"]),
        (r"^[a-z0-9]+(-[a-z0-9]+)*$", &["a-b-c"], &["a--b"]),
        (r"^(https?):\/\/[^\s/$.?#].[^\s]*$", &["https://example.com/x"], &["ftp://x"]),
        ("", &["", "x"], &[]),
        ("#x", &["#x"], &["x"]),
    ];
    for (pattern, good, bad) in table {
        for text in *good {
            assert!(matches(pattern, text), "{pattern} should match {text:?}");
        }
        for text in *bad {
            assert!(!matches(pattern, text), "{pattern} should not match {text:?}");
        }
    }
}

#[test]
fn what_the_engine_cannot_express_is_refused_with_the_place() {
    let table = [
        (r"^(?=.*\d).+$", "uses look-ahead, which the linear-time engine cannot express"),
        (r"^(?!x)", "uses look-ahead"),
        (r"(?<=a)b", "uses look-behind"),
        (r"(?<!a)b", "uses look-behind"),
        (r"(a)\1", "uses a back-reference, which the linear-time engine cannot express"),
        (r"(?<n>a)\k<n>", "uses a back-reference"),
        (r"a\Bb", "uses `\\B`"),
        ("((a{0,100}){0,100}){0,100}", "is too large once its repetitions are written out"),
        ("[a--z]", "ends before it starts"),
        (r"\p{Klingon}", "names a Unicode property that is not known"),
        (r"\pL", "without a property in braces"),
        ("a{,3}", "has `{,3}`, which is not a repetition in ECMA-262"),
        ("a{3,2}", "ends before it starts"),
        ("(", "opens a group that is not closed"),
        (")", "closes a group that was not opened"),
        ("[a", "opens a character class that is not closed"),
        ("[z-a]", "ends before it starts"),
        ("*a", "has nothing to repeat before `*`"),
        ("a**", "has nothing to repeat before `*`"),
        ("^+", "has nothing to repeat"),
        (r"\A\d", "has `\\A`, which means nothing in ECMA-262"),
        (r"\d\z", "has `\\z`"),
        (r"\a", "has `\\a`, which means nothing in ECMA-262"),
        ("a\\", "ends with a backslash"),
        (r"\x4", "has `\\x` without two hexadecimal digits"),
        (r"\u12", "has `\\u` without four hexadecimal digits"),
        (r"\ud800", "half of a surrogate pair"),
        ("(?i)a", "starts with `(?`"),
        ("(?>a)", "starts with `(?`"),
        ("(?P<n>a)", "starts with `(?`"),
    ];
    for (pattern, text) in table {
        let value = json!({ "properties": { "v": { "pattern": pattern } } });
        let error = refused(&value.to_string());
        assert_eq!(error.pointer(), Some("/properties/v/pattern"), "{error}");
        assert!(error.to_string().contains(text), "{pattern}: {error}");
        let key = json!({ "patternProperties": { (pattern): {} } });
        let error = refused(&key.to_string());
        let pointer = error.pointer().unwrap();
        assert_eq!(key.pointer(pointer), Some(&json!({})), "{pointer}");
    }
}

#[test]
fn pattern_properties_are_translated_too() {
    let schema = json!({
        "patternProperties": { r"^\d$": { "type": "string" }, "^[0-9]$": { "minLength": 2 }, r"^[0\-9]$": {} },
        "additionalProperties": false
    });
    let schema = accepted(&schema.to_string());
    assert!(schema.check(r#"{"1":"ab"}"#).is_ok());
    assert!(schema.check(r#"{"1":"a"}"#).is_err(), "both spellings count");
    assert!(schema.check(r#"{"1":5}"#).is_err());
    assert!(schema.check(r#"{"٣":"ab"}"#).is_err());
    assert!(schema.check(r#"{"-":5}"#).is_ok());
}

#[test]
fn a_pattern_that_takes_others_forever_is_harmless() {
    for pattern in ["(a+)+b", "^(a|a)*$", "^(([a-z])+.)+[A-Z]([a-z])+$", "(x+x+)+y"] {
        let text = "a".repeat(50_000) + "!";
        assert!(!matches(pattern, &text) || pattern.contains('.'));
    }
}

#[test]
fn a_violation_shows_the_pattern_as_it_was_written() {
    let schema = json!({ "properties": { "v": { "pattern": r"^\d{4}$" } } }).to_string();
    let told = crate::told(&schema, r#"{"v":"x"}"#);
    assert_eq!(told, r#"/v: expected a string matching the pattern ^\d{4}$, got "x""#);
}

proptest! {
    #![proptest_config(crate::cases(256))]

    /// Whatever is written: a clear refusal, or a pattern that works.
    #[test]
    fn any_pattern_is_compiled_or_refused(pattern in r"[a-c\\dwsbBu0-9\[\]\^$(){}?*+|.,:=!<>é-]{0,16}") {
        let schema = json!({ "properties": { "v": { "pattern": pattern } } });
        match tenon_contract::Schema::compile(&schema.to_string()) {
            Ok(schema) => { let _ = schema.check(r#"{"v":"abc123"}"#); }
            Err(error) => {
                prop_assert_eq!(error.pointer(), Some("/properties/v/pattern"), "{}", error);
                prop_assert!(!error.to_string().contains("is not a regular expression"), "{}", error);
            }
        }
    }

    /// Text escaped for a pattern matches itself and nothing longer.
    #[test]
    fn an_escaped_text_matches_itself(text in "[ -~äß€😀]{1,12}") {
        let mut pattern = String::from("^");
        for c in text.chars() {
            if !c.is_alphanumeric() {
                pattern.push('\\');
            }
            pattern.push(c);
        }
        pattern.push('$');
        prop_assert!(matches(&pattern, &text));
        let longer = format!("{text}x");
        prop_assert!(!matches(&pattern, &longer));
    }
}

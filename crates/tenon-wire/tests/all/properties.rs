//! What holds for any text a model, a tool or a person may write.

use proptest::prelude::*;
use serde_json::Value;
use tenon_wire::{Format, TOOL_OUTPUT_CAP};

use crate::script::{Script, options, success, usage, with_partials};

/// Characters that codecs stumble over, and every other one.
fn character() -> impl Strategy<Value = char> {
    prop_oneof![
        2 => prop::sample::select(vec![
            '\0', '\u{7}', '\u{8}', '\t', '\n', '\u{b}', '\u{c}', '\r', '\u{1b}', '"', '\\', '/', '\u{7f}', '\u{85}',
            '\u{a0}', '\u{2028}', '\u{2029}', '\u{d7ff}', '\u{e000}', '\u{feff}', '\u{fffd}', '\u{ffff}',
            '\u{10000}', '\u{10ffff}', 'ä', '👋',
        ]),
        1 => any::<char>(),
        1 => prop::char::range(' ', '~'),
    ]
}

fn text(length: std::ops::Range<usize>) -> impl Strategy<Value = String> {
    prop::collection::vec(character(), length).prop_map(|characters| characters.into_iter().collect())
}

/// The lines of an output, each of them JSON, none of them with anything a reader could take for its end.
fn checked_lines(output: &str) -> Vec<Value> {
    assert!(output.ends_with('\n'));
    let breaks = ['\r', '\u{b}', '\u{c}', '\u{1c}', '\u{1d}', '\u{1e}', '\u{85}', '\u{2028}', '\u{2029}'];
    assert!(!output.contains(breaks), "{output:?}");
    output.split_terminator('\n').map(|line| serde_json::from_str(line).unwrap()).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(tenon_testkit::cases(128)))]

    #[test]
    fn any_text_comes_through_deltas_message_and_result(pieces in prop::collection::vec(text(0..40), 1..5)) {
        let whole = pieces.concat();
        let pieces: Vec<&str> = pieces.iter().map(String::as_str).collect();
        let script = Script::started()
            .turn()
            .thinking(&pieces)
            .text(&pieces)
            .turn_finished(usage(1, 1))
            .finished(success(&whole));

        let lines = checked_lines(&script.encoded(&with_partials()));
        let deltas = |key: &str| -> String {
            lines.iter().filter_map(|line| line["event"]["delta"][key].as_str()).collect()
        };
        prop_assert_eq!(deltas("thinking"), whole.as_str());
        prop_assert_eq!(deltas("text"), whole.as_str());
        let message = lines.iter().rfind(|line| line["type"] == "assistant").unwrap();
        prop_assert_eq!(&message["message"]["content"][0]["text"], whole.as_str());
        prop_assert_eq!(&lines.last().unwrap()["result"], whole.as_str());

        let documents = checked_lines(&script.encoded(&options(Format::Json)));
        prop_assert_eq!(documents.len(), 1);
        let messages = documents[0].as_array().unwrap();
        prop_assert_eq!(&messages.last().unwrap()["result"], whole.as_str());
        prop_assert_eq!(script.encoded(&options(Format::Text)), whole + "\n");
    }

    /// Arguments reach the client as they came, as an object or inside one.
    #[test]
    fn any_arguments_come_through(arguments in text(0..60), key in text(0..10), value in text(0..30)) {
        let object = serde_json::json!({ key: value });
        let pretty = serde_json::to_string_pretty(&object).unwrap();
        let script = Script::started()
            .turn()
            .calls(&[("c1", "any", &[arguments.as_str()]), ("c2", "any", &[pretty.as_str()])])
            .turn_finished(usage(1, 1));
        let lines = checked_lines(&script.encoded(&with_partials()));
        let message = lines.iter().find(|line| line["type"] == "assistant").unwrap();
        prop_assert_eq!(&message["message"]["content"][1]["input"], &object);
        prop_assert!(message["message"]["content"][0]["input"].is_object());
    }

    /// Tool output fits its cap as JSON, and what is left of it is a beginning and an end of the original.
    #[test]
    fn tool_output_never_exceeds_its_cap(unit in text(1..12), size in 0_usize..200_000) {
        let output = unit.repeat(size / unit.len() + 1);
        let script = Script::default().tool_finished("call", "any", &output, None);
        let encoded = script.encoded(&options(Format::StreamJson));
        let line = checked_lines(&encoded).remove(0);
        let start = encoded.find(r#""content":""#).unwrap() + r#""content":"#.len();
        let json_string = encoded[start..].strip_suffix("}]}}\n").unwrap();
        prop_assert!(json_string.len() <= TOOL_OUTPUT_CAP, "{} bytes", json_string.len());

        let shown = line["message"]["content"][0]["content"].as_str().unwrap();
        if shown != output {
            let (head, rest) = shown.split_once("\n[output shortened: ").unwrap();
            let (_, tail) = rest.split_once(" bytes left out here]\n").unwrap();
            prop_assert!(output.starts_with(head) && output.ends_with(tail));
        }
    }
}

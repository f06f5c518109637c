//! What single lines promise, where a golden file alone would not say why.

use serde_json::Value;
use tenon_core::{ErrorClass, EventKind, Signal, exit_code};
use tenon_wire::{Dialect, Format, TOOL_OUTPUT_CAP};

use crate::script::{Script, failed, failure, options, structured_success, success, usage, with_partials};

fn lines(output: &str) -> Vec<Value> {
    output.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn result_of(script: &Script, format: Format) -> Value {
    let output = script.encoded(&options(format));
    let mut values = lines(&output);
    match values.pop() {
        Some(Value::Array(mut messages)) => messages.pop().unwrap(),
        last => last.unwrap(),
    }
}

#[test]
fn every_error_class_has_its_subtype_and_exit_code() {
    let special = [
        (ErrorClass::Turns, "error_max_turns"),
        (ErrorClass::SchemaRetries, "error_max_structured_output_retries"),
        (ErrorClass::BudgetUsd, "error_max_budget_usd"),
        (ErrorClass::Budget, "error_budget_exceeded"),
    ];
    for class in ErrorClass::ALL {
        let expected = special
            .iter()
            .find(|(listed, _)| *listed == class)
            .map_or("error_during_execution", |(_, subtype)| subtype);
        let script = Script::default().finished(failed(failure(class, "why")));
        for format in [Format::Json, Format::StreamJson] {
            let result = result_of(&script, format);
            assert_eq!(result["subtype"], expected, "{class:?}");
            assert_eq!(result["is_error"], true, "{class:?}");
            assert_eq!(result["result"], Value::Null, "{class:?}");
            assert_eq!(result["error"]["code"], exit_code(class), "{class:?}");
            assert_eq!(result["error"]["class"], class.name(), "{class:?}");
        }
        assert_eq!(script.encoded(&options(Format::Text)), "", "{class:?}");
    }
}

#[test]
fn success_and_failure_have_the_same_keys() {
    let keys = |script: Script| -> Vec<String> {
        result_of(&script, Format::StreamJson).as_object().unwrap().keys().cloned().collect()
    };
    let plain = keys(Script::default().finished(success("yes")));
    let failed = keys(Script::default().finished(failed(failure(ErrorClass::Network, "no"))));
    assert_eq!(plain, failed);

    let structured = keys(Script::default().finished(structured_success("{}")));
    let added: Vec<&String> = structured.iter().filter(|key| !plain.contains(key)).collect();
    assert_eq!(added, ["structured_result", "structured_output"]);
}

#[test]
fn a_payload_passes_untouched_but_for_line_breaks_between_its_tokens() {
    let payload = "{\"z\":1.0,\r\n\"a\":1e2, \"n\":100000000000000000000000000000,\"s\":\"\\u00e4\u{2028}\"}";
    let output =
        Script::default().finished(structured_success(payload)).encoded(&options(Format::StreamJson));
    let shown = r#"{"z":1.0,  "a":1e2, "n":100000000000000000000000000000,"s":"\u00e4\u2028"}"#;
    assert!(
        output.contains(&format!(r#""structured_result":{shown},"structured_output":{shown},"#)),
        "{output}"
    );
    assert_eq!(output.lines().count(), 1);
}

#[test]
fn the_text_of_a_plain_answer_is_shown_whatever_result_text_says() {
    let mut options = options(Format::StreamJson);
    options.result_text = false;
    let output = Script::default().finished(success("plain")).encoded(&options);
    assert_eq!(lines(&output)[0]["result"], "plain");
    let output = Script::default().finished(structured_success(r#"{"a":1}"#)).encoded(&options);
    assert_eq!(lines(&output)[0]["result"], Value::Null);
}

#[test]
fn json_is_one_line_however_the_run_ends() {
    for outcome in [success("a\nb"), failed(failure(ErrorClass::Interrupted(Signal::Term), "stopped"))] {
        let output =
            Script::started().turn().text(&["a\nb"]).finished(outcome).encoded(&options(Format::Json));
        assert!(output.ends_with("]\n"));
        assert_eq!(output.matches('\n').count(), 1);
    }
}

#[test]
fn a_second_run_of_the_session_begins_anew() {
    let run = Script::started().turn().text(&["one"]).turn_finished(usage(5, 1)).finished(success("one"));
    let mut twice = run.clone();
    twice.events.extend(run.events.clone());
    for format in [Format::Text, Format::Json, Format::StreamJson] {
        let once = run.encoded(&options(format));
        assert_eq!(twice.encoded(&options(format)), once.repeat(2));
    }
}

#[test]
fn every_stream_event_has_an_id_of_its_own() {
    let script = Script::started()
        .turn()
        .thinking(&["a", "b"])
        .text(&["c"])
        .calls(&[("call_1", "read_file", &["{}"]), ("call_2", "read_file", &["{}"])])
        .turn_finished(usage(1, 1))
        .finished(success("c"));
    let lines = lines(&script.encoded(&with_partials()));
    let mut ids: Vec<&str> = lines.iter().map(|line| line["uuid"].as_str().unwrap()).collect();
    let count = ids.len();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), count);
}

/// Joining the deltas of a block gives the block of the whole message that follows.
#[test]
fn deltas_add_up_to_the_message() {
    let script = Script::started()
        .turn()
        .text(&["It ", "is ", "so."])
        .calls(&[("c1", "read_file", &["{\"a\"", ":1}"]), ("c2", "read_file", &["{\"b\":", "2}"])])
        .turn_finished(usage(1, 1));
    let mut blocks: Vec<String> = Vec::new();
    let mut messages = 0;
    for line in lines(&script.encoded(&with_partials())) {
        let event = &line["event"];
        match (line["type"].as_str().unwrap(), event["type"].as_str().unwrap_or_default()) {
            ("stream_event", "content_block_start") => {
                assert_eq!(event["index"], blocks.len());
                blocks.push(String::new());
            }
            ("stream_event", "content_block_delta") => {
                let index = usize::try_from(event["index"].as_u64().unwrap()).unwrap();
                let delta = &event["delta"];
                let piece = delta["text"].as_str().or_else(|| delta["partial_json"].as_str()).unwrap();
                blocks[index].push_str(piece);
            }
            ("assistant", _) => {
                let content = line["message"]["content"].as_array().unwrap();
                let whole: Vec<String> = content
                    .iter()
                    .map(|block| {
                        block["text"].as_str().map_or_else(|| block["input"].to_string(), str::to_owned)
                    })
                    .collect();
                assert_eq!(whole, blocks);
                blocks.clear();
                messages += 1;
            }
            _ => {}
        }
    }
    assert_eq!(messages, 2);
}

#[test]
fn a_heartbeat_is_a_line_in_stream_json_only() {
    let script = Script::default().event(EventKind::Heartbeat);
    let line = &lines(&script.encoded(&options(Format::StreamJson)))[0];
    assert_eq!(line["subtype"], "heartbeat");
    assert_eq!(line["data"]["ts"], 1_700_000_000);
    assert_eq!(script.encoded(&options(Format::Json)), "");
    assert_eq!(script.encoded(&options(Format::Text)), "");
}

#[test]
fn long_tool_output_keeps_its_two_ends() {
    let output = format!("first\n{}\nlast", "0123456789".repeat(100_000));
    let script = Script::default().tool_finished("call_1", "run_shell_command", &output, None);
    let line = lines(&script.encoded(&options(Format::StreamJson))).remove(0);
    let shown = line["message"]["content"][0]["content"].as_str().unwrap();
    let (head, tail) = shown.split_once("\n[output shortened: ").unwrap();
    let (left_out, tail) = tail.split_once(" bytes left out here]\n").unwrap();
    assert!(output.starts_with(head) && output.ends_with(tail));
    assert_eq!(head.len() + left_out.parse::<usize>().unwrap() + tail.len(), output.len());
    let share = tail.len() as f64 / (head.len() + tail.len()) as f64;
    assert!((0.79..0.81).contains(&share), "{share}");
    assert!(shown.len() > TOOL_OUTPUT_CAP - 200, "the room is used: {}", shown.len());
}

#[test]
fn output_that_just_fits_is_whole() {
    for (size, whole) in [(TOOL_OUTPUT_CAP - 2, true), (TOOL_OUTPUT_CAP - 1, false)] {
        let output = "x".repeat(size);
        let script = Script::default().tool_finished("call_1", "run_shell_command", &output, None);
        let line = lines(&script.encoded(&options(Format::StreamJson))).remove(0);
        assert_eq!(line["message"]["content"][0]["content"] == output.as_str(), whole, "{size}");
    }
}

#[test]
fn dialects_are_found_by_name() {
    for dialect in Dialect::ALL {
        assert_eq!(Dialect::parse(dialect.name()), Ok(dialect));
    }
    assert_eq!(
        Dialect::parse("klingon").unwrap_err().to_string(),
        "`klingon` is not a dialect; known: `qwen`, `claude`, `gemini`, `openai`"
    );
}

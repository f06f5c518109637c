//! The frame of lines in the `qwen` and `claude` dialects, tried on every golden file: ids on each line, and pieces of
//! messages in the order that clients put them together.

use std::collections::BTreeSet;
use std::fs;

use serde_json::{Value, json};
use tenon_core::{ErrorClass, Signal, ToolErrorKind};
use tenon_wire::{Dialect, Format};

use crate::golden::folder;
use crate::script::{Script, failed, failure, options, usage};

fn files(dialect: Dialect, ending: &str) -> Vec<(String, Vec<Value>)> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder(dialect)).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if name.ends_with(ending) {
            let text = fs::read_to_string(&path).unwrap();
            files.push((name, text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()));
        }
    }
    files
}

#[test]
fn every_line_of_a_run_says_whose_it_is() {
    for dialect in [Dialect::Qwen, Dialect::Claude] {
        for (name, lines) in
            files(dialect, ".stream.jsonl").into_iter().chain(files(dialect, ".partials.jsonl"))
        {
            for line in lines {
                let is_text = |key: &str| line[key].is_string();
                assert!(is_text("type") && is_text("uuid") && is_text("session_id"), "{name}: {line}");
                let belongs = ["assistant", "user", "stream_event"].contains(&line["type"].as_str().unwrap());
                assert!(!belongs || line.get("parent_tool_use_id").is_some(), "{name}: {line}");
            }
        }
    }
}

#[test]
fn results_have_their_numbers_and_one_of_the_known_subtypes() {
    let known = [
        "success",
        "error_max_turns",
        "error_max_structured_output_retries",
        "error_max_budget_usd",
        "error_budget_exceeded",
        "error_during_execution",
    ];
    for dialect in [Dialect::Qwen, Dialect::Claude] {
        let mut seen = BTreeSet::new();
        for (name, lines) in files(dialect, ".stream.jsonl") {
            for result in lines.iter().filter(|line| line["type"] == "result") {
                let subtype = result["subtype"].as_str().unwrap();
                assert!(known.contains(&subtype), "{name}: {subtype}");
                seen.insert(subtype.to_owned());
                assert_eq!(result["is_error"], subtype != "success", "{name}");
                for number in ["num_turns", "duration_ms", "duration_api_ms"] {
                    assert!(result[number].is_u64(), "{name}: {number}");
                }
                assert!(result["permission_denials"].is_array() && result["usage"].is_object(), "{name}");
                if dialect == Dialect::Claude {
                    assert!(
                        result["modelUsage"].is_object() && result.get("total_cost_usd").is_some(),
                        "{name}"
                    );
                    assert_eq!(result.get("errors").is_some(), subtype != "success", "{name}");
                } else {
                    assert!(result.get("modelUsage").is_none() && result.get("errors").is_none(), "{name}");
                }
            }
        }
        assert_eq!(seen, known.iter().map(|subtype| (*subtype).to_owned()).collect(), "{}", dialect.name());
    }
}

/// `message_start`, then per block `content_block_start`, deltas, `content_block_stop`, then `message_stop`; the whole
/// message follows the last block of its kind, and blocks of the next are counted from 0 again.
#[test]
fn pieces_come_in_the_order_of_a_message() {
    for dialect in [Dialect::Qwen, Dialect::Claude] {
        let mut ended = 0;
        for (name, lines) in files(dialect, ".partials.jsonl") {
            let mut within = false;
            let mut open: BTreeSet<u64> = BTreeSet::new();
            let mut blocks = 0;
            let own = lines.iter().filter(|line| line["parent_tool_use_id"].is_null());
            for line in own {
                let event = &line["event"];
                let index = event["index"].as_u64().unwrap_or_default();
                match (line["type"].as_str().unwrap(), event["type"].as_str().unwrap_or_default()) {
                    ("stream_event", "message_start") => {
                        assert!(!within, "{name}: {line}");
                        (within, blocks) = (true, 0);
                        assert_eq!(event["message"]["content"], json!([]));
                    }
                    ("stream_event", "content_block_start") => {
                        assert!(within && index == blocks && open.insert(index), "{name}: {line}");
                        blocks += 1;
                    }
                    ("stream_event", "content_block_delta") => {
                        assert!(within && open.contains(&index), "{name}: {line}");
                    }
                    ("stream_event", "content_block_stop") => assert!(open.remove(&index), "{name}: {line}"),
                    ("stream_event", "message_delta") => {
                        assert!(within && open.is_empty() && dialect == Dialect::Claude, "{name}: {line}");
                    }
                    ("stream_event", "message_stop") => {
                        assert!(within && open.is_empty(), "{name}: {line}");
                        within = false;
                        ended += 1;
                    }
                    ("assistant", _) => {
                        assert!(within && open.is_empty(), "{name}: {line}");
                        // `qwen` counts the blocks of a message, `claude` those of the turn.
                        if dialect == Dialect::Qwen {
                            blocks = 0;
                        }
                    }
                    ("user" | "result", _) => assert!(!within, "{name}: {line}"),
                    _ => {}
                }
            }
            assert!(!within && open.is_empty(), "{name}");
        }
        assert!(ended > 20, "{ended} messages in pieces");
    }
}

/// What was stopped: an answer, or calls.
#[test]
fn an_interruption_says_what_it_stopped() {
    let call: &[crate::script::Call<'_>] = &[("c1", "run_shell_command", &["{}"])];
    let interrupted = || failed(failure(ErrorClass::Interrupted(Signal::Int), "stopped"));
    let stopped =
        |script: Script| script.tool_finished("c1", "run_shell_command", "", Some(ToolErrorKind::Cancelled));
    let begun = || {
        Script::started()
            .turn()
            .calls(call)
            .turn_finished(usage(1, 1))
            .tool_started("c1", "run_shell_command")
    };
    let table = [
        (Script::started().turn().half_text(&["Half"]), "aborted_streaming"),
        (stopped(begun()), "aborted_tools"),
        (stopped(begun()).turn().half_text(&["Half"]), "aborted_streaming"),
    ];
    for (script, wanted) in table {
        for format in [Format::Json, Format::StreamJson] {
            let output = script.clone().finished(interrupted()).encoded_as(Dialect::Claude, &options(format));
            let last: Value = serde_json::from_str(output.lines().last().unwrap()).unwrap();
            assert_eq!(last["terminal_reason"], wanted);
        }
    }
}

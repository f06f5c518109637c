//! `stream-chunk-json` as OpenAI's clients put it together: who speaks once and first, calls by their index, and the
//! same calls as in `stream-json`.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use serde_json::{Value, json};
use tenon_core::{EventKind, Origin};
use tenon_wire::{Dialect, Format, Lifetime, encoder};

use crate::golden::folder;
use crate::script::{Script, failed, failure, options, success, usage};

fn lines(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Every golden file of this format, each run of it.
fn golden_runs() -> Vec<(String, Vec<Value>)> {
    let mut runs: Vec<(String, Vec<Value>)> = Vec::new();
    for entry in fs::read_dir(folder(Dialect::OpenAi)).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if !name.ends_with(".chunks.jsonl") {
            continue;
        }
        for line in lines(&fs::read_to_string(&path).unwrap()) {
            let opens = line["metadata"].get("capabilities").is_some();
            if opens || runs.last().is_none_or(|(of, _)| *of != name) {
                runs.push((name.clone(), Vec::new()));
            }
            runs.last_mut().unwrap().1.push(line);
        }
    }
    runs
}

fn roles(chunks: &[Value]) -> Vec<usize> {
    let chunks = chunks.iter().filter(|line| line["object"] == "chat.completion.chunk");
    let has_role = |chunk: &Value| chunk["choices"][0]["delta"].get("role").is_some();
    chunks.enumerate().filter(|(_, chunk)| has_role(chunk)).map(|(at, _)| at).collect()
}

#[test]
fn the_first_chunk_of_a_turn_says_who_speaks_and_no_other() {
    let runs = golden_runs();
    assert!(runs.len() > 40, "only {} runs", runs.len());
    for (name, chunks) in runs {
        if chunks.iter().any(|line| line.get("object").is_some()) {
            assert_eq!(roles(&chunks), [0], "{name}: {chunks:#?}");
        }
    }
}

/// A turn that could not begin, while another one may be under way, is a message of its own.
#[test]
fn a_turn_that_never_began_says_who_speaks_too() {
    let mut options = options(Format::StreamChunkJson);
    options.lifetime = Lifetime::ManyRuns;
    let mut encoder = encoder(Dialect::OpenAi, options);
    let mut out = Vec::new();
    let before = Script::started().turn().half_text(&["Half"]);
    for event in &before.events {
        encoder.encode(event, &mut out);
    }
    encoder.name_next_turn("taken-back");
    let why = failure(tenon_core::ErrorClass::Interrupted(tenon_core::Signal::Int), "taken back");
    for event in &Script::default().finished(failed(why)).events {
        encoder.encode(event, &mut out);
    }
    for event in &Script::default().delta(0, " way").finished(success("Half way")).events {
        encoder.encode(event, &mut out);
    }
    let all = lines(&String::from_utf8(out).unwrap());
    let ids: BTreeSet<&str> = all.iter().map(|line| line["prompt_id"].as_str().unwrap()).collect();
    assert_eq!(ids.len(), 2);
    for id in ids {
        let of_turn: Vec<Value> = all.iter().filter(|line| line["prompt_id"] == id).cloned().collect();
        assert_eq!(roles(&of_turn), [0], "{id}");
    }
}

/// A call: its index, id, type and name first, then the pieces of its arguments under the same index.
#[test]
fn pieces_of_calls_add_up_to_the_calls_of_the_message() {
    let mut seen = 0;
    for scenario in ["tool_call", "parallel_calls", "denials", "tool_displays", "permission", "sub_agent"] {
        let read = |format: &str| {
            let path = folder(Dialect::OpenAi).join(format!("{scenario}.{format}"));
            let own = |line: &Value| line["parent_tool_call_id"].is_null();
            lines(&fs::read_to_string(path).unwrap()).into_iter().filter(own).collect::<Vec<_>>()
        };
        let whole: Vec<Value> = read("stream.jsonl")
            .iter()
            .filter_map(|line| line["choices"][0]["message"]["tool_calls"].as_array().cloned())
            .flatten()
            .collect();
        let mut put_together = Vec::new();
        let mut open: BTreeMap<u64, Value> = BTreeMap::new();
        for chunk in read("chunks.jsonl") {
            let choice = &chunk["choices"][0];
            for piece in choice["delta"]["tool_calls"].as_array().into_iter().flatten() {
                let index = piece["index"].as_u64().unwrap();
                match open.get_mut(&index) {
                    None => {
                        assert_eq!(index, u64::try_from(open.len()).unwrap(), "{piece}");
                        assert_eq!(
                            (&piece["type"], &piece["function"]["arguments"]),
                            (&json!("function"), &json!(""))
                        );
                        assert!(piece["id"].is_string() && piece["function"]["name"].is_string(), "{piece}");
                        let mut call = piece.clone();
                        call.as_object_mut().unwrap().shift_remove("index");
                        open.insert(index, call);
                    }
                    Some(call) => {
                        assert!(piece.get("id").is_none() && piece["function"].get("name").is_none());
                        let so_far = call["function"]["arguments"].as_str().unwrap().to_owned();
                        let more = piece["function"]["arguments"].as_str().unwrap();
                        call["function"]["arguments"] = json!(so_far + more);
                        seen += 1;
                    }
                }
            }
            if !choice["finish_reason"].is_null() {
                put_together.extend(std::mem::take(&mut open).into_values());
            }
        }
        assert_eq!(put_together, whole, "{scenario}");
    }
    assert!(seen > 3, "{seen} pieces");
}

/// A sequence that is split over chunks, wherever it is cut, is gone from the text, and so is nothing else.
#[test]
fn sequences_are_gone_wherever_a_piece_ends() {
    let text = "a\u{1b}[1;32mgreen\u{1b}[0m \u{1b}]8;;http://x\u{1b}\\link\u{1b}]8;;\u{7} 👋\u{1b}(Bz";
    let plain = "agreen link 👋z";
    let cuts: Vec<usize> = (0..=text.len()).filter(|at| text.is_char_boundary(*at)).collect();
    for first in &cuts {
        for second in cuts.iter().filter(|second| *second >= first) {
            let pieces = [&text[..*first], &text[*first..*second], &text[*second..]];
            let script = Script::started()
                .event(EventKind::UserMessage { text: "\u{1b}[1mhi".to_owned(), origin: Origin::Prompt })
                .turn()
                .text(&pieces)
                .turn_finished(usage(1, 1))
                .finished(success(text));
            let gemini = script.encoded_as(Dialect::Gemini, &options(Format::StreamJson));
            let of_gemini: String = lines(&gemini)
                .iter()
                .filter(|line| line["role"] == "assistant")
                .map(|line| line["content"].as_str().unwrap().to_owned())
                .collect();
            let openai = script.encoded_as(Dialect::OpenAi, &options(Format::StreamChunkJson));
            let of_openai: String = lines(&openai)
                .iter()
                .filter_map(|line| line["choices"][0]["delta"]["content"].as_str().map(str::to_owned))
                .collect();
            assert_eq!((of_gemini.as_str(), of_openai.as_str()), (plain, plain), "{pieces:?}");
            assert!(!gemini.contains("\\u001b") && !openai.contains("\\u001b"), "{pieces:?}");
            let document = script.encoded_as(Dialect::Gemini, &options(Format::Json));
            assert_eq!(lines(&document)[0]["response"], plain);
        }
    }
}

//! `--include-partial-messages`: the order of the pieces, that they add up, and that the payload only grows.

use std::collections::HashMap;
use std::time::Duration;

use proptest::prelude::*;
use tenon_testkit::{Reply, Run, Server, Value, Wire, cases, json, reply};

use super::output::{SCHEMA, asked, published, result_of};
use super::{tenon, wire};

const TOOL: &str = "structured_output";

fn watched(script: impl IntoIterator<Item = Reply>, flags: &[&str]) -> Run {
    let server = Server::start(script);
    let run = asked(&server).args(["-o", "stream-json", "--include-partial-messages"]).args(flags).run();
    assert_well_formed(&run);
    run
}

/// A call whose arguments come in these pieces.
fn in_pieces<'a>(reply: Reply, id: &str, pieces: impl IntoIterator<Item = &'a str>) -> Reply {
    let open = json!({"index": 0, "id": id, "type": "function", "function": {"name": TOOL, "arguments": ""}});
    let piece = |text: &str| json!({"index": 0, "function": {"arguments": text}});
    reply.call_deltas(std::iter::once(open).chain(pieces.into_iter().map(piece)))
}

/// A line in a few words.
fn told(line: &Value) -> String {
    let event = &line["event"];
    let block = |block: &Value| match block["type"].as_str() {
        Some("tool_use") => format!("{} {}", block["name"].as_str().unwrap_or_default(), block["input"]),
        Some("thinking") => format!("thinking {}", block["thinking"]),
        _ => format!("text {}", block["text"]),
    };
    let kind = line["type"].as_str().expect("a type");
    match event["type"].as_str() {
        None if kind == "assistant" => {
            let blocks = line["message"]["content"].as_array().expect("blocks");
            format!("assistant: {}", blocks.iter().map(block).collect::<Vec<_>>().join(" | "))
        }
        None => kind.to_owned(),
        Some("content_block_start") => {
            format!("start {}: {}", event["index"], block(&event["content_block"]))
        }
        Some("content_block_delta") => {
            let delta = event["delta"].as_object().expect("a delta").values().nth(1).expect("its text");
            format!("delta {}: {delta}", event["index"])
        }
        Some("content_block_stop") => format!("stop {}", event["index"]),
        Some(other) => other.to_owned(),
    }
}

/// Every block starts, grows and stops once, inside one message; its pieces are what the message then says.
#[track_caller]
fn assert_well_formed(run: &Run) {
    let mut open: HashMap<u64, (Value, String)> = HashMap::new();
    let mut whole: Vec<(Value, String)> = Vec::new();
    let mut in_message = false;
    for line in published(run) {
        let event = &line["event"];
        let index = event["index"].as_u64().unwrap_or_default();
        match event["type"].as_str() {
            Some("message_start") => assert!(!std::mem::replace(&mut in_message, true), "{run}"),
            Some("message_stop") => assert!(std::mem::take(&mut in_message) && open.is_empty(), "{run}"),
            Some("content_block_start") => {
                assert!(in_message, "{run}");
                let before = open.insert(index, (event["content_block"].clone(), String::new()));
                assert_eq!(before, None, "{run}");
            }
            Some("content_block_delta") => {
                let (_, text) = open.get_mut(&index).expect("an open block");
                let delta = event["delta"].as_object().expect("a delta").values().nth(1);
                text.push_str(delta.and_then(Value::as_str).expect("text"));
            }
            Some("content_block_stop") => whole.push(open.remove(&index).expect("an open block")),
            _ if line["type"] == "assistant" => {
                for block in line["message"]["content"].as_array().expect("blocks") {
                    let (started, text) = whole.remove(0);
                    assert_eq!(block["type"], started["type"], "{run}");
                    match block["type"].as_str() {
                        Some("tool_use") => {
                            assert_eq!(block["id"], started["id"], "{run}");
                            let text = if text.trim().is_empty() { "{}" } else { text.trim() };
                            let input = serde_json::from_str::<Value>(text).ok().filter(Value::is_object);
                            assert_eq!(
                                block["input"],
                                input.unwrap_or_else(|| json!({"_raw": text})),
                                "{run}"
                            );
                        }
                        Some("thinking") => assert_eq!(block["thinking"], text, "{run}"),
                        _ => assert_eq!(block["text"], text, "{run}"),
                    }
                }
            }
            _ => {}
        }
    }
    assert!(!in_message && open.is_empty(), "{run}");
}

/// The snapshots of each call, in order.
fn snapshots(run: &Run) -> Vec<(String, Value)> {
    let lines = published(run).into_iter().map(|line| line["event"].clone());
    lines
        .filter(|event| event["type"] == "structured_partial")
        .inspect(|event| assert_eq!(event["complete"], false))
        .map(|event| (event["tool_use_id"].as_str().expect("an id").to_owned(), event["snapshot"].clone()))
        .collect()
}

/// Is everything of `before` in `after`, in the same place?
fn grew(before: &Value, after: &Value) -> bool {
    match (before, after) {
        (Value::Object(before), Value::Object(after)) => {
            before.len() <= after.len()
                && before
                    .iter()
                    .zip(after)
                    .all(|((key, value), (later_key, later))| key == later_key && grew(value, later))
        }
        (Value::Array(before), Value::Array(after)) => {
            before.len() <= after.len() && before.iter().zip(after).all(|(value, later)| grew(value, later))
        }
        _ => before == after,
    }
}

#[test]
fn pieces_come_in_order_between_the_messages_they_make() {
    let run = watched(
        [
            reply()
                .reasoning("H")
                .reasoning("m.")
                .text_chunks(["Look", "ing."])
                .call("c1", "read_file", json!({"file_path": "a"}))
                .call("c2", "glob", json!({"pattern": "*"})),
            in_pieces(reply(), "c3", [r#"{"ri"#, r#"sk":"low"#, r#""}"#]),
        ],
        &["--json-schema", SCHEMA],
    );
    run.assert_code(0);
    // Chat completions says when a call starts, not when it ends; Gemini sends it whole.
    let two_calls = match wire() {
        Wire::Chat => vec![
            "start 0: read_file {}",
            r#"delta 0: "{\"file_p""#,
            r#"delta 0: "ath\":\"a\"}""#,
            "start 1: glob {}",
            r#"delta 1: "{\"patte""#,
            r#"delta 1: "rn\":\"*\"}""#,
            "stop 0",
            "stop 1",
        ],
        Wire::Responses | Wire::Messages => vec![
            "start 0: read_file {}",
            r#"delta 0: "{\"file_p""#,
            r#"delta 0: "ath\":\"a\"}""#,
            "stop 0",
            "start 1: glob {}",
            r#"delta 1: "{\"patte""#,
            r#"delta 1: "rn\":\"*\"}""#,
            "stop 1",
        ],
        Wire::Gemini => vec![
            "start 0: read_file {}",
            r#"delta 0: "{\"file_path\":\"a\"}""#,
            "stop 0",
            "start 1: glob {}",
            r#"delta 1: "{\"pattern\":\"*\"}""#,
            "stop 1",
        ],
    };
    let payload = match wire().sends_pieces_of_calls() {
        true => vec![r#"delta 0: "{\"ri""#, r#"delta 0: "sk\":\"low""#, r#"delta 0: "\"}""#],
        false => vec![r#"delta 0: "{\"risk\":\"low\"}""#],
    };
    let lines: Vec<String> =
        published(&run).iter().map(told).filter(|line| line != "structured_partial").collect();
    assert_eq!(
        lines,
        [
            "system",
            "message_start",
            r#"start 0: thinking """#,
            r#"delta 0: "H""#,
            r#"delta 0: "m.""#,
            "stop 0",
            r#"assistant: thinking "Hm.""#,
            r#"start 0: text """#,
            r#"delta 0: "Look""#,
            r#"delta 0: "ing.""#,
            "stop 0",
            r#"assistant: text "Looking.""#,
        ]
        .into_iter()
        .chain(two_calls)
        .chain([
            r#"assistant: read_file {"file_path":"a"} | glob {"pattern":"*"}"#,
            "message_stop",
            "user",
            "user",
            "message_start",
            "start 0: structured_output {}",
        ])
        .chain(payload)
        .chain(
            ["stop 0", r#"assistant: structured_output {"risk":"low"}"#, "message_stop", "user", "result",]
        )
        .collect::<Vec<_>>(),
        "{run}"
    );
    assert_eq!(snapshots(&run).last(), Some(&("c3".to_owned(), json!({"risk": "low"}))));
}

#[test]
fn the_payload_grows_while_it_is_written() {
    let pieces = [r#"{"a":1,"#, r#""b":[1,{"x":2"#, r#"},3],"c":"hal"#, r#"f","d":nul"#, "l}"];
    // Longer than the 100 ms between snapshots, or most of them would be left out.
    let slow = in_pieces(reply(), "c", pieces).delay_between_events(Duration::from_millis(110));
    let run = watched([slow], &["--json-schema", "{}"]);
    let payload = json!({"a": 1, "b": [1, {"x": 2}, 3], "c": "half", "d": null});
    assert_eq!(result_of(&run)["structured_result"], payload);
    let snapshots = snapshots(&run);
    if wire().sends_pieces_of_calls() {
        assert!(snapshots.len() >= 2, "{snapshots:?}");
        assert_eq!(snapshots[0].1, json!({"a": 1}));
    }
    assert!(
        snapshots.windows(2).all(|pair| grew(&pair[0].1, &pair[1].1) && pair[0].1 != pair[1].1),
        "{snapshots:?}"
    );
    assert_eq!(snapshots.last().map(|(_, last)| last), Some(&payload));
}

#[test]
fn a_rejected_payload_was_shown_too() {
    let run = watched(
        [reply().call("c1", TOOL, json!({"risk": 1})), reply().call("c2", TOOL, json!({"risk": "low"}))],
        &["--json-schema", SCHEMA],
    );
    run.assert_code(0);
    let expected = [("c1".to_owned(), json!({"risk": 1})), ("c2".to_owned(), json!({"risk": "low"}))];
    assert_eq!(snapshots(&run), expected);
}

#[test]
fn arguments_that_are_no_object_have_no_snapshots() {
    for arguments in ["[1,2]", "nonsense", "", r#""{\"risk\":\"low\"}""#] {
        let is_object = match arguments {
            "" => wire().starts_calls_with_an_object(),
            // Arguments that come as a string are taken out of it at once.
            _ if arguments.starts_with('"') => wire() == Wire::Gemini,
            _ => false,
        };
        if is_object {
            continue;
        }
        let run = watched(
            [reply().call_raw("c", TOOL, arguments)],
            &["--json-schema", SCHEMA, "--max-schema-retries", "0"],
        );
        assert_eq!(snapshots(&run), [], "{run}");
    }
}

#[test]
fn only_the_terminal_tool_has_snapshots() {
    let run = watched([reply().call("c", "read_file", json!({"file_path": "a"})), reply().text("ok")], &[]);
    assert_eq!(snapshots(&run), []);
}

#[test]
fn half_a_call_is_closed_and_is_no_message() {
    let run = watched(
        [in_pieces(reply().text("Well."), "c", [r#"{"risk":"low","#, r#""x"#, "rest"]).cut_after_events(5)],
        &["--json-schema", SCHEMA],
    );
    run.assert_code(1);
    let lines: Vec<String> =
        published(&run).iter().map(told).filter(|line| line != "structured_partial").collect();
    let half = match wire().sends_pieces_of_calls() {
        true => vec![
            "start 0: structured_output {}",
            r#"delta 0: "{\"risk\":\"low\",""#,
            r#"delta 0: "\"x""#,
            "stop 0",
        ],
        false => vec![],
    };
    let text = [r#"start 0: text """#, r#"delta 0: "Well.""#, "stop 0", r#"assistant: text "Well.""#];
    let expected = [&["system", "message_start"], &text[..], &half, &["message_stop", "result"]].concat();
    assert_eq!(lines, expected, "{run}");
    assert_eq!(result_of(&run)["error"]["class"], "network");
}

#[test]
fn a_request_that_failed_before_its_first_piece_leaves_no_trace() {
    let run =
        watched([reply().status(500), reply().text("Fine.")], &["--settings", r#"{"retry":{"baseMs":1}}"#]);
    let lines: Vec<String> = published(&run).iter().map(told).collect();
    let expected = [
        "system",
        "message_start",
        r#"start 0: text """#,
        r#"delta 0: "Fine.""#,
        "stop 0",
        r#"assistant: text "Fine.""#,
        "message_stop",
        "result",
    ];
    assert_eq!(lines, expected, "{run}");
}

#[test]
fn pieces_are_asked_for() {
    let server = Server::start([reply().text("Fine.")]);
    let run = asked(&server).args(["-o", "stream-json"]).run();
    assert!(published(&run).iter().all(|line| line["type"] != "stream_event"), "{run}");
    for format in ["text", "json"] {
        let run = tenon().args(["-p", "go", "--include-partial-messages", "-o", format]).run();
        assert_eq!(
            (run.code, run.stdout.as_str(), run.stderr.as_str()),
            (
                2,
                "",
                "error[usage]: `--include-partial-messages` needs `--output-format stream-json`\nhint: `tenon --help` lists the flags\n"
            )
        );
    }
}

#[test]
fn twenty_thousand_pieces_of_text_arrive() {
    let text: String = (0..20_000).map(|number| format!("chunk {number} ")).collect();
    let run = watched([reply().big(20_000)], &[]);
    let lines = run.stdout.lines().filter(|line| line.contains("text_delta")).count();
    assert_eq!(lines, 20_000);
    assert!(run.last_json()["result"] == text.as_str(), "the text differs");
}

#[test]
fn twenty_thousand_pieces_of_a_payload_arrive() {
    let numbers: Vec<String> = (0..20_000).map(|number| format!("{number},")).collect();
    let pieces = std::iter::once("{\"l\":[").chain(numbers.iter().map(String::as_str)).chain(["-1]}"]);
    let server = Server::start([in_pieces(reply(), "c", pieces)]);
    let run = asked(&server).args(["--json-schema", "{}"]).run();
    run.assert_code(0);
    assert!(run.stdout == format!("{{\"l\":[{}-1]}}\n", numbers.concat()), "the payload differs");
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(cases(8)) })]

    #[test]
    fn prop_pieces_add_up_and_snapshots_grow(
        members in prop::collection::vec((any::<String>(), prop::collection::vec(any::<(String, f64, bool)>(), 0..4)), 1..6),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..40),
    ) {
        let members = members.into_iter().enumerate().map(|(n, (key, items))| (format!("{n}{key}"), json!(items)));
        let payload = Value::Object(members.collect());
        let chars: Vec<char> = payload.to_string().chars().collect();
        let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(chars.len())).chain([0, chars.len()]).collect();
        cuts.sort_unstable();
        let pieces: Vec<String> = cuts.windows(2).map(|cut| chars[cut[0]..cut[1]].iter().collect()).collect();
        let run = watched([in_pieces(reply(), "c", pieces.iter().map(String::as_str))], &["--json-schema", "{}"]);
        prop_assert_eq!(&result_of(&run)["structured_result"], &payload);
        let snapshots = snapshots(&run);
        prop_assert!(snapshots.windows(2).all(|pair| grew(&pair[0].1, &pair[1].1)), "{:?}", snapshots);
        prop_assert_eq!(snapshots.last().map(|(_, last)| last), Some(&payload));
    }
}

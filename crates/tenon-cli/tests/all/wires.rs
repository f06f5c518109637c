//! The same promises on every wire: what a run writes does not depend on how its model is asked.
//!
//! `contract.rs`, `output.rs` and `partials.rs` say all of it on one wire (see `TENON_TEST_WIRE`); here is the core of
//! it on all four.

use tenon_testkit::{Captured, Reply, Run, Server, Value, Wire, json, reply};

use super::output::{SCHEMA, result_of};
use super::{IMPATIENT, tenon};

const TOOL: &str = "structured_output";

/// A script on one wire, played to its end.
struct Played {
    wire: Wire,
    run: Run,
    requests: Vec<Captured>,
}

#[track_caller]
fn play(wire: Wire, script: impl IntoIterator<Item = Reply>, flags: &[&str]) -> Played {
    let server = Server::start(script);
    let run = tenon()
        .server_on(&server, wire)
        .file("a.txt", "alpha\n")
        .args(["-p", "go", "-q", "--settings", IMPATIENT])
        .args(flags)
        .run();
    server.assert_script_done();
    Played { wire, run, requests: server.requests() }
}

impl Played {
    #[track_caller]
    fn assert_stdout(&self, stdout: &str) {
        let Played { wire, run, .. } = self;
        assert_eq!((run.code, run.stdout.as_str(), run.stderr.as_str()), (0, stdout, ""), "{wire:?}: {run}");
    }

    /// The failure, in a run that writes JSON; `openai` stands for whoever is asked.
    #[track_caller]
    fn assert_failed(&self, code: i32, class: &str, message: &str) -> Value {
        let Played { wire, run, .. } = self;
        let result = result_of(run.assert_code(code));
        let error = result["error"].clone();
        let message = message.replace("`openai`", &format!("`{}`", wire.provider()));
        assert_eq!((&error["class"], &error["message"]), (&json!(class), &json!(message)), "{wire:?}: {run}");
        assert_eq!((&result["result"], result.get("structured_result")), (&Value::Null, None), "{run}");
        error
    }
}

/// Plays a script on every wire.
#[track_caller]
fn on_every_wire(script: impl Fn(Wire) -> Vec<Reply>, flags: &[&str]) -> Vec<Played> {
    Wire::ALL.into_iter().map(|wire| play(wire, script(wire), flags)).collect()
}

fn hand_in(id: &str, payload: Value) -> Reply {
    reply().call(id, TOOL, payload)
}

#[test]
fn a_payload_comes_out_as_the_model_wrote_it() {
    let payload = r#"{"z":[1.0,1e2,1E+2,-0,0.10,123456789012345678901234567890,1e400],"ä":"é 😀 \" \\ \u0001","a":{"":null},"b":"{\"c\":1}"}"#;
    let script = |_| vec![reply().text("So.").call_raw("c", TOOL, payload)];
    for played in on_every_wire(script, &["--json-schema", "{}"]) {
        played.assert_stdout(&format!("{payload}\n"));
    }
    for played in on_every_wire(script, &["--json-schema", "{}", "-o", "stream-json"]) {
        let carried = format!(r#""structured_result":{payload},"structured_output":{payload}"#);
        assert!(played.run.stdout.contains(&carried), "{}", played.run);
        assert_eq!(result_of(&played.run)["result"], payload);
    }
    // In one piece although a stream was asked for, and in small ones.
    let payload = r#"{"z":1.50,"ä":"é 😀"}"#;
    for variant in [Reply::whole, |reply: Reply| reply.chunk_by(3), |reply: Reply| reply.crlf().keepalives()]
    {
        let script = |_| vec![variant(reply().call_raw("c", TOOL, payload))];
        for played in on_every_wire(script, &["--json-schema", "{}"]) {
            played.assert_stdout(&format!("{payload}\n"));
        }
    }
}

#[test]
fn a_rejected_payload_is_told_to_the_model_and_asked_for_again() {
    let script = |_| vec![hand_in("c1", json!({"risk": 1})), hand_in("c2", json!({"risk": "low"}))];
    for played in on_every_wire(script, &["--json-schema", SCHEMA]) {
        played.assert_stdout("{\"risk\":\"low\"}\n");
        let told = played.requests[1].tool_result("c1");
        assert_eq!(told, "/risk: expected one of \"low\", \"high\", got 1", "{:?}", played.wire);
        assert_eq!(played.requests[1].forced_tool(), None);
        assert_eq!(played.requests[1].tool_names(), played.requests[0].tool_names());
    }
}

#[test]
fn siblings_of_a_terminal_call_never_run() {
    let write = json!({"file_path": "made.txt", "content": "x"});
    let script = |_| {
        vec![
            reply().call("w", "write_file", write.clone()).call("s1", TOOL, json!({"risk": 1})),
            reply().call("v", "write_file", write.clone()).call("s2", TOOL, json!({"risk": "low"})),
        ]
    };
    for played in on_every_wire(script, &["-y", "--json-schema", SCHEMA]) {
        played.assert_stdout("{\"risk\":\"low\"}\n");
        assert!(!played.run.workspace().join("made.txt").exists());
        assert!(played.requests[1].tool_result("w").starts_with("Skipped: "), "{:?}", played.wire);
        assert!(played.requests[1].tool_result("s1").starts_with("/risk: "));
    }
}

#[test]
fn parallel_calls_are_answered_each_by_its_id() {
    let read = |name: &str| json!({"file_path": name});
    let script = |_| {
        vec![
            reply()
                .text("Both.")
                .call("c1", "read_file", read("a.txt"))
                .call("c2", "read_file", read("none.txt"))
                .call("c3", "glob", json!({"pattern": "*.txt"})),
            reply().text("Seen."),
        ]
    };
    for played in on_every_wire(script, &[]) {
        played.assert_stdout("Seen.\n");
        let request = &played.requests[1];
        assert_eq!(request.tool_result("c1"), "alpha\n");
        assert!(request.tool_result("c2").contains("none.txt"), "{:?}", played.wire);
        assert!(request.tool_result("c3").contains("a.txt"), "{:?}", played.wire);
        assert!(request.system_text().contains("tenon") && request.user_text() == "go", "{:?}", played.wire);
    }
}

#[test]
fn plain_text_does_not_fulfil_a_contract() {
    let said = "the model answered in plain text instead of calling `structured_output` after 1 turn; it said (5 chars): \"Fine.\"";
    let flags = ["--json-schema", SCHEMA, "-o", "stream-json"];
    for played in on_every_wire(|_| vec![reply().text("Fine.")], &flags) {
        played.assert_failed(1, "contract", said);
    }
}

#[test]
fn a_reminder_forces_the_terminal_tool() {
    let script = |_| vec![reply().text("Fine."), hand_in("c", json!({"risk": "low"}))];
    for played in on_every_wire(script, &["--json-schema", SCHEMA, "--schema-nudge", "1"]) {
        played.assert_stdout("{\"risk\":\"low\"}\n");
        let [first, reminder] = &played.requests[..] else { panic!("two requests") };
        assert_eq!((first.forced_tool(), reminder.forced_tool().as_deref()), (None, Some(TOOL)));
        assert_eq!(reminder.tool_names(), [TOOL], "{:?}", played.wire);
        assert!(reminder.user_text().contains("`structured_output`"), "{:?}", played.wire);
    }
}

#[test]
fn answers_that_are_cut_or_refused() {
    let flags = ["--json-schema", SCHEMA, "-o", "json"];
    for played in on_every_wire(|_| vec![reply().text("On and").finish("length")], &flags) {
        played.assert_failed(1, "truncated", "the answer was cut off by the model's output limit");
    }
    for played in on_every_wire(|_| vec![reply().text("I cannot").finish("content_filter")], &flags) {
        let said = "the model or its provider refused to answer: \"I cannot\"";
        played.assert_failed(1, "refused", said);
    }
    for played in on_every_wire(|_| vec![reply().blocked_prompt("SAFETY")], &flags) {
        assert_eq!(result_of(played.run.assert_code(1))["error"]["class"], "refused", "{:?}", played.wire);
    }
}

#[test]
fn what_servers_answer_instead() {
    let flags = ["--json-schema", SCHEMA, "-o", "stream-json"];
    for (status, times, code, class, message) in [
        (401, 1, 41, "auth", "`openai` answered 401 (unauthorized): scripted status 401"),
        (
            429,
            2,
            1,
            "rate_limited",
            "`openai` answered 429 (too many requests): scripted status 429 (after 2 attempts)",
        ),
        (
            500,
            2,
            1,
            "protocol",
            "`openai` answered 500 (internal server error): scripted status 500 (after 2 attempts)",
        ),
        (
            503,
            2,
            1,
            "overloaded",
            "`openai` answered 503 (unavailable): scripted status 503 (after 2 attempts)",
        ),
    ] {
        for played in on_every_wire(|_| vec![reply().status(status).repeat(times)], &flags) {
            let error = played.assert_failed(code, class, message);
            assert_eq!(error["http_status"], status);
            assert_eq!(
                (&error["retryable"], &error["provider"]),
                (&json!(times == 2), &json!(played.wire.provider()))
            );
        }
    }
    // Once is survived.
    let script =
        |_| vec![reply().status(429).header("retry-after-ms", "1"), hand_in("c", json!({"risk": "low"}))];
    for played in on_every_wire(script, &["--json-schema", SCHEMA]) {
        played.assert_stdout("{\"risk\":\"low\"}\n");
    }
}

#[test]
fn an_error_in_mid_stream_is_the_servers_own() {
    let error = || json!({"message": "broken", "type": "server_error"});
    for played in on_every_wire(
        |_| vec![reply().text("Hm").error_event(error())],
        &["--json-schema", SCHEMA, "-o", "stream-json"],
    ) {
        // Gemini's errors say their status wherever they stand.
        let said = match played.wire {
            Wire::Gemini => "answered 500 (internal server error)",
            _ => "reported an error",
        };
        let message = format!(
            "`openai` {said}: broken; half an answer had already been passed on, so the request was not repeated"
        );
        played.assert_failed(1, "protocol", &message);
    }
    // Where nobody saw the beginning, it is asked for again.
    let script = |_| vec![reply().text("Hm").error_event(error()), hand_in("c", json!({"risk": "low"}))];
    for played in on_every_wire(script, &["--json-schema", SCHEMA]) {
        played.assert_stdout("{\"risk\":\"low\"}\n");
    }
    let overloaded = || json!({"message": "busy", "type": "overloaded_error"});
    for played in on_every_wire(
        |_| vec![reply().error_event(overloaded()).repeat(2)],
        &["--json-schema", SCHEMA, "-o", "json"],
    ) {
        let class = result_of(played.run.assert_code(1))["error"]["class"].clone();
        assert_eq!(class, "overloaded", "{:?}: {}", played.wire, played.run);
    }
}

#[test]
fn half_an_answer_is_asked_for_again_only_where_nobody_saw_it() {
    let half = || reply().text("Half an").text(" answer").cut_after_events(3);
    let script = |_| vec![half(), hand_in("c", json!({"risk": "low"}))];
    for played in on_every_wire(script, &["--json-schema", SCHEMA]) {
        played.assert_stdout("{\"risk\":\"low\"}\n");
    }
    let flags = ["--json-schema", SCHEMA, "-o", "stream-json"];
    for played in on_every_wire(|_| vec![half()], &flags) {
        let said = "the connection closed in the middle of the answer; half an answer had already been passed on, so the request was not repeated";
        played.assert_failed(1, "network", said);
        assert!(played.run.stdout.contains("Half an answer"), "{}", played.run);
    }
}

/// An answer without its end is no answer, although the payload is all there.
#[test]
fn a_payload_in_half_an_answer_is_none() {
    for wire in Wire::ALL {
        let half = hand_in("c", json!({"risk": "low"})).no_finish().no_done();
        let played = play(wire, [half], &["--json-schema", SCHEMA, "-o", "stream-json"]);
        assert_eq!(
            result_of(played.run.assert_code(1))["error"]["class"],
            "network",
            "{wire:?}: {}",
            played.run
        );
    }
}

#[test]
fn reasoning_goes_back_exactly_as_it_came() {
    let script = |_| {
        vec![
            reply()
                .reasoning("I should ")
                .reasoning("look.")
                .signature("sig/1+=")
                .redacted_thinking("cmVkYWN0ZWQ=")
                .text("Looking.")
                .call("c1", "read_file", json!({"file_path": "a.txt"}))
                .call("c2", "glob", json!({"pattern": "*"})),
            reply().text("Done."),
        ]
    };
    for played in on_every_wire(script, &[]) {
        played.assert_stdout("Done.\n");
        let conversation = played.requests[1].messages();
        let (sent, expected) = match played.wire {
            Wire::Chat => (conversation[2]["reasoning_content"].clone(), json!("I should look.")),
            Wire::Responses => {
                let fields = |item: &Value| json!([item["type"], item["encrypted_content"], item["summary"]]);
                let reasoning = conversation[1..4].iter().map(fields).collect();
                let expected = json!([
                    ["reasoning", "sig/1+=", [{"type": "summary_text", "text": "I should look."}]],
                    ["reasoning", "cmVkYWN0ZWQ=", []],
                    ["message", null, null],
                ]);
                (reasoning, expected)
            }
            Wire::Messages => {
                let expected = json!([
                    {"type": "thinking", "thinking": "I should look.", "signature": "sig/1+="},
                    {"type": "redacted_thinking", "data": "cmVkYWN0ZWQ="},
                    {"type": "text", "text": "Looking."},
                    {"type": "tool_use", "id": "c1", "name": "read_file", "input": {"file_path": "a.txt"}},
                    {"type": "tool_use", "id": "c2", "name": "glob", "input": {"pattern": "*"}},
                ]);
                (conversation[1]["content"].clone(), expected)
            }
            // A signature stands on the next part that is not a thought; thoughts alone are for people.
            Wire::Gemini => {
                let expected = json!([
                    {"text": "", "thought": true, "thoughtSignature": "cmVkYWN0ZWQ="},
                    {"text": "Looking.", "thoughtSignature": "sig/1+="},
                ]);
                let parts = conversation[1]["parts"].as_array().expect("parts");
                (json!(parts[..2]), expected)
            }
        };
        assert_eq!(sent, expected, "{:?}", played.wire);
    }
}

/// Gemini signs a part, and wants the signature back on that part.
#[test]
fn a_signature_of_a_call_goes_back_on_the_call() {
    let script = [
        reply()
            .reasoning("Hm.")
            .text("Looking.")
            .call("c1", "read_file", json!({"file_path": "a.txt"}))
            .signature("sig/1+=")
            .call("c2", "glob", json!({"pattern": "*"})),
        reply().text("Done."),
    ];
    let played = play(Wire::Gemini, script, &[]);
    let parts = &played.requests[1].messages()[1]["parts"];
    let expected = json!([
        {"text": "Looking."},
        {"functionCall": {"id": "c1", "name": "read_file", "args": {"file_path": "a.txt"}}, "thoughtSignature": "sig/1+="},
        {"functionCall": {"id": "c2", "name": "glob", "args": {"pattern": "*"}}},
    ]);
    assert_eq!(*parts, expected);
}

#[test]
fn tokens_are_counted_alike() {
    let usage = json!({
        "prompt_tokens": 100,
        "completion_tokens": 20,
        "total_tokens": 120,
        "prompt_tokens_details": {"cached_tokens": 64},
        "completion_tokens_details": {"reasoning_tokens": 5},
    });
    let script = |wire| {
        let usage = match wire {
            // Only this wire charges for writing to the cache, and so tells.
            Wire::Messages => json!({
                "input_tokens": 26,
                "cache_creation_input_tokens": 10,
                "cache_read_input_tokens": 64,
                "output_tokens": 20,
            }),
            _ => usage.clone(),
        };
        vec![hand_in("c", json!({"risk": "low"})).usage_full(usage)]
    };
    for played in on_every_wire(script, &["--json-schema", SCHEMA, "-o", "json"]) {
        let is_messages = played.wire == Wire::Messages;
        let expected = json!({
            "input_tokens": 100,
            "output_tokens": 20,
            "cache_read_input_tokens": 64,
            "total_tokens": 120,
            "cache_creation_input_tokens": if is_messages { 10 } else { 0 },
            "reasoning_tokens": if is_messages { 0 } else { 5 },
        });
        assert_eq!(result_of(played.run.assert_code(0))["usage"], expected, "{:?}", played.wire);
    }
}

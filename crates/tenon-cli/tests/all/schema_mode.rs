//! `--schema-mode`: the payload as text in the provider's own response format, or as a call. How each provider is asked
//! is in `providers.rs`.

use tenon_testkit::{Captured, Server, Tenon, Value, Wire, json, reply};

use super::providers::stderr_lines;
use super::{IMPATIENT, tenon};

const SCHEMA: &str = r#"{"type":"object","properties":{"n":{"type":"integer","minimum":1}},"required":["n"],"additionalProperties":false}"#;
/// The wires that have a response format.
const WIRES: [Wire; 3] = [Wire::Chat, Wire::Responses, Wire::Gemini];

fn asked(server: &Server, wire: Wire, mode: &str) -> Tenon {
    tenon().server_on(server, wire).args([
        "-p",
        "count",
        "--json-schema",
        SCHEMA,
        "--schema-mode",
        mode,
        "--settings",
        IMPATIENT,
    ])
}

fn format_schema(request: &Captured) -> Value {
    let body = &request.body;
    match request.wire() {
        Wire::Chat => {
            assert_eq!(body["response_format"]["type"], "json_schema", "{body}");
            assert_eq!(body["response_format"]["json_schema"]["name"], "structured_output");
            body["response_format"]["json_schema"]["schema"].clone()
        }
        Wire::Responses => {
            assert_eq!(body["text"]["format"]["type"], "json_schema", "{body}");
            assert_eq!(body["text"]["format"]["name"], "structured_output");
            body["text"]["format"]["schema"].clone()
        }
        Wire::Gemini => {
            assert_eq!(body["generationConfig"]["responseMimeType"], "application/json");
            body["generationConfig"]["responseJsonSchema"].clone()
        }
        Wire::Messages => panic!("no response format"),
    }
}

fn has_format(request: &Captured) -> bool {
    ["/response_format", "/text/format", "/generationConfig/responseJsonSchema"]
        .iter()
        .any(|place| request.body.pointer(place).is_some())
}

#[test]
fn the_text_is_the_payload() {
    for wire in WIRES {
        let server = Server::start([
            reply().text_chunks(["{\"n\"", ": 0}"]),
            reply().text_chunks(["  {\"n\":", " 10", "0e-2}\n"]),
            reply().text("{\"n\": 100}"),
        ]);
        let run = asked(&server, wire, "response-format").args(["-o", "stream-json"]).run();
        run.assert_code(0);
        let result = run.last_json();
        assert!(run.stdout.contains(r#""structured_result":{"n":100e-2}"#), "{run}");
        assert_eq!(result["num_turns"], 2);
        let request = server.request(0);
        assert_eq!(format_schema(&request)["properties"]["n"]["type"], "integer", "{wire:?}");
        assert!(!request.tool_names().contains(&"structured_output"), "{wire:?}");
        assert!(request.tool_names().contains(&"read_file"), "other tools stay: {wire:?}");
        assert_eq!(request.forced_tool(), None);
        assert!(request.system_text().contains(r#""minimum":1"#), "the model reads the schema");
        assert!(!request.system_text().contains("structured_output"));
        // What was rejected goes back as what it was: text, and what is wrong with it.
        let request = server.request(1);
        assert!(request.user_text().contains("/n: "), "{}", request.body);
        assert!(request.body.to_string().contains(r#"{\"n\": 0}"#), "{}", request.body);
        assert!(!request.body.to_string().contains("structured_output\",\"arguments"), "{}", request.body);
        // On the way out it is the same call as with a tool.
        let lines = run.json_lines();
        let calls: Vec<&Value> = lines
            .iter()
            .filter(|line| line["type"] == "assistant")
            .map(|line| &line["message"]["content"][0])
            .collect();
        assert_eq!(calls.len(), 2);
        assert!(calls.iter().all(|call| call["type"] == "tool_use" && call["name"] == "structured_output"));
    }
}

#[test]
fn fences_are_taken_off() {
    for text in [
        "```json\n{\"n\": 1}\n```",
        "```json\n{\"n\": 1}\n```\n",
        "```\n{\"n\": 1}```",
        "\n```JSON {\"n\": 1} ```",
        "```json\n{\n  \"n\": 1\n}\n```\nThat is all.",
        "{\"n\": 1}",
    ] {
        for by in [1, 3, 1000] {
            let pieces: Vec<String> =
                text.as_bytes().chunks(by).map(|piece| String::from_utf8_lossy(piece).into_owned()).collect();
            let server = Server::start([reply().text_chunks(pieces)]);
            let run = asked(&server, Wire::Chat, "response-format").run();
            run.assert_code(0);
            assert_eq!(run.stdout, "{\"n\":1}\n", "{text:?} by {by}");
        }
    }
}

#[test]
fn other_tools_can_be_called_first() {
    for wire in WIRES {
        let server = Server::start([
            reply().text("Let me look.").call("call_1", "read_file", json!({"file_path": "a.txt"})),
            reply().text("{\"n\": 5}"),
        ]);
        let run = asked(&server, wire, "response-format").file("a.txt", "five").run();
        run.assert_code(0);
        assert_eq!(run.stdout, "{\"n\":5}\n", "{wire:?}");
        let request = server.request(1);
        assert!(request.tool_result("call_1").contains("five"));
        assert!(request.body.to_string().contains("Let me look."));
    }
}

#[test]
fn what_is_no_json_is_a_bad_answer() {
    let server = Server::start([reply().text("I would say five.").forever()]);
    let run =
        asked(&server, Wire::Chat, "response-format").args(["--max-schema-retries", "1", "-o", "json"]).run();
    run.assert_code(53);
    let output = run.json();
    let result = output.as_array().and_then(|lines| lines.last()).unwrap();
    assert_eq!(result["error"]["class"], "schema_retries");
    assert_eq!(result["structured_error"]["attempts"], 2);
    assert_eq!(result["structured_error"]["candidate"], "I would say five.");
    // Nothing at all is no answer, and a reminder says what is missing.
    let server = Server::start([reply(), reply().text("{\"n\": 2}")]);
    let run = asked(&server, Wire::Chat, "response-format").args(["--schema-nudge", "1"]).run();
    run.assert_code(0);
    assert_eq!(server.request(1).tool_names(), [""; 0]);
    assert!(server.request(1).user_text().contains("Write the final answer now"));
    let server = Server::start([reply()]);
    let run = asked(&server, Wire::Chat, "response-format").run();
    run.assert_code(1);
    assert!(
        run.stderr.contains("error[contract]: the model stopped after 1 turn without writing an answer"),
        "{run}"
    );
    // A refusal stays one.
    let server = Server::start([reply().text("I will not.").finish("content_filter")]);
    let run = asked(&server, Wire::Chat, "response-format").run();
    run.assert_code(1);
    assert!(run.stderr.starts_with("error[refused]: ") && run.stderr.contains("I will not."), "{run}");
}

#[test]
fn partial_payloads_grow_as_with_a_tool() {
    let server = Server::start([reply().text_chunks(["{\"n\":", " 1", "2}"])]);
    let run = asked(&server, Wire::Chat, "response-format")
        .args(["-o", "stream-json", "--include-partial-messages"])
        .run();
    run.assert_code(0);
    let lines = run.json_lines();
    let events: Vec<&Value> =
        lines.iter().filter(|line| line["type"] == "stream_event").map(|line| &line["event"]).collect();
    let arguments: String =
        events.iter().filter_map(|event| event["delta"]["partial_json"].as_str()).collect();
    assert_eq!(arguments, "{\"n\": 12}");
    assert!(events.iter().any(|event| event["content_block"]["name"] == "structured_output"));
}

#[test]
fn auto_changes_over_when_a_forced_call_is_answered_with_text() {
    for wire in WIRES {
        let server =
            Server::start([reply().text("It is 3."), reply().text("Three!"), reply().text("{\"n\": 3}")]);
        let run = asked(&server, wire, "auto").run();
        run.assert_code(0);
        assert_eq!(run.stdout, "{\"n\":3}\n");
        let [first, forced, formatted] = [0, 1, 2].map(|number| server.request(number));
        assert!(first.tool_names().contains(&"structured_output") && !has_format(&first));
        assert_eq!(forced.forced_tool().as_deref(), Some("structured_output"));
        assert_eq!(format_schema(&formatted)["required"], json!(["n"]));
        assert_eq!((formatted.forced_tool(), formatted.tool_names()), (None, vec![]));
        let told = "warning: the model answered a forced call of `structured_output` with text; \
                    from here on its text is asked for in the form of the schema (`--schema-mode auto`)";
        assert_eq!(stderr_lines(&run).iter().filter(|line| **line == told).count(), 1, "{run}");
    }
    // Rejected calls of before go on as text.
    let server = Server::start([
        reply().call("call_1", "structured_output", json!({"n": 0})),
        reply().text("It is 3."),
        reply().text("Three!"),
        reply().text("{\"n\": 3}"),
    ]);
    asked(&server, Wire::Chat, "auto").run().assert_code(0);
    let last = server.request(3);
    assert!(
        last.messages()
            .iter()
            .all(|message| message.get("tool_calls").is_none() && message["role"] != "tool")
    );
    assert!(last.user_text().contains("/n: "));
}

#[test]
fn auto_stays_with_the_tool_where_it_is_called() {
    let call = || reply().call("call_1", "structured_output", json!({"n": 3}));
    for (script, requests) in [(vec![call()], 1), (vec![reply().text("It is 3."), call()], 2)] {
        let server = Server::start(script);
        let run = asked(&server, Wire::Chat, "auto").run();
        run.assert_code(0);
        assert_eq!(server.requests().len(), requests);
        assert!(!server.requests().iter().any(has_format));
        assert!(!run.stderr.contains("--schema-mode"), "{run}");
    }
    // The default never changes over, and never forces by itself.
    let server = Server::start([reply().text("It is 3.")]);
    asked(&server, Wire::Chat, "tool").run().assert_code(1);
    assert_eq!(server.requests().len(), 1);
}

#[test]
fn a_protocol_without_a_response_format_says_so() {
    for mode in ["response-format", "auto"] {
        let server = Server::start([]);
        let run = asked(&server, Wire::Messages, mode).run();
        run.assert_code(52);
        assert!(
            run.stderr.contains(
                "error[config]: `--schema-mode` asks for a response format, which the `anthropic` protocol does not have\nhint: "
            ),
            "{run}"
        );
    }
    let server = Server::start([reply().call("call_1", "structured_output", json!({"n": 3}))]);
    asked(&server, Wire::Messages, "tool").run().assert_code(0);
}

#[test]
fn a_recorded_answer_is_replayed() {
    for wire in WIRES {
        let server = Server::start([reply().text("{\"n\": 0}"), reply().text("{\"n\": 7}")]);
        let recorded = asked(&server, wire, "response-format").args(["--record", "run.jsonl"]).run();
        recorded.assert_code(0);
        let replayed = tenon()
            .file("run.jsonl", recorded.read("run.jsonl"))
            .args(["-p", "count", "--json-schema", SCHEMA, "--schema-mode", "response-format"])
            .args(["--replay", "run.jsonl"])
            .run();
        replayed.assert_code(0);
        assert_eq!(replayed.stdout, "{\"n\":7}\n", "{wire:?}");
    }
}

#[test]
fn the_payload_is_not_kept_anywhere() {
    let server = Server::start([reply().text("{\"n\": 0}"), reply().text("{\"n\": 424242}")]);
    let run = asked(&server, Wire::Chat, "response-format").args(["--verbose"]).run();
    run.assert_code(0);
    assert_eq!(run.stdout, "{\"n\":424242}\n");
    assert!(!run.stderr.contains("424242"), "{run}");
}

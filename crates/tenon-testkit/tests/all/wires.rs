//! One script and one test for all wires.

use std::time::Duration;

use tenon_testkit::{Captured, Reply, Server, Tenon, Value, Wire, json, reply};

use crate::client::{Connection, End, ask_on};

const SOON: Duration = Duration::from_secs(20);

fn said(wire: Wire, reply: Reply) -> String {
    ask_on(&Server::start([reply]), wire, "{}").text()
}

#[test]
fn so_many_events_say_the_same_on_every_wire() {
    let words = || {
        reply()
            .reasoning("think-1")
            .signature("s")
            .text_chunks(["word-1", "word-2"])
            .call("id-1", "tool-1", json!({"first": "in the first half", "k": "argument-1"}))
            .text("word-3")
            .usage(1, 2)
    };
    let marks = ["think-1", "word-1", "word-2", "argument-1", "word-3"];
    // Opening, thinking, two words, three for the call, a word; finish, usage and end mark say nothing new.
    let expected = [0, 0, 1, 2, 3, 3, 3, 4, 5, 5, 5, 5];
    for wire in Wire::ALL {
        for (events, expected) in expected.into_iter().enumerate() {
            let server = Server::start([words().cut_after_events(events)]);
            let response = ask_on(&server, wire, "{}");
            let text = response.text();
            let heard: Vec<_> = marks.iter().filter(|mark| text.contains(**mark)).collect();
            assert_eq!(response.end, End::Cut);
            assert_eq!(heard, marks[..expected].iter().collect::<Vec<_>>(), "{wire:?}, {events} events");
        }
    }
}

#[test]
fn pieces_of_any_size_carry_the_same_body() {
    let words = || reply().reasoning("ü").text("grün 🌿").call("c", "t", json!({"a": "ü"})).usage(1, 1);
    for wire in Wire::ALL {
        let whole = said(wire, words());
        for size in [1, 3, 64, 100_000] {
            assert_eq!(said(wire, words().chunk_by(size)), whole, "{wire:?} in pieces of {size}");
        }
        let cut = ask_on(&Server::start([words().cut_after_bytes(100)]), wire, "{}");
        assert_eq!((cut.text(), cut.end), (whole[..100].to_owned(), End::Cut), "{wire:?}");
    }
}

/// How often the end of a stream repeats all of its text.
fn said_in_whole(wire: Wire) -> usize {
    match wire {
        // In `output_text.done`, in the part, in the item, in the response.
        Wire::Responses => 4,
        Wire::Chat | Wire::Messages | Wire::Gemini => 0,
    }
}

#[test]
fn generated_streams_have_every_delta_and_an_end() {
    let ends = ["[DONE]", "response.completed", "message_stop", "finishReason"];
    for (wire, end) in Wire::ALL.into_iter().zip(ends) {
        let response = ask_on(&Server::start([reply().big(3000)]), wire, "{}");
        let text = response.text();
        assert_eq!(response.end, End::Complete);
        assert_eq!(text.matches(r#":"chunk "#).count(), said_in_whole(wire) + 3000, "{wire:?}");
        assert!(text.contains(r#":"chunk 0 ""#) && text.contains(r#":"chunk 2999 ""#), "{wire:?}");
        assert!(text.contains(end), "{wire:?}");
    }
}

#[test]
fn endless_streams_and_hangs_last_until_the_client_leaves() {
    for wire in Wire::ALL {
        let server = Server::start([
            reply().call("c", "t", json!({})).usage(1, 1).endless(),
            reply().text("x").hang_after_events(2),
        ]);
        let mut connection = Connection::open(&server);
        connection.post_on(wire, "{}");
        while connection.line() != "\r\n" {}
        let seen: Vec<u8> = (0..60).flat_map(|_| connection.chunk().unwrap()).collect();
        let seen = String::from_utf8(seen).unwrap();
        assert!(seen.matches("and so on ").count() > 30, "{wire:?}: {seen}");
        for end in ["finishReason", r#"finish_reason":""#, "response.completed", "message_delta", "[DONE]"] {
            assert!(!seen.contains(end), "{wire:?}: {seen}");
        }
        drop(connection);
        server.wait_for_clients_left(1, SOON);
        let mut connection = Connection::open(&server);
        connection.post_on(wire, "{}");
        server.wait_for_requests(2, SOON);
        drop(connection);
        server.wait_for_clients_left(2, SOON);
    }
}

#[test]
fn deltas_written_for_chat_are_understood_by_the_others() {
    let words = || {
        reply()
            .delta(json!({"content": "Hi", "reasoning_content": "hm"}))
            .call_deltas([
                json!({"index": 0, "id": "a", "function": {"name": "x", "arguments": ""}}),
                json!({"index": 1, "id": "b", "function": {"name": "y", "arguments": "{\"n\""}}),
                json!({"index": 0, "function": {"arguments": "{\"m\":1}"}}),
                json!({"index": 1, "function": {"arguments": ":2}"}}),
            ])
            .whole()
    };
    let whole = |wire| serde_json::from_str::<Value>(&said(wire, words())).unwrap();
    assert_eq!(
        whole(Wire::Messages)["content"],
        json!([
            {"type": "thinking", "thinking": "hm", "signature": ""},
            {"type": "text", "text": "Hi"},
            {"type": "tool_use", "id": "a", "name": "x", "input": {"m": 1}},
            {"type": "tool_use", "id": "b", "name": "y", "input": {"n": 2}},
        ])
    );
    let arguments = |output: &Value| -> Vec<Value> {
        output.as_array().unwrap().iter().map(|item| item["arguments"].clone()).collect()
    };
    assert_eq!(
        arguments(&whole(Wire::Responses)["output"]),
        [json!(null), json!(null), json!("{\"m\":1}"), json!("{\"n\":2}")]
    );
    assert_eq!(
        whole(Wire::Gemini)["candidates"][0]["content"]["parts"][3],
        json!({"functionCall": {"id": "b", "name": "y", "args": {"n": 2}}})
    );
}

#[test]
fn a_usage_object_of_the_wires_own_is_sent_as_it_stands() {
    for wire in Wire::ALL {
        let usage = json!({"input_tokens": 7, "special": true});
        assert!(said(wire, reply().usage_full(usage.clone())).contains(&usage.to_string()), "{wire:?}");
    }
}

#[test]
fn beyond_the_script_every_wire_says_so() {
    for wire in Wire::ALL {
        let server = Server::start([]);
        let response = ask_on(&server, wire, "{}");
        let message = "the script is exhausted: request 1 has no reply (the script has 0)";
        assert_eq!((response.status, &response.json()["error"]["message"]), (500, &json!(message)));
        assert_eq!(server.request(0).wire(), wire);
    }
}

/// The same question on each wire, as a client would ask it.
fn questions() -> [(Wire, Value); 4] {
    let schema = json!({"type": "object", "properties": {"p": {"type": "string"}}});
    [
        (
            Wire::Chat,
            json!({
                "messages": [
                    {"role": "system", "content": "Be brief."},
                    {"role": "user", "content": "Read it."},
                    {"role": "assistant", "tool_calls": [{"id": "c1", "type": "function",
                        "function": {"name": "read", "arguments": "{}"}}]},
                    {"role": "tool", "tool_call_id": "c1", "content": "hello"},
                    {"role": "user", "content": [{"type": "text", "text": "And?"}]},
                ],
                "tools": [{"type": "function",
                    "function": {"name": "read", "description": "d", "parameters": schema}},
                    {"type": "function", "function": {"name": "done", "parameters": {}}}],
                "tool_choice": {"type": "function", "function": {"name": "done"}},
            }),
        ),
        (
            Wire::Responses,
            json!({
                "instructions": "Be brief.",
                "input": [
                    {"role": "user", "content": "Read it."},
                    {"type": "function_call", "call_id": "c1", "name": "read", "arguments": "{}"},
                    {"type": "function_call_output", "call_id": "c1", "output": "hello"},
                    {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "And?"}]},
                ],
                "tools": [{"type": "function", "name": "read", "description": "d", "parameters": schema},
                    {"type": "function", "name": "done", "parameters": {}}],
                "tool_choice": {"type": "function", "name": "done"},
            }),
        ),
        (
            Wire::Messages,
            json!({
                "system": [{"type": "text", "text": "Be brief."}],
                "messages": [
                    {"role": "user", "content": "Read it."},
                    {"role": "assistant", "content": [
                        {"type": "tool_use", "id": "c1", "name": "read", "input": {}}]},
                    {"role": "user", "content": [
                        {"type": "tool_result", "tool_use_id": "c1",
                            "content": [{"type": "text", "text": "hello"}]},
                        {"type": "text", "text": "And?"}]},
                ],
                "tools": [{"name": "read", "description": "d", "input_schema": schema},
                    {"name": "done", "input_schema": {}}],
                "tool_choice": {"type": "tool", "name": "done"},
            }),
        ),
        (
            Wire::Gemini,
            json!({
                "systemInstruction": {"parts": [{"text": "Be brief."}]},
                "contents": [
                    {"role": "user", "parts": [{"text": "Read it."}]},
                    {"role": "model", "parts": [{"functionCall": {"id": "c1", "name": "read", "args": {}}}]},
                    {"role": "user", "parts": [
                        {"functionResponse": {"id": "c1", "name": "read", "response": {"output": "hello"}}},
                        {"text": "And?"}]},
                ],
                "tools": [{"functionDeclarations": [
                    {"name": "read", "description": "d", "parametersJsonSchema": schema},
                    {"name": "done", "parametersJsonSchema": {}}]}],
                "toolConfig": {"functionCallingConfig": {"mode": "ANY", "allowedFunctionNames": ["done"]}},
            }),
        ),
    ]
}

fn captured(wire: Wire, body: &Value) -> Captured {
    let server = Server::start([reply()]);
    ask_on(&server, wire, &body.to_string());
    server.request(0)
}

#[test]
fn a_request_reads_the_same_on_every_wire() {
    for (wire, body) in questions() {
        let request = captured(wire, &body);
        assert_eq!(request.wire(), wire);
        assert_eq!(request.system_text(), "Be brief.", "{wire:?}");
        assert_eq!(request.user_text(), "Read it.\nAnd?", "{wire:?}");
        assert_eq!(request.tool_names(), ["read", "done"], "{wire:?}");
        assert_eq!(request.tool("read")["description"], "d", "{wire:?}");
        assert_eq!(request.tool_parameters("read")["properties"]["p"]["type"], "string", "{wire:?}");
        assert_eq!(request.tool_result("c1"), "hello", "{wire:?}");
        assert_eq!(request.forced_tool().as_deref(), Some("done"), "{wire:?}");
        assert!(!request.messages().is_empty() && request.last_message().is_object(), "{wire:?}");
    }
}

#[test]
fn a_tool_is_forced_by_being_the_only_one_that_may_be_called() {
    let (one, two) = (["a"].as_slice(), ["a", "b"].as_slice());
    for (wire, field, must, may) in [
        (Wire::Chat, "tool_choice", json!("required"), json!("auto")),
        (Wire::Responses, "tool_choice", json!("required"), json!("auto")),
        (Wire::Messages, "tool_choice", json!({"type": "any"}), json!({"type": "auto"})),
        (
            Wire::Gemini,
            "toolConfig",
            json!({"functionCallingConfig": {"mode": "ANY"}}),
            json!({"functionCallingConfig": {"mode": "AUTO"}}),
        ),
    ] {
        for (names, choice, forced) in [(one, &must, Some("a")), (two, &must, None), (one, &may, None)] {
            let tools: Vec<Value> = names
                .iter()
                .map(|name| json!({"name": name, "function": {"name": name}, "functionDeclarations": [{"name": name}]}))
                .collect();
            let request = captured(wire, &json!({"tools": tools, field: choice}));
            assert_eq!(request.forced_tool().as_deref(), forced, "{wire:?} {names:?} {choice}");
        }
    }
}

#[test]
fn the_binary_is_pointed_to_the_server() {
    let server = Server::start([]);
    let origin = server.origin();
    let table = [
        (Wire::Chat, "openai", format!("OPENAI_API_KEY=test-key\nOPENAI_BASE_URL={origin}/v1\nOPENAI_MODEL")),
        (
            Wire::Responses,
            "openai-responses",
            format!("OPENAI_API_KEY=test-key\nOPENAI_BASE_URL={origin}/v1\nOPENAI_MODEL"),
        ),
        (
            Wire::Messages,
            "anthropic",
            format!("ANTHROPIC_API_KEY=test-key\nANTHROPIC_BASE_URL={origin}\nANTHROPIC_MODEL"),
        ),
        (
            Wire::Gemini,
            "gemini",
            format!("GEMINI_API_KEY=test-key\nGEMINI_MODEL=test-model\nGOOGLE_GEMINI_BASE_URL={origin}"),
        ),
    ];
    for (wire, provider, variables) in table {
        let script = r#"echo "$@"; env | grep -E '^(OPENAI|ANTHROPIC|G)' | LC_ALL=C sort"#;
        let run = Tenon::new("/bin/sh").args(["-c", script, "sh"]).server_on(&server, wire).run();
        let expected = format!("-m {provider}/test-model\n{variables}");
        let expected = if wire == Wire::Gemini { expected } else { format!("{expected}=test-model") };
        assert_eq!(run.assert_code(0).stdout.trim_end(), expected);
        assert_eq!(Wire::of_path(&wire.path()), wire);
    }
}

#[test]
fn the_models_of_gemini_are_listed_in_its_own_shape() {
    let server = Server::start([]);
    let mut connection = Connection::open(&server);
    connection.send(b"GET /v1beta/models HTTP/1.1\r\nhost: x\r\n\r\n");
    assert_eq!(connection.receive().json()["models"][0]["name"], "models/test-model");
}

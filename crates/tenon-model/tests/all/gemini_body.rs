//! What Gemini is sent.

use std::sync::Arc;

use tenon_core::{Message, Part, Request, Role, ToolCall, ToolChoice, ToolKind, ToolResult, ToolSpec};
use tenon_model::{Endpoint, Gemini, HttpRequest};
use tenon_testkit::{Value, json};

use crate::gemini::{endpoint, finish};
use crate::support::{KEY, Scripted, ask, block_on, request, sse};

fn exchange(endpoint: Endpoint, request: Request) -> HttpRequest {
    let transport = Scripted::new([vec![sse(&[finish("STOP")]).into_bytes()]]);
    block_on(ask(&Gemini::new(endpoint, transport.clone()), request));
    let seen = transport.seen.lock().unwrap();
    seen[0].clone()
}

/// The body that is sent for a request.
pub fn sent(request: Request) -> Value {
    serde_json::from_str(&exchange(endpoint("http://127.0.0.1"), request).body).unwrap()
}

fn text(text: &str) -> Part {
    Part::Text { text: text.into() }
}

fn call(id: &str, name: &str, arguments: &str, native: Option<Value>) -> Part {
    Part::ToolCall(ToolCall {
        id: id.into(),
        name: name.into(),
        arguments: arguments.into(),
        terminal: false,
        native,
    })
}

fn result(call_id: &str, name: &str, content: &str, is_error: bool) -> Part {
    Part::ToolResult(ToolResult {
        call_id: call_id.into(),
        name: name.into(),
        content: content.into(),
        is_error,
        media: Vec::new(),
        stored: Some("not this".into()),
    })
}

fn model(parts: Vec<Part>) -> Message {
    Message { role: Role::Assistant, parts }
}

fn user(parts: Vec<Part>) -> Message {
    Message { role: Role::User, parts }
}

fn contents(model: &str, messages: Vec<Message>) -> Value {
    sent(Request { model: model.into(), messages, ..request("") })["contents"].clone()
}

#[test]
fn a_first_request() {
    assert_eq!(
        exchange(endpoint("http://127.0.0.1"), request("hi")).body,
        r#"{"contents":[{"role":"user","parts":[{"text":"hi"}]}],"systemInstruction":{"parts":[{"text":"Be brief."}]}}"#
    );
    let plain = Request { system: String::new(), max_output_tokens: Some(7), ..request("hi") };
    assert_eq!(
        sent(plain),
        json!({"contents": [{"role": "user", "parts": [{"text": "hi"}]}], "generationConfig": {"maxOutputTokens": 7}})
    );
}

#[test]
fn address_and_headers() {
    let endpoint = Endpoint {
        headers: vec![("x-title".into(), "tenon".into()), ("x-proxy-token".into(), "other-secret".into())],
        ..endpoint("http://127.0.0.1:9/v1beta/")
    };
    let seen = exchange(endpoint.clone(), request("hi"));
    assert_eq!(seen.url, "http://127.0.0.1:9/v1beta/models/test-model:streamGenerateContent?alt=sse");
    let plain: Vec<_> = seen.headers.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    assert_eq!(
        plain,
        [
            ("x-title", "tenon"),
            ("content-type", "application/json"),
            ("accept", "text/event-stream, application/json"),
        ]
    );
    let secret: Vec<_> =
        seen.secret_headers.iter().map(|(name, value)| (name.as_str(), value.expose())).collect();
    assert_eq!(secret, [("x-proxy-token", "other-secret"), ("x-goog-api-key", KEY)]);
    let printed = format!("{seen:?}");
    assert!(!printed.contains(KEY) && !printed.contains("other-secret"), "{printed}");
    let without_key =
        exchange(Endpoint { api_key: None, headers: Vec::new(), ..endpoint.clone() }, request("hi"));
    assert!(without_key.secret_headers.is_empty());
    for name in ["X-Goog-Api-Key", "Authorization"] {
        let own = Endpoint { headers: vec![(name.into(), "my-own-secret".into())], ..endpoint.clone() };
        let seen = exchange(own, request("hi"));
        assert_eq!(seen.secret_headers.len(), 1, "{name}");
        assert_eq!(seen.secret_headers[0].1.expose(), "my-own-secret");
    }
}

#[test]
fn tools_and_a_forced_choice() {
    let schema = r#"{"$comment":"c","type":"object","properties":{"b":{"maximum":1.50},"a":{"const":123456789012345678901234567890}},"required":["b"]}"#;
    let sent = r#"{"type":"object","properties":{"b":{"maximum":1.50},"a":{"type":"number","enum":[123456789012345678901234567890]}},"required":["b"]}"#;
    let tool = |name: &str, parameters: &str| {
        Arc::new(ToolSpec {
            name: name.into(),
            description: format!("Does {name}."),
            parameters: serde_json::from_str(parameters).unwrap(),
            kind: ToolKind::Read,
        })
    };
    let request = Request {
        tools: vec![tool("read_file", r#"{"properties":{}}"#), tool("structured_output", schema)],
        tool_choice: ToolChoice::Force("structured_output".into()),
        system: String::new(),
        ..request("hi")
    };
    assert_eq!(
        exchange(endpoint("http://127.0.0.1"), request).body,
        format!(
            concat!(
                r#"{{"contents":[{{"role":"user","parts":[{{"text":"hi"}}]}}],"tools":[{{"functionDeclarations":["#,
                r#"{{"name":"read_file","description":"Does read_file.","parametersJsonSchema":{{"type":"object","properties":{{}}}}}},"#,
                r#"{{"name":"structured_output","description":"Does structured_output.","parametersJsonSchema":{sent}}}]}}],"#,
                r#""toolConfig":{{"functionCallingConfig":{{"mode":"ANY","allowedFunctionNames":["structured_output"]}}}}}}"#,
            ),
            sent = sent
        )
    );
}

#[test]
fn a_conversation_with_tools() {
    let native = |id: &str| {
        Some(
            json!({"wire": "gemini", "provider": "gemini", "id": id, "thoughtSignature": format!("sig-{id}")}),
        )
    };
    let messages = vec![
        user(vec![text("<context>")]),
        Message::user("read"),
        model(vec![
            text("Reading."),
            // The conversation's id may differ from the server's.
            call("a_2", "read_file", "{ \"n\": 1.50 }", native("a")),
            call("b", "ls", "", None),
            call("c", "ls", "[1]", None),
        ]),
        user(vec![
            text("And?"),
            result("a_2", "read_file", "one", false),
            result("b", "ls", "no such folder", true),
            result("c", "ls", "", false),
        ]),
        Message::user("Go on."),
        model(vec![Part::Thinking { text: "Hm.".into(), native: None }]),
        model(vec![text("Done"), text(".")]),
    ];
    assert_eq!(
        contents("gemini-3-pro", messages),
        json!([
            {"role": "user", "parts": [{"text": "<context>"}, {"text": "read"}]},
            {"role": "model", "parts": [
                {"text": "Reading."},
                {"functionCall": {"id": "a", "name": "read_file", "args": {"n": serde_json::from_str::<Value>("1.50").unwrap()}}, "thoughtSignature": "sig-a"},
                {"functionCall": {"name": "ls", "args": {}}},
                {"functionCall": {"name": "ls", "args": {"_raw": "[1]"}}},
            ]},
            {"role": "user", "parts": [
                {"functionResponse": {"id": "a", "name": "read_file", "response": {"output": "one"}}},
                {"functionResponse": {"name": "ls", "response": {"error": "no such folder"}}},
                {"functionResponse": {"name": "ls", "response": {"output": ""}}},
                {"text": "And?"},
                {"text": "Go on."},
            ]},
            {"role": "model", "parts": [{"text": "Done"}, {"text": "."}]},
        ])
    );
}

#[test]
fn signatures_go_back_on_their_parts() {
    let signed = |what: &str, bytes: usize, signature: &str| {
        Some(
            json!({"wire": "gemini", "provider": "gemini", "signed": what, "bytes": bytes, "thoughtSignature": signature}),
        )
    };
    let thinking = |text: &str, native| Part::Thinking { text: text.into(), native };
    for (parts, expected) in [
        (
            vec![thinking("Hmja", signed("thought", 2, "A")), text("x")],
            json!([{"text": "ja", "thought": true, "thoughtSignature": "A"}, {"text": "x"}]),
        ),
        (
            vec![text("Grüße"), thinking("", signed("text", 3, "B")), thinking("", signed("text", 0, "C"))],
            json!([{"text": "Grü"}, {"text": "ße", "thoughtSignature": "B"}, {"text": "", "thoughtSignature": "C"}]),
        ),
        (
            vec![text("ab"), thinking("", signed("text", 2, "B")), text("c")],
            json!([{"text": "ab", "thoughtSignature": "B"}, {"text": "c"}]),
        ),
        // An empty text with a signature right after a thought without one.
        (
            vec![thinking("Hm", signed("text", 0, "C")), text("x")],
            json!([{"text": "", "thoughtSignature": "C"}, {"text": "x"}]),
        ),
        // Not what we wrote, but no reason to fail.
        (
            vec![text("ü"), thinking("", signed("text", 1, "B"))],
            json!([{"text": "ü", "thoughtSignature": "B"}]),
        ),
        (vec![text("x"), thinking("", signed("song", 1, "B"))], json!([{"text": "x"}])),
        // From other providers.
        (
            vec![
                thinking(
                    "Because.",
                    Some(
                        json!({"wire": "anthropic", "thoughtSignature": "Z", "signed": "thought", "bytes": 1}),
                    ),
                ),
                thinking("So.", Some(json!({"field": "reasoning_content"}))),
                text("x"),
            ],
            json!([{"text": "x"}]),
        ),
    ] {
        let found = contents("gemini-3-pro", vec![Message::user("q"), model(parts)]);
        assert_eq!(found[1]["parts"], expected);
    }
}

#[test]
fn calls_from_elsewhere_are_marked_for_models_that_insist_on_signatures() {
    let foreign = || {
        let native = Some(json!({"wire": "openai_responses", "id": "item-1", "thoughtSignature": "Z"}));
        vec![Message::user("q"), model(vec![call("a", "ls", "{}", native), call("b", "ls", "{}", None)])]
    };
    let plain = json!({"functionCall": {"name": "ls", "args": {}}});
    let mut marked = plain.clone();
    marked["thoughtSignature"] = json!("skip_thought_signature_validator");
    for (model, first) in [
        ("gemini-3-pro-preview", &marked),
        ("models/gemini-4", &marked),
        ("gemini-flash-latest", &marked),
        ("gemini-2.5-pro", &plain),
        ("models/gemini-2.0-flash", &plain),
    ] {
        assert_eq!(contents(model, foreign())[1]["parts"], json!([first, plain]), "{model}");
    }
}

#[test]
fn natives_go_back_only_to_their_provider() {
    let conversation = || {
        let thought = json!({"wire": "gemini", "provider": "corp", "signed": "thought", "bytes": 3, "thoughtSignature": "A"});
        let signed = json!({"wire": "gemini", "provider": "corp", "signed": "text", "bytes": 1, "thoughtSignature": "B"});
        let called = json!({"wire": "gemini", "provider": "corp", "id": "fc-1", "thoughtSignature": "C"});
        let messages = vec![
            Message::user("q"),
            model(vec![
                Part::Thinking { text: "Hm.".into(), native: Some(thought) },
                text("x"),
                Part::Thinking { text: String::new(), native: Some(signed) },
                call("a", "ls", "{}", Some(called)),
            ]),
            user(vec![result("a", "ls", "one", false)]),
        ];
        Request { model: "gemini-3-pro".into(), messages, ..request("") }
    };
    let turns = |provider: &str| {
        let endpoint = Endpoint { provider: provider.into(), ..endpoint("http://127.0.0.1") };
        let body: Value = serde_json::from_str(&exchange(endpoint, conversation()).body).unwrap();
        json!([body["contents"][1]["parts"], body["contents"][2]["parts"]])
    };
    assert_eq!(
        turns("corp"),
        json!([
            [
                {"text": "Hm.", "thought": true, "thoughtSignature": "A"},
                {"text": "x", "thoughtSignature": "B"},
                {"functionCall": {"id": "fc-1", "name": "ls", "args": {}}, "thoughtSignature": "C"},
            ],
            [{"functionResponse": {"id": "fc-1", "name": "ls", "response": {"output": "one"}}}],
        ])
    );
    assert_eq!(
        turns("gemini"),
        json!([
            [
                {"text": "x"},
                {"functionCall": {"name": "ls", "args": {}}, "thoughtSignature": "skip_thought_signature_validator"},
            ],
            [{"functionResponse": {"name": "ls", "response": {"output": "one"}}}],
        ])
    );
}

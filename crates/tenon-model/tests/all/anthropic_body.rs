//! What is sent to the Messages API.

use std::sync::Arc;

use tenon_core::{
    Message, Part, Request, Role, Secret, ToolCall, ToolChoice, ToolKind, ToolResult, ToolSpec,
};
use tenon_model::Endpoint;
use tenon_testkit::{Server, Value, json, reply};

use crate::anthropic::{client, endpoint_at, sent, sent_from};
use crate::support::{KEY, ask, request};

fn tool(name: &str, parameters: &str) -> Arc<ToolSpec> {
    Arc::new(ToolSpec {
        name: name.into(),
        description: format!("Does {name}."),
        parameters: serde_json::from_str(parameters).unwrap(),
        kind: ToolKind::Read,
    })
}

fn text(text: &str) -> Part {
    Part::Text { text: text.into() }
}

fn call(id: &str, arguments: &str) -> Part {
    Part::ToolCall(ToolCall {
        id: id.into(),
        name: "read_file".into(),
        arguments: arguments.into(),
        terminal: false,
        native: None,
    })
}

fn result(call_id: &str, content: &str, is_error: bool) -> Part {
    let (call_id, content) = (call_id.into(), content.into());
    Part::ToolResult(ToolResult {
        call_id,
        name: "read_file".into(),
        content,
        is_error,
        media: Vec::new(),
        stored: None,
    })
}

fn thinking(text: &str, native: Value) -> Part {
    Part::Thinking { text: text.into(), native: Some(native) }
}

fn user(parts: Vec<Part>) -> Message {
    Message { role: Role::User, parts }
}

fn assistant(parts: Vec<Part>) -> Message {
    Message { role: Role::Assistant, parts }
}

fn messages(messages: Vec<Message>) -> Value {
    sent(Request { messages, ..request("") })["messages"].clone()
}

#[test]
fn a_first_request() {
    assert_eq!(
        sent(request("hi")).to_string(),
        r#"{"model":"test-model","max_tokens":32000,"system":[{"type":"text","text":"Be brief.","cache_control":{"type":"ephemeral"}}],"messages":[{"role":"user","content":[{"type":"text","text":"hi","cache_control":{"type":"ephemeral"}}]}],"stream":true}"#
    );
    let plain = Request { system: " \n".into(), max_output_tokens: Some(7), ..request("hi") };
    let body = sent(plain);
    assert_eq!((&body["system"], &body["max_tokens"]), (&Value::Null, &json!(7)));
}

#[test]
fn a_conversation_with_everything() {
    let signed =
        |signature: &str| json!({"wire": "anthropic", "provider": "anthropic", "signature": signature});
    let schema = r#"{"zeta":1,"type":"object","properties":{"b":{"maximum":1.50},"a":{"const":123456789012345678901234567890}}}"#;
    let body = sent(Request {
        tools: vec![tool("read_file", r#"{"properties":{}}"#), tool("structured_output", schema)],
        messages: vec![
            Message::user("read"),
            assistant(vec![
                thinking("Because.", signed("c2ln+/=")),
                thinking("", json!({"wire": "anthropic", "provider": "anthropic", "redacted": "eHl6"})),
                text("Reading.\n"),
                call("a", "{ \"file_path\" : \"x\",\n \"n\": 1.0, \"e\": 1e2 }"),
                thinking("In between.", signed("two")),
                call("b", "not json"),
                call("c", ""),
            ]),
            user(vec![
                text("And?"),
                result("a", "one", false),
                result("b", "no such file", true),
                result("c", "", false),
            ]),
            assistant(vec![text("Done.")]),
            Message::user("again"),
        ],
        ..request("")
    });
    let cached = json!({"type": "ephemeral"});
    let expected = json!({
        "model": "test-model",
        "max_tokens": 32000,
        "system": [{"type": "text", "text": "Be brief.", "cache_control": cached}],
        "tools": [
            {"name": "read_file", "description": "Does read_file.", "input_schema": {"type": "object", "properties": {}}},
            {"name": "structured_output", "description": "Does structured_output.",
             "input_schema": serde_json::from_str::<Value>(schema).unwrap(), "cache_control": cached},
        ],
        "tool_choice": {"type": "auto"},
        "messages": [
            {"role": "user", "content": [{"type": "text", "text": "read"}]},
            {"role": "assistant", "content": [
                {"type": "thinking", "thinking": "Because.", "signature": "c2ln+/="},
                {"type": "redacted_thinking", "data": "eHl6"},
                {"type": "text", "text": "Reading.\n"},
                {"type": "tool_use", "id": "a", "name": "read_file", "input": {"file_path": "x", "n": 1.0, "e": serde_json::from_str::<Value>("1e2").unwrap()}},
                {"type": "thinking", "thinking": "In between.", "signature": "two"},
                {"type": "tool_use", "id": "b", "name": "read_file", "input": {"_raw": "not json"}},
                {"type": "tool_use", "id": "c", "name": "read_file", "input": {}},
            ]},
            {"role": "user", "content": [
                {"type": "tool_result", "tool_use_id": "a", "content": "one"},
                {"type": "tool_result", "tool_use_id": "b", "content": "no such file", "is_error": true},
                {"type": "tool_result", "tool_use_id": "c"},
                {"type": "text", "text": "And?", "cache_control": cached},
            ]},
            {"role": "assistant", "content": [{"type": "text", "text": "Done."}]},
            {"role": "user", "content": [{"type": "text", "text": "again", "cache_control": cached}]},
        ],
        "stream": true,
    });
    assert_eq!(body, expected);
    assert_eq!(body["tools"][1]["input_schema"].to_string(), schema, "as it was written");
    assert_eq!(body.to_string().matches("cache_control").count(), 4);
}

#[test]
fn arguments_keep_their_source_text() {
    let messages = vec![Message::user("x"), assistant(vec![call("a", r#"{"n": 1e2, "m":1.0}"#)])];
    let body = sent_from(endpoint_at("http://127.0.0.1:1"), Request { messages, ..request("") }).body;
    assert!(body.contains(r#""input":{"n": 1e2, "m":1.0}"#), "{body}");
}

#[test]
fn a_forced_tool() {
    let tools = vec![tool("structured_output", "{}")];
    let force = ToolChoice::Force("structured_output".into());
    let body = sent(Request { tools, tool_choice: force.clone(), ..request("hi") });
    assert_eq!(body["tool_choice"], json!({"type": "tool", "name": "structured_output"}));
    assert_eq!(body["tools"][0]["input_schema"], json!({"type": "object"}));
    let body = sent(Request { tool_choice: force, ..request("hi") });
    assert_eq!(body.get("tool_choice"), None, "nothing to choose from");
}

#[test]
fn thinking_of_other_wires_stays_behind() {
    let foreign = [
        json!({"field": "reasoning_content"}),
        json!({"wire": "gemini", "signature": "s"}),
        json!({"wire": "anthropic", "provider": "anthropic"}),
        json!("anthropic"),
        Value::Null,
    ];
    for native in foreign {
        let turn = assistant(vec![thinking("Hm.", native.clone()), text("Yes.")]);
        let sent = messages(vec![Message::user("a"), turn, Message::user("b")]);
        assert_eq!(
            sent[1],
            json!({"role": "assistant", "content": [{"type": "text", "text": "Yes."}]}),
            "{native}"
        );
    }
}

#[test]
fn thinking_goes_back_only_to_its_provider() {
    let kept = |provider: &str, key: &str| json!({"wire": "anthropic", "provider": provider, key: "s"});
    let conversation = || {
        let turn = assistant(vec![
            thinking("Hm.", kept("corp", "signature")),
            thinking("", kept("corp", "redacted")),
            thinking("Ja.", kept("anthropic", "signature")),
            thinking("", kept("anthropic", "redacted")),
            thinking("So.", json!({"wire": "anthropic", "signature": "s"})),
            text("Yes."),
        ]);
        Request { messages: vec![Message::user("a"), turn, Message::user("b")], ..request("") }
    };
    for (provider, thought) in [("anthropic", Some("Ja.")), ("corp", Some("Hm.")), ("other", None)] {
        let endpoint = Endpoint { provider: provider.into(), ..endpoint_at("http://127.0.0.1") };
        let seen: Value = serde_json::from_str(&sent_from(endpoint, conversation()).body).unwrap();
        let mut expected = Vec::new();
        if let Some(thought) = thought {
            expected.push(json!({"type": "thinking", "thinking": thought, "signature": "s"}));
            expected.push(json!({"type": "redacted_thinking", "data": "s"}));
        }
        expected.push(json!({"type": "text", "text": "Yes."}));
        assert_eq!(seen["messages"][1]["content"], json!(expected), "{provider}");
    }
}

#[test]
fn what_the_wire_refuses_is_not_sent() {
    let signed = || thinking("Hm.", json!({"wire": "anthropic", "provider": "anthropic", "signature": "s"}));
    let roles_and_texts = |messages: &Value| -> Vec<String> {
        let turn = |message: &Value| {
            let blocks = message["content"].as_array().unwrap();
            let shown: Vec<&str> = blocks
                .iter()
                .map(|block| block["text"].as_str().or(block["type"].as_str()).unwrap())
                .collect();
            format!("{}: {}", message["role"].as_str().unwrap(), shown.join("|"))
        };
        messages.as_array().unwrap().iter().map(turn).collect()
    };
    for (what, conversation, expected) in [
        ("users in a row are one", vec![Message::user("a"), Message::user("b")], vec!["user: a|b"]),
        (
            "blank texts are left out, and so are turns with nothing else",
            vec![Message::user("a"), assistant(vec![text(" \n")]), user(vec![text(""), text("b")])],
            vec!["user: a|b"],
        ),
        (
            "a turn does not end in thinking",
            vec![Message::user("a"), assistant(vec![text("x"), signed(), signed()]), Message::user("b")],
            vec!["user: a", "assistant: x", "user: b"],
        ),
        (
            "a turn of nothing but thinking is none",
            vec![Message::user("a"), assistant(vec![signed(), text("\n")]), Message::user("b")],
            vec!["user: a|b"],
        ),
        (
            "an answer to be continued does not end in white space",
            vec![Message::user("a"), assistant(vec![text("x \n")])],
            vec!["user: a", "assistant: x"],
        ),
        (
            "results come first, whichever message brought them",
            vec![
                Message::user("a"),
                assistant(vec![call("1", "{}")]),
                Message::user("b"),
                user(vec![text("c"), result("1", "r", false)]),
            ],
            vec!["user: a", "assistant: tool_use", "user: tool_result|b|c"],
        ),
    ] {
        assert_eq!(roles_and_texts(&messages(conversation)), expected, "{what}");
    }
}

#[test]
fn ids_of_other_wires_are_spelled_so_that_they_are_taken() {
    let conversation = vec![
        Message::user("a"),
        assistant(vec![call("functions.read_file:0", "{}"), call("toolu_A-1", "{}")]),
        user(vec![result("functions.read_file:0", "x", false), result("toolu_A-1", "y", false)]),
    ];
    let sent = messages(conversation);
    let ids = |message: usize, key: &str| -> Vec<Value> {
        sent[message]["content"].as_array().unwrap().iter().map(|block| block[key].clone()).collect()
    };
    assert_eq!(ids(1, "id"), ids(2, "tool_use_id"));
    assert_eq!(ids(1, "id"), [json!("functions_2eread_file_3a0"), json!("toolu_A-1")]);
}

#[test]
fn the_address_has_one_version() {
    for (base, url) in [
        ("https://api.anthropic.com", "https://api.anthropic.com/v1/messages"),
        ("https://api.anthropic.com/", "https://api.anthropic.com/v1/messages"),
        ("https://x.example/anthropic/v1/", "https://x.example/anthropic/v1/messages"),
        ("https://x.example/anthropic", "https://x.example/anthropic/v1/messages"),
        ("https://x.example/v1/messages", "https://x.example/v1/messages"),
        ("https://x.example/v1?a=b", "https://x.example/v1/messages?a=b"),
    ] {
        assert_eq!(sent_from(endpoint_at(base), request("hi")).url, url, "{base}");
    }
}

#[tokio::test]
async fn headers() {
    let server = Server::start([reply().text("x")]);
    assert_eq!(ask(&client(&server), request("hi")).await.text, "x");
    let seen = server.request(0);
    assert_eq!(seen.path, "/v1/messages");
    for (name, value) in [
        ("x-api-key", KEY),
        ("anthropic-version", "2023-06-01"),
        ("content-type", "application/json"),
        ("user-agent", "tenon/test"),
    ] {
        assert_eq!(seen.header(name), Some(value), "{name}");
    }
    assert_eq!(seen.header("authorization"), None);
}

#[test]
fn the_key_is_secret_and_own_headers_come_once() {
    let headers = vec![
        ("X-Api-Key".into(), "other-secret".into()),
        ("Anthropic-Version".into(), "2099-01-01".into()),
        ("anthropic-beta".into(), "x".into()),
    ];
    let endpoint = Endpoint { headers, ..endpoint_at("http://127.0.0.1") };
    let seen = sent_from(endpoint.clone(), request("hi"));
    assert_eq!(seen.secret_headers, [("X-Api-Key".to_owned(), Secret::new("other-secret"))]);
    let names: Vec<&str> = seen.headers.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["Anthropic-Version", "anthropic-beta", "content-type", "accept"]);
    assert!(!format!("{seen:?}").contains("secret\""), "{seen:?}");
    let seen = sent_from(Endpoint { headers: Vec::new(), ..endpoint }, request("hi"));
    assert_eq!(seen.secret_headers, [("x-api-key".to_owned(), Secret::new(KEY))]);
}

fn refusal(message: &str) -> tenon_testkit::Reply {
    reply().status(400).json(
        json!({"type": "error", "error": {"type": "invalid_request_error", "message": message}, "request_id": "req_1"}),
    )
}

fn asked_for(server: &Server, field: &str) -> Vec<Value> {
    server.requests().iter().map(|request| request.body[field].clone()).collect()
}

#[tokio::test]
async fn a_model_that_writes_less_is_believed_and_remembered() {
    let too_much =
        "max_tokens: 32000 > 8192, which is the maximum allowed number of output tokens for test-model";
    let server = Server::start([refusal(too_much), reply().text("x"), reply().text("y"), reply().text("z")]);
    let client = client(&server);
    assert_eq!(ask(&client, request("hi")).await.text, "x");
    assert_eq!(ask(&client, request("again")).await.text, "y");
    assert_eq!(ask(&client, Request { model: "other".into(), ..request("hi") }).await.text, "z");
    assert_eq!(asked_for(&server, "max_tokens"), [json!(32_000), json!(8192), json!(8192), json!(32_000)]);
    server.assert_script_done();
}

#[tokio::test]
async fn a_limit_is_believed_once() {
    let server = Server::start([
        refusal("max_tokens: 32000 > 8192, which is the maximum"),
        refusal("max_tokens: 8192 > 4096, which is the maximum"),
    ]);
    let answer = ask(&client(&server), request("hi")).await;
    assert_eq!(answer.error().http_status, Some(400));
    assert!(answer.error().message.contains("8192 > 4096"), "{:?}", answer.error());
    assert_eq!(server.requests().len(), 2);
}

#[tokio::test]
async fn a_model_that_cannot_be_forced_is_asked() {
    let refused = || refusal("tool_choice forces tool use is not compatible with this model.");
    let server = Server::start([refused(), reply().text("x"), reply().text("y")]);
    let client = client(&server);
    let forced = || Request {
        tools: vec![tool("structured_output", "{}")],
        tool_choice: ToolChoice::Force("structured_output".into()),
        ..request("hi")
    };
    assert_eq!(ask(&client, forced()).await.text, "x");
    assert_eq!(ask(&client, forced()).await.text, "y");
    let (force, auto) = (json!({"type": "tool", "name": "structured_output"}), json!({"type": "auto"}));
    assert_eq!(asked_for(&server, "tool_choice"), [force, auto.clone(), auto]);

    let server = Server::start([refused().forever()]);
    let answer = ask(&self::client(&server), forced()).await;
    assert_eq!((answer.error().http_status, server.requests().len()), (Some(400), 2));
}

//! What is sent.

use std::sync::Arc;

use tenon_core::{
    Message, Part, Request, ResponseFormat, Role, Secret, ToolCall, ToolChoice, ToolKind, ToolResult,
    ToolSpec,
};
use tenon_model::{Endpoint, OpenAiChat};
use tenon_testkit::{Server, Value, json, reply};

use crate::support::{KEY, Scripted, ask, block_on, client, endpoint, finish, request, sse};

/// The body that is sent for a request.
fn sent(request: Request) -> Value {
    sent_to("http://127.0.0.1:1/v1", request)
}

fn sent_to(base_url: &str, request: Request) -> Value {
    let transport = Scripted::new([vec![sse(&[finish("stop")]).into_bytes()]]);
    block_on(ask(&OpenAiChat::new(endpoint(base_url), transport.clone()), request));
    let seen = transport.seen.lock().unwrap();
    serde_json::from_str(&seen[0].body).unwrap()
}

fn tool(name: &str, parameters: &str) -> Arc<ToolSpec> {
    Arc::new(ToolSpec {
        name: name.into(),
        description: format!("Does {name}."),
        parameters: serde_json::from_str(parameters).unwrap(),
        kind: ToolKind::Read,
    })
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

fn result(call_id: &str, content: &str) -> Part {
    Part::ToolResult(ToolResult {
        call_id: call_id.into(),
        name: "read_file".into(),
        content: content.into(),
        is_error: false,
        media: Vec::new(),
        stored: Some("not this".into()),
    })
}

#[test]
fn a_first_request() {
    assert_eq!(
        sent(request("hi")).to_string(),
        r#"{"model":"test-model","messages":[{"role":"system","content":"Be brief."},{"role":"user","content":"hi"}],"stream":true,"stream_options":{"include_usage":true}}"#
    );
    let plain = Request { system: String::new(), ..request("hi") };
    assert_eq!(sent(plain)["messages"], json!([{"role": "user", "content": "hi"}]));
}

#[test]
fn a_conversation_is_sent_back_as_it_came() {
    let thinking = |text: &str, field: &str| Part::Thinking {
        text: text.into(),
        native: Some(json!({ "field": field })),
    };
    let messages = vec![
        Message::user("read"),
        Message {
            role: Role::Assistant,
            parts: vec![
                thinking("Because.", "reasoning_content"),
                Part::Text { text: "Reading.".into() },
                call("a", "{ \"file_path\" : \"x\", \"n\": 1.0 }"),
                call("b", "not json"),
                call("c", ""),
                call("d", "[1]"),
            ],
        },
        Message {
            role: Role::User,
            parts: vec![result("a", "one"), result("b", "two"), Part::Text { text: "And?".into() }],
        },
        Message { role: Role::Assistant, parts: vec![thinking("Not sent.", "reasoning"), call("e", "{}")] },
        Message { role: Role::User, parts: vec![result("e", "")] },
        Message { role: Role::Assistant, parts: vec![Part::Text { text: "Done.".into() }] },
    ];
    let function = |arguments: &str| json!({"name": "read_file", "arguments": arguments});
    assert_eq!(
        sent(Request { system: String::new(), messages, ..request("") })["messages"],
        json!([
            {"role": "user", "content": "read"},
            {"role": "assistant", "content": "Reading.", "reasoning_content": "Because.", "tool_calls": [
                {"id": "a", "type": "function", "function": function("{ \"file_path\" : \"x\", \"n\": 1.0 }")},
                {"id": "b", "type": "function", "function": function("{\"_raw\":\"not json\"}")},
                {"id": "c", "type": "function", "function": function("{}")},
                {"id": "d", "type": "function", "function": function("{\"_raw\":\"[1]\"}")},
            ]},
            {"role": "tool", "tool_call_id": "a", "content": "one"},
            {"role": "tool", "tool_call_id": "b", "content": "two"},
            {"role": "user", "content": "And?"},
            {"role": "assistant", "content": null, "tool_calls": [
                {"id": "e", "type": "function", "function": function("{}")},
            ]},
            {"role": "tool", "tool_call_id": "e", "content": ""},
            {"role": "assistant", "content": "Done."},
        ])
    );
}

#[test]
fn tools_keep_their_schema_as_written() {
    let schema = r#"{"zeta":1,"type":"object","properties":{"b":{"maximum":1.50},"a":{"const":123456789012345678901234567890}},"required":["b"]}"#;
    let tools = vec![tool("read_file", r#"{"properties":{}}"#), tool("structured_output", schema)];
    let request =
        Request { tools, tool_choice: ToolChoice::Force("structured_output".into()), ..request("hi") };
    let body = sent(request);
    assert_eq!(
        body["tools"].to_string(),
        format!(
            r#"[{{"type":"function","function":{{"name":"read_file","description":"Does read_file.","parameters":{{"type":"object","properties":{{}}}}}}}},{{"type":"function","function":{{"name":"structured_output","description":"Does structured_output.","parameters":{schema}}}}}]"#
        )
    );
    assert_eq!(body["tool_choice"], json!({"type": "function", "function": {"name": "structured_output"}}));
}

#[test]
fn the_output_limit_has_two_names() {
    let limited = || Request { max_output_tokens: Some(7), ..request("hi") };
    assert_eq!(sent(limited())["max_tokens"], json!(7));
    let openai = sent_to("https://api.openai.com/v1", limited());
    assert_eq!((&openai["max_tokens"], &openai["max_completion_tokens"]), (&Value::Null, &json!(7)));
}

#[tokio::test]
async fn headers_and_path() {
    let server = Server::start([reply().text("x"), reply().text("x")]);
    let endpoint = Endpoint {
        headers: vec![("x-title".into(), "tenon".into()), ("x-api-key".into(), "other-secret".into())],
        ..endpoint(&server.base_url())
    };
    ask(&OpenAiChat::new(endpoint.clone(), crate::support::http()), request("hi")).await;
    let seen = server.request(0);
    assert_eq!(seen.path, "/v1/chat/completions");
    for (name, value) in [
        ("authorization", format!("Bearer {KEY}")),
        ("content-type", "application/json".into()),
        ("user-agent", "tenon/test".into()),
        ("x-title", "tenon".into()),
        ("x-api-key", "other-secret".into()),
    ] {
        assert_eq!(seen.header(name), Some(value.as_str()));
    }
    let without_key = Endpoint { api_key: None, ..endpoint };
    ask(&OpenAiChat::new(without_key, crate::support::http()), request("hi")).await;
    assert_eq!(server.request(1).header("authorization"), None);
}

#[test]
fn secrets_are_apart_and_do_not_print() {
    let transport = Scripted::new([vec![sse(&[finish("stop")]).into_bytes()]]);
    let headers = vec![("X-Api-Key".into(), "other-secret".into()), ("x-title".into(), "tenon".into())];
    let endpoint = Endpoint { headers, ..endpoint("http://127.0.0.1/v1") };
    let printed = format!("{endpoint:?}");
    assert!(!printed.contains(KEY) && !printed.contains("other-secret"), "{printed}");
    block_on(ask(&OpenAiChat::new(endpoint, transport.clone()), request("hi")));
    let seen = transport.seen.lock().unwrap();
    let secret: Vec<&str> = seen[0].secret_headers.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(secret, ["X-Api-Key", "authorization"]);
    let printed = format!("{:?}", seen[0]);
    assert!(!printed.contains(KEY) && !printed.contains("other-secret"), "{printed}");
}

#[tokio::test]
async fn stream_options_are_left_out_for_servers_that_refuse_them() {
    let refusal = || reply().status(400).json(json!({"error": {"message": "Unknown field: stream_options"}}));
    let server = Server::start([refusal(), reply().text("x"), reply().text("y")]);
    let client = client(&server);
    assert_eq!(ask(&client, request("hi")).await.text, "x");
    assert_eq!(ask(&client, request("again")).await.text, "y");
    let has_options: Vec<bool> =
        server.requests().iter().map(|request| request.body.get("stream_options").is_some()).collect();
    assert_eq!(has_options, [true, false, false]);
    server.assert_script_done();
}

#[tokio::test]
async fn a_server_that_blames_stream_options_without_reason_is_asked_twice_only() {
    let refusal = reply().status(422).json(json!({"detail": "stream_options is bad"})).forever();
    let server = Server::start([refusal]);
    let answer = ask(&client(&server), request("hi")).await;
    assert_eq!(answer.error().http_status, Some(422));
    assert_eq!(server.requests().len(), 2);
}

#[test]
fn a_key_with_a_line_break_is_refused_before_sending() {
    let endpoint = Endpoint { api_key: Some(Secret::new("sk-a\nb")), ..endpoint("http://127.0.0.1:9/v1") };
    let client =
        OpenAiChat::new(endpoint, Arc::new(tenon_model::Http::new(tenon_model::HttpOptions::default())));
    let answer = block_on(ask(&client, request("hi")));
    assert_eq!(answer.error().class, tenon_core::ErrorClass::Config);
}

#[tokio::test]
async fn a_server_that_cannot_be_told_which_tool_to_call_is_asked_without() {
    let server = Server::start([
        reply().status(400).json(json!({"error": {
            "message": "this model does not support this tool_choice", "param": "tool_choice"
        }})),
        reply().call("c", "structured_output", json!({"n": 1})),
        reply().text("again"),
    ]);
    let client = client(&server);
    let forced = || Request {
        tools: vec![tool("structured_output", "{}")],
        tool_choice: ToolChoice::Force("structured_output".into()),
        ..request("hi")
    };
    let answer = ask(&client, forced()).await;
    assert_eq!(answer.calls.len(), 1);
    ask(&client, forced()).await;
    let sent: Vec<bool> =
        server.requests().iter().map(|sent| sent.body.get("tool_choice").is_some()).collect();
    assert_eq!(sent, [true, false, false]);
}

#[test]
fn a_turn_in_which_nothing_was_said_is_not_sent_back() {
    let silent = Message { role: Role::Assistant, parts: Vec::new() };
    let asked =
        Request { messages: vec![Message::user("hi"), silent, Message::user("go on")], ..request("hi") };
    let roles: Vec<String> = sent(asked)["messages"]
        .as_array()
        .unwrap()
        .iter()
        .map(|message| message["role"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(roles.iter().filter(|role| *role == "assistant").count(), 0, "{roles:?}");
}

#[test]
fn a_response_format_is_strict_only_where_nothing_has_to_be_undone() {
    let closed = json!({"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"], "additionalProperties": false});
    let optional =
        json!({"type": "object", "properties": {"a": {"type": "string"}}, "additionalProperties": false});
    let openai = "https://api.openai.com/v1";
    for (base_url, schema, strict) in [
        (openai, &closed, true),
        (openai, &optional, false),
        ("https://models.example.com/v1", &closed, false),
    ] {
        let format = ResponseFormat { name: "structured_output".into(), schema: schema.clone() };
        let body = sent_to(base_url, Request { response_format: Some(format), ..request("hi") });
        let sent = &body["response_format"]["json_schema"];
        assert_eq!(sent.get("strict").unwrap_or(&json!(false)), &json!(strict), "{base_url}: {sent}");
        assert_eq!(&sent["schema"], schema);
    }
}

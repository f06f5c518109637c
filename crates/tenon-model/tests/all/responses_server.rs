//! The Responses API over the network, against the scripted server.

use tenon_core::{ErrorClass, FinishReason, Message, Part, Request, Role, ToolCall, ToolResult, Usage};
use tenon_model::OpenAiResponses;
use tenon_testkit::{Server, json, reply};

use crate::support::{Answer, ask, endpoint, http, request};

fn client(server: &Server) -> OpenAiResponses {
    OpenAiResponses::new(endpoint(&server.base_url()), http())
}

#[tokio::test]
async fn a_call_and_its_result() {
    let server = Server::start([
        reply()
            .reasoning("Let me ")
            .reasoning("look.")
            .signature("gAAA==")
            .text("Looking.")
            .call_raw("call_1", "read_file", r#"{"n": 1.50}"#)
            .usage(11, 7),
        reply().text_chunks(["Do", "ne."]).chunk_by(3),
    ]);
    let client = client(&server);
    let first = ask(&client, request("read")).await;
    let native = first.native.clone().unwrap();
    assert_eq!(native["item"]["encrypted_content"], json!("gAAA=="));
    let expected = Answer {
        call_natives: first.call_natives.clone(),
        text: "Looking.".into(),
        thinking: "Let me look.".into(),
        native: Some(native.clone()),
        calls: vec![("call_1".into(), "read_file".into(), r#"{"n": 1.50}"#.into())],
        usage: Some(Usage { input: 11, output: 7, total: 18, ..Usage::default() }),
        finish: Some(FinishReason::ToolCalls),
        ..Answer::default()
    };
    assert_eq!(first, expected);

    let call = ToolCall {
        id: "call_1".into(),
        name: "read_file".into(),
        arguments: r#"{"n": 1.50}"#.into(),
        terminal: false,
        native: Some(first.call_natives[0].1.clone()),
    };
    let result = ToolResult {
        call_id: "call_1".into(),
        name: "read_file".into(),
        content: "hi".into(),
        is_error: false,
        media: Vec::new(),
        stored: None,
    };
    let parts = vec![
        Part::Thinking { text: first.thinking, native: Some(native.clone()) },
        Part::Text { text: first.text },
        Part::ToolCall(call),
    ];
    let messages = vec![
        Message::user("read"),
        Message { role: Role::Assistant, parts },
        Message { role: Role::User, parts: vec![Part::ToolResult(result)] },
    ];
    let second = ask(&client, Request { messages, ..request("") }).await;
    assert_eq!((second.text.as_str(), second.finish), ("Done.", Some(FinishReason::Stop)));

    let input = server.request(1).body["input"].clone();
    let item = &first.call_natives[0].1["id"];
    assert_eq!(
        input,
        json!([
            {"type": "message", "role": "user", "content": "read"},
            native["item"],
            {"type": "message", "role": "assistant", "content": "Looking."},
            {"type": "function_call", "id": item, "call_id": "call_1", "name": "read_file", "arguments": "{\"n\": 1.50}"},
            {"type": "function_call_output", "call_id": "call_1", "output": "hi"},
        ])
    );
    server.assert_script_done();
}

#[tokio::test]
async fn the_same_answer_in_every_framing() {
    let script = || {
        reply().reasoning("Hm.").signature("x").text("Grüße").call("c", "f", json!({"a": [1, 2]})).usage(3, 4)
    };
    let server = Server::start([
        script(),
        script().crlf(),
        script().no_space(),
        script().keepalives(),
        script().until_close(),
        script().whole(),
        script().chunk_by(1),
        script().chunk_by(7).crlf().keepalives(),
    ]);
    let client = client(&server);
    // The server's ids of items count its answers.
    let told = |answer: Answer| {
        let Answer { text, thinking, native, calls, usage, finish, error, .. } = answer;
        (
            text,
            thinking,
            native.map(|native| native["item"]["encrypted_content"].clone()),
            calls,
            usage,
            finish,
            error,
        )
    };
    let first = told(ask(&client, request("hi")).await);
    assert_eq!((first.0.as_str(), first.1.as_str(), &first.2), ("Grüße", "Hm.", &Some(json!("x"))));
    for number in 1..8 {
        assert_eq!(told(ask(&client, request("hi")).await), first, "framing {number}");
    }
    server.assert_script_done();
}

#[tokio::test]
async fn endings_and_what_may_go_wrong_on_the_way() {
    let server =
        Server::start([reply().text("a").finish("length"), reply().text("a").finish("content_filter")]);
    let cut_off = client(&server);
    assert_eq!(ask(&cut_off, request("hi")).await.finish, Some(FinishReason::Length));
    assert_eq!(ask(&cut_off, request("hi")).await.finish, Some(FinishReason::Refused));
    for (reply, class, retryable) in [
        (reply().text("a").no_finish(), ErrorClass::Network, true),
        (reply().text("a").cut_after_events(2), ErrorClass::Network, true),
        (
            reply().text("a").error_event(json!({"code": "server_error", "message": "m"})),
            ErrorClass::Protocol,
            true,
        ),
        (
            reply().text("a").failed(json!({"code": "rate_limit_exceeded", "message": "m"})),
            ErrorClass::RateLimited,
            true,
        ),
        (reply().status(429), ErrorClass::RateLimited, true),
        (reply().status(401), ErrorClass::Auth, false),
        (reply().raw_body("text/html", "<p>Sign in"), ErrorClass::Protocol, false),
    ] {
        let server = Server::start([reply]);
        let answer = ask(&client(&server), request("hi")).await;
        let error = answer.error();
        assert_eq!((error.class, error.retryable), (class, retryable), "{error:?}");
    }
}

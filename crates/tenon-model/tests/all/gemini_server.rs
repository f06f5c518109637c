//! Gemini over the network, against the scripted server.

use tenon_core::{ErrorClass, FinishReason, Message, Part, Request, Role, ToolCall, ToolResult};
use tenon_model::Gemini;
use tenon_testkit::{Server, json, reply};

use crate::gemini::endpoint;
use crate::support::{KEY, ask, http, request};

fn client(server: &Server) -> Gemini {
    Gemini::new(endpoint(&server.origin()), http())
}

#[tokio::test]
async fn a_call_and_its_result() {
    let server = Server::start([
        reply()
            .reasoning("Let me look.")
            .signature("sig-1")
            .call_raw("fc-1", "read_file", r#"{"n": 1.50}"#)
            .usage(11, 7),
        reply().text_chunks(["Do", "ne."]).chunk_by(3),
    ]);
    let client = client(&server);
    let first = ask(&client, request("read")).await;
    assert_eq!(first.error, None);
    assert_eq!(first.thinking, "Let me look.");
    assert_eq!(first.calls, [("fc-1".into(), "read_file".into(), r#"{"n": 1.50}"#.into())]);
    assert_eq!(first.finish, Some(FinishReason::ToolCalls));
    assert_eq!(first.usage.map(|usage| (usage.input, usage.output)), Some((11, 7)));

    let (_, native) = first.call_natives[0].clone();
    let call = ToolCall {
        id: "fc-1".into(),
        name: "read_file".into(),
        arguments: r#"{"n": 1.50}"#.into(),
        terminal: false,
        native: Some(native),
    };
    let result = ToolResult {
        call_id: "fc-1".into(),
        name: "read_file".into(),
        content: "hi".into(),
        is_error: false,
        media: Vec::new(),
        stored: None,
    };
    let messages = vec![
        Message::user("read"),
        Message {
            role: Role::Assistant,
            parts: vec![Part::Thinking { text: first.thinking, native: None }, Part::ToolCall(call)],
        },
        Message { role: Role::User, parts: vec![Part::ToolResult(result)] },
    ];
    let second = ask(&client, Request { messages, ..request("") }).await;
    assert_eq!((second.text.as_str(), second.finish), ("Done.", Some(FinishReason::Stop)));

    let seen = server.request(1);
    assert_eq!(seen.path, "/v1beta/models/test-model:streamGenerateContent?alt=sse");
    assert_eq!(seen.header("x-goog-api-key"), Some(KEY));
    assert_eq!(
        seen.body["contents"].to_string(),
        concat!(
            r#"[{"role":"user","parts":[{"text":"read"}]},"#,
            r#"{"role":"model","parts":[{"functionCall":{"id":"fc-1","name":"read_file","args":{"n":1.50}},"thoughtSignature":"sig-1"}]},"#,
            r#"{"role":"user","parts":[{"functionResponse":{"id":"fc-1","name":"read_file","response":{"output":"hi"}}}]}]"#,
        )
    );
    server.assert_script_done();
}

#[tokio::test]
async fn what_may_go_wrong_on_the_way() {
    for (reply, class) in [
        (reply().text("a").no_finish(), ErrorClass::Network),
        (reply().blocked_prompt("SAFETY"), ErrorClass::Refused),
        (reply().text("a").error_event(json!({"code": 503, "message": "busy"})), ErrorClass::Overloaded),
        (reply().status(429), ErrorClass::RateLimited),
        (reply().raw_body("text/html", "<p>Sign in"), ErrorClass::Protocol),
    ] {
        let server = Server::start([reply]);
        let answer = ask(&client(&server), request("hi")).await;
        assert_eq!(answer.error().class, class, "{:?}", answer.error());
    }
}

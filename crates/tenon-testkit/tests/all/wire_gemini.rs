//! A reply on the Gemini wire, byte for byte.

use tenon_testkit::{Reply, Server, Wire, json, reply};

use crate::client::{Connection, End, ask_on};

fn said(reply: Reply) -> String {
    ask_on(&Server::start([reply]), Wire::Gemini, "{}").text()
}

#[test]
fn a_conversation_as_a_stream() {
    let server = Server::start([reply()
        .reasoning("hm")
        .signature("sig")
        .text_chunks(["Hi", "!"])
        .call("call_1", "read_file", json!({"path": "a"}))
        .signature("own")
        .call_raw("", "count", r#"{ "n": 1e400, "n": 2 }"#)
        .usage_full(json!({"prompt_tokens": 12, "completion_tokens": 3,
            "prompt_tokens_details": {"cached_tokens": 10},
            "completion_tokens_details": {"reasoning_tokens": 2}}))]);
    let response = ask_on(&server, Wire::Gemini, "{}");
    assert_eq!((response.status, &response.end), (200, &End::Complete));
    let expected = r#"data: {"candidates":[{"content":{"role":"model"},"index":0}],"usageMetadata":{"promptTokenCount":12,"totalTokenCount":12},"modelVersion":"test-model","responseId":"response-1"}

data: {"candidates":[{"content":{"parts":[{"text":"hm","thought":true}],"role":"model"},"index":0}],"modelVersion":"test-model","responseId":"response-1"}

data: {"candidates":[{"content":{"parts":[{"text":"Hi","thoughtSignature":"sig"}],"role":"model"},"index":0}],"modelVersion":"test-model","responseId":"response-1"}

data: {"candidates":[{"content":{"parts":[{"text":"!"}],"role":"model"},"index":0}],"modelVersion":"test-model","responseId":"response-1"}

data: {"candidates":[{"content":{"parts":[{"functionCall":{"id":"call_1","name":"read_file","args":{"path":"a"}},"thoughtSignature":"own"}],"role":"model"},"index":0}],"modelVersion":"test-model","responseId":"response-1"}

data: {"candidates":[{"content":{"parts":[{"functionCall":{"name":"count","args":{ "n": 1e400, "n": 2 }}}],"role":"model"},"index":0}],"modelVersion":"test-model","responseId":"response-1"}

data: {"candidates":[{"content":{"parts":[{"text":""}],"role":"model"},"finishReason":"STOP","index":0}],"usageMetadata":{"promptTokenCount":12,"candidatesTokenCount":1,"totalTokenCount":15,"cachedContentTokenCount":10,"thoughtsTokenCount":2},"modelVersion":"test-model","responseId":"response-1"}

"#;
    assert_eq!(response.text(), expected.replace('\n', "\r\n"));
}

#[test]
fn one_object_and_the_list_of_those_who_forget_to_ask_for_events() {
    let words = || {
        reply()
            .reasoning("hm")
            .signature("sig")
            .redacted_thinking("xyz")
            .call("c", "x", json!({"n": 1}))
            .text_chunks(["a", "b"])
            .signature("last")
            .usage(1, 2)
    };
    let expected = json!({
        "candidates": [{"content": {"parts": [
            {"text": "hm", "thought": true},
            {"text": "", "thought": true, "thoughtSignature": "xyz"},
            {"functionCall": {"id": "c", "name": "x", "args": {"n": 1}}, "thoughtSignature": "sig"},
            {"text": "ab"},
            {"text": "", "thoughtSignature": "last"},
        ], "role": "model"}, "finishReason": "STOP", "index": 0}],
        "usageMetadata": {"promptTokenCount": 1, "candidatesTokenCount": 2, "totalTokenCount": 3,
            "cachedContentTokenCount": 0, "thoughtsTokenCount": 0},
        "modelVersion": "test-model", "responseId": "response-1",
    });
    assert_eq!(said(words().whole()), expected.to_string());
    let server = Server::start([words().repeat(2)]);
    for (path, expected) in
        [("m:generateContent", expected.clone()), ("m:streamGenerateContent?key=k", json!([expected]))]
    {
        let mut connection = Connection::open(&server);
        let head = format!("POST /v1beta/models/{path} HTTP/1.1\r\ncontent-length: 2\r\n\r\n{{}}");
        connection.send(head.as_bytes());
        assert_eq!(connection.receive().json(), expected, "{path}");
    }
}

#[test]
fn endings() {
    for (word, reason) in [
        ("stop", "STOP"),
        ("tool_calls", "STOP"),
        ("length", "MAX_TOKENS"),
        ("content_filter", "SAFETY"),
        ("MALFORMED_FUNCTION_CALL", "MALFORMED_FUNCTION_CALL"),
    ] {
        let text = said(reply().finish(word));
        assert!(text.contains(&format!(r#""finishReason":"{reason}""#)), "{word}: {text}");
    }
    assert!(!said(reply().no_finish()).contains("finishReason"));
    let blocked = said(reply().blocked_prompt("PROHIBITED_CONTENT").usage(4, 0).usage_with_finish());
    assert_eq!(
        blocked,
        "data: {\"promptFeedback\":{\"blockReason\":\"PROHIBITED_CONTENT\"},\"usageMetadata\":{\"promptTokenCount\":4,\"candidatesTokenCount\":0,\"totalTokenCount\":4,\"cachedContentTokenCount\":0,\"thoughtsTokenCount\":0},\"modelVersion\":\"test-model\",\"responseId\":\"response-1\"}\r\n\r\n"
    );
    let signed = said(reply().reasoning("hm").signature("sig"));
    assert!(
        signed.contains(r#"{"text":"","thoughtSignature":"sig"}],"role":"model"},"finishReason""#),
        "{signed}"
    );
    let broken = said(reply().call_raw("c", "x", "{\"a"));
    assert!(broken.contains(r#""args":"{\"a""#), "{broken}");
}

#[test]
fn errors() {
    let failed = said(reply().text("x").error_event(json!({"message": "busy", "type": "overloaded_error"})));
    assert!(
        failed.ends_with(
            "data: {\"error\":{\"code\":503,\"message\":\"busy\",\"status\":\"UNAVAILABLE\"}}\r\n\r\n"
        ),
        "{failed}"
    );
    for (status, word) in [
        (400, "INVALID_ARGUMENT"),
        (401, "UNAUTHENTICATED"),
        (403, "PERMISSION_DENIED"),
        (404, "NOT_FOUND"),
        (429, "RESOURCE_EXHAUSTED"),
        (500, "INTERNAL"),
        (503, "UNAVAILABLE"),
        (504, "DEADLINE_EXCEEDED"),
    ] {
        let message = format!("scripted status {status}");
        let expected = json!({"error": {"code": status, "message": message, "status": word}});
        assert_eq!(said(reply().status(status)), expected.to_string());
    }
}

//! A reply on the Messages wire, byte for byte.

use tenon_testkit::{Server, Wire, json, reply};

use crate::client::{End, ask_on};

fn said(reply: tenon_testkit::Reply) -> String {
    ask_on(&Server::start([reply]), Wire::Messages, "{}").text()
}

#[test]
fn a_conversation_as_a_stream() {
    let server = Server::start([reply()
        .reasoning("hm")
        .signature("sig")
        .redacted_thinking("xyz")
        .text_chunks(["Hi", "!"])
        .call("toolu_1", "read_file", json!({"path": "a"}))
        .usage_full(json!({"prompt_tokens": 12, "completion_tokens": 3,
            "prompt_tokens_details": {"cached_tokens": 10}}))]);
    let response = ask_on(&server, Wire::Messages, "{}");
    assert_eq!((response.status, &response.end), (200, &End::Complete));
    assert!(response.head.contains("content-type: text/event-stream"), "{}", response.head);
    let expected = r#"event: message_start
data: {"type":"message_start","message":{"id":"msg_1","type":"message","role":"assistant","model":"test-model","content":[],"stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":2,"cache_creation_input_tokens":0,"cache_read_input_tokens":10,"output_tokens":1}}}

event: ping
data: {"type":"ping"}

event: content_block_start
data: {"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":"","signature":""}}

event: content_block_delta
data: {"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"hm"}}

event: content_block_delta
data: {"type":"content_block_delta","index":0,"delta":{"type":"signature_delta","signature":"sig"}}

event: content_block_stop
data: {"type":"content_block_stop","index":0}

event: content_block_start
data: {"type":"content_block_start","index":1,"content_block":{"type":"redacted_thinking","data":"xyz"}}

event: content_block_stop
data: {"type":"content_block_stop","index":1}

event: content_block_start
data: {"type":"content_block_start","index":2,"content_block":{"type":"text","text":""}}

event: content_block_delta
data: {"type":"content_block_delta","index":2,"delta":{"type":"text_delta","text":"Hi"}}

event: content_block_delta
data: {"type":"content_block_delta","index":2,"delta":{"type":"text_delta","text":"!"}}

event: content_block_stop
data: {"type":"content_block_stop","index":2}

event: content_block_start
data: {"type":"content_block_start","index":3,"content_block":{"type":"tool_use","id":"toolu_1","name":"read_file","input":{}}}

event: content_block_delta
data: {"type":"content_block_delta","index":3,"delta":{"type":"input_json_delta","partial_json":""}}

event: content_block_delta
data: {"type":"content_block_delta","index":3,"delta":{"type":"input_json_delta","partial_json":"{\"path"}}

event: content_block_delta
data: {"type":"content_block_delta","index":3,"delta":{"type":"input_json_delta","partial_json":"\":\"a\"}"}}

event: content_block_stop
data: {"type":"content_block_stop","index":3}

event: message_delta
data: {"type":"message_delta","delta":{"stop_reason":"tool_use","stop_sequence":null},"usage":{"output_tokens":3}}

event: message_stop
data: {"type":"message_stop"}

"#;
    assert_eq!(response.text(), expected);
}

#[test]
fn the_same_words_as_one_object() {
    let whole = said(
        reply()
            .reasoning("hm")
            .signature("sig")
            .redacted_thinking("xyz")
            .text_chunks(["a", "b"])
            .call("t", "x", json!({"n": 1}))
            .usage(5, 6)
            .whole(),
    );
    let expected = r#"{"id":"msg_1","type":"message","role":"assistant","model":"test-model","content":[{"type":"thinking","thinking":"hm","signature":"sig"},{"type":"redacted_thinking","data":"xyz"},{"type":"text","text":"ab"},{"type":"tool_use","id":"t","name":"x","input":{"n":1}}],"stop_reason":"tool_use","stop_sequence":null,"usage":{"input_tokens":5,"cache_creation_input_tokens":0,"cache_read_input_tokens":0,"output_tokens":6}}"#;
    assert_eq!(whole, expected);
}

#[test]
fn endings_and_variants() {
    for (word, reason) in [
        ("stop", "end_turn"),
        ("tool_calls", "tool_use"),
        ("length", "max_tokens"),
        ("content_filter", "refusal"),
        ("pause_turn", "pause_turn"),
    ] {
        let text = said(reply().finish(word));
        assert!(text.contains(&format!(r#""delta":{{"stop_reason":"{reason}""#)), "{word}: {text}");
    }
    assert!(said(reply().blocked_prompt("SAFETY")).contains("refusal"));
    let open = said(reply().no_finish());
    assert!(!open.contains("message_delta") && open.contains("message_stop"), "{open}");
    assert!(!said(reply().no_done()).contains("message_stop"));
    assert!(said(reply().crlf().no_space()).starts_with("event:message_start\r\ndata:{\"type\""));
    // The opening event, the one ping of every stream, the two events of the end: a sign before each.
    assert_eq!(said(reply().keepalives()).matches("event: ping\n").count(), 5);
    let late = said(reply().usage(3, 4).usage_with_finish());
    assert_eq!(late.matches("input_tokens\":3").count(), 1, "{late}");
    assert!(
        said(reply().event(json!({"type": "news"}))).contains("event: news\ndata: {\"type\":\"news\"}\n\n")
    );
}

#[test]
fn errors_in_the_stream_end_it() {
    let failed = said(reply().text("x").error_event(json!({"message": "busy", "type": "server_overloaded"})));
    assert!(
        failed.ends_with(
            "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":\"busy\"}}\n\n"
        ),
        "{failed}"
    );
}

#[test]
fn errors_before_the_stream_have_their_own_types() {
    for (status, kind) in [
        (400, "invalid_request_error"),
        (401, "authentication_error"),
        (403, "permission_error"),
        (404, "not_found_error"),
        (413, "request_too_large"),
        (429, "rate_limit_error"),
        (500, "api_error"),
        (529, "overloaded_error"),
    ] {
        let expected =
            json!({"type": "error", "error": {"type": kind, "message": format!("scripted status {status}")}});
        assert_eq!(said(reply().status(status)), expected.to_string());
    }
}

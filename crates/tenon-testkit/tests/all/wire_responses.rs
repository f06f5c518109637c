//! A reply on the Responses wire, byte for byte.

use tenon_testkit::{Reply, Server, Wire, json, reply};

use crate::client::{End, ask_on};

const ENCRYPTED: &str = r#"{"include":["reasoning.encrypted_content"]}"#;

fn said(reply: Reply) -> String {
    ask_on(&Server::start([reply]), Wire::Responses, ENCRYPTED).text()
}

#[test]
fn a_conversation_as_a_stream() {
    let server = Server::start([reply()
        .reasoning("hm")
        .signature("enc")
        .text_chunks(["Hi", "!"])
        .call("call_1", "read_file", json!({"path": "a"}))
        .usage_full(json!({"prompt_tokens": 12, "completion_tokens": 3,
            "prompt_tokens_details": {"cached_tokens": 10},
            "completion_tokens_details": {"reasoning_tokens": 2}}))]);
    let response = ask_on(&server, Wire::Responses, ENCRYPTED);
    assert_eq!((response.status, &response.end), (200, &End::Complete));
    let expected = r#"event: response.created
data: {"type":"response.created","response":{"id":"resp_1","object":"response","created_at":1700000000,"status":"in_progress","error":null,"incomplete_details":null,"model":"test-model","output":[],"usage":null},"sequence_number":0}

event: response.in_progress
data: {"type":"response.in_progress","response":{"id":"resp_1","object":"response","created_at":1700000000,"status":"in_progress","error":null,"incomplete_details":null,"model":"test-model","output":[],"usage":null},"sequence_number":1}

event: response.output_item.added
data: {"type":"response.output_item.added","output_index":0,"item":{"id":"rs_1_0","type":"reasoning","summary":[]},"sequence_number":2}

event: response.reasoning_summary_part.added
data: {"type":"response.reasoning_summary_part.added","item_id":"rs_1_0","output_index":0,"summary_index":0,"part":{"type":"summary_text","text":""},"sequence_number":3}

event: response.reasoning_summary_text.delta
data: {"type":"response.reasoning_summary_text.delta","item_id":"rs_1_0","output_index":0,"summary_index":0,"delta":"hm","sequence_number":4}

event: response.reasoning_summary_text.done
data: {"type":"response.reasoning_summary_text.done","item_id":"rs_1_0","output_index":0,"summary_index":0,"text":"hm","sequence_number":5}

event: response.reasoning_summary_part.done
data: {"type":"response.reasoning_summary_part.done","item_id":"rs_1_0","output_index":0,"summary_index":0,"part":{"type":"summary_text","text":"hm"},"sequence_number":6}

event: response.output_item.done
data: {"type":"response.output_item.done","output_index":0,"item":{"id":"rs_1_0","type":"reasoning","summary":[{"type":"summary_text","text":"hm"}],"encrypted_content":"enc"},"sequence_number":7}

event: response.output_item.added
data: {"type":"response.output_item.added","output_index":1,"item":{"id":"msg_1_1","type":"message","status":"in_progress","role":"assistant","content":[]},"sequence_number":8}

event: response.content_part.added
data: {"type":"response.content_part.added","item_id":"msg_1_1","output_index":1,"content_index":0,"part":{"type":"output_text","text":"","annotations":[]},"sequence_number":9}

event: response.output_text.delta
data: {"type":"response.output_text.delta","item_id":"msg_1_1","output_index":1,"content_index":0,"delta":"Hi","sequence_number":10}

event: response.output_text.delta
data: {"type":"response.output_text.delta","item_id":"msg_1_1","output_index":1,"content_index":0,"delta":"!","sequence_number":11}

event: response.output_text.done
data: {"type":"response.output_text.done","item_id":"msg_1_1","output_index":1,"content_index":0,"text":"Hi!","sequence_number":12}

event: response.content_part.done
data: {"type":"response.content_part.done","item_id":"msg_1_1","output_index":1,"content_index":0,"part":{"type":"output_text","text":"Hi!","annotations":[]},"sequence_number":13}

event: response.output_item.done
data: {"type":"response.output_item.done","output_index":1,"item":{"id":"msg_1_1","type":"message","status":"completed","role":"assistant","content":[{"type":"output_text","text":"Hi!","annotations":[]}]},"sequence_number":14}

event: response.output_item.added
data: {"type":"response.output_item.added","output_index":2,"item":{"id":"fc_1_2","type":"function_call","status":"in_progress","arguments":"","call_id":"call_1","name":"read_file"},"sequence_number":15}

event: response.function_call_arguments.delta
data: {"type":"response.function_call_arguments.delta","item_id":"fc_1_2","output_index":2,"delta":"{\"path","sequence_number":16}

event: response.function_call_arguments.delta
data: {"type":"response.function_call_arguments.delta","item_id":"fc_1_2","output_index":2,"delta":"\":\"a\"}","sequence_number":17}

event: response.function_call_arguments.done
data: {"type":"response.function_call_arguments.done","item_id":"fc_1_2","output_index":2,"arguments":"{\"path\":\"a\"}","sequence_number":18}

event: response.output_item.done
data: {"type":"response.output_item.done","output_index":2,"item":{"id":"fc_1_2","type":"function_call","status":"completed","arguments":"{\"path\":\"a\"}","call_id":"call_1","name":"read_file"},"sequence_number":19}

event: response.completed
data: {"type":"response.completed","response":{"id":"resp_1","object":"response","created_at":1700000000,"status":"completed","error":null,"incomplete_details":null,"model":"test-model","output":[{"id":"rs_1_0","type":"reasoning","summary":[{"type":"summary_text","text":"hm"}],"encrypted_content":"enc"},{"id":"msg_1_1","type":"message","status":"completed","role":"assistant","content":[{"type":"output_text","text":"Hi!","annotations":[]}]},{"id":"fc_1_2","type":"function_call","status":"completed","arguments":"{\"path\":\"a\"}","call_id":"call_1","name":"read_file"}],"usage":{"input_tokens":12,"input_tokens_details":{"cached_tokens":10},"output_tokens":3,"output_tokens_details":{"reasoning_tokens":2},"total_tokens":15}},"sequence_number":20}

"#;
    assert_eq!(response.text(), expected);
}

#[test]
fn one_object_is_what_the_stream_ends_with() {
    let words = || {
        reply()
            .reasoning_as_reasoning("hm")
            .redacted_thinking("enc")
            .text_chunks(["a", "b"])
            .call_raw("c", "x", "{broken")
            .usage(1, 2)
            .finish("length")
    };
    let whole = ask_on(&Server::start([words().whole()]), Wire::Responses, ENCRYPTED).json();
    let streamed = ask_on(&Server::start([words()]), Wire::Responses, ENCRYPTED).events();
    let last = streamed.last().unwrap();
    assert_eq!((&last["type"], &last["response"]), (&json!("response.incomplete"), &whole));
    assert_eq!(whole["incomplete_details"], json!({"reason": "max_output_tokens"}));
    assert_eq!(
        whole["output"],
        json!([
            {"id": "rs_1_0", "type": "reasoning", "summary": [],
                "content": [{"type": "reasoning_text", "text": "hm"}], "encrypted_content": null},
            {"id": "rs_1_1", "type": "reasoning", "summary": [], "encrypted_content": "enc"},
            {"id": "msg_1_2", "type": "message", "status": "completed", "role": "assistant",
                "content": [{"type": "output_text", "text": "ab", "annotations": []}]},
            {"id": "fc_1_3", "type": "function_call", "status": "incomplete", "arguments": "{broken",
                "call_id": "c", "name": "x"},
        ])
    );
}

#[test]
fn what_is_encrypted_is_sent_to_those_who_ask_for_it() {
    let server = Server::start([reply().reasoning("hm").signature("enc").repeat(2)]);
    assert!(!ask_on(&server, Wire::Responses, "{}").text().contains("encrypted_content"));
    assert!(ask_on(&server, Wire::Responses, ENCRYPTED).text().contains(r#""encrypted_content":"enc""#));
}

#[test]
fn endings() {
    let filtered = said(reply().text("x").finish("content_filter"));
    assert!(filtered.contains(r#""incomplete_details":{"reason":"content_filter"}"#), "{filtered}");
    assert!(!said(reply().no_finish()).contains("response.completed"));
    let failed = said(reply().text("x").failed(json!({"message": "no", "code": "server_error"})));
    assert!(
        failed.trim_end().lines().last().unwrap().starts_with(
            r#"data: {"type":"response.failed","response":{"id":"resp_1","object":"response","created_at":1700000000,"status":"failed","error":{"code":"server_error","message":"no"},"#
        ),
        "{failed}"
    );
    let error = said(reply().text("x").error_event(json!({"message": "slow", "type": "rate_limit_error"})));
    assert!(
        error.ends_with(
            "event: error\ndata: {\"type\":\"error\",\"code\":\"rate_limit_error\",\"message\":\"slow\",\"param\":null,\"sequence_number\":5}\n\n"
        ),
        "{error}"
    );
}

#[test]
fn errors_before_the_stream() {
    for (status, kind, code) in [
        (400, "invalid_request_error", json!(null)),
        (401, "invalid_request_error", json!("invalid_api_key")),
        (429, "requests", json!("rate_limit_exceeded")),
        (500, "server_error", json!(null)),
    ] {
        let message = format!("scripted status {status}");
        let expected = json!({"error": {"message": message, "type": kind, "param": null, "code": code}});
        assert_eq!(said(reply().status(status)), expected.to_string());
    }
}

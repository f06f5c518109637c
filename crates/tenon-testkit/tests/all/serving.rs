//! Who gets which reply, and what a healthy reply looks like on the wire.

use std::time::Duration;

use tenon_testkit::{Gate, Server, Value, json, reply};

use crate::client::{Connection, End, ask};

const SOON: Duration = Duration::from_secs(20);

fn chunk(delta: Value, finish: Value) -> Value {
    json!({"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1_700_000_000, "model": "test-model",
        "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]})
}

#[test]
fn a_reply_is_a_stream_of_chunks_as_real_servers_send_it() {
    let server = Server::start([reply()
        .reasoning("hm")
        .text("Hi")
        .call("call_1", "read_file", json!({"file_path": "a"}))
        .usage(12, 3)]);
    let response = ask(&server, "{}");

    assert_eq!(response.status, 200);
    assert!(response.head.contains("content-type: text/event-stream"), "{}", response.head);
    assert_eq!(response.end, End::Complete);
    assert!(response.text().ends_with("\n\ndata: [DONE]\n\n"), "{}", response.text());
    let open = json!({"index": 0, "id": "call_1", "type": "function",
        "function": {"name": "read_file", "arguments": ""}});
    let expected = vec![
        chunk(json!({"role": "assistant", "content": ""}), json!(null)),
        chunk(json!({"reasoning_content": "hm"}), json!(null)),
        chunk(json!({"content": "Hi"}), json!(null)),
        chunk(json!({"tool_calls": [open]}), json!(null)),
        chunk(json!({"tool_calls": [{"index": 0, "function": {"arguments": "{\"file_p"}}]}), json!(null)),
        chunk(json!({"tool_calls": [{"index": 0, "function": {"arguments": "ath\":\"a\"}"}}]}), json!(null)),
        chunk(json!({}), json!("tool_calls")),
        json!({"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1_700_000_000,
            "model": "test-model", "choices": [],
            "usage": {"prompt_tokens": 12, "completion_tokens": 3, "total_tokens": 15}}),
    ];
    assert_eq!(response.events(), expected);
    assert_eq!(response.chunks.len(), expected.len() + 1, "one chunk for each event and the end mark");
}

#[test]
fn the_same_words_as_one_object() {
    let said = reply()
        .text_chunks(["one ", "two"])
        .call("a", "x", json!({"n": 1}))
        .call_raw("b", "y", "{broken")
        .usage(1, 2)
        .whole();
    let server = Server::start([said]);
    let response = ask(&server, "{}").json();
    let call = |id, name, arguments| json!({"id": id, "type": "function", "function": {"name": name, "arguments": arguments}});
    assert_eq!(response["object"], "chat.completion");
    assert_eq!(
        response["choices"],
        json!([{"index": 0, "finish_reason": "tool_calls", "message": {
            "role": "assistant", "content": "one two",
            "tool_calls": [call("a", "x", "{\"n\":1}"), call("b", "y", "{broken")],
        }}])
    );
    assert_eq!(response["usage"]["total_tokens"], 3);
}

#[test]
fn variants_of_the_stream() {
    let all = |reply| ask(&Server::start([reply]), "{}").text();
    assert!(!all(reply().no_done()).contains("[DONE]"));
    assert!(all(reply().crlf()).ends_with("\r\n\r\ndata: [DONE]\r\n\r\n"));
    assert!(all(reply().no_space()).starts_with("data:{"));
    assert!(all(reply().comment("wait")).contains("\n\n: wait\n\ndata: {"));
    assert_eq!(all(reply().text("x").keepalives()).matches(": keepalive\n\n").count(), 4);
    assert!(all(reply().finish("length")).contains(r#""finish_reason":"length""#));
    assert!(!all(reply().no_finish()).contains(r#""finish_reason":""#));
    assert!(all(reply().reasoning_as_reasoning("r")).contains(r#"{"reasoning":"r"}"#));
    assert!(all(reply().model("m")).contains(r#""model":"m""#));
    assert!(all(reply().data("{oops")).contains("data: {oops\n\n"));
    assert!(all(reply().raw_stream("id: 7\n\n")).contains("\n\nid: 7\n\n"));
    assert!(all(reply().usage(1, 1).usage_with_finish()).contains(r#""finish_reason":"stop"}],"usage":"#));
    let failed = all(reply().text("x").error_event(json!({"message": "overloaded"})));
    assert!(
        failed.ends_with("data: {\"error\":{\"message\":\"overloaded\"}}\n\ndata: [DONE]\n\n"),
        "{failed}"
    );
}

#[test]
fn pieces_of_any_size_carry_the_same_body() {
    let said = || reply().text("grün 🌿").call("c", "t", json!({"a": "ü"})).usage(1, 1);
    let whole = ask(&Server::start([said()]), "{}").text();
    for size in [1, 2, 3, 7, 64, 100_000] {
        let response = ask(&Server::start([said().chunk_by(size)]), "{}");
        assert_eq!(response.text(), whole, "pieces of {size}");
        assert_eq!(response.chunks.len(), whole.len().div_ceil(size), "pieces of {size}");
        assert!(response.chunks.iter().all(|piece| piece.len() <= size), "pieces of {size}");
    }
}

#[test]
fn a_generated_stream_has_every_event() {
    let server = Server::start([reply().big(20_000).repeat(2)]);
    for _ in 0..2 {
        let response = ask(&server, "{}");
        assert_eq!(response.chunks.len(), 20_003, "role, deltas, finish, end mark");
        assert!(response.text().contains(r#"{"content":"chunk 19999 "}"#));
    }
}

#[test]
fn statuses_bodies_and_headers() {
    let server = Server::start([
        reply().status(429).header("retry-after", "3"),
        reply().status(401).json(json!({"error": {"message": "bad key"}})),
        reply().status(502).text_body("no upstream"),
        reply().raw_body("text/html", "<p>"),
        reply().text("bye").until_close(),
    ]);
    let limited = ask(&server, "{}");
    assert_eq!(limited.status, 429);
    assert!(limited.head.contains("\r\nretry-after: 3\r\n"), "{}", limited.head);
    assert_eq!(limited.json()["error"]["code"], 429);
    let refused = ask(&server, "{}");
    assert_eq!((refused.status, refused.text().as_str()), (401, r#"{"error":{"message":"bad key"}}"#));
    let upstream = ask(&server, "{}");
    assert_eq!((upstream.status, upstream.text().as_str()), (502, "no upstream"));
    let page = ask(&server, "{}");
    assert_eq!((page.status, page.text().as_str()), (200, "<p>"));
    let closing = ask(&server, "{}");
    assert!(closing.head.contains("connection: close"), "{}", closing.head);
    assert!(closing.text().ends_with("data: [DONE]\n\n"));
    server.assert_script_done();
}

#[test]
fn requests_are_kept_whatever_they_are() {
    let server = Server::start([reply().forever()]);
    let mut connection = Connection::open(&server);
    connection.send(
        b"POST /v1/chat/completions?x=1 HTTP/1.1\r\nhost: x\r\nAuthorization: Bearer k\r\ncontent-length: 9\r\n\r\n{not json",
    );
    connection.receive();
    let kept = server.request(0);
    assert_eq!((kept.method.as_str(), kept.path.as_str()), ("POST", "/v1/chat/completions?x=1"));
    assert_eq!(kept.header("authorization"), Some("Bearer k"));
    assert_eq!((kept.body, kept.raw.as_slice()), (Value::Null, b"{not json".as_slice()));
}

#[test]
fn one_connection_serves_many_requests() {
    let server = Server::start([reply().text("one"), reply().status(500), reply().text("two")]);
    let mut connection = Connection::open(&server);
    for (number, expected) in ["one", "scripted status 500", "two"].into_iter().enumerate() {
        connection.post(&json!({"number": number}).to_string());
        let text = connection.receive().text();
        assert!(text.contains(expected), "{text}");
        assert_eq!(server.request(number).body, json!({"number": number}));
    }
}

#[test]
fn a_body_may_ask_first_or_come_in_chunks() {
    let server = Server::start([reply().repeat(2)]);
    let mut connection = Connection::open(&server);
    connection.send(b"POST /a HTTP/1.1\r\nexpect: 100-continue\r\ncontent-length: 2\r\n\r\n");
    assert_eq!(connection.line() + &connection.line(), "HTTP/1.1 100 Continue\r\n\r\n");
    connection.send(b"{}");
    connection.receive();
    connection
        .send(b"POST /b HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n3\r\n[1,\r\n2\r\n2]\r\n0\r\n\r\n");
    connection.receive();
    assert_eq!(server.request(0).body, json!({}));
    assert_eq!(server.request(1).body, json!([1, 2]));
}

#[test]
fn a_large_body_arrives_whole() {
    let server = Server::start([reply()]);
    let text = "x".repeat(20 * 1024 * 1024);
    ask(&server, &json!({"text": text}).to_string());
    assert!(server.request(0).body["text"] == text.as_str(), "the body changed on its way");
}

#[test]
fn beyond_the_script_is_an_error_that_says_so() {
    let server = Server::start([reply().text("only")]);
    ask(&server, "{}");
    let response = ask(&server, "{}");
    let message = "the script is exhausted: request 2 has no reply (the script has 1)";
    assert_eq!(response.status, 500);
    assert_eq!(response.json()["error"]["message"], message);
    assert_eq!(server.unexpected(), [message]);
    server.push(reply().text("more"));
    assert_eq!(ask(&server, "{}").status, 200);
}

#[test]
#[should_panic(expected = "replies never used (from 0): [1]")]
fn an_unused_reply_fails_the_script() {
    let server = Server::start([reply(), reply().when(|_| false), reply().forever()]);
    ask(&server, "{}");
    server.assert_script_done();
}

#[test]
fn a_reply_can_choose_its_request() {
    let server = Server::start([
        reply().text("for blue").when_contains("blue"),
        reply().text("for 7").when(|body| body["n"] == 7),
        reply().text("for anyone").repeat(2),
    ]);
    let deep = json!({"messages": [{"content": [{"text": "sky blue"}]}]}).to_string();
    for (body, expected) in
        [("{}", "anyone"), (deep.as_str(), "blue"), (deep.as_str(), "anyone"), (r#"{"n":7}"#, "7")]
    {
        let text = ask(&server, body).text();
        assert!(text.contains(&format!("for {expected}")), "{body} got {text}");
    }
    server.assert_script_done();
}

#[test]
fn replies_wait_for_company() {
    let server = Server::start([reply().text("all here").hold_until_requests(3).repeat(3)]);
    std::thread::scope(|scope| {
        let asked: Vec<_> =
            (0..3).map(|_| scope.spawn(|| (ask(&server, "{}"), server.requests().len()))).collect();
        for thread in asked {
            let (response, arrived) = thread.join().unwrap();
            assert!(response.text().contains("all here"));
            assert_eq!(arrived, 3);
        }
    });
}

#[test]
fn replies_wait_at_a_gate() {
    let (door, middle) = (Gate::new(), Gate::new());
    let server = Server::start([reply().text("x").hold(&door).hold_after_events(1, &middle)]);
    let mut connection = Connection::open(&server);
    connection.post("{}");
    server.wait_for_requests(1, SOON);
    door.open();
    while connection.line() != "\r\n" {}
    let first = String::from_utf8(connection.chunk().unwrap()).unwrap();
    assert!(first.contains(r#""role":"assistant""#), "{first}");
    middle.open();
    let second = String::from_utf8(connection.chunk().unwrap()).unwrap();
    assert!(second.contains(r#""content":"x""#), "{second}");
}

#[test]
fn delays_are_kept() {
    let delay = Duration::from_millis(20);
    let server = Server::start([reply().delay_before_headers(delay).delay_between_events(delay)]);
    let before = std::time::Instant::now();
    assert_eq!(ask(&server, "{}").end, End::Complete);
    // Role, finish and end mark: two gaps, and the wait before the head.
    assert!(before.elapsed() >= delay * 3);
}

#[test]
fn a_look_at_the_models_is_no_turn() {
    let server = Server::start([reply()]);
    let mut connection = Connection::open(&server);
    connection.send(b"GET /v1/models HTTP/1.1\r\nhost: x\r\n\r\n");
    assert_eq!(connection.receive().json()["data"][0]["id"], "test-model");
    connection.send(b"GET /elsewhere HTTP/1.1\r\nhost: x\r\n\r\n");
    assert_eq!(connection.receive().status, 404);
    assert_eq!((server.requests().len(), server.probes().len()), (0, 2));
}

#[test]
fn a_request_reads_like_a_conversation() {
    let server = Server::start([reply()]);
    let asked = json!({
        "messages": [
            {"role": "user", "content": "hi"},
            {"role": "tool", "tool_call_id": "c1", "content": "done"},
        ],
        "tools": [{"type": "function", "function": {"name": "edit", "description": "d"}}],
    });
    ask(&server, &asked.to_string());
    let request = server.request(0);
    assert_eq!(request.messages().len(), 2);
    assert_eq!(request.last_message()["role"], "tool");
    assert_eq!(request.tool_result("c1"), "done");
    assert_eq!(request.tool_names(), ["edit"]);
    assert_eq!(request.tool("edit")["description"], "d");
}

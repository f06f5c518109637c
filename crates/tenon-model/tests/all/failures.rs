//! What a server does wrong, and what a person is told.

use tenon_core::ErrorClass;
use tenon_testkit::{Server, json, reply};

use crate::support::{KEY, ask, client, delta, finish, read, read_events, request, sse};

#[tokio::test]
async fn statuses_have_classes() {
    use ErrorClass::{Auth, Network, Overloaded, Protocol, RateLimited};
    for (status, class, retryable) in [
        (401, Auth, false),
        (403, Auth, false),
        (429, RateLimited, true),
        (408, Network, true),
        (500, Protocol, true),
        (502, Network, true),
        (503, Overloaded, true),
        (504, Network, true),
        (529, Overloaded, true),
        (400, Protocol, false),
        (404, Protocol, false),
        (422, Protocol, false),
    ] {
        let server = Server::start([reply().status(status).header("retry-after", "7")]);
        let answer = ask(&client(&server), request("hi")).await;
        let error = answer.error();
        assert_eq!((error.class, error.retryable), (class, retryable), "{status}");
        assert_eq!(error.http_status, Some(status));
        assert_eq!(error.provider.as_deref(), Some("openai"));
        assert_eq!(error.retry_after, Some(std::time::Duration::from_secs(7)));
        assert!(error.message.ends_with(&format!(": scripted status {status}")), "{}", error.message);
    }
}

#[tokio::test]
async fn a_key_that_the_server_echoes_is_not_shown() {
    let told = json!({"error": {"message": format!("Incorrect API key provided: {KEY}.")}});
    let server = Server::start([reply().status(401).json(told)]);
    let answer = ask(&client(&server), request("hi")).await;
    assert_eq!(
        answer.error().message,
        "`openai` answered 401 (unauthorized): Incorrect API key provided: ***."
    );
    assert!(!format!("{:?}", answer.error()).contains(KEY));
}

#[tokio::test]
async fn success_that_is_none() {
    let page = "<!DOCTYPE html><title>Sign in</title>";
    for (reply, class, message) in [
        (reply().raw_body("text/html", page), ErrorClass::Protocol, "answered with a web page"),
        (reply().raw_body("text/event-stream", page), ErrorClass::Protocol, "answered with a web page"),
        (
            reply().json(json!({"error": {"message": "slow", "code": 429}})),
            ErrorClass::RateLimited,
            "429 (too many requests): slow",
        ),
        (
            reply().json(json!([{"error": {"message": "slow", "code": 503}}])),
            ErrorClass::Overloaded,
            "503 (unavailable): slow",
        ),
        (
            reply().json(json!({"object": "error", "message": "odd"})),
            ErrorClass::Protocol,
            "reported an error: odd",
        ),
        (reply().json(json!({"hello": "world"})), ErrorClass::Protocol, "reported an error"),
        (reply().raw_body("application/json", "{\"choices\": [{"), ErrorClass::Protocol, "not JSON"),
        (reply().raw_stream("data: oops\n\n"), ErrorClass::Protocol, "not JSON: `oops`"),
    ] {
        let server = Server::start([reply]);
        let answer = ask(&client(&server), request("hi")).await;
        let error = answer.error();
        assert_eq!(error.class, class, "{error:?}");
        assert!(error.message.contains(message), "{error:?}");
    }
}

#[test]
fn an_error_in_the_middle_of_a_stream() {
    for (event, class, retryable) in [
        (
            json!({"error": {"message": "m", "code": 502}, "choices": [{"delta": {}, "finish_reason": "error"}]}),
            ErrorClass::Network,
            true,
        ),
        (json!({"error": {"message": "m", "type": "overloaded_error"}}), ErrorClass::Overloaded, true),
        (
            json!({"error": {"message": "m", "type": "insufficient_quota", "code": 429}}),
            ErrorClass::RateLimited,
            false,
        ),
        (json!({"error": "m"}), ErrorClass::Protocol, false),
    ] {
        let answer = read_events(&[delta(json!({"content": "x"})), event.clone()]);
        let error = answer.error();
        assert_eq!((error.class, error.retryable), (class, retryable), "{event}");
        assert!(error.message.ends_with(": m"), "{}", error.message);
        assert_eq!(answer.text, "x", "what came before is still given");
    }
    let named = read(vec![b"event: error\ndata: {\"message\":\"m\",\"code\":503}\n\n".to_vec()]);
    assert_eq!(named.error().class, ErrorClass::Overloaded);
    let plain = read(vec![b"event: error\ndata: it broke\n\n".to_vec()]);
    assert!(plain.error().message.ends_with(": it broke"));
    assert!(read_events(&[json!({"error": null}), finish("stop")]).error.is_none());
}

#[test]
fn an_unexplained_error_ending() {
    let answer = read_events(&[delta(json!({"content": "x"})), finish("error")]);
    assert_eq!((answer.error().class, answer.error().retryable), (ErrorClass::Network, true));
}

#[test]
fn an_answer_without_end_is_refused() {
    let event = sse(&[delta(json!({"content": "x".repeat(1 << 20)}))]).into_bytes();
    let answer = read(vec![event; 65]);
    assert_eq!(answer.error().class, ErrorClass::Protocol);
    assert_eq!(answer.error().message, "the answer is larger than 64 MiB");
}

#[test]
fn a_whole_answer_that_is_too_large_is_refused() {
    let mut chunks = vec![b"{".to_vec()];
    chunks.extend((0..65).map(|_| vec![b' '; 1 << 20]));
    assert_eq!(read(chunks).error().message, "the answer is larger than 64 MiB");
}

#[test]
fn a_pathological_body_ends_in_an_error() {
    for body in [
        "data: {}\n\n".repeat(3),
        sse(&[json!([1, 2])]),
        "data: nul\n\n".into(),
        "garbage".into(),
        "\u{feff}".into(),
    ] {
        assert!(read(vec![body.clone().into_bytes()]).error.is_some(), "{body:?}");
    }
}

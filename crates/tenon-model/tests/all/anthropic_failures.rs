//! What a server of the Messages API does wrong, and what a person is told.

use tenon_core::ErrorClass::{self, Auth, Overloaded, Protocol, RateLimited};
use tenon_testkit::{Server, Value, json, reply};

use crate::anthropic::{client, event, events, message_start, read_text, start, text_delta};
use crate::support::{KEY, ask, request};

fn error(kind: &str) -> Value {
    json!({"type": "error", "error": {"type": kind, "message": "told"}, "request_id": "req_1"})
}

/// Status, type of the error, class, and whether it may pass.
const ERRORS: [(u16, &str, ErrorClass, bool); 11] = [
    (400, "invalid_request_error", Protocol, false),
    (401, "authentication_error", Auth, false),
    (402, "billing_error", RateLimited, false),
    (403, "permission_error", Auth, false),
    (404, "not_found_error", Protocol, false),
    (413, "request_too_large", Protocol, false),
    (429, "rate_limit_error", RateLimited, true),
    (500, "api_error", Protocol, true),
    (529, "overloaded_error", Overloaded, true),
    (400, "something_new", Protocol, false),
    (503, "something_new", Overloaded, true),
];

#[tokio::test]
async fn errors_by_status() {
    for (status, kind, class, retryable) in ERRORS {
        let server = Server::start([reply().status(status).json(error(kind)).header("retry-after", "7")]);
        let answer = ask(&client(&server), request("hi")).await;
        let error = answer.error();
        assert_eq!((error.class, error.retryable), (class, retryable), "{status} {kind}");
        assert_eq!((error.http_status, error.provider.as_deref()), (Some(status), Some("anthropic")));
        assert_eq!(error.retry_after, Some(std::time::Duration::from_secs(7)));
        assert!(error.message.starts_with(&format!("`anthropic` answered {status}")), "{}", error.message);
        assert!(error.message.ends_with(": told"), "{}", error.message);
    }
}

#[test]
fn errors_by_their_type_in_a_stream_or_with_success() {
    let begun = events(&[message_start(), start(0, json!({"type": "text", "text": ""})), text_delta(0, "x")]);
    for (_, kind, class, retryable) in ERRORS.into_iter().filter(|(_, kind, _, _)| *kind != "something_new") {
        let told = error(kind);
        for body in [
            format!("{begun}{}", event(&told)),
            format!("{begun}data: {told}\n\n"),
            format!("{begun}event: error\ndata: {}\n\n", told["error"]),
            told.to_string(),
        ] {
            let answer = read_text(&body);
            let error = answer.error();
            assert_eq!((error.class, error.retryable), (class, retryable), "{body}");
            assert_eq!(error.message, "`anthropic` reported an error: told", "{body}");
            let before = if body.starts_with('{') { "" } else { "x" };
            assert_eq!(answer.text, before, "what came before is still given");
        }
    }
}

#[tokio::test]
async fn a_key_that_the_server_echoes_is_not_shown() {
    let told = json!({"type": "error", "error": {"type": "authentication_error", "message": format!("invalid x-api-key {KEY}")}});
    let server = Server::start([reply().status(401).json(told)]);
    let answer = ask(&client(&server), request("hi")).await;
    assert_eq!(answer.error().message, "`anthropic` answered 401 (unauthorized): invalid x-api-key ***");
}

#[test]
fn success_that_is_none() {
    for (body, message) in [
        ("<!DOCTYPE html><title>Sign in</title>", "answered with a web page"),
        ("{\"hello\": \"world\"}", "reported an error"),
        ("{\"content\": [{", "not JSON"),
        ("data: oops\n\n", "not JSON: `oops`"),
        ("[1]", "reported an error"),
    ] {
        let answer = read_text(body);
        assert_eq!(answer.error().class, Protocol, "{body}");
        assert!(answer.error().message.contains(message), "{:?}", answer.error());
    }
}

#[tokio::test]
async fn a_fault_in_the_request_is_not_blamed_on_the_model() {
    let told = |message: &str| json!({"type": "error", "error": {"type": "invalid_request_error", "message": message}});
    for (message, hint) in [
        ("tools.0.custom.input_schema.type: Field required", None),
        ("messages.2: `tool_use` ids were found without `tool_result` blocks immediately after: a", None),
        ("prompt is too long: 210000 tokens > 200000 maximum", Some("larger than the model's context")),
        (
            "input length and `max_tokens` exceed context limit: 190000 + 32000 > 200000",
            Some("larger than the model's context"),
        ),
        ("Your credit balance is too low to access the API.", Some("no credit left")),
    ] {
        let server = Server::start([reply().status(400).json(told(message))]);
        let answer = ask(&client(&server), request("hi")).await;
        match hint {
            None => assert_eq!(answer.error().hint, None, "{message}"),
            Some(hint) => {
                assert!(answer.error().hint.as_ref().is_some_and(|found| found.contains(hint)), "{message}")
            }
        }
        server.assert_script_done();
    }
}

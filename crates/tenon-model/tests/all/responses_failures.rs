//! What a server of the Responses wire does wrong.

use tenon_core::{Delta, ErrorClass};
use tenon_model::OpenAiResponses;
use tenon_testkit::{Server, json, reply};

use crate::responses::{completed, deltas_of, failure};
use crate::support::{KEY, ask, endpoint, http, request, sse};

#[test]
fn a_response_that_failed_and_errors_in_the_stream() {
    use ErrorClass::{Auth, Network, Overloaded, Protocol, RateLimited, Refused};
    let failed = |code: &str| json!({"type": "response.failed", "response": {"id": "r", "status": "failed", "error": {"code": code, "message": "m"}}});
    for (event, class, retryable) in [
        (failed("server_error"), Protocol, true),
        (failed("rate_limit_exceeded"), RateLimited, true),
        (failed("server_is_overloaded"), Overloaded, true),
        (failed("insufficient_quota"), RateLimited, false),
        (failed("invalid_prompt"), Refused, false),
        (failed("context_length_exceeded"), Protocol, false),
        (json!({"type": "error", "code": "server_error", "message": "m", "param": null}), Protocol, true),
        (json!({"type": "error", "error": {"type": "rate_limit_error", "message": "m"}}), RateLimited, true),
        (json!({"error": {"code": "invalid_api_key", "message": "m"}}), Auth, false),
        (json!({"error": {"code": 502, "message": "m"}}), Network, true),
        (
            json!({"type": "response.completed", "response": {"status": "failed", "error": {"code": "server_error", "message": "m"}}}),
            Protocol,
            true,
        ),
    ] {
        let text = json!({"type": "response.output_text.delta", "delta": "x"});
        let (deltas, error) = deltas_of(vec![sse(&[text, event.clone()]).into_bytes()]);
        let error = error.unwrap();
        assert_eq!((error.class, error.retryable), (class, retryable), "{event}");
        assert!(error.message.ends_with(": m"), "{}", error.message);
        assert_eq!(deltas, [Delta::Text("x".into())], "what came before is still given");
    }
    let wait = failure(&[
        json!({"type": "response.failed", "response": {"error": {"code": "rate_limit_exceeded", "message": "Please try again in 1.5s."}}}),
    ]);
    assert_eq!(wait.retry_after, Some(std::time::Duration::from_millis(1500)));
}

#[test]
fn a_failure_that_is_not_explained_may_pass() {
    for event in [
        json!({"type": "response.failed", "response": {"status": "failed", "error": null}}),
        json!({"type": "response.failed"}),
        json!({"type": "response.cancelled", "response": {"status": "cancelled"}}),
        json!({"type": "response.completed", "response": {"status": "failed"}}),
    ] {
        let error = failure(std::slice::from_ref(&event));
        assert_eq!((error.class, error.retryable), (ErrorClass::Network, true), "{event}");
    }
}

#[tokio::test]
async fn statuses_and_bodies_that_are_no_answer() {
    let page = "<!DOCTYPE html><title>Sign in</title>";
    for (reply, class, message) in [
        (reply().status(401).json(json!({"error": {"message": format!("bad key {KEY}")}})), ErrorClass::Auth, "401 (unauthorized): bad key ***"),
        (reply().status(429).json(json!({"error": {"message": "slow"}})), ErrorClass::RateLimited, "429 (too many requests): slow"),
        (reply().raw_body("text/html", page), ErrorClass::Protocol, "/v1/responses` answered with a web page"),
        (reply().raw_body("application/json", ""), ErrorClass::Protocol, "answered 200 with an empty body"),
        (reply().raw_body("text/plain", "Hello."), ErrorClass::Protocol, "not an answer: `Hello.`"),
        (reply().json(json!({"error": {"message": "slow", "code": 429}})), ErrorClass::RateLimited, "429 (too many requests): slow"),
        (reply().json(json!({"hello": "world"})), ErrorClass::Protocol, "reported an error"),
        (
            reply().json(json!({"object": "response", "status": "failed", "error": {"code": "server_error", "message": "m"}, "output": []})),
            ErrorClass::Protocol,
            "reported an error: m",
        ),
        (reply().json(json!({"object": "response", "status": "queued", "output": []})), ErrorClass::Network, "in the middle of the answer"),
        (reply().raw_body("application/json", "{\"output\": [{"), ErrorClass::Protocol, "not JSON"),
        (reply().raw_stream("data: oops\n\n"), ErrorClass::Protocol, "not JSON: `oops`"),
        (reply().raw_stream("event: error\ndata: it broke\n\n"), ErrorClass::Protocol, "reported an error: it broke"),
    ] {
        let server = Server::start([reply]);
        let client = OpenAiResponses::new(endpoint(&server.base_url()), http());
        let answer = ask(&client, request("hi")).await;
        let error = answer.error();
        assert_eq!(error.class, class, "{error:?}");
        assert!(error.message.contains(message), "{error:?}");
        assert_eq!(error.provider.as_deref(), Some("openai"));
    }
}

#[test]
fn what_breaks_after_the_end_does_not_matter() {
    let body = format!("{}data: {{\"type", sse(&[completed()]));
    assert_eq!(deltas_of(vec![body.into_bytes()]).1, None);
}

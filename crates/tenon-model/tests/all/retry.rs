//! When a failed request is repeated, after which wait, and when not.

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use tenon_core::{Cancel, Delta, ErrorClass, ModelClient, Request};
use tenon_model::{RetryPolicy, Retrying};
use tenon_testkit::{Reply, Server, json, reply};

use crate::support::{Answer, ask, client, request};

/// Like the default, but with waits that a test can afford.
fn quick() -> RetryPolicy {
    RetryPolicy { base: Duration::from_millis(1), ..RetryPolicy::default() }
}

async fn with_retries(
    script: impl IntoIterator<Item = Reply>,
    policy: RetryPolicy,
    request: Request,
) -> (Answer, usize) {
    let server = Server::start(script);
    let retrying = Retrying::new(Arc::new(client(&server)), policy);
    let answer = ask(&retrying, request).await;
    let requests = server.requests().len();
    (answer, requests)
}

#[tokio::test]
async fn a_failure_that_passes_is_not_seen() {
    let script =
        [reply().status(503), reply().status(429), reply().text("a").cut_after_events(2), reply().text("ok")];
    let (answer, requests) = with_retries(script, quick(), request("hi")).await;
    assert_eq!((answer.text.as_str(), answer.error), ("ok", None));
    assert_eq!(answer.retries.iter().map(|(attempt, _)| *attempt).collect::<Vec<_>>(), [2, 3, 4]);
    assert_eq!(requests, 4);
}

#[tokio::test]
async fn it_gives_up_after_five_attempts() {
    let (answer, requests) = with_retries([reply().status(503).forever()], quick(), request("hi")).await;
    let error = answer.error();
    assert_eq!(error.message, "`openai` answered 503 (unavailable): scripted status 503 (after 5 attempts)");
    assert_eq!((error.class, error.retryable, requests), (ErrorClass::Overloaded, true, 5));
}

#[tokio::test]
async fn what_cannot_pass_is_not_repeated() {
    let quota = reply().status(429).json(json!({"error": {"message": "pay", "code": "insufficient_quota"}}));
    for failure in [reply().status(401), reply().status(400), reply().status(404), quota] {
        let (answer, requests) = with_retries([failure], quick(), request("hi")).await;
        assert_eq!((answer.retries.len(), requests), (0, 1));
        assert!(!answer.error().retryable);
    }
}

#[tokio::test]
async fn half_an_answer_that_was_passed_on_is_not_repeated() {
    let live = Request { restartable: false, ..request("hi") };
    let script = || [reply().text("a").cut_after_events(2), reply().text("ok")];
    let (answer, requests) = with_retries(script(), quick(), live.clone()).await;
    assert_eq!(requests, 1);
    assert_eq!((answer.text.as_str(), answer.error().class), ("a", ErrorClass::Network));
    assert_eq!(
        answer.error().message,
        "the connection closed in the middle of the answer; half an answer had already been passed on, so the request was not repeated"
    );
    // Before the first delta nothing was passed on.
    let (answer, requests) = with_retries([reply().status(500), reply().text("ok")], quick(), live).await;
    assert_eq!((answer.text.as_str(), requests), ("ok", 2));
}

#[tokio::test]
async fn a_server_may_say_how_long() {
    let script = [
        reply().status(429).header("retry-after-ms", "2"),
        reply().status(429).header("retry-after", "0.003"),
        reply().text("ok"),
    ];
    let policy = RetryPolicy { base: Duration::from_secs(50), ..RetryPolicy::default() };
    let (answer, _) = with_retries(script, policy, request("hi")).await;
    assert_eq!(answer.text, "ok");
    assert_eq!(answer.retries, [(2, Duration::from_millis(2)), (3, Duration::from_millis(3))]);
}

#[tokio::test]
async fn a_wait_that_is_too_long_fails_at_once() {
    let (answer, requests) =
        with_retries([reply().status(429).header("retry-after", "61")], quick(), request("hi")).await;
    assert_eq!(requests, 1);
    assert!(
        answer
            .error()
            .message
            .ends_with("; the server asks to wait 61 s, and 60 s is the most that is waited"),
        "{}",
        answer.error().message
    );
    let (answer, _) = with_retries(
        [reply().status(429).header("retry-after", "2")],
        RetryPolicy { max_total: Duration::from_secs(1), ..quick() },
        request("hi"),
    )
    .await;
    assert_eq!(answer.retries, []);
    assert_eq!(answer.error().class, ErrorClass::RateLimited);
}

#[tokio::test(start_paused = true)]
async fn waits_double_with_some_spread() {
    let retrying = Retrying::new(Arc::new(AlwaysDown), RetryPolicy::default());
    let answer = ask(&retrying, request("hi")).await;
    let expected = [500, 1000, 2000, 4000].map(Duration::from_millis);
    assert_eq!(answer.retries.len(), expected.len());
    for ((_, wait), expected) in answer.retries.iter().zip(expected) {
        assert!(
            (expected.mul_f64(0.75)..=expected.mul_f64(1.25)).contains(wait),
            "{wait:?} is not about {expected:?}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn all_attempts_together_have_a_limit() {
    let policy = RetryPolicy { attempts: 1000, max_total: Duration::from_secs(10), ..RetryPolicy::default() };
    let started = tokio::time::Instant::now();
    let answer = ask(&Retrying::new(Arc::new(AlwaysDown), policy), request("hi")).await;
    assert!(answer.retries.len() >= 3, "{:?}", answer.retries);
    assert!(started.elapsed() <= Duration::from_secs(10));
}

#[tokio::test]
async fn a_wait_can_be_cancelled() {
    let retrying = Retrying::new(
        Arc::new(AlwaysDown),
        RetryPolicy { base: Duration::from_secs(60), ..RetryPolicy::default() },
    );
    let cancel = Cancel::new();
    let mut stream = retrying.stream(request("hi"), cancel.clone());
    assert!(matches!(stream.next().await, Some(Ok(Delta::Retrying { attempt: 2, .. }))));
    let (next, ()) = tokio::join!(stream.next(), async { cancel.cancel() });
    assert_eq!(next, None);
}

struct AlwaysDown;

impl ModelClient for AlwaysDown {
    fn stream(&self, _request: Request, _cancel: Cancel) -> tenon_core::DeltaStream {
        let error = tenon_core::ModelError {
            retryable: true,
            ..tenon_core::ModelError::new(ErrorClass::Overloaded, "down")
        };
        Box::pin(futures_util::stream::iter([Err(error)]))
    }
}

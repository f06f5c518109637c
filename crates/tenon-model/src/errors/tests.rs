use tenon_core::Secret;

use super::*;

fn asked<'a>(secrets: &'a Secrets) -> Asked<'a> {
    Asked { provider: "openai", model: "m-1", secrets, quotes: Quotes::Allowed }
}

#[test]
fn every_status_has_its_class() {
    use ErrorClass::{Auth, Network, Overloaded, Protocol, RateLimited};
    for (status, body, class, retryable) in [
        (401, "{}", Auth, false),
        (403, "{}", Auth, false),
        (402, "{}", RateLimited, false),
        (429, r#"{"error":{"code":"rate_limit_exceeded"}}"#, RateLimited, true),
        (429, r#"{"error":{"code":"insufficient_quota"}}"#, RateLimited, false),
        (429, r#"{"error":{"type":"insufficient_quota"}}"#, RateLimited, false),
        (
            400,
            r#"{"type":"error","error":{"type":"invalid_request_error","message":"Your credit balance is too low."}}"#,
            RateLimited,
            false,
        ),
        (503, "Loading model", Overloaded, true),
        (529, "{}", Overloaded, true),
        (408, "", Network, true),
        (425, "", Network, true),
        (502, "<html>", Network, true),
        (504, "", Network, true),
        (522, "", Network, true),
        (409, "", Protocol, true),
        (500, "", Protocol, true),
        (501, "", Protocol, false),
        (505, "", Protocol, false),
        (599, "", Protocol, true),
        (302, "", Protocol, false),
        (400, "", Protocol, false),
        (404, "", Protocol, false),
        (413, "", Protocol, false),
        (422, "", Protocol, false),
        (418, "", Protocol, false),
        (499, "", Network, true),
        (429, r#"{"error":{"code":429,"status":"RESOURCE_EXHAUSTED"}}"#, RateLimited, true),
        (
            429,
            r#"{"error":{"code":429,"details":[{"violations":[{"quotaId":"RequestsPerMinute"},{"quotaId":"RequestsPerDayPerProject"}]}]}}"#,
            RateLimited,
            false,
        ),
        (
            400,
            r#"[{"error":{"code":400,"status":"INVALID_ARGUMENT","message":"API key not valid.","details":[{"reason":"API_KEY_INVALID"}]}}]"#,
            Auth,
            false,
        ),
        (403, r#"{"error":{"code":403,"status":"PERMISSION_DENIED"}}"#, Auth, false),
        (503, r#"{"error":{"code":503,"status":"UNAVAILABLE"}}"#, Overloaded, true),
    ] {
        let error = from_status(status, body, None, &asked(&Secrets::default()));
        assert_eq!((error.class, error.retryable), (class, retryable), "{status} {body}");
        assert_eq!(error.http_status, Some(status));
    }
}

#[test]
fn an_error_without_a_status_is_sorted_by_its_code() {
    use ErrorClass::{Auth, Network, Overloaded, Protocol, RateLimited, Refused};
    for (body, class, retryable) in [
        (r#"{"error":{"code":429,"message":"slow down"}}"#, RateLimited, true),
        (r#"{"error":{"code":"502"}}"#, Network, true),
        (r#"{"error":{"type":"overloaded_error"}}"#, Overloaded, true),
        (r#"{"error":{"type":"unavailable_error","code":503}}"#, Overloaded, true),
        (r#"{"error":{"code":"rate_limit_exceeded"}}"#, RateLimited, true),
        (r#"{"error":{"code":"invalid_api_key"}}"#, Auth, false),
        (r#"{"error":{"type":"server_error","code":null}}"#, Protocol, true),
        (r#"{"error":{"status":"RESOURCE_EXHAUSTED"}}"#, RateLimited, true),
        (r#"{"error":{"status":"UNAUTHENTICATED"}}"#, Auth, false),
        (r#"{"error":{"status":"PERMISSION_DENIED"}}"#, Auth, false),
        (r#"{"error":{"status":"UNAVAILABLE"}}"#, Overloaded, true),
        (r#"{"error":{"status":"INTERNAL"}}"#, Protocol, true),
        (r#"{"error":{"status":"DEADLINE_EXCEEDED"}}"#, Protocol, true),
        (r#"{"error":{"status":"INVALID_ARGUMENT"}}"#, Protocol, false),
        (r#"[{"candidates":[]},{"error":{"code":503}}]"#, Overloaded, true),
        (r#"{"type":"error","error":{"type":"overloaded_error"}}"#, Overloaded, true),
        (r#"{"type":"error","error":{"type":"rate_limit_error"}}"#, RateLimited, true),
        (r#"{"type":"error","error":{"type":"authentication_error"}}"#, Auth, false),
        (r#"{"type":"error","error":{"type":"permission_error"}}"#, Auth, false),
        (r#"{"type":"error","error":{"type":"billing_error"}}"#, RateLimited, false),
        (r#"{"type":"error","error":{"type":"invalid_request_error"}}"#, Protocol, false),
        (r#"{"type":"error","error":{"type":"request_too_large"}}"#, Protocol, false),
        (r#"{"type":"error","error":{"type":"not_found_error"}}"#, Protocol, false),
        (r#"{"type":"error","error":{"type":"api_error"}}"#, Protocol, true),
        (r#"{"type":"error","error":{"type":"timeout_error"}}"#, Protocol, true),
        (
            r#"{"type":"response.failed","response":{"error":{"code":"rate_limit_exceeded"}}}"#,
            RateLimited,
            true,
        ),
        (r#"{"type":"response.failed","response":{"error":{"code":"server_error"}}}"#, Protocol, true),
        (
            r#"{"type":"response.failed","response":{"error":{"code":"server_is_overloaded"}}}"#,
            Overloaded,
            true,
        ),
        (r#"{"type":"response.failed","response":{"error":{"code":"slow_down"}}}"#, Overloaded, true),
        (
            r#"{"type":"response.failed","response":{"error":{"code":"insufficient_quota"}}}"#,
            RateLimited,
            false,
        ),
        (r#"{"type":"response.failed","response":{"error":{"code":"invalid_prompt"}}}"#, Refused, false),
        (
            r#"{"type":"response.failed","response":{"error":{"code":"context_length_exceeded"}}}"#,
            Protocol,
            false,
        ),
        (r#"{"type":"error","code":"rate_limit_exceeded","message":"x","param":null}"#, RateLimited, true),
        (r#"{"error":"something"}"#, Protocol, false),
        (r#"{"object":"error","message":"bad","code":400}"#, Protocol, false),
    ] {
        let error = from_error_json(body, &asked(&Secrets::default()));
        assert_eq!((error.class, error.retryable), (class, retryable), "{body}");
    }
}

#[test]
fn the_servers_own_words_are_found() {
    for (body, message) in [
        (r#"{"error":{"message":"no such thing"}}"#, "no such thing"),
        (r#"{"error":"no such thing"}"#, "no such thing"),
        (r#"[{"error":{"message":"no such thing"}}]"#, "no such thing"),
        (r#"{"message":"no such thing"}"#, "no such thing"),
        (r#"{"detail":"no such thing"}"#, "no such thing"),
        (r#"{"error":null,"message":"no such thing"}"#, "no such thing"),
        ("no such\n thing", "no such thing"),
    ] {
        let error = from_status(400, body, None, &asked(&Secrets::default()));
        assert_eq!(error.message, format!("`openai` answered 400 (bad request): {message}"), "{body}");
    }
    let page = from_status(502, "<!doctype html><p>nginx", None, &asked(&Secrets::default()));
    assert_eq!(page.message, "`openai` answered 502 (bad gateway)");
}

#[test]
fn a_wait_may_stand_in_the_body() {
    let body = |delay: &str| {
        format!(
            r#"{{"error":{{"code":429,"details":[{{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":{delay}}}]}}}}"#
        )
    };
    for (delay, expected) in [
        (r#""3s""#, Some(3_000)),
        (r#""0.25s""#, Some(250)),
        (r#""-1s""#, None),
        (r#""1e999s""#, None),
        (r#""soon""#, None),
        ("3", None),
    ] {
        let expected = expected.map(Duration::from_millis);
        assert_eq!(
            from_status(429, &body(delay), None, &asked(&Secrets::default())).retry_after,
            expected,
            "{delay}"
        );
        assert_eq!(
            from_error_json(&body(delay), &asked(&Secrets::default())).retry_after,
            expected,
            "{delay}"
        );
    }
    let header = Some(Duration::from_secs(9));
    assert_eq!(from_status(429, &body(r#""3s""#), header, &asked(&Secrets::default())).retry_after, header);
}

#[test]
fn a_wait_may_stand_in_the_message() {
    for (words, expected) in [
        ("Limit 30000, Used 29000. Please try again in 11.054s. Visit us.", Some(11_054)),
        ("Please try again in 20ms.", Some(20)),
        ("try again in 1m2s", Some(62_000)),
        ("try again in 5 minutes", None),
        ("try again in s", None),
        ("try again in 3", None),
        ("try again in 1.2.3s", None),
        ("try again in 99999999999999999999999h", None),
        ("try again later", None),
    ] {
        let body =
            serde_json::json!({"error": {"code": "rate_limit_exceeded", "message": words}}).to_string();
        let error = from_error_json(&body, &asked(&Secrets::default()));
        assert_eq!(error.retry_after, expected.map(Duration::from_millis), "{words}");
    }
}

#[test]
fn messages_are_bounded_and_hold_no_key() {
    let key = Secrets::from_iter([Secret::new("sk-123456")]);
    let body = format!("bad key sk-123456 {}", "x".repeat(2000));
    let error = from_status(401, &body, None, &asked(&key));
    assert!(error.message.contains("bad key *** xxx"), "{}", error.message);
    assert!(error.message.chars().count() < 560, "{}", error.message.len());
}

#[test]
fn hints_say_what_to_do() {
    for (status, body, hint) in [
        (401, "", "check the key"),
        (403, "", "`m-1`"),
        (404, r#"{"error":{"message":"model not found"}}"#, "does not know the model `m-1`"),
        (404, "", "base URL"),
        (
            400,
            r#"{"error":{"code":"context_length_exceeded","message":"x"}}"#,
            "larger than the model's context",
        ),
        (400, r#"{"error":{"message":"m-1 does not support tools"}}"#, "may not support tools"),
        (
            400,
            r#"{"error":{"message":"Function calling is not enabled for models/m-1"}}"#,
            "may not support tools",
        ),
        (402, "", "no credit left"),
        (301, "", "redirects are not followed"),
    ] {
        let error = from_status(status, body, None, &asked(&Secrets::default()));
        assert!(error.hint.as_ref().is_some_and(|found| found.contains(hint)), "{status} {body}: {error:?}");
    }
}

#[test]
fn a_conversation_that_is_too_long_is_told_from_other_refusals() {
    for (status, body, too_long) in [
        (400, r#"{"error":{"code":"context_length_exceeded","message":"x"}}"#, true),
        (400, r#"{"error":{"message":"This model's maximum context length is 8192 tokens."}}"#, true),
        (
            400,
            r#"{"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long: 210000 tokens > 200000 maximum"}}"#,
            true,
        ),
        (
            400,
            r#"{"error":{"code":400,"status":"INVALID_ARGUMENT","message":"The input token count (1200000) exceeds the maximum number of tokens allowed (1048576)."}}"#,
            true,
        ),
        (
            400,
            r#"{"error":{"code":400,"type":"exceed_context_size_error","message":"the request exceeds the available context size"}}"#,
            true,
        ),
        (400, r#"{"error":{"message":"Range of input length should be [1, 30720]"}}"#, true),
        (500, r#"{"error":{"message":"input is too long for the context window"}}"#, true),
        (413, "", true),
        (400, r#"{"error":{"message":"tools.0.name: string too long"}}"#, false),
        (
            429,
            r#"{"error":{"message":"Request too large on tokens per min: reduce the context length"}}"#,
            false,
        ),
        (401, r#"{"error":{"message":"context window"}}"#, false),
        (500, "the model took too long", false),
    ] {
        let error = from_status(status, body, None, &asked(&Secrets::default()));
        assert_eq!(error.context_overflow, too_long, "{status} {body}");
        assert!(!(error.context_overflow && error.retryable), "{status} {body}");
    }
}

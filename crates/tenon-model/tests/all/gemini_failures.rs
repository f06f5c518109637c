//! What goes wrong between us and Gemini, and what a person is told.

use std::time::Duration;

use tenon_core::{Delta, ErrorClass, FinishReason};
use tenon_model::Gemini;
use tenon_testkit::{Server, Value, json, reply};

use crate::gemini::{endpoint, finish, parts, read_text};
use crate::support::{KEY, ask, block_on, http, request, sse};

fn google_error(code: u16, status: &str, message: &str, details: Value) -> Value {
    json!({"error": {"code": code, "message": message, "status": status, "details": details}})
}

#[test]
fn errors_have_classes() {
    use ErrorClass::{Auth, Network, Overloaded, Protocol, RateLimited};
    let retry_info = json!([{"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "3.5s"}]);
    let day = json!([{"@type": "type.googleapis.com/google.rpc.QuotaFailure", "violations": [
        {"quotaId": "GenerateRequestsPerDayPerProjectPerModel-FreeTier"}]}]);
    let bad_key = json!([{"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": "API_KEY_INVALID"}]);
    for (status, code, details, class, retryable, wait, hint) in [
        (429, "RESOURCE_EXHAUSTED", retry_info, RateLimited, true, Some(3_500), ""),
        (429, "RESOURCE_EXHAUSTED", day, RateLimited, false, None, "for the day"),
        (400, "INVALID_ARGUMENT", bad_key, Auth, false, None, "check the key"),
        (400, "INVALID_ARGUMENT", json!([]), Protocol, false, None, ""),
        (401, "UNAUTHENTICATED", json!([]), Auth, false, None, "check the key"),
        (403, "PERMISSION_DENIED", json!([]), Auth, false, None, "`test-model`"),
        (404, "NOT_FOUND", json!([]), Protocol, false, None, "does not know the model `test-model`"),
        (500, "INTERNAL", json!([]), Protocol, true, None, ""),
        (503, "UNAVAILABLE", json!([]), Overloaded, true, None, ""),
        (504, "DEADLINE_EXCEEDED", json!([]), Network, true, None, ""),
    ] {
        let told = google_error(status, code, "models are busy", details);
        let server = Server::start([reply().status(status).json(told.clone())]);
        let client = Gemini::new(endpoint(server.base_url().trim_end_matches("/v1")), http());
        let answer = block_on(ask(&client, request("hi")));
        let error = answer.error();
        assert_eq!((error.class, error.retryable), (class, retryable), "{status} {code}");
        assert_eq!((error.http_status, error.provider.as_deref()), (Some(status), Some("gemini")));
        assert_eq!(error.retry_after, wait.map(Duration::from_millis), "{status} {code}");
        assert!(error.message.ends_with(": models are busy"), "{}", error.message);
        assert!(error.hint.as_deref().unwrap_or_default().contains(hint), "{status} {code}: {error:?}");

        // The same error in the middle of a stream, however it is written.
        let begun = sse(&[parts(json!([{"text": "a"}]))]);
        for body in [
            format!("{begun}data: {told}\n\n"),
            format!("{begun}event: error\ndata: {told}\n\n"),
            format!("{begun}{told}"),
            format!("{begun}{told:#}\r\n"),
            format!("{begun}[{told:#}\n]\n"),
            format!("[{},\n{told:#}]", parts(json!([{"text": "a"}]))),
        ] {
            let (seen, error) = read_text(&body);
            let error = error.unwrap();
            assert_eq!(seen, [Delta::Text("a".into())], "{body}");
            assert_eq!((error.class, error.retryable), (class, retryable), "{body}");
            assert_eq!(error.retry_after, wait.map(Duration::from_millis), "{body}");
        }
    }
}

#[test]
fn a_key_that_the_server_echoes_is_not_shown() {
    let told = google_error(400, "INVALID_ARGUMENT", &format!("API key {KEY} not valid."), json!([]));
    let error = read_text(&told.to_string()).1.unwrap();
    assert_eq!(error.message, "`gemini` answered 400 (bad request): API key *** not valid.");
}

#[test]
fn a_prompt_that_is_refused() {
    let feedback = json!({"promptFeedback": {"blockReason": "PROHIBITED_CONTENT"}, "usageMetadata": {"promptTokenCount": 4}});
    for body in [sse(std::slice::from_ref(&feedback)), feedback.to_string(), format!("[{feedback}]")] {
        let (seen, error) = read_text(&body);
        let error = error.unwrap();
        assert!(matches!(seen.as_slice(), [Delta::Usage(usage)] if usage.input == 4), "{seen:?}");
        assert_eq!((error.class, error.retryable), (ErrorClass::Refused, false));
        assert_eq!(error.message, "the provider refused the prompt (`PROHIBITED_CONTENT`)");
    }
    let told = json!({"promptFeedback": {"blockReason": "OTHER", "blockReasonMessage": "No\nway."}});
    assert_eq!(
        read_text(&sse(&[told])).1.unwrap().message,
        "the provider refused the prompt (`OTHER`): No way."
    );
}

#[test]
fn reasons_that_are_errors() {
    for (reason, retryable, message) in [
        ("MALFORMED_FUNCTION_CALL", true, "the model wrote a tool call that cannot be read"),
        ("UNEXPECTED_TOOL_CALL", true, "the model called a tool that it was not offered"),
        ("MALFORMED_RESPONSE", true, "the model wrote an answer that cannot be read"),
        ("OTHER", true, "the model ended its answer for a reason that it does not tell"),
        ("TOO_MANY_TOOL_CALLS", false, "the model made more tool calls than its provider allows"),
        ("MISSING_THOUGHT_SIGNATURE", false, "the provider missed a signature in the conversation"),
    ] {
        let error = read_text(&sse(&[parts(json!([{"text": "a"}])), finish(reason)])).1.unwrap();
        assert_eq!((error.class, error.retryable), (ErrorClass::Protocol, retryable), "{reason}");
        assert_eq!(error.message, format!("{message} (`{reason}`)"));
    }
    let told = json!({"candidates": [{"finishReason": "MALFORMED_FUNCTION_CALL", "finishMessage": "Malformed function call: print(1)"}]});
    assert_eq!(
        read_text(&sse(&[told])).1.unwrap().message,
        "the model wrote a tool call that cannot be read (`MALFORMED_FUNCTION_CALL`): Malformed function call: print(1)"
    );
}

#[test]
fn half_an_answer_is_none() {
    let begun = parts(json!([{"text": "a"}]));
    for body in [
        sse(std::slice::from_ref(&begun)),
        format!("{}data: {{\"candidates\": [{{", sse(std::slice::from_ref(&begun))),
        format!("{}{{\"error\": {{", sse(std::slice::from_ref(&begun))),
        format!("{}data: [DONE]\n\n", sse(std::slice::from_ref(&begun))),
        format!("[{begun}]"),
        format!("[{begun},"),
        begun.to_string(),
    ] {
        let error = read_text(&body).1.unwrap_or_else(|| panic!("{body}"));
        assert_eq!((error.class, error.retryable), (ErrorClass::Network, true), "{body}");
        assert_eq!(error.message, "the connection closed in the middle of the answer", "{body}");
    }
    // What is cut after the reason does no harm.
    let whole = format!("{}data: {{\"usageMeta", sse(&[begun, finish("STOP")]));
    assert_eq!(read_text(&whole), (vec![Delta::Text("a".into()), Delta::Finished(FinishReason::Stop)], None));
}

#[test]
fn what_is_no_answer_at_all() {
    for (body, message) in [
        (
            "<!doctype html><p>Sign in",
            "`http://127.0.0.1/v1beta/models/test-model:streamGenerateContent` answered with a web page, not with a model's answer",
        ),
        ("data: oops\n\n", "the server sent something that is not JSON: `oops`"),
        ("{]", "the server sent something that is not JSON: `{]`"),
        ("[]", "`gemini` reported an error: []"),
        (r#"{"hello":"world"}"#, "`gemini` reported an error"),
        (r#"{"candidates":7}"#, "`gemini` reported an error"),
    ] {
        let error = read_text(body).1.unwrap();
        assert_eq!((error.class, error.message.as_str()), (ErrorClass::Protocol, message), "{body}");
    }
}

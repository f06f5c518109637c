//! The error objects of the providers: as an HTTP body, and in the middle of a stream.

use serde_json::{Value, json};

use crate::Wire;

/// The body of an HTTP error.
pub(super) fn body(wire: Wire, status: u16, message: &str) -> Value {
    match wire {
        Wire::Chat => json!({"error": {"message": message, "type": "scripted_error", "code": status}}),
        Wire::Responses => {
            let (kind, code) = openai_words(status);
            json!({"error": {"message": message, "type": kind, "param": null, "code": code}})
        }
        Wire::Messages => messages(anthropic_type(status), message),
        Wire::Gemini => {
            json!({"error": {"code": status, "message": message, "status": google_status(status)}})
        }
    }
}

/// An error of a script (`message`, `type`, `code`), as an event of the Messages wire.
pub(super) fn messages_event(error: &Value) -> Value {
    let given = error["type"].as_str().filter(|kind| ANTHROPIC_TYPES.contains(kind));
    messages(given.unwrap_or_else(|| anthropic_type(status_of(error))), message_of(error))
}

/// The same as an event of the Responses wire.
pub(super) fn responses_event(error: &Value) -> Value {
    json!({"type": "error", "code": code_of(error), "message": message_of(error), "param": error["param"]})
}

/// The same as the `error` of a response that failed.
pub(super) fn response_error(error: &Value) -> Value {
    json!({"code": code_of(error), "message": message_of(error)})
}

/// The same as an event of the Gemini wire; `status` and `details` are kept where the script has them.
pub(super) fn gemini_event(error: &Value) -> Value {
    // 529 is a number of Anthropic's own.
    let status = if status_of(error) == 529 { 503 } else { status_of(error) };
    let word = error["status"].as_str().unwrap_or_else(|| google_status(status));
    let mut told = json!({"code": status, "message": message_of(error), "status": word});
    if let Some(details) = error.get("details") {
        told["details"] = details.clone();
    }
    json!({"error": told})
}

fn messages(kind: &str, message: &str) -> Value {
    json!({"type": "error", "error": {"type": kind, "message": message}})
}

fn message_of(error: &Value) -> &str {
    error["message"].as_str().or(error.as_str()).unwrap_or_default()
}

fn code_of(error: &Value) -> Value {
    let given = [&error["code"], &error["type"]].into_iter().find(|word| word.is_string());
    given.cloned().unwrap_or_else(|| json!(openai_words(status_of(error)).1.unwrap_or("server_error")))
}

/// The HTTP status that an error without one would have.
fn status_of(error: &Value) -> u16 {
    if let Some(status) = error["code"].as_u64().and_then(|code| u16::try_from(code).ok()) {
        return status;
    }
    let words = ["type", "code", "status"].map(|field| error[field].as_str().unwrap_or_default());
    let words = words.concat().to_ascii_lowercase();
    let table = [
        ("rate_limit", 429),
        ("resource_exhausted", 429),
        ("quota", 429),
        ("overloaded", 529),
        ("unavailable", 503),
        ("auth", 401),
        ("api_key", 401),
        ("permission", 403),
        ("not_found", 404),
        ("too_large", 413),
        ("invalid", 400),
    ];
    table.into_iter().find(|(word, _)| words.contains(word)).map_or(500, |(_, status)| status)
}

fn openai_words(status: u16) -> (&'static str, Option<&'static str>) {
    match status {
        401 => ("invalid_request_error", Some("invalid_api_key")),
        404 => ("invalid_request_error", Some("model_not_found")),
        429 => ("requests", Some("rate_limit_exceeded")),
        500.. => ("server_error", None),
        _ => ("invalid_request_error", None),
    }
}

const ANTHROPIC_TYPES: [&str; 10] = [
    "invalid_request_error",
    "authentication_error",
    "billing_error",
    "permission_error",
    "not_found_error",
    "request_too_large",
    "rate_limit_error",
    "timeout_error",
    "api_error",
    "overloaded_error",
];

fn anthropic_type(status: u16) -> &'static str {
    match status {
        401 => "authentication_error",
        402 => "billing_error",
        403 => "permission_error",
        404 => "not_found_error",
        413 => "request_too_large",
        429 => "rate_limit_error",
        504 => "timeout_error",
        503 | 529 => "overloaded_error",
        500.. => "api_error",
        _ => "invalid_request_error",
    }
}

fn google_status(status: u16) -> &'static str {
    match status {
        401 => "UNAUTHENTICATED",
        403 => "PERMISSION_DENIED",
        404 => "NOT_FOUND",
        409 => "ABORTED",
        429 => "RESOURCE_EXHAUSTED",
        499 => "CANCELLED",
        501 => "UNIMPLEMENTED",
        503 | 529 => "UNAVAILABLE",
        504 => "DEADLINE_EXCEEDED",
        500 => "INTERNAL",
        400..500 => "INVALID_ARGUMENT",
        _ => "UNKNOWN",
    }
}

//! Sorts what a server or the network did wrong into the classes of `tenon_core::ErrorClass`.
//!
//! | what happened | class | repeated? |
//! |---|---|---|
//! | 401, 403; `invalid_api_key`, `authentication_error`, `permission_error`; `API_KEY_INVALID` (whatever the status) | auth | no |
//! | 402; `insufficient_quota`, `billing_error`, "credit balance is too low" or a quota `…PerDay…` (whatever the status) | rate_limited | no |
//! | 429; `rate_limit…`, `RESOURCE_EXHAUSTED` | rate_limited | yes |
//! | `content_filter`, `content_policy…`, `cyber_policy…`, `invalid_prompt` (whatever the status) | refused | no |
//! | 503, 529; `overloaded…`, `unavailable…`, `slow_down` | overloaded | yes |
//! | 408, 425, 499, 502, 504, 520–527 | network | yes |
//! | 409, 500, other 5xx but 501 and 505; `server_error`, `api_error`, `internal…` | protocol | yes |
//! | 3xx, 400, 404, 413, 422, any other 4xx, 501, 505 | protocol | no |
//! | "context length", "prompt is too long" and the like; 413 | protocol, and the request is known to be too long | no |
//! | an error in the middle of a stream, or with status 200 | by its `code` and `type`, as above | as above |
//! | a web page, plain text or no JSON with status 200 | protocol | no |
//! | an empty body with status 200 | protocol | yes |
//! | DNS, connect, read, time-outs, half an answer | network | yes |
//! | TLS certificate not accepted | network | no |
//! | a key that would travel in the clear, an address that is no URL | config | no |

use std::time::Duration;

use serde_json::Value;
use tenon_core::{ErrorClass, ModelError, Request, Secrets};

/// A server's own words are shown up to this length: enough for a sentence, too little for a page.
const MAX_SERVER_MESSAGE_CHARS: usize = 500;
/// How much of an error answer is read.
pub(crate) const MAX_ERROR_BODY_BYTES: usize = 64 << 10;

const BASE_URL_HINT: &str = "check the base URL (with the version, such as `/v1`, where the provider wants it) and any proxy in between";

/// Who was asked, for messages.
pub(crate) struct Asked<'a> {
    pub provider: &'a str,
    pub model: &'a str,
    pub secrets: &'a Secrets,
    pub quotes: Quotes,
}

impl<'a> Asked<'a> {
    pub fn of(provider: &'a str, request: &'a Request, secrets: &'a Secrets) -> Asked<'a> {
        Asked { provider, model: &request.model, secrets, quotes: Quotes::of(request) }
    }
}

/// May an answer that cannot be understood be quoted? Not where it could be a payload, or what is left of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Quotes {
    Allowed,
    Never,
}

impl Quotes {
    pub(crate) fn of(request: &Request) -> Quotes {
        match (&request.terminal_tool, &request.response_format) {
            (None, None) => Quotes::Allowed,
            _ => Quotes::Never,
        }
    }
}

impl Asked<'_> {
    /// What of an answer a message may show.
    fn shown(&self, text: &str) -> String {
        match self.quotes {
            Quotes::Allowed => format!(": `{}`", shorten(&self.secrets.hide(text), 120)),
            Quotes::Never => format!(" ({} bytes)", text.len()),
        }
    }
}

/// An answer whose status is not success.
pub(crate) fn from_status(
    status: u16,
    body: &str,
    retry_after: Option<Duration>,
    asked: &Asked<'_>,
) -> ModelError {
    let told = Told::read(body);
    let mut error = sort(Some(status), &told, asked);
    error.http_status = Some(status);
    error.retry_after = retry_after.or(told.retry_delay);
    error
}

/// An error object in the middle of a stream, or in an answer that claimed success.
pub(crate) fn from_error_json(text: &str, asked: &Asked<'_>) -> ModelError {
    let told = Told::read(text);
    let status = told.code.parse().ok().filter(|status| (400..600).contains(status));
    let mut error = sort(status, &told, asked);
    error.http_status = status;
    error.retry_after = told.retry_delay;
    error
}

/// The answer is a web page: a login page of a proxy, or the wrong address.
pub(crate) fn web_page(url: &str) -> ModelError {
    ModelError {
        hint: Some(BASE_URL_HINT.into()),
        ..ModelError::new(
            ErrorClass::Protocol,
            format!("`{url}` answered with a web page, not with a model's answer"),
        )
    }
}

/// The answer is neither an event stream nor JSON.
pub(crate) fn not_json(text: &str, asked: &Asked<'_>) -> ModelError {
    let shown = asked.shown(text);
    ModelError::new(ErrorClass::Protocol, format!("the server sent something that is not JSON{shown}"))
}

/// The answer is some text, and no event in it.
pub(crate) fn not_an_answer(text: &str, asked: &Asked<'_>) -> ModelError {
    let shown = asked.shown(text);
    ModelError {
        hint: Some(BASE_URL_HINT.into()),
        ..ModelError::new(
            ErrorClass::Protocol,
            format!("the server answered 200 with something that is not an answer{shown}"),
        )
    }
}

pub(crate) fn empty_body() -> ModelError {
    ModelError {
        retryable: true,
        ..ModelError::new(ErrorClass::Protocol, "the server answered 200 with an empty body")
    }
}

/// The stream ended, but the answer had not.
pub(crate) fn half_an_answer() -> ModelError {
    network("the connection closed in the middle of the answer")
}

/// Signs of life came for this long, and nothing of the answer.
pub(crate) fn nothing_said(silence: Duration) -> ModelError {
    let silence = seconds(silence);
    kept_open(format!("the server kept the connection open for {silence} without saying anything"))
}

/// An answer in one piece whose end does not come.
pub(crate) fn never_ends(wait: Duration) -> ModelError {
    kept_open(format!("the server had not sent all of its answer after {}", seconds(wait)))
}

fn kept_open(message: String) -> ModelError {
    let hint = "for a model that needs more time, raise `timeouts.idle` in settings";
    ModelError { hint: Some(hint.into()), ..network(message) }
}

/// The server said that the answer failed, and no more.
pub(crate) fn unexplained() -> ModelError {
    network("the server ended the answer with an error that it did not explain")
}

/// A network failure that may pass.
pub(crate) fn network(message: impl Into<String>) -> ModelError {
    ModelError { retryable: true, ..ModelError::new(ErrorClass::Network, message) }
}

pub(crate) fn config(message: impl Into<String>, hint: impl Into<String>) -> ModelError {
    ModelError { hint: Some(hint.into()), ..ModelError::new(ErrorClass::Config, message) }
}

/// A duration, for messages.
pub(crate) fn seconds(duration: Duration) -> String {
    format!("{} s", duration.as_secs_f64())
}

/// What an error body says, in whichever of the known shapes.
#[derive(Debug, Default, PartialEq)]
struct Told {
    message: String,
    code: String,
    kind: String,
    /// What Google's list of details adds: reasons and names of quotas.
    details: String,
    /// How long to wait, where the body says so.
    retry_delay: Option<Duration>,
}

impl Told {
    fn read(body: &str) -> Told {
        let body = body.trim();
        let Ok(value) = serde_json::from_str::<Value>(body) else {
            let message = if looks_like_html(body) { String::new() } else { body.to_owned() };
            return Told { message, ..Told::default() };
        };
        // Some gateways wrap the object in a list, and a list of chunks may end in one.
        let listed = value
            .as_array()
            .and_then(|list| list.iter().find(|value| value.get("error").is_some()).or_else(|| list.first()));
        let value = listed.unwrap_or(&value);
        let mut places = [value.get("error"), value.pointer("/response/error")].into_iter().flatten();
        let error = places.find(|error| !error.is_null()).unwrap_or(value);
        let text = |keys: &[&str]| {
            let found = keys.iter().filter_map(|key| error.get(key)).find(|found| !found.is_null());
            found.map(plain).unwrap_or_default()
        };
        let message = if error.is_object() {
            text(&["message", "detail", "error", "errors", "msg"])
        } else {
            plain(error)
        };
        let details = error.get("details").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        Told {
            code: text(&["code", "status"]),
            kind: text(&["type", "status"]),
            details: details.iter().flat_map(detail_words).collect::<Vec<_>>().join(" "),
            retry_delay: details.iter().find_map(retry_delay).or_else(|| delay_in_words(&message)),
            message,
        }
    }

    fn says(&self, words: &[&str]) -> bool {
        let (code, kind) = (self.code.to_ascii_lowercase(), self.kind.to_ascii_lowercase());
        words.iter().any(|word| code.contains(word) || kind.contains(word))
    }

    fn day_is_used_up(&self) -> bool {
        self.details.contains("PerDay")
    }

    /// The request does not fit into the model's context.
    fn is_too_long(&self) -> bool {
        self.says(&["context_length", "exceed_context"]) || self.mentions(&TOO_LONG)
    }

    fn mentions(&self, words: &[&str]) -> bool {
        let message = self.message.to_ascii_lowercase();
        words.iter().any(|word| message.contains(word))
    }
}

/// `API_KEY_INVALID`, or the ids of the quotas that were exceeded.
fn detail_words(detail: &Value) -> impl Iterator<Item = &str> {
    let quotas = detail["violations"].as_array().map(Vec::as_slice).unwrap_or_default();
    detail["reason"].as_str().into_iter().chain(quotas.iter().filter_map(|quota| quota["quotaId"].as_str()))
}

/// `{"@type": "…RetryInfo", "retryDelay": "3.5s"}`
fn retry_delay(detail: &Value) -> Option<Duration> {
    let seconds = detail["retryDelay"].as_str()?.strip_suffix('s')?.parse().ok()?;
    Duration::try_from_secs_f64(seconds).ok()
}

/// `Please try again in 1m2.5s.`
fn delay_in_words(message: &str) -> Option<Duration> {
    let mut rest = message.split_once("try again in ")?.1;
    let mut sum = None;
    while let Some(end) = rest.find(|c: char| !c.is_ascii_digit() && c != '.').filter(|end| *end > 0) {
        let (number, after) = rest.split_at(end);
        let unit = after.len() - after.trim_start_matches(|c: char| c.is_ascii_alphabetic()).len();
        let seconds = match &after[..unit] {
            "ms" => 0.001,
            "s" => 1.0,
            "m" => 60.0,
            "h" => 3600.0,
            _ => break,
        };
        let part = Duration::try_from_secs_f64(number.parse::<f64>().ok()? * seconds).ok()?;
        sum = Some(sum.unwrap_or(Duration::ZERO).saturating_add(part));
        rest = &after[unit..];
    }
    sum
}

fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

fn sort(status: Option<u16>, told: &Told, asked: &Asked<'_>) -> ModelError {
    let (class, retryable) = class_of(status, told);
    let said = server_words(&asked.secrets.hide(told.message.trim()));
    let provider = asked.provider;
    let mut message = match status {
        Some(status) => format!("`{provider}` answered {status}{}", reason(status)),
        None => format!("`{provider}` reported an error"),
    };
    if !said.is_empty() {
        message.push_str(": ");
        message.push_str(&said);
    }
    let context_overflow = class == ErrorClass::Protocol && (status == Some(413) || told.is_too_long());
    // The same request would be refused again, whatever the status.
    let retryable = retryable && !context_overflow;
    let hint = hint_for(class, status, told, asked);
    ModelError { retryable, hint, context_overflow, ..ModelError::new(class, message) }
}

fn class_of(status: Option<u16>, told: &Told) -> (ErrorClass, bool) {
    use ErrorClass::{Auth, Network, Overloaded, Protocol, RateLimited, Refused};
    if told.says(&["content_filter", "content_policy", "cyber_policy", "invalid_prompt"]) {
        return (Refused, false);
    }
    if told.says(&["insufficient_quota", "insufficient_balance", "billing"])
        || told.mentions(&["credit balance is too low"])
    {
        return (RateLimited, false);
    }
    if told.details.contains("API_KEY_INVALID") {
        return (Auth, false);
    }
    if told.day_is_used_up() {
        return (RateLimited, false);
    }
    match status {
        Some(401 | 403) => (Auth, false),
        Some(402) => (RateLimited, false),
        Some(429) => (RateLimited, true),
        Some(503 | 529) => (Overloaded, true),
        Some(408 | 425 | 499 | 502 | 504 | 520..=527) => (Network, true),
        Some(501 | 505) => (Protocol, false),
        Some(409 | 500..) => (Protocol, true),
        Some(_) => (Protocol, false),
        None if told.says(&[
            "invalid_api_key",
            "authentication",
            "permission",
            "unauthorized",
            "unauthenticated",
        ]) =>
        {
            (Auth, false)
        }
        None if told.says(&["rate_limit", "too_many_requests", "resource_exhausted"]) => (RateLimited, true),
        None if told.says(&["overloaded", "unavailable", "capacity", "slow_down"]) => (Overloaded, true),
        None if told.says(&["server_error", "api_error", "internal", "timeout", "deadline_exceeded"]) => {
            (Protocol, true)
        }
        None => (Protocol, false),
    }
}

fn hint_for(class: ErrorClass, status: Option<u16>, told: &Told, asked: &Asked<'_>) -> Option<String> {
    if told.is_too_long() {
        return Some("the conversation is larger than the model's context: give it less input, or use a model with a larger context".into());
    }
    match (class, status) {
        (ErrorClass::Auth, Some(403)) => Some(format!(
            "the key is known but may not do this; check what it allows for the model `{}`",
            asked.model
        )),
        (ErrorClass::Auth, _) => Some(
            "check the key in the provider's environment variable, and that it belongs to this base URL"
                .into(),
        ),
        (ErrorClass::RateLimited, _) if told.day_is_used_up() => Some(format!(
            "the quota of this key for the day is used up; use another model than `{}`, or another key",
            asked.model
        )),
        (ErrorClass::RateLimited, _) if !class_of(status, told).1 => {
            Some("the account has no credit left; waiting does not help".into())
        }
        (_, Some(300..=399)) => {
            Some("redirects are not followed; set the base URL to the final address".into())
        }
        (_, Some(404)) if told.mentions(&["model"]) => Some(format!(
            "the server does not know the model `{}`; choose another with `--model`",
            asked.model
        )),
        (_, Some(404 | 405)) => Some(format!(
            "check the base URL (with the version, such as `/v1`, where the provider wants it) and the model `{}`",
            asked.model
        )),
        (_, Some(413)) => Some("the request is too large for this server: give it less input".into()),
        (_, Some(400 | 422))
            if told.mentions(&["tool", "function calling"]) && !told.mentions(&NAMES_A_PLACE) =>
        {
            Some(format!("the model `{}` may not support tools; choose another with `--model`", asked.model))
        }
        _ => None,
    }
}

/// How servers say that a conversation is larger than the model's context.
const TOO_LONG: [&str; 11] = [
    "context length",
    "context_length",
    "context window",
    "maximum context",
    "context size",
    "context limit",
    "prompt is too long",
    "input is too long",
    "maximum prompt length",
    "exceeds the maximum number of tokens",
    "range of input length",
];

/// Words of a server that finds fault with one place in the request, not with tools as such.
const NAMES_A_PLACE: [&str; 4] = ["tools.", "messages.", "tool_use", "input_schema"];

fn reason(status: u16) -> &'static str {
    match status {
        300..=399 => " (redirect)",
        400 => " (bad request)",
        401 => " (unauthorized)",
        402 => " (payment required)",
        403 => " (forbidden)",
        404 => " (not found)",
        408 => " (request timeout)",
        413 => " (request too large)",
        422 => " (cannot process the request)",
        429 => " (too many requests)",
        500 => " (internal server error)",
        502 => " (bad gateway)",
        503 => " (unavailable)",
        504 => " (gateway timeout)",
        529 => " (overloaded)",
        _ => "",
    }
}

pub(crate) fn looks_like_html(text: &str) -> bool {
    text.trim_start_matches('\u{feff}').trim_start().starts_with('<')
}

/// A server's own sentence, on one line and not too long.
pub(crate) fn server_words(text: &str) -> String {
    shorten(text, MAX_SERVER_MESSAGE_CHARS)
}

/// At most `limit` characters on one line.
fn shorten(text: &str, limit: usize) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(limit) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line,
    }
}

#[cfg(test)]
mod tests;

//! What servers say, with an answer, about how much more they will give: nothing more until when?
//!
//! | who | what is left | when there is more |
//! |---|---|---|
//! | OpenAI and those like it | `x-ratelimit-remaining-requests`, `-tokens` | `x-ratelimit-reset-requests`, `-tokens`: `1m2.5s`, `20ms`, or seconds |
//! | Anthropic | `anthropic-ratelimit-requests-remaining`, `-tokens-`, `-input-tokens-`, `-output-tokens-` | `…-reset`: `2026-01-02T03:04:05Z` |
//! | others | `ratelimit-remaining`, `x-ratelimit-remaining` | `ratelimit-reset`, `x-ratelimit-reset`: seconds, or seconds or milliseconds since 1970 |
//!
//! With `0` left nobody asks until then; how many are left matters only to those who wait. What a refusal says is `retry_after.rs`,
//! and this where it says nothing else.

use std::time::Duration;

use crate::HttpResponse;
use crate::retry_after::{LONGEST_WAIT_S, days_since_1970, number, server_now};

/// How long to ask for nothing.
pub(crate) fn pause_asked_for(response: &HttpResponse) -> Option<Duration> {
    let used_up = |remaining: &str| response.header(remaining).and_then(number) == Some(0.0);
    let pauses = KINDS.iter().filter(|kind| used_up(kind.remaining)).filter_map(|kind| {
        let reset = wait(response.header(kind.reset)?, response)?;
        // Such a limit fills up evenly: the next request is allowed when one of them has come back.
        let size = kind.limit.and_then(|limit| number(response.header(limit)?)).filter(|size| *size >= 1.0);
        Some(size.map_or(reset, |size| reset.div_f64(size)))
    });
    pauses.max()
}

/// How many more requests the server will answer now, where it says so. What it gives in tokens is another question.
pub(crate) fn requests_left(response: &HttpResponse) -> Option<u32> {
    let of_requests = KINDS.iter().filter(|kind| !kind.remaining.contains("tokens"));
    let left = of_requests.filter_map(|kind| number(response.header(kind.remaining)?));
    // A number that is too large for it is the largest.
    left.map(|left| left as u32).min()
}

struct Kind {
    remaining: &'static str,
    reset: &'static str,
    /// How many there are in all, where what is used comes back one by one and `reset` is when all are back.
    limit: Option<&'static str>,
}

const fn kind(remaining: &'static str, reset: &'static str, limit: Option<&'static str>) -> Kind {
    Kind { remaining, reset, limit }
}

const KINDS: [Kind; 8] = [
    kind("x-ratelimit-remaining-requests", "x-ratelimit-reset-requests", Some("x-ratelimit-limit-requests")),
    kind("x-ratelimit-remaining-tokens", "x-ratelimit-reset-tokens", None),
    kind(
        "anthropic-ratelimit-requests-remaining",
        "anthropic-ratelimit-requests-reset",
        Some("anthropic-ratelimit-requests-limit"),
    ),
    kind("anthropic-ratelimit-tokens-remaining", "anthropic-ratelimit-tokens-reset", None),
    kind("anthropic-ratelimit-input-tokens-remaining", "anthropic-ratelimit-input-tokens-reset", None),
    kind("anthropic-ratelimit-output-tokens-remaining", "anthropic-ratelimit-output-tokens-reset", None),
    kind("ratelimit-remaining", "ratelimit-reset", None),
    kind("x-ratelimit-remaining", "x-ratelimit-reset", None),
];

/// Numbers above are a time, not a wait: seconds since 1970, and above the second one milliseconds.
const SECONDS_SINCE_1970: f64 = 1e9;
const MILLIS_SINCE_1970: f64 = 1e12;

fn wait(text: &str, response: &HttpResponse) -> Option<Duration> {
    let now = || server_now(response).map(|seconds| seconds as f64);
    let seconds = match text.trim().parse::<f64>().ok().filter(|number| number.is_finite()) {
        Some(time) if time >= MILLIS_SINCE_1970 => time / 1000.0 - now()?,
        Some(time) if time >= SECONDS_SINCE_1970 => time - now()?,
        Some(wait) => wait,
        None => match in_units(text.trim()) {
            Some(wait) => wait,
            None => date_time(text.trim())? - now()?,
        },
    };
    (seconds > 0.0).then(|| Duration::from_secs_f64(seconds.min(LONGEST_WAIT_S)))
}

/// Seconds of `1h2m3.5s` or `20ms`.
fn in_units(text: &str) -> Option<f64> {
    let mut rest = text;
    let mut sum = 0.0;
    while !rest.is_empty() {
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let (digits, after) = rest.split_at(end);
        let unit_end = after.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(after.len());
        let (unit, left) = after.split_at(unit_end);
        let seconds = match unit {
            "ms" => 0.001,
            "s" => 1.0,
            "m" => 60.0,
            "h" => 3600.0,
            "d" => 86_400.0,
            _ => return None,
        };
        sum += digits.parse::<f64>().ok()? * seconds;
        rest = left;
    }
    (!text.is_empty()).then_some(sum)
}

/// Seconds since 1970 of `2026-01-02T03:04:05Z`, with a fraction or an offset where one is written.
fn date_time(text: &str) -> Option<f64> {
    let (date, time) = text.split_once(['T', 't', ' '])?;
    let mut date = date.split('-').map(|part| part.parse::<u64>().ok());
    let (year, month, day) = (date.next()??, date.next()??, date.next()??);
    let (clock, offset) = match time.find(['Z', 'z', '+', '-']) {
        Some(at) => time.split_at(at),
        None => (time, "Z"),
    };
    let mut clock = clock.split(':').map(|part| part.parse::<f64>().ok().filter(|part| *part >= 0.0));
    let (hours, minutes, seconds) = (clock.next()??, clock.next()??, clock.next()??);
    let offset = match offset.split_at_checked(1)? {
        ("Z" | "z", _) => 0.0,
        (sign, ahead) => {
            let (hours, minutes) = ahead.split_once(':')?;
            let ahead = hours.parse::<f64>().ok()? * 3600.0 + minutes.parse::<f64>().ok()? * 60.0;
            if sign == "-" { -ahead } else { ahead }
        }
    };
    let days = days_since_1970(year, month, day)?;
    Some(days as f64 * 86_400.0 + hours * 3600.0 + minutes * 60.0 + seconds - offset)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pause(headers: &[(&str, &str)]) -> Option<Duration> {
        let headers = headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        pause_asked_for(&HttpResponse { status: 200, headers, body: Box::pin(futures_util::stream::empty()) })
    }

    #[test]
    fn every_header_of_the_table() {
        let date = ("date", "Fri, 02 Jan 2026 03:04:05 GMT");
        let reset = |value| ("x-ratelimit-reset", value);
        let none_left = ("x-ratelimit-remaining", "0");
        for (headers, expected) in [
            (
                vec![("x-ratelimit-remaining-requests", "0"), ("x-ratelimit-reset-requests", "6m0s")],
                Some(360_000),
            ),
            (
                vec![
                    ("x-ratelimit-remaining-requests", "0"),
                    ("x-ratelimit-reset-requests", "1m0s"),
                    ("x-ratelimit-limit-requests", "3"),
                ],
                Some(20_000),
            ),
            (vec![("x-ratelimit-remaining-tokens", "0"), ("x-ratelimit-reset-tokens", "20ms")], Some(20)),
            (vec![("x-ratelimit-remaining-tokens", "0"), ("x-ratelimit-reset-tokens", "1.5")], Some(1_500)),
            (vec![("x-ratelimit-remaining-tokens", "1"), ("x-ratelimit-reset-tokens", "9s")], None),
            (vec![("x-ratelimit-remaining-tokens", "0")], None),
            (
                vec![
                    ("anthropic-ratelimit-requests-remaining", "0"),
                    ("anthropic-ratelimit-requests-reset", "2026-01-02T03:04:35Z"),
                    date,
                ],
                Some(30_000),
            ),
            (
                vec![
                    ("anthropic-ratelimit-output-tokens-remaining", "0"),
                    ("anthropic-ratelimit-output-tokens-reset", "2026-01-02T05:04:06.5+02:00"),
                    date,
                ],
                Some(1_500),
            ),
            (
                vec![
                    ("anthropic-ratelimit-tokens-remaining", "0"),
                    ("anthropic-ratelimit-tokens-reset", "2026-01-02T03:04:00Z"),
                    date,
                ],
                None,
            ),
            (vec![("ratelimit-remaining", "0"), ("ratelimit-reset", "7")], Some(7_000)),
            (vec![none_left, reset("1767323055"), date], Some(10_000)),
            (vec![none_left, reset("1767323055000"), date], Some(10_000)),
            (vec![none_left, reset("soon")], None),
            (vec![none_left, reset("-3")], None),
            (vec![none_left, reset("")], None),
            (
                vec![none_left, reset("2"), ("ratelimit-remaining", "0"), ("ratelimit-reset", "5")],
                Some(5_000),
            ),
        ] {
            assert_eq!(pause(&headers), expected.map(Duration::from_millis), "{headers:?}");
        }
    }

    #[test]
    fn how_many_are_left() {
        let left = |headers: &[(&str, &str)]| {
            let headers =
                headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
            requests_left(&HttpResponse {
                status: 200,
                headers,
                body: Box::pin(futures_util::stream::empty()),
            })
        };
        for (headers, expected) in [
            (vec![("x-ratelimit-remaining-requests", "59"), ("x-ratelimit-remaining-tokens", "3")], Some(59)),
            (vec![("anthropic-ratelimit-requests-remaining", "7")], Some(7)),
            (vec![("ratelimit-remaining", "0"), ("x-ratelimit-remaining", "9")], Some(0)),
            (vec![("x-ratelimit-remaining", "1e99")], Some(1_000_000_000)),
            (vec![("x-ratelimit-remaining", "many")], None),
            (vec![], None),
        ] {
            assert_eq!(left(&headers), expected, "{headers:?}");
        }
    }

    #[test]
    fn no_text_breaks_it() {
        for text in
            ["1e400", "NaN", "inf", "1x", "s", "1..5s", "9999-99-99T99:99:99Z", "T", "2026-01-02T", "é"]
        {
            let _ = pause(&[("ratelimit-remaining", "0"), ("ratelimit-reset", text)]);
        }
    }
}

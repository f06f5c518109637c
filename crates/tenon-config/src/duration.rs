//! Durations as people type them: `90`, `30s`, `5m`, `1h`, `500ms`.
//!
//! A number without a unit is seconds. Fractions are allowed, signs and exponents are not.

use std::time::Duration;

use crate::settings::Limit;

/// Longer than this (24 days) is a typing error; clients that count milliseconds in 32 bits stop here too.
pub const MAX_DURATION: Duration = Duration::from_secs(2_147_483);
/// Below this a wall-time limit would end a run before any model could answer.
const MIN_WALL_TIME: Duration = Duration::from_secs(1);

pub fn parse_duration(text: &str) -> Result<Duration, DurationError> {
    let trimmed = text.trim();
    let unit_at = trimmed.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(trimmed.len());
    let (number, unit) = trimmed.split_at(unit_at);
    let seconds_per_unit = match unit.trim_start().to_ascii_lowercase().as_str() {
        "ms" => 0.001,
        "" | "s" => 1.0,
        "m" => 60.0,
        "h" => 3600.0,
        _ => return Err(DurationError::Unreadable(shown(text))),
    };
    let number = plain_number(number).ok_or_else(|| DurationError::Unreadable(shown(text)))?;
    let seconds = number * seconds_per_unit;
    if seconds > MAX_DURATION.as_secs_f64() {
        return Err(DurationError::TooLong(shown(text)));
    }
    let duration = Duration::try_from_secs_f64(seconds).map_err(|_| DurationError::TooLong(shown(text)))?;
    if duration.is_zero() { Err(DurationError::Zero(shown(text))) } else { Ok(duration) }
}

/// The value of `--max-wall-time` and `limits.wallTime`: a duration of at least a second, or `-1`.
pub fn parse_wall_time(text: &str) -> Result<Limit<Duration>, DurationError> {
    if text.trim() == "-1" {
        return Ok(Limit::Unlimited);
    }
    let duration = parse_duration(text)?;
    if duration < MIN_WALL_TIME {
        return Err(DurationError::TooShort(shown(text)));
    }
    Ok(Limit::AtMost(duration))
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DurationError {
    #[error(
        "`{0}` is not a duration; write seconds (`90`) or a number with a unit (`500ms`, `30s`, `5m`, `1h`)"
    )]
    Unreadable(String),
    #[error("`{0}` is no time at all; a duration is greater than zero")]
    Zero(String),
    #[error("`{0}` is shorter than one second, too short for any model to answer")]
    TooShort(String),
    #[error("`{0}` is longer than 24 days; use `-1` where no limit is wanted")]
    TooLong(String),
}

/// Digits, with an optional fraction that has digits of its own.
fn plain_number(text: &str) -> Option<f64> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, "0"));
    let digits = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    if digits(whole) && digits(fraction) { text.parse().ok() } else { None }
}

fn shown(text: &str) -> String {
    crate::problem::quotable(text)
}

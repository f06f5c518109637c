//! Durations as a document writes them: whole hours, minutes and seconds in that order, `1h30m`, `45s`.
//!
//! Flags and settings accept more (`500ms`, `90`); that reader is in `tenon-config`. A document keeps to the
//! format's own grammar, so that what tenon accepts others accept too.

use std::time::Duration;

/// Longer than this (about 24 days) is a typing error, as it is for a flag.
const MAX_SECONDS: u64 = 2_147_483;

/// `0s` is no limit at all.
pub fn parse(text: &str) -> Result<Option<Duration>, DurationError> {
    if text.is_empty() {
        return Err(DurationError::Empty);
    }
    if text.starts_with('-') {
        return Err(DurationError::Negative(text.to_owned()));
    }
    let unreadable = || DurationError::Unreadable(text.to_owned());
    let mut rest = text;
    let mut seconds: u64 = 0;
    for (unit, length) in [('h', 3600), ('m', 60), ('s', 1)] {
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        if digits == 0 || !rest[digits..].starts_with(unit) {
            continue;
        }
        let count: u64 = rest[..digits].parse().map_err(|_| DurationError::TooLong(text.to_owned()))?;
        seconds = count
            .checked_mul(length)
            .and_then(|part| seconds.checked_add(part))
            .filter(|total| *total <= MAX_SECONDS)
            .ok_or_else(|| DurationError::TooLong(text.to_owned()))?;
        rest = &rest[digits + 1..];
    }
    if !rest.is_empty() {
        return Err(unreadable());
    }
    Ok((seconds > 0).then(|| Duration::from_secs(seconds)))
}

/// The shortest way to write it.
pub fn shown(duration: Duration) -> String {
    let total = duration.as_secs();
    let parts = [(total / 3600, 'h'), (total / 60 % 60, 'm'), (total % 60, 's')];
    let written: String =
        parts.iter().filter(|(count, _)| *count > 0).map(|(count, unit)| format!("{count}{unit}")).collect();
    if written.is_empty() { "0s".to_owned() } else { written }
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DurationError {
    #[error("invalid duration \"\": must not be empty (use \"0s\" for no timeout)")]
    Empty,
    #[error("invalid duration {0:?}: must not be negative")]
    Negative(String),
    #[error("invalid duration {0:?}: only whole h/m/s components are supported")]
    Unreadable(String),
    #[error("invalid duration {0:?}: longer than 24 days")]
    TooLong(String),
}

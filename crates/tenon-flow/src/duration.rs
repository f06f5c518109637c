//! Durations as a document writes them: whole hours, minutes and seconds in that order, `1h30m`, `45s`.
//!
//! Flags and settings accept more (`500ms`, `90`); that reader is in `tenon-config`. A document keeps to the
//! format's own grammar, so that what tenon accepts others accept too.

use std::time::Duration;

/// A hundred years stand for anything longer: nobody sees whether such a wait ends, and clocks can still be added to.
const MAX_SECONDS: u64 = 100 * 365 * 24 * 3600;

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
        // Digits that no number holds are more than the most.
        let count: u64 = rest[..digits].parse().unwrap_or(u64::MAX);
        seconds = count.saturating_mul(length).saturating_add(seconds).min(MAX_SECONDS);
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
}

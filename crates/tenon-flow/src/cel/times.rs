//! `duration(…)` and `timestamp(…)` of texts: all of the text has to be one. The reader behind them stops at what it
//! does not understand, so that `1h 30m` would be an hour.

use cel::common::types::{CelString, CelTimestamp};
use cel::common::value::CowVal;
use cel::{ExecutionError, FunctionContext};

use super::STANDARD;
use super::budget::Answer;
use crate::diagnostic::quoted;

/// What a call of the function is replaced by: a name that cannot be written.
pub(super) fn stand_in(function: &str) -> Option<&'static str> {
    match function {
        "duration" => Some(DURATION),
        "timestamp" => Some(TIMESTAMP),
        _ => None,
    }
}

pub(super) const DURATION: &str = "@duration";
pub(super) const TIMESTAMP: &str = "@timestamp";

pub(super) fn duration<'c, 'v>(call: &mut FunctionContext<'c, 'v>) -> Answer<'c, 'v> {
    if let Some(text) = text(call).filter(|text| !is_duration(text)) {
        let message = format!(
            "`{}` is no duration: write numbers with `h`, `m`, `s`, `ms`, `us` or `ns`, as in `1h30m`",
            quoted(text)
        );
        return Err(ExecutionError::function_error("duration", message));
    }
    standard("duration", call)
}

/// Without the offset it was written with: its hour is that of UTC wherever it comes from.
pub(super) fn timestamp<'c, 'v>(call: &mut FunctionContext<'c, 'v>) -> Answer<'c, 'v> {
    if let Some(text) = text(call).filter(|text| !is_timestamp(text)) {
        let message = format!("`{}` is no time: write it as in `2026-01-31T09:00:00Z`", quoted(text));
        return Err(ExecutionError::function_error("timestamp", message));
    }
    let value = standard("timestamp", call)?;
    match value.downcast_ref::<CelTimestamp>() {
        Some(time) => Ok(CowVal::owned(CelTimestamp::from(time.inner().to_utc().fixed_offset()))),
        None => Ok(value),
    }
}

fn text<'a>(call: &'a FunctionContext<'_, '_>) -> Option<&'a str> {
    call.args.first().and_then(|value| value.downcast_ref::<CelString>()).map(|text| text.inner())
}

/// The function that has the name in CEL.
pub(super) fn standard<'c, 'v>(name: &'static str, call: &mut FunctionContext<'c, 'v>) -> Answer<'c, 'v> {
    match STANDARD.find_overload(name, &call.args) {
        Some(function) => function(std::mem::take(&mut call.args)),
        None => {
            let types = call.args.iter().map(|value| value.get_type().name().to_owned()).collect();
            Err(ExecutionError::no_such_overload(name, types))
        }
    }
}

/// A sign, then numbers with units; or nothing at all, which needs no unit.
fn is_duration(text: &str) -> bool {
    let mut rest = text.strip_prefix(['-', '+']).unwrap_or(text);
    if rest == "0" {
        return true;
    }
    // The longer ones first: `ms` is not `m`.
    let units = ["ns", "us", "µs", "μs", "ms", "h", "m", "s"];
    while !rest.is_empty() {
        let number = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.').len();
        let (digits, unit) = rest.split_at(number);
        let is_number = digits.contains(|c: char| c.is_ascii_digit()) && digits.matches('.').count() <= 1;
        match units.iter().find_map(|name| unit.strip_prefix(name)) {
            Some(after) if is_number => rest = after,
            _ => return false,
        }
    }
    !text.is_empty() && !text.ends_with(['-', '+'])
}

/// RFC 3339. A minute has sixty seconds: the one that is now and then added has no place among the others.
fn is_timestamp(text: &str) -> bool {
    let shape = |wanted: &str, text: &str| {
        text.len() == wanted.len()
            && text.bytes().zip(wanted.bytes()).all(|(c, wanted)| match wanted {
                b'0' => c.is_ascii_digit(),
                _ => c.eq_ignore_ascii_case(&wanted),
            })
    };
    const TO_THE_SECOND: &str = "0000-00-00T00:00:00";
    let Some((moment, rest)) = text.split_at_checked(TO_THE_SECOND.len()) else { return false };
    let zone = match rest.strip_prefix('.') {
        Some(rest) => {
            let zone = rest.trim_start_matches(|c: char| c.is_ascii_digit());
            if zone.len() == rest.len() {
                return false;
            }
            zone
        }
        None => rest,
    };
    let is_zone = shape("Z", zone) || shape("+00:00", zone) || shape("-00:00", zone);
    shape(TO_THE_SECOND, moment) && !moment.ends_with("60") && is_zone
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_of_a_duration_is_one() {
        let good = "0 -0 1s 1h30m 1h30m5s 1.5h .5s 90m 100ms 1us 1µs 3ns -1h30m +2m 1m1m";
        let bad =
            ["", "-", "1", "1h30", "1h 30m", "1hour", "1h-30m", "--1s", "-+1s", "1s xyz", "1sx", "1e3s"];
        assert!(good.split(' ').all(is_duration));
        for text in bad.into_iter().chain(["s", ".s", "1.2.3s", "1d", " 1s", "1s "]) {
            assert!(!is_duration(text), "{text:?}");
        }
    }

    #[test]
    fn all_of_a_time_is_one() {
        for text in ["2026-01-31T09:00:00Z", "2026-01-31t09:00:00.25z", "2026-01-31T09:00:59+02:00"] {
            assert!(is_timestamp(text), "{text:?}");
        }
        for text in [
            "",
            "2026-01-31",
            "2026-01-31 09:00:00Z",
            "2026-01-31T09:00:60Z",
            "2026-01-31T09:00:00",
            "2026-01-31T09:00:00.Z",
            "2026-01-31T09:00:00Z ",
            "2026-01-31T09:00:00+0200",
            "éééééééééé",
        ] {
            assert!(!is_timestamp(text), "{text:?}");
        }
    }
}

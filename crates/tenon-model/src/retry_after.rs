//! How long a server asks us to wait: `retry-after-ms`, or `retry-after` in seconds or as a date; for want of both, what the
//! headers of `rate_headers.rs` say.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::HttpResponse;
use crate::rate_headers::pause_asked_for;

const TOO_MANY: u16 = 429;

pub(crate) fn retry_after(response: &HttpResponse) -> Option<Duration> {
    if let Some(millis) = response.header("retry-after-ms").and_then(number) {
        return Some(Duration::from_secs_f64(millis / 1000.0));
    }
    let Some(text) = response.header("retry-after") else {
        // Some say it only in the headers that every answer has.
        return if response.status == TOO_MANY { pause_asked_for(response) } else { None };
    };
    if let Some(seconds) = number(text) {
        return Some(Duration::from_secs_f64(seconds));
    }
    let until = http_date(text)?;
    Some(Duration::from_secs(until.saturating_sub(server_now(response)?)))
}

/// Seconds since 1970 by the server's own clock, where it tells: ours may be off.
pub(crate) fn server_now(response: &HttpResponse) -> Option<u64> {
    let ours = || SystemTime::now().duration_since(UNIX_EPOCH).ok().map(|since| since.as_secs());
    response.header("date").and_then(http_date).or_else(ours)
}

/// More than this is not a wait; it also keeps `Duration::from_secs_f64` from overflowing.
pub(crate) const LONGEST_WAIT_S: f64 = 1e9;

pub(crate) fn number(text: &str) -> Option<f64> {
    let number: f64 = text.trim().parse().ok()?;
    (number.is_finite() && number >= 0.0).then(|| number.min(LONGEST_WAIT_S))
}

/// Seconds since 1970 of `Sun, 06 Nov 1994 08:49:37 GMT`, the one form that is still sent.
fn http_date(text: &str) -> Option<u64> {
    const MONTHS: [&str; 12] =
        ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let mut words = text.trim().split_once(", ")?.1.split_ascii_whitespace();
    let day: u64 = words.next()?.parse().ok().filter(|day| (1..=31).contains(day))?;
    let name = words.next()?;
    let month = MONTHS.iter().position(|month| *month == name)? as u64 + 1;
    let year: u64 = words.next()?.parse().ok().filter(|year| (1970..=9999).contains(year))?;
    let mut clock = words.next()?.split(':').map(|part| part.parse::<u64>().ok().filter(|part| *part <= 60));
    let (hours, minutes, seconds) = (clock.next()??, clock.next()??, clock.next()??);
    (words.next()? == "GMT").then_some(())?;

    Some(days_since_1970(year, month, day)? * 86_400 + hours * 3600 + minutes * 60 + seconds)
}

/// `None` for what is no day, or none of our time.
pub(crate) fn days_since_1970(year: u64, month: u64, day: u64) -> Option<u64> {
    let is_day = (1970..=9999).contains(&year) && (1..=12).contains(&month) && (1..=31).contains(&day);
    // Years count from March so that the leap day is the last of its year.
    let year = if month <= 2 { year.checked_sub(1)? } else { year };
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    is_day.then(|| 365 * year + year / 4 - year / 100 + year / 400 + day_of_year - 719_468)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wait(headers: &[(&str, &str)]) -> Option<Duration> {
        let headers = headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        retry_after(&HttpResponse { status: 429, headers, body: Box::pin(futures_util::stream::empty()) })
    }

    #[test]
    fn every_form_a_server_sends() {
        let date = ("date", "Sun, 06 Nov 1994 08:49:37 GMT");
        for (headers, expected) in [
            (vec![("retry-after", "3")], Some(3_000)),
            (vec![("retry-after", "0.25")], Some(250)),
            (vec![("retry-after-ms", "1500"), ("retry-after", "9")], Some(1_500)),
            (vec![("retry-after", "Sun, 06 Nov 1994 08:50:07 GMT"), date], Some(30_000)),
            (vec![("retry-after", "Sun, 06 Nov 1994 08:00:00 GMT"), date], Some(0)),
            (vec![("retry-after", "soon")], None),
            (vec![("retry-after", "-1")], None),
            (vec![("retry-after", "Sun, 99 Nov 1994 08:00:00 GMT"), date], None),
            (vec![], None),
        ] {
            assert_eq!(wait(&headers), expected.map(Duration::from_millis), "{headers:?}");
        }
    }

    #[test]
    fn dates_count_from_1970() {
        for (text, seconds) in [
            ("Thu, 01 Jan 1970 00:00:00 GMT", 0),
            ("Sun, 06 Nov 1994 08:49:37 GMT", 784_111_777),
            ("Thu, 29 Feb 2024 12:00:00 GMT", 1_709_208_000),
            ("Fri, 31 Dec 2100 23:59:59 GMT", 4_133_980_799),
        ] {
            assert_eq!(http_date(text), Some(seconds), "{text}");
        }
    }
}

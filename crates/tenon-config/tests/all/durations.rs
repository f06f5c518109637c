use std::time::Duration;

use tenon_config::{DurationError, Limit, parse_duration, parse_wall_time};

#[test]
fn durations_as_people_type_them() {
    let table = [
        ("90", 90_000),
        ("30s", 30_000),
        ("5m", 300_000),
        ("1h", 3_600_000),
        ("500ms", 500),
        ("1.5", 1_500),
        ("0.5m", 30_000),
        (" 2 H ", 7_200_000),
        ("10 MS", 10),
        ("2147483", 2_147_483_000),
    ];
    for (text, milliseconds) in table {
        assert_eq!(parse_duration(text), Ok(Duration::from_millis(milliseconds)), "{text}");
    }
}

#[test]
fn what_is_not_a_duration_says_why() {
    type Kind = fn(String) -> DurationError;
    let table: [(&str, Kind); 18] = [
        ("", DurationError::Unreadable),
        ("s", DurationError::Unreadable),
        ("abc", DurationError::Unreadable),
        ("-5", DurationError::Unreadable),
        ("+5", DurationError::Unreadable),
        ("1e3", DurationError::Unreadable),
        ("1.", DurationError::Unreadable),
        (".5", DurationError::Unreadable),
        ("1.2.3", DurationError::Unreadable),
        ("5d", DurationError::Unreadable),
        ("5 m 3 s", DurationError::Unreadable),
        ("５s", DurationError::Unreadable),
        ("NaN", DurationError::Unreadable),
        ("inf", DurationError::Unreadable),
        ("0", DurationError::Zero),
        ("0.0h", DurationError::Zero),
        ("2147484", DurationError::TooLong),
        (NINES, DurationError::TooLong),
    ];
    for (text, kind) in table {
        let error = parse_duration(text).unwrap_err();
        let (DurationError::Unreadable(shown)
        | DurationError::Zero(shown)
        | DurationError::TooLong(shown)
        | DurationError::TooShort(shown)) = error.clone();
        assert_eq!(error, kind(shown), "{text}");
    }
}

/// More digits than a float can hold.
const NINES: &str = concat!(
    "99999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999",
    "99999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999",
    "99999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999",
    "99999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999"
);

#[test]
fn wall_time_is_at_least_a_second_or_unlimited() {
    assert_eq!(parse_wall_time("-1"), Ok(Limit::Unlimited));
    assert_eq!(parse_wall_time("1000ms"), Ok(Limit::AtMost(Duration::from_secs(1))));
    assert_eq!(parse_wall_time("500ms"), Err(DurationError::TooShort("500ms".to_owned())));
    assert_eq!(parse_wall_time("-2"), Err(DurationError::Unreadable("-2".to_owned())));
    assert_eq!(
        parse_wall_time("soon").unwrap_err().to_string(),
        "`soon` is not a duration; write seconds (`90`) or a number with a unit (`500ms`, `30s`, `5m`, `1h`)"
    );
}

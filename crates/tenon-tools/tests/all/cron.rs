//! The five fields of cron, and the next moment that fits them, across leap days and clocks that change.

use proptest::prelude::*;
use tenon_tools::Cron;

const MINUTE: i64 = 60;
const HOUR: i64 = 3_600;
const DAY: i64 = 86_400;

/// Seconds since 1970 of a moment in UTC, written `2026-11-15 12:00`.
fn utc(text: &str) -> i64 {
    let number = |range: std::ops::Range<usize>| text[range].parse::<i64>().unwrap();
    let (year, month, day) = (number(0..4), number(5..7), number(8..10));
    let (hour, minute) = (number(11..13), number(14..16));
    let leap = |year: i64| year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let years: i64 = (1970..year).map(|year| if leap(year) { 366 } else { 365 }).sum();
    let lengths = [31, if leap(year) { 29 } else { 28 }, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    let months: i64 = lengths[..usize::try_from(month - 1).unwrap()].iter().sum();
    (years + months + day - 1) * DAY + hour * HOUR + minute * MINUTE
}

/// Berlin in 2026: an hour ahead of UTC, two in summer.
fn berlin(at: i64) -> i64 {
    let summer = utc("2026-03-29 01:00")..utc("2026-10-25 01:00");
    if summer.contains(&at) { 2 * HOUR } else { HOUR }
}

#[track_caller]
fn next(cron: &str, after: &str, offset: &dyn Fn(i64) -> i64) -> i64 {
    Cron::parse(cron).unwrap().next_after(utc(after), offset).unwrap()
}

#[test]
fn the_next_moment_in_utc() {
    for (cron, after, expected) in [
        ("* * * * *", "2026-11-15 12:00", "2026-11-15 12:01"),
        ("0 * * * *", "2026-11-15 12:00", "2026-11-15 13:00"),
        ("*/15 * * * *", "2026-11-15 12:46", "2026-11-15 13:00"),
        ("5,10-12,50 * * * *", "2026-11-15 12:11", "2026-11-15 12:12"),
        ("1-59/20 * * * *", "2026-11-15 12:22", "2026-11-15 12:41"),
        ("30 9 * * *", "2026-11-15 09:30", "2026-11-16 09:30"),
        ("59 23 31 12 *", "2026-12-31 23:59", "2027-12-31 23:59"),
        ("0 0 1 * *", "2026-12-01 00:00", "2027-01-01 00:00"),
        // 15 November 2026 is a Sunday.
        ("0 9 * * 1-5", "2026-11-15 12:00", "2026-11-16 09:00"),
        ("0 9 * * 0", "2026-11-15 08:00", "2026-11-15 09:00"),
        ("0 9 * * 7", "2026-11-15 08:00", "2026-11-15 09:00"),
        ("0 9 * * mon", "2026-11-15 12:00", "2026-11-16 09:00"),
        ("0 9 * DEC Fri-Sat", "2026-11-15 12:00", "2026-12-04 09:00"),
        // Both days given: either one is enough.
        ("0 0 20 * 3", "2026-11-15 12:00", "2026-11-18 00:00"),
        ("0 0 17 * 3", "2026-11-15 12:00", "2026-11-17 00:00"),
        // A step over all days is all days, and not a day that is given.
        ("0 0 */2 * 3", "2026-11-15 12:00", "2026-11-25 00:00"),
        ("0 0 31 * *", "2026-11-15 12:00", "2026-12-31 00:00"),
        ("0 0 29 2 *", "2026-11-15 12:00", "2028-02-29 00:00"),
        ("0 0 29 2 *", "2028-02-29 00:00", "2032-02-29 00:00"),
        // 2100 is no leap year.
        ("0 12 29 2 *", "2096-03-01 00:00", "2104-02-29 12:00"),
        ("0 0 1 1 *", "1999-12-31 23:59", "2000-01-01 00:00"),
    ] {
        assert_eq!(next(cron, after, &|_| 0), utc(expected), "{cron} after {after}");
    }
}

#[test]
fn local_time_decides_and_a_changed_clock_neither_loses_nor_repeats_a_fixed_hour() {
    for (cron, after, expected) in [
        // 09:00 in Berlin, winter and summer.
        ("0 9 * * *", "2026-01-10 00:00", "2026-01-10 08:00"),
        ("0 9 * * *", "2026-07-10 00:00", "2026-07-10 07:00"),
        // Midnight of a day belongs to it, although it is the day before in UTC.
        ("0 0 1 3 *", "2026-02-20 00:00", "2026-02-28 23:00"),
        // 02:00 to 03:00 does not exist on 29 March: what falls into it comes at 03:00.
        ("30 2 * * *", "2026-03-28 12:00", "2026-03-29 01:00"),
        ("30 2 * * *", "2026-03-29 01:00", "2026-03-30 00:30"),
        ("0 3 * * *", "2026-03-28 12:00", "2026-03-29 01:00"),
        // What comes every hour or half hour does not care.
        ("*/30 * * * *", "2026-03-29 00:30", "2026-03-29 01:00"),
        ("*/30 * * * *", "2026-03-29 01:00", "2026-03-29 01:30"),
        // 02:30 comes twice on 25 October: once for a fixed hour, twice for every hour.
        ("30 2 * * *", "2026-10-24 12:00", "2026-10-25 00:30"),
        ("30 2 * * *", "2026-10-25 00:30", "2026-10-26 01:30"),
        ("30 * * * *", "2026-10-25 00:30", "2026-10-25 01:30"),
        ("30 3 * * *", "2026-10-25 00:30", "2026-10-25 02:30"),
    ] {
        assert_eq!(next(cron, after, &berlin), utc(expected), "{cron} after {after}");
    }
    // Half an hour is a distance like any other, west as well as east.
    for offset in [-9 * HOUR - 30 * MINUTE, 5 * HOUR + 45 * MINUTE, 14 * HOUR] {
        assert_eq!(
            next("0 9 * * *", "2026-11-15 23:00", &|_| offset).rem_euclid(DAY),
            (9 * HOUR - offset).rem_euclid(DAY)
        );
    }
}

#[test]
fn what_is_no_time_is_refused_in_words() {
    for (cron, says) in [
        ("", "has 0 fields, and cron has five"),
        ("* * * * * *", "has 6 fields"),
        ("60 * * * *", "`60` is no minute: it goes from 0 to 59"),
        ("* 24 * * *", "`24` is no hour"),
        ("* * 0 * *", "`0` is no day of the month: it goes from 1 to 31"),
        ("* * * 13 *", "`13` is no month"),
        ("* * * * 8", "`8` is no day of the week"),
        ("* * * foo *", "`foo` is no month"),
        ("*/0 * * * *", "the step in `*/0`"),
        ("5/10 * * * *", "a step needs `*` or a range"),
        ("10-5 * * * *", "`10-5` (minute) runs backwards"),
        ("-1 * * * *", "`` is no minute"),
        ("1,,2 * * * *", "`` is no minute"),
        ("99999999999999999999 * * * *", "is no minute"),
        ("@daily", "has 1 fields"),
        ("0 0 30 2 *", "never comes: there is no such day"),
        ("0 0 31 4,6,9,11 *", "never comes"),
    ] {
        let error = Cron::parse(cron).unwrap_err().to_string();
        assert!(error.contains(says), "{cron}: {error}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(tenon_testkit::cases(200)))]

    /// Whatever is asked: a fault in words, or a later moment on a whole minute.
    #[test]
    fn any_fields_are_refused_or_come(fields in "[0-9*/,-]{1,6}( [0-9*/,-]{1,6}){4}", now in 0..4_000_000_000_i64) {
        if let Ok(cron) = Cron::parse(&fields) {
            let at = cron.next_after(now, &berlin).unwrap();
            prop_assert!(at > now && at % MINUTE == 0);
            prop_assert!(cron.next_after(at, &berlin).unwrap() > at);
        }
    }
}

//! When a schedule is due: five cron fields in local time, and the next moment that fits them.
//!
//! Minute, hour, day of the month, month, day of the week, with `*`, ranges, steps, lists and English names.
//! If both days are given, either one is enough, as cron has always done it. A fixed hour that the clock
//! skips comes at the first moment after the gap; one that the clock passes twice comes once. Which local
//! time it is, the caller knows: an instant's distance from UTC is handed in.

/// The longest gap between two dates that exist: 29 February around a century year.
const MAX_DAYS: i64 = 366 * 9;
const DAY: i64 = 86_400;
const MINUTE: i64 = 60;
/// No clock was ever moved by more.
const MAX_SHIFT: i64 = 3 * 3_600;

const MONTHS: [&str; 12] =
    ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
const WEEKDAYS: [&str; 7] = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"];

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cron {
    text: String,
    minutes: Set,
    hours: Set,
    days: Set,
    months: Set,
    weekdays: Set,
}

/// The values of one field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Set {
    bits: u64,
    /// The field begins with `*`.
    any: bool,
}

impl Set {
    fn has(self, value: i64) -> bool {
        (0..64).contains(&value) && self.bits >> value & 1 == 1
    }
}

/// One sentence that says what is wrong.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct CronError(String);

struct FieldKind {
    name: &'static str,
    from: i64,
    to: i64,
    names: &'static [&'static str],
}

const FIELDS: [FieldKind; 5] = [
    FieldKind { name: "minute", from: 0, to: 59, names: &[] },
    FieldKind { name: "hour", from: 0, to: 23, names: &[] },
    FieldKind { name: "day of the month", from: 1, to: 31, names: &[] },
    FieldKind { name: "month", from: 1, to: 12, names: &MONTHS },
    // 7 is Sunday too.
    FieldKind { name: "day of the week", from: 0, to: 7, names: &WEEKDAYS },
];

impl Cron {
    pub fn parse(text: &str) -> Result<Cron, CronError> {
        let words: Vec<&str> = text.split_whitespace().collect();
        let [minutes, hours, days, months, weekdays] = words[..] else {
            let count = words.len();
            return Err(CronError(format!(
                "`{text}` has {count} fields, and cron has five: minute, hour, day of the month, month, day of the week"
            )));
        };
        let mut sets = [minutes, hours, days, months, weekdays]
            .into_iter()
            .zip(&FIELDS)
            .map(|(word, field)| read_field(word, field))
            .collect::<Result<Vec<Set>, CronError>>()?
            .into_iter();
        let mut next = || sets.next().unwrap_or(Set { bits: 0, any: false });
        let (minutes, hours, days, months, mut weekdays) = (next(), next(), next(), next(), next());
        if weekdays.has(7) {
            weekdays.bits |= 1;
        }
        let cron = Cron { text: words.join(" "), minutes, hours, days, months, weekdays };
        if cron.next_after(0, &|_| 0).is_none() {
            return Err(CronError(format!("`{text}` never comes: there is no such day")));
        }
        Ok(cron)
    }

    pub fn text(&self) -> &str {
        &self.text
    }

    /// The first moment after `now` (seconds since 1970) that fits; `offset` is what local time is ahead of UTC
    /// at a moment, in seconds.
    pub fn next_after(&self, now: i64, offset: &dyn Fn(i64) -> i64) -> Option<i64> {
        let first = now.div_euclid(MINUTE) * MINUTE + MINUTE;
        let today = (first + offset(first)).div_euclid(DAY);
        (today..today + MAX_DAYS)
            .filter(|day| self.fits_day(*day))
            .find_map(|day| self.first_minute_of(day, first, offset))
    }

    fn first_minute_of(&self, day: i64, first: i64, offset: &dyn Fn(i64) -> i64) -> Option<i64> {
        let midnight = day * DAY - offset(day * DAY);
        let mut at = first.max(midnight - MAX_SHIFT).div_euclid(MINUTE) * MINUTE;
        let end = midnight + DAY + MAX_SHIFT;
        let mut before = at - MINUTE + offset(at - MINUTE);
        while at < end {
            let local = at + offset(at);
            let is_of_day = local.div_euclid(DAY) == day;
            let fits = is_of_day && self.fits_minute(local) && (self.hours.any || !is_repeated(at, offset));
            if fits || (is_of_day && self.fits_skipped(day, before, local)) {
                return Some(at);
            }
            before = local;
            at += MINUTE;
        }
        None
    }

    /// Did the clock jump over a fixed time of this day?
    fn fits_skipped(&self, day: i64, before: i64, local: i64) -> bool {
        !self.hours.any
            && (1..(local - before) / MINUTE)
                .map(|n| before + n * MINUTE)
                .any(|skipped| skipped.div_euclid(DAY) == day && self.fits_minute(skipped))
    }

    fn fits_minute(&self, local: i64) -> bool {
        let second = local.rem_euclid(DAY);
        self.hours.has(second / 3_600) && self.minutes.has(second / MINUTE % 60)
    }

    fn fits_day(&self, day: i64) -> bool {
        let (_, month, day_of_month) = date(day);
        // 1 January 1970 was a Thursday.
        let weekday = (day + 4).rem_euclid(7);
        let (by_date, by_weekday) = (self.days.has(day_of_month), self.weekdays.has(weekday));
        self.months.has(month)
            && match (self.days.any, self.weekdays.any) {
                (false, false) => by_date || by_weekday,
                _ => by_date && by_weekday,
            }
    }
}

/// Has this local time been before, because the clock was put back?
fn is_repeated(at: i64, offset: &dyn Fn(i64) -> i64) -> bool {
    let (earlier, now) = (offset(at - MAX_SHIFT), offset(at));
    earlier > now && offset(at - (earlier - now)) == earlier
}

fn read_field(word: &str, field: &FieldKind) -> Result<Set, CronError> {
    let mut bits = 0_u64;
    for part in word.split(',') {
        let (range, step) = match part.split_once('/') {
            None => (part, 1),
            Some((range, step)) => {
                let step = number(step).filter(|step| *step > 0 && *step <= field.to);
                let step = step.ok_or_else(|| {
                    CronError(format!(
                        "the step in `{part}` ({}) is not a number from 1 to {}",
                        field.name, field.to
                    ))
                })?;
                if range != "*" && !range.contains('-') {
                    return Err(CronError(format!(
                        "`{part}` ({}): a step needs `*` or a range before it",
                        field.name
                    )));
                }
                (range, step)
            }
        };
        let (from, to) = match range.split_once('-') {
            // `7` is only another name of Sunday, and no eighth day.
            None if range == "*" => (field.from, if field.to == 7 { 6 } else { field.to }),
            None => {
                let value = value(range, field)?;
                (value, value)
            }
            Some((from, to)) => (value(from, field)?, value(to, field)?),
        };
        if from > to {
            return Err(CronError(format!("`{part}` ({}) runs backwards", field.name)));
        }
        let mut value = from;
        while value <= to {
            bits |= 1 << value;
            value += step;
        }
    }
    Ok(Set { bits, any: word.starts_with('*') })
}

fn value(word: &str, field: &FieldKind) -> Result<i64, CronError> {
    let named = field.names.iter().position(|name| name.eq_ignore_ascii_case(word));
    let value = match named {
        Some(at) => i64::try_from(at).ok().map(|at| at + field.from),
        None => number(word),
    };
    value.filter(|value| (field.from..=field.to).contains(value)).ok_or_else(|| {
        CronError(format!("`{word}` is no {}: it goes from {} to {}", field.name, field.from, field.to))
    })
}

fn number(word: &str) -> Option<i64> {
    (!word.is_empty() && word.len() <= 4 && word.bytes().all(|byte| byte.is_ascii_digit()))
        .then(|| word.parse().ok())
        .flatten()
}

/// Year, month and day of a number of days since 1970, in the Gregorian calendar: years that begin in March, so
/// that the leap day is the last of its year.
fn date(days: i64) -> (i64, i64, i64) {
    const DAYS_PER_ERA: i64 = 146_097;
    let days = days + 719_468;
    let era = days.div_euclid(DAYS_PER_ERA);
    let of_era = days.rem_euclid(DAYS_PER_ERA);
    let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * of_year + 2) / 153;
    let day = of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    (year_of_era + era * 400 + i64::from(month <= 2), month, day)
}

//! Ids and times. Both travel inside events, so that encoders need neither a clock nor randomness.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize, Serializer};

/// A 128-bit id, printed as a UUID (version 4 form).
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Id(u128);

impl Id {
    /// An id from 16 random bytes, with the version and variant bits of a random UUID set.
    pub fn from_random(bytes: [u8; 16]) -> Id {
        let value = u128::from_be_bytes(bytes);
        let version = (value & !(0xf_u128 << 76)) | (0x4_u128 << 76);
        Id((version & !(0b11_u128 << 62)) | (0b10_u128 << 62))
    }

    /// Reads the usual hyphenated form. `None` if it is anything else.
    pub fn parse(text: &str) -> Option<Id> {
        let bytes = text.as_bytes();
        if bytes.len() != 36 {
            return None;
        }
        let mut value = 0_u128;
        for (at, byte) in bytes.iter().enumerate() {
            match (at, byte) {
                (8 | 13 | 18 | 23, b'-') => {}
                (8 | 13 | 18 | 23, _) => return None,
                _ => value = (value << 4) | u128::from((*byte as char).to_digit(16)?),
            }
        }
        Some(Id(value))
    }

    /// The 128 bits.
    pub fn bits(self) -> u128 {
        self.0
    }

    /// The n-th id that belongs to this one, for encoders that write several lines for one event.
    pub fn derive(self, n: u64) -> Id {
        let mixed = mix((self.0 >> 64) as u64 ^ n.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let low = mix(self.0 as u64 ^ mixed);
        Id::from_random(((u128::from(mixed) << 64) | u128::from(low)).to_be_bytes())
    }
}

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const HEX: &[u8; 16] = b"0123456789abcdef";
        let bytes = self.0.to_be_bytes();
        let mut text = [b'-'; 36];
        let mut at = 0;
        for (n, byte) in bytes.iter().enumerate() {
            if matches!(n, 4 | 6 | 8 | 10) {
                at += 1;
            }
            text[at] = HEX[usize::from(byte >> 4)];
            text[at + 1] = HEX[usize::from(byte & 15)];
            at += 2;
        }
        f.write_str(std::str::from_utf8(&text).unwrap_or_default())
    }
}

impl fmt::Debug for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Serialize for Id {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// Hands out ids for one run. Random at its root, then a counter through a mixing function: one call to
/// the system's generator per run instead of one per streamed chunk.
#[derive(Debug)]
pub struct IdSource {
    root: Id,
    next: AtomicU64,
}

impl IdSource {
    pub fn new(root: Id) -> IdSource {
        IdSource { root, next: AtomicU64::new(1) }
    }

    pub fn next(&self) -> Id {
        self.root.derive(self.next.fetch_add(1, Ordering::Relaxed))
    }
}

/// The finaliser of splitmix64: every input bit reaches every output bit.
pub(crate) fn mix(mut value: u64) -> u64 {
    value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

/// Milliseconds since 1970, UTC.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Timestamp(pub u64);

impl Timestamp {
    pub fn now() -> Timestamp {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
        Timestamp(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
    }

    pub fn seconds(self) -> u64 {
        self.0 / 1000
    }

    /// As in `2026-08-21T16:16:56.123Z`.
    pub fn to_iso8601(self) -> String {
        let (days, in_day) = (self.0 / MS_PER_DAY, self.0 % MS_PER_DAY);
        let (year, month, day) = civil_from_days(days);
        let (hours, minutes) = (in_day / 3_600_000, in_day / 60_000 % 60);
        let (seconds, ms) = (in_day / 1000 % 60, in_day % 1000);
        format!("{year:04}-{month:02}-{day:02}T{hours:02}:{minutes:02}:{seconds:02}.{ms:03}Z")
    }
}

const MS_PER_DAY: u64 = 86_400_000;

/// Year, month and day of a count of days since 1970, in the Gregorian calendar: years are counted from
/// March, so that the leap day comes last, in eras of 400 years.
fn civil_from_days(days: u64) -> (u64, u64, u64) {
    let days = days + 719_468;
    let (era, of_era) = (days / 146_097, days % 146_097);
    let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let from_march = (5 * of_year + 2) / 153;
    let day = of_year - (153 * from_march + 2) / 5 + 1;
    let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
    (era * 400 + year_of_era + u64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_prints_as_a_version_4_uuid_and_parses_back() {
        let id = Id::from_random([0xff; 16]);
        assert_eq!(id.to_string(), "ffffffff-ffff-4fff-bfff-ffffffffffff");
        assert_eq!(Id::parse(&id.to_string()), Some(id));
        assert_eq!(Id::parse("ffffffff-ffff-4fff-bfff-fffffffffff"), None);
        assert_eq!(Id::parse("ffffffff+ffff-4fff-bfff-ffffffffffff"), None);
    }

    #[test]
    fn a_source_never_repeats_itself() {
        let source = IdSource::new(Id::from_random([7; 16]));
        let ids: std::collections::HashSet<Id> = (0..10_000).map(|_| source.next()).collect();
        assert_eq!(ids.len(), 10_000);
    }

    #[test]
    fn times_are_printed_in_iso_8601() {
        let table = [
            (0, "1970-01-01T00:00:00.000Z"),
            (951_782_400_000, "2000-02-29T00:00:00.000Z"),
            (951_868_799_999, "2000-02-29T23:59:59.999Z"),
            (1_735_689_599_001, "2024-12-31T23:59:59.001Z"),
            (1_787_329_016_123, "2026-08-21T16:16:56.123Z"),
            (4_107_542_400_000, "2100-03-01T00:00:00.000Z"),
        ];
        for (ms, wanted) in table {
            assert_eq!(Timestamp(ms).to_iso8601(), wanted);
        }
    }
}

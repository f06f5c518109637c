//! Ids and times. Both travel inside events, so that encoders need neither a clock nor randomness.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::{Serialize, Serializer};

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
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Timestamp(pub u64);

impl Timestamp {
    pub fn now() -> Timestamp {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
        Timestamp(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
    }

    pub fn seconds(self) -> u64 {
        self.0 / 1000
    }
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
}

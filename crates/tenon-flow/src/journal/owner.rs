//! Who runs a run: a process, told from a later one with the same number, and for how long its word is good.
//!
//! On the same machine a process that is gone holds nothing, however fresh its lease. Where that cannot be seen, on a
//! disk that several machines or containers share, the lease decides. One that lasts longer than any lease was written by a clock
//! that is ahead of ours, or was set back since: it says nothing, and whoever wants the run watches whether it is renewed.

use std::fmt;
use std::time::Duration;

use tenon_core::Timestamp;
use tenon_tools::{process_place as place, process_started as started};

use super::JournalError;

/// How long a lease is good without being renewed: long enough for a machine that was busy or asleep for a moment.
const LEASE: Duration = Duration::from_secs(60);
/// How often it is renewed.
pub(super) const RENEW: Duration = Duration::from_secs(15);

/// How far clocks of machines may be apart that keep time.
const CLOCKS_APART: Duration = Duration::from_secs(60);
/// Whoever runs a run has renewed its lease within this time, whatever the clock says.
pub(super) const WATCH: Duration = Duration::from_secs(2 * RENEW.as_secs());

pub(super) fn lease_until(now: Timestamp) -> Timestamp {
    Timestamp(now.0.saturating_add(LEASE.as_millis() as u64))
}

/// When a lease that ends then was last renewed.
pub(super) fn renewed(lease_until: Timestamp) -> Timestamp {
    Timestamp(lease_until.0.saturating_sub(LEASE.as_millis() as u64))
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Owner {
    pid: u32,
    /// When the process was started, by the kernel's count; empty where the kernel does not say.
    started: String,
    /// Which start of which machine, and which of its containers; empty where the kernel does not say.
    place: String,
    /// Tells two holders in one process apart.
    token: u64,
}

impl Owner {
    pub fn new() -> Result<Owner, JournalError> {
        let token = getrandom::u64().map_err(|error| JournalError::NoThread(error.to_string()))?;
        let pid = std::process::id();
        Ok(Owner { pid, started: started(pid).unwrap_or_default(), place: place(), token })
    }

    pub fn pid(&self) -> u32 {
        self.pid
    }

    pub fn parse(text: &str) -> Option<Owner> {
        let mut parts = text.split(' ');
        let owner = Owner {
            pid: parts.next()?.parse().ok()?,
            started: parts.next()?.to_owned(),
            place: parts.next()?.to_owned(),
            token: parts.next()?.parse().ok()?,
        };
        parts.next().is_none().then_some(owner)
    }

    /// Whether this owner, whose lease ran until then, still has the run.
    pub fn holds(&self, lease_until: Timestamp, now: Timestamp) -> bool {
        if !self.place.is_empty() && self.place == place() {
            return started(self.pid).is_some_and(|started| started == self.started);
        }
        now.0 < lease_until.0 && !self.is_unclear(lease_until, now)
    }

    /// Whether the lease of this owner, of which nothing else is known here, ends later than a lease of now can.
    pub fn is_unclear(&self, lease_until: Timestamp, now: Timestamp) -> bool {
        let longest = LEASE.saturating_add(CLOCKS_APART).as_millis() as u64;
        let is_here = !self.place.is_empty() && self.place == place();
        !is_here && lease_until.0.saturating_sub(now.0) > longest
    }
}

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {} {}", self.pid, self.started, self.place, self.token)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_owner_is_read_back_as_written() {
        let owner = Owner::new().unwrap();
        assert_eq!(Owner::parse(&owner.to_string()), Some(owner));
        for text in ["", "1", "1 2 3", "x 2 3 4", "1 2 3 4 5"] {
            assert_eq!(Owner::parse(text), None, "{text}");
        }
    }

    #[test]
    fn who_lives_holds_and_who_is_gone_does_not() {
        let (now, later) = (Timestamp(1_000), Timestamp(2_000));
        let alive = Owner::new().unwrap();
        assert!(alive.holds(Timestamp(0), now), "a process that lives keeps what it has");
        let gone = Owner { pid: u32::MAX, ..alive.clone() };
        assert!(!gone.holds(later, now));
        let hour = Timestamp(now.0 + 3_600_000);
        assert!(
            alive.holds(hour, now) && !alive.is_unclear(hour, now),
            "whoever lives here is no question of clocks"
        );
        let successor = Owner { started: "1".to_owned(), ..alive.clone() };
        assert!(!successor.holds(later, now), "another process with the same number");
        let boot = alive.place.split('/').next().unwrap();
        for place in ["another-machine/pid:[1]".to_owned(), format!("{boot}/pid:[1]"), String::new()] {
            let elsewhere = Owner { place, ..gone.clone() };
            assert!(elsewhere.holds(later, now), "{elsewhere}");
            assert!(!elsewhere.holds(now, later), "{elsewhere}");
            // By a clock that is an hour ahead.
            let hour = Timestamp(now.0 + 3_600_000);
            assert!(!elsewhere.holds(hour, now) && elsewhere.is_unclear(hour, now), "{elsewhere}");
            let ahead = Timestamp(lease_until(now).0 + 30_000);
            assert!(elsewhere.holds(ahead, now) && !elsewhere.is_unclear(ahead, now), "{elsewhere}");
        }
    }
}

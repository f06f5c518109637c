//! How many requests may leave, and when, after a server has refused one. Pure: time is handed in.
//!
//! Until the time that the server named, none. Then one, and when it was answered, or was not refused for a moment, two more, four
//! more, and so on: a server that allows everything again is asked by everybody within a second or two. A server that refuses
//! once more has shown what it allows, so many answers in so much time; from then on so many leave together in a time as
//! long, and twice as many after a while without a refusal. Who waits, and in which order, is `rate_limit.rs`.

use std::time::Duration;

use tokio::time::Instant;

/// A request that was not refused for so long was let in: refusals come at once, and answers take their time.
const LET_IN: Duration = Duration::from_millis(500);
/// As many at once as this are not held back any longer.
const WIDE: u32 = 64;
/// After so long without a refusal, as many requests again may leave.
const EASED_EVERY: Duration = Duration::from_secs(30);
/// A limit that was not met for so long is forgotten: they are counted by the minute.
const FORGOTTEN_AFTER: Duration = Duration::from_secs(60);
/// What a server names is what is left of its time, and answers take theirs: a little slower meets no refusal.
const MARGIN: f64 = 1.1;
/// More at once are no limit worth keeping.
const MOST: u32 = 1024;

/// A server that has refused something.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pace {
    state: State,
    /// What the server was seen to allow.
    allowed: Option<Allowed>,
    /// Since the last refusal, or the last time that more were allowed.
    calm: Instant,
}

#[derive(Clone, Copy, Debug)]
enum State {
    Closed {
        until: Instant,
        /// What the server gave before it refused, if it was seen from when on.
        before: Option<Stretch>,
    },
    Open {
        since: Stretch,
        /// So many may leave now.
        left: u32,
        /// How many could in the present go, and since when.
        batch: u32,
        batch_at: Instant,
    },
}

/// A time in which answers are counted.
#[derive(Clone, Copy, Debug)]
struct Stretch {
    began: Instant,
    sent: u32,
    answered: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Allowed {
    at_once: u32,
    every: Duration,
}

/// Whether a request may leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Leave {
    Now,
    /// And nobody needs to be held up any more.
    Free,
    /// Not before, unless there is an answer meanwhile.
    At(Instant),
}

impl Pace {
    /// The first refusal that is known of.
    pub(crate) fn closed(wait: Duration, now: Instant) -> Pace {
        Pace { state: State::Closed { until: now + wait, before: None }, allowed: None, calm: now }
    }

    /// The server wants no request for so long.
    pub(crate) fn close(&mut self, wait: Duration, now: Instant) {
        self.calm = now;
        self.state = match self.state {
            // Several refusals at once are one.
            State::Closed { until, before } => State::Closed { until: until.max(now + wait), before },
            State::Open { since, .. } => State::Closed { until: now + wait, before: Some(since) },
        };
    }

    /// The server has given an answer.
    pub(crate) fn answered(&mut self) {
        let (State::Closed { before: Some(stretch), .. } | State::Open { since: stretch, .. }) =
            &mut self.state
        else {
            return;
        };
        stretch.answered = stretch.answered.saturating_add(1);
    }

    /// The server says how many more it will answer.
    pub(crate) fn told_left(&mut self, count: u32) {
        if let State::Open { left, .. } = &mut self.state {
            *left = count.max(*left);
        }
    }

    /// Somebody who is next wants to leave.
    pub(crate) fn leave(&mut self, now: Instant) -> Leave {
        if let State::Closed { until, before } = self.state {
            if now < until {
                return Leave::At(until);
            }
            if let Some(Stretch { began, answered, .. }) = before {
                let every = until.saturating_duration_since(began);
                self.allowed = Some(Allowed { at_once: answered.max(1), every });
            }
            self.open(now);
        }
        if self.is_forgotten(now) {
            return Leave::Free;
        }
        let State::Open { since, left, batch, batch_at } = &mut self.state else { return Leave::At(now) };
        if *left == 0 {
            match self.allowed {
                Some(Allowed { every, .. }) => {
                    let next = since.began + every.mul_f64(MARGIN);
                    if now < next {
                        return Leave::At(next);
                    }
                    self.open(now);
                    return self.leave(now);
                }
                None if since.answered >= since.sent || now >= *batch_at + LET_IN => {
                    *batch = batch.saturating_mul(2);
                    *left = if *batch >= WIDE { u32::MAX } else { *batch };
                    *batch_at = now;
                }
                None => return Leave::At(*batch_at + LET_IN),
            }
        }
        *left = left.saturating_sub(1);
        since.sent = since.sent.saturating_add(1);
        Leave::Now
    }

    fn open(&mut self, now: Instant) {
        let left = self.allowed.map_or(1, |allowed| allowed.at_once);
        let since = Stretch { began: now, sent: 0, answered: 0 };
        self.state = State::Open { since, left, batch: left, batch_at: now };
    }

    /// Allows more after a while without a refusal, and in the end everything.
    fn is_forgotten(&mut self, now: Instant) -> bool {
        let calm = now.saturating_duration_since(self.calm);
        let Some(allowed) = &mut self.allowed else {
            let State::Open { since, .. } = &self.state else { return false };
            return now.saturating_duration_since(since.began) >= FORGOTTEN_AFTER;
        };
        let times = u32::try_from(calm.as_millis() / EASED_EVERY.as_millis()).unwrap_or(u32::MAX);
        if times > 0 {
            allowed.at_once = allowed.at_once.saturating_mul(1_u32.checked_shl(times).unwrap_or(u32::MAX));
            self.calm = now;
        }
        allowed.at_once >= MOST
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use tenon_testkit::cases;

    use super::*;

    /// What a server does with requests, by its own clock.
    #[derive(Clone, Copy, Debug)]
    enum Server {
        /// So many in each window of so many milliseconds, which begins with its first request.
        Window { most: u32, ms: u64 },
        /// One more every so many milliseconds, at most so many saved up.
        Drip { most: u32, ms: u64 },
        /// It refuses what comes in its first milliseconds, and nothing afterwards.
        Starting { ms: u64 },
    }

    struct Served {
        took: Duration,
        refused: u32,
        /// Refusals of those that had asked before anybody knew.
        at_first: u32,
    }

    /// So many requests at once, each asked until it is answered; an answer takes `rtt`.
    fn serve(server: Server, count: u32, rtt: Duration) -> Served {
        let zero = Instant::now();
        let mut now = zero;
        let mut pace: Option<Pace> = None;
        let (mut waiting, mut answered, mut refused, mut at_first) = (count, 0, 0, 0);
        let (mut window, mut in_window) = (zero, 0);
        let (mut saved, mut filled) = (
            match server {
                Server::Drip { most, .. } => most,
                _ => 0,
            },
            zero,
        );
        // What comes back, and when: a refusal with its wait, or an answer.
        let mut back: Vec<(Instant, Option<Duration>)> = Vec::new();
        while answered < count {
            while waiting > 0 {
                let next = pace.as_mut().map_or(Leave::Free, |pace| pace.leave(now));
                if let Leave::At(_) = next {
                    break;
                }
                if next == Leave::Free {
                    pace = None;
                }
                waiting -= 1;
                let wait = match server {
                    Server::Window { most, ms } => {
                        let length = Duration::from_millis(ms);
                        if now >= window + length {
                            (window, in_window) = (now, 0);
                        }
                        in_window += 1;
                        (in_window > most).then(|| window + length - now)
                    }
                    Server::Drip { most, ms } => {
                        let each = Duration::from_millis(ms);
                        while now >= filled + each {
                            (saved, filled) = ((saved + 1).min(most), filled + each);
                        }
                        match saved {
                            0 => Some(filled + each - now),
                            _ => {
                                saved -= 1;
                                None
                            }
                        }
                    }
                    Server::Starting { ms } => {
                        let until = zero + Duration::from_millis(ms);
                        (now < until).then(|| until - now)
                    }
                };
                back.push((now + rtt, wait));
            }
            let asks = (waiting > 0).then(|| pace.as_mut().map(|pace| pace.leave(now))).flatten();
            let next = back.iter().map(|(at, _)| *at).min();
            now = match (next, asks) {
                (Some(back), Some(Leave::At(at))) => back.min(at.max(now)),
                (Some(back), _) => back,
                (None, Some(Leave::At(at))) => at,
                (None, _) => panic!("nobody can go on: {pace:?}"),
            };
            let (due, later): (Vec<_>, Vec<_>) = back.into_iter().partition(|(at, _)| *at <= now);
            back = later;
            for (_, wait) in due {
                match wait {
                    None => {
                        answered += 1;
                        if let Some(pace) = &mut pace {
                            pace.answered();
                        }
                    }
                    Some(wait) => {
                        (refused, waiting) = (refused + 1, waiting + 1);
                        match &mut pace {
                            Some(pace) => pace.close(wait.max(Duration::from_millis(1)), now),
                            None => {
                                at_first += 1;
                                pace = Some(Pace::closed(wait.max(Duration::from_millis(1)), now));
                            }
                        }
                    }
                }
            }
        }
        Served { took: now - zero, refused, at_first }
    }

    const RTT: Duration = Duration::from_millis(100);

    #[test]
    fn a_server_that_allows_everything_again_is_asked_by_everybody_soon() {
        for (ms, count) in [(100, 1), (1_000, 20), (20_000, 20), (59_000, 100)] {
            let served = serve(Server::Starting { ms }, count, RTT);
            let after = served.took - Duration::from_millis(ms);
            assert!(after < Duration::from_secs(1), "{count} after {ms} ms took {after:?} more");
            assert_eq!(served.refused, count, "only those that came before anybody knew");
        }
        // Answers that take long hold nobody up.
        let slow = serve(Server::Starting { ms: 1_000 }, 60, Duration::from_secs(40));
        assert!(slow.took < Duration::from_secs(84), "{:?}", slow.took);
    }

    #[test]
    fn what_a_server_allows_is_used() {
        // Server, requests, how long the server itself needs for them in seconds.
        for (server, count, least) in [
            (Server::Window { most: 3, ms: 2_000 }, 60, 38.0),
            (Server::Window { most: 1, ms: 1_000 }, 30, 29.0),
            (Server::Window { most: 60, ms: 60_000 }, 100, 60.0),
            (Server::Drip { most: 1, ms: 1_000 }, 30, 29.0),
            (Server::Drip { most: 10, ms: 1_000 }, 40, 30.0),
        ] {
            let served = serve(server, count, RTT);
            let took = served.took.as_secs_f64();
            assert!(took <= least * 1.35 + 2.0, "{server:?}: {took} s, and {least} s would do");
            let again = served.refused - count.min(served.refused);
            assert!(again <= 20, "{server:?}: {again} refused that could have known");
        }
    }

    #[test]
    fn what_is_told_to_be_left_may_leave() {
        let now = Instant::now();
        let mut pace = Pace::closed(Duration::from_secs(1), now);
        let later = now + Duration::from_secs(1);
        assert_eq!(pace.leave(now), Leave::At(later));
        assert_eq!(pace.leave(later), Leave::Now);
        assert!(matches!(pace.leave(later), Leave::At(_)));
        pace.told_left(2);
        assert_eq!([pace.leave(later), pace.leave(later)], [Leave::Now; 2]);
        assert!(matches!(pace.leave(later), Leave::At(_)));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(cases(300)))]

        #[test]
        fn every_server_answers_everybody_in_good_time(
            kind in 0..3_u8, most in 1..50_u32, ms in 1..20_000_u64, count in 1..150_u32, rtt in 1..3_000_u64,
        ) {
            let server = match kind {
                0 => Server::Window { most, ms },
                1 => Server::Drip { most, ms: ms / u64::from(most) + 1 },
                _ => Server::Starting { ms },
            };
            let rtt = Duration::from_millis(rtt);
            let served = serve(server, count, rtt);
            let rounds = match server {
                Server::Starting { .. } => 1,
                _ => u64::from(count / most) + 2,
            };
            // Twice what the server needs, what learning costs, and the way there and back.
            let least = Duration::from_millis(ms * rounds);
            let learning = rtt * 8 + LET_IN * 8;
            prop_assert!(
                served.took <= least * 3 + learning + rtt * u32::try_from(rounds).unwrap() * 2,
                "{:?}: {:?} for {:?}", server, served.took, least
            );
            prop_assert!(served.at_first <= count);
        }
    }
}

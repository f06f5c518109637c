//! What a provider has said about how often it may be asked, known to everybody in the process who asks it.
//!
//! One bucket for each server and key. While nobody was limited, requests pass it without a stop. When a server answers 429, or
//! says that nothing is left, the bucket closes until the time that it named; whoever asks meanwhile waits, in the order
//! in which requests began, and does not run into a refusal of its own. How they leave afterwards is decided in `rate_pace.rs`.
//!
//! How long one request is tried is `retry.rs`; the headers that servers send are read in `rate_headers.rs`.

use std::collections::{BTreeSet, HashMap};
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tenon_core::{BoxFut, Cancel, ModelError};
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

use crate::rate_headers::{pause_asked_for, requests_left};
use crate::rate_pace::{Leave, Pace};
use crate::{Endpoint, HttpRequest, HttpResponse, Transport};

/// Nobody is held up for longer than this: limits are counted by the minute, and who asks for more is
/// left to every request's own patience.
const LONGEST_CLOSURE: Duration = Duration::from_secs(60);
/// The buckets of a process. Clones share them.
#[derive(Clone, Default)]
pub struct RateLimits(Arc<Known>);

#[derive(Default)]
struct Known {
    buckets: Mutex<HashMap<(String, u64), Bucket>>,
    /// Keys are told apart and not kept.
    hasher: RandomState,
}

impl RateLimits {
    /// The bucket of a server and of whoever asks it.
    pub fn bucket(&self, endpoint: &Endpoint) -> Bucket {
        let secrets = endpoint.secret_headers();
        let secrets: Vec<(&str, &str)> =
            secrets.iter().map(|(name, value)| (name.as_str(), value.expose())).collect();
        let key = endpoint.api_key.as_ref().map(|key| key.expose().trim());
        let identity = (endpoint.base_url.clone(), self.0.hasher.hash_one((key, secrets)));
        let mut buckets = self.0.buckets.lock().unwrap_or_else(PoisonError::into_inner);
        buckets.entry(identity).or_default().clone()
    }
}

/// What one server allows one key. Clones are the same bucket.
#[derive(Clone, Default)]
pub struct Bucket(Arc<Shared>);

#[derive(Default)]
struct Shared {
    /// Has there been a refusal that still matters? Read before anything else, so that nobody pays for what never happened.
    is_limited: AtomicBool,
    next_place: AtomicU64,
    state: Mutex<State>,
    /// Whose turn it is has changed, or for how long.
    changed: Notify,
}

#[derive(Default)]
struct State {
    limit: Option<Pace>,
    /// Those who wait. The smallest place is next.
    waiting: BTreeSet<u64>,
}

/// Where a request stands among all others, however often it is sent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place(u64);

impl Bucket {
    /// A transport that learns from what the server says about its limits.
    pub fn watch(&self, inner: Arc<dyn Transport>) -> Arc<dyn Transport> {
        Arc::new(Watching { inner, bucket: self.clone() })
    }

    /// For a request that begins.
    pub(crate) fn place(&self) -> Place {
        Place(self.0.next_place.fetch_add(1, Ordering::Relaxed))
    }

    /// Returns when a request may leave. Whoever does not want to wait any longer drops it.
    pub(crate) async fn pass(&self, place: Place) {
        if !self.0.is_limited.load(Ordering::Acquire) {
            return;
        }
        let since = Instant::now();
        let _waiting = Waiting::begin(self, place);
        loop {
            let changed = self.0.changed.notified();
            tokio::pin!(changed);
            // From here on no change goes unnoticed.
            changed.as_mut().enable();
            match self.answer(place, Instant::now()) {
                Answer::Leave => break,
                Answer::AfterOthers => changed.await,
                Answer::At(time) => {
                    tokio::select! {
                        () = changed => {}
                        () = sleep_until(time) => {}
                    }
                }
            }
        }
        let waited_ms = u64::try_from(since.elapsed().as_millis()).unwrap_or(u64::MAX);
        tracing::debug!(waited_ms, "waited for a rate limit");
    }

    /// The server wants no request for so long. `false`: that is not a time that others wait for.
    pub(crate) fn close(&self, wait: Duration) -> bool {
        if wait.is_zero() || wait > LONGEST_CLOSURE {
            return false;
        }
        let now = Instant::now();
        match &mut self.state().limit {
            Some(pace) => pace.close(wait, now),
            limit @ None => *limit = Some(Pace::closed(wait, now)),
        }
        self.0.is_limited.store(true, Ordering::Release);
        self.0.changed.notify_waiters();
        true
    }

    /// The server has given an answer, and may have said how many more it will give.
    fn answered(&self, left: Option<u32>) {
        if !self.0.is_limited.load(Ordering::Acquire) {
            return;
        }
        if let Some(pace) = &mut self.state().limit {
            pace.answered();
            if let Some(left) = left {
                pace.told_left(left);
            }
        }
        self.0.changed.notify_waiters();
    }

    fn answer(&self, place: Place, now: Instant) -> Answer {
        let mut state = self.state();
        let is_next = state.waiting.first() == Some(&place.0);
        let Some(pace) = state.limit.as_mut() else { return Answer::Leave };
        if !is_next {
            return Answer::AfterOthers;
        }
        match pace.leave(now) {
            Leave::Now => Answer::Leave,
            Leave::At(time) => Answer::At(time),
            Leave::Free => {
                state.limit = None;
                self.0.is_limited.store(false, Ordering::Release);
                Answer::Leave
            }
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

enum Answer {
    Leave,
    AfterOthers,
    At(Instant),
}

/// Somebody in the line, until it passes or leaves.
struct Waiting<'a> {
    bucket: &'a Bucket,
    place: Place,
}

impl Waiting<'_> {
    fn begin(bucket: &Bucket, place: Place) -> Waiting<'_> {
        bucket.state().waiting.insert(place.0);
        Waiting { bucket, place }
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.bucket.state().waiting.remove(&self.place.0);
        self.bucket.0.changed.notify_waiters();
    }
}

struct Watching {
    inner: Arc<dyn Transport>,
    bucket: Bucket,
}

impl Transport for Watching {
    fn send(&self, exchange: HttpRequest, cancel: Cancel) -> BoxFut<'_, Result<HttpResponse, ModelError>> {
        Box::pin(async move {
            let response = self.inner.send(exchange, cancel).await?;
            if (200..300).contains(&response.status) {
                self.bucket.answered(requests_left(&response));
                if let Some(pause) = pause_asked_for(&response) {
                    self.bucket.close(pause);
                }
            }
            Ok(response)
        })
    }

    fn patience(&self) -> Duration {
        self.inner.patience()
    }
}

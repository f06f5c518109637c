//! Repeats requests that failed for a reason that may pass. The one backoff of the workspace.
//!
//! A server that limits how often it is asked is waited for at its bucket (`rate_limit.rs`), together with everybody else who
//! asks it.

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use tenon_core::{Cancel, Delta, DeltaStream, ErrorClass, ModelClient, ModelError, Request};
use tokio::time::Instant;

use crate::Bucket;
use crate::delta_stream::{Out, deltas};

/// A client that does not give up at once.
///
/// Before each new attempt it gives [`Delta::Retrying`], so that readers forget what the failed one gave.
/// After the first delta it repeats only what `Request::restartable` allows.
pub struct Retrying {
    inner: Arc<dyn ModelClient>,
    policy: RetryPolicy,
    bucket: Bucket,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetryPolicy {
    /// The first one included.
    pub attempts: u32,
    /// The first wait. Each further one is twice as long, a quarter more or less.
    pub base: Duration,
    /// Waits and attempts that gave nothing, together. An attempt that did give something is not counted:
    /// a long answer that broke near its end deserves another try.
    pub max_total: Duration,
    /// A server that asks for more than this is not waited for.
    pub retry_after_cap: Duration,
}

impl Default for RetryPolicy {
    /// Long enough for a server that restarts or a minute's rate limit, short enough for a script.
    fn default() -> RetryPolicy {
        RetryPolicy {
            attempts: 5,
            base: Duration::from_millis(500),
            max_total: Duration::from_secs(120),
            retry_after_cap: Duration::from_secs(60),
        }
    }
}

impl Retrying {
    pub fn new(inner: Arc<dyn ModelClient>, policy: RetryPolicy) -> Retrying {
        Retrying { inner, policy, bucket: Bucket::default() }
    }

    /// Waits at this bucket, and closes it for others, instead of one of its own.
    #[must_use]
    pub fn sharing(self, bucket: Bucket) -> Retrying {
        Retrying { bucket, ..self }
    }
}

impl ModelClient for Retrying {
    fn stream(&self, request: Request, cancel: Cancel) -> DeltaStream {
        let (inner, policy, bucket) = (self.inner.clone(), self.policy, self.bucket.clone());
        deltas(cancel.clone(), move |out| repeat(inner, policy, bucket, request, cancel, out))
    }
}

async fn repeat(
    inner: Arc<dyn ModelClient>,
    policy: RetryPolicy,
    bucket: Bucket,
    request: Request,
    cancel: Cancel,
    out: Out,
) -> Result<(), ModelError> {
    let place = bucket.place();
    let mut spent = Duration::ZERO;
    let mut attempt = 1;
    loop {
        bucket.pass(place).await;
        let started = Instant::now();
        let mut given = Given::Nothing;
        let mut answer = inner.stream(request.clone(), cancel.clone());
        let error = loop {
            match answer.next().await {
                None => return Ok(()),
                Some(Err(error)) => break error,
                Some(Ok(delta)) => {
                    given = Given::Something;
                    out.push(delta);
                    out.pause().await;
                }
            }
        };
        drop(answer);
        if given == Given::Nothing {
            spent += started.elapsed();
        }
        let (asked, is_shared) = (error.retry_after, limits_everybody(&error));
        let failed = Failed { error, attempt, given, spent };
        let (wait, error) = match next_wait(failed, &request, policy) {
            Ok(again) => again,
            Err(error) => {
                if let Some(asked) = asked.filter(|_| is_shared) {
                    bucket.close(asked);
                }
                return Err(error);
            }
        };
        // Whoever comes next would be refused too, so this request waits in their line.
        let waits_in_line = is_shared && bucket.close(wait);
        spent += wait;
        attempt += 1;
        let (class, status) = (error.class.name(), error.http_status);
        tracing::info!(attempt, wait_ms = wait.as_millis() as u64, class, status, "asked again");
        out.push(Delta::Retrying { attempt, attempts: policy.attempts, wait, error });
        out.pause().await;
        if !waits_in_line {
            tokio::time::sleep(wait).await;
        }
    }
}

/// Does what the server said hold for every request to it?
fn limits_everybody(error: &ModelError) -> bool {
    match error.class {
        ErrorClass::RateLimited => error.retryable,
        // Many servers are one address; only a time that is named is meant for all.
        ErrorClass::Overloaded => error.retryable && error.retry_after.is_some(),
        _ => false,
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Given {
    Nothing,
    Something,
}

struct Failed {
    error: ModelError,
    attempt: u32,
    given: Given,
    spent: Duration,
}

/// How long to wait before the next attempt, or the error that ends the request.
fn next_wait(
    failed: Failed,
    request: &Request,
    policy: RetryPolicy,
) -> Result<(Duration, ModelError), ModelError> {
    let Failed { mut error, attempt, given, spent } = failed;
    if !error.retryable {
        return Err(error);
    }
    if given == Given::Something && !request.restartable {
        error
            .message
            .push_str("; half an answer had already been passed on, so the request was not repeated");
        return Err(error);
    }
    if let Some(asked) = error.retry_after.filter(|asked| *asked > policy.retry_after_cap) {
        let (asked, cap) = (asked.as_secs(), policy.retry_after_cap.as_secs());
        error.message.push_str(&format!(
            "; the server asks to wait {asked} s, and {cap} s is the most that is waited"
        ));
        return Err(error);
    }
    let wait = error.retry_after.unwrap_or_else(|| backoff(policy.base, attempt));
    if attempt >= policy.attempts || spent + wait > policy.max_total {
        if attempt > 1 {
            error.message.push_str(&format!(" (after {attempt} attempts)"));
        }
        if attempt < policy.attempts {
            let limit = policy.max_total.as_secs_f64();
            error.message.push_str(&format!(
                "; another wait would take all attempts past {limit} s (`retry.maxTotalMs`)"
            ));
        }
        return Err(error);
    }
    Ok((wait, error))
}

/// Doubles with every attempt, a quarter more or less so that many clients do not come back as one.
fn backoff(base: Duration, attempt: u32) -> Duration {
    let doubled = base.saturating_mul(1_u32 << (attempt - 1).min(16));
    let mut random = [0_u8; 2];
    // Without randomness the wait is merely less spread.
    let _ = getrandom::fill(&mut random);
    let spread = f64::from(u16::from_be_bytes(random)) / f64::from(u16::MAX);
    doubled.mul_f64(0.75 + spread / 2.0)
}

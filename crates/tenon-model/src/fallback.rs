//! Asks another model when the one before it is rate-limited or overloaded.
//!
//! Each model comes with its own client, retries included: the next one is asked only when those are used
//! up. Whoever takes over keeps the rest of the run, so a conversation does not jump back and forth.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures_util::StreamExt;
use tenon_core::{Cancel, Delta, DeltaStream, ErrorClass, ModelClient, ModelError, Request};

use crate::delta_stream::{Out, deltas};

pub struct Fallback {
    chain: Arc<Chain>,
}

/// A model under the name its server knows.
pub struct Candidate {
    pub model: String,
    pub client: Arc<dyn ModelClient>,
}

struct Chain {
    first: Candidate,
    others: Vec<Candidate>,
    /// 0 for the first, then the place in `others` from 1.
    current: AtomicUsize,
}

impl Fallback {
    pub fn new(first: Candidate, others: Vec<Candidate>) -> Fallback {
        Fallback { chain: Arc::new(Chain { first, others, current: AtomicUsize::new(0) }) }
    }
}

impl ModelClient for Fallback {
    /// The request's model is replaced by that of whoever is asked.
    fn stream(&self, request: Request, cancel: Cancel) -> DeltaStream {
        let chain = Arc::clone(&self.chain);
        deltas(cancel.clone(), move |out| async move { chain.answer(request, cancel, &out).await })
    }
}

impl Chain {
    async fn answer(&self, mut request: Request, cancel: Cancel, out: &Out) -> Result<(), ModelError> {
        let mut at = self.current.load(Ordering::Relaxed);
        let mut first_error: Option<ModelError> = None;
        loop {
            let asked = self.candidate(at);
            request.model.clone_from(&asked.model);
            let Err(failed) = pass_on(asked.client.stream(request.clone(), cancel.clone()), out).await else {
                return Ok(());
            };
            let may_switch = is_overloaded(&failed.error)
                && (failed.given == Given::Nothing || request.restartable)
                && at < self.others.len();
            if !may_switch {
                return Err(match first_error {
                    None => failed.error,
                    Some(first) => with_fallback_error(first, &asked.model, &failed.error),
                });
            }
            at += 1;
            // Another request of the same run may have moved on already.
            at = at.max(self.current.fetch_max(at, Ordering::Relaxed));
            let next = self.candidate(at);
            tracing::info!(
                from = asked.model,
                to = next.model,
                status = failed.error.http_status,
                "fallback"
            );
            out.push(Delta::SwitchedModel {
                from: asked.model.clone(),
                to: next.model.clone(),
                status: failed.error.http_status,
                fallback: u32::try_from(at).unwrap_or(u32::MAX),
            });
            out.pause().await;
            first_error.get_or_insert(failed.error);
        }
    }

    fn candidate(&self, at: usize) -> &Candidate {
        at.checked_sub(1).and_then(|at| self.others.get(at)).unwrap_or(&self.first)
    }
}

struct Failed {
    error: ModelError,
    given: Given,
}

/// Has the reader something of this answer that it would have to forget?
#[derive(Clone, Copy, PartialEq, Eq)]
enum Given {
    Nothing,
    Something,
}

async fn pass_on(mut answer: DeltaStream, out: &Out) -> Result<(), Failed> {
    let mut given = Given::Nothing;
    while let Some(delta) = answer.next().await {
        match delta {
            Ok(delta) => {
                given = match delta {
                    Delta::Retrying { .. } => Given::Nothing,
                    _ => Given::Something,
                };
                out.push(delta);
                out.pause().await;
            }
            Err(error) => return Err(Failed { error, given }),
        }
    }
    Ok(())
}

fn is_overloaded(error: &ModelError) -> bool {
    matches!(error.class, ErrorClass::RateLimited | ErrorClass::Overloaded)
}

/// The reason why there was a switch at all stays the reason of the failure.
fn with_fallback_error(mut first: ModelError, model: &str, error: &ModelError) -> ModelError {
    first.message.push_str(&format!("; the fallback `{model}` failed too: {}", error.message));
    first.hint = error.hint.clone().or(first.hint);
    first
}

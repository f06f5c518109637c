//! How long the end of a run waits for its coordinator: a moment, and longer only while an answer is under way.
//!
//! Whether one is, its model tells: each piece of an answer is a beat, and so is a request that is sent. Repeating a request
//! that failed is none.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::StreamExt;
use tenon_core::{Cancel, Delta, DeltaStream, ModelClient, Request};
use tokio::time::Instant;

/// A coordinator that is about to answer has begun by then.
const MOMENT: Duration = Duration::from_secs(2);
/// How long a request may be without a piece of its answer: models that think in silence do.
const SILENCE: Duration = Duration::from_secs(10);
/// For all of its last words: one answer of a slow model.
const LAST_WORDS: Duration = Duration::from_secs(60);

/// When something was last heard of the coordinator's model.
#[derive(Default)]
pub(super) struct Pulse {
    last: Mutex<Option<Instant>>,
}

impl Pulse {
    /// The client, listened to.
    pub(super) fn of(self: &Arc<Pulse>, client: Arc<dyn ModelClient>) -> Arc<dyn ModelClient> {
        Arc::new(Heard { client, pulse: Arc::clone(self) })
    }

    /// Ends when there is nothing more to wait for, in a run that is over now.
    pub(super) async fn lost(&self) {
        let over = Instant::now();
        loop {
            let until = self.last().map_or(over, |last| last + SILENCE);
            let until = until.clamp(over + MOMENT, over + LAST_WORDS);
            if until <= Instant::now() {
                return;
            }
            tokio::time::sleep_until(until).await;
        }
    }

    fn last(&self) -> Option<Instant> {
        *self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn beat(&self) {
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
    }
}

struct Heard {
    client: Arc<dyn ModelClient>,
    pulse: Arc<Pulse>,
}

impl ModelClient for Heard {
    fn stream(&self, request: Request, cancel: Cancel) -> DeltaStream {
        self.pulse.beat();
        let pulse = Arc::clone(&self.pulse);
        Box::pin(self.client.stream(request, cancel).inspect(move |piece| match piece {
            Ok(Delta::Retrying { .. } | Delta::SwitchedModel { .. }) | Err(_) => {}
            Ok(_) => pulse.beat(),
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn waited(pulse: &Arc<Pulse>, beats: &[u64]) -> Duration {
        let began = Instant::now();
        let lost = pulse.lost();
        tokio::pin!(lost);
        for at in beats {
            let beat = began + Duration::from_secs(*at);
            tokio::select! {
                biased;
                () = &mut lost => return began.elapsed(),
                () = tokio::time::sleep_until(beat) => pulse.beat(),
            }
        }
        lost.await;
        began.elapsed()
    }

    #[tokio::test(start_paused = true)]
    async fn a_moment_a_silence_and_all_of_it() {
        let seconds = Duration::from_secs;
        let silent = Arc::new(Pulse::default());
        assert_eq!(waited(&silent, &[]).await, MOMENT);
        let hangs = Arc::new(Pulse::default());
        hangs.beat();
        tokio::time::sleep(seconds(600)).await;
        assert_eq!(waited(&hangs, &[]).await, MOMENT, "what was asked long ago is no answer under way");
        let asked = Arc::new(Pulse::default());
        asked.beat();
        assert_eq!(waited(&asked, &[]).await, SILENCE);
        let writes: Vec<u64> = (1..=12).collect();
        assert_eq!(waited(&Arc::new(Pulse::default()), &writes).await, seconds(12) + SILENCE);
        let never_ends: Vec<u64> = (1..=90).collect();
        assert_eq!(waited(&Arc::new(Pulse::default()), &never_ends).await, LAST_WORDS);
    }
}

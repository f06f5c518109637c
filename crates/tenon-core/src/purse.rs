//! A ledger that many spend from, and the queue in front of it.
//!
//! What is in the ledger, and what fits, is for the budgets to say (`money.rs`, `counted.rs`).

use std::sync::{Mutex, PoisonError};

use crate::Exceeded;

#[derive(Debug, Default)]
pub(crate) struct Purse<L> {
    ledger: Mutex<L>,
    /// Whoever waits longest holds it.
    turn: tokio::sync::Mutex<()>,
    /// A request is over.
    settled: tokio::sync::Notify,
}

/// What a request is told that asks whether it fits.
pub(crate) enum Answer<T> {
    Granted(T),
    /// Until a request under way is over.
    Wait,
    Refused(Exceeded),
}

impl<L> Purse<L> {
    pub(crate) fn with<T>(&self, read: impl FnOnce(&mut L) -> T) -> T {
        read(&mut self.ledger.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Asks in the order of arrival, and again whenever a request is over.
    pub(crate) async fn grant<T>(&self, ask: impl Fn(&mut L) -> Answer<T>) -> Result<T, Exceeded> {
        let _turn = self.turn.lock().await;
        loop {
            let settled = self.settled.notified();
            tokio::pin!(settled);
            // From here on nothing that is settled goes unnoticed.
            settled.as_mut().enable();
            match self.with(&ask) {
                Answer::Granted(granted) => return Ok(granted),
                Answer::Wait => settled.await,
                Answer::Refused(exceeded) => return Err(exceeded),
            }
        }
    }

    /// A request is over: whoever waits asks again.
    pub(crate) fn settle(&self, write: impl FnOnce(&mut L)) {
        self.with(write);
        self.settled.notify_waiters();
    }
}

//! Waiting for a person: which questions of a run are open, and whether there is anything else to do.
//!
//! The desk is shared by a run and the workflows inside it. Whoever does something holds [`Busy`], from before it starts until
//! what follows from its end has been started; when nobody does and a question is open, the run can be set aside. What a
//! question comes to is `approval.rs`; where answers come from is up to the [`Approvals`] of the log.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tenon_core::{BoxFut, Cancel, Timestamp};
use tokio::sync::{mpsc, watch};

use crate::approval::{self, Question, Resolution};
use crate::{Notice, OpenQuestions, StepKey, StepOutcome, StepOutput};

/// Where answers are kept, and come from.
pub trait Approvals: Send + Sync {
    /// The answer, if there is one.
    fn answer(&self, key: &StepKey) -> BoxFut<'static, Result<Option<Resolution>, String>>;

    /// Keeps an answer unless there is one; the one that stands.
    fn settle(&self, key: &StepKey, resolution: Resolution) -> BoxFut<'static, Result<Resolution, String>>;

    /// Changes whenever an answer may have come.
    fn changes(&self) -> watch::Receiver<u64>;

    /// Sets the run aside, unless an answer has come that nobody has seen.
    fn suspend(&self, waiting: Vec<StepKey>) -> BoxFut<'static, Result<Suspending, String>>;
}

/// Whether a run was set aside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Suspending {
    Done,
    /// Somebody has answered in the meantime.
    Answered,
}

/// Who works, and which questions are open.
pub(crate) struct Desk {
    state: Mutex<State>,
    /// Counts what changes.
    changed: watch::Sender<u64>,
    /// Counts how often answers are to be looked for at once.
    look: watch::Sender<u64>,
}

#[derive(Default)]
struct State {
    busy: usize,
    open: OpenQuestions,
}

/// Something is being done. Until it is dropped, the run is not set aside.
pub(crate) struct Busy(Arc<Desk>);

impl Drop for Busy {
    fn drop(&mut self) {
        let mut state = self.0.state();
        state.busy = state.busy.saturating_sub(1);
        drop(state);
        self.0.changed.send_modify(|count| *count += 1);
    }
}

impl Desk {
    pub(crate) fn new() -> Arc<Desk> {
        Arc::new(Desk { state: Mutex::default(), changed: watch::channel(0).0, look: watch::channel(0).0 })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn busy(self: &Arc<Self>) -> Busy {
        self.state().busy += 1;
        Busy(Arc::clone(self))
    }

    pub(crate) fn open(&self) -> OpenQuestions {
        self.state().open.clone()
    }

    /// Ends when nobody does anything and a question is open: the questions.
    pub(crate) async fn idle(&self) -> BTreeSet<StepKey> {
        let mut changed = self.changed.subscribe();
        loop {
            {
                let state = self.state();
                if state.busy == 0 && !state.open.is_empty() {
                    return state.open.keys().cloned().collect();
                }
            }
            if changed.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    }

    /// Whoever waits looks for an answer now.
    pub(crate) fn look_again(&self) {
        self.look.send_modify(|count| *count += 1);
    }

    /// The question is no longer open; whoever waited for it is busy from the same moment on.
    fn close(self: &Arc<Self>, key: &StepKey) -> Busy {
        let mut state = self.state();
        state.open.remove(key);
        state.busy += 1;
        drop(state);
        Busy(Arc::clone(self))
    }
}

/// A question that is about to be asked.
pub(crate) struct Waiting {
    pub(crate) key: StepKey,
    pub(crate) desk: Arc<Desk>,
    pub(crate) approvals: Arc<dyn Approvals>,
    /// Where it is told that somebody is asked. It counts as busy until it is.
    pub(crate) told: mpsc::UnboundedSender<(Notice, Busy)>,
    pub(crate) cancel: Cancel,
}

impl Waiting {
    /// Waits for the answer, or for the end of its time.
    pub(crate) async fn answer(self, question: Question, busy: Busy) -> Result<(StepOutcome, Busy), String> {
        let Waiting { key, desk, approvals, told, cancel } = self;
        let (mut changes, mut looks) = (approvals.changes(), desk.look.subscribe());
        let mut busy = Some(busy);
        loop {
            changes.mark_unchanged();
            looks.mark_unchanged();
            let mut answer = approvals.answer(&key).await?;
            if answer.is_none() && question.has_expired(Timestamp::now()) {
                answer = Some(approvals.settle(&key, Resolution::timed_out(&question)).await?);
            }
            if let Some(answer) = answer {
                let busy = busy.unwrap_or_else(|| desk.close(&key));
                return Ok((approval::outcome(&question.request, &answer), busy));
            }
            if let Some(busy) = busy.take() {
                desk.state().open.insert(key.clone(), question.clone());
                // Whoever is told has gone when the run has.
                let _ = told.send((Notice::Asked { key: key.clone(), question: question.clone() }, busy));
            }
            tokio::select! {
                biased;
                () = cancel.cancelled() => {
                    return Ok((StepOutcome::Cancelled(StepOutput::default()), desk.close(&key)));
                }
                _ = changes.changed() => {}
                _ = looks.changed() => {}
                () = expiry(&question) => {}
            }
        }
    }
}

/// Ends when its time is up.
async fn expiry(question: &Question) {
    match question.expires() {
        None => std::future::pending().await,
        Some(expires) => {
            let left = expires.0.saturating_sub(Timestamp::now().0);
            tokio::time::sleep(Duration::from_millis(left)).await;
        }
    }
}

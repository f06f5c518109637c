//! A run's steps in the journal: kept as they happen, and known again when the run goes on. What is known, and what of it
//! still holds, is `past.rs`.

use std::sync::{Arc, OnceLock};

use serde::Serialize;
use tenon_core::{BoxFut, Models, Secrets, Timestamp};
use tokio::sync::watch;

use crate::journal::{Entry, JournalError, Lease, NewDocument, RowKind};
use crate::paid::GivenUp;
use crate::past::{Due, Given, Past, Scheduled};
use crate::same_request::request_hash;
use crate::signal::{Signal, SignalJournal, Signals};
use crate::step_log::{Begun, StepLog, Turns};
use crate::turn_rows::{Broken, TurnRows};
use crate::{
    ApprovalRequest, Approvals, Completion, Earlier, LoadedWorkflow, Question, Resolution, Spent, StepKey,
    StepOutcome, StepRequest, Suspending,
};

/// Keeps the steps of one run in the journal.
pub struct JournalLog {
    lease: Arc<Lease>,
    secrets: Secrets,
    root: Arc<LoadedWorkflow>,
    past: Past,
    given_up: GivenUp,
    models: Models,
    /// Why something could not be kept. A step that failed for it has not ended.
    broken: Arc<OnceLock<Broken>>,
}

/// What a run goes on with.
pub struct Resumed {
    pub past: Past,
    /// By which turns are counted whose steps are run again.
    pub models: Models,
    /// When it is not the one that the run was pinned to.
    pub document: Option<NewDocument>,
    /// When the caller gives something else from now on.
    pub given: Option<Given>,
}

impl JournalLog {
    /// A run that begins.
    pub fn new(lease: Arc<Lease>, root: Arc<LoadedWorkflow>, secrets: Secrets) -> JournalLog {
        JournalLog {
            lease,
            secrets,
            root,
            past: Past::default(),
            given_up: GivenUp::default(),
            models: Models::default(),
            broken: Arc::default(),
        }
    }

    /// A run that goes on. What no longer holds is removed from the journal first.
    pub async fn resume(
        lease: Arc<Lease>,
        root: Arc<LoadedWorkflow>,
        secrets: Secrets,
        resumed: Resumed,
    ) -> Result<JournalLog, JournalError> {
        let Resumed { mut past, models, document, given } = resumed;
        let entry = |key: &StepKey, kind: RowKind, payload: String| Entry {
            key: key.to_string(),
            kind,
            at: Timestamp::now(),
            payload,
        };
        let mut revision = past.settle(&models, &entry);
        revision.append.extend(past.pause(&StepKey::run(lease.run_id()), &entry));
        revision.document = document.map(|document| NewDocument {
            document: secrets.hide(&document.document).into_owned(),
            ..document
        });
        revision.inputs = given.map(|given| secrets.hide(&given.to_json()).into_owned());
        lease.revise(revision).await?;
        let given_up = past.given_up();
        Ok(JournalLog { lease, secrets, root, past, given_up, models, broken: Arc::default() })
    }

    fn entry(&self, key: &StepKey, kind: RowKind, payload: &impl Serialize) -> Result<Entry, String> {
        let payload = serde_json::to_string(payload).map_err(|error| error.to_string())?;
        let payload = self.secrets.hide(&payload).into_owned();
        Ok(Entry { key: key.to_string(), kind, at: Timestamp::now(), payload })
    }

    /// A question is asked once: its time is measured from then on.
    fn asks(&self, key: &StepKey, request: &ApprovalRequest) -> BoxFut<'static, Result<Begun, String>> {
        if let Some(question) = self.past.questions.get(key) {
            let asked = Some(question.asked);
            return Box::pin(async move { Ok(Begun { asked, ..Begun::default() }) });
        }
        let whole = StepRequest::Approval(Box::new(request.clone()));
        let scheduled = Scheduled { request: request_hash(&self.root, &whole) };
        let question = Question { request: request.clone(), asked: Timestamp::now() };
        let entries = self
            .entry(key, RowKind::Scheduled, &scheduled)
            .and_then(|first| Ok(vec![first, self.entry(key, RowKind::Asked, &question)?]));
        let (written, asked) = (self.write(entries), Some(question.asked));
        Box::pin(async move { written.await.map(|()| Begun { asked, ..Begun::default() }) })
    }

    fn write(&self, entries: Result<Vec<Entry>, String>) -> BoxFut<'static, Result<(), String>> {
        let (lease, broken) = (Arc::clone(&self.lease), Arc::clone(&self.broken));
        Box::pin(async move {
            lease.append(entries?).await.map_err(|error| {
                // The first reason counts.
                broken.get_or_init(|| Broken::of(&error)).why.clone()
            })
        })
    }
}

impl StepLog for JournalLog {
    fn ended(&self, key: &StepKey, _request: &StepRequest) -> Option<(u64, Completion)> {
        self.past.ended.get(key).cloned()
    }

    fn begins(&self, key: &StepKey, request: &StepRequest) -> BoxFut<'static, Result<Begun, String>> {
        let entry = match request {
            StepRequest::Sleep { ms } => match self.past.due.get(key) {
                Some(due) => {
                    // Never longer than it was to last: clocks go back, too.
                    let left = due.at.0.saturating_sub(Timestamp::now().0).min((*ms).max(due.ms));
                    return Box::pin(async move { Ok(Begun { left_ms: Some(left), asked: None }) });
                }
                None => {
                    let at = Timestamp(Timestamp::now().0.saturating_add(*ms));
                    self.entry(key, RowKind::Timer, &Due { at, ms: *ms })
                }
            },
            StepRequest::Approval(request) => return self.asks(key, request),
            _ if self.past.asked.contains_key(key) => return Box::pin(async { Ok(Begun::default()) }),
            _ => {
                let scheduled = Scheduled { request: request_hash(&self.root, request) };
                self.entry(key, RowKind::Scheduled, &scheduled)
            }
        };
        let written = self.write(entry.map(|entry| vec![entry]));
        Box::pin(async move { written.await.map(|()| Begun::default()) })
    }

    fn ends(&self, completions: Vec<Completion>) -> BoxFut<'static, Result<(), String>> {
        if let Some(Broken { why, .. }) = self.broken.get().cloned() {
            return Box::pin(async { Err(why) });
        }
        let entries = completions
            .iter()
            .map(|completion| {
                let kind = match completion.outcome {
                    StepOutcome::Failed { .. } => RowKind::Failed,
                    StepOutcome::Completed(_) | StepOutcome::Cancelled(_) | StepOutcome::Elapsed => {
                        RowKind::Completed
                    }
                };
                self.entry(&completion.key, kind, completion)
            })
            .collect();
        self.write(entries)
    }

    fn began(&self, place: &StepKey) -> BoxFut<'static, Result<Timestamp, String>> {
        if let Some(began) = self.past.began.get(place).copied() {
            return Box::pin(async move { Ok(began) });
        }
        let now = Timestamp::now();
        let entry = self.entry(place, RowKind::Clock, &now);
        let written = self.write(entry.map(|entry| vec![entry]));
        Box::pin(async move { written.await.map(|()| now) })
    }

    fn turns(&self, key: &StepKey) -> Turns {
        let records = self.past.turns.get(key).cloned().unwrap_or_default();
        let (lease, secrets) = (Arc::clone(&self.lease), self.secrets.clone());
        let rows = TurnRows { lease, key: key.to_string(), secrets, broken: Arc::clone(&self.broken) };
        Turns { records, journal: Arc::new(rows) }
    }

    fn has_begun(&self, place: &StepKey) -> bool {
        self.past.began.contains_key(place)
    }

    fn dropped(&self) -> Vec<(StepKey, Spent)> {
        self.past.spent.clone()
    }

    fn earlier(&self) -> Earlier {
        self.past.earlier()
    }

    fn worked(&self, at: Timestamp) -> Timestamp {
        self.past.pauses.worked(at)
    }

    fn given_up(&self, key: &StepKey) -> Option<Spent> {
        self.given_up.by(key).copied()
    }

    fn paid_inside(&self, key: &StepKey) -> Spent {
        self.past.paid_inside(key, &self.models)
    }

    fn paid_in_all_attempts(&self, key: &StepKey) -> Spent {
        self.past.paid_in_all_attempts(key, &self.models)
    }

    fn signals(&self) -> Signals {
        Signals {
            records: self.past.signals.clone(),
            mail_told: self.past.mail_told(),
            ended: self.past.completed_steps(),
            journal: Arc::new(SignalRows { lease: Arc::clone(&self.lease), secrets: self.secrets.clone() }),
        }
    }

    fn hint(&self) -> Option<&'static str> {
        self.broken.get()?.hint
    }

    fn approvals(&self) -> Option<Arc<dyn Approvals>> {
        Some(Arc::new(AnswerRows(Arc::clone(&self.lease))))
    }
}

/// Answers in the journal, whoever writes them there.
struct AnswerRows(Arc<Lease>);

impl Approvals for AnswerRows {
    fn answer(&self, key: &StepKey) -> BoxFut<'static, Result<Option<Resolution>, String>> {
        let (lease, key) = (Arc::clone(&self.0), key.clone());
        Box::pin(async move { lease.answer(&key).await.map_err(|error| error.to_string()) })
    }

    fn settle(&self, key: &StepKey, resolution: Resolution) -> BoxFut<'static, Result<Resolution, String>> {
        let (lease, key) = (Arc::clone(&self.0), key.clone());
        Box::pin(async move { lease.settle(&key, resolution).await.map_err(|error| error.to_string()) })
    }

    fn changes(&self) -> watch::Receiver<u64> {
        self.0.answers()
    }

    fn suspend(&self, waiting: Vec<StepKey>) -> BoxFut<'static, Result<Suspending, String>> {
        let lease = Arc::clone(&self.0);
        Box::pin(async move { lease.suspend(waiting).await.map_err(|error| error.to_string()) })
    }
}

/// Keeps what happens beside the steps' turns.
struct SignalRows {
    lease: Arc<Lease>,
    secrets: Secrets,
}

impl SignalJournal for SignalRows {
    fn write(&self, signals: Vec<Signal>) -> BoxFut<'static, Result<(), String>> {
        let entry = |signal| {
            let payload = serde_json::to_string(&signal).map_err(|error| error.to_string())?;
            let (key, payload) = (Signal::ROW_KEY.to_owned(), self.secrets.hide(&payload).into_owned());
            Ok(Entry { key, kind: RowKind::Signal, at: Timestamp::now(), payload })
        };
        let entries: Result<Vec<Entry>, String> = signals.into_iter().map(entry).collect();
        let lease = Arc::clone(&self.lease);
        Box::pin(async move { lease.append(entries?).await.map_err(|error| error.to_string()) })
    }
}

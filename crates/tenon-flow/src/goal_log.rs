//! The making of a plan in the journal: a run has its place there before it has a document, and every turn of the planner is
//! kept like one of a step, so that a plan is paid for once.
//!
//! A run that goes on is at one of three stages ([`Stage`]). How a plan is made is `goal.rs`; how a run goes on that has a document
//! is `journal_log.rs`.

use std::sync::{Arc, OnceLock};

use tenon_core::{Failure, Models, Secrets, Timestamp};

use crate::agent_step::as_step_error;
use crate::journal::{Entry, JournalError, Lease, NewDocument, Revision, RowKind, StoredRun};
use crate::paid::total;
use crate::past::{Given, Past};
use crate::step_log::Turns;
use crate::turn_rows::TurnRows;
use crate::{Completion, Role, Spent, StepKey, StepOutcome, StepOutput};

/// How far a run has come whose document a model makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// There is no document yet.
    Planning,
    /// There is one, and no step of it has begun.
    Planned,
    /// It runs like any other.
    Begun,
}

impl Stage {
    pub fn of(stored: &StoredRun) -> Stage {
        let place = StepKey::run(&stored.run.id).to_string();
        let began = |row: &crate::journal::Row| row.entry.kind == RowKind::Clock && row.entry.key == place;
        match (stored.run.document.is_empty(), stored.rows.iter().any(began)) {
            (true, _) => Stage::Planning,
            (false, false) => Stage::Planned,
            (false, true) => Stage::Begun,
        }
    }
}

/// Keeps the making of one run's plan.
pub struct PlanLog {
    lease: Arc<Lease>,
    secrets: Secrets,
    turns: Turns,
    given_up: Spent,
}

impl PlanLog {
    /// A run that begins.
    pub fn new(lease: Arc<Lease>, secrets: Secrets) -> PlanLog {
        PlanLog::with(lease, secrets, Past::default())
    }

    /// One that was cut off while its plan was made. A planner that could not do it begins anew.
    pub async fn resume(
        lease: Arc<Lease>,
        secrets: Secrets,
        stored: &StoredRun,
        models: &Models,
        given: Option<Given>,
    ) -> Result<PlanLog, JournalError> {
        let mut past = Past::of(stored)?;
        let mut revision = past.settle(models, &|key, kind, payload| entry(key, kind, payload));
        revision.inputs = given.map(|given| secrets.hide(&given.to_json()).into_owned());
        lease.revise(revision).await?;
        Ok(PlanLog::with(lease, secrets, past))
    }

    fn with(lease: Arc<Lease>, secrets: Secrets, mut past: Past) -> PlanLog {
        let key = key(lease.run_id());
        let records = past.turns.remove(&key).unwrap_or_default();
        let rows = TurnRows {
            lease: Arc::clone(&lease),
            key: key.to_string(),
            secrets: secrets.clone(),
            broken: Arc::new(OnceLock::new()),
        };
        let turns = Turns { records, journal: Arc::new(rows) };
        PlanLog { lease, secrets, turns, given_up: total(&past.spent) }
    }

    pub fn lease(&self) -> &Arc<Lease> {
        &self.lease
    }

    /// What the planner has done so far, and where more of it is kept.
    pub fn turns(&self) -> Turns {
        self.turns.clone()
    }

    /// What earlier planners of this run had cost that came to nothing.
    pub fn given_up(&self) -> Spent {
        self.given_up
    }

    /// There is a plan: from now on the run is pinned to it.
    pub async fn made(&self, document: NewDocument, spent: &Spent) -> Result<(), JournalError> {
        let text = self.secrets.hide(&document.document).into_owned();
        let output = StepOutput { spent: *spent, ..StepOutput::default() };
        self.lease
            .revise(Revision {
                append: vec![self.ended(StepOutcome::Completed(output))],
                document: Some(NewDocument { document: text, ..document }),
                ..Revision::default()
            })
            .await
    }

    /// There is none.
    pub async fn failed(&self, failure: &Failure, spent: &Spent) -> Result<(), JournalError> {
        let output = StepOutput { spent: *spent, ..StepOutput::default() };
        let outcome = StepOutcome::Failed { error: as_step_error(failure), output };
        self.lease.append(vec![self.ended(outcome)]).await
    }

    fn ended(&self, outcome: StepOutcome) -> Entry {
        let key = key(self.lease.run_id());
        let kind = match outcome {
            StepOutcome::Failed { .. } => RowKind::Failed,
            _ => RowKind::Completed,
        };
        let completion = Completion { key: key.clone(), at: Timestamp::now(), outcome };
        let payload = serde_json::to_string(&completion).unwrap_or_default();
        entry(&key, kind, self.secrets.hide(&payload).into_owned())
    }
}

/// Where a planner's turns are kept.
pub(crate) fn key(run_id: &str) -> StepKey {
    StepKey::run(run_id).with_role(Role::Plan)
}

fn entry(key: &StepKey, kind: RowKind, payload: String) -> Entry {
    Entry { key: key.to_string(), kind, at: Timestamp::now(), payload }
}

//! Looking at runs: which there are, how they stand, what is in one; and removing them.

use std::io::{self, Write};
use std::time::Duration;

use rusqlite::{Connection, OptionalExtension, Row as SqlRow, params};
use serde_json::json;
use tenon_core::Timestamp;

use super::owner::Owner;
use super::{Entry, Journal, JournalError, NewRun, Row, RowKind, StoredRun, millis, timestamp};
use crate::WorkflowStatus;

/// Names that are shown for a prefix that fits several runs.
const SHOWN_CANDIDATES: i64 = 5;

/// How often, and how long apart, it is tried to empty the file that SQLite writes to first, while others use it.
/// Whoever comes last empties it too.
const TRIES: usize = 50;
const BETWEEN_TRIES: Duration = Duration::from_millis(20);

/// How a run stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunState {
    /// Somebody runs it.
    Running,
    /// Nobody does, and it is not over: whoever ran it died.
    Interrupted,
    Ended(WorkflowStatus),
}

impl RunState {
    pub fn name(self) -> &'static str {
        match self {
            RunState::Running => "running",
            RunState::Interrupted => "interrupted",
            RunState::Ended(status) => status.name(),
        }
    }

    /// Whether an answer to a question of the run would have an effect.
    pub fn hears_answers(self) -> bool {
        match self {
            RunState::Running | RunState::Interrupted | RunState::Ended(WorkflowStatus::Suspended) => true,
            RunState::Ended(_) => false,
        }
    }

    fn read(status: &str, owner: Option<&str>, lease_until: Timestamp, now: Timestamp) -> RunState {
        let ended = [
            WorkflowStatus::Completed,
            WorkflowStatus::Partial,
            WorkflowStatus::Failed,
            WorkflowStatus::Cancelled,
            WorkflowStatus::BudgetExceeded,
            WorkflowStatus::Suspended,
        ];
        if let Some(status) = ended.into_iter().find(|ended| ended.name() == status) {
            return RunState::Ended(status);
        }
        let held = owner.and_then(Owner::parse).is_some_and(|owner| owner.holds(lease_until, now));
        if held { RunState::Running } else { RunState::Interrupted }
    }
}

/// What came of asking a run to stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cancelling {
    /// This process was asked. It stops in order, which takes a moment.
    Asked { pid: u32 },
    /// Nobody ran it. It counts as cancelled now.
    Marked,
    /// It had ended before.
    Over(WorkflowStatus),
}

/// A run in a list.
#[derive(Clone, Debug, PartialEq)]
pub struct RunSummary {
    pub id: String,
    pub name: String,
    pub state: RunState,
    pub created: Timestamp,
    pub updated: Timestamp,
    pub cost_usd: Option<f64>,
}

/// What is kept. A run that is not over, one that waits for an answer too, is kept whatever its age.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retention {
    pub age: Duration,
}

impl Journal {
    /// The newest first.
    pub fn list(&self, at_most: usize) -> Result<Vec<RunSummary>, JournalError> {
        let connection = self.reader();
        let now = Timestamp::now();
        let mut query = connection.prepare_cached(
            "SELECT run_id, name, status, created, updated, cost_usd, owner, lease_until FROM runs
             ORDER BY created DESC, run_id LIMIT ?1",
        )?;
        let rows = query.query_map([i64::try_from(at_most).unwrap_or(i64::MAX)], |row| summary(row, now))?;
        Ok(rows.collect::<Result<Vec<_>, _>>()?)
    }

    /// The one run whose id is, or begins with, this.
    pub fn find(&self, prefix: &str) -> Result<String, JournalError> {
        let connection = self.reader();
        let exact = connection
            .query_row("SELECT run_id FROM runs WHERE run_id = ?1", [prefix], |row| row.get(0))
            .optional()?;
        if let Some(id) = exact {
            return Ok(id);
        }
        let mut query = connection.prepare_cached(
            "SELECT run_id FROM runs WHERE substr(run_id, 1, length(?1)) = ?1 ORDER BY created DESC LIMIT ?2",
        )?;
        let mut ids = query
            .query_map(params![prefix, SHOWN_CANDIDATES], |row| row.get(0))?
            .collect::<Result<Vec<String>, _>>()?;
        match (prefix.is_empty(), ids.len()) {
            (true, _) | (_, 0) => Err(JournalError::Unknown { id: prefix.to_owned() }),
            (false, 1) => Ok(ids.remove(0)),
            _ => Err(JournalError::Ambiguous { prefix: prefix.to_owned(), ids }),
        }
    }

    pub fn load(&self, id: &str) -> Result<StoredRun, JournalError> {
        stored(&self.reader(), id)
    }

    /// Asks whoever runs it to stop. If nobody does, it counts as cancelled from now on.
    pub fn cancel(&self, id: &str) -> Result<Cancelling, JournalError> {
        let mut connection = self.reader();
        let tx = connection.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)?;
        let cancelling = match state(&tx, id)? {
            RunState::Running => {
                tx.execute("UPDATE runs SET cancel = 1 WHERE run_id = ?1", [id])?;
                Cancelling::Asked { pid: owner_pid(&tx, id)? }
            }
            RunState::Interrupted | RunState::Ended(WorkflowStatus::Suspended) => {
                tx.execute(
                    "UPDATE runs SET status = ?2, updated = ?3 WHERE run_id = ?1",
                    params![id, WorkflowStatus::Cancelled.name(), millis(Timestamp::now())],
                )?;
                Cancelling::Marked
            }
            RunState::Ended(status) => Cancelling::Over(status),
        };
        tx.commit()?;
        Ok(cancelling)
    }

    /// How a run stands now.
    pub fn state(&self, id: &str) -> Result<RunState, JournalError> {
        state(&self.reader(), id)
    }

    /// The process that runs it, if one does.
    pub fn holder(&self, id: &str) -> Result<Option<u32>, JournalError> {
        let connection = self.reader();
        match state(&connection, id)? {
            RunState::Running => owner_pid(&connection, id).map(Some),
            RunState::Interrupted | RunState::Ended(_) => Ok(None),
        }
    }

    /// How many runs there are.
    pub fn count(&self) -> Result<u64, JournalError> {
        let count: i64 = self.reader().query_row("SELECT count(*) FROM runs", [], |row| row.get(0))?;
        Ok(u64::try_from(count).unwrap_or(0))
    }

    pub fn delete(&self, id: &str) -> Result<(), JournalError> {
        let mut connection = self.reader();
        let tx = connection.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)?;
        if state(&tx, id)? == RunState::Running {
            return Err(JournalError::Held { id: id.to_owned(), pid: owner_pid(&tx, id)? });
        }
        tx.execute("DELETE FROM runs WHERE run_id = ?1", [id])?;
        tx.commit()?;
        // What was deleted is not to be found in the file either.
        for _ in 0..TRIES {
            let is_busy: bool =
                connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get(0))?;
            if !is_busy {
                break;
            }
            std::thread::sleep(BETWEEN_TRIES);
        }
        Ok(())
    }

    /// Removes runs that ended longer ago than is kept; how many.
    pub fn retain(&self, retention: Retention) -> Result<usize, JournalError> {
        let oldest =
            Timestamp::now().0.saturating_sub(u64::try_from(retention.age.as_millis()).unwrap_or(u64::MAX));
        let removed = self.reader().execute(
            "DELETE FROM runs WHERE status NOT IN ('running', 'suspended') AND updated < ?1",
            [millis(Timestamp(oldest))],
        )?;
        Ok(removed)
    }

    /// One line for the run, then one for each row.
    pub fn export(&self, id: &str, out: &mut dyn Write) -> Result<io::Result<()>, JournalError> {
        let stored = self.load(id)?;
        let run = &stored.run;
        let head = json!({
            "run_id": run.id, "name": run.name, "status": stored.state.name(),
            "created": stored.created.to_iso8601(), "cwd": run.cwd, "document_hash": run.document_hash,
            "document": run.document, "inputs": run.inputs,
        });
        let lines = stored.rows.iter().map(|row| {
            json!({
                "seq": row.seq, "at": row.entry.at.to_iso8601(), "kind": row.entry.kind.name(),
                "key": row.entry.key, "payload": row.entry.payload,
            })
        });
        Ok(std::iter::once(head).chain(lines).try_for_each(|line| writeln!(out, "{line}")))
    }
}

fn summary(row: &SqlRow<'_>, now: Timestamp) -> rusqlite::Result<RunSummary> {
    let status: String = row.get(2)?;
    let owner: Option<String> = row.get(6)?;
    Ok(RunSummary {
        id: row.get(0)?,
        name: row.get(1)?,
        state: RunState::read(&status, owner.as_deref(), timestamp(row.get(7)?), now),
        created: timestamp(row.get(3)?),
        updated: timestamp(row.get(4)?),
        cost_usd: row.get(5)?,
    })
}

fn owner_pid(connection: &Connection, id: &str) -> Result<u32, JournalError> {
    let owner: Option<String> =
        connection.query_row("SELECT owner FROM runs WHERE run_id = ?1", [id], |row| row.get(0))?;
    Ok(owner.as_deref().and_then(Owner::parse).map_or(0, |owner| owner.pid()))
}

pub(super) fn state(connection: &Connection, id: &str) -> Result<RunState, JournalError> {
    let found: Option<(String, Option<String>, i64)> = connection
        .query_row("SELECT status, owner, lease_until FROM runs WHERE run_id = ?1", [id], |row| {
            Ok((row.get(0)?, row.get(1)?, row.get(2)?))
        })
        .optional()?;
    let Some((status, owner, lease_until)) = found else {
        return Err(JournalError::Unknown { id: id.to_owned() });
    };
    Ok(RunState::read(&status, owner.as_deref(), timestamp(lease_until), Timestamp::now()))
}

pub(super) fn stored(connection: &Connection, id: &str) -> Result<StoredRun, JournalError> {
    let state = state(connection, id)?;
    let (run, created, updated) = connection.query_row(
        "SELECT run_id, name, document_hash, document, inputs, cwd, created, updated FROM runs WHERE run_id = ?1",
        [id],
        |row| {
            let run = NewRun {
                id: row.get(0)?,
                name: row.get(1)?,
                document_hash: row.get(2)?,
                document: row.get(3)?,
                inputs: row.get(4)?,
                cwd: row.get(5)?,
            };
            Ok((run, timestamp(row.get(6)?), timestamp(row.get(7)?)))
        },
    )?;
    let mut query = connection
        .prepare_cached("SELECT seq, key, kind, at, payload FROM events WHERE run_id = ?1 ORDER BY seq")?;
    let mut rows = Vec::new();
    let mut found = query.query([id])?;
    while let Some(row) = found.next()? {
        let seq = u64::try_from(row.get::<_, i64>(0)?).unwrap_or(0);
        let kind: String = row.get(2)?;
        let Some(kind) = RowKind::named(&kind) else {
            let why = format!("its kind is `{kind}`");
            return Err(JournalError::Damaged { id: id.to_owned(), seq, why });
        };
        let entry = Entry { key: row.get(1)?, kind, at: timestamp(row.get(3)?), payload: row.get(4)? };
        rows.push(Row { seq, entry });
    }
    Ok(StoredRun { run, state, created, updated, rows })
}

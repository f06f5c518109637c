//! Looking at runs: which there are, how they stand, what is in one; and removing them.

use std::io::{self, Write};
use std::time::Duration;

use rusqlite::types::ValueRef;
use rusqlite::{Connection, OptionalExtension, Row as SqlRow, params};
use serde_json::json;
use tenon_core::Timestamp;

use super::owner::{Owner, renewed};
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

    fn ended(status: &str) -> Option<WorkflowStatus> {
        let all = [
            WorkflowStatus::Completed,
            WorkflowStatus::Partial,
            WorkflowStatus::Failed,
            WorkflowStatus::Cancelled,
            WorkflowStatus::BudgetExceeded,
            WorkflowStatus::Suspended,
        ];
        all.into_iter().find(|ended| ended.name() == status)
    }

    fn read(status: &str, owner: &str, lease_until: Timestamp, now: Timestamp) -> RunState {
        if let Some(status) = RunState::ended(status) {
            return RunState::Ended(status);
        }
        let held = Owner::parse(owner).is_some_and(|owner| owner.holds(lease_until, now));
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
    /// What somebody has damaged of it, if anything.
    pub damage: Option<String>,
}

/// What is kept. A run that is not over, one that waits for an answer too, is kept whatever its age.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retention {
    pub age: Duration,
}

impl Journal {
    /// The newest first.
    pub fn list(&self, at_most: usize) -> Result<Vec<RunSummary>, JournalError> {
        self.list_here(at_most).map_err(|error| error.at(self.path()))
    }

    /// The one run whose id is, or begins with, this.
    pub fn find(&self, prefix: &str) -> Result<String, JournalError> {
        self.find_here(prefix).map_err(|error| error.at(self.path()))
    }

    pub fn load(&self, id: &str) -> Result<StoredRun, JournalError> {
        self.load_here(id).map_err(|error| error.at(self.path()))
    }

    /// Asks whoever runs it to stop. If nobody does, it counts as cancelled from now on.
    pub fn cancel(&self, id: &str) -> Result<Cancelling, JournalError> {
        self.cancel_here(id).map_err(|error| error.at(self.path()))
    }

    /// How a run stands now.
    pub fn state(&self, id: &str) -> Result<RunState, JournalError> {
        self.state_here(id).map_err(|error| error.at(self.path()))
    }

    /// The process that runs it, if one does.
    pub fn holder(&self, id: &str) -> Result<Option<u32>, JournalError> {
        self.holder_here(id).map_err(|error| error.at(self.path()))
    }

    /// How many runs there are.
    pub fn count(&self) -> Result<u64, JournalError> {
        self.count_here().map_err(|error| error.at(self.path()))
    }

    pub fn delete(&self, id: &str) -> Result<(), JournalError> {
        self.delete_here(id).map_err(|error| error.at(self.path()))
    }

    /// Removes runs that ended longer ago than is kept; their ids.
    pub fn retain(&self, retention: Retention) -> Result<Vec<String>, JournalError> {
        self.retain_here(retention).map_err(|error| error.at(self.path()))
    }

    /// One line for the run, then one for each row.
    pub fn export(&self, id: &str, out: &mut dyn Write) -> Result<io::Result<()>, JournalError> {
        self.export_here(id, out).map_err(|error| error.at(self.path()))
    }
}

/// The same, with errors that do not know their file.
impl Journal {
    fn list_here(&self, at_most: usize) -> Result<Vec<RunSummary>, JournalError> {
        let connection = self.reader();
        let now = Timestamp::now();
        let mut query = connection.prepare_cached(
            "SELECT run_id, name, status, created, updated, cost_usd, owner, lease_until FROM runs
             ORDER BY created DESC, run_id LIMIT ?1",
        )?;
        let rows = query.query_map([i64::try_from(at_most).unwrap_or(i64::MAX)], |row| summary(row, now))?;
        Ok(rows.collect::<Result<Vec<_>, _>>()?)
    }

    fn find_here(&self, prefix: &str) -> Result<String, JournalError> {
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
            _ => {
                let all: i64 = connection.query_row(
                    "SELECT count(*) FROM runs WHERE substr(run_id, 1, length(?1)) = ?1",
                    [prefix],
                    |row| row.get(0),
                )?;
                let more = u64::try_from(all).unwrap_or(0).saturating_sub(ids.len() as u64);
                Err(JournalError::Ambiguous { prefix: prefix.to_owned(), ids, more })
            }
        }
    }

    fn load_here(&self, id: &str) -> Result<StoredRun, JournalError> {
        stored(&self.reader(), id)
    }

    fn cancel_here(&self, id: &str) -> Result<Cancelling, JournalError> {
        let mut connection = self.reader();
        let tx = connection.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)?;
        let (state, holder) = (state(&tx, id)?, held_by(&tx, id)?);
        if holder.is_some() {
            // Also of one that had ended, for whoever is about to go on with it.
            tx.execute("UPDATE runs SET cancel = 1 WHERE run_id = ?1", [id])?;
        }
        let cancelling = match (state, holder) {
            (RunState::Running | RunState::Interrupted, Some(pid)) => Cancelling::Asked { pid },
            (RunState::Running | RunState::Interrupted, None)
            | (RunState::Ended(WorkflowStatus::Suspended), _) => {
                tx.execute(
                    "UPDATE runs SET status = ?2, updated = ?3 WHERE run_id = ?1",
                    params![id, WorkflowStatus::Cancelled.name(), millis(Timestamp::now())],
                )?;
                Cancelling::Marked
            }
            (RunState::Ended(status), _) => Cancelling::Over(status),
        };
        tx.commit()?;
        Ok(cancelling)
    }

    fn state_here(&self, id: &str) -> Result<RunState, JournalError> {
        state(&self.reader(), id)
    }

    fn holder_here(&self, id: &str) -> Result<Option<u32>, JournalError> {
        let connection = self.reader();
        state(&connection, id)?;
        held_by(&connection, id)
    }

    fn count_here(&self) -> Result<u64, JournalError> {
        let count: i64 = self.reader().query_row("SELECT count(*) FROM runs", [], |row| row.get(0))?;
        Ok(u64::try_from(count).unwrap_or(0))
    }

    fn delete_here(&self, id: &str) -> Result<(), JournalError> {
        let mut connection = self.reader();
        let tx = connection.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)?;
        state(&tx, id)?;
        // Also one that had ended and that somebody is about to go on with.
        if let Some(pid) = held_by(&tx, id)? {
            return Err(JournalError::Held { id: id.to_owned(), pid });
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

    fn retain_here(&self, retention: Retention) -> Result<Vec<String>, JournalError> {
        let oldest =
            Timestamp::now().0.saturating_sub(u64::try_from(retention.age.as_millis()).unwrap_or(u64::MAX));
        let connection = self.reader();
        let mut delete = connection.prepare(
            "DELETE FROM runs WHERE status NOT IN ('running', 'suspended') AND updated < ?1 RETURNING run_id",
        )?;
        let removed = delete.query_map([millis(Timestamp(oldest))], |row| row.get(0))?;
        Ok(removed.collect::<Result<Vec<String>, _>>()?)
    }

    fn export_here(&self, id: &str, out: &mut dyn Write) -> Result<io::Result<()>, JournalError> {
        let connection = self.reader();
        let state = state(&connection, id)?;
        let head = connection.query_row(
            "SELECT run_id, name, document_hash, document, inputs, cwd, created FROM runs WHERE run_id = ?1",
            [id],
            |row| {
                Ok(json!({
                    "run_id": text(row, 0)?, "name": text(row, 1)?, "status": state.name(),
                    "created": timestamp(number(row, 6)?).to_iso8601(), "cwd": text(row, 5)?,
                    "document_hash": text(row, 2)?, "document": text(row, 3)?, "inputs": text(row, 4)?,
                }))
            },
        )?;
        let mut query = connection.prepare_cached(
            "SELECT seq, key, kind, at, payload FROM events WHERE run_id = ?1 ORDER BY seq",
        )?;
        let mut rows = query.query([id])?;
        let mut written = writeln!(out, "{head}");
        while let Some(row) = rows.next()? {
            if written.is_err() {
                break;
            }
            // As it stands, also what nobody here can read.
            let line = json!({
                "seq": number(row, 0)?, "at": timestamp(number(row, 3)?).to_iso8601(), "kind": text(row, 2)?,
                "key": text(row, 1)?, "payload": text(row, 4)?,
            });
            written = writeln!(out, "{line}");
        }
        Ok(written)
    }
}

fn summary(row: &SqlRow<'_>, now: Timestamp) -> rusqlite::Result<RunSummary> {
    let owner = text(row, 6)?;
    Ok(RunSummary {
        damage: damage(row)?,
        id: text(row, 0)?,
        name: text(row, 1)?,
        state: RunState::read(&text(row, 2)?, &owner, timestamp(number(row, 7)?), now),
        created: timestamp(number(row, 3)?),
        updated: timestamp(number(row, 4)?),
        cost_usd: match row.get_ref(5)? {
            ValueRef::Real(cost) => Some(cost),
            ValueRef::Integer(cost) => Some(cost as f64),
            _ => None,
        },
    })
}

/// What is wrong with a run as far as a list reads it.
fn damage(row: &SqlRow<'_>) -> rusqlite::Result<Option<String>> {
    for (column, name) in [(0, "id"), (1, "name"), (2, "status")] {
        if !matches!(row.get_ref(column)?, ValueRef::Text(bytes) if std::str::from_utf8(bytes).is_ok()) {
            return Ok(Some(format!("its {name} is no text")));
        }
    }
    for (column, name) in [(3, "begin"), (4, "last change")] {
        if !matches!(row.get_ref(column)?, ValueRef::Integer(at) if at > 0) {
            return Ok(Some(format!("its {name} is no time")));
        }
    }
    let status = text(row, 2)?;
    let is_known = status == "running" || RunState::ended(&status).is_some();
    Ok((!is_known).then(|| format!("its status is `{status}`")))
}

/// Whatever stands there: one row that somebody has damaged must not hide all the others.
pub(super) fn text(row: &SqlRow<'_>, column: usize) -> rusqlite::Result<String> {
    Ok(match row.get_ref(column)? {
        ValueRef::Text(bytes) | ValueRef::Blob(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        ValueRef::Integer(number) => number.to_string(),
        ValueRef::Real(number) => number.to_string(),
        ValueRef::Null => String::new(),
    })
}

fn number(row: &SqlRow<'_>, column: usize) -> rusqlite::Result<i64> {
    Ok(match row.get_ref(column)? {
        ValueRef::Integer(number) => number,
        _ => 0,
    })
}

/// The process that holds it, if one does, however the run stands.
fn held_by(connection: &Connection, id: &str) -> Result<Option<u32>, JournalError> {
    let (owner, lease_until): (String, i64) =
        connection.query_row("SELECT owner, lease_until FROM runs WHERE run_id = ?1", [id], |row| {
            Ok((text(row, 0)?, number(row, 1)?))
        })?;
    let held = |owner: &Owner| owner.holds(timestamp(lease_until), Timestamp::now());
    Ok(Owner::parse(&owner).filter(held).map(|owner| owner.pid()))
}

pub(super) fn state(connection: &Connection, id: &str) -> Result<RunState, JournalError> {
    let found: Option<(String, String, i64)> = connection
        .query_row("SELECT status, owner, lease_until FROM runs WHERE run_id = ?1", [id], |row| {
            Ok((text(row, 0)?, text(row, 1)?, number(row, 2)?))
        })
        .optional()?;
    let Some((status, owner, lease_until)) = found else {
        return Err(JournalError::Unknown { id: id.to_owned() });
    };
    Ok(RunState::read(&status, &owner, timestamp(lease_until), Timestamp::now()))
}

pub(super) fn stored(connection: &Connection, id: &str) -> Result<StoredRun, JournalError> {
    let state = state(connection, id)?;
    let (run, created, updated, seen) = connection.query_row(
        "SELECT run_id, name, document_hash, document, inputs, cwd, created, updated, lease_until FROM runs WHERE run_id = ?1",
        [id],
        |row| {
            let run = NewRun {
                id: text(row, 0)?,
                name: text(row, 1)?,
                document_hash: text(row, 2)?,
                document: text(row, 3)?,
                inputs: text(row, 4)?,
                cwd: text(row, 5)?,
            };
            let seen = renewed(timestamp(number(row, 8)?));
            Ok((run, timestamp(number(row, 6)?), timestamp(number(row, 7)?), seen))
        },
    )?;
    let mut query = connection
        .prepare_cached("SELECT seq, key, kind, at, payload FROM events WHERE run_id = ?1 ORDER BY seq")?;
    let mut rows = Vec::new();
    let mut found = query.query([id])?;
    while let Some(row) = found.next()? {
        let seq = u64::try_from(row.get::<_, i64>(0)?).unwrap_or(0);
        let kind = text(row, 2)?;
        let Some(kind) = RowKind::named(&kind) else {
            let why = format!("its kind is `{kind}`");
            return Err(JournalError::Damaged { id: id.to_owned(), seq, why });
        };
        let (key, payload) = (text(row, 1)?, text(row, 4)?);
        let entry = Entry { key, kind, at: timestamp(number(row, 3)?), payload };
        rows.push(Row { seq, entry });
    }
    Ok(StoredRun { run, state, created, updated, seen, rows })
}

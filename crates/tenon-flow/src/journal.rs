//! The journal of workflow runs: one SQLite file that holds every run's document, inputs, steps and turns.
//!
//! A row is on the disk before whoever wrote it goes on; rows that are written together share one commit
//! (`journal/writer.rs`). One process at a time runs a run: it holds the lease that stands with the run
//! (`journal/owner.rs`), and each of its rows is refused once somebody else holds it. How a run is replayed from its
//! rows is `journal_log.rs`; looking at runs and removing them is `journal/runs.rs`.
//!
//! This is the one place that keeps results and model turns, so the file is its owner's alone.

mod approvals;
mod error;
mod owner;
mod runs;
mod tables;
mod writer;

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use rusqlite::{Connection, OptionalExtension, Transaction, params};
use tenon_core::Timestamp;
use tokio::sync::watch;

pub use approvals::{KeptQuestion, Reply, Settled};
pub use error::{JournalError, Trouble};
pub use runs::{Cancelling, Retention, RunState, RunSummary};

use owner::Owner;
use tables::connect;
use writer::Writer;

/// Every workflow run of one home.
#[derive(Clone)]
pub struct Journal {
    inner: Arc<Inner>,
}

struct Inner {
    path: PathBuf,
    /// For looking and tidying up. Runs are written by a thread with a connection of its own.
    reader: Mutex<Connection>,
    writer: OnceLock<Writer>,
}

/// What a run begins with, and is pinned to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewRun {
    pub id: String,
    /// The workflow's name.
    pub name: String,
    pub document_hash: String,
    /// The document with every file it refers to ([`crate::Pinned`]).
    pub document: String,
    /// What the caller gave ([`crate::Given`]).
    pub inputs: String,
    /// The folder it works in.
    pub cwd: String,
}

/// A run as the journal knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredRun {
    pub run: NewRun,
    pub state: RunState,
    pub created: Timestamp,
    pub updated: Timestamp,
    /// When whoever ran it last said so; never, where nobody has it.
    pub seen: Timestamp,
    pub rows: Vec<Row>,
}

/// What is different when a run goes on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Revision {
    /// Keys whose rows no longer hold.
    pub forget: Vec<String>,
    /// Keys that go on from where they were, as if they had not ended.
    pub reopen: Vec<String>,
    /// New rows.
    pub append: Vec<Entry>,
    /// Another document than the one it began with.
    pub document: Option<NewDocument>,
    /// What the caller gives from now on, as in [`NewRun`].
    pub inputs: Option<String>,
}

/// What a run is pinned to from now on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewDocument {
    pub name: String,
    pub hash: String,
    /// As in [`NewRun`].
    pub document: String,
}

/// One thing that happened, in the order of `seq`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    pub seq: u64,
    pub entry: Entry,
}

/// A row before it has its number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Whose it is: a step's key, or a name that the kind gives a meaning.
    pub key: String,
    pub kind: RowKind,
    pub at: Timestamp,
    pub payload: String,
}

macro_rules! row_kinds {
    ($($(#[$doc:meta])* $kind:ident = $name:literal,)*) => {
        /// What a row says.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum RowKind { $($(#[$doc])* $kind,)* }

        impl RowKind {
            pub const ALL: &'static [RowKind] = &[$(RowKind::$kind,)*];

            pub fn name(self) -> &'static str {
                match self { $(RowKind::$kind => $name,)* }
            }
        }
    };
}

row_kinds! {
    /// A step is about to start. Payload: the request.
    Scheduled = "scheduled",
    /// A sleep has begun. Payload: when it is over.
    Timer = "timer",
    /// A time that was asked for.
    Clock = "clock",
    /// What the agent of a step was told by anyone but a tool.
    Told = "told",
    /// A whole answer of a model.
    ModelTurn = "model_turn",
    /// A tool is about to run.
    ToolStarted = "tool_started",
    /// What a tool gave.
    ToolDone = "tool_done",
    /// The conversation of a step was replaced by a shorter one.
    Compacted = "compacted",
    /// A person is asked. Payload: the question.
    Asked = "asked",
    /// A question was settled: who, when, how. The first stands.
    Resolved = "resolved",
    /// A request that was paid for and is no turn of the step's agent.
    Besides = "besides",
    /// A step is over and did not fail.
    Completed = "completed",
    /// A step is over and failed.
    Failed = "failed",
    /// Something that came from outside, such as an entry of the shared memory.
    Signal = "signal",
    /// Nobody worked on the run, or on a step. Payload: from when, until when.
    Paused = "paused",
    /// What an attempt had cost whose rows no longer hold. It is never removed.
    Spent = "spent",
}

impl RowKind {
    fn named(name: &str) -> Option<RowKind> {
        RowKind::ALL.iter().copied().find(|kind| kind.name() == name)
    }
}

impl Journal {
    /// Opens the journal, and makes it where there is none.
    pub fn open(path: &Path) -> Result<Journal, JournalError> {
        let reader = Mutex::new(connect(path)?);
        Ok(Journal { inner: Arc::new(Inner { path: path.to_owned(), reader, writer: OnceLock::new() }) })
    }

    pub fn path(&self) -> &Path {
        &self.inner.path
    }

    /// Begins a run, which this process then holds.
    pub async fn begin(&self, run: NewRun) -> Result<Lease, JournalError> {
        let (writer, owner) = (self.writer()?.clone(), Owner::new()?);
        let (id, token) = (run.id.clone(), owner.to_string());
        writer.write(move |tx| insert_run(tx, &run, &token)).await?;
        Ok(writer.hold(id, owner))
    }

    /// Takes up a run that nobody else runs.
    pub async fn take(&self, id: &str) -> Result<(Lease, StoredRun), JournalError> {
        let (writer, owner) = (self.writer()?.clone(), Owner::new()?);
        let (mut run_id, mut token) = (id.to_owned(), owner.to_string());
        let mut watched = None;
        let stored = loop {
            let taken = writer
                .write(move |tx| {
                    let stored = runs::stored(tx, &run_id)?;
                    Ok(match take_lease(tx, &run_id, &token, watched)? {
                        Taken::Now => Ok(stored),
                        Taken::Unclear(lease_until) => Err((run_id, token, lease_until)),
                    })
                })
                .await?;
            match taken {
                Ok(stored) => break stored,
                Err((id, owner, lease_until)) => {
                    (run_id, token, watched) = (id, owner, Some(lease_until));
                    tokio::time::sleep(owner::WATCH).await;
                }
            }
        };
        Ok((writer.hold(id.to_owned(), owner), stored))
    }

    fn writer(&self) -> Result<&Writer, JournalError> {
        if let Some(writer) = self.inner.writer.get() {
            return Ok(writer);
        }
        let writer = Writer::start(connect(&self.inner.path)?, &self.inner.path)?;
        // Whoever came first stays; the other thread ends with its sender.
        Ok(self.inner.writer.get_or_init(|| writer))
    }

    fn reader(&self) -> MutexGuard<'_, Connection> {
        self.inner.reader.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The right to run one run. Given back when dropped; lost when the process dies.
pub struct Lease {
    run_id: String,
    owner: Owner,
    writer: Writer,
    cancelled: watch::Receiver<bool>,
    /// Counts how often answers to questions of the run were seen to come.
    answers: watch::Sender<u64>,
}

impl Lease {
    pub fn run_id(&self) -> &str {
        &self.run_id
    }

    /// Becomes `true` when somebody asks, from another process, that the run be stopped.
    pub fn cancelled(&self) -> watch::Receiver<bool> {
        self.cancelled.clone()
    }

    /// On the disk when this returns. The rows get consecutive numbers.
    pub async fn append(&self, entries: Vec<Entry>) -> Result<(), JournalError> {
        let (run_id, token) = (self.run_id.clone(), self.owner.to_string());
        self.writer
            .write(move |tx| {
                still_ours(tx, &run_id, &token)?;
                append(tx, &run_id, &entries)
            })
            .await
    }

    /// Changes what the run is to go on from, all at once.
    pub async fn revise(&self, revision: Revision) -> Result<(), JournalError> {
        let (run_id, token) = (self.run_id.clone(), self.owner.to_string());
        self.writer
            .write(move |tx| {
                still_ours(tx, &run_id, &token)?;
                revise(tx, &run_id, &revision)
            })
            .await
    }

    /// How the run stands when this process leaves it.
    pub async fn finish(&self, state: RunState, cost_usd: Option<f64>) -> Result<(), JournalError> {
        let (run_id, token) = (self.run_id.clone(), self.owner.to_string());
        self.writer
            .write(move |tx| {
                still_ours(tx, &run_id, &token)?;
                tx.prepare_cached(
                    "UPDATE runs SET status = ?2, updated = ?3, cost_usd = ?4 WHERE run_id = ?1",
                )?
                .execute(params![
                    run_id,
                    state.name(),
                    millis(Timestamp::now()),
                    cost_usd
                ])?;
                Ok(())
            })
            .await
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.writer.release(&self.run_id, &self.owner);
    }
}

fn insert_run(tx: &Transaction<'_>, run: &NewRun, owner: &str) -> Result<(), JournalError> {
    let now = Timestamp::now();
    let inserted = tx
        .prepare_cached(
            "INSERT INTO runs (run_id, name, document_hash, document, inputs, cwd, status, created, updated,
                               owner, lease_until, cancel)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, 'running', ?7, ?7, ?8, ?9, 0) ON CONFLICT DO NOTHING",
        )?
        .execute(params![
            run.id,
            run.name,
            run.document_hash,
            run.document,
            run.inputs,
            run.cwd,
            millis(now),
            owner,
            millis(owner::lease_until(now)),
        ])?;
    if inserted == 0 { Err(JournalError::Exists { id: run.id.clone() }) } else { Ok(()) }
}

/// What came of asking for a run.
enum Taken {
    Now,
    /// Whether somebody has it is seen by whether this lease is renewed.
    Unclear(i64),
}

/// `watched` is a lease that was not renewed for as long as it takes to know, if it is still the same.
fn take_lease(
    tx: &Transaction<'_>,
    run_id: &str,
    owner: &str,
    watched: Option<i64>,
) -> Result<Taken, JournalError> {
    let now = Timestamp::now();
    let held: Option<(Option<String>, i64)> = tx
        .query_row("SELECT owner, lease_until FROM runs WHERE run_id = ?1", [run_id], |row| {
            Ok((row.get(0)?, row.get(1)?))
        })
        .optional()?;
    let Some((held_by, lease_until)) = held else {
        return Err(JournalError::Unknown { id: run_id.to_owned() });
    };
    if let Some(other) = held_by.as_deref().and_then(Owner::parse) {
        let held = || JournalError::Held { id: run_id.to_owned(), pid: other.pid() };
        let until = timestamp(lease_until);
        match (other.holds(until, now), other.is_unclear(until, now), watched) {
            (true, ..) => return Err(held()),
            (false, true, None) => return Ok(Taken::Unclear(lease_until)),
            (false, true, Some(watched)) if watched != lease_until => return Err(held()),
            (false, ..) => {}
        }
    }
    tx.execute(
        "UPDATE runs SET owner = ?2, lease_until = ?3, cancel = 0, updated = ?4 WHERE run_id = ?1",
        params![run_id, owner, millis(owner::lease_until(now)), millis(now)],
    )?;
    Ok(Taken::Now)
}

fn still_ours(tx: &Transaction<'_>, run_id: &str, owner: &str) -> Result<(), JournalError> {
    let held: Option<Option<String>> = tx
        .prepare_cached("SELECT owner FROM runs WHERE run_id = ?1")?
        .query_row([run_id], |row| row.get(0))
        .optional()?;
    match held {
        Some(Some(held)) if held == owner => Ok(()),
        _ => Err(JournalError::Lost { id: run_id.to_owned() }),
    }
}

fn revise(tx: &Transaction<'_>, run_id: &str, revision: &Revision) -> Result<(), JournalError> {
    let Revision { forget, reopen, append: entries, document, inputs } = revision;
    let mut delete =
        tx.prepare_cached("DELETE FROM events WHERE run_id = ?1 AND key = ?2 AND kind <> 'spent'")?;
    for key in forget {
        delete.execute(params![run_id, key])?;
    }
    let mut delete = tx.prepare_cached(
        "DELETE FROM events WHERE run_id = ?1 AND key = ?2 AND kind IN ('completed', 'failed')",
    )?;
    for key in reopen {
        delete.execute(params![run_id, key])?;
    }
    append(tx, run_id, entries)?;
    if let Some(NewDocument { name, hash, document }) = document {
        tx.execute(
            "UPDATE runs SET name = ?2, document_hash = ?3, document = ?4 WHERE run_id = ?1",
            params![run_id, name, hash, document],
        )?;
    }
    if let Some(inputs) = inputs {
        tx.execute("UPDATE runs SET inputs = ?2 WHERE run_id = ?1", params![run_id, inputs])?;
    }
    tx.execute("UPDATE runs SET status = 'running' WHERE run_id = ?1", [run_id])?;
    Ok(())
}

fn append(tx: &Transaction<'_>, run_id: &str, entries: &[Entry]) -> Result<(), JournalError> {
    let last: i64 = tx
        .prepare_cached("SELECT coalesce(max(seq), 0) FROM events WHERE run_id = ?1")?
        .query_row([run_id], |row| row.get(0))?;
    let mut insert = tx.prepare_cached(
        "INSERT INTO events (run_id, seq, key, kind, at, payload) VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
    )?;
    for (seq, entry) in (last + 1..).zip(entries) {
        insert.execute(params![
            run_id,
            seq,
            entry.key,
            entry.kind.name(),
            millis(entry.at),
            entry.payload
        ])?;
    }
    Ok(())
}

/// SQLite's integers have a sign; times of ours fit for another 290 million years.
fn millis(at: Timestamp) -> i64 {
    i64::try_from(at.0).unwrap_or(i64::MAX)
}

fn timestamp(millis: i64) -> Timestamp {
    Timestamp(u64::try_from(millis).unwrap_or(0))
}

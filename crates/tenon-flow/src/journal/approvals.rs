//! Questions to people, and their answers, in the journal: asked by whoever runs the run, answered by anybody who may write the
//! file. The first answer stands, whoever else answers at the same moment: looking and writing are one transaction.

use rusqlite::{Connection, OptionalExtension, Transaction, params};
use serde::de::DeserializeOwned;
use tenon_core::Timestamp;
use tokio::sync::watch;

use super::runs::{state, text};
use super::{Entry, Journal, JournalError, Lease, RowKind, RunState, append, millis, still_ours};
use crate::{Decision, JsonText, Question, Resolution, StepKey, Suspending, WorkflowStatus};

/// A question of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct KeptQuestion {
    pub key: StepKey,
    pub question: Question,
    /// When it was settled.
    pub resolution: Option<Resolution>,
    /// Whether what it was asked for is over: it was answered and seen to be, or nobody wants to know any more.
    pub is_over: bool,
}

impl KeptQuestion {
    pub fn is_open(&self) -> bool {
        self.resolution.is_none() && !self.is_over
    }
}

/// What somebody says to a question.
#[derive(Clone, Debug, PartialEq)]
pub struct Reply {
    /// Not that its time ran out, which nobody says.
    pub decision: Decision,
    pub by: String,
    pub data: Option<JsonText>,
}

/// What came of a reply.
#[derive(Clone, Debug, PartialEq)]
pub enum Settled {
    /// It is the answer. How the run stands, which is gone on with if somebody runs it.
    Now { question: Question, resolution: Resolution, state: RunState },
    /// Another one, or time, was there before.
    Before { question: Question, resolution: Resolution },
    /// Nobody is asked any more.
    Over { state: RunState },
}

impl Journal {
    /// Every question that a run has asked, in their order.
    pub fn questions(&self, id: &str) -> Result<Vec<KeptQuestion>, JournalError> {
        questions(&self.reader(), id)
    }

    /// Answers a question, unless it is settled.
    pub fn reply(&self, id: &str, asked: &KeptQuestion, reply: Reply) -> Result<Settled, JournalError> {
        let mut connection = self.reader();
        let tx = connection.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)?;
        let state = state(&tx, id)?;
        let now = questions(&tx, id)?;
        let same = |kept: &&KeptQuestion| kept.key == asked.key && kept.question == asked.question;
        let Some(kept) = now.iter().find(same) else { return Ok(Settled::Over { state }) };
        let question = kept.question.clone();
        if let Some(resolution) = kept.resolution.clone() {
            return Ok(Settled::Before { question, resolution });
        }
        if kept.is_over || !state.hears_answers() {
            return Ok(Settled::Over { state });
        }
        if question.has_expired(Timestamp::now()) {
            let resolution = Resolution::timed_out(&question);
            keep(&tx, id, &kept.key, &resolution)?;
            tx.commit()?;
            return Ok(Settled::Before { question, resolution });
        }
        let Reply { decision, by, data } = reply;
        let resolution = Resolution { decision, by: Some(by), at: Timestamp::now(), data };
        keep(&tx, id, &kept.key, &resolution)?;
        tx.commit()?;
        Ok(Settled::Now { question, resolution, state })
    }
}

impl Lease {
    /// Changes when an answer may have come.
    pub fn answers(&self) -> watch::Receiver<u64> {
        self.answers.subscribe()
    }

    /// The answer to a question of the run, if there is one.
    pub async fn answer(&self, key: &StepKey) -> Result<Option<Resolution>, JournalError> {
        let (run_id, key) = (self.run_id.clone(), key.to_string());
        self.writer.write(move |tx| resolution(tx, &run_id, &key)).await
    }

    /// Answers a question unless it has an answer; the one that stands.
    pub async fn settle(&self, key: &StepKey, answer: Resolution) -> Result<Resolution, JournalError> {
        let (run_id, token, key) = (self.run_id.clone(), self.owner.to_string(), key.clone());
        self.writer
            .write(move |tx| {
                still_ours(tx, &run_id, &token)?;
                if let Some(first) = resolution(tx, &run_id, &key.to_string())? {
                    return Ok(first);
                }
                keep(tx, &run_id, &key, &answer)?;
                Ok(answer)
            })
            .await
    }

    /// Sets the run aside as long as none of these has an answer. Whoever answers later finds it suspended.
    pub async fn suspend(&self, waiting: Vec<StepKey>) -> Result<Suspending, JournalError> {
        let (run_id, token) = (self.run_id.clone(), self.owner.to_string());
        self.writer
            .write(move |tx| {
                still_ours(tx, &run_id, &token)?;
                for key in &waiting {
                    if resolution(tx, &run_id, &key.to_string())?.is_some() {
                        return Ok(Suspending::Answered);
                    }
                }
                tx.execute(
                    "UPDATE runs SET status = ?2, updated = ?3 WHERE run_id = ?1",
                    params![run_id, WorkflowStatus::Suspended.name(), millis(Timestamp::now())],
                )?;
                Ok(Suspending::Done)
            })
            .await
    }
}

/// The last row of a run, and whether there is an answer after `seen`.
pub(super) fn since(connection: &Connection, run_id: &str, seen: i64) -> rusqlite::Result<(i64, bool)> {
    let last = connection
        .prepare_cached("SELECT coalesce(max(seq), 0) FROM events WHERE run_id = ?1")?
        .query_row([run_id], |row| row.get(0))?;
    let answered = connection
        .prepare_cached(
            "SELECT EXISTS (SELECT 1 FROM events WHERE run_id = ?1 AND seq > ?2 AND kind = 'resolved')",
        )?
        .query_row(params![run_id, seen], |row| row.get(0))?;
    Ok((last, answered))
}

fn keep(
    tx: &Transaction<'_>,
    run_id: &str,
    key: &StepKey,
    resolution: &Resolution,
) -> Result<(), JournalError> {
    let unwritable = |error: serde_json::Error| rusqlite::Error::ToSqlConversionFailure(error.into());
    let payload = serde_json::to_string(resolution).map_err(unwritable)?;
    let entry = Entry { key: key.to_string(), kind: RowKind::Resolved, at: resolution.at, payload };
    append(tx, run_id, &[entry])
}

fn resolution(connection: &Connection, run_id: &str, key: &str) -> Result<Option<Resolution>, JournalError> {
    let found: Option<(i64, String)> = connection
        .prepare_cached(
            "SELECT seq, payload FROM events WHERE run_id = ?1 AND key = ?2 AND kind = 'resolved' ORDER BY seq LIMIT 1",
        )?
        .query_row(params![run_id, key], |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()?;
    found.map(|(seq, payload)| read(run_id, seq, &payload)).transpose()
}

fn questions(connection: &Connection, run_id: &str) -> Result<Vec<KeptQuestion>, JournalError> {
    let mut query = connection.prepare_cached(
        "SELECT seq, key, kind, CASE WHEN kind IN ('asked', 'resolved') THEN payload ELSE '' END FROM events
         WHERE run_id = ?1 AND kind IN ('asked', 'resolved', 'completed', 'failed') ORDER BY seq",
    )?;
    let mut rows = query.query([run_id])?;
    let mut found: Vec<KeptQuestion> = Vec::new();
    while let Some(row) = rows.next()? {
        let seq: i64 = row.get(0)?;
        let (key, kind, payload) = (text(row, 1)?, text(row, 2)?, text(row, 3)?);
        if kind == RowKind::Asked.name() {
            let key = key.parse().map_err(|error| damaged(run_id, seq, &error))?;
            let question = read(run_id, seq, &payload)?;
            found.push(KeptQuestion { key, question, resolution: None, is_over: false });
            continue;
        }
        let Some(kept) = found.iter_mut().find(|kept| kept.key.to_string() == key) else { continue };
        if kind == RowKind::Resolved.name() {
            kept.resolution = kept.resolution.take().or(Some(read(run_id, seq, &payload)?));
        } else {
            kept.is_over = true;
        }
    }
    Ok(found)
}

fn read<T: DeserializeOwned>(run_id: &str, seq: i64, payload: &str) -> Result<T, JournalError> {
    serde_json::from_str(payload).map_err(|error| damaged(run_id, seq, &error))
}

fn damaged(run_id: &str, seq: i64, why: &dyn std::fmt::Display) -> JournalError {
    let seq = u64::try_from(seq).unwrap_or(0);
    JournalError::Damaged { id: run_id.to_owned(), seq, why: why.to_string() }
}

//! A run's steps in the journal: kept as they happen, and known again when the run goes on.
//!
//! Which of the old endings still hold is decided in [`Past::of`]. A run that crashed goes on with all of them. One
//! that had ended goes on as well: its failed steps are tried again, with the turns they had where the failure was
//! not the agent's own doing.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, OnceLock};

use ring::digest::{SHA256, digest};
use serde::{Deserialize, Serialize};
use tenon_core::{BoxFut, Secrets, Timestamp, TurnRecord};

use crate::journal::{Entry, JournalError, Lease, RowKind, RunState, StoredRun};
use crate::step_log::{Begun, StepLog, Turns};
use crate::turn_rows::{self, TurnRows};
use crate::{
    Completion, LoadedWorkflow, Role, Segment, StepErrorClass, StepKey, StepOutcome, StepRequest,
    WorkflowStatus, included,
};

/// Keeps the steps of one run in the journal.
pub struct JournalLog {
    lease: Arc<Lease>,
    secrets: Secrets,
    root: Arc<LoadedWorkflow>,
    past: Past,
    trust: Trust,
    /// Why a turn could not be kept. A step that failed for it has not ended.
    broken: Arc<OnceLock<String>>,
}

/// Whether a step that ended is the step that is asked for now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trust {
    /// The document is the same, so every key means the same.
    Keys,
    /// The document has changed: only a step that is asked for in the same words has ended.
    Requests,
}

/// What happened before.
#[derive(Default)]
pub struct Past {
    ended: HashMap<StepKey, (u64, Completion)>,
    /// What each was asked, as a hash.
    asked: HashMap<StepKey, String>,
    turns: HashMap<StepKey, Vec<TurnRecord>>,
    /// When a sleep is over.
    due: HashMap<StepKey, Timestamp>,
    /// What is left of limits: time in which nobody ran the run does not count.
    left_ms: HashMap<StepKey, u64>,
    began: HashMap<StepKey, Timestamp>,
    /// Keys whose rows no longer hold.
    forgotten: HashSet<StepKey>,
    /// Keys that go on from where they were, as if they had not ended.
    reopened: HashSet<StepKey>,
}

#[derive(Serialize, Deserialize)]
struct Scheduled {
    request: String,
}

#[derive(Serialize, Deserialize)]
struct Due {
    at: Timestamp,
}

impl JournalLog {
    /// A run that begins.
    pub fn new(lease: Arc<Lease>, root: Arc<LoadedWorkflow>, secrets: Secrets) -> JournalLog {
        JournalLog { lease, secrets, root, past: Past::default(), trust: Trust::Keys, broken: Arc::default() }
    }

    /// A run that goes on. What no longer holds is removed from the journal first.
    pub async fn resume(
        lease: Arc<Lease>,
        root: Arc<LoadedWorkflow>,
        secrets: Secrets,
        past: Past,
        trust: Trust,
    ) -> Result<JournalLog, JournalError> {
        let names = |keys: &HashSet<StepKey>| keys.iter().map(StepKey::to_string).collect();
        lease.forget(names(&past.forgotten), names(&past.reopened)).await?;
        Ok(JournalLog { lease, secrets, root, past, trust, broken: Arc::default() })
    }

    fn request_hash(&self, request: &StepRequest) -> String {
        let agent = match request {
            StepRequest::Agent(request) => included(&self.root, &request.agent.document)
                .zip(request.agent.name.as_deref())
                .and_then(|(document, name)| document.agents.get(name).cloned())
                .map(|agent| serde_json::to_string(&agent.spec).unwrap_or_default()),
            StepRequest::SubWorkflow(request) => {
                included(&self.root, &request.document).map(|document| document.hash.clone())
            }
            StepRequest::Sleep { .. } => None,
        };
        let text = serde_json::to_string(&(request, agent)).unwrap_or_default();
        digest(&SHA256, text.as_bytes()).as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// Whether what is known of this key is about this request.
    fn holds(&self, key: &StepKey, request: &StepRequest) -> bool {
        match self.trust {
            Trust::Keys => true,
            Trust::Requests => {
                self.past.asked.get(key).is_some_and(|asked| *asked == self.request_hash(request))
            }
        }
    }

    fn entry(&self, key: &StepKey, kind: RowKind, payload: &impl Serialize) -> Result<Entry, String> {
        let payload = serde_json::to_string(payload).map_err(|error| error.to_string())?;
        let payload = self.secrets.hide(&payload).into_owned();
        Ok(Entry { key: key.to_string(), kind, at: Timestamp::now(), payload })
    }

    /// Removes what no longer holds, and writes.
    fn write(
        &self,
        forget: Vec<String>,
        entries: Result<Vec<Entry>, String>,
    ) -> BoxFut<'static, Result<(), String>> {
        let lease = Arc::clone(&self.lease);
        Box::pin(async move {
            if !forget.is_empty() {
                lease.forget(forget, Vec::new()).await.map_err(|error| error.to_string())?;
            }
            lease.append(entries?).await.map_err(|error| error.to_string())
        })
    }
}

impl StepLog for JournalLog {
    fn ended(&self, key: &StepKey, request: &StepRequest) -> Option<(u64, Completion)> {
        self.past.ended.get(key).filter(|_| self.holds(key, request)).cloned()
    }

    fn begins(&self, key: &StepKey, request: &StepRequest) -> BoxFut<'static, Result<Begun, String>> {
        let holds = self.holds(key, request);
        let is_known = self.past.asked.contains_key(key) || self.past.due.contains_key(key);
        let due_in = |ms: u64| Due { at: Timestamp(Timestamp::now().0.saturating_add(ms)) };
        let left_ms = self.past.left_ms.get(key).copied().filter(|_| holds);
        let (entry, begun) = match request {
            StepRequest::Sleep { .. } if left_ms.is_some() => {
                let left = left_ms.unwrap_or_default();
                (self.entry(key, RowKind::Timer, &due_in(left)), Begun { left_ms })
            }
            StepRequest::Sleep { ms } => match self.past.due.get(key).filter(|_| holds) {
                Some(due) => {
                    let left = due.0.saturating_sub(Timestamp::now().0);
                    return Box::pin(async move { Ok(Begun { left_ms: Some(left) }) });
                }
                None => (self.entry(key, RowKind::Timer, &due_in(*ms)), Begun::default()),
            },
            _ if is_known && holds => return Box::pin(async { Ok(Begun::default()) }),
            _ => {
                let scheduled = Scheduled { request: self.request_hash(request) };
                (self.entry(key, RowKind::Scheduled, &scheduled), Begun::default())
            }
        };
        let is_replaced = is_known && (!holds || left_ms.is_some());
        let forget = if is_replaced { vec![key.to_string()] } else { Vec::new() };
        let written = self.write(forget, entry.map(|entry| vec![entry]));
        Box::pin(async move { written.await.map(|()| begun) })
    }

    fn ends(&self, completions: Vec<Completion>) -> BoxFut<'static, Result<(), String>> {
        if let Some(why) = self.broken.get().cloned() {
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
        self.write(Vec::new(), entries)
    }

    fn began(&self, place: &StepKey) -> BoxFut<'static, Result<Timestamp, String>> {
        if let Some(began) = self.past.began.get(place).copied() {
            return Box::pin(async move { Ok(began) });
        }
        let now = Timestamp::now();
        let entry = self.entry(place, RowKind::Clock, &now);
        let written = self.write(Vec::new(), entry.map(|entry| vec![entry]));
        Box::pin(async move { written.await.map(|()| now) })
    }

    fn turns(&self, key: &StepKey) -> Turns {
        let records = match self.trust {
            Trust::Keys => self.past.turns.get(key).cloned().unwrap_or_default(),
            // What was said to other words is no answer to these.
            Trust::Requests => Vec::new(),
        };
        let (lease, secrets) = (Arc::clone(&self.lease), self.secrets.clone());
        let rows = TurnRows { lease, key: key.to_string(), secrets, broken: Arc::clone(&self.broken) };
        Turns { records, journal: Arc::new(rows) }
    }
}

impl Past {
    pub fn of(stored: &StoredRun) -> Result<Past, JournalError> {
        let mut past = Past::default();
        for row in &stored.rows {
            let damaged =
                |why: String| JournalError::Damaged { id: stored.run.id.clone(), seq: row.seq, why };
            let entry = &row.entry;
            if entry.kind == RowKind::Signal {
                continue;
            }
            let key: StepKey = entry.key.parse().map_err(|error| damaged(format!("{error}")))?;
            if let Some(turn) = turn_rows::read(entry) {
                past.turns.entry(key).or_default().push(turn.map_err(damaged)?);
                continue;
            }
            match entry.kind {
                RowKind::Scheduled => {
                    let Scheduled { request } = read(&entry.payload).map_err(damaged)?;
                    past.asked.insert(key, request);
                }
                RowKind::Timer => {
                    let Due { at } = read(&entry.payload).map_err(damaged)?;
                    past.due.insert(key, at);
                }
                RowKind::Clock => {
                    past.began.insert(key, read(&entry.payload).map_err(damaged)?);
                }
                _ => {
                    let completion: Completion = read(&entry.payload).map_err(damaged)?;
                    past.ended.insert(key, (row.seq, completion));
                }
            }
        }
        past.try_again(stored.state);
        let last_sign = stored.rows.iter().map(|row| row.entry.at).max().unwrap_or(stored.created);
        past.left_ms = past
            .due
            .iter()
            .filter(|(key, _)| matches!(key.role(), Role::Timeout | Role::JudgeTimeout))
            .map(|(key, due)| (key.clone(), due.0.saturating_sub(last_sign.0)))
            .collect();
        Ok(past)
    }

    /// How many steps need not be run again.
    pub fn completed(&self) -> usize {
        let done =
            |(_, completion): &&(u64, Completion)| matches!(completion.outcome, StepOutcome::Completed(_));
        self.ended.values().filter(done).count()
    }

    /// Forgets endings that a run that goes on is to have another try at.
    fn try_again(&mut self, state: RunState) {
        let was_over = matches!(
            state,
            RunState::Ended(
                WorkflowStatus::Failed
                    | WorkflowStatus::Partial
                    | WorkflowStatus::Cancelled
                    | WorkflowStatus::BudgetExceeded
            )
        );
        let succeeded: HashSet<Vec<Segment>> = self
            .ended
            .iter()
            .filter(|(_, (_, completion))| matches!(completion.outcome, StepOutcome::Completed(_)))
            .map(|(key, _)| any_attempt(key))
            .collect();
        let again: Vec<StepKey> = self
            .ended
            .iter()
            .filter(|(key, (_, completion))| match (key.role(), &completion.outcome) {
                // What the caller allows is said anew each time.
                (Role::Limit, _) => true,
                _ if !was_over => false,
                (Role::Work, StepOutcome::Failed { .. }) => !succeeded.contains(&any_attempt(key)),
                (Role::Work | Role::Judge, StepOutcome::Cancelled(_)) => true,
                (Role::Timeout, _) => true,
                _ => false,
            })
            .map(|(key, _)| key.clone())
            .collect();
        for key in again {
            let own_doing = match self.ended.remove(&key) {
                Some((_, Completion { outcome: StepOutcome::Failed { error, .. }, .. })) => {
                    is_own_doing(error.class)
                }
                _ => false,
            };
            if own_doing || key.role() != Role::Work {
                self.turns.remove(&key);
                self.asked.remove(&key);
                self.due.remove(&key);
                self.forgotten.insert(key);
            } else {
                self.reopened.insert(key);
            }
        }
        // Time that was running when the run was stopped starts anew too.
        if was_over {
            let timers: Vec<StepKey> = self
                .due
                .keys()
                .filter(|key| matches!(key.role(), Role::Timeout | Role::Limit))
                .cloned()
                .collect();
            for key in timers {
                self.due.remove(&key);
                self.forgotten.insert(key);
            }
        }
    }
}

/// The way to a step, whichever attempt.
fn any_attempt(key: &StepKey) -> Vec<Segment> {
    let mut segments = key.segments().to_vec();
    if let Some(last) = segments.pop() {
        segments.push(last.attempt(1));
    }
    segments
}

/// Failures that the same turns would only lead to again.
fn is_own_doing(class: StepErrorClass) -> bool {
    !matches!(
        class,
        StepErrorClass::Auth
            | StepErrorClass::Budget
            | StepErrorClass::RateLimited
            | StepErrorClass::Overloaded
            | StepErrorClass::Network
            | StepErrorClass::Interrupted
            | StepErrorClass::Timeout
    )
}

fn read<'a, T: Deserialize<'a>>(payload: &'a str) -> Result<T, String> {
    serde_json::from_str(payload).map_err(|error| error.to_string())
}

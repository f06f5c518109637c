//! What the journal knows of a run: how its steps ended, what was asked, what was said.
//!
//! [`Past::of`] decides which of the old endings hold when a run goes on. One that crashed goes on with all of them. One
//! that had ended goes on as well: its failed steps are tried again, with the turns they had where the failure was not the
//! agent's own doing. With another document, [`Past::fit`] keeps what is asked for in the same words. What no longer
//! holds is removed from the journal in one commit; what it had cost stays ([`RowKind::Spent`]).

mod questions;

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use ring::digest::{SHA256, digest};
use serde::{Deserialize, Serialize};
use tenon_core::{Cost, Models, Timestamp, TurnRecord, Usage};

use crate::journal::{Entry, JournalError, Revision, RowKind, RunState, StoredRun};
use crate::retell::{Listener, retell};
use crate::signal::Signal;
use crate::{
    Completion, JsonText, LoadedWorkflow, Notice, Question, Resolution, Role, RunLimits, RunSpec, Segment,
    Spent, StepErrorClass, StepKey, StepOutcome, StepRequest, WorkflowOutcome, WorkflowStatus, included,
    turn_rows,
};

/// What happened before.
#[derive(Default)]
pub struct Past {
    pub(crate) ended: HashMap<StepKey, (u64, Completion)>,
    /// What each was asked, as a hash.
    pub(crate) asked: HashMap<StepKey, String>,
    pub(crate) turns: HashMap<StepKey, Vec<TurnRecord>>,
    /// Sleeps.
    pub(crate) due: HashMap<StepKey, Due>,
    pub(crate) began: HashMap<StepKey, Timestamp>,
    /// Questions to people.
    pub(crate) questions: HashMap<StepKey, Question>,
    /// How they were settled.
    pub(crate) resolved: HashMap<StepKey, Resolution>,
    /// What happened beside the steps' turns.
    pub(crate) signals: Vec<Signal>,
    /// What earlier attempts had cost whose rows are gone.
    pub(crate) spent: Vec<(StepKey, Spent)>,
    /// The last moment of which anything is known, in milliseconds.
    last: u64,
    /// Keys whose rows no longer hold, with how they had ended.
    forgotten: HashMap<StepKey, Option<Completion>>,
    /// Keys that go on from where they were, as if they had not ended.
    reopened: HashMap<StepKey, Completion>,
    /// Timers that go on from where they were.
    delayed: HashSet<StepKey>,
}

/// What the caller gave a run, kept with it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Given {
    /// The object that the document's `inputs` describe.
    pub inputs: JsonText,
    /// What every step is to know.
    pub context: Option<String>,
    /// What else the caller wants to know again when the run goes on.
    #[serde(default)]
    pub kept: BTreeMap<String, String>,
}

impl Given {
    pub fn to_json(&self) -> String {
        // Texts and JSON always can be written.
        serde_json::to_string(self).unwrap_or_default()
    }

    pub fn of(stored: &StoredRun) -> Result<Given, JournalError> {
        read(&stored.run.inputs).map_err(|why| JournalError::Damaged {
            id: stored.run.id.clone(),
            seq: 0,
            why,
        })
    }
}

/// Of a row `scheduled`.
#[derive(Serialize, Deserialize)]
pub(crate) struct Scheduled {
    /// What was asked, as a hash.
    pub request: String,
}

/// Of a row `timer`.
#[derive(Clone, Copy, Serialize, Deserialize)]
pub(crate) struct Due {
    /// When it is over.
    pub at: Timestamp,
    /// How long it was to last.
    #[serde(default)]
    pub ms: u64,
}

/// A step that is run again although it had been run.
#[derive(Clone, Debug, PartialEq)]
pub struct Again {
    /// `each[3].inner`
    pub step_id: String,
    /// Whether it had ended, or was under way.
    pub ended: bool,
    /// What it had cost; of a step that was under way, only the tokens are known.
    pub spent: Spent,
}

impl Past {
    /// What a run goes on from.
    pub fn of(stored: &StoredRun) -> Result<Past, JournalError> {
        let mut past = Past::read(stored)?;
        past.try_again(stored.state);
        Ok(past)
    }

    /// Everything as it is written.
    pub(crate) fn read(stored: &StoredRun) -> Result<Past, JournalError> {
        let mut past = Past::default();
        for row in &stored.rows {
            let damaged =
                |why: String| JournalError::Damaged { id: stored.run.id.clone(), seq: row.seq, why };
            let entry = &row.entry;
            past.last = past.last.max(entry.at.0);
            if entry.kind == RowKind::Signal {
                // Rows of other names are somebody else's.
                if entry.key == Signal::ROW_KEY {
                    let signal = Signal::read(&entry.payload).map_err(|error| damaged(error.to_string()))?;
                    past.signals.push(signal);
                }
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
                    past.due.insert(key, read(&entry.payload).map_err(damaged)?);
                }
                RowKind::Clock => {
                    past.began.insert(key, read(&entry.payload).map_err(damaged)?);
                }
                RowKind::Asked => {
                    past.questions.insert(key, read(&entry.payload).map_err(damaged)?);
                }
                RowKind::Resolved => {
                    // The first stands.
                    past.resolved.entry(key).or_insert(read(&entry.payload).map_err(damaged)?);
                }
                RowKind::Spent => past.spent.push((key, read(&entry.payload).map_err(damaged)?)),
                _ => {
                    let completion: Completion = read(&entry.payload).map_err(damaged)?;
                    past.ended.insert(key, (row.seq, completion));
                }
            }
        }
        Ok(past)
    }

    /// Messages that stand in a conversation that holds.
    pub(crate) fn mail_told(&self) -> HashSet<String> {
        let mail = |record: &TurnRecord| match record {
            TurnRecord::UserMessage { mail, .. } => mail.clone(),
            _ => Vec::new(),
        };
        self.turns.values().flatten().flat_map(mail).collect()
    }

    pub(crate) fn completed_steps(&self) -> HashSet<String> {
        let done = |(_, (_, completion)): &(&StepKey, &(u64, Completion))| {
            matches!(completion.outcome, StepOutcome::Completed(_))
        };
        self.ended.iter().filter(done).map(|(key, _)| key.step_id()).collect()
    }

    /// How many steps need not be run again.
    pub fn completed(&self) -> usize {
        let done =
            |(_, completion): &&(u64, Completion)| matches!(completion.outcome, StepOutcome::Completed(_));
        self.ended.values().filter(done).count()
    }

    /// The outcome of a run all of whose steps have ended.
    pub fn outcome(&self, spec: &RunSpec) -> Option<WorkflowOutcome> {
        let mut spec = spec.clone();
        spec.before = total(&self.spent);
        let mut outcome = retell(&spec, self, &mut Everything)?;
        add_to_steps(&mut outcome, &self.spent);
        Some(outcome)
    }

    /// Keeps what another document asks for in the same words. What is left is run again, if it is run at all.
    pub fn fit(&mut self, spec: &RunSpec) -> Vec<Again> {
        let root = Arc::clone(&spec.workflow);
        let mut spec = spec.clone();
        // Whatever could have been started is looked at, however many are started at a time.
        spec.limits = RunLimits { max_concurrency: Some(u32::MAX), ..RunLimits::default() };
        Arc::make_mut(&mut spec.workflow).workflow.options.max_concurrency = None;
        spec.before = total(&self.spent);
        let mut same = Same { past: self, root: &root, keys: HashSet::new() };
        retell(&spec, self, &mut same);
        let kept = same.keys;
        let known: BTreeSet<StepKey> = self
            .ended
            .keys()
            .chain(self.asked.keys())
            .chain(self.due.keys())
            .chain(self.turns.keys())
            // The coordinator hears of any document.
            .filter(|key| !kept.contains(*key) && key.role() != Role::Coordinator)
            .filter(|key| !self.forgotten.contains_key(*key))
            .cloned()
            .collect();
        let parents = self.parents();
        let mut again: BTreeMap<String, Again> = BTreeMap::new();
        for key in known {
            let ended = self.ended.remove(&key).map(|(_, completion)| completion);
            let is_work = matches!(key.role(), Role::Work | Role::Judge) && !parents.contains(key.segments());
            let turns = self.turns.get(&key);
            if is_work && (ended.is_some() || turns.is_some()) {
                let step_id = key.step_id();
                let entry = again.entry(step_id.clone()).or_insert(Again {
                    step_id,
                    ended: false,
                    spent: Spent::default(),
                });
                entry.ended |= ended.is_some();
                entry.spent.add(&match (&ended, turns) {
                    (Some(completion), _) => spent_by(completion),
                    (None, Some(turns)) => cost_of(turns, &Models::default()),
                    (None, None) => Spent::default(),
                });
            }
            self.forget(key, ended);
        }
        again.into_values().collect()
    }

    fn forget(&mut self, key: StepKey, ended: Option<Completion>) {
        self.asked.remove(&key);
        self.due.remove(&key);
        self.began.remove(&key);
        self.questions.remove(&key);
        self.resolved.remove(&key);
        self.forgotten.insert(key, ended);
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
                (Role::Work, outcome) if self.questions.contains_key(key) => self.is_asked_anew(key, outcome),
                (Role::Work, StepOutcome::Failed { .. }) => !succeeded.contains(&any_attempt(key)),
                (Role::Work | Role::Judge, StepOutcome::Cancelled(_)) => true,
                (Role::Timeout, _) => true,
                _ => false,
            })
            .map(|(key, _)| key.clone())
            .collect();
        for key in again {
            let Some((_, completion)) = self.ended.remove(&key) else { continue };
            let own_doing = match &completion.outcome {
                StepOutcome::Failed { error, .. } => is_own_doing(error.class),
                _ => false,
            };
            // A question is asked anew, with all the time it has.
            if own_doing || key.role() != Role::Work || self.questions.contains_key(&key) {
                self.forget(key, Some(completion));
            } else {
                self.reopened.insert(key, completion);
            }
        }
        let timers: Vec<StepKey> = self
            .due
            .keys()
            .filter(|key| {
                let is_limit = matches!(key.role(), Role::Timeout | Role::JudgeTimeout | Role::Limit);
                is_limit && !self.ended.contains_key(key)
            })
            .cloned()
            .collect();
        for key in timers {
            // Time that was running when the run was stopped starts anew. After a crash it goes on: nobody worked since.
            if was_over || key.role() == Role::Limit {
                self.forget(key, None);
            } else {
                self.delayed.insert(key);
            }
        }
    }

    /// What the journal is to hold from now on, and what was paid for and no longer counts as done.
    pub(crate) fn settle(
        &mut self,
        models: &Models,
        entry: &dyn Fn(&StepKey, RowKind, String) -> Entry,
    ) -> Revision {
        let parents = self.parents();
        let mut lost: Vec<(StepKey, Spent)> = Vec::new();
        for (key, completion) in &self.forgotten {
            let spent = match (completion, self.turns.get(key)) {
                _ if parents.contains(key.segments()) => continue,
                (Some(completion), _) => spent_by(completion),
                (None, Some(turns)) => cost_of(turns, models),
                (None, None) => continue,
            };
            lost.push((key.clone(), spent));
        }
        for (key, completion) in &self.reopened {
            // Its turns are counted when they are gone through again; what others did for it is not among them.
            let turns = self.turns.get(key).map(|turns| cost_of(turns, models)).unwrap_or_default();
            if !parents.contains(key.segments()) {
                lost.push((key.clone(), beyond(&spent_by(completion), &turns)));
            }
        }
        lost.retain(|(_, spent)| *spent != Spent::default());
        lost.sort_by(|(left, _), (right, _)| left.cmp(right));
        let mut revision = Revision::default();
        for (key, spent) in &lost {
            let payload = serde_json::to_string(spent).unwrap_or_default();
            revision.append.push(entry(key, RowKind::Spent, payload));
        }
        let (now, last) = (Timestamp::now(), self.last);
        for key in &self.delayed {
            let Some(due) = self.due.get_mut(key) else { continue };
            due.at = Timestamp(now.0.saturating_add(due.at.0.saturating_sub(last)));
            let payload = serde_json::to_string(due).unwrap_or_default();
            revision.append.push(entry(key, RowKind::Timer, payload));
        }
        let gone = self.forgotten.keys().chain(&self.delayed);
        revision.forget = gone.map(StepKey::to_string).collect();
        revision.reopen = self.reopened.keys().map(StepKey::to_string).collect();
        self.forgotten.keys().for_each(|key| drop(self.turns.remove(key)));
        self.spent.extend(lost);
        revision
    }

    /// Steps inside which there are steps: what they cost is what those cost.
    fn parents(&self) -> HashSet<Vec<Segment>> {
        let keys = self.asked.keys().chain(self.ended.keys()).chain(self.forgotten.keys());
        keys.flat_map(|key| {
            let segments = key.segments();
            (1..segments.len()).map(|upto| segments[..upto].to_vec()).collect::<Vec<_>>()
        })
        .collect()
    }
}

/// What is asked for, as far as the answer may depend on it.
pub(crate) fn request_hash(root: &Arc<LoadedWorkflow>, request: &StepRequest) -> String {
    let agent = match request {
        StepRequest::Agent(request) => included(root, &request.agent.document)
            .zip(request.agent.name.as_deref())
            .and_then(|(document, name)| document.agents.get(name).cloned())
            .map(|agent| serde_json::to_string(&agent.spec).unwrap_or_default()),
        StepRequest::SubWorkflow(request) => {
            included(root, &request.document).map(|document| document.hash.clone())
        }
        StepRequest::Sleep { .. } | StepRequest::Approval(_) => None,
    };
    let text = serde_json::to_string(&(request, agent)).unwrap_or_default();
    digest(&SHA256, text.as_bytes()).as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Every ending counts.
struct Everything;

impl Listener for Everything {
    fn asked(&mut self, _key: &StepKey, _request: &StepRequest) -> bool {
        true
    }

    fn told(&mut self, _notice: &Notice, _at: Timestamp) {}
}

/// Endings count where the same is asked.
struct Same<'a> {
    past: &'a Past,
    root: &'a Arc<LoadedWorkflow>,
    keys: HashSet<StepKey>,
}

impl Listener for Same<'_> {
    fn asked(&mut self, key: &StepKey, request: &StepRequest) -> bool {
        let same = match request {
            StepRequest::Sleep { ms } => self.past.due.get(key).is_some_and(|due| due.ms == *ms),
            _ => self.past.asked.get(key).is_some_and(|asked| *asked == request_hash(self.root, request)),
        };
        if same {
            self.keys.insert(key.clone());
        }
        same
    }

    fn told(&mut self, _notice: &Notice, _at: Timestamp) {}

    /// What is inside one that is kept is kept.
    fn looks_inside(&self) -> bool {
        true
    }
}

/// Adds what is no longer part of a step to what it cost: it was paid for.
pub(crate) fn add_to_steps(outcome: &mut WorkflowOutcome, dropped: &[(StepKey, Spent)]) {
    for (key, spent) in dropped {
        let id = key.segments().get(1).map(Segment::id);
        if let Some((_, record)) = outcome.steps.iter_mut().find(|(step, _)| Some(step.as_str()) == id) {
            Arc::make_mut(record).spent.add(spent);
        }
    }
}

pub(crate) fn total(dropped: &[(StepKey, Spent)]) -> Spent {
    let mut total = Spent::default();
    dropped.iter().for_each(|(_, spent)| total.add(spent));
    total
}

pub(crate) fn spent_by(completion: &Completion) -> Spent {
    completion.outcome.output().map(|output| output.spent).unwrap_or_default()
}

/// What turns cost, by today's prices.
pub(crate) fn cost_of(turns: &[TurnRecord], models: &Models) -> Spent {
    let mut spent = Spent::default();
    for turn in turns {
        let TurnRecord::ModelTurn { model, usage, .. } = turn else { continue };
        let told = (*usage != Usage::default()).then_some(*usage);
        let cost = Cost::of(models.price(model), told);
        spent.add(&Spent { usage: *usage, cost_usd: cost.usd(), turns: 1 });
    }
    spent
}

/// What is in `whole` and not in `part`.
fn beyond(whole: &Spent, part: &Spent) -> Spent {
    let (left, right) = (whole.usage, part.usage);
    let usage = Usage {
        input: left.input.saturating_sub(right.input),
        output: left.output.saturating_sub(right.output),
        cache_read: left.cache_read.saturating_sub(right.cache_read),
        cache_write: left.cache_write.saturating_sub(right.cache_write),
        reasoning: left.reasoning.saturating_sub(right.reasoning),
        total: left.total.saturating_sub(right.total),
    };
    if usage == Usage::default() {
        return Spent::default();
    }
    let cost_usd = whole.cost_usd.zip(part.cost_usd).map(|(whole, part)| (whole - part).max(0.0));
    Spent { usage, cost_usd, turns: whole.turns.saturating_sub(part.turns) }
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

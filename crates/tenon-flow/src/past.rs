//! What the journal knows of a run: how its steps ended, what was asked, what was said.
//!
//! [`Past::of`] decides which of the old endings hold when a run goes on. One that crashed goes on with all of them. One
//! that had ended goes on as well: its failed steps are tried again, with the turns they had where the failure was not the
//! agent's own doing. With another document, [`Past::fit`] keeps what is asked for in the same words. What no longer
//! holds is removed from the journal in one commit; what it had cost stays ([`RowKind::Spent`]).

mod fit;
mod questions;
mod time;

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use serde::{Deserialize, Serialize};
use tenon_core::{Models, Timestamp, TurnRecord};

use crate::coordinator;
use crate::earlier::{Pause, Place, place_of, places_around};
use crate::journal::{Entry, JournalError, Revision, RowKind, RunState, StoredRun};
use crate::paid::{GivenUp, add_to_steps, beyond, cost_of, in_all_attempts, inside, spent_by, total};
use crate::retell::{Counts, Listener, retell};
use crate::signal::{self, Signal};
use crate::{
    Completion, Coordinated, JsonText, Notice, Pauses, Question, Resolution, Role, RunSpec, Segment, Spent,
    StepError, StepErrorClass, StepKey, StepOutcome, StepRequest, WorkflowOutcome, WorkflowStatus, turn_rows,
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
    /// When nobody ran it.
    pub(crate) pauses: Pauses,
    /// How long nobody worked on a step while others were worked on.
    idle: HashMap<Place, u64>,
    /// When steps and what is around them were begun, and when anything was last heard of them.
    begun: HashMap<Place, Timestamp>,
    touched: HashMap<Place, Timestamp>,
    /// What had failed before the run ended, and is tried again.
    resting: BTreeSet<Place>,
    /// Keys whose rows no longer hold, with how they had ended.
    forgotten: HashMap<StepKey, Option<Completion>>,
    /// Keys that go on from where they were, as if they had not ended.
    reopened: HashMap<StepKey, Completion>,
    /// Timers that go on from where they were.
    delayed: HashSet<StepKey>,
    /// What the document of before did not have, and after which something was done.
    assumed: Vec<Completion>,
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

/// Work of a step that another document does not keep.
#[derive(Clone, Debug, PartialEq)]
pub struct NotKept {
    /// `each[3].inner`
    pub step_id: String,
    pub was: Was,
    pub wanted: Wanted,
    /// What it had cost; of a step that was under way, only the tokens are known.
    pub spent: Spent,
}

/// How far a step had come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Was {
    UnderWay,
    Ended,
    /// A question to a person, answered or out of time.
    Settled,
}

/// Whether the step is asked for again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// It is, or whether it is depends on what is not known yet.
    Again,
    /// What it stands in is over without it: a round too many, an item that is gone, a condition that does not hold.
    NoMore,
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
        let mut past = Past { last: stored.seen.0, ..Past::default() };
        // What marks a run as cancelled need not be who ran it.
        if matches!(stored.state, RunState::Ended(status) if status != WorkflowStatus::Cancelled) {
            past.last = past.last.max(stored.updated.0);
        }
        let mut idle: Vec<(StepKey, Pause)> = Vec::new();
        for row in &stored.rows {
            let damaged =
                |why: String| JournalError::Damaged { id: stored.run.id.clone(), seq: row.seq, why };
            let entry = &row.entry;
            // People answer when nobody runs the run, too; and what goes on is tidied up before anybody works.
            if !matches!(entry.kind, RowKind::Resolved | RowKind::Paused | RowKind::Spent) {
                past.last = past.last.max(entry.at.0);
            }
            if entry.kind == RowKind::Signal {
                // Rows of other names are somebody else's.
                if entry.key == Signal::ROW_KEY {
                    let signal = Signal::read(&entry.payload).map_err(|error| damaged(error.to_string()))?;
                    past.signals.push(signal);
                }
                continue;
            }
            let key: StepKey = entry.key.parse().map_err(|error| damaged(format!("{error}")))?;
            past.hear(&key, entry);
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
                RowKind::Paused => {
                    let pause: Pause = read(&entry.payload).map_err(damaged)?;
                    match key.segments().len() {
                        1 => past.pauses.add(pause),
                        _ => idle.push((key, pause)),
                    }
                }
                _ => {
                    let completion: Completion = read(&entry.payload).map_err(damaged)?;
                    // What it cost to make the document is no step's.
                    if key.role() == Role::Plan && entry.kind == RowKind::Completed {
                        past.spent.push((key, spent_by(&completion)));
                    } else {
                        past.ended.insert(key, (row.seq, completion));
                    }
                }
            }
        }
        for (key, Pause { from, until }) in idle {
            *past.idle.entry(place_of(&key)).or_default() += past.pauses.between(from, until);
        }
        Ok(past)
    }

    /// Messages that stand in a conversation that holds.
    pub(crate) fn mail_told(&self) -> HashSet<String> {
        self.turns.values().flat_map(|turns| signal::mail_told(turns)).collect()
    }

    pub(crate) fn completed_steps(&self) -> HashSet<String> {
        let done = |(key, (_, completion)): &(&StepKey, &(u64, Completion))| {
            is_of_step(key) && matches!(completion.outcome, StepOutcome::Completed(_))
        };
        self.ended.iter().filter(done).map(|(key, _)| key.step_id()).collect()
    }

    /// How many steps need not be run again.
    pub fn completed(&self) -> usize {
        let parents = self.parents();
        let steps = self.ended.iter().filter(|(key, (_, completion))| {
            is_of_step(key)
                && !parents.contains(key.segments())
                && matches!(completion.outcome, StepOutcome::Completed(_))
        });
        steps.map(|(key, _)| key.step_id()).collect::<HashSet<String>>().len()
    }

    /// Steps that go on where they were cut off, with turns that are not asked for again.
    pub fn cut_off(&self) -> Vec<String> {
        let under_way = self.turns.iter().filter(|(key, turns)| {
            let is_open = !self.ended.contains_key(*key) && !self.forgotten.contains_key(*key);
            is_of_step(key) && is_open && has_answers(turns)
        });
        under_way.map(|(key, _)| key.step_id()).collect::<BTreeSet<String>>().into_iter().collect()
    }

    /// What the coordinator came to, if there was one.
    pub(crate) fn coordinated(&self, run_id: &str) -> Option<Coordinated> {
        let turns = self.turns.get(&coordinator::key(run_id))?;
        let summary = self.signals.iter().rev().find_map(|signal| match signal {
            Signal::Finalized { summary } => Some(summary.clone()),
            _ => None,
        });
        let paid = self.signals.iter().rev().find_map(|signal| match signal {
            Signal::CoordinatorPaid { spent } => Some(*spent),
            _ => None,
        });
        let spent = paid.unwrap_or_else(|| cost_of(turns, &Models::default()));
        Some(Coordinated { summary, spent })
    }

    /// What attempts had cost that were given up, by step.
    pub(crate) fn given_up(&self) -> GivenUp {
        GivenUp::of(&self.spent)
    }

    /// What has been paid for inside what has not ended.
    pub(crate) fn paid_inside(&self, key: &StepKey, models: &Models) -> Spent {
        inside(self, key, models)
    }

    /// The same, over all attempts at it.
    pub(crate) fn paid_in_all_attempts(&self, key: &StepKey, models: &Models) -> Spent {
        in_all_attempts(self, key, models)
    }

    /// The outcome of a run all of whose steps have ended.
    pub fn outcome(&self, spec: &RunSpec) -> Option<WorkflowOutcome> {
        let mut spec = spec.clone();
        spec.before = total(&self.spent);
        let outcome = retell(&spec, self, &mut Everything)?;
        Some(self.with_the_rest(outcome, &spec))
    }

    /// With what no step tells: the coordinator, and what was given up.
    pub(crate) fn with_the_rest(&self, mut outcome: WorkflowOutcome, spec: &RunSpec) -> WorkflowOutcome {
        add_to_steps(&mut outcome, &self.spent);
        let run_id = spec.place.segments().first().map(Segment::id).unwrap_or_default();
        if let Some(coordinated) = self.coordinated(run_id) {
            outcome.spent.add(&coordinated.spent);
            outcome.coordinator = Some(coordinated);
        }
        outcome
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
        let (latest, parents) = (self.latest_attempts(), self.parents());
        let again: Vec<StepKey> = self
            .ended
            .iter()
            .filter(|(key, (_, completion))| match (key.role(), &completion.outcome) {
                // What the caller allows is said anew each time.
                (Role::Limit, _) => true,
                _ if !was_over => false,
                // What is around it was tried again since: that is where the run goes on.
                _ if is_of_earlier_attempt(key, &latest, &parents) => false,
                (Role::Work, outcome) if self.questions.contains_key(key) => self.is_asked_anew(key, outcome),
                (Role::Plan, _) => true,
                (Role::Work, StepOutcome::Failed { .. }) => !succeeded.contains(&any_attempt(key)),
                (Role::Work | Role::Judge, StepOutcome::Cancelled(_)) => true,
                (Role::Timeout, _) => true,
                _ => false,
            })
            .map(|(key, _)| key.clone())
            .collect();
        for key in again {
            let Some((_, completion)) = self.ended.remove(&key) else { continue };
            if is_of_step(&key) {
                self.resting.extend(places_around(&key));
            }
            let own_doing = match &completion.outcome {
                StepOutcome::Failed { error, .. } => is_own_doing(error),
                _ => false,
            };
            // A question is asked anew, with all the time it has.
            let is_kept = matches!(key.role(), Role::Work | Role::Plan) && !self.questions.contains_key(&key);
            // What has steps inside goes on with those.
            if !is_kept || (own_doing && !parents.contains(key.segments())) {
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

    /// How often everything was tried that has steps inside, or a time limit.
    pub(crate) fn latest_attempts(&self) -> HashMap<Vec<Segment>, u32> {
        let mut latest = HashMap::new();
        for key in self.asked.keys().chain(self.ended.keys()).chain(self.due.keys()) {
            let segments = key.segments();
            for upto in 1..=segments.len() {
                let tried = latest.entry(first_attempt(&segments[..upto])).or_insert(1);
                *tried = segments[upto - 1].of_attempt().max(*tried);
            }
        }
        latest
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
                _ if is_of_step(key) && parents.contains(key.segments()) => continue,
                (Some(completion), _) => spent_by(completion),
                (None, Some(turns)) => cost_of(turns, models),
                (None, None) => continue,
            };
            lost.push((key.clone(), spent));
        }
        for (key, completion) in &self.reopened {
            // Its turns are counted when they are gone through again; what others did for it is not among them.
            let turns = self.turns.get(key).map(|turns| cost_of(turns, models)).unwrap_or_default();
            if key.role() == Role::Plan || !parents.contains(key.segments()) {
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
        for completion in &self.assumed {
            let payload = serde_json::to_string(completion).unwrap_or_default();
            revision.append.push(entry(&completion.key, RowKind::Completed, payload));
        }
        let gone = self.forgotten.keys().chain(&self.delayed);
        revision.forget = gone.map(StepKey::to_string).collect();
        revision.reopen = self.reopened.keys().map(StepKey::to_string).collect();
        self.forgotten.keys().for_each(|key| drop(self.turns.remove(key)));
        self.spent.extend(lost);
        revision
    }

    /// Steps inside which there are steps: what they cost is what those cost.
    pub(crate) fn parents(&self) -> HashSet<Vec<Segment>> {
        let keys = self.asked.keys().chain(self.ended.keys()).chain(self.forgotten.keys());
        keys.flat_map(|key| {
            let segments = key.segments();
            (1..segments.len()).map(|upto| segments[..upto].to_vec()).collect::<Vec<_>>()
        })
        .collect()
    }
}

/// Every ending counts.
struct Everything;

impl Listener for Everything {
    fn asked(&mut self, _key: &StepKey, _request: &StepRequest) -> Counts {
        Counts::Yes
    }

    fn told(&mut self, _notice: &Notice, _at: Timestamp) {}
}

/// Whether anything was paid for.
fn has_answers(turns: &[TurnRecord]) -> bool {
    turns.iter().any(|turn| matches!(turn, TurnRecord::ModelTurn { .. } | TurnRecord::Besides { .. }))
}

/// Whether it is a step's own work, or its judge's.
fn is_of_step(key: &StepKey) -> bool {
    matches!(key.role(), Role::Work | Role::Judge)
}

/// The way to a step, whichever attempt.
fn any_attempt(key: &StepKey) -> Vec<Segment> {
    first_attempt(key.segments())
}

pub(crate) fn first_attempt(segments: &[Segment]) -> Vec<Segment> {
    let mut segments = segments.to_vec();
    if let Some(last) = segments.pop() {
        segments.push(last.attempt(1));
    }
    segments
}

/// Whether a loop's turn or an include was tried again later that the key is, or is inside of.
fn is_of_earlier_attempt(
    key: &StepKey,
    latest: &HashMap<Vec<Segment>, u32>,
    parents: &HashSet<Vec<Segment>>,
) -> bool {
    let is_own = key.role() == Role::Work
        && parents.contains(key.segments())
        && is_tried_again(key.segments(), latest);
    is_own || is_tried_again_around(key, latest)
}

/// Whether something around it was.
pub(crate) fn is_tried_again_around(key: &StepKey, latest: &HashMap<Vec<Segment>, u32>) -> bool {
    let segments = key.segments();
    (1..segments.len()).any(|upto| is_tried_again(&segments[..upto], latest))
}

fn is_tried_again(segments: &[Segment], latest: &HashMap<Vec<Segment>, u32>) -> bool {
    let attempt = segments.last().map_or(1, Segment::of_attempt);
    latest.get(&first_attempt(segments)).is_some_and(|tried| *tried > attempt)
}

/// Failures that the same turns would only lead to again.
fn is_own_doing(error: &StepError) -> bool {
    // A server that failed, and may not the next time.
    let is_passing = error.class == StepErrorClass::Protocol && error.retryable == Some(true);
    let is_elsewhere = matches!(
        error.class,
        StepErrorClass::Auth
            | StepErrorClass::Budget
            | StepErrorClass::RateLimited
            | StepErrorClass::Overloaded
            | StepErrorClass::Network
            | StepErrorClass::Interrupted
            | StepErrorClass::Timeout
    );
    !is_passing && !is_elsewhere
}

fn read<'a, T: Deserialize<'a>>(payload: &'a str) -> Result<T, String> {
    serde_json::from_str(payload).map_err(|error| error.to_string())
}

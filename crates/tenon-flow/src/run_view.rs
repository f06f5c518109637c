//! A run as its journal tells it, put together for looking at: `tenon flow show`, a page, a program.
//!
//! [`RunView::of`] takes what [`Journal::load`](crate::Journal::load) gives and returns, in this order of containment:
//!
//! - [`RunView`]: the run. Its document (loaded from what the run holds, so a drawing can be made of it), state, times,
//!   what the caller gave, what everything cost, and the outcome once every step is over.
//! - [`RunStep`]: one step of the document, or a round, an item or a step inside a loop or an include, right after what it is
//!   inside of and otherwise in the order in which they started; then the document's steps that have not. Its `record` has content, result, error and cost when it is over.
//! - [`AttemptView`]: one run of the step's agent, with the prompt. A loop and an include have none of their own.
//! - [`TurnView`] and [`CallView`]: what the model said and what its tools gave.
//! - [`TalkView`]: messages, the shared memory and the coordinator (`run_talk.rs`).
//!
//! `prompt`, `text`, `arguments`, `result`, `content`, `context` and `inputs` are payloads: whoever shows a view leaves them
//! out unless asked for them. Errors and names are not.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::Path;
use std::sync::Arc;

use tenon_core::{Origin, Timestamp, TurnRecord, Usage};

use crate::addressee::around as around_id;
use crate::goal_log::{self, Stage};
use crate::journal::{JournalError, KeptQuestion, RowKind, RunState, StoredRun};
use crate::paid::{Place, around, of_loop, plain, spent_by, total};
use crate::past::Past;
use crate::retell::{Counts, Listener, retell};
use crate::run_talk::TalkView;
use crate::{
    AtOnce, Given, LoadError, LoadOptions, LoadedWorkflow, Notice, Pauses, Pinned, Role, RunLimits, RunSpec,
    Segment, Spent, Started, StepError, StepKey, StepKind, StepOutcome, StepRecord, StepRequest, StepStatus,
    WorkflowOutcome, load_pinned, load_text, turn_rows,
};

type AttemptsByPlace = BTreeMap<Place, Vec<AttemptView>>;

/// A run.
#[derive(Clone, Debug)]
pub struct RunView {
    pub id: String,
    /// The workflow's name.
    pub name: String,
    pub state: RunState,
    pub created: Timestamp,
    pub updated: Timestamp,
    /// The folder it works in.
    pub cwd: String,
    pub given: Given,
    /// While it is being planned, one with the one step `plan`.
    pub document: Arc<LoadedWorkflow>,
    /// How the document came about, if a model made it for this run.
    pub planning: Option<AttemptView>,
    pub steps: Vec<RunStep>,
    /// What its agents told each other.
    pub talk: TalkView,
    /// Everything that was paid for, attempts that were given up included. The cost of turns of a step that is not over is
    /// not known here, so that it is `None` as long as there is one.
    pub spent: Spent,
    /// What people were asked, the oldest first.
    pub questions: Vec<KeptQuestion>,
    /// Once every step is over.
    pub outcome: Option<WorkflowOutcome>,
    /// When nobody ran it.
    pub pauses: Pauses,
}

/// A step, a round or an item of a loop, or a judge.
#[derive(Clone, Debug)]
pub struct RunStep {
    /// `each[3].inner`
    pub id: String,
    /// Of the first attempt.
    pub key: StepKey,
    /// The key of the document's `agents`.
    pub agent: Option<String>,
    pub kind: StepKind,
    pub status: ViewStatus,
    pub started: Option<Timestamp>,
    pub ended: Option<Timestamp>,
    /// When it is over: content, result, error, how often it was tried, why it did not run.
    pub record: Option<Arc<StepRecord>>,
    /// What it cost, as far as it is known, with everything inside it.
    pub spent: Spent,
    /// In their order.
    pub attempts: Vec<AttemptView>,
}

/// How a step stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ViewStatus {
    /// It has not started.
    Waiting,
    /// Somebody runs it.
    Running,
    /// It had started when the run was stopped or died.
    Unfinished,
    /// A person is asked.
    Suspended,
    Ended(StepStatus),
}

impl ViewStatus {
    pub fn name(self) -> &'static str {
        match self {
            ViewStatus::Waiting => "waiting",
            ViewStatus::Running => "running",
            ViewStatus::Unfinished => "unfinished",
            ViewStatus::Suspended => "suspended",
            ViewStatus::Ended(status) => status.name(),
        }
    }
}

/// One run of an agent.
#[derive(Clone, Debug)]
pub struct AttemptView {
    pub key: StepKey,
    /// From 1.
    pub number: u32,
    pub started: Timestamp,
    pub ended: Option<Timestamp>,
    /// What the agent was told.
    pub prompt: Option<String>,
    pub turns: Vec<TurnView>,
    /// Why it failed.
    pub error: Option<StepError>,
    /// By the journal when it is over, else by its turns.
    pub spent: Spent,
}

/// One answer of a model.
#[derive(Clone, Debug)]
pub struct TurnView {
    /// When the answer was complete.
    pub at: Timestamp,
    pub model: String,
    pub text: String,
    pub usage: Usage,
    pub calls: Vec<CallView>,
}

#[derive(Clone, Debug)]
pub struct CallView {
    pub id: String,
    pub name: String,
    pub arguments: String,
    /// None for a call that never ran: the contract's own, one that was refused.
    pub started: Option<Timestamp>,
    pub ended: Option<Timestamp>,
    pub result: Option<String>,
    pub is_error: bool,
}

impl RunView {
    pub fn of(stored: &StoredRun) -> Result<RunView, JournalError> {
        let run = &stored.run;
        let damaged = |why: String| JournalError::Damaged { id: run.id.clone(), seq: 0, why };
        let given = Given::of(stored)?;
        let past = Past::read(stored)?;
        let mut attempts = attempts(stored, &past)?;
        let stage = Stage::of(stored);
        let planning = planning(&run.id, &mut attempts, &past, stage);
        let document = match stage {
            Stage::Planning => being_planned(),
            Stage::Planned | Stage::Begun => {
                let pinned = Pinned::from_json(&run.document).map_err(|error| damaged(error.to_string()))?;
                load_pinned(&pinned, &LoadOptions::default())
            }
        };
        let document = Arc::new(document.map_err(|error| damaged(error.to_string()))?);
        let coordinator = (vec![Segment::new(&run.id)], Role::Coordinator);
        let coordinator = attempts.remove(&coordinator).and_then(|mut attempts| attempts.pop());
        let talk = TalkView::of(stored, &document, coordinator)?;
        let mut spec = RunSpec::new(Arc::clone(&document), &run.id, given.inputs.clone());
        spec.limits = RunLimits { max_concurrency: Some(u32::MAX), ..RunLimits::default() };
        spec.before = total(&past.spent);
        let mut seen = Seen { known: known(stored), ..Seen::default() };
        let outcome = retell(&spec, &past, &mut seen).map(|outcome| past.with_the_rest(outcome, &spec));
        if outcome.is_none() {
            // How many ran side by side may have been more than are allowed now.
            spec.at_once = AtOnce::Everything;
            seen = Seen { known: seen.known, ..Seen::default() };
            retell(&spec, &past, &mut seen);
        }
        let mut spent = total(&past.spent);
        attempts.values().flatten().for_each(|attempt| spent.add(&attempt.spent));
        talk.coordinator.iter().for_each(|coordinator| spent.add(&coordinator.spent));
        let mut steps = seen.into_steps(stored.state, attempts, &past.spent);
        waiting(&document, &run.id, &mut steps);
        if let (Stage::Planning, Some(planning), [step]) = (stage, &planning, steps.as_mut_slice()) {
            spent.add(&planning.spent);
            step.status = match (&planning.error, stored.state) {
                (Some(_), _) => ViewStatus::Ended(StepStatus::Failed),
                (None, RunState::Running) => ViewStatus::Running,
                (None, RunState::Interrupted | RunState::Ended(_)) => ViewStatus::Unfinished,
            };
            (step.started, step.ended, step.spent) = (Some(planning.started), planning.ended, planning.spent);
            step.attempts = vec![planning.clone()];
        }
        group(&mut steps);
        let questions = past.all_questions();
        suspended(&questions, stored.state, &mut steps);
        Ok(RunView {
            id: run.id.clone(),
            name: run.name.clone(),
            state: stored.state,
            created: stored.created,
            updated: stored.updated,
            cwd: run.cwd.clone(),
            given,
            document,
            planning,
            steps,
            talk,
            spent,
            questions,
            outcome,
            pauses: past.pauses,
        })
    }

    /// What the run waits for.
    pub fn open_questions(&self) -> impl Iterator<Item = &KeptQuestion> {
        let hears = self.state.hears_answers();
        self.questions.iter().filter(move |kept| hears && kept.is_open())
    }

    /// The document's own steps, without what is inside loops and includes.
    pub fn top(&self) -> impl Iterator<Item = &RunStep> {
        self.steps.iter().filter(|step| step.depth() == 0)
    }
}

impl RunStep {
    /// How long was worked on it, in milliseconds, when that is over.
    pub fn took_ms(&self) -> Option<u64> {
        let record = self.record.as_ref().filter(|_| self.started.is_some() && self.ended.is_some())?;
        Some(record.duration_ms)
    }

    /// How many loops and includes are around it. A round, an item or a judge of a loop is inside the loop.
    pub fn depth(&self) -> usize {
        let segments = self.key.segments();
        let last = segments.last();
        let is_part = self.key.role() == Role::Judge
            || last.is_some_and(|last| last.of_iteration().is_some() || last.of_item().is_some());
        segments.len().saturating_sub(2) + usize::from(is_part)
    }
}

/// Takes the planner's turns out of what steps did.
fn planning(run_id: &str, attempts: &mut AttemptsByPlace, past: &Past, stage: Stage) -> Option<AttemptView> {
    let key = goal_log::key(run_id);
    let mut planning = attempts.remove(&(plain(key.segments()), Role::Plan))?.pop()?;
    let whole = past.spent.iter().rfind(|(other, _)| *other == key).filter(|_| stage != Stage::Planning);
    if let Some((_, spent)) = whole {
        planning.spent = *spent;
    }
    Some(planning)
}

/// What stands for the document of a run that has none yet.
fn being_planned() -> Result<LoadedWorkflow, LoadError> {
    let text = "name: goal\nsteps:\n  - { id: plan, instructions: Plan. }\n";
    load_text(text, Path::new("goal.yaml"), Path::new("/"), &LoadOptions::default())
}

/// Every place of which there is a row, and everything around it.
fn known(stored: &StoredRun) -> HashSet<Vec<Segment>> {
    let keys = stored.rows.iter().filter_map(|row| row.entry.key.parse::<StepKey>().ok());
    keys.flat_map(|key| {
        let segments = key.segments();
        (1..=segments.len()).map(|upto| plain(&segments[..upto])).collect::<Vec<_>>()
    })
    .collect()
}

/// What the interpreter says once more.
#[derive(Default)]
struct Seen {
    known: HashSet<Vec<Segment>>,
    steps: Vec<RunStep>,
    places: HashMap<Place, usize>,
}

impl Seen {
    fn at(&mut self, key: &StepKey, agent: Option<String>, kind: StepKind) -> &mut RunStep {
        let place = (plain(key.segments()), key.role());
        let index = *self.places.entry(place).or_insert_with(|| {
            self.steps.push(RunStep {
                id: key.step_id(),
                key: key.clone(),
                agent,
                kind,
                status: ViewStatus::Waiting,
                started: None,
                ended: None,
                record: None,
                spent: Spent::default(),
                attempts: Vec::new(),
            });
            self.steps.len() - 1
        });
        &mut self.steps[index]
    }

    fn has_rows(&self, key: &StepKey, kind: &StepKind) -> bool {
        let place = plain(key.segments());
        match kind {
            // A loop has no row of its own; its rounds have.
            StepKind::Repeat { .. } | StepKind::ForEach { .. } => {
                self.known.iter().any(|known| known.len() == place.len() && of_loop(known) == place)
            }
            StepKind::Agent | StepKind::Include { .. } | StepKind::Approval => self.known.contains(&place),
        }
    }

    fn into_steps(
        self,
        state: RunState,
        mut attempts: AttemptsByPlace,
        dropped: &[(StepKey, Spent)],
    ) -> Vec<RunStep> {
        let mut steps = self.steps;
        let mut costs: HashMap<Place, Spent> = HashMap::new();
        let now = attempts.values().flatten().map(|attempt| (&attempt.key, attempt.spent));
        for (key, spent) in now.chain(dropped.iter().map(|(key, spent)| (key, *spent))) {
            around(key).into_iter().for_each(|place| costs.entry(place).or_default().add(&spent));
        }
        for step in &mut steps {
            let place = (plain(step.key.segments()), step.key.role());
            step.spent = costs.get(&place).copied().unwrap_or_default();
            step.attempts = attempts.remove(&place).unwrap_or_default();
            if let Some(first) = step.attempts.first() {
                step.started = Some(first.started);
            }
            if step.status == ViewStatus::Waiting && step.started.is_some() {
                step.status = match state {
                    RunState::Running => ViewStatus::Running,
                    RunState::Interrupted | RunState::Ended(_) => ViewStatus::Unfinished,
                };
            }
        }
        steps
    }
}

impl Listener for Seen {
    fn looks_inside(&self) -> bool {
        true
    }

    fn asked(&mut self, _key: &StepKey, _request: &StepRequest) -> Counts {
        Counts::Yes
    }

    fn told(&mut self, notice: &Notice, at: Timestamp) {
        match notice {
            Notice::Started(Started { key, agent, kind, .. }) => {
                // More is ready than was started: then it waits.
                if self.has_rows(key, kind) {
                    self.at(key, agent.clone(), kind.clone()).started = Some(at);
                }
            }
            Notice::Ended { key, agent, record } => {
                let step = self.at(key, agent.clone(), StepKind::Agent);
                step.status = ViewStatus::Ended(record.status);
                step.ended = Some(at);
                step.record = Some(Arc::clone(record));
            }
            Notice::NotRun { key, agent, record, .. } => {
                let step = self.at(key, agent.clone(), StepKind::Agent);
                step.status = ViewStatus::Ended(record.status);
                step.record = Some(Arc::clone(record));
            }
            Notice::Retrying { .. }
            | Notice::Restored { .. }
            | Notice::Progress { .. }
            | Notice::Asked { .. }
            | Notice::JudgeFailed { .. } => {}
        }
    }
}

/// What is inside a loop or an include comes right after it, in the order in which it started.
fn group(steps: &mut [RunStep]) {
    let mut first: HashMap<String, usize> = HashMap::new();
    for (position, step) in steps.iter().enumerate() {
        for id in around_id(&step.id) {
            first.entry(id.to_owned()).or_insert(position);
        }
    }
    steps.sort_by_cached_key(|step| {
        around_id(&step.id).filter_map(|id| first.get(id).copied()).collect::<Vec<_>>()
    });
}

/// Steps that ask somebody say so, as long as anybody listens.
fn suspended(questions: &[KeptQuestion], state: RunState, steps: &mut [RunStep]) {
    for kept in questions.iter().filter(|kept| state.hears_answers() && kept.is_open()) {
        let place = plain(kept.key.segments());
        if let Some(step) = steps.iter_mut().find(|step| plain(step.key.segments()) == place) {
            step.status = ViewStatus::Suspended;
        }
    }
}

/// The document's steps of which nothing is known, at the end.
fn waiting(document: &LoadedWorkflow, run_id: &str, steps: &mut Vec<RunStep>) {
    for step in &document.steps {
        if steps.iter().any(|known| known.id == step.id) {
            continue;
        }
        steps.push(RunStep {
            id: step.id.clone(),
            key: StepKey::run(run_id).child(Segment::new(&step.id)),
            agent: step.spec.agent.clone(),
            kind: StepKind::Agent,
            status: ViewStatus::Waiting,
            started: None,
            ended: None,
            record: None,
            spent: Spent::default(),
            attempts: Vec::new(),
        });
    }
}

/// What agents did, by step.
fn attempts(stored: &StoredRun, past: &Past) -> Result<AttemptsByPlace, JournalError> {
    let mut attempts: BTreeMap<StepKey, AttemptView> = BTreeMap::new();
    for row in &stored.rows {
        let damaged = |why: String| JournalError::Damaged { id: stored.run.id.clone(), seq: row.seq, why };
        let entry = &row.entry;
        let Ok(key) = entry.key.parse::<StepKey>() else { continue };
        if entry.kind == RowKind::Told && !attempts.contains_key(&key) {
            let number = key.attempt();
            attempts.insert(
                key.clone(),
                AttemptView {
                    key: key.clone(),
                    number,
                    started: entry.at,
                    ended: None,
                    prompt: None,
                    turns: Vec::new(),
                    error: None,
                    spent: Spent::default(),
                },
            );
        }
        let Some(attempt) = attempts.get_mut(&key) else { continue };
        if let Some(record) = turn_rows::read(entry) {
            attempt.see(record.map_err(damaged)?, entry.at);
        }
    }
    let mut by_step = AttemptsByPlace::new();
    for (key, mut attempt) in attempts {
        if let Some((_, completion)) = past.ended.get(&key) {
            attempt.ended = Some(completion.at);
            attempt.spent = spent_by(completion);
            if let StepOutcome::Failed { error, .. } = &completion.outcome {
                attempt.error = Some(error.clone());
            }
        }
        by_step.entry((plain(key.segments()), key.role())).or_default().push(attempt);
    }
    by_step.values_mut().for_each(|attempts| attempts.sort_by_key(|attempt| attempt.number));
    Ok(by_step)
}

impl AttemptView {
    fn see(&mut self, record: TurnRecord, at: Timestamp) {
        match record {
            TurnRecord::UserMessage { message, origin: Origin::Prompt, .. } if self.prompt.is_none() => {
                self.prompt = Some(message.text());
            }
            TurnRecord::ModelTurn { model, message, usage, .. } => {
                let calls = message.tool_calls().map(|call| CallView {
                    id: call.id.clone(),
                    name: call.name.clone(),
                    arguments: call.arguments.clone(),
                    started: None,
                    ended: None,
                    result: None,
                    is_error: false,
                });
                let (calls, text) = (calls.collect(), message.text());
                self.turns.push(TurnView { at, model, text, usage, calls });
                // What it cost is known when the attempt is over.
                self.spent.add(&Spent { usage, cost_usd: None, turns: 1 });
            }
            TurnRecord::ToolStarted { call_id, .. } => {
                if let Some(call) = self.call(&call_id) {
                    call.started = Some(at);
                }
            }
            TurnRecord::ToolFinished { result, .. } => {
                if let Some(call) = self.call(&result.call_id) {
                    call.ended = Some(at);
                    call.is_error = result.is_error;
                    call.result = Some(result.content);
                }
            }
            TurnRecord::Besides { usage, .. } => self.spent.add(&Spent { usage, cost_usd: None, turns: 1 }),
            TurnRecord::UserMessage { .. }
            | TurnRecord::Compacted { .. }
            | TurnRecord::Stopped { .. }
            | TurnRecord::Withdrawn => {}
        }
    }

    fn call(&mut self, id: &str) -> Option<&mut CallView> {
        self.turns.iter_mut().rev().flat_map(|turn| &mut turn.calls).find(|call| call.id == id)
    }
}

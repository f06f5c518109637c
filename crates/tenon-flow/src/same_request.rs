//! Is the same asked for as before? Which endings of a run hold when it goes on with another document (`past.rs`).
//!
//! What counts is what an answer may depend on: the words, what came before, the agent. How many steps run at a time, how long
//! they may take, how long is waited in between, how often anything is repeated, what anything is described as and what it cost
//! does not. An included workflow is the same when everything in it is, and comes to the same; where it is not, what is the same in it
//! is kept all the same.
//!
//! | what had ended | holds, if the same is asked |
//! |---|---|
//! | an agent | always, but one that was out of turns, or out of a time that is another one now, goes on |
//! | a pause | whatever it lasted; one that was not there then has passed when something came after it |
//! | a time limit | while it is the same limit |
//! | a question to a person | while the words and the data are the same; the answer is read by the document of now |
//! | anything in an attempt that something was tried again after | always: it is history, and what was not there then stays out of it |

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use ring::digest::{SHA256, digest};
use tenon_core::Timestamp;

use crate::addressee::is_or_is_inside;
use crate::document::AgentSpec;
use crate::interpreter::includes::as_step;
use crate::past::{Past, Wanted, first_attempt, is_tried_again_around};
use crate::retell::{Counts, Document, Listener};
use crate::{
    AgentRequest, ApprovalRequest, Completion, Decision, LoadedWorkflow, Notice, Role, Segment, Spent,
    StepErrorClass, StepKey, StepOutcome, StepOutput, StepRecord, StepRequest, SubWorkflowRequest, Upstream,
    WorkflowOutcome, approval, included,
};

/// What is asked for, as far as the answer may depend on it.
pub(crate) fn request_hash(root: &Arc<LoadedWorkflow>, request: &StepRequest) -> String {
    let agent = match request {
        StepRequest::Agent(request) => included(root, &request.agent.document)
            .zip(request.agent.name.as_deref())
            .and_then(|(document, name)| document.agents.get(name).cloned())
            .map(|agent| serde_json::to_string(&words_of(&agent.spec)).unwrap_or_default()),
        StepRequest::SubWorkflow(_) | StepRequest::Sleep { .. } | StepRequest::Approval(_) => None,
    };
    let text = serde_json::to_string(&(essence(request), agent)).unwrap_or_default();
    digest(&SHA256, text.as_bytes()).as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Without what no model is told, and what only ends a step.
fn words_of(agent: &AgentSpec) -> AgentSpec {
    AgentSpec { description: String::new(), max_turns: 0, ..agent.clone() }
}

/// Without what nobody's answer depends on.
fn essence(request: &StepRequest) -> StepRequest {
    match request {
        StepRequest::Agent(request) => StepRequest::Agent(Box::new(AgentRequest {
            upstream: timeless(&request.upstream),
            outer: timeless(&request.outer),
            transport_retries: None,
            ..(**request).clone()
        })),
        StepRequest::SubWorkflow(request) => StepRequest::SubWorkflow(Box::new(SubWorkflowRequest {
            outer: timeless(&request.outer),
            transport_retries: None,
            spent_before: Spent::default(),
            ..(**request).clone()
        })),
        StepRequest::Sleep { ms } => StepRequest::Sleep { ms: *ms },
        StepRequest::Approval(request) => StepRequest::Approval(request.clone()),
    }
}

fn timeless(upstream: &[Upstream]) -> Vec<Upstream> {
    let record = |record: &StepRecord| StepRecord {
        spent: Spent::default(),
        duration_ms: 0,
        attempts: 0,
        ..record.clone()
    };
    upstream.iter().map(|it| Upstream { id: it.id.clone(), record: Arc::new(record(&it.record)) }).collect()
}

/// Endings count where the same is asked.
pub(crate) struct Same<'a> {
    past: &'a Past,
    root: &'a Arc<LoadedWorkflow>,
    /// How often everything was tried, and the places of which there are rows.
    latest: HashMap<Vec<Segment>, u32>,
    places: HashSet<Vec<Segment>>,
    verdict: Verdict,
    /// Included workflows that are kept with all that is in them.
    whole: Vec<StepKey>,
    /// How many were asked something else than before, or are not over any more.
    others: usize,
    /// How many that were when each of the included workflows began that are gone through now.
    marks: Vec<usize>,
}

/// What became of what was known.
#[derive(Default)]
pub(crate) struct Verdict {
    /// What is asked as before.
    pub kept: HashSet<StepKey>,
    /// Of that, what is not over any more.
    pub reopened: Vec<StepKey>,
    /// What was not there, and is as good as over.
    pub assumed: Vec<Completion>,
    pub due: StillDue,
}

/// What the other document asks for, as far as it is gone through.
#[derive(Default)]
pub(crate) struct StillDue {
    /// Steps that are asked for.
    asked: HashSet<String>,
    /// Steps that are over, or will not run.
    over: HashSet<String>,
}

impl StillDue {
    pub(crate) fn wanted(&self, step_id: &str) -> Wanted {
        match !self.asked.contains(step_id) && self.over.iter().any(|around| is_or_is_inside(step_id, around))
        {
            true => Wanted::NoMore,
            false => Wanted::Again,
        }
    }
}

impl Same<'_> {
    pub(crate) fn new<'a>(past: &'a Past, root: &'a Arc<LoadedWorkflow>) -> Same<'a> {
        let mut places = past.parents();
        places.extend(past.asked.keys().map(|key| key.segments().to_vec()));
        let latest = past.latest_attempts();
        let verdict = Verdict::default();
        Same { past, root, latest, places, verdict, whole: Vec::new(), others: 0, marks: Vec::new() }
    }

    pub(crate) fn into_verdict(self) -> Verdict {
        let Same { past, mut verdict, whole, .. } = self;
        let all = past.ended.keys().chain(past.asked.keys()).chain(past.due.keys()).chain(past.turns.keys());
        let is_inside =
            |key: &&StepKey| whole.iter().any(|around| key.segments().starts_with(around.segments()));
        verdict.kept.extend(all.filter(is_inside).cloned());
        verdict
    }

    fn known(&self, key: &StepKey) -> Option<&StepOutcome> {
        self.past.ended.get(key).map(|(_, completion)| &completion.outcome)
    }

    fn keep(&mut self, key: &StepKey) -> Counts {
        self.verdict.kept.insert(key.clone());
        Counts::Yes
    }

    /// It goes on from where it was.
    fn reopen(&mut self, key: &StepKey) -> Counts {
        self.verdict.kept.insert(key.clone());
        self.verdict.reopened.push(key.clone());
        self.others += 1;
        Counts::No
    }

    fn other(&mut self) -> Counts {
        self.others += 1;
        Counts::No
    }

    fn agent(&mut self, key: &StepKey, request: &StepRequest) -> Counts {
        if let Some(counts) = self.history(key) {
            return counts;
        }
        let Some(asked) = self.past.asked.get(key) else { return Counts::No };
        if *asked != request_hash(self.root, request) {
            return self.other();
        }
        match self.known(key) {
            Some(StepOutcome::Failed { error, .. }) if error.class == StepErrorClass::Turns => {
                self.reopen(key)
            }
            Some(StepOutcome::Cancelled(_)) if self.has_another_time(key) => self.reopen(key),
            _ => self.keep(key),
        }
    }

    /// Of something that was tried again since, what happened stays.
    fn history(&mut self, key: &StepKey) -> Option<Counts> {
        match (is_tried_again_around(key, &self.latest), self.known(key)) {
            (_, Some(_)) if !self.is_latest(key) => Some(self.keep(key)),
            (true, None) => {
                self.verdict.kept.insert(key.clone());
                Some(Counts::Assumed(StepOutcome::Cancelled(StepOutput::default())))
            }
            _ => None,
        }
    }

    /// Whether neither it nor anything around it was tried again.
    fn is_latest(&self, key: &StepKey) -> bool {
        let tried = self.latest.get(&first_attempt(key.segments()));
        let is_own = key.role() != Role::Work || tried.is_none_or(|tried| *tried <= key.attempt());
        is_own && !is_tried_again_around(key, &self.latest)
    }

    /// Whether a limit that was up, of this or of something around it, is no longer the same.
    fn has_another_time(&self, key: &StepKey) -> bool {
        let segments = key.segments();
        (1..=segments.len()).any(|upto| {
            let place = first_attempt(&segments[..upto]);
            [of_loop_only(&place), place].into_iter().any(|place| {
                let timer = StepKey::of(place, Role::Timeout);
                matches!(self.known(&timer), Some(StepOutcome::Elapsed))
                    && !self.verdict.kept.contains(&timer)
            })
        })
    }

    fn sleep(&mut self, key: &StepKey, ms: u64) -> Counts {
        let is_same = self.past.due.get(key).map(|due| due.ms == ms);
        let is_over = self.known(key).is_some();
        match (key.role(), is_same) {
            (_, Some(true)) => self.keep(key),
            (_, Some(false)) if is_over && !self.is_latest(key) => self.keep(key),
            (Role::Delay | Role::Backoff | Role::JudgeTimeout, Some(false)) if is_over => self.keep(key),
            (Role::Delay, None) if self.places.contains(key.segments()) => {
                self.verdict.kept.insert(key.clone());
                Counts::Assumed(StepOutcome::Elapsed)
            }
            // Time is not what anything was asked.
            _ => Counts::No,
        }
    }

    fn question(&mut self, key: &StepKey, request: &ApprovalRequest) -> Counts {
        if let Some(counts) = self.history(key) {
            return counts;
        }
        let Some(question) = self.past.questions.get(key) else { return Counts::No };
        let before = &question.request;
        if (&before.message, &before.data) != (&request.message, &request.data) {
            return self.other();
        }
        let answer = self.past.resolved.get(key);
        let by_person = answer.filter(|answer| answer.decision != Decision::TimedOut);
        match (by_person, self.known(key)) {
            (Some(answer), Some(known)) if !same_ending(&approval::outcome(request, answer), known) => {
                self.reopen(key)
            }
            (Some(_), _) => self.keep(key),
            // Nobody has said anything, and there is another time for it, or time says something else.
            (None, _) if before != request => self.other(),
            (None, _) => self.keep(key),
        }
    }
}

impl Listener for Same<'_> {
    fn asked(&mut self, key: &StepKey, request: &StepRequest) -> Counts {
        if !matches!(request, StepRequest::Sleep { .. }) {
            self.verdict.due.asked.insert(key.step_id());
        }
        match request {
            StepRequest::Agent(_) => self.agent(key, request),
            StepRequest::Sleep { ms } => self.sleep(key, *ms),
            StepRequest::Approval(request) => self.question(key, request),
            StepRequest::SubWorkflow(_) => match self.history(key) {
                Some(Counts::Yes) => {
                    self.whole.push(key.clone());
                    Counts::Whole
                }
                Some(counts) => counts,
                None if self.past.asked.contains_key(key) => {
                    self.marks.push(self.others);
                    Counts::InsideDecides
                }
                None => Counts::No,
            },
        }
    }

    fn assumed(&mut self, completion: &Completion) {
        self.verdict.assumed.push(completion.clone());
    }

    fn went_inside(
        &mut self,
        key: &StepKey,
        step_id: &str,
        outcome: Option<&WorkflowOutcome>,
        known: Option<&Completion>,
    ) -> bool {
        let others = self.marks.pop().unwrap_or(0);
        let all_same = self.others == others;
        let same = match (outcome, known.map(|known| &known.outcome)) {
            (_, Some(StepOutcome::Cancelled(_))) if self.has_another_time(key) => false,
            (Some(outcome), Some(known)) => all_same && same_ending(&as_step(step_id, outcome), known),
            // Cut short from outside; or something is in it that was not.
            (None, Some(known)) => all_same && !matches!(known, StepOutcome::Completed(_)),
            (_, None) => all_same,
        };
        match (same, known) {
            (false, Some(_)) => {
                self.reopen(key);
            }
            (_, _) => {
                self.keep(key);
            }
        }
        same
    }

    fn told(&mut self, notice: &Notice, _at: Timestamp) {
        if let Notice::Ended { key, .. } | Notice::NotRun { key, .. } = notice {
            self.verdict.due.over.insert(key.step_id());
        }
    }

    /// What is inside one that is kept is kept.
    fn looks_inside(&self) -> bool {
        true
    }

    fn document(&self) -> Document {
        Document::Another
    }
}

/// A round or an item also stands for its loop.
fn of_loop_only(place: &[Segment]) -> Vec<Segment> {
    let mut around = place.to_vec();
    if let Some(last) = around.pop() {
        around.push(Segment::new(last.id()));
    }
    around
}

fn same_ending(left: &StepOutcome, right: &StepOutcome) -> bool {
    match (left, right) {
        (StepOutcome::Completed(left), StepOutcome::Completed(right)) => {
            left.content == right.content && left.result == right.result
        }
        // In which words is no matter: nobody is told of them.
        (StepOutcome::Failed { .. }, StepOutcome::Failed { .. }) => true,
        (StepOutcome::Cancelled(_), StepOutcome::Cancelled(_)) => true,
        _ => false,
    }
}

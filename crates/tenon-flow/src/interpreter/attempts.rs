//! One thing that is done behind the port, with its retries and its time limit: the run of an agent, a judge, an
//! included workflow, or a question to a person.
//!
//! The time limit covers all attempts and the pauses between them. Which errors are tried again is `retry.rs`.

use std::sync::Arc;
use std::time::Duration;

use tenon_core::Whose;

use super::ended::Ended;
use super::retry::{Retry, decide, had_its_attempts};
use super::{Asks, WallTime, whole_ms};
use crate::document::Options;
use crate::load::LoadedWorkflow;
use crate::run_budget::{UsedUp, used_up};
use crate::{
    Completion, Notice, Role, Segment, Spent, StepError, StepErrorClass, StepKey, StepOutcome, StepOutput,
    StepRequest, StepStatus, TriedAgain,
};

#[derive(Clone, Debug)]
pub(crate) struct Attempts {
    place: StepKey,
    segment: Segment,
    role: Role,
    request: StepRequest,
    retries: u32,
    attempt: u32,
    phase: Phase,
    deadline: Option<Deadline>,
    stopping: bool,
    spent: Spent,
    /// What the attempt before a pause left behind.
    left: StepOutput,
    includes: Option<Arc<LoadedWorkflow>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Working,
    Pausing,
}

/// What is to be done.
pub(crate) struct Errand {
    pub place: StepKey,
    pub segment: Segment,
    pub role: Role,
    pub request: StepRequest,
    pub retries: u32,
    pub timeout: Option<TimeLimit>,
    /// The workflow that is included, which may have a budget of its own.
    pub includes: Option<Arc<LoadedWorkflow>>,
}

impl Attempts {
    pub(crate) fn start(errand: Errand, asks: &mut Asks<'_>) -> Attempts {
        let Errand { place, segment, role, request, retries, timeout, includes } = errand;
        let timer = if role == Role::Judge { Role::JudgeTimeout } else { Role::Timeout };
        let key = place.child(segment.clone().attempt(1)).with_role(timer);
        let retries = if role == Role::Work { asks.spec.earlier.retries(&key, retries) } else { retries };
        let deadline = timeout.map(|limit| Deadline::start(key, limit, asks));
        let attempts = Attempts {
            place,
            segment,
            role,
            request,
            retries,
            attempt: 1,
            phase: Phase::Working,
            deadline,
            stopping: false,
            spent: Spent::default(),
            left: StepOutput::default(),
            includes,
        };
        attempts.ask(asks);
        attempts
    }

    fn ask(&self, asks: &mut Asks<'_>) {
        let mut request = self.request.clone();
        match &mut request {
            StepRequest::Agent(agent) => agent.attempt = self.attempt,
            StepRequest::SubWorkflow(workflow) => {
                workflow.attempt = self.attempt;
                workflow.spent_before.add(&self.spent);
            }
            StepRequest::Sleep { .. } | StepRequest::Approval(_) => {}
        }
        asks.start(self.key(self.role), request);
    }

    fn key(&self, role: Role) -> StepKey {
        self.place.child(self.segment.clone().attempt(self.attempt)).with_role(role)
    }

    /// `None` while it goes on, also when the completion is none of its own.
    pub(crate) fn complete(&mut self, completion: &Completion, asks: &mut Asks<'_>) -> Option<Ended> {
        if let Some(deadline) = &mut self.deadline
            && deadline.fires(completion)
        {
            return self.stop(asks);
        }
        match (&completion.outcome, self.phase) {
            (StepOutcome::Elapsed, Phase::Pausing) if completion.key == self.key(Role::Backoff) => {
                self.attempt += 1;
                self.phase = Phase::Working;
                self.ask(asks);
                None
            }
            (outcome, Phase::Working) if completion.key == self.key(self.role) => {
                self.answered(outcome.clone(), asks)
            }
            _ => None,
        }
    }

    fn answered(&mut self, outcome: StepOutcome, asks: &mut Asks<'_>) -> Option<Ended> {
        if let Some(output) = outcome.output() {
            self.spent.add(&output.spent);
        }
        match outcome {
            StepOutcome::Completed(output) => Some(self.end(StepStatus::Completed, output, None, asks)),
            StepOutcome::Cancelled(output) => Some(self.end(StepStatus::Cancelled, output, None, asks)),
            StepOutcome::Failed { output, .. } if self.stopping => {
                Some(self.end(StepStatus::Cancelled, output, None, asks))
            }
            // It did not fail: nobody may spend any more.
            StepOutcome::Failed { error, output } if error.is_of_everybody() => {
                Some(self.end(StepStatus::Cancelled, output, Some(error), asks))
            }
            StepOutcome::Failed { error, output } => match decide(&error, self.attempt, self.retries) {
                Retry::No => {
                    let error = had_its_attempts(error, self.retries);
                    Some(self.end(StepStatus::Failed, output, Some(error), asks))
                }
                // It would be tried again, if anything were left to spend.
                Retry::AtOnce | Retry::After { .. } if asks.exhausted.is_some() => {
                    Some(self.end(StepStatus::Cancelled, output, None, asks))
                }
                Retry::AtOnce | Retry::After { .. } if let Some(used) = self.used_up(asks) => {
                    let error = not_again(&used, &error);
                    Some(self.end(StepStatus::Failed, output, Some(error), asks))
                }
                Retry::After { .. } if asks.spec.earlier.went_on_at_once(&self.key(Role::Backoff)) => {
                    self.attempt += 1;
                    self.ask(asks);
                    None
                }
                Retry::AtOnce => {
                    self.tell_retry(error, 0, asks);
                    self.attempt += 1;
                    self.ask(asks);
                    None
                }
                Retry::After { ms } => {
                    self.tell_retry(error, ms, asks);
                    (self.phase, self.left) = (Phase::Pausing, output);
                    asks.start(self.key(Role::Backoff), StepRequest::Sleep { ms });
                    None
                }
            },
            StepOutcome::Elapsed => {
                let error =
                    StepError::new(StepErrorClass::Internal, "the step was answered as if it were a timer");
                Some(self.end(StepStatus::Failed, StepOutput::default(), Some(error), asks))
            }
        }
    }

    fn tell_retry(&self, error: StepError, after_ms: u64, asks: &mut Asks<'_>) {
        let key = self.key(self.role);
        asks.tell(Notice::Retrying { key, what: TriedAgain::Step, error, after_ms });
    }

    /// By attempts that are over.
    pub(crate) fn spent(&self) -> Spent {
        self.spent
    }

    /// Whether the attempts so far have used what the included document may.
    fn used_up(&self, asks: &Asks<'_>) -> Option<UsedUp> {
        let (Some(workflow), StepRequest::SubWorkflow(request)) = (&self.includes, &self.request) else {
            return None;
        };
        let mut spent = request.spent_before;
        spent.add(&self.spent);
        spent.add(&asks.spec.earlier.given_up(&self.key(self.role)));
        let whose = Whose::Document(asks.spec.name_of(workflow));
        used_up(workflow, &whose, None, &spent)
    }

    /// Asks it to stop; `Some` when nothing was under way.
    pub(crate) fn stop(&mut self, asks: &mut Asks<'_>) -> Option<Ended> {
        if std::mem::replace(&mut self.stopping, true) {
            return None;
        }
        match self.phase {
            Phase::Working => {
                asks.cancel(self.key(self.role));
                None
            }
            Phase::Pausing => {
                asks.cancel(self.key(Role::Backoff));
                let left = std::mem::take(&mut self.left);
                Some(self.end(StepStatus::Cancelled, left, None, asks))
            }
        }
    }

    fn end(
        &mut self,
        status: StepStatus,
        output: StepOutput,
        error: Option<StepError>,
        asks: &mut Asks<'_>,
    ) -> Ended {
        let late = self.deadline.take().and_then(|deadline| deadline.close(asks));
        let (status, error) = match late {
            // Also when it was done a moment later: a limit means what it says.
            Some(late) => (StepStatus::Failed, Some(late)),
            None => (status, error),
        };
        Ended {
            status,
            content: output.content,
            result: output.result,
            error,
            spent: self.spent,
            attempts: self.attempt,
            shown: crate::Shown::Capped,
        }
    }
}

/// An included workflow that failed, and has nothing left for another attempt.
fn not_again(used: &UsedUp, error: &StepError) -> StepError {
    let UsedUp { message, set_by } = used;
    let message = format!("{message}, and is not tried again ({set_by}): {}", error.message);
    let hint = match &error.hint {
        Some(hint) => format!("raise {set_by}; of what went wrong: {hint}"),
        None => format!("raise {set_by}"),
    };
    StepError { retryable: Some(false), hint: Some(hint), ..StepError::new(StepErrorClass::Budget, message) }
}

/// A time limit that is running.
#[derive(Clone, Debug)]
pub(crate) struct Deadline {
    key: StepKey,
    limit: TimeLimit,
    over: bool,
}

/// How long something may take, and which field of the document says so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TimeLimit {
    ms: u64,
    set_by: SetBy,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SetBy {
    /// `timeout` of the step, loop or include itself.
    Timeout,
    /// `options.stepTimeout`
    StepTimeout,
    /// The same, for an iteration, an item or a judge, which have no `timeout` of their own.
    StepTimeoutInLoop,
    /// `options.timeout`
    WorkflowTimeout,
    /// Whoever runs the workflow.
    Caller(&'static str),
}

impl TimeLimit {
    pub(crate) fn new(time: Duration, set_by: SetBy) -> TimeLimit {
        TimeLimit { ms: whole_ms(time), set_by }
    }

    pub(crate) fn of_caller(limit: WallTime) -> TimeLimit {
        TimeLimit { ms: limit.ms, set_by: SetBy::Caller(limit.set_by) }
    }

    /// Of an iteration, an item or a judge.
    pub(crate) fn of_turn(options: &Options) -> Option<TimeLimit> {
        options.step_timeout.map(|time| TimeLimit::new(time, SetBy::StepTimeoutInLoop))
    }

    /// Of one run of an agent: its own, or that of all steps.
    pub(crate) fn of_agent(own: Option<Duration>, options: &Options) -> Option<TimeLimit> {
        let own = own.map(|time| TimeLimit::new(time, SetBy::Timeout));
        own.or_else(|| options.step_timeout.map(|time| TimeLimit::new(time, SetBy::StepTimeout)))
    }
}

impl Deadline {
    pub(crate) fn start(key: StepKey, limit: TimeLimit, asks: &mut Asks<'_>) -> Deadline {
        asks.start(key.clone(), StepRequest::Sleep { ms: limit.ms });
        Deadline { key, limit, over: false }
    }

    /// Whether this completion says that the time is up.
    pub(crate) fn fires(&mut self, completion: &Completion) -> bool {
        let fires = completion.key == self.key && completion.outcome == StepOutcome::Elapsed && !self.over;
        self.over |= fires;
        fires
    }

    /// What was limited is over: the error, if it was too late.
    pub(crate) fn close(self, asks: &mut Asks<'_>) -> Option<StepError> {
        if self.over {
            return Some(timed_out(self.limit, &asks.spec.whose()));
        }
        asks.cancel(self.key);
        None
    }
}

/// `whose` options they are.
pub(crate) fn timed_out(limit: TimeLimit, whose: &Whose) -> StepError {
    let time = shown(limit.ms);
    let (said, hint) = match limit.set_by {
        SetBy::Caller(name) => {
            let message = format!("not done after {time}, the most it may take ({name})");
            return StepError::new(StepErrorClass::Budget, message).hint(format!("raise {name}"));
        }
        SetBy::Timeout => ("its `timeout`".to_owned(), "raise `timeout` of the step".to_owned()),
        set_by @ (SetBy::StepTimeout | SetBy::StepTimeoutInLoop) => {
            let raise = match whose {
                Whose::Run => "raise `options.stepTimeout`".to_owned(),
                Whose::Document(_) => format!("raise `options.stepTimeout` of {whose}"),
            };
            let own = match set_by {
                SetBy::StepTimeoutInLoop => "",
                _ => ", or give the step a longer `timeout` of its own (`0s` is the same as none)",
            };
            (format!("the `options.stepTimeout` of {}", document(whose)), format!("{raise}{own}"))
        }
        SetBy::WorkflowTimeout => {
            let raise = format!("raise `options.timeout` of {}", document(whose));
            let hint = match whose {
                Whose::Run => raise,
                Whose::Document(_) => format!("{raise}, or give the step that includes it a `timeout`"),
            };
            ("its `options.timeout`".to_owned(), hint)
        }
    };
    StepError::new(StepErrorClass::Timeout, format!("not done after {time}, {said}")).hint(hint)
}

fn document(whose: &Whose) -> String {
    match whose {
        Whose::Run => "the document".to_owned(),
        Whose::Document(_) => whose.to_string(),
    }
}

/// As a document would write it, where it could.
fn shown(ms: u64) -> String {
    if ms.is_multiple_of(1000) {
        return crate::duration::shown(std::time::Duration::from_millis(ms));
    }
    format!("{}s", ms as f64 / 1000.0)
}

//! One thing that is done behind the port, with its retries and its time limit: the run of an agent, a judge, an
//! included workflow, or a question to a person.
//!
//! The time limit covers all attempts and the pauses between them. Which errors are tried again is `retry.rs`.

use std::time::Duration;

use super::ended::Ended;
use super::retry::{Retry, decide, had_its_attempts};
use super::{Asks, WallTime, whole_ms};
use crate::document::Options;
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
}

impl Attempts {
    pub(crate) fn start(errand: Errand, asks: &mut Asks<'_>) -> Attempts {
        let Errand { place, segment, role, request, retries, timeout } = errand;
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
        };
        attempts.ask(asks);
        attempts
    }

    fn ask(&self, asks: &mut Asks<'_>) {
        let mut request = self.request.clone();
        match &mut request {
            StepRequest::Agent(agent) => agent.attempt = self.attempt,
            StepRequest::SubWorkflow(workflow) => workflow.attempt = self.attempt,
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
                Retry::AtOnce => {
                    self.tell_retry(error, 0, asks);
                    self.attempt += 1;
                    self.ask(asks);
                    None
                }
                Retry::After { ms } => {
                    self.tell_retry(error, ms, asks);
                    self.phase = Phase::Pausing;
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
                Some(self.end(StepStatus::Cancelled, StepOutput::default(), None, asks))
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
            return Some(timed_out(self.limit));
        }
        asks.cancel(self.key);
        None
    }
}

pub(crate) fn timed_out(limit: TimeLimit) -> StepError {
    let time = shown(limit.ms);
    let (said, hint) = match limit.set_by {
        SetBy::Caller(name) => {
            let message = format!("not done after {time}, the most it may take ({name})");
            return StepError::new(StepErrorClass::Budget, message).hint(format!("raise {name}"));
        }
        SetBy::Timeout => ("its `timeout`", "raise `timeout` of the step"),
        SetBy::StepTimeout => (
            "the `options.stepTimeout` of the document",
            "raise `options.stepTimeout`, or give the step a longer `timeout` of its own (`0s` is the same as none)",
        ),
        SetBy::WorkflowTimeout => ("its `options.timeout`", "raise `options.timeout` of the document"),
    };
    StepError::new(StepErrorClass::Timeout, format!("not done after {time}, {said}")).hint(hint)
}

/// As a document would write it, where it could.
fn shown(ms: u64) -> String {
    if ms.is_multiple_of(1000) {
        return crate::duration::shown(std::time::Duration::from_millis(ms));
    }
    format!("{}s", ms as f64 / 1000.0)
}

//! A loop that repeats until it is done: after each iteration its `until` is evaluated, then its judge is asked.
//!
//! A judge that gives no verdict does not stop the loop: it goes on as if the judge had said no (the validator made
//! sure that a judge can say yes). Running out of iterations is a failure, unless nothing was to be waited for.

use std::sync::Arc;

use tenon_core::Timestamp;

use super::attempts::{Attempts, Deadline, Errand, SetBy, TimeLimit};
use super::body::{Body, BodyEnded, LoopPlace, Turn, tell_ended, tell_started};
use super::ended::Ended;
use super::{Asks, Begun, scope, whole_ms};
use crate::document::OutputMode;
use crate::load::{LoadedAgent, LoopKind};
use crate::{
    AgentName, AgentRequest, Completion, Iteration, JsonText, ModelWish, Notice, Purpose, Role, Shown, Spent,
    StepError, StepErrorClass, StepKey, StepOutcome, StepRecord, StepRequest, StepStatus, Upstream, Verdict,
};

#[derive(Clone, Debug)]
pub(crate) struct Repeat {
    at: LoopPlace,
    /// The present iteration, from 0.
    number: u32,
    phase: Phase,
    deadline: Option<Deadline>,
    stopping: bool,
    previous: Option<Upstream>,
    feedback: Option<Verdict>,
    /// Every iteration so far and what was said about it; kept where somebody reads it.
    history: String,
    spent: Spent,
    /// In how many iterations the judge gave no verdict, and what was wrong the last time.
    unjudged: u32,
    no_verdict: Option<StepError>,
}

#[derive(Clone, Debug)]
enum Phase {
    /// Before an iteration.
    Pausing,
    Body(Box<Body>),
    Judging {
        attempts: Box<Attempts>,
        since: Timestamp,
        agent: String,
    },
}

/// What the document says about the loop.
struct Rules<'a> {
    max_iterations: u32,
    until: Option<&'a crate::cel::Expression>,
    judge: Option<&'a Arc<LoadedAgent>>,
    delay_ms: u64,
    output: OutputMode,
}

impl Repeat {
    pub(crate) fn start(at: LoopPlace, asks: &mut Asks<'_>) -> Begun<Repeat, Ended> {
        let timeout = at.step.get().spec.timeout.map(|time| TimeLimit::new(time, SetBy::Timeout));
        let deadline = timeout.map(|limit| Deadline::start(at.key().with_role(Role::Timeout), limit, asks));
        let mut repeat = Repeat {
            at,
            number: 0,
            phase: Phase::Pausing,
            deadline,
            stopping: false,
            previous: None,
            feedback: None,
            history: String::new(),
            spent: Spent::default(),
            unjudged: 0,
            no_verdict: None,
        };
        match repeat.iterate(asks) {
            None => Begun::Running(repeat),
            Some(ended) => Begun::Over(ended),
        }
    }

    pub(crate) fn complete(&mut self, completion: &Completion, asks: &mut Asks<'_>) -> Option<Ended> {
        if self.deadline.as_mut().is_some_and(|deadline| deadline.fires(completion)) {
            return self.stop(asks);
        }
        match &mut self.phase {
            Phase::Pausing => {
                let wanted = completion.key == self.delay_key() && completion.outcome == StepOutcome::Elapsed;
                if wanted { self.iterate(asks) } else { None }
            }
            Phase::Body(body) => {
                let ended = body.complete(&self.at, completion, asks)?;
                self.iterated(ended, asks)
            }
            Phase::Judging { attempts, .. } => {
                let verdict = attempts.complete(completion, asks)?;
                self.judged(verdict, asks)
            }
        }
    }

    pub(crate) fn stop(&mut self, asks: &mut Asks<'_>) -> Option<Ended> {
        if std::mem::replace(&mut self.stopping, true) {
            return None;
        }
        match &mut self.phase {
            Phase::Pausing => {
                asks.cancel(self.delay_key());
                Some(self.cut_short(StepStatus::Cancelled, None, asks))
            }
            Phase::Body(body) => {
                let ended = body.stop(&self.at, asks)?;
                self.iterated(ended, asks)
            }
            Phase::Judging { attempts, .. } => {
                let verdict = attempts.stop(asks)?;
                self.judged(verdict, asks)
            }
        }
    }

    /// By what is over in it.
    pub(crate) fn spent(&self) -> Spent {
        let mut spent = self.spent;
        spent.add(&match &self.phase {
            Phase::Pausing => Spent::default(),
            Phase::Body(body) => body.spent(),
            Phase::Judging { attempts, .. } => attempts.spent(),
        });
        spent
    }

    /// Nothing more may be started; what is done counts.
    fn is_ending(&self, asks: &Asks<'_>) -> bool {
        self.stopping || asks.exhausted.is_some()
    }

    fn delay_key(&self) -> StepKey {
        self.at.place.child(self.at.segment().iteration(self.number)).with_role(Role::Delay)
    }

    /// Runs the present iteration.
    fn iterate(&mut self, asks: &mut Asks<'_>) -> Option<Ended> {
        let iteration = Iteration {
            number: self.number,
            previous: self.previous.clone(),
            feedback: self.feedback.take(),
        };
        match Body::start(&self.at, Turn::Iteration(iteration), asks) {
            Begun::Running(body) => {
                self.phase = Phase::Body(Box::new(body));
                None
            }
            Begun::Over(ended) => {
                self.phase = Phase::Pausing;
                self.iterated(ended, asks)
            }
        }
    }

    /// An iteration is over: is the loop?
    fn iterated(&mut self, body: BodyEnded, asks: &mut Asks<'_>) -> Option<Ended> {
        let BodyEnded { ended, steps } = body;
        self.spent.add(&ended.spent);
        match ended.status {
            StepStatus::Completed => {}
            // What earlier iterations yielded stays.
            status if self.previous.is_some() => return Some(self.cut_short(status, ended.error, asks)),
            _ => return Some(self.end(ended, asks)),
        }
        let record = Ended { spent: Spent::default(), ..ended }.into_record(0);
        self.remember(&record, &steps);
        self.previous = Some(Upstream { id: self.at.step.get().id.clone(), record: record.clone() });
        let rules = rules(&self.at)?;
        let (done, of) = (self.number + 1, rules.max_iterations);
        asks.tell(Notice::Progress { key: self.at.key(), done, of });
        if let Some(until) = rules.until {
            let mut view = self.at.scope.clone().with_iteration(self.number as usize);
            for (id, inner) in &steps {
                view.add_step(id.clone(), scope::for_expressions(inner));
            }
            let own = scope::for_expressions(&record);
            // Without steps inside, the iteration is the step.
            if steps.is_empty() {
                view.add_step(self.at.step.get().id.clone(), own.clone());
            }
            match until.evaluate_bool(&view.with_last(own)) {
                Ok(true) => return Some(self.done(asks)),
                Ok(false) => {}
                Err(error) => {
                    let what = format!("`loop.until` of iteration {}", self.number + 1);
                    let error = scope::expression(&what, until, &error);
                    return Some(self.cut_short(StepStatus::Failed, Some(error), asks));
                }
            }
        }
        let last = self.number + 1 >= rules.max_iterations;
        if self.is_ending(asks) && !(last && rules.until.is_none() && rules.judge.is_none()) {
            return Some(self.cut_short(StepStatus::Cancelled, None, asks));
        }
        let Some(judge) = rules.judge.cloned() else { return self.next(asks) };
        let key = self.judge_key();
        tell_started(&key, Some(judge.name.clone()), self.number, rules.max_iterations, asks);
        let request = self.judge_request(&judge, &record, asks);
        let options = &asks.spec.workflow.workflow.options;
        let errand = Errand {
            place: self.at.place.clone(),
            segment: self.at.segment().iteration(self.number),
            role: Role::Judge,
            request: StepRequest::Agent(Box::new(request)),
            retries: 0,
            timeout: TimeLimit::of_turn(options),
            includes: None,
        };
        let attempts = Box::new(Attempts::start(errand, asks));
        self.phase = Phase::Judging { attempts, since: asks.since(&key), agent: judge.name.clone() };
        None
    }

    fn judge_key(&self) -> StepKey {
        self.at.place.child(self.at.segment().iteration(self.number)).with_role(Role::Judge)
    }

    fn judge_request(&self, judge: &LoadedAgent, record: &StepRecord, asks: &Asks<'_>) -> AgentRequest {
        let options = &asks.spec.workflow.workflow.options;
        AgentRequest {
            step_id: self.judge_key().step_id(),
            purpose: Purpose::Judge { history: self.history.clone(), result: record.result.clone() },
            agent: AgentName { document: asks.spec.document.clone(), name: Some(judge.name.clone()) },
            instructions: String::new(),
            upstream: Vec::new(),
            outer: Vec::new(),
            item: None,
            iteration: Some(Iteration { number: self.number, previous: None, feedback: None }),
            context_files: Vec::new(),
            model: ModelWish { step: None, agent: judge.spec.model.clone() },
            transport_retries: self.at.transport_retries.or(options.max_retries),
            isolation: asks.spec.isolation().map(str::to_owned),
            attempt: 1,
        }
    }

    fn judged(&mut self, verdict: Ended, asks: &mut Asks<'_>) -> Option<Ended> {
        self.spent.add(&verdict.spent);
        if let Phase::Judging { since, agent, .. } = &self.phase {
            tell_ended(&self.judge_key(), Some(agent.clone()), &verdict, *since, asks);
        }
        // A verdict that came too late is none.
        let is_done = verdict.error.is_none() && verdict.result.as_ref().is_some_and(says_done);
        if (self.is_ending(asks) && !is_done) || verdict.status == StepStatus::Cancelled {
            return Some(self.cut_short(StepStatus::Cancelled, verdict.error, asks));
        }
        match verdict.error {
            Some(error) => {
                self.unjudged += 1;
                self.no_verdict = Some(error.clone());
                asks.tell(Notice::JudgeFailed { key: self.at.key(), iteration: self.number, error });
                // It decided nothing, but what it said was paid for, and may help.
                if !verdict.content.trim().is_empty() {
                    self.heard(verdict.content, None);
                }
            }
            None if is_done => return Some(self.done(asks)),
            None => self.heard(verdict.content, verdict.result),
        }
        self.next(asks)
    }

    /// What a judge said, for the next iteration and for whoever reads the history.
    fn heard(&mut self, content: String, result: Option<JsonText>) {
        let verdict = Verdict { content, result };
        let said = verdict.in_words();
        self.history.push_str(&format!("## Judge Feedback (Iteration {})\n{said}\n\n", self.number + 1));
        self.feedback = Some(verdict);
    }

    /// The next iteration, if there is one.
    fn next(&mut self, asks: &mut Asks<'_>) -> Option<Ended> {
        let rules = rules(&self.at)?;
        if self.number + 1 >= rules.max_iterations {
            if rules.until.is_none() && rules.judge.is_none() {
                return Some(self.done(asks));
            }
            let error = self.exhausted(&rules);
            return Some(self.cut_short(StepStatus::Failed, Some(error), asks));
        }
        // Nothing of this iteration went through the port: the next one waits for a timer, even of no length, so
        // that a body without work cannot keep the run from being cancelled.
        let idle = matches!(self.phase, Phase::Pausing);
        self.number += 1;
        if rules.delay_ms > 0 || idle {
            self.phase = Phase::Pausing;
            asks.start(self.delay_key(), StepRequest::Sleep { ms: rules.delay_ms });
            return None;
        }
        self.iterate(asks)
    }

    /// The iterations are used up, and nothing said that the loop is done.
    fn exhausted(&self, rules: &Rules<'_>) -> StepError {
        let (count, unjudged) = (rules.max_iterations, self.unjudged);
        let plural = if count == 1 { "" } else { "s" };
        let until = rules.until.map(|_| "its `until` never became true".to_owned());
        let judge = rules.judge.map(|judge| match &self.no_verdict {
            None => "its judge never said that it is done".to_owned(),
            Some(error) => {
                let never = if unjudged < count { "never said that it is done, and " } else { "" };
                format!(
                    "its judge `{}` {never}failed in {unjudged} of {count} iteration{plural}, the last time with: {}",
                    judge.name, error.message
                )
            }
        });
        let waited_for = until.into_iter().chain(judge).collect::<Vec<_>>().join(" and ");
        let message = format!("the loop used up its {count} iteration{plural}: {waited_for}");
        let more = "raise `loop.maxIterations`, or loosen what ends the loop";
        let hint = match &self.no_verdict {
            None => more.to_owned(),
            Some(error) => {
                let why = error.hint.as_ref().map(|hint| format!(" ({hint})")).unwrap_or_default();
                let answer = format!("see to it that the judge can answer{why}");
                match unjudged < count {
                    true => format!("{answer}, {more}"),
                    false => format!("{answer}: more iterations alone do not help"),
                }
            }
        };
        StepError::new(StepErrorClass::LoopExhausted, message).hint(hint)
    }

    fn done(&mut self, asks: &mut Asks<'_>) -> Ended {
        let last = self.last();
        self.end(last, asks)
    }

    /// It ends before it is done, with what its iterations have yielded.
    fn cut_short(&mut self, status: StepStatus, error: Option<StepError>, asks: &mut Asks<'_>) -> Ended {
        let last = self.last();
        self.end(Ended { status, error, ..last }, asks)
    }

    /// What the loop leaves behind after the iterations so far.
    fn last(&mut self) -> Ended {
        let (content, result) = self
            .previous
            .as_ref()
            .map(|last| (last.record.content.clone(), last.record.result.clone()))
            .unwrap_or_default();
        match rules(&self.at).map(|rules| rules.output) {
            Some(OutputMode::Cumulative) => {
                let content = std::mem::take(&mut self.history).trim_end().to_owned();
                Ended { shown: Shown::Whole, ..Ended::completed(content, result) }
            }
            Some(OutputMode::Last) | None => Ended::completed(content, result),
        }
    }

    fn end(&mut self, ended: Ended, asks: &mut Asks<'_>) -> Ended {
        let late = self.deadline.take().and_then(|deadline| deadline.close(asks));
        let ended = Ended { spent: self.spent, attempts: 1, ..ended };
        match late {
            Some(error) => Ended { status: StepStatus::Failed, error: Some(error), ..ended },
            None => ended,
        }
    }

    fn remember(&mut self, record: &StepRecord, steps: &[(String, Arc<StepRecord>)]) {
        let read = rules(&self.at)
            .is_some_and(|rules| rules.judge.is_some() || rules.output == OutputMode::Cumulative);
        if !read {
            return;
        }
        self.history.push_str(&format!("## Iteration {}\n", self.number + 1));
        let id = &self.at.step.get().id;
        if steps.is_empty() {
            self.history.push_str(&format!("### {id}\n{}\n\n", record.content));
        }
        for (id, inner) in steps.iter().filter(|(_, inner)| inner.status == StepStatus::Completed) {
            self.history.push_str(&format!("### {id}\n{}\n\n", inner.content));
        }
    }
}

fn says_done(verdict: &JsonText) -> bool {
    verdict.to_value().get("done") == Some(&true.into())
}

/// `None` for a step that is no such loop, which is never started as one.
fn rules(at: &LoopPlace) -> Option<Rules<'_>> {
    let crate::load::StepBody::Loop(it) = &at.step.get().body else { return None };
    match &it.kind {
        LoopKind::RepeatUntil { max_iterations, until, judge, delay } => Some(Rules {
            max_iterations: *max_iterations,
            until: until.as_ref(),
            judge: judge.as_ref(),
            delay_ms: delay.map_or(0, whole_ms),
            output: it.output_mode,
        }),
        LoopKind::ForEach { .. } => None,
    }
}

//! The calls of one answer: those that hand in the answer are looked at first, the others carried out, and all
//! of them answered.
//!
//! What is done with each call is planned in `plan_batch.rs`; how an ordinary one runs is `run_batch.rs`; what is said
//! about answers and the calls beside them `terminal.rs`.

use std::time::Instant;

use serde_json::value::RawValue;
use tenon_contract::Rejection;
use tenon_core::{
    EventKind, Failure, FinishReason, Message, Origin, Part, RawJson, Role, StructuredError, Success,
    ToolCall, ToolErrorKind, ToolOutcome, ToolResult, Violation,
};

use crate::failures::with_a_cut_answer;
use crate::hooked::Answer;
use crate::plan_batch::{Step, plan_batch};
use crate::run_batch::{Done, millis_since};
use crate::run_state::{Batch, Captured, Run};
use crate::terminal::{accepted, rejected, skipped};

impl Run<'_> {
    /// Carries out the calls of one answer. `Some` when the contract was fulfilled.
    pub(crate) async fn carry_out(
        &mut self,
        calls: &[ToolCall],
        finish: FinishReason,
    ) -> Result<Option<Success>, Box<Failure>> {
        self.batch = Batch::default();
        self.captured = None;
        let siblings = self.agent.contract.as_ref().map(|contract| contract.siblings);
        let steps = plan_batch(calls, siblings, |call| self.judge(call));
        let (captured, terminal) = self.check_terminal_calls(calls, &steps, finish).await?;
        // An answer that fits ends the run, however often the model says it at once.
        if captured.is_none() {
            // What was cut off at the same place again is no decision of the model.
            let is_cut = |call: &&ToolCall| finish == FinishReason::Length && !is_whole(&call.arguments);
            for call in calls.iter().filter(|call| !is_cut(call)) {
                self.repeated.note(call).map_err(|failure| self.with_attempts(failure))?;
            }
        }
        let mut results = Vec::with_capacity(calls.len());
        let mut terminal = terminal.into_iter();
        let mut at = 0;
        while at < calls.len() {
            let (call, step) = (&calls[at], &steps[at]);
            match step {
                Step::Terminal => {
                    let checked = terminal.next().flatten();
                    let done = match checked {
                        Some(done) => done,
                        None if self.agent.contract.is_none() => Done::at_once(not_yours(&call.name)),
                        None => Done::skipped(self.skipped(captured.is_some())),
                    };
                    results.push(self.report(call, done).await?);
                    at += 1;
                }
                Step::Skip => {
                    results.push(self.report(call, Done::skipped(self.skipped(captured.is_some()))).await?);
                    at += 1;
                }
                _ => {
                    let ordinary = steps[at..]
                        .iter()
                        .take_while(|step| !matches!(step, Step::Terminal | Step::Skip))
                        .count();
                    let end = at + ordinary;
                    match self.run_steps(&calls[at..end], &steps[at..end]).await {
                        Ok(more) => results.extend(more),
                        // A cap that stops a sibling does not undo an accepted payload.
                        Err(_) if captured.is_some() => {}
                        Err(failure) => return Err(self.with_attempts(failure)),
                    }
                    at = end;
                }
            }
        }
        let told = self.hooks_after_batch(calls, &results).await;
        if let Some(payload) = captured {
            self.history.push(tool_message(results));
            self.hooks_at_accepted_answer().await;
            return Ok(Some(Success { text: payload.get().to_owned(), payload: Some(payload) }));
        }
        if calls.iter().any(|call| call.terminal) {
            self.agent.limits.after_rejected_attempt(self.attempts).map_err(|failure| {
                self.with_attempts(match finish {
                    FinishReason::Length => with_a_cut_answer(failure),
                    _ => failure,
                })
            })?;
        }
        self.history.push(tool_message(results));
        if let Some(failure) = self.stopped_by_hook.take() {
            return Err(self.with_attempts(failure));
        }
        if let Some(told) = told {
            self.tell(Message::user(told), Origin::Notice).await?;
        }
        Ok(None)
    }

    /// Validates terminal calls in order until one is accepted. The second value has an entry for each
    /// terminal call: `None` where it was not looked at.
    async fn check_terminal_calls(
        &mut self,
        calls: &[ToolCall],
        steps: &[Step],
        finish: FinishReason,
    ) -> Result<(Option<RawJson>, Vec<Option<Done>>), Failure> {
        let mut captured = None;
        let mut done = Vec::new();
        let Some(contract) = &self.agent.contract else { return Ok((captured, done)) };
        for (call, _) in calls.iter().zip(steps).filter(|(_, step)| **step == Step::Terminal) {
            if captured.is_some() {
                done.push(None);
                continue;
            }
            self.attempts += 1;
            self.payload_words.add(&call.arguments);
            let started = Instant::now();
            self.emitter.emit(EventKind::ToolStarted {
                call_id: call.id.clone(),
                name: call.name.clone(),
                terminal: true,
            });
            let answer = self.hooks_before_answer(call).await?;
            let checked = match (finish, &answer) {
                (_, Answer::Refused(reason)) => Err(Rejection::refused(reason)),
                (FinishReason::Length, _) if !is_whole(&call.arguments) => {
                    Err(Rejection::cut_off(&call.arguments))
                }
                (_, Answer::Changed(arguments)) => contract.check(arguments),
                (_, Answer::AsItIs) => contract.check(&call.arguments),
            };
            let ran_with = Some(match &answer {
                Answer::Changed(arguments) => RawValue::from_string(arguments.clone()).unwrap_or_default(),
                Answer::AsItIs | Answer::Refused(_) => call.input(),
            });
            let (outcome, stored) = match checked {
                Ok(payload) => {
                    self.captured = Some(Captured { call: call.clone(), payload: payload.clone() });
                    captured = Some(payload);
                    (ToolOutcome::ok(accepted(contract)), None)
                }
                Err(rejection) => {
                    let violations = rejection
                        .violations
                        .iter()
                        .map(|violation| Violation {
                            path: violation.path.clone(),
                            message: violation.message.clone(),
                        })
                        .collect();
                    let candidate = Some(candidate(call));
                    self.last_attempt =
                        Some(StructuredError { attempts: self.attempts, candidate, violations });
                    let told = rejected(contract, &rejection);
                    let told = ToolOutcome::error(ToolErrorKind::InvalidArguments, told);
                    (told, Some(rejection.stored()))
                }
            };
            let duration_ms = millis_since(started);
            done.push(Some(Done { stored, duration_ms, ran_with, ..Done::at_once(outcome) }));
        }
        Ok((captured, done))
    }

    fn skipped(&self, is_captured: bool) -> ToolOutcome {
        ToolOutcome::ok(skipped(self.agent.contract.as_ref(), is_captured))
    }
}

fn tool_message(results: Vec<ToolResult>) -> Message {
    Message { role: Role::User, parts: results.into_iter().map(Part::ToolResult).collect() }
}

/// A sub-agent has no terminal tool; should a call of the run's ever reach it, nothing is taken for an answer.
fn not_yours(tool: &str) -> ToolOutcome {
    ToolOutcome::error(
        ToolErrorKind::Denied,
        format!("`{tool}` is the run's own to call, and you work for it: answer in plain text."),
    )
}

/// Whether a call that the output limit may have cut off has all of its arguments.
fn is_whole(arguments: &str) -> bool {
    serde_json::from_str::<serde_json::Value>(arguments).is_ok()
}

/// The rejected arguments as JSON: themselves when they are JSON, else their text as a JSON string.
fn candidate(call: &ToolCall) -> RawJson {
    if call.arguments.trim().is_empty() {
        return call.input();
    }
    match serde_json::from_str::<serde_json::Value>(&call.arguments) {
        Ok(value) if value.is_object() => call.input(),
        _ => serde_json::value::to_raw_value(&call.arguments).unwrap_or_default(),
    }
}

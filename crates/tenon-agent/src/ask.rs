//! One model request: paid for beforehand, sent, folded into a whole turn, counted.
//!
//! What is asked and what becomes of the answer is decided in `turn_loop.rs` (turns) and `compact.rs`
//! (summaries); how deltas become a message in `fold.rs`.

use std::future::{Future, poll_fn};
use std::sync::Arc;
use std::time::Instant;

use futures_util::StreamExt;
use tenon_core::{
    Cost, Delta, ErrorClass, Estimate, EventKind, Exceeded, Failure, Metrics, ModelFacts, Price, Request,
    Reservation, Usage, Used,
};

use crate::fold::{Fold, Telling, Turn};
use crate::run_batch::millis_since;
use crate::run_state::Run;

/// No whole answer came.
pub(crate) struct Unanswered {
    pub(crate) failure: Failure,
    pub(crate) cause: Cause,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cause {
    /// The request is larger than the model's context, and nobody was told anything of an answer.
    TooLong,
    Other,
}

impl Run<'_> {
    /// `input_tokens` is what the request is thought to hold.
    pub(crate) async fn ask(
        &mut self,
        request: Request,
        input_tokens: u64,
        telling: Telling,
    ) -> Result<Turn, Unanswered> {
        let reservation = self.pay_beforehand(&request, input_tokens).await?;
        let emitter = Arc::clone(&self.emitter);
        let lineage = &self.agent.lineage;
        let terminal = request.terminal_tool.clone();
        let terminal = terminal.as_deref().or(lineage.forbidden_tool());
        let mut fold = Fold::new(&emitter, telling, terminal, self.turns, &self.model, lineage);
        if telling != Telling::ToNobody {
            emitter.emit(EventKind::Asking { turn: self.turns, model: self.model.clone() });
        }
        let (turn, messages, tools) = (self.turns, request.messages.len(), request.tools.len());
        tracing::debug!(turn, model = self.model, messages, tools, input_tokens, "asking");
        let cancel = self.agent.stop.cancel().child_token();
        let mut deltas = self.agent.model.stream(request, cancel.clone());
        let cancelled = cancel.cancelled();
        tokio::pin!(cancelled);
        let mut tally = Tally::start();
        let mut used = Used::default();
        let broken = loop {
            if cancel.is_cancelled() {
                break Some((self.agent.stop.failure(), Cause::Other));
            }
            // The connection hands over one piece at a time, so a stream that has nothing may have more as
            // soon as the other tasks have run. Only then is there a pause, and what was told leaves: deltas
            // that came together share a write.
            let mut others_have_run = false;
            let next = poll_fn(|cx| {
                let next = deltas.poll_next_unpin(cx);
                if next.is_ready() {
                    return next;
                }
                if others_have_run {
                    emitter.flush();
                } else {
                    others_have_run = true;
                    cx.waker().wake_by_ref();
                }
                cancelled.as_mut().poll(cx).map(|()| None)
            })
            .await;
            match next {
                Some(Ok(delta)) => {
                    match &delta {
                        Delta::Retrying { attempt, attempts, wait, error } => {
                            tally.broken_off(self.agent.models.price(&self.model), fold.usage());
                            tally.requests += 1;
                            fold.terminal_arguments().for_each(|said| self.payload_words.add(said));
                            let mut message = error.message.clone();
                            self.payload_words.kept_out_of(&mut message);
                            emitter.emit(EventKind::Retrying {
                                attempt: *attempt,
                                attempts: *attempts,
                                wait_ms: u64::try_from(wait.as_millis()).unwrap_or(u64::MAX),
                                class: error.class.name(),
                                status: error.http_status,
                                message,
                            });
                        }
                        Delta::SwitchedModel { from, to, status, fallback } => {
                            tally.broken_off(self.agent.models.price(&self.model), fold.usage());
                            used.cost.add(tally.cost);
                            used.usage.add(tally.usage);
                            self.api_duration_ms += tally.count(
                                &mut self.metrics,
                                &self.model,
                                self.agent.models.facts(&self.model),
                            );
                            tally = Tally::start();
                            self.model.clone_from(to);
                            emitter.emit(EventKind::ModelFallback {
                                from: from.clone(),
                                to: to.clone(),
                                status: *status,
                                fallback: *fallback,
                            });
                        }
                        _ => {}
                    }
                    fold.push(delta);
                    emitter.wait_while_blocked(&cancel).await;
                }
                Some(Err(error)) => {
                    let too_long = error.context_overflow && !fold.has_told();
                    fold.terminal_arguments().for_each(|said| self.payload_words.add(said));
                    let mut failure = Failure::from(error);
                    self.payload_words.kept_out_of(&mut failure.message);
                    break Some((failure, if too_long { Cause::TooLong } else { Cause::Other }));
                }
                None if cancel.is_cancelled() => break Some((self.agent.stop.failure(), Cause::Other)),
                None => break None,
            }
        };
        drop(deltas);
        let price = self.agent.models.price(&self.model);
        let result = match broken {
            Some((failure, cause)) => {
                let answer = fold.abandon();
                tally.broken_off(price, answer.usage);
                if telling != Telling::ToNobody {
                    self.broken_off = answer.seen();
                }
                Err(Unanswered { failure, cause })
            }
            None => {
                let turn = fold.finish();
                let told = (turn.usage != Usage::default()).then_some(turn.usage);
                tally.usage.add(turn.usage);
                tally.cost.add(Cost::of(price, told));
                Ok(turn)
            }
        };
        used.cost.add(tally.cost);
        used.usage.add(tally.usage);
        used.turns = u32::from(result.is_ok());
        reservation.settle(used);
        match &result {
            Ok(answer) => {
                let (tokens_in, tokens_out) = (answer.usage.input, answer.usage.output);
                tracing::debug!(turn, tokens_in, tokens_out, ms = millis_since(tally.started), "answered");
            }
            Err(Unanswered { failure, .. }) => {
                let (class, status) = (failure.class.name(), failure.http_status);
                tracing::info!(turn, class, status, ms = millis_since(tally.started), "not answered");
            }
        }
        self.api_duration_ms +=
            tally.count(&mut self.metrics, &self.model, self.agent.models.facts(&self.model));
        result
    }
}

impl Run<'_> {
    /// May wait for the requests of other agents.
    async fn pay_beforehand(&self, request: &Request, input_tokens: u64) -> Result<Reservation, Unanswered> {
        let facts = self.agent.models.facts(&request.model);
        let estimate = Estimate {
            model: request.model.clone(),
            input_tokens,
            max_output_tokens: request.max_output_tokens.or(facts.max_output),
            price: facts.price.clone(),
        };
        let stop = &self.agent.stop;
        match stop.cancel().run_until_cancelled(self.agent.budget.reserve(estimate)).await {
            Some(reserved) => reserved.map_err(not_paid),
            None => Err(Unanswered { failure: stop.failure(), cause: Cause::Other }),
        }
    }
}

fn not_paid(exceeded: Exceeded) -> Unanswered {
    let failure = match &exceeded {
        Exceeded::Money { set_by, .. } => Failure::new(ErrorClass::BudgetUsd, exceeded.to_string())
            .hint(format!("raise {set_by}, or narrow the task")),
        Exceeded::NoPrice { model, .. } => Failure::new(ErrorClass::Config, exceeded.to_string())
            .hint(format!("set `prices.{model}` in the settings, or use a model with a known price")),
        Exceeded::Turns { set_by, .. } | Exceeded::Tokens { set_by, .. } => {
            Failure::new(ErrorClass::Budget, exceeded.to_string()).hint(format!("raise {set_by}"))
        }
    };
    Unanswered { failure, cause: Cause::Other }
}

/// What one model was asked, and what it took.
struct Tally {
    requests: u64,
    errors: u64,
    started: Instant,
    usage: Usage,
    cost: Cost,
}

impl Tally {
    fn start() -> Tally {
        Tally {
            requests: 1,
            errors: 0,
            started: Instant::now(),
            usage: Usage::default(),
            cost: Cost::default(),
        }
    }

    /// Half an answer is paid for as far as the server said that it counts.
    fn broken_off(&mut self, price: Option<&Price>, usage: Usage) {
        self.errors += 1;
        if usage != Usage::default() {
            self.usage.add(usage);
            self.cost.add(Cost::of(price, Some(usage)));
        }
    }

    /// Counts it under the model's name; returns the milliseconds.
    fn count(&self, metrics: &mut Metrics, model: &str, facts: &ModelFacts) -> u64 {
        let elapsed = millis_since(self.started);
        let metrics = metrics.models.entry(model.to_owned()).or_default();
        metrics.requests += self.requests;
        metrics.errors += self.errors;
        metrics.latency_ms += elapsed;
        metrics.usage.add(self.usage);
        metrics.cost.add(self.cost);
        metrics.window = facts.max_input;
        metrics.max_output = facts.max_output;
        elapsed
    }
}

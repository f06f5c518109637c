//! The turn loop: ask the model, carry out its calls, until there is an outcome.
//!
//! What a run is made of is `agent.rs`, what it has come to so far `run_state.rs`, and what becomes of the calls of
//! one answer `carry_out.rs`.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tenon_core::{
    Ending, EventKind, EventSink, Failure, FinishReason, Message, Origin, Outcome, Request, Success,
    ToolCall, TurnRecord,
};

use crate::ask::{Cause, Unanswered};
use crate::drain::{self, StopOnDrop};
use crate::failures;
use crate::fold::{Telling, Turn};
use crate::hooked::hooks_at_end;
use crate::run_batch::millis_since;
use crate::run_state::Run;
use crate::schema_mode::{Form, Offer};
use crate::{Agent, Audience, Emitter, Limits};

/// A run that is over, with the conversation as it stands: whole turns, every call answered.
pub struct Ended {
    pub outcome: Arc<Outcome>,
    pub history: Vec<Message>,
}

/// What there is to do.
pub(crate) enum Work {
    /// The model is asked this, or goes on where the conversation ends.
    Ask(Option<Message>),
    /// These calls are made, and nobody is asked.
    Calls(Vec<ToolCall>),
}

/// Runs the agent to its outcome. The last event is always `RunFinished`.
pub async fn run(mut agent: Agent, sink: Arc<dyn EventSink>) -> Ended {
    let work = Work::Ask(agent.prompt.take());
    run_work(agent, work, sink).await
}

pub(crate) async fn run_work(mut agent: Agent, work: Work, sink: Arc<dyn EventSink>) -> Ended {
    let started = Instant::now();
    let parent = agent.lineage.call_id().map(str::to_owned);
    let emitter = Arc::new(Emitter::new(sink, Arc::clone(&agent.ids), parent));
    let _nothing_outlives = StopOnDrop(agent.background.clone(), agent.background_ends());
    tracing::info!(session = %agent.info.session_id, model = agent.info.model, depth = agent.lineage.depth(), "run begins");
    emitter.emit(EventKind::RunStarted(Box::new(agent.info.clone())));
    let history = std::mem::take(&mut agent.history);
    if let Work::Ask(Some(prompt)) = &work {
        emitter.emit(EventKind::UserMessage { text: prompt.text(), origin: Origin::Prompt });
    }
    let mut run = Run::new(&agent, Arc::clone(&emitter), history);
    let ending = run.drive_until_stopped(work).await;
    run.put_away(&ending).await;
    let last_words = run.last_words();
    let history = run.leave(&ending).await;
    let mut outcome = run.outcome(ending, millis_since(started));
    hooks_at_end(&agent, &emitter, &mut outcome, last_words).await;
    let outcome = Arc::new(outcome);
    tracing::info!(
        exit_code = outcome.exit_code(),
        turns = outcome.turns,
        ms = outcome.duration_ms,
        "run ended"
    );
    emitter.emit(EventKind::RunFinished(Arc::clone(&outcome)));
    Ended { outcome, history }
}

impl Run<'_> {
    async fn drive_until_stopped(&mut self, work: Work) -> Ending {
        let stop = self.agent.stop.clone();
        let wall_time = self.agent.limits.wall_time;
        let heartbeat = self.agent.heartbeat;
        let emitter = Arc::clone(&self.emitter);
        let background = self.agent.background.clone();
        let set_by = self.agent.limits.wall_time_set_by;
        let drive = async {
            match work {
                Work::Ask(prompt) => self.drive(prompt).await,
                Work::Calls(calls) => self.drive_calls(calls).await,
            }
        };
        let deadline = sleep_or_never(wall_time);
        let ends_by;
        let driven = {
            tokio::pin!(drive, deadline);
            loop {
                tokio::select! {
                    biased;
                    ending = &mut drive => return into_ending(ending),
                    () = stop.cancel().cancelled() => break,
                    () = &mut deadline => {
                        stop.now(Limits::wall_time_reached(wall_time.unwrap_or_default(), set_by));
                        break;
                    }
                    event = background.tasks.next() => drain::take_in(event, &background.news, &emitter),
                    () = background.schedules.fire(&background.tasks) => {}
                    () = sleep_or_never(heartbeat) => emitter.emit(EventKind::Heartbeat),
                }
            }
            ends_by = background.ends_by();
            // What does not stop is dropped here, and with it the commands that it runs.
            tokio::time::timeout(background.time_for_calls(), drive).await
        };
        self.ends_by = Some(ends_by);
        let reason = Box::new(stop.failure());
        match driven {
            // What was accepted before the stop stays accepted.
            Ok(Ok(success)) => Ending::Success(success),
            Ok(Err(failure)) if failure.class == reason.class => Ending::Failure(failure),
            Ok(Err(_)) => Ending::Failure(reason),
            Err(_) => match self.close_accepted() {
                Some(success) => Ending::Success(success),
                None => Ending::Failure(reason),
            },
        }
    }

    async fn drive(&mut self, prompt: Option<Message>) -> Result<Success, Box<Failure>> {
        self.count_besides();
        if let Some(prompt) = self.hooks_at_start(prompt).await? {
            self.tell(prompt.clone(), Origin::Prompt).await?;
            self.compactions.task_is(prompt, self.history.len() - 1);
        }
        loop {
            if self.agent.stop.cancel().is_cancelled() {
                return Err(self.with_attempts(self.agent.stop.failure()));
            }
            self.tell_news().await?;
            self.agent.limits.before_model_call(self.turns).map_err(|failure| {
                let tool = self.agent.contract.as_ref().map(|contract| contract.tool);
                self.with_attempts(failures::with_turn_limit_hint(failure, tool, self.attempts))
            })?;
            let turn = self.next_turn().await?;
            self.said.add(&turn.message.text());
            let calls: Vec<ToolCall> = turn.message.tool_calls().cloned().collect();
            let has_terminal = calls.iter().any(|call| call.terminal);
            match turn.finish {
                FinishReason::Refused => {
                    let failure = failures::refused(&turn.message.text());
                    // A refusal to what was asked goes with it; one in the middle of the work is an answer.
                    if self.prompted.is_none() {
                        self.keep_answer(turn.message);
                    }
                    return Err(self.with_attempts(failure));
                }
                FinishReason::Length if !has_terminal => {
                    self.keep_answer(turn.message);
                    return Err(self.with_attempts(failures::truncated()));
                }
                _ => {}
            }
            self.keep_answer(turn.message);
            if calls.is_empty() {
                if self.hears_more().await {
                    continue;
                }
                let Some(success) = self.finish_without_calls().await? else { continue };
                if self.hears_no_more().await {
                    return Ok(success);
                }
                continue;
            }
            if let Some(success) = self.carry_out(&calls, turn.finish).await? {
                return Ok(success);
            }
        }
    }

    /// The model's next turn, kept as soon as it is whole.
    async fn next_turn(&mut self) -> Result<Turn, Box<Failure>> {
        if self.has_room_from_before()
            && let Some(turn) = self.turn_again()
        {
            return Ok(turn);
        }
        self.make_room().await?;
        let turn = self.asked_turn().await?;
        self.journal(TurnRecord::ModelTurn {
            turn: self.turns,
            model: self.model.clone(),
            message: turn.message.clone(),
            usage: turn.usage,
            finish: turn.finish,
        })
        .await?;
        Ok(turn)
    }

    /// Asks the model. A request that turns out to be too long is made shorter and sent again.
    async fn asked_turn(&mut self) -> Result<Turn, Box<Failure>> {
        let telling = match self.agent.audience {
            Audience::Whole => Telling::AtTheEnd,
            Audience::Live => Telling::Live { snapshots: false },
            Audience::LiveWithSnapshots => Telling::Live { snapshots: true },
        };
        let mut refused = 0;
        loop {
            let offer = self.offer();
            let load = self.context.weigh(&self.agent.system, &offer, &self.history);
            let request = self.request(offer);
            let tokens = self.context.tokens(load);
            self.turns += 1;
            match self.ask(request, tokens, telling).await {
                Ok(turn) => {
                    self.context.learn(load, turn.usage, &turn.message);
                    return Ok(turn);
                }
                Err(Unanswered { failure, cause: Cause::TooLong }) => {
                    // It was no turn: nobody has answered.
                    self.turns -= 1;
                    refused += 1;
                    self.make_room_after_refusal(failure, tokens, refused).await?;
                }
                Err(Unanswered { failure, cause: Cause::Other }) => return Err(self.with_attempts(failure)),
            }
        }
    }

    fn request(&self, offer: Offer) -> Request {
        Request {
            model: self.model.clone(),
            system: self.agent.system.clone(),
            messages: self.history.clone(),
            tools: offer.tools,
            terminal_tool: self.terminal.map(str::to_owned),
            tool_choice: offer.tool_choice,
            response_format: offer.response_format,
            max_output_tokens: self.agent.max_output_tokens,
            sampling: self.agent.sampling,
            reasoning: self.agent.reasoning,
            restartable: self.agent.audience == Audience::Whole,
        }
    }

    /// The model has nothing more to do. `None` means it gets another turn.
    async fn finish_without_calls(&mut self) -> Result<Option<Success>, Box<Failure>> {
        let text = self.history.last().map(Message::text).unwrap_or_default();
        let Some(contract) = &self.agent.contract else {
            if text.trim().is_empty() && self.tool_calls == 0 {
                return Err(Box::new(failures::empty_answer()));
            }
            let stops = self.hooks_let_stop(&text).await?;
            return Ok(stops.then_some(Success { text, payload: None }));
        };
        if self.terminal.is_none() {
            let failure = failures::no_terminal_call(contract.tool, self.turns, &self.said);
            return Err(self.with_attempts(failure));
        }
        if let Some(reminder) = self.asking.remind(contract, self.agent.limits.nudges) {
            if let Some(message) = reminder.warning {
                self.emitter.emit(EventKind::Warning { message });
            }
            self.tell(Message::user(reminder.told), Origin::Reminder).await?;
            return Ok(None);
        }
        Err(self.with_attempts(match self.asking.form() {
            Form::Tool => failures::no_terminal_call(contract.tool, self.turns, &self.said),
            Form::ResponseFormat => failures::no_json_answer(self.turns),
        }))
    }
}

async fn sleep_or_never(time: Option<Duration>) {
    match time {
        Some(time) => tokio::time::sleep(time).await,
        None => std::future::pending().await,
    }
}

fn into_ending(result: Result<Success, Box<Failure>>) -> Ending {
    match result {
        Ok(success) => Ending::Success(success),
        Err(failure) => Ending::Failure(failure),
    }
}

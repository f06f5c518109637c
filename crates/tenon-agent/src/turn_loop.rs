//! The turn loop: ask the model, carry out its calls, until there is an outcome.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::value::RawValue;
use tenon_contract::{Contract, Rejection};
use tenon_core::{
    Budget, Client, Ending, ErrorClass, EventKind, EventSink, Failure, FinishReason, IdSource, Message,
    Metrics, ModelClient, Models, Origin, Outcome, Part, PermissionDenial, Reasoning, Request, Role, RunInfo,
    Sampling, StructuredError, Success, ToolCall, ToolErrorKind, ToolOutcome, ToolResult, ToolSpec,
    TraceContext, TurnJournal, TurnRecord, Violation,
};
use tenon_tools::{Hooks, Permissions, Registry, SessionSource};

use crate::ask::{Cause, Unanswered};
use crate::compact::Compactions;
use crate::context::Context;
use crate::drain::{self, BackgroundEnds, StopOnDrop};
use crate::failures::{self, Said};
use crate::fold::{Telling, Turn};
use crate::history::{self, Unfinished};
use crate::hooked::{Answer, SessionEnd, hooks_at_end};
use crate::payload_words::PayloadWords;
use crate::plan_batch::{Step, plan_batch};
use crate::repeated_call::RepeatedCalls;
use crate::run_batch::{Done, millis_since};
use crate::schema_mode::{Asking, Form, Offer};
use crate::terminal::{accepted, rejected, skipped, terminal_spec};
use crate::{Background, Emitter, Limits, Lineage, Replay, SchemaMode, Stop};

/// Everything one run needs. A session keeps one and runs a clone of it for every turn.
#[derive(Clone)]
pub struct Agent {
    pub model: Arc<dyn ModelClient>,
    pub system: String,
    /// What was said before: a resumed session, or the turns before this one.
    pub history: Vec<Message>,
    /// What is asked now. `None` goes on where the history ends.
    pub prompt: Option<Message>,
    pub registry: Registry,
    pub permissions: Permissions,
    pub contract: Option<Contract>,
    pub schema_mode: SchemaMode,
    pub limits: Limits,
    pub client: Arc<dyn Client>,
    pub journal: Arc<dyn TurnJournal>,
    pub budget: Arc<dyn Budget>,
    pub stop: Stop,
    pub ids: Arc<IdSource>,
    pub info: RunInfo,
    pub audience: Audience,
    /// Denied calls fail the run.
    pub fail_on_denied: bool,
    /// Signs of life while nothing else happens.
    pub heartbeat: Option<Duration>,
    /// Hands a success over (to a file, say) before it is announced; what fails here fails the run.
    pub deliver: Option<Deliver>,
    /// What is known of the models that may be asked: prices and sizes.
    pub models: Models,
    /// How freely the model words its answers.
    pub sampling: Sampling,
    /// How much work it puts into them.
    pub reasoning: Reasoning,
    /// How long one answer may be; `None` is the model's own limit.
    pub max_output_tokens: Option<u64>,
    /// The share of the context that may fill before older parts are replaced by a summary.
    pub compact_at: f64,
    /// Who is told what happens, and may have a say in it. A sub-agent has its caller's
    /// ([`Hooks::for_agent`]).
    pub hooks: Hooks,
    /// Where the session that this run belongs to comes from, when this run begins it.
    pub session_start: Option<SessionSource>,
    pub session_end: SessionEnd,
    /// The run's place in a distributed trace, when there is one.
    pub trace: Option<TraceContext>,
    /// What the run did before it was cut off.
    pub replay: Replay,
    /// What the caller already has to say.
    pub warnings: Vec<String>,
    /// The run itself, or an agent that works for a call of another.
    pub lineage: Lineage,
    /// Work that goes on beside the conversation.
    pub background: Background,
}

pub type Deliver = Arc<dyn Fn(&Success) -> Result<(), Failure> + Send + Sync>;

impl Agent {
    /// Background work of a session goes on between its turns; everybody else's ends with the run.
    pub(crate) fn background_ends(&self) -> BackgroundEnds {
        match (self.session_end, self.lineage.call_id()) {
            (SessionEnd::Later, None) => BackgroundEnds::WithTheSession,
            _ => BackgroundEnds::WithTheRun,
        }
    }
}

/// What whoever listens wants to see while the answer is being written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Audience {
    /// Only whole results: a broken answer can be asked for again.
    Whole,
    /// Messages as they come.
    Live,
    /// Messages as they come, and snapshots of the payload.
    LiveWithSnapshots,
}

/// A run that is over, with the conversation as it stands: whole turns, every call answered.
pub struct Ended {
    pub outcome: Arc<Outcome>,
    pub history: Vec<Message>,
}

/// Runs the agent to its outcome. The last event is always `RunFinished`.
pub async fn run(mut agent: Agent, sink: Arc<dyn EventSink>) -> Ended {
    let started = Instant::now();
    let parent = agent.lineage.call_id().map(str::to_owned);
    let emitter = Arc::new(Emitter::new(sink, Arc::clone(&agent.ids), parent));
    let _nothing_outlives = StopOnDrop(agent.background.clone(), agent.background_ends());
    tracing::info!(session = %agent.info.session_id, model = agent.info.model, depth = agent.lineage.depth(), "run begins");
    emitter.emit(EventKind::RunStarted(Box::new(agent.info.clone())));
    let history = std::mem::take(&mut agent.history);
    let prompt = agent.prompt.take();
    if let Some(prompt) = &prompt {
        emitter.emit(EventKind::UserMessage { text: prompt.text(), origin: Origin::Prompt });
    }
    let mut run = Run::new(&agent, Arc::clone(&emitter), history);
    let ending = run.drive_until_stopped(prompt).await;
    run.put_away(&ending).await;
    let last_words = run.last_words();
    let history = run.take_history();
    let outcome = Arc::new(run.outcome(ending, millis_since(started)));
    hooks_at_end(&agent, &emitter, &outcome, last_words).await;
    tracing::info!(
        exit_code = outcome.exit_code(),
        turns = outcome.turns,
        ms = outcome.duration_ms,
        "run ended"
    );
    emitter.emit(EventKind::RunFinished(Arc::clone(&outcome)));
    Ended { outcome, history }
}

/// A run under way.
pub(crate) struct Run<'a> {
    pub(crate) agent: &'a Agent,
    pub(crate) emitter: Arc<Emitter>,
    pub(crate) turns: u32,
    pub(crate) tool_calls: u32,
    pub(crate) metrics: Metrics,
    pub(crate) denials: Vec<PermissionDenial>,
    /// For what others say about it.
    pub(crate) payload_words: PayloadWords,
    pub(crate) history: Vec<Message>,
    pub(crate) context: Context,
    pub(crate) compactions: Compactions,
    /// How far the calls of the last turn have come.
    pub(crate) batch: Batch,
    /// What the caller had to say, and what came up since.
    pub(crate) warnings: Vec<String>,
    /// Time spent waiting for background work with nothing else to do.
    pub(crate) waited: Duration,
    /// The terminal tool as it is offered.
    terminal_spec: Option<Arc<ToolSpec>>,
    /// The terminal tool's name, unless a rule removed it.
    terminal: Option<&'a str>,
    repeated: RepeatedCalls,
    attempts: u32,
    last_attempt: Option<StructuredError>,
    /// All text of the model so far, for the preview of a failure.
    said: Said,
    asking: Asking,
    /// Who is asked: the chosen model, or the fallback that took over.
    pub(crate) model: String,
    /// What is left of what the run did before.
    pub(crate) replay: Replay,
    pub(crate) api_duration_ms: u64,
    /// What hooks want the model to read with a call's result, by the call's id.
    pub(crate) hook_contexts: Vec<(String, String)>,
    /// A hook wants the run to end once the calls under way are told.
    pub(crate) stopped_by_hook: Option<Failure>,
    /// How often hooks sent the model back to work.
    pub(crate) stops_prevented: u32,
}

/// The calls of one turn while they are carried out.
#[derive(Default)]
pub(crate) struct Batch {
    pub(crate) begun: HashSet<String>,
    pub(crate) results: Vec<ToolResult>,
}

impl<'a> Run<'a> {
    pub(crate) fn new(agent: &'a Agent, emitter: Arc<Emitter>, history: Vec<Message>) -> Run<'a> {
        let terminal = agent.contract.as_ref().filter(|contract| !agent.permissions.removes(contract.tool));
        agent.lineage.begin_run(&history);
        agent.background.news.open();
        Run {
            agent,
            emitter,
            turns: 0,
            tool_calls: 0,
            metrics: Metrics::default(),
            denials: Vec::new(),
            payload_words: PayloadWords::default(),
            compactions: Compactions::new(&history),
            history,
            batch: Batch::default(),
            warnings: agent.warnings.clone(),
            waited: Duration::ZERO,
            context: Context::new(),
            terminal_spec: terminal.map(terminal_spec).map(Arc::new),
            terminal: terminal.map(|contract| contract.tool),
            repeated: RepeatedCalls::default(),
            attempts: 0,
            last_attempt: None,
            said: Said::default(),
            asking: Asking::new(agent.schema_mode),
            model: agent.info.model.clone(),
            replay: agent.replay.clone(),
            api_duration_ms: 0,
            hook_contexts: Vec::new(),
            stopped_by_hook: None,
            stops_prevented: 0,
        }
    }

    /// The text of the model's last turn.
    pub(crate) fn last_words(&self) -> String {
        let last = self.history.iter().rfind(|message| message.role == Role::Assistant);
        last.map(Message::text).unwrap_or_default()
    }

    /// What the model may call now: tools come and go between turns, and the terminal tool stays last.
    pub(crate) fn offered_tools(&self) -> Vec<Arc<ToolSpec>> {
        let mut tools = self.agent.registry.specs();
        tools.extend(self.terminal_spec.clone());
        tools
    }

    /// Adds what the model is told next, kept before it is sent.
    pub(crate) async fn tell(&mut self, message: Message, origin: Origin) -> Result<(), Failure> {
        self.journal(TurnRecord::UserMessage { message: message.clone(), origin }).await?;
        history::tell(&mut self.history, message);
        Ok(())
    }

    /// The conversation as it stands: a run that was stopped may have left calls without an answer.
    pub(crate) fn take_history(&mut self) -> Vec<Message> {
        let Batch { begun, results } = std::mem::take(&mut self.batch);
        history::close_calls(&mut self.history, results, |call| match begun.contains(&call.id) {
            true => Unfinished::MayHaveRun,
            false => Unfinished::NeverBegun,
        });
        std::mem::take(&mut self.history)
    }

    async fn drive_until_stopped(&mut self, prompt: Option<Message>) -> Ending {
        let stop = self.agent.stop.clone();
        let wall_time = self.agent.limits.wall_time;
        let heartbeat = self.agent.heartbeat;
        let emitter = Arc::clone(&self.emitter);
        let background = self.agent.background.clone();
        let set_by = self.agent.limits.wall_time_set_by;
        let drive = self.drive(prompt);
        let deadline = sleep_or_never(wall_time);
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
        let reason = Box::new(stop.failure());
        match tokio::time::timeout(background.shutdown, drive).await {
            // What was accepted before the stop stays accepted.
            Ok(Ok(success)) => Ending::Success(success),
            Ok(Err(failure)) if failure.class == reason.class => Ending::Failure(failure),
            _ => Ending::Failure(reason),
        }
    }

    async fn drive(&mut self, prompt: Option<Message>) -> Result<Success, Box<Failure>> {
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
                    return Err(self.with_attempts(failures::refused(&turn.message.text())));
                }
                FinishReason::Length if !has_terminal => {
                    return Err(self.with_attempts(failures::truncated()));
                }
                _ => {}
            }
            self.history.push(turn.message);
            if calls.is_empty() {
                if self.hears_more().await {
                    continue;
                }
                match self.finish_without_calls().await? {
                    Some(success) if self.agent.background.news.close() => return Ok(success),
                    Some(_) | None => continue,
                }
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

    /// What the next request offers.
    pub(crate) fn offer(&self) -> Offer {
        self.asking.offer(&self.offered_tools(), self.terminal)
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

    /// Carries out the calls of one answer. `Some` when the contract was fulfilled.
    async fn carry_out(
        &mut self,
        calls: &[ToolCall],
        finish: FinishReason,
    ) -> Result<Option<Success>, Box<Failure>> {
        self.batch = Batch::default();
        let siblings = self.agent.contract.as_ref().map(|contract| contract.siblings);
        let steps = plan_batch(calls, siblings, |call| self.judge(call));
        let (captured, terminal) = self.check_terminal_calls(calls, &steps, finish).await?;
        // An answer that fits ends the run, however often the model says it at once.
        if captured.is_none() {
            for call in calls {
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
            self.agent
                .limits
                .after_rejected_attempt(self.attempts)
                .map_err(|failure| self.with_attempts(failure))?;
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
    ) -> Result<(Option<tenon_core::RawJson>, Vec<Option<Done>>), Failure> {
        let mut captured = None;
        let mut done = Vec::new();
        let Some(contract) = &self.agent.contract else { return Ok((captured, done)) };
        for (call, _) in calls.iter().zip(steps).filter(|(_, step)| **step == Step::Terminal) {
            if captured.is_some()
                || self.agent.limits.after_rejected_attempt(self.attempts).is_err() && self.attempts > 0
            {
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
                (FinishReason::Length, _) if call.arguments.trim().is_empty() => Err(Rejection::cut_off()),
                (_, Answer::Changed(arguments)) => contract.schema.check(arguments),
                (_, Answer::AsItIs) => contract.schema.check(&call.arguments),
            };
            let ran_with = Some(match &answer {
                Answer::Changed(arguments) => RawValue::from_string(arguments.clone()).unwrap_or_default(),
                Answer::AsItIs | Answer::Refused(_) => call.input(),
            });
            let (outcome, stored) = match checked {
                Ok(payload) => {
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

    pub(crate) async fn journal(&mut self, record: TurnRecord) -> Result<(), Failure> {
        if self.replay.has(&record) {
            return Ok(());
        }
        self.agent.journal.write(record).await.map_err(|error| {
            Failure::new(ErrorClass::Internal, format!("the run could not be recorded: {error}"))
        })?;
        if let Some(message) = self.agent.journal.degraded() {
            self.warnings.push(message.clone());
            self.emitter.emit(EventKind::RecordingDegraded { message });
        }
        Ok(())
    }

    /// Adds what the contract had received so far, and why it could receive nothing.
    pub(crate) fn with_attempts(&self, mut failure: Failure) -> Box<Failure> {
        if let (Some(contract), None) = (&self.agent.contract, self.terminal) {
            failure = failures::with_removed_tool_hint(failure, contract.tool);
        }
        if failure.structured.is_none() {
            failure.structured.clone_from(&self.last_attempt);
        }
        Box::new(failure)
    }

    pub(crate) fn outcome(mut self, ending: Ending, duration_ms: u64) -> Outcome {
        let helpers = self.agent.lineage.take_helpers();
        self.metrics.merge(&helpers.metrics);
        self.denials.extend(helpers.denials);
        let ending = match ending {
            Ending::Success(_) if self.agent.fail_on_denied && !self.denials.is_empty() => {
                Ending::Failure(Box::new(failures::denied(&self.denials)))
            }
            other => other,
        };
        let ending = match (ending, &self.agent.deliver) {
            (Ending::Success(success), Some(deliver)) => match deliver(&success) {
                Ok(()) => Ending::Success(success),
                // What was paid for is not lost: the result still carries it.
                Err(mut failure) => {
                    failure.structured = success.payload.map(|payload| StructuredError {
                        attempts: self.attempts,
                        candidate: Some(payload),
                        violations: Vec::new(),
                    });
                    Ending::Failure(Box::new(failure))
                }
            },
            (ending, _) => ending,
        };
        Outcome {
            ending,
            turns: self.turns,
            duration_ms,
            api_duration_ms: self.api_duration_ms,
            cost_usd: self.metrics.cost().usd(),
            metrics: self.metrics,
            denials: self.denials,
            warnings: self.warnings,
        }
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

/// The rejected arguments as JSON: themselves when they are JSON, else their text as a JSON string.
fn candidate(call: &ToolCall) -> tenon_core::RawJson {
    if call.arguments.trim().is_empty() {
        return call.input();
    }
    match serde_json::from_str::<serde_json::Value>(&call.arguments) {
        Ok(value) if value.is_object() => call.input(),
        _ => serde_json::value::to_raw_value(&call.arguments).unwrap_or_default(),
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

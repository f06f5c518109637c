//! A run under way: what it has come to so far, and what is made of that when it ends.
//!
//! `turn_loop.rs` drives it; every step of it that has a file of its own (`ask.rs`, `compact.rs`, `carry_out.rs`,
//! `drain.rs`, `hooked.rs`) works on this.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use tenon_core::{
    Ending, ErrorClass, EventKind, Failure, Message, Metrics, Origin, Outcome, PermissionDenial, RawJson,
    Role, StructuredError, ToolCall, ToolResult, ToolSpec, TurnRecord,
};
use tokio::time::Instant;

use crate::compact::Compactions;
use crate::context::Context;
use crate::failures::{self, Said};
use crate::granted::Granted;
use crate::history::{Prompted, tell};
use crate::payload_words::PayloadWords;
use crate::repeated_call::RepeatedCalls;
use crate::schema_mode::{Asking, Offer};
use crate::terminal::terminal_spec;
use crate::{Agent, Emitter, Replay};

/// A run under way.
pub(crate) struct Run<'a> {
    pub(crate) agent: &'a Agent,
    pub(crate) emitter: Arc<Emitter>,
    /// Whoever is asked within the run.
    pub(crate) client: Arc<Granted>,
    pub(crate) turns: u32,
    pub(crate) tool_calls: u32,
    pub(crate) metrics: Metrics,
    pub(crate) denials: Vec<PermissionDenial>,
    /// For what others say about it.
    pub(crate) payload_words: PayloadWords,
    pub(crate) history: Vec<Message>,
    /// What was asked, as long as nobody has answered it.
    pub(crate) prompted: Option<Prompted>,
    /// What somebody has seen of an answer that broke off.
    pub(crate) broken_off: Option<Message>,
    /// The conversation does not fit the model, and nothing more can be left out of it.
    pub(crate) does_not_fit: bool,
    pub(crate) context: Context,
    pub(crate) compactions: Compactions,
    /// How far the calls of the last turn have come.
    pub(crate) batch: Batch,
    /// The answer that fits, from the moment it was accepted.
    pub(crate) captured: Option<Captured>,
    /// Calls beside it that never came to an end.
    pub(crate) closed: Vec<ToolResult>,
    /// When a run that was told to stop is to be over.
    pub(crate) ends_by: Option<Instant>,
    /// What the caller had to say, and what came up since.
    pub(crate) warnings: Vec<String>,
    /// Time spent waiting for background work with nothing else to do.
    pub(crate) waited: Duration,
    /// How often mail made it go on when it had nothing more to do.
    pub(crate) woken: u32,
    /// The terminal tool as it is offered.
    terminal_spec: Option<Arc<ToolSpec>>,
    /// The terminal tool's name, unless a rule removed it.
    pub(crate) terminal: Option<&'a str>,
    pub(crate) repeated: RepeatedCalls,
    pub(crate) attempts: u32,
    pub(crate) last_attempt: Option<StructuredError>,
    /// All text of the model so far, for the preview of a failure.
    pub(crate) said: Said,
    pub(crate) asking: Asking,
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
    /// All of them, when the client asked for them: the conversation does not know of them.
    pub(crate) of_client: Vec<ToolCall>,
}

/// An answer that was accepted, and the call that handed it in.
#[derive(Clone)]
pub(crate) struct Captured {
    pub(crate) call: ToolCall,
    pub(crate) payload: RawJson,
}

impl<'a> Run<'a> {
    pub(crate) fn new(agent: &'a Agent, emitter: Arc<Emitter>, history: Vec<Message>) -> Run<'a> {
        let terminal = agent.contract.as_ref().filter(|contract| !agent.permissions.removes(contract.tool));
        agent.lineage.begin_run(&history);
        agent.background.news.open();
        let client = Granted::new(
            Arc::clone(&agent.client),
            agent.permissions.clone(),
            Arc::clone(&emitter),
            agent.info.sandbox,
        );
        Run {
            agent,
            emitter,
            client: Arc::new(client),
            turns: 0,
            tool_calls: 0,
            metrics: Metrics::default(),
            denials: Vec::new(),
            payload_words: PayloadWords::default(),
            compactions: Compactions::new(&history),
            history,
            prompted: None,
            broken_off: None,
            does_not_fit: false,
            batch: Batch::default(),
            captured: None,
            closed: Vec::new(),
            ends_by: None,
            warnings: agent.warnings.clone(),
            waited: Duration::ZERO,
            woken: 0,
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
        if let Some(before) = self.replay.told() {
            // What the run itself says is made anew; what came from elsewhere is only known from the record.
            self.add_told(if origin == Origin::Notice { before } else { message }, origin);
            return Ok(());
        }
        self.journal(TurnRecord::UserMessage {
            message: message.clone(),
            origin,
            mail: Vec::new(),
            ended: Vec::new(),
        })
        .await?;
        self.add_told(message, origin);
        Ok(())
    }

    /// What the model is told is part of the conversation from here on.
    pub(crate) fn add_told(&mut self, message: Message, origin: Origin) {
        match (&mut self.prompted, origin) {
            (prompted, Origin::Prompt) => *prompted = Some(Prompted::by(&mut self.history, message)),
            (Some(prompted), _) => prompted.tell(&mut self.history, message),
            (None, _) => tell(&mut self.history, message),
        }
    }

    /// What the model said is part of the conversation from here on.
    pub(crate) fn keep_answer(&mut self, message: Message) {
        self.prompted = None;
        self.history.push(message);
    }

    /// What the next request offers.
    pub(crate) fn offer(&self) -> Offer {
        self.asking.offer(&self.offered_tools(), self.terminal)
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
        self.warnings.extend(self.client.take_warnings());
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
            metrics: std::mem::take(&mut self.metrics),
            denials: std::mem::take(&mut self.denials),
            warnings: std::mem::take(&mut self.warnings),
        }
    }
}

impl Drop for Run<'_> {
    /// Nothing is left of a run that has told its outcome.
    fn drop(&mut self) {
        self.agent.lineage.leave_to_caller(&self.metrics, &self.denials);
    }
}

//! Tells a client what became of a command: the line about it, between the beginning and the end of its turn, so that a client
//! that only waits for ends is not left waiting.

use std::sync::{Arc, Mutex, PoisonError};

use tenon_agent::{Agent, Deliver, Emitter, Ended};
use tenon_core::{
    BoxFut, Ending, Event, EventKind, EventSink, Failure, IdSource, Metrics, Outcome, RunInfo, Success,
    Timestamp,
};
use tenon_wire::input::Command;
use tenon_wire::{CommandTold, Replies};

use super::{CommandAnswer, ControlChannel, command_json};
use crate::Lines;

/// Who is told, and of which command.
pub struct Teller {
    pub replies: Replies,
    /// `None` where only the end of a run is written.
    pub lines: Option<Arc<dyn Lines>>,
    pub sink: Arc<dyn EventSink>,
    pub ids: Arc<IdSource>,
    pub prompt_id: Option<String>,
    pub command: Command,
    pub control: ControlChannel,
    /// Hands an answer over before it is announced; what fails here fails the turn.
    pub deliver: Option<Deliver>,
    /// What there is to say besides, with the answer of a command that asks nobody.
    pub warnings: Vec<String>,
}

impl Teller {
    /// The line about the command.
    pub fn tell(&self, answer: &CommandAnswer) {
        let Some(lines) = &self.lines else { return };
        lines.line(self.replies.command(&CommandTold {
            uuid: self.ids.next(),
            time: Timestamp::now(),
            prompt_id: self.prompt_id.as_deref(),
            command: &command_json(&self.command),
            result: &answer.to_json(self.control),
        }));
    }

    /// The line about the command stands within the run that it asks for: right after its beginning.
    pub fn within(self, answer: CommandAnswer, sink: Arc<dyn EventSink>) -> Arc<dyn EventSink> {
        Arc::new(TellAfterStart { sink, to_tell: Mutex::new(Some((self, answer))) })
    }

    /// A command that asks nobody: its answer is the answer of the turn.
    pub fn answered(&self, answer: Result<CommandAnswer, Failure>, info: Option<RunInfo>) -> Arc<Outcome> {
        let emitter = self.emitter();
        if let Some(info) = info {
            emitter.emit(EventKind::RunStarted(Box::new(info)));
        }
        let answer = answer.and_then(|answer| {
            let success = Success { text: answer.content.clone(), payload: None };
            self.delivered(&success).map(|()| (answer, success))
        });
        let outcome = match answer {
            Ok((answer, success)) => {
                self.tell(&answer);
                Outcome {
                    ending: Ending::Success(success),
                    turns: 0,
                    duration_ms: 0,
                    api_duration_ms: 0,
                    metrics: Metrics::default(),
                    denials: Vec::new(),
                    warnings: self.warnings.clone(),
                    cost_usd: Some(0.0),
                }
            }
            Err(failure) => {
                self.tell(&CommandAnswer::of_failure(&failure));
                Outcome::failed_early(failure, self.warnings.clone())
            }
        };
        let outcome = Arc::new(outcome);
        emitter.emit(EventKind::RunFinished(Arc::clone(&outcome)));
        outcome
    }

    /// Has the conversation summarised, and tells what came of it.
    pub async fn compress(self, agent: Agent, instructions: Option<String>) -> Ended {
        let emitter = self.emitter();
        emitter.emit(EventKind::RunStarted(Box::new(agent.info.clone())));
        let sink = Arc::clone(&self.sink);
        let mut ended = tenon_agent::compress(agent, instructions.as_deref(), sink).await;
        if let Ending::Success(success) = &ended.outcome.ending
            && let Err(failure) = self.delivered(success)
        {
            let failed = Outcome { ending: Ending::Failure(Box::new(failure)), ..(*ended.outcome).clone() };
            ended.outcome = Arc::new(failed);
        }
        self.tell(&match &ended.outcome.ending {
            Ending::Success(success) => CommandAnswer::message(&success.text),
            Ending::Failure(failure) => CommandAnswer::of_failure(failure),
        });
        emitter.emit(EventKind::RunFinished(Arc::clone(&ended.outcome)));
        ended
    }

    fn delivered(&self, success: &Success) -> Result<(), Failure> {
        self.deliver.as_ref().map_or(Ok(()), |deliver| deliver(success))
    }

    fn emitter(&self) -> Emitter {
        Emitter::new(Arc::clone(&self.sink), Arc::clone(&self.ids), None)
    }
}

struct TellAfterStart {
    sink: Arc<dyn EventSink>,
    to_tell: Mutex<Option<(Teller, CommandAnswer)>>,
}

impl EventSink for TellAfterStart {
    fn emit(&self, event: Event) {
        let is_start = matches!(event.kind, EventKind::RunStarted(_)) && event.parent.is_none();
        self.sink.emit(event);
        if is_start
            && let Some((teller, answer)) = self.to_tell.lock().unwrap_or_else(PoisonError::into_inner).take()
        {
            teller.tell(&answer);
        }
    }

    fn flush(&self) {
        self.sink.flush();
    }

    fn blocked(&self) -> Option<BoxFut<'_, ()>> {
        self.sink.blocked()
    }
}

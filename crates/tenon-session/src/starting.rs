//! A turn on its way: what it asks is put together, the agent is waited for, and then it runs.
//!
//! All of this happens beside the session (`drive.rs`), which goes on reading lines: a file that takes its time holds up
//! this turn and nothing else, and the turn can be stopped at any moment. One that is stopped before its words are put
//! together leaves the conversation as any other that was stopped: what was typed stays, and can be continued.

use std::collections::VecDeque;
use std::sync::Arc;

use tenon_agent::{Emitter, Ended, Stop};
use tenon_core::{
    BoxFut, EventKind, EventSink, Failure, IdSource, Media, Message, Outcome, Part, Role, RunInfo, ToolCall,
};
use tenon_wire::input::{Command, FileData, InputPart};

use crate::client_result::is_failure;
use crate::drive::GettingReady;
use crate::{CommandAnswer, Lines, Teller};

/// What the model is asked. Files that the turn brings along keep their order.
pub struct Said {
    pub parts: Vec<InputPart>,
    /// What is said of it first, where it was a command that asks.
    pub told: Option<(Command, CommandAnswer)>,
    pub warnings: Vec<String>,
}

/// What a turn is about.
pub(crate) enum Asked {
    Words(BoxFut<'static, Said>),
    /// The conversation goes on where it ended.
    Continuation,
    Compress(Command, Option<String>),
    /// The client's own; the model is not asked.
    Calls(Vec<ToolCall>),
}

pub(crate) type MakeTeller = Box<dyn Fn(Command) -> Teller + Send + Sync>;

pub(crate) struct Starting {
    pub(crate) asked: Asked,
    /// What is still to be done for the session before.
    pub(crate) farewell: Option<BoxFut<'static, ()>>,
    pub(crate) ready: GettingReady,
    /// What the client sent, for a turn that is stopped before more is made of it.
    pub(crate) typed: Vec<InputPart>,
    /// What was said before without asking anything, told first.
    pub(crate) before: Vec<InputPart>,
    /// Told before the words, in the same message.
    pub(crate) preamble: Option<String>,
    /// The files that the turn names, in its order.
    pub(crate) files: VecDeque<Part>,
    pub(crate) teller: MakeTeller,
    pub(crate) history: Vec<Message>,
    /// What a turn says of itself that does not come about.
    pub(crate) info: RunInfo,
    pub(crate) stop: Stop,
    pub(crate) lines: Arc<dyn Lines>,
    pub(crate) sink: Arc<dyn EventSink>,
    pub(crate) ids: Arc<IdSource>,
    pub(crate) prompt_id: String,
}

impl Starting {
    pub(crate) async fn run(mut self) -> Ended {
        if let Some(farewell) = self.farewell.take() {
            farewell.await;
        }
        let (mut warnings, mut told) = (Vec::new(), None);
        let mut prompt = None;
        let mut compress = None;
        let mut calls = Vec::new();
        match std::mem::replace(&mut self.asked, Asked::Continuation) {
            Asked::Words(said) => {
                let parts = tokio::select! {
                    biased;
                    said = said => {
                        (warnings, told) = (said.warnings, said.told);
                        said.parts
                    }
                    () = self.stop.cancel().cancelled() => std::mem::take(&mut self.typed),
                };
                let before = std::mem::take(&mut self.before);
                let files = std::mem::take(&mut self.files);
                prompt = Some(message(before, self.preamble.take(), parts, files));
            }
            Asked::Continuation => {}
            Asked::Compress(command, instructions) => {
                compress = Some(((self.teller)(command), instructions));
            }
            Asked::Calls(asked) => calls = asked,
        }
        let ready = std::mem::replace(&mut self.ready, Box::pin(std::future::pending()));
        let mut agent = match ready.await {
            Ok(agent) => agent,
            Err(failure) => return self.refused(failure),
        };
        agent.history = self.history;
        agent.prompt = prompt.filter(|prompt| !prompt.parts.is_empty());
        agent.stop = self.stop;
        agent.warnings.extend(warnings);
        self.lines.next_turn(&self.prompt_id);
        match compress {
            Some((teller, instructions)) => teller.compress(agent, instructions).await,
            None if !calls.is_empty() => tenon_agent::run_calls(agent, calls, self.sink).await,
            None => {
                let sink = match told {
                    Some((command, answer)) => (self.teller)(command).within(answer, self.sink),
                    None => self.sink,
                };
                tenon_agent::run(agent, sink).await
            }
        }
    }

    /// Nothing was asked, so nothing has changed.
    fn refused(self, failure: Failure) -> Ended {
        self.lines.next_turn(&self.prompt_id);
        let outcome = Arc::new(Outcome::failed_early(failure, Vec::new()));
        let emitter = Emitter::new(self.sink, self.ids, None);
        emitter.emit(EventKind::RunStarted(Box::new(self.info)));
        emitter.emit(EventKind::RunFinished(Arc::clone(&outcome)));
        Ended { outcome, history: self.history }
    }
}

fn message(
    before: Vec<InputPart>,
    preamble: Option<String>,
    parts: Vec<InputPart>,
    mut files: VecDeque<Part>,
) -> Message {
    let mut message = Message { role: Role::User, parts: Vec::with_capacity(parts.len() + 1) };
    let apart = |part| match part {
        InputPart::Text(text) => InputPart::Text(format!("{text}\n\n")),
        other => other,
    };
    let preamble = preamble.map(|preamble| InputPart::Text(format!("{preamble}\n\n")));
    for part in before.into_iter().map(apart).chain(preamble).chain(parts) {
        let how = if is_failure(&part) { "failed" } else { "answered" };
        message.parts.extend(match part {
            InputPart::Text(text) => Some(Part::Text { text }),
            InputPart::File(FileData::Inline { data, mime }) => {
                Some(Part::Media(Media { mime, data: data.into() }))
            }
            InputPart::File(FileData::Path { .. }) => files.pop_front(),
            InputPart::FunctionResponse { name, response, .. } => {
                let name = name.as_deref().unwrap_or("the client");
                Some(Part::Text { text: format!("{name} {how}:\n{response}") })
            }
        });
    }
    message
}

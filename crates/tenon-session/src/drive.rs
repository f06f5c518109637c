//! A session over lines: many turns, one after the other, and control requests at any time.
//!
//! Turns are queued in the order they come and each ends in a result of its own, in that order. A line that cannot be
//! read is answered and costs nothing else. The end of the input ends the session when every turn has been
//! answered. What a control request does is in `control.rs`, what waits in `waiting.rs`, what a cancellation means in
//! `cancel.rs`; what a turn is made of is the [`Host`]'s; how it gets under way is `starting.rs`, and what becomes of one
//! that does not `refused.rs`.

use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use tenon_agent::{Agent, Background, Ended, Stop};
use tenon_core::{
    ApprovalMode, BoxFut, Client, ErrorClass, EventSink, Failure, Id, IdSource, Message, Outcome, Part,
    RunInfo, Timestamp, ToolCall,
};
use tenon_wire::input::{
    Asks, Command, ControlRequest, FileData, Hint, Initialize, Input, InputPart, Meant, RequestOptions, Turn,
    TurnOrigin, read_line,
};
use tenon_wire::{Cancelled, Replies, SessionState};
use tokio::sync::mpsc;

use crate::cancel::{Cancel, taken_back};
use crate::client_result::result_of_client;
use crate::control::refused_start;
use crate::later::{Answer, Later};
use crate::starting::{Asked, MakeTeller, Said, Starting};
use crate::turn_ids::TurnIds;
use crate::waiting::{Held, Prepared, Queue, Waiting};
use crate::waits::{listen, next_line};
use crate::{CommandAnswer, ControlChannel, Lines, Peer, Teller};

/// How long nothing has to be said before a client is told that nothing runs: what is written together comes line by line.
/// A client that has said all it has to say closes its side then, and with it all that could be asked of it.
const QUIET: Duration = Duration::from_millis(20);

/// What a client calls a session that it has no name for yet.
const NEW_SESSION: &str = "_new";

/// What the session is driven by.
#[derive(Debug)]
pub enum Incoming {
    /// A line without its line feed; lines are counted from 1.
    Line { number: u64, bytes: Vec<u8> },
    /// A line that was too long to keep.
    TooLong { number: u64, limit: usize },
}

/// What becomes of words that may be a command.
pub enum Commanded {
    /// They are for the model as they stand.
    NotACommand,
    /// The model is asked this instead. While it is put together the session goes on.
    Say(BoxFut<'static, Said>),
    /// There is nothing to ask, and the conversation may have changed.
    Answered { command: Command, answer: Result<CommandAnswer, Failure> },
    /// The model is asked to summarise the conversation.
    Compress { command: Command, instructions: Option<String> },
}

/// The conversation that turns belong to.
pub struct Conversation {
    pub session_id: Id,
    pub history: Vec<Message>,
    /// What is still to be done for the one before, before anything is asked in this one.
    pub farewell: BoxFut<'static, ()>,
}

/// What a session needs of whoever built it.
pub trait Host: Send {
    /// Something that holds for the turns after it.
    type Change: Send;

    /// Whether a turn with these options can be; nothing changes.
    fn check(&mut self, options: &RequestOptions) -> Result<(), Failure>;
    /// What the next turn is made of, but for its history, prompt and stop. The future ends when
    /// everything that the turn needs is there, or cannot be had, or `stop` is.
    fn agent(&mut self, options: &RequestOptions, stop: &Stop) -> Result<GettingReady, Failure>;
    /// What a turn of this session would say of itself now.
    fn info(&self, session: Id) -> RunInfo;
    /// The conversation that a turn names; `None` goes on with the one there is.
    fn conversation(&mut self, turn: &Turn) -> Result<Option<Conversation>, Failure>;
    /// Typed or declared commands. `history` is the conversation so far. Nothing else is looked at until this is done, so
    /// it waits for nothing but the record.
    fn command<'a>(&'a mut self, turn: &'a Turn, history: &'a mut Vec<Message>) -> BoxFut<'a, Commanded>;
    /// A file that a turn brings along, as a part of the message.
    fn file(&mut self, file: &FileData) -> Result<Part, Failure>;
    fn hint(&mut self, hint: Hint, replies: &Replies);
    fn cancel_hint(&mut self, prompt_id: Option<&str>);
    fn initialize(&mut self, wanted: &Initialize) -> Result<serde_json::Value, Failure>;
    /// Whether a change can be made after all that were prepared before it. It holds once it is made.
    fn prepare(&mut self, request: &ControlRequest) -> Result<Prepared<Self::Change>, Failure>;
    fn make(&mut self, change: Self::Change);
    /// Holds at once, also for the running turn.
    fn set_mode(&mut self, mode: ApprovalMode) -> Result<(), Failure>;
    /// Everything else that is asked of what the host knows and has.
    fn control(&mut self, request: &ControlRequest, history: &[Message]) -> Answer;
    /// What goes on between turns.
    fn background(&self) -> Option<Background>;
    /// How often there is a sign of life while nothing else happens.
    fn heartbeat(&self) -> Option<Duration>;
    /// A turn is over.
    fn turn_ended(&mut self, outcome: &Arc<Outcome>);
    /// Background work of the whole session ends here.
    fn end(&mut self) -> BoxFut<'_, ()>;
    /// Why no turn of the model's can be had in this session.
    fn never_started(&self) -> Option<Failure>;
}

/// A turn's agent, on its way.
pub type GettingReady = BoxFut<'static, Result<Agent, Failure>>;

/// How a session ended.
#[derive(Clone, Debug)]
pub enum Closed {
    /// The input ended, and every turn was answered.
    InOrder,
    /// It was stopped from outside, or by a client that asked for what there is not, or could not start. The last
    /// result says so.
    Failed(Failure),
}

pub struct Session<H: Host> {
    pub host: H,
    pub peer: Arc<Peer>,
    pub lines: Arc<dyn Lines>,
    pub sink: Arc<dyn EventSink>,
    pub replies: Replies,
    pub ids: Arc<IdSource>,
    pub history: Vec<Message>,
    pub queue: Queue<H::Change>,
    /// How long answers that are still to be given may take when the session is over.
    pub shutdown: Duration,
    pub later: Later,
    pub turn_ids: TurnIds,
    /// Why no turn runs: how the client wants its session could not be met.
    pub refused: Option<Failure>,
    /// What is told with the next turn that asks.
    pub said_before: Vec<InputPart>,
}

/// The turn that is being answered.
pub(crate) struct Running {
    pub(crate) stop: Stop,
    pub(crate) prompt_id: String,
    pub(crate) named: NamedBy,
    /// Cancellations that are answered when the turn is over.
    pub(crate) cancels: Vec<Cancel>,
    run: BoxFut<'static, Ended>,
}

impl Running {
    pub(crate) fn is_being_stopped(&self) -> bool {
        self.stop.cancel().is_cancelled()
    }
}

/// Who gave a turn its name.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum NamedBy {
    Client,
    Us,
}

impl<H: Host> Session<H> {
    /// `first` are lines that somebody has read already.
    pub async fn drive(
        mut self,
        first: Vec<Incoming>,
        mut input: mpsc::Receiver<Incoming>,
        stop: Stop,
    ) -> Closed {
        let mut running: Option<Running> = None;
        let mut early = VecDeque::from(first);
        let mut input_ended = false;
        let lines = Arc::clone(&self.lines);
        loop {
            while running.is_none()
                && let Some(next) = self.queue.waiting.pop_front()
            {
                running = self.begin(next).await;
            }
            let is_being_stopped = running.as_ref().is_some_and(Running::is_being_stopped);
            if !is_being_stopped && let Some(held) = self.queue.held.pop_front() {
                match held {
                    Held::Cancel(cancel) => self.cancel(cancel, running.as_mut()),
                    Held::Request { id, request } => self.request(id, &request, running.as_mut()),
                }
                // It may have begun a turn, and the next one may mean that.
                continue;
            }
            if running.is_none() && input_ended {
                self.peer.tell(SessionState::Idle);
                break;
            }
            let (background, heartbeat) = (self.host.background(), self.host.heartbeat());
            let (sink, ids) = (Arc::clone(&self.sink), Arc::clone(&self.ids));
            tokio::select! {
                () = stop.cancel().cancelled(), if self.queue.given_up.is_none() => {
                    input_ended = true;
                    self.give_up(stop.failure(), running.as_ref());
                }
                line = next_line(&mut early, &mut input, &*lines), if !input_ended => match line {
                    Some(line) => {
                        if let Err(failure) = self.take_in(line, running.as_mut()) {
                            input_ended = true;
                            self.give_up(failure, running.as_ref());
                        }
                    }
                    None => {
                        input_ended = true;
                        self.peer.close();
                    }
                },
                () = tokio::time::sleep(QUIET), if running.is_none() && self.peer.has_told_of_work() => {
                    self.peer.tell(SessionState::Idle);
                }
                // The client hears at once; the model with the next turn, which is the client's to ask for.
                () = listen(background, heartbeat, sink, ids), if running.is_none() => {}
                ended = Answered(&mut running) => {
                    if let Some(running) = running.take() {
                        self.turn_ended(ended, running);
                    }
                }
            }
        }
        let given_up = self.later.finish(self.shutdown).await;
        self.not_answered(&given_up);
        self.host.end().await;
        match self.queue.given_up.take().or_else(|| self.host.never_started()) {
            None => Closed::InOrder,
            Some(failure) => {
                self.last_words(&failure);
                self.peer.tell(SessionState::Idle);
                Closed::Failed(failure)
            }
        }
    }

    /// What waited the longest. `None` when it needs no model, or nothing is begun any more.
    async fn begin(&mut self, next: Waiting<H::Change>) -> Option<Running> {
        match next {
            Waiting::Change(change) => self.host.make(change),
            Waiting::TakenBack(turn) => self.fail(turn.prompt_id, taken_back()),
            Waiting::Refused { prompt_id, failure } => self.fail(prompt_id, failure),
            Waiting::Turn(turn) => match self.queue.given_up.clone() {
                Some(failure) => self.fail(turn.prompt_id, failure),
                None => return self.start(*turn).await,
            },
        }
        None
    }

    /// One line of the client. An error ends the session.
    fn take_in(&mut self, line: Incoming, running: Option<&mut Running>) -> Result<(), Failure> {
        let (number, bytes) = match line {
            Incoming::Line { number, bytes } => (number, bytes),
            Incoming::TooLong { number, limit } => {
                self.input_error(number, None, &format!("the line is longer than {limit} bytes"));
                return Ok(());
            }
        };
        let line = match read_line(&bytes) {
            Ok(Some(line)) => line,
            Ok(None) => return Ok(()),
            Err(error) => {
                match &error.request_id {
                    Some(id) => self.lines.line(self.replies.control_response(id, Err(&error.message))),
                    None => self.input_error(number, error.prompt_id.as_deref(), &error.message),
                }
                match error.meant {
                    Some(Meant::Turn) => self.queue_refused(error.prompt_id.clone(), number, &error.message),
                    Some(Meant::Initialize) => self.refused = Some(refused_start(&error.message)),
                    None => {}
                }
                if let Some(id) = &error.unanswered {
                    let _ = self.peer.answer(id, Err(error.message));
                }
                return Ok(());
            }
        };
        self.speaks(&line)?;
        match line.input {
            Input::Turn(turn) => self.queue_turn(*turn, number),
            Input::ControlRequest { id, request } => {
                let is_about_turn =
                    matches!(*request, ControlRequest::Interrupt | ControlRequest::ContinueLastTurn);
                match running.as_deref().is_some_and(Running::is_being_stopped) && is_about_turn {
                    true => self.queue.held.push_back(Held::Request { id, request }),
                    false => self.request(id, &request, running),
                }
            }
            Input::ControlResponse { id, reply } => {
                // Too late or never asked: there is nothing to do about it.
                let _ = self.peer.answer(&id, reply);
            }
            Input::ControlCancel { id } => {
                let given_up = self.later.give_up(id.as_deref().filter(|id| !id.is_empty()));
                self.not_answered(&given_up);
            }
            Input::Unknown { .. } => {}
            Input::Cancel { session_id, prompt_id, request_id } => {
                let cancel = Cancel { prompt_id, request_id };
                match session_id.is_none_or(|named| self.is_present(&named)) {
                    true => self.cancel(cancel, running),
                    false => self.cancelled(&cancel, Cancelled::Noop, "no turn of that session is running"),
                }
            }
            Input::Hint(hint) => self.host.hint(hint, &self.replies),
            Input::HintCancel { prompt_id } => self.host.cancel_hint(prompt_id.as_deref()),
            Input::Heartbeat { .. } => {
                self.lines.line(self.replies.heartbeat(self.ids.next(), Timestamp::now()));
            }
        }
        Ok(())
    }

    fn request(&mut self, id: String, request: &ControlRequest, running: Option<&mut Running>) {
        match self.answer_control(request, running) {
            Answer::Now(answer) => {
                let answer = answer.as_ref().map_err(|failure| failure.message.as_str());
                self.lines.line(self.replies.control_response(&id, answer));
            }
            Answer::Later(answer) => self.later.start(id, self.replies.clone(), answer),
        }
    }

    /// Requests that were given up before there was an answer.
    fn not_answered(&self, ids: &[String]) {
        for id in ids {
            if let Some(line) = self.replies.control_given_up(id) {
                self.lines.line(line);
            }
        }
    }

    fn queue_turn(&mut self, mut turn: Turn, number: u64) {
        turn.line = Some(number);
        let named = turn.prompt_id.as_deref();
        match &turn.origin {
            TurnOrigin::ToolResponse { call_id } => {
                if !self.peer.carried_out(call_id, result_of_client(&turn.parts)) {
                    self.input_error(number, named, &format!("no call `{call_id}` waits for an answer"));
                }
            }
            TurnOrigin::User | TurnOrigin::System => {
                let is_blank = turn.command.is_none()
                    && turn.calls.is_empty()
                    && turn.preamble.is_none()
                    && !turn.continuation
                    && turn
                        .parts
                        .iter()
                        .all(|part| matches!(part, InputPart::Text(text) if text.trim().is_empty()));
                if is_blank {
                    let message = "the message is empty";
                    self.input_error(number, named, message);
                    self.queue_refused(turn.prompt_id.clone(), number, message);
                } else if let Some(failure) = self.refused.clone() {
                    self.queue.waiting.push_back(Waiting::Refused { prompt_id: turn.prompt_id, failure });
                } else {
                    self.queue.push(turn);
                }
            }
        }
    }

    /// A client that waits for a result of everything it says has one of this too, in its turn.
    fn queue_refused(&mut self, prompt_id: Option<String>, number: u64, why: &str) {
        if self.replies.every_turn_has_a_result() {
            let refused = Some(why.to_owned());
            self.queue.push(Turn { prompt_id, refused, line: Some(number), ..Turn::default() });
        }
    }

    /// Whether a line means the session there is. One that the client has no name for yet is this one too.
    fn is_present(&self, named: &str) -> bool {
        named.is_empty() || named == NEW_SESSION || named == self.replies.session_id().to_string()
    }

    /// `None` when the turn was answered without the model.
    async fn start(&mut self, mut turn: Turn) -> Option<Running> {
        if let Some(why) = turn.refused.take() {
            self.fail(turn.prompt_id, Failure::new(ErrorClass::Input, why));
            return None;
        }
        if turn.asks == Asks::WithTheNext {
            self.said_before.append(&mut turn.parts);
            return None;
        }
        // Before anything changes: a turn that is refused leaves everything as it was.
        let before = self.said_before.clone();
        let files =
            self.host.check(&turn.options).and_then(|()| self.files(before.iter().chain(&turn.parts)));
        let mut files = match files {
            Ok(files) => files,
            Err(failure) => {
                self.fail(turn.prompt_id, failure);
                return None;
            }
        };
        let mut farewell = None;
        match self.host.conversation(&turn) {
            Ok(Some(conversation)) => {
                self.history = conversation.history;
                // They were said in another conversation.
                let is_path = |part: &&InputPart| matches!(part, InputPart::File(FileData::Path { .. }));
                files.drain(..before.iter().filter(is_path).count());
                self.said_before.clear();
                self.replies = self.replies.of_session(conversation.session_id);
                self.peer.in_session(conversation.session_id);
                farewell = Some(conversation.farewell);
            }
            Ok(None) => {}
            // There is no such session, so nothing was asked of one.
            Err(failure) => {
                let named = turn.prompt_id.as_deref();
                self.input_error(turn.line.unwrap_or_default(), named, &failure.message);
                if self.replies.every_turn_has_a_result() {
                    self.fail(turn.prompt_id, failure);
                }
                return None;
            }
        }
        let named = if turn.prompt_id.is_some() { NamedBy::Client } else { NamedBy::Us };
        let prompt_id = self.turn_ids.next(self.replies.session_id(), turn.prompt_id.take());
        turn.prompt_id = Some(prompt_id.clone());
        let mut history = match turn.history.is_empty() {
            true => self.history.clone(),
            false => std::mem::take(&mut turn.history),
        };
        let asked = match self.host.command(&turn, &mut history).await {
            Commanded::Answered { command, answer } => {
                self.history = history;
                if let Some(farewell) = farewell {
                    farewell.await;
                }
                self.peer.tell(SessionState::Running);
                self.lines.next_turn(&prompt_id);
                let info = self.host.info(self.replies.session_id());
                let outcome = (self.teller(&turn))(command).answered(answer, Some(info));
                self.queue.last_code = Some(outcome.exit_code());
                return None;
            }
            Commanded::Compress { command, instructions } => Asked::Compress(command, instructions),
            Commanded::Say(said) => Asked::Words(said),
            Commanded::NotACommand if !turn.calls.is_empty() => Asked::Calls(self.client_calls(&mut turn)),
            Commanded::NotACommand if turn.continuation && turn.parts.is_empty() => Asked::Continuation,
            Commanded::NotACommand => {
                let said = Said { parts: turn.parts.clone(), told: None, warnings: Vec::new() };
                Asked::Words(Box::pin(std::future::ready(said)))
            }
        };
        let before = match &asked {
            Asked::Words(_) => std::mem::take(&mut self.said_before),
            Asked::Continuation | Asked::Compress(..) | Asked::Calls(_) => Vec::new(),
        };
        let stop = Stop::default();
        let ready = match self.host.agent(&turn.options, &stop) {
            Ok(ready) => ready,
            Err(failure) => {
                self.failed(&prompt_id, failure);
                return None;
            }
        };
        self.peer.turn_starts(prompt_id.clone(), stop.clone());
        self.peer.tell(SessionState::Running);
        let starting = Starting {
            asked,
            before,
            farewell,
            ready,
            files,
            teller: self.teller(&turn),
            preamble: turn.preamble,
            typed: turn.parts,
            history,
            info: self.host.info(self.replies.session_id()),
            stop: stop.clone(),
            lines: Arc::clone(&self.lines),
            sink: Arc::clone(&self.sink),
            ids: Arc::clone(&self.ids),
            prompt_id: prompt_id.clone(),
        };
        let run = Box::pin(starting.run());
        Some(Running { stop, prompt_id, named, cancels: Vec::new(), run })
    }

    /// The calls that a turn asks for, each with an id.
    fn client_calls(&self, turn: &mut Turn) -> Vec<ToolCall> {
        let calls = std::mem::take(&mut turn.calls).into_iter();
        calls
            .map(|call| ToolCall {
                id: call.call_id.unwrap_or_else(|| format!("client-{}", self.ids.next())),
                name: call.tool,
                arguments: serde_json::Value::Object(call.args).to_string(),
                terminal: false,
                native: None,
            })
            .collect()
    }

    /// The files that a turn brings along.
    fn files<'p>(&mut self, parts: impl Iterator<Item = &'p InputPart>) -> Result<VecDeque<Part>, Failure> {
        let mut files = VecDeque::new();
        for part in parts {
            if let InputPart::File(file @ FileData::Path { .. }) = part {
                files.push_back(self.host.file(file)?);
            }
        }
        Ok(files)
    }

    fn teller(&self, turn: &Turn) -> MakeTeller {
        let control = match self.peer.can_be_asked() {
            true => ControlChannel::On,
            false => ControlChannel::Off,
        };
        let (replies, lines) = (self.replies.clone(), Arc::clone(&self.lines));
        let (sink, ids) = (Arc::clone(&self.sink), Arc::clone(&self.ids));
        let prompt_id = turn.prompt_id.clone();
        Box::new(move |command| Teller {
            replies: replies.clone(),
            lines: Some(Arc::clone(&lines)),
            sink: Arc::clone(&sink),
            ids: Arc::clone(&ids),
            prompt_id: prompt_id.clone(),
            command,
            control,
            deliver: None,
            warnings: Vec::new(),
        })
    }

    fn turn_ended(&mut self, ended: Ended, running: Running) {
        self.history = ended.history;
        self.peer.turn_ends();
        self.queue.last_code = Some(ended.outcome.exit_code());
        self.queue.ended = Some(running.prompt_id);
        self.host.turn_ended(&ended.outcome);
        self.stopped(&running.cancels, &ended.outcome);
    }

    fn input_error(&self, number: u64, prompt_id: Option<&str>, message: &str) {
        self.lines.line(self.replies.input_error(self.ids.next(), number, prompt_id, message));
    }
}

/// Ends with the running turn; never, when there is none.
struct Answered<'a>(&'a mut Option<Running>);

impl Future for Answered<'_> {
    type Output = Ended;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Ended> {
        match self.0.as_mut() {
            Some(running) => running.run.as_mut().poll(cx),
            None => Poll::Pending,
        }
    }
}

//! The embedded model as a model client: a request in, deltas out, computed on a thread of this process.
//!
//! The file is opened when the first request comes and stays open. Requests are answered one after the other:
//! two at once would each be half as fast.

use std::cell::Cell;
use std::sync::Arc;

use serde_json::Value;
use serde_json::value::RawValue;
use tenon_core::{
    Cancel, Delta, DeltaStream, ErrorClass, FinishReason, ModelClient, ModelError, Part, Request, Usage,
};
use tokio::sync::Mutex;
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};

use crate::answer::{Answer, AnswerEnd, How, NoAnswer, check_length};
use crate::document::Pace;
use crate::error::LocalError;
use crate::express::Faith;
use crate::grammar::Constraint;
use crate::loaded::Loaded;
use crate::prompt::{ANSWER, Task, turns};
use crate::sample::Sampling;
use crate::store::{Store, Weights};

/// Times an answer that the grammar alone cannot vouch for is tried, before the run is told of its faults.
const TRIES: u64 = 8;
/// How much chance is added with every try.
const WARMER: f32 = 0.15;
/// Where the first try leaves nothing to chance, the second one has this much.
const WARM: f32 = 0.5;

/// What a model on this machine is made of.
pub struct LocalOptions {
    /// The name in messages.
    pub name: String,
    pub weights: Weights,
    pub store: Store,
    pub threads: usize,
    /// Where a request says nothing else.
    pub sampling: Sampling,
    /// One sentence for people, said at most once each.
    pub notice: Arc<dyn Fn(&str) + Send + Sync>,
}

pub struct LocalModel {
    shared: Arc<Shared>,
}

struct Shared {
    options: LocalOptions,
    loaded: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    loaded: Option<Loaded>,
    told: Vec<String>,
}

impl LocalModel {
    /// Opens nothing yet.
    pub fn new(options: LocalOptions) -> LocalModel {
        LocalModel { shared: Arc::new(Shared { options, loaded: Arc::default() }) }
    }
}

impl ModelClient for LocalModel {
    fn stream(&self, request: Request, cancel: Cancel) -> DeltaStream {
        let shared = Arc::clone(&self.shared);
        let (sender, mut receiver) = unbounded_channel();
        let work = async move {
            let Some(state) = cancel.run_until_cancelled(Arc::clone(&shared.loaded).lock_owned()).await
            else {
                return;
            };
            let done = tokio::task::spawn_blocking(move || {
                let mut state = state;
                let out = Out { sender, cancel };
                let result = shared.respond(&mut state, &request, &out);
                match result {
                    Ok(()) | Err(NoAnswer::Stopped) => {}
                    Err(reason) => drop(out.sender.send(Err(shared.error(reason)))),
                }
            });
            // A panic in the work leaves the stream without an end, which is an error to whoever reads it.
            let _ = done.await;
        };
        let mut work = Box::pin(work);
        let mut working = true;
        Box::pin(futures_util::stream::poll_fn(move |context| {
            if working && work.as_mut().poll(context).is_ready() {
                working = false;
            }
            receiver.poll_recv(context)
        }))
    }
}

struct Out {
    sender: UnboundedSender<Result<Delta, ModelError>>,
    cancel: Cancel,
}

impl Out {
    /// `false` when nobody listens.
    fn give(&self, delta: Delta) -> bool {
        self.sender.send(Ok(delta)).is_ok()
    }

    fn wanted(&self) -> bool {
        !self.cancel.is_cancelled() && !self.sender.is_closed()
    }
}

impl Shared {
    fn respond(&self, state: &mut State, request: &Request, out: &Out) -> Result<(), NoAnswer> {
        if state.loaded.is_none() {
            let LocalOptions { weights, store, threads, notice, .. } = &self.options;
            let ready = store.ready(weights, &mut |text| notice(text), &mut || out.wanted());
            let opened = ready.and_then(|file| Loaded::open(&file, *threads));
            state.loaded = Some(opened.map_err(|error| match error {
                LocalError::Cancelled => NoAnswer::Stopped,
                error => NoAnswer::Failed(told(&error)),
            })?);
        }
        let Some(loaded) = state.loaded.as_mut() else { return Err(NoAnswer::Stopped) };
        let task = Task::of(request);
        let prompt =
            loaded.prompt(&turns(request, &task)).map_err(|error| NoAnswer::Failed(error.to_string()))?;
        check_length(&loaded.engine, &prompt)?;
        let asking = Asking {
            request,
            prompt: &prompt,
            out,
            rejected: rejected(request),
            sampling: sampling(request, self.options.sampling),
        };
        match task {
            Task::Text => asking.text(loaded),
            Task::Payload { tool, schema } => asking.payload(loaded, &tool, &schema, &mut |text| {
                if !state.told.iter().any(|told| told == text) {
                    state.told.push(text.to_owned());
                    (self.options.notice)(text);
                }
            }),
            Task::Calls { schema } => asking.calls(loaded, &schema),
        }
    }

    fn error(&self, reason: NoAnswer) -> ModelError {
        let name = &self.options.name;
        let error = match reason {
            NoAnswer::TooLong { tokens, context } => ModelError {
                context_overflow: true,
                hint: Some(
                    "shorten the prompt or the input, or use a model with a larger context".to_owned(),
                ),
                ..ModelError::new(
                    ErrorClass::Protocol,
                    format!("the request has {tokens} tokens, and `{name}` has a context of {context}"),
                )
            },
            NoAnswer::Stopped => ModelError::new(ErrorClass::Internal, "stopped"),
            NoAnswer::Failed(reason) => {
                ModelError::new(ErrorClass::Config, format!("`{name}` cannot answer: {reason}"))
            }
        };
        ModelError { provider: Some("local".to_owned()), ..error }
    }
}

fn told(error: &LocalError) -> String {
    match error.hint() {
        Some(hint) => format!("{error} ({hint})"),
        None => error.to_string(),
    }
}

fn sampling(request: &Request, usual: Sampling) -> Sampling {
    let tenon_core::Sampling { temperature, top_p } = request.sampling;
    let (warm, share, seed) = match usual {
        Sampling::Greedy => (0.0, 1.0, 0),
        Sampling::Chance { temperature, top_p, seed } => (temperature, top_p, seed),
    };
    let temperature = temperature.map_or(warm, |temperature| temperature as f32);
    let top_p = top_p.map_or(share, |top_p| top_p as f32);
    if temperature > 0.0 { Sampling::Chance { temperature, top_p, seed } } else { Sampling::Greedy }
}

/// Answers to this schema that were refused before: the next one has to be another.
fn rejected(request: &Request) -> u64 {
    let calls = request.messages.iter().flat_map(|message| &message.parts);
    calls.filter(|part| matches!(part, Part::ToolResult(result) if result.is_error)).count() as u64
}

struct Asking<'a> {
    request: &'a Request,
    prompt: &'a [u32],
    out: &'a Out,
    rejected: u64,
    sampling: Sampling,
}

impl Asking<'_> {
    fn text(&self, loaded: &mut Loaded) -> Result<(), NoAnswer> {
        let answer = self
            .ask(loaded, Try::first(self), None, &mut |piece| self.out.give(Delta::Text(piece.to_owned())))?;
        self.finish(&[answer], FinishReason::Stop);
        Ok(())
    }

    fn payload(
        &self,
        loaded: &mut Loaded,
        tool: &str,
        schema: &Value,
        notice: &mut dyn FnMut(&str),
    ) -> Result<(), NoAnswer> {
        let constraint = loaded.vocabulary()?.constrain(schema);
        let faith = constraint.as_ref().map_or(Faith::None, |constraint| constraint.faith);
        if faith == Faith::None && !says_nothing(schema) {
            notice(
                "the schema is more than the embedded model's grammar can express: its answers are only checked when they are complete",
            );
        }
        let call = Call::new(self, tool);
        if faith == Faith::Exact {
            let answer =
                self.ask(loaded, Try::first(self), constraint, &mut |piece| call.give(self.out, piece))?;
            call.end(self, &[answer]);
            return Ok(());
        }
        // Nobody is shown an answer that may be wrong: it is checked first.
        let contract = tenon_contract::Schema::compile(&schema.to_string()).ok();
        let mut answers: Vec<Answer> = Vec::new();
        for number in 0..TRIES {
            let inside = constraint.as_ref().map(|constraint| constraint.again());
            let answer = self.ask(loaded, Try::nth(self, number), inside, &mut |_| true)?;
            let fits = contract.as_ref().is_none_or(|contract| contract.check(&answer.text).is_ok());
            answers.push(answer);
            if fits {
                break;
            }
        }
        if let Some(last) = answers.last() {
            call.give(self.out, &last.text);
        }
        call.end(self, &answers);
        Ok(())
    }

    fn calls(&self, loaded: &mut Loaded, schema: &Value) -> Result<(), NoAnswer> {
        let constraint = loaded.vocabulary()?.constrain(schema);
        let answer = self.ask(loaded, Try::first(self), constraint, &mut |_| true)?;
        match serde_json::from_str::<Chosen<'_>>(&answer.text) {
            Ok(chosen) if chosen.name == ANSWER && self.request.terminal_tool.is_none() => {
                let text = serde_json::from_str::<Value>(chosen.arguments.get()).ok();
                let text = text.as_ref().and_then(|arguments| arguments.get("text")).and_then(Value::as_str);
                self.out.give(Delta::Text(text.unwrap_or_default().to_owned()));
                self.finish(&[answer], FinishReason::Stop);
            }
            Ok(chosen) => {
                let call = Call::new(self, &chosen.name);
                call.give(self.out, chosen.arguments.get());
                call.end(self, &[answer]);
            }
            // Cut off in the middle.
            Err(_) => self.finish(&[answer], FinishReason::Stop),
        }
        Ok(())
    }

    fn ask(
        &self,
        loaded: &mut Loaded,
        attempt: Try,
        constraint: Option<Constraint>,
        told: &mut dyn FnMut(&str) -> bool,
    ) -> Result<Answer, NoAnswer> {
        let how = How {
            sampling: attempt.sampling,
            pace: attempt.pace,
            max_tokens: self.request.max_output_tokens,
            told,
            go_on: &|| self.out.wanted(),
        };
        loaded.answer(self.prompt, constraint, how)
    }

    fn finish(&self, answers: &[Answer], reason: FinishReason) {
        let output: usize = answers.iter().map(|answer| answer.tokens.len()).sum();
        let (input, output) = (self.prompt.len() as u64, output as u64);
        self.out.give(Delta::Usage(Usage { input, output, total: input + output, ..Usage::default() }));
        let cut = answers.last().is_some_and(|answer| answer.ending == AnswerEnd::Cut);
        self.out.give(Delta::Finished(if cut { FinishReason::Length } else { reason }));
    }
}

fn says_nothing(schema: &Value) -> bool {
    schema.as_object().is_some_and(serde_json::Map::is_empty)
}

#[derive(serde::Deserialize)]
struct Chosen<'a> {
    name: String,
    #[serde(borrow)]
    arguments: &'a RawValue,
}

/// How one try is made.
struct Try {
    sampling: Sampling,
    pace: Pace,
}

impl Try {
    fn first(asking: &Asking<'_>) -> Try {
        Try::nth(asking, 0)
    }

    /// The first is the model's best; each of the others has more chance in it; the last is as short as can be.
    fn nth(asking: &Asking<'_>, number: u64) -> Try {
        let number = asking.rejected * TRIES + number;
        let pace = if number % TRIES == TRIES - 1 { Pace::Close } else { Pace::Free };
        if number == 0 {
            return Try { sampling: asking.sampling, pace };
        }
        let (warm, top_p, seed) = match asking.sampling {
            Sampling::Greedy => (WARM, 1.0, 0),
            Sampling::Chance { temperature, top_p, seed } => (temperature, top_p, seed),
        };
        let temperature = warm + WARMER * (number % TRIES) as f32;
        let seed = seed.wrapping_mul(0x9e37_79b9).wrapping_add(number);
        Try { sampling: Sampling::Chance { temperature, top_p, seed }, pace }
    }
}

/// The call that an answer stands for.
struct Call {
    id: String,
    name: String,
    started: Cell<bool>,
}

impl Call {
    fn new(asking: &Asking<'_>, name: &str) -> Call {
        let used = |id: &str| {
            asking.request.messages.iter().flat_map(tenon_core::Message::tool_calls).any(|call| call.id == id)
        };
        let mut number = asking.request.messages.len();
        let mut id = format!("local_{number}");
        while used(&id) {
            number += 1;
            id = format!("local_{number}");
        }
        Call { id, name: name.to_owned(), started: Cell::new(false) }
    }

    /// A piece of the arguments; before the first, that there is a call.
    fn give(&self, out: &Out, piece: &str) -> bool {
        let started = self.started.replace(true)
            || out.give(Delta::ToolCallStarted { index: 0, id: self.id.clone(), name: self.name.clone() });
        started && out.give(Delta::ToolCallArguments { index: 0, fragment: piece.to_owned() })
    }

    fn end(&self, asking: &Asking<'_>, answers: &[Answer]) {
        if self.started.get() {
            asking.out.give(Delta::ToolCallEnded { index: 0 });
        }
        asking.finish(answers, FinishReason::ToolCalls);
    }
}

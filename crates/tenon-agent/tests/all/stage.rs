//! Several agents at once: a model that answers each of them from a part of its own, with gates that hold
//! an answer back until the test, or an event, opens them.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::StreamExt;
use tenon_agent::{Agent, AgentType, Background, Ended, SessionEnd, Subagents};
use tenon_contract::{Contract, Schema};
use tenon_core::{
    Cancel, Delta, DeltaStream, Event, EventKind, EventSink, FinishReason, MemoryJournal, ModelClient,
    Outcome, Request, TaskStatus, Timestamp, Usage,
};
use tenon_tools::{Clock, OutputStore, Schedules};
use tokio::sync::Semaphore;

use crate::script::{Answer, calls, noting_tools, plain_agent, text};

/// Answers wait at a gate until it is open.
#[derive(Clone)]
pub struct Gate(Arc<Semaphore>);

impl Gate {
    pub fn new() -> Gate {
        Gate(Arc::new(Semaphore::new(0)))
    }

    pub fn open(&self) {
        self.0.add_permits(1_000);
    }

    async fn pass(&self) {
        self.0.acquire().await.unwrap().forget();
    }
}

/// One answer of one agent.
pub struct Line {
    answer: Answer,
    gate: Option<Gate>,
    /// Fills in arguments that only the conversation knows, such as the id of a task.
    arguments: Option<Arguments>,
}

type Arguments = Box<dyn Fn(&Request) -> String + Send>;

pub fn says(words: &str) -> Line {
    Line { answer: text(words), gate: None, arguments: None }
}

pub fn does(made: &[(&str, &str, &str)]) -> Line {
    Line { answer: calls(made), gate: None, arguments: None }
}

pub fn fails(error: tenon_core::ModelError) -> Line {
    Line { answer: vec![Err(error)], gate: None, arguments: None }
}

/// A call whose arguments depend on what the model was told.
pub fn does_with(id: &str, name: &str, arguments: impl Fn(&Request) -> String + Send + 'static) -> Line {
    Line { answer: calls(&[(id, name, "")]), gate: None, arguments: Some(Box::new(arguments)) }
}

impl Line {
    pub fn after(mut self, gate: &Gate) -> Line {
        self.gate = Some(gate.clone());
        self
    }

    pub fn using(mut self, input: u64, output: u64) -> Line {
        let usage = Usage { input, output, total: input + output, ..Usage::default() };
        self.answer.insert(0, Ok(Delta::Usage(usage)));
        self
    }

    pub fn cut(mut self, reason: FinishReason) -> Line {
        self.answer.pop();
        self.answer.push(Ok(Delta::Finished(reason)));
        self
    }
}

/// A model with a part for each prompt.
#[derive(Default)]
pub struct Cast {
    parts: Mutex<HashMap<String, VecDeque<Line>>>,
    pub requests: Mutex<Vec<Request>>,
}

impl ModelClient for Cast {
    fn stream(&self, request: Request, _cancel: Cancel) -> DeltaStream {
        let prompt = request.messages[0].text();
        let line = self
            .parts
            .lock()
            .unwrap()
            .get_mut(&prompt)
            .and_then(VecDeque::pop_front)
            .unwrap_or_else(|| panic!("`{prompt}` has another line: {:?}", request.messages.last()));
        let Line { mut answer, gate, arguments } = line;
        if let Some(arguments) = arguments {
            let fragment = arguments(&request);
            answer[1] = Ok(Delta::ToolCallArguments { index: 0, fragment });
        }
        self.requests.lock().unwrap().push(request);
        let opened = async move {
            if let Some(gate) = gate {
                gate.pass().await;
            }
            futures_util::stream::iter(answer)
        };
        Box::pin(futures_util::stream::once(opened).flatten())
    }
}

type OnEvent = Box<dyn Fn(&Event) + Send + Sync>;

/// Keeps events, and lets a test act on one.
pub struct Watched {
    pub events: Mutex<Vec<Event>>,
    on: Vec<OnEvent>,
}

impl EventSink for Watched {
    fn emit(&self, event: Event) {
        self.on.iter().for_each(|on| on(&event));
        self.events.lock().unwrap().push(event);
    }
}

pub struct Stage {
    pub cast: Arc<Cast>,
    pub agent: Agent,
    pub types: Vec<AgentType>,
    pub max_depth: u32,
    pub journal: MemoryJournal,
    pub ran: Arc<Mutex<Vec<String>>>,
    pub outputs: OutputStore,
    on: Vec<OnEvent>,
}

impl Stage {
    /// The run itself plays `prompt`; agents play the parts of their prompts.
    pub fn new(parts: Vec<(&str, Vec<Line>)>) -> Stage {
        let parts = parts.into_iter().map(|(prompt, lines)| (prompt.to_owned(), lines.into())).collect();
        let cast = Arc::new(Cast { parts: Mutex::new(parts), requests: Mutex::default() });
        let ran = Arc::default();
        let journal = MemoryJournal::default();
        let mut agent = plain_agent(Arc::clone(&cast) as Arc<dyn ModelClient>);
        agent.registry = noting_tools(&ran);
        agent.journal = Arc::new(journal.clone());
        agent.session_end = SessionEnd::Here;
        Stage {
            cast,
            agent,
            types: AgentType::built_in(),
            max_depth: 5,
            journal,
            ran,
            outputs: OutputStore::none(),
            on: Vec::new(),
        }
    }

    pub fn schema(mut self, schema: &str) -> Stage {
        self.agent.contract = Some(Contract::structured_output(Schema::compile(schema).unwrap()));
        self
    }

    pub fn waiting(mut self, wait: Duration) -> Stage {
        self.agent.background.wait = wait;
        self
    }

    /// The run's clock stands at this moment (milliseconds), in UTC, and its schedules go by it.
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Stage {
        let schedules = Schedules::new(clock, Arc::clone(&self.agent.ids));
        for tool in schedules.tools() {
            self.agent.registry.add(tool).unwrap();
        }
        self.agent.background =
            Background::new(Arc::clone(&self.agent.ids), schedules, self.agent.background.wait);
        self
    }

    pub fn on(mut self, act: impl Fn(&Event) + Send + Sync + 'static) -> Stage {
        self.on.push(Box::new(act));
        self
    }

    /// Opens a gate when an event is seen.
    pub fn opens(self, gate: &Gate, at: impl Fn(&Event) -> bool + Send + Sync + 'static) -> Stage {
        let gate = gate.clone();
        self.on(move |event| {
            if at(event) {
                gate.open();
            }
        })
    }

    pub fn play(self) -> Performance {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(self.perform())
    }

    pub async fn perform(mut self) -> Performance {
        let subagents = Subagents {
            types: self.types,
            max_depth: self.max_depth,
            outputs: self.outputs,
            own_tools: Arc::new(|_| Vec::new()),
            memory: Default::default(),
        };
        Arc::new(subagents).offer_to(&mut self.agent);
        let tasks = self.agent.background.tasks.clone();
        let sink = Arc::new(Watched { events: Mutex::default(), on: self.on });
        let Ended { outcome, .. } =
            tenon_agent::run(self.agent, Arc::clone(&sink) as Arc<dyn EventSink>).await;
        assert_eq!(tasks.running(), [], "nothing is left in the background");
        // Whoever still had something to say has had time to.
        for _ in 0..10 {
            tokio::task::yield_now().await;
        }
        let events = std::mem::take(&mut *sink.events.lock().unwrap());
        assert!(
            matches!(events.last(), Some(Event { kind: EventKind::RunFinished(_), parent: None, .. })),
            "the outcome is the last event: {:?}",
            events.last()
        );
        let ran = self.ran.lock().unwrap().clone();
        Performance { outcome, events, ran, cast: self.cast, journal: self.journal }
    }
}

pub struct Performance {
    pub outcome: Arc<Outcome>,
    pub events: Vec<Event>,
    pub ran: Vec<String>,
    pub cast: Arc<Cast>,
    pub journal: MemoryJournal,
}

impl Performance {
    /// The final text or payload, or the failure.
    pub fn ending(&self) -> Result<&str, String> {
        match &self.outcome.ending {
            tenon_core::Ending::Success(success) => Ok(&success.text),
            tenon_core::Ending::Failure(failure) => {
                Err(format!("{}: {}", failure.class.name(), failure.message))
            }
        }
    }

    /// What the model heard as the result of a call.
    pub fn result_of(&self, call: &str) -> String {
        let requests = self.cast.requests.lock().unwrap();
        let parts =
            requests.iter().rev().flat_map(|request| &request.messages).flat_map(|message| &message.parts);
        parts
            .into_iter()
            .find_map(|part| match part {
                tenon_core::Part::ToolResult(result) if result.call_id == call => {
                    Some(result.content.clone())
                }
                _ => None,
            })
            .unwrap_or_else(|| panic!("there is a result of `{call}`"))
    }

    /// The requests of an agent, by its prompt.
    pub fn requests_of(&self, prompt: &str) -> Vec<Request> {
        let requests = self.cast.requests.lock().unwrap();
        requests.iter().filter(|request| request.messages[0].text() == prompt).cloned().collect()
    }

    /// Everything in a line each, by whom.
    pub fn told(&self) -> Vec<String> {
        self.events.iter().filter_map(shown).collect()
    }

    pub fn ends(&self) -> Vec<(TaskStatus, String)> {
        let ends = self.events.iter().filter_map(|event| match &event.kind {
            EventKind::TaskEnded(end) => Some((end.status, end.summary.clone())),
            _ => None,
        });
        ends.collect()
    }

    /// Every task that started has ended, once, and after it started.
    pub fn assert_tasks_are_whole(&self) {
        let mut open = Vec::new();
        for event in &self.events {
            match &event.kind {
                EventKind::TaskStarted(task) => open.push(task.task_id.clone()),
                EventKind::TaskEnded(end) => {
                    let at = open.iter().position(|id| *id == end.task_id).expect("it had started");
                    open.remove(at);
                }
                _ => {}
            }
        }
        assert_eq!(open, Vec::<String>::new());
    }
}

fn shown(event: &Event) -> Option<String> {
    let what = match &event.kind {
        EventKind::RunStarted(_) => "starts".to_owned(),
        EventKind::UserMessage { text, .. } => format!("hears {text}"),
        EventKind::ToolStarted { call_id, .. } => format!("calls {call_id}"),
        EventKind::ToolFinished(report) => format!("gets {}", report.call_id),
        EventKind::PartStopped { content: tenon_core::Part::Text { text }, .. } => format!("says {text}"),
        EventKind::TaskStarted(_) => "task starts".to_owned(),
        EventKind::TaskEnded(end) => format!("task {}", end.status.name()),
        EventKind::Warning { message } => format!("warns {message}"),
        EventKind::RunFinished(_) => "ends".to_owned(),
        _ => return None,
    };
    Some(format!("{}: {what}", event.parent.as_deref().unwrap_or("run")))
}

/// A clock that starts where it is told, and goes on as clocks do.
pub struct From {
    millis: u64,
    began: std::time::Instant,
}

impl From {
    pub fn millis(millis: u64) -> Arc<From> {
        Arc::new(From { millis, began: std::time::Instant::now() })
    }
}

impl Clock for From {
    fn now(&self) -> Timestamp {
        Timestamp(self.millis + u64::try_from(self.began.elapsed().as_millis()).unwrap())
    }

    fn offset_at(&self, _unix_seconds: i64) -> i64 {
        0
    }
}

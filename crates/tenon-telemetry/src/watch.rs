//! Turns durable events into spans and measurements. No I/O, no clock: times are those of the events.
//!
//! Spans nest as the work does: a run holds its turns, a turn its model requests and tool calls, a tool call
//! the agent or the background task that it started. All ids follow from the run's [`TraceContext`].

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use tenon_core::{
    DurableEvent, Ending, ErrorClass, Event, EventKind, Outcome, RunInfo, TaskEnd, TaskStart, Timestamp,
    ToolErrorKind, ToolReport, TraceContext, Usage,
};

use crate::data::{Attribute, Span, SpanEnding, SpanEvent, SpanKind, attribute};
use crate::metrics::Metrics;
use crate::names;

/// Who answers for a model, as far as the run knows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The provider's name in tenon.
    pub provider: String,
    /// Host and port of its server.
    pub address: Option<String>,
    pub port: Option<u16>,
}

/// Are spans wanted at all?
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Spans {
    Record,
    /// Whoever began the trace does not record it, or only metrics are exported.
    Skip,
}

pub(crate) struct Watch {
    /// The span of the first run.
    first_run: TraceContext,
    /// The span of whoever started us.
    outer: Option<u64>,
    spans: Spans,
    /// Runs so far: a session has many, each with a span of its own.
    runs: u32,
    places: HashMap<String, Place>,
    /// The agents at work, by the tool call they work for.
    agents: HashMap<Option<String>, Agent>,
    pub(crate) metrics: Metrics,
}

impl Watch {
    pub(crate) fn new(first_run: TraceContext, outer: Option<u64>, spans: Spans, since: Timestamp) -> Watch {
        let (places, agents) = (HashMap::new(), HashMap::new());
        Watch { first_run, outer, spans, runs: 0, places, agents, metrics: Metrics::new(since) }
    }

    /// The context of the run that begins next.
    pub(crate) fn next_run(&self) -> TraceContext {
        match self.runs {
            0 => self.first_run.clone(),
            before => self.first_run.below(&format!("run {}", before + 1)),
        }
    }

    pub(crate) fn know(&mut self, model: &str, place: Place) {
        self.places.insert(model.to_owned(), place);
    }

    /// Whether [`Watch::see`] would do anything with it: most events are pieces of answers.
    pub(crate) fn cares_about(kind: &EventKind) -> bool {
        matches!(
            kind,
            EventKind::RunStarted(_)
                | EventKind::Asking { .. }
                | EventKind::TurnFinished { .. }
                | EventKind::ToolStarted { .. }
                | EventKind::ToolFinished(_)
                | EventKind::Retrying { .. }
                | EventKind::ModelFallback { .. }
                | EventKind::Compacted { .. }
                | EventKind::TaskStarted(_)
                | EventKind::TaskEnded(_)
                | EventKind::RunFinished(_)
        )
    }

    /// The spans that this event ends.
    pub(crate) fn see(&mut self, event: &DurableEvent) -> Vec<Span> {
        let event = event.event();
        if !Watch::cares_about(&event.kind) {
            return Vec::new();
        }
        let mut agent = match self.agents.remove(&event.parent) {
            Some(agent) => agent,
            None => self.begin(event),
        };
        let mut ended = Vec::new();
        let mut step =
            Step { places: &self.places, metrics: &mut self.metrics, ended: &mut ended, now: event.time };
        match &event.kind {
            EventKind::RunStarted(info) => agent.introduce(info),
            EventKind::Asking { turn, model } => agent.ask(*turn, model, &mut step),
            EventKind::Retrying { wait_ms, class, .. } => agent.retry(*wait_ms, class, &mut step),
            EventKind::ModelFallback { to, status, .. } => agent.fall_back(to, *status, &mut step),
            EventKind::TurnFinished { usage, .. } => agent.end_request(Answer::Came(*usage), &mut step),
            EventKind::ToolStarted { call_id, name, terminal } => {
                agent.known_calls.insert(call_id.clone());
                let call = Call { start: event.time, name: name.clone(), terminal: *terminal };
                agent.calls.insert(call_id.clone(), call);
            }
            EventKind::ToolFinished(report) => agent.end_call(report, &mut step),
            EventKind::TaskStarted(task) => agent.start_task(task, event.time),
            EventKind::TaskEnded(task) => agent.end_task(task, &mut step),
            EventKind::Compacted { before_tokens, after_tokens, .. } => agent.events.push(SpanEvent {
                time: event.time,
                name: names::COMPACTION,
                attributes: vec![
                    attribute(names::TOKENS_BEFORE, *before_tokens),
                    attribute(names::TOKENS_AFTER, *after_tokens),
                ],
            }),
            EventKind::RunFinished(outcome) => agent.finish(outcome, &mut step),
            _ => {}
        }
        if !matches!(event.kind, EventKind::RunFinished(_)) {
            self.agents.insert(event.parent.clone(), agent);
        }
        match self.spans {
            Spans::Record => ended,
            Spans::Skip => Vec::new(),
        }
    }

    fn begin(&mut self, event: &Event) -> Agent {
        let Some(call) = &event.parent else {
            let context = self.next_run();
            self.runs += 1;
            return Agent::new(context, self.outer, event.time);
        };
        // Agents number their calls each for itself; of two that know this one, the one that still waits for it
        // is meant.
        let asked = self.agents.values().find(|agent| agent.calls.contains_key(call));
        let asked = asked.or_else(|| self.agents.values().find(|agent| agent.known_calls.contains(call)));
        let context = asked.map_or(&self.first_run, |agent| &agent.context).call(call);
        Agent::new(context.agent(), Some(context.span_id()), event.time)
    }
}

/// What an agent's step may touch besides itself.
struct Step<'a> {
    places: &'a HashMap<String, Place>,
    metrics: &'a mut Metrics,
    ended: &'a mut Vec<Span>,
    now: Timestamp,
}

struct Agent {
    context: TraceContext,
    parent: Option<u64>,
    started: Timestamp,
    session: Option<String>,
    model: Option<String>,
    channel: Option<String>,
    turn: Option<Turn>,
    request: Option<Request>,
    /// Model requests so far, failed ones included.
    requests: u32,
    calls: HashMap<String, Call>,
    known_calls: HashSet<String>,
    tasks: HashMap<String, Task>,
    events: Vec<SpanEvent>,
}

struct Turn {
    number: u32,
    context: TraceContext,
    start: Timestamp,
}

struct Request {
    model: String,
    start: Timestamp,
    /// 1 for the first of a turn.
    attempt: u32,
}

struct Call {
    start: Timestamp,
    name: String,
    terminal: bool,
}

struct Task {
    start: Timestamp,
    kind: &'static str,
    call_id: Option<String>,
}

/// What came of a model request.
enum Answer {
    Came(Usage),
    Failed { class: String, status: Option<u16> },
}

impl Agent {
    fn new(context: TraceContext, parent: Option<u64>, started: Timestamp) -> Agent {
        Agent {
            context,
            parent,
            started,
            session: None,
            model: None,
            channel: None,
            turn: None,
            request: None,
            requests: 0,
            calls: HashMap::new(),
            known_calls: HashSet::new(),
            tasks: HashMap::new(),
            events: Vec::new(),
        }
    }

    fn introduce(&mut self, info: &RunInfo) {
        self.session = Some(info.session_id.to_string());
        self.model = Some(info.model.clone());
        self.channel.clone_from(&info.channel);
    }

    fn ask(&mut self, turn: u32, model: &str, step: &mut Step<'_>) {
        self.end_turn(step);
        let context = self.context.below(&format!("turn {turn}"));
        self.turn = Some(Turn { number: turn, context, start: step.now });
        self.request = Some(Request { model: model.to_owned(), start: step.now, attempt: 1 });
    }

    fn retry(&mut self, wait_ms: u64, class: &str, step: &mut Step<'_>) {
        let Some(Request { model, attempt, .. }) = &self.request else { return };
        let (model, attempt) = (model.clone(), attempt + 1);
        self.end_request(Answer::Failed { class: class.to_owned(), status: None }, step);
        let start = Timestamp(step.now.0.saturating_add(wait_ms));
        self.request = Some(Request { model, start, attempt });
    }

    fn fall_back(&mut self, to: &str, status: Option<u16>, step: &mut Step<'_>) {
        let Some(Request { attempt, .. }) = &self.request else { return };
        let attempt = attempt + 1;
        // Only these two make a model give way to another.
        let class = if status == Some(429) { ErrorClass::RateLimited } else { ErrorClass::Overloaded };
        self.end_request(Answer::Failed { class: class.name().to_owned(), status }, step);
        self.request = Some(Request { model: to.to_owned(), start: step.now, attempt });
    }

    fn end_request(&mut self, answer: Answer, step: &mut Step<'_>) {
        // One that was to begin after a wait never began.
        let Some(request) = self.request.take().filter(|request| request.start <= step.now) else { return };
        self.requests += 1;
        let mut attributes = operation(names::CHAT, Some(&request.model), step.places);
        let error = match &answer {
            Answer::Came(_) => None,
            Answer::Failed { class, .. } => Some(class.as_str()),
        };
        attributes.extend(error.map(|class| attribute(names::ERROR_TYPE, class)));
        step.metrics.duration(attributes.clone(), step.now.0 - request.start.0);
        if error.is_some() {
            step.metrics.error(attributes.clone());
        }
        if let Answer::Came(usage) = &answer {
            for (kind, count) in [("input", usage.input), ("output", usage.output)] {
                let mut attributes = attributes.clone();
                attributes.push(attribute(names::TOKEN_TYPE, kind));
                step.metrics.tokens(attributes, count);
            }
        }
        match answer {
            Answer::Came(usage) => attributes.extend(tokens(usage)),
            Answer::Failed { status, .. } => {
                attributes.extend(status.map(|status| attribute(names::HTTP_STATUS, u64::from(status))));
            }
        }
        attributes.extend(self.conversation());
        attributes.push(attribute(names::ATTEMPT, u64::from(request.attempt)));
        let context = self.context.below(&format!("request {}", self.requests));
        let name = format!("{} {}", names::CHAT, request.model);
        let (parent, start) = (Some(self.in_turn()), request.start);
        step.ended
            .push(span(Ended { context, parent, name, kind: SpanKind::Client, start, attributes }, step.now));
    }

    fn end_turn(&mut self, step: &mut Step<'_>) {
        let Some(turn) = self.turn.take() else { return };
        let mut attributes = vec![attribute(names::TURN, u64::from(turn.number))];
        attributes.extend(self.conversation());
        let (context, parent) = (turn.context, Some(self.context.span_id()));
        let name = names::TURN_SPAN.to_owned();
        let ended = Ended { context, parent, name, kind: SpanKind::Internal, start: turn.start, attributes };
        step.ended.push(span(ended, step.now));
    }

    fn end_call(&mut self, report: &ToolReport, step: &mut Step<'_>) {
        self.known_calls.insert(report.call_id.clone());
        let open = self.calls.remove(&report.call_id);
        let error = report.error.map(names::tool_error);
        // A name that the model made up is something the model said.
        let name = (report.error != Some(ToolErrorKind::Unknown)).then_some(report.name.as_str());
        let start = open.map_or(Timestamp(step.now.0.saturating_sub(report.duration_ms)), |call| call.start);
        // Calls that ran side by side are reported together; each took as long as it took.
        let end = Timestamp(step.now.0.min(start.0.saturating_add(report.duration_ms)));
        self.call_is_over(step, &report.call_id, Over { name, terminal: report.terminal, error, start, end });
    }

    fn call_is_over(&self, step: &mut Step<'_>, call_id: &str, call: Over<'_>) {
        let mut attributes = operation(names::EXECUTE_TOOL, None, step.places);
        attributes.extend(call.name.map(|name| attribute(names::TOOL_NAME, name)));
        attributes.extend(call.error.map(|error| attribute(names::ERROR_TYPE, error)));
        step.metrics.duration(attributes.clone(), call.end.0.saturating_sub(call.start.0));
        step.metrics.tool_call(attributes.clone());
        if call.error.is_some() {
            step.metrics.error(attributes.clone());
        }
        attributes.push(attribute(names::TOOL_CALL_ID, call_id));
        attributes.push(attribute(names::TOOL_TYPE, "function"));
        attributes.push(attribute(names::TERMINAL, call.terminal));
        attributes.extend(self.conversation());
        let name = match call.name {
            Some(name) => format!("{} {name}", names::EXECUTE_TOOL),
            None => names::EXECUTE_TOOL.to_owned(),
        };
        let ended = Ended {
            context: self.context.call(call_id),
            parent: Some(self.in_turn()),
            name,
            kind: SpanKind::Internal,
            start: call.start,
            attributes,
        };
        step.ended.push(span(ended, call.end));
    }

    fn start_task(&mut self, task: &TaskStart, start: Timestamp) {
        let open = Task { start, kind: task.kind.name(), call_id: task.call_id.clone() };
        self.tasks.insert(task.task_id.clone(), open);
    }

    fn end_task(&mut self, task: &TaskEnd, step: &mut Step<'_>) {
        let start = Timestamp(step.now.0.saturating_sub(task.duration_ms));
        let open = self.tasks.remove(&task.task_id);
        let open = open.unwrap_or(Task { start, kind: task.kind.name(), call_id: task.call_id.clone() });
        self.task_is_over(step, &task.task_id, &open, names::task_error(task.status));
    }

    fn task_is_over(&self, step: &mut Step<'_>, task_id: &str, task: &Task, error: Option<&str>) {
        let mut attributes = vec![attribute(names::TASK_KIND, task.kind), attribute(names::TASK_ID, task_id)];
        attributes.extend(error.map(|error| attribute(names::ERROR_TYPE, error)));
        attributes.extend(self.conversation());
        let context = self.context.below(&format!("task {task_id}"));
        let started_by = task.call_id.as_ref().map(|call| self.context.call(call));
        let parent = Some(started_by.as_ref().unwrap_or(&self.context).span_id());
        let (name, start) = (names::TASK_SPAN.to_owned(), task.start);
        step.ended.push(span(
            Ended { context, parent, name, kind: SpanKind::Internal, start, attributes },
            step.now,
        ));
    }

    /// Ends whatever is still open, then the run.
    fn finish(&mut self, outcome: &Outcome, step: &mut Step<'_>) {
        let error = match &outcome.ending {
            Ending::Success(_) => None,
            Ending::Failure(failure) => Some(failure),
        };
        if self.request.is_some() {
            let class = error.map_or("interrupted", |failure| failure.class.name()).to_owned();
            let status = error.and_then(|failure| failure.http_status);
            self.end_request(Answer::Failed { class, status }, step);
        }
        let cancelled = names::tool_error(ToolErrorKind::Cancelled);
        for (call_id, Call { start, name, terminal }) in std::mem::take(&mut self.calls) {
            let (error, end) = (Some(cancelled), step.now);
            self.call_is_over(step, &call_id, Over { name: Some(&name), terminal, error, start, end });
        }
        for (task_id, task) in std::mem::take(&mut self.tasks) {
            self.task_is_over(step, &task_id, &task, Some(cancelled));
        }
        self.end_turn(step);

        let mut attributes = operation(names::INVOKE_AGENT, self.model.as_deref(), step.places);
        attributes.extend(error.map(|failure| attribute(names::ERROR_TYPE, failure.class.name())));
        step.metrics.duration(attributes.clone(), step.now.0.saturating_sub(self.started.0));
        if error.is_some() {
            step.metrics.error(attributes.clone());
        }
        attributes.extend(self.conversation());
        attributes.extend(tokens(outcome.usage()));
        attributes.push(attribute(names::TURNS, u64::from(outcome.turns)));
        attributes.push(attribute(names::EXIT_CODE, u64::from(outcome.exit_code())));
        attributes.extend(outcome.cost_usd.map(|cost| attribute(names::COST, cost)));
        attributes.extend(self.channel.as_deref().map(|channel| attribute(names::CHANNEL, channel)));
        if let Ending::Success(success) = &outcome.ending {
            let kind = if success.payload.is_some() { "json" } else { "text" };
            attributes.push(attribute(names::OUTPUT_TYPE, kind));
        }
        let (context, parent, start) = (self.context.clone(), self.parent, self.started);
        let name = names::INVOKE_AGENT.to_owned();
        let run =
            span(Ended { context, parent, name, kind: SpanKind::Internal, start, attributes }, step.now);
        step.ended.push(Span { events: std::mem::take(&mut self.events), ..run });
    }

    fn conversation(&self) -> Option<Attribute> {
        self.session.as_deref().map(|session| attribute(names::CONVERSATION, session))
    }

    /// The span of the turn under way, or of the run between turns.
    fn in_turn(&self) -> u64 {
        self.turn.as_ref().map_or(&self.context, |turn| &turn.context).span_id()
    }
}

/// Work that is over.
struct Ended {
    context: TraceContext,
    parent: Option<u64>,
    name: String,
    kind: SpanKind,
    start: Timestamp,
    attributes: Vec<Attribute>,
}

fn span(ended: Ended, end: Timestamp) -> Span {
    let Ended { context, parent, name, kind, start, attributes } = ended;
    let failed = attributes.iter().any(|attribute| attribute.key == names::ERROR_TYPE);
    Span {
        trace_id: context.trace_id(),
        span_id: context.span_id(),
        parent,
        state: context.state().map(Arc::from),
        name,
        kind,
        start,
        end: end.max(start),
        attributes,
        events: Vec::new(),
        ending: if failed { SpanEnding::Error } else { SpanEnding::Unset },
    }
}

/// A tool call that is over.
struct Over<'a> {
    /// `None` when there is no such tool.
    name: Option<&'a str>,
    terminal: bool,
    error: Option<&'static str>,
    start: Timestamp,
    end: Timestamp,
}

/// What every span and measurement of an operation says.
fn operation(name: &str, model: Option<&str>, places: &HashMap<String, Place>) -> Vec<Attribute> {
    let mut attributes = vec![attribute(names::OPERATION, name)];
    let Some(model) = model else { return attributes };
    if let Some(place) = places.get(model) {
        attributes.push(attribute(names::PROVIDER, names::provider(&place.provider)));
        attributes.extend(place.address.as_deref().map(|address| attribute(names::SERVER_ADDRESS, address)));
        attributes.extend(place.port.map(|port| attribute(names::SERVER_PORT, u64::from(port))));
    }
    attributes.push(attribute(names::REQUEST_MODEL, model));
    attributes
}

/// The two that everyone reports, and the others where there is something to report.
fn tokens(usage: Usage) -> Vec<Attribute> {
    let always = [(names::INPUT_TOKENS, usage.input), (names::OUTPUT_TOKENS, usage.output)];
    let sometimes = [
        (names::CACHE_READ_TOKENS, usage.cache_read),
        (names::CACHE_WRITE_TOKENS, usage.cache_write),
        (names::REASONING_TOKENS, usage.reasoning),
    ];
    let sometimes = sometimes.into_iter().filter(|(_, count)| *count > 0);
    always.into_iter().chain(sometimes).map(|(key, count)| attribute(key, count)).collect()
}

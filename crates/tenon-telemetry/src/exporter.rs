//! Watches a run and sends what it saw: batches while the run goes on, the rest at its end.
//!
//! Nothing here can change a run. Watching never waits; sending happens beside the run, one request per kind
//! of data and interval; a collector that is down loses us spans, which are counted and said once.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tenon_core::{BoxFut, Cancel, Event, EventSink, Id, Secrets, Timestamp, TraceContext};
use tokio::task::JoinHandle;
use tokio::time::Instant;

use crate::config::{Config, Protocol};
use crate::data::{Attribute, Resource, Span, Value, attribute};
use crate::names;
use crate::watch::{Place, Spans, Watch};
use crate::{json, protobuf};

/// Spans that may wait for a slow collector; what comes then is dropped and counted. The numbers of
/// OpenTelemetry's own SDKs.
const MAX_WAITING: usize = 2_048;
const MAX_BATCH: usize = 512;

/// Carries a batch to a collector. Answers with the status, or says in one sentence why there is none.
pub trait Post: Send + Sync {
    fn post(&self, parcel: Parcel) -> BoxFut<'_, Result<u16, String>>;
}

pub struct Parcel {
    pub signal: Signal,
    pub content_type: &'static str,
    pub body: Vec<u8>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    Traces,
    Metrics,
}

pub struct Exporter {
    shared: Arc<Shared>,
    worker: Mutex<Option<JoinHandle<()>>>,
}

struct Shared {
    state: Mutex<State>,
    post: Arc<dyn Post>,
    resource: Resource,
    traces: Option<Protocol>,
    metrics: Option<Protocol>,
    span_interval: Duration,
    metric_interval: Duration,
    timeout: Duration,
    closing: Cancel,
    /// What children of this process are told, when it is not for us to record the trace.
    passed_on: Option<TraceContext>,
}

struct State {
    watch: Watch,
    secrets: Secrets,
    waiting: VecDeque<Span>,
    in_flight: usize,
    lost: u64,
    /// The last metrics have not arrived.
    metrics_lost: bool,
    /// Why the latest batch that failed did.
    problem: Option<String>,
}

/// What did not arrive, for one line to a person.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Undelivered {
    pub spans: u64,
    pub metrics: bool,
    pub reason: String,
}

impl Exporter {
    /// Starts sending on the current runtime. `outer` is the trace that the process was started in; `id` is random.
    pub fn start(
        config: &Config,
        post: Arc<dyn Post>,
        outer: Option<TraceContext>,
        id: Id,
        version: &str,
    ) -> Exporter {
        let spans = match (&config.traces, &outer) {
            (None, _) => Spans::Skip,
            (Some(_), Some(outer)) if !outer.is_sampled() => Spans::Skip,
            (Some(_), _) => Spans::Record,
        };
        let first_run = match &outer {
            Some(outer) => outer.recorded(id.bits() as u64),
            None => TraceContext::start(id.bits()),
        };
        let parent = outer.as_ref().map(TraceContext::span_id);
        let shared = Arc::new(Shared {
            state: Mutex::new(State {
                watch: Watch::new(first_run, parent, spans, Timestamp::now()),
                secrets: Secrets::default(),
                waiting: VecDeque::new(),
                in_flight: 0,
                lost: 0,
                metrics_lost: false,
                problem: None,
            }),
            post,
            resource: resource(config, id, version),
            traces: config.traces.as_ref().map(|target| target.protocol),
            metrics: config.metrics.as_ref().map(|target| target.protocol),
            span_interval: config.span_interval,
            metric_interval: config.metric_interval,
            timeout: config.timeout,
            closing: Cancel::new(),
            passed_on: if spans == Spans::Skip { outer } else { None },
        });
        let worker = tokio::spawn(work(Arc::clone(&shared)));
        Exporter { shared, worker: Mutex::new(Some(worker)) }
    }

    /// The place in the trace of the run that begins next, for what it starts. `None` when there is no trace.
    pub fn trace(&self) -> Option<TraceContext> {
        match (&self.shared.passed_on, self.shared.traces) {
            (Some(outer), _) => Some(outer.clone()),
            (None, Some(_)) => Some(self.shared.lock().watch.next_run()),
            (None, None) => None,
        }
    }

    /// Keys that nothing may contain, wherever they came from.
    pub fn keep_secret(&self, secrets: Secrets) {
        self.shared.lock().secrets = secrets;
    }

    /// Says who answers for a model.
    pub fn know(&self, model: &str, place: Place) {
        self.shared.lock().watch.know(model, place);
    }

    fn observe(&self, event: &Event) {
        if !Watch::cares_about(&event.kind) {
            return;
        }
        let event = event.redact();
        let mut state = self.shared.lock();
        for mut span in state.watch.see(&event) {
            span.hide(&state.secrets);
            if state.waiting.len() + state.in_flight < MAX_WAITING {
                state.waiting.push_back(span);
            } else {
                state.lost += 1;
            }
        }
    }

    /// Sends what is left, for at most this long. `None` when everything arrived.
    pub async fn finish(&self, deadline: Duration) -> Option<Undelivered> {
        self.shared.closing.cancel();
        let worker = self.worker.lock().unwrap_or_else(PoisonError::into_inner).take();
        let mut in_time = true;
        if let Some(mut worker) = worker {
            in_time = tokio::time::timeout(deadline, &mut worker).await.is_ok();
            worker.abort();
        }
        let mut state = self.shared.lock();
        state.lost += (state.waiting.len() + state.in_flight) as u64;
        state.waiting.clear();
        let nothing_lost = state.lost == 0 && !state.metrics_lost && in_time;
        let late = || format!("the collector did not answer within {} s", deadline.as_secs_f64());
        (!nothing_lost).then(|| Undelivered {
            spans: state.lost,
            metrics: state.metrics_lost || (!in_time && self.shared.metrics.is_some()),
            reason: state.problem.take().filter(|_| in_time).unwrap_or_else(late),
        })
    }
}

/// Events on their way to somebody else, watched.
pub struct Observed {
    pub exporter: Arc<Exporter>,
    pub next: Arc<dyn EventSink>,
}

impl EventSink for Observed {
    fn emit(&self, event: Event) {
        self.exporter.observe(&event);
        self.next.emit(event);
    }

    fn flush(&self) {
        self.next.flush();
    }

    fn blocked(&self) -> Option<BoxFut<'_, ()>> {
        self.next.blocked()
    }
}

async fn work(shared: Arc<Shared>) {
    let mut next_metrics = Instant::now() + shared.metric_interval;
    loop {
        let spans_are_due = Instant::now() + shared.span_interval;
        let closing = shared
            .closing
            .run_until_cancelled(tokio::time::sleep_until(spans_are_due.min(next_metrics)))
            .await;
        if closing.is_none() {
            tokio::join!(shared.send_all_spans(), shared.send_metrics());
            return;
        }
        shared.send_spans(Failed::Keep).await;
        if Instant::now() >= next_metrics {
            shared.send_metrics().await;
            next_metrics = Instant::now() + shared.metric_interval;
        }
    }
}

/// What becomes of a batch that a collector may take later.
#[derive(Clone, Copy)]
enum Failed {
    Keep,
    Drop,
}

enum Sent {
    All,
    Nothing,
    /// The collector is not there, or does not want it.
    Failed,
}

impl Shared {
    async fn send_all_spans(&self) {
        while matches!(self.send_spans(Failed::Drop).await, Sent::All) {}
    }

    /// One batch.
    async fn send_spans(&self, failed: Failed) -> Sent {
        let Some(protocol) = self.traces else { return Sent::Nothing };
        let batch: Vec<Span> = {
            let mut state = self.lock();
            let count = state.waiting.len().min(MAX_BATCH);
            state.in_flight = count;
            state.waiting.drain(..count).collect()
        };
        if batch.is_empty() {
            return Sent::Nothing;
        }
        let body = match protocol {
            Protocol::Protobuf => protobuf::traces(&self.resource, &batch),
            Protocol::Json => json::traces(&self.resource, &batch),
        };
        let delivery = self.deliver(Signal::Traces, protocol, body).await;
        let mut state = self.lock();
        state.in_flight = 0;
        match (delivery, failed) {
            (Ok(()), _) => return Sent::All,
            (Err(Undeliverable { problem, may_come_later: true }), Failed::Keep) => {
                // The next interval tries again, with what has come since.
                state.problem = Some(problem);
                let room = MAX_WAITING.saturating_sub(state.waiting.len());
                state.lost += batch.len().saturating_sub(room) as u64;
                batch.into_iter().take(room).rev().for_each(|span| state.waiting.push_front(span));
            }
            (Err(Undeliverable { problem, .. }), _) => {
                state.problem = Some(problem);
                state.lost += batch.len() as u64;
            }
        }
        Sent::Failed
    }

    /// All metrics since the start: one that was lost is in the next.
    async fn send_metrics(&self) {
        let Some(protocol) = self.metrics else { return };
        let Some(measured) = self.lock().watch.metrics.measured(Timestamp::now()) else { return };
        let body = match protocol {
            Protocol::Protobuf => protobuf::metrics(&self.resource, &measured),
            Protocol::Json => json::metrics(&self.resource, &measured),
        };
        let delivery = self.deliver(Signal::Metrics, protocol, body).await;
        let mut state = self.lock();
        state.metrics_lost = delivery.is_err();
        if let Err(Undeliverable { problem, .. }) = delivery {
            state.problem = Some(problem);
        }
    }

    async fn deliver(&self, signal: Signal, protocol: Protocol, body: Vec<u8>) -> Result<(), Undeliverable> {
        tracing::debug!(?signal, bytes = body.len(), "telemetry leaves");
        let parcel = Parcel { signal, content_type: protocol.content_type(), body };
        let (problem, may_come_later) = match tokio::time::timeout(self.timeout, self.post.post(parcel)).await
        {
            Ok(Ok(200..=299)) => return Ok(()),
            // The four that the protocol calls worth another try.
            Ok(Ok(status @ (429 | 502..=504))) => (format!("the collector answered {status}"), true),
            Ok(Ok(status)) => (format!("the collector answered {status}"), false),
            Ok(Err(problem)) => (problem, true),
            Err(_) => (format!("the collector did not answer within {} s", self.timeout.as_secs_f64()), true),
        };
        Err(Undeliverable { problem, may_come_later })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

struct Undeliverable {
    problem: String,
    may_come_later: bool,
}

/// What the user says about the sender goes before what we say.
fn resource(config: &Config, id: Id, version: &str) -> Resource {
    let own = [
        attribute(names::SERVICE_VERSION, version),
        attribute(names::SERVICE_INSTANCE, id.to_string().as_str()),
        attribute(names::SDK_NAME, names::SCOPE),
        attribute(names::SDK_LANGUAGE, "rust"),
        attribute(names::SDK_VERSION, version),
    ];
    let given = config
        .resource
        .iter()
        .map(|(key, value)| Attribute { key: key.clone().into(), value: Value::from(value.as_str()) });
    let own = own.into_iter().filter(|own| !config.resource.contains_key(&*own.key));
    Resource { attributes: given.chain(own).collect(), version: version.to_owned() }
}

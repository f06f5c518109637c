//! A run without an agent: events written down, and a collector in memory.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::metrics::v1::Metric;
use opentelemetry_proto::tonic::trace::v1::Span;
use prost::Message;
use tenon_core::{
    BoxFut, Ending, Event, EventKind, EventSink, Id, NoSink, Outcome, RunInfo, Success, Timestamp, ToolReport,
};
use tenon_telemetry::{Config, Exporter, Observed, Parcel, Post, Protocol, Signal, Target};

pub const START: u64 = 1_700_000_000_000;

/// What arrived, and how the collector answers: a status, or never.
#[derive(Default)]
pub struct Memory {
    pub parcels: Mutex<Vec<(Signal, Vec<u8>)>>,
    pub answers: Mutex<Vec<Answer>>,
}

#[derive(Clone, Copy)]
pub enum Answer {
    Status(u16),
    Unreachable,
    Never,
}

impl Post for Memory {
    fn post(&self, parcel: Parcel) -> BoxFut<'_, Result<u16, String>> {
        self.parcels.lock().unwrap().push((parcel.signal, parcel.body));
        let mut answers = self.answers.lock().unwrap();
        // The last one is for the rest.
        let answer = match answers.len() {
            0 => Answer::Status(200),
            1 => answers[0],
            _ => answers.remove(0),
        };
        Box::pin(async move {
            match answer {
                Answer::Status(status) => Ok(status),
                Answer::Unreachable => Err("connection refused".to_owned()),
                Answer::Never => std::future::pending().await,
            }
        })
    }
}

impl Memory {
    pub fn answering(answers: impl IntoIterator<Item = Answer>) -> Arc<Memory> {
        Arc::new(Memory { answers: Mutex::new(answers.into_iter().collect()), ..Memory::default() })
    }

    pub fn spans(&self) -> Vec<Span> {
        let parcels = self.parcels.lock().unwrap();
        let traces = parcels.iter().filter(|(signal, _)| *signal == Signal::Traces);
        traces
            .map(|(_, body)| ExportTraceServiceRequest::decode(body.as_slice()).expect("protobuf"))
            .flat_map(|request| request.resource_spans)
            .flat_map(|resource| resource.scope_spans)
            .flat_map(|scope| scope.spans)
            .collect()
    }

    pub fn metrics(&self) -> Vec<Metric> {
        let parcels = self.parcels.lock().unwrap();
        let last = parcels.iter().rfind(|(signal, _)| *signal == Signal::Metrics);
        last.map(|(_, body)| ExportMetricsServiceRequest::decode(body.as_slice()).expect("protobuf"))
            .into_iter()
            .flat_map(|request| request.resource_metrics)
            .flat_map(|resource| resource.scope_metrics)
            .flat_map(|scope| scope.metrics)
            .collect()
    }

    pub fn count(&self, signal: Signal) -> usize {
        self.parcels.lock().unwrap().iter().filter(|(of, _)| *of == signal).count()
    }
}

pub fn config() -> Config {
    let target = |url: &str| {
        Some(Target { url: url.to_owned(), protocol: Protocol::Protobuf, headers: BTreeMap::new() })
    };
    Config {
        traces: target("http://127.0.0.1/v1/traces"),
        metrics: target("http://127.0.0.1/v1/metrics"),
        timeout: Duration::from_secs(10),
        span_interval: Duration::from_secs(5),
        metric_interval: Duration::from_secs(60),
        resource: BTreeMap::new(),
    }
}

pub fn start(config: &Config, memory: &Arc<Memory>) -> Arc<Exporter> {
    let post = Arc::clone(memory) as Arc<dyn Post>;
    Arc::new(Exporter::start(config, post, None, Id::from_random([7; 16]), "1.2.3"))
}

/// Plays events, one millisecond after the other unless they say otherwise.
pub struct Stage {
    sink: Observed,
    now: u64,
}

impl Stage {
    pub fn new(exporter: &Arc<Exporter>) -> Stage {
        Stage { sink: Observed { exporter: Arc::clone(exporter), next: Arc::new(NoSink) }, now: START }
    }

    pub fn at(&mut self, milliseconds: u64) -> &mut Stage {
        self.now = START + milliseconds;
        self
    }

    /// In the run, or in the agent that works for this call.
    pub fn event(&mut self, parent: Option<&str>, kind: EventKind) -> &mut Stage {
        let (time, id) = (Timestamp(self.now), Id::from_random([0; 16]));
        self.sink.emit(Event { seq: 1, time, id, parent: parent.map(str::to_owned), kind });
        self.now += 1;
        self
    }
}

pub fn begins() -> EventKind {
    EventKind::RunStarted(Box::new(RunInfo {
        session_id: Id::from_random([1; 16]),
        cwd: "/work".into(),
        model: "m".to_owned(),
        permission_mode: "default".to_owned(),
        tools: Vec::new(),
        agents: Vec::new(),
        commands: Vec::new(),
        mcp_servers: Vec::new(),
        cli_version: "1.2.3".to_owned(),
        sandbox: Default::default(),
        channel: None,
    }))
}

pub fn asking(turn: u32) -> EventKind {
    EventKind::Asking { turn, model: "m".to_owned() }
}

pub fn answered(turn: u32) -> EventKind {
    EventKind::TurnFinished { turn, usage: tenon_core::Usage { input: 10, output: 2, ..Default::default() } }
}

pub fn calls(call_id: &str, name: &str) -> EventKind {
    EventKind::ToolStarted { call_id: call_id.to_owned(), name: name.to_owned(), terminal: false }
}

pub fn called(call_id: &str, name: &str, duration_ms: u64) -> EventKind {
    EventKind::ToolFinished(ToolReport {
        call_id: call_id.to_owned(),
        name: name.to_owned(),
        terminal: false,
        content: "SAID".to_owned(),
        drawing: None,
        stored: None,
        error: None,
        duration_ms,
    })
}

pub fn ends() -> EventKind {
    let mut outcome = Outcome::failed_early(
        tenon_core::Failure::new(tenon_core::ErrorClass::Internal, "unused"),
        Vec::new(),
    );
    outcome.ending = Ending::Success(Success { text: "SAID".to_owned(), payload: None });
    EventKind::RunFinished(Arc::new(outcome))
}

//! A collector of telemetry on loopback: takes OTLP over HTTP, decodes it with types generated from the published
//! `.proto` files, and keeps every byte. Or behaves badly, as told.

use std::collections::BTreeMap;
use std::io::{BufReader, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::{KeyValue, any_value};
use opentelemetry_proto::tonic::metrics::v1::{metric, number_data_point};
use prost::Message;
use serde_json::{Value, json};

use crate::Captured;
use crate::http;

pub struct Collector {
    shared: Arc<Shared>,
    address: SocketAddr,
    acceptor: Option<JoinHandle<()>>,
}

struct Shared {
    manner: Manner,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    requests: Vec<Captured>,
    connections: Vec<TcpStream>,
    stopping: bool,
}

/// How a collector treats its clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Manner {
    /// Takes everything.
    Accept,
    /// Takes everything and answers this.
    Answer(u16),
    /// Takes everything and never answers.
    Hang,
    /// Closes the connection instead of answering.
    Close,
}

/// A span as it arrived.
#[derive(Clone, Debug, PartialEq)]
pub struct Span {
    pub trace_id: String,
    pub span_id: String,
    /// Empty for a span without one.
    pub parent: String,
    pub name: String,
    /// 1 for internal, 3 for a client's.
    pub kind: i32,
    pub start: u64,
    pub end: u64,
    pub attributes: BTreeMap<String, Value>,
    /// The names of its events.
    pub events: Vec<String>,
    pub failed: bool,
    pub state: String,
    pub resource: BTreeMap<String, Value>,
    pub schema_url: String,
}

/// One series of one metric as it arrived last.
#[derive(Clone, Debug, PartialEq)]
pub struct Measurement {
    pub name: String,
    pub unit: String,
    pub attributes: BTreeMap<String, Value>,
    pub count: u64,
    /// `None` for a counter.
    pub sum: Option<f64>,
    pub buckets: Vec<u64>,
    pub bounds: Vec<f64>,
}

impl Collector {
    pub fn start() -> Collector {
        Collector::that(Manner::Accept)
    }

    pub fn that(manner: Manner) -> Collector {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free loopback port");
        let address = listener.local_addr().expect("the address of a bound socket");
        let shared = Arc::new(Shared { manner, state: Mutex::default() });
        let acceptor = std::thread::spawn({
            let shared = Arc::clone(&shared);
            move || accept(&listener, &shared)
        });
        Collector { shared, address, acceptor: Some(acceptor) }
    }

    /// What `OTEL_EXPORTER_OTLP_ENDPOINT` is to be.
    pub fn endpoint(&self) -> String {
        format!("http://{}", self.address)
    }

    /// An address where nobody listens.
    pub fn nowhere() -> String {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free loopback port");
        format!("http://{}", listener.local_addr().expect("the address of a bound socket"))
    }

    pub fn requests(&self) -> Vec<Captured> {
        self.shared.lock().requests.clone()
    }

    /// Blocks until so many requests arrived; fails the test otherwise.
    #[track_caller]
    pub fn wait_for_requests(&self, count: usize, timeout: Duration) -> Vec<Captured> {
        let until = Instant::now() + timeout;
        loop {
            let requests = self.requests();
            if requests.len() >= count {
                return requests;
            }
            assert!(
                Instant::now() < until,
                "{} of {count} requests arrived within {timeout:?}",
                requests.len()
            );
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Every span, by its start; spans that start together in the order of their arrival.
    #[track_caller]
    pub fn spans(&self) -> Vec<Span> {
        let mut spans = Vec::new();
        for request in self.requests().iter().filter(|request| request.path == "/v1/traces") {
            let decoded =
                ExportTraceServiceRequest::decode(request.raw.as_slice()).expect("spans in protobuf");
            for of_resource in decoded.resource_spans {
                let resource = attributes(&of_resource.resource.unwrap_or_default().attributes);
                for of_scope in of_resource.scope_spans {
                    assert_eq!(of_scope.schema_url, of_resource.schema_url);
                    assert_eq!(of_scope.scope.expect("a scope").name, "tenon");
                    spans.extend(of_scope.spans.iter().map(|span| Span {
                        trace_id: hex(&span.trace_id),
                        span_id: hex(&span.span_id),
                        parent: hex(&span.parent_span_id),
                        name: span.name.clone(),
                        kind: span.kind,
                        start: span.start_time_unix_nano,
                        end: span.end_time_unix_nano,
                        attributes: attributes(&span.attributes),
                        events: span.events.iter().map(|event| event.name.clone()).collect(),
                        failed: span.status.as_ref().is_some_and(|status| status.code == 2),
                        state: span.trace_state.clone(),
                        resource: resource.clone(),
                        schema_url: of_resource.schema_url.clone(),
                    }));
                }
            }
        }
        spans.sort_by_key(|span| span.start);
        spans
    }

    /// The latest report: metrics are sums since the start.
    #[track_caller]
    pub fn metrics(&self) -> Vec<Measurement> {
        let requests = self.requests();
        let Some(latest) = requests.iter().rfind(|request| request.path == "/v1/metrics") else {
            return Vec::new();
        };
        let decoded =
            ExportMetricsServiceRequest::decode(latest.raw.as_slice()).expect("metrics in protobuf");
        let scopes = decoded.resource_metrics.into_iter().flat_map(|of_resource| of_resource.scope_metrics);
        let mut measurements = Vec::new();
        for metric in scopes.flat_map(|scope| scope.metrics) {
            let (name, unit) = (metric.name, metric.unit);
            let measured = |attributes, count| Measurement {
                name: name.clone(),
                unit: unit.clone(),
                attributes,
                count,
                sum: None,
                buckets: Vec::new(),
                bounds: Vec::new(),
            };
            match metric.data.expect("data") {
                metric::Data::Histogram(histogram) => {
                    assert_eq!(histogram.aggregation_temporality, 2);
                    measurements.extend(histogram.data_points.into_iter().map(|point| Measurement {
                        sum: point.sum,
                        buckets: point.bucket_counts,
                        bounds: point.explicit_bounds,
                        ..measured(attributes(&point.attributes), point.count)
                    }));
                }
                metric::Data::Sum(sum) => {
                    assert_eq!((sum.aggregation_temporality, sum.is_monotonic), (2, true));
                    measurements.extend(sum.data_points.into_iter().map(|point| {
                        let Some(number_data_point::Value::AsInt(count)) = point.value else {
                            panic!("a counter that is no whole number: {point:?}");
                        };
                        measured(attributes(&point.attributes), u64::try_from(count).expect("a count"))
                    }));
                }
                other => panic!("a metric of a kind that is not sent: {other:?}"),
            }
        }
        measurements
    }

    /// Everything that arrived, heads included, for a search.
    pub fn bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        for request in self.requests() {
            bytes.extend(request.path.as_bytes());
            bytes.extend(&request.raw);
        }
        bytes
    }
}

impl Drop for Collector {
    fn drop(&mut self) {
        let mut state = self.shared.lock();
        state.stopping = true;
        for stream in &state.connections {
            let _ = stream.shutdown(Shutdown::Both);
        }
        drop(state);
        // Wakes the thread that waits for a connection.
        let _ = TcpStream::connect(self.address);
        if let Some(acceptor) = self.acceptor.take() {
            let _ = acceptor.join();
        }
    }
}

impl Shared {
    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn accept(listener: &TcpListener, shared: &Arc<Shared>) {
    for stream in listener.incoming() {
        let Ok(stream) = stream else { continue };
        let mut state = shared.lock();
        if state.stopping {
            return;
        }
        if let Ok(handle) = stream.try_clone() {
            state.connections.push(handle);
        }
        drop(state);
        let shared = Arc::clone(shared);
        std::thread::spawn(move || serve(stream, &shared));
    }
}

fn serve(stream: TcpStream, shared: &Shared) {
    let mut reader = BufReader::new(stream);
    while let Ok(Some(request)) = http::read_request(&mut reader) {
        shared.lock().requests.push(Captured {
            method: request.method,
            path: request.path,
            headers: request.headers,
            body: serde_json::from_slice(&request.body).unwrap_or(Value::Null),
            raw: request.body,
            at: Instant::now(),
        });
        let status = match shared.manner {
            Manner::Accept => 200,
            Manner::Answer(status) => status,
            // Until the client leaves.
            Manner::Hang => continue,
            Manner::Close => break,
        };
        let answer = format!("HTTP/1.1 {status} Whatever\r\ncontent-length: 0\r\n\r\n");
        if reader.get_ref().write_all(answer.as_bytes()).is_err() {
            break;
        }
    }
    let _ = reader.get_ref().shutdown(Shutdown::Both);
}

fn attributes(pairs: &[KeyValue]) -> BTreeMap<String, Value> {
    let value = |pair: &KeyValue| match pair.value.as_ref().and_then(|value| value.value.as_ref()) {
        Some(any_value::Value::StringValue(text)) => json!(text),
        Some(any_value::Value::BoolValue(value)) => json!(value),
        Some(any_value::Value::IntValue(value)) => json!(value),
        Some(any_value::Value::DoubleValue(value)) => json!(value),
        other => panic!("`{}` has a value of a kind that is not sent: {other:?}", pair.key),
    };
    let map: BTreeMap<String, Value> = pairs.iter().map(|pair| (pair.key.clone(), value(pair))).collect();
    assert_eq!(map.len(), pairs.len(), "an attribute twice: {pairs:?}");
    map
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

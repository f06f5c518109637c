//! OTLP in protobuf, by hand: the few messages that are sent, and nothing of a code generator.
//!
//! The field numbers are those of the published `.proto` files; the tests decode what is written here with
//! types generated from them.

use crate::data::{
    Attribute, CUMULATIVE, Measured, Metric, Resource, STATUS_ERROR, Series, Span, SpanEnding, SpanEvent,
    Value, nanoseconds,
};
use crate::names::{SCHEMA_URL, SCOPE};

/// An `ExportTraceServiceRequest`.
pub(crate) fn traces(resource: &Resource, spans: &[Span]) -> Vec<u8> {
    let mut out = Message::default();
    out.message(1, |resource_spans| {
        whose(resource_spans, resource, |scope_spans| {
            spans.iter().for_each(|given| scope_spans.message(2, |out| span(out, given)));
        });
    });
    out.0
}

/// An `ExportMetricsServiceRequest`.
pub(crate) fn metrics(resource: &Resource, measured: &Measured) -> Vec<u8> {
    let mut out = Message::default();
    out.message(1, |resource_metrics| {
        whose(resource_metrics, resource, |scope_metrics| {
            measured
                .metrics
                .iter()
                .for_each(|given| scope_metrics.message(2, |out| metric(out, given, measured)));
        });
    });
    out.0
}

/// What spans and metrics are wrapped in alike: the resource, then the scope with `what`.
fn whose(out: &mut Message, resource: &Resource, what: impl FnOnce(&mut Message)) {
    out.message(1, |out| attributes(out, 1, &resource.attributes));
    out.message(2, |out| {
        out.message(1, |scope| {
            scope.text(1, SCOPE);
            scope.text(2, &resource.version);
        });
        what(out);
        out.text(3, SCHEMA_URL);
    });
    out.text(3, SCHEMA_URL);
}

fn span(out: &mut Message, span: &Span) {
    out.bytes(1, &span.trace_id.to_be_bytes());
    out.bytes(2, &span.span_id.to_be_bytes());
    out.text(3, span.state.as_deref().unwrap_or_default());
    if let Some(parent) = span.parent {
        out.bytes(4, &parent.to_be_bytes());
    }
    out.text(5, &span.name);
    out.number(6, span.kind.number());
    out.fixed64(7, nanoseconds(span.start));
    out.fixed64(8, nanoseconds(span.end));
    attributes(out, 9, &span.attributes);
    span.events.iter().for_each(|event| out.message(11, |out| span_event(out, event)));
    if span.ending == SpanEnding::Error {
        out.message(15, |status| status.number(3, STATUS_ERROR));
    }
}

fn span_event(out: &mut Message, event: &SpanEvent) {
    out.fixed64(1, nanoseconds(event.time));
    out.text(2, event.name);
    attributes(out, 3, &event.attributes);
}

fn metric(out: &mut Message, metric: &Metric, measured: &Measured) {
    out.text(1, metric.name);
    out.text(2, metric.description);
    out.text(3, metric.unit);
    match metric.bounds {
        Some(bounds) => out.message(9, |histogram| {
            for series in &metric.series {
                histogram.message(1, |out| histogram_point(out, series, bounds, measured));
            }
            histogram.number(2, CUMULATIVE);
        }),
        None => out.message(7, |sum| {
            metric.series.iter().for_each(|series| sum.message(1, |out| number_point(out, series, measured)));
            sum.number(2, CUMULATIVE);
            // It only grows.
            sum.number(3, 1);
        }),
    }
}

fn histogram_point(out: &mut Message, series: &Series, bounds: &[f64], measured: &Measured) {
    out.fixed64(2, nanoseconds(measured.since));
    out.fixed64(3, nanoseconds(measured.now));
    out.fixed64(4, series.count);
    out.double(5, series.sum);
    out.packed64(6, series.buckets.iter().copied());
    out.packed64(7, bounds.iter().map(|bound| bound.to_bits()));
    attributes(out, 9, &series.attributes);
    out.double(11, series.min);
    out.double(12, series.max);
}

fn number_point(out: &mut Message, series: &Series, measured: &Measured) {
    out.fixed64(2, nanoseconds(measured.since));
    out.fixed64(3, nanoseconds(measured.now));
    out.fixed64(6, series.count);
    attributes(out, 7, &series.attributes);
}

fn attributes(out: &mut Message, field: u64, attributes: &[Attribute]) {
    for attribute in attributes {
        out.message(field, |out| {
            out.text(1, &attribute.key);
            out.message(2, |out| match &attribute.value {
                // Written also when empty: an absent value means something else.
                Value::Text(text) => out.bytes(1, text.as_bytes()),
                Value::Bool(value) => out.number(2, u64::from(*value)),
                Value::Int(value) => out.number(3, value.cast_unsigned()),
                Value::Double(value) => out.double(4, *value),
            });
        });
    }
}

/// A message under construction: fields are appended.
#[derive(Default)]
struct Message(Vec<u8>);

const VARINT: u64 = 0;
const FIXED64: u64 = 1;
const LENGTH_DELIMITED: u64 = 2;

impl Message {
    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push((value & 0x7f) as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }

    fn tag(&mut self, field: u64, wire_type: u64) {
        self.varint(field << 3 | wire_type);
    }

    fn number(&mut self, field: u64, value: u64) {
        self.tag(field, VARINT);
        self.varint(value);
    }

    fn fixed64(&mut self, field: u64, value: u64) {
        self.tag(field, FIXED64);
        self.0.extend(value.to_le_bytes());
    }

    fn double(&mut self, field: u64, value: f64) {
        self.fixed64(field, value.to_bits());
    }

    fn bytes(&mut self, field: u64, bytes: &[u8]) {
        self.tag(field, LENGTH_DELIMITED);
        self.varint(bytes.len() as u64);
        self.0.extend(bytes);
    }

    /// Left out when empty, as the format has it.
    fn text(&mut self, field: u64, text: &str) {
        if !text.is_empty() {
            self.bytes(field, text.as_bytes());
        }
    }

    fn packed64(&mut self, field: u64, values: impl Iterator<Item = u64>) {
        let packed: Vec<u8> = values.flat_map(u64::to_le_bytes).collect();
        self.bytes(field, &packed);
    }

    fn message(&mut self, field: u64, fill: impl FnOnce(&mut Message)) {
        let mut inner = Message::default();
        fill(&mut inner);
        self.bytes(field, &inner.0);
    }
}

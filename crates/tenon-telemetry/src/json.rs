//! OTLP in JSON, for collectors that are asked in it (`http/json`): ids in hexadecimal, whole numbers of 64
//! bits as strings. The protobuf form is in `protobuf.rs`.

use serde_json::{Value as Json, json};

use crate::data::{
    Attribute, CUMULATIVE, Measured, Metric, Resource, STATUS_ERROR, Series, Span, SpanEnding, Value,
    nanoseconds,
};
use crate::names::{SCHEMA_URL, SCOPE};

pub(crate) fn traces(resource: &Resource, spans: &[Span]) -> Vec<u8> {
    let spans: Vec<Json> = spans.iter().map(span).collect();
    let scope = json!({ "scope": scope(resource), "spans": spans, "schemaUrl": SCHEMA_URL });
    let resource = json!({ "resource": who(resource), "scopeSpans": [scope], "schemaUrl": SCHEMA_URL });
    json!({ "resourceSpans": [resource] }).to_string().into_bytes()
}

pub(crate) fn metrics(resource: &Resource, measured: &Measured) -> Vec<u8> {
    let metrics: Vec<Json> = measured.metrics.iter().map(|given| metric(given, measured)).collect();
    let scope = json!({ "scope": scope(resource), "metrics": metrics, "schemaUrl": SCHEMA_URL });
    let resource = json!({ "resource": who(resource), "scopeMetrics": [scope], "schemaUrl": SCHEMA_URL });
    json!({ "resourceMetrics": [resource] }).to_string().into_bytes()
}

fn who(resource: &Resource) -> Json {
    json!({ "attributes": attributes(&resource.attributes) })
}

fn scope(resource: &Resource) -> Json {
    json!({ "name": SCOPE, "version": resource.version })
}

fn span(span: &Span) -> Json {
    let events = span.events.iter().map(|event| {
        json!({
            "timeUnixNano": nanoseconds(event.time).to_string(), "name": event.name,
            "attributes": attributes(&event.attributes),
        })
    });
    let mut written = json!({
        "traceId": format!("{:032x}", span.trace_id),
        "spanId": format!("{:016x}", span.span_id),
        "name": span.name,
        "kind": span.kind.number(),
        "startTimeUnixNano": nanoseconds(span.start).to_string(),
        "endTimeUnixNano": nanoseconds(span.end).to_string(),
        "attributes": attributes(&span.attributes),
        "events": events.collect::<Vec<_>>(),
    });
    if let Some(parent) = span.parent {
        written["parentSpanId"] = json!(format!("{parent:016x}"));
    }
    if let Some(state) = &span.state {
        written["traceState"] = json!(**state);
    }
    if span.ending == SpanEnding::Error {
        written["status"] = json!({ "code": STATUS_ERROR });
    }
    written
}

fn metric(metric: &Metric, measured: &Measured) -> Json {
    let points: Vec<Json> =
        metric.series.iter().map(|series| point(series, metric.bounds, measured)).collect();
    let mut written = json!({ "name": metric.name, "description": metric.description, "unit": metric.unit });
    match metric.bounds {
        Some(_) => {
            written["histogram"] = json!({ "dataPoints": points, "aggregationTemporality": CUMULATIVE })
        }
        None => {
            written["sum"] =
                json!({ "dataPoints": points, "aggregationTemporality": CUMULATIVE, "isMonotonic": true });
        }
    }
    written
}

fn point(series: &Series, bounds: Option<&[f64]>, measured: &Measured) -> Json {
    let mut written = json!({
        "startTimeUnixNano": nanoseconds(measured.since).to_string(),
        "timeUnixNano": nanoseconds(measured.now).to_string(),
        "attributes": attributes(&series.attributes),
    });
    match bounds {
        None => written["asInt"] = json!(series.count.to_string()),
        Some(bounds) => {
            written["count"] = json!(series.count.to_string());
            written["sum"] = json!(series.sum);
            written["min"] = json!(series.min);
            written["max"] = json!(series.max);
            written["bucketCounts"] = series.buckets.iter().map(u64::to_string).collect();
            written["explicitBounds"] = json!(bounds);
        }
    }
    written
}

fn attributes(attributes: &[Attribute]) -> Vec<Json> {
    let value = |value: &Value| match value {
        Value::Text(text) => json!({ "stringValue": text }),
        Value::Int(value) => json!({ "intValue": value.to_string() }),
        Value::Double(value) => json!({ "doubleValue": value }),
        Value::Bool(value) => json!({ "boolValue": value }),
    };
    attributes.iter().map(|given| json!({ "key": given.key, "value": value(&given.value) })).collect()
}

//! Counts and histograms since the start of the process. What is measured when is decided in `watch.rs`.

use tenon_core::Timestamp;

use crate::data::{Attribute, Measured, Metric, Series};
use crate::names;

/// Combinations of attributes per instrument: models and tools are few. What goes beyond is not counted, so
/// that no stream of odd names can fill the memory.
const MAX_SERIES: usize = 1_000;

/// The bounds that the conventions recommend.
const TOKEN_BOUNDS: [f64; 14] = [
    1.0,
    4.0,
    16.0,
    64.0,
    256.0,
    1024.0,
    4096.0,
    16384.0,
    65536.0,
    262_144.0,
    1_048_576.0,
    4_194_304.0,
    16_777_216.0,
    67_108_864.0,
];
const DURATION_BOUNDS: [f64; 14] =
    [0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92];

pub(crate) struct Metrics {
    since: Timestamp,
    tokens: Metric,
    durations: Metric,
    errors: Metric,
    tool_calls: Metric,
}

impl Metrics {
    pub(crate) fn new(since: Timestamp) -> Metrics {
        let metric =
            |name, description, unit, bounds| Metric { name, description, unit, series: Vec::new(), bounds };
        Metrics {
            since,
            tokens: metric(
                names::TOKEN_USAGE,
                "Tokens of model requests, as the provider counted them.",
                "{token}",
                Some(&TOKEN_BOUNDS[..]),
            ),
            durations: metric(
                names::OPERATION_DURATION,
                "How long runs, model requests and tool calls took.",
                "s",
                Some(&DURATION_BOUNDS[..]),
            ),
            errors: metric(
                names::ERRORS,
                "Runs, model requests and tool calls that failed.",
                "{error}",
                None,
            ),
            tool_calls: metric(names::TOOL_CALLS, "Tool calls.", "{call}", None),
        }
    }

    pub(crate) fn tokens(&mut self, attributes: Vec<Attribute>, count: u64) {
        record(&mut self.tokens, attributes, count as f64);
    }

    pub(crate) fn duration(&mut self, attributes: Vec<Attribute>, milliseconds: u64) {
        record(&mut self.durations, attributes, milliseconds as f64 / 1000.0);
    }

    pub(crate) fn error(&mut self, attributes: Vec<Attribute>) {
        record(&mut self.errors, attributes, 1.0);
    }

    pub(crate) fn tool_call(&mut self, attributes: Vec<Attribute>) {
        record(&mut self.tool_calls, attributes, 1.0);
    }

    /// Everything so far; `None` when there is nothing.
    pub(crate) fn measured(&self, now: Timestamp) -> Option<Measured> {
        let all = [&self.tokens, &self.durations, &self.errors, &self.tool_calls];
        let metrics: Vec<Metric> =
            all.into_iter().filter(|metric| !metric.series.is_empty()).cloned().collect();
        (!metrics.is_empty()).then_some(Measured { since: self.since, now, metrics })
    }
}

fn record(metric: &mut Metric, attributes: Vec<Attribute>, value: f64) {
    let buckets = metric.bounds.map_or(0, |bounds| bounds.len() + 1);
    let known = metric.series.iter().position(|series| series.attributes == attributes);
    let at = match known {
        Some(at) => at,
        None if metric.series.len() >= MAX_SERIES => return,
        None => {
            let (min, max) = (f64::INFINITY, f64::NEG_INFINITY);
            metric.series.push(Series {
                attributes,
                count: 0,
                sum: 0.0,
                min,
                max,
                buckets: vec![0; buckets],
            });
            metric.series.len() - 1
        }
    };
    let series = &mut metric.series[at];
    series.count += 1;
    series.sum += value;
    series.min = series.min.min(value);
    series.max = series.max.max(value);
    if let Some(bounds) = metric.bounds {
        // A bound belongs to the bucket below it.
        series.buckets[bounds.partition_point(|bound| *bound < value)] += 1;
    }
}

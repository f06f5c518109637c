//! Tokens, requests and tool calls: what a run used.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::Cost;

/// Tokens as the provider reported them. `input` includes cached tokens, `output` includes reasoning.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    pub input: u64,
    pub output: u64,
    pub cache_read: u64,
    pub cache_write: u64,
    pub reasoning: u64,
    pub total: u64,
}

impl Usage {
    pub fn add(&mut self, other: Usage) {
        self.input += other.input;
        self.output += other.output;
        self.cache_read += other.cache_read;
        self.cache_write += other.cache_write;
        self.reasoning += other.reasoning;
        self.total += other.total;
    }
}

/// What was done, per model and per tool, over one run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Metrics {
    pub models: BTreeMap<String, ModelMetrics>,
    pub tools: BTreeMap<String, ToolMetrics>,
    pub lines_added: u64,
    pub lines_removed: u64,
}

impl Metrics {
    pub fn usage(&self) -> Usage {
        let mut sum = Usage::default();
        self.models.values().for_each(|model| sum.add(model.usage));
        sum
    }

    /// How many requests were answered, by whichever model.
    pub fn answers(&self) -> u32 {
        let answers: u64 =
            self.models.values().map(|model| model.requests.saturating_sub(model.errors)).sum();
        u32::try_from(answers).unwrap_or(u32::MAX)
    }

    /// Unknown as soon as one answer's is.
    pub fn cost(&self) -> Cost {
        let mut sum = Cost::default();
        self.models.values().for_each(|model| sum.add(model.cost));
        sum
    }

    /// Adds what another agent did: a sub-agent's work is its caller's.
    pub fn merge(&mut self, other: &Metrics) {
        for (name, model) in &other.models {
            self.models.entry(name.clone()).or_default().merge(model);
        }
        for (name, tool) in &other.tools {
            self.tools.entry(name.clone()).or_default().merge(tool);
        }
        self.lines_added += other.lines_added;
        self.lines_removed += other.lines_removed;
    }
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct ModelMetrics {
    pub requests: u64,
    pub errors: u64,
    pub latency_ms: u64,
    pub usage: Usage,
    /// Each answer at the price of who gave it.
    pub cost: Cost,
    /// The most tokens it can be given and can write, where that is known.
    pub window: Option<u64>,
    pub max_output: Option<u64>,
}

impl ModelMetrics {
    pub fn merge(&mut self, other: &ModelMetrics) {
        self.requests += other.requests;
        self.errors += other.errors;
        self.latency_ms += other.latency_ms;
        self.usage.add(other.usage);
        self.cost.add(other.cost);
        self.window = self.window.or(other.window);
        self.max_output = self.max_output.or(other.max_output);
    }
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct ToolMetrics {
    pub success: u64,
    pub fail: u64,
    pub duration_ms: u64,
    pub decisions: BTreeMap<Decision, u64>,
}

impl ToolMetrics {
    pub fn merge(&mut self, other: &ToolMetrics) {
        self.success += other.success;
        self.fail += other.fail;
        self.duration_ms += other.duration_ms;
        for (decision, count) in &other.decisions {
            *self.decisions.entry(*decision).or_default() += count;
        }
    }
}

/// How a tool call came to be allowed or not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Decision {
    /// Somebody was asked and said yes.
    Accept,
    /// A rule, a mode or somebody said no.
    Reject,
    /// Allowed with other arguments than the model's.
    Modify,
    /// Allowed by a rule or the mode without asking.
    AutoAccept,
}

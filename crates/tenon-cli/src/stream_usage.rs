//! What each session of this process has used: turns of the model, tokens, money. What a session used in other processes
//! nobody here knows.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};
use tenon_core::{ModelMetrics, Outcome, Usage};

#[derive(Clone, Debug)]
pub(crate) struct Spent {
    /// Turns that the model was asked in.
    pub(crate) turns: u64,
    pub(crate) used: Usage,
    by_model: BTreeMap<String, ModelMetrics>,
    /// One turn of unknown price makes the sum unknown.
    pub(crate) cost_usd: Option<f64>,
}

impl Default for Spent {
    fn default() -> Spent {
        Spent { turns: 0, used: Usage::default(), by_model: BTreeMap::new(), cost_usd: Some(0.0) }
    }
}

impl Spent {
    pub(crate) fn add(&mut self, outcome: &Outcome) {
        self.turns += 1;
        self.used.add(outcome.usage());
        for (name, model) in &outcome.metrics.models {
            self.by_model.entry(name.clone()).or_default().merge(model);
        }
        self.cost_usd = self.cost_usd.zip(outcome.cost_usd).map(|(sum, more)| sum + more);
    }

    /// As clients are told.
    pub(crate) fn told(&self) -> Value {
        let models: Map<String, Value> = self
            .by_model
            .iter()
            .map(|(name, model)| {
                let told = json!({
                    "requests": model.requests, "errors": model.errors,
                    "input_tokens": model.usage.input, "output_tokens": model.usage.output,
                    "cache_read_tokens": model.usage.cache_read, "cost_usd": model.cost.usd(),
                });
                (name.clone(), told)
            })
            .collect();
        let used = self.used;
        json!({
            "subtype": "get_usage_info", "range": "session", "turns": self.turns,
            "input_tokens": used.input, "output_tokens": used.output, "total_tokens": used.total,
            "cache_read_tokens": used.cache_read, "total_cost_usd": self.cost_usd, "models": models,
        })
    }
}

//! What a run did, by model and tool, in the shape that several dialects share.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;
use tenon_core::{Decision, Metrics, ModelMetrics, ToolMetrics};

pub(crate) fn stats(metrics: &Metrics) -> Stats<'_> {
    let by_name = metrics.tools.iter().map(|(name, tool)| (name.as_str(), ToolStats::from(tool))).collect();
    let mut all = ToolMetrics::default();
    metrics.tools.values().for_each(|tool| all.merge(tool));
    let all = ToolStats::from(&all);
    Stats {
        models: metrics.models.iter().map(|(name, model)| (name.as_str(), model.into())).collect(),
        tools: ToolsStats {
            total_calls: all.count,
            total_success: all.success,
            total_fail: all.fail,
            total_duration_ms: all.duration_ms,
            total_decisions: all.decisions,
            by_name,
        },
        files: FileStats {
            total_lines_added: metrics.lines_added,
            total_lines_removed: metrics.lines_removed,
        },
    }
}

/// Numbers by model and tool.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Stats<'a> {
    pub models: BTreeMap<&'a str, ModelStats>,
    pub tools: ToolsStats<'a>,
    pub files: FileStats,
}

/// What one model did.
#[derive(Serialize, JsonSchema)]
pub(crate) struct ModelStats {
    pub api: ApiStats,
    pub tokens: TokenStats,
}

/// Requests to one model.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ApiStats {
    pub total_requests: u64,
    pub total_errors: u64,
    pub total_latency_ms: u64,
}

/// Tokens of one model.
#[derive(Serialize, JsonSchema)]
pub(crate) struct TokenStats {
    /// Includes what a cache held.
    pub prompt: u64,
    /// The answers without their reasoning.
    pub candidates: u64,
    pub total: u64,
    /// The part of `prompt` that came from a cache.
    pub cached: u64,
    /// Reasoning.
    pub thoughts: u64,
    /// Always 0: what tools add to a prompt is counted in `prompt`.
    pub tool: u64,
    /// The part of `prompt` that did not come from a cache.
    pub input: u64,
}

/// What all tools did.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ToolsStats<'a> {
    pub total_calls: u64,
    pub total_success: u64,
    pub total_fail: u64,
    pub total_duration_ms: u64,
    pub total_decisions: DecisionStats,
    pub by_name: BTreeMap<&'a str, ToolStats>,
}

/// What one tool did.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ToolStats {
    pub count: u64,
    pub success: u64,
    pub fail: u64,
    pub duration_ms: u64,
    pub decisions: DecisionStats,
}

/// How calls came to be allowed or not.
#[derive(Clone, Copy, Default, Serialize, JsonSchema)]
pub(crate) struct DecisionStats {
    pub accept: u64,
    pub reject: u64,
    pub modify: u64,
    pub auto_accept: u64,
}

/// Lines that tools changed in files.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct FileStats {
    pub total_lines_added: u64,
    pub total_lines_removed: u64,
}

impl From<&ModelMetrics> for ModelStats {
    fn from(model: &ModelMetrics) -> ModelStats {
        ModelStats {
            api: ApiStats {
                total_requests: model.requests,
                total_errors: model.errors,
                total_latency_ms: model.latency_ms,
            },
            tokens: TokenStats {
                prompt: model.usage.input,
                candidates: model.usage.output.saturating_sub(model.usage.reasoning),
                total: model.usage.total,
                cached: model.usage.cache_read,
                thoughts: model.usage.reasoning,
                tool: 0,
                input: model.usage.input.saturating_sub(model.usage.cache_read),
            },
        }
    }
}

impl From<&ToolMetrics> for ToolStats {
    fn from(tool: &ToolMetrics) -> ToolStats {
        let count = |decision| tool.decisions.get(&decision).copied().unwrap_or_default();
        ToolStats {
            count: tool.success + tool.fail,
            success: tool.success,
            fail: tool.fail,
            duration_ms: tool.duration_ms,
            decisions: DecisionStats {
                accept: count(Decision::Accept),
                reject: count(Decision::Reject),
                modify: count(Decision::Modify),
                auto_accept: count(Decision::AutoAccept),
            },
        }
    }
}

//! What the `claude` dialect has besides: the same messages with the fields its clients read.

use std::borrow::Cow;
use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Value, json};
use tenon_core::{
    CompactTrigger, Ending, ErrorClass, Outcome, RunInfo, TaskEnd, TaskKind, TaskStart, TaskStatus,
};

use super::types::{Output, TaskUsage};
use crate::publish::publish;

/// Its clients warn below 2.0.0.
const CLAIMED_VERSION: &str = "2.1.0";

/// Whose client reads the messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flavour {
    Qwen,
    Claude,
}

/// What an interruption stops.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum InFlight {
    Answer,
    Calls,
}

/// What lines have in the `claude` dialect and in no other.
const OWN_FIELDS: [(&str, &[&str]); 2] = [
    ("Init", &["claude_code_version", "tenon_version", "apiKeySource", "output_style"]),
    ("ResultLine", &["stop_reason", "modelUsage", "terminal_reason", "api_error_status"]),
];

/// The JSON Schema of the `qwen` dialect, which has none of them.
pub(super) fn without_own_fields(mut schema: Value) -> Value {
    for (line, fields) in OWN_FIELDS {
        if let Value::Object(properties) = &mut schema["$defs"][line]["properties"] {
            fields.iter().chain(&["errors"]).for_each(|field| drop(properties.shift_remove(*field)));
        }
    }
    schema
}

/// The JSON Schema of the dialect: that of `qwen`, and its own fields are always there.
pub(crate) fn published_schema() -> Value {
    let mut schema = publish::<Output<'static>>("claude");
    for (line, fields) in OWN_FIELDS {
        if let Value::Array(required) = &mut schema["$defs"][line]["required"] {
            required.extend(fields.iter().map(|field| json!(field)));
        }
    }
    schema["title"] = json!("tenon: output in the claude dialect");
    let description = "What tenon writes in the `claude` dialect: one line of `stream-json`, or what `json` prints: the result \
                       alone, and with `--verbose` all messages.";
    schema["description"] = json!(description);
    schema
}

/// Fields of the first line in the `claude` dialect.
#[derive(Serialize, JsonSchema)]
pub(crate) struct ClaudeInit<'a> {
    /// The version of the protocol that is spoken, under the name that clients of this dialect read.
    pub claude_code_version: &'static str,
    /// The version of tenon.
    pub tenon_version: &'a str,
    /// Always `environment`: that is where keys come from.
    #[serde(rename = "apiKeySource")]
    pub api_key_source: &'static str,
    /// Always `default`.
    pub output_style: &'static str,
}

/// Fields of the result in the `claude` dialect.
#[derive(Serialize, JsonSchema)]
pub(crate) struct ClaudeResult<'a> {
    /// `end_turn`, `tool_use` for a payload, or `null` when the run failed.
    pub stop_reason: Option<&'static str>,
    /// What each model used.
    #[serde(rename = "modelUsage")]
    pub model_usage: BTreeMap<&'a str, ModelUsage>,
    /// Why the run failed; absent on success.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub errors: Vec<&'a str>,
    /// `completed`, `max_turns`, `aborted_streaming`, `aborted_tools` or `error`.
    pub terminal_reason: &'static str,
    /// The HTTP status of a failed model request.
    pub api_error_status: Option<u16>,
}

/// What one model used.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ModelUsage {
    /// Without cached tokens.
    pub input_tokens: u64,
    pub output_tokens: u64,
    pub cache_read_input_tokens: u64,
    pub cache_creation_input_tokens: u64,
    /// Always 0.
    pub web_search_requests: u64,
    /// Dollars; `null` when the price is not known.
    #[serde(rename = "costUSD")]
    pub cost_usd: Option<f64>,
}

/// Fields of `system` lines in the `claude` dialect, whose clients read them beside `subtype`.
#[derive(Serialize, JsonSchema)]
#[serde(untagged)]
pub(crate) enum ClaudeNotice<'a> {
    TaskStarted {
        task_id: &'a str,
        tool_use_id: Option<&'a str>,
        description: &'a str,
        /// `local_bash`, `local_agent` or `monitor`.
        task_type: &'static str,
    },
    TaskNotification {
        task_id: &'a str,
        tool_use_id: Option<&'a str>,
        /// `completed`, `failed` or `stopped`.
        status: &'static str,
        /// Empty when there is none.
        output_file: Cow<'a, str>,
        summary: &'a str,
        usage: TaskUsage,
    },
    CompactBoundary {
        compact_metadata: CompactMetadata,
    },
    ApiRetry {
        attempt: u32,
        retry_delay_ms: u64,
        /// Always `null`: see `error`.
        error_status: (),
        /// The class of the failure.
        error: &'static str,
    },
}

/// When and why the conversation was summed up.
#[derive(Serialize, JsonSchema)]
pub(crate) struct CompactMetadata {
    /// `auto` or `manual`.
    pub trigger: &'static str,
    pub pre_tokens: u64,
}

impl<'a> ClaudeNotice<'a> {
    pub(super) fn task_started(task: &'a TaskStart) -> ClaudeNotice<'a> {
        ClaudeNotice::TaskStarted {
            task_id: &task.task_id,
            tool_use_id: task.call_id.as_deref(),
            description: &task.description,
            task_type: match task.kind {
                TaskKind::Shell => "local_bash",
                TaskKind::Agent => "local_agent",
                TaskKind::Monitor => "monitor",
            },
        }
    }

    pub(super) fn task_ended(task: &'a TaskEnd, usage: TaskUsage) -> ClaudeNotice<'a> {
        ClaudeNotice::TaskNotification {
            task_id: &task.task_id,
            tool_use_id: task.call_id.as_deref(),
            status: match task.status {
                TaskStatus::Cancelled => "stopped",
                other => other.name(),
            },
            output_file: task.output_file.as_ref().map(|path| path.to_string_lossy()).unwrap_or_default(),
            summary: &task.summary,
            usage,
        }
    }

    pub(super) fn compacted(trigger: CompactTrigger, before_tokens: u64) -> ClaudeNotice<'a> {
        let compact_metadata = CompactMetadata { trigger: trigger.name(), pre_tokens: before_tokens };
        ClaudeNotice::CompactBoundary { compact_metadata }
    }

    pub(super) fn retrying(attempt: u32, wait_ms: u64, class: &'static str) -> ClaudeNotice<'a> {
        ClaudeNotice::ApiRetry { attempt, retry_delay_ms: wait_ms, error_status: (), error: class }
    }
}

pub(super) fn init(flavour: Flavour, info: &RunInfo) -> Option<ClaudeInit<'_>> {
    (flavour == Flavour::Claude).then(|| ClaudeInit {
        claude_code_version: CLAIMED_VERSION,
        tenon_version: &info.cli_version,
        api_key_source: "environment",
        output_style: "default",
    })
}

pub(super) fn result(flavour: Flavour, in_flight: InFlight, outcome: &Outcome) -> Option<ClaudeResult<'_>> {
    if flavour == Flavour::Qwen {
        return None;
    }
    let (stop_reason, errors, terminal_reason, api_error_status) = match &outcome.ending {
        Ending::Success(success) => {
            let stop = if success.payload.is_some() { "tool_use" } else { "end_turn" };
            (Some(stop), Vec::new(), "completed", None)
        }
        Ending::Failure(failure) => {
            let reason = match failure.class {
                ErrorClass::Turns | ErrorClass::SchemaRetries => "max_turns",
                ErrorClass::Interrupted(_) => match in_flight {
                    InFlight::Answer => "aborted_streaming",
                    InFlight::Calls => "aborted_tools",
                },
                _ => "error",
            };
            (None, vec![failure.message.as_str()], reason, failure.http_status)
        }
    };
    let models = outcome.metrics.models.iter().map(|(name, model)| {
        let usage = model.usage;
        let used = ModelUsage {
            input_tokens: uncached(usage),
            output_tokens: usage.output,
            cache_read_input_tokens: usage.cache_read,
            cache_creation_input_tokens: usage.cache_write,
            web_search_requests: 0,
            cost_usd: model.cost.usd(),
        };
        (name.as_str(), used)
    });
    Some(ClaudeResult {
        stop_reason,
        model_usage: models.collect(),
        errors,
        terminal_reason,
        api_error_status,
    })
}

/// Its clients count cached tokens apart.
pub(super) fn uncached(usage: tenon_core::Usage) -> u64 {
    usage.input.saturating_sub(usage.cache_read + usage.cache_write)
}

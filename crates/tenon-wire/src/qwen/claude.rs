//! What the `claude` dialect has besides: the same messages with the fields its clients read.

use std::borrow::Cow;
use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Value, json};
use tenon_core::{
    CompactTrigger, Ending, ErrorClass, Outcome, RunInfo, TaskEnd, TaskKind, TaskStart, TaskStatus,
};

use super::result::no_usage;
use super::types::{ApiRetryData, MessageType, Output, TaskUsage, Usage};
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
const OWN_FIELDS: [(&str, &[&str]); 5] = [
    ("Init", &["claude_code_version", "tenon_version", "apiKeySource", "output_style", "skills", "plugins"]),
    ("AssistantMessage", &["stop_sequence"]),
    ("StartedMessage", &["type", "stop_reason", "stop_sequence", "usage"]),
    ("Usage", &["cache_creation", "server_tool_use"]),
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
    /// Always `user`: keys come from the environment of whoever starts the run, or from a command of theirs.
    #[serde(rename = "apiKeySource")]
    pub api_key_source: &'static str,
    /// Always `default`.
    pub output_style: &'static str,
    /// Always empty.
    pub skills: [(); 0],
    /// Always empty.
    pub plugins: [(); 0],
}

/// Fields of a message in the `claude` dialect.
#[derive(Serialize, JsonSchema)]
pub(crate) struct ClaudeMessage {
    /// Always `null`.
    pub stop_sequence: (),
}

/// Fields of the message that a turn begins with, in the `claude` dialect.
#[derive(Serialize, JsonSchema)]
pub(crate) struct ClaudeStart {
    pub r#type: MessageType,
    /// Always `null`: it is not over.
    pub stop_reason: (),
    /// Always `null`.
    pub stop_sequence: (),
    /// Zeros: what a turn used is known at its end.
    pub usage: Usage,
}

/// Fields of a count of tokens in the `claude` dialect.
#[derive(Clone, Copy, Serialize, JsonSchema)]
pub(crate) struct ClaudeUsage {
    /// How long what was written to the cache is kept: always five minutes.
    pub cache_creation: CacheCreation,
    pub server_tool_use: ServerToolUse,
}

/// What was written to a cache, by how long it is kept.
#[derive(Clone, Copy, Serialize, JsonSchema)]
pub(crate) struct CacheCreation {
    pub ephemeral_5m_input_tokens: u64,
    /// Always 0.
    pub ephemeral_1h_input_tokens: u64,
}

/// Tools that ran at the provider: none does.
#[derive(Clone, Copy, Default, Serialize, JsonSchema)]
pub(crate) struct ServerToolUse {
    /// Always 0.
    pub web_search_requests: u64,
    /// Always 0.
    pub web_fetch_requests: u64,
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
    /// `completed`, or what ended the run: `max_turns`, `budget_exhausted`, `structured_output_retry_exhausted`,
    /// `aborted_streaming`, `aborted_tools`, `api_error`, `model_error`, `malformed_tool_use_exhausted`,
    /// `turn_setup_failed`.
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
    /// The most tokens that it can be given; 0 when that is not known.
    pub context_window: u64,
    /// The most tokens that it can write; 0 when that is not known.
    pub max_output_tokens: u64,
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
        max_retries: u32,
        retry_delay_ms: u64,
        /// The HTTP status of the failure, if it has one.
        error_status: Option<u16>,
        /// `rate_limit`, `overloaded`, `server_error` or `unknown`; `data.class` says it in tenon's words.
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

    pub(super) fn retrying(data: &ApiRetryData<'_>, attempts: u32, status: Option<u16>) -> ClaudeNotice<'a> {
        let error = match (data.class, status) {
            ("rate_limited", _) => "rate_limit",
            ("overloaded", _) => "overloaded",
            (_, Some(500..)) => "server_error",
            _ => "unknown",
        };
        ClaudeNotice::ApiRetry {
            attempt: data.attempt,
            max_retries: attempts.saturating_sub(1),
            retry_delay_ms: data.wait_ms,
            error_status: status,
            error,
        }
    }
}

pub(super) fn init(flavour: Flavour, info: &RunInfo) -> Option<ClaudeInit<'_>> {
    (flavour == Flavour::Claude).then(|| ClaudeInit {
        claude_code_version: CLAIMED_VERSION,
        tenon_version: &info.cli_version,
        api_key_source: "user",
        output_style: "default",
        skills: [],
        plugins: [],
    })
}

/// The names of modes that clients of the dialect know; others stand as they are.
pub(crate) fn mode_name(flavour: Flavour, mode: &str) -> &str {
    match (flavour, mode) {
        (Flavour::Claude, "yolo") => "bypassPermissions",
        (Flavour::Claude, "auto-edit") => "acceptEdits",
        _ => mode,
    }
}

pub(super) fn message(flavour: Flavour) -> Option<ClaudeMessage> {
    (flavour == Flavour::Claude).then_some(ClaudeMessage { stop_sequence: () })
}

pub(super) fn start(flavour: Flavour) -> Option<ClaudeStart> {
    (flavour == Flavour::Claude).then(|| ClaudeStart {
        r#type: MessageType::Message,
        stop_reason: (),
        stop_sequence: (),
        usage: no_usage(flavour),
    })
}

pub(super) fn usage(flavour: Flavour, usage: tenon_core::Usage) -> Option<ClaudeUsage> {
    (flavour == Flavour::Claude).then(|| ClaudeUsage {
        cache_creation: CacheCreation {
            ephemeral_5m_input_tokens: usage.cache_write,
            ephemeral_1h_input_tokens: 0,
        },
        server_tool_use: ServerToolUse::default(),
    })
}

fn terminal_reason(class: ErrorClass, in_flight: InFlight) -> &'static str {
    match class {
        ErrorClass::Turns => "max_turns",
        ErrorClass::SchemaRetries => "structured_output_retry_exhausted",
        ErrorClass::Budget | ErrorClass::BudgetUsd => "budget_exhausted",
        ErrorClass::Interrupted(_) => match in_flight {
            InFlight::Answer => "aborted_streaming",
            InFlight::Calls => "aborted_tools",
        },
        ErrorClass::Auth
        | ErrorClass::RateLimited
        | ErrorClass::Overloaded
        | ErrorClass::Network
        | ErrorClass::Protocol => "api_error",
        ErrorClass::RepeatedCall => "malformed_tool_use_exhausted",
        ErrorClass::Contract
        | ErrorClass::Refused
        | ErrorClass::Truncated
        | ErrorClass::Tool
        | ErrorClass::Output
        | ErrorClass::Internal => "model_error",
        ErrorClass::Usage | ErrorClass::Input | ErrorClass::Config | ErrorClass::Sandbox => {
            "turn_setup_failed"
        }
    }
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
            let reason = terminal_reason(failure.class, in_flight);
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
            context_window: model.window.unwrap_or_default(),
            max_output_tokens: model.max_output.unwrap_or_default(),
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

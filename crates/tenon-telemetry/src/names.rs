//! Every name that leaves: attributes, operations, metrics. The standard ones are those of the OpenTelemetry
//! semantic conventions at [`SCHEMA_URL`]; what the conventions have no name for begins with `tenon.`.

use tenon_core::{TaskStatus, ToolErrorKind};

/// The version of the conventions that the names below are taken from.
pub const SCHEMA_URL: &str = "https://opentelemetry.io/schemas/1.41.0";
pub(crate) const SCOPE: &str = "tenon";

pub(crate) const SERVICE_NAME: &str = "service.name";
pub(crate) const SERVICE_VERSION: &str = "service.version";
pub(crate) const SERVICE_INSTANCE: &str = "service.instance.id";
pub(crate) const SDK_NAME: &str = "telemetry.sdk.name";
pub(crate) const SDK_LANGUAGE: &str = "telemetry.sdk.language";
pub(crate) const SDK_VERSION: &str = "telemetry.sdk.version";

pub(crate) const OPERATION: &str = "gen_ai.operation.name";
pub(crate) const PROVIDER: &str = "gen_ai.provider.name";
pub(crate) const REQUEST_MODEL: &str = "gen_ai.request.model";
pub(crate) const CONVERSATION: &str = "gen_ai.conversation.id";
pub(crate) const OUTPUT_TYPE: &str = "gen_ai.output.type";
pub(crate) const INPUT_TOKENS: &str = "gen_ai.usage.input_tokens";
pub(crate) const OUTPUT_TOKENS: &str = "gen_ai.usage.output_tokens";
pub(crate) const CACHE_READ_TOKENS: &str = "gen_ai.usage.cache_read.input_tokens";
pub(crate) const CACHE_WRITE_TOKENS: &str = "gen_ai.usage.cache_creation.input_tokens";
pub(crate) const REASONING_TOKENS: &str = "gen_ai.usage.reasoning.output_tokens";
pub(crate) const TOKEN_TYPE: &str = "gen_ai.token.type";
pub(crate) const TOOL_NAME: &str = "gen_ai.tool.name";
pub(crate) const TOOL_CALL_ID: &str = "gen_ai.tool.call.id";
pub(crate) const TOOL_TYPE: &str = "gen_ai.tool.type";
pub(crate) const ERROR_TYPE: &str = "error.type";
pub(crate) const HTTP_STATUS: &str = "http.response.status_code";
pub(crate) const SERVER_ADDRESS: &str = "server.address";
pub(crate) const SERVER_PORT: &str = "server.port";

pub(crate) const CHANNEL: &str = "tenon.channel";
pub(crate) const TURN: &str = "tenon.turn";
pub(crate) const TURNS: &str = "tenon.turns";
pub(crate) const ATTEMPT: &str = "tenon.attempt";
pub(crate) const EXIT_CODE: &str = "tenon.exit_code";
pub(crate) const COST: &str = "tenon.cost_usd";
pub(crate) const TERMINAL: &str = "tenon.tool.terminal";
pub(crate) const TASK_ID: &str = "tenon.task.id";
pub(crate) const TASK_KIND: &str = "tenon.task.kind";
pub(crate) const TOKENS_BEFORE: &str = "tenon.tokens.before";
pub(crate) const TOKENS_AFTER: &str = "tenon.tokens.after";

/// Operations, which are the first words of span names too.
pub(crate) const INVOKE_AGENT: &str = "invoke_agent";
pub(crate) const CHAT: &str = "chat";
pub(crate) const EXECUTE_TOOL: &str = "execute_tool";
/// Spans that the conventions have no operation for.
pub(crate) const TURN_SPAN: &str = "turn";
pub(crate) const TASK_SPAN: &str = "background_task";
pub(crate) const COMPACTION: &str = "compaction";

pub(crate) const TOKEN_USAGE: &str = "gen_ai.client.token.usage";
pub(crate) const OPERATION_DURATION: &str = "gen_ai.client.operation.duration";
pub(crate) const ERRORS: &str = "tenon.errors";
pub(crate) const TOOL_CALLS: &str = "tenon.tool.calls";

/// `error.type` of a tool call.
pub(crate) fn tool_error(kind: ToolErrorKind) -> &'static str {
    match kind {
        ToolErrorKind::InvalidArguments => "invalid_arguments",
        ToolErrorKind::Unknown => "unknown_tool",
        ToolErrorKind::Denied => "denied",
        ToolErrorKind::Cancelled => "cancelled",
        ToolErrorKind::TimedOut => "timed_out",
        ToolErrorKind::Failed => "failed",
    }
}

/// `error.type` of a background task, for one that did not end well.
pub(crate) fn task_error(status: TaskStatus) -> Option<&'static str> {
    match status {
        TaskStatus::Running | TaskStatus::Completed => None,
        TaskStatus::Failed => Some("failed"),
        TaskStatus::Cancelled => Some("cancelled"),
    }
}

/// `gen_ai.provider.name` of a provider of ours: the conventions' own name where they have one.
pub(crate) fn provider(name: &str) -> &str {
    match name {
        "openai" | "openai-responses" => "openai",
        "gemini" => "gcp.gemini",
        other => other,
    }
}

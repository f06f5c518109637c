//! The last line of a turn, read from its outcome.

use std::borrow::Cow;

use serde_json::Number;
use tenon_core::{Ending, ErrorClass, Outcome};

use super::types::{
    Closing, CompletionDetails, Denial, Fatal, FatalError, FinishReason, PROTOCOL_VERSION, PromptDetails,
    Status, Usage,
};
use crate::SCHEMA_VERSION;
use crate::failure::structured;
use crate::stats::stats;
use crate::values::{Raw, plain};

pub(super) fn closing<'a>(
    outcome: &'a Outcome,
    control_errors: &'a [String],
    cli_version: &'a str,
) -> Closing<'a> {
    let (status, payload, failure) = match &outcome.ending {
        Ending::Success(success) => (Status::Success, success.payload.as_deref().map(Raw), None),
        Ending::Failure(failure) => (Status::Error, None, Some(failure)),
    };
    Closing {
        is_final: true,
        status,
        structured_result: payload,
        usage: outcome.usage().into(),
        stats: stats(&outcome.metrics),
        num_turns: outcome.turns,
        duration_ms: outcome.duration_ms,
        duration_api_ms: outcome.api_duration_ms,
        total_cost_usd: outcome.cost_usd.and_then(Number::from_f64),
        permission_denials: outcome
            .denials
            .iter()
            .map(|denial| Denial {
                tool_name: &denial.tool_name,
                tool_call_id: &denial.tool_use_id,
                reason: &denial.reason,
            })
            .collect(),
        warnings: &outcome.warnings,
        error: failure.map(|failure| failure.as_ref().into()),
        structured_error: failure.and_then(|failure| structured(failure)),
        control_errors: control_errors.iter().map(|message| Cow::Borrowed(message.as_str())).collect(),
        protocol_version: PROTOCOL_VERSION,
        schema_version: SCHEMA_VERSION,
        cli_version,
    }
}

/// What the last line says: the answer, or nothing.
pub(super) fn content(outcome: &Outcome) -> Option<Cow<'_, str>> {
    match &outcome.ending {
        // A payload is a value, and its text is that value: nothing is taken out of it.
        Ending::Success(success) if success.payload.is_some() => Some(Cow::Borrowed(&success.text)),
        Ending::Success(success) => Some(plain(&success.text)),
        Ending::Failure(_) => None,
    }
}

pub(super) fn finish_reason(outcome: &Outcome) -> FinishReason {
    match &outcome.ending {
        Ending::Success(_) => FinishReason::Stop,
        Ending::Failure(failure) => match failure.class {
            ErrorClass::Truncated => FinishReason::Length,
            ErrorClass::Refused => FinishReason::ContentFilter,
            _ => FinishReason::Stop,
        },
    }
}

/// `None` for a success.
pub(super) fn fatal(outcome: &Outcome) -> Option<Fatal<'_>> {
    let Ending::Failure(failure) = &outcome.ending else { return None };
    Some(Fatal {
        error: FatalError {
            message: &failure.message,
            r#type: error_type(failure.class),
            param: None,
            code: format!("TENON_{}", failure.class.name().to_uppercase()),
            hint: failure.hint.as_deref(),
            exit_code: failure.exit_code(),
            structured_error: structured(failure),
        },
    })
}

fn error_type(class: ErrorClass) -> &'static str {
    match class {
        ErrorClass::Usage | ErrorClass::Input | ErrorClass::Config | ErrorClass::Sandbox => {
            "invalid_request_error"
        }
        ErrorClass::Auth => "authentication_error",
        ErrorClass::RateLimited | ErrorClass::Overloaded => "rate_limit_error",
        ErrorClass::Turns
        | ErrorClass::SchemaRetries
        | ErrorClass::Budget
        | ErrorClass::BudgetUsd
        | ErrorClass::Contract
        | ErrorClass::Refused
        | ErrorClass::Truncated
        | ErrorClass::Network
        | ErrorClass::Protocol
        | ErrorClass::Tool
        | ErrorClass::RepeatedCall
        | ErrorClass::Interrupted(_)
        | ErrorClass::Output
        | ErrorClass::Internal => "api_error",
    }
}

/// The name of a failure among the news of a session.
pub(super) fn event_of(outcome: &Outcome) -> &'static str {
    let Ending::Failure(failure) = &outcome.ending else { return "Finished" };
    match failure.class {
        ErrorClass::Turns => "MaxSessionTurns",
        ErrorClass::Truncated => "MAX_TOKENS",
        ErrorClass::Interrupted(_) => "USER_CANCELLED",
        _ => "Error",
    }
}

impl From<tenon_core::Usage> for Usage {
    fn from(usage: tenon_core::Usage) -> Usage {
        Usage {
            prompt_tokens: usage.input,
            completion_tokens: usage.output,
            total_tokens: usage.total,
            prompt_tokens_details: PromptDetails { cached_tokens: usage.cache_read },
            completion_tokens_details: CompletionDetails { reasoning_tokens: usage.reasoning },
        }
    }
}

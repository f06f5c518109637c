//! The result line, read from the one outcome of the run.

use tenon_core::{Ending, ErrorClass, Outcome};

use super::claude::{self, Flavour, InFlight};
use super::types::{PermissionDenial, ResultLine, Subtype, Usage};
use crate::failure::structured;
use crate::stats::stats;
use crate::values::{Raw, Uuid};
use crate::{EncoderOptions, SCHEMA_VERSION};

/// Whose result it is, and for whom.
#[derive(Clone, Copy)]
pub(super) struct Of {
    pub flavour: Flavour,
    pub in_flight: InFlight,
    pub uuid: Uuid,
    pub session_id: Uuid,
}

pub(super) fn result_line<'a>(outcome: &'a Outcome, options: &'a EncoderOptions, of: Of) -> ResultLine<'a> {
    let Of { flavour, in_flight, uuid, session_id } = of;
    let (subtype, result, payload, failure) = match &outcome.ending {
        Ending::Success(success) => {
            let text_is_wanted = options.result_text || success.payload.is_none();
            let text = text_is_wanted.then_some(success.text.as_str());
            (Subtype::Success, text, success.payload.as_deref().map(Raw), None)
        }
        Ending::Failure(failure) => (subtype(failure.class), None, None, Some(failure)),
    };
    ResultLine {
        subtype,
        uuid,
        session_id,
        is_error: outcome.is_error(),
        duration_ms: outcome.duration_ms,
        duration_api_ms: outcome.api_duration_ms,
        num_turns: outcome.turns,
        result,
        usage: used(flavour, outcome.usage()),
        permission_denials: outcome.denials.iter().map(PermissionDenial::from).collect(),
        stats: stats(&outcome.metrics),
        structured_result: payload,
        structured_output: payload,
        total_cost_usd: outcome.cost_usd,
        warnings: &outcome.warnings,
        error: failure.map(|failure| failure.as_ref().into()),
        structured_error: failure.and_then(|failure| structured(failure)),
        schema_version: SCHEMA_VERSION,
        cli_version: &options.cli_version,
        claude: claude::result(flavour, in_flight, outcome),
    }
}

fn subtype(class: ErrorClass) -> Subtype {
    match class {
        ErrorClass::Turns => Subtype::ErrorMaxTurns,
        ErrorClass::SchemaRetries => Subtype::ErrorMaxStructuredOutputRetries,
        ErrorClass::BudgetUsd => Subtype::ErrorMaxBudgetUsd,
        ErrorClass::Budget => Subtype::ErrorBudgetExceeded,
        ErrorClass::Usage
        | ErrorClass::Auth
        | ErrorClass::Input
        | ErrorClass::Config
        | ErrorClass::Sandbox
        | ErrorClass::Contract
        | ErrorClass::Refused
        | ErrorClass::Truncated
        | ErrorClass::RateLimited
        | ErrorClass::Overloaded
        | ErrorClass::Network
        | ErrorClass::Protocol
        | ErrorClass::Tool
        | ErrorClass::RepeatedCall
        | ErrorClass::Interrupted(_)
        | ErrorClass::Output
        | ErrorClass::Internal => Subtype::ErrorDuringExecution,
    }
}

/// No tokens, as the dialect counts them.
pub(super) fn no_usage(flavour: Flavour) -> Usage {
    used(flavour, tenon_core::Usage::default())
}

/// Tokens as the dialect counts them.
pub(super) fn used(flavour: Flavour, usage: tenon_core::Usage) -> Usage {
    let input_tokens = match flavour {
        Flavour::Qwen => usage.input,
        Flavour::Claude => claude::uncached(usage),
    };
    Usage {
        input_tokens,
        output_tokens: usage.output,
        cache_read_input_tokens: usage.cache_read,
        total_tokens: usage.total,
        cache_creation_input_tokens: usage.cache_write,
        reasoning_tokens: usage.reasoning,
        claude: claude::usage(flavour, usage),
    }
}

impl<'a> From<&'a tenon_core::PermissionDenial> for PermissionDenial<'a> {
    fn from(denial: &'a tenon_core::PermissionDenial) -> PermissionDenial<'a> {
        PermissionDenial {
            tool_name: &denial.tool_name,
            tool_use_id: &denial.tool_use_id,
            tool_input: Raw(&denial.tool_input),
            reason: &denial.reason,
        }
    }
}

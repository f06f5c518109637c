//! Why a run failed, and what the model last offered, in the shape that several dialects share.

use schemars::JsonSchema;
use serde::Serialize;

use crate::values::{Raw, error_classes};

/// Why the run failed.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Failure<'a> {
    /// The exit code of the process; in a session, what it would be if this were its last turn.
    pub code: u8,
    #[schemars(schema_with = "error_classes")]
    pub class: &'static str,
    pub message: &'a str,
    /// May the same run be tried again? `null` when nobody knows.
    pub retryable: Option<bool>,
    pub http_status: Option<u16>,
    pub provider: Option<&'a str>,
    /// What to do about it.
    pub hint: Option<&'a str>,
}

/// What the model last offered against the schema.
#[derive(Serialize, JsonSchema)]
pub(crate) struct StructuredFailure<'a> {
    pub attempts: u32,
    /// JSON as the model wrote it, or a string if it was no JSON. Not valid against the schema.
    pub candidate: Option<Raw<'a>>,
    pub violations: Vec<Violation<'a>>,
}

/// One thing that is wrong with the candidate.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Violation<'a> {
    /// JSON Pointer into the candidate.
    pub path: &'a str,
    pub message: &'a str,
}

impl<'a> From<&'a tenon_core::Failure> for Failure<'a> {
    fn from(failure: &'a tenon_core::Failure) -> Failure<'a> {
        Failure {
            code: failure.exit_code(),
            class: failure.class.name(),
            message: &failure.message,
            retryable: failure.retryable,
            http_status: failure.http_status,
            provider: failure.provider.as_deref(),
            hint: failure.hint.as_deref(),
        }
    }
}

/// `None` when the run had no contract, or nothing was offered.
pub(crate) fn structured(failure: &tenon_core::Failure) -> Option<StructuredFailure<'_>> {
    let error = failure.structured.as_ref()?;
    Some(StructuredFailure {
        attempts: error.attempts,
        candidate: error.candidate.as_deref().map(Raw),
        violations: error
            .violations
            .iter()
            .map(|violation| Violation { path: &violation.path, message: &violation.message })
            .collect(),
    })
}

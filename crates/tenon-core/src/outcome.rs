//! How a run ended: computed once, at the end.
//!
//! The result line, `is_error`, the exit code and a workflow step's status are all read from
//! [`Outcome`], so they cannot disagree. The table of exit codes is [`exit_code`].

use crate::{Metrics, PermissionDenial, RawJson, Usage};

#[derive(Clone, Debug)]
pub struct Outcome {
    pub ending: Ending,
    pub turns: u32,
    pub duration_ms: u64,
    pub api_duration_ms: u64,
    pub metrics: Metrics,
    pub denials: Vec<PermissionDenial>,
    /// Things the caller should know although the run went on, such as an unread stdin.
    pub warnings: Vec<String>,
    /// Dollars. `None` when nobody knows the price.
    pub cost_usd: Option<f64>,
}

impl Outcome {
    /// A run that failed before it began.
    pub fn failed_early(failure: Failure, warnings: Vec<String>) -> Outcome {
        Outcome {
            ending: Ending::Failure(Box::new(failure)),
            turns: 0,
            duration_ms: 0,
            api_duration_ms: 0,
            metrics: Metrics::default(),
            denials: Vec::new(),
            warnings,
            cost_usd: Some(0.0),
        }
    }

    pub fn usage(&self) -> Usage {
        self.metrics.usage()
    }

    pub fn is_error(&self) -> bool {
        matches!(self.ending, Ending::Failure(_))
    }

    pub fn exit_code(&self) -> u8 {
        match &self.ending {
            Ending::Success(_) => 0,
            Ending::Failure(failure) => failure.exit_code(),
        }
    }
}

#[derive(Clone, Debug)]
pub enum Ending {
    Success(Success),
    Failure(Box<Failure>),
}

#[derive(Clone, Debug)]
pub struct Success {
    /// The last text of the model, or the payload's text in a structured run.
    pub text: String,
    /// The value that was validated, as the model wrote it.
    pub payload: Option<RawJson>,
}

#[derive(Clone, Debug)]
pub struct Failure {
    pub class: ErrorClass,
    /// One sentence for a person.
    pub message: String,
    /// What to do about it.
    pub hint: Option<String>,
    pub retryable: Option<bool>,
    /// How long the server asked to be left alone.
    pub retry_after_ms: Option<u64>,
    pub http_status: Option<u16>,
    pub provider: Option<String>,
    /// The last thing the model offered against a contract.
    pub structured: Option<StructuredError>,
}

impl Failure {
    pub fn new(class: ErrorClass, message: impl Into<String>) -> Failure {
        Failure {
            class,
            message: message.into(),
            hint: None,
            retryable: None,
            retry_after_ms: None,
            http_status: None,
            provider: None,
            structured: None,
        }
    }

    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Failure {
        self.hint = Some(hint.into());
        self
    }

    pub fn exit_code(&self) -> u8 {
        exit_code(self.class)
    }
}

impl From<crate::ModelError> for Failure {
    fn from(error: crate::ModelError) -> Failure {
        Failure {
            class: error.class,
            message: error.message,
            hint: error.hint,
            retryable: Some(error.retryable),
            retry_after_ms: error.retry_after.map(|wait| u64::try_from(wait.as_millis()).unwrap_or(u64::MAX)),
            http_status: error.http_status,
            provider: error.provider,
            structured: None,
        }
    }
}

/// What a contract had received when the run failed. Shown on stdout, never stored.
#[derive(Clone, Debug)]
pub struct StructuredError {
    pub attempts: u32,
    /// The arguments of the last attempt: JSON when they parse, a JSON string of the text otherwise.
    pub candidate: Option<RawJson>,
    pub violations: Vec<Violation>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// JSON Pointer into the candidate.
    pub path: String,
    pub message: String,
}

/// What kind of failure it was. Programs match on these names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ErrorClass {
    Usage,
    Auth,
    Input,
    Config,
    Sandbox,
    Turns,
    SchemaRetries,
    /// Wall time or tool calls.
    Budget,
    /// Money.
    BudgetUsd,
    /// The model ended without calling the terminal tool.
    Contract,
    Refused,
    Truncated,
    RateLimited,
    Overloaded,
    Network,
    Protocol,
    Tool,
    RepeatedCall,
    Interrupted(Signal),
    /// stdout could not be written.
    Output,
    Internal,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Signal {
    Int,
    Term,
}

impl ErrorClass {
    /// Every class once, in the order of the documentation.
    pub const ALL: [ErrorClass; 22] = [
        ErrorClass::Usage,
        ErrorClass::Auth,
        ErrorClass::Input,
        ErrorClass::Config,
        ErrorClass::Sandbox,
        ErrorClass::Turns,
        ErrorClass::SchemaRetries,
        ErrorClass::Budget,
        ErrorClass::BudgetUsd,
        ErrorClass::Contract,
        ErrorClass::Refused,
        ErrorClass::Truncated,
        ErrorClass::RateLimited,
        ErrorClass::Overloaded,
        ErrorClass::Network,
        ErrorClass::Protocol,
        ErrorClass::Tool,
        ErrorClass::RepeatedCall,
        ErrorClass::Interrupted(Signal::Int),
        ErrorClass::Interrupted(Signal::Term),
        ErrorClass::Internal,
        ErrorClass::Output,
    ];

    pub fn name(self) -> &'static str {
        match self {
            ErrorClass::Usage => "usage",
            ErrorClass::Auth => "auth",
            ErrorClass::Input => "input",
            ErrorClass::Config => "config",
            ErrorClass::Sandbox => "sandbox",
            ErrorClass::Turns => "turns",
            ErrorClass::SchemaRetries => "schema_retries",
            ErrorClass::Budget | ErrorClass::BudgetUsd => "budget",
            ErrorClass::Contract => "contract",
            ErrorClass::Refused => "refused",
            ErrorClass::Truncated => "truncated",
            ErrorClass::RateLimited => "rate_limited",
            ErrorClass::Overloaded => "overloaded",
            ErrorClass::Network => "network",
            ErrorClass::Protocol => "protocol",
            ErrorClass::Tool => "tool",
            ErrorClass::RepeatedCall => "repeated_call",
            ErrorClass::Interrupted(_) => "interrupted",
            ErrorClass::Output => "output",
            ErrorClass::Internal => "internal",
        }
    }
}

/// The exit code of a failure: the one table, for every mode and dialect. Success is 0.
pub fn exit_code(class: ErrorClass) -> u8 {
    match class {
        ErrorClass::Usage => 2,
        ErrorClass::Auth => 41,
        ErrorClass::Input => 42,
        ErrorClass::Sandbox => 44,
        ErrorClass::Config => 52,
        ErrorClass::Turns | ErrorClass::SchemaRetries => 53,
        ErrorClass::Budget | ErrorClass::BudgetUsd => 55,
        ErrorClass::Interrupted(Signal::Int) => 130,
        ErrorClass::Interrupted(Signal::Term) => 143,
        ErrorClass::Contract
        | ErrorClass::Refused
        | ErrorClass::Truncated
        | ErrorClass::RateLimited
        | ErrorClass::Overloaded
        | ErrorClass::Network
        | ErrorClass::Protocol
        | ErrorClass::Tool
        | ErrorClass::RepeatedCall
        | ErrorClass::Output
        | ErrorClass::Internal => 1,
    }
}

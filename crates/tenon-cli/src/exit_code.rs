//! The only place that ends the process.
//!
//! Which failure has which code is one table: [`tenon_core::exit_code`], read through
//! `Outcome::exit_code`. What happened to stdout can only make it worse.

use std::process::ExitCode;

use tenon_core::{Ending, ErrorClass, Failure, Outcome, Signal, exit_code};
use tenon_flow::WorkflowStatus;
use tenon_session::Closed;

use crate::stderr::{Reporter, line};
use crate::stdout::Written;

/// The exit code of a run: success means that the result was written and flushed.
pub fn exit_code_of(outcome: &Outcome, written: &Written) -> u8 {
    match written {
        Written::All => outcome.exit_code(),
        // The reader left. If it has the result it has what it wanted, else the run was for nothing.
        Written::ReaderGone => 1,
        Written::Failed(_) | Written::Unread(_) => {
            let failure = match &outcome.ending {
                Ending::Failure(failure) => Some(&**failure),
                Ending::Success(_) => None,
            };
            tell_unwritten(written, failure);
            at_least(outcome.exit_code(), written)
        }
    }
}

/// Says that stdout could not be written, unless that is why the run failed: then it has been said.
pub fn tell_unwritten(written: &Written, told: Option<&Failure>) {
    let Some(failure) = written.failure() else { return };
    if told.is_none_or(|told| told.message != failure.message) {
        line(&format!("error[{}]: {}", failure.class.name(), failure.message));
    }
}

/// Nothing is a success that was not written.
fn at_least(code: u8, written: &Written) -> u8 {
    match (code, written) {
        (0, Written::Unread(signal)) => exit_code(ErrorClass::Interrupted(*signal)),
        (code, Written::All) => code,
        (code, _) => code.max(GENERAL_FAILURE),
    }
}

/// The exit code of a session: what its turns came to is in their results.
pub fn exit_code_of_session(closed: &Closed, written: &Written, reporter: Reporter) -> u8 {
    let failure = match closed {
        Closed::Failed(failure) => Some(failure),
        Closed::InOrder => None,
    };
    let code = failure.map_or(0, Failure::exit_code);
    if matches!(written, Written::ReaderGone) {
        // Whoever left knows it; a person who watches may not.
        reporter.warn("the client stopped reading, so the session ended");
        return code.max(1);
    }
    if let Some(failure) = failure {
        reporter.failure(failure);
    }
    tell_unwritten(written, failure);
    at_least(code, written)
}

/// A run that failed for a reason of its own.
const GENERAL_FAILURE: u8 = 1;

/// The exit code of a workflow. Failures of its steps are in its result; `failure` is one of the run itself.
pub fn exit_code_of_flow(status: WorkflowStatus, failure: Option<&Failure>, written: &Written) -> u8 {
    let code = match (status, failure) {
        (WorkflowStatus::Completed, None) => 0,
        (_, Some(failure)) => failure.exit_code(),
        (WorkflowStatus::BudgetExceeded, None) => exit_code(ErrorClass::Budget),
        (WorkflowStatus::Cancelled, None) => exit_code(ErrorClass::Interrupted(Signal::Int)),
        // What it lacks to go on is somebody's answer.
        (WorkflowStatus::Suspended, None) => exit_code(ErrorClass::Input),
        (WorkflowStatus::Failed | WorkflowStatus::Partial, None) => GENERAL_FAILURE,
    };
    match written {
        Written::ReaderGone => GENERAL_FAILURE,
        Written::All | Written::Failed(_) | Written::Unread(_) => at_least(code, written),
    }
}

pub fn exit(code: u8) -> ExitCode {
    ExitCode::from(code)
}

/// Ends the process without waiting for anything.
#[expect(clippy::exit, reason = "a second signal must work whatever the program is doing")]
pub fn exit_now(code: u8) -> ! {
    std::process::exit(i32::from(code))
}

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
        Written::Failed(error) => {
            let message = format!("stdout could not be written: {error}");
            // A run that was stopped for this reason has said so.
            if !matches!(&outcome.ending, Ending::Failure(failure) if failure.message == message) {
                line(&format!("error[internal]: {message}"));
            }
            outcome.exit_code().max(1)
        }
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
    match written {
        Written::All | Written::ReaderGone => code,
        Written::Failed(error) => {
            let message = format!("stdout could not be written: {error}");
            // A session that was stopped for this reason has said so.
            if failure.is_none_or(|failure| failure.message != message) {
                line(&format!("error[internal]: {message}"));
            }
            code.max(1)
        }
    }
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
        Written::All => code,
        Written::ReaderGone => 1,
        Written::Failed(error) => {
            line(&format!("error[internal]: stdout could not be written: {error}"));
            code.max(1)
        }
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

//! A schema together with the policies that make it a contract.
//!
//! There is one mechanism and two presets: a run's own contract, and that of a workflow step.

use crate::Schema;

/// The terminal tool of a run with a contract. Other programs match on the name.
pub const STRUCTURED_OUTPUT: &str = "structured_output";
/// The terminal tool of a workflow step with a contract.
pub const SUBMIT_RESULT: &str = "submit_result";

#[derive(Clone, Debug)]
pub struct Contract {
    /// The tool whose arguments are the payload.
    pub tool: &'static str,
    pub siblings: Siblings,
    pub replies: Replies,
    pub schema: Schema,
}

/// What happens to the other calls of the turn that makes a terminal call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Siblings {
    /// They never run, whether the terminal call is valid or not.
    Suppress,
    /// They all run, then the loop ends.
    Run,
}

/// How the model is answered when it has called the terminal tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Replies {
    /// In words: a sentence, or a line for each violation.
    Words,
    /// As JSON: `{"status":"ok"}`, or `{"status":"error","message":"validation failed: …"}`.
    Status,
}

impl Contract {
    pub fn structured_output(schema: Schema) -> Contract {
        Contract { tool: STRUCTURED_OUTPUT, siblings: Siblings::Suppress, replies: Replies::Words, schema }
    }

    pub fn submit_result(schema: Schema) -> Contract {
        Contract { tool: SUBMIT_RESULT, siblings: Siblings::Run, replies: Replies::Status, schema }
    }
}

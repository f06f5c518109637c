//! A schema together with the policies that make it a contract.
//!
//! There is one mechanism and two presets: a run's own contract, and that of a workflow step.

use std::fmt;
use std::sync::Arc;

use serde_json::value::RawValue;

use crate::{Rejection, Schema, Violation};

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
    pub further: Option<Further>,
}

/// What a payload has to be beyond its schema, where no schema can say it: names that lead somewhere, say.
#[derive(Clone)]
pub struct Further(Arc<FurtherCheck>);

type FurtherCheck = dyn Fn(&RawValue) -> Vec<Violation> + Send + Sync;

impl Further {
    /// `check` sees payloads that fit the schema, and finds nothing wrong with those that are accepted.
    pub fn new(check: impl Fn(&RawValue) -> Vec<Violation> + Send + Sync + 'static) -> Further {
        Further(Arc::new(check))
    }
}

impl fmt::Debug for Further {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("Further")
    }
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
        let (siblings, replies) = (Siblings::Suppress, Replies::Words);
        Contract { tool: STRUCTURED_OUTPUT, siblings, replies, schema, further: None }
    }

    pub fn submit_result(schema: Schema) -> Contract {
        let (siblings, replies) = (Siblings::Run, Replies::Status);
        Contract { tool: SUBMIT_RESULT, siblings, replies, schema, further: None }
    }

    /// The payload in one compact line, if the arguments fulfil the contract.
    pub fn check(&self, arguments: &str) -> Result<Box<RawValue>, Rejection> {
        let payload = self.schema.check(arguments)?;
        let found = self.further.as_ref().map(|further| (further.0)(&payload)).unwrap_or_default();
        if found.is_empty() { Ok(payload) } else { Err(Rejection::further(found)) }
    }
}

//! What becomes of the calls of one answer: a pure function.
//!
//! A contract whose siblings are suppressed turns every other call of a turn with a terminal call into
//! a skip, whether or not the terminal call is accepted: side effects beside a final answer are
//! probably a mistake, and the model may repeat them in a turn of their own.

use tenon_contract::Siblings;
use tenon_core::{Args, ToolCall};

/// What is to be done with one call. Steps stand in the order of the calls.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// Validate against the contract.
    Terminal,
    /// Run it.
    Execute(Allowed),
    /// Ask the client first.
    Ask { args: Args, reason: String, hint: String },
    /// Answer with an error; nothing runs.
    Refuse(Refusal),
    /// Not run, because the turn has a terminal call.
    Skip,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Allowed {
    pub args: Args,
    /// Has no effects: may run beside its neighbours.
    pub read_only: bool,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Refusal {
    Denied { reason: String, hint: Option<String> },
    UnknownTool { message: String },
    InvalidArguments { message: String },
}

/// What the tools and permissions say about one call, without regard to the rest of the batch.
pub type Judgement = Step;

/// `judge` is asked only about calls that are not terminal and not skipped.
pub fn plan_batch(
    calls: &[ToolCall],
    siblings: Option<Siblings>,
    judge: impl Fn(&ToolCall) -> Judgement,
) -> Vec<Step> {
    let suppress = siblings == Some(Siblings::Suppress) && calls.iter().any(|call| call.terminal);
    calls
        .iter()
        .map(|call| match call.terminal {
            true => Step::Terminal,
            false if suppress => Step::Skip,
            false => judge(call),
        })
        .collect()
}

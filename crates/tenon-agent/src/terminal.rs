//! The terminal tool: how it is offered, and what is said about calls to it and around it.

use serde_json::{Value, json};
use tenon_contract::{Contract, Rejection, Replies, Siblings};
use tenon_core::{ToolKind, ToolSpec};

/// Told about a sibling of a terminal call that was accepted. Other programs match on this text.
pub const SKIPPED: &str =
    "Skipped: this turn's structured_output contract took precedence as the terminal output.";
/// Told about a sibling when no terminal call of the turn was accepted. Other programs match on this text.
pub const SKIPPED_RETRY: &str = "Skipped: this turn's structured_output contract took precedence as the terminal output. Re-issue this call in a separate turn if needed.";
/// What the accepted call itself is answered.
pub const ACCEPTED: &str = "Accepted: the payload fits the schema.";

/// What the accepted call is answered.
pub(crate) fn accepted(contract: &Contract) -> String {
    match contract.replies {
        Replies::Words => ACCEPTED.to_owned(),
        Replies::Status => json!({ "status": "ok" }).to_string(),
    }
}

/// What a rejected call is answered: every violation in a line of its own.
pub(crate) fn rejected(contract: &Contract, rejection: &Rejection) -> String {
    match contract.replies {
        Replies::Words => rejection.told(),
        Replies::Status => {
            let message = format!("validation failed: {}", rejection.told());
            json!({ "status": "error", "message": message }).to_string()
        }
    }
}

/// What a call is answered that was not looked at, because of an answer beside it.
pub(crate) fn skipped(contract: Option<&Contract>, is_captured: bool) -> String {
    match (contract, is_captured) {
        (Some(Contract { replies: Replies::Status, tool, .. }), true) => {
            let message = format!("another call of `{tool}` in this turn was accepted");
            json!({ "status": "skipped", "message": message }).to_string()
        }
        (Some(Contract { replies: Replies::Status, tool, .. }), false) => {
            let message = format!("no more calls of `{tool}` are looked at");
            json!({ "status": "skipped", "message": message }).to_string()
        }
        (_, true) => SKIPPED.to_owned(),
        (_, false) => SKIPPED_RETRY.to_owned(),
    }
}

/// The terminal tool as the model sees it. Its parameters are the user's schema.
pub(crate) fn terminal_spec(contract: &Contract) -> ToolSpec {
    ToolSpec {
        name: contract.tool.to_owned(),
        description: description(contract.siblings).to_owned(),
        parameters: contract.schema.source().clone(),
        kind: ToolKind::Other,
    }
}

fn description(siblings: Siblings) -> &'static str {
    match siblings {
        Siblings::Suppress => {
            "Hands in the final answer. The arguments are the answer and must fit this tool's schema. \
                      The first call that fits ends the run; one that does not is answered with what is wrong, \
                      and can be repeated. Nothing else counts as an answer: plain text is thrown away. Finish \
                      your work with the other tools first, then call this one alone."
        }
        Siblings::Run => {
            "Hands in the result of your task. The arguments are the result and must fit this tool's schema. The \
             first call that fits ends the task; one that does not is answered with what is wrong, and can be \
             repeated. Without a call that fits the task has failed, whatever was written. Finish your work with the \
             other tools first."
        }
    }
}

/// Reminds a model that stopped without the terminal call.
pub(crate) fn nudge(tool: &str) -> String {
    format!(
        "You stopped without handing in the answer. Call `{tool}` now, with the final answer as its arguments."
    )
}

/// The same where the text of the answer is the payload.
pub(crate) fn nudge_for_text(tool: &str, schema: &Value) -> String {
    format!(
        "You stopped without handing in the answer. Do not call `{tool}`. Write the final answer now: one JSON \
         object that fits this JSON Schema, and nothing else.\n{schema}"
    )
}

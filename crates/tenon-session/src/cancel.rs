//! A client's `control/cancel`: which turn it means, and what it is answered. Every one has one answer.
//!
//! | it names | it means |
//! |---|---|
//! | no turn | the one that runs; while that is being stopped, the one that runs next |
//! | the running turn | that |
//! | a turn that waits | that: it is taken back, and has its result in its place |
//! | anything else, and the running turn has no name of the client's | the running turn |
//! | anything else | nothing |

use serde_json::json;
use tenon_core::{Ending, ErrorClass, Failure, Outcome, Signal};
use tenon_wire::Cancelled;

use crate::drive::{Host, NamedBy, Running, Session};
use crate::waiting::Held;

pub(crate) struct Cancel {
    pub(crate) prompt_id: Option<String>,
    pub(crate) request_id: Option<String>,
}

impl<H: Host> Session<H> {
    pub(crate) fn cancel(&mut self, cancel: Cancel, running: Option<&mut Running>) {
        let named = cancel.prompt_id.as_deref();
        let Some(running) = running else {
            return self.cancelled(&cancel, Cancelled::Noop, "no turn is running");
        };
        let is_running = named.is_none_or(|named| named == running.prompt_id);
        if !is_running && named.is_some_and(|named| self.queue.take_back(named)) {
            return self.cancelled(&cancel, Cancelled::Ok, "the turn was taken back before it began");
        }
        if named.is_some() && cancel.prompt_id == self.queue.ended {
            return self.cancelled(&cancel, Cancelled::Noop, "the turn is over");
        }
        if !is_running && running.named == NamedBy::Client {
            let why = "no turn with this `prompt_id` is running or waits";
            return self.cancelled(&cancel, Cancelled::Noop, why);
        }
        if running.is_being_stopped() {
            return self.queue.held.push_back(Held::Cancel(cancel));
        }
        // Whoever gives turns no names means the one there is.
        let prompt_id = cancel.prompt_id.or_else(|| Some(running.prompt_id.clone()));
        running.stop.now(interrupted());
        running.cancels.push(Cancel { prompt_id, ..cancel });
    }

    /// The turn that somebody wanted stopped has ended.
    pub(crate) fn stopped(&self, cancels: &[Cancel], outcome: &Outcome) {
        let (status, message) = match &outcome.ending {
            Ending::Failure(_) => (Cancelled::Ok, "the turn was stopped"),
            Ending::Success(_) => (Cancelled::Noop, "the turn had come to its answer already"),
        };
        for cancel in cancels {
            self.cancelled(cancel, status, message);
        }
    }

    pub(crate) fn cancelled(&self, cancel: &Cancel, outcome: Cancelled, message: &str) {
        self.lines.line(self.replies.cancel(cancel.prompt_id.as_deref(), outcome, message));
        if let Some(id) = &cancel.request_id {
            let answer = json!({ "subtype": "cancel", "cancelled": outcome == Cancelled::Ok });
            self.lines.line(self.replies.control_response(id, Ok(&answer)));
        }
    }
}

/// Why a client's own interruption ends a turn.
pub(crate) fn interrupted() -> Failure {
    Failure::new(ErrorClass::Interrupted(Signal::Int), "the client interrupted the turn")
}

/// Why a turn that was cancelled while it waited did not begin.
pub(crate) fn taken_back() -> Failure {
    let why = "the client cancelled the turn before it began";
    Failure::new(ErrorClass::Interrupted(Signal::Int), why)
}

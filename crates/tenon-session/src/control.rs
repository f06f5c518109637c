//! What a client may ask of the session itself, and what it is answered. How requests are read and answers
//! written is `tenon-wire`'s.

use std::time::Duration;

use serde_json::json;
use tenon_agent::is_stopped_note;
use tenon_core::{ErrorClass, Failure, Message, Part, Role};
use tenon_wire::input::{ControlRequest, Turn};

use crate::drive::{Host, Running, Session, interrupted};
use crate::later::Answer;

/// A client that wants to think longer about a permission has gone away.
const LONGEST_PERMISSION: Duration = Duration::from_secs(24 * 60 * 60);

impl<H: Host> Session<H> {
    pub(crate) fn answer_control(
        &mut self,
        request: &ControlRequest,
        running: Option<&mut Running>,
    ) -> Answer {
        match request {
            ControlRequest::Initialize(wanted) => {
                if let Some(ms) = wanted.can_use_tool_ms {
                    self.peer.wait_for_permission(Duration::from_millis(ms).min(LONGEST_PERMISSION));
                }
                self.host.initialize(wanted).into()
            }
            ControlRequest::Interrupt => {
                if let Some(running) = running {
                    running.stop.now(interrupted());
                }
                Ok(json!({ "subtype": "interrupt", "still_queued": self.queue.len() })).into()
            }
            ControlRequest::ContinueLastTurn => {
                let interruption = interruption(&self.history);
                let accepted = running.is_none() && self.queue.is_empty() && interruption != "none";
                if accepted {
                    self.queue.push_back(Turn { continuation: true, ..Turn::default() });
                }
                Ok(json!({
                    "subtype": "continue_last_turn", "accepted": accepted, "interruption": interruption,
                }))
                .into()
            }
            ControlRequest::SetModel { model } => {
                let answer = |model| json!({ "subtype": "set_model", "model": model });
                self.host.set_model(model.as_deref()).map(answer).into()
            }
            ControlRequest::SetPermissionMode { mode } => {
                let answer = |()| json!({ "subtype": "set_permission_mode", "status": "updated", "mode": mode.name() });
                self.host.set_mode(*mode).map(answer).into()
            }
            ControlRequest::Unknown { subtype } => {
                Err(Failure::new(ErrorClass::Input, format!("there is no control request `{subtype}`")))
                    .into()
            }
            other => self.host.control(other, &self.history),
        }
    }
}

/// How far the last turn came: the model was not asked, was not told what its calls gave, or is done.
fn interruption(history: &[Message]) -> &'static str {
    match history.last() {
        Some(last) if last.role == Role::User => {
            let is_results = last.parts.iter().any(|part| matches!(part, Part::ToolResult(_)));
            if is_results || is_stopped_note(last) { "interrupted_turn" } else { "interrupted_prompt" }
        }
        _ => "none",
    }
}

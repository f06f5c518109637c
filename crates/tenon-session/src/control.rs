//! What a client may ask of the session itself, and what it is answered. How requests are read and answers
//! written is `tenon-wire`'s.

use serde_json::{Value, json};
use tenon_core::{ErrorClass, Failure, Message, Part, Role};
use tenon_wire::input::{ControlRequest, Turn};

use crate::drive::{Host, Running, Session, interrupted};

impl<H: Host> Session<H> {
    pub(crate) fn answer_control(
        &mut self,
        request: &ControlRequest,
        running: Option<&mut Running>,
    ) -> Result<Value, Failure> {
        match request {
            ControlRequest::Initialize(wanted) => {
                if let Some(ms) = wanted.can_use_tool_ms {
                    self.peer.wait_for_permission(std::time::Duration::from_millis(ms));
                }
                self.host.initialize(wanted)
            }
            ControlRequest::Interrupt => {
                if let Some(running) = running {
                    running.stop.now(interrupted());
                }
                Ok(json!({ "subtype": "interrupt", "still_queued": self.queue.len() }))
            }
            ControlRequest::ContinueLastTurn => {
                let interruption = interruption(&self.history);
                let accepted = running.is_none() && interruption != "none";
                if accepted {
                    self.queue.push_back(Turn { continuation: true, ..Turn::default() });
                }
                Ok(json!({
                    "subtype": "continue_last_turn", "accepted": accepted, "interruption": interruption,
                }))
            }
            ControlRequest::SetModel { model } => {
                let model = self.host.set_model(model)?;
                Ok(json!({ "subtype": "set_model", "model": model }))
            }
            ControlRequest::SetPermissionMode { mode } => {
                self.host.set_mode(*mode)?;
                Ok(json!({ "subtype": "set_permission_mode", "status": "updated", "mode": mode.name() }))
            }
            ControlRequest::Unknown { subtype } => {
                Err(Failure::new(ErrorClass::Input, format!("there is no control request `{subtype}`")))
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
            if is_results { "interrupted_turn" } else { "interrupted_prompt" }
        }
        _ => "none",
    }
}

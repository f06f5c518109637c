//! What a client may ask of the session itself, and what it is answered. How requests are read and answers
//! written is `tenon-wire`'s.

use std::time::Duration;

use serde_json::json;
use tenon_agent::is_stopped_note;
use tenon_core::{ErrorClass, Failure, Message, Part, Role};
use tenon_wire::input::{ControlRequest, Turn};

use crate::Deadlines;
use crate::cancel::interrupted;
use crate::drive::{Host, Running, Session};
use crate::later::Answer;
use crate::waiting::{Prepared, Waiting};

/// A client that wants to think longer about a question has gone away.
const LONGEST_WAIT: Duration = Duration::from_secs(24 * 60 * 60);

impl<H: Host> Session<H> {
    pub(crate) fn answer_control(
        &mut self,
        request: &ControlRequest,
        running: Option<&mut Running>,
    ) -> Answer {
        match request {
            ControlRequest::Initialize(wanted) => {
                let answer = self.host.initialize(wanted);
                if answer.is_ok() {
                    let at_most = |ms: u64| Duration::from_millis(ms).min(LONGEST_WAIT);
                    let before = self.peer.deadlines();
                    self.peer.wait(Deadlines {
                        can_use_tool: wanted.timeouts.can_use_tool.map_or(before.can_use_tool, at_most),
                        mcp_message: wanted.timeouts.mcp_message.map_or(before.mcp_message, at_most),
                    });
                }
                self.refused = answer.as_ref().err().map(|failure| refused_start(&failure.message));
                answer.into()
            }
            ControlRequest::Interrupt => {
                if let Some(running) = running {
                    running.stop.now(interrupted());
                }
                Ok(json!({ "subtype": "interrupt", "still_queued": self.queue.turns() })).into()
            }
            ControlRequest::ContinueLastTurn => {
                let interruption = interruption(&self.history);
                let is_idle = running.is_none() && self.queue.turns() == 0;
                let accepted = is_idle && interruption != "none" && self.queue.given_up.is_none();
                if accepted {
                    self.queue.push(Turn { continuation: true, ..Turn::default() });
                }
                Ok(json!({
                    "subtype": "continue_last_turn", "accepted": accepted, "interruption": interruption,
                }))
                .into()
            }
            ControlRequest::SetModel { .. } | ControlRequest::SetEffort { .. } => {
                let Prepared { answer, change } = match self.host.prepare(request) {
                    Ok(prepared) => prepared,
                    Err(failure) => return Err(failure).into(),
                };
                // It holds for the turns that are sent after it: those before it keep what they were sent with.
                match change {
                    Some(change) if running.is_none() && self.queue.waiting.is_empty() => {
                        self.host.make(change);
                    }
                    Some(change) => self.queue.waiting.push_back(Waiting::Change(change)),
                    None => {}
                }
                Ok(answer).into()
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

/// What turns are answered after a client's wishes for its session could not be met: guards may be among them.
pub(crate) fn refused_start(why: &str) -> Failure {
    Failure::new(ErrorClass::Input, format!("`initialize` was refused, so nothing runs: {why}"))
        .hint("send an `initialize` that can be met")
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

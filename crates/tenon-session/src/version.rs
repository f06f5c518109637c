//! Which version of the protocol a client speaks: the one there is, or the session ends. Where a line may state it is
//! `tenon-wire/src/input/line.rs`; how the end is told is `refused.rs`.

use tenon_core::{ErrorClass, Failure};
use tenon_wire::PROTOCOL_VERSION;
use tenon_wire::input::{Input, Line};

use crate::drive::{Host, Session};
use crate::waiting::RefusedVersion;

impl<H: Host> Session<H> {
    /// Whether the client's version of the protocol is ours. If not, a request is answered with that at once, under its
    /// id; everybody else hears of it when what was asked before is answered.
    pub(crate) fn speaks(&mut self, line: &Line) -> Result<(), Failure> {
        let other = match line.protocol_version.as_deref() {
            None | Some(PROTOCOL_VERSION) => return Ok(()),
            Some(other) => other,
        };
        let message = format!(
            "unsupported_protocol: version `{other}` was asked for, and there is `{PROTOCOL_VERSION}`"
        );
        let (request_id, prompt_id) = match &line.input {
            Input::ControlRequest { id, .. } => (Some(id), None),
            Input::Cancel { request_id, prompt_id, .. } => (request_id.as_ref(), prompt_id.as_ref()),
            Input::Turn(turn) => (None, turn.prompt_id.as_ref()),
            Input::Hint(hint) => (None, hint.prompt_id.as_ref()),
            _ => (None, None),
        };
        if let Some(id) = request_id {
            self.lines.line(self.replies.control_response(id, Err(&message)));
        }
        let failure = Failure::new(ErrorClass::Protocol, message.clone());
        self.queue.refused = Some(RefusedVersion { prompt_id: prompt_id.cloned(), message });
        Err(failure)
    }
}

//! Turns that never begin: each has a beginning and a result all the same, in its place. And the end of a session that
//! failed: its last result says why.

use std::sync::Arc;

use tenon_agent::Emitter;
use tenon_core::{EventKind, Failure, Outcome, Timestamp};
use tenon_wire::SessionState;

use crate::drive::{Host, Running, Session};
use crate::waiting::RefusedVersion;

impl<H: Host> Session<H> {
    /// Nothing more is begun: the running turn is stopped, and whatever waits is answered with this, in its order.
    pub(crate) fn give_up(&mut self, failure: Failure, running: Option<&Running>) {
        self.peer.close();
        if let Some(running) = running {
            running.stop.now(failure.clone());
        }
        self.queue.given_up.get_or_insert(failure);
    }

    /// The session ends with this failure, and so does what it says.
    pub(crate) fn last_words(&mut self, failure: &Failure) {
        if let Some(RefusedVersion { prompt_id, message }) = self.queue.refused.take() {
            let prompt_id = self.turn_ids.next(self.replies.session_id(), prompt_id);
            let (uuid, named) = (self.ids.next(), Some(prompt_id.as_str()));
            self.lines.line(self.replies.unsupported_protocol(uuid, Timestamp::now(), named, &message));
            if !self.replies.refuses_versions_with_a_result() {
                self.failed(&prompt_id, failure.clone());
            }
        } else if self.queue.last_code != Some(failure.exit_code()) {
            self.fail(None, failure.clone());
        }
    }

    /// A turn that could not begin has a result all the same.
    pub(crate) fn fail(&mut self, named: Option<String>, failure: Failure) {
        let prompt_id = self.turn_ids.next(self.replies.session_id(), named);
        self.failed(&prompt_id, failure);
    }

    pub(crate) fn failed(&mut self, prompt_id: &str, failure: Failure) {
        self.peer.tell(SessionState::Running);
        self.lines.next_turn(prompt_id);
        let outcome = Arc::new(Outcome::failed_early(failure, Vec::new()));
        self.queue.last_code = Some(outcome.exit_code());
        let emitter = Emitter::new(Arc::clone(&self.sink), Arc::clone(&self.ids), None);
        emitter.emit(EventKind::RunStarted(Box::new(self.host.info(self.replies.session_id()))));
        emitter.emit(EventKind::RunFinished(outcome));
    }
}

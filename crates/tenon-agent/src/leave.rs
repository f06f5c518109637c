//! How a run that failed leaves the conversation, in memory and for whoever keeps it.
//!
//! | the run failed because | what stays |
//! |---|---|
//! | the provider or the settings would refuse the same prompt again, and nothing was answered yet | nothing of the prompt |
//! | it was stopped: by the client, by a signal, by its wall time | all of it, what somebody saw of the last answer, and a note |
//! | the connection broke off, the server failed, a limit was reached | all of it, and what somebody saw of the last answer |
//!
//! Calls without a result get an honest word in any case, also beside an answer that was accepted before the run was told
//! to stop. The same is done with what was recorded when a session is resumed (`tenon-session/src/story.rs`); the
//! sentences are in `history.rs`.

use tenon_core::{
    Ending, ErrorClass, EventKind, Failure, Message, Part, Role, Success, ToolCall, ToolErrorKind,
    ToolReport, ToolResult, TurnRecord,
};

use crate::history::{Unfinished, close_calls, stopped_note, tell};
use crate::run_state::{Batch, Captured, Run};
use crate::terminal::accepted;

impl Run<'_> {
    /// The conversation as others may go on with it.
    pub(crate) async fn leave(&mut self, ending: &Ending) -> Vec<Message> {
        let record = match ending {
            Ending::Failure(failure) => self.settle(failure),
            Ending::Success(_) => {
                let closed = std::mem::take(&mut self.closed);
                (!closed.is_empty()).then_some(TurnRecord::Stopped { closed, said: None, note: None })
            }
        };
        if let Some(record) = record {
            // The outcome stands; a journal that cannot be written says so itself.
            let _ = self.journal(record).await;
        }
        std::mem::take(&mut self.history)
    }

    /// The success of a run whose answer was accepted when it was told to stop, and something beside the answer does not. The
    /// calls of its last turn are closed.
    pub(crate) fn close_accepted(&mut self) -> Option<Success> {
        let Captured { call, payload } = self.captured.take()?;
        let is_told = self.batch.results.iter().any(|result| result.call_id == call.id);
        if !is_told {
            let content = self.agent.contract.as_ref().map(accepted).unwrap_or_default();
            let result = ToolResult {
                call_id: call.id.clone(),
                name: call.name.clone(),
                content: content.clone(),
                is_error: false,
                media: Vec::new(),
                stored: None,
            };
            self.batch.results.push(result.clone());
            self.closed.push(result);
            self.emitter.emit(EventKind::ToolFinished(ToolReport {
                call_id: call.id,
                name: call.name,
                terminal: true,
                content,
                drawing: None,
                stored: None,
                error: None,
                duration_ms: 0,
            }));
        }
        let closed = self.close_batch();
        self.closed.extend(closed);
        Some(Success { text: payload.get().to_owned(), payload: Some(payload) })
    }

    /// What has to be kept of it, if anything had to be done.
    fn settle(&mut self, failure: &Failure) -> Option<TurnRecord> {
        if self.is_refusal(failure)
            && let Some(prompted) = self.prompted.take()
        {
            prompted.take_back(&mut self.history);
            return Some(TurnRecord::Withdrawn);
        }
        self.history.pop_if(|last| last.role == Role::Assistant && last.parts.is_empty());
        let closed = self.close_batch();
        let said = self.broken_off.take();
        self.history.extend(said.clone());
        let has_begun = self.prompted.is_some() || self.turns > 0;
        let stop = &self.agent.stop;
        let note = (has_begun && stop.cancel().is_cancelled()).then(|| stopped_note(&stop.failure().message));
        if let Some(note) = &note {
            tell(&mut self.history, note.clone());
        }
        let nothing = closed.is_empty() && said.is_none() && note.is_none();
        (!nothing).then_some(TurnRecord::Stopped { closed, said, note })
    }

    /// A run that was stopped may have left calls without an answer. Whoever saw them begin, or wait, sees their end.
    fn close_batch(&mut self) -> Vec<ToolResult> {
        let Batch { begun, results, of_client } = std::mem::take(&mut self.batch);
        let unfinished = |call: &ToolCall| match begun.contains(&call.id) {
            true => Unfinished::MayHaveRun,
            false => Unfinished::NeverBegun,
        };
        if !of_client.is_empty() {
            // Told as the others are, and kept by nobody.
            let parts = of_client.iter().cloned().map(Part::ToolCall).collect();
            let mut asked = vec![Message { role: Role::Assistant, parts }];
            let closed = close_calls(&mut asked, results, unfinished);
            self.tell_unfinished(&of_client, &closed);
            return Vec::new();
        }
        let calls: Vec<ToolCall> =
            self.history.last().map(|last| last.tool_calls().cloned().collect()).unwrap_or_default();
        let closed = close_calls(&mut self.history, results, unfinished);
        self.tell_unfinished(&calls, &closed);
        closed
    }

    fn tell_unfinished(&self, calls: &[ToolCall], closed: &[ToolResult]) {
        for result in closed {
            self.emitter.emit(EventKind::ToolFinished(ToolReport {
                call_id: result.call_id.clone(),
                name: result.name.clone(),
                terminal: calls.iter().any(|call| call.id == result.call_id && call.terminal),
                content: result.content.clone(),
                drawing: None,
                stored: None,
                error: Some(ToolErrorKind::Cancelled),
                duration_ms: 0,
            }));
        }
    }

    /// Whether the same would come of asking again. After an interruption, a limit, a bad connection or a server's
    /// own failure it can be continued.
    fn is_refusal(&self, failure: &Failure) -> bool {
        match failure.class {
            ErrorClass::Usage
            | ErrorClass::Auth
            | ErrorClass::Input
            | ErrorClass::Config
            | ErrorClass::Refused => true,
            ErrorClass::Protocol => {
                let is_at_fault = failure.http_status.is_some_and(|status| (400..500).contains(&status));
                self.does_not_fit || is_at_fault && failure.retryable != Some(true)
            }
            _ => false,
        }
    }
}

//! Calls that whoever drives the run asks for, instead of the model.
//!
//! They pass hooks, permissions and limits like any other, and are told like any other; the model is neither asked nor
//! told, so the conversation stays as it is. One that fails, or is denied, fails the run: it was all that was asked for.

use std::sync::Arc;

use tenon_core::{ErrorClass, EventSink, Failure, NoJournal, Success, ToolCall, ToolResult};

use crate::plan_batch::Step;
use crate::run_state::Run;
use crate::turn_loop::{Work, run_work};
use crate::{Agent, Ended};

/// How much of what a failed call said stands in the failure; the result of the call has all of it.
const SHOWN_CHARS: usize = 300;

/// Makes these calls, in their order. Neighbours that only read are made side by side.
pub async fn run_calls(mut agent: Agent, calls: Vec<ToolCall>, sink: Arc<dyn EventSink>) -> Ended {
    // Nothing of it belongs to the conversation, which is what a journal keeps.
    agent.journal = Arc::new(NoJournal);
    run_work(agent, Work::Calls(calls), sink).await
}

impl Run<'_> {
    pub(crate) async fn drive_calls(&mut self, calls: Vec<ToolCall>) -> Result<Success, Box<Failure>> {
        if self.agent.contract.is_some() {
            let why =
                "calls that a client asks for have no payload, and `--json-schema` is for a model's answer";
            return Err(Box::new(Failure::new(ErrorClass::Input, why)));
        }
        self.hooks_at_start(None).await?;
        self.batch.of_client.clone_from(&calls);
        let steps: Vec<Step> = calls.iter().map(|call| self.judge(call)).collect();
        let results = self.run_steps(&calls, &steps).await?;
        if let Some(failure) = self.stopped_by_hook.take() {
            return Err(Box::new(failure));
        }
        match results.iter().find(|result| result.is_error) {
            None => Ok(Success { text: String::new(), payload: None }),
            Some(first) => Err(Box::new(failed(first, &results))),
        }
    }
}

fn failed(first: &ToolResult, results: &[ToolResult]) -> Failure {
    let said: String = first.content.chars().take(SHOWN_CHARS).collect();
    let count = results.iter().filter(|result| result.is_error).count();
    let more = match count {
        1 => String::new(),
        more => format!(" ({} of {} calls failed)", more, results.len()),
    };
    Failure::new(ErrorClass::Tool, format!("the call of `{}` failed{more}: {said}", first.name))
}

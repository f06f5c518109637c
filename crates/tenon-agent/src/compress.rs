//! Compaction that somebody asked for, between the turns of a session (`/compress`).
//!
//! What is replaced by what is decided in `compact.rs`. Nothing is announced here but the compaction itself: whoever
//! asked says how it ended.

use std::sync::Arc;
use std::time::Instant;

use tenon_core::{Ending, EventSink, Success};

use crate::run_batch::millis_since;
use crate::turn_loop::Run;
use crate::{Agent, Emitter, Ended};

/// Replaces all but the last turn of the agent's history by a summary that its model writes. A success says what it
/// came to; after a failure the history is as it was.
pub async fn compress(mut agent: Agent, instructions: Option<&str>, sink: Arc<dyn EventSink>) -> Ended {
    let started = Instant::now();
    let emitter = Arc::new(Emitter::new(sink, Arc::clone(&agent.ids), None));
    let history = std::mem::take(&mut agent.history);
    // It is no answer to anything.
    agent.contract = None;
    agent.deliver = None;
    let mut run = Run::new(&agent, emitter, history);
    let ending = match run.compact_on_request(instructions).await {
        Ok(relief) if relief.after > relief.before => Ending::Success(said(format!(
            "The conversation was replaced by a summary, which is no shorter: about {} tokens before, about {} now.",
            relief.before, relief.after
        ))),
        Ok(relief) if relief.after == relief.before => {
            Ending::Success(said("There is nothing to compress yet: the last turn always stays.".to_owned()))
        }
        Ok(relief) => Ending::Success(said(format!(
            "The conversation was compressed from about {} to about {} tokens.",
            relief.before, relief.after
        ))),
        Err(failure) => Ending::Failure(failure),
    };
    let history = run.take_history();
    let outcome = Arc::new(run.outcome(ending, millis_since(started)));
    Ended { outcome, history }
}

fn said(text: String) -> Success {
    Success { text, payload: None }
}

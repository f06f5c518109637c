//! Compaction that somebody asked for, between the turns of a session (`/compress`).
//!
//! What is replaced by what is decided in `compact.rs`. Nothing is announced here but the compaction itself: whoever
//! asked says how it ended.

use std::sync::Arc;
use std::time::Instant;

use tenon_core::{Ending, EventSink, Success};

use crate::compact::Relief;
use crate::run_batch::millis_since;
use crate::run_state::Run;
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
        Ok(Relief::Nothing) => {
            Ending::Success(said("There is nothing to compress yet: the last turn always stays.".to_owned()))
        }
        Ok(Relief::NoShorter { before, after }) => Ending::Success(said(format!(
            "The conversation stays as it is: with a summary it would have about {after} tokens, and it has about {before}."
        ))),
        Ok(Relief::Shorter { before, after }) => Ending::Success(said(format!(
            "The conversation was compressed from about {before} to about {after} tokens."
        ))),
        Err(failure) => Ending::Failure(failure),
    };
    let history = std::mem::take(&mut run.history);
    let outcome = Arc::new(run.outcome(ending, millis_since(started)));
    Ended { outcome, history }
}

fn said(text: String) -> Success {
    Success { text, payload: None }
}

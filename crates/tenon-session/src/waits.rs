//! What a session waits for besides its running turn: the client's next line, and news between turns.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use tenon_agent::{Background, Emitter};
use tenon_core::{EventKind, EventSink, IdSource};
use tokio::sync::mpsc;

use crate::Lines;
use crate::drive::Incoming;

/// A client that does not read its answers is not listened to until it does.
/// `early` are lines that somebody has read already.
pub(crate) async fn next_line(
    early: &mut VecDeque<Incoming>,
    input: &mut mpsc::Receiver<Incoming>,
    lines: &dyn Lines,
) -> Option<Incoming> {
    if let Some(caught_up) = lines.blocked() {
        caught_up.await;
    }
    match early.pop_front() {
        Some(line) => Some(line),
        None => input.recv().await,
    }
}

/// Ends when clients were told of something that happened in the background, or that nothing did for a while.
pub(crate) async fn listen(
    background: Option<Background>,
    heartbeat: Option<Duration>,
    sink: Arc<dyn EventSink>,
    ids: Arc<IdSource>,
) {
    let emitter = Emitter::new(Arc::clone(&sink), Arc::clone(&ids), None);
    let news = async {
        match background {
            Some(background) => background.listen(sink, ids).await,
            None => std::future::pending().await,
        }
    };
    match heartbeat {
        None => news.await,
        Some(pause) => {
            if tokio::time::timeout(pause, news).await.is_err() {
                emitter.emit(EventKind::Heartbeat);
            }
        }
    }
}

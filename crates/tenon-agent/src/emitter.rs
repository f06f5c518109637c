//! Numbers and stamps events on their way out.

use std::sync::{Arc, Mutex, PoisonError};

use tenon_core::{Cancel, Event, EventKind, EventSink, IdSource, Timestamp};

/// One per run. Numbering and handing over happen under one lock, so that sequence numbers leave in
/// order although tools report their progress from other tasks.
pub struct Emitter {
    sink: Arc<dyn EventSink>,
    ids: Arc<IdSource>,
    parent: Option<String>,
    last_seq: Mutex<u64>,
}

impl Emitter {
    pub fn new(sink: Arc<dyn EventSink>, ids: Arc<IdSource>, parent: Option<String>) -> Emitter {
        Emitter { sink, ids, parent, last_seq: Mutex::new(0) }
    }

    pub fn emit(&self, kind: EventKind) {
        let mut seq = self.last_seq.lock().unwrap_or_else(PoisonError::into_inner);
        *seq += 1;
        let event = Event {
            seq: *seq,
            time: Timestamp::now(),
            id: self.ids.next(),
            parent: self.parent.clone(),
            kind,
        };
        self.sink.emit(event);
    }

    pub fn sink(&self) -> &Arc<dyn EventSink> {
        &self.sink
    }

    pub fn ids(&self) -> &IdSource {
        &self.ids
    }

    pub fn flush(&self) {
        self.sink.flush();
    }

    /// Until a reader that cannot keep up has caught up, or nobody waits for it any longer.
    pub async fn wait_while_blocked(&self, cancel: &Cancel) {
        if let Some(caught_up) = self.sink.blocked() {
            tokio::select! {
                () = caught_up => {}
                () = cancel.cancelled() => {}
            }
        }
    }
}

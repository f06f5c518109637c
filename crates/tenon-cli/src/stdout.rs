//! The one writer of stdout.
//!
//! Events are encoded where they happen and written by a thread of their own, so that a slow reader
//! never holds up signals or tools. Lines that are ready together share a write. When a reader falls
//! [`MAX_QUEUED`] behind, the agent pauses until it has caught up.

use std::io::{self, Write};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use tenon_agent::Stop;
use tenon_core::{BoxFut, ErrorClass, Event, EventKind, EventSink, Failure};
use tenon_session::Lines;
use tenon_wire::Encoder;
use tokio::sync::Notify;

use crate::stderr::Reporter;

/// What may wait for a slow reader before the agent pauses.
const MAX_QUEUED: usize = 8 * 1024 * 1024;
/// What may wait before a client is not listened to either: an agent that pauses can still be interrupted, but nobody
/// fills the memory with requests whose answers he does not read.
const MAX_QUEUED_FOR_REPLIES: usize = 2 * MAX_QUEUED;

pub struct Stdout {
    shared: Arc<Shared>,
    reporter: Reporter,
    writer: Mutex<Option<JoinHandle<()>>>,
}

struct Shared {
    state: Mutex<State>,
    /// Wakes the writer.
    work: Condvar,
    /// Wakes an agent that waits for a slow reader.
    drained: Notify,
}

struct State {
    encoder: Box<dyn Encoder>,
    queue: Vec<u8>,
    /// Taken from the queue and not yet written.
    writing: usize,
    result_queued: bool,
    /// More turns may come, so nobody has all they wanted.
    is_session: bool,
    closing: bool,
    error: Option<io::Error>,
}

/// How writing ended.
#[derive(Debug)]
pub enum Written {
    /// Everything was written and flushed.
    All,
    /// The reader went away.
    ReaderGone,
    Failed(io::Error),
}

impl Stdout {
    /// `stop` ends the run when nobody reads any longer.
    pub fn new(encoder: Box<dyn Encoder>, reporter: Reporter, stop: Stop) -> Stdout {
        let shared = Arc::new(Shared {
            state: Mutex::new(State {
                encoder,
                queue: Vec::new(),
                writing: 0,
                result_queued: false,
                is_session: false,
                closing: false,
                error: None,
            }),
            work: Condvar::new(),
            drained: Notify::new(),
        });
        let for_writer = Arc::clone(&shared);
        let writer = std::thread::spawn(move || write_all(&for_writer, &stop));
        Stdout { shared, reporter, writer: Mutex::new(Some(writer)) }
    }

    /// For whoever writes whole lines and has no events.
    pub fn for_lines(reporter: Reporter, stop: Stop) -> Stdout {
        Stdout::new(Box::new(NoEvents), reporter, stop)
    }

    /// The line that whoever reads is waiting for: a reader that leaves after it has all it wanted.
    pub fn last_line(&self, line: Vec<u8>) {
        self.shared.lock().result_queued = true;
        self.line(line);
    }

    /// Waits until everything is written. Call it last.
    pub fn finish(&self) -> Written {
        self.shared.lock().closing = true;
        self.shared.work.notify_one();
        let writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(writer) = writer {
            // The writer has nothing that could panic but the write itself, whose error it keeps.
            let _ = writer.join();
        }
        match self.shared.lock().error.take() {
            None => Written::All,
            Some(error) if error.kind() == io::ErrorKind::BrokenPipe => Written::ReaderGone,
            Some(error) => Written::Failed(error),
        }
    }
}

/// Says nothing about events.
struct NoEvents;

impl Encoder for NoEvents {
    fn encode(&mut self, _event: &Event, _out: &mut Vec<u8>) {}
}

impl Lines for Stdout {
    fn line(&self, line: Vec<u8>) {
        self.shared.lock().queue.extend_from_slice(&line);
        self.shared.work.notify_one();
    }

    fn next_turn(&self, prompt_id: &str) {
        let mut state = self.shared.lock();
        state.is_session = true;
        state.encoder.name_next_turn(prompt_id);
    }

    fn control_error(&self, message: String) {
        self.shared.lock().encoder.control_error(message);
    }

    fn blocked(&self) -> Option<BoxFut<'_, ()>> {
        self.shared.waits_for_reader(MAX_QUEUED_FOR_REPLIES)
    }
}

impl EventSink for Stdout {
    fn emit(&self, event: Event) {
        self.reporter.report(&event);
        // Pieces of an answer come in bursts; `flush` sends them together.
        let in_a_burst = matches!(
            event.kind,
            EventKind::PartDelta { .. } | EventKind::PartStarted { .. } | EventKind::StructuredPartial { .. }
        );
        let mut state = self.shared.lock();
        let State { encoder, queue, .. } = &mut *state;
        encoder.encode(&event, queue);
        match event.kind {
            EventKind::RunFinished(_) if event.parent.is_none() => state.result_queued = true,
            // The next turn of a session: its result is still to come.
            EventKind::RunStarted(_) if event.parent.is_none() => state.result_queued = false,
            _ => {}
        }
        if !in_a_burst && !state.queue.is_empty() {
            self.shared.work.notify_one();
        }
    }

    fn flush(&self) {
        if !self.shared.lock().queue.is_empty() {
            self.shared.work.notify_one();
        }
    }

    fn blocked(&self) -> Option<BoxFut<'_, ()>> {
        self.shared.waits_for_reader(MAX_QUEUED)
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_full(&self, room: usize) -> bool {
        let state = self.lock();
        state.error.is_none() && state.queue.len() + state.writing > room
    }

    /// Ends when the reader has caught up; `None` when it has.
    fn waits_for_reader(&self, room: usize) -> Option<BoxFut<'_, ()>> {
        if !self.is_full(room) {
            return None;
        }
        self.work.notify_one();
        Some(Box::pin(async move {
            loop {
                let drained = self.drained.notified();
                if !self.is_full(room) {
                    return;
                }
                drained.await;
            }
        }))
    }
}

fn write_all(shared: &Shared, stop: &Stop) {
    let mut batch = Vec::new();
    loop {
        let mut state = shared.lock();
        while state.queue.is_empty() && !state.closing {
            state = shared.work.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        if state.queue.is_empty() {
            return;
        }
        batch.clear();
        std::mem::swap(&mut batch, &mut state.queue);
        state.writing = batch.len();
        let failed = state.error.is_some();
        drop(state);
        // Unbuffered: a batch is whole lines already, and each write is one system call.
        let result = if failed { Ok(()) } else { write_batch(&batch) };
        let mut state = shared.lock();
        state.writing = 0;
        if let Err(error) = result {
            state.error = Some(error);
        }
        if let Some(error) = state.error.as_ref().filter(|_| state.is_session || !state.result_queued) {
            stop.now(cannot_write(error));
        }
        drop(state);
        shared.drained.notify_waiters();
    }
}

fn write_batch(batch: &[u8]) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    stdout.write_all(batch)?;
    stdout.flush()
}

fn cannot_write(error: &io::Error) -> Failure {
    Failure::new(ErrorClass::Internal, format!("stdout could not be written: {error}"))
}

//! The one writer of stdout.
//!
//! Events are encoded where they happen and written by a thread of their own, so that a slow reader
//! never holds up signals or tools. Lines that are ready together share a write. When a reader falls
//! [`MAX_QUEUED`] behind, the agent pauses until it has caught up. A reader may take its time, unless somebody wants the
//! process to end ([`UNREAD`]).

use std::io::{self, Write};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tenon_agent::Stop;
use tenon_core::{BoxFut, Cancel, ErrorClass, Event, EventKind, EventSink, Failure, Signal};
use tenon_session::Lines;
use tenon_wire::Encoder;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

use crate::stderr::Reporter;

/// What may wait for a slow reader before the agent pauses.
const MAX_QUEUED: usize = 8 * 1024 * 1024;
/// What may wait before a client is not listened to either: an agent that pauses can still be interrupted, but nobody
/// fills the memory with requests whose answers he does not read.
const MAX_QUEUED_FOR_REPLIES: usize = 2 * MAX_QUEUED;
/// How long a run that was interrupted waits for a reader that takes nothing: as long as for everything else that is to end.
const UNREAD: Duration = Duration::from_secs(5);
/// What is written at a time: what a pipe holds, so that a reader who takes something can be told from one who does not.
const PIECE: usize = 64 * 1024;

pub struct Stdout {
    shared: Arc<Shared>,
    reporter: Reporter,
    stop: Stop,
}

struct Shared {
    state: Mutex<State>,
    /// Wakes the writer.
    work: Condvar,
    /// Wakes whoever waits for a slow reader.
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
    /// When the reader last took something.
    taken: Instant,
    /// The writer is done.
    ended: bool,
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
    /// The run was interrupted, and the reader took nothing for [`UNREAD`].
    Unread(Signal),
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
                taken: Instant::now(),
                ended: false,
                error: None,
            }),
            work: Condvar::new(),
            drained: Notify::new(),
        });
        let (for_writer, of_run) = (Arc::clone(&shared), stop.clone());
        std::thread::spawn(move || {
            write_all(&for_writer, &of_run);
            for_writer.lock().ended = true;
            for_writer.drained.notify_waiters();
        });
        Stdout { shared, reporter, stop }
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

    /// Waits until everything is written, or, once `signalled` has fallen, until nobody takes it. Call it last.
    pub async fn finish(&self, signalled: &Cancel) -> Written {
        self.shared.lock().closing = true;
        self.shared.work.notify_one();
        tokio::select! {
            () = self.shared.until(|state| state.ended) => {}
            signal = self.unread(signalled) => return Written::Unread(signal),
        }
        match self.shared.lock().error.take() {
            None => Written::All,
            Some(error) if error.kind() == io::ErrorKind::BrokenPipe => Written::ReaderGone,
            Some(error) => Written::Failed(error),
        }
    }
}

impl Stdout {
    /// Ends when the run was interrupted, by a signal or otherwise, and its reader takes nothing any more.
    async fn unread(&self, signalled: &Cancel) -> Signal {
        tokio::select! {
            () = signalled.cancelled() => {}
            () = async {
                self.stop.cancel().cancelled().await;
                if self.interrupted_by().is_none() {
                    std::future::pending::<()>().await;
                }
            } => {}
        }
        let mut since = Instant::now();
        loop {
            sleep_until(since + UNREAD).await;
            let taken = self.shared.lock().taken;
            if taken <= since {
                return self.interrupted_by().unwrap_or(Signal::Int);
            }
            since = taken;
        }
    }

    fn interrupted_by(&self) -> Option<Signal> {
        match self.stop.reason()?.class {
            ErrorClass::Interrupted(signal) => Some(signal),
            _ => None,
        }
    }
}

impl Written {
    /// What is to be said about it, if anything: whoever left knows that he did.
    pub fn failure(&self) -> Option<Failure> {
        match self {
            Written::All | Written::ReaderGone => None,
            Written::Failed(error) => Some(cannot_write(error)),
            Written::Unread(_) => {
                let message =
                    format!("what was left for stdout is lost: nobody read it for {} s", UNREAD.as_secs());
                Some(Failure::new(ErrorClass::Output, message))
            }
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

    /// Ends when the reader has caught up; `None` when it has.
    fn waits_for_reader(&self, room: usize) -> Option<BoxFut<'_, ()>> {
        if !self.lock().is_full(room) {
            return None;
        }
        self.work.notify_one();
        Some(Box::pin(self.until(move |state| !state.is_full(room))))
    }

    async fn until(&self, is_so: impl Fn(&State) -> bool) {
        loop {
            let drained = self.drained.notified();
            if is_so(&self.lock()) {
                return;
            }
            drained.await;
        }
    }
}

impl State {
    fn is_full(&self, room: usize) -> bool {
        self.error.is_none() && self.queue.len() + self.writing > room
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
        let result = if failed { Ok(()) } else { write_batch(&batch, shared) };
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

fn write_batch(batch: &[u8], shared: &Shared) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    for piece in batch.chunks(PIECE) {
        stdout.write_all(piece)?;
        stdout.flush()?;
        shared.lock().taken = Instant::now();
    }
    Ok(())
}

fn cannot_write(error: &io::Error) -> Failure {
    Failure::new(ErrorClass::Output, format!("stdout could not be written: {error}"))
}

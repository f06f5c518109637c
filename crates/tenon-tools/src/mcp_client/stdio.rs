//! A server that is a program: its pipes, its last words, and its end.
//!
//! It gets a session of its own, no secrets, and three chances to go: the end of its input, a request, an
//! order.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::path::Path;
use std::pin::Pin;
use std::process::{ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use rmcp::RoleClient;
use rmcp::transport::async_rw::AsyncRwTransport;
use tenon_core::{AnsiStripper, TraceContext};
use tokio::io::{AsyncBufReadExt, AsyncRead, BufReader, ReadBuf};
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::{McpNotice, Shared};
use crate::exit_status::signal_name;
use crate::output::first_chars;
use crate::running::GroupGuard;
use crate::sys::{self, ProcessGroup};

/// One message. A screenshot fits many times over, and a server that never ends its line cannot fill the memory.
const MAX_LINE: usize = 16 * 1024 * 1024;
/// A server that reads its input sees the end of it at once.
const AFTER_END_OF_INPUT: Duration = Duration::from_millis(700);
const AFTER_TERMINATE: Duration = Duration::from_millis(700);
const AFTER_KILL: Duration = Duration::from_millis(500);
/// What was written before the end is read at once.
const LAST_WORDS: Duration = Duration::from_millis(300);
/// How much of its last words is kept for an error message.
const TAIL_LINES: usize = 6;
const TAIL_CHARS: usize = 240;
/// A line on stderr beyond this is cut.
const MAX_STDERR_LINE: usize = 64 * 1024;

pub(super) type Pipes = AsyncRwTransport<RoleClient, CappedLines<ChildStdout>, ChildStdin>;

/// What is to be started.
pub(super) struct Start<'a> {
    pub server: &'a str,
    pub command: &'a str,
    pub args: &'a [String],
    pub env: &'a BTreeMap<String, String>,
    pub cwd: Option<&'a Path>,
}

/// A server that was started.
pub(super) struct Program {
    child: Child,
    /// Whatever it started goes with it.
    group: Option<GroupGuard>,
    last_words: Arc<LastWords>,
    /// Reads its stderr to the end.
    listener: JoinHandle<()>,
    overflow: Arc<AtomicBool>,
}

/// Starts the program; the error is worded to follow a colon.
pub(super) fn start(start: &Start<'_>, shared: &Arc<Shared>) -> Result<(Pipes, Program), String> {
    let folder = start.cwd.map_or_else(|| shared.folder.clone(), |cwd| shared.folder.join(cwd));
    if !folder.is_dir() {
        return Err(format!("its folder `{}` is not there", folder.display()));
    }
    let mut command = Command::new(start.command);
    command
        .args(start.args)
        .current_dir(&folder)
        .env_clear()
        .envs(shared.environment.iter().map(|(name, value)| (name, value)))
        .env("PWD", &folder)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true);
    for (name, value) in shared.trace.as_ref().map(TraceContext::variables).into_iter().flatten() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    command.envs(start.env);
    sys::in_new_session(&mut command);
    let mut child = command.spawn().map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => format!("the program `{}` was not found", start.command),
        _ => format!("the program `{}` could not be started: {error}", start.command),
    })?;
    let group = child.id().and_then(ProcessGroup::of).map(GroupGuard::new);
    let (Some(stdin), Some(stdout), Some(stderr)) =
        (child.stdin.take(), child.stdout.take(), child.stderr.take())
    else {
        return Err("its pipes are missing".to_owned());
    };
    let last_words = Arc::new(LastWords::default());
    let listener =
        tokio::spawn(drain(stderr, start.server.to_owned(), Arc::clone(&last_words), Arc::clone(shared)));
    let overflow = Arc::new(AtomicBool::new(false));
    let lines = CappedLines { inner: stdout, in_line: 0, overflow: Arc::clone(&overflow) };
    // The cap is enforced before: a line that was dropped would leave its call waiting.
    let pipes = AsyncRwTransport::new_client(lines, stdin).with_max_line_length(usize::MAX);
    Ok((pipes, Program { child, group, last_words, listener, overflow }))
}

impl Program {
    /// Why it is gone, worded to follow a colon, with its last words.
    pub async fn why_it_ended(&mut self) -> String {
        // Its pipes closed a moment before it is gone.
        let ended = timeout(AFTER_END_OF_INPUT, self.child.wait()).await;
        let why = match ended {
            _ if self.overflow.load(Ordering::Relaxed) => {
                format!("it sent a message of more than {} MiB", MAX_LINE / 1024 / 1024)
            }
            Ok(Ok(status)) => how(status),
            Ok(Err(error)) => error.to_string(),
            Err(_) => "it closed its output".to_owned(),
        };
        // Its last words may still be in the pipe; what it started may keep that open.
        if !self.listener.is_finished() {
            let _ = timeout(LAST_WORDS, &mut self.listener).await;
        }
        self.last_words.after(&why)
    }

    /// What it said last, after `why`.
    pub fn with_last_words(&self, why: &str) -> String {
        self.last_words.after(why)
    }

    /// Its input has ended. Waits for it, then asks, then orders; whatever it started goes too.
    pub async fn stop(mut self) {
        if timeout(AFTER_END_OF_INPUT, self.child.wait()).await.is_err() {
            if let Some(group) = &self.group {
                group.group.terminate();
            }
            let _ = timeout(AFTER_TERMINATE, self.child.wait()).await;
        }
        drop(self.group.take());
        let _ = timeout(AFTER_KILL, self.child.wait()).await;
    }
}

fn how(status: ExitStatus) -> String {
    use std::os::unix::process::ExitStatusExt;
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("it ended with exit code {code}"),
        (None, Some(signal)) => format!("it was ended by {}", signal_name(signal)),
        (None, None) => "it ended".to_owned(),
    }
}

/// The end of what a program said on stderr.
#[derive(Default)]
struct LastWords(Mutex<VecDeque<String>>);

impl LastWords {
    fn push(&self, line: &str) {
        let mut lines = self.lines();
        if lines.len() == TAIL_LINES {
            lines.pop_front();
        }
        lines.push_back(first_chars(line, TAIL_CHARS).to_owned());
    }

    fn after(&self, why: &str) -> String {
        let lines = self.lines();
        if lines.is_empty() {
            return why.to_owned();
        }
        let said: Vec<&str> = lines.iter().map(String::as_str).collect();
        format!("{why}; it said: {}", said.join(" / "))
    }

    fn lines(&self) -> MutexGuard<'_, VecDeque<String>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Reads stderr to its end, whoever listens: a full pipe would stop the server.
async fn drain(stderr: ChildStderr, server: String, last_words: Arc<LastWords>, shared: Arc<Shared>) {
    let mut stderr = BufReader::new(stderr);
    let mut line = Vec::new();
    loop {
        let (consumed, ended) = match stderr.fill_buf().await {
            Ok([]) | Err(_) => break,
            Ok(chunk) => {
                let (piece, consumed, ended) = match chunk.iter().position(|byte| *byte == b'\n') {
                    Some(at) => (&chunk[..at], at + 1, true),
                    None => (chunk, chunk.len(), false),
                };
                let room = MAX_STDERR_LINE.saturating_sub(line.len());
                line.extend_from_slice(&piece[..piece.len().min(room)]);
                (consumed, ended)
            }
        };
        stderr.consume(consumed);
        if ended {
            heard(&line, &server, &last_words, &shared);
            line.clear();
        }
    }
    heard(&line, &server, &last_words, &shared);
}

fn heard(line: &[u8], server: &str, last_words: &LastWords, shared: &Shared) {
    let text = AnsiStripper::default().push_text(&String::from_utf8_lossy(line));
    let text = text.trim_end();
    if !text.trim().is_empty() {
        last_words.push(text);
        shared.tell(McpNotice::Said { server: server.to_owned(), line: text.to_owned() });
    }
}

/// Fails when a line grows beyond the cap, so that the connection ends and says why.
pub(super) struct CappedLines<R> {
    inner: R,
    in_line: usize,
    overflow: Arc<AtomicBool>,
}

impl<R: AsyncRead + Unpin> AsyncRead for CappedLines<R> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let polled = Pin::new(&mut self.inner).poll_read(cx, buf);
        if let Poll::Ready(Ok(())) = polled {
            let read = &buf.filled()[before..];
            let length = read.len();
            let after_newline = read.iter().rposition(|byte| *byte == b'\n').map(|at| length - at - 1);
            self.in_line = after_newline.unwrap_or(self.in_line + length);
            if self.in_line > MAX_LINE {
                self.overflow.store(true, Ordering::Relaxed);
                return Poll::Ready(Err(io::Error::other("the line is too long")));
            }
        }
        polled
    }
}

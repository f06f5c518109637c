//! A command while it runs: a `bash -c` in a session of its own, what it writes, and its end.
//!
//! Whoever holds a [`Running`] reads it, or the command stands still. What becomes of the output is
//! `shell_output.rs`'s (or `monitor.rs`'s); who waits for the command, and how long, is `shell.rs`'s and
//! `background.rs`'s.

use std::ffi::OsString;
use std::io;
use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use tenon_core::TraceContext;
use tokio::io::AsyncReadExt;
use tokio::process::{Child, Command};
use tokio::time::{Instant, timeout};

use crate::args::Refusal;
use crate::both_pipes::BothPipes;
use crate::running::GroupGuard;
use crate::shell_output::{Stream, TakesOutput};
use crate::sys::{self, ProcessGroup};
use crate::{Sandbox, ShellOptions};

/// How long the output may stay open after the command has ended: its own is already in the pipe, and what
/// its children still have to say is given this long.
const DRAIN: Duration = Duration::from_millis(500);
/// How long a command may take to write before it counts as having paused, and how long one that does not
/// pause is listened to.
const PAUSE: Duration = Duration::from_millis(5);
const CATCH_UP: Duration = Duration::from_millis(50);
const READ_SIZE: usize = 64 * 1024;
/// Wide enough that programs do not wrap their lines.
const TERMINAL_ROWS: u16 = 50;
const TERMINAL_COLUMNS: u16 = 200;
/// On a terminal programs would draw, and wait for somebody to turn the page.
const ON_A_TERMINAL: &[(&str, &str)] = &[("TERM", "dumb"), ("PAGER", "cat"), ("GIT_PAGER", "cat")];

/// What a command is connected to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ShellTerminal {
    /// Two pipes: stdout and stderr stay apart, and programs print plainly.
    #[default]
    Pipes,
    /// A terminal of its own: programs print line by line, and as if somebody watched.
    Pty,
}

/// What is to be run.
#[derive(Clone, Copy)]
pub(crate) struct Launch<'a> {
    pub command: &'a str,
    pub folder: &'a Path,
    pub options: &'a ShellOptions,
    pub trace: Option<&'a TraceContext>,
}

pub(crate) struct Running<T> {
    child: Child,
    group: GroupGuard,
    source: Source,
    is_open: bool,
    has_ended: bool,
    buffer: Vec<u8>,
    pub started: Instant,
    pub last_output: Option<Instant>,
    pub taker: T,
}

/// How a command came to its end, as far as the system tells.
#[derive(Debug)]
pub(crate) enum End {
    Exited(ExitStatus),
    /// Its status could not be learnt.
    Lost(io::Error),
}

/// What happened next.
pub(crate) enum Step {
    Output,
    Ended(End),
}

/// What a command left behind that still held its output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Left {
    Nothing,
    Stopped,
    /// Processes that moved to a session of their own: they are out of reach.
    Escaped,
}

impl Left {
    pub fn note(self) -> Option<&'static str> {
        match self {
            Left::Nothing => None,
            Left::Stopped => {
                Some("Note: the command left background processes that held its output; they were stopped.")
            }
            Left::Escaped => Some(
                "Note: the command left background processes in sessions of their own; they may still run.",
            ),
        }
    }
}

impl<T: TakesOutput> Running<T> {
    pub fn start(launch: Launch<'_>, taker: T) -> Result<Running<T>, Refusal> {
        let unstarted = |error: io::Error| Refusal::failed(format!("`bash` cannot be started: {error}."));
        let (child, source) = match launch.options.terminal {
            ShellTerminal::Pipes => on_pipes(launch),
            ShellTerminal::Pty => on_a_terminal(launch),
        }
        .map_err(unstarted)?;
        let group = child
            .id()
            .and_then(ProcessGroup::of)
            .ok_or_else(|| Refusal::failed("`bash` ended before it could be watched."))?;
        Ok(Running {
            child,
            group: GroupGuard::noted(group, launch.options.book.as_ref()),
            source,
            is_open: true,
            has_ended: false,
            buffer: vec![0; READ_SIZE],
            started: Instant::now(),
            last_output: None,
            taker,
        })
    }

    /// The id of `bash`, and of its process group and session.
    pub fn pid(&self) -> i32 {
        self.group.group.id()
    }

    /// Waits for the next thing to happen. Dropping the future loses nothing.
    pub async fn step(&mut self) -> Step {
        tokio::select! {
            biased;
            status = self.child.wait(), if !self.has_ended => {
                self.has_ended = true;
                Step::Ended(status.map_or_else(End::Lost, End::Exited))
            }
            read = self.source.read(&mut self.buffer), if self.is_open => {
                self.take(read);
                Step::Output
            }
        }
    }

    /// Reads what was written already. A command that writes on and on is not waited for.
    pub async fn catch_up(&mut self) {
        let enough = Instant::now() + CATCH_UP;
        while self.is_open && Instant::now() < enough {
            match timeout(PAUSE, self.source.read(&mut self.buffer)).await {
                Ok(read) => self.take(read),
                Err(_) => return,
            }
        }
    }

    /// Whether the command has ended without anybody having looked.
    pub fn has_ended(&mut self) -> Option<End> {
        let end = match self.child.try_wait() {
            Ok(None) => return None,
            Ok(Some(status)) => End::Exited(status),
            Err(error) => End::Lost(error),
        };
        self.has_ended = true;
        Some(end)
    }

    /// After the command has ended: reads what is still to come, and stops whatever holds on to it.
    pub async fn clear_up(&mut self, patience: impl Future<Output = ()>) -> Left {
        if timeout(DRAIN, self.until_closed()).await.is_ok() {
            self.group.let_go();
            return Left::Nothing;
        }
        match self.stop(patience).await {
            Left::Escaped => Left::Escaped,
            Left::Nothing | Left::Stopped => Left::Stopped,
        }
    }

    /// Asks everything the command started to end, and ends what has not when `patience` is over.
    pub async fn stop(&mut self, patience: impl Future<Output = ()>) -> Left {
        self.group.group.terminate();
        // Whether it went quietly or not, the kill comes: something else in the group may have stayed.
        tokio::select! {
            biased;
            () = self.until_closed() => {}
            () = patience => {}
        }
        self.group.group.kill();
        let closed = timeout(DRAIN, self.until_closed()).await.is_ok();
        self.group.let_go();
        if closed { Left::Nothing } else { Left::Escaped }
    }

    /// Until the command has ended and nobody holds its output any more.
    async fn until_closed(&mut self) {
        while self.is_open || !self.has_ended {
            self.step().await;
        }
    }

    fn take(&mut self, read: io::Result<Option<(Stream, usize)>>) {
        match read {
            Ok(Some((stream, n))) => {
                self.last_output = Some(Instant::now());
                self.taker.take(stream, &self.buffer[..n]);
            }
            Ok(None) | Err(_) => self.is_open = false,
        }
    }
}

/// Where the output comes from.
enum Source {
    Pipes(BothPipes),
    Terminal(pty_process::Pty),
}

impl Source {
    async fn read(&mut self, buffer: &mut [u8]) -> io::Result<Option<(Stream, usize)>> {
        match self {
            Source::Pipes(pipes) => pipes.read(buffer).await,
            Source::Terminal(terminal) => loop {
                match terminal.read(buffer).await {
                    Ok(0) => return Ok(None),
                    Ok(n) => return Ok(Some((Stream::Terminal, n))),
                    Err(error) if is_a_pause(&error) => {}
                    Err(error) if is_the_end(&error) => return Ok(None),
                    Err(error) => return Err(error),
                }
            },
        }
    }
}

fn is_a_pause(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}

/// A terminal that nobody holds any more says so with an error of its own.
fn is_the_end(error: &io::Error) -> bool {
    error.raw_os_error() == Some(libc::EIO)
}

/// The writing ends live in the `Command` and go with it: only the child's stay.
fn on_pipes(launch: Launch<'_>) -> io::Result<(Child, Source)> {
    let (pipes, (stdout, stderr)) = BothPipes::open()?;
    let mut command = command(launch);
    command.stdout(stdout).stderr(stderr);
    sys::in_new_session(&mut command);
    if let Some(confinement) = launch.options.sandbox.as_ref().map(Sandbox::confinement) {
        sys::confine(&mut command, confinement.map_err(io::Error::other)?);
    }
    Ok((command.spawn()?, Source::Pipes(pipes)))
}

/// The session of its own comes with the terminal.
fn on_a_terminal(launch: Launch<'_>) -> io::Result<(Child, Source)> {
    let (terminal, other_end) = pty_process::open().map_err(io::Error::other)?;
    let size = pty_process::Size::new(TERMINAL_ROWS, TERMINAL_COLUMNS);
    terminal.resize(size).map_err(io::Error::other)?;
    let mut command = command(launch);
    command.envs(ON_A_TERMINAL.iter().copied());
    // Told to the wrapper too: what it does not know of it would put on the terminal.
    let mut command = pty_process::Command::from(command).stdin(Stdio::null());
    if let Some(confinement) = launch.options.sandbox.as_ref().map(Sandbox::confinement) {
        command = sys::confine_on_terminal(command, confinement.map_err(io::Error::other)?);
    }
    let child = command.spawn(other_end).map_err(io::Error::other)?;
    Ok((child, Source::Terminal(terminal)))
}

fn command(launch: Launch<'_>) -> Command {
    let mut command = Command::new("bash");
    let environment =
        launch.options.environment.iter().map(|(name, value): &(OsString, OsString)| (name, value));
    command
        .arg("-c")
        .arg(launch.command)
        .current_dir(launch.folder)
        .env_clear()
        .envs(environment)
        .env("PWD", launch.folder)
        .stdin(Stdio::null())
        .kill_on_drop(true);
    for (name, value) in launch.trace.map(TraceContext::variables).into_iter().flatten() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_of_a_terminal_that_are_none() {
        let error = io::Error::from_raw_os_error;
        assert!(is_the_end(&error(libc::EIO)) && !is_a_pause(&error(libc::EIO)));
        assert!(is_a_pause(&error(libc::EAGAIN)) && is_a_pause(&error(libc::EINTR)));
        assert!(!is_the_end(&error(libc::EBADF)) && !is_a_pause(&error(libc::EBADF)));
    }
}

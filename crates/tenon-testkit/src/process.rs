//! A run of the binary while it lives: write to it, read its lines as they come, signal it, wait for it.
//!
//! Every wait here has a limit; when it passes, the process is killed and the test fails with all it said.

use std::io::{Read, Write};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError, mpsc};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::cli::{Run, Scratch};

/// A line that a test waits for is there in milliseconds; this only ends a hang.
const LINE_LIMIT: Duration = Duration::from_secs(30);
/// After the process ended its output is in the pipe already, unless a child of it holds the pipe open.
const DRAIN_LIMIT: Duration = Duration::from_secs(10);
/// How often the end of the process is looked for.
const EXIT_POLL: Duration = Duration::from_millis(2);

static WATCH: OnceLock<Watch> = OnceLock::new();

/// Functions that panic over a line that should not be.
struct Watch {
    sent: fn(&Value),
    read: fn(&Value),
}

/// Every line that a test of this process sends as JSON is shown to `sent`, and every one that it reads as such to `read`.
/// The first call counts.
pub fn watch_lines(sent: fn(&Value), read: fn(&Value)) {
    let _ = WATCH.set(Watch { sent, read });
}

/// A line was read.
pub(crate) fn seen(line: &Value) {
    if let Some(watch) = WATCH.get() {
        (watch.read)(line);
    }
}

/// A signal a test sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    Interrupt,
    Terminate,
    Kill,
    HangUp,
}

pub struct Running {
    child: Child,
    ended: Option<ExitStatus>,
    stdin: Option<mpsc::Sender<Vec<u8>>>,
    stdout: Arc<Tap>,
    stderr: Arc<Tap>,
    /// How much of stdout was handed out as lines.
    read: usize,
    command: String,
    deadline: Instant,
    limit: Duration,
    scratch: Arc<Scratch>,
}

impl Running {
    #[track_caller]
    pub(crate) fn start(mut command: Command, line: String, limit: Duration, scratch: Arc<Scratch>) -> Self {
        // A group of its own, so that whatever it started can be ended with it.
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
        let mut child = command.spawn().unwrap_or_else(|error| panic!("cannot start `{line}`: {error}"));
        let stdout = Tap::on(child.stdout.take().expect("stdout is piped"));
        let stderr = Tap::on(child.stderr.take().expect("stderr is piped"));
        let stdin = child.stdin.take().map(feed);
        let deadline = Instant::now() + limit;
        Self { child, ended: None, stdin, stdout, stderr, read: 0, command: line, deadline, limit, scratch }
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Puts bytes into stdin without waiting for them to be read.
    #[track_caller]
    pub fn write(&mut self, bytes: impl AsRef<[u8]>) {
        let stdin = self.stdin.as_ref().expect("an open stdin: start it with `stdin_idle()`");
        // A process that no longer reads is seen in how it ends, not here.
        let _ = stdin.send(bytes.as_ref().to_vec());
    }

    /// Puts one JSON line into stdin, after `watch_lines` has seen it.
    #[track_caller]
    pub fn write_json(&mut self, line: &Value) {
        if let Some(watch) = WATCH.get() {
            (watch.sent)(line);
        }
        self.write(format!("{line}\n"));
    }

    /// The end of stdin, after what was written.
    pub fn close_stdin(&mut self) {
        self.stdin = None;
    }

    /// The next line of stdout; `None` at its end. A test that waits too long fails.
    #[track_caller]
    pub fn line(&mut self) -> Option<String> {
        self.line_within(LINE_LIMIT)
    }

    #[track_caller]
    pub fn line_within(&mut self, timeout: Duration) -> Option<String> {
        let tap = self.stdout.clone();
        let read = self.read;
        let complete = |output: &Output| output.ended || output.bytes[read..].contains(&b'\n');
        let Some(output) = tap.wait(timeout, complete) else {
            self.fail(&format!("no line on stdout within {timeout:?}"));
        };
        let rest = &output.bytes[read..];
        if rest.is_empty() {
            return None;
        }
        let length = rest.iter().position(|byte| *byte == b'\n').map_or(rest.len(), |at| at + 1);
        self.read += length;
        Some(String::from_utf8_lossy(&rest[..length]).trim_end_matches('\n').to_owned())
    }

    /// The next line of stdout as JSON; its end fails the test.
    #[track_caller]
    pub fn json(&mut self) -> Value {
        let Some(line) = self.line() else { self.fail("stdout ended where a JSON line was expected") };
        let line = serde_json::from_str(&line)
            .unwrap_or_else(|error| self.fail(&format!("not JSON ({error}): `{line}`")));
        seen(&line);
        line
    }

    /// Reads JSON lines up to the first that passes the test, and returns it.
    #[track_caller]
    pub fn json_where(&mut self, accepts: impl Fn(&Value) -> bool) -> Value {
        loop {
            let line = self.json();
            if accepts(&line) {
                return line;
            }
        }
    }

    /// Blocks until stderr contains the text.
    #[track_caller]
    pub fn wait_for_stderr(&mut self, text: &str) {
        let tap = self.stderr.clone();
        let seen = |output: &Output| String::from_utf8_lossy(&output.bytes).contains(text);
        let found =
            tap.wait(LINE_LIMIT, |output| output.ended || seen(output)).is_some_and(|output| seen(&output));
        if !found {
            self.fail(&format!("`{text}` did not appear on stderr"));
        }
    }

    /// Everything on stdout so far, read as lines or not.
    pub fn stdout_so_far(&self) -> String {
        self.stdout.text()
    }

    pub fn stderr_so_far(&self) -> String {
        self.stderr.text()
    }

    /// Sends a signal to the process, not to what it started.
    pub fn signal(&mut self, signal: Signal) {
        if self.poll().is_none() {
            kill(Target::Process(self.child.id()), signal);
        }
    }

    pub fn has_ended(&mut self) -> bool {
        self.poll().is_some()
    }

    /// Waits for the end, within the limit of the run.
    #[track_caller]
    pub fn wait(mut self) -> Run {
        let status = loop {
            if let Some(status) = self.poll() {
                break status;
            }
            if Instant::now() >= self.deadline {
                let limit = self.limit;
                self.fail(&format!("still running after {limit:?}, killed"));
            }
            std::thread::sleep(EXIT_POLL);
        };
        for tap in [self.stdout.clone(), self.stderr.clone()] {
            if tap.wait(DRAIN_LIMIT, |output| output.ended).is_none() {
                self.fail("it ended, but a process it started keeps its output open");
            }
        }
        self.to_run(status)
    }

    fn poll(&mut self) -> Option<ExitStatus> {
        if self.ended.is_none() {
            self.ended = self.child.try_wait().expect("our own child");
        }
        self.ended
    }

    fn to_run(&self, status: ExitStatus) -> Run {
        Run {
            code: status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or_default()),
            stdout: self.stdout.text(),
            stderr: self.stderr.text(),
            command: self.command.clone(),
            scratch: self.scratch.clone(),
        }
    }

    #[track_caller]
    fn fail(&mut self, reason: &str) -> ! {
        let status = self.end();
        panic!("{reason}\n{}", self.to_run(status));
    }

    /// Kills the process and its group, if it still lives.
    fn end(&mut self) -> ExitStatus {
        kill(Target::Group(self.child.id()), Signal::Kill);
        match self.poll() {
            Some(status) => status,
            None => self.child.wait().expect("our own child"),
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.end();
    }
}

enum Target {
    Process(u32),
    Group(u32),
}

#[allow(unsafe_code, reason = "the standard library can only kill")]
fn kill(target: Target, signal: Signal) {
    let signal = match signal {
        Signal::Interrupt => libc::SIGINT,
        Signal::Terminate => libc::SIGTERM,
        Signal::Kill => libc::SIGKILL,
        Signal::HangUp => libc::SIGHUP,
    };
    let pid = match target {
        Target::Process(pid) => pid.cast_signed(),
        Target::Group(pid) => -pid.cast_signed(),
    };
    // SAFETY: kill(2) takes two integers and touches no memory of ours.
    unsafe { libc::kill(pid, signal) };
}

/// A thread of its own writes, so that a process that does not read cannot block the test.
fn feed(mut stdin: ChildStdin) -> mpsc::Sender<Vec<u8>> {
    let (sender, receiver) = mpsc::channel::<Vec<u8>>();
    std::thread::spawn(move || {
        for bytes in receiver {
            if stdin.write_all(&bytes).and_then(|()| stdin.flush()).is_err() {
                return;
            }
        }
    });
    sender
}

/// What came out of a pipe so far, filled by a thread of its own.
#[derive(Default)]
struct Tap {
    output: Mutex<Output>,
    changed: Condvar,
}

#[derive(Default)]
struct Output {
    bytes: Vec<u8>,
    ended: bool,
}

impl Tap {
    fn on(mut pipe: impl Read + Send + 'static) -> Arc<Self> {
        let tap = Arc::new(Self::default());
        let filled = tap.clone();
        std::thread::spawn(move || {
            let mut buffer = [0; 64 * 1024];
            loop {
                let count = pipe.read(&mut buffer).unwrap_or(0);
                let mut output = filled.lock();
                output.bytes.extend_from_slice(&buffer[..count]);
                output.ended = count == 0;
                filled.changed.notify_all();
                if count == 0 {
                    return;
                }
            }
        });
        tap
    }

    fn lock(&self) -> MutexGuard<'_, Output> {
        self.output.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(&self.lock().bytes).into_owned()
    }

    /// `None` when the time passed first.
    fn wait(&self, timeout: Duration, done: impl Fn(&Output) -> bool) -> Option<MutexGuard<'_, Output>> {
        let (output, _) = self
            .changed
            .wait_timeout_while(self.lock(), timeout, |output| !done(output))
            .unwrap_or_else(PoisonError::into_inner);
        done(&output).then_some(output)
    }
}

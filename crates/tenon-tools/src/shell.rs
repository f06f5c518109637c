//! `run_shell_command`: a command in `bash -c`, waited for.
//!
//! The command runs in a session of its own, with nothing on stdin and both outputs in one pipe, so that
//! they come in the order they were written. It ends by itself, at its deadline or with the run; whatever
//! is left of it then is stopped.

use std::ffi::OsString;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use tenon_core::{
    Args, BoxFut, Tool, ToolCtx, ToolErrorKind, ToolKind, ToolOutcome, ToolProgress, ToolSpec, TraceContext,
};
use tokio::io::AsyncReadExt;
use tokio::net::unix::pipe;
use tokio::process::{Child, Command};
use tokio::time::{Instant, sleep_until, timeout};

use crate::args::{ArgReader, Refusal, outcome};
use crate::capture::Capture;
use crate::exit_status::{is_failure, signal_name};
use crate::output::first_chars;
use crate::running::GroupGuard;
use crate::sys::{self, ProcessGroup};
use crate::{Sandbox, Workspace};

const NAME: &str = "run_shell_command";
/// Long enough for most builds; a model can ask for more.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(120);
const MAX_TIMEOUT: Duration = Duration::from_secs(600);
/// A client that hears nothing for longer takes a run for dead.
const HEARTBEAT: Duration = Duration::from_secs(10);
/// Between asking a command to end and ending it.
const GRACE: Duration = Duration::from_secs(2);
/// How long the pipe may stay open after the command has ended: its own output is already in the pipe.
const DRAIN: Duration = Duration::from_millis(500);
/// A command is repeated in its result up to here.
const COMMAND_SHOWN: usize = 1_000;
/// Below this nobody needs to be told that a command was slow.
const SLOW: Duration = Duration::from_secs(1);
const READ_SIZE: usize = 64 * 1024;

#[derive(Clone, Debug)]
pub struct ShellOptions {
    pub default_timeout: Duration,
    pub max_timeout: Duration,
    /// How often a silent command gives a sign of life; zero is never.
    pub heartbeat: Duration,
    /// The whole environment of commands, before secrets are taken out.
    pub environment: Vec<(OsString, OsString)>,
    /// Names of variables that hold secrets: commands do not get them.
    pub env_remove: Vec<String>,
    /// Names that commands get all the same.
    pub env_pass: Vec<String>,
    /// What binds every command, if anything does.
    pub sandbox: Option<Sandbox>,
}

impl ShellOptions {
    pub fn new(environment: impl IntoIterator<Item = (OsString, OsString)>) -> ShellOptions {
        ShellOptions {
            default_timeout: DEFAULT_TIMEOUT,
            max_timeout: MAX_TIMEOUT,
            heartbeat: HEARTBEAT,
            environment: environment.into_iter().collect(),
            env_remove: Vec::new(),
            env_pass: Vec::new(),
            sandbox: None,
        }
    }
}

pub(crate) struct RunShellCommand {
    spec: Arc<ToolSpec>,
    workspace: Arc<Workspace>,
    options: ShellOptions,
}

impl RunShellCommand {
    pub fn new(workspace: Arc<Workspace>, mut options: ShellOptions) -> RunShellCommand {
        let ShellOptions { env_remove, env_pass, environment, .. } = &mut options;
        environment.retain(|(name, _)| {
            let listed = |names: &[String]| names.iter().any(|listed| name == listed.as_str());
            !listed(env_remove) || listed(env_pass)
        });
        let spec = ToolSpec {
            name: NAME.to_owned(),
            description: format!(
                "Runs a command with `bash -c` and waits for it. There is no terminal and nothing on stdin. It is \
                 stopped after {} ms unless `timeout` says otherwise; what it leaves running with its output open is stopped when it \
                 ends. Large outputs are shown in part and kept in a file.",
                options.default_timeout.as_millis()
            ),
            parameters: json!({
                "type": "object",
                "properties": {
                    "command": { "type": "string", "description": "The bash command line." },
                    "timeout": {
                        "type": "integer",
                        "minimum": 1,
                        "maximum": u64::try_from(options.max_timeout.as_millis()).unwrap_or(u64::MAX),
                        "description": "Milliseconds after which the command is stopped."
                    },
                    "description": { "type": "string", "description": "What the command is for, in a few words." },
                    "directory": { "type": "string", "description": "Absolute path of the folder to run in. Default: the working folder." }
                },
                "required": ["command"]
            }),
            kind: ToolKind::Execute,
        };
        RunShellCommand { spec: Arc::new(spec), workspace, options }
    }

    async fn run(&self, ctx: ToolCtx, args: Args) -> Result<ToolOutcome, Refusal> {
        let order = self.order(&args)?;
        let start = Instant::now();
        let mut running = Running::start(
            &order,
            &self.options,
            ctx.trace.as_ref(),
            Capture::new(self.workspace.outputs.clone(), NAME),
        )?;
        let end = running.watch(&ctx, start, order.timeout, self.options.heartbeat).await;
        let left = running.clear_up(&end).await;
        let group = running.group.group.id();
        let report = Report {
            order: &order,
            end,
            left,
            group,
            elapsed: start.elapsed(),
            output: running.capture.finish(),
        };
        Ok(report.outcome())
    }

    fn order(&self, args: &Args) -> Result<Order, Refusal> {
        let args = ArgReader::new(&self.spec, args);
        let command = args.filled_text("command")?.to_owned();
        args.optional_text("description")?;
        if args.flag("is_background")? {
            return Err(Refusal::arguments(
                "Commands cannot run in the background yet; call again without `is_background`.",
            ));
        }
        if ends_in_background(&command) {
            return Err(Refusal::arguments(
                "A command must not end with `&`: what it starts would be stopped at once. Remove the `&` to wait for it.",
            ));
        }
        let timeout = match args.optional_count("timeout")? {
            None => self.options.default_timeout,
            Some(0) => return Err(Refusal::arguments("`timeout` must be at least 1 millisecond.")),
            Some(ms) if Duration::from_millis(ms) > self.options.max_timeout => {
                let max = self.options.max_timeout.as_millis();
                return Err(Refusal::arguments(format!("`timeout` must be at most {max} milliseconds.")));
            }
            Some(ms) => Duration::from_millis(ms),
        };
        let directory =
            match args.optional_text("directory")?.filter(|directory| !directory.trim().is_empty()) {
                None => None,
                Some(given) => {
                    let path = self.workspace.resolve(given)?;
                    if !path.is_dir() {
                        return Err(Refusal::failed(format!(
                            "There is no folder `{given}` to run the command in."
                        )));
                    }
                    Some(path)
                }
            };
        let folder = directory.clone().unwrap_or_else(|| self.workspace.cwd().to_owned());
        Ok(Order { command, timeout, directory, folder })
    }
}

impl Tool for RunShellCommand {
    fn spec(&self) -> &Arc<ToolSpec> {
        &self.spec
    }

    fn call(&self, ctx: ToolCtx, args: Args) -> BoxFut<'_, ToolOutcome> {
        Box::pin(async move { outcome(self.run(ctx, args).await) })
    }
}

/// What is to be run.
struct Order {
    command: String,
    timeout: Duration,
    /// As asked for, if it was.
    directory: Option<PathBuf>,
    folder: PathBuf,
}

/// How a command came to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Exited(ExitStatus),
    /// Its status could not be learnt.
    Lost,
    TimedOut,
    Cancelled,
}

/// What a command left behind that still held its output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Left {
    Nothing,
    Stopped,
    /// Processes that moved to a session of their own: they are out of reach.
    Escaped,
}

struct Running {
    child: Child,
    group: GroupGuard,
    pipe: pipe::Receiver,
    pipe_is_open: bool,
    has_ended: bool,
    capture: Capture,
    last_output: Option<Instant>,
    buffer: Vec<u8>,
}

impl Running {
    fn start(
        order: &Order,
        options: &ShellOptions,
        trace: Option<&TraceContext>,
        capture: Capture,
    ) -> Result<Running, Refusal> {
        let unstarted =
            |error: std::io::Error| Refusal::failed(format!("`bash` cannot be started: {error}."));
        let (reader, writer) = std::io::pipe().map_err(unstarted)?;
        let pipe = pipe::Receiver::from_owned_fd(reader.into()).map_err(unstarted)?;
        let child = spawn(&order.command, &order.folder, options, trace, writer).map_err(unstarted)?;
        let group = child
            .id()
            .and_then(ProcessGroup::of)
            .ok_or_else(|| Refusal::failed("`bash` ended before it could be watched."))?;
        Ok(Running {
            child,
            group: GroupGuard::new(group),
            pipe,
            pipe_is_open: true,
            has_ended: false,
            capture,
            last_output: None,
            buffer: vec![0; READ_SIZE],
        })
    }

    /// Reads until the command ends, one way or the other.
    async fn watch(&mut self, ctx: &ToolCtx, start: Instant, limit: Duration, heartbeat: Duration) -> End {
        let deadline = start + limit;
        let mut beat = start + heartbeat;
        loop {
            tokio::select! {
                biased;
                () = ctx.cancel.cancelled() => return End::Cancelled,
                () = sleep_until(deadline) => return End::TimedOut,
                status = self.child.wait() => {
                    self.has_ended = true;
                    return status.map_or(End::Lost, End::Exited);
                }
                read = self.pipe.read(&mut self.buffer), if self.pipe_is_open => {
                    self.take(read);
                    self.last_output = Some(Instant::now());
                }
                () = sleep_until(beat), if !heartbeat.is_zero() => {
                    let now = Instant::now();
                    if self.last_output.is_none_or(|last| now - last >= heartbeat) {
                        (ctx.progress)(self.progress(start, now, limit));
                    }
                    beat = now + heartbeat;
                }
            }
        }
    }

    /// Reads what is still in the pipe, and stops whatever must not go on.
    async fn clear_up(&mut self, end: &End) -> Left {
        if matches!(end, End::Exited(_) | End::Lost) && timeout(DRAIN, self.until_closed()).await.is_ok() {
            self.group.let_go();
            return Left::Nothing;
        }
        self.group.group.terminate();
        // Whether it went quietly or not, the kill comes: something else in the group may have stayed.
        let _ = timeout(GRACE, self.until_closed()).await;
        self.group.group.kill();
        let closed = timeout(DRAIN, self.until_closed()).await.is_ok();
        self.group.let_go();
        match end {
            _ if !closed => Left::Escaped,
            End::Exited(_) | End::Lost => Left::Stopped,
            End::TimedOut | End::Cancelled => Left::Nothing,
        }
    }

    /// Until the command has ended and nobody holds its output any more.
    async fn until_closed(&mut self) {
        while self.pipe_is_open || !self.has_ended {
            tokio::select! {
                _ = self.child.wait(), if !self.has_ended => self.has_ended = true,
                read = self.pipe.read(&mut self.buffer), if self.pipe_is_open => self.take(read),
            }
        }
    }

    fn take(&mut self, read: std::io::Result<usize>) {
        match read {
            Ok(n) if n > 0 => self.capture.push(&self.buffer[..n]),
            Ok(_) | Err(_) => self.pipe_is_open = false,
        }
    }

    fn progress(&self, start: Instant, now: Instant, limit: Duration) -> ToolProgress {
        ToolProgress::Shell {
            elapsed_ms: millis(now - start),
            last_output_age_ms: self.last_output.map(|last| millis(now - last)),
            total_lines: self.capture.lines,
            total_bytes: self.capture.bytes,
            timeout_ms: millis(limit),
        }
    }
}

/// The writing ends of the pipe live in `command` and go with it: only the child's stay.
fn spawn(
    text: &str,
    folder: &Path,
    options: &ShellOptions,
    trace: Option<&TraceContext>,
    output: std::io::PipeWriter,
) -> std::io::Result<Child> {
    let mut command = Command::new("bash");
    command
        .arg("-c")
        .arg(text)
        .current_dir(folder)
        .env_clear()
        .envs(options.environment.iter().map(|(name, value)| (name, value)))
        .env("PWD", folder)
        .stdin(Stdio::null())
        .stdout(output.try_clone()?)
        .stderr(output)
        .kill_on_drop(true);
    for (name, value) in trace.map(TraceContext::variables).into_iter().flatten() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    sys::in_new_session(&mut command);
    if let Some(sandbox) = &options.sandbox {
        sys::confine(&mut command, sandbox.confinement().map_err(std::io::Error::other)?);
    }
    command.spawn()
}

/// `a &`, but not `a &&` (unfinished, bash says so) and not `echo \&`.
fn ends_in_background(command: &str) -> bool {
    let command = command.trim_end();
    command.strip_suffix('&').is_some_and(|rest| !rest.ends_with(['&', '\\', '|', '>']))
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

struct Report<'a> {
    order: &'a Order,
    end: End,
    left: Left,
    group: i32,
    elapsed: Duration,
    output: String,
}

impl Report<'_> {
    fn outcome(self) -> ToolOutcome {
        match self.end {
            End::TimedOut => {
                let ms = millis(self.order.timeout);
                self.stopped(
                    ToolErrorKind::TimedOut,
                    &format!("The command was stopped after {ms} ms, before it was done."),
                )
            }
            End::Cancelled => {
                self.stopped(ToolErrorKind::Cancelled, "The command was cancelled before it was done.")
            }
            End::Lost => self.finished(None, None),
            End::Exited(status) => self.finished(status.code(), status.signal()),
        }
    }

    fn stopped(&self, kind: ToolErrorKind, what: &str) -> ToolOutcome {
        let output = if self.output.is_empty() {
            "It had printed nothing.".to_owned()
        } else {
            format!("Its output until then:\n{}", self.output)
        };
        let note = self.note().map(|note| format!("\n{note}")).unwrap_or_default();
        ToolOutcome::error(kind, format!("{what} {output}{note}"))
    }

    fn finished(&self, code: Option<i32>, signal: Option<i32>) -> ToolOutcome {
        let or_none = |text: Option<String>| text.unwrap_or_else(|| "(none)".to_owned());
        let directory =
            self.order.directory.as_ref().map_or("(root)".to_owned(), |path| path.display().to_string());
        let output = if self.output.is_empty() { "(empty)" } else { &self.output };
        let mut text = format!(
            "Command: {}\nDirectory: {directory}\nOutput: {output}\nError: (none)\nExit Code: {}\nSignal: {}\nProcess Group PGID: {}",
            shown_command(&self.order.command),
            or_none(code.map(|code| code.to_string())),
            or_none(signal.map(signal_name)),
            self.group,
        );
        let notes = [self.note(), self.slow(signal)];
        for note in notes.into_iter().flatten() {
            text.push('\n');
            text.push_str(&note);
        }
        if code.is_none_or(|code| is_failure(&self.order.command, code)) {
            return ToolOutcome::error(ToolErrorKind::Failed, text);
        }
        let display = match (self.output.is_empty(), code) {
            (false, _) | (true, None) => self.output.clone(),
            (true, Some(code)) => format!("The command printed nothing and exited with code {code}."),
        };
        ToolOutcome { display: Some(display), ..ToolOutcome::ok(text) }
    }

    fn note(&self) -> Option<String> {
        match self.left {
            Left::Nothing => None,
            Left::Stopped => Some(
                "Note: the command left background processes that held its output; they were stopped."
                    .to_owned(),
            ),
            Left::Escaped => Some(
                "Note: the command left background processes in sessions of their own; they may still run."
                    .to_owned(),
            ),
        }
    }

    fn slow(&self, signal: Option<i32>) -> Option<String> {
        let is_slow = self.elapsed >= SLOW.max(self.order.timeout / 2) && signal.is_none();
        is_slow.then(|| {
            format!(
                "Note: the command took {:.1} s of its {:.1} s; give a larger `timeout` if it may take longer.",
                self.elapsed.as_secs_f64(),
                self.order.timeout.as_secs_f64()
            )
        })
    }
}

fn shown_command(command: &str) -> String {
    let shown = first_chars(command, COMMAND_SHOWN);
    if shown.len() == command.len() { shown.to_owned() } else { format!("{shown} […]") }
}

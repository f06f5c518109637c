//! `run_shell_command`: what a call asks for, and waiting for a command that runs in the foreground.
//!
//! It ends by itself, at its deadline or with the run; whatever is left of it then is stopped. Or it goes
//! on in the background: from the start (`background.rs`), or because somebody no longer wants to wait
//! (`promote.rs`). Running it is `shell_run.rs`; what the model reads of its end is `shell_report.rs`.

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use encoding_rs::Encoding;
use serde_json::json;
use tenon_core::{Args, BoxFut, Cancel, Tool, ToolCtx, ToolKind, ToolOutcome, ToolProgress, ToolSpec};
use tokio::time::{Instant, sleep, sleep_until};

use crate::args::{ArgReader, Refusal, outcome};
use crate::background::{self, Launched, STOP_GRACE};
use crate::decode::locale_encoding;
use crate::promote;
use crate::shell_output::Capture;
use crate::shell_report::Report;
use crate::shell_run::{End, Launch, Left, Running, Step};
use crate::tasks::{Foreground, PromoteReply};
use crate::{CommandBook, Sandbox, ShellTerminal, Tasks, Workspace};

pub(crate) const NAME: &str = "run_shell_command";
/// Long enough for most builds; a model can ask for more.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(120);
const MAX_TIMEOUT: Duration = Duration::from_secs(600);
/// A client that hears nothing for longer takes a run for dead.
const HEARTBEAT: Duration = Duration::from_secs(10);
/// Between asking a command to end and ending it, while the run goes on and what it still has to say is read.
const GRACE: Duration = Duration::from_secs(2);

#[derive(Clone, Debug)]
pub struct ShellOptions {
    pub default_timeout: Duration,
    pub max_timeout: Duration,
    /// How often a silent command gives a sign of life; zero is never.
    pub heartbeat: Duration,
    /// After how long a command that is still waited for goes to the background; `None` is never.
    pub promote_after: Option<Duration>,
    pub terminal: ShellTerminal,
    /// The whole environment of commands, before secrets are taken out.
    pub environment: Vec<(OsString, OsString)>,
    /// Names of variables that hold secrets: commands do not get them.
    pub env_remove: Vec<String>,
    /// Names that commands get all the same.
    pub env_pass: Vec<String>,
    /// What binds every command, if anything does.
    pub sandbox: Option<Sandbox>,
    /// Where commands are written down while they run, if somebody may have to end them after this process.
    pub book: Option<CommandBook>,
}

impl ShellOptions {
    pub fn new(environment: impl IntoIterator<Item = (OsString, OsString)>) -> ShellOptions {
        ShellOptions {
            default_timeout: DEFAULT_TIMEOUT,
            max_timeout: MAX_TIMEOUT,
            heartbeat: HEARTBEAT,
            promote_after: None,
            terminal: ShellTerminal::default(),
            environment: environment.into_iter().collect(),
            env_remove: Vec::new(),
            env_pass: Vec::new(),
            sandbox: None,
            book: None,
        }
    }

    /// With the environment that commands really get.
    pub(crate) fn without_secrets(mut self) -> ShellOptions {
        let ShellOptions { env_remove, env_pass, environment, .. } = &mut self;
        environment.retain(|(name, _)| {
            let listed = |names: &[String]| names.iter().any(|listed| name == listed.as_str());
            !listed(env_remove) || listed(env_pass)
        });
        self
    }

    /// The character set of the commands' locale, where that is not UTF-8.
    pub(crate) fn locale(&self) -> Option<&'static Encoding> {
        let variable = |name: &str| {
            let (_, value) = self.environment.iter().find(|(n, _)| n == name)?;
            value.to_str().filter(|value| !value.is_empty())
        };
        locale_encoding(["LC_ALL", "LC_CTYPE", "LANG"].into_iter().find_map(variable)?)
    }
}

pub(crate) struct RunShellCommand {
    spec: Arc<ToolSpec>,
    workspace: Arc<Workspace>,
    options: Arc<ShellOptions>,
    tasks: Tasks,
}

impl RunShellCommand {
    pub fn new(workspace: Arc<Workspace>, options: Arc<ShellOptions>, tasks: Tasks) -> RunShellCommand {
        let spec = ToolSpec {
            name: NAME.to_owned(),
            description: format!(
                "Runs a command with `bash -c` and waits for it. There is {} and nothing on stdin. It is \
                 stopped after {} ms unless `timeout` says otherwise; what it leaves running with its output open is stopped when it \
                 ends. Large outputs are shown in part and kept in a file. With `is_background` it is not waited for: its \
                 output goes to a file, you are told when it ends, and it ends with the run at the latest.",
                match options.terminal {
                    ShellTerminal::Pipes => "no terminal",
                    ShellTerminal::Pty => "a terminal nobody types at",
                },
                options.default_timeout.as_millis()
            ),
            parameters: json!({
                "type": "object",
                "properties": {
                    "command": { "type": "string", "description": "The bash command line." },
                    "is_background": {
                        "type": "boolean",
                        "description": "Do not wait for the command: for servers, watchers and whatever takes long. Default: false."
                    },
                    "timeout": {
                        "type": "integer",
                        "minimum": 1,
                        "maximum": u64::try_from(options.max_timeout.as_millis()).unwrap_or(u64::MAX),
                        "description": "Milliseconds after which the command is stopped. In the background there is no limit unless this is given."
                    },
                    "description": { "type": "string", "description": "What the command is for, in a few words." },
                    "directory": { "type": "string", "description": "Absolute path of the folder to run in. Default: the working folder." }
                },
                "required": ["command"]
            }),
            kind: ToolKind::Execute,
        };
        RunShellCommand { spec: Arc::new(spec), workspace, options, tasks }
    }

    async fn run(&self, ctx: ToolCtx, args: Args) -> Result<ToolOutcome, Refusal> {
        let order = self.order(&args)?;
        let capture = Capture::new(self.workspace.outputs.clone(), NAME, self.options.locale());
        let launch = Launch {
            command: &order.command,
            folder: &order.folder,
            options: &self.options,
            trace: ctx.trace.as_ref(),
        };
        if order.mode == Mode::Background {
            return background::start(launch, capture, &order, &ctx.call_id, &self.tasks).await;
        }
        let mut running = Running::start(launch, capture)?;
        let mut foreground = self.tasks.foreground(&ctx.call_id);
        let limits = Waiting {
            timeout: order.timeout,
            heartbeat: self.options.heartbeat,
            promote_after: self.options.promote_after,
        };
        let waited = wait(&mut running, &ctx, limits, &mut foreground).await;
        let left = match &waited {
            Waited::Unwanted(_) => Left::Nothing,
            Waited::Ended(_) => running.clear_up(patience(&ctx.cancel)).await,
            // What got away from the signals is told; what did not is what was asked for.
            Waited::TimedOut | Waited::Cancelled => running.stop(patience(&ctx.cancel)).await,
        };
        let end = match waited {
            Waited::Unwanted(reply) => {
                let launched = Launched { order: &order, call_id: &ctx.call_id, tasks: &self.tasks };
                return Ok(promote::promote(running, launched, reply).await);
            }
            Waited::Ended(end) => crate::shell_report::Ending::Ended(end),
            Waited::TimedOut => crate::shell_report::Ending::TimedOut,
            Waited::Cancelled => crate::shell_report::Ending::Cancelled,
        };
        let pid = running.pid();
        let report = Report {
            order: &order,
            end,
            left,
            group: pid,
            elapsed: running.started.elapsed(),
            output: running.taker.finish(),
            sandbox: self.options.sandbox.as_ref(),
        };
        let outcome = report.outcome();
        tracing::debug!(pid, error = ?outcome.error, "command ended");
        Ok(outcome)
    }

    fn order(&self, args: &Args) -> Result<Order, Refusal> {
        let args = ArgReader::new(&self.spec, args);
        let command = args.filled_text("command")?.to_owned();
        let description = args.optional_text("description")?.map(str::to_owned);
        let mode = if args.flag("is_background")? { Mode::Background } else { Mode::Foreground };
        if ends_in_background(&command) {
            return Err(Refusal::arguments(match mode {
                Mode::Background => {
                    "A command must not end with `&`: with `is_background` it runs in the background already. Remove the `&`."
                }
                Mode::Foreground => {
                    "A command must not end with `&`: what it starts would be stopped at once. Remove the `&` to wait for it, \
                     or set `is_background` to true as well."
                }
            }));
        }
        let timeout = match args.optional_count("timeout")? {
            None => None,
            Some(0) => return Err(Refusal::arguments("`timeout` must be at least 1 millisecond.")),
            Some(ms) if Duration::from_millis(ms) > self.options.max_timeout => {
                let max = self.options.max_timeout.as_millis();
                return Err(Refusal::arguments(format!("`timeout` must be at most {max} milliseconds.")));
            }
            Some(ms) => Some(Duration::from_millis(ms)),
        };
        let directory = folder(&self.workspace, &args)?;
        Ok(Order {
            folder: directory.clone().unwrap_or_else(|| self.workspace.cwd().to_owned()),
            timeout: timeout.unwrap_or(self.options.default_timeout),
            background_timeout: timeout,
            command,
            description,
            mode,
            directory,
        })
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
pub(crate) struct Order {
    pub command: String,
    pub description: Option<String>,
    pub mode: Mode,
    /// How long it is waited for in the foreground.
    pub timeout: Duration,
    /// How long it may take in the background, if that was limited.
    pub background_timeout: Option<Duration>,
    /// As asked for, if it was.
    pub directory: Option<PathBuf>,
    pub folder: PathBuf,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    Foreground,
    Background,
}

/// The folder that a call names, if it names one.
pub(crate) fn folder(workspace: &Workspace, args: &ArgReader<'_>) -> Result<Option<PathBuf>, Refusal> {
    let Some(given) = args.optional_text("directory")?.filter(|directory| !directory.trim().is_empty())
    else {
        return Ok(None);
    };
    let path = workspace.resolve(given)?;
    if !path.is_dir() {
        return Err(Refusal::failed(format!("There is no folder `{given}` to run the command in.")));
    }
    Ok(Some(path))
}

struct Waiting {
    timeout: Duration,
    heartbeat: Duration,
    promote_after: Option<Duration>,
}

/// Why a command in the foreground is no longer waited for.
enum Waited {
    Ended(End),
    TimedOut,
    Cancelled,
    /// It is to go on in the background, and this is who wants to hear of it.
    Unwanted(Option<PromoteReply>),
}

/// Reads until the command ends, one way or the other.
async fn wait(
    running: &mut Running<Capture>,
    ctx: &ToolCtx,
    limits: Waiting,
    foreground: &mut Foreground,
) -> Waited {
    let deadline = running.started + limits.timeout;
    let enough = running.started + limits.promote_after.unwrap_or_default();
    let mut beat = running.started + limits.heartbeat;
    loop {
        tokio::select! {
            biased;
            () = ctx.cancel.cancelled() => return Waited::Cancelled,
            () = sleep_until(deadline) => return Waited::TimedOut,
            // Where it has ended already this comes too late, and whoever asked hears so.
            Ok(reply) = &mut foreground.asked => {
                return running.has_ended().map_or(Waited::Unwanted(Some(reply)), Waited::Ended);
            }
            () = sleep_until(enough), if limits.promote_after.is_some() => {
                return running.has_ended().map_or(Waited::Unwanted(None), Waited::Ended);
            }
            step = running.step() => {
                if let Step::Ended(end) = step {
                    return Waited::Ended(end);
                }
            }
            () = sleep_until(beat), if !limits.heartbeat.is_zero() => {
                let now = Instant::now();
                if running.last_output.is_none_or(|last| now - last >= limits.heartbeat) {
                    (ctx.progress)(progress(running, now, limits.timeout));
                }
                beat = now + limits.heartbeat;
            }
        }
    }
}

/// How long a command that was asked to end is waited for: not long once nobody wants the run to go on.
async fn patience(cancel: &Cancel) {
    tokio::select! {
        biased;
        () = async { cancel.cancelled().await; sleep(STOP_GRACE).await } => {}
        () = sleep(GRACE) => {}
    }
}

fn progress(running: &Running<Capture>, now: Instant, limit: Duration) -> ToolProgress {
    ToolProgress::Shell {
        elapsed_ms: millis(now - running.started),
        last_output_age_ms: running.last_output.map(|last| millis(now - last)),
        total_lines: running.taker.lines,
        total_bytes: running.taker.bytes,
        timeout_ms: millis(limit),
    }
}

/// `a &`, but not `a &&` (unfinished, bash says so) and not `echo \&`.
fn ends_in_background(command: &str) -> bool {
    let command = command.trim_end();
    command.strip_suffix('&').is_some_and(|rest| !rest.ends_with(['&', '\\', '|', '>']))
}

pub(crate) fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

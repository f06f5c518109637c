//! `monitor`: a command in the background whose every line is told to the model as it comes.
//!
//! It ends with its command, after enough lines, after enough silence, when it is stopped, or with the run.
//! Running the command is `shell_run.rs`; permission is asked as for a shell command (`permission.rs`).

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use encoding_rs::Encoding;
use serde_json::json;
use tenon_core::{Args, BoxFut, TaskKind, TaskStatus, Tool, ToolCtx, ToolKind, ToolOutcome, ToolSpec};
use tokio::time::{Instant, sleep, sleep_until};

use crate::args::{ArgReader, Refusal, outcome};
use crate::background::{Facts, STOP_GRACE, Verdict, describe};
use crate::output::first_chars;
use crate::shell::{folder, millis};
use crate::shell_output::{Stream, StreamText, TakesOutput};
use crate::shell_run::{End, Launch, Running, Step};
use crate::{NewTask, Settled, ShellOptions, TaskHandle, Tasks, Workspace};

const DEFAULT_EVENTS: u64 = 1_000;
/// Each line costs the model something to read.
const MAX_EVENTS: u64 = 10_000;
const DEFAULT_IDLE: Duration = Duration::from_secs(300);
const MAX_IDLE: Duration = Duration::from_secs(600);
/// How much of a line the model is told.
const LINE_TOLD: usize = 2_000;
/// A line that never ends is told in pieces of this many bytes.
const LONGEST_LINE: usize = 64 * 1024;

pub(crate) struct Monitor {
    spec: Arc<ToolSpec>,
    workspace: Arc<Workspace>,
    options: Arc<ShellOptions>,
    tasks: Tasks,
}

impl Monitor {
    pub fn new(workspace: Arc<Workspace>, options: Arc<ShellOptions>, tasks: Tasks) -> Monitor {
        let spec = ToolSpec {
            name: "monitor".to_owned(),
            description: "Runs a command in the background and tells you every line it prints as it comes, \
                          for example `tail -f app.log | grep --line-buffered ERROR`. Print little: each line is a message to you."
                .to_owned(),
            parameters: json!({
                "type": "object",
                "properties": {
                    "command": { "type": "string", "description": "The bash command line to watch." },
                    "description": { "type": "string", "description": "What is watched, in a few words." },
                    "max_events": {
                        "type": "integer", "minimum": 1, "maximum": MAX_EVENTS,
                        "description": format!("Lines after which it is stopped. Default: {DEFAULT_EVENTS}.")
                    },
                    "idle_timeout_ms": {
                        "type": "integer", "minimum": 1, "maximum": millis(MAX_IDLE),
                        "description": format!("Milliseconds without a line after which it is stopped. Default: {}.", millis(DEFAULT_IDLE))
                    },
                    "directory": { "type": "string", "description": "Absolute path of the folder to run in. Default: the working folder." }
                },
                "required": ["command"]
            }),
            kind: ToolKind::Execute,
        };
        Monitor { spec: Arc::new(spec), workspace, options, tasks }
    }

    fn start(&self, ctx: &ToolCtx, args: &Args) -> Result<ToolOutcome, Refusal> {
        let args = ArgReader::new(&self.spec, args);
        let command = args.filled_text("command")?;
        let description = describe(args.optional_text("description")?, command);
        let limits = Limits {
            events: within(&args, "max_events", MAX_EVENTS)?.unwrap_or(DEFAULT_EVENTS),
            idle: within(&args, "idle_timeout_ms", millis(MAX_IDLE))?
                .map_or(DEFAULT_IDLE, Duration::from_millis),
        };
        let directory = folder(&self.workspace, &args)?;
        let handle = self
            .tasks
            .start(NewTask {
                agent_type: None,
                kind: TaskKind::Monitor,
                call_id: Some(ctx.call_id.clone()),
                description: description.clone(),
                output_file: None,
            })
            .map_err(|error| Refusal::failed(crate::task_stop::sentence(&error.to_string())))?;
        let launch = Launch {
            command,
            folder: directory.as_deref().unwrap_or(self.workspace.cwd()),
            options: &self.options,
            trace: ctx.trace.as_ref(),
        };
        let running = match Running::start(launch, Lines::new(self.options.locale())) {
            Ok(running) => running,
            Err(refusal) => {
                handle.settle_quietly(Settled {
                    status: TaskStatus::Failed,
                    summary: refusal.message.clone(),
                    detail: String::new(),
                    usage: None,
                    tool_calls: 0,
                });
                return Err(refusal);
            }
        };
        let id = handle.id().to_owned();
        let text = format!(
            "The monitor {id} runs (process {}). You are told every line it prints, and when it ends. \
             To stop it, call task_stop with the task_id {id}.",
            running.pid()
        );
        tokio::spawn(watch(running, handle, description, limits));
        let shown = format!("{id} watches in the background.");
        Ok(ToolOutcome { display: Some(shown), ..ToolOutcome::ok(text) })
    }
}

impl Tool for Monitor {
    fn spec(&self) -> &Arc<ToolSpec> {
        &self.spec
    }

    fn call(&self, ctx: ToolCtx, args: Args) -> BoxFut<'_, ToolOutcome> {
        Box::pin(async move { outcome(self.start(&ctx, &args)) })
    }
}

fn within(args: &ArgReader<'_>, name: &str, max: u64) -> Result<Option<u64>, Refusal> {
    match args.optional_count(name)? {
        Some(n) if n == 0 || n > max => {
            Err(Refusal::arguments(format!("`{name}` must be between 1 and {max}.")))
        }
        given => Ok(given),
    }
}

struct Limits {
    events: u64,
    idle: Duration,
}

enum Reason {
    Ended(End),
    Enough,
    Silent,
    Stopped,
}

async fn watch(mut running: Running<Lines>, handle: TaskHandle, description: String, limits: Limits) {
    let name = format!("Monitor {} ({description})", handle.id());
    let mut told = 0;
    let reason = read(&mut running, &handle, &name, &limits, &mut told).await;
    let verdict = match reason {
        Reason::Stopped => {
            // Whoever stopped it has settled it.
            running.stop(sleep(STOP_GRACE)).await;
            return;
        }
        Reason::Enough => {
            running.stop(sleep(STOP_GRACE)).await;
            let how = format!("was stopped after {told} lines, as many as were asked for");
            Verdict { status: TaskStatus::Completed, how }
        }
        Reason::Silent => {
            running.stop(sleep(STOP_GRACE)).await;
            let how = format!("was stopped after {} ms without a line", millis(limits.idle));
            Verdict { status: TaskStatus::Failed, how }
        }
        Reason::Ended(end) => {
            running.clear_up(sleep(STOP_GRACE)).await;
            running.taker.finish();
            tell(&mut running.taker, &handle, &name, &limits, &mut told);
            Verdict::of(&Facts::of(&end))
        }
    };
    handle.settle(Settled {
        status: verdict.status,
        summary: format!("{name} {}.", verdict.how),
        detail: String::new(),
        usage: None,
        tool_calls: 0,
    });
}

async fn read(
    running: &mut Running<Lines>,
    handle: &TaskHandle,
    name: &str,
    limits: &Limits,
    told: &mut u64,
) -> Reason {
    let mut silent_at = running.started + limits.idle;
    loop {
        let step = tokio::select! {
            biased;
            () = handle.cancel().cancelled() => return Reason::Stopped,
            () = sleep_until(silent_at) => return Reason::Silent,
            step = running.step() => step,
        };
        if let Step::Ended(end) = step {
            return Reason::Ended(end);
        }
        let before = *told;
        tell(&mut running.taker, handle, name, limits, told);
        if *told >= limits.events {
            return Reason::Enough;
        }
        if *told > before {
            silent_at = Instant::now() + limits.idle;
        }
    }
}

/// Tells the lines that have come, up to the limit.
fn tell(lines: &mut Lines, handle: &TaskHandle, name: &str, limits: &Limits, told: &mut u64) {
    while *told < limits.events
        && let Some(line) = lines.ready.pop_front()
    {
        *told += 1;
        let shown = first_chars(&line, LINE_TOLD);
        let cut = if shown.len() < line.len() { " […]" } else { "" };
        let text = format!("{name}: {shown}{cut}");
        handle.notify(text.clone(), text);
    }
}

/// Whole lines of two streams. Empty ones say nothing and are left out.
struct Lines {
    stdout: OpenLine,
    stderr: OpenLine,
    ready: VecDeque<String>,
}

struct OpenLine {
    text: StreamText,
    line: String,
}

impl Lines {
    fn new(locale: Option<&'static Encoding>) -> Lines {
        let open = || OpenLine { text: StreamText::new(locale), line: String::new() };
        Lines { stdout: open(), stderr: open(), ready: VecDeque::new() }
    }

    /// The last lines may have no end.
    fn finish(&mut self) {
        for open in [&mut self.stdout, &mut self.stderr] {
            let rest = open.text.finish();
            open.add(&rest, &mut self.ready);
            open.add("\n", &mut self.ready);
        }
    }
}

impl OpenLine {
    fn add(&mut self, text: &str, ready: &mut VecDeque<String>) {
        for piece in text.split_inclusive('\n') {
            self.line.push_str(piece);
            if !self.line.ends_with('\n') && self.line.len() < LONGEST_LINE {
                continue;
            }
            let line = std::mem::take(&mut self.line);
            // A line that was overwritten counts in its last state.
            let last = line.trim_end().rsplit('\r').next().unwrap_or_default();
            if !last.is_empty() {
                ready.push_back(last.to_owned());
            }
        }
    }
}

impl TakesOutput for Lines {
    fn take(&mut self, stream: Stream, bytes: &[u8]) {
        let open = match stream {
            Stream::Stdout | Stream::Terminal => &mut self.stdout,
            Stream::Stderr => &mut self.stderr,
        };
        let text = open.text.push(stream, bytes);
        open.add(&text, &mut self.ready);
    }
}

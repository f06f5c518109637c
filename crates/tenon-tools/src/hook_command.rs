//! Runs a command hook: JSON on stdin, an answer on stdout, a reason on stderr.
//!
//! The command has a process group of its own, which ends with its deadline and with the run. What an
//! answer means is decided in `hook_reply.rs`.

use std::collections::BTreeMap;
use std::os::unix::process::ExitStatusExt;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use tenon_core::{Cancel, HookShell, TraceContext};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::process::Command;
use tokio::time::timeout;

use crate::exit_status::signal_name;
use crate::hook_reply::{Reply, shortened};
use crate::hooks::{Failed, HookOptions, Ran};
use crate::running::GroupGuard;
use crate::sys::{self, ProcessGroup};

/// Decisions are small; a hook that prints more than this has lost its way.
pub(crate) const MAX_OUTPUT: usize = 1024 * 1024;
/// How long the pipes may stay open after the command has ended: its own output is already in them.
const DRAIN: Duration = Duration::from_millis(500);
/// Exit code of a hook that says no.
const SAYS_NO: i32 = 2;
/// How much of a failed hook's stderr is repeated.
const STDERR_SHOWN: usize = 500;
const READ_SIZE: usize = 16 * 1024;

pub(crate) struct CommandHook<'a> {
    pub command: &'a str,
    pub shell: HookShell,
    pub env: &'a BTreeMap<String, String>,
    pub timeout: Duration,
}

impl CommandHook<'_> {
    pub async fn run(
        &self,
        input: String,
        options: &HookOptions,
        trace: Option<&TraceContext>,
        cancel: &Cancel,
    ) -> Result<Ran, Failed> {
        let mut command = self.prepare(options, trace);
        let shell = self.shell.name();
        let unstarted =
            |error: std::io::Error| Failed::broken(format!("`{shell}` cannot be started: {error}"));
        let mut child = command.spawn().map_err(unstarted)?;
        let group = child.id().and_then(ProcessGroup::of);
        let group = GroupGuard::new(group.ok_or_else(|| Failed::broken("it could not be watched"))?);
        let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let write = async {
            if let Some(mut stdin) = stdin {
                // A hook that does not care for its input closes it, or never reads it: both are fine.
                let _ = stdin.write_all(input.as_bytes()).await;
            }
        };
        let mut out = Captured::default();
        let mut err = Captured::default();
        let status = {
            let reading = async { tokio::join!(out.read(stdout), err.read(stderr)) };
            tokio::pin!(write, reading);
            let mut is_read = false;
            let mut is_written = false;
            let ended = async {
                loop {
                    tokio::select! {
                        status = child.wait() => break status,
                        _ = &mut reading, if !is_read => is_read = true,
                        () = &mut write, if !is_written => is_written = true,
                    }
                }
            };
            let status = tokio::select! {
                biased;
                () = cancel.cancelled() => Err(Failed::Cancelled),
                ended = timeout(self.timeout, ended) => match ended {
                    Err(_) => Err(Failed::TimedOut(self.timeout)),
                    Ok(Err(error)) => Err(Failed::broken(format!("its end could not be seen: {error}"))),
                    Ok(Ok(status)) => Ok(status),
                },
            }?;
            // What it left running holds its output; it had its chance to answer.
            let left = !is_read && timeout(DRAIN, reading).await.is_err();
            if !left {
                group.let_go();
            }
            status
        };
        // Dropped with something still running, it ends the group.
        drop(group);
        answer(status, &out, &err)
    }

    fn prepare(&self, options: &HookOptions, trace: Option<&TraceContext>) -> Command {
        let mut command = Command::new(self.shell.name());
        command
            .arg("-c")
            .arg(self.command)
            .current_dir(&options.cwd)
            .env_clear()
            .envs(options.environment.iter().map(|(name, value)| (name, value)))
            .env("PWD", &options.cwd);
        for name in ["TENON_PROJECT_DIR", "CLAUDE_PROJECT_DIR", "QWEN_PROJECT_DIR", "GEMINI_PROJECT_DIR"] {
            command.env(name, &options.project_root);
        }
        for (name, value) in trace.map(TraceContext::variables).into_iter().flatten() {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        command
            .envs(self.env)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        sys::in_new_session(&mut command);
        command
    }
}

fn answer(status: ExitStatus, out: &Captured, err: &Captured) -> Result<Ran, Failed> {
    let stderr = err.text();
    match status.code() {
        Some(0) if out.is_cut => {
            Err(Failed::Broken { why: format!("it printed more than {MAX_OUTPUT} bytes"), code: Some(0) })
        }
        Some(0) => {
            let stdout = out.text();
            Reply::from_text(&stdout)
                .map(|reply| Ran { reply, code: Some(0), stdout, stderr })
                .map_err(|why| Failed::Broken { why, code: Some(0) })
        }
        Some(SAYS_NO) => {
            let reply = Reply::from_refusal(&stderr);
            Ok(Ran { reply, code: Some(SAYS_NO), stdout: out.text(), stderr })
        }
        code => {
            let ended = match (code, status.signal()) {
                (Some(code), _) => format!("it exited with code {code}"),
                (None, Some(signal)) => format!("it was ended by {}", signal_name(signal)),
                (None, None) => "it ended in an unknown way".to_owned(),
            };
            let why = match stderr.trim() {
                "" => ended,
                stderr => format!("{ended}: {}", shortened(stderr, STDERR_SHOWN)),
            };
            Err(Failed::Broken { why, code })
        }
    }
}

/// The beginning of an output; the rest is read and thrown away, so that the command is not held up.
#[derive(Default)]
struct Captured {
    bytes: Vec<u8>,
    is_cut: bool,
}

impl Captured {
    async fn read(&mut self, pipe: Option<impl AsyncRead + Unpin>) {
        let Some(mut pipe) = pipe else { return };
        let mut buffer = vec![0; READ_SIZE];
        while let Ok(read) = pipe.read(&mut buffer).await {
            if read == 0 {
                return;
            }
            let room = MAX_OUTPUT - self.bytes.len();
            self.bytes.extend_from_slice(&buffer[..read.min(room)]);
            self.is_cut |= read > room;
        }
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(&self.bytes).into_owned()
    }
}

//! What the model reads, and a client is shown, of a command that was waited for.

use std::os::unix::process::ExitStatusExt;
use std::time::Duration;

use tenon_core::{ToolErrorKind, ToolOutcome};

use crate::Sandbox;
use crate::exit_status::{is_failure, signal_name};
use crate::output::first_chars;
use crate::shell::{Order, millis};
use crate::shell_run::{End, Left};

/// A command is repeated in its result up to here.
const COMMAND_SHOWN: usize = 1_000;
/// Below this nobody needs to be told that a command was slow.
const SLOW: Duration = Duration::from_secs(1);

pub(crate) struct Report<'a> {
    pub order: &'a Order,
    pub end: Ending,
    pub left: Left,
    pub group: i32,
    pub elapsed: Duration,
    pub output: String,
    /// What bound the command.
    pub sandbox: Option<&'a Sandbox>,
}

/// How a command in the foreground came to its end.
pub(crate) enum Ending {
    Ended(End),
    TimedOut,
    Cancelled,
}

impl Report<'_> {
    pub fn outcome(self) -> ToolOutcome {
        match &self.end {
            Ending::TimedOut => {
                let ms = millis(self.order.timeout);
                self.stopped(
                    ToolErrorKind::TimedOut,
                    &format!("The command was stopped after {ms} ms, before it was done."),
                )
            }
            Ending::Cancelled => {
                self.stopped(ToolErrorKind::Cancelled, "The command was cancelled before it was done.")
            }
            Ending::Ended(End::Lost(_)) => self.finished(None, None),
            Ending::Ended(End::Exited(status)) => self.finished(status.code(), status.signal()),
        }
    }

    fn stopped(&self, kind: ToolErrorKind, what: &str) -> ToolOutcome {
        let output = if self.output.is_empty() {
            "It had printed nothing.".to_owned()
        } else {
            format!("Its output until then:\n{}", self.output)
        };
        let note = self.left.note().map(|note| format!("\n{note}")).unwrap_or_default();
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
        let failed = code.is_none_or(|code| is_failure(&self.order.command, code));
        let bound = self.sandbox.filter(|_| failed).and_then(|sandbox| sandbox.explain(&self.output));
        let notes = [self.left.note().map(str::to_owned), self.slow(signal), bound];
        for note in notes.into_iter().flatten() {
            text.push('\n');
            text.push_str(&note);
        }
        if failed {
            return ToolOutcome::error(ToolErrorKind::Failed, text);
        }
        let display = match (self.output.is_empty(), code) {
            (false, _) | (true, None) => self.output.clone(),
            (true, Some(code)) => format!("The command printed nothing and exited with code {code}."),
        };
        ToolOutcome { display: Some(display), ..ToolOutcome::ok(text) }
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

pub(crate) fn shown_command(command: &str) -> String {
    let shown = first_chars(command, COMMAND_SHOWN);
    if shown.len() == command.len() { shown.to_owned() } else { format!("{shown} […]") }
}

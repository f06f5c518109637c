//! Which hooks ran, for clients that ask for it (`--include-hook-events`): the same lines in the `qwen` and the
//! `claude` dialect, in the form that clients of the latter read.

use schemars::JsonSchema;
use serde::Serialize;
use tenon_core::{HookEnd, HookReport, HookStart, Id};

use crate::values::Uuid;

/// A hook begins to run. Only with `--include-hook-events`.
#[derive(Serialize, JsonSchema)]
pub(crate) struct HookStarted<'a> {
    #[serde(flatten)]
    pub of: HookLine<'a>,
}

/// A hook has ended. Only with `--include-hook-events`.
#[derive(Serialize, JsonSchema)]
pub(crate) struct HookResponse<'a> {
    #[serde(flatten)]
    pub of: HookLine<'a>,
    /// `stdout` and `stderr` together.
    pub output: String,
    /// What it answered, shortened.
    pub stdout: &'a str,
    /// What it complained about, or why it failed; shortened.
    pub stderr: &'a str,
    /// `null` for what is no command.
    pub exit_code: Option<i32>,
    pub outcome: HookOutcome,
}

/// What both lines have.
#[derive(Serialize, JsonSchema)]
pub(crate) struct HookLine<'a> {
    pub uuid: Uuid,
    pub session_id: Uuid,
    pub parent_tool_use_id: Option<&'a str>,
    /// The same in both lines of one hook.
    pub hook_id: String,
    pub hook_name: &'a str,
    /// What happened: `PreToolUse`, say.
    pub hook_event: &'static str,
}

/// A hook that said no did what it is there for.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum HookOutcome {
    Success,
    Error,
    Cancelled,
}

/// Whose line it is.
#[derive(Clone, Copy)]
pub(super) struct Envelope<'a> {
    pub event_id: Id,
    pub session_id: Uuid,
    pub parent: Option<&'a str>,
}

impl<'a> Envelope<'a> {
    fn around(self, id: u64, name: &'a str, event: &'static str) -> HookLine<'a> {
        HookLine {
            uuid: Uuid(self.event_id),
            session_id: self.session_id,
            parent_tool_use_id: self.parent,
            hook_id: format!("hook_{id}"),
            hook_name: name,
            hook_event: event,
        }
    }
}

pub(super) fn started<'a>(hook: &'a HookStart, envelope: Envelope<'a>) -> HookStarted<'a> {
    HookStarted { of: envelope.around(hook.id, &hook.name, hook.event.name()) }
}

pub(super) fn ended<'a>(hook: &'a HookReport, envelope: Envelope<'a>) -> HookResponse<'a> {
    HookResponse {
        of: envelope.around(hook.id, &hook.name, hook.event.name()),
        output: format!("{}{}", hook.stdout, hook.stderr),
        stdout: &hook.stdout,
        stderr: &hook.stderr,
        exit_code: hook.exit_code,
        outcome: match hook.end {
            HookEnd::Success | HookEnd::Blocked | HookEnd::Started => HookOutcome::Success,
            HookEnd::Failed | HookEnd::TimedOut => HookOutcome::Error,
            HookEnd::Cancelled => HookOutcome::Cancelled,
        },
    }
}

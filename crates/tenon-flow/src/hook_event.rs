//! Hooks of a run as its events tell them. They are told to those who ask for it ([`crate::FlowEmitter::with_hooks`]) and to
//! nobody else. When hooks run, and what follows from their answers, is decided elsewhere (`tenon-tools`, `tenon-agent`).

use schemars::JsonSchema;
use serde::Serialize;
use tenon_core::{EventKind, HookEnd, HookReport, HookStart};

use crate::event::{CallPhase, FlowEventData};

/// A hook starts, or has ended.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct HookData {
    pub phase: CallPhase,
    /// The same at the start and at the end; each run of a hook has its own.
    pub hook_id: u64,
    /// What it was told of, such as `PreToolUse`.
    pub event: String,
    pub name: String,
    /// What the settings want to be shown meanwhile; at the start.
    pub status_message: Option<String>,
    /// At the end.
    pub outcome: Option<HookOutcome>,
    /// Of a command; at the end.
    pub exit_code: Option<i32>,
    /// What it answered, shortened; at the end.
    pub stdout: Option<String>,
    /// What it complained about, or why it failed, shortened; at the end.
    pub stderr: Option<String>,
    pub duration_ms: Option<u64>,
    /// The tool call that an agent of a step's agent works for.
    pub parent_call_id: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum HookOutcome {
    /// It answered, and did not say no.
    Success,
    Blocked,
    Error,
    Timeout,
    Cancelled,
    /// It runs on; nobody waits for it.
    Started,
}

impl From<HookEnd> for HookOutcome {
    fn from(end: HookEnd) -> HookOutcome {
        match end {
            HookEnd::Success => HookOutcome::Success,
            HookEnd::Blocked => HookOutcome::Blocked,
            HookEnd::Failed => HookOutcome::Error,
            HookEnd::TimedOut => HookOutcome::Timeout,
            HookEnd::Cancelled => HookOutcome::Cancelled,
            HookEnd::Started => HookOutcome::Started,
        }
    }
}

/// What an agent's event says about a hook, if it is about one.
pub fn hook_event(kind: &EventKind, parent_call_id: Option<String>) -> Option<FlowEventData> {
    let data = match kind {
        EventKind::HookStarted(HookStart { id, event, name, status_message }) => HookData {
            phase: CallPhase::Start,
            hook_id: *id,
            event: event.name().to_owned(),
            name: name.clone(),
            status_message: status_message.clone(),
            outcome: None,
            exit_code: None,
            stdout: None,
            stderr: None,
            duration_ms: None,
            parent_call_id,
        },
        EventKind::HookEnded(HookReport { id, event, name, end, exit_code, duration_ms, stdout, stderr }) => {
            HookData {
                phase: CallPhase::End,
                hook_id: *id,
                event: event.name().to_owned(),
                name: name.clone(),
                status_message: None,
                outcome: Some((*end).into()),
                exit_code: *exit_code,
                stdout: Some(stdout.clone()),
                stderr: Some(stderr.clone()),
                duration_ms: Some(*duration_ms),
                parent_call_id,
            }
        }
        _ => return None,
    };
    Some(FlowEventData::Hook(Box::new(data)))
}

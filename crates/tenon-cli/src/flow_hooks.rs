//! Hooks around a whole workflow: `SessionStart` before its first step, `SessionEnd` after its last.
//!
//! Its steps are agents of the run, so hooks hear of each by `SubagentStart` and `SubagentStop` (`tenon-agent`), and of their
//! calls like of any other. Nobody types a prompt into a workflow, so there is no `UserPromptSubmit`.

use std::sync::Arc;
use std::time::Duration;

use tenon_agent::{Agent, Stop};
use tenon_core::{Cancel, ErrorClass, EventKind, Failure, HookEvent};
use tenon_flow::WorkflowStatus;
use tenon_tools::{HookCtx, HookInput, Hooks, SessionSource};

use crate::stderr::Reporter;

/// How long the last hooks of a run that was stopped may take.
const LAST_HOOKS: Duration = Duration::from_secs(5);

/// What hooks want every step to know, or why there is no run.
pub async fn at_start(
    agent: &Agent,
    source: SessionSource,
    reporter: Reporter,
) -> Result<Option<String>, Failure> {
    if !agent.hooks.listen_to(HookEvent::SessionStart) {
        return Ok(None);
    }
    let ctx = HookCtx {
        client: Arc::clone(&agent.client),
        permission_mode: agent.permissions.mode().name(),
        trace: agent.trace.clone(),
        ..context(agent.stop.cancel().child_token(), reporter)
    };
    let input = HookInput::SessionStart { source, model: agent.info.model.clone() };
    let decision = agent.hooks.fire(&input, &ctx).await;
    match decision.stop {
        Some(reason) => {
            Err(Failure::new(ErrorClass::Refused, format!("a `SessionStart` hook stopped the run: {reason}")))
        }
        None => Ok(decision.context.map(|told| format!("Told by hooks:\n{told}"))),
    }
}

/// They cannot change anything any more.
pub async fn at_end(hooks: &Hooks, status: WorkflowStatus, stop: &Stop, reporter: Reporter) {
    let reason = match status {
        WorkflowStatus::Completed => "completed",
        WorkflowStatus::Cancelled | WorkflowStatus::Suspended => "interrupted",
        WorkflowStatus::Failed | WorkflowStatus::Partial | WorkflowStatus::BudgetExceeded => "failed",
    };
    // The run's own token may have fallen; these have one of their own, and little time once it has.
    let ctx = context(Cancel::new(), reporter);
    let tell = async {
        if hooks.listen_to(HookEvent::SessionEnd) {
            hooks.fire(&HookInput::SessionEnd { reason }, &ctx).await;
        }
        hooks.finish().await;
    };
    tokio::select! {
        () = tell => {}
        () = async { stop.cancel().cancelled().await; tokio::time::sleep(LAST_HOOKS).await } => {}
    }
}

fn context(cancel: Cancel, reporter: Reporter) -> HookCtx {
    let tell = move |kind| {
        if let EventKind::Warning { message } = kind {
            reporter.warn(&message);
        }
    };
    HookCtx { tell: Arc::new(tell), ..HookCtx::alone(cancel) }
}

//! Hooks around a whole workflow: `SessionStart` before its first step, `SessionEnd` after its last.
//!
//! Its steps are agents of the run, so hooks hear of each by `SubagentStart` and `SubagentStop` (`tenon-agent`), and of their
//! calls like of any other. Nobody types a prompt into a workflow, so there is no `UserPromptSubmit`.

use std::sync::Arc;
use std::time::Duration;

use tenon_agent::{Agent, Stop};
use tenon_core::{Cancel, ErrorClass, EventKind, Failure, HookEvent};
use tenon_flow::{FlowEmitter, WorkflowStatus, hook_event};
use tenon_tools::{HookCtx, HookInput, Hooks, SessionSource};

use crate::stderr::Reporter;

/// How long the last hooks of a run that was stopped may take.
const LAST_HOOKS: Duration = Duration::from_secs(5);

/// What hooks want every step to know, or why there is no run.
pub async fn at_start(
    agent: &Agent,
    source: SessionSource,
    reporter: Reporter,
    events: &Arc<FlowEmitter>,
) -> Result<Option<String>, Failure> {
    if !agent.hooks.listen_to(HookEvent::SessionStart) {
        return Ok(None);
    }
    let ctx = HookCtx {
        client: Arc::clone(&agent.client),
        permission_mode: agent.permissions.mode().name(),
        trace: agent.trace.clone(),
        tell: tell(reporter, Some(events)),
        ..HookCtx::alone(agent.stop.cancel().child_token())
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

/// They cannot change anything any more, and the last event of the run is out.
pub async fn at_end(hooks: &Hooks, status: WorkflowStatus, stop: &Stop, reporter: Reporter) {
    let reason = match status {
        WorkflowStatus::Completed => "completed",
        WorkflowStatus::Cancelled | WorkflowStatus::Suspended => "interrupted",
        WorkflowStatus::Failed | WorkflowStatus::Partial | WorkflowStatus::BudgetExceeded => "failed",
    };
    // The run's own token may have fallen; these have one of their own, and little time once it has.
    let ctx = HookCtx { tell: tell(reporter, None), ..HookCtx::alone(Cancel::new()) };
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

fn tell(reporter: Reporter, events: Option<&Arc<FlowEmitter>>) -> Arc<dyn Fn(EventKind) + Send + Sync> {
    let events = events.cloned();
    Arc::new(move |kind| {
        if let EventKind::Warning { message } = &kind {
            reporter.warn(message);
        }
        if let (Some(events), Some(told)) = (&events, hook_event(&kind, None)) {
            events.emit(told);
        }
    })
}

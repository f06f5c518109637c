//! `exit_plan_mode`: the plan is ready. Offered only in `plan` mode.
//!
//! Whoever drives the run is asked what they think of the plan. When they approve it, the mode before it holds again
//! and the plan is carried out; where nobody is there, the plan becomes the final answer.

use std::sync::Arc;

use serde_json::json;
use tenon_core::{
    Args, BoxFut, PermissionAsk, PermissionReply, Tool, ToolCtx, ToolDisplay, ToolErrorKind, ToolKind,
    ToolOutcome, ToolSpec,
};

use crate::Permissions;
use crate::args::{ArgReader, Refusal, outcome};

pub(crate) struct ExitPlanMode {
    spec: Arc<ToolSpec>,
    permissions: Permissions,
}

impl ExitPlanMode {
    pub fn new(permissions: Permissions) -> ExitPlanMode {
        let spec = ToolSpec {
            name: "exit_plan_mode".to_owned(),
            description: "Hands in the plan once it is complete. Nothing is changed before it is \
                          approved."
                .to_owned(),
            parameters: json!({
                "type": "object",
                "properties": {
                    "plan": { "type": "string", "description": "The plan, in Markdown: short, and in steps." },
                    "originalRequest": { "type": "string", "description": "What was asked for." },
                    "researchSummary": { "type": "string", "description": "What you found out." }
                },
                "required": ["plan"]
            }),
            kind: ToolKind::Read,
        };
        ExitPlanMode { spec: Arc::new(spec), permissions }
    }

    async fn run(&self, ctx: &ToolCtx, args: Args) -> Result<ToolOutcome, Refusal> {
        let reader = ArgReader::new(&self.spec, &args);
        let plan = reader.filled_text("plan")?.to_owned();
        reader.optional_text("originalRequest")?;
        reader.optional_text("researchSummary")?;
        let drawing = Some(Box::new(ToolDisplay::PlanSummary { plan }));
        let told = if ctx.client.can_be_asked() {
            let ask = PermissionAsk {
                call_id: ctx.call_id.clone(),
                tool: self.spec.name.clone(),
                input: args,
                reason: "a plan is to be approved".to_owned(),
                agent_id: None,
            };
            match ctx.client.permission(ask, ctx.cancel.clone()).await {
                PermissionReply::Allow { .. } => match self.permissions.leave_plan() {
                    Some(mode) => {
                        format!("The plan was approved. Carry it out now: the mode is `{}`.", mode.name())
                    }
                    None => "The plan was approved. Give it as your final answer: you only plan.".to_owned(),
                },
                PermissionReply::CarriedOut(Ok(content)) => content,
                PermissionReply::CarriedOut(Err(message)) => {
                    return Ok(ToolOutcome { drawing, ..ToolOutcome::error(ToolErrorKind::Failed, message) });
                }
                PermissionReply::Withdrawn => return Err(Refusal::stopped()),
                PermissionReply::Deny { message } => {
                    let told =
                        format!("The plan was not approved: {message}\nChange it and hand it in again.");
                    return Ok(ToolOutcome { drawing, ..ToolOutcome::error(ToolErrorKind::Denied, told) });
                }
            }
        } else {
            "Nobody is there to approve the plan, and this run only plans. Give the plan as your final answer."
                .to_owned()
        };
        Ok(ToolOutcome { drawing, ..ToolOutcome::ok(told) })
    }
}

impl Tool for ExitPlanMode {
    fn spec(&self) -> &Arc<ToolSpec> {
        &self.spec
    }

    fn call(&self, ctx: ToolCtx, args: Args) -> BoxFut<'_, ToolOutcome> {
        Box::pin(async move { outcome(self.run(&ctx, args).await) })
    }
}

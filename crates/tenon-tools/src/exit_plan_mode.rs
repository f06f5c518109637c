//! `exit_plan_mode`: the plan is ready. Offered only in `plan` mode.
//!
//! A run stays in the mode it was started in, so nothing is carried out here: whoever drives the run is
//! asked what they think of the plan, and the plan becomes the final answer.

use std::sync::Arc;

use serde_json::json;
use tenon_core::{
    Args, BoxFut, PermissionAsk, PermissionReply, Tool, ToolCtx, ToolDisplay, ToolErrorKind, ToolKind,
    ToolOutcome, ToolSpec,
};

use crate::args::{ArgReader, Refusal, outcome};

pub(crate) struct ExitPlanMode {
    spec: Arc<ToolSpec>,
}

impl ExitPlanMode {
    pub fn new() -> ExitPlanMode {
        let spec = ToolSpec {
            name: "exit_plan_mode".to_owned(),
            description: "Hands in the plan once it is complete. This run only reads and plans; the plan is \
                          carried out in another one."
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
        ExitPlanMode { spec: Arc::new(spec) }
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
            };
            match ctx.client.permission(ask, ctx.cancel.clone()).await {
                PermissionReply::Allow { .. } => {
                    "The plan was approved. This run only plans: give the plan as your final answer, so that it \
                     can be carried out in another run."
                        .to_owned()
                }
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

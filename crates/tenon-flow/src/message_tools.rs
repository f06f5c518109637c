//! `send_message`: an agent of a step says something to another, or to the coordinator.
//!
//! Where helpers work for the agent, the same tool speaks to them: `to` is then their task (`tenon-agent/src/send_message.rs`
//! carries that out). What becomes of a message is decided in `post.rs`.

use std::sync::Arc;

use serde_json::{Value, json};
use tenon_core::{Args, BoxFut, Tool, ToolCtx, ToolKind, ToolOutcome, ToolSpec};
use tenon_tools::{ArgReader, Refusal};

use crate::addressee::{Place, address, names, place};
use crate::load::LoadedWorkflow;
use crate::message::{Address, DropReason, MessageType};
use crate::post::{Post, Sent};

pub(crate) const SEND_MESSAGE: &str = "send_message";
/// A long page. Whoever has more to say writes a file.
pub(crate) const MAX_MESSAGE_CHARS: usize = 32_000;
/// What the ids of messages begin with.
const SENT: &str = "msg-send";

pub(crate) struct SendMessage {
    spec: Arc<ToolSpec>,
    flow: Arc<LoadedWorkflow>,
    post: Arc<Post>,
    from: Address,
    /// Speaks to helpers, where the agent can have any.
    helpers: Option<Arc<dyn Tool>>,
}

impl SendMessage {
    pub(crate) fn new(
        flow: &Arc<LoadedWorkflow>,
        post: &Arc<Post>,
        from: Address,
        has_coordinator: bool,
        helpers: Option<Arc<dyn Tool>>,
    ) -> SendMessage {
        let spec = Arc::new(spec(&names(flow, from.step_id()), has_coordinator, helpers.is_some()));
        SendMessage { spec, flow: Arc::clone(flow), post: Arc::clone(post), from, helpers }
    }

    async fn send(&self, ctx: ToolCtx, args: &Args) -> Result<ToolOutcome, Refusal> {
        let reader = ArgReader::new(&self.spec, args);
        let text = reader.filled_text("text")?;
        if text.chars().count() > MAX_MESSAGE_CHARS {
            return Err(Refusal::arguments(format!(
                "`text` is longer than {MAX_MESSAGE_CHARS} characters; write it to a file, and its path here."
            )));
        }
        let to = reader.optional_text("to")?.map(str::trim).filter(|to| !to.is_empty());
        if let (Some(helpers), Some(task)) = (&self.helpers, to.filter(|to| to.starts_with("bg_"))) {
            let said = [("task_id", task), ("message", text)];
            let args = said.map(|(name, value)| (name.to_owned(), Value::from(value))).into_iter().collect();
            return Ok(helpers.call(ctx, args).await);
        }
        let to = to.map_or(Address::Coordinator, |name| address(&self.flow, &self.from, name));
        let refusal = wrapper(&self.flow, &to);
        // Also what nobody can read is told as dropped.
        let sent = self.post.send(SENT, self.from.clone(), to, MessageType::Info, text).await;
        refusal.map_or_else(|| Ok(answer(sent, &self.flow, self.from.step_id())), Err)
    }
}

impl Tool for SendMessage {
    fn spec(&self) -> &Arc<ToolSpec> {
        &self.spec
    }

    fn call(&self, ctx: ToolCtx, args: Args) -> BoxFut<'_, ToolOutcome> {
        Box::pin(async move { self.send(ctx, &args).await.unwrap_or_else(ToolOutcome::from) })
    }
}

/// A loop or an include has no ears.
pub(crate) fn wrapper(flow: &LoadedWorkflow, to: &Address) -> Option<Refusal> {
    let id = to.step_id().filter(|id| place(flow, id) == Place::Wrapper)?;
    let inner = format!("{id}.");
    let items = format!("{id}[");
    let inside: Vec<String> = names(flow, None)
        .into_iter()
        .filter(|name| name.starts_with(&inner) || name.starts_with(&items))
        .map(|name| format!("`{name}`"))
        .collect();
    Some(Refusal::failed(format!(
        "rejected: `{id}` is a WRAPPER step, which no agent works on; write to a step inside it, such as {}.",
        inside.join(", ")
    )))
}

/// What the sender is told.
pub(crate) fn answer(sent: Sent, flow: &LoadedWorkflow, sender: Option<&str>) -> ToolOutcome {
    let known = || names(flow, sender).iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
    match sent {
        Sent::Queued(id) => ToolOutcome::ok(format!("queued: {id}")),
        Sent::Dropped(reason @ DropReason::UnknownStep) => {
            ToolOutcome::ok(format!("dropped: {}\nThe steps are {}.", reason.name(), known()))
        }
        Sent::Dropped(reason @ DropReason::NoCoordinator) => ToolOutcome::ok(format!(
            "dropped: {}\nSay in `to` which step is to read it: {}.",
            reason.name(),
            known()
        )),
        Sent::Dropped(reason) => ToolOutcome::ok(format!("dropped: {}", reason.name())),
        Sent::NotKept(why) => Refusal::failed(format!("The message could not be kept: {why}.")).into(),
    }
}

fn spec(names: &[String], has_coordinator: bool, has_helpers: bool) -> ToolSpec {
    let mut description =
        "Says something to the agent of another step of this workflow, which reads it before its next turn. Nobody \
         has to answer."
            .to_owned();
    if has_coordinator {
        description.push_str(" Without `to`, the coordinator reads it and passes it on where it matters.");
    }
    let known: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
    let mut to = match known.is_empty() {
        true => "The step's id.".to_owned(),
        false => format!("The step's id: {}.", known.join(", ")),
    };
    if has_helpers {
        to.push_str(" Or the task of an agent that works for you, such as `bg_1a2b3c4d`.");
    }
    ToolSpec {
        name: SEND_MESSAGE.to_owned(),
        description,
        parameters: json!({
            "type": "object",
            "properties": {
                "text": { "type": "string", "description": "What it is told." },
                "to": { "type": "string", "description": to }
            },
            "required": if has_coordinator { json!(["text"]) } else { json!(["text", "to"]) },
            "additionalProperties": false
        }),
        // It changes nothing; what is done about it is judged call by call.
        kind: ToolKind::Read,
    }
}

//! What the coordinator (`coordinator.rs`) can do: `forward_to_agent`, `narrate`, `finalize`.

use std::sync::{Arc, Mutex, PoisonError};

use serde_json::{Value, json};
use tenon_agent::Stop;
use tenon_core::{Args, BoxFut, ErrorClass, Failure, Tool, ToolCtx, ToolKind, ToolOutcome, ToolSpec};
use tenon_tools::{ArgReader, Refusal};

use crate::addressee::{address, names};
use crate::emitter::FlowEmitter;
use crate::event::FlowEventData;
use crate::load::LoadedWorkflow;
use crate::message::{
    Address, COORDINATOR, CoordinatorNarration, CoordinatorSynthesis, DropReason, MessageType,
};
use crate::message_tools::{MAX_MESSAGE_CHARS, answer, wrapper};
use crate::post::{Post, Sent};
use crate::signal::{Signal, SignalJournal};

/// Its last word.
pub(crate) const FINALIZE: &str = "finalize";
/// What the ids of its messages begin with.
const FORWARDED: &str = "msg-fwd";

/// What the coordinator has to say in the end.
pub(crate) struct LastWord {
    said: Mutex<Option<String>>,
    post: Arc<Post>,
    events: Arc<FlowEmitter>,
    journal: Arc<dyn SignalJournal>,
}

impl LastWord {
    pub(crate) fn new(
        said: Option<String>,
        post: Arc<Post>,
        events: Arc<FlowEmitter>,
        journal: Arc<dyn SignalJournal>,
    ) -> LastWord {
        LastWord { said: Mutex::new(said), post, events, journal }
    }

    pub(crate) fn said(&self) -> Option<String> {
        self.said.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The run goes on, and it is not the last one.
    pub(crate) fn take_back(&self) {
        *self.said.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    pub(crate) async fn say(&self, summary: String) -> Result<(), Refusal> {
        let signal = Signal::Finalized { summary: summary.clone() };
        if let Err(why) = self.journal.write(vec![signal]).await {
            return Err(Refusal::failed(format!("The summary could not be kept: {why}.")));
        }
        *self.said.lock().unwrap_or_else(PoisonError::into_inner) = Some(summary.clone());
        narrated(&self.events, FlowEventData::CoordinatorSynthesis(CoordinatorSynthesis { summary }));
        self.post.close_for(&Address::Coordinator, DropReason::MailboxClosedByFinalize).await;
        Ok(())
    }
}

pub(crate) fn tools(
    flow: &Arc<LoadedWorkflow>,
    post: &Arc<Post>,
    events: &Arc<FlowEmitter>,
    word: &Arc<LastWord>,
    stop: &Stop,
) -> Vec<Arc<dyn Tool>> {
    let part = |act: Act, spec: ToolSpec| -> Arc<dyn Tool> {
        Arc::new(CoordinatorTool { spec: Arc::new(spec), act })
    };
    vec![
        part(
            Act::Forward { flow: Arc::clone(flow), post: Arc::clone(post), events: Arc::clone(events) },
            spec(
                "forward_to_agent",
                "Says something to the agent of a step, which reads it before its next turn.",
                json!({
                    "target_step_id": {
                        "type": "string",
                        "description": format!("The step's id: {}.", names(flow, None).join(", "))
                    },
                    "text": { "type": "string", "description": "What it is told." },
                    "kind": {
                        "type": "string",
                        "enum": ["info", "context_update", "cancel"],
                        "description": "`info` unless you say otherwise; `cancel` ends the step."
                    }
                }),
                &["target_step_id", "text"],
            ),
        ),
        part(
            Act::Narrate { events: Arc::clone(events) },
            spec(
                "narrate",
                "Says something about the run to whoever watches it.",
                json!({ "text": { "type": "string", "description": "One sentence." } }),
                &["text"],
            ),
        ),
        part(
            Act::Finalize { word: Arc::clone(word), stop: stop.clone() },
            spec(
                FINALIZE,
                "Your last word: after it you hear nothing more.",
                json!({ "summary": { "type": "string", "description": "What came of the workflow, in a few sentences." } }),
                &[],
            ),
        ),
    ]
}

struct CoordinatorTool {
    spec: Arc<ToolSpec>,
    act: Act,
}

enum Act {
    Forward { flow: Arc<LoadedWorkflow>, post: Arc<Post>, events: Arc<FlowEmitter> },
    Narrate { events: Arc<FlowEmitter> },
    Finalize { word: Arc<LastWord>, stop: Stop },
}

impl CoordinatorTool {
    async fn act(&self, args: &Args) -> Result<ToolOutcome, Refusal> {
        let reader = ArgReader::new(&self.spec, args);
        match &self.act {
            Act::Forward { flow, post, events } => {
                let text = capped(reader.filled_text("text")?, "text")?;
                let kind = match reader.optional_text("kind")?.unwrap_or("info") {
                    "info" => MessageType::Info,
                    "context_update" => MessageType::ContextUpdate,
                    "cancel" => MessageType::Cancel,
                    other => {
                        return Err(Refusal::arguments(format!(
                            "`kind` is `info`, `context_update` or `cancel`, not `{other}`."
                        )));
                    }
                };
                let to = address(flow, &Address::Coordinator, reader.filled_text("target_step_id")?.trim());
                let refusal = wrapper(flow, &to);
                let sent = post.send(FORWARDED, Address::Coordinator, to, kind, text).await;
                if matches!(sent, Sent::Dropped(_)) {
                    // What it wanted to say is not lost to whoever watches.
                    narrate(events, text);
                }
                refusal.map_or_else(|| Ok(answer(sent, flow, None)), Err)
            }
            Act::Narrate { events } => {
                narrate(events, capped(reader.filled_text("text")?, "text")?);
                Ok(ToolOutcome::ok("narrated"))
            }
            Act::Finalize { word, stop } => {
                let summary = capped(reader.optional_text("summary")?.unwrap_or_default(), "summary")?;
                word.say(summary.to_owned()).await?;
                stop.now(Failure::new(ErrorClass::Internal, "the coordinator has said its last word"));
                Ok(ToolOutcome::ok("finalized"))
            }
        }
    }
}

impl Tool for CoordinatorTool {
    fn spec(&self) -> &Arc<ToolSpec> {
        &self.spec
    }

    fn call(&self, _ctx: ToolCtx, args: Args) -> BoxFut<'_, ToolOutcome> {
        Box::pin(async move { self.act(&args).await.unwrap_or_else(ToolOutcome::from) })
    }
}

fn narrate(events: &FlowEmitter, text: &str) {
    narrated(events, FlowEventData::CoordinatorNarration(CoordinatorNarration { text: text.to_owned() }));
}

fn narrated(events: &FlowEmitter, data: FlowEventData) {
    events.emit_for(None, Some(COORDINATOR), data);
}

fn capped<'a>(text: &'a str, name: &str) -> Result<&'a str, Refusal> {
    match text.chars().count() > MAX_MESSAGE_CHARS {
        true => Err(Refusal::arguments(format!("`{name}` is longer than {MAX_MESSAGE_CHARS} characters."))),
        false => Ok(text),
    }
}

fn spec(name: &str, description: &str, properties: Value, required: &[&str]) -> ToolSpec {
    ToolSpec {
        name: name.to_owned(),
        description: description.to_owned(),
        parameters: json!({
            "type": "object",
            "properties": properties,
            "required": required,
            "additionalProperties": false
        }),
        // It speaks, and changes nothing.
        kind: ToolKind::Read,
    }
}

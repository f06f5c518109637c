//! `send_message`: says something to an agent that works in the background. It hears it before its next turn.

use std::sync::{Arc, PoisonError};

use serde_json::json;
use tenon_core::{Args, BoxFut, Tool, ToolCtx, ToolKind, ToolOutcome, ToolSpec};
use tenon_tools::{About, ArgReader, Notice, Refusal};

use crate::Background;
use crate::drain::{Added, Shown};

/// As much as a long prompt.
const MAX_MESSAGE_CHARS: usize = 65_536;

pub(crate) struct SendMessage {
    spec: Arc<ToolSpec>,
    background: Background,
}

impl SendMessage {
    pub(crate) const NAME: &'static str = "send_message";

    pub(crate) fn new(background: Background) -> SendMessage {
        let spec = ToolSpec {
            name: Self::NAME.to_owned(),
            description:
                "Says something to an agent that works in the background; it reads it before its next turn. \
                          Its answer comes when its work is done."
                    .to_owned(),
            parameters: json!({
                "type": "object",
                "properties": {
                    "task_id": { "type": "string", "description": "The agent's task, such as `bg_1a2b3c4d`." },
                    "message": { "type": "string", "description": "What it is told." }
                },
                "required": ["task_id", "message"],
                "additionalProperties": false
            }),
            kind: ToolKind::Read,
        };
        SendMessage { spec: Arc::new(spec), background }
    }

    fn send(&self, args: &Args) -> Result<ToolOutcome, Refusal> {
        let reader = ArgReader::new(&self.spec, args);
        let id = reader.filled_text("task_id")?.trim();
        let message = reader.filled_text("message")?;
        if message.chars().count() > MAX_MESSAGE_CHARS {
            return Err(Refusal::arguments(format!(
                "`message` is longer than {MAX_MESSAGE_CHARS} characters."
            )));
        }
        let news = self.background.agents.lock().unwrap_or_else(PoisonError::into_inner).get(id).cloned();
        let Some(news) = news else { return Err(Refusal::failed(self.nobody(id))) };
        let notice = Notice {
            task_id: None,
            about: About::News,
            told: format!("The agent that you work for says: {message}"),
            shown: message.to_owned(),
        };
        match news.add(notice, Shown::WhenTold) {
            Added::Yes | Added::Known => Ok(ToolOutcome::ok(format!("{id} reads it before its next turn."))),
            Added::TooLate => {
                Err(Refusal::failed(format!("The agent {id} has just finished; it did not hear this.")))
            }
        }
    }

    fn nobody(&self, id: &str) -> String {
        match self.background.tasks.list().into_iter().find(|info| info.task.task_id == id) {
            Some(info) => format!(
                "The background {} {id} cannot be spoken to: it is {}.",
                info.task.kind.name(),
                info.status.name()
            ),
            None => format!("There is no background task `{id}`."),
        }
    }
}

impl Tool for SendMessage {
    fn spec(&self) -> &Arc<ToolSpec> {
        &self.spec
    }

    fn call(&self, _ctx: ToolCtx, args: Args) -> BoxFut<'_, ToolOutcome> {
        Box::pin(async move { self.send(&args).unwrap_or_else(ToolOutcome::from) })
    }
}

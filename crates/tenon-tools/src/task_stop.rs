//! `task_stop`: ends background work that this run started. What ending means is in `tasks.rs`.

use std::sync::Arc;

use serde_json::json;
use tenon_core::{Args, BoxFut, LeftBehind, Tool, ToolCtx, ToolKind, ToolOutcome, ToolSpec};

use crate::args::{ArgReader, Refusal, outcome};
use crate::tasks::{StoppedBy, Tasks};

pub(crate) struct TaskStop {
    spec: Arc<ToolSpec>,
    tasks: Tasks,
}

impl TaskStop {
    pub fn new(tasks: Tasks) -> TaskStop {
        let spec = ToolSpec {
            name: "task_stop".to_owned(),
            description: "Stops a background task of this run: a command, a monitor or an agent.".to_owned(),
            parameters: json!({
                "type": "object",
                "properties": {
                    "task_id": { "type": "string", "description": "The task's id, such as `bg_1a2b3c4d`." }
                },
                "required": ["task_id"]
            }),
            // It undoes what was allowed before and touches nothing else, so nobody needs to be asked.
            kind: ToolKind::Read,
        };
        TaskStop { spec: Arc::new(spec), tasks }
    }

    fn stop(&self, args: &Args) -> Result<ToolOutcome, Refusal> {
        let id = ArgReader::new(&self.spec, args).filled_text("task_id")?.trim();
        let task = self.tasks.list().into_iter().find(|info| info.task.task_id == id);
        self.tasks
            .stop(id, StoppedBy::Model)
            .map_err(|error| Refusal::failed(sentence(&error.to_string())))?;
        let mut text = format!("The background task {id} was stopped.");
        if let Some(file) = task.and_then(|info| info.output_file) {
            text.push_str(&format!(" Its output until then is in {}", file.display()));
        }
        let shown = format!("Stopped {id}.");
        let left = LeftBehind { ended: vec![id.to_owned()], ..LeftBehind::default() };
        Ok(ToolOutcome { display: Some(shown), left, ..ToolOutcome::ok(text) })
    }
}

impl Tool for TaskStop {
    fn spec(&self) -> &Arc<ToolSpec> {
        &self.spec
    }

    fn call(&self, _ctx: ToolCtx, args: Args) -> BoxFut<'_, ToolOutcome> {
        Box::pin(async move { outcome(self.stop(&args)) })
    }
}

/// An error as the model reads it.
pub(crate) fn sentence(error: &str) -> String {
    let mut chars = error.chars();
    chars.next().map_or_else(String::new, |first| format!("{}{}.", first.to_uppercase(), chars.as_str()))
}

//! `todo_write`: the model's own list of tasks, replaced as a whole with every call.
//!
//! The list is kept beside the session, so that a resumed run finds it, or in memory alone. Hooks are asked
//! about new and finished tasks before the list is taken.

use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::{Map, Value, json};
use tenon_core::{
    Args, BoxFut, HookEvent, Secrets, TodoItem, TodoStatus, Tool, ToolCtx, ToolDisplay, ToolKind,
    ToolOutcome, ToolSpec,
};

use crate::args::{ArgReader, Refusal, outcome};
use crate::atomic_write;
use crate::output::private_folder;
use crate::{HookCtx, HookInput, HookSays, Hooks};

const NAME: &str = "todo_write";
/// A longer list is a plan for somebody else.
const MAX_TODOS: usize = 100;
const MAX_CONTENT: usize = 1_000;
const MAX_ID: usize = 500;
/// Everything that fits in a list, and then some.
const MAX_FILE: u64 = 1024 * 1024;

/// Where the list is kept and who is told of it.
#[derive(Clone)]
pub struct TodoOptions {
    /// `None` keeps it in memory.
    pub file: Option<PathBuf>,
    /// What must not get into the file.
    pub secrets: Secrets,
    pub hooks: Hooks,
    /// What hooks are told the run's mode is.
    pub permission_mode: &'static str,
}

pub(crate) struct TodoWrite {
    spec: Arc<ToolSpec>,
    options: TodoOptions,
    list: Mutex<Vec<TodoItem>>,
}

impl TodoWrite {
    /// Begins with the list of a session that is resumed.
    pub fn new(options: TodoOptions) -> TodoWrite {
        let spec = ToolSpec {
            name: NAME.to_owned(),
            description:
                "Keeps your list of tasks for work of several steps. Give the whole list each time; \
                          it replaces the one before. Have one task `in_progress`, and mark a task \
                          `completed` as soon as it is done."
                    .to_owned(),
            parameters: json!({
                "type": "object",
                "properties": {
                    "todos": {
                        "type": "array",
                        "maxItems": MAX_TODOS,
                        "description": "The whole list.",
                        "items": {
                            "type": "object",
                            "properties": {
                                "id": { "type": "string", "maxLength": MAX_ID, "description": "A name that stays the same." },
                                "content": { "type": "string", "description": "What is to be done." },
                                "status": { "type": "string", "enum": ["pending", "in_progress", "completed"] },
                                "blockedBy": {
                                    "type": "array",
                                    "items": { "type": "string" },
                                    "description": "Ids of tasks that must be completed first."
                                }
                            },
                            "required": ["content", "status", "id"]
                        }
                    }
                },
                "required": ["todos"]
            }),
            kind: ToolKind::Read,
        };
        let list = options.file.as_ref().and_then(read_list).unwrap_or_default();
        TodoWrite { spec: Arc::new(spec), options, list: Mutex::new(list) }
    }

    async fn run(&self, ctx: &ToolCtx, args: &Args) -> Result<ToolOutcome, Refusal> {
        let todos = read_todos(&self.spec, args)?;
        let before = self.list().clone();
        self.ask_hooks(ctx, &before, &todos).await?;
        let kept = self.keep(&todos).await;
        *self.list() = todos.clone();
        let mut text = summary(&todos);
        if let Err(error) = kept {
            text.push_str(&format!("\nThe list could not be kept for later runs: {error}."));
        }
        Ok(ToolOutcome {
            display: Some(counts(&todos)),
            drawing: Some(Box::new(ToolDisplay::TodoList(todos))),
            ..ToolOutcome::ok(text)
        })
    }

    async fn ask_hooks(&self, ctx: &ToolCtx, before: &[TodoItem], now: &[TodoItem]) -> Result<(), Refusal> {
        let hooks = &self.options.hooks;
        if !hooks.listen_to(HookEvent::TodoCreated) && !hooks.listen_to(HookEvent::TodoCompleted) {
            return Ok(());
        }
        let hook_ctx = HookCtx {
            cancel: ctx.cancel.clone(),
            client: Arc::clone(&ctx.client),
            permission_mode: self.options.permission_mode,
            trace: ctx.trace.clone(),
            tell: Arc::clone(&ctx.tell),
        };
        for todo in now {
            let earlier = before.iter().find(|earlier| earlier.id == todo.id);
            let was_done = earlier.is_some_and(|earlier| earlier.status == TodoStatus::Completed);
            let created = earlier.is_none().then(|| HookInput::TodoCreated(todo.clone()));
            let completed = (todo.status == TodoStatus::Completed && !was_done)
                .then(|| HookInput::TodoCompleted(todo.clone()));
            for input in created.into_iter().chain(completed) {
                let event = input.event().name();
                if let HookSays::Deny { reason } = hooks.fire(&input, &hook_ctx).await.says {
                    return Err(Refusal::failed(format!(
                        "The list was not changed: a `{event}` hook refused `{}`: {reason}",
                        todo.id
                    )));
                }
            }
        }
        Ok(())
    }

    async fn keep(&self, todos: &[TodoItem]) -> std::io::Result<()> {
        let Some(file) = self.options.file.clone() else { return Ok(()) };
        let mut value = to_json(todos);
        self.options.secrets.hide_in(&mut value);
        let text = format!("{value}\n");
        tokio::task::spawn_blocking(move || {
            if let Some(folder) = file.parent() {
                private_folder(folder)?;
            }
            atomic_write::replace(&file, text.as_bytes())
        })
        .await
        .map_err(std::io::Error::other)?
    }

    fn list(&self) -> MutexGuard<'_, Vec<TodoItem>> {
        self.list.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Tool for TodoWrite {
    fn spec(&self) -> &Arc<ToolSpec> {
        &self.spec
    }

    fn call(&self, ctx: ToolCtx, args: Args) -> BoxFut<'_, ToolOutcome> {
        Box::pin(async move { outcome(self.run(&ctx, &args).await) })
    }
}

fn read_todos(spec: &ToolSpec, args: &Args) -> Result<Vec<TodoItem>, Refusal> {
    let wrong = |message: String| Err(Refusal::arguments(message));
    let Some(items) = args.get("todos").and_then(Value::as_array) else {
        return wrong(format!("`{}` needs `todos`, a list.", spec.name));
    };
    if items.len() > MAX_TODOS {
        return wrong(format!("`todos` has {} tasks, and {MAX_TODOS} are the most.", items.len()));
    }
    let mut todos = Vec::with_capacity(items.len());
    let mut blockers = Vec::new();
    for (index, item) in items.iter().enumerate() {
        let Some(item) = item.as_object() else {
            return wrong(format!("`todos[{index}]` must be an object."));
        };
        let (todo, blocked_by) = read_todo(spec, item)
            .map_err(|refusal| Refusal::arguments(format!("`todos[{index}]`: {}", refusal.message)))?;
        blockers.extend(blocked_by.into_iter().map(|id| (todo.id.clone(), id)));
        todos.push(todo);
    }
    let mut ids = HashSet::new();
    if let Some(twice) = todos.iter().find(|todo| !ids.insert(todo.id.as_str())) {
        return wrong(format!("Two tasks have the id `{}`.", twice.id));
    }
    match blockers.iter().find(|(id, blocker)| id == blocker || !ids.contains(blocker.as_str())) {
        Some((id, blocker)) if id == blocker => wrong(format!("`{id}` is blocked by itself.")),
        Some((id, blocker)) => wrong(format!("`{id}` is blocked by `{blocker}`, which is not on the list.")),
        None => Ok(todos),
    }
}

fn read_todo(spec: &ToolSpec, item: &Map<String, Value>) -> Result<(TodoItem, Vec<String>), Refusal> {
    let reader = ArgReader::new(spec, item);
    let content = reader.filled_text("content")?.trim();
    let id = reader.filled_text("id")?;
    if content.chars().count() > MAX_CONTENT {
        return Err(Refusal::arguments(format!("`content` is longer than {MAX_CONTENT} characters.")));
    }
    if id.chars().count() > MAX_ID {
        return Err(Refusal::arguments(format!("`id` is longer than {MAX_ID} characters.")));
    }
    let status = match reader.text("status")? {
        "pending" => TodoStatus::Pending,
        "in_progress" => TodoStatus::InProgress,
        "completed" => TodoStatus::Completed,
        _ => return Err(Refusal::arguments("`status` is one of `pending`, `in_progress`, `completed`.")),
    };
    let blocked_by = reader.texts("blockedBy")?.into_iter().map(str::to_owned).collect();
    Ok((TodoItem { id: id.to_owned(), content: content.to_owned(), status }, blocked_by))
}

fn counts(todos: &[TodoItem]) -> String {
    let count = |status| todos.iter().filter(|todo| todo.status == status).count();
    let tasks = if todos.len() == 1 { "task" } else { "tasks" };
    format!(
        "{} {tasks}: {} completed, {} in progress, {} pending",
        todos.len(),
        count(TodoStatus::Completed),
        count(TodoStatus::InProgress),
        count(TodoStatus::Pending)
    )
}

/// The list as the model reads it back: short, and enough to see what comes next.
fn summary(todos: &[TodoItem]) -> String {
    let mut text = format!("The list has {}.", counts(todos));
    for todo in todos {
        let mark = match todo.status {
            TodoStatus::Pending => ' ',
            TodoStatus::InProgress => '>',
            TodoStatus::Completed => 'x',
        };
        text.push_str(&format!("\n[{mark}] {}: {}", todo.id, todo.content));
    }
    text
}

fn to_json(todos: &[TodoItem]) -> Value {
    let items = todos
        .iter()
        .map(|todo| json!({ "id": todo.id, "content": todo.content, "status": todo.status.name() }));
    json!({ "todos": items.collect::<Vec<_>>() })
}

/// A list that cannot be read is as good as none: the model writes a new one.
fn read_list(file: &PathBuf) -> Option<Vec<TodoItem>> {
    if std::fs::metadata(file).ok()?.len() > MAX_FILE {
        return None;
    }
    let value: Value = serde_json::from_slice(&std::fs::read(file).ok()?).ok()?;
    let spec = ToolSpec {
        name: NAME.to_owned(),
        description: String::new(),
        parameters: Value::Null,
        kind: ToolKind::Read,
    };
    read_todos(&spec, value.as_object()?).ok()
}

//! What clients that draw more than text are shown of a call's result. The model reads none of this, and
//! nothing of it is stored: it quotes whole files.

use crate::{TaskStatus, Usage};

#[derive(Clone, Debug, PartialEq)]
pub enum ToolDisplay {
    FileDiff(FileDiff),
    TodoList(Vec<TodoItem>),
    /// A plan that waits for approval, or was approved.
    PlanSummary {
        plan: String,
    },
    TaskExecution(TaskExecution),
}

/// A change of one file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileDiff {
    /// As the model named it, relative to the working folder where it lies inside.
    pub file_name: String,
    /// Unified, with three lines of context.
    pub diff: String,
    /// The whole file before and after, unless it is too large to show.
    pub original: Option<String>,
    pub modified: Option<String>,
    pub lines_added: u64,
    pub lines_removed: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TodoItem {
    pub id: String,
    pub content: String,
    pub status: TodoStatus,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TodoStatus {
    Pending,
    InProgress,
    Completed,
}

impl TodoStatus {
    pub fn name(self) -> &'static str {
        match self {
            TodoStatus::Pending => "pending",
            TodoStatus::InProgress => "in_progress",
            TodoStatus::Completed => "completed",
        }
    }
}

/// What a sub-agent was asked and how far it came.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskExecution {
    pub subagent_type: String,
    pub description: String,
    pub status: TaskStatus,
    /// Its last words, or why it failed.
    pub result: Option<String>,
    pub tool_calls: u64,
    pub usage: Usage,
    pub duration_ms: u64,
}

//! What a finished call leaves besides its result: what its conversation must still know when it goes on in another process.
//!
//! It is kept with the result, by whoever keeps that, and given back to the tools ([`crate::Tool::recall`]) and to the agent.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::{Secrets, TaskKind, TaskStart};

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct LeftBehind {
    /// Files that it read or wrote, as they were then.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<SeenFile>,
    /// Work in the background that it began, and of whose end it says nothing.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub begun: Vec<BegunTask>,
    /// Ids of tasks of whose end it tells.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ended: Vec<String>,
    /// Names of tools that are offered from then on.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub offered: Vec<String>,
}

/// What a file held when a tool looked at it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SeenFile {
    pub path: PathBuf,
    /// In hexadecimal digits.
    pub sha256: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BegunTask {
    pub task_id: String,
    pub kind: TaskKind,
    /// One line for people.
    pub description: String,
}

impl LeftBehind {
    pub fn is_empty(&self) -> bool {
        *self == LeftBehind::default()
    }

    /// The same as it may be stored. A path with a key in it is no longer that path, so its file counts as unread.
    pub fn without(mut self, secrets: &Secrets) -> LeftBehind {
        let hidden = |text: &str| secrets.hide(text).into_owned();
        let hidden_path = |path: &Path| match path.to_str() {
            Some(text) => PathBuf::from(hidden(text)),
            // No JSON can hold it.
            None => PathBuf::new(),
        };
        self.files.iter_mut().for_each(|file| file.path = hidden_path(&file.path));
        self.files.retain(|file| !file.path.as_os_str().is_empty());
        self.begun.iter_mut().for_each(|task| task.description = hidden(&task.description));
        self
    }
}

impl From<TaskStart> for BegunTask {
    fn from(task: TaskStart) -> BegunTask {
        BegunTask { task_id: task.task_id, kind: task.kind, description: task.description }
    }
}

impl BegunTask {
    /// What the model is told when the process that looked after it is gone.
    pub fn lost(&self) -> String {
        let BegunTask { task_id, kind, description } = self;
        let known = format!(
            "Background {} {task_id} ({description}) was under way when the run was stopped; how it ended is not known, \
             and no further notice of it will come.",
            kind.name()
        );
        match kind {
            TaskKind::Shell | TaskKind::Monitor => {
                format!("{known} It may or may not have taken effect: look before you start it again.")
            }
            TaskKind::Agent => {
                format!("{known} Its answer is lost, and what it did may or may not have taken effect.")
            }
        }
    }
}

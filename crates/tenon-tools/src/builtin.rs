//! The tools that come with tenon, in the order the model is offered them.

use std::sync::Arc;

use tenon_core::Tool;

use crate::monitor::Monitor;
use crate::shell::RunShellCommand;
use crate::task_stop::TaskStop;
use crate::{ShellOptions, Tasks, Workspace, edit, glob, grep_search, list_directory, read_file, write_file};

/// All of them. Which ones a run gets is [`crate::Selection`]'s to say.
/// `tasks` is where background work of the tools goes.
pub fn builtin_tools(workspace: Arc<Workspace>, shell: ShellOptions, tasks: Tasks) -> Vec<Arc<dyn Tool>> {
    let shell = Arc::new(shell.without_secrets());
    vec![
        Arc::new(list_directory::tool(workspace.clone())),
        Arc::new(read_file::tool(workspace.clone())),
        Arc::new(grep_search::tool(workspace.clone())),
        Arc::new(glob::tool(workspace.clone())),
        Arc::new(edit::tool(workspace.clone())),
        Arc::new(write_file::tool(workspace.clone())),
        Arc::new(RunShellCommand::new(workspace.clone(), shell.clone(), tasks.clone())),
        Arc::new(Monitor::new(workspace, shell, tasks.clone())),
        Arc::new(TaskStop::new(tasks)),
    ]
}

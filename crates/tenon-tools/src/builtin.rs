//! The tools that come with tenon, in the order the model is offered them.

use std::sync::Arc;

use tenon_core::{ApprovalMode, Client, Tool};

use crate::ask_user_question::AskUserQuestion;
use crate::exit_plan_mode::ExitPlanMode;
use crate::monitor::Monitor;
use crate::shell::RunShellCommand;
use crate::skill::SkillTool;
use crate::task_stop::TaskStop;
use crate::todo_write::TodoWrite;
use crate::web_fetch::WebFetch;
use crate::{OutputStore, Permissions, Skill, TodoOptions, WebFetchOptions};
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

/// What the tools beyond files and commands need.
pub struct MoreTools<'a> {
    pub web: WebFetchOptions,
    pub todo: TodoOptions,
    /// Without any, there is no tool for them.
    pub skills: Vec<Skill>,
    pub outputs: OutputStore,
    pub client: &'a dyn Client,
    pub permissions: Permissions,
}

/// Tools that depend on the run: who drives it, its mode, its session.
pub fn more_tools(options: MoreTools<'_>) -> Vec<Arc<dyn Tool>> {
    let MoreTools { web, todo, skills, outputs, client, permissions } = options;
    let mut tools: Vec<Arc<dyn Tool>> =
        vec![Arc::new(TodoWrite::new(todo)), Arc::new(WebFetch::new(web, outputs))];
    if !skills.is_empty() {
        tools.push(Arc::new(SkillTool::new(skills)));
    }
    // A question that nobody can answer would only cost a turn.
    if client.can_be_asked() {
        tools.push(Arc::new(AskUserQuestion::new()));
    }
    if permissions.mode() == ApprovalMode::Plan {
        tools.push(Arc::new(ExitPlanMode::new(permissions)));
    }
    tools
}

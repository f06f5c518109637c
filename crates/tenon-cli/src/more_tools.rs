//! Tools beyond files and commands: what they need of this run, and when they are found by a search.

use std::path::PathBuf;
use std::sync::Arc;

use tenon_agent::Agent;
use tenon_config::{Loaded, Surroundings};
use tenon_core::{Client, Secrets, Tool};
use tenon_tools::{
    Hooks, MoreTools, OutputStore, Permissions, Skill, TodoOptions, WebFetchOptions, more_tools,
};

use crate::args::RunArgs;
use crate::run_hooks;

/// What these tools know about the run.
pub struct ToolsOfRun<'a> {
    pub permissions: &'a Permissions,
    pub client: &'a dyn Client,
    pub hooks: &'a Hooks,
    pub secrets: &'a Secrets,
    pub outputs: &'a OutputStore,
    /// Outputs are kept beyond the run, so the list of tasks is too.
    pub is_kept: bool,
}

/// None with `--bare`.
pub fn tools(
    args: &RunArgs,
    loaded: &Loaded,
    here: &Surroundings,
    run: &ToolsOfRun<'_>,
) -> Vec<Arc<dyn Tool>> {
    if args.bare {
        return Vec::new();
    }
    let mut web = WebFetchOptions::new(run_hooks::net(args, here));
    web.private_hosts = run.permissions.allowed_domains();
    let skills = if args.safe_mode { Vec::new() } else { skills(loaded) };
    more_tools(MoreTools {
        web,
        todo: TodoOptions {
            file: todo_file(run),
            secrets: run.secrets.clone(),
            hooks: run.hooks.clone(),
            permission_mode: run.permissions.mode().name(),
        },
        skills,
        outputs: run.outputs.clone(),
        client: run.client,
        permissions: run.permissions.clone(),
    })
}

/// The last thing that happens to a run's tools: when there are many, some are found by a search.
pub fn defer(agent: &mut Agent, args: &RunArgs, loaded: &Loaded) {
    if args.bare || agent.permissions.removes("tool_search") {
        return;
    }
    agent.registry.defer_above(loaded.settings.tools.search_above());
    let terminal = agent.contract.as_ref().map(|contract| contract.tool);
    let names = agent.registry.names().into_iter();
    let last: Vec<String> =
        agent.info.tools.iter().filter(|name| Some(name.as_str()) == terminal).cloned().collect();
    agent.info.tools = names.chain(last).collect();
}

fn skills(loaded: &Loaded) -> Vec<Skill> {
    let skills = loaded.skills.iter().cloned();
    skills
        .map(|skill| Skill {
            name: skill.name,
            description: skill.description,
            instructions: skill.instructions,
            folder: skill.folder,
        })
        .collect()
}

/// With the outputs of the session, and removed with them.
fn todo_file(run: &ToolsOfRun<'_>) -> Option<PathBuf> {
    run.outputs.folder().filter(|_| run.is_kept).map(|folder| folder.join("todos.json"))
}

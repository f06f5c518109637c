//! Which tools the model is offered, and which one a name means. Whether a call may run is in `permission.rs`.

use std::sync::Arc;

use tenon_core::{Tool, ToolSpec};

use crate::nearest::nearest;
use crate::rule::canonical;
use crate::{Permissions, Rule, RuleError};

/// The built-in tools, the only ones a list of tools to offer takes away. A contract's own tool and tools
/// of servers are not among them: listing `read_file` must not drop the way to answer.
const CORE: &[&str] = &[
    "read_file",
    "write_file",
    "edit",
    "list_directory",
    "glob",
    "grep_search",
    "run_shell_command",
    "web_fetch",
    "web_search",
    "todo_write",
    "monitor",
];
/// All that `--bare` leaves of them.
const BARE: &[&str] = &["read_file", "edit", "run_shell_command"];
/// Names that models call out of habit.
const CALLABLE_ALIASES: &[&str] = &["search_file_content", "replace", "task"];

/// The tools of a run, in the order they are offered.
#[derive(Clone, Default)]
pub struct Registry {
    tools: Vec<Arc<dyn Tool>>,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is already a tool called `{0}`")]
pub struct TakenName(pub String);

impl Registry {
    pub fn new() -> Registry {
        Registry::default()
    }

    pub fn add(&mut self, tool: Arc<dyn Tool>) -> Result<(), TakenName> {
        let name = &tool.spec().name;
        if self.tools.iter().any(|other| other.spec().name == *name) {
            return Err(TakenName(name.clone()));
        }
        self.tools.push(tool);
        Ok(())
    }

    /// The tools that `keep` wants.
    pub fn with(&self, keep: impl Fn(&ToolSpec) -> bool) -> Registry {
        Registry { tools: self.tools.iter().filter(|tool| keep(tool.spec())).cloned().collect() }
    }

    /// The tool of this name, or the one an older name means.
    pub fn get(&self, name: &str) -> Option<&Arc<dyn Tool>> {
        let find = |wanted: &str| self.tools.iter().find(|tool| tool.spec().name == wanted);
        find(name).or_else(|| CALLABLE_ALIASES.contains(&name).then(|| find(canonical(name))).flatten())
    }

    /// A tool whose name looks like this one.
    pub fn nearest(&self, name: &str) -> Option<&str> {
        nearest(name, self.names())
    }

    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.tools.iter().map(|tool| tool.spec().name.as_str())
    }

    pub fn specs(&self) -> impl Iterator<Item = &Arc<ToolSpec>> {
        self.tools.iter().map(|tool| tool.spec())
    }

    pub fn is_empty(&self) -> bool {
        self.tools.is_empty()
    }
}

/// Which tools a run starts with.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selection {
    /// `--core-tools`: the only built-ins to offer. `None` is all of them.
    pub core: Option<Vec<String>>,
    /// `--bare`.
    pub bare: bool,
}

impl Selection {
    /// Reads the items of `--core-tools`: names, aliases included, and no specifiers, which would look like
    /// a restriction and be none.
    pub fn core_tools<'a>(items: impl IntoIterator<Item = &'a str>) -> Result<Vec<String>, RuleError> {
        items
            .into_iter()
            .map(|item| match Rule::parse(item)? {
                rule if rule.is_whole() => Ok(rule.tool().to_owned()),
                rule => Err(RuleError::Narrowed(rule.to_string())),
            })
            .collect()
    }

    /// The registry of a run: what is selected, less what a deny rule takes away altogether.
    pub fn registry(
        &self,
        tools: impl IntoIterator<Item = Arc<dyn Tool>>,
        permissions: &Permissions,
    ) -> Registry {
        let mut registry = Registry::new();
        for tool in tools {
            let name = &tool.spec().name;
            if self.keeps(name) && !permissions.removes(name) {
                // The first tool of a name keeps it: a later one cannot take its place.
                let _ = registry.add(tool);
            }
        }
        registry
    }

    /// Whether a tool is selected, whatever the rules say.
    pub fn keeps(&self, tool: &str) -> bool {
        if !CORE.contains(&tool) {
            return true;
        }
        let listed = self.core.as_ref().is_none_or(|core| core.iter().any(|name| name == tool));
        listed && (!self.bare || BARE.contains(&tool))
    }
}

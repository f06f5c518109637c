//! Which tools the model is offered, and which one a name means. Whether a call may run is in `permission.rs`.

use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard, Weak};

use tenon_core::{Args, LeftBehind, Tool, ToolSpec};

use crate::nearest::nearest;
use crate::rule::canonical;
use crate::tool_search::{self, ToolSearch};
use crate::{Permissions, Rule, RuleError};

/// The built-in tools, the only ones a list of tools to offer takes away. A contract's own tool and tools of servers
/// are not among them: listing `read_file` must not drop the way to answer. Nor are `exit_plan_mode`, which a mode
/// brings along, and `tool_search`, which many tools do.
pub(crate) const CORE: &[&str] = &[
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
    "task_stop",
    "cron_create",
    "cron_list",
    "cron_delete",
    "agent",
    "send_message",
    "skill",
    "ask_user_question",
];
/// What is offered on demand when there are many tools, besides the tools of servers.
const RARE: &[&str] =
    &["web_fetch", "monitor", "task_stop", "send_message", "cron_create", "cron_list", "cron_delete"];
/// All that `--bare` leaves of them.
const BARE: &[&str] = &["read_file", "edit", "run_shell_command"];
/// Names that models call out of habit.
const CALLABLE_ALIASES: &[&str] = &["search_file_content", "replace", "task"];

/// The tools of a run, in the order they are offered. Clones share one list: a server that comes up late
/// adds its tools to a run under way, and the next request offers them.
#[derive(Clone, Default)]
pub struct Registry {
    list: Arc<RwLock<List>>,
}

#[derive(Default)]
struct List {
    entries: Vec<Entry>,
    /// With more tools than this, those that most runs do not need are offered on demand.
    defer_above: Option<usize>,
    aliases: Vec<Alias>,
}

/// Another name that a tool can be called by, with arguments of other names. It is not offered.
#[derive(Clone, Copy, Debug)]
pub struct Alias {
    pub name: &'static str,
    pub tool: &'static str,
    /// The tool's own arguments for those of the alias.
    pub arguments: fn(Args) -> Args,
}

#[derive(Clone)]
struct Entry {
    tool: Arc<dyn Tool>,
    offer: Offered,
}

/// A list of tools as one of its tools may hold it, without keeping itself alive.
#[derive(Clone)]
pub struct WeakRegistry(Weak<RwLock<List>>);

impl WeakRegistry {
    /// `None` once the run is over.
    pub fn upgrade(&self) -> Option<Registry> {
        self.0.upgrade().map(|list| Registry { list })
    }
}

/// Whether the model is told of a tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Offered {
    /// In every request.
    Always,
    /// Only once it was searched for. It can be called all the same.
    OnDemand,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is already a tool called `{0}`")]
pub struct TakenName(pub String);

impl Registry {
    pub fn new() -> Registry {
        Registry::default()
    }

    pub fn add(&self, tool: Arc<dyn Tool>) -> Result<(), TakenName> {
        let mut list = self.write();
        let name = &tool.spec().name;
        if list.entries.iter().any(|other| other.tool.spec().name == *name) {
            return Err(TakenName(name.clone()));
        }
        let is_late = list.defer_above.is_some_and(|most| list.entries.len() >= most) && is_deferrable(name);
        let offer = if is_late { Offered::OnDemand } else { Offered::Always };
        list.entries.push(Entry { tool, offer });
        self.add_search(&mut list);
        Ok(())
    }

    /// With more tools than `most`, now or later, tools of servers and rarely used ones are offered on demand, and
    /// `tool_search` finds them. What is offered already when a late tool comes stays offered.
    pub fn defer_above(&self, most: usize) {
        let mut list = self.write();
        list.defer_above = Some(most);
        if list.entries.len() > most {
            list.entries
                .iter_mut()
                .filter(|entry| is_deferrable(&entry.tool.spec().name))
                .for_each(|entry| entry.offer = Offered::OnDemand);
        }
        self.add_search(&mut list);
    }

    fn add_search(&self, list: &mut List) {
        let is_needed = list.entries.iter().any(|entry| entry.offer == Offered::OnDemand);
        let is_there = list.entries.iter().any(|entry| entry.tool.spec().name == tool_search::NAME);
        if is_needed && !is_there && list.defer_above.is_some() {
            let tool = Arc::new(ToolSearch::new(self.downgrade()));
            list.entries.push(Entry { tool, offer: Offered::Always });
        }
    }

    /// Puts a tool in the place of the one that has its name. Whether there was one.
    pub fn replace(&self, tool: Arc<dyn Tool>) -> bool {
        let mut list = self.write();
        let entry = list.entries.iter_mut().find(|entry| entry.tool.spec().name == tool.spec().name);
        entry.map(|entry| entry.tool = tool).is_some()
    }

    /// Lets tools be called by other names too. A tool's own name stays its own.
    pub fn answer_to(&self, aliases: &[Alias]) {
        self.write().aliases.extend_from_slice(aliases);
    }

    /// The arguments of a call, as the tool it means takes them.
    pub fn own_arguments(&self, name: &str, args: Args) -> Args {
        match self.read().alias(name) {
            Some(alias) => (alias.arguments)(args),
            None => args,
        }
    }

    pub fn downgrade(&self) -> WeakRegistry {
        WeakRegistry(Arc::downgrade(&self.list))
    }

    /// Takes away the tools that `unwanted` names.
    pub fn remove(&self, unwanted: impl Fn(&ToolSpec) -> bool) {
        self.write().entries.retain(|entry| !unwanted(entry.tool.spec()));
    }

    /// Offers a tool always or on demand. Whether there is such a tool. One that is offered from now on moves to
    /// the end: the beginning of a request stays as it was.
    pub fn offer(&self, name: &str, offer: Offered) -> bool {
        let entries = &mut self.write().entries;
        let Some(at) = entries.iter().position(|entry| entry.tool.spec().name == name) else { return false };
        match (entries[at].offer, offer) {
            (Offered::OnDemand, Offered::Always) => {
                let entry = entries.remove(at);
                entries.push(Entry { offer, ..entry });
            }
            _ => entries[at].offer = offer,
        }
        true
    }

    /// A list of its own, with the tools that `keep` wants.
    pub fn with(&self, keep: impl Fn(&ToolSpec) -> bool) -> Registry {
        let list = self.read();
        let entries = list.entries.iter().filter(|entry| keep(entry.tool.spec())).cloned().collect();
        let copy = List { entries, defer_above: list.defer_above, aliases: list.aliases.clone() };
        let registry = Registry { list: Arc::new(RwLock::new(copy)) };
        // The search looks at the list it belongs to.
        registry.replace_search();
        registry
    }

    fn replace_search(&self) {
        let search = ToolSearch::new(self.downgrade());
        if let Some(entry) =
            self.write().entries.iter_mut().find(|entry| entry.tool.spec().name == tool_search::NAME)
        {
            entry.tool = Arc::new(search);
        }
    }

    /// The tool of this name, or the one an older name means.
    pub fn get(&self, name: &str) -> Option<Arc<dyn Tool>> {
        let list = self.read();
        let find = |wanted: &str| {
            list.entries.iter().find(|entry| entry.tool.spec().name == wanted).map(|entry| entry.tool.clone())
        };
        find(name)
            .or_else(|| list.alias(name).and_then(|alias| find(alias.tool)))
            .or_else(|| CALLABLE_ALIASES.contains(&name).then(|| find(canonical(name))).flatten())
    }

    /// The conversation knows of this from before: its tools know the files, and what it had found is offered.
    pub fn recall(&self, left: &LeftBehind) {
        if !left.files.is_empty() {
            self.read().entries.iter().for_each(|entry| entry.tool.recall(&left.files));
        }
        left.offered.iter().for_each(|name| {
            self.offer(name, Offered::Always);
        });
    }

    /// A tool whose name looks like this one.
    pub fn nearest(&self, name: &str) -> Option<String> {
        let names = self.names();
        nearest(name, names.iter().map(String::as_str)).map(str::to_owned)
    }

    /// Every tool that can be called.
    pub fn names(&self) -> Vec<String> {
        self.read().entries.iter().map(|entry| entry.tool.spec().name.clone()).collect()
    }

    /// What the model is offered now.
    pub fn specs(&self) -> Vec<Arc<ToolSpec>> {
        self.specs_of(Offered::Always)
    }

    pub fn specs_of(&self, offer: Offered) -> Vec<Arc<ToolSpec>> {
        self.read()
            .entries
            .iter()
            .filter(|entry| entry.offer == offer)
            .map(|entry| entry.tool.spec().clone())
            .collect()
    }

    pub fn is_empty(&self) -> bool {
        self.read().entries.is_empty()
    }

    fn read(&self) -> RwLockReadGuard<'_, List> {
        self.list.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, List> {
        self.list.write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl List {
    /// What a name means that no tool has as its own.
    fn alias(&self, name: &str) -> Option<&Alias> {
        let is_own = self.entries.iter().any(|entry| entry.tool.spec().name == name);
        self.aliases.iter().find(|alias| alias.name == name && !is_own)
    }
}

/// Tools of servers, and those that most runs do not need.
fn is_deferrable(tool: &str) -> bool {
    tool.starts_with("mcp__") || RARE.contains(&tool)
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
        let registry = Registry::new();
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

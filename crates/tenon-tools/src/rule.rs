//! What a permission rule says: `Tool` or `Tool(specifier)`. What follows from it is in `permission.rs`.

use crate::nearest::nearest;
use std::fmt;

use crate::path_rule;
use crate::registry::CORE;
use crate::shell_rule::CommandPattern;

/// Names that other systems and older versions use, each with the tool it means.
const ALIASES: &[(&str, &str)] = &[
    ("Bash", "run_shell_command"),
    ("bash", "run_shell_command"),
    ("Shell", "run_shell_command"),
    ("ShellTool", "run_shell_command"),
    ("Read", "read_file"),
    ("read", "read_file"),
    ("ReadFile", "read_file"),
    ("ReadFileTool", "read_file"),
    ("Edit", "edit"),
    ("EditTool", "edit"),
    ("replace", "edit"),
    ("Write", "write_file"),
    ("write", "write_file"),
    ("WriteFile", "write_file"),
    ("WriteFileTool", "write_file"),
    ("Grep", "grep_search"),
    ("grep", "grep_search"),
    ("GrepTool", "grep_search"),
    ("SearchFiles", "grep_search"),
    ("search_file_content", "grep_search"),
    ("Glob", "glob"),
    ("GlobTool", "glob"),
    ("FindFiles", "glob"),
    ("LS", "list_directory"),
    ("ListFiles", "list_directory"),
    ("ReadFolder", "list_directory"),
    ("TodoWrite", "todo_write"),
    ("TodoList", "todo_write"),
    ("WebFetch", "web_fetch"),
    ("WebSearch", "web_search"),
    ("Agent", "agent"),
    ("Task", "agent"),
    ("task", "agent"),
    ("Skill", "skill"),
    ("Monitor", "monitor"),
    ("ReadMcpResource", "read_mcp_resource"),
    ("ExitPlanMode", "exit_plan_mode"),
    ("AskUserQuestion", "ask_user_question"),
    ("ToolSearch", "tool_search"),
    ("TaskStop", "task_stop"),
    ("KillShell", "task_stop"),
    ("KillBash", "task_stop"),
    ("CronCreate", "cron_create"),
    ("CronList", "cron_list"),
    ("CronDelete", "cron_delete"),
    ("SendMessage", "send_message"),
    ("ReadMcpResourceTool", "read_mcp_resource"),
    ("StructuredOutput", "structured_output"),
];

/// Tools that other systems have and tenon has not. Clients forbid and allow them by habit; what is not there needs
/// neither, so a rule about them is no mistake.
const ELSEWHERE: &[&str] = &[
    "BashOutput",
    "EnterPlanMode",
    "EnterWorktree",
    "ExitWorktree",
    "LSP",
    "ListMcpResources",
    "ListMcpResourcesTool",
    "MultiEdit",
    "NotebookEdit",
    "NotebookRead",
    "SlashCommand",
    "TaskCreate",
    "TaskGet",
    "TaskList",
    "TaskOutput",
    "TaskUpdate",
    "save_memory",
];

/// Tools of contracts, which have no alias.
const TERMINAL_TOOLS: &[&str] = &["structured_output", "submit_result"];
/// Tools that only steps of workflows have.
const STEP_TOOLS: &[&str] = &["shared_memory_read", "shared_memory_write"];

pub(crate) const WEB_FETCH: &str = "web_fetch";
/// The argument that names what a tool is to use.
pub(crate) const NAMED_BY: &[(&str, &str)] = &[("agent", "subagent_type"), ("skill", "skill")];

/// A rule about the first covers the others too.
const READ_FAMILY: &[&str] = &["read_file", "grep_search", "glob", "list_directory"];
const EDIT_FAMILY: &[&str] = &["edit", "write_file"];
const SHELL_FAMILY: &[&str] = &["run_shell_command", "monitor"];

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    text: String,
    tool: String,
    specifier: Specifier,
}

/// What the parentheses narrow a rule to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Specifier {
    /// No parentheses: every call.
    Whole,
    /// Files, in gitignore syntax.
    Path(String),
    /// Shell commands.
    Command(CommandPattern),
    /// The host of an address, and for deny and ask rules all below it; `*.` before it for those below it.
    Domain(String),
    /// A call that names this one (an agent, a skill), with these arguments.
    Named { name: Option<String>, arguments: Vec<(String, String)> },
    /// Something no call can be compared with.
    Other,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RuleError {
    #[error("a permission rule is empty")]
    Empty,
    #[error("the permission rule `{0}` has parentheses that do not match")]
    Parentheses(String),
    #[error("the permission rule `{0}` does not start with a tool's name")]
    Name(String),
    #[error("the permission rule `{rule}` has a path that cannot be used: {why}")]
    Path { rule: String, why: String },
    #[error("the permission rule `{rule}` has a command that cannot be used: {why}")]
    Command { rule: String, why: String },
    #[error("the permission rule `{0}` needs a host, as in `WebFetch(domain:example.com)`")]
    Domain(String),
    #[error("`{0}` narrows a tool down, and a list of tools to offer takes names only")]
    Narrowed(String),
}

impl Rule {
    pub fn parse(text: &str) -> Result<Rule, RuleError> {
        let text = text.trim();
        if text.is_empty() {
            return Err(RuleError::Empty);
        }
        let (name, inner) = match text.split_once('(') {
            None if text.contains(')') => return Err(RuleError::Parentheses(text.to_owned())),
            None => (text, None),
            Some((name, rest)) => {
                let inner = rest.strip_suffix(')').filter(|_| is_balanced(text));
                (name.trim_end(), Some(inner.ok_or_else(|| RuleError::Parentheses(text.to_owned()))?))
            }
        };
        if !is_name(name) {
            return Err(RuleError::Name(text.to_owned()));
        }
        let tool = canonical(name).to_owned();
        let specifier = match inner.map(str::trim) {
            None => Specifier::Whole,
            Some("") => return Err(RuleError::Parentheses(text.to_owned())),
            Some("*") => Specifier::Whole,
            Some(inner) if is_in(&tool, READ_FAMILY) || is_in(&tool, EDIT_FAMILY) => {
                path_rule::check(inner).map_err(|why| RuleError::Path { rule: text.to_owned(), why })?;
                Specifier::Path(inner.to_owned())
            }
            Some(inner) if is_in(&tool, SHELL_FAMILY) => Specifier::Command(
                CommandPattern::parse(inner)
                    .map_err(|why| RuleError::Command { rule: text.to_owned(), why })?,
            ),
            Some(inner) if tool == WEB_FETCH => {
                let host = inner.strip_prefix("domain:").map(str::trim).filter(|host| is_host(host));
                Specifier::Domain(
                    host.ok_or_else(|| RuleError::Domain(text.to_owned()))?.to_ascii_lowercase(),
                )
            }
            Some(inner) if NAMED_BY.iter().any(|(named, _)| *named == tool) => named(inner),
            Some(_) => Specifier::Other,
        };
        Ok(Rule { text: text.to_owned(), tool, specifier })
    }

    /// The tool's own name, aliases resolved.
    pub fn tool(&self) -> &str {
        &self.tool
    }

    /// Whether the rule names a tool that may exist, here or elsewhere. Tools of servers are known only when they are
    /// there.
    pub fn names_a_tool(&self) -> bool {
        self.tool.starts_with("mcp__")
            || ELSEWHERE.contains(&self.tool.as_str())
            || known_tool_names().any(|name| name == self.tool)
    }

    /// The tool that was probably meant by a name that no tool has.
    pub fn probably_meant(&self) -> Option<&'static str> {
        nearest(&self.tool, known_tool_names())
    }

    /// Whether both speak about the same calls, under whatever name of the tool.
    pub(crate) fn is_same(&self, other: &Rule) -> bool {
        self.tool == other.tool && self.specifier == other.specifier
    }

    /// Whether the rule is about every call of its tool.
    pub fn is_whole(&self) -> bool {
        self.specifier == Specifier::Whole
    }

    pub(crate) fn specifier(&self) -> &Specifier {
        &self.specifier
    }

    pub(crate) fn is_about_reading(&self) -> bool {
        is_in(&self.tool, READ_FAMILY)
    }

    pub(crate) fn is_about_editing(&self) -> bool {
        is_in(&self.tool, EDIT_FAMILY)
    }

    /// Whether the rule speaks about this tool at all.
    pub(crate) fn covers(&self, tool: &str) -> bool {
        if self.tool == tool {
            return true;
        }
        if let Some(server) = self.tool.strip_prefix("mcp__") {
            return covers_mcp(server, tool);
        }
        [READ_FAMILY, EDIT_FAMILY, SHELL_FAMILY]
            .iter()
            .any(|family| speaks_for(family, &self.tool) && is_in(tool, family))
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// Splits a list at commas that are not inside parentheses. Empty items are dropped.
pub fn split_rules(list: &str) -> Vec<&str> {
    let mut depth = 0_usize;
    list.split(|c| {
        match c {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            _ => {}
        }
        c == ',' && depth == 0
    })
    .map(str::trim)
    .filter(|rule| !rule.is_empty())
    .collect()
}

/// The tool that `name` means.
pub(crate) fn canonical(name: &str) -> &str {
    ALIASES.iter().find(|(alias, _)| *alias == name).map_or(name, |(_, tool)| tool)
}

/// The other names of a tool.
pub(crate) fn aliases_of(tool: &str) -> impl Iterator<Item = &'static str> {
    ALIASES.iter().filter(move |(_, named)| *named == tool).map(|(alias, _)| *alias)
}

/// Every name that means a tool of ours: the tools' own, and the ones other systems use.
pub fn known_tool_names() -> impl Iterator<Item = &'static str> {
    let aliased = ALIASES.iter().flat_map(|(alias, tool)| [*tool, *alias]);
    let others = TERMINAL_TOOLS.iter().chain(STEP_TOOLS).copied();
    aliased.chain(CORE.iter().copied()).chain(others)
}

/// Whether who is not to have the tool `denied` is not to have `tool` either: it is the same one, another with the same power
/// (all that run commands, all that change files), or one of the server that is denied. A rule that denies a tool
/// takes the same along.
pub fn denied_with(denied: &str, tool: &str) -> bool {
    let denied = canonical(denied);
    denied == tool
        || denied.strip_prefix("mcp__").is_some_and(|server| covers_mcp(server, tool))
        || [EDIT_FAMILY, SHELL_FAMILY].iter().any(|family| speaks_for(family, denied) && is_in(tool, family))
}

/// Our name of a tool, whatever another system calls it.
pub fn own_tool_name(name: &str) -> &str {
    canonical(name)
}

/// Whether a tool takes a command line.
pub(crate) fn runs_commands(tool: &str) -> bool {
    is_in(tool, SHELL_FAMILY)
}

/// `name`, `name,key:value` or `key:value`.
fn named(inner: &str) -> Specifier {
    let mut name = None;
    let mut arguments = Vec::new();
    for part in inner.split(',').map(str::trim).filter(|part| !part.is_empty()) {
        match part.split_once(':') {
            Some((key, value)) => arguments.push((key.trim().to_owned(), value.trim().to_owned())),
            None => name = Some(part.to_owned()),
        }
    }
    Specifier::Named { name, arguments }
}

fn is_host(text: &str) -> bool {
    let host = text.strip_prefix("*.").unwrap_or(text);
    !host.is_empty() && host.chars().all(|c| c.is_alphanumeric() || matches!(c, '.' | '-' | ':' | '_'))
}

/// `mcp__server` and `mcp__server__*` cover every tool of the server.
fn covers_mcp(rule: &str, tool: &str) -> bool {
    let Some(tool) = tool.strip_prefix("mcp__") else { return false };
    match rule.strip_suffix("__*") {
        Some(server) => tool.strip_prefix(server).is_some_and(|rest| rest.starts_with("__")),
        None if !rule.contains("__") => tool.strip_prefix(rule).is_some_and(|rest| rest.starts_with("__")),
        None => false,
    }
}

/// The first of a family stands for all of it.
fn speaks_for(family: &[&str], tool: &str) -> bool {
    family.first() == Some(&tool)
}

fn is_in(tool: &str, family: &[&str]) -> bool {
    family.contains(&tool)
}

/// A star is understood only where it stands for all tools of a server: elsewhere it would be a rule
/// that looks effective and is not.
fn is_name(name: &str) -> bool {
    let stem = match name.strip_suffix("__*") {
        Some(stem) if name.starts_with("mcp__") => stem,
        _ => name,
    };
    !stem.is_empty() && stem.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.'))
}

fn is_balanced(text: &str) -> bool {
    let mut depth = 0_usize;
    for c in text.chars() {
        match c {
            '(' => depth += 1,
            ')' if depth == 0 => return false,
            ')' => depth -= 1,
            _ => {}
        }
    }
    depth == 0
}

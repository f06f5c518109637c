//! The kinds of agents that can be asked to help: the built-in ones, and those from files.
//!
//! A type only ever takes away: tools, a mode, turns, time. Which types a run has is put together by the
//! binary; how one is started is in `subagent.rs`.

use std::time::Duration;

use tenon_core::{ApprovalMode, ToolKind, ToolSpec};
use tenon_tools::denied_with;

use crate::NamedModel;

/// The type of a call that names none.
pub(crate) const GENERAL: &str = "general-purpose";
/// Tools with which an agent has others work: one that only looks does that itself.
const DELEGATING: &[&str] = &["agent", "send_message", "task_stop"];

#[derive(Clone)]
pub struct AgentType {
    pub name: String,
    /// When to ask it, for the model that may.
    pub description: String,
    /// Its system prompt; `None` is the usual one.
    pub prompt: Option<String>,
    pub tools: ToolChoices,
    /// Tools it does not get, whatever `tools` says.
    pub without: Vec<String>,
    /// `None` is its caller's.
    pub model: Option<NamedModel>,
    /// Never freer than its caller's.
    pub mode: Option<ApprovalMode>,
    pub max_turns: Option<u32>,
    pub max_time: Option<Duration>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ToolChoices {
    /// All that its caller has.
    All,
    /// Those that change nothing.
    ReadOnly,
    Only(Vec<String>),
}

impl AgentType {
    /// The types that every run has, unless one of the same name takes their place.
    pub fn built_in() -> Vec<AgentType> {
        let of = |name: &str, description: &str, tools| AgentType {
            name: name.to_owned(),
            description: description.to_owned(),
            prompt: None,
            tools,
            without: Vec::new(),
            model: None,
            mode: None,
            max_turns: None,
            max_time: None,
        };
        vec![
            of(
                GENERAL,
                "works on a task of several steps with all tools, and reports what came of it",
                ToolChoices::All,
            ),
            of(
                "explore",
                "looks for things in files and reports what it found; it changes nothing",
                ToolChoices::ReadOnly,
            ),
        ]
    }

    pub(crate) fn wants(&self, spec: &ToolSpec) -> bool {
        let name = &spec.name;
        let chosen = match &self.tools {
            ToolChoices::All => true,
            ToolChoices::ReadOnly => spec.kind == ToolKind::Read && !DELEGATING.contains(&name.as_str()),
            ToolChoices::Only(names) => names.contains(name),
        };
        chosen && !self.without.iter().any(|denied| denied_with(denied, name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tool_that_is_taken_away_takes_along_what_can_do_the_same() {
        let table: [(&str, &[&str]); 3] = [
            ("run_shell_command", &["edit", "write_file", "read_file"]),
            ("edit", &["run_shell_command", "monitor", "read_file"]),
            ("write_file", &["run_shell_command", "monitor", "edit", "read_file"]),
        ];
        for (denied, left) in table {
            let kind = AgentType { without: vec![denied.to_owned()], ..AgentType::built_in().remove(0) };
            let wants = |name: &str| {
                let (name, description) = (name.to_owned(), String::new());
                kind.wants(&ToolSpec { name, description, parameters: true.into(), kind: ToolKind::Other })
            };
            let tools = ["run_shell_command", "monitor", "edit", "write_file", "read_file"];
            let found: Vec<&str> = tools.into_iter().filter(|tool| wants(tool)).collect();
            assert_eq!(found, left, "{denied}");
        }
    }
}

//! The commands that are always there. What each does is in the file of its group.

use super::ListedCommand;

#[derive(Debug)]
pub(super) struct BuiltIn {
    pub(super) name: &'static str,
    pub(super) description: &'static str,
    /// What may follow its name.
    pub(super) arguments: &'static str,
    /// The first words that may follow.
    pub(super) subcommands: &'static [&'static str],
}

/// By name.
pub(super) const BUILT_IN: [BuiltIn; 9] = [
    BuiltIn {
        name: "chat",
        description: "List, save, take up or delete named copies of the conversation.",
        arguments: "list | save TAG | resume TAG | delete TAG",
        subcommands: &["list", "save", "resume", "delete"],
    },
    BuiltIn {
        name: "clear",
        description: "Forget the conversation and start over.",
        arguments: "",
        subcommands: &[],
    },
    BuiltIn {
        name: "compress",
        description: "Replace the conversation by a summary, all but its last turn.",
        arguments: "[WHAT MATTERS]",
        subcommands: &[],
    },
    BuiltIn {
        name: "help",
        description: "List the commands, or say what one does.",
        arguments: "[COMMAND]",
        subcommands: &[],
    },
    BuiltIn {
        name: "mcp",
        description: "List the MCP servers and whether they are there.",
        arguments: "",
        subcommands: &[],
    },
    BuiltIn {
        name: "memory",
        description: "Show the standing instructions, add a line to your own, or read the files again.",
        arguments: "[show | add TEXT | refresh]",
        subcommands: &["show", "add", "refresh"],
    },
    BuiltIn {
        name: "model",
        description: "Say which model is asked, or ask another one from here on.",
        arguments: "[NAME]",
        subcommands: &[],
    },
    BuiltIn {
        name: "stats",
        description: "Say what the session has used so far.",
        arguments: "",
        subcommands: &[],
    },
    BuiltIn {
        name: "tools",
        description: "List the tools that the model is offered, or show one in full.",
        arguments: "[NAME]",
        subcommands: &[],
    },
];

pub(super) fn named(name: &str) -> Option<&'static BuiltIn> {
    // What clients of another system type for it.
    let name = if name == "compact" { "compress" } else { name };
    BUILT_IN.iter().find(|command| command.name == name)
}

impl BuiltIn {
    pub(super) fn listed(&self) -> ListedCommand {
        ListedCommand {
            name: self.name.to_owned(),
            description: self.description.to_owned(),
            argument_hint: self.arguments.to_owned(),
        }
    }

    pub(super) fn usage(&self) -> String {
        format!("`{}`", format!("/{} {}", self.name, self.arguments).trim_end())
    }
}

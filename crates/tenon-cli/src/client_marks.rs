//! How a client's SDK marks the program it starts: variables that are about this process and not about what it starts
//! in turn. A tenon inside a command would otherwise take itself for driven by that SDK.

use tenon_config::{Settings, Surroundings};

use crate::args::RunArgs;
use crate::model;

/// Says who drives, for an SDK that cannot name a dialect.
pub const ENTRYPOINT: &str = "CLAUDE_CODE_ENTRYPOINT";

const MARKS: [&str; 7] = [
    ENTRYPOINT,
    "CLAUDE_AGENT_SDK_VERSION",
    "CLAUDE_AGENT_SDK_CLIENT_APP",
    "CLAUDE_AGENT_SDK_DERIVED_CLIENT_APP",
    "CLAUDE_CODE_SDK_READS_SESSION_STATE",
    "CLAUDE_CODE_ENABLE_SDK_FILE_CHECKPOINTING",
    "CLAUDE_CODE_SDK_READS_STARTUP_MARKS",
];

/// Variables that commands, hooks and MCP servers are not given: keys, and marks.
pub fn kept_from_children(args: &RunArgs, settings: &Settings, here: &Surroundings) -> Vec<String> {
    let mut names = model::secret_names(args, settings, here);
    let passed = &settings.tools.shell.pass_env;
    let marks = MARKS.iter().filter(|mark| !passed.iter().any(|pass| pass == *mark));
    names.extend(marks.map(|mark| (*mark).to_owned()));
    names
}

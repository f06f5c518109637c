//! How a client's SDK marks the program it starts: variables that are about this process and not about what it starts
//! in turn. A tenon inside a command would otherwise take itself for driven by that SDK.

use tenon_config::{Settings, Surroundings};
use tenon_session::TellsState;

use crate::args::RunArgs;
use crate::model;

/// Says who drives, for an SDK that cannot name a dialect.
pub const ENTRYPOINT: &str = "CLAUDE_CODE_ENTRYPOINT";

/// Says that the client wants to know when a turn runs.
const READS_SESSION_STATE: &str = "CLAUDE_CODE_SDK_READS_SESSION_STATE";

const MARKS: [&str; 7] = [
    ENTRYPOINT,
    "CLAUDE_AGENT_SDK_VERSION",
    "CLAUDE_AGENT_SDK_CLIENT_APP",
    "CLAUDE_AGENT_SDK_DERIVED_CLIENT_APP",
    READS_SESSION_STATE,
    "CLAUDE_CODE_ENABLE_SDK_FILE_CHECKPOINTING",
    "CLAUDE_CODE_SDK_READS_STARTUP_MARKS",
];

pub fn reads_session_state() -> TellsState {
    match std::env::var(READS_SESSION_STATE).as_deref() {
        Ok("1" | "true") => TellsState::Yes,
        _ => TellsState::No,
    }
}

/// Variables that commands, hooks and MCP servers are not given: keys, and marks.
pub fn kept_from_children(args: &RunArgs, settings: &Settings, here: &Surroundings) -> Vec<String> {
    let mut names = model::secret_names(args, settings, here);
    let passed = &settings.tools.shell.pass_env;
    let marks = MARKS.iter().filter(|mark| !passed.iter().any(|pass| pass == *mark));
    names.extend(marks.map(|mark| (*mark).to_owned()));
    names
}

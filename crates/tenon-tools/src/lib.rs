//! What an agent may do: the tools, who may call them, and how they run.
//!
//! Start reading at `permission.rs` (may this call run?), then any tool, for example `read_file.rs`, and
//! `shell.rs` for commands. `workspace.rs` decides which files a tool can reach at all; `registry.rs`
//! decides which tools the model is offered.
//!
//! What this crate may not know: models, providers, the turn loop, any client's dialect, argv, the
//! environment or the home directory. Whatever it needs of those is handed in as a value.

mod address;
mod args;
mod ask_user_question;
mod atomic_write;
mod background;
mod bash_builtins;
mod blocking;
mod both_pipes;
mod builtin;
mod command_book;
mod command_parse;
mod command_walk;
mod command_word;
mod cron;
mod decode;
mod diff;
mod edit;
mod exit_plan_mode;
mod exit_status;
mod file_glob;
mod file_index;
mod file_tool;
mod file_words;
mod fuzzy;
mod glob;
mod grep_search;
mod hook_command;
mod hook_http;
mod hook_input;
mod hook_reply;
mod hooks;
mod html_text;
mod line_view;
mod list_directory;
mod mcp_client;
mod media;
mod mention;
mod monitor;
mod nearest;
mod net;
mod output;
mod path_rule;
mod paths;
mod permission;
mod program_options;
mod promote;
mod read_file;
mod registry;
mod rule;
mod running;
mod sandbox;
mod schedule;
mod secret_file;
mod shell;
mod shell_output;
mod shell_report;
mod shell_rule;
mod shell_run;
mod skill;
mod sys;
mod task_stop;
mod tasks;
mod todo_write;
mod tool_search;
mod walk;
mod web_fetch;
mod workspace;
mod wrapper_words;
mod wrappers;
mod write_file;

pub use args::{ArgReader, Refusal};
pub use builtin::{MoreTools, builtin_tools, more_tools};
pub use command_book::{CommandBook, process_place, process_started};
pub use cron::{Cron, CronError};
pub use file_index::FileIndex;
pub use fuzzy::Typed;
pub use hook_input::{HookAgent, HookInput, HookedCall, SessionSource, Stopping};
pub use hook_reply::{HookDecision, HookSays};
pub use hooks::{HookCtx, HookError, HookOptions, Hooks};
pub use mcp_client::{
    McpNotice, McpOptions, McpReport, McpRequestError, McpServers, McpTools, mcp_server_word,
};
pub use media::from_bytes as media_from_bytes;
pub use mention::Mentioned;
pub use net::NetOptions;
pub use output::OutputStore;
pub use paths::PathError;
pub use permission::{AllowedBy, Forbidden, PermissionOptions, Permissions, Verdict};
pub use registry::{Alias, Offered, Registry, Selection, TakenName, WeakRegistry};
pub use rule::{Rule, RuleError, denied_with, known_tool_names, own_tool_name, split_rules};
pub use running::kill_running_commands;
pub use sandbox::{KernelSupport, Sandbox, SandboxError, SandboxOptions};
pub use schedule::{Clock, Schedules, UtcClock};
pub use shell::ShellOptions;
pub use shell_run::ShellTerminal;
pub use skill::Skill;
pub use tasks::{
    About, NewTask, NotStarted, Notice, PromoteError, Settled, StopError, StoppedBy, TaskEvent, TaskHandle,
    TaskInfo, Tasks,
};
pub use todo_write::TodoOptions;
pub use web_fetch::{Lookup, WebFetchOptions};
pub use workspace::{Hidden, Workspace, WorkspaceOptions};

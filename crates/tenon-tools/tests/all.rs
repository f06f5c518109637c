//! Behaviour of the tools at the crate's boundary, on temporary folders.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "helpers of tests, which clippy cannot tell from other functions"
)]

#[path = "all/background.rs"]
mod background;
#[path = "all/confinement.rs"]
mod confinement;
#[path = "all/cron.rs"]
mod cron;
#[path = "all/edit.rs"]
mod edit;
#[path = "all/hostile_commands.rs"]
mod hostile_commands;
#[path = "all/mcp.rs"]
mod mcp;
#[path = "all/more_tools.rs"]
mod more_tools;
#[path = "all/narrow_commands.rs"]
mod narrow_commands;
#[path = "all/permission.rs"]
mod permission;
#[path = "all/promotion.rs"]
mod promotion;
#[path = "all/read_file.rs"]
mod read_file;
#[path = "all/registry.rs"]
mod registry;
#[path = "all/rule.rs"]
mod rule;
#[path = "all/sandbox.rs"]
mod sandbox;
#[path = "all/search.rs"]
mod search;
#[path = "all/shell.rs"]
mod shell;
#[path = "all/shell_rules.rs"]
mod shell_rules;
#[path = "all/shell_rules_bash.rs"]
mod shell_rules_bash;
#[path = "all/support.rs"]
mod support;
#[path = "all/tasks.rs"]
mod tasks;
#[path = "all/tool_search.rs"]
mod tool_search;
#[path = "all/web_fetch.rs"]
mod web_fetch;
#[path = "all/write_file.rs"]
mod write_file;

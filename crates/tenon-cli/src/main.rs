//! The `tenon` binary: parses arguments, builds the plan, wires the parts, picks the exit code.
//!
//! This is the only crate that reads argv, the environment and the home directory, that prints, and that
//! exits. Start reading here, then `run.rs` for a run, `usage.rs` for what flags may be combined, and
//! `exit_code.rs`.

mod args;
mod cli_settings;
mod client_marks;
mod command_kit;
mod dialect;
mod doctor;
mod doctor_report;
mod effort;
mod exit_code;
mod flow_approve;
mod flow_args;
mod flow_command;
mod flow_drawing;
mod flow_folder;
mod flow_help;
mod flow_hint;
mod flow_hooks;
mod flow_inputs;
mod flow_journal;
mod flow_keep;
mod flow_output;
mod flow_prepare;
mod flow_progress;
mod flow_questions;
mod flow_resume;
mod flow_run;
mod flow_runs;
mod flow_talk;
mod flow_usage;
mod goal;
mod goal_approval;
mod goal_args;
mod goal_file;
mod input;
mod last_words;
#[cfg(feature = "local")]
mod local;
#[cfg(not(feature = "local"))]
#[path = "no_local.rs"]
mod local;
#[cfg(feature = "local")]
mod local_command;
mod log;
mod manual;
mod mcp;
mod mcp_list;
mod mcp_serve;
mod model;
mod money;
mod more_tools;
mod plan;
mod refused_start;
mod result_file;
mod run;
mod run_hooks;
mod sandbox;
mod schema_command;
mod session;
mod session_mirror;
mod sessions_command;
mod signals;
mod stderr;
mod stdin;
mod stdin_lines;
mod stdout;
mod stream_changes;
mod stream_commands;
mod stream_control;
mod stream_initialize;
mod stream_session;
mod stream_sessions;
mod stream_usage;
mod subagents;
mod surroundings;
mod sys;
mod telemetry;
mod trust_command;
mod usage;
mod who_is_asked;
mod work_folder;

use std::process::ExitCode;

use clap::Parser;

fn main() -> ExitCode {
    sys::protect_process();
    log::start();
    let cli = match args::Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return exit_code::exit(usage::not_understood(&error)),
    };
    let code = match cli.command {
        None => run::main(cli.run),
        Some(args::Command::Schema { command }) => schema_command::main(command),
        Some(args::Command::Flow { command }) => flow_command::main(command),
        Some(args::Command::Goal(args)) => goal::main(*args),
        Some(args::Command::Sessions { cwd, command }) => sessions_command::main(cwd, command),
        #[cfg(feature = "local")]
        Some(args::Command::Local { command }) => local_command::main(command),
        Some(args::Command::Trust { show, remove }) => trust_command::main(show, remove),
        Some(args::Command::Doctor { report }) => doctor::main(report.as_deref()),
        Some(args::Command::Mcp { command: args::McpCommand::List { json, run } }) => {
            mcp_list::main(&run, json)
        }
        Some(args::Command::Mcp { command: args::McpCommand::Serve { run } }) => mcp_serve::main(*run),
        Some(args::Command::Completions { shell }) => manual::completions(shell),
        Some(args::Command::Man) => manual::man(),
    };
    exit_code::exit(code)
}

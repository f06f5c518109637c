//! The built binary against a scripted model server: whole outputs, exit codes, files.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking, in its helpers too"
)]

#[path = "all/about_itself.rs"]
mod about_itself;
#[path = "all/background.rs"]
mod background;
#[path = "all/bad_input.rs"]
mod bad_input;
#[path = "all/bad_servers.rs"]
mod bad_servers;
#[path = "all/chaos.rs"]
mod chaos;
#[path = "all/commands.rs"]
mod commands;
#[path = "all/contract.rs"]
mod contract;
#[path = "all/contract_schemas.rs"]
mod contract_schemas;
#[path = "all/contract_siblings.rs"]
mod contract_siblings;
#[path = "all/control.rs"]
mod control;
#[path = "all/diagnostics.rs"]
mod diagnostics;
#[path = "all/dialects.rs"]
mod dialects;
#[path = "all/docs.rs"]
mod docs;
#[path = "all/docs_golden.rs"]
mod docs_golden;
#[path = "all/docs_tables.rs"]
mod docs_tables;
#[path = "all/drain.rs"]
mod drain;
#[path = "all/driving.rs"]
mod driving;
#[path = "all/effort.rs"]
mod effort;
#[path = "all/engine.rs"]
mod engine;
#[path = "all/fallbacks.rs"]
mod fallbacks;
#[path = "all/flag_effects.rs"]
mod flag_effects;
#[path = "all/flow_again.rs"]
mod flow_again;
#[path = "all/flow_approve.rs"]
mod flow_approve;
#[path = "all/flow_approve_document.rs"]
mod flow_approve_document;
#[path = "all/flow_at_once.rs"]
mod flow_at_once;
#[path = "all/flow_attempts.rs"]
mod flow_attempts;
#[path = "all/flow_counted.rs"]
mod flow_counted;
#[path = "all/flow_events.rs"]
mod flow_events;
#[path = "all/flow_examples.rs"]
mod flow_examples;
#[path = "all/flow_exit_codes.rs"]
mod flow_exit_codes;
#[path = "all/flow_going_on.rs"]
mod flow_going_on;
#[path = "all/flow_inputs.rs"]
mod flow_inputs;
#[path = "all/flow_inside.rs"]
mod flow_inside;
#[path = "all/flow_isolation.rs"]
mod flow_isolation;
#[path = "all/flow_knows.rs"]
mod flow_knows;
#[path = "all/flow_limits.rs"]
mod flow_limits;
#[path = "all/flow_manners.rs"]
mod flow_manners;
#[path = "all/flow_messages.rs"]
mod flow_messages;
#[path = "all/flow_models.rs"]
mod flow_models;
#[path = "all/flow_orphans.rs"]
mod flow_orphans;
#[path = "all/flow_page.rs"]
mod flow_page;
#[path = "all/flow_preview.rs"]
mod flow_preview;
#[path = "all/flow_progress.rs"]
mod flow_progress;
#[path = "all/flow_prompts.rs"]
mod flow_prompts;
#[path = "all/flow_resume.rs"]
mod flow_resume;
#[path = "all/flow_run.rs"]
mod flow_run;
#[path = "all/flow_runs.rs"]
mod flow_runs;
#[path = "all/flow_show.rs"]
mod flow_show;
#[path = "all/flow_steps.rs"]
mod flow_steps;
#[path = "all/flow_stuck.rs"]
mod flow_stuck;
#[path = "all/flow_submit_result.rs"]
mod flow_submit_result;
#[path = "all/flow_survive.rs"]
mod flow_survive;
#[path = "all/flow_terminal.rs"]
mod flow_terminal;
#[path = "all/flow_tools.rs"]
mod flow_tools;
#[path = "all/flow_validate.rs"]
mod flow_validate;
#[path = "all/goal.rs"]
mod goal;
#[path = "all/goal_resume.rs"]
mod goal_resume;
#[path = "all/goal_terminal.rs"]
mod goal_terminal;
#[path = "all/guards.rs"]
mod guards;
#[path = "all/hints.rs"]
mod hints;
#[path = "all/hook_answers.rs"]
mod hook_answers;
#[path = "all/hooks.rs"]
mod hooks;
#[path = "all/layout.rs"]
mod layout;
#[path = "all/left_turns.rs"]
mod left_turns;
#[path = "all/local.rs"]
mod local;
#[path = "all/long_conversations.rs"]
mod long_conversations;
#[path = "all/many_turns.rs"]
mod many_turns;
#[path = "all/markers.rs"]
mod markers;
#[path = "all/mcp.rs"]
mod mcp;
#[path = "all/mcp_in_client.rs"]
mod mcp_in_client;
#[path = "all/mcp_serve.rs"]
mod mcp_serve;
#[path = "all/mentions.rs"]
mod mentions;
#[path = "all/money.rs"]
mod money;
#[path = "all/more_tools.rs"]
mod more_tools;
#[path = "all/output.rs"]
mod output;
#[path = "all/output_failures.rs"]
mod output_failures;
#[path = "all/partials.rs"]
mod partials;
#[path = "all/permission_updates.rs"]
mod permission_updates;
#[path = "all/permissions.rs"]
mod permissions;
#[path = "all/pipes.rs"]
mod pipes;
#[path = "all/providers.rs"]
mod providers;
#[path = "all/published_lines.rs"]
mod published_lines;
#[path = "all/replay.rs"]
mod replay;
#[path = "all/request_options.rs"]
mod request_options;
#[path = "all/result_file.rs"]
mod result_file;
#[path = "all/rough_clients.rs"]
mod rough_clients;
#[path = "all/sandbox.rs"]
mod sandbox;
#[path = "all/schema_mode.rs"]
mod schema_mode;
#[path = "all/sdk_flags.rs"]
mod sdk_flags;
#[path = "all/session_answers.rs"]
mod session_answers;
#[path = "all/session_crashes.rs"]
mod session_crashes;
#[path = "all/session_order.rs"]
mod session_order;
#[path = "all/session_switch.rs"]
mod session_switch;
#[path = "all/sessions.rs"]
mod sessions;
#[path = "all/settings.rs"]
mod settings;
#[path = "all/signals.rs"]
mod signals;
#[path = "all/stdin.rs"]
mod stdin;
#[path = "all/stream_sessions.rs"]
mod stream_sessions;
#[path = "all/subagents.rs"]
mod subagents;
#[path = "all/telemetry.rs"]
mod telemetry;
#[path = "all/tool_requests.rs"]
mod tool_requests;
#[path = "all/tools.rs"]
mod tools;
#[path = "all/traces.rs"]
mod traces;
#[path = "all/turn_names.rs"]
mod turn_names;
#[path = "all/usage.rs"]
mod usage;
#[path = "all/which_model.rs"]
mod which_model;
#[path = "all/wires.rs"]
mod wires;

use tenon_testkit::{Tenon, Wire};

/// The binary under test, in a folder and a home of its own.
fn tenon() -> Tenon {
    tenon_testkit::watch_lines(published_lines::check, published_lines::check_read);
    Tenon::new(env!("CARGO_BIN_EXE_tenon"))
}

/// Two attempts at a request, and no wait worth mentioning.
const IMPATIENT: &str = r#"{"retry":{"attempts":2,"baseMs":1}}"#;

/// The tools that a run is offered unless something takes them away, in their order.
const TOOLS: &[&str] = &[
    "list_directory",
    "read_file",
    "grep_search",
    "glob",
    "edit",
    "write_file",
    "run_shell_command",
    "monitor",
    "task_stop",
    "todo_write",
    "web_fetch",
    "cron_create",
    "cron_list",
    "cron_delete",
    "agent",
    "send_message",
];

/// The wire of the tests of the contract, of the output and of partial messages. They hold on every wire;
/// `TENON_TEST_WIRE` chooses one.
fn wire() -> Wire {
    Wire::from_env()
}

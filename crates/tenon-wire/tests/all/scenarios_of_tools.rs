//! Runs with golden files that are about tools: what is drawn of their results, who is asked, how far they are, and
//! what goes on in the background.

use serde_json::json;
use tenon_core::{
    EventKind, FileDiff, HookEnd, HookEvent, HookReport, HookStart, Origin, PermissionAsk, TaskEnd,
    TaskExecution, TaskKind, TaskStart, TaskStatus, TodoItem, TodoStatus, ToolDisplay, ToolErrorKind,
    ToolProgress,
};

use crate::script::{Script, denial, success, usage};

/// Every kind of drawing.
pub fn displays() -> Script {
    let todo =
        |id: &str, content: &str, status| TodoItem { id: id.to_owned(), content: content.to_owned(), status };
    Script::started()
        .turn()
        .calls(&[
            ("call_1", "edit", &[r#"{"file_path":"src/main.py","old_string":"Hi","new_string":"Hello"}"#]),
            ("call_2", "todo_write", &[r#"{"todos":[]}"#]),
            ("call_3", "exit_plan_mode", &[r##"{"plan":"# Plan"}"##]),
            ("call_4", "agent", &[r#"{"description":"look"}"#]),
        ])
        .turn_finished(usage(900, 70))
        .tool_drawn(
            "call_1",
            "edit",
            "src/main.py was changed",
            ToolDisplay::FileDiff(FileDiff {
                file_name: "src/main.py".to_owned(),
                diff: "--- a/src/main.py\n+++ b/src/main.py\n@@ -1 +1 @@\n-print('Hi')\n+print('Hello')\n"
                    .to_owned(),
                original: Some("print('Hi')\n".to_owned()),
                modified: Some("print('Hello')\n".to_owned()),
                lines_added: 1,
                lines_removed: 1,
            }),
        )
        .tool_drawn(
            "call_2",
            "todo_write",
            "3 items",
            ToolDisplay::TodoList(vec![
                todo("1", "read", TodoStatus::Completed),
                todo("2", "change", TodoStatus::InProgress),
                todo("3", "test", TodoStatus::Pending),
            ]),
        )
        .tool_drawn(
            "call_3",
            "exit_plan_mode",
            "the plan was approved",
            ToolDisplay::PlanSummary { plan: "# Plan\n1. Change the greeting.".to_owned() },
        )
        .tool_drawn(
            "call_4",
            "agent",
            "It is in src/main.py.",
            ToolDisplay::TaskExecution(TaskExecution {
                subagent_type: "explore".to_owned(),
                description: "look for the greeting".to_owned(),
                status: TaskStatus::Completed,
                result: Some("It is in src/main.py.".to_owned()),
                tool_calls: 2,
                usage: usage(300, 20),
                duration_ms: 40,
            }),
        )
        .turn()
        .text(&["Done."])
        .turn_finished(usage(950, 2))
        .finished(success("Done."))
}

/// Three calls are asked about; one is refused.
pub fn permission() -> Script {
    let ask = |call_id: &str, tool: &str, input: serde_json::Value| {
        EventKind::PermissionAsked(Box::new(PermissionAsk {
            call_id: call_id.to_owned(),
            tool: tool.to_owned(),
            input: input.as_object().cloned().unwrap_or_default(),
            reason: format!("`{tool}` needs approval"),
            agent_id: None,
        }))
    };
    let mut outcome = success("I may not do that.");
    outcome.denials = vec![denial("call_1")];
    Script::started()
        .turn()
        .calls(&[
            ("call_1", "run_shell_command", &[r#"{"command":"rm -r build"}"#]),
            ("call_2", "write_file", &[r#"{"file_path":"a.txt","content":"a"}"#]),
            ("call_3", "mcp__tickets__close", &[r#"{"id":7}"#]),
        ])
        .turn_finished(usage(700, 30))
        .event(ask("call_1", "run_shell_command", json!({"command": "rm -r build"})))
        .event(ask("call_2", "write_file", json!({"file_path": "a.txt", "content": "a"})))
        .event(ask("call_3", "mcp__tickets__close", json!({"id": 7})))
        .tool_finished("call_1", "run_shell_command", "the client said no", Some(ToolErrorKind::Denied))
        .tool_started("call_2", "write_file")
        .tool_finished("call_2", "write_file", "a.txt was written", None)
        .tool_finished("call_3", "mcp__tickets__close", "stopped", Some(ToolErrorKind::Cancelled))
        .turn()
        .text(&["I may not do that."])
        .turn_finished(usage(750, 6))
        .finished(outcome)
}

pub fn progress() -> Script {
    let told = |call_id: &str, progress| EventKind::ToolProgress { call_id: call_id.to_owned(), progress };
    Script::started()
        .turn()
        .calls(&[
            ("call_1", "run_shell_command", &[r#"{"command":"make"}"#]),
            ("call_2", "mcp__index__build", &["{}"]),
        ])
        .turn_finished(usage(700, 20))
        .tool_started("call_1", "run_shell_command")
        .event(told(
            "call_1",
            ToolProgress::Shell {
                elapsed_ms: 10_000,
                last_output_age_ms: Some(2_500),
                total_lines: 3,
                total_bytes: 120,
                timeout_ms: 120_000,
            },
        ))
        .tool_finished("call_1", "run_shell_command", "ok", None)
        .tool_started("call_2", "mcp__index__build")
        .event(told(
            "call_2",
            ToolProgress::Steps {
                progress: 1.into(),
                total: Some(3.into()),
                message: Some("reading".to_owned()),
            },
        ))
        .event(told("call_2", ToolProgress::Steps { progress: 2.into(), total: None, message: None }))
        .tool_finished("call_2", "mcp__index__build", "built", None)
        .turn()
        .text(&["Built."])
        .turn_finished(usage(750, 2))
        .finished(success("Built."))
}

/// A command and an agent: one ends by itself and the model is told, one is stopped with the run.
pub fn background_task() -> Script {
    let started = |task_id: &str, call_id: &str, kind, description: &str| TaskStart {
        task_id: task_id.to_owned(),
        call_id: Some(call_id.to_owned()),
        kind,
        agent_type: (kind == TaskKind::Agent).then(|| "explore".to_owned()),
        description: description.to_owned(),
    };
    let ended = |task_id: &str, call_id: &str, kind, status, summary: &str| TaskEnd {
        task_id: task_id.to_owned(),
        call_id: Some(call_id.to_owned()),
        kind,
        status,
        summary: summary.to_owned(),
        output_file: (kind == TaskKind::Shell).then(|| "/home/someone/.tenon/tasks/bg_1.log".into()),
        usage: (kind == TaskKind::Agent).then(|| usage(100, 10)),
        tool_calls: u64::from(kind == TaskKind::Agent),
        duration_ms: 1500,
    };
    Script::started()
        .turn()
        .calls(&[
            ("call_1", "run_shell_command", &[r#"{"command":"make","is_background":true}"#]),
            ("call_2", "agent", &[r#"{"description":"look around","background":true}"#]),
        ])
        .turn_finished(usage(700, 30))
        .event(EventKind::TaskStarted(started("bg_1", "call_1", TaskKind::Shell, "make")))
        .tool_finished("call_1", "run_shell_command", "bg_1 runs in the background", None)
        .event(EventKind::TaskStarted(started("agent_1", "call_2", TaskKind::Agent, "look around")))
        .tool_finished("call_2", "agent", "agent_1 runs in the background", None)
        .turn()
        .text(&["Both are running."])
        .turn_finished(usage(750, 4))
        .event(EventKind::UserMessage { text: "bg_1 (make) completed.".to_owned(), origin: Origin::Notice })
        .event(EventKind::TaskEnded(ended(
            "bg_1",
            "call_1",
            TaskKind::Shell,
            TaskStatus::Completed,
            "make ended with 0",
        )))
        .turn()
        .text(&["The build is fine."])
        .turn_finished(usage(800, 5))
        .event(EventKind::TaskEnded(ended(
            "agent_1",
            "call_2",
            TaskKind::Agent,
            TaskStatus::Cancelled,
            "stopped with the run",
        )))
        .finished(success("The build is fine."))
}

/// Hooks that say yes, say no, fail and are cut off.
pub fn hooks() -> Script {
    let ran = |id: u64, end: HookEnd, exit_code: Option<i32>, [stdout, stderr]: [&str; 2]| {
        let name = format!("guard-{id}");
        let start = HookStart { id, event: HookEvent::PreToolUse, name: name.clone(), status_message: None };
        let report = HookReport {
            id,
            event: HookEvent::PreToolUse,
            name,
            end,
            exit_code,
            duration_ms: 12,
            stdout: stdout.to_owned(),
            stderr: stderr.to_owned(),
        };
        [EventKind::HookStarted(start), EventKind::HookEnded(report)]
    };
    let all = [
        ran(1, HookEnd::Success, Some(0), [r#"{"decision":"allow"}"#, ""]),
        ran(2, HookEnd::Blocked, Some(2), ["", "not here\n"]),
        ran(3, HookEnd::TimedOut, None, ["", "it did not answer within 100 ms"]),
        ran(4, HookEnd::Cancelled, None, ["", "the run was stopped"]),
    ];
    let told = all.into_iter().flatten().fold(Script::started().turn(), Script::event);
    told.text(&["Done."]).turn_finished(usage(100, 2)).finished(success("Done."))
}

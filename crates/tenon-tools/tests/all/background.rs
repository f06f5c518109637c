//! Commands that run in the background from their start, and monitors.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::time::Duration;

use serde_json::{Value, json};
use tenon_core::{SandboxMode, TaskEnd, TaskStatus, ToolErrorKind, ToolOutcome};
use tenon_tools::{
    KernelSupport, NewTask, Notice, Sandbox, SandboxOptions, ShellTerminal, StoppedBy, TaskEvent,
};

use crate::support::{Bench, Setup, is_gone, names_in, object, runtime, until};

/// Starts a command in the background.
async fn start(bench: &Bench, command: &str) -> ToolOutcome {
    call(bench, "run_shell_command", json!({ "command": command, "is_background": true })).await
}

pub async fn call(bench: &Bench, tool: &str, args: Value) -> ToolOutcome {
    bench.tool(tool).call(bench.ctx(), object(args)).await
}

/// The next end of a task.
pub async fn end(bench: &Bench) -> (TaskEnd, Option<Notice>) {
    loop {
        if let TaskEvent::Ended(end, notice) = bench.tasks.next().await {
            return (end, notice);
        }
    }
}

fn id_in(text: &str) -> &str {
    let at = text.find("bg_").unwrap();
    &text[at..at + 11]
}

fn file_in(text: &str) -> PathBuf {
    let line = text.lines().find(|line| line.starts_with("Its output ")).unwrap();
    PathBuf::from(&line[line.find('/').unwrap()..])
}

#[test]
fn a_command_runs_on_and_its_end_is_told() {
    let bench = Bench::new();
    runtime().block_on(async {
        let outcome =
            start(&bench, "echo one; until [ -e go ]; do sleep 0.01; done; echo two >&2; exit 3").await;
        assert_eq!(outcome.error, None);
        let (id, file) = (id_in(&outcome.content).to_owned(), file_in(&outcome.content));
        let pid: i32 = outcome.content.split(['(', ')']).nth(1).unwrap()["process ".len()..].parse().unwrap();
        assert_eq!(
            outcome.content,
            format!(
                "The command runs in the background as {id} (process {pid}).\nIts output goes to {}\n\
                 Look at it with read_file or grep_search.\n\
                 You are told when it ends. To stop it, call task_stop with the task_id {id}.",
                file.display()
            )
        );
        assert_eq!(outcome.display.unwrap(), format!("{id} runs in the background (process {pid})."));
        // The file can be read while it grows, and only by its owner; the model has a tool for that.
        until(|| fs::read_to_string(&file).unwrap() == "one\n").await;
        assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
        let read = call(&bench, "read_file", json!({ "file_path": file })).await;
        assert!(read.error.is_none() && read.content.contains("one"), "{}", read.content);
        assert_eq!(bench.tasks.running()[0].output_file.as_ref(), Some(&file));
        bench.file("go", "");
        let (end, notice) = end(&bench).await;
        assert_eq!((end.status, end.task_id.as_str()), (TaskStatus::Failed, id.as_str()));
        let head = "echo one; until [ -e go ]; do sleep 0.01; done; echo two >&2; exit 3";
        assert_eq!(end.summary, format!("Background shell {id} ({head}) exited with code 3."));
        assert_eq!(
            notice.unwrap().told,
            format!(
                "{}\nIts output is in {}\nThe end of its output:\none\ntwo\n",
                end.summary,
                file.display()
            )
        );
    });
}

#[test]
fn the_end_of_a_command_decides_its_state() {
    let bench = Bench::new();
    runtime().block_on(async {
        for (command, status, how) in [
            ("exit 0", TaskStatus::Completed, "exited with code 0"),
            ("exit 7", TaskStatus::Failed, "exited with code 7"),
            ("kill -KILL $$", TaskStatus::Failed, "was terminated by signal SIGKILL"),
            ("kill -SEGV $$", TaskStatus::Failed, "was terminated by signal SIGSEGV"),
        ] {
            bench.file("go", "");
            fs::remove_file(bench.work().join("go")).unwrap();
            start(&bench, &format!("until [ -e go ]; do sleep 0.01; done; {command}")).await;
            bench.file("go", "");
            let (end, notice) = end(&bench).await;
            assert_eq!(end.status, status, "{command}");
            assert!(end.summary.ends_with(&format!(" {how}.")), "{}", end.summary);
            assert!(notice.unwrap().told.ends_with("It printed nothing."));
        }
        start(&bench, "sleep 60").await;
        let id = bench.tasks.running()[0].task.task_id.clone();
        bench.tasks.stop(&id, StoppedBy::Client).unwrap();
        let (end, notice) = end(&bench).await;
        assert_eq!((end.status, notice.is_some()), (TaskStatus::Cancelled, true));
        assert_eq!(end.summary, format!("Background shell {id} (sleep 60) was stopped."));
    });
}

#[test]
fn a_command_that_ends_at_once_is_told_at_once() {
    let bench = Bench::new();
    runtime().block_on(async {
        let outcome = start(&bench, "echo gone; exit 127").await;
        let id = id_in(&outcome.content).to_owned();
        let ended = "and has ended already: it exited with code 127.\nIts output is in /";
        assert!(outcome.content.contains(ended), "{}", outcome.content);
        assert!(outcome.content.contains("There is nothing to stop"), "{}", outcome.content);
        assert!(outcome.content.ends_with("It printed:\ngone\n"), "{}", outcome.content);
        assert_eq!(outcome.display.unwrap(), format!("{id} exited with code 127."));
        // Clients hear of its end all the same; the model has heard of it.
        let (end, notice) = end(&bench).await;
        assert_eq!((end.status, notice), (TaskStatus::Failed, None));
    });
}

#[test]
fn a_bare_ampersand_is_refused_with_a_hint() {
    let bench = Bench::new();
    for (is_background, hint) in [(true, "Remove the `&`."), (false, "or set `is_background` to true")] {
        let args = json!({ "command": "sleep 60 &", "is_background": is_background });
        let (kind, message) = bench.error("run_shell_command", args);
        assert_eq!(kind, ToolErrorKind::InvalidArguments);
        assert!(message.contains(hint), "{message}");
    }
}

#[test]
fn a_limit_that_was_given_holds_in_the_background_too() {
    let bench = Bench::new();
    runtime().block_on(async {
        let args = json!({ "command": "echo $$; sleep 60", "is_background": true, "timeout": 300 });
        let outcome = call(&bench, "run_shell_command", args).await;
        let (end, notice) = end(&bench).await;
        assert_eq!(end.status, TaskStatus::Failed);
        assert!(end.summary.ends_with("was stopped after 300 ms."), "{}", end.summary);
        let pid = fs::read_to_string(file_in(&outcome.content)).unwrap();
        assert!(is_gone(pid.trim()) && notice.is_some());
    });
}

#[test]
fn stopping_ends_the_whole_family() {
    let bench = Bench::new();
    runtime().block_on(async {
        // Deaf to requests, and with job control: the grandchild has a group of its own.
        let command = "set -m; trap '' TERM; (trap '' TERM; echo $BASHPID >> pids; while :; do sleep 0.05; done) & \
                       echo $$ >> pids; while :; do sleep 0.05; done";
        let outcome = start(&bench, command).await;
        let pids = bench.work().join("pids");
        until(|| fs::read_to_string(&pids).unwrap_or_default().lines().count() == 2).await;
        let stopped = call(&bench, "task_stop", json!({ "task_id": id_in(&outcome.content) })).await;
        assert_eq!(stopped.error, None);
        let (end, notice) = end(&bench).await;
        assert_eq!((end.status, notice), (TaskStatus::Cancelled, None));
        assert!(bench.tasks.shut_down(Duration::from_secs(10)).await);
    });
    for pid in bench.text("pids").lines() {
        assert!(is_gone(pid), "{pid}");
    }
}

#[test]
fn what_a_command_leaves_behind_is_waited_for_a_moment_and_then_stopped() {
    let bench = Bench::new();
    runtime().block_on(async {
        let late = "until [ -e go ]; do sleep 0.01; done; (sleep 0.2; echo late) & echo main";
        let file = file_in(&start(&bench, late).await.content);
        bench.file("go", "");
        assert_eq!(end(&bench).await.0.status, TaskStatus::Completed);
        assert_eq!(fs::read_to_string(file).unwrap(), "main\nlate\n");
        start(&bench, "sleep 60 & echo $! > pid").await;
        let (end, notice) = end(&bench).await;
        assert_eq!(end.status, TaskStatus::Completed);
        let told = notice.unwrap().told;
        assert!(told.contains("left background processes that held its output; they were stopped"), "{told}");
    });
    assert!(is_gone(bench.text("pid").trim()));
}

#[test]
fn a_command_without_a_place_for_its_output_is_not_started() {
    let bench = Bench::with(Setup { keep_outputs: false, ..Setup::default() });
    let (kind, message) =
        bench.error("run_shell_command", json!({ "command": "touch ran", "is_background": true }));
    assert_eq!(kind, ToolErrorKind::Failed);
    assert_eq!(
        message,
        "The command was not started: its output cannot be kept (there is no folder for outputs)."
    );
    assert!(!bench.work().join("ran").exists() && bench.tasks.list().is_empty());
}

#[test]
fn a_command_that_cannot_be_registered_is_stopped_again() {
    let bench = Bench::new();
    let handles: Vec<_> = (0..64)
        .map(|n| {
            let kind = tenon_core::TaskKind::Agent;
            let new = NewTask {
                kind,
                call_id: None,
                agent_type: None,
                description: n.to_string(),
                output_file: None,
            };
            bench.tasks.start(new).unwrap()
        })
        .collect();
    runtime().block_on(async {
        let outcome = start(&bench, "echo $$ > pid; sleep 60").await;
        assert_eq!(outcome.error, Some(ToolErrorKind::Failed));
        assert!(outcome.content.contains("64 tasks run in the background already"), "{}", outcome.content);
    });
    let pid = fs::read_to_string(bench.work().join("pid")).unwrap_or_default();
    assert!(pid.is_empty() || is_gone(pid.trim()));
    assert!(names_in(&bench.base.path().join("outputs")).is_empty());
    drop(handles);
}

#[test]
fn the_end_of_a_run_stops_everything_and_says_so() {
    let bench = Bench::new();
    runtime().block_on(async {
        for command in ["sleep 60", "trap '' TERM; echo $$ > deaf; while :; do sleep 0.05; done"] {
            start(&bench, command).await;
        }
        call(&bench, "monitor", json!({ "command": "sleep 60" })).await;
        let deaf = bench.work().join("deaf");
        until(|| !fs::read_to_string(&deaf).unwrap_or_default().is_empty()).await;
        assert!(bench.tasks.shut_down(Duration::from_secs(10)).await);
        for _ in 0..3 {
            let (end, notice) = end(&bench).await;
            assert_eq!((end.status, notice), (TaskStatus::Cancelled, None));
        }
        assert!(bench.tasks.try_next().is_none());
        let refused = start(&bench, "true").await;
        assert!(refused.content.contains("the run is ending"), "{}", refused.content);
    });
    assert!(is_gone(bench.text("deaf").trim()));
}

#[test]
fn a_dropped_runtime_leaves_no_command_behind() {
    let bench = Bench::new();
    let runtime = runtime();
    runtime.block_on(async {
        start(&bench, "echo $$ > pid; sleep 60").await;
        let pid = bench.work().join("pid");
        until(|| !fs::read_to_string(&pid).unwrap_or_default().is_empty()).await;
    });
    drop(runtime);
    assert!(is_gone(bench.text("pid").trim()));
}

#[test]
fn a_monitor_tells_every_line_as_it_comes() {
    let bench = Bench::new();
    runtime().block_on(async {
        let command = "echo one; printf 'tw'; echo err >&2; printf 'o\\n\\n10%%\\r20%%\\nlast'; \
                       until [ -e go ]; do sleep 0.01; done; exit 2";
        let outcome = call(&bench, "monitor", json!({ "command": command, "description": "the log" })).await;
        let id = id_in(&outcome.content).to_owned();
        assert_eq!(outcome.display.unwrap(), format!("{id} watches in the background."));
        let mut lines = Vec::new();
        while lines.len() < 4 {
            if let TaskEvent::Notice(notice) = bench.tasks.next().await {
                assert_eq!((notice.task_id.as_ref(), &notice.told), (Some(&id), &notice.shown));
                lines.push(notice.told);
            }
        }
        let named = |line: &str| format!("Monitor {id} (the log): {line}");
        // The two streams do not cut into each other's lines.
        assert!(lines.contains(&named("err")), "{lines:?}");
        lines.retain(|line| *line != named("err"));
        assert_eq!(lines, ["one", "two", "20%"].map(named));
        bench.file("go", "");
        let TaskEvent::Notice(last) = bench.tasks.next().await else { panic!("no last line") };
        assert_eq!(last.told, named("last"));
        let (end, notice) = end(&bench).await;
        assert_eq!(
            (end.status, notice.unwrap().told),
            (TaskStatus::Failed, format!("Monitor {id} (the log) exited with code 2."))
        );
    });
}

#[test]
fn a_monitor_knows_when_it_has_said_enough() {
    let bench = Bench::new();
    runtime().block_on(async {
        let many = json!({ "command": "echo $$ > pid; yes", "max_events": 3 });
        call(&bench, "monitor", many).await;
        let mut lines = 0;
        let ended = loop {
            match bench.tasks.next().await {
                TaskEvent::Notice(_) => lines += 1,
                TaskEvent::Ended(end, notice) => break (end, notice),
                TaskEvent::Started(_) => {}
            }
        };
        assert_eq!((lines, ended.0.status, ended.1.is_some()), (3, TaskStatus::Completed, true));
        assert!(ended.0.summary.ends_with("was stopped after 3 lines, as many as were asked for."));
        call(&bench, "monitor", json!({ "command": "sleep 60", "idle_timeout_ms": 50 })).await;
        let (silent, _) = end(&bench).await;
        assert_eq!(silent.status, TaskStatus::Failed);
        assert!(silent.summary.ends_with("was stopped after 50 ms without a line."), "{}", silent.summary);
    });
    assert!(is_gone(bench.text("pid").trim()));
    for (args, wanted) in [
        (json!({ "command": "x", "max_events": 0 }), "`max_events` must be between 1 and 10000."),
        (json!({ "command": "x", "max_events": 10_001 }), "`max_events` must be between 1 and 10000."),
        (
            json!({ "command": "x", "idle_timeout_ms": 600_001 }),
            "`idle_timeout_ms` must be between 1 and 600000.",
        ),
        (json!({}), "`monitor` needs `command`."),
    ] {
        assert_eq!(bench.error("monitor", args), (ToolErrorKind::InvalidArguments, wanted.to_owned()));
    }
}

#[test]
fn a_very_long_line_is_told_in_part() {
    let bench = Bench::new();
    runtime().block_on(async {
        call(&bench, "monitor", json!({ "command": "head -c 10000000 /dev/zero | tr '\\0' x; echo" })).await;
        let mut longest = 0;
        loop {
            match bench.tasks.next().await {
                TaskEvent::Notice(notice) => longest = longest.max(notice.told.len()),
                TaskEvent::Ended(end, _) => {
                    assert_eq!(end.status, TaskStatus::Completed);
                    break;
                }
                TaskEvent::Started(_) => {}
            }
        }
        assert!((2_000..2_200).contains(&longest), "{longest}");
    });
}

#[test]
fn a_terminal_is_in_the_sandbox_too() {
    let kernel = KernelSupport::here();
    let mut setup = Setup::default();
    setup.shell.terminal = ShellTerminal::Pty;
    // Nothing may be written at all.
    let options = SandboxOptions { mode: SandboxMode::Auto, ..SandboxOptions::default() };
    setup.shell.sandbox = Sandbox::prepare(&options, kernel).unwrap();
    if setup.shell.sandbox.is_none() {
        return;
    }
    let bench = Bench::with(setup);
    let outcome = bench
        .ok("run_shell_command", json!({ "command": "[ -t 1 ] && echo on a terminal; touch written; true" }));
    assert!(outcome.contains("Output: on a terminal\ntouch: "), "{outcome}");
    assert!(!bench.work().join("written").exists());
}

#[test]
fn on_a_terminal_of_its_own() {
    let mut setup = Setup::default();
    setup.shell.terminal = ShellTerminal::Pty;
    let bench = Bench::with(setup);
    let outcome = bench.ok(
        "run_shell_command",
        json!({ "command": "[ -t 1 ] && [ -t 2 ] && [ ! -t 0 ] && echo terminal; stty size </dev/tty; printf 'a\\r\\nb\\033[1mc\\n'; echo $TERM; wc -c" }),
    );
    assert!(
        outcome.contains("Output: terminal\n50 200\na\nbc\ndumb\n0\n\nError: (none)\nExit Code: 0"),
        "{outcome:?}"
    );
    runtime().block_on(async {
        let printed: String = (1..=5_000).map(|n| format!("line {n}\n")).collect();
        let outcome =
            start(&bench, "until [ -e go ]; do sleep 0.01; done; seq -f 'line %g' 1 5000; exit 4").await;
        bench.file("go", "");
        // The end of a terminal is an error to whoever reads it, and no error of the command.
        let (end, _) = end(&bench).await;
        assert_eq!(end.status, TaskStatus::Failed);
        assert!(end.summary.ends_with("exited with code 4."), "{}", end.summary);
        assert_eq!(fs::read_to_string(file_in(&outcome.content)).unwrap(), printed);
    });
}

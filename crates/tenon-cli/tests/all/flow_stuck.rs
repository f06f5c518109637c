//! Steps that are stopped while a command does not listen: what was spent, said, accepted and written until then is not lost.

use std::path::Path;
use std::time::Duration;

use tenon_testkit::{Gate, Server, Signal, Tenon, Value, json, reply};

use super::flow_run::{at, flow};
use super::signals::{is_alive, until};
use super::tenon;

const PRICES: &str = r#"{"prices":{"test-model":{"input":1000,"output":1000}}}"#;
/// Commands that outlive a SIGTERM, each in a way of its own.
const DEAF: [&str; 4] = [
    r#"trap "" TERM INT; echo $$ > pid; sleep 600"#,
    r#"(trap "" TERM; echo $BASHPID > pid; sleep 600)"#,
    r#"trap "sleep 60" TERM; echo $$ > pid; sleep 600 & wait"#,
    r#"set -m; (trap "" TERM; echo $BASHPID > pid; while :; do sleep 600; done) & wait"#,
];

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_default()
}

fn wait_for_command(tenon: &Tenon) -> u32 {
    let file = tenon.workspace().join("pid");
    until("the command has begun", || read(&file).ends_with('\n'));
    read(&file).trim().parse().unwrap()
}

fn shell(command: &str) -> Value {
    json!({"command": command})
}

/// The last event has the whole report.
fn report(events: &[Value]) -> &Value {
    &events.last().unwrap()["data"]
}

fn phases<'a>(events: &'a [Value], call: &str) -> Vec<&'a str> {
    let of_call = events.iter().filter(|event| event["data"]["tool_call_id"] == call);
    of_call.map(|event| event["data"]["phase"].as_str().unwrap()).collect()
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum By {
    StepTimeout,
    Timeout,
    WallTime,
    Signal,
    Abort,
    Budget,
}

/// Whatever stops a step: its record has what it used and said, its call has an end, and its command is gone.
#[test]
fn whatever_stops_a_step_its_record_is_whole() {
    let all = [By::StepTimeout, By::Timeout, By::WallTime, By::Signal, By::Abort, By::Budget];
    let ways =
        all.into_iter().map(|by| (by, DEAF[0])).chain(DEAF[1..].iter().map(|deaf| (By::Signal, *deaf)));
    std::thread::scope(|threads| {
        for (by, command) in ways {
            threads.spawn(move || its_record_is_whole(by, command));
        }
    });
}

fn its_record_is_whole(by: By, command: &str) {
    let (head, timeout, code) = match by {
        By::StepTimeout => ("", ", timeout: 4s", 1),
        By::Timeout => ("options: { timeout: 4s }\n", "", 1),
        By::WallTime => ("", "", 55),
        By::Signal => ("", "", 130),
        By::Abort => ("options: { onStepFailure: abort }\n", "", 1),
        By::Budget => ("budget: { maxTurns: 2 }\n", "", 55),
    };
    let gate = Gate::new();
    let has_second = matches!(by, By::Abort | By::Budget);
    let second = if has_second { "  - { id: b, instructions: Do b. }\n" } else { "" };
    let document = format!("name: n\n{head}steps:\n  - {{ id: a, instructions: Do a.{timeout} }}\n{second}");
    let mut replies =
        vec![at("Do a.").text("partly").call("c", "run_shell_command", shell(command)).usage(100, 10)];
    match by {
        By::Abort => replies.push(at("Do b.").status(400).hold(&gate)),
        By::Budget => {
            let look = json!({"file_path": "flow.yaml"});
            replies.push(at("Do b.").call("r", "read_file", look).usage(100, 10).hold(&gate));
        }
        By::StepTimeout | By::Timeout | By::WallTime | By::Signal => {}
    }
    let server = Server::start(replies);
    let tenon =
        flow(&server, &document).home_file("settings.json", PRICES).args(["--yolo", "-o", "stream-json"]);
    let tenon = if by == By::WallTime { tenon.args(["--max-wall-time", "4s"]) } else { tenon };
    let mut running = tenon.spawn();
    let pid = wait_for_command(&tenon);
    match by {
        By::Signal => running.signal(Signal::Interrupt),
        By::Abort | By::Budget => gate.open(),
        By::StepTimeout | By::Timeout | By::WallTime => {}
    }
    let run = running.wait();
    let events = run.assert_code(code).json_lines();
    let report = report(&events);
    let step = &report["steps"]["a"];
    assert_eq!((&step["content"], &step["usage"]["total"]), (&json!("partly"), &json!(110)), "{by:?}: {run}");
    assert_eq!(step["cost"], json!(0.11), "{by:?}: {run}");
    let answers = if by == By::Budget { 2 } else { 1 };
    assert_eq!(report["usage"]["total"], 110 * answers, "{by:?}: {run}");
    assert_eq!(phases(&events, "c"), ["start", "end"], "{by:?}: {run}");
    assert!(!is_alive(pid), "{by:?} {command}: the command goes on");
}

const SUBMITS: &str = "name: n\nagents:\n  j: { description: J., resultSchema: { type: object, required: [done], properties: { done: { type: boolean } } } }\nsteps:\n  - { id: a, agent: j, instructions: Do a. }\n";

/// A result that was accepted before the signal ends the step, whatever the call beside it does.
#[test]
fn an_accepted_result_is_not_lost_to_a_command_beside_it() {
    for is_first in [true, false] {
        let reply = at("Do a.").usage(100, 10);
        let submit = json!({"done": true});
        let reply = match is_first {
            true => reply.call("s", "submit_result", submit).call("c", "run_shell_command", shell(DEAF[0])),
            false => reply.call("c", "run_shell_command", shell(DEAF[0])).call("s", "submit_result", submit),
        };
        let server = Server::start([reply]);
        let tenon = flow(&server, SUBMITS).args(["--yolo", "-o", "stream-json"]);
        let mut running = tenon.spawn();
        wait_for_command(&tenon);
        running.signal(Signal::Interrupt);
        let run = running.wait();
        let events = run.assert_code(0).json_lines();
        let report = report(&events);
        assert_eq!(
            (&report["status"], &report["usage"]["total"]),
            (&json!("completed"), &json!(110)),
            "{run}"
        );
        assert_eq!(report["steps"]["a"]["result"], json!({"done": true}), "{run}");
        for call in ["s", "c"] {
            assert_eq!(phases(&events, call), ["start", "end"], "{run}");
        }
    }
}

fn git(folder: &Path, arguments: &[&str]) -> String {
    let (worked, said) = git_said(folder, arguments);
    assert!(worked, "{arguments:?}: {said}");
    said
}

fn git_said(folder: &Path, arguments: &[&str]) -> (bool, String) {
    let mut command = std::process::Command::new("git");
    command.args(["-c", "user.name=t", "-c", "user.email=t@localhost"]).args(arguments);
    let output = command.current_dir(folder).env("HOME", folder).output().unwrap();
    (output.status.success(), String::from_utf8(output.stdout).unwrap())
}

/// What an isolated step wrote is on its branch, and its copy is gone.
#[test]
fn an_isolated_step_keeps_its_files() {
    let document = "name: n\noptions: { isolation: worktree }\nsteps:\n  - { id: a, instructions: Do a. }\n";
    for keeps in [true, false] {
        let file = json!({"file_path": "precious.txt", "content": "precious"});
        let server = Server::start([
            at("Do a.").call("w", "write_file", file),
            at("Do a.").call("c", "run_shell_command", shell(DEAF[0])),
        ]);
        let tenon = flow(&server, document).args(["--yolo", "--run-id", "r1"]);
        let tenon = if keeps { tenon } else { tenon.arg("--no-journal") };
        for arguments in [&["init", "-q"][..], &["add", "-A"], &["commit", "-q", "-m", "first"]] {
            git(tenon.workspace(), arguments);
        }
        let mut running = tenon.spawn();
        // One that is being made is none that can be listed.
        let copies = || git_said(tenon.workspace(), &["worktree", "list", "--porcelain"]).1;
        until("the command has begun", || {
            let copies = copies();
            let mut paths = copies.lines().filter_map(|line| line.strip_prefix("worktree "));
            paths.any(|path| read(&Path::new(path).join("pid")).ends_with('\n'))
        });
        running.signal(Signal::Interrupt);
        let run = running.wait();
        run.assert_code(130);
        assert!(run.stderr.contains("what the step changed is on the branch `tenon/r1/a@1`"), "{run}");
        assert_eq!(git(run.workspace(), &["show", "tenon/r1/a@1:precious.txt"]), "precious");
        assert_eq!(git(run.workspace(), &["worktree", "list"]).lines().count(), 1, "{run}");
    }
}

/// Nobody is waited for, but whoever watches learns how to go on.
#[test]
fn a_second_signal_leaves_the_line_to_go_on_with() {
    let said = "hint: the run was cut off; to go on with it:\n  tenon flow resume r1 ";
    for keeps in [true, false] {
        let server = Server::start([at("Do a.").text("x").hang_after_events(2)]);
        let document = "name: n\nsteps:\n  - { id: a, instructions: Do a. }\n";
        let tenon = flow(&server, document).args(["--yolo", "--run-id", "r1", "-q"]);
        let tenon = if keeps { tenon } else { tenon.arg("--no-journal") };
        // A hook that is slow to hear of the end keeps the run from ending before the second signal.
        let hooks = r#"{"hooks":{"SessionEnd":[{"hooks":[{"type":"command","command":"echo x > told; sleep 600"}]}]}}"#;
        let tenon = tenon.home_file("settings.json", hooks);
        let mut running = tenon.spawn();
        server.wait_for_requests(1, Duration::from_secs(30));
        running.signal(Signal::Terminate);
        until("the first signal has been heard", || tenon.workspace().join("told").exists());
        running.signal(Signal::Terminate);
        let run = running.wait();
        run.assert_code(143);
        assert_eq!(run.stderr.contains(said), keeps, "{run}");
    }
}

/// The same of a run without a workflow: the payload was accepted, and is what comes out.
#[test]
fn a_single_run_keeps_its_payload_too() {
    let payload = json!({"done": true});
    let server = Server::start([
        reply().call("b", "run_shell_command", json!({"command": DEAF[0], "is_background": true})),
        reply().call("s", "structured_output", payload.clone()).usage(100, 10),
    ]);
    let args = ["-q", "-y", "-m", "test-model", "-p", "go", "--json-schema", "{}"];
    let tenon = tenon().server(&server).args(args);
    let run = tenon.run();
    assert_eq!(run.assert_code(0).json(), payload);
    let pid = wait_for_command(&tenon);
    until("the command is gone", || !is_alive(pid));
}

//! SIGINT and SIGTERM at any moment: exit code, result line, an empty stdout in `text`, and nothing left
//! running.

use std::io::Read;
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use tenon_testkit::{Gate, Run, Running, Server, Signal, json, reply};

use super::pipes::command;
use super::tenon;

/// Ends a hang; nothing here takes long.
const SOON: Duration = Duration::from_secs(30);
const SIGNALS: [(Signal, i32, &str); 2] =
    [(Signal::Interrupt, 130, "SIGINT"), (Signal::Terminate, 143, "SIGTERM")];
const ARGS: [&str; 5] = ["-q", "-m", "test-model", "-p", "go"];

/// Interrupted as it should be, in its format.
#[track_caller]
fn interrupted(run: &Run, format: &str, code: i32, name: &str) {
    run.assert_code(code);
    assert_eq!(run.stderr, format!("error[interrupted]: the run was interrupted ({name})\n"), "{run}");
    if format == "text" {
        assert_eq!(run.stdout, "", "{run}");
        return;
    }
    let last = run.json_lines().pop().unwrap();
    let result = last.as_array().map_or(&last, |messages| messages.last().unwrap());
    assert_eq!((&result["type"], &result["is_error"]), (&json!("result"), &json!(true)), "{run}");
    let error = &result["error"];
    assert_eq!((&error["code"], &error["class"]), (&json!(code), &json!("interrupted")), "{run}");
}

/// Signals a run of every format at the moment that `ready` waits for.
#[track_caller]
fn at_the_moment(start: impl Fn() -> (Server, tenon_testkit::Tenon), ready: impl Fn(&Server, &mut Running)) {
    for (signal, code, name) in SIGNALS {
        for format in ["text", "json", "stream-json"] {
            let (server, tenon) = start();
            let mut running = tenon.server(&server).args(["-o", format]).spawn();
            ready(&server, &mut running);
            running.signal(signal);
            interrupted(&running.wait(), format, code, name);
        }
    }
}

fn asked(server: &Server, _: &mut Running) {
    server.wait_for_requests(1, SOON);
}

#[test]
fn while_reading_stdin() {
    at_the_moment(
        || (Server::start([]), tenon().stdin_idle().args(["-q", "--stdin", "wait", "-p", "go"])),
        |server, running| {
            until("it listens", || catches_signals(running.pid()));
            assert!(server.requests().is_empty());
        },
    );
}

#[test]
fn while_waiting_for_headers() {
    let gate = Gate::new();
    at_the_moment(|| (Server::start([reply().text("late").hold(&gate)]), tenon().args(ARGS)), asked);
}

#[test]
fn in_the_middle_of_an_answer() {
    at_the_moment(
        || (Server::start([reply().text("It").text(" is").hang_after_events(3)]), tenon().args(ARGS)),
        asked,
    );
    // Here it is certain that the answer has begun.
    for (signal, code, name) in SIGNALS {
        let server = Server::start([reply().text("It").text(" is").hang_after_events(3)]);
        let args = ["-o", "stream-json", "--include-partial-messages"];
        let mut running = tenon().server(&server).args(ARGS).args(args).spawn();
        running.json_where(|line| line["event"]["delta"]["text"] == " is");
        running.signal(signal);
        interrupted(&running.wait(), "stream-json", code, name);
        server.wait_for_clients_left(1, SOON);
    }
}

#[test]
fn in_an_answer_that_never_ends() {
    at_the_moment(|| (Server::start([reply().endless()]), tenon().args(ARGS)), asked);
}

#[test]
fn while_waiting_to_try_again() {
    for (signal, code, name) in SIGNALS {
        let server = Server::start([reply().status(503).forever()]);
        let settings = r#"{"retry":{"baseMs":50000}}"#;
        let args = ["-m", "m", "-p", "go", "-o", "stream-json", "--settings", settings];
        let mut running = tenon().server(&server).args(args).spawn();
        running.wait_for_stderr("retry: attempt 2 in ");
        running.signal(signal);
        let run = running.wait();
        run.assert_code(code);
        assert!(
            run.stderr.ends_with(&format!("\nerror[interrupted]: the run was interrupted ({name})\n")),
            "{run}"
        );
        assert_eq!(run.last_json()["error"]["code"], code);
        assert_eq!(server.requests().len(), 1);
    }
}

/// A command, its child and a child in the background: all gone with the run.
#[test]
fn while_a_command_runs() {
    let script = "echo $$ > pids; sleep 600 & echo $! >> pids; (sleep 600; true) & echo $! >> pids; echo ready >> pids; wait";
    for (signal, code, name) in SIGNALS {
        for format in ["text", "stream-json"] {
            let call = json!({"command": script, "is_background": false});
            let server = Server::start([reply().call("c1", "run_shell_command", call)]);
            let folder = tenon().server(&server).args(ARGS).args(["-y", "-o", format]);
            let mut running = folder.spawn();
            let pids = folder.workspace().join("pids");
            until("the command has begun", || read(&pids).ends_with("ready\n"));
            running.signal(signal);
            interrupted(&running.wait(), format, code, name);
            let pids = read(&pids);
            for pid in pids.lines().filter_map(|line| line.parse().ok()) {
                assert!(!is_alive(pid), "process {pid} of the command goes on");
            }
            assert_eq!(server.requests().len(), 1);
        }
    }
}

#[test]
fn a_command_that_does_not_listen_is_ended() {
    let script = "trap '' TERM INT; echo $$ > pid; while :; do sleep 0.1; done";
    let call = json!({"command": script, "is_background": false});
    let server = Server::start([reply().call("c1", "run_shell_command", call)]);
    let folder = tenon().server(&server).args(ARGS).arg("-y");
    let mut running = folder.spawn();
    let pid = folder.workspace().join("pid");
    until("the command has begun", || !read(&pid).is_empty());
    running.signal(Signal::Interrupt);
    interrupted(&running.wait(), "text", 130, "SIGINT");
    assert!(!is_alive(read(&pid).trim().parse().unwrap()));
}

/// Both at once: nothing is waited for, and the command is gone all the same.
#[test]
fn the_second_signal_ends_a_command_that_does_not_listen() {
    let script = "trap '' TERM INT; echo $$ > pid; while :; do sleep 0.1; done";
    let call = json!({"command": script, "is_background": false});
    let server = Server::start([reply().call("c1", "run_shell_command", call)]);
    let folder = tenon().server(&server).args(ARGS).arg("-y");
    let mut running = folder.spawn();
    let pid = folder.workspace().join("pid");
    until("the command has begun", || !read(&pid).is_empty());
    until("it ended", || {
        running.signal(Signal::Terminate);
        running.has_ended()
    });
    let run = running.wait();
    assert_eq!((run.code, run.stdout.as_str(), run.stderr.as_str()), (143, "", ""), "{run}");
    let pid = read(&pid).trim().parse().unwrap();
    until("the command is gone", || !is_alive(pid));
}

/// The reader takes nothing, so the result cannot be written: the payload was accepted, and stays so.
#[test]
fn after_the_payload_was_captured_nothing_changes() {
    for signal in ["-INT", "-TERM"] {
        let (mut child, _server) = stuck_with_a_result();
        kill(signal, &child);
        // The run has every chance to do the wrong thing before it is read from.
        std::thread::sleep(Duration::from_millis(100));
        let mut rest = String::new();
        child.stdout.take().unwrap().read_to_string(&mut rest).unwrap();
        assert_eq!(child.wait().unwrap().code(), Some(0));
        assert!(format!("{{{rest}") == large_result(), "{} bytes came out", rest.len() + 1);
    }
}

#[test]
fn the_second_signal_ends_it_at_once() {
    for (signal, code) in [("-INT", 130), ("-TERM", 143)] {
        let (mut child, _server) = stuck_with_a_result();
        let mut status = None;
        // Signals that come too fast after each other are one.
        until("it ended", || {
            kill(signal, &child);
            std::thread::sleep(Duration::from_millis(20));
            status = child.try_wait().unwrap();
            status.is_some()
        });
        assert_eq!(status.unwrap().code(), Some(code));
    }
}

fn large_result() -> String {
    format!("{{\"a\":\"{}\"}}\n", "x".repeat(1 << 20))
}

/// A run that is writing a result larger than a pipe to a reader that took one byte.
fn stuck_with_a_result() -> (Child, Server) {
    let payload = json!({"a": "x".repeat(1 << 20)});
    let server = Server::start([reply().call("c1", "structured_output", payload)]);
    let tenon = tenon();
    let mut child = command(&tenon, &server)
        .args(ARGS)
        .args(["--json-schema", "{}"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut first = [0];
    child.stdout.as_mut().unwrap().read_exact(&mut first).unwrap();
    assert_eq!(&first, b"{");
    (child, server)
}

fn kill(signal: &str, child: &Child) {
    let sent = std::process::Command::new("kill").args([signal, &child.id().to_string()]).output();
    sent.expect("`kill` can be started");
}

#[track_caller]
pub(crate) fn until(what: &str, mut done: impl FnMut() -> bool) {
    let deadline = Instant::now() + SOON;
    while !done() {
        assert!(Instant::now() < deadline, "waited in vain until {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_default()
}

/// A process that ended and was not waited for by its new parent is not alive.
pub(crate) fn is_alive(pid: u32) -> bool {
    let stat = read(Path::new(&format!("/proc/{pid}/stat")));
    let state = stat.rsplit(") ").next().and_then(|rest| rest.chars().next());
    !matches!(state, None | Some('Z' | 'X'))
}

/// Has it handlers for both signals?
fn catches_signals(pid: u32) -> bool {
    let status = read(Path::new(&format!("/proc/{pid}/status")));
    let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
    let mask = caught.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or_default();
    // Signals 2 and 15.
    mask & (1 << 1) != 0 && mask & (1 << 14) != 0
}

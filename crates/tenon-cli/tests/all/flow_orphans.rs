//! Commands that a killed run has left running end before the run goes on, or is cancelled or deleted.

use std::path::Path;

use tenon_testkit::{Running, Server, Signal, Tenon, json};

use super::flow_resume::{place, run_in};
use super::flow_run::at;
use super::signals::until;

const ONE: &str = "name: one\nsteps:\n  - { id: a, instructions: Do a. }\n";
const NOTE: &str =
    "a command of the run was still running after the process that had started it; it was ended\n";

/// Two processes, in a session of their own; only the first leads it.
const COMMAND: &str = "sleep 600 & echo $! > inner; echo $$ > outer; wait";

fn is_alive(pid: &str) -> bool {
    // A zombie does nothing any more, and in a container nobody may ever fetch it.
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.trim())).unwrap_or_default();
    stat.rsplit_once(')').is_some_and(|(_, rest)| !rest.trim_start().starts_with(['Z', 'X']))
}

fn read(place: &Tenon, file: &str) -> String {
    std::fs::read_to_string(place.workspace().join(file)).unwrap_or_default()
}

/// A run that was killed while its command ran.
fn killed(place: &Tenon, server: &Server) -> [String; 2] {
    let mut running: Running =
        run_in(place, server, &["run", "flow.yaml", "--run-id", "r1", "--yolo"]).spawn();
    let book = place.tenon_home().join("runs/r1/commands");
    let is_noted = |file: &Path| std::fs::read_dir(file).is_ok_and(|mut files| files.next().is_some());
    until("the command runs", || read(place, "outer").ends_with('\n') && is_noted(&book));
    running.signal(Signal::Kill);
    running.wait();
    let pids = [read(place, "outer"), read(place, "inner")];
    assert!(pids.iter().all(|pid| is_alive(pid)), "a kill of tenon does not reach them");
    pids
}

fn command() -> Server {
    Server::start([at("Do a.").call("c", "run_shell_command", json!({ "command": COMMAND }))])
}

#[test]
fn a_run_goes_on_without_the_commands_that_were_left() {
    let place = place(ONE);
    let pids = killed(&place, &command());
    let server = Server::start([
        at("Do a.").call("d", "run_shell_command", json!({"command": "echo mine; sleep 0"})),
        at("Do a.").text("done"),
    ]);
    let run = run_in(&place, &server, &["resume", "r1", "--yolo"]).run();
    assert_eq!(run.assert_code(0).stdout, "done\n");
    assert!(run.stderr.contains(NOTE), "{run}");
    assert!(server.request(0).tool_result("c").starts_with("Interrupted: "));
    assert!(server.request(1).tool_result("d").contains("mine"));
    until("they have ended", || !pids.iter().any(|pid| is_alive(pid)));
    assert!(!place.tenon_home().join("runs/r1").exists(), "nothing is left behind");
}

#[test]
fn so_do_a_cancelled_run_and_a_deleted_one() {
    for command_of_flow in ["cancel", "delete"] {
        let place = place(ONE);
        let pids = killed(&place, &command());
        run_in(&place, &command(), &[command_of_flow, "r1"]).run().assert_code(0);
        until("they have ended", || !pids.iter().any(|pid| is_alive(pid)));
        assert!(!place.tenon_home().join("runs/r1").exists());
    }
}

#[test]
fn a_run_that_ends_in_order_leaves_no_trace_of_its_commands() {
    let place = place(ONE);
    let server = Server::start([
        at("Do a.").call("c", "run_shell_command", json!({"command": "ls"})),
        at("Do a.").text("done"),
    ]);
    run_in(&place, &server, &["run", "flow.yaml", "--yolo"]).run().assert_code(0);
    let left: Vec<_> = std::fs::read_dir(place.tenon_home().join("runs")).into_iter().flatten().collect();
    assert!(left.is_empty(), "{left:?}");
}

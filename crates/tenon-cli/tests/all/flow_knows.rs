//! What the tools of a step still know when its run goes on in another process: files that were read, work that was under way in
//! the background, outputs that were kept.

use std::time::{Duration, Instant};

use tenon_testkit::{Reply, Server, Signal, Tenon, Value, json, reply};

use super::flow_resume::{place, run_in};
use super::flow_run::at;

const SOON: Duration = Duration::from_secs(30);
const ONE: &str = "name: n\nsteps:\n  - { id: a, instructions: Do a. }\n";

/// Runs the document until so many requests have been made, and stops it.
fn stopped(place: &Tenon, server: &Server, requests: usize, signal: Signal, args: &[&str]) {
    let mut running = run_in(place, server, args).spawn();
    server.wait_for_requests(requests, SOON);
    running.signal(signal);
    running.wait();
}

fn hangs() -> Reply {
    at("Do a.").text("x").hang_after_events(0)
}

fn read(id: &str, file: &str) -> Reply {
    at("Do a.").call(id, "read_file", json!({"file_path": file}))
}

fn edit(id: &str, file: &str, old: &str, new: &str) -> Reply {
    let arguments = json!({"file_path": file, "old_string": old, "new_string": new});
    at("Do a.").call(id, "edit", arguments)
}

/// For the helper of a step.
fn helper() -> Reply {
    reply().when(|body| body["messages"][1].to_string().contains("Help me."))
}

fn ask_helper() -> Reply {
    let arguments = json!({"description": "help", "prompt": "Help me.", "run_in_background": true});
    at("Do a.").call("h", "agent", arguments)
}

fn rows(place: &Tenon, kind: &str) -> Vec<Value> {
    let run = place.clone().args(["flow", "export", "r1"]).run();
    run.json_lines().into_iter().filter(|row| row["kind"] == kind).collect()
}

#[test]
fn files_that_were_read_may_be_changed_after_any_stop_unless_somebody_else_has() {
    for signal in [Signal::Interrupt, Signal::Terminate, Signal::Kill] {
        let place = place(ONE).file("f.txt", "hello\n").file("g.txt", "hello\n");
        let server = Server::start([
            read("r1", "f.txt"),
            read("r2", "g.txt"),
            at("Do a.").call("w1", "write_file", json!({"file_path": "new.txt", "content": "one\n"})),
            hangs(),
        ]);
        stopped(&place, &server, 4, signal, &["run", "flow.yaml", "--yolo", "--run-id", "r1"]);
        std::fs::write(place.workspace().join("g.txt"), "hello again\n").unwrap();
        let server = Server::start([
            edit("e1", "f.txt", "hello", "bye"),
            edit("e2", "g.txt", "hello", "bye"),
            edit("e3", "new.txt", "one", "two"),
            at("Do a.").call("w2", "write_file", json!({"file_path": "f.txt", "content": "x\n"})),
            at("Do a.").text("done"),
        ]);
        let run = run_in(&place, &server, &["resume", "r1", "--yolo"]).run();
        assert_eq!(run.assert_code(0).stdout, "done\n");
        let told = server.request(4);
        assert!(told.tool_result("e1").contains("Edited `f.txt`"), "{signal:?} {}", told.tool_result("e1"));
        assert!(told.tool_result("e2").contains("has changed on disk since it was read"), "{signal:?}");
        assert!(told.tool_result("e3").contains("Edited `new.txt`"), "{signal:?}");
        assert_eq!((run.read("f.txt"), run.read("g.txt")), ("x\n".to_owned(), "hello again\n".to_owned()));
        assert_eq!(run.read("new.txt"), "two\n");
    }
}

/// What one agent has read, another has not: otherwise it would depend on when a run was cut off.
#[test]
fn every_step_reads_for_itself() {
    let document = "name: n\nsteps:\n  - { id: r, instructions: Do r. }\n  - { id: a, instructions: Do a., dependsOn: [r] }\n";
    let place = place(document).file("f.txt", "hello\n");
    let server = Server::start([
        at("Do r.").call("r1", "read_file", json!({"file_path": "f.txt"})),
        at("Do r.").text("read"),
        edit("e1", "f.txt", "hello", "bye"),
        at("Do a.").text("done"),
    ]);
    run_in(&place, &server, &["run", "flow.yaml", "--yolo"]).run().assert_code(0);
    let told = server.request(3).tool_result("e1");
    assert!(told.contains("exists and has not been read"), "{told}");
}

#[test]
fn background_work_that_was_under_way_is_told_as_unknown_once() {
    for signal in [Signal::Interrupt, Signal::Kill] {
        let place = place(ONE);
        let command = "until [ -e stop ]; do sleep 0.05; done";
        let server = Server::start([
            at("Do a.")
                .call("b1", "run_shell_command", json!({"command": command, "is_background": true}))
                .call("b2", "run_shell_command", json!({"command": "true", "is_background": true}))
                .call("b3", "monitor", json!({"command": command, "description": "the watch"})),
            hangs(),
        ]);
        stopped(&place, &server, 2, signal, &["run", "flow.yaml", "--yolo", "--run-id", "r1"]);
        std::fs::write(place.workspace().join("stop"), "").unwrap();
        let server = Server::start([at("Do a.").call("c", "list_directory", json!({"path": "."})), hangs()]);
        stopped(&place, &server, 2, signal, &["resume", "r1", "--yolo"]);
        let first = server.request(0).user_text();
        let unknown = "was under way when the run was stopped; how it ended is not known";
        assert_eq!(first.matches(unknown).count(), 2, "{signal:?}: {first}");
        assert!(
            first.contains("Background shell bg_") && first.contains("Background monitor bg_"),
            "{first}"
        );
        assert!(first.contains("(the watch)"), "{first}");
        // It stands where it was told, and is not told again.
        let server = Server::start([at("Do a.").text("done")]);
        run_in(&place, &server, &["resume", "r1", "--yolo"]).run().assert_code(0);
        assert_eq!(server.request(0).user_text().matches(unknown).count(), 2, "{signal:?}");
        let notices = rows(&place, "told").into_iter().filter(|row| row.to_string().contains(unknown));
        assert_eq!(notices.count(), 1);
    }
}

#[test]
fn a_command_that_was_put_in_the_background_is_told_as_unknown() {
    let place = place(ONE);
    let command = "until [ -e stop ]; do sleep 0.05; done";
    let server =
        Server::start([at("Do a.").call("b1", "run_shell_command", json!({"command": command})), hangs()]);
    let args = ["run", "flow.yaml", "--yolo", "--run-id", "r1", "--promote-after", "1"];
    stopped(&place, &server, 2, Signal::Kill, &args);
    std::fs::write(place.workspace().join("stop"), "").unwrap();
    let server = Server::start([at("Do a.").text("done")]);
    run_in(&place, &server, &["resume", "r1", "--yolo"]).run().assert_code(0);
    let told = server.request(0).user_text();
    assert!(told.contains("how it ended is not known"), "{told}");
}

#[test]
fn a_helper_whose_answer_was_told_is_not_lost() {
    let place = place(ONE);
    let server = Server::start([ask_helper(), helper().text("HELPED"), at("Do a.").text("I wait."), hangs()]);
    stopped(&place, &server, 4, Signal::Kill, &["run", "flow.yaml", "--yolo", "--run-id", "r1"]);
    let server = Server::start([at("Do a.").text("done")]);
    run_in(&place, &server, &["resume", "r1", "--yolo"]).run().assert_code(0);
    let told = server.request(0).user_text();
    assert!(told.contains("HELPED") && !told.contains("is not known"), "{told}");
}

/// The model had nothing more to do but to wait for it.
#[test]
fn a_helper_that_was_waited_for_is_told_as_lost() {
    let place = place(ONE);
    let silent = helper().text("x").hang_after_events(0);
    let server = Server::start([ask_helper(), silent, at("Do a.").text("I wait.")]);
    let mut running = run_in(&place, &server, &["run", "flow.yaml", "--yolo", "--run-id", "r1"]).spawn();
    server.wait_for_requests(3, SOON);
    let until = Instant::now() + SOON;
    while rows(&place, "model_turn").len() < 2 {
        assert!(Instant::now() < until, "the turn is not kept");
    }
    running.signal(Signal::Kill);
    running.wait();
    let server = Server::start([at("Do a.").text("done")]);
    let run = run_in(&place, &server, &["resume", "r1", "--yolo"]).run();
    run.assert_code(0);
    let told = server.request(0).user_text();
    assert!(told.contains("Background agent bg_") && told.contains("Its answer is lost"), "{told}");
}

#[test]
fn a_session_that_is_resumed_knows_its_files_and_what_it_had_under_way() {
    let tenon = super::tenon().file("f.txt", "hello\n").file("g.txt", "hello\n");
    let call = |id: &str, file: &str| reply().call(id, "read_file", json!({"file_path": file}));
    let background = json!({"command": "sleep 600", "is_background": true});
    let server = Server::start([
        call("r1", "f.txt"),
        call("r2", "g.txt"),
        reply().call("b1", "run_shell_command", background),
        reply().text("read"),
    ]);
    tenon.clone().server(&server).args(["-p", "read", "--yolo"]).run().assert_code(0);
    std::fs::write(tenon.workspace().join("g.txt"), "hello again\n").unwrap();
    let edit = |id: &str, file: &str| {
        let arguments = json!({"file_path": file, "old_string": "hello", "new_string": "bye"});
        reply().call(id, "edit", arguments)
    };
    let server = Server::start([edit("e1", "f.txt"), edit("e2", "g.txt"), reply().text("edited")]);
    tenon.clone().server(&server).args(["-p", "edit", "--continue", "--yolo"]).run().assert_code(0);
    let told = server.request(2);
    assert!(told.tool_result("e1").contains("Edited `f.txt`"), "{}", told.tool_result("e1"));
    assert!(told.tool_result("e2").contains("has changed on disk"), "{}", told.tool_result("e2"));
    let unknown = "was under way when the run was stopped";
    assert_eq!(server.request(0).user_text().matches(unknown).count(), 1);
    let server = Server::start([reply().text("again")]);
    tenon.clone().server(&server).args(["-p", "again", "--continue"]).run().assert_code(0);
    assert_eq!(server.request(0).user_text().matches(unknown).count(), 1, "told once");
}

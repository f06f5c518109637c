//! What the tools of a step still know when its run goes on in another process: files that were read, work that was under way in
//! the background, outputs that were kept.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::{Duration, Instant};

use tenon_testkit::{Reply, Server, Signal, Tenon, Value, json, reply};

use super::flow_resume::{place, run_in};
use super::flow_run::at;

const SOON: Duration = Duration::from_secs(30);
const ONE: &str = "name: n\nsteps:\n  - { id: a, instructions: Do a. }\n";

const WITH_HELPERS: &str = "name: n\nagents: { lead: { description: l, tools: [agent] } }\nsteps:\n  - { id: a, agent: lead, instructions: Do a. }\n";

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
    let place = place(WITH_HELPERS);
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
    let place = place(WITH_HELPERS);
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

/// Large outputs are where the conversation says, also after the run was stopped; they go with the run.
#[test]
fn outputs_that_were_kept_can_be_read_after_any_stop() {
    for signal in [Signal::Interrupt, Signal::Kill] {
        let place = place(ONE);
        let printed = "seq 1 100000; echo te''st-key; seq 100001 200000";
        let server = Server::start([
            at("Do a.").call("c1", "run_shell_command", json!({"command": printed})),
            hangs(),
        ]);
        stopped(&place, &server, 2, signal, &["run", "flow.yaml", "--yolo", "--run-id", "r1"]);
        let folder = place.tenon_home().canonicalize().unwrap().join("runs/r1");
        let file = folder.join("outputs/run_shell_command_1.output");
        let told = server.request(1).tool_result("c1");
        assert!(told.contains(&format!("The full output is in {}", file.display())), "{told}");
        let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&folder), mode(&folder.join("outputs")), mode(&file)), (0o700, 0o700, 0o600));
        let arguments = json!({"file_path": file.to_str().unwrap(), "offset": 99_998, "limit": 4});
        let by_command = json!({"command": format!("tail -n 1 {}", file.display())});
        let server = Server::start([
            at("Do a.").call("c2", "read_file", arguments),
            at("Do a.").call("c3", "run_shell_command", by_command),
            at("Do a.").text("done"),
        ]);
        run_in(&place, &server, &["resume", "r1", "--yolo"]).run().assert_code(0);
        let shown = server.request(1).tool_result("c2");
        assert!(shown.ends_with("99999\n100000\n***\n100001\n"), "{signal:?}: {shown}");
        let shown = server.request(2).tool_result("c3");
        assert!(shown.contains("200000"), "{signal:?}: {shown}");
        place.clone().args(["flow", "delete", "r1"]).run().assert_code(0);
        assert!(!folder.exists());
    }
}

#[test]
fn a_run_that_is_not_kept_leaves_no_outputs_and_old_ones_go_with_their_run() {
    let place = place(ONE).home_file("settings.json", r#"{"runs":{"retentionDays":1}}"#);
    let large = || {
        let command = json!({"command": "seq 1 200000"});
        Server::start([at("Do a.").call("c1", "run_shell_command", command), at("Do a.").text("done")])
    };
    let run = |server: &Server, args: &[&str]| {
        run_in(&place, server, &[&["run", "flow.yaml", "--yolo"], args].concat()).run().assert_code(0);
    };
    run(&large(), &["--no-journal"]);
    let runs = place.tenon_home().join("runs");
    assert!(!runs.exists());
    run(&large(), &["--run-id", "old"]);
    run(&Server::start([at("Do a.").text("done")]), &["--run-id", "small"]);
    assert!(runs.join("old/outputs").is_dir() && !runs.join("small").exists());
    let journal = rusqlite::Connection::open(place.tenon_home().join("runs.db")).unwrap();
    journal.execute("UPDATE runs SET updated = 1", []).unwrap();
    drop(journal);
    run(&Server::start([at("Do a.").text("done")]), &["--run-id", "new"]);
    assert!(!runs.join("old").exists());
}

const ISOLATED: &str =
    "name: n\noptions: { isolation: worktree }\nsteps:\n  - { id: a, instructions: Do a. }\n";

/// A place with a repository, and git in it.
fn repository(document: &str) -> (Tenon, impl Fn(&[&str]) -> String) {
    let place = place(document).file("sub/kept.txt", "original\n").file("top.txt", "top\n");
    let (workspace, home) = (place.workspace().to_owned(), place.home().to_owned());
    let git = move |arguments: &[&str]| {
        let mut command = std::process::Command::new("git");
        command.args(["-c", "user.name=t", "-c", "user.email=t@localhost"]).args(arguments);
        let output = command.current_dir(&workspace).env("HOME", &home).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    git(&["init", "-q"]);
    git(&["add", "-A"]);
    git(&["commit", "-q", "-m", "first"]);
    (place, git)
}

/// Copies lie in tenon's home, where they survive a restart of the machine: tools and commands work there, in every mode.
#[test]
fn a_step_goes_on_in_its_copy_in_the_folder_of_the_run() {
    for sandbox in ["--sandbox=auto", "--sandbox=off"] {
        let (place, git) = repository(ISOLATED);
        let flags = ["--approval-mode", "auto-edit", "--allowed-tools", "run_shell_command", sandbox];
        let new = json!({"file_path": "new.txt", "content": "half\n"});
        let server = Server::start([at("Do a.").call("w", "write_file", new), hangs()]);
        let run = [&["run", "flow.yaml", "--run-id", "r1", "-C", "sub"], &flags[..]].concat();
        stopped(&place, &server, 2, Signal::Kill, &run);
        let copy = place.tenon_home().join("runs/r1/copies/r1/a@1");
        assert_eq!(std::fs::read_to_string(copy.join("sub/new.txt")).unwrap(), "half\n");
        let edit = json!({"file_path": "new.txt", "old_string": "half", "new_string": "whole"});
        let look = json!({"command": "cat new.txt kept.txt ../top.txt && echo by-command > made.txt && echo x > ../made.txt; cat $TENON_HOME/runs.db | head -c 6; cat $TENON_HOME/settings.json"});
        let protected = json!({"file_path": ".tenon/settings.json", "content": "{}"});
        let server = Server::start([
            at("Do a.").call("e", "edit", edit).call("c", "run_shell_command", look).call(
                "p",
                "write_file",
                protected,
            ),
            at("Do a.").text("done"),
        ]);
        let run = run_in(&place, &server, &[&["resume", "r1"], &flags[..]].concat()).run();
        run.assert_code(0);
        let told = server.request(1);
        assert!(told.tool_result("e").contains("Edited `new.txt`"), "{sandbox}: {}", told.tool_result("e"));
        let shown = told.tool_result("c");
        assert!(shown.contains("whole\noriginal\ntop\n"), "{sandbox}: {shown}");
        let is_confined = sandbox == "--sandbox=auto" && tenon_tools::KernelSupport::here().landlock >= 3;
        assert_eq!(shown.contains("SQLite"), !is_confined, "{sandbox}: {shown}");
        assert!(told.tool_result("p").contains("is protected from changes"), "{}", told.tool_result("p"));
        assert_eq!(git(&["show", "tenon/r1/a@1:sub/new.txt"]), "whole\n");
        assert_eq!(git(&["show", "tenon/r1/a@1:sub/made.txt"]), "by-command\n");
        assert_eq!(git(&["show", "tenon/r1/a@1:made.txt"]), "x\n");
        assert_eq!(git(&["worktree", "list"]).lines().count(), 1);
        assert!(!place.tenon_home().join("runs").join("r1").exists(), "nothing is left of it");
    }
}

#[test]
fn copies_go_with_their_run_and_the_repository_forgets_them() {
    let (place, git) = repository(ISOLATED);
    let new = json!({"file_path": "new.txt", "content": "half\n"});
    let server = Server::start([at("Do a.").call("w", "write_file", new), hangs()]);
    stopped(&place, &server, 2, Signal::Kill, &["run", "flow.yaml", "--run-id", "r1", "--yolo"]);
    assert_eq!(git(&["worktree", "list"]).lines().count(), 2);
    place.clone().args(["flow", "delete", "r1"]).run().assert_code(0);
    assert!(!place.tenon_home().join("runs/r1").exists());
    assert_eq!(git(&["worktree", "list", "--porcelain"]).matches("worktree ").count(), 1);
}

/// Somebody has removed it: that is said, and the step begins anew with the next attempt.
#[test]
fn a_copy_that_is_gone_is_told() {
    let (place, git) = repository(ISOLATED);
    let new = || at("Do a.").call("w", "write_file", json!({"file_path": "new.txt", "content": "half\n"}));
    let server = Server::start([new(), hangs()]);
    stopped(&place, &server, 2, Signal::Kill, &["run", "flow.yaml", "--run-id", "r1", "--yolo"]);
    std::fs::remove_dir_all(place.tenon_home().join("runs/r1/copies")).unwrap();
    let run = run_in(&place, &Server::start([]), &["resume", "r1", "--yolo"]).run();
    assert_eq!(run.code, 1, "{run}");
    assert!(run.stderr.contains("the copy of the repository that the step had worked in is gone"), "{run}");
    assert!(run.stderr.contains("its next attempt begins anew, in a new copy"), "{run}");
    let server = Server::start([new(), at("Do a.").text("done")]);
    let run = run_in(&place, &server, &["resume", "r1", "--yolo"]).run();
    assert_eq!(run.assert_code(0).stdout, "done\n");
    server.assert_script_done();
    assert!(git(&["branch", "--list", "tenon/*"]).contains("tenon/r1/a"), "{run}");
}

/// Where a step works, its helpers work.
#[test]
fn helpers_of_an_isolated_step_work_in_its_copy() {
    let document = "name: n\noptions: { isolation: worktree }\nagents: { lead: { description: l, tools: [agent, write_file] } }\nsteps:\n  - { id: a, agent: lead, instructions: Do a. }\n";
    let (place, git) = repository(document);
    let server = Server::start([
        at("Do a.").call("h", "agent", json!({"description": "help", "prompt": "Help me."})),
        helper().call("w", "write_file", json!({"file_path": "new.txt", "content": "helped\n"})),
        helper().text("HELPED"),
        at("Do a.").text("done"),
    ]);
    let run = run_in(&place, &server, &["run", "flow.yaml", "--run-id", "r1", "--yolo"]).run();
    run.assert_code(0);
    assert!(!place.workspace().join("new.txt").exists(), "{run}");
    assert_eq!(git(&["show", "tenon/r1/a@1:new.txt"]), "helped\n");
}

/// What the model had found stays offered.
#[test]
fn tools_that_were_found_are_offered_after_a_stop() {
    let place = place(ONE).home_file("settings.json", r#"{"tools":{"searchAbove":3}}"#);
    let search = at("Do a.").call("s", "tool_search", json!({"query": "select:web_fetch"}));
    let server = Server::start([search, hangs()]);
    stopped(&place, &server, 2, Signal::Kill, &["run", "flow.yaml", "--yolo", "--run-id", "r1"]);
    assert!(!server.request(0).tool_names().contains(&"web_fetch"), "{:?}", server.request(0).tool_names());
    assert!(server.request(1).tool_names().contains(&"web_fetch"), "{:?}", server.request(1).tool_names());
    let server = Server::start([at("Do a.").text("done")]);
    run_in(&place, &server, &["resume", "r1", "--yolo"]).run().assert_code(0);
    assert!(server.request(0).tool_names().contains(&"web_fetch"), "{:?}", server.request(0).tool_names());
}

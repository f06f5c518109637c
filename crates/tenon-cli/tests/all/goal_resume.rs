//! A plan is paid for once: `tenon goal` that is killed, interrupted or not approved goes on with `tenon flow resume`.

use std::time::Duration;

use tenon_testkit::{Reply, Server, Signal, Tenon, Value, json, reply};

use super::goal::{hands_in, plan, steps};
use super::tenon;

/// Ends a hang; nothing here takes long.
const SOON: Duration = Duration::from_secs(30);

/// One home and folder for several commands.
fn goal(place: &Tenon, server: &Server, args: &[&str]) -> Tenon {
    place.clone().server(server).args(["goal", "see", "and tell", "--run-id", "r1"]).args(args)
}

fn resume(place: &Tenon, server: &Server, args: &[&str]) -> Tenon {
    place.clone().server(server).args(["flow", "resume", "r1"]).args(args)
}

fn flow(place: &Tenon, args: &[&str]) -> tenon_testkit::Run {
    place.clone().arg("flow").args(args).run()
}

fn status(place: &Tenon) -> String {
    flow(place, &["list", "--format", "json"]).json()[0]["status"].as_str().unwrap().to_owned()
}

fn no_steps() -> Value {
    json!({"name": "n", "steps": []})
}

fn hangs() -> Reply {
    reply().text("x").hang_after_events(0)
}

#[test]
fn a_planner_that_is_killed_goes_on_with_the_turns_it_had() {
    for signal in [Signal::Kill, Signal::Interrupt, Signal::Terminate] {
        let place = tenon();
        let server = Server::start([hands_in(&no_steps()), hangs()]);
        let mut running = goal(&place, &server, &["--yes"]).stdin("It is spring.").spawn();
        running.close_stdin();
        server.wait_for_requests(2, SOON);
        let shown = flow(&place, &["show", "r1", "--format", "json"]).json();
        assert_eq!((&shown["status"], &shown["steps"][0]["status"]), (&json!("running"), &json!("running")));
        assert_eq!(shown["steps"][0]["usage"]["total"], 1100);
        running.signal(signal);
        let run = running.wait();
        if signal == Signal::Kill {
            assert_eq!(status(&place), "interrupted");
        } else {
            let line = "`tenon flow resume r1` goes on with what was paid for";
            assert!(run.stderr.contains(line), "{run}");
            assert_eq!(status(&place), "cancelled");
        }
        let server = Server::start([hands_in(&plan())].into_iter().chain(steps()));
        let run = resume(&place, &server, &["-o", "json"]).run();
        let report = run.assert_code(0).json();
        server.assert_script_done();
        assert_eq!(report["outputs"], "There are trees.");
        assert_eq!(report["usage"]["total"], 2 * 1100 + 11 + 22, "{run}");
        assert!(server.request(0).tool_result("call_1").contains("/steps"), "it knows what was wrong");
        assert!(server.request(1).user_text().contains("It is spring."), "what was piped is kept");
        let shown = flow(&place, &["show", "r1", "--format", "json"]).json();
        assert_eq!(shown["usage"]["total"], 2 * 1100 + 11 + 22);
        assert_eq!(shown["planning"]["usage"]["total"], 2 * 1100);
        assert_eq!(shown["name"], "Two Steps");
    }
}

#[test]
fn a_plan_that_is_there_is_not_made_again() {
    let place = tenon();
    let server = Server::start([hands_in(&plan()), hangs()]);
    let mut running = goal(&place, &server, &["--yes"]).spawn();
    server.wait_for_requests(2, SOON);
    running.signal(Signal::Kill);
    running.wait();
    let server = Server::start(steps());
    let run = resume(&place, &server, &["-o", "json"]).run();
    assert_eq!(run.assert_code(0).json()["usage"]["total"], 1100 + 11 + 22, "{run}");
    let again = resume(&place, &Server::start([]), &["-o", "json"]).run();
    assert_eq!(again.assert_code(0).json()["usage"]["total"], 1100 + 11 + 22, "{again}");
}

#[test]
fn a_plan_that_nobody_has_approved_waits_in_the_journal_too() {
    let place = tenon();
    let server = Server::start([hands_in(&plan())]);
    let run = goal(&place, &server, &["-q", "-o", "json"]).stdin("It is spring.").run();
    let hint = run.assert_code(42).json()["error"]["hint"].as_str().unwrap().to_owned();
    let line = "`tenon flow resume r1 --output-format json --quiet --yes` runs it with what it was given";
    assert!(hint.starts_with("`tenon flow run ") && hint.ends_with(line), "{hint}");
    assert_eq!(status(&place), "suspended");
    // Nobody has said yes, so asking again is no yes.
    let nobody = Server::start([]);
    let run = resume(&place, &nobody, &["-o", "json"]).run();
    let report = run.assert_code(42).json();
    assert!(report["error"]["message"].as_str().unwrap().contains("no terminal to ask at"), "{run}");
    assert_eq!(report["usage"]["total"], 1100, "a refusal tells what was used: {run}");
    let server = Server::start(steps());
    let run = resume(&place, &server, &["--yes"]).run();
    assert_eq!(run.assert_code(0).stdout, "There are trees.\n");
    assert!(server.request(0).user_text().contains("It is spring."));
}

/// The process dies between the last turn and the moment the plan is known.
#[test]
fn a_plan_that_was_answered_and_not_kept_is_not_asked_for_again() {
    let place = tenon();
    let server = Server::start([hands_in(&plan())]);
    goal(&place, &server, &["-q"]).run().assert_code(42);
    let journal = rusqlite::Connection::open(place.tenon_home().join("runs.db")).unwrap();
    let put_back = "UPDATE runs SET document = '', document_hash = '', name = 'goal', status = 'running';
                    DELETE FROM events WHERE kind = 'completed'";
    journal.execute_batch(put_back).unwrap();
    drop(journal);
    let server = Server::start(steps());
    assert_eq!(resume(&place, &server, &["--yes"]).run().assert_code(0).stdout, "There are trees.\n");
    server.assert_script_done();
    // A file that is somebody else's stays.
    let place = tenon();
    let server = Server::start([hands_in(&plan())]);
    goal(&place, &server, &["-q", "--save", "p.yaml"]).run().assert_code(42);
    let journal = rusqlite::Connection::open(place.tenon_home().join("runs.db")).unwrap();
    journal.execute_batch(put_back).unwrap();
    drop(journal);
    std::fs::write(place.workspace().join("p.yaml"), "mine").unwrap();
    resume(&place, &Server::start([]), &["--yes"]).run().assert_code(42);
    assert_eq!(std::fs::read_to_string(place.workspace().join("p.yaml")).unwrap(), "mine");
}

#[test]
fn a_planner_that_could_not_do_it_begins_anew_and_what_it_cost_stays() {
    let place = tenon();
    let server = Server::start([(); 3].map(|()| hands_in(&no_steps())));
    goal(&place, &server, &["--yes", "-q"]).run().assert_code(53);
    assert_eq!(status(&place), "failed");
    let server = Server::start([hands_in(&plan())].into_iter().chain(steps()));
    let run = resume(&place, &server, &["-o", "json"]).run();
    assert_eq!(run.assert_code(0).json()["usage"]["total"], 4 * 1100 + 11 + 22, "{run}");
    assert_eq!(server.request(0).messages().len(), 2, "it has forgotten what it tried");
}

#[test]
fn planning_is_cancelled_like_any_run() {
    let place = tenon();
    let server = Server::start([hangs()]);
    let running = goal(&place, &server, &["--yes", "-o", "json"]).spawn();
    server.wait_for_requests(1, SOON);
    assert_eq!(flow(&place, &["cancel", "r1"]).assert_code(0).stdout, "cancelled r1\n");
    let run = running.wait();
    assert_eq!(run.assert_code(130).json()["error"]["message"], "the run was stopped by `tenon flow cancel`");
    // There is no document that could be another one.
    for args in [["other.yaml"], ["--accept-changes"], ["--pinned"]] {
        let run = resume(&place, &Server::start([]), &args).run();
        assert!(run.assert_code(42).stderr.contains("has no document yet"), "{run}");
    }
    flow(&place, &["delete", "r1"]).assert_code(0);
}

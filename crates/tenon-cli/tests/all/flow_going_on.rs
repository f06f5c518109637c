//! A run that goes on tells the truth: how long was worked, what happened before and what happens now, and which line really gets on.

use std::time::Duration;

use rusqlite::Connection;
use tenon_testkit::{Gate, Run, Server, Signal, Tenon, assert_flow_events, json, reply};

use super::flow_resume::{place, refused, run_in};
use super::flow_run::at;

const SOON: Duration = Duration::from_secs(30);
const HOUR: i64 = 3_600_000;
/// More than anything here takes, and less than the pauses.
const LITTLE: u64 = 600_000;

fn flow(place: &Tenon, args: &[&str]) -> Run {
    place.clone().arg("flow").args(args).run()
}

/// Everything that happened, happened that much earlier: nobody has run the run since.
fn leave(place: &Tenon, ms: i64) {
    let database = Connection::open(place.tenon_home().join("runs.db")).unwrap();
    for update in [
        "UPDATE runs SET created = created - ?1, updated = updated - ?1, lease_until = max(0, lease_until - ?1)",
        "UPDATE events SET at = at - ?1",
        "UPDATE events SET payload = json_set(payload, '$.at', json_extract(payload, '$.at') - ?1)
         WHERE kind IN ('completed', 'failed', 'timer')",
        "UPDATE events SET payload = payload - ?1 WHERE kind = 'clock'",
        "UPDATE events SET payload = json_set(payload, '$.from', json_extract(payload, '$.from') - ?1,
                                              '$.until', json_extract(payload, '$.until') - ?1)
         WHERE kind = 'paused'",
    ] {
        database.execute(update, [ms]).unwrap();
    }
}

fn change(place: &Tenon, from: &str, to: &str) {
    let file = place.workspace().join("flow.yaml");
    let text = std::fs::read_to_string(&file).unwrap();
    assert!(text.contains(from), "{text}");
    std::fs::write(file, text.replace(from, to)).unwrap();
}

/// The two lines that say how to get on.
fn hint(run: &Run) -> String {
    let lines: Vec<&str> = run.stderr.lines().collect();
    lines[lines.len() - 2..].join("\n")
}

const LOOPED: &str = "name: n
steps:
  - id: l
    loop:
      maxIterations: 3
      steps:
        - {id: x, instructions: 'Do x${{ iteration }}.'}
        - {id: y, instructions: 'Do y${{ iteration }}.', dependsOn: [x]}
  - {id: end, instructions: Do end., dependsOn: [l]}
";

#[test]
fn time_in_which_nobody_ran_it_is_no_ones() {
    let place = place(LOOPED);
    let server = Server::start([at("Do x0.").text("X."), at("Do y0.").text("y").hang_after_events(0)]);
    let mut running = run_in(&place, &server, &["run", "flow.yaml", "--run-id", "r1"]).spawn();
    server.wait_for_requests(2, SOON);
    running.signal(Signal::Kill);
    running.wait();
    leave(&place, HOUR);
    let server = Server::start([at("Do y0.").text("Y."), at("Do x1.").text("X."), refused("Do y1.")]);
    run_in(&place, &server, &["resume", "r1"]).run().assert_code(1);
    leave(&place, HOUR);
    let server = Server::start([
        at("Do y1.").text("Y."),
        at("Do x2.").text("X."),
        at("Do y2.").text("Y."),
        at("Do end.").text("E."),
    ]);
    let run = run_in(&place, &server, &["resume", "r1", "-o", "stream-json"]).run();
    run.assert_code(0);
    let events = run.json_lines();
    assert_flow_events(&events);
    let told = events.iter().filter(|event| event["data"]["duration_ms"].is_u64());
    for event in told {
        assert!(event["data"]["duration_ms"].as_u64().unwrap() < LITTLE, "{event}");
    }
    let end = &events.last().unwrap()["data"];
    for (id, step) in end["steps"].as_object().unwrap() {
        assert!(step["duration_ms"].as_u64().unwrap() < LITTLE, "{id}: {step}");
    }
    // Once more, from what is kept.
    let again = flow(&place, &["resume", "r1", "-o", "json"]).json();
    assert!(again["duration_ms"].as_u64().unwrap() < LITTLE, "{again}");
    let text = flow(&place, &["show", "r1"]).stdout;
    let seconds = text.split(" · ").filter_map(|part| part.split(' ').next()?.parse::<f64>().ok());
    assert!(seconds.clone().count() > 3 && seconds.clone().all(|seconds| seconds < 600.0), "{text}");
    flow(&place, &["show", "r1", "--html", "page.html"]).assert_code(0);
    let page = std::fs::read_to_string(place.workspace().join("page.html")).unwrap();
    assert!(page.contains("in which nobody ran it are left out"), "{page}");
    let marks = page.split("class=\"marks\"").nth(1).unwrap().split("</th>").next().unwrap();
    assert!(!marks.contains(" h"), "{marks}");
}

/// One at a time, the first failed and the second is done: it is told when it is its turn, and takes what it took.
#[test]
fn what_is_told_late_is_told_as_it_was() {
    let place = place(
        "name: n\noptions: {maxConcurrency: 1}\nsteps:\n  - {id: a, instructions: Do a.}\n  - {id: b, instructions: Do b.}\n  - {id: c, instructions: Do c., dependsOn: [a, b]}\n",
    );
    let server = Server::start([refused("Do a."), at("Do b.").text("B.")]);
    run_in(&place, &server, &["run", "flow.yaml", "--run-id", "r1"]).run().assert_code(1);
    leave(&place, HOUR);
    let server = Server::start([at("Do a.").text("A."), at("Do c.").text("C.")]);
    let run = run_in(&place, &server, &["resume", "r1", "-o", "stream-json"]).run();
    let events = run.assert_code(0).json_lines();
    server.assert_script_done();
    assert_flow_events(&events);
    let told: Vec<String> = events
        .iter()
        .filter(|event| event["type"].as_str().unwrap().starts_with("step_"))
        .map(|event| format!("{} {}", event["type"].as_str().unwrap(), event["step_id"].as_str().unwrap()))
        .collect();
    assert_eq!(
        told,
        ["step_start a", "step_end a", "step_restored b", "step_start c", "step_end c"],
        "{run}"
    );
    for step in events.last().unwrap()["data"]["steps"].as_object().unwrap().values() {
        assert!(step["duration_ms"].as_u64().unwrap() < LITTLE, "{step}");
    }
}

/// It had failed for good, after all its attempts.
#[test]
fn what_failed_for_good_is_told_once() {
    let place = place(
        "name: n\nsteps:\n  - {id: a, instructions: Do a.}\n  - {id: f, instructions: Do f., retries: 1, maxRetries: 0}\n  - {id: sub, include: sub.yaml, retries: 1}\n",
    )
    .file("sub.yaml", "name: sub\nsteps:\n  - {id: x, instructions: Do x.}\n  - {id: y, instructions: Do y., maxRetries: 0, dependsOn: [x]}\n");
    let held = Gate::new();
    let broken = |task: &str| at(task).status(500).json(json!({"error": {"message": "busy"}}));
    let server = Server::start([
        at("Do a.").text("A.").hold(&held),
        broken("Do f."),
        broken("Do f."),
        at("Do x.").text("X."),
        broken("Do y."),
        at("Do x.").text("X."),
        broken("Do y."),
    ]);
    let mut running = run_in(&place, &server, &["run", "flow.yaml", "--run-id", "r1"]).spawn();
    server.wait_for_requests(7, SOON);
    let failed = || flow(&place, &["show", "r1", "--format", "json"]).json()["steps"].to_string();
    let until = std::time::Instant::now() + SOON;
    while failed().matches("\"status\":\"failed\"").count() < 3 {
        assert!(std::time::Instant::now() < until, "{}", failed());
    }
    running.signal(Signal::Kill);
    running.wait();
    let server = Server::start([at("Do a.").text("A.")]);
    let run = run_in(&place, &server, &["resume", "r1", "-o", "stream-json"]).run();
    let events = run.assert_code(1).json_lines();
    assert_flow_events(&events);
    let started = |event: &&tenon_testkit::Value| event["type"] == "step_start";
    let started: Vec<&str> =
        events.iter().filter(started).map(|event| event["step_id"].as_str().unwrap()).collect();
    assert_eq!(started, ["a"], "{run}");
}

#[test]
fn a_loop_that_is_used_up_says_what_gets_on() {
    let place = place(
        "name: n\nsteps:\n  - id: l\n    instructions: Do l.\n    loop: {maxIterations: 2, until: content.contains('good')}\n",
    );
    let server = Server::start([at("Do l.").text("bad"), at("Do l.").text("bad")]);
    let run = run_in(&place, &server, &["run", "flow.yaml", "--run-id", "r1"]).run();
    let line = "hint: it would end the same way again: change the document, then go on with the run:\n  tenon flow resume r1 --accept-changes";
    assert_eq!(hint(run.assert_code(1)), line, "{run}");
    assert!(run.stderr.contains("raise `loop.maxIterations`"), "{run}");
    // Without a change it is the same.
    let run = run_in(&place, &Server::start([]), &["resume", "r1"]).run();
    assert_eq!(hint(run.assert_code(1)), line, "{run}");
    change(&place, "maxIterations: 2", "maxIterations: 4");
    let server = Server::start([at("Do l.").text("good")]);
    let run = run_in(&place, &server, &["resume", "r1", "--accept-changes"]).run();
    assert_eq!(run.assert_code(0).stdout, "good\n");
    server.assert_script_done();
    assert!(!run.stderr.contains("again"), "{run}");
}

const ASKS: &str = "name: n
steps:
  - {id: ok, approve: {message: Go?, timeout: 24h}}
  - {id: a, instructions: Do a., dependsOn: [ok]}
";

#[test]
fn a_no_stands_until_something_else_is_asked() {
    let line = "hint: it would end the same way again: change the document, then go on with the run:\n  tenon flow resume r1 --accept-changes";
    for (from, to) in
        [("message: Go?", "message: Go now?"), ("timeout: 24h", "timeout: 24h, onDeny: continue")]
    {
        let place = place(ASKS);
        let nobody = || Server::start([]);
        run_in(&place, &nobody(), &["run", "flow.yaml", "--run-id", "r1"]).run().assert_code(42);
        flow(&place, &["approve", "r1", "ok", "--deny"]).assert_code(0);
        let run = run_in(&place, &nobody(), &["resume", "r1"]).run();
        assert_eq!(hint(run.assert_code(1)), line, "{run}");
        let late = flow(&place, &["approve", "r1", "ok"]);
        assert!(late.assert_code(42).stderr.contains("; that stands\n"), "{late}");
        change(&place, from, to);
        let server = Server::start([at("Do a.").text("A.")]);
        let mut run = run_in(&place, &server, &["resume", "r1", "--accept-changes"]).run();
        if from.contains("message") {
            run.assert_code(42);
            flow(&place, &["approve", "r1", "ok"]).assert_code(0);
            run = run_in(&place, &server, &["resume", "r1"]).run();
        }
        assert_eq!(run.assert_code(0).stdout, "A.\n", "{run}");
    }
}

#[test]
fn what_nobody_answered_in_time_is_asked_again() {
    let place = place(ASKS);
    run_in(&place, &Server::start([]), &["run", "flow.yaml", "--run-id", "r1"]).run().assert_code(42);
    let database = Connection::open(place.tenon_home().join("runs.db")).unwrap();
    let update = "UPDATE events SET payload = json_set(payload, '$.asked', json_extract(payload, '$.asked') - ?1) WHERE kind = 'asked'";
    database.execute(update, [25 * HOUR]).unwrap();
    let late = flow(&place, &["approve", "r1", "ok"]);
    assert!(late.assert_code(42).stderr.contains("that stands until the run has ended"), "{late}");
    let run = run_in(&place, &Server::start([]), &["resume", "r1"]).run();
    assert_eq!(hint(run.assert_code(1)), "hint: to go on with the run:\n  tenon flow resume r1", "{run}");
    let late = flow(&place, &["approve", "r1", "ok"]);
    assert!(late.assert_code(42).stderr.ends_with("hint: `tenon flow resume r1` asks again\n"), "{late}");
    run_in(&place, &Server::start([]), &["resume", "r1"]).run().assert_code(42);
    flow(&place, &["approve", "r1", "ok"]).assert_code(0);
    let server = Server::start([reply().text("A.")]);
    assert_eq!(run_in(&place, &server, &["resume", "r1"]).run().assert_code(0).stdout, "A.\n");
}

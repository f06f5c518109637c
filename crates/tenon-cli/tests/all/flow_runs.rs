//! `tenon flow list|show|cancel|delete|export`: the runs that are kept, and how long.

use std::time::Duration;

use tenon_testkit::{Gate, Server, Signal, Tenon, Value, json};

use super::flow_resume::{place, refused, run_in};
use super::flow_run::at;

/// Ends a hang; nothing here takes long.
const SOON: Duration = Duration::from_secs(30);

const DOCUMENT: &str = "name: looped\nagents:\n  t:\n    description: d\n    resultSchema: { type: object, properties: { list: { type: array, items: { type: string } } }, required: [list] }\nsteps:\n  - { id: a, agent: t, instructions: Do a secretly. }\n  - { id: no, instructions: No., dependsOn: [a], condition: 'false' }\n  - { id: each, instructions: Do each., dependsOn: [a], loop: { forEach: steps.a.result.list, maxConcurrency: 1 } }\n  - { id: last, instructions: Do last., dependsOn: [each] }\n";

/// A run whose last step failed.
fn kept(id: &str) -> Tenon {
    let place = place(DOCUMENT);
    let server = Server::start([
        at("Do a secretly.")
            .text("Hidden words.")
            .call("c", "submit_result", json!({"list": ["p", "q"]}))
            .usage(10, 1),
        at("Do each.").text("Item secret.").usage(5, 1),
        at("Do each.").text("Item secret.").usage(5, 1),
        refused("Do last."),
    ]);
    run_in(&place, &server, &["run", "flow.yaml", "--run-id", id]).run().assert_code(1);
    place
}

fn flow(place: &Tenon, args: &[&str]) -> tenon_testkit::Run {
    place.clone().arg("flow").args(args).run()
}

#[test]
fn runs_are_listed_the_latest_first() {
    let place = place(DOCUMENT);
    let run = flow(&place, &["list"]);
    assert_eq!((run.assert_code(0).stdout.as_str(), run.stderr.as_str()), ("", "there are no runs\n"));
    assert_eq!(flow(&place, &["list", "--format", "json"]).assert_code(0).stdout, "[]\n");
    for id in ["one", "two", "three"] {
        let server = Server::start([refused("Do a secretly.")]);
        run_in(&place, &server, &["run", "flow.yaml", "--run-id", id]).run().assert_code(1);
    }
    let run = flow(&place, &["list"]);
    let rows: Vec<Vec<&str>> =
        run.assert_code(0).stdout.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(rows[0], ["RUN", "BEGUN", "(UTC)", "STATUS", "COST", "WORKFLOW"], "{run}");
    let ids: Vec<&str> = rows[1..].iter().map(|row| row[0]).collect();
    assert_eq!(ids, ["three", "two", "one"], "{run}");
    assert_eq!((rows[1][3], *rows[1].last().unwrap()), ("failed", "looped"), "{run}");
    let listed = flow(&place, &["list", "--limit", "1", "--format", "json"]).assert_code(0).json();
    assert_eq!(listed.as_array().unwrap().len(), 1);
    assert_eq!((&listed[0]["run_id"], &listed[0]["status"]), (&json!("three"), &json!("failed")));
}

#[test]
fn a_run_is_shown_without_what_was_said_in_it() {
    let place = kept("r1");
    for format in ["text", "json"] {
        let run = flow(&place, &["show", "r1", "--format", format]);
        let shown = &run.assert_code(0).stdout;
        for secret in ["secret", "Hidden", "\"p\"", "Do last"] {
            assert!(!shown.contains(secret), "{secret} in {format}: {run}");
        }
        let run = flow(&place, &["show", "r1", "--format", format, "--payloads"]);
        let shown = &run.assert_code(0).stdout;
        for payload in ["Do a secretly.", "Hidden words.", "Item secret.", "[\"p\",\"q\"]", "Do last."] {
            assert!(shown.contains(payload), "{payload} in {format}: {run}");
        }
    }
}

#[test]
fn a_run_is_shown_step_by_step() {
    let place = kept("r1");
    let run = flow(&place, &["show", "r"]);
    let shown: Vec<String> = run
        .assert_code(0)
        .stdout
        .lines()
        .skip_while(|line| !line.is_empty())
        .skip(1)
        .map(|line| line.split(" · ").next().unwrap().to_owned())
        .collect();
    assert_eq!(
        shown[..6],
        [
            "a (t): completed",
            "no: skipped",
            "  its condition was false",
            "each: completed",
            "  each[0]: completed",
            "  each[1]: completed"
        ],
        "{run}"
    );
    assert!(shown[6].starts_with("last: failed"), "{run}");
    let view = flow(&place, &["show", "r1", "--format", "json"]).json();
    let steps: Vec<(&str, &str, u64)> = view["steps"]
        .as_array()
        .unwrap()
        .iter()
        .map(|step| {
            let text = |key: &str| step[key].as_str().unwrap();
            (text("step_id"), text("status"), step["usage"]["total"].as_u64().unwrap())
        })
        .collect();
    assert_eq!(
        steps,
        [
            ("a", "completed", 11),
            ("no", "skipped", 0),
            ("each", "completed", 12),
            ("each[0]", "completed", 6),
            ("each[1]", "completed", 6),
            ("last", "failed", 0)
        ]
    );
    assert_eq!((&view["usage"]["total"], &view["status"]), (&json!(23), &json!("partial")));
    assert_eq!(view["steps"][0]["attempts"][0]["turns"][0]["calls"][0]["tool_name"], "submit_result");
    assert_eq!(view["error"]["class"], "protocol");
}

#[test]
fn a_run_under_way_is_shown_as_it_stands() {
    let place = place(DOCUMENT);
    let gate = Gate::new();
    let server = Server::start([at("Do a secretly.").text("x").hold(&gate)]);
    let mut running = run_in(&place, &server, &["run", "flow.yaml", "--run-id", "r1"]).spawn();
    server.wait_for_requests(1, SOON);
    let status = |place: &Tenon| {
        let view = flow(place, &["show", "r1", "--format", "json"]).json();
        let of = |step: &Value| step["status"].as_str().unwrap().to_owned();
        let steps: Vec<String> = view["steps"].as_array().unwrap().iter().map(of).collect();
        (view["status"].as_str().unwrap().to_owned(), steps.join(" "))
    };
    assert_eq!(status(&place), ("running".into(), "running waiting waiting waiting".into()));
    running.signal(Signal::Kill);
    running.wait();
    assert_eq!(status(&place), ("interrupted".into(), "unfinished waiting waiting waiting".into()));
    assert_eq!(flow(&place, &["cancel", "r1"]).assert_code(0).stdout, "cancelled r1\n");
    assert_eq!(status(&place).0, "cancelled");
    // Nobody says that it cannot be gone on with.
    let server = Server::start([refused("Do a secretly.")]);
    run_in(&place, &server, &["resume", "r1"]).run().assert_code(1);
    let run = flow(&place, &["cancel", "r1"]);
    assert_eq!(run.assert_code(0).stderr, "the run `r1` is over already: failed\n");
}

#[test]
fn a_run_of_another_process_is_stopped_in_order() {
    let place = place(
        "name: n\nsteps:\n  - { id: a, instructions: Do a. }\n  - { id: b, instructions: Do b., dependsOn: [a] }\n",
    );
    let server = Server::start([at("Do a.").text("A."), at("Do b.").text("b").hang_after_events(0)]);
    let running = run_in(&place, &server, &["run", "flow.yaml", "--run-id", "r1", "-o", "json"]).spawn();
    server.wait_for_requests(2, SOON);
    assert_eq!(flow(&place, &["cancel", "r1"]).assert_code(0).stdout, "cancelled r1\n");
    let run = running.wait();
    let report = run.assert_code(130).json();
    assert_eq!((&report["status"], &report["error"]["class"]), (&json!("cancelled"), &json!("interrupted")));
    assert_eq!(report["error"]["message"], "the run was stopped by `tenon flow cancel`");
    assert_eq!(report["steps"]["a"]["status"], "completed");
    let server = Server::start([at("Do b.").text("B.")]);
    assert_eq!(run_in(&place, &server, &["resume", "r1"]).run().assert_code(0).stdout, "B.\n");
}

#[test]
fn what_is_deleted_is_gone() {
    let place = kept("r1");
    let gate = Gate::new();
    let server = Server::start([at("Do a secretly.").text("x").hold(&gate)]);
    let mut running = run_in(&place, &server, &["run", "flow.yaml", "--run-id", "busy"]).spawn();
    server.wait_for_requests(1, SOON);
    let run = flow(&place, &["delete", "r1", "nobody"]);
    assert!(run.assert_code(42).stderr.contains("there is no run `nobody`"), "all are found first: {run}");
    let run = flow(&place, &["delete", "busy", "r1", "r1"]);
    assert_eq!(run.assert_code(42).stdout, "deleted r1\n", "{run}");
    assert!(run.stderr.contains("the run `busy` is being run by process"), "{run}");
    running.signal(Signal::Kill);
    running.wait();
    flow(&place, &["delete", "bu"]).assert_code(0);
    assert_eq!(flow(&place, &["list", "--format", "json"]).stdout, "[]\n");
    for file in std::fs::read_dir(place.tenon_home()).unwrap().flatten() {
        let bytes = std::fs::read(file.path()).unwrap_or_default();
        let hidden = b"Hidden words.";
        assert!(!bytes.windows(hidden.len()).any(|part| part == hidden), "{}", file.path().display());
    }
}

#[test]
fn an_export_is_the_whole_truth() {
    let place = kept("r1");
    let run = flow(&place, &["export", "r1"]);
    let lines = run.assert_code(0).json_lines();
    assert_eq!((&lines[0]["run_id"], &lines[0]["status"]), (&json!("r1"), &json!("partial")));
    assert!(lines[0]["document"].as_str().unwrap().contains("Do a secretly."));
    assert!(lines[1..].iter().enumerate().all(|(at, line)| line["seq"] == at + 1), "{run}");
    let kinds: Vec<&str> = lines[1..].iter().filter_map(|line| line["kind"].as_str()).collect();
    assert_eq!(kinds[..4], ["clock", "scheduled", "told", "model_turn"], "{run}");
    assert!(run.stdout.contains("Hidden words."));
    assert!(!run.stdout.contains("test-key"));
}

#[test]
fn keys_are_in_no_journal() {
    let place = place(
        "name: n\ninputs: { type: object, properties: { x: { type: string } } }\nsteps:\n  - { id: a, instructions: 'Do a with ${{ inputs.x }}.' }\n",
    );
    let server = Server::start([at("Do a").text("Your key is test-key.")]);
    let run =
        run_in(&place, &server, &["run", "flow.yaml", "the", "test-key", "--input", "x=test-key"]).run();
    assert_eq!(run.assert_code(0).stdout, "Your key is test-key.\n");
    for file in std::fs::read_dir(place.tenon_home()).unwrap().flatten() {
        let bytes = std::fs::read(file.path()).unwrap_or_default();
        assert!(!bytes.windows(8).any(|part| part == b"test-key"), "{}", file.path().display());
    }
}

/// Runs that ended long ago go with the end of another run; those that are not over stay.
#[test]
fn old_runs_are_deleted_after_a_while() {
    for (settings, left) in [(r#"{"runs":{"retentionDays":1}}"#, 2), (r#"{"runs":{"retentionDays":0}}"#, 3)] {
        let place = kept("old").home_file("settings.json", settings);
        let server = Server::start([at("Do a secretly.").text("x").hang_after_events(0)]);
        let mut running = run_in(&place, &server, &["run", "flow.yaml", "--run-id", "cut"]).spawn();
        server.wait_for_requests(1, SOON);
        running.signal(Signal::Kill);
        running.wait();
        let journal = rusqlite::Connection::open(place.tenon_home().join("runs.db")).unwrap();
        journal.execute("UPDATE runs SET updated = 1, created = 1", []).unwrap();
        drop(journal);
        let server = Server::start([refused("Do a secretly.")]);
        run_in(&place, &server, &["run", "flow.yaml", "--run-id", "new"]).run().assert_code(1);
        let listed = flow(&place, &["list", "--format", "json"]).json();
        assert_eq!(listed.as_array().unwrap().len(), left, "{settings}: {listed}");
    }
}

#[test]
fn doctor_says_where_runs_are_and_how_many() {
    let place = kept("r1");
    let path = place.tenon_home().join("runs.db");
    let run = place.clone().arg("doctor").run();
    assert!(run.stdout.contains(&format!("workflow runs: 1 in {}", path.display())), "{run}");
    std::fs::write(&path, vec![7; 5000]).unwrap();
    let run = place.clone().arg("doctor").run();
    assert!(run.stdout.contains("FAIL workflow runs: "), "{run}");
    assert_eq!(run.code, 1);
}

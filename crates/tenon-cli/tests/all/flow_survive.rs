//! What a run that goes on owes: every cent it has paid, in every place where costs are told, and a line that really goes on.

use std::time::Duration;

use tenon_testkit::{Reply, Run, Server, Signal, Tenon, Value, json, reply};

use super::flow_resume::{place, refused, run_in};
use super::flow_run::at;

const SOON: Duration = Duration::from_secs(30);
/// A dollar for every token.
const PRICES: &str = r#"{"prices":{"test-model":{"input":1000000,"output":1000000}}}"#;
const CHAIN: &str = "name: chain\nsteps:\n  - { id: a, instructions: Do a. }\n  - { id: b, instructions: Do b., dependsOn: [a] }\n  - { id: c, instructions: Do c., dependsOn: [b] }\n";

fn hint(run: &Run) -> String {
    let mut lines = run.stderr.lines().skip_while(|line| !line.starts_with("hint: to go on"));
    lines.nth(1).unwrap_or_else(|| panic!("no hint: {run}")).trim().to_owned()
}

fn flow(place: &Tenon, args: &[&str]) -> Run {
    place.clone().arg("flow").args(args).run()
}

fn killed(place: &Tenon, server: &Server, requests: usize, args: &[&str]) {
    let mut running = run_in(place, server, args).spawn();
    server.wait_for_requests(requests, SOON);
    running.signal(Signal::Kill);
    running.wait();
}

#[test]
fn a_budget_that_is_too_small_names_everything_that_was_spent() {
    let place = place(CHAIN).home_file("settings.json", PRICES);
    let server = Server::start([
        at("Do a.").text("A.").usage(90_000, 10_000),
        at("Do b.").text("B.").usage(180_000, 20_000),
        at("Do c.").text("c").hang_after_events(0),
    ]);
    killed(&place, &server, 3, &["run", "flow.yaml", "--run-id", "r1"]);
    let nobody = Server::start([]);
    let run = run_in(&place, &nobody, &["resume", "r1", "--max-budget-usd", "50000", "-o", "json"]).run();
    let report = run.assert_code(55).json();
    assert_eq!(report["usage"]["total"], 300_000, "{run}");
    assert_eq!(report["steps"]["b"]["status"], "completed", "what was done is done: {run}");
    let message = report["error"]["message"].as_str().unwrap();
    assert!(message.contains("$300000.0000 of the $50000.0000"), "{message}");
    assert_eq!(hint(&run), "tenon flow resume r1 --output-format json --max-budget-usd 600000", "{run}");
    // The line that is told goes on.
    let server = Server::start([at("Do c.").text("C.").usage(1, 1)]);
    run_in(&place, &server, &["resume", "r1", "--max-budget-usd", "600000"]).run().assert_code(0);
}

#[test]
fn a_request_that_is_dearer_than_the_budget_is_told_what_it_wants() {
    let place = place(CHAIN).home_file("settings.json", PRICES);
    let nobody = Server::start([]);
    let run = run_in(&place, &nobody, &["run", "flow.yaml", "--run-id", "r1", "--max-budget-usd", "1"]).run();
    let line = hint(run.assert_code(55));
    let wanted: f64 = line.rsplit(' ').next().unwrap().parse().unwrap();
    let server = Server::start([
        at("Do a.").text("A.").usage(1, 1),
        at("Do b.").text("B.").usage(1, 1),
        at("Do c.").text("C.").usage(1, 1),
    ]);
    let wanted = wanted.to_string();
    run_in(&place, &server, &["resume", "r1", "--max-budget-usd", &wanted]).run().assert_code(0);
}

#[test]
fn limits_are_raised_by_the_line_that_is_told() {
    let place = place("name: n\nsteps:\n  - { id: a, instructions: Do a. }\n");
    let server = Server::start([at("Do a.").text("x").hang_after_events(0)]);
    let args = ["run", "flow.yaml", "--run-id", "r1", "--max-wall-time", "1s", "--settings", "s.json"];
    let run = run_in(&place, &server, &args).file("s.json", "{}").run();
    let file = place.workspace().join("s.json");
    let wanted = format!("tenon flow resume r1 --settings {} --max-wall-time 2s", file.display());
    assert_eq!(hint(run.assert_code(55)), wanted, "{run}");
    let call = |id: &str| at("Do a.").call(id, "list_directory", json!({"path": "."}));
    let server = Server::start([call("c1"), call("c2")]);
    let run = run_in(&place, &server, &["run", "flow.yaml", "--run-id", "r2", "--max-tool-calls", "1"]).run();
    assert_eq!(hint(run.assert_code(55)), "tenon flow resume r2 --max-tool-calls 2", "{run}");
}

#[test]
fn an_id_that_looks_like_a_flag_can_be_pasted() {
    let place = place("name: n\nsteps:\n  - { id: a, instructions: Do a. }\n");
    let run =
        run_in(&place, &Server::start([refused("Do a.")]), &["run", "flow.yaml", "--run-id=--yolo"]).run();
    assert_eq!(hint(run.assert_code(1)), "tenon flow resume -- --yolo", "{run}");
    let server = Server::start([at("Do a.").text("A.")]);
    assert_eq!(run_in(&place, &server, &["resume", "--", "--yolo"]).run().assert_code(0).stdout, "A.\n");
    flow(&place, &["delete", "--", "--yolo"]).assert_code(0);
}

#[test]
fn a_completed_run_says_that_its_document_is_another_one_now() {
    let place = place("name: n\nsteps:\n  - { id: a, instructions: Do a. }\n");
    let server = Server::start([at("Do a.").text("A.")]);
    run_in(&place, &server, &["run", "flow.yaml", "--run-id", "r1"]).run().assert_code(0);
    assert!(!flow(&place, &["resume", "r1"]).stderr.contains("has changed"));
    std::fs::write(
        place.workspace().join("flow.yaml"),
        "name: n\nsteps:\n  - { id: a, instructions: Do b. }\n",
    )
    .unwrap();
    let run = flow(&place, &["resume", "r1"]);
    assert_eq!(run.assert_code(0).stdout, "A.\n");
    assert!(run.stderr.contains("flow.yaml` has changed since the run completed"), "{run}");
}

#[test]
fn a_change_is_told_step_by_step() {
    let before = "name: n\nsteps:\n  - { id: a, instructions: Do a. }\n  - { id: b, instructions: Do b. }\n  - { id: gone, instructions: Do gone. }\n  - { id: c, instructions: Do c., dependsOn: [a, b, gone] }\n  - { id: cut, instructions: Do cut., dependsOn: [a, b, gone] }\n";
    let now = "name: n\nsteps:\n  - { id: a, instructions: Do a. }\n  - { id: b, instructions: Do b better. }\n  - { id: fresh, instructions: Do fresh. }\n  - { id: cut, instructions: Do cut., dependsOn: [a] }\n";
    let place = place(before);
    let server = Server::start([
        at("Do a.").text("A.").usage(10, 1),
        at("Do b.").text("B.").usage(20, 2),
        at("Do gone.").text("Gone.").usage(30, 3),
        at("Do c.").text("c").hang_after_events(0),
        at("Do cut.").call("c1", "list_directory", json!({"path": "."})).usage(40, 4),
        at("Do cut.").text("x").hang_after_events(0),
    ]);
    killed(&place, &server, 6, &["run", "flow.yaml", "--run-id", "r1"]);
    std::fs::write(place.workspace().join("flow.yaml"), now).unwrap();
    let run = run_in(&place, &Server::start([]), &["resume", "r1", "-o", "json"]).run();
    let told: Vec<&str> = run.assert_code(42).stderr.lines().skip(1).take(7).collect();
    assert_eq!(
        told[..5],
        [
            "the document has changed; 1 step is run again, 1 step is begun again, 1 step is no longer in the document, 1 step is new, 1 step is kept",
            "  step b: run again (had used $0.0000, 22 tokens)",
            "  step cut: begun again (had used 44 tokens)",
            "  step gone: no longer in the document (had used $0.0000, 33 tokens)",
            "  step fresh: new",
        ],
        "{run}"
    );
    let report = run.json();
    assert_eq!(report["usage"]["total"], 11 + 22 + 33 + 44, "a refusal tells what was used: {run}");
    // What was cut off and is asked for in the same words goes on.
    std::fs::write(place.workspace().join("flow.yaml"), before.replace("Do c.", "Do c well.")).unwrap();
    let run = run_in(&place, &Server::start([]), &["resume", "r1"]).run();
    let told = "the document has changed; 1 step is gone on with, 3 steps are kept\n  step cut: goes on where it was cut off\n";
    assert!(run.assert_code(42).stderr.contains(told), "{run}");
}

/// How many run at a time says nothing about what is done.
#[test]
fn another_number_at_a_time_runs_nothing_again() {
    let outer = |at_a_time: u32| {
        format!(
            "name: n\nsteps:\n  - id: each\n    instructions: 'Do ${{{{ item }}}}.'\n    loop: {{ forEach: [p, q, r], maxConcurrency: {at_a_time} }}\n  - {{ id: sub, include: sub.yaml }}\n"
        )
    };
    let inner = |at_a_time: u32| {
        format!(
            "name: sub\noptions: {{ maxConcurrency: {at_a_time} }}\nsteps:\n  - {{ id: x, instructions: Do x. }}\n  - {{ id: y, instructions: Do y. }}\n"
        )
    };
    let place = place(&outer(3)).file("sub.yaml", inner(2));
    let hang = |task: &'static str| at(task).text("x").hang_after_events(0);
    let server = Server::start([
        hang("Do p."),
        at("Do q.").text("Q."),
        at("Do r.").text("R."),
        hang("Do x."),
        at("Do y.").text("Y."),
    ]);
    let mut running = run_in(&place, &server, &["run", "flow.yaml", "--run-id", "r1"]).spawn();
    server.wait_for_requests(5, SOON);
    let completed = || {
        let view = flow(&place, &["show", "r1", "--format", "json"]).json();
        let steps = view["steps"].as_array().unwrap().clone();
        let done =
            steps.iter().filter(|step| step["status"] == "completed").map(|step| step["step_id"].to_string());
        done.collect::<Vec<_>>().join(" ")
    };
    let until = std::time::Instant::now() + SOON;
    while completed() != "\"each[1]\" \"each[2]\" \"sub.y\"" {
        assert!(std::time::Instant::now() < until, "{}", completed());
    }
    running.signal(Signal::Kill);
    running.wait();
    std::fs::write(place.workspace().join("flow.yaml"), outer(1)).unwrap();
    std::fs::write(place.workspace().join("sub.yaml"), inner(1)).unwrap();
    let server = Server::start([at("Do p.").text("P."), at("Do x.").text("X.")]);
    let run = run_in(&place, &server, &["resume", "r1", "--accept-changes"]).run();
    run.assert_code(0);
    server.assert_script_done();
    assert!(!run.stderr.contains("again"), "{run}");
    assert!(run.stderr.contains("the document has changed;"), "{run}");
}

#[test]
fn what_is_given_up_stays_in_the_cost_of_its_step() {
    let place =
        place("name: n\nsteps:\n  - { id: a, instructions: Do a. }\n").home_file("settings.json", PRICES);
    let server = Server::start([
        at("Do a.").call("c1", "list_directory", json!({"path": "."})).usage(10, 1),
        at("Do a.").text("x").hang_after_events(0),
    ]);
    killed(&place, &server, 2, &["run", "flow.yaml", "--run-id", "r1"]);
    std::fs::write(
        place.workspace().join("flow.yaml"),
        "name: n\nsteps:\n  - { id: a, instructions: Do it. }\n",
    )
    .unwrap();
    let server = Server::start([at("Do it.").text("A.").usage(20, 2)]);
    let run = run_in(&place, &server, &["resume", "r1", "--accept-changes", "-o", "stream-json"]).run();
    let events = run.assert_code(0).json_lines();
    let end = events.iter().find(|event| event["type"] == "step_end").unwrap();
    assert_eq!((&end["data"]["usage"]["total"], &end["data"]["cost"]), (&json!(33), &json!(33.0)), "{run}");
    let again = flow(&place, &["resume", "r1", "-o", "stream-json"]).json_lines();
    let restored = again.iter().find(|event| event["type"] == "step_restored").unwrap();
    assert_eq!(restored["data"]["cost"], json!(33.0));
}

const HELPED: &str = "name: n\nagents:\n  boss: { description: leads, tools: [agent] }\nsteps:\n  - { id: a, agent: boss, instructions: Do a. }\n";

fn helper(task: &'static str) -> Reply {
    reply()
        .when(move |body| body["messages"][1]["content"].as_str().is_some_and(|text| text.starts_with(task)))
}

#[test]
fn what_helpers_cost_survives_a_crash() {
    let place = place(HELPED).home_file("settings.json", PRICES);
    let ask = |id: &str, prompt: &str| {
        at("Do a.").call(id, "agent", json!({"description": "help", "prompt": prompt})).usage(10, 1)
    };
    // One helper is done, another is in its second turn.
    let server = Server::start([
        ask("c1", "First."),
        helper("First.").text("One.").usage(100, 10),
        ask("c2", "Second."),
        helper("Second.").call("h1", "list_directory", json!({"path": "."})).usage(200, 20),
        helper("Second.").text("x").hang_after_events(0),
    ]);
    killed(&place, &server, 5, &["run", "flow.yaml", "--run-id", "r1"]);
    let server = Server::start([at("Do a.").text("A.").usage(30, 3)]);
    let run = run_in(&place, &server, &["resume", "r1", "-o", "json"]).run();
    let report = run.assert_code(0).json();
    let total = 11 + 110 + 11 + 220 + 33;
    assert_eq!(
        (&report["usage"]["total"], &report["total_cost_usd"]),
        (&json!(total), &json!(f64::from(total)))
    );
    assert!(server.request(0).tool_result("c2").contains("may still be running"));
    let shown = flow(&place, &["show", "r1", "--format", "json"]).json();
    assert_eq!(shown["usage"]["total"], total);
    let again = flow(&place, &["resume", "r1", "-o", "json"]).json();
    assert_eq!(again["usage"]["total"], total);
}

#[test]
fn a_run_with_a_coordinator_is_shown_again_as_it_was() {
    let place =
        place("name: n\nsteps:\n  - { id: a, instructions: Do a. }\n").home_file("settings.json", PRICES);
    let hears = |told: &'static str| {
        reply().when(move |body: &Value| {
            let system = body["messages"][0]["content"].as_str().unwrap_or_default();
            let last = body["messages"].as_array().and_then(|all| all.last());
            let last = last.and_then(|message| message["content"].as_str()).unwrap_or_default();
            system.contains("coordinator of a workflow") && last.contains(told)
        })
    };
    let server = Server::start([
        hears("## Workflow").text("ok").usage(10, 1),
        at("Do a.").text("A.").usage(100, 10),
        hears("the workflow ended").call("f", "finalize", json!({"summary": "All done."})).usage(20, 2),
        hears("finished status=completed").text("ok").usage(30, 3),
    ]);
    let run =
        run_in(&place, &server, &["run", "flow.yaml", "--run-id", "r1", "--coordinator", "-o", "json"]).run();
    let report = run.assert_code(0).json();
    assert_eq!(report["coordinator"]["summary"], "All done.", "{run}");
    let again = flow(&place, &["resume", "r1", "-o", "json"]).json();
    for part in ["coordinator", "usage", "total_cost_usd", "outputs", "steps"] {
        assert_eq!(again[part], report[part], "{part}");
    }
    let shown = flow(&place, &["show", "r1", "--format", "json"]);
    assert_eq!(shown.json()["coordinator"]["cost"], report["coordinator"]["cost"]);
    assert_eq!(shown.json()["total_cost_usd"], report["total_cost_usd"]);
    assert!(!shown.stdout.contains("All done."), "{shown}");
}

/// A loop, an item or an include that was tried again and is done is done.
#[test]
fn what_was_tried_again_from_outside_and_is_done_is_not_asked_again() {
    let body = "      steps:\n        - { id: check, maxRetries: 0, instructions: Check. }\n        - { id: deploy, dependsOn: [check], instructions: Deploy. }\n";
    let items = format!("  - id: l\n    retries: 1\n    loop:\n      forEach: [a]\n{body}");
    let rounds = format!("  - id: l\n    retries: 1\n    loop:\n      maxIterations: 1\n{body}");
    let include = "  - { id: l, include: inner.yaml, retries: 1 }\n".to_owned();
    let inner =
        format!("name: inner\n{}", body.replace("      steps:", "steps:").replace("        - ", "  - "));
    for inside in [items, rounds, include] {
        let last = "  - { id: z, dependsOn: [l], maxRetries: 0, instructions: End. }\n";
        let place = place(&format!("name: n\nsteps:\n{inside}{last}")).file("inner.yaml", &inner);
        let server = Server::start([
            at("Check.").status(500).json(json!({"error": {"message": "broken"}})),
            at("Check.").text("checked"),
            at("Deploy.").text("deployed"),
            at("End.").status(400).json(json!({"error": {"message": "bad"}})),
        ]);
        let run = run_in(&place, &server, &["run", "flow.yaml", "--run-id", "r1"]).run();
        run.assert_code(1);
        server.assert_script_done();
        let server = Server::start([at("End.").text("Ended.")]);
        let run = run_in(&place, &server, &["resume", "r1"]).run();
        assert_eq!((run.code, run.stdout.as_str()), (0, "Ended.\n"), "{inside}\n{run}");
        assert_eq!(server.requests().len(), 1, "{inside}\n{run}");
    }
}

/// What is done inside of what failed again stays done.
#[test]
fn what_was_tried_again_goes_on_where_it_was() {
    let inner = "name: inner\nsteps:\n  - { id: x, instructions: Do x. }\n  - { id: y, dependsOn: [x], maxRetries: 0, instructions: Do y. }\n  - { id: z, dependsOn: [y], maxRetries: 0, instructions: Do z. }\n";
    let outer = "name: n\nsteps:\n  - { id: inc, include: inner.yaml, retries: 1 }\n";
    let place = place(outer).file("inner.yaml", inner);
    let broken = |step: &str, status| at(step).status(status).json(json!({"error": {"message": "no"}}));
    let server = Server::start([
        at("Do x.").text("X."),
        broken("Do y.", 500),
        at("Do x.").text("X."),
        at("Do y.").text("Y."),
        broken("Do z.", 400),
    ]);
    run_in(&place, &server, &["run", "flow.yaml", "--run-id", "r1"]).run().assert_code(1);
    server.assert_script_done();
    let server = Server::start([at("Do z.").text("Z.")]);
    let run = run_in(&place, &server, &["resume", "r1"]).run();
    run.assert_code(0);
    assert_eq!(server.requests().len(), 1, "{run}");
}

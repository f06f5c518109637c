//! Approval steps: a run that waits for a person costs nothing, is found again, and takes the first answer for the answer.

use std::time::Duration;

use rusqlite::Connection;
use tenon_testkit::{Gate, Run, Server, Signal, Tenon, Value, json};

use super::flow_resume::{place, run_in};
use super::flow_run::at;
use super::tenon;

/// Ends a hang; nothing here takes long.
const SOON: Duration = Duration::from_secs(30);

pub const GATED: &str = "name: gated
agents:
  planner:
    description: plans
    resultSchema: { type: object, properties: { target: { type: string } }, required: [target] }
steps:
  - { id: plan, agent: planner, instructions: Do plan. }
  - id: gate
    dependsOn: [plan]
    approve: \"Deploy to ${{ steps.plan.result.target }}?\"
  - { id: ship, instructions: \"Ship by ${{ steps.gate.result.by }}.\", dependsOn: [gate], condition: steps.gate.result.approved }
";

pub fn flow(place: &Tenon, args: &[&str]) -> Run {
    place.clone().arg("flow").args(args).run()
}

fn planned() -> Server {
    Server::start([at("Do plan.").call("c", "submit_result", json!({"target": "staging"})).usage(10, 1)])
}

/// The run `r1`, set aside at its question.
fn suspended(document: &str, server: &Server) -> (Tenon, Run) {
    let place = place(document);
    let run = run_in(&place, server, &["run", "flow.yaml", "--run-id", "r1", "-o", "json"]).run();
    run.assert_code(42);
    assert_eq!(run.json()["status"], "suspended", "{run}");
    (place, run)
}

/// Nobody is asked for anything.
fn resumed(place: &Tenon) -> Run {
    run_in(place, &Server::start([]), &["resume", "r1", "-o", "json"]).run()
}

fn database(place: &Tenon) -> Connection {
    Connection::open(place.tenon_home().join("runs.db")).unwrap()
}

/// Questions were asked that much earlier.
fn pass(place: &Tenon, ms: i64) {
    let update =
        "UPDATE events SET payload = json_set(payload, '$.asked', json_extract(payload, '$.asked') - ?1)
                  WHERE kind = 'asked'";
    assert!(database(place).execute(update, [ms]).unwrap() > 0);
}

fn rows(place: &Tenon, kind: &str) -> i64 {
    let count = "SELECT count(*) FROM events WHERE kind = ?1";
    database(place).query_row(count, [kind], |row| row.get(0)).unwrap_or(0)
}

fn statuses(run: &Run) -> Vec<String> {
    let report = run.json();
    let steps = report["steps"].as_object().unwrap();
    steps.iter().map(|(id, step)| format!("{id} {}", step["status"].as_str().unwrap())).collect()
}

#[test]
fn a_run_waits_for_a_person_and_goes_on_with_the_answer() {
    let server = planned();
    let (place, run) = suspended(GATED, &server);
    let report = run.json();
    assert_eq!(statuses(&run), ["plan completed", "gate suspended", "ship waiting"]);
    assert_eq!((&report["outputs"], &report["error"]), (&Value::Null, &Value::Null));
    assert_eq!(report["questions"][0]["step_id"], "gate");
    assert_eq!(report["questions"][0]["message"], "Deploy to staging?");
    let last = "suspended: step gate asks: Deploy to staging?
  tenon flow approve r1 gate
  tenon flow approve r1 gate --deny
hint: once that is answered, to go on with the run:
  tenon flow resume r1 --output-format json
";
    assert!(run.stderr.ends_with(last), "{run}");
    assert!(run.stderr.contains("step gate: asks for an approval: Deploy to staging?\n"), "{run}");

    let listed = flow(&place, &["list"]);
    assert!(listed.stdout.contains(" suspended "), "{listed}");
    assert!(listed.stdout.contains("\n  asks gate: Deploy to staging?\n"), "{listed}");
    assert_eq!(flow(&place, &["list", "--format", "json"]).json()[0]["waits_for"], json!(["gate"]));
    let shown = flow(&place, &["show", "r1"]);
    assert!(shown.stdout.contains("asks      gate: Deploy to staging?\n"), "{shown}");
    assert!(shown.stdout.contains("tenon flow approve r1 gate [--deny]\n"), "{shown}");
    assert!(shown.stdout.contains("\ngate: suspended"), "{shown}");
    let shown = flow(&place, &["show", "r1", "--format", "json"]).json();
    assert_eq!((&shown["status"], &shown["steps"][1]["status"]), (&json!("suspended"), &json!("suspended")));
    assert_eq!(
        (&shown["questions"][0]["open"], &shown["questions"][0]["answer"]),
        (&json!(true), &Value::Null)
    );
    flow(&place, &["show", "r1", "--html", "page.html"]).assert_code(0);
    let page = std::fs::read_to_string(place.workspace().join("page.html")).unwrap();
    assert!(page.contains("<code>tenon flow approve r1 gate --deny</code>"), "{page}");

    // Before anybody has answered nothing is asked of a model.
    for _ in 0..2 {
        let run = resumed(&place);
        assert_eq!(run.assert_code(42).json()["questions"], report["questions"], "{run}");
        assert_eq!(run.json()["usage"]["total"], 11);
    }
    let text = run_in(&place, &Server::start([]), &["resume", "r1"]).run();
    assert_eq!(text.assert_code(42).stdout, "", "{text}");
    assert_eq!(rows(&place, "asked"), 1);

    let answer = flow(&place, &["approve", "r", "gate"]);
    assert!(answer.assert_code(0).stdout.starts_with("approved by "), "{answer}");
    assert!(answer.stdout.ends_with(": gate of r1\n"), "{answer}");
    assert_eq!(answer.stderr, "hint: to go on with the run:\n  tenon flow resume r1\n");
    let who = answer.stdout["approved by ".len()..].split(':').next().unwrap().to_owned();

    let server = Server::start([at(&format!("Ship by {who}.")).text("Shipped.")]);
    let run = run_in(&place, &server, &["resume", "r1", "-o", "stream-json"]).run();
    let events = run.assert_code(0).json_lines();
    let name = |event: &Value| {
        format!("{} {}", event["type"].as_str().unwrap(), event["step_id"].as_str().unwrap_or("-"))
    };
    let said: Vec<String> = events.iter().map(name).filter(|name| !name.starts_with("agent_turn")).collect();
    let wanted = [
        "plan_ready -",
        "workflow_start -",
        "step_restored plan",
        "step_start gate",
        "step_end gate",
        "step_start ship",
        "step_end ship",
        "workflow_end -",
    ];
    assert_eq!(said, wanted, "{run}");
    let gate = &events[4]["data"];
    assert_eq!(
        (&gate["status"], &gate["content"]),
        (&json!("completed"), &json!(format!("approved by {who}")))
    );
    assert_eq!((&gate["result"]["by"], &gate["result"]["data"]), (&json!(who), &Value::Null));
    assert!(gate["result"]["at"].as_str().unwrap().ends_with('Z'));
    assert_eq!(events.last().unwrap()["data"]["outputs"], "Shipped.");
    let shown = flow(&place, &["show", "r1"]);
    assert!(shown.stdout.contains(&format!("asked     gate: approved by {who}, ")), "{shown}");
}

#[test]
fn events_say_what_is_asked() {
    let server = planned();
    let place = place(GATED);
    let run = run_in(&place, &server, &["run", "flow.yaml", "--run-id", "r1", "-o", "stream-json"]).run();
    let events = run.assert_code(42).json_lines();
    let asked = events.iter().find(|event| event["type"] == "step_suspended").unwrap();
    assert_eq!(
        (&asked["step_id"], &asked["data"]["message"]),
        (&json!("gate"), &json!("Deploy to staging?"))
    );
    assert_eq!((&asked["data"]["expires"], &asked["data"]["data"]), (&Value::Null, &Value::Null));
    let end = events.last().unwrap();
    assert_eq!((&end["type"], &end["data"]["status"]), (&json!("workflow_end"), &json!("suspended")));
    assert!(!events.iter().any(|event| event["type"] == "step_skipped"), "{run}");
}

#[test]
fn an_answer_can_go_on_with_the_run() {
    let (place, _) = suspended(GATED, &planned());
    // Nothing is answered when the flags are wrong.
    let wrong: [&[&str]; 5] = [
        &["-o", "json"],
        &["--accept-changes"],
        &["--resume", "--cwd", "."],
        &["--resume", "--prompt", "x"],
        &["--resume=x"],
    ];
    for flags in wrong {
        let run = flow(&place, &[&["approve", "r1", "gate"], flags].concat());
        assert_eq!((run.assert_code(2).stdout.as_str(), rows(&place, "resolved")), ("", 0), "{run}");
    }
    let server = Server::start([at("Ship by ").text("Shipped.")]);
    let run = run_in(&place, &server, &["approve", "r", "gate", "--resume", "-o", "json", "-q"]).run();
    let report = run.assert_code(0).json();
    assert_eq!((&report["run_id"], &report["outputs"]), (&json!("r1"), &json!("Shipped.")), "{run}");
    assert!(run.stderr.starts_with("approved by ") && run.stderr.contains(": gate of r1\n"), "{run}");
    assert!(!run.stderr.contains("hint: to go on"), "{run}");
    // To say so once more is to go on once more, with what is there.
    let again = run_in(&place, &Server::start([]), &["approve", "--resume", "r1", "gate"]).run();
    assert_eq!(again.assert_code(0).stdout, "Shipped.\n", "{again}");
    let denied = run_in(&place, &Server::start([]), &["approve", "r1", "gate", "--deny", "--resume"]).run();
    assert_eq!(denied.assert_code(42).stdout, "", "{denied}");
    let (place, _) = suspended(GATED, &planned());
    let run = run_in(&place, &Server::start([]), &["approve", "r1", "gate", "--deny", "--resume"]).run();
    assert!(run.assert_code(1).stderr.contains("error[denied]"), "{run}");
    let help = flow(&place, &["approve", "--help"]);
    assert!(help.stdout.contains("--resume") && !help.stdout.contains("--output-format"), "{help}");
}

#[test]
fn the_first_answer_stands() {
    let (place, _) = suspended(GATED, &planned());
    flow(&place, &["approve", "r1", "gate"]).assert_code(0);
    let again = flow(&place, &["approve", "r1", "gate"]);
    assert!(again.assert_code(0).stdout.starts_with("already approved by "), "{again}");
    let other = flow(&place, &["approve", "r1", "gate", "--deny"]);
    assert_eq!(other.assert_code(42).stdout, "", "{other}");
    assert!(other.stderr.contains("`gate` of `r1` was approved by "), "{other}");
    assert!(other.stderr.contains("that stands\nhint: "), "{other}");
    let data = flow(&place, &["approve", "r1", "gate", "--data", "{\"a\":1}"]);
    assert!(data.assert_code(42).stderr.contains("with other data"), "{data}");
    run_in(&place, &Server::start([at("Ship by").text("Done.")]), &["resume", "r1"]).run().assert_code(0);
    // Also when the run is over.
    let over = flow(&place, &["approve", "r1", "gate"]);
    assert!(over.assert_code(0).stdout.starts_with("already approved by "), "{over}");
    flow(&place, &["approve", "r1", "gate", "--deny"]).assert_code(42);
    assert_eq!(rows(&place, "resolved"), 1);
}

#[test]
fn of_answers_at_the_same_moment_one_stands_and_all_are_told_which() {
    let (place, _) = suspended(GATED, &planned());
    let running: Vec<_> = (0..8)
        .map(|number| {
            let flags: &[&str] = if number % 2 == 0 { &[] } else { &["--deny"] };
            (number % 2 == 0, place.clone().args(["flow", "approve", "r1", "gate"]).args(flags).spawn())
        })
        .collect();
    let ended: Vec<(bool, Run)> = running.into_iter().map(|(yes, process)| (yes, process.wait())).collect();
    let first: Vec<bool> = ended
        .iter()
        .filter(|(_, run)| run.code == 0 && !run.stdout.starts_with("already"))
        .map(|(yes, _)| *yes)
        .collect();
    assert_eq!((first.len(), rows(&place, "resolved")), (1, 1));
    for (yes, run) in &ended {
        assert_eq!(run.code == 0, *yes == first[0], "{run}");
    }
}

/// Each end of its time, found by whoever resumes; what a late answer is told.
#[test]
fn time_that_runs_out_while_nobody_is_there_is_the_answer() {
    let document = |ends: &str| {
        format!(
            "name: timed\nsteps:\n  - id: gate\n    approve: {{message: 'Go?', timeout: 24h{ends}}}\n  - {{id: after, instructions: Do after., dependsOn: [gate]}}\n"
        )
    };
    let table = [
        ("", 1, "denied", "it was denied because nobody answered within 24h"),
        (", onTimeout: deny, onDeny: fail", 1, "denied", "it was denied because nobody answered within 24h"),
        (", onTimeout: deny, onDeny: continue", 0, "", ""),
        (", onTimeout: approve", 0, "", ""),
        (", onTimeout: fail", 1, "timeout", "it was not answered within 24h"),
        (", onTimeout: fail, onDeny: continue", 1, "timeout", "it was not answered within 24h"),
    ];
    for (ends, code, class, message) in table {
        let (place, run) = suspended(&document(ends), &Server::start([]));
        assert!(run.json()["questions"][0]["expires"].is_string(), "{run}");
        pass(&place, 23 * 3_600_000);
        resumed(&place).assert_code(42);
        pass(&place, 3_600_000);
        let server = Server::start([at("Do after.").text("Done.").forever()]);
        let run = run_in(&place, &server, &["resume", "r1", "-o", "json"]).run();
        let gate = &run.assert_code(code).json()["steps"]["gate"];
        assert_eq!(gate["result"]["approved"], ends.contains("approve"), "{ends}: {run}");
        assert_eq!(gate["result"]["by"], Value::Null, "{ends}: {run}");
        if code == 1 {
            assert_eq!(
                (&gate["error"]["class"], &gate["error"]["message"]),
                (&json!(class), &json!(message))
            );
            assert_eq!(server.requests().len(), 0);
            // Nobody has said anything, so a run that is gone on with asks again, with all the time there is.
            let run = resumed(&place);
            assert_eq!(run.assert_code(42).json()["questions"][0]["step_id"], "gate", "{ends}: {run}");
            flow(&place, &["approve", "r1", "gate"]).assert_code(0);
            run_in(&place, &server, &["resume", "r1"]).run().assert_code(0);
        }
    }
    let (place, _) = suspended(&document(", onTimeout: deny"), &Server::start([]));
    pass(&place, 24 * 3_600_000);
    let late = flow(&place, &["approve", "r1", "gate"]);
    assert!(late.assert_code(42).stderr.contains("denied because nobody answered within 24h"), "{late}");
    let agreed = flow(&place, &["approve", "r1", "gate", "--deny"]);
    assert!(agreed.assert_code(0).stdout.starts_with("already denied because nobody"), "{agreed}");
    resumed(&place).assert_code(1);
}

/// Another step keeps the process alive while the time runs out.
#[test]
fn time_that_runs_out_while_others_work_is_the_answer_too() {
    let document = "name: timed\nsteps:\n  - id: gate\n    approve: {message: 'Go?', timeout: 1s, onTimeout: approve}\n  - {id: after, instructions: Do after., dependsOn: [gate]}\n  - {id: busy, instructions: Do busy.}\n";
    let place = place(document);
    let held = Gate::new();
    let server = Server::start([at("Do busy.").text("Busy.").hold(&held), at("Do after.").text("After.")]);
    let running = run_in(&place, &server, &["run", "flow.yaml", "--run-id", "r1", "-o", "json"]).spawn();
    server.wait_for_requests(2, SOON);
    held.open();
    let run = running.wait();
    assert_eq!(run.assert_code(0).json()["outputs"], json!({"after": "After.", "busy": "Busy."}), "{run}");
}

#[test]
fn an_answer_reaches_a_process_that_is_at_work() {
    let document = "name: busy\noptions: {maxConcurrency: 1}\nsteps:\n  - {id: gate, approve: 'Go?'}\n  - {id: after, instructions: Do after., dependsOn: [gate]}\n  - {id: busy, instructions: Do busy.}\n";
    let place = place(document);
    let held = Gate::new();
    let server = Server::start([at("Do busy.").text("Busy.").hold(&held), at("Do after.").text("After.")]);
    // Who waits for a person is in nobody's way, so there is room for the other step.
    let mut running = run_in(&place, &server, &["run", "flow.yaml", "--run-id", "r1", "-o", "json"]).spawn();
    running.wait_for_stderr("step gate: asks for an approval: Go?");
    server.wait_for_requests(1, SOON);
    let answer = flow(&place, &["approve", "r1", "gate"]);
    let pid = running.pid();
    assert_eq!(
        answer.assert_code(0).stderr,
        format!("the run is being run, and process {pid} goes on with it\n")
    );
    held.open();
    let run = running.wait();
    assert_eq!(run.assert_code(0).json()["outputs"], json!({"after": "After.", "busy": "Busy."}), "{run}");
}

#[test]
fn a_process_that_is_killed_while_it_waits_loses_nothing() {
    let document = "name: killed\nsteps:\n  - {id: gate, approve: 'Go?'}\n  - {id: after, instructions: Do after., dependsOn: [gate]}\n  - {id: busy, instructions: Do busy.}\n";
    let place = place(document);
    let server = Server::start([at("Do busy.").text("B").hang_after_events(1)]);
    let mut running = run_in(&place, &server, &["run", "flow.yaml", "--run-id", "r1"]).spawn();
    running.wait_for_stderr("step gate: asks for an approval: Go?");
    server.wait_for_requests(1, SOON);
    running.signal(Signal::Kill);
    running.wait();
    // Nobody runs it, and the question stands.
    let answer = flow(&place, &["approve", "r1", "gate"]);
    assert!(answer.assert_code(0).stderr.contains("tenon flow resume r1\n"), "{answer}");
    flow(&place, &["approve", "r1", "gate"]).assert_code(0);
    let server = Server::start([at("Do busy.").text("Busy."), at("Do after.").text("After.")]);
    let run = run_in(&place, &server, &["resume", "r1", "-o", "json"]).run();
    assert_eq!(run.assert_code(0).json()["outputs"], json!({"after": "After.", "busy": "Busy."}), "{run}");
    server.assert_script_done();
    assert_eq!((rows(&place, "asked"), rows(&place, "resolved")), (1, 1));
}

#[test]
fn a_denial_is_a_failure_and_the_document_says_what_follows() {
    let document = |options: &str, deny: &str| {
        format!(
            "name: denied\noptions: {{{options}}}\nsteps:\n  - id: gate\n    approve: {{message: 'Go?'{deny}}}\n  - {{id: after, instructions: Do after., dependsOn: [gate]}}\n  - {{id: last, instructions: Do last., dependsOn: [after]}}\n  - {{id: if-not, instructions: Do other., dependsOn: [gate], condition: '!steps.gate.result.approved'}}\n"
        )
    };
    let table: [(&str, &str, i32, &[&str]); 4] = [
        ("", "", 1, &["gate failed", "after cancelled", "last cancelled", "if-not cancelled"]),
        (
            "onStepFailure: skip-dependents",
            "",
            1,
            &["gate failed", "after skipped", "last skipped", "if-not skipped"],
        ),
        (
            "onStepFailure: abort",
            "",
            1,
            &["gate failed", "after cancelled", "last cancelled", "if-not cancelled"],
        ),
        (
            "",
            ", onDeny: continue",
            0,
            &["gate completed", "after completed", "last completed", "if-not completed"],
        ),
    ];
    for (options, deny, code, wanted) in table {
        let (place, _) = suspended(&document(options, deny), &Server::start([]));
        let answer = flow(&place, &["approve", "r1", "gate", "--deny"]);
        assert!(answer.assert_code(0).stdout.starts_with("denied by "), "{answer}");
        let server = Server::start([
            at("Do after.").text("A.").forever(),
            at("Do last.").text("L.").forever(),
            at("Do other.").text("O.").forever(),
        ]);
        let run = run_in(&place, &server, &["resume", "r1", "-o", "json"]).run();
        run.assert_code(code);
        assert_eq!(statuses(&run), wanted, "{options} {deny}: {run}");
        if code == 1 {
            let report = run.json();
            assert_eq!(report["error"]["class"], "denied", "{run}");
            assert!(
                report["error"]["message"]
                    .as_str()
                    .unwrap()
                    .starts_with("step `gate` failed: it was denied by")
            );
            assert_eq!(report["steps"]["gate"]["result"]["approved"], false);
            // What a person said stands when the run is gone on with.
            let run = resumed(&place);
            assert_eq!(run.assert_code(1).json()["error"]["class"], "denied", "{run}");
            assert_eq!((rows(&place, "asked"), rows(&place, "resolved")), (1, 1));
        }
    }
}

#[test]
fn an_abort_takes_back_a_question() {
    let document = "name: aborted\noptions: {onStepFailure: abort}\nsteps:\n  - {id: gate, approve: 'Go?'}\n  - {id: busy, instructions: Do busy.}\n";
    let place = place(document);
    let server = Server::start([super::flow_resume::refused("Do busy.")]);
    let run = run_in(&place, &server, &["run", "flow.yaml", "--run-id", "r1", "-o", "json"]).run();
    run.assert_code(1);
    assert_eq!(statuses(&run), ["gate cancelled", "busy failed"], "{run}");
    let late = flow(&place, &["approve", "r1", "gate"]);
    assert!(late.assert_code(42).stderr.contains("no longer asks `gate`"), "{late}");
    // Gone on with, it asks anew.
    let server = Server::start([at("Do busy.").text("Busy.")]);
    run_in(&place, &server, &["resume", "r1"]).run().assert_code(42);
    flow(&place, &["approve", "r1", "gate"]).assert_code(0);
    resumed(&place).assert_code(0);
}

#[test]
fn what_is_given_with_an_answer_fits_what_is_asked_for() {
    let document = "name: data
steps:
  - id: gate
    approve:
      message: How many?
      data: { type: object, properties: { n: { type: integer }, why: { type: string } }, required: [n], additionalProperties: false }
outputs: { n: steps.gate.result.data.n, whole: steps.gate.result.data }
";
    let (place, run) = suspended(document, &Server::start([]));
    assert!(run.stderr.contains("  tenon flow approve r1 gate --data JSON\n"), "{run}");
    let without = flow(&place, &["approve", "r1", "gate"]);
    assert!(
        without.assert_code(42).stderr.contains("`--data` is needed\nhint: a JSON object that fits {"),
        "{without}"
    );
    for (data, says) in [
        ("{\"n\":\"3\"}", "/n: expected integer, got string"),
        ("{\"n\":1,\"m\":2}", "m"),
        ("[1]", "object"),
        ("{\"n\":", "`--data` does not fit"),
        ("@missing.json", "`--data missing.json` cannot be read"),
    ] {
        let run = flow(&place, &["approve", "r1", "gate", "--data", data]);
        assert!(run.assert_code(42).stderr.contains(says), "{data}: {run}");
    }
    assert_eq!(rows(&place, "resolved"), 0);
    let place = place.file("data.json", "{\"n\":12345678901234567890123}");
    flow(&place, &["approve", "r1", "gate", "--data", "@data.json"]).assert_code(0);
    let run = run_in(&place, &Server::start([]), &["resume", "r1"]).run();
    assert!(run.assert_code(0).stdout.contains("12345678901234567890123"), "{run}");
    let shown = flow(&place, &["show", "r1", "--format", "json"]).json();
    assert_eq!(shown["questions"][0]["answer"]["data"], Value::Null, "{shown}");
    let shown = flow(&place, &["show", "r1", "--format", "json", "--payloads"]);
    assert!(shown.stdout.contains("12345678901234567890123"), "{shown}");
}

#[test]
fn questions_in_includes_and_loops_have_names_of_their_own() {
    let document = "name: deep
steps:
  - { id: inner, include: inner.yaml }
  - id: each
    loop:
      forEach: [x, y]
      steps:
        - { id: gate, approve: \"Item ${{ item }}?\" }
        - { id: do, instructions: \"Do ${{ item }}.\", dependsOn: [gate] }
  - id: rounds
    loop:
      maxIterations: 3
      until: steps.ok.result.approved
      steps:
        - { id: ok, approve: {message: \"Round ${{ iteration }}?\", onDeny: continue} }
";
    let inner = "name: inner\nsteps:\n  - { id: look, instructions: Do look. }\n  - { id: gate, approve: Inside?, dependsOn: [look] }\n  - { id: then, instructions: Do then., dependsOn: [gate] }\n";
    let place = tenon().file("flow.yaml", document).file("inner.yaml", inner);
    let server = Server::start([at("Do look.").text("Looked.")]);
    let run = run_in(&place, &server, &["run", "flow.yaml", "--run-id", "r1", "-o", "json"]).run();
    let report = run.assert_code(42).json();
    let asked: Vec<String> = report["questions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| format!("{}: {}", it["step_id"].as_str().unwrap(), it["message"].as_str().unwrap()))
        .collect();
    let mut asked_sorted = asked.clone();
    asked_sorted.sort();
    let wanted =
        ["each[0].gate: Item x?", "each[1].gate: Item y?", "inner.gate: Inside?", "rounds.0.ok: Round 0?"];
    assert_eq!(asked_sorted, wanted, "{run}");
    let unknown = flow(&place, &["approve", "r1", "gate"]);
    assert!(unknown.assert_code(42).stderr.contains("has asked no `gate`"), "{unknown}");
    assert!(unknown.stderr.contains("hint: it waits for "), "{unknown}");
    flow(&place, &["approve", "r1", "each[1].gate"]).assert_code(0);
    flow(&place, &["approve", "r1", "rounds.0.ok", "--deny"]).assert_code(0);
    let server = Server::start([at("Do y.").text("Y.")]);
    let run = run_in(&place, &server, &["resume", "r1", "-o", "json"]).run();
    assert_eq!(run.assert_code(42).json()["questions"].as_array().unwrap().len(), 3, "{run}");
    server.assert_script_done();
    for step in ["each[0].gate", "inner.gate", "rounds.1.ok"] {
        flow(&place, &["approve", "r1", step]).assert_code(0);
    }
    let server = Server::start([at("Do x.").text("X."), at("Do then.").text("Then.")]);
    let run = run_in(&place, &server, &["resume", "r1", "-o", "json"]).run();
    assert_eq!(run.assert_code(0).json()["status"], "completed", "{run}");
    server.assert_script_done();
    assert_eq!((rows(&place, "asked"), rows(&place, "resolved")), (5, 5));
}

#[test]
fn a_changed_question_is_asked_anew_and_an_unchanged_one_is_not() {
    let (place, _) = suspended(GATED, &planned());
    flow(&place, &["approve", "r1", "gate"]).assert_code(0);
    let write = |document: &str| std::fs::write(place.workspace().join("flow.yaml"), document).unwrap();
    write(&GATED.replace("Deploy to", "Really deploy to"));
    resumed(&place).assert_code(42);
    let run = run_in(&place, &Server::start([]), &["resume", "r1", "--accept-changes", "-o", "json"]).run();
    assert_eq!(run.assert_code(42).json()["questions"][0]["message"], "Really deploy to staging?", "{run}");
    // What somebody said to another question is no answer to this one.
    assert_eq!((rows(&place, "asked"), rows(&place, "resolved")), (1, 0));
    flow(&place, &["approve", "r1", "gate"]).assert_code(0);
    write(&GATED.replace("Deploy to", "Really deploy to").replace("Ship by", "Send by"));
    let server = Server::start([at("Send by").text("Sent.")]);
    let run = run_in(&place, &server, &["resume", "r1", "--accept-changes"]).run();
    assert_eq!(run.assert_code(0).stdout, "Sent.\n", "{run}");
}

#[test]
fn a_run_that_is_not_kept_cannot_wait() {
    let server = Server::start([]);
    let run = run_in(&place(GATED), &server, &["run", "flow.yaml", "--no-journal", "-o", "json"]).run();
    let report = run.assert_code(42).json();
    assert_eq!(report["error"]["class"], "input", "{run}");
    assert!(report["error"]["message"].as_str().unwrap().starts_with("the step `gate` asks for an approval"));
    assert_eq!(server.requests().len(), 0);
}

#[test]
fn a_suspended_run_can_be_cancelled_and_is_never_too_old() {
    let (place, _) = suspended(GATED, &planned());
    // However long ago: it is kept until somebody says otherwise.
    database(&place).execute("UPDATE runs SET created = 1, updated = 1", []).unwrap();
    let other = "name: other\nsteps:\n  - {id: a, instructions: Do a.}\n";
    let place = place.file("other.yaml", other);
    let server = Server::start([at("Do a.").text("A.")]);
    run_in(&place, &server, &["run", "other.yaml"]).run().assert_code(0);
    assert!(flow(&place, &["list"]).stdout.contains("r1 "), "it is there");

    assert_eq!(flow(&place, &["cancel", "r1"]).assert_code(0).stdout, "cancelled r1\n");
    let late = flow(&place, &["approve", "r1", "gate"]);
    assert!(late.assert_code(42).stderr.contains("no longer asks `gate`: it is cancelled"), "{late}");
    resumed(&place).assert_code(42);
    flow(&place, &["approve", "r1", "gate"]).assert_code(0);
    run_in(&place, &Server::start([at("Ship by").text("Done.")]), &["resume", "r1"]).run().assert_code(0);
    flow(&place, &["delete", "r1"]).assert_code(0);
    let gone = flow(&place, &["approve", "r1", "gate"]);
    assert!(gone.assert_code(42).stderr.contains("there is no run `r1`"), "{gone}");
}

//! Loops and included documents: what they may spend, what they keep when something in them fails, and what is said of it.

use tenon_testkit::{Server, Tenon, Value, json, reply};

use super::flow_run::{at, flow};
use super::tenon;

const JUDGE: &str = "agents:\n  j: { description: J., prompt: You judge., resultSchema: { type: object, required: [done], properties: { done: { type: boolean } } } }\n";

fn five_steps() -> String {
    (0..5).map(|number| format!("  - {{ id: s{number}, instructions: Do it. }}\n")).collect()
}

fn answering() -> Server {
    Server::start([reply().text("t").usage(100, 10).forever()])
}

fn report(tenon: Tenon) -> Value {
    tenon.args(["-o", "json"]).run().json()
}

/// Of two documents one inside the other, the one whose budget it is fails, and is named.
#[test]
fn a_budget_is_that_of_the_document_that_has_it() {
    let inner = format!("name: inc2\nbudget: {{ maxTurns: 9 }}\nsteps:\n{}", five_steps());
    for (budget, step, requests, said) in [
        ("maxTurns: 2", "{ id: p, include: inc.yaml }", 2, "`sub/inc.yaml` has used 2 of its 2 model turns"),
        (
            "maxTokens: 200",
            "{ id: p, include: inc.yaml }",
            2,
            "`sub/inc.yaml` has used 220 of the 200 tokens",
        ),
        (
            "maxTurns: 2",
            "{ id: p, loop: { forEach: [1], steps: [{ id: k, include: inc.yaml }] } }",
            2,
            "`sub/inc.yaml` has used 2 of its 2 model turns",
        ),
    ] {
        let field = budget.split(':').next().unwrap();
        // The same name in another folder is another document.
        let server = answering();
        let middle = format!(
            "name: inc\nbudget: {{ {budget} }}\nsteps:\n  - {}\n",
            step.replace("inc.yaml", "deep/inc.yaml")
        );
        let run = flow(&server, "name: n\nsteps:\n  - { id: i, include: sub/inc.yaml }\n")
            .file("sub/inc.yaml", &middle)
            .file("sub/deep/inc.yaml", &inner)
            .args(["-o", "stream-json"])
            .run();
        let end = run.assert_code(1).stdout.lines().last().unwrap().to_owned();
        let end: Value = serde_json::from_str(&end).unwrap();
        let error = &end["data"]["steps"]["i"]["error"];
        let message = error["message"].as_str().unwrap();
        assert!(message.contains(said) && !message.contains("deep/inc.yaml"), "{run}");
        assert!(message.contains(&format!("`budget.{field}` of `sub/inc.yaml`")), "{run}");
        assert_eq!(error["hint"], format!("raise `budget.{field}` of `sub/inc.yaml`"), "{run}");
        assert_eq!(server.requests().len(), requests, "{run}");
        let ends: Vec<Value> = run.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let of_p =
            ends.iter().find(|event| event["type"] == "step_end" && event["step_id"] == "i.p").unwrap();
        assert_eq!(of_p["data"]["status"], "cancelled", "it did nothing wrong: {run}");
    }
}

#[test]
fn attempts_at_an_include_share_its_budget_also_when_the_run_goes_on() {
    let inner = |budget: &str| {
        format!(
            "name: inc\nbudget: {{ {budget} }}\n{JUDGE}steps:\n  - {{ id: p, instructions: Do p. }}\n  - {{ id: q, dependsOn: [p], agent: j, instructions: Do q. }}\n"
        )
    };
    let nested = "name: mid\nsteps:\n  - { id: k, include: inc.yaml }\n";
    for (budget, document, requests) in [
        ("maxTurns: 3", "name: n\nsteps:\n  - { id: i, retries: 3, include: inc.yaml }\n", 3),
        ("maxTokens: 331", "name: n\nsteps:\n  - { id: i, retries: 3, include: inc.yaml }\n", 4),
        ("maxTurns: 4", "name: n\nsteps:\n  - { id: i, retries: 3, include: mid.yaml }\n", 4),
        (
            "maxTurns: 4",
            "name: n\nsteps:\n  - { id: i, retries: 3, loop: { maxIterations: 1, steps: [{ id: k, include: inc.yaml }] } }\n",
            4,
        ),
    ] {
        let server = answering();
        let place =
            tenon().file("inc.yaml", inner(budget)).file("mid.yaml", nested).file("flow.yaml", document);
        let run = |args: &[&str]| {
            place.clone().server(&server).args(["flow"]).args(args).args(["-o", "json"]).run()
        };
        let first = run(&["run", "flow.yaml", "--run-id", "r1"]);
        let error = first.assert_code(1).json()["steps"]["i"]["error"].clone();
        assert_eq!((server.requests().len(), &error["class"]), (requests, &json!("budget")), "{first}");
        assert!(error["message"].as_str().unwrap().contains("`inc.yaml` has used "), "{first}");
        // Nothing has changed, so nothing more may be spent.
        let again = run(&["resume", "r1"]);
        let error = again.assert_code(1).json()["steps"]["i"]["error"].clone();
        assert_eq!((server.requests().len(), &error["class"]), (requests, &json!("budget")), "{again}");
    }
}

/// Another item or round is other work: it has a count of its own.
#[test]
fn each_item_has_the_budget_of_its_document_anew() {
    let server = answering();
    let inner = "name: inc\nbudget: { maxTurns: 1 }\nsteps:\n  - { id: p, instructions: Do p. }\n";
    for kind in ["forEach: [1, 2, 3]", "maxIterations: 3"] {
        let document = format!(
            "name: n\nsteps:\n  - {{ id: l, loop: {{ {kind}, steps: [{{ id: k, include: inc.yaml }}] }} }}\n"
        );
        let before = server.requests().len();
        flow(&server, &document).file("inc.yaml", inner).run().assert_code(0);
        assert_eq!(server.requests().len(), before + 3);
    }
}

#[test]
fn a_judge_without_a_key_is_told_at_the_end() {
    let judge = || reply().when(|body| body["messages"][0]["content"].to_string().contains("You judge."));
    let server = Server::start([judge().status(401).forever(), at("Do a.").text("w").forever()]);
    let document = format!(
        "name: n\n{JUDGE}steps:\n  - {{ id: a, instructions: Do a., loop: {{ maxIterations: 2, untilAgent: j }} }}\n"
    );
    let report = report(flow(&server, &document));
    let error = &report["error"];
    let message = error["message"].as_str().unwrap();
    assert!(message.contains("its judge `j` failed in 2 of 2 iterations, the last time with: "), "{message}");
    assert!(message.contains("401"), "{message}");
    let hint = error["hint"].as_str().unwrap();
    assert!(
        hint.starts_with("see to it that the judge can answer") && !hint.contains("maxIterations"),
        "{hint}"
    );
    assert_eq!(report["steps"]["a"]["content"], "w");
}

/// A status 500 is repeated like any other trouble of a server's: later.
#[test]
fn a_step_whose_server_failed_waits_before_it_is_tried_again() {
    let server = Server::start([at("Do a.").status(500), at("Do a.").text("done")]);
    let document = "name: n\nsteps:\n  - { id: a, instructions: Do a., retries: 1, maxRetries: 0 }\n";
    let run = flow(&server, document).args(["-o", "stream-json"]).run();
    let events: Vec<Value> =
        run.assert_code(0).stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let retry = events.iter().find(|event| event["type"] == "error").unwrap();
    assert_eq!(retry["data"]["retry_after_ms"], 500, "{retry}");
}

#[test]
fn max_retries_of_an_include_and_of_a_loop_reach_the_steps_inside() {
    let inner = "name: inc\nsteps:\n  - { id: a, instructions: Do a. }\n";
    for step in [
        "{ id: i, include: inc.yaml, maxRetries: 0 }",
        "{ id: l, maxRetries: 0, loop: { maxIterations: 2, steps: [{ id: b, instructions: Do a. }] } }",
    ] {
        let server = Server::start([at("Do a.").status(503).forever()]);
        let run = flow(&server, &format!("name: n\nsteps:\n  - {step}\n"))
            .file("inc.yaml", inner)
            .home_file("settings.json", r#"{"retry":{"baseMs":1}}"#)
            .run();
        run.assert_code(1);
        assert_eq!(server.requests().len(), 1, "{run}");
    }
}

#[test]
fn what_an_included_document_calls_inner_steps_reaches_stdout() {
    let inner = "name: inc\nsteps:\n  - { id: p, instructions: Do p. }\noutputs: { innerSteps: '5' }\n";
    let run = flow(&answering(), "name: n\nsteps:\n  - { id: i, include: inc.yaml }\n")
        .file("inc.yaml", inner)
        .run();
    assert_eq!(run.assert_code(0).stdout, "{\"innerSteps\":5}\n", "{run}");
    assert!(run.stderr.contains("one of its `outputs` is called `innerSteps`"), "{run}");
}

/// Every step is done, and the run has nothing to give back.
#[test]
fn outputs_that_fail_are_named_where_the_steps_are_counted() {
    let document = "name: n\nsteps:\n  - { id: p, instructions: Do p. }\noutputs: { bad: '1 / (size(steps.p.content) - 1)' }\n";
    let run = flow(&answering(), document).run();
    let stderr = &run.assert_code(1).stderr;
    assert!(stderr.contains("workflow failed: 1 completed, but its `outputs` failed\n"), "{run}");
    assert!(stderr.contains("error[expression]: the output `bad` cannot be evaluated"), "{run}");
}

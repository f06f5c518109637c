//! `budget.maxTurns` and `budget.maxTokens`: kept before every request, whoever asks, also after a run was resumed.

use tenon_testkit::{Reply, Server, Tenon, Value, json, reply};

use super::flow_run::{at, flow};
use super::tenon;

const ATTEMPTS: &str = "attempts";

/// Works as long as it is let: looks here and there, over and over.
fn restless() -> [Reply; 2] {
    let is_even = |body: &Value| body["messages"].as_array().is_some_and(|all| all.len() % 4 == 2);
    let look = |path: &str| reply().call("c", "list_directory", json!({ "path": path })).usage(10, 10);
    [look(".").when(is_even).forever(), look("..").forever()]
}

/// Never submits what it has to, and so is asked again and again.
fn talkative() -> [Reply; 1] {
    [reply().text("no").usage(10, 10).forever()]
}

fn model_for(shape: &str) -> Server {
    if shape == ATTEMPTS { Server::start(talkative()) } else { Server::start(restless()) }
}

fn run(server: &Server, document: &str) -> Tenon {
    flow(server, document).args(["-o", "json", "--run-id", "r1"])
}

fn error(report: &Value) -> (String, String) {
    let text = |field: &str| report["error"][field].as_str().unwrap_or_default().to_owned();
    assert_eq!((&report["status"], &report["error"]["class"]), (&json!("budget_exceeded"), &json!("budget")));
    (text("message"), text("hint"))
}

/// Every shape of a run that has something to ask again and again. `N` turns are allowed, or tokens for as many.
fn shapes() -> Vec<(&'static str, String)> {
    let judge = "agents:\n  judge: { description: d, resultSchema: { type: object, required: [done], properties: { done: { type: boolean } } } }\n";
    vec![
        ("one step", "steps:\n  - { id: a, instructions: Do a. }\n".into()),
        (
            "a chain",
            "steps:\n  - { id: a, instructions: Do a., agent: two }\n  - { id: b, instructions: Do b., dependsOn: [a] }\nagents: { two: { description: d, maxTurns: 2 } }\n".into(),
        ),
        (
            "side by side",
            "steps:\n  - { id: a, instructions: Do a. }\n  - { id: b, instructions: Do b. }\n  - { id: c, instructions: Do c. }\n".into(),
        ),
        (
            "items",
            "steps:\n  - { id: a, instructions: Do it., loop: { forEach: [1, 2, 3, 4, 5, 6, 7, 8], maxConcurrency: 8 } }\n".into(),
        ),
        (
            "rounds",
            "steps:\n  - { id: a, instructions: Do it., agent: one, loop: { maxIterations: 90, until: 'false' } }\nagents: { one: { description: d, maxTurns: 1 } }\n".into(),
        ),
        (
            "rounds and a judge",
            format!("{judge}steps:\n  - {{ id: a, instructions: Do it., loop: {{ maxIterations: 90, untilAgent: judge }} }}\n"),
        ),
        (
            ATTEMPTS,
            "steps:\n  - { id: a, instructions: Do it., agent: one, retries: 90 }\nagents: { one: { description: d, resultSchema: { type: object } } }\n".into(),
        ),
        (
            "included",
            "steps:\n  - { id: a, include: inner.yaml }\n  - { id: b, include: inner.yaml }\n".into(),
        ),
    ]
}

const INNER: &str =
    "name: inner\nsteps:\n  - { id: x, instructions: Do x. }\n  - { id: y, instructions: Do y. }\n";

#[test]
fn no_request_is_sent_beyond_the_turns_of_a_run_whatever_its_shape() {
    for (shape, steps) in shapes() {
        for turns in [1, 3, 7] {
            let server = model_for(shape);
            let document = format!("name: n\nbudget: {{ maxTurns: {turns} }}\n{steps}");
            let run = run(&server, &document).file("inner.yaml", INNER).run();
            assert_eq!(run.code, 55, "{shape}: {run}");
            let report = run.json();
            let (message, hint) = error(&report);
            assert_eq!(server.requests().len(), turns, "{shape}: {run}");
            assert!(
                message.contains(&format!("has used {turns} of its {turns} model turns")),
                "{shape}: {message}"
            );
            assert!(message.contains("(`budget.maxTurns` of the document)"), "{shape}: {message}");
            assert_eq!(hint, "raise `budget.maxTurns` of the document", "{shape}");
            let steps = report["steps"].as_object().unwrap();
            for (id, step) in steps.iter().filter(|(_, step)| step["status"] != "completed") {
                assert_eq!(
                    (&step["status"], &step["error"]["class"]),
                    (&json!("cancelled"), &json!("budget")),
                    "{shape}, {id}: {run}"
                );
            }
            let last = run.stderr.lines().last().unwrap();
            assert!(
                last.contains("tenon flow resume r1") && last.contains("--accept-changes"),
                "{shape}: {run}"
            );
        }
    }
}

/// A request that is under way is waited for; the one that reaches the limit is the last.
#[test]
fn tokens_are_passed_by_one_request_at_most_whatever_the_shape() {
    for (shape, steps) in shapes() {
        for (tokens, requests) in [(1, 1), (20, 1), (21, 2), (130, 7)] {
            let server = model_for(shape);
            let document = format!("name: n\nbudget: {{ maxTokens: {tokens} }}\n{steps}");
            let run = run(&server, &document).file("inner.yaml", INNER).run();
            assert_eq!(run.code, 55, "{shape}: {run}");
            let report = run.json();
            let (message, hint) = error(&report);
            assert_eq!(
                (server.requests().len(), &report["usage"]["total"]),
                (requests, &json!(20 * requests)),
                "{shape}: {run}"
            );
            let used = format!("has used {} of the {tokens} tokens it may use", 20 * requests);
            assert!(message.contains(&used), "{shape}: {message}");
            assert_eq!(hint, "raise `budget.maxTokens` of the document", "{shape}");
        }
    }
}

#[test]
fn a_run_that_needs_exactly_what_it_may_use_completes() {
    for (budget, wide) in [("maxTurns: 3", 3), ("maxTokens: 60", 3), ("maxTurns: 1", 1), ("maxTokens: 1", 1)]
    {
        let server = Server::start([reply().text("done").usage(10, 10).forever()]);
        let items: Vec<String> = (0..wide).map(|item| item.to_string()).collect();
        let document = format!(
            "name: n\nbudget: {{ {budget} }}\nsteps:\n  - {{ id: a, instructions: Do it., loop: {{ forEach: [{}] }} }}\n",
            items.join(", ")
        );
        let run = run(&server, &document).run();
        assert_eq!(run.assert_code(0).json()["status"], "completed", "{budget}: {run}");
        assert_eq!(server.requests().len(), wide, "{budget}");
    }
}

/// The one whose request is refused ends first, and with it the run: who has answered by then is done all the same.
#[test]
fn a_step_that_has_answered_is_completed_when_a_budget_ends_the_run() {
    for budget in ["maxTurns: 1", "maxTokens: 1", "maxTurns: 2", "maxTokens: 21"] {
        for contract in ["", ", agent: r"] {
            for wide in [2, 5] {
                let answer = match contract {
                    "" => reply().text("done"),
                    _ => reply().call("c", "submit_result", json!({ "a": 1 })),
                };
                let server = Server::start([answer.usage(10, 10).forever()]);
                let steps: String = (0..wide)
                    .map(|n| format!("  - {{ id: s{n}, instructions: Do it.{contract} }}\n"))
                    .collect();
                let agents = "agents: { r: { description: d, resultSchema: { type: object } } }";
                let run =
                    run(&server, &format!("name: n\nbudget: {{ {budget} }}\n{agents}\nsteps:\n{steps}"))
                        .run();
                let report = run.json();
                let answered = server.requests().len();
                let all = report["steps"].as_object().unwrap();
                let completed: Vec<&Value> =
                    all.values().filter(|step| step["status"] == "completed").collect();
                assert_eq!(completed.len(), answered, "{budget}: {run}");
                assert_eq!(run.code, if answered == wide { 0 } else { 55 }, "{budget}: {run}");
                let unpaid = |step: &&Value| step["status"] != "completed" && step["content"] != "";
                assert_eq!(all.values().find(unpaid), None, "{budget}: {run}");
            }
        }
    }
}

/// What was used before counts, turn by turn, also of steps that were cut off.
#[test]
fn a_limit_that_is_raised_lets_the_run_go_on_by_the_difference() {
    let document = |budget: &str, steps: &str| format!("name: n\nbudget: {{ {budget} }}\n{steps}");
    for (shape, steps) in shapes() {
        let server = model_for(shape);
        let place = tenon().file("inner.yaml", INNER);
        let stages: [(&[&str], &str, usize); 4] = [
            (&["run", "flow.yaml", "--run-id", "r1"], "maxTurns: 2", 2),
            (&["resume", "r1", "flow.yaml", "--accept-changes"], "maxTurns: 2", 2),
            (&["resume", "r1", "flow.yaml", "--accept-changes"], "maxTurns: 5", 5),
            (&["resume", "r1", "flow.yaml", "--accept-changes"], "maxTokens: 140", 7),
        ];
        for (args, budget, requests) in stages {
            let run = place.clone().file("flow.yaml", document(budget, &steps)).server(&server);
            let run = run.args(["flow"]).args(args).args(["-o", "json"]).run();
            let report = run.assert_code(55).json();
            error(&report);
            assert_eq!(server.requests().len(), requests, "{shape}, {budget}: {run}");
            assert_eq!(report["usage"]["total"], 20 * requests, "{shape}, {budget}: {run}");
        }
    }
}

/// Helpers spend the turns of whoever asked them, and so does the agent beside the steps.
#[test]
fn helpers_and_the_coordinator_take_turns_of_the_run() {
    let helper = json!({ "description": "look", "prompt": "Look around." });
    let server = Server::start([
        at("Do a.").call("h", "agent", helper).usage(10, 10),
        reply().call("c", "list_directory", json!({ "path": "." })).usage(10, 10).forever(),
    ]);
    let document = "name: n\nbudget: { maxTurns: 4 }\nsteps:\n  - { id: a, instructions: Do a. }\n";
    let report = run(&server, document).run().assert_code(55).json();
    assert!(error(&report).0.contains("4 of its 4 model turns"), "{report}");
    assert_eq!(server.requests().len(), 4);
    let asked_helper =
        server.requests().iter().any(|request| request.body.to_string().contains("Look around."));
    assert!(asked_helper, "{report}");

    let server = Server::start([reply().text("done").usage(10, 10).forever()]);
    let document = "name: n\nbudget: { maxTurns: 2 }\nsteps:\n  - { id: a, instructions: Do a. }\n  - { id: b, instructions: Do b., dependsOn: [a] }\n  - { id: c, instructions: Do c., dependsOn: [b] }\n";
    let run = run(&server, document).arg("--coordinator").run();
    error(&run.assert_code(55).json());
    assert_eq!(server.requests().len(), 2, "{run}");
}

/// An included workflow has its own, within those of the run. What it has used up is nobody else's.
#[test]
fn an_included_workflow_keeps_its_own_budget() {
    let inner = |budget: &str| format!("{INNER}budget: {{ {budget} }}\n");
    for (outer, own, requests, said) in [
        ("", "maxTurns: 3", 3, "`inner.yaml` has used 3 of its 3 model turns"),
        ("budget: { maxTurns: 9 }\n", "maxTokens: 50", 3, "`inner.yaml` has used 60 of the 50 tokens"),
    ] {
        let server = Server::start(restless());
        let steps = "steps:\n  - { id: a, include: inner.yaml, retries: 2 }\n";
        let run = run(&server, &format!("name: n\n{outer}{steps}")).file("inner.yaml", inner(own)).run();
        let report = run.assert_code(1).json();
        let step = &report["steps"]["a"];
        assert_eq!((&report["status"], &step["status"]), (&json!("failed"), &json!("failed")), "{run}");
        let message = step["error"]["message"].as_str().unwrap();
        assert!(step["error"]["class"] == "budget" && message.contains(said), "{run}");
        let field = own.split(':').next().unwrap();
        assert_eq!(step["error"]["hint"], format!("raise `budget.{field}` of `inner.yaml`"), "{run}");
        assert_eq!(server.requests().len(), requests, "{run}");
        assert!(
            run.stderr.contains("change the document") && run.stderr.contains("--accept-changes"),
            "{run}"
        );
    }
    let server = Server::start(restless());
    let document = "name: n\nbudget: { maxTurns: 2 }\nsteps:\n  - { id: a, include: inner.yaml }\n";
    let run = run(&server, document).file("inner.yaml", inner("maxTurns: 3")).run();
    let (message, hint) = error(&run.assert_code(55).json());
    assert!(message.contains("the run has used 2 of its 2 model turns"), "{message}");
    assert_eq!((server.requests().len(), hint.as_str()), (2, "raise `budget.maxTurns` of the document"));
}

#[test]
fn what_is_beside_an_include_without_a_budget_goes_on() {
    let chain = |budget: &str| {
        format!(
            "name: inner\nbudget: {{ {budget} }}\nsteps:\n  - {{ id: x, instructions: Do x. }}\n  - {{ id: y, dependsOn: [x], instructions: Do y. }}\n  - {{ id: z, dependsOn: [y], instructions: Do z. }}\n"
        )
    };
    for include in [
        "include: inner.yaml",
        "loop: { forEach: [1], steps: [{ id: i, include: inner.yaml }] }",
        "loop: { maxIterations: 1, steps: [{ id: i, include: inner.yaml }] }",
    ] {
        let server = Server::start([reply().text("done").usage(10, 10).forever()]);
        let document = format!(
            "name: n\nsteps:\n  - {{ id: inc, {include} }}\n  - {{ id: slow, instructions: Do slow. }}\n  - {{ id: last, dependsOn: [slow], instructions: Do last. }}\n  - {{ id: after, dependsOn: [inc], instructions: Do after. }}\n"
        );
        let run = run(&server, &document).file("inner.yaml", chain("maxTurns: 2")).run();
        let report = run.assert_code(1).json();
        assert_eq!(report["status"], "partial", "{include}: {run}");
        for (id, status) in
            [("inc", "failed"), ("slow", "completed"), ("last", "completed"), ("after", "cancelled")]
        {
            assert_eq!(report["steps"][id]["status"], status, "{include}, {id}: {run}");
        }
        let error = &report["steps"]["inc"]["error"];
        let message = error["message"].as_str().unwrap();
        assert_eq!(error["class"], "budget", "{run}");
        assert!(message.contains("`inner.yaml` has used 2 of its 2 model turns"), "{run}");
        assert!(!message.contains("the run has"), "{run}");
    }
}

/// What nobody answers is no turn.
#[test]
fn a_request_that_failed_leaves_its_turn() {
    let server = Server::start([reply().status(400), reply().text("done").usage(10, 10)]);
    let document = "name: n\nbudget: { maxTurns: 1 }\noptions: { maxConcurrency: 1, onStepFailure: skip-dependents }\nsteps:\n  - { id: a, instructions: Do a. }\n  - { id: b, instructions: Do b. }\n";
    let run = run(&server, document).run();
    let report = run.assert_code(1).json();
    assert_eq!(
        (&report["steps"]["a"]["status"], &report["steps"]["b"]["status"]),
        (&json!("failed"), &json!("completed")),
        "{run}"
    );
}

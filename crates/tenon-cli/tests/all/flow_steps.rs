//! Steps of a workflow in order and out of it: conditions, failures, attempts, loops, includes, files.

use tenon_testkit::{Server, Value, json, reply};

use super::flow_run::{PIPELINE, at, flow, statuses, step, told};

/// §3.2
#[test]
fn a_condition_skips_a_step_and_those_after_it_still_run() {
    let document = r#"
name: n
steps:
  - { id: a, instructions: Do a. }
  - { id: b, instructions: Do b., dependsOn: [a], condition: "steps.a.content.contains('yes')" }
  - { id: c, instructions: Do c., dependsOn: [b] }
"#;
    let server = Server::start([at("Do a.").text("no"), at("Do c.").text("c")]);
    let run = flow(&server, document).args(["-o", "json"]).run();
    assert_eq!(statuses(run.assert_code(0)), ["a completed", "b skipped", "c completed"]);
    assert!(run.stderr.contains("step b: skipped (condition false)\n"), "{run}");
    assert_eq!(told(&server, 1), "## Task\nDo c.", "a step that was skipped leaves nothing behind");
}

/// §3.2, F8
#[test]
fn failure_strategies() {
    let document = |strategy: &str| {
        format!(
            "name: n\noptions: {{ onStepFailure: {strategy} }}\nsteps:\n  - {{ id: a, instructions: Do a. }}\n  - {{ id: b, instructions: Do b., dependsOn: [a] }}\n  - {{ id: c, instructions: Do c. }}\n"
        )
    };
    let refused = || at("Do a.").status(400).json(json!({"error": {"message": "no such thing"}}));
    let table = [
        ("cascade", ["a failed", "b cancelled", "c completed"], "partial"),
        ("skip-dependents", ["a failed", "b skipped", "c completed"], "partial"),
    ];
    for (strategy, wanted, status) in table {
        let server = Server::start([refused(), at("Do c.").text("c")]);
        let run = flow(&server, &document(strategy)).args(["-o", "json", "-q"]).run();
        assert_eq!(statuses(run.assert_code(1)), wanted, "{run}");
        let report = run.json();
        assert_eq!((&report["status"], &report["outputs"]), (&json!(status), &json!(null)));
        assert!(report["error"]["message"].as_str().unwrap().starts_with("step `a` failed: "), "{run}");
        assert!(run.stderr.contains("error["), "a failed run says so, quiet or not: {run}");
    }
    // The other step is under way when the first fails.
    let server =
        Server::start([refused().hold_until_requests(2), at("Do c.").hang_after_events(0).text("c")]);
    let run = flow(&server, &document("abort")).args(["-o", "json"]).run();
    assert_eq!(statuses(run.assert_code(1)), ["a failed", "b cancelled", "c cancelled"], "{run}");
    assert_eq!(run.json()["status"], "failed");
}

/// F8
#[test]
fn text_leaves_stdout_empty_when_the_run_did_not_complete() {
    let document =
        "name: n\nsteps:\n  - { id: a, instructions: Do a. }\n  - { id: c, instructions: Do c. }\n";
    let refused = at("Do a.").status(400).json(json!({"error": {"message": "bad"}}));
    let server = Server::start([refused, at("Do c.").text("c")]);
    let run = flow(&server, document).run();
    assert_eq!(run.assert_code(1).stdout, "");
    assert!(run.stderr.contains("step a: failed after "), "{run}");
    assert!(run.stderr.contains("workflow partial: 1 completed, 1 failed\nerror["), "{run}");
}

/// §3.3
#[test]
fn a_step_is_tried_again_and_spends_for_every_attempt() {
    let document =
        PIPELINE.replace("    instructions: Test it.", "    retries: 1\n    instructions: Test it.");
    let server = Server::start([
        at("Build it.").text("Built."),
        at("Test it.").text("no call").usage(10, 1),
        at("Test it.").text("still none").usage(10, 1),
        at("Test it.").call("c", "submit_result", json!({"passed": false})).usage(10, 1),
    ]);
    let run = flow(&server, &document).args(["-o", "json"]).run();
    let report = run.assert_code(0).json();
    assert_eq!(step(&report, "test")["usage"]["total"], 33, "{run}");
    assert_eq!(step(&report, "ship")["status"], "skipped");
    assert!(
        run.stderr.contains("resultSchema defined but submit_result never called; it is tried again"),
        "{run}"
    );
}

/// §3.3: transport errors are the model request's to repeat, as often as the document says.
#[test]
fn max_retries_bounds_the_requests_of_one_call() {
    let document = |retries: u32| {
        format!("name: n\nsteps:\n  - {{ id: a, instructions: Do a., maxRetries: {retries} }}\n")
    };
    for (retries, requests) in [(0, 1), (2, 3)] {
        let server = Server::start([at("Do a.").status(503).text_body("busy").forever()]);
        let run = flow(&server, &document(retries))
            .home_file("settings.json", r#"{"retry":{"baseMs":1}}"#)
            .args(["-o", "json"])
            .run();
        assert_eq!(step(&run.assert_code(1).json(), "a")["error"]["class"], "overloaded", "{run}");
        assert_eq!(server.requests().len(), requests);
    }
}

/// §3.5, F3
#[test]
fn rounds_of_a_loop_see_what_is_around_them_and_what_came_before() {
    let document = r#"
name: n
agents:
  judge:
    description: Judges.
    resultSchema: { type: object, required: [done], properties: { done: { type: boolean }, why: { type: string } } }
steps:
  - { id: brief, instructions: Brief. }
  - id: refine
    dependsOn: [brief]
    loop:
      maxIterations: 3
      untilAgent: judge
      steps:
        - { id: write, instructions: Write. }
        - { id: check, instructions: Check., dependsOn: [write] }
"#;
    let verdict = |done: bool, why: &str| {
        reply().when_contains("## Your Task: Evaluate Loop Progress").call(
            "j",
            "submit_result",
            json!({"done": done, "why": why}),
        )
    };
    let server = Server::start([
        at("Brief.").text("The brief."),
        at("Write.").text("Draft 1."),
        at("Check.").text("Checked 1."),
        verdict(false, "too short"),
        at("Write.").text("Draft 2."),
        at("Check.").text("Checked 2."),
        verdict(true, "good"),
    ]);
    let run = flow(&server, document).run();
    assert_eq!(run.assert_code(0).stdout, "Checked 2.\n");
    server.assert_script_done();
    assert!(told(&server, 1).contains("### brief (completed)\nThe brief."), "{}", told(&server, 1));
    let second = told(&server, 4);
    assert!(second.contains("## Iteration 2"), "{second}");
    assert!(second.contains("## Previous Iteration Output (Iteration 1)\nChecked 1."), "{second}");
    assert!(second.contains("## Judge Feedback (Iteration 1)") && second.contains("too short"), "{second}");
    assert!(told(&server, 6).contains("Checked 2."), "a judge reads what was done");
}

/// §3.5, F5
#[test]
fn every_item_has_a_run_of_its_own() {
    let document = r#"
name: n
agents:
  sizer:
    description: Sizes.
    resultSchema: { type: object, required: [size], properties: { size: { type: integer } } }
steps:
  - id: each
    agent: sizer
    instructions: Size it.
    loop: { forEach: [ { name: api }, { name: web } ], maxConcurrency: 1 }
"#;
    let server = Server::start([
        at("Size it.").call("a", "submit_result", json!({"size": 1})),
        at("Size it.").call("b", "submit_result", json!({"size": 2})),
    ]);
    let run = flow(&server, document).run();
    let result: Value = serde_json::from_str(&run.assert_code(0).stdout).unwrap();
    assert_eq!(result["iterations"][0]["item"], json!({"name": "api"}), "{run}");
    assert_eq!(result["iterations"][1]["result"], json!({"size": 2}), "{run}");
    assert!(
        told(&server, 1).ends_with("## forEach Item (index: 1)\n{\"name\":\"web\"}"),
        "{}",
        told(&server, 1)
    );
}

/// §3.6
#[test]
fn an_included_workflow_runs_as_a_step() {
    let included = "name: inner\nsteps:\n  - { id: x, instructions: Do x. }\n  - { id: y, instructions: Do y., dependsOn: [x] }\n";
    let document = "name: n\nsteps:\n  - { id: a, instructions: Do a. }\n  - { id: in, include: inner.yaml, dependsOn: [a] }\n";
    let server = Server::start([at("Do a.").text("a"), at("Do x.").text("x"), at("Do y.").text("y")]);
    let run = flow(&server, document).file("inner.yaml", included).args(["-o", "json"]).run();
    let report = run.assert_code(0).json();
    assert_eq!(step(&report, "in")["content"], "y", "{run}");
    assert!(told(&server, 1).contains("## Parent Context\n\n### a (completed)\na"), "{}", told(&server, 1));
    assert!(run.stderr.contains("step in.x: completed"), "{run}");
}

/// §1.6
#[test]
fn context_files_are_inlined_or_attached_and_what_is_wrong_is_said() {
    let document = "name: n\nsteps:\n  - { id: a, instructions: Do a., contextFiles: [doc/a.md, logo.png, missing.md] }\n";
    let server = Server::start([at("Do a.").text("done")]);
    let run =
        flow(&server, document).file("doc/a.md", "Text.\n").file("logo.png", b"\x89PNG\r\n\x1a\nrest").run();
    run.assert_code(0);
    let told = told(&server, 0);
    assert_eq!(
        told,
        "## Task\nDo a.\n\n## Context Files\n\n### doc/a.md\nText.\n\n### logo.png\n(attached as multimodal content)\n\n### missing.md\n(error reading file: there is no such file)"
    );
    let parts = server.request(0).body["messages"][1]["content"].to_string();
    assert!(parts.contains("data:image/png;base64,"), "{parts}");
}

#[test]
fn context_files_that_cannot_be_shown_are_told_to_the_agent() {
    let document =
        "name: n\nsteps:\n  - { id: a, instructions: Do a., contextFiles: [../x.md, big.txt, latin.txt] }\n";
    let server = Server::start([at("Do a.").text("done")]);
    let big = vec![b'x'; 10 * 1024 * 1024 + 1];
    let run = flow(&server, document).file("big.txt", big).file("latin.txt", b"caf\xe9").run();
    run.assert_code(0);
    assert_eq!(
        told(&server, 0),
        "## Task\nDo a.\n\n## Context Files\n\n### ../x.md\n(error: path escapes workflow directory)\n\n### big.txt\n(error: file exceeds 10 MiB attachment cap)\n\n### latin.txt\ncaf\u{fffd}"
    );
    for (code, name) in [("ref_escape", "../x.md"), ("too_large", "big.txt"), ("ref_missing", "latin.txt")] {
        assert!(run.stderr.contains(code) && run.stderr.contains(name), "{run}");
    }
}

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
    assert!(
        run.stderr
            .contains("step b: skipped (condition false: `steps.a.content.contains('yes')` (line 5))\n"),
        "{run}"
    );
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
        "## Task\nDo a.\n\n## Context Files\n\n### ../x.md\n(error: path escapes workflow directory)\n\n### big.txt\n(error: file exceeds 10 MiB attachment cap)\n\n### latin.txt\n(error: the byte 0xE9 is no UTF-8 text, in line 1, column 4)"
    );
    for (code, name) in [("ref_escape", "../x.md"), ("too_large", "big.txt"), ("validation", "latin.txt")] {
        assert!(run.stderr.contains(code) && run.stderr.contains(name), "{run}");
    }
}

/// A judge that submits nothing decides nothing; what it said is heard all the same.
#[test]
fn words_of_a_judge_without_a_verdict_reach_the_next_iteration() {
    let document = r#"
name: n
agents:
  j: { description: J., prompt: You judge., resultSchema: { type: object, required: [done], properties: { done: { type: boolean } } } }
steps:
  - id: l
    loop:
      maxIterations: 2
      untilAgent: j
      steps:
        - { id: one, instructions: Do one. }
        - { id: two, instructions: Do two., dependsOn: [one] }
"#;
    let judge = || reply().when(|body| body["messages"][0]["content"].to_string().contains("You judge."));
    let server = Server::start([
        at("Do one.").text("1"),
        at("Do two.").text("2"),
        judge().text("Too short."),
        judge().text("I would like more."),
        at("Do one.").text("1"),
        at("Do two.").text("2"),
        judge().call("c", "submit_result", json!({"done": true})),
    ]);
    let run = flow(&server, document).run();
    assert!(run.assert_code(0).stderr.contains("untilAgent judge failed (iteration 1)"), "{run}");
    for request in [4, 5] {
        let told = told(&server, request);
        let wanted = "## Judge Feedback (Iteration 1)\nToo short.\n\nI would like more.";
        assert!(told.contains(wanted), "{told}");
    }
}

/// What the included workflow gives is what the run gives, however deep it is.
#[test]
fn the_answer_of_an_include_is_what_it_gives() {
    let outer = "name: o\nsteps:\n  - { id: i, include: inner.yaml }\n";
    let middle = "name: m\nsteps:\n  - { id: d, include: deep.yaml }\n";
    let text = "name: t\nsteps:\n  - { id: q, instructions: Do it. }\n";
    let typed = "name: t\nagents:\n  x: { description: X., resultSchema: { type: object, properties: { n: { type: number } } } }\nsteps:\n  - { id: q, agent: x, instructions: Do it. }\n";
    let repeated = "name: r\nsteps:\n  - { id: l, loop: { maxIterations: 1, steps: [{ id: i, include: inner.yaml }] } }\n";
    let said = || at("Do it.").text("Said.");
    let submitted = || at("Do it.").call_raw("c", "submit_result", r#"{"n": 1.50}"#);
    for (document, inner, deep, answer, wanted) in [
        (outer, text, text, said(), "Said.\n"),
        (outer, typed, text, submitted(), "{\"n\":1.50}\n"),
        (outer, middle, text, said(), "Said.\n"),
        (outer, middle, typed, submitted(), "{\"n\":1.50}\n"),
        (repeated, text, text, said(), "Said.\n"),
    ] {
        let server = Server::start([answer]);
        let run = flow(&server, document).file("inner.yaml", inner).file("deep.yaml", deep).run();
        assert_eq!(run.assert_code(0).stdout, wanted, "{run}");
    }
}

/// What went wrong, in which expression, and where that is written.
#[test]
fn an_expression_that_cannot_be_evaluated_is_named_with_its_line() {
    let agent = "agents:\n  x: { description: X., resultSchema: { type: object } }\n";
    let first = "steps:\n  - { id: a, agent: x, instructions: Do a. }\n";
    let table = [
        (
            "  - { id: b, dependsOn: [a], instructions: b,\n      condition: steps.a.result.n }\n",
            "`condition` cannot be evaluated: result is int, want bool, in `steps.a.result.n` (line 7)",
        ),
        (
            "  - id: b\n    dependsOn: [a]\n    instructions: |\n      Look\n      at ${{ steps.a.result.gone }}\n",
            "a template in `instructions` cannot be evaluated: no such key: gone, in `steps.a.result.gone` (line 10)",
        ),
        (
            "  - { id: b, dependsOn: [a], loop: { forEach: steps.a.result.n } }\n",
            "`loop.forEach` cannot be evaluated: result is int, want list, in `steps.a.result.n` (line 6)",
        ),
        (
            "  - id: b\n    dependsOn: [a]\n    instructions: '@b.md'\n",
            "a template in `instructions` cannot be evaluated: no such key: far, in `steps.a.result.far` (line 2 of `b.md`)",
        ),
    ];
    for (second, wanted) in table {
        let server = Server::start([at("Do a.").call("c", "submit_result", json!({"n": 3}))]);
        let document = format!("name: n\n{agent}{first}{second}");
        let tenon = flow(&server, &document).file("b.md", "Go\n${{ steps.a.result.far }}\n");
        let report = tenon.args(["-o", "json"]).run().assert_code(1).json();
        assert_eq!(step(&report, "b")["error"]["message"], wanted);
    }
    let skipped = "  - { id: b, dependsOn: [a], condition: steps.a.result.gone == 1 }\n";
    let server = Server::start([at("Do a.").call("c", "submit_result", json!({"n": 3}))]);
    let run = flow(&server, &format!("name: n\n{agent}{first}{skipped}")).run();
    let wanted = "step b: skipped (condition eval: missing data, skipping step: no such key: gone: `steps.a.result.gone == 1` (line 6))\n";
    assert!(run.assert_code(0).stderr.contains(wanted), "{run}");
}

#[test]
fn a_loop_of_one_iteration_says_so_in_the_singular() {
    let document = "name: n\nsteps:\n  - { id: l, instructions: Do l., loop: { maxIterations: 1, until: \"content == 'x'\" } }\n";
    let server = Server::start([at("Do l.").text("no")]);
    let run = flow(&server, document).run();
    assert!(run.assert_code(1).stderr.contains("the loop used up its 1 iteration: its `until`"), "{run}");
}

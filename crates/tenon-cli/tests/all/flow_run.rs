//! `tenon flow run` against a scripted model: what steps are told and offered, what they hand on, what is printed.

use tenon_testkit::{Reply, Run, Server, Tenon, Value, Wire, json, reply};

use super::tenon;

/// A document as `flow.yaml`, to be run against this server.
pub fn flow(server: &Server, document: &str) -> Tenon {
    tenon().server(server).file("flow.yaml", document).args(["flow", "run", "flow.yaml"])
}

/// Meant for the step with these instructions.
pub fn at(instructions: &str) -> Reply {
    let task = format!("## Task\n{instructions}");
    reply().when(move |body| task_of(body).is_some_and(|text| text.contains(&task)))
}

fn task_of(body: &Value) -> Option<String> {
    let content = &body["messages"][1]["content"];
    match content {
        Value::String(text) => Some(text.clone()),
        Value::Array(parts) => parts.iter().find_map(|part| Some(part["text"].as_str()?.to_owned())),
        _ => None,
    }
}

/// The first message of the nth request: what the step was told.
fn told(server: &Server, request: usize) -> String {
    task_of(&server.request(request).body).unwrap()
}

fn step<'a>(report: &'a Value, id: &str) -> &'a Value {
    &report["steps"][id]
}

fn statuses(run: &Run) -> Vec<String> {
    let report = run.json();
    let steps = report["steps"].as_object().unwrap();
    steps.iter().map(|(id, step)| format!("{id} {}", step["status"].as_str().unwrap())).collect()
}

const PIPELINE: &str = r#"
name: pipeline
agents:
  tester:
    description: Runs tests.
    prompt: You test things.
    temperature: 0.5
    topP: 0.25
    resultSchema:
      type: object
      required: [passed]
      properties:
        passed: { type: boolean }
steps:
  - id: build
    instructions: Build it.
  - id: test
    agent: tester
    dependsOn: [build]
    instructions: Test it.
  - id: ship
    dependsOn: [test]
    condition: steps.test.result.passed == true
    instructions: Ship it.
"#;

fn pipeline() -> Vec<Reply> {
    vec![
        at("Build it.").text("Built.").usage(10, 1),
        at("Test it.").text("All green.").call("c1", "submit_result", json!({"passed": true})).usage(20, 2),
        at("Ship it.").text("Shipped.").usage(30, 3),
    ]
}

#[test]
fn text_is_the_answer_of_the_last_step_and_stderr_tells_what_happens() {
    let server = Server::start(pipeline());
    let run = flow(&server, PIPELINE).args(["--run-id", "r1", "-m", "test-model"]).run();
    assert_eq!(
        (run.assert_code(0).stdout.as_str(), told(&server, 0).as_str()),
        ("Shipped.\n", "## Task\nBuild it.")
    );
    server.assert_script_done();
    let seconds = |line: &str| line.split(" in ").next().unwrap().to_owned();
    let said: Vec<String> = run.stderr.lines().map(seconds).collect();
    let wanted = [
        "run: r1",
        "workflow `pipeline`: 3 steps",
        "step build: started",
        "step build: completed",
        "step test: started (tester)",
        "step test: completed",
        "step ship: started",
        "step ship: completed",
    ];
    assert_eq!(said, wanted, "{run}");
    let server = Server::start(pipeline());
    assert_eq!(flow(&server, PIPELINE).arg("-q").run().assert_code(0).stderr, "");
}

#[test]
fn json_is_one_object_with_everything() {
    let server = Server::start(pipeline());
    let run = flow(&server, PIPELINE).args(["-o", "json", "--run-id", "r1"]).run();
    let mut report = run.assert_code(0).json();
    let zero_durations = |value: &mut Value| value["duration_ms"] = json!(0);
    zero_durations(&mut report);
    for id in ["build", "test", "ship"] {
        zero_durations(&mut report["steps"][id]);
    }
    let tokens = |input: u64, output: u64| json!({"input": input, "output": output, "cache_read": 0, "cache_write": 0, "reasoning": 0, "total": input + output});
    let done = |content: &str, result: Value, usage: Value| {
        json!({"status": "completed", "content": content, "result": result, "usage": usage, "cost": 0.0,
               "duration_ms": 0, "error": null})
    };
    let wanted = json!({
        "schema_version": 1,
        "run_id": "r1",
        "status": "completed",
        "outputs": "Shipped.",
        "steps": {
            "build": done("Built.", json!(null), tokens(10, 1)),
            "test": done("All green.", json!({"passed": true}), tokens(20, 2)),
            "ship": done("Shipped.", json!(null), tokens(30, 3)),
        },
        "usage": tokens(60, 6),
        "total_cost_usd": 0.0,
        "duration_ms": 0,
        "error": null,
        "coordinator": null,
    });
    assert_eq!(report, wanted, "{run}");
    let keys: Vec<&str> = report.as_object().unwrap().keys().map(String::as_str).collect();
    let wanted: Vec<&str> = wanted.as_object().unwrap().keys().map(String::as_str).collect();
    assert_eq!(keys, wanted, "in this order");
}

#[test]
fn a_step_is_told_what_came_before_it_and_how_to_hand_in_its_result() {
    let server = Server::start(pipeline());
    flow(&server, PIPELINE).run().assert_code(0);
    let test = told(&server, 1);
    assert!(test.starts_with("## Task\nTest it.\n\n## Required: Submit Structured Result\n"), "{test}");
    assert!(test.ends_with("## Previous Step Results\n\n### build (completed)\nBuilt."), "{test}");
    let ship = told(&server, 2);
    assert_eq!(
        ship,
        "## Task\nShip it.\n\n## Previous Step Results\n\n### test (completed)\nAll green.\n\n### test result\n{\"passed\":true}"
    );
    let of_test = server.request(1);
    assert!(of_test.system_text().starts_with("You test things."), "{}", of_test.system_text());
    assert_eq!((&of_test.body["temperature"], &of_test.body["top_p"]), (&json!(0.5), &json!(0.25)));
    assert_eq!(of_test.tool_parameters("submit_result")["required"], json!(["passed"]));
    assert!(!server.request(0).tool_names().contains(&"submit_result"));
    assert!(server.request(0).body.get("temperature").is_none());
}

#[test]
fn words_and_stdin_are_context_for_every_step() {
    let server = Server::start(pipeline());
    flow(&server, PIPELINE).args(["ticket", "seven"]).stdin("from a pipe\n").run().assert_code(0);
    for request in 0..3 {
        let told = told(&server, request);
        assert!(told.starts_with("[Flow Context]\nfrom a pipe\n\nticket seven\n\n## Task\n"), "{told}");
    }
    let server = Server::start(pipeline());
    let run = flow(&server, PIPELINE).args(["--stdin", "ignore", "alone"]).stdin("unread").run();
    run.assert_code(0);
    assert!(told(&server, 0).starts_with("[Flow Context]\nalone\n\n"));
}

const MODELS: &str = r#"
name: models
agents:
  second: { description: Second., model: agent-model }
steps:
  - { id: a, instructions: Do a. }
  - { id: b, instructions: Do b., agent: second }
  - { id: c, instructions: Do c., agent: second, model: step-model }
"#;

/// F1
#[test]
fn steps_and_agents_really_switch_the_model() {
    let all = || [at("Do a.").text("a"), at("Do b.").text("b"), at("Do c.").text("c")];
    let asked = |server: &Server, task: &str| {
        let found =
            server.requests().into_iter().find(|request| task_of(&request.body).unwrap().contains(task));
        found.unwrap().body["model"].as_str().unwrap().to_owned()
    };
    let server = Server::start(all());
    let run = flow(&server, MODELS).run();
    assert_eq!(run.assert_code(0).stdout, "{\"a\":\"a\",\"b\":\"b\",\"c\":\"c\"}\n");
    let models = ["Do a.", "Do b.", "Do c."].map(|task| asked(&server, task));
    assert_eq!(models, ["test-model", "agent-model", "step-model"]);
    let server = Server::start(all());
    flow(&server, MODELS).args(["-m", "forced"]).run().assert_code(0);
    let models = ["Do a.", "Do b.", "Do c."].map(|task| asked(&server, task));
    assert_eq!(models, ["forced", "forced", "forced"]);
}

/// F1
#[test]
fn a_step_can_ask_another_provider() {
    let server = Server::start([at("Do a.").text("a"), reply().text("b")]);
    let document = "name: n\nsteps:\n  - { id: a, instructions: Do a. }\n  - { id: b, instructions: Do b., dependsOn: [a], model: anthropic/claude-x }\n";
    let run = flow(&server, document)
        .env("ANTHROPIC_BASE_URL", server.origin())
        .env("ANTHROPIC_API_KEY", "other-key")
        .run();
    assert_eq!(run.assert_code(0).stdout, "b\n");
    assert_eq!((server.request(0).wire(), server.request(1).wire()), (Wire::Chat, Wire::Messages));
    assert_eq!(server.request(1).body["model"], "claude-x");
}

#[test]
fn a_document_that_names_all_its_models_needs_no_default() {
    let server = Server::start([reply().text("done")]);
    let document = "name: n\nsteps:\n  - { id: a, instructions: Do a., model: anthropic/claude-x }\n";
    let run = tenon()
        .file("flow.yaml", document)
        .env("ANTHROPIC_BASE_URL", server.origin())
        .env("ANTHROPIC_API_KEY", "key")
        .args(["flow", "run", "flow.yaml"])
        .run();
    assert_eq!(run.assert_code(0).stdout, "done\n");
}

fn with_tools(lists: &str) -> String {
    format!(
        "name: n\nagents:\n  a: {{ description: A., {lists} }}\nsteps:\n  - {{ id: s, agent: a, instructions: Go. }}\n"
    )
}

#[test]
fn lists_of_tools_restrict_and_version_1_names_are_ours() {
    let table: &[(&str, &[&str])] = &[
        ("tools: [read, glob]", &["read_file", "glob"]),
        (
            "tools: [bash, read, write, grep]",
            &["read_file", "grep_search", "write_file", "run_shell_command"],
        ),
        ("tools: [read, glob], disallowedTools: [glob]", &["read_file"]),
        ("tools: []", &[]),
    ];
    for (lists, offered) in table {
        let server = Server::start([at("Go.").text("done")]);
        flow(&server, &with_tools(lists)).arg("--yolo").run().assert_code(0);
        assert_eq!(server.request(0).tool_names(), *offered, "{lists}");
    }
    let server = Server::start([at("Go.").text("done")]);
    flow(&server, &with_tools("disallowedTools: [bash]")).run().assert_code(0);
    let names = server.request(0).tool_names().iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    assert!(names.contains(&"read_file".to_owned()) && !names.contains(&"run_shell_command".to_owned()));
    assert!(!names.contains(&"agent".to_owned()), "helpers are for those who ask: {names:?}");
}

#[test]
fn a_model_may_call_tools_by_their_version_1_names() {
    let server = Server::start([
        at("Go.")
            .call("c1", "bash", json!({"command": "echo out-of-$PWD; sleep 0", "timeout_seconds": 20}))
            .call("c2", "write", json!({"path": "new.txt", "content": "a.b\nacb\n"}))
            .call("c3", "read", json!({"path": "new.txt"}))
            .call("c4", "grep", json!({"pattern": "a.b", "path": "."})),
        at("Go.").text("done"),
    ]);
    let run = flow(&server, &with_tools("tools: [bash, read, write, grep]")).arg("--yolo").run();
    run.assert_code(0);
    let last = server.request(1);
    assert!(last.tool_result("c1").contains("out-of-"), "{}", last.tool_result("c1"));
    assert_eq!(run.read("new.txt"), "a.b\nacb\n");
    assert!(last.tool_result("c3").contains("acb"), "{}", last.tool_result("c3"));
    let found = last.tool_result("c4");
    assert!(found.contains("a.b") && !found.contains("acb"), "plain text is not an expression: {found}");
}

#[test]
fn a_declared_tool_that_is_denied_is_refused_before_the_first_request() {
    let table = [
        (
            "tools: [bash]",
            &[][..],
            "the step `s` lists the tool `bash`, and `run_shell_command` runs commands, which `default` mode allows only with approval",
            "`--allowed-tools run_shell_command` or `--approval-mode yolo` allows it",
        ),
        (
            "tools: [write]",
            &["--approval-mode", "plan"],
            "the step `s` lists the tool `write`, and `plan` mode only reads, and `write_file` does more",
            "`--approval-mode auto-edit` allows it",
        ),
        (
            "tools: [read_file]",
            &["--exclude-tools", "read_file"],
            "the step `s` lists the tool `read_file`, and `read_file` is denied by a rule",
            "take `read_file` out of `--exclude-tools` or `permissions.deny`",
        ),
    ];
    for (lists, flags, message, hint) in table {
        let server = Server::start([]);
        let run = flow(&server, &with_tools(lists)).args(flags).args(["-q", "-o", "json"]).run();
        run.assert_code(42);
        assert_eq!(run.json()["error"], json!({"class": "input", "message": message, "hint": hint}), "{run}");
        assert_eq!(run.stderr, format!("error[input]: {message}\nhint: {hint}\n"));
        assert!(server.requests().is_empty());
    }
    // Everything that cannot be used, step by step.
    let server = Server::start([]);
    let document = "name: n\nagents:\n  a: { description: A., tools: [bash, read, write] }\n  b: { description: B., tools: [write] }\nsteps:\n  - { id: s, agent: a }\n  - { id: t, agent: b }\n";
    let run = flow(&server, document).args(["-q", "-o", "json"]).run();
    run.assert_code(42);
    let changes = "changes files, which `default` mode allows only with approval";
    assert_eq!(
        run.json()["error"]["message"],
        format!(
            "the step `s` lists the tool `bash`, and `run_shell_command` runs commands, which `default` mode allows only with approval; \
             it also lists `write`, and `write_file` {changes}; the step `t` lists the tool `write`, and `write_file` {changes}"
        ),
        "{run}"
    );
    for flags in [&["--yolo"][..], &["--allowed-tools", "Bash(git *)"], &["--allowed-tools", "bash"]] {
        let server = Server::start([at("Go.").text("done")]);
        flow(&server, &with_tools("tools: [bash]")).args(flags).run().assert_code(0);
    }
}

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

#[test]
fn inputs_that_an_included_workflow_cannot_take_are_refused_before_the_first_request() {
    let document = "name: n\ninputs: {type: object, properties: {n: {type: integer}}}\nsteps:\n  - { id: a, include: inner.yaml }\n";
    let inner = "name: inner\ninputs: {type: object, properties: {n: {type: integer, minimum: 3}}}\nsteps:\n  - { id: x, instructions: Do x. }\n";
    let server = Server::start([at("Do x.").text("done")]);
    let start = |n: &str| {
        flow(&server, document).file("inner.yaml", inner).args(["--input", n, "-q", "-o", "json"]).run()
    };
    let run = start("n=2");
    run.assert_code(42);
    let message = run.json()["error"]["message"].as_str().unwrap_or_default().to_owned();
    assert!(message.contains("the included workflow `inner`") && message.contains("/n"), "{run}");
    assert!(server.requests().is_empty());
    start("n=3").assert_code(0);
}

#[test]
fn inputs_are_typed_and_checked_and_outputs_are_computed() {
    let document = r#"
name: n
inputs:
  type: object
  required: [topic]
  properties: { topic: { type: string }, count: { type: integer } }
  additionalProperties: false
steps:
  - { id: a, instructions: "Write ${{ inputs.count }} lines on ${{ inputs.topic }}." }
outputs:
  text: steps.a.content
  n: inputs.count
"#;
    let server = Server::start([at("Write 3 lines on 7.").text("Lines.")]);
    let run = flow(&server, document)
        .args(["--inputs", r#"{"count":9}"#, "--input", "count=3", "--input", "topic=7"])
        .run();
    assert_eq!(run.assert_code(0).stdout, "{\"text\":\"Lines.\",\"n\":3}\n");
    let server = Server::start([at("Write 2 lines on x.").text("Lines.")]);
    let run = flow(&server, document)
        .file("in.json", r#"{"topic":"x","count":2}"#)
        .args(["--inputs", "@in.json"])
        .run();
    run.assert_code(0);
    let table: &[(&[&str], &str)] = &[
        (&[], "the inputs do not fit the document: /topic: required property is missing"),
        (
            &["--input", "topic=x", "--input", "count=many"],
            "the inputs do not fit the document: /count: expected integer, got string",
        ),
        (
            &["--input", "topic=x", "--input", "more=1"],
            "the inputs do not fit the document: /more: unexpected property",
        ),
        (&["--input", "topic"], "`--input topic` is not `NAME=VALUE`"),
        (&["--inputs", "[]"], "`--inputs` is not a JSON object"),
    ];
    for (flags, message) in table {
        let server = Server::start([]);
        let run = flow(&server, document).args(*flags).args(["-o", "json"]).run();
        assert_eq!(run.assert_code(42).json()["error"]["message"], *message, "{run}");
        assert!(server.requests().is_empty());
    }
    let server = Server::start([]);
    let run = flow(&server, MODELS).args(["--input", "a=1"]).run();
    assert!(run.assert_code(42).stderr.contains("the document has no inputs, and `a` was given"), "{run}");
}

/// §3.7: changes become a branch, and the folder the run works in stays as it is.
#[test]
fn isolated_steps_work_in_copies() {
    let document =
        "name: n\noptions: { isolation: worktree }\nsteps:\n  - { id: edit, instructions: Edit. }\n";
    let server = Server::start([
        at("Edit.").call("c", "write_file", json!({"file_path": "new.txt", "content": "changed\n"})),
        at("Edit.").call("d", "run_shell_command", json!({"command": "cat new.txt kept.txt && pwd"})),
        at("Edit.").text("done"),
    ]);
    let tenon = flow(&server, document).file("kept.txt", "original\n").args(["--yolo", "--run-id", "r1"]);
    let git = |arguments: &[&str]| {
        let mut command = std::process::Command::new("git");
        command.args(["-c", "user.name=t", "-c", "user.email=t@localhost"]).args(arguments);
        let output = command.current_dir(tenon.workspace()).env("HOME", tenon.home()).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    git(&["init", "-q"]);
    git(&["add", "-A"]);
    git(&["commit", "-q", "-m", "first"]);
    let run = tenon.run();
    assert_eq!(run.assert_code(0).stdout, "done\n");
    assert!(!run.workspace().join("new.txt").exists());
    let shown = server.request(2).tool_result("d");
    assert!(shown.contains("changed") && !shown.contains(&*run.workspace().to_string_lossy()), "{shown}");
    assert!(
        run.stderr.contains("step edit: what the step changed is on the branch `tenon/r1/edit@1`"),
        "{run}"
    );
    assert_eq!(git(&["show", "tenon/r1/edit@1:new.txt"]), "changed\n");
    assert_eq!(git(&["worktree", "list"]).lines().count(), 1);
}

#[test]
fn isolation_that_nobody_knows_is_said_and_a_folder_without_a_repository_fails_the_step() {
    let document = |name: &str| {
        format!("name: n\noptions: {{ isolation: {name} }}\nsteps:\n  - {{ id: a, instructions: Do a. }}\n")
    };
    let server = Server::start([at("Do a.").text("done")]);
    let run = flow(&server, &document("container")).run();
    assert!(run.assert_code(0).stderr.contains("there is no `isolation: container` here"), "{run}");
    let server = Server::start([]);
    let run = flow(&server, &document("worktree")).args(["-o", "json"]).run();
    let error = step(&run.assert_code(1).json(), "a")["error"].clone();
    assert_eq!(error["class"], "isolation");
    assert!(error["message"].as_str().unwrap().starts_with("isolation setup: "), "{run}");
}

#[test]
fn nothing_of_a_run_is_kept() {
    let server = Server::start(pipeline());
    let run = flow(&server, PIPELINE).arg("--no-journal").run();
    run.assert_code(0);
    assert!(!run.tenon_home().join("projects").exists(), "no session");
    assert!(!run.tenon_home().join("runs.db").exists());
}

#[test]
fn a_tool_that_cannot_write_fails_the_call_and_not_the_step() {
    let server = Server::start([
        at("Go.").call("c", "write_file", json!({"file_path": "/proc/self/x", "content": "x"})),
        at("Go.").text("I could not write."),
    ]);
    let run = flow(&server, &with_tools("maxTurns: 5")).arg("--yolo").run();
    assert_eq!(run.assert_code(0).stdout, "I could not write.\n");
}

#[test]
fn denied_calls_are_told_to_the_model_or_fail_the_step() {
    let script = || {
        [at("Go.").call("c", "run_shell_command", json!({"command": "true"})), at("Go.").text("went without")]
    };
    let server = Server::start(script());
    let run = flow(&server, &with_tools("maxTurns: 5")).run();
    assert_eq!(run.assert_code(0).stdout, "went without\n");
    assert!(run.stderr.contains("step s: `run_shell_command` was denied"), "{run}");
    let server = Server::start(script());
    let run = flow(&server, &with_tools("maxTurns: 5")).args(["--fail-on-denied", "-o", "json"]).run();
    assert_eq!(step(&run.assert_code(1).json(), "s")["error"]["class"], "tool", "{run}");
}

#[test]
fn agents_that_ask_for_helpers_get_them() {
    let server = Server::start([
        at("Go.").call("c", "agent", json!({"description": "help", "prompt": "Help me."})),
        reply().when(|body| body["messages"][1]["content"] == "Help me.").text("Helped."),
        at("Go.").text("done"),
    ]);
    let run = flow(&server, &with_tools("tools: [read, agent]")).run();
    assert_eq!(run.assert_code(0).stdout, "done\n");
    assert_eq!(server.request(2).tool_result("c"), "Helped.");
}

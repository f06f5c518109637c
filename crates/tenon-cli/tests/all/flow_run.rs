//! `tenon flow run` against a scripted model: what steps are told, what they hand on, what is printed. Helpers for the files beside it.

use tenon_testkit::{Reply, Run, Server, Tenon, Value, json, reply};

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

pub fn task_of(body: &Value) -> Option<String> {
    let content = &body["messages"][1]["content"];
    match content {
        Value::String(text) => Some(text.clone()),
        Value::Array(parts) => parts.iter().find_map(|part| Some(part["text"].as_str()?.to_owned())),
        _ => None,
    }
}

/// The first message of the nth request: what the step was told.
pub fn told(server: &Server, request: usize) -> String {
    task_of(&server.request(request).body).unwrap()
}

pub fn step<'a>(report: &'a Value, id: &str) -> &'a Value {
    &report["steps"][id]
}

pub fn statuses(run: &Run) -> Vec<String> {
    let report = run.json();
    let steps = report["steps"].as_object().unwrap();
    steps.iter().map(|(id, step)| format!("{id} {}", step["status"].as_str().unwrap())).collect()
}

pub const PIPELINE: &str = r#"
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
        "questions": [],
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

#[test]
fn nothing_of_a_run_is_kept() {
    let server = Server::start(pipeline());
    let run = flow(&server, PIPELINE).arg("--no-journal").run();
    run.assert_code(0);
    assert!(!run.tenon_home().join("projects").exists(), "no session");
    assert!(!run.tenon_home().join("runs.db").exists());
}

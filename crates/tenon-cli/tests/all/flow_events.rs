//! The events of a workflow: numbered, stamped, complete, and all of the published schema.

use std::sync::LazyLock;

use tenon_testkit::{Server, Value, assert_flow_events, json, reply};

use super::flow_run::{at, flow};
use super::tenon;

static SCHEMA: LazyLock<jsonschema::Validator> = LazyLock::new(|| {
    let options = jsonschema::options().should_validate_formats(true);
    options.build(&tenon_flow::exact_events_schema()).expect("a schema")
});

/// The events of a run, each valid and in its place.
#[track_caller]
pub fn events(run: &tenon_testkit::Run) -> Vec<Value> {
    let lines = run.json_lines();
    for (at, line) in lines.iter().enumerate() {
        if let Err(error) = SCHEMA.validate(line) {
            panic!("not of the published schema: {error}\n{line}");
        }
        assert_eq!(line["seq"], json!(at + 1), "{line}");
        let keys: Vec<&str> = line.as_object().unwrap().keys().map(String::as_str).collect();
        assert_eq!(keys, ["type", "seq", "time", "run_id", "step_id", "attempt", "agent", "data"]);
    }
    lines
}

fn named(events: &[Value]) -> Vec<String> {
    let name = |event: &Value| {
        let step = event["step_id"].as_str().map(|step| format!(" {step}")).unwrap_or_default();
        let phase = event["data"]["phase"].as_str().map(|phase| format!(" {phase}")).unwrap_or_default();
        format!("{}{step}{phase}", event["type"].as_str().unwrap())
    };
    events.iter().map(name).collect()
}

const DOCUMENT: &str = r#"
name: events
agents:
  tester:
    description: Tests.
    resultSchema: { type: object, required: [passed], properties: { passed: { type: boolean } } }
steps:
  - { id: test, agent: tester, instructions: Test. }
  - { id: skipped, dependsOn: [test], condition: steps.test.result.passed == false, instructions: Never. }
  - id: each
    dependsOn: [test]
    instructions: Each.
    loop: { forEach: [1], maxConcurrency: 1 }
"#;

#[test]
fn every_event_of_a_run_in_its_order() {
    let server = Server::start([
        at("Test.").text("Looking.").call("l", "list_directory", json!({"path": "."})).usage(10, 1),
        at("Test.").call("s", "submit_result", json!({"passed": true})).usage(20, 2),
        at("Each.").text("one"),
    ]);
    let run = flow(&server, DOCUMENT).args(["-o", "stream-json", "--run-id", "r1"]).run();
    let events = events(run.assert_code(0));
    let names = named(&events);
    let wanted = [
        "plan_ready",
        "workflow_start",
        "step_start test",
        "agent_turn test request",
        "agent_turn test response",
        "tool_call test start",
        "tool_call test end",
        "agent_turn test request",
        "agent_turn test response",
        "tool_call test start",
        "tool_call test end",
        "step_end test",
        "step_skipped skipped",
        "step_start each",
    ];
    assert_eq!(names[..wanted.len()], wanted, "{names:#?}");
    assert!(names.contains(&"step_progress each".to_owned()), "{names:#?}");
    assert_eq!(names.last().unwrap(), "workflow_end");
    assert!(events.iter().all(|event| event["run_id"] == "r1"));
    let of = |name: &str| events.iter().find(|event| named(&[(*event).clone()]) == [name]).unwrap();
    assert_eq!(of("plan_ready")["data"]["workflow"]["name"], "events");
    assert_eq!(
        of("workflow_start")["data"],
        json!({"schema_version": 1, "name": "events", "total": 3, "resumed": false})
    );
    assert_eq!(of("agent_turn test response")["data"]["content"], "Looking.");
    assert_eq!(of("agent_turn test response")["agent"], "tester");
    assert_eq!(of("tool_call test start")["data"]["input"], json!({"path": "."}));
    assert_eq!(of("step_skipped skipped")["data"]["reason"], "condition_false");
    assert_eq!(of("step_start each")["data"]["loop_type"], "forEach");
    assert_eq!(of("step_start each")["data"]["items"], 1);
    let end = &of("step_end test")["data"];
    assert_eq!((&end["status"], &end["result"]), (&json!("completed"), &json!({"passed": true})));
    assert_eq!((&end["content"], &end["usage"]["total"]), (&json!("Looking."), &json!(33)));
    let last = &events.last().unwrap()["data"];
    assert_eq!((&last["status"], &last["run_id"]), (&json!("completed"), &json!("r1")));
    assert_eq!(last["steps"]["test"]["result"], json!({"passed": true}));
    assert!(last["duration_ms"].is_u64() && last["usage"]["total"].as_u64() >= Some(33), "{last}");
}

/// F7, F8: the last line tells the end, whatever went wrong.
#[test]
fn the_last_line_is_always_the_end() {
    let table: &[(&str, &[&str], i32, &str)] = &[
        ("name: n\nsteps: []\n", &[], 52, "config"),
        (DOCUMENT, &["--input", "x=1"], 42, "input"),
        ("name: n\nsteps:\n  - { id: a, instructions: Fail. }\n", &[], 1, "protocol"),
    ];
    for (document, flags, code, class) in table {
        let server = Server::start([reply().status(400).json(json!({"error": {"message": "bad"}}))]);
        let run = flow(&server, document).args(["-o", "stream-json"]).args(*flags).run();
        let events = events(run.assert_code(*code));
        let last = events.last().unwrap();
        assert_eq!(
            (&last["type"], &last["data"]["status"]),
            (&json!("workflow_end"), &json!("failed")),
            "{run}"
        );
        assert_eq!(last["data"]["error"]["class"], *class, "{run}");
    }
}

#[test]
fn failures_retries_judges_and_partial_answers_are_of_the_schema_too() {
    let document = r#"
name: n
agents:
  judge:
    description: Judges.
    resultSchema: { type: object, required: [done], properties: { done: { type: boolean } } }
steps:
  - id: refine
    instructions: Write.
    retries: 1
    loop: { maxIterations: 2, untilAgent: judge }
  - { id: after, dependsOn: [refine], instructions: After. }
"#;
    let judge = || reply().when_contains("## Your Task: Evaluate Loop Progress");
    let server = Server::start([
        at("Write.").text_chunks(["One", " two."]),
        judge().text("Hm."),
        judge().text("Hm."),
        at("Write.").text("Two."),
        judge().call("j", "submit_result", json!({"done": true})),
        at("After.").status(401).json(json!({"error": {"message": "bad key"}})),
    ]);
    let run = flow(&server, document).args(["-o", "stream-json", "--include-partial-messages"]).run();
    let events = events(run.assert_code(1));
    let pieces: String = events
        .iter()
        .filter(|event| event["type"] == "output" && event["seq"].as_u64() < Some(12))
        .map(|event| event["data"]["delta"].as_str().unwrap().to_owned())
        .collect();
    assert!(pieces.starts_with("One two."), "{pieces}");
    assert!(events.iter().any(|event| event["type"] == "error" && event["data"]["iteration"] == 0), "{run}");
    let last = events.last().unwrap();
    assert_eq!(last["data"]["status"], "partial");
    assert_eq!(last["data"]["steps"]["after"]["error"]["class"], "auth");
}

#[test]
fn what_happens_inside_a_loop_is_told_after_its_start() {
    let skipped = "{ id: i0, condition: 'CONDITION', instructions: I. }";
    let table = [
        ("loop: { maxIterations: 2, steps: [SKIPPED, { id: i1, instructions: I. }] }", "iteration > 0", 0),
        ("loop: { maxIterations: 2, steps: [SKIPPED] }", "iteration > 0", 0),
        ("loop: { forEach: [1, 2], steps: [SKIPPED, { id: i1, instructions: I. }] }", "item > 1", 0),
        (
            "loop: { forEach: [1, 2], steps: [SKIPPED, { id: i1, dependsOn: [i0], instructions: I. }] }",
            "item > 1",
            0,
        ),
        ("include: inner.yaml", "false", 0),
        // What decides whether it starts cannot be evaluated.
        ("loop: { forEach: [1, 2], steps: [SKIPPED] }", "1 / (item - 1) > 0", 1),
    ];
    for (step, condition, code) in table {
        let skipped = skipped.replace("CONDITION", condition);
        let document = format!("name: n\nsteps:\n  - {{ id: l, {} }}\n", step.replace("SKIPPED", &skipped));
        let inner = format!("name: inner\nsteps:\n  - {skipped}\n  - {{ id: i1, instructions: I. }}\n");
        let server = Server::start([reply().text("Done.").forever()]);
        let run = flow(&server, &document).file("inner.yaml", &inner).args(["-o", "stream-json"]).run();
        let events = events(run.assert_code(code));
        assert_flow_events(&events);
        let wanted = if code == 0 { "step_skipped" } else { "step_end" };
        let is_it = |event: &&Value| event["type"] == wanted && event["step_id"] != "l";
        assert!(events.iter().any(|event| is_it(&event)), "{step}: {run}");
    }
}

#[test]
fn the_schema_is_printed() {
    let run = tenon().args(["schema", "print", "flow-events"]).run();
    assert_eq!(run.assert_code(0).json(), tenon_flow::events_schema());
    tenon().args(["schema", "print", "flow-events", "--input"]).run().assert_code(2);
}

/// What hooks do is told to whoever asks for it, from the first to the last step, and to nobody else.
#[test]
fn hooks_are_told_when_asked_for() {
    let hook = |name: &str, command: &str| json!([{"hooks": [{"type": "command", "command": command, "name": name, "statusMessage": "looking"}]}]);
    let settings = json!({"hooks": {
        "SessionStart": hook("greet", "true"),
        "PreToolUse": hook("guard", "echo no >&2; exit 2"),
        "SubagentStop": hook("after", "exit 3"),
        "SessionEnd": hook("leave", "true"),
    }})
    .to_string();
    let script = || [at("Do a.").call("c1", "glob", json!({"pattern": "*"})), at("Do a.").text("Done.")];
    let document = "name: n\nsteps:\n  - { id: a, instructions: Do a. }\n";
    let server = Server::start(script());
    let run = flow(&server, document)
        .args(["-o", "stream-json", "--include-hook-events", "--settings", &settings])
        .run();
    run.assert_code(0);
    let told: Vec<Value> = events(&run).into_iter().filter(|event| event["type"] == "hook").collect();
    let short = |event: &Value| {
        let data = &event["data"];
        json!([
            event["step_id"],
            data["phase"],
            data["event"],
            data["name"],
            data["outcome"],
            data["exit_code"]
        ])
    };
    let wanted = json!([
        [null, "start", "SessionStart", "greet", null, null],
        [null, "end", "SessionStart", "greet", "success", 0],
        ["a", "start", "PreToolUse", "guard", null, null],
        ["a", "end", "PreToolUse", "guard", "blocked", 2],
        ["a", "start", "SubagentStop", "after", null, null],
        ["a", "end", "SubagentStop", "after", "error", 3],
    ]);
    assert_eq!(Value::from_iter(told.iter().map(short)), wanted, "{run}");
    for pair in told.chunks(2) {
        assert_eq!(pair[0]["data"]["hook_id"], pair[1]["data"]["hook_id"]);
        assert_eq!(pair[0]["data"]["status_message"], "looking");
    }
    assert_eq!(told[3]["data"]["stderr"], "no\n");
    let server = Server::start(script());
    let run = flow(&server, document).args(["-o", "stream-json", "--settings", &settings]).run();
    run.assert_code(0);
    assert!(events(&run).iter().all(|event| event["type"] != "hook"), "{run}");
    let flags = ["-o", "stream-json", "--include-hook-events"];
    tenon().args(["flow", "resume", "r1"]).args(flags).run().assert_code(42);
}

/// Whoever checks lines by the published schema is not broken by what a later version adds.
#[test]
fn the_published_schema_lets_more_through() {
    let published = jsonschema::validator_for(&tenon_flow::events_schema()).unwrap();
    let server = Server::start([at("Do a.").text("Done.")]);
    let run = flow(&server, "name: n\nsteps:\n  - { id: a, instructions: Do a. }\n")
        .args(["-o", "stream-json"])
        .run();
    for line in events(&run) {
        assert!(published.is_valid(&line), "{line}");
        let mut more = line.clone();
        more["later"] = json!(1);
        more["data"]["later"] = json!({"a": 1});
        assert!(published.is_valid(&more) && !SCHEMA.is_valid(&more), "{more}");
        let mut other = line.clone();
        other["type"] = json!("of_a_later_version");
        assert!(published.is_valid(&other) && !SCHEMA.is_valid(&other), "{other}");
        // What is there already stays what it is.
        let mut wrong = line.clone();
        wrong["seq"] = json!("one");
        assert!(!published.is_valid(&wrong), "{wrong}");
    }
    let end = run.last_json();
    let mut wrong = end.clone();
    wrong["data"]["status"] = json!(7);
    assert!(published.is_valid(&end) && !published.is_valid(&wrong));
}

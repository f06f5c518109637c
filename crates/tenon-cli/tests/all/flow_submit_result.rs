//! `resultSchema` and `submit_result`: every sentence of the promise, one test each.

use tenon_testkit::{Reply, Server, Value, json};

use super::flow_run::{at, flow};

const DOCUMENT: &str = r#"
name: tests
agents:
  tester:
    description: Test runner.
    tools: [write]
    maxTurns: 4
    resultSchema:
      type: object
      required: [passed]
      properties:
        passed: { type: boolean, description: true if all tests passed. }
        failed_count: { type: integer, minimum: 0 }
        summary: { type: string }
        kind: { enum: [unit, integration] }
steps:
  - { id: test, agent: tester, instructions: Test. }
"#;

fn submit(id: &str, arguments: Value) -> Reply {
    at("Test.").call(id, "submit_result", arguments)
}

/// The report of a run, its exit code and what it said.
fn run(server: &Server, code: i32) -> Value {
    let run = flow(server, DOCUMENT).args(["--yolo", "-o", "json"]).run();
    let report = run.assert_code(code).json();
    server.assert_script_done();
    report["steps"]["test"].clone()
}

const NEVER: &str = "resultSchema defined but submit_result never called";

#[test]
fn a_valid_call_ends_the_conversation_at_once() {
    let server = Server::start([submit("a", json!({"passed": true, "summary": "ok"})).text("and more text")]);
    let step = run(&server, 0);
    assert_eq!(step["result"], json!({"passed": true, "summary": "ok"}));
    assert_eq!(step["content"], "and more text");
}

#[test]
fn content_is_the_text_of_all_turns_including_the_last() {
    let server = Server::start([
        at("Test.").text("I write a file.").call("w", "write", json!({"path": "x", "content": "x"})),
        at("Test.").text("Done: all green.").call("a", "submit_result", json!({"passed": true})),
    ]);
    let step = run(&server, 0);
    assert_eq!(step["content"], "I write a file.\n\nDone: all green.");
}

#[test]
fn an_invalid_call_is_answered_with_what_is_wrong_and_can_be_repeated() {
    let server =
        Server::start([submit("a", json!({"passed": "yes"})), submit("b", json!({"passed": false}))]);
    assert_eq!(run(&server, 0)["result"], json!({"passed": false}));
    let told = server.request(1).tool_result("a");
    assert_eq!(
        told,
        r#"{"status":"error","message":"validation failed: /passed: expected boolean, got string"}"#
    );
}

#[test]
fn several_violations_are_lines_and_the_whole_schema_counts() {
    let server = Server::start([
        submit("a", json!({"failed_count": -1, "kind": "smoke"})),
        submit("b", json!({"passed": true, "kind": "unit"})),
    ]);
    run(&server, 0);
    let told: Value = serde_json::from_str(&server.request(1).tool_result("a")).unwrap();
    let message = told["message"].as_str().unwrap();
    assert!(message.starts_with("validation failed: "), "{message}");
    let mut lines: Vec<&str> = message.trim_start_matches("validation failed: ").lines().collect();
    lines.sort_unstable();
    assert_eq!(
        lines,
        [
            "/failed_count: expected at least 0, got -1",
            "/kind: expected one of \"unit\", \"integration\", got \"smoke\"",
            "/passed: required property is missing",
        ]
    );
}

#[test]
fn of_several_calls_in_one_turn_the_first_valid_one_wins() {
    let server = Server::start([submit("a", json!({"passed": 1}))
        .call("b", "submit_result", json!({"passed": true, "summary": "first"}))
        .call("c", "submit_result", json!({"passed": false, "summary": "second"}))]);
    assert_eq!(run(&server, 0)["result"], json!({"passed": true, "summary": "first"}));
}

#[test]
fn tools_beside_the_call_run_and_their_effects_stay() {
    let server = Server::start([submit("a", json!({"passed": true}))
        .call("w", "write", json!({"path": "kept.txt", "content": "kept"}))
        .call("x", "write", json!({"path": "/proc/self/no", "content": "fails"}))]);
    let run = flow(&server, DOCUMENT).args(["--yolo", "-o", "json"]).run();
    let report = run.assert_code(0).json();
    assert_eq!(
        report["steps"]["test"]["result"],
        json!({"passed": true}),
        "a sibling that fails undoes nothing"
    );
    assert_eq!(run.read("kept.txt"), "kept");
}

#[test]
fn a_model_that_never_calls_it_is_reminded_once_and_then_the_step_fails() {
    let server = Server::start([at("Test.").text("All good."), at("Test.").text("Really.")]);
    let step = run(&server, 1);
    assert_eq!((&step["status"], &step["result"]), (&json!("failed"), &json!(null)));
    assert_eq!((&step["error"]["class"], &step["error"]["message"]), (&json!("contract"), &json!(NEVER)));
    assert_eq!(step["content"], "All good.\n\nReally.", "what was said is not lost");
    let reminder = server.request(1);
    assert_eq!(reminder.tool_names(), ["submit_result"]);
    assert_eq!(reminder.forced_tool().as_deref(), Some("submit_result"));
}

#[test]
fn a_reminder_can_help() {
    let server = Server::start([at("Test.").text("All good."), submit("a", json!({"passed": true}))]);
    assert_eq!(run(&server, 0)["result"], json!({"passed": true}));
}

#[test]
fn used_up_turns_fail_the_step_without_a_reminder() {
    let write = |id: &str| at("Test.").call(id, "write", json!({"path": id, "content": "x"}));
    let server = Server::start([write("a"), write("b"), write("c"), write("d")]);
    let step = run(&server, 1);
    let message = step["error"]["message"].as_str().unwrap();
    assert!(message.starts_with(NEVER), "{message}");
    assert!(message.contains("4 of 4 turns used (`maxTurns`)"), "{message}");
    assert_eq!(server.requests().len(), 4);
}

#[test]
fn attempts_that_never_fit_fail_the_step_with_the_last_ones_violations() {
    let wrong = |id: &str, n: u64| submit(id, json!({"passed": n}));
    let server = Server::start([wrong("a", 1), wrong("b", 2), wrong("c", 3), wrong("d", 4)]);
    let step = run(&server, 1);
    let message = step["error"]["message"].as_str().unwrap();
    assert!(
        message.starts_with(&format!("{NEVER} with a result that fits: 4 attempts were rejected")),
        "{message}"
    );
    assert!(step["error"]["hint"].as_str().unwrap().contains("/passed: expected boolean"), "{step}");
}

#[test]
fn without_a_schema_there_is_no_tool_no_result_and_used_up_turns_are_no_failure() {
    let document = r#"
name: n
agents:
  plain: { description: Plain., maxTurns: 1 }
steps:
  - { id: test, agent: plain, instructions: Test. }
"#;
    let server =
        Server::start([at("Test.").text("So far.").call("l", "list_directory", json!({"path": "."}))]);
    let run = flow(&server, document).args(["-o", "json"]).run();
    let report = run.assert_code(0).json();
    let step = &report["steps"]["test"];
    assert_eq!((&step["content"], &step["result"]), (&json!("So far."), &json!(null)));
    assert!(run.stderr.contains("the step ends with what it has: the turn limit was reached"), "{run}");
    assert!(!server.request(0).tool_names().contains(&"submit_result"));
}

#[test]
fn a_result_of_ten_megabytes_arrives_whole_and_does_not_fill_the_next_prompt() {
    let document = DOCUMENT.replace(
        "  - { id: test, agent: tester, instructions: Test. }",
        "  - { id: test, agent: tester, instructions: Test. }\n  - { id: after, dependsOn: [test], instructions: After. }",
    );
    let large = "x".repeat(10_000_000);
    let server =
        Server::start([submit("a", json!({"passed": true, "summary": large})), at("After.").text("done")]);
    let run = flow(&server, &document).args(["--yolo", "-o", "json"]).run();
    let report = run.assert_code(0).json();
    assert_eq!(report["steps"]["test"]["result"]["summary"].as_str().unwrap().len(), 10_000_000);
    let told = server.request(1).body["messages"][1]["content"].as_str().unwrap().to_owned();
    assert!(
        told.len() < 20_000 && told.contains("\"passed\":true") && told.contains("\"_truncated\":true"),
        "{told}"
    );
}

#[test]
fn a_judge_that_never_submits_lets_the_loop_go_on() {
    let document = r#"
name: n
agents:
  judge:
    description: Judges.
    resultSchema: { type: object, required: [done], properties: { done: { type: boolean } } }
steps:
  - id: refine
    instructions: Write.
    loop: { maxIterations: 2, untilAgent: judge }
"#;
    let judge = || tenon_testkit::reply().when_contains("## Your Task: Evaluate Loop Progress");
    let server = Server::start([
        at("Write.").text("One."),
        judge().text("Hm."),
        judge().text("Hm again."),
        at("Write.").text("Two."),
        judge().call("j", "submit_result", json!({"done": true})),
    ]);
    let run = flow(&server, document).run();
    assert_eq!(run.assert_code(0).stdout, "Two.\n", "{run}");
    server.assert_script_done();
    assert!(run.stderr.contains("untilAgent judge failed (iteration 1): "), "{run}");
}

const IN_LOOPS: &str = r#"
name: n
agents:
  sizer:
    description: Sizes.
    resultSchema: { type: object, required: [n], properties: { n: { type: integer } } }
  judge:
    description: Judges.
    resultSchema: { type: object, required: [done], properties: { done: { type: boolean }, why: { type: string } } }
steps:
  - id: each
    loop:
      forEach: [a, b]
      maxConcurrency: 1
      steps:
        - { id: size, agent: sizer, instructions: "Size ${{ item }}." }
        - { id: note, instructions: "Note ${{ steps.size.result.n }}.", dependsOn: [size] }
  - id: refine
    agent: sizer
    dependsOn: [each]
    instructions: Refine.
    loop: { maxIterations: 3, until: result.n > 1, untilAgent: judge }
"#;

/// In steps of a body, in iterations, in judges: what is wrong is said, the first that fits counts.
#[test]
fn it_is_the_same_inside_loops() {
    let submit = |task: &str, arguments: Value| at(task).call("c", "submit_result", arguments);
    let judge = || tenon_testkit::reply().when_contains("## Your Task: Evaluate Loop Progress");
    let server = Server::start([
        submit("Size a.", json!({"n": "one"})),
        submit("Size a.", json!({"n": 1})).text("It is one."),
        at("Note 1.").text("noted 1"),
        submit("Size b.", json!({"n": 2})).call("d", "submit_result", json!({"n": 3})),
        at("Note 2.").text("noted 2"),
        submit("Refine.", json!({"n": 1})),
        judge().call("j", "submit_result", json!({"done": "no"})),
        judge().call("k", "submit_result", json!({"done": false, "why": "too small"})),
        submit("Refine.", json!({"n": 2})),
    ]);
    let run = flow(&server, IN_LOOPS).args(["-o", "json"]).run();
    let report = run.assert_code(0).json();
    server.assert_script_done();
    assert_eq!(report["steps"]["refine"]["result"], json!({"n": 2}), "{run}");
    let items = &report["steps"]["each"]["result"]["iterations"];
    assert_eq!((&items[0]["content"], &items[1]["content"]), (&json!("noted 1"), &json!("noted 2")), "{run}");
    let told = server.request(1).tool_result("c");
    assert!(told.contains("validation failed: /n: expected integer, got string"), "{told}");
    let told = server.request(7).tool_result("j");
    assert!(told.contains("validation failed: /done: expected boolean, got string"), "{told}");
    let second = server.request(8).body.to_string();
    assert!(second.contains("too small"), "what the judge said is passed on: {second}");
}

#[test]
fn an_item_that_never_submits_fails_the_loop_and_the_others_keep_their_results() {
    let document = IN_LOOPS.replace("      steps:\n        - { id: size, agent: sizer, instructions: \"Size ${{ item }}.\" }\n        - { id: note, instructions: \"Note ${{ steps.size.result.n }}.\", dependsOn: [size] }\n", "")
        .replace("  - id: each\n", "  - id: each\n    agent: sizer\n    instructions: \"Size ${{ item }}.\"\n");
    let server = Server::start([
        at("Size a.").call("c", "submit_result", json!({"n": 1})),
        at("Size b.").text("No."),
        at("Size b.").text("Still no."),
    ]);
    let run = flow(&server, &document).args(["-o", "json"]).run();
    let report = run.assert_code(1).json();
    server.assert_script_done();
    let each = &report["steps"]["each"];
    assert_eq!((&each["status"], &each["error"]["class"]), (&json!("failed"), &json!("contract")), "{run}");
    assert_eq!(each["error"]["message"], format!("each[1]: {NEVER}"), "{run}");
    let items = &each["result"]["iterations"];
    assert_eq!((&items[0]["result"], &items[1]["status"]), (&json!({"n": 1}), &json!("failed")), "{run}");
    assert_eq!(report["steps"]["refine"]["status"], "cancelled", "{run}");
}

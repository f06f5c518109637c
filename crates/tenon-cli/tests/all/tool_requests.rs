//! Calls that a client asks for itself (`tool_request`): the same permissions, hooks, limits and lines as for calls of the
//! model's, and nothing of them in the conversation.

use tenon_testkit::{Gate, Server, Value, json, reply};

use super::driving::driven;

fn is_final(line: &Value) -> bool {
    line["metadata"]["final"] == true
}

fn write(call: &str, file: &str) -> Value {
    json!({"callId": call, "name": "write_file", "args": {"file_path": file, "content": "x\n"}, "isClientInitiated": true})
}

fn statuses(seen: &[Value], call: &str) -> Vec<String> {
    let annotations =
        seen.iter().flat_map(|line| line["annotations"].as_array().cloned().unwrap_or_default());
    annotations
        .filter(|one| one["tool_call_id"] == call)
        .map(|one| one["status"].as_str().unwrap().to_owned())
        .collect()
}

#[test]
fn a_call_of_the_clients_own_is_carried_out_and_told_and_nobody_else_hears_of_it() {
    let server = Server::start([reply().text("Hello.")]);
    let mut driver = driven(&server, &["--dialect", "openai", "--yolo"]);
    driver.send(&json!({"prompt_id": "p1", "input": {"origin": "user", "parts": []}, "tool_request": write("w1", "a.txt")}));
    let closing = driver.until(is_final);
    assert_eq!((&closing["prompt_id"], &closing["metadata"]["status"]), (&json!("p1"), &json!("success")));
    assert_eq!(closing["choices"][0]["message"]["content"], "");
    assert_eq!(closing["metadata"]["num_turns"], 0);
    assert_eq!(closing["metadata"]["stats"]["tools"]["byName"]["write_file"]["success"], 1);
    assert_eq!(statuses(&driver.seen, "w1"), ["Executing", "Success"]);
    let shown =
        driver.seen.iter().flat_map(|line| line["annotations"].as_array().cloned().unwrap_or_default());
    let diff = shown.map(|one| one["result_display"].clone()).find(|display| display["kind"] == "file_diff");
    assert!(diff.is_some_and(|diff| diff["stat"]["ai_added_lines"] == 1));
    driver.send(&json!({"input": {"parts": ["hi"]}}));
    driver.until(is_final);
    let run = driver.finish();
    run.assert_code(0);
    assert_eq!(run.read("a.txt"), "x\n");
    let said = server.request(0).messages().len();
    assert_eq!((server.requests().len(), said), (1, 2), "the system prompt and what was said");
}

/// Several at once are one turn: those that only read run side by side, each is told under its own id.
#[test]
fn several_calls_are_one_turn() {
    let server = Server::start([]);
    let setup = super::tenon()
        .server(&server)
        .args(super::driving::LINES)
        .file("a.txt", "first\n")
        .file("b.txt", "second\n");
    let mut driver = super::driving::Driver::start(setup);
    driver.send(&json!({"input": {"tool_request": [
        {"call_id": "r1", "name": "read_file", "args": {"file_path": "a.txt"}},
        {"name": "read_file", "args": {"file_path": "b.txt"}},
    ]}}));
    let result = driver.result();
    assert_eq!(
        (&result["subtype"], &result["result"], &result["num_turns"]),
        (&json!("success"), &json!(""), &json!(0))
    );
    let told: Vec<&Value> = driver.seen.iter().filter(|line| line["type"] == "user").collect();
    let told: Vec<&Value> = told.iter().map(|line| &line["message"]["content"][0]).collect();
    assert_eq!((told.len(), &told[0]["tool_use_id"], &told[0]["is_error"]), (2, &json!("r1"), &json!(false)));
    assert!(
        told[0]["content"].to_string().contains("first") && told[1]["content"].to_string().contains("second")
    );
    assert!(told[1]["tool_use_id"].as_str().unwrap().starts_with("client-"));
    driver.finish().assert_code(0);
    assert_eq!(server.requests().len(), 0);
}

/// Who asks for a call is asked about it like about any other, and rules that deny deny.
#[test]
fn a_call_of_the_clients_own_needs_permission_like_any_other() {
    let server = Server::start([]);
    for (flags, answer, file) in [
        (&[][..], Some(json!({"behavior": "approve"})), true),
        (&[], Some(json!({"behavior": "deny", "message": "not today"})), false),
        (&["--exclude-tools", "write_file"], None, false),
        (&["--approval-mode", "plan"], None, false),
    ] {
        let mut driver = driven(&server, &[&["--dialect", "openai"], flags].concat());
        driver.send(&json!({"input": {}, "tool_request": write("w1", "a.txt")}));
        if let Some(answer) = &answer {
            let asked = driver.until(|line| line["subtype"] == "can_use_tool");
            assert_eq!(
                (&asked["tool_call_id"], &asked["tool"]["name"]),
                (&json!("w1"), &json!("write_file"))
            );
            driver.send(&json!({"type": "control_response", "request_id": asked["request_id"],
                "response": {"subtype": "success", "result": answer}}));
        }
        let closing = driver.until(is_final);
        let status = if file { "success" } else { "error" };
        assert_eq!(closing["metadata"]["status"], status, "{flags:?} {closing:#}");
        if !file {
            assert_eq!(closing["metadata"]["error"]["class"], "tool");
            assert_eq!(statuses(&driver.seen, "w1").last().unwrap(), "Error");
        }
        let run = driver.finish();
        run.assert_code(0);
        assert_eq!(run.workspace().join("a.txt").exists(), file, "{flags:?}");
    }
}

#[test]
fn calls_of_a_client_pass_hooks_and_limits_and_can_fail() {
    let server = Server::start([]);
    let guard = json!({"hooks": {"PreToolUse": [{"matcher": "write_file", "hooks": [
        {"type": "command", "command": "echo '{\"decision\": \"block\", \"reason\": \"no writing\"}'"},
    ]}]}});
    let table = [
        (json!(write("w1", "a.txt")), vec!["--settings".to_owned(), guard.to_string()], "tool", "no writing"),
        (json!({"name": "no_such_tool"}), vec![], "tool", "There is no tool `no_such_tool`"),
        (json!({"name": "read_file", "args": {"file_path": "absent.txt"}}), vec![], "tool", "absent.txt"),
        (json!({"name": "read_file", "args": {}}), vec![], "tool", "file_path"),
        (
            json!([{"name": "glob", "args": {"pattern": "*"}}, {"name": "glob", "args": {"pattern": "*.x"}}]),
            vec!["--max-tool-calls".to_owned(), "1".to_owned()],
            "budget",
            "--max-tool-calls",
        ),
    ];
    for (wanted, flags, class, why) in table {
        let flags: Vec<&str> = ["--yolo"].into_iter().chain(flags.iter().map(String::as_str)).collect();
        let mut driver = driven(&server, &flags);
        driver.send(&json!({"input": {}, "tool_request": wanted}));
        let result = driver.result();
        assert_eq!(
            (&result["is_error"], &result["error"]["class"]),
            (&json!(true), &json!(class)),
            "{result:#}"
        );
        assert!(result["error"]["message"].to_string().contains(why), "{result:#}");
        driver.finish().assert_code(0);
    }
}

/// A command that runs is stopped, and what waits behind it never begins; both are seen to end.
#[test]
fn calls_of_a_client_can_be_cancelled() {
    let server = Server::start([reply().text("Alive.")]);
    let mut driver = driven(&server, &["--dialect", "openai", "--yolo"]);
    driver.send(&json!({"prompt_id": "p1", "input": {}, "tool_request": [
        {"call_id": "s1", "name": "run_shell_command", "args": {"command": "touch begun; sleep 1000", "is_background": false}},
        write("w1", "a.txt"),
    ]}));
    driver.until(|line| statuses(std::slice::from_ref(line), "s1").contains(&"Executing".to_owned()));
    driver.send(&json!({"type": "control/cancel", "prompt_id": "p1", "reason": "escape"}));
    let closing = driver.until(is_final);
    assert_eq!(closing["metadata"]["error"]["class"], "interrupted");
    assert_eq!(statuses(&driver.seen, "s1"), ["Executing", "Canceled"]);
    assert_eq!(statuses(&driver.seen, "w1"), ["Canceled"]);
    driver.send(&json!({"input": {"parts": ["still there?"]}}));
    driver.until(is_final);
    assert_eq!(server.request(0).messages().len(), 2);
    let run = driver.finish();
    run.assert_code(0);
    assert!(!run.workspace().join("a.txt").exists());
}

/// Turns keep their order, whoever works in them; and a sub-agent can be asked for.
#[test]
fn a_sub_agent_can_be_asked_for_and_turns_keep_their_order() {
    let gate = Gate::new();
    let server = Server::start([reply().text("First.").hold(&gate), reply().text("Found it.")]);
    let mut driver = driven(&server, &["--dialect", "openai", "--yolo"]);
    driver.send(&json!({"prompt_id": "p1", "input": {"parts": ["first"]}}));
    let task = json!({"description": "look", "prompt": "Look for it.", "subagent_type": "general-purpose"});
    driver.send(&json!({"prompt_id": "p2", "input": {}, "tool_request": {"call_id": "a1", "name": "agent", "args": task}}));
    gate.open();
    assert_eq!(driver.until(is_final)["prompt_id"], "p1");
    let closing = driver.until(is_final);
    assert_eq!(
        (&closing["prompt_id"], &closing["metadata"]["status"]),
        (&json!("p2"), &json!("success")),
        "{closing:#}"
    );
    let annotations =
        driver.seen.iter().flat_map(|line| line["annotations"].as_array().cloned().unwrap_or_default());
    let shown = annotations
        .map(|one| one["result_display"].clone())
        .find(|one| one["kind"] == "task_execution")
        .unwrap();
    assert_eq!((&shown["status"], &shown["result"]), (&json!("completed"), &json!("Found it.")));
    driver.finish().assert_code(0);
}

#[test]
fn under_a_contract_there_is_no_payload_in_a_call() {
    let server = Server::start([]);
    let schema = r#"{"type":"object","properties":{"n":{"type":"integer"}},"required":["n"]}"#;
    let mut driver = driven(&server, &["--dialect", "claude", "--json-schema", schema]);
    driver.send(&json!({"input": {}, "tool_request": {"name": "glob", "args": {"pattern": "*"}}}));
    let result = driver.result();
    assert!(result["errors"].to_string().contains("is for a model's answer"), "{result}");
    driver.finish().assert_code(0);
}

/// What a call did is not part of the conversation that is kept: a resumed session is whole.
#[test]
fn a_session_with_calls_of_the_client_can_be_resumed() {
    let server = Server::start([reply().text("One."), reply().text("Two.")]);
    let setup = super::tenon().server(&server).args(super::driving::LINES).arg("--yolo");
    let mut driver = super::driving::Driver::start(setup.clone());
    driver.turn("first");
    driver.send(&json!({"input": {}, "tool_request": write("w1", "a.txt")}));
    let session = driver.result()["session_id"].as_str().unwrap().to_owned();
    driver.finish().assert_code(0);
    let mut driver = super::driving::Driver::start(setup.args(["--resume", &session]));
    driver.turn("second");
    driver.finish().assert_code(0);
    let texts: Vec<Value> =
        server.request(1).messages().iter().skip(1).map(|message| message["role"].clone()).collect();
    assert_eq!(texts, [json!("user"), json!("assistant"), json!("user")]);
}

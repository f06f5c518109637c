//! What a session tells a client without being asked, and what it does not pretend: background work that ends between
//! turns, helpers in an answer of pieces, plans that nobody approved, commands where a payload is owed.

use tenon_testkit::{Server, Value, json, reply};

use super::driving::{Driver, LINES, driven};
use super::tenon;

/// A task that ends while nobody asks anything is told at once, and no turn begins by itself.
#[test]
fn the_end_of_background_work_is_told_when_it_happens() {
    let wait = "until [ -e go ]; do sleep 0.02; done; echo over";
    for (dialect, is_end) in [
        ("qwen", (|line: &Value| line["subtype"] == "task_notification") as fn(&Value) -> bool),
        ("claude", |line: &Value| line["subtype"] == "task_notification"),
        ("openai", |line: &Value| line["annotations"][0]["event"] == "TaskFinished"),
    ] {
        let server = Server::start([
            reply().call("c1", "run_shell_command", json!({"command": wait, "is_background": true})),
            reply().text("It runs."),
            reply().text("I know."),
        ]);
        let mut driver = driven(&server, &["-y", "--dialect", dialect]);
        let is_result = |line: &Value| line["type"] == "result" || line["metadata"]["final"] == true;
        driver.send(&super::driving::user("start it"));
        driver.until(is_result);
        let cwd = |line: &Value| line["cwd"].as_str().or(line["metadata"]["cwd"].as_str()).map(str::to_owned);
        let folder = driver.seen.iter().find_map(cwd).expect("the first line says where it works");
        std::fs::write(std::path::Path::new(&folder).join("go"), "").unwrap();
        let end = driver.until(is_end);
        assert!(end.to_string().contains("completed"), "{end}");
        assert_eq!(server.requests().len(), 2, "nobody asked the model");
        driver.send(&super::driving::user("and now?"));
        driver.until(is_result);
        let told = server.request(2).body["messages"].to_string();
        assert!(told.contains("bg_"), "the model is told: {told}");
        let run = driver.finish();
        run.assert_code(0);
        assert_eq!(run.json_lines().iter().filter(|line| is_end(line)).count(), 1, "{run}");
    }
}

/// A client that puts pieces together gets the answer, and nothing that a helper said.
#[test]
fn helpers_are_kept_apart_from_an_answer_in_pieces() {
    let server = Server::start([
        reply().call(
            "c1",
            "agent",
            json!({"description": "look", "prompt": "look", "subagent_type": "general-purpose"}),
        ),
        reply().text("Only between us."),
        reply().text("The answer."),
    ]);
    let run = tenon().server(&server).args(["-p", "ask", "-y", "-o", "stream-chunk-json"]).run();
    let lines = run.assert_code(0).json_lines();
    let content: String =
        lines.iter().filter_map(|line| line["choices"][0]["delta"]["content"].as_str()).collect();
    assert_eq!(content, "The answer.", "{run}");
    let ends: Vec<&Value> = lines.iter().filter(|line| !line["parent_tool_call_id"].is_null()).collect();
    assert!(ends.iter().all(|line| line["choices"][0]["finish_reason"].is_null()), "{run}");
    assert!(
        ends.iter().all(|line| line["choices"][0]["delta"].get("tool_calls").is_none_or(Value::is_null)),
        "{run}"
    );
    let said = ends.iter().flat_map(|line| line["annotations"].as_array().unwrap());
    let said: Vec<&Value> = said.filter(|shown| shown["text"] == "Only between us.").collect();
    assert_eq!(said.len(), 1, "{run}");
    assert_eq!((&said[0]["log_scope"], &said[0]["source"]), (&json!("tool"), &json!("tool")));
}

#[test]
fn a_plan_that_was_not_approved_is_no_success() {
    let server = Server::start([
        reply().call("c1", "exit_plan_mode", json!({"plan": "1. Break it"})),
        reply().text("Fine."),
    ]);
    let mut driver = driven(&server, &["--dialect", "openai", "--approval-mode", "plan"]);
    driver.send(&json!({"input": {"parts": ["plan"]}}));
    let asked = driver.until(|line| line["subtype"] == "can_use_tool");
    driver.reply(&asked["request_id"], json!({"behavior": "deny", "message": "too bold"}));
    driver.until(|line| line["metadata"]["final"] == true);
    let shown = |line: &Value| line["annotations"][0].clone();
    let end = driver.seen.iter().map(shown).find(|shown| !shown["result_display"].is_null()).unwrap();
    assert_eq!((&end["status"], &end["result_display"]["kind"]), (&json!("Error"), &json!("plan_summary")));
    driver.finish().assert_code(0);
}

/// Under a contract a turn ends with a payload, or it failed: a command that tenon answers itself has none.
#[test]
fn a_command_cannot_be_the_answer_under_a_contract() {
    let schema = r#"{"type":"object","properties":{"n":{"type":"integer"}},"required":["n"]}"#;
    let server = Server::start([
        reply().call("c1", "structured_output", json!({"n": 1})),
        reply().call("c2", "structured_output", json!({"n": 2})),
    ]);
    let mut driver = driven(&server, &["--dialect", "claude", "--json-schema", schema]);
    for command in ["/help", "/clear", "/compress"] {
        let result = driver.turn(command);
        assert_eq!(
            (&result["subtype"], &result["is_error"]),
            (&json!("error_during_execution"), &json!(true)),
            "{result}"
        );
        assert!(result["errors"].to_string().contains("is for a model's answer"), "{result}");
        assert_eq!(result["structured_output"], json!(null));
    }
    assert_eq!(driver.turn("one")["structured_output"], json!({"n": 1}));
    driver.finish().assert_code(0);
    assert_eq!(server.requests().len(), 1);
}

/// What cannot be honoured is answered, and the session goes on.
#[test]
fn nothing_that_is_asked_for_is_ignored() {
    let user = json!([{"role": "user", "content": "hi"}]);
    let open_call = json!([
        {"role": "user", "content": "x"},
        {"role": "assistant", "tool_calls": [{"id": "c1", "function": {"name": "f", "arguments": "{}"}}]},
        {"role": "user", "content": "hi"},
    ]);
    let lines = [
        (json!({"input": {"parts": ["x"]}, "options": {"frequency_penalty": 1}}), "there is no option"),
        (json!({"messages": user, "response_format": {"type": "json_object"}}), "`response_format`"),
        (json!({"messages": user, "n": 3}), "`n`"),
        (json!({"messages": user, "tools": [{"type": "function"}]}), "`tools`"),
        (json!({"messages": user, "logit_bias": {}}), "`logit_bias`"),
        (json!({"messages": open_call}), "has no answer"),
        (json!({"type": "user", "message": {"role": "assistant", "content": "I said so"}}), "`message.role`"),
        (json!({"input": {"parts": ["x"]}, "tool_request": {"call_id": "c"}}), "needs the `name` of a tool"),
        (json!({"prompt_id": "", "input": {"parts": ["x"]}}), "`prompt_id` is empty"),
        (
            json!({"type": "control_request", "request_id": "", "subtype": "interrupt"}),
            "`request_id` is empty",
        ),
        (
            json!({"type": "control_request", "request_id": null, "subtype": "interrupt"}),
            "needs a `request_id`",
        ),
    ];
    let server = Server::start([reply().text("Still here.")]);
    let mut driver = driven(&server, &["--dialect", "openai"]);
    for (line, wanted) in &lines {
        driver.send(line);
        let error = driver.until(|line| line["type"] == "result/error");
        assert!(error["error"]["message"].as_str().unwrap().contains(wanted), "{line}: {error}");
    }
    driver.send(&json!({"messages": user}));
    let closing = driver.until(|line| line["metadata"]["final"] == true);
    assert_eq!(closing["choices"][0]["message"]["content"], "Still here.");
    driver.finish().assert_code(0);
    assert_eq!(server.requests().len(), 1, "nothing else reached the model");
}

/// A sign of life does not need a turn, and a command says with its answer what it did not use.
#[test]
fn a_session_that_nobody_speaks_to_shows_signs_of_life() {
    let server = Server::start([]);
    for (dialect, key, wanted) in [
        ("qwen", "subtype", "heartbeat"),
        ("claude", "subtype", "heartbeat"),
        ("openai", "type", "result/heartbeat"),
    ] {
        let mut driver = driven(&server, &["--dialect", dialect, "--heartbeat", "1"]);
        driver.until(|line| line[key] == wanted);
        driver.until(|line| line[key] == wanted);
        driver.finish().assert_code(0);
    }
    let run = tenon().server(&server).args(["-p", "/help", "-o", "json"]).stdin("not used").run();
    let result = run.assert_code(0).json();
    let warnings = result.as_array().unwrap().last().unwrap()["warnings"].to_string();
    assert!(warnings.contains("what came on stdin is not used"), "{run}");
}

#[test]
fn a_proxy_has_the_address_of_one() {
    for proxy in ["nonsense", "ftp://proxy:1", "http://", "http://:80", "socks5://x", "not a url"] {
        let run = tenon().args(["-p", "hi", "--proxy", proxy]).run();
        run.assert_code(2);
        assert!(run.stderr.contains("is not the URL of a proxy"), "{proxy}: {run}");
    }
}

/// A file's address is decoded, and both spellings of a part are understood.
#[test]
fn files_by_their_encoded_address() {
    let server = Server::start([reply().text("Read."), reply().text("Read.")]);
    let setup = tenon().server(&server).args(LINES).args(["--dialect", "openai"]);
    let setup = setup.file("a b ä.txt", "with blanks");
    let folder = setup.workspace().to_owned();
    let mut driver = Driver::start(setup);
    let address = format!("file://{}/a%20b%20%C3%A4.txt", folder.display());
    for (at, part) in [
        json!({"type": "file_data", "file_uri": address}),
        json!({"fileData": {"fileUri": address, "mimeType": "text/plain"}}),
    ]
    .into_iter()
    .enumerate()
    {
        driver.send(&json!({"input": {"parts": ["read", part]}}));
        let closing = driver.until(|line| line["metadata"]["final"] == true);
        assert_eq!(closing["choices"][0]["message"]["content"], "Read.", "{closing}");
        assert!(server.request(at).body.to_string().contains("with blanks"));
    }
    driver.finish().assert_code(0);
}

//! A client that drives a session over stdin and stdout: turns in order, every request answered under its
//! id, bad lines answered and survived.

use std::time::Duration;

use tenon_testkit::{Gate, Running, Server, Value, json, reply};

use super::output::SCHEMA;
use super::tenon;

fn session(server: &Server) -> Running {
    driven(server, &[])
}

fn driven(server: &Server, flags: &[&str]) -> Running {
    tenon()
        .server(server)
        .args(["--input-format", "stream-json", "--output-format", "stream-json"])
        .args(flags)
        .stdin_idle()
        .spawn()
}

fn user(text: &str) -> Value {
    json!({"type": "user", "session_id": "", "message": {"role": "user", "content": text}, "parent_tool_use_id": null})
}

fn control(id: &str, request: Value) -> Value {
    json!({"type": "control_request", "request_id": id, "request": request})
}

fn is(kind: &'static str) -> impl Fn(&Value) -> bool {
    move |line| line["type"] == kind
}

#[track_caller]
fn answer(client: &mut Running, id: &str) -> Value {
    let id = id.to_owned();
    client.json_where(|line| {
        line["type"] == "control_response" && line["response"]["request_id"] == id.as_str()
    })["response"]
        .clone()
}

#[test]
fn two_turns_share_one_conversation_and_end_of_input_ends_in_order() {
    let server = Server::start([reply().text("One."), reply().text("Two.")]);
    let mut client = session(&server);
    client.write_json(&control("r1", json!({"subtype": "initialize", "hooks": null})));
    let initialized = answer(&mut client, "r1");
    assert_eq!(initialized["subtype"], "success");
    assert_eq!(initialized["response"]["capabilities"]["can_handle_can_use_tool"], true);
    client.write_json(&user("first"));
    client.write_json(&user("second"));
    client.close_stdin();
    let results = [client.json_where(is("result")), client.json_where(is("result"))];
    assert_eq!((&results[0]["result"], &results[1]["result"]), (&json!("One."), &json!("Two.")));
    assert_eq!(results[0]["session_id"], initialized["response"]["session_id"]);
    let run = client.wait();
    assert_eq!(run.code, 0, "{run}");
    let inits = run.json_lines().iter().filter(|line| line["subtype"] == "init").count();
    assert_eq!(inits, 2, "each turn introduces itself\n{run}");
    server.assert_script_done();
    let second = server.request(1);
    let said: Vec<&str> = second.messages()[1..].iter().map(|m| m["content"].as_str().unwrap()).collect();
    assert_eq!(said, ["first", "One.", "second"]);
}

#[test]
fn a_client_allows_denies_and_changes_calls() {
    let write =
        |content: &str| reply().call("c1", "write_file", json!({"file_path": "a.txt", "content": content}));
    let table = [
        (json!({"behavior": "allow"}), Some("old"), false),
        (
            json!({"behavior": "allow", "updatedInput": {"file_path": "a.txt", "content": "new"}}),
            Some("new"),
            false,
        ),
        (json!({"behavior": "deny", "message": "not today"}), None, true),
        (json!({"behavior": "perhaps"}), None, true),
    ];
    for (decision, written, is_error) in table {
        let server = Server::start([write("old"), reply().text("Done.")]);
        let mut client = session(&server);
        client.write_json(&user("write"));
        let asked = client.json_where(is("control_request"));
        assert_eq!(asked["request"]["subtype"], "can_use_tool");
        assert_eq!(asked["request"]["tool_name"], "write_file");
        let id = asked["request_id"].as_str().unwrap();
        client.write_json(&json!({
            "type": "control_response",
            "response": {"subtype": "success", "request_id": id, "response": decision},
        }));
        let told = client.json_where(is("user"));
        assert_eq!(told["message"]["content"][0]["is_error"], is_error, "{decision}\n{told}");
        client.close_stdin();
        let run = client.wait();
        assert_eq!(run.code, 0, "{run}");
        let file = run.workspace().join("a.txt");
        assert_eq!(std::fs::read_to_string(file).ok().as_deref(), written, "{decision}\n{run}");
    }
}

#[test]
fn an_interrupted_turn_has_a_result_and_the_session_goes_on() {
    let gate = Gate::new();
    let server = Server::start([reply().text("never").hold(&gate), reply().text("Still here.")]);
    let mut client = session(&server);
    client.write_json(&user("slow"));
    client.json_where(|line| line["subtype"] == "init");
    server.wait_for_requests(1, Duration::from_secs(30));
    client.write_json(&control("stop", json!({"subtype": "interrupt"})));
    assert_eq!(answer(&mut client, "stop")["subtype"], "success");
    let result = client.json_where(is("result"));
    assert_eq!((&result["is_error"], &result["error"]["class"]), (&json!(true), &json!("interrupted")));
    gate.open();
    client.write_json(&user("again"));
    assert_eq!(client.json_where(is("result"))["result"], "Still here.");
    client.close_stdin();
    assert_eq!(client.wait().code, 0);
}

#[test]
fn bad_lines_are_answered_and_cost_nothing_else() {
    let server = Server::start([reply().text("Fine.")]);
    let mut client = session(&server);
    let bad: [&[u8]; 7] = [
        b"garbage",
        b"[1,2]",
        b"{\"type\":7}",
        b"{}",
        b"\xff\xfe",
        b"{\"type\":\"user\"}",
        b"{\"type\":\"control_response\"}",
    ];
    for (at, line) in bad.iter().enumerate() {
        client.write([line, &b"\n"[..]].concat());
        let told = client.json_where(|line| line["subtype"] == "input_error");
        assert_eq!(told["data"]["line"], at + 1, "{told}");
        if line.starts_with(b"{\"type\":\"user\"") {
            assert_eq!(client.json_where(is("result"))["is_error"], true, "a bad user line has a result too");
        }
    }
    client.write_json(&json!({"type": "from_the_future"}));
    client.write_json(&control("r1", json!({"subtype": "make_coffee"})));
    let refused = answer(&mut client, "r1");
    assert_eq!(
        (&refused["subtype"], &refused["error"]),
        (&json!("error"), &json!("there is no control request `make_coffee`"))
    );
    client.write_json(&user("go"));
    assert_eq!(client.json_where(is("result"))["result"], "Fine.");
    client.close_stdin();
    assert_eq!(client.wait().code, 0);
}

#[test]
fn a_failed_start_answers_requests_and_fails_each_turn() {
    let mut client = tenon()
        .args(["--input-format", "stream-json", "--output-format", "stream-json"])
        .stdin_idle()
        .spawn();
    client.write_json(&control("r1", json!({"subtype": "initialize"})));
    assert_eq!(answer(&mut client, "r1")["subtype"], "success");
    client.write_json(&user("go"));
    let result = client.json_where(is("result"));
    assert_eq!((&result["error"]["class"], &result["error"]["code"]), (&json!("auth"), &json!(41)));
    client.close_stdin();
    assert_eq!(client.wait().code, 41);
}

#[test]
fn a_contract_holds_for_every_turn_in_the_claude_dialect() {
    let server = Server::start([
        reply().call("c1", "structured_output", json!({"risk": "low"})),
        reply().call("c2", "structured_output", json!({"risk": "high"})),
    ]);
    let mut client = driven(&server, &["--dialect", "claude", "--verbose", "--json-schema", SCHEMA]);
    for risk in ["low", "high"] {
        client.write_json(&user("rate"));
        assert_eq!(client.json_where(is("result"))["structured_output"], json!({"risk": risk}));
    }
    client.close_stdin();
    assert_eq!(client.wait().code, 0);
}

#[test]
fn hooks_of_the_client_are_called_back() {
    let server =
        Server::start([reply().call("c1", "list_directory", json!({"path": "."})), reply().text("Done.")]);
    let mut client = session(&server);
    let hooks = json!({"PreToolUse": [{"matcher": "list_directory", "hookCallbackIds": ["h0"]}]});
    client.write_json(&control("r1", json!({"subtype": "initialize", "hooks": hooks})));
    let initialized = answer(&mut client, "r1");
    assert_eq!(initialized["subtype"], "success");
    client.write_json(&user("look"));
    let called = client.json_where(is("control_request"));
    assert_eq!(called["request"]["subtype"], "hook_callback", "{called}");
    assert_eq!(called["request"]["callback_id"], "h0");
    let input = &called["request"]["input"];
    assert_eq!(input["tool_name"], "list_directory");
    // It is told what a hook of the settings would be told.
    assert_eq!(input["session_id"], initialized["response"]["session_id"], "{input}");
    assert!(input["transcript_path"].as_str().unwrap().ends_with(".jsonl"), "{input}");
    assert!(input["cwd"].as_str().unwrap().len() > 1, "{input}");
    let refusal = json!({"decision": "block", "reason": "not here"});
    client.write_json(&json!({
        "type": "control_response",
        "response": {"subtype": "success", "request_id": called["request_id"], "response": refusal},
    }));
    let told = client.json_where(is("user"));
    assert_eq!(told["message"]["content"][0]["is_error"], true, "{told}");
    client.close_stdin();
    assert_eq!(client.wait().code, 0);
}

/// Whatever becomes of the question, a guard that has not said yes lets nothing through.
#[test]
fn a_guard_of_the_client_that_fails_lets_nothing_through() {
    let answers = [
        Some(json!({"subtype": "error", "error": "it broke"})),
        Some(json!({"subtype": "success", "response": "zzz"})),
        None,
    ];
    for given in answers {
        let call = json!({"path": "."});
        let server = Server::start([reply().call("c1", "list_directory", call), reply().text("Done.")]);
        let mut client = session(&server);
        let hooks = json!({"PreToolUse": [{"matcher": "*", "hookCallbackIds": ["h0"], "timeout": 1}]});
        client.write_json(&control("r1", json!({"subtype": "initialize", "hooks": hooks})));
        client.write_json(&user("look"));
        let called = client.json_where(is("control_request"));
        if let Some(mut response) = given.clone() {
            response["request_id"] = called["request_id"].clone();
            client.write_json(&json!({"type": "control_response", "response": response}));
        }
        let told = client.json_where(is("user"));
        assert_eq!(told["message"]["content"][0]["is_error"], true, "{given:?}: {told}");
        let text = told["message"]["content"][0]["content"].to_string();
        assert!(text.contains("that guards it failed"), "{given:?}: {told}");
        client.close_stdin();
        assert_eq!(client.wait().code, 0);
    }
}

#[test]
fn a_chat_request_speaks_openai_without_being_told() {
    let server = Server::start([reply().text("Hello.")]);
    let run = tenon()
        .server(&server)
        .args(["--input-format", "stream-json", "--output-format", "stream-json"])
        .stdin("{\"model\":\"test-model\",\"messages\":[{\"role\":\"user\",\"content\":\"Hello\"}]}\n")
        .run();
    let lines = run.assert_code(0).json_lines();
    assert!(lines.iter().all(|line| line["object"] == "chat.completion"), "{run}");
    let last = lines.last().unwrap();
    assert_eq!(last["choices"][0]["message"]["content"], "Hello.", "{run}");
    assert_eq!(last["metadata"]["final"], true, "{run}");
}

#[test]
fn another_version_of_the_protocol_is_refused() {
    let server = Server::start([]);
    let mut client = driven(&server, &["--dialect", "openai"]);
    client.write_json(&json!({"protocol_version": 9, "input": {"parts": [{"type": "text", "text": "hi"}]}}));
    let line = client.json();
    assert_eq!(
        (&line["choices"][0]["finish_reason"], &line["metadata"]["error"]),
        (&json!("error"), &json!("unsupported_protocol"))
    );
    assert_eq!(client.wait().code, 1);
}

#[test]
fn a_session_needs_lines_to_answer_with() {
    for flags in [&["-o", "text"][..], &["-o", "json"], &[]] {
        let run = tenon().args(["--input-format", "stream-json"]).args(flags).run();
        run.assert_code(2);
        assert!(run.stderr.contains("`--input-format stream-json` needs an output format of lines"), "{run}");
    }
    let run =
        tenon().args(["--input-format", "stream-json", "-o", "stream-json", "--dialect", "gemini"]).run();
    run.assert_code(2);
    assert!(run.stderr.contains("the `gemini` dialect has no `--input-format stream-json`"), "{run}");
}

#[test]
fn a_running_command_is_put_in_the_background_and_outlives_its_turn() {
    let wait = "echo started; until [ -e go ]; do sleep 0.05; done; echo over";
    let server = Server::start([
        reply().call("c1", "run_shell_command", json!({"command": wait})),
        reply().text("It runs."),
        reply().text("It is over."),
    ]);
    let mut client = driven(&server, &["-y", "--include-partial-messages"]);
    client.write_json(&user("start it"));
    client.json_where(is("assistant"));
    // The call may not have begun when its message is out.
    let promoted = loop {
        client.write_json(&control("p", json!({"subtype": "promote_task", "tool_use_id": "c1"})));
        let answer = answer(&mut client, "p");
        if answer["subtype"] == "success" {
            break answer;
        }
        assert_eq!(answer["error"], "no command runs for the call `c1`");
    };
    let task = promoted["response"]["task_id"].as_str().unwrap().to_owned();
    assert_eq!(client.json_where(is("result"))["result"], "It runs.");
    client.write_json(&control("none", json!({"subtype": "promote_task", "tool_use_id": "c9"})));
    assert_eq!(answer(&mut client, "none")["error"], "no command runs for the call `c9`");
    client.write_json(&user("and now?"));
    assert_eq!(client.json_where(is("result"))["result"], "It is over.");
    client.close_stdin();
    let run = client.wait();
    assert_eq!(run.code, 0, "{run}");
    let ends: Vec<Value> =
        run.json_lines().into_iter().filter(|line| line["subtype"] == "task_notification").collect();
    assert_eq!(ends.len(), 1, "{run}");
    assert_eq!(
        (&ends[0]["data"]["task_id"], &ends[0]["data"]["status"]),
        (&json!(task), &json!("cancelled"))
    );
}

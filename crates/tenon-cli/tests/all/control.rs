//! Control requests both ways: what a client is told of the session, what becomes of its answers, and many
//! requests at once.

use std::collections::BTreeSet;

use tenon_testkit::{Gate, Server, Value, json, reply};

use super::driving::{driven, user};

/// A write that has to be asked for, then a last word.
fn writes() -> [tenon_testkit::Reply; 2] {
    let call = json!({"file_path": "a.txt", "content": "x"});
    [reply().call("c1", "write_file", call), reply().text("Done.")]
}

fn request(text: &str) -> Value {
    json!({"input": {"parts": [{"type": "text", "text": text}]}})
}

fn is_final(line: &Value) -> bool {
    line["metadata"]["final"] == true
}

fn asks(line: &Value) -> bool {
    line["type"] == "control_request" && line["subtype"] == "can_use_tool"
}

/// The client carries out a call that it is asked about, and the model hears what came of it.
#[test]
fn a_client_answers_a_call_itself() {
    for answer in [
        json!({"tool_call_id": "c1", "input": {"origin": "tool_response",
            "parts": [{"type": "function_response", "name": "write_file", "response": {"written": 1}}]}}),
        json!({"tool_request": {"call_id": "c1"}, "input": {"origin": "tool_response",
            "parts": [{"type": "function_response", "name": "write_file", "response": {"written": 1}}]}}),
    ] {
        let server = Server::start(writes());
        let mut driver = driven(&server, &["--dialect", "openai"]);
        driver.send(&request("write"));
        driver.until(asks);
        driver.send(&answer);
        let closing = driver.until(is_final);
        assert_eq!(closing["choices"][0]["message"]["content"], "Done.", "{closing}");
        assert_eq!(closing["metadata"]["permission_denials"], json!([]));
        assert_eq!(server.request(1).tool_result("c1"), r#"{"written":1}"#);
        // It is answered now, so nobody waits for it any more.
        driver.send(&answer);
        let error = driver.until(|line| line["type"] == "result/error");
        assert_eq!(error["error"]["message"], "no call `c1` waits for an answer");
        let run = driver.finish();
        run.assert_code(0);
        assert!(!run.workspace().join("a.txt").exists(), "the tool itself did not run");
    }
}

/// What is shown of a call, one annotation after the other.
fn displays(seen: &[Value], call: &str) -> Vec<Value> {
    let annotations =
        seen.iter().flat_map(|line| line["annotations"].as_array().cloned().unwrap_or_default());
    annotations.filter(|one| one["type"] == "x-qwen-tool-display" && one["tool_call_id"] == call).collect()
}

fn statuses(seen: &[Value], call: &str) -> Vec<String> {
    displays(seen, call).iter().map(|one| one["status"].as_str().unwrap().to_owned()).collect()
}

/// A client that could not carry a call out says so, and nobody takes that for a success.
#[test]
fn a_call_that_a_client_failed_at_is_shown_as_failed() {
    let table = [
        (json!({"response": {"error": "no space left"}}), r#"{"error":"no space left"}"#, "Error"),
        (json!({"response": "no space left", "is_error": true}), "no space left", "Error"),
        (json!({"response": {"output": "ok", "error": null}}), r#"{"output":"ok","error":null}"#, "Success"),
    ];
    for (response, told, status) in table {
        let server = Server::start(writes());
        let mut driver = driven(&server, &["--dialect", "openai"]);
        driver.send(&request("write"));
        driver.until(asks);
        driver.send(&json!({"tool_call_id": "c1", "input": {"origin": "tool_response",
            "parts": [{"function_response": response}]}}));
        let closing = driver.until(is_final);
        assert_eq!(statuses(&driver.seen, "c1"), ["Pending", "Confirming", "Executing", status]);
        let end = displays(&driver.seen, "c1").pop().unwrap();
        assert_eq!(end["result_display"], json!({"kind": "string", "text": told}));
        let tools = &closing["metadata"]["stats"]["tools"]["byName"]["write_file"];
        assert_eq!(tools["fail"], u64::from(status == "Error"), "{closing}");
        assert_eq!(server.request(1).tool_result("c1"), told);
        driver.finish().assert_code(0);
    }
}

/// Stopping a turn answers no question: what waited for a yes is neither allowed nor denied, and what waited behind it
/// never began. A client sees the end of both.
#[test]
fn calls_that_wait_when_a_turn_is_stopped_end_as_cancelled() {
    let other = json!({"file_path": "b.txt", "content": "y"});
    let server = Server::start([writes()[0].clone().call("c2", "write_file", other), reply().text("Next.")]);
    let mut driver = driven(&server, &["--dialect", "openai"]);
    driver.send(&request("write"));
    let asked = driver.until(asks);
    driver.send(&json!({"type": "control/cancel", "reason": "escape"}));
    let closing = driver.until(is_final);
    driver.until(|line| line["type"] == "result/cancel" && line["status"] == "ok");
    assert_eq!(statuses(&driver.seen, "c1"), ["Pending", "Confirming", "Canceled"]);
    assert_eq!(statuses(&driver.seen, "c2"), ["Pending", "Canceled"]);
    assert_eq!(closing["metadata"]["permission_denials"], json!([]));
    assert_eq!(closing["metadata"]["warnings"], json!([]));
    assert_eq!(closing["metadata"]["control_errors"], json!([]));
    let withdrawn = driver.seen.iter().find(|line| line["type"] == "control_cancel_request").unwrap();
    assert_eq!(withdrawn["request_id"], asked["request_id"]);
    driver.send(&request("next"));
    driver.until(is_final);
    assert!(server.request(1).tool_result("c1").starts_with("Not run:"));
    let run = driver.finish();
    run.assert_code(0);
    assert!(!run.workspace().join("a.txt").exists() && !run.workspace().join("b.txt").exists());
    assert!(!run.stderr.contains("was denied"), "{run}");
}

/// The same in the dialects whose clients count results: every call has one.
#[test]
fn every_call_of_a_stopped_turn_has_a_result() {
    for dialect in ["qwen", "claude"] {
        let other = json!({"file_path": "b.txt", "content": "y"});
        let server = Server::start([writes()[0].clone().call("c2", "write_file", other)]);
        let mut driver = driven(&server, &["--dialect", dialect]);
        driver.send(&user("write"));
        driver.until(|line| line["request"]["subtype"] == "can_use_tool");
        driver.told(json!({"subtype": "interrupt"}));
        let result = driver.result();
        assert_eq!((&result["is_error"], &result["permission_denials"]), (&json!(true), &json!([])));
        let results: Vec<&Value> = driver
            .seen
            .iter()
            .filter(|line| line["type"] == "user")
            .map(|line| &line["message"]["content"][0])
            .collect();
        let shown: Vec<(&Value, &Value)> =
            results.iter().map(|one| (&one["tool_use_id"], &one["is_error"])).collect();
        let (yes, c1, c2) = (json!(true), json!("c1"), json!("c2"));
        assert_eq!(shown, [(&c1, &yes), (&c2, &yes)], "{dialect}");
        driver.finish().assert_code(0);
    }
}

/// A client's hook that fails is told wherever its dialect has a place for it: the call that it guards does not run.
#[test]
fn hooks_of_a_client_that_fail_are_told() {
    let answers = [
        (Some(json!({"subtype": "error", "error": {"message": "it broke"}})), "it broke"),
        (Some(json!({"subtype": "success", "result": {"decision": 5}})), "`decision` of its answer must be"),
        (Some(json!({"subtype": "success", "result": [1]})), "its answer is not an object"),
        (None, "answer"),
    ];
    for dialect in ["openai", "qwen", "claude"] {
        for (answer, why) in &answers {
            let server = Server::start(writes());
            let mut driver = driven(&server, &["--dialect", dialect, "--yolo"]);
            let hooks = json!({"PreToolUse": [{"matcher": "*", "hookCallbackIds": ["h0"], "timeout": 1}]});
            driver.told(json!({"subtype": "initialize", "hooks": hooks}));
            driver.send(&user("write"));
            let called = driver.until(|line| line["type"] == "control_request");
            if let Some(answer) = answer {
                let mut answer = answer.clone();
                let mut line = json!({"type": "control_response"});
                if dialect == "openai" {
                    line["request_id"] = called["request_id"].clone();
                } else {
                    answer["request_id"] = called["request_id"].clone();
                    answer["response"] = answer["result"].take();
                }
                line["response"] = answer;
                driver.send(&line);
            }
            let end = driver.until(|line| is_final(line) || line["type"] == "result");
            let end = if dialect == "openai" { &end["metadata"] } else { &end };
            let warnings = end["warnings"].to_string();
            assert!(warnings.contains("`PreToolUse` hook `h0` failed") && warnings.contains(why), "{end:#}");
            assert_eq!(end["permission_denials"][0]["tool_name"], "write_file");
            if dialect == "openai" {
                let errors = end["control_errors"].as_array().unwrap();
                assert_eq!(errors.len(), 1, "{errors:?}");
                let error = errors[0].as_str().unwrap();
                assert!(error.contains("hook_callback") && error.contains(why), "{error}");
            }
            let run = driver.finish();
            run.assert_code(0);
            assert!(!run.workspace().join("a.txt").exists());
        }
    }
}

#[test]
fn answers_that_went_wrong_are_told_with_the_result() {
    let table = [
        (json!({"subtype": "error", "error": {"message": "no dialog", "retryable": false}}), "no dialog"),
        (json!({"subtype": "success", "result": {"behavior": "perhaps"}}), "says neither yes nor no"),
        (
            json!({"subtype": "success", "result": {"behavior": "allow", "updatedInput": "x"}}),
            "not an object",
        ),
        (json!(null), "needs a `response` object"),
        (json!({"subtype": "success", "result": {"behavior": "deny"}}), ""),
    ];
    for (response, wrong) in table {
        let server = Server::start(writes());
        let mut driver = driven(&server, &["--dialect", "openai"]);
        driver.send(&request("write"));
        let asked = driver.until(asks);
        driver.send(
            &json!({"type": "control_response", "request_id": asked["request_id"], "response": response}),
        );
        let closing = driver.until(is_final);
        let errors = closing["metadata"]["control_errors"].as_array().unwrap().clone();
        match wrong {
            "" => assert!(errors.is_empty(), "{errors:?}"),
            wrong => assert!(errors.len() == 1 && errors[0].as_str().unwrap().contains(wrong), "{errors:?}"),
        }
        let run = driver.finish();
        run.assert_code(0);
        assert!(!run.workspace().join("a.txt").exists(), "{response}");
    }
}

/// No answer costs its deadline; one that comes after that is told with the next result.
#[test]
fn late_answers_are_told_and_do_nothing() {
    let [first, second] = writes();
    let server = Server::start([first, second, reply().text("Again.")]);
    let settings = json!({"timeouts": {"canUseTool": "1s"}}).to_string();
    let mut driver = driven(&server, &["--dialect", "openai", "--settings", &settings]);
    driver.send(&request("write"));
    let asked = driver.until(asks);
    let closing = driver.until(is_final);
    let errors = closing["metadata"]["control_errors"].to_string();
    assert!(errors.contains("did not answer in time"), "{errors}");
    let yes = json!({"subtype": "success", "result": {"behavior": "allow"}});
    driver.send(&json!({"type": "control_response", "request_id": asked["request_id"], "response": yes}));
    driver.send(&request("again"));
    let closing = driver.until(is_final);
    let errors = closing["metadata"]["control_errors"].to_string();
    assert!(errors.contains("came too late"), "{errors}");
    let run = driver.finish();
    assert!(!run.workspace().join("a.txt").exists());
}

#[test]
fn a_client_sees_models_usage_and_context() {
    let settings = json!({
        "providers": {"house": {"wire": "openai", "baseUrl": "http://127.0.0.1:9/v1", "models": ["big", "small"]}},
    })
    .to_string();
    let server = Server::start([reply().text("One.").usage(100, 20), reply().text("Two.").usage(200, 30)]);
    let mut driver = driven(&server, &["--settings", &settings, "--fallback-model", "other"]);
    driver.told(json!({"subtype": "initialize"}));
    let models = driver.told(json!({"subtype": "get_available_models"}));
    let ids: Vec<&Value> = models["models"].as_array().unwrap().iter().map(|model| &model["id"]).collect();
    assert_eq!(ids, ["test-model", "other", "house/big", "house/small"]);
    let before = driver.told(json!({"subtype": "get_context_usage"}));
    driver.turn("one");
    driver.turn("two");
    let after = driver.told(json!({"subtype": "get_context_usage"}));
    assert!(after["totalTokens"].as_u64() > before["totalTokens"].as_u64(), "{before} {after}");
    assert_eq!((&after["modelName"], &after["model"]), (&json!("test-model"), &json!("test-model")));
    let sum: u64 =
        after["categories"].as_array().unwrap().iter().filter_map(|part| part["tokens"].as_u64()).sum();
    assert_eq!(after["totalTokens"].as_u64(), Some(sum));
    let usage = driver.told(json!({"subtype": "get_usage_info"}));
    assert_eq!(
        (&usage["turns"], &usage["input_tokens"], &usage["output_tokens"]),
        (&json!(2), &json!(300), &json!(50))
    );
    assert_eq!(usage["models"]["test-model"]["requests"], 2);
    driver.finish().assert_code(0);
}

/// Where an interrupted turn stood, it goes on without a word of the user.
#[test]
fn the_last_turn_is_continued() {
    let gate = Gate::new();
    let server = Server::start([reply().text("never").hold(&gate), reply().text("Now.")]);
    let mut driver = driven(&server, &[]);
    let none = driver.told(json!({"subtype": "continue_last_turn"}));
    assert_eq!((&none["accepted"], &none["interruption"]), (&json!(false), &json!("none")));
    driver.send(&user("slow"));
    server.wait_for_requests(1, std::time::Duration::from_secs(30));
    driver.ask(json!({"subtype": "interrupt"}));
    assert_eq!(driver.result()["is_error"], true);
    let told = driver.told(json!({"subtype": "continue_last_turn"}));
    assert_eq!((&told["accepted"], &told["interruption"]), (&json!(true), &json!("interrupted_prompt")));
    assert_eq!(driver.result()["result"], "Now.");
    assert_eq!(server.request(1).messages().len(), 2, "the system prompt and what was asked");
    driver.finish().assert_code(0);
}

#[test]
fn a_request_that_is_given_up_is_answered_so() {
    let server = Server::start([]);
    let mut driver = driven(&server, &[]);
    driver.told(json!({"subtype": "initialize", "sdkMcpServers": ["slow"]}));
    // The server does not answer its greeting, so connecting it anew takes its time.
    let id = driver.ask(json!({"subtype": "mcp_reconnect", "serverName": "slow"}));
    driver.client.write_json(&json!({"type": "control_cancel_request", "request_id": id}));
    let answer = loop {
        let line = driver.client.json();
        if line["type"] == "control_response" && line["response"]["request_id"] == id.as_str() {
            break line["response"].clone();
        }
    };
    assert_eq!((&answer["subtype"], &answer["error"]), (&json!("error"), &json!("the request was given up")));
    driver.finish().assert_code(0);
}

/// A thousand requests of the client while a turn runs, each answered under its id.
#[test]
fn a_thousand_requests_are_all_answered() {
    let gate = Gate::new();
    let server = Server::start([reply().text("Done.").hold(&gate)]);
    let mut driver = driven(&server, &[]);
    driver.send(&user("slow"));
    server.wait_for_requests(1, std::time::Duration::from_secs(30));
    let kinds = ["get_usage_info", "supported_commands", "mcp_status", "get_available_models", "nonsense"];
    let asked: BTreeSet<String> =
        (0..1000).map(|number| driver.ask(json!({"subtype": kinds[number % kinds.len()]}))).collect();
    let mut answered = BTreeSet::new();
    while answered.len() < asked.len() {
        let line = driver.until(|line| line["type"] == "control_response");
        assert!(answered.insert(line["response"]["request_id"].as_str().unwrap().to_owned()), "{line}");
    }
    assert_eq!(answered, asked);
    gate.open();
    assert_eq!(driver.result()["result"], "Done.");
    driver.finish().assert_code(0);
}

/// Many questions of ours in flight, answered in another order: each call gets its own answer. Ten calls run side
/// by side, which is all that one agent asks at once; a thousand are paired in the session's own tests.
#[test]
fn questions_are_answered_in_any_order() {
    let calls = (0..10).fold(reply(), |reply, number| {
        reply.call(&format!("c{number}"), "mcp__own__look", json!({"number": number}))
    });
    let server = Server::start([calls, reply().text("Done.")]);
    let mut driver = driven(&server, &[]);
    driver.told(json!({"subtype": "initialize", "sdkMcpServers": ["own"]}));
    driver.send(&user("look"));
    let mut waiting: Vec<(Value, Value)> = Vec::new();
    while waiting.len() < 10 {
        let line = driver.client.json();
        if line["type"] != "control_request" {
            continue;
        }
        let message = line["request"]["message"].clone();
        let result = match message["method"].as_str().unwrap() {
            "tools/list" => json!({"tools": [{"name": "look", "inputSchema": {"type": "object"},
                "annotations": {"readOnlyHint": true}}]}),
            "tools/call" => {
                waiting.push((line["request_id"].clone(), message));
                continue;
            }
            "initialize" => driver.as_server(&message)["result"].clone(),
            _ => json!({}),
        };
        let answer = json!({"jsonrpc": "2.0", "id": message["id"], "result": result});
        driver.reply(&line["request_id"], json!({"mcp_response": answer}));
    }
    for (id, message) in waiting.iter().rev() {
        let text = message["params"]["arguments"]["number"].to_string();
        let result = json!({"content": [{"type": "text", "text": text}]});
        driver.reply(id, json!({"mcp_response": {"jsonrpc": "2.0", "id": message["id"], "result": result}}));
    }
    assert_eq!(driver.result()["result"], "Done.");
    for number in 0..10 {
        assert_eq!(server.request(1).tool_result(&format!("c{number}")), number.to_string());
    }
    driver.finish().assert_code(0);
}

/// A request that the provider refuses is told once, and no later turn asks it again.
#[test]
fn a_refused_prompt_is_not_part_of_the_conversation() {
    let refused = reply().status(400).json(json!({"error": {"message": "not like this"}}));
    let server = Server::start([reply().text("One."), refused, reply().text("Three.")]);
    let mut driver = driven(&server, &[]);
    assert_eq!(driver.turn("good")["result"], "One.");
    assert_eq!(driver.turn("bad")["is_error"], true);
    let told = driver.told(json!({"subtype": "continue_last_turn"}));
    assert_eq!((&told["accepted"], &told["interruption"]), (&json!(false), &json!("none")));
    assert_eq!(driver.turn("fine")["result"], "Three.");
    let request = server.request(2);
    let said: Vec<&Value> = request.messages()[1..].iter().map(|message| &message["content"]).collect();
    assert_eq!(said, ["good", "One.", "fine"]);
    driver.finish().assert_code(0);
}

/// A turn that waits is taken back: it has a result, and the model never hears of it.
#[test]
fn a_waiting_turn_is_cancelled() {
    let gate = Gate::new();
    let server = Server::start([reply().text("One.").hold(&gate), reply().text("Three.")]);
    let mut driver = driven(&server, &["--dialect", "openai"]);
    let named = |id: &str| {
        let mut line = request(id);
        line["prompt_id"] = json!(id);
        line
    };
    driver.send(&named("p1"));
    server.wait_for_requests(1, std::time::Duration::from_secs(30));
    driver.send(&named("p2"));
    driver.send(&named("p3"));
    for (id, status) in [("p2", "ok"), ("p9", "noop")] {
        driver.send(&json!({"type": "control/cancel", "prompt_id": id}));
        let told = driver.until(|line| line["type"] == "result/cancel");
        assert_eq!((&told["prompt_id"], &told["status"]), (&json!(id), &json!(status)));
        assert_ne!(told["message"], "no turn is running");
    }
    driver.send(&json!({"type": "control/cancel", "session_id": "another-session"}));
    let told = driver.until(|line| line["type"] == "result/cancel");
    assert_eq!(
        (&told["status"], &told["message"]),
        (&json!("noop"), &json!("no turn of that session is running"))
    );
    gate.open();
    for (id, class) in [("p1", Value::Null), ("p2", json!("interrupted")), ("p3", Value::Null)] {
        let closing = driver.until(is_final);
        assert_eq!(closing["prompt_id"], id);
        assert_eq!(closing["metadata"]["error"]["class"], class, "{closing}");
    }
    assert_eq!(server.requests().len(), 2);
    driver.finish().assert_code(0);
}

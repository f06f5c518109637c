//! A client's guards hold, or nothing runs; and everything that a client says has a result.

use tenon_testkit::{Server, Value, json, reply};

use super::driving::{Driver, LINES, driven, user};
use super::tenon;

fn touches() -> [tenon_testkit::Reply; 2] {
    [reply().call("c1", "run_shell_command", json!({"command": "touch Z"})), reply().text("Done.")]
}

fn said(content: Value) -> Value {
    json!({"type": "user", "message": {"role": "user", "content": content}})
}

fn hooks(event: &str, entry: Value) -> Value {
    json!({"subtype": "initialize", "hooks": {event: [entry]}})
}

fn entry(more: Value) -> Value {
    let mut entry = json!({"hookCallbackIds": ["h0"]});
    entry.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    entry
}

#[test]
fn after_a_refused_greeting_no_turn_runs() {
    let refused = [
        hooks("PreToolUse", entry(json!({"matcher": "["}))),
        hooks("PreToolUze", entry(json!({}))),
        hooks("PreToolUse", json!({"matcher": "x"})),
        json!({"subtype": "initialize", "hooks": 1}),
        json!({"subtype": "initialize", "hooks": {}, "systemPrompt": 1}),
    ];
    for dialect in ["claude", "qwen"] {
        let server = Server::start([reply().text("Fine.")]);
        let mut driver = driven(&server, &["-y", "--dialect", dialect]);
        for request in &refused {
            let why = driver.refused(request.clone());
            let result = driver.turn("go");
            assert_eq!(result["is_error"], true, "{result}");
            assert!(result.to_string().contains("`initialize` was refused"), "{result}");
            assert!(result.to_string().contains(why.split('`').nth(1).unwrap()), "{why}: {result}");
        }
        assert_eq!(server.requests().len(), 0);
        driver.told(json!({"subtype": "initialize", "hooks": null}));
        assert_eq!(driver.turn("go")["result"], "Fine.");
        driver.finish().assert_code(0);
    }
}

#[test]
fn what_is_no_guard_is_left_out_with_a_warning() {
    let agent = |more: Value| {
        let mut agent = json!({"description": "d", "prompt": "p"});
        agent.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        json!({"subtype": "initialize", "agents": {"rev": agent, "good": {"description": "d", "prompt": "p"}}})
    };
    let table = [
        (hooks("Notification", entry(json!({}))), "`Notification` never happens"),
        (hooks("WorktreeCreate", entry(json!({}))), "`WorktreeCreate` never happens"),
        (agent(json!({"maxTurns": 0})), "`maxTurns` must be a number from 1"),
        (agent(json!({"prompt": ""})), "`prompt` is empty"),
        (agent(json!({"description": null})), "`description` is missing"),
        (json!({"subtype": "initialize", "toolAliases": {"Bash": "x"}}), "`toolAliases`"),
    ];
    for (request, warning) in table {
        let server = Server::start([reply().text("Fine.")]);
        let mut driver = driven(&server, &["--dialect", "claude"]);
        driver.told(request.clone());
        let result = driver.turn("go");
        assert_eq!(result["result"], "Fine.");
        assert!(result["warnings"].to_string().contains(warning), "{result}");
        if request["agents"].is_object() {
            let init = driver.seen.iter().find(|line| line["subtype"] == "init").unwrap();
            let agents = init["agents"].to_string();
            assert!(agents.contains("good") && !agents.contains("rev"), "{agents}");
        }
        driver.finish().assert_code(0);
    }
}

#[test]
fn matchers_may_look_around_and_no_limit_is_not_a_limit_of_nothing() {
    for more in [json!({"matcher": "^(?!read_file)"}), json!({"timeout": 0})] {
        let server = Server::start(touches());
        let mut driver = driven(&server, &["-y", "--dialect", "claude"]);
        driver.told(hooks("PreToolUse", entry(more)));
        driver.send(&user("go"));
        let asked = driver.until(|line| line["request"]["subtype"] == "hook_callback");
        driver.reply(&asked["request_id"], json!({"decision": "block", "reason": "never"}));
        assert_eq!(driver.result()["result"], "Done.");
        assert!(server.request(1).tool_result("c1").contains("never"));
        driver.finish().assert_code(0);
    }
}

/// A guard that nobody answers for any more says no.
#[test]
fn a_guard_of_a_client_that_has_gone_denies() {
    let server = Server::start(touches());
    let mut driver = driven(&server, &["-y", "--dialect", "claude"]);
    driver.told(hooks("PreToolUse", entry(json!({}))));
    driver.send(&user("go"));
    driver.finish().assert_code(0);
    assert!(server.request(1).tool_result("c1").contains("refused"), "{}", server.request(1).body);
}

#[test]
fn clients_that_ask_for_it_are_told_when_a_turn_runs() {
    let server = Server::start([
        reply().call("c1", "write_file", json!({"file_path": "a", "content": "b"})),
        reply().text("Done."),
        reply().text("Again."),
    ]);
    let setup = tenon()
        .server(&server)
        .env("CLAUDE_CODE_ENTRYPOINT", "sdk-py")
        .env("CLAUDE_CODE_SDK_READS_SESSION_STATE", "1")
        .args(LINES);
    let mut driver = Driver::start(setup);
    driver.told(json!({"subtype": "initialize", "hooks": null}));
    driver.send(&user("write"));
    let asked = driver.until(|line| line["request"]["subtype"] == "can_use_tool");
    assert!(asked["request"].get("blocked_path").is_none(), "{asked}");
    driver.reply(&asked["request_id"], json!({"behavior": "allow", "updatedInput": null}));
    driver.until(|line| line["state"] == "idle");
    driver.turn("again");
    driver.until(|line| line["state"] == "idle");
    driver.send(&said(json!("")));
    driver.until(|line| line["state"] == "idle");
    let told = |line: &&Value| line["subtype"] == "session_state_changed" || line["type"] == "result";
    let states: Vec<&str> =
        driver.seen.iter().filter(told).map(|line| line["state"].as_str().unwrap_or("result")).collect();
    let expected = [
        "running",
        "requires_action",
        "running",
        "result",
        "idle",
        "running",
        "result",
        "idle",
        "running",
        "result",
        "idle",
    ];
    assert_eq!(states, expected);
    let line = driver.seen.iter().find(|line| line["state"] == "idle").unwrap();
    assert_eq!(line["sdk_host_only"], true);
    driver.finish().assert_code(0);
}

/// A client that believes that nothing more runs closes its side, and could not be asked any more.
#[test]
fn nothing_runs_only_when_nothing_waits() {
    for first in ["one", "/help", ""] {
        let server = Server::start([reply().text("ok").forever()]);
        let setup = tenon()
            .server(&server)
            .env("CLAUDE_CODE_ENTRYPOINT", "sdk-py")
            .env("CLAUDE_CODE_SDK_READS_SESSION_STATE", "1")
            .args(LINES);
        let lines = [said(json!(first)), user("two"), user("three")].map(|line| format!("{line}\n")).concat();
        let run = setup.stdin(lines).run();
        let told = |line: &Value| line["subtype"] == "session_state_changed" || line["type"] == "result";
        let lines = run.json_lines();
        let states: Vec<&str> = lines
            .iter()
            .filter(|line| told(line))
            .map(|line| line["state"].as_str().unwrap_or("result"))
            .collect();
        assert_eq!(states, ["running", "result", "result", "result", "idle"], "{first}: {run}");
    }
}

#[test]
fn every_message_has_a_result() {
    let bad = [
        json!(""),
        json!([]),
        json!([{"type": "image", "source": {"type": "url", "url": "https://x.y/z.png"}}]),
        json!([{"type": "document", "source": {"type": "url", "url": "https://x.y/z.pdf"}}]),
        json!([{"type": "video"}]),
        json!(7),
    ];
    for dialect in ["claude", "qwen"] {
        let server = Server::start([reply().text("Fine.")]);
        let mut driver = driven(&server, &["--dialect", dialect]);
        for content in &bad {
            driver.send(&said(content.clone()));
            let result = driver.result();
            assert_eq!(result["is_error"], true, "{result}");
        }
        let document = json!([{"type": "document", "title": "t", "source": {"type": "text", "media_type": "text/plain", "data": "WORDS42"}}]);
        driver.send(&said(document));
        assert_eq!(driver.result()["result"], "Fine.");
        assert!(server.request(0).body["messages"].to_string().contains("WORDS42"));
        let run = driver.finish();
        let lines = run.assert_code(0).json_lines();
        assert_eq!(lines.iter().filter(|line| line["subtype"] == "input_error").count(), bad.len());
        assert_eq!(lines.iter().filter(|line| line["type"] == "result").count(), bad.len() + 1);
    }
}

#[test]
fn words_that_nobody_typed_are_taken_as_they_are() {
    let server = Server::start([reply().text("One."), reply().text("Two.")]);
    let setup = tenon().server(&server).args(LINES).file("secret.txt", "SECRET42");
    let mut driver = Driver::start(setup);
    for text in ["look @secret.txt", "/help"] {
        let mut line = user(text);
        line["client_composed"] = json!(true);
        driver.send(&line);
        assert_eq!(driver.result()["is_error"], false);
    }
    driver.finish().assert_code(0);
    let told = server.request(1).body["messages"].to_string();
    assert!(told.contains("look @secret.txt") && told.contains("/help"), "{told}");
    assert!(!told.contains("SECRET42"), "{told}");
}

#[test]
fn words_that_ask_nothing_are_told_with_the_next() {
    let server = Server::start([reply().text("Fine.")]);
    let mut driver = driven(&server, &["--dialect", "claude"]);
    let mut line = user("FYI-42");
    line["shouldQuery"] = json!(false);
    driver.send(&line);
    assert_eq!(driver.turn("and now?")["result"], "Fine.");
    let run = driver.finish();
    assert_eq!(run.json_lines().iter().filter(|line| line["type"] == "result").count(), 1, "{run}");
    assert_eq!(server.requests().len(), 1);
    let told = server.request(0).body["messages"].to_string();
    assert!(told.find("FYI-42") < told.find("and now?") && told.contains("FYI-42"), "{told}");
}

#[test]
fn hooks_replace_what_a_call_gave() {
    for (key, is_replaced) in [("updatedToolOutput", true), ("updatedMCPToolOutput", false)] {
        let server = Server::start([
            reply().call("c1", "run_shell_command", json!({"command": "echo SECRET42"})),
            reply().text("Done."),
        ]);
        let mut driver = driven(&server, &["-y", "--dialect", "claude"]);
        driver.told(hooks("PostToolUse", entry(json!({}))));
        driver.send(&user("go"));
        let asked = driver.until(|line| line["request"]["subtype"] == "hook_callback");
        let output = json!({"hookEventName": "PostToolUse", key: "nothing to see"});
        driver.reply(&asked["request_id"], json!({"hookSpecificOutput": output}));
        driver.result();
        let told = server.request(1).tool_result("c1");
        assert_eq!(told.contains("SECRET42"), !is_replaced, "{told}");
        assert_eq!(told.contains("nothing to see"), is_replaced, "{told}");
        driver.finish().assert_code(0);
    }
}

#[test]
fn a_guard_that_defers_has_no_opinion() {
    let server = Server::start(touches());
    let mut driver = driven(&server, &["-y", "--dialect", "claude"]);
    driver.told(hooks("PreToolUse", entry(json!({}))));
    driver.send(&user("go"));
    let asked = driver.until(|line| line["request"]["subtype"] == "hook_callback");
    let output = json!({"hookEventName": "PreToolUse", "permissionDecision": "defer"});
    driver.reply(&asked["request_id"], json!({"hookSpecificOutput": output}));
    assert_eq!(driver.result()["permission_denials"], json!([]));
    assert!(!server.request(1).tool_result("c1").contains("refused"));
    driver.finish().assert_code(0);
}

#[test]
fn tools_of_the_client_are_asked_for_like_others() {
    let calls = || [reply().call("c1", "mcp__calc__add", json!({"a": 1})), reply().text("Done.")];
    let server = Server::start(calls());
    let mut driver = driven(&server, &["--dialect", "claude", "--permission-mode", "dontAsk"]);
    driver.tools = vec![("add", json!(3))];
    driver.told(json!({"subtype": "initialize", "sdkMcpServers": ["calc"]}));
    assert_eq!(driver.turn("go")["permission_denials"].as_array().unwrap().len(), 1);
    assert_ne!(server.request(1).tool_result("c1"), "3");
    driver.finish().assert_code(0);
}

#[test]
fn the_system_prompt_of_the_greeting_counts() {
    for (wanted, told) in [
        (
            json!({"systemPrompt": ["You are a cat.", "__SYSTEM_PROMPT_DYNAMIC_BOUNDARY__", "Meow."]}),
            "You are a cat.\n\nMeow.",
        ),
        (json!({"systemPrompt": "You are a dog."}), "You are a dog."),
        (json!({"appendSystemPrompt": "Bark at the end."}), "Bark at the end."),
    ] {
        let server = Server::start([reply().text("Fine.")]);
        let mut driver = driven(&server, &["--dialect", "claude"]);
        let mut request = json!({"subtype": "initialize", "hooks": null});
        request.as_object_mut().unwrap().extend(wanted.as_object().unwrap().clone());
        driver.told(request);
        driver.turn("go");
        let system = server.request(0).body["messages"][0]["content"].as_str().unwrap().to_owned();
        assert!(system.contains(told), "{system}");
        assert_eq!(system.contains("You are tenon"), wanted["systemPrompt"].is_null(), "{system}");
        driver.finish().assert_code(0);
    }
}

#[test]
fn an_approved_plan_is_carried_out() {
    let server = Server::start([
        reply().call("c1", "exit_plan_mode", json!({"plan": "1. Write it"})),
        reply().call("c2", "write_file", json!({"file_path": "out.txt", "content": "x"})),
        reply().text("Done."),
    ]);
    let mut driver = driven(&server, &["--dialect", "claude", "--permission-mode", "plan"]);
    driver.send(&user("plan"));
    let asked = driver.until(|line| line["request"]["subtype"] == "can_use_tool");
    driver.reply(&asked["request_id"], json!({"behavior": "allow", "updatedInput": null}));
    let asked = driver.until(|line| line["request"]["subtype"] == "can_use_tool");
    assert_eq!(asked["request"]["tool_name"], "write_file");
    driver.reply(&asked["request_id"], json!({"behavior": "allow", "updatedInput": null}));
    assert_eq!(driver.result()["result"], "Done.");
    let told = server.request(1).tool_result("c1");
    assert!(told.contains("approved") && !told.contains("only plan"), "{told}");
    driver.finish().assert_code(0);
}

#[test]
fn questions_of_a_helper_say_whose_they_are() {
    let server = Server::start([
        reply().call(
            "c1",
            "agent",
            json!({"description": "d", "prompt": "p", "subagent_type": "general-purpose"}),
        ),
        reply().call("c2", "write_file", json!({"file_path": "out.txt", "content": "x"})),
        reply().text("Sub."),
        reply().text("Done."),
    ]);
    let mut driver = driven(&server, &["--dialect", "claude", "--allowedTools", "agent"]);
    driver.send(&user("go"));
    let asked = driver.until(|line| line["request"]["tool_name"] == "write_file");
    assert!(asked["request"]["agent_id"].is_string(), "{asked}");
    driver.reply(&asked["request_id"], json!({"behavior": "allow", "updatedInput": null}));
    driver.result();
    driver.finish().assert_code(0);
}

/// Whoever starts tenon with flags that it does not know is answered before it ends.
#[test]
fn a_refused_start_answers_the_greeting() {
    for flags in [&["--no-such-flag"][..], &["--fallback-model", "a,b,c,d,e,f"], &["--session-id", "x"]] {
        let mut driver = Driver::start(tenon().args(LINES).args(flags));
        let why = driver.refused(json!({"subtype": "initialize", "hooks": null}));
        assert!(why.contains(flags[0]), "{why}");
        driver.finish().assert_code(2);
    }
}

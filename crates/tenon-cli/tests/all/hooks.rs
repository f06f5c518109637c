//! Hooks with real scripts: what they are told, and what happens when they fail. What they may answer is in
//! `hook_answers.rs`.

use std::path::Path;

use tenon_testkit::{Page, Run, Server, Signal, Tenon, Value, Web, json, reply};

use crate::output::result_of;
use crate::signals::{is_alive, until};
use crate::tenon;

pub const USER: &str = "settings.json";
pub const PROJECT: &str = ".tenon/settings.json";
/// Writes what it is told to `log`, one line for each event.
pub const LOG: &str = r#"cat >> "$TENON_PROJECT_DIR/log"; echo >> "$TENON_PROJECT_DIR/log""#;

pub fn rule(hooks: Value) -> Value {
    json!([{ "hooks": hooks }])
}

pub fn command(command: &str) -> Value {
    json!({ "type": "command", "command": command, "name": "check" })
}

pub fn settings(event: &str, hook: Value) -> String {
    json!({ "hooks": { event: rule(json!([hook])) } }).to_string()
}

/// One call, then a last word.
pub struct Called {
    pub told: String,
    pub run: Run,
    pub server: Server,
}

pub fn call(setup: Tenon, tool: &str, input: Value) -> Called {
    let server = Server::start([reply().call("c1", tool, input), reply().text("Done.")]);
    let run = setup.server(&server).args(["-p", "Go.", "-o", "json"]).run();
    assert_eq!(server.requests().len(), 2, "{run}");
    Called { told: server.request(1).tool_result("c1"), run, server }
}

pub fn shell(setup: Tenon, command: &str) -> Called {
    call(setup, "run_shell_command", json!({ "command": command }))
}

pub fn log_of(run: &Run) -> Vec<Value> {
    run.read("log").lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

// --- what hooks are told

#[test]
fn every_event_of_a_run_is_told_in_its_order_with_its_facts() {
    let events = [
        "SessionStart",
        "UserPromptSubmit",
        "PreToolUse",
        "PermissionRequest",
        "PermissionDenied",
        "PostToolUse",
        "PostToolUseFailure",
        "PostToolBatch",
        "Stop",
        "StopFailure",
        "SessionEnd",
    ];
    let hooks: serde_json::Map<String, Value> =
        events.iter().map(|event| ((*event).to_owned(), rule(json!([command(LOG)])))).collect();
    let setup = tenon().file("a.txt", "hello\n").home_file(USER, json!({ "hooks": hooks }).to_string());
    let server = Server::start([
        reply()
            .text("Looking.")
            .call_raw("c1", "read_file", r#"{"file_path": "a.txt", "limit": 1e2}"#)
            .call("c2", "read_file", json!({"file_path": "none.txt"}))
            .call("c3", "write_file", json!({"file_path": "b.txt", "content": "x"})),
        reply().text("Done."),
    ]);
    let run = setup.server(&server).args(["-p", "Go.", "-o", "json"]).run();
    run.assert_code(0);
    let log = log_of(&run);
    let names: Vec<&str> = log.iter().map(|line| line["hook_event_name"].as_str().unwrap()).collect();
    assert_eq!(
        names,
        [
            "SessionStart",
            "UserPromptSubmit",
            "PreToolUse",
            "PreToolUse",
            "PostToolUse",
            "PostToolUseFailure",
            "PreToolUse",
            "PermissionRequest",
            "PermissionDenied",
            "PostToolBatch",
            "Stop",
            "SessionEnd",
        ]
    );
    let session = result_of(&run)["session_id"].clone();
    for line in &log {
        assert_eq!(line["session_id"], session, "{line}");
        assert_eq!(line["cwd"], setup_dir(&run), "{line}");
        assert_eq!(line["permission_mode"], "default", "{line}");
        assert!(line["timestamp"].as_str().is_some_and(|time| time.ends_with('Z')), "{line}");
        let transcript = line["transcript_path"].as_str().unwrap();
        assert!(transcript.ends_with(&format!("{}.jsonl", session.as_str().unwrap())), "{line}");
        assert!(Path::new(transcript).is_file(), "{line}");
    }
    assert_eq!((&log[0]["source"], &log[0]["model"]), (&json!("startup"), &json!("test-model")));
    assert_eq!(log[1]["prompt"], "Go.");
    assert_eq!((&log[2]["tool_name"], &log[2]["tool_use_id"]), (&json!("read_file"), &json!("c1")));
    // The arguments as the model wrote them, to the digit.
    assert!(run.read("log").contains(r#""tool_input":{"file_path": "a.txt", "limit": 1e2}"#), "{run}");
    assert_eq!(log[4]["tool_response"]["llmContent"], "hello\n");
    assert!(log[5]["error"].as_str().unwrap().contains("none.txt"), "{}", log[5]);
    assert_eq!(log[5]["is_interrupt"], false);
    assert_eq!(log[7]["tool_input"]["file_path"], "b.txt");
    assert!(log[8]["reason"].as_str().unwrap().contains("changes files"), "{}", log[8]);
    let batch: Vec<&Value> =
        log[9]["tool_calls"].as_array().unwrap().iter().map(|call| &call["tool_use_id"]).collect();
    assert_eq!(batch, [&json!("c1"), &json!("c2"), &json!("c3")]);
    assert_eq!(
        (&log[10]["stop_hook_active"], &log[10]["last_assistant_message"]),
        (&json!(false), &json!("Done."))
    );
    assert_eq!(log[11]["reason"], "completed");
}

fn setup_dir(run: &Run) -> String {
    run.workspace().canonicalize().unwrap().display().to_string()
}

#[test]
fn a_run_that_fails_is_told_with_its_class() {
    let hooks = json!({ "hooks": {
        "Stop": rule(json!([command(LOG)])),
        "StopFailure": [{ "matcher": "turns", "hooks": [command(LOG)] }, { "matcher": "auth", "hooks": [command(LOG)] }],
        "SessionEnd": [{ "matcher": "^failed$", "hooks": [command(LOG)] }],
    } });
    let server = Server::start([reply().text("Hm.").call("c1", "list_directory", json!({"path": "."}))]);
    let run = tenon()
        .home_file(USER, hooks.to_string())
        .server(&server)
        .args(["-p", "Go.", "--max-session-turns", "1"])
        .run();
    run.assert_code(53);
    let log = log_of(&run);
    assert_eq!(log.len(), 2, "{log:?}");
    assert_eq!((&log[0]["error"], &log[0]["last_assistant_message"]), (&json!("turns"), &json!("Hm.")));
    assert!(log[0]["error_details"].as_str().unwrap().contains("turn limit"), "{}", log[0]);
    assert_eq!(log[1]["reason"], "failed");
}

#[test]
fn matchers_choose_by_name_and_by_other_names() {
    let runs = |matcher: &str| {
        let hooks =
            json!({ "hooks": { "PreToolUse": [{ "matcher": matcher, "hooks": [command("touch seen")] }] } });
        let called = shell(tenon().arg("--yolo").home_file(USER, hooks.to_string()), "true");
        called.run.workspace().join("seen").exists()
    };
    for (matcher, expected) in [
        ("", true),
        ("*", true),
        (".*", true),
        ("run_shell_command", true),
        ("shell", true),
        ("^shell", false),
        ("Bash", true),
        ("Edit|Bash", true),
        // Other names are compared as a whole.
        ("Bas", false),
        ("Read", false),
        ("read_file|glob", false),
        ("^(?i)RUN_", true),
    ] {
        assert_eq!(runs(matcher), expected, "{matcher}");
    }
}

#[test]
fn commands_have_the_project_and_no_key() {
    let hook = json!({ "type": "command", "command": "env > seen; pwd >> seen", "env": { "MINE": "a b" } });
    let setup = tenon()
        .home_file(USER, settings("PreToolUse", hook))
        .env("ANTHROPIC_API_KEY", "sk-secret-anthropic")
        .env("COPY_OF_KEY", "test-key")
        .env("TRACEPARENT", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
        .env("PLAIN", "yes");
    let run = call(setup, "list_directory", json!({"path": "."})).run;
    let seen = run.read("seen");
    let dir = setup_dir(&run);
    for expected in [
        format!("TENON_PROJECT_DIR={dir}"),
        format!("CLAUDE_PROJECT_DIR={dir}"),
        format!("QWEN_PROJECT_DIR={dir}"),
        format!("GEMINI_PROJECT_DIR={dir}"),
        "MINE=a b".to_owned(),
        "PLAIN=yes".to_owned(),
        "TRACEPARENT=00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01".to_owned(),
        dir.clone(),
    ] {
        assert!(seen.lines().any(|line| line == expected), "{expected}\n{seen}");
    }
    for secret in ["sk-secret-anthropic", "test-key"] {
        assert!(!seen.contains(secret), "{seen}");
    }
}

#[test]
fn a_key_of_a_provider_is_not_given_to_a_hook() {
    for hook in [
        json!({ "type": "http", "url": "https://hooks.invalid/", "headers": { "X-Key": "$OPENAI_API_KEY" } }),
        json!({ "type": "command", "command": "true", "env": { "K": "a-real-looking-key" } }),
    ] {
        let run = tenon()
            .home_file(USER, settings("Stop", hook))
            .env("OPENAI_API_KEY", "a-real-looking-key")
            .args(["-p", "Go."])
            .run();
        run.assert_code(52);
        assert!(run.stderr.contains("would be given the key of a model provider"), "{run}");
        assert!(!run.stderr.contains("a-real-looking-key"), "{run}");
    }
}

#[test]
fn a_failing_hook_of_another_event_only_warns() {
    for event in ["SessionStart", "UserPromptSubmit", "PostToolUse", "PostToolBatch", "Stop", "SessionEnd"] {
        let setup = tenon().arg("--yolo").home_file(USER, settings(event, command("exit 9")));
        let called = shell(setup, "echo ran");
        called.run.assert_code(0);
        let expected = format!("warning: the `{event}` hook `check` failed: it exited with code 9");
        assert!(called.run.stderr.contains(&expected), "{event}\n{}", called.run);
        assert_eq!(result_of(&called.run)["result"], "Done.");
    }
}

#[test]
fn hooks_of_strangers_never_run() {
    let hook = settings("PreToolUse", command("touch seen; exit 2"));
    let off = json!({ "disableAllHooks": true }).to_string();
    for setup in [
        tenon().file(PROJECT, &hook),
        tenon().home_file(USER, &hook).arg("--safe-mode"),
        tenon().home_file(USER, &hook).arg("--bare"),
        tenon().home_file(USER, &hook).args(["--settings", &off]),
        tenon().home_file(USER, &hook).args(["--setting-sources", ""]),
    ] {
        let called = shell(setup.arg("--yolo"), "echo ran");
        assert!(called.told.contains("Output: ran"), "{}", called.told);
        assert!(!called.run.workspace().join("seen").exists(), "{}", called.run);
    }
}

#[test]
fn a_hook_may_ignore_its_input() {
    // Far more than a pipe holds.
    let content = "x".repeat(1_000_000);
    for script in ["true", "exec <&-; true", "head -c 10 > /dev/null"] {
        let setup = tenon().arg("--yolo").home_file(USER, settings("PreToolUse", command(script)));
        let called = call(setup, "write_file", json!({"file_path": "big.txt", "content": content}));
        called.run.assert_code(0);
        assert_eq!(called.run.read("big.txt").len(), content.len(), "{script}: {}", called.run);
    }
}

#[test]
fn a_hook_that_deletes_itself_has_answered_once() {
    let server = Server::start([
        reply().call("c1", "run_shell_command", json!({"command": "echo one"})),
        reply().call("c2", "run_shell_command", json!({"command": "echo two"})),
        reply().text("Done."),
    ]);
    let setup = tenon()
        .arg("--yolo")
        .file("guard.sh", "rm -- \"$0\"\n")
        .home_file(USER, settings("PreToolUse", command("bash ./guard.sh")));
    let run = setup.server(&server).args(["-p", "Go."]).run();
    run.assert_code(0);
    assert!(server.request(1).tool_result("c1").contains("Output: one"), "{run}");
    assert!(server.request(2).tool_result("c2").contains("that guards it failed"), "{run}");
}

#[test]
fn what_a_hook_leaves_running_is_stopped_at_its_deadline_and_with_the_run() {
    let hanging = "sleep 1000 & echo $! > pid; wait";
    let mut hook = command(hanging);
    hook["timeout"] = json!(500);
    let called = shell(tenon().arg("--yolo").home_file(USER, settings("PreToolUse", hook)), "echo ran");
    assert!(called.told.contains("did not answer within 500 ms"), "{}", called.told);
    let pid = called.run.read("pid").trim().parse().unwrap();
    until("what the hook started is gone", || !is_alive(pid));

    let server = Server::start([reply().call("c1", "run_shell_command", json!({"command": "echo ran"}))]);
    let setup =
        tenon().arg("--yolo").home_file(USER, settings("PreToolUse", command(hanging))).server(&server);
    let file = setup.workspace().join("pid");
    let mut running = setup.args(["-p", "Go."]).spawn();
    until("the hook runs", || std::fs::read_to_string(&file).is_ok_and(|text| text.ends_with('\n')));
    running.signal(Signal::Terminate);
    let run = running.wait();
    run.assert_code(143);
    let pid = run.read("pid").trim().parse().unwrap();
    until("what the hook started is gone", || !is_alive(pid));
}

#[test]
fn several_hooks_side_by_side_and_in_turn() {
    let change = |to: &str| {
        command(&format!(
            r#"jq -c '{{hookSpecificOutput: {{updatedInput: {{command: (.tool_input.command + " {to}")}}}}}}'"#
        ))
    };
    let with = |sequential: bool| {
        let hooks = json!({ "hooks": { "PreToolUse": [
            { "hooks": [change("one"), change("two")], "sequential": sequential },
            { "hooks": [change("three")] },
        ] } });
        shell(tenon().arg("--yolo").home_file(USER, hooks.to_string()), "echo zero")
    };
    let in_turn = with(true);
    assert!(in_turn.told.contains("Output: zero one two three\n"), "{}", in_turn.told);
    let side_by_side = with(false);
    assert!(side_by_side.told.contains("Output: zero one\n"), "{}", side_by_side.told);
    assert!(side_by_side.run.stderr.contains("those of the first one count"), "{}", side_by_side.run);

    // The strictest word counts, wherever it stands.
    let say = |word: &str| command(&format!(r#"echo '{{"decision": "{word}", "reason": "{word}"}}'"#));
    for (words, ran) in [
        (["allow", "allow"], true),
        (["allow", "ask"], false),
        (["deny", "allow"], false),
        (["ask", "deny"], false),
    ] {
        let hooks = json!({ "hooks": { "PreToolUse": rule(words.map(say).into()) } });
        let called = shell(tenon().home_file(USER, hooks.to_string()), "echo ran");
        assert_eq!(called.told.contains("Output: ran"), ran, "{words:?}: {}", called.told);
    }
}

#[test]
fn an_async_hook_is_not_waited_for_and_not_asked() {
    let mut hook = command("cat > told; sleep 0.2; touch finished; exit 2");
    hook["async"] = json!(true);
    let called = shell(tenon().arg("--yolo").home_file(USER, settings("PreToolUse", hook)), "echo ran");
    assert!(called.told.contains("Output: ran"), "{}", called.told);
    // It may come to its end, for a while, before the program does.
    assert!(called.run.workspace().join("finished").exists(), "{}", called.run);
    assert!(called.run.read("told").contains("PreToolUse"));
}

#[test]
fn sub_agents_have_events_of_their_own() {
    let stop =
        format!(r#"{LOG}; [ "$(grep -c SubagentStop log)" -gt 1 ] || {{ echo "look again" >&2; exit 2; }}"#);
    let hooks = json!({ "hooks": {
        "SubagentStart": [{ "matcher": "explore", "hooks": [command(LOG)] }],
        "SubagentStop": [{ "matcher": "explore", "hooks": [command(&stop)] }],
        "PreToolUse": [{ "matcher": "list_directory", "hooks": [command(LOG)] }],
        "SessionStart": rule(json!([command(LOG)])),
        "UserPromptSubmit": rule(json!([command(LOG)])),
        "Stop": rule(json!([command(LOG)])),
    } });
    let agent = json!({
        "description": "look", "prompt": "Look around.", "subagent_type": "explore", "run_in_background": false
    });
    let server = Server::start([
        reply().call("c1", "agent", agent),
        reply().call("s1", "list_directory", json!({"path": "."})),
        reply().text("Nothing."),
        reply().text("Nothing at all."),
        reply().text("Done."),
    ]);
    let run =
        tenon().home_file(USER, hooks.to_string()).server(&server).args(["-p", "Go.", "-o", "json"]).run();
    run.assert_code(0);
    let log = log_of(&run);
    let told: Vec<(&str, &str)> = log
        .iter()
        .map(|line| {
            (line["hook_event_name"].as_str().unwrap(), line["agent_type"].as_str().unwrap_or_default())
        })
        .collect();
    assert_eq!(
        told,
        [
            ("SessionStart", ""),
            ("UserPromptSubmit", ""),
            ("SubagentStart", "explore"),
            ("PreToolUse", "explore"),
            ("SubagentStop", "explore"),
            ("SubagentStop", "explore"),
            ("Stop", ""),
        ]
    );
    assert!(log[2]["agent_id"].is_string(), "{}", log[2]);
    assert_eq!(log[4]["last_assistant_message"], "Nothing.");
    let sent_back = server.request(3).last_message().to_string();
    assert!(sent_back.contains("A `SubagentStop` hook does not let you stop yet: look again"), "{sent_back}");
    assert!(server.request(4).tool_result("c1").contains("Nothing at all."), "{run}");
}

// --- HTTP

fn posted(web: &Web, path: &str) -> Value {
    json!({ "type": "http", "url": format!("{}{path}", web.origin()), "headers": { "X-Team": "tools" } })
}

#[test]
fn http_hooks_are_posted_to_and_answer() {
    let web = Web::start(|request| match request.path.as_str() {
        "/deny" => Page::json(&json!({"decision": "deny", "reason": "by HTTP"})),
        "/empty" => Page::new("text/plain", "").status(204),
        "/words" => Page::new("text/plain", "all fine"),
        "/broken" => Page::json(&json!({"decision": "deny"})).status(500),
        "/elsewhere" => Page::redirect("/deny"),
        "/huge" => Page::new("text/plain", "x".repeat(65_536)).endless(),
        "/silent" => Page::new("application/json", "{").then_silence(),
        _ => Page::new("text/plain", "").status(404),
    });
    for (path, ran, told) in [
        ("/deny", false, "refused it: by HTTP"),
        ("/empty", true, "Output: ran"),
        ("/words", true, "Output: ran"),
        ("/broken", false, "it answered with status 500"),
        ("/elsewhere", false, "it answered with status 302"),
        ("/huge", false, "it answered with more than 1048576 bytes"),
        ("/silent", false, "it did not answer within 1000 ms"),
    ] {
        let mut hook = posted(&web, path);
        hook["timeout"] = json!(if path == "/silent" { 1 } else { 60 });
        let called = shell(tenon().arg("--yolo").home_file(USER, settings("PreToolUse", hook)), "echo ran");
        assert_eq!(called.told.contains("Output: ran"), ran, "{path}: {}", called.told);
        assert!(called.told.contains(told), "{path}: {}", called.told);
        let request = web.requests().pop().unwrap();
        assert_eq!((request.method.as_str(), request.path.as_str()), ("POST", path));
        assert_eq!(request.header("x-team"), Some("tools"));
        assert_eq!(request.header("authorization"), None);
        assert_eq!(request.header("content-type"), Some("application/json"));
        assert_eq!(request.json()["tool_input"]["command"], "echo ran");
        assert_eq!(request.json()["hook_event_name"], "PreToolUse");
    }
    // Nobody listens there.
    let port = web.port();
    drop(web);
    let hook = json!({ "type": "http", "url": format!("http://127.0.0.1:{port}/") });
    let called = shell(tenon().arg("--yolo").home_file(USER, settings("PreToolUse", hook)), "echo ran");
    assert!(called.told.contains("it was not reached"), "{}", called.told);
}

#[test]
fn verbose_runs_tell_of_hooks() {
    let mut hook = command("true");
    hook["statusMessage"] = json!("Looking at it");
    let setup = tenon().args(["--yolo", "--verbose"]).home_file(USER, settings("PreToolUse", hook));
    let called = shell(setup, "echo ran");
    for line in ["hook: PreToolUse: Looking at it", "hook: PreToolUse: check success in "] {
        assert!(called.run.stderr.contains(line), "{}", called.run);
    }
}

#[test]
fn mistakes_in_hooks_are_found_before_anything_runs() {
    let server = Server::start([]);
    for (hooks, expected) in [
        (r#"{"PreTolUse": []}"#, "did you mean `PreToolUse`?"),
        (r#"{"Notification": []}"#, "never happens in tenon"),
        (r#"{"Stop": [{"hooks": [{"type": "prompt", "prompt": "x"}]}]}"#, "tenon has no such hooks"),
        (r#"{"PreToolUse": [{"matcher": "(", "hooks": []}]}"#, "not a regular expression"),
        (r#"{"PreToolUse": [{"matcher": "(\\w{100}){100}{100}", "hooks": []}]}"#, "not a regular expression"),
    ] {
        let run = tenon()
            .home_file(USER, format!(r#"{{"hooks": {hooks}}}"#))
            .server(&server)
            .args(["-p", "Go."])
            .run();
        run.assert_code(52);
        assert!(run.stderr.contains(expected), "{run}");
    }
}

#[test]
fn a_folder_that_is_gone_fails_the_hook_and_not_the_run() {
    let called = {
        let setup = tenon().file("sub/keep", "").arg("--yolo");
        let folder = setup.workspace().join("sub");
        let gone = move |path: &Path| std::fs::remove_dir_all(path).is_ok();
        assert!(gone(&folder));
        shell(setup.home_file(USER, settings("PostToolUse", command("cd sub || exit 3"))), "echo ran")
    };
    called.run.assert_code(0);
    assert!(called.run.stderr.contains("failed: it exited with code 3"), "{}", called.run);
}

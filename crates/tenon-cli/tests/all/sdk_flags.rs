//! Flags that SDKs pass to the programs they drive: each is honoured, has no effect and says so once, or is refused.
//! The page that lists them is compared with what happens.

use std::collections::BTreeSet;
use std::path::Path;

use tenon_testkit::{McpScript, Run, Running, Server, Tenon, Value, Wire, json, reply};

use crate::tenon;

const PAGE: &str = "docs/reference/sdk-flags.md";
/// A session with this id is made by hand.
const ID: &str = "2bec3e94-56aa-43ba-8c6f-8306da3a8564";

/// One answer in lines, and the request that asked for it.
fn ask(setup: Tenon, flags: &[&str]) -> (Run, Value) {
    let server = Server::start([reply().text("ok")]);
    let run = setup.server(&server).args(["-p", "Go.", "-o", "stream-json"]).args(flags).run();
    run.assert_code(0);
    (run, server.request(0).body)
}

fn init(run: &Run) -> Value {
    run.json_lines().into_iter().find(|line| line["subtype"] == "init").unwrap()
}

fn told(run: &Run, subtype: &str) -> Vec<Value> {
    run.json_lines().into_iter().filter(|line| line["subtype"] == subtype).collect()
}

/// The cells of every row of a page's tables, its code marks taken off.
fn rows(page: &str) -> Vec<Vec<String>> {
    let is_row = |line: &&str| line.starts_with("| `");
    let cells = |line: &str| line.trim_matches('|').split(" | ").map(|cell| cell.trim().to_owned()).collect();
    page.lines().filter(is_row).map(cells).collect()
}

/// What an SDK may pass, as it would, and what is to come of it.
#[test]
fn the_page_says_what_happens() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(PAGE);
    let page = std::fs::read_to_string(page).unwrap();
    let mut seen = BTreeSet::new();
    for row in rows(&page) {
        let passed = row[0].trim_matches('`').replace("\\|", "|");
        let words: Vec<&str> = passed.split(' ').map(|word| if word == "''" { "" } else { word }).collect();
        let flag = words[0].split('=').next().unwrap();
        seen.insert(flag.to_owned());
        let server = Server::start([reply().text("ok")]);
        // Not every protocol has a limit on thinking.
        let wire = if flag == "--max-thinking-tokens" { Wire::Messages } else { Wire::Chat };
        let mut client = tenon()
            .server_on(&server, wire)
            .file("system.txt", "You are brief.")
            .file("servers.json", r#"{"mcpServers":{}}"#)
            .args(["--input-format", "stream-json", "--output-format", "stream-json"])
            .args(
                words.iter().map(|word| if *word == "URL" { server.base_url() } else { (*word).to_owned() }),
            )
            .stdin_idle()
            .spawn();
        client.write_json(&user("Go."));
        client.close_stdin();
        let run = client.wait();
        let warnings = run.stderr.matches(&format!("`{flag}` has no effect in tenon")).count();
        let result = run.json_lines().into_iter().find(|line| line["type"] == "result");
        match row[1].as_str() {
            "honoured" => {
                assert_eq!((run.code, warnings), (0, 0), "{passed}: {run}");
                assert_eq!(result.unwrap()["result"], "ok", "{passed}: {run}");
            }
            "no effect" => assert_eq!((run.code, warnings), (0, 1), "{passed}: {run}"),
            "refused" => assert_eq!((run.code, run.stdout.as_str()), (2, ""), "{passed}: {run}"),
            other => panic!("`{other}` of {passed}"),
        }
    }
    let listed = [
        "--channel",
        "--auth-type",
        "--permission-prompt-tool",
        "--permission-mode",
        "--permission-prompts",
        "--dangerously-skip-permissions",
        "--setting-sources",
        "--settings",
        "--include-directories",
        "--tools",
        "--strict-mcp-config",
        "--system-prompt-file",
        "--effort",
        "--thinking",
        "--max-thinking-tokens",
        "--openai-base-url",
        "--proxy",
        "--max-subagent-depth",
        "--disabled-slash-commands",
        "--safe-mode",
        "--include-hook-events",
        "--experimental-acp",
        "--sandbox",
        "--session-mirror",
        "--betas",
        "--extensions",
        "--plugin-dir",
        "--task-budget",
        "--insecure",
        "--worktree",
        "--resume-session-at",
        "--openai-api-key",
    ];
    let missing: Vec<_> = listed.iter().filter(|flag| !seen.contains(**flag)).collect();
    assert!(missing.is_empty(), "{PAGE} lacks {missing:?}");
}

fn user(text: &str) -> Value {
    json!({"type": "user", "session_id": "", "message": {"role": "user", "content": text}, "parent_tool_use_id": null})
}

#[test]
fn a_channel_is_named_and_modes_have_their_other_names() {
    let table: &[(&[&str], &str, Value)] = &[
        (&["--channel=SDK"], "channel", json!("SDK")),
        (&["--permission-mode", "bypassPermissions"], "permission_mode", json!("yolo")),
        (&["--permission-mode", "acceptEdits"], "permission_mode", json!("auto-edit")),
        (&["--permission-mode", "plan"], "permission_mode", json!("plan")),
        (&["--permission-mode", "dontAsk"], "permission_mode", json!("default")),
        (&["--dangerously-skip-permissions"], "permission_mode", json!("yolo")),
        (&["--sandbox=off"], "sandbox", json!("off")),
    ];
    for (flags, key, value) in table {
        let (run, _) = ask(tenon(), flags);
        assert_eq!(init(&run)[key], *value, "{flags:?}");
    }
}

#[test]
fn tools_are_named_emptied_and_left_as_they_are() {
    let offered = |flags: &[&str]| -> Vec<String> {
        let (_, request) = ask(tenon(), flags);
        let tools = request["tools"].as_array().cloned().unwrap_or_default();
        tools.iter().map(|tool| tool["function"]["name"].as_str().unwrap().to_owned()).collect()
    };
    let all = offered(&[]);
    assert!(all.iter().any(|tool| tool == "write_file"), "{all:?}");
    assert_eq!(offered(&["--tools", "default"]), all);
    let named = offered(&["--tools", "Read,Bash"]);
    assert_eq!(named, ["read_file", "run_shell_command"]);
    assert_eq!(offered(&["--core-tools", "agent,task_stop"]), ["task_stop", "agent", "send_message"]);
    assert_eq!(offered(&["--tools", ""]), [""; 0]);
}

#[test]
fn settings_come_from_the_sources_and_from_the_flag() {
    let setup = || tenon().home_file("settings.json", r#"{"permissions": {"mode": "yolo"}}"#);
    let table: &[(&[&str], &str)] = &[
        (&[], "yolo"),
        (&["--setting-sources=user,project,local"], "yolo"),
        (&["--setting-sources", "project"], "default"),
        (&["--setting-sources="], "default"),
        (&["--settings", r#"{"permissions": {"mode": "plan"}}"#], "plan"),
        (&["--settings", "more.json"], "auto-edit"),
    ];
    for (flags, mode) in table {
        let setup = setup().file("more.json", r#"{"permissions": {"mode": "auto-edit"}}"#);
        let (run, _) = ask(setup, flags);
        assert_eq!(init(&run)["permission_mode"], *mode, "{flags:?}");
    }
}

#[test]
fn the_provider_its_address_and_the_prompt_come_from_flags() {
    let server = Server::start([reply().text("ok")]);
    let run = tenon()
        .file("system.txt", "You are brief.")
        .env("OPENAI_API_KEY", "test-key")
        .args(["-p", "Go.", "-m", "m", "--auth-type", "openai", "--openai-base-url", &server.base_url()])
        .args(["--system-prompt-file", "system.txt", "--proxy", "http://127.0.0.1:9"])
        .run();
    run.assert_code(0);
    assert!(server.request(0).system_text().contains("You are brief."));
    let run = tenon().args(["-p", "Go.", "-m", "m", "--auth-type", "gemini"]).run();
    run.assert_code(41);
    assert!(run.stderr.contains("GEMINI_API_KEY"), "{run}");
}

/// A guard that says no to every command, in the user's settings.
fn guarded() -> Tenon {
    let hook = json!({"type": "command", "command": "echo 'not here' >&2; exit 2"});
    let settings = json!({"hooks": {"PreToolUse": [{"matcher": "Bash", "hooks": [hook]}]}});
    tenon().home_file("settings.json", settings.to_string())
}

fn run_command(setup: Tenon, flags: &[&str], command: &str) -> (Run, String) {
    let call = reply().call("c1", "run_shell_command", json!({"command": command}));
    let server = Server::start([call, reply().text("Done.")]);
    let run = setup.server(&server).args(["-p", "Go.", "-o", "stream-json", "--yolo"]).args(flags).run();
    run.assert_code(0);
    (run, server.request(1).tool_result("c1"))
}

#[test]
fn hook_events_are_told_when_asked_for() {
    for flags in [&["--include-hook-events"][..], &["--include-hook-events", "--dialect", "claude"]] {
        let (run, told_model) = run_command(guarded(), flags, "echo hello");
        assert!(told_model.contains("not here"), "{told_model}");
        let (started, ended) = (told(&run, "hook_started"), told(&run, "hook_response"));
        assert_eq!((started.len(), ended.len()), (1, 1), "{run}");
        assert_eq!(started[0]["hook_id"], ended[0]["hook_id"]);
        assert_eq!(ended[0]["hook_event"], "PreToolUse");
        assert_eq!((&ended[0]["exit_code"], &ended[0]["outcome"]), (&json!(2), &json!("success")));
        assert_eq!(ended[0]["stderr"], "not here\n");
    }
    let (run, _) = run_command(guarded(), &[], "echo hello");
    assert!(told(&run, "hook_started").is_empty(), "{run}");
    let server = Server::start([]);
    for flags in [
        &["-o", "json"][..],
        &["-o", "stream-json", "--dialect", "gemini"],
        &["-o", "stream-json", "--dialect", "openai"],
    ] {
        let run = tenon().server(&server).args(["-p", "x", "--include-hook-events"]).args(flags).run();
        run.assert_code(2);
    }
}

#[test]
fn marks_of_a_client_are_kept_from_what_tenon_starts() {
    let marks = ["CLAUDE_CODE_ENTRYPOINT", "CLAUDE_AGENT_SDK_VERSION", "CLAUDE_CODE_SDK_READS_SESSION_STATE"];
    let marked = |setup: Tenon| marks.iter().fold(setup, |setup, mark| setup.env(*mark, "sdk-py"));
    let (_, shell) = run_command(marked(tenon()), &[], "env");
    assert!(shell.contains("PATH=") && !shell.contains("sdk-py"), "{shell}");

    let hook = json!({"type": "command", "command": "env > hook.env"});
    let settings = json!({"hooks": {"PreToolUse": [{"hooks": [hook]}]}});
    let (run, _) = run_command(marked(tenon()).home_file("settings.json", settings.to_string()), &[], "true");
    let seen = run.read("hook.env");
    assert!(seen.contains("PATH=") && !seen.contains("sdk-py"), "{seen}");

    let server = Server::start([reply().call("c1", "mcp__s__env", json!({})), reply().text("Done.")]);
    let config = json!({"mcpServers": {"s": McpScript::new(&["env"]).command("mcp::server")}}).to_string();
    let settings = r#"{"timeouts": {"mcpReady": "30s"}}"#;
    let setup = marked(tenon()).server(&server).args(["-p", "Go.", "--yolo", "--mcp-config", &config]);
    setup.args(["--settings", settings]).run().assert_code(0);
    let seen = server.request(1).tool_result("c1");
    assert!(seen.contains("PATH") && !seen.contains("sdk-py"), "{seen}");
}

/// A run in which a file is to be written, and a tool of a server is asked whether that may be.
fn judged(answer: &str, tool: &str) -> (Run, Server) {
    let script = McpScript::new(&["echo"]).answers("judge", answer);
    let config = json!({"mcpServers": {"s": script.command("mcp::server")}}).to_string();
    let write = json!({"file_path": "a.txt", "content": "as asked"});
    let server = Server::start([reply().call("c1", "write_file", write), reply().text("Done.")]);
    let run = tenon()
        .server(&server)
        .args(["-p", "Go.", "-o", "json", "--mcp-config", &config, "--permission-prompt-tool", tool])
        .args(["--settings", r#"{"timeouts": {"mcpReady": "30s"}}"#])
        .run();
    (run, server)
}

#[test]
fn a_tool_of_a_server_is_asked_for_permission() {
    let changed = r#"{"behavior": "allow", "updatedInput": {"file_path": "a.txt", "content": "changed"}}"#;
    let table = [
        (r#"{"behavior": "allow"}"#, Some("as asked"), ""),
        (changed, Some("changed"), ""),
        (r#"{"behavior": "deny", "message": "not today"}"#, None, "not today"),
        (r#"{"behavior": "perhaps"}"#, None, "said no"),
        ("yes, of course", None, "did not answer with a JSON object"),
    ];
    for (answer, written, why) in table {
        let (run, server) = judged(answer, "mcp__s__judge");
        run.assert_code(0);
        let file = std::fs::read_to_string(run.workspace().join("a.txt")).ok();
        assert_eq!(file.as_deref(), written, "{answer}: {run}");
        assert!(server.request(1).tool_result("c1").contains(why), "{answer}: {run}");
        let offered = server.request(0);
        assert!(offered.tool_names().contains(&"mcp__s__echo"), "{answer}");
        assert!(
            !offered.tool_names().contains(&"mcp__s__judge"),
            "it judges the model and is none of its tools"
        );
    }
    let (run, server) = judged("{}", "mcp__s__absent");
    run.assert_code(0);
    assert!(server.request(1).tool_result("c1").contains("`mcp__s__absent` is not there"), "{run}");
    let (run, _) = judged("{}", "mcp__other__judge");
    run.assert_code(52);
    assert!(run.stderr.contains("there is no MCP server that it could be of"), "{run}");
}

#[test]
fn a_tool_that_does_not_answer_says_no() {
    let script = McpScript::new(&["never", "crash"]);
    let config = json!({"mcpServers": {"s": script.command("mcp::server")}}).to_string();
    for judge in ["mcp__s__never", "mcp__s__crash"] {
        let write = json!({"file_path": "a.txt", "content": "x"});
        let server = Server::start([reply().call("c1", "write_file", write), reply().text("Done.")]);
        let run = tenon()
            .server(&server)
            .args(["-p", "Go.", "--mcp-config", &config, "--permission-prompt-tool", judge])
            .args(["--settings", r#"{"timeouts": {"mcpReady": "30s", "mcpCall": "1s"}}"#])
            .run();
        run.assert_code(0);
        assert!(server.request(1).tool_result("c1").contains(&format!("`{judge}` failed")), "{run}");
        assert!(!run.workspace().join("a.txt").exists());
    }
}

/// A tool in the client's own process can be the one that decides.
#[test]
fn a_tool_of_the_client_is_asked_for_permission() {
    let write = json!({"file_path": "a.txt", "content": "x"});
    let server = Server::start([reply().call("c1", "write_file", write), reply().text("Done.")]);
    let mut client = session(&server, &["--permission-prompt-tool", "mcp__own__judge"]);
    client.write_json(&json!({
        "type": "control_request", "request_id": "r1",
        "request": {"subtype": "initialize", "hooks": null, "sdkMcpServers": ["own"]},
    }));
    client.write_json(&user("Write."));
    let mut asked = Value::Null;
    let run = loop {
        let line = client.json();
        if line["type"] == "result" {
            client.close_stdin();
            break client.wait();
        }
        if line["request"]["subtype"] != "mcp_message" {
            continue;
        }
        let message = &line["request"]["message"];
        let result = match message["method"].as_str().unwrap() {
            "initialize" => json!({
                "protocolVersion": message["params"]["protocolVersion"], "capabilities": {"tools": {}},
                "serverInfo": {"name": "own", "version": "1"},
            }),
            "tools/list" => json!({"tools": [{"name": "judge", "inputSchema": {"type": "object"}}]}),
            "tools/call" => {
                asked = message["params"]["arguments"].clone();
                json!({"content": [{"type": "text", "text": r#"{"behavior": "allow"}"#}]})
            }
            _ => json!({}),
        };
        let answer = json!({"jsonrpc": "2.0", "id": message["id"], "result": result});
        client.write_json(&json!({
            "type": "control_response",
            "response": {
                "subtype": "success", "request_id": line["request_id"], "response": {"mcp_response": answer},
            },
        }));
    };
    assert_eq!(asked["tool_name"], "write_file", "{run}");
    assert_eq!(asked["input"]["content"], "x");
    assert_eq!(run.read("a.txt"), "x");
    assert!(!run.stdout.contains(r#""subtype":"can_use_tool""#), "{run}");
}

#[test]
fn who_is_asked_must_be_possible() {
    let table: &[(&[&str], &str)] = &[
        (&["--permission-prompt-tool", "stdio"], "needs `--input-format stream-json`"),
        (&["--permission-prompt-tool", "bash"], "names no tool of a server"),
        (&["--permission-prompt-tool", "mcp__s__"], "names no tool of a server"),
        (&["--permission-prompt-tool", "mcp__s__t", "--permission-prompts", "none"], "asks nobody"),
        (&["--permission-prompt-tool", "mcp__s__t", "--safe-mode"], "starts no MCP servers"),
        (&["--session-mirror"], "needs `--output-format stream-json`"),
        (&["--session-mirror", "-o", "stream-json", "--no-session"], "keeps none"),
        (
            &["--session-mirror", "-o", "stream-json", "--dialect", "openai"],
            "in the `qwen` or `claude` dialect",
        ),
    ];
    let server = Server::start([]);
    for (flags, why) in table {
        let run = tenon().server(&server).args(["-p", "x"]).args(*flags).run();
        run.assert_code(2);
        assert!(run.stderr.contains(why), "{flags:?}: {run}");
    }
}

fn session(server: &Server, flags: &[&str]) -> Running {
    let setup = tenon().server(server).args(["--input-format", "stream-json", "-o", "stream-json"]);
    setup.args(flags).stdin_idle().spawn()
}

#[test]
fn a_client_that_is_not_to_be_asked_is_not() {
    for flags in [&["--permission-prompts", "none"][..], &["--permission-mode", "dontAsk"]] {
        let write = json!({"file_path": "a.txt", "content": "x"});
        let server = Server::start([reply().call("c1", "write_file", write), reply().text("Done.")]);
        let mut client = session(&server, flags);
        client.write_json(&user("Write."));
        let result = client.json_where(|line| line["type"] == "result");
        assert_eq!(result["permission_denials"][0]["tool_name"], "write_file", "{flags:?}");
        client.close_stdin();
        let run = client.wait();
        assert!(!run.stdout.contains(r#""subtype":"can_use_tool""#), "{flags:?}: {run}");
        assert!(!server.request(0).tool_names().contains(&"ask_user_question"), "{flags:?}");
    }
}

/// The lines of a mirrored session, and what they say it is called.
fn mirrored(run: &Run) -> (Vec<Value>, String) {
    let lines = run.json_lines();
    let lines: Vec<&Value> = lines.iter().filter(|line| line["type"] == "transcript_mirror").collect();
    let file = lines[0]["filePath"].as_str().unwrap().to_owned();
    assert!(lines.iter().all(|line| line["filePath"] == file.as_str()));
    (lines.iter().flat_map(|line| line["entries"].as_array().unwrap().clone()).collect(), file)
}

#[test]
fn a_session_is_mirrored_and_taken_up_again_from_the_mirror() {
    let read = reply().call("c1", "read_file", json!({"file_path": "a.txt"}));
    let server = Server::start([read, reply().text("It says hello.")]);
    let setup = tenon().file("a.txt", "hello\n").server(&server);
    let run = setup.args(["-p", "Read.", "-o", "stream-json", "--session-mirror", "--session-id", ID]).run();
    run.assert_code(0);
    let (entries, file) = mirrored(&run);
    let kinds: Vec<&str> = entries.iter().map(|entry| entry["type"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["session", "user", "assistant", "tool_started", "tool_result", "assistant"]);
    let name: String = run.workspace().canonicalize().unwrap().display().to_string();
    let name = name.replace(|c: char| !c.is_ascii_alphanumeric(), "-");
    assert!(file.ends_with(&format!("/.claude/projects/{name}/{ID}.jsonl")), "{file}");

    // On another machine: the same folder, another home, and the copy where the SDK says it is.
    let server = Server::start([reply().text("Goodbye.")]);
    let other = tenon().cwd(run.workspace()).server(&server);
    let copy = other.home().join("copy");
    let folder = copy.join("projects").join(&name);
    std::fs::create_dir_all(&folder).unwrap();
    // As another language would write it: the keys in another order.
    let shuffled = |entry: &Value| {
        let fields: serde_json::Map<String, Value> = entry
            .as_object()
            .unwrap()
            .iter()
            .rev()
            .map(|(key, value)| (key.clone(), value.clone()))
            .collect();
        format!("{}\n", Value::Object(fields))
    };
    std::fs::write(folder.join(format!("{ID}.jsonl")), entries.iter().map(shuffled).collect::<String>())
        .unwrap();
    let again = other
        .env("CLAUDE_CONFIG_DIR", &copy)
        .args(["-p", "And?", "-o", "stream-json", "--session-mirror", &format!("--resume={ID}")])
        .run();
    again.assert_code(0);
    let sent = server.request(0).body.to_string();
    assert!(sent.contains("It says hello.") && sent.contains("And?"), "{sent}");
    let (entries, _) = mirrored(&again);
    let kinds: Vec<&str> = entries.iter().map(|entry| entry["type"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["user", "assistant"], "only what is new");
}

#[test]
fn a_copy_that_is_no_session_is_refused() {
    for text in ["", "not json\n", "{\"type\":\"user\",\"uuid\":\"x\"}\n"] {
        let server = Server::start([]);
        let setup = tenon().server(&server);
        let name = setup.workspace().canonicalize().unwrap().display().to_string();
        let name = name.replace(|c: char| !c.is_ascii_alphanumeric(), "-");
        let folder = setup.home().join("copy/projects").join(name);
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join(format!("{ID}.jsonl")), text).unwrap();
        let copy = setup.home().join("copy");
        let run = setup
            .env("CLAUDE_CONFIG_DIR", &copy)
            .args(["-p", "x", "-o", "stream-json", "--session-mirror", "--resume", ID])
            .run();
        run.assert_code(42);
        assert!(server.requests().is_empty());
    }
}

#[test]
fn safe_mode_leaves_hooks_memory_servers_and_commands_out() {
    let hook = json!({"type": "command", "command": "touch hooked"});
    let settings = json!({
        "hooks": {"SessionStart": [{"hooks": [hook]}]},
        "mcpServers": {"s": McpScript::new(&["echo"]).command("mcp::server")},
    });
    let setup = || {
        let setup = tenon().home_file("settings.json", settings.to_string());
        let setup = setup.home_file("commands/greet.md", "Say hello to everybody.");
        setup.file("AGENTS.md", "Always answer in verse.")
    };
    let (run, request) = ask(setup(), &["--safe-mode"]);
    assert_eq!(init(&run)["mcp_servers"], json!([]));
    assert!(!run.workspace().join("hooked").exists());
    assert!(!request.to_string().contains("in verse"));
    assert!(!init(&run)["slash_commands"].to_string().contains("greet"), "{run}");
    let (run, request) = ask(setup(), &[]);
    assert!(run.workspace().join("hooked").exists(), "{run}");
    assert!(request.to_string().contains("in verse"));
    assert_eq!(init(&run)["mcp_servers"][0]["name"], "s");
}

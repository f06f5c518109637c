//! MCP servers in whole runs: offered, called, denied, late, gone; and what is configured wrongly.

use std::path::Path;
use std::time::Duration;

use tenon_testkit::{
    McpScript, Run, Server, Signal, TINY_PNG, Tenon, Value, Wire, json, logged, reply, serve_mcp_if_asked,
};

use crate::output::result_of;
use crate::tenon;

/// No test: the server that the tests below have tenon start. Started by nobody, it ends at once.
#[test]
fn server() {
    serve_mcp_if_asked();
}

fn entry(script: &McpScript) -> Value {
    script.command("mcp::server")
}

fn config(servers: Value) -> String {
    json!({"mcpServers": servers}).to_string()
}

/// A busy machine takes its time to start a server: the run waits for it.
fn patient(setup: Tenon) -> Tenon {
    setup.home_file("settings.json", json!({"timeouts": {"mcpReady": "30s"}}).to_string())
}

fn with(script: &McpScript) -> Tenon {
    patient(tenon()).args(["--mcp-config", &config(json!({"s": entry(script)}))])
}

/// One call of one tool, then a last word.
fn call(setup: Tenon, tool: &str, input: Value) -> (String, Run) {
    let server = Server::start([reply().call("c1", tool, input), reply().text("Done.")]);
    let run = setup.server(&server).args(["-p", "Go.", "-o", "json"]).run();
    assert_eq!(server.requests().len(), 2, "{run}");
    (server.request(1).tool_result("c1"), run)
}

#[test]
fn tools_of_a_server_are_offered_called_and_shown() {
    let script = McpScript::new(&["echo", "structured_output", "progress"]);
    let server = Server::start([
        reply().call("c1", "mcp__s__echo", json!({"text": "hello"})).call(
            "c2",
            "mcp__s__progress",
            json!({}),
        ),
        reply().call("c3", "structured_output", json!({"n": 1.50})),
    ]);
    let schema = r#"{"type":"object","properties":{"n":{"type":"number"}},"required":["n"]}"#;
    let run = with(&script)
        .server(&server)
        .args(["-p", "Go.", "-o", "stream-json", "--include-partial-messages", "--json-schema", schema])
        .args(["--allowed-tools", "mcp__s"])
        .run();
    run.assert_code(0);
    let offered = server.request(0);
    let own: Vec<&str> = offered.tool_names().into_iter().filter(|name| name.starts_with("mcp__")).collect();
    assert_eq!(own, ["mcp__s__echo", "mcp__s__structured_output", "mcp__s__progress"]);
    // A tool that calls itself like the contract's own does not become it: that one stays last.
    assert_eq!(offered.tool_names().last(), Some(&"structured_output"));
    assert_eq!(server.request(1).tool_result("c1"), "hello");
    let lines = run.json_lines();
    assert_eq!(lines[0]["mcp_servers"], json!([{"name": "s", "status": "connected"}]));
    assert!(lines[0]["tools"].as_array().unwrap().contains(&json!("mcp__s__echo")), "{run}");
    let progress = lines.iter().find(|line| line["event"]["type"] == "tool_progress").unwrap();
    assert_eq!(
        progress["event"],
        json!({"type": "tool_progress", "tool_use_id": "c2",
            "content": {"type": "mcp_tool_progress", "progress": 1, "total": 2, "message": "step 1"}})
    );
    assert_eq!(run.last_json()["structured_result"], json!({"n": 1.5}));
}

#[test]
fn permissions_hold_for_servers_as_for_other_tools() {
    let script =
        || McpScript::new(&["echo"]).raw_tool(json!({"name": "look", "annotations": {"readOnlyHint": true}}));
    let text = json!({"text": "x"});
    let (told, run) = call(with(&script()), "mcp__s__echo", text.clone());
    assert!(told.starts_with("Denied: "), "{told}");
    assert_eq!(result_of(&run)["permission_denials"][0]["tool_name"], "mcp__s__echo");
    assert!(run.stderr.contains("hint: "), "{run}");
    for rule in ["mcp__s", "mcp__s__*", "mcp__s__echo"] {
        let (told, _) = call(with(&script()).args(["--allowed-tools", rule]), "mcp__s__echo", text.clone());
        assert_eq!(told, "x", "{rule}");
    }
    // What a server says of itself counts only where the user believes it.
    assert!(call(with(&script()), "mcp__s__look", json!({})).0.starts_with("Denied: "));
    let mut believed = entry(&script());
    believed["trust"] = json!(true);
    let setup = patient(tenon()).args(["--mcp-config", &config(json!({"s": believed}))]);
    assert_eq!(call(setup.clone(), "mcp__s__look", json!({})).0, "{}");
    assert!(call(setup, "mcp__s__echo", text.clone()).0.starts_with("Denied: "));
    // A whole server is taken away, and so is one tool.
    let server = Server::start([reply().text("Done.")]);
    with(&script())
        .server(&server)
        .args(["-p", "Go.", "--exclude-tools", "mcp__s__echo"])
        .run()
        .assert_code(0);
    let names: Vec<String> = server.request(0).tool_names().iter().map(|name| (*name).to_owned()).collect();
    assert!(names.contains(&"mcp__s__look".into()) && !names.contains(&"mcp__s__echo".into()), "{names:?}");
}

#[test]
fn where_servers_come_from() {
    let server = |name: &str| (name.to_owned(), entry(&McpScript::new(&["echo"])));
    let servers =
        |names: &[&str]| json!(names.iter().map(|name| server(name)).collect::<serde_json::Map<_, _>>());
    let settings = |more: Value| {
        let mut settings = json!({"timeouts": {"mcpReady": "30s"}, "mcpServers": servers(&["user"])});
        settings.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        settings.to_string()
    };
    let flag = config(servers(&["flag"]));
    let setup = |more: Value| {
        tenon().home_file("settings.json", settings(more)).file(".mcp.json", config(servers(&["project"])))
    };
    for (setup, expected) in [
        (setup(json!({})), vec!["user"]),
        (setup(json!({})).arg("--trust-project"), vec!["user", "project"]),
        (setup(json!({})).args(["--mcp-config", &flag]), vec!["user", "flag"]),
        (setup(json!({})).args(["--mcp-config", &flag, "--strict-mcp-config"]), vec!["flag"]),
        (setup(json!({})).args(["--mcp-config", &flag, "--bare"]), vec!["flag"]),
        (setup(json!({})).args(["--mcp-config", &flag, "--setting-sources", ""]), vec!["flag"]),
        (setup(json!({})).arg("--safe-mode"), vec![]),
        (setup(json!({"mcp": {"allowed": ["flag"]}})).args(["--mcp-config", &flag]), vec!["flag"]),
        (
            setup(json!({})).args(["--mcp-config", &flag, "--allowed-mcp-server-names", "user,other"]),
            vec!["user"],
        ),
    ] {
        let model = Server::start([reply().text("Done.")]);
        let run = setup.server(&model).args(["-p", "Go.", "-o", "stream-json"]).run();
        run.assert_code(0);
        let names: Vec<Value> = run.json_lines()[0]["mcp_servers"]
            .as_array()
            .unwrap()
            .iter()
            .map(|server| server["name"].clone())
            .collect();
        assert_eq!(names, expected, "{run}");
    }
    let model = Server::start([reply().text("Done.")]);
    let run = setup(json!({})).server(&model).args(["-p", "Go."]).run();
    assert!(run.stderr.contains("ignored: `.mcp.json`"), "{run}");
}

#[test]
fn what_is_configured_wrongly_is_said_before_anything_is_asked() {
    let cases = [
        (vec!["--mcp-config", "{"], 52, "--mcp-config:1:1: this is not valid JSON"),
        (
            vec!["--mcp-config", r#"{"a": {}}"#],
            52,
            "--mcp-config:1:7: `a` names neither a program nor an address",
        ),
        (vec!["--mcp-config", "none.json"], 52, "none.json` cannot be read: there is no such file"),
        (vec!["--mcp-config", "bad.json"], 52, "bad.json:2:21: `mcpServers.a.command` must be a string"),
        (vec!["--mcp-config", r#"{"a": {"type": "sse", "url": "https://h"}}"#], 52, "no longer spoken"),
        (
            vec!["--mcp-config", r#"{"a b": {"command": "x"}, "a_b": {"command": "x"}}"#],
            52,
            "the MCP servers `a b` and `a_b` would both have tools called `mcp__a_b__…`",
        ),
        (vec!["--safe-mode", "--mcp-config", "{}"], 2, "`--safe-mode` starts no MCP servers"),
    ];
    for (args, code, message) in cases {
        let run = tenon()
            .file("bad.json", "{ \"mcpServers\": {\n  \"a\": { \"command\": 1 } } }")
            .env("OPENAI_API_KEY", "k")
            .args(["-p", "Go."])
            .args(&args)
            .run();
        run.assert_code(code);
        assert!(run.stderr.contains(message), "{args:?}\n{run}");
    }
}

#[test]
fn a_dead_server_is_a_warning_and_a_slow_one_is_mounted_when_it_comes() {
    let setup = tenon();
    // In the workspace: commands may write nowhere else.
    let (gate, log) = (setup.workspace().join("gate"), setup.workspace().join("log"));
    let late = McpScript::new(&["echo"]).start(gate.to_str().unwrap()).log(&log);
    let open =
        format!("touch {}; until grep -q tools/list {}; do sleep 0.01; done", gate.display(), log.display());
    let mut script = vec![reply().call("c0", "run_shell_command", json!({"command": open}))];
    // Some more turns: the list is read a moment after it was asked for.
    script.extend((1..20).map(|n| {
        reply().call(&format!("c{n}"), "run_shell_command", json!({"command": format!("echo {n}")}))
    }));
    script.push(reply().call("last", "mcp__late__echo", json!({"text": "at last"})));
    script.push(reply().text("Done."));
    let server = Server::start(script);
    let run = setup
        .home_file("settings.json", json!({"timeouts": {"mcpReady": "300ms"}}).to_string())
        .server(&server)
        .args([
            "--mcp-config",
            &config(json!({"late": entry(&late), "dead": {"command": "/no/such/program"}})),
        ])
        .args(["-p", "Go.", "-o", "json", "--yolo"])
        .run();
    run.assert_code(0);
    let init = &run.json()[0];
    assert_eq!(
        init["mcp_servers"],
        json!([{"name": "late", "status": "connecting"}, {"name": "dead", "status": "disconnected"}])
    );
    assert!(!server.request(0).tool_names().contains(&"mcp__late__echo"));
    let requests = server.requests();
    assert!(requests[requests.len() - 2].tool_names().contains(&"mcp__late__echo"), "{run}");
    assert_eq!(requests.last().unwrap().tool_result("last"), "at last");
    let warnings = result_of(&run)["warnings"].to_string();
    for expected in [
        "the MCP server `dead` did not start: the program `/no/such/program` was not found",
        "the MCP server `late` is still starting; its tools are offered when it is up",
    ] {
        assert!(warnings.contains(expected) && run.stderr.contains(expected), "{run}");
    }
}

#[test]
fn a_server_that_goes_in_a_call_is_told_truthfully_and_comes_back() {
    let server = Server::start([
        reply().call("c1", "mcp__s__crash", json!({})),
        reply().call("c2", "mcp__s__echo", json!({"text": "back"})),
        reply().text("Done."),
    ]);
    let run = with(&McpScript::new(&["crash", "echo"])).server(&server).args(["-p", "Go.", "--yolo"]).run();
    run.assert_code(0);
    let told = server.request(1).tool_result("c1");
    assert!(
        told.contains("it ended with exit code 3") && told.contains("may or may not have happened"),
        "{told}"
    );
    assert_eq!(server.request(2).tool_result("c2"), "back");
    assert!(run.stderr.contains("warning: the MCP server `s` went and is started again (1 of 2)"), "{run}");
}

#[test]
fn servers_get_no_keys_but_what_they_are_given() {
    let mut own = entry(&McpScript::new(&["env"]));
    own["env"]["OWN_TOKEN"] = json!("$GIVEN");
    let setup = patient(tenon())
        .env("GIVEN", "t0ken")
        .env("ANTHROPIC_API_KEY", "a-secret-key")
        .env("PLAIN", "1")
        .args(["--yolo", "--mcp-config", &config(json!({"s": own}))]);
    let (told, _) = call(setup, "mcp__s__env", json!({}));
    let names: Vec<&str> = told.split(' ').collect();
    assert!(names.contains(&"PLAIN") && names.contains(&"OWN_TOKEN"), "{told}");
    assert!(!names.iter().any(|name| name.ends_with("_API_KEY")), "{told}");
}

#[test]
fn what_servers_say_on_stderr_is_for_the_curious() {
    let run = |args: &[&str]| {
        let server = Server::start([reply().text("Done.")]);
        with(&McpScript::new(&["echo"])).server(&server).args(["-p", "Go."]).args(args).run()
    };
    assert!(!run(&[]).stderr.contains("ready"));
    assert!(run(&["--verbose"]).stderr.contains("mcp: s: ready"));
}

#[test]
fn a_stopped_run_takes_its_servers_with_it() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("log");
    let script = McpScript::new(&["never"]).log(&log).stubborn();
    let server = Server::start([reply().call("c1", "mcp__s__never", json!({}))]);
    let mut run = with(&script).server(&server).args(["-p", "Go.", "--yolo"]).spawn();
    until(|| logged(&log).iter().any(|message| message["method"] == "tools/call"));
    let pid = logged(&log)[0]["pid"].to_string();
    run.signal(Signal::Terminate);
    run.wait().assert_code(143);
    until(|| !Path::new("/proc").join(&pid).exists());
    // It was told, before it was made to go.
    assert!(
        logged(&log).iter().any(|message| message["method"] == "notifications/cancelled"),
        "{:?}",
        logged(&log)
    );
}

fn until(happened: impl Fn() -> bool) {
    for _ in 0..6_000 {
        if happened() {
            return;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    panic!("it did not happen");
}

#[test]
fn images_reach_the_model_on_every_wire() {
    for wire in [Wire::Chat, Wire::Responses, Wire::Messages, Wire::Gemini] {
        let server = Server::start([
            reply().call("c1", "mcp__s__image", json!({})).call("c2", "mcp__s__echo", json!({"text": "x"})),
            reply().text("Done."),
        ]);
        let run = with(&McpScript::new(&["image", "echo"]))
            .server_on(&server, wire)
            .args(["-p", "Go.", "--yolo"])
            .run();
        run.assert_code(0);
        let last = server.request(1).body;
        let url = format!("data:image/png;base64,{TINY_PNG}");
        let (at, expected) = match wire {
            Wire::Chat => (
                &last["messages"].as_array().unwrap().last().unwrap()["content"],
                json!([{"type": "text", "text": "`mcp__s__image` returned:"},
                       {"type": "image_url", "image_url": {"url": url}}]),
            ),
            Wire::Responses => (
                &last["input"].as_array().unwrap().last().unwrap()["content"],
                json!([{"type": "input_text", "text": "`mcp__s__image` returned:"},
                       {"type": "input_image", "image_url": url, "detail": "auto"}]),
            ),
            Wire::Messages => (
                &last["messages"].as_array().unwrap().last().unwrap()["content"][0]["content"],
                json!([{"type": "text", "text": "A dot.\n[image/png, 70 bytes]"},
                       {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": TINY_PNG}}]),
            ),
            Wire::Gemini => (
                &last["contents"].as_array().unwrap().last().unwrap()["parts"][3],
                json!({"inlineData": {"mimeType": "image/png", "data": TINY_PNG}}),
            ),
        };
        assert_eq!(*at, expected, "{wire:?} {last}");
    }
}

#[test]
fn a_model_that_cannot_see_is_asked_again_without_the_image() {
    let server = Server::start([
        reply().call("c1", "mcp__s__image", json!({})),
        reply()
            .status(400)
            .json(json!({"error": {"message": "unknown variant `image_url`, expected `text`"}})),
        reply().call("c2", "mcp__s__image", json!({})),
        reply().text("Done."),
    ]);
    let run = with(&McpScript::new(&["image"])).server(&server).args(["-p", "Go.", "--yolo"]).run();
    run.assert_code(0);
    assert!(server.request(1).body.to_string().contains("image_url"));
    for request in &server.requests()[2..] {
        let body = request.body.to_string();
        assert!(
            !body.contains("image_url") && body.contains("not shown: this model cannot see it"),
            "{body}"
        );
    }
}

#[test]
fn a_run_with_images_replays_and_another_image_does_not_fit() {
    let png = |last: u8| [b"\x89PNG\r\n\x1a\n".as_slice(), &[last]].concat();
    let setup = tenon().file("a.png", png(1));
    let server = Server::start([
        reply().call("c1", "read_file", json!({"file_path": "a.png"})),
        reply().text("A picture."),
    ]);
    let run = setup.clone().server(&server).args(["-p", "Go.", "--record", "tape.jsonl"]).run();
    run.assert_code(0);
    assert!(!run.read("tape.jsonl").contains("iVBORw0K"), "a cassette keeps no pictures");
    let replay = |setup: &Tenon| setup.clone().args(["-p", "Go.", "--replay", "tape.jsonl"]).run();
    assert_eq!(replay(&setup).assert_code(0).stdout, "A picture.\n");
    let other = setup.file("a.png", png(2));
    assert_ne!(replay(&other).code, 0);
}

#[test]
fn the_list_shows_who_is_there() {
    let good = entry(&McpScript::new(&["echo", "fail"]));
    let mut off = good.clone();
    off["disabled"] = json!(true);
    let all = config(json!({"good": good, "off": off, "dead": {"command": "/no/such/program"}}));
    let run = tenon().args(["mcp", "list", "--mcp-config", &all]).run();
    run.assert_code(1);
    assert_eq!(
        run.stdout,
        "good (stdio) connected\n  mcp__good__echo\n  mcp__good__fail\noff (stdio) disabled\n\
         dead (stdio) failed: the program `/no/such/program` was not found\n"
    );
    let run = tenon().args(["mcp", "list", "--json", "--mcp-config", &config(json!({"good": good}))]).run();
    run.assert_code(0);
    assert_eq!(
        run.json(),
        json!({"servers": [{"name": "good", "transport": "stdio", "status": "connected", "problem": null,
            "tools": ["mcp__good__echo", "mcp__good__fail"]}]})
    );
    let none = tenon().args(["mcp", "list"]).run();
    assert_eq!(none.assert_code(0).stdout, "no MCP servers are configured\n");
    tenon().args(["mcp", "list", "--mcp-config", "{"]).run().assert_code(52);
    tenon().args(["mcp", "list", "more"]).run().assert_code(2);
}

#[test]
fn a_server_over_http_is_one_like_the_others() {
    let web = McpScript::new(&["echo"]).serve_http();
    let setup = patient(tenon()).args(["--yolo", "--mcp-config", &config(json!({"web": web.entry()}))]);
    let (told, _) = call(setup, "mcp__web__echo", json!({"text": "over the wire"}));
    assert_eq!(told, "over the wire");
    assert!(web.header("user-agent").iter().all(|agent| agent.starts_with("tenon/")));
}

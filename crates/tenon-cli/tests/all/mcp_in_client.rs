//! Servers and agents that a client brings along: tools in its own process, servers that are started for it,
//! sub-agents of its own; and what it can see and change of servers while the session goes on.

use tenon_testkit::{McpScript, Server, Value, json, reply};

use super::driving::{Driver, LINES, driven};
use super::tenon;

fn calls_add() -> [tenon_testkit::Reply; 2] {
    [reply().call("c1", "mcp__calc__add", json!({"a": 1, "b": 2})), reply().text("Three.")]
}

fn calculator(mut driver: Driver) -> Driver {
    driver.tools = vec![("add", json!(3))];
    driver
}

fn initialize(more: Value) -> Value {
    let mut request = json!({"subtype": "initialize", "hooks": null});
    for (key, value) in more.as_object().unwrap() {
        request[key] = value.clone();
    }
    request
}

#[test]
fn tools_live_in_the_clients_process() {
    for servers in [json!({"calc": {"type": "sdk", "name": "calc"}}), json!(["calc"])] {
        let server = Server::start(calls_add());
        let mut driver = calculator(driven(&server, &["--allowed-tools", "mcp__calc"]));
        let told = driver.told(initialize(json!({"sdkMcpServers": servers})));
        assert_eq!(told["capabilities"]["can_handle_mcp_message"], true);
        let result = driver.turn("one and two?");
        assert_eq!(result["result"], "Three.", "{result}");
        assert_eq!(server.request(1).tool_result("c1"), "3");
        let init = driver.seen.iter().find(|line| line["subtype"] == "init").unwrap();
        assert_eq!(init["mcp_servers"], json!([{"name": "calc", "status": "connected"}]));
        assert!(init["tools"].as_array().unwrap().contains(&json!("mcp__calc__add")));
        let methods: Vec<&str> =
            driver.questions.iter().filter_map(|asked| asked["message"]["method"].as_str()).collect();
        assert_eq!(methods, ["initialize", "notifications/initialized", "tools/list", "tools/call"]);
        assert!(driver.questions.iter().all(|asked| asked["server_name"] == "calc"));
        driver.finish().assert_code(0);
    }
}

/// The other SDK names such servers on the command line, and allows their tools like others.
#[test]
fn servers_of_the_client_may_be_named_on_the_command_line() {
    let config = json!({"mcpServers": {"calc": {"type": "sdk", "name": "calc"}}}).to_string();
    for (flags, is_asked) in [(vec!["--allowedTools", "mcp__calc__add"], false), (vec![], true)] {
        let server = Server::start(calls_add());
        let setup = tenon()
            .server(&server)
            .env("CLAUDE_CODE_ENTRYPOINT", "sdk-py")
            .args(LINES)
            .args(["--mcp-config", &config])
            .args(&flags);
        let mut driver = calculator(Driver::start(setup));
        driver.told(initialize(json!({})));
        driver.send(&super::driving::user("one and two?"));
        if is_asked {
            let asked = driver.until(|line| line["request"]["subtype"] == "can_use_tool");
            assert_eq!(asked["request"]["tool_name"], "mcp__calc__add");
            driver.reply(&asked["request_id"], json!({"behavior": "allow", "updatedInput": {}}));
        }
        assert_eq!(driver.result()["result"], "Three.");
        assert_eq!(server.request(1).tool_result("c1"), "3");
        driver.finish().assert_code(0);
    }
}

#[test]
fn servers_of_the_client_work_without_a_greeting() {
    let server = Server::start(calls_add());
    let config = json!({"calc": {"type": "sdk", "name": "calc"}}).to_string();
    let mut driver = calculator(driven(&server, &["--mcp-config", &config, "--allowed-tools", "mcp__calc"]));
    assert_eq!(driver.turn("one and two?")["result"], "Three.");
    driver.finish().assert_code(0);
}

/// What the client says of a tool goes to the model as it is: an error is one, and so is a refusal to answer.
#[test]
fn a_client_that_fails_is_told_to_the_model() {
    let table = [
        (json!({"subtype": "error", "error": "boom"}), "boom"),
        (
            json!({"subtype": "success", "response": {"mcp_response": {"jsonrpc": "2.0", "id": 0,
                "error": {"code": -32000, "message": "no such number"}}}}),
            "no such number",
        ),
        (json!({"subtype": "success", "response": {}}), "the answer has no `mcp_response`"),
        (
            json!({"subtype": "success", "response": {"mcp_response": null}}),
            "its answer is no JSON-RPC message",
        ),
    ];
    for (answer, told) in table {
        let server = Server::start(calls_add());
        let mut driver = calculator(driven(&server, &["--allowed-tools", "mcp__calc"]));
        driver.told(initialize(json!({"sdkMcpServers": ["calc"]})));
        driver.send(&super::driving::user("one and two?"));
        let call = driver.until(|line| line["request"]["message"]["method"] == "tools/call");
        let mut answer = answer.clone();
        answer["request_id"] = call["request_id"].clone();
        if let Some(response) = answer.pointer_mut("/response/mcp_response/id") {
            *response = call["request"]["message"]["id"].clone();
        }
        driver.send(&json!({"type": "control_response", "response": answer}));
        assert_eq!(driver.result()["result"], "Three.");
        let result = server.request(1).tool_result("c1");
        assert!(result.contains(told), "{result}");
        driver.finish().assert_code(0);
    }
}

/// An answer that never comes costs its deadline, and the question is withdrawn.
#[test]
fn a_client_that_does_not_answer_costs_its_deadline() {
    let server = Server::start(calls_add());
    let settings = json!({"timeouts": {"mcpMessage": "1s"}}).to_string();
    let mut driver = calculator(driven(&server, &["--settings", &settings, "--allowed-tools", "mcp__calc"]));
    driver.told(initialize(json!({"sdkMcpServers": ["calc"]})));
    driver.send(&super::driving::user("one and two?"));
    let call = driver.until(|line| line["request"]["message"]["method"] == "tools/call");
    let withdrawn = driver.until(|line| line["type"] == "control_cancel_request");
    assert_eq!(withdrawn["request_id"], call["request_id"]);
    assert_eq!(driver.result()["result"], "Three.");
    assert!(server.request(1).tool_result("c1").contains("did not answer in time"));
    driver.finish().assert_code(0);
}

/// A turn that is stopped takes its question back.
#[test]
fn an_interrupted_call_is_withdrawn() {
    let server = Server::start(calls_add());
    let mut driver = calculator(driven(&server, &["--allowed-tools", "mcp__calc"]));
    driver.told(initialize(json!({"sdkMcpServers": ["calc"]})));
    driver.send(&super::driving::user("one and two?"));
    let call = driver.until(|line| line["request"]["message"]["method"] == "tools/call");
    driver.ask(json!({"subtype": "interrupt"}));
    let withdrawn = driver.until(|line| line["type"] == "control_cancel_request");
    assert_eq!(withdrawn["request_id"], call["request_id"]);
    assert_eq!(driver.result()["is_error"], true);
    driver.finish().assert_code(0);
}

/// No test: the server that a session starts for its client.
#[test]
fn server() {
    tenon_testkit::serve_mcp_if_asked();
}

#[test]
fn servers_are_started_for_the_client() {
    let script = McpScript::new(&["echo"]);
    let entry = script.command("mcp_in_client::server");
    let server = Server::start([
        reply().call("c1", "mcp__own__echo", json!({"text": "hello"})),
        reply().text("Done."),
    ]);
    let settings = json!({"timeouts": {"mcpReady": "30s"}}).to_string();
    let mut driver =
        driven(&server, &["--settings", &settings, "--allowed-tools", "mcp__own", "--no-session"]);
    driver.told(initialize(json!({"mcpServers": {"own": entry, "dead": {"command": "/no/such/program"}}})));
    assert_eq!(driver.turn("go")["result"], "Done.");
    assert_eq!(server.request(1).tool_result("c1"), "hello");
    let status = driver.told(json!({"subtype": "mcp_status"}));
    assert_eq!(status["status"], json!({"own": "connected", "dead": "failed"}));
    let dead = status["mcpServers"].as_array().unwrap().iter().find(|s| s["name"] == "dead").unwrap();
    assert_eq!(dead["error"], "the program `/no/such/program` was not found");
    driver.finish().assert_code(0);
}

#[test]
fn servers_are_switched_and_connected_anew() {
    let names = |server: &Server, at: usize| -> Vec<String> {
        let request = server.request(at);
        request.tool_names().into_iter().filter(|n| n.starts_with("mcp__")).map(str::to_owned).collect()
    };
    let server = Server::start([reply().text("1"), reply().text("2"), reply().text("3")]);
    let mut driver = calculator(driven(&server, &["--allowed-tools", "mcp__calc"]));
    driver.told(initialize(json!({"sdkMcpServers": ["calc"]})));
    driver.turn("one");
    let off = driver.told(json!({"subtype": "mcp_toggle", "serverName": "calc", "enabled": false}));
    assert_eq!(off["enabled"], false);
    let status = driver.told(json!({"subtype": "mcp_server_status"}));
    assert_eq!(status["status"], json!({"calc": "disabled"}));
    let why = driver.refused(json!({"subtype": "mcp_reconnect", "serverName": "calc"}));
    assert_eq!(why, "the MCP server `calc` is switched off");
    let init = driver.turn("two");
    assert_eq!(init["is_error"], false);
    driver.told(json!({"subtype": "mcp_toggle", "serverName": "calc", "enabled": true}));
    driver.tools.push(("multiply", json!(2)));
    driver.told(json!({"subtype": "mcp_reconnect", "serverName": "calc"}));
    driver.turn("three");
    assert_eq!(names(&server, 0), ["mcp__calc__add"]);
    assert_eq!(names(&server, 1), [""; 0]);
    assert_eq!(names(&server, 2), ["mcp__calc__add", "mcp__calc__multiply"]);
    let why = driver.refused(json!({"subtype": "mcp_toggle", "serverName": "nobody", "enabled": true}));
    assert_eq!(why, "there is no MCP server `nobody`");
    driver.finish().assert_code(0);
}

#[test]
fn agents_of_the_client_can_be_asked() {
    for agents in [
        json!([{"name": "poet", "description": "writes verse", "systemPrompt": "You write verse.", "level": "session"}]),
        json!({"poet": {"description": "writes verse", "prompt": "You write verse.", "model": "inherit"}}),
    ] {
        let server = Server::start([
            reply().call(
                "c1",
                "agent",
                json!({"description": "a verse", "prompt": "Write.", "subagent_type": "poet"}),
            ),
            reply().text("Roses are red."),
            reply().text("It wrote."),
        ]);
        let mut driver = driven(&server, &[]);
        let told = driver.told(initialize(json!({"agents": agents})));
        let poet = json!({"name": "poet", "description": "writes verse"});
        assert!(told["agents"].as_array().unwrap().contains(&poet), "{told}");
        assert_eq!(driver.turn("a poem")["result"], "It wrote.");
        assert!(server.request(0).tool("agent")["description"].as_str().unwrap().contains("writes verse"));
        assert!(server.request(1).messages()[0].to_string().contains("You write verse."));
        assert_eq!(server.request(2).tool_result("c1"), "Roses are red.");
        driver.finish().assert_code(0);
    }
}

#[test]
fn a_greeting_that_cannot_be_honoured_is_refused() {
    let server = Server::start([reply().text("Fine.")]);
    let mut driver = driven(&server, &[]);
    for (wanted, why) in [
        (
            json!({"sdkMcpServers": ["a b", "a.b"]}),
            "the MCP servers `a b` and `a.b` would have tools of the same names",
        ),
        (json!({"sdkMcpServers": ["!"]}), "an MCP server cannot be called `!`"),
        (
            json!({"hooks": {"Nothing": [{"hookCallbackIds": ["h"]}]}}),
            "`hooks` of `initialize`: nothing here is called `Nothing`",
        ),
    ] {
        assert_eq!(driver.refused(initialize(wanted)), why);
    }
    let told = driver.refused(initialize(json!({"mcpServers": {"x": {"type": "sse", "url": "http://x"}}})));
    assert!(told.contains("no longer spoken"), "{told}");
    assert_eq!(driver.turn("still there?")["is_error"], true);
    driver.told(initialize(json!({})));
    assert_eq!(driver.turn("still there?")["result"], "Fine.");
    assert!(driver.questions.is_empty());
    driver.finish().assert_code(0);
}

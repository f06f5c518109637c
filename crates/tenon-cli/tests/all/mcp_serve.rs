//! `tenon mcp serve` as its clients see it: JSON-RPC on stdout and nothing else.

use std::time::Duration;

use tenon_testkit::{Gate, Running, Server, Signal, Tenon, Value, json, reply};

use crate::tenon;

const LONG: Duration = Duration::from_secs(30);
const SCHEMA: &str = r#"{"type":"object","properties":{"risk":{"enum":["low","high"]}},"required":["risk"]}"#;

fn schema() -> Value {
    serde_json::from_str(SCHEMA).unwrap()
}

struct Served(Running);

impl Served {
    fn start(setup: Tenon, server: &Server) -> Served {
        let mut served = Served(setup.server(server).stdin_idle().spawn());
        served.send(json!({"id": 0, "method": "initialize", "params": {
            "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}}));
        let greeting = served.answer(0);
        assert_eq!(greeting["result"]["serverInfo"]["name"], "tenon");
        assert_eq!(greeting["result"]["protocolVersion"], "2025-06-18");
        served.send(json!({"method": "notifications/initialized"}));
        served
    }

    fn send(&mut self, mut message: Value) {
        message["jsonrpc"] = json!("2.0");
        self.0.write_json(&message);
    }

    fn call(&mut self, id: u64, arguments: Value) {
        let meta = json!({"progressToken": format!("p{id}")});
        let params = json!({"name": "run", "arguments": arguments, "_meta": meta});
        self.send(json!({"id": id, "method": "tools/call", "params": params}));
    }

    fn answer(&mut self, id: u64) -> Value {
        self.0.json_where(|message| message["id"] == id)
    }

    /// Its client leaves.
    fn end(mut self) -> tenon_testkit::Run {
        self.0.close_stdin();
        let run = self.0.wait();
        for line in run.json_lines() {
            assert_eq!(line["jsonrpc"], "2.0", "{run}");
        }
        run
    }
}

fn serve() -> Tenon {
    tenon().args(["mcp", "serve"])
}

#[test]
fn a_prompt_and_a_schema_go_in_and_a_payload_comes_out() {
    let server = Server::start([
        reply().call("c1", "list_directory", json!({"path": "."})),
        reply().call("c2", "structured_output", json!({"risk": "low"})),
        reply().text("Just words."),
        reply().call("c3", "structured_output", json!({"risk": "middling"})).forever(),
    ]);
    let mut served = Served::start(serve().args(["--max-schema-retries", "1"]), &server);
    served.send(json!({"id": 1, "method": "tools/list"}));
    let tools = served.answer(1);
    assert_eq!(tools["result"]["tools"][0]["name"], "run");
    assert_eq!(tools["result"]["tools"][0]["inputSchema"]["required"], json!(["prompt"]));

    served.call(2, json!({"prompt": "Rate it.", "schema": schema()}));
    let rated = served.answer(2)["result"].clone();
    assert_eq!(rated["structuredContent"], json!({"risk": "low"}));
    assert_eq!(rated["content"], json!([{"type": "text", "text": "{\"risk\":\"low\"}"}]));
    assert_eq!(rated["isError"], false);

    served.call(3, json!({"prompt": "Talk."}));
    let said = served.answer(3)["result"].clone();
    assert_eq!(
        (&said["content"][0]["text"], &said["structuredContent"]),
        (&json!("Just words."), &Value::Null)
    );

    served.call(4, json!({"prompt": "Rate it.", "schema": schema()}));
    let failed = served.answer(4)["result"].clone();
    assert_eq!(failed["isError"], true);
    assert_eq!(failed["structuredContent"]["error"]["class"], "schema_retries", "{failed}");
    assert!(
        failed["content"][0]["text"].as_str().unwrap().starts_with("error[schema_retries]: "),
        "{failed}"
    );

    let run = served.end();
    run.assert_code(0);
    let steps: Vec<Value> = run
        .json_lines()
        .into_iter()
        .filter(|line| line["method"] == "notifications/progress" && line["params"]["progressToken"] == "p2")
        .map(|line| line["params"]["message"].clone())
        .collect();
    assert!(steps.contains(&json!("list_directory runs")), "{steps:?}");
}

#[test]
fn bad_calls_are_refused_and_the_server_goes_on() {
    let server = Server::start([reply().text("Still here.")]);
    let setup = serve();
    let outside = setup.workspace().parent().unwrap().to_owned();
    let mut served = Served::start(setup.file("sub/a.txt", "x"), &server);
    let cases = [
        (json!({}), "`prompt` must say something"),
        (json!({"prompt": " "}), "`prompt` must say something"),
        (json!({"prompt": 1}), "`prompt` must be a string"),
        (json!({"prompt": "x", "schema": "{}"}), "`schema` must be a JSON Schema object"),
        (json!({"prompt": "x", "cwd": outside}), "`cwd` must be a folder inside"),
        (json!({"prompt": "x", "cwd": ".."}), "`cwd` must be a folder inside"),
        (json!({"prompt": "x", "cwd": "none"}), "`cwd` must be a folder inside"),
        (json!({"prompt": "x", "yolo": true}), "`yolo` is not an argument of `run`"),
    ];
    for (number, (arguments, message)) in (10..).zip(cases) {
        served.call(number, arguments.clone());
        let refused = served.answer(number);
        assert!(
            refused["error"]["message"].as_str().unwrap_or_default().contains(message),
            "{arguments} {refused}"
        );
    }
    // A schema that cannot be a contract is a failed run, with its class.
    served.call(30, json!({"prompt": "x", "schema": {"type": "array"}}));
    let refused = served.answer(30);
    assert_eq!(refused["result"]["structuredContent"]["error"]["class"], "config", "{refused}");
    served.send(json!({"id": 31, "method": "tools/call", "params": {"name": "other"}}));
    assert!(served.answer(31)["error"]["message"].as_str().unwrap().contains("`other`"));
    served.call(32, json!({"prompt": "x", "cwd": "sub"}));
    assert_eq!(served.answer(32)["result"]["content"][0]["text"], "Still here.");
    served.end().assert_code(0);
}

#[test]
fn nobody_is_asked_for_permission() {
    let write = || reply().call("c1", "write_file", json!({"file_path": "new.txt", "content": "x"}));
    for (flags, written) in [(vec![], false), (vec!["--allowed-tools", "write_file"], true)] {
        let server = Server::start([write(), reply().text("Done.")]);
        let mut served = Served::start(serve().args(&flags), &server);
        served.call(1, json!({"prompt": "Write."}));
        served.answer(1);
        let run = served.end();
        assert_eq!(run.workspace().join("new.txt").exists(), written, "{run}");
    }
}

#[test]
fn calls_run_side_by_side_and_one_is_given_up_alone() {
    let gate = Gate::new();
    let server = Server::start([
        reply().text("First.").hold(&gate).when_contains("prompt-aa"),
        reply().text("Never.").hold(&Gate::new()).when_contains("prompt-bb"),
        reply().text("Third.").when_contains("prompt-cc"),
    ]);
    let mut served = Served::start(serve(), &server);
    served.call(1, json!({"prompt": "prompt-aa"}));
    served.call(2, json!({"prompt": "prompt-bb"}));
    served.call(3, json!({"prompt": "prompt-cc"}));
    assert_eq!(served.answer(3)["result"]["content"][0]["text"], "Third.");
    server.wait_for_requests(3, LONG);
    served.send(
        json!({"method": "notifications/cancelled", "params": {"requestId": 2, "reason": "changed my mind"}}),
    );
    server.wait_for_clients_left(1, LONG);
    gate.open();
    assert_eq!(served.answer(1)["result"]["content"][0]["text"], "First.");
    let run = served.end();
    run.assert_code(0);
    assert!(!run.json_lines().iter().any(|line| line["result"]["content"][0]["text"] == "Never."), "{run}");
}

#[test]
fn when_the_client_leaves_or_a_signal_comes_runs_are_stopped() {
    for signal in [None, Some(Signal::Terminate)] {
        let server = Server::start([reply().text("Never.").hold(&Gate::new())]);
        let mut served = Served::start(serve(), &server);
        served.call(1, json!({"prompt": "Wait."}));
        server.wait_for_requests(1, LONG);
        match signal {
            None => {
                served.end().assert_code(0);
            }
            Some(signal) => {
                served.0.signal(signal);
                served.0.wait().assert_code(143);
            }
        }
        server.wait_for_clients_left(1, LONG);
    }
}

#[test]
fn what_cannot_be_served_is_said_on_stderr() {
    for (args, code, message) in [
        (vec!["-p", "x"], 2, "does not take `--prompt`"),
        (vec!["--json-schema", "{}"], 2, "does not take `--json-schema`"),
        (vec!["--record", "x"], 2, "does not take `--record`"),
        (vec!["--cwd", "none"], 42, "is not a folder"),
        (vec!["--settings", "{"], 52, "not valid JSON"),
    ] {
        let run = serve().args(&args).env("OPENAI_API_KEY", "k").run();
        run.assert_code(code);
        assert!(run.stderr.contains(message) && run.stdout.is_empty(), "{args:?} {run}");
    }
    let run = serve().stdin("what is this?\n").run();
    run.assert_code(42);
    assert!(run.stderr.contains("did not speak MCP") && run.stdout.is_empty(), "{run}");
}

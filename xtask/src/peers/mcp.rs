//! MCP with others: servers made with the official packages for TypeScript and Python, over stdio and HTTP, one of
//! them ended in mid-call; and `tenon mcp serve` driven by the official Python client.

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;
use tenon_testkit::{Reply, Run, Server, Tenon, Value, json, reply};

use crate::Failure;
use crate::peers::checks::{self, Check, right};
use crate::peers::node;
use crate::peers::python::{self, Dependencies, Packages};
use crate::peers::script::{READY_LIMIT, Script};
use crate::peers::workspace::{self, Binary};

const EVERYTHING: &[&str] = &["@modelcontextprotocol/server-everything@2026.8.31"];
const PYTHON: Packages =
    Packages { name: "mcp", pins: &["mcp==2.3.0"], dependencies: Dependencies::Installed };
/// A server that works for a while and says so must not be given up.
const SHORT_CALLS: &str = r#"{"timeouts": {"mcpReady": "60s", "mcpStart": "60s", "mcpCall": "1500ms"}}"#;
const POLL: Duration = Duration::from_millis(50);

const CHECKS: &[(&str, Check<Peer>)] = &[
    ("everything over stdio", everything_over_stdio),
    ("everything over HTTP", everything_over_http),
    ("a Python server", python_server),
    ("a Python server that dies in mid-call", dies_in_mid_call),
    ("resources", resources),
    ("`tenon mcp serve` with the Python client", served),
];

pub fn run(binary: &Binary) -> Result<(), Failure> {
    let binary = binary.path()?;
    let modules = node::with("everything", EVERYTHING)?.join("node_modules");
    let python = python::with(&PYTHON)?;
    let everything = modules.join("@modelcontextprotocol/server-everything/dist/index.js");
    let folder = tempfile::Builder::new().prefix("tenon-mcp-").tempdir()?;
    checks::perform(CHECKS, &Peer { binary, everything, python, folder })
}

struct Peer {
    binary: PathBuf,
    everything: PathBuf,
    python: PathBuf,
    folder: TempDir,
}

impl Peer {
    /// A run with one MCP server and a model that says this.
    fn run(&self, server: &Value, script: impl IntoIterator<Item = Reply>) -> (Server, Run) {
        let model = Server::start(script);
        let config = json!({"mcpServers": {"peer": server}}).to_string();
        let run = Tenon::new(&self.binary)
            .server(&model)
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .args(["-p", "Go.", "--yolo", "-o", "stream-json", "--include-partial-messages"])
            .args(["--mcp-config", &config, "--settings", SHORT_CALLS])
            .run();
        (model, run)
    }

    fn everything(&self) -> Value {
        json!({"command": "node", "args": [self.everything]})
    }

    fn python(&self) -> Value {
        json!({"command": self.python, "args": [workspace::script("mcp_server.py")]})
    }
}

/// What it offers, and everything a tool can answer with.
fn use_everything(peer: &Peer, server: &Value) -> Result<String, Failure> {
    let call = |id: &str, tool: &str, input: Value| reply().call(id, &format!("mcp__peer__{tool}"), input);
    let (model, run) = peer.run(
        server,
        [
            call("c1", "echo", json!({"message": "hello"})),
            call("c2", "get-sum", json!({"a": 2, "b": 40})),
            call("c3", "trigger-long-running-operation", json!({"duration": 3, "steps": 6})),
            call("c4", "get-tiny-image", json!({})),
            call("c5", "get-structured-content", json!({"location": "Chicago"})),
            call("c6", "get-resource-links", json!({"count": 2})),
            call("c7", "get-sum", json!({"a": "no number"})),
            reply().text("Done."),
        ],
    );
    let requests = model.requests();
    if run.code != 0 || requests.len() != 8 {
        return Err(Failure::other(format!("{} requests\n{run}", requests.len())));
    }
    let told = |n: usize| requests[n].tool_result(&format!("c{n}"));
    let progress = run
        .json_lines()
        .iter()
        .filter(|line| line["event"]["content"]["type"] == "mcp_tool_progress")
        .count();
    let image = requests[4].body.to_string().contains("data:image/png;base64,");
    let good = told(1).contains("hello")
        && told(2).contains("42")
        && told(3).contains("completed")
        && progress >= 3
        && image
        && told(5).contains("temperature")
        && told(6).contains("[resource ")
        && !told(7).is_empty();
    let seen: Vec<String> = (1..8).map(told).collect();
    right(good, &run, format!("{} tools, {progress} signs of progress", requests[0].tool_names().len()))
        .map_err(|_| Failure::other(format!("image {image}, progress {progress}, told {seen:#?}\n{run}")))
}

fn everything_over_stdio(peer: &Peer) -> Result<String, Failure> {
    use_everything(peer, &peer.everything())
}

fn everything_over_http(peer: &Peer) -> Result<String, Failure> {
    let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
    let log = std::fs::File::create(workspace::target().join("peers").join("everything.log"))?;
    let server = Command::new("node")
        .arg(&peer.everything)
        .arg("streamableHttp")
        .env("PORT", port.to_string())
        .stdin(Stdio::null())
        .stdout(log.try_clone()?)
        .stderr(log)
        .spawn()?;
    let _server = Ended(server);
    let deadline = Instant::now() + READY_LIMIT;
    while std::net::TcpStream::connect(("127.0.0.1", port)).is_err() {
        if Instant::now() > deadline {
            return Err(Failure::other(
                "it does not listen; see `peers/everything.log` in the target folder",
            ));
        }
        std::thread::sleep(POLL);
    }
    use_everything(peer, &json!({"type": "http", "url": format!("http://127.0.0.1:{port}/mcp")}))
}

struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn python_server(peer: &Peer) -> Result<String, Failure> {
    let call = |id: &str, tool: &str, input: Value| reply().call(id, &format!("mcp__peer__{tool}"), input);
    let (model, run) = peer.run(
        &peer.python(),
        [
            call("c1", "add", json!({"a": 2, "b": 3})),
            call("c2", "place", json!({"city": "Oslo"})),
            call("c3", "dot", json!({})),
            call("c4", "count", json!({"to": 20})),
            call("c5", "fail", json!({})),
            reply().text("Done."),
        ],
    );
    let requests = model.requests();
    if run.code != 0 || requests.len() != 6 {
        return Err(Failure::other(format!("{} requests\n{run}", requests.len())));
    }
    let told: Vec<String> = (1..6).map(|n| requests[n].tool_result(&format!("c{n}"))).collect();
    let good = told[0] == "5"
        && told[1].contains("\"height\"")
        && requests[3].body.to_string().contains("data:image/png;base64,")
        && told[3] == "counted to 20"
        && told[4].contains("Error executing tool fail");
    right(good, &run, "numbers, a structure, an image, progress and a failure".to_owned())
        .map_err(|_| Failure::other(format!("told {told:#?}\n{run}")))
}

fn dies_in_mid_call(peer: &Peer) -> Result<String, Failure> {
    let (model, run) = peer.run(
        &peer.python(),
        [
            reply().call("c1", "mcp__peer__die", json!({"code": 9})),
            reply().call("c2", "mcp__peer__add", json!({"a": 1, "b": 1})),
            reply().text("Done."),
        ],
    );
    let requests = model.requests();
    if run.code != 0 || requests.len() != 3 {
        return Err(Failure::other(format!("{} requests\n{run}", requests.len())));
    }
    let (died, back) = (requests[1].tool_result("c1"), requests[2].tool_result("c2"));
    let good = died.contains("exit code 9") && died.contains("may or may not have happened") && back == "2";
    right(good, &run, died.clone()).map_err(|_| Failure::other(format!("{died}\n{back}\n{run}")))
}

fn resources(peer: &Peer) -> Result<String, Failure> {
    let (model, run) = peer.run(
        &peer.python(),
        [
            reply().call("c1", "read_mcp_resource", json!({"server": "peer"})),
            reply().call("c2", "read_mcp_resource", json!({"server": "peer", "uri": "note://one"})),
            reply().text("Done."),
        ],
    );
    let requests = model.requests();
    if run.code != 0 || requests.len() != 3 {
        return Err(Failure::other(format!("{} requests\n{run}", requests.len())));
    }
    let (list, note) = (requests[1].tool_result("c1"), requests[2].tool_result("c2"));
    right(list.contains("note://one") && note.contains("The first note."), &run, note.clone())
}

fn served(peer: &Peer) -> Result<String, Failure> {
    let model = Server::start([
        reply().call("c1", "list_directory", json!({"path": "."})).when_contains("first."),
        reply().call("c2", "structured_output", json!({"risk": "low"})).when_contains("first."),
        reply().text("Second.").hold_until_requests(4).when_contains("second."),
        reply().text("Third.").when_contains("third."),
        reply().text("Never.").delay_before_headers(Duration::from_secs(600)).when_contains("fourth."),
    ]);
    let home = peer.folder.path().join("home");
    std::fs::create_dir_all(&home)?;
    let environment = [
        ("HOME", home.display().to_string()),
        ("OPENAI_BASE_URL", model.base_url()),
        ("OPENAI_API_KEY", "test-key".to_owned()),
        ("OPENAI_MODEL", "test-model".to_owned()),
    ];
    let script = Script::start_with(
        &peer.python,
        "mcp_client",
        [&peer.binary, Path::new(peer.folder.path())],
        environment,
    )?;
    let mut did = json!({});
    for _ in 0..7 {
        let line = script.line_after("did ")?;
        let value: Value = line.parse().map_err(|_| Failure::other(format!("`{line}` is not JSON")))?;
        did[value["name"].as_str().unwrap_or_default()] = value["value"].clone();
    }
    script.line_after("done")?;
    let expected = json!({
        "greeting": "tenon",
        "tools": ["run"],
        "payload": {"text": "{\"risk\":\"low\"}", "structured": {"risk": "low"}, "error": false},
        "side by side": ["Second.", "Third."],
        "given up": true,
    });
    let good = expected.as_object().is_some_and(|all| all.iter().all(|(name, value)| did[name] == *value))
        && did["progress"].as_u64() > Some(1)
        && did["failure"]["error"] == true
        && did["failure"]["structured"]["error"]["class"] == "config";
    // A call that was given up leaves no request behind.
    model.wait_for_clients_left(1, READY_LIMIT);
    if good {
        Ok("greeted, called, side by side, given up".to_owned())
    } else {
        Err(Failure::other(format!("{did:#?}")))
    }
}

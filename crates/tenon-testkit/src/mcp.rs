//! A server of tools that misbehaves to order: JSON-RPC over stdin and stdout, or over HTTP.
//!
//! A program can only be started if there is one. A test binary is one: [`McpScript::command`] starts the
//! test binary again, to run nothing but a test that calls [`serve_mcp_if_asked`]. What a test harness prints
//! around it is noise that a client has to bear anyway.

use std::fs;
use std::io::{self, BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};

use crate::http::{header, read_request};

/// The variable that holds the script, and makes a test binary a server.
const SCRIPT: &str = "TENON_TEST_MCP_SCRIPT";
/// How often a held answer looks for the file it waits for.
const POLL: Duration = Duration::from_millis(5);
/// 1×1 pixel.
pub const TINY_PNG: &str =
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";

/// How a server behaves. Each tool does what it is called: see [`McpScript::new`].
#[derive(Clone, Debug)]
pub struct McpScript(Value);

impl McpScript {
    /// Offers these tools: `echo` (`text`), `env`, `fail`, `image`, `structured`, `progress`, `roots`, `sample`,
    /// `never`, `crash`, `huge` (`bytes`), `noise`, `change` (offers `changed` from then on), `hold` (waits
    /// for the file `path`). Any other name answers with its arguments.
    pub fn new(tools: &[&str]) -> McpScript {
        let tools: Vec<Value> = tools
            .iter()
            .map(|name| json!({"name": name, "description": format!("Does {name}."), "inputSchema": {"type": "object"}}))
            .collect();
        McpScript(json!({"tools": tools}))
    }

    /// Adds a tool as it is written here.
    pub fn raw_tool(mut self, tool: Value) -> McpScript {
        self.0["tools"].as_array_mut().unwrap().push(tool);
        self
    }

    /// Adds a tool that answers with this text, whatever it is asked.
    pub fn answers(mut self, tool: &str, text: &str) -> McpScript {
        self.0["answers"][tool] = json!(text);
        self.raw_tool(json!({"name": tool, "inputSchema": {"type": "object"}}))
    }

    /// What it does first: `hang`, `exit`, `garbage`, or a file to wait for.
    pub fn start(mut self, start: impl Into<String>) -> McpScript {
        self.0["start"] = json!(start.into());
        self
    }

    /// Has resources: `test://one`.
    pub fn resources(mut self) -> McpScript {
        self.0["resources"] = json!(true);
        self
    }

    /// Speaks only the protocol without a greeting.
    pub fn refuses_initialize(mut self) -> McpScript {
        self.0["refuses_initialize"] = json!(true);
        self
    }

    /// Does not end when its input does, nor when it is asked to.
    pub fn stubborn(mut self) -> McpScript {
        self.0["stubborn"] = json!(true);
        self
    }

    /// Writes down every message it gets.
    pub fn log(mut self, file: &Path) -> McpScript {
        self.0["log"] = json!(file);
        self
    }

    /// An entry of `mcpServers` that starts this test binary as the server. `test` is the path of the test that
    /// calls [`serve_mcp_if_asked`].
    pub fn command(&self, test: &str) -> Value {
        json!({
            "command": std::env::current_exe().unwrap(),
            "args": ["--exact", test, "--nocapture", "--test-threads=1", "--include-ignored"],
            "env": {SCRIPT: self.0.to_string()},
        })
    }

    /// Serves over HTTP until the test ends.
    pub fn serve_http(&self) -> McpHttp {
        McpHttp::start(self.clone())
    }
}

/// Becomes the server if this process was started to be one. Returns at once otherwise.
pub fn serve_mcp_if_asked() {
    let Ok(script) = std::env::var(SCRIPT) else { return };
    let script = McpScript(serde_json::from_str(&script).unwrap());
    serve_stdio(&script);
    #[allow(clippy::exit, reason = "the harness would print a verdict into the protocol")]
    std::process::exit(0);
}

fn serve_stdio(script: &McpScript) {
    if script.0["stubborn"] == true {
        ignore_terminate();
    }
    match script.0["start"].as_str() {
        Some("exit") => {
            eprint_line("cannot start: no licence");
            #[allow(clippy::exit, reason = "a server that dies at once")]
            std::process::exit(4);
        }
        Some("hang") => loop {
            std::thread::sleep(Duration::from_secs(60));
        },
        Some("garbage") => say_raw("Welcome to the server!\n{\"not\": \"a message\"}\n[]\n\u{feff}\n"),
        Some(file) => wait_for(Path::new(file)),
        None => {}
    }
    eprint_line("ready");
    // The harness has begun a line of its own.
    say_raw("\n");
    let mut state = State::new(script.clone());
    state.note(&json!({"pid": std::process::id()}));
    let mut lines = io::stdin().lock();
    let mut line = String::new();
    while lines.read_line(&mut line).is_ok_and(|length| length > 0) {
        if let Ok(message) = serde_json::from_str(&line) {
            for answer in state.message(&message) {
                match answer {
                    Out::Message(message) => say_raw(&format!("{message}\n")),
                    Out::Noise(bytes) => say_raw(&format!("{}\n", "#".repeat(bytes))),
                    Out::Crash => {
                        eprint_line("fatal: out of cheese");
                        #[allow(clippy::exit, reason = "a server that dies in a call")]
                        std::process::exit(3);
                    }
                }
            }
        }
        line.clear();
    }
    if script.0["stubborn"] == true {
        loop {
            std::thread::sleep(Duration::from_secs(60));
        }
    }
}

fn ignore_terminate() {
    // SAFETY: sets a disposition that the standard library does not use.
    #[allow(unsafe_code)]
    unsafe {
        libc::signal(libc::SIGTERM, libc::SIG_IGN);
    }
}

fn say_raw(text: &str) {
    // Not `print!`: a test harness would capture it.
    let _ = io::stdout().write_all(text.as_bytes());
    let _ = io::stdout().flush();
}

fn eprint_line(text: &str) {
    let _ = writeln!(io::stderr(), "{text}");
}

fn wait_for(file: &Path) {
    while !file.exists() {
        std::thread::sleep(POLL);
    }
}

enum Out {
    Message(Value),
    /// A line of this many bytes that is no message.
    Noise(usize),
    Crash,
}

/// What the server remembers.
struct State {
    script: McpScript,
    changed: bool,
    /// Calls that wait for an answer of the client.
    waiting: Vec<Value>,
}

impl State {
    fn new(script: McpScript) -> State {
        State { script, changed: false, waiting: Vec::new() }
    }

    fn message(&mut self, message: &Value) -> Vec<Out> {
        self.note(message);
        let id = &message["id"];
        match message["method"].as_str() {
            Some("initialize") if self.script.0["refuses_initialize"] == true => {
                vec![error(id, -32601, "Method not found")]
            }
            Some("initialize") => vec![answer(id, self.greeting())],
            Some("server/discover") => vec![answer(id, self.discovery())],
            Some("tools/list") => vec![answer(id, json!({"tools": self.tools()}))],
            Some("resources/list") => {
                vec![answer(
                    id,
                    json!({"resources": [{"uri": "test://one", "name": "one", "description": "The first"}]}),
                )]
            }
            Some("resources/read") if message["params"]["uri"] == "test://one" => {
                vec![answer(id, json!({"contents": [{"uri": "test://one", "text": "What is in one."}]}))]
            }
            Some("resources/read") => vec![error(id, -32002, "no such resource")],
            Some("tools/call") => self.call(id, &message["params"]),
            Some("ping") => vec![answer(id, json!({}))],
            Some(_) if !id.is_null() => vec![error(id, -32601, "Method not found")],
            Some(_) => Vec::new(),
            // The client answers what we asked.
            None => match self.waiting.pop() {
                Some(call) => {
                    let said =
                        if message["error"].is_object() { &message["error"] } else { &message["result"] };
                    vec![answer(&call, text(&said.to_string()))]
                }
                None => Vec::new(),
            },
        }
    }

    fn note(&self, message: &Value) {
        if let Some(log) = self.script.0["log"].as_str() {
            let mut file = fs::OpenOptions::new().create(true).append(true).open(log).unwrap();
            file.write_all(format!("{message}\n").as_bytes()).unwrap();
        }
    }

    fn greeting(&self) -> Value {
        json!({
            "protocolVersion": "2025-06-18",
            "capabilities": self.capabilities(),
            "serverInfo": {"name": "scripted", "version": "1"},
        })
    }

    fn discovery(&self) -> Value {
        json!({
            "resultType": "complete",
            "supportedVersions": ["2026-07-28"],
            "capabilities": self.capabilities(),
            "serverInfo": {"name": "scripted", "version": "1"},
            "ttlMs": 0,
            "cacheScope": "private",
        })
    }

    fn capabilities(&self) -> Value {
        let mut capabilities = json!({"tools": {"listChanged": true}});
        if self.script.0["resources"] == true {
            capabilities["resources"] = json!({});
        }
        capabilities
    }

    fn tools(&self) -> Vec<Value> {
        let mut tools = self.script.0["tools"].as_array().unwrap().clone();
        if self.changed {
            tools.retain(|tool| tool["name"] != "change");
            tools.push(json!({"name": "changed", "inputSchema": {"type": "object"}}));
        }
        tools
    }

    fn call(&mut self, id: &Value, params: &Value) -> Vec<Out> {
        let arguments = &params["arguments"];
        let token = &params["_meta"]["progressToken"];
        let name = params["name"].as_str().unwrap();
        if let Some(said) = self.script.0["answers"][name].as_str() {
            return vec![answer(id, text(said))];
        }
        match name {
            "echo" => vec![answer(id, text(arguments["text"].as_str().unwrap_or_default()))],
            "env" => {
                let mut names: Vec<String> = std::env::vars().map(|(name, _)| name).collect();
                names.sort();
                vec![answer(id, text(&names.join(" ")))]
            }
            "fail" => {
                vec![answer(
                    id,
                    json!({"content": [{"type": "text", "text": "It did not work."}], "isError": true}),
                )]
            }
            "refuse" => vec![error(id, -32602, "I would rather not")],
            "refuse_at_length" => vec![error(id, -32602, &"no ".repeat(1_000_000))],
            "image" => vec![answer(
                id,
                json!({"content": [
                    {"type": "text", "text": "A dot."}, {"type": "image", "data": TINY_PNG, "mimeType": "image/png"}]}),
            )],
            "structured" => vec![answer(
                id,
                json!({"content": [{"type": "text", "text": "{\"n\":1.5}"}], "structuredContent": {"n": 1.5}}),
            )],
            "progress" => {
                let step = |n: u32| {
                    let params = json!({"progressToken": token, "progress": n, "total": 2, "message": format!("step {n}")});
                    Out::Message(
                        json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": params}),
                    )
                };
                vec![step(1), step(2), answer(id, text("Done."))]
            }
            "roots" => {
                self.waiting.push(id.clone());
                vec![Out::Message(json!({"jsonrpc": "2.0", "id": "ask-1", "method": "roots/list"}))]
            }
            "sample" => {
                self.waiting.push(id.clone());
                let params = json!({"messages": [], "maxTokens": 1});
                vec![Out::Message(
                    json!({"jsonrpc": "2.0", "id": "ask-2", "method": "sampling/createMessage", "params": params}),
                )]
            }
            "never" => Vec::new(),
            "crash" => vec![Out::Crash],
            // Crashes until the file is there.
            "crash_until" => match Path::new(arguments["path"].as_str().unwrap()).exists() {
                true => vec![answer(id, text("Alive."))],
                false => vec![Out::Crash],
            },
            "huge" => {
                let bytes = arguments["bytes"].as_u64().unwrap() as usize;
                vec![answer(id, text(&"x".repeat(bytes)))]
            }
            "noise" => (0..200).map(|_| Out::Noise(5_000)).chain([answer(id, text("Quiet."))]).collect(),
            "hold" => {
                wait_for(Path::new(arguments["path"].as_str().unwrap()));
                vec![answer(id, text("Released."))]
            }
            "change" => {
                self.changed = true;
                let news = json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"});
                vec![Out::Message(news), answer(id, text("Changed."))]
            }
            _ => vec![answer(id, text(&arguments.to_string()))],
        }
    }
}

fn text(text: &str) -> Value {
    json!({"content": [{"type": "text", "text": text}]})
}

fn answer(id: &Value, result: Value) -> Out {
    Out::Message(json!({"jsonrpc": "2.0", "id": id, "result": result}))
}

fn error(id: &Value, code: i32, message: &str) -> Out {
    Out::Message(json!({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": message}}))
}

type Headers = Vec<(String, String)>;

/// A server over HTTP. Each POST is answered with an event stream; a crash closes the connection.
pub struct McpHttp {
    address: String,
    /// The headers of every request so far.
    seen: Arc<Mutex<Vec<Headers>>>,
}

impl McpHttp {
    fn start(script: McpScript) -> McpHttp {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("http://{}/mcp", listener.local_addr().unwrap());
        let seen: Arc<Mutex<Vec<_>>> = Arc::default();
        let state = Arc::new(Mutex::new(State::new(script)));
        let log = Arc::clone(&seen);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (state, log) = (Arc::clone(&state), Arc::clone(&log));
                std::thread::spawn(move || converse(&stream, &state, &log));
            }
        });
        McpHttp { address, seen }
    }

    pub fn url(&self) -> &str {
        &self.address
    }

    /// An entry of `mcpServers`.
    pub fn entry(&self) -> Value {
        json!({"type": "http", "url": self.address})
    }

    /// The values of a header in all requests that had it.
    pub fn header(&self, name: &str) -> Vec<String> {
        let seen = self.seen.lock().unwrap();
        seen.iter().filter_map(|headers| header(headers, name).map(str::to_owned)).collect()
    }
}

fn converse(stream: &TcpStream, state: &Mutex<State>, seen: &Mutex<Vec<Headers>>) {
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    while let Ok(Some(request)) = read_request(&mut reader) {
        seen.lock().unwrap().push(request.headers.clone());
        let status = match request.method.as_str() {
            "POST" => None,
            "DELETE" => Some("200 OK"),
            _ => Some("405 Method Not Allowed"),
        };
        if let Some(status) = status {
            let _ =
                (&*stream).write_all(format!("HTTP/1.1 {status}\r\ncontent-length: 0\r\n\r\n").as_bytes());
            continue;
        }
        let message: Value = serde_json::from_slice(&request.body).unwrap();
        let outs = state.lock().unwrap().message(&message);
        if message["id"].is_null() || message["method"].is_null() {
            let _ = (&*stream).write_all(b"HTTP/1.1 202 Accepted\r\ncontent-length: 0\r\n\r\n");
            continue;
        }
        let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nmcp-session-id: s1\r\nconnection: close\r\n\r\n";
        let _ = (&*stream).write_all(head.as_bytes());
        let hangs = outs.is_empty();
        for out in outs {
            match out {
                Out::Message(message) => {
                    let _ = (&*stream).write_all(format!("event: message\ndata: {message}\n\n").as_bytes());
                }
                Out::Noise(bytes) => {
                    let _ = (&*stream).write_all(format!(": {}\n\n", "#".repeat(bytes)).as_bytes());
                }
                Out::Crash => return,
            }
        }
        if hangs {
            // Until the client leaves.
            let _ = stream.peek(&mut [0]);
        }
        return;
    }
}

/// What a server wrote down, see [`McpScript::log`].
pub fn logged(file: &Path) -> Vec<Value> {
    let text = fs::read_to_string(file).unwrap_or_default();
    text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

//! A client for tests: drives a session, hosts a server of tools as an SDK does, and answers what it is asked.

use tenon_testkit::{Running, Server, Tenon, Value, json};

use super::tenon;

pub const LINES: [&str; 4] = ["--input-format", "stream-json", "--output-format", "stream-json"];

/// A session that waits for its first line.
pub fn driven(server: &Server, flags: &[&str]) -> Driver {
    Driver::start(tenon().server(server).args(LINES).args(flags))
}

pub fn user(text: &str) -> Value {
    json!({"type": "user", "session_id": "", "message": {"role": "user", "content": text}, "parent_tool_use_id": null})
}

pub struct Driver {
    pub client: Running,
    /// Tools of the server that lives in this process, each with what it answers.
    pub tools: Vec<(&'static str, Value)>,
    /// Every line so far.
    pub seen: Vec<Value>,
    /// What was asked of us and answered.
    pub questions: Vec<Value>,
    next: u32,
}

impl Driver {
    pub fn start(setup: Tenon) -> Driver {
        let client = setup.stdin_idle().spawn();
        Driver { client, tools: Vec::new(), seen: Vec::new(), questions: Vec::new(), next: 0 }
    }

    pub fn send(&mut self, line: &Value) {
        self.client.write_json(line);
    }

    /// Sends a control request and waits for its answer.
    #[track_caller]
    pub fn control(&mut self, request: Value) -> Value {
        let id = self.ask(request);
        self.answer(&id)
    }

    pub fn ask(&mut self, request: Value) -> String {
        self.next += 1;
        let id = format!("r{}", self.next);
        self.send(&json!({"type": "control_request", "request_id": id, "request": request}));
        id
    }

    /// The answer to a request, in either envelope.
    #[track_caller]
    pub fn answer(&mut self, id: &str) -> Value {
        let line = self.until(|line| {
            let of = if line["response"]["request_id"].is_null() { line } else { &line["response"] };
            line["type"] == "control_response" && of["request_id"] == id
        });
        line["response"].clone()
    }

    /// The value of a successful answer.
    #[track_caller]
    pub fn told(&mut self, request: Value) -> Value {
        let answer = self.control(request);
        assert_eq!(answer["subtype"], "success", "{answer}");
        if answer["result"].is_null() { answer["response"].clone() } else { answer["result"].clone() }
    }

    /// Why a request was refused.
    #[track_caller]
    pub fn refused(&mut self, request: Value) -> String {
        let answer = self.control(request);
        assert_eq!(answer["subtype"], "error", "{answer}");
        let error = &answer["error"];
        error.as_str().or_else(|| error["message"].as_str()).unwrap_or_default().to_owned()
    }

    /// One turn, to its result.
    #[track_caller]
    pub fn turn(&mut self, text: &str) -> Value {
        self.send(&user(text));
        self.result()
    }

    #[track_caller]
    pub fn result(&mut self) -> Value {
        self.until(|line| line["type"] == "result")
    }

    /// Reads on, answering what is asked of this process, up to the line that passes.
    #[track_caller]
    pub fn until(&mut self, accepts: impl Fn(&Value) -> bool) -> Value {
        loop {
            let line = self.client.json();
            self.seen.push(line.clone());
            if accepts(&line) {
                return line;
            }
            self.answer_question(&line);
        }
    }

    fn answer_question(&mut self, line: &Value) {
        let request = if line["request"].is_null() { line } else { &line["request"] };
        if line["type"] != "control_request" || request["subtype"] != "mcp_message" {
            return;
        }
        self.questions.push(request.clone());
        let answer = self.as_server(&request["message"]);
        self.reply(&line["request_id"], json!({"mcp_response": answer}));
    }

    /// Answers a question of the other side.
    pub fn reply(&mut self, id: &Value, response: Value) {
        self.send(&json!({
            "type": "control_response",
            "response": {"subtype": "success", "request_id": id, "response": response},
        }));
    }

    /// What a server with these tools says.
    pub fn as_server(&self, message: &Value) -> Value {
        let id = &message["id"];
        let result = match message["method"].as_str().unwrap_or_default() {
            "initialize" => json!({
                "protocolVersion": message["params"]["protocolVersion"],
                "capabilities": {"tools": {}}, "serverInfo": {"name": "in-process", "version": "1"},
            }),
            "tools/list" => {
                let tool = |(name, _): &(&str, Value)| json!({"name": name, "description": "", "inputSchema": {"type": "object"}});
                json!({"tools": self.tools.iter().map(tool).collect::<Vec<_>>()})
            }
            "tools/call" => {
                let name = &message["params"]["name"];
                let (_, said) = self.tools.iter().find(|(tool, _)| name == tool).expect("a tool of ours");
                json!({"content": [{"type": "text", "text": said.to_string()}]})
            }
            // As the SDKs do: notifications want a receipt too.
            _ => return json!({"jsonrpc": "2.0", "result": {}, "id": 0}),
        };
        json!({"jsonrpc": "2.0", "id": id, "result": result})
    }

    /// Ends the input and waits for the end.
    pub fn finish(mut self) -> tenon_testkit::Run {
        self.client.close_stdin();
        self.client.wait()
    }
}

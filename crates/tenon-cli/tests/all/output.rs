//! What a run writes, in every format: whole outputs of a success, and every failure that can be provoked.
//!
//! `published` checks lines against the schema that `tenon schema print qwen` prints; the other files of
//! the contract use it too.

use std::sync::LazyLock;

use tenon_testkit::{Gate, Reply, Run, Server, Signal, Tenon, Value, Wire, json, reply, scrub};

use super::{tenon, wire};

pub const FORMATS: [&str; 3] = ["text", "json", "stream-json"];
pub const SCHEMA: &str = r#"{"type":"object","properties":{"risk":{"enum":["low","high"]}},"required":["risk"],"additionalProperties":false}"#;
/// Retries that take no time.
const IMPATIENT: &str = r#"{"retry":{"attempts":2,"baseMs":1}}"#;
const NO_USAGE: &str = r#"{"input_tokens":0,"output_tokens":0,"cache_read_input_tokens":0,"total_tokens":0,"cache_creation_input_tokens":0,"reasoning_tokens":0}"#;
/// Of a failure; with a payload there are also `structured_result` and `structured_output`.
const RESULT_KEYS: [&str; 18] = [
    "type",
    "subtype",
    "uuid",
    "session_id",
    "is_error",
    "duration_ms",
    "duration_api_ms",
    "num_turns",
    "result",
    "usage",
    "permission_denials",
    "stats",
    "total_cost_usd",
    "warnings",
    "error",
    "structured_error",
    "schema_version",
    "cli_version",
];

/// A run with a prompt, whose stderr holds nothing but what went wrong.
pub fn asked(server: &Server) -> Tenon {
    tenon().server_on(server, wire()).args(["-p", "go"])
}

/// The messages of a run, whichever JSON format it wrote, each checked against the published schema.
#[track_caller]
pub fn published(run: &Run) -> Vec<Value> {
    static SCHEMA: LazyLock<jsonschema::Validator> = LazyLock::new(|| {
        let printed = tenon().args(["schema", "print", "qwen"]).run();
        printed.assert_code(0);
        jsonschema::validator_for(&printed.json()).expect("a schema")
    });
    let document = match run.stdout.starts_with('[') {
        true => run.json(),
        false => Value::Array(run.json_lines()),
    };
    for line in document.as_array().expect("an array") {
        if let Err(error) = SCHEMA.validate(line) {
            panic!("{error}\n{line}\n{run}");
        }
    }
    assert!(run.stdout.ends_with('\n') && !run.stdout.ends_with("\n\n"), "{run}");
    document.as_array().expect("an array").clone()
}

/// The last message, which is the only result.
#[track_caller]
pub fn result_of(run: &Run) -> Value {
    let mut lines = published(run);
    let results = lines.iter().filter(|line| line["type"] == "result").count();
    assert_eq!(results, 1, "{run}");
    let last = lines.pop().expect("a line");
    assert_eq!(last["type"], "result", "{run}");
    last
}

fn shown(text: &str) -> String {
    let tools = serde_json::to_string(&[super::TOOLS, &["structured_output"]].concat()).unwrap();
    let text = scrub(text).replace(NO_USAGE, "<no usage>").replace(&tools, "<tools>");
    // It depends on the kernel.
    ["files", "unavailable"]
        .iter()
        .fold(text, |text, state| text.replace(&format!("\"sandbox\":\"{state}\""), "\"sandbox\":<sandbox>"))
}

fn good_run(format: &str) -> Run {
    let server = Server::start([
        reply()
            .reasoning("Hm.")
            .text("Looking.")
            .call("c1", "read_file", json!({"file_path": "a.txt"}))
            .usage(100, 10),
        reply().text("Done.").call("c2", "structured_output", json!({"risk": "low"})).usage(200, 20),
    ]);
    let run = asked(&server).file("a.txt", "hello\n").args(["--json-schema", SCHEMA, "-o", format]).run();
    server.assert_script_done();
    run
}

#[test]
fn text_is_the_payload_and_nothing_else_on_either_stream() {
    let run = good_run("text");
    assert_eq!(
        (run.code, run.stdout.as_str(), run.stderr.as_str()),
        (0, "{\"risk\":\"low\"}\n", ""),
        "{run}"
    );
}

#[test]
fn stream_json_is_one_line_for_each_message_and_the_result_last() {
    let run = good_run("stream-json");
    published(&run);
    assert_eq!(run.stderr, "");
    assert_eq!(shown(&run.stdout), GOOD_STREAM, "{run}");
}

#[test]
fn json_is_the_same_messages_in_one_array() {
    let run = good_run("json");
    let lines: Vec<String> = published(&run).iter().map(|line| format!("{line}\n")).collect();
    assert_eq!(run.stdout, format!("{}\n", run.json()), "one line, and nothing lost by reading it");
    assert_eq!(shown(&lines.concat()), GOOD_STREAM, "{run}");
}

const GOOD_STREAM: &str = concat!(
    r#"{"type":"system","subtype":"init","uuid":"<uuid:1>","session_id":"<uuid:1>","cwd":"<cwd>","tools":<tools>,"mcp_servers":[],"model":"test-model","permission_mode":"default","slash_commands":["chat","clear","compress","help","mcp","memory","model","stats","tools"],"qwen_code_version":"<version>","agents":["general-purpose","explore"],"permissionMode":"default","schema_version":1,"cli_version":"<version>","sandbox":<sandbox>}"#,
    "\n",
    r#"{"type":"assistant","uuid":"<uuid:2>","session_id":"<uuid:1>","parent_tool_use_id":null,"message":{"id":"<uuid:2>","type":"message","role":"assistant","model":"test-model","content":[{"type":"thinking","thinking":"Hm.","signature":""}],"stop_reason":null,"usage":<no usage>}}"#,
    "\n",
    r#"{"type":"assistant","uuid":"<uuid:3>","session_id":"<uuid:1>","parent_tool_use_id":null,"message":{"id":"<uuid:3>","type":"message","role":"assistant","model":"test-model","content":[{"type":"text","text":"Looking."}],"stop_reason":null,"usage":<no usage>}}"#,
    "\n",
    r#"{"type":"assistant","uuid":"<uuid:4>","session_id":"<uuid:1>","parent_tool_use_id":null,"message":{"id":"<uuid:4>","type":"message","role":"assistant","model":"test-model","content":[{"type":"tool_use","id":"c1","name":"read_file","input":{"file_path":"a.txt"}}],"stop_reason":"tool_use","usage":{"input_tokens":100,"output_tokens":10,"cache_read_input_tokens":0,"total_tokens":110,"cache_creation_input_tokens":0,"reasoning_tokens":0}}}"#,
    "\n",
    r#"{"type":"user","uuid":"<uuid:5>","session_id":"<uuid:1>","parent_tool_use_id":null,"message":{"role":"user","content":[{"type":"tool_result","tool_use_id":"c1","is_error":false,"content":"hello\n"}]}}"#,
    "\n",
    r#"{"type":"assistant","uuid":"<uuid:6>","session_id":"<uuid:1>","parent_tool_use_id":null,"message":{"id":"<uuid:6>","type":"message","role":"assistant","model":"test-model","content":[{"type":"text","text":"Done."}],"stop_reason":null,"usage":<no usage>}}"#,
    "\n",
    r#"{"type":"assistant","uuid":"<uuid:7>","session_id":"<uuid:1>","parent_tool_use_id":null,"message":{"id":"<uuid:7>","type":"message","role":"assistant","model":"test-model","content":[{"type":"tool_use","id":"c2","name":"structured_output","input":{"risk":"low"}}],"stop_reason":"tool_use","usage":{"input_tokens":200,"output_tokens":20,"cache_read_input_tokens":0,"total_tokens":220,"cache_creation_input_tokens":0,"reasoning_tokens":0}}}"#,
    "\n",
    r#"{"type":"user","uuid":"<uuid:8>","session_id":"<uuid:1>","parent_tool_use_id":null,"message":{"role":"user","content":[{"type":"tool_result","tool_use_id":"c2","is_error":false,"content":"Accepted: the payload fits the schema."}]}}"#,
    "\n",
    r#"{"type":"result","subtype":"success","uuid":"<uuid:9>","session_id":"<uuid:1>","is_error":false,"duration_ms":<ms>,"duration_api_ms":<ms>,"num_turns":2,"result":"{\"risk\":\"low\"}","usage":{"input_tokens":300,"output_tokens":30,"cache_read_input_tokens":0,"total_tokens":330,"cache_creation_input_tokens":0,"reasoning_tokens":0},"permission_denials":[],"stats":{"models":{"test-model":{"api":{"totalRequests":2,"totalErrors":0,"totalLatencyMs":<ms>},"tokens":{"prompt":300,"candidates":30,"total":330,"cached":0,"thoughts":0,"tool":0,"input":300}}},"tools":{"totalCalls":2,"totalSuccess":2,"totalFail":0,"totalDurationMs":<ms>,"totalDecisions":{"accept":0,"reject":0,"modify":0,"auto_accept":1},"byName":{"read_file":{"count":1,"success":1,"fail":0,"durationMs":<ms>,"decisions":{"accept":0,"reject":0,"modify":0,"auto_accept":1}},"structured_output":{"count":1,"success":1,"fail":0,"durationMs":<ms>,"decisions":{"accept":0,"reject":0,"modify":0,"auto_accept":0}}}},"files":{"totalLinesAdded":0,"totalLinesRemoved":0}},"structured_result":{"risk":"low"},"structured_output":{"risk":"low"},"total_cost_usd":0.0,"warnings":[],"error":null,"structured_error":null,"schema_version":1,"cli_version":"<version>"}"#,
    "\n",
);

#[test]
fn a_run_without_a_schema_has_no_structured_keys() {
    for format in FORMATS {
        let server = Server::start([reply().text("It is ").text("fine.")]);
        let run = asked(&server).args(["-o", format]).run();
        run.assert_code(0);
        if format == "text" {
            assert_eq!((run.stdout.as_str(), run.stderr.as_str()), ("It is fine.\n", ""));
            continue;
        }
        let result = result_of(&run);
        assert_eq!(keys(&result), RESULT_KEYS, "{run}");
        assert_eq!((&result["result"], &result["subtype"]), (&json!("It is fine."), &json!("success")));
        assert_eq!((&result["error"], &result["structured_error"]), (&Value::Null, &Value::Null));
        assert_eq!(published(&run)[0]["tools"].as_array().map(Vec::len), Some(super::TOOLS.len()));
    }
}

#[test]
fn result_text_can_be_left_out_of_a_structured_result_only() {
    for (schema, text) in [(Some(SCHEMA), Value::Null), (None, json!("hello"))] {
        let server = Server::start([match schema {
            Some(_) => reply().call("c", "structured_output", json!({"risk": "low"})),
            None => reply().text("hello"),
        }]);
        let run = asked(&server)
            .args(schema.map(|schema| ["--json-schema", schema]).into_iter().flatten())
            .args(["-o", "stream-json", "--result-text", "off"])
            .run();
        let result = result_of(run.assert_code(0));
        assert_eq!(result["result"], text);
        assert_eq!(result.get("structured_result"), schema.map(|_| json!({"risk": "low"})).as_ref());
    }
}

/// The keys of an object in their order.
fn keys(value: &Value) -> Vec<&str> {
    value.as_object().expect("an object").keys().map(String::as_str).collect()
}

/// A failure, and all that is said about it.
struct Failing {
    class: &'static str,
    code: i32,
    subtype: &'static str,
    message: String,
    hint: Option<&'static str>,
    retryable: Option<bool>,
    http_status: Option<u16>,
    turns: u32,
    script: Vec<Reply>,
    args: Vec<&'static str>,
}

/// Most failures: exit 1, nothing known but the sentence, one turn. `openai` stands for whoever is asked.
fn failing(class: &'static str, message: &str) -> Failing {
    Failing {
        class,
        code: 1,
        subtype: "error_during_execution",
        message: message.replace("`openai`", &format!("`{}`", wire().provider())),
        hint: None,
        retryable: None,
        http_status: None,
        turns: 1,
        script: Vec::new(),
        args: vec!["--json-schema", SCHEMA, "--settings", IMPATIENT],
    }
}

impl Failing {
    fn code(mut self, code: i32) -> Self {
        self.code = code;
        self
    }

    fn subtype(mut self, subtype: &'static str) -> Self {
        self.subtype = subtype;
        self
    }

    fn hint(mut self, hint: &'static str) -> Self {
        self.hint = Some(hint);
        self
    }

    fn http(mut self, status: Option<u16>, retryable: bool) -> Self {
        (self.http_status, self.retryable) = (status, Some(retryable));
        self
    }

    fn turns(mut self, turns: u32) -> Self {
        self.turns = turns;
        self
    }

    fn script(mut self, script: impl IntoIterator<Item = Reply>) -> Self {
        self.script = script.into_iter().collect();
        self
    }

    fn args(mut self, args: &[&'static str]) -> Self {
        self.args.extend(args);
        self
    }

    fn without_schema(mut self) -> Self {
        self.args.drain(..2);
        self
    }

    /// Runs it in one format and compares everything that is said.
    #[track_caller]
    fn check(&self, format: &str) {
        let server = Server::start(self.script.clone());
        let run = asked(&server).args(&self.args).args(["-q", "-o", format]).run();
        run.assert_code(self.code);
        let hint = self.hint.map(|hint| format!("hint: {hint}\n")).unwrap_or_default();
        assert_eq!(scrub(&run.stderr), format!("error[{}]: {}\n{hint}", self.class, self.message), "{run}");
        server.assert_script_done();
        if format == "text" {
            assert_eq!(run.stdout, "", "{run}");
            return;
        }
        assert_eq!(run.stdout.starts_with('['), format == "json", "{run}");
        let result = result_of(&run);
        assert_eq!(keys(&result), RESULT_KEYS, "{run}");
        let said = json!({
            "subtype": result["subtype"],
            "is_error": result["is_error"],
            "num_turns": result["num_turns"],
            "result": result["result"],
            "error": result["error"],
        });
        let expected = json!({
            "subtype": self.subtype,
            "is_error": true,
            "num_turns": self.turns,
            "result": null,
            "error": {
                "code": self.code,
                "class": self.class,
                "message": self.message,
                "retryable": self.retryable,
                "http_status": self.http_status,
                "provider": self.retryable.map(|_| wire().provider()),
                "hint": self.hint,
            },
        });
        assert_eq!(scrub(&said.to_string()), expected.to_string(), "{run}");
    }

    #[track_caller]
    fn check_all(&self) {
        FORMATS.iter().for_each(|format| self.check(format));
    }
}

fn read(name: &str) -> Reply {
    reply().call("c", "read_file", json!({"file_path": name}))
}

fn hand_in(payload: Value) -> Reply {
    reply().call("c", "structured_output", payload)
}

#[test]
fn a_run_that_ends_without_the_contract() {
    let hint = "ask for the final answer in the prompt, allow a reminder with `--schema-nudge 1`, or try another model";
    let plain = |message| failing("contract", message).hint(hint);
    plain("the model answered in plain text instead of calling `structured_output` after 1 turn; it said (11 chars): \"Just prose.\"")
        .script([reply().text("Just prose.")])
        .check_all();
    plain("the model answered in plain text instead of calling `structured_output` after 2 turns; it said (14 chars): \"Looking.\\nDone.\"")
        .script([read("a").text("Looking."), reply().text("Done.")])
        .turns(2)
        .check_all();
    plain("the model gave an empty answer instead of calling `structured_output` after 1 turn")
        .script([reply()])
        .check_all();
}

#[test]
fn a_long_answer_is_shown_in_part() {
    let server = Server::start([reply().text("x".repeat(5000))]);
    let run = asked(&server).args(["--json-schema", SCHEMA]).run();
    run.assert_code(1);
    let said = format!("it said (200+ chars): \"{}\"\n", "x".repeat(200));
    assert!(run.stderr.contains(&said), "{run}");
}

#[test]
fn the_turn_limit() {
    let limit = |message, hint| {
        failing("turns", message)
            .code(53)
            .subtype("error_max_turns")
            .hint(hint)
            .turns(2)
            .args(&["--max-session-turns", "2"])
    };
    let message = "the turn limit was reached: 2 of 2 turns used (`--max-session-turns`)";
    limit(message, "`--json-schema` is active and `structured_output` was never called: check that `structured_output` is not denied by `--exclude-tools` or `permissions.deny`, that the schema can be satisfied, or raise `--max-session-turns`")
        .script([read("a"), read("b")])
        .check_all();
    limit(message, "`--json-schema` is active and `structured_output` was called 2 times without an answer that fits: check that the schema can be satisfied, or raise `--max-session-turns`")
        .script([hand_in(json!({})), hand_in(json!({"risk": 1}))])
        .check_all();
    limit(message, "raise `--max-session-turns`, or narrow the task")
        .without_schema()
        .script([read("a"), read("b")])
        .check_all();
}

#[test]
fn the_limit_of_rejected_answers() {
    failing("schema_retries", "no answer fitted the schema: 2 attempts were rejected (`--max-schema-retries`)")
        .code(53)
        .subtype("error_max_structured_output_retries")
        .hint("the last candidate and its violations are in the result's `structured_error` (`--output-format json`); simplify the schema or raise `--max-schema-retries`")
        .turns(2)
        .args(&["--max-schema-retries", "1"])
        .script([hand_in(json!({})), hand_in(json!({"risk": 1}))])
        .check_all();
}

#[test]
fn the_budgets_of_calls_and_time() {
    failing("budget", "the tool-call budget was reached: 1 of 1 calls used, and the model asked for another (`--max-tool-calls`)")
        .code(55)
        .subtype("error_budget_exceeded")
        .hint("raise `--max-tool-calls`, or narrow the task")
        .turns(2)
        .args(&["--max-tool-calls", "1"])
        .script([read("a"), read("b")])
        .check_all();
    // A second is the shortest wall time there is; the three wait for it together.
    std::thread::scope(|scope| {
        for format in FORMATS {
            scope.spawn(move || {
                failing("budget", "the wall-time budget of 1 s was used up (`--max-wall-time`)")
                    .code(55)
                    .subtype("error_budget_exceeded")
                    .hint("raise `--max-wall-time`, or narrow the task")
                    .args(&["--max-wall-time", "1s"])
                    .script([reply().text("Hm").hang_after_events(2)])
                    .check(format);
            });
        }
    });
}

#[test]
fn what_a_server_answers_instead_of_a_model() {
    let auth = |status| reply().status(status).forever();
    failing("auth", "`openai` answered 401 (unauthorized): scripted status 401")
        .code(41)
        .hint("check the key in the provider's environment variable, and that it belongs to this base URL")
        .http(Some(401), false)
        .script([auth(401)])
        .check_all();
    failing("auth", "`openai` answered 403 (forbidden): scripted status 403")
        .code(41)
        .hint("the key is known but may not do this; check what it allows for the model `test-model`")
        .http(Some(403), false)
        .script([auth(403)])
        .check_all();
    for (class, status, message) in [
        (
            "rate_limited",
            429,
            "`openai` answered 429 (too many requests): scripted status 429 (after 2 attempts)",
        ),
        ("overloaded", 503, "`openai` answered 503 (unavailable): scripted status 503 (after 2 attempts)"),
        (
            "protocol",
            500,
            "`openai` answered 500 (internal server error): scripted status 500 (after 2 attempts)",
        ),
        ("network", 502, "`openai` answered 502 (bad gateway): scripted status 502 (after 2 attempts)"),
    ] {
        failing(class, message)
            .http(Some(status), true)
            .script([reply().status(status).repeat(2)])
            .check_all();
    }
    failing("protocol", "`openai` answered 400 (bad request): scripted status 400")
        .http(Some(400), false)
        .script([reply().status(400)])
        .check_all();
    failing("rate_limited", "`openai` answered 429 (too many requests): slow down; the server asks to wait 3600 s, and 60 s is the most that is waited")
        .http(Some(429), true)
        .script([reply().status(429).json(json!({"error": {"message": "slow down"}})).header("retry-after", "3600")])
        .check_all();
}

#[test]
fn nobody_listens() {
    let address = Server::start([]).origin();
    for format in FORMATS {
        let run = tenon()
            .origin_on(&address, wire())
            .args(["-p", "go", "-q", "--settings", IMPATIENT, "-o", format])
            .run();
        run.assert_code(1);
        assert!(run.stderr.starts_with("error[network]: "), "{run}");
        if format != "text" {
            assert_eq!(result_of(&run)["error"]["class"], "network");
        }
    }
}

#[test]
fn answers_that_are_refused_cut_or_empty() {
    failing("refused", "the model or its provider refused to answer: \"I cannot\"")
        .script([reply().text("I cannot").finish("content_filter")])
        .check_all();
    failing("refused", "the model or its provider refused to answer")
        .script([reply().finish("content_filter")])
        .check_all();
    failing("truncated", "the answer was cut off by the model's output limit")
        .hint("ask for a shorter answer, or use a model with a larger output limit")
        .script([reply().text("It goes on and").finish("length")])
        .check_all();
    failing("protocol", "the model gave an empty answer")
        .hint("try again, or check that the server supports this model's chat template")
        .without_schema()
        .script([reply()])
        .check_all();
}

#[test]
fn the_same_call_again_and_again() {
    let hint = "rephrase the prompt, or check what the tool answers with `--output-format stream-json`";
    failing("repeated_call", "the model made the same call to `read_file` 5 times in a row")
        .hint(hint)
        .turns(5)
        .script([read("a").repeat(5)])
        .check_all();
    failing("repeated_call", "the model made the same call to `structured_output` 5 times in a row")
        .hint(hint)
        .turns(5)
        .script([hand_in(json!({"risk": 1})).repeat(5)])
        .check_all();
}

#[test]
fn a_denied_call_fails_the_run_when_asked_to() {
    let write = reply().call("c", "write_file", json!({"file_path": "a", "content": "b"}));
    failing("tool", "1 tool call was denied: `write_file` (`--fail-on-denied`)")
        .hint("allow the tools with `--allowed-tools`, or drop `--fail-on-denied`")
        .turns(2)
        .args(&["--fail-on-denied"])
        .script([write.clone(), hand_in(json!({"risk": "low"}))])
        .check_all();
    let server = Server::start([write, hand_in(json!({"risk": "low"}))]);
    let run = asked(&server).args(["--json-schema", SCHEMA, "-o", "stream-json"]).run();
    let result = result_of(run.assert_code(0));
    assert_eq!(result["permission_denials"][0]["tool_name"], "write_file");
    assert!(!run.workspace().join("a").exists());
}

#[test]
fn what_fails_before_a_model_is_asked_has_a_result_too() {
    let early =
        |class, message, args: &[&'static str]| failing(class, message).without_schema().turns(0).args(args);
    early("config", "`--json-schema`: at `/type`: the root must accept an object, but `type` is \"array\"", &["--json-schema", r#"{"type":"array"}"#])
        .code(52)
        .hint("the payload is the arguments of a tool call, which are always a JSON object; put other values inside a property")
        .check_all();
    early("input", "`--cwd nowhere` is not a folder", &["-C", "nowhere"]).code(42).check_all();
    for format in FORMATS {
        let run = tenon().args(["-p", "go", "-q", "-o", format]).run();
        run.assert_code(41);
        assert!(run.stderr.starts_with("error[auth]: "), "{run}");
        match format {
            "text" => assert_eq!(run.stdout, ""),
            _ => assert_eq!(result_of(&run)["error"]["code"], 41),
        }
    }
}

#[test]
fn a_usage_error_writes_nothing_to_stdout_in_any_format() {
    for format in FORMATS {
        let run = tenon().args(["-p", "go", "--schema-nudge", "1", "-o", format]).run();
        assert_eq!((run.code, run.stdout.as_str()), (2, ""), "{run}");
        assert_eq!(
            run.stderr,
            "error[usage]: `--schema-nudge` needs `--json-schema`\nhint: `tenon --help` lists the flags\n"
        );
    }
}

#[test]
fn an_interrupted_run_has_a_result_and_130() {
    for format in FORMATS {
        let gate = Gate::new();
        let server = Server::start([reply().text("Hm").hold_after_events(2, &gate)]);
        let mut running = asked(&server).args(["--json-schema", SCHEMA, "-o", format]).spawn();
        server.wait_for_requests(1, std::time::Duration::from_secs(30));
        running.signal(Signal::Interrupt);
        let run = running.wait();
        run.assert_code(130);
        assert!(run.stderr.contains("error[interrupted]: "), "{run}");
        match format {
            "text" => assert_eq!(run.stdout, ""),
            _ => {
                let error = &result_of(&run)["error"];
                assert_eq!((&error["code"], &error["class"]), (&json!(130), &json!("interrupted")));
            }
        }
        gate.open();
    }
}

#[test]
fn half_an_answer_is_asked_for_again_only_where_nobody_saw_it() {
    let half = || reply().text("Half an").text(" answer").cut_after_events(3);
    for format in ["text", "json"] {
        let server = Server::start([half(), hand_in(json!({"risk": "low"}))]);
        let run =
            asked(&server).args(["--json-schema", SCHEMA, "--settings", IMPATIENT, "-q", "-o", format]).run();
        run.assert_code(0);
        server.assert_script_done();
        assert_eq!(run.stderr, "");
        if format == "json" {
            assert!(!run.stdout.contains("Half"), "a broken attempt leaves no trace: {run}");
            assert_eq!(result_of(&run)["stats"]["models"]["test-model"]["api"]["totalErrors"], 1);
        }
    }
    failing("network", "the connection closed in the middle of the answer; half an answer had already been passed on, so the request was not repeated")
        .http(None, true)
        .script([half()])
        .check("stream-json");
    let server = Server::start([half()]);
    let run = asked(&server).args(["-o", "stream-json"]).run();
    assert_eq!(published(&run)[1]["message"]["content"], json!([{"type": "text", "text": "Half an answer"}]));
}

#[test]
fn an_error_in_mid_stream_is_the_servers_own() {
    // Gemini's errors say their status wherever they stand.
    let (said, status) = match wire() {
        Wire::Gemini => ("answered 500 (internal server error)", Some(500)),
        _ => ("reported an error", None),
    };
    for (format, times, end) in [
        ("text", 2, " (after 2 attempts)"),
        ("stream-json", 1, "; half an answer had already been passed on, so the request was not repeated"),
    ] {
        let error = json!({"message": "broken", "type": "server_error"});
        failing("protocol", &format!("`openai` {said}: broken{end}"))
            .http(status, true)
            .script([reply().text("Hm").error_event(error).repeat(times)])
            .check(format);
    }
}

#[test]
fn a_tool_output_is_at_most_60_kib_on_the_wire() {
    let server = Server::start([
        reply().call("c", "run_shell_command", json!({"command": "yes '\u{1}äöü\"' | head -c 300000"})),
        reply().text("done"),
    ]);
    let run = asked(&server).args(["-y", "-o", "stream-json"]).run();
    run.assert_code(0);
    let longest = run.stdout.lines().map(str::len).max();
    assert!(longest.is_some_and(|bytes| bytes < 64 * 1024), "{longest:?}");
    let lines = published(&run);
    let result = lines.iter().find(|line| line["type"] == "user").expect("a tool result");
    let content = result["message"]["content"][0]["content"].as_str().expect("text");
    let bytes = json!(content).to_string().len();
    assert!((59 * 1024..=60 * 1024).contains(&bytes), "{bytes}");
    let (head, tail) = content.split_once("\n[output shortened: ").expect("the marker");
    assert!(head.len() * 3 < tail.len(), "a fifth of it is the beginning");
}

#[test]
fn a_payload_of_more_than_a_mebibyte_arrives_whole() {
    let payload = json!({"text": "Größe \"x\"\n".repeat(80_000)}).to_string();
    assert!(payload.len() > 1024 * 1024);
    for format in FORMATS {
        let server = Server::start([reply().call_raw("c", "structured_output", &payload)]);
        let run = asked(&server).args(["--json-schema", "{}", "-o", format]).run();
        run.assert_code(0);
        match format {
            "text" => assert!(run.stdout == format!("{payload}\n"), "the payload differs"),
            _ => {
                let result = result_of(&run);
                assert!(result["result"] == payload.as_str(), "the text differs");
                let value = result["structured_result"].to_string();
                assert!(value == payload, "the value differs");
            }
        }
    }
}

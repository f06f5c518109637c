//! What a run writes, in every format: whole outputs of a success. Every failure that can be provoked is in
//! `output_failures.rs`.
//!
//! `published` checks lines against the schema that `tenon schema print qwen` prints; the other files of
//! the contract use it too.

use std::sync::LazyLock;

use tenon_testkit::{Run, Server, Tenon, Value, json, reply, scrub};

use super::{tenon, wire};

pub const FORMATS: [&str; 3] = ["text", "json", "stream-json"];
pub const SCHEMA: &str = r#"{"type":"object","properties":{"risk":{"enum":["low","high"]}},"required":["risk"],"additionalProperties":false}"#;
const NO_USAGE: &str = r#"{"input_tokens":0,"output_tokens":0,"cache_read_input_tokens":0,"total_tokens":0,"cache_creation_input_tokens":0,"reasoning_tokens":0}"#;
/// Of a failure; with a payload there are also `structured_result` and `structured_output`.
pub const RESULT_KEYS: [&str; 18] = [
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
pub fn keys(value: &Value) -> Vec<&str> {
    value.as_object().expect("an object").keys().map(String::as_str).collect()
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

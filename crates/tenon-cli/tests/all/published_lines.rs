//! Whatever these tests send as a client is of the published schema of a client's lines, if it is understood at all; and
//! whatever line of a dialect they read is described by that dialect's schema, field by field.

use std::sync::LazyLock;

use tenon_testkit::{Value, strict_schema};
use tenon_wire::input::{ControlRequest, Input, Line, read_line};
use tenon_wire::{Dialect, published_input_schema, published_schema};

use super::tenon;

static SCHEMA: LazyLock<jsonschema::Validator> = LazyLock::new(|| {
    let schema = published_input_schema(Dialect::Qwen).expect("it reads lines");
    jsonschema::validator_for(&schema).expect("a schema")
});

/// Lines that are wrong on purpose, or from the future, are nobody's business.
pub fn check(line: &Value) {
    match read_line(line.to_string().as_bytes()) {
        Err(_) | Ok(None) => return,
        Ok(Some(Line { input: Input::ControlRequest { request, .. }, .. }))
            if matches!(*request, ControlRequest::Unknown { .. }) =>
        {
            return;
        }
        Ok(Some(_)) => {}
    }
    if let Err(error) = SCHEMA.validate(line) {
        panic!("it is read, and not in the published schema: {error}\n{line}");
    }
}

type Written = LazyLock<jsonschema::Validator>;
static QWEN: Written = LazyLock::new(|| strict(Dialect::Qwen));
static CLAUDE: Written = LazyLock::new(|| strict(Dialect::Claude));
static GEMINI: Written = LazyLock::new(|| strict(Dialect::Gemini));
static OPENAI: Written = LazyLock::new(|| strict(Dialect::OpenAi));

fn strict(dialect: Dialect) -> jsonschema::Validator {
    jsonschema::validator_for(&strict_schema(&published_schema(dialect))).expect("a schema")
}

/// Lines of anything else than a dialect (workflows, lists) are nobody's business here.
pub fn check_read(line: &Value) {
    let kind = line["type"].as_str().unwrap_or_default();
    let schemas: &[&Written] = match kind {
        _ if line["object"].as_str().is_some_and(|object| object.starts_with("chat.completion")) => {
            &[&OPENAI]
        }
        _ if line["timestamp"].is_string() && line.get("run_id").is_none() => &[&GEMINI],
        _ if kind.starts_with("result/") => &[&OPENAI, &QWEN],
        "control_request" if line.get("request").is_none() => &[&OPENAI],
        "control_response" if line.get("request_id").is_some() => &[&OPENAI],
        "assistant"
        | "user"
        | "system"
        | "result"
        | "stream_event"
        | "control_request"
        | "control_response"
        | "control_cancel_request" => &[&QWEN, &CLAUDE],
        _ => return,
    };
    if !schemas.iter().any(|schema| schema.is_valid(line)) {
        let errors: Vec<String> = schemas
            .iter()
            .flat_map(|schema| schema.iter_errors(line).map(|error| error.to_string()).collect::<Vec<_>>())
            .collect();
        panic!("a line that no published schema describes: {errors:#?}\n{line}");
    }
}

#[test]
fn the_schema_of_lines_is_printed_for_the_dialects_that_read_some() {
    for dialect in ["qwen", "claude", "openai"] {
        let run = tenon().args(["schema", "print", dialect, "--input"]).run();
        let title = format!("tenon: input in the {dialect} dialect");
        assert_eq!(run.assert_code(0).json()["title"], title.as_str(), "{run}");
    }
    let run = tenon().args(["schema", "print", "gemini", "--input"]).run();
    assert_eq!(
        (run.assert_code(2).stdout.as_str(), run.stderr.lines().next()),
        (
            "",
            Some(
                "error[usage]: the `gemini` dialect has no `--input-format stream-json`, and no lines to describe"
            ),
        )
    );
}

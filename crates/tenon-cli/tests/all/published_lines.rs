//! Whatever these tests send as a client is of the published schema of a client's lines, if it is understood at all.

use std::sync::LazyLock;

use tenon_testkit::Value;
use tenon_wire::input::{ControlRequest, Input, Line, read_line};
use tenon_wire::{Dialect, published_input_schema};

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

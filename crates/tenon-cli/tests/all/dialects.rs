//! One run in every dialect: each line is of its published schema, the last one says how the run ended, and
//! what a dialect cannot do is refused.

use tenon_testkit::{Run, Server, Value, json, reply};

use super::output::{SCHEMA, asked};
use super::tenon;

const DIALECTS: [&str; 4] = ["qwen", "claude", "gemini", "openai"];

/// The dialect's formats with lines or documents of JSON.
fn formats(dialect: &str) -> &'static [&'static str] {
    match dialect {
        "openai" => &["json", "stream-json", "stream-chunk-json"],
        _ => &["json", "stream-json"],
    }
}

/// The lines of a run, each checked against the schema that the dialect publishes.
#[track_caller]
fn lines(dialect: &str, run: &Run) -> Vec<Value> {
    let printed = tenon().args(["schema", "print", dialect]).run();
    let schema = jsonschema::validator_for(&printed.assert_code(0).json()).expect("a schema");
    let lines = run.json_lines();
    for line in &lines {
        if let Err(error) = schema.validate(line) {
            panic!("{dialect}: {error}\n{line}\n{run}");
        }
    }
    lines
}

fn structured(dialect: &str, format: &str) -> Run {
    let server = Server::start([
        reply().text("Looking.").call("c1", "read_file", json!({"file_path": "a.txt"})).usage(100, 10),
        reply().call("c2", "structured_output", json!({"risk": "low"})).usage(200, 20),
    ]);
    let run = asked(&server)
        .file("a.txt", "hello\n")
        .args(["--json-schema", SCHEMA, "--dialect", dialect, "-o", format])
        .run();
    server.assert_script_done();
    run
}

#[test]
fn the_payload_is_where_each_dialect_has_it() {
    for dialect in DIALECTS {
        for format in formats(dialect) {
            let run = structured(dialect, format);
            let lines = lines(dialect, run.assert_code(0));
            let last = lines.last().expect("a line");
            let last =
                if let Value::Array(messages) = last { messages.last().expect("a message") } else { last };
            let payload = json!({"risk": "low"});
            let text = json!(r#"{"risk":"low"}"#);
            let found = match dialect {
                "qwen" => (&last["structured_result"], &last["result"]),
                "claude" => (&last["structured_output"], &last["result"]),
                "gemini" => (&last["structured_result"], &last["response"]),
                _ if *format == "stream-chunk-json" => {
                    // The words of the payload are a piece of their own, before the last line.
                    let said = &lines[lines.len() - 2]["choices"][0]["delta"]["content"];
                    (&last["metadata"]["structured_result"], said)
                }
                _ => (&last["metadata"]["structured_result"], &last["choices"][0]["message"]["content"]),
            };
            assert_eq!(found, (&payload, &text), "{dialect} {format}\n{run}");
        }
        let text = structured(dialect, "text");
        assert_eq!((text.code, text.stdout.as_str()), (0, "{\"risk\":\"low\"}\n"), "{text}");
    }
}

#[test]
fn a_failure_is_the_last_line_and_the_exit_code() {
    for dialect in DIALECTS {
        for format in formats(dialect) {
            let server = Server::start([reply().call("c1", "glob", json!({"pattern": "*"}))]);
            let run =
                asked(&server).args(["--dialect", dialect, "-o", format, "--max-session-turns", "1"]).run();
            let mut lines = lines(dialect, run.assert_code(53));
            let last = lines.pop().expect("a line");
            let last = if let Value::Array(mut all) = last { all.pop().expect("a message") } else { last };
            match dialect {
                "qwen" | "claude" => {
                    assert_eq!(
                        (&last["subtype"], &last["is_error"]),
                        (&json!("error_max_turns"), &json!(true))
                    );
                    assert_eq!(last["error"]["code"], 53);
                }
                "gemini" => {
                    assert_eq!(last["error"]["type"], "MaxSessionTurnsError", "{run}");
                    assert_eq!((last["error"]["code"].as_u64(), last.get("response")), (Some(53), None));
                }
                _ => {
                    assert_eq!(last["error"]["code"], "TENON_TURNS", "{run}");
                    assert_eq!(last["error"]["exit_code"], 53, "{run}");
                }
            }
        }
    }
}

#[test]
fn an_early_failure_speaks_the_dialect_too() {
    for (dialect, place) in [
        ("qwen", "/error/class"),
        ("claude", "/errors/0"),
        ("gemini", "/error/type"),
        ("openai", "/error/code"),
    ] {
        let run = tenon().args(["-p", "go", "--dialect", dialect, "-o", "stream-json"]).run();
        let lines = lines(dialect, run.assert_code(41));
        assert_eq!(lines.len(), 1, "{run}");
        assert!(lines[0].pointer(place).is_some_and(Value::is_string), "{dialect}\n{run}");
    }
}

#[test]
fn claude_shows_all_messages_of_a_document_when_asked() {
    for (flags, is_array) in [(&[][..], false), (&["--verbose"][..], true)] {
        let server = Server::start([reply().text("Hi.")]);
        let run = asked(&server).args(["--dialect", "claude", "-o", "json"]).args(flags).run();
        assert_eq!(run.assert_code(0).json().is_array(), is_array, "{run}");
    }
}

#[test]
fn an_sdk_that_cannot_name_its_dialect_is_known_by_its_variable() {
    let init = |dialect: Option<&str>| {
        let server = Server::start([reply().text("Hi.")]);
        let mut run = asked(&server).env("CLAUDE_CODE_ENTRYPOINT", "sdk-py").args(["-o", "stream-json"]);
        if let Some(dialect) = dialect {
            run = run.env("TENON_DIALECT", dialect);
        }
        run.run().assert_code(0).json_lines()[0].clone()
    };
    assert_eq!(init(None)["claude_code_version"], "2.1.0");
    assert_eq!(init(Some("qwen")).get("claude_code_version"), None);
}

#[test]
fn what_a_dialect_cannot_do_is_refused() {
    let table: &[(&[&str], &str)] = &[
        (
            &["--dialect", "qwen", "-o", "stream-chunk-json"],
            "`--output-format stream-chunk-json` is of the `openai` dialect, and `qwen` was named",
        ),
        (
            &["--dialect", "gemini", "-o", "stream-json", "--include-partial-messages"],
            "the `gemini` dialect has no `--include-partial-messages`",
        ),
        (
            &["--dialect", "openai", "-o", "stream-json", "--include-partial-messages"],
            "the `openai` dialect has no `--include-partial-messages`",
        ),
        (
            &["--dialect", "gemini", "-o", "json", "--result-text", "off"],
            "the `gemini` dialect has no `--result-text`",
        ),
        (&["-o", "json", "--raw-ansi"], "the `qwen` dialect has no `--raw-ansi`"),
    ];
    for (flags, expected) in table {
        let run = tenon().args(["-p", "go"]).args(*flags).run();
        run.assert_code(2);
        assert_eq!(run.stdout, "", "{run}");
        assert!(run.stderr.starts_with(&format!("error[usage]: {expected}\n")), "{run}");
    }
}

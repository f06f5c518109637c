//! Every failure that can be provoked, in every format: its sentence, its class, its exit code, its result. What a run
//! writes that succeeds is in `output.rs`.

use tenon_testkit::{Gate, Reply, Server, Signal, Value, Wire, json, reply, scrub};

use super::output::{FORMATS, RESULT_KEYS, SCHEMA, asked, keys, published, result_of};
use super::{IMPATIENT, tenon, wire};

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

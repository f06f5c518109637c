//! The contract through the binary: which payloads fulfil it and what the model is told. Which schemas are one is
//! in `contract_schemas.rs`, the terminal tool among other calls in `contract_siblings.rs`.

use proptest::prelude::*;
use tenon_testkit::{Reply, Run, Server, Value, Wire, cases, json, reply};

use super::contract_siblings::{owned, results};
use super::output::{FORMATS, SCHEMA, asked, result_of};
use super::{tenon, wire};

pub const TOOL: &str = "structured_output";

pub fn hand_in(id: &str, payload: Value) -> Reply {
    reply().call(id, TOOL, payload)
}

/// One attempt, no second.
fn attempt(schema: &str, arguments: &str) -> Run {
    let server = Server::start([reply().call_raw("c", TOOL, arguments)]);
    asked(&server).args(["--json-schema", schema, "--max-schema-retries", "0", "-o", "stream-json"]).run()
}

/// The payload of a run, or its violations as the model would read them.
pub fn verdict(run: &Run) -> Result<String, Vec<String>> {
    let result = result_of(run);
    match run.code {
        0 => Ok(result["result"].as_str().expect("the payload's text").to_owned()),
        53 => Err(result["structured_error"]["violations"]
            .as_array()
            .expect("violations")
            .iter()
            .map(|v| {
                format!(
                    "{}: {}",
                    v["path"].as_str().expect("a path"),
                    v["message"].as_str().expect("a message")
                )
            })
            .collect()),
        _ => panic!("{run}"),
    }
}

#[test]
fn payloads_come_out_as_the_model_wrote_them() {
    for (arguments, payload) in [
        ("", "{}"),
        ("{}", "{}"),
        (" { \"b\" : 1 ,\n\t\"a\" : [ 1 , 2 ] } ", r#"{"b":1,"a":[1,2]}"#),
        (r#"{"n":[1.0,1e2,1E+2,-0,-0.0,0.10,1.5e-7]}"#, r#"{"n":[1.0,1e2,1E+2,-0,-0.0,0.10,1.5e-7]}"#),
        (r#"{"n":123456789012345678901234567890}"#, r#"{"n":123456789012345678901234567890}"#),
        (r#"{"n":0.1234567890123456789012345678901}"#, r#"{"n":0.1234567890123456789012345678901}"#),
        (r#"{"n":1e400}"#, r#"{"n":1e400}"#),
        (r#"{"ä":"\u00e9 \ud83d\ude00 é 😀"}"#, r#"{"ä":"é 😀 é 😀"}"#),
        (r#"{"s":"\/ \" \\ \n \u0001 \u003c"}"#, r#"{"s":"/ \" \\ \n \u0001 <"}"#),
        (r#"{"zoo":1,"alpha":2,"Ünder":3,"":4}"#, r#"{"zoo":1,"alpha":2,"Ünder":3,"":4}"#),
        (r#""{\"a\": 1}""#, r#"{"a":1}"#),
        (r#"{"a":"{\"b\":1}"}"#, r#"{"a":"{\"b\":1}"}"#),
    ] {
        let run = attempt("{}", arguments);
        assert_eq!(verdict(&run), Ok(payload.to_owned()), "{arguments}");
        let carried = format!(r#""structured_result":{payload},"structured_output":{payload}"#);
        assert!(run.stdout.contains(&carried), "{arguments}\n{run}");
        let server = Server::start([reply().call_raw("c", TOOL, arguments)]);
        let text = asked(&server).args(["--json-schema", "{}"]).run();
        assert_eq!(text.stdout, format!("{payload}\n"));
    }
}

#[test]
fn arguments_that_are_no_object_are_an_attempt() {
    for (arguments, violation, candidate) in [
        ("{\"a\":", "not valid JSON: line 1, column 6: expected a value, found the end of the text", None),
        ("{\"a\":01}", "not valid JSON: line 1, column 7: a number may not start with 0", None),
        (
            "{'a':1}",
            "not valid JSON: line 1, column 2: expected a property name in double quotes, found `'`",
            None,
        ),
        ("{\"a\":1} x", "not valid JSON: line 1, column 9: expected the end of the text, found `x`", None),
        ("```json\n{}\n```", "not valid JSON: line 1, column 1: expected a value, found ```", None),
        (
            "{\"a\":\"\\ud800\"}",
            "not valid JSON: line 1, column 7: `\\ud800` is half of a surrogate pair, not a character",
            None,
        ),
        (
            "{\"a\":1,\"a\":2}",
            "not valid JSON: line 1, column 8: the property `a` is there twice",
            Some(json!({"a": 2})),
        ),
        (
            "{\"a\":{\"b\":1,\"\\u0062\":2}}",
            "not valid JSON: line 1, column 13: the property `b` is there twice",
            Some(json!({"a": {"b": 2}})),
        ),
        (
            "{\"$serde_json::private::Number\":\"77\"}",
            "not valid JSON: line 1, column 2: the property name `$serde_json::private::Number` is reserved",
            None,
        ),
        ("[1]", "must be a JSON object, got array", None),
        ("7", "must be a JSON object, got number", None),
        ("null", "must be a JSON object, got null", None),
        ("\"text\"", "must be a JSON object, got string", None),
        ("\"[1]\"", "must be a JSON object, got string", None),
        ("\"\\\"{}\\\"\"", "must be a JSON object, got string", None),
    ] {
        // There `null` is a call without arguments, and a string is taken for the text of the arguments.
        if wire() == Wire::Gemini && (arguments == "null" || arguments.starts_with('"')) {
            continue;
        }
        let said =
            violation.replacen("not", "the arguments are not", usize::from(violation.starts_with("not")));
        let said = said.replacen("must", "the arguments must", usize::from(violation.starts_with("must")));
        let run = attempt("{}", arguments);
        let expected = json!({
            "attempts": 1,
            "candidate": candidate.unwrap_or_else(|| json!(arguments)),
            "violations": [{"path": "", "message": said}],
        });
        assert_eq!(result_of(run.assert_code(53))["structured_error"], expected, "{arguments}");
        assert_eq!(results(&run), owned(&[("c", true, &said)]));
    }
}

#[test]
fn nothing_is_coerced() {
    let schema = r#"{"properties":{"n":{"type":"integer"},"b":{"type":"boolean"},"s":{"type":"string"},"l":{"type":"array"}}}"#;
    for (payload, violation) in [
        (json!({"n": "5"}), "/n: expected integer, got string"),
        (json!({"b": "true"}), "/b: expected boolean, got string"),
        (json!({"b": 1}), "/b: expected boolean, got integer"),
        (json!({"s": 5}), "/s: expected string, got integer"),
        (json!({"s": null}), "/s: expected string, got null"),
        (json!({"l": "x"}), "/l: expected array, got string"),
        (json!({"n": 1.5}), "/n: expected integer, got number 1.5"),
    ] {
        assert_eq!(verdict(&attempt(schema, &payload.to_string())), Err(vec![violation.to_owned()]));
    }
    assert_eq!(verdict(&attempt(schema, r#"{"n":1.0}"#)), Ok(r#"{"n":1.0}"#.to_owned()));
}

#[test]
fn the_model_is_told_every_violation_in_a_line_of_its_own() {
    let schema = json!({
        "type": "object",
        "properties": {
            "risk_level": {"enum": ["low", "medium", "high"]},
            "passed": {"type": "boolean"},
            "name": {"type": "string", "minLength": 2},
            "items": {"type": "array", "items": {"type": "integer", "minimum": 1}},
            "summary": {},
        },
        "required": ["risk_level", "passed", "summary"],
        "additionalProperties": false,
    });
    let server = Server::start([
        hand_in(
            "c1",
            json!({"risk_level": "hgih", "passed": "yes", "name": "x", "items": [1, 0, "a"], "summry": 1}),
        ),
        hand_in("c2", json!({"risk_level": "high", "passed": true})),
        hand_in("c3", json!({"risk_level": "high", "passed": true, "summary": 1})),
    ]);
    let schema = schema.to_string();
    let run = asked(&server).args(["--json-schema", &schema]).run();
    assert_eq!(run.stdout, "{\"risk_level\":\"high\",\"passed\":true,\"summary\":1}\n");
    let told = [
        r#"/summary: required property is missing"#,
        r#"/risk_level: expected one of "low", "medium", "high", got "hgih""#,
        r#"/passed: expected boolean, got string"#,
        r#"/name: expected at least 2 characters, got 1"#,
        r#"/items/1: expected at least 1, got 0"#,
        r#"/items/2: expected integer, got string"#,
        r#"/summry: unexpected property, did you mean "summary"?"#,
    ];
    let lines = server.request(1).tool_result("c1");
    let mut lines: Vec<&str> = lines.lines().collect();
    lines.sort_unstable();
    let mut told = told.to_vec();
    told.sort_unstable();
    assert_eq!(lines, told);
    assert_eq!(server.request(2).tool_result("c2"), "/summary: required property is missing");
}

#[test]
fn of_many_violations_twenty_are_told_and_the_rest_counted() {
    let server = Server::start([hand_in("c1", json!({"l": vec![1; 30]})), hand_in("c2", json!({"l": []}))]);
    let schema = r#"{"properties":{"l":{"items":{"type":"string"}}}}"#;
    asked(&server).args(["--json-schema", schema]).run().assert_code(0);
    let mut lines: Vec<String> =
        (0..20).map(|item| format!("/l/{item}: expected string, got integer")).collect();
    lines.push("... and 10 more".to_owned());
    assert_eq!(server.request(1).tool_result("c1"), lines.join("\n"));
}

#[test]
fn known_formats_are_checked() {
    let table = [
        ("date-time", "2024-02-29T12:00:00Z", "2024-02-30T12:00:00Z"),
        ("date", "2024-02-29", "2023-02-29"),
        ("time", "12:00:00Z", "25:00:00Z"),
        ("duration", "P1DT2H", "1 day"),
        ("email", "a@example.com", "a at b"),
        ("idn-email", "ä@example.com", "ä"),
        ("hostname", "example.com", "-x-.com"),
        ("ipv4", "127.0.0.1", "256.0.0.1"),
        ("ipv6", "::1", "12345::"),
        ("uri", "https://example.com/a", "example"),
        ("uri-reference", "/a?b", "\\\\x"),
        ("iri", "https://exämple.com/", "ex ämple"),
        ("uuid", "123e4567-e89b-42d3-a456-426614174000", "123e4567"),
        ("json-pointer", "/a/0", "a"),
        ("relative-json-pointer", "1/a", "/a"),
        ("regex", "^a+$", "("),
    ];
    let of = |pick: fn(&(&str, &str, &str)) -> Value| -> Value {
        Value::Object(table.iter().map(|row| (row.0.to_owned(), pick(row))).collect())
    };
    let schema = json!({"properties": of(|row| json!({"format": row.0}))}).to_string();
    let good = of(|row| json!(row.1)).to_string();
    assert_eq!(verdict(&attempt(&schema, &good)), Ok(good));
    let violations =
        table.map(|(format, _, bad)| format!("/{format}: expected the format {format}, got {}", json!(bad)));
    assert_eq!(verdict(&attempt(&schema, &of(|row| json!(row.2)).to_string())), Err(violations.to_vec()));
}

#[test]
fn patterns_mean_what_ecma_262_says() {
    for (pattern, fits, misses) in [
        ("b", "abc", "ac"),
        ("^b", "bc", "abc"),
        (r"^\d+$", "12", "١٢"),
        (r"^\w+$", "ab_1", "ä"),
        (r"^\s$", "\u{a0}", "x"),
        (r"^\p{L}+$", "äß", "1"),
        (r"^a\-b\/c$", "a-b/c", "abc"),
        (r"^[\w.-]+@x$", "a.b-c@x", "a b@x"),
        (r"^.$", "é", "\n"),
        (r"^\u00e9$", "é", "e"),
    ] {
        let schema = json!({"properties": {"s": {"pattern": pattern}}}).to_string();
        let payload = json!({"s": fits}).to_string();
        assert_eq!(verdict(&attempt(&schema, &payload)), Ok(payload), "{pattern}");
        let violation =
            format!("/s: expected a string matching the pattern {pattern}, got {}", json!(misses));
        assert_eq!(
            verdict(&attempt(&schema, &json!({"s": misses}).to_string())),
            Err(vec![violation]),
            "{pattern}"
        );
    }
}

#[test]
fn a_pattern_made_to_hang_does_not() {
    let schema = r#"{"type":"object","properties":{"value":{"type":"string","pattern":"(a+)+b"}}}"#;
    let run = attempt(schema, &json!({"value": "a".repeat(50_000)}).to_string());
    assert!(verdict(&run).is_err());
}

#[test]
fn so_many_retries_are_one_attempt_more() {
    for (flag, attempts) in [("0", 1), ("1", 2), ("3", 4), ("-1", 12), ("", 11)] {
        let script = (0..12).map(|number| hand_in("c", json!({"risk": number})));
        let server = Server::start(script.chain([hand_in("c", json!({"risk": "low"}))]));
        let flags = if flag.is_empty() { vec![] } else { vec!["--max-schema-retries", flag] };
        let run = asked(&server).args(["--json-schema", SCHEMA, "-o", "stream-json"]).args(flags).run();
        if flag == "-1" {
            run.assert_code(0);
            assert_eq!(server.requests().len(), 13);
            continue;
        }
        run.assert_code(53);
        assert_eq!(server.requests().len(), attempts, "{flag}");
        let result = result_of(&run);
        let last = attempts - 1;
        let expected = json!({
            "attempts": attempts,
            "candidate": {"risk": last},
            "violations": [{"path": "/risk", "message": format!("expected one of \"low\", \"high\", got {last}")}],
        });
        assert_eq!(result["structured_error"], expected, "{run}");
        assert_eq!(result["subtype"], "error_max_structured_output_retries");
    }
}

#[test]
fn the_last_attempt_is_told_whatever_ended_the_run() {
    let bad = || hand_in("c", json!({"risk": 1}));
    for (script, flags, code) in [
        (vec![bad(), reply().text("I give up.")], vec![], 1),
        (vec![bad(), reply().status(400)], vec![], 1),
        (vec![bad()], vec!["--max-session-turns", "1"], 53),
        (vec![bad(), reply().text("No").finish("content_filter")], vec![], 1),
    ] {
        let server = Server::start(script);
        let run = asked(&server).args(["--json-schema", SCHEMA, "-o", "json"]).args(flags).run();
        run.assert_code(code);
        let told = &result_of(&run)["structured_error"];
        assert_eq!((&told["attempts"], &told["candidate"]), (&json!(1), &json!({"risk": 1})), "{run}");
    }
}

#[test]
fn a_terminal_call_that_was_cut_is_an_attempt() {
    let cut = |arguments: &str| reply().call_raw("c1", TOOL, arguments).finish("length");
    let server = Server::start([cut(r#"{"risk":"lo"#), hand_in("c2", json!({"risk": "low"}))]);
    let run = asked(&server).args(["--json-schema", SCHEMA]).run();
    assert_eq!((run.code, run.stdout.as_str()), (0, "{\"risk\":\"low\"}\n"), "{run}");
    assert_eq!(
        server.request(1).tool_result("c1"),
        "the answer reached the model's output limit and was cut off in the middle of the arguments; make them shorter"
    );
    // Nothing came of the arguments before the cut: that is no empty payload, unless calls come whole.
    if wire().sends_pieces_of_calls() {
        let server = Server::start([cut(""), hand_in("c2", json!({"a": 1}))]);
        let run = asked(&server).args(["--json-schema", "{}"]).run();
        assert_eq!((run.code, run.stdout.as_str()), (0, "{\"a\":1}\n"), "{run}");
        assert_eq!(server.request(1).tool_result("c1"), "the answer was cut off before the arguments began");
    }
    let server = Server::start([cut(r#"{"risk":"lo"#)]);
    let run = asked(&server).args(["--json-schema", SCHEMA, "--max-schema-retries", "0", "-o", "json"]).run();
    assert_eq!(result_of(run.assert_code(53))["structured_error"]["attempts"], 1);
    // The same place again is the limit's doing, not the model's: it is not called a repeated call.
    let server = Server::start((0..11).map(|_| cut(r#"{"risk":"lo"#)));
    let run = asked(&server).args(["--json-schema", SCHEMA]).run();
    let told = "hint: the last answer was cut off by the model's output limit: ask for a shorter answer, or use a model with a larger output limit";
    assert!(run.assert_code(53).stderr.contains(told), "{run}");
}

#[test]
fn what_cannot_go_with_a_schema_is_a_usage_error() {
    let headless = "only a headless run ends with the first accepted answer";
    for (flags, with, why) in [
        (vec!["-i", "go"], "--prompt-interactive (-i)", headless),
        (vec!["--prompt-interactive", "go"], "--prompt-interactive (-i)", headless),
        (
            vec!["-p", "go", "--input-format", "stream-json", "-o", "stream-json"],
            "--input-format stream-json",
            "the first accepted answer ends the run, and a session has many turns",
        ),
        (vec!["-p", "go", "--acp"], "--acp", headless),
        (vec!["-p", "go", "--experimental-acp"], "--acp", headless),
    ] {
        let run = tenon().args(["--json-schema", SCHEMA]).args(&flags).run();
        let said = format!(
            "error[usage]: `--json-schema` cannot be used with `{with}`: {why}\nhint: `tenon --help` lists the flags\n"
        );
        assert_eq!((run.code, run.stdout.as_str(), run.stderr.as_str()), (2, "", said.as_str()), "{flags:?}");
    }
    let run = tenon().args(["--json-schema", SCHEMA]).run();
    assert_eq!((run.code, run.stdout.as_str()), (42, ""), "an empty stdin is missing input: {run}");
}

#[test]
fn a_prompt_is_a_flag_words_or_stdin() {
    for (flags, stdin, prompt) in [
        (vec!["-p", "go on"], "", "go on"),
        (vec!["go", "on"], "", "go on"),
        (vec![], "from stdin\n", "from stdin\n"),
        (vec!["-p", "Rate it."], "a diff\n", "a diff\n\nRate it."),
    ] {
        let server = Server::start([hand_in("c", json!({"risk": "low"}))]);
        let run =
            tenon().server_on(&server, wire()).stdin(stdin).args(["--json-schema", SCHEMA]).args(flags).run();
        assert_eq!((run.code, run.stdout.as_str()), (0, "{\"risk\":\"low\"}\n"), "{run}");
        assert_eq!(server.request(0).user_text(), prompt);
    }
}

#[test]
fn prose_is_discarded_in_text_and_shown_in_json() {
    for format in FORMATS {
        let server = Server::start([reply().text("Thinking aloud.").call("c", TOOL, json!({"risk": "low"}))]);
        let run = asked(&server).args(["--json-schema", SCHEMA, "-o", format, "--verbose"]).run();
        run.assert_code(0);
        assert!(!run.stderr.contains("aloud") && !run.stderr.contains("low"), "{run}");
        assert_eq!(run.stdout.contains("aloud"), format != "text", "{run}");
    }
}

#[test]
fn a_payload_is_kept_nowhere_on_disk() {
    let server = Server::start([
        hand_in("c1", json!({"secret": "marker-one"})),
        hand_in("c2", json!({"risk": "low", "note": "marker-two"})),
    ]);
    let schema = r#"{"properties":{"note":{"type":"string"}},"required":["risk"]}"#;
    let run = asked(&server).args(["--json-schema", schema, "--verbose"]).run();
    run.assert_code(0);
    assert!(!run.stderr.contains("marker"), "{run}");
    let found = std::process::Command::new("grep")
        .args(["-rl", "marker-"])
        .arg(run.tenon_home())
        .arg(run.workspace())
        .output();
    assert_eq!(String::from_utf8_lossy(&found.expect("grep").stdout), "");
}

/// Any JSON value as compact text: every number form, any text, keys in any order, none twice.
fn json_text() -> impl Strategy<Value = String> {
    let string = any::<String>().prop_map(|text| json!(text).to_string());
    let number = "-?(0|[1-9][0-9]{0,30})(\\.[0-9]{1,20})?([eE][+-]?[0-9]{1,3})?";
    let leaf = prop_oneof![Just("null".to_owned()), Just("true".to_owned()), number, string];
    leaf.prop_recursive(4, 24, 5, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(|items| format!("[{}]", items.join(","))),
            object(inner),
        ]
    })
}

fn object(value: impl Strategy<Value = String>) -> impl Strategy<Value = String> {
    prop::collection::vec((any::<String>(), value), 0..5).prop_map(|members| {
        let mut seen = std::collections::HashSet::new();
        let members: Vec<String> = members
            .into_iter()
            .filter(|(key, _)| seen.insert(key.clone()))
            .map(|(key, value)| format!("{}:{value}", json!(key)))
            .collect();
        format!("{{{}}}", members.join(","))
    })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(cases(16)) })]

    #[test]
    fn prop_any_object_in_any_pieces_comes_out_as_it_went_in(
        payload in object(json_text()),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..12),
        bytes in 1_usize..4000,
    ) {
        let chars: Vec<char> = payload.chars().collect();
        let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(chars.len())).collect();
        cuts.push(chars.len());
        cuts.sort_unstable();
        let mut deltas = vec![json!({"index": 0, "id": "c", "type": "function", "function": {"name": TOOL, "arguments": ""}})];
        let mut from = 0;
        for to in cuts {
            let piece: String = chars[from..to].iter().collect();
            deltas.push(json!({"index": 0, "function": {"arguments": piece}}));
            from = to;
        }
        let server = Server::start([reply().call_deltas(deltas).chunk_by(bytes)]);
        let run = asked(&server).args(["--json-schema", "{}"]).run();
        prop_assert_eq!((run.code, &run.stdout), (0, &format!("{payload}\n")), "{}", run);
    }
}

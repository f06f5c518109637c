//! The contract through the binary: which schemas are one, which payloads fulfil it, what the model is told,
//! and what happens around the terminal tool.

use proptest::prelude::*;
use tenon_testkit::{Reply, Run, Server, Tenon, Value, Wire, cases, json, reply};

use super::output::{FORMATS, SCHEMA, asked, result_of};
use super::{tenon, wire};

const TOOL: &str = "structured_output";

fn hand_in(id: &str, payload: Value) -> Reply {
    reply().call(id, TOOL, payload)
}

/// One attempt, no second.
fn attempt(schema: &str, arguments: &str) -> Run {
    let server = Server::start([reply().call_raw("c", TOOL, arguments)]);
    asked(&server).args(["--json-schema", schema, "--max-schema-retries", "0", "-o", "stream-json"]).run()
}

/// The payload of a run, or its violations as the model would read them.
fn verdict(run: &Run) -> Result<String, Vec<String>> {
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

/// What `schema check` says (stdout, then hints and warnings), and that a run agrees.
#[track_caller]
fn checked(program: &Tenon, schema: &str) -> (i32, String, String) {
    let check = program.clone().args(["schema", "check", schema]).run();
    // Without a key an accepted schema gets as far as the missing key.
    let run = program.clone().args(["-p", "go", "-q", "--json-schema", schema]).run();
    match check.code {
        0 => assert_eq!((run.code, run.stdout.as_str()), (41, ""), "{schema}\n{run}"),
        52 => {
            assert_eq!((run.code, run.stdout.as_str()), (52, ""), "{schema}\n{run}");
            let said = check.stdout.replacen("not a contract: ", "error[config]: `--json-schema`: ", 1);
            assert_eq!(run.stderr, format!("{said}{}", check.stderr), "{schema}");
        }
        _ => panic!("{check}"),
    }
    // What providers are sent follows an accepted schema.
    let said = match check.code {
        0 => check.stdout.split_inclusive('\n').next().unwrap_or_default().to_owned(),
        _ => check.stdout,
    };
    (check.code, said, check.stderr)
}

#[track_caller]
fn refused(schema: &str) -> (String, String) {
    let (code, said, hint) = checked(&tenon(), schema);
    assert_eq!(code, 52, "{schema}: {said}");
    (said.trim_start_matches("not a contract: ").to_owned(), hint)
}

#[test]
fn roots_that_can_never_be_an_object_are_refused() {
    for (schema, reason) in [
        (r#"{"type":"array"}"#, "at `/type`: the root must accept an object, but `type` is \"array\""),
        (
            r#"{"type":["string","null"]}"#,
            "at `/type`: the root must accept an object, but `type` is [\"string\",\"null\"]",
        ),
        (r#"{"const":5}"#, "at `/const`: the root must accept an object, but `const` is 5"),
        (r#"{"enum":["a",1]}"#, "at `/enum`: the root must accept an object, but `enum` holds no object"),
        (
            r#"{"anyOf":[{"type":"string"},false]}"#,
            "at `/anyOf`: the root must accept an object, but no branch of `anyOf` does",
        ),
        (
            r#"{"oneOf":[{"const":1}]}"#,
            "at `/oneOf`: the root must accept an object, but no branch of `oneOf` does",
        ),
        (
            r#"{"allOf":[{"type":"object"},false]}"#,
            "at `/allOf/1`: the root must accept an object, but `false` accepts nothing",
        ),
        (
            r#"{"allOf":[{"type":"string"}]}"#,
            "at `/allOf/0/type`: the root must accept an object, but `type` is \"string\"",
        ),
        (
            r#"{"not":{"type":"object"}}"#,
            "at `/not`: the root must accept an object, but `not` {\"type\":\"object\"} excludes every object",
        ),
        (r#"{"not":{}}"#, "at `/not`: the root must accept an object, but `not` {} excludes every object"),
        (
            r#"{"not":true}"#,
            "at `/not`: the root must accept an object, but `not` true excludes every object",
        ),
        (
            r#"{"if":true,"then":{"type":"string"}}"#,
            "at `/then/type`: the root must accept an object, but `type` is \"string\"",
        ),
        (
            r#"{"if":false,"else":{"type":"string"}}"#,
            "at `/else/type`: the root must accept an object, but `type` is \"string\"",
        ),
    ] {
        let hint = "hint: the payload is the arguments of a tool call, which are always a JSON object; put other values inside a property\n";
        assert_eq!(refused(schema), (format!("{reason}\n"), hint.to_owned()), "{schema}");
    }
    for (schema, reason) in [
        (r#"{"enum":[]}"#, "at `/enum`: an empty `enum` accepts nothing"),
        (r#"{"anyOf":[]}"#, "at `/anyOf`: `anyOf` needs at least one schema"),
        (r#"{"oneOf":[]}"#, "at `/oneOf`: `oneOf` needs at least one schema"),
        ("true", "a contract describes an object, so its schema cannot be a boolean"),
        ("false", "a contract describes an object, so its schema cannot be a boolean"),
        ("[]", "a schema is a JSON object, got array"),
        ("5", "a schema is a JSON object, got integer"),
        (r#""{}""#, "a schema is a JSON object, got string"),
        ("null", "a schema is a JSON object, got null"),
    ] {
        assert_eq!(refused(schema).0, format!("{reason}\n"), "{schema}");
    }
}

#[test]
fn roots_that_some_object_may_fit_are_contracts() {
    for schema in [
        "{}",
        r#"{"type":"object"}"#,
        r#"{"type":["object","null"]}"#,
        r#"{"const":{"a":1}}"#,
        r#"{"enum":[1,{"a":1}]}"#,
        r#"{"anyOf":[{"type":"string"},{"type":"object"}]}"#,
        r#"{"oneOf":[true]}"#,
        r#"{"not":{"type":"object","required":["a"]}}"#,
        r#"{"not":{"anyOf":[{"type":"object"}]}}"#,
        r#"{"if":{"type":"object"},"then":{"type":"string"}}"#,
        r#"{"if":true,"then":{"type":"object"},"else":{"type":"string"}}"#,
        r#"{"required":["a"]}"#,
        r##"{"anyOf":[{"$ref":"#/$defs/s"}],"$defs":{"s":{"type":"string"}}}"##,
        r##"{"oneOf":[{"$ref":"#/$defs/s"}],"$defs":{"s":{"type":"string"}}}"##,
        r##"{"allOf":[{"$ref":"#/$defs/o"}],"$defs":{"o":{"type":"object","properties":{"name":{"type":"string"}}}}}"##,
    ] {
        let (code, said, hint) = checked(&tenon(), schema);
        assert_eq!((code, said.as_str(), hint.as_str()), (0, "ok: a contract (2020-12)\n", ""), "{schema}");
    }
}

#[test]
fn a_root_reference_is_answered_with_a_schema_that_works() {
    for schema in [
        r##"{"$ref":"#/$defs/o","$defs":{"o":{"type":"object"}}}"##,
        r##"{"type":"object","$ref":"#/$defs/o","$defs":{"o":{"type":"object","required":["a"]}}}"##,
    ] {
        let (said, hint) = refused(schema);
        assert_eq!(said, "at `/$ref`: the root of the schema cannot be a `$ref`\n");
        let form = hint.strip_prefix("hint: wrap it in `allOf`, which means the same: ").expect("the form");
        let (code, said, _) = checked(&tenon(), form.trim());
        assert_eq!(code, 0, "{form}: {said}");
    }
}

#[test]
fn a_schema_is_read_from_the_argument_or_a_regular_file() {
    let just_fits = format!("{}{{}}", " ".repeat(4 * 1024 * 1024 - 2));
    let program = tenon()
        .file("s.json", SCHEMA)
        .file("bom.json", format!("\u{feff}{SCHEMA}"))
        .file("fits.json", &just_fits)
        .file("large.json", format!("{just_fits} "))
        .file("dir/x", "")
        .file("latin1.json", b"{\"title\":\"\xe4\"}")
        .file("key.pem", "-----BEGIN SECRET-----");
    std::fs::write(program.home().join("h.json"), SCHEMA).expect("a file in the home");
    let made = std::process::Command::new("mkfifo").arg(program.workspace().join("pipe")).status();
    assert!(made.expect("mkfifo").success());
    let absolute = format!("@{}", program.workspace().join("s.json").display());
    for argument in
        [SCHEMA, "@s.json", "@./s.json", "@dir/../s.json", "@~/h.json", "@bom.json", "@fits.json", &absolute]
    {
        assert_eq!(checked(&program, argument).0, 0, "{argument}");
    }
    for (argument, said) in [
        ("", "the schema is empty"),
        ("@", "no file is named after `@`"),
        ("@-", "`@-` cannot be read: standard input holds the prompt"),
        ("@none.json", "`none.json` cannot be read: No such file or directory (os error 2)"),
        ("@dir", "`dir` is not a regular file"),
        ("@pipe", "`pipe` is not a regular file"),
        ("@/dev/zero", "`/dev/zero` is not a regular file"),
        ("@latin1.json", "`latin1.json` is not text in UTF-8"),
        ("@large.json", "`large.json` has 4194305 bytes, and a schema may have 4194304"),
        ("@key.pem", "the content of `key.pem` is not valid JSON"),
        ("{\"a\":\n 1,}", "the schema is not valid JSON: line 2, column 4: a comma before `}` is not JSON"),
    ] {
        let (code, out, _) = checked(&program, argument);
        assert_eq!((code, out), (52, format!("not a contract: {said}\n")), "{argument}");
    }
    // `schema check` takes a bare path; in a run it may as well be JSON with a mistake in it.
    program.clone().args(["schema", "check", "s.json"]).run().assert_code(0);
    let run = program.args(["-p", "go", "--json-schema", "s.json"]).run();
    assert_eq!(
        (run.code, run.stderr.as_str()),
        (
            52,
            "error[config]: `--json-schema`: the schema is not valid JSON: line 1, column 1: expected a value, found `s`\nhint: a schema in a file is named with `@`, such as `@schema.json`\n"
        )
    );
}

#[test]
fn a_schema_file_is_found_from_where_tenon_was_started() {
    let server = Server::start([hand_in("c", json!({"risk": "low"}))]);
    let run = asked(&server)
        .file("s.json", SCHEMA)
        .file("sub/x", "")
        .args(["-C", "sub", "--json-schema", "@s.json"])
        .run();
    assert_eq!((run.code, run.stdout.as_str()), (0, "{\"risk\":\"low\"}\n"), "{run}");
}

#[test]
fn drafts_are_known_by_their_address() {
    for (uri, name) in [
        ("https://json-schema.org/draft/2020-12/schema", "2020-12"),
        ("https://json-schema.org/draft/2019-09/schema", "2019-09"),
        ("http://json-schema.org/draft-07/schema#", "draft-07"),
        ("http://json-schema.org/draft-06/schema#", "draft-06"),
        ("http://json-schema.org/draft-04/schema#", "draft-04"),
    ] {
        let schema = json!({"$schema": uri, "type": "object"}).to_string();
        assert_eq!(checked(&tenon(), &schema), (0, format!("ok: a contract ({name})\n"), String::new()));
    }
    let (said, hint) = refused(r#"{"$schema":"https://example.com/mine"}"#);
    assert_eq!(said, "at `/$schema`: `https://example.com/mine` is not a known draft of JSON Schema\n");
    assert!(hint.contains("draft/2020-12/schema") && hint.contains("draft-04"), "{hint}");
}

#[test]
fn what_a_validator_would_ignore_is_refused() {
    let draft07 = |rest: &str| format!(r#"{{"$schema":"http://json-schema.org/draft-07/schema#",{rest}}}"#);
    let property = |schema: &str| format!(r#"{{"properties":{{"a":{schema}}}}}"#);
    let fetch = "copy what it refers to into `$defs` and refer to it as `#/$defs/…`";
    for (schema, said, hint) in [
        (
            r#"{"type":"object","propertees":{}}"#.to_owned(),
            "at `/propertees`: unknown keyword `propertees`, did you mean `properties`?",
            "",
        ),
        (
            property(r#"{"tipe":"string"}"#),
            "at `/properties/a/tipe`: unknown keyword `tipe`, did you mean `type`?",
            "",
        ),
        (
            property(r#"{"type":"strin"}"#),
            "at `/properties/a/type`: `strin` is not a type, did you mean `string`?",
            "",
        ),
        (
            r#"{"dependencies":{"a":["b"]}}"#.to_owned(),
            "at `/dependencies`: `dependencies` is not a keyword of 2020-12 (2020-12 is meant without `$schema`); its successor is `dependentRequired` or `dependentSchemas`",
            "to keep the schema in draft-07, add `\"$schema\": \"http://json-schema.org/draft-07/schema\"`",
        ),
        (
            draft07(r#""dependentRequired":{"a":["b"]}"#),
            "at `/dependentRequired`: `dependentRequired` came with 2019-09, after draft-07; in draft-07 it is `dependencies`",
            "to keep the schema in 2019-09, change `$schema` to `https://json-schema.org/draft/2019-09/schema`",
        ),
        (
            draft07(r##""properties":{"a":{"$ref":"#/definitions/a","maximum":3}},"definitions":{"a":{}}"##),
            "at `/properties/a`: `maximum` has no effect beside `$ref` in draft-07",
            "write `{\"allOf\":[{\"$ref\":\"#/definitions/a\"}],\"maximum\":3}`",
        ),
        (
            property(r#"{"$ref":"https://example.com/s.json"}"#),
            "at `/properties/a/$ref`: `https://example.com/s.json` is outside this schema, and references are not fetched",
            fetch,
        ),
        (
            property(r#"{"$ref":"other.json"}"#),
            "at `/properties/a/$ref`: `other.json` is outside this schema, and references are not fetched",
            fetch,
        ),
        (
            property(r##"{"$ref":"#/$defs/none"}"##),
            "at `/properties/a/$ref`: `#/$defs/none` leads to nothing in this schema",
            "",
        ),
        (
            property(r#"{"pattern":"(?=a)b"}"#),
            "at `/properties/a/pattern`: the pattern `(?=a)b` uses look-ahead, which the linear-time engine cannot express",
            "write it without look-around, or split the condition over several `allOf` patterns",
        ),
        (
            property(r#"{"pattern":"(a)\\1"}"#),
            "at `/properties/a/pattern`: the pattern `(a)\\1` uses a back-reference, which the linear-time engine cannot express",
            "",
        ),
        (
            property(r#"{"pattern":"((a{1000}){1000}){1000}"}"#),
            "at `/properties/a/pattern`: the pattern `((a{1000}){1000}){1000}` is too large once its repetitions are written out",
            "use smaller repetition counts, or `maxLength` for the length",
        ),
        (
            property(r#"{"pattern":"("}"#),
            "at `/properties/a/pattern`: the pattern `(` opens a group that is not closed",
            "",
        ),
        (
            r#"{"a":1,"a":2}"#.to_owned(),
            "the schema is not valid JSON: line 1, column 8: the property `a` is there twice",
            "",
        ),
    ] {
        let hint = if hint.is_empty() { String::new() } else { format!("hint: {hint}\n") };
        assert_eq!(refused(&schema), (format!("{said}\n"), hint), "{schema}");
    }
}

#[test]
fn what_constrains_nothing_passes_with_a_warning() {
    for (schema, warning) in [
        (
            r#"{"properties":{"propertees":{},"x":{"enum":[{"propertees":1}],"const":{"tipe":1},"default":{"tipe":1},"examples":[{"tipe":1}]}},"x-mine":1}"#,
            "",
        ),
        (
            r#"{"properties":{"a":{"nullable":true,"example":1}},"discriminator":{}}"#,
            "`discriminator`, `example`, `nullable` do not constrain the value and are only passed on; to allow null, write `\"type\": [\"string\", \"null\"]`",
        ),
        (r#"{"properties":{"a":{"format":"iban"}}}"#, "unknown format `iban` is not checked"),
        (r#"{"if":{"required":["a"]}}"#, "`if` at `(root)` has no effect without `then` or `else`"),
        (r#"{"then":{"required":["a"]}}"#, "`then` at `(root)` has no effect without `if`"),
    ] {
        let (code, _, stderr) = checked(&tenon(), schema);
        let line = if warning.is_empty() { String::new() } else { format!("warning: {warning}\n") };
        assert_eq!((code, &stderr), (0, &line), "{schema}");
        // A run says it once, on stderr and in the result.
        let server = Server::start([hand_in("c", json!({"a": "x"}))]);
        let run = asked(&server).args(["--json-schema", schema, "-o", "stream-json"]).run();
        let line = line.replacen("warning: ", "warning: `--json-schema`: ", 1);
        assert_eq!((run.code, &run.stderr), (0, &line), "{run}");
        let warnings =
            if warning.is_empty() { json!([]) } else { json!([format!("`--json-schema`: {warning}")]) };
        assert_eq!(result_of(&run)["warnings"], warnings, "{run}");
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
        "the arguments are not valid JSON: line 1, column 12: the text ends inside a string"
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
}

/// A run of one batch (and what follows), with everything allowed.
fn batch(script: Vec<Reply>) -> (Server, Run) {
    let server = Server::start(script);
    let run = asked(&server).args(["-y", "--json-schema", SCHEMA, "-o", "stream-json"]).run();
    server.assert_script_done();
    (server, run)
}

/// The tool results of a run, by call.
fn results(run: &Run) -> Vec<(String, bool, String)> {
    let lines = super::output::published(run);
    let users = lines.iter().filter(|line| line["type"] == "user");
    let text = |value: &Value| value.as_str().expect("text").to_owned();
    users
        .map(|line| &line["message"]["content"][0])
        .map(|r| (text(&r["tool_use_id"]), r["is_error"] == true, text(&r["content"])))
        .collect()
}

const SKIPPED: &str =
    "Skipped: this turn's structured_output contract took precedence as the terminal output.";
const SKIPPED_RETRY: &str = "Skipped: this turn's structured_output contract took precedence as the terminal output. Re-issue this call in a separate turn if needed.";
const ACCEPTED: &str = "Accepted: the payload fits the schema.";
const REJECTED: &str = "/risk: expected one of \"low\", \"high\", got 1";

fn write(reply: Reply) -> Reply {
    reply.call("w", "write_file", json!({"file_path": "made.txt", "content": "x"}))
}

fn owned(results: &[(&str, bool, &str)]) -> Vec<(String, bool, String)> {
    results.iter().map(|(id, error, text)| ((*id).to_owned(), *error, (*text).to_owned())).collect()
}

#[test]
fn siblings_of_a_terminal_call_never_run() {
    let good = json!({"risk": "low"});
    let bad = json!({"risk": 1});
    // [write_file, structured_output]
    let (_, run) = batch(vec![write(reply()).call("s", TOOL, good.clone())]);
    assert_eq!(results(&run), owned(&[("w", false, SKIPPED), ("s", false, ACCEPTED)]));
    assert!(!run.workspace().join("made.txt").exists());
    // [structured_output(bad), structured_output(good)]
    let (_, run) = batch(vec![hand_in("s1", bad.clone()).call("s2", TOOL, good.clone())]);
    assert_eq!(results(&run), owned(&[("s1", true, REJECTED), ("s2", false, ACCEPTED)]));
    assert_eq!(result_of(&run)["structured_result"], good);
    // [structured_output(bad), write_file], then both again, one by one
    let (server, run) = batch(vec![write(hand_in("s1", bad)), write(reply()), hand_in("s2", good.clone())]);
    assert_eq!(results(&run)[..2], owned(&[("s1", true, REJECTED), ("w", false, SKIPPED_RETRY)]));
    assert_eq!(server.request(1).tool_result("s1"), REJECTED);
    assert_eq!(server.request(1).tool_result("w"), SKIPPED_RETRY);
    assert_eq!(run.read("made.txt"), "x");
    run.assert_code(0);
    // [first, second, third]: the first that fits wins
    let second = json!({"risk": "high"});
    let (_, run) =
        batch(vec![hand_in("s1", good.clone()).call("s2", TOOL, second).call("s3", TOOL, json!({}))]);
    assert_eq!(
        results(&run),
        owned(&[("s1", false, ACCEPTED), ("s2", false, SKIPPED), ("s3", false, SKIPPED)])
    );
    assert_eq!(result_of(&run)["structured_result"], good);
    // [read_file, write_file] without a terminal call: both run, the run goes on
    let both = reply().call("r", "read_file", json!({"file_path": "made.txt"}));
    let (_, run) = batch(vec![
        write(reply()),
        both.call("e", "list_directory", json!({"path": "."})),
        hand_in("s", good),
    ]);
    let ids: Vec<String> = results(&run).into_iter().map(|(id, _, _)| id).collect();
    assert_eq!(ids, ["w", "r", "e", "s"]);
    run.assert_code(0);
}

#[test]
fn servers_may_say_it_in_their_own_way() {
    let call = || hand_in("c", json!({"risk": "low"}));
    let variants = [
        call().finish("stop"),
        call().finish("length"),
        call().text("Well.").reasoning("Hm."),
        call().whole(),
        call().no_done(),
        call().until_close().no_done(),
        call().crlf().keepalives().no_space().chunk_by(7),
    ];
    for (number, variant) in variants.into_iter().enumerate() {
        let server = Server::start([variant]);
        let run = asked(&server).args(["--json-schema", SCHEMA]).run();
        assert_eq!((run.code, run.stdout.as_str()), (0, "{\"risk\":\"low\"}\n"), "{number}: {run}");
    }
}

#[test]
fn the_same_valid_answer_five_times_over_is_an_answer() {
    let five = (0..5).fold(reply(), |reply, n| reply.call(&format!("s{n}"), TOOL, json!({"risk": "low"})));
    let (_, run) = batch(vec![five]);
    assert_eq!(verdict(&run), Ok("{\"risk\":\"low\"}".to_owned()));
}

#[test]
fn a_reminder_offers_the_terminal_tool_alone() {
    for (nudges, replies, code) in [("0", 1, 1), ("1", 2, 1), ("2", 3, 1), ("1", 1, 0), ("2", 2, 0)] {
        let mut script: Vec<Reply> = (0..replies).map(|_| reply().text("Fine.")).collect();
        if code == 0 {
            script.push(hand_in("c", json!({"risk": "low"})));
        }
        let server = Server::start(script);
        let run = asked(&server).args(["--json-schema", SCHEMA, "--schema-nudge", nudges]).run();
        run.assert_code(code);
        server.assert_script_done();
        for reminded in server.requests().iter().skip(1) {
            assert_eq!(reminded.tool_names(), [TOOL]);
            assert_eq!(reminded.forced_tool().as_deref(), Some(TOOL));
            let said = reminded.user_text();
            assert!(said.lines().last().is_some_and(|line| line.contains("`structured_output`")), "{said}");
        }
    }
}

#[test]
fn the_terminal_tool_is_gated_by_deny_rules_alone() {
    let all: Vec<&str> = super::TOOLS.iter().copied().chain([TOOL]).collect();
    let deny = r#"{"permissions":{"deny":["structured_output"]}}"#;
    let exclude = r#"{"tools":{"exclude":["structured_output"]}}"#;
    for (settings, flags, offered) in [
        ("{}", vec![], all.clone()),
        ("{}", vec!["--core-tools", "read_file"], vec!["read_file", TOOL]),
        (r#"{"tools":{"core":["glob"]}}"#, vec![], vec!["glob", TOOL]),
        ("{}", vec!["--exclude-tools", TOOL], super::TOOLS.to_vec()),
        ("{}", vec!["--core-tools", "read_file", "--exclude-tools", TOOL], vec!["read_file"]),
        (deny, vec![], super::TOOLS.to_vec()),
        (exclude, vec![], super::TOOLS.to_vec()),
        ("{}", vec!["--bare"], vec!["read_file", "edit", "run_shell_command", TOOL]),
        (deny, vec!["--bare"], vec!["read_file", "edit", "run_shell_command", TOOL]),
        (exclude, vec!["--bare"], vec!["read_file", "edit", "run_shell_command", TOOL]),
        (deny, vec!["--bare", "--exclude-tools", TOOL], vec!["read_file", "edit", "run_shell_command"]),
        (
            "{}",
            vec!["--approval-mode", "plan"],
            // Where the plan is handed in, after `web_fetch`.
            all.iter()
                .flat_map(
                    |name| if *name == "web_fetch" { vec![*name, "exit_plan_mode"] } else { vec![*name] },
                )
                .collect(),
        ),
    ] {
        let is_offered = offered.contains(&TOOL);
        let server = Server::start([
            hand_in("c", json!({"risk": "low"})).when(move |_| is_offered),
            reply().text("In plain text."),
        ]);
        let run = asked(&server)
            .home_file("settings.json", settings)
            .args(["--json-schema", SCHEMA])
            .args(&flags)
            .run();
        assert_eq!(server.request(0).tool_names(), offered, "{settings} {flags:?}");
        if is_offered {
            assert_eq!((run.code, run.stdout.as_str()), (0, "{\"risk\":\"low\"}\n"), "{run}");
        } else {
            assert_eq!((run.code, run.stdout.as_str()), (1, ""), "{run}");
            // `--bare` says how many rules of the settings it leaves out.
            let stderr = run.stderr.replace("warning: `--bare` leaves out 1 deny rule of the settings\n", "");
            assert_eq!(
                stderr,
                "error[contract]: the model answered in plain text instead of calling `structured_output` after 1 turn; it said (14 chars): \"In plain text.\"\nhint: `structured_output` is removed by a deny rule: check `--exclude-tools` and `permissions.deny` in the settings\n"
            );
        }
    }
}

#[test]
fn a_model_that_calls_the_removed_tool_is_told_it_is_not_there() {
    let server =
        Server::start([hand_in("c1", json!({"risk": "low"})), hand_in("c2", json!({"risk": "high"}))]);
    let run = asked(&server)
        .args(["--json-schema", SCHEMA, "--exclude-tools", TOOL, "--max-session-turns", "2"])
        .run();
    assert_eq!((run.code, run.stdout.as_str()), (53, ""), "{run}");
    assert!(server.request(1).tool_result("c1").starts_with("There is no tool `structured_output`"));
    assert!(run.stderr.contains("`structured_output` is removed by a deny rule"), "{run}");
}

#[test]
fn the_terminal_tool_costs_no_tool_call() {
    let server = Server::start([hand_in("c1", json!({})), hand_in("c2", json!({"risk": "low"}))]);
    let run = asked(&server).args(["--json-schema", SCHEMA, "--max-tool-calls", "0"]).run();
    assert_eq!((run.code, run.stdout.as_str()), (0, "{\"risk\":\"low\"}\n"), "{run}");
}

#[test]
fn every_request_carries_the_schema_as_it_was_written() {
    let schema = r#"{"description":"d","properties":{"z":{"minimum":1.50},"a":{"maximum":123456789012345678901234567890}},"type":"object"}"#;
    let server = Server::start([hand_in("c1", json!({"a": "x", "z": 1})), hand_in("c2", json!({}))]);
    asked(&server).args(["--json-schema", schema]).run().assert_code(0);
    let field = match wire() {
        Wire::Chat | Wire::Responses => "parameters",
        Wire::Messages => "input_schema",
        Wire::Gemini => "parametersJsonSchema",
    };
    for request in server.requests() {
        let sent = String::from_utf8(request.raw).expect("text");
        assert!(sent.contains(&format!(r#""{field}":{schema}"#)), "{sent}");
    }
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

//! Which schemas are a contract, through the binary: `schema check`, and a run that agrees with it.

use tenon_testkit::{Server, Tenon, json};

use super::contract::hand_in;
use super::output::{SCHEMA, asked, result_of};
use super::tenon;

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

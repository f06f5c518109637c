//! What can be wrong around a run: schemas, files, folders, keys. Each has its own sentence and
//! exit code, an empty stdout in `text`, and a result line in the JSON formats.

use tenon_testkit::{Reply, Run, Server, Tenon, Value, json, reply, scrub};

use super::stdin::make_fifo;
use super::{IMPATIENT, tenon};

/// Fails in every format with this code and, in `text`, with exactly this on stderr.
#[track_caller]
pub fn fails(tenon: &Tenon, code: i32, stderr: &str) {
    let text = tenon.run();
    text.assert_code(code);
    assert_eq!(scrub(&text.stderr), stderr, "{text}");
    assert_eq!(text.stdout, "", "{text}");
    for format in ["json", "stream-json"] {
        let run = tenon.clone().args(["-o", format]).run();
        run.assert_code(code);
        let result = result_of(&run);
        assert_eq!((&result["type"], &result["is_error"]), (&json!("result"), &json!(true)), "{run}");
        let error = &result["error"];
        assert_eq!(error["code"], code, "{run}");
        let class = error["class"].as_str().unwrap();
        let message = scrub(error["message"].as_str().unwrap());
        assert!(stderr.contains(&format!("error[{class}]: {message}\n")), "{stderr}\n{run}");
    }
}

fn result_of(run: &Run) -> Value {
    match run.json_lines().pop().unwrap() {
        Value::Array(mut messages) => messages.pop().unwrap(),
        line => line,
    }
}

/// Fails before anybody is asked.
#[track_caller]
pub fn fails_early(tenon: Tenon, code: i32, stderr: &str) {
    let server = Server::start([]);
    fails(&tenon.server(&server).args(["-m", "test-model", "-p", "go"]), code, stderr);
    assert_eq!(server.requests().len(), 0, "the server was asked");
}

/// Fails with what this reply brings about, whichever the format.
#[track_caller]
pub fn fails_on(answer: Reply, settings: &str, code: i32, stderr: &str) {
    let server = Server::start([answer.forever()]);
    fails(
        &tenon().server(&server).args(["-m", "test-model", "-p", "go", "-q", "--settings", settings]),
        code,
        stderr,
    );
}

#[test]
fn a_schema_that_cannot_be_read() {
    let folder = tenon()
        .file("folder/x", "")
        .file("broken.json", "{\"type\": secret}")
        .file("latin1.json", b"{\"title\":\"caf\xe9\"}")
        .file("large.json", vec![b' '; 5 * 1024 * 1024]);
    make_fifo(&folder.workspace().join("fifo"));
    let inline = "hint: write the schema itself, such as `{\"type\":\"object\"}`, or name a file, such as `@schema.json`\n";
    let table = [
        ("@nope.json", "`nope.json` cannot be read: No such file or directory (os error 2)", ""),
        ("@folder", "`folder` is not a regular file", ""),
        ("@fifo", "`fifo` is not a regular file", ""),
        ("@/dev/zero", "`/dev/zero` is not a regular file", ""),
        (
            "@large.json",
            "`large.json` has 5242880 bytes, and a schema may have 4194304",
            "hint: check the path: a schema this large would be sent to the model with every request\n",
        ),
        ("@latin1.json", "`latin1.json` is not text in UTF-8", ""),
        // Nothing of a file is quoted.
        ("@broken.json", "the content of `broken.json` is not valid JSON", ""),
        ("", "the schema is empty", inline),
        ("@", "no file is named after `@`", inline),
        (
            "@-",
            "`@-` cannot be read: standard input holds the prompt",
            "hint: put the schema in a file and name it, such as `@schema.json`\n",
        ),
    ];
    for (argument, message, hint) in table {
        let stderr = format!("error[config]: `--json-schema`: {message}\n{hint}");
        fails_early(folder.clone().args(["--json-schema", argument]), 52, &stderr);
    }
}

/// Permissions do not bind the superuser.
#[test]
fn a_schema_that_may_not_be_read() {
    use std::os::unix::fs::PermissionsExt;

    let folder = tenon().file("private.json", "{}");
    let path = folder.workspace().join("private.json");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o000)).unwrap();
    if std::fs::read(&path).is_ok() {
        return;
    }
    fails_early(
        folder.args(["--json-schema", "@private.json"]),
        52,
        "error[config]: `--json-schema`: `private.json` cannot be read: Permission denied (os error 13)\n",
    );
}

#[test]
fn a_schema_that_is_no_contract() {
    let object = "hint: the payload is the arguments of a tool call, which are always a JSON object; put other values inside a property\n";
    let table = [
        (
            "{\"type\":\n  \"object\",}",
            "the schema is not valid JSON: line 2, column 12: a comma before `}` is not JSON",
            "",
        ),
        (
            "{\"type\":\"object\"",
            "the schema is not valid JSON: line 1, column 17: expected `,` or `}`, found the end of the text",
            "",
        ),
        (
            "schema.json",
            "the schema is not valid JSON: line 1, column 1: expected a value, found `s`",
            "hint: a schema in a file is named with `@`, such as `@schema.json`\n",
        ),
        (
            "nope.json",
            "the schema is not valid JSON: line 1, column 1: expected a value, found `n`",
            "hint: a schema in a file is named with `@`, such as `@schema.json`\n",
        ),
        ("true", "a contract describes an object, so its schema cannot be a boolean", ""),
        ("[]", "a schema is a JSON object, got array", ""),
        (
            r#"{"type":"array"}"#,
            "at `/type`: the root must accept an object, but `type` is \"array\"",
            object,
        ),
        (
            r#"{"type":"object","propertees":{}}"#,
            "at `/propertees`: unknown keyword `propertees`, did you mean `properties`?",
            "",
        ),
        (
            r#"{"properties":{"a":{"pattern":"(a"}}}"#,
            "at `/properties/a/pattern`: the pattern `(a` opens a group that is not closed",
            "",
        ),
        (
            r#"{"properties":{"a":{"pattern":"^(?!x)"}}}"#,
            "at `/properties/a/pattern`: the pattern `^(?!x)` uses look-ahead, which the linear-time engine cannot express",
            "hint: write it without look-around, or split the condition over several `allOf` patterns\n",
        ),
        (
            r#"{"properties":{"a":{"$ref":"https://example.com/a.json"}}}"#,
            "at `/properties/a/$ref`: `https://example.com/a.json` is outside this schema, and references are not fetched",
            "hint: copy what it refers to into `$defs` and refer to it as `#/$defs/…`\n",
        ),
        (
            r##"{"properties":{"a":{"$ref":"file:///etc/passwd"}}}"##,
            "at `/properties/a/$ref`: `file:///etc/passwd` is outside this schema, and references are not fetched",
            "hint: copy what it refers to into `$defs` and refer to it as `#/$defs/…`\n",
        ),
    ];
    for (schema, message, hint) in table {
        let stderr = format!("error[config]: `--json-schema`: {message}\n{hint}");
        fails_early(tenon().args(["--json-schema", schema]), 52, &stderr);
    }
}

#[test]
fn the_schema_command_says_the_same() {
    let folder = tenon().file("good.json", "{}").file("bad.json", r#"{"propertees":{}}"#);
    let good = concat!(
        "ok: a contract (2020-12)\n",
        "openai: as written, not strict: the root allows unknown properties (no `additionalProperties: false`)\n",
        "anthropic: as written\n",
        "gemini: as written\n",
        "other servers: as written\n",
    );
    let table = [
        ("good.json", 0, good, ""),
        ("@good.json", 0, good, ""),
        (
            r#"{"type":"object","properties":{"a":{"type":"string"},"b":{"type":"integer","multipleOf":5}},"required":["a"],"additionalProperties":false}"#,
            0,
            concat!(
                "ok: a contract (2020-12)\n",
                "openai: optional properties asked for as nullable, strict\n",
                "anthropic: as written\n",
                "gemini: `multipleOf` left out or loosened, full schema in the description\n",
                "other servers: as written\n",
            ),
            "",
        ),
        (
            r#"{"not":{"required":["a"]}}"#,
            0,
            concat!(
                "ok: a contract (2020-12)\n",
                "openai: root `not` replaced by {\"type\":\"object\"}, full schema in the description, not strict\n",
                "anthropic: root `not` replaced by {\"type\":\"object\"}, full schema in the description\n",
                "gemini: root `not` replaced by {\"type\":\"object\"}, full schema in the description\n",
                "other servers: root `not` replaced by {\"type\":\"object\"}, full schema in the description\n",
            ),
            "",
        ),
        (
            "bad.json",
            52,
            "not a contract: at `/propertees`: unknown keyword `propertees`, did you mean `properties`?\n",
            "",
        ),
        (
            "nope.json",
            52,
            "not a contract: `nope.json` cannot be read: No such file or directory (os error 2)\n",
            "",
        ),
        (
            "true",
            52,
            "not a contract: a contract describes an object, so its schema cannot be a boolean\n",
            "",
        ),
    ];
    for (argument, code, stdout, stderr) in table {
        let run = folder.clone().args(["schema", "check", argument]).run();
        run.assert_code(code);
        assert_eq!((run.stdout.as_str(), run.stderr.as_str()), (stdout, stderr), "{run}");
    }
}

/// Other engines take for ever on this one.
#[test]
fn a_catastrophic_pattern_is_harmless() {
    let schema = r#"{"properties":{"a":{"type":"string","pattern":"^(a+)+$"}},"required":["a"]}"#;
    let evil = json!({"a": format!("{}!", "a".repeat(100_000))});
    let server = Server::start([
        reply().call("c1", "structured_output", evil),
        reply().call("c2", "structured_output", json!({"a": "aaa"})),
    ]);
    let run = tenon().server(&server).args(["-p", "go", "--json-schema", schema]).run();
    run.assert_code(0);
    assert_eq!(run.stdout, "{\"a\":\"aaa\"}\n");
    assert!(server.request(1).tool_result("c1").starts_with("/a: "), "{:?}", server.request(1).body);
}

#[test]
fn settings_that_are_not_valid() {
    let table = [
        ("{\n  \"model\": \"m\"\n  \"dialect\": \"qwen\"\n}", "<home>/.tenon/settings.json:2:15: "),
        ("{\"limits\":{\"turns\":\"many\"}}", "<home>/.tenon/settings.json:1:20: "),
        ("[]", "<home>/.tenon/settings.json:1:1: "),
        ("{\"permissions\":{\"alow\":[]}}", "<home>/.tenon/settings.json:1:17: "),
    ];
    for (settings, place) in table {
        let run = tenon().home_file("settings.json", settings).args(["-p", "go", "-o", "stream-json"]).run();
        run.assert_code(52);
        assert!(scrub(&run.stderr).starts_with(&format!("error[config]: {place}")), "{run}");
        assert_eq!(run.last_json()["error"]["class"], "config");
    }
    let run = tenon().args(["-p", "go", "--settings", "{\n \"model\" 1}"]).run();
    run.assert_code(52);
    assert!(run.stderr.starts_with("error[config]: --settings:2:"), "{run}");
    fails_early(
        tenon().args(["--settings", "nope.json"]),
        52,
        "error[config]: `<cwd>/nope.json` cannot be read: there is no such file\n",
    );
    fails_early(
        tenon().args(["--setting-sources", "users"]),
        52,
        "error[config]: `--setting-sources` names `users`, but may name `user`, `project` and `local`\n",
    );
}

#[test]
fn folders_that_are_not_there() {
    let folder = || tenon().file("file", "x");
    let table: &[(&[&str], &str)] = &[
        (&["-C", "nope"], "`--cwd nope` is not a folder"),
        (&["--cwd", "file"], "`--cwd file` is not a folder"),
        (&["--add-dir", "nope"], "`--add-dir nope` is not a folder"),
        (&["--add-dir", "file"], "`--add-dir file` is not a folder"),
        (
            &["--result-file", "nope/r.json"],
            "`--result-file nope/r.json` cannot be written: No such file or directory (os error 2)",
        ),
        (
            &["--result-file", "file/r.json"],
            "`--result-file file/r.json` cannot be written: Not a directory (os error 20)",
        ),
        (&["--result-file", "."], "`--result-file .` cannot be written: it is a folder"),
    ];
    for (args, message) in table {
        fails_early(folder().args(*args), 42, &format!("error[input]: {message}\n"));
    }
    fails_early(
        folder().args(["--replay", "nope.jsonl"]),
        42,
        "error[input]: the cassette `<cwd>/nope.jsonl` cannot be read: No such file or directory (os error 2)\nhint: make one with `--record`, or check the path\n",
    );
}

#[test]
fn the_folder_it_was_started_in_is_gone() {
    let command = "mkdir gone && cd gone && rmdir ../gone && exec \"$0\" -p go";
    let run = Tenon::new("sh").args(["-c", command, env!("CARGO_BIN_EXE_tenon")]).run();
    run.assert_code(42);
    assert_eq!(
        (run.stdout.as_str(), run.stderr.as_str()),
        ("", "error[input]: the folder tenon was started in does not exist any more\n"),
        "{run}"
    );
}

#[test]
fn a_result_file_is_never_stale_and_never_half() {
    let old = || tenon().file("r.json", "old").args(["-p", "go", "--result-file", "r.json"]);
    let server = Server::start([reply().text("new")]);
    let run = old().server(&server).run();
    run.assert_code(0);
    assert_eq!(run.read("r.json"), "new\n");

    // Every way to fail leaves none, whether the model was reached or not.
    let failures: [(i32, Tenon, Reply); 8] = [
        (52, old().args(["--json-schema", "nope"]), reply()),
        (52, old().args(["--settings", "{"]), reply()),
        (42, old().args(["-C", "nope"]), reply()),
        (41, old(), reply().status(401)),
        (1, old(), reply().text("half").finish("length")),
        (1, old().args(["--json-schema", "{}"]), reply().text("no payload")),
        (53, old().args(["--max-session-turns", "0"]), reply()),
        (42, old().args(["--add-dir", "nope"]), reply()),
    ];
    for (code, tenon, answer) in failures {
        let server = Server::start([answer]);
        let run = tenon.server(&server).run();
        run.assert_code(code);
        let left: Vec<_> =
            std::fs::read_dir(run.workspace()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert!(left.is_empty(), "{left:?}\n{run}");
    }
    // It became impossible to write while the model worked.
    let server = Server::start([
        reply().call(
            "c1",
            "run_shell_command",
            json!({"command": "rmdir out && touch out", "is_background": false}),
        ),
        reply().text("done"),
    ]);
    let folder = tenon().server(&server).args(["-y", "-p", "go", "-q", "--result-file", "out/r.json"]);
    std::fs::create_dir(folder.workspace().join("out")).unwrap();
    let run = folder.run();
    run.assert_code(42);
    assert_eq!(run.stdout, "");
    assert_eq!(
        run.stderr,
        "error[input]: `--result-file out/r.json` cannot be written: Not a directory (os error 20)\n"
    );
}

#[test]
fn a_home_that_cannot_be_written_only_costs_what_would_be_kept() {
    let seq = json!({"command": "seq 1 100000", "is_background": false});
    for home in ["file/below", "/dev/null/below"] {
        let server =
            Server::start([reply().call("c1", "run_shell_command", seq.clone()), reply().text("ok")]);
        let run =
            tenon().file("file", "").server(&server).env("TENON_HOME", home).args(["-y", "-p", "go"]).run();
        run.assert_code(0);
        assert_eq!(run.stdout, "ok\n");
        assert!(server.request(1).tool_result("c1").contains("100000"), "{run}");
        let run = tenon().file("file", "").env("TENON_HOME", home).arg("trust").run();
        run.assert_code(52);
        assert!(run.stderr.contains("cannot be "), "{run}");
    }
    // No home at all.
    let server = Server::start([reply().text("ok")]);
    let run = tenon().server(&server).env("HOME", "").env("TENON_HOME", "").args(["-p", "go"]).run();
    run.assert_code(0);
    assert_eq!(run.stdout, "ok\n");
}

#[test]
fn keys_that_are_missing_or_wrong() {
    let hint = "hint: set a key (`OPENAI_API_KEY`, `ANTHROPIC_API_KEY` or `GEMINI_API_KEY`), point `OPENAI_BASE_URL` to a server on this machine (`http://127.0.0.1:PORT/v1`), or use the small embedded model: `-m local`\n";
    let none = format!("error[auth]: no credentials for any model were found\n{hint}");
    fails(&tenon().args(["-p", "go"]), 41, &none);
    fails(&tenon().args(["-p", "go", "-m", "m"]).env("OPENAI_API_KEY", " "), 41, &none);
    fails(
        &tenon().args(["-p", "go", "-m", "openai/m"]),
        41,
        &format!("error[auth]: no key for `openai`: `OPENAI_API_KEY` is not set\n{hint}"),
    );
    fails(
        &tenon().args([
            "-p",
            "go",
            "-m",
            "m",
            "--base-url",
            "http://127.0.0.1:1/v1",
            "--api-key-env",
            "NOPE",
        ]),
        41,
        &format!("error[auth]: `--api-key-env` names `NOPE`, which is not set\n{hint}"),
    );
    let plain = "error[config]: a key would be sent to `model.example` over plain HTTP\n\
                 hint: use `https://`; plain HTTP is only for `127.0.0.1`, `[::1]` and `localhost`\n";
    let args = ["-p", "go", "-m", "m", "--base-url", "http://model.example/v1"];
    fails(&tenon().args(args).env("OPENAI_API_KEY", "secret"), 52, plain);
    let echo =
        json!({"error": {"message": "Incorrect API key provided: test-key", "code": "invalid_api_key"}});
    fails_on(
        reply().status(401).json(echo),
        IMPATIENT,
        41,
        "error[auth]: `openai` answered 401 (unauthorized): Incorrect API key provided: ***\n\
         hint: check the key in the provider's environment variable, and that it belongs to this base URL\n",
    );
    fails_on(
        reply().status(403),
        IMPATIENT,
        41,
        "error[auth]: `openai` answered 403 (forbidden): scripted status 403\n\
         hint: the key is known but may not do this; check what it allows for the model `test-model`\n",
    );
}

#[test]
fn large_arguments_and_outputs_are_carried() {
    let megabytes = "0123456789".repeat(1_000_000);
    let server = Server::start([
        reply().call("c1", "write_file", json!({"file_path": "big.txt", "content": megabytes})),
        reply().call("c2", "run_shell_command", json!({"command": "cat big.txt", "is_background": false})),
        reply().call("c3", "structured_output", json!({"a": megabytes})),
    ]);
    let args = ["-y", "-q", "-p", "go", "--json-schema", r#"{"properties":{"a":{"type":"string"}}}"#];
    let run = tenon().server(&server).args(args).run();
    run.assert_code(0);
    assert!(run.read("big.txt") == megabytes);
    let shown = server.request(2).tool_result("c2");
    assert!(shown.len() < 100_000, "{} bytes of output were sent to the model", shown.len());
    assert!(run.stdout == format!("{{\"a\":\"{megabytes}\"}}\n"), "{} bytes came out", run.stdout.len());
}

//! Flags that have an effect: what each changes in a run. Those that are refused are in `usage.rs`.

use tenon_testkit::{Run, Server, Tenon, Value, json, reply, scrub};

use crate::tenon;

pub const OBJECT: &str = r#"{"type":"object","properties":{"a":{"type":"integer"}},"required":["a"]}"#;

/// One answer, `ok`, and the request that asked for it.
fn ask<const N: usize>(args: [&str; N]) -> (Run, Value) {
    ask_as(tenon().args(args))
}

pub fn ask_as(tenon: Tenon) -> (Run, Value) {
    let server = Server::start([reply().text("ok")]);
    let run = tenon.server(&server).run();
    run.assert_code(0);
    (run, server.request(0).body)
}

/// The first line of `stream-json`.
fn init(run: &Run) -> Value {
    run.json_lines().swap_remove(0)
}

pub fn prompt_of(request: &Value) -> &str {
    request["messages"].as_array().unwrap().last().unwrap()["content"].as_str().unwrap()
}

fn system_of(request: &Value) -> &str {
    let first = &request["messages"][0];
    if first["role"] == "system" { first["content"].as_str().unwrap() } else { "" }
}

fn tools_of(request: &Value) -> Vec<String> {
    let tools = request["tools"].as_array().map(Vec::as_slice).unwrap_or_default();
    tools.iter().map(|tool| tool["function"]["name"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn an_equals_sign_and_a_space_are_the_same() {
    let table = [
        ("--model", "other-model"),
        ("-m", "openai/other"),
        ("--system-prompt", "Be brief."),
        ("--append-system-prompt", "-- and kind"),
        ("--core-tools", "read_file,edit"),
        ("--exclude-tools", "write_file"),
        ("--allowed-tools", "write_file"),
        ("--approval-mode", "auto-edit"),
        ("--output-format", "stream-json"),
        ("--session-id", "123e4567-e89b-42d3-a456-426614174000"),
        ("--max-session-turns", "-1"),
        ("--max-tool-calls", "3"),
        ("--max-wall-time", "1h"),
        ("--stdin", "ignore"),
        ("--dialect", "qwen"),
        ("--json-schema", OBJECT),
        ("--settings", r#"{"model":"from-settings"}"#),
        ("--setting-sources", ""),
        ("--heartbeat", "100"),
        ("--result-text", "off"),
    ];
    for (flag, value) in table {
        let run = |spelling: &[&str]| {
            let call = reply().call("call_1", "structured_output", json!({"a": 1}));
            let schema = flag == "--json-schema";
            let server = Server::start([if schema { call } else { reply().text("ok") }]);
            let run = tenon().server(&server).args(["-p", "hi"]).args(spelling).run();
            run.assert_code(0);
            (server.request(0).body, scrub(&run.stdout), run.stderr)
        };
        let joined =
            if flag.starts_with("--") { format!("{flag}={value}") } else { format!("{flag}{value}") };
        assert_eq!(run(&[flag, value]), run(&[&joined]), "{flag}");
    }
}

#[test]
fn list_flags_take_commas_and_repetition() {
    let spellings: &[&[&str]] = &[
        &["--core-tools", "read_file,edit"],
        &["--core-tools", "read_file", "--core-tools", "edit"],
        &["--core-tools=read_file, edit"],
        &["--tools", "Read,Edit"],
    ];
    for spelling in spellings {
        let (_, request) = ask_as(tenon().args(["-p", "hi"]).args(*spelling));
        assert_eq!(tools_of(&request), ["read_file", "edit"], "{spelling:?}");
    }
    let all = tools_of(&ask(["-p", "hi"]).1);
    let spellings: &[&[&str]] = &[
        &["--exclude-tools", "write_file,edit"],
        &["--exclude-tools", "write_file", "--exclude-tools", "edit"],
        &["--disallowedTools", "Write,Edit"],
        &["--disallowed-tools=write_file,edit"],
    ];
    for spelling in spellings {
        let (_, request) = ask_as(tenon().args(["-p", "hi"]).args(*spelling));
        let left: Vec<String> =
            all.iter().filter(|name| !["write_file", "edit"].contains(&name.as_str())).cloned().collect();
        assert_eq!(tools_of(&request), left, "{spelling:?}");
    }
}

#[test]
fn a_comma_inside_a_rule_belongs_to_the_rule() {
    let write =
        |id: &str, file: &str| reply().call(id, "write_file", json!({"file_path": file, "content": "x"}));
    let server = Server::start([write("c1", "a,b.txt"), write("c2", "b.txt"), reply().text("done")]);
    let run = tenon()
        .server(&server)
        .args(["-p", "hi", "--allowedTools", "Write(a,b.txt),run_shell_command(true)"])
        .run();
    run.assert_code(0);
    assert_eq!(run.read("a,b.txt"), "x");
    assert!(!run.workspace().join("b.txt").exists(), "a rule for `b.txt` was made out of half a rule");
}

#[test]
fn flags_without_effect_say_so_on_stderr_and_in_the_result() {
    let args = ["--betas", "a,b", "-e", "x", "--extensions", "y", "--plugin-dir", "d", "--task-budget", "9"];
    let (run, _) = ask_as(tenon().args(["-p", "hi", "-m", "test-model", "-o", "json"]).args(args));
    let warnings: Vec<String> = ["--betas", "--extensions", "--plugin-dir", "--task-budget"]
        .map(|flag| format!("`{flag}` has no effect in tenon"))
        .into();
    let stderr: String = warnings.iter().map(|warning| format!("warning: {warning}\n")).collect();
    assert_eq!(run.stderr, stderr);
    assert_eq!(run.json().as_array().unwrap().last().unwrap()["warnings"], json!(warnings));
    // Switched off is what they are anyway.
    ask(["-p", "hi", "--sandbox=off", "--max-budget-usd", "-1"]);
}

#[test]
fn the_model_can_be_named_in_many_ways() {
    let table: &[(&[&str], Option<&str>, &str)] = &[
        (&[], None, "test-model"),
        (&["-m", "m1"], None, "m1"),
        (&["-mm1"], None, "m1"),
        (&["--model", "openai/m1"], None, "m1"),
        (&["-m", "openai"], None, "test-model"),
        (&["-m", "openai/anthropic/claude"], None, "anthropic/claude"),
        (&["-m", "Qwen/Qwen3-8B"], None, "Qwen/Qwen3-8B"),
        (&["-m", "openai/openai/gpt-oss"], None, "openai/gpt-oss"),
        (&["--auth-type", "openai", "-m", "m1"], None, "m1"),
        (&[], Some("from-env"), "from-env"),
        (&["-m", "m1"], Some("from-env"), "m1"),
        (&["--settings", r#"{"model":"m3"}"#], None, "m3"),
        (&["-m", "m1", "--settings", r#"{"model":"m3"}"#], None, "m1"),
        (&["-m", ""], None, "test-model"),
    ];
    for (args, env, model) in table {
        let run = tenon().args(["-p", "hi", "-o", "stream-json"]).args(*args);
        let run = env.iter().fold(run, |run, value| run.env("TENON_MODEL", *value));
        let (run, request) = ask_as(run);
        assert_eq!(request["model"], *model, "{args:?} {env:?}");
        assert_eq!(init(&run)["model"], *model, "{args:?} {env:?}");
    }
    let unusable = [
        (["-m", "local/nobody"], "`nobody` is no embedded model"),
        (["-m", "replay"], "`replay` is not a model to name"),
        (["--auth-type", "nobody"], "`--auth-type nobody` names no known provider"),
    ];
    for (args, message) in unusable {
        let server = Server::start([]);
        let run = tenon().server(&server).args(["-p", "hi"]).args(args).run();
        run.assert_code(52);
        let first = run.stderr.lines().next().unwrap_or_default();
        assert_eq!(first, format!("error[config]: {message}"), "{run}");
        assert!(run.stderr.contains("\nhint: "), "{run}");
        assert!(server.requests().is_empty());
    }
}

#[test]
fn address_and_key_can_be_given_by_flags() {
    for flag in ["--base-url", "--openai-base-url"] {
        let server = Server::start([reply().text("ok")]);
        let run = tenon()
            .args(["-p", "hi", "-m", "m1", flag, &server.base_url(), "--api-key-env", "MY_KEY"])
            .env("MY_KEY", "my-secret")
            .env("OPENAI_API_KEY", "not-this-one")
            .run();
        run.assert_code(0);
        let request = server.request(0);
        assert_eq!(request.header("authorization"), Some("Bearer my-secret"));
        assert_eq!(request.path, "/v1/chat/completions");
        assert!(!format!("{run}").contains("my-secret"));
    }
    // A server on this machine needs no key.
    let server = Server::start([reply().text("ok")]);
    tenon().args(["-p", "hi", "-m", "m1", "--base-url", &server.base_url()]).run().assert_code(0);
    assert_eq!(server.request(0).header("authorization"), None);
}

/// A tunnel is asked for at the proxy, and the key is not in that request.
#[test]
fn a_proxy_carries_requests_beyond_loopback() {
    use std::io::{BufRead, BufReader, Write};

    let proxy = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", proxy.local_addr().unwrap());
    let asked = std::thread::spawn(move || {
        let (mut stream, _) = proxy.accept().unwrap();
        let lines = BufReader::new(stream.try_clone().unwrap()).lines().map_while(Result::ok);
        let head: Vec<String> = lines.take_while(|line| !line.is_empty()).collect();
        stream.write_all(b"HTTP/1.1 503 Service Unavailable\r\ncontent-length: 0\r\n\r\n").unwrap();
        head
    });
    let run = tenon()
        .args(["-p", "hi", "-m", "m1", "--base-url", "https://model.invalid/v1", "--proxy", &address])
        .args(["--settings", r#"{"retry":{"attempts":1}}"#])
        .env("OPENAI_API_KEY", "my-secret")
        .run();
    run.assert_code(1);
    assert!(run.stderr.starts_with("error[network]: "), "{run}");
    let head = asked.join().unwrap();
    assert_eq!(head[0], "CONNECT model.invalid:443 HTTP/1.1");
    assert!(!head.concat().contains("my-secret"), "{head:?}");
}

#[test]
fn system_prompts_are_replaced_and_added_to() {
    let usual = system_of(&ask(["-p", "hi"]).1).to_owned();
    assert!(!usual.is_empty());
    assert_eq!(system_of(&ask(["-p", "hi", "--system-prompt", "Be brief."]).1), "Be brief.");
    assert_eq!(system_of(&ask(["-p", "hi", "--system-prompt", ""]).1), "");
    assert_eq!(system_of(&ask(["-p", "hi", "--append-system-prompt", ""]).1), usual);
    let added = ask(["-p", "hi", "--append-system-prompt", "Be kind."]).1;
    assert_eq!(system_of(&added), format!("{usual}\n\nBe kind."));
    let file = tenon().file("s.md", "From a file.").args(["-p", "hi", "--system-prompt-file", "s.md"]);
    assert_eq!(system_of(&ask_as(file).1), "From a file.");
}

#[test]
fn approval_modes_have_the_names_of_other_tools_too() {
    let table: &[(&[&str], &str)] = &[
        (&[], "default"),
        (&["--approval-mode", "plan"], "plan"),
        (&["--approval-mode", "default"], "default"),
        (&["--approval-mode", "auto-edit"], "auto-edit"),
        (&["--approval-mode", "yolo"], "yolo"),
        (&["-y"], "yolo"),
        (&["--yolo"], "yolo"),
        (&["--dangerously-skip-permissions"], "yolo"),
        (&["--permission-mode", "acceptEdits"], "auto-edit"),
        (&["--permission-mode", "bypassPermissions"], "yolo"),
        (&["--permission-mode", "dontAsk"], "default"),
        (&["--permission-prompts", "none"], "default"),
    ];
    for (args, mode) in table {
        let (run, _) = ask_as(tenon().args(["-p", "hi", "-o", "stream-json"]).args(*args));
        assert_eq!(init(&run)["permission_mode"], *mode, "{args:?}");
    }
}

#[test]
fn a_denied_call_fails_the_run_only_when_asked_to() {
    for (flags, code) in [(&[][..], 0), (&["--fail-on-denied"][..], 1)] {
        let write = json!({"file_path": "a.txt", "content": "x"});
        let server = Server::start([reply().call("c1", "write_file", write), reply().text("could not")]);
        let run = tenon().server(&server).args(["-p", "hi"]).args(flags).run();
        run.assert_code(code);
        assert!(!run.workspace().join("a.txt").exists());
    }
}

#[test]
fn bare_and_safe_runs_leave_things_out() {
    let folder = || {
        tenon()
            .home_file("settings.json", r#"{"model": "from-settings"}"#)
            .file("AGENTS.md", "Remember the milk.")
            .args(["-p", "hi"])
    };
    let (_, usual) = ask_as(folder());
    assert!(system_of(&usual).contains("Remember the milk."));
    assert_eq!(usual["model"], "from-settings");

    let (_, bare) = ask_as(folder().arg("--bare"));
    assert_eq!(tools_of(&bare), ["read_file", "edit", "run_shell_command"]);
    assert_eq!(bare["model"], "test-model");
    assert!(!system_of(&bare).contains("Remember the milk."));

    let (_, safe) = ask_as(folder().arg("--safe-mode"));
    assert_eq!(safe["model"], "from-settings");
    assert_eq!(tools_of(&safe), tools_of(&usual));
    assert!(!system_of(&safe).contains("Remember the milk."));

    let (_, none) = ask_as(folder().args(["--setting-sources", ""]));
    assert_eq!(none["model"], "test-model");
    let (_, user) = ask_as(folder().args(["--setting-sources", "user,local"]));
    assert_eq!(user["model"], "from-settings");
}

#[test]
fn a_project_is_trusted_for_one_run() {
    let folder = || tenon().file(".tenon/settings.json", r#"{"model": "theirs"}"#).args(["-p", "hi"]);
    assert_eq!(ask_as(folder()).1["model"], "test-model");
    assert_eq!(ask_as(folder().arg("--trust-project")).1["model"], "theirs");
    assert_eq!(ask_as(folder()).1["model"], "test-model");
}

#[test]
fn folders_are_relative_to_where_it_was_started() {
    let folder = tenon().file("sub/inner/a.txt", "content").args(["-p", "hi", "-o", "stream-json"]);
    for flag in ["-C", "--cwd"] {
        let (run, _) = ask_as(folder.clone().args([flag, "sub"]));
        assert_eq!(init(&run)["cwd"], json!(run.workspace().join("sub")));
    }
    let elsewhere = tenon().file("x", "").file("far/a.txt", "content of another folder");
    let far = elsewhere.workspace().join("far");
    let read = json!({"file_path": far.join("a.txt")});
    for flag in ["--add-dir", "--include-directories"] {
        let server = Server::start([reply().call("c1", "read_file", read.clone()), reply().text("ok")]);
        tenon().server(&server).args(["-p", "hi", flag]).arg(&far).run().assert_code(0);
        assert!(server.request(1).tool_result("c1").contains("content of another folder"));
    }
    for folders in [["--add-dir", "a,far"], ["--add-dir", "a, far"], ["--add-dir=a", "--add-dir=far"]] {
        let server = Server::start([reply().call("c1", "read_file", read.clone()), reply().text("ok")]);
        elsewhere
            .clone()
            .file("a/x", "")
            .file("sub/x", "")
            .server(&server)
            .args(["-C", "sub", "-p", "hi"])
            .args(folders)
            .run()
            .assert_code(0);
        assert!(server.request(1).tool_result("c1").contains("content of another folder"), "{folders:?}");
    }
    let with_comma = elsewhere.clone().file("far,a/x", "").args(["-p", "hi", "--add-dir", "far,a"]);
    ask_as(with_comma);
    let server = Server::start([reply().call("c1", "read_file", read), reply().text("ok")]);
    tenon().server(&server).args(["-p", "hi"]).run().assert_code(0);
    assert!(!server.request(1).tool_result("c1").contains("content of another folder"));
}

#[test]
fn limits_end_the_run_with_their_own_code() {
    let table: &[(&[&str], i32, &str)] = &[
        (
            &["--max-session-turns", "1"],
            53,
            "error[turns]: the turn limit was reached: 1 of 1 turns used (`--max-session-turns`)",
        ),
        (
            &["--max-turns=0"],
            53,
            "error[turns]: the turn limit was reached: 0 of 0 turns used (`--max-session-turns`)",
        ),
        (
            &["--max-tool-calls", "0"],
            55,
            "error[budget]: the tool-call budget was reached: 0 of 0 calls used, and the model asked for another (`--max-tool-calls`)",
        ),
    ];
    for (flags, code, message) in table {
        let server = Server::start([reply().call("c1", "list_directory", json!({"path": "."}))]);
        let run = tenon().server(&server).args(["-p", "hi", "-q"]).args(*flags).run();
        run.assert_code(*code);
        assert_eq!(run.stdout, "");
        assert_eq!(run.stderr.lines().next(), Some(*message), "{run}");
    }
    let server = Server::start([reply().hang_after_events(0)]);
    let run = tenon().server(&server).args(["-p", "hi", "-q", "--max-wall-time", "1s"]).run();
    run.assert_code(55);
    assert_eq!(
        run.stderr,
        "error[budget]: the wall-time budget of 1 s was used up (`--max-wall-time`)\nhint: raise `--max-wall-time`, or narrow the task\n"
    );
}

#[test]
fn contract_flags_have_their_effect() {
    let wrong = || reply().call("c1", "structured_output", json!({"a": "x"}));
    let right = || reply().call("c2", "structured_output", json!({"a": 1}));
    let server = Server::start([wrong(), right()]);
    let args = ["-p", "hi", "--json-schema", OBJECT, "--schema-mode", "tool"];
    let run = tenon().server(&server).args(args).run();
    run.assert_code(0);
    assert_eq!(run.stdout, "{\"a\":1}\n");

    let server = Server::start([wrong()]);
    let run = tenon().server(&server).args(args).args(["--max-schema-retries", "0"]).run();
    run.assert_code(53);
    assert_eq!(run.stdout, "");

    let server = Server::start([reply().text("It is 1."), right()]);
    let run = tenon().server(&server).args(args).args(["--schema-nudge", "1"]).run();
    run.assert_code(0);
    assert_eq!(server.request(1).tool_names(), ["structured_output"]);
}

#[test]
fn output_flags_have_their_effect() {
    let (text, _) = ask(["-p", "hi"]);
    assert_eq!(text.stdout, "ok\n");
    let (whole, _) = ask(["-p", "hi", "-o", "json", "--dialect", "qwen", "--no-color"]);
    assert_eq!(whole.json().as_array().unwrap().last().unwrap()["result"], "ok");
    let (plain, _) = ask(["-p", "hi", "-o", "stream-json"]);
    let (partial, _) = ask(["-p", "hi", "-o", "stream-json", "--include-partial-messages"]);
    let has_pieces = |run: &Run| run.json_lines().iter().any(|line| line["type"] == "stream_event");
    assert!(has_pieces(&partial) && !has_pieces(&plain));

    let server = Server::start([reply().call("c1", "structured_output", json!({"a": 1})).usage(1, 1)]);
    let args = ["-p", "hi", "--json-schema", OBJECT, "-o", "stream-json", "--result-text=off"];
    let run =
        tenon().server(&server).args(args).args(["--result-file", "out/r.json"]).file("out/x", "").run();
    run.assert_code(0);
    assert_eq!(run.last_json()["structured_result"], json!({"a": 1}));
    assert_eq!(run.last_json()["result"], Value::Null);
    assert_eq!(run.read("out/r.json"), "{\"a\":1}\n");

    let id = "123e4567-e89b-42d3-a456-426614174000";
    let (run, _) = ask(["-p", "hi", "-o", "stream-json", "--session-id", id]);
    assert!(run.json_lines().iter().all(|line| line["session_id"] == id), "{run}");
    assert!(run.json_lines()[0].get("channel").is_none(), "{run}");

    let (run, _) = ask(["-p", "hi", "-o", "stream-json", "--channel", "SDK"]);
    assert_eq!(run.json_lines()[0]["channel"], "SDK", "{run}");
}

#[test]
fn stderr_has_three_levels() {
    let chosen = "model `openai/test-model`: `OPENAI_API_KEY` is set, `OPENAI_MODEL` names the model\n";
    let run = |flags: &[&str]| {
        let list = reply().call("c1", "list_directory", json!({"path": "."})).usage(12, 3);
        let server = Server::start([list, reply().text("ok").usage(20, 4)]);
        let run = tenon().server(&server).args(["-p", "hi", "--betas", "x"]).args(flags).run();
        run.assert_code(0);
        run.stderr
    };
    let warning = "warning: `--betas` has no effect in tenon\n";
    assert_eq!(run(&["-q"]), "");
    assert_eq!(run(&["--quiet"]), "");
    assert_eq!(run(&[]), format!("{chosen}{warning}"));
    let verbose = run(&["--verbose"]);
    let verbose: Vec<&str> = verbose.lines().collect();
    assert_eq!(verbose.len(), 5, "one line for every request and every tool call: {verbose:?}");
    assert_eq!(verbose[2], "turn 1: 12 tokens in, 3 out");
    assert!(verbose[3].starts_with("tool: list_directory done in ") && verbose[3].ends_with(" ms"));
    assert_eq!(verbose[4], "turn 2: 20 tokens in, 4 out");
}

#[test]
fn a_heartbeat_is_a_line_of_the_stream_or_of_stderr() {
    let gate = tenon_testkit::Gate::new();
    let server = Server::start([reply().text("ok").hold(&gate)]);
    let mut run = tenon().server(&server).args(["-p", "hi", "-o", "stream-json", "--heartbeat", "1"]).spawn();
    run.json_where(|line| line["subtype"] == "heartbeat");
    gate.open();
    assert_eq!(run.wait().stderr.matches("heartbeat").count(), 0);

    let gate = tenon_testkit::Gate::new();
    let server = Server::start([reply().text("ok").hold(&gate)]);
    let mut run = tenon().server(&server).args(["-p", "hi", "--heartbeat=1"]).spawn();
    run.wait_for_stderr("heartbeat: the run goes on\n");
    gate.open();
    assert_eq!(run.wait().stdout, "ok\n");
}

#[test]
fn nothing_is_kept_when_nothing_may_be_kept() {
    let command = json!({"command": "seq 1 200000", "is_background": false});
    let kept = |flags: &[&str]| {
        let server =
            Server::start([reply().call("c1", "run_shell_command", command.clone()), reply().text("ok")]);
        let run = tenon().server(&server).args(["-y", "-p", "hi"]).args(flags).run();
        run.assert_code(0);
        assert!(server.request(1).tool_result("c1").contains("200000"));
        run.tenon_home().join("projects").exists()
    };
    assert!(kept(&[]));
    assert!(!kept(&["--no-session"]));
}

#[test]
fn a_recorded_run_can_be_replayed_without_a_server() {
    let folder = tenon().args(["-p", "hi", "-m", "m1"]);
    let server = Server::start([reply().text("ok")]);
    folder.clone().server(&server).args(["--record", "c.jsonl"]).run().assert_code(0);
    let run = folder.args(["--replay", "c.jsonl"]).run();
    run.assert_code(0);
    assert_eq!(run.stdout, "ok\n");
    assert!(!run.read("c.jsonl").contains("test-key"));
}

//! What people read who were not there: the levels of stderr, the log, the report.

use std::collections::BTreeSet;

use tenon_testkit::{Run, Server, Tenon, json, reply, scrub};

use super::tenon;

const CHOSEN: &str = "model `openai/test-model`: `OPENAI_API_KEY` is set, `OPENAI_MODEL` names the model";

/// Every line that a run can print, and the lowest level that shows it.
#[test]
fn each_line_has_its_level() {
    let scenes: [Scene; 5] = [
        (
            "a choice and a warning",
            a_choice_and_a_warning,
            &[(CHOSEN, Level::Default), ("warning: `--betas`", Level::Default)],
        ),
        (
            "requests and tools",
            requests_and_tools,
            &[
                ("turn 1: 12 tokens in, 3 out", Level::Verbose),
                ("tool: list_directory done in", Level::Verbose),
                ("tool: read_file failed in", Level::Verbose),
                ("turn 2: 20 tokens in, 4 out", Level::Verbose),
            ],
        ),
        (
            "retries",
            retries,
            &[("retry: attempt 2 in", Level::Default), ("retry: attempt 3 in", Level::Verbose)],
        ),
        (
            "a denial",
            a_denial,
            &[
                ("warning: `write_file` was denied", Level::Default),
                ("tool: write_file failed", Level::Verbose),
            ],
        ),
        ("an error", an_error, &[("error[protocol]: ", Level::Quiet)]),
    ];
    for (scene, play, lines) in scenes {
        let Run3 { quiet, default, verbose } = play();
        for (level, run) in [(Level::Quiet, &quiet), (Level::Default, &default), (Level::Verbose, &verbose)] {
            for (line, lowest) in lines {
                let shown = run.stderr.lines().filter(|shown| shown.starts_with(line)).count();
                assert_eq!(shown, usize::from(level >= *lowest), "{scene}, {level:?}: `{line}`: {run}");
            }
            let known = |shown: &str| {
                shown.starts_with("hint: ")
                    || shown == CHOSEN
                    || shown.starts_with("turn ")
                    || lines.iter().any(|(line, _)| shown.starts_with(line))
            };
            let unknown: Vec<&str> = run.stderr.lines().filter(|shown| !known(shown)).collect();
            assert!(unknown.is_empty(), "{scene}, {level:?}: {unknown:?}");
        }
    }
}

/// What it is called, how it is played, and its lines.
type Scene = (&'static str, fn() -> Run3, &'static [(&'static str, Level)]);

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Level {
    Quiet,
    Default,
    Verbose,
}

/// The same run at each level.
struct Run3 {
    quiet: Run,
    default: Run,
    verbose: Run,
}

fn at_each_level(run: impl Fn(Tenon) -> Run) -> Run3 {
    Run3 { quiet: run(tenon().arg("-q")), default: run(tenon()), verbose: run(tenon().arg("--verbose")) }
}

fn a_choice_and_a_warning() -> Run3 {
    at_each_level(|tenon| {
        let server = Server::start([reply().text("ok").usage(1, 1)]);
        tenon.server(&server).args(["-p", "hi", "--betas", "x"]).run()
    })
}

fn requests_and_tools() -> Run3 {
    at_each_level(|tenon| {
        let calls = reply()
            .call("c1", "list_directory", json!({"path": "."}))
            .call("c2", "read_file", json!({"file_path": "none"}))
            .usage(12, 3);
        let server = Server::start([calls, reply().text("ok").usage(20, 4)]);
        tenon.server(&server).args(["-p", "hi"]).run()
    })
}

fn retries() -> Run3 {
    at_each_level(|tenon| {
        let server = Server::start([reply().status(503), reply().status(503), reply().text("ok")]);
        let settings = r#"{"retry": {"baseMs": 1}}"#;
        tenon.server(&server).home_file("settings.json", settings).args(["-p", "hi"]).run()
    })
}

fn a_denial() -> Run3 {
    at_each_level(|tenon| {
        let write = json!({"file_path": "/tmp/x", "content": "CONTENT"});
        let server = Server::start([reply().call("c1", "write_file", write), reply().text("ok")]);
        tenon.server(&server).args(["-p", "hi"]).run()
    })
}

fn an_error() -> Run3 {
    at_each_level(|tenon| {
        let server = Server::start([reply().status(400)]);
        tenon.server(&server).args(["-p", "hi"]).run()
    })
}

fn logged(filter: &str) -> Run {
    let command = json!({"command": "echo SAID_BY_A_COMMAND", "is_background": false});
    let server = Server::start([
        reply().status(503),
        reply().text("SAID_BY_THE_MODEL").call("c1", "run_shell_command", command).usage(3, 4),
        reply().text("ok"),
    ]);
    let run = tenon()
        .server(&server)
        .home_file("settings.json", r#"{"retry": {"baseMs": 1}}"#)
        .env("RUST_LOG", filter)
        .args(["-y", "-q", "-p", "SAID_BY_THE_USER", "-m", "test-model"])
        .run();
    run.assert_code(0);
    run
}

#[test]
fn the_log_is_ours_alone_and_says_what_happened_not_what_was_said() {
    assert_eq!(logged("").stderr, "");
    assert_eq!(logged("off").stderr, "");
    assert_eq!(logged("hyper=trace,reqwest=trace,rustls=trace,h2=trace").stderr, "");
    let run = logged("trace");
    let parts: BTreeSet<&str> = run
        .stderr
        .lines()
        .map(|line| {
            line.split_whitespace().nth(2).and_then(|target| target.split("::").next()).unwrap_or(line)
        })
        .collect();
    assert!(parts.iter().all(|part| part.starts_with("tenon_")), "{parts:?}");
    assert!(parts.is_superset(&["tenon_agent", "tenon_model", "tenon_tools"].into()), "{parts:?}");
    for word in
        ["status=503", "asked again", "tool=\"run_shell_command\"", "run ended exit_code=0", "tokens_out=4"]
    {
        assert!(run.stderr.contains(word), "no `{word}`: {run}");
    }
    for said in ["SAID_BY", "test-key", "Bearer", "authorization", "echo"] {
        assert!(!run.stderr.contains(said), "`{said}`: {run}");
    }
    let only = logged("tenon_model=debug");
    assert!(
        only.stderr.lines().all(|line| line.contains("tenon_model")) && !only.stderr.is_empty(),
        "{only}"
    );
    let wrong = logged("tenon=loud");
    assert_eq!(wrong.stderr, "warning: `RUST_LOG` is not a filter such as `debug` or `tenon_model=trace`\n");
}

#[test]
fn a_log_that_nobody_reads_does_not_matter() {
    let server = Server::start([reply().text("ok")]);
    let script = "exec 2>&-; exec \"$0\" -p hi";
    let run = tenon_testkit::Tenon::new("/bin/bash")
        .server(&server)
        .env("RUST_LOG", "trace")
        .args(["-c", script, env!("CARGO_BIN_EXE_tenon")])
        .run();
    assert_eq!((run.code, run.stdout.as_str()), (0, "ok\n"), "{run}");
}

#[test]
fn a_report_shows_the_setup_and_no_secret() {
    let server = Server::start([reply().text("TEXT_OF_THE_ANSWER")]);
    let settings = r#"{
        "model": "openai/test-model",
        "providers": {"mine": {"wire": "openai", "baseUrl": "https://u:SECRET_A@example.com/v1?k=SECRET_B", "apiKeyEnv": "MY_KEY",
                               "headers": {"x-token": "$MY_HEADER", "x-plain": "SECRET_C_LITERAL"}}},
        "mcpServers": {"files": {"command": "mcp-files", "env": {"TOKEN": "SECRET_D"}}},
        "limits": {"turns": 7}
    }"#;
    let setup = tenon()
        .server(&server)
        .home_file("settings.json", settings)
        .env("MY_KEY", "SECRET_KEY_E")
        .env("MY_HEADER", "SECRET_HEADER_F")
        .env("UNRELATED", "SECRET_G");
    // A session to report on.
    setup.clone().args(["-p", "TEXT_OF_THE_PROMPT"]).run();
    let run = setup.args(["doctor", "--report", "out/../r.json"]).file("out/x", "").run();
    assert!(run.stdout.lines().last().is_some_and(|line| line.starts_with("report: ")), "{run}");
    let text = run.read("r.json");
    for secret in ["SECRET_", "test-key", "TEXT_OF"] {
        assert!(!text.contains(secret), "`{secret}`: {text}");
    }
    let report: tenon_testkit::Value = serde_json::from_str(&text).expect("JSON");
    let keys: Vec<&str> = report.as_object().unwrap().keys().map(String::as_str).collect();
    assert_eq!(keys, ["report", "tenon", "system", "findings", "settings", "environment", "last_session"]);
    assert_eq!(report["tenon"]["version"], env!("CARGO_PKG_VERSION"));
    assert_eq!(report["settings"][0]["content"]["providers"]["mine"]["baseUrl"], "https://example.com/v1");
    assert_eq!(
        report["settings"][0]["content"]["providers"]["mine"]["headers"],
        json!({"x-token": "***", "x-plain": "***"})
    );
    assert_eq!(report["settings"][0]["content"]["limits"], json!({"turns": 7}));
    let names: Vec<&str> =
        report["environment"].as_array().unwrap().iter().filter_map(|name| name.as_str()).collect();
    for (name, listed) in
        [("OPENAI_API_KEY", true), ("MY_KEY", true), ("MY_HEADER", true), ("UNRELATED", false)]
    {
        assert_eq!(names.contains(&name), listed, "{name}: {names:?}");
    }
    use std::os::unix::fs::PermissionsExt;
    let mode = std::fs::metadata(run.workspace().join("r.json")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
}

#[test]
fn a_report_that_cannot_be_written_says_so() {
    let run = tenon().args(["doctor", "--report", "no/such/folder/r.json"]).run();
    assert_eq!((run.code, run.stdout.as_str()), (42, ""), "{run}");
    assert_eq!(
        scrub(&run.stderr),
        "error[input]: `--report no/such/folder/r.json` cannot be written: No such file or directory (os error 2)\n"
    );
}

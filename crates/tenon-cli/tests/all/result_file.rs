//! `--result-file`: whole or not at all, never stale, and never at the cost of another file.

use std::os::unix::fs::FileTypeExt;

use tenon_testkit::{Server, json, reply};

use crate::tenon;

fn payload() -> tenon_testkit::Reply {
    reply().call("c", "structured_output", json!({"n": 1}))
}

#[test]
fn files_that_the_run_uses_otherwise_are_not_touched() {
    let server = Server::start([]);
    for (flag, value, file) in [
        ("--prompt-file", "mine.txt", "mine.txt"),
        ("--system-prompt-file", "./mine.txt", "mine.txt"),
        ("--json-schema", "@mine.txt", "mine.txt"),
        ("--settings", "mine.txt", "mine.txt"),
        ("--replay", "mine.txt", "mine.txt"),
        ("--record", "new.jsonl", "new.jsonl"),
    ] {
        let setup = tenon().server(&server).file("mine.txt", "precious");
        let prompt: &[&str] = if flag == "--prompt-file" { &[] } else { &["-p", "hi"] };
        let run = setup.args(prompt).args([flag, value, "--result-file", file]).run();
        run.assert_code(2);
        let message = format!("error[usage]: `--result-file` and `{flag}` name the same file: {file}\n");
        assert!(run.stderr.starts_with(&message), "{run}");
        assert_eq!(run.read("mine.txt"), "precious");
    }
    assert_eq!(server.requests().len(), 0);
}

#[test]
fn devices_pipes_and_folders_are_refused_and_left_alone() {
    let server = Server::start([]);
    let setup = tenon().server(&server).file("folder/x", "");
    let made = std::process::Command::new("mkfifo").arg(setup.workspace().join("pipe")).status().unwrap();
    assert!(made.success());
    std::os::unix::fs::symlink("/dev/null", setup.workspace().join("link")).unwrap();
    let setup = setup.args(["-p", "hi", "--result-file"]);
    for (file, why) in [
        ("pipe", "it is not a regular file"),
        ("link", "it is not a regular file"),
        ("folder", "it is a folder"),
        ("folder/", "it names a folder"),
        ("new/", "it names a folder"),
    ] {
        let run =
            tenon().server(&server).cwd(setup.workspace()).args(["-p", "hi", "--result-file", file]).run();
        run.assert_code(42);
        assert_eq!(run.stderr, format!("error[input]: `--result-file {file}` cannot be written: {why}\n"));
    }
    assert!(std::fs::metadata(setup.workspace().join("pipe")).unwrap().file_type().is_fifo());
    assert!(std::fs::symlink_metadata(setup.workspace().join("link")).unwrap().is_symlink());
    assert_eq!(server.requests().len(), 0);
}

#[test]
fn a_payload_that_cannot_be_delivered_is_still_in_the_result() {
    let server =
        Server::start([reply().call("r", "run_shell_command", json!({"command": "rm -r out"})), payload()]);
    let setup = tenon().server(&server).file("out/keep", "");
    let run = setup
        .args(["-y", "-p", "hi", "--json-schema", "{}", "-o", "json", "--result-file", "out/r.json"])
        .run();
    run.assert_code(42);
    let result = run.json().as_array().unwrap().last().unwrap().clone();
    assert_eq!(result["is_error"], json!(true));
    assert_eq!(result["structured_error"], json!({"attempts": 1, "candidate": {"n": 1}, "violations": []}));
}

#[test]
fn a_home_that_cannot_be_written_is_told_and_costs_nothing() {
    let server = Server::start([payload()]);
    let setup = tenon().server(&server).file("plain", "");
    let home = setup.workspace().join("plain/home");
    let run =
        setup.env("TENON_HOME", home).args(["-m", "test-model", "-p", "hi", "--json-schema", "{}"]).run();
    run.assert_code(0);
    assert_eq!(run.stdout, "{\"n\":1}\n");
    assert!(
        run.stderr
            .contains("cannot be written, so the session is not recorded, and outputs too large for the model are kept only for this run"),
        "{run}"
    );
}

#[test]
fn a_key_in_a_providers_header_reaches_neither_commands_nor_cassettes() {
    let server = Server::start([
        reply().call("r", "run_shell_command", json!({"command": "echo T=$TOKEN I=$INSIDE"})),
        payload(),
    ]);
    let settings = json!({"providers": {"corp": {
        "wire": "openai", "baseUrl": server.base_url(), "headers": {"x-api-key": "$TOKEN"}, "models": ["m"]
    }}});
    let setup = tenon();
    let tenon_home = setup.tenon_home();
    std::fs::create_dir_all(&tenon_home).unwrap();
    std::fs::write(tenon_home.join("settings.json"), settings.to_string()).unwrap();
    let run = setup
        .env("TOKEN", "tok-abcdef-998877")
        .env("INSIDE", "a tok-abcdef-998877 b")
        .args(["-y", "-m", "corp/m", "-p", "hi", "--json-schema", "{}", "--record", "c.jsonl"])
        .run();
    run.assert_code(0);
    assert_eq!(server.request(0).header("x-api-key"), Some("tok-abcdef-998877"));
    assert!(server.request(1).tool_result("r").contains("T= I="), "{}", server.request(1).tool_result("r"));
    assert!(!run.read("c.jsonl").contains("998877"));
}

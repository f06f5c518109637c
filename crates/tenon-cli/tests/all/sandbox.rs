//! `--sandbox` and `sandbox.*` at the command line, on the kernel the tests run on.

#![allow(clippy::print_stderr, reason = "why a test was skipped")]

use tenon_testkit::{Run, Server, Tenon, Value, json, reply};
use tenon_tools::KernelSupport;

use super::tenon;

fn kernel_can() -> bool {
    let kernel = KernelSupport::here();
    let can = kernel.landlock >= 3 && kernel.seccomp;
    if !can {
        #[expect(clippy::print_stderr, reason = "whoever reads the test's output wants to know")]
        {
            eprintln!("skipped: this kernel offers {kernel:?}");
        }
    }
    can
}

/// Runs one command as the model would, and returns the run, its `init` and what the model was told.
fn run(setup: Tenon, command: &str) -> (Run, Value, String) {
    let server = Server::start([
        reply().call("c1", "run_shell_command", json!({"command": command})),
        reply().text("ok"),
    ]);
    let run = setup.server(&server).args(["-m", "test-model", "-y", "-p", "go", "-o", "json"]).run();
    run.assert_code(0);
    let init = run.json()[0].clone();
    let told = server.request(1).tool_result("c1").to_owned();
    (run, init, told)
}

#[test]
fn commands_are_confined_unless_somebody_says_otherwise() {
    if !kernel_can() {
        return;
    }
    let outside = "echo x > $HOME/outside; cat $HOME/.ssh/key; cat $TENON_HOME/settings.json; true";
    let setup = || tenon().home_file("../.ssh/key", "HUSH").home_file("settings.json", "{} // HUSH");
    let (_, init, told) = run(setup(), outside);
    assert_eq!(init["sandbox"], "files");
    assert!(!told.contains("HUSH") && told.contains("Permission denied"), "{told}");
    let (_, init, told) = run(setup().arg("--sandbox=off"), outside);
    assert_eq!(init["sandbox"], "off");
    assert!(told.contains("HUSH"), "{told}");
    for flag in ["--sandbox", "--sandbox=auto"] {
        assert_eq!(run(setup().arg(flag), "true").1["sandbox"], "files", "{flag}");
    }
    assert_eq!(run(setup().arg("--bare"), "true").1["sandbox"], "files");
}

#[test]
fn what_lies_in_the_workspace_and_the_temporary_folder_is_writable() {
    if !kernel_can() {
        return;
    }
    let command = "echo a > in && cat in && t=$(mktemp) && echo b > $t && cat $t && rm $t && echo c > kept && mv kept in2 && cat in2";
    let (_, _, told) = run(tenon(), command);
    assert!(told.contains("Exit Code: 0") && told.contains("a\nb\nc"), "{told}");
}

#[test]
fn settings_open_and_close_more() {
    if !kernel_can() {
        return;
    }
    let settings = json!({"sandbox": {"writable": ["~/cache"], "secretFolders": ["~/vault"]}}).to_string();
    let setup = || {
        tenon()
            .home_file("settings.json", &settings)
            .home_file("../vault/key", "HUSH")
            .home_file("../cache/x", "")
    };
    let (_, _, told) = run(setup(), "echo x > ~/cache/y && cat ~/cache/y; cat ~/vault/key");
    assert!(told.contains("Output: x") && !told.contains("HUSH"), "{told}");
    assert!(told.contains("Note: commands run in a sandbox that lets them write only in"), "{told}");
}

#[test]
fn a_denied_network_is_denied() {
    if !kernel_can() {
        return;
    }
    let socket = "python3 -c 'import socket; socket.socket()'";
    for setup in [
        tenon().arg("--sandbox=require"),
        tenon().home_file("settings.json", r#"{"sandbox": {"network": "deny"}}"#),
        tenon().file(".tenon/settings.json", r#"{"sandbox": {"mode": "require"}}"#),
    ] {
        let (_, init, told) = run(setup, socket);
        assert_eq!(init["sandbox"], "files+network");
        assert!(told.contains("PermissionError"), "{told}");
    }
    let (_, _, told) = run(tenon(), socket);
    assert!(told.contains("Exit Code: 0"), "{told}");
}

#[test]
fn an_untrusted_project_opens_nothing() {
    if !kernel_can() {
        return;
    }
    let greedy = r#"{"sandbox": {"mode": "off", "network": "allow", "writable": ["/"]}}"#;
    let (run, init, told) = run(tenon().file(".tenon/settings.json", greedy), "echo x > ~/outside");
    assert_eq!(init["sandbox"], "files");
    assert!(told.contains("Permission denied"), "{told}");
    assert!(run.stderr.contains("`sandbox.mode`") && run.stderr.contains("`sandbox.writable`"), "{run}");
}

#[test]
fn contradictions_and_unknown_modes_are_refused() {
    let run = tenon()
        .home_file("settings.json", r#"{"sandbox": {"mode": "off", "network": "deny"}}"#)
        .env("OPENAI_API_KEY", "k")
        .args(["-m", "test-model", "-p", "go"])
        .run();
    run.assert_code(52);
    assert!(run.stderr.contains("contradict each other"), "{run}");
    let run = tenon().args(["--sandbox=maybe", "-p", "go"]).run();
    run.assert_code(2);
    assert!(run.stderr.contains("require"), "{run}");
}

#[test]
fn bare_says_how_many_deny_rules_it_leaves_out() {
    for (settings, expected) in [
        (
            r#"{"permissions": {"deny": ["Read(.env)", "Bash(rm:*)"]}, "tools": {"exclude": ["edit"]}}"#,
            Some("3 deny rules"),
        ),
        (r#"{"permissions": {"deny": ["Read(.env)"]}}"#, Some("1 deny rule ")),
        (r#"{"permissions": {"allow": ["Bash"]}}"#, None),
        ("{ not settings", Some("cannot be read")),
    ] {
        let server = Server::start([reply().text("ok")]);
        let run = tenon()
            .home_file("settings.json", settings)
            .server(&server)
            .args(["-m", "test-model", "--bare", "-p", "go"])
            .run();
        run.assert_code(0);
        let warnings: Vec<&str> = run.stderr.lines().filter(|line| line.contains("--bare")).collect();
        match expected {
            Some(expected) => assert!(warnings.len() == 1 && warnings[0].contains(expected), "{run}"),
            None => assert!(warnings.is_empty(), "{run}"),
        }
    }
}

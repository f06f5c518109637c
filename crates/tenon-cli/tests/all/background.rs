//! Commands in the background, seen from outside: what clients and the model are told, and that nothing is
//! left when the run is over, however it ends.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use tenon_testkit::{Gate, Run, Server, Signal, Value, json, reply};

use super::tenon;

const SCHEMA: &str = r#"{"type":"object","properties":{"ok":{"type":"boolean"}},"required":["ok"]}"#;
/// A command that runs until somebody ends it, and listens to nobody who asks nicely.
const DEAF: &str = "trap '' TERM; (trap '' TERM; echo $BASHPID > pid2.tmp; mv pid2.tmp pid2; while :; do sleep 0.05; done) & \
                    echo $$ > pid1.tmp; mv pid1.tmp pid1; while :; do sleep 0.05; done";

fn background(command: &str) -> Value {
    json!({"command": command, "is_background": true, "description": "the server"})
}

fn until(what: &str, mut so: impl FnMut() -> bool) {
    for _ in 0..3_000 {
        if so() {
            return;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    panic!("{what} did not happen");
}

fn runs(pid: &str) -> bool {
    let stat = fs::read_to_string(Path::new("/proc").join(pid.trim()).join("stat"));
    stat.is_ok_and(|stat| !stat.rsplit(')').next().unwrap_or_default().trim_start().starts_with('Z'))
}

#[track_caller]
fn both_are_gone(workspace: &Path) {
    for name in ["pid1", "pid2"] {
        let pid = fs::read_to_string(workspace.join(name)).unwrap();
        until("the end of the command", || !runs(&pid));
    }
}

/// The messages about tasks: subtype and data.
fn task_lines(run: &Run) -> Vec<(String, Value)> {
    run.json_lines()
        .into_iter()
        .filter(|line| {
            line["type"] == "system" && line["subtype"].as_str().is_some_and(|s| s.starts_with("task_"))
        })
        .map(|line| (line["subtype"].as_str().unwrap().to_owned(), line["data"].clone()))
        .collect()
}

fn file_in(told: &str) -> PathBuf {
    let line = told.lines().find(|line| line.starts_with("Its output ")).unwrap();
    PathBuf::from(&line[line.find('/').unwrap()..])
}

#[test]
fn the_end_of_a_command_is_told_to_the_client_and_to_the_model() {
    let gate = Gate::new();
    let server = Server::start([
        reply().call(
            "c1",
            "run_shell_command",
            background("until [ -e go ]; do sleep 0.01; done; echo built; exit 3"),
        ),
        // The model is still busy when the command ends.
        reply().call("c2", "list_directory", json!({"path": "."})).hold(&gate),
        reply().text("Done."),
    ]);
    let setup = tenon().server(&server).args(["-p", "Go.", "-y", "-o", "stream-json"]);
    let mut running = setup.spawn();
    running.json_where(|line| line["type"] == "user");
    fs::write(setup.workspace().join("go"), "").unwrap();
    running.json_where(|line| line["subtype"] == "task_notification");
    gate.open();
    let run = running.wait();
    run.assert_code(0);
    let told = server.request(1).tool_result("c1");
    let file = file_in(&told);
    assert_eq!(fs::read_to_string(&file).unwrap(), "built\n");
    let lines = task_lines(&run);
    assert_eq!(
        lines.iter().map(|(subtype, _)| subtype.as_str()).collect::<Vec<_>>(),
        ["task_started", "task_notification"]
    );
    let id = lines[0].1["task_id"].as_str().unwrap();
    assert!(told.starts_with(&format!("The command runs in the background as {id} (process ")), "{told}");
    assert_eq!(
        lines[0].1,
        json!({"task_id": id, "tool_use_id": "c1", "kind": "shell", "description": "the server"})
    );
    let end = &lines[1].1;
    assert_eq!(
        (&end["task_id"], &end["status"], &end["tool_use_id"]),
        (&json!(id), &json!("failed"), &json!("c1"))
    );
    // Between turns the model hears of it, with the end of the output.
    let summary = format!("Background shell {id} (the server) exited with code 3.");
    let news = server.request(2).user_text();
    assert!(
        news.contains(&format!(
            "{summary}\nIts output is in {}\nThe end of its output:\nbuilt",
            file.display()
        )),
        "{news}"
    );
}

#[test]
fn a_command_is_promoted_when_it_takes_too_long() {
    let server = Server::start([
        reply().call("c1", "run_shell_command", json!({"command": "echo early; sleep 60"})),
        reply().text("Done."),
    ]);
    let run =
        tenon().server(&server).args(["-p", "Go.", "-y", "-o", "stream-json", "--promote-after", "1"]).run();
    run.assert_code(0);
    let told = server.request(1).tool_result("c1");
    assert!(told.starts_with("The command was put in the background as bg_"), "{told}");
    assert!(told.ends_with("Its output until then:\nearly\n"), "{told}");
    let lines = task_lines(&run);
    assert_eq!(
        (lines[0].1["tool_use_id"].as_str(), lines[1].1["status"].as_str()),
        (Some("c1"), Some("cancelled"))
    );
    assert_eq!(fs::read_to_string(file_in(&told)).unwrap(), "early\n");
    // The same from settings; a flag comes first.
    let settings = |ms: u64| json!({"tools": {"shell": {"promoteAfterMs": ms}}}).to_string();
    for (setup, promoted) in [
        (tenon().home_file("settings.json", settings(200)), true),
        (tenon().home_file("settings.json", settings(200)).args(["--promote-after", "100"]), false),
    ] {
        let server = Server::start([
            reply().call("c1", "run_shell_command", json!({"command": "sleep 1"})),
            reply().text("Done."),
        ]);
        setup.server(&server).args(["-p", "Go.", "-y"]).run().assert_code(0);
        let told = server.request(1).tool_result("c1");
        assert_eq!(told.contains("put in the background"), promoted, "{told}");
    }
    tenon().args(["-p", "Go.", "--promote-after", "0"]).run().assert_code(2);
}

#[test]
fn a_monitor_ends_with_the_run_and_what_is_unknown_cannot_be_stopped() {
    let server = Server::start([
        reply().call("c1", "monitor", json!({"command": "sleep 60", "description": "the log"})),
        reply().text("Waiting."),
    ]);
    let run = tenon().server(&server).args(["-p", "Go.", "-y", "-o", "stream-json"]).run();
    run.assert_code(0);
    let lines = task_lines(&run);
    assert_eq!(
        (lines[0].1["kind"].as_str(), lines[1].1["status"].as_str()),
        (Some("monitor"), Some("cancelled"))
    );
    let id = "bg_00000000";
    let server =
        Server::start([reply().call("c1", "task_stop", json!({"task_id": id})), reply().text("Done.")]);
    // No rule is needed to stop what was allowed before.
    tenon().server(&server).args(["-p", "Go."]).run().assert_code(0);
    assert_eq!(server.request(1).tool_result("c1"), format!("There is no background task `{id}`."));
}

#[test]
fn rules_for_the_shell_are_rules_for_monitors() {
    for (rules, args, denied) in [
        (vec![], json!({"command": "echo x"}), true),
        (vec!["--allowed-tools", "Bash"], json!({"command": "sleep 60"}), false),
        (vec!["-y", "--exclude-tools", "Bash(rm *)"], json!({"command": "rm x"}), true),
        (vec!["-y", "--exclude-tools", "Monitor(rm *)"], json!({"command": "rm x"}), true),
    ] {
        let server = Server::start([reply().call("c1", "monitor", args.clone()), reply().text("Done.")]);
        tenon().server(&server).args(["-p", "Go."]).args(&rules).run().assert_code(0);
        let told = server.request(1).tool_result("c1");
        assert_eq!(told.starts_with("Denied: "), denied, "{rules:?} {args}: {told}");
    }
}

#[test]
fn a_payload_is_not_held_up_by_what_still_runs() {
    let server = Server::start([
        reply().call("c1", "run_shell_command", background(DEAF)),
        reply().call("s1", "structured_output", json!({"ok": true})),
    ]);
    let setup =
        tenon().server(&server).args(["-p", "Go.", "-y", "-o", "stream-json", "--json-schema", SCHEMA]);
    let run = setup.run();
    run.assert_code(0);
    assert_eq!(run.last_json()["structured_result"], json!({"ok": true}));
    let lines = task_lines(&run);
    assert_eq!(lines.last().unwrap().1["status"], "cancelled");
    both_are_gone(run.workspace());
}

#[test]
fn nothing_is_left_of_a_run_that_is_interrupted() {
    for (signal, code) in [(Signal::Interrupt, 130), (Signal::Terminate, 143)] {
        let gate = Gate::new();
        let server = Server::start([
            reply().call("c1", "run_shell_command", background(DEAF)),
            reply().text("Never.").hold(&gate),
        ]);
        let setup = tenon().arg("--no-session");
        let temp = setup.workspace().parent().unwrap().join("tmp");
        fs::create_dir(&temp).unwrap();
        let setup = setup.env("TMPDIR", &temp).server(&server).args(["-p", "Go.", "-y", "-o", "stream-json"]);
        let mut running = setup.spawn();
        until("the start of the command", || {
            setup.workspace().join("pid1").exists() && setup.workspace().join("pid2").exists()
        });
        running.signal(signal);
        let run = running.wait();
        run.assert_code(code);
        let lines = task_lines(&run);
        assert_eq!(
            lines.iter().map(|(_, data)| data["status"].clone()).collect::<Vec<_>>(),
            [Value::Null, json!("cancelled")]
        );
        assert_eq!(run.last_json()["type"], "result");
        both_are_gone(run.workspace());
        assert_eq!(fs::read_dir(&temp).unwrap().count(), 0);
    }
}

/// A full disk, as far as this process is concerned.
#[test]
fn output_that_no_longer_fits_is_counted_and_the_command_goes_on() {
    let server = Server::start([
        reply().call(
            "c1",
            "run_shell_command",
            background(
                "until [ -e go ]; do sleep 0.01; done; head -c 1000000 /dev/zero | tr '\\0' x; exit 0",
            ),
        ),
        reply().call(
            "c2",
            "run_shell_command",
            json!({"command": "touch go; until [ -e seen ]; do sleep 0.01; done"}),
        ),
        reply().text("Done."),
    ]);
    let setup = tenon().server(&server);
    let script = "trap '' XFSZ; ulimit -f 100; exec \"$@\"";
    let mut child = Command::new("bash")
        .args([
            "-c",
            script,
            "bash",
            env!("CARGO_BIN_EXE_tenon"),
            "-m",
            "test-model",
            "-p",
            "Go.",
            "-y",
            "-o",
            "stream-json",
        ])
        .args(["--no-session", "--stdin", "ignore"])
        .current_dir(setup.workspace())
        .env("HOME", setup.home())
        .env("TENON_HOME", setup.tenon_home())
        .env("OPENAI_API_KEY", "test")
        .env("OPENAI_BASE_URL", server.base_url())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut stdout = std::io::BufReader::new(child.stdout.take().unwrap());
    let mut text = String::new();
    let workspace = setup.workspace().to_owned();
    while std::io::BufRead::read_line(&mut stdout, &mut text).unwrap() > 0 {
        if text.lines().last().unwrap().contains("task_notification") {
            fs::write(workspace.join("seen"), "").unwrap();
        }
    }
    assert!(child.wait().unwrap().success(), "{text}");
    let news = server.request(2).user_text();
    assert!(news.contains("exited with code 0."), "{news}");
    // 100 blocks of 1 KiB are there.
    assert!(news.contains("could not be kept: File too large (os error 27)."), "{news}");
    assert!(news.contains("bytes of its output ("), "{news}");
}

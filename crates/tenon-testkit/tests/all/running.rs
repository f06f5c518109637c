//! The runner, with a shell in the place of the binary.

use std::time::Duration;

use tenon_testkit::{Server, Signal, Tenon, json, reply};

fn shell(script: &str) -> Tenon {
    Tenon::new("/bin/sh").args(["-c", script])
}

#[test]
fn a_run_has_its_own_surroundings() {
    let server = Server::start([reply()]);
    let tenon = shell("env | sort; pwd; cat sub/a.txt; cat \"$TENON_HOME/settings.json\"")
        .server(&server)
        .env("EXTRA", "1")
        .env("GONE", "1")
        .env_remove("GONE")
        .file("sub/a.txt", "hello")
        .home_file("settings.json", "{}");
    let run = tenon.run();
    run.assert_code(0);
    let workspace = tenon.workspace().to_str().unwrap();
    let home = tenon.home().to_str().unwrap();
    let path = std::env::var("PATH").unwrap();
    let expected = format!(
        "EXTRA=1\nHOME={home}\nOPENAI_API_KEY=test-key\nOPENAI_BASE_URL={}\nOPENAI_MODEL=test-model\nPATH={path}\n\
         PWD={workspace}\nTENON_HOME={home}/.tenon\n{workspace}\nhello{{}}",
        server.base_url()
    );
    let seen: Vec<&str> =
        run.stdout.lines().filter(|line| !line.starts_with("_=") && !line.starts_with("SHLVL=")).collect();
    assert_eq!(seen.join("\n").replace("OLDPWD=\n", ""), expected);
}

#[test]
fn the_workspace_outlives_the_command_line() {
    let run = shell("echo made > new.txt").run();
    assert_eq!(run.read("new.txt"), "made\n");
    let path = run.workspace().to_owned();
    drop(run);
    assert!(!path.exists());
}

#[test]
fn stdin_is_closed_given_or_idle() {
    assert_eq!(shell("cat; echo end").run().stdout, "end\n");
    assert_eq!(shell("cat; echo end").stdin("text ").run().stdout, "text end\n");
    // An idle pipe has no end: a read that waits for it is still waiting when its time is up.
    let idle = shell("timeout 0.2 cat; echo code $?").stdin_idle().run();
    assert_eq!(idle.stdout, "code 124\n");
}

#[test]
fn a_large_stdin_that_nobody_reads_does_not_block() {
    shell("exit 3").stdin(vec![b'x'; 4 << 20]).run().assert_code(3);
}

#[test]
fn outputs_are_parsed() {
    let run = shell(r#"printf '{"a":1}\n{"b":2}\n'; echo note >&2; exit 4"#).run();
    assert_eq!(run.json_lines(), [json!({"a": 1}), json!({"b": 2})]);
    assert_eq!(run.last_json(), json!({"b": 2}));
    assert_eq!((run.code, run.stderr.as_str()), (4, "note\n"));
    assert_eq!(shell("echo '[1]'").run().json(), json!([1]));
}

#[test]
fn a_failed_assertion_shows_the_whole_run() {
    let run = shell("echo out; echo err >&2; exit 1").run();
    let shown = std::panic::catch_unwind(|| run.assert_code(0).code).unwrap_err();
    let shown = shown.downcast_ref::<String>().unwrap();
    for part in [
        "$ /bin/sh -c 'echo out; echo err >&2; exit 1'",
        "exit code 1",
        "--- stdout\nout\n",
        "--- stderr\nerr\n",
    ] {
        assert!(shown.contains(part), "`{part}` is missing in:\n{shown}");
    }
}

#[test]
#[should_panic(expected = "still running after 200ms, killed")]
fn a_hang_is_a_failed_test() {
    shell("echo before; sleep 1000").limit(Duration::from_millis(200)).run();
}

#[test]
fn a_conversation_with_a_live_process() {
    let mut running =
        shell(r#"while read -r line; do echo "got $line"; done; echo bye"#).stdin_idle().spawn();
    running.write("one\n");
    assert_eq!(running.line().as_deref(), Some("got one"));
    running.write("two\nthree\n");
    assert_eq!(running.line().as_deref(), Some("got two"));
    assert_eq!(running.line().as_deref(), Some("got three"));
    assert!(!running.has_ended());
    running.close_stdin();
    assert_eq!(running.line().as_deref(), Some("bye"));
    assert_eq!(running.line(), None);
    let run = running.wait();
    assert_eq!((run.code, run.stdout.as_str()), (0, "got one\ngot two\ngot three\nbye\n"));
}

#[test]
fn json_lines_are_exchanged() {
    let mut running = shell(r#"echo '{"n":1}'; echo '{"n":2}'; cat"#).stdin_idle().spawn();
    assert_eq!(running.json_where(|line| line["n"] == 2), json!({"n": 2}));
    running.write_json(&json!({"n": 3}));
    assert_eq!(running.json(), json!({"n": 3}));
}

#[test]
fn signals_reach_the_process() {
    for (signal, name, code) in
        [(Signal::Interrupt, "INT", 130), (Signal::Terminate, "TERM", 143), (Signal::HangUp, "HUP", 129)]
    {
        let script =
            format!("trap 'echo caught; exit {code}' {name}; echo ready >&2; while :; do sleep 0.01; done");
        let mut running = shell(&script).spawn();
        running.wait_for_stderr("ready");
        running.signal(signal);
        let run = running.wait();
        assert_eq!((run.code, run.stdout.as_str()), (code, "caught\n"), "{name}");
    }
    let mut running = shell("echo ready >&2; sleep 1000").spawn();
    running.wait_for_stderr("ready");
    running.signal(Signal::Kill);
    // The shell may have replaced itself by `sleep` or left it behind; dropping the handle ends both.
    while !running.has_ended() {
        std::thread::yield_now();
    }
}

#[test]
#[should_panic(expected = "no line on stdout within 100ms")]
fn a_line_that_never_comes_fails_the_test() {
    shell("echo noise >&2; sleep 1000").spawn().line_within(Duration::from_millis(100));
}

//! Readers that leave, are slow or do not exist; files that are full; many runs at once.

use std::io::{BufRead, BufReader, Read};
use std::process::{Command, Stdio};
use std::time::Duration;

use tenon_testkit::{Gate, Run, Server, Signal, Tenon, Value, json, reply};

use super::tenon;

const ARGS: [&str; 5] = ["-q", "-m", "test-model", "-p", "go"];
const SOON: Duration = Duration::from_secs(30);

/// The binary as a plain command, for what `Tenon` takes care of and a test wants to get wrong: its pipes.
pub fn command(tenon: &Tenon, server: &Server) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tenon"));
    command
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        .env("HOME", tenon.home())
        .env("TENON_HOME", tenon.tenon_home())
        .env("OPENAI_BASE_URL", server.base_url())
        .env("OPENAI_API_KEY", "test-key")
        .current_dir(tenon.workspace())
        .stdin(Stdio::null());
    command
}

/// In a shell: `$@` is the command line. Its own stdout and exit code are the script's.
fn in_shell(script: &str, server: &Server, args: &[&str]) -> Run {
    Tenon::new("bash")
        .server(server)
        .args(["-c", script, "bash", env!("CARGO_BIN_EXE_tenon")])
        .args(ARGS)
        .args(args)
        .run()
}

#[test]
fn a_reader_that_left_before_the_result_gets_none() {
    let gate = Gate::new();
    let server = Server::start([reply().text("too late").hold(&gate)]);
    let tenon = tenon();
    let args = ["-o", "stream-json", "--result-file", "r.txt"];
    let mut child = command(&tenon, &server)
        .args(ARGS)
        .args(args)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut first = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut first).unwrap();
    assert!(first.contains("\"init\""), "{first}");
    gate.open();
    let mut stderr = String::new();
    child.stderr.take().unwrap().read_to_string(&mut stderr).unwrap();
    assert_eq!((child.wait().unwrap().code(), stderr.as_str()), (Some(1), ""));
}

/// It does not even wait for the model.
#[test]
fn a_run_that_nobody_reads_ends_at_once() {
    let server = Server::start([reply().text("never").hold(&Gate::new())]);
    let tenon = tenon();
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let out =
        command(&tenon, &server).args(ARGS).args(["-o", "stream-json"]).stdout(writer).output().unwrap();
    assert_eq!((out.status.code(), out.stderr.as_slice()), (Some(1), &b""[..]));
}

#[test]
fn a_reader_that_leaves_with_the_result_has_what_it_wanted() {
    let server = Server::start([reply().text("line 1\nline 2").forever()]);
    for format in ["text", "json"] {
        let run = in_shell("\"$@\" | head -n 1; exit ${PIPESTATUS[0]}", &server, &["-o", format]);
        run.assert_code(0);
        assert_eq!(run.stderr, "");
    }
}

#[test]
fn a_reader_that_leaves_in_the_middle_of_the_result_has_nothing() {
    let payload = json!({"a": "x".repeat(1 << 20)});
    let server = Server::start([reply().call("c1", "structured_output", payload).forever()]);
    let run = in_shell("\"$@\" | head -c 10; exit ${PIPESTATUS[0]}", &server, &["--json-schema", "{}"]);
    run.assert_code(1);
    assert_eq!((run.stdout.as_str(), run.stderr.as_str()), ("{\"a\":\"xxxx", ""));
}

#[test]
fn a_slow_reader_gets_everything() {
    let server = Server::start([reply().big(12_000).forever()]);
    let stream = read_slowly(&server, &["-o", "stream-json", "--include-partial-messages"]);
    let pieces = stream.lines().filter(|line| line.contains("\"text_delta\"")).count();
    assert_eq!(pieces, 12_000);
    let result: Value = serde_json::from_str(stream.lines().last().unwrap()).unwrap();
    let text = read_slowly(&server, &["-o", "text"]);
    assert!(text == format!("{}\n", result["result"].as_str().unwrap()), "{} bytes came", text.len());
}

/// Slow at first, so that the pipe fills; then as fast as it comes.
fn read_slowly(server: &Server, args: &[&str]) -> String {
    let tenon = tenon();
    let mut child = command(&tenon, server).args(ARGS).args(args).stdout(Stdio::piped()).spawn().unwrap();
    let mut stdout = child.stdout.take().unwrap();
    let mut got = Vec::new();
    let mut buffer = vec![0; 16 * 1024];
    loop {
        if got.len() < 256 * 1024 {
            std::thread::sleep(Duration::from_millis(10));
        }
        match stdout.read(&mut buffer).unwrap() {
            0 => break,
            count => got.extend_from_slice(&buffer[..count]),
        }
    }
    assert_eq!(child.wait().unwrap().code(), Some(0));
    String::from_utf8(got).unwrap()
}

/// More than is queued for a reader: the agent waits for it rather than filling the memory.
#[test]
fn a_reader_that_stops_for_a_while_stops_the_agent_and_loses_nothing() {
    let server = Server::start([reply().big(36_000)]);
    let tenon = tenon();
    let args = ["-o", "stream-json", "--include-partial-messages"];
    let mut child = command(&tenon, &server).args(ARGS).args(args).stdout(Stdio::piped()).spawn().unwrap();
    std::thread::sleep(Duration::from_millis(700));
    let mut out = String::new();
    child.stdout.take().unwrap().read_to_string(&mut out).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0));
    assert!(out.len() > 9 << 20, "{} bytes are no test", out.len());
    let pieces = out.lines().filter(|line| line.contains("\"text_delta\"")).count();
    assert_eq!(pieces, 36_000);
    let last: Value = serde_json::from_str(out.lines().last().unwrap()).unwrap();
    assert_eq!((&last["type"], &last["is_error"]), (&json!("result"), &json!(false)));
}

#[test]
fn a_full_disk_is_a_failure_with_a_sentence() {
    let server = Server::start([reply().text("ok").forever()]);
    for format in ["text", "json", "stream-json"] {
        let run = in_shell("exec \"$@\" > /dev/full", &server, &["-o", format]);
        run.assert_code(1);
        assert_eq!(
            run.stderr, "error[output]: stdout could not be written: No space left on device (os error 28)\n",
            "{format}"
        );
    }
    for args in [
        &["man"][..],
        &["completions", "bash"],
        &["schema", "check", "{}"],
        &["doctor"],
        &["schema", "print", "qwen"],
    ] {
        let run = Tenon::new("bash")
            .args(["-c", "exec \"$@\" > /dev/full", "bash", env!("CARGO_BIN_EXE_tenon")])
            .args(args)
            .run();
        run.assert_code(1);
        assert!(
            run.stderr.contains("error[output]: stdout could not be written: No space left on device"),
            "{run}"
        );
    }
}

/// The code of a failure is not hidden by a stdout that could not be written.
#[test]
fn a_failure_keeps_its_code_on_a_full_disk() {
    let server = Server::start([reply().status(401)]);
    let run = in_shell("exec \"$@\" > /dev/full", &server, &["-o", "json"]);
    run.assert_code(41);
    assert!(
        run.stderr.contains("error[auth]: ") && run.stderr.contains("stdout could not be written"),
        "{run}"
    );
}

#[test]
fn commands_whose_reader_left_are_quiet() {
    for args in ["man", "completions bash", "schema print qwen", "--help"] {
        let script = format!("\"$1\" {args} | head -c 1 > /dev/null; exit ${{PIPESTATUS[0]}}");
        let run = Tenon::new("bash").args(["-c", &script, "bash", env!("CARGO_BIN_EXE_tenon")]).run();
        run.assert_code(0);
        assert_eq!(run.stderr, "", "{args}");
    }
}

#[test]
fn without_stderr_a_run_is_the_same() {
    let server = Server::start([reply().text("ok").forever()]);
    for redirection in ["2>&-", "2>/dev/full", "2> >(exec true)"] {
        let script = format!("\"$@\" --verbose --betas x {redirection}");
        let run = Tenon::new("bash")
            .server(&server)
            .args(["-c", &script, "bash", env!("CARGO_BIN_EXE_tenon"), "-p", "go"])
            .run();
        run.assert_code(0);
        assert_eq!(run.stdout, "ok\n", "{redirection}");
    }
}

/// A closed stdout is the same as `/dev/null`: the result file is there, and nothing went wrong.
#[test]
fn without_stdout_the_result_file_is_still_written() {
    let server = Server::start([reply().text("ok").forever()]);
    let run = in_shell("exec \"$@\" >&-", &server, &["--result-file", "r.txt"]);
    run.assert_code(0);
    assert_eq!((run.read("r.txt").as_str(), run.stderr.as_str()), ("ok\n", ""));
    // With nothing open at all, files that are opened later must not become stdout.
    let run = in_shell("exec \"$@\" <&- >&- 2>&-", &server, &["--result-file", "r.txt"]);
    run.assert_code(0);
    assert_eq!(run.read("r.txt"), "ok\n");
}

#[test]
fn runs_at_the_same_time_get_their_own_answers() {
    let answers =
        (0..20).map(|n| reply().text(format!("answer {n}")).when_contains(format!("question {n}.")));
    // Nobody is answered before all have asked.
    let server = Server::start(answers.map(|answer| answer.hold_until_requests(20)));
    let home = tenon().server(&server).args(["-q", "--result-file"]);
    let runs: Vec<_> = (0..20)
        .map(|n| home.clone().args([&format!("r{n}.txt"), "-p", &format!("question {n}.")]).spawn())
        .collect();
    for (n, running) in runs.into_iter().enumerate() {
        let run = running.wait();
        run.assert_code(0);
        assert_eq!(run.stdout, format!("answer {n}\n"));
        assert_eq!(run.read(format!("r{n}.txt")), format!("answer {n}\n"));
    }
}

/// Killed at any moment, there is the whole file or none.
#[test]
fn a_killed_run_leaves_no_half_result_file() {
    let payload = json!({"a": "x".repeat(4 << 20)});
    let whole = format!("{payload}\n");
    let server = Server::start([reply().call("c1", "structured_output", payload).forever()]);
    let args = ["--json-schema", "{}", "--result-file", "r.json"];
    for delay in [0, 20, 40, 80, 160, 320] {
        let folder = tenon().server(&server).file("r.json", "old").args(ARGS).args(args);
        let asked = server.requests().len();
        let mut running = folder.spawn();
        server.wait_for_requests(asked + 1, SOON);
        std::thread::sleep(Duration::from_millis(delay));
        running.signal(Signal::Kill);
        running.wait();
        if let Ok(left) = std::fs::read_to_string(folder.workspace().join("r.json")) {
            assert!(
                left == whole || left == "old",
                "{} of {} bytes after {delay} ms",
                left.len(),
                whole.len()
            );
        }
    }
}

/// Whoever reads may take its time, until somebody wants the run to end.
#[test]
fn an_interrupted_run_does_not_wait_for_a_reader_that_does_not_read() {
    let server = Server::start([reply().text("x".repeat(1 << 20))]);
    let tenon = tenon();
    let (_unread, writer) = std::io::pipe().unwrap();
    let mut child = command(&tenon, &server)
        .args(["-m", "test-model", "-p", "go", "-o", "json", "--verbose"])
        .stdout(writer)
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stderr = BufReader::new(child.stderr.take().unwrap());
    let mut said = String::new();
    while !said.contains("turn 1:") {
        assert!(stderr.read_line(&mut said).unwrap() > 0, "{said}");
    }
    interrupt(&child);
    stderr.read_to_string(&mut said).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130), "{said}");
    assert!(
        said.ends_with("error[output]: what was left for stdout is lost: nobody read it for 5 s\n"),
        "{said}"
    );
}

pub fn interrupt(child: &std::process::Child) {
    let kill = Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(kill.success());
}

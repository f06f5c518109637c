//! How a workflow ends: every status with its exit code, signals, readers that leave, time and money.

use std::io::{BufRead, BufReader, Read};
use std::process::Stdio;
use std::time::Duration;

use tenon_testkit::{Gate, Reply, Run, Server, Signal, Tenon, json, reply};

use super::flow_run::{at, flow};
use super::pipes::{command, interrupt};
use super::tenon;

/// Ends a hang; nothing here takes long.
const SOON: Duration = Duration::from_secs(30);

const ONE: &str = "name: n\nsteps:\n  - { id: a, instructions: Do a. }\n";
const TWO: &str = "name: n\nsteps:\n  - { id: a, instructions: Do a. }\n  - { id: b, instructions: Do b. }\n";

fn refused(task: &str, status: u16) -> Reply {
    at(task).status(status).json(json!({"error": {"message": "no"}}))
}

/// Exit code, status and class of the error, in every format.
#[test]
fn every_status_has_its_exit_code() {
    type Case = (
        &'static str,
        &'static str,
        fn() -> Vec<Reply>,
        fn(Tenon) -> Tenon,
        i32,
        &'static str,
        Option<&'static str>,
    );
    let same: fn(Tenon) -> Tenon = |tenon| tenon;
    let table: &[Case] = &[
        ("completed", ONE, || vec![at("Do a.").text("a")], same, 0, "completed", None),
        ("failed", ONE, || vec![refused("Do a.", 400)], same, 1, "failed", Some("protocol")),
        (
            "partial",
            TWO,
            || vec![refused("Do a.", 400), at("Do b.").text("b")],
            same,
            1,
            "partial",
            Some("protocol"),
        ),
        ("a step's key is refused", ONE, || vec![refused("Do a.", 401)], same, 1, "failed", Some("auth")),
        (
            "no credentials at all",
            ONE,
            Vec::new,
            |tenon| tenon.env_remove("OPENAI_API_KEY").env_remove("OPENAI_BASE_URL"),
            41,
            "failed",
            Some("auth"),
        ),
        (
            "a step's provider has no key",
            "name: n\nsteps:\n  - { id: a, instructions: Do a., model: anthropic/claude-x }\n",
            Vec::new,
            same,
            41,
            "failed",
            Some("auth"),
        ),
        ("an invalid document", "name: n\nsteps: []\n", Vec::new, same, 52, "failed", Some("config")),
        ("bad inputs", ONE, Vec::new, |tenon| tenon.args(["--input", "x=1"]), 42, "failed", Some("input")),
        (
            "a workflow's timeout",
            "name: n\noptions: { timeout: 1s }\nsteps:\n  - { id: a, instructions: Do a. }\n",
            || vec![at("Do a.").text("late").hang_after_events(0)],
            same,
            1,
            "failed",
            Some("timeout"),
        ),
        (
            "a step's timeout",
            "name: n\nsteps:\n  - { id: a, instructions: Do a., timeout: 1s }\n",
            || vec![at("Do a.").text("late").hang_after_events(0)],
            same,
            1,
            "failed",
            Some("timeout"),
        ),
        (
            "wall time",
            ONE,
            || vec![at("Do a.").text("late").hang_after_events(0)],
            |tenon| tenon.args(["--max-wall-time", "1"]),
            55,
            "budget_exceeded",
            Some("budget"),
        ),
        (
            "a document's own turns",
            "name: n\nbudget: { maxTurns: 1 }\noptions: { maxConcurrency: 1 }\nsteps:\n  - { id: a, instructions: Do a. }\n  - { id: b, instructions: Do b. }\n",
            || vec![at("Do a.").text("a")],
            same,
            55,
            "budget_exceeded",
            Some("budget"),
        ),
    ];
    for (name, document, script, with, code, status, class) in table {
        for format in ["text", "json", "stream-json"] {
            let server = Server::start(script());
            let run = with(flow(&server, document).args(["-o", format])).run();
            assert_eq!(run.code, *code, "{name} in {format}: {run}");
            let report = match format {
                "text" => {
                    assert_eq!(run.stdout.is_empty(), *code != 0, "{name}: {run}");
                    continue;
                }
                "json" => run.json(),
                _ => run.last_json()["data"].clone(),
            };
            assert_eq!(report["status"], *status, "{name} in {format}: {run}");
            assert_eq!(report["error"]["class"].as_str(), *class, "{name} in {format}: {run}");
            assert_eq!(class.is_some(), run.stderr.contains("error["), "{name}: a failed run says so: {run}");
        }
    }
}

#[test]
fn mistakes_on_the_command_line() {
    let table: &[(&[&str], &str)] = &[
        (&[], "`tenon flow run` needs a workflow document"),
        (&["flow.yaml", "--run-id", "a b"], "`--run-id a b` cannot be a run's id"),
        (&["flow.yaml", "--json-schema", "{}"], "`tenon flow run` does not take `--json-schema`"),
        (&["flow.yaml", "-p", "x"], "`tenon flow run` does not take `--prompt`"),
        (&["flow.yaml", "--resume", "x"], "`tenon flow run` does not take `--resume`"),
        (&["flow.yaml", "-o", "stream-chunk-json"], "a workflow has no `--output-format stream-chunk-json`"),
        (
            &["flow.yaml", "--include-partial-messages"],
            "`--include-partial-messages` needs `--output-format stream-json`",
        ),
        (
            &["flow.yaml", "--include-hook-events", "-o", "json"],
            "`--include-hook-events` needs `--output-format stream-json`",
        ),
        (
            &["flow.yaml", "--permission-prompt-tool", "stdio"],
            "`tenon flow run` does not take `--permission-prompt-tool stdio`",
        ),
        (
            &["flow.yaml", "--yolo", "--approval-mode", "plan"],
            "`--yolo` and `--approval-mode` cannot be used together",
        ),
    ];
    for (flags, message) in table {
        let run = tenon().file("flow.yaml", ONE).args(["flow", "run"]).args(*flags).run();
        assert!(run.assert_code(2).stderr.starts_with(&format!("error[usage]: {message}\n")), "{run}");
        assert!(run.stderr.ends_with("hint: `tenon flow run --help` lists the flags\n"), "{run}");
        assert_eq!(run.stdout, "");
    }
    let run = tenon().args(["flow", "run", "missing.yaml", "-o", "json"]).run();
    assert_eq!(run.assert_code(42).json()["error"]["class"], "input", "{run}");
    let run =
        tenon().file("flow.yaml", ONE).args(["flow", "run", "flow.yaml", "--max-concurrency", "0"]).run();
    run.assert_code(2);
}

const PRICES: &str = r#"{"prices":{"test-model":{"input":1000000,"output":1000000}}}"#;

/// One budget for all steps, from the flag or from the document, whichever is smaller.
#[test]
fn money_is_one_budget_for_all_steps() {
    let chain = |budget: &str| {
        format!(
            "name: n\n{budget}steps:\n  - {{ id: a, instructions: Do a. }}\n  - {{ id: b, instructions: Do b., dependsOn: [a] }}\n"
        )
    };
    let table: &[(&str, &[&str])] = &[
        ("", &["--max-budget-usd", "100000"]),
        ("budget: { maxUsd: 100000 }\n", &[]),
        ("budget: { maxUsd: 100000 }\n", &["--max-budget-usd", "900000000"]),
    ];
    for (budget, flags) in table {
        let server = Server::start([at("Do a.").text("a").usage(90_000, 10_000)]);
        let run = flow(&server, &chain(budget))
            .home_file("settings.json", PRICES)
            .args(["-o", "json"])
            .args(*flags)
            .run();
        let report = run.assert_code(55).json();
        assert_eq!(report["status"], "budget_exceeded", "{run}");
        assert_eq!(report["total_cost_usd"], 100_000.0, "{run}");
        assert_eq!(
            (&report["steps"]["a"]["status"], &report["steps"]["a"]["cost"]),
            (&json!("completed"), &json!(100_000.0))
        );
        assert_eq!(server.requests().len(), 1);
    }
    let server = Server::start([at("Do a.").text("a").usage(1, 1), at("Do b.").text("b").usage(1, 1)]);
    let document = chain("prices: { test-model: { input: 500000, output: 1000000 } }\n");
    let run = flow(&server, &document).args(["-o", "json"]).run();
    assert_eq!(run.assert_code(0).json()["total_cost_usd"], 3.0, "the document's prices: {run}");
    // What an included document says of a price holds unless the outer one says something else.
    for (outer, cost) in [("", 3.0), ("prices: { test-model: { input: 1000000, output: 1000000 } }\n", 4.0)] {
        let server = Server::start([at("Do a.").text("a").usage(1, 1), at("Do b.").text("b").usage(1, 1)]);
        let run = flow(&server, &format!("name: o\n{outer}steps: [{{ id: all, include: inner.yaml }}]\n"))
            .file("inner.yaml", &document)
            .args(["-o", "json"])
            .run();
        assert_eq!(run.assert_code(0).json()["total_cost_usd"], cost, "{run}");
    }
}

fn cancelled(run: &Run, format: &str, code: i32, name: &str) {
    run.assert_code(code);
    assert!(
        run.stderr.contains(&format!(
            "error[interrupted]: the run was interrupted ({name})\nhint: to go on with the run:\n  tenon flow resume run_"
        )),
        "{run}"
    );
    let report = match format {
        "text" => return assert_eq!(run.stdout, "", "{run}"),
        "json" => run.json(),
        _ => run.last_json()["data"].clone(),
    };
    assert_eq!((&report["status"], &report["outputs"]), (&json!("cancelled"), &json!(null)), "{run}");
    assert_eq!(report["steps"]["a"]["status"], "completed", "what is done stays done: {run}");
    assert_eq!(report["steps"]["b"]["status"], "cancelled", "{run}");
}

#[test]
fn a_signal_ends_a_run_in_order() {
    let document = "name: n\nsteps:\n  - { id: a, instructions: Do a. }\n  - { id: b, instructions: Do b., dependsOn: [a] }\n";
    for (signal, code, name) in [(Signal::Interrupt, 130, "SIGINT"), (Signal::Terminate, 143, "SIGTERM")] {
        for format in ["text", "json", "stream-json"] {
            let server = Server::start([at("Do a.").text("a"), at("Do b.").text("b").hang_after_events(0)]);
            let mut running = flow(&server, document).args(["-o", format]).spawn();
            server.wait_for_requests(2, SOON);
            running.signal(signal);
            cancelled(&running.wait(), format, code, name);
        }
    }
}

#[test]
fn a_signal_stops_a_command_that_hangs() {
    let server = Server::start([at("Do a.").call(
        "c",
        "run_shell_command",
        json!({"command": "echo $$ > pid; sleep 600"}),
    )]);
    let tenon = flow(&server, ONE).args(["--yolo", "-o", "json"]);
    let pid = tenon.workspace().join("pid");
    let mut running = tenon.spawn();
    while std::fs::read_to_string(&pid).map_or(true, |text| !text.ends_with('\n')) {
        assert!(!running.has_ended());
        std::thread::sleep(Duration::from_millis(5));
    }
    running.signal(Signal::Interrupt);
    let run = running.wait();
    assert_eq!(run.assert_code(130).json()["steps"]["a"]["status"], "cancelled", "{run}");
    let pid = std::fs::read_to_string(&pid).unwrap();
    assert!(!std::path::Path::new(&format!("/proc/{}", pid.trim())).exists(), "nothing is left running");
}

#[test]
fn a_step_whose_tool_hangs_ends_with_its_time() {
    let document = "name: n\nsteps:\n  - { id: a, instructions: Do a., timeout: 1s }\n";
    let server = Server::start([at("Do a.").call("c", "run_shell_command", json!({"command": "sleep 600"}))]);
    let run = flow(&server, document).args(["--yolo", "-o", "json"]).run();
    assert_eq!(run.assert_code(1).json()["steps"]["a"]["error"]["class"], "timeout", "{run}");
}

#[test]
fn a_reader_that_leaves_ends_the_run() {
    let gate = Gate::new();
    let server = Server::start([at("Do a.").text("a").hold(&gate), reply().text("more").forever()]);
    let tenon = tenon().file("flow.yaml", TWO);
    let mut child = command(&tenon, &server)
        .args(["flow", "run", "flow.yaml", "-m", "test-model", "-q", "-o", "stream-json"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut first = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut first).unwrap();
    assert!(first.contains("\"plan_ready\""), "{first}");
    gate.open();
    let mut stderr = String::new();
    child.stderr.take().unwrap().read_to_string(&mut stderr).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(1), "{stderr}");
}

#[test]
fn a_full_disk_behind_stdout_is_said() {
    let server = Server::start([at("Do a.").text("a")]);
    let tenon = tenon().file("flow.yaml", ONE);
    let full = tenon.workspace().join("out");
    let script = "ulimit -f 0; exec \"$@\" > out";
    let run = Tenon::new("bash")
        .cwd(tenon.workspace())
        .server(&server)
        .args([
            "-c",
            script,
            "bash",
            env!("CARGO_BIN_EXE_tenon"),
            "flow",
            "run",
            "flow.yaml",
            "-q",
            "--no-journal",
        ])
        .run();
    assert!(run.assert_code(1).stderr.contains("error[output]: stdout could not be written"), "{run}");
    assert_eq!(std::fs::read_to_string(full).unwrap(), "");
}

/// What is wrong with a flag is told on stderr alone, whatever the format and the command: there is no run that could have a result.
#[test]
fn values_that_no_flag_can_have_leave_stdout_alone() {
    let table: &[&[&str]] = &[
        &["--max-wall-time", "0"],
        &["--max-wall-time", "soon"],
        &["--max-schema-retries", "-2"],
        &["--max-tool-calls", "-5"],
        &["--max-subagent-depth", "0"],
        &["--max-subagent-depth", "101"],
        &["--max-budget-usd", "nan"],
        &["--max-budget-usd", "-2"],
        &["--approval-mode", "foo"],
        &["--max-concurrency", "0"],
        &["--permission-prompts", "foo"],
        &["--permission-prompt-tool", "foo"],
        &["--proxy", "::"],
        &["--effort", "foo"],
        &["--thinking", "foo"],
        &["--promote-after", "0"],
        &["--sandbox=foo"],
        &["--fallback-model", "a,b,c,d"],
        &["--insecure"],
        &["--nonsense"],
    ];
    for flags in table {
        for format in ["text", "json", "stream-json"] {
            for command in [&["flow", "run", "flow.yaml"][..], &["flow", "resume", "r1"], &["goal", "go"]] {
                let run =
                    tenon().file("flow.yaml", ONE).args(command).args(["-o", format]).args(*flags).run();
                assert_eq!((run.code, run.stdout.as_str()), (2, ""), "{command:?} {flags:?}: {run}");
                assert!(run.stderr.starts_with("error[usage]: "), "{run}");
            }
        }
    }
}

/// First what went wrong, once, then how the result is had all the same, in the format that was asked for.
#[test]
fn stdout_that_cannot_be_written_is_told_once_and_first() {
    for format in ["text", "json", "stream-json"] {
        let server = Server::start([at("Do a.").text("a")]);
        let tenon = tenon().file("flow.yaml", ONE);
        let script = "ulimit -f 0; exec \"$@\" > out";
        let run = Tenon::new("bash")
            .cwd(tenon.workspace())
            .server(&server)
            .args(["-c", script, "bash", env!("CARGO_BIN_EXE_tenon")])
            .args(["flow", "run", "flow.yaml", "-q", "--no-journal", "-o", format])
            .run();
        let told = run.assert_code(1).stderr.matches("error[output]: stdout could not be written: ").count();
        assert_eq!((told, run.stderr.contains("error[internal]")), (1, false), "{format}: {run}");
    }
}

/// After an interrupt there is an end, and the line that goes on, also where nobody reads.
#[test]
fn an_interrupted_workflow_does_not_wait_for_a_reader_that_does_not_read() {
    for (format, hint) in [
        ("json", "hint: the run completed, and its result was not read; to have it again:\n"),
        ("stream-json", "hint: the run completed, and its result was not read; to have it again:\n"),
    ] {
        let server = Server::start([at("Do a.").text("x".repeat(1 << 20))]);
        let tenon = tenon().file("flow.yaml", ONE);
        let (_unread, writer) = std::io::pipe().unwrap();
        let mut child = command(&tenon, &server)
            .args(["flow", "run", "flow.yaml", "-m", "test-model", "--run-id", "r1", "-o", format])
            .stdout(writer)
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut stderr = BufReader::new(child.stderr.take().unwrap());
        let mut said = String::new();
        while !said.contains("step a: completed") {
            assert!(stderr.read_line(&mut said).unwrap() > 0, "{said}");
        }
        interrupt(&child);
        stderr.read_to_string(&mut said).unwrap();
        assert_eq!(child.wait().unwrap().code(), Some(130), "{said}");
        let lost = "error[output]: what was left for stdout is lost: nobody read it for 5 s\n";
        let last = format!("  tenon flow resume r1 --output-format {format}\n");
        assert!(said.ends_with(&format!("{lost}{hint}{last}")), "{format}: {said}");
    }
}

/// Who is asked for permission has to be there.
#[test]
fn a_permission_tool_of_no_server_is_refused() {
    let server = Server::start([]);
    let run = flow(&server, ONE).args(["--permission-prompt-tool", "mcp__x__y", "-q", "-o", "json"]).run();
    assert_eq!(run.assert_code(52).json()["error"]["class"], "config", "{run}");
    assert!(run.stderr.contains("there is no MCP server that it could be of"), "{run}");
    assert!(server.requests().is_empty());
}

/// The help says what is so here, not what is so of a single run.
#[test]
fn the_help_of_workflows_is_about_workflows() {
    for command in ["run", "resume"] {
        let help = tenon().args(["flow", command, "--help"]).run().assert_code(0).stdout.clone();
        for wrong in ["stdio", "first line of a stream"] {
            assert!(!help.contains(wrong), "{command}: {wrong} in {help}");
        }
        for right in ["--include-hook-events", "--channel <NAME>", "--permission-prompt-tool <TOOL>"] {
            assert!(help.contains(right), "{command}: no {right} in {help}");
        }
    }
    let help = tenon().args(["flow", "approve", "--help"]).run().assert_code(0).stdout.clone();
    assert!(help.contains("-r, --resume ") && !help.contains("ID|TITLE"), "{help}");
    assert!(!help.contains("resume-session"), "{help}");
}

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;

use serde_json::json;
use tenon_core::{ToolErrorKind, ToolProgress};

use crate::support::{Bench, Setup, is_gone, names_in, object, runs, runtime};

/// Memory of this process that is really in use, in bytes.
fn resident() -> usize {
    let pages = fs::read_to_string("/proc/self/statm").unwrap();
    pages.split(' ').nth(1).unwrap().parse::<usize>().unwrap() * 4096
}

fn run(bench: &Bench, command: &str) -> String {
    bench.ok("run_shell_command", json!({ "command": command }))
}

/// The labelled part of a result.
fn field<'a>(result: &'a str, label: &str, next: &str) -> &'a str {
    let from = result.find(label).unwrap() + label.len();
    let to = result[from..].find(next).unwrap() + from;
    result[from..to].trim()
}

fn output(bench: &Bench, command: &str) -> String {
    field(&run(bench, command), "Output: ", "\nError: ").to_owned()
}

#[test]
fn a_result_has_its_labels() {
    let bench = Bench::new();
    let outcome =
        bench.call("run_shell_command", json!({ "command": "echo out; echo err >&2", "description": "try" }));
    let group = field(&format!("{}\n", outcome.content), "Process Group PGID: ", "\n").to_owned();
    assert_eq!(
        outcome.content,
        format!(
            "Command: echo out; echo err >&2\nDirectory: (root)\nOutput: out\nerr\n\nError: (none)\nExit Code: 0\nSignal: (none)\nProcess Group PGID: {group}"
        )
    );
    assert_eq!((outcome.error, outcome.display.as_deref()), (None, Some("out\nerr\n")));
    let silent = bench.call("run_shell_command", json!({ "command": "true" }));
    assert!(silent.content.contains("Output: (empty)"));
    assert_eq!(silent.display.as_deref(), Some("The command printed nothing and exited with code 0."));
}

#[test]
fn exit_codes_and_signals() {
    let bench = Bench::new();
    bench.file("a.txt", "x");
    for (command, label, is_error) in [
        ("exit 3", "Exit Code: 3\nSignal: (none)", true),
        ("false", "Exit Code: 1\nSignal: (none)", true),
        ("grep nothing a.txt", "Exit Code: 1\nSignal: (none)", false),
        ("grep x missing.txt", "Exit Code: 2\nSignal: (none)", true),
        ("[ -f missing ]", "Exit Code: 1\nSignal: (none)", false),
        ("kill -SEGV $$", "Exit Code: (none)\nSignal: SIGSEGV", true),
    ] {
        let outcome = bench.call("run_shell_command", json!({ "command": command }));
        assert!(outcome.content.contains(label), "{}", outcome.content);
        assert_eq!(outcome.error.is_some(), is_error, "{command}");
    }
}

#[test]
fn arguments_are_checked() {
    let bench = Bench::new();
    let table = [
        (json!({}), "`run_shell_command` needs `command`."),
        (json!({ "command": "  " }), "`command` must not be empty."),
        (json!({ "command": "x", "timeout": 0 }), "`timeout` must be at least 1 millisecond."),
        (json!({ "command": "x", "timeout": 600_001 }), "`timeout` must be at most 600000 milliseconds."),
        (
            json!({ "command": "x", "timeout": "1" }),
            "`timeout` of `run_shell_command` must be a whole number, 0 or more, not a string.",
        ),
        (
            json!({ "command": "x", "is_background": "yes" }),
            "`is_background` of `run_shell_command` must be true or false, not a string.",
        ),
    ];
    for (args, wanted) in table {
        assert_eq!(
            bench.error("run_shell_command", args),
            (ToolErrorKind::InvalidArguments, wanted.to_owned())
        );
    }
    for command in ["sleep 1 &", "sleep 1 & ", "a && b &\n"] {
        let (kind, message) = bench.error("run_shell_command", json!({ "command": command }));
        assert!(
            kind == ToolErrorKind::InvalidArguments && message.contains("must not end with `&`"),
            "{command}"
        );
    }
    assert_eq!(output(&bench, "echo a \\&"), "a &");
    run(&bench, "true");
    assert_eq!(output(&bench, "echo ok; exit 0"), "ok");
    bench.ok("run_shell_command", json!({ "command": "true", "is_background": false, "timeout": 5000.0 }));
}

#[test]
fn it_runs_where_it_is_told_to() {
    let bench = Bench::new();
    bench.file("sub/x", "");
    let work = bench.work().display().to_string();
    assert_eq!(output(&bench, "pwd; echo $PWD"), format!("{work}\n{work}"));
    for directory in ["sub".to_owned(), format!("{work}/sub")] {
        let result = bench.ok("run_shell_command", json!({ "command": "pwd", "directory": directory }));
        assert!(result.contains(&format!("Directory: {work}/sub\nOutput: {work}/sub\n")), "{result}");
    }
}

#[test]
fn secrets_stay_out_of_the_environment() {
    let mut setup = Setup::default();
    for (name, value) in
        [("OPENAI_API_KEY", "s3cret"), ("MY_KEY", "s3cret"), ("PASSED_KEY", "passed"), ("PLAIN", "plain")]
    {
        setup.shell.environment.push((OsString::from(name), OsString::from(value)));
    }
    setup.shell.env_remove = ["OPENAI_API_KEY", "MY_KEY", "PASSED_KEY"].map(str::to_owned).to_vec();
    setup.shell.env_pass = vec!["PASSED_KEY".to_owned()];
    let bench = Bench::with(setup);
    let result = run(&bench, "env; cat /proc/self/environ | tr '\\0' '\\n'");
    assert!(!result.contains("s3cret"), "{result}");
    assert!(result.contains("PASSED_KEY=passed") && result.contains("PLAIN=plain"));
    // Nothing of the environment of this test gets through on its own.
    assert!(!result.contains("CARGO_MANIFEST_DIR"));
}

#[test]
fn there_is_no_stdin_and_no_terminal() {
    let bench = Bench::new();
    assert_eq!(output(&bench, "cat; wc -c </dev/stdin"), "0");
    assert_eq!(output(&bench, "(exec </dev/tty) 2>/dev/null || echo none"), "none");
    assert_eq!(output(&bench, "[ $(ps -o sid= -p $$) = $$ ] && echo own session"), "own session");
}

#[test]
fn outputs_come_in_the_order_they_were_written() {
    let bench = Bench::new();
    let text = output(&bench, "for i in 1 2 3 4 5; do echo o$i; sleep 0.05; echo e$i >&2; sleep 0.05; done");
    assert_eq!(text, "o1\ne1\no2\ne2\no3\ne3\no4\ne4\no5\ne5");
    // Without a pause, too, what one stream says comes before what the other says after it.
    let numbers: String = (1..=2_000).map(|n| format!("{n}\n")).collect();
    for _ in 0..20 {
        assert!(output(&bench, "seq 1 2000; echo after >&2") == format!("{numbers}after"));
        assert!(output(&bench, "echo before >&2; seq 1 2000") == format!("before\n{}", numbers.trim_end()));
    }
}

#[test]
fn a_broken_pipe_ends_a_program_silently() {
    assert_eq!(output(&Bench::new(), "yes | head -1"), "y");
}

#[test]
fn text_is_decoded_across_writes_and_freed_of_sequences() {
    let bench = Bench::new();
    let split =
        "printf '\\xe2\\x82'; sleep 0.05; printf '\\xac \\x1b[3'; sleep 0.05; printf '1mred\\x1b[0m \\xff'";
    assert_eq!(output(&bench, split), "€ red \u{fffd}");
}

#[test]
fn a_timeout_ends_the_whole_family() {
    let bench = Bench::new();
    // The grandchild does not listen to requests, and holds no output.
    let command = "(trap '' TERM; while :; do sleep 0.1; done) >/dev/null 2>&1 & echo $!; echo before; wait";
    let (kind, content) = bench.error("run_shell_command", json!({ "command": command, "timeout": 1_500 }));
    assert_eq!(kind, ToolErrorKind::TimedOut);
    let lines: Vec<&str> = content.lines().collect();
    assert_eq!(lines[0], "The command was stopped after 1500 ms, before it was done. Its output until then:");
    assert_eq!(lines[2], "before");
    assert!(is_gone(lines[1]), "{content}");
    let (_, silent) = bench.error("run_shell_command", json!({ "command": "sleep 60", "timeout": 100 }));
    assert_eq!(silent, "The command was stopped after 100 ms, before it was done. It had printed nothing.");
}

#[test]
fn a_command_may_clean_up_when_asked_to_end() {
    let bench = Bench::new();
    let command = "trap 'echo bye; exit 0' TERM; echo hello; while :; do sleep 0.05; done";
    let (kind, content) = bench.error("run_shell_command", json!({ "command": command, "timeout": 1_500 }));
    assert_eq!(kind, ToolErrorKind::TimedOut);
    assert!(content.contains("hello\n") && content.contains("bye\n"), "{content}");
}

#[test]
fn cancelling_ends_it() {
    let bench = Bench::new();
    let tool = bench.tool("run_shell_command");
    let args = object(json!({ "command": "echo $$ > pid; echo started; sleep 60" }));
    let pid = bench.work().join("pid");
    let outcome = runtime().block_on(async {
        let call = tool.call(bench.ctx(), args);
        let cancel = async {
            while fs::read_to_string(&pid).unwrap_or_default().is_empty() {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
            bench.cancel.cancel();
        };
        tokio::join!(call, cancel).0
    });
    assert_eq!(outcome.error, Some(ToolErrorKind::Cancelled));
    assert!(outcome.content.starts_with("The command was cancelled before it was done."));
    assert!(is_gone(bench.text("pid").trim()));
}

#[test]
fn dropping_the_call_ends_it() {
    let bench = Bench::new();
    let tool = bench.tool("run_shell_command");
    let pids = bench.work().join("pids");
    let command = "sleep 60 & echo $! $$ > pids.tmp; mv pids.tmp pids; wait";
    runtime().block_on(async {
        let call = tool.call(bench.ctx(), object(json!({ "command": command })));
        tokio::select! {
            _ = call => panic!("it ended by itself"),
            () = async { while !pids.exists() { tokio::time::sleep(Duration::from_millis(10)).await } } => {}
        }
        while bench.text("pids").split_whitespace().any(runs) {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    });
}

#[test]
fn what_is_left_holding_the_output_is_stopped() {
    let bench = Bench::new();
    let result = run(&bench, "sleep 60 & echo $! ; echo done");
    let text = field(&result, "Output: ", "\nError: ");
    let pid = text.lines().next().unwrap();
    assert!(text.ends_with("done") && result.ends_with("they were stopped."), "{result}");
    assert!(is_gone(pid));
}

#[test]
fn large_outputs_are_kept_in_a_private_file() {
    let bench = Bench::new();
    let result = run(&bench, "seq 1 20000");
    let text = field(&result, "Output: ", "\nError: ");
    let outputs = bench.base.path().join("outputs");
    assert_eq!(names_in(&outputs), ["run_shell_command_1.output"]);
    let file = outputs.join("run_shell_command_1.output");
    let whole = fs::read_to_string(&file).unwrap();
    assert_eq!(whole, (1..=20_000).map(|n| format!("{n}\n")).collect::<String>());
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(&outputs), mode(&file)), (0o700, 0o600));
    let parts = format!(
        "The output was too large and is shown in part.\nThe full output is in {}\n\
         Read it with read_file (offset and limit) or search it with grep_search.\n\n{}\n\n[… {} characters left out …]\n\n{}",
        fs::canonicalize(&file).unwrap().display(),
        &whole[..6_000],
        whole.len() - 30_000,
        whole[whole.len() - 24_000..].trim_end(),
    );
    assert_eq!(text, parts);
    // The next one gets a file of its own; what just fits needs none.
    run(&bench, "seq 1 20000");
    run(&bench, "head -c 30000 /dev/zero | tr '\\0' x");
    assert_eq!(names_in(&outputs).len(), 2);
}

#[test]
fn an_output_that_cannot_be_kept_is_cut_and_says_so() {
    let nowhere = Bench::with(Setup { keep_outputs: false, ..Setup::default() });
    let result = run(&nowhere, "seq 1 20000");
    assert!(result.contains("could not be kept (there is no folder for outputs)"), "{}", &result[..200]);
    let public = Bench::new();
    let folder = public.base.path().join("outputs");
    fs::create_dir(&folder).unwrap();
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o755)).unwrap();
    let result = run(&public, "seq 1 20000");
    assert!(result.contains("exists and is not private"), "{}", &result[..200]);
    assert_eq!(fs::metadata(&folder).unwrap().permissions().mode() & 0o777, 0o755);
}

#[test]
fn a_hundred_megabytes_need_little_memory() {
    const MEGABYTE: usize = 1024 * 1024;
    let bench = Bench::new();
    let before = resident();
    let result = run(&bench, "head -c 104857600 /dev/zero | tr '\\0' x");
    assert!(result.chars().count() < 32_000);
    assert!(result.contains("104827600 characters left out"), "{}", &result[6_000..7_000]);
    let file = bench.base.path().join("outputs/run_shell_command_1.output");
    assert_eq!(fs::metadata(file).unwrap().len(), 104_857_600);
    let grown = resident().saturating_sub(before);
    assert!(grown < 60 * MEGABYTE, "{grown}");
}

#[test]
fn a_silent_command_gives_signs_of_life() {
    let mut setup = Setup::default();
    setup.shell.heartbeat = Duration::from_millis(100);
    let bench = Bench::with(setup);
    bench.ok("run_shell_command", json!({ "command": "echo one; sleep 1", "timeout": 5_000 }));
    let signs = bench.progress.lock().unwrap();
    let ToolProgress::Shell { last_output_age_ms, total_lines, total_bytes, timeout_ms, .. } =
        signs.last().unwrap()
    else {
        panic!("{signs:?}");
    };
    assert_eq!((*total_lines, *total_bytes, *timeout_ms), (1, 4, 5_000));
    assert!(last_output_age_ms.is_some());
}

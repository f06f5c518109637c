//! Commands that go to the background while they run, with real children.
//!
//! A command and its test agree on moments by files: the command makes `at` and waits for `go`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use proptest::prelude::*;
use serde_json::json;
use tenon_core::{TaskKind, TaskStatus, ToolErrorKind, ToolOutcome};
use tenon_tools::{NewTask, PromoteError, ShellTerminal, StoppedBy, TaskEvent};

use crate::background::end;
use crate::support::{Bench, Setup, is_gone, object, runtime, until};

/// In a command: now, and on when the test says so.
const MEET: &str = "touch at; until [ -e go ]; do sleep 0.005; done; rm go;";

/// Runs a command and promotes it at its [`MEET`]. It waits there until [`go`].
async fn promoted(bench: &Bench, command: &str) -> (ToolOutcome, Result<String, PromoteError>) {
    let at = bench.work().join("at");
    let tool = bench.tool("run_shell_command");
    let call = tool.call(bench.ctx(), object(json!({ "command": command })));
    let promote = async {
        until(|| at.exists()).await;
        fs::remove_file(&at).unwrap();
        bench.tasks.promote("call_1").await
    };
    tokio::join!(call, promote)
}

fn go(bench: &Bench) {
    bench.file("go", "");
}

fn file(bench: &Bench, id: &str) -> PathBuf {
    let list = bench.tasks.list();
    list.into_iter().find(|info| info.task.task_id == id).unwrap().output_file.unwrap()
}

#[test]
fn the_model_and_whoever_asked_are_told_where_the_command_went() {
    let bench = Bench::new();
    runtime().block_on(async {
        let (outcome, id) = promoted(&bench, &format!("echo one; {MEET} echo two")).await;
        let id = id.unwrap();
        let file = file(&bench, &id);
        let (before, rest) = outcome.content.split_once(" (process ").unwrap();
        let (pid, rest) = rest.split_once(')').unwrap();
        assert!(pid.parse::<i32>().is_ok());
        assert_eq!(before, format!("The command was put in the background as {id}"));
        assert_eq!(
            rest,
            format!(
                ". It still runs.\nIts output goes to {}\nLook at it with read_file or grep_search.\n\
                 You are told when it ends. To stop it, call task_stop with the task_id {id}.\nIts output until then:\none\n",
                file.display()
            )
        );
        assert_eq!((outcome.error, outcome.display), (None, Some(format!("The command goes on in the background as {id}."))));
        // What was printed before is in the file already.
        assert_eq!(fs::read_to_string(&file).unwrap(), "one\n");
        go(&bench);
        let (end, notice) = end(&bench).await;
        assert_eq!((end.status, end.call_id.as_deref()), (TaskStatus::Completed, Some("call_1")));
        assert_eq!(fs::read_to_string(&file).unwrap(), "one\ntwo\n");
        assert!(notice.unwrap().told.ends_with("The end of its output:\none\ntwo\n"));
    });
}

#[test]
fn a_request_that_cannot_be_met_is_answered() {
    let bench = Bench::new();
    runtime().block_on(async {
        assert_eq!(bench.tasks.promote("call_1").await, Err(PromoteError::Unknown("call_1".to_owned())));
        // Asked twice: the second asks for what is happening already, or for what has happened.
        let tool = bench.tool("run_shell_command");
        let call = tool.call(bench.ctx(), object(json!({ "command": "touch at; sleep 60" })));
        let ask = async {
            until(|| bench.work().join("at").exists()).await;
            tokio::join!(bench.tasks.promote("call_1"), bench.tasks.promote("call_1"))
        };
        let (_, (first, second)) = tokio::join!(call, ask);
        assert!(first.is_ok());
        assert_eq!(second, Err(PromoteError::AlreadyAsked("call_1".to_owned())));
        assert_eq!(bench.tasks.promote("call_1").await, Err(PromoteError::Unknown("call_1".to_owned())));
        bench.tasks.shut_down(Duration::from_secs(10)).await;
    });
}

#[test]
fn a_command_that_had_ended_is_answered_as_usual() {
    let bench = Bench::new();
    runtime().block_on(async {
        let tool = bench.tool("run_shell_command");
        let mut call =
            Box::pin(tool.call(bench.ctx(), object(json!({ "command": "echo $$ > pid; echo done" }))));
        // Started, and then not looked at until it is over.
        assert!(poll_once(&mut call).is_none());
        let pid = bench.work().join("pid");
        until(|| fs::read_to_string(&pid).is_ok_and(|text| text.ends_with('\n'))).await;
        until(|| !crate::support::runs(bench.text("pid").trim())).await;
        let (answer, outcome) = tokio::join!(bench.tasks.promote("call_1"), call);
        assert_eq!(answer, Err(PromoteError::Finished));
        assert!(outcome.content.contains("Output: done\n") && outcome.content.contains("Exit Code: 0"));
        assert!(bench.tasks.list().is_empty());
    });
}

/// Polls once.
fn poll_once<T>(future: &mut (impl Future<Output = T> + Unpin)) -> Option<T> {
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    match std::pin::Pin::new(future).poll(&mut context) {
        std::task::Poll::Ready(value) => Some(value),
        std::task::Poll::Pending => None,
    }
}

#[test]
fn a_command_that_ends_at_the_handover_is_told_as_ended() {
    let bench = Bench::new();
    runtime().block_on(async {
        let command = format!("{MEET} echo quick; exit 3");
        // It goes on by itself a moment after it was promoted.
        let watch = async {
            until(|| !bench.tasks.running().is_empty()).await;
            go(&bench);
        };
        let ((outcome, id), ()) = tokio::join!(promoted(&bench, &command), watch);
        let id = id.unwrap();
        assert!(outcome.content.contains(" It exited with code 3 since.\n"), "{}", outcome.content);
        assert!(outcome.content.contains("There is nothing to stop"), "{}", outcome.content);
        assert!(outcome.content.ends_with("It printed:\nquick\n"), "{}", outcome.content);
        assert_eq!(outcome.display, Some(format!("{id} exited with code 3.")));
        let (end, notice) = end(&bench).await;
        assert_eq!((end.status, notice), (TaskStatus::Failed, None));
        assert!(bench.tasks.stop(&id, StoppedBy::Model).is_err());
    });
}

#[test]
fn nothing_is_lost_or_reordered_while_the_command_prints() {
    let bench = Bench::new();
    runtime().block_on(async {
        let command =
            "i=0; touch at; until [ -e go ]; do echo $((++i)); echo $((++i)) >&2; done; echo $i > last";
        let (_, id) = promoted(&bench, command).await;
        let file = file(&bench, &id.unwrap());
        until(|| fs::metadata(&file).unwrap().len() > 20_000).await;
        go(&bench);
        assert_eq!(end(&bench).await.0.status, TaskStatus::Completed);
        let last: u64 = bench.text("last").trim().parse().unwrap();
        let text = fs::read_to_string(file).unwrap();
        let numbers: Vec<u64> = text.lines().map(|line| line.parse().unwrap()).collect();
        // Each stream has every second one, in its order.
        for (first, stream) in [(1, "stdout"), (2, "stderr")] {
            let of: Vec<u64> = numbers.iter().copied().filter(|n| n % 2 == first % 2).collect();
            assert!(of == (first..=last).step_by(2).collect::<Vec<_>>(), "{stream} has not all up to {last}");
        }
    });
}

#[test]
fn a_hundred_megabytes_come_through_exactly() {
    let bench = Bench::new();
    runtime().block_on(async {
        // Two- and three-byte characters, so that every page cuts one.
        let command = format!("touch made; {MEET} yes 'äöü €uro' | head -c 104857600");
        let (_, id) = promoted(&bench, &command).await;
        let file = file(&bench, &id.unwrap());
        go(&bench);
        let (end, _) = end(&bench).await;
        assert_eq!(end.status, TaskStatus::Completed);
        // All of it is there when the end is told.
        let bytes = fs::read(file).unwrap();
        let line = "äöü €uro\n".as_bytes();
        assert_eq!(bytes.len() / line.len(), 104_857_600 / line.len());
        assert!(bytes.chunks(line.len()).take(104_857_600 / line.len()).all(|chunk| chunk == line));
    });
}

#[test]
fn output_after_the_exit_is_waited_for() {
    let bench = Bench::new();
    runtime().block_on(async {
        let (_, id) = promoted(&bench, &format!("{MEET} (sleep 0.2; echo late) & echo main")).await;
        let file = file(&bench, &id.unwrap());
        go(&bench);
        assert_eq!(end(&bench).await.0.status, TaskStatus::Completed);
        assert_eq!(fs::read_to_string(file).unwrap(), "main\nlate\n");
    });
}

#[test]
fn a_grandchild_that_holds_the_output_does_not_hold_the_end() {
    let bench = Bench::new();
    runtime().block_on(async {
        promoted(&bench, &format!("{MEET} sleep 60 & echo $! > pid; exit 5")).await.1.unwrap();
        go(&bench);
        let (end, notice) = end(&bench).await;
        assert!(end.summary.ends_with("exited with code 5."));
        assert!(notice.unwrap().told.contains("they were stopped"));
    });
    assert!(is_gone(bench.text("pid").trim()));
}

#[test]
fn a_file_that_cannot_be_made_is_not_tried_again_and_the_loss_is_counted() {
    let bench = Bench::with(Setup { keep_outputs: false, ..Setup::default() });
    runtime().block_on(async {
        let command = format!("echo early; {MEET} echo late; sleep 0.01; echo later");
        let (outcome, id) = promoted(&bench, &command).await;
        assert!(id.is_ok());
        assert!(
            outcome.content.contains("What it prints cannot be kept: There is no folder for outputs.\n"),
            "{}",
            outcome.content
        );
        assert!(!outcome.content.contains("Its output goes to"));
        assert!(outcome.content.ends_with("Its output until then:\nearly\n"));
        go(&bench);
        let (end, notice) = end(&bench).await;
        assert_eq!((end.status, end.output_file), (TaskStatus::Completed, None));
        let told = notice.unwrap().told;
        // How many pieces it came in is the machine's to decide.
        assert!(told.contains("17 bytes of its output ("), "{told}");
        assert!(told.contains(" pieces) could not be kept: There is no folder for outputs."), "{told}");
        assert!(told.ends_with("early\nlate\nlater\n"), "{told}");
    });
}

#[test]
fn a_command_that_cannot_be_registered_is_stopped_and_its_file_closed() {
    let bench = Bench::new();
    let full: Vec<_> = (0..64)
        .map(|n| {
            let kind = TaskKind::Agent;
            let new = NewTask {
                kind,
                call_id: None,
                agent_type: None,
                description: n.to_string(),
                output_file: None,
            };
            bench.tasks.start(new).unwrap()
        })
        .collect();
    let outputs = fs::canonicalize(bench.base.path()).unwrap().join("outputs");
    runtime().block_on(async {
        let (outcome, answer) = promoted(&bench, &format!("echo $$ > pid; echo early; {MEET}")).await;
        let why = "64 tasks run in the background already; stop one of them first";
        assert_eq!(answer, Err(PromoteError::Refused(why.to_owned())));
        assert_eq!(outcome.error, Some(ToolErrorKind::Failed));
        assert_eq!(
            outcome.content,
            format!(
                "The command could not be put in the background, so it was stopped: {why}.\nIts output until then:\nearly\n"
            )
        );
    });
    assert!(is_gone(bench.text("pid").trim()));
    assert_eq!(open_files_below(&outputs), 0);
    assert_eq!(fs::read_dir(&outputs).unwrap().count(), 0);
    drop(full);
}

fn open_files_below(folder: &Path) -> usize {
    let links = fs::read_dir("/proc/self/fd").unwrap();
    links
        .filter(|link| fs::read_link(link.as_ref().unwrap().path()).is_ok_and(|to| to.starts_with(folder)))
        .count()
}

#[test]
fn a_command_ends_once_whoever_is_first() {
    let bench = Bench::new();
    runtime().block_on(async {
        let mut seen = Vec::new();
        for round in 0..20_u64 {
            let (_, id) = promoted(&bench, &format!("{MEET} exit 0")).await;
            let id = id.unwrap();
            go(&bench);
            tokio::time::sleep(Duration::from_millis(round)).await;
            // It is ending by itself right now, or has just done so.
            let stopped = bench.tasks.stop(&id, StoppedBy::Client).is_ok();
            let (end, notice) = end(&bench).await;
            assert_eq!(end.task_id, id);
            assert_eq!(end.status, if stopped { TaskStatus::Cancelled } else { TaskStatus::Completed });
            assert!(notice.is_some());
            seen.push(stopped);
            let _ = fs::remove_file(bench.work().join("go"));
        }
        assert!(bench.tasks.shut_down(Duration::from_secs(10)).await);
        assert!(bench.tasks.try_next().is_none(), "{seen:?}");
    });
}

#[test]
fn characters_split_between_writes_stay_whole_in_each_stream() {
    let bench = Bench::new();
    runtime().block_on(async {
        // € on stdout and é on stderr, byte by byte, taking turns, on both sides of the handover.
        let command = format!(
            "printf '\\xe2'; printf '\\xc3' >&2; printf '\\x82'; {MEET} printf '\\xa9' >&2; printf '\\xac'; printf '\\xe2\\x82'"
        );
        let (_, id) = promoted(&bench, &command).await;
        let file = file(&bench, &id.unwrap());
        go(&bench);
        assert_eq!(end(&bench).await.0.status, TaskStatus::Completed);
        assert_eq!(fs::read_to_string(file).unwrap(), "é€\u{fffd}");
    });
}

#[test]
fn an_encoding_found_in_the_foreground_holds_in_the_background() {
    let bench = Bench::new();
    let before = "这是一个简单的测试文件，用来检查编码。".repeat(20);
    bench.file("before", gbk(&before));
    bench.file("after", gbk("完成"));
    runtime().block_on(async {
        let (outcome, id) = promoted(&bench, &format!("cat before; {MEET} cat after")).await;
        assert!(outcome.content.ends_with(&before), "{}", outcome.content);
        let file = file(&bench, &id.unwrap());
        go(&bench);
        assert_eq!(end(&bench).await.0.status, TaskStatus::Completed);
        assert_eq!(fs::read_to_string(file).unwrap(), format!("{before}完成"));
    });
}

fn gbk(text: &str) -> Vec<u8> {
    encoding_rs::GBK.encode(text).0.into_owned()
}

#[test]
fn terminal_sequences_are_removed_on_both_sides_and_across() {
    let bench = Bench::new();
    runtime().block_on(async {
        let command = format!("printf '\\033[31mred\\033[0m \\033[3'; {MEET} printf '2mgreen\\033[0m\\r\\n'");
        let (_, id) = promoted(&bench, &command).await;
        let file = file(&bench, &id.unwrap());
        go(&bench);
        end(&bench).await;
        assert_eq!(fs::read_to_string(file).unwrap(), "red green\r\n");
    });
}

#[test]
fn a_terminal_of_its_own_goes_along() {
    let mut setup = Setup::default();
    setup.shell.terminal = ShellTerminal::Pty;
    let bench = Bench::with(setup);
    runtime().block_on(async {
        let (outcome, id) = promoted(&bench, &format!("echo one; {MEET} [ -t 1 ] && echo two >&2")).await;
        assert!(outcome.content.ends_with("Its output until then:\none\n"), "{}", outcome.content);
        let file = file(&bench, &id.unwrap());
        go(&bench);
        // Its end is an error to the reader (EIO) and none of the command.
        let (end, _) = end(&bench).await;
        assert!(end.summary.ends_with("exited with code 0."), "{}", end.summary);
        assert_eq!(fs::read_to_string(file).unwrap(), "one\ntwo\n");
    });
}

#[test]
fn a_command_that_nobody_listens_to_ends_all_the_same() {
    let bench = Bench::new();
    runtime().block_on(async {
        // More than a pipe holds.
        promoted(&bench, &format!("{MEET} head -c 10000000 /dev/zero; exit 6")).await.1.unwrap();
        go(&bench);
        until(|| bench.tasks.running().is_empty()).await;
        assert_eq!(bench.tasks.list()[0].status, TaskStatus::Failed);
    });
}

#[test]
fn the_end_of_a_promoted_command_decides_its_state() {
    let bench = Bench::new();
    runtime().block_on(async {
        for (rest, status, how) in [
            ("exit 0", TaskStatus::Completed, "exited with code 0"),
            ("exit 9", TaskStatus::Failed, "exited with code 9"),
            ("kill -KILL $$", TaskStatus::Failed, "was terminated by signal SIGKILL"),
            ("kill -TERM $$", TaskStatus::Failed, "was terminated by signal SIGTERM"),
        ] {
            promoted(&bench, &format!("{MEET} {rest}")).await.1.unwrap();
            go(&bench);
            let (end, _) = end(&bench).await;
            assert_eq!(end.status, status, "{rest}");
            assert!(end.summary.ends_with(&format!(" {how}.")), "{}", end.summary);
        }
        let deaf = "trap '' TERM; echo $$ > pid; touch at; while :; do sleep 0.05; done";
        let id = promoted(&bench, deaf).await.1.unwrap();
        bench.tasks.stop(&id, StoppedBy::Client).unwrap();
        let (end, _) = end(&bench).await;
        assert!(end.status == TaskStatus::Cancelled && end.summary.ends_with("was stopped."));
        assert!(bench.tasks.shut_down(Duration::from_secs(10)).await);
    });
    assert!(is_gone(bench.text("pid").trim()));
}

#[test]
fn a_command_that_takes_too_long_to_wait_for_is_promoted_by_itself() {
    let mut setup = Setup::default();
    setup.shell.promote_after = Some(Duration::from_millis(100));
    let bench = Bench::with(setup);
    runtime().block_on(async {
        let tool = bench.tool("run_shell_command");
        let call = |command| tool.call(bench.ctx(), object(json!({ "command": command, "timeout": 400 })));
        assert!(call("echo quick").await.content.contains("Exit Code: 0"));
        let outcome = call("echo slow; until [ -e go ]; do sleep 0.01; done").await;
        assert!(outcome.content.starts_with("The command was put in the background as bg_"));
        assert!(outcome.content.ends_with("slow\n"), "{}", outcome.content);
        // Its deadline is lifted.
        tokio::time::sleep(Duration::from_millis(500)).await;
        assert_eq!(bench.tasks.running().len(), 1);
        go(&bench);
        assert_eq!(end(&bench).await.0.status, TaskStatus::Completed);
        // A shorter deadline comes first.
        let short = tool.call(bench.ctx(), object(json!({ "command": "sleep 60", "timeout": 50 }))).await;
        assert_eq!(short.error, Some(ToolErrorKind::TimedOut));
    });
}

/// Descriptors and children are counted, so this needs a process of its own.
#[test]
fn many_promotions_leave_nothing_behind() {
    let counted = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "promotion::many_promotions_counted", "--ignored", "--nocapture"])
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&counted.stdout);
    assert!(counted.status.success() && text.contains("1 passed"), "{text}");
}

#[test]
#[ignore = "run by many_promotions_leave_nothing_behind, alone in its process"]
fn many_promotions_counted() {
    let bench = Bench::new();
    let count = tenon_testkit::cases(20);
    let open = || fs::read_dir("/proc/self/fd").unwrap().count();
    runtime().block_on(async {
        let mut before = 0;
        for round in 0..=count {
            let id = promoted(&bench, &format!("(echo grandchild) & {MEET} echo {round}")).await.1.unwrap();
            let file = file(&bench, &id);
            if round % 3 == 0 {
                bench.tasks.stop(&id, StoppedBy::Model).unwrap();
            } else {
                go(&bench);
            }
            while !matches!(bench.tasks.next().await, TaskEvent::Ended(..)) {}
            until(|| open_files_below(file.parent().unwrap()) == 0).await;
            let _ = fs::remove_file(bench.work().join("go"));
            fs::remove_file(file).unwrap();
            if round == 0 {
                until(|| children().is_empty()).await;
                before = open();
            }
        }
        assert!(bench.tasks.shut_down(Duration::from_secs(10)).await);
        until(|| children().is_empty()).await;
        assert_eq!(open(), before);
    });
}

/// Everything that has this process for a parent, zombies included.
fn children() -> Vec<String> {
    let me = std::process::id().to_string();
    let parent_of = |stat: &str| stat.rsplit(')').next()?.split_whitespace().nth(1).map(str::to_owned);
    fs::read_dir("/proc")
        .unwrap()
        .filter_map(|entry| fs::read_to_string(entry.ok()?.path().join("stat")).ok())
        .filter(|stat| parent_of(stat).as_deref() == Some(me.as_str()))
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig { max_shrink_iters: 20, ..ProptestConfig::with_cases(tenon_testkit::cases(8)) })]

    /// Any text, cut anywhere, on either stream, promoted at any moment: the file holds it as written.
    #[test]
    fn cuts_and_the_moment_of_promotion_do_not_matter(
        text in "[a-z€ü\u{1F980}\n]{1,40}",
        sizes in prop::collection::vec((1_usize..5, any::<bool>()), 1..8),
        moment in 0_usize..12,
    ) {
        let bench = Bench::new();
        let mut command = String::new();
        // stdout gets the text and stderr the same in capitals, in turns of any length.
        let capitals = text.to_uppercase().replace('€', "₤").replace('\u{1F980}', "\u{1F99E}").replace('\n', " ");
        let (mut rest, mut other) = (text.as_bytes(), capitals.as_bytes());
        let mut pieces = 0;
        let mut turns = sizes.iter().cycle();
        while !rest.is_empty() || !other.is_empty() {
            if pieces == moment {
                command.push_str(MEET);
            }
            pieces += 1;
            let (size, to_stderr) = *turns.next().unwrap();
            let to_stderr = if rest.is_empty() { true } else if other.is_empty() { false } else { to_stderr };
            let from = if to_stderr { &mut other } else { &mut rest };
            let (chunk, after) = from.split_at(size.min(from.len()));
            *from = after;
            let escaped: String = chunk.iter().map(|byte| format!("\\x{byte:02x}")).collect();
            command.push_str(&format!(" printf '{escaped}'{};", if to_stderr { " >&2" } else { "" }));
        }
        if pieces <= moment {
            command.push_str(MEET);
        }
        let (so_far, written) = runtime().block_on(async {
            let (outcome, id) = promoted(&bench, &command).await;
            let file = file(&bench, &id.unwrap());
            go(&bench);
            end(&bench).await;
            (outcome.content, fs::read_to_string(file).unwrap())
        });
        let is_capital = |c: &char| c.is_uppercase() || matches!(c, '₤' | '\u{1F99E}' | ' ');
        let (to_stderr, to_stdout): (String, String) = written.chars().partition(is_capital);
        prop_assert_eq!((to_stdout.as_str(), to_stderr.as_str()), (text.as_str(), capitals.as_str()));
        if let Some((_, shown)) = so_far.split_once("Its output until then:\n") {
            prop_assert!(written.starts_with(shown), "{:?} is no beginning of {:?}", shown, written);
        }
    }
}

//! The tests that need a process, each with its number (`engine.rs` has the list).

use std::path::Path;
use std::time::Duration;

use tenon_testkit::{Gate, Run, Server, Signal, Tenon, Value, json, reply};

use super::crashes::{Died, at_row, kill_when};
use super::documents::{BATCHES, EVERYTHING, NESTED};
use super::world::{INTERRUPTED, RUN, Whole, World, check_segment, effect, timeless};

const WAIT: Duration = Duration::from_secs(30);

/// One step of one call, and one after it.
const CHAIN: &[(&str, &str)] = &[(
    "flow.yaml",
    "name: chain\nsteps:\n  - {id: work, instructions: 'DO:work'}\n  - {id: after, instructions: 'DO:after', dependsOn: [work]}\n",
)];

fn is_after(body: &Value) -> bool {
    body["messages"][1]["content"].as_str().is_some_and(|text| text.contains("DO:after"))
}

fn is_first(body: &Value) -> bool {
    body["messages"].as_array().is_some_and(|messages| messages.len() == 2)
}

/// The rest of the conversation of `CHAIN`, whatever came before.
fn rest_of_chain(server: &Server) {
    server.push(reply().text("After.").usage(5, 1).when(is_after).forever());
    server.push(reply().text("Work.").usage(7, 2).forever());
}

fn started(world: &World, key: &str) -> bool {
    world.effects().get(key).is_some_and(|effect| effect.started > 0)
}

#[test]
fn engine_01_a_process_killed_in_a_command_is_told_to_the_model_and_not_repeated() {
    let command = "echo start k >> effects; exec sleep 20";
    let server = Server::start([reply().call("k", "run_shell_command", json!({"command": command}))]);
    let mut world = World::with(CHAIN, server);
    let running = world.spawn();
    assert!(matches!(kill_when(running, || started(&world, "k")), Died::Killed));
    rest_of_chain(&world.server);
    let run = world.finish();
    assert_eq!(run.assert_code(0).json()["outputs"], "After.", "{run}");
    let asked = world.asked_by_last();
    assert_eq!(asked.len(), 2, "the first turn is not asked again");
    assert!(asked[0].tool_result("k").starts_with(INTERRUPTED), "{}", asked[0].body);
    assert_eq!(world.effects()["k"].started, 1);
}

#[test]
fn engine_01_a_process_killed_while_a_model_answers_asks_again_for_that_answer_only() {
    let server = Server::start([
        reply().call("k", "run_shell_command", effect("k")).usage(3, 1),
        reply().text("Wor").text("k.").hang_after_events(2),
    ]);
    let mut world = World::with(CHAIN, server);
    let running = world.spawn();
    assert!(matches!(kill_when(running, || world.server.requests().len() == 2), Died::Killed));
    rest_of_chain(&world.server);
    let run = world.finish();
    assert_eq!(run.assert_code(0).json()["outputs"], "After.", "{run}");
    // The turn before is known, its call too.
    assert_eq!(world.asked_by_last().len(), 2);
    assert_eq!(world.asked_by_last()[0].messages().len(), 4);
    assert_eq!((world.effects()["k"].started, world.effects()["k"].done), (1, 1));
    assert_eq!(run.json()["usage"]["input"], 3 + 7 + 5);
}

/// What its agent remembers having done is there, and nothing that protects tenon's own files is in the way.
#[test]
fn engine_01_a_step_that_is_killed_in_its_copy_of_the_repository_goes_on_in_it() {
    let document =
        "name: copies\noptions: {isolation: worktree}\nsteps:\n  - {id: edit, instructions: 'DO:edit'}\n";
    let write = |name: &str| json!({"file_path": name, "content": "x"});
    let server = Server::start([
        reply().call("a", "write_file", write("one.txt")),
        reply().text("x").hang_after_events(1),
    ]);
    let world = World::with(&[("flow.yaml", document)], server);
    let git = |arguments: &[&str]| {
        let mut command = std::process::Command::new("git");
        command.args(["-c", "user.name=t", "-c", "user.email=t@localhost"]).args(arguments);
        let folder = world.tenon.workspace();
        let output = command.current_dir(folder).env("HOME", world.tenon.home()).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    git(&["init", "-q"]);
    git(&["add", "-A"]);
    git(&["commit", "-q", "-m", "first"]);
    let flags = ["--approval-mode", "auto-edit", "-o", "json"];
    let tenon = world.tenon.clone().server(&world.server);
    let words = ["flow", "run", "flow.yaml", "--run-id", RUN];
    let running = tenon.clone().args(words).args(flags).spawn();
    assert!(matches!(kill_when(running, || world.server.requests().len() == 2), Died::Killed));
    world.server.push(reply().call("b", "write_file", write("two.txt")));
    world.server.push(reply().text("Done."));
    let run = tenon.args(["flow", "resume", RUN]).args(flags).run();
    assert_eq!(run.assert_code(0).json()["outputs"], "Done.", "{run}");
    let branch = format!("tenon/{RUN}/edit@1");
    assert_eq!(git(&["ls-tree", "--name-only", &branch]), "flow.yaml\none.txt\ntwo.txt\n");
    assert_eq!(git(&["worktree", "list"]).lines().count(), 1);
}

#[test]
fn engine_02_an_effect_that_was_done_and_not_kept_is_unknown_and_not_repeated() {
    let command = "echo start k >> effects; echo done k >> effects; exec sleep 20";
    let server = Server::start([reply().call("k", "run_shell_command", json!({"command": command}))]);
    let mut world = World::with(CHAIN, server);
    let running = world.spawn();
    let done = || world.effects().get("k").is_some_and(|effect| effect.done > 0);
    assert!(matches!(kill_when(running, done), Died::Killed));
    rest_of_chain(&world.server);
    world.finish().assert_code(0);
    assert!(world.asked_by_last()[0].tool_result("k").starts_with(INTERRUPTED));
    assert_eq!((world.effects()["k"].started, world.effects()["k"].done), (1, 1));
}

#[test]
fn engine_04_a_killed_process_does_not_disturb_others_that_use_the_same_file() {
    let whole = Whole::of(BATCHES);
    let mut world = World::new(BATCHES);
    let others: Vec<_> = ["other-1", "other-2"]
        .into_iter()
        .map(|id| {
            let folder = world.tenon.workspace().join(id);
            std::fs::create_dir(&folder).unwrap();
            std::fs::copy(world.tenon.workspace().join("flow.yaml"), folder.join("flow.yaml")).unwrap();
            world.command(&["flow", "run", "flow.yaml", "--run-id", id]).cwd(folder).spawn()
        })
        .collect();
    for number in 0..4 {
        let rows = world.rows().len();
        let running = world.spawn();
        if let Died::Ended(run) = at_row(running, &world, rows + 3 + number) {
            panic!("it was to be killed: {run}");
        }
    }
    for other in others {
        let run = other.wait();
        let same = |report: &Value| {
            let mut report = timeless(report);
            report["run_id"] = Value::Null;
            report
        };
        assert_eq!(same(&run.assert_code(0).json()), same(&whole.report), "{run}");
    }
    let run = world.finish();
    whole.check(&world, &run, "beside others");
}

#[test]
fn engine_05_a_run_whose_process_is_gone_for_good_is_gone_on_with_from_anywhere() {
    let whole = Whole::of(EVERYTHING);
    let mut world = World::new(EVERYTHING);
    let running = world.spawn();
    assert!(matches!(at_row(running, &world, whole.rows / 2), Died::Killed));
    // Neither the folder nor the file is given again.
    let elsewhere = tempfile::tempdir().unwrap();
    let before = world.rows();
    let run = world.process().cwd(elsewhere.path()).run();
    check_segment(&world, &before, false, "elsewhere");
    whole.check(&world, &run, "elsewhere");
    assert_eq!(std::fs::read_dir(elsewhere.path()).unwrap().count(), 0);
}

#[test]
fn engine_06_a_run_that_is_submitted_twice_at_once_runs_once() {
    let whole = Whole::of(BATCHES);
    let mut world = World::new(BATCHES);
    let submit = ["flow", "run", "flow.yaml", "--run-id", RUN];
    let running: Vec<_> = (0..4).map(|_| world.command(&submit).spawn()).collect();
    let mut runs: Vec<Run> = running.into_iter().map(tenon_testkit::Running::wait).collect();
    runs.sort_by_key(|run| run.code);
    assert_eq!(runs.iter().map(|run| run.code).collect::<Vec<_>>(), [0, 42, 42, 42]);
    for refused in &runs[1..] {
        assert!(refused.stderr.contains(&format!("there is a run `{RUN}` already")), "{refused}");
    }
    whole.check(&world, &runs[0], "submitted four times");
    assert_eq!(world.server.requests().len(), whole.asked.values().sum::<usize>());
}

#[test]
fn engine_07_of_two_that_resume_one_run_one_gets_it() {
    let gate = Gate::new();
    let server = Server::start([reply().text("Lost.").hang_after_events(1)]);
    let mut world = World::with(CHAIN, server);
    let running = world.spawn();
    assert!(matches!(kill_when(running, || world.server.requests().len() == 1), Died::Killed));
    world.server.push(reply().text("Work.").hold(&gate));
    rest_of_chain(&world.server);
    let first = world.spawn();
    world.server.wait_for_requests(2, WAIT);
    let second = world.finish();
    assert_eq!(second.code, 42, "{second}");
    let holder = format!("the run `{RUN}` is being run by process {}", first.pid());
    assert!(second.stderr.contains(&holder), "{second}");
    gate.open();
    let run = first.wait();
    assert_eq!(run.assert_code(0).json()["outputs"], "After.", "{run}");
    assert_eq!(world.server.requests().len(), 3);
}

#[test]
fn engine_08_a_run_that_is_cancelled_stops_paying_and_can_go_on() {
    let server = Server::start([reply().text("Wor").endless().when(is_first)]);
    let mut world = World::with(CHAIN, server);
    let running = world.spawn();
    world.server.wait_for_requests(1, WAIT);
    let cancelled = world.tenon.clone().args(["flow", "cancel", RUN]).run();
    cancelled.assert_code(0);
    let run = running.wait();
    world.server.wait_for_clients_left(1, WAIT);
    assert_eq!((run.code, run.json()["status"].as_str()), (130, Some("cancelled")), "{run}");
    rest_of_chain(&world.server);
    let run = world.finish();
    assert_eq!(run.assert_code(0).json()["outputs"], "After.", "{run}");
}

#[test]
fn engine_08_a_run_that_is_killed_by_its_terminal_stops_paying_and_can_go_on() {
    for signals in [&[Signal::Interrupt][..], &[Signal::Terminate], &[Signal::Interrupt, Signal::Interrupt]] {
        let server = Server::start([reply().text("Wor").endless().when(is_first)]);
        let mut world = World::with(CHAIN, server);
        let mut running = world.spawn();
        world.server.wait_for_requests(1, WAIT);
        for signal in signals {
            running.signal(*signal);
        }
        let run = running.wait();
        world.server.wait_for_clients_left(1, WAIT);
        let code = if signals[0] == Signal::Interrupt { 130 } else { 143 };
        assert_eq!(run.code, code, "{run}");
        rest_of_chain(&world.server);
        let run = world.finish();
        assert_eq!(run.assert_code(0).json()["outputs"], "After.", "{run}");
    }
}

#[test]
fn engine_09_a_run_that_failed_for_good_goes_on_with_what_it_had() {
    let transient = || reply().status(503).header("retry-after", "0");
    let server = Server::start([
        transient(),
        reply().call("k", "run_shell_command", effect("k")).usage(3, 1),
        transient(),
        reply().text("Work.").usage(7, 2),
        transient().when(is_after),
        reply().status(401).when(is_after),
    ]);
    let mut world = World::with(CHAIN, server);
    let run = world.finish();
    assert_eq!(run.code, 1, "{run}");
    let report = run.json();
    assert_eq!((&report["status"], &report["error"]["class"]), (&json!("partial"), &json!("auth")), "{run}");
    assert_eq!(world.server.requests().len(), 6);
    rest_of_chain(&world.server);
    let run = world.finish();
    assert_eq!(run.assert_code(0).json()["outputs"], "After.", "{run}");
    assert_eq!(world.asked_by_last().len(), 1, "only the step that failed");
    assert_eq!(run.json()["usage"]["input"], 3 + 7 + 5);
    assert_eq!((world.effects()["k"].started, world.effects()["k"].done), (1, 1));
}

#[test]
fn engine_12_a_changed_document_is_told_and_run_again_only_where_it_changed() {
    let server = Server::start([reply().text("Work.").usage(7, 2), reply().text("x").hang_after_events(1)]);
    let mut world = World::with(CHAIN, server);
    let running = world.spawn();
    assert!(matches!(kill_when(running, || world.server.requests().len() == 2), Died::Killed));
    let file = world.tenon.workspace().join("flow.yaml");
    let text = std::fs::read_to_string(&file).unwrap();

    // A comment is no change, and without the file the run knows its document.
    std::fs::write(&file, text.replace("DO:work", "DO:other work")).unwrap();
    let refused = world.command(&["flow", "resume", RUN, "flow.yaml"]).run();
    assert_eq!(refused.code, 42, "{refused}");
    assert!(refused.stderr.contains("--accept-changes") && refused.stderr.contains("work"), "{refused}");
    assert_eq!(world.server.requests().len(), 2, "nobody is asked");

    rest_of_chain(&world.server);
    let run = world.command(&["flow", "resume", RUN, "flow.yaml", "--accept-changes"]).run();
    assert_eq!(run.assert_code(0).json()["outputs"], "After.", "{run}");
    let asked = world.asked_by_last();
    assert_eq!(asked.len(), 2, "the changed step, and what depends on it");
    assert!(asked[0].user_text().contains("DO:other work"));
}

#[test]
fn engine_12_a_changed_comment_is_no_change() {
    let server = Server::start([reply().text("Work.").usage(7, 2), reply().text("x").hang_after_events(1)]);
    let mut world = World::with(CHAIN, server);
    let running = world.spawn();
    assert!(matches!(kill_when(running, || world.server.requests().len() == 2), Died::Killed));
    let file = world.tenon.workspace().join("flow.yaml");
    let text = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, format!("# Changed.\n{text}")).unwrap();
    rest_of_chain(&world.server);
    let run = world.command(&["flow", "resume", RUN, "flow.yaml"]).run();
    assert_eq!(run.assert_code(0).json()["outputs"], "After.", "{run}");
    assert_eq!(world.asked_by_last().len(), 1);
}

#[test]
fn engine_13_a_cap_on_concurrency_holds_after_a_crash_too() {
    let steps = (1..=8).map(|n| format!("  - {{id: s{n}, instructions: 'DO:s{n}'}}\n")).collect::<String>();
    let capped = format!("name: capped\noptions: {{maxConcurrency: 2}}\nsteps:\n{steps}");
    let server = Server::answering(|body| match is_first(body) {
        true => {
            let at_work = "echo + >> at-work; sleep 0.05; echo - >> at-work";
            reply().call("c", "run_shell_command", json!({"command": at_work}))
        }
        false => reply().text("done"),
    });
    let mut world = World::with(&[("flow.yaml", &capped)], server);
    let log = world.tenon.workspace().join("at-work");
    let running = world.spawn();
    assert!(matches!(at_row(running, &world, 20), Died::Killed));
    // Commands that were under way end by themselves.
    let balanced = |text: &str| text.matches('+').count() == text.matches('-').count();
    while !balanced(&std::fs::read_to_string(&log).unwrap()) {
        std::thread::yield_now();
    }
    let most = |text: &str| {
        let mut now = 0_i32;
        let step = |line: &str| {
            now += if line == "+" { 1 } else { -1 };
            now
        };
        text.lines().map(step).max().unwrap()
    };
    assert!(most(&std::fs::read_to_string(&log).unwrap()) <= 2);
    std::fs::remove_file(&log).unwrap();
    world.finish().assert_code(0);
    assert!(most(&std::fs::read_to_string(&log).unwrap()) <= 2);
}

/// A journal whose last pages never reached the disk is a journal that ends earlier.
#[test]
fn engine_15_a_truncated_journal_goes_on_from_what_is_left() {
    let whole = Whole::of(NESTED);
    let mut world = World::new(NESTED);
    let running = world.spawn();
    assert!(matches!(at_row(running, &world, whole.rows * 2 / 3), Died::Killed));
    let wal = world.tenon.tenon_home().join("runs.db-wal");
    let length = std::fs::metadata(&wal).unwrap().len();
    let complete = world.rows().len();
    // In the middle of a page, most of the rows gone.
    let file = std::fs::OpenOptions::new().write(true).open(&wal).unwrap();
    file.set_len(length * 3 / 5 + 7).unwrap();
    drop(file);
    let left = world.rows();
    assert!(left.len() < complete && left.len() > 4, "{} of {complete}", left.len());
    let run = world.finish();
    assert_eq!(timeless(&run.assert_code(0).json()), timeless(&whole.report), "{run}");
    check_segment(&world, &left, false, "truncated");
}

#[test]
fn engine_15_a_damaged_journal_is_told_and_left_as_it_is() {
    let mut world = World::new(BATCHES);
    world.finish().assert_code(0);
    let file = world.database();
    // Whoever closes the file last puts everything into it.
    let last = rusqlite::Connection::open(&file).unwrap();
    last.execute_batch("PRAGMA wal_checkpoint(TRUNCATE)").unwrap();
    drop(last);
    let whole = std::fs::read(&file).unwrap();
    for damaged in
        [&whole[..whole.len() / 2], &whole[..100], b"not a database at all, but a file of some length"]
    {
        std::fs::write(&file, damaged).unwrap();
        for words in [&["flow", "resume", RUN][..], &["flow", "run", "flow.yaml", "--run-id", "another"]] {
            let asked = world.server.requests().len();
            let run = world.command(words).run();
            assert!(run.code != 0 && run.code != 101, "{run}");
            let is_named =
                ["the journal cannot be used", "runs.db"].iter().any(|name| run.stderr.contains(name));
            assert!(is_named && !run.stderr.contains("panicked"), "{run}");
            assert_eq!(world.server.requests().len(), asked, "{run}");
        }
        assert_eq!(std::fs::read(&file).unwrap().len(), damaged.len());
    }
}

/// A shell that lets no file grow beyond so many blocks of 1024 bytes, around the process.
fn with_small_files(world: &mut World, blocks: u64) -> Tenon {
    let words: Vec<&str> = match world.has_run() {
        true => vec!["flow", "resume", RUN],
        false => vec!["flow", "run", "flow.yaml", "--run-id", RUN],
    };
    let script = format!("ulimit -f {blocks}; exec \"$0\" \"$@\"");
    world.inside("/bin/bash", &["-c", &script, env!("CARGO_BIN_EXE_tenon")], &words)
}

#[test]
fn engine_16_a_full_disk_stops_the_run_and_costs_nothing_that_was_kept() {
    let whole = Whole::of(BATCHES);
    for blocks in [48, 80, 120, 200] {
        let mut world = World::new(BATCHES);
        let run = with_small_files(&mut world, blocks).run();
        assert!(run.code == 1 || run.code == 42, "{run}");
        assert!(run.stderr.contains("journal"), "{run}");
        let before = world.rows();
        check_segment(&world, &before, true, "full");
        let run = world.finish();
        check_segment(&world, &before, false, &format!("{blocks} blocks"));
        whole.check(&world, &run, &format!("{blocks} blocks"));
    }
}

#[test]
fn engine_16_a_journal_that_cannot_be_made_is_told_before_anybody_is_asked() {
    let mut world = World::new(CHAIN);
    std::fs::create_dir(world.database()).unwrap();
    let run = world.finish();
    assert!(run.code != 0 && run.stderr.contains("runs.db"), "{run}");
    assert_eq!(world.server.requests().len(), 0);
    assert!(Path::new(&world.database()).is_dir());
    // Without a journal it runs all the same.
    let run = world.command(&["flow", "run", "flow.yaml", "--no-journal"]).run();
    run.assert_code(0);
}

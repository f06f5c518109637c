//! What a journal must withstand, where no process is needed. The numbers are those of the list in
//! `tenon-cli/tests/all/engine.rs`, which has the tests that kill.
//!
//! Approvals (3, 14) have their processes in `tenon-cli/tests/all/flow_approve.rs`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use serde_json::{Value, json};
use tenon_core::Timestamp;
use tenon_flow::{
    Begun, Decision, Entry, Journal, JournalError, Reply, Role, RowKind, RunState, Segment, Settled, StepKey,
    StepLog, StepRequest, StopRun, WorkflowStatus,
};

use crate::documents::document;
use crate::durable::{Cut, World, essence, taken, unknown_calls};
use crate::sim::Sim;

#[tokio::test]
async fn engine_02_the_power_fails_between_what_happens_and_its_row() {
    let whole = World::new();
    let expected = essence(&whole.until_cut(Cut::after(usize::MAX)).await.unwrap());
    let effects = whole.calls.load(Ordering::SeqCst);
    let asked = whole.model.asked.lock().unwrap().clone();
    for kind in [
        RowKind::Scheduled,
        RowKind::Told,
        RowKind::ModelTurn,
        RowKind::ToolStarted,
        RowKind::ToolDone,
        RowKind::Completed,
    ] {
        for times in [0, 2, 5] {
            let story = format!("{times} rows `{}`, then nothing", kind.name());
            let world = World::new();
            assert!(world.until_cut(Cut::before(kind, times)).await.is_none(), "{story}");
            let kept = world.rows().iter().filter(|row| row.entry.kind == RowKind::ModelTurn).count();
            let paid: usize = world.model.asked.lock().unwrap().values().sum();
            let outcome = world.until_cut(Cut::after(usize::MAX)).await.unwrap();
            let (done, unknown) = (world.calls.load(Ordering::SeqCst), unknown_calls(&world));
            assert!(done <= effects && done + unknown >= effects, "{story}: {done} done, {unknown} unknown");
            if kind == RowKind::ToolDone {
                assert!(unknown >= 1, "{story}");
            }
            let all: usize = world.model.asked.lock().unwrap().values().sum();
            let whole: usize = asked.values().sum();
            if unknown == 0 {
                assert_eq!(essence(&outcome), expected, "{story}");
                // What was on its way to the disk may have arrived.
                let again = all - paid;
                assert!(
                    again <= whole - kept && again + 5 >= whole - kept,
                    "{story}: {again} of {whole} less {kept}"
                );
            }
            assert_eq!(outcome.status, WorkflowStatus::Completed, "{story}");
        }
    }
}

#[tokio::test]
async fn engine_03_an_ending_that_is_told_twice_counts_once() {
    let mut sim = Sim::new(document("name: x\nsteps:\n  - {id: a}\n  - {id: b, dependsOn: [a]}\n"));
    sim.ok("run/a@1", "yes");
    let completion = sim.completions[0].clone();
    let before = sim.started.clone();
    let actions = sim.interpreter.complete(&completion);
    sim.perform(actions);
    assert_eq!(sim.started, before, "nothing is decided twice");

    let world = World::new();
    let journal = world.journal();
    let (_lease, log) = world.log(&journal, "r").await;
    log.ends(vec![completion.clone()]).await.unwrap();
    log.ends(vec![completion]).await.unwrap_err();
    assert_eq!(world.rows().len(), 1, "nothing is kept twice");
}

const GATED: &str = "name: gated
steps:
  - {id: left, instructions: left}
  - {id: gate, approve: {message: 'Go?', timeout: 1h, onTimeout: deny}, dependsOn: [left]}
  - {id: end, instructions: end, dependsOn: [gate]}
";

/// The run, until it is set aside at its question.
async fn gated() -> World {
    let world = World { workflow: document(GATED), ..World::new() };
    let outcome = world.until_cut(Cut::after(usize::MAX)).await.unwrap();
    assert_eq!(outcome.status, WorkflowStatus::Suspended, "{outcome:?}");
    assert_eq!(outcome.questions[0].request.message, "Go?");
    assert_eq!(world.journal().state("r").unwrap(), RunState::Ended(WorkflowStatus::Suspended));
    world
}

fn yes(by: &str) -> Reply {
    Reply { decision: Decision::Approved, by: by.to_owned(), data: None }
}

/// What happened until then, at every row of it; the answer comes twice, from many at once, and is kept once.
#[tokio::test(flavor = "multi_thread")]
async fn engine_03_a_run_that_is_cut_off_while_it_waits_is_answered_once() {
    let rows = gated().await.rows().len();
    for cut in 1..=rows {
        let world = World { workflow: document(GATED), ..World::new() };
        world.until_cut(Cut::after(cut)).await;
        let outcome = world.until_cut(Cut::after(usize::MAX)).await.unwrap();
        assert_eq!(outcome.status, WorkflowStatus::Suspended, "after {cut}");
        let paid: usize = world.model.asked.lock().unwrap().values().sum();
        let journal = world.journal();
        let [asked] = journal.questions("r").unwrap().try_into().unwrap();
        let settled: Vec<Settled> = std::thread::scope(|scope| {
            let answers = (0..4).map(|number| {
                let (journal, asked) = (world.journal(), asked.clone());
                scope.spawn(move || journal.reply("r", &asked, yes(&format!("user-{number}"))).unwrap())
            });
            answers.collect::<Vec<_>>().into_iter().map(|answer| answer.join().unwrap()).collect()
        });
        let first = |settled: &&Settled| matches!(settled, Settled::Now { .. });
        assert_eq!(settled.iter().filter(first).count(), 1, "{settled:?}");
        let [asked] = journal.questions("r").unwrap().try_into().unwrap();
        let by = asked.resolution.unwrap().by.unwrap();
        // Another crash, between the answer and whatever follows from it.
        world.until_cut(Cut::after(1)).await;
        let outcome = world.until_cut(Cut::after(usize::MAX)).await.unwrap();
        assert_eq!(outcome.status, WorkflowStatus::Completed, "after {cut}: {outcome:?}");
        assert_eq!(outcome.step("gate").unwrap().content, format!("approved by {by}"));
        let ended = world.rows().iter().filter(|row| row.entry.key == "r/gate@1").count();
        assert_eq!(ended, 4, "scheduled, asked, resolved and completed, each once");
        assert!(paid < world.model.asked.lock().unwrap().values().sum::<usize>());
    }
}

/// An answer that comes while the run is about to be set aside is seen, or the run is set aside and whoever answers knows.
#[tokio::test(flavor = "multi_thread")]
async fn engine_03_an_answer_in_the_moment_of_setting_aside_is_not_lost() {
    for _ in 0..20 {
        let world = World { workflow: document(GATED), ..World::new() };
        let journal = world.journal();
        let answering = {
            let journal = journal.clone();
            std::thread::spawn(move || {
                loop {
                    let asked = journal.questions("r").unwrap_or_default();
                    if let Some(asked) = asked.first() {
                        return journal.reply("r", asked, yes("ann")).unwrap();
                    }
                    std::thread::yield_now();
                }
            })
        };
        let outcome = world.until_cut(Cut::after(usize::MAX)).await.unwrap();
        match answering.join().unwrap() {
            Settled::Now { state: RunState::Running, .. } => {
                assert_eq!(outcome.status, WorkflowStatus::Completed, "whoever ran it went on");
            }
            Settled::Now { state, .. } => {
                assert_eq!(state, RunState::Ended(WorkflowStatus::Suspended));
                assert_eq!(outcome.status, WorkflowStatus::Suspended);
            }
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test]
async fn engine_05_a_worker_on_another_machine_has_the_run_as_long_as_its_lease() {
    let world = World::new();
    let journal = world.journal();
    let lease = journal.begin(world.new_run("r")).await.unwrap();
    let file = rusqlite::Connection::open(world.folder.path().join("runs.db")).unwrap();
    let in_a_minute = Timestamp::now().0 + 60_000;
    let elsewhere = "UPDATE runs SET owner = '17 1 another-machine/pid:[1] 5', lease_until = ?1";
    file.execute(elsewhere, [i64::try_from(in_a_minute).unwrap()]).unwrap();
    let held = journal.take("r").await.err().unwrap();
    assert!(matches!(held, JournalError::Held { pid: 17, .. }), "{held}");
    // It is gone for good, and its time is up.
    file.execute(elsewhere, [1]).unwrap();
    let (taken, _) = journal.take("r").await.unwrap();
    let entry =
        Entry { key: "r/a@1".into(), kind: RowKind::Signal, at: Timestamp(1), payload: String::new() };
    let lost = lease.append(vec![entry.clone()]).await.err().unwrap();
    assert!(matches!(lost, JournalError::Lost { .. }), "{lost}");
    taken.append(vec![entry]).await.unwrap();
}

/// Histories of earlier days come to the end that they came to then, and ask for nothing that they have.
#[tokio::test]
async fn engine_11_stored_histories_end_as_they_ended() {
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        for (name, cut) in HISTORIES {
            store_history(name, *cut).await;
        }
    }
    let whole = World::new();
    let outcome = whole.until_cut(Cut::after(usize::MAX)).await.unwrap();
    let turns: usize = whole.model.asked.lock().unwrap().values().sum();
    for (name, _) in HISTORIES {
        let world = World::new();
        let kept = import(&world.journal(), &world, &history(name)).await;
        let again = world.until_cut(Cut::after(usize::MAX)).await.unwrap();
        assert_eq!(essence(&again), essence(&outcome), "{name}");
        let stored = std::fs::read_to_string(history("ending").with_extension("txt")).unwrap();
        assert_eq!(essence(&again).join("\n") + "\n", stored, "{name}");
        let asked: usize = world.model.asked.lock().unwrap().values().sum();
        assert_eq!(asked, turns - kept, "{name}");
    }
}

/// Whole, and cut off where several steps are under way and all is kept.
const HISTORIES: &[(&str, usize)] =
    &[("whole", usize::MAX), ("early", 9), ("in-items", 60), ("in-include", 88)];

fn history(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/all/histories").join(name).with_extension("jsonl")
}

async fn store_history(name: &str, cut: usize) {
    let world = World::new();
    let outcome = world.until_cut(Cut::after(cut)).await;
    let mut lines = Vec::new();
    world.journal().export("r", &mut lines).unwrap().unwrap();
    std::fs::write(history(name), lines).unwrap();
    if let Some(outcome) = outcome {
        let ending = essence(&outcome).join("\n") + "\n";
        std::fs::write(history("ending").with_extension("txt"), ending).unwrap();
    }
}

/// Puts an export back into a journal; how many turns it has.
async fn import(journal: &Journal, world: &World, file: &Path) -> usize {
    let text = std::fs::read_to_string(file).unwrap();
    let lines = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let entries: Vec<Entry> = lines
        .skip(1)
        .map(|line| {
            let named = |kind: &&RowKind| kind.name() == line["kind"];
            Entry {
                key: line["key"].as_str().unwrap().to_owned(),
                kind: *RowKind::ALL.iter().find(named).unwrap(),
                at: Timestamp(1),
                payload: line["payload"].as_str().unwrap().to_owned(),
            }
        })
        .collect();
    let turns = entries.iter().filter(|entry| entry.kind == RowKind::ModelTurn).count();
    let lease = journal.begin(world.new_run("r")).await.unwrap();
    lease.append(entries).await.unwrap();
    turns
}

/// The time of whoever waits goes on; the time of whoever works does not.
#[tokio::test]
async fn engine_14_a_pause_goes_on_while_nobody_is_there_and_a_time_limit_does_not() {
    const HOUR: u64 = 3_600_000;
    let world = World::new();
    let journal = world.journal();
    let step = StepKey::run("r").child(Segment::new("a"));
    let keys = [Role::Delay, Role::Backoff, Role::Timeout, Role::JudgeTimeout];
    let sleep = StepRequest::Sleep { ms: HOUR };
    let (lease, log) = world.log(&journal, "r").await;
    for role in keys {
        let begun = log.begins(&step.with_role(role), &sleep).await.unwrap();
        assert_eq!(begun, Begun::default(), "an hour from now");
    }
    drop((lease, log));
    // Twice, because what is left is kept too.
    for _ in 0..2 {
        pass(&world, HOUR * 3 / 2);
        let (lease, log) = world.log(&journal, "r").await;
        for role in keys {
            let left = log.begins(&step.with_role(role), &sleep).await.unwrap().left_ms.unwrap();
            match role {
                Role::Delay | Role::Backoff => assert_eq!(left, 0, "{role:?}"),
                // A moment passed while the rows were written.
                _ => assert!(left > HOUR - 60_000 && left <= HOUR, "{role:?}: {left}"),
            }
        }
        drop((lease, log));
    }
    // Besides what is kept of the time in which nobody was there.
    let rows = world.rows().into_iter().filter(|row| row.entry.kind != RowKind::Paused);
    assert_eq!(rows.count(), keys.len());
}

/// A person's time goes on whether or not anybody is there, is applied by whoever comes, and once.
#[tokio::test]
async fn engine_14_the_time_of_a_question_is_measured_from_when_it_was_first_asked() {
    const HOUR: i64 = 3_600_000;
    let earlier = |world: &World, ms: i64| {
        let file = rusqlite::Connection::open(world.folder.path().join("runs.db")).unwrap();
        let update =
            "UPDATE events SET payload = json_set(payload, '$.asked', json_extract(payload, '$.asked') - ?1)
                      WHERE kind = 'asked'";
        assert_eq!(file.execute(update, [ms]).unwrap(), 1);
    };
    let world = gated().await;
    for _ in 0..3 {
        earlier(&world, HOUR / 4);
        let outcome = world.until_cut(Cut::after(usize::MAX)).await.unwrap();
        assert_eq!(outcome.status, WorkflowStatus::Suspended);
    }
    earlier(&world, HOUR / 4);
    // Too late to say yes, although nobody has come to see that.
    let journal = world.journal();
    let [asked] = journal.questions("r").unwrap().try_into().unwrap();
    let Settled::Before { resolution, .. } = journal.reply("r", &asked, yes("ann")).unwrap() else {
        panic!("an answer after the end");
    };
    assert_eq!((resolution.decision, &resolution.by), (Decision::TimedOut, &None));
    assert_eq!(Some(resolution.at), asked.question.expires());
    let outcome = world.until_cut(Cut::after(usize::MAX)).await.unwrap();
    let error = outcome.step("gate").unwrap().error.clone().unwrap();
    assert_eq!(
        (error.class.name(), error.message.as_str()),
        ("denied", "it was denied because nobody answered within 1h")
    );
    assert_eq!(world.rows().iter().filter(|row| row.entry.kind == RowKind::Resolved).count(), 1);
}

/// Makes everything that happened older.
fn pass(world: &World, ms: u64) {
    let file = rusqlite::Connection::open(world.folder.path().join("runs.db")).unwrap();
    for row in world.rows() {
        let mut due: Value = serde_json::from_str(&row.entry.payload).unwrap();
        for moment in ["at", "from", "until"] {
            if let Some(at) = due[moment].as_u64() {
                due[moment] = json!(at - ms);
            }
        }
        let at = i64::try_from(row.entry.at.0 - ms).unwrap();
        let (seq, payload) = (i64::try_from(row.seq).unwrap(), due.to_string());
        let update = "UPDATE events SET at = ?1, payload = ?2 WHERE seq = ?3";
        file.execute(update, rusqlite::params![at, payload, seq]).unwrap();
    }
    let update = "UPDATE runs SET created = created - ?1, updated = updated - ?1";
    file.execute(update, [i64::try_from(ms).unwrap()]).unwrap();
}

/// The disk was full for a moment: what was paid for before is not paid for again.
#[tokio::test]
async fn engine_16_a_turn_that_cannot_be_kept_does_not_fail_its_step() {
    let world = World::new();
    let journal = world.journal();
    let (lease, log) = world.log(&journal, "r").await;
    let file = rusqlite::Connection::open(world.folder.path().join("runs.db")).unwrap();
    // The sixth answer cannot be written; everything else can.
    file.execute_batch(
        "CREATE TRIGGER full BEFORE INSERT ON events
         WHEN NEW.kind = 'model_turn' AND (SELECT count(*) FROM events WHERE kind = 'model_turn') >= 5
         BEGIN SELECT RAISE(ABORT, 'database or disk is full'); END",
    )
    .unwrap();
    let outcome = world.run("r", Arc::new(log), StopRun::default()).await;
    assert_eq!(outcome.status, WorkflowStatus::Failed, "{outcome:?}");
    let error = outcome.error.unwrap().message;
    assert!(error.contains("database or disk is full"), "{error}");
    lease.finish(RunState::Ended(outcome.status), None).await.unwrap();
    let ended = |kind: RowKind| world.rows().iter().filter(|row| row.entry.kind == kind).count();
    assert_eq!((ended(RowKind::ModelTurn), ended(RowKind::Failed)), (5, 0), "nobody is to blame");
    drop(lease);
    file.execute_batch("DROP TRIGGER full").unwrap();

    let whole = World::new();
    let expected = essence(&whole.until_cut(Cut::after(usize::MAX)).await.unwrap());
    let turns: usize = whole.model.asked.lock().unwrap().values().sum();
    let before: usize = world.model.asked.lock().unwrap().values().sum();
    assert_eq!(essence(&world.until_cut(Cut::after(usize::MAX)).await.unwrap()), expected);
    let asked: usize = world.model.asked.lock().unwrap().values().sum();
    assert_eq!(asked - before, turns - 5);
}

/// What a resumption forgets, it forgets with the moment in which it becomes one: whoever crashes before that tries
/// the failed steps again, whoever crashes later does too.
#[tokio::test]
async fn a_resumption_that_crashes_at_once_is_still_one() {
    let world = World::new();
    let journal = world.journal();
    let (lease, log) = world.log(&journal, "r").await;
    let failed = crate::sim::failed(tenon_flow::StepErrorClass::Auth, "no key");
    let key: StepKey = "r/left@1".parse().unwrap();
    let completion = tenon_flow::Completion { key: key.clone(), at: Timestamp(1), outcome: failed };
    log.ends(vec![completion]).await.unwrap();
    lease.finish(RunState::Ended(WorkflowStatus::Failed), None).await.unwrap();
    drop((lease, log));
    for _ in 0..2 {
        let (lease, stored) = taken(&journal, "r").await;
        assert_eq!(stored.state, RunState::Ended(WorkflowStatus::Failed));
        drop(lease);
    }
    let (lease, log) = world.log(&journal, "r").await;
    let request = StepRequest::Sleep { ms: 1 };
    assert!(log.ended(&key, &request).is_none(), "it is tried again");
    assert_eq!(journal.load("r").unwrap().state, RunState::Running);
    drop((lease, log));
    let (lease, stored) = taken(&journal, "r").await;
    assert_eq!(stored.state, RunState::Interrupted);
    drop(lease);
    let (_lease, log) = world.log(&journal, "r").await;
    assert!(log.ended(&key, &request).is_none());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_hundred_runs_at_once_in_one_process_keep_apart() {
    let whole = World::new();
    let expected = essence(&whole.until_cut(Cut::after(usize::MAX)).await.unwrap());
    let count = |world: &World, id: &str| {
        let mut kinds: BTreeMap<&'static str, usize> = BTreeMap::new();
        for row in world.journal().load(id).unwrap().rows {
            assert!(
                row.entry.key.starts_with(&format!("{id}/")) || row.entry.key.starts_with(&format!("{id}@"))
            );
            *kinds.entry(row.entry.kind.name()).or_default() += 1;
        }
        kinds
    };
    let rows = count(&whole, "r");
    let world = Arc::new(World::new());
    let journal = world.journal();
    let runs = (0..100).map(|number| {
        let (world, journal) = (Arc::clone(&world), journal.clone());
        tokio::spawn(async move {
            let id = format!("run-{number}");
            let (lease, log) = world.log(&journal, &id).await;
            let outcome = world.run(&id, Arc::new(log), StopRun::default()).await;
            lease.finish(RunState::Ended(outcome.status), outcome.spent.cost_usd).await.unwrap();
            essence(&outcome)
        })
    });
    for (number, essence) in futures_util::future::try_join_all(runs).await.unwrap().into_iter().enumerate() {
        assert_eq!(essence, expected, "run {number}");
        assert_eq!(count(&world, &format!("run-{number}")), rows, "run {number}");
    }
    assert_eq!(journal.list(1000).unwrap().len(), 100);
}

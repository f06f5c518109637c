//! The journal by itself: what is written is there, one holder at a time, and files that are no journal.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use tempfile::TempDir;
use tenon_core::Timestamp;
use tenon_flow::{
    Cancelling, Entry, Journal, JournalError, NewRun, Retention, RowKind, RunState, WorkflowStatus,
};

fn place() -> (TempDir, Journal) {
    let folder = tempfile::tempdir().unwrap();
    let journal = Journal::open(&folder.path().join("home/runs.db")).unwrap();
    (folder, journal)
}

fn run(id: &str) -> NewRun {
    NewRun {
        id: id.to_owned(),
        name: "audit".to_owned(),
        document_hash: "abc".to_owned(),
        document: "{}".to_owned(),
        inputs: "{\"a\":1}".to_owned(),
        cwd: "/home/someone/project".to_owned(),
    }
}

fn entry(key: &str, kind: RowKind, payload: &str) -> Entry {
    Entry { key: key.to_owned(), kind, at: Timestamp(7), payload: payload.to_owned() }
}

#[tokio::test]
async fn what_was_written_is_there_in_its_order() {
    let (folder, journal) = place();
    let lease = journal.begin(run("r1")).await.unwrap();
    let one = vec![entry("a", RowKind::Scheduled, "1"), entry("a", RowKind::ModelTurn, "2")];
    lease.append(one.clone()).await.unwrap();
    let two = vec![entry("a", RowKind::Completed, "{\"n\":1e2}")];
    lease.append(two.clone()).await.unwrap();

    // Another process would see the same.
    let again = Journal::open(&folder.path().join("home/runs.db")).unwrap();
    let stored = again.load("r1").unwrap();
    assert_eq!(stored.run, run("r1"));
    assert_eq!(stored.state, RunState::Running);
    let seqs: Vec<u64> = stored.rows.iter().map(|row| row.seq).collect();
    assert_eq!(seqs, [1, 2, 3]);
    let entries: Vec<Entry> = stored.rows.into_iter().map(|row| row.entry).collect();
    assert_eq!(entries, [one, two].concat());
}

/// Without a lock of its own, another program that looks at the file takes itself for the only one and puts away what is
/// still being written.
#[tokio::test]
async fn the_file_stays_locked_while_it_is_in_use() {
    let (folder, journal) = place();
    let path = folder.path().join("home/runs.db");
    let _lease = journal.begin(run("r")).await.unwrap();
    drop(Journal::open(&path).unwrap());
    let inode = std::os::unix::fs::MetadataExt::ino(&fs::metadata(&path).unwrap());
    let locks = fs::read_to_string("/proc/locks").unwrap();
    assert!(locks.lines().any(|line| line.contains(&format!(":{inode} "))), "{inode}\n{locks}");
}

#[tokio::test]
async fn every_kind_of_row_is_read_back() {
    let (_folder, journal) = place();
    let lease = journal.begin(run("r")).await.unwrap();
    let entries: Vec<Entry> = RowKind::ALL.iter().map(|kind| entry(kind.name(), *kind, "p")).collect();
    lease.append(entries.clone()).await.unwrap();
    let read: Vec<Entry> = journal.load("r").unwrap().rows.into_iter().map(|row| row.entry).collect();
    assert_eq!(read, entries);
}

#[tokio::test]
async fn a_step_ends_once() {
    let (_folder, journal) = place();
    let lease = journal.begin(run("r")).await.unwrap();
    lease.append(vec![entry("a@1", RowKind::Completed, "1")]).await.unwrap();
    for kind in [RowKind::Completed, RowKind::Failed] {
        let together = vec![entry("b@1", RowKind::Scheduled, ""), entry("a@1", kind, "2")];
        assert!(matches!(lease.append(together).await, Err(JournalError::File { .. })));
    }
    // Nothing of what was refused is left.
    assert_eq!(journal.load("r").unwrap().rows.len(), 1);
    lease.append(vec![entry("a@2", RowKind::Completed, "3")]).await.unwrap();
}

#[tokio::test]
async fn one_holder_at_a_time() {
    let (_folder, journal) = place();
    let lease = journal.begin(run("r")).await.unwrap();
    let held = JournalError::Held { id: "r".to_owned(), pid: std::process::id() }.to_string();
    assert_eq!(journal.take("r").await.err().unwrap().to_string(), held);
    assert_eq!(journal.delete("r").err().unwrap().to_string(), held);
    assert!(matches!(journal.begin(run("r")).await, Err(JournalError::Exists { .. })));
    drop(lease);
    let (lease, stored) = journal.take("r").await.unwrap();
    assert_eq!(stored.run, run("r"));
    lease.append(vec![entry("a", RowKind::Signal, "")]).await.unwrap();
    assert!(matches!(journal.take("nobody").await, Err(JournalError::Unknown { .. })));
}

#[tokio::test]
async fn whoever_lost_a_run_writes_nothing_more() {
    let (folder, journal) = place();
    let lease = journal.begin(run("r")).await.unwrap();
    // Another machine took it over after the lease had run out.
    let other = rusqlite::Connection::open(folder.path().join("home/runs.db")).unwrap();
    other.execute("UPDATE runs SET owner = '1 2 3 4'", []).unwrap();
    let refused = lease.append(vec![entry("a", RowKind::Scheduled, "")]).await;
    assert!(matches!(refused, Err(JournalError::Lost { .. })), "{refused:?}");
    assert!(refused.unwrap_err().hint().is_some_and(|hint| hint.starts_with("one process at a time")));
    let refused = lease.finish(RunState::Ended(WorkflowStatus::Completed), None).await;
    assert!(matches!(refused, Err(JournalError::Lost { .. })), "{refused:?}");
    drop(lease);
    let owner: String = other.query_row("SELECT owner FROM runs", [], |row| row.get(0)).unwrap();
    assert_eq!(owner, "1 2 3 4");
    assert!(journal.load("r").unwrap().rows.is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_hundred_runs_at_once_do_not_mix() {
    let (_folder, journal) = place();
    let runs = (0..100).map(|number| {
        let journal = journal.clone();
        tokio::spawn(async move {
            let id = format!("run_{number}");
            let lease = journal.begin(run(&id)).await.unwrap();
            for step in 0..10 {
                let key = format!("{id}/{step}");
                lease.append(vec![entry(&key, RowKind::Scheduled, &id)]).await.unwrap();
                lease.append(vec![entry(&key, RowKind::Completed, &id)]).await.unwrap();
            }
            lease.finish(RunState::Ended(WorkflowStatus::Completed), Some(0.5)).await.unwrap();
        })
    });
    futures_util::future::try_join_all(runs).await.unwrap();
    let listed = journal.list(1000).unwrap();
    assert_eq!(listed.len(), 100);
    for summary in listed {
        assert_eq!(
            (summary.state, summary.cost_usd),
            (RunState::Ended(WorkflowStatus::Completed), Some(0.5))
        );
        let rows = journal.load(&summary.id).unwrap().rows;
        assert_eq!(rows.len(), 20);
        for (at, row) in rows.iter().enumerate() {
            let key = format!("{}/{}", summary.id, at / 2);
            assert_eq!((row.seq, &row.entry.key, &row.entry.payload), (at as u64 + 1, &key, &summary.id));
        }
    }
}

#[tokio::test]
async fn runs_are_found_by_the_beginning_of_their_id() {
    let (_folder, journal) = place();
    for id in ["run_abc", "run_abd", "run_ab", "other", "run%"] {
        drop(journal.begin(run(id)).await.unwrap());
    }
    assert_eq!(journal.find("oth").unwrap(), "other");
    assert_eq!(journal.find("run_ab").unwrap(), "run_ab", "an exact id is not ambiguous");
    assert_eq!(journal.find("run%").unwrap(), "run%", "no pattern");
    let several = journal.find("run_").err().unwrap();
    assert!(matches!(&several, JournalError::Ambiguous { ids, .. } if ids.len() == 3), "{several}");
    for unknown in ["", "x", "RUN_ABC", "run_abcd"] {
        assert!(matches!(journal.find(unknown), Err(JournalError::Unknown { .. })), "{unknown}");
    }
}

#[tokio::test]
async fn a_run_is_cancelled_from_elsewhere() {
    let (folder, journal) = place();
    let lease = journal.begin(run("r")).await.unwrap();
    let mut cancelled = lease.cancelled();
    let elsewhere = Journal::open(&folder.path().join("home/runs.db")).unwrap();
    assert!(matches!(elsewhere.cancel("r").unwrap(), Cancelling::Asked { .. }));
    cancelled.wait_for(|cancelled| *cancelled).await.unwrap();
    drop(lease);
    // Nobody runs it: it is over at once. What is over stays as it ended.
    let (lease, _) = journal.take("r").await.unwrap();
    assert!(!*lease.cancelled().borrow(), "an old wish does not stop a new start");
    drop(lease);
    let (lease, _) = journal.take("r").await.unwrap();
    lease.finish(RunState::Ended(WorkflowStatus::Failed), None).await.unwrap();
    drop(lease);
    assert_eq!(elsewhere.cancel("r").unwrap(), Cancelling::Over(WorkflowStatus::Failed));
    assert_eq!(journal.load("r").unwrap().state, RunState::Ended(WorkflowStatus::Failed));
    assert!(matches!(elsewhere.cancel("x"), Err(JournalError::Unknown { .. })));
    drop(journal.begin(run("cut off")).await.unwrap());
    // The lease is given back by the journal's thread.
    while journal.holder("cut off").unwrap().is_some() {
        std::thread::yield_now();
    }
    assert_eq!(elsewhere.cancel("cut off").unwrap(), Cancelling::Marked);
    assert_eq!(journal.state("cut off").unwrap(), RunState::Ended(WorkflowStatus::Cancelled));
}

#[tokio::test]
async fn what_is_deleted_is_gone_from_the_file_too() {
    let (folder, journal) = place();
    let lease = journal.begin(run("r")).await.unwrap();
    lease.append(vec![entry("a", RowKind::ModelTurn, "a very secret answer")]).await.unwrap();
    drop(lease);
    // The lease is given back by the writer's thread.
    let (lease, _) = journal.take("r").await.unwrap();
    drop(lease);
    drop(journal.begin(run("s")).await.unwrap());
    journal.delete("r").unwrap();
    assert!(matches!(journal.load("r"), Err(JournalError::Unknown { .. })));
    drop(journal);
    for file in fs::read_dir(folder.path().join("home")).unwrap() {
        let file = file.unwrap().path();
        // The last connection removes what it needs no longer.
        let Ok(bytes) = fs::read(&file) else { continue };
        let text = String::from_utf8_lossy(&bytes).into_owned();
        assert!(!text.contains("a very secret answer"), "{}", file.display());
    }
}

#[tokio::test]
async fn old_runs_are_removed_unless_they_are_not_over() {
    let (folder, journal) = place();
    let ended = RunState::Ended;
    for (id, state) in [
        ("done", Some(ended(WorkflowStatus::Completed))),
        ("failed", Some(ended(WorkflowStatus::Failed))),
        ("suspended", Some(ended(WorkflowStatus::Suspended))),
        ("crashed", None),
        ("new", Some(ended(WorkflowStatus::Completed))),
    ] {
        let lease = journal.begin(run(id)).await.unwrap();
        if let Some(state) = state {
            lease.finish(state, None).await.unwrap();
        }
    }
    let other = rusqlite::Connection::open(folder.path().join("home/runs.db")).unwrap();
    other.execute("UPDATE runs SET updated = 1000 WHERE run_id <> 'new'", []).unwrap();
    assert_eq!(journal.retain(Retention { age: Duration::from_secs(3600) }).unwrap().len(), 2);
    let mut left: Vec<String> = journal.list(10).unwrap().into_iter().map(|run| run.id).collect();
    left.sort();
    assert_eq!(left, ["crashed", "new", "suspended"]);
}

#[tokio::test]
async fn a_run_is_exported_as_lines() {
    let (_folder, journal) = place();
    let lease = journal.begin(run("r")).await.unwrap();
    lease.append(vec![entry("a", RowKind::ModelTurn, "line\nbreak")]).await.unwrap();
    let mut out = Vec::new();
    journal.export("r", &mut out).unwrap().unwrap();
    let lines: Vec<serde_json::Value> =
        String::from_utf8(out).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.len(), 2);
    assert_eq!((&lines[0]["run_id"], &lines[0]["inputs"]), (&"r".into(), &"{\"a\":1}".into()));
    assert_eq!((&lines[1]["seq"], &lines[1]["payload"]), (&1.into(), &"line\nbreak".into()));
}

#[test]
fn the_file_is_its_owners_alone() {
    let (folder, _journal) = place();
    let home = folder.path().join("home");
    let mode = |path: &std::path::Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&home), 0o700);
    for file in fs::read_dir(&home).unwrap() {
        let file = file.unwrap().path();
        assert_eq!(mode(&file), 0o600, "{}", file.display());
    }
}

#[test]
fn files_that_are_no_journal_are_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("runs.db");
    let said = || Journal::open(&path).err().unwrap().to_string();

    fs::write(&path, "not a database, and long enough to be read as one ".repeat(200)).unwrap();
    assert!(said().ends_with("is no journal of workflow runs"), "{}", said());

    fs::remove_file(&path).unwrap();
    let other = rusqlite::Connection::open(&path).unwrap();
    other.execute_batch("CREATE TABLE mine (x)").unwrap();
    assert!(said().ends_with("is no journal of workflow runs"), "{}", said());
    other.execute_batch("DROP TABLE mine").unwrap();
    drop(other);

    drop(Journal::open(&path).unwrap());
    let newer = rusqlite::Connection::open(&path).unwrap();
    newer.pragma_update(None, "user_version", 2).unwrap();
    assert!(said().ends_with("was written by a newer tenon (format 2)"), "{}", said());

    let folder = folder.path().join("runs.db/below");
    let error = Journal::open(&folder).err().unwrap();
    assert!(matches!(error, JournalError::Unusable { .. }), "{error}");
}

#[tokio::test]
async fn a_row_that_cannot_be_read_is_named() {
    let (folder, journal) = place();
    let lease = journal.begin(run("r")).await.unwrap();
    lease.append(vec![entry("a", RowKind::Signal, "")]).await.unwrap();
    let other = rusqlite::Connection::open(folder.path().join("home/runs.db")).unwrap();
    other.execute("UPDATE events SET kind = 'strange'", []).unwrap();
    let error = journal.load("r").err().unwrap();
    assert_eq!(error.to_string(), "row 1 of the run `r` cannot be read: its kind is `strange`");
}

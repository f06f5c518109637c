//! Runs whose agents write to each other, cut off after any row of their journal: every message stands in one conversation or
//! was dropped, the shared memory is what it was, and a coordinator that had its say is not asked again.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use tenon_core::{
    Cancel, Delta, DeltaStream, FinishReason, ModelClient, ModelError, Models, Request, Role, Secrets,
};
use tenon_flow::{
    Coordination, Entry, FlowRun, Journal, JournalLog, LoadedWorkflow, NewRun, Past, Resumed, Row, RowKind,
    WorkflowOutcome, WorkflowStatus,
};

use crate::documents::document;

/// How many are sent in it.
const MESSAGES: usize = 5;
const DOCUMENT: &str = r#"
name: talk
agents:
  one: {description: one, tools: [send_message]}
steps:
  - {id: ping, agent: one, instructions: "I am ping"}
  - {id: pong, agent: one, instructions: "I am pong"}
  - {id: end, agent: one, instructions: "I am the end", dependsOn: [ping, pong]}
"#;

/// Everybody writes to rounds, items and steps behind them, some of which there are not.
const NESTED: &str = r#"
name: nested
agents:
  one: {description: one, tools: [send_message]}
steps:
  - {id: first, agent: one, instructions: "I am first"}
  - {id: each, agent: one, instructions: "I am an item", loop: {forEach: [1, 2]}}
  - {id: lp, dependsOn: [first], loop: {maxIterations: 2, steps: [{id: x, agent: one, instructions: "I am x"}]}}
  - {id: after, agent: one, instructions: "I am the end", dependsOn: [each, lp]}
"#;

/// Answers by the conversation alone.
#[derive(Default)]
struct Model {
    asked: Mutex<Vec<String>>,
}

impl ModelClient for Model {
    fn stream(&self, request: Request, _cancel: Cancel) -> DeltaStream {
        let task = request.messages[0].text();
        let turn = request.messages.iter().filter(|message| message.role == Role::Assistant).count();
        let last = request.messages.last().unwrap().text();
        let all = ["I am ping", "I am pong", "I am the end", "I am first", "I am an item", "I am x"];
        let who = all.into_iter().find(|who| task.contains(who));
        self.asked.lock().unwrap().push(who.unwrap_or("coordinator").to_owned());
        let send = |to: &str| vec![("send_message", json!({"to": to, "text": format!("hello {to}")}))];
        let calls = match (who, turn) {
            (Some("I am ping"), 0) => {
                let mut calls = send("pong");
                calls.push(("shared_memory_write", json!({"key": "k", "value": "v1"})));
                calls.extend(vec![("send_message", json!({"text": "to whom it may concern"}))]);
                calls
            }
            (Some("I am ping"), 1) => send("end"),
            (Some("I am pong"), 0) => send("ping"),
            (Some("I am pong"), 1) => send("end"),
            (Some("I am first"), 0) => {
                let to = ["each[0]", "each[1]", "each[9]", "lp.0.x", "lp.1.x", "lp.5.x", "lp", "after"];
                to.into_iter().flat_map(send).collect()
            }
            (Some("I am an item"), 0) => [send("lp.1.x"), send("after")].concat(),
            (Some("I am x"), 0) => [send("each[1]"), send("first"), send("lp.1.x")].concat(),
            (Some("I am the end"), 0) => vec![("shared_memory_read", json!({"key": "one/k"}))],
            (Some("I am the end"), 1) => send("ping"),
            (None, _) if last.contains("the workflow ended") => vec![("finalize", json!({"summary": "sum"}))],
            _ => Vec::new(),
        };
        let mut deltas = vec![Delta::Text(format!("turn {turn}"))];
        let finish = if calls.is_empty() { FinishReason::Stop } else { FinishReason::ToolCalls };
        for (index, (name, arguments)) in calls.into_iter().enumerate() {
            let id = format!("c{turn}_{index}");
            deltas.push(Delta::ToolCallStarted { index, id, name: name.into() });
            deltas.push(Delta::ToolCallArguments { index, fragment: arguments.to_string() });
        }
        deltas.push(Delta::Finished(finish));
        Box::pin(futures_util::stream::iter(deltas.into_iter().map(Ok::<Delta, ModelError>)))
    }
}

struct Played {
    outcome: WorkflowOutcome,
    rows: Vec<Row>,
    asked: Vec<String>,
}

/// Goes on after these rows, on a journal of its own.
async fn after(flow: &Arc<LoadedWorkflow>, rows: &[Row], coordination: Coordination) -> Played {
    let folder = tempfile::tempdir().unwrap();
    let journal = Journal::open(&folder.path().join("runs.db")).unwrap();
    let new = NewRun {
        id: "r".to_owned(),
        name: "talk".to_owned(),
        document_hash: flow.hash.clone(),
        document: String::new(),
        inputs: String::new(),
        cwd: String::new(),
    };
    let lease = journal.begin(new).await.unwrap();
    let entries: Vec<Entry> = rows.iter().map(|row| row.entry.clone()).collect();
    lease.append(entries).await.unwrap();
    let past = Past::of(&journal.load("r").unwrap()).unwrap();
    let root = Arc::clone(flow);
    let resumed = Resumed { past, models: Models::default(), document: None, given: None };
    let log = JournalLog::resume(Arc::new(lease), root, Secrets::default(), resumed).await.unwrap();
    let model = Arc::new(Model::default());
    let outcome = FlowRun::new(Arc::clone(flow), Arc::clone(&model) as Arc<dyn ModelClient>, "m")
        .run_id("r")
        .log(Arc::new(log))
        .coordination(coordination)
        .run()
        .await
        .unwrap();
    let asked = model.asked.lock().unwrap().clone();
    Played { outcome, rows: journal.load("r").unwrap().rows, asked }
}

/// What became of each message: how often it was told, and for what it was dropped.
fn fates(rows: &[Row]) -> BTreeMap<String, Vec<String>> {
    let mut fates: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for Row { entry, .. } in rows {
        let payload: Value = serde_json::from_str(&entry.payload).unwrap();
        match entry.kind {
            RowKind::Told => {
                for id in payload["mail"].as_array().into_iter().flatten().filter_map(Value::as_str) {
                    if id.starts_with("msg-") {
                        fates.entry(id.to_owned()).or_default().push(format!("told {}", entry.key));
                    }
                }
            }
            RowKind::Signal => match payload["signal"].as_str().unwrap() {
                "message_sent" => {
                    fates.entry(payload["letter"]["id"].as_str().unwrap().to_owned()).or_default();
                }
                "message_dropped" => {
                    let id = payload["id"].as_str().unwrap().to_owned();
                    fates.entry(id).or_default().push(payload["reason"].as_str().unwrap().to_owned());
                }
                _ => {}
            },
            _ => {}
        }
    }
    fates
}

fn check(played: &Played, cut: usize) {
    assert_eq!(played.outcome.status, WorkflowStatus::Completed, "cut at {cut}: {:?}", played.outcome.error);
    let fates = fates(&played.rows);
    // Less by those whose sending was cut off.
    let calls = |kind: RowKind| played.rows[..cut].iter().filter(|row| row.entry.kind == kind).count();
    let cut_off = calls(RowKind::ToolStarted) - calls(RowKind::ToolDone);
    assert!(fates.len() + cut_off >= MESSAGES, "cut at {cut}: {fates:?}");
    for (id, fate) in &fates {
        assert_eq!(fate.len(), 1, "cut at {cut}: {id} {fate:?}");
    }
    let reads = |row: &&Row| row.entry.kind == RowKind::ToolDone && row.entry.key.starts_with("r/end");
    let read = played.rows.iter().filter(reads).map(|row| row.entry.payload.as_str()).collect::<String>();
    // A call that was cut off before anything was kept is told as unknown, and not repeated.
    let is_written = played.rows.iter().any(|row| row.entry.payload.contains("memory_written"));
    let is_known = !is_written || read.contains("v1") || read.contains("Interrupted");
    assert!(is_known, "cut at {cut}: the memory is lost: {read}");
}

fn block_on<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(work)
}

#[test]
fn a_run_cut_off_anywhere_delivers_once_or_drops() {
    let flow = document(DOCUMENT);
    block_on(async {
        let whole = after(&flow, &[], Coordination::Off).await;
        check(&whole, 0);
        let dropped: Vec<String> =
            fates(&whole.rows).into_values().flatten().filter(|fate| !fate.contains(' ')).collect();
        assert!(
            dropped.contains(&"no-coordinator".to_owned()) && dropped.contains(&"target-terminal".to_owned())
        );
        for cut in 0..whole.rows.len() {
            check(&after(&flow, &whole.rows[..cut], Coordination::Off).await, cut);
        }
    });
}

#[test]
fn so_does_one_with_loops() {
    let flow = document(NESTED);
    block_on(async {
        let whole = after(&flow, &[], Coordination::Off).await;
        check(&whole, 0);
        assert!(fates(&whole.rows).len() >= 18, "{:?}", fates(&whole.rows));
        for cut in 0..whole.rows.len() {
            check(&after(&flow, &whole.rows[..cut], Coordination::Off).await, cut);
        }
    });
}

#[test]
fn a_coordinator_that_had_its_say_is_not_asked_again() {
    let flow = document(DOCUMENT);
    block_on(async {
        let whole = after(&flow, &[], Coordination::On).await;
        check(&whole, 0);
        let coordinated = whole.outcome.coordinator.clone().unwrap();
        assert_eq!(coordinated.summary.as_deref(), Some("sum"));
        let is_last_turn =
            |row: &Row| row.entry.kind == RowKind::ModelTurn && row.entry.payload.contains("finalize");
        let said = whole.rows.iter().position(is_last_turn).unwrap();
        for cut in 0..=whole.rows.len() {
            let again = after(&flow, &whole.rows[..cut], Coordination::On).await;
            check(&again, cut);
            let now = again.outcome.coordinator.clone().unwrap();
            assert_eq!(now.summary.as_deref(), Some("sum"), "cut at {cut}");
            if cut > said {
                assert!(!again.asked.contains(&"coordinator".to_owned()), "cut at {cut}");
                assert_eq!(now.spent, coordinated.spent, "cut at {cut}");
            }
        }
    });
}

//! A coordinator delays no run, is asked nothing twice, and says what came of a run that went on.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::StreamExt;
use serde_json::{Value, json};
use tenon_core::{
    Cancel, Delta, DeltaStream, ErrorClass, FinishReason, ModelClient, ModelError, Models, Request, Role,
    Secrets,
};
use tenon_flow::{
    Coordination, Entry, FlowEvent, FlowEventData, FlowRun, FlowSink, Journal, JournalLog, LoadedWorkflow,
    NewRun, Past, Resumed, Row, RowKind, RunState, WorkflowOutcome, WorkflowStatus,
};
use tokio::time::Instant;

use crate::documents::document;

const DOCUMENT: &str = r#"
name: heard
steps:
  - {id: one, instructions: "I am one"}
  - {id: two, dependsOn: [one], condition: "false", instructions: "I am two"}
  - {id: three, dependsOn: [one], instructions: "I am three"}
"#;

/// What a coordinator does when it is told that the run is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum AtTheEnd {
    Chats,
    Hangs,
    Fails,
    NarratesForEver,
    SumsUp,
}

type Piece = Result<Delta, ModelError>;

struct Model {
    at_the_end: AtTheEnd,
    /// A step that fails.
    fails: Option<&'static str>,
    /// How many answers stood in the conversation of each request to the coordinator.
    asked: Mutex<Vec<usize>>,
}

impl Model {
    fn new(at_the_end: AtTheEnd) -> Model {
        Model { at_the_end, fails: None, asked: Mutex::default() }
    }
}

impl ModelClient for Model {
    fn stream(&self, request: Request, _cancel: Cancel) -> DeltaStream {
        let task = request.messages[0].text();
        let turn = request.messages.iter().filter(|message| message.role == Role::Assistant).count();
        if !task.starts_with("## Workflow") {
            if self.fails.is_some_and(|step| task.contains(step)) {
                return answer(vec![Err(ModelError::new(ErrorClass::Input, "no"))]);
            }
            return said("done", Vec::new(), turn);
        }
        self.asked.lock().unwrap().push(turn);
        let is_answered = request.messages.last().unwrap().text().is_empty();
        let told = request.messages.iter().rev().filter(|message| message.role == Role::User);
        let last = told.map(|message| message.text()).find(|text| !text.is_empty()).unwrap();
        let narrate = ("narrate", json!({"text": format!("narration {turn}")}));
        let forward =
            ("forward_to_agent", json!({"target_step_id": "three", "text": format!("forwarded {turn}")}));
        match last.contains("the workflow ended") {
            false if is_answered || turn == 0 => said("ok", Vec::new(), turn),
            false => said("", vec![narrate, forward], turn),
            true => match self.at_the_end {
                AtTheEnd::Chats => said("What a fine run.", Vec::new(), turn),
                AtTheEnd::Hangs => Box::pin(futures_util::stream::pending()),
                AtTheEnd::Fails => answer(vec![Err(ModelError::new(ErrorClass::Input, "no"))]),
                AtTheEnd::NarratesForEver => {
                    let slow = said("", vec![narrate], turn);
                    Box::pin(
                        futures_util::stream::once(tokio::time::sleep(Duration::from_secs(1)))
                            .flat_map(move |()| futures_util::stream::empty::<Piece>())
                            .chain(slow),
                    )
                }
                AtTheEnd::SumsUp => {
                    let how = last.split("ended: status=").nth(1).unwrap().split('.').next().unwrap();
                    said("", vec![("finalize", json!({"summary": how}))], turn)
                }
            },
        }
    }
}

fn said(text: &str, calls: Vec<(&str, Value)>, turn: usize) -> DeltaStream {
    let mut deltas = vec![Delta::Text(text.to_owned())];
    let finish = if calls.is_empty() { FinishReason::Stop } else { FinishReason::ToolCalls };
    for (index, (name, arguments)) in calls.into_iter().enumerate() {
        deltas.push(Delta::ToolCallStarted { index, id: format!("c{turn}_{index}"), name: name.into() });
        deltas.push(Delta::ToolCallArguments { index, fragment: arguments.to_string() });
    }
    deltas.push(Delta::Finished(finish));
    answer(deltas.into_iter().map(Ok).collect())
}

fn answer(pieces: Vec<Piece>) -> DeltaStream {
    Box::pin(futures_util::stream::iter(pieces))
}

#[derive(Default)]
struct Narrations(Mutex<Vec<String>>);

impl FlowSink for Narrations {
    fn emit(&self, event: FlowEvent) {
        if let FlowEventData::CoordinatorNarration(narration) = &event.data {
            self.0.lock().unwrap().push(narration.text.clone());
        }
    }
}

struct Played {
    outcome: WorkflowOutcome,
    rows: Vec<Row>,
    asked: Vec<usize>,
    narrated: Vec<String>,
}

impl Played {
    fn summary(&self) -> Option<String> {
        self.outcome.coordinator.clone().unwrap().summary
    }
}

/// Goes on after these rows, on a journal of its own.
async fn after(flow: &Arc<LoadedWorkflow>, rows: &[Row], model: Model) -> Played {
    goes_on(flow, rows, RunState::Interrupted, model).await
}

async fn goes_on(flow: &Arc<LoadedWorkflow>, rows: &[Row], stood: RunState, model: Model) -> Played {
    let folder = tempfile::tempdir().unwrap();
    let journal = Journal::open(&folder.path().join("runs.db")).unwrap();
    let new = NewRun {
        id: "r".to_owned(),
        name: "heard".to_owned(),
        document_hash: flow.hash.clone(),
        document: String::new(),
        inputs: String::new(),
        cwd: String::new(),
    };
    let lease = journal.begin(new).await.unwrap();
    let entries: Vec<Entry> = rows.iter().map(|row| row.entry.clone()).collect();
    lease.append(entries).await.unwrap();
    let (lease, stored) = match stood {
        RunState::Ended(_) => {
            lease.finish(stood, None).await.unwrap();
            drop(lease);
            journal.take("r").await.unwrap()
        }
        _ => (lease, journal.load("r").unwrap()),
    };
    let past = Past::of(&stored).unwrap();
    let resumed = Resumed { past, models: Models::default(), document: None, given: None };
    let log =
        JournalLog::resume(Arc::new(lease), Arc::clone(flow), Secrets::default(), resumed).await.unwrap();
    let (model, narrations) = (Arc::new(model), Arc::new(Narrations::default()));
    let outcome = FlowRun::new(Arc::clone(flow), Arc::clone(&model) as Arc<dyn ModelClient>, "m")
        .run_id("r")
        .log(Arc::new(log))
        .sink(Arc::clone(&narrations) as Arc<dyn FlowSink>)
        .coordination(Coordination::On)
        .run()
        .await
        .unwrap();
    let (asked, narrated) = (model.asked.lock().unwrap().clone(), narrations.0.lock().unwrap().clone());
    Played { outcome, rows: journal.load("r").unwrap().rows, asked, narrated }
}

#[tokio::test(start_paused = true)]
async fn a_run_is_not_kept_waiting() {
    let seconds = Duration::from_secs;
    let longest = [
        (AtTheEnd::Chats, seconds(0)),
        (AtTheEnd::Fails, seconds(0)),
        (AtTheEnd::SumsUp, seconds(0)),
        (AtTheEnd::Hangs, seconds(10)),
        (AtTheEnd::NarratesForEver, seconds(60)),
    ];
    for (at_the_end, longest) in longest {
        let began = Instant::now();
        let outcome = FlowRun::new(document(DOCUMENT), Arc::new(Model::new(at_the_end)), "m")
            .coordination(Coordination::On)
            .run()
            .await
            .unwrap();
        assert_eq!(outcome.status, WorkflowStatus::Completed, "{at_the_end:?}");
        let summary = outcome.coordinator.unwrap().summary;
        assert_eq!(summary.is_some(), at_the_end == AtTheEnd::SumsUp, "{at_the_end:?}");
        // Timers are coarse by a millisecond each.
        let waited = seconds(began.elapsed().as_secs());
        assert_eq!(waited, longest, "{at_the_end:?}");
    }
}

fn block_on<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(work)
}

fn is_coordinators(row: &&Row) -> bool {
    row.entry.key.contains("coordinator")
}

/// What calls of the coordinator that had begun say.
fn begun(rows: &[Row], field: &str) -> Vec<String> {
    let mut texts = Vec::new();
    let started: Vec<&str> = rows
        .iter()
        .filter(is_coordinators)
        .filter(|row| row.entry.kind == RowKind::ToolStarted)
        .map(|row| row.entry.payload.as_str())
        .collect();
    for row in rows.iter().filter(is_coordinators).filter(|row| row.entry.kind == RowKind::ModelTurn) {
        for turn in 0..100 {
            let text = format!("{field} {turn}\\");
            let index = usize::from(field == "forwarded");
            if row.entry.payload.contains(&text)
                && started.iter().any(|row| row.contains(&format!("c{turn}_{index}\"")))
            {
                texts.push(format!("{field} {turn}"));
            }
        }
    }
    texts
}

#[test]
fn a_run_cut_off_anywhere_asks_narrates_and_forwards_nothing_twice() {
    for at_the_end in [AtTheEnd::Chats, AtTheEnd::SumsUp] {
        let flow = document(DOCUMENT);
        block_on(async {
            let whole = after(&flow, &[], Model::new(at_the_end)).await;
            assert!(!whole.narrated.is_empty() && !begun(&whole.rows, "narration").is_empty());
            for cut in 0..=whole.rows.len() {
                let (before, at) = (&whole.rows[..cut], format!("{at_the_end:?}, cut at {cut}"));
                let again = after(&flow, before, Model::new(at_the_end)).await;
                assert_eq!(again.outcome.status, WorkflowStatus::Completed, "{at}");
                assert_eq!(again.summary(), whole.summary(), "{at}");
                let answered =
                    |row: &&Row| is_coordinators(row) && matches!(row.entry.kind, RowKind::ModelTurn);
                let paid = before.iter().filter(answered).count();
                assert!(again.asked.iter().all(|turn| *turn >= paid), "{at}: {paid} {:?}", again.asked);
                let known = begun(before, "narration");
                assert!(!again.narrated.iter().any(|text| known.contains(text)), "{at}: {known:?}");
                let text = |row: &Row| row.entry.payload.clone();
                let all: String = again.rows.iter().map(text).collect::<Vec<_>>().join("\n");
                for forwarded in begun(before, "forwarded") {
                    let sent = format!("\"text\":\"{forwarded}\"");
                    assert!(all.matches(&sent).count() <= 1, "{at}: {forwarded}");
                }
                // Every step is told once, and so is the end.
                let told: Vec<&str> = again
                    .rows
                    .iter()
                    .filter(is_coordinators)
                    .filter(|row| row.entry.kind == RowKind::Told)
                    .map(|row| row.entry.payload.as_str())
                    .collect();
                let told = told.join("\n");
                for what in ["\\\"one\\\"", "\\\"two\\\"", "\\\"three\\\""] {
                    assert_eq!(told.matches(&format!("step {what}")).count(), 1, "{at}: {what}\n{told}");
                }
                assert_eq!(told.matches("the workflow ended").count(), 1, "{at}\n{told}");
            }
            let over = after(&flow, &whole.rows, Model::new(at_the_end)).await;
            assert!(over.asked.is_empty(), "all of it was answered: {:?}", over.asked);
        });
    }
}

#[test]
fn a_run_that_goes_on_has_another_last_word() {
    let flow = document(DOCUMENT);
    block_on(async {
        let failing = Model { fails: Some("I am three"), ..Model::new(AtTheEnd::SumsUp) };
        let failed = after(&flow, &[], failing).await;
        assert_eq!(failed.outcome.status, WorkflowStatus::Partial);
        assert_eq!(failed.summary().as_deref(), Some("partial"));
        let stood = RunState::Ended(WorkflowStatus::Partial);
        let done = goes_on(&flow, &failed.rows, stood, Model::new(AtTheEnd::SumsUp)).await;
        assert_eq!(done.outcome.status, WorkflowStatus::Completed);
        assert_eq!(done.summary().as_deref(), Some("completed"));
        let again = after(&flow, &done.rows, Model::new(AtTheEnd::SumsUp)).await;
        assert_eq!(again.summary().as_deref(), Some("completed"));
        assert!(again.asked.is_empty());
    });
}

//! A run that is cut off after any row of its journal goes on to the same end, and nothing is paid for or done twice.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use tempfile::TempDir;
use tenon_core::{
    Args, BoxFut, Cancel, Delta, DeltaStream, FinishReason, Message, ModelClient, ModelError, Models, Part,
    Request, Role, Secrets, Timestamp, Tool, ToolCtx, ToolKind, ToolOutcome, ToolSpec, TurnJournal,
    TurnRecord,
};
use tenon_flow::{
    Approvals, Begun, Completion, Earlier, FlowRun, Journal, JournalError, JournalLog, Lease, LoadedWorkflow,
    NewRun, Past, Resumed, Row, RowKind, RunState, Signal, SignalJournal, Signals, Spent, StepKey, StepLog,
    StepRequest, StopRun, StoredRun, Turns, WorkflowOutcome,
};
use tenon_tools::PermissionOptions;
use tokio::sync::Notify;

use crate::documents::document_with;

/// Parallel steps, a tool, a typed result, a condition on it, a loop with a judge, items, an include.
pub const DOCUMENT: &str = include_str!("histories/everything.yaml");
const INNER: &str = include_str!("histories/inner.yaml");

/// The word of ours that the prompt's task consists of.
fn task(request: &Request) -> &'static str {
    let told = request.messages[0].text();
    let words = ["left", "right", "types", "never", "item", "polish", "inner-a", "inner-b", "end"];
    let last =
        |word: &&&str| told.rfind(&format!("\n{word}")).or_else(|| told.starts_with(**word).then_some(0));
    words.iter().filter(|word| last(word).is_some()).max_by_key(|word| last(word)).copied().unwrap_or("judge")
}

/// Answers by what it is asked alone, so that every run of the same document gets the same answers.
pub struct Model {
    /// How often each request was sent.
    pub asked: Mutex<BTreeMap<String, usize>>,
}

impl ModelClient for Model {
    fn stream(&self, request: Request, _cancel: Cancel) -> DeltaStream {
        let words: Vec<String> = request.messages.iter().map(shown).collect();
        *self.asked.lock().unwrap().entry(words.join("\n---\n")).or_default() += 1;
        let turn = request.messages.iter().filter(|message| message.role == Role::Assistant).count();
        let names: Vec<&str> = request.tools.iter().map(|tool| tool.name.as_str()).collect();
        let call = |name: &str, arguments: Value| {
            vec![
                Delta::Text(format!("turn {turn}")),
                Delta::ToolCallStarted { index: 0, id: format!("c{turn}"), name: name.into() },
                Delta::ToolCallArguments { index: 0, fragment: arguments.to_string() },
                Delta::Finished(FinishReason::ToolCalls),
            ]
        };
        let done = || vec![Delta::Text("done".to_owned()), Delta::Finished(FinishReason::Stop)];
        let deltas = if names.contains(&"submit_result") {
            let typed = names.len() == 1 && task(&request) == "types";
            match (typed, turn) {
                // The first try does not fit.
                (true, 0) => call("submit_result", json!({ "list": "x" })),
                (true, _) => call("submit_result", json!({ "list": ["p", "q", "r"] })),
                (false, _) => {
                    let told = request.messages[0].text();
                    call("submit_result", json!({ "done": told.matches("done").count() > 2 }))
                }
            }
        } else if turn < 2 {
            call("run_shell_command", json!({ "n": turn }))
        } else {
            done()
        };
        Box::pin(futures_util::stream::iter(deltas.into_iter().map(Ok::<Delta, ModelError>)))
    }
}

fn shown(message: &Message) -> String {
    let part = |part: &Part| match part {
        Part::Text { text } => text.clone(),
        Part::ToolCall(call) => format!("{}{}", call.name, call.arguments),
        Part::ToolResult(result) => format!("= {}", result.content),
        other => format!("{other:?}"),
    };
    message.parts.iter().map(part).collect::<Vec<_>>().join(" ")
}

/// Notes that it was called. What it does cannot be taken back.
struct Note {
    spec: Arc<ToolSpec>,
    calls: Arc<AtomicUsize>,
}

impl Tool for Note {
    fn spec(&self) -> &Arc<ToolSpec> {
        &self.spec
    }

    fn call(&self, _ctx: ToolCtx, _args: Args) -> BoxFut<'_, ToolOutcome> {
        self.calls.fetch_add(1, Ordering::SeqCst);
        Box::pin(async { ToolOutcome::ok("noted") })
    }
}

/// The world around runs of one journal.
pub struct World {
    pub folder: TempDir,
    pub workflow: Arc<LoadedWorkflow>,
    pub model: Arc<Model>,
    pub calls: Arc<AtomicUsize>,
}

impl World {
    pub fn new() -> World {
        World {
            folder: tempfile::tempdir().unwrap(),
            workflow: document_with(&[("inner.yaml", INNER)], DOCUMENT),
            model: Arc::new(Model { asked: Mutex::default() }),
            calls: Arc::default(),
        }
    }

    pub fn journal(&self) -> Journal {
        Journal::open(&self.folder.path().join("runs.db")).unwrap()
    }

    pub async fn run(&self, id: &str, log: Arc<dyn StepLog>, stop: StopRun) -> WorkflowOutcome {
        let spec = ToolSpec {
            name: "run_shell_command".into(),
            description: String::new(),
            parameters: json!({ "type": "object" }),
            kind: ToolKind::Execute,
        };
        let note = Note { spec: Arc::new(spec), calls: Arc::clone(&self.calls) };
        let permissions =
            PermissionOptions { mode: tenon_core::ApprovalMode::Yolo, ..PermissionOptions::default() };
        FlowRun::new(self.workflow.clone(), Arc::clone(&self.model) as Arc<dyn ModelClient>, "m")
            .tools(vec![Arc::new(note)])
            .permissions(permissions)
            .run_id(id)
            .log(log)
            .stop(stop)
            .run()
            .await
            .unwrap()
    }

    pub fn new_run(&self, id: &str) -> NewRun {
        NewRun {
            id: id.to_owned(),
            name: "everything".to_owned(),
            document_hash: self.workflow.hash.clone(),
            document: DOCUMENT.to_owned(),
            inputs: String::new(),
            cwd: String::new(),
        }
    }

    /// Begins the run, or goes on with it.
    pub async fn log(&self, journal: &Journal, id: &str) -> (Arc<Lease>, JournalLog) {
        let root = self.workflow.clone();
        match journal.begin(self.new_run(id)).await {
            Ok(lease) => {
                let lease = Arc::new(lease);
                (Arc::clone(&lease), JournalLog::new(lease, root, Secrets::default()))
            }
            Err(_) => {
                let (lease, stored) = taken(journal, id).await;
                let (lease, past) = (Arc::new(lease), Past::of(&stored).unwrap());
                let resumed = Resumed { past, models: Models::default(), document: None, given: None };
                let log = JournalLog::resume(Arc::clone(&lease), root, Secrets::default(), resumed);
                (lease, log.await.unwrap())
            }
        }
    }

    /// The run, until so many rows are written.
    async fn until(&self, rows: usize) -> Option<WorkflowOutcome> {
        self.until_cut(Cut::after(rows)).await
    }

    /// The run, from its beginning or from where it was, until the power fails.
    pub async fn until_cut(&self, cut: Cut) -> Option<WorkflowOutcome> {
        let (lease, log) = self.log(&self.journal(), "r").await;
        let cut = Arc::new(cut);
        let log = Arc::new(CutLog { inner: log, cut: Arc::clone(&cut) });
        tokio::select! {
            outcome = self.run("r", log, StopRun::default()) => {
                lease.finish(RunState::Ended(outcome.status), None).await.unwrap();
                Some(outcome)
            }
            () = cut.reached.notified() => None,
        }
    }

    pub fn rows(&self) -> Vec<Row> {
        self.journal().load("r").unwrap().rows
    }
}

/// Takes the run as soon as the tasks of the run before are gone.
pub async fn taken(journal: &Journal, id: &str) -> (Lease, StoredRun) {
    loop {
        match journal.take(id).await {
            Err(JournalError::Held { .. }) => tokio::task::yield_now().await,
            taken => return taken.unwrap(),
        }
    }
}

/// Where the power fails: after so many rows nothing more is written, and nobody is told.
pub struct Cut {
    /// Which rows count.
    only: Option<RowKind>,
    left: AtomicUsize,
    is_out: AtomicBool,
    reached: Notify,
}

impl Cut {
    pub fn after(rows: usize) -> Cut {
        let (left, is_out) = (AtomicUsize::new(rows), AtomicBool::new(false));
        Cut { only: None, left, is_out, reached: Notify::new() }
    }

    /// Between what happens and the row that says so, the first time after so many.
    pub fn before(kind: RowKind, times: usize) -> Cut {
        Cut { only: Some(kind), ..Cut::after(times) }
    }

    /// When nothing more is written.
    pub async fn reached(&self) {
        self.reached.notified().await;
    }

    async fn row(&self, kind: RowKind) {
        self.row_that(self.only.is_none_or(|only| only == kind)).await;
    }

    async fn row_that(&self, counts: bool) {
        let next = |left: usize| left.checked_sub(1);
        if counts && self.left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, next).is_err() {
            self.is_out.store(true, Ordering::SeqCst);
        }
        if self.is_out.load(Ordering::SeqCst) {
            self.reached.notify_one();
            std::future::pending::<()>().await;
        }
    }
}

pub struct CutLog {
    pub inner: JournalLog,
    pub cut: Arc<Cut>,
}

impl StepLog for CutLog {
    fn ended(&self, key: &StepKey, request: &StepRequest) -> Option<(u64, Completion)> {
        self.inner.ended(key, request)
    }

    fn begins(&self, key: &StepKey, request: &StepRequest) -> BoxFut<'static, Result<Begun, String>> {
        let (cut, written) = (Arc::clone(&self.cut), self.inner.begins(key, request));
        Box::pin(async move {
            cut.row(RowKind::Scheduled).await;
            written.await
        })
    }

    fn ends(&self, completions: Vec<Completion>) -> BoxFut<'static, Result<(), String>> {
        let (cut, written) = (Arc::clone(&self.cut), self.inner.ends(completions));
        Box::pin(async move {
            cut.row(RowKind::Completed).await;
            written.await
        })
    }

    fn began(&self, place: &StepKey) -> BoxFut<'static, Result<Timestamp, String>> {
        self.inner.began(place)
    }

    fn turns(&self, key: &StepKey) -> Turns {
        let Turns { records, journal } = self.inner.turns(key);
        Turns { records, journal: Arc::new(CutTurns { inner: journal, cut: Arc::clone(&self.cut) }) }
    }

    fn has_begun(&self, place: &StepKey) -> bool {
        self.inner.has_begun(place)
    }

    fn dropped(&self) -> Vec<(StepKey, Spent)> {
        self.inner.dropped()
    }

    fn earlier(&self) -> Earlier {
        self.inner.earlier()
    }

    fn worked(&self, at: Timestamp) -> Timestamp {
        self.inner.worked(at)
    }

    fn signals(&self) -> Signals {
        let signals = self.inner.signals();
        let (inner, cut) = (signals.journal, Arc::clone(&self.cut));
        Signals { journal: Arc::new(CutSignals { inner, cut }), ..signals }
    }

    fn approvals(&self) -> Option<Arc<dyn Approvals>> {
        self.inner.approvals()
    }
}

struct CutSignals {
    inner: Arc<dyn SignalJournal>,
    cut: Arc<Cut>,
}

impl SignalJournal for CutSignals {
    fn write(&self, signals: Vec<Signal>) -> BoxFut<'static, Result<(), String>> {
        let (cut, written) = (Arc::clone(&self.cut), self.inner.write(signals));
        Box::pin(async move {
            cut.row(RowKind::Signal).await;
            written.await
        })
    }
}

struct CutTurns {
    inner: Arc<dyn TurnJournal>,
    cut: Arc<Cut>,
}

impl TurnJournal for CutTurns {
    fn write(&self, record: TurnRecord) -> BoxFut<'_, std::io::Result<()>> {
        Box::pin(async move {
            match (kind_of(&record), &record) {
                // Nothing happens when a result is handed in that could be unknown.
                (Some(_), TurnRecord::ToolFinished { result, .. }) if result.name == "submit_result" => {
                    self.cut.row_that(self.cut.only.is_none()).await;
                }
                (Some(kind), _) => self.cut.row(kind).await,
                (None, _) => {}
            }
            self.inner.write(record).await
        })
    }
}

/// `None` for what only sessions keep.
fn kind_of(record: &TurnRecord) -> Option<RowKind> {
    match record {
        TurnRecord::UserMessage { .. } => Some(RowKind::Told),
        TurnRecord::ModelTurn { .. } => Some(RowKind::ModelTurn),
        TurnRecord::ToolStarted { .. } => Some(RowKind::ToolStarted),
        TurnRecord::ToolFinished { .. } => Some(RowKind::ToolDone),
        TurnRecord::Compacted { .. } => Some(RowKind::Compacted),
        TurnRecord::Besides { .. } => Some(RowKind::Besides),
        TurnRecord::Stopped { .. } | TurnRecord::Withdrawn => None,
    }
}

/// What does not depend on time.
pub fn essence(outcome: &WorkflowOutcome) -> Vec<String> {
    let step = |(id, record): &(String, Arc<tenon_flow::StepRecord>)| {
        let result = record.result.as_ref().map(|result| result.as_str().to_owned());
        format!("{id}: {:?} {:?} {result:?} {:?}", record.status, record.content, record.spent)
    };
    let mut lines: Vec<String> = outcome.steps.iter().map(step).collect();
    lines.push(format!("{:?} {:?} {:?} {:?}", outcome.status, outcome.answer, outcome.spent, outcome.error));
    lines
}

#[tokio::test]
async fn a_run_that_is_cut_after_any_row_ends_as_if_it_had_not_been() {
    let whole = World::new();
    let expected = essence(&whole.until(usize::MAX).await.unwrap());
    assert!(expected.last().unwrap().starts_with("Completed"), "{expected:#?}");
    let effects = whole.calls.load(Ordering::SeqCst);
    assert!(whole.model.asked.lock().unwrap().values().all(|times| *times >= 1));
    let asked = whole.model.asked.lock().unwrap().clone();
    let rows = whole.rows().len();
    assert!(rows > 60, "{rows}");

    let step = if tenon_testkit::cases(8) > 8 { 1 } else { 7 };
    for cut in (0..rows).step_by(step) {
        let world = World::new();
        if world.until(cut).await.is_some() {
            // Rows that are written together are one moment.
            assert!(cut > 60, "{cut}");
            break;
        }
        let outcome = world.until(usize::MAX).await.unwrap();
        let unknown = unknown_calls(&world);
        let done = world.calls.load(Ordering::SeqCst);
        assert!(
            done <= effects && done + unknown >= effects,
            "cut at {cut}: {done} of {effects}, {unknown} unknown"
        );
        if unknown == 0 {
            assert_eq!(essence(&outcome), expected, "cut at {cut}");
            let paid = world.model.asked.lock().unwrap().clone();
            let twice: usize = paid.iter().map(|(request, times)| times.saturating_sub(asked[request])).sum();
            // At most what was under way: one answer for each step that ran beside the others.
            assert!(twice <= 5, "cut at {cut}: {twice} answers were paid for twice");
        }
    }
}

/// Calls that had begun and whose end was not written down: the model was told so.
pub fn unknown_calls(world: &World) -> usize {
    let is_unknown = |row: &&Row| {
        row.entry.kind == RowKind::ToolDone && row.entry.payload.contains(tenon_agent::INTERRUPTED)
    };
    world.rows().iter().filter(is_unknown).count()
}

#[tokio::test]
async fn a_run_that_is_cut_again_and_again_comes_to_its_end() {
    let whole = World::new();
    let expected = essence(&whole.until(usize::MAX).await.unwrap());
    let world = World::new();
    let mut cuts = 0;
    let outcome = loop {
        cuts += 1;
        // Every time it comes a little further.
        match world.until(5 + cuts % 3).await {
            Some(outcome) => break outcome,
            None => assert!(cuts < 200),
        }
    };
    assert!(cuts > 5, "{cuts}");
    assert_eq!(essence(&outcome).last(), expected.last());
}

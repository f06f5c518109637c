//! A run as its journal tells it, and what another document leaves of it.

use std::sync::Arc;

use serde_json::json;
use tenon_core::{
    Cancel, Delta, DeltaStream, FinishReason, ModelClient, ModelError, Models, Request, Secrets, Usage,
};
use tenon_flow::{
    FlowRun, Given, Journal, JournalLog, JsonText, LoadOptions, LoadedWorkflow, NewRun, Past, Resumed,
    RunSpec, RunState, RunView, StoredRun, WorkflowOutcome, load_pinned,
};

use crate::documents::document_with;

const DOCUMENT: &str = r#"
name: viewed
agents:
  judge:
    description: judges
    tools: []
    resultSchema: {type: object, properties: {done: {type: boolean}}, required: [done]}
steps:
  - {id: first, instructions: "first"}
  - {id: never, instructions: "never", dependsOn: [first], condition: "false"}
  - {id: each, instructions: "each", dependsOn: [first], loop: {forEach: [1, 2], maxConcurrency: 1}}
  - {id: polish, instructions: "polish", dependsOn: [each], loop: {maxIterations: 2, untilAgent: judge}}
  - {id: inner, include: inner.yaml, dependsOn: [polish]}
"#;
const INNER: &str = "name: inner\nsteps:\n  - {id: a, instructions: \"@a.md\"}\n  - {id: b, instructions: b, dependsOn: [a]}\n";

/// Says `done`, and that everything is.
struct Model;

impl ModelClient for Model {
    fn stream(&self, request: Request, _cancel: Cancel) -> DeltaStream {
        let usage = Delta::Usage(Usage { input: 3, output: 1, total: 4, ..Usage::default() });
        let deltas = if request.tools.iter().any(|tool| tool.name == "submit_result") {
            vec![
                Delta::ToolCallStarted { index: 0, id: "c".into(), name: "submit_result".into() },
                Delta::ToolCallArguments { index: 0, fragment: json!({ "done": true }).to_string() },
                usage,
                Delta::Finished(FinishReason::ToolCalls),
            ]
        } else {
            vec![Delta::Text("done".to_owned()), usage, Delta::Finished(FinishReason::Stop)]
        };
        Box::pin(futures_util::stream::iter(deltas.into_iter().map(Ok::<Delta, ModelError>)))
    }
}

fn document(first: &str) -> Arc<LoadedWorkflow> {
    document_with(
        &[("inner.yaml", INNER), ("a.md", "a")],
        &DOCUMENT.replace("instructions: \"first\"", &format!("instructions: \"{first}\"")),
    )
}

fn inputs() -> JsonText {
    JsonText::of(&json!({}))
}

async fn run(workflow: &Arc<LoadedWorkflow>, log: JournalLog) -> WorkflowOutcome {
    FlowRun::new(Arc::clone(workflow), Arc::new(Model), "m")
        .run_id("r")
        .log(Arc::new(log))
        .run()
        .await
        .unwrap()
}

/// A run that completed, as it is kept.
async fn kept(journal: &Journal) -> StoredRun {
    let workflow = document("first");
    let given = Given { inputs: inputs(), context: None, kept: Default::default() };
    let new = NewRun {
        id: "r".to_owned(),
        name: "viewed".to_owned(),
        document_hash: workflow.hash.clone(),
        document: workflow.pinned.to_json().unwrap(),
        inputs: given.to_json(),
        cwd: "/".to_owned(),
    };
    let lease = Arc::new(journal.begin(new).await.unwrap());
    let log = JournalLog::new(Arc::clone(&lease), Arc::clone(&workflow), Secrets::default());
    let outcome = run(&workflow, log).await;
    lease.finish(RunState::Ended(outcome.status), outcome.spent.cost_usd).await.unwrap();
    journal.load("r").unwrap()
}

fn journal() -> (tempfile::TempDir, Journal) {
    let folder = tempfile::tempdir().unwrap();
    let journal = Journal::open(&folder.path().join("runs.db")).unwrap();
    (folder, journal)
}

#[tokio::test]
async fn a_view_has_every_step_where_it_belongs() {
    let (_folder, journal) = journal();
    let view = RunView::of(&kept(&journal).await).unwrap();
    let steps: Vec<String> = view
        .steps
        .iter()
        .map(|step| {
            let turns: usize = step.attempts.iter().map(|attempt| attempt.turns.len()).sum();
            let tokens = step.spent.usage.total;
            format!("{} {} {} {turns} {tokens}", step.depth(), step.id, step.status.name())
        })
        .collect();
    assert_eq!(
        steps,
        [
            "0 first completed 1 4",
            "0 never skipped 0 0",
            "0 each completed 0 8",
            "1 each[0] completed 1 4",
            "1 each[1] completed 1 4",
            "0 polish completed 0 8",
            "1 polish.0 completed 1 4",
            "1 polish.0.judge completed 1 4",
            "0 inner completed 0 8",
            "1 inner.a completed 1 4",
            "1 inner.b completed 1 4",
        ]
    );
    assert_eq!(view.spent.usage.total, 28);
    assert!(view.steps[0].attempts[0].prompt.as_deref().unwrap().contains("first"));
    assert_eq!(view.outcome.unwrap().spent.usage.total, 28);
}

/// The files are gone with the folder that they were in.
#[tokio::test]
async fn a_document_is_loaded_again_from_what_a_run_holds() {
    let before = document("first");
    let text = before.pinned.to_json().unwrap();
    let pinned = tenon_flow::Pinned::from_json(&text).unwrap();
    let again = load_pinned(&pinned, &LoadOptions::default()).unwrap();
    assert_eq!((&again.hash, &again.folder), (&before.hash, &before.folder));
    assert_eq!(again.pinned.to_json().unwrap(), text);
}

#[tokio::test]
async fn another_document_keeps_what_it_asks_for_in_the_same_words() {
    let (_folder, journal) = journal();
    let stored = kept(&journal).await;
    let again = |workflow: &Arc<LoadedWorkflow>| {
        let mut past = Past::of(&stored).unwrap();
        let again = past.fit(&RunSpec::new(Arc::clone(workflow), "r", inputs()));
        let ids: Vec<String> = again.iter().map(|step| step.step_id.clone()).collect();
        (ids.join(" "), again.iter().map(|step| step.spent.usage.total).sum::<u64>(), past.completed())
    };
    let all = "each[0] each[1] first inner.a inner.b polish.0 polish.0.judge";
    assert_eq!(again(&document("first")), (String::new(), 0, 7));
    // How many steps run at a time changes none of them.
    let mut one_by_one = document("first");
    Arc::make_mut(&mut one_by_one).workflow.options.max_concurrency = Some(1);
    assert_eq!(again(&one_by_one), (String::new(), 0, 7));
    assert_eq!(again(&document("another")), (all.to_owned(), 28, 0));
    let files = [("inner.yaml", INNER), ("a.md", "changed")];
    let inner = document_with(&files, DOCUMENT);
    assert_eq!(again(&inner), ("inner.a inner.b".to_owned(), 8, 5));
    let files = [("inner.yaml", &INNER.replace("instructions: b,", "instructions: c,")[..]), ("a.md", "a")];
    assert_eq!(again(&document_with(&files, DOCUMENT)), ("inner.b".to_owned(), 4, 6));
}

#[tokio::test]
async fn what_is_given_up_is_counted_once_and_for_ever() {
    let (_folder, journal) = journal();
    kept(&journal).await;
    let mut wanted = 28;
    for words in ["second", "third"] {
        let workflow = document(words);
        // The lease is given back by the journal's thread.
        let (lease, stored) = loop {
            match journal.take("r").await {
                Err(tenon_flow::JournalError::Held { .. }) => tokio::task::yield_now().await,
                taken => break taken.unwrap(),
            }
        };
        let lease = Arc::new(lease);
        let mut past = Past::of(&stored).unwrap();
        past.fit(&RunSpec::new(Arc::clone(&workflow), "r", inputs()));
        let resumed = Resumed { past, models: Models::default(), document: None, given: None };
        let log = JournalLog::resume(Arc::clone(&lease), Arc::clone(&workflow), Secrets::default(), resumed);
        let outcome = run(&workflow, log.await.unwrap()).await;
        wanted += 28;
        assert_eq!(outcome.spent.usage.total, wanted, "{words}");
        let steps: u64 = outcome.steps.iter().map(|(_, record)| record.spent.usage.total).sum();
        assert_eq!(steps, wanted, "{words}");
        lease.finish(RunState::Ended(outcome.status), None).await.unwrap();
    }
}

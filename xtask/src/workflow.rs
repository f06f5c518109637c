//! A workflow in a process of its own, with a model that answers at once: what steps cost beyond their models.
//!
//! `run` is the process, `measured` starts and measures it. Everything but the model is real: the document is loaded,
//! each step is an agent with its turn loop, events are made.

use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use futures_util::future::try_join_all;
use futures_util::{StreamExt, stream};
use tenon_core::{Cancel, Delta, DeltaStream, FinishReason, ModelClient, Request, Secrets, Timestamp, Usage};
use tenon_flow::{
    Entry, FlowRun, Journal, JournalLog, LoadOptions, LoadedWorkflow, NewRun, RowKind, RunState,
    WorkflowOutcome, WorkflowStatus, load,
};
use tokio::sync::Barrier;

use crate::measure::{Sample, measure};
use crate::{Failure, Verdict};

/// Items at a time; the model answers when so many have asked.
pub const ITEMS_AT_A_TIME: usize = 100;
/// Of each of many runs.
const STEPS_OF_MANY: usize = 10;
/// Runs that are put into a journal at once, so that they share commits.
const WRITTEN_TOGETHER: usize = 250;
/// A document and an answer of a usual size.
const DOCUMENT_BYTES: usize = 2_000;
const ROW_BYTES: usize = 500;

/// What the workflow does.
#[derive(Clone, Copy)]
pub enum Work {
    /// A chain with branches: every step depends on one before it.
    Steps(usize),
    /// One loop over so many items, a multiple of [`ITEMS_AT_A_TIME`].
    Items(usize),
    /// The same as `Steps`, kept in a journal.
    Kept(usize),
    /// So many runs of ten steps at once, all kept in one journal.
    Runs(usize),
}

pub fn run(args: &[String]) -> Result<Verdict, Failure> {
    let usage = || Failure::usage("`workflow` takes `steps`, `items`, `kept` or `runs` and a number");
    let [kind, count] = args else { return Err(usage()) };
    let count: usize = count.parse().map_err(|_| usage())?;
    let (text, after) = match kind.as_str() {
        "steps" | "kept" => (steps(count), None),
        "items" => (items(count), Some(Arc::new(Barrier::new(ITEMS_AT_A_TIME)))),
        // All have begun before one goes on.
        "runs" => (steps(STEPS_OF_MANY), Some(Arc::new(Barrier::new(count)))),
        _ => return Err(usage()),
    };
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("workflow.yaml");
    std::fs::write(&file, text)?;
    let workflow = load(&file, &LoadOptions::default()).map_err(other)?;
    let waits = if kind == "runs" { Waits::TheFirst(count) } else { Waits::Always };
    let model = Arc::new(AnswersAtOnce { after, waits, asked: AtomicUsize::new(0) });
    let once = Once { workflow: Arc::new(workflow), model };
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let outcomes = runtime.block_on(async {
        let journal = || Journal::open(&folder.path().join("runs.db")).map_err(other);
        match kind.as_str() {
            "kept" => Ok(vec![once.kept(&journal()?, "run".to_owned()).await?]),
            "runs" => {
                let journal = journal()?;
                let runs = (0..count).map(|number| {
                    let (once, journal) = (once.clone(), journal.clone());
                    tokio::spawn(async move { once.kept(&journal, format!("run-{number}")).await })
                });
                try_join_all(runs).await.map_err(other)?.into_iter().collect()
            }
            _ => Ok(vec![once.run().run().await.map_err(other)?]),
        }
    })?;
    for outcome in &outcomes {
        if outcome.status != WorkflowStatus::Completed {
            let status = outcome.status.name();
            return Err(Failure::other(format!("the workflow ended as `{status}`: {:?}", outcome.error)));
        }
    }
    let steps: usize = outcomes.iter().map(|outcome| outcome.steps.len()).sum();
    println!("{} runs, {steps} steps", outcomes.len());
    Ok(Verdict::Good)
}

/// One of many runs of a workflow.
#[derive(Clone)]
struct Once {
    workflow: Arc<LoadedWorkflow>,
    model: Arc<AnswersAtOnce>,
}

impl Once {
    fn run(&self) -> FlowRun {
        let model: Arc<dyn ModelClient> = self.model.clone();
        FlowRun::new(self.workflow.clone(), model, "test-model")
    }

    async fn kept(&self, journal: &Journal, id: String) -> Result<WorkflowOutcome, Failure> {
        let lease = Arc::new(journal.begin(new_run(&id)).await.map_err(other)?);
        let log = JournalLog::new(Arc::clone(&lease), self.workflow.clone(), Secrets::default());
        let outcome = self.run().run_id(id).log(Arc::new(log)).run().await.map_err(other)?;
        let ended = RunState::Ended(outcome.status);
        lease.finish(ended, outcome.spent.cost_usd).await.map_err(other)?;
        Ok(outcome)
    }
}

fn new_run(id: &str) -> NewRun {
    NewRun {
        id: id.to_owned(),
        name: "steps".to_owned(),
        document_hash: String::new(),
        document: String::new(),
        inputs: "{}".to_owned(),
        cwd: "/".to_owned(),
    }
}

/// A journal of so many runs that are over, with what a small run leaves behind.
pub fn write_journal(path: &Path, runs: usize) -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        let journal = Journal::open(path).map_err(other)?;
        let numbers: Vec<usize> = (0..runs).collect();
        for together in numbers.chunks(WRITTEN_TOGETHER) {
            let written = together.iter().map(|number| {
                let journal = journal.clone();
                async move {
                    let id = format!("run_{number:016x}");
                    let document = "x".repeat(DOCUMENT_BYTES);
                    let lease = journal.begin(NewRun { document, ..new_run(&id) }).await?;
                    let row = |kind| Entry {
                        key: format!("{id}/step@1"),
                        kind,
                        at: Timestamp::now(),
                        payload: "x".repeat(ROW_BYTES),
                    };
                    lease.append(vec![row(RowKind::Scheduled), row(RowKind::ModelTurn)]).await?;
                    lease.finish(RunState::Ended(WorkflowStatus::Completed), Some(0.25)).await
                }
            });
            try_join_all(written).await.map_err(other)?;
        }
        Ok(())
    })
}

fn other(error: impl std::fmt::Display) -> Failure {
    Failure::other(error.to_string())
}

/// Runs it in a process of its own.
pub fn measured(work: Work, stderr: &Path) -> Result<Sample, Failure> {
    let (kind, count) = match work {
        Work::Steps(count) => ("steps", count),
        Work::Items(count) => ("items", count),
        Work::Kept(count) => ("kept", count),
        Work::Runs(count) => ("runs", count),
    };
    let mut command = Command::new(std::env::current_exe()?);
    let sample = measure(command.args(["workflow", kind, &count.to_string()]), stderr)?;
    if !sample.status.success() {
        let said = std::fs::read_to_string(stderr).unwrap_or_default();
        return Err(Failure::other(format!(
            "a workflow of {count} {kind} failed ({})\n{said}",
            sample.status
        )));
    }
    Ok(sample)
}

/// How long it takes to read and check a document of so many steps, with a schema, a condition and a template each.
pub fn validation(steps: usize, times: usize) -> Result<Vec<f64>, Failure> {
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("workflow.yaml");
    std::fs::write(&file, checked(steps))?;
    let mut taken = Vec::with_capacity(times);
    for _ in 0..times {
        let began = Instant::now();
        load(&file, &LoadOptions::default()).map_err(|error| Failure::other(error.to_string()))?;
        taken.push(began.elapsed().as_secs_f64());
    }
    Ok(taken)
}

fn checked(count: usize) -> String {
    let mut text = String::from(
        "name: checked\nagents:\n  worker:\n    description: Works.\n    tools: [read, grep]\n    resultSchema:\n      type: object\n      additionalProperties: false\n      required: [ok]\n      properties: {ok: {type: boolean}, notes: {type: array, items: {type: string}}}\nsteps:\n",
    );
    for number in 0..count {
        text.push_str(&format!("  - id: step-{number}\n    agent: worker\n"));
        if number > 0 {
            let before = number - 1;
            text.push_str(&format!(
                "    dependsOn: [step-{before}]\n    condition: steps.step-{before}.result.ok && size(steps.step-{before}.result.notes) > 0\n    instructions: Go on from ${{{{ steps.step-{before}.result.notes[0] }}}}.\n"
            ));
        }
    }
    text
}

fn steps(count: usize) -> String {
    let mut text = String::from("name: steps\noptions: {maxConcurrency: 10}\nsteps:\n");
    for number in 0..count {
        let needs = if number == 0 { String::new() } else { format!(", dependsOn: [s{}]", (number - 1) / 2) };
        text.push_str(&format!("  - {{id: s{number}, instructions: 'Do part {number}.'{needs}}}\n"));
    }
    text
}

fn items(count: usize) -> String {
    let list: Vec<String> = (0..count).map(|number| number.to_string()).collect();
    format!(
        "name: items\nsteps:\n  - id: each\n    instructions: 'Look at ${{{{ item }}}}.'\n    loop: {{forEach: [{}], maxConcurrency: {ITEMS_AT_A_TIME}}}\n",
        list.join(", ")
    )
}

/// A model that says one sentence.
struct AnswersAtOnce {
    /// Who must have asked before anybody is answered: every time, or only the first.
    after: Option<Arc<Barrier>>,
    waits: Waits,
    asked: AtomicUsize,
}

#[derive(Clone, Copy)]
enum Waits {
    Always,
    /// So many.
    TheFirst(usize),
}

impl ModelClient for AnswersAtOnce {
    fn stream(&self, _: Request, _: Cancel) -> DeltaStream {
        let usage = Usage { input: 100, output: 10, total: 110, ..Usage::default() };
        let answer = [
            Ok(Delta::Text("It is done.".to_owned())),
            Ok(Delta::Usage(usage)),
            Ok(Delta::Finished(FinishReason::Stop)),
        ];
        let number = self.asked.fetch_add(1, Ordering::SeqCst);
        let waits = match self.waits {
            Waits::Always => true,
            Waits::TheFirst(count) => number < count,
        };
        let after = self.after.clone().filter(|_| waits);
        let waits = async move {
            if let Some(all) = after {
                all.wait().await;
            }
            stream::iter(answer)
        };
        Box::pin(stream::once(waits).flatten())
    }
}

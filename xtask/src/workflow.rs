//! A workflow in a process of its own, with a model that answers at once: what steps cost beyond their models.
//!
//! `run` is the process, `measured` starts and measures it. Everything but the model is real: the document is loaded,
//! each step is an agent with its turn loop, events are made.

use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::Instant;

use futures_util::{StreamExt, stream};
use tenon_core::{Cancel, Delta, DeltaStream, FinishReason, ModelClient, Request, Usage};
use tenon_flow::{FlowRun, LoadOptions, WorkflowStatus, load};
use tokio::sync::Barrier;

use crate::measure::{Sample, measure};
use crate::{Failure, Verdict};

/// Items at a time; the model answers when so many have asked.
pub const ITEMS_AT_A_TIME: usize = 100;

/// What the workflow does.
#[derive(Clone, Copy)]
pub enum Work {
    /// A chain with branches: every step depends on one before it.
    Steps(usize),
    /// One loop over so many items, a multiple of [`ITEMS_AT_A_TIME`].
    Items(usize),
}

pub fn run(args: &[String]) -> Result<Verdict, Failure> {
    let usage = || Failure::usage("`workflow` takes `steps` or `items` and a number");
    let [kind, count] = args else { return Err(usage()) };
    let count: usize = count.parse().map_err(|_| usage())?;
    let (text, model) = match kind.as_str() {
        "steps" => (steps(count), AnswersAtOnce { after: None }),
        "items" => (items(count), AnswersAtOnce { after: Some(Arc::new(Barrier::new(ITEMS_AT_A_TIME))) }),
        _ => return Err(usage()),
    };
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("workflow.yaml");
    std::fs::write(&file, text)?;
    let workflow = load(&file, &LoadOptions::default()).map_err(|error| Failure::other(error.to_string()))?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let outcome = runtime
        .block_on(FlowRun::new(workflow, Arc::new(model), "test-model").run())
        .map_err(|error| Failure::other(error.to_string()))?;
    match outcome.status {
        WorkflowStatus::Completed => {
            println!("{} steps, {} turns", outcome.steps.len(), outcome.spent.turns);
            Ok(Verdict::Good)
        }
        other => {
            Err(Failure::other(format!("the workflow ended as `{}`: {:?}", other.name(), outcome.error)))
        }
    }
}

/// Runs it in a process of its own.
pub fn measured(work: Work, stderr: &Path) -> Result<Sample, Failure> {
    let (kind, count) = match work {
        Work::Steps(count) => ("steps", count),
        Work::Items(count) => ("items", count),
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
    /// Who must have asked before anybody is answered.
    after: Option<Arc<Barrier>>,
}

impl ModelClient for AnswersAtOnce {
    fn stream(&self, _: Request, _: Cancel) -> DeltaStream {
        let usage = Usage { input: 100, output: 10, total: 110, ..Usage::default() };
        let answer = [
            Ok(Delta::Text("It is done.".to_owned())),
            Ok(Delta::Usage(usage)),
            Ok(Delta::Finished(FinishReason::Stop)),
        ];
        let after = self.after.clone();
        let waits = async move {
            if let Some(all) = after {
                all.wait().await;
            }
            stream::iter(answer)
        };
        Box::pin(stream::once(waits).flatten())
    }
}

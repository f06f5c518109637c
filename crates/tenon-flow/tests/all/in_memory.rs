//! Runs in this process: tasks, the runtime's clock, and steps that misbehave.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use serde_json::json;
use tenon_core::{BoxFut, Cancel};
use tenon_flow::{
    AgentRequest, JsonText, LoadedWorkflow, Notice, RunSpec, StepErrorClass, StepKey, StepOutcome,
    StepOutput, StepRunner, StepStatus, Turns, WorkflowOutcome, WorkflowStatus, run_in_memory,
};

use crate::documents::{document, document_with};
use crate::sim::{output, said, statuses};

type Script = Box<dyn Fn(StepKey, AgentRequest, Cancel) -> BoxFut<'static, StepOutcome> + Send + Sync>;

struct Scripted {
    script: Script,
    running: AtomicUsize,
    most: AtomicUsize,
    notices: Mutex<Vec<Notice>>,
}

impl StepRunner for Scripted {
    fn run(
        &self,
        key: StepKey,
        request: AgentRequest,
        _turns: Turns,
        cancel: Cancel,
    ) -> BoxFut<'_, StepOutcome> {
        Box::pin(async move {
            let now = self.running.fetch_add(1, Ordering::SeqCst) + 1;
            self.most.fetch_max(now, Ordering::SeqCst);
            let outcome = (self.script)(key, request, cancel).await;
            self.running.fetch_sub(1, Ordering::SeqCst);
            outcome
        })
    }

    fn tell(&self, notice: Notice) {
        self.notices.lock().unwrap().push(notice);
    }
}

async fn run(
    workflow: Arc<LoadedWorkflow>,
    cancel: Cancel,
    kill: Cancel,
    script: impl Fn(StepKey, AgentRequest, Cancel) -> BoxFut<'static, StepOutcome> + Send + Sync + 'static,
) -> (WorkflowOutcome, Arc<Scripted>) {
    let runner = Arc::new(Scripted {
        script: Box::new(script),
        running: AtomicUsize::new(0),
        most: AtomicUsize::new(0),
        notices: Mutex::default(),
    });
    let spec = RunSpec::new(workflow, "run", JsonText::of(&json!({})));
    (run_in_memory(spec, runner.clone(), cancel, kill).await, runner)
}

/// Stops when told.
async fn until_cancelled(cancel: Cancel) -> StepOutcome {
    cancel.cancelled().await;
    StepOutcome::Cancelled(output("half"))
}

#[tokio::test(start_paused = true)]
async fn a_run_with_includes_and_items_ends_with_its_answer() {
    let workflow = document_with(
        &[("inc.yaml", "name: inc\nsteps:\n  - {id: a}\n  - {id: b, dependsOn: [a]}\n")],
        "name: w\nsteps:\n  - {id: i, include: inc.yaml}\n  \
         - {id: l, dependsOn: [i], loop: {forEach: [1, 2, 3], maxConcurrency: 2}}\n  \
         - {id: end, dependsOn: [l]}\n",
    );
    let (outcome, runner) = run(workflow, Cancel::new(), Cancel::new(), |key, request, _| {
        Box::pin(async move {
            tokio::task::yield_now().await;
            let upstream: Vec<String> = request.upstream.iter().map(|it| it.record.content.clone()).collect();
            said(&format!("{}({})", key.step_id(), upstream.join(",")))
        })
    })
    .await;
    assert_eq!(statuses(&outcome), ["i: completed", "l: completed", "end: completed"]);
    assert_eq!(outcome.answer.unwrap().text(), "end(l[2](i.b(i.a())))");
    assert_eq!(runner.most.load(Ordering::SeqCst), 2);
    let ended: BTreeSet<String> = runner
        .notices
        .lock()
        .unwrap()
        .iter()
        .filter_map(|notice| match notice {
            Notice::Ended { key, .. } => Some(key.step_id()),
            _ => None,
        })
        .collect();
    assert_eq!(ended, ["end", "i", "i.a", "i.b", "l", "l[0]", "l[1]", "l[2]"].map(String::from).into());
}

#[tokio::test(start_paused = true)]
async fn a_panic_in_a_step_is_a_failure_of_that_step() {
    let workflow = document("name: w\nsteps:\n  - {id: a}\n  - {id: b}\n");
    let (outcome, _) = run(workflow, Cancel::new(), Cancel::new(), |key, _, _| {
        Box::pin(async move { if key.step_id() == "a" { panic!("boom") } else { said("") } })
    })
    .await;
    assert_eq!(
        (outcome.status, statuses(&outcome)),
        (WorkflowStatus::Partial, vec!["a: failed".into(), "b: completed".into()])
    );
    let error = outcome.step("a").unwrap().error.clone().unwrap();
    assert_eq!((error.class, error.message.as_str()), (StepErrorClass::Internal, "panic in step `a`: boom"));
}

#[tokio::test(start_paused = true)]
async fn a_step_that_hangs_is_ended_by_its_limit_though_it_ignores_being_told() {
    let workflow = document("name: w\nsteps:\n  - {id: a, timeout: 30s}\n  - {id: b, timeout: 1m}\n");
    let (outcome, _) = run(workflow, Cancel::new(), Cancel::new(), |key, _, cancel| {
        Box::pin(async move {
            if key.step_id() == "a" { std::future::pending().await } else { until_cancelled(cancel).await }
        })
    })
    .await;
    for id in ["a", "b"] {
        let record = outcome.step(id).unwrap();
        assert_eq!(
            (record.status, record.error.as_ref().unwrap().class),
            (StepStatus::Failed, StepErrorClass::Timeout)
        );
    }
    assert_eq!(outcome.step("b").unwrap().spent.usage.total, 1, "what it used until then is known");
}

#[tokio::test(start_paused = true)]
async fn pauses_and_delays_are_waited_for() {
    let workflow = document(
        "name: w\nsteps:\n  - {id: a, retries: 3}\n  - {id: l, loop: {maxIterations: 3, delay: 10m, until: iteration == 2}}\n",
    );
    let began = tokio::time::Instant::now();
    let tries = Arc::new(AtomicUsize::new(0));
    let (outcome, _) = run(workflow, Cancel::new(), Cancel::new(), move |key, _, _| {
        let tries = tries.clone();
        Box::pin(async move {
            if key.step_id() == "a" && tries.fetch_add(1, Ordering::SeqCst) < 2 {
                return crate::sim::failed(StepErrorClass::Overloaded, "busy");
            }
            said("")
        })
    })
    .await;
    assert_eq!(outcome.status, WorkflowStatus::Completed);
    assert_eq!(began.elapsed().as_secs(), 20 * 60, "the clock of the test is ours");
}

#[tokio::test(start_paused = true)]
async fn cancelling_stops_steps_inside_includes_too_and_counts_what_they_used() {
    let workflow = document_with(
        &[("inc.yaml", "name: inc\nsteps:\n  - {id: a}\n  - {id: b, dependsOn: [a]}\n")],
        "name: w\nsteps:\n  - {id: i, include: inc.yaml}\n  - {id: c}\n",
    );
    let cancel = Cancel::new();
    let trigger = cancel.clone();
    let (outcome, _) = run(workflow, cancel, Cancel::new(), move |key, _, cancel| {
        let trigger = trigger.clone();
        Box::pin(async move {
            if key.step_id() == "c" {
                trigger.cancel();
            }
            until_cancelled(cancel).await
        })
    })
    .await;
    assert_eq!(outcome.status, WorkflowStatus::Cancelled);
    assert_eq!(statuses(&outcome), ["i: cancelled", "c: cancelled"]);
    assert_eq!(outcome.spent.usage.total, 2);
}

#[tokio::test(start_paused = true)]
async fn killing_waits_for_nobody() {
    let workflow = document("name: w\nsteps:\n  - {id: a}\n");
    let (cancel, kill) = (Cancel::new(), Cancel::new());
    let began = tokio::time::Instant::now();
    let (both, second) = ((cancel.clone(), kill.clone()), kill);
    let (outcome, _) = run(workflow, cancel, second, move |_, _, _| {
        let (cancel, kill) = both.clone();
        Box::pin(async move {
            cancel.cancel();
            kill.cancel();
            std::future::pending().await
        })
    })
    .await;
    assert_eq!((outcome.status, began.elapsed().as_secs()), (WorkflowStatus::Cancelled, 0));
}

#[tokio::test(start_paused = true)]
async fn thousands_of_items_never_run_more_than_a_hundred_at_once() {
    let workflow = document(
        "name: w\nsteps:\n  - {id: plan}\n  - {id: l, dependsOn: [plan], loop: {forEach: steps.plan.result.items}}\n",
    );
    let (outcome, runner) = run(workflow, Cancel::new(), Cancel::new(), |key, request, _| {
        Box::pin(async move {
            if key.step_id() == "plan" {
                let items: Vec<u32> = (0..2000).collect();
                return crate::sim::submitted("", json!({ "items": items }));
            }
            let index = request.item.unwrap().index;
            tokio::time::sleep(std::time::Duration::from_millis(u64::from(index % 7))).await;
            StepOutcome::Completed(StepOutput { content: index.to_string(), ..StepOutput::default() })
        })
    })
    .await;
    assert_eq!(statuses(&outcome), ["plan: completed", "l: completed"]);
    let items = outcome.step("l").unwrap().result.as_ref().unwrap().to_value();
    assert_eq!(items["iterations"].as_array().unwrap().len(), 2000);
    assert_eq!(items["iterations"][1999]["content"], "1999");
    assert_eq!(runner.most.load(Ordering::SeqCst), 100);
}

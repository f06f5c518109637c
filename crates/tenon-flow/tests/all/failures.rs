//! Conditions, and what a failure does to the rest.

use serde_json::json;
use tenon_flow::{NotRun, Notice, StepErrorClass, StepStatus, WorkflowStatus};

use crate::documents::{document, document_with};
use crate::sim::{Sim, failed, said, statuses, submitted};

/// `a` fails; `b` depends on it, `c` on `b`, `d` on nothing.
fn after_a_failure(strategy: &str) -> Sim {
    let mut sim = Sim::new(document(&format!(
        "name: w\noptions: {{onStepFailure: {strategy}}}\nsteps:\n  - {{id: a}}\n  \
         - {{id: b, dependsOn: [a]}}\n  - {{id: c, dependsOn: [b]}}\n  - {{id: d}}\n  - {{id: e, dependsOn: [d]}}\n"
    )));
    sim.fail("run/a@1", StepErrorClass::Auth);
    sim
}

#[test]
fn cascade_cancels_what_depends_on_a_failure() {
    let mut sim = after_a_failure("cascade");
    sim.ok("run/d@1", "");
    sim.ok("run/e@1", "");
    assert_eq!(sim.statuses(), ["a: failed", "b: cancelled", "c: cancelled", "d: completed", "e: completed"]);
    let outcome = sim.outcome();
    assert_eq!(outcome.status, WorkflowStatus::Partial);
    assert_eq!(outcome.step("c").unwrap().not_run, Some(NotRun::DependencyFailed("a".into())));
    // F8: the run says so, and has no answer.
    let error = outcome.error.as_ref().unwrap();
    assert_eq!(
        (error.class, error.message.as_str()),
        (StepErrorClass::Auth, "step `a` failed: it did not work")
    );
    assert_eq!(outcome.answer, None);
}

#[test]
fn skip_dependents_skips_them() {
    let mut sim = after_a_failure("skip-dependents");
    sim.ok("run/d@1", "");
    sim.ok("run/e@1", "");
    assert_eq!(sim.statuses(), ["a: failed", "b: skipped", "c: skipped", "d: completed", "e: completed"]);
    assert_eq!(sim.outcome().status, WorkflowStatus::Partial);
}

#[test]
fn abort_stops_what_runs_and_starts_nothing_more() {
    let mut sim = after_a_failure("abort");
    assert_eq!(sim.cancelled.iter().map(ToString::to_string).collect::<Vec<_>>(), ["run/d@1"]);
    assert_eq!(sim.interpreter.outcome(), None, "it waits for what was told to stop");
    sim.stop_cancelled();
    assert_eq!(sim.statuses(), ["a: failed", "b: cancelled", "c: cancelled", "d: cancelled", "e: cancelled"]);
    assert_eq!(sim.outcome().status, WorkflowStatus::Failed);
    // What was done at that very moment is kept.
    let mut sim = after_a_failure("abort");
    sim.ok("run/d@1", "in time");
    assert_eq!(sim.statuses(), ["a: failed", "b: cancelled", "c: cancelled", "d: completed", "e: cancelled"]);
    assert_eq!(sim.outcome().status, WorkflowStatus::Partial);
}

#[test]
fn the_status_of_a_run_follows_from_its_steps() {
    for (failing, wanted) in [
        (vec![], WorkflowStatus::Completed),
        (vec!["a"], WorkflowStatus::Partial),
        (vec!["a", "b"], WorkflowStatus::Failed),
    ] {
        let workflow = document("name: w\nsteps:\n  - {id: a}\n  - {id: b}\n");
        let (outcome, _) = Sim::new(workflow).run(&mut |key, _| {
            if failing.contains(&key.step_id().as_str()) {
                failed(StepErrorClass::Auth, "no")
            } else {
                said("yes")
            }
        });
        assert_eq!(outcome.status, wanted, "{failing:?}");
    }
    let workflow = document("name: w\nsteps:\n  - {id: a, condition: 'false'}\n");
    assert_eq!(Sim::new(workflow).outcome().status, WorkflowStatus::Completed, "all skipped is completed");
}

/// A condition, what the step before it left behind, and what becomes of the step.
#[test]
fn conditions() {
    let table = [
        ("steps.a.result.passed", json!({"passed": true}), "completed", None),
        ("steps.a.result.passed", json!({"passed": false}), "skipped", Some(NotRun::ConditionFalse)),
        ("steps.a.status == 'completed' && steps.a.result.n >= 3", json!({"n": 3}), "completed", None),
        ("steps.a.result.n == 3", json!({"n": 3.0}), "completed", None),
        ("steps.a.result.nope.more", json!({}), "skipped", Some(NotRun::MissingData("nope".into()))),
        ("has(steps.a.result.nope)", json!({}), "skipped", Some(NotRun::ConditionFalse)),
        ("!has(steps.a.result.nope.more) || false", json!(null), "completed", None),
        ("has(steps.a.result.nope) ? false : true", json!(null), "completed", None),
        ("steps.a.content.contains('LGTM')", json!({}), "completed", None),
        ("steps.a.result.n", json!({"n": 1}), "failed", None),
        ("steps.a.result.n > 'x'", json!({"n": 1}), "failed", None),
    ];
    for (condition, result, status, why) in table {
        let workflow = document(&format!(
            "name: w\nsteps:\n  - {{id: a}}\n  - {{id: b, dependsOn: [a], condition: \"{condition}\"}}\n  \
             - {{id: c, dependsOn: [b]}}\n"
        ));
        let (outcome, sim) = Sim::new(workflow).run(&mut |key, _| match key.step_id().as_str() {
            "a" => submitted("LGTM", result.clone()),
            _ => said(""),
        });
        let record = outcome.step("b").unwrap();
        assert_eq!((record.status.name(), &record.not_run), (status, &why), "{condition}");
        match status {
            "failed" => {
                assert_eq!(record.error.as_ref().unwrap().class, StepErrorClass::Expression);
                assert_eq!(outcome.step("c").unwrap().status, StepStatus::Cancelled);
                // An error in a condition is told like any other.
                let told =
                    |notice: &Notice| matches!(notice, Notice::Ended { key, .. } if key.step_id() == "b");
                assert!(sim.notices.iter().any(told), "{condition}");
            }
            // A step that its condition skips does not keep others from running.
            _ => assert_eq!(outcome.step("c").unwrap().status, StepStatus::Completed, "{condition}"),
        }
    }
}

const INNER: &[(&str, &str)] = &[
    ("inner.yaml", "name: i\nsteps:\n  - {id: x}\n"),
    ("half.yaml", "name: h\nsteps:\n  - {id: x, condition: 'false'}\n  - {id: y, dependsOn: [x]}\n"),
    ("none.yaml", "name: n\nsteps:\n  - {id: x, condition: 'false'}\n"),
];

/// Strategies × kinds of steps × retries: what comes after a failure never runs, whatever it was and however often it was tried.
#[test]
fn what_depends_on_a_failure_is_left_out_whatever_it_is() {
    let bodies = [
        "",
        ", loop: {maxIterations: 2, until: 'false'}",
        ", loop: {maxIterations: 1, steps: [{id: i, include: inner.yaml}]}",
        ", loop: {forEach: [1, 2], maxConcurrency: 1}",
        ", loop: {forEach: [1], steps: [{id: x}]}",
        ", include: inner.yaml",
    ];
    for (strategy, left) in [("cascade", "cancelled"), ("skip-dependents", "skipped"), ("abort", "cancelled")]
    {
        for (body, retries) in bodies.iter().flat_map(|body| [(body, 0), (body, 2)]) {
            let text = format!(
                "name: w\noptions: {{onStepFailure: {strategy}}}\nsteps:\n  - {{id: a, retries: {retries}{body}}}\n  \
                 - {{id: never, condition: 'false', dependsOn: [a]}}\n  - {{id: in, include: inner.yaml, dependsOn: [a]}}\n  \
                 - {{id: each, loop: {{forEach: [1]}}, dependsOn: [in], retries: 2}}\n"
            );
            let mut tried = 0;
            let (outcome, _) = Sim::new(document_with(INNER, &text)).run(&mut |_, _| {
                tried += 1;
                failed(StepErrorClass::Tool, "no")
            });
            let wanted = ["a: failed".to_owned()].into_iter();
            let wanted: Vec<String> =
                wanted.chain(["never", "in", "each"].map(|id| format!("{id}: {left}"))).collect();
            assert_eq!((statuses(&outcome), tried), (wanted, 1 + retries), "{text}");
            assert_eq!(outcome.status, WorkflowStatus::Failed, "{text}");
        }
    }
}

/// A step that is skipped by its condition holds up nothing: not a loop, not an include, and not what is inside them.
#[test]
fn what_depends_on_a_skipped_step_runs_whatever_it_is() {
    let workflow = document_with(
        INNER,
        "name: w\nsteps:\n  - {id: a, condition: 'false'}\n  \
         - {id: each, dependsOn: [a], loop: {forEach: [1], steps: [{id: s, condition: index > 0}, {id: t, dependsOn: [s]}]}}\n  \
         - {id: again, dependsOn: [a], loop: {maxIterations: 2, steps: [{id: s, condition: iteration > 0}]}}\n  \
         - {id: half, dependsOn: [each], include: half.yaml}\n  - {id: none, dependsOn: [half], include: none.yaml}\n  \
         - {id: end, dependsOn: [none, again]}\n",
    );
    let mut asked = Vec::new();
    let (outcome, _) = Sim::new(workflow).run(&mut |key, _| {
        asked.push(key.step_id());
        said(&key.step_id())
    });
    let ran = ["each", "again", "half", "none", "end"].map(|id| format!("{id}: completed"));
    assert_eq!(statuses(&outcome), [vec!["a: skipped".to_owned()], ran.to_vec()].concat());
    asked.sort();
    assert_eq!(asked, ["again.1.s", "each[0].t", "end", "half.y"]);
    let none = outcome.step("none").unwrap();
    assert_eq!(
        (none.content.as_str(), none.result.as_ref().unwrap().to_value()),
        ("", json!({"innerSteps": {"none.x": {"content": "", "status": "skipped"}}}))
    );
}

#[test]
fn ids_with_hyphens_are_found() {
    let workflow = document(
        "name: w\nsteps:\n  - {id: health-check}\n  \
         - {id: b, dependsOn: [health-check], condition: steps.health-check.content.contains('unhealthy')}\n",
    );
    let (outcome, _) = Sim::new(workflow).run(&mut |_, _| said("unhealthy"));
    assert_eq!(statuses(&outcome), ["health-check: completed", "b: completed"]);
}

/// A step that recovers must not depend on the one that fails: its condition sees every step that is over.
#[test]
fn a_condition_sees_steps_that_it_does_not_depend_on() {
    let workflow = document(
        "name: w\nsteps:\n  - {id: a}\n  - {id: b}\n  \
         - {id: recover, dependsOn: [b], condition: steps.a.status == 'failed'}\n",
    );
    let mut sim = Sim::new(workflow.clone());
    sim.fail("run/a@1", StepErrorClass::Auth);
    sim.ok("run/b@1", "");
    sim.ok("run/recover@1", "");
    assert_eq!(sim.statuses(), ["a: failed", "b: completed", "recover: completed"]);
    // Not over yet is not there.
    let mut sim = Sim::new(workflow);
    sim.ok("run/b@1", "");
    sim.fail("run/a@1", StepErrorClass::Auth);
    assert_eq!(sim.statuses(), ["a: failed", "b: completed", "recover: skipped"]);
}

#[test]
fn a_template_that_cannot_be_filled_fails_its_step_before_a_model_is_asked() {
    let workflow = document(
        "name: w\nsteps:\n  - {id: a}\n  - {id: b, dependsOn: [a], instructions: 'Use ${{ steps.a.result.x.y }}'}\n",
    );
    let (outcome, sim) = Sim::new(workflow).run(&mut |_, _| submitted("", json!({})));
    assert_eq!(statuses(&outcome), ["a: completed", "b: failed"]);
    assert_eq!(sim.started, ["run/a@1"]);
    let error = outcome.step("b").unwrap().error.as_ref().unwrap();
    assert_eq!(error.class, StepErrorClass::Expression);
    assert!(error.message.contains("`instructions`"), "{}", error.message);
}

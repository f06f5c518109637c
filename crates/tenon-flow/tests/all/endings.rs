//! What a run gives back, and how it ends before its time.

use serde_json::json;
use tenon_core::Timestamp;
use tenon_flow::{
    Answer, JsonText, MoneyLimit, NotRun, Notice, RunLimits, RunSpec, StepErrorClass, StepOutcome, Stopped,
    WallTime, WorkflowStatus,
};

use crate::documents::document;
use crate::sim::{Sim, failed, said, statuses, submitted};

#[test]
fn the_answer_is_what_the_document_declares_or_its_last_steps_left() {
    let two = "steps:\n  - {id: a}\n  - {id: b, dependsOn: [a]}\n";
    let sinks = "steps:\n  - {id: a}\n  - {id: b, dependsOn: [a]}\n  - {id: c, dependsOn: [a]}\n  - {id: d, condition: 'false'}\n";
    let table = [
        (two.to_owned(), r#"{"n":1.0}"#),
        ("steps:\n  - {id: b}\n  - {id: a, dependsOn: [b]}\n".to_owned(), "said a"),
        (sinks.to_owned(), r#"{"b":{"n":1.0},"c":"said c","d":null}"#),
        (
            format!(
                "{two}outputs: {{text: steps.a.content, number: steps.b.result.n, twice: steps.b.result.n * 2.0}}\n"
            ),
            r#"{"text":"said a","number":1.0,"twice":2.0}"#,
        ),
        (format!("{sinks}outputs: {{gone: steps.d.result.x}}\n"), r#"{"gone":null}"#),
        (
            format!("{two}outputs: {{left_out: steps.b.result.zz, n: steps.b.result.n}}\n"),
            r#"{"left_out":null,"n":1.0}"#,
        ),
    ];
    for (text, wanted) in table {
        let workflow = document(&format!("name: w\n{text}"));
        let (outcome, _) = Sim::new(workflow).run(&mut |key, _| match key.step_id().as_str() {
            "b" => {
                let result: JsonText = serde_json::from_str(r#"{"n":1.0}"#).unwrap();
                let output = tenon_flow::StepOutput { result: Some(result), ..crate::sim::output("said b") };
                tenon_flow::StepOutcome::Completed(output)
            }
            id => said(&format!("said {id}")),
        });
        assert_eq!(outcome.answer.as_ref().map(Answer::text), Some(wanted), "{text}");
    }
}

#[test]
fn an_output_that_cannot_be_evaluated_fails_the_run() {
    let workflow = document("name: w\nsteps:\n  - {id: a}\noutputs: {x: steps.a.result.n + 'text'}\n");
    let (outcome, _) = Sim::new(workflow).run(&mut |_, _| submitted("", json!({"n": 1})));
    assert_eq!((outcome.status, &outcome.answer), (WorkflowStatus::Failed, &None));
    let error = outcome.error.unwrap();
    assert_eq!(error.class, StepErrorClass::Expression);
    assert!(error.message.contains("the output `x`"), "{}", error.message);
}

fn two_and_two() -> Sim {
    let mut sim = Sim::new(document(
        "name: w\nsteps:\n  - {id: a}\n  - {id: b}\n  - {id: c, dependsOn: [b]}\n  - {id: l, loop: {maxIterations: 3, until: 'false'}}\n",
    ));
    sim.ok("run/a@1", "done");
    sim
}

#[test]
fn a_cancelled_run_keeps_what_was_done_and_waits_for_what_stops() {
    let mut sim = two_and_two();
    let actions = sim.interpreter.stop(&Stopped::Cancelled, Timestamp(5000));
    sim.perform(actions);
    assert!(sim.interpreter.outcome().is_none());
    sim.stop_cancelled();
    assert_eq!(sim.statuses(), ["a: completed", "b: cancelled", "c: cancelled", "l: cancelled"]);
    assert_eq!((sim.outcome().status, sim.outcome().answer.clone()), (WorkflowStatus::Cancelled, None));
}

/// Nobody works, so nobody is told to stop, and what has not ended is not said to have.
#[test]
fn a_run_that_is_set_aside_stands_as_it_stood() {
    let mut sim = two_and_two();
    let told = sim.notices.len();
    assert_eq!(sim.interpreter.stop(&Stopped::Suspended, Timestamp(5000)), []);
    assert_eq!((sim.statuses(), sim.notices.len()), (vec!["a: completed".to_owned()], told));
    assert_eq!((sim.outcome().status, sim.outcome().answer.clone()), (WorkflowStatus::Suspended, None));
}

/// What fails while it is being stopped was stopped: it is not tried again, and it is no failure of its own.
#[test]
fn what_fails_after_it_was_told_to_stop_is_cancelled() {
    let mut sim = Sim::new(document("name: w\nsteps:\n  - {id: a, retries: 5}\n"));
    let actions = sim.interpreter.stop(&Stopped::Cancelled, Timestamp(5000));
    sim.perform(actions);
    sim.fail("run/a@1", StepErrorClass::Tool);
    assert_eq!((sim.statuses(), sim.started.len()), (vec!["a: cancelled".to_owned()], 1));
    assert_eq!(sim.outcome().status, WorkflowStatus::Cancelled);
}

/// A step that somebody stopped on its own: the run says why it did not complete.
#[test]
fn a_step_that_was_cancelled_by_itself_is_named() {
    let mut sim = Sim::new(document("name: w\nsteps:\n  - {id: a}\n  - {id: b, dependsOn: [a]}\n"));
    sim.complete("run/a@1", tenon_flow::StepOutcome::Cancelled(crate::sim::output("half")));
    assert_eq!(sim.statuses(), ["a: cancelled", "b: cancelled"]);
    let outcome = sim.outcome();
    assert_eq!(outcome.status, WorkflowStatus::Failed);
    assert_eq!(outcome.error.as_ref().unwrap().message, "step `a` was cancelled");
}

#[test]
fn nobody_waits_for_ever_for_what_does_not_stop() {
    let mut sim = two_and_two();
    let actions = sim.interpreter.stop(&Stopped::Cancelled, Timestamp(5000));
    sim.perform(actions);
    let actions = sim.interpreter.abandon(Timestamp(6000));
    sim.perform(actions);
    assert_eq!(sim.outcome().status, WorkflowStatus::Cancelled);
    assert_eq!(sim.outcome().step("a").unwrap().content, "done");
}

#[test]
fn a_run_that_was_done_anyway_is_completed() {
    let mut sim = Sim::new(document("name: w\nsteps:\n  - {id: a}\n"));
    let actions = sim.interpreter.stop(&Stopped::Cancelled, Timestamp(5000));
    sim.perform(actions);
    sim.ok("run/a@1", "just in time");
    assert_eq!(sim.outcome().status, WorkflowStatus::Completed);
    assert_eq!(sim.outcome().answer.as_ref().unwrap().text(), "just in time");
}

/// A loop that is told to stop while its last iteration runs is done if that iteration ends it.
#[test]
fn a_loop_that_was_done_anyway_is_completed() {
    for (rules, content, wanted) in [
        ("maxIterations: 3, until: content == 'done'", "done", "l: completed"),
        ("maxIterations: 3, until: content == 'done'", "not yet", "l: cancelled"),
        ("maxIterations: 1", "x", "l: completed"),
        ("maxIterations: 2", "x", "l: cancelled"),
        ("forEach: [1]", "x", "l: completed"),
    ] {
        let mut sim = Sim::new(document(&format!("name: w\nsteps:\n  - {{id: l, loop: {{{rules}}}}}\n")));
        let actions = sim.interpreter.stop(&Stopped::Cancelled, Timestamp(5000));
        sim.perform(actions);
        let key = sim.running()[0].clone();
        sim.ok(&key, content);
        assert_eq!(sim.statuses(), [wanted], "{rules}");
    }
}

#[test]
fn a_run_stopped_before_it_began_has_run_nothing() {
    let workflow = document("name: w\nsteps:\n  - {id: a}\n  - {id: b, condition: 'false'}\n");
    let mut interpreter =
        tenon_flow::Interpreter::new(RunSpec::new(workflow, "run", JsonText::of(&json!({}))));
    interpreter.stop(&Stopped::Cancelled, Timestamp(1));
    let outcome = interpreter.outcome().unwrap();
    assert_eq!((outcome.status, outcome.duration_ms), (WorkflowStatus::Cancelled, 0));
    assert_eq!(statuses(outcome), ["a: cancelled", "b: cancelled"]);
}

/// Each answer of these tests uses one token, one turn and half a dollar.
#[test]
fn a_run_ends_when_its_budget_is_used_up() {
    let table = [
        ("budget: {maxUsd: 1.0}", None, "$1.0000"),
        ("", Some(1.0), "(`the purse`)"),
        ("budget: {maxUsd: 50}", Some(1.0), "(`the purse`)"),
        ("budget: {maxUsd: 1}", Some(50.0), "(`budget.maxUsd` of the document)"),
        ("budget: {maxTokens: 2}", None, "2 tokens"),
        ("budget: {maxTurns: 2}", None, "2 model turns"),
    ];
    for (budget, max_usd, wanted) in table {
        let steps: String = (0..4).map(|n| format!("  - {{id: s{n}}}\n")).collect();
        let workflow =
            document(&format!("name: w\n{budget}\noptions: {{maxConcurrency: 1}}\nsteps:\n{steps}"));
        let spec = RunSpec {
            limits: RunLimits {
                max_usd: max_usd.map(|usd| MoneyLimit { usd, set_by: "`the purse`" }),
                ..RunLimits::default()
            },
            ..RunSpec::new(workflow, "run", JsonText::of(&json!({})))
        };
        let (outcome, _) = Sim::with(spec).run(&mut |_, _| said(""));
        assert_eq!(outcome.status, WorkflowStatus::BudgetExceeded, "{budget}");
        assert_eq!(statuses(&outcome), ["s0: completed", "s1: completed", "s2: cancelled", "s3: cancelled"]);
        let error = outcome.error.unwrap();
        assert_eq!(error.class, StepErrorClass::Budget);
        assert!(error.message.contains(wanted), "{}", error.message);
    }
}

/// The last step is over with the last turn: nothing is left that a budget could keep from being done, unless something would
/// have been tried again.
#[test]
fn a_budget_that_is_used_up_by_the_last_step_ends_nothing() {
    for (retries, wanted, status) in
        [(0, WorkflowStatus::Partial, "b: failed"), (1, WorkflowStatus::BudgetExceeded, "b: cancelled")]
    {
        for b in [
            format!("{{id: b, retries: {retries}, dependsOn: [a]}}"),
            format!(
                "{{id: b, retries: {retries}, dependsOn: [a], loop: {{maxIterations: 1, steps: [{{id: x}}]}}}}"
            ),
            format!(
                "{{id: b, retries: {retries}, dependsOn: [a], loop: {{forEach: [1], steps: [{{id: x}}]}}}}"
            ),
            format!("{{id: b, retries: {retries}, dependsOn: [a], loop: {{forEach: [1]}}}}"),
        ] {
            let workflow =
                document(&format!("name: w\nbudget: {{maxTurns: 2}}\nsteps:\n  - {{id: a}}\n  - {b}\n"));
            let (outcome, _) =
                Sim::new(workflow).run(&mut |key, _| match key.to_string().ends_with("/a@1") {
                    true => said("done"),
                    false => match failed(StepErrorClass::Contract, "never submitted") {
                        StepOutcome::Failed { error, mut output } => {
                            output.spent.turns = 1;
                            StepOutcome::Failed { error, output }
                        }
                        other => other,
                    },
                });
            assert_eq!(
                (outcome.status, &statuses(&outcome)[..]),
                (wanted, &["a: completed".to_owned(), status.to_owned()][..]),
                "{b}"
            );
        }
    }
}

#[test]
fn a_step_that_is_refused_money_ends_the_run() {
    let mut sim = two_and_two();
    sim.complete("run/b@1", failed(StepErrorClass::Budget, "the budget of $1 is used up"));
    sim.stop_cancelled();
    assert_eq!(sim.outcome().status, WorkflowStatus::BudgetExceeded);
    assert_eq!(sim.outcome().error.as_ref().unwrap().message, "the budget of $1 is used up");
    assert_eq!(sim.statuses(), ["a: completed", "b: cancelled", "c: cancelled", "l: cancelled"]);
}

/// Whichever limit it is and whoever notices: what did not get its turn is cancelled, and says so.
#[test]
fn a_budget_ends_every_step_in_the_same_shape() {
    let yaml = |budget: &str| {
        format!(
            "name: w\n{budget}\noptions: {{maxConcurrency: 2}}\nsteps:\n  - {{id: a}}\n  - {{id: b}}\n  - {{id: c, dependsOn: [a]}}\n  - {{id: d, dependsOn: [c]}}\n"
        )
    };
    let spec = |budget: &str| RunSpec::new(document(&yaml(budget)), "run", JsonText::of(&json!({})));
    let limits = RunLimits { wall_time: Some(WallTime { ms: 9, set_by: "`x`" }), ..RunLimits::default() };
    for (budget, limits, refused) in [
        ("budget: {maxTurns: 1}", RunLimits::default(), false),
        ("budget: {maxTokens: 1}", RunLimits::default(), false),
        ("budget: {maxUsd: 0.5}", RunLimits::default(), false),
        ("", limits, false),
        ("", RunLimits::default(), true),
    ] {
        let mut sim = Sim::with(RunSpec { limits, ..spec(budget) });
        if refused {
            sim.complete("run/a@1", failed(StepErrorClass::Budget, "no money"));
        } else if budget.is_empty() {
            sim.elapse("run@1~limit");
        } else {
            sim.ok("run/a@1", "");
        }
        sim.stop_cancelled();
        let outcome = sim.outcome();
        assert_eq!(outcome.status, WorkflowStatus::BudgetExceeded, "{budget}");
        let of = |id: &str| {
            let record = outcome.step(id).unwrap();
            let error = record.error.as_ref().map(|error| (error.class, error.message.as_str()));
            (record.status.name(), record.not_run.clone(), error)
        };
        let (class, used_up) = (StepErrorClass::Budget, "the budget is used up");
        let (stopped, not_started) = (format!("stopped: {used_up}"), format!("not started: {used_up}"));
        assert_eq!(of("b"), ("cancelled", None, Some((class, stopped.as_str()))), "{budget}");
        for id in ["c", "d"] {
            let wanted = ("cancelled", Some(NotRun::BudgetExceeded), Some((class, not_started.as_str())));
            assert_eq!(of(id), wanted, "{id}: {budget}");
        }
        let told = |notice: &Notice| matches!(notice, Notice::NotRun { why: NotRun::BudgetExceeded, .. });
        assert_eq!(sim.notices.iter().filter(|notice| told(notice)).count(), 2, "{budget}");
    }
}

/// In loops and includes it is the same: nothing of them failed.
#[test]
fn a_budget_that_ends_inside_is_the_run_s() {
    let inner = [("inner.yaml", "name: i\nsteps:\n  - {id: x}\n  - {id: y, dependsOn: [x]}\n")];
    for step in [
        "{id: s, include: inner.yaml, retries: 3}",
        "{id: s, retries: 3, loop: {maxIterations: 2, until: 'false'}}",
        "{id: s, retries: 3, loop: {maxIterations: 2, until: 'false', steps: [{id: x}, {id: y, dependsOn: [x]}]}}",
        "{id: s, retries: 3, loop: {forEach: [1, 2], maxConcurrency: 1}}",
        "{id: s, retries: 3, loop: {forEach: [1], steps: [{id: i, include: inner.yaml}]}}",
    ] {
        let workflow = crate::documents::document_with(
            &inner,
            &format!("name: w\nsteps:\n  - {step}\n  - {{id: after, dependsOn: [s]}}\n"),
        );
        let (outcome, sim) = Sim::new(workflow).run(&mut |_, _| failed(StepErrorClass::Budget, "no money"));
        assert_eq!(outcome.status, WorkflowStatus::BudgetExceeded, "{step}");
        assert_eq!(statuses(&outcome), ["s: cancelled", "after: cancelled"], "{step}");
        let error = outcome.error.as_ref().unwrap();
        assert!(
            error.message.ends_with("no money") && error.class == StepErrorClass::Budget,
            "{step}: {error}"
        );
        assert_eq!(outcome.step("after").unwrap().not_run, Some(NotRun::BudgetExceeded), "{step}");
        let agents = sim
            .started
            .iter()
            .filter(|key| !key.contains('~') && !matches!(key.as_str(), "run/s@1" | "run/s[0]/i@1"));
        assert_eq!(agents.count(), 1, "{step}: {:?}", sim.started);
    }
}

/// A limit of nothing leaves what costs nothing.
#[test]
fn where_nothing_may_be_spent_free_work_is_done() {
    let max_usd = Some(MoneyLimit { usd: 0.0, set_by: "`the purse`" });
    let run = |usd: f64| {
        let workflow = document("name: w\noptions: {maxConcurrency: 1}\nsteps:\n  - {id: a}\n  - {id: b}\n");
        let spec = RunSpec::new(workflow, "run", JsonText::of(&json!({})));
        let spec = RunSpec { limits: RunLimits { max_usd, ..RunLimits::default() }, ..spec };
        Sim::with(spec).run(&mut |_, _| {
            let spent = crate::sim::spent(1, usd);
            tenon_flow::StepOutcome::Completed(tenon_flow::StepOutput { spent, ..crate::sim::output("") })
        })
    };
    assert_eq!(run(0.0).0.status, WorkflowStatus::Completed);
    let (outcome, _) = run(0.00002);
    assert_eq!(statuses(&outcome), ["a: completed", "b: cancelled"]);
    let message = outcome.error.unwrap().message;
    assert_eq!(
        message,
        "the run has used $0.000020 of the $0 it may spend, and steps are left (`the purse`)"
    );
}

#[test]
fn the_time_that_a_caller_gives_is_a_budget() {
    let workflow = document("name: w\nsteps:\n  - {id: a}\n");
    let spec = RunSpec {
        limits: RunLimits {
            wall_time: Some(WallTime { ms: 1500, set_by: "`the clock`" }),
            ..RunLimits::default()
        },
        ..RunSpec::new(workflow, "run", JsonText::of(&json!({})))
    };
    let mut sim = Sim::with(spec);
    sim.elapse("run@1~limit");
    sim.stop_cancelled();
    assert_eq!(sim.outcome().status, WorkflowStatus::BudgetExceeded);
    let error = sim.outcome().error.as_ref().unwrap();
    assert_eq!(error.message, "the run was not done after 1.5s, the most it may take (`the clock`)");
    assert_eq!(error.hint.as_deref(), Some("raise `the clock`"));
}

//! Attempts, pauses and time limits.

use serde_json::json;
use tenon_flow::{Notice, StepError, StepErrorClass, StepOutcome, StepOutput, StepStatus, WorkflowStatus};

use crate::documents::document;
use crate::sim::{Sim, failed, output, said, statuses};

fn retrying(retries: u32) -> Sim {
    Sim::new(document(&format!("name: w\nsteps:\n  - {{id: a, retries: {retries}}}\n")))
}

#[test]
fn a_step_is_tried_again_and_what_its_attempts_used_is_summed() {
    let mut sim = retrying(2);
    sim.fail("run/a@1", StepErrorClass::Tool);
    assert_eq!(sim.request("run/a@2").attempt, 2);
    sim.fail("run/a@2", StepErrorClass::Turns);
    sim.ok("run/a@3", "at last");
    let record = sim.outcome().step("a").unwrap();
    assert_eq!(
        (record.status, record.attempts, record.content.as_str()),
        (StepStatus::Completed, 3, "at last")
    );
    assert_eq!((record.spent.usage.total, record.spent.cost_usd, record.spent.turns), (3, Some(1.5), 3));
    assert_eq!(sim.outcome().spent, record.spent);
}

#[test]
fn the_last_attempt_that_fails_is_the_end() {
    let mut sim = retrying(1);
    sim.fail("run/a@1", StepErrorClass::Tool);
    sim.fail("run/a@2", StepErrorClass::Contract);
    let record = sim.outcome().step("a").unwrap();
    assert_eq!((record.status, record.attempts), (StepStatus::Failed, 2));
    assert_eq!(record.error.as_ref().unwrap().class, StepErrorClass::Contract);
}

#[test]
fn what_cannot_be_helped_is_not_tried_again() {
    for class in [StepErrorClass::Auth, StepErrorClass::SchemaRetries, StepErrorClass::Config] {
        let mut sim = retrying(3);
        sim.fail("run/a@1", class);
        assert_eq!(sim.outcome().step("a").unwrap().attempts, 1, "{}", class.name());
    }
    // A bad request is of class `protocol`, and says so itself.
    let mut sim = retrying(3);
    let error =
        StepError { retryable: Some(false), ..StepError::new(StepErrorClass::Protocol, "400 bad request") };
    sim.complete("run/a@1", StepOutcome::Failed { error, output: StepOutput::default() });
    assert_eq!(sim.outcome().step("a").unwrap().attempts, 1);
}

#[test]
fn transport_errors_wait_longer_each_time_and_as_long_as_the_server_asks() {
    let mut sim = retrying(3);
    sim.fail("run/a@1", StepErrorClass::Overloaded);
    assert_eq!((sim.running(), sim.timers()), (vec![], vec![("run/a@1~backoff".to_owned(), 500)]));
    let told = |notice: &Notice| matches!(notice, Notice::Retrying { after_ms: 500, .. });
    assert!(sim.notices.iter().any(told));
    sim.elapse("run/a@1~backoff");
    sim.fail("run/a@2", StepErrorClass::Network);
    assert_eq!(sim.timers(), [("run/a@2~backoff".to_owned(), 1000)]);
    sim.elapse("run/a@2~backoff");
    let error =
        StepError { retry_after_ms: Some(7000), ..StepError::new(StepErrorClass::RateLimited, "429") };
    sim.complete("run/a@3", StepOutcome::Failed { error, output: StepOutput::default() });
    assert_eq!(sim.timers(), [("run/a@3~backoff".to_owned(), 7000)]);
    sim.elapse("run/a@3~backoff");
    sim.ok("run/a@4", "");
    assert_eq!(sim.outcome().status, WorkflowStatus::Completed);
}

#[test]
fn a_time_limit_covers_all_attempts_and_the_pauses_between_them() {
    let yaml = "name: w\nsteps:\n  - {id: a, timeout: 30s, retries: 5}\n";
    let mut sim = Sim::new(document(yaml));
    assert_eq!(sim.timers(), [("run/a@1~timeout".to_owned(), 30_000)]);
    sim.fail("run/a@1", StepErrorClass::Tool);
    assert_eq!(sim.timers().len(), 1, "the second attempt has no time of its own");
    sim.elapse("run/a@1~timeout");
    assert_eq!(sim.cancelled.iter().map(ToString::to_string).collect::<Vec<_>>(), ["run/a@2"]);
    sim.complete("run/a@2", StepOutcome::Cancelled(output("half")));
    let record = sim.outcome().step("a").unwrap();
    let error = record.error.as_ref().unwrap();
    assert_eq!((record.status, error.class), (StepStatus::Failed, StepErrorClass::Timeout));
    assert_eq!(error.message, "not done after 30s, its `timeout`");
    assert_eq!(error.hint.as_deref(), Some("raise `timeout` of the step"));
    assert_eq!(record.spent.usage.total, 2, "what was used is counted");

    // In a pause.
    let mut sim = Sim::new(document(yaml));
    sim.fail("run/a@1", StepErrorClass::Network);
    sim.elapse("run/a@1~timeout");
    assert_eq!(sim.statuses(), ["a: failed"]);
    // Done too late is too late.
    let mut sim = Sim::new(document(yaml));
    sim.elapse("run/a@1~timeout");
    sim.ok("run/a@1", "late");
    assert_eq!(sim.statuses(), ["a: failed"]);
    // Done in time: the timer is called off, and its end changes nothing.
    let mut sim = Sim::new(document(yaml));
    sim.ok("run/a@1", "");
    assert_eq!(sim.timers(), []);
    sim.elapse("run/a@1~timeout");
    assert_eq!(sim.statuses(), ["a: completed"]);
}

#[test]
fn steps_without_a_limit_have_that_of_the_options() {
    let sim = Sim::new(document(
        "name: w\noptions: {stepTimeout: 1m}\nsteps:\n  - {id: a}\n  - {id: b, timeout: 5s}\n  - {id: c, timeout: 0s}\n",
    ));
    let timers: Vec<u64> = sim.timers().into_iter().map(|(_, ms)| ms).collect();
    assert_eq!(timers, [60_000, 5_000, 60_000]);
}

#[test]
fn the_workflow_s_limit_ends_everything() {
    let mut sim = Sim::new(document(
        "name: w\noptions: {timeout: 1h}\nsteps:\n  - {id: a}\n  - {id: b}\n  - {id: c, dependsOn: [b]}\n",
    ));
    sim.ok("run/a@1", "");
    sim.elapse("run@1~timeout");
    sim.stop_cancelled();
    assert_eq!(sim.statuses(), ["a: completed", "b: cancelled", "c: cancelled"]);
    let outcome = sim.outcome();
    assert_eq!(outcome.status, WorkflowStatus::Partial);
    assert_eq!(outcome.error.as_ref().unwrap().class, StepErrorClass::Timeout);
    let error = outcome.error.as_ref().unwrap();
    assert_eq!(error.message, "the workflow was not done after 1h, its `options.timeout`");
    assert_eq!(error.hint.as_deref(), Some("raise `options.timeout` of the document"));
}

/// Whatever is an agent's run is under `stepTimeout`, and says so when it is late.
#[test]
fn a_limit_of_all_steps_is_named_where_it_applied() {
    let judge = "agents:\n  j: {description: J, resultSchema: {type: object, required: [done], properties: {done: {type: boolean}}}}\n";
    for (step, key) in [
        ("{id: a}", "run/a@1"),
        ("{id: a, loop: {forEach: [1]}}", "run/a[0]@1"),
        ("{id: a, loop: {maxIterations: 1}}", "run/a#0@1"),
        ("{id: a, loop: {forEach: [1], steps: [{id: i}]}}", "run/a[0]/i@1"),
    ] {
        let mut sim = Sim::new(document(&format!(
            "name: w\n{judge}options: {{stepTimeout: 90s}}\nsteps:\n  - {step}\n"
        )));
        sim.elapse(&format!("{key}~timeout"));
        sim.stop_cancelled();
        let error = sim.outcome().step("a").unwrap().error.clone().unwrap();
        let said = "not done after 1m30s, the `options.stepTimeout` of the document";
        assert!(error.message.ends_with(said), "{step}: {}", error.message);
        // One turn of a loop has no `timeout` that could be another one.
        let own = ", or give the step a longer `timeout` of its own (`0s` is the same as none)";
        let own = if key.ends_with("/a@1") || key.ends_with("/i@1") { own } else { "" };
        assert_eq!(error.hint, Some(format!("raise `options.stepTimeout`{own}")), "{step}");
    }
}

/// F4: one limit for all iterations, and for all items.
#[test]
fn a_loop_s_limit_covers_the_whole_loop() {
    let mut sim = Sim::new(document(
        "name: w\nsteps:\n  - {id: l, timeout: 10s, loop: {maxIterations: 3, until: 'false'}}\n",
    ));
    assert_eq!(sim.timers(), [("run/l@1~timeout".to_owned(), 10_000)]);
    sim.ok("run/l#0@1", "");
    assert_eq!(sim.timers().len(), 1);
    sim.elapse("run/l@1~timeout");
    sim.stop_cancelled();
    let record = sim.outcome().step("l").unwrap();
    assert_eq!(
        (record.status, record.error.as_ref().unwrap().class),
        (StepStatus::Failed, StepErrorClass::Timeout)
    );

    let mut sim = Sim::new(document(
        "name: w\nsteps:\n  - id: l\n    timeout: 10s\n    loop: {forEach: [1, 2, 3], maxConcurrency: 2}\n",
    ));
    sim.ok("run/l[0]@1", "");
    sim.elapse("run/l@1~timeout");
    sim.stop_cancelled();
    let record = sim.outcome().step("l").unwrap();
    assert_eq!(record.error.as_ref().unwrap().class, StepErrorClass::Timeout);
    let items = record.result.as_ref().unwrap().to_value();
    let statuses: Vec<&str> =
        items["iterations"].as_array().unwrap().iter().map(|item| item["status"].as_str().unwrap()).collect();
    assert_eq!(statuses, ["completed", "cancelled", "cancelled"]);
}

/// F4: the attempts at one iteration are `retries` and one, whatever the loop does.
#[test]
fn retries_of_a_loop_do_not_multiply() {
    let workflow =
        document("name: w\nsteps:\n  - {id: l, retries: 2, loop: {maxIterations: 2, until: 'false'}}\n");
    let (outcome, sim) = Sim::new(workflow).run(&mut |_, _| failed(StepErrorClass::Tool, "no"));
    assert_eq!(statuses(&outcome), ["l: failed"]);
    assert_eq!(sim.started, ["run/l#0@1", "run/l#0@2", "run/l#0@3"]);
    // A step of the body with attempts of its own has had them.
    let workflow = document(
        "name: w\nsteps:\n  - id: l\n    retries: 2\n    loop:\n      maxIterations: 1\n      until: 'false'\n      steps:\n        \
         - {id: a, retries: 2}\n",
    );
    let (outcome, sim) = Sim::new(workflow).run(&mut |_, _| failed(StepErrorClass::Tool, "no"));
    assert_eq!(statuses(&outcome), ["l: failed"]);
    assert_eq!(sim.started, ["run/l#0/a@1", "run/l#0/a@2", "run/l#0/a@3"]);
    // Several steps: the body is run again as a whole.
    let workflow = document(
        "name: w\nsteps:\n  - id: l\n    retries: 1\n    loop:\n      forEach: [7]\n      steps:\n        \
         - {id: a}\n        - {id: b, dependsOn: [a]}\n",
    );
    let mut tries = 0;
    let (outcome, sim) = Sim::new(workflow).run(&mut |key, _| {
        tries += u32::from(key.step_id() == "l[0].b");
        if key.step_id() == "l[0].b" && tries == 1 {
            failed(StepErrorClass::Overloaded, "no")
        } else {
            said("")
        }
    });
    assert_eq!(statuses(&outcome), ["l: completed"]);
    assert_eq!(
        sim.started,
        ["run/l[0]/a@1", "run/l[0]/b@1", "run/l[0]@1~backoff", "run/l[0]@2/a@1", "run/l[0]@2/b@1"]
    );
    assert_eq!(outcome.spent.usage.total, 4);
    assert_eq!(outcome.step("l").unwrap().spent.usage.total, 4);
    assert_eq!(
        outcome.step("l").unwrap().result.as_ref().unwrap().to_value()["iterations"][0]["item"],
        json!(7)
    );
}

/// A status 500 is the server's, and is waited for; an answer that is none is not.
#[test]
fn a_server_that_failed_is_given_time() {
    for (retryable, pause) in [(Some(true), Some(500)), (None, None)] {
        let mut sim = retrying(1);
        let error = StepError { retryable, ..StepError::new(StepErrorClass::Protocol, "500") };
        sim.complete("run/a@1", StepOutcome::Failed { error, output: StepOutput::default() });
        assert_eq!(sim.timers().first().map(|(_, ms)| *ms), pause);
        assert_eq!(sim.running().is_empty(), pause.is_some());
    }
}

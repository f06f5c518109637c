//! Loops that repeat until they are done.

use serde_json::json;
use tenon_flow::{
    Notice, Purpose, Shown, StepError, StepErrorClass, StepOutcome, StepOutput, StepStatus, WorkflowStatus,
};

use crate::documents::document;
use crate::sim::{Sim, failed, said, statuses, submitted};

#[test]
fn a_loop_repeats_until_its_condition_is_true() {
    let workflow = document(
        "name: w\nsteps:\n  - {id: l, instructions: Go, loop: {maxIterations: 5, until: content.contains('done')}}\n",
    );
    let mut seen = Vec::new();
    let (outcome, sim) = Sim::new(workflow).run(&mut |_, request| {
        let iteration = request.iteration.clone().unwrap();
        seen.push((iteration.number, iteration.previous.map(|previous| previous.record.content.clone())));
        said(if iteration.number == 2 { "done" } else { "not yet" })
    });
    assert_eq!(statuses(&outcome), ["l: completed"]);
    assert_eq!(sim.started, ["run/l#0@1", "run/l#1@1", "run/l#2@1"]);
    let not_yet = || Some("not yet".to_owned());
    assert_eq!(seen, [(0, None), (1, not_yet()), (2, not_yet())]);
    assert_eq!(outcome.step("l").unwrap().content, "done");
    assert_eq!(outcome.step("l").unwrap().spent.usage.total, 3);
}

/// What `until` sees: the iteration, the bare values of its last step, and steps inside and outside.
#[test]
fn until_sees_the_iteration_and_all_steps() {
    let table = [
        ("iteration >= 1", 2),
        ("iteration == 1 && result.n == 1", 2),
        ("status == 'completed' && result.n >= 2.0", 3),
        ("steps.inner.result.n == 0", 1),
        ("steps.outer.content == 'OUT' && iteration > 0", 2),
    ];
    for (until, wanted) in table {
        let workflow = document(&format!(
            "name: w\nsteps:\n  - {{id: outer}}\n  - id: l\n    dependsOn: [outer]\n    loop:\n      maxIterations: 9\n      \
             until: \"{until}\"\n      steps:\n        - {{id: inner}}\n"
        ));
        let mut count = 0;
        let (outcome, _) = Sim::new(workflow).run(&mut |key, request| match key.step_id().as_str() {
            "outer" => said("OUT"),
            _ => {
                count += 1;
                submitted("", json!({"n": request.iteration.as_ref().unwrap().number}))
            }
        });
        assert_eq!((outcome.status, count), (WorkflowStatus::Completed, wanted), "{until}");
    }
}

/// Whether it is over or not: inside, a name that is there twice is the inner step's.
#[test]
fn an_inner_step_hides_an_outer_one_of_its_name() {
    let workflow = document(
        "name: w\nsteps:\n  - {id: a}\n  - id: l\n    dependsOn: [a]\n    loop:\n      forEach: [x]\n      steps:\n        - {id: first, condition: has(steps.a)}\n        - {id: a, dependsOn: [first]}\n        - {id: last, dependsOn: [a], instructions: '${{ steps.a.content }}'}\n",
    );
    let mut told = Vec::new();
    let (outcome, sim) = Sim::new(workflow).run(&mut |key, request| {
        told.push(request.instructions.clone());
        said(&key.step_id())
    });
    assert_eq!(outcome.status, WorkflowStatus::Completed);
    assert_eq!(sim.started, ["run/a@1", "run/l[0]/a@1", "run/l[0]/last@1"]);
    assert_eq!(told[2], "l[0].a");
}

#[test]
fn until_may_name_a_loop_that_is_one_step() {
    for until in
        ["steps.l.content == 'done'", "steps.l.result.n >= 1", "steps.l.status == status && iteration == 1"]
    {
        let workflow = document(&(
            "name: w\nagents:\n  a: {description: A, resultSchema: {type: object, properties: {n: {type: integer}}}}\nsteps:\n  \
             - {id: l, agent: a, loop: {maxIterations: 5, until: \"UNTIL\"}}\n"
        ).replace("UNTIL", until));
        let (outcome, sim) = Sim::new(workflow).run(&mut |_, request| {
            let number = request.iteration.as_ref().unwrap().number;
            submitted(if number == 1 { "done" } else { "not yet" }, json!({"n": number}))
        });
        assert_eq!((statuses(&outcome), sim.started.len()), (vec!["l: completed".to_owned()], 2), "{until}");
    }
}

#[test]
fn an_until_that_cannot_be_evaluated_fails_the_loop() {
    let workflow =
        document("name: w\nsteps:\n  - {id: l, loop: {maxIterations: 3, until: result.score >= 95}}\n");
    let (outcome, sim) = Sim::new(workflow).run(&mut |_, _| said("no result"));
    let error = outcome.step("l").unwrap().error.clone().unwrap();
    assert_eq!((error.class, sim.started.len()), (StepErrorClass::Expression, 1));
    assert!(error.message.contains("`loop.until` of iteration 1"), "{}", error.message);
}

#[test]
fn running_out_of_iterations_is_a_failure_unless_nothing_was_waited_for() {
    let judge = "agents:\n  j: {description: J, resultSchema: {type: object, required: [done], properties: {done: {type: boolean}}}}\n";
    let table = [
        ("maxIterations: 2", None),
        ("maxIterations: 2, until: 'false'", Some("its `until` never became true")),
        ("maxIterations: 2, untilAgent: j", Some("its judge never said that it is done")),
        (
            "maxIterations: 2, until: 'false', untilAgent: j",
            Some("never became true and its judge never said"),
        ),
    ];
    for (rules, wanted) in table {
        let workflow = document(&format!("name: w\n{judge}steps:\n  - {{id: l, loop: {{{rules}}}}}\n"));
        let (outcome, _) = Sim::new(workflow).run(&mut |_, request| match request.purpose {
            Purpose::Work => said("work"),
            Purpose::Judge { .. } => submitted("", json!({"done": false})),
        });
        let record = outcome.step("l").unwrap();
        match wanted {
            None => assert_eq!(record.status, StepStatus::Completed),
            Some(reason) => {
                let error = record.error.as_ref().unwrap();
                assert_eq!(error.class, StepErrorClass::LoopExhausted);
                assert!(error.message.contains("2 iterations"), "{}", error.message);
                assert!(error.message.contains(reason), "{}", error.message);
            }
        }
        assert_eq!(record.content, "work", "what there is is kept");
    }
}

#[test]
fn a_loop_waits_between_iterations_and_not_before_the_first() {
    let mut sim = Sim::new(document(
        "name: w\nsteps:\n  - {id: l, loop: {maxIterations: 2, delay: 5s, until: 'false'}}\n",
    ));
    assert_eq!((sim.running(), sim.timers()), (vec!["run/l#0@1".to_owned()], vec![]));
    sim.ok("run/l#0@1", "");
    assert_eq!((sim.running(), sim.timers()), (vec![], vec![("run/l#1@1~delay".to_owned(), 5000)]));
    sim.elapse("run/l#1@1~delay");
    sim.ok("run/l#1@1", "");
    assert_eq!(sim.statuses(), ["l: failed"]);
}

/// A body without work must not keep the run from being stopped.
#[test]
fn iterations_in_which_nothing_runs_still_go_through_the_port() {
    let workflow = document(
        "name: w\nsteps:\n  - id: l\n    loop:\n      maxIterations: 4000000000\n      until: 'false'\n      steps:\n        \
         - {id: a, condition: 'false'}\n",
    );
    let mut sim = Sim::new(workflow);
    for number in 1..4 {
        assert_eq!(sim.timers(), [(format!("run/l#{number}@1~delay"), 0)]);
        sim.elapse(&format!("run/l#{number}@1~delay"));
    }
    let actions = sim.interpreter.stop(&tenon_flow::Stopped::Cancelled, tenon_core::Timestamp(9));
    sim.perform(actions);
    assert_eq!(sim.outcome().status, WorkflowStatus::Cancelled);
}

/// F3: inner steps see what the loop depends on, the iteration, what the one before left, and what the judge said.
#[test]
fn inner_steps_see_what_they_should() {
    let workflow = document(
        "name: w\nagents:\n  j: {description: J, model: wise, resultSchema: {type: object, required: [done], properties: \
         {done: {type: boolean}, reason: {type: string}}}}\nsteps:\n  - {id: brief}\n  - id: refine\n    dependsOn: [brief]\n    \
         loop:\n      maxIterations: 3\n      untilAgent: j\n      outputMode: cumulative\n      steps:\n        \
         - {id: write, instructions: 'Round ${{ iteration }} after ${{ steps.brief.content }}'}\n        \
         - {id: check, dependsOn: [write]}\n  - {id: end, dependsOn: [refine]}\n",
    );
    let mut sim = Sim::new(workflow);
    sim.ok("run/brief@1", "the brief");
    let first = sim.request("run/refine#0/write@1").clone();
    assert_eq!(
        (first.step_id.as_str(), first.instructions.as_str()),
        ("refine.0.write", "Round 0 after the brief")
    );
    assert_eq!((first.outer[0].id.as_str(), first.outer.len()), ("brief", 1));
    sim.ok("run/refine#0/write@1", "draft 1");
    let check = sim.request("run/refine#0/check@1").clone();
    assert_eq!((check.upstream[0].id.as_str(), check.outer[0].id.as_str()), ("write", "brief"));
    sim.submit("run/refine#0/check@1", "weak", json!({"score": 3}));

    let judge = sim.request("run/refine#0@1~judge").clone();
    assert_eq!((judge.step_id.as_str(), judge.agent.name.as_deref()), ("refine.0.judge", Some("j")));
    assert_eq!(judge.model.named(), Some("wise"));
    let Purpose::Judge { history, result } = &judge.purpose else { panic!("{:?}", judge.purpose) };
    assert_eq!(history, "## Iteration 1\n### write\ndraft 1\n\n### check\nweak\n\n");
    assert_eq!(result.as_ref().unwrap().as_str(), r#"{"score":3}"#);
    sim.submit("run/refine#0@1~judge", "no", json!({"done": false, "reason": "too short"}));

    for key in ["run/refine#1/write@1", "run/refine#1/check@1"] {
        let iteration = sim.request(key).iteration.clone().unwrap();
        assert_eq!(iteration.number, 1);
        assert_eq!(iteration.previous.unwrap().record.content, "weak");
        let feedback = iteration.feedback.unwrap();
        assert_eq!(feedback.result.unwrap().as_str(), r#"{"done":false,"reason":"too short"}"#);
        sim.ok(key, "better");
    }
    // What the judge wrote beside its verdict is in the history as it is in the next prompt.
    let Purpose::Judge { history, .. } = &sim.request("run/refine#1@1~judge").purpose else { panic!() };
    let said = "## Judge Feedback (Iteration 1)\nno\n\n{\"done\":false,\"reason\":\"too short\"}\n\n## Iteration 2\n";
    assert!(history.contains(said), "{history}");
    sim.submit("run/refine#1@1~judge", "", json!({"done": true}));
    let end = sim.request("run/end@1").clone();
    let record = &end.upstream[0].record;
    assert_eq!(
        record.content,
        "## Iteration 1\n### write\ndraft 1\n\n### check\nweak\n\n## Judge Feedback (Iteration 1)\nno\n\n\
         {\"done\":false,\"reason\":\"too short\"}\n\n## Iteration 2\n### write\nbetter\n\n### check\nbetter"
    );
    assert_eq!(record.shown, Shown::Whole);
    assert!(end.outer.is_empty() && end.iteration.is_none());
}

/// A judge that gives no verdict is passed over: the loop goes on.
#[test]
fn judges_fail_open() {
    let workflow = document(
        "name: w\nagents:\n  j: {description: J, resultSchema: {type: object, required: [done], properties: {done: {type: boolean}}}}\n\
         steps:\n  - {id: l, loop: {maxIterations: 3, untilAgent: j}}\n",
    );
    let (outcome, sim) = Sim::new(workflow).run(&mut |_, request| match (
        &request.purpose,
        request.iteration.as_ref().unwrap().number,
    ) {
        (Purpose::Work, number) => {
            assert_eq!(request.iteration.as_ref().unwrap().feedback, None, "{number}");
            said("work")
        }
        (Purpose::Judge { .. }, 0) => {
            failed(StepErrorClass::Contract, "resultSchema defined but submit_result never called")
        }
        (Purpose::Judge { .. }, 1) => failed(StepErrorClass::Overloaded, "busy"),
        (Purpose::Judge { .. }, _) => submitted("", json!({"done": true})),
    });
    assert_eq!(statuses(&outcome), ["l: completed"]);
    let told = sim.notices.iter().filter(|notice| matches!(notice, Notice::JudgeFailed { .. })).count();
    assert_eq!((told, sim.started.len()), (2, 6));
    // Every agent that runs is told, with its place among the iterations.
    let told: Vec<String> = sim.notices.iter().filter_map(agents_told).collect();
    let wanted = [0, 1, 2].map(|number| {
        let pair = |what: &str| {
            [format!("l.{number}{what} starts, {number} of 3"), format!("l.{number}{what} ends")]
        };
        [pair(""), pair(".judge")].concat()
    });
    assert_eq!(told[1..told.len() - 1], wanted.concat());
    // What judges used is counted.
    assert_eq!(outcome.step("l").unwrap().spent.usage.total, 6);
}

#[test]
fn a_body_that_fails_fails_the_loop_with_its_own_error() {
    let workflow = document(
        "name: w\nsteps:\n  - id: l\n    loop:\n      maxIterations: 3\n      until: 'false'\n      steps:\n        \
         - {id: a}\n        - {id: b, dependsOn: [a]}\n        - {id: c}\n",
    );
    let (outcome, sim) = Sim::new(workflow).run(&mut |key, _| match key.step_id().as_str() {
        "l.1.a" => failed(StepErrorClass::Refused, "will not"),
        _ => said(""),
    });
    let error = outcome.step("l").unwrap().error.clone().unwrap();
    assert_eq!((error.class, error.message.as_str()), (StepErrorClass::Refused, "`a`: will not"));
    assert_eq!(sim.started.iter().filter(|key| key.contains("#1")).count(), 2, "c still ran, b did not");
}

#[test]
fn conditions_inside_see_the_iteration_and_the_result_is_that_of_the_last_step_that_completed() {
    let workflow = document(
        "name: w\nsteps:\n  - id: l\n    loop:\n      maxIterations: 2\n      steps:\n        \
         - {id: a}\n        - {id: b, dependsOn: [a], condition: iteration == 0}\n",
    );
    let (outcome, sim) = Sim::new(workflow).run(&mut |key, _| said(&key.step_id()));
    assert_eq!(sim.started, ["run/l#0/a@1", "run/l#0/b@1", "run/l#1/a@1"]);
    assert_eq!(outcome.step("l").unwrap().content, "l.1.a");
}

fn agents_told(notice: &Notice) -> Option<String> {
    match notice {
        Notice::Started(started) => {
            Some(format!("{} starts, {} of {}", started.key.step_id(), started.position, started.of))
        }
        Notice::Ended { key, .. } => Some(format!("{} ends", key.step_id())),
        _ => None,
    }
}

/// Whatever ends a loop before it is done, what its iterations yielded is in the outcome.
#[test]
fn a_loop_that_is_cut_short_keeps_what_it_has() {
    for (mode, wanted) in
        [("last", "second"), ("cumulative", "## Iteration 1\n### l\nfirst\n\n## Iteration 2\n### l\nsecond")]
    {
        let workflow = document(&format!(
            "name: w\nsteps:\n  - {{id: l, timeout: 10s, loop: {{maxIterations: 5, until: 'false', outputMode: {mode}}}}}\n"
        ));
        let mut sim = Sim::new(workflow);
        sim.submit("run/l#0@1", "first", json!({"n": 1}));
        sim.submit("run/l#1@1", "second", json!({"n": 2}));
        sim.elapse("run/l@1~timeout");
        sim.stop_cancelled();
        let record = sim.outcome().step("l").unwrap();
        assert_eq!((record.status, record.content.as_str()), (StepStatus::Failed, wanted));
        assert_eq!(record.error.as_ref().unwrap().class, StepErrorClass::Timeout);
        assert_eq!(record.result.as_ref().unwrap().to_value(), json!({"n": 2}));
    }
}

/// Whatever it is that a later iteration fails by.
#[test]
fn what_iterations_yielded_stays_when_a_later_one_fails() {
    let steps = "steps: [{id: a}, {id: b, dependsOn: [a]}]";
    let cumulative = "outputMode: cumulative";
    let table = [
        ("", "1", Shown::Capped),
        (cumulative, "## Iteration 1\n### l\n1", Shown::Whole),
        (steps, "1", Shown::Capped),
        (&format!("{cumulative}, {steps}"), "## Iteration 1\n### a\n1\n\n### b\n1", Shown::Whole),
    ];
    for (more, wanted, shown) in table {
        let yaml = format!("name: w\nsteps:\n  - {{id: l, loop: {{maxIterations: 3, {more}}}}}\n");
        let (outcome, _) = Sim::new(document(&yaml)).run(&mut |key, request| match (
            request.iteration.as_ref().unwrap().number,
            key.step_id().ends_with(".a"),
        ) {
            (0, _) => submitted("1", json!({"n": 1})),
            (_, true) => said("half of the second"),
            (_, false) => failed(StepErrorClass::Auth, "no"),
        });
        let record = outcome.step("l").unwrap();
        assert_eq!((record.status, record.content.as_str()), (StepStatus::Failed, wanted), "{more}");
        assert_eq!(record.result.as_ref().unwrap().to_value(), json!({"n": 1}), "{more}");
        assert_eq!((record.shown, record.error.as_ref().unwrap().class), (shown, StepErrorClass::Auth));
    }
}

#[test]
fn an_iteration_that_is_too_late_does_not_take_the_others_with_it() {
    let yaml = "name: w\noptions: {stepTimeout: 1s}\nsteps:\n  - {id: l, loop: {maxIterations: 3, outputMode: cumulative}}\n";
    let mut sim = Sim::new(document(yaml));
    sim.ok("run/l#0@1", "first");
    sim.elapse("run/l#1@1~timeout");
    sim.stop_cancelled();
    let record = sim.outcome().step("l").unwrap();
    let error = record.error.as_ref().unwrap();
    assert_eq!(error.class, StepErrorClass::Timeout);
    assert_eq!(error.hint.as_deref(), Some("raise `options.stepTimeout`"), "an iteration has no other");
    assert_eq!(
        (record.status, record.content.as_str()),
        (StepStatus::Failed, "## Iteration 1\n### l\nfirst")
    );
}

/// The first iteration fails: what its steps left behind is there.
#[test]
fn a_failed_first_iteration_keeps_what_its_steps_did() {
    let yaml = "name: w\nsteps:\n  - {id: l, loop: {maxIterations: 3, steps: [{id: a}, {id: b}]}}\n";
    let (outcome, _) = Sim::new(document(yaml)).run(&mut |key, _| match key.step_id().ends_with(".a") {
        true => submitted("did a", json!({"a": 1})),
        false => failed(StepErrorClass::Auth, "no"),
    });
    let record = outcome.step("l").unwrap();
    assert_eq!((record.status, record.content.as_str()), (StepStatus::Failed, "did a"));
    assert_eq!(record.result.as_ref().unwrap().to_value(), json!({"a": 1}));
}

/// A judge that cannot answer is no judge that says no.
#[test]
fn a_judge_that_failed_is_told_with_the_end_of_its_loop() {
    const JUDGED: &str = "name: w\nagents:\n  j: {description: J, resultSchema: {type: object, required: [done], properties: {done: {type: boolean}}}}\nsteps:\n  - {id: l, loop: {maxIterations: 3, untilAgent: j}}\n";
    let more = "raise `loop.maxIterations`, or loosen what ends the loop";
    let until = "its `until` never became true and ";
    let none = "its judge never said that it is done";
    let table = [
        (0, "", format!("the loop used up its 3 iterations: {none}"), more.to_owned()),
        (
            2,
            "",
            "the loop used up its 3 iterations: its judge `j` never said that it is done, and failed in 2 of 3 iterations, the last time with: no key".to_owned(),
            format!("see to it that the judge can answer (set a key), {more}"),
        ),
        (
            3,
            until,
            format!("the loop used up its 3 iterations: {until}its judge `j` failed in 3 of 3 iterations, the last time with: no key"),
            "see to it that the judge can answer (set a key): more iterations alone do not help".to_owned(),
        ),
    ];
    for (fails, until, message, hint) in table {
        let yaml = if until.is_empty() {
            JUDGED.to_owned()
        } else {
            JUDGED.replace("untilAgent", "until: 'false', untilAgent")
        };
        let (outcome, _) = Sim::new(document(&yaml)).run(&mut |_, request| match &request.purpose {
            Purpose::Work => said("work"),
            Purpose::Judge { .. } if request.iteration.as_ref().unwrap().number < fails => {
                let error = StepError::new(StepErrorClass::Auth, "no key").hint("set a key");
                StepOutcome::Failed { error, output: StepOutput::default() }
            }
            Purpose::Judge { .. } => submitted("", json!({"done": false})),
        });
        let error = outcome.step("l").unwrap().error.clone().unwrap();
        assert_eq!((error.class, error.message), (StepErrorClass::LoopExhausted, message));
        assert_eq!(error.hint.unwrap(), hint);
    }
}

//! Workflows inside workflows.

use serde_json::json;
use tenon_flow::{StepErrorClass, StepRequest, StepStatus, TimedOutside, included};

use crate::documents::document_with;
use crate::sim::{Sim, failed, said, statuses, submitted};

const DEPLOY: &str = "name: deploy\noptions: {maxConcurrency: 1, timeout: 9s}\nsteps:\n  - {id: build}\n  \
                      - {id: push, dependsOn: [build]}\n  - {id: tidy}\n";

#[test]
fn an_include_runs_with_its_own_options_and_gives_back_its_last_step() {
    let workflow = document_with(
        &[("deploy.yaml", DEPLOY)],
        "name: w\nincludes: {deploy: deploy.yaml}\nsteps:\n  - {id: plan}\n  \
         - {id: d, include: deploy, dependsOn: [plan]}\n  - {id: end, dependsOn: [d]}\n",
    );
    let mut outer = Vec::new();
    let (outcome, sim) = Sim::new(workflow).run(&mut |key, request| {
        let ids: Vec<&str> = request.outer.iter().map(|it| it.id.as_str()).collect();
        outer.push(format!("{} sees {}", key.step_id(), ids.join(",")));
        match key.step_id().as_str() {
            "d.tidy" => submitted("tidied", json!({"clean": true})),
            _ => said(&format!("did {}", key.step_id())),
        }
    });
    assert_eq!(statuses(&outcome), ["plan: completed", "d: completed", "end: completed"]);
    assert_eq!(
        sim.started,
        [
            "run/plan@1",
            "run/d@1",
            "run/d@1~timeout",
            "run/d/build@1",
            "run/d/push@1",
            "run/d/tidy@1",
            "run/end@1"
        ]
    );
    // The steps that begin it see what it depends on.
    assert_eq!(outer, ["plan sees ", "d.build sees plan", "d.push sees ", "d.tidy sees plan", "end sees "]);
    let record = outcome.step("d").unwrap();
    assert_eq!(record.content, "tidied");
    assert_eq!(
        record.result.as_ref().unwrap().to_value(),
        json!({"clean": true, "innerSteps": {
            "d.build": {"content": "did d.build", "status": "completed"},
            "d.push": {"content": "did d.push", "status": "completed"},
            "d.tidy": {"content": "tidied", "status": "completed", "result": {"clean": true}},
        }})
    );
    assert_eq!(record.spent.usage.total, 3);
    assert_eq!(outcome.spent.usage.total, 5);
}

#[test]
fn the_include_s_own_limit_replaces_that_of_the_document() {
    let workflow = document_with(
        &[("deploy.yaml", DEPLOY)],
        "name: w\nsteps:\n  - {id: d, include: deploy.yaml, timeout: 4s}\n",
    );
    let mut sim = Sim::new(workflow);
    assert_eq!(sim.timers(), [("run/d@1~timeout".to_owned(), 4000)]);
    let Some((_, StepRequest::SubWorkflow(request))) =
        sim.pending.iter().find(|(key, _)| key.to_string() == "run/d@1")
    else {
        panic!("{:?}", sim.pending)
    };
    assert_eq!(request.timed_outside, TimedOutside::Yes);
    sim.elapse("run/d@1~timeout");
    sim.stop_cancelled();
    let record = sim.outcome().step("d").unwrap();
    assert_eq!(record.error.as_ref().unwrap().class, StepErrorClass::Timeout);
}

#[test]
fn an_include_that_fails_is_run_again_as_a_whole() {
    let workflow = document_with(
        &[("deploy.yaml", DEPLOY)],
        "name: w\nsteps:\n  - {id: d, include: deploy.yaml, retries: 1}\n",
    );
    let mut failures = 0;
    let (outcome, sim) = Sim::new(workflow).run(&mut |key, _| {
        failures += u32::from(key.step_id() == "d.push");
        if key.step_id() == "d.push" && failures == 1 { failed(StepErrorClass::Tool, "no") } else { said("") }
    });
    assert_eq!(statuses(&outcome), ["d: completed"]);
    let work: Vec<&String> = sim.started.iter().filter(|key| !key.contains('~')).collect();
    assert_eq!(
        work,
        [
            "run/d@1",
            "run/d/build@1",
            "run/d/push@1",
            "run/d/tidy@1",
            "run/d@2",
            "run/d@2/build@1",
            "run/d@2/push@1",
            "run/d@2/tidy@1"
        ]
    );
    assert_eq!(outcome.spent.usage.total, 6);
}

#[test]
fn what_fails_inside_is_named() {
    let workflow =
        document_with(&[("deploy.yaml", DEPLOY)], "name: w\nsteps:\n  - {id: d, include: deploy.yaml}\n");
    let (outcome, _) = Sim::new(workflow).run(&mut |key, _| match key.step_id().as_str() {
        "d.push" => failed(StepErrorClass::Auth, "no key"),
        _ => said(""),
    });
    let record = outcome.step("d").unwrap();
    let error = record.error.as_ref().unwrap();
    assert_eq!((record.status, error.class), (StepStatus::Failed, StepErrorClass::Auth));
    assert_eq!(error.message, "step `push` failed: no key");
    assert_eq!(outcome.error.as_ref().unwrap().message, "step `d` failed: step `push` failed: no key");
}

#[test]
fn an_include_in_a_loop_knows_the_item_and_its_document() {
    let workflow = document_with(
        &[("one.yaml", "name: one\nsteps:\n  - {id: a, instructions: 'Item ${{ item }}'}\n")],
        "name: w\nsteps:\n  - id: l\n    loop:\n      forEach: [x, y]\n      steps:\n        - {id: inc, include: one.yaml}\n",
    );
    let root = workflow.clone();
    let mut asked = Vec::new();
    let (outcome, _) = Sim::new(workflow).run(&mut |key, request| {
        assert_eq!(request.agent.document, ["l", "inc"]);
        assert_eq!(included(&root, &request.agent.document).unwrap().workflow.name, "one");
        asked.push(format!("{key}: {}", request.instructions));
        said("")
    });
    assert_eq!(statuses(&outcome), ["l: completed"]);
    assert_eq!(asked, ["run/l[0]/inc/a@1: Item x", "run/l[1]/inc/a@1: Item y"]);
}

/// F3: like any inner step it sees what the loop depends on besides what it depends on itself.
#[test]
fn an_include_in_a_loop_sees_what_the_loop_depends_on() {
    for (inner, expected) in [("h", "h,p,q"), ("p", "p,q")] {
        let body = format!(
            "name: w\nsteps:\n  - {{id: p}}\n  - {{id: q}}\n  - id: l\n    dependsOn: [p, q]\n    loop:\n      forEach: [x]\n      \
             steps:\n        - {{id: {inner}}}\n        - {{id: inc, include: deploy.yaml, dependsOn: [{inner}]}}\n"
        );
        let mut seen = Vec::new();
        let (outcome, _) =
            Sim::new(document_with(&[("deploy.yaml", DEPLOY)], &body)).run(&mut |key, request| {
                let ids: Vec<&str> = request.outer.iter().map(|it| it.id.as_str()).collect();
                if key.step_id().contains(".inc.") {
                    seen.push(format!("{} sees {}", key.step_id(), ids.join(",")));
                    for it in request.outer.iter().filter(|it| it.id == inner) {
                        assert_eq!(it.record.content, format!("did l[0].{inner}"));
                    }
                }
                said(&format!("did {}", key.step_id()))
            });
        assert_eq!(statuses(&outcome), ["p: completed", "q: completed", "l: completed"]);
        let (first, last) =
            (format!("l[0].inc.build sees {expected}"), format!("l[0].inc.tidy sees {expected}"));
        assert_eq!(seen, [first, "l[0].inc.push sees ".to_owned(), last]);
    }
}

#[test]
fn five_includes_deep_and_no_deeper() {
    let mut files: Vec<(String, String)> = (1..5)
        .map(|n| {
            (format!("f{n}.yaml"), format!("name: f{n}\nsteps:\n  - {{id: i, include: f{}.yaml}}\n", n + 1))
        })
        .collect();
    files.push(("f5.yaml".into(), "name: f5\nsteps:\n  - {id: a}\n".into()));
    let files: Vec<(&str, &str)> = files.iter().map(|(name, text)| (name.as_str(), text.as_str())).collect();
    let workflow = document_with(&files, "name: w\nsteps:\n  - {id: i, include: f1.yaml}\n");
    let (outcome, sim) = Sim::new(workflow.clone()).run(&mut |_, _| said("deep"));
    assert_eq!(
        (statuses(&outcome), outcome.step("i").unwrap().content.as_str()),
        (vec!["i: completed".to_owned()], "deep")
    );
    assert_eq!(sim.started.last().unwrap(), "run/i/i/i/i/i/a@1");
    assert_eq!(included(&workflow, &["i".into(), "i".into()]).unwrap().workflow.name, "f2");
    assert!(included(&workflow, &["nope".into()]).is_none());
}

#[test]
fn outputs_of_an_included_workflow_are_its_result() {
    let inner = "name: inner\nsteps:\n  - {id: a}\noutputs: {said: steps.a.content}\n";
    let workflow = document_with(
        &[("inner.yaml", inner)],
        "name: w\nsteps:\n  - {id: i, include: inner.yaml}\n  - {id: b, dependsOn: [i], condition: steps.i.result.said == 'hi'}\n",
    );
    let (outcome, _) = Sim::new(workflow).run(&mut |_, _| said("hi"));
    assert_eq!(statuses(&outcome), ["i: completed", "b: completed"]);
}

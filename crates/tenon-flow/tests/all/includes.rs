//! Workflows inside workflows.

use serde_json::json;
use tenon_flow::{
    JsonText, RunSpec, StepErrorClass, StepRequest, StepStatus, TimedOutside, as_step, included,
};

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

/// A step's own, then that of the loop or the include around it, then the options of its document.
#[test]
fn max_retries_reach_what_is_inside_a_loop_or_an_include() {
    let inner = "name: inner\noptions: {maxRetries: 7}\nagents:\n  j: {description: J, resultSchema: {type: object, required: [done], properties: {done: {type: boolean}}}}\nsteps:\n  - {id: plain}\n  - {id: own, maxRetries: 4}\n  - {id: l, loop: {maxIterations: 1, untilAgent: j, steps: [{id: x}]}}\n";
    let table = [
        (
            "{id: i, include: inner.yaml, maxRetries: 0}",
            vec![("i.plain", 0), ("i.own", 4), ("i.l.0.x", 0), ("i.l.0.judge", 0)],
        ),
        (
            "{id: i, include: inner.yaml}",
            vec![("i.plain", 7), ("i.own", 4), ("i.l.0.x", 7), ("i.l.0.judge", 7)],
        ),
        (
            "{id: e, maxRetries: 2, loop: {forEach: [1], steps: [{id: y}, {id: z, maxRetries: 1}, {id: i, include: inner.yaml}]}}",
            vec![
                ("e[0].y", 2),
                ("e[0].z", 1),
                ("e[0].i.plain", 2),
                ("e[0].i.own", 4),
                ("e[0].i.l.0.x", 2),
                ("e[0].i.l.0.judge", 2),
            ],
        ),
        ("{id: e, maxRetries: 2, loop: {forEach: [1]}}", vec![("e[0]", 2)]),
    ];
    for (step, wanted) in table {
        let workflow = document_with(
            &[("inner.yaml", inner)],
            &format!("name: w\noptions: {{maxRetries: 9}}\nsteps:\n  - {step}\n"),
        );
        let mut seen = Vec::new();
        Sim::new(workflow).run(&mut |key, request| {
            seen.push((key.step_id(), request.transport_retries.unwrap()));
            submitted("", json!({"done": true}))
        });
        for (id, retries) in wanted {
            let found = seen.iter().find(|(step, _)| step == id).unwrap_or_else(|| panic!("{id}: {seen:?}"));
            assert_eq!(found.1, retries, "{step}: {id}");
        }
    }
}

/// What may be spent in a document that is included is spent once, however often its step is tried.
#[test]
fn the_budget_of_an_include_is_of_all_its_attempts() {
    let table = [
        ("maxTurns: 3", "`sub/inner.yaml` has used 3 of its 3 model turns"),
        ("maxTokens: 3", "`sub/inner.yaml` has used 3 of the 3 tokens it may use"),
        ("maxUsd: 1.5", "`sub/inner.yaml` has used $1.5000 of the $1.5000 it may spend"),
    ];
    for (budget, used) in table {
        let field = budget.split(':').next().unwrap();
        let inner = format!("name: inner\nbudget: {{{budget}}}\nsteps:\n  - {{id: x}}\n");
        let yaml = "name: w\nsteps:\n  - {id: i, retries: 5, include: sub/inner.yaml}\n";
        let workflow = document_with(&[("sub/inner.yaml", &inner)], yaml);
        let (outcome, sim) = Sim::new(workflow).run(&mut |_, _| failed(StepErrorClass::Tool, "no tool"));
        assert_eq!(sim.started.iter().filter(|key| key.ends_with("/x@1")).count(), 3, "{budget}");
        let error = outcome.step("i").unwrap().error.clone().unwrap();
        let set_by = format!("`budget.{field}` of `sub/inner.yaml`");
        let wanted = format!("{used}, and is not tried again ({set_by}): step `x` failed: no tool");
        assert_eq!((error.class, error.message), (StepErrorClass::Budget, wanted));
        assert_eq!((error.hint, error.retryable), (Some(format!("raise {set_by}")), Some(false)));
        assert_eq!(outcome.step("i").unwrap().spent.turns, 3);

        // Attempts at the item around it count too; a new item has a new count.
        let yaml = "name: w\nsteps:\n  - {id: l, retries: 5, loop: {forEach: [1, 2], maxConcurrency: 1, steps: [{id: i, include: sub/inner.yaml}]}}\n";
        let workflow = document_with(&[("sub/inner.yaml", &inner)], yaml);
        let mut first = 0;
        let (outcome, _) =
            Sim::new(workflow).run(&mut |key, _| match key.step_id().starts_with("l[0]") && first < 2 {
                true => {
                    first += 1;
                    failed(StepErrorClass::Tool, "no tool")
                }
                false if key.step_id().starts_with("l[0]") => said("at last"),
                false => failed(StepErrorClass::Tool, "no tool"),
            });
        let record = outcome.step("l").unwrap();
        assert_eq!(record.spent.turns, 6, "{budget}: {record:?}");
        let error = record.error.clone().unwrap();
        assert!(error.class == StepErrorClass::Budget && error.message.contains(used), "{}", error.message);
    }
}

/// Who set a limit is said where it can be changed.
#[test]
fn time_limits_of_an_included_document_name_it() {
    let table = [
        (
            "timeout: 2s",
            "i/inner.yaml",
            "step `i` failed: `i/inner.yaml` was not done after 2s, its `options.timeout`",
            "raise `options.timeout` of `i/inner.yaml`, or give the step that includes it a `timeout`",
        ),
        (
            "stepTimeout: 2s",
            "inner.yaml",
            "step `i` failed: step `x` failed: not done after 2s, the `options.stepTimeout` of `inner.yaml`",
            "raise `options.stepTimeout` of `inner.yaml`, or give the step a longer `timeout` of its own (`0s` is the same as none)",
        ),
    ];
    for (option, name, message, hint) in table {
        let inner = format!("name: inner\noptions: {{{option}}}\nsteps:\n  - {{id: x}}\n");
        let yaml = format!("name: w\nsteps:\n  - {{id: i, include: {name}}}\n");
        let workflow = document_with(&[(name, &inner)], &yaml);
        let mut outer = Sim::new(workflow.clone());
        let request = match outer.pending[0].1.clone() {
            StepRequest::SubWorkflow(request) => request,
            other => panic!("{other:?}"),
        };
        let spec = RunSpec::new(workflow.clone(), "run", JsonText::of(&json!({})));
        let inside = spec.included(
            included(&workflow, &request.document).unwrap(),
            outer.pending[0].0.clone(),
            &request,
        );
        let mut sim = Sim::with(inside);
        let timer = sim.timers()[0].0.clone();
        sim.elapse(&timer);
        sim.stop_cancelled();
        outer.complete("run/i@1", as_step("i", sim.outcome()));
        let error = outer.outcome().error.clone().unwrap();
        assert_eq!((error.message.as_str(), error.hint.as_deref()), (message, Some(hint)));
    }
}

/// What a document calls by the name of ours is its own, to expressions and to whoever runs it.
#[test]
fn a_result_called_like_the_inner_steps_is_kept() {
    let agents = "agents: {a: {description: A, resultSchema: {type: object, properties: {innerSteps: {type: integer}}}}}";
    let table = [
        (format!("name: i\n{agents}\nsteps:\n  - {{id: p, agent: a}}\n"), json!({"innerSteps": 5})),
        (
            "name: i\nsteps:\n  - {id: p}\noutputs: {innerSteps: '5', x: '1'}\n".to_owned(),
            json!({"innerSteps": 5, "x": 1}),
        ),
        (
            "name: i\nsteps:\n  - {id: p}\noutputs: {innerSteps: '{\"a\": steps.p.status}'}\n".to_owned(),
            json!({"innerSteps": {"a": "completed"}}),
        ),
    ];
    let outers = [
        "steps:\n  - {id: i, include: inner.yaml}\n",
        "steps:\n  - {id: m, include: middle.yaml}\n",
        "steps:\n  - {id: l, loop: {maxIterations: 1, steps: [{id: i, include: inner.yaml}]}}\n",
    ];
    for (inner, wanted) in &table {
        for outer in outers {
            let files = [
                ("inner.yaml", inner.as_str()),
                ("middle.yaml", "name: m\nsteps:\n  - {id: i, include: inner.yaml}\n"),
            ];
            let workflow = document_with(&files, &format!("name: w\n{outer}"));
            let told = workflow.warnings.iter().any(|it| it.message.contains("is called `innerSteps`"));
            assert!(told, "{outer}: {:?}", workflow.warnings);
            let (outcome, _) = Sim::new(workflow).run(&mut |_, _| submitted("p", json!({"innerSteps": 5})));
            let answer = outcome.answer.as_ref().unwrap().text().to_owned();
            let answer: serde_json::Value = serde_json::from_str(&answer).unwrap();
            assert_eq!(&answer, wanted, "{outer} of {inner}");
        }
    }
}

/// As events call them.
#[test]
fn items_of_a_loop_inside_an_include_have_the_ids_of_their_events() {
    let workflow = document_with(
        &[("inner.yaml", "name: i\nsteps:\n  - {id: p, loop: {forEach: [1]}}\n")],
        "name: w\nsteps:\n  - {id: i, include: inner.yaml}\n",
    );
    let mut ids = Vec::new();
    let (outcome, _) = Sim::new(workflow).run(&mut |key, _| {
        ids.push(key.step_id());
        said("")
    });
    let result = outcome.step("i").unwrap().result.as_ref().unwrap().to_value();
    assert_eq!(json!(ids), json!(["i.p[0]"]));
    assert_eq!(result["iterations"][0]["id"], "i.p[0]");
}

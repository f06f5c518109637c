//! Loops over items.

use serde_json::{Value, json};
use tenon_flow::{Notice, Shown, StepErrorClass, StepKind, StepStatus};

use crate::documents::document;
use crate::sim::{Sim, failed, said, statuses, submitted};

fn iterations(record: &tenon_flow::StepRecord) -> Value {
    record.result.as_ref().unwrap().to_value()["iterations"].take()
}

/// F5: any list, from any step above.
#[test]
fn items_come_from_any_list() {
    let found =
        json!({"findings": [{"s": "low", "n": 1}, {"s": "critical", "n": 2}, {"s": "critical", "n": 3}]});
    let table = [
        ("[1, 2]", json!([1, 2])),
        ("steps.scan.result.findings", found["findings"].clone()),
        (
            "\"steps.scan.result.findings.filter(f, f.s == 'critical')\"",
            json!([{"s": "critical", "n": 2}, {"s": "critical", "n": 3}]),
        ),
        ("\"steps.scan.result.findings.map(f, f.n)\"", json!([1, 2, 3])),
        ("\"['x', 'y']\"", json!(["x", "y"])),
        ("\"steps.scan.result.findings.filter(f, false)\"", json!([])),
    ];
    for (each, wanted) in table {
        // The loop does not depend on `scan` itself.
        let workflow = document(&format!(
            "name: w\nsteps:\n  - {{id: scan}}\n  - {{id: between, dependsOn: [scan]}}\n  \
             - {{id: l, dependsOn: [between], loop: {{forEach: {each}}}}}\n"
        ));
        let mut items = Vec::new();
        let (outcome, _) = Sim::new(workflow).run(&mut |key, request| match key.step_id().as_str() {
            "scan" => submitted("", found.clone()),
            "between" => said(""),
            _ => {
                items.push(request.item.as_ref().unwrap().value.to_value());
                said("")
            }
        });
        assert_eq!(statuses(&outcome), ["scan: completed", "between: completed", "l: completed"], "{each}");
        assert_eq!(Value::Array(items), wanted, "{each}");
        assert_eq!(
            iterations(outcome.step("l").unwrap()).as_array().unwrap().len(),
            wanted.as_array().unwrap().len()
        );
    }
}

/// Without a step, the last dependency that completed is meant.
#[test]
fn items_may_come_from_the_last_dependency() {
    let table = [
        ("result.list", json!([3, 4])),
        ("\"[content, status]\"", json!(["of b", "completed"])),
        ("\"result.list.filter(n, n > 3)\"", json!([4])),
    ];
    for (each, wanted) in table {
        let workflow = document(&format!(
            "name: w\nsteps:\n  - {{id: a}}\n  - {{id: b}}\n  - {{id: c, condition: 'false'}}\n  \
             - {{id: l, dependsOn: [a, b, c], loop: {{forEach: {each}}}}}\n"
        ));
        let mut items = Vec::new();
        let (outcome, _) = Sim::new(workflow).run(&mut |key, request| match key.step_id().as_str() {
            "a" => submitted("of a", json!({"list": [1, 2]})),
            "b" => submitted("of b", json!({"list": [3, 4]})),
            _ => {
                items.push(request.item.as_ref().unwrap().value.to_value());
                said("")
            }
        });
        assert_eq!(outcome.step("l").unwrap().status, StepStatus::Completed, "{each}");
        assert_eq!(Value::Array(items), wanted, "{each}");
    }
}

#[test]
fn what_is_no_list_fails_the_loop() {
    for (result, wanted) in [(json!({"x": 5}), "want list"), (json!({}), "no such key")] {
        let workflow = document(
            "name: w\nsteps:\n  - {id: a}\n  - {id: l, dependsOn: [a], loop: {forEach: steps.a.result.x}}\n",
        );
        let (outcome, _) = Sim::new(workflow).run(&mut |_, _| submitted("", result.clone()));
        let error = outcome.step("l").unwrap().error.clone().unwrap();
        assert_eq!(error.class, StepErrorClass::Expression);
        assert!(
            error.message.contains("`loop.forEach`") && error.message.contains(wanted),
            "{}",
            error.message
        );
    }
}

#[test]
fn every_item_s_result_is_kept_with_its_digits() {
    let workflow = document("name: w\nsteps:\n  - {id: l, loop: {forEach: [a, {b: 1.50}]}}\n");
    let mut sim = Sim::new(workflow);
    // The other way round: the order is that of the items.
    sim.complete(
        "run/l[1]@1",
        tenon_flow::StepOutcome::Completed(tenon_flow::StepOutput {
            result: Some(
                serde_json::from_str("{\"n\":1.00, \"big\":123456789012345678901234567890}").unwrap(),
            ),
            ..crate::sim::output("two")
        }),
    );
    sim.ok("run/l[0]@1", "one");
    let record = sim.outcome().step("l").unwrap();
    assert_eq!(record.content, "two");
    let text = record.result.as_ref().unwrap().as_str();
    assert_eq!(
        text,
        "{\"iterations\":[{\"id\":\"l[0]\",\"index\":0,\"item\":\"a\",\"content\":\"one\",\"status\":\"completed\"},\
         {\"id\":\"l[1]\",\"index\":1,\"item\":{\"b\":1.50},\"content\":\"two\",\"status\":\"completed\",\
         \"result\":{\"n\":1.00, \"big\":123456789012345678901234567890}}]}"
    );
}

#[test]
fn so_many_items_at_a_time() {
    for (cap, wanted) in
        [("", 100), (", maxConcurrency: 7", 7), (", maxConcurrency: 1000", 100), (", maxConcurrency: 0", 100)]
    {
        let list: Vec<String> = (0..150).map(|n| n.to_string()).collect();
        let workflow = document(&format!(
            "name: w\noptions: {{maxConcurrency: 1}}\nsteps:\n  - {{id: l, loop: {{forEach: [{}]{cap}}}}}\n",
            list.join(",")
        ));
        let mut sim = Sim::new(workflow);
        assert_eq!(sim.running().len(), wanted, "{cap}");
        sim.ok("run/l[3]@1", "");
        assert_eq!(sim.running().len(), wanted, "{cap}");
        assert_eq!(sim.running().last().unwrap(), &format!("run/l[{wanted}]@1"));
        let started = sim.notices.iter().find_map(|notice| match notice {
            Notice::Started(started) => Some(started.kind.clone()),
            _ => None,
        });
        assert_eq!(started, Some(StepKind::ForEach { items: 150 }));
        assert!(sim.notices.iter().any(|notice| matches!(notice, Notice::Progress { done: 1, of: 150, .. })));
    }
}

#[test]
fn after_a_failure_those_that_run_finish_and_no_other_starts() {
    let mut sim = Sim::new(document(
        "name: w\nsteps:\n  - {id: l, loop: {forEach: [a, b, c, d], maxConcurrency: 2}}\n",
    ));
    sim.fail("run/l[1]@1", StepErrorClass::Refused);
    assert_eq!(sim.running(), ["run/l[0]@1"]);
    sim.ok("run/l[0]@1", "fine");
    let record = sim.outcome().step("l").unwrap();
    let error = record.error.as_ref().unwrap();
    assert_eq!((record.status, error.class), (StepStatus::Failed, StepErrorClass::Refused));
    assert_eq!(error.message, "l[1]: it did not work");
    assert_eq!(record.content, "fine");
    let items = iterations(record);
    let statuses: Vec<&str> =
        items.as_array().unwrap().iter().map(|item| item["status"].as_str().unwrap()).collect();
    assert_eq!(statuses, ["completed", "failed", "cancelled", "cancelled"]);
}

#[test]
fn no_money_for_one_item_is_no_money_for_the_run() {
    let workflow = document("name: w\nsteps:\n  - {id: l, loop: {forEach: [a, b]}}\n");
    let (outcome, _) = Sim::new(workflow).run(&mut |key, _| match key.step_id().as_str() {
        "l[0]" => failed(StepErrorClass::Tool, "broken"),
        _ => failed(StepErrorClass::Budget, "used up"),
    });
    assert_eq!(outcome.status, tenon_flow::WorkflowStatus::BudgetExceeded);
}

#[test]
fn errors_of_several_items_are_joined() {
    let workflow = document("name: w\nsteps:\n  - {id: l, loop: {forEach: [a, b]}}\n");
    let (outcome, _) = Sim::new(workflow).run(&mut |key, _| match key.step_id().as_str() {
        "l[0]" => failed(StepErrorClass::Auth, "no key"),
        _ => failed(StepErrorClass::Refused, "will not"),
    });
    let error = outcome.step("l").unwrap().error.clone().unwrap();
    assert_eq!(
        (error.class, error.message.as_str()),
        (StepErrorClass::Items, "l[0]: no key\nl[1]: will not")
    );
}

/// F3: all inner steps see the item, in their prompt and in expressions.
#[test]
fn inner_steps_see_the_item_and_what_the_loop_depends_on() {
    let workflow = document(
        "name: w\nsteps:\n  - {id: plan}\n  - id: l\n    dependsOn: [plan]\n    loop:\n      forEach: steps.plan.result.tasks\n      steps:\n        \
         - {id: do, instructions: 'Do ${{ item.name }} as number ${{ index }} of ${{ size(steps.plan.result.tasks) }}'}\n        \
         - {id: check, dependsOn: [do], condition: item.check}\n",
    );
    let tasks = json!({"tasks": [{"name": "x", "check": true}, {"name": "y", "check": false}]});
    let mut asked = Vec::new();
    let (outcome, _) = Sim::new(workflow).run(&mut |key, request| {
        if key.step_id() == "plan" {
            return submitted("", tasks.clone());
        }
        assert_eq!(request.outer[0].id, "plan");
        asked.push((
            request.step_id.clone(),
            request.item.as_ref().unwrap().index,
            request.instructions.clone(),
        ));
        said("")
    });
    assert_eq!(statuses(&outcome), ["plan: completed", "l: completed"]);
    let text = |text: &str| text.to_owned();
    assert_eq!(
        asked,
        [
            (text("l[0].do"), 0, text("Do x as number 0 of 2")),
            (text("l[1].do"), 1, text("Do y as number 1 of 2")),
            (text("l[0].check"), 0, text("")),
        ]
    );
}

#[test]
fn cumulative_output_is_that_of_all_items() {
    let workflow =
        document("name: w\nsteps:\n  - {id: l, loop: {forEach: [a, b], outputMode: cumulative}}\n");
    let (outcome, _) = Sim::new(workflow).run(&mut |key, _| said(&format!("of {}", key.step_id())));
    let record = outcome.step("l").unwrap();
    assert_eq!(
        (record.content.as_str(), record.shown),
        ("## Item 1\nof l[0]\n\n## Item 2\nof l[1]", Shown::Whole)
    );
}

/// As a failed include does.
#[test]
fn a_failed_item_keeps_what_its_steps_did() {
    let yaml = "name: w\nsteps:\n  - {id: l, loop: {forEach: [1], steps: [{id: a}, {id: b}]}}\n";
    let (outcome, _) = Sim::new(document(yaml)).run(&mut |key, _| match key.step_id().ends_with(".a") {
        true => submitted("did a", json!({"n": 1})),
        false => failed(StepErrorClass::Auth, "no"),
    });
    let record = outcome.step("l").unwrap();
    let item = &record.result.as_ref().unwrap().to_value()["iterations"][0];
    let wanted = json!({"id": "l[0]", "index": 0, "item": 1, "content": "did a", "status": "failed", "result": {"n": 1}});
    assert_eq!((item, record.content.as_str()), (&wanted, ""));
}

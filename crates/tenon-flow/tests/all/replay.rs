//! The interpreter is a fold: the same completions in the same order give the same state and the same requests, from
//! any point on. This is what a journal relies on.

use std::sync::Arc;

use proptest::prelude::*;
use serde_json::json;
use tenon_core::Timestamp;
use tenon_flow::{
    Action, Completion, Interpreter, JsonText, LoadedWorkflow, Purpose, RunSpec, StepErrorClass, StepKey,
    StepOutcome, StepOutput, StepRequest, Stopped, WorkflowStatus,
};
use tenon_testkit::cases;

use crate::documents::document_with;
use crate::sim::{Sim, failed, said, submitted};

/// Everything a document can do, in one.
fn everything() -> Arc<LoadedWorkflow> {
    document_with(
        &[("inc.yaml", "name: inc\nsteps:\n  - {id: a}\n  - {id: b, dependsOn: [a]}\n")],
        "name: everything
options: {maxConcurrency: 3, timeout: 1h, stepTimeout: 5m, onStepFailure: skip-dependents, scheduler: least-busy}
agents:
  x: {description: X}
  j: {description: J, resultSchema: {type: object, required: [done], properties: {done: {type: boolean}}}}
steps:
  - {id: plan, agent: x, retries: 1}
  - {id: flaky, agent: x, retries: 2, timeout: 10s}
  - {id: maybe, dependsOn: [plan], condition: steps.plan.result.n > 2}
  - id: each
    dependsOn: [plan]
    retries: 1
    loop:
      forEach: 'steps.plan.result.items.filter(i, i > 1)'
      maxConcurrency: 2
      steps:
        - {id: do, instructions: 'Item ${{ item }} of ${{ steps.plan.result }}'}
        - {id: check, dependsOn: [do], condition: index < 2}
        - {id: inner, include: inc.yaml}
  - id: refine
    dependsOn: [flaky]
    timeout: 20m
    loop: {maxIterations: 3, delay: 1s, until: 'result.n == 1', untilAgent: j, outputMode: cumulative}
  - {id: inc, include: inc.yaml, dependsOn: [maybe], retries: 1}
  - {id: end, dependsOn: [each, refine, inc]}
outputs: {n: steps.plan.result.n, all: steps.each.result, text: steps.end.content}
",
    )
}

/// One of the things that can happen to what is under way.
fn happens(sim: &Sim, key: &StepKey, request: &StepRequest, choice: u32) -> StepOutcome {
    let result = json!({"n": choice % 4, "items": [3, 1, 2, 0, 5], "done": choice.is_multiple_of(3)});
    match request {
        _ if sim.cancelled.contains(key) && choice.is_multiple_of(2) => {
            StepOutcome::Cancelled(StepOutput::default())
        }
        StepRequest::Sleep { .. } => StepOutcome::Elapsed,
        StepRequest::Agent(request)
            if matches!(request.purpose, Purpose::Judge { .. }) && choice.is_multiple_of(5) =>
        {
            failed(StepErrorClass::Contract, "no verdict")
        }
        StepRequest::Agent(_) | StepRequest::SubWorkflow(_) | StepRequest::Approval(_) => match choice % 8 {
            0 => failed(StepErrorClass::Tool, "a tool broke"),
            1 => failed(StepErrorClass::Overloaded, "busy"),
            2 => said("only text"),
            _ => submitted("text", result),
        },
    }
}

/// Limits run out seldom, or nothing else would happen.
fn something_happens(sim: &mut Sim, index: prop::sample::Index, choice: u32, patience: u32) {
    let likely = |(key, _): &&(StepKey, StepRequest)| !is_timeout(key) || choice % 41 < patience / 8;
    let candidates: Vec<(StepKey, StepRequest)> = sim.pending.iter().filter(likely).cloned().collect();
    let candidates = if candidates.is_empty() { sim.pending.clone() } else { candidates };
    assert!(!candidates.is_empty(), "nothing is under way, and the run is not over");
    let (key, request) = &candidates[index.index(candidates.len())];
    let outcome = happens(sim, key, request, choice);
    sim.complete(&key.to_string(), outcome);
}

fn is_timeout(key: &StepKey) -> bool {
    let text = key.to_string();
    text.ends_with("timeout") || text.ends_with("limit")
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(cases(48)))]

    #[test]
    fn any_prefix_replays_to_the_same_state_and_the_same_requests(
        choices in prop::collection::vec((any::<prop::sample::Index>(), any::<u32>()), 400),
        patience in 0_u32..40,
    ) {
        let spec = RunSpec::new(everything(), "run", JsonText::of(&json!({})));
        let mut sim = Sim::with(spec.clone());
        let mut states = vec![format!("{:?}", sim.interpreter)];
        let mut journal: Vec<String> = Vec::new();
        for (index, choice) in &choices {
            if sim.interpreter.outcome().is_some() {
                break;
            }
            something_happens(&mut sim, *index, *choice, patience);
            states.push(format!("{:?}", sim.interpreter));
            // As a journal keeps it.
            journal.push(serde_json::to_string(sim.completions.last().unwrap()).unwrap());
        }
        prop_assert!(sim.interpreter.outcome().is_some(), "not over after {} completions", choices.len());

        // The whole history again, from its text.
        let mut again = Interpreter::new(spec);
        let mut requests: Vec<(StepKey, StepRequest)> = Vec::new();
        let collect = |actions: Vec<Action>, requests: &mut Vec<(StepKey, StepRequest)>| {
            for action in actions {
                if let Action::Start { key, request } = action {
                    let stored = serde_json::to_string(&request).unwrap();
                    assert_eq!(serde_json::from_str::<StepRequest>(&stored).unwrap(), request);
                    requests.push((key, request));
                }
            }
        };
        collect(again.begin(Timestamp(1_000)), &mut requests);
        prop_assert_eq!(&format!("{again:?}"), &states[0]);
        for (line, state) in journal.iter().zip(&states[1..]) {
            let completion: Completion = serde_json::from_str(line).unwrap();
            collect(again.complete(&completion), &mut requests);
            prop_assert_eq!(&format!("{again:?}"), state);
        }
        prop_assert_eq!(again.outcome(), sim.interpreter.outcome());
        let keys: Vec<String> = requests.iter().map(|(key, _)| key.to_string()).collect();
        prop_assert_eq!(keys, sim.started);

        // What is told twice, or by somebody who does not belong here, changes nothing.
        let strange = ["run/nobody@1", "run/each[99]/do@1", "other/plan@1", "run/refine#77@1", "run@1"];
        for key in strange.iter().map(|key| key.parse().unwrap()).chain(sim.completions.iter().map(|it| it.key.clone())) {
            let completion = Completion { key, at: Timestamp(9_999_999), outcome: said("again") };
            prop_assert_eq!(again.complete(&completion), vec![]);
        }
        prop_assert_eq!(again.outcome(), sim.interpreter.outcome());
    }

    #[test]
    fn a_run_can_be_stopped_at_any_point(
        choices in prop::collection::vec((any::<prop::sample::Index>(), any::<u32>()), 400),
        before in 0_usize..60,
    ) {
        let mut sim = Sim::with(RunSpec::new(everything(), "run", JsonText::of(&json!({}))));
        let mut choices = choices.into_iter();
        for (index, choice) in choices.by_ref().take(before) {
            if sim.interpreter.outcome().is_some() {
                return Ok(());
            }
            something_happens(&mut sim, index, choice, 0);
        }
        if sim.interpreter.outcome().is_some() {
            return Ok(());
        }
        let started = sim.started.clone();
        let actions = sim.interpreter.stop(&Stopped::Cancelled, Timestamp(sim.clock));
        sim.perform(actions);
        // Everything but timers was told to stop.
        for (key, request) in &sim.pending {
            let told = sim.cancelled.contains(key) || matches!(request, StepRequest::Sleep { .. });
            prop_assert!(told, "{key} was not told to stop");
        }
        let mut abandoned = sim.clone();
        for (index, choice) in choices {
            if sim.interpreter.outcome().is_some() {
                break;
            }
            something_happens(&mut sim, index, choice, 40);
        }
        prop_assert!(sim.interpreter.outcome().is_some(), "it never ends");
        prop_assert_eq!(&sim.started, &started, "something was started after the end");
        let actions = abandoned.interpreter.abandon(Timestamp(sim.clock));
        abandoned.perform(actions);
        prop_assert_eq!(abandoned.outcome().status, WorkflowStatus::Cancelled);
        prop_assert_eq!(&abandoned.started, &started);
    }
}

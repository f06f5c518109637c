//! Scheduling, over every order in which steps can be over: exhaustive for small graphs, random for larger ones.
//!
//! The model is deterministic: what a step says is made of what it was shown. So whatever the order, the records must
//! be those of the oracle, which knows nothing of time.

use std::collections::BTreeMap;
use std::sync::Arc;

use proptest::prelude::*;
use tenon_flow::{
    NotRun, OnStepFailure, Options, Scheduler, StepErrorClass, StepKey, StepOutcome, StepRecord, StepRequest,
    StepStatus, WorkflowStatus,
};
use tenon_testkit::cases;

use crate::graphs::{self, Shape, id};
use crate::sim::{Sim, failed, said};

/// Every graph of up to four steps, of up to five in the second tier (`PROPTEST_CASES=5`).
#[test]
fn every_order_of_every_small_graph_gives_the_same_results() {
    let largest = cases(4).min(5) as usize;
    let mut orders = 0_u64;
    for count in 1..=largest {
        for edges in graphs::all(count) {
            for edges in [graphs::reversed(&edges), edges] {
                for failing in 0..1_u32 << count {
                    for strategy in strategies(failing) {
                        for cap in [1, 2, 5] {
                            let shape = Shape {
                                edges: edges.clone(),
                                options: Options {
                                    max_concurrency: Some(cap),
                                    on_step_failure: *strategy,
                                    ..Options::default()
                                },
                                ..Shape::default()
                            };
                            orders += Exploration::new(&shape, failing).everything();
                        }
                    }
                }
            }
        }
    }
    // A change that makes the search find nothing would pass otherwise.
    let least = [1, 10, 100, 10_000, 400_000];
    assert!(orders >= least[largest - 1], "only {orders} orders");
}

/// Without a failure they are all the same.
fn strategies(failing: u32) -> &'static [OnStepFailure] {
    match failing {
        0 => &[OnStepFailure::Cascade],
        _ => &[OnStepFailure::Cascade, OnStepFailure::SkipDependents, OnStepFailure::Abort],
    }
}

struct Exploration<'a> {
    shape: &'a Shape,
    failing: u32,
    wanted: Option<BTreeMap<String, Wanted>>,
}

#[derive(Debug, PartialEq)]
struct Wanted {
    status: StepStatus,
    content: String,
}

impl<'a> Exploration<'a> {
    fn new(shape: &'a Shape, failing: u32) -> Exploration<'a> {
        let wanted = match shape.options.on_step_failure {
            // Who was still running when the first failure came depends on the order.
            OnStepFailure::Abort if failing != 0 => None,
            _ => Some(oracle(shape, failing)),
        };
        Exploration { shape, failing, wanted }
    }

    /// How many orders there are.
    fn everything(&self) -> u64 {
        self.explore(Sim::new(graphs::loaded(self.shape)))
    }

    fn explore(&self, sim: Sim) -> u64 {
        self.check_running(&sim);
        if sim.interpreter.outcome().is_some() {
            self.check_end(&sim);
            return 1;
        }
        assert!(!sim.pending.is_empty(), "a deadlock in {:?} after {:?}", self.shape, sim.started);
        let keys: Vec<StepKey> = sim.pending.iter().map(|(key, _)| key.clone()).collect();
        keys.iter()
            .map(|key| {
                let mut next = sim.clone();
                let outcome = self.answer(&next, key);
                next.complete(&key.to_string(), outcome);
                self.explore(next)
            })
            .sum()
    }

    fn answer(&self, sim: &Sim, key: &StepKey) -> StepOutcome {
        if sim.cancelled.contains(key) {
            return StepOutcome::Cancelled(tenon_flow::StepOutput::default());
        }
        let number = number_of(key);
        if self.failing >> number & 1 == 1 {
            return failed(StepErrorClass::Auth, "no");
        }
        let Some((_, StepRequest::Agent(request))) = sim.pending.iter().find(|(pending, _)| pending == key)
        else {
            panic!("{key} is no agent");
        };
        let shown: Vec<(&str, &str)> =
            request.upstream.iter().map(|it| (it.id.as_str(), it.record.content.as_str())).collect();
        said(&speak(number, &shown))
    }

    /// Never more than allowed, never before a dependency is over.
    fn check_running(&self, sim: &Sim) {
        let cap = self.shape.options.max_concurrency.unwrap_or(5) as usize;
        assert!(sim.pending.len() <= cap, "{:?} run at once in {:?}", sim.running(), self.shape);
        for (key, _) in &sim.pending {
            for dependency in &self.shape.edges[number_of(key)] {
                let over = sim.completions.iter().any(|completion| number_of(&completion.key) == *dependency);
                let not_run = sim.notices.iter().any(|notice| {
                    matches!(notice, tenon_flow::Notice::NotRun { key, why: NotRun::ConditionFalse, .. }
                        if number_of(key) == *dependency)
                });
                assert!(over || not_run, "{key} started before s{dependency} was over in {:?}", self.shape);
            }
        }
    }

    fn check_end(&self, sim: &Sim) {
        let outcome = sim.outcome();
        assert!(sim.pending.is_empty(), "{:?} still run", sim.running());
        let found: BTreeMap<String, Wanted> = outcome
            .steps
            .iter()
            .map(|(id, record)| {
                (id.clone(), Wanted { status: record.status, content: record.content.clone() })
            })
            .collect();
        if let Some(wanted) = &self.wanted {
            assert_eq!(
                &found, wanted,
                "in {:?}, {:b} failing, after {:?}",
                self.shape, self.failing, sim.started
            );
        }
        let any = |status| found.values().any(|step| step.status == status);
        let broken = any(StepStatus::Failed) || any(StepStatus::Cancelled);
        let status = match (broken, any(StepStatus::Completed)) {
            (false, _) => WorkflowStatus::Completed,
            (true, true) => WorkflowStatus::Partial,
            (true, false) => WorkflowStatus::Failed,
        };
        assert_eq!(outcome.status, status);
        // Abort: nothing was started after the first failure was known.
        if self.wanted.is_none() {
            assert!(any(StepStatus::Failed));
            let known =
                sim.completions.iter().position(|it| matches!(it.outcome, StepOutcome::Failed { .. }));
            let after = &sim.completions[known.expect("a failure") + 1..];
            for completion in after {
                assert!(sim.cancelled.contains(&completion.key), "{} was not told to stop", completion.key);
            }
        }
    }
}

/// What a step says, made of what it was shown.
fn speak(number: usize, shown: &[(&str, &str)]) -> String {
    let parts: Vec<String> = shown.iter().map(|(id, content)| format!("{id}={content}")).collect();
    format!("s{number}({})", parts.join(","))
}

fn number_of(key: &StepKey) -> usize {
    key.segments()[1].id()[1..].parse().expect("a step of a graph")
}

/// What must come out, without a notion of time.
fn oracle(shape: &Shape, failing: u32) -> BTreeMap<String, Wanted> {
    let mut known: BTreeMap<usize, Wanted> = BTreeMap::new();
    while known.len() < shape.edges.len() {
        for (number, needs) in shape.edges.iter().enumerate() {
            if known.contains_key(&number) || !needs.iter().all(|need| known.contains_key(need)) {
                continue;
            }
            let marked =
                |need: &&usize| matches!(known[*need].status, StepStatus::Failed | StepStatus::Cancelled);
            let skipped_for = |need: &&usize| known[*need].content == "skipped for a failure";
            let condition = shape.conditions.get(number).is_none_or(Option::is_none);
            let wanted = if needs.iter().any(|need| marked(&need) || skipped_for(&need)) {
                match shape.options.on_step_failure {
                    OnStepFailure::SkipDependents => {
                        Wanted { status: StepStatus::Skipped, content: "skipped for a failure".to_owned() }
                    }
                    _ => Wanted { status: StepStatus::Cancelled, content: String::new() },
                }
            } else if !condition {
                // The only condition that these tests write is `false`.
                Wanted { status: StepStatus::Skipped, content: String::new() }
            } else if failing >> number & 1 == 1 {
                Wanted { status: StepStatus::Failed, content: String::new() }
            } else {
                let names: Vec<(String, String)> = needs
                    .iter()
                    .filter(|need| known[*need].status == StepStatus::Completed)
                    .map(|need| (id(*need), known[need].content.clone()))
                    .collect();
                let shown: Vec<(&str, &str)> =
                    names.iter().map(|(id, it)| (id.as_str(), it.as_str())).collect();
                Wanted { status: StepStatus::Completed, content: speak(number, &shown) }
            };
            known.insert(number, wanted);
        }
    }
    known
        .into_iter()
        .map(|(number, wanted)| {
            let content = if wanted.status == StepStatus::Completed { wanted.content } else { String::new() };
            (id(number), Wanted { content, ..wanted })
        })
        .collect()
}

prop_compose! {
    /// A graph in any order of writing, with conditions that are false, agents, a cap and a scheduler.
    fn shapes()(count in 1_usize..14)(
        order in Just((0..count).collect::<Vec<usize>>()).prop_shuffle(),
        bits in prop::collection::vec(prop::bool::weighted(0.3), count * count),
        skipped in prop::collection::vec(prop::bool::weighted(0.15), count),
        agents in prop::collection::vec(0_usize..3, count),
        cap in prop::option::of(1_u32..7),
        scheduler in prop::sample::select(vec![
            Scheduler::DependencyFirst, Scheduler::RoundRobin, Scheduler::LeastBusy,
        ]),
        on_step_failure in prop::sample::select(vec![
            OnStepFailure::Cascade, OnStepFailure::SkipDependents, OnStepFailure::Abort,
        ]),
    ) -> Shape {
        let count = order.len();
        let mut edges = vec![Vec::new(); count];
        for to in 0..count {
            for from in 0..to {
                if bits[to * count + from] {
                    edges[order[to]].push(order[from]);
                }
            }
        }
        let conditions = skipped.iter().map(|skip| skip.then(|| "false".to_owned())).collect();
        let options = Options { max_concurrency: cap, scheduler, on_step_failure, ..Options::default() };
        Shape { edges, agents, conditions, retries: 0, options }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(cases(256)))]

    #[test]
    fn any_order_of_a_larger_graph_gives_the_same_results(
        shape in shapes(),
        failing in prop::bits::u32::sampled(0..3, 0..14),
        choices in prop::collection::vec(any::<prop::sample::Index>(), 14),
    ) {
        let exploration = Exploration::new(&shape, failing);
        // A step that never runs cannot fail, so the run may complete although a bit is set.
        let fails = shape.options.on_step_failure == OnStepFailure::Abort;
        let mut sim = Sim::new(graphs::loaded(&shape));
        for choice in &choices {
            exploration.check_running(&sim);
            if sim.interpreter.outcome().is_some() {
                break;
            }
            prop_assert!(!sim.pending.is_empty(), "a deadlock after {:?}", sim.started);
            let key = sim.pending[choice.index(sim.pending.len())].0.clone();
            let outcome = exploration.answer(&sim, &key);
            sim.complete(&key.to_string(), outcome);
        }
        let failed = sim.outcome().steps.iter().any(|(_, record): &(String, Arc<StepRecord>)| {
            record.status == StepStatus::Failed
        });
        if failed || !fails {
            exploration.check_end(&sim);
        }
    }
}

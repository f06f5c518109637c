//! Which steps start, and in which order.

use tenon_flow::{JsonText, Notice, RunLimits, RunSpec, Started, StepKind};

use crate::documents::document;
use crate::sim::Sim;

fn agents() -> &'static str {
    "agents:\n  x: {description: X}\n  y: {description: Y}\n  z: {description: Z}\n"
}

#[test]
fn five_steps_run_at_a_time_unless_somebody_says_otherwise() {
    let steps: String = (0..9).map(|n| format!("  - {{id: s{n}}}\n")).collect();
    let table =
        [("", None, 5), ("", Some(3), 3), ("options: {maxConcurrency: 2}\n", Some(7), 2), ("", Some(0), 5)];
    for (options, caller, wanted) in table {
        let workflow = document(&format!("name: w\n{options}steps:\n{steps}"));
        let spec = RunSpec {
            limits: RunLimits { max_concurrency: caller, ..RunLimits::default() },
            ..RunSpec::new(workflow, "run", JsonText::of(&serde_json::json!({})))
        };
        let mut sim = Sim::with(spec);
        assert_eq!(sim.running().len(), wanted);
        // One is over, the next in the order of writing begins.
        sim.ok("run/s0@1", "");
        assert_eq!(sim.running().last().unwrap(), &format!("run/s{wanted}@1"));
    }
}

/// Six steps that are ready at once: the agents `x x x y y z`.
fn order_of_starts(scheduler: &str, cap: u32) -> Vec<String> {
    let steps: String = ["x1", "x2", "x3", "y1", "y2", "z1"]
        .map(|id| format!("  - {{id: {id}, agent: {}}}\n", &id[..1]))
        .concat();
    let workflow = document(&format!(
        "name: w\n{}options: {{maxConcurrency: {cap}, scheduler: {scheduler}}}\nsteps:\n{steps}",
        agents()
    ));
    let (_, sim) = Sim::new(workflow).run(&mut |_, _| crate::sim::said(""));
    sim.started.iter().map(|key| key["run/".len().."run/".len() + 2].to_owned()).collect()
}

#[test]
fn the_three_schedulers() {
    let written = ["x1", "x2", "x3", "y1", "y2", "z1"];
    let in_turns = ["x1", "y1", "z1", "x2", "y2", "x3"];
    for cap in [1, 2, 6] {
        assert_eq!(order_of_starts("dependency-first", cap), written);
        assert_eq!(order_of_starts("round-robin", cap), in_turns);
    }
    // Nobody is busy when steps run one by one; with room for all, each agent gets one first.
    assert_eq!(order_of_starts("least-busy", 1), written);
    assert_eq!(order_of_starts("least-busy", 6), in_turns);
    // x1 and y1 run; when x1 is over x is idle, and so on.
    assert_eq!(order_of_starts("least-busy", 2), ["x1", "y1", "x2", "y2", "x3", "z1"].map(String::from));
}

#[test]
fn a_step_is_shown_its_direct_dependencies_that_completed_in_the_order_it_names_them() {
    let mut sim = Sim::new(document(
        "name: w\nsteps:\n  - {id: a}\n  - {id: b, dependsOn: [a]}\n  - {id: c, condition: 'false'}\n  \
         - {id: d, dependsOn: [c, b]}\n  - {id: e, dependsOn: [d, a]}\n",
    ));
    sim.ok("run/a@1", "A");
    sim.ok("run/b@1", "B");
    let shown: Vec<&str> = sim.request("run/d@1").upstream.iter().map(|it| it.id.as_str()).collect();
    assert_eq!(shown, ["b"]);
    sim.ok("run/d@1", "D");
    let shown: Vec<(&str, &str)> = sim
        .request("run/e@1")
        .upstream
        .iter()
        .map(|it| (it.id.as_str(), it.record.content.as_str()))
        .collect();
    assert_eq!(shown, [("d", "D"), ("a", "A")]);
}

#[test]
fn a_request_says_everything_that_the_document_says_about_the_step() {
    let sim = Sim::with(RunSpec::new(
        document(
            "name: w\nagents: {x: {description: X, model: small}}\n\
             inputs: {type: object, properties: {who: {type: string}}}\n\
             options: {isolation: worktree, maxRetries: 4}\nsteps:\n  \
             - {id: a, agent: x, model: large, instructions: 'Greet ${{ inputs.who }}.', contextFiles: [a.txt]}\n  \
             - {id: b, agent: x, maxRetries: 1}\n  - {id: c}\n",
        ),
        "run_1",
        JsonText::of(&serde_json::json!({"who": "Ada"})),
    ));
    let request = sim.request("run_1/a@1");
    assert_eq!(request.step_id, "a");
    assert_eq!(request.agent.name.as_deref(), Some("x"));
    assert_eq!(request.instructions, "Greet Ada.");
    assert_eq!(request.model.named(), Some("large"));
    assert_eq!(request.context_files, ["a.txt"]);
    assert_eq!(request.isolation.as_deref(), Some("worktree"));
    assert_eq!((request.transport_retries, request.attempt), (Some(4), 1));
    let request = sim.request("run_1/b@1");
    assert_eq!((request.model.named(), request.transport_retries), (Some("small"), Some(1)));
    let request = sim.request("run_1/c@1");
    assert_eq!((request.model.named(), request.agent.name.as_deref()), (None, None));
}

#[test]
fn starts_are_told_with_their_place_in_the_order_of_dependencies() {
    let sim = Sim::new(document("name: w\nsteps:\n  - {id: last, dependsOn: [first]}\n  - {id: first}\n"));
    let started = |notice: &Notice| match notice {
        Notice::Started(Started { key, kind, position, of, .. }) => {
            Some((key.step_id(), kind.clone(), *position, *of))
        }
        _ => None,
    };
    let told: Vec<_> = sim.notices.iter().filter_map(started).collect();
    assert_eq!(told, [("first".to_owned(), StepKind::Agent, 0, 2)]);
}

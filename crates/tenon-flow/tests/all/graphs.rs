//! Workflows made of a graph and nothing else, for tests over many of them.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use tenon_flow::{
    AgentSpec, Expression, LoadedAgent, LoadedStep, LoadedWorkflow, Options, Step, StepBody, Template,
    Workflow,
};

/// `edges[i]` are the steps that step `i` depends on, by number.
#[derive(Clone, Debug, Default)]
pub struct Shape {
    pub edges: Vec<Vec<usize>>,
    /// Which of how many agents does each step.
    pub agents: Vec<usize>,
    /// A condition on the status of a step's dependencies.
    pub conditions: Vec<Option<String>>,
    pub retries: u32,
    pub options: Options,
}

pub fn id(step: usize) -> String {
    format!("s{step}")
}

pub fn loaded(shape: &Shape) -> Arc<LoadedWorkflow> {
    let count = shape.edges.len();
    let ids: Vec<String> = (0..count).map(id).collect();
    let names: Vec<&str> = ids.iter().map(String::as_str).collect();
    let agents: BTreeMap<String, Arc<LoadedAgent>> = (0..3)
        .map(|number| {
            let name = format!("agent{number}");
            (name.clone(), Arc::new(LoadedAgent { name, spec: AgentSpec::default(), result: None }))
        })
        .collect();
    let steps = (0..count)
        .map(|number| {
            let condition = shape.conditions.get(number).cloned().flatten();
            let spec = Step {
                id: id(number),
                depends_on: shape.edges[number].iter().map(|dependency| id(*dependency)).collect(),
                condition: condition.clone(),
                retries: shape.retries,
                ..Step::default()
            };
            LoadedStep {
                id: id(number),
                agent: shape.agents.get(number).map(|agent| agents[&format!("agent{agent}")].clone()),
                instructions: Template::compile("do it", &names).unwrap(),
                depends_on: shape.edges[number].clone(),
                condition: condition.map(|text| Expression::compile(&text, names.iter().copied()).unwrap()),
                body: StepBody::Agent,
                spec,
            }
        })
        .collect();
    Arc::new(LoadedWorkflow {
        workflow: Workflow {
            name: "graph".to_owned(),
            options: shape.options.clone(),
            ..Workflow::default()
        },
        file: PathBuf::new(),
        folder: PathBuf::new(),
        agents,
        steps,
        order: (0..count).collect(),
        inputs: None,
        outputs: Vec::new(),
        warnings: Vec::new(),
        hash: String::new(),
        pinned: Arc::default(),
    })
}

/// All graphs of `count` steps in which a step depends only on earlier ones, one of each shape.
pub fn all(count: usize) -> Vec<Vec<Vec<usize>>> {
    let pairs: Vec<(usize, usize)> = (0..count).flat_map(|to| (0..to).map(move |from| (from, to))).collect();
    let mut seen = std::collections::BTreeSet::new();
    let orders = permutations(count);
    let mut graphs = Vec::new();
    for mask in 0..1_u32 << pairs.len() {
        let chosen: Vec<(usize, usize)> =
            pairs.iter().enumerate().filter(|(bit, _)| mask >> bit & 1 == 1).map(|(_, pair)| *pair).collect();
        let canonical = orders
            .iter()
            .map(|order| {
                let mut renamed: Vec<(usize, usize)> =
                    chosen.iter().map(|(from, to)| (order[*from], order[*to])).collect();
                renamed.sort_unstable();
                renamed
            })
            .min();
        if seen.insert(canonical) {
            let mut edges = vec![Vec::new(); count];
            chosen.iter().for_each(|(from, to)| edges[*to].push(*from));
            graphs.push(edges);
        }
    }
    graphs
}

/// The same graph, written in the opposite order.
pub fn reversed(edges: &[Vec<usize>]) -> Vec<Vec<usize>> {
    let last = edges.len() - 1;
    edges.iter().rev().map(|needs| needs.iter().map(|step| last - step).collect()).collect()
}

fn permutations(count: usize) -> Vec<Vec<usize>> {
    if count == 0 {
        return vec![Vec::new()];
    }
    let shorter = permutations(count - 1);
    shorter
        .iter()
        .flat_map(|order| {
            (0..count).map(move |at| {
                let mut longer = order.clone();
                longer.insert(at, count - 1);
                longer
            })
        })
        .collect()
}

#[test]
fn there_are_as_many_shapes_as_there_should_be() {
    // The number of acyclic graphs without names.
    assert_eq!([1, 2, 3, 4].map(|count| all(count).len()), [1, 2, 6, 31]);
}

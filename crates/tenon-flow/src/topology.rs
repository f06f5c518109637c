//! The order of steps: each after everything it depends on, ties in the order written.

use crate::document::Step;

/// Indices of `steps` in order (Kahn's algorithm: the queue starts in the order written, and so do the dependants
/// of a step), or the steps that form or follow a cycle, in the order written. Unknown names are ignored here.
pub fn order(steps: &[Step]) -> Result<Vec<usize>, Vec<usize>> {
    let graph = Graph::of(steps);
    let mut waiting: Vec<usize> = graph.before.iter().map(Vec::len).collect();
    let mut order: Vec<usize> = (0..steps.len()).filter(|index| waiting[*index] == 0).collect();
    let mut next = 0;
    while let Some(done) = order.get(next).copied() {
        next += 1;
        for dependant in &graph.after[done] {
            waiting[*dependant] -= 1;
            if waiting[*dependant] == 0 {
                order.push(*dependant);
            }
        }
    }
    if order.len() == steps.len() {
        return Ok(order);
    }
    Err((0..steps.len()).filter(|index| waiting[*index] > 0).collect())
}

/// Who depends on whom, by index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Graph {
    /// What each step depends on directly, in the order of its `dependsOn`, each once.
    pub before: Vec<Vec<usize>>,
    /// What depends on each step directly, in the order written.
    pub after: Vec<Vec<usize>>,
}

impl Graph {
    pub fn of(steps: &[Step]) -> Graph {
        let by_id: std::collections::HashMap<&str, usize> =
            steps.iter().enumerate().rev().map(|(index, step)| (step.id.as_str(), index)).collect();
        let mut before = vec![Vec::new(); steps.len()];
        let mut after = vec![Vec::new(); steps.len()];
        for (index, step) in steps.iter().enumerate() {
            for id in &step.depends_on {
                let Some(found) = by_id.get(id.as_str()) else { continue };
                if !before[index].contains(found) {
                    before[index].push(*found);
                    after[*found].push(index);
                }
            }
        }
        Graph { before, after }
    }

    /// Everything a step depends on, directly or not, by index.
    pub fn ancestors(&self, step: usize) -> Vec<bool> {
        let mut seen = vec![false; self.before.len()];
        let mut open = self.before[step].clone();
        while let Some(index) = open.pop() {
            if !std::mem::replace(&mut seen[index], true) {
                open.extend(&self.before[index]);
            }
        }
        seen
    }

    /// The length of the longest path that leads to each step. The steps must have an order.
    pub fn layers(&self, order: &[usize]) -> Vec<usize> {
        let mut layers = vec![0; self.before.len()];
        for index in order {
            layers[*index] = self.before[*index].iter().map(|before| layers[*before] + 1).max().unwrap_or(0);
        }
        layers
    }
}

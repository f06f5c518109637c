//! A workflow as a picture: boxes for a terminal, Mermaid, SVG, or the graph as JSON.
//!
//! A [`Plan`] is what all of them show; where boxes and lines go is `draw/layout.rs`.

mod boxes;
mod json;
mod layout;
mod mermaid;
mod svg;

use crate::document::{Items, Step, Workflow};
use crate::topology::{self, Graph};

/// The steps of a workflow and what depends on what.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    pub name: String,
    pub steps: Vec<PlanStep>,
    /// From a step to one that depends on it, by index, in the order written.
    pub edges: Vec<(usize, usize)>,
    /// Indices of `steps`, each after everything it depends on.
    pub order: Vec<usize>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlanStep {
    pub id: String,
    pub agent: Option<String>,
    pub kind: PlanKind,
    pub has_condition: bool,
    pub files: usize,
    /// The length of the longest path that leads here.
    pub layer: usize,
    /// Of a loop's body, in the order of their dependencies.
    pub inner: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlanKind {
    Agent,
    Include,
    RepeatUntil,
    ForEach,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Drawing {
    Boxes,
    Mermaid,
    Svg,
    Json,
}

impl Plan {
    /// Steps in a cycle, which no valid document has, are left out.
    pub fn of(workflow: &Workflow) -> Plan {
        let steps = &workflow.steps;
        let graph = Graph::of(steps);
        let order = topology::order(steps).unwrap_or_default();
        let layers = graph.layers(&order);
        let edges =
            graph.after.iter().enumerate().flat_map(|(from, after)| after.iter().map(move |to| (from, *to)));
        Plan {
            name: workflow.name.clone(),
            steps: steps.iter().zip(&layers).map(|(step, layer)| plan_step(step, *layer)).collect(),
            edges: edges.collect(),
            order,
        }
    }

    pub fn draw(&self, drawing: Drawing) -> String {
        match drawing {
            Drawing::Boxes => boxes::draw(self),
            Drawing::Mermaid => mermaid::draw(self),
            Drawing::Svg => svg::draw(self),
            Drawing::Json => json::draw(self),
        }
    }

    fn title(&self) -> String {
        let plural = if self.steps.len() == 1 { "" } else { "s" };
        format!("{} ({} step{plural})", self.name, self.steps.len())
    }
}

fn plan_step(step: &Step, layer: usize) -> PlanStep {
    let kind = match (&step.include, &step.repeat) {
        (Some(_), _) => PlanKind::Include,
        (None, Some(it)) if matches!(it.for_each, Some(Items::Expression(_) | Items::List(_))) => {
            PlanKind::ForEach
        }
        (None, Some(_)) => PlanKind::RepeatUntil,
        (None, None) => PlanKind::Agent,
    };
    let body: &[Step] = step.repeat.as_ref().map_or(&[], |it| &it.steps);
    let inner =
        topology::order(body).unwrap_or_default().into_iter().map(|index| body[index].id.clone()).collect();
    PlanStep {
        id: step.id.clone(),
        agent: step.agent.clone(),
        kind,
        has_condition: step.condition.is_some(),
        files: step.context_files.len(),
        layer,
        inner,
    }
}

impl PlanStep {
    /// `(agent) [loop] [if] [2 files]`; empty for a plain step.
    fn tags(&self) -> String {
        let mut tags: Vec<String> = self.agent.iter().map(|agent| format!("({agent})")).collect();
        match self.kind {
            PlanKind::Agent => {}
            PlanKind::Include => tags.push("[ref]".to_owned()),
            PlanKind::RepeatUntil => tags.push("[loop]".to_owned()),
            PlanKind::ForEach => tags.push("[each]".to_owned()),
        }
        if self.has_condition {
            tags.push("[if]".to_owned());
        }
        match self.files {
            0 => {}
            1 => tags.push("[1 file]".to_owned()),
            count => tags.push(format!("[{count} files]")),
        }
        tags.join(" ")
    }

    /// What stands in the box, one line each.
    fn lines(&self) -> Vec<String> {
        /// A longer list of inner steps is cut.
        const MAX_INNER: usize = 40;
        let mut lines = vec![self.id.clone()];
        lines.extend(Some(self.tags()).filter(|tags| !tags.is_empty()));
        if !self.inner.is_empty() {
            let mut inner = self.inner.join(", ");
            if let Some((at, _)) = inner.char_indices().nth(MAX_INNER) {
                inner.truncate(at);
                inner.push('…');
            }
            lines.push(format!("of {inner}"));
        }
        lines
    }
}

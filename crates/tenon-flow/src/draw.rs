//! A workflow as a picture: boxes for a terminal, Mermaid, SVG, or the graph as JSON.
//!
//! A [`Plan`] is what all of them show, the bodies of loops and the documents of includes as plans of their own; where boxes
//! and lines go is `draw/layout.rs`.

mod boxes;
mod json;
mod layout;
mod list;
mod literals;
mod mermaid;
mod svg;

use std::collections::{BTreeMap, HashMap};

use crate::document::{Approval, Items, Loop, OnTimeout, Step, Workflow};
use crate::duration;
use crate::load::{LoadedStep, LoadedWorkflow, StepBody};
use crate::topology::{self, Graph};

pub(crate) use svg::Mark;

/// A picture of more steps than this is no picture. Documents that include documents can come to any number.
const MAX_STEPS_DRAWN: usize = 2_000;

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
    /// As written.
    pub condition: Option<String>,
    pub files: usize,
    /// The length of the longest path that leads here.
    pub layer: usize,
    /// How long it may take, as a document writes it.
    pub timeout: Option<String>,
    /// The body of a loop, or the document that is included where it is known and there is room for it.
    pub inner: Option<Box<Plan>>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PlanKind {
    Agent,
    Include {
        path: String,
    },
    RepeatUntil {
        at_most: u32,
        until: Option<String>,
        judge: Option<String>,
    },
    ForEach {
        /// The expression, or the list as JSON.
        items: String,
        at_a_time: Option<u32>,
    },
    Approval {
        /// As written.
        message: String,
        /// As a document writes it.
        timeout: Option<String>,
        /// What counts as the answer then.
        on_timeout: &'static str,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Drawing {
    Boxes,
    Mermaid,
    Svg,
    Json,
}

impl Plan {
    /// Of a document by itself: what it includes is named and not drawn. Steps in a cycle, which no valid document has, are
    /// left out.
    pub fn of(workflow: &Workflow) -> Plan {
        Making { includes: &workflow.includes, room: &mut 0 }.plan(
            workflow.name.clone(),
            &workflow.steps,
            None,
        )
    }

    /// With the documents it includes, wherever they are included, as long as there is room.
    pub fn of_loaded(workflow: &LoadedWorkflow) -> Plan {
        let mut room = MAX_STEPS_DRAWN.saturating_sub(steps_of(workflow));
        included(workflow, &mut room)
    }

    pub fn draw(&self, drawing: Drawing) -> String {
        match drawing {
            Drawing::Boxes => self.draw_within(usize::MAX),
            Drawing::Mermaid => mermaid::draw(self),
            Drawing::Svg => svg::draw(self),
            Drawing::Json => json::draw(self),
        }
    }

    /// The picture of a run, to stand in a page: steps by where they stand, `outer/inner`.
    pub(crate) fn draw_marked(&self, marks: &HashMap<String, Mark>) -> String {
        svg::draw_marked(self, marks)
    }

    /// Boxes where they fit into so many columns, lists where they do not.
    pub fn draw_within(&self, columns: usize) -> String {
        boxes::draw(self, columns)
    }

    fn title(&self) -> String {
        format!("{} ({})", self.name, self.count())
    }

    fn count(&self) -> String {
        let plural = if self.steps.len() == 1 { "" } else { "s" };
        format!("{} step{plural}", self.steps.len())
    }
}

/// Those of its loops among them, and not those that it includes.
fn steps_of(workflow: &LoadedWorkflow) -> usize {
    let inside = |step: &Step| step.repeat.as_ref().map_or(0, |it| it.steps.len());
    workflow.workflow.steps.iter().map(|step| 1 + inside(step)).sum()
}

fn included(workflow: &LoadedWorkflow, room: &mut usize) -> Plan {
    let written = &workflow.workflow;
    let mut making = Making { includes: &written.includes, room };
    making.plan(written.name.clone(), &written.steps, Some(&workflow.steps))
}

/// Plans of one document.
struct Making<'a> {
    includes: &'a BTreeMap<String, String>,
    /// How many more steps can be drawn.
    room: &'a mut usize,
}

impl Making<'_> {
    /// `loaded` are the same steps, where they are.
    fn plan(&mut self, name: String, steps: &[Step], loaded: Option<&[LoadedStep]>) -> Plan {
        let graph = Graph::of(steps);
        let order = topology::order(steps).unwrap_or_default();
        let layers = graph.layers(&order);
        let edges =
            graph.after.iter().enumerate().flat_map(|(from, after)| after.iter().map(move |to| (from, *to)));
        let edges = edges.collect();
        let steps = steps.iter().enumerate().map(|(index, step)| {
            let loaded = loaded.and_then(|loaded| loaded.iter().find(|it| it.id == step.id));
            self.step(step, loaded, layers[index])
        });
        Plan { name, steps: steps.collect(), edges, order }
    }

    fn step(&mut self, step: &Step, loaded: Option<&LoadedStep>, layer: usize) -> PlanStep {
        let (kind, inner) = match (&step.approve, &step.include, &step.repeat) {
            (Some(approval), _, _) => (asked(approval), None),
            (None, Some(name), _) => {
                let path = self.includes.get(name).unwrap_or(name).clone();
                (PlanKind::Include { path }, loaded.and_then(|loaded| self.include(loaded)))
            }
            (None, None, Some(it)) => (kind_of(it), self.body(step, it, loaded)),
            (None, None, None) => (PlanKind::Agent, None),
        };
        PlanStep {
            id: step.id.clone(),
            agent: step.agent.clone(),
            kind,
            condition: step.condition.clone(),
            files: step.context_files.len(),
            layer,
            timeout: step.timeout.map(duration::shown),
            inner: inner.map(Box::new),
        }
    }

    fn include(&mut self, loaded: &LoadedStep) -> Option<Plan> {
        let StepBody::Include(workflow) = &loaded.body else { return None };
        *self.room = self.room.checked_sub(steps_of(workflow))?;
        Some(included(workflow, self.room))
    }

    fn body(&mut self, step: &Step, it: &Loop, loaded: Option<&LoadedStep>) -> Option<Plan> {
        if it.steps.is_empty() {
            return None;
        }
        let loaded = match loaded.map(|loaded| &loaded.body) {
            Some(StepBody::Loop(it)) => Some(it.steps.as_slice()),
            _ => None,
        };
        Some(self.plan(step.id.clone(), &it.steps, loaded))
    }
}

fn asked(approval: &Approval) -> PlanKind {
    PlanKind::Approval {
        message: approval.message.clone(),
        timeout: approval.timeout.map(duration::shown),
        on_timeout: match approval.on_timeout {
            OnTimeout::Deny => "deny",
            OnTimeout::Approve => "approve",
            OnTimeout::Fail => "fail",
        },
    }
}

fn kind_of(it: &Loop) -> PlanKind {
    let items = match &it.for_each {
        Some(Items::Expression(text)) => text.clone(),
        Some(Items::List(values)) => serde_json::Value::from(values.clone()).to_string(),
        None => {
            return PlanKind::RepeatUntil {
                at_most: it.max_iterations.unwrap_or(0),
                until: it.until.clone(),
                judge: it.until_agent.clone(),
            };
        }
    };
    PlanKind::ForEach { items, at_a_time: it.max_concurrency }
}

impl PlanStep {
    /// `(agent) [loop] [if] [2 files]`; empty for a plain step.
    fn tags(&self) -> String {
        let mut tags: Vec<String> = self.agent.iter().map(|agent| format!("({agent})")).collect();
        match self.kind {
            PlanKind::Agent => {}
            PlanKind::Include { .. } => tags.push("[ref]".to_owned()),
            PlanKind::RepeatUntil { .. } => tags.push("[loop]".to_owned()),
            PlanKind::ForEach { .. } => tags.push("[each]".to_owned()),
            PlanKind::Approval { .. } => tags.push("[approve]".to_owned()),
        }
        if self.condition.is_some() {
            tags.push("[if]".to_owned());
        }
        match self.files {
            0 => {}
            1 => tags.push("[1 file]".to_owned()),
            count => tags.push(format!("[{count} files]")),
        }
        tags.join(" ")
    }

    /// The name and the tags, one line each.
    fn lines(&self) -> Vec<String> {
        let tags = Some(self.tags()).filter(|tags| !tags.is_empty());
        std::iter::once(self.id.clone()).chain(tags).collect()
    }

    /// What the tags mean, one line each: conditions, items, rounds, files, as the document writes them.
    fn details(&self) -> Vec<String> {
        let mut details: Vec<String> =
            self.condition.iter().map(|text| format!("if {}", one_line(text))).collect();
        match &self.kind {
            PlanKind::Agent => {}
            PlanKind::Include { path } => details.push(format!("include {path}")),
            PlanKind::RepeatUntil { at_most, until, judge } => {
                details.push(format!("at most {at_most} iteration{}", if *at_most == 1 { "" } else { "s" }));
                details.extend(until.iter().map(|text| format!("until {}", one_line(text))));
                details.extend(judge.iter().map(|agent| format!("until the agent `{agent}` says so")));
            }
            PlanKind::ForEach { items, at_a_time } => {
                details.push(format!("forEach {}", one_line(items)));
                details.extend(at_a_time.iter().map(|count| format!("{count} at a time")));
            }
            PlanKind::Approval { message, timeout, on_timeout } => {
                details.push(format!("asks {}", one_line(message)));
                details.extend(timeout.iter().map(|time| format!("{on_timeout} after {time}")));
            }
        }
        details
    }
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Lines of at most so many characters, all but the first a little to the right.
fn hanging(text: &str, columns: usize) -> Vec<String> {
    const RIGHT: &str = "    ";
    let lines = wrapped(text, columns.saturating_sub(RIGHT.len())).into_iter().enumerate();
    lines.map(|(number, line)| if number == 0 { line } else { format!("{RIGHT}{line}") }).collect()
}

/// Lines of at most so many characters, broken between words where that is possible.
fn wrapped(text: &str, columns: usize) -> Vec<String> {
    let columns = columns.max(1);
    let mut lines = vec![String::new()];
    let mut used = 0;
    for word in text.split(' ') {
        let mut word: Vec<char> = word.chars().collect();
        let gap = usize::from(used > 0);
        if used + gap + word.len() > columns && used > 0 {
            lines.push(String::new());
            used = 0;
        }
        while word.len() > columns {
            let rest = word.split_off(columns);
            if let Some(line) = lines.last_mut() {
                line.extend(word);
            }
            lines.push(String::new());
            word = rest;
        }
        if let Some(line) = lines.last_mut() {
            if used > 0 {
                line.push(' ');
                used += 1;
            }
            used += word.len();
            line.extend(word);
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::wrapped;

    #[test]
    fn lines_break_between_words_and_within_long_ones() {
        let table: [(&str, usize, &[&str]); 6] = [
            ("", 4, &[""]),
            ("a bc def", 4, &["a bc", "def"]),
            ("abcdefghij", 4, &["abcd", "efgh", "ij"]),
            ("ab cdefghij k", 4, &["ab", "cdef", "ghij", "k"]),
            ("a b", 0, &["a", "b"]),
            ("ééé ßß", 3, &["ééé", "ßß"]),
        ];
        for (text, columns, wanted) in table {
            assert_eq!(wrapped(text, columns), wanted, "{text} {columns}");
        }
    }
}

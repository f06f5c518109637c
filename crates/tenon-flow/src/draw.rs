//! A workflow as a picture: boxes for a terminal, Mermaid, SVG, or the graph as JSON.
//!
//! A [`Plan`] is what all of them show, the bodies of loops and the documents of includes as plans of their own; where boxes
//! and lines go is `draw/layout.rs`.

mod boxes;
mod channel;
mod json;
mod layout;
mod list;
mod literals;
mod mermaid;
mod svg;

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};

use tenon_core::{harmless, harmless_line};
use unicode_width::UnicodeWidthChar;

use crate::document::{Approval, Items, Loop, OnTimeout, Step, Workflow};
use crate::duration;
use crate::load::{LoadedStep, LoadedWorkflow, StepBody};
use crate::topology::{self, Graph};

pub(crate) use svg::Mark;

/// A picture of more steps than this is no picture. Documents that include documents can come to any number: those that
/// would make it larger are left out, which every format says.
pub const MAX_STEPS_DRAWN: usize = 2_000;

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
    pub inner: Inner,
}

/// What a step is made of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Inner {
    /// No steps of its own, or a document that nobody has read.
    Nothing,
    /// The body of a loop, or the document that is included.
    Steps(Box<Plan>),
    /// The document that is included has so many steps, and the plan no room for them.
    LeftOut { steps: usize },
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

    /// In one line.
    fn title(&self) -> String {
        let left_out = match self.left_out() {
            0 => String::new(),
            count => format!(", without {}", counted(count, "included document")),
        };
        format!("{} ({}{left_out})", harmless(&one_line(&self.name)), self.count())
    }

    fn count(&self) -> String {
        counted(self.steps.len(), "step")
    }

    /// How many documents are included, here or further inside, and not drawn.
    fn left_out(&self) -> usize {
        let of_step = |step: &PlanStep| match &step.inner {
            Inner::Nothing => 0,
            Inner::Steps(plan) => plan.left_out(),
            Inner::LeftOut { .. } => 1,
        };
        self.steps.iter().map(of_step).sum()
    }
}

impl Inner {
    fn plan(&self) -> Option<&Plan> {
        match self {
            Inner::Steps(plan) => Some(plan),
            Inner::Nothing | Inner::LeftOut { .. } => None,
        }
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
            (Some(approval), _, _) => (asked(approval), Inner::Nothing),
            (None, Some(name), _) => {
                let path = self.includes.get(name).unwrap_or(name).clone();
                (PlanKind::Include { path }, loaded.map_or(Inner::Nothing, |loaded| self.include(loaded)))
            }
            (None, None, Some(it)) => (kind_of(it), self.body(step, it, loaded)),
            (None, None, None) => (PlanKind::Agent, Inner::Nothing),
        };
        PlanStep {
            id: step.id.clone(),
            agent: step.agent.clone(),
            kind,
            condition: step.condition.clone(),
            files: step.context_files.len(),
            layer,
            timeout: step.timeout.map(duration::shown),
            inner,
        }
    }

    fn include(&mut self, loaded: &LoadedStep) -> Inner {
        let StepBody::Include(workflow) = &loaded.body else { return Inner::Nothing };
        let steps = steps_of(workflow);
        let Some(left) = self.room.checked_sub(steps) else { return Inner::LeftOut { steps } };
        *self.room = left;
        Inner::Steps(Box::new(included(workflow, self.room)))
    }

    fn body(&mut self, step: &Step, it: &Loop, loaded: Option<&LoadedStep>) -> Inner {
        if it.steps.is_empty() {
            return Inner::Nothing;
        }
        let loaded = match loaded.map(|loaded| &loaded.body) {
            Some(StepBody::Loop(it)) => Some(it.steps.as_slice()),
            _ => None,
        };
        Inner::Steps(Box::new(self.plan(step.id.clone(), &it.steps, loaded)))
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
        let mut tags: Vec<String> =
            self.agent.iter().map(|agent| format!("({})", harmless_line(agent))).collect();
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
        if self.files > 0 {
            tags.push(format!("[{}]", counted(self.files, "file")));
        }
        tags.join(" ")
    }

    fn name(&self) -> Cow<'_, str> {
        harmless_line(&self.id)
    }

    /// What stands above the steps inside it.
    fn heading(&self, inner: &Plan) -> String {
        let what = match self.kind {
            PlanKind::Include { .. } => inner.title(),
            _ => inner.count(),
        };
        format!("in {}: {what}", self.name())
    }

    /// The name and the tags, one line each.
    fn lines(&self) -> Vec<String> {
        let tags = Some(self.tags()).filter(|tags| !tags.is_empty());
        std::iter::once(self.name().into_owned()).chain(tags).collect()
    }

    /// What the tags mean, one line each: conditions, items, rounds, files, as the document writes them.
    fn details(&self) -> Vec<String> {
        let written = |text: &String| harmless(&one_line(text)).into_owned();
        let mut details: Vec<String> =
            self.condition.iter().map(|text| format!("if {}", written(text))).collect();
        match &self.kind {
            PlanKind::Agent => {}
            PlanKind::Include { path } => {
                let left_out = match self.inner {
                    Inner::LeftOut { steps } => format!(" (left out: {})", counted(steps, "step")),
                    Inner::Nothing | Inner::Steps(_) => String::new(),
                };
                details.push(format!("include {}{left_out}", harmless_line(path)));
            }
            PlanKind::RepeatUntil { at_most, until, judge } => {
                details.push(format!("at most {}", counted(*at_most as usize, "iteration")));
                details.extend(until.iter().map(|text| format!("until {}", written(text))));
                let judge = judge.as_deref().map(harmless_line);
                details.extend(judge.iter().map(|agent| format!("until the agent `{agent}` says so")));
            }
            PlanKind::ForEach { items, at_a_time } => {
                details.push(format!("forEach {}", written(items)));
                details.extend(at_a_time.iter().map(|count| format!("{count} at a time")));
            }
            PlanKind::Approval { message, timeout, on_timeout } => {
                details.push(format!("asks {}", written(message)));
                details.extend(timeout.iter().map(|time| format!("{on_timeout} after {time}")));
            }
        }
        details
    }
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn counted(count: usize, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

/// The cells that it takes on a terminal: some characters take two, and some none.
fn width(text: &str) -> usize {
    text.chars().map(cells).sum()
}

fn cells(c: char) -> usize {
    c.width().unwrap_or(0)
}

/// Lines of at most so many columns, all but the first a little to the right.
fn hanging(text: &str, columns: usize) -> Vec<String> {
    let right = " ".repeat(further(columns));
    let lines = wrapped(text, columns - right.len()).into_iter().enumerate();
    lines.map(|(number, line)| if number == 0 { line } else { format!("{right}{line}") }).collect()
}

/// How far what belongs to a line stands to its right, where there is room.
fn further(columns: usize) -> usize {
    const FURTHER: usize = 4;
    FURTHER.min(columns / 4)
}

/// Lines of at most so many columns, broken between words where that is possible.
fn wrapped(text: &str, columns: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    let mut used = 0;
    for word in text.split(' ') {
        let gap = usize::from(used > 0);
        if used > 0 && used + gap + width(word) > columns {
            lines.push(String::new());
            used = 0;
        } else if let (Some(line), 1) = (lines.last_mut(), gap) {
            line.push(' ');
            used += 1;
        }
        for c in word.chars() {
            if used > 0 && used + cells(c) > columns {
                lines.push(String::new());
                used = 0;
            }
            if let Some(line) = lines.last_mut() {
                line.push(c);
                used += cells(c);
            }
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::wrapped;

    #[test]
    fn lines_break_between_words_and_within_long_ones() {
        let table: [(&str, usize, &[&str]); 9] = [
            ("", 4, &[""]),
            ("a bc def", 4, &["a bc", "def"]),
            ("abcdefghij", 4, &["abcd", "efgh", "ij"]),
            ("ab cdefghij k", 4, &["ab", "cdef", "ghij", "k"]),
            ("a b", 0, &["a", "b"]),
            ("ééé ßß", 3, &["ééé", "ßß"]),
            ("模型模型 a", 4, &["模型", "模型", "a"]),
            ("模型模型", 3, &["模", "型", "模", "型"]),
            ("a  b   c", 9, &["a  b   c"]),
        ];
        for (text, columns, wanted) in table {
            assert_eq!(wrapped(text, columns), wanted, "{text} {columns}");
        }
    }
}

//! How the steps in the graph of a page stand: by themselves, or, where a step of the document ran many times because it is
//! inside a loop, all of its runs in one line. The boxes are drawn by `draw/svg.rs`.

use std::collections::{BTreeMap, HashMap};

use super::html::duration;
use super::{Look, steps};
use crate::draw::Mark;
use crate::{Role, RunStep, RunView, Segment, StepKind, StepStatus, ViewStatus};

/// The runs of one step of the document.
#[derive(Default)]
struct Runs<'a> {
    /// With their places on the page.
    runs: Vec<(usize, &'a RunStep)>,
    /// Its rounds or items, where it is a loop.
    parts: Vec<&'a RunStep>,
}

/// By where steps stand in the document: `outer/inner`.
pub(super) fn of(view: &RunView) -> HashMap<String, Mark> {
    let mut all: BTreeMap<String, Runs<'_>> = BTreeMap::new();
    for (index, step) in view.steps.iter().enumerate() {
        if step.key.role() == Role::Judge {
            continue;
        }
        let [_, way @ ..] = step.key.segments() else { continue };
        let place: Vec<&str> = way.iter().map(Segment::id).collect();
        let runs = all.entry(place.join("/")).or_default();
        match way.last() {
            Some(last) if last.of_item().is_some() || last.of_iteration().is_some() => runs.parts.push(step),
            _ => runs.runs.push((index, step)),
        }
    }
    let marked = all.into_iter().filter_map(|(place, runs)| Some((place, runs.mark()?)));
    marked.collect()
}

impl Runs<'_> {
    fn mark(&self) -> Option<Mark> {
        let (index, worst) =
            self.runs.iter().max_by_key(|(index, step)| (weight(step.status), usize::MAX - index))?;
        let look = Look::of(worst.status);
        let mut line = match self.runs.as_slice() {
            [(_, step)] => {
                let took = step.took_ms().map(|ms| format!(" · {}", duration(ms))).unwrap_or_default();
                format!("{} {}{took}", look.sign, step.status.name())
            }
            runs => format!("{} {}", look.sign, counted(runs.iter().map(|(_, step)| *step))),
        };
        if let ([(_, step)], false) = (self.runs.as_slice(), self.parts.is_empty()) {
            line.push_str(&match step.kind {
                StepKind::ForEach { items } => {
                    let done = self.parts.iter().filter(|part| is_completed(part)).count();
                    format!(" · {done} of {items} items")
                }
                _ if self.parts.len() == 1 => " · 1 round".to_owned(),
                _ => format!(" · {} rounds", self.parts.len()),
            });
        }
        Some(Mark { class: look.class, line, target: steps::anchor(*index) })
    }
}

/// `3 of 5 completed, 1 failed`
fn counted<'a>(runs: impl Iterator<Item = &'a RunStep>) -> String {
    let mut counts: BTreeMap<u8, (&'static str, usize)> = BTreeMap::new();
    let (mut all, mut completed) = (0, 0);
    for step in runs {
        all += 1;
        if is_completed(step) {
            completed += 1;
        } else {
            counts.entry(u8::MAX - weight(step.status)).or_insert((step.status.name(), 0)).1 += 1;
        }
    }
    let others: String = counts.values().map(|(name, count)| format!(", {count} {name}")).collect();
    format!("{completed} of {all} completed{others}")
}

fn is_completed(step: &RunStep) -> bool {
    step.status == ViewStatus::Ended(StepStatus::Completed)
}

/// What one wants to hear of first weighs most.
fn weight(status: ViewStatus) -> u8 {
    match status {
        ViewStatus::Ended(StepStatus::Failed) => 7,
        ViewStatus::Suspended => 6,
        ViewStatus::Running => 5,
        ViewStatus::Unfinished => 4,
        ViewStatus::Ended(StepStatus::Cancelled) => 3,
        ViewStatus::Waiting => 2,
        ViewStatus::Ended(StepStatus::Completed) => 1,
        ViewStatus::Ended(StepStatus::Skipped) => 0,
    }
}

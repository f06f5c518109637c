//! Whom a name means: the steps of a document as messages name them.
//!
//! Only steps that an agent works on can be written to. A loop or an include is not one: its rounds, items and inner steps are.

use crate::load::{LoadedItems, LoadedLoop, LoadedStep, LoadedWorkflow, LoopKind, StepBody};
use crate::message::{Address, COORDINATOR};

/// Steps that are named to a model at most.
const NAMES_SHOWN: usize = 40;

/// What a name stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// An agent works on it.
    Agent,
    /// Others work inside it.
    Wrapper,
    Nowhere,
}

/// What a step's full id stands for.
pub(crate) fn place(flow: &LoadedWorkflow, id: &str) -> Place {
    in_steps(&flow.steps, id)
}

/// The address behind a name that `from` uses: a step beside it comes first, then one further out.
pub(crate) fn address(flow: &LoadedWorkflow, from: &Address, name: &str) -> Address {
    let mut around = from.step_id().unwrap_or_default();
    while let Some((outer, _)) = around.rsplit_once('.') {
        let full = format!("{outer}.{name}");
        if place(flow, &full) != Place::Nowhere {
            return Address::Step(full);
        }
        around = outer;
    }
    match place(flow, name) {
        Place::Nowhere if name == COORDINATOR => Address::Coordinator,
        _ => Address::Step(name.to_owned()),
    }
}

/// The steps that can be written to, but for one: `build`, `each[0]`, `refine.0.write`.
pub(crate) fn names(flow: &LoadedWorkflow, but: Option<&str>) -> Vec<String> {
    let mut found = Vec::new();
    list(&flow.steps, "", &mut found);
    found.retain(|name| Some(name.as_str()) != but);
    found.truncate(NAMES_SHOWN);
    found
}

fn list(steps: &[LoadedStep], around: &str, found: &mut Vec<String>) {
    for step in steps {
        // One of them may be left out again.
        if found.len() > NAMES_SHOWN {
            return;
        }
        let id = format!("{around}{}", step.id);
        match &step.body {
            StepBody::Agent => found.push(id),
            // Nobody reads there.
            StepBody::Approve(_) => {}
            StepBody::Include(inner) => list(&inner.steps, &format!("{id}."), found),
            StepBody::Loop(repeated) => {
                let first = match repeated.kind {
                    LoopKind::ForEach { .. } => format!("{id}[0]"),
                    LoopKind::RepeatUntil { .. } => format!("{id}.0"),
                };
                match repeated.steps.is_empty() {
                    true => found.push(first),
                    false => list(&repeated.steps, &format!("{first}."), found),
                }
            }
        }
    }
}

fn in_steps(steps: &[LoadedStep], id: &str) -> Place {
    let found = steps.iter().find_map(|step| {
        let rest = id.strip_prefix(step.id.as_str())?;
        (rest.is_empty() || rest.starts_with(['.', '['])).then_some((step, rest))
    });
    let Some((step, rest)) = found else { return Place::Nowhere };
    match (&step.body, rest) {
        (StepBody::Agent, "") => Place::Agent,
        (StepBody::Agent | StepBody::Approve(_), _) => Place::Nowhere,
        (_, "") => Place::Wrapper,
        (StepBody::Include(inner), _) => inside(&inner.steps, rest),
        (StepBody::Loop(repeated), _) => {
            let turn = match repeated.kind {
                LoopKind::ForEach { .. } => rest.strip_prefix('[').and_then(|rest| rest.split_once(']')),
                LoopKind::RepeatUntil { .. } => rest.strip_prefix('.').map(|rest| {
                    let end = rest.find('.').unwrap_or(rest.len());
                    rest.split_at(end)
                }),
            };
            match turn.filter(|(number, _)| is_turn(number, repeated)) {
                Some((_, "")) if repeated.steps.is_empty() => Place::Agent,
                Some((_, "")) => Place::Wrapper,
                Some((_, rest)) => inside(&repeated.steps, rest),
                None => Place::Nowhere,
            }
        }
    }
}

fn inside(steps: &[LoadedStep], rest: &str) -> Place {
    rest.strip_prefix('.').map_or(Place::Nowhere, |id| in_steps(steps, id))
}

/// Whether the loop can have such a round or item: the number as ids spell it, and not beyond what the document says.
fn is_turn(text: &str, repeated: &LoadedLoop) -> bool {
    let Some(number) = text.parse::<u32>().ok().filter(|number| number.to_string() == text) else {
        return false;
    };
    match &repeated.kind {
        LoopKind::RepeatUntil { max_iterations, .. } => number < *max_iterations,
        LoopKind::ForEach { items: LoadedItems::List(items), .. } => (number as usize) < items.len(),
        // How many there are shows when the loop begins (`post.rs`).
        LoopKind::ForEach { items: LoadedItems::Expression(_), .. } => true,
    }
}

/// Whether one step is another, or stands inside it: `each[0].x` in `each`.
pub(crate) fn is_or_is_inside(id: &str, step_id: &str) -> bool {
    id.strip_prefix(step_id).is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
}

/// The steps around a step, the outermost first, and itself: `lp`, `lp.1`, `lp.1.x` of `lp.1.x`.
pub(crate) fn around(id: &str) -> impl Iterator<Item = &str> {
    let inner = id.char_indices().filter(|(_, c)| matches!(c, '.' | '[')).map(|(at, _)| at);
    inner.chain([id.len()]).map(|end| &id[..end])
}

/// The items of loops that a step stands in: `each` and 3 of `each[3].inner`.
pub(crate) fn items(id: &str) -> impl Iterator<Item = (&str, u32)> {
    id.match_indices('[').filter_map(|(at, _)| {
        let (number, _) = id[at + 1..].split_once(']')?;
        Some((&id[..at], number.parse().ok()?))
    })
}

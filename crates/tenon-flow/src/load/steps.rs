//! The steps of one document, those of its loops among them: what each one does, and what is around its expressions.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::checks::Check;
use super::expressions::{Around, Inside, Seen};
use super::included::IncludedBy;
use super::{LoadedAgent, LoadedApproval, LoadedItems, LoadedLoop, LoadedStep, LoopKind, StepBody};
use crate::cel::{InTurn, Known, KnownStep, Last, OfEach, Shape, Standing, Stands, Wanted};
use crate::diagnostic::{Code, quoted};
use crate::document::{Items, Loop, Step, Workflow};
use crate::parse::join;
use crate::topology::{self, Graph};

impl Check<'_> {
    /// One entry per step of the document; none where it has a problem.
    pub(super) fn steps(
        &mut self,
        workflow: &Workflow,
        agents: &BTreeMap<String, Arc<LoadedAgent>>,
        included: &IncludedBy,
    ) -> Vec<Option<LoadedStep>> {
        let graph = Graph::of(&workflow.steps);
        let all = Arc::new(known_steps(workflow, &workflow.steps, "/steps", included));
        let ancestors: Vec<Vec<bool>> =
            (0..workflow.steps.len()).map(|index| graph.ancestors(index)).collect();
        let ids = |is: &dyn Fn(usize) -> bool| -> Vec<&str> {
            let which = (0..workflow.steps.len()).filter(|index| is(*index));
            which.map(|index| workflow.steps[index].id.as_str()).collect()
        };
        let mut loaded = Vec::with_capacity(workflow.steps.len());
        for (index, step) in workflow.steps.iter().enumerate() {
            let stands = Stands { document: self.standing, ..Stands::default() };
            let inputs = workflow.inputs.as_ref();
            let around = Around {
                known: Known { steps: Arc::clone(&all), inputs, item: None, stands },
                before: ids(&|other| ancestors[index][other]),
                needed: ids(&|other| ancestors[index][other]),
                after: ids(&|other| ancestors[other][index]),
                own: &step.id,
                inside: None,
                after_steps: None,
            };
            let pointer = format!("/steps/{index}");
            // A loop beside what it may not stand with has been told; what is wrong inside it is told too.
            if let Some(it) =
                step.repeat.as_ref().filter(|_| step.include.is_some() || step.approve.is_some())
            {
                self.repeat(workflow, agents, included, (it, step), &around, &pointer);
            }
            let (body, each) = match (&step.include, &step.repeat) {
                _ if step.approve.is_some() => (self.approval(step, &around, &pointer), None),
                (Some(_), _) => (included.get(&pointer).cloned().map(StepBody::Include), None),
                (None, Some(it)) => self.repeat(workflow, agents, included, (it, step), &around, &pointer),
                (None, None) => (Some(StepBody::Agent), None),
            };
            let depends_on = graph.before[index].clone();
            loaded.push(self.step(agents, step, &around, &pointer, depends_on, (body, each)));
        }
        loaded
    }

    fn step<'a>(
        &mut self,
        agents: &BTreeMap<String, Arc<LoadedAgent>>,
        step: &Step,
        around: &Around<'a>,
        pointer: &str,
        depends_on: Vec<usize>,
        (body, each_item): (Option<StepBody>, Option<Shape<'a>>),
    ) -> Option<LoadedStep> {
        let condition = match &step.condition {
            Some(source) => {
                let at = join(pointer, "condition");
                let compiled = self.expression(source, &at, around, Wanted::Bool, Seen::Before);
                Some(compiled.map(|(expression, _)| expression))
            }
            None => None,
        };
        // A loop's own instructions are for each of its turns; its condition comes before the first.
        let turn = step.repeat.as_ref().map_or(around.known.stands.turn, turn_of);
        let turns = step.repeat.as_ref().map_or(around.known.stands.turns, |it| it.max_iterations);
        let mut each = around.standing(Stands { turn, turns, ..around.known.stands });
        each.known.item = each_item.or(each.known.item);
        let instructions = self.template(&step.instructions, &join(pointer, "instructions"), &each);
        Some(LoadedStep {
            id: step.id.clone(),
            spec: step.clone(),
            agent: step.agent.as_ref().and_then(|name| agents.get(name)).cloned(),
            instructions: instructions?,
            depends_on,
            condition: match condition {
                Some(compiled) => Some(compiled?),
                None => None,
            },
            body: body?,
        })
    }

    /// The question, whose schema is compiled once so that what is wrong with it is told now.
    fn approval(&mut self, step: &Step, around: &Around<'_>, pointer: &str) -> Option<StepBody> {
        let spec = step.approve.clone()?;
        let pointer = join(pointer, "approve");
        let whose = format!("the data of `{}`", step.id);
        let data_fits = match &spec.data {
            Some(schema) => self.schema(schema, &join(&pointer, "data"), &whose).is_some(),
            None => true,
        };
        let message = self.template(&spec.message, &join(&pointer, "message"), around)?;
        data_fits.then_some(StepBody::Approve(LoadedApproval { message, spec }))
    }

    /// The loop, and what each of its items is if it goes over some.
    fn repeat<'a>(
        &mut self,
        workflow: &'a Workflow,
        agents: &BTreeMap<String, Arc<LoadedAgent>>,
        included: &'a IncludedBy,
        (it, step): (&'a Loop, &'a Step),
        around: &Around<'a>,
        pointer: &str,
    ) -> (Option<StepBody>, Option<Shape<'a>>) {
        let pointer = join(pointer, "loop");
        let list = join(&pointer, "steps");
        self.unused_beside_steps(it, step, pointer.trim_end_matches("/loop"));
        let last = if step.depends_on.is_empty() { Last::Nothing } else { Last::Something };
        let first = around.standing(Stands { last, ..around.known.stands });
        let (items, each) = self.items(it, &first, &pointer);
        // Inside, a step's own names win over those outside.
        let mut known = around.known.clone();
        Arc::make_mut(&mut known.steps).extend(known_steps(workflow, &it.steps, &list, included));
        known.stands.turn = turn_of(it);
        known.stands.turns = it.max_iterations;
        known.item.clone_from(&each);
        let graph = Graph::of(&it.steps);
        let ancestors: Vec<Vec<bool>> = (0..it.steps.len()).map(|index| graph.ancestors(index)).collect();
        let beside: Vec<&str> = it.steps.iter().map(|step| step.id.as_str()).collect();
        let inside = Inside { of: &step.id, beside };
        let mut loaded = Vec::with_capacity(it.steps.len());
        for (index, inner) in it.steps.iter().enumerate() {
            let ids = |is: &dyn Fn(usize) -> bool| -> Vec<&'a str> {
                let which = (0..it.steps.len()).filter(|other| is(*other));
                which.map(|other| it.steps[other].id.as_str()).collect()
            };
            let mut before = ids(&|other| ancestors[index][other]);
            let mut needed = before.clone();
            let outside = |ids: &[&'a str]| -> Vec<&'a str> {
                ids.iter().filter(|id| !inside.beside.contains(id)).copied().collect()
            };
            needed.extend(outside(&around.needed));
            before.extend(outside(&around.before));
            let around = Around {
                known: known.clone(),
                before,
                needed,
                after: ids(&|other| ancestors[other][index]),
                own: &inner.id,
                inside: Some(inside.clone()),
                after_steps: None,
            };
            let pointer = join(&list, &index.to_string());
            // A loop has none inside; what is wrong in one that stands there is told all the same.
            if let Some(nested) = &inner.repeat {
                self.repeat(workflow, agents, included, (nested, inner), &around, &pointer);
            }
            let body = match &inner.include {
                Some(_) => included.get(&pointer).cloned().map(StepBody::Include),
                None if inner.approve.is_some() => self.approval(inner, &around, &pointer),
                None => Some(StepBody::Agent),
            };
            let depends_on = graph.before[index].clone();
            loaded.push(self.step(agents, inner, &around, &pointer, depends_on, (body, None)));
        }
        let loaded: Option<Vec<LoadedStep>> = loaded.into_iter().collect();
        let after = after_a_turn(workflow, included, (it, step), around, known, &pointer);
        let kind = match (&it.for_each, items) {
            (Some(_), items) => {
                self.until_beside_items(it, &after, &pointer);
                items.map(|items| LoopKind::ForEach { items, max_concurrency: it.max_concurrency })
            }
            (None, _) => self.repeat_until(agents, it, &after, &pointer),
        };
        let order = topology::order(&it.steps).unwrap_or_default();
        let body = match (kind, loaded) {
            (Some(kind), Some(steps)) => {
                Some(StepBody::Loop(LoadedLoop { kind, steps, order, output_mode: it.output_mode }))
            }
            _ => None,
        };
        (body, each)
    }

    /// What a `forEach` goes over, and what each of them is.
    fn items<'a>(
        &mut self,
        it: &'a Loop,
        around: &Around<'a>,
        pointer: &str,
    ) -> (Option<LoadedItems>, Option<Shape<'a>>) {
        match &it.for_each {
            None => (None, None),
            Some(Items::List(items)) => {
                (Some(LoadedItems::List(items.clone())), Some(Shape::OneOf(items.iter().collect())))
            }
            Some(Items::Expression(source)) => {
                let at = join(pointer, "forEach");
                match self.expression(source, &at, around, Wanted::List, Seen::Before) {
                    Some((items, each)) => (Some(LoadedItems::Expression(items)), Some(each)),
                    None => (None, None),
                }
            }
        }
    }

    /// Where a loop has steps of its own, they have agents of their own: what its step says about one is for nobody.
    fn unused_beside_steps(&mut self, it: &Loop, step: &Step, pointer: &str) {
        // Beside an include or a question it has been told that these do not stand together.
        if it.steps.is_empty() || step.include.is_some() || step.approve.is_some() {
            return;
        }
        let written = [
            ("agent", step.agent.is_some()),
            ("instructions", !step.instructions.is_empty()),
            ("model", step.model.is_some()),
            ("contextFiles", !step.context_files.is_empty()),
        ];
        for (field, _) in written.into_iter().filter(|(_, is_written)| *is_written) {
            let message = format!(
                "`{field}` of step `{}` is not used: its loop has steps of its own",
                quoted(&step.id)
            );
            let hint = format!("write `{field}` in the steps of the loop, or take it out");
            self.problems.warning(Code::LoopValidation, self.places.of(&join(pointer, field)), message, hint);
        }
    }

    /// It has to go, or `forEach` has: what is wrong with it is told, not what it would be in a loop of the other kind.
    fn until_beside_items(&mut self, it: &Loop, after: &Around<'_>, pointer: &str) {
        if let Some(source) = &it.until {
            let either = after.standing(Stands { document: Standing::Included, ..after.known.stands });
            self.expression(source, &join(pointer, "until"), &either, Wanted::Bool, Seen::Before);
        }
    }

    fn repeat_until(
        &mut self,
        agents: &BTreeMap<String, Arc<LoadedAgent>>,
        it: &Loop,
        after: &Around<'_>,
        pointer: &str,
    ) -> Option<LoopKind> {
        let until = match &it.until {
            Some(source) => {
                let at = join(pointer, "until");
                Some(self.expression(source, &at, after, Wanted::Bool, Seen::Before)?.0)
            }
            None => None,
        };
        Some(LoopKind::RepeatUntil {
            max_iterations: it.max_iterations.unwrap_or(1),
            until,
            judge: it.until_agent.as_ref().and_then(|name| agents.get(name)).cloned(),
            delay: it.delay,
        })
    }
}

/// What is around an expression that is evaluated when a turn of a loop is over.
fn after_a_turn<'a>(
    workflow: &'a Workflow,
    included: &'a IncludedBy,
    (it, step): (&'a Loop, &'a Step),
    around: &Around<'a>,
    mut known: Known<'a>,
    pointer: &str,
) -> Around<'a> {
    let mut before: Vec<&str> = it.steps.iter().map(|step| step.id.as_str()).collect();
    let of_step = pointer.strip_suffix("/loop").unwrap_or(pointer);
    if it.steps.is_empty() {
        let own = known_step(workflow, step, of_step, included);
        Arc::make_mut(&mut known.steps).insert(&step.id, own);
        before.push(&step.id);
        known.stands.last = Last::Step(own, &step.id);
    } else {
        known.stands.last = Last::Something;
    }
    before.extend(around.before.iter().copied());
    let needed = around.needed.iter().copied().filter(|id| it.steps.iter().all(|inner| inner.id != *id));
    let needed = needed.collect();
    let after_steps = it.steps.first().map(|inner| inner.id.as_str());
    Around { known, before, needed, after_steps, ..around.clone() }
}

fn turn_of(it: &Loop) -> InTurn {
    if it.for_each.is_some() { InTurn::Items } else { InTurn::Repeat }
}

/// What the steps of one list give.
pub(super) fn known_steps<'a>(
    workflow: &'a Workflow,
    steps: &'a [Step],
    list: &str,
    included: &'a IncludedBy,
) -> BTreeMap<&'a str, KnownStep<'a>> {
    let each = steps.iter().enumerate();
    each.map(|(index, step)| {
        (step.id.as_str(), known_step(workflow, step, &join(list, &index.to_string()), included))
    })
    .collect()
}

fn known_step<'a>(
    workflow: &'a Workflow,
    step: &'a Step,
    pointer: &str,
    included: &'a IncludedBy,
) -> KnownStep<'a> {
    let agent = step.agent.as_ref().and_then(|name| workflow.agents.get(name));
    let schema = agent.and_then(|agent| agent.result_schema.as_ref());
    // An agent that is not there has been told, and gives nobody knows what.
    let is_unknown = step.agent.is_some() && agent.is_none();
    if let Some(approval) = &step.approve {
        return KnownStep::Schema(&approval.result);
    }
    match (&step.include, &step.repeat) {
        (Some(_), _) => match included.get(pointer) {
            Some(inner) if !inner.outputs.is_empty() => KnownStep::Outputs(&inner.outputs),
            // Of the last step that completed, whichever that was.
            _ => KnownStep::Anything,
        },
        (None, Some(it)) if it.for_each.is_some() => KnownStep::Items(match schema {
            _ if !it.steps.is_empty() || is_unknown => OfEach::Anything,
            Some(schema) => OfEach::Schema(schema),
            None => OfEach::Nothing,
        }),
        (None, Some(it)) if !it.steps.is_empty() => KnownStep::Anything,
        (None, None | Some(_)) => match schema {
            Some(schema) => KnownStep::Schema(schema),
            None if is_unknown => KnownStep::Anything,
            None => KnownStep::Nothing,
        },
    }
}

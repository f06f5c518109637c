//! The checks of one document at load, and what they make of it. Its expressions are in `load/expressions.rs`.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use serde_json::Value;
use tenon_contract::{Schema, SchemaError};

use super::expressions::{Around, Seen};
use super::{
    IncludeError, LoadedAgent, LoadedItems, LoadedLoop, LoadedStep, LoadedWorkflow, Loader, LoopKind,
    StepBody, hash,
};
use crate::cel::{Expression, InTurn, Known, KnownStep, Last, Standing, Stands, Wanted};
use crate::diagnostic::{Code, Problems, nearest, quoted};
use crate::document::{AgentSpec, Items, Loop, Place, Places, Step, ToolChoice, Workflow};
use crate::parse::join;
use crate::pinned::Files;
use crate::references::{self, RefError, Resolved};
use crate::topology::{self, Graph};
use crate::{MAX_INCLUDE_DEPTH, unicode};

/// Tools that steps have beside those of the run.
const STEP_TOOLS: [&str; 4] = ["submit_result", "send_message", "shared_memory_read", "shared_memory_write"];
/// Tools of servers, which start with the run.
const SERVER_TOOL: &str = "mcp__";

pub(super) fn check(
    loader: &mut Loader<'_>,
    mut workflow: Workflow,
    places: &Places,
    text: &str,
    file: &Path,
    path: &Path,
) -> Option<LoadedWorkflow> {
    let folder = path.parent().unwrap_or(Path::new("/"));
    let standing = if loader.open.len() > 1 { Standing::Included } else { Standing::Alone };
    let mut check = Check { problems: Problems::new(file, text), places, text, file, folder, standing };
    check.read_references(&loader.source, &mut workflow);
    check.models(loader, &workflow);
    let agents = check.agents(loader, &workflow);
    let inputs = workflow.inputs.as_ref().and_then(|schema| check.schema(schema, "/inputs", "`inputs`"));
    let steps = check.steps(loader, &workflow, &agents);
    let outputs = check.outputs(&workflow);
    let order = topology::order(&workflow.steps).unwrap_or_default();
    let failed = check.problems.has_errors();
    loader.found.extend(check.problems.into_found());
    if failed {
        return None;
    }
    let steps: Vec<LoadedStep> = steps.into_iter().collect::<Option<_>>()?;
    Some(LoadedWorkflow {
        hash: hash(&workflow, &steps),
        file: file.to_owned(),
        folder: folder.to_owned(),
        agents,
        steps,
        order,
        inputs,
        outputs,
        warnings: Vec::new(),
        pinned: Arc::default(),
        workflow,
    })
}

pub(super) struct Check<'c> {
    pub(super) problems: Problems<'c>,
    pub(super) places: &'c Places,
    pub(super) text: &'c str,
    file: &'c Path,
    folder: &'c Path,
    standing: Standing,
}

impl Check<'_> {
    fn read_references(&mut self, files: &Files, workflow: &mut Workflow) {
        for (name, agent) in &mut workflow.agents {
            self.read_reference(files, &mut agent.prompt, &format!("{}/prompt", join("/agents", name)));
        }
        for (index, step) in workflow.steps.iter_mut().enumerate() {
            let pointer = format!("/steps/{index}");
            self.read_reference(files, &mut step.instructions, &join(&pointer, "instructions"));
            for (inner_index, inner) in step.repeat.iter_mut().flat_map(|it| &mut it.steps).enumerate() {
                let pointer = format!("{pointer}/loop/steps/{inner_index}/instructions");
                self.read_reference(files, &mut inner.instructions, &pointer);
            }
        }
    }

    fn read_reference(&mut self, files: &Files, text: &mut String, pointer: &str) {
        let place = self.places.of(pointer);
        match references::resolve(files, self.folder, text) {
            Ok(Resolved::Inline) => {}
            Ok(Resolved::File(content)) => match unicode::clean(&content) {
                Ok(clean) => *text = clean,
                Err(found) => {
                    let message = format!("the file `{}`: {found}", quoted(text));
                    self.problems.error(Code::UnicodeUnsafe, place, message);
                }
            },
            Err(error) => {
                let code = match error {
                    RefError::Escape(_) => Code::RefEscape,
                    RefError::TooLarge(_) => Code::TooLarge,
                    _ => Code::RefMissing,
                };
                let problem = self.problems.error(code, place, error.to_string());
                if code == Code::RefMissing {
                    problem.hint("a text that begins with `@` names a file, relative to the document");
                }
            }
        }
    }

    fn models(&mut self, loader: &Loader<'_>, workflow: &Workflow) {
        let Some(doubt) = &loader.options.doubt else { return };
        let of_agents = workflow.agents.iter().filter_map(|(name, agent)| {
            Some((agent.model.as_ref()?, format!("{}/model", join("/agents", name))))
        });
        let of_steps = workflow.steps.iter().enumerate().flat_map(|(index, step)| {
            let inner = step.repeat.iter().flat_map(|it| &it.steps).enumerate();
            let inner =
                inner.map(move |(at, inner)| (inner, format!("/steps/{index}/loop/steps/{at}/model")));
            std::iter::once((step, format!("/steps/{index}/model")))
                .chain(inner)
                .filter_map(|(step, pointer)| Some((step.model.as_ref()?, pointer)))
        });
        for (model, pointer) in of_agents.chain(of_steps) {
            if let Some(reason) = doubt(model) {
                let message = format!("the model `{}` may not answer: {reason}", quoted(model));
                self.problems.warning(Code::UnknownModel, self.places.of(&pointer), message);
            }
        }
    }

    fn agents(&mut self, loader: &Loader<'_>, workflow: &Workflow) -> BTreeMap<String, Arc<LoadedAgent>> {
        let mut agents = BTreeMap::new();
        for (name, spec) in &workflow.agents {
            let pointer = join("/agents", name);
            self.tools(loader, spec, &pointer);
            let result = spec.result_schema.as_ref().and_then(|schema| {
                self.schema(schema, &join(&pointer, "resultSchema"), &format!("the result of agent `{name}`"))
            });
            let agent = LoadedAgent { name: name.clone(), spec: spec.clone(), result };
            agents.insert(name.clone(), Arc::new(agent));
        }
        agents
    }

    fn tools(&mut self, loader: &Loader<'_>, agent: &AgentSpec, pointer: &str) {
        let allowed: &[String] = match &agent.tools {
            ToolChoice::All => &[],
            ToolChoice::Only(names) => names,
        };
        let lists = [("tools", allowed), ("disallowedTools", agent.disallowed_tools.as_slice())];
        for (field, names) in lists {
            for (index, name) in names.iter().enumerate() {
                let is_known = name.starts_with(SERVER_TOOL)
                    || STEP_TOOLS.contains(&name.as_str())
                    || loader.options.tools.contains(name)
                    || tenon_tools::known_tool_names().any(|known| known == name);
                if is_known {
                    continue;
                }
                let mut known: Vec<&str> = tenon_tools::known_tool_names().collect();
                known.extend(STEP_TOOLS);
                known.extend(loader.options.tools.iter().map(String::as_str));
                let hint = match (name.as_str(), nearest(name, known)) {
                    ("*", _) => "leave `tools` out to allow every tool of the run".to_owned(),
                    (_, Some(meant)) => format!("did you mean `{meant}`?"),
                    (_, None) => "tools of MCP servers are written `mcp__server__tool`".to_owned(),
                };
                let place = self.places.of(&format!("{pointer}/{field}/{index}"));
                let message = format!("there is no tool `{}`", quoted(name));
                self.problems.error(Code::UnknownTool, place, message).hint(hint);
            }
        }
    }

    fn schema(&mut self, schema: &Value, pointer: &str, whose: &str) -> Option<Schema> {
        match Schema::compile(&schema.to_string()) {
            Ok(compiled) => {
                for warning in compiled.warnings() {
                    let message = format!("the schema of {whose}: {warning}");
                    self.problems.warning(Code::SchemaInvalid, self.places.of(pointer), message);
                }
                Some(compiled)
            }
            Err(SchemaError::Refused(problems)) => {
                for problem in problems {
                    let place = self.places.of(&format!("{pointer}{}", problem.pointer));
                    let message = format!("the schema of {whose}: {}", problem.message);
                    let diagnostic = self.problems.error(Code::SchemaInvalid, place, message);
                    diagnostic.hint = problem.hint;
                }
                None
            }
            Err(other) => {
                let message = format!("the schema of {whose}: {other}");
                self.problems.error(Code::SchemaInvalid, self.places.of(pointer), message);
                None
            }
        }
    }

    /// One entry per step of the document; none where it has a problem.
    fn steps(
        &mut self,
        loader: &mut Loader<'_>,
        workflow: &Workflow,
        agents: &BTreeMap<String, Arc<LoadedAgent>>,
    ) -> Vec<Option<LoadedStep>> {
        let graph = Graph::of(&workflow.steps);
        let all = known_steps(workflow, &workflow.steps);
        let mut loaded = Vec::with_capacity(workflow.steps.len());
        for (index, step) in workflow.steps.iter().enumerate() {
            let ancestors = graph.ancestors(index);
            let before: Vec<&str> = workflow
                .steps
                .iter()
                .zip(&ancestors)
                .filter(|(_, is_before)| **is_before)
                .map(|(step, _)| step.id.as_str())
                .collect();
            let stands = Stands { document: self.standing, ..Stands::default() };
            let known = Known { steps: all.clone(), inputs: workflow.inputs.as_ref(), stands };
            let around = Around { known, before, own: &step.id };
            let pointer = format!("/steps/{index}");
            let body = match (&step.include, &step.repeat) {
                (Some(name), _) => self.include(loader, workflow, name, &join(&pointer, "include")),
                (None, Some(it)) => self.repeat(loader, workflow, agents, it, step, &around, &pointer),
                (None, None) => Some(StepBody::Agent),
            };
            let depends_on = graph.before[index].clone();
            loaded.push(self.step(agents, step, &around, &pointer, depends_on, body));
        }
        loaded
    }

    fn step(
        &mut self,
        agents: &BTreeMap<String, Arc<LoadedAgent>>,
        step: &Step,
        around: &Around<'_>,
        pointer: &str,
        depends_on: Vec<usize>,
        body: Option<StepBody>,
    ) -> Option<LoadedStep> {
        let condition = match &step.condition {
            Some(source) => {
                let at = join(pointer, "condition");
                Some(self.expression(source, &at, around, Wanted::Bool, Seen::Before))
            }
            None => None,
        };
        // A loop's own instructions are for each of its turns; its condition comes before the first.
        let turn = step.repeat.as_ref().map_or(around.known.stands.turn, turn_of);
        let each = around.standing(Stands { turn, ..around.known.stands });
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

    fn include(
        &mut self,
        loader: &mut Loader<'_>,
        workflow: &Workflow,
        name: &str,
        pointer: &str,
    ) -> Option<StepBody> {
        let file = workflow.includes.get(name).map_or(name, String::as_str);
        let place = self.places.of(pointer);
        match loader.include(self.folder, self.file, file) {
            Ok(included) => {
                let taken = included
                    .workflow
                    .workflow
                    .agents
                    .keys()
                    .find(|agent| workflow.agents.contains_key(*agent));
                if let Some(agent) = taken {
                    let message = format!(
                        "include `{}`: agent name collision with parent workflow: `{}`",
                        quoted(name),
                        quoted(agent)
                    );
                    self.problems.error(Code::IncludeCollision, place, message);
                    return None;
                }
                Some(StepBody::Include(included.workflow))
            }
            Err(error) => {
                self.include_error(error, workflow, name, place);
                None
            }
        }
    }

    fn include_error(&mut self, error: IncludeError, workflow: &Workflow, name: &str, place: Place) {
        match error {
            IncludeError::Reference(error) => {
                let code = match error {
                    RefError::Escape(_) => Code::IncludeEscape,
                    RefError::TooLarge(_) => Code::TooLarge,
                    _ => Code::IncludeMissing,
                };
                let meant = nearest(name, workflow.includes.keys().map(String::as_str));
                let problem = self.problems.error(code, place, error.to_string());
                if let Some(meant) = meant.filter(|meant| *meant != name) {
                    problem.hint(format!("did you mean `{meant}`?"));
                }
            }
            IncludeError::Itself => {
                let message = format!("`{}` includes itself, directly or not", quoted(name));
                self.problems.error(Code::IncludeDepth, place, message);
            }
            IncludeError::TooDeep => {
                let message =
                    format!("more than {MAX_INCLUDE_DEPTH} workflows are included one inside the other");
                self.problems.error(Code::IncludeDepth, place, message);
            }
            // Said where it is wrong; here only that this step has no body.
            IncludeError::Inside => {
                let message = format!("the included workflow `{}` is not valid", quoted(name));
                self.problems.error(Code::Validation, place, message);
            }
        }
    }

    #[expect(clippy::too_many_arguments, reason = "a loop is a step and a list of steps at once")]
    fn repeat(
        &mut self,
        loader: &mut Loader<'_>,
        workflow: &Workflow,
        agents: &BTreeMap<String, Arc<LoadedAgent>>,
        it: &Loop,
        step: &Step,
        around: &Around<'_>,
        pointer: &str,
    ) -> Option<StepBody> {
        let pointer = join(pointer, "loop");
        let graph = Graph::of(&it.steps);
        // Inside, a step's own names win over those outside.
        let mut known = around.known.clone();
        known.steps.extend(known_steps(workflow, &it.steps));
        known.stands.turn = turn_of(it);
        let mut loaded = Some(Vec::with_capacity(it.steps.len()));
        for (index, inner) in it.steps.iter().enumerate() {
            let ancestors = graph.ancestors(index);
            let before =
                it.steps.iter().zip(&ancestors).filter(|(_, is)| **is).map(|(step, _)| step.id.as_str());
            let around = Around {
                known: known.clone(),
                before: before.chain(around.before.iter().copied()).collect(),
                own: &inner.id,
            };
            let pointer = format!("{pointer}/steps/{index}");
            let body = match &inner.include {
                Some(name) => self.include(loader, workflow, name, &join(&pointer, "include")),
                None => Some(StepBody::Agent),
            };
            let depends_on = graph.before[index].clone();
            let step = self.step(agents, inner, &around, &pointer, depends_on, body);
            loaded = match (loaded, step) {
                (Some(mut all), Some(step)) => {
                    all.push(step);
                    Some(all)
                }
                _ => None,
            };
        }
        let inner_ids = it.steps.iter().map(|step| step.id.as_str());
        let own = it.steps.is_empty().then_some(step.id.as_str());
        if it.steps.is_empty() {
            known.steps.extend(known_steps(workflow, std::slice::from_ref(step)));
        }
        let before = inner_ids.chain(own).chain(around.before.iter().copied()).collect();
        known.stands.last = match it.steps.is_empty() {
            true => Last::Step(known_step(workflow, step), &step.id),
            false => Last::Something,
        };
        let after = Around { known, before, own: &step.id };
        let last = if step.depends_on.is_empty() { Last::Nothing } else { Last::Something };
        let first = around.standing(Stands { last, ..around.known.stands });
        let kind = self.loop_kind(agents, it, &first, &after, &pointer);
        Some(StepBody::Loop(LoadedLoop {
            kind: kind?,
            steps: loaded?,
            order: topology::order(&it.steps).unwrap_or_default(),
            output_mode: it.output_mode,
        }))
    }

    fn loop_kind(
        &mut self,
        agents: &BTreeMap<String, Arc<LoadedAgent>>,
        it: &Loop,
        around: &Around<'_>,
        after: &Around<'_>,
        pointer: &str,
    ) -> Option<LoopKind> {
        match &it.for_each {
            Some(Items::List(items)) => {
                let items = LoadedItems::List(items.clone());
                Some(LoopKind::ForEach { items, max_concurrency: it.max_concurrency })
            }
            Some(Items::Expression(source)) => {
                let at = join(pointer, "forEach");
                let items = self.expression(source, &at, around, Wanted::List, Seen::Before)?;
                let items = LoadedItems::Expression(items);
                Some(LoopKind::ForEach { items, max_concurrency: it.max_concurrency })
            }
            None => {
                let until = match &it.until {
                    Some(source) => {
                        let at = join(pointer, "until");
                        Some(self.expression(source, &at, after, Wanted::Bool, Seen::Before)?)
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
    }

    fn outputs(&mut self, workflow: &Workflow) -> Vec<(String, Expression)> {
        let stands = Stands { document: self.standing, ..Stands::default() };
        let steps = known_steps(workflow, &workflow.steps);
        let known = Known { steps, inputs: workflow.inputs.as_ref(), stands };
        let around = Around { known, before: Vec::new(), own: "" };
        let mut outputs = Vec::new();
        for (name, source) in &workflow.outputs {
            let at = join("/outputs", name);
            let compiled = self.expression(source, &at, &around, Wanted::Anything, Seen::All);
            outputs.extend(compiled.map(|expression| (name.clone(), expression)));
        }
        outputs
    }
}

fn turn_of(it: &Loop) -> InTurn {
    if it.for_each.is_some() { InTurn::Items } else { InTurn::Repeat }
}

/// What the steps of one list give.
fn known_steps<'a>(workflow: &'a Workflow, steps: &'a [Step]) -> BTreeMap<&'a str, KnownStep<'a>> {
    steps.iter().map(|step| (step.id.as_str(), known_step(workflow, step))).collect()
}

fn known_step<'a>(workflow: &'a Workflow, step: &'a Step) -> KnownStep<'a> {
    let by_agent = |name: Option<&String>| match name
        .and_then(|name| workflow.agents.get(name))
        .and_then(|agent| agent.result_schema.as_ref())
    {
        Some(schema) => KnownStep::Schema(schema),
        None => KnownStep::Nothing,
    };
    match (&step.include, &step.repeat) {
        (Some(_), _) => KnownStep::Anything,
        (None, None) => by_agent(step.agent.as_ref()),
        (None, Some(it)) if it.for_each.is_some() => KnownStep::Items,
        (None, Some(it)) if it.steps.is_empty() => by_agent(step.agent.as_ref()),
        // The last step that completed, whichever that was.
        (None, Some(_)) => KnownStep::Anything,
    }
}

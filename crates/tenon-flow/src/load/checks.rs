//! The checks of one document at load, and what they make of it. Its steps are in `load/steps.rs`, what it includes in
//! `load/included.rs`, its expressions in `load/expressions.rs`.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use serde_json::Value;
use tenon_contract::{SUBMIT_RESULT, Schema, SchemaError};

use super::expressions::{Around, Seen};
use super::included::IncludedBy;
use super::steps::known_steps;
use super::written::Texts;
use super::{LoadedAgent, LoadedStep, LoadedWorkflow, Loader, hash};
use crate::cel::{Expression, Known, Standing, Stands, Wanted};
use crate::declared_tools::{STEP_TOOLS, never_of_steps};
use crate::diagnostic::{Code, Problems, Severity, Source, nearest, quoted};
use crate::document::{AgentSpec, Places, Step, ToolChoice, Workflow};
use crate::not_text::NotText;
use crate::parse::join;
use crate::pinned::Files;
use crate::references::{self, RefError, Resolved};
use crate::tool_aliases::own_name;
use crate::{context_files, topology, unicode};

/// Where a schema says nothing more of what is wrong with it.
const A_SCHEMA: &str = "`tenon schema check` says more about a schema; as in `{type: object, properties: {ok: {type: boolean}}}`";
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
    let problems = Problems::new(file, text);
    let texts = Texts::new(problems.source());
    let mut check = Check { problems, places, file, folder, standing, texts };
    check.read_references(&loader.source, &mut workflow);
    check.context_files(&workflow);
    check.models(loader, &workflow);
    let agents = check.agents(loader, &workflow);
    let inputs = workflow.inputs.as_ref().and_then(|schema| check.schema(schema, "/inputs", "`inputs`"));
    let included = check.includes(loader, &workflow);
    let steps = check.steps(&workflow, &agents, &included);
    let outputs = check.outputs(&workflow, &included);
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
    pub(super) file: &'c Path,
    pub(super) folder: &'c Path,
    pub(super) standing: Standing,
    pub(super) texts: Texts<'c>,
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
            Ok(Resolved::File { name, content }) => {
                let file = self.file.parent().unwrap_or(Path::new("")).join(name);
                match unicode::clean(&content) {
                    Ok(clean) => {
                        *text = clean;
                        self.texts.refer(pointer, file, content);
                    }
                    Err(found) => {
                        let source = Source::new(&file, &content);
                        let mark = content.len() - source.lined.text().len();
                        let place = source.lined.place_at(found.at.saturating_sub(mark));
                        let hint = "take it out: it shows the text differently from what it says".to_owned();
                        let (code, message) = (Code::UnicodeUnsafe, found.to_string());
                        self.problems.add(&source, Severity::Error, code, place, message, hint);
                    }
                }
            }
            Err(RefError::NotText { name, why }) => self.no_text(&name, &why),
            // It is said in the file that has it.
            Err(error @ RefError::Chained { .. }) => {
                let RefError::Chained { file, text, error: inner } = &error else { return };
                if let RefError::NotText { name, why } = &**inner {
                    return self.no_text(name, why);
                }
                let file = self.file.parent().unwrap_or(Path::new("")).join(file);
                let source = Source::new(&file, text);
                let mark = source.lined.text().find(references::MARK).unwrap_or(0);
                let place = source.lined.place_at(mark);
                let (message, hint) = (error.to_string(), error.hint());
                self.problems.add(&source, Severity::Error, reference_code(inner), place, message, hint);
            }
            Err(error) => {
                let code = reference_code(&error);
                let hint = match error {
                    RefError::Missing { .. } => {
                        "a text that begins with `@` names a file, relative to the document".to_owned()
                    }
                    _ => error.hint(),
                };
                self.problems.error(code, place, error.to_string(), hint);
            }
        }
    }

    /// A file that the document names and that is no text: said where it stops being one.
    pub(super) fn no_text(&mut self, name: &str, why: &NotText) {
        let file = self.file.parent().unwrap_or(Path::new("")).join(name);
        let source = Source::new(&file, &why.shown);
        let (code, message) = (Code::Validation, why.to_string());
        self.problems.add(&source, Severity::Error, code, why.place, message, why.hint());
    }

    /// Those that are not there now may be made by a step before, so they are no errors.
    fn context_files(&mut self, workflow: &Workflow) {
        for (pointer, step) in each_step(workflow) {
            for (index, path) in step.context_files.iter().enumerate() {
                let Some(doubt) = context_files::doubt(self.folder, path) else { continue };
                let place = self.places.of(&format!("{pointer}/contextFiles/{index}"));
                self.problems.warning(doubt.code, place, doubt.message, doubt.hint);
            }
        }
    }

    fn models(&mut self, loader: &Loader<'_>, workflow: &Workflow) {
        let Some(doubt) = &loader.options.doubt else { return };
        let of_agents = workflow.agents.iter().filter_map(|(name, agent)| {
            Some((agent.model.as_ref()?, format!("{}/model", join("/agents", name))))
        });
        let of_steps = each_step(workflow)
            .filter_map(|(pointer, step)| Some((step.model.as_ref()?, join(&pointer, "model"))));
        for (model, pointer) in of_agents.chain(of_steps) {
            if let Some(reason) = doubt(model) {
                let message = format!("the model `{}` may not answer: {reason}", quoted(model));
                let hint = "name another model, or give the provider's key and settings before the run";
                self.problems.warning(Code::UnknownModel, self.places.of(&pointer), message, hint);
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
                let is_own = loader.options.tools.contains(name);
                let is_known = name.starts_with(SERVER_TOOL)
                    || STEP_TOOLS.contains(&name.as_str())
                    || is_own
                    || tenon_tools::known_tool_names().any(|known| known == own_name(name));
                let place = || self.places.of(&format!("{pointer}/{field}/{index}"));
                if let (Some((why, hint)), "tools", false) = (never_of_steps(own_name(name)), field, is_own) {
                    let message = format!("no step can have the tool `{}`: {why}", quoted(name));
                    self.problems.error(Code::UnknownTool, place(), message, hint);
                    continue;
                }
                if (own_name(name), field) == (SUBMIT_RESULT, "tools") && agent.result_schema.is_none() {
                    let message = "`submit_result` is there with a `resultSchema`, and this agent has none";
                    self.problems.warning(
                        Code::UnknownTool,
                        place(),
                        message,
                        "take it out of `tools`, or say what a result has to be",
                    );
                }
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
                let message = format!("there is no tool `{}`", quoted(name));
                self.problems.error(Code::UnknownTool, place(), message, hint);
            }
        }
    }

    pub(super) fn schema(&mut self, schema: &Value, pointer: &str, whose: &str) -> Option<Schema> {
        match Schema::compile(&schema.to_string()) {
            Ok(compiled) => {
                for warning in compiled.warnings() {
                    let message = format!("the schema of {whose}: {warning}");
                    self.problems.warning(Code::SchemaInvalid, self.places.of(pointer), message, A_SCHEMA);
                }
                Some(compiled)
            }
            Err(SchemaError::Refused(problems)) => {
                for problem in problems {
                    let place = self.places.of(&format!("{pointer}{}", problem.pointer));
                    let message = format!("the schema of {whose}: {}", problem.message);
                    let hint = problem.hint.unwrap_or_else(|| A_SCHEMA.to_owned());
                    self.problems.error(Code::SchemaInvalid, place, message, hint);
                }
                None
            }
            Err(other) => {
                let message = format!("the schema of {whose}: {other}");
                let hint = other.hint().unwrap_or_else(|| A_SCHEMA.to_owned());
                self.problems.error(Code::SchemaInvalid, self.places.of(pointer), message, hint);
                None
            }
        }
    }

    fn outputs(&mut self, workflow: &Workflow, included: &IncludedBy) -> Vec<(String, Expression)> {
        let stands = Stands { document: self.standing, ..Stands::default() };
        let steps = known_steps(workflow, &workflow.steps, "/steps", included);
        let known = Known { steps: Arc::new(steps), inputs: workflow.inputs.as_ref(), item: None, stands };
        let around = Around {
            known,
            before: Vec::new(),
            needed: Vec::new(),
            after: Vec::new(),
            own: "",
            inside: None,
            after_steps: None,
        };
        let mut outputs = Vec::new();
        for (name, source) in &workflow.outputs {
            let at = join("/outputs", name);
            let compiled = self.expression(source, &at, &around, Wanted::Anything, Seen::All);
            outputs.extend(compiled.map(|(expression, _)| (name.clone(), expression)));
        }
        outputs
    }
}

/// Every step with its pointer, those in loops after their loop.
pub(super) fn each_step(workflow: &Workflow) -> impl Iterator<Item = (String, &Step)> {
    workflow.steps.iter().enumerate().flat_map(|(index, step)| {
        let pointer = format!("/steps/{index}");
        let inner = step.repeat.iter().flat_map(|it| &it.steps).enumerate();
        let inner = inner.map({
            let pointer = pointer.clone();
            move |(at, inner)| (format!("{pointer}/loop/steps/{at}"), inner)
        });
        std::iter::once((pointer, step)).chain(inner)
    })
}

fn reference_code(error: &RefError) -> Code {
    match error {
        RefError::Escape(_) => Code::RefEscape,
        RefError::TooLarge(_) => Code::TooLarge,
        _ => Code::RefMissing,
    }
}

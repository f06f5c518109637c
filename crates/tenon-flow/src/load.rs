//! From a document to something that can run: files, includes, schemas, expressions and names resolved.
//!
//! Everything that could be wrong with a document is found here, in one pass and before the first model call. What is
//! wrong with the text alone is `parse.rs` and `validate.rs`. The checks of one document are in `load/checks.rs`.

mod checks;
mod expressions;
mod included;
mod inputs;
mod steps;
mod written;

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use ring::digest::{Context, SHA256};
use serde_json::Value;
use tenon_contract::Schema;
use tenon_core::Tool;

use crate::cel::Expression;
use crate::diagnostic::{Code, Problems, Severity};
use crate::document::{AgentSpec, Approval, OutputMode, Place, Step, Workflow};
use crate::parse::{self, Parsed};
use crate::pinned::{Files, Pinned};
use crate::references::RefError;
use crate::template::Template;
use crate::{Diagnostic, MAX_INCLUDE_DEPTH};

pub use inputs::{UnfitInputs, check_inputs};

/// Reads a document and everything it refers to.
pub fn load(file: &Path, options: &LoadOptions) -> Result<LoadedWorkflow, LoadError> {
    let unreadable =
        |error: std::io::Error| LoadError::Unreadable { file: file.to_owned(), reason: error.to_string() };
    let path = file.canonicalize().map_err(unreadable)?;
    load_from(Files::disk(file, &path), file, path, options)
}

/// The same from what a run holds of its document, whatever has become of the files.
pub fn load_pinned(pinned: &Pinned, options: &LoadOptions) -> Result<LoadedWorkflow, LoadError> {
    load_from(Files::Kept(pinned.clone()), &pinned.file, pinned.path.clone(), options)
}

fn load_from(
    source: Files,
    file: &Path,
    path: PathBuf,
    options: &LoadOptions,
) -> Result<LoadedWorkflow, LoadError> {
    let name = file.display().to_string();
    let text = source.read_text(&path, &name).map_err(|error| match error {
        RefError::Missing { reason, .. } => LoadError::Unreadable { file: file.to_owned(), reason },
        RefError::NotText { why, .. } => {
            let mut problems = Problems::new(file, &why.shown);
            problems.error(Code::Validation, why.place, why.to_string(), why.hint());
            LoadError::Invalid(problems.into_found())
        }
        RefError::TooLarge(_) => {
            LoadError::Invalid(vec![at_start(file, Code::TooLarge, error.to_string(), parse::SPLIT)])
        }
        other => LoadError::Unreadable { file: file.to_owned(), reason: other.to_string() },
    })?;
    checked(source, &text, file, path, options)
}

/// The same for a document that is not in a file yet: what it refers to is looked for in `folder`. `file` is what it
/// will be called, and says whether it is JSON.
pub fn load_text(
    text: &str,
    file: &Path,
    folder: &Path,
    options: &LoadOptions,
) -> Result<LoadedWorkflow, LoadError> {
    let path = folder.join(file.file_name().unwrap_or_default());
    checked(Files::disk(file, &path), text, file, path, options)
}

fn checked(
    source: Files,
    text: &str,
    file: &Path,
    path: PathBuf,
    options: &LoadOptions,
) -> Result<LoadedWorkflow, LoadError> {
    let open = vec![path.clone()];
    let mut loader = Loader { options, source, files: HashMap::new(), open, found: Vec::new() };
    let loaded = loader.document(text, file, &path);
    let Loader { mut found, source, .. } = loader;
    // The document itself first, then what it includes.
    found.sort_by(|left, right| {
        let place = |problem: &Diagnostic| (problem.line, problem.column);
        left.file.cmp(&right.file).then(place(left).cmp(&place(right)))
    });
    found.sort_by_key(|problem| problem.file != file);
    // A text that several steps refer to has its problems once.
    found.dedup();
    match loaded {
        Some(mut workflow) if !found.iter().any(Diagnostic::is_error) => {
            workflow.warnings = found;
            workflow.pinned = Arc::new(source.into_pinned());
            Ok(workflow)
        }
        _ => Err(LoadError::Invalid(found)),
    }
}

/// What the documents may count on.
#[derive(Default)]
pub struct LoadOptions {
    /// Tools beside the built-in ones and those of servers (`mcp__…`).
    pub tools: BTreeSet<String>,
    doubt: Option<Doubt>,
}

/// Why a model would not answer, if there is a reason to think so.
type Doubt = Box<dyn Fn(&str) -> Option<String> + Send + Sync>;

impl LoadOptions {
    /// Documents may list these tools, which the run is going to be given.
    #[must_use]
    pub fn with_tools<'t>(mut self, tools: impl IntoIterator<Item = &'t Arc<dyn Tool>>) -> LoadOptions {
        self.tools.extend(tools.into_iter().map(|tool| tool.spec().name.clone()));
        self
    }

    /// What is said of each model that a document names. It only warns: models are settled by a run.
    pub fn doubt_model(&mut self, doubt: impl Fn(&str) -> Option<String> + Send + Sync + 'static) {
        self.doubt = Some(Box::new(doubt));
    }
}

/// Why there is nothing to run.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    #[error("`{}` cannot be read: {reason}", file.display())]
    Unreadable { file: PathBuf, reason: String },
    /// Everything that is wrong, warnings included.
    #[error("{}", summary(.0))]
    Invalid(Vec<Diagnostic>),
}

impl LoadError {
    /// Everything that is wrong, warnings included. A file that cannot be read is one problem, at its start.
    pub fn into_diagnostics(self) -> Vec<Diagnostic> {
        let message = self.to_string();
        match self {
            LoadError::Unreadable { file, .. } => {
                vec![at_start(
                    &file,
                    Code::RefMissing,
                    message,
                    "is the name right, and may the file be read?",
                )]
            }
            LoadError::Invalid(found) => found,
        }
    }
}

/// A problem of a file whose text nobody has.
fn at_start(file: &Path, code: Code, message: String, hint: &str) -> Diagnostic {
    let Place { line, column } = Place::START;
    Diagnostic {
        code,
        severity: Severity::Error,
        file: file.to_owned(),
        line,
        column,
        message,
        hint: hint.to_owned(),
        snippet: String::new(),
    }
}

fn summary(found: &[Diagnostic]) -> String {
    let errors: Vec<&Diagnostic> = found.iter().filter(|problem| problem.is_error()).collect();
    match errors.as_slice() {
        [] => "the document is not valid".to_owned(),
        [only] => format!("{}:{}:{}: {}", only.file.display(), only.line, only.column, only.message),
        [first, rest @ ..] => format!(
            "{}:{}:{}: {} (and {} more problems)",
            first.file.display(),
            first.line,
            first.column,
            first.message,
            rest.len()
        ),
    }
}

/// One load: each file is read once, however often it is included.
struct Loader<'o> {
    options: &'o LoadOptions,
    source: Files,
    files: HashMap<PathBuf, Option<Included>>,
    /// The files on the way from the first document to the present one.
    open: Vec<PathBuf>,
    found: Vec<Diagnostic>,
}

#[derive(Clone)]
struct Included {
    workflow: Arc<LoadedWorkflow>,
    /// Includes below it, one inside the other.
    height: usize,
}

/// Why an include could not be followed; what is wrong inside the file is in `found`.
enum IncludeError {
    Reference(RefError),
    Itself,
    TooDeep,
    Inside,
}

impl Loader<'_> {
    fn document(&mut self, text: &str, file: &Path, path: &Path) -> Option<LoadedWorkflow> {
        let Parsed { workflow, places, found } = parse::read(text, file);
        let is_valid = !found.iter().any(Diagnostic::is_error);
        self.found.extend(found);
        // What could be read is checked to the end, so that everything is told at once.
        let loaded = checks::check(self, workflow?, &places, text, file, path);
        loaded.filter(|_| is_valid)
    }

    fn include(&mut self, folder: &Path, file: &Path, name: &str) -> Result<Included, IncludeError> {
        let path = self.source.confined(folder, name).map_err(IncludeError::Reference)?;
        if self.open.contains(&path) {
            return Err(IncludeError::Itself);
        }
        if self.open.len() > MAX_INCLUDE_DEPTH {
            return Err(IncludeError::TooDeep);
        }
        if !self.files.contains_key(&path) {
            let text = self.source.read_text(&path, name).map_err(IncludeError::Reference)?;
            let shown = file.parent().unwrap_or(Path::new("")).join(name);
            self.open.push(path.clone());
            let loaded = self.document(&text, &shown, &path);
            self.open.pop();
            let included = loaded
                .map(|workflow| Included { height: self.height(&workflow), workflow: Arc::new(workflow) });
            self.files.insert(path.clone(), included);
        }
        let included = self.files.get(&path).cloned().flatten().ok_or(IncludeError::Inside)?;
        // A file that was short enough elsewhere may be too deep here.
        if self.open.len() + included.height > MAX_INCLUDE_DEPTH {
            return Err(IncludeError::TooDeep);
        }
        Ok(included)
    }

    /// Each file's was worked out when it was read: going through all of them again would take for ever where files that
    /// include many include many.
    fn height(&self, workflow: &LoadedWorkflow) -> usize {
        let height = |inner: &Arc<LoadedWorkflow>| {
            let mut known = self.files.values().flatten();
            known.find(|known| Arc::ptr_eq(&known.workflow, inner)).map_or(1, |known| known.height + 1)
        };
        included_by(&workflow.steps).map(height).max().unwrap_or(0)
    }
}

/// Which workflows were gone into: one that many steps include is gone into once, or files that include each other many
/// times over would come to more steps than anybody can count.
#[derive(Default)]
pub(crate) struct Entered(HashSet<*const LoadedWorkflow>);

impl Entered {
    pub(crate) fn is_first(&mut self, workflow: &LoadedWorkflow) -> bool {
        self.0.insert(std::ptr::from_ref(workflow))
    }
}

/// The workflows that steps include, those in loops too.
pub(crate) fn included_by(steps: &[LoadedStep]) -> Box<dyn Iterator<Item = &Arc<LoadedWorkflow>> + '_> {
    Box::new(steps.iter().flat_map(|step| match &step.body {
        StepBody::Agent | StepBody::Approve(_) => {
            Box::new(std::iter::empty()) as Box<dyn Iterator<Item = &Arc<LoadedWorkflow>>>
        }
        StepBody::Include(inner) => Box::new(std::iter::once(inner)),
        StepBody::Loop(it) => included_by(&it.steps),
    }))
}

/// SHA-256 of what a run pins: the document with its texts in place, and the workflows it includes.
fn hash(workflow: &Workflow, steps: &[LoadedStep]) -> String {
    let mut context = Context::new(&SHA256);
    context.update(workflow.normalised().to_string().as_bytes());
    for inner in included_by(steps) {
        context.update(b"\n");
        context.update(inner.hash.as_bytes());
    }
    context.finish().as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A workflow that passed every check.
#[derive(Clone, Debug)]
pub struct LoadedWorkflow {
    /// As written, with the text of `@file` references in place of their names.
    pub workflow: Workflow,
    /// The file, and the folder its references are confined to.
    pub file: PathBuf,
    pub folder: PathBuf,
    pub agents: BTreeMap<String, Arc<LoadedAgent>>,
    /// In the order written.
    pub steps: Vec<LoadedStep>,
    /// Indices into `steps`, each after everything it depends on.
    pub order: Vec<usize>,
    pub inputs: Option<Schema>,
    pub outputs: Vec<(String, Expression)>,
    pub warnings: Vec<Diagnostic>,
    /// SHA-256 of the normalised document and everything it includes, in hex.
    pub hash: String,
    /// What it was read from. Of an included workflow this is with the document that includes it.
    pub pinned: Arc<Pinned>,
}

#[derive(Clone, Debug)]
pub struct LoadedAgent {
    pub name: String,
    pub spec: AgentSpec,
    /// The compiled `resultSchema`.
    pub result: Option<Schema>,
}

#[derive(Clone, Debug)]
pub struct LoadedStep {
    pub id: String,
    /// The step as written.
    pub spec: Step,
    /// Without one, an agent with no prompt, all tools and the default model.
    pub agent: Option<Arc<LoadedAgent>>,
    pub instructions: Template,
    /// Indices into the steps of the same scope.
    pub depends_on: Vec<usize>,
    pub condition: Option<Expression>,
    pub body: StepBody,
}

/// What a step does.
#[derive(Clone, Debug)]
pub enum StepBody {
    /// Its agent runs once.
    Agent,
    Include(Arc<LoadedWorkflow>),
    Loop(LoadedLoop),
    /// A person is asked.
    Approve(LoadedApproval),
}

#[derive(Clone, Debug)]
pub struct LoadedApproval {
    pub message: Template,
    /// As written.
    pub spec: Approval,
}

#[derive(Clone, Debug)]
pub struct LoadedLoop {
    pub kind: LoopKind,
    /// Without any, the step's own agent and instructions are the body.
    pub steps: Vec<LoadedStep>,
    /// Indices into `steps`, each after everything it depends on.
    pub order: Vec<usize>,
    pub output_mode: OutputMode,
}

#[derive(Clone, Debug)]
pub enum LoopKind {
    ForEach {
        items: LoadedItems,
        /// Items at a time; without one, all of them.
        max_concurrency: Option<u32>,
    },
    RepeatUntil {
        max_iterations: u32,
        until: Option<Expression>,
        judge: Option<Arc<LoadedAgent>>,
        delay: Option<Duration>,
    },
}

#[derive(Clone, Debug)]
pub enum LoadedItems {
    Expression(Expression),
    List(Vec<Value>),
}

//! From a document to something that can run: files, includes, schemas, expressions and names resolved.
//!
//! Everything that could be wrong with a document is found here, in one pass and before the first model call. What is
//! wrong with the text alone is `parse.rs` and `validate.rs`.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tenon_contract::Schema;

use crate::Diagnostic;
use crate::cel::Expression;
use crate::document::{AgentSpec, OutputMode, Step, Workflow};
use crate::template::Template;

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

//! What is run, and within which limits: a document by itself, or one that a step includes.
//!
//! How it is run is `interpreter.rs`.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use tenon_core::Whose;

use crate::isolation::{Isolation, WORKTREE};
use crate::load::LoadedWorkflow;
use crate::{
    Earlier, Item, Iteration, JsonText, Spent, StepKey, SubWorkflowRequest, TimedOutside, Upstream,
    with_defaults,
};

/// What is run.
#[derive(Clone, Debug)]
pub struct RunSpec {
    pub workflow: Arc<LoadedWorkflow>,
    /// The run, or for an included workflow the step that includes it: where every key begins.
    pub place: StepKey,
    /// The ids of the steps on the way from the run's document; empty for the run's own.
    pub document: Vec<String>,
    /// An object, checked against the document's `inputs`.
    pub inputs: JsonText,
    pub limits: RunLimits,
    /// What was used before the first step and belongs to none: on making the document, or by attempts that a run that goes on
    /// does not tell again. It counts.
    pub before: Spent,
    pub included: Option<Included>,
    pub at_once: AtOnce,
    /// Of earlier processes that had the run.
    pub earlier: Earlier,
}

/// How many steps are started at a time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AtOnce {
    /// As the document and the caller say.
    #[default]
    AsWritten,
    /// Whatever can be, to look at what was done: how many ran side by side may have been different then.
    Everything,
}

/// What an included workflow is given by the step that includes it.
#[derive(Clone, Debug, PartialEq)]
pub struct Included {
    /// From 1.
    pub depth: u32,
    pub outer: Vec<Upstream>,
    pub item: Option<Item>,
    pub iteration: Option<Iteration>,
    pub timed_outside: TimedOutside,
    /// Of the workflow around it, which holds for its steps too.
    pub isolation: Isolation,
    /// How messages call its document: its file, as seen from the folder of the run's document.
    pub name: Arc<str>,
    /// The folder of the run's document, as it is shown.
    pub seen_from: PathBuf,
    /// By earlier attempts at it. What its document may spend it may spend over all of them.
    pub spent_before: Spent,
    /// `maxRetries` of the step that includes it.
    pub transport_retries: Option<u32>,
}

/// What a caller allows a run. What the document says itself holds too.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct RunLimits {
    /// Where the document has no `maxConcurrency`.
    pub max_concurrency: Option<u32>,
    pub wall_time: Option<WallTime>,
    pub max_usd: Option<MoneyLimit>,
}

/// How long a run may take, and where somebody wrote it: a flag, a setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WallTime {
    pub ms: u64,
    /// As messages quote it.
    pub set_by: &'static str,
}

/// An amount, and where somebody wrote it: a flag, a setting, a field of a document.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MoneyLimit {
    pub usd: f64,
    /// As messages quote it.
    pub set_by: &'static str,
}

impl MoneyLimit {
    /// The smaller of what the caller and the document allow.
    pub fn of(caller: Option<MoneyLimit>, workflow: &LoadedWorkflow) -> Option<MoneyLimit> {
        let set_by = "`budget.maxUsd` of the document";
        let document = workflow.workflow.budget.max_usd.map(|usd| MoneyLimit { usd, set_by });
        match (caller, document) {
            (Some(caller), Some(document)) => Some(if document.usd < caller.usd { document } else { caller }),
            (caller, document) => caller.or(document),
        }
    }
}

impl RunSpec {
    /// A run of a document by itself.
    pub fn new(workflow: Arc<LoadedWorkflow>, run_id: &str, inputs: JsonText) -> RunSpec {
        RunSpec {
            workflow,
            place: StepKey::run(run_id),
            document: Vec::new(),
            inputs,
            limits: RunLimits::default(),
            before: Spent::default(),
            included: None,
            at_once: AtOnce::AsWritten,
            earlier: Earlier::default(),
        }
    }

    /// A workflow that a step of this run includes.
    pub fn included(
        &self,
        workflow: Arc<LoadedWorkflow>,
        key: StepKey,
        request: &SubWorkflowRequest,
    ) -> RunSpec {
        let name = self.name_of(&workflow);
        let mut spent_before = request.spent_before;
        spent_before.add(&self.earlier.given_up(&key));
        RunSpec {
            inputs: with_defaults(&workflow, request.inputs.clone()),
            workflow,
            place: key,
            document: request.document.clone(),
            // Time and money are the whole run's, and watched there.
            limits: RunLimits { wall_time: None, max_usd: None, ..self.limits },
            before: Spent::default(),
            included: Some(Included {
                depth: request.depth,
                outer: request.outer.clone(),
                item: request.item.clone(),
                iteration: request.iteration.clone(),
                timed_outside: request.timed_outside,
                isolation: Isolation::of(self.isolation()),
                name,
                seen_from: self.seen_from().to_owned(),
                spent_before,
                transport_retries: request.transport_retries,
            }),
            at_once: self.at_once,
            earlier: self.earlier.clone(),
        }
    }

    /// What steps are isolated by: a workflow can ask for more than the one around it, never for less.
    pub(crate) fn isolation(&self) -> Option<&str> {
        let own = self.workflow.workflow.options.isolation.as_deref();
        match (self.included.as_ref().map(|included| included.isolation), Isolation::of(own)) {
            (Some(Isolation::Worktree), _) | (_, Isolation::Worktree) => Some(WORKTREE),
            (_, Isolation::Nothing) => None,
            (_, Isolation::Unknown) => own,
        }
    }

    /// Whose budget and options these are.
    pub(crate) fn whose(&self) -> Whose {
        match &self.included {
            None => Whose::Run,
            Some(included) => Whose::Document(Arc::clone(&included.name)),
        }
    }

    /// How messages call a document that is included here.
    pub(crate) fn name_of(&self, included: &LoadedWorkflow) -> Arc<str> {
        let file = included.file.strip_prefix(self.seen_from()).unwrap_or(&included.file);
        file.to_string_lossy().into()
    }

    fn seen_from(&self) -> &Path {
        match &self.included {
            None => self.workflow.file.parent().unwrap_or(Path::new("")),
            Some(included) => &included.seen_from,
        }
    }

    pub(crate) fn depth(&self) -> usize {
        self.included.as_ref().map_or(0, |included| included.depth as usize)
    }
}

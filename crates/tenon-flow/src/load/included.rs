//! The workflows that a document includes: loaded, and fit to be included by it.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use super::checks::{Check, each_step};
use super::{IncludeError, LoadedAgent, LoadedStep, LoadedWorkflow, Loader, StepBody, inputs};
use crate::MAX_INCLUDE_DEPTH;
use crate::diagnostic::{Code, Severity, nearest, quoted};
use crate::document::{Place, Workflow};
use crate::interpreter::includes::INNER_STEPS;
use crate::parse::{self, join};
use crate::pinned::Files;
use crate::references::RefError;

/// The workflows that steps include, by the pointer of the step; those that can be used.
pub(super) type IncludedBy = BTreeMap<String, Arc<LoadedWorkflow>>;

impl Check<'_> {
    /// What each step includes, those in loops too.
    pub(super) fn includes(&mut self, loader: &mut Loader<'_>, workflow: &Workflow) -> IncludedBy {
        let mut included = BTreeMap::new();
        for (pointer, step) in each_step(workflow) {
            let Some(name) = &step.include else { continue };
            if let Some(inner) = self.include(loader, workflow, name, &join(&pointer, "include")) {
                included.insert(pointer, inner);
            }
        }
        self.unused_includes(loader, workflow);
        included
    }

    /// A name that no step uses does nothing, but a path that leads nowhere is a mistake all the same.
    fn unused_includes(&mut self, loader: &Loader<'_>, workflow: &Workflow) {
        // A run keeps the files that it used.
        if matches!(loader.source, Files::Kept(_)) {
            return;
        }
        let is_used = |name: &str| each_step(workflow).any(|(_, step)| step.include.as_deref() == Some(name));
        for (name, path) in workflow.includes.iter().filter(|(name, _)| !is_used(name)) {
            let Err(error) = loader.source.confined(self.folder, path).and_then(|file| is_file(&file, path))
            else {
                continue;
            };
            let code = match error {
                RefError::Escape(_) => Code::IncludeEscape,
                _ => Code::IncludeMissing,
            };
            let place = self.places.of(&join("/includes", name));
            let message = format!("{error}; no step includes `{}`", quoted(name));
            self.problems.warning(code, place, message, error.hint());
        }
    }

    fn include(
        &mut self,
        loader: &mut Loader<'_>,
        workflow: &Workflow,
        name: &str,
        pointer: &str,
    ) -> Option<Arc<LoadedWorkflow>> {
        let file = workflow.includes.get(name).map_or(name, String::as_str);
        let place = self.places.of(pointer);
        let inner = match loader.include(self.folder, self.file, file) {
            Ok(included) => included.workflow,
            Err(error) => {
                self.include_error(error, workflow, (name, file), place);
                return None;
            }
        };
        let mut fits = true;
        for agent in inner.workflow.agents.keys().filter(|agent| workflow.agents.contains_key(*agent)) {
            let message = format!(
                "include `{}`: agent name collision with parent workflow: `{}`",
                quoted(name),
                quoted(agent)
            );
            let hint = "give the agent another name in one of the two documents";
            self.problems.error(Code::IncludeCollision, place, message, hint);
            fits = false;
        }
        if let Some(what) = takes_inner_steps(&inner) {
            let message = format!(
                "include `{}`: {what} is called `{INNER_STEPS}`, and takes the place of what became of its steps",
                quoted(name)
            );
            let hint =
                "call it something else, if the status or the content of inner steps is to be read there";
            self.problems.warning(Code::IncludeCollision, place, message, hint);
        }
        for (severity, message, hint) in inputs::misfits(workflow.inputs.as_ref(), &inner, self.standing) {
            fits &= severity != Severity::Error;
            let message = format!("include `{}`: {message}", quoted(name));
            self.problems.add(&self.problems.source(), severity, Code::IncludeInputs, place, message, hint);
        }
        fits.then_some(inner)
    }

    /// `name` is what a step wrote, `file` the path that it stands for.
    fn include_error(
        &mut self,
        error: IncludeError,
        workflow: &Workflow,
        (name, file): (&str, &str),
        place: Place,
    ) {
        match error {
            IncludeError::Reference(RefError::NotText { why, .. }) => self.no_text(file, &why),
            IncludeError::Reference(error) => {
                let code = match error {
                    RefError::Escape(_) => Code::IncludeEscape,
                    RefError::TooLarge(_) => Code::TooLarge,
                    _ => Code::IncludeMissing,
                };
                let meant = nearest(name, workflow.includes.keys().map(String::as_str));
                let hint = match (meant.filter(|meant| *meant != name), &error) {
                    (Some(meant), _) => format!("did you mean `{meant}`?"),
                    (None, RefError::TooLarge(_)) => parse::SPLIT.to_owned(),
                    (None, error) => error.hint(),
                };
                self.problems.error(code, place, error.to_string(), hint);
            }
            IncludeError::Itself => {
                let message = format!("`{}` includes itself, directly or not", quoted(name));
                let hint = "a workflow that is done again and again is a `loop`";
                self.problems.error(Code::IncludeDepth, place, message, hint);
            }
            IncludeError::TooDeep => {
                let message =
                    format!("more than {MAX_INCLUDE_DEPTH} workflows are included one inside the other");
                let hint = "include it from a document further out";
                self.problems.error(Code::IncludeDepth, place, message, hint);
            }
            // It is said where it is wrong.
            IncludeError::Inside => {}
        }
    }
}

/// What an included workflow gives by the name under which its steps are told.
fn takes_inner_steps(inner: &LoadedWorkflow) -> Option<String> {
    if !inner.outputs.is_empty() {
        return inner
            .outputs
            .iter()
            .any(|(name, _)| name == INNER_STEPS)
            .then(|| "one of its `outputs`".to_owned());
    }
    let has_it = |agent: &&Arc<LoadedAgent>| {
        let schema = agent.spec.result_schema.as_ref();
        schema.and_then(|schema| schema.get("properties")?.get(INNER_STEPS)).is_some()
    };
    // Whichever step completes last gives its result.
    let of = |step: &LoadedStep| match &step.body {
        StepBody::Loop(it) if !it.steps.is_empty() => {
            it.steps.iter().filter_map(|inner| inner.agent.clone()).collect::<Vec<_>>()
        }
        StepBody::Agent | StepBody::Loop(_) | StepBody::Include(_) | StepBody::Approve(_) => {
            step.agent.iter().cloned().collect()
        }
    };
    let agents: Vec<Arc<LoadedAgent>> = inner.steps.iter().flat_map(of).collect();
    agents
        .iter()
        .find(has_it)
        .map(|agent| format!("a field in the result of its agent `{}`", quoted(&agent.name)))
}

fn is_file(file: &Path, name: &str) -> Result<(), RefError> {
    let reason = || "it is not a file".to_owned();
    if file.is_file() { Ok(()) } else { Err(RefError::Missing { name: name.to_owned(), reason: reason() }) }
}

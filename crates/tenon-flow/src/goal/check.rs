//! Is a plan a workflow that can run here? The checks of `tenon flow validate` and those before a run, told by JSON Pointer.

use std::path::{Path, PathBuf};

use serde_json::Value;
use tenon_contract::Violation;
use tenon_tools::{Permissions, Registry};

use crate::declared_tools::never_of_steps;
use crate::document::{Place, Places, Workflow};
use crate::parse::{self, Parsed, join};
use crate::references::MARK;
use crate::{Diagnostic, LoadOptions, LoadedWorkflow, load_text, unusable_tools};

/// What a plan is called until it has a file.
const NAME: &str = "plan.json";

pub(super) struct Checks {
    pub(super) registry: Registry,
    pub(super) permissions: Permissions,
    pub(super) folder: PathBuf,
}

impl Checks {
    /// The workflow and its document, or everything that is wrong.
    pub(super) fn check(&self, plan: &str) -> Result<(LoadedWorkflow, Value), Vec<Violation>> {
        let document: Value = serde_json::from_str(plan).unwrap_or_default();
        let text = format!("{document:#}\n");
        let file = Path::new(NAME);
        let Parsed { workflow, places, .. } = parse::read(&text, file);
        // Looked for before anything is loaded: a plan shows a model no files.
        let named = workflow.as_ref().map(texts_in_files).unwrap_or_default();
        if !named.is_empty() {
            return Err(named);
        }
        let mut options = LoadOptions::default();
        options.tools.extend(self.registry.names().into_iter().filter(|name| never_of_steps(name).is_none()));
        let workflow = load_text(&text, file, &self.folder, &options).map_err(|error| {
            let found = error.into_diagnostics();
            found
                .iter()
                .filter(|found| found.is_error())
                .map(|found| violation(found, &places))
                .collect::<Vec<_>>()
        })?;
        let unusable: Vec<Violation> = unusable_tools(&workflow, &self.registry, &self.permissions)
            .into_iter()
            .map(|tool| Violation {
                path: format!("{}/tools", join("/agents", &tool.agent)),
                message: format!("the tool `{}` cannot be used in this run: {}", tool.tool, tool.reason),
            })
            .collect();
        if unusable.is_empty() { Ok((workflow, document)) } else { Err(unusable) }
    }
}

fn violation(found: &Diagnostic, places: &Places) -> Violation {
    let place = Place { line: found.line, column: found.column };
    let message = format!("{} [{}] (hint: {})", found.message, found.code.text(), found.hint);
    Violation { path: places.at(place).to_owned(), message }
}

/// Texts that say they stand in a file.
fn texts_in_files(workflow: &Workflow) -> Vec<Violation> {
    let prompts =
        workflow.agents.iter().map(|(name, agent)| (join(&join("/agents", name), "prompt"), &agent.prompt));
    let steps = workflow.steps.iter().enumerate().flat_map(|(index, step)| {
        let inner = step.repeat.iter().flat_map(|it| &it.steps).enumerate();
        let inner = inner.map(move |(at, inner)| (format!("/steps/{index}/loop/steps/{at}"), inner));
        std::iter::once((format!("/steps/{index}"), step)).chain(inner)
    });
    let instructions = steps.map(|(pointer, step)| (join(&pointer, "instructions"), &step.instructions));
    prompts
        .chain(instructions)
        .filter(|(_, text)| text.starts_with(MARK))
        .map(|(path, _)| Violation {
            path,
            message: format!("a text that begins with `{MARK}` names a file, and a plan has no files: write the text itself"),
        })
        .collect()
}

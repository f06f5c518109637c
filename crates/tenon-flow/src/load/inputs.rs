//! Inputs of included workflows. An included workflow is given the inputs of the run, all of them and unchanged, so what it
//! asks for must be what the document around it asks for.
//!
//! What can never fit is told when the document is loaded; what was really given is checked against every included
//! workflow before the first model call ([`check_inputs`]).

use serde_json::Value;
use tenon_contract::Rejection;

use super::{LoadedWorkflow, included_by};
use crate::cel::{FieldIs, Standing, View, of_views, views};
use crate::diagnostic::{Severity, quoted};

/// What a document's inputs lack for a workflow that it includes: how bad it is, what, and what to do.
pub(super) fn misfits(
    outer: Option<&Value>,
    inner: &LoadedWorkflow,
    standing: Standing,
) -> Vec<(Severity, String, String)> {
    let Some(wanted) = inner.workflow.inputs.as_ref() else { return Vec::new() };
    let Some(given) = outer else { return nothing_given(inner, standing) };
    let (wanted, given) = (views(wanted, &[wanted]), views(given, &[given]));
    // Where either can be read in several ways, only the values can tell.
    let ([inner_way], [outer_way]) = (wanted.as_slice(), given.as_slice()) else { return Vec::new() };
    let mut found = Vec::new();
    for name in inner_way.required() {
        found.extend(missing(name, outer_way));
    }
    for (name, schema) in inner_way.properties() {
        let root = inner.workflow.inputs.as_ref().unwrap_or(schema);
        let FieldIs::Described(theirs) = outer_way.field(name) else { continue };
        let wants = of_views(&views(root, &[schema]));
        let gives = of_views(&views(outer.unwrap_or(schema), &theirs));
        let (Some(wants), Some(gives)) = (wants, gives) else { continue };
        if wants.is_apart_from(&gives) {
            let is_certain = inner_way.requires(name) || outer_way.requires(name);
            let severity = if is_certain { Severity::Error } else { Severity::Warning };
            let message = format!(
                "its input `{}` is {}, and here it is {}",
                quoted(name),
                wants.words(),
                gives.words()
            );
            found.push((
                severity,
                message,
                "describe it alike in both documents, or give it another name".to_owned(),
            ));
        }
    }
    found
}

/// A document without `inputs` is given none.
fn nothing_given(inner: &LoadedWorkflow, standing: Standing) -> Vec<(Severity, String, String)> {
    let Some(schema) = &inner.inputs else { return Vec::new() };
    // What is around an included document may have inputs.
    if standing == Standing::Included || schema.check("{}").is_ok() {
        return Vec::new();
    }
    let required: Vec<String> =
        views_of(inner).iter().flat_map(View::required).map(|name| format!("`{}`", quoted(name))).collect();
    let what =
        if required.is_empty() { "inputs".to_owned() } else { format!("the inputs {}", required.join(", ")) };
    let message = format!("it needs {what}, and this document declares no `inputs`");
    let hint = "declare them here under `inputs:`; an included workflow is given those of the run";
    vec![(Severity::Error, message, hint.to_owned())]
}

fn views_of(workflow: &LoadedWorkflow) -> Vec<View<'_>> {
    workflow.workflow.inputs.as_ref().map(|schema| views(schema, &[schema])).unwrap_or_default()
}

fn missing(name: &str, outer: &View<'_>) -> Option<(Severity, String, String)> {
    let name = quoted(name);
    match outer.field(&name) {
        FieldIs::RuledOut | FieldIs::NotAnObject => {
            let message = format!("it needs the input `{name}`, which the inputs of this document rule out");
            Some((Severity::Error, message, format!("add `{name}` to `inputs` here, as required")))
        }
        FieldIs::Unmentioned => {
            let message =
                format!("it needs the input `{name}`, which the inputs of this document do not mention");
            Some((Severity::Warning, message, format!("add `{name}` to `inputs` here, as required")))
        }
        // A default is given where nobody gives anything.
        FieldIs::Described(schemas) if schemas.iter().any(|schema| schema.get("default").is_some()) => None,
        FieldIs::Described(_) if !outer.requires(&name) => {
            let message = format!("it needs the input `{name}`, which may be left out here");
            Some((Severity::Warning, message, format!("add `{name}` to `required` of `inputs` here")))
        }
        FieldIs::Described(_) | FieldIs::Open => None,
    }
}

/// Whether the inputs of a run are what the document, and every workflow it includes, asks for.
pub fn check_inputs(workflow: &LoadedWorkflow, inputs: &str) -> Result<(), UnfitInputs> {
    if let Some(schema) = &workflow.inputs {
        schema.check(inputs).map_err(|rejection| UnfitInputs::Document(told(&rejection)))?;
    }
    let mut open: Vec<&LoadedWorkflow> = included_by(&workflow.steps).map(AsRef::as_ref).collect();
    let mut seen: Vec<&std::path::Path> = Vec::new();
    while let Some(inner) = open.pop() {
        // However often it is included, it is given the same.
        if seen.contains(&inner.file.as_path()) {
            continue;
        }
        seen.push(&inner.file);
        if let Some(schema) = &inner.inputs {
            schema.check(inputs).map_err(|rejection| UnfitInputs::Included {
                name: inner.workflow.name.clone(),
                reason: told(&rejection),
            })?;
        }
        open.extend(included_by(&inner.steps).map(AsRef::as_ref));
    }
    Ok(())
}

fn told(rejection: &Rejection) -> String {
    rejection.told().replace('\n', "; ")
}

/// Why the inputs of a run cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UnfitInputs {
    #[error("the inputs do not fit the document: {0}")]
    Document(String),
    #[error("the inputs do not fit the included workflow `{name}`: {reason}")]
    Included { name: String, reason: String },
}

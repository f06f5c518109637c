//! `tenon flow`: which of its commands. Here are `validate` and `plan`: documents are checked and drawn without a model, a key or a session.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use tenon_config::{
    ChoiceError, Loaded, ModelChoice, ModelFlags, ProjectTrust, Settings, Sources, Surroundings,
    choose_fallback, choose_model,
};
use tenon_core::{ErrorClass, Failure, exit_code, harmless_line};
use tenon_flow::{Diagnostic, Drawing, LoadError, LoadOptions, LoadedWorkflow, Plan, load};

use crate::args::RunArgs;
use crate::flow_args::{FlowCommand, PlanFormat, ReportFormat};
use crate::manual::print;
use crate::stderr::{Level, Reporter, line};
use crate::{flow_approve, flow_run, flow_runs, model, surroundings, sys};

pub fn main(command: FlowCommand) -> u8 {
    match command {
        FlowCommand::Validate { files, format } => validate(&files, format),
        FlowCommand::Plan { file, format } => plan(&file, format),
        FlowCommand::Run(args) => flow_run::main(args),
        FlowCommand::Resume(args) => flow_run::resume(args),
        FlowCommand::List { limit, format } => flow_runs::list(limit, format),
        FlowCommand::Show { run, payloads, html: Some(file), .. } => {
            flow_runs::write_page(&run, &file, payloads)
        }
        FlowCommand::Show { run, format, payloads, html: None } => flow_runs::show(&run, format, payloads),
        FlowCommand::Approve(args) => flow_approve::main(args),
        FlowCommand::Cancel { run } => flow_runs::cancel(&run),
        FlowCommand::Delete { runs } => flow_runs::delete(&runs),
        FlowCommand::Export { run } => flow_runs::export(&run),
    }
}

/// Tools and models as this machine knows them. Models only warn: which one answers is settled when a run begins.
pub fn load_options() -> LoadOptions {
    let here = surroundings::collect(None);
    match tenon_config::load(&here, &Sources::all(), ProjectTrust::Pinned) {
        Ok(Loaded { settings, .. }) => doubting(move |name| {
            let flags = ModelFlags { model: Some(name), ..ModelFlags::default() };
            choose_model(flags, &settings, &here.env)
        }),
        Err(_) => LoadOptions::default(),
    }
}

/// The same for a document that is run, with the settings of the run. Where `-m` or a recording answers for all of them, the
/// models that the document names are never asked, and nothing is said of them.
pub fn run_options(args: &RunArgs, settings: &Settings, here: &Surroundings) -> LoadOptions {
    if args.model.is_some() || args.replay.is_some() {
        return LoadOptions::default();
    }
    let (args, settings, env) = (args.clone(), settings.clone(), here.env.clone());
    doubting(move |name| {
        let flags = model::flags(&args);
        match choose_model(flags, &settings, &env) {
            Ok(first) => choose_fallback(name, &first, flags, &settings, &env),
            // A document that names all its models needs no default.
            Err(_) => choose_model(ModelFlags { model: Some(name), ..flags }, &settings, &env),
        }
    })
}

fn doubting(
    choose: impl Fn(&str) -> Result<ModelChoice, ChoiceError> + Send + Sync + 'static,
) -> LoadOptions {
    let mut options = LoadOptions::default();
    options.doubt_model(move |name| match choose(name) {
        Ok(choice) if name.contains('/') && !name.starts_with(&format!("{}/", choice.provider)) => {
            Some(format!("no provider is called `{}`, so `{}` is asked", before(name), choice.provider))
        }
        Ok(_) => None,
        Err(ChoiceError::NoCredentials { message, .. } | ChoiceError::Config { message, .. }) => {
            Some(message)
        }
    });
    options
}

/// A document that is to be run; `file` is how it was called.
pub fn read_document(
    path: &Path,
    file: &Path,
    options: &LoadOptions,
    reporter: Reporter,
) -> Result<LoadedWorkflow, Failure> {
    let flow = load(path, options).map_err(|error| match &error {
        LoadError::Unreadable { .. } => Failure::new(ErrorClass::Input, error.to_string()),
        LoadError::Invalid(found) => {
            found.iter().for_each(|problem| line(&problem.to_string()));
            not_valid(file, found)
        }
    })?;
    flow.warnings.iter().for_each(|warning| reporter.note(&warning.to_string()));
    Ok(flow)
}

/// What is wrong with it was told line by line.
fn not_valid(file: &Path, found: &[Diagnostic]) -> Failure {
    let errors: Vec<&Diagnostic> = found.iter().filter(|problem| problem.is_error()).collect();
    let (count, plural) = (errors.len(), if errors.len() == 1 { "" } else { "s" });
    let first = errors
        .first()
        .map(|first| format!(", the first in line {} of `{}`", first.line, first.file.display()));
    let file = file.display();
    let message = format!("`{file}` is not valid: {count} problem{plural}{}", first.unwrap_or_default());
    Failure::new(ErrorClass::Config, message)
        .hint(format!("`tenon flow validate {file}` shows everything that is wrong"))
}

fn before(name: &str) -> &str {
    name.split('/').next().unwrap_or(name)
}

fn validate(files: &[PathBuf], format: ReportFormat) -> u8 {
    let options = load_options();
    let mut code = 0;
    let mut report = String::new();
    let mut found: Vec<Diagnostic> = Vec::new();
    for file in files {
        match load(file, &options) {
            Ok(workflow) => {
                found.extend(workflow.warnings.clone());
                report.push_str(&told(&workflow.warnings));
                report.push_str(&verdict(file, &workflow));
            }
            Err(LoadError::Invalid(problems)) => {
                report.push_str(&told(&problems));
                let errors = problems.iter().filter(|problem| problem.is_error()).count();
                let plural = if errors == 1 { "" } else { "s" };
                report.push_str(&format!("not valid: {} ({errors} problem{plural})\n", called(file)));
                found.extend(problems);
                code = exit_code(ErrorClass::Config);
            }
            Err(error @ LoadError::Unreadable { .. }) => {
                // A document that is known to be wrong weighs more than one that nobody could read.
                code = code.max(unreadable(&error));
                found.extend(error.into_diagnostics());
            }
        }
    }
    let text = match format {
        ReportFormat::Text => report,
        ReportFormat::Json => format!("{}\n", as_json(&found)),
    };
    print(text.as_bytes()).max(code)
}

fn plan(file: &Path, format: PlanFormat) -> u8 {
    match load(file, &LoadOptions::default()) {
        Ok(workflow) => {
            let plan = Plan::of_loaded(&workflow);
            let drawn = match format {
                PlanFormat::Text => {
                    let columns = sys::terminal_size(sys::Terminal::Stdout).map(|size| size.columns);
                    // A file or a pipe has no edge.
                    plan.draw_within(columns.unwrap_or(usize::MAX))
                }
                PlanFormat::Mermaid => plan.draw(Drawing::Mermaid),
                PlanFormat::Svg => plan.draw(Drawing::Svg),
                PlanFormat::Json => plan.draw(Drawing::Json),
            };
            print(drawn.as_bytes())
        }
        Err(LoadError::Invalid(problems)) => {
            line(told(&problems).trim_end());
            exit_code(ErrorClass::Config)
        }
        Err(error @ LoadError::Unreadable { .. }) => unreadable(&error),
    }
}

fn unreadable(error: &LoadError) -> u8 {
    let failure = Failure::new(ErrorClass::Input, error.to_string());
    Reporter { level: Level::Quiet, heartbeats: false, is_terminal: false }.failure(&failure);
    failure.exit_code()
}

/// Each problem with its line, a blank line after it.
fn told(found: &[Diagnostic]) -> String {
    found.iter().map(|problem| format!("{problem}\n\n")).collect()
}

fn verdict(file: &Path, workflow: &LoadedWorkflow) -> String {
    let steps = workflow.steps.len();
    let plural = if steps == 1 { "" } else { "s" };
    format!("ok: {} ({steps} step{plural})\n", called(file))
}

/// A name of a file may hold anything.
fn called(file: &Path) -> String {
    harmless_line(&file.display().to_string()).into_owned()
}

pub fn as_json(found: &[Diagnostic]) -> Value {
    json!({ "diagnostics": found })
}

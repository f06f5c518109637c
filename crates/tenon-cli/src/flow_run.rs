//! `tenon flow run`: a document, its inputs and its surroundings put together, run, and shown.
//!
//! What steps are made of comes from the plan of a single run (`plan.rs`), so flags and settings mean the same. Which flags a
//! workflow takes is in `flow_usage.rs`, what its inputs are in `flow_inputs.rs`, what is shown while it runs in
//! `flow_progress.rs`, and what goes to stdout in `flow_output.rs`.

use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tenon_agent::{Agent, AgentTemplate, Audience, NamedModel, Stop};
use tenon_config::{ChoiceError, Loaded, ModelFlags, choose_model};
use tenon_core::{ErrorClass, Failure, Id, IdSource, NoClient, NoSink, Price, Rates};
use tenon_flow::{
    Diagnostic, FlowEmitter, FlowSink, FolderTools, JsonText, LoadError, LoadedWorkflow, ModelPrice,
    ModelWish, MoneyLimit, Report, RunLimits, RunSpec, Spent, StepModels, StepParts, StopRun,
    WorkflowOutcome, WorkflowStatus, Worktrees, load, unusable_tools,
};
use tenon_tools::SessionSource;
use tenon_wire::Format;

use crate::args::{OutputFormat, RunArgs};
use crate::exit_code::exit_code_of_flow;
use crate::flow_args::FlowRunArgs;
use crate::flow_output::FlowOutput;
use crate::flow_progress::Progress;
use crate::flow_usage::{self, Asked, Task};
use crate::goal::{Made, Maker};
use crate::goal_args::GoalTask;
use crate::goal_file::PlanFile;
use crate::model::Connections;
use crate::plan::{AskedBy, Identity, Plan, Planned};
use crate::session::Origin;
use crate::stderr::Reporter;
use crate::stdin::{self, Piped};
use crate::stdout::Stdout;
use crate::telemetry::Telemetry;
use crate::work_folder::WorkFolders;
use crate::{
    cli_settings, client_marks, flow_command, flow_hooks, flow_inputs, money, run, signals, surroundings,
};

/// Digits of a run's id that are random.
const RUN_ID_BYTES: usize = 8;

pub fn main(args: FlowRunArgs) -> u8 {
    let asked = match flow_usage::check(args) {
        Ok(asked) => asked,
        Err(error) => return run::usage_error_of("tenon flow run", &error),
    };
    start(asked)
}

/// What was asked for is in order, so it begins.
pub fn start(asked: Asked) -> u8 {
    let reporter = run::reporter(&asked.run);
    let runtime = match run::runtime() {
        Ok(runtime) => runtime,
        Err(failure) => {
            reporter.failure(&failure);
            return failure.exit_code();
        }
    };
    let code = runtime.block_on(run_flow(asked, reporter));
    // A thread that still reads stdin must not hold up the end.
    runtime.shutdown_background();
    code
}

async fn run_flow(asked: Asked, reporter: Reporter) -> u8 {
    let stop = Stop::default();
    signals::listen(stop.clone());
    let ids = match identity() {
        Ok(ids) => ids,
        Err(failure) => {
            reporter.failure(&failure);
            return failure.exit_code();
        }
    };
    let run_id = asked.run_id.clone().unwrap_or_else(|| run_id_of(ids.session));
    reporter.note(&format!("run: {run_id}"));
    let stdout = Arc::new(Stdout::for_lines(reporter, stop.clone()));
    let progress = Arc::new(Progress::new(reporter));
    let output = Arc::new(FlowOutput::new(Arc::clone(&stdout), asked.format, Arc::clone(&progress)));
    let events = Arc::new(FlowEmitter::new(&run_id, Arc::clone(&output) as Arc<dyn FlowSink>));
    let here = surroundings::collect(asked.run.cwd.as_deref());
    let mut warnings = Vec::new();
    let loaded = run::load_settings(&asked.run, &here);
    let settings = loaded.as_ref().ok().map(|loaded| &loaded.settings);
    let telemetry = Telemetry::start(&asked.run, settings, &here, &ids, &mut warnings);
    let surrounding = Surrounding { stop: &stop, reporter, ids: &ids, telemetry: &telemetry };
    let mut spent = Spent::default();
    let prepared = match loaded {
        Ok(loaded) => prepare(&asked, loaded, &run_id, &surrounding, &mut warnings, &mut spent).await,
        Err(failure) => Err(failure),
    };
    let ended = match prepared {
        Ok(Ready::Run(prepared)) => prepared.go(events, &stop, &progress).await,
        Ok(Ready::Print(document)) => {
            stdout.last_line(document.into_bytes());
            Ended { failure: None, status: WorkflowStatus::Completed, outcome: None }
        }
        Err(failure) => {
            warnings.iter().for_each(|warning| reporter.warn(warning));
            let status = match failure.class {
                ErrorClass::Interrupted(_) => WorkflowStatus::Cancelled,
                _ => WorkflowStatus::Failed,
            };
            output.failed_early(&events, Report::failed_early(&run_id, &failure, status, &spent));
            Ended { failure: Some(failure), status, outcome: None }
        }
    };
    let written = stdout.finish();
    progress.finish(ended.outcome.as_ref());
    let code = exit_code_of_flow(ended.status, ended.failure.as_ref(), &written);
    telemetry.finish(reporter).await;
    code
}

/// What is there whatever the document says.
struct Surrounding<'a> {
    stop: &'a Stop,
    reporter: Reporter,
    ids: &'a Identity,
    telemetry: &'a Telemetry,
}

/// What is left to be done when everything is found to be in order.
enum Ready {
    Run(Box<Prepared>),
    /// There was only a plan to be made.
    Print(String),
}

/// A run that is about to begin.
struct Prepared {
    spec: RunSpec,
    parts: StepParts,
    planned: Rest,
}

/// What is run: it is there, or a model is to write it.
enum Document<'a> {
    Read(Arc<LoadedWorkflow>),
    ToBeMade { task: &'a GoalTask, goal: String, file: PlanFile },
}

/// Is it known without stdin what is to be done?
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum HasTask {
    Yes,
    No,
}

/// What is put away after the run.
struct Rest {
    ending: crate::plan::Ending,
    hooks: tenon_tools::Hooks,
    recorder: Option<Arc<tenon_model::Recorder>>,
    reporter: Reporter,
    stop: Stop,
    scratch: PathBuf,
    /// Steps are made from what it holds.
    _registry: tenon_tools::Registry,
}

impl Rest {
    /// Nothing will run after all.
    async fn instead_of_run(self, failure: Failure) -> Failure {
        flow_hooks::at_end(&self.hooks, WorkflowStatus::Failed, &self.stop, self.reporter).await;
        self.ending.mcp.stop().await;
        remove_empty(&self.scratch);
        failure
    }

    async fn without_run(self, document: String) -> Result<Ready, Failure> {
        let recorded = self.recorder.as_ref().map_or(Ok(()), |recorder| recorder.check());
        match recorded {
            Ok(()) => {
                flow_hooks::at_end(&self.hooks, WorkflowStatus::Completed, &self.stop, self.reporter).await;
                self.ending.mcp.stop().await;
                Ok(Ready::Print(document))
            }
            Err(error) => Err(self.instead_of_run(error.into()).await),
        }
    }
}

struct Ended {
    status: WorkflowStatus,
    /// Why it ended as it did, when that was not up to the steps.
    failure: Option<Failure>,
    outcome: Option<WorkflowOutcome>,
}

/// Everything that can be wrong is found here, before the first model call.
async fn prepare(
    asked: &Asked,
    mut loaded: Loaded,
    run_id: &str,
    around: &Surrounding<'_>,
    warnings: &mut Vec<String>,
    spent: &mut Spent,
) -> Result<Ready, Failure> {
    let started_in = surroundings::started_in();
    let here = surroundings::collect(asked.run.cwd.as_deref());
    let scratch = std::env::temp_dir().join(format!("tenon-{}", around.ids.source.next()));
    let (document, inputs, context) = match &asked.task {
        Task::Document(file) => {
            let flow = read_document(&started_in, file, around.reporter)?;
            let inputs = flow_inputs::read(asked, &flow, &started_in)?;
            let context = context(asked, HasTask::Yes, around.stop, warnings).await?;
            (Document::Read(Arc::new(flow)), inputs, context)
        }
        Task::Goal(task) => {
            let home = here.tenon_home.as_deref();
            let file = PlanFile::prepare(task, &started_in, home, &scratch, run_id)?;
            let has_task = if task.text.is_some() { HasTask::Yes } else { HasTask::No };
            let piped = context(asked, has_task, around.stop, warnings).await?;
            let (goal, context) = task.apart(piped)?;
            (Document::ToBeMade { task, goal, file }, JsonText::of(&serde_json::json!({})), context)
        }
    };
    let read = match &document {
        Document::Read(flow) => Some(flow.as_ref()),
        Document::ToBeMade { .. } => None,
    };
    warnings.extend(loaded.warnings.iter().cloned());
    if let Some(flow) = read {
        tenon_flow::each_price(flow, &mut |model, price| {
            // What somebody set up for this machine is stronger than what a document says, and a document than its includes.
            loaded.settings.prices.entry(model.to_owned()).or_insert_with(|| price_of(price));
        });
    }
    let mut args = asked.run.clone();
    // Nothing of a workflow is a session.
    args.no_session = true;
    let max_usd = money::allowed(&args, &loaded.settings)?;
    let mut wall_time = cli_settings::limits(&args, &loaded.settings)?.wall_time;
    let is_forced = args.model.is_some();
    let named = read.filter(|_| !is_forced).map(named_models).unwrap_or_default();
    let flags = ModelFlags {
        model: args.model.as_deref(),
        base_url: args.base_url.as_deref(),
        api_key_env: args.api_key_env.as_deref(),
        auth_type: args.auth_type.as_deref(),
    };
    if args.replay.is_none()
        && let Err(ChoiceError::NoCredentials { .. }) = choose_model(flags, &loaded.settings, &here.env)
        && let Some(first) = named.first()
    {
        // A document that names all its models needs no default.
        args.model = Some(first.clone());
    }
    let plan = Plan {
        args: &args,
        here: &here,
        loaded,
        format: if asked.format == OutputFormat::Text { Format::Text } else { Format::Json },
        reporter: around.reporter,
        stdin_is_terminal: false,
        stop: around.stop,
        ids: around.ids,
        telemetry: around.telemetry,
        origin: Origin::New,
        client: Arc::new(NoClient),
        asked: AskedBy::Client,
        mirror: None,
        other_models: named.clone(),
    };
    let mcp_start = plan.loaded.settings.timeouts.mcp_start();
    let Planned {
        mut agent, ending, mcp, connections, recorder, own_tools, folders, subagents, memory, ..
    } = plan.planned(warnings, &mut None).await?;
    // What is listed, or planned with, has to be there by now.
    let starting = around.stop.cancel().run_until_cancelled(mcp.ready(mcp_start)).await;
    starting.iter().flatten().for_each(|warning| around.reporter.warn(warning));
    let told = match last_checks(read, &mut agent, &connections, &named, max_usd, around.reporter).await {
        Ok(told) => told,
        Err(failure) => {
            ending.mcp.stop().await;
            return Err(failure);
        }
    };
    let context = [context, told].into_iter().flatten().reduce(|all, more| format!("{all}\n\n{more}"));
    agent.audience = if asked.run.include_partial_messages { Audience::Live } else { Audience::Whole };
    let models = ModelsOfRun { connections, default: agent.info.model.clone(), is_forced };
    let worktrees = Worktrees {
        folder: agent.info.cwd.clone(),
        scratch: scratch.clone(),
        environment: git_environment(&args, &folders),
        work_in: work_in(Arc::clone(&folders)),
    };
    let registry = agent.registry.clone();
    let parts = StepParts {
        template: AgentTemplate::of(&agent, own_tools),
        registry: registry.clone(),
        models: Arc::new(models),
        memory,
        subagents,
        context,
        worktrees: Some(worktrees),
        fail_on_denied: args.fail_on_denied,
        trace: around.telemetry.trace(),
        sink: around.telemetry.watch(Arc::new(NoSink)),
    };
    let (reporter, stop) = (around.reporter, around.stop.clone());
    let planned = Rest { ending, hooks: agent.hooks, recorder, reporter, stop, scratch, _registry: registry };
    let (flow, before) = match document {
        Document::Read(flow) => (flow, Duration::ZERO),
        Document::ToBeMade { task, goal, file } => {
            let (context, format) = (parts.context.as_deref(), asked.format);
            let (stop, reporter) = (around.stop, around.reporter);
            let maker = Maker { task, goal: &goal, context, parts: &parts, file, format, stop, reporter };
            let made = match maker.make(spent).await {
                Ok(Made::Approved { file, took }) => {
                    let flow = read_document(&started_in, file.path(), reporter);
                    file.put_away();
                    flow.map(|flow| (flow, took))
                }
                Ok(Made::Printed(document)) => return planned.without_run(document).await,
                Err(failure) => Err(failure),
            };
            match made {
                Ok((flow, took)) => (Arc::new(flow), took),
                Err(failure) => return Err(planned.instead_of_run(failure).await),
            }
        }
    };
    wall_time = wall_time.map(|time| time.saturating_sub(before));
    let mut spec = RunSpec::new(flow, run_id, inputs);
    spec.before = *spent;
    spec.limits =
        RunLimits { max_concurrency: asked.max_concurrency, wall_time_ms: wall_time.map(millis), max_usd };
    Ok(Ready::Run(Box::new(Prepared { spec, parts, planned })))
}

/// What only the parts of a run know: tools that steps list, keys for the models they name, whether the budget can be kept, and
/// what hooks have to say.
async fn last_checks(
    flow: Option<&LoadedWorkflow>,
    agent: &mut Agent,
    connections: &Connections,
    named: &[String],
    max_usd: Option<MoneyLimit>,
    reporter: Reporter,
) -> Result<Option<String>, Failure> {
    if let Some(flow) = flow {
        can_be_used(flow, agent)?;
    }
    for name in named {
        connections.other(name, None).map_err(|failure| Failure {
            message: format!("the document names the model `{name}`: {}", failure.message),
            ..failure
        })?;
    }
    let max_usd = flow.map_or(max_usd, |flow| MoneyLimit::of(max_usd, flow));
    agent.budget = money::keep(max_usd, &agent.models)?;
    flow_hooks::at_start(agent, SessionSource::Startup, reporter).await
}

impl Prepared {
    async fn go(self, events: Arc<FlowEmitter>, stop: &Stop, progress: &Arc<Progress>) -> Ended {
        let Prepared { spec, parts, planned } = self;
        let stop_run = StopRun { stop: stop.clone(), ..StopRun::default() };
        let ticking = tokio::spawn(Arc::clone(progress).tick());
        let outcome = tenon_flow::run(spec, parts, events, Arc::new(tenon_flow::NoLog), stop_run).await;
        ticking.abort();
        let Rest { ending, hooks, recorder, reporter, scratch, _registry, .. } = planned;
        let mut failure = (outcome.status == WorkflowStatus::Cancelled).then(|| stop.failure());
        let mut status = outcome.status;
        if let Some(Err(error)) = recorder.map(|recorder| recorder.check()) {
            failure.get_or_insert(Failure::from(error));
            status = WorkflowStatus::Failed;
        }
        flow_hooks::at_end(&hooks, status, stop, reporter).await;
        ending.mcp.stop().await;
        remove_empty(&scratch);
        Ended { status, failure, outcome: Some(outcome) }
    }
}

/// A list of tools is not a grant.
fn can_be_used(flow: &LoadedWorkflow, agent: &Agent) -> Result<(), Failure> {
    match unusable_tools(flow, &agent.registry, &agent.permissions).into_iter().next() {
        None => Ok(()),
        Some(unusable) => Err(Failure::new(
            ErrorClass::Input,
            format!(
                "the step `{}` lists the tool `{}`, and {}",
                unusable.step, unusable.tool, unusable.reason
            ),
        )
        .hint(unusable.hint)),
    }
}

fn read_document(started_in: &Path, file: &Path, reporter: Reporter) -> Result<LoadedWorkflow, Failure> {
    let flow = load(&started_in.join(file), &flow_command::load_options()).map_err(|error| match &error {
        LoadError::Unreadable { .. } => Failure::new(ErrorClass::Input, error.to_string()),
        LoadError::Invalid(found) => {
            found.iter().for_each(|problem| crate::stderr::line(&problem.to_string()));
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

/// What every step is to know: stdin, then the words after the document.
async fn context(
    asked: &Asked,
    has_task: HasTask,
    stop: &Stop,
    warnings: &mut Vec<String>,
) -> Result<Option<String>, Failure> {
    let is_terminal = std::io::stdin().is_terminal();
    // Where there is a task, stdin is something besides, as with a prompt.
    let has_task = has_task == HasTask::Yes;
    let patience = stdin::patience(asked.run.stdin, has_task, asked.reads_stdin, is_terminal);
    let Piped { text, warning } = stdin::read(patience, stop).await?;
    warnings.extend(warning);
    let piped = text.trim_end_matches(['\n', '\r']);
    let given = asked.context.as_deref().unwrap_or_default();
    Ok(match (piped.trim().is_empty(), given.trim().is_empty()) {
        (true, true) => None,
        (true, false) => Some(given.to_owned()),
        (false, true) => Some(piped.to_owned()),
        (false, false) => Some(format!("{piped}\n\n{given}")),
    })
}

/// The models that the document's steps and agents name, each once.
fn named_models(flow: &LoadedWorkflow) -> Vec<String> {
    let mut names = Vec::new();
    tenon_flow::each_model(flow, &mut |name| {
        if !names.iter().any(|known| known == name) {
            names.push(name.to_owned());
        }
    });
    names
}

/// The run's own model, and those that steps name.
struct ModelsOfRun {
    connections: Connections,
    default: String,
    /// `-m` holds for every step.
    is_forced: bool,
}

impl StepModels for ModelsOfRun {
    fn model(&self, wish: &ModelWish, retries: Option<u32>) -> Result<NamedModel, Failure> {
        match wish.named().filter(|_| !self.is_forced) {
            Some(name) => self.connections.other(name, retries),
            None => Ok(NamedModel { client: self.connections.first(retries), name: self.default.clone() }),
        }
    }
}

fn price_of(price: &ModelPrice) -> Price {
    let ModelPrice { input, output, cache_read, cache_write } = *price;
    Price {
        rates: Rates {
            input,
            output,
            cache_read: cache_read.unwrap_or(input),
            cache_write: cache_write.unwrap_or(input),
        },
        above: Vec::new(),
    }
}

fn work_in(folders: Arc<WorkFolders>) -> tenon_flow::WorkIn {
    Arc::new(move |folder: &Path| {
        let permissions = folders.permissions_in_copy(folder)?;
        // What there is to say about the sandbox was said when the run began.
        let own_tools = folders.work_in(folder, &permissions, &mut Vec::new())?.own_tools;
        Ok(FolderTools { permissions, own_tools })
    })
}

/// What git is given: everything but keys and marks.
fn git_environment(args: &RunArgs, folders: &WorkFolders) -> Vec<(std::ffi::OsString, std::ffi::OsString)> {
    let kept = client_marks::kept_from_children(args, &folders.loaded.settings, &folders.here);
    std::env::vars_os().filter(|(name, _)| !kept.iter().any(|kept| name == kept.as_str())).collect()
}

/// Folders without files: what is left of copies that are gone. A copy that could not be put away stays.
fn remove_empty(folder: &Path) {
    if let Ok(inner) = std::fs::read_dir(folder) {
        inner.flatten().filter(|entry| entry.path().is_dir()).for_each(|entry| remove_empty(&entry.path()));
    }
    // It may hold something, or may never have been made.
    let _ = std::fs::remove_dir(folder);
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

fn identity() -> Result<Identity, Failure> {
    let mut seed = [0; 16];
    getrandom::fill(&mut seed).map_err(|error| {
        Failure::new(ErrorClass::Internal, format!("the system gave no random numbers: {error}"))
    })?;
    let source = Arc::new(IdSource::new(Id::from_random(seed)));
    Ok(Identity { session: source.next(), source })
}

fn run_id_of(id: Id) -> String {
    let digits: String = id.to_string().chars().rev().filter(|c| *c != '-').take(2 * RUN_ID_BYTES).collect();
    format!("run_{digits}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_id_has_sixteen_digits() {
        let id = run_id_of(Id::from_random([7; 16]));
        assert!(id.starts_with("run_") && id.len() == 20, "{id}");
        assert!(id[4..].chars().all(|c| c.is_ascii_hexdigit()));
    }
}

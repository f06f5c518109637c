//! What a run of a workflow is made of, put together: its document, inputs, models, tools, limits and its place in the journal.
//!
//! Everything that can be wrong is found here, before the first model call. What steps are made of comes from the plan of a
//! single run (`plan.rs`), so flags and settings mean the same. How the run goes on from here is in `flow_run.rs`.

use std::io::IsTerminal;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tenon_agent::{Agent, AgentTemplate, Audience, NamedModel, OF_THE_RUN, Stop, Subagents};
use tenon_config::{ChoiceError, Loaded, ModelFlags, choose_model};
use tenon_core::{ErrorClass, Failure, NoClient, NoSink, Price, Rates};
use tenon_flow::{
    FlowEmitter, FolderTools, Given, JournalError, JsonText, LoadedWorkflow, ModelPrice, ModelWish,
    MoneyLimit, RunLimits, RunSpec, Spent, Stage, StepModels, StepParts, Uncommitted, WallTime, Worktrees,
    first_approval, is_isolated, tool_refusal, unusable_tools,
};
use tenon_tools::SessionSource;
use tenon_wire::Format;

use crate::args::{OutputFormat, RunArgs};
use crate::flow_command::{read_document, run_options};
use crate::flow_folder::RunFolder;
use crate::flow_keep::{Keeping, PlanBegan};
use crate::flow_resume::Found;
use crate::flow_run::{Prepared, Ready, Rest, Source};
use crate::flow_usage::{Asked, Task};
use crate::goal::{Made, Maker};
use crate::goal_args::GoalTask;
use crate::goal_file::PlanFile;
use crate::model::Connections;
use crate::plan::{AskedBy, Identity, Plan, Planned};
use crate::session::Origin;
use crate::stderr::Reporter;
use crate::stdin::{self, Piped};
use crate::telemetry::Telemetry;
use crate::work_folder::WorkFolders;
use crate::{
    cli_settings, client_marks, flow_approve, flow_hooks, flow_inputs, flow_journal, flow_resume, goal,
    money, surroundings,
};

/// Everything that can be wrong is found here, before the first model call.
pub async fn prepare(
    asked: &Asked,
    source: Source,
    mut loaded: Loaded,
    run_id: &str,
    around: &Surrounding<'_>,
    warnings: &mut Vec<String>,
    spent: &mut Spent,
) -> Result<Ready, Failure> {
    let started_in = surroundings::started_in();
    let here = surroundings::collect(asked.run.cwd.as_deref());
    let folder = source.journal.as_ref().map(|journal| RunFolder::of(journal, run_id));
    // A step that was cut off goes on in the copy that it had; those of older runs are in a temporary folder.
    let before = source.found.as_ref().and_then(|found| flow_resume::scratch(&found.given));
    let scratch = before.or_else(|| folder.as_ref().map(RunFolder::copies)).unwrap_or_else(|| {
        let name = format!("{}{}", flow_resume::SCRATCH_PREFIX, around.ids.source.next());
        std::env::temp_dir().join(name)
    });
    let settings = loaded.settings.clone();
    let stage = source.found.as_ref().map_or(Stage::Begun, |found| Stage::of(&found.stored));
    let mut continued = None;
    let options = run_options(&asked.run, &settings, &here);
    let (document, inputs, context) = match &asked.task {
        Task::Resume(resume) if stage == Stage::Planning => {
            let found = found_by(&source, &resume.run)?;
            let task = flow_resume::goal_of(found, resume)?;
            let home = here.tenon_home.as_deref();
            let file = PlanFile::again(&task, &started_in, home, &scratch, run_id)?;
            let goal = task.text.clone().unwrap_or_default();
            let inputs = found.given.inputs.clone();
            (Document::ToBeMade { task, goal, file }, inputs, found.given.context.clone())
        }
        Task::Resume(resume) => {
            let found = found_by(&source, &resume.run)?;
            let document = flow_resume::document(found, resume, &started_in, &options, around.reporter)?;
            let inputs = flow_inputs::again(&found.given.inputs, &document.flow)?;
            let flow = Arc::clone(&document.flow);
            continued = Some(document);
            (Document::Read(flow), inputs, found.given.context.clone())
        }
        Task::Document(file) => {
            let flow = read_document(&started_in.join(file), file, &options, around.reporter)?;
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
            (
                Document::ToBeMade { task: task.clone(), goal, file },
                JsonText::of(&serde_json::json!({})),
                context,
            )
        }
    };
    let read = match &document {
        Document::Read(flow) => Some(flow.as_ref()),
        Document::ToBeMade { .. } => None,
    };
    if let (None, Some(step)) = (&source.journal, read.and_then(first_approval)) {
        return Err(flow_approve::needs_journal(&step));
    }
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
    let wall_time = cli_settings::limits(&args, &loaded.settings)?.wall_time;
    let time_set_by =
        if args.max_wall_time.is_some() { "`--max-wall-time`" } else { "`limits.wallTime` of the settings" };
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
    let commands = source.journal.as_ref().and_then(|_| flow_journal::commands(&here, run_id));
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
        commands: commands.clone(),
        outputs_of_run: folder.as_ref().map(RunFolder::outputs),
    };
    let mut kit = None;
    let mcp_start = plan.loaded.settings.timeouts.mcp_start();
    let Planned {
        mut agent, ending, mcp, connections, recorder, own_tools, folders, subagents, memory, ..
    } = plan.planned(warnings, &mut kit).await?;
    let secrets = kit.map(|kit| kit.secrets.without_words()).unwrap_or_default();
    // What is listed, or planned with, has to be there by now.
    let starting = around.stop.cancel().run_until_cancelled(mcp.ready(mcp_start)).await;
    starting.iter().flatten().for_each(|warning| around.reporter.warn(warning));
    let begins = if source.found.is_some() { SessionSource::Resume } else { SessionSource::Startup };
    let helpers = subagents.as_deref();
    let checked = last_checks(read, &mut agent, helpers, &connections, &named, max_usd, begins, around);
    let told = match checked.await {
        Ok(told) => told,
        Err(failure) => {
            ending.mcp.stop().await;
            return Err(failure);
        }
    };
    let older = source.found.as_ref().and_then(|found| flow_resume::scratch(&found.given));
    let mut kept = flow_resume::kept(&asked.run, older.as_deref());
    if let Document::ToBeMade { task, goal, .. } = &document {
        kept.extend(flow_resume::kept_of_goal(task, goal, &started_in));
    }
    let given_anew = source.found.as_ref().and_then(|found| flow_resume::given_anew(found, &asked.run));
    let given = Given { inputs, context, kept };
    let all_context = [given.context.clone(), told].into_iter().flatten();
    let context = all_context.reduce(|all, more| format!("{all}\n\n{more}"));
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
        not_for_steps: OF_THE_RUN,
        models: Arc::new(models),
        memory,
        subagents,
        context,
        worktrees: Some(worktrees),
        fail_on_denied: args.fail_on_denied,
        trace: around.telemetry.trace(),
        sink: around.telemetry.watch(Arc::new(NoSink)),
        coordination: asked.coordination,
    };
    let (reporter, stop) = (around.reporter, around.stop.clone());
    let hooks = agent.hooks;
    let planned =
        Rest { ending, hooks, recorder, reporter, stop, scratch, folder, commands, _registry: registry };
    if let Err(failure) = copies_can_be_made(read, parts.worktrees.as_ref(), reporter).await {
        return Err(planned.instead_of_run(failure).await);
    }
    let keeping = Keeping {
        journal: source.journal,
        given,
        given_anew,
        secrets,
        settings: &settings,
        cwd: parts.template.info.cwd.display().to_string(),
    };
    let timed = |time: Duration| WallTime { ms: millis(time), set_by: time_set_by };
    let limits = RunLimits { max_concurrency: asked.max_concurrency, wall_time: None, max_usd };
    match document {
        Document::Read(flow) => {
            if let (Stage::Planned, Task::Resume(resume), Some(found)) = (stage, &asked.task, &source.found) {
                let then = flow_resume::then_of(found, resume);
                let approved = goal::approve_again(&flow, then, run_id, around.stop, reporter);
                if let Err(failure) = approved.await {
                    return Err(planned.instead_of_run(failure).await);
                }
            }
            let mut spec = RunSpec::new(flow, run_id, keeping.given.inputs.clone());
            spec.limits = RunLimits { wall_time: wall_time.map(timed), ..limits };
            // The last thing before the run, so that one that never began leaves nothing behind.
            match keeping.start(&spec, continued, &parts.template.models).await {
                Ok((log, kept)) => {
                    if source.found.is_some() {
                        flow_resume::end_left_over(&here, run_id, reporter);
                    }
                    Ok(Ready::Run(Box::new(Prepared { spec, parts, planned, log, kept })))
                }
                Err(failure) => Err(planned.instead_of_run(failure).await),
            }
        }
        Document::ToBeMade { task, goal, file } => {
            let began = if source.found.is_some() { PlanBegan::Before } else { PlanBegan::Now };
            let planning = keeping.plan(run_id, began, &parts.template.models, around.stop).await;
            let planning = match planning {
                Ok(planning) => planning,
                Err(failure) => return Err(planned.instead_of_run(failure).await),
            };
            let maker = Maker {
                task: &task,
                goal: &goal,
                context: parts.context.as_deref(),
                parts: &parts,
                file,
                format: asked.format,
                run_id,
                planning,
                stop: around.stop,
                reporter,
            };
            match maker.make(spent).await {
                Ok(Made::Approved { flow, took, planning }) => {
                    let mut spec = RunSpec::new(Arc::from(flow), run_id, keeping.given.inputs.clone());
                    spec.before = *spent;
                    let wall_time = wall_time.map(|time| timed(time.saturating_sub(took)));
                    spec.limits = RunLimits { wall_time, ..limits };
                    let (log, kept) = keeping.planned(planning, &spec.workflow);
                    Ok(Ready::Run(Box::new(Prepared { spec, parts, planned, log, kept })))
                }
                Ok(Made::Printed(document)) => planned.without_run(document).await,
                Err(failure) => Err(planned.instead_of_run(failure).await),
            }
        }
    }
}

fn found_by<'a>(source: &'a Source, run: &str) -> Result<&'a Found, Failure> {
    let unknown = || flow_journal::failure(&JournalError::Unknown { id: run.to_owned() });
    source.found.as_ref().ok_or_else(unknown)
}

/// What is there whatever the document says.
pub struct Surrounding<'a> {
    pub stop: &'a Stop,
    pub reporter: Reporter,
    pub ids: &'a Identity,
    pub telemetry: &'a Telemetry,
    pub events: &'a Arc<FlowEmitter>,
}

/// What is run: it is there, or a model is to write it.
enum Document {
    Read(Arc<LoadedWorkflow>),
    ToBeMade { task: GoalTask, goal: String, file: PlanFile },
}

/// Is it known without stdin what is to be done?
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum HasTask {
    Yes,
    No,
}

/// What only the parts of a run know: tools that steps list, keys for the models they name, whether the budget can be kept, and
/// what hooks have to say.
#[expect(clippy::too_many_arguments, reason = "a run is checked from this many sides")]
async fn last_checks(
    flow: Option<&LoadedWorkflow>,
    agent: &mut Agent,
    helpers: Option<&Subagents>,
    connections: &Connections,
    named: &[String],
    max_usd: Option<MoneyLimit>,
    begins: SessionSource,
    around: &Surrounding<'_>,
) -> Result<Option<String>, Failure> {
    if let Some(flow) = flow {
        can_be_used(flow, agent, helpers)?;
    }
    for name in named {
        connections.other(name, None).map_err(|failure| Failure {
            message: format!("the document names the model `{name}`: {}", failure.message),
            ..failure
        })?;
    }
    let max_usd = flow.map_or(max_usd, |flow| MoneyLimit::of(max_usd, flow));
    agent.budget = money::keep(max_usd, &agent.models)?;
    flow_hooks::at_start(agent, begins, around.reporter, around.events).await
}

/// A list of tools is not a grant.
fn can_be_used(flow: &LoadedWorkflow, agent: &Agent, helpers: Option<&Subagents>) -> Result<(), Failure> {
    // A step is an agent of the run, so its own agents are at the second depth.
    let have_agents = helpers.is_some_and(|helpers| helpers.max_depth > 1);
    let registry = agent.registry.with(|tool| have_agents || tool.name != "agent");
    match tool_refusal(&unusable_tools(flow, &registry, &agent.permissions)) {
        None => Ok(()),
        Some(refusal) => Err(Failure::new(ErrorClass::Input, refusal.message).hint(refusal.hint)),
    }
}

/// `options.isolation: worktree`, found out before it is needed.
async fn copies_can_be_made(
    flow: Option<&LoadedWorkflow>,
    worktrees: Option<&Worktrees>,
    reporter: Reporter,
) -> Result<(), Failure> {
    let Some(worktrees) = worktrees.filter(|_| flow.is_some_and(is_isolated)) else { return Ok(()) };
    match worktrees.check().await {
        Ok(Uncommitted::Nothing) => Ok(()),
        Ok(Uncommitted::Files(count)) => {
            let plural = if count == 1 { "" } else { "s" };
            reporter.warn(&format!(
                "with `isolation: worktree` steps work on copies of the last commit: {count} uncommitted change{plural} will not be there"
            ));
            Ok(())
        }
        Err(why) => {
            let folder = worktrees.folder.display();
            let message =
                format!("`isolation: worktree` needs a git repository with a commit in `{folder}`: {why}");
            Err(Failure::new(ErrorClass::Input, message).hint(
                "commit what the steps are to work on, or take `isolation` out of the document's `options`",
            ))
        }
    }
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
    Arc::new(move |folder: &Path, top: &Path| {
        let permissions = folders.permissions_in_copy(folder, top)?;
        // What there is to say about the sandbox was said when the run began.
        let own_tools = folders.work_in_copy(folder, top, &permissions, &mut Vec::new())?.own_tools;
        Ok(FolderTools { permissions, own_tools })
    })
}

/// What git is given: everything but keys and marks.
fn git_environment(args: &RunArgs, folders: &WorkFolders) -> Vec<(std::ffi::OsString, std::ffi::OsString)> {
    let kept = client_marks::kept_from_children(args, &folders.loaded.settings, &folders.here);
    std::env::vars_os().filter(|(name, _)| !kept.iter().any(|kept| name == kept.as_str())).collect()
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

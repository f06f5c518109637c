//! Running a workflow from a program: the caller's own model, tools and listener.
//!
//! [`run`] is what everything else goes through, the command line included; [`FlowRun`] fills in what most callers do not
//! care about. What happens is told as events, and the outcome holds every step's content and result; what is kept besides is
//! up to the [`StepLog`].

use std::hash::{BuildHasher, RandomState};
use std::path::PathBuf;
use std::sync::Arc;

use tenon_agent::{AgentTemplate, Audience, Background, Limits, Lineage, NamedModel, OwnTools, Stop};
use tenon_core::{
    Budget, Cancel, Failure, Id, IdSource, ModelClient, Models, NoBudget, NoClient, NoJournal, NoSink,
    Reasoning, RunInfo, SandboxState, Timestamp, Tool,
};
use tenon_tools::{Hooks, PermissionOptions, Permissions, Registry, RuleError, TakenName};

use crate::agent_step::as_step_error;
use crate::emitter::FlowEmitter;
use crate::event::{FlowEventData, NoFlowSink, PlanReady, SCHEMA_VERSION, WorkflowStart};
use crate::paid::GivenUp;
use crate::past::Past;
use crate::retell::{Counts, Listener, retell};
use crate::traced::Traced;
use crate::{
    AgentSteps, Coordination, FlowSink, JsonText, LoadedWorkflow, ModelWish, NoLog, Notice, Report,
    RunLimits, RunSpec, StepErrorClass, StepKey, StepLog, StepModels, StepParts, StepRequest, StepRunner,
    WorkflowOutcome, WorkflowStatus, coordinator, run_budget, run_locally, step_events, with_defaults,
};

/// The share of a model's context that may fill before older turns are summed up.
const COMPACT_AT: f64 = 0.8;

/// Asks a run to stop.
#[derive(Clone, Default)]
pub struct StopRun {
    /// In order: steps under way are told and waited for, briefly. Its reason is the run's.
    pub stop: Stop,
    /// At once.
    pub kill: Cancel,
}

/// Runs a workflow to its end. The first event is `plan_ready`, the last `workflow_end`.
pub async fn run(
    spec: RunSpec,
    mut parts: StepParts,
    events: Arc<FlowEmitter>,
    log: Arc<dyn StepLog>,
    stop: StopRun,
) -> WorkflowOutcome {
    let flow = Arc::clone(&spec.workflow);
    events.recall(&log.earlier());
    begin(&flow, &events, log.has_begun(&spec.place));
    let traced = Traced::begin(&parts);
    parts.template.budget = run_budget::of_run(&spec, &*log, parts.template.budget);
    if !log.turns(&coordinator::key(events.run_id())).records.is_empty() {
        // It was asked for when the run began.
        parts.coordination = Coordination::On;
    }
    let steps = Arc::new(AgentSteps::new(flow, parts.clone(), Arc::clone(&events), &log.signals()));
    let runner = Arc::clone(&steps) as Arc<dyn StepRunner>;
    let cancel = stop.stop.cancel().clone();
    let running = run_locally(spec, runner, Arc::clone(&log), cancel, stop.kill);
    let mut outcome = match steps.coordinator() {
        None => running.await,
        Some(coordinator) => coordinator.beside(running, &parts, &*log, &events).await,
    };
    steps.end(outcome.status).await;
    if let Some(error) = outcome.error.as_mut().filter(|error| error.class == StepErrorClass::Journal) {
        error.hint = log.hint().map(str::to_owned).or(error.hint.take());
    }
    if let (WorkflowStatus::Cancelled, Some(reason)) = (outcome.status, stop.stop.reason()) {
        outcome.error = Some(as_step_error(reason));
    }
    traced.end(&outcome);
    let report = Report::new(events.run_id(), &outcome);
    events.emit(FlowEventData::WorkflowEnd(Arc::new(report)));
    outcome
}

/// Tells a run that is over once more, from what is known of it: nothing is run and nobody is asked. `None` if it is not.
pub fn show_again(spec: &RunSpec, past: &Past, events: &FlowEmitter) -> Option<WorkflowOutcome> {
    let outcome = past.outcome(spec)?;
    events.recall(&past.earlier());
    begin(&spec.workflow, events, true);
    retell(spec, past, &mut ToldAgain { events, given_up: past.given_up() });
    events.emit(FlowEventData::WorkflowEnd(Arc::new(Report::new(events.run_id(), &outcome))));
    Some(outcome)
}

struct ToldAgain<'a> {
    events: &'a FlowEmitter,
    given_up: GivenUp,
}

impl Listener for ToldAgain<'_> {
    fn asked(&mut self, _key: &StepKey, _request: &StepRequest) -> Counts {
        Counts::Yes
    }

    fn told(&mut self, notice: &Notice, _at: Timestamp) {
        match notice.clone() {
            Notice::Ended { key, agent, mut record } => {
                if let Some(spent) = self.given_up.by(&key) {
                    Arc::make_mut(&mut record).spent.add(spent);
                }
                step_events::tell(self.events, Notice::Restored { key, agent, record });
            }
            not_run @ Notice::NotRun { .. } => step_events::tell(self.events, not_run),
            _ => {}
        }
    }
}

fn begin(flow: &LoadedWorkflow, events: &FlowEmitter, resumed: bool) {
    events.emit(FlowEventData::PlanReady(PlanReady { workflow: flow.workflow.normalised() }));
    events.emit(FlowEventData::WorkflowStart(WorkflowStart {
        schema_version: SCHEMA_VERSION,
        name: flow.workflow.name.clone(),
        total: u32::try_from(flow.steps.len()).unwrap_or(u32::MAX),
        resumed,
    }));
}

/// A run in the making: a document and a model, and what differs from the defaults.
///
/// ```
/// # use std::sync::Arc;
/// # use tenon_core::ModelClient;
/// # async fn example(workflow: tenon_flow::LoadedWorkflow, model: Arc<dyn ModelClient>) -> Result<(), Box<dyn std::error::Error>> {
/// let outcome = tenon_flow::FlowRun::new(workflow, model, "some-model").run().await?;
/// let steps = outcome.by_id();
/// if let Some(result) = &steps["test"].result {
///     println!("passed: {}", result.to_value()["passed"]);
/// }
/// # Ok(()) }
/// ```
pub struct FlowRun {
    workflow: Arc<LoadedWorkflow>,
    model: Arc<dyn ModelClient>,
    model_name: String,
    run_id: String,
    inputs: JsonText,
    context: Option<String>,
    tools: Vec<Arc<dyn Tool>>,
    permissions: PermissionOptions,
    models: Option<Arc<dyn StepModels>>,
    budget: Arc<dyn Budget>,
    limits: RunLimits,
    sink: Arc<dyn FlowSink>,
    log: Arc<dyn StepLog>,
    stop: StopRun,
    coordination: Coordination,
}

/// What keeps a run from beginning.
#[derive(Debug, thiserror::Error)]
pub enum CannotRun {
    #[error(transparent)]
    Rule(#[from] RuleError),
    #[error(transparent)]
    Tool(#[from] TakenName),
    #[error(transparent)]
    Inputs(#[from] crate::UnfitInputs),
    #[error("the step `{0}` asks for an approval, and a run that is not kept cannot wait for one")]
    NotKept(String),
    /// At least one.
    #[error("{}", crate::tool_refusal(.0).map(|refusal| refusal.message).unwrap_or_default())]
    Unusable(Vec<crate::UnusableTool>),
}

impl FlowRun {
    /// Steps that name a model ask `model` for it by that name, unless [`FlowRun::models`] says otherwise.
    pub fn new(
        workflow: impl Into<Arc<LoadedWorkflow>>,
        model: Arc<dyn ModelClient>,
        model_name: impl Into<String>,
    ) -> FlowRun {
        FlowRun {
            workflow: workflow.into(),
            model,
            model_name: model_name.into(),
            run_id: format!("run_{:016x}", random()),
            inputs: JsonText::of(&serde_json::json!({})),
            context: None,
            tools: Vec::new(),
            permissions: PermissionOptions::default(),
            models: None,
            budget: Arc::new(NoBudget),
            limits: RunLimits::default(),
            sink: Arc::new(NoFlowSink),
            log: Arc::new(NoLog),
            stop: StopRun::default(),
            coordination: Coordination::Off,
        }
    }

    /// The object that the document's `inputs` describe.
    #[must_use]
    pub fn inputs(mut self, inputs: JsonText) -> FlowRun {
        self.inputs = inputs;
        self
    }

    /// What every step is to know.
    #[must_use]
    pub fn context(mut self, context: impl Into<String>) -> FlowRun {
        self.context = Some(context.into());
        self
    }

    /// All tools of the run; a document can only restrict them.
    #[must_use]
    pub fn tools(mut self, tools: Vec<Arc<dyn Tool>>) -> FlowRun {
        self.tools = tools;
        self
    }

    /// Which calls may run; nobody is asked. Without this, only those that change nothing.
    #[must_use]
    pub fn permissions(mut self, permissions: PermissionOptions) -> FlowRun {
        self.permissions = permissions;
        self
    }

    #[must_use]
    pub fn models(mut self, models: Arc<dyn StepModels>) -> FlowRun {
        self.models = Some(models);
        self
    }

    /// Shared by all steps.
    #[must_use]
    pub fn budget(mut self, budget: Arc<dyn Budget>) -> FlowRun {
        self.budget = budget;
        self
    }

    /// Time, money and steps at once, for the whole run. What the document says itself holds too.
    #[must_use]
    pub fn limits(mut self, limits: RunLimits) -> FlowRun {
        self.limits = limits;
        self
    }

    #[must_use]
    pub fn sink(mut self, sink: Arc<dyn FlowSink>) -> FlowRun {
        self.sink = sink;
        self
    }

    /// Where steps and turns are kept, and known from. Without this nothing is kept.
    #[must_use]
    pub fn log(mut self, log: Arc<dyn StepLog>) -> FlowRun {
        self.log = log;
        self
    }

    /// An agent beside the steps that passes messages on and sums up; it costs requests of its own.
    #[must_use]
    pub fn coordination(mut self, coordination: Coordination) -> FlowRun {
        self.coordination = coordination;
        self
    }

    #[must_use]
    pub fn stop(mut self, stop: StopRun) -> FlowRun {
        self.stop = stop;
        self
    }

    #[must_use]
    pub fn run_id(mut self, run_id: impl Into<String>) -> FlowRun {
        self.run_id = run_id.into();
        self
    }

    pub async fn run(self) -> Result<WorkflowOutcome, CannotRun> {
        let inputs = with_defaults(&self.workflow, self.inputs);
        crate::check_inputs(&self.workflow, inputs.as_str())?;
        if let (None, Some(step)) = (self.log.approvals(), crate::first_approval(&self.workflow)) {
            return Err(CannotRun::NotKept(step));
        }
        let cwd = match self.permissions.cwd.as_os_str().is_empty() {
            true => self.workflow.folder.clone(),
            false => self.permissions.cwd.clone(),
        };
        let permissions = Permissions::new(PermissionOptions { cwd: cwd.clone(), ..self.permissions })?;
        let registry = Registry::new();
        for tool in self.tools {
            registry.add(tool)?;
        }
        let unusable = crate::unusable_tools(&self.workflow, &registry, &permissions);
        if !unusable.is_empty() {
            return Err(CannotRun::Unusable(unusable));
        }
        let model = NamedModel { client: self.model, name: self.model_name };
        let template = plain_template(&model, &registry, permissions, cwd, self.budget);
        let models = self.models.unwrap_or_else(|| Arc::new(ByName(model)));
        let parts = StepParts {
            template,
            registry,
            // What the caller brings is for the steps.
            not_for_steps: &[],
            models,
            memory: Vec::new(),
            subagents: None,
            context: self.context,
            worktrees: None,
            fail_on_denied: false,
            trace: None,
            sink: Arc::new(NoSink),
            coordination: self.coordination,
        };
        let events = Arc::new(FlowEmitter::new(&self.run_id, self.sink));
        let mut spec = RunSpec::new(self.workflow, &self.run_id, inputs);
        spec.limits = self.limits;
        Ok(run(spec, parts, events, self.log, self.stop).await)
    }
}

/// One client for all models. How often it repeats a request is its own business.
struct ByName(NamedModel);

impl StepModels for ByName {
    fn model(&self, wish: &ModelWish, _retries: Option<u32>) -> Result<NamedModel, Failure> {
        let name = wish.named().unwrap_or(&self.0.name).to_owned();
        Ok(NamedModel { client: Arc::clone(&self.0.client), name })
    }
}

/// Agents with nothing but a model and tools.
fn plain_template(
    model: &NamedModel,
    registry: &Registry,
    permissions: Permissions,
    cwd: PathBuf,
    budget: Arc<dyn Budget>,
) -> AgentTemplate {
    let seed = (u128::from(random()) << 64) | u128::from(random());
    let ids = Arc::new(IdSource::new(Id::from_random(seed.to_be_bytes())));
    let own_tools: OwnTools = Arc::new(|_| Vec::new());
    AgentTemplate {
        model: Arc::clone(&model.client),
        client: Arc::new(NoClient),
        budget,
        info: RunInfo {
            session_id: ids.next(),
            cwd,
            model: model.name.clone(),
            permission_mode: permissions.mode().name().to_owned(),
            tools: registry.names(),
            agents: Vec::new(),
            commands: Vec::new(),
            mcp_servers: Vec::new(),
            cli_version: env!("CARGO_PKG_VERSION").to_owned(),
            sandbox: SandboxState::Off,
            channel: None,
        },
        audience: Audience::Whole,
        models: Models::default(),
        reasoning: Reasoning::default(),
        compact_at: COMPACT_AT,
        hooks: Hooks::none(),
        limits: Limits::default(),
        permissions,
        registry: registry.downgrade(),
        own_tools,
        lineage: Lineage::default(),
        background: Background::plain(Arc::clone(&ids)),
        terminal_tool: None,
        journal: Arc::new(NoJournal),
        ids,
    }
}

/// Different each time; nothing depends on more.
fn random() -> u64 {
    RandomState::new().hash_one(std::time::SystemTime::now())
}

//! One step, one run of an agent: what the agent is made of, and what its outcome means for the step.
//!
//! A step's agent is made like a sub-agent, from a template that the caller fills in, and never has more tools, a freer mode or
//! a larger budget than the run. `resultSchema` is a contract like that of a single run; what the model says in its turns is the
//! step's `content`. The prompt is made in `prompt.rs`, isolation in `isolation.rs`.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use tenon_agent::{
    AgentTemplate, Assignment, Cap, Folder, HowToAnswer, Limits, Memory, NamedModel, Replay, SetBy, Stop,
    Subagents, run, system_prompt,
};
use tenon_contract::{Contract, SUBMIT_RESULT};
use tenon_core::{
    BoxFut, Cancel, Ending, ErrorClass, EventSink, Failure, Media, Message, Outcome, Part, Sampling,
    ToolSpec, TraceContext, TurnJournal,
};
use tenon_tools::{Offered, Permissions, Registry};

use crate::context_files::{FileContent, read_context_files};
use crate::coordinator::Coordinator;
use crate::emitter::FlowEmitter;
use crate::event::MessageLevel;
use crate::grace::{FOR_THE_AGENT, within_grace};
use crate::isolation::{Before, FolderTools, Isolation, Kept, Worktree, Worktrees};
use crate::prompt::{PromptParts, prompt};
use crate::shared::Shared;
use crate::signal::{Signals, mail_told};
use crate::so_far::SoFar;
use crate::step_events::{self, StepSink};
use crate::tool_aliases::{VERSION_1_TOOLS, is_denied, meant};
use crate::traced::Traced;
use crate::{
    AgentRequest, Coordination, JsonText, LoadedAgent, LoadedWorkflow, ModelWish, Notice, Spent, StepError,
    StepErrorClass, StepKey, StepOutcome, StepOutput, StepRunner, ToolChoice, Turns, WhenStopped,
    WorkflowStatus, included, run_budget,
};

/// What is said of a step that had to submit a result and did not. Other programs match on it.
pub const NEVER_SUBMITTED: &str = "resultSchema defined but submit_result never called";
/// Reminders for a model that stops without submitting.
const NUDGES: u32 = 1;
/// The name of an agent without one, for hooks.
pub(crate) const ANONYMOUS: &str = "default";

/// Which model a step asks.
pub trait StepModels: Send + Sync {
    /// `retries` is how often one request may be repeated after a transport error, where the document says so.
    fn model(&self, wish: &ModelWish, retries: Option<u32>) -> Result<NamedModel, Failure>;
}

/// What steps are made of.
#[derive(Clone)]
pub struct StepParts {
    pub template: AgentTemplate,
    /// All tools of the run. A document can only restrict them.
    pub registry: Registry,
    /// Those of them that belong to the run itself, and to no step.
    pub not_for_steps: &'static [&'static str],
    pub models: Arc<dyn StepModels>,
    /// Standing instructions, which hold for every step.
    pub memory: Vec<Memory>,
    /// Agents that a step's agent may ask for help, if any.
    pub subagents: Option<Arc<Subagents>>,
    /// What the caller wants every step to know.
    pub context: Option<String>,
    /// For `options.isolation`.
    pub worktrees: Option<Worktrees>,
    /// A call that is denied fails its step.
    pub fail_on_denied: bool,
    /// The run's place in a distributed trace, when there is one.
    pub trace: Option<TraceContext>,
    /// Where the agents' own events go besides: telemetry.
    pub sink: Arc<dyn EventSink>,
    pub coordination: Coordination,
}

/// Runs the agents of a workflow.
#[derive(Clone)]
pub struct AgentSteps {
    flow: Arc<LoadedWorkflow>,
    parts: StepParts,
    events: Arc<FlowEmitter>,
    shared: Arc<Shared>,
}

impl AgentSteps {
    pub fn new(
        flow: Arc<LoadedWorkflow>,
        parts: StepParts,
        events: Arc<FlowEmitter>,
        signals: &Signals,
    ) -> AgentSteps {
        parts.registry.answer_to(&VERSION_1_TOOLS);
        let shared = Arc::new(Shared::new(&flow, &events, signals, parts.coordination));
        AgentSteps { flow, parts, events, shared }
    }

    pub(crate) fn coordinator(&self) -> Option<&Arc<Coordinator>> {
        self.shared.coordinator.as_ref()
    }

    /// The run is over: what was not read is dropped.
    pub(crate) async fn end(&self, status: WorkflowStatus) {
        self.shared.end(status).await;
    }

    async fn run_step(
        &self,
        key: StepKey,
        request: AgentRequest,
        turns: Turns,
        cancel: Cancel,
    ) -> StepOutcome {
        let Some(document) = included(&self.flow, &request.agent.document) else {
            let message = format!("the document of `{}` is not there", request.step_id);
            return failed(StepError::new(StepErrorClass::Internal, message));
        };
        let agent = request.agent.name.as_deref().and_then(|name| document.agents.get(name));
        let sink = Arc::new(StepSink::new(
            Arc::clone(&self.events),
            Arc::clone(&self.parts.sink),
            Some(request.step_id.clone()),
            request.agent.name.clone(),
            key.to_string(),
        ));
        sink.recall(&turns.records);
        let traced = Traced::begin_step(&self.parts, &key);
        let so_far = Arc::new(SoFar::new(&turns, &self.parts.template.models));
        let worktree = match within_grace(&cancel, self.isolate(&key, &request, &turns, &sink)).await {
            Some(Ok(worktree)) => worktree,
            Some(Err(why)) => {
                let message = format!("isolation setup: {why}");
                let outcome = failed(StepError::new(StepErrorClass::Isolation, message));
                traced.end_step(&outcome);
                return outcome;
            }
            None => {
                if let (Some(worktrees), true) = (&self.parts.worktrees, turns.records.is_empty()) {
                    worktrees.give_up(&key.to_string()).await;
                }
                let outcome = StepOutcome::Cancelled(so_far.output());
                traced.end_step(&outcome);
                return outcome;
            }
        };
        let place = worktree.as_ref();
        let work =
            self.run_agent(&key, &request, &document, agent, place, &sink, turns, &so_far, cancel.clone());
        let outcome = within_grace(&cancel, work).await;
        let outcome = outcome.unwrap_or_else(|| StepOutcome::Cancelled(so_far.output()));
        if let Some(worktree) = worktree {
            match worktree.finish().await {
                Kept::Nothing => {}
                Kept::Branch(name) => sink
                    .message(MessageLevel::Note, format!("what the step changed is on the branch `{name}`")),
                Kept::Folder { path, why } => sink.message(
                    MessageLevel::Warning,
                    format!(
                        "what the step changed is left in `{}`, because it could not be committed: {why}",
                        path.display()
                    ),
                ),
            }
        }
        traced.end_step(&outcome);
        outcome
    }

    async fn isolate(
        &self,
        key: &StepKey,
        request: &AgentRequest,
        turns: &Turns,
        sink: &StepSink,
    ) -> Result<Option<Worktree<'_>>, String> {
        let Some(wanted) = request.isolation.as_deref() else { return Ok(None) };
        match (&self.parts.worktrees, Isolation::of(Some(wanted))) {
            (_, Isolation::Nothing) => Ok(None),
            (Some(worktrees), Isolation::Worktree) => {
                let before = if turns.records.is_empty() { Before::Nothing } else { Before::Something };
                worktrees.add(&key.to_string(), before).await.map(Some)
            }
            _ => {
                let text = format!("there is no `isolation: {wanted}` here, so the step is not isolated");
                sink.message(MessageLevel::Warning, text);
                Ok(None)
            }
        }
    }

    #[expect(clippy::too_many_arguments, reason = "one step has this many sides")]
    async fn run_agent(
        &self,
        key: &StepKey,
        request: &AgentRequest,
        document: &LoadedWorkflow,
        agent: Option<&Arc<LoadedAgent>>,
        worktree: Option<&Worktree<'_>>,
        sink: &Arc<StepSink>,
        turns: Turns,
        so_far: &Arc<SoFar>,
        cancel: Cancel,
    ) -> StepOutcome {
        let parts = &self.parts;
        let model = match parts.models.model(&request.model, request.transport_retries) {
            Ok(model) => model,
            Err(failure) => return failed(as_step_error(&failure)),
        };
        let (folder, permissions) = match self.workplace(worktree) {
            Ok(place) => place,
            Err(failure) => return failed(as_step_error(&failure)),
        };
        let files_from = worktree.map_or_else(|| document.folder.clone(), |it| it.place_of(&document.folder));
        let files = context_files(files_from, &request.context_files).await;
        let schema = agent.and_then(|agent| agent.result.clone());
        let text = prompt(&PromptParts {
            request,
            flow_context: parts.context.as_deref(),
            result_schema: schema.as_ref().map(tenon_contract::Schema::source),
            files: &files,
        });
        let attached = files.into_iter().filter_map(|file| match file.content {
            FileContent::Attached(media) => Some(media),
            FileContent::Text(_) | FileContent::Note(_) => None,
        });
        let contract = schema.map(Contract::submit_result);
        let has_contract = contract.is_some();
        let limits = self.limits(agent);
        let of_run = parts.registry.names();
        let wants = |spec: &ToolSpec| {
            wants(agent, &spec.name, &of_run) && !parts.not_for_steps.contains(&spec.name.as_str())
        };
        let registry = parts.registry.with(wants);
        for name in listed(agent).into_iter().flatten() {
            // What a document names is not something to search for.
            registry.offer(meant(name, &of_run), Offered::Always);
        }
        let stop = Stop::within(&cancel);
        let helpers =
            parts.subagents.as_ref().filter(|_| wants_helpers(agent)).map(|helpers| match &folder {
                Folder::OfTemplate => Arc::clone(helpers),
                Folder::Other { own_tools, .. } => helpers.working_with(Arc::clone(own_tools)),
            });
        let mut assigned = parts.template.agent(Assignment {
            call_id: key.to_string(),
            kind: request.agent.name.clone().unwrap_or_else(|| ANONYMOUS.to_owned()),
            system: self.system(agent, has_contract),
            prompt: message(text, attached),
            contract,
            model: Some(model),
            sampling: sampling(agent),
            registry,
            permissions,
            folder,
            limits,
            journal: Arc::clone(so_far) as Arc<dyn TurnJournal>,
            stop,
            trace: parts.trace.as_ref().map(|trace| trace.call(&key.to_string()).agent()),
        });
        let told = mail_told(&turns.records).collect();
        assigned.replay = Replay::of(turns.records);
        assigned.fail_on_denied = parts.fail_on_denied;
        assigned.background.stop_within = Some(FOR_THE_AGENT);
        if let Some(helpers) = helpers {
            helpers.offer_to(&mut assigned);
        }
        self.shared.offer(request, agent, &told, &mut assigned);
        let outcome = run(assigned, Arc::clone(sink) as Arc<dyn EventSink>).await.outcome;
        let ended = Ended {
            outcome: &outcome,
            content: so_far.text(),
            has_contract,
            is_cancelled: cancel.is_cancelled(),
        };
        self.shared.after(request, ended.into_step(sink), has_contract).await
    }

    fn workplace(&self, worktree: Option<&Worktree<'_>>) -> Result<(Folder, Permissions), Failure> {
        match (worktree, &self.parts.worktrees) {
            (Some(worktree), Some(worktrees)) => {
                let path = worktree.folder();
                let FolderTools { permissions, own_tools } = (worktrees.work_in)(&path, worktree.path())?;
                Ok((Folder::Other { path, own_tools }, permissions))
            }
            _ => Ok((Folder::OfTemplate, self.parts.template.permissions.clone())),
        }
    }

    fn system(&self, agent: Option<&Arc<LoadedAgent>>, has_contract: bool) -> String {
        let answer =
            if has_contract { HowToAnswer::BySubmitting(SUBMIT_RESULT) } else { HowToAnswer::InText };
        let own = agent.map(|agent| agent.spec.prompt.as_str()).filter(|prompt| !prompt.trim().is_empty());
        system_prompt(answer, &self.parts.memory, own, None)
    }

    fn limits(&self, agent: Option<&Arc<LoadedAgent>>) -> Limits {
        let turns = agent.map_or(crate::DEFAULT_MAX_TURNS, |agent| agent.spec.turns());
        // Time is the interpreter's to measure: a step's, a loop's, the run's.
        Limits {
            turns: Cap::AtMost(turns),
            turns_set_by: SetBy::Agent,
            nudges: NUDGES,
            wall_time: None,
            ..self.parts.template.limits
        }
    }
}

impl StepRunner for AgentSteps {
    fn run(
        &self,
        key: StepKey,
        request: AgentRequest,
        turns: Turns,
        cancel: Cancel,
    ) -> BoxFut<'_, StepOutcome> {
        Box::pin(self.run_step(key, request, turns, cancel))
    }

    fn when_told_to_stop(&self) -> WhenStopped {
        WhenStopped::EndsByItself
    }

    fn inside(
        &self,
        workflow: &LoadedWorkflow,
        name: &Arc<str>,
        paid: &Spent,
    ) -> Option<Arc<dyn StepRunner>> {
        let budget = run_budget::of_included(workflow, name, paid, &self.parts.template.budget)?;
        let mut steps = self.clone();
        steps.parts.template.budget = budget;
        Some(Arc::new(steps))
    }

    fn spent_before(&self, spent: &Spent) {
        self.parts.template.budget.count(spent.used());
    }

    fn tell(&self, notice: Notice) {
        self.shared.hear(&notice);
        step_events::tell(&self.events, notice);
    }
}

/// An agent's run that is over.
struct Ended<'a> {
    outcome: &'a Outcome,
    content: String,
    has_contract: bool,
    is_cancelled: bool,
}

impl Ended<'_> {
    fn into_step(self, sink: &StepSink) -> StepOutcome {
        let Ended { outcome, content, has_contract, is_cancelled } = self;
        let spent = Spent::of(outcome);
        let output = |result| StepOutput { content, result, spent };
        match &outcome.ending {
            Ending::Success(success) => {
                StepOutcome::Completed(output(success.payload.clone().map(JsonText::from)))
            }
            Ending::Failure(_) if is_cancelled => StepOutcome::Cancelled(output(None)),
            // Work that was cut short is still work, unless something else was promised.
            Ending::Failure(failure) if failure.class == ErrorClass::Turns && !has_contract => {
                let text = format!("the step ends with what it has: {}", failure.message);
                sink.message(MessageLevel::Warning, text);
                StepOutcome::Completed(output(None))
            }
            Ending::Failure(failure) => {
                let error = if has_contract { without_result(failure) } else { as_step_error(failure) };
                StepOutcome::Failed { error, output: output(None) }
            }
        }
    }
}

/// A step that had to submit a result, in the words that are promised for that.
fn without_result(failure: &Failure) -> StepError {
    let attempts = failure.structured.as_ref().map_or(0, |structured| structured.attempts);
    let class = StepErrorClass::from(failure.class);
    let message = match failure.class {
        ErrorClass::Contract | ErrorClass::Turns | ErrorClass::SchemaRetries => NEVER_SUBMITTED,
        _ => return as_step_error(failure),
    };
    let mut message = match attempts {
        0 => message.to_owned(),
        1 => format!("{message} with a result that fits: 1 attempt was rejected"),
        n => format!("{message} with a result that fits: {n} attempts were rejected"),
    };
    if failure.class == ErrorClass::Turns {
        message.push_str(&format!(" ({})", failure.message));
    }
    let violations = failure.structured.iter().flat_map(|structured| &structured.violations);
    let wrong: Vec<String> = violations
        .map(|violation| match violation.path.as_str() {
            "" => violation.message.clone(),
            path => format!("{path}: {}", violation.message),
        })
        .collect();
    let missed = format!("the last one missed the schema: {}", wrong.join("; "));
    let hint = match (failure.class == ErrorClass::Turns, wrong.is_empty()) {
        (true, true) => "raise `maxTurns` of the agent, or narrow what the step is to do".to_owned(),
        (true, false) => format!("{missed}; a higher `maxTurns` of the agent leaves more attempts"),
        (false, true) => "say in the instructions what is to be submitted, or try another model".to_owned(),
        (false, false) => missed,
    };
    StepError::new(class, message).hint(hint)
}

pub(crate) fn as_step_error(failure: &Failure) -> StepError {
    StepError {
        class: failure.class.into(),
        message: failure.message.clone(),
        hint: failure.hint.clone(),
        retryable: failure.retryable,
        retry_after_ms: failure.retry_after_ms,
    }
}

fn failed(error: StepError) -> StepOutcome {
    StepOutcome::Failed { error, output: StepOutput::default() }
}

/// The tools that an agent lists, where it lists any.
pub(crate) fn listed(agent: Option<&Arc<LoadedAgent>>) -> Option<&Vec<String>> {
    match agent.map(|agent| &agent.spec.tools) {
        Some(ToolChoice::Only(names)) => Some(names),
        Some(ToolChoice::All) | None => None,
    }
}

fn wants(agent: Option<&Arc<LoadedAgent>>, tool: &str, of_run: &[String]) -> bool {
    listed(agent).is_none_or(|list| list.iter().any(|name| meant(name, of_run) == tool))
        && !agent.is_some_and(|agent| is_denied(&agent.spec.disallowed_tools, tool, of_run))
}

/// Helpers are for agents that ask for them: many agents are what a workflow is for.
fn wants_helpers(agent: Option<&Arc<LoadedAgent>>) -> bool {
    listed(agent).is_some() && wants(agent, "agent", &[])
}

fn sampling(agent: Option<&Arc<LoadedAgent>>) -> Sampling {
    agent
        .map(|agent| Sampling { temperature: agent.spec.temperature, top_p: agent.spec.top_p })
        .unwrap_or_default()
}

fn message(text: String, attached: impl Iterator<Item = Media>) -> Message {
    let mut message = Message::user(text);
    message.parts.extend(attached.map(Part::Media));
    message
}

async fn context_files(folder: PathBuf, paths: &[String]) -> Vec<crate::ContextFile> {
    if paths.is_empty() {
        return Vec::new();
    }
    let paths = paths.to_vec();
    let read = move || read_context_files(Path::new(&folder), &paths);
    // Reading cannot panic; should it, the step goes without its files.
    tokio::task::spawn_blocking(read).await.unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use tenon_core::{StructuredError, Violation};

    use super::*;

    #[test]
    fn a_violation_of_the_whole_result_has_no_path() {
        let violation =
            |path: &str, message: &str| Violation { path: path.to_owned(), message: message.to_owned() };
        let violations =
            vec![violation("", "the arguments are not JSON"), violation("/a", "expected string")];
        let mut failure = Failure::new(ErrorClass::Contract, "no payload");
        failure.structured = Some(StructuredError { attempts: 1, candidate: None, violations });
        let hint = without_result(&failure).hint.unwrap();
        assert_eq!(hint, "the last one missed the schema: the arguments are not JSON; /a: expected string");
    }
}

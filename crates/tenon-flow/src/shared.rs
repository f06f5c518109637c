//! What the agents of one run have in common: a memory and a post. Who is offered them, and what they learn of steps that begin
//! and end.

use std::collections::HashSet;
use std::sync::Arc;

use tenon_agent::Agent;
use tenon_core::Tool;

use crate::agent_step::{ANONYMOUS, listed};
use crate::coordinator::{Coordination, Coordinator};
use crate::emitter::FlowEmitter;
use crate::message::{Address, DropReason};
use crate::message_tools::{SEND_MESSAGE, SendMessage};
use crate::post::{AfterReading, Dropped, Post, Reader};
use crate::shared_memory::{self, SharedMemory};
use crate::signal::Signals;
use crate::tool_aliases::{is_denied, own_name};
use crate::{
    AgentRequest, LoadedAgent, LoadedWorkflow, NEVER_SUBMITTED, NotRun, Notice, Purpose, StepBody, StepError,
    StepErrorClass, StepKind, StepOutcome, StepOutput, StepStatus, WorkflowStatus,
};

/// What steps are offered without asking for it.
pub(crate) const SHARED_TOOLS: [&str; 3] = [shared_memory::READ, shared_memory::WRITE, SEND_MESSAGE];
/// What a step says that a message has ended.
const CANCELLED: &str = "cancelled";

pub(crate) struct Shared {
    flow: Arc<LoadedWorkflow>,
    memory: Arc<SharedMemory>,
    post: Arc<Post>,
    pub(crate) coordinator: Option<Arc<Coordinator>>,
}

impl Shared {
    pub(crate) fn new(
        flow: &Arc<LoadedWorkflow>,
        events: &Arc<FlowEmitter>,
        signals: &Signals,
        coordination: Coordination,
    ) -> Shared {
        let post = Arc::new(Post::new(Arc::clone(flow), Arc::clone(events), signals, coordination));
        let coordinator = match coordination {
            Coordination::On => Some(Arc::new(Coordinator::new(flow, &post, events, signals))),
            Coordination::Off => None,
        };
        Shared { flow: Arc::clone(flow), memory: Arc::new(SharedMemory::new(signals)), post, coordinator }
    }

    /// Offers the memory and the post to the agent of a step, also to one that lists its tools: those are about the world, these
    /// about each other. Not to one that wants no tools at all, nor to a judge, nor where nobody else is and nobody asks for them.
    /// `told` are the messages that its conversation holds already.
    pub(crate) fn offer(
        &self,
        request: &AgentRequest,
        spec: Option<&Arc<LoadedAgent>>,
        told: &HashSet<String>,
        agent: &mut Agent,
    ) {
        if request.purpose != Purpose::Work {
            return;
        }
        let address = Address::Step(request.step_id.clone());
        let reader = Reader::new(&self.post, address.clone(), agent.stop.clone(), told);
        agent.background.mailbox = Some(Arc::new(reader));
        let is_alone = matches!(&*self.flow.steps, [step] if matches!(step.body, StepBody::Agent))
            && self.coordinator.is_none();
        if listed(spec).is_some_and(Vec::is_empty) {
            return;
        }
        let is_listed = |tool: &str| listed(spec).into_iter().flatten().any(|name| own_name(name) == tool);
        let name = request.agent.name.as_deref().unwrap_or(ANONYMOUS);
        let has_coordinator = self.coordinator.is_some();
        let helpers = agent.registry.get(SEND_MESSAGE);
        let send = SendMessage::new(&self.flow, &self.post, address, has_coordinator, helpers);
        let mut tools: Vec<Arc<dyn Tool>> = self.memory.tools(name).into();
        tools.push(Arc::new(send));
        for tool in tools {
            let name = tool.spec().name.clone();
            let is_unwanted = is_alone && !is_listed(&name)
                || agent.permissions.removes(&name)
                || spec.is_some_and(|spec| is_denied(&spec.spec.disallowed_tools, &name, &[]));
            if is_unwanted || name == SEND_MESSAGE && agent.registry.replace(Arc::clone(&tool)) {
                continue;
            }
            // A tool of the caller's own that has the name keeps it.
            if agent.registry.add(tool).is_ok() {
                // The terminal tool stays last.
                let terminal = agent.contract.as_ref().map(|contract| contract.tool);
                let last = agent.info.tools.last().is_some_and(|last| Some(last.as_str()) == terminal);
                agent.info.tools.insert(agent.info.tools.len() - usize::from(last), name);
            }
        }
    }

    /// The agent of a step has ended.
    pub(crate) async fn after(
        &self,
        request: &AgentRequest,
        outcome: StepOutcome,
        has_contract: bool,
    ) -> StepOutcome {
        if request.purpose != Purpose::Work {
            return outcome;
        }
        let address = Address::Step(request.step_id.clone());
        let outcome = match self.post.was_cancelled(&address) {
            true => cancelled(outcome, has_contract),
            false => outcome,
        };
        let then = match outcome {
            StepOutcome::Completed(_) => AfterReading::Nobody,
            _ => AfterReading::MaybeAnother,
        };
        self.post.read_to_the_end(&address, then).await;
        outcome
    }

    /// The run is over.
    pub(crate) async fn end(&self, status: WorkflowStatus) {
        let (reason, dropped) = match status {
            WorkflowStatus::Completed => (DropReason::TargetTerminal, Dropped::ForGood),
            WorkflowStatus::Cancelled => (DropReason::WorkflowCancelled, Dropped::UntilResumed),
            // What was not read waits, as the run does.
            WorkflowStatus::Suspended => return self.post.rest().await,
            _ => (DropReason::TargetTerminal, Dropped::UntilResumed),
        };
        self.post.end(reason, dropped).await;
    }

    /// What happens to steps.
    pub(crate) fn hear(&self, notice: &Notice) {
        if let Some(coordinator) = &self.coordinator {
            coordinator.hear(notice);
        }
        let (key, record) = match notice {
            Notice::Started(started) => {
                let step_id = started.key.step_id();
                self.post.begins(&step_id);
                if let StepKind::ForEach { items } = started.kind {
                    self.post.has_items(&step_id, items);
                }
                return;
            }
            // The end of the run says why.
            Notice::NotRun { why: NotRun::RunEnded | NotRun::BudgetExceeded, .. } => return,
            Notice::Ended { record, .. } if record.status == StepStatus::Cancelled => return,
            Notice::Ended { key, record, .. }
            | Notice::NotRun { key, record, .. }
            | Notice::Restored { key, record, .. } => (key, record),
            Notice::Retrying { key, .. } => {
                self.post.tried_again(&key.step_id());
                return;
            }
            Notice::Progress { .. } | Notice::Asked { .. } | Notice::JudgeFailed { .. } => return,
        };
        let dropped = match record.status {
            StepStatus::Completed => Dropped::ForGood,
            // A run that goes on tries it again, and what was skipped for it.
            StepStatus::Failed | StepStatus::Cancelled | StepStatus::Skipped => Dropped::UntilResumed,
        };
        self.post.over(&key.step_id(), dropped);
    }
}

/// A step that a message told to stop has done what it was told, unless a result was promised.
fn cancelled(outcome: StepOutcome, has_contract: bool) -> StepOutcome {
    let spent = match &outcome {
        StepOutcome::Completed(_) | StepOutcome::Elapsed => return outcome,
        StepOutcome::Failed { output, .. } | StepOutcome::Cancelled(output) => output.spent,
    };
    let output = StepOutput { content: CANCELLED.to_owned(), result: None, spent };
    if !has_contract {
        return StepOutcome::Completed(output);
    }
    let error = StepError::new(
        StepErrorClass::Interrupted,
        format!("{NEVER_SUBMITTED}: the coordinator told the step to stop"),
    );
    StepOutcome::Failed { error, output }
}

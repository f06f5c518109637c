//! The port between the interpreter and the world: what it asks for, and what it is answered.
//!
//! The interpreter (`interpreter.rs`) is a pure fold over completions. Whoever implements [`DurableRun`] starts what
//! it asks for, and decides and keeps the order in which completions are told. `local_run.rs` is the
//! implementation on this machine. Everything here is plain data that a journal can store: by reference to the
//! document, which a run pins, and by value for all that was computed.

use std::future::Future;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use tenon_core::{BoxFut, Cancel, Timestamp};

use crate::{
    ApprovalRequest, JsonText, LoadedWorkflow, Notice, Spent, StepError, StepKey, StepRecord, Turns,
};

/// Starts steps and yields their completions in an order that is itself durable.
///
/// Every key that was started is completed exactly once. A completion that nobody waits for any longer is ignored.
pub trait DurableRun: Send {
    fn start(&mut self, key: StepKey, request: StepRequest);

    /// The step's completion still comes, soon, even from work that does not stop when told.
    fn cancel(&mut self, key: &StepKey);

    /// `None` when nothing is under way.
    fn next(&mut self) -> impl Future<Output = Result<Option<Completion>, Stopped>> + Send;

    /// The time, journaled: a replay is told the same.
    fn now(&mut self) -> impl Future<Output = Timestamp> + Send;

    /// Whether what is told next happened before the run was cut off.
    fn recalls(&self) -> bool {
        false
    }

    /// What somebody who watches wants to know. It changes nothing; a port that replays drops what was told before.
    fn tell(&mut self, notice: Notice);
}

/// What is started behind a key.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StepRequest {
    /// One run of an agent.
    Agent(Box<AgentRequest>),
    /// Time that passes.
    Sleep { ms: u64 },
    /// A question to a person.
    Approval(Box<ApprovalRequest>),
    /// A workflow inside this one, with an interpreter of its own.
    SubWorkflow(Box<SubWorkflowRequest>),
}

/// Everything that the run of one agent needs. The key that it is started under is its idempotency key.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AgentRequest {
    /// How people and events call the step: `each[3].inner`.
    pub step_id: String,
    pub purpose: Purpose,
    pub agent: AgentName,
    /// With all templates filled in. Empty for a judge.
    pub instructions: String,
    /// What the step depends on directly and has completed, in the order of `dependsOn`.
    pub upstream: Vec<Upstream>,
    /// For a step in a loop's body: what the loop itself depends on. For a step without dependencies in an included
    /// workflow: what the include depends on.
    pub outer: Vec<Upstream>,
    /// Of a `forEach`.
    pub item: Option<Item>,
    /// Of a repeat-until loop.
    pub iteration: Option<Iteration>,
    /// Paths as the document writes them, relative to the folder of its file.
    pub context_files: Vec<String>,
    pub model: ModelWish,
    /// How often one model call is repeated after a transport error, when the document says so.
    pub transport_retries: Option<u32>,
    /// `options.isolation` of the document.
    pub isolation: Option<String>,
    /// From 1.
    pub attempt: u32,
}

/// Which agent, of which document.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentName {
    /// The ids of the steps on the way from the run's document, loops and includes; empty for the run's document
    /// itself. `included` finds the document.
    pub document: Vec<String>,
    /// A key of that document's `agents`; without one, an agent with no prompt, all tools and the default model.
    pub name: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Purpose {
    /// Do the step.
    Work,
    /// Say whether a loop is done, by a result with `done`.
    Judge {
        /// Every iteration so far, with the verdicts on it.
        history: String,
        /// Of the last step of the iteration, when it submitted one.
        result: Option<JsonText>,
    },
}

/// A step that is over, for the prompt of another.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Upstream {
    pub id: String,
    #[serde(with = "shared_record")]
    pub record: Arc<StepRecord>,
}

/// Shared in memory, stored by value.
mod shared_record {
    use super::{Arc, Deserialize, Serialize, StepRecord};
    use serde::{Deserializer, Serializer};

    pub fn serialize<S: Serializer>(record: &Arc<StepRecord>, serializer: S) -> Result<S::Ok, S::Error> {
        StepRecord::serialize(record, serializer)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Arc<StepRecord>, D::Error> {
        StepRecord::deserialize(deserializer).map(Arc::new)
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Item {
    /// From 0.
    pub index: u32,
    pub value: JsonText,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Iteration {
    /// From 0.
    pub number: u32,
    /// What the iteration before this one ended with.
    pub previous: Option<Upstream>,
    /// What the judge said about it.
    pub feedback: Option<Verdict>,
}

/// A judge's answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Verdict {
    pub content: String,
    pub result: Option<JsonText>,
}

impl Verdict {
    /// What it wrote, and what it submitted below.
    pub fn in_words(&self) -> String {
        let content = self.content.trim_end();
        match &self.result {
            Some(result) if content.is_empty() => result.as_str().to_owned(),
            Some(result) => format!("{content}\n\n{}", result.as_str()),
            None => content.to_owned(),
        }
    }
}

/// The models that the document names. A caller may force another; with neither it is the default.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModelWish {
    pub step: Option<String>,
    pub agent: Option<String>,
}

impl ModelWish {
    /// The step's own model is stronger than its agent's.
    pub fn named(&self) -> Option<&str> {
        self.step.as_deref().or(self.agent.as_deref())
    }
}

/// A workflow that a step includes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SubWorkflowRequest {
    pub step_id: String,
    /// The ids of the steps on the way from the run's document, loops and includes, this one last.
    pub document: Vec<String>,
    /// How many includes that is.
    pub depth: u32,
    /// What the include step depends on, for the steps that begin the included workflow.
    pub outer: Vec<Upstream>,
    /// Of the loop around the include step.
    pub item: Option<Item>,
    pub iteration: Option<Iteration>,
    pub inputs: JsonText,
    /// An include step's `timeout` replaces the included document's own `options.timeout`; the including workflow
    /// measures it.
    pub timed_outside: TimedOutside,
    pub attempt: u32,
    /// `maxRetries` of the include step, for the steps inside that have none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub transport_retries: Option<u32>,
    /// By earlier attempts at this step: what its document may spend it may spend over all of them.
    #[serde(default, skip_serializing_if = "Spent::is_nothing")]
    pub spent_before: Spent,
}

/// Who watches an included workflow's time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TimedOutside {
    Yes,
    No,
}

/// Something that was started is over.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Completion {
    pub key: StepKey,
    /// When, by the journal's clock.
    pub at: Timestamp,
    pub outcome: StepOutcome,
}

/// How what was started ended. What it cost is told in every case.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StepOutcome {
    Completed(StepOutput),
    Failed {
        error: StepError,
        output: StepOutput,
    },
    /// It was told to stop, and did.
    Cancelled(StepOutput),
    /// A sleep is over.
    Elapsed,
}

impl StepOutcome {
    /// What it left behind and used; a sleep does neither.
    pub fn output(&self) -> Option<&StepOutput> {
        match self {
            StepOutcome::Completed(output)
            | StepOutcome::Cancelled(output)
            | StepOutcome::Failed { output, .. } => Some(output),
            StepOutcome::Elapsed => None,
        }
    }
}

/// What a step left behind, or had when it failed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct StepOutput {
    pub content: String,
    pub result: Option<JsonText>,
    pub spent: Spent,
}

/// Nothing more will be started.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Stopped {
    #[error("the run was cancelled")]
    Cancelled,
    /// Nothing but questions is left. To go on later, from the journal.
    #[error("the run was suspended")]
    Suspended,
    /// The journal cannot keep what happens any longer.
    #[error("{0}")]
    NotKept(String),
    /// The journal has lost something.
    #[error("{0}")]
    Broken(String),
}

/// What becomes of a step that is told to stop and goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WhenStopped {
    /// It is dropped after [`crate::CANCEL_GRACE`], and with it all that it could say.
    DroppedAfterGrace,
    /// It ends in time by itself, and then puts away what it leaves.
    EndsByItself,
}

/// Runs agents for a journal: what a caller brings to a workflow.
pub trait StepRunner: Send + Sync {
    /// When `cancel` fires, the future should end soon with [`StepOutcome::Cancelled`] and what was spent; what happens if it
    /// does not is [`StepRunner::when_told_to_stop`].
    /// `turns` is what the agent has done before, if this step was cut off, and where its turns are kept.
    fn run(
        &self,
        key: StepKey,
        request: AgentRequest,
        turns: Turns,
        cancel: Cancel,
    ) -> BoxFut<'_, StepOutcome>;

    /// Whether a step that is told to stop can be relied on to end.
    fn when_told_to_stop(&self) -> WhenStopped {
        WhenStopped::DroppedAfterGrace
    }

    /// Who runs the steps of a workflow that is included, where that has rules of its own. Asked once for all attempts at one step.
    /// `name` is what messages call its document; `paid` is what was spent inside it when the run was here before.
    fn inside(
        &self,
        workflow: &LoadedWorkflow,
        name: &Arc<str>,
        paid: &Spent,
    ) -> Option<Arc<dyn StepRunner>> {
        let _ = (workflow, name, paid);
        None
    }

    /// A step ended when the run was here before; what it spent counts.
    fn spent_before(&self, spent: &Spent) {
        let _ = spent;
    }

    /// Never waits.
    fn tell(&self, notice: Notice);
}

//! Runs many agents as one workflow: a document is read, checked as a whole before the first model call, and then
//! interpreted; one agent runs per step.

mod notice;
mod port;
mod record;
mod step_key;

pub use notice::{Notice, Started, StepKind};
pub use port::{
    AgentName, AgentRequest, Completion, DurableRun, Item, Iteration, ModelWish, Purpose, StepOutcome,
    StepOutput, StepRequest, StepRunner, Stopped, SubWorkflowRequest, TimedOutside, Upstream, Verdict,
};
pub use record::{
    Answer, JsonText, NotRun, Shown, Spent, StepError, StepErrorClass, StepRecord, StepStatus,
    WorkflowOutcome, WorkflowStatus,
};
pub use step_key::{InvalidStepKey, Role, Segment, StepKey};

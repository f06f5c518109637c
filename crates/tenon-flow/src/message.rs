//! Messages between the agents of one run: what one is, whom it is for, why one is dropped, and what events say about them.
//!
//! How a message gets to its reader is decided in `post.rs`. Programs match on the names here.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The name that messages to and from the coordinator bear.
pub(crate) const COORDINATOR: &str = "coordinator";

/// Something that one agent says to another.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Letter {
    /// `msg-send-3`, or `msg-fwd-3` from the coordinator. Numbers are of the run.
    pub id: String,
    pub from: Address,
    pub to: Address,
    pub msg_type: MessageType,
    pub text: String,
}

/// Who writes and reads.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Address {
    Coordinator,
    /// By the step's id, as events spell it.
    Step(String),
}

impl Address {
    pub fn step_id(&self) -> Option<&str> {
        match self {
            Address::Coordinator => None,
            Address::Step(id) => Some(id),
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.step_id().unwrap_or(COORDINATOR))
    }
}

/// What a message is for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum MessageType {
    #[default]
    Info,
    /// What the reader took for granted has changed.
    ContextUpdate,
    /// The reader is to stop.
    Cancel,
}

/// Why a message reached nobody.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum DropReason {
    /// The run was stopped. One that goes on later delivers the message after all.
    WorkflowCancelled,
    /// The step it is for is over, or will not run.
    TargetTerminal,
    /// No step of the document is called like this.
    UnknownStep,
    /// The coordinator has said its last word.
    MailboxClosedByFinalize,
    /// Messages have made the step go on as often as they may.
    MaxWakeCycles,
    /// The step ended, because the message took too long to be kept.
    HoldTimeout,
    /// Too many wait already.
    MailboxFull,
    /// It names no step, and there is no coordinator.
    NoCoordinator,
}

impl DropReason {
    pub const ALL: [DropReason; 8] = [
        DropReason::WorkflowCancelled,
        DropReason::TargetTerminal,
        DropReason::UnknownStep,
        DropReason::MailboxClosedByFinalize,
        DropReason::MaxWakeCycles,
        DropReason::HoldTimeout,
        DropReason::MailboxFull,
        DropReason::NoCoordinator,
    ];

    pub fn name(self) -> &'static str {
        match self {
            DropReason::WorkflowCancelled => "workflow-cancelled",
            DropReason::TargetTerminal => "target-terminal",
            DropReason::UnknownStep => "unknown-step",
            DropReason::MailboxClosedByFinalize => "mailbox-closed-by-finalize",
            DropReason::MaxWakeCycles => "max-wake-cycles",
            DropReason::HoldTimeout => "hold-timeout",
            DropReason::MailboxFull => "mailbox-full",
            DropReason::NoCoordinator => "no-coordinator",
        }
    }
}

/// A message waits for its reader. The event's step is the sender.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MessageSent {
    pub id: String,
    /// A step's id, or `coordinator`.
    pub to: String,
    pub text: String,
    pub msg_type: MessageType,
}

/// A message will not be read. The event's step is the sender.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MessageDropped {
    pub id: String,
    pub reason: DropReason,
    pub from: String,
    pub to: String,
    pub msg_type: MessageType,
}

/// A message stands in the conversation of its reader, who is the event's step.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AgentInboxDrain {
    pub id: String,
    pub from: String,
    pub msg_type: MessageType,
}

/// An agent has nothing more to do, and messages wait for it.
#[derive(Clone, Copy, Debug, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AgentIdle {
    pub unread_count: u32,
}

/// An agent goes on because of messages.
#[derive(Clone, Copy, Debug, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AgentWake {
    pub message_count: u32,
    /// From 1.
    pub cycle: u32,
}

/// Messages have made an agent go on almost as often as they may.
#[derive(Clone, Copy, Debug, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MaxWakeCyclesWarning {
    pub current_cycle: u32,
    pub max_cycles: u32,
    pub unread_remaining: u32,
}

/// Something stands in the coordinator's conversation.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CoordinatorInboxMessage {
    /// Of a message; none for what the run itself tells.
    pub id: Option<String>,
    /// A step's id, or `workflow`.
    pub from: String,
    #[serde(rename = "type")]
    pub msg_type: MessageType,
}

/// What the coordinator says about the run.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CoordinatorNarration {
    pub text: String,
}

/// The coordinator's last word.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CoordinatorSynthesis {
    pub summary: String,
}

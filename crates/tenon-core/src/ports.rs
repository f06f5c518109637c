//! The ports: where the parts of tenon meet. Object-safe, with hand-written boxed futures.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde_json::Value;

use crate::{
    Args, Cost, DeltaStream, Dollars, Event, FinishReason, LeftBehind, Message, PermissionUpdates, Price,
    Request, SeenFile, ToolCtx, ToolOutcome, ToolResult, ToolSpec, Usage, Whose,
};

pub type BoxFut<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Asks work to stop. Dropping a future cancels it too; this is for work that must be told.
pub type Cancel = tokio_util::sync::CancellationToken;

/// A model: a request in, deltas out. An error ends the stream.
pub trait ModelClient: Send + Sync {
    fn stream(&self, request: Request, cancel: Cancel) -> DeltaStream;
}

/// Something an agent can do.
pub trait Tool: Send + Sync {
    /// Shared: every request of every run carries it.
    fn spec(&self) -> &Arc<ToolSpec>;
    fn call(&self, ctx: ToolCtx, args: Args) -> BoxFut<'_, ToolOutcome>;
    /// The conversation knows these files from before: its process is another one now.
    fn recall(&self, _files: &[SeenFile]) {}
}

/// Where events go. `emit` and `flush` never wait.
pub trait EventSink: Send + Sync {
    fn emit(&self, event: Event);
    /// Nothing more is ready for now: what was held back to share a write should leave.
    fn flush(&self) {}
    /// A reader that cannot keep up: the future ends when it has caught up. The agent waits for it.
    fn blocked(&self) -> Option<BoxFut<'_, ()>> {
        None
    }
}

/// Nobody listens.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoSink;

impl EventSink for NoSink {
    fn emit(&self, _event: Event) {}
}

/// Whoever drives the run. Dropping one of these futures withdraws the request.
pub trait Client: Send + Sync {
    fn permission(&self, ask: PermissionAsk, cancel: Cancel) -> BoxFut<'_, PermissionReply>;
    fn hook(&self, call: HookCall, cancel: Cancel) -> BoxFut<'_, Result<HookReply, ClientError>>;
    fn mcp(&self, server: &str, message: JsonRpc, cancel: Cancel)
    -> BoxFut<'_, Result<JsonRpc, ClientError>>;
    /// An answer of its own cannot be used, for a client that is told what went wrong between the two.
    fn unusable_answer(&self, _why: String) {}
    /// Somebody is there who can answer questions.
    fn can_be_asked(&self) -> bool {
        false
    }
}

/// May this call run?
#[derive(Clone, Debug)]
pub struct PermissionAsk {
    pub call_id: String,
    pub tool: String,
    pub input: Args,
    pub reason: String,
    /// The sub-agent that wants to make it.
    pub agent_id: Option<String>,
}

#[derive(Clone, Debug, PartialEq)]
pub enum PermissionReply {
    /// Go on, with these arguments if any are given, and with these changes to what is allowed.
    Allow {
        updated_input: Option<Args>,
        updates: PermissionUpdates,
    },
    Deny {
        message: String,
    },
    /// Whoever was asked carried the call out; this is what came of it, or how it failed.
    CarriedOut(Result<String, String>),
    /// The run was stopped before anybody answered: the call is neither allowed nor denied.
    Withdrawn,
}

impl PermissionReply {
    /// A plain yes, with these arguments if any are given.
    pub fn allow(updated_input: Option<Args>) -> PermissionReply {
        PermissionReply::Allow { updated_input, updates: PermissionUpdates::default() }
    }
}

#[derive(Clone, Debug)]
pub struct HookCall {
    pub callback_id: String,
    pub input: Value,
    pub tool_use_id: Option<String>,
    /// How long the answer may take: [`ClientError::TimedOut`] after that.
    pub at_most: Duration,
}

#[derive(Clone, Debug)]
pub struct HookReply(pub Value);

#[derive(Clone, Debug)]
pub struct JsonRpc(pub Value);

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ClientError {
    #[error("no client is connected")]
    Absent,
    #[error("the client did not answer in time")]
    TimedOut,
    #[error("the run was stopped")]
    Stopped,
    #[error("{0}")]
    Refused(String),
}

/// Nobody is there to ask: a headless run from a script. Asking is answered with no.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoClient;

impl Client for NoClient {
    fn permission(&self, ask: PermissionAsk, _cancel: Cancel) -> BoxFut<'_, PermissionReply> {
        Box::pin(async move { PermissionReply::Deny { message: ask.reason } })
    }

    fn hook(&self, _call: HookCall, _cancel: Cancel) -> BoxFut<'_, Result<HookReply, ClientError>> {
        Box::pin(async { Err(ClientError::Absent) })
    }

    fn mcp(
        &self,
        _server: &str,
        _message: JsonRpc,
        _cancel: Cancel,
    ) -> BoxFut<'_, Result<JsonRpc, ClientError>> {
        Box::pin(async { Err(ClientError::Absent) })
    }
}

/// Keeps what must survive a crash. Awaited before a tool starts, after it ends and after a model turn;
/// what to do when writing fails is the implementor's to decide.
pub trait TurnJournal: Send + Sync {
    fn write(&self, record: TurnRecord) -> BoxFut<'_, io::Result<()>>;
    /// Why nothing is kept any longer although the run may go on, for a journal that allows that. Told once.
    fn degraded(&self) -> Option<String> {
        None
    }
}

/// Not `Serialize`: it may hold a payload. Store `message.redact()` where payloads must not be kept.
#[derive(Clone, Debug)]
pub enum TurnRecord {
    /// What the model is told by anyone but a tool, before the request that tells it is sent.
    UserMessage {
        message: Message,
        origin: Origin,
        /// Which messages of other agents it holds.
        mail: Vec<String>,
        /// Of which tasks in the background it tells the end.
        ended: Vec<String>,
    },
    ModelTurn {
        turn: u32,
        model: String,
        message: Message,
        usage: Usage,
        finish: FinishReason,
    },
    ToolStarted {
        turn: u32,
        call_id: String,
        name: String,
    },
    ToolFinished {
        turn: u32,
        result: ToolResult,
        left: LeftBehind,
    },
    /// From here on the conversation consists of these messages; what came before is no longer sent.
    Compacted {
        messages: Vec<Message>,
        before_tokens: u64,
        after_tokens: u64,
    },
    /// The run ended before its turn did. What a run that is gone through again does not need: it comes to the same
    /// calls once more.
    Stopped {
        /// What calls without a result are answered.
        closed: Vec<ToolResult>,
        /// What somebody has seen of an answer that broke off.
        said: Option<Message>,
        /// What the model is told about it.
        note: Option<Message>,
    },
    /// A request that was paid for and is no turn of this agent: one of an agent that worked for it, or a summary.
    Besides {
        model: String,
        usage: Usage,
    },
    /// What was asked cannot be asked: from here on the conversation is what it was before that.
    Withdrawn,
}

/// Who speaks in a user message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// Whoever asked for the run.
    Prompt,
    /// The run itself: the model forgot to hand in its answer.
    Reminder,
    /// Background work, a schedule, a hook or another agent.
    Notice,
}

impl Origin {
    pub fn name(self) -> &'static str {
        match self {
            Origin::Prompt => "prompt",
            Origin::Reminder => "reminder",
            Origin::Notice => "notice",
        }
    }
}

/// Nothing is kept: what an agent does for another is that one's to keep, as the result of a call.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoJournal;

impl TurnJournal for NoJournal {
    fn write(&self, _record: TurnRecord) -> BoxFut<'_, io::Result<()>> {
        Box::pin(async { Ok(()) })
    }
}

/// A journal that lives as long as the process.
#[derive(Clone, Debug, Default)]
pub struct MemoryJournal(Arc<Mutex<Vec<TurnRecord>>>);

impl MemoryJournal {
    pub fn records(&self) -> Vec<TurnRecord> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl TurnJournal for MemoryJournal {
    fn write(&self, record: TurnRecord) -> BoxFut<'_, io::Result<()>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(record);
        Box::pin(async { Ok(()) })
    }
}

/// Money and other shared limits: one budget for a run, its sub-agents and its workflow.
pub trait Budget: Send + Sync {
    /// Sets `estimate` aside before a request is sent; waits for requests under way where it does not fit beside them.
    /// Dropping the reservation gives it back, dropping the future leaves the queue.
    fn reserve(&self, estimate: Estimate) -> BoxFut<'_, Result<Reservation, Exceeded>>;

    /// Counts what was spent already: by the same run, before it was cut off.
    fn count(&self, used: Used);

    /// Dollars that the limit would have had to be above, for what was refused so far.
    fn wanted(&self) -> Option<f64> {
        None
    }
}

/// A request that is about to be sent.
#[derive(Clone, Debug, PartialEq)]
pub struct Estimate {
    pub model: String,
    pub input_tokens: u64,
    /// The most that the answer may hold, where somebody says so.
    pub max_output_tokens: Option<u64>,
    pub price: Option<Price>,
}

/// What was set aside. `settle` replaces it by what was really used; dropping it gives it back.
pub struct Reservation {
    settle: Option<Box<dyn FnOnce(Option<Used>) + Send>>,
}

impl Reservation {
    pub fn new(settle: impl FnOnce(Option<Used>) + Send + 'static) -> Reservation {
        Reservation { settle: Some(Box::new(settle)) }
    }

    /// Nobody keeps count.
    pub fn nothing() -> Reservation {
        Reservation { settle: None }
    }

    pub fn settle(mut self, used: Used) {
        if let Some(settle) = self.settle.take() {
            settle(Some(used));
        }
    }

    /// Both, settled together.
    #[must_use]
    pub fn and(self, other: Reservation) -> Reservation {
        Reservation::new(move |used| {
            if let Some(used) = used {
                self.settle(used);
                other.settle(used);
            }
        })
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        if let Some(settle) = self.settle.take() {
            settle(None);
        }
    }
}

/// Why a request is not sent. `set_by` is what a person wrote the limit in.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Exceeded {
    #[error(
        "the money budget was reached: {} of {} spent, and the next request would cost {} before its answer ({set_by})",
        Dollars(*.spent), Dollars(*.limit), Dollars(*.next)
    )]
    Money { spent: f64, next: f64, limit: f64, set_by: &'static str },
    #[error(
        "the money budget of {} cannot be kept: what the model `{model}` costs is not known ({set_by})",
        Dollars(*.limit)
    )]
    NoPrice { model: String, limit: f64, set_by: &'static str },
    #[error("{whose} has used {used} of its {limit} model turns, and needs another ({set_by})")]
    Turns { whose: Whose, used: u32, limit: u32, set_by: Arc<str> },
    #[error("{whose} has used {used} of the {limit} tokens it may use, and needs more ({set_by})")]
    Tokens { whose: Whose, used: u64, limit: u64, set_by: Arc<str> },
}

/// What requests have come to.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Used {
    pub usage: Usage,
    pub cost: Cost,
    /// How many were answered.
    pub turns: u32,
}

/// No limit at all.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoBudget;

impl Budget for NoBudget {
    fn reserve(&self, _estimate: Estimate) -> BoxFut<'_, Result<Reservation, Exceeded>> {
        Box::pin(async { Ok(Reservation::nothing()) })
    }

    fn count(&self, _used: Used) {}
}

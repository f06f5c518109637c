//! The words everyone in tenon shares.
//!
//! Messages, tool calls, events, the outcome of a run, usage, ids, and the ports through which the
//! parts meet (`ports.rs`). Start reading at `event.rs`: everything an agent does is an [`Event`], and
//! everything that shows, stores or measures a run reads events.
//!
//! What this crate may not know: any provider's wire format, any client's dialect, files, terminals,
//! the environment. It holds data and traits, and no I/O.

mod ansi;
mod approval_mode;
mod counted;
mod display;
mod event;
mod harmless;
mod hide_stream;
mod hook;
mod id;
mod journal_message;
mod left_behind;
mod mcp;
mod media;
mod message;
mod model;
mod money;
mod outcome;
mod permission_update;
mod ports;
mod purse;
mod redact;
mod sampling;
mod sandbox;
mod secret;
mod stored_message;
mod tool;
mod trace;
mod usage;

pub use ansi::AnsiStripper;
pub use approval_mode::{ApprovalMode, UnknownMode};
pub use counted::{CountedBudget, Counts, Whose};
pub use display::{FileDiff, TaskExecution, TodoItem, TodoStatus, ToolDisplay};
pub use event::{
    CompactTrigger, Event, EventKind, McpServer, McpStatus, PartKind, PermissionDenial, RunInfo, TaskEnd,
    TaskKind, TaskStart, TaskStatus, ToolReport,
};
pub use harmless::{harmless, harmless_line};
pub use hide_stream::HidingStream;
pub use hook::{
    Hook, HookEnd, HookEvent, HookLayer, HookOrder, HookPower, HookReport, HookRule, HookRun, HookShell,
    HookStart, HookSubject, HookWait, OnHookError,
};
pub use id::{Id, IdSource, Timestamp};
pub use journal_message::JournalMessage;
pub use left_behind::{BegunTask, LeftBehind, SeenFile};
pub use mcp::{McpConnection, McpServerConfig, McpState, McpTrust};
pub use media::Media;
pub use message::{Message, Part, Role, ToolCall, ToolResult};
pub use model::{Delta, DeltaStream, FinishReason, ModelError, Request, ResponseFormat, ToolChoice};
pub use money::{Above, Cost, Dollars, ModelFacts, Models, MoneyBudget, Price, Rates, USUAL_OUTPUT_TOKENS};
pub use outcome::{
    Ending, ErrorClass, Failure, Outcome, Signal, StructuredError, Success, Violation, exit_code,
};
pub use permission_update::{
    Destination, PermissionChange, PermissionUpdate, PermissionUpdates, RuleBehavior,
};
pub use ports::{
    BoxFut, Budget, Cancel, Client, ClientError, Estimate, EventSink, Exceeded, HookCall, HookReply, JsonRpc,
    MemoryJournal, ModelClient, NoBudget, NoClient, NoJournal, NoSink, Origin, PermissionAsk,
    PermissionReply, Reservation, Tool, TurnJournal, TurnRecord, Used,
};
pub use redact::{DurableEvent, DurableMessage, REDACTED_ARGS, REDACTED_NOTE};
pub use sampling::{Effort, Reasoning, Sampling, Thinking, UnknownEffort};
pub use sandbox::{NetworkAccess, SandboxMode, SandboxState};
pub use secret::{Secret, Secrets};
pub use tool::{Args, ToolCtx, ToolErrorKind, ToolKind, ToolOutcome, ToolProgress, ToolSpec};
pub use trace::TraceContext;
pub use usage::{Decision, Metrics, ModelMetrics, ToolMetrics, Usage};

/// JSON text that was checked once and is passed on untouched: every digit, every key in its place.
pub type RawJson = Box<serde_json::value::RawValue>;

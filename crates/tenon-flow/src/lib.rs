//! Runs many agents as one workflow: a document is read, checked as a whole before the first model call, and then
//! interpreted; one agent runs per step.
//!
//! Start reading at `document.rs` (what can be written), then `parse.rs` (text in, document or problems out, no files)
//! and `load.rs` (everything resolved and compiled). `cel.rs` holds the expressions. Then `interpreter.rs` (what happens
//! next, a pure function of what has happened), `port.rs` (what it asks for) and `local_run.rs` (who does it).
//!
//! To run a document from a program, [`load`] it and give it to a [`FlowRun`]. The model client, the tools and the listener are
//! traits: [`tenon_core::ModelClient`], [`tenon_core::Tool`], [`FlowSink`]. The crates whose types are needed for that are
//! re-exported.

mod addressee;
mod agent_step;
mod approval;
mod approval_wait;
mod cel;
mod context_files;
mod coordinator;
mod coordinator_tools;
mod declared_tools;
mod diagnostic;
mod document;
mod document_schema;
mod draw;
mod drive;
mod duration;
mod earlier;
mod emitter;
mod event;
mod exact_json;
mod fields;
mod forget_copies;
mod goal;
mod goal_log;
mod grace;
mod hook_event;
mod input_defaults;
mod interpreter;
mod isolation;
mod journal;
mod journal_log;
mod lined;
mod load;
mod local_run;
mod markup;
mod message;
mod message_tools;
mod node;
mod not_text;
mod notice;
mod page;
mod paid;
mod parse;
mod past;
mod pinned;
mod port;
mod post;
mod prompt;
mod record;
mod references;
mod report;
mod retell;
mod run;
mod run_budget;
mod run_talk;
mod run_view;
mod same_request;
mod shared;
mod shared_memory;
mod signal;
mod so_far;
mod step_events;
mod step_key;
mod step_log;
mod template;
mod tool_aliases;
mod topology;
mod traced;
mod turn_rows;
mod unicode;
mod validate;
mod yaml_text;

pub use tenon_agent::Stop;
pub use {tenon_core, tenon_tools};

pub use agent_step::{AgentSteps, NEVER_SUBMITTED, StepModels, StepParts};
pub use approval::{
    ANSWER_STANDS, ApprovalRequest, Decision, OpenQuestions, Question, Resolution, first_approval,
};
pub use approval_wait::{Approvals, Suspending};
pub use cel::{
    CelError, CelSyntax, Expression, MAX_EXPRESSION_BYTES, MAX_OPERATORS, Scope, StepView, SyntaxKind,
};
pub use context_files::{ContextFile, FileContent, read_context_files};
pub use coordinator::{Coordinated, Coordination};
pub use declared_tools::{
    ToolRefusal, UnusableTool, each_model, each_price, is_isolated, is_tool_of_steps, tool_refusal,
    unusable_tools,
};
pub use diagnostic::{Code, Diagnostic, Severity};
pub use document::{
    AgentSpec, Approval, DEFAULT_MAX_TURNS, Document, Items, Loop, ModelPrice, OnDeny, OnStepFailure,
    OnTimeout, Options, OutputMode, Place, Places, RunBudget, Scheduler, Step, ToolChoice, VERSION, Workflow,
};
pub use document_schema::document_schema;
pub use draw::{Drawing, Inner, MAX_STEPS_DRAWN, Plan, PlanKind, PlanStep};
pub use drive::drive;
pub use earlier::{Earlier, Pauses};
pub use emitter::FlowEmitter;
pub use event::{
    AgentTurn, CallPhase, ErrorData, FlowEvent, FlowEventData, FlowSink, LoopType, MessageData, MessageLevel,
    NoFlowSink, Output, PlanReady, SCHEMA_VERSION, SkipReason, StepProgress, StepSkipped, StepStart,
    ToolCallData, TurnPhase, WorkflowStart, events_schema, exact_events_schema,
};
pub use fields::{Field, MAX_FILE_BYTES, MAX_STEPS, MAX_TEXT_BYTES, Need, OBJECTS, Object, Takes};
pub use forget_copies::forget_copies;
pub use goal::{Goal, MAX_REPAIRS, NoPlan, PlannedWorkflow, plan_goal, plan_schema};
pub use goal_log::{PlanLog, Stage};
pub use grace::CANCEL_GRACE;
pub use hook_event::{HookData, HookOutcome, hook_event};
pub use input_defaults::with_defaults;
pub use interpreter::includes::{MAX_INCLUDE_DEPTH, as_step, included};
pub use interpreter::{
    Action, AtOnce, DEFAULT_MAX_CONCURRENCY, Included, Interpreter, MAX_ITEMS_AT_A_TIME, MoneyLimit,
    RunLimits, RunSpec, WallTime,
};
pub use isolation::{
    Before, FolderTools, Isolation, Kept, Uncommitted, WORKTREE, WorkIn, Worktree, Worktrees,
};
pub use journal::{
    Cancelling, Entry, Journal, JournalError, KeptQuestion, Lease, NewDocument, NewRun, Reply, Retention,
    Revision, Row, RowKind, RunState, RunSummary, Settled, StoredRun, Trouble,
};
pub use journal_log::{JournalLog, Resumed};
pub use load::{
    LoadError, LoadOptions, LoadedAgent, LoadedApproval, LoadedItems, LoadedLoop, LoadedStep, LoadedWorkflow,
    LoopKind, StepBody, UnfitInputs, check_inputs, load, load_pinned, load_text,
};
pub use local_run::{run_in_memory, run_locally};
pub use message::{
    Address, AgentIdle, AgentInboxDrain, AgentWake, CoordinatorInboxMessage, CoordinatorNarration,
    CoordinatorSynthesis, DropReason, Letter, MaxWakeCyclesWarning, MessageDropped, MessageSent, MessageType,
};
pub use not_text::{Mark as EncodingMark, NotText};
pub use notice::{Notice, Started, StepKind, TriedAgain};
pub use page::{Payloads, page, says_nothing_of_the_run};
pub use parse::parse;
pub use past::{Given, NotKept, Past, Wanted, Was};
pub use pinned::{NotPinned, Pinned};
pub use port::{
    AgentName, AgentRequest, Completion, DurableRun, Item, Iteration, ModelWish, Purpose, StepOutcome,
    StepOutput, StepRequest, StepRunner, Stopped, SubWorkflowRequest, TimedOutside, Upstream, Verdict,
    WhenStopped,
};
pub use prompt::{PromptParts, prompt};
pub use record::{
    Answer, JsonText, NotRun, OpenStatus, OpenStep, Shown, Spent, StepError, StepErrorClass, StepRecord,
    StepStatus, WorkflowOutcome, WorkflowStatus,
};
pub use references::{RefError, confined};
pub use report::{
    CoordinatorReport, ErrorReport, QuestionReport, Report, ReportStatus, StepReport, StepReports, Tokens,
};
pub use run::{CannotRun, FlowRun, StopRun, run, show_again};
pub use run_talk::{CoordinatorView, MessageFate, MessageView, NoteView, TalkView};
pub use run_view::{AttemptView, CallView, RunStep, RunView, TurnView, ViewStatus};
pub use signal::{Signal, SignalJournal, Signals};
pub use step_key::{InvalidStepKey, Role, Segment, StepKey};
pub use step_log::{Begun, NoLog, StepLog, Turns};
pub use template::{NoValue, Template};
pub use tool_aliases::{VERSION_1_TOOLS, own_name};
pub use topology::{Graph, order};
pub use unicode::{Unsafe, clean};

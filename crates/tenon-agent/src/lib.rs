//! Runs one agent to its outcome.
//!
//! Give [`run`] an [`Agent`] (a model, tools, permissions, limits and perhaps a contract) and somewhere to
//! send events; it returns the [`tenon_core::Outcome`]. Start reading at `turn_loop.rs`; what happens to the
//! calls of one answer is decided in `plan_batch.rs`, how deltas become a message in `fold.rs`, and every
//! cap in `limits.rs`. When a conversation fills the model's context, `compact.rs` makes room. Agents that work
//! for other agents are started in `subagent.rs`; background work of any kind meets the loop in `drain.rs`.
//!
//! What this crate may not know: any provider's wire, any client's dialect, argv, the environment,
//! the terminal. It emits events and never prints.

mod agent;
mod agent_type;
mod ask;
mod carry_out;
mod client_calls;
mod compact;
mod compress;
mod context;
mod drain;
mod emitter;
mod failures;
mod fold;
mod granted;
mod history;
mod hooked;
mod leave;
mod limits;
mod lineage;
mod mailbox;
mod payload_words;
mod plan_batch;
mod repeated_call;
mod replay;
mod run_batch;
mod run_state;
mod schema_mode;
mod send_message;
mod stop;
mod subagent;
mod summary;
mod system_prompt;
mod template;
mod terminal;
mod turn_loop;

pub use agent::{Agent, Audience, Deliver};
pub use agent_type::{AgentType, ToolChoices};
pub use client_calls::run_calls;
pub use compress::compress;
pub use context::estimate_tokens;
pub use drain::{Background, DEFAULT_WAIT};
pub use emitter::Emitter;
pub use history::{
    INTERRUPTED, NOT_RUN, Prompted, Unfinished, close_calls, is_stopped_note, stopped_note, tell,
};
pub use hooked::SessionEnd;
pub use limits::{Cap, Limits, SetBy};
pub use lineage::Lineage;
pub use mailbox::{Mail, Mailbox};
pub use plan_batch::{Judgement, Step, plan_batch};
pub use replay::Replay;
pub use schema_mode::SchemaMode;
pub use stop::Stop;
pub use subagent::{DEFAULT_MAX_DEPTH, OF_THE_RUN, Subagents};
pub use system_prompt::{HowToAnswer, Memory, SharedMemory, system_prompt};
pub use template::{AgentTemplate, Assignment, Folder, NamedModel, OwnTools};
pub use terminal::{ACCEPTED, SKIPPED, SKIPPED_RETRY};
pub use turn_loop::{Ended, run};

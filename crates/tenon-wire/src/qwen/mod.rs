//! The `qwen` dialect, and `claude`, which differs from it in a few fields: `system`, `assistant`, `user`,
//! `stream_event` and `result` lines.
//!
//! `types.rs` is the wire format; `encode.rs` decides which event gives which line; `turn.rs` groups the
//! parts of a model turn into messages; `result.rs` reads the result line from an outcome; `claude.rs` has what
//! only `claude` has.

mod claude;
mod encode;
mod hook_lines;
mod result;
mod turn;
mod types;

pub(crate) use claude::{Flavour, mode_name, published_schema as claude_schema};
pub(crate) use encode::QwenEncoder;
pub(crate) use types::published_schema;

//! The `qwen` dialect: `system`, `assistant`, `user`, `stream_event` and `result` lines.
//!
//! `types.rs` is the wire format; `encode.rs` decides which event gives which line; `turn.rs` groups the
//! parts of a model turn into messages; `result.rs` reads the result line from an outcome.

mod encode;
mod result;
mod turn;
mod types;

pub(crate) use encode::QwenEncoder;
pub(crate) use types::published_schema;

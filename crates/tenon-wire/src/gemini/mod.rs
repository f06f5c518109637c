//! The `gemini` dialect: `init`, `message`, `tool_use`, `tool_result`, `error` and `result` lines, or one
//! versioned object.
//!
//! `types.rs` is the wire format; `encode.rs` decides which event gives which line.

mod encode;
mod types;

pub(crate) use encode::{GeminiEncoder, said};
pub(crate) use types::published_schema;

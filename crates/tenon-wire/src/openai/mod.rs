//! The `openai` dialect: a `chat.completion` or `chat.completion.chunk` per line, with annotations for what
//! that format has no place for.
//!
//! `types.rs` and `annotation_types.rs` are the wire format; `encode.rs` decides which event gives which line;
//! `turn.rs` gathers an answer; `annotations.rs` shows tools, thoughts and news; `closing.rs` reads the last line
//! from an outcome.

mod annotation_types;
mod annotations;
mod closing;
mod encode;
mod terminal_text;
mod turn;
mod types;

pub(crate) use encode::{OpenAiEncoder, unsupported_protocol};
pub use types::PROTOCOL_VERSION;
pub(crate) use types::published_schema;

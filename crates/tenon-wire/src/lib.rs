//! Writes the events of a run in a client's dialect, and publishes the schema of what it writes.
//!
//! An encoder turns each [`tenon_core::Event`] into zero or more lines. It is a pure codec: no I/O, no
//! clock, no randomness; ids and times come with the events, so the same events always give the same
//! bytes.
//!
//! What this crate may not know: where the lines go, how a run is driven, and what may be stored (that is
//! `tenon_core::DurableEvent`; what is written here goes to the caller's own stdout).
//!
//! Start reading at `dialect.rs`. Each dialect is a folder with one file of wire types (`types.rs`) and
//! the encoder beside it (`encode.rs`); what all dialects share is how one value becomes one line
//! (`json_line.rs`), the `text` format (`text.rs`), statistics (`stats.rs`), failures (`failure.rs`) and how long
//! a tool's output may be (`cap.rs`). What clients send is read in `input`, whatever the dialect; what they are
//! answered and asked is in `reply`.

mod cap;
mod dialect;
mod failure;
mod gemini;
pub mod input;
mod json_line;
mod openai;
mod publish;
mod qwen;
mod reply;
mod stats;
mod text;
mod values;

pub use cap::TOOL_OUTPUT_CAP;
pub use dialect::{
    Dialect, Encoder, EncoderOptions, Format, Lifetime, SCHEMA_VERSION, UnknownDialect, encoder,
    published_input_schema, published_schema,
};
pub use openai::PROTOCOL_VERSION;
pub use reply::{
    Cancelled, CommandTold, HintItem, HintStatus, Question, Replies, SessionState, Suggestion, Update,
};

//! Reads a client's lines: user messages, chat requests, control requests and their answers, hints,
//! heartbeats, cancellations.
//!
//! One reader for all dialects: a line is known by its shape, so a client of any dialect is understood
//! whatever it was started with. `line.rs` tells the shapes apart; `chat_request.rs` and `openai_request.rs` read
//! what is said to the model, in the pieces of `parts.rs`, and calls in `tool_request.rs`; `control.rs` reads what is asked of tenon itself;
//! `published.rs` has the same shapes as types, for the published schema. What a line *means* is decided by whoever
//! drives the session; nothing here waits, answers or keeps state.

mod chat_request;
mod control;
mod line;
mod openai_request;
mod options;
mod parts;
mod permission_update;
mod published;
mod tool_request;

pub use chat_request::{Asks, Command, CommandKind, RequestedCall, SessionRef, Turn, TurnOrigin};
pub use control::{ClientHook, ClientTimeouts, ControlRequest, Initialize};
pub use line::{Hint, HintTrigger, Input, InputError, Line, Meant, read_line};
pub use options::RequestOptions;
pub use parts::{FileData, InputPart};
pub use permission_update::permission_updates;
pub(crate) use published::published_schema;

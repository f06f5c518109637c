//! Reads a client's lines: user messages, chat requests, control requests and their answers, hints,
//! heartbeats, cancellations.
//!
//! One reader for all dialects: a line is known by its shape, so a client of any dialect is understood
//! whatever it was started with. `line.rs` tells the shapes apart; `chat_request.rs` reads what is said to
//! the model; `control.rs` reads what is asked of tenon itself; `published.rs` has the same shapes as types, for the
//! published schema. What a line *means* is decided by whoever
//! drives the session; nothing here waits, answers or keeps state.

mod chat_request;
mod control;
mod line;
mod options;
mod published;

pub use chat_request::{Command, CommandKind, FileData, InputPart, SessionRef, Turn, TurnOrigin};
pub use control::{ClientHook, ControlRequest, Initialize};
pub use line::{Hint, HintTrigger, Input, InputError, read_line};
pub use options::RequestOptions;
pub(crate) use published::published_schema;

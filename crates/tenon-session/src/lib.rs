//! Many turns with one history: session files and resumption.
//!
//! A session is one file of JSON lines (`record.rs` has the format, `place.rs` where it lies). [`SessionFile`]
//! writes it while a run goes on; [`open`] reads it back, repairs what a crash left, and takes the
//! conversation up where it ended. Start reading at `session_file.rs`, then `resume.rs`; what the model is shown
//! of old turns is decided in `shown_history.rs`, and `list.rs` finds, lists and deletes sessions.
//!
//! What this crate may not know: argv, the environment, the terminal, any provider's wire. Everything it
//! stores went through `redact()`.

mod cancel;
mod chats;
mod client_result;
mod commands;
mod control;
mod drive;
mod error;
mod hints;
mod later;
mod list;
mod lock;
mod mirror;
mod peer;
mod place;
mod record;
mod refused;
mod resume;
mod retention;
mod scan;
mod session_file;
mod shown_history;
mod starting;
mod story;
mod suggestions;
mod title;
mod turn_ids;
mod version;
mod waiting;
mod waits;

pub use chats::{SavedChat, SavedChats};
pub use commands::{
    CommandAnswer, CommandUse, Commands, ControlChannel, Desk, Form, Level, ListedCommand, Mentions,
    ModelNames, OwnCommand, OwnSource, Ran, Stats, Submitted, Submitting, Teller, TypedIn, command_json,
    expand, understand,
};
pub use drive::{Closed, Commanded, Conversation, GettingReady, Host, Incoming, Session};
pub use error::SessionError;
pub use hints::{HintSource, Hints};
pub use later::{Answer, Later};
pub use list::{Found, Listed, State, delete, find, list, list_all, most_recent};
pub use mirror::{Mirror, adopt};
pub use peer::{Deadlines, Lines, Peer, TellsState, permission_reply};
pub use place::Place;
pub use record::{FORMAT, Head};
pub use resume::{Asked, Resumed, fork, open, read};
pub use retention::{Cleaned, clean_once_a_day};
pub use session_file::{Recorder, SessionFile};
pub use starting::Said;
pub use title::title_of;
pub use turn_ids::{TurnIds, default_name as default_turn_name};
pub use waiting::{Prepared, Queue};

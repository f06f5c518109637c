//! Cassettes: model traffic recorded to a file, and answered from it.
//!
//! A cassette is JSON Lines. The first line is `{"tenon_cassette":1}`; each further line is one exchange:
//!
//! ```json
//! {"request":{"method":"POST","path":"/v1/chat/completions","body":{"model":"m","messages":[…],"tools":["read_file"]}},
//!  "response":{"status":200,"headers":{"content-type":"text/event-stream"},"events":[{"choices":[…]},"[DONE]"]}}
//! ```
//!
//! An event whose data is a JSON object stands there as that object, any other as a string, one with an
//! `event:` name as `{"sse_event":…,"sse_data":…}`. A body that is no event stream is `"text"`. `"cut":true`
//! marks an answer that broke off, and it breaks off again on replay.
//!
//! **What is kept.** No headers of the request, so no key; every other occurrence of a key becomes `***`.
//! Of the body only what is matched on, and the model's name for the reader: the system prompt and the
//! descriptions of tools are left out, so recordings stay readable and do not change with our wording. The
//! folders in [`Places`] are stored as `{{cwd}}`, `{{home}}` and `{{temp}}`, and put back in answers on
//! replay, so that a recorded tool call finds its file on another machine.
//!
//! The path tells the protocol of an exchange (`cassette/protocol.rs`); the answer stands there as it came, but
//! of every request the same is kept, in the words of chat completions (`cassette/conversation.rs`).
//!
//! **What must match** (`cassette/matching.rs`): the messages but the system prompt (roles, text, tool calls
//! with their arguments, results), the *names* of the offered tools, and the protocol. Host, model, sampling
//! fields, reasoning that goes back, key order, ids, dates, times, durations, process numbers and names below
//! the temporary folder do not matter. Each recorded exchange answers once, in any order; equal ones in the
//! order of the file.

mod conversation;
mod format;
mod matching;
mod places;
mod protocol;
mod recorder;
mod replayer;

pub use places::Places;
pub use protocol::Protocol;
pub use recorder::Recorder;
pub use replayer::Replayer;

//! The test server and the runner, from outside: through a raw socket and a real shell.

#![allow(clippy::unwrap_used, reason = "helpers of tests")]

#[path = "all/chaos.rs"]
mod chaos;
#[path = "all/client.rs"]
mod client;
#[path = "all/faults.rs"]
mod faults;
#[path = "all/running.rs"]
mod running;
#[path = "all/scrubbing.rs"]
mod scrubbing;
#[path = "all/serving.rs"]
mod serving;
#[path = "all/wire_gemini.rs"]
mod wire_gemini;
#[path = "all/wire_messages.rs"]
mod wire_messages;
#[path = "all/wire_responses.rs"]
mod wire_responses;
#[path = "all/wires.rs"]
mod wires;

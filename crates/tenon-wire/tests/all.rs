//! What the encoders write, seen from outside the crate.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "helpers of tests, which clippy cannot tell from other functions"
)]

#[path = "all/chunks.rs"]
mod chunks;
#[path = "all/frames.rs"]
mod frames;
#[path = "all/golden.rs"]
mod golden;
#[path = "all/input_corpus.rs"]
mod input_corpus;
#[path = "all/input_lines.rs"]
mod input_lines;
#[path = "all/input_schema.rs"]
mod input_schema;
#[path = "all/lines.rs"]
mod lines;
#[path = "all/properties.rs"]
mod properties;
#[path = "all/replies.rs"]
mod replies;
#[path = "all/scenarios.rs"]
mod scenarios;
#[path = "all/scenarios_of_tools.rs"]
mod scenarios_of_tools;
#[path = "all/schema.rs"]
mod schema;
#[path = "all/script.rs"]
mod script;
#[path = "all/tables.rs"]
mod tables;

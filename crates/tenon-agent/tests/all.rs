//! One run at a time, against a model that is a list of deltas. The same behaviour through the binary and
//! a real socket is tested in `tenon-cli`.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

#[path = "all/batch.rs"]
mod batch;
#[path = "all/blocked_reader.rs"]
mod blocked_reader;
#[path = "all/counted.rs"]
mod counted;
#[path = "all/drain.rs"]
mod drain;
#[path = "all/ending.rs"]
mod ending;
#[path = "all/events.rs"]
mod events;
#[path = "all/long_conversations.rs"]
mod long_conversations;
#[path = "all/money.rs"]
mod money;
#[path = "all/replay.rs"]
mod replay;
#[path = "all/script.rs"]
mod script;
#[path = "all/stage.rs"]
mod stage;
#[path = "all/stuck.rs"]
mod stuck;
#[path = "all/subagents.rs"]
mod subagents;

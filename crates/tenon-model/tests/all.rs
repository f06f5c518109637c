//! Behaviour of the crate at its boundary, against scripted servers and scripted bytes.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

#[path = "all/answers.rs"]
mod answers;
#[path = "all/cassette.rs"]
mod cassette;
#[path = "all/chunking.rs"]
mod chunking;
#[path = "all/failures.rs"]
mod failures;
#[path = "all/network.rs"]
mod network;
#[path = "all/request_body.rs"]
mod request_body;
#[path = "all/retry.rs"]
mod retry;
#[path = "all/support.rs"]
mod support;
#[path = "all/tool_calls.rs"]
mod tool_calls;

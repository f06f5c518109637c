//! Behaviour of the crate at its boundary, with a model that the tests make themselves.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

#[path = "all/gguf.rs"]
mod gguf;
#[path = "all/model.rs"]
mod model;
#[path = "all/pull.rs"]
mod pull;
#[path = "all/schemas.rs"]
mod schemas;

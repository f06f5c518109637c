//! Workflows at the boundary of the crate.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

#[path = "all/every_order.rs"]
mod every_order;
#[path = "all/graphs.rs"]
mod graphs;
#[path = "all/replay.rs"]
mod replay;
#[path = "all/sim.rs"]
mod sim;
#[path = "all/step_keys.rs"]
mod step_keys;

//! Events in, decoded protobuf out: nesting, times, bounds, and what configuration means.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking, in its helpers too"
)]

#[path = "all/config.rs"]
mod config;
#[path = "all/delivery.rs"]
mod delivery;
#[path = "all/nesting.rs"]
mod nesting;
#[path = "all/support.rs"]
mod support;

//! Session files from outside: what is written comes back, whatever happens to the file in between.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking, in its helpers too"
)]

#[path = "all/commands.rs"]
mod commands;
#[path = "all/damage.rs"]
mod damage;
#[path = "all/drive.rs"]
mod drive;
#[path = "all/list.rs"]
mod list;
#[path = "all/mirror.rs"]
mod mirror;
#[path = "all/resume.rs"]
mod resume;
#[path = "all/support.rs"]
mod support;

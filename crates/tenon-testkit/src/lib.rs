//! Test doubles for tenon: a scripted model server that speaks four wires, and a runner for the binary.
//!
//! A test reads like a conversation: the replies the model will give, then the run, then what was asked.
//!
//! ```
//! use tenon_testkit::{Server, json, reply};
//!
//! let server = Server::start([
//!     reply().text("Reading it.").call("call_1", "read_file", json!({"file_path": "a.txt"})).usage(1200, 30),
//!     reply().reasoning("A greeting.").text("It says hello."),
//! ]);
//! assert!(server.base_url().starts_with("http://127.0.0.1:"));
//! ```
//!
//! It may not know any other tenon crate: it writes the wire's JSON itself, so that a mistake in our
//! encoder cannot hide behind the same mistake here. It is never a normal dependency of a shipped crate.
//! It fails by panicking with the whole story, because its callers are tests.
//!
//! Start reading in `reply.rs` (what a model says), then `server.rs` (who gets which reply), `captured.rs`
//! (what was asked), `wire.rs` (the four wires), `cli.rs` (how the binary is run). `render.rs` turns a reply
//! into bytes (`render/` has a file for each wire), `http.rs` moves them, `chaos.rs` mangles them. `collector.rs`
//! receives telemetry, `strict.rs` makes a published schema less tolerant, `mcp.rs` is a server of tools, `flow_events.rs` checks the events of a workflow, `tiny_model.rs` makes the file of a language model.

#![allow(
    clippy::panic,
    clippy::expect_used,
    clippy::unwrap_used,
    reason = "a test helper fails by panicking"
)]

mod captured;
mod cases;
mod chaos;
mod cli;
mod collector;
mod flow_events;
mod http;
mod mcp;
mod process;
mod render;
mod reply;
mod scrub;
mod server;
mod strict;
mod tiny_model;
mod web;
mod wire;

pub use captured::Captured;
pub use cases::cases;
pub use chaos::{Chaos, Mischief};
pub use cli::{Run, Tenon};
pub use collector::{Collector, Manner, Measurement, Span};
pub use flow_events::assert_flow_events;
pub use mcp::{McpHttp, McpScript, TINY_PNG, logged, serve_mcp_if_asked};
pub use process::{Running, Signal, watch_lines};
pub use reply::{Gate, Reply, reply};
pub use scrub::scrub;
pub use serde_json::{Value, json};
pub use server::Server;
pub use strict::strict_schema;
pub use tiny_model::{TinyFamily, TinyFormat, TinyModel};
pub use web::{Page, Web, WebRequest};
pub use wire::Wire;

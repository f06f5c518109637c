//! OTLP out of durable events: what a run did, where people watch such things.
//!
//! Spans for the run, its turns, model requests, tool calls, sub-agents and background tasks; metrics for tokens,
//! durations, errors and tool calls; named as the OpenTelemetry conventions for generative AI name them
//! (`names.rs`). No content leaves: no prompt, no answer, no argument, no error text. Every event is redacted
//! before it is looked at.
//!
//! Start reading at `exporter.rs`: [`Exporter`] watches a run's events, sends batches while the run goes on
//! and the rest at its end. What an event means is decided in `watch.rs` (spans) and `metrics.rs`; bytes are
//! made in `protobuf.rs` and `json.rs`; where they go, and whether at all, in `config.rs`.
//!
//! What this crate may not know: the network, the environment, the home directory, the terminal. It is
//! handed values and a [`Post`].

mod config;
mod data;
mod exporter;
mod json;
mod metrics;
mod names;
mod protobuf;
mod watch;

pub use config::{Config, ConfigError, Given, Protocol, Target, configure};
pub use exporter::{Exporter, Observed, Parcel, Post, Signal, Undelivered};
pub use names::SCHEMA_URL;
pub use watch::Place;

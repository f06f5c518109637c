//! A small model in this process, answering inside the schema.
//!
//! Start reading at `client.rs`: a request in, deltas out. Behind it `prompt.rs` words the request, `chat.rs` and
//! `tokenizer.rs` turn it into tokens, `answer.rs` writes the answer token by token with `forward.rs` (the
//! arithmetic) and `grammar.rs` (what may come next). `store.rs` knows the weights on this machine, `pull.rs`
//! brings them here, `gguf.rs` reads their files, which may come from anyone.
//!
//! What this crate may not know: flags, settings, terminals, the environment, the home directory. Numbers of
//! threads, folders and the network are handed in.

mod answer;
mod chat;
mod client;
mod document;
mod error;
mod express;
mod forward;
mod gguf;
mod grammar;
mod letters;
mod loaded;
mod manifest;
mod measure;
mod model;
mod pool;
mod products;
mod prompt;
mod pull;
mod quant;
mod requantise;
mod sample;
mod simd;
mod store;
mod sys;
mod threads;
mod tokenizer;

pub use client::{LocalModel, LocalOptions};
pub use error::{GgufError, LocalError};
pub use gguf::{Gguf, Tensor};
pub use loaded::examine;
pub use manifest::{DEFAULT, Entry, Source, entries, entry};
pub use measure::{Measured, measure};
pub use pull::{Download, Got, Network, Progress, Pull};
pub use quant::Kind;
pub use sample::Sampling;
pub use store::{Installed, Store, Weights};
pub use threads::choose_threads;

//! Speaks to models: a provider-neutral [`tenon_core::Request`] in, a stream of deltas out.
//!
//! A client, one per wire (`openai_chat.rs`, `openai_responses.rs`, `anthropic.rs`, `gemini.rs`), turns a request
//! into one HTTP exchange and its answer into deltas; `answer.rs` drives the answer on every wire. It
//! reaches the server through a [`Transport`]: the network (`http.rs`), a recording one or a replayed one
//! (`cassette.rs`). [`Retrying`] (`retry.rs`) wraps any client and holds the only backoff there is; `rate_limit.rs` is what all clients of a process know of a server's limits. `media.rs` decides which images a model is shown.
//! `errors.rs` has the table that sorts failures into classes, `sse.rs` reads event streams, `adapt.rs`
//! shapes schemas for a provider. Start reading at `openai_chat.rs`.
//!
//! What this crate may not know: agents, tools that run, contracts, dialects, the environment, the home
//! directory. Proxy, certificates and keys are handed in.

mod adapt;
mod answer;
mod anthropic;
mod call_id;
mod cassette;
mod delta_stream;
mod endpoint;
mod errors;
mod fallback;
mod gemini;
mod http;
mod loose_json;
mod media;
mod openai_chat;
mod openai_responses;
mod peek;
mod rate_headers;
mod rate_limit;
mod rate_pace;
mod reasoning;
mod response_format;
mod restore;
mod retry;
mod retry_after;
mod sse;
mod token_counts;
mod transport;
mod wire;

pub use adapt::{Adapted, MAX_DESCRIBED_SCHEMA_BYTES, Target, Undo, adapt};
pub use anthropic::Anthropic;
pub use cassette::{Places, Protocol, Recorder, Replayer};
pub use endpoint::{Endpoint, host_and_port, is_loopback, shown_url};
pub use fallback::{Candidate, Fallback};
pub use gemini::Gemini;
pub use http::{Http, HttpOptions, PROXY_HINT, Timeouts, is_proxy};
pub use media::{Carries, WithoutUnseen};
pub use openai_chat::OpenAiChat;
pub use openai_responses::OpenAiResponses;
pub use rate_limit::{Bucket, RateLimits};
pub use reasoning::check_reasoning;
pub use response_format::TextAsCall;
pub use retry::{RetryPolicy, Retrying};
pub use transport::{ByteStream, HttpRequest, HttpResponse, Transport};

//! Behaviour of the crate at its boundary, against scripted servers and scripted bytes.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

#[path = "all/adapt.rs"]
mod adapt;
#[path = "all/adapt_prop.rs"]
mod adapt_prop;
#[path = "all/adapt_sent.rs"]
mod adapt_sent;
#[path = "all/answers.rs"]
mod answers;
#[path = "all/anthropic.rs"]
mod anthropic;
#[path = "all/anthropic_body.rs"]
mod anthropic_body;
#[path = "all/anthropic_failures.rs"]
mod anthropic_failures;
#[path = "all/anthropic_stream.rs"]
mod anthropic_stream;
#[path = "all/cassette.rs"]
mod cassette;
#[path = "all/chunking.rs"]
mod chunking;
#[path = "all/failures.rs"]
mod failures;
#[path = "all/gemini.rs"]
mod gemini;
#[path = "all/gemini_body.rs"]
mod gemini_body;
#[path = "all/gemini_chunking.rs"]
mod gemini_chunking;
#[path = "all/gemini_failures.rs"]
mod gemini_failures;
#[path = "all/gemini_server.rs"]
mod gemini_server;
#[path = "all/media.rs"]
mod media;
#[path = "all/network.rs"]
mod network;
#[path = "all/rate_limits.rs"]
mod rate_limits;
#[path = "all/request_body.rs"]
mod request_body;
#[path = "all/response_format.rs"]
mod response_format;
#[path = "all/responses.rs"]
mod responses;
#[path = "all/responses_body.rs"]
mod responses_body;
#[path = "all/responses_chunking.rs"]
mod responses_chunking;
#[path = "all/responses_failures.rs"]
mod responses_failures;
#[path = "all/responses_server.rs"]
mod responses_server;
#[path = "all/retry.rs"]
mod retry;
#[path = "all/support.rs"]
mod support;
#[path = "all/tool_calls.rs"]
mod tool_calls;
#[path = "all/waiting.rs"]
mod waiting;

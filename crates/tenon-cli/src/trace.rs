//! The run's place in a distributed trace, from the environment of the process.

use tenon_config::Surroundings;
use tenon_core::TraceContext;

/// `TRACEPARENT` and `TRACESTATE`, passed on to what the run starts.
pub fn from_environment(here: &Surroundings) -> Option<TraceContext> {
    TraceContext::parse(here.env.get("TRACEPARENT")?, here.env.get("TRACESTATE").map(String::as_str))
}

//! `RUST_LOG`: a log on stderr for whoever debugs tenon itself. Nothing is set up unless the variable is.
//!
//! Only our own lines, whatever the filter says: HTTP and protocol libraries would print headers and bodies. Our own
//! lines say what happened, when and how long it took, and never what was said: no prompt, no answer, no
//! argument, no path of a command, no message of a server.

use tracing_subscriber::filter::{EnvFilter, filter_fn};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{Layer, fmt};

use crate::stderr::line;

/// Every crate of ours, and nobody else's, has a name that begins like this.
const OURS: &str = "tenon";

pub fn start() {
    let Some(wanted) = std::env::var("RUST_LOG").ok().filter(|wanted| !wanted.trim().is_empty()) else {
        return;
    };
    let filter = match EnvFilter::try_new(&wanted) {
        Ok(filter) => filter,
        Err(_) => {
            line("warning: `RUST_LOG` is not a filter such as `debug` or `tenon_model=trace`");
            return;
        }
    };
    let ours = filter_fn(|about| is_ours(about.target()));
    let lines = fmt::layer()
        .with_writer(std::io::stderr)
        .with_ansi(false)
        // Would print to stderr that stderr cannot be printed to.
        .log_internal_errors(false)
        .with_filter(ours)
        .with_filter(filter);
    // Fails only when there is a log already.
    let _ = tracing_subscriber::registry().with(lines).try_init();
}

fn is_ours(target: &str) -> bool {
    let name = target.split("::").next().unwrap_or_default();
    name == OURS || name.strip_prefix(OURS).is_some_and(|rest| rest.starts_with('_'))
}

//! Makes whole outputs comparable: what differs from run to run is replaced by a name.

use std::collections::HashMap;
use std::sync::LazyLock;

use regex::{Captures, Regex};

use crate::cli::SCRATCH_PREFIX;

/// Replaces ids (numbered by first appearance), times, durations, private folders, the server's port and
/// our version.
pub fn scrub(text: &str) -> String {
    let mut ids: HashMap<String, usize> = HashMap::new();
    let text = UUID.replace_all(text, |found: &Captures| {
        let next = ids.len() + 1;
        format!("<uuid:{}>", ids.entry(found[0].to_owned()).or_insert(next))
    });
    RULES
        .iter()
        .fold(text.into_owned(), |text, (pattern, name)| pattern.replace_all(&text, *name).into_owned())
}

static UUID: LazyLock<Regex> =
    LazyLock::new(|| regex(r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b"));

static RULES: LazyLock<Vec<(Regex, &str)>> = LazyLock::new(|| {
    // The same folder as a path, and as the name of a folder made from that path.
    let path = format!(r#"/[^\s"'`]*?{SCRATCH_PREFIX}[0-9A-Za-z]+"#);
    let slug = format!(r"-[0-9A-Za-z-]*?{SCRATCH_PREFIX}[0-9A-Za-z]+");
    let version = regex::escape(env!("CARGO_PKG_VERSION"));
    vec![
        (regex(&format!("{path}/workspace")), "<cwd>"),
        (regex(&format!("{path}/home")), "<home>"),
        (regex(&format!("{slug}-workspace")), "<cwd-slug>"),
        (regex(r"127\.0\.0\.1:\d+"), "127.0.0.1:PORT"),
        (
            regex(
                r#"("(?:(?:duration|duration_api|elapsed)_ms|durationMs|totalDurationMs|totalLatencyMs)":\s*)\d+(?:\.\d+)?"#,
            ),
            "${1}<ms>",
        ),
        (regex(r"\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:\d\d)"), "<time>"),
        (regex(&format!(r"\b{version}\b")), "<version>"),
    ]
});

fn regex(pattern: &str) -> Regex {
    Regex::new(pattern).expect("a pattern of ours")
}

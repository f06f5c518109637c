//! `tool_search`: finds tools that are not offered, and offers them from then on.
//!
//! When there are more tools than a request should carry, `registry.rs` keeps those back that most runs do
//! not need. What was found stays offered for the rest of the run, at the end of the list, so that the
//! beginning of a request stays the same.

use std::sync::Arc;

use serde_json::json;
use tenon_core::{Args, BoxFut, LeftBehind, Tool, ToolCtx, ToolKind, ToolOutcome, ToolSpec};

use crate::args::{ArgReader, Refusal, outcome};
use crate::hook_reply::shortened;
use crate::{Offered, WeakRegistry};

pub(crate) const NAME: &str = "tool_search";
const DEFAULT_RESULTS: usize = 5;
const MAX_RESULTS: usize = 20;
/// How many names are listed when nothing fits.
const NAMES_LISTED: usize = 100;
const DESCRIPTION_CHARS: usize = 300;
/// Shorter words are in every text.
const MIN_WORD: usize = 3;
/// What a word in the name counts, beside one in the description.
const NAME_WEIGHT: usize = 3;

pub(crate) struct ToolSearch {
    spec: Arc<ToolSpec>,
    registry: WeakRegistry,
}

impl ToolSearch {
    pub fn new(registry: WeakRegistry) -> ToolSearch {
        let spec = ToolSpec {
            name: NAME.to_owned(),
            description: "Finds more tools than those you see; what is found can be called from your next \
                          answer on. Search by words about what you want to do, or take tools by name with \
                          `select:NAME,NAME`. Names of tools of servers begin with `mcp__SERVER__`."
                .to_owned(),
            parameters: json!({
                "type": "object",
                "properties": {
                    "query": { "type": "string", "description": "Words, or `select:` and names." },
                    "max_results": {
                        "type": "integer",
                        "minimum": 1,
                        "maximum": MAX_RESULTS,
                        "description": format!("Default: {DEFAULT_RESULTS}.")
                    }
                },
                "required": ["query"]
            }),
            kind: ToolKind::Read,
        };
        ToolSearch { spec: Arc::new(spec), registry }
    }

    fn search(&self, args: &Args) -> Result<ToolOutcome, Refusal> {
        let args = ArgReader::new(&self.spec, args);
        let query = args.filled_text("query")?.trim();
        let most = match args.optional_count("max_results")? {
            None => DEFAULT_RESULTS,
            Some(0) => return Err(Refusal::arguments("`max_results` must be at least 1.")),
            Some(count) => usize::try_from(count).unwrap_or(MAX_RESULTS).min(MAX_RESULTS),
        };
        let registry = self.registry.upgrade().ok_or_else(|| Refusal::failed("The run is over."))?;
        let hidden = registry.specs_of(Offered::OnDemand);
        let (found, missing) = match query.strip_prefix("select:") {
            Some(names) => {
                let names: Vec<&str> =
                    names.split(',').map(str::trim).filter(|name| !name.is_empty()).collect();
                let known = registry.names();
                let missing: Vec<String> = names
                    .iter()
                    .filter(|name| !known.iter().any(|known| known == *name))
                    .map(|name| match registry.nearest(name) {
                        Some(near) => format!("There is no tool `{name}`; did you mean `{near}`?"),
                        None => format!("There is no tool `{name}`."),
                    })
                    .collect();
                let found =
                    hidden.iter().filter(|spec| names.contains(&spec.name.as_str())).cloned().collect();
                let already: Vec<String> = names
                    .iter()
                    .filter(|name| {
                        known.iter().any(|known| known == *name)
                            && !hidden.iter().any(|spec| spec.name == **name)
                    })
                    .map(|name| format!("`{name}` is offered already."))
                    .collect();
                (found, [missing, already].concat())
            }
            None => (best(&hidden, query, most), Vec::new()),
        };
        let found: Vec<Arc<ToolSpec>> = found;
        for spec in &found {
            registry.offer(&spec.name, Offered::Always);
        }
        let offered = found.iter().map(|spec| spec.name.clone()).collect();
        let left = LeftBehind { offered, ..LeftBehind::default() };
        Ok(ToolOutcome { left, ..ToolOutcome::ok(report(&found, &missing, &hidden)) })
    }
}

impl Tool for ToolSearch {
    fn spec(&self) -> &Arc<ToolSpec> {
        &self.spec
    }

    fn call(&self, _ctx: ToolCtx, args: Args) -> BoxFut<'_, ToolOutcome> {
        Box::pin(async move { outcome(self.search(&args)) })
    }
}

/// The tools that most of the words speak of, in the order they were registered where they are equal.
fn best(hidden: &[Arc<ToolSpec>], query: &str, most: usize) -> Vec<Arc<ToolSpec>> {
    let words: Vec<String> = query
        .split(|c: char| !c.is_alphanumeric())
        .filter(|word| word.chars().count() >= MIN_WORD)
        .map(str::to_lowercase)
        .collect();
    let mut scored: Vec<(usize, &Arc<ToolSpec>)> =
        hidden.iter().map(|spec| (score(spec, &words), spec)).filter(|(score, _)| *score > 0).collect();
    scored.sort_by(|(left, _), (right, _)| right.cmp(left));
    scored.into_iter().take(most).map(|(_, spec)| Arc::clone(spec)).collect()
}

fn score(spec: &ToolSpec, words: &[String]) -> usize {
    let name = spec.name.to_lowercase();
    let description = spec.description.to_lowercase();
    words
        .iter()
        .map(|word| {
            usize::from(name.contains(word)) * NAME_WEIGHT + usize::from(description.contains(word.as_str()))
        })
        .sum()
}

fn report(found: &[Arc<ToolSpec>], missing: &[String], hidden: &[Arc<ToolSpec>]) -> String {
    let mut parts = Vec::new();
    if !found.is_empty() {
        let lines: Vec<String> = found
            .iter()
            .map(|spec| format!("- {}: {}", spec.name, shortened(&spec.description, DESCRIPTION_CHARS)))
            .collect();
        parts.push(format!("You can call these from now on:\n{}", lines.join("\n")));
    }
    parts.extend(missing.iter().cloned());
    if found.is_empty() && missing.is_empty() {
        let names: Vec<String> =
            hidden.iter().take(NAMES_LISTED).map(|spec| format!("`{}`", spec.name)).collect();
        let more = hidden.len().saturating_sub(NAMES_LISTED);
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        parts.push(match names.is_empty() {
            true => "There are no tools besides those you see.".to_owned(),
            false => format!("Nothing fits. The tools to be found are: {}{more}.", names.join(", ")),
        });
    }
    parts.join("\n")
}

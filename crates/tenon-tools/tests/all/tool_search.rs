//! Many tools: which are kept back, and how they are found again.

use std::sync::Arc;

use serde_json::{Value, json};
use tenon_core::{Args, BoxFut, Tool, ToolCtx, ToolErrorKind, ToolKind, ToolOutcome, ToolSpec};
use tenon_tools::Registry;

use crate::more_tools::ctx;
use crate::support::{object, runtime};

struct Named(Arc<ToolSpec>);

impl Tool for Named {
    fn spec(&self) -> &Arc<ToolSpec> {
        &self.0
    }

    fn call(&self, _ctx: ToolCtx, _args: Args) -> BoxFut<'_, ToolOutcome> {
        Box::pin(async { ToolOutcome::ok("called") })
    }
}

fn tool(name: &str, description: &str) -> Arc<dyn Tool> {
    let spec = ToolSpec {
        name: name.to_owned(),
        description: description.to_owned(),
        parameters: json!({}),
        kind: ToolKind::Other,
    };
    Arc::new(Named(Arc::new(spec)))
}

fn offered(registry: &Registry) -> Vec<String> {
    registry.specs().iter().map(|spec| spec.name.clone()).collect()
}

fn search(registry: &Registry, args: Value) -> ToolOutcome {
    runtime().block_on(registry.get("tool_search").unwrap().call(ctx(), object(args)))
}

/// `read_file`, `web_fetch` and tools of two servers.
fn many() -> Registry {
    let registry = Registry::new();
    for (name, description) in [
        ("read_file", "Reads a file."),
        ("mcp__mail__send", "Sends a mail to somebody."),
        ("mcp__mail__list", "Lists mails."),
        ("web_fetch", "Fetches a page."),
        ("mcp__db__query", "Asks the database; can send results."),
    ] {
        registry.add(tool(name, description)).unwrap();
    }
    registry
}

#[test]
fn few_tools_are_offered_as_they_are() {
    let registry = many();
    let before = offered(&registry);
    registry.defer_above(5);
    assert_eq!(offered(&registry), before);
    assert!(registry.get("tool_search").is_none());
}

#[test]
fn beyond_the_threshold_tools_of_servers_and_rare_ones_wait() {
    let registry = many();
    registry.defer_above(4);
    assert_eq!(offered(&registry), ["read_file", "tool_search"]);
    // They can be called all the same.
    assert!(registry.get("mcp__db__query").is_some());
    assert_eq!(registry.names().len(), 6);
}

#[test]
fn tools_that_come_late_wait_and_those_offered_stay() {
    let registry = many();
    registry.defer_above(5);
    registry.add(tool("mcp__late__one", "x")).unwrap();
    registry.add(tool("todo_write", "x")).unwrap();
    assert_eq!(offered(&registry).last().map(String::as_str), Some("todo_write"));
    assert!(offered(&registry).contains(&"mcp__mail__send".to_owned()));
    assert!(offered(&registry).contains(&"tool_search".to_owned()));
    assert!(!offered(&registry).contains(&"mcp__late__one".to_owned()));
}

#[test]
fn what_is_found_is_offered_at_the_end_from_then_on() {
    let registry = many();
    registry.defer_above(0);
    let found = search(&registry, json!({"query": "select:mcp__db__query, mcp__mail__send"}));
    assert!(
        found.content.starts_with("You can call these from now on:\n- mcp__mail__send: Sends"),
        "{}",
        found.content
    );
    assert_eq!(offered(&registry), ["read_file", "tool_search", "mcp__mail__send", "mcp__db__query"]);
    let found = search(&registry, json!({"query": "a web page"}));
    assert!(found.content.contains("- web_fetch: Fetches a page."), "{}", found.content);
    assert_eq!(offered(&registry).last().map(String::as_str), Some("web_fetch"));
}

#[test]
fn words_are_looked_for_in_names_first() {
    let registry = many();
    registry.defer_above(0);
    let found = search(&registry, json!({"query": "SEND", "max_results": 1}));
    assert!(
        found.content.contains("mcp__mail__send") && !found.content.contains("mcp__db__query"),
        "{}",
        found.content
    );
    let nothing = search(&registry, json!({"query": "unrelated"}));
    assert!(
        nothing.content.starts_with("Nothing fits. The tools to be found are: `mcp__mail__list`"),
        "{}",
        nothing.content
    );
    for (query, expected) in [
        ("select:mcp__mail__snd", "There is no tool `mcp__mail__snd`; did you mean `mcp__mail__send`?"),
        ("select:read_file", "`read_file` is offered already."),
        ("select:", "Nothing fits"),
    ] {
        assert!(search(&registry, json!({"query": query})).content.contains(expected), "{query}");
    }
    for args in [json!({}), json!({"query": " "}), json!({"query": "x", "max_results": 0})] {
        assert_eq!(search(&registry, args).error, Some(ToolErrorKind::InvalidArguments));
    }
}

#[test]
fn a_copy_of_the_list_searches_itself() {
    let registry = many();
    registry.defer_above(0);
    let copy = registry.with(|spec| spec.name != "web_fetch");
    search(&copy, json!({"query": "select:mcp__db__query"}));
    assert!(offered(&copy).contains(&"mcp__db__query".to_owned()));
    assert!(!offered(&registry).contains(&"mcp__db__query".to_owned()));
}

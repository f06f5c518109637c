//! What a server offers, made fit for a model: leniently read, named, and cut to size.

use serde_json::{Map, Value, json};
use tenon_core::{McpServerConfig, McpTrust, ToolKind, ToolSpec};

use super::names::tool_names;
use crate::output::first_chars;

/// A server with more tools than this was not made for one model.
pub(super) const MAX_TOOLS: usize = 500;
/// A tool is described to the model in every request.
const MAX_DESCRIPTION: usize = 8_000;
const MAX_SCHEMA_BYTES: usize = 64 * 1024;

/// A tool of a server.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Listed {
    /// What the server calls it.
    pub remote: String,
    pub spec: ToolSpec,
}

/// The tools to offer, and a sentence for each that cannot be.
pub(super) fn tools(server: &str, config: &McpServerConfig, listed: &[Value]) -> (Vec<Listed>, Vec<String>) {
    let mut problems = Vec::new();
    if listed.len() > MAX_TOOLS {
        problems.push(format!(
            "the MCP server `{server}` lists {} tools, and only the first {MAX_TOOLS} are offered",
            listed.len()
        ));
    }
    let wanted: Vec<(&str, &Value)> = listed
        .iter()
        .take(MAX_TOOLS)
        .map(|tool| (tool["name"].as_str().unwrap_or_default(), tool))
        .filter(|(name, _)| is_wanted(config, name))
        .collect();
    let names = tool_names(server, wanted.iter().map(|(name, _)| *name));
    let mut tools = Vec::new();
    for ((remote, tool), name) in wanted.into_iter().zip(names) {
        let Some(name) = name else {
            let which = if remote.is_empty() { "a tool without a name" } else { "a tool twice" };
            problems.push(format!("the MCP server `{server}` lists {which}, which is left out"));
            continue;
        };
        match parameters(&tool["inputSchema"]) {
            Ok(parameters) => {
                let spec =
                    ToolSpec { description: description(tool), kind: kind(config, tool), name, parameters };
                tools.push(Listed { remote: remote.to_owned(), spec });
            }
            Err(why) => problems.push(format!("`{name}` is left out: {why}")),
        }
    }
    for name in config.include_tools.iter().flatten() {
        if !listed.iter().any(|tool| tool["name"] == *name) {
            problems.push(format!("the MCP server `{server}` has no tool `{name}` to include"));
        }
    }
    (tools, problems)
}

fn is_wanted(config: &McpServerConfig, name: &str) -> bool {
    let included = config.include_tools.as_ref().is_none_or(|tools| tools.iter().any(|tool| tool == name));
    included && !config.exclude_tools.iter().any(|tool| tool == name)
}

/// What a server says of itself counts only where the user believes it.
fn kind(config: &McpServerConfig, tool: &Value) -> ToolKind {
    match config.trust {
        McpTrust::Believed if tool["annotations"]["readOnlyHint"] == true => ToolKind::Read,
        McpTrust::Believed | McpTrust::Doubted => ToolKind::Other,
    }
}

fn description(tool: &Value) -> String {
    let said =
        ["description", "title"].iter().find_map(|key| tool[*key].as_str().filter(|text| !text.is_empty()));
    let text = said.unwrap_or_default();
    let cut = first_chars(text, MAX_DESCRIPTION);
    if cut.len() < text.len() { format!("{cut}…") } else { text.to_owned() }
}

/// The schema as it came, an object at its root; anything that is no object takes no arguments.
fn parameters(schema: &Value) -> Result<Value, String> {
    let mut schema = schema.as_object().cloned().unwrap_or_else(Map::new);
    schema.entry("type").or_insert_with(|| json!("object"));
    if schema["type"] != "object" {
        return Err("its arguments are no object".to_owned());
    }
    schema.entry("properties").or_insert_with(|| json!({}));
    let schema = Value::Object(schema);
    match schema.to_string().len() {
        bytes if bytes > MAX_SCHEMA_BYTES => {
            Err(format!("the schema of its arguments takes more than {} KiB", MAX_SCHEMA_BYTES / 1024))
        }
        _ => Ok(schema),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use tenon_core::{McpConnection, McpState};

    use super::*;

    fn config() -> McpServerConfig {
        McpServerConfig {
            connection: McpConnection::Http { url: String::new(), headers: BTreeMap::new() },
            timeout: None,
            include_tools: None,
            exclude_tools: Vec::new(),
            trust: McpTrust::Doubted,
            state: McpState::Used,
        }
    }

    fn names(config: &McpServerConfig, listed: &[Value]) -> (Vec<String>, Vec<String>) {
        let (tools, problems) = tools("s", config, listed);
        (tools.into_iter().map(|tool| tool.spec.name).collect(), problems)
    }

    #[test]
    fn lists_say_which_tools_are_used_and_excluding_wins() {
        let listed = ["a", "b", "c"].map(|name| json!({ "name": name, "inputSchema": { "type": "object" } }));
        for (include, exclude, expected) in [
            (None, vec![], vec!["mcp__s__a", "mcp__s__b", "mcp__s__c"]),
            (Some(vec!["a", "b"]), vec![], vec!["mcp__s__a", "mcp__s__b"]),
            (None, vec!["b"], vec!["mcp__s__a", "mcp__s__c"]),
            (Some(vec!["a", "b"]), vec!["b"], vec!["mcp__s__a"]),
            (Some(vec![]), vec![], vec![]),
        ] {
            let owned = |list: Vec<&str>| list.into_iter().map(str::to_owned).collect::<Vec<_>>();
            let config = McpServerConfig {
                include_tools: include.map(owned),
                exclude_tools: owned(exclude),
                ..config()
            };
            assert_eq!(names(&config, &listed), (owned(expected), vec![]));
        }
        let config = McpServerConfig { include_tools: Some(vec!["z".into()]), ..config() };
        assert_eq!(names(&config, &listed).1, ["the MCP server `s` has no tool `z` to include"]);
    }

    #[test]
    fn hostile_lists_spoil_nothing_but_themselves() {
        let listed = [
            json!({ "name": "good", "inputSchema": { "properties": { "a": {} } } }),
            json!({ "name": "no schema" }),
            json!({ "name": "true", "inputSchema": true }),
            json!({ "name": "list", "inputSchema": { "type": "array" } }),
            json!({ "name": "huge", "inputSchema": { "description": "x".repeat(MAX_SCHEMA_BYTES) } }),
            json!({ "name": "good" }),
            json!({ "inputSchema": {} }),
            json!(7),
            json!({ "name": "wordy", "description": "y".repeat(MAX_DESCRIPTION * 2) }),
        ];
        let (tools, problems) = tools("s", &config(), &listed);
        let names: Vec<&str> = tools.iter().map(|tool| tool.spec.name.as_str()).collect();
        assert_eq!(names, ["mcp__s__good", "mcp__s__no_schema", "mcp__s__true", "mcp__s__wordy"]);
        assert_eq!(tools[0].spec.parameters, json!({ "properties": { "a": {} }, "type": "object" }));
        assert_eq!(tools[1].spec.parameters, json!({ "type": "object", "properties": {} }));
        assert_eq!(tools[3].spec.description.chars().count(), MAX_DESCRIPTION + 1);
        assert_eq!(problems.len(), 5, "{problems:?}");
        let many: Vec<Value> = (0..=MAX_TOOLS).map(|n| json!({ "name": format!("t{n}") })).collect();
        assert_eq!(super::tools("s", &config(), &many).0.len(), MAX_TOOLS);
    }

    #[test]
    fn only_a_believed_server_has_tools_that_change_nothing() {
        let tool = json!({ "name": "a", "annotations": { "readOnlyHint": true } });
        assert_eq!(kind(&config(), &tool), ToolKind::Other);
        let believed = McpServerConfig { trust: McpTrust::Believed, ..config() };
        assert_eq!(kind(&believed, &tool), ToolKind::Read);
        assert_eq!(kind(&believed, &json!({ "name": "a" })), ToolKind::Other);
    }
}

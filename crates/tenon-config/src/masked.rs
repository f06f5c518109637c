//! Settings files as they may be shown to somebody who helps: keys, numbers and switches as they are, and of the
//! texts only those that are known to be harmless. Everything else is masked, so that a key is not shown
//! because nobody thought of the place it stands in.

use std::path::PathBuf;

use jsonc_parser::parse_to_serde_value;
use serde_json::{Map, Value};

use crate::Surroundings;
use crate::files::Confine;
use crate::project::{ProjectFiles, SETTINGS_FILE, read_settings_file};

const MASK: &str = "***";

/// Where a text is one of a few words, the name of something, or a duration. `*` is any key or place in a list.
const HARMLESS: [&str; 20] = [
    "$schema",
    "model",
    "dialect",
    "outputFormat",
    "providers.*.wire",
    "providers.*.apiKeyEnv",
    "providers.*.models.*",
    "permissions.mode",
    "limits.wallTime",
    "telemetry.protocol",
    "telemetry.serviceName",
    "sandbox.mode",
    "sandbox.network",
    "tools.core.*",
    "tools.exclude.*",
    "tools.shell.passEnv.*",
    "timeouts.*",
    "mcp.allowed.*",
    "mcpServers.*.type",
    "hooks.*.*.hooks.*.type",
];
/// Where a text is an address: host and path are shown, what could identify somebody is not.
const ADDRESSES: [&str; 2] = ["providers.*.baseUrl", "telemetry.endpoint"];

/// A settings file, masked, or why it cannot be read.
#[derive(Clone, Debug, PartialEq)]
pub struct MaskedFile {
    pub path: PathBuf,
    pub content: Result<Value, String>,
}

/// The user's settings and the project's, as far as they are there.
pub fn masked_settings(surroundings: &Surroundings) -> Vec<MaskedFile> {
    let mut files = Vec::new();
    if let Some(path) = surroundings.user_settings() {
        let content = read_settings_file(&path, Confine::Anywhere).map_err(|error| error.to_string());
        files.extend(shown(path, content));
    }
    match ProjectFiles::read(surroundings, &mut Vec::new()) {
        Ok(project) => files.extend(shown(project.root.join(SETTINGS_FILE), Ok(project.settings))),
        Err(error) => files.push(MaskedFile {
            path: crate::project_root(surroundings).join(SETTINGS_FILE),
            content: Err(error.to_string()),
        }),
    }
    files
}

fn shown(path: PathBuf, content: Result<Option<Vec<u8>>, String>) -> Option<MaskedFile> {
    let content = match content {
        Ok(None) => return None,
        Ok(Some(bytes)) => masked(&String::from_utf8_lossy(&bytes)),
        Err(why) => Err(why),
    };
    Some(MaskedFile { path, content })
}

fn masked(text: &str) -> Result<Value, String> {
    match parse_to_serde_value::<Option<Value>>(text.trim_start_matches('\u{feff}'), &Default::default()) {
        Ok(value) => Ok(mask(value.unwrap_or(Value::Null), &mut Vec::new())),
        Err(error) => Err(format!("it is not valid JSON ({})", error.kind())),
    }
}

fn mask(value: Value, path: &mut Vec<String>) -> Value {
    match value {
        Value::String(text) if fits(path, &HARMLESS) => Value::String(text),
        Value::String(text) if fits(path, &ADDRESSES) => Value::String(address(&text)),
        Value::String(_) => Value::String(MASK.to_owned()),
        Value::Array(items) => {
            let items = items.into_iter().enumerate();
            items.map(|(at, item)| mask_at(at.to_string(), item, path)).collect()
        }
        Value::Object(members) => {
            let members = members.into_iter();
            let masked = members.map(|(key, member)| (key.clone(), mask_at(key, member, path)));
            Value::Object(masked.collect::<Map<_, _>>())
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => value,
    }
}

fn mask_at(key: String, value: Value, path: &mut Vec<String>) -> Value {
    path.push(key);
    let value = mask(value, path);
    path.pop();
    value
}

fn fits(path: &[String], patterns: &[&str]) -> bool {
    patterns.iter().any(|pattern| {
        pattern.split('.').count() == path.len()
            && pattern.split('.').zip(path).all(|(wanted, key)| wanted == "*" || wanted == key)
    })
}

/// Without user, password and query. A text that is no address may be anything.
fn address(text: &str) -> String {
    let Some((scheme, rest)) = text.split_once("://") else { return MASK.to_owned() };
    let rest = rest.split(['?', '#']).next().unwrap_or_default();
    let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
    let host = authority.rsplit('@').next().unwrap_or_default();
    match path {
        "" => format!("{scheme}://{host}"),
        path => format!("{scheme}://{host}/{path}"),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_what_is_known_to_be_harmless_is_shown() {
        let text = r#"{
          "model": "openai/gpt-5", // a comment
          "providers": { "mine": { "wire": "openai", "baseUrl": "https://me:SECRET@host:1/v1?key=SECRET", "apiKeyEnv": "MY_KEY",
                                   "headers": { "authorization": "SECRET" }, "models": ["a"], "other": ["SECRET", { "x": "SECRET" }] } },
          "mcpServers": { "a": { "command": "SECRET", "args": ["SECRET"], "env": { "TOKEN": "SECRET" }, "type": "stdio" } },
          "hooks": { "Stop": [{ "hooks": [{ "type": "command", "command": "SECRET" }] }] },
          "limits": { "turns": 3, "wallTime": "5m" },
          "telemetry": { "endpoint": "SECRET", "headers": { "k": "SECRET" } },
          "unknown": "SECRET",
        }"#;
        let shown = masked(text).expect("valid");
        assert!(!shown.to_string().contains("SECRET"), "{shown}");
        let mine = json!({
            "wire": "openai", "baseUrl": "https://host:1/v1", "apiKeyEnv": "MY_KEY",
            "headers": { "authorization": "***" }, "models": ["a"], "other": ["***", { "x": "***" }],
        });
        assert_eq!(shown["providers"]["mine"], mine);
        assert_eq!(
            (&shown["model"], &shown["limits"]),
            (&json!("openai/gpt-5"), &json!({"turns": 3, "wallTime": "5m"}))
        );
        assert_eq!(shown["hooks"]["Stop"][0]["hooks"][0], json!({"type": "command", "command": "***"}));
        assert!(masked("{ SECRET").is_err_and(|why| !why.contains("SECRET")));
    }
}

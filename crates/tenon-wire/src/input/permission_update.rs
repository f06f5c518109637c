//! `updatedPermissions`: what else is allowed from here on, in an answer to `can_use_tool`.
//!
//! `{"type": "addRules", "rules": [{"toolName", "ruleContent"?}], "behavior": "allow", "destination": "session"}`,
//! `{"type": "setMode", "mode"}`, `{"type": "addDirectories", "directories": […]}`. One that cannot be read does not
//! take the others with it.

use serde_json::{Map, Value};
use tenon_core::{
    ApprovalMode, Destination, PermissionChange, PermissionUpdate, PermissionUpdates, RuleBehavior,
};

const KEYS: [&str; 2] = ["updatedPermissions", "updated_permissions"];

/// The changes that come with an answer.
pub fn permission_updates(answer: &Value) -> PermissionUpdates {
    let given = KEYS.into_iter().filter_map(|key| answer.get(key)).find(|given| !given.is_null());
    let mut read = PermissionUpdates::default();
    match given {
        None => {}
        Some(Value::Array(entries)) => {
            for (at, entry) in entries.iter().enumerate() {
                match update(entry) {
                    Ok(update) => read.updates.push(update),
                    Err(why) => read.problems.push(format!("`updatedPermissions[{at}]`: {why}")),
                }
            }
        }
        Some(_) => read.problems.push("`updatedPermissions` must be a list".to_owned()),
    }
    read
}

fn update(entry: &Value) -> Result<PermissionUpdate, String> {
    let Value::Object(fields) = entry else { return Err("it must be an object".to_owned()) };
    let change = match word(fields, "type")? {
        "addRules" => PermissionChange::AddRules { behavior: behavior(fields)?, rules: rules(fields)? },
        "replaceRules" => {
            PermissionChange::ReplaceRules { behavior: behavior(fields)?, rules: rules(fields)? }
        }
        "removeRules" => PermissionChange::RemoveRules { behavior: behavior(fields)?, rules: rules(fields)? },
        "setMode" => PermissionChange::SetMode(
            ApprovalMode::parse(word(fields, "mode")?).map_err(|error| error.to_string())?,
        ),
        "addDirectories" => PermissionChange::AddDirectories(directories(fields)?),
        "removeDirectories" => PermissionChange::RemoveDirectories(directories(fields)?),
        other => return Err(format!("there is no change `{other}`")),
    };
    let destination = match fields.get("destination") {
        None | Some(Value::Null) => Destination::Session,
        Some(Value::String(name)) if name == "session" => Destination::Session,
        Some(Value::String(name)) => Destination::Settings(name.clone()),
        Some(_) => return Err("`destination` must be a string".to_owned()),
    };
    Ok(PermissionUpdate { change, destination })
}

fn word<'a>(fields: &'a Map<String, Value>, key: &str) -> Result<&'a str, String> {
    fields.get(key).and_then(Value::as_str).ok_or_else(|| format!("`{key}` is missing"))
}

fn behavior(fields: &Map<String, Value>) -> Result<RuleBehavior, String> {
    match word(fields, "behavior")? {
        "allow" => Ok(RuleBehavior::Allow),
        "ask" => Ok(RuleBehavior::Ask),
        "deny" => Ok(RuleBehavior::Deny),
        other => Err(format!("`behavior` is `{other}`; it can be `allow`, `ask` or `deny`")),
    }
}

/// `Tool`, or `Tool(specifier)`.
fn rules(fields: &Map<String, Value>) -> Result<Vec<String>, String> {
    let Some(Value::Array(rules)) = fields.get("rules") else {
        return Err("`rules` must be a list".to_owned());
    };
    let rule = |rule: &Value| match (rule, rule["toolName"].as_str(), &rule["ruleContent"]) {
        (Value::String(text), ..) => Ok(text.clone()),
        (_, Some(tool), Value::Null) => Ok(tool.to_owned()),
        (_, Some(tool), Value::String(content)) if content.is_empty() => Ok(tool.to_owned()),
        (_, Some(tool), Value::String(content)) => Ok(format!("{tool}({content})")),
        _ => Err("a rule needs `toolName`, and may have a `ruleContent`".to_owned()),
    };
    rules.iter().map(rule).collect()
}

fn directories(fields: &Map<String, Value>) -> Result<Vec<std::path::PathBuf>, String> {
    let names = fields.get("directories").and_then(Value::as_array);
    let paths = names.and_then(|names| names.iter().map(|name| name.as_str().map(Into::into)).collect());
    paths.ok_or_else(|| "`directories` must be a list of paths".to_owned())
}

//! Reads `hooks` from settings. A hook may be a protection, so nothing about it is guessed: unknown keys,
//! events that never happen here and matchers that cannot match are errors.

use std::collections::BTreeMap;
use std::time::Duration;

use jsonc_parser::ast::Value as Node;
use jsonc_parser::common::Ranged;
use tenon_core::{
    Hook, HookEvent, HookLayer, HookOrder, HookRule, HookRun, HookShell, HookSubject, HookWait, OnHookError,
};

use crate::base_url::is_loopback_url;
use crate::expand::is_variable_name;
use crate::problem::quotable;
use crate::reader::{Reader, Unknown};

const RULE_KEYS: [&str; 4] = ["matcher", "sequential", "hooks", "description"];
const COMMON_KEYS: [&str; 7] =
    ["type", "timeout", "name", "description", "statusMessage", "async", "onError"];
const COMMAND_KEYS: [&str; 3] = ["command", "env", "shell"];
const HTTP_KEYS: [&str; 2] = ["url", "headers"];
const TYPES: [&str; 2] = ["command", "http"];

/// The rules of one layer, in the order of the file. Whose layer it is, `load.rs` knows.
pub(crate) fn read_hooks(reader: &mut Reader<'_>, node: &Node<'_>) -> Vec<HookRule> {
    let Some(object) = reader.object("hooks", node) else { return Vec::new() };
    let known: Vec<&str> = HookEvent::ALL.iter().map(|event| event.name()).collect();
    let mut rules = Vec::new();
    for property in &object.properties {
        let name = property.name.as_str();
        let Some(event) = HookEvent::parse(name) else {
            if HookEvent::UNKNOWN_HERE.contains(&name) {
                let message =
                    format!("`{name}` in `hooks` never happens in tenon, so its hooks would never run");
                reader.error(property.start(), message, Some("take it out".to_owned()));
            } else {
                reader.unknown_key("hooks", name, property.start(), &known, Unknown::Refuse);
            }
            continue;
        };
        let path = format!("hooks.{name}");
        let Some(list) = property.value.as_array() else {
            reader.wrong_type(&path, "a list of hooks", &property.value);
            continue;
        };
        for (index, node) in list.elements.iter().enumerate() {
            rules.push(rule(reader, event, &format!("{path}[{index}]"), node));
        }
    }
    rules
}

fn rule(reader: &mut Reader<'_>, event: HookEvent, path: &str, node: &Node<'_>) -> HookRule {
    let mut rule = HookRule {
        event,
        matcher: String::new(),
        order: HookOrder::SideBySide,
        layer: HookLayer::Flag,
        hooks: Vec::new(),
    };
    let mut has_hooks = false;
    for (key, node) in reader.entries(path, node, &RULE_KEYS, Unknown::Refuse) {
        let path = format!("{path}.{key}");
        match key {
            "matcher" => rule.matcher = matcher(reader, event, &path, node),
            "sequential" if reader.flag(&path, node) == Some(true) => rule.order = HookOrder::InTurn,
            "hooks" => {
                has_hooks = true;
                match node.as_array() {
                    Some(list) => {
                        for (index, node) in list.elements.iter().enumerate() {
                            rule.hooks.extend(hook(reader, event, &format!("{path}[{index}]"), node));
                        }
                    }
                    None => reader.wrong_type(&path, "a list of hooks", node),
                }
            }
            // A note for people.
            "description" => drop(reader.literal(&path, node)),
            _ => {}
        }
    }
    if !has_hooks && node.as_object().is_some() {
        let hint = r#"a rule looks like `{"matcher": "…", "hooks": [{"type": "command", "command": "…"}]}`"#;
        reader.error(node.start(), format!("`{path}` has no `hooks`"), Some(hint.to_owned()));
    }
    rule
}

fn matcher(reader: &mut Reader<'_>, event: HookEvent, path: &str, node: &Node<'_>) -> String {
    let Some(pattern) = reader.literal(path, node) else { return String::new() };
    if matches!(pattern, "" | "*") {
        return String::new();
    }
    if event.subject() == HookSubject::None {
        let message = format!("`{path}`: there is nothing to choose by in `{}`", event.name());
        reader.error(node.start(), message, Some("leave the matcher out".to_owned()));
    } else if let Err(error) = regex::Regex::new(pattern) {
        let why = error.to_string();
        let why = why.lines().last().unwrap_or_default().trim_start_matches("error: ");
        let message = format!("`{path}` is not a regular expression: {}", quotable(why));
        reader.error(node.start(), message, Some("look-around and back-references are not known".to_owned()));
    }
    pattern.to_owned()
}

fn hook(reader: &mut Reader<'_>, event: HookEvent, path: &str, node: &Node<'_>) -> Option<Hook> {
    let object = reader.object(path, node)?;
    let Some(kind) = object.get("type") else {
        reader.error(
            node.start(),
            format!("`{path}` has no `type`"),
            Some("it is `command` or `http`".to_owned()),
        );
        return None;
    };
    let kind_path = format!("{path}.type");
    let is_http = match reader.literal(&kind_path, &kind.value)? {
        "command" => false,
        "http" => true,
        other @ ("prompt" | "function" | "agent") => {
            let message = format!("`{kind_path}` is `{other}`, and tenon has no such hooks");
            reader.error(kind.value.start(), message, Some("use `command` or `http`".to_owned()));
            return None;
        }
        _ => {
            reader.not_one_of(&kind_path, &kind.value, &TYPES);
            return None;
        }
    };
    let own: &[&str] = if is_http { &HTTP_KEYS } else { &COMMAND_KEYS };
    let known: Vec<&str> = COMMON_KEYS.iter().chain(own).copied().collect();
    let mut parts = Parts::default();
    for (key, node) in reader.entries(path, node, &known, Unknown::Refuse) {
        let path = format!("{path}.{key}");
        match key {
            "timeout" if is_http => {
                parts.timeout = reader.whole(&path, node, 1).map(Duration::from_secs);
            }
            "timeout" => parts.timeout = reader.whole(&path, node, 1).map(Duration::from_millis),
            "name" => parts.name = reader.literal(&path, node).map(str::to_owned),
            "description" => parts.description = reader.literal(&path, node).map(str::to_owned),
            "statusMessage" => parts.status_message = reader.literal(&path, node).map(str::to_owned),
            "async" if reader.flag(&path, node) == Some(true) => parts.wait = HookWait::Not,
            "onError" => parts.on_error = on_error(reader, event, &path, node),
            // A shell expands variables itself; doing it here would let a value become shell syntax.
            "command" => parts.target = filled(reader, &path, node),
            "env" => parts.env = variables(reader, &path, node),
            "shell" => parts.shell = shell(reader, &path, node),
            "url" => parts.target = url(reader, &path, node),
            "headers" => parts.env = headers(reader, &path, node),
            _ => {}
        }
    }
    if parts.wait == HookWait::Not && parts.on_error == Some(OnHookError::Block) {
        let message = format!("`{path}`: nobody waits for an `async` hook, so its failure cannot block");
        reader.error(node.start(), message, None);
    }
    let missing = if is_http { "url" } else { "command" };
    if object.get(missing).is_none() {
        reader.error(node.start(), format!("`{path}` has no `{missing}`"), None);
    }
    check_headers(reader, path, node, is_http, &parts);
    let Parts { timeout, name, description, status_message, wait, on_error, target, env, shell } = parts;
    let run = match is_http {
        true => HookRun::Http { url: target?, headers: env, timeout },
        false => HookRun::Command { command: target?, shell, env, timeout },
    };
    Some(Hook { run, name: name.or(description), status_message, wait, on_error })
}

#[derive(Default)]
struct Parts {
    timeout: Option<Duration>,
    name: Option<String>,
    description: Option<String>,
    status_message: Option<String>,
    wait: HookWait,
    on_error: Option<OnHookError>,
    /// The command, or the address.
    target: Option<String>,
    /// Variables, or headers.
    env: BTreeMap<String, String>,
    shell: HookShell,
}

fn on_error(reader: &mut Reader<'_>, event: HookEvent, path: &str, node: &Node<'_>) -> Option<OnHookError> {
    let set = match reader.one_of(path, node, &OnHookError::NAMES)?.as_str() {
        "block" => OnHookError::Block,
        _ => OnHookError::Warn,
    };
    if event != HookEvent::PreToolUse && set == OnHookError::Block {
        let message = format!("`{path}`: only a `PreToolUse` hook that fails can block");
        reader.error(node.start(), message, None);
    }
    Some(set)
}

fn shell(reader: &mut Reader<'_>, path: &str, node: &Node<'_>) -> HookShell {
    match reader.one_of(path, node, &HookShell::NAMES).as_deref() {
        Some("sh") => HookShell::Sh,
        _ => HookShell::Bash,
    }
}

fn filled(reader: &mut Reader<'_>, path: &str, node: &Node<'_>) -> Option<String> {
    let text = reader.literal(path, node)?;
    if text.trim().is_empty() {
        reader.error(node.start(), format!("`{path}` is empty"), None);
        return None;
    }
    Some(text.to_owned())
}

fn variables(reader: &mut Reader<'_>, path: &str, node: &Node<'_>) -> BTreeMap<String, String> {
    let Some(object) = reader.object(path, node) else { return BTreeMap::new() };
    let mut variables = BTreeMap::new();
    for property in &object.properties {
        let name = property.name.as_str();
        let path = format!("{path}.{}", quotable(name));
        if !is_variable_name(name) {
            let message = format!("`{path}` is not the name of an environment variable");
            reader.error(property.start(), message, None);
            continue;
        }
        let value = reader.literal(&path, &property.value);
        variables.extend(value.map(|value| (name.to_owned(), value.to_owned())));
    }
    variables
}

/// Values may be secrets that the user keeps in variables, so they are expanded where the layer is.
fn headers(reader: &mut Reader<'_>, path: &str, node: &Node<'_>) -> BTreeMap<String, String> {
    let Some(object) = reader.object(path, node) else { return BTreeMap::new() };
    let mut headers = BTreeMap::new();
    for property in &object.properties {
        let name = property.name.as_str();
        let path = format!("{path}.{}", quotable(name));
        let is_token = |c: char| c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c);
        if name.is_empty() || !name.chars().all(is_token) {
            reader.error(property.start(), format!("`{path}` is not the name of a header"), None);
            continue;
        }
        let Some(value) = reader.string(&path, &property.value) else { continue };
        if value.chars().any(char::is_control) {
            let message = format!("`{path}` holds characters that a header cannot");
            reader.error(property.value.start(), message, None);
            continue;
        }
        headers.insert(name.to_owned(), value);
    }
    headers
}

fn url(reader: &mut Reader<'_>, path: &str, node: &Node<'_>) -> Option<String> {
    let url = reader.string(path, node)?;
    let rest = url.strip_prefix("https://").or_else(|| url.strip_prefix("http://"));
    if rest.is_none_or(|rest| rest.is_empty() || rest.starts_with('/') || rest.contains(char::is_whitespace))
    {
        let hint = "an address looks like `https://hooks.example.com/tenon`";
        reader.error(
            node.start(),
            format!("`{path}` is not an `http` or `https` address"),
            Some(hint.to_owned()),
        );
        return None;
    }
    Some(url)
}

fn check_headers(reader: &mut Reader<'_>, path: &str, node: &Node<'_>, is_http: bool, parts: &Parts) {
    let Some(url) = parts.target.as_deref().filter(|_| is_http) else { return };
    if url.starts_with("http://") && !parts.env.is_empty() && !is_loopback_url(url) {
        let message = format!("`{path}.headers` would travel unencrypted");
        reader.error(node.start(), message, Some("use an `https://` address".to_owned()));
    }
}

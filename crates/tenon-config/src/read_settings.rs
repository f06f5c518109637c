//! Reads one layer of settings from text: JSON with comments and trailing commas.
//!
//! Unknown keys warn, except where a typing error could switch a protection off (`permissions`, `hooks`,
//! `sandbox`); wrong types and impossible values are errors. Nothing here knows whose file it is.

use std::collections::BTreeMap;
use std::path::Path;

use jsonc_parser::ast::Value as Node;
use jsonc_parser::common::Ranged;
use tenon_core::{ApprovalMode, NetworkAccess, SandboxMode};

use crate::expand::is_variable_name;
use crate::mcp_servers::read_mcp_servers;
use crate::problem::{Problem, quotable};
use crate::providers::Wire;
use crate::read_hooks::read_hooks;
use crate::read_prices::read_prices;
use crate::reader::{Reader, Unknown};
use crate::settings::{
    Context, Limits, Permissions, Provider, Retry, SandboxSettings, Settings, ShellSettings, TaskSettings,
    Timeouts, ToolSettings,
};
use crate::telemetry_settings;

const KEYS: [&str; 22] = [
    "$schema",
    "model",
    "dialect",
    "outputFormat",
    "providers",
    "permissions",
    "mcpServers",
    "mcp",
    "hooks",
    "disableAllHooks",
    "stopHookBlockingCap",
    "limits",
    "retry",
    "tasks",
    "prices",
    "context",
    "telemetry",
    "sandbox",
    "tools",
    "timeouts",
    "sessions",
    "runs",
];
const VARIABLE_NAME_HINT: &str = "write the variable's name alone, such as `MY_PROVIDER_KEY`";
/// Headers whose value is a secret.
const SECRET_HEADERS: [&str; 4] = ["authorization", "x-api-key", "api-key", "x-goog-api-key"];
/// How keys of well-known services begin.
const KEY_PREFIXES: [&str; 9] = ["sk-", "sk_", "pk-", "rk-", "gsk_", "xai-", "hf_", "AIza", "Bearer "];

/// One layer, read as far as it can be.
#[derive(Clone, Debug, Default)]
pub struct Layer {
    pub settings: Settings,
    /// With any of these the layer must not be used.
    pub errors: Vec<Problem>,
    pub warnings: Vec<Problem>,
}

/// Are `$VAR`s in strings replaced?
#[derive(Clone, Copy, Debug)]
pub enum Expand<'a> {
    Never,
    From(&'a BTreeMap<String, String>),
}

pub fn read_settings(text: &str, file: &Path, expand: Expand<'_>) -> Layer {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut reader = Reader::new(text, file, expand);
    let mut settings = Settings::default();
    if let Some(root) = reader.root() {
        for (key, node) in reader.entries("", &root, &KEYS, Unknown::Warn) {
            read_key(&mut reader, &mut settings, key, node);
        }
    }
    Layer { settings, errors: reader.errors, warnings: reader.warnings }
}

/// The servers of a `.mcp.json`. Other programs read that file too, so its other keys are theirs.
pub(crate) fn read_mcp_file(text: &str, file: &Path) -> Layer {
    let mut reader = Reader::new(text.strip_prefix('\u{feff}').unwrap_or(text), file, Expand::Never);
    let mut settings = Settings::default();
    let root = reader.root();
    let object = root.as_ref().and_then(|root| root.as_object());
    if let Some(node) = object.and_then(|object| object.get("mcpServers")) {
        settings.mcp_servers = read_mcp_servers(&mut reader, "mcpServers", &node.value);
    }
    Layer { settings, errors: reader.errors, warnings: reader.warnings }
}

fn read_key(reader: &mut Reader<'_>, settings: &mut Settings, key: &str, node: &Node<'_>) {
    match key {
        "model" => settings.model = reader.string(key, node).filter(|name| !name.trim().is_empty()),
        "dialect" => settings.dialect = reader.one_of(key, node, &Settings::DIALECTS),
        "outputFormat" => settings.output_format = reader.one_of(key, node, &Settings::OUTPUT_FORMATS),
        "providers" => settings.providers = providers(reader, node),
        "permissions" => settings.permissions = permissions(reader, node),
        "mcpServers" => settings.mcp_servers = read_mcp_servers(reader, key, node),
        "mcp" => {
            for (_, node) in reader.entries("mcp", node, &["allowed"], Unknown::Warn) {
                settings.mcp_allowed = reader.strings("mcp.allowed", node);
            }
        }
        "hooks" => settings.hooks = read_hooks(reader, node),
        "disableAllHooks" => settings.disable_all_hooks = reader.flag(key, node),
        "stopHookBlockingCap" => settings.stop_hook_blocking_cap = reader.whole(key, node, 0),
        "limits" => settings.limits = limits(reader, node),
        "retry" => settings.retry = retry(reader, node),
        "tasks" => settings.tasks = tasks(reader, node),
        "prices" => settings.prices = read_prices(reader, node),
        "context" => settings.context = context(reader, node),
        "telemetry" => settings.telemetry = telemetry_settings::read(reader, node),
        "sandbox" => settings.sandbox = sandbox(reader, node),
        "tools" => settings.tools = tools(reader, node),
        "timeouts" => settings.timeouts = timeouts(reader, node),
        "sessions" => {
            for (_, node) in reader.entries("sessions", node, &["retentionDays"], Unknown::Warn) {
                settings.sessions.retention_days = reader.whole("sessions.retentionDays", node, 0);
            }
        }
        "runs" => {
            for (_, node) in reader.entries("runs", node, &["retentionDays"], Unknown::Warn) {
                settings.runs.retention_days = reader.whole("runs.retentionDays", node, 0);
            }
        }
        // `$schema` is for editors.
        _ => {}
    }
}

fn providers(reader: &mut Reader<'_>, node: &Node<'_>) -> Vec<(String, Provider)> {
    let Some(object) = reader.object("providers", node) else { return Vec::new() };
    let mut providers = Vec::new();
    for property in &object.properties {
        let name = property.name.as_str();
        let path = format!("providers.{}", quotable(name));
        if name.is_empty() || name.contains('/') || name.contains(char::is_whitespace) {
            let message = format!("`{path}`: a provider's name has no `/` and no spaces");
            reader.error(property.start(), message, None);
            continue;
        }
        providers.push((name.to_owned(), provider(reader, &path, &property.value)));
    }
    providers
}

fn provider(reader: &mut Reader<'_>, path: &str, node: &Node<'_>) -> Provider {
    let mut provider = Provider::default();
    for property in node.as_object().iter().flat_map(|object| &object.properties) {
        let path = format!("{path}.{}", quotable(property.name.as_str()));
        warn_about_keys(reader, &path, &property.value);
    }
    for (key, node) in
        reader.entries(path, node, &["wire", "baseUrl", "apiKeyEnv", "headers", "models"], Unknown::Warn)
    {
        let path = format!("{path}.{key}");
        match key {
            "wire" => provider.wire = reader.one_of(&path, node, &Wire::NAMES),
            "baseUrl" => provider.base_url = reader.string(&path, node),
            "apiKeyEnv" => provider.api_key_env = variable_name(reader, &path, node),
            "headers" => provider.headers = headers(reader, &path, node),
            _ => provider.models = reader.strings(&path, node).unwrap_or_default(),
        }
    }
    provider
}

/// The value is never quoted: it may be the key itself.
fn variable_name(reader: &mut Reader<'_>, path: &str, node: &Node<'_>) -> Option<String> {
    let name = reader.literal(path, node)?;
    if is_variable_name(name) {
        return Some(name.to_owned());
    }
    let message = format!("`{path}` must be the name of an environment variable");
    reader.error(node.start(), message, Some(VARIABLE_NAME_HINT.to_owned()));
    None
}

pub(crate) fn headers(reader: &mut Reader<'_>, path: &str, node: &Node<'_>) -> BTreeMap<String, String> {
    let Some(object) = reader.object(path, node) else { return BTreeMap::new() };
    let mut headers = BTreeMap::new();
    for property in &object.properties {
        let name = property.name.as_str();
        let path = format!("{path}.{}", quotable(name));
        let Some(literal) = reader.literal(&path, &property.value) else { continue };
        if is_secret_header(name) && !literal.contains('$') || looks_like_key(literal) {
            warn_about_key(reader, &path, property.value.start());
        }
        headers.extend(reader.string(&path, &property.value).map(|value| (name.to_owned(), value)));
    }
    headers
}

pub(crate) fn is_secret_header(name: &str) -> bool {
    SECRET_HEADERS.contains(&name.to_ascii_lowercase().as_str())
}

fn warn_about_keys(reader: &mut Reader<'_>, path: &str, node: &Node<'_>) {
    let strings = node.as_array().map_or(std::slice::from_ref(node), |array| array.elements.as_slice());
    for string in strings {
        if matches!(string, Node::StringLit(string) if looks_like_key(&string.value)) {
            warn_about_key(reader, path, string.start());
        }
    }
}

fn warn_about_key(reader: &mut Reader<'_>, path: &str, at: usize) {
    let hint = "keep keys in the environment and name the variable in `apiKeyEnv`, or write `$NAME`";
    reader.warn(at, format!("`{path}` looks like it holds a key"), Some(hint.to_owned()));
}

fn looks_like_key(text: &str) -> bool {
    !text.contains('$') && KEY_PREFIXES.iter().any(|prefix| text.starts_with(prefix))
}

fn permissions(reader: &mut Reader<'_>, node: &Node<'_>) -> Permissions {
    let mut permissions = Permissions::default();
    for (key, node) in reader.entries("permissions", node, &["allow", "ask", "deny", "mode"], Unknown::Refuse)
    {
        let path = format!("permissions.{key}");
        match key {
            "allow" => permissions.allow = rules(reader, &path, node),
            "ask" => permissions.ask = rules(reader, &path, node),
            "deny" => permissions.deny = rules(reader, &path, node),
            _ => {
                let Some(name) = reader.string(&path, node) else { continue };
                permissions.mode = ApprovalMode::parse(&name).ok();
                if permissions.mode.is_none() {
                    reader.not_one_of(&path, node, &ApprovalMode::NAMES);
                }
            }
        }
    }
    permissions
}

/// A rule that nobody can read would protect nobody, so its shape is checked here.
fn rules(reader: &mut Reader<'_>, path: &str, node: &Node<'_>) -> Vec<String> {
    let fault = |rule: &str| {
        let trimmed = rule.trim();
        let shaped = match trimmed.split_once('(') {
            Some((tool, inside)) => !tool.trim().is_empty() && inside.ends_with(')'),
            None => !trimmed.is_empty() && !trimmed.contains(')'),
        };
        let hint = "a rule is a tool, `write_file`, or a tool with what it covers, `Bash(git status)`";
        (!shaped).then_some(("is not a rule", hint))
    };
    reader.strings_that(path, node, fault).unwrap_or_default()
}

fn limits(reader: &mut Reader<'_>, node: &Node<'_>) -> Limits {
    let mut limits = Limits::default();
    let known = ["turns", "toolCalls", "wallTime", "budgetUsd", "schemaRetries"];
    for (key, node) in reader.entries("limits", node, &known, Unknown::Warn) {
        let path = format!("limits.{key}");
        match key {
            "turns" => limits.turns = reader.count(&path, node, 1),
            "toolCalls" => limits.tool_calls = reader.count(&path, node, 0),
            "wallTime" => limits.wall_time = reader.wall_time(&path, node),
            "budgetUsd" => limits.budget_usd = reader.money(&path, node),
            _ => limits.schema_retries = reader.count(&path, node, 0),
        }
    }
    limits
}

fn context(reader: &mut Reader<'_>, node: &Node<'_>) -> Context {
    let mut context = Context::default();
    for (key, node) in reader.entries("context", node, &["window", "compactAt"], Unknown::Warn) {
        let path = format!("context.{key}");
        match key {
            "window" => context.window = reader.whole(&path, node, 1),
            _ => {
                let within = |share: f64| share > 0.0 && share <= 1.0;
                context.compact_at = reader.number(&path, node, "above 0 and at most 1", within);
            }
        }
    }
    context
}

fn tasks(reader: &mut Reader<'_>, node: &Node<'_>) -> TaskSettings {
    let mut tasks = TaskSettings::default();
    for (key, node) in reader.entries("tasks", node, &["waitMs"], Unknown::Warn) {
        tasks.wait_ms = reader.whole(&format!("tasks.{key}"), node, 0);
    }
    tasks
}

fn retry(reader: &mut Reader<'_>, node: &Node<'_>) -> Retry {
    let mut retry = Retry::default();
    for (key, node) in reader.entries("retry", node, &["attempts", "baseMs", "maxTotalMs"], Unknown::Warn) {
        let path = format!("retry.{key}");
        match key {
            "attempts" => retry.attempts = reader.whole(&path, node, 1),
            "baseMs" => retry.base_ms = reader.whole(&path, node, 1),
            _ => retry.max_total_ms = reader.whole(&path, node, 1),
        }
    }
    retry
}

fn sandbox(reader: &mut Reader<'_>, node: &Node<'_>) -> SandboxSettings {
    let mut sandbox = SandboxSettings::default();
    let known = ["mode", "network", "writable", "secretFolders"];
    for (key, node) in reader.entries("sandbox", node, &known, Unknown::Refuse) {
        let path = format!("sandbox.{key}");
        match key {
            "mode" => {
                let name = reader.one_of(&path, node, &SandboxMode::NAMES);
                sandbox.mode = name.as_deref().and_then(SandboxMode::parse);
            }
            "network" => {
                let name = reader.one_of(&path, node, &NetworkAccess::NAMES);
                sandbox.network = name.as_deref().and_then(NetworkAccess::parse);
            }
            "writable" => sandbox.writable = folders(reader, &path, node),
            _ => sandbox.secret_folders = folders(reader, &path, node),
        }
    }
    sandbox
}

fn folders(reader: &mut Reader<'_>, path: &str, node: &Node<'_>) -> Vec<String> {
    let fault = |folder: &str| {
        let hint = "a folder is written in full, from `~/`, or from the working folder";
        folder.trim().is_empty().then_some(("names no folder", hint))
    };
    reader.strings_that(path, node, fault).unwrap_or_default()
}

fn tools(reader: &mut Reader<'_>, node: &Node<'_>) -> ToolSettings {
    let mut tools = ToolSettings::default();
    for (key, node) in
        reader.entries("tools", node, &["core", "exclude", "searchAbove", "shell"], Unknown::Warn)
    {
        match key {
            "core" => tools.core = reader.strings("tools.core", node),
            "exclude" => tools.exclude = rules(reader, "tools.exclude", node),
            "searchAbove" => tools.search_above = reader.whole("tools.searchAbove", node, 0),
            _ => tools.shell = shell(reader, node),
        }
    }
    tools
}

fn shell(reader: &mut Reader<'_>, node: &Node<'_>) -> ShellSettings {
    let mut shell = ShellSettings::default();
    let known = ["passEnv", "defaultTimeoutMs", "heartbeatIntervalMs", "promoteAfterMs", "pty"];
    for (key, node) in reader.entries("tools.shell", node, &known, Unknown::Warn) {
        let path = format!("tools.shell.{key}");
        match key {
            "passEnv" => {
                let names = reader.without_expansion(|reader| {
                    reader.strings_that(&path, node, |name| {
                        let fault = "must be the name of an environment variable";
                        (!is_variable_name(name)).then_some((fault, VARIABLE_NAME_HINT))
                    })
                });
                shell.pass_env = names.unwrap_or_default();
            }
            "defaultTimeoutMs" => shell.default_timeout_ms = reader.whole(&path, node, 1),
            "heartbeatIntervalMs" => shell.heartbeat_interval_ms = reader.whole(&path, node, 1),
            "promoteAfterMs" => shell.promote_after_ms = reader.whole(&path, node, 1),
            _ => shell.pty = reader.truth(&path, node),
        }
    }
    shell
}

fn timeouts(reader: &mut Reader<'_>, node: &Node<'_>) -> Timeouts {
    let mut timeouts = Timeouts::default();
    for (key, node) in reader.entries("timeouts", node, Timeouts::KEYS, Unknown::Warn) {
        timeouts.set(key, reader.duration(&format!("timeouts.{key}"), node));
    }
    timeouts
}

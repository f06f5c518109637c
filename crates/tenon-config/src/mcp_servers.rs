//! Servers of tools: `mcpServers` in settings, a project's `.mcp.json`, and `--mcp-config`.
//!
//! The entries of other programs are understood as they stand: `type` may be named or follow from what else
//! is there. What cannot be used is an error with its place in the file. Whether a project's servers count is
//! decided in `load.rs`; starting them is the tools' business.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use jsonc_parser::ast::{Object, Value as Node};
use jsonc_parser::common::Ranged;
use tenon_core::{McpConnection, McpServerConfig, McpState, McpTrust};

use crate::base_url::is_loopback_url;
use crate::config_error::ConfigError;
use crate::files::Confine;
use crate::load::ExtraSettings;
use crate::problem::{Problem, quotable};
use crate::project::{as_text, read_settings_file};
use crate::read_settings::{Expand, headers, is_secret_header};
use crate::reader::{Reader, Unknown};
use crate::surroundings::Surroundings;

/// In the order in which they were written.
pub type McpServers = Vec<(String, McpServerConfig)>;

/// The servers of one `--mcp-config`, and what there is to say about them. Whoever names the file on the
/// command line means it, so its variables are expanded.
pub fn read_mcp_config(
    source: &ExtraSettings,
    surroundings: &Surroundings,
) -> Result<(McpServers, Vec<String>), ConfigError> {
    match source {
        ExtraSettings::Json(text) => read_text(text, Path::new("--mcp-config"), surroundings),
        ExtraSettings::File(path) => {
            let bytes = read_settings_file(path, Confine::Anywhere)?.ok_or_else(|| {
                ConfigError::Unreadable { path: path.clone(), reason: "there is no such file".to_owned() }
            })?;
            read_text(as_text(path, &bytes)?, path, surroundings)
        }
    }
}

/// The servers that a client names when it begins a session: an object by name. A client is the operator, so
/// what it names is meant as what is named on the command line.
pub fn read_client_mcp_servers(
    servers: &serde_json::Map<String, serde_json::Value>,
    surroundings: &Surroundings,
) -> Result<(McpServers, Vec<String>), ConfigError> {
    let text = serde_json::json!({ "mcpServers": servers }).to_string();
    read_text(&text, Path::new("initialize"), surroundings)
}

/// `higher` laid over `lower`, by name.
pub fn merge_mcp_servers(mut lower: McpServers, higher: McpServers) -> McpServers {
    for (name, server) in higher {
        match lower.iter_mut().find(|(known, _)| *known == name) {
            Some((_, replaced)) => *replaced = server,
            None => lower.push((name, server)),
        }
    }
    lower
}

fn read_text(
    text: &str,
    file: &Path,
    surroundings: &Surroundings,
) -> Result<(McpServers, Vec<String>), ConfigError> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut reader = Reader::new(text, file, Expand::From(&surroundings.env));
    let mut servers = McpServers::new();
    if let Some(root) = reader.root() {
        let named = root.as_object().and_then(|object| object.get("mcpServers"));
        // Some write the servers alone.
        servers = match named {
            Some(property) => read_mcp_servers(&mut reader, "mcpServers", &property.value),
            None => read_mcp_servers(&mut reader, "", &root),
        };
    }
    if !reader.errors.is_empty() {
        return Err(ConfigError::Invalid(reader.errors));
    }
    Ok((servers, reader.warnings.iter().map(Problem::one_line).collect()))
}

pub(crate) fn read_mcp_servers(reader: &mut Reader<'_>, path: &str, node: &Node<'_>) -> McpServers {
    let shown = if path.is_empty() { "mcpServers" } else { path };
    let Some(object) = reader.object(shown, node) else { return McpServers::new() };
    let mut servers = McpServers::new();
    for property in &object.properties {
        let name = property.name.as_str();
        let path = if path.is_empty() { quotable(name) } else { format!("{path}.{}", quotable(name)) };
        if !name.chars().any(|c| c.is_ascii_alphanumeric()) {
            let message = format!("`{path}` needs a name with a letter or digit");
            reader.error(property.start(), message, Some("its tools are named after it".to_owned()));
            continue;
        }
        servers.extend(server(reader, &path, &property.value).map(|server| (name.to_owned(), server)));
    }
    servers
}

const KEYS: [&str; 16] = [
    "type",
    "name",
    "description",
    "command",
    "args",
    "env",
    "cwd",
    "url",
    "httpUrl",
    "headers",
    "timeout",
    "includeTools",
    "excludeTools",
    "trust",
    "disabled",
    "enabled",
];

/// What an entry says, before it is decided what kind it is of.
#[derive(Default)]
struct Entry {
    kind: Option<String>,
    command: Option<String>,
    args: Vec<String>,
    env: BTreeMap<String, String>,
    cwd: Option<PathBuf>,
    url: Option<(String, usize)>,
    headers: BTreeMap<String, String>,
}

fn server(reader: &mut Reader<'_>, path: &str, node: &Node<'_>) -> Option<McpServerConfig> {
    let object = reader.object(path, node)?;
    let errors = reader.errors.len();
    let mut entry = Entry::default();
    let (mut timeout, mut include_tools, mut exclude_tools) = (None, None, Vec::new());
    let (mut trust, mut state) = (McpTrust::Doubted, McpState::Used);
    for (key, node) in reader.entries(path, node, &KEYS, Unknown::Warn) {
        let path = format!("{path}.{key}");
        match key {
            "type" => entry.kind = reader.string(&path, node),
            "command" => entry.command = reader.string(&path, node),
            "args" => entry.args = reader.strings(&path, node).unwrap_or_default(),
            "env" => entry.env = variables(reader, &path, node),
            "cwd" => entry.cwd = reader.string(&path, node).map(PathBuf::from),
            // The newer name goes before the older one.
            "httpUrl" => entry.url = reader.string(&path, node).map(|url| (url, node.start())),
            "url" if entry.url.is_none() => {
                entry.url = reader.string(&path, node).map(|url| (url, node.start()));
            }
            "headers" => entry.headers = headers(reader, &path, node),
            "timeout" => timeout = reader.whole(&path, node, 1).map(Duration::from_millis),
            "includeTools" => include_tools = reader.strings(&path, node),
            "excludeTools" => exclude_tools = reader.strings(&path, node).unwrap_or_default(),
            "trust" if reader.flag(&path, node) == Some(true) => trust = McpTrust::Believed,
            "disabled" if reader.flag(&path, node) == Some(true) => state = McpState::Disabled,
            "enabled" if reader.flag(&path, node) == Some(false) => state = McpState::Disabled,
            // `name` and `description` are for people.
            _ => {}
        }
    }
    // What cannot be read says enough.
    let is_readable = reader.errors.len() == errors;
    let connection = is_readable.then(|| connection(reader, path, object, entry)).flatten();
    connection.map(|connection| McpServerConfig {
        connection,
        timeout,
        include_tools,
        exclude_tools,
        trust,
        state,
    })
}

const HTTP_TYPES: [&str; 4] = ["http", "streamable-http", "streamableHttp", "streamable_http"];
const TYPES: [&str; 3] = ["stdio", "http", "sdk"];

fn connection(
    reader: &mut Reader<'_>,
    path: &str,
    object: &Object<'_>,
    entry: Entry,
) -> Option<McpConnection> {
    let at = object.start();
    let kind = match entry.kind.as_deref() {
        Some("stdio") => "stdio",
        Some("sdk") => return Some(McpConnection::Client),
        Some(kind) if HTTP_TYPES.contains(&kind) => "http",
        Some("sse") => {
            let message = format!("`{path}` is a server of the type `sse`, which is no longer spoken");
            let hint =
                "serve it over streamable HTTP (`\"type\": \"http\"`), or start a bridge to it as a program";
            reader.error(at, message, Some(hint.to_owned()));
            return None;
        }
        Some(_) => {
            if let Some(property) = object.get("type") {
                reader.not_one_of(&format!("{path}.type"), &property.value, &TYPES);
            }
            return None;
        }
        None if entry.url.is_some() && entry.command.is_some() => {
            let message = format!("`{path}` names a program and an address");
            let hint = "keep `command` or `url`, or say which with `type`";
            reader.error(at, message, Some(hint.to_owned()));
            return None;
        }
        None if entry.url.is_some() => "http",
        None => "stdio",
    };
    if kind == "http" {
        return http(reader, path, at, entry);
    }
    match entry.command.filter(|command| !command.trim().is_empty()) {
        Some(command) => {
            Some(McpConnection::Stdio { command, args: entry.args, env: entry.env, cwd: entry.cwd })
        }
        None => {
            let message = format!("`{path}` names neither a program nor an address");
            let hint = "add `command` (and `args`), or `url`";
            reader.error(at, message, Some(hint.to_owned()));
            None
        }
    }
}

fn http(reader: &mut Reader<'_>, path: &str, at: usize, entry: Entry) -> Option<McpConnection> {
    let Some((url, at)) = entry.url else {
        reader.error(at, format!("`{path}` needs a `url`"), None);
        return None;
    };
    let url = url.trim().to_owned();
    if let Some(why) = unusable(&url) {
        let hint = "an address looks like `https://tools.example.com/mcp`";
        reader.error(at, format!("the address of `{path}` is not usable: {why}"), Some(hint.to_owned()));
        return None;
    }
    let secret = entry.headers.keys().find(|name| is_secret_header(name));
    if let Some(name) = secret.filter(|_| !url.starts_with("https://") && !is_loopback_url(&url)) {
        let message = format!("`{path}.headers.{}` would travel unencrypted", quotable(name));
        reader.error(at, message, Some("use an `https://` address".to_owned()));
        return None;
    }
    Some(McpConnection::Http { url, headers: entry.headers })
}

/// Worded to follow "is not usable: ".
fn unusable(url: &str) -> Option<&'static str> {
    let Some(rest) = url.strip_prefix("https://").or_else(|| url.strip_prefix("http://")) else {
        return Some("it does not start with `https://` or `http://`");
    };
    if url.chars().any(|c| c.is_whitespace() || c.is_control() || c == '\\') {
        return Some("it holds spaces, control characters or backslashes");
    }
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    match authority {
        "" => Some("it names no host"),
        authority if authority.contains('@') => Some("it holds a user name; keys belong in `headers`"),
        _ => None,
    }
}

fn variables(reader: &mut Reader<'_>, path: &str, node: &Node<'_>) -> BTreeMap<String, String> {
    let Some(object) = reader.object(path, node) else { return BTreeMap::new() };
    let mut variables = BTreeMap::new();
    for property in &object.properties {
        let name = property.name.as_str();
        let path = format!("{path}.{}", quotable(name));
        if name.is_empty() || name.contains(['=', '\0']) {
            reader.error(property.start(), format!("`{path}` is not the name of a variable"), None);
            continue;
        }
        variables.extend(reader.string(&path, &property.value).map(|value| (name.to_owned(), value)));
    }
    variables
}

//! Servers of tools: the shapes in which they are written, and what is refused, with its place.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use tenon_config::{ExtraSettings, McpServers, merge_mcp_servers, read_mcp_config};
use tenon_core::{Failure, McpConnection, McpServerConfig, McpState, McpTrust};

use crate::place::Place;

/// A server that is a program, and nothing else said about it.
pub fn program(command: &str, args: &[&str]) -> McpServerConfig {
    McpServerConfig {
        connection: McpConnection::Stdio {
            command: command.to_owned(),
            args: args.iter().map(|arg| (*arg).to_owned()).collect(),
            env: BTreeMap::new(),
            cwd: None,
        },
        timeout: None,
        include_tools: None,
        exclude_tools: Vec::new(),
        trust: McpTrust::Doubted,
        state: McpState::Used,
    }
}

fn http(url: &str) -> McpServerConfig {
    let connection = McpConnection::Http { url: url.to_owned(), headers: BTreeMap::new() };
    McpServerConfig { connection, ..program("", &[]) }
}

fn read(json: &str) -> Result<(McpServers, Vec<String>), Failure> {
    let mut place = Place::new();
    place.env.insert("TOKEN".into(), "t0ken-value".into());
    read_mcp_config(&ExtraSettings::Json(json.into()), &place.surroundings()).map_err(Failure::from)
}

#[test]
fn the_shapes_of_other_programs_are_understood() {
    for (entry, expected) in [
        (r#"{ "command": "s" }"#, program("s", &[])),
        (r#"{ "type": "stdio", "command": "s", "args": ["a", "b"] }"#, program("s", &["a", "b"])),
        (r#"{ "url": "https://h/mcp" }"#, http("https://h/mcp")),
        (r#"{ "httpUrl": "https://h/mcp" }"#, http("https://h/mcp")),
        (r#"{ "type": "http", "url": "http://127.0.0.1:1/mcp?x=1" }"#, http("http://127.0.0.1:1/mcp?x=1")),
        (r#"{ "type": "streamable-http", "url": "https://h/mcp" }"#, http("https://h/mcp")),
        // The newer name goes first, wherever it stands.
        (r#"{ "httpUrl": "https://new", "url": "https://old" }"#, http("https://new")),
        (r#"{ "url": "https://old", "httpUrl": "https://new" }"#, http("https://new")),
        (
            r#"{ "type": "sdk", "name": "s" }"#,
            McpServerConfig { connection: McpConnection::Client, ..program("", &[]) },
        ),
    ] {
        let expected = vec![("s".to_owned(), expected)];
        for json in [format!(r#"{{ "mcpServers": {{ "s": {entry} }} }}"#), format!(r#"{{ "s": {entry} }}"#)] {
            assert_eq!(read(&json).unwrap(), (expected.clone(), vec![]), "{json}");
        }
    }
}

#[test]
fn every_key_has_its_place_and_variables_are_expanded() {
    let (servers, warnings) = read(
        r#"{ "mcpServers": { "all": {
            "command": "s", "args": ["--key", "$TOKEN"], "env": { "K": "${TOKEN}", "P": "$$5" }, "cwd": "sub",
            "timeout": 1500, "includeTools": ["a"], "excludeTools": ["b"], "trust": true, "disabled": true,
            "description": "for people", "headres": {} } } }"#,
    )
    .unwrap();
    let expected = McpServerConfig {
        connection: McpConnection::Stdio {
            command: "s".into(),
            args: vec!["--key".into(), "t0ken-value".into()],
            env: BTreeMap::from([("K".into(), "t0ken-value".into()), ("P".into(), "$5".into())]),
            cwd: Some(PathBuf::from("sub")),
        },
        timeout: Some(Duration::from_millis(1500)),
        include_tools: Some(vec!["a".into()]),
        exclude_tools: vec!["b".into()],
        trust: McpTrust::Believed,
        state: McpState::Disabled,
    };
    assert!(!format!("{expected:?}").contains("t0ken"), "{expected:?}");
    assert_eq!(servers, [("all".to_owned(), expected)]);
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    assert!(warnings[0].contains("`headres`") && warnings[0].contains("`headers`"), "{warnings:?}");
}

#[test]
fn what_cannot_be_used_is_refused_with_its_place() {
    for (json, message, hint) in [
        ("[]", "--mcp-config:1:1: settings are one object, `{ … }`", None),
        ("{ ", "--mcp-config:1:1: this is not valid JSON", None),
        (r#"{ "mcpServers": [] }"#, "--mcp-config:1:17: `mcpServers` must be an object, not a list", None),
        (r#"{ "mcpServers": { "a": 1 } }"#, "`mcpServers.a` must be an object, not a number", None),
        (
            r#"{ "mcpServers": { "a": {} } }"#,
            "`mcpServers.a` names neither a program nor an address",
            Some("`command`"),
        ),
        (r#"{ "mcpServers": { "": { "command": "x" } } }"#, "needs a name with a letter or digit", None),
        (
            r#"{ "a": { "command": "x", "url": "https://h" } }"#,
            "`a` names a program and an address",
            Some("`type`"),
        ),
        (
            r#"{ "a": { "type": "sse", "url": "https://h" } }"#,
            "`a` is a server of the type `sse`",
            Some("`\"type\": \"http\"`"),
        ),
        (
            r#"{ "a": { "type": "htpp", "url": "https://h" } }"#,
            "`a.type` is `htpp`, but may be one of",
            Some("did you mean `http`?"),
        ),
        (r#"{ "a": { "type": "http" } }"#, "`a` needs a `url`", None),
        (r#"{ "a": { "url": "h" } }"#, "the address of `a` is not usable", Some("https://")),
        (r#"{ "a": { "url": "https://u:p@h" } }"#, "it holds a user name", None),
        (r#"{ "a": { "command": 1 } }"#, "`a.command` must be a string, not a number", None),
        (r#"{ "a": { "command": "x", "args": "y" } }"#, "`a.args` must be a list of strings", None),
        (r#"{ "a": { "command": "x", "env": { "K": 1 } } }"#, "`a.env.K` must be a string", None),
        (
            r#"{ "a": { "command": "x", "env": { "K=": "1" } } }"#,
            "`a.env.K=` is not the name of a variable",
            None,
        ),
        (r#"{ "a": { "command": "x", "timeout": 0 } }"#, "`a.timeout` is 0", None),
        (r#"{ "a": { "command": "x", "trust": "yes" } }"#, "`a.trust` must be true or false", None),
        (
            r#"{ "a": { "url": "http://h.example/mcp", "headers": { "Authorization": "Bearer $TOKEN" } } }"#,
            "`a.headers.Authorization` would travel unencrypted",
            Some("https://"),
        ),
    ] {
        let failure = read(json).expect_err(json);
        assert!(failure.message.contains(message), "{json}: {}", failure.message);
        assert!(!failure.message.contains("t0ken"), "{}", failure.message);
        if let Some(hint) = hint {
            assert!(failure.hint.as_deref().unwrap_or_default().contains(hint), "{json}: {:?}", failure.hint);
        }
    }
}

#[test]
fn a_file_is_read_and_named() {
    let place = Place::new();
    place.write("work/servers.json", "{\n  \"a\": { \"command\": 1 }\n}");
    let source = ExtraSettings::parse("servers.json", &place.surroundings().cwd);
    let failure = Failure::from(read_mcp_config(&source, &place.surroundings()).unwrap_err());
    assert!(failure.message.contains("servers.json:2:21: `a.command`"), "{}", failure.message);
    let missing = ExtraSettings::parse("none.json", &place.surroundings().cwd);
    assert!(read_mcp_config(&missing, &place.surroundings()).is_err());
}

#[test]
fn a_project_s_variables_are_not_expanded() {
    let mut place = Place::new();
    place.env.insert("TOKEN".into(), "t0ken-value".into());
    place.write(
        "work/.mcp.json",
        r#"{ "mcpServers": { "a": { "command": "x", "env": { "K": "$TOKEN" } } } }"#,
    );
    let servers = place.load_trusted().settings.mcp_servers;
    let McpConnection::Stdio { env, .. } = &servers[0].1.connection else { panic!("{servers:?}") };
    assert_eq!(env["K"], "$TOKEN");
}

#[test]
fn later_sources_replace_servers_by_name() {
    let server = |name: &str, command: &str| (name.to_owned(), program(command, &[]));
    let lower = vec![server("a", "1"), server("b", "1")];
    let merged = merge_mcp_servers(lower, vec![server("c", "2"), server("a", "2")]);
    assert_eq!(merged, [server("a", "2"), server("b", "1"), server("c", "2")]);
}

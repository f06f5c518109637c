//! Every settings key is read into its place, and higher layers lie over lower ones.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use serde_json::json;
use tenon_config::SandboxSettings;
use tenon_config::{
    Context, Expand, Limit, Limits, Permissions, Provider, Retry, RunSettings, SessionSettings, Settings,
    ShellSettings, TaskSettings, TelemetrySettings, Timeouts, ToolSettings, read_settings,
};
use tenon_core::{
    Above, ApprovalMode, Hook, HookEvent, HookLayer, HookOrder, HookRule, HookRun, HookShell, HookWait,
    OnHookError, Price, Rates,
};
use tenon_core::{NetworkAccess, SandboxMode};

use crate::mcp_servers::program;
use crate::place::{Place, settings};

pub const EVERY_KEY: &str = r#"
// JSON with comments,
{
  "$schema": "https://example.com/settings.json",
  "model": "openai/gpt-x",
  "dialect": "claude",
  "outputFormat": "stream-json",
  "providers": {
    "corp": {
      "wire": "openai",
      "baseUrl": "https://llm.corp.example/v1",
      "apiKeyEnv": "CORP_KEY",
      "headers": { "X-Team": "tools" },
      "models": ["big", "small"],
    },
  },
  "permissions": { "allow": ["Bash(git status)"], "ask": ["write_file"], "deny": ["Read(.env)"], "mode": "auto-edit" },
  "mcpServers": { "files": { "command": "files-server", "args": ["-v"] } },
  "mcp": { "allowed": ["files"] },
  "hooks": { "PreToolUse": [{ "matcher": "*", "hooks": [{ "type": "command", "command": "echo $HOME" }] }] },
  "disableAllHooks": false,
  "stopHookBlockingCap": 3,
  "limits": { "turns": 7, "toolCalls": 0, "wallTime": "5m", "budgetUsd": 1.25, "schemaRetries": -1 },
  "tasks": { "waitMs": 1500 },
  "retry": { "attempts": 2, "baseMs": 10, "maxTotalMs": 1000 },
  "prices": { "openai/gpt-x": { "input": 1.5, "output": 6, "cacheRead": 0.15, "above": [{ "tokens": 1000, "input": 3, "output": 12 }] } },
  "context": { "window": 32000, "compactAt": 0.5 },
  "telemetry": { "enabled": true, "endpoint": "http://127.0.0.1:4318", "protocol": "http/json",
    "headers": { "x-tenant": "a" }, "serviceName": "bot", "resourceAttributes": { "team": "x" } },
  "sandbox": { "mode": "require", "network": "deny", "writable": ["~/.cache"], "secretFolders": ["~/.vault"] },
  "tools": {
    "core": ["read_file"],
    "exclude": ["run_shell_command"],
    "searchAbove": 12,
    "shell": { "passEnv": ["CORP_KEY"], "defaultTimeoutMs": 1000, "heartbeatIntervalMs": 500, "promoteAfterMs": 2000, "pty": true },
  },
  "timeouts": { "connect": 1, "firstByte": "2s", "idle": "3000ms", "canUseTool": "1m", "hookCallback": 5, "hook": 6,
    "mcpMessage": 7, "mcpStart": 8, "mcpReady": 8.5, "mcpCall": 8.75, "shell": 9, "shellMax": 10, "shutdown": 11, "telemetryFlush": 0.5 /* half */ },
  "sessions": { "retentionDays": 0 },
  "runs": { "retentionDays": 7 },
}
"#;

fn strings(list: &[&str]) -> Vec<String> {
    list.iter().map(|text| (*text).to_owned()).collect()
}

fn seconds(seconds: f64) -> Option<Duration> {
    Some(Duration::from_secs_f64(seconds))
}

#[test]
fn every_key_is_read() {
    let expected = Settings {
        model: Some("openai/gpt-x".to_owned()),
        dialect: Some("claude".to_owned()),
        output_format: Some("stream-json".to_owned()),
        providers: vec![(
            "corp".to_owned(),
            Provider {
                wire: Some("openai".to_owned()),
                base_url: Some("https://llm.corp.example/v1".to_owned()),
                api_key_env: Some("CORP_KEY".to_owned()),
                headers: BTreeMap::from([("X-Team".to_owned(), "tools".to_owned())]),
                models: strings(&["big", "small"]),
            },
        )],
        permissions: Permissions {
            allow: strings(&["Bash(git status)"]),
            ask: strings(&["write_file"]),
            deny: strings(&["Read(.env)"]),
            mode: Some(ApprovalMode::AutoEdit),
        },
        mcp_servers: vec![("files".to_owned(), program("files-server", &["-v"]))],
        mcp_allowed: Some(strings(&["files"])),
        hooks: vec![rule(HookEvent::PreToolUse, "", command("echo $HOME"))],
        disable_all_hooks: Some(false),
        stop_hook_blocking_cap: Some(3),
        limits: Limits {
            turns: Some(Limit::AtMost(7)),
            tool_calls: Some(Limit::AtMost(0)),
            wall_time: Some(Limit::AtMost(Duration::from_secs(300))),
            budget_usd: Some(Limit::AtMost(1.25)),
            schema_retries: Some(Limit::Unlimited),
        },
        tasks: TaskSettings { wait_ms: Some(1500) },
        retry: Retry { attempts: Some(2), base_ms: Some(10), max_total_ms: Some(1000) },
        prices: BTreeMap::from([(
            "openai/gpt-x".to_owned(),
            Price {
                rates: Rates { input: 1.5, output: 6.0, cache_read: 0.15, cache_write: 1.5 },
                above: vec![Above {
                    tokens: 1000,
                    rates: Rates { input: 3.0, output: 12.0, cache_read: 3.0, cache_write: 3.0 },
                }],
            },
        )]),
        context: Context { window: Some(32000), compact_at: Some(0.5) },
        telemetry: TelemetrySettings {
            enabled: Some(true),
            endpoint: Some("http://127.0.0.1:4318".to_owned()),
            protocol: Some("http/json".to_owned()),
            headers: [("x-tenant".to_owned(), "a".to_owned())].into(),
            service_name: Some("bot".to_owned()),
            resource_attributes: [("team".to_owned(), "x".to_owned())].into(),
        },
        sandbox: SandboxSettings {
            mode: Some(SandboxMode::Require),
            network: Some(NetworkAccess::Denied),
            writable: vec!["~/.cache".to_owned()],
            secret_folders: vec!["~/.vault".to_owned()],
        },
        tools: ToolSettings {
            core: Some(strings(&["read_file"])),
            exclude: strings(&["run_shell_command"]),
            search_above: Some(12),
            shell: ShellSettings {
                pass_env: strings(&["CORP_KEY"]),
                default_timeout_ms: Some(1000),
                heartbeat_interval_ms: Some(500),
                promote_after_ms: Some(2000),
                pty: Some(true),
            },
        },
        timeouts: Timeouts {
            connect: seconds(1.0),
            first_byte: seconds(2.0),
            idle: seconds(3.0),
            can_use_tool: seconds(60.0),
            hook_callback: seconds(5.0),
            hook: seconds(6.0),
            mcp_message: seconds(7.0),
            mcp_start: seconds(8.0),
            mcp_ready: seconds(8.5),
            mcp_call: seconds(8.75),
            shell: seconds(9.0),
            shell_max: seconds(10.0),
            shutdown: seconds(11.0),
            telemetry_flush: seconds(0.5),
        },
        sessions: SessionSettings { retention_days: Some(0) },
        runs: RunSettings { retention_days: Some(7) },
    };
    assert_eq!(settings(EVERY_KEY), expected);
}

#[test]
fn what_holds_when_nobody_says_anything() {
    let defaults = Settings::default();
    let limits = defaults.limits;
    assert_eq!(limits.turns(), Limit::AtMost(100));
    assert_eq!(limits.tool_calls(), Limit::Unlimited);
    assert_eq!(limits.wall_time(), Limit::Unlimited);
    assert_eq!(limits.budget_usd(), Limit::Unlimited);
    assert_eq!(limits.schema_retries(), Limit::AtMost(10));
    assert_eq!(defaults.sessions.retention_days(), 90);
    assert_eq!(defaults.runs.retention_days(), 90);
    let retry = defaults.retry;
    assert_eq!((retry.attempts(), retry.base().as_millis(), retry.max_total().as_secs()), (5, 500, 120));
    let timeouts = defaults.timeouts;
    let table = [
        (timeouts.connect(), 10),
        (timeouts.first_byte(), 120),
        (timeouts.idle(), 120),
        (timeouts.can_use_tool(), 600),
        (timeouts.hook_callback(), 60),
        (timeouts.hook(), 60),
        (timeouts.mcp_message(), 60),
        (timeouts.mcp_start(), 30),
        (timeouts.mcp_ready(), 3),
        (timeouts.mcp_call(), 120),
        (timeouts.shell(), 120),
        (timeouts.shell_max(), 600),
        (timeouts.shutdown(), 5),
        (timeouts.telemetry_flush(), 2),
    ];
    for (timeout, expected) in table {
        assert_eq!(timeout.as_secs(), expected);
    }
    assert_eq!(defaults.permissions.mode(), ApprovalMode::Default);
    assert_eq!(defaults.shell_timeout().as_secs(), 120);
    let shell = |text: &str| settings(text).shell_timeout().as_millis();
    assert_eq!(shell(r#"{ "timeouts": { "shell": 9 } }"#), 9_000);
    assert_eq!(
        shell(r#"{ "timeouts": { "shell": 9 }, "tools": { "shell": { "defaultTimeoutMs": 50 } } }"#),
        50
    );
    assert_eq!(shell(r#"{ "tools": { "shell": { "defaultTimeoutMs": 900000 } } }"#), 600_000);
}

#[test]
fn values_replace_rules_add_up_and_names_merge() {
    let lower = settings(
        r#"{
        "model": "low", "outputFormat": "json",
        "providers": { "a": { "baseUrl": "https://a.example", "headers": { "X": "1" }, "models": ["m"] }, "b": {} },
        "permissions": { "allow": ["A"], "deny": ["D"], "mode": "plan" },
        "mcpServers": { "one": { "command": "low" }, "two": { "command": "low" } },
        "hooks": { "Stop": [{ "hooks": [{ "type": "command", "command": "1" }] }] },
        "limits": { "turns": 5, "toolCalls": 6 },
        "tools": { "core": ["x"], "exclude": ["e"] },
        "timeouts": { "connect": 1, "idle": 2 }
    }"#,
    );
    let higher = settings(
        r#"{
        "model": "high",
        "providers": { "a": { "apiKeyEnv": "K", "headers": { "Y": "2" } }, "c": {} },
        "permissions": { "allow": ["B", "A"], "deny": ["E"] },
        "mcpServers": { "two": { "url": "https://high" } },
        "hooks": {
            "Stop": [{ "hooks": [{ "type": "command", "command": "2" }] }],
            "PreCompact": [{ "hooks": [{ "type": "command", "command": "3" }] }]
        },
        "limits": { "turns": 50 },
        "tools": { "core": ["y"], "exclude": ["f"] },
        "timeouts": { "idle": 20 }
    }"#,
    );
    let merged = settings(
        r#"{
        "model": "high", "outputFormat": "json",
        "providers": {
            "a": { "baseUrl": "https://a.example", "apiKeyEnv": "K", "headers": { "X": "1", "Y": "2" }, "models": ["m"] },
            "b": {}, "c": {}
        },
        "permissions": { "allow": ["A", "B"], "deny": ["D", "E"], "mode": "plan" },
        "mcpServers": { "one": { "command": "low" }, "two": { "url": "https://high" } },
        "hooks": {
            "Stop": [
                { "hooks": [{ "type": "command", "command": "1" }] },
                { "hooks": [{ "type": "command", "command": "2" }] }
            ],
            "PreCompact": [{ "hooks": [{ "type": "command", "command": "3" }] }]
        },
        "limits": { "turns": 50, "toolCalls": 6 },
        "tools": { "core": ["y"], "exclude": ["e", "f"] },
        "timeouts": { "connect": 1, "idle": 20 }
    }"#,
    );
    assert_eq!(lower.overlaid(higher), merged);
}

#[test]
fn the_layers_lie_in_their_order() {
    use tenon_config::{ExtraSettings, ProjectTrust, Sources, load};
    let mut place = Place::new();
    let model = |place: &Place, extra: Option<&str>| {
        let extra = extra.map(|text| ExtraSettings::parse(text, &place.cwd));
        let sources = Sources { extra, ..Sources::all() };
        load(&place.surroundings(), &sources, ProjectTrust::Granted).unwrap().settings.model
    };
    assert_eq!(model(&place, None), None);
    place.user(r#"{ "model": "user" }"#);
    assert_eq!(model(&place, None).as_deref(), Some("user"));
    place.project(r#"{ "model": "project" }"#);
    assert_eq!(model(&place, None).as_deref(), Some("project"));
    place.env("TENON_MODEL", "");
    assert_eq!(model(&place, None).as_deref(), Some("project"));
    place.env("TENON_MODEL", "environment");
    assert_eq!(model(&place, None).as_deref(), Some("environment"));
    assert_eq!(model(&place, Some(r#" {"model":"flag"}"#)).as_deref(), Some("flag"));
    place.write("work/extra.json", r#"{ "model": "file" }"#);
    assert_eq!(model(&place, Some("extra.json")).as_deref(), Some("file"));
}

#[test]
fn strings_of_user_settings_expand_variables() {
    let env = BTreeMap::from([
        ("A".to_owned(), "one".to_owned()),
        ("B_2".to_owned(), "two $A".to_owned()),
        ("EMPTY".to_owned(), String::new()),
    ]);
    let table = [
        ("$A", "one"),
        ("${A}", "one"),
        ("x${A}y$A-z", "xoneyone-z"),
        ("$B_2", "two $A"),
        ("<$EMPTY>", "<>"),
        ("$$A", "$A"),
        ("$", "$"),
        ("a$ b", "a$ b"),
        ("${A", "${A"),
        ("${}", "${}"),
        ("$1", "$1"),
        ("日$A本", "日one本"),
    ];
    for (text, expected) in table {
        let text = json!({ "mcpServers": { "x": { "command": text } } }).to_string();
        let layer = read_settings(&text, Path::new("s.json"), Expand::From(&env));
        assert_eq!(layer.errors, []);
        assert_eq!(layer.settings.mcp_servers, [("x".to_owned(), program(expected, &[]))], "{text}");
    }
}

#[test]
fn a_variable_that_is_not_set_stays_and_is_named() {
    let env = BTreeMap::new();
    let layer = read_settings(r#"{ "model": "$NOPE/x" }"#, Path::new("s.json"), Expand::From(&env));
    assert_eq!(layer.settings.model.as_deref(), Some("$NOPE/x"));
    assert_eq!(
        layer.warnings[0].to_string(),
        "s.json:1:12: `model` names the variable `NOPE`, which is not set"
    );
}

#[test]
fn only_user_settings_expand_and_never_commands() {
    let mut place = Place::new();
    place.env("SECRET", "s3cr3t");
    let text = r#"{
        "model": "$SECRET",
        "hooks": {
            "Stop": [{ "hooks": [
                { "type": "command", "command": "echo $SECRET" },
                { "type": "http", "url": "https://h.example/$SECRET", "headers": { "X": "t $SECRET" } }
            ] }]
        },
        "providers": { "a": { "headers": { "Authorization": "Bearer $SECRET" } } }
    }"#;
    place.user(text);
    let user = place.load().settings;
    assert_eq!(user.model.as_deref(), Some("s3cr3t"));
    assert_eq!(user.provider("a").unwrap().headers["Authorization"], "Bearer s3cr3t");
    let runs = |settings: &Settings| {
        settings.hooks.iter().flat_map(|rule| &rule.hooks).map(|hook| hook.run.clone()).collect::<Vec<_>>()
    };
    let http = |url: &str, header: &str| HookRun::Http {
        url: url.to_owned(),
        headers: BTreeMap::from([("X".to_owned(), header.to_owned())]),
        timeout: None,
    };
    assert_eq!(runs(&user), [command("echo $SECRET").run, http("https://h.example/s3cr3t", "t s3cr3t")]);
    assert!(!format!("{:?}", user.hooks).contains("t s3cr3t"));
    assert!(!format!("{:?}", user.providers).contains("s3cr3t"));

    place.user("{}");
    place.project(text);
    let project = place.load_trusted().settings;
    assert_eq!(project.model.as_deref(), Some("$SECRET"));
    assert_eq!(project.provider("a").unwrap().headers["Authorization"], "Bearer $SECRET");
    assert_eq!(runs(&project), [command("echo $SECRET").run, http("https://h.example/$SECRET", "t $SECRET")]);
}

#[test]
fn hooks_are_read_in_full_and_know_their_layer() {
    let mut place = Place::new();
    place.env("T", "token");
    let text = |name: &str| {
        json!({ "hooks": { "PreToolUse": [{
            "matcher": "Bash|Write",
            "sequential": true,
            "hooks": [
                {
                    "type": "command", "command": "guard", "timeout": 1500, "name": name, "shell": "sh",
                    "env": { "A_B": "$T" }, "statusMessage": "Checking", "onError": "warn"
                },
                { "type": "http", "url": "http://127.0.0.1:9/x", "timeout": 7, "description": "d", "async": true }
            ]
        }] } })
        .to_string()
    };
    place.user(&text("user"));
    place.project(&text("project"));
    let sources = tenon_config::Sources {
        extra: Some(tenon_config::ExtraSettings::Json(text("flag"))),
        ..tenon_config::Sources::all()
    };
    let load = |trust| tenon_config::load(&place.surroundings(), &sources, trust).unwrap().settings.hooks;
    let expected = |name: &str, layer| HookRule {
        event: HookEvent::PreToolUse,
        matcher: "Bash|Write".to_owned(),
        order: HookOrder::InTurn,
        layer,
        hooks: vec![
            Hook {
                run: HookRun::Command {
                    command: "guard".to_owned(),
                    shell: HookShell::Sh,
                    env: BTreeMap::from([("A_B".to_owned(), "$T".to_owned())]),
                    timeout: Some(Duration::from_millis(1500)),
                },
                name: Some(name.to_owned()),
                status_message: Some("Checking".to_owned()),
                wait: HookWait::ForItsAnswer,
                on_error: Some(OnHookError::Warn),
            },
            Hook {
                run: HookRun::Http {
                    url: "http://127.0.0.1:9/x".to_owned(),
                    headers: BTreeMap::new(),
                    timeout: Some(Duration::from_secs(7)),
                },
                name: Some("d".to_owned()),
                status_message: None,
                wait: HookWait::Not,
                on_error: None,
            },
        ],
    };
    assert_eq!(
        load(tenon_config::ProjectTrust::Granted),
        [
            expected("user", HookLayer::User),
            expected("project", HookLayer::Project),
            expected("flag", HookLayer::Flag)
        ]
    );
    // A project that is not trusted has no hooks at all.
    assert_eq!(
        load(tenon_config::ProjectTrust::Pinned),
        [expected("user", HookLayer::User), expected("flag", HookLayer::Flag)]
    );
}

fn rule(event: HookEvent, matcher: &str, hook: Hook) -> HookRule {
    HookRule {
        event,
        matcher: matcher.to_owned(),
        order: HookOrder::SideBySide,
        layer: HookLayer::Flag,
        hooks: vec![hook],
    }
}

fn command(command: &str) -> Hook {
    let command = command.to_owned();
    let run = HookRun::Command { command, shell: HookShell::Bash, env: BTreeMap::new(), timeout: None };
    Hook { run, name: None, status_message: None, wait: HookWait::ForItsAnswer, on_error: None }
}

#[test]
fn the_names_of_modes_are_accepted_from_both_worlds() {
    for (name, mode) in [
        ("plan", ApprovalMode::Plan),
        ("default", ApprovalMode::Default),
        ("auto-edit", ApprovalMode::AutoEdit),
        ("acceptEdits", ApprovalMode::AutoEdit),
        ("yolo", ApprovalMode::Yolo),
        ("bypassPermissions", ApprovalMode::Yolo),
    ] {
        assert_eq!(ApprovalMode::parse(name), Ok(mode));
        assert_eq!(ApprovalMode::parse(mode.name()), Ok(mode));
    }
    assert!(ApprovalMode::parse("YOLO").is_err());
}

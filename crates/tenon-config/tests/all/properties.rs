//! Arbitrary text never panics, and an untrusted project never makes anything freer.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use proptest::prelude::*;
use serde_json::{Map, json};
use tenon_config::SandboxSettings;
use tenon_config::{
    Context, Expand, Limit, Limits, ModelFlags, Permissions, Provider, Retry, RunSettings, SessionSettings,
    Settings, ShellSettings, TelemetrySettings, Timeouts, ToolSettings, choose_model, is_loopback_url,
    parse_duration, read_settings, tighten,
};
use tenon_core::{
    ApprovalMode, Hook, HookEvent, HookLayer, HookOrder, HookRule, HookRun, HookShell, HookWait, Price,
};
use tenon_core::{NetworkAccess, SandboxMode};
use tenon_testkit::cases;

use crate::mcp_servers::program;

/// Limits and mode not above, denials not fewer, everything that frees exactly as it was.
pub fn assert_not_freer(before: &Settings, after: &Settings) {
    let at_most = |before: Option<f64>, after: Option<f64>| match (before, after) {
        (None, _) => true,
        (Some(before), Some(after)) => after <= before,
        (Some(_), None) => false,
    };
    let count = |limit: Limit<u32>| limit.at_most().map(f64::from);
    let seconds = |limit: Limit<Duration>| limit.at_most().map(|limit| limit.as_secs_f64());
    let (was, is) = (before.limits, after.limits);
    assert!(at_most(count(was.turns()), count(is.turns())));
    assert!(at_most(count(was.tool_calls()), count(is.tool_calls())));
    assert!(at_most(count(was.schema_retries()), count(is.schema_retries())));
    assert!(at_most(seconds(was.wall_time()), seconds(is.wall_time())));
    assert!(at_most(was.budget_usd().at_most(), is.budget_usd().at_most()));
    assert!(after.permissions.mode() <= before.permissions.mode());
    assert!(after.sandbox.mode() >= before.sandbox.mode());
    assert!(after.sandbox.network() >= before.sandbox.network());
    for (before, after) in [
        (&before.permissions.deny, &after.permissions.deny),
        (&before.permissions.ask, &after.permissions.ask),
        (&before.tools.exclude, &after.tools.exclude),
        (&before.sandbox.secret_folders, &after.sandbox.secret_folders),
    ] {
        assert!(before.iter().all(|rule| after.contains(rule)));
    }
    // With what may be tightened put back, nothing else has changed.
    let mut rest = after.clone();
    rest.limits = before.limits;
    rest.permissions.mode = before.permissions.mode;
    rest.permissions.deny.clone_from(&before.permissions.deny);
    rest.permissions.ask.clone_from(&before.permissions.ask);
    rest.tools.exclude.clone_from(&before.tools.exclude);
    let writable = rest.sandbox.writable;
    rest.sandbox = SandboxSettings { writable, ..before.sandbox.clone() };
    assert_eq!(&rest, before);
}

fn rules() -> impl Strategy<Value = Vec<String>> {
    // Few different names, so that layers share some.
    prop::collection::btree_set("[a-e]", 0..3).prop_map(|rules| rules.into_iter().collect())
}

fn limit() -> impl Strategy<Value = Option<Limit<u32>>> {
    prop_oneof![Just(None), Just(Some(Limit::Unlimited)), (0..200_u32).prop_map(|n| Some(Limit::AtMost(n)))]
}

fn limits() -> impl Strategy<Value = Limits> {
    let as_time = |limit: Limit<u32>| match limit {
        Limit::Unlimited => Limit::Unlimited,
        Limit::AtMost(n) => Limit::AtMost(Duration::from_secs(n.into())),
    };
    let as_money = |limit: Limit<u32>| match limit {
        Limit::Unlimited => Limit::Unlimited,
        Limit::AtMost(n) => Limit::AtMost(f64::from(n) / 8.0),
    };
    (limit(), limit(), limit(), limit(), limit()).prop_map(
        move |(turns, tool_calls, wall_time, budget_usd, schema_retries)| Limits {
            turns,
            tool_calls,
            wall_time: wall_time.map(as_time),
            budget_usd: budget_usd.map(as_money),
            schema_retries,
        },
    )
}

fn permissions() -> impl Strategy<Value = Permissions> {
    let mode = prop_oneof![
        Just(None),
        Just(Some(ApprovalMode::Plan)),
        Just(Some(ApprovalMode::Default)),
        Just(Some(ApprovalMode::AutoEdit)),
        Just(Some(ApprovalMode::Yolo)),
    ];
    (rules(), rules(), rules(), mode).prop_map(|(allow, ask, deny, mode)| Permissions {
        allow,
        ask,
        deny,
        mode,
    })
}

fn named() -> impl Strategy<Value = Map<String, serde_json::Value>> {
    rules().prop_map(|names| names.into_iter().map(|name| (name, json!([1]))).collect())
}

fn hook(command: &str) -> HookRule {
    let run = HookRun::Command {
        command: command.to_owned(),
        shell: HookShell::Bash,
        env: std::collections::BTreeMap::new(),
        timeout: None,
    };
    let hook = Hook { run, name: None, status_message: None, wait: HookWait::ForItsAnswer, on_error: None };
    HookRule {
        event: HookEvent::Stop,
        matcher: String::new(),
        order: HookOrder::SideBySide,
        layer: HookLayer::User,
        hooks: vec![hook],
    }
}

fn any_settings() -> impl Strategy<Value = Settings> {
    let words = (
        prop::option::of("[a-c]"),
        prop::option::of("[a-c]"),
        prop::option::of("[a-c]"),
        prop::option::of(rules()),
        prop::option::of(rules()),
    );
    let maps = (named(), named(), named(), named(), named());
    let others = (rules(), rules(), rules(), prop::option::of(1..9_u32), prop::option::of(1..9_u64));
    (words, maps, others, permissions(), limits()).prop_map(|(words, maps, others, permissions, limits)| {
        let (model, dialect, output_format, mcp_allowed, core) = words;
        let (mcp_servers, hooks, prices, telemetry, sandbox) = maps;
        let (providers, exclude, pass_env, attempts, seconds) = others;
        Settings {
            model,
            dialect,
            output_format,
            providers: providers.into_iter().map(|name| (name, Provider::default())).collect(),
            permissions,
            mcp_servers: mcp_servers.into_iter().map(|(name, _)| (name, program("x", &[]))).collect(),
            mcp_allowed,
            hooks: hooks.keys().map(|name| hook(name)).collect(),
            disable_all_hooks: None,
            stop_hook_blocking_cap: attempts,
            limits,
            tasks: tenon_config::TaskSettings { wait_ms: attempts.map(u64::from) },
            retry: Retry { attempts, ..Retry::default() },
            prices: prices.keys().map(|name| (name.clone(), Price::FREE)).collect(),
            context: Context { window: seconds, ..Context::default() },
            telemetry: TelemetrySettings {
                endpoint: telemetry.keys().next().cloned(),
                headers: telemetry.into_iter().map(|(name, _)| (name.clone(), name)).collect(),
                ..TelemetrySettings::default()
            },
            sandbox: SandboxSettings {
                mode: sandbox.keys().next().and_then(|name| match name.as_str() {
                    "a" => Some(SandboxMode::Off),
                    "b" => Some(SandboxMode::Auto),
                    "c" => Some(SandboxMode::Require),
                    _ => None,
                }),
                network: (sandbox.len() > 1).then_some(NetworkAccess::Denied),
                writable: sandbox.keys().cloned().collect(),
                secret_folders: sandbox.keys().rev().cloned().collect(),
            },
            tools: ToolSettings {
                core,
                exclude,
                search_above: None,
                shell: ShellSettings { pass_env, ..Default::default() },
            },
            timeouts: Timeouts { connect: seconds.map(Duration::from_secs), ..Timeouts::default() },
            sessions: SessionSettings { retention_days: attempts },
            runs: RunSettings { retention_days: attempts },
        }
    })
}

/// Text that has a chance to be settings.
fn settings_text() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        Just("{".to_owned()),
        Just("}".to_owned()),
        Just("[".to_owned()),
        Just("]".to_owned()),
        Just(":".to_owned()),
        Just(",".to_owned()),
        Just("null".to_owned()),
        Just("-1".to_owned()),
        Just("\"limits\":{\"turns\":-1}".to_owned()),
        Just("\"permissions\":{\"deny\":[\"x\"]}".to_owned()),
        Just("\"providers\":".to_owned()),
        Just("\"hooks\":".to_owned()),
        Just("\"timeouts\":{\"connect\":\"1e\"}".to_owned()),
        "\"[a-zA-Z$\\\\{}]{0,6}\"",
        "[0-9.eE+-]{1,6}",
        "//.{0,5}\n",
        ".{0,4}",
    ];
    prop::collection::vec(piece, 0..24).prop_map(|pieces| pieces.concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(cases(256)))]

    #[test]
    fn an_untrusted_project_never_frees(user in any_settings(), project in any_settings()) {
        let (tightened, ignored) = tighten(user.clone(), project.clone());
        assert_not_freer(&user, &tightened);
        // What it denies is denied.
        for rule in &project.permissions.deny {
            prop_assert!(tightened.permissions.deny.contains(rule));
        }
        // A second time changes nothing.
        let (again, ignored_again) = tighten(tightened.clone(), project);
        prop_assert_eq!(again, tightened);
        prop_assert!(ignored.iter().all(|key| ignored_again.contains(key)));
    }

    #[test]
    fn merging_is_the_same_in_any_grouping(a in any_settings(), b in any_settings(), c in any_settings()) {
        let left = a.clone().overlaid(b.clone()).overlaid(c.clone());
        prop_assert_eq!(left, a.clone().overlaid(b.overlaid(c)));
        prop_assert_eq!(a.clone().overlaid(Settings::default()), a.clone());
        prop_assert_eq!(Settings::default().overlaid(a.clone()), a);
    }

    #[test]
    fn any_text_is_read_without_a_panic(text in settings_text(), value in ".{0,8}") {
        let env = BTreeMap::from([("a".to_owned(), value)]);
        let user = read_settings(&text, Path::new("s.json"), Expand::From(&env));
        let project = read_settings(&format!("{{{text}}}"), Path::new("s.json"), Expand::Never);
        let lines = text.matches('\n').count() + 1;
        for problem in user.errors.iter().chain(&user.warnings) {
            prop_assert!(problem.line >= 1 && problem.line <= lines && problem.column >= 1);
            prop_assert!(problem.column <= text.chars().count() + 1);
        }
        let (tightened, _) = tighten(user.settings.clone(), project.settings);
        assert_not_freer(&user.settings, &tightened);
    }

    #[test]
    fn any_duration_text_is_read_without_a_panic(text in "[0-9.]{0,30}[ a-zA-Z]{0,3}|.{0,12}") {
        if let Ok(duration) = parse_duration(&text) {
            prop_assert!(!duration.is_zero() && duration <= tenon_config::MAX_DURATION);
        }
    }

    #[test]
    fn any_names_are_chosen_from_without_a_panic_and_keys_stay_hidden(
        model in ".{0,12}", url in "(https?://)?[a-z0-9.:@\\[\\]/\\\\%?# -]{0,20}",
    ) {
        let env = BTreeMap::from([
            ("OPENAI_API_KEY".to_owned(), "hush-hush".to_owned()),
            ("OPENAI_BASE_URL".to_owned(), url.clone()),
        ]);
        let flags = ModelFlags { model: Some(&model), ..ModelFlags::default() };
        let shown = match choose_model(flags, &Settings::default(), &env) {
            Ok(choice) => {
                prop_assert!(choice.base_url.starts_with("https://") || choice.loopback || choice.api_key.is_none());
                prop_assert_eq!(choice.loopback, is_loopback_url(&choice.base_url));
                format!("{choice:?}")
            }
            Err(error) => format!("{error:?}"),
        };
        prop_assert!(!shown.contains("hush-hush"));
    }
}

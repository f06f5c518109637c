//! What an untrusted project may still say: a repository that was merely cloned can make tenon stricter,
//! never freer.
//!
//! Deny and ask rules and excluded tools add up, limits and the mode only go down. All else is ignored and
//! named. Whether a project is trusted is decided in `trust.rs`.

use crate::settings::{
    Context, Limit, Limits, Permissions, Retry, SandboxSettings, Settings, ShellSettings, TaskSettings,
    ToolSettings, joined,
};

/// `base` with what may be taken from `project`, and the keys that were ignored.
///
/// Everything is taken apart by name, so a new key does not compile before somebody decides about it.
pub fn tighten(base: Settings, project: Settings) -> (Settings, Vec<String>) {
    let Settings {
        model,
        dialect,
        output_format,
        providers,
        permissions,
        mcp_servers,
        mcp_allowed,
        hooks,
        disable_all_hooks,
        stop_hook_blocking_cap,
        limits,
        retry,
        tasks,
        prices,
        context,
        telemetry,
        sandbox,
        tools,
        timeouts,
        sessions,
        runs,
    } = project;
    let mut ignored = Ignored::default();
    ignored.note("model", model.is_some());
    ignored.note("dialect", dialect.is_some());
    ignored.note("outputFormat", output_format.is_some());
    ignored.note("providers", !providers.is_empty());
    let permissions = tighten_permissions(base.permissions.clone(), permissions, &mut ignored);
    ignored.note("mcpServers", !mcp_servers.is_empty());
    ignored.note("mcp.allowed", mcp_allowed.is_some());
    ignored.note("hooks", !hooks.is_empty());
    ignored.note("disableAllHooks", disable_all_hooks.is_some());
    ignored.note("stopHookBlockingCap", stop_hook_blocking_cap.is_some());
    let limits = tighten_limits(base.limits, limits, &mut ignored);
    ignored.note("retry", retry != Retry::default());
    ignored.note("tasks", tasks != TaskSettings::default());
    ignored.note("prices", !prices.is_empty());
    ignored.note("context", context != Context::default());
    ignored.note("telemetry", !telemetry.is_empty());
    let sandbox = tighten_sandbox(base.sandbox.clone(), sandbox, &mut ignored);
    let tools = tighten_tools(base.tools.clone(), tools, &mut ignored);
    timeouts.present().into_iter().for_each(|key| ignored.note(&format!("timeouts.{key}"), true));
    ignored.note("sessions.retentionDays", sessions.retention_days.is_some());
    ignored.note("runs.retentionDays", runs.retention_days.is_some());
    (Settings { permissions, limits, sandbox, tools, ..base }, ignored.0)
}

#[derive(Default)]
struct Ignored(Vec<String>);

impl Ignored {
    fn note(&mut self, key: &str, asked_for: bool) {
        if asked_for {
            self.0.push(key.to_owned());
        }
    }
}

fn tighten_permissions(base: Permissions, project: Permissions, ignored: &mut Ignored) -> Permissions {
    let Permissions { allow, ask, deny, mode } = project;
    ignored.note("permissions.allow", !allow.is_empty());
    ignored.note("permissions.mode", mode.is_some_and(|mode| mode > base.mode()));
    let stricter = mode.filter(|mode| *mode < base.mode());
    Permissions {
        allow: base.allow,
        ask: joined(base.ask, ask),
        deny: joined(base.deny, deny),
        mode: stricter.or(base.mode),
    }
}

/// More may be hidden and denied, and nothing opened.
fn tighten_sandbox(
    base: SandboxSettings,
    project: SandboxSettings,
    ignored: &mut Ignored,
) -> SandboxSettings {
    let SandboxSettings { mode, network, writable, secret_folders } = project;
    ignored.note("sandbox.mode", mode.is_some_and(|mode| mode < base.mode()));
    ignored.note("sandbox.network", network.is_some_and(|network| network < base.network()));
    ignored.note("sandbox.writable", !writable.is_empty());
    let stricter_mode = mode.filter(|mode| *mode > base.mode());
    let stricter_network = network.filter(|network| *network > base.network());
    SandboxSettings {
        mode: stricter_mode.or(base.mode),
        network: stricter_network.or(base.network),
        writable: base.writable,
        secret_folders: joined(base.secret_folders, secret_folders),
    }
}

fn tighten_limits(base: Limits, project: Limits, ignored: &mut Ignored) -> Limits {
    let Limits { turns, tool_calls, wall_time, budget_usd, schema_retries } = project;
    Limits {
        turns: lower("limits.turns", base.turns, base.turns(), turns, ignored),
        tool_calls: lower("limits.toolCalls", base.tool_calls, base.tool_calls(), tool_calls, ignored),
        wall_time: lower("limits.wallTime", base.wall_time, base.wall_time(), wall_time, ignored),
        budget_usd: lower("limits.budgetUsd", base.budget_usd, base.budget_usd(), budget_usd, ignored),
        schema_retries: lower(
            "limits.schemaRetries",
            base.schema_retries,
            base.schema_retries(),
            schema_retries,
            ignored,
        ),
    }
}

/// The project's limit where it is below the one in force, which may be the default.
fn lower<T: Copy + PartialOrd>(
    key: &str,
    base: Option<Limit<T>>,
    in_force: Limit<T>,
    project: Option<Limit<T>>,
    ignored: &mut Ignored,
) -> Option<Limit<T>> {
    let Some(asked) = project else { return base };
    if in_force == asked {
        return base;
    }
    let stricter = in_force.stricter(asked);
    if stricter == asked {
        return project;
    }
    ignored.note(key, true);
    base
}

fn tighten_tools(base: ToolSettings, project: ToolSettings, ignored: &mut Ignored) -> ToolSettings {
    let ToolSettings { core, exclude, search_above, shell } = project;
    ignored.note("tools.core", core.is_some());
    ignored.note("tools.searchAbove", search_above.is_some());
    ignored.note("tools.shell", shell != ShellSettings::default());
    ToolSettings { exclude: joined(base.exclude, exclude), ..base }
}

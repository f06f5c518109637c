//! The settings keys, typed, and how a higher layer lies over a lower one.
//!
//! Every key is optional here; what holds when nobody says anything is answered by the methods
//! ([`Limits::turns`], [`Timeouts::connect`] …). Reading from text is in `read_settings.rs`, what an
//! untrusted project may change in `tighten.rs`.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use tenon_core::{ApprovalMode, HookLayer, HookRule, NetworkAccess, Price, SandboxMode};

use crate::telemetry_settings::TelemetrySettings;

use crate::mcp_servers::{McpServers, merge_mcp_servers};

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Settings {
    pub model: Option<String>,
    /// One of [`Settings::DIALECTS`].
    pub dialect: Option<String>,
    /// One of [`Settings::OUTPUT_FORMATS`].
    pub output_format: Option<String>,
    /// In the order of the file, which is the order in which they are tried.
    pub providers: Vec<(String, Provider)>,
    pub permissions: Permissions,
    /// Server name to its configuration, from `mcpServers` and a trusted project's `.mcp.json`.
    pub mcp_servers: McpServers,
    pub mcp_allowed: Option<Vec<String>>,
    /// In the order in which they are asked: the user's, the project's, those of `--settings`.
    pub hooks: Vec<HookRule>,
    pub disable_all_hooks: Option<bool>,
    /// How often `Stop` hooks may send the model back to work.
    pub stop_hook_blocking_cap: Option<u32>,
    pub limits: Limits,
    pub retry: Retry,
    pub tasks: TaskSettings,
    /// By model, `provider/model`, or the beginning of a name and `*`.
    pub prices: BTreeMap<String, Price>,
    pub context: Context,
    pub telemetry: TelemetrySettings,
    pub sandbox: SandboxSettings,
    pub tools: ToolSettings,
    pub timeouts: Timeouts,
    pub sessions: SessionSettings,
    pub runs: RunSettings,
}

impl Settings {
    pub const DIALECTS: [&'static str; 4] = ["qwen", "claude", "gemini", "openai"];
    pub const OUTPUT_FORMATS: [&'static str; 4] = ["text", "json", "stream-json", "stream-chunk-json"];

    /// `higher` laid over `self`: values replace, rules add up, named things merge by name.
    #[must_use]
    pub fn overlaid(self, higher: Settings) -> Settings {
        Settings {
            model: higher.model.or(self.model),
            dialect: higher.dialect.or(self.dialect),
            output_format: higher.output_format.or(self.output_format),
            providers: merge_providers(self.providers, higher.providers),
            permissions: self.permissions.overlaid(higher.permissions),
            mcp_servers: merge_mcp_servers(self.mcp_servers, higher.mcp_servers),
            mcp_allowed: higher.mcp_allowed.or(self.mcp_allowed),
            hooks: self.hooks.into_iter().chain(higher.hooks).collect(),
            disable_all_hooks: higher.disable_all_hooks.or(self.disable_all_hooks),
            stop_hook_blocking_cap: higher.stop_hook_blocking_cap.or(self.stop_hook_blocking_cap),
            limits: self.limits.overlaid(higher.limits),
            retry: self.retry.overlaid(higher.retry),
            tasks: self.tasks.overlaid(higher.tasks),
            prices: self.prices.into_iter().chain(higher.prices).collect(),
            context: self.context.overlaid(higher.context),
            telemetry: self.telemetry.overlaid(higher.telemetry),
            sandbox: self.sandbox.overlaid(higher.sandbox),
            tools: self.tools.overlaid(higher.tools),
            timeouts: self.timeouts.overlaid(higher.timeouts),
            sessions: self.sessions.overlaid(higher.sessions),
            runs: self.runs.overlaid(higher.runs),
        }
    }

    /// The same, with its hooks marked as this layer's.
    #[must_use]
    pub(crate) fn with_hooks_of(mut self, layer: HookLayer) -> Settings {
        self.hooks.iter_mut().for_each(|rule| rule.layer = layer);
        self
    }

    /// How long a shell command may take that names no limit: `tools.shell.defaultTimeoutMs`, else
    /// `timeouts.shell`, and never more than `timeouts.shellMax`.
    pub fn shell_timeout(&self) -> Duration {
        let named = self.tools.shell.default_timeout_ms.map(Duration::from_millis);
        named.unwrap_or(self.timeouts.shell()).min(self.timeouts.shell_max())
    }

    pub fn provider(&self, name: &str) -> Option<&Provider> {
        self.providers.iter().find(|(known, _)| known == name).map(|(_, provider)| provider)
    }
}

/// Work in the background.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TaskSettings {
    /// How long a run that has nothing else to do waits for agents and schedules.
    pub wait_ms: Option<u64>,
}

impl TaskSettings {
    fn overlaid(self, higher: TaskSettings) -> TaskSettings {
        TaskSettings { wait_ms: higher.wait_ms.or(self.wait_ms) }
    }
}

/// What is kept of earlier runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SessionSettings {
    pub retention_days: Option<u32>,
}

impl SessionSettings {
    /// A quarter is long enough to come back to something, and short enough that nobody is surprised by what
    /// is still there.
    const RETENTION_DAYS: u32 = 90;

    /// Sessions not written for so many days are deleted; 0 keeps them.
    pub fn retention_days(&self) -> u32 {
        self.retention_days.unwrap_or(Self::RETENTION_DAYS)
    }

    fn overlaid(self, higher: SessionSettings) -> SessionSettings {
        SessionSettings { retention_days: higher.retention_days.or(self.retention_days) }
    }
}

/// What is kept of workflow runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RunSettings {
    pub retention_days: Option<u32>,
}

impl RunSettings {
    /// Runs that ended longer ago are deleted; 0 keeps them. As long as sessions, for the same reason.
    pub fn retention_days(&self) -> u32 {
        self.retention_days.unwrap_or(SessionSettings::RETENTION_DAYS)
    }

    fn overlaid(self, higher: RunSettings) -> RunSettings {
        RunSettings { retention_days: higher.retention_days.or(self.retention_days) }
    }
}

/// How far shell commands are confined.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SandboxSettings {
    pub mode: Option<SandboxMode>,
    pub network: Option<NetworkAccess>,
    /// Further folders that commands may write.
    pub writable: Vec<String>,
    /// Further folders that commands may not read.
    pub secret_folders: Vec<String>,
}

impl SandboxSettings {
    fn overlaid(self, higher: SandboxSettings) -> SandboxSettings {
        SandboxSettings {
            mode: higher.mode.or(self.mode),
            network: higher.network.or(self.network),
            writable: joined(self.writable, higher.writable),
            secret_folders: joined(self.secret_folders, higher.secret_folders),
        }
    }

    pub fn mode(&self) -> SandboxMode {
        self.mode.unwrap_or_default()
    }

    pub fn network(&self) -> NetworkAccess {
        self.network.unwrap_or_default()
    }
}

/// A provider of the user's own, or changes to a built-in one.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Provider {
    /// Which protocol it speaks; one of the names in [`crate::Wire`].
    pub wire: Option<String>,
    pub base_url: Option<String>,
    /// The name of the variable that holds the key, never the key.
    pub api_key_env: Option<String>,
    pub headers: BTreeMap<String, String>,
    /// Model ids it is known to have; the first one is its default.
    pub models: Vec<String>,
}

/// Header values may be secrets: only their names are shown.
impl fmt::Debug for Provider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Provider")
            .field("wire", &self.wire)
            .field("base_url", &self.base_url)
            .field("api_key_env", &self.api_key_env)
            .field("headers", &self.headers.keys().collect::<Vec<_>>())
            .field("models", &self.models)
            .finish()
    }
}

/// Rules as text; their grammar is the permission engine's.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Permissions {
    pub allow: Vec<String>,
    pub ask: Vec<String>,
    pub deny: Vec<String>,
    pub mode: Option<ApprovalMode>,
}

impl Permissions {
    fn overlaid(self, higher: Permissions) -> Permissions {
        Permissions {
            allow: joined(self.allow, higher.allow),
            ask: joined(self.ask, higher.ask),
            deny: joined(self.deny, higher.deny),
            mode: higher.mode.or(self.mode),
        }
    }

    pub fn mode(&self) -> ApprovalMode {
        self.mode.unwrap_or_default()
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit<T> {
    Unlimited,
    AtMost(T),
}

impl<T: Copy + PartialOrd> Limit<T> {
    pub fn at_most(self) -> Option<T> {
        match self {
            Limit::Unlimited => None,
            Limit::AtMost(value) => Some(value),
        }
    }

    /// The lower of the two.
    #[must_use]
    pub fn stricter(self, other: Limit<T>) -> Limit<T> {
        match (self, other) {
            (Limit::Unlimited, any) | (any, Limit::Unlimited) => any,
            (Limit::AtMost(left), Limit::AtMost(right)) => {
                Limit::AtMost(if right < left { right } else { left })
            }
        }
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Limits {
    pub turns: Option<Limit<u32>>,
    pub tool_calls: Option<Limit<u32>>,
    pub wall_time: Option<Limit<Duration>>,
    pub budget_usd: Option<Limit<f64>>,
    pub schema_retries: Option<Limit<u32>>,
}

impl Limits {
    /// Far above what a task takes, far below what a model in a circle would spend.
    pub const DEFAULT_TURNS: Limit<u32> = Limit::AtMost(100);
    /// A model that failed this often does not understand the schema.
    pub const DEFAULT_SCHEMA_RETRIES: Limit<u32> = Limit::AtMost(10);

    pub fn turns(&self) -> Limit<u32> {
        self.turns.unwrap_or(Limits::DEFAULT_TURNS)
    }

    pub fn tool_calls(&self) -> Limit<u32> {
        self.tool_calls.unwrap_or(Limit::Unlimited)
    }

    pub fn wall_time(&self) -> Limit<Duration> {
        self.wall_time.unwrap_or(Limit::Unlimited)
    }

    pub fn budget_usd(&self) -> Limit<f64> {
        self.budget_usd.unwrap_or(Limit::Unlimited)
    }

    pub fn schema_retries(&self) -> Limit<u32> {
        self.schema_retries.unwrap_or(Limits::DEFAULT_SCHEMA_RETRIES)
    }

    fn overlaid(self, higher: Limits) -> Limits {
        Limits {
            turns: higher.turns.or(self.turns),
            tool_calls: higher.tool_calls.or(self.tool_calls),
            wall_time: higher.wall_time.or(self.wall_time),
            budget_usd: higher.budget_usd.or(self.budget_usd),
            schema_retries: higher.schema_retries.or(self.schema_retries),
        }
    }
}

/// How often and how long a failed model request is repeated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Retry {
    pub attempts: Option<u32>,
    pub base_ms: Option<u64>,
    pub max_total_ms: Option<u64>,
}

impl Retry {
    /// Enough for a server that restarts; all attempts together, the first included.
    pub const DEFAULT_ATTEMPTS: u32 = 5;
    pub const DEFAULT_BASE_MS: u64 = 500;
    pub const DEFAULT_MAX_TOTAL_MS: u64 = 120_000;

    pub fn attempts(&self) -> u32 {
        self.attempts.unwrap_or(Retry::DEFAULT_ATTEMPTS)
    }

    pub fn base(&self) -> Duration {
        Duration::from_millis(self.base_ms.unwrap_or(Retry::DEFAULT_BASE_MS))
    }

    pub fn max_total(&self) -> Duration {
        Duration::from_millis(self.max_total_ms.unwrap_or(Retry::DEFAULT_MAX_TOTAL_MS))
    }

    fn overlaid(self, higher: Retry) -> Retry {
        Retry {
            attempts: higher.attempts.or(self.attempts),
            base_ms: higher.base_ms.or(self.base_ms),
            max_total_ms: higher.max_total_ms.or(self.max_total_ms),
        }
    }
}

/// How much a model can read, and when a conversation is summarised.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Context {
    /// Tokens, where nobody else knows or the table is wrong.
    pub window: Option<u64>,
    /// A share of it.
    pub compact_at: Option<f64>,
}

impl Context {
    /// Leaves a fifth for the answer, and for being wrong about what was not counted yet.
    pub const DEFAULT_COMPACT_AT: f64 = 0.8;

    pub fn compact_at(&self) -> f64 {
        self.compact_at.unwrap_or(Context::DEFAULT_COMPACT_AT)
    }

    fn overlaid(self, higher: Context) -> Context {
        Context { window: higher.window.or(self.window), compact_at: higher.compact_at.or(self.compact_at) }
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ToolSettings {
    /// Only these tools are offered. `None` is all of them.
    pub core: Option<Vec<String>>,
    pub exclude: Vec<String>,
    /// With more tools than this, those that most runs do not need are found by a search.
    pub search_above: Option<usize>,
    pub shell: ShellSettings,
}

impl ToolSettings {
    /// What a request can carry without the model losing sight of the right tool.
    pub const DEFAULT_SEARCH_ABOVE: usize = 40;

    pub fn search_above(&self) -> usize {
        self.search_above.unwrap_or(ToolSettings::DEFAULT_SEARCH_ABOVE)
    }

    fn overlaid(self, higher: ToolSettings) -> ToolSettings {
        ToolSettings {
            core: higher.core.or(self.core),
            exclude: joined(self.exclude, higher.exclude),
            search_above: higher.search_above.or(self.search_above),
            shell: self.shell.overlaid(higher.shell),
        }
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ShellSettings {
    /// Secret variables that commands may see after all.
    pub pass_env: Vec<String>,
    pub default_timeout_ms: Option<u64>,
    pub heartbeat_interval_ms: Option<u64>,
    /// After how long a command that is waited for goes to the background.
    pub promote_after_ms: Option<u64>,
    /// Commands get a terminal of their own instead of pipes.
    pub pty: Option<bool>,
}

impl ShellSettings {
    fn overlaid(self, higher: ShellSettings) -> ShellSettings {
        ShellSettings {
            pass_env: joined(self.pass_env, higher.pass_env),
            default_timeout_ms: higher.default_timeout_ms.or(self.default_timeout_ms),
            heartbeat_interval_ms: higher.heartbeat_interval_ms.or(self.heartbeat_interval_ms),
            promote_after_ms: higher.promote_after_ms.or(self.promote_after_ms),
            pty: higher.pty.or(self.pty),
        }
    }
}

macro_rules! timeouts {
    ($($(#[$doc:meta])* $field:ident / $key:literal = $seconds:literal;)*) => {
        /// How long is waited for what. Each has a default and a consequence where it is used.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct Timeouts { $($(#[$doc])* pub $field: Option<Duration>,)* }

        impl Timeouts {
            /// The keys below `timeouts`.
            pub const KEYS: &'static [&'static str] = &[$($key),*];

            $($(#[$doc])* pub fn $field(&self) -> Duration {
                self.$field.unwrap_or(Duration::from_secs($seconds))
            })*

            pub(crate) fn set(&mut self, key: &str, value: Option<Duration>) {
                match key { $($key => self.$field = value,)* _ => {} }
            }

            /// The keys that were set.
            pub(crate) fn present(&self) -> Vec<&'static str> {
                let mut keys = Vec::new();
                $(if self.$field.is_some() { keys.push($key); })*
                keys
            }

            fn overlaid(self, higher: Timeouts) -> Timeouts {
                Timeouts { $($field: higher.$field.or(self.$field),)* }
            }
        }
    };
}

timeouts! {
    /// To reach a model server.
    connect / "connect" = 10;
    /// From the request to the first byte of the answer.
    first_byte / "firstByte" = 120;
    /// Between two bytes of an answer.
    idle / "idle" = 120;
    /// A client's answer to a permission question.
    can_use_tool / "canUseTool" = 600;
    /// A client's answer to a hook call.
    hook_callback / "hookCallback" = 60;
    /// A hook command.
    hook / "hook" = 60;
    /// A client's answer on behalf of an MCP server.
    mcp_message / "mcpMessage" = 60;
    /// An MCP server's start.
    mcp_start / "mcpStart" = 30;
    /// MCP servers, before the first request goes without those that are still starting.
    mcp_ready / "mcpReady" = 3;
    /// An MCP server's answer, counted anew from each sign of progress.
    mcp_call / "mcpCall" = 120;
    /// A shell command that names no limit.
    shell / "shell" = 120;
    /// What a shell command may ask for at most.
    shell_max / "shellMax" = 600;
    /// Background work at the end of a run.
    shutdown / "shutdown" = 5;
    /// The last batch of telemetry.
    telemetry_flush / "telemetryFlush" = 2;
}

/// Both lists, each entry once, the lower layer's first.
pub(crate) fn joined(lower: Vec<String>, higher: Vec<String>) -> Vec<String> {
    let mut seen = std::collections::HashSet::new();
    lower.into_iter().chain(higher).filter(|entry| seen.insert(entry.clone())).collect()
}

fn merge_providers(
    lower: Vec<(String, Provider)>,
    higher: Vec<(String, Provider)>,
) -> Vec<(String, Provider)> {
    let mut merged = lower;
    for (name, over) in higher {
        match merged.iter_mut().find(|(known, _)| *known == name) {
            Some((_, provider)) => {
                let under = std::mem::take(provider);
                let mut headers = under.headers;
                headers.extend(over.headers);
                *provider = Provider {
                    wire: over.wire.or(under.wire),
                    base_url: over.base_url.or(under.base_url),
                    api_key_env: over.api_key_env.or(under.api_key_env),
                    headers,
                    models: if over.models.is_empty() { under.models } else { over.models },
                };
            }
            None => merged.push((name, over)),
        }
    }
    merged
}

//! The MCP servers of a run: which ones, how they are started, and where their news go.
//!
//! `mcp_list.rs` shows them, `mcp_serve.rs` makes tenon one itself.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tenon_config::{ExtraSettings, McpServers as Configured, Settings, Surroundings};
use tenon_config::{merge_mcp_servers, read_mcp_config};
use tenon_core::{Client, ErrorClass, Failure, McpServer, McpServerConfig, McpStatus, Secrets, TraceContext};
use tenon_tools::{
    McpNotice, McpOptions, McpReport, McpRequestError, McpServers, McpTools, OutputStore, Registry,
    mcp_server_word,
};

use crate::args::RunArgs;
use crate::plan::VERSION;
use crate::stderr::{Level, Reporter, line};
use crate::{client_marks, run_hooks};

/// The servers that settings and flags name: those of `--mcp-config` over the others, or alone with
/// `--strict-mcp-config`; none with `--safe-mode`.
pub fn configured(
    args: &RunArgs,
    settings: &Settings,
    here: &Surroundings,
    started_in: &Path,
    warnings: &mut Vec<String>,
) -> Result<Configured, Failure> {
    if args.safe_mode {
        return Ok(Configured::new());
    }
    let mut servers = if args.strict_mcp_config { Configured::new() } else { settings.mcp_servers.clone() };
    for argument in &args.mcp_config {
        let (more, said) = read_mcp_config(&ExtraSettings::parse(argument, started_in), here)?;
        warnings.extend(said);
        servers = merge_mcp_servers(servers, more);
    }
    keep_allowed(args, settings, &mut servers, warnings);
    check_names(&servers)?;
    Ok(servers)
}

/// The flag goes before the setting, as flags do.
fn keep_allowed(args: &RunArgs, settings: &Settings, servers: &mut Configured, warnings: &mut Vec<String>) {
    let flag: Vec<String> = args
        .allowed_mcp_server_names
        .iter()
        .flat_map(|list| list.split(','))
        .map(|name| name.trim().to_owned())
        .filter(|name| !name.is_empty())
        .collect();
    let (source, allowed) = match (args.allowed_mcp_server_names.is_empty(), &settings.mcp_allowed) {
        (false, _) => ("--allowed-mcp-server-names", flag),
        (true, Some(allowed)) => ("mcp.allowed", allowed.clone()),
        (true, None) => return,
    };
    for name in allowed.iter().filter(|name| !servers.iter().any(|(known, _)| known == *name)) {
        warnings.push(format!("`{source}` names `{name}`, and there is no such MCP server"));
    }
    servers.retain(|(name, _)| allowed.contains(name));
}

/// The tools of two servers must not be taken for each other's.
fn check_names(servers: &Configured) -> Result<(), Failure> {
    for (at, (name, _)) in servers.iter().enumerate() {
        let word = mcp_server_word(name);
        if let Some((other, _)) = servers[..at].iter().find(|(other, _)| mcp_server_word(other) == word) {
            let message = format!(
                "the MCP servers `{other}` and `{name}` would both have tools called `mcp__{word}__…`"
            );
            return Err(Failure::new(ErrorClass::Config, message).hint("rename one of them"));
        }
    }
    Ok(())
}

/// What servers need to know of the run.
pub struct Started<'a> {
    pub args: &'a RunArgs,
    pub settings: &'a Settings,
    pub here: &'a Surroundings,
    pub folder: &'a Path,
    pub outputs: OutputStore,
    pub client: Arc<dyn Client>,
    pub trace: Option<TraceContext>,
    pub secrets: Secrets,
    pub reporter: Reporter,
    pub offer: Arc<dyn Fn(&str) -> bool + Send + Sync>,
}

/// The servers of a run under way. There may be none, and a client may add some.
pub struct Mcp {
    servers: McpServers,
    news: Arc<News>,
    secrets: Secrets,
}

impl Mcp {
    /// Starts them in the background.
    pub fn start(servers: Configured, run: Started<'_>) -> Mcp {
        let withheld = client_marks::kept_from_children(run.args, run.settings, run.here);
        let news = Arc::new(News { reporter: run.reporter, held: Mutex::new(Some(Vec::new())) });
        let (listener, secrets) = (Arc::clone(&news), run.secrets.clone());
        let timeouts = &run.settings.timeouts;
        let servers = McpServers::start(McpOptions {
            servers,
            folder: run.folder.to_owned(),
            environment: std::env::vars_os()
                .filter(|(name, _)| !withheld.iter().any(|withheld| name == withheld.as_str()))
                .collect(),
            net: run_hooks::net(run.args, run.here),
            start_timeout: timeouts.mcp_start(),
            call_timeout: timeouts.mcp_call(),
            outputs: run.outputs,
            client: run.client,
            trace: run.trace,
            version: VERSION.to_owned(),
            offer: run.offer,
            notice: Arc::new(move |notice| listener.take(notice, &secrets)),
        });
        Mcp { servers, news, secrets: run.secrets }
    }

    /// Waits a moment for those that come up quickly, and offers their tools. Later ones add theirs themselves.
    pub async fn offer_to(&self, registry: &Registry, settings: &Settings, warnings: &mut Vec<String>) {
        // Nobody hosts these, which is soon told.
        self.servers.start_those_of_client();
        warnings.extend(self.ready(settings.timeouts.mcp_ready()).await);
        self.servers.mount(registry);
    }

    /// Offers the tools of those that are up and of those that come later, and waits for nobody.
    pub fn offer_as_they_come(&self, registry: &Registry) {
        self.servers.mount(registry);
    }

    /// Waits a moment for those that are starting. What there is to say of them for the first time.
    pub async fn ready(&self, within: Duration) -> Vec<String> {
        self.servers.ready(within).await;
        let Some(mut warnings) = self.news.released() else { return Vec::new() };
        let statuses = self.servers.statuses();
        let starting = statuses.into_iter().filter(|server| server.status == McpStatus::Starting);
        warnings.extend(starting.map(|server| {
            format!("the MCP server `{}` is still starting; its tools are offered when it is up", server.name)
        }));
        warnings
    }

    /// The client can be asked from here on.
    pub fn client_is_there(&self) {
        self.servers.start_those_of_client();
    }

    pub fn add(&self, name: String, config: McpServerConfig) -> Result<(), Failure> {
        self.servers.add(name, config).map_err(|error| failed(&error, &self.secrets))
    }

    pub async fn reconnect(&self, name: &str) -> Result<(), Failure> {
        self.servers.reconnect(name).await.map_err(|error| failed(&error, &self.secrets))
    }

    pub async fn switch(&self, name: &str, on: bool) -> Result<(), Failure> {
        let switched = match on {
            true => self.servers.switch_on(name).await,
            false => self.servers.switch_off(name).await,
        };
        switched.map_err(|error| failed(&error, &self.secrets))
    }

    /// Until all are up or have failed, for whoever wants to know.
    pub async fn settled(&self, settings: &Settings) -> Vec<McpReport> {
        self.servers.start_those_of_client();
        self.servers.ready(settings.timeouts.mcp_start()).await;
        self.reports()
    }

    /// Each as it stands, with what is wrong with it.
    pub fn reports(&self) -> Vec<McpReport> {
        let mut reports = self.servers.reports();
        for report in &mut reports {
            report.problem = report.problem.as_deref().map(|why| self.secrets.hide(why).into_owned());
        }
        reports
    }

    /// For whoever calls tools besides the model.
    pub fn tools(&self) -> McpTools {
        self.servers.tools()
    }

    pub fn statuses(&self) -> Vec<McpServer> {
        self.servers.statuses()
    }

    /// Closes every connection and ends every program.
    pub async fn stop(&self) {
        self.servers.stop().await;
    }
}

fn failed(error: &McpRequestError, secrets: &Secrets) -> Failure {
    Failure::new(ErrorClass::Input, secrets.hide(&error.to_string()))
}

/// What servers have to say: kept for the run's own warnings until it starts, told at once from then on.
struct News {
    reporter: Reporter,
    held: Mutex<Option<Vec<String>>>,
}

impl News {
    fn take(&self, notice: McpNotice, secrets: &Secrets) {
        match notice {
            McpNotice::Warning(message) => {
                let message = secrets.hide(&message).into_owned();
                match self.held.lock().unwrap_or_else(PoisonError::into_inner).as_mut() {
                    Some(held) => held.push(message),
                    None => self.reporter.warn(&message),
                }
            }
            McpNotice::Said { server, line: said } if self.reporter.level == Level::Verbose => {
                line(&format!("mcp: {server}: {}", secrets.hide(&said)));
            }
            McpNotice::Said { .. } => {}
        }
    }

    /// Once.
    fn released(&self) -> Option<Vec<String>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

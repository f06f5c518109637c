//! Tools of MCP servers: started side by side in the background, offered when they are there, stopped with
//! the run.
//!
//! [`McpServers::start`] waits for nobody. [`McpServers::ready`] waits a short while for those that come up
//! quickly, and [`McpServers::mount`] puts the tools of those into the run's [`Registry`]; the others add theirs
//! when they come. More may be added later, and each can be connected anew or switched off and on. One server over the run is `mcp_client/server.rs`, one connection `connection.rs`, the names
//! of tools `names.rs`, what the model gets of an answer `result.rs`. How servers are configured is read by
//! `tenon-config`.

mod client_transport;
mod connection;
mod listing;
mod names;
mod progress;
mod resource_tool;
mod result;
mod server;
mod stdio;
mod tool;

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use futures_util::future::join_all;
use tenon_core::{Client, McpConnection, McpServer, McpServerConfig, McpStatus, Tool, TraceContext};
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio::time::timeout_at;

use self::listing::Listed;
pub use self::names::mcp_server_word;
use self::resource_tool::ReadResource;
use self::server::Server;
use self::tool::McpTool;
use crate::{NetOptions, OutputStore, Registry, WeakRegistry};

pub struct McpOptions {
    /// In the order in which their tools are offered. Disabled ones are not started.
    pub servers: Vec<(String, McpServerConfig)>,
    /// The folder of the run: where programs start, and what servers are told is the root.
    pub folder: PathBuf,
    /// What programs get, secrets taken out. What an entry's own `env` says comes on top.
    pub environment: Vec<(OsString, OsString)>,
    pub net: NetOptions,
    pub start_timeout: Duration,
    pub call_timeout: Duration,
    pub outputs: OutputStore,
    /// Whoever hosts servers of the kind [`tenon_core::McpConnection::Client`].
    pub client: Arc<dyn Client>,
    pub trace: Option<TraceContext>,
    /// Our own, for the greeting.
    pub version: String,
    /// Whether a tool of this name may be offered.
    pub offer: Arc<dyn Fn(&str) -> bool + Send + Sync>,
    pub notice: Arc<dyn Fn(McpNotice) + Send + Sync>,
}

/// News of a server, for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum McpNotice {
    Warning(String),
    /// A line of a program's stderr.
    Said {
        server: String,
        line: String,
    },
}

/// One server as `tenon mcp list` shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct McpReport {
    pub name: String,
    pub transport: &'static str,
    pub status: McpStatus,
    pub problem: Option<String>,
    /// Names as the model is offered them.
    pub tools: Vec<String>,
}

/// The servers of a run.
pub struct McpServers {
    shared: Arc<Shared>,
    supervisors: Mutex<Vec<JoinHandle<()>>>,
}

/// Why a server cannot be spoken of.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum McpRequestError {
    #[error("there is no MCP server `{0}`")]
    Unknown(String),
    #[error("the tools of the MCP servers `{name}` and `{other}` would have the same names")]
    Taken { name: String, other: String },
    #[error("the MCP server `{0}` is switched off")]
    Disabled(String),
    #[error("the MCP server `{name}` did not start: {why}")]
    NotStarted { name: String, why: String },
}

impl McpServers {
    /// Starts them all, in the background. Needs a runtime.
    pub fn start(options: McpOptions) -> McpServers {
        let McpOptions { servers, .. } = options;
        let shared = Arc::new_cyclic(|shared: &Weak<Shared>| Shared {
            folder: options.folder,
            environment: options.environment,
            net: options.net,
            start_timeout: options.start_timeout,
            call_timeout: options.call_timeout,
            outputs: options.outputs,
            client: options.client,
            trace: options.trace,
            version: options.version,
            offer: options.offer,
            notice: options.notice,
            settled: Notify::new(),
            servers: Mutex::new(Vec::new()),
            registry: Mutex::new(None),
            myself: shared.clone(),
        });
        let servers: Vec<Arc<Server>> = servers
            .into_iter()
            .map(|(name, config)| Arc::new(Server::new(name, config, Arc::clone(&shared))))
            .collect();
        let started = McpServers { shared, supervisors: Mutex::default() };
        let own = |server: &&Arc<Server>| server.config.connection != McpConnection::Client;
        servers.iter().filter(own).for_each(|server| started.supervise(server));
        *lock(&started.shared.servers) = servers;
        started
    }

    /// Starts those that the client hosts, once it can be asked. Again is as good as once.
    pub fn start_those_of_client(&self) {
        for server in self.shared.servers() {
            if server.config.connection == McpConnection::Client {
                self.supervise(&server);
            }
        }
    }

    /// One more, which adds its tools when it is up. It takes the place of one that has its name.
    pub fn add(&self, name: String, config: McpServerConfig) -> Result<(), McpRequestError> {
        let mut servers = lock(&self.shared.servers);
        let word = mcp_server_word(&name);
        let alike = |server: &&Arc<Server>| mcp_server_word(&server.name) == word && server.name != name;
        if let Some(other) = servers.iter().find(alike) {
            return Err(McpRequestError::Taken { name, other: other.name.clone() });
        }
        let replaced = servers.iter().position(|server| server.name == name).map(|at| servers.remove(at));
        let server = Arc::new(Server::new(name, config, Arc::clone(&self.shared)));
        servers.push(Arc::clone(&server));
        drop(servers);
        if let Some(replaced) = replaced {
            // Its tools go now: the next ones may have the same names.
            replaced.take_down();
            lock(&self.supervisors).push(tokio::spawn(async move { replaced.stop().await }));
        }
        self.supervise(&server);
        Ok(())
    }

    /// Ends the connection and opens a new one. What was restarted before no longer counts.
    pub async fn reconnect(&self, name: &str) -> Result<(), McpRequestError> {
        let server = self.find(name)?;
        server.reconnect().await.map_err(|why| match why {
            Some(why) => McpRequestError::NotStarted { name: name.to_owned(), why },
            None => McpRequestError::Disabled(name.to_owned()),
        })
    }

    /// Without its tools and without a connection, until it is switched on again.
    pub async fn switch_off(&self, name: &str) -> Result<(), McpRequestError> {
        let server = self.find(name)?;
        server.take_down();
        server.stop().await;
        Ok(())
    }

    pub async fn switch_on(&self, name: &str) -> Result<(), McpRequestError> {
        let server = self.find(name)?;
        self.supervise(&server);
        server.switch_on().await.map_err(|why| McpRequestError::NotStarted { name: name.to_owned(), why })
    }

    fn find(&self, name: &str) -> Result<Arc<Server>, McpRequestError> {
        let servers = self.shared.servers();
        let found = servers.into_iter().find(|server| server.name == name);
        found.ok_or_else(|| McpRequestError::Unknown(name.to_owned()))
    }

    fn supervise(&self, server: &Arc<Server>) {
        if server.takes_supervisor() {
            lock(&self.supervisors).push(tokio::spawn(Arc::clone(server).supervise()));
        }
    }

    /// Waits until every server is up or has failed, at most until `within` after its start. Those that the
    /// client hosts have until the deadline for a start: it has them already, and counts on them.
    pub async fn ready(&self, within: Duration) {
        loop {
            let settled = self.shared.settled.notified();
            tokio::pin!(settled);
            // Listens before it looks, so that nothing falls between.
            settled.as_mut().enable();
            let servers = self.shared.servers();
            let starting = servers.iter().filter_map(|server| Some((server.started_at()?, server)));
            let deadlines = starting.map(|(started, server)| match server.config.connection {
                McpConnection::Client => started + within.max(self.shared.start_timeout),
                McpConnection::Stdio { .. } | McpConnection::Http { .. } => started + within,
            });
            let Some(deadline) = deadlines.max() else { return };
            if timeout_at(deadline, settled).await.is_err() {
                return;
            }
        }
    }

    /// Offers the tools of the servers that are up, in the order of the servers. From here on the others add
    /// theirs themselves.
    pub fn mount(&self, registry: &Registry) {
        *lock(&self.shared.registry) = Some(registry.downgrade());
        for server in self.shared.servers() {
            self.shared.remount(&server, &[]);
        }
    }

    /// Those that are switched on.
    pub fn statuses(&self) -> Vec<McpServer> {
        let status =
            |server: &Arc<Server>| McpServer { name: server.name.clone(), status: server.seen().status };
        let servers = self.shared.servers();
        servers.iter().map(status).filter(|server| server.status != McpStatus::Disabled).collect()
    }

    /// All of them.
    pub fn reports(&self) -> Vec<McpReport> {
        let report = |server: &Arc<Server>| {
            let seen = server.seen();
            McpReport {
                name: server.name.clone(),
                transport: server.config.connection.kind(),
                status: seen.status,
                problem: seen.problem,
                tools: seen.tools.into_iter().map(|tool| tool.spec.name).collect(),
            }
        };
        self.shared.servers().iter().map(report).collect()
    }

    /// For whoever calls tools besides the model.
    pub fn tools(&self) -> McpTools {
        McpTools(Arc::downgrade(&self.shared))
    }

    /// Closes every connection and ends every program, all at once and within a bounded time.
    pub async fn stop(&self) {
        lock(&self.supervisors).drain(..).for_each(|supervisor| supervisor.abort());
        // An aborted start drops its program, which goes at once.
        let servers = self.shared.servers();
        join_all(servers.iter().map(|server| server.stop())).await;
    }
}

/// Finds tools of servers by name, whether or not they are offered to the model.
#[derive(Clone)]
pub struct McpTools(Weak<Shared>);

impl McpTools {
    /// `None` when no server that is up has it.
    pub fn get(&self, name: &str) -> Option<Arc<dyn Tool>> {
        let shared = self.0.upgrade()?;
        shared.servers().into_iter().find_map(|server| {
            let listed = server.seen().tools.into_iter().find(|tool| tool.spec.name == name)?;
            Some(Arc::new(McpTool::new(server, listed)) as Arc<dyn Tool>)
        })
    }
}

impl Drop for McpServers {
    fn drop(&mut self) {
        lock(&self.supervisors).drain(..).for_each(|supervisor| supervisor.abort());
        // Servers and what they share hold each other.
        lock(&self.shared.servers).clear();
    }
}

/// What all servers of a run have in common.
struct Shared {
    folder: PathBuf,
    environment: Vec<(OsString, OsString)>,
    net: NetOptions,
    start_timeout: Duration,
    call_timeout: Duration,
    outputs: OutputStore,
    client: Arc<dyn Client>,
    trace: Option<TraceContext>,
    version: String,
    offer: Arc<dyn Fn(&str) -> bool + Send + Sync>,
    notice: Arc<dyn Fn(McpNotice) + Send + Sync>,
    /// Some server is up or has failed.
    settled: Notify,
    servers: Mutex<Vec<Arc<Server>>>,
    /// Where the tools go, once that is known.
    registry: Mutex<Option<WeakRegistry>>,
    myself: Weak<Shared>,
}

impl Shared {
    fn tell(&self, notice: McpNotice) {
        (self.notice)(notice);
    }

    fn warn(&self, message: String) {
        self.tell(McpNotice::Warning(message));
    }

    fn servers(&self) -> Vec<Arc<Server>> {
        lock(&self.servers).clone()
    }

    /// Puts the tools of a server in the place of those it had before.
    fn remount(&self, server: &Arc<Server>, before: &[Listed]) {
        let registry = lock(&self.registry);
        let Some(registry) = registry.as_ref().and_then(WeakRegistry::upgrade) else { return };
        let seen = server.seen();
        let stays = |name: &str| seen.tools.iter().any(|tool| tool.spec.name == name);
        let goes = |name: &str| before.iter().any(|tool| tool.spec.name == name) && !stays(name);
        registry.remove(|spec| goes(&spec.name));
        let offered = seen
            .tools
            .iter()
            .filter(|tool| seen.status != McpStatus::Disabled && (self.offer)(&tool.spec.name));
        for listed in offered {
            let tool = Arc::new(McpTool::new(Arc::clone(server), listed.clone()));
            if !registry.replace(tool.clone()) {
                // Nobody else's tools begin with the word of this server.
                let _ = registry.add(tool);
            }
        }
        if seen.has_resources && (self.offer)(resource_tool::NAME) {
            // One for all servers; the first brings it.
            let _ = registry.add(Arc::new(ReadResource::new(self.myself.clone())));
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

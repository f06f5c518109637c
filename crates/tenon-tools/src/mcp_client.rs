//! Tools of MCP servers: started side by side in the background, offered when they are there, stopped with
//! the run.
//!
//! [`McpServers::start`] waits for nobody. [`McpServers::ready`] waits a short while for those that come up
//! quickly, and [`McpServers::mount`] puts the tools of those into the run's [`Registry`]; the others add theirs
//! when they come. One server over the run is `mcp_client/server.rs`, one connection `connection.rs`, the names
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
use tenon_core::{Client, McpServer, McpServerConfig, McpState, McpStatus, Tool, TraceContext};
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout_at};

use self::listing::Listed;
pub use self::names::mcp_server_word;
use self::resource_tool::ReadResource;
use self::server::Server;
use self::tool::McpTool;
use crate::{NetOptions, OutputStore, Registry, WeakRegistry};

pub struct McpOptions {
    /// In the order in which their tools are offered. Disabled ones are left out.
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
    supervisors: Vec<JoinHandle<()>>,
    started: Instant,
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
        let used = servers.into_iter().filter(|(_, config)| config.state == McpState::Used);
        let servers: Vec<Arc<Server>> =
            used.map(|(name, config)| Arc::new(Server::new(name, config, Arc::clone(&shared)))).collect();
        let supervisors = servers.iter().map(|server| tokio::spawn(Arc::clone(server).supervise())).collect();
        *lock(&shared.servers) = servers;
        McpServers { shared, supervisors, started: Instant::now() }
    }

    /// Waits until every server is up or has failed, at most until `within` after the start.
    pub async fn ready(&self, within: Duration) {
        let deadline = self.started + within;
        loop {
            let settled = self.shared.settled.notified();
            tokio::pin!(settled);
            // Listens before it looks, so that nothing falls between.
            settled.as_mut().enable();
            let starting = |server: &McpServer| server.status == McpStatus::Starting;
            if !self.statuses().iter().any(starting) || timeout_at(deadline, settled).await.is_err() {
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

    pub fn statuses(&self) -> Vec<McpServer> {
        let status =
            |server: &Arc<Server>| McpServer { name: server.name.clone(), status: server.seen().status };
        self.shared.servers().iter().map(status).collect()
    }

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
    pub async fn stop(self) {
        self.supervisors.iter().for_each(JoinHandle::abort);
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
        self.supervisors.iter().for_each(JoinHandle::abort);
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
        for listed in seen.tools.iter().filter(|tool| (self.offer)(&tool.spec.name)) {
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

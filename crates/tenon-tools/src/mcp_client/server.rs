//! One server over the whole run: started once, restarted when it is called after it went, twice, and then
//! given up. A call that was under way when it went is never repeated: nobody knows what became of it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rmcp::model::{
    CallToolRequest, CallToolRequestParams, ClientRequest, ListResourcesRequest, ListToolsRequest,
    PaginatedRequestParams, ReadResourceRequest, ReadResourceRequestParams,
};
use serde_json::Value;
use tenon_core::{Args, Cancel, McpServerConfig, McpState, McpStatus, ToolCtx, ToolErrorKind, ToolOutcome};
use tokio::sync::Notify;
use tokio::time::{Instant, timeout};

use super::connection::{Ask, Connection, NoAnswer};
use super::listing::{self, Listed, MAX_TOOLS};
use super::progress::Tell;
use super::{Shared, result};

/// A server that went this often will go again.
const MAX_RESTARTS: u32 = 2;
/// A list is read page by page; a server whose pages never end is cut off here.
const MAX_PAGES: usize = 50;
/// Between two looks at a list that changes all the time.
const BETWEEN_LISTINGS: Duration = Duration::from_millis(500);

/// Worded to follow a colon.
const SWITCHED_OFF: &str = "it is switched off";

pub(super) struct Server {
    pub name: String,
    pub config: McpServerConfig,
    pub shared: Arc<Shared>,
    /// Held while the server is started, so that it is started once.
    link: tokio::sync::Mutex<Link>,
    seen: Mutex<Seen>,
    /// The server says that its tools are others now.
    changed: Arc<Notify>,
}

enum Link {
    Down,
    Up(Arc<Connection>),
}

/// What is known of the server at the moment.
#[derive(Clone)]
pub(super) struct Seen {
    pub status: McpStatus,
    /// Why it is not there.
    pub problem: Option<String>,
    pub tools: Vec<Listed>,
    pub has_resources: bool,
    restarts: u32,
    /// Somebody watches over it: it is started once.
    supervised: bool,
    since: Instant,
}

impl Server {
    pub fn new(name: String, config: McpServerConfig, shared: Arc<Shared>) -> Server {
        let seen = Seen {
            status: match config.state {
                McpState::Used => McpStatus::Starting,
                McpState::Disabled => McpStatus::Disabled,
            },
            problem: None,
            tools: Vec::new(),
            has_resources: false,
            restarts: 0,
            supervised: false,
            since: Instant::now(),
        };
        Server {
            name,
            config,
            shared,
            link: tokio::sync::Mutex::new(Link::Down),
            seen: Mutex::new(seen),
            changed: Arc::default(),
        }
    }

    /// Whether a supervisor is wanted; the answer is yes once. A server that is switched off has none.
    pub fn takes_supervisor(&self) -> bool {
        let mut seen = self.lock_seen();
        let is_wanted = !seen.supervised && seen.status != McpStatus::Disabled;
        if is_wanted {
            seen.supervised = true;
            seen.since = Instant::now();
        }
        is_wanted
    }

    /// Since when it is starting, if it is.
    pub fn started_at(&self) -> Option<Instant> {
        let seen = self.lock_seen();
        (seen.status == McpStatus::Starting && seen.supervised).then_some(seen.since)
    }

    /// Starts the server, then looks at its tools again whenever it says that they have changed.
    pub async fn supervise(self: Arc<Server>) {
        let started = self.start_anew(&mut *self.link.lock().await).await;
        if let Err(why) = started
            && self.seen().status != McpStatus::Disabled
        {
            let name = &self.name;
            self.shared.warn(format!("the MCP server `{name}` did not start: {why}"));
        }
        loop {
            self.changed.notified().await;
            let connection = match &*self.link.lock().await {
                Link::Up(connection) if connection.is_open() => Some(Arc::clone(connection)),
                _ => None,
            };
            if let Some(connection) = connection {
                // A list that cannot be read now leaves the tools as they were.
                let _ = timeout(self.shared.start_timeout, self.look_at_tools(&connection)).await;
            }
            tokio::time::sleep(BETWEEN_LISTINGS).await;
        }
    }

    /// In the place of whatever connection there was.
    async fn start_anew(self: &Arc<Server>, link: &mut Link) -> Result<(), String> {
        if let Link::Up(connection) = std::mem::replace(link, Link::Down) {
            connection.close().await;
        }
        if self.lock_seen().status == McpStatus::Disabled {
            return Ok(());
        }
        *link = Link::Up(self.start().await?);
        Ok(())
    }

    /// The reason why it is not there again, worded to follow a colon; `None` when it is switched off.
    pub async fn reconnect(self: &Arc<Server>) -> Result<(), Option<String>> {
        {
            let mut seen = self.lock_seen();
            if seen.status == McpStatus::Disabled {
                return Err(None);
            }
            seen.status = McpStatus::Starting;
            seen.restarts = 0;
            seen.since = Instant::now();
        }
        self.start_anew(&mut *self.link.lock().await).await.map_err(Some)
    }

    /// Switched off, and without its tools. The connection is closed by [`Server::stop`].
    pub fn take_down(self: &Arc<Server>) {
        let before = {
            let mut seen = self.lock_seen();
            (seen.status, seen.problem) = (McpStatus::Disabled, None);
            std::mem::take(&mut seen.tools)
        };
        self.shared.remount(self, &before);
    }

    pub async fn switch_on(self: &Arc<Server>) -> Result<(), String> {
        {
            let mut seen = self.lock_seen();
            if seen.status != McpStatus::Disabled {
                return Ok(());
            }
            seen.status = McpStatus::Starting;
            seen.supervised = true;
            seen.restarts = 0;
            seen.since = Instant::now();
        }
        self.start_anew(&mut *self.link.lock().await).await
    }

    pub fn seen(&self) -> Seen {
        self.lock_seen().clone()
    }

    /// Opens a connection and lists the tools, within the deadline. The error is worded to follow a colon.
    async fn start(self: &Arc<Server>) -> Result<Arc<Connection>, String> {
        let deadline = self.shared.start_timeout;
        let started = timeout(deadline, async {
            let opened =
                Connection::open(&self.name, &self.config.connection, &self.shared, &self.changed).await;
            let connection = Arc::new(opened?);
            self.look_at_tools(&connection).await?;
            Ok(connection)
        });
        let started: Result<Arc<Connection>, String> =
            started.await.unwrap_or_else(|_| Err(format!("it was not ready within {}", seconds(deadline))));
        let mut seen = self.lock_seen();
        if seen.status == McpStatus::Disabled {
            seen.tools.clear();
            return Err(SWITCHED_OFF.to_owned());
        }
        match &started {
            Ok(_) => (seen.status, seen.problem) = (McpStatus::Connected, None),
            Err(why) => (seen.status, seen.problem) = (McpStatus::Failed, Some(why.clone())),
        }
        drop(seen);
        self.shared.settled.notify_waiters();
        started
    }

    async fn look_at_tools(self: &Arc<Server>, connection: &Connection) -> Result<(), String> {
        let capabilities = connection.capabilities();
        let listed = match capabilities["tools"].is_object() {
            true => self.list_tools(connection).await?,
            false => Vec::new(),
        };
        let (tools, problems) = listing::tools(&self.name, &self.config, &listed);
        problems.into_iter().for_each(|problem| self.shared.warn(problem));
        let mut seen = self.lock_seen();
        seen.has_resources = capabilities["resources"].is_object();
        let before = std::mem::replace(&mut seen.tools, tools);
        drop(seen);
        self.shared.remount(self, &before);
        Ok(())
    }

    async fn list_tools(&self, connection: &Connection) -> Result<Vec<Value>, String> {
        let mut tools = Vec::new();
        let mut cursor = None;
        for _ in 0..MAX_PAGES {
            let params = PaginatedRequestParams::default().with_cursor(cursor.take());
            let request = ListToolsRequest::with_param(params);
            let never = Cancel::new();
            let ask = Ask {
                request: ClientRequest::ListToolsRequest(request),
                timeout: self.shared.start_timeout,
                cancel: &never,
                tell: nobody(),
                trace: None,
            };
            let page = connection.ask(ask).await.map_err(|why| match why {
                NoAnswer::Refused(why) => format!("it does not list its tools: {why}"),
                NoAnswer::Lost(why) => why,
                NoAnswer::TimedOut(_) | NoAnswer::Cancelled | NoAnswer::NotSent => {
                    "it does not list its tools".to_owned()
                }
            })?;
            let Some(more) = page["tools"].as_array() else {
                return Err("its list of tools cannot be read".to_owned());
            };
            tools.extend(more.iter().cloned());
            cursor = page["nextCursor"].as_str().filter(|cursor| !cursor.is_empty()).map(str::to_owned);
            if cursor.is_none() || tools.len() > MAX_TOOLS {
                break;
            }
        }
        Ok(tools)
    }

    pub async fn call_tool(self: &Arc<Server>, tool: &Listed, ctx: &ToolCtx, args: Args) -> ToolOutcome {
        let params = CallToolRequestParams::new(tool.remote.clone()).with_arguments(args);
        let request = || ClientRequest::CallToolRequest(CallToolRequest::new(params.clone()));
        match self.ask(&request, ctx).await {
            Ok(answer) => result::outcome(&answer, &tool.spec.name, &self.shared.outputs),
            Err(outcome) => outcome,
        }
    }

    /// A resource, or the list of them.
    pub async fn read_resource(self: &Arc<Server>, uri: Option<&str>, ctx: &ToolCtx) -> ToolOutcome {
        let request = || match uri {
            Some(uri) => {
                let params = ReadResourceRequestParams::new(uri);
                ClientRequest::ReadResourceRequest(ReadResourceRequest::new(params))
            }
            None => ClientRequest::ListResourcesRequest(ListResourcesRequest::default()),
        };
        match self.ask(&request, ctx).await {
            Ok(answer) => result::resource(&answer, super::resource_tool::NAME, &self.shared.outputs),
            Err(outcome) => outcome,
        }
    }

    async fn ask(
        self: &Arc<Server>,
        request: &(dyn Fn() -> ClientRequest + Sync),
        ctx: &ToolCtx,
    ) -> Result<Value, ToolOutcome> {
        let name = &self.name;
        let failed = |told: String| ToolOutcome::error(ToolErrorKind::Failed, told);
        loop {
            let connection = ctx.cancel.run_until_cancelled(self.connection()).await;
            let connection = connection
                .ok_or_else(cancelled)?
                .map_err(|why| failed(format!("The MCP server `{name}` is not there: {why}.")))?;
            let ask = Ask {
                request: request(),
                timeout: self.config.timeout.unwrap_or(self.shared.call_timeout),
                cancel: &ctx.cancel,
                tell: Arc::clone(&ctx.progress),
                trace: ctx.trace.as_ref(),
            };
            return match connection.ask(ask).await {
                Ok(answer) => Ok(answer),
                // It went before it could have read the request: asking again repeats nothing.
                Err(NoAnswer::NotSent) => continue,
                Err(NoAnswer::Refused(why)) => Err(failed(format!("The MCP server `{name}` refused: {why}"))),
                Err(NoAnswer::TimedOut(limit)) => Err(ToolOutcome::error(
                    ToolErrorKind::TimedOut,
                    format!(
                        "The MCP server `{name}` did not answer within {}. The call was given up; it may or may not \
                         have had an effect.",
                        seconds(limit)
                    ),
                )),
                Err(NoAnswer::Cancelled) => Err(cancelled()),
                Err(NoAnswer::Lost(why)) => Err(failed(format!(
                    "The connection to the MCP server `{name}` broke during the call: {why}. The call may or may not \
                     have happened; check before calling again."
                ))),
            };
        }
    }

    /// The connection, opened anew if the server went. The error is worded to follow a colon.
    async fn connection(self: &Arc<Server>) -> Result<Arc<Connection>, String> {
        let mut link = self.link.lock().await;
        if self.lock_seen().status == McpStatus::Disabled {
            return Err(SWITCHED_OFF.to_owned());
        }
        if let Link::Up(connection) = &*link {
            if connection.is_open() {
                return Ok(Arc::clone(connection));
            }
            let why = connection.why_it_ended().await;
            self.lock_seen().problem = Some(why);
            connection.close().await;
            *link = Link::Down;
        }
        let restarts = {
            let mut seen = self.lock_seen();
            if seen.restarts >= MAX_RESTARTS {
                let why = seen.problem.clone().map(|why| format!(" ({why})")).unwrap_or_default();
                seen.status = McpStatus::Failed;
                return Err(format!("it went {} times and is not started again{why}", MAX_RESTARTS + 1));
            }
            seen.restarts += 1;
            seen.restarts
        };
        let name = &self.name;
        self.shared.warn(format!(
            "the MCP server `{name}` went and is started again ({restarts} of {MAX_RESTARTS})"
        ));
        let connection = self.start().await?;
        *link = Link::Up(Arc::clone(&connection));
        Ok(connection)
    }

    pub async fn stop(&self) {
        let link = std::mem::replace(&mut *self.link.lock().await, Link::Down);
        if let Link::Up(connection) = link {
            connection.close().await;
        }
    }

    fn lock_seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn cancelled() -> ToolOutcome {
    ToolOutcome::error(
        ToolErrorKind::Cancelled,
        "The run was stopped during the call, which may or may not have happened.",
    )
}

fn nobody() -> Tell {
    Arc::new(|_| {})
}

fn seconds(time: Duration) -> String {
    match time.as_millis() {
        millis if millis % 1000 == 0 => format!("{} s", millis / 1000),
        millis => format!("{millis} ms"),
    }
}

//! One connection to a server: opened within a deadline, asked with a deadline, closed in order.

use std::collections::HashMap;
use std::error::Error;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use reqwest::Url;
use reqwest::header::{HeaderName, HeaderValue};
use rmcp::model::{
    ClientCapabilities, ClientConfig, ClientRequest, ErrorCode, Implementation, ProgressNotificationParam,
    ProtocolVersion, RequestMetaObject,
};
use rmcp::service::{
    ClientInitializeError, ClientLifecycleMode, ClientServiceExt, NotificationContext, Peer,
    PeerRequestOptions, RequestContext, RunningService, ServiceError,
};
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::transport::streamable_http_client::{StreamableHttpClientTransportConfig, StreamableHttpError};
use rmcp::{ClientHandler, ErrorData, RoleClient};
use serde_json::Value;
use tenon_core::{Cancel, McpConnection, TraceContext};
use tokio::sync::{Mutex, Notify};
use tokio::time::{Instant, sleep_until, timeout};

use super::Shared;
use super::client_transport::ClientTransport;
use super::progress::{Progress, Tell};
use super::stdio::{self, Program, Start};
use crate::net;
use crate::output::first_chars;

type HttpError = StreamableHttpError<reqwest::Error>;

/// What the model and people are told of a server's reasons.
const MAX_REASON: usize = 1_000;
/// What a server may take to let go of a connection.
const CLOSE: Duration = Duration::from_millis(500);

pub(super) struct Connection {
    peer: Peer<RoleClient>,
    service: Mutex<Option<RunningService<RoleClient, Handler>>>,
    program: Mutex<Option<Program>>,
    progress: Arc<Progress>,
}

/// What is asked, and how long that may take.
pub(super) struct Ask<'a> {
    pub request: ClientRequest,
    /// Counted anew from each sign of progress.
    pub timeout: Duration,
    pub cancel: &'a Cancel,
    pub tell: Tell,
    pub trace: Option<&'a TraceContext>,
}

/// Why there is no answer.
#[derive(Debug)]
pub(super) enum NoAnswer {
    /// The server said no.
    Refused(String),
    TimedOut(Duration),
    Cancelled,
    /// The connection was gone before the request left.
    NotSent,
    /// The connection broke, and nobody knows whether the request was carried out.
    Lost(String),
}

impl Connection {
    /// The error is worded to follow a colon.
    pub async fn open(
        server: &str,
        config: &McpConnection,
        shared: &Arc<Shared>,
        changed: &Arc<Notify>,
    ) -> Result<Connection, String> {
        match Connection::open_with(server, config, shared, changed, ClientLifecycleMode::Initialize).await {
            Err(Unopened::NoInitialize) => {
                let preferred_versions = vec![ProtocolVersion::LATEST];
                let discover = ClientLifecycleMode::Discover { preferred_versions };
                Connection::open_with(server, config, shared, changed, discover).await
            }
            opened => opened,
        }
        .map_err(|unopened| match unopened {
            Unopened::Failed(why) => why,
            Unopened::NoInitialize => "it does not know how to begin".to_owned(),
        })
    }

    async fn open_with(
        server: &str,
        config: &McpConnection,
        shared: &Arc<Shared>,
        changed: &Arc<Notify>,
        lifecycle: ClientLifecycleMode,
    ) -> Result<Connection, Unopened> {
        let progress = Arc::new(Progress::default());
        let handler = Handler {
            info: client_config(&shared.version),
            root: root_uri(&shared.folder),
            progress: Arc::clone(&progress),
            changed: Arc::clone(changed),
        };
        let (service, program) = match config {
            McpConnection::Stdio { command, args, env, cwd } => {
                let start = Start { server, command, args, env, cwd: cwd.as_deref() };
                let (pipes, mut program) = stdio::start(&start, shared)?;
                match handler.serve_with_lifecycle(pipes, lifecycle).await {
                    Ok(service) => (service, Some(program)),
                    Err(error) => return Err(unopened_program(error, &mut program).await),
                }
            }
            McpConnection::Http { url, headers } => {
                let transport = http(url, headers.iter(), shared)?;
                (handler.serve_with_lifecycle(transport, lifecycle).await?, None)
            }
            McpConnection::Client => {
                let transport = ClientTransport::new(server, Arc::clone(&shared.client));
                (handler.serve_with_lifecycle(transport, lifecycle).await?, None)
            }
        };
        Ok(Connection {
            peer: service.peer().clone(),
            service: Mutex::new(Some(service)),
            program: Mutex::new(program),
            progress,
        })
    }

    pub fn is_open(&self) -> bool {
        !self.peer.is_transport_closed()
    }

    /// What the server says it can do, as JSON.
    pub fn capabilities(&self) -> Value {
        let info = self.peer.peer_info();
        info.and_then(|info| serde_json::to_value(&info.capabilities).ok()).unwrap_or_default()
    }

    /// The answer as JSON, whatever shape it has.
    pub async fn ask(&self, ask: Ask<'_>) -> Result<Value, NoAnswer> {
        let mut options = PeerRequestOptions::no_options();
        if let Some(trace) = ask.trace {
            let mut meta = RequestMetaObject::new();
            meta.insert("traceparent".to_owned(), Value::String(trace.traceparent()));
            options = options.with_meta(meta);
        }
        let sent = self.peer.send_request_with_option(ask.request, options).await;
        let mut handle = sent.map_err(|_| NoAnswer::NotSent)?;
        let listening = self.progress.listen(handle.progress_token.clone(), ask.tell);
        let deadline = sleep_until(Instant::now() + ask.timeout);
        tokio::pin!(deadline);
        loop {
            let (reason, no_answer) = tokio::select! {
                biased;
                answer = &mut handle.rx => {
                    return match answer {
                        Ok(Ok(result)) => serde_json::to_value(result)
                            .map_err(|error| NoAnswer::Lost(format!("its answer cannot be read: {error}"))),
                        Ok(Err(error)) => Err(self.no_answer(error).await),
                        Err(_) => Err(NoAnswer::Lost(self.why_it_ended().await)),
                    };
                }
                () = ask.cancel.cancelled() => ("the run was stopped", NoAnswer::Cancelled),
                () = listening.moved.notified() => {
                    deadline.as_mut().reset(Instant::now() + ask.timeout);
                    continue;
                }
                () = &mut deadline => ("the answer took too long", NoAnswer::TimedOut(ask.timeout)),
            };
            // A server that no longer reads must not hold us up with the news.
            let _ = timeout(CLOSE, handle.cancel(Some(reason.to_owned()))).await;
            return Err(no_answer);
        }
    }

    async fn no_answer(&self, error: ServiceError) -> NoAnswer {
        match error {
            ServiceError::McpError(error) => NoAnswer::Refused(short(&error.message)),
            ServiceError::Cancelled { reason } => {
                NoAnswer::Refused(reason.map_or("it gave the call up".to_owned(), |reason| short(&reason)))
            }
            ServiceError::TransportClosed => NoAnswer::Lost(self.why_it_ended().await),
            ServiceError::TransportSend(error) => NoAnswer::Lost(root_cause(&error)),
            other => NoAnswer::Lost(short(&other.to_string())),
        }
    }

    /// Worded to follow a colon.
    pub async fn why_it_ended(&self) -> String {
        match self.program.lock().await.as_mut() {
            Some(program) => program.why_it_ended().await,
            None => "the connection ended".to_owned(),
        }
    }

    /// Closes the connection, and ends the program behind it.
    pub async fn close(&self) {
        if let Some(mut service) = self.service.lock().await.take() {
            let _ = service.close_with_timeout(CLOSE).await;
        }
        if let Some(program) = self.program.lock().await.take() {
            program.stop().await;
        }
    }
}

/// Why a connection was not opened.
enum Unopened {
    /// It speaks only the protocol that has no greeting.
    NoInitialize,
    Failed(String),
}

impl From<String> for Unopened {
    fn from(why: String) -> Unopened {
        Unopened::Failed(why)
    }
}

impl From<ClientInitializeError> for Unopened {
    fn from(error: ClientInitializeError) -> Unopened {
        if error.is_authorization_required() {
            return Unopened::Failed(
                "it wants to know who asks (401); give it a token in `headers`".to_owned(),
            );
        }
        match error {
            ClientInitializeError::JsonRpcError(error) if error.code == ErrorCode::METHOD_NOT_FOUND => {
                Unopened::NoInitialize
            }
            ClientInitializeError::JsonRpcError(error) => {
                Unopened::Failed(format!("it refused to begin: {}", short(&error.message)))
            }
            ClientInitializeError::ConnectionClosed(_) => {
                Unopened::Failed("the connection ended before it said anything".to_owned())
            }
            ClientInitializeError::TransportError { error, .. } => Unopened::Failed(root_cause(&error)),
            ClientInitializeError::NoCompatibleProtocolVersion { .. } => {
                Unopened::Failed("it speaks no version of the protocol that we do".to_owned())
            }
            ClientInitializeError::ExpectedInitResult(_) | ClientInitializeError::ExpectedInitResponse(_) => {
                Unopened::Failed("its greeting cannot be understood".to_owned())
            }
            other => Unopened::Failed(short(&other.to_string())),
        }
    }
}

async fn unopened_program(error: ClientInitializeError, program: &mut Program) -> Unopened {
    match error {
        ClientInitializeError::ConnectionClosed(_) | ClientInitializeError::TransportError { .. } => {
            Unopened::Failed(program.why_it_ended().await)
        }
        error => match Unopened::from(error) {
            Unopened::Failed(why) => Unopened::Failed(program.with_last_words(&why)),
            Unopened::NoInitialize => Unopened::NoInitialize,
        },
    }
}

fn http<'a>(
    url: &str,
    headers: impl Iterator<Item = (&'a String, &'a String)>,
    shared: &Shared,
) -> Result<StreamableHttpClientTransport<reqwest::Client>, String> {
    let parsed = Url::parse(url).map_err(|error| format!("its address is not a URL: {error}"))?;
    let client = shared.net.client(&parsed, |builder| builder)?;
    let mut custom = HashMap::new();
    for (name, value) in headers {
        let header = HeaderName::from_bytes(name.as_bytes());
        let (Ok(header), Ok(mut value)) = (header, HeaderValue::from_str(value)) else {
            return Err(format!("the header `{name}` cannot be sent"));
        };
        value.set_sensitive(true);
        custom.insert(header, value);
    }
    for (name, value) in shared.trace.as_ref().map(TraceContext::variables).into_iter().flatten() {
        let header = HeaderName::from_bytes(name.to_ascii_lowercase().as_bytes());
        if let (Ok(header), Some(Ok(value))) = (header, value.map(HeaderValue::try_from)) {
            custom.entry(header).or_insert(value);
        }
    }
    let config = StreamableHttpClientTransportConfig::with_uri(url).custom_headers(custom);
    Ok(StreamableHttpClientTransport::with_client(client, config))
}

/// Answers what a server asks of us.
pub(super) struct Handler {
    info: ClientConfig,
    root: String,
    progress: Arc<Progress>,
    changed: Arc<Notify>,
}

#[allow(deprecated, reason = "servers in use ask for roots, whatever the newest protocol thinks of it")]
impl ClientHandler for Handler {
    async fn list_roots(
        &self,
        _context: RequestContext<RoleClient>,
    ) -> Result<rmcp::model::ListRootsResult, ErrorData> {
        Ok(rmcp::model::ListRootsResult::new(vec![rmcp::model::Root::new(self.root.clone())]))
    }

    async fn on_progress(&self, step: ProgressNotificationParam, _context: NotificationContext<RoleClient>) {
        self.progress.step(step);
    }

    async fn on_tool_list_changed(&self, _context: NotificationContext<RoleClient>) {
        self.changed.notify_one();
    }

    fn get_info(&self) -> ClientConfig {
        self.info.clone()
    }
}

#[allow(deprecated, reason = "as above")]
fn client_config(version: &str) -> ClientConfig {
    let capabilities = ClientCapabilities::builder().enable_roots().build();
    ClientConfig::new(capabilities, Implementation::new("tenon", version))
        .with_protocol_version(ProtocolVersion::LATEST_WITH_INITIALIZE)
}

/// The folder of the run as a server is told it.
fn root_uri(folder: &Path) -> String {
    Url::from_directory_path(folder).map_or_else(|()| "file:///".to_owned(), String::from)
}

/// The innermost reason, which is the one that helps.
fn root_cause(error: &(dyn Error + 'static)) -> String {
    let mut cause = error;
    loop {
        if let Some(StreamableHttpError::Client(error)) = cause.downcast_ref::<HttpError>() {
            return short(&format!("it was not reached: {}", net::cause(error)));
        }
        match cause.source() {
            Some(inner) => cause = inner,
            None => break,
        }
    }
    short(&cause.to_string())
}

/// A server's own words, as much of them as a sentence needs.
fn short(text: &str) -> String {
    first_chars(text.trim(), MAX_REASON).to_owned()
}

//! Many runs in one process: the libraries as a service would use them, with one network client for all.
//!
//! `run` is the process, `ManyRuns` the handle on it. It prints a line for each run with what came out, and
//! at the end how long all took and its peak memory. With a request to post it is a bare HTTP client instead,
//! which is what the runs are compared with.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tenon_agent::{
    Agent, Audience, Background, HowToAnswer, Limits, Lineage, Replay, SchemaMode, SessionEnd, Stop,
    system_prompt,
};
use tenon_contract::{Contract, Schema};
use tenon_core::Secret;
use tenon_core::{
    ApprovalMode, Ending, Id, IdSource, MemoryJournal, Message, ModelClient, NoBudget, NoClient, NoSink,
    RunInfo,
};
use tenon_model::{Endpoint, Http, HttpOptions, OpenAiChat, RetryPolicy, Retrying, Transport};
use tenon_tools::{
    Hooks, OutputStore, PermissionOptions, Permissions, Registry, ShellOptions, Tasks, Workspace,
    WorkspaceOptions, builtin_tools,
};

use crate::{Failure, Verdict};

const SCHEMA: &str = r#"{"type":"object","properties":{"risk":{"enum":["low","high"]},"run":{"type":"integer"}},"minProperties":1,"additionalProperties":false}"#;
const API_KEY: &str = "test-key";
const MODEL: &str = "test-model";

/// What a run is asked; no prompt is part of another.
pub fn prompt(run: usize) -> String {
    format!("This is run {run}.")
}

pub fn run(args: &[String]) -> Result<Verdict, Failure> {
    let (base_url, runs, request) = match args {
        [base_url, runs] => (base_url, runs, None),
        [base_url, runs, request] => (base_url, runs, Some(std::fs::read_to_string(request)?)),
        _ => return Err(Failure::usage("`many` takes a base URL, a count and perhaps a request to post")),
    };
    let runs: usize = runs.parse().map_err(|_| Failure::usage("`many` takes a number of runs"))?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let start = Instant::now();
    let answers = match request {
        Some(request) => runtime.block_on(post(base_url, runs, &request))?,
        None => runtime.block_on(hold(base_url, runs))?,
    };
    let took = start.elapsed();
    for answer in answers {
        println!("{answer}");
    }
    println!("{} {}", took.as_micros(), peak_rss_bytes());
    Ok(Verdict::Good)
}

/// The runs, all at once.
async fn hold(base_url: &str, runs: usize) -> Result<Vec<String>, Failure> {
    let shared = Shared::new(base_url)?;
    let tasks: Vec<_> = (0..runs)
        .map(|number| {
            let agent = shared.agent(number);
            tokio::spawn(async move {
                match &tenon_agent::run(agent, Arc::new(NoSink)).await.outcome.ending {
                    Ending::Success(success) => success.text.clone(),
                    Ending::Failure(failure) => format!("failed: {}", failure.message),
                }
            })
        })
        .collect();
    all(tasks).await
}

/// The same exchanges, by a client that only sends and reads.
async fn post(base_url: &str, runs: usize, request: &str) -> Result<Vec<String>, Failure> {
    // Nothing here is encrypted, but no client is built without it.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let client =
        reqwest::Client::builder().no_proxy().tls_certs_only([]).build().map_err(|error| other(&error))?;
    let url = format!("{base_url}/chat/completions");
    let tasks: Vec<_> = (0..runs)
        .map(|number| {
            let body = request.replace(&prompt(0), &prompt(number));
            let call = client
                .post(&url)
                .header("content-type", "application/json")
                .bearer_auth(API_KEY)
                .body(body)
                .send();
            tokio::spawn(async move {
                match async { call.await?.error_for_status()?.bytes().await }.await {
                    Ok(bytes) => format!("{} bytes", bytes.len()),
                    Err(error) => format!("failed: {error}"),
                }
            })
        })
        .collect();
    all(tasks).await
}

async fn all(tasks: Vec<tokio::task::JoinHandle<String>>) -> Result<Vec<String>, Failure> {
    let mut answers = Vec::with_capacity(tasks.len());
    for task in tasks {
        answers.push(task.await.map_err(|error| other(&error))?);
    }
    Ok(answers)
}

/// What the runs have in common.
struct Shared {
    model: Arc<dyn ModelClient>,
    contract: Contract,
    registry: Registry,
    permissions: Permissions,
    folder: tempfile::TempDir,
}

impl Shared {
    fn new(base_url: &str) -> Result<Self, Failure> {
        let endpoint = Endpoint {
            provider: "openai".into(),
            base_url: base_url.into(),
            api_key: Some(Secret::new(API_KEY)),
            headers: Vec::new(),
        };
        let network: Arc<dyn Transport> = Arc::new(Http::new(HttpOptions::default()));
        let client = Arc::new(OpenAiChat::new(endpoint, network));
        let folder = tempfile::tempdir()?;
        let workspace = Workspace::new(WorkspaceOptions {
            cwd: folder.path().to_owned(),
            add_dirs: Vec::new(),
            outputs: OutputStore::at(folder.path().join("outputs")),
            hidden: None,
        })
        .map_err(|error| other(&error))?;
        let registry = Registry::new();
        let tasks = Tasks::new(Arc::new(IdSource::new(Id::from_random([1; 16]))));
        for tool in builtin_tools(workspace, ShellOptions::new(std::env::vars_os()), tasks) {
            registry.add(tool).map_err(|error| other(&error))?;
        }
        let options = PermissionOptions {
            mode: ApprovalMode::Default,
            cwd: folder.path().to_owned(),
            ..PermissionOptions::default()
        };
        Ok(Self {
            model: Arc::new(Retrying::new(client, RetryPolicy::default())),
            contract: Contract::structured_output(Schema::compile(SCHEMA).map_err(|error| other(&error))?),
            registry,
            permissions: Permissions::new(options).map_err(|error| other(&error))?,
            folder,
        })
    }

    fn agent(&self, number: usize) -> Agent {
        let mut seed = [0; 16];
        seed[..8].copy_from_slice(&number.to_le_bytes());
        let ids = Arc::new(IdSource::new(Id::from_random(seed)));
        Agent {
            model: Arc::clone(&self.model),
            system: system_prompt(HowToAnswer::ByCalling(self.contract.tool), &[], None, None),
            history: Vec::new(),
            prompt: Some(Message::user(prompt(number))),
            registry: self.registry.with(|_| true),
            permissions: self.permissions.clone(),
            contract: Some(self.contract.clone()),
            schema_mode: SchemaMode::Tool,
            limits: Limits::default(),
            client: Arc::new(NoClient),
            journal: Arc::new(MemoryJournal::default()),
            budget: Arc::new(NoBudget),
            stop: Stop::default(),
            info: RunInfo {
                session_id: ids.next(),
                cwd: self.folder.path().to_owned(),
                model: MODEL.into(),
                permission_mode: ApprovalMode::Default.name().into(),
                tools: self.registry.names(),
                agents: Vec::new(),
                commands: Vec::new(),
                mcp_servers: Vec::new(),
                cli_version: env!("CARGO_PKG_VERSION").into(),
                sandbox: Default::default(),
                channel: None,
            },
            lineage: Lineage::default(),
            background: Background::plain(Arc::clone(&ids)),
            ids,
            audience: Audience::Live,
            fail_on_denied: false,
            heartbeat: None,
            deliver: None,
            models: tenon_core::Models::default(),
            sampling: Default::default(),
            reasoning: Default::default(),
            max_output_tokens: None,
            compact_at: 0.8,
            hooks: Hooks::none(),
            session_start: None,
            session_end: SessionEnd::Later,
            trace: None,
            replay: Replay::default(),
            warnings: Vec::new(),
        }
    }
}

fn other(error: &dyn std::error::Error) -> Failure {
    Failure::other(error.to_string())
}

fn peak_rss_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    peak.and_then(|rest| rest.trim().trim_end_matches("kB").trim().parse::<u64>().ok()).unwrap_or(0) * 1024
}

/// Who does the exchanges.
#[derive(Clone, Copy)]
pub enum By<'a> {
    Tenon,
    /// A bare client that posts this file.
    Bare(&'a Path),
}

/// The process with the runs; ends when dropped.
pub struct ManyRuns {
    child: Child,
    stdout: BufReader<ChildStdout>,
    runs: usize,
}

/// What became of them.
pub struct Many {
    pub answers: Vec<String>,
    pub took: Duration,
    pub peak_rss_bytes: u64,
}

impl ManyRuns {
    pub fn start(base_url: &str, runs: usize, by: By) -> Result<Self, Failure> {
        let mut command = Command::new(std::env::current_exe()?);
        command.args(["many", base_url, &runs.to_string()]);
        if let By::Bare(request) = by {
            command.arg(request);
        }
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn()?;
        let Some(stdout) = child.stdout.take() else {
            return Err(Failure::other("the process with the runs has no pipe"));
        };
        Ok(Self { child, stdout: BufReader::new(stdout), runs })
    }

    pub fn wait(mut self) -> Result<Many, Failure> {
        let mut answers: Vec<String> = (&mut self.stdout).lines().collect::<Result<_, _>>()?;
        let status = self.child.wait()?;
        let numbers: Vec<u64> = answers
            .pop()
            .map(|last| last.split(' ').map_while(|number| number.parse().ok()).collect())
            .unwrap_or_default();
        match numbers[..] {
            [micros, peak_rss_bytes] if status.success() && answers.len() == self.runs => {
                Ok(Many { answers, took: Duration::from_micros(micros), peak_rss_bytes })
            }
            _ => Err(Failure::other(format!("the process with {} runs failed ({status})", self.runs))),
        }
    }
}

impl Drop for ManyRuns {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

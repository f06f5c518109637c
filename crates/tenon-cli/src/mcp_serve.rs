//! `tenon mcp serve`: other agents ask for runs over MCP, on stdin and stdout.
//!
//! One tool, `run`: a prompt and perhaps a schema go in, the payload comes out, or the failure with its class.
//! Each call is a run like any other, with the flags and settings of the server; nobody is there to be asked for
//! permission. stdout belongs to the protocol.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, Implementation, ListToolsResult,
    PaginatedRequestParams, ProgressNotificationParam, ProgressToken, ServerCapabilities, ServerConfig, Tool,
    ToolAnnotations,
};
use rmcp::service::{Peer, RequestContext};
use rmcp::{ErrorData, RoleServer, ServerHandler, ServiceExt};
use serde_json::{Map, Value, json};
use tenon_agent::Stop;
use tenon_core::{Cancel, Ending, ErrorClass, Event, EventKind, EventSink, Failure, Outcome, exit_code};
use tokio::sync::{Semaphore, mpsc};
use tokio::time::timeout;

use crate::args::{RunArgs, StdinMode};
use crate::dialect::Hints;
use crate::plan::VERSION;
use crate::run::{self, Asked};
use crate::stderr::Reporter;
use crate::usage::{Situation, UsageError};
use crate::{signals, surroundings, usage};

/// Runs at once; more wait for their turn. Each holds a connection to a model and perhaps commands.
const MAX_RUNS: usize = 8;
/// What running calls may take to end when the client leaves.
const LAST_RUNS: Duration = Duration::from_secs(6);
const TOOL: &str = "run";

pub fn main(args: RunArgs) -> u8 {
    if let Err(error) = check(&args) {
        return run::usage_error(&error);
    }
    let reporter = run::reporter(&args);
    let served = run::runtime().map(|runtime| {
        let code = runtime.block_on(serve(args, reporter));
        // A thread that still reads stdin must not hold up the end.
        runtime.shutdown_background();
        code
    });
    served.unwrap_or_else(|failure| {
        reporter.failure(&failure);
        failure.exit_code()
    })
}

/// Flags that belong to one run belong into the call.
fn check(args: &RunArgs) -> Result<(), UsageError> {
    let given = [
        ("PROMPT", !args.words.is_empty()),
        ("--prompt", args.prompt.is_some()),
        ("--prompt-file", args.prompt_file.is_some()),
        ("--json-schema", args.json_schema.is_some()),
        ("--output-format", args.output_format.is_some()),
        ("--include-partial-messages", args.include_partial_messages),
        ("--result-file", args.result_file.is_some()),
        ("--session-id", args.session_id.is_some()),
        ("--continue", args.continue_last),
        ("--resume", args.resume.is_some()),
        ("--record", args.record.is_some()),
    ];
    if let Some((flag, _)) = given.iter().find(|(_, given)| *given) {
        return Err(UsageError::new(format!("`tenon mcp serve` does not take `{flag}`"))
            .hint("the prompt and the schema come with each call"));
    }
    // As a call will have it.
    let (prompt, json_schema) = (Some("-".to_owned()), Some("{}".to_owned()));
    let called = RunArgs { prompt, json_schema, ..args.clone() };
    let hints = Hints { named: None, entrypoint: None };
    usage::check(&called, Situation { stdin_is_terminal: false, prompt_forced: false, hints }).map(|_| ())
}

async fn serve(args: RunArgs, reporter: Reporter) -> u8 {
    let stop = Stop::default();
    signals::listen(stop.clone());
    let here = surroundings::collect(args.cwd.as_deref());
    if let Err(failure) = run::load_settings(&args, &here) {
        reporter.failure(&failure);
        return failure.exit_code();
    }
    let server = Server(Arc::new(State {
        folder: here.cwd.canonicalize().unwrap_or(here.cwd),
        args,
        stop: stop.clone(),
        room: Semaphore::new(MAX_RUNS),
        runs: Mutex::new(HashMap::new()),
        next: AtomicU32::new(0),
    }));
    let state = Arc::clone(&server.0);
    let greeted = tokio::select! {
        greeted = server.serve(rmcp::transport::stdio()) => greeted,
        () = stop.cancel().cancelled() => return interrupted(&stop),
    };
    let Ok(service) = greeted else {
        reporter.failure(&Failure::new(ErrorClass::Input, "stdin ended, or did not speak MCP"));
        return exit_code(ErrorClass::Input);
    };
    let code = tokio::select! {
        _ = service.waiting() => 0,
        () = stop.cancel().cancelled() => interrupted(&stop),
    };
    // Nobody waits for the answers any more.
    state.stop_all();
    let _ = timeout(LAST_RUNS, state.room.acquire_many(MAX_RUNS as u32)).await;
    code
}

fn interrupted(stop: &Stop) -> u8 {
    stop.failure().exit_code()
}

#[derive(Clone)]
struct Server(Arc<State>);

struct State {
    args: RunArgs,
    /// Runs work in it or below.
    folder: PathBuf,
    stop: Stop,
    room: Semaphore,
    /// How to stop what runs.
    runs: Mutex<HashMap<u32, Stop>>,
    next: AtomicU32,
}

impl State {
    fn runs(&self) -> MutexGuard<'_, HashMap<u32, Stop>> {
        self.runs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn stop_all(&self) {
        for stop in self.runs().values() {
            stop.now(cancelled("the client left"));
        }
    }

    /// One run, from the call's arguments to its outcome.
    async fn run(
        self: &Arc<State>,
        arguments: &Map<String, Value>,
        steps: Steps,
        given_up: &Cancel,
    ) -> Result<Arc<Outcome>, ErrorData> {
        let args = self.args_of(arguments)?;
        let stop = Stop::within(self.stop.cancel());
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        self.runs().insert(id, stop.clone());
        // Forgotten even when the call is dropped half-way.
        let _forget = Forget { state: self, id, stop: stop.clone() };
        let _turn = tokio::select! {
            turn = self.room.acquire() => turn.map_err(|_| ErrorData::internal_error("the server is closing", None))?,
            () = stop.cancel().cancelled() => {
                return Ok(Arc::new(Outcome::failed_early(stop.failure(), Vec::new())));
            }
        };
        let run = run::ask(Asked { args: &args, stop: &stop, sink: Arc::new(steps) });
        tokio::pin!(run);
        // Stopped in order: what it started is put away before it ends.
        tokio::select! {
            outcome = &mut run => Ok(outcome),
            () = given_up.cancelled() => {
                stop.now(cancelled("the client gave the call up"));
                Ok(run.await)
            }
        }
    }

    fn args_of(&self, arguments: &Map<String, Value>) -> Result<RunArgs, ErrorData> {
        let refuse = |message: String| ErrorData::invalid_params(message, None);
        let text = |key: &str| match arguments.get(key) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(text)) => Ok(Some(text.clone())),
            Some(_) => Err(refuse(format!("`{key}` must be a string"))),
        };
        let known = ["prompt", "schema", "model", "cwd"];
        if let Some(key) = arguments.keys().find(|key| !known.contains(&key.as_str())) {
            return Err(refuse(format!("`{key}` is not an argument of `{TOOL}`")));
        }
        let mut args = self.args.clone();
        args.stdin = StdinMode::Ignore;
        args.prompt = text("prompt")?;
        if args.prompt.as_deref().is_none_or(|prompt| prompt.trim().is_empty()) {
            return Err(refuse("`prompt` must say something".to_owned()));
        }
        args.model = text("model")?.or(args.model);
        args.json_schema = match arguments.get("schema") {
            None | Some(Value::Null) => None,
            Some(schema @ Value::Object(_)) => Some(schema.to_string()),
            Some(_) => return Err(refuse("`schema` must be a JSON Schema object".to_owned())),
        };
        args.cwd = Some(self.folder_of(text("cwd")?.as_deref()).map_err(refuse)?);
        Ok(args)
    }

    /// Links are followed before the question is decided.
    fn folder_of(&self, named: Option<&str>) -> Result<PathBuf, String> {
        let Some(named) = named else { return Ok(self.folder.clone()) };
        let folder = self.folder.join(Path::new(named)).canonicalize();
        match folder {
            Ok(folder) if folder.is_dir() && folder.starts_with(&self.folder) => Ok(folder),
            _ => Err(format!("`cwd` must be a folder inside `{}`", self.folder.display())),
        }
    }
}

struct Forget<'a> {
    state: &'a State,
    id: u32,
    stop: Stop,
}

impl Drop for Forget<'_> {
    fn drop(&mut self) {
        self.state.runs().remove(&self.id);
        // A run that is over does not hear it.
        self.stop.now(cancelled("the client gave the call up"));
    }
}

fn cancelled(why: &str) -> Failure {
    Failure::new(ErrorClass::Interrupted(tenon_core::Signal::Term), format!("the run was stopped: {why}"))
}

impl ServerHandler for Server {
    fn get_info(&self) -> ServerConfig {
        let instructions = "`run` gives a task to an agent that works with tools in the served folder; with a schema, its \
                            answer is JSON that fits it.";
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
            .with_server_info(Implementation::new("tenon", VERSION))
            .with_instructions(instructions)
    }

    async fn list_tools(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult::with_all_items(vec![tool()]))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        if request.name != TOOL {
            return Err(ErrorData::invalid_params(format!("there is no tool `{}`", request.name), None));
        }
        let (steps, told) = Steps::new(context.meta.get_progress_token(), &context.peer);
        let arguments = request.arguments.unwrap_or_default();
        // Progress is told beside the run: a client that reads slowly must not hold it up.
        let (outcome, ()) = tokio::join!(self.0.run(&arguments, steps, &context.ct), told);
        Ok(answer(&*outcome?).into())
    }
}

fn tool() -> Tool {
    let parameters = json!({
        "type": "object",
        "properties": {
            "prompt": { "type": "string", "description": "What the agent is to do." },
            "schema": { "type": "object", "description": "A JSON Schema. The answer is then JSON that fits it exactly." },
            "model": { "type": "string", "description": "The model, as PROVIDER/MODEL or a bare name." },
            "cwd": { "type": "string", "description": "A folder inside the served one to work in." }
        },
        "required": ["prompt"],
        "additionalProperties": false
    });
    let parameters = if let Value::Object(parameters) = parameters { parameters } else { Map::new() };
    let description =
        "Runs an agent with tools (files, search, commands, as far as it may) until it has an answer.";
    Tool::new(TOOL, description, Arc::new(parameters))
        .with_annotations(ToolAnnotations::with_title("Run an agent").read_only(false))
}

/// The payload as it was validated, or the failure with its class.
fn answer(outcome: &Outcome) -> CallToolResult {
    match &outcome.ending {
        Ending::Success(success) => {
            let mut result = CallToolResult::success(vec![ContentBlock::text(success.text.clone())]);
            result.structured_content = success
                .payload
                .as_ref()
                .and_then(|payload| serde_json::from_str(payload.get()).ok())
                // The protocol has room for objects only.
                .map(
                    |payload: Value| if payload.is_object() { payload } else { json!({ "result": payload }) },
                );
            result
        }
        Ending::Failure(failure) => {
            let hint = failure.hint.as_ref().map(|hint| format!("\nhint: {hint}")).unwrap_or_default();
            let text = format!("error[{}]: {}{hint}", failure.class.name(), failure.message);
            let mut result = CallToolResult::error(vec![ContentBlock::text(text)]);
            result.structured_content = Some(json!({ "error": {
                "class": failure.class.name(), "message": failure.message, "hint": failure.hint,
                "exit_code": failure.exit_code(),
            } }));
            result
        }
    }
}

/// Tells the client how far a run is, if it asked to be told.
struct Steps(mpsc::UnboundedSender<String>);

impl Steps {
    /// The second value tells, until the first is gone.
    fn new(token: Option<ProgressToken>, peer: &Peer<RoleServer>) -> (Steps, impl Future<Output = ()>) {
        let (send, mut steps) = mpsc::unbounded_channel();
        let peer = peer.clone();
        let told = async move {
            let mut count = 0_u32;
            while let Some(message) = steps.recv().await {
                let Some(token) = &token else { continue };
                count += 1;
                let step =
                    ProgressNotificationParam::new(token.clone(), f64::from(count)).with_message(message);
                // A client that is gone is noticed elsewhere.
                let _ = peer.notify_progress(step).await;
            }
        };
        (Steps(send), told)
    }
}

impl EventSink for Steps {
    fn emit(&self, event: Event) {
        let step = match &event.kind {
            EventKind::TurnStarted { turn, model } => format!("turn {turn}: {model} answers"),
            EventKind::ToolStarted { name, .. } => format!("{name} runs"),
            EventKind::ToolFinished(report) => format!("{} is done", report.name),
            EventKind::Retrying { attempt, message, .. } => format!("attempt {attempt} after: {message}"),
            EventKind::Warning { message } => message.clone(),
            _ => return,
        };
        // Told to nobody when the call was given up.
        let _ = self.0.send(step);
    }
}

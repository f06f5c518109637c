//! A session that a client drives over stdin and stdout: the wiring of `tenon-session/src/drive.rs`.
//!
//! Everything that holds for the whole session is put together once, as for a single run (`plan.rs`); a turn
//! is a clone of that with its own prompt. When putting it together fails, the client is still answered: its
//! requests with what there is, and each of its turns with the failure.
//!
//! What a client sets up when it begins is in `stream_initialize.rs`, what it asks for later in
//! `stream_control.rs`, what it changes for later turns in `stream_changes.rs`, how it changes to another session in
//! `stream_sessions.rs`.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde_json::Value;
use tenon_agent::{Agent, Background, OwnTools, SessionEnd, Stop, Subagents};
use tenon_config::{AgentFile, Settings, Surroundings};
use tenon_core::{
    ApprovalMode, BoxFut, ErrorClass, EventSink, Failure, Id, IdSource, Message, Outcome, Part, Role,
    RunInfo, Sampling, SandboxState, Secrets,
};
use tenon_session::{
    Answer, Closed, Commanded, Conversation, Deadlines, GettingReady, Hints, Host, Incoming, Later, Lines,
    Mirror, Peer, Prepared, Queue, Session, TurnIds,
};
use tenon_wire::input::{
    ControlRequest, FileData, Hint, Initialize, InputPart, RequestOptions, Turn, TurnOrigin,
};
use tenon_wire::{Dialect, Replies};
use tokio::sync::mpsc;

use crate::args::RunArgs;
use crate::command_kit::Kit;
use crate::mcp::Mcp;
use crate::model::Connections;
use crate::plan::VERSION;
use crate::stderr::Reporter;
use crate::stream_changes::{Ahead, Change};
use crate::stream_usage::Spent;
use crate::{client_marks, model, session, stream_commands, subagents};

/// What the client is asked and answered by.
pub struct Connection {
    pub peer: Arc<Peer>,
    pub replies: Replies,
    pub lines: Arc<dyn Lines>,
}

impl Connection {
    pub fn new(
        dialect: Dialect,
        session: tenon_core::Id,
        ids: &Arc<IdSource>,
        lines: Arc<dyn Lines>,
        settings: Option<&Settings>,
    ) -> Connection {
        let timeouts = settings.map(|settings| settings.timeouts).unwrap_or_default();
        let deadlines =
            Deadlines { can_use_tool: timeouts.can_use_tool(), mcp_message: timeouts.mcp_message() };
        let replies = Replies::new(dialect, session);
        let peer = Peer::new(replies.clone(), Arc::clone(&lines), Arc::clone(ids), deadlines);
        let peer = Arc::new(peer.telling(client_marks::reads_session_state()));
        Connection { peer, replies, lines }
    }
}

/// What all turns have in common.
pub struct Common<'a> {
    pub args: &'a RunArgs,
    pub settings: Settings,
    pub here: &'a Surroundings,
    pub ids: Arc<IdSource>,
    pub sink: Arc<dyn EventSink>,
    /// The agent that turns are clones of and what it was made from, or why there is none.
    pub agent: Result<(Agent, Parts), Failure>,
    pub record: Record,
    pub reporter: Reporter,
    /// Whoever keeps a session as well, for each session.
    pub mirror: Option<MirrorOf>,
    /// What commands need; `None` where the start failed before there was any.
    pub kit: Option<Kit>,
}

pub async fn run(
    common: Common<'_>,
    connection: Connection,
    first: Vec<Incoming>,
    input: mpsc::Receiver<Incoming>,
    stop: Stop,
) -> Closed {
    let Connection { peer, replies, lines } = connection;
    let shutdown = common.settings.timeouts.shutdown();
    let (sink, ids) = (Arc::clone(&common.sink), Arc::clone(&common.ids));
    let mut host = StreamHost::new(common);
    host.hints = Some(Hints::new(Arc::clone(&lines)));
    let mut history = Vec::new();
    let mut first_turn = None;
    if let Ok(Live { agent, .. }) = &mut host.live {
        agent.session_end = SessionEnd::Later;
        history = std::mem::take(&mut agent.history);
        // A prompt on the command line is the first turn.
        let parts: Vec<InputPart> =
            agent.prompt.take().map(|prompt| InputPart::Text(prompt.text())).into_iter().collect();
        if !parts.is_empty() {
            // What stands in a file nobody typed, so it is never a command.
            let is_read = host.args.prompt.is_none() && host.args.prompt_file.is_some();
            let origin = if is_read { TurnOrigin::System } else { TurnOrigin::User };
            first_turn = Some(Turn { parts, origin, ..Turn::default() });
        }
    }
    let later = Later::new(Arc::clone(&lines));
    let (turn_ids, queue) = (TurnIds::default(), Queue::with_first(first_turn));
    let session = Session {
        host,
        peer,
        lines,
        sink,
        replies,
        ids,
        history,
        queue,
        shutdown,
        later,
        turn_ids,
        refused: None,
        said_before: Vec::new(),
    };
    session.drive(first, input, stop).await
}

pub(crate) struct StreamHost {
    pub(crate) live: Result<Live, Failure>,
    /// As the process was started, but for the model, which a client may change.
    pub(crate) args: RunArgs,
    /// What the flag said at the start.
    pub(crate) first_model: Option<String>,
    /// Changes that wait for turns which were sent before them.
    pub(crate) ahead: Option<Ahead>,
    pub(crate) settings: Settings,
    pub(crate) here: Surroundings,
    pub(crate) sink: Arc<dyn EventSink>,
    pub(crate) ids: Arc<IdSource>,
    /// Turns of the conversation that this process did not see.
    pub(crate) turns_before: u64,
    spent: HashMap<Id, Spent>,
    pub(crate) record: Record,
    pub(crate) reporter: Reporter,
    pub(crate) mirror: Option<MirrorOf>,
    pub(crate) kit: Option<Kit>,
    /// Where somebody types.
    pub(crate) hints: Option<Hints>,
}

/// What turns are made of.
pub(crate) struct Live {
    pub(crate) agent: Agent,
    pub(crate) parts: Parts,
}

/// What an agent was made from, for changes while the session goes on.
pub struct Parts {
    pub mcp: Arc<Mcp>,
    pub connections: Connections,
    /// Definitions of agents, from files and from the client.
    pub agents: Vec<AgentFile>,
    /// `None` when a flag or a rule leaves them out.
    pub subagents: Option<Arc<Subagents>>,
    pub main_tools: OwnTools,
    /// Nothing was said in the session yet, and it is new.
    pub is_blank: bool,
}

/// What is left to do for the session there is, when it ends.
pub type Record = Arc<Mutex<Recorded>>;

#[derive(Default)]
pub struct Recorded {
    pub ending: Option<session::Ending>,
    /// How the last turn ended.
    pub last: Option<Arc<Outcome>>,
}

pub type MirrorOf = Arc<dyn Fn(Id) -> Option<Mirror> + Send + Sync>;

impl StreamHost {
    pub(crate) fn new(common: Common<'_>) -> StreamHost {
        let taken_up = common.agent.as_ref().map(|(agent, _)| turns_in(&agent.history)).unwrap_or_default();
        StreamHost {
            turns_before: taken_up,
            live: common.agent.map(|(agent, parts)| Live { agent, parts }),
            args: common.args.clone(),
            first_model: common.args.model.clone(),
            settings: common.settings,
            here: common.here.clone(),
            sink: common.sink,
            ids: common.ids,
            ahead: None,
            spent: HashMap::new(),
            record: common.record,
            reporter: common.reporter,
            mirror: common.mirror,
            kit: common.kit,
            hints: None,
        }
    }

    /// What the session there is has used.
    pub(crate) fn spent(&self) -> Spent {
        let session = self.live.as_ref().ok().map(|live| live.agent.info.session_id);
        session.and_then(|id| self.spent.get(&id)).cloned().unwrap_or_default()
    }

    pub(crate) fn live(&mut self) -> Result<&mut Live, Failure> {
        self.live.as_mut().map_err(|failure| failure.clone())
    }

    /// Asks the model that `args` name from here on, with the agents that are defined now. On failure nothing
    /// has changed.
    pub(crate) fn rebuild(&mut self, args: RunArgs) -> Result<Vec<String>, Failure> {
        let (settings, here) = (self.settings.clone(), self.here.clone());
        let live = self.live()?;
        let changed = asking(&live.agent, &live.parts, &args, &settings, &here)?;
        live.agent = changed.agent;
        live.parts.subagents = changed.subagents;
        live.parts.connections = changed.connections;
        live.offer_helpers();
        if let Some(kit) = &mut self.kit {
            kit.providers = changed.providers;
            kit.secrets = changed.secrets;
        }
        self.args = args;
        Ok(changed.warnings)
    }
}

impl Live {
    /// Helpers are made from the agent as it is, so whatever changes it is followed by this.
    pub(crate) fn offer_helpers(&mut self) {
        if let Some(subagents) = &self.parts.subagents {
            subagents.offer_to(&mut self.agent);
        }
    }
}

/// An agent that asks another model.
pub(crate) struct Changed {
    pub(crate) agent: Agent,
    pub(crate) connections: Connections,
    subagents: Option<Arc<Subagents>>,
    providers: Vec<(String, String)>,
    secrets: Secrets,
    warnings: Vec<String>,
}

/// The agent, asking the model that `args` name.
pub(crate) fn asking(
    agent: &Agent,
    parts: &Parts,
    args: &RunArgs,
    settings: &Settings,
    here: &Surroundings,
) -> Result<Changed, Failure> {
    let of_agents = subagents::named_models(&parts.agents);
    let chosen = model::choose_again(args, settings, here, &parts.connections, &of_agents)?;
    chosen.connections.can_be_told(agent.reasoning)?;
    let mut warnings = Vec::new();
    let named = |name: &str| chosen.connections.other(name, None).map_err(|failure| failure.message);
    let types = subagents::agent_types(&parts.agents, named, &mut warnings);
    let subagents = parts.subagents.as_ref().map(|subagents| subagents.with_types(types));
    let mut agent = agent.clone();
    agent.model = chosen.client;
    agent.models = chosen.models;
    agent.info.model = chosen.model;
    let (connections, providers, secrets) = (chosen.connections, chosen.providers, chosen.secrets);
    Ok(Changed { agent, connections, subagents, providers, secrets, warnings })
}

impl Host for StreamHost {
    type Change = Change;

    fn check(&mut self, options: &RequestOptions) -> Result<(), Failure> {
        // A failed start is told with the turn, unless the turn needs no model.
        if self.live.is_ok() {
            self.chosen(options)?;
        }
        options.tools.as_deref().map(tool_names).transpose().map(drop)
    }

    fn agent(&mut self, options: &RequestOptions, stop: &Stop) -> Result<GettingReady, Failure> {
        let chosen = self.chosen(options)?;
        let (settings, here, reporter) = (self.settings.clone(), self.here.clone(), self.reporter);
        let args = RunArgs { model: options.model.clone().or(self.args.model.clone()), ..self.args.clone() };
        let live = self.live()?;
        let (mut agent, connections, helpers) = match chosen {
            Some(changed) => (changed.agent, changed.connections, changed.subagents),
            None => (live.agent.clone(), live.parts.connections.clone(), None),
        };
        // A client may have changed it, also in the middle of a turn.
        agent.info.permission_mode = agent.permissions.mode().name().to_owned();
        agent.sampling = Sampling { temperature: options.temperature, top_p: options.top_p };
        agent.max_output_tokens = options.max_output_tokens;
        let names = options.tools.as_deref().map(tool_names).transpose()?;
        // Only the first turn begins the session.
        live.agent.session_start = None;
        live.parts.is_blank = false;
        live.agent.warnings.clear();
        let mcp = Arc::clone(&live.parts.mcp);
        mcp.client_is_there();
        let stop = stop.clone();
        Ok(Box::pin(async move {
            tokio::select! {
                // A turn that needs none is not held up, and not given up, because of them.
                biased;
                fetched = connections.fetch_weights(&args, &settings, &here, reporter) => fetched?,
                () = stop.cancel().cancelled() => return Err(stop.failure()),
            }
            let ready = mcp.ready(settings.timeouts.mcp_ready());
            let warnings = stop.cancel().run_until_cancelled(ready).await;
            agent.warnings.extend(warnings.unwrap_or_default());
            if let Some(names) = &names {
                agent.registry = agent.registry.with(|spec| names.contains(&spec.name));
            }
            if let Some(helpers) = helpers
                && agent.registry.get("agent").is_some()
            {
                // Helpers of this turn have its model; those of the next have the session's again.
                agent.registry = agent.registry.with(|_| true);
                helpers.offer_to(&mut agent);
            }
            agent.info.tools = offered(&agent);
            agent.info.mcp_servers = mcp.statuses();
            Ok(agent)
        }))
    }

    fn info(&self, session: Id) -> RunInfo {
        match &self.live {
            Ok(Live { agent, parts }) => RunInfo {
                permission_mode: agent.permissions.mode().name().to_owned(),
                tools: offered(agent),
                mcp_servers: parts.mcp.statuses(),
                ..agent.info.clone()
            },
            Err(_) => self.info_of_nothing(session),
        }
    }

    fn conversation(&mut self, turn: &Turn) -> Result<Option<Conversation>, Failure> {
        self.change_session(turn)
    }

    fn command<'a>(&'a mut self, turn: &'a Turn, history: &'a mut Vec<Message>) -> BoxFut<'a, Commanded> {
        Box::pin(stream_commands::command(self, turn, history))
    }

    fn file(&mut self, file: &FileData) -> Result<Part, Failure> {
        stream_commands::file(self, file)
    }

    fn hint(&mut self, hint: Hint, replies: &Replies) {
        stream_commands::hint(self, &hint, replies);
    }

    fn cancel_hint(&mut self, prompt_id: Option<&str>) {
        if let Some(hints) = &self.hints {
            hints.cancel(prompt_id);
        }
    }

    fn initialize(&mut self, wanted: &Initialize) -> Result<Value, Failure> {
        self.set_up(wanted)
    }

    fn prepare(&mut self, request: &ControlRequest) -> Result<Prepared<Change>, Failure> {
        self.prepare_change(request)
    }

    fn make(&mut self, change: Change) {
        self.make_change(change);
    }

    fn set_mode(&mut self, mode: ApprovalMode) -> Result<(), Failure> {
        self.live()?.agent.permissions.set_mode(mode);
        Ok(())
    }

    fn control(&mut self, request: &ControlRequest, history: &[Message]) -> Answer {
        self.answer(request, history)
    }

    fn background(&self) -> Option<Background> {
        self.live.as_ref().ok().map(|live| live.agent.background.clone())
    }

    fn heartbeat(&self) -> Option<Duration> {
        self.live.as_ref().ok().and_then(|live| live.agent.heartbeat)
    }

    fn turn_ended(&mut self, outcome: &Arc<Outcome>) {
        if let Ok(live) = &self.live {
            self.spent.entry(live.agent.info.session_id).or_default().add(outcome);
        }
        self.record.lock().unwrap_or_else(PoisonError::into_inner).last = Some(Arc::clone(outcome));
    }

    fn end(&mut self) -> BoxFut<'_, ()> {
        Box::pin(async move {
            if let Some(hints) = &self.hints {
                hints.finish(self.settings.timeouts.shutdown()).await;
            }
            if let Ok(live) = &self.live {
                live.agent.background.end(Arc::clone(&self.sink), Arc::clone(&self.ids)).await;
            }
        })
    }

    fn never_started(&self) -> Option<Failure> {
        self.live.as_ref().err().cloned()
    }
}

impl StreamHost {
    /// The agent that asks the model of these options, where it is not the session's own.
    fn chosen(&mut self, options: &RequestOptions) -> Result<Option<Changed>, Failure> {
        let (settings, here, args) = (self.settings.clone(), self.here.clone(), self.args.clone());
        let live = self.live()?;
        let Some(name) = options.model.clone().filter(|name| *name != live.agent.info.model) else {
            return Ok(None);
        };
        let args = RunArgs { model: Some(name), ..args };
        asking(&live.agent, &live.parts, &args, &settings, &here).map(Some)
    }

    /// What turns say of themselves where the start failed.
    fn info_of_nothing(&self, session: Id) -> RunInfo {
        RunInfo {
            session_id: session,
            cwd: self.here.cwd.clone(),
            model: self.args.model.clone().unwrap_or_default(),
            permission_mode: ApprovalMode::default().name().to_owned(),
            tools: Vec::new(),
            agents: Vec::new(),
            commands: self.command_names(),
            mcp_servers: Vec::new(),
            cli_version: VERSION.to_owned(),
            sandbox: SandboxState::default(),
            channel: self.args.channel.clone(),
        }
    }
}

/// The only tools of a request. One that does not exist would look like a choice and be none.
fn tool_names(names: &[String]) -> Result<Vec<String>, Failure> {
    let names = subagents::tool_names(names);
    names.map_err(|why| Failure::new(ErrorClass::Input, format!("`tool_overrides`: {why}")))
}

/// How many turns of a conversation came to an answer.
pub(crate) fn turns_in(history: &[Message]) -> u64 {
    let is_last_word =
        |message: &&Message| message.role == Role::Assistant && message.tool_calls().next().is_none();
    history.iter().filter(is_last_word).count() as u64
}

/// The names of what the model is offered, the terminal tool last.
fn offered(agent: &Agent) -> Vec<String> {
    let mut names = agent.registry.names();
    let terminal = agent.contract.as_ref().map(|contract| contract.tool);
    names.extend(terminal.filter(|tool| !agent.permissions.removes(tool)).map(str::to_owned));
    names
}

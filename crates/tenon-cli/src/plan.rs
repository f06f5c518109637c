//! From flags, settings and input to an [`Agent`]: what a run is made of.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tenon_agent::{
    Agent, Audience, Deliver, HowToAnswer, Lineage, Memory, OwnTools, Replay, SchemaMode, SessionEnd,
    SharedMemory, Stop, Subagents,
};
use tenon_config::{AgentFile, Loaded, McpServers, Surroundings};
use tenon_contract::Contract;
use tenon_core::{Client, ErrorClass, Failure, Id, IdSource, RunInfo, Sampling, Secrets};
use tenon_model::Recorder;
use tenon_session::{Mirror, Place};
use tenon_tools::{
    CommandBook, OutputStore, Permissions, Registry, SessionSource, ShellOptions, ShellTerminal,
};
use tenon_wire::Format;

use crate::args::{InputFormat, RunArgs};
use crate::command_kit::{Answering, Contracted, Kit, SystemPrompt};
use crate::mcp::{self, Mcp, Started};
use crate::model::Connections;
use crate::more_tools::{self, ToolsOfRun};
use crate::result_file::ResultFile;
use crate::run_hooks::{self, HookedRun};
use crate::stderr::Reporter;
use crate::subagents::Helpers;
use crate::telemetry::Telemetry;
use crate::who_is_asked::WhoIsAsked;
use crate::work_folder::{WorkFolder, WorkFolders};
use crate::{
    cli_settings, client_marks, effort, input, local, model, money, session, subagents, surroundings, sys,
};

pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Everything that is known before the agent is put together.
pub struct Plan<'a> {
    pub args: &'a RunArgs,
    pub here: &'a Surroundings,
    pub loaded: Loaded,
    pub format: Format,
    pub reporter: Reporter,
    pub stdin_is_terminal: bool,
    pub stop: &'a Stop,
    pub ids: &'a Identity,
    pub telemetry: &'a Telemetry,
    pub origin: session::Origin,
    /// Whoever may be asked.
    pub client: Arc<dyn Client>,
    pub asked: AskedBy,
    /// Whoever keeps the session as well.
    pub mirror: Option<Mirror>,
    /// Models that may be asked besides: those of a workflow's steps.
    pub other_models: Vec<String>,
    /// Where commands are written down while they run, if the run can be gone on with.
    pub commands: Option<CommandBook>,
    /// Where a workflow that is kept has its large outputs. It belongs to no session.
    pub outputs_of_run: Option<PathBuf>,
}

/// An agent, and what others like it are made of.
pub struct Planned {
    pub agent: Agent,
    pub ending: Ending,
    pub mcp: Arc<Mcp>,
    /// Definitions of agents.
    pub agents: Vec<AgentFile>,
    pub connections: Connections,
    /// The cassette being written.
    pub recorder: Option<Arc<Recorder>>,
    /// Of the run itself, for its further sessions; of other agents.
    pub main_tools: OwnTools,
    pub own_tools: OwnTools,
    pub folders: Arc<WorkFolders>,
    /// Agents that may be asked for help, unless a flag or a rule leaves them out.
    pub subagents: Option<Arc<Subagents>>,
    pub memory: Vec<Memory>,
}

/// Where the prompt comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AskedBy {
    /// Flags, words, a file and stdin.
    CommandLine,
    /// A client, line by line: stdin is its own, and there may be no prompt yet.
    Client,
}

/// The session's id, and where all other ids of the run come from.
pub struct Identity {
    pub session: Id,
    pub source: Arc<IdSource>,
}

/// What is put away after a run.
pub struct Ending {
    pub session: session::Ending,
    pub mcp: Arc<Mcp>,
    pub temporary: Arc<Mutex<Temporary>>,
}

/// What a small model can keep in mind. It has no tools to be told of, and standing instructions only confuse it; how
/// to answer is said with the question.
pub fn embedded_prompt(told: &SystemPrompt) -> String {
    const BRIEF: &str = "You are a helpful assistant. Answer from the text you are given.";
    let replace = Some(told.replace.as_deref().unwrap_or(BRIEF));
    tenon_agent::system_prompt(HowToAnswer::InText, &[], replace, told.append.as_deref())
}

/// The tools of an embedded model: what only reads, where the user named it.
fn harmless(args: &RunArgs, registry: &Registry) -> Result<Registry, Failure> {
    let tools = local::Tools::of(args);
    let named = args.core_tools.iter().flat_map(|list| list.split(',')).map(str::trim);
    for name in named {
        if registry.get(name).is_some_and(|tool| !tools.offers(tool.spec())) {
            let message =
                format!("`--core-tools`: `{name}` has effects, and the embedded model may have none");
            return Err(Failure::new(ErrorClass::Config, message)
                .hint("name tools that only read, or use another model"));
        }
    }
    Ok(registry.with(|tool| tools.offers(tool)))
}

/// Private folders that are gone when the run is.
pub struct Temporary(Vec<PathBuf>);

impl Extend<PathBuf> for Temporary {
    fn extend<T: IntoIterator<Item = PathBuf>>(&mut self, folders: T) {
        self.0.extend(folders);
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        for folder in &self.0 {
            // It may never have been made.
            let _ = std::fs::remove_dir_all(folder);
        }
    }
}

impl Plan<'_> {
    pub async fn agent(
        self,
        warnings: &mut Vec<String>,
        kit: &mut Option<Kit>,
    ) -> Result<(Agent, Ending), Failure> {
        self.planned(warnings, kit).await.map(|Planned { agent, ending, .. }| (agent, ending))
    }

    /// In the order of what is cheapest to get wrong: schema, rules, prompt, credentials. What commands need is in
    /// `kit` as soon as it is known, whatever becomes of the rest.
    pub async fn planned(
        self,
        warnings: &mut Vec<String>,
        kit: &mut Option<Kit>,
    ) -> Result<Planned, Failure> {
        let args = self.args;
        let started_in = surroundings::started_in();
        let settings = &self.loaded.settings;
        let limits = cli_settings::limits(args, settings)?;
        let contract = self.contract(&started_in, warnings)?;
        let cwd = self.here.cwd.canonicalize().unwrap_or_else(|_| self.here.cwd.clone());
        let permissions =
            cli_settings::permissions(args, &self.loaded, cwd.clone(), self.here.home.clone(), None)?;
        let selection = cli_settings::selection(args, settings)?;
        let offered = contract.as_ref().filter(|contract| !permissions.removes(contract.tool));
        let system_prompt = self.system(offered, &started_in)?;
        let servers = mcp::configured(args, settings, self.here, &started_in, warnings)?;
        let who = WhoIsAsked::of(args);
        // A client may bring servers of its own.
        if args.input_format == InputFormat::Text {
            who.check(servers.iter().map(|(name, _)| name))?;
        }
        let add_dirs = self.add_dirs(&started_in)?;
        let input = match self.asked {
            AskedBy::CommandLine => input::read(args, &started_in, self.stdin_is_terminal, self.stop).await?,
            AskedBy::Client => input::given(args, &started_in)?,
        };
        warnings.extend(input.warnings.iter().cloned());
        let (outputs, temporary) = self.outputs(&cwd);
        let is_kept = temporary.0.is_empty() && self.outputs_of_run.is_none();
        let temporary = Arc::new(Mutex::new(temporary));
        let folders = Arc::new(WorkFolders {
            args: args.clone(),
            loaded: self.loaded.clone(),
            here: self.here.clone(),
            add_dirs,
            outputs: outputs.clone(),
            shell: self.shell(),
            ids: Arc::clone(&self.ids.source),
            temporary: Arc::clone(&temporary),
        });
        let workspace = folders.workspace(&cwd, &permissions)?;
        permissions.open_folders_in(&workspace);
        let known = memory_of(&self.loaded);
        let system = system_prompt.with(&known);
        let of_embedded = embedded_prompt(&system_prompt);
        let memory = SharedMemory::new(Mutex::new(known));
        let kit = kit.insert(Kit::new(
            args,
            &self.loaded,
            Arc::clone(&workspace),
            Arc::clone(&memory),
            system_prompt,
            warnings,
        ));
        let contracted = if contract.is_some() { Contracted::Yes } else { Contracted::No };
        let prompt = kit.said(&input, self.asked, contracted, warnings).await?;
        let mut others = subagents::named_models(&self.loaded.agents);
        others.extend(
            self.other_models.iter().filter(|name| !others.contains(name)).cloned().collect::<Vec<_>>(),
        );
        let chosen = model::choose(args, settings, self.here, &started_in, &others)?;
        match self.asked {
            AskedBy::CommandLine => {
                let weights = chosen.connections.fetch_weights(args, settings, self.here, self.reporter);
                if let Some(fetched) = self.stop.cancel().run_until_cancelled(weights).await {
                    fetched?;
                }
            }
            // It wants an answer to its greeting; the first turn that needs them brings them here.
            AskedBy::Client => {}
        }
        let embedded = chosen.connections.is_embedded();
        let system = if embedded { of_embedded } else { system };
        let named = |name: &str| chosen.connections.other(name, None).map_err(|failure| failure.message);
        let types = subagents::agent_types(&self.loaded.agents, named, warnings);
        let reasoning = effort::checked(args, &chosen.connections)?;
        let budget = money::budget(args, settings, &chosen.models)?;
        self.telemetry.know(&chosen);
        warnings.extend(chosen.warnings.iter().cloned());
        if let Some(why) = &chosen.why {
            self.reporter.note(why);
        }
        outputs.keep_out(&chosen.secrets);
        kit.secrets = chosen.secrets.clone();
        kit.providers = chosen.providers.clone();
        let WorkFolder { main_tools, own_tools, sandbox } = folders.work_at(workspace, &cwd, warnings)?;
        let servers = if embedded { McpServers::default() } else { servers };
        let mcp = Arc::new(self.start_servers(servers, &cwd, &outputs, &permissions, &chosen.secrets));
        let home = self.here.tenon_home.as_ref().filter(|_| is_kept);
        let hooked = HookedRun {
            session: self.ids.session,
            transcript: home.map(|home| Place::of(home, &cwd).session_file(self.ids.session)),
            cwd: &cwd,
            secrets: &chosen.secrets,
        };
        let hooks = run_hooks::hooks(args, &self.loaded, self.here, hooked)?;
        let client = who.instead_of(Arc::clone(&self.client), mcp.tools());
        let of_run = ToolsOfRun {
            permissions: &permissions,
            client: &*client,
            hooks: &hooks,
            secrets: &chosen.secrets,
            outputs: &outputs,
            is_kept,
        };
        let background = subagents::background(settings, &self.ids.source);
        let mut built_in = main_tools(&background.tasks);
        built_in.extend(more_tools::tools(args, &self.loaded, self.here, &of_run));
        built_in.extend(background.schedules.tools());
        let registry = selection.registry(built_in, &permissions);
        match self.asked {
            // A run that is being stopped waits for nobody.
            AskedBy::CommandLine => {
                let offered = mcp.offer_to(&registry, settings, warnings);
                self.stop.cancel().run_until_cancelled(offered).await;
            }
            // It wants an answer to its greeting; its first turn waits.
            AskedBy::Client => mcp.offer_as_they_come(&registry),
        }
        let registry = if embedded { harmless(args, &registry)? } else { registry };
        let mut tools = registry.names();
        tools.extend(offered.map(|contract| contract.tool.to_owned()));
        let info = RunInfo {
            session_id: self.ids.session,
            cwd,
            model: chosen.model.clone(),
            permission_mode: permissions.mode().name().to_owned(),
            tools,
            agents: Vec::new(),
            commands: kit.commands.names(),
            mcp_servers: mcp.statuses(),
            cli_version: VERSION.to_owned(),
            sandbox,
            channel: args.channel.clone(),
        };
        let beginning = session::Beginning {
            id: self.ids.session,
            cwd: &info.cwd,
            prompt: input.title(),
            mirror: self.mirror.clone(),
            file: match self.asked {
                AskedBy::CommandLine => session::Begun::AtOnce,
                AskedBy::Client => session::Begun::WithTheFirstTurn,
            },
        };
        // A command that is only answered begins no session of its own.
        let unkept = RunArgs { no_session: true, ..args.clone() };
        let is_begun = kit.pending.is_none() || self.origin != session::Origin::New;
        let recorded = if is_begun { args } else { &unkept };
        let recording = session::Recording {
            secrets: chosen.secrets.clone(),
            providers: chosen.providers.clone(),
            model: chosen.model.clone(),
        };
        let session = session::open(recorded, self.here, self.origin, &beginning, &recording, warnings)?;
        let ending = Ending {
            session: session::Ending::of(&session, self.here, settings),
            mcp: Arc::clone(&mcp),
            temporary,
        };
        warnings.iter().for_each(|warning| self.reporter.warn(warning));
        let mut agent = Agent {
            model: chosen.client,
            system,
            history: session.history,
            prompt,
            registry,
            permissions,
            contract,
            schema_mode: self.schema_mode(),
            limits,
            client,
            journal: session.journal,
            budget,
            stop: self.stop.clone(),
            ids: Arc::clone(&self.ids.source),
            info,
            audience: match (self.format, args.include_partial_messages) {
                (Format::StreamJson, true) | (Format::StreamChunkJson, _) => Audience::LiveWithSnapshots,
                (Format::StreamJson, false) => Audience::Live,
                (Format::Text | Format::Json, _) => Audience::Whole,
            },
            fail_on_denied: args.fail_on_denied,
            heartbeat: args.heartbeat.map(Duration::from_secs),
            deliver: Some(deliver_to(
                args.result_file.as_ref().map(|file| ResultFile::new(file, &started_in)),
                chosen.recorder.clone(),
            )),
            replay: Replay::default(),
            warnings: warnings.clone(),
            models: chosen.models,
            sampling: Sampling::default(),
            reasoning,
            max_output_tokens: None,
            compact_at: settings.context.compact_at(),
            hooks,
            session_start: Some(match self.origin {
                session::Origin::New => SessionSource::Startup,
                session::Origin::Resumed(_) | session::Origin::Forked(_) => SessionSource::Resume,
            }),
            session_end: SessionEnd::Here,
            trace: self.telemetry.trace(),
            lineage: Lineage::default(),
            background,
        };
        let mut subagents = None;
        if selection.keeps("agent") && !embedded {
            let helpers = Helpers { types, outputs, own_tools: Arc::clone(&own_tools), memory };
            let known = helpers.subagents(args)?;
            known.offer_to(&mut agent);
            subagents = Some(known);
        }
        if !embedded {
            more_tools::defer(&mut agent, args, &self.loaded);
        }
        agent.registry.recall(&session.known);
        let (connections, recorder, memory) = (chosen.connections, chosen.recorder, memory_of(&self.loaded));
        let agents = self.loaded.agents;
        Ok(Planned {
            agent,
            ending,
            mcp,
            agents,
            connections,
            recorder,
            main_tools,
            own_tools,
            folders,
            subagents,
            memory,
        })
    }

    fn start_servers(
        &self,
        servers: McpServers,
        folder: &Path,
        outputs: &OutputStore,
        permissions: &Permissions,
        secrets: &Secrets,
    ) -> Mcp {
        let permissions = permissions.clone();
        let judge = self.args.permission_prompt_tool.clone();
        let run = Started {
            args: self.args,
            settings: &self.loaded.settings,
            here: self.here,
            folder,
            outputs: outputs.clone(),
            client: Arc::clone(&self.client),
            trace: self.telemetry.trace(),
            secrets: secrets.clone(),
            reporter: self.reporter,
            // The tool that judges the model's calls is not one of its tools.
            offer: Arc::new(move |tool| !permissions.removes(tool) && judge.as_deref() != Some(tool)),
        };
        Mcp::start(servers, run)
    }

    /// Commas separate folders, unless there is a folder with the comma in its name.
    fn add_dirs(&self, started_in: &Path) -> Result<Vec<PathBuf>, Failure> {
        let folder = |named: &Path| {
            let path = started_in.join(named);
            if path.is_dir() { Ok(path) } else { Err(not_a_folder("--add-dir", named)) }
        };
        let mut folders = Vec::new();
        for named in &self.args.add_dir {
            match (folder(named), named.to_str()) {
                (Err(_), Some(list)) => {
                    let parts = list.split(',').map(str::trim).filter(|part| !part.is_empty());
                    folders.extend(parts.map(|part| folder(Path::new(part))).collect::<Result<Vec<_>, _>>()?);
                }
                (found, _) => folders.push(found?),
            }
        }
        Ok(folders)
    }

    fn contract(&self, started_in: &Path, warnings: &mut Vec<String>) -> Result<Option<Contract>, Failure> {
        let Some(argument) = &self.args.json_schema else { return Ok(None) };
        let schema =
            tenon_contract::load(argument, started_in, self.here.home.as_deref()).map_err(|error| {
                let failure = Failure::new(ErrorClass::Config, format!("`--json-schema`: {error}"));
                match error.hint() {
                    Some(hint) => failure.hint(hint),
                    None => failure,
                }
            })?;
        warnings.extend(schema.warnings().iter().map(|warning| format!("`--json-schema`: {warning}")));
        Ok(Some(Contract::structured_output(schema)))
    }

    fn system(&self, contract: Option<&Contract>, started_in: &Path) -> Result<SystemPrompt, Failure> {
        let from_file = match &self.args.system_prompt_file {
            Some(file) => Some(input::read_text_file(file, started_in, "--system-prompt-file")?),
            None => None,
        };
        let answer = match (contract, self.schema_mode()) {
            (None, _) => Answering::InText,
            (Some(contract), SchemaMode::ResponseFormat) => {
                Answering::InJson(contract.schema.source().clone())
            }
            (Some(contract), SchemaMode::Tool | SchemaMode::Auto) => Answering::ByCalling(contract.tool),
        };
        let replace = self.args.system_prompt.clone().or(from_file);
        Ok(SystemPrompt { answer, replace, append: self.args.append_system_prompt.clone() })
    }

    fn schema_mode(&self) -> SchemaMode {
        self.args.schema_mode.map(SchemaMode::from).unwrap_or_default()
    }

    /// Where outputs too large for the model are kept in full.
    fn outputs(&self, cwd: &Path) -> (OutputStore, Temporary) {
        let session = self.ids.session;
        if let Some(folder) = &self.outputs_of_run {
            return (OutputStore::at(folder.clone()), Temporary(Vec::new()));
        }
        let home = self.here.tenon_home.as_ref().filter(|_| !self.args.no_session);
        match home {
            Some(home) if sys::can_be_written(home) => {
                (OutputStore::at(Place::of(home, cwd).outputs(session)), Temporary(Vec::new()))
            }
            _ => {
                let folder = std::env::temp_dir().join(format!("tenon-{session}"));
                (OutputStore::at(folder.clone()), Temporary(vec![folder]))
            }
        }
    }

    fn shell(&self) -> ShellOptions {
        let settings = &self.loaded.settings;
        let mut shell = ShellOptions::new(std::env::vars_os());
        shell.env_remove = client_marks::kept_from_children(self.args, settings, self.here);
        shell.max_timeout = settings.timeouts.shell_max();
        shell.default_timeout =
            settings.tools.shell.default_timeout_ms.map_or(settings.timeouts.shell(), Duration::from_millis);
        if let Some(interval) = settings.tools.shell.heartbeat_interval_ms {
            shell.heartbeat = Duration::from_millis(interval);
        }
        let promote_after_ms = settings.tools.shell.promote_after_ms.map(Duration::from_millis);
        shell.promote_after = self.args.promote_after.map(Duration::from_secs).or(promote_after_ms);
        if settings.tools.shell.pty == Some(true) {
            shell.terminal = ShellTerminal::Pty;
        }
        shell.book.clone_from(&self.commands);
        shell
    }
}

/// The standing instructions of a run.
pub fn memory_of(loaded: &Loaded) -> Vec<Memory> {
    let named = |path: &Path| memory_name(&loaded.project_root, path);
    loaded.memory.iter().map(|file| Memory { name: named(&file.path), text: file.text.clone() }).collect()
}

/// The same on every machine: relative to the project, or to the user's folder.
fn memory_name(project_root: &Path, path: &Path) -> String {
    let inside = path.strip_prefix(project_root).ok();
    let name = inside.or_else(|| path.file_name().map(Path::new)).unwrap_or(path);
    name.display().to_string()
}

/// What has to be safe on disk before a run may call itself a success.
fn deliver_to(file: Option<ResultFile>, recorder: Option<Arc<Recorder>>) -> Deliver {
    Arc::new(move |success| {
        if let Some(recorder) = &recorder {
            recorder.check()?;
        }
        file.as_ref().map_or(Ok(()), |file| file.write(success))
    })
}

pub fn not_a_folder(flag: &str, folder: &Path) -> Failure {
    Failure::new(ErrorClass::Input, format!("`{flag} {}` is not a folder", folder.display()))
}

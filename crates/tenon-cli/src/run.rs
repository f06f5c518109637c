//! One run: reads what there is to read, wires the parts, and hands the outcome to `exit_code.rs`.

use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tenon_agent::{Agent, Audience, Deliver, Emitter, EventSink, Memory, Stop, system_prompt};
use tenon_config::{ExtraSettings, Loaded, MemoryUse, ProjectTrust, Sources, Surroundings};
use tenon_contract::Contract;
use tenon_core::{
    ErrorClass, EventKind, Failure, Id, IdSource, MemoryJournal, NoBudget, NoClient, Outcome, RunInfo,
};
use tenon_model::Recorder;
use tenon_tools::{OutputStore, ShellOptions, Workspace, WorkspaceOptions, builtin_tools};
use tenon_wire::{Dialect, EncoderOptions, Format};

use crate::args::{RunArgs, Switch};
use crate::exit_code::exit_code_of;
use crate::result_file::ResultFile;
use crate::stderr::{Level, Reporter, line};
use crate::stdout::{Stdout, Written};
use crate::usage::{Situation, UsageError};
use crate::{cli_settings, input, model, signals, surroundings, usage};

const VERSION: &str = env!("CARGO_PKG_VERSION");

pub fn main(args: RunArgs) -> u8 {
    let stdin_is_terminal = std::io::stdin().is_terminal();
    if stdin_is_terminal && !usage::has_prompt(&args) && args.json_schema.is_none() && args.words.is_empty() {
        return short_help();
    }
    let env_dialect = std::env::var("TENON_DIALECT").ok();
    let situation = Situation {
        stdin_is_terminal,
        prompt_forced: std::env::args_os().any(|arg| arg == "--"),
        env_dialect: env_dialect.as_deref(),
    };
    let warnings = match usage::check(&args, situation) {
        Ok(warnings) => warnings,
        Err(error) => return usage_error(&error),
    };
    // One thread: the work is waiting for a server, and what blocks (files, commands) has threads of its own.
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            line(&format!("error[internal]: the runtime could not be started: {error}"));
            return 1;
        }
    };
    let code = runtime.block_on(run(args, warnings, stdin_is_terminal));
    // A thread that still reads stdin must not hold up the end.
    runtime.shutdown_background();
    code
}

fn usage_error(error: &UsageError) -> u8 {
    line(&format!("error[usage]: {}", error.message));
    if let Some(hint) = &error.hint {
        line(&format!("hint: {hint}"));
    }
    line("hint: `tenon --help` lists the flags");
    tenon_core::exit_code(ErrorClass::Usage)
}

fn short_help() -> u8 {
    line("tenon runs an agent without supervision: a prompt and a JSON Schema in, a payload that fits out.");
    line("");
    line("  tenon -p \"What does this project do?\"");
    line("  tenon -p \"Rate the risk of this diff\" --json-schema @audit.json < change.diff");
    line("  tenon schema check @audit.json");
    line("");
    line("`tenon --help` lists everything, `tenon doctor` says what works on this machine.");
    tenon_core::exit_code(ErrorClass::Usage)
}

async fn run(args: RunArgs, mut warnings: Vec<String>, stdin_is_terminal: bool) -> u8 {
    let stop = Stop::default();
    signals::listen(stop.clone());
    let here = surroundings::collect(args.cwd.as_deref());
    let reporter = reporter(&args);
    let ids = match identity(&args) {
        Ok(ids) => ids,
        Err(failure) => return usage_failure(reporter, &failure),
    };
    // First of all: whatever goes wrong from here on, no old result is left.
    let prepared = args
        .result_file
        .as_ref()
        .map_or(Ok(()), |file| ResultFile::new(file, &surroundings::started_in()).prepare());
    let loaded = load_settings(&args, &here);
    let format = cli_settings::output_format(&args, loaded.as_ref().ok().map(|loaded| &loaded.settings));
    let reporter = Reporter { heartbeats: !matches!(format, Ok(Format::StreamJson)), ..reporter };
    let mut options = EncoderOptions::new(*format.as_ref().unwrap_or(&Format::Text), ids.session, VERSION);
    options.partials = args.include_partial_messages;
    options.result_text = args.result_text == Switch::On;
    let encoder = tenon_wire::encoder(Dialect::Qwen, options);
    let stdout = Arc::new(Stdout::new(encoder, reporter, stop.clone()));

    let plan = match (prepared, loaded, format) {
        (Ok(()), Ok(loaded), Ok(format)) => {
            warnings.extend(loaded.warnings.iter().cloned());
            let plan = Plan {
                args: &args,
                here: &here,
                loaded,
                format,
                reporter,
                stdin_is_terminal,
                stop: &stop,
                ids: &ids,
            };
            plan.agent(&mut warnings).await
        }
        (Err(failure), ..) | (_, Err(failure), _) | (.., Err(failure)) => Err(failure),
    };
    let outcome = match plan {
        Ok((agent, _temporary)) => tenon_agent::run(agent, Arc::clone(&stdout) as Arc<dyn EventSink>).await,
        Err(failure) if failure.class == ErrorClass::Usage => return usage_failure(reporter, &failure),
        Err(failure) => {
            warnings.iter().for_each(|warning| reporter.warn(warning));
            let outcome = Arc::new(Outcome::failed_early(failure, warnings));
            Emitter::new(Arc::clone(&stdout) as Arc<dyn EventSink>, ids.source, None)
                .emit(EventKind::RunFinished(Arc::clone(&outcome)));
            outcome
        }
    };
    let written = stdout.finish();
    if !matches!(written, Written::ReaderGone) {
        reporter.finish(&outcome);
    }
    exit_code_of(&outcome, &written)
}

fn usage_failure(reporter: Reporter, failure: &Failure) -> u8 {
    reporter.failure(failure);
    failure.exit_code()
}

fn reporter(args: &RunArgs) -> Reporter {
    let level = match (args.quiet, args.verbose) {
        (true, _) => Level::Quiet,
        (_, true) => Level::Verbose,
        _ => Level::Normal,
    };
    Reporter { level, heartbeats: true, is_terminal: std::io::stderr().is_terminal() }
}

/// The session's id, and where all other ids of the run come from.
struct Identity {
    session: Id,
    source: Arc<IdSource>,
}

fn identity(args: &RunArgs) -> Result<Identity, Failure> {
    let mut seed = [0; 16];
    getrandom::fill(&mut seed).map_err(|error| {
        Failure::new(ErrorClass::Internal, format!("the system gave no random numbers: {error}"))
    })?;
    let source = Arc::new(IdSource::new(Id::from_random(seed)));
    let session = match &args.session_id {
        None => source.next(),
        Some(text) => Id::parse(text).ok_or_else(|| {
            Failure::new(ErrorClass::Usage, format!("`--session-id {text}` is not a UUID"))
                .hint("a UUID looks like 123e4567-e89b-42d3-a456-426614174000")
        })?,
    };
    Ok(Identity { session, source })
}

fn load_settings(args: &RunArgs, here: &Surroundings) -> Result<Loaded, Failure> {
    if here.cwd.is_relative() {
        let message = "the folder tenon was started in does not exist any more";
        return Err(Failure::new(ErrorClass::Input, message));
    }
    if let Some(folder) = args.cwd.as_ref().filter(|_| !here.cwd.is_dir()) {
        return Err(not_a_folder("--cwd", folder));
    }
    let mut sources = match (&args.setting_sources, args.bare) {
        (_, true) => Sources::none(),
        (Some(list), _) => Sources::parse(list)?,
        (None, _) => Sources::all(),
    };
    if args.safe_mode {
        sources.memory = MemoryUse::Skip;
    }
    let started_in = surroundings::started_in();
    sources.extra = args.settings.as_deref().map(|text| ExtraSettings::parse(text, &started_in));
    let trust = if args.trust_project { ProjectTrust::Granted } else { ProjectTrust::Pinned };
    Ok(tenon_config::load(here, &sources, trust)?)
}

fn not_a_folder(flag: &str, folder: &Path) -> Failure {
    Failure::new(ErrorClass::Input, format!("`{flag} {}` is not a folder", folder.display()))
}

/// Everything that is known before the agent is put together.
struct Plan<'a> {
    args: &'a RunArgs,
    here: &'a Surroundings,
    loaded: Loaded,
    format: Format,
    reporter: Reporter,
    stdin_is_terminal: bool,
    stop: &'a Stop,
    ids: &'a Identity,
}

/// A private folder that is gone when the run is.
struct Temporary(Option<PathBuf>);

impl Drop for Temporary {
    fn drop(&mut self) {
        if let Some(folder) = &self.0 {
            // It may never have been made.
            let _ = std::fs::remove_dir_all(folder);
        }
    }
}

impl Plan<'_> {
    /// In the order of what is cheapest to get wrong: schema, rules, prompt, credentials.
    async fn agent(self, warnings: &mut Vec<String>) -> Result<(Agent, Temporary), Failure> {
        let args = self.args;
        let started_in = surroundings::started_in();
        let settings = &self.loaded.settings;
        warnings.extend(cli_settings::unsupported(args, settings)?);
        let limits = cli_settings::limits(args, settings)?;
        let contract = self.contract(&started_in, warnings)?;
        let cwd = self.here.cwd.canonicalize().unwrap_or_else(|_| self.here.cwd.clone());
        let permissions = cli_settings::permissions(args, &self.loaded, cwd.clone(), self.here.home.clone())?;
        let selection = cli_settings::selection(args, settings)?;
        let offered = contract.as_ref().filter(|contract| !permissions.removes(contract.tool));
        let system = self.system(offered, &started_in)?;
        let add_dirs = self.add_dirs(&started_in)?;
        let input = input::read(args, &started_in, self.stdin_is_terminal, self.stop).await?;
        warnings.extend(input.warnings);
        let chosen = model::choose(args, settings, self.here, &started_in)?;
        cli_settings::check_budget(settings, chosen.cost_usd)?;
        warnings.extend(chosen.warnings);
        if let Some(why) = &chosen.why {
            self.reporter.note(why);
        }
        let (outputs, temporary) = self.outputs();
        let hidden = permissions.clone();
        let workspace = Workspace::new(WorkspaceOptions {
            cwd: cwd.clone(),
            add_dirs,
            outputs,
            hidden: Some(Arc::new(move |path: &Path| hidden.hides(path))),
        })
        .map_err(|error| {
            Failure::new(ErrorClass::Input, format!("a working folder cannot be used: {error}"))
        })?;
        let registry = selection.registry(builtin_tools(workspace, self.shell()), &permissions);
        let tools =
            registry.names().chain(offered.map(|contract| contract.tool)).map(str::to_owned).collect();
        let info = RunInfo {
            session_id: self.ids.session,
            cwd,
            model: chosen.model,
            permission_mode: permissions.mode().name().to_owned(),
            tools,
            cli_version: VERSION.to_owned(),
        };
        warnings.iter().for_each(|warning| self.reporter.warn(warning));
        let agent = Agent {
            model: chosen.client,
            system,
            prompt: input.prompt,
            registry,
            permissions,
            contract,
            limits,
            client: Arc::new(NoClient),
            journal: Arc::new(MemoryJournal::default()),
            budget: Arc::new(NoBudget),
            stop: self.stop.clone(),
            ids: Arc::clone(&self.ids.source),
            info,
            audience: match (self.format, args.include_partial_messages) {
                (Format::StreamJson, true) => Audience::LiveWithSnapshots,
                (Format::StreamJson, false) => Audience::Live,
                (Format::Text | Format::Json, _) => Audience::Whole,
            },
            fail_on_denied: args.fail_on_denied,
            heartbeat: args.heartbeat.filter(|seconds| *seconds > 0).map(Duration::from_secs),
            deliver: Some(deliver_to(
                args.result_file.as_ref().map(|file| ResultFile::new(file, &started_in)),
                chosen.recorder,
            )),
            warnings: warnings.clone(),
            cost_usd: chosen.cost_usd,
        };
        Ok((agent, temporary))
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

    fn system(&self, contract: Option<&Contract>, started_in: &Path) -> Result<String, Failure> {
        let from_file = match &self.args.system_prompt_file {
            Some(file) => Some(input::read_text_file(file, started_in, "--system-prompt-file")?),
            None => None,
        };
        let replace = self.args.system_prompt.as_deref().or(from_file.as_deref());
        let memory: Vec<Memory> = self
            .loaded
            .memory
            .iter()
            .map(|file| Memory { name: self.memory_name(&file.path), text: file.text.clone() })
            .collect();
        let append = self.args.append_system_prompt.as_deref();
        Ok(system_prompt(contract.map(|contract| contract.tool), &memory, replace, append))
    }

    /// The same on every machine: relative to the project, or to the user's folder.
    fn memory_name(&self, path: &Path) -> String {
        let inside = path.strip_prefix(&self.loaded.project_root).ok();
        let name = inside.or_else(|| path.file_name().map(Path::new)).unwrap_or(path);
        name.display().to_string()
    }

    /// Where outputs too large for the model are kept in full.
    fn outputs(&self) -> (OutputStore, Temporary) {
        let session = self.ids.session.to_string();
        match (&self.here.tenon_home, self.args.no_session) {
            (Some(home), false) => {
                let project: String = self
                    .here
                    .cwd
                    .to_string_lossy()
                    .chars()
                    .map(|c| if c.is_ascii_alphanumeric() { c } else { '-' })
                    .collect();
                let folder = home.join("projects").join(project).join("outputs").join(session);
                (OutputStore::at(folder), Temporary(None))
            }
            _ => {
                let folder = std::env::temp_dir().join(format!("tenon-{session}"));
                (OutputStore::at(folder.clone()), Temporary(Some(folder)))
            }
        }
    }

    fn shell(&self) -> ShellOptions {
        let settings = &self.loaded.settings;
        let mut shell = ShellOptions::new(std::env::vars_os());
        shell.env_remove = model::secret_names(self.args, settings, self.here);
        shell.max_timeout = settings.timeouts.shell_max();
        shell.default_timeout =
            settings.tools.shell.default_timeout_ms.map_or(settings.timeouts.shell(), Duration::from_millis);
        if let Some(interval) = settings.tools.shell.heartbeat_interval_ms {
            shell.heartbeat = Duration::from_millis(interval);
        }
        shell
    }
}

/// What has to be safe on disk before a run may call itself a success.
fn deliver_to(file: Option<ResultFile>, recorder: Option<Arc<Recorder>>) -> Deliver {
    Box::new(move |success| {
        if let Some(recorder) = &recorder {
            recorder.check()?;
        }
        file.as_ref().map_or(Ok(()), |file| file.write(success))
    })
}

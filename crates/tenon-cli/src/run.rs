//! One run: reads what there is to read, wires the parts, and hands the outcome to `exit_code.rs`.

use std::io::IsTerminal;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use tenon_agent::{Deliver, Emitter, Stop};
use tenon_config::{ExtraSettings, Loaded, MemoryUse, ProjectTrust, Sources, Surroundings};
use tenon_core::{
    Client, ErrorClass, EventKind, EventSink, Failure, Id, IdSource, NoClient, Outcome, Success,
};
use tenon_session::{ControlChannel, Lines, Teller, default_turn_name};
use tenon_tools::SessionSource;
use tenon_wire::{EncoderOptions, Format, Lifetime, Replies};
use tokio::runtime::{Builder, Runtime};

use crate::args::{InputFormat, RunArgs, Switch};
use crate::dialect::{Hints, Output};
use crate::exit_code::{exit_code_of, exit_code_of_session};
use crate::plan::{AskedBy, Identity, Plan, Planned, VERSION, not_a_folder};
use crate::result_file::ResultFile;
use crate::session::{self, Named, Origin};
use crate::stderr::{Level, Reporter, line};
use crate::stdout::{Stdout, Written};
use crate::stream_session::{self, Common, Connection, MirrorOf, Parts, Record, Recorded, StreamHost};
use crate::telemetry::Telemetry;
use crate::usage::{Situation, UsageError};
use crate::{
    client_marks, dialect, refused_start, session_mirror, signals, stdin_lines, stream_commands,
    surroundings, usage,
};

pub fn main(args: RunArgs) -> u8 {
    let stdin_is_terminal = std::io::stdin().is_terminal();
    let is_bare_call = args.json_schema.is_none() && args.words.is_empty() && !is_session(&args);
    if stdin_is_terminal && !usage::has_prompt(&args) && is_bare_call {
        return short_help();
    }
    let env_dialect = std::env::var("TENON_DIALECT").ok();
    let entrypoint = std::env::var(client_marks::ENTRYPOINT).ok();
    let hints = Hints { named: env_dialect.as_deref(), entrypoint: entrypoint.as_deref() };
    let situation =
        Situation { stdin_is_terminal, prompt_forced: std::env::args_os().any(|arg| arg == "--"), hints };
    let warnings = match usage::check(&args, situation) {
        Ok(warnings) => warnings,
        Err(error) => {
            let code = usage_error(&error);
            refused_start::answer(&error.message);
            return code;
        }
    };
    let runtime = match runtime() {
        Ok(runtime) => runtime,
        Err(failure) => return usage_failure(reporter(&args), &failure),
    };
    let code = runtime.block_on(run(args, warnings, stdin_is_terminal, hints));
    // A thread that still reads stdin must not hold up the end.
    runtime.shutdown_background();
    code
}

/// One thread: the work is waiting for a server, and what blocks (files, commands) has threads of its own.
pub fn runtime() -> Result<Runtime, Failure> {
    Builder::new_current_thread().enable_all().build().map_err(|error| {
        Failure::new(ErrorClass::Internal, format!("the runtime could not be started: {error}"))
    })
}

pub fn usage_error(error: &UsageError) -> u8 {
    usage_error_of("tenon", error)
}

/// `command` is the one whose flags were misused.
pub fn usage_error_of(command: &str, error: &UsageError) -> u8 {
    line(&format!("error[usage]: {}", error.message));
    if let Some(hint) = &error.hint {
        line(&format!("hint: {hint}"));
    }
    line(&format!("hint: `{command} --help` lists the flags"));
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

async fn run(args: RunArgs, mut warnings: Vec<String>, stdin_is_terminal: bool, hints: Hints<'_>) -> u8 {
    let stop = Stop::default();
    let signalled = signals::listen(stop.clone());
    let here = surroundings::collect(args.cwd.as_deref());
    let reporter = reporter(&args);
    let mut ids = match identity(&args) {
        Ok(ids) => ids,
        Err(failure) => {
            let code = usage_failure(reporter, &failure);
            refused_start::answer(&failure.message);
            return code;
        }
    };
    // First of all: whatever goes wrong from here on, no old result is left.
    let prepared = prepare_result_file(&args);
    let named = session_mirror::fetch(&args, &here).and_then(|()| session::find(&args, &here));
    if let Ok(Named { origin: Origin::Resumed(id), .. }) = named {
        ids.session = id;
    }
    let loaded = load_settings(&args, &here);
    let output = match &loaded {
        Ok(loaded) => dialect::output(&args, hints, &loaded.settings),
        Err(_) => Ok(Output::of_flags(&args, hints)),
    };
    let Output { mut dialect, format } =
        output.as_ref().map_or_else(|_| Output::of_flags(&args, hints), |output| *output);
    let mut lines = is_session(&args).then(stdin_lines::read);
    let mut first = Vec::new();
    if let (Some(lines), Ok(loaded)) = (&mut lines, &loaded)
        && dialect::is_open(&args, hints, &loaded.settings)
    {
        let told = dialect::told_by_first_lines(lines, &mut first);
        let told = stop.cancel().run_until_cancelled(told).await.flatten();
        dialect = told.unwrap_or(dialect);
    }
    let is_streamed = matches!(format, Format::StreamJson | Format::StreamChunkJson);
    let reporter = Reporter { heartbeats: !is_streamed, ..reporter };
    let mut options = EncoderOptions::new(format, ids.session, VERSION);
    options.verbose = args.verbose;
    options.raw_ansi = args.raw_ansi;
    options.partials = args.include_partial_messages;
    options.hook_events = args.include_hook_events;
    options.result_text = args.result_text == Switch::On;
    if lines.is_some() {
        options.lifetime = Lifetime::ManyRuns;
        options.input_format = args.input_format.name().to_owned();
    }
    let encoder = tenon_wire::encoder(dialect, options);
    let stdout = Arc::new(Stdout::new(encoder, reporter, stop.clone()));

    let settings = loaded.as_ref().ok().map(|loaded| &loaded.settings);
    let telemetry = Telemetry::start(&args, settings, &here, &ids, &mut warnings);
    let sink = telemetry.watch(Arc::clone(&stdout) as Arc<dyn EventSink>);
    let connection = lines.is_some().then(|| {
        let lines = Arc::clone(&stdout) as Arc<dyn Lines>;
        Connection::new(dialect, ids.session, &ids.source, lines, settings)
    });
    let client: Arc<dyn Client> = match &connection {
        Some(connection) => Arc::clone(&connection.peer) as Arc<dyn Client>,
        None => Arc::new(NoClient),
    };
    let mirror_of = args.session_mirror.then(|| {
        let (here, stdout) = (here.clone(), Arc::clone(&stdout));
        Arc::new(move |id| {
            let lines = Arc::clone(&stdout) as Arc<dyn Lines>;
            session_mirror::mirror(&here, id, lines, Replies::new(dialect, id), reporter)
        }) as MirrorOf
    });
    let mirror = mirror_of.as_ref().and_then(|mirror| mirror(ids.session));
    let asked = if connection.is_some() { AskedBy::Client } else { AskedBy::CommandLine };
    let settings = settings.cloned().unwrap_or_default();

    let mut kit = None;
    let plan = match (prepared, loaded, output, named) {
        (Ok(()), Ok(loaded), Ok(_), Ok(named)) => {
            warnings.extend(loaded.warnings.iter().cloned());
            warnings.extend(named.warnings);
            let plan = Plan {
                args: &args,
                here: &here,
                loaded,
                format,
                reporter,
                stdin_is_terminal,
                stop: &stop,
                ids: &ids,
                telemetry: &telemetry,
                origin: named.origin,
                client,
                asked,
                mirror,
                other_models: Vec::new(),
                commands: None,
                outputs_of_run: None,
            };
            plan.planned(&mut warnings, &mut kit).await
        }
        (Err(failure), ..) | (_, Err(failure), ..) | (_, _, Err(failure), _) | (.., Err(failure)) => {
            Err(failure)
        }
    };
    if let (Some(connection), Some(lines)) = (connection, lines) {
        let (agent, ending) = match plan {
            Ok(Planned { agent, ending, mcp, agents, connections, subagents, main_tools, .. }) => {
                let is_blank = agent.session_start == Some(SessionSource::Startup);
                let parts = Parts { mcp, connections, agents, subagents, main_tools, is_blank };
                (Ok((agent, parts)), Some(ending))
            }
            Err(failure) if failure.class == ErrorClass::Usage => {
                let code = usage_failure(reporter, &failure);
                refused_start::answer_lines(first, lines, dialect, &failure.message);
                return code;
            }
            Err(failure) => {
                warnings.iter().for_each(|warning| reporter.warn(warning));
                (Err(failure), None)
            }
        };
        let (session, mcp, _temporary) = match ending {
            Some(ending) => (Some(ending.session), Some(ending.mcp), Some(ending.temporary)),
            None => (None, None, None),
        };
        let record = Record::new(Mutex::new(Recorded { ending: session, last: None }));
        let common = Common {
            args: &args,
            settings,
            here: &here,
            ids: ids.source,
            sink,
            agent,
            record: Arc::clone(&record),
            reporter,
            mirror: mirror_of,
            kit,
        };
        let closed = stream_session::run(common, connection, first, lines, stop).await;
        let written = stdout.finish(&signalled).await;
        let recorded = std::mem::take(&mut *record.lock().unwrap_or_else(PoisonError::into_inner));
        if let (Some(session), Some(outcome)) = (recorded.ending, recorded.last) {
            session.finish(&outcome, reporter);
        }
        if let Some(mcp) = mcp {
            mcp.stop().await;
        }
        telemetry.finish(reporter).await;
        return exit_code_of_session(&closed, &written, reporter);
    }
    let mut to_end = None;
    let teller = |command| Teller {
        replies: Replies::new(dialect, ids.session),
        lines: is_streamed.then(|| Arc::clone(&stdout) as Arc<dyn Lines>),
        sink: Arc::clone(&sink),
        ids: Arc::clone(&ids.source),
        prompt_id: Some(default_turn_name(ids.session, 1)),
        command,
        control: ControlChannel::Off,
        deliver: args.result_file.as_ref().map(|file| {
            let file = ResultFile::new(file, &surroundings::started_in());
            Arc::new(move |success: &Success| file.write(success)) as Deliver
        }),
        warnings: warnings.clone(),
    };
    let pending = kit.as_mut().and_then(|kit| kit.pending.take());
    let outcome = match (plan, pending) {
        (Err(failure), _) if failure.class == ErrorClass::Usage => return usage_failure(reporter, &failure),
        (plan, Some(command)) => {
            let agent = match plan {
                Ok(Planned { agent, ending, mcp, agents, connections, subagents, main_tools, .. }) => {
                    to_end = Some(ending);
                    let is_blank = true;
                    Ok((agent, Parts { mcp, connections, agents, subagents, main_tools, is_blank }))
                }
                Err(failure) => {
                    warnings.iter().for_each(|warning| reporter.warn(warning));
                    Err(failure)
                }
            };
            let (teller, record) = (teller(command.clone()), Record::default());
            let (here, ids, sink) = (&here, Arc::clone(&ids.source), Arc::clone(&sink));
            let mirror = None;
            let common =
                Common { args: &args, settings, here, ids, sink, agent, record, reporter, mirror, kit };
            stream_commands::answer_once(StreamHost::new(common), command, teller).await
        }
        (Ok(Planned { agent, ending, .. }), None) => {
            to_end = Some(ending);
            let sink = match kit.and_then(|kit| kit.told) {
                Some((command, submitted)) => teller(command).within(submitted.answer, sink),
                None => sink,
            };
            tenon_agent::run(agent, sink).await.outcome
        }
        (Err(failure), None) => {
            warnings.iter().for_each(|warning| reporter.warn(warning));
            let outcome = Arc::new(Outcome::failed_early(failure, warnings));
            Emitter::new(sink, ids.source, None).emit(EventKind::RunFinished(Arc::clone(&outcome)));
            outcome
        }
    };
    let written = stdout.finish(&signalled).await;
    if !matches!(written, Written::ReaderGone) {
        reporter.finish(&outcome);
    }
    if let Some(ending) = to_end {
        ending.session.finish(&outcome, reporter);
        // After the result: whoever waits for it must not wait for servers that will not go.
        ending.mcp.stop().await;
    }
    telemetry.finish(reporter).await;
    exit_code_of(&outcome, &written)
}

/// A run that somebody else asked for and listens to: nothing of it goes to stdout.
pub struct Asked<'a> {
    pub args: &'a RunArgs,
    pub stop: &'a Stop,
    pub sink: Arc<dyn EventSink>,
}

pub async fn ask(asked: Asked<'_>) -> Arc<Outcome> {
    let Asked { args, stop, sink } = asked;
    // Nobody typed it.
    let args = &RunArgs { literal_prompt: true, ..args.clone() };
    let here = surroundings::collect(args.cwd.as_deref());
    let reporter = reporter(args);
    let mut warnings = Vec::new();
    let early = |failure: Failure| Arc::new(Outcome::failed_early(failure, Vec::new()));
    let ids = match identity(args) {
        Ok(ids) => ids,
        Err(failure) => return early(failure),
    };
    let loaded = match load_settings(args, &here) {
        Ok(loaded) => loaded,
        Err(failure) => return early(failure),
    };
    warnings.extend(loaded.warnings.iter().cloned());
    let telemetry = Telemetry::start(args, Some(&loaded.settings), &here, &ids, &mut warnings);
    let plan = Plan {
        args,
        here: &here,
        loaded,
        format: Format::Text,
        reporter,
        stdin_is_terminal: false,
        stop,
        ids: &ids,
        telemetry: &telemetry,
        origin: Origin::New,
        client: Arc::new(NoClient),
        asked: AskedBy::CommandLine,
        mirror: None,
        other_models: Vec::new(),
        commands: None,
        outputs_of_run: None,
    };
    let outcome = match plan.agent(&mut warnings, &mut None).await {
        Ok((agent, ending)) => {
            let outcome = tenon_agent::run(agent, telemetry.watch(sink)).await.outcome;
            ending.session.finish(&outcome, reporter);
            ending.mcp.stop().await;
            outcome
        }
        Err(failure) => early(failure),
    };
    telemetry.finish(reporter).await;
    outcome
}

/// A client drives the session over stdin.
fn is_session(args: &RunArgs) -> bool {
    args.input_format != InputFormat::Text
}

fn prepare_result_file(args: &RunArgs) -> Result<(), Failure> {
    let Some(named) = &args.result_file else { return Ok(()) };
    let started_in = surroundings::started_in();
    let file = ResultFile::new(named, &started_in);
    let schema =
        args.json_schema.as_deref().and_then(|schema| schema.trim().strip_prefix('@')).map(Path::new);
    let settings = args.settings.as_deref().filter(|text| !text.trim_start().starts_with('{')).map(Path::new);
    let others = [
        ("--prompt-file", args.prompt_file.as_deref()),
        ("--system-prompt-file", args.system_prompt_file.as_deref()),
        ("--json-schema", schema),
        ("--settings", settings),
        ("--record", args.record.as_deref()),
        ("--replay", args.replay.as_deref()),
    ];
    let is_file = |argument: &&String| !argument.trim_start().starts_with('{');
    let mcp = args.mcp_config.iter().filter(is_file).map(|file| ("--mcp-config", Some(Path::new(file))));
    let others: Vec<_> = others
        .into_iter()
        .chain(mcp)
        .filter_map(|(flag, path)| Some((flag, started_in.join(path?))))
        .collect();
    file.differs_from(others.iter().map(|(flag, path)| (*flag, path.as_path())))?;
    file.prepare()
}

fn usage_failure(reporter: Reporter, failure: &Failure) -> u8 {
    reporter.failure(failure);
    failure.exit_code()
}

pub fn reporter(args: &RunArgs) -> Reporter {
    let level = match (args.quiet, args.verbose) {
        (true, _) => Level::Quiet,
        (_, true) => Level::Verbose,
        _ => Level::Normal,
    };
    Reporter { level, heartbeats: true, is_terminal: std::io::stderr().is_terminal() }
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

pub fn load_settings(args: &RunArgs, here: &Surroundings) -> Result<Loaded, Failure> {
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
    let mut loaded = tenon_config::load(here, &sources, trust)?;
    if args.bare {
        loaded.warnings.extend(dropped_by_bare(here, trust));
    }
    Ok(loaded)
}

/// Deny rules that would have held without `--bare`. The settings are read to count them and not used.
fn dropped_by_bare(here: &Surroundings, trust: ProjectTrust) -> Option<String> {
    let files = Sources { memory: MemoryUse::Skip, ..Sources::all() };
    let Ok(unused) = tenon_config::load(here, &files, trust) else {
        return Some(
            "`--bare` leaves the settings out, and they cannot be read to count their deny rules".to_owned(),
        );
    };
    let settings = unused.settings;
    match settings.permissions.deny.len() + settings.tools.exclude.len() {
        0 => None,
        1 => Some("`--bare` leaves out 1 deny rule of the settings".to_owned()),
        rules => Some(format!("`--bare` leaves out {rules} deny rules of the settings")),
    }
}

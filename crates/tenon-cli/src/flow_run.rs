//! `tenon flow run` and `resume`: a run from its command line to its exit code.
//!
//! What it is made of is put together in `flow_prepare.rs`. Which flags a workflow takes is in `flow_usage.rs`, what its inputs
//! are in `flow_inputs.rs`, what is shown while it runs in `flow_progress.rs`, and what goes to stdout in `flow_output.rs`.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use tenon_agent::Stop;
use tenon_core::{ErrorClass, Failure, Id, IdSource};
use tenon_flow::{
    FlowEmitter, FlowSink, Journal, JournalError, Past, Report, RunSpec, RunView, StepLog, StepParts,
    StopRun, WorkflowOutcome, WorkflowStatus, show_again,
};
use tenon_tools::CommandBook;

use crate::exit_code::{exit_code_of_flow, tell_unwritten};
use crate::flow_args::{FlowResumeArgs, FlowRunArgs};
use crate::flow_folder::{RunFolder, remove_empty};
use crate::flow_journal::Kept;
use crate::flow_output::FlowOutput;
use crate::flow_prepare::{Surrounding, prepare};
use crate::flow_progress::Progress;
use crate::flow_resume::Found;
use crate::flow_usage::{self, Asked, Keep, Resume, Task};
use crate::goal_args::Then;
use crate::plan::{Ending, Identity};
use crate::stderr::{Reporter, line};
use crate::stdout::{Stdout, Written};
use crate::telemetry::Telemetry;
use crate::{flow_hint, flow_hooks, flow_journal, flow_resume, goal, last_words, run, signals, surroundings};

/// Digits of a run's id that are random.
const RUN_ID_BYTES: usize = 8;

pub fn main(args: FlowRunArgs) -> u8 {
    let asked = match flow_usage::check(args) {
        Ok(asked) => asked,
        Err(error) => return run::usage_error_of("tenon flow run", &error),
    };
    start(asked)
}

pub fn resume(args: FlowResumeArgs) -> u8 {
    match flow_usage::check_resume(args) {
        Ok(asked) => start(asked),
        Err(error) => run::usage_error_of("tenon flow resume", &error),
    }
}

/// What was asked for is in order, so it begins.
pub fn start(asked: Asked) -> u8 {
    let reporter = run::reporter(&asked.run);
    let runtime = match run::runtime() {
        Ok(runtime) => runtime,
        Err(failure) => {
            reporter.failure(&failure);
            return failure.exit_code();
        }
    };
    let code = runtime.block_on(run_flow(asked, reporter));
    // A thread that still reads stdin must not hold up the end.
    runtime.shutdown_background();
    code
}

async fn run_flow(mut asked: Asked, reporter: Reporter) -> u8 {
    let stop = Stop::default();
    let signalled = signals::listen(stop.clone());
    let ids = match identity() {
        Ok(ids) => ids,
        Err(failure) => {
            reporter.failure(&failure);
            return failure.exit_code();
        }
    };
    let source = Source::of(&mut asked);
    let run_id = run_id(&asked, &source, ids.session);
    reporter.note(&format!("run: {run_id}"));
    let stdout = Arc::new(Stdout::for_lines(reporter, stop.clone()));
    let progress = Arc::new(Progress::new(reporter, asked.format));
    let output = Arc::new(FlowOutput::new(Arc::clone(&stdout), asked.format, Arc::clone(&progress)));
    let events = FlowEmitter::new(&run_id, Arc::clone(&output) as Arc<dyn FlowSink>);
    let events = Arc::new(if asked.run.include_hook_events { events.with_hooks() } else { events });
    let here = surroundings::collect(asked.run.cwd.as_deref());
    let mut warnings = Vec::new();
    let loaded = run::load_settings(&asked.run, &here);
    let settings = loaded.as_ref().ok().map(|loaded| &loaded.settings);
    if let (Ok(Source { found: Some(found), .. }), Some(settings)) = (&source, settings) {
        flow_resume::restore_flags(&mut asked.run, &found.given, settings);
    }
    let telemetry = Telemetry::start(&asked.run, settings, &here, &ids, &mut warnings);
    let surrounding =
        Surrounding { stop: &stop, reporter, ids: &ids, telemetry: &telemetry, events: &events };
    // Of a run that is refused, what it has used so far is told all the same.
    let before = source.as_ref().ok().and_then(|source| RunView::of(&source.found.as_ref()?.stored).ok());
    let mut spent = before.map(|view| view.spent).unwrap_or_default();
    let prepared = match (source, loaded) {
        (Ok(source), Ok(loaded)) => match source.again(&asked, &events, reporter) {
            Ok(Some(outcome)) => Ok(Ready::Over(Box::new(outcome))),
            Ok(None) => {
                prepare(&asked, source, loaded, &run_id, &surrounding, &mut warnings, &mut spent).await
            }
            Err(failure) => Err(failure),
        },
        (Err(failure), _) | (_, Err(failure)) => Err(failure),
    };
    let ended = match prepared {
        Ok(Ready::Run(prepared)) => prepared.go(Arc::clone(&events), &stop, &progress).await,
        Ok(Ready::Print(document)) => {
            stdout.last_line(document.into_bytes());
            Ended {
                failure: None,
                status: WorkflowStatus::Completed,
                outcome: None,
                spec: None,
                wanted: None,
            }
        }
        Ok(Ready::Over(outcome)) => {
            Ended { failure: None, status: outcome.status, outcome: Some(*outcome), spec: None, wanted: None }
        }
        Err(failure) => {
            warnings.iter().for_each(|warning| reporter.warn(warning));
            let status = goal::status_of(&failure);
            output.failed_early(&events, Report::failed_early(&run_id, &failure, status, &spent));
            Ended { failure: Some(failure), status, outcome: None, spec: None, wanted: None }
        }
    };
    let written = stdout.finish(&signalled).await;
    progress.finish(ended.outcome.as_ref());
    tell_unwritten(&written, ended.failure.as_ref());
    last_words::none();
    ended.hint(&run_id, &written);
    let code = exit_code_of_flow(ended.status, ended.failure.as_ref(), &written);
    telemetry.finish(reporter).await;
    code
}

/// Where a run comes from, and where it is kept. Known before anything is read.
pub struct Source {
    pub journal: Option<Journal>,
    pub found: Option<Found>,
}

impl Source {
    /// A run that goes on does so in its own folder.
    fn of(asked: &mut Asked) -> Result<Source, Failure> {
        let here = surroundings::collect(asked.run.cwd.as_deref());
        match (&asked.task, asked.keep) {
            (Task::Resume(resume), _) => {
                let journal = flow_journal::existing(&here)?;
                let found = flow_resume::find(journal.as_ref(), &resume.run)?;
                asked.run.cwd = Some(PathBuf::from(&found.stored.run.cwd));
                Ok(Source { journal, found: Some(found) })
            }
            (Task::Goal(task), _) if task.then == Then::Print => Ok(Source { journal: None, found: None }),
            (_, Keep::Nothing) => Ok(Source { journal: None, found: None }),
            (_, Keep::Journal) => {
                let journal = flow_journal::open(&here)?;
                // A name that is taken is told before a plan is paid for.
                if let Some(id) = asked.run_id.as_ref().filter(|id| journal.state(id).is_ok()) {
                    return Err(flow_journal::failure(&JournalError::Exists { id: id.clone() }));
                }
                Ok(Source { journal: Some(journal), found: None })
            }
        }
    }

    /// A run that had completed, told once more.
    fn again(
        &self,
        asked: &Asked,
        events: &FlowEmitter,
        reporter: Reporter,
    ) -> Result<Option<WorkflowOutcome>, Failure> {
        let (Task::Resume(resume), Some(found)) = (&asked.task, &self.found) else { return Ok(None) };
        if !flow_resume::is_shown_again(found, resume) {
            return Ok(None);
        }
        flow_resume::note_if_changed(found, reporter);
        let flow = Arc::new(flow_resume::pinned(found)?);
        let spec = RunSpec::new(flow, &found.stored.run.id, found.given.inputs.clone());
        let past = Past::of(&found.stored).map_err(|error| flow_journal::failure(&error))?;
        Ok(show_again(&spec, &past, events))
    }
}

fn run_id(asked: &Asked, source: &Result<Source, Failure>, session: Id) -> String {
    match (&asked.task, source) {
        (_, Ok(Source { found: Some(found), .. })) => found.stored.run.id.clone(),
        // Nothing is known of a run that is not there but what it was called.
        (Task::Resume(Resume { run, .. }), _) if flow_usage::is_run_id(run) => run.clone(),
        _ => asked.run_id.clone().unwrap_or_else(|| run_id_of(session)),
    }
}

/// What is left to be done when everything is found to be in order.
pub enum Ready {
    Run(Box<Prepared>),
    /// There was only a plan to be made.
    Print(String),
    /// It was all done before.
    Over(Box<WorkflowOutcome>),
}

/// A run that is about to begin.
pub struct Prepared {
    pub spec: RunSpec,
    pub parts: StepParts,
    pub planned: Rest,
    pub log: Arc<dyn StepLog>,
    pub kept: Option<Kept>,
}

/// What is put away after the run.
pub struct Rest {
    pub ending: Ending,
    pub hooks: tenon_tools::Hooks,
    pub recorder: Option<Arc<tenon_model::Recorder>>,
    pub reporter: Reporter,
    pub stop: Stop,
    pub scratch: PathBuf,
    /// Where commands are written down while they run.
    pub commands: Option<CommandBook>,
    /// Of a run that is kept.
    pub folder: Option<RunFolder>,
    /// Steps are made from what it holds.
    pub _registry: tenon_tools::Registry,
}

impl Rest {
    /// Nothing will run after all.
    pub async fn instead_of_run(self, failure: Failure) -> Failure {
        flow_hooks::at_end(&self.hooks, WorkflowStatus::Failed, &self.stop, self.reporter).await;
        self.ending.mcp.stop().await;
        tidy(&self.scratch, self.folder.as_ref());
        failure
    }

    pub async fn without_run(self, document: String) -> Result<Ready, Failure> {
        let recorded = self.recorder.as_ref().map_or(Ok(()), |recorder| recorder.check());
        match recorded {
            Ok(()) => {
                flow_hooks::at_end(&self.hooks, WorkflowStatus::Completed, &self.stop, self.reporter).await;
                self.ending.mcp.stop().await;
                Ok(Ready::Print(document))
            }
            Err(error) => Err(self.instead_of_run(error.into()).await),
        }
    }
}

struct Ended {
    status: WorkflowStatus,
    /// Why it ended as it did, when that was not up to the steps.
    failure: Option<Failure>,
    outcome: Option<WorkflowOutcome>,
    /// Of a run that is kept, and so can be gone on with.
    spec: Option<RunSpec>,
    /// Dollars that its budget would have had to be above.
    wanted: Option<f64>,
}

impl Ended {
    /// How to go on with a run that is not done, or to have the result of one that nobody could read.
    fn hint(&self, run_id: &str, written: &Written) {
        match (&self.spec, &self.outcome) {
            (Some(spec), Some(outcome)) if self.status != WorkflowStatus::Completed => {
                flow_hint::tell(run_id, spec, outcome, self.wanted);
            }
            (Some(_), Some(_)) if !matches!(written, Written::All) => line(&flow_hint::unread(run_id)),
            _ => {}
        }
    }
}

impl Prepared {
    async fn go(self, events: Arc<FlowEmitter>, stop: &Stop, progress: &Arc<Progress>) -> Ended {
        let Prepared { spec, parts, planned, log, kept } = self;
        let stop_run = StopRun { stop: stop.clone(), ..StopRun::default() };
        let ticking = tokio::spawn(Arc::clone(progress).tick());
        let cancelling = kept
            .as_ref()
            .map(|kept| tokio::spawn(Kept::stop_when_cancelled(Arc::clone(&kept.lease), stop.clone())));
        let budget = Arc::clone(&parts.template.budget);
        let run_id = events.run_id().to_owned();
        if kept.is_some() {
            let run_id = run_id.clone();
            last_words::are(move || flow_hint::cut_off(&run_id));
        }
        let outcome = tenon_flow::run(spec.clone(), parts, events, log, stop_run).await;
        ticking.abort();
        if let Some(cancelling) = cancelling {
            cancelling.abort();
        }
        let spec = kept.is_some().then_some(spec);
        if let Some(kept) = kept {
            kept.finish(&outcome, planned.reporter).await;
            if outcome.status == WorkflowStatus::Completed {
                last_words::are(move || flow_hint::unread(&run_id));
            }
        }
        let Rest { ending, hooks, recorder, reporter, scratch, folder, commands, _registry, .. } = planned;
        let mut failure = (outcome.status == WorkflowStatus::Cancelled).then(|| stop.failure());
        let mut status = outcome.status;
        if let Some(Err(error)) = recorder.map(|recorder| recorder.check()) {
            failure.get_or_insert(Failure::from(error));
            status = WorkflowStatus::Failed;
        }
        flow_hooks::at_end(&hooks, status, stop, reporter).await;
        ending.mcp.stop().await;
        if let Some(commands) = commands {
            commands.put_away();
        }
        // A run that can be gone on with finds there what its steps were working in.
        if spec.is_none() || status == WorkflowStatus::Completed {
            tidy(&scratch, folder.as_ref());
        }
        Ended { status, failure, outcome: Some(outcome), spec, wanted: budget.wanted() }
    }
}

fn tidy(scratch: &Path, folder: Option<&RunFolder>) {
    remove_empty(scratch);
    if let Some(folder) = folder {
        folder.tidy();
    }
}

fn identity() -> Result<Identity, Failure> {
    let mut seed = [0; 16];
    getrandom::fill(&mut seed).map_err(|error| {
        Failure::new(ErrorClass::Internal, format!("the system gave no random numbers: {error}"))
    })?;
    let source = Arc::new(IdSource::new(Id::from_random(seed)));
    Ok(Identity { session: source.next(), source })
}

fn run_id_of(id: Id) -> String {
    let digits: String = id.to_string().chars().rev().filter(|c| *c != '-').take(2 * RUN_ID_BYTES).collect();
    format!("run_{digits}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_id_has_sixteen_digits() {
        let id = run_id_of(Id::from_random([7; 16]));
        assert!(id.starts_with("run_") && id.len() == 20, "{id}");
        assert!(id[4..].chars().all(|c| c.is_ascii_hexdigit()));
    }
}

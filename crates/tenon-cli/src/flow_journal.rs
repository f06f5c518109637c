//! Where workflow runs are kept: `runs.db` in tenon's home. Opening it, what its problems mean for the command line, and a run
//! that is kept while it goes on. How a run is gone on with is `flow_resume.rs`; looking at runs is `flow_runs.rs`.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tenon_agent::Stop;
use tenon_config::{Settings, Surroundings};
use tenon_core::{ErrorClass, Failure, Signal};
use tenon_flow::{Journal, JournalError, Lease, Retention, RunState, WorkflowOutcome};
use tenon_tools::CommandBook;

use crate::flow_folder::RunFolder;
use crate::stderr::Reporter;

const FILE: &str = "runs.db";
const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// The file of all runs; `None` without a home.
pub fn path(here: &Surroundings) -> Option<PathBuf> {
    here.tenon_home.as_ref().map(|home| home.join(FILE))
}

/// Opens the journal for a run. One that cannot be kept is refused before anything is paid for.
pub fn open(here: &Surroundings) -> Result<Journal, Failure> {
    const HINT: &str = "`--no-journal` runs it and keeps nothing; `TENON_HOME` names another folder";
    let Some(path) = path(here) else {
        return Err(Failure::new(
            ErrorClass::Input,
            "the run cannot be kept: neither `TENON_HOME` nor `HOME` is set",
        )
        .hint(HINT));
    };
    Journal::open(&path).map_err(|error| {
        Failure::new(ErrorClass::Input, format!("the run cannot be kept: {error}"))
            .hint(error.hint().unwrap_or(HINT))
    })
}

/// Opens the journal to look at runs. `None`: there is none, so there are no runs.
pub fn existing(here: &Surroundings) -> Result<Option<Journal>, Failure> {
    match path(here).filter(|path| path.exists()) {
        Some(path) => Journal::open(&path).map(Some).map_err(|error| failure(&error)),
        None => Ok(None),
    }
}

/// Where the commands of a run are written down while they run.
pub fn commands(here: &Surroundings, run_id: &str) -> Option<CommandBook> {
    let home = here.tenon_home.as_ref()?;
    Some(CommandBook::at(RunFolder::in_home(home, run_id).commands()))
}

/// Ends what a process that is gone left running of a run. How many commands that were.
pub fn end_left_over(here: &Surroundings, run_id: &str) -> usize {
    let Some(book) = commands(here, run_id) else { return 0 };
    let ended = book.end_left_over();
    book.put_away();
    ended
}

/// What is wrong with a run that was named, or with the journal.
pub fn failure(error: &JournalError) -> Failure {
    let failure = Failure::new(ErrorClass::Input, error.to_string());
    match error.hint() {
        Some(hint) => failure.hint(hint),
        None => failure,
    }
}

/// A run that is being kept.
pub struct Kept {
    pub journal: Journal,
    pub lease: Arc<Lease>,
    /// 0 keeps runs for ever.
    pub retention_days: u32,
}

impl Kept {
    pub fn new(journal: Journal, lease: Arc<Lease>, settings: &Settings) -> Kept {
        Kept { journal, lease, retention_days: settings.runs.retention_days() }
    }

    /// Stops the run when another process asks for it. It ends with the run.
    pub async fn stop_when_cancelled(lease: Arc<Lease>, stop: Stop) {
        let mut cancelled = lease.cancelled();
        if cancelled.wait_for(|wanted| *wanted).await.is_ok() {
            stop.now(Failure::new(
                ErrorClass::Interrupted(Signal::Int),
                "the run was stopped by `tenon flow cancel`",
            ));
        }
    }

    /// Writes how the run ended, and removes runs that are older than they are kept. The result is out by now.
    pub async fn finish(self, outcome: &WorkflowOutcome, reporter: Reporter) {
        let Kept { journal, lease, retention_days } = self;
        let state = RunState::Ended(outcome.status);
        if let Err(error) = lease.finish(state, outcome.spent.cost_usd).await {
            reporter.warn(&format!("how the run ended is not kept, so it counts as interrupted: {error}"));
        }
        if retention_days > 0 {
            // The next run has another chance.
            let removed = journal.retain(Retention { age: DAY * retention_days }).unwrap_or_default();
            removed.iter().for_each(|id| RunFolder::of(&journal, id).remove());
        }
    }
}

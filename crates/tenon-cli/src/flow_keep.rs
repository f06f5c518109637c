//! A run's place in the journal: begun, taken up again, or held while its plan is still being made.
//!
//! Opening the journal and what its problems mean is `flow_journal.rs`; which run and which document is `flow_resume.rs`.

use std::sync::Arc;

use tenon_agent::Stop;
use tenon_config::Settings;
use tenon_core::{Failure, Models, Secrets};
use tenon_flow::{
    Given, Journal, JournalError, JournalLog, LoadedWorkflow, NewDocument, NewRun, NoLog, Past, PlanLog,
    Resumed, RunSpec, RunState, Segment, Spent, StepLog, Turns, WorkflowStatus,
};
use tokio::task::JoinHandle;

use crate::flow_journal::{self, Kept};
use crate::flow_resume::{self, Changed, Continued};
use crate::stderr::Reporter;

/// What a run needs to be kept.
pub struct Keeping<'a> {
    /// Nothing is kept without one.
    pub journal: Option<Journal>,
    pub given: Given,
    /// Of a run that goes on: what is said otherwise this time, and holds from now on.
    pub given_anew: Option<Given>,
    pub secrets: Secrets,
    pub settings: &'a Settings,
    /// The folder that the run works in.
    pub cwd: String,
}

/// Where a run's steps are kept, and the run's place there.
pub type KeptRun = (Arc<dyn StepLog>, Option<Kept>);

/// Whether a plan was begun before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlanBegan {
    Now,
    Before,
}

impl Keeping<'_> {
    /// Begins the run in the journal, or takes it up again.
    pub async fn start(
        self,
        spec: &RunSpec,
        continued: Option<Continued>,
        models: &Models,
    ) -> Result<KeptRun, Failure> {
        let Keeping { journal, given, given_anew, secrets, settings, cwd } = self;
        let Some(journal) = journal else { return Ok((Arc::new(NoLog), None)) };
        let root = Arc::clone(&spec.workflow);
        let id = spec.place.segments().first().map(Segment::id).unwrap_or_default();
        let (lease, log) = match continued {
            None => {
                let document = flow_resume::new_document(&root)?;
                let run = new_run(id, document, &given, cwd, &secrets);
                let lease = Arc::new(journal.begin(run).await.map_err(failed)?);
                (Arc::clone(&lease), JournalLog::new(lease, root, secrets))
            }
            Some(Continued { instead, changed, .. }) => {
                let (lease, stored) = journal.take(id).await.map_err(failed)?;
                let (lease, mut past) = (Arc::new(lease), Past::of(&stored).map_err(failed)?);
                if changed == Changed::Yes {
                    past.fit(spec);
                }
                let (models, given) = (models.clone(), given_anew);
                let resumed = Resumed { past, models, document: instead, given };
                let log = JournalLog::resume(Arc::clone(&lease), root, secrets, resumed);
                (lease, log.await.map_err(failed)?)
            }
        };
        Ok((Arc::new(log), Some(Kept::new(journal, lease, settings))))
    }

    /// Gives the run its place before its plan is made, or takes it up where that was cut off.
    pub async fn plan(
        &self,
        run_id: &str,
        began: PlanBegan,
        models: &Models,
        stop: &Stop,
    ) -> Result<Planning, Failure> {
        let Some(journal) = &self.journal else { return Ok(Planning { log: None, cancelling: None }) };
        let secrets = self.secrets.clone();
        let log = match began {
            PlanBegan::Now => {
                let document =
                    NewDocument { name: "goal".to_owned(), hash: String::new(), document: String::new() };
                let run = new_run(run_id, document, &self.given, self.cwd.clone(), &secrets);
                PlanLog::new(Arc::new(journal.begin(run).await.map_err(failed)?), secrets)
            }
            PlanBegan::Before => {
                let (lease, stored) = journal.take(run_id).await.map_err(failed)?;
                let given = self.given_anew.clone();
                PlanLog::resume(Arc::new(lease), secrets, &stored, models, given).await.map_err(failed)?
            }
        };
        let cancelling = tokio::spawn(Kept::stop_when_cancelled(Arc::clone(log.lease()), stop.clone()));
        Ok(Planning { log: Some(log), cancelling: Some(cancelling) })
    }

    /// The run begins with the plan that was made in its place.
    pub fn planned(self, planning: Planning, root: &Arc<LoadedWorkflow>) -> KeptRun {
        let Keeping { journal, secrets, settings, .. } = self;
        match (journal, planning.log.as_ref().map(|log| Arc::clone(log.lease()))) {
            (Some(journal), Some(lease)) => {
                let log = JournalLog::new(Arc::clone(&lease), Arc::clone(root), secrets);
                (Arc::new(log), Some(Kept::new(journal, lease, settings)))
            }
            _ => (Arc::new(NoLog), None),
        }
    }
}

/// A plan that is being made, in the journal where there is one.
pub struct Planning {
    log: Option<PlanLog>,
    cancelling: Option<JoinHandle<()>>,
}

impl Planning {
    pub fn turns(&self) -> Turns {
        self.log.as_ref().map_or_else(Turns::none, PlanLog::turns)
    }

    /// What earlier planners of this run had cost that came to nothing.
    pub fn given_up(&self) -> Spent {
        self.log.as_ref().map(PlanLog::given_up).unwrap_or_default()
    }

    pub fn is_kept(&self) -> bool {
        self.log.is_some()
    }

    /// From here on it need not be paid for again.
    pub async fn made(&self, flow: &LoadedWorkflow, spent: &Spent) -> Result<(), Failure> {
        let Some(log) = &self.log else { return Ok(()) };
        log.made(flow_resume::new_document(flow)?, spent).await.map_err(failed)
    }

    /// There is no plan. The reason is told anyway.
    pub async fn failed(&self, failure: &Failure, spent: &Spent, reporter: Reporter) {
        if let Some(log) = &self.log
            && let Err(error) = log.failed(failure, spent).await
        {
            reporter.warn(&format!("how planning ended is not kept: {error}"));
        }
    }

    /// It is not run now.
    pub async fn leave(self, status: WorkflowStatus, spent: &Spent, reporter: Reporter) {
        let Some(log) = &self.log else { return };
        let finished = log.lease().finish(RunState::Ended(status), spent.cost_usd).await;
        if let Err(error) = finished {
            reporter.warn(&format!("how the run ended is not kept, so it counts as interrupted: {error}"));
        }
    }
}

impl Drop for Planning {
    fn drop(&mut self) {
        if let Some(cancelling) = &self.cancelling {
            cancelling.abort();
        }
    }
}

fn new_run(id: &str, document: NewDocument, given: &Given, cwd: String, secrets: &Secrets) -> NewRun {
    let NewDocument { name, hash, document } = document;
    NewRun {
        id: id.to_owned(),
        name,
        document_hash: hash,
        document: secrets.hide(&document).into_owned(),
        inputs: secrets.hide(&given.to_json()).into_owned(),
        cwd,
    }
}

fn failed(error: JournalError) -> Failure {
    flow_journal::failure(&error)
}

//! `tenon flow resume`: which run, with which document, and what would be run again if that is another one.
//!
//! Pinned with the run are its document, inputs, context, folder and the model that `-m` named; everything else is said anew.
//! The run itself goes on in `flow_run.rs`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tenon_config::{Settings, Surroundings, names_provider};
use tenon_core::{ErrorClass, Failure};
use tenon_flow::{
    Given, Journal, JournalError, LoadError, LoadOptions, LoadedStep, LoadedWorkflow, NewDocument, NotKept,
    Past, Pinned, RunSpec, RunState, StepBody, StoredRun, Wanted, Was, WorkflowStatus, load, load_pinned,
};

use crate::args::RunArgs;
use crate::flow_journal::failure;
use crate::flow_usage::{PlanApproval, Resume, WhichDocument};
use crate::goal_args::{self, GoalTask, Then};
use crate::stderr::Reporter;
use crate::{flow_command, flow_inputs, flow_journal};

/// Names under which flags are kept with a run.
const MODEL: &str = "model";
const BASE_URL: &str = "base_url";
const API_KEY_ENV: &str = "api_key_env";
const AUTH_TYPE: &str = "auth_type";
/// Of a run whose document a model makes: what for, where it goes, and whether nobody need be asked.
const GOAL: &str = "goal";
const SAVE: &str = "save";
const APPROVED: &str = "approved";
/// And the folder below which its steps have copies of the repository.
const SCRATCH: &str = "scratch";
/// How such a folder is called.
pub const SCRATCH_PREFIX: &str = "tenon-";

/// A run to go on with.
pub struct Found {
    pub stored: StoredRun,
    pub given: Given,
}

/// What it goes on with.
pub struct Continued {
    pub flow: Arc<LoadedWorkflow>,
    /// When the run is to be pinned to it from now on.
    pub instead: Option<NewDocument>,
    pub changed: Changed,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Changed {
    Yes,
    No,
}

/// Finds the run. What is wrong with it is told before anything is read or paid for.
pub fn find(journal: Option<&Journal>, wanted: &str) -> Result<Found, Failure> {
    let unknown = || failure(&JournalError::Unknown { id: wanted.to_owned() });
    let journal = journal.ok_or_else(unknown)?;
    let id = journal.find(wanted).map_err(|error| failure(&error))?;
    if let Some(pid) = journal.holder(&id).map_err(|error| failure(&error))? {
        return Err(failure(&JournalError::Held { id, pid }));
    }
    let stored = journal.load(&id).map_err(|error| failure(&error))?;
    let given = Given::of(&stored).map_err(|error| failure(&error))?;
    if !Path::new(&stored.run.cwd).is_dir() {
        let message = format!("the folder of the run is gone: `{}`", stored.run.cwd);
        return Err(Failure::new(ErrorClass::Input, message));
    }
    Ok(Found { stored, given })
}

/// A run that completed is shown again, whatever has become of its document, unless another one is asked for.
pub fn is_shown_again(found: &Found, asked: &Resume) -> bool {
    found.stored.state == RunState::Ended(WorkflowStatus::Completed)
        && asked.file.is_none()
        && asked.document != WhichDocument::Accepted
}

/// Says so where the document of a run that completed is another one by now: what is shown is not what it would do.
pub fn note_if_changed(found: &Found, reporter: Reporter) {
    let Ok(own) = pinned(found) else { return };
    let file = own.pinned.path.display();
    let message = match load(&own.pinned.path, &flow_command::load_options()) {
        Ok(now) if now.hash == found.stored.run.document_hash => return,
        Ok(_) | Err(LoadError::Invalid(_)) => format!("`{file}` has changed since the run completed"),
        Err(LoadError::Unreadable { .. }) => return,
    };
    reporter.note(&format!(
        "{message}; this is what came of it as it was (`--accept-changes` runs what has changed)"
    ));
}

/// The document as the run holds it.
pub fn pinned(found: &Found) -> Result<LoadedWorkflow, Failure> {
    let pinned = Pinned::from_json(&found.stored.run.document)
        .map_err(|error| Failure::new(ErrorClass::Input, error.to_string()))?;
    load_pinned(&pinned, &flow_command::load_options()).map_err(|error| {
        Failure::new(
            ErrorClass::Config,
            format!("the document that the run began with is not valid here: {error}"),
        )
    })
}

/// Settles which document it is. Another one than the run's own needs to be accepted.
pub fn document(
    found: &Found,
    asked: &Resume,
    started_in: &Path,
    options: &LoadOptions,
    reporter: Reporter,
) -> Result<Continued, Failure> {
    let own = pinned(found)?;
    let as_it_was = |flow| Ok(Continued { flow: Arc::new(flow), instead: None, changed: Changed::No });
    if asked.document == WhichDocument::Pinned {
        return as_it_was(own);
    }
    let now = match &asked.file {
        Some(file) => flow_command::read_document(&started_in.join(file), file, options, reporter)?,
        None => match load(&own.pinned.path, options) {
            Ok(flow) => flow,
            Err(LoadError::Unreadable { .. }) => {
                let file = own.pinned.path.display();
                reporter.note(&format!("`{file}` is gone; the run goes on with the document it began with"));
                return as_it_was(own);
            }
            Err(error @ LoadError::Invalid(_)) => {
                let message = format!("the document has changed and is not valid: {error}");
                return Err(Failure::new(ErrorClass::Input, message)
                    .hint("`--pinned` goes on with the document that the run began with"));
            }
        },
    };
    if now.hash == found.stored.run.document_hash && asked.file.is_none() {
        // As the file has it: what is kept may lack words that are keys.
        return as_it_was(now);
    }
    let instead = (now.pinned != own.pinned).then(|| new_document(&now)).transpose()?;
    let flow = Arc::new(now);
    if flow.hash == found.stored.run.document_hash {
        return Ok(Continued { flow, instead, changed: Changed::No });
    }
    let mut past = Past::of(&found.stored).map_err(|error| failure(&error))?;
    let inputs = flow_inputs::again(&found.given.inputs, &flow)?;
    let again = past.fit(&RunSpec::new(Arc::clone(&flow), &found.stored.run.id, inputs));
    let (cut_off, kept) = (past.cut_off(), past.completed());
    Difference { again: &again, cut_off, kept, before: &own, now: &flow }.tell();
    if asked.document != WhichDocument::Accepted {
        return Err(Failure::new(ErrorClass::Input, "the document has changed since the run began").hint(
            "`--accept-changes` goes on with it as it is now, `--pinned` with the one that the run began with",
        ));
    }
    Ok(Continued { flow, instead, changed: Changed::Yes })
}

/// Commands that the process before this one had started, and that its end did not end, are not to work beside the run.
pub fn end_left_over(here: &Surroundings, run_id: &str, reporter: Reporter) {
    match flow_journal::end_left_over(here, run_id) {
        0 => {}
        1 => reporter.note("a command of the run was still running after the process that had started it; it was ended"),
        many => reporter.note(&format!(
            "{many} commands of the run were still running after the process that had started them; they were ended"
        )),
    }
}

pub fn new_document(flow: &LoadedWorkflow) -> Result<NewDocument, Failure> {
    let document =
        flow.pinned.to_json().map_err(|error| Failure::new(ErrorClass::Input, error.to_string()))?;
    Ok(NewDocument { name: flow.workflow.name.clone(), hash: flow.hash.clone(), document })
}

/// What another document means for what was done.
struct Difference<'a> {
    /// What is not kept, with what was paid for in vain.
    again: &'a [NotKept],
    /// What goes on where it was cut off.
    cut_off: Vec<String>,
    kept: usize,
    before: &'a LoadedWorkflow,
    now: &'a LoadedWorkflow,
}

impl Difference<'_> {
    fn fate(&self, step: &NotKept) -> Fate {
        match (is_there(self.now, &step.step_id), step.wanted, step.was) {
            (false, _, _) => Fate::Gone,
            (true, Wanted::NoMore, _) => Fate::NotNeeded,
            (true, Wanted::Again, Was::Ended) => Fate::RunAgain,
            (true, Wanted::Again, Was::UnderWay) => Fate::BegunAgain,
            (true, Wanted::Again, Was::Settled) => Fate::AskedAgain,
        }
    }

    /// In one line, then step by step.
    fn tell(&self) {
        let fates: Vec<Fate> = self.again.iter().map(|step| self.fate(step)).collect();
        let is_new = |id: &&str| !self.before.steps.iter().any(|step| step.id == **id);
        let new: Vec<&str> = self.now.steps.iter().map(|step| step.id.as_str()).filter(is_new).collect();
        let mut counts: Vec<(usize, &str)> = Fate::ALL
            .iter()
            .map(|fate| (fates.iter().filter(|it| *it == fate).count(), fate.words()))
            .collect();
        counts.extend([(new.len(), "new"), (self.cut_off.len(), "gone on with")]);
        let mut parts: Vec<String> = Vec::new();
        for (count, what) in counts.into_iter().filter(|(count, _)| *count > 0) {
            parts.push(match count {
                1 => format!("1 step is {what}"),
                _ => format!("{count} steps are {what}"),
            });
        }
        parts.push(match self.kept {
            1 => "1 step is kept".to_owned(),
            kept => format!("{kept} steps are kept"),
        });
        let line = crate::stderr::line;
        line(&format!("the document has changed; {}", parts.join(", ")));
        for (NotKept { step_id, was, spent, .. }, fate) in self.again.iter().zip(fates) {
            let cost = spent.cost_usd.map(|cost| format!("${cost:.4}, ")).unwrap_or_default();
            let had = match was {
                Was::Settled => "its answer no longer holds".to_owned(),
                Was::Ended | Was::UnderWay => format!("had used {cost}{} tokens", spent.usage.total),
            };
            line(&format!("  step {step_id}: {} ({had})", fate.words()));
        }
        new.iter().for_each(|id| line(&format!("  step {id}: new")));
        self.cut_off.iter().for_each(|id| line(&format!("  step {id}: goes on where it was cut off")));
    }
}

/// What becomes of a step whose work is not kept.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fate {
    RunAgain,
    BegunAgain,
    AskedAgain,
    NotNeeded,
    Gone,
}

impl Fate {
    const ALL: [Fate; 5] = [Fate::RunAgain, Fate::BegunAgain, Fate::AskedAgain, Fate::NotNeeded, Fate::Gone];

    fn words(self) -> &'static str {
        match self {
            Fate::RunAgain => "run again",
            Fate::BegunAgain => "begun again",
            Fate::AskedAgain => "asked again",
            Fate::NotNeeded => "not needed any more",
            Fate::Gone => "no longer in the document",
        }
    }
}

/// Whether a document has a step that events call this, at whatever depth: `each[3].inner`, `refine.2.inner`, `deploy.check`.
fn is_there(flow: &LoadedWorkflow, step_id: &str) -> bool {
    let words = step_id.split('.').map(|word| word.split('[').next().unwrap_or_default());
    // Rounds are numbers, and a judge is its loop's.
    let ids = words.filter(|word| !word.chars().all(|c| c.is_ascii_digit()));
    let (mut steps, mut found): (&[LoadedStep], bool) = (&flow.steps, false);
    for id in ids {
        let Some(step) = steps.iter().find(|step| step.id == id) else {
            return found && id == "judge";
        };
        found = true;
        match &step.body {
            StepBody::Agent | StepBody::Approve(_) => steps = &[],
            StepBody::Loop(it) => steps = &it.steps,
            StepBody::Include(inner) => steps = &inner.steps,
        }
    }
    found
}

/// What is kept with a run: which model was named and how it is reached, and where its steps have their copies if that is not
/// in its own folder.
pub fn kept(run: &RunArgs, scratch: Option<&Path>) -> BTreeMap<String, String> {
    let mut kept = kept_of_model(run);
    kept.extend(scratch.map(|path| (SCRATCH.to_owned(), path.display().to_string())));
    kept
}

/// What is kept with a run that goes on, when another model is named this time, or another way to it.
pub fn given_anew(found: &Found, run: &RunArgs) -> Option<Given> {
    let mut given = found.given.clone();
    given.kept.retain(|name, _| ![MODEL, BASE_URL, API_KEY_ENV, AUTH_TYPE].contains(&name.as_str()));
    given.kept.extend(kept_of_model(run));
    (given != found.given).then_some(given)
}

fn kept_of_model(run: &RunArgs) -> BTreeMap<String, String> {
    let flags = [
        (MODEL, &run.model),
        (BASE_URL, &run.base_url),
        (API_KEY_ENV, &run.api_key_env),
        (AUTH_TYPE, &run.auth_type),
    ];
    let given = flags.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value.clone()?)));
    // An address with a name and a password in it is kept nowhere.
    given.filter(|(name, value)| name != BASE_URL || !value.contains('@')).collect()
}

/// The same of a goal.
pub fn kept_of_goal(task: &GoalTask, goal: &str, started_in: &Path) -> BTreeMap<String, String> {
    let mut kept = BTreeMap::from([(GOAL.to_owned(), goal.to_owned())]);
    if let Some(file) = &task.save {
        kept.insert(SAVE.to_owned(), started_in.join(file).display().to_string());
    }
    if task.then == Then::Run {
        kept.insert(APPROVED.to_owned(), "yes".to_owned());
    }
    kept
}

/// What a run was to plan that has no document yet.
pub fn goal_of(found: &Found, asked: &Resume) -> Result<GoalTask, Failure> {
    let kept = |name: &str| found.given.kept.get(name);
    let Some(goal) = kept(GOAL) else {
        let why = "it has neither a document nor a goal".to_owned();
        return Err(failure(&JournalError::Damaged { id: found.stored.run.id.clone(), seq: 0, why }));
    };
    if asked.file.is_some() || asked.document != WhichDocument::Same {
        let message =
            format!("the run `{}` has no document yet: its plan is still to be made", found.stored.run.id);
        return Err(Failure::new(ErrorClass::Input, message)
            .hint("leave out the file, `--accept-changes` and `--pinned`"));
    }
    Ok(GoalTask {
        text: Some(goal.clone()),
        then: then_of(found, asked),
        save: kept(SAVE).map(PathBuf::from),
        keep: goal_args::Keep::InHome,
    })
}

/// Whether somebody has to say that the plan is to be run.
pub fn then_of(found: &Found, asked: &Resume) -> Then {
    let is_approved = asked.approval == PlanApproval::Given
        || !found.given.kept.contains_key(GOAL)
        || found.given.kept.contains_key(APPROVED);
    if is_approved { Then::Run } else { Then::Ask }
}

/// The folder below which the run's steps have their copies, if it is one that tenon made.
pub fn scratch(given: &Given) -> Option<PathBuf> {
    let is_own = |path: &PathBuf| {
        path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(SCRATCH_PREFIX))
    };
    given.kept.get(SCRATCH).map(PathBuf::from).filter(is_own)
}

/// What was said about the model before holds, unless it is said anew. A name with a provider says everything.
pub fn restore_flags(run: &mut RunArgs, given: &Given, settings: &Settings) {
    if run.model.as_deref().is_some_and(|name| names_provider(name, settings)) {
        return;
    }
    let kept = |name: &str| given.kept.get(name).cloned();
    run.model = run.model.take().or_else(|| kept(MODEL));
    run.base_url = run.base_url.take().or_else(|| kept(BASE_URL));
    run.api_key_env = run.api_key_env.take().or_else(|| kept(API_KEY_ENV));
    run.auth_type = run.auth_type.take().or_else(|| kept(AUTH_TYPE));
}

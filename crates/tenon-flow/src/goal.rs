//! `tenon goal`: a model writes the document of a workflow that reaches a goal.
//!
//! The planner is an agent without tools whose answer has a contract, like that of any run: the schema is the published one of
//! documents, less what a plan may not decide (`goal/schema.rs`), and beyond it the answer has to pass every check that a
//! document passes before it runs (`goal/check.rs`). What is wrong is told to the model, which may repair its plan twice. What
//! it is told at first is in `goal/words.rs`. Showing a plan, asking for approval and running it are the caller's.

mod check;
mod schema;
mod words;

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::Value;
use tenon_agent::{
    Assignment, Audience, Cap, Folder, HowToAnswer, Limits, Replay, SetBy, Stop, run, system_prompt,
};
use tenon_contract::{Contract, Further, STRUCTURED_OUTPUT, Schema};
use tenon_core::{Ending, ErrorClass, Failure, Message, Sampling};

use crate::agent_step::StepParts;
use crate::yaml_text::to_yaml;
use crate::{LoadedWorkflow, ModelWish, Spent, Turns};
use check::Checks;
pub use schema::plan_schema;

/// Plans that may follow one that is not valid. A model that has not understood by then will not.
pub const MAX_REPAIRS: u32 = 2;
/// Reminders for a planner that answers in plain text.
const NUDGES: u32 = 1;
/// Every plan, every reminder, and one to spare.
const TURNS: u32 = MAX_REPAIRS + NUDGES + 2;
/// The planner's place in events and traces.
const CALL: &str = "plan";
/// The name of its kind, for hooks.
const KIND: &str = "planner";
/// How much of a goal stands above the plan made for it.
const SHOWN_GOAL_LINES: usize = 20;

/// What a workflow is to reach.
#[derive(Clone, Copy, Debug)]
pub struct Goal<'a> {
    pub text: &'a str,
    /// What every step will be told besides.
    pub context: Option<&'a str>,
    /// Where the document would stand.
    pub folder: &'a Path,
}

/// A workflow that a model has planned, and that can run.
#[derive(Clone, Debug)]
pub struct PlannedWorkflow {
    pub workflow: LoadedWorkflow,
    /// The document as the model wrote it.
    pub document: Value,
    /// What making it cost.
    pub spent: Spent,
    pub duration_ms: u64,
    /// Model requests that it took.
    pub turns: u32,
}

/// Why there is no plan.
#[derive(Clone, Debug)]
pub struct NoPlan {
    /// With everything that is wrong with the last plan, where there was one (`structured`).
    pub failure: Failure,
    pub spent: Spent,
}

/// Has the model that steps without a model of their own ask plan a workflow for the tools and permissions of `parts`.
/// `turns` is what its planner has done before, if it was cut off, and where its turns are kept.
pub async fn plan_goal(
    goal: Goal<'_>,
    parts: &StepParts,
    turns: Turns,
    stop: &Stop,
) -> Result<PlannedWorkflow, NoPlan> {
    let accepted = Arc::new(Mutex::new(None));
    let contract = match contract(goal, parts, &accepted) {
        Ok(contract) => contract,
        Err(failure) => return Err(NoPlan { failure, spent: Spent::default() }),
    };
    let model = match parts.models.model(&ModelWish::default(), None) {
        Ok(model) => model,
        Err(failure) => return Err(NoPlan { failure, spent: Spent::default() }),
    };
    let template = &parts.template;
    let answer = HowToAnswer::ByCalling(STRUCTURED_OUTPUT);
    let limits = Limits {
        turns: Cap::AtMost(TURNS),
        turns_set_by: SetBy::Agent,
        schema_retries: Cap::AtMost(MAX_REPAIRS),
        nudges: NUDGES,
        ..template.limits
    };
    let mut planner = template.agent(Assignment {
        call_id: CALL.to_owned(),
        kind: KIND.to_owned(),
        system: system_prompt(answer, &parts.memory, Some(&words::how_to_plan()), None),
        prompt: Message::user(words::task(goal, parts)),
        contract: Some(contract),
        model: Some(model),
        sampling: Sampling::default(),
        registry: parts.registry.with(|_| false),
        permissions: template.permissions.clone(),
        folder: Folder::OfTemplate,
        limits,
        journal: turns.journal,
        stop: stop.clone(),
        trace: parts.trace.as_ref().map(|trace| trace.call(CALL).agent()),
    });
    planner.replay = Replay::of(turns.records);
    // Nobody watches it being written, so what breaks off is asked for again.
    planner.audience = Audience::Whole;
    let outcome = run(planner, Arc::clone(&parts.sink)).await.outcome;
    let spent = Spent::of(&outcome);
    match &outcome.ending {
        Ending::Failure(failure) => Err(NoPlan { failure: told(failure), spent }),
        Ending::Success(_) => match accepted.lock().unwrap_or_else(PoisonError::into_inner).take() {
            Some((workflow, document)) => Ok(PlannedWorkflow {
                workflow,
                document,
                spent,
                duration_ms: outcome.duration_ms,
                turns: outcome.turns,
            }),
            None => {
                let failure = Failure::new(ErrorClass::Internal, "the plan that was accepted is gone");
                Err(NoPlan { failure, spent })
            }
        },
    }
}

impl PlannedWorkflow {
    /// The document for a file of this name: JSON if the name says so, else YAML under the goal as a comment.
    pub fn text_for(&self, file: &Path, goal: &str) -> String {
        if file.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("json")) {
            return format!("{:#}\n", self.document);
        }
        let mut text = String::from("# Planned by `tenon goal` for:\n");
        for line in goal.lines().take(SHOWN_GOAL_LINES) {
            let shown: String = line.chars().filter(|c| !c.is_control()).collect();
            text.push_str(format!("#   {shown}").trim_end());
            text.push('\n');
        }
        text.push_str(&to_yaml(&self.document));
        text
    }
}

/// The last plan that passed, and its document.
type Accepted = Arc<Mutex<Option<(LoadedWorkflow, Value)>>>;

fn contract(goal: Goal<'_>, parts: &StepParts, accepted: &Accepted) -> Result<Contract, Failure> {
    let schema = Schema::compile(&plan_schema().to_string()).map_err(|error| {
        Failure::new(ErrorClass::Internal, format!("the schema of plans is no contract: {error}"))
    })?;
    let checks = Checks {
        registry: parts.registry.clone(),
        permissions: parts.template.permissions.clone(),
        folder: goal.folder.to_owned(),
    };
    let accepted = Arc::clone(accepted);
    let further = Further::new(move |payload| match checks.check(payload.get()) {
        Ok(passed) => {
            *accepted.lock().unwrap_or_else(PoisonError::into_inner) = Some(passed);
            Vec::new()
        }
        Err(found) => found,
    });
    Ok(Contract { further: Some(further), ..Contract::structured_output(schema) })
}

/// The same failure in words about plans. Its class, and with it the exit code, stays.
fn told(failure: &Failure) -> Failure {
    let mut told = failure.clone();
    let hint = "say the goal more exactly or in smaller parts, or plan with another model (`-m`)";
    match failure.class {
        ErrorClass::SchemaRetries | ErrorClass::Turns => {
            let structured = failure.structured.as_ref();
            let attempts = structured.map_or(0, |structured| structured.attempts);
            let plural = if attempts == 1 { "" } else { "s" };
            told.message = format!("no valid plan was made in {attempts} attempt{plural}");
            let wrong = structured.map(|structured| structured.violations.as_slice()).unwrap_or_default();
            if let Some(first) = wrong.first() {
                let path = if first.path.is_empty() { "the plan" } else { first.path.as_str() };
                told.message.push_str(&format!("; of the last one: {path}: {}", first.message));
                match wrong.len() - 1 {
                    0 => {}
                    1 => told.message.push_str(" (and 1 more problem)"),
                    more => told.message.push_str(&format!(" (and {more} more problems)")),
                }
            }
            told.hint = Some(hint.to_owned());
        }
        ErrorClass::Contract => {
            told.message = format!("no plan was made: {}", failure.message);
            told.hint = Some(hint.to_owned());
        }
        ErrorClass::Refused | ErrorClass::Truncated => {
            told.message = format!("no plan was made: {}", failure.message);
        }
        _ => {}
    }
    told
}

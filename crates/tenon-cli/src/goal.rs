//! `tenon goal`: a plan is made, shown, kept and approved; then it is run like any document (`flow_run.rs`).
//!
//! How a model is brought to a valid plan is `tenon_flow::plan_goal`. Where plans are kept is in `goal_file.rs`, who is asked in
//! `goal_approval.rs`.

use std::path::PathBuf;
use std::time::Duration;

use tenon_agent::Stop;
use tenon_core::{ErrorClass, Failure};
use tenon_flow::{
    Goal, LoadedWorkflow, NoPlan, Plan, PlannedWorkflow, Spent, StepParts, ToolChoice, WorkflowStatus,
    plan_goal,
};

use crate::args::OutputFormat;
use crate::flow_command::{load_options, read_document};
use crate::flow_keep::Planning;
use crate::goal_approval::{self, Approval};
use crate::goal_args::{COMMAND, GoalArgs, GoalTask, Then};
use crate::goal_file::PlanFile;
use crate::stderr::{Level, Reporter, line};
use crate::{flow_hint, flow_run, goal_args, run, sys};

pub fn main(args: GoalArgs) -> u8 {
    match goal_args::check(args) {
        Ok(asked) => flow_run::start(asked),
        Err(error) => run::usage_error_of(COMMAND, &error),
    }
}

/// What there is when a plan is to be made.
pub struct Maker<'a> {
    pub task: &'a GoalTask,
    pub goal: &'a str,
    pub context: Option<&'a str>,
    pub parts: &'a StepParts,
    pub file: PlanFile,
    pub format: OutputFormat,
    pub run_id: &'a str,
    pub planning: Planning,
    pub stop: &'a Stop,
    pub reporter: Reporter,
}

pub enum Made {
    /// A document that somebody wants to be run, in the place that was held for it.
    Approved { flow: Box<LoadedWorkflow>, took: Duration, planning: Planning },
    /// What is to be printed instead.
    Printed(String),
}

impl Maker<'_> {
    /// `spent` is what the plan cost, whatever becomes of it.
    pub async fn make(self, spent: &mut Spent) -> Result<Made, Failure> {
        let folder = self.file.folder();
        let goal = Goal { text: self.goal, context: self.context, folder: &folder };
        self.reporter.note(&format!("goal: `{}` plans", self.parts.template.info.model));
        let before = self.planning.given_up();
        self.parts.template.budget.count(before.used());
        let planned = match plan_goal(goal, self.parts, self.planning.turns(), self.stop).await {
            Ok(planned) => planned,
            Err(NoPlan { failure, spent: used }) => {
                *spent = before;
                spent.add(&used);
                return Err(self.without_plan(failure, spent, &used).await);
            }
        };
        *spent = before;
        spent.add(&planned.spent);
        let took = Duration::from_millis(planned.duration_ms);
        if planned.turns > 1 {
            self.reporter.note(&format!("goal: the plan took {} turns of the model", planned.turns));
        }
        if self.task.then == Then::Print {
            told(&planned.workflow, self.task.then, self.reporter);
            let file = self.task.save.as_ref().map(|_| self.keep(&planned)).transpose()?;
            file.iter().for_each(|file| self.reporter.note(&format!("plan: {}", file.shown())));
            return Ok(Made::Printed(match self.format {
                OutputFormat::Text => planned.text_for(&PathBuf::from("plan.yaml"), self.goal),
                _ => format!("{}\n", planned.document),
            }));
        }
        let (file, flow) = match self.kept_and_read(&planned).await {
            Ok(kept) => kept,
            Err(failure) => {
                let told = self.failed(failure);
                self.planning.leave(WorkflowStatus::Failed, spent, self.reporter).await;
                return Err(told);
            }
        };
        told(&flow, self.task.then, self.reporter);
        if file.stays() {
            self.reporter.note(&format!("plan: {}", file.shown()));
        }
        let answer = match self.task.then {
            Then::Ask => goal_approval::ask(self.stop).await,
            Then::Run | Then::Print => Approval::Given,
        };
        let (is_kept, reporter) = (self.planning.is_kept(), self.reporter);
        let status = match answer {
            Approval::Given => {
                return Ok(Made::Approved { flow: Box::new(flow), took, planning: self.planning });
            }
            Approval::Refused | Approval::Stopped => WorkflowStatus::Cancelled,
            Approval::NobodyThere => WorkflowStatus::Suspended,
        };
        let mut failure = not_approved(answer, self.stop, &file.shown());
        let resumed = is_kept.then(|| flow_hint::to_approve(self.run_id));
        let ways: Vec<String> = file.keep_command().into_iter().chain(resumed).collect();
        failure.hint = (!ways.is_empty()).then(|| ways.join("; ")).or(failure.hint);
        self.planning.leave(status, spent, reporter).await;
        Err(failure)
    }

    /// The plan in its file, and in the journal.
    async fn kept_and_read(&self, planned: &PlannedWorkflow) -> Result<(PlanFile, LoadedWorkflow), Failure> {
        let file = self.keep(planned)?;
        let flow = read_document(file.path(), file.path(), &load_options(), self.reporter);
        file.put_away();
        let flow = flow?;
        self.planning.made(&flow, &planned.spent).await?;
        Ok((file, flow))
    }

    fn keep(&self, planned: &PlannedWorkflow) -> Result<PlanFile, Failure> {
        let named = self.file.named(&planned.workflow.workflow.name);
        named.write(&planned.text_for(named.path(), self.goal))?;
        Ok(named)
    }

    async fn without_plan(self, failure: Failure, spent: &Spent, own: &Spent) -> Failure {
        let wrong = failure.structured.iter().flat_map(|structured| &structured.violations);
        for violation in wrong {
            let path = if violation.path.is_empty() { "the plan" } else { violation.path.as_str() };
            line(&format!("{path}: {}", violation.message));
        }
        self.planning.failed(&failure, own, self.reporter).await;
        let told = self.failed(failure);
        self.planning.leave(status_of(&told), spent, self.reporter).await;
        told
    }

    /// With the line that goes on, where something is kept to go on with.
    fn failed(&self, failure: Failure) -> Failure {
        if !self.planning.is_kept() {
            return failure;
        }
        let line = match failure.class {
            ErrorClass::Interrupted(_)
            | ErrorClass::Budget
            | ErrorClass::BudgetUsd
            | ErrorClass::Auth
            | ErrorClass::RateLimited
            | ErrorClass::Overloaded
            | ErrorClass::Network => flow_hint::to_plan_on(self.run_id, self.parts.template.budget.wanted()),
            _ => flow_hint::to_plan_again(self.run_id),
        };
        let hint = match &failure.hint {
            Some(hint) => format!("{hint}; {line}"),
            None => line,
        };
        Failure { hint: Some(hint), ..failure }
    }
}

/// A plan that was made before, and that nobody has approved yet.
pub async fn approve_again(
    flow: &LoadedWorkflow,
    then: Then,
    run_id: &str,
    stop: &Stop,
    reporter: Reporter,
) -> Result<(), Failure> {
    told(flow, then, reporter);
    let answer = match then {
        Then::Ask => goal_approval::ask(stop).await,
        Then::Run | Then::Print => Approval::Given,
    };
    match answer {
        Approval::Given => Ok(()),
        _ => {
            let place = format!("it is in {}", flow.pinned.path.display());
            Err(not_approved(answer, stop, &place).hint(flow_hint::to_approve(run_id)))
        }
    }
}

fn not_approved(answer: Approval, stop: &Stop, place: &str) -> Failure {
    let why = match answer {
        Approval::Stopped => return stop.failure(),
        Approval::NobodyThere => "the plan was not approved, for there is no terminal to ask at",
        Approval::Refused | Approval::Given => "the plan was not approved",
    };
    Failure::new(ErrorClass::Input, format!("{why}: {place}"))
}

/// How a run stands that failed before its first step.
pub fn status_of(failure: &Failure) -> WorkflowStatus {
    match failure.class {
        ErrorClass::Interrupted(_) => WorkflowStatus::Cancelled,
        ErrorClass::Budget | ErrorClass::BudgetUsd => WorkflowStatus::BudgetExceeded,
        _ => WorkflowStatus::Failed,
    }
}

/// The steps and who does them, with what. Somebody who is asked sees it whatever the level.
fn told(flow: &LoadedWorkflow, then: Then, reporter: Reporter) {
    let somebody_is_asked = then == Then::Ask && goal_approval::can_ask();
    if reporter.level < Level::Normal && !somebody_is_asked {
        return;
    }
    flow.warnings.iter().for_each(|warning| reporter.note(&warning.to_string()));
    line("");
    let columns = sys::terminal_size(sys::Terminal::Stderr).map_or(usize::MAX, |size| size.columns);
    Plan::of_loaded(flow).draw_within(columns).lines().for_each(line);
    line("");
    for (name, agent) in &flow.workflow.agents {
        let tools = match &agent.tools {
            ToolChoice::All => "every tool of the run".to_owned(),
            ToolChoice::Only(names) if names.is_empty() => "no tools".to_owned(),
            ToolChoice::Only(names) => names.join(", "),
        };
        line(&format!("agent {name}: {} ({tools})", agent.description));
    }
}

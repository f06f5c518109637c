//! `tenon goal`: a plan is made, shown, kept and approved; then it is run like any document (`flow_run.rs`).
//!
//! How a model is brought to a valid plan is `tenon_flow::plan_goal`. Where plans are kept is in `goal_file.rs`, who is asked in
//! `goal_approval.rs`.

use std::path::PathBuf;
use std::time::Duration;

use tenon_agent::Stop;
use tenon_core::{ErrorClass, Failure};
use tenon_flow::{
    Goal, LoadedWorkflow, NoPlan, Plan, PlannedWorkflow, Spent, StepParts, ToolChoice, plan_goal,
};

use crate::args::OutputFormat;
use crate::goal_approval::{self, Approval};
use crate::goal_args::{COMMAND, GoalArgs, GoalTask, Then};
use crate::goal_file::PlanFile;
use crate::stderr::{Level, Reporter, line};
use crate::{flow_run, goal_args, run, sys};

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
    pub stop: &'a Stop,
    pub reporter: Reporter,
}

pub enum Made {
    /// A document that somebody wants to be run.
    Approved { file: PlanFile, took: Duration },
    /// What is to be printed instead.
    Printed(String),
}

impl Maker<'_> {
    /// `spent` is what the plan cost, whatever becomes of it.
    pub async fn make(self, spent: &mut Spent) -> Result<Made, Failure> {
        let folder = self.file.folder();
        let goal = Goal { text: self.goal, context: self.context, folder: &folder };
        self.reporter.note(&format!("goal: `{}` plans", self.parts.template.info.model));
        let planned = match plan_goal(goal, self.parts, self.stop).await {
            Ok(planned) => planned,
            Err(NoPlan { failure, spent: used }) => {
                *spent = used;
                return Err(self.without_plan(failure));
            }
        };
        *spent = planned.spent;
        let took = Duration::from_millis(planned.duration_ms);
        self.told(&planned.workflow, planned.turns);
        if self.task.then == Then::Print {
            let file = self.task.save.as_ref().map(|_| self.keep(&planned)).transpose()?;
            file.iter().for_each(|file| self.reporter.note(&format!("plan: {}", file.shown())));
            return Ok(Made::Printed(match self.format {
                OutputFormat::Text => planned.text_for(&PathBuf::from("plan.yaml"), self.goal),
                _ => format!("{}\n", planned.document),
            }));
        }
        let file = self.keep(&planned)?;
        if file.stays() {
            self.reporter.note(&format!("plan: {}", file.shown()));
        }
        if self.task.then == Then::Ask {
            match goal_approval::ask(self.stop).await {
                Approval::Given => {}
                Approval::Refused => return Err(self.not_approved(file, "the plan was not approved")),
                Approval::NobodyThere => {
                    let why = "the plan was not approved, for there is no terminal to ask at";
                    return Err(self.not_approved(file, why));
                }
                Approval::Stopped => {
                    let mut failure = self.stop.failure();
                    failure.hint = file.keep_command().or(failure.hint);
                    return Err(failure);
                }
            }
        }
        Ok(Made::Approved { file, took })
    }

    fn keep(&self, planned: &PlannedWorkflow) -> Result<PlanFile, Failure> {
        let named = self.file.named(&planned.workflow.workflow.name);
        named.write(&planned.text_for(named.path(), self.goal))?;
        Ok(named)
    }

    /// The steps and who does them, with what. Somebody who is asked sees it whatever the level.
    fn told(&self, flow: &LoadedWorkflow, turns: u32) {
        let somebody_is_asked = self.task.then == Then::Ask && goal_approval::can_ask();
        if self.reporter.level < Level::Normal && !somebody_is_asked {
            return;
        }
        if turns > 1 {
            self.reporter.note(&format!("goal: the plan took {turns} turns of the model"));
        }
        flow.warnings.iter().for_each(|warning| self.reporter.note(&warning.to_string()));
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

    fn without_plan(&self, failure: Failure) -> Failure {
        let wrong = failure.structured.iter().flat_map(|structured| &structured.violations);
        for violation in wrong {
            let path = if violation.path.is_empty() { "the plan" } else { violation.path.as_str() };
            line(&format!("{path}: {}", violation.message));
        }
        failure
    }

    fn not_approved(&self, file: PlanFile, why: &str) -> Failure {
        let failure = Failure::new(ErrorClass::Input, format!("{why}: {}", file.shown()));
        match file.keep_command() {
            Some(command) => failure.hint(command),
            None => failure,
        }
    }
}

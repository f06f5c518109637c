//! The command line of `tenon goal`, and what it asks for. What it does is in `goal.rs`.

use std::io::IsTerminal;
use std::path::PathBuf;

use clap::Args;
use tenon_core::{ErrorClass, Failure};

use crate::flow_args::FlowRunArgs;
use crate::flow_usage::{self, Asked, Task};
use crate::usage::UsageError;

pub const COMMAND: &str = "tenon goal";

/// Words are the goal.
#[derive(Debug, Args)]
pub struct GoalArgs {
    /// Run the plan without asking
    #[arg(long, help_heading = "Goal", conflicts_with = "plan_only")]
    pub yes: bool,
    /// Write the plan to this file, which must not be there; without it a file of its own in `plans` of the home folder
    #[arg(long, value_name = "FILE", help_heading = "Goal")]
    pub save: Option<PathBuf>,
    /// Print the plan, a workflow document, and run nothing
    #[arg(long, help_heading = "Goal")]
    pub plan_only: bool,
    #[command(flatten)]
    pub flow: FlowRunArgs,
}

/// A goal, and what is to become of the plan for it.
#[derive(Clone, Debug)]
pub struct GoalTask {
    /// Nothing: it comes on stdin.
    pub text: Option<String>,
    pub then: Then,
    pub save: Option<PathBuf>,
    pub keep: Keep,
}

/// What follows when there is a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Then {
    /// Somebody says whether it runs.
    Ask,
    Run,
    Print,
}

/// Whether a plan stays when nobody said where.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keep {
    InHome,
    /// `--no-journal`
    Nothing,
}

impl GoalTask {
    /// The goal, and what every step is to know besides.
    pub fn apart(&self, piped: Option<String>) -> Result<(String, Option<String>), Failure> {
        match (&self.text, piped) {
            (Some(text), piped) => Ok((text.clone(), piped)),
            (None, Some(piped)) => Ok((piped, None)),
            (None, None) => Err(Failure::new(ErrorClass::Input, "there is no goal: stdin is empty")
                .hint("`tenon goal \"…\"` takes it as words")),
        }
    }
}

pub fn check(args: GoalArgs) -> Result<Asked, UsageError> {
    let GoalArgs { yes, save, plan_only, flow } = args;
    if !flow.input.is_empty() || flow.inputs.is_some() {
        return Err(UsageError::new(
            "a plan has no inputs, so `tenon goal` takes neither `--input` nor `--inputs`",
        )
        .hint("say it in the goal, or pipe it to stdin for every step to know"));
    }
    let keep = if flow.no_journal { Keep::Nothing } else { Keep::InHome };
    let then = match (plan_only, yes) {
        (true, _) => Then::Print,
        (false, true) => Then::Run,
        (false, false) => Then::Ask,
    };
    let asked = flow_usage::take_apart(flow, COMMAND, |words| {
        let text = words.join(" ");
        let text = (!text.trim().is_empty()).then_some(text);
        if text.is_none() && std::io::stdin().is_terminal() {
            return Err(UsageError::new("`tenon goal` needs a goal").hint("`tenon goal \"…\"`"));
        }
        Ok((Task::Goal(GoalTask { text, then, save, keep }), None))
    })?;
    if plan_only && asked.format == crate::args::OutputFormat::StreamJson {
        return Err(UsageError::new("`--plan-only` runs nothing, so there are no events for `stream-json`")
            .hint("`-o json` prints the plan as JSON"));
    }
    Ok(asked)
}

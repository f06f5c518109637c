//! The command line of `tenon flow`. What the commands do is in `flow_command.rs`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

use crate::args::RunArgs;

#[derive(Debug, Subcommand)]
pub enum FlowCommand {
    /// Check documents and everything they refer to. Exit 0 if all are valid, 52 if not, 42 if one cannot be read
    Validate {
        /// Workflow documents, YAML or JSON
        #[arg(required = true, value_name = "FILE")]
        files: Vec<PathBuf>,
        /// For people, or one JSON object for editors
        #[arg(long, value_enum, default_value_t = ReportFormat::Text)]
        format: ReportFormat,
    },
    /// Draw the steps of a document and what depends on what
    Plan {
        /// A workflow document, YAML or JSON
        #[arg(value_name = "FILE")]
        file: PathBuf,
        /// What to draw it as
        #[arg(long, value_enum, default_value_t = PlanFormat::Text)]
        format: PlanFormat,
    },
    /// Run a document. Exit 0 if it completed, 1 if a step failed
    #[command(
        override_usage = "tenon flow run [OPTIONS] FILE [CONTEXT]...",
        help_template = crate::flow_help::RUN,
        mut_args(crate::flow_help::of_run)
    )]
    Run(FlowRunArgs),
    /// Go on with a run that stopped or was cut off. What is done is neither paid for nor done again
    #[command(
        override_usage = "tenon flow resume [OPTIONS] RUN [FILE]",
        help_template = crate::flow_help::RESUME,
        mut_args(crate::flow_help::of_resume)
    )]
    Resume(FlowResumeArgs),
    /// List runs, the latest first
    List {
        /// How many at most
        #[arg(long, value_name = "N", default_value_t = 50)]
        limit: usize,
        /// For people, or a JSON array
        #[arg(long, value_enum, default_value_t = ReportFormat::Text)]
        format: ReportFormat,
    },
    /// Show a run: its steps, how they stand, what they used
    Show {
        /// The run's id, or the beginning of it
        run: String,
        /// For people, or one JSON object
        #[arg(long, value_enum, default_value_t = ReportFormat::Text)]
        format: ReportFormat,
        /// Also prompts, answers and results
        #[arg(long)]
        payloads: bool,
        /// Write a page to look at in a browser, instead of printing
        #[arg(long, value_name = "FILE", conflicts_with = "format")]
        html: Option<PathBuf>,
    },
    /// Answer a question of a run, as the first or not at all. Exit 0 if it is answered so, 42 if it was answered otherwise
    #[command(
        override_usage = "tenon flow approve [OPTIONS] RUN STEP",
        mut_args(crate::flow_help::of_approve)
    )]
    Approve(FlowApproveArgs),
    /// Stop a run, also one of another process
    Cancel {
        /// The run's id, or the beginning of it
        run: String,
    },
    /// Delete runs and everything that is kept of them
    Delete {
        /// Ids, or the beginnings of ids
        #[arg(required = true, value_name = "RUN")]
        runs: Vec<String>,
    },
    /// Print everything that is kept of a run, one JSON object on each line. It holds prompts, answers and results
    Export {
        /// The run's id, or the beginning of it
        run: String,
    },
}

#[derive(Debug, Args)]
pub struct FlowApproveArgs {
    /// The run's id, or the beginning of it
    pub run: String,
    /// The step that asks, as `tenon flow show` calls it
    pub step: String,
    /// Say no
    #[arg(long)]
    pub deny: bool,
    /// What the step's `data` asks for: a JSON object
    #[arg(long, value_name = "JSON|@FILE")]
    pub data: Option<String>,
    /// Go on with the run at once; takes the flags of `tenon flow resume` too
    #[arg(short = 'r', long = "resume")]
    pub at_once: bool,
    /// With `--resume`, of the run that goes on.
    #[command(flatten)]
    pub go_on: FlowResumeArgs,
}

/// Words are the run and, where it is another one now, its document.
#[derive(Debug, Args)]
pub struct FlowResumeArgs {
    /// Go on with the document as it is now, and run again what it changes
    #[arg(long, help_heading = "Workflow")]
    pub accept_changes: bool,
    /// Go on with the document that the run began with, whatever has become of it
    #[arg(long, conflicts_with = "accept_changes", help_heading = "Workflow")]
    pub pinned: bool,
    /// Run the plan of a goal without asking, where nobody has approved it yet
    #[arg(long, help_heading = "Workflow")]
    pub yes: bool,
    /// Steps at a time, where the document does not say [default: 5]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..), help_heading = "Workflow")]
    pub max_concurrency: Option<u32>,
    /// Let an agent of its own listen from here on; a run that had one goes on with it
    #[arg(long, help_heading = "Workflow")]
    pub coordinator: bool,
    #[command(flatten)]
    pub run: Box<RunArgs>,
}

/// Words are the document and what every step is to know.
#[derive(Debug, Args)]
pub struct FlowRunArgs {
    /// A value for the document's `inputs`
    #[arg(long, value_name = "NAME=VALUE", help_heading = "Workflow")]
    pub input: Vec<String>,
    /// All of them: a JSON object
    #[arg(long, value_name = "JSON|@FILE", help_heading = "Workflow")]
    pub inputs: Option<String>,
    /// The run's own id, instead of a random one
    #[arg(long, value_name = "ID", help_heading = "Workflow")]
    pub run_id: Option<String>,
    /// Steps at a time, where the document does not say [default: 5]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..), help_heading = "Workflow")]
    pub max_concurrency: Option<u32>,
    /// Keep nothing of the run on disk: it cannot be resumed
    #[arg(long, help_heading = "Workflow")]
    pub no_journal: bool,
    /// Let an agent of its own listen, pass messages on and sum up; it costs requests
    #[arg(long, help_heading = "Workflow")]
    pub coordinator: bool,
    #[command(flatten)]
    pub run: Box<RunArgs>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum PlanFormat {
    /// Boxes for a terminal
    Text,
    Mermaid,
    Svg,
    /// The graph itself
    Json,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ReportFormat {
    Text,
    Json,
}

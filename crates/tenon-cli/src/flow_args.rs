//! The command line of `tenon flow`. What the commands do is in `flow_command.rs`.

use std::path::PathBuf;

use clap::{Subcommand, ValueEnum};

#[derive(Debug, Subcommand)]
pub enum FlowCommand {
    /// Check documents and everything they refer to. Exit 0 if all are valid, 52 if not
    Validate {
        /// Workflow documents, YAML or JSON
        #[arg(required = true, value_name = "FILE")]
        files: Vec<PathBuf>,
        /// For people, or one JSON object for editors
        #[arg(long, value_enum, default_value_t = ReportFormat::Text)]
        format: ReportFormat,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ReportFormat {
    Text,
    Json,
}

//! What `tenon flow run`, `tenon flow resume` and `tenon goal` say they take. Their flags are mostly those of a run (`args.rs`); what
//! such a flag or word means here is said here. Which flags are refused is `flow_usage.rs`.

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::{Arg, ValueEnum};

use crate::args::OutputFormat;
use crate::flow_usage::{hide_not_resumed, hide_not_taken};

/// The words of a command are of several kinds, which a list of arguments cannot tell apart.
macro_rules! template {
    ($words:literal) => {
        concat!(
            "{about-with-newline}\n{usage-heading} {usage}\n\nArguments:\n",
            $words,
            "\n{all-args}{after-help}"
        )
    };
}

pub const RUN: &str = template!(
    "  FILE        A workflow document, YAML or JSON
  CONTEXT...  What every step is to know; `-` reads it from stdin
"
);
pub const RESUME: &str = template!(
    "  RUN   The run's id, or the beginning of it
  FILE  Its document, where that is another file now
"
);
pub const GOAL: &str = template!(
    "  TEXT...  The goal; `-`, or no words, reads it from stdin
"
);

pub fn of_run(arg: Arg) -> Arg {
    of_workflow(hide_not_taken(arg))
}

pub fn of_resume(arg: Arg) -> Arg {
    of_workflow(hide_not_resumed(arg))
}

/// Flags of a run mean something only for one that goes on at once, and are told where that is.
pub fn of_approve(arg: Arg) -> Arg {
    match arg.get_id().as_str() {
        "run" | "step" | "deny" | "data" => arg,
        "at_once" => arg,
        // A run's flag for sessions, whose names are taken here.
        "resume" => arg.short(None).long("resume-session").hide(true).requires("at_once"),
        _ => arg.hide(true).requires("at_once"),
    }
}

fn of_workflow(arg: Arg) -> Arg {
    match arg.get_id().as_str() {
        "words" => arg.hide(true),
        "output_format" => arg.value_parser(format()),
        "channel" => arg.help("What the caller is called in telemetry"),
        "permission_prompt_tool" => arg
            .help("Who is asked when a call needs approval: a tool of an MCP server, `mcp__SERVER__TOOL`")
            .value_name("TOOL"),
        _ => arg,
    }
}

fn format() -> impl TypedValueParser<Value = OutputFormat> {
    let value = |name: &'static str, help: &'static str| PossibleValue::new(name).help(help);
    PossibleValuesParser::new([
        value("text", "The outputs of the run, and nothing else"),
        value("json", "One JSON object: status, outputs, every step, what it cost"),
        value("stream-json", "One JSON event per line, as they come; the last is the result"),
        // Refused with a word on why.
        PossibleValue::new("stream-chunk-json").hide(true),
    ])
    .try_map(|name| OutputFormat::from_str(&name, false))
}

//! The project's own chores: whole-program benchmarks, and the tests that are too long for every change.
//!
//! `bench.rs` says what is measured and what is good enough, `peers.rs` lists the long tests. Nothing here is
//! shipped.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a command line tool")]

mod bench;
mod concurrent;
mod greeting;
mod hints;
mod long_session;
mod many;
mod measure;
mod peers;
mod report;
mod search;
mod serve;
mod subject;
mod workflow;

use std::process::ExitCode;

const USAGE: &str = "\
usage: cargo run --release -p xtask -- COMMAND

  bench [OPTIONS]         measure the release binary against the same exchange done by `curl`
    --runs N              how often each thing is measured; medians are shown (30)
    --peer NAME=COMMAND   measure this shell command too (repeatable); it finds BASE_URL, PROMPT, SCHEMA,
                          SCHEMA_FILE, OUTPUT_FORMAT (`text` or `stream-json`) and OPENAI_* in its environment
    --binary FILE         measure this file instead of building `tenon`
    --check               exit 1 when a goal is missed

  bench local             measure the embedded model against llama.cpp on the same file

  peers [NAME]…           run the second tier of tests, or the named jobs of it
    --list                say which there are
    --binary FILE         (first) test this file instead of building `tenon`";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let (command, rest) = match args.split_first() {
        Some((command, rest)) => (command.as_str(), rest),
        None => ("", args.as_slice()),
    };
    let done = match command {
        "bench" if rest.first().is_some_and(|what| what == "local") => peers::embedded_bench::run(&rest[1..]),
        "bench" => bench::run(rest),
        "peers" => peers::run(rest),
        // Started by the others: the model server, many runs, a workflow, each in a process of its own.
        "serve" => serve::run(rest),
        "many" => many::run(rest),
        "workflow" => workflow::run(rest),
        "help" | "--help" | "-h" => {
            println!("{USAGE}");
            return ExitCode::SUCCESS;
        }
        other => Err(Failure::usage(format!("no such command: `{other}`"))),
    };
    match done {
        Ok(Verdict::Good) => ExitCode::SUCCESS,
        Ok(Verdict::Bad) => ExitCode::FAILURE,
        Err(Failure::Usage(message)) => {
            eprintln!("xtask: {message}\n\n{USAGE}");
            ExitCode::from(2)
        }
        Err(Failure::Other(message)) => {
            eprintln!("xtask: {message}");
            ExitCode::FAILURE
        }
    }
}

/// What a chore found out, when it could be done.
enum Verdict {
    Good,
    Bad,
}

/// Why a chore could not be done.
enum Failure {
    Usage(String),
    Other(String),
}

impl Failure {
    fn usage(message: impl Into<String>) -> Self {
        Self::Usage(message.into())
    }

    fn other(message: impl Into<String>) -> Self {
        Self::Other(message.into())
    }
}

impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Self {
        Self::Other(error.to_string())
    }
}

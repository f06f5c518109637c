//! The second tier of tests: what needs a real peer, a real model or the full counts, and is too long for
//! every change. A job is a row of `JOBS`; each has a file of its own in `peers/`.
//!
//! What they install is kept in `target/peers` and used again.

mod checks;
mod embedded;
pub mod embedded_bench;
mod every_wire;
mod full_counts;
mod llama;
mod llama_file;
mod many_runs;
mod mcp;
mod node;
mod openai_lines;
mod page;
mod promotions;
mod properties;
mod python;
mod real_server;
mod request_types;
mod script;
mod sdk;
mod sdk_claude;
mod sdk_docs;
mod sdk_qwen;
mod sdk_scenarios;
mod snippets;
mod tls;
mod workspace;

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

use crate::{Failure, Verdict};
use workspace::Binary;

struct Job {
    name: &'static str,
    what: &'static str,
    run: fn(&Binary) -> Result<(), Failure>,
}

const JOBS: &[Job] = &[
    Job { name: "properties", what: "every property test at its full count", run: properties::run },
    Job {
        name: "request-types",
        what: "requests parse as the providers' own types",
        run: request_types::run,
    },
    Job { name: "every-wire", what: "the contract's tests on the other three wires", run: every_wire::run },
    Job { name: "mcp", what: "MCP servers and a client of the official packages", run: mcp::run },
    Job { name: "sdk-qwen", what: "the binary driven by `@qwen-code/sdk`", run: sdk_qwen::run },
    Job {
        name: "sdk-claude",
        what: "the binary driven by `claude-agent-sdk`, in both languages",
        run: sdk_claude::run,
    },
    Job {
        name: "openai-lines",
        what: "lines of the `openai` dialect parse as that package's own types",
        run: openai_lines::run,
    },
    Job { name: "tls", what: "the binary with a TLS server and a proxy", run: tls::run },
    Job { name: "chaos", what: "2,000 runs through a broken network", run: full_counts::chaos },
    Job {
        name: "sessions",
        what: "200 cuts of a session resume, 20 killed runs too",
        run: full_counts::sessions,
    },
    Job {
        name: "crashes",
        what: "workflows killed 500 times end as if they had not been",
        run: full_counts::crashes,
    },
    Job { name: "markers", what: "1,000 runs leave no payload and no key behind", run: full_counts::markers },
    Job {
        name: "snippets",
        what: "the snippets of the documentation, for the shell, Node.js and Python",
        run: snippets::run,
    },
    Job {
        name: "10000-turns",
        what: "10,000 turns of one session in order, and no larger at the end",
        run: full_counts::many_turns,
    },
    Job {
        name: "rough-clients",
        what: "clients that leave at any moment, flood, or stop reading for a minute",
        run: full_counts::rough_clients,
    },
    Job {
        name: "schedules",
        what: "every order of every workflow of up to five steps",
        run: full_counts::schedules,
    },
    Job { name: "page", what: "pages of runs in headless Chromium", run: page::run },
    Job { name: "500-runs", what: "many runs in one process keep apart", run: many_runs::run },
    Job {
        name: "promotions",
        what: "1,000 commands put in the background leave nothing behind",
        run: promotions::run,
    },
    Job {
        name: "embedded",
        what: "the embedded model's weights, its examples, and llama.cpp on the same files",
        run: embedded::run,
    },
    Job { name: "real-server", what: "the binary with llama.cpp's own server", run: real_server::run },
];

pub fn run(args: &[String]) -> Result<Verdict, Failure> {
    if args == ["--list"] {
        for job in JOBS {
            println!("{}: {}", job.name, job.what);
        }
        return Ok(Verdict::Good);
    }
    let (binary, names) = match args {
        [flag, file, names @ ..] if flag == "--binary" => (Binary::Given(std::path::absolute(file)?), names),
        names => (Binary::ToBuild, names),
    };
    let results = chosen(names)?.into_iter().map(|job| (job, perform(job, &binary))).collect::<Vec<_>>();
    println!();
    for (job, (result, took)) in &results {
        let Job { name, what, .. } = job;
        match result {
            Ok(()) => println!("passed {name} ({:.0} s): {what}", took.as_secs_f64()),
            Err(reason) => println!("FAILED {name} ({:.0} s): {reason}", took.as_secs_f64()),
        }
    }
    let failed = results.iter().filter(|(_, (result, _))| result.is_err()).count();
    println!("{} passed, {failed} failed", results.len() - failed);
    Ok(if failed == 0 { Verdict::Good } else { Verdict::Bad })
}

fn chosen(names: &[String]) -> Result<Vec<&'static Job>, Failure> {
    if names.is_empty() {
        return Ok(JOBS.iter().collect());
    }
    let find = |name: &String| {
        let job = JOBS.iter().find(|job| job.name == name);
        job.ok_or_else(|| Failure::usage(format!("no such job: `{name}`; `peers --list` shows them")))
    };
    names.iter().map(find).collect()
}

fn perform(job: &Job, binary: &Binary) -> (Result<(), String>, Duration) {
    println!("== {}: {}", job.name, job.what);
    let start = Instant::now();
    // The test kit fails by panicking; the other jobs still have their turn.
    let result = match catch_unwind(AssertUnwindSafe(|| (job.run)(binary))) {
        Ok(Ok(())) => Ok(()),
        Ok(Err(Failure::Usage(reason) | Failure::Other(reason))) => Err(reason),
        Err(panic) => Err(words(&*panic)),
    };
    (result, start.elapsed())
}

fn words(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("it panicked").to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jobs_are_chosen_by_name() {
        let names = |jobs: Vec<&Job>| jobs.iter().map(|job| job.name).collect::<Vec<_>>();
        assert_eq!(chosen(&[]).map(names).ok(), Some(JOBS.iter().map(|job| job.name).collect()));
        assert_eq!(chosen(&["properties".into()]).map(names).ok(), Some(vec!["properties"]));
        assert!(matches!(chosen(&["nothing".into()]), Err(Failure::Usage(_))));
    }

    #[test]
    fn a_job_that_panics_has_failed_with_its_words() {
        let job = Job { name: "x", what: "x", run: |_| panic!("exit code {}", 7) };
        assert_eq!(perform(&job, &Binary::ToBuild).0, Err("exit code 7".to_owned()));
    }
}

//! The second tier of tests: what needs a real peer, a real model or the full counts, and is too long for
//! every change. A job is a row of `JOBS`.

use std::process::Command;

use crate::{Failure, Verdict};

struct Job {
    name: &'static str,
    what: &'static str,
    program: &'static str,
    args: &'static [&'static str],
    env: &'static [(&'static str, &'static str)],
}

const JOBS: &[Job] = &[Job {
    name: "properties",
    what: "every property test at its full count",
    program: "cargo",
    args: &["test", "--workspace", "--tests", "prop"],
    env: &[("PROPTEST_CASES", "2048"), ("TENON_FULL", "1")],
}];

pub fn run(args: &[String]) -> Result<Verdict, Failure> {
    if args == ["--list"] {
        for job in JOBS {
            println!("{}: {}", job.name, job.what);
        }
        return Ok(Verdict::Good);
    }
    let results = chosen(args)?.into_iter().map(|job| (job, perform(job))).collect::<Vec<_>>();
    println!();
    for (job, result) in &results {
        println!(
            "{} {}: {}",
            if *result == JobResult::Passed { "passed" } else { "FAILED" },
            job.name,
            job.what
        );
    }
    let failed = results.iter().filter(|(_, result)| *result == JobResult::Failed).count();
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

#[derive(Clone, Copy, PartialEq)]
enum JobResult {
    Passed,
    Failed,
}

fn perform(job: &Job) -> JobResult {
    println!("== {}: {} {}", job.name, job.program, job.args.join(" "));
    let status = Command::new(job.program)
        .args(job.args)
        .envs(job.env.iter().copied())
        .current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
        .status();
    match status {
        Ok(status) if status.success() => JobResult::Passed,
        Ok(_) => JobResult::Failed,
        Err(error) => {
            eprintln!("xtask: cannot start `{}`: {error}", job.program);
            JobResult::Failed
        }
    }
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
}

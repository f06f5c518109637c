//! The line that goes on with a run that stopped unfinished, ready to paste: what is pinned with the run is left out, every
//! other flag is repeated, because it is said anew each time.

use std::ffi::OsString;

use clap::parser::ValueSource;
use clap::{ArgMatches, Command, CommandFactory};
use tenon_flow::{MoneyLimit, RunSpec, WorkflowOutcome, WorkflowStatus};

use crate::args::Cli;
use crate::flow_approve;
use crate::stderr::line;

/// Flags that are pinned with the run, that are about one try only, or that resuming has of its own.
const LEFT_OUT: [&str; 10] = [
    "words",
    "accept_changes",
    "pinned",
    "cwd",
    "model",
    "base_url",
    "api_key_env",
    "auth_type",
    "record",
    "stdin",
];
const BUDGET: &str = "--max-budget-usd";
const WALL_TIME: &str = "--max-wall-time";
/// What was too little is suggested this much larger.
const RAISE: f64 = 2.0;
/// Where nothing was allowed at all.
const SOME_DOLLARS: f64 = 1.0;

/// Says how to go on.
pub fn tell(run_id: &str, spec: &RunSpec, outcome: &WorkflowOutcome) {
    if outcome.status == WorkflowStatus::Suspended {
        flow_approve::tell_waiting(run_id, &outcome.questions);
    }
    let mut words = vec!["tenon".to_owned(), "flow".into(), "resume".into(), run_id.to_owned()];
    words.extend(flags(std::env::args_os().collect()));
    let mut hint = match outcome.status {
        WorkflowStatus::Suspended => "once that is answered, to go on with the run:",
        _ => "to go on with the run:",
    };
    if outcome.status == WorkflowStatus::BudgetExceeded {
        if is_of_document(outcome) {
            hint = "raise `budget` in the document, then go on with the run:";
            words.push("--accept-changes".to_owned());
        } else if let Some(limit) = spec.limits.wall_time.filter(|limit| is_raised(outcome, limit.set_by)) {
            let seconds = limit.ms.saturating_mul(RAISE as u64).div_ceil(1000).max(1);
            instead(&mut words, WALL_TIME, format!("{seconds}s"));
        } else if let Some(MoneyLimit { usd: limit, .. }) = spec.limits.max_usd {
            let limit = if limit > 0.0 { limit * RAISE } else { SOME_DOLLARS };
            instead(&mut words, BUDGET, limit.to_string());
        }
    }
    line(&format!("hint: {hint}"));
    line(&format!("  {}", words.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" ")));
}

/// A flag with another value than it had.
fn instead(words: &mut Vec<String>, flag: &str, value: String) {
    if let Some(at) = words.iter().position(|word| word == flag) {
        words.drain(at..(at + 2).min(words.len()));
    }
    words.extend([flag.to_owned(), value]);
}

/// Whether the budget that is used up is one that the document sets, which no flag can raise.
fn is_of_document(outcome: &WorkflowOutcome) -> bool {
    is_raised(outcome, "of the document")
}

/// Whether this is what the run says to raise.
fn is_raised(outcome: &WorkflowOutcome, set_by: &str) -> bool {
    outcome.error.as_ref().and_then(|error| error.hint.as_deref()).is_some_and(|hint| hint.contains(set_by))
}

/// To be shown again by resuming it.
pub fn tell_unread(run_id: &str) {
    line("hint: the run completed; to have its result again:");
    line(&format!("  tenon flow resume {}", quoted(run_id)));
}

/// The flags of this process that `flow resume` takes as well.
fn flags(argv: Vec<OsString>) -> Vec<String> {
    let command = Cli::command();
    let Ok(matches) = command.clone().try_get_matches_from(argv) else { return Vec::new() };
    let given = match matches.subcommand() {
        Some(("flow", flow)) => flow.subcommand(),
        // A plan for a goal is a run, too.
        other => other,
    };
    let resume = command.find_subcommand("flow").and_then(|flow| flow.find_subcommand("resume"));
    match (given, resume) {
        (Some((_, given)), Some(resume)) => repeated(given, resume),
        _ => Vec::new(),
    }
}

fn repeated(given: &ArgMatches, resume: &Command) -> Vec<String> {
    let mut words = Vec::new();
    for arg in resume.get_arguments() {
        let id = arg.get_id().as_str();
        let is_given = given.try_contains_id(id).is_ok_and(|is_known| is_known)
            && given.value_source(id) == Some(ValueSource::CommandLine);
        let Some(name) = arg.get_long().filter(|_| is_given && !LEFT_OUT.contains(&id)) else { continue };
        if !arg.get_action().takes_values() {
            words.push(format!("--{name}"));
            continue;
        }
        for value in given.get_raw(id).into_iter().flatten() {
            let value = value.to_string_lossy();
            if arg.is_require_equals_set() || value.starts_with('-') {
                words.push(format!("--{name}={value}"));
            } else {
                words.extend([format!("--{name}"), value.into_owned()]);
            }
        }
    }
    words
}

/// As a shell reads it back.
pub fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_@%+=:,./-".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flags_of(line: &[&str]) -> String {
        flags(line.iter().map(OsString::from).collect())
            .iter()
            .map(|word| quoted(word))
            .collect::<Vec<_>>()
            .join(" ")
    }

    #[test]
    fn what_is_pinned_is_left_out_and_the_rest_is_said_again() {
        let line = [
            "tenon",
            "flow",
            "run",
            "flow.yaml",
            "some",
            "words",
            "-m",
            "openai/x",
            "--input",
            "a=b",
            "-y",
            "--allowed-tools",
            "Bash(git status)",
            "--allowed-tools",
            "it's",
            "--sandbox",
            "-o",
            "json",
            "--run-id",
            "r",
            "--max-tool-calls",
            "-1",
            "--max-budget-usd",
            "1",
            "-C",
            "/tmp",
            "--record",
            "x",
        ];
        let wanted = "--output-format json --yolo --allowed-tools 'Bash(git status)' --allowed-tools 'it'\\''s' \
                      --sandbox=auto --max-tool-calls=-1 --max-budget-usd 1";
        assert_eq!(flags_of(&line), wanted);
        assert_eq!(flags_of(&["tenon", "flow", "resume", "r", "--accept-changes"]), "");
        assert_eq!(flags_of(&["tenon", "goal", "--yes", "do", "it", "-y"]), "--yolo");
    }

    #[test]
    fn words_are_quoted_for_a_shell() {
        for (word, wanted) in
            [("plain/x=1,@2", "plain/x=1,@2"), ("", "''"), ("a b", "'a b'"), ("$(x)", "'$(x)'"), ("ü", "'ü'")]
        {
            assert_eq!(quoted(word), wanted);
        }
    }
}

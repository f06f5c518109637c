//! The line that goes on with a run that stopped unfinished, ready to paste: what is pinned with the run is left out, every
//! other flag is repeated, because it is said anew each time.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use clap::parser::ValueSource;
use clap::{Arg, ArgMatches, Command, CommandFactory};
use tenon_flow::{
    ANSWER_STANDS, MoneyLimit, RunSpec, StepError, StepErrorClass, StepStatus, WorkflowOutcome,
    WorkflowStatus,
};

use crate::args::Cli;
use crate::flow_approve;
use crate::stderr::line;
use crate::surroundings;

/// Flags that are pinned with the run, that are about one try only, or that resuming has of its own.
const LEFT_OUT: [&str; 11] = [
    "words",
    "accept_changes",
    "pinned",
    "yes",
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
const TOOL_CALLS: &str = "--max-tool-calls";
/// What was too little is suggested this much larger.
const RAISE: f64 = 2.0;
/// Where nothing was allowed at all.
const SOME_DOLLARS: f64 = 1.0;
/// Amounts are rounded up to this part of a dollar.
const PARTS_OF_DOLLAR: f64 = 10_000.0;

/// Says how to go on. `wanted` is what the budget would have had to be above, where it was refused.
pub fn tell(run_id: &str, spec: &RunSpec, outcome: &WorkflowOutcome, wanted: Option<f64>) {
    if outcome.status == WorkflowStatus::Suspended {
        flow_approve::tell_waiting(run_id, &outcome.questions);
    }
    let mut words = words(run_id);
    let mut hint = match outcome.status {
        WorkflowStatus::Suspended => "once that is answered, to go on with the run:",
        _ => "to go on with the run:",
    };
    if is_dead_end(outcome) {
        hint = "it would end the same way again: change the document, then go on with the run:";
        words.push("--accept-changes".to_owned());
    }
    if outcome.status == WorkflowStatus::BudgetExceeded {
        let error = outcome.error.as_ref();
        let named = |flag: &str| {
            let texts = error.into_iter().flat_map(|error| [Some(&error.message), error.hint.as_ref()]);
            texts.flatten().any(|text| text.contains(flag))
        };
        if is_of_document(outcome) {
            hint = "raise `budget` in the document, then go on with the run:";
            words.push("--accept-changes".to_owned());
        } else if let Some(limit) = spec.limits.wall_time.filter(|limit| is_raised(outcome, limit.set_by)) {
            let seconds = limit.ms.saturating_mul(RAISE as u64).div_ceil(1000).max(1);
            say(&mut words, WALL_TIME, &format!("{seconds}s"));
        } else if named(TOOL_CALLS) {
            let before = value_of(&words, TOOL_CALLS).and_then(|value| value.parse::<i64>().ok());
            say(
                &mut words,
                TOOL_CALLS,
                &before.map_or(-1, |calls| calls.saturating_mul(2).max(1)).to_string(),
            );
        } else if let Some(MoneyLimit { usd: limit, .. }) = spec.limits.max_usd {
            let spent = outcome.spent.cost_usd.unwrap_or_default();
            say(&mut words, BUDGET, &raised(limit, Some(spent), wanted));
        }
    }
    line(&format!("hint: {hint}"));
    line(&format!("  {}", pasted(&words)));
}

/// The same of a run that ends in the middle: nothing is known but that it is kept.
pub fn cut_off(run_id: &str) -> String {
    format!("hint: the run was cut off; to go on with it:\n  {}", pasted(&words(run_id)))
}

/// Whether everything that failed would fail again, whoever tries: by what the document says, and what people have said.
fn is_dead_end(outcome: &WorkflowOutcome) -> bool {
    let failed = outcome.steps.iter().filter(|(_, record)| record.status == StepStatus::Failed);
    let mut errors = failed.map(|(_, record)| record.error.as_ref()).peekable();
    let is_final = |error: Option<&StepError>| {
        error.is_some_and(|error| match error.class {
            // A step fails for want of a budget where that is the budget of a document that it includes.
            StepErrorClass::LoopExhausted | StepErrorClass::Expression | StepErrorClass::Budget => true,
            StepErrorClass::Denied => error.hint.as_deref() == Some(ANSWER_STANDS),
            _ => false,
        })
    };
    let has_ended = matches!(outcome.status, WorkflowStatus::Failed | WorkflowStatus::Partial);
    has_ended && errors.peek().is_some() && errors.all(is_final)
}

/// How a plan is run that was not approved.
pub fn to_approve(run_id: &str) -> String {
    let mut words = words(run_id);
    words.push("--yes".to_owned());
    format!("`{}` runs it with what it was given", pasted(&words))
}

/// How planning goes on. `wanted` as in [`tell`].
pub fn to_plan_on(run_id: &str, wanted: Option<f64>) -> String {
    let mut words = words(run_id);
    if let Some(wanted) = wanted {
        let before = value_of(&words, BUDGET).and_then(|value| value.parse::<f64>().ok());
        say(&mut words, BUDGET, &raised(before.unwrap_or_default(), None, Some(wanted)));
    }
    format!("`{}` goes on with what was paid for", pasted(&words))
}

/// How another plan is tried.
pub fn to_plan_again(run_id: &str) -> String {
    format!("`{}` plans once more", pasted(&words(run_id)))
}

fn words(run_id: &str) -> Vec<String> {
    let mut words = vec!["tenon".to_owned(), "flow".into(), "resume".into()];
    let flags = flags(std::env::args_os().collect(), &surroundings::started_in());
    if run_id.starts_with('-') {
        words.extend(flags);
        words.extend(["--".to_owned(), run_id.to_owned()]);
    } else {
        words.push(run_id.to_owned());
        words.extend(flags);
    }
    words
}

fn pasted(words: &[String]) -> String {
    words.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" ")
}

/// More than was allowed, than was spent, and than was asked for.
fn raised(limit: f64, spent: Option<f64>, wanted: Option<f64>) -> String {
    let most = limit.max(spent.unwrap_or_default()).max(wanted.unwrap_or_default());
    let raised = if most > 0.0 { most * RAISE } else { SOME_DOLLARS };
    ((raised * PARTS_OF_DOLLAR).ceil() / PARTS_OF_DOLLAR).to_string()
}

fn value_of(words: &[String], flag: &str) -> Option<String> {
    let at = words.iter().position(|word| word == flag || word.starts_with(&format!("{flag}=")))?;
    match words[at].split_once('=') {
        Some((_, value)) => Some(value.to_owned()),
        None => words.get(at + 1).cloned(),
    }
}

/// Says a flag anew, before what can only be a word.
fn say(words: &mut Vec<String>, flag: &str, value: &str) {
    if let Some(at) = words.iter().position(|word| word == flag) {
        words.drain(at..(at + 2).min(words.len()));
    }
    words.retain(|word| !word.starts_with(&format!("{flag}=")));
    let value = match value.starts_with('-') {
        true => vec![format!("{flag}={value}")],
        false => vec![flag.to_owned(), value.to_owned()],
    };
    let at = words.iter().position(|word| word == "--").unwrap_or(words.len());
    words.splice(at..at, value);
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
pub fn unread(run_id: &str) -> String {
    let again = pasted(&words(run_id));
    format!("hint: the run completed, and its result was not read; to have it again:\n  {again}")
}

/// The flags of this process that `flow resume` takes as well.
fn flags(argv: Vec<OsString>, started_in: &Path) -> Vec<String> {
    let command = Cli::command();
    let Ok(matches) = command.clone().try_get_matches_from(argv) else { return Vec::new() };
    let given = match matches.subcommand() {
        Some(("flow", flow)) => flow.subcommand(),
        // A plan for a goal is a run, too.
        other => other,
    };
    let resume = command.find_subcommand("flow").and_then(|flow| flow.find_subcommand("resume"));
    match (given, resume) {
        (Some((_, given)), Some(resume)) => repeated(given, resume, started_in),
        _ => Vec::new(),
    }
}

fn repeated(given: &ArgMatches, resume: &Command, started_in: &Path) -> Vec<String> {
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
            let value = anywhere(arg, &value.to_string_lossy(), started_in);
            if arg.is_require_equals_set() || value.starts_with('-') {
                words.push(format!("--{name}={value}"));
            } else {
                words.extend([format!("--{name}"), value]);
            }
        }
    }
    words
}

/// A path as it is named from any folder. What is no path stays.
fn anywhere(arg: &Arg, value: &str, started_in: &Path) -> String {
    let names = arg.get_value_names().unwrap_or_default();
    let is_path = names.iter().any(|name| name.contains("FILE") || name.contains("DIR"));
    if !is_path || value.trim_start().starts_with('{') || value.starts_with('~') {
        return value.to_owned();
    }
    let (at, path) = value.strip_prefix('@').map_or(("", value), |path| ("@", path));
    let path: PathBuf = started_in.join(path).components().collect();
    format!("{at}{}", path.display())
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
        flags(line.iter().map(OsString::from).collect(), Path::new("/here"))
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
    fn paths_are_named_from_any_folder() {
        let line = [
            "tenon",
            "flow",
            "run",
            "flow.yaml",
            "--settings",
            "s.json",
            "--add-dir",
            "../b",
            "--add-dir",
            "/c",
            "--mcp-config",
            "{\"mcpServers\":{}}",
            "--mcp-config",
            "./m.json",
            "--replay",
            "tape",
        ];
        let wanted = "--replay /here/tape --add-dir /here/../b --add-dir /c --mcp-config '{\"mcpServers\":{}}' \
                      --mcp-config /here/m.json --settings /here/s.json";
        assert_eq!(flags_of(&line), wanted);
    }

    #[test]
    fn a_limit_is_raised_above_everything_that_was_asked_for() {
        for (limit, spent, wanted, told) in [
            (1.0, Some(0.5), None, "2"),
            (1.0, Some(3.0), None, "6"),
            (0.001, Some(0.0), Some(0.25), "0.5"),
            (0.0, Some(0.0), None, "1"),
            (0.00001, None, None, "0.0001"),
        ] {
            assert_eq!(raised(limit, spent, wanted), told);
        }
        let mut words: Vec<String> =
            ["tenon", "--max-wall-time", "1s", "--", "-r"].map(str::to_owned).to_vec();
        say(&mut words, WALL_TIME, "2s");
        assert_eq!(words, ["tenon", "--max-wall-time", "2s", "--", "-r"]);
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

//! Which flags `tenon flow run` and `resume` take: those of a run that mean the same for every step, and its own. Everything else is
//! refused, with a word on where it belongs.

use std::path::PathBuf;

use tenon_config::Settings;
use tenon_core::Failure;
use tenon_flow::Coordination;

use crate::args::{InputFormat, OutputFormat, RunArgs, StdinMode, Switch};
use crate::dialect::Hints;
use crate::flow_args::{FlowResumeArgs, FlowRunArgs};
use crate::goal_args::GoalTask;
use crate::usage::{self, Situation, UsageError};
use crate::{cli_settings, money, subagents, who_is_asked};

/// What was asked for, taken apart.
#[derive(Debug)]
pub struct Asked {
    pub task: Task,
    /// The words after the document.
    pub context: Option<String>,
    /// `-` stands among them.
    pub reads_stdin: bool,
    pub input: Vec<String>,
    pub inputs: Option<String>,
    pub run_id: Option<String>,
    pub keep: Keep,
    pub max_concurrency: Option<u32>,
    pub coordination: Coordination,
    pub format: OutputFormat,
    /// Without the words.
    pub run: RunArgs,
}

/// What is run.
#[derive(Clone, Debug)]
pub enum Task {
    Document(PathBuf),
    /// A document that is yet to be made.
    Goal(GoalTask),
    /// A run that goes on.
    Resume(Resume),
}

/// Whether a run can be gone on with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keep {
    Journal,
    Nothing,
}

/// A run that goes on.
#[derive(Clone, Debug)]
pub struct Resume {
    /// The beginning of its id.
    pub run: String,
    pub file: Option<PathBuf>,
    pub document: WhichDocument,
    pub approval: PlanApproval,
}

/// Whether the plan of a goal may be run without asking.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlanApproval {
    /// `--yes`
    Given,
    /// Unless it was given when the run began.
    ToBeAsked,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WhichDocument {
    /// It is the same, or nothing is run.
    Same,
    /// As it is now.
    Accepted,
    /// As the run began with it.
    Pinned,
}

const COMMAND: &str = "tenon flow run";

pub fn check(args: FlowRunArgs) -> Result<Asked, UsageError> {
    take_apart(args, COMMAND, |words| {
        let mut words = words.into_iter();
        let Some(file) = words.next() else {
            return Err(UsageError::new("`tenon flow run` needs a workflow document")
                .hint("`tenon flow run FILE [CONTEXT]`"));
        };
        let said: Vec<String> = words.collect();
        Ok((Task::Document(file.into()), (!said.is_empty()).then(|| said.join(" "))))
    })
}

/// `task` says what the words among the flags of `command` are: what is run, and what every step is to know.
pub fn take_apart(
    args: FlowRunArgs,
    command: &str,
    task: impl FnOnce(Vec<String>) -> Result<(Task, Option<String>), UsageError>,
) -> Result<Asked, UsageError> {
    let FlowRunArgs { input, inputs, run_id, max_concurrency, no_journal, coordinator, run } = args;
    let mut run = *run;
    if let Some(id) = &run_id {
        check_run_id(id)?;
    }
    refuse_flags_of_single_runs(&run, command)?;
    // Both flags say that nothing is to be left on the disk.
    let keep = if no_journal || run.no_session { Keep::Nothing } else { Keep::Journal };
    let format = match run.output_format.unwrap_or(OutputFormat::Text) {
        OutputFormat::StreamChunkJson => {
            return Err(UsageError::new("a workflow has no `--output-format stream-chunk-json`")
                .hint("its formats are `text`, `json` and `stream-json`"));
        }
        format => format,
    };
    let of_stream = [
        ("--include-partial-messages", run.include_partial_messages),
        ("--include-hook-events", run.include_hook_events),
    ];
    if let Some((flag, _)) =
        of_stream.iter().find(|(_, is_given)| *is_given && format != OutputFormat::StreamJson)
    {
        return Err(UsageError::new(format!("`{flag}` needs `--output-format stream-json`")));
    }
    if who_is_asked::is_driver(&run) {
        let message = format!("`{command}` does not take `--permission-prompt-tool stdio`");
        return Err(UsageError::new(message)
            .hint("nobody drives a workflow over stdin; name a tool of an MCP server: `mcp__SERVER__TOOL`"));
    }
    let mut words = std::mem::take(&mut run.words);
    let reads_stdin = words.iter().any(|word| word == "-");
    words.retain(|word| word != "-");
    let (task, context) = task(words)?;
    check_rest(&run)?;
    let coordination = if coordinator { Coordination::On } else { Coordination::Off };
    Ok(Asked {
        task,
        context,
        reads_stdin,
        input,
        inputs,
        run_id,
        keep,
        max_concurrency,
        coordination,
        format,
        run,
    })
}

const RESUME: &str = "tenon flow resume";

pub fn check_resume(args: FlowResumeArgs) -> Result<Asked, UsageError> {
    let FlowResumeArgs { accept_changes, pinned, yes, max_concurrency, coordinator, run } = args;
    let approval = if yes { PlanApproval::Given } else { PlanApproval::ToBeAsked };
    refuse_what_is_pinned(&run)?;
    let args = FlowRunArgs {
        input: Vec::new(),
        inputs: None,
        run_id: None,
        max_concurrency,
        no_journal: false,
        coordinator,
        run,
    };
    take_apart(args, RESUME, |words| {
        let (run, file) = match words.as_slice() {
            [run] => (run.clone(), None),
            [run, file] => (run.clone(), Some(PathBuf::from(file))),
            [] => {
                return Err(UsageError::new("`tenon flow resume` needs a run")
                    .hint("`tenon flow resume RUN [FILE]`; `tenon flow list` shows the runs there are"));
            }
            _ => {
                return Err(UsageError::new("`tenon flow resume` takes a run and, at most, a document")
                    .hint("a run keeps the context it began with"));
            }
        };
        let document = match (accept_changes, pinned) {
            (true, _) => WhichDocument::Accepted,
            (false, true) if file.is_some() => {
                let message = "`--pinned` goes on with the run's own document, and a file is named";
                return Err(UsageError::new(message));
            }
            (false, true) => WhichDocument::Pinned,
            (false, false) => WhichDocument::Same,
        };
        Ok((Task::Resume(Resume { run, file, document, approval }), None))
    })
}

fn check_run_id(id: &str) -> Result<(), UsageError> {
    if is_run_id(id) {
        return Ok(());
    }
    Err(UsageError::new(format!("`--run-id {id}` cannot be a run's id"))
        .hint("it takes 1 to 64 letters, digits, `_` and `-`"))
}

pub fn is_run_id(id: &str) -> bool {
    let legal = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    (1..=64).contains(&id.len()) && id.chars().all(legal)
}

/// Flags of a single run that a workflow does not take, and what does instead.
const NOT_TAKEN: [(&str, &str); 21] = {
    const AGENTS: &str = "the document's agents say that";
    const NO_SESSION: &str = "a workflow is no session";
    const ONE_FORMAT: &str = "events of workflows have one format";
    [
        ("prompt", "give it as words"),
        ("prompt-file", "pipe the file to stdin"),
        ("json-schema", "an agent's `resultSchema` is its contract"),
        ("schema-nudge", "a step is reminded once"),
        ("schema-mode", "a step submits its result by a tool"),
        ("input-format", "stdin is context for every step"),
        ("dialect", ONE_FORMAT),
        ("raw-ansi", ONE_FORMAT),
        ("result-text", ONE_FORMAT),
        ("result-file", "redirect stdout"),
        ("heartbeat", "events and progress show that a run goes on"),
        ("system-prompt", AGENTS),
        ("system-prompt-file", AGENTS),
        ("append-system-prompt", AGENTS),
        ("max-session-turns", "`maxTurns` is for each agent"),
        ("continue", NO_SESSION),
        ("resume", NO_SESSION),
        ("fork-session", NO_SESSION),
        ("session-id", "`--run-id` names a run"),
        ("session-mirror", NO_SESSION),
        ("literal-prompt", "nothing in a workflow is a command"),
    ]
};

/// Leaves what is not taken out of the help; naming it is still answered with what does it instead.
pub fn hide_not_taken(arg: clap::Arg) -> clap::Arg {
    let is_taken = !NOT_TAKEN.iter().any(|(flag, _)| arg.get_long() == Some(*flag));
    if is_taken { arg } else { arg.hide(true) }
}

fn refuse_flags_of_single_runs(run: &RunArgs, command: &str) -> Result<(), UsageError> {
    let is_given = |flag: &str| match flag {
        "prompt" => run.prompt.is_some(),
        "prompt-file" => run.prompt_file.is_some(),
        "json-schema" => run.json_schema.is_some(),
        "schema-nudge" => run.schema_nudge > 0,
        "schema-mode" => run.schema_mode.is_some(),
        "input-format" => run.input_format != InputFormat::Text,
        "dialect" => run.dialect.is_some(),
        "raw-ansi" => run.raw_ansi,
        "result-text" => run.result_text == Switch::Off,
        "result-file" => run.result_file.is_some(),
        "heartbeat" => run.heartbeat.is_some(),
        "system-prompt" => run.system_prompt.is_some(),
        "system-prompt-file" => run.system_prompt_file.is_some(),
        "append-system-prompt" => run.append_system_prompt.is_some(),
        "max-session-turns" => run.max_session_turns.is_some(),
        "continue" => run.continue_last,
        "resume" => run.resume.is_some(),
        "fork-session" => run.fork_session,
        "session-id" => run.session_id.is_some(),
        "session-mirror" => run.session_mirror,
        "literal-prompt" => run.literal_prompt,
        _ => false,
    };
    match NOT_TAKEN.iter().find(|(flag, _)| is_given(flag)) {
        Some((flag, hint)) => Err(not_taken(flag, hint, command)),
        None => Ok(()),
    }
}

/// The same for a run that goes on, which has more that is settled.
pub fn hide_not_resumed(arg: clap::Arg) -> clap::Arg {
    let is_settled = arg.get_long().is_some_and(|flag| ["cwd", "no-session", "stdin"].contains(&flag));
    hide_not_taken(if is_settled { arg.hide(true) } else { arg })
}

fn not_taken(flag: &str, hint: &str, command: &str) -> UsageError {
    UsageError::new(format!("`{command}` does not take `--{flag}`")).hint(hint)
}

/// Flags of a run that begins, which one that goes on has no use for.
fn refuse_what_is_pinned(run: &RunArgs) -> Result<(), UsageError> {
    let pinned = [
        ("cwd", run.cwd.is_some(), "a run stays in the folder it began in"),
        ("no-session", run.no_session, "what is resumed is kept"),
        ("stdin", run.stdin != StdinMode::Auto, "a run keeps the context it began with"),
    ];
    match pinned.iter().find(|(_, is_given, _)| *is_given) {
        Some((flag, _, hint)) => Err(not_taken(flag, hint, RESUME)),
        None => Ok(()),
    }
}

/// What flags mean together is decided where it is decided for a run.
fn check_rest(run: &RunArgs) -> Result<(), UsageError> {
    let schema = run.max_schema_retries.map(|_| "{}".to_owned());
    let as_run = RunArgs {
        prompt: Some("-".to_owned()),
        json_schema: schema,
        output_format: None,
        include_partial_messages: false,
        include_hook_events: false,
        ..run.clone()
    };
    let hints = Hints { named: None, entrypoint: None };
    let situation = Situation { stdin_is_terminal: false, prompt_forced: false, hints };
    usage::check(&as_run, situation)?;
    values(run).map_err(|failure| UsageError { message: failure.message, hint: failure.hint })
}

/// Values that no flag can have, told before there is a run that could have a result.
fn values(run: &RunArgs) -> Result<(), Failure> {
    let nothing_set = Settings::default();
    cli_settings::limits(run, &nothing_set)?;
    cli_settings::approval_mode(run)?;
    money::allowed(run, &nothing_set)?;
    subagents::max_depth(run).map(|_| ())
}

#[cfg(test)]
mod tests {
    use clap::{Args, Command};

    use super::*;

    #[test]
    fn the_help_lists_what_is_taken() {
        let command = FlowRunArgs::augment_args(Command::new("run")).mut_args(hide_not_taken);
        for (flag, _) in NOT_TAKEN {
            let arg = command.get_arguments().find(|arg| arg.get_long() == Some(flag));
            assert!(arg.is_some_and(clap::Arg::is_hide_set), "{flag}");
        }
        let shown = command.get_arguments().filter(|arg| !arg.is_hide_set()).count();
        assert!(shown > 30, "{shown}");
    }
}

//! Which flags go together, which are not in this version, and what looks like a typo.
//!
//! Everything here is decided before anything is read or paid for. A problem is a usage error: exit 2,
//! stderr only.

use clap::ValueEnum;
use tenon_wire::Dialect;

use crate::args::{InputFormat, LaterArgs, OutputFormat, RunArgs};
use crate::dialect::{self, Hints, Output};
use crate::manual::print;
use crate::stderr::line;
use crate::{refused_start, session_mirror, who_is_asked};

const COMMANDS: [&str; 11] =
    ["flow", "goal", "schema", "local", "sessions", "trust", "mcp", "doctor", "completions", "man", "help"];
/// A bare word is taken for a typo of a command if at most one letter in three differs, and never more
/// than two: `hello` is not `help`.
const TYPO_DISTANCE: usize = 2;
const LETTERS_PER_TYPO: usize = 3;
/// More models than this one after the other are a sign that something else is wrong.
const MAX_FALLBACKS: usize = 3;

#[derive(Debug, PartialEq, Eq)]
pub struct UsageError {
    pub message: String,
    pub hint: Option<String>,
}

impl UsageError {
    pub fn new(message: impl Into<String>) -> UsageError {
        UsageError { message: message.into(), hint: None }
    }

    pub fn hint(mut self, hint: impl Into<String>) -> UsageError {
        self.hint = Some(hint.into());
        self
    }
}

/// Prints what the parser has to say: help and version on stdout, errors in our own form on stderr.
pub fn not_understood(error: &clap::Error) -> u8 {
    let text = error.render().to_string();
    if !error.use_stderr() {
        return print(text.as_bytes());
    }
    for text in text.lines() {
        let text = match text.strip_prefix("error: ") {
            Some(message) => format!("error[usage]: {message}"),
            None => {
                text.trim_start().strip_prefix("tip: ").map_or(text.to_owned(), |tip| format!("hint: {tip}"))
            }
        };
        line(&text);
    }
    refused_start::answer(text.lines().next().unwrap_or_default().trim_start_matches("error: "));
    tenon_core::exit_code(tenon_core::ErrorClass::Usage)
}

/// What the surroundings contribute to the question whether the flags make sense.
#[derive(Clone, Copy, Debug)]
pub struct Situation<'a> {
    pub stdin_is_terminal: bool,
    /// `--` was typed: what follows is a prompt, whatever it looks like.
    pub prompt_forced: bool,
    /// Who reads the output.
    pub hints: Hints<'a>,
}

/// Checks everything; returns warnings for flags that are accepted and do nothing.
pub fn check(args: &RunArgs, situation: Situation<'_>) -> Result<Vec<String>, UsageError> {
    check_words(args, situation)?;
    check_contract(args, situation)?;
    check_prompt(args)?;
    check_formats(args, situation)?;
    check_permissions(args)?;
    check_models(args)?;
    check_proxy(args)?;
    check_session(args)?;
    session_mirror::check_flags(args, Output::of_flags(args, situation.hints))?;
    check_later(args)?;
    Ok(no_op_warnings(&args.later))
}

fn check_words(args: &RunArgs, situation: Situation<'_>) -> Result<(), UsageError> {
    let Some(first) = args.words.first() else { return Ok(()) };
    if args.prompt.is_some() || args.prompt_file.is_some() {
        if args.words.iter().any(|word| word != "-") {
            return Err(UsageError::new(
                "a prompt was given twice: as `--prompt` or `--prompt-file`, and as bare words",
            )
            .hint("a list flag takes commas: `--allowed-tools a,b`; use one way to give the prompt"));
        }
        return Ok(());
    }
    // What begins like a command of a conversation is one.
    if situation.prompt_forced || first.contains(char::is_whitespace) || first.starts_with(['/', '@']) {
        return Ok(());
    }
    let force = "to use it as a prompt, write `tenon -p \"…\"` or `tenon -- …`";
    let near = COMMANDS
        .iter()
        .map(|command| (strsim::damerau_levenshtein(first, command), command))
        .filter(|(distance, command)| *distance <= TYPO_DISTANCE.min(command.len() / LETTERS_PER_TYPO))
        .min();
    match near {
        Some((_, command)) => {
            Err(UsageError::new(format!("`{first}` is not a command; did you mean `tenon {command}`?"))
                .hint(force))
        }
        None => Ok(()),
    }
}

fn check_contract(args: &RunArgs, situation: Situation<'_>) -> Result<(), UsageError> {
    if args.json_schema.is_none() {
        if args.max_schema_retries.is_some() {
            return Err(UsageError::new("`--max-schema-retries` needs `--json-schema`"));
        }
        if args.schema_nudge > 0 {
            return Err(UsageError::new("`--schema-nudge` needs `--json-schema`"));
        }
        if args.schema_mode.is_some() {
            return Err(UsageError::new("`--schema-mode` needs `--json-schema`"));
        }
        return Ok(());
    }
    let refuse = |with: &str, why: &str| {
        Err(UsageError::new(format!("`--json-schema` cannot be used with `{with}`: {why}")))
    };
    if args.later.prompt_interactive.is_some() {
        return refuse(
            "--prompt-interactive (-i)",
            "only a headless run ends with the first accepted answer",
        );
    }
    let is_claude = Output::of_flags(args, situation.hints).dialect == Dialect::Claude;
    if args.input_format != InputFormat::Text && !is_claude {
        return refuse(
            "--input-format stream-json",
            "the first accepted answer ends the run, and a session has many turns",
        );
    }
    if args.later.acp {
        return refuse("--acp", "only a headless run ends with the first accepted answer");
    }
    if !has_prompt(args) && situation.stdin_is_terminal && args.input_format == InputFormat::Text {
        return Err(UsageError::new("`--json-schema` needs a prompt")
            .hint("give one with `-p`, as bare words, or piped to stdin"));
    }
    Ok(())
}

fn check_prompt(args: &RunArgs) -> Result<(), UsageError> {
    if args.prompt.is_some() && args.later.prompt_interactive.is_some() {
        return Err(UsageError::new("`--prompt` and `--prompt-interactive` cannot be used together"));
    }
    if args.words.len() > 1 && args.words.iter().any(|word| word == "-") {
        return Err(UsageError::new("`-` stands alone: it means that stdin is the prompt"));
    }
    Ok(())
}

fn check_formats(args: &RunArgs, situation: Situation<'_>) -> Result<(), UsageError> {
    dialect::check_flags(args, situation.hints)?;
    if args.input_format == InputFormat::Text {
        return Ok(());
    }
    let format = format!("`--input-format {}`", value_name(args.input_format));
    if !matches!(args.output_format, Some(OutputFormat::StreamJson | OutputFormat::StreamChunkJson)) {
        return Err(UsageError::new(format!("{format} needs an output format of lines"))
            .hint("add `--output-format stream-json`"));
    }
    let refused =
        [("--result-file", args.result_file.is_some()), ("-", args.words.iter().any(|word| word == "-"))];
    if let Some((flag, _)) = refused.iter().find(|(_, given)| *given) {
        return Err(UsageError::new(format!("`{flag}` cannot be used with {format}")));
    }
    match Output::of_flags(args, situation.hints).dialect {
        Dialect::Gemini => Err(UsageError::new(format!("the `gemini` dialect has no {format}"))
            .hint("`qwen`, `claude` and `openai` have it")),
        Dialect::Qwen | Dialect::Claude | Dialect::OpenAi => Ok(()),
    }
}

fn check_permissions(args: &RunArgs) -> Result<(), UsageError> {
    if args.yolo && args.approval_mode.is_some() {
        return Err(UsageError::new("`--yolo` and `--approval-mode` cannot be used together")
            .hint("use `--approval-mode yolo`"));
    }
    if args.safe_mode && !args.mcp_config.is_empty() {
        return Err(UsageError::new(
            "`--safe-mode` starts no MCP servers, so `--mcp-config` cannot be used with it",
        ));
    }
    who_is_asked::check_flags(args)
}

fn check_proxy(args: &RunArgs) -> Result<(), UsageError> {
    let Some(proxy) = args.proxy.as_deref().filter(|proxy| !tenon_model::is_proxy(proxy)) else {
        return Ok(());
    };
    // Its address may hold a password.
    let shown = tenon_model::shown_url(proxy);
    Err(UsageError::new(format!("`--proxy {shown}` is not the URL of a proxy")).hint(tenon_model::PROXY_HINT))
}

fn check_models(args: &RunArgs) -> Result<(), UsageError> {
    if args.fallback_model.len() > MAX_FALLBACKS {
        let given = args.fallback_model.len();
        return Err(UsageError::new(format!(
            "`--fallback-model` was given {given} times, and {MAX_FALLBACKS} is the most"
        )));
    }
    if args.fallback_model.iter().any(|name| name.trim().is_empty()) {
        return Err(UsageError::new("`--fallback-model` needs the name of a model"));
    }
    Ok(())
}

fn check_session(args: &RunArgs) -> Result<(), UsageError> {
    if args.resume.as_ref().is_some_and(|named| named.as_deref().is_none_or(|named| named.trim().is_empty()))
    {
        return Err(UsageError::new("`--resume` needs the id or the title of a session")
            .hint("`tenon sessions list` lists them; `--continue` takes the latest of this folder"));
    }
    let resumes = args.resume.is_some() || args.continue_last;
    if args.fork_session && !resumes {
        return Err(UsageError::new("`--fork-session` needs `--continue` or `--resume`"));
    }
    if args.session_id.is_some() && resumes && !args.fork_session && !args.no_session {
        return Err(UsageError::new(
            "`--session-id` is for a new session, and `--continue` and `--resume` keep theirs",
        )
        .hint("with `--fork-session` the copy gets that id"));
    }
    Ok(())
}

fn check_later(args: &RunArgs) -> Result<(), UsageError> {
    let flags = &args.later;
    if flags.openai_api_key.is_some() {
        return Err(UsageError::new("a key is never given as a flag: others on this machine could read it")
            .hint("set `OPENAI_API_KEY`, or name another variable with `--api-key-env`"));
    }
    if flags.insecure {
        return Err(UsageError::new("`--insecure` is refused: a key would go to whoever answers")
            .hint("add the server's certificate with `SSL_CERT_FILE`"));
    }
    let given = [
        ("--prompt-interactive", flags.prompt_interactive.is_some()),
        ("--acp", flags.acp),
        ("--resume-session-at", flags.resume_session_at.is_some()),
        ("--resume-drops-turn", flags.resume_drops_turn.is_some()),
        ("--worktree", flags.worktree.is_some()),
    ];
    match given.iter().find(|(_, given)| *given) {
        Some((flag, _)) => Err(later(flag)),
        None => Ok(()),
    }
}

fn no_op_warnings(flags: &LaterArgs) -> Vec<String> {
    let given = [
        ("--betas", !flags.betas.is_empty()),
        ("--extensions", !flags.extensions.is_empty()),
        ("--plugin-dir", !flags.plugin_dir.is_empty()),
        ("--plugin-dir-no-mcp", !flags.plugin_dir_no_mcp.is_empty()),
        ("--task-budget", flags.task_budget.is_some()),
        ("--thinking-display", flags.thinking_display.is_some()),
        ("--allow-dangerously-skip-permissions", flags.allow_dangerously_skip_permissions),
        ("--debug", flags.debug),
        ("--debug-file", flags.debug_file.is_some()),
    ];
    given
        .iter()
        .filter(|(_, given)| *given)
        .map(|(flag, _)| format!("`{flag}` has no effect in tenon"))
        .collect()
}

fn value_name(value: impl ValueEnum) -> String {
    value.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
}

fn later(flag: &str) -> UsageError {
    UsageError::new(format!("`{flag}` is not in this version"))
}

pub fn has_prompt(args: &RunArgs) -> bool {
    args.prompt.is_some() || args.prompt_file.is_some() || args.words.iter().any(|word| word != "-")
}

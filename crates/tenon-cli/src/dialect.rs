//! Which format in which dialect: what was named, what a client's surroundings imply, and which flags a
//! dialect cannot honour.

use std::time::Duration;

use tenon_config::Settings;
use tenon_core::{ErrorClass, Failure};
use tenon_session::Incoming;
use tenon_wire::{Dialect, Format};
use tokio::sync::mpsc;

use crate::args::{OutputFormat, RunArgs, Switch};
use crate::usage::UsageError;

/// How long a client that began with a line nobody can read waits for its answer: the line after it, if it is there
/// already, says in which dialect.
const ANSWER_MAY_WAIT: Duration = Duration::from_millis(500);

/// Some editors begin a file with it.
const BYTE_ORDER_MARK: &[u8] = "\u{feff}".as_bytes();

/// What the environment says about who reads the output.
#[derive(Clone, Copy, Debug, Default)]
pub struct Hints<'a> {
    /// `TENON_DIALECT`.
    pub named: Option<&'a str>,
    /// `CLAUDE_CODE_ENTRYPOINT`: set by SDKs that cannot name a dialect.
    pub entrypoint: Option<&'a str>,
}

/// What is written, and for whom.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Output {
    pub dialect: Dialect,
    pub format: Format,
}

impl Output {
    /// Before anything is known: errors of the settings themselves are written like this.
    pub fn of_flags(args: &RunArgs, hints: Hints<'_>) -> Output {
        let format = args.output_format.map_or(Format::Text, format_of);
        let dialect = named(args, hints).or_else(|| implied(format, hints)).unwrap_or_default();
        Output { dialect, format }
    }
}

/// Flags over the environment over the settings.
pub fn output(args: &RunArgs, hints: Hints<'_>, settings: &Settings) -> Result<Output, Failure> {
    let format = match (args.output_format, settings.output_format.as_deref()) {
        (Some(format), _) => format_of(format),
        (None, Some("json")) => Format::Json,
        (None, Some("stream-json")) => Format::StreamJson,
        (None, Some("stream-chunk-json")) => Format::StreamChunkJson,
        (None, _) => Format::Text,
    };
    let of_settings = || settings.dialect.as_deref().and_then(|name| Dialect::parse(name).ok());
    let dialect =
        named(args, hints).or_else(|| implied(format, hints)).or_else(of_settings).unwrap_or_default();
    let output = Output { dialect, format };
    check(args, output).map_err(|error| {
        let failure = Failure::new(ErrorClass::Config, error.message);
        match error.hint {
            Some(hint) => failure.hint(hint),
            None => failure,
        }
    })?;
    Ok(output)
}

/// What the flags alone cannot mean together: a usage error, found before anything is read.
pub fn check_flags(args: &RunArgs, hints: Hints<'_>) -> Result<(), UsageError> {
    if let Some(name) = hints.named.filter(|name| !name.is_empty() && args.dialect.is_none()) {
        Dialect::parse(name).map_err(|error| UsageError::new(format!("`TENON_DIALECT`: {error}")))?;
    }
    if args.output_format == Some(OutputFormat::StreamChunkJson)
        && let Some(named) = named(args, hints).filter(|named| *named != Dialect::OpenAi)
    {
        return Err(UsageError::new(format!(
            "`--output-format stream-chunk-json` is of the `openai` dialect, and `{}` was named",
            named.name()
        )));
    }
    if args.include_partial_messages
        && !matches!(args.output_format, Some(OutputFormat::StreamJson | OutputFormat::StreamChunkJson))
    {
        return Err(UsageError::new("`--include-partial-messages` needs `--output-format stream-json`"));
    }
    if args.include_hook_events && args.output_format != Some(OutputFormat::StreamJson) {
        return Err(UsageError::new("`--include-hook-events` needs `--output-format stream-json`"));
    }
    check(args, Output::of_flags(args, hints))
}

/// What a dialect cannot honour is refused, never ignored.
fn check(args: &RunArgs, output: Output) -> Result<(), UsageError> {
    let Output { dialect, format } = output;
    let cannot = |flag: &str, hint: &str| {
        Err(UsageError::new(format!("the `{}` dialect has no `{flag}`", dialect.name())).hint(hint))
    };
    let is_json = format != Format::Text;
    match dialect {
        Dialect::Gemini if is_json && args.include_partial_messages => {
            cannot("--include-partial-messages", "its `stream-json` writes answers in pieces anyway")
        }
        Dialect::OpenAi if is_json && args.include_partial_messages => cannot(
            "--include-partial-messages",
            "`--output-format stream-chunk-json` writes answers in pieces",
        ),
        Dialect::Gemini | Dialect::OpenAi if args.include_hook_events => {
            cannot("--include-hook-events", "`qwen` and `claude` have it")
        }
        Dialect::Gemini | Dialect::OpenAi if is_json && args.result_text == Switch::Off => {
            cannot("--result-text", "`qwen` and `claude` have it")
        }
        Dialect::Qwen | Dialect::Claude | Dialect::Gemini if args.raw_ansi => {
            cannot("--raw-ansi", "`openai` has it")
        }
        _ => Ok(()),
    }
}

/// Whether nobody has said which dialect it is.
pub fn is_open(args: &RunArgs, hints: Hints<'_>, settings: &Settings) -> bool {
    let format = args.output_format.map_or(Format::Text, format_of);
    named(args, hints).or_else(|| implied(format, hints)).is_none() && settings.dialect.is_none()
}

/// A client that begins with a plain chat request speaks `openai`; any other line that can be read says that it does
/// not. Blank lines and lines that nobody can read say nothing, so the next one is waited for: with a blank one for as
/// long as it takes, with an unreadable one only as long as its answer can wait. All lines are kept in `read`.
pub async fn told_by_first_lines(
    lines: &mut mpsc::Receiver<Incoming>,
    read: &mut Vec<Incoming>,
) -> Option<Dialect> {
    let mut is_answer_due = false;
    loop {
        let line = match is_answer_due {
            false => lines.recv().await?,
            true => tokio::time::timeout(ANSWER_MAY_WAIT, lines.recv()).await.ok().flatten()?,
        };
        let told = match &line {
            Incoming::TooLong { .. } => Told::Unreadable,
            Incoming::Line { bytes, .. } => told_by(bytes),
        };
        read.push(line);
        match told {
            Told::Speaks(dialect) => return dialect,
            Told::Blank => {}
            Told::Unreadable => is_answer_due = true,
        }
    }
}

/// What one line says about the dialect.
enum Told {
    Blank,
    Unreadable,
    /// `None` is whichever it was.
    Speaks(Option<Dialect>),
}

fn told_by(line: &[u8]) -> Told {
    let line = line.strip_prefix(BYTE_ORDER_MARK).unwrap_or(line);
    if line.iter().all(u8::is_ascii_whitespace) {
        return Told::Blank;
    }
    match serde_json::from_slice::<serde_json::Map<String, serde_json::Value>>(line) {
        Err(_) => Told::Unreadable,
        Ok(fields) if !fields.contains_key("type") && fields.contains_key("messages") => {
            Told::Speaks(Some(Dialect::OpenAi))
        }
        Ok(_) => Told::Speaks(None),
    }
}

fn named(args: &RunArgs, hints: Hints<'_>) -> Option<Dialect> {
    args.dialect.map(Dialect::from).or_else(|| hints.named.and_then(|name| Dialect::parse(name).ok()))
}

fn implied(format: Format, hints: Hints<'_>) -> Option<Dialect> {
    match format {
        Format::StreamChunkJson => Some(Dialect::OpenAi),
        Format::StreamJson if hints.entrypoint.is_some_and(|name| name.starts_with("sdk-")) => {
            Some(Dialect::Claude)
        }
        _ => None,
    }
}

fn format_of(format: OutputFormat) -> Format {
    match format {
        OutputFormat::Text => Format::Text,
        OutputFormat::Json => Format::Json,
        OutputFormat::StreamJson => Format::StreamJson,
        OutputFormat::StreamChunkJson => Format::StreamChunkJson,
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::args::Cli;

    #[test]
    fn who_names_the_dialect() {
        let sdk = Hints { named: None, entrypoint: Some("sdk-py") };
        let table: &[(&[&str], Hints<'_>, Option<&str>, Dialect)] = &[
            (&[], Hints::default(), None, Dialect::Qwen),
            (
                &["--dialect", "gemini"],
                Hints { named: Some("claude"), ..sdk },
                Some("openai"),
                Dialect::Gemini,
            ),
            (&[], Hints { named: Some("claude"), entrypoint: None }, Some("openai"), Dialect::Claude),
            (&["-o", "stream-json"], sdk, Some("openai"), Dialect::Claude),
            (&["-o", "json"], sdk, Some("openai"), Dialect::OpenAi),
            (&["-o", "stream-json"], Hints { named: None, entrypoint: Some("cli") }, None, Dialect::Qwen),
            (&["-o", "stream-json"], Hints { named: Some("qwen"), ..sdk }, None, Dialect::Qwen),
            (&["-o", "stream-chunk-json"], Hints::default(), Some("gemini"), Dialect::OpenAi),
        ];
        for (flags, hints, setting, wanted) in table {
            let cli = Cli::try_parse_from([&["tenon", "-p", "x"][..], flags].concat()).unwrap();
            let settings = Settings { dialect: setting.map(str::to_owned), ..Settings::default() };
            let chosen = output(&cli.run, *hints, &settings).unwrap();
            assert_eq!(chosen.dialect, *wanted, "{flags:?} {hints:?} {setting:?}");
        }
    }
}

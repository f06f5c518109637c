//! The prompt: from flags, words, a file and stdin, put together in that order of trust.

use std::io::Read;
use std::path::Path;

use tenon_agent::Stop;
use tenon_core::{ErrorClass, Failure};

use crate::args::{RunArgs, StdinMode};
use crate::stdin::{self, Patience, Piped};

/// A prompt file larger than this is a mistake.
const MAX_PROMPT_FILE: u64 = 8 * 1024 * 1024;

#[derive(Debug)]
pub struct Input {
    /// What came on stdin.
    pub piped: Option<String>,
    pub asked: Option<Asked>,
    pub warnings: Vec<String>,
}

/// What was asked apart from what came on stdin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Asked {
    /// By whoever runs tenon, who may mean a command.
    Typed(String),
    FromFile(String),
}

impl Asked {
    pub fn text(&self) -> &str {
        match self {
            Asked::Typed(text) | Asked::FromFile(text) => text,
        }
    }
}

impl Input {
    pub fn prompt(&self) -> String {
        self.with_piped(self.asked.as_ref().map(Asked::text).unwrap_or_default())
    }

    /// Stdin, when there is any, stands before what is asked, with a blank line between.
    pub fn with_piped(&self, asked: &str) -> String {
        match (&self.piped, asked) {
            (None, asked) => asked.to_owned(),
            (Some(piped), "") => piped.clone(),
            (Some(piped), asked) => format!("{}\n\n{asked}", piped.trim_end_matches(['\n', '\r'])),
        }
    }

    /// What names the session.
    pub fn title(&self) -> &str {
        let asked = self.asked.as_ref().map(Asked::text);
        asked.or(self.piped.as_deref()).unwrap_or_default()
    }
}

pub async fn read(
    args: &RunArgs,
    started_in: &Path,
    stdin_is_terminal: bool,
    stop: &Stop,
) -> Result<Input, Failure> {
    let given = given_prompt(args, started_in)?;
    let dash = args.words.iter().any(|word| word == "-");
    let patience = stdin::patience(args.stdin, given.is_some(), dash, stdin_is_terminal);
    let Piped { text, warning } = stdin::read(patience, stop).await?;
    let input = Input {
        piped: Some(text).filter(|text| !text.trim().is_empty()),
        asked: given,
        warnings: warning.into_iter().collect(),
    };
    if input.prompt().trim().is_empty() {
        let message = match patience {
            Patience::DoNotLook if args.stdin == StdinMode::Ignore => {
                "there is no prompt, and `--stdin ignore` does not look for one"
            }
            _ => "there is no prompt: stdin and the prompt given are empty",
        };
        return Err(Failure::new(ErrorClass::Input, message)
            .hint("give one with `-p`, as bare words, in a `--prompt-file`, or piped to stdin"));
    }
    Ok(input)
}

/// Only what was given apart from stdin; nothing is no mistake.
pub fn given(args: &RunArgs, started_in: &Path) -> Result<Input, Failure> {
    Ok(Input { piped: None, asked: given_prompt(args, started_in)?, warnings: Vec::new() })
}

fn given_prompt(args: &RunArgs, started_in: &Path) -> Result<Option<Asked>, Failure> {
    if let Some(prompt) = &args.prompt {
        return Ok(Some(Asked::Typed(prompt.clone())));
    }
    if let Some(file) = &args.prompt_file {
        return read_text_file(file, started_in, "--prompt-file").map(|text| Some(Asked::FromFile(text)));
    }
    let words: Vec<&str> = args.words.iter().map(String::as_str).filter(|word| *word != "-").collect();
    Ok((!words.is_empty()).then(|| Asked::Typed(words.join(" "))))
}

/// A file the user named in a flag: regular, bounded, text.
pub fn read_text_file(file: &Path, started_in: &Path, flag: &str) -> Result<String, Failure> {
    let cannot = |why: String| {
        Failure::new(ErrorClass::Input, format!("`{flag} {}` cannot be read: {why}", file.display()))
    };
    let path = started_in.join(file);
    // Asked before opening: opening a FIFO would wait for a writer.
    let meta = std::fs::metadata(&path).map_err(|error| cannot(error.to_string()))?;
    if !meta.is_file() {
        return Err(cannot("it is not a regular file".to_owned()));
    }
    let mut bytes = Vec::new();
    std::fs::File::open(path)
        .and_then(|file| file.take(MAX_PROMPT_FILE + 1).read_to_end(&mut bytes))
        .map_err(|error| cannot(error.to_string()))?;
    if bytes.len() as u64 > MAX_PROMPT_FILE {
        return Err(cannot(format!("it has more than {} MiB", MAX_PROMPT_FILE / 1024 / 1024)));
    }
    let text = String::from_utf8(bytes).map_err(|_| cannot("it is not valid UTF-8".to_owned()))?;
    Ok(text.strip_prefix('\u{feff}').map(str::to_owned).unwrap_or(text))
}

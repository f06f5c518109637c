//! `--session-mirror`: every record of the session is also a `transcript_mirror` line, for an SDK that keeps sessions
//! in a store of its own; and such an SDK's copy is where a session is resumed from when this machine lacks it.
//!
//! Where the SDK believes sessions to lie is how it names them: `$CLAUDE_CONFIG_DIR/projects/FOLDER/ID.jsonl`. Nothing
//! is written there.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::value::RawValue;
use tenon_config::Surroundings;
use tenon_core::{Failure, Id};
use tenon_session::{Lines, Mirror, adopt};
use tenon_wire::{Dialect, Replies};

use crate::args::{OutputFormat, RunArgs};
use crate::dialect::Output;
use crate::session;
use crate::stderr::Reporter;
use crate::usage::UsageError;

/// Readers of lines give up beyond a megabyte; a little is left for the rest of the line.
const LONGEST_RECORD: usize = 1_000_000;
/// Folder names longer than this are cut by these SDKs, and told apart by a number.
const LONGEST_NAME: usize = 200;

pub fn check_flags(args: &RunArgs, output: Output) -> Result<(), UsageError> {
    if !args.session_mirror {
        return Ok(());
    }
    if args.no_session {
        return Err(UsageError::new("`--session-mirror` needs a session, and `--no-session` keeps none"));
    }
    let has_lines = args.output_format == Some(OutputFormat::StreamJson)
        && matches!(output.dialect, Dialect::Qwen | Dialect::Claude);
    if !has_lines {
        return Err(UsageError::new(
            "`--session-mirror` needs `--output-format stream-json` in the `qwen` or `claude` dialect",
        ));
    }
    Ok(())
}

/// Writes each record of a session as a line, too.
pub fn mirror(
    here: &Surroundings,
    id: Id,
    lines: Arc<dyn Lines>,
    replies: Replies,
    reporter: Reporter,
) -> Option<Mirror> {
    let file = their_file(here, id)?.display().to_string();
    let has_warned = AtomicBool::new(false);
    Some(Mirror::new(move |record| {
        let record =
            std::str::from_utf8(record).ok().and_then(|text| RawValue::from_string(text.to_owned()).ok());
        match record.filter(|record| record.get().len() <= LONGEST_RECORD) {
            Some(record) => lines.line(replies.transcript_mirror(&file, &record)),
            None if has_warned.swap(true, Ordering::Relaxed) => {}
            None => reporter
                .warn("a record of the session is too long for `--session-mirror` and is left out of it"),
        }
    }))
}

/// Brings back a session that an SDK has put where it believes sessions to lie.
pub fn fetch(args: &RunArgs, here: &Surroundings) -> Result<(), Failure> {
    let wanted = args.resume.as_ref().and_then(|named| named.as_deref()).and_then(Id::parse);
    let Some(id) = wanted.filter(|_| args.session_mirror && here.env.contains_key(CONFIG_DIR)) else {
        return Ok(());
    };
    let theirs = their_file(here, id).filter(|file| file.is_file());
    match (theirs, session::place(here)) {
        (Some(file), Some((place, _))) => adopt(&place, id, &file).map_err(|error| session::failure(&error)),
        _ => Ok(()),
    }
}

/// Names the folder in which an SDK keeps, or makes believe to keep, sessions.
const CONFIG_DIR: &str = "CLAUDE_CONFIG_DIR";

fn their_file(here: &Surroundings, id: Id) -> Option<PathBuf> {
    let named = here.env.get(CONFIG_DIR).filter(|folder| !folder.is_empty()).map(PathBuf::from);
    let config = named.or_else(|| Some(here.home.as_ref()?.join(".claude")))?;
    let cwd = here.cwd.canonicalize().unwrap_or_else(|_| here.cwd.clone());
    Some(config.join("projects").join(their_name(&cwd)).join(format!("{id}.jsonl")))
}

/// The name that these SDKs give a project by its folder.
fn their_name(cwd: &Path) -> String {
    let path = cwd.to_string_lossy();
    let name: String = path.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
    match name.get(..LONGEST_NAME).filter(|_| name.len() > LONGEST_NAME) {
        None => name,
        Some(start) => {
            let hash = path
                .chars()
                .fold(0_i32, |hash, c| hash.wrapping_shl(5).wrapping_sub(hash).wrapping_add(c as i32));
            format!("{start}-{}", base36(hash.unsigned_abs()))
        }
    }
}

fn base36(mut number: u32) -> String {
    let mut digits = Vec::new();
    loop {
        digits.push(char::from_digit(number % 36, 36).unwrap_or('0'));
        number /= 36;
        if number == 0 {
            return digits.into_iter().rev().collect();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As computed by `claude-agent-sdk` for the same folders.
    #[test]
    fn projects_are_named_as_the_sdk_names_them() {
        assert_eq!(their_name(Path::new("/home/ann/my.project")), "-home-ann-my-project");
        let long = format!("/{}", "abc/".repeat(80));
        let name = their_name(Path::new(&long));
        assert_eq!(&name[..9], "-abc-abc-");
        assert_eq!(&name[LONGEST_NAME..], "-4vpznl");
    }
}

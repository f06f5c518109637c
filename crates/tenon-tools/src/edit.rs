//! `edit`: replaces an exact piece of a file.

use std::fs;
use std::io;
use std::sync::Arc;

use serde_json::json;
use tenon_core::{Args, ToolKind, ToolOutcome, ToolSpec};

use crate::Workspace;
use crate::args::{ArgReader, Refusal};
use crate::diff::changed;
use crate::file_tool::{FileTool, Work};
use crate::nearest::likeness;
use crate::output::first_chars;
use crate::read_file::missing;
use crate::workspace::Fingerprint;
use crate::write_file::{store, unread};

/// An edit holds the file twice in memory.
const MAX_SIZE: u64 = 64 * 1024 * 1024;
/// How many places of an ambiguous match are named.
const PLACES_SHOWN: usize = 5;
/// Lines looked at for a hint when nothing matches: a hint is not worth more time.
const LINES_COMPARED: usize = 5_000;
/// A line less alike than this is no hint.
const ALIKE: f64 = 0.6;
/// How much of a line a hint quotes or compares.
const QUOTED: usize = 200;

pub(crate) fn tool(workspace: Arc<Workspace>) -> FileTool {
    let spec = ToolSpec {
        name: "edit".to_owned(),
        description: "Replaces `old_string` by `new_string` in a file that was read with read_file before. \
                      `old_string` must match exactly, whitespace included, and only once unless `replace_all` is \
                      true. An empty `old_string` creates a new file."
            .to_owned(),
        parameters: json!({
            "type": "object",
            "properties": {
                "file_path": { "type": "string", "description": "Absolute path of the file." },
                "old_string": { "type": "string", "description": "The exact text to replace, with enough context to be unique." },
                "new_string": { "type": "string", "description": "The text to put in its place." },
                "replace_all": { "type": "boolean", "description": "Replace every occurrence. Default: false." }
            },
            "required": ["file_path", "old_string", "new_string"]
        }),
        kind: ToolKind::Edit,
    };
    FileTool { spec: Arc::new(spec), workspace, work: Work::Change(edit) }
}

fn edit(spec: &ToolSpec, workspace: &Workspace, args: &Args) -> Result<ToolOutcome, Refusal> {
    let args = ArgReader::new(spec, args);
    let given = args.filled_text("file_path")?;
    let old = args.text("old_string")?;
    let new = args.text("new_string")?;
    let count = if args.flag("replace_all")? { Count::All } else { Count::One };
    let path = workspace.resolve(given)?;
    let before = match fs::symlink_metadata(&path) {
        Ok(meta) if meta.is_dir() => return Err(Refusal::failed(format!("`{given}` is a folder."))),
        Ok(meta) if !meta.is_file() => {
            return Err(Refusal::failed(format!(
                "`{given}` is not a plain file (a pipe, socket or device)."
            )));
        }
        Ok(meta) if meta.len() > MAX_SIZE => {
            return Err(Refusal::failed(format!("`{given}` is too large to edit ({} bytes).", meta.len())));
        }
        Ok(_) => Some(
            fs::read(&path)
                .map_err(|error| Refusal::failed(format!("`{given}` cannot be read: {error}.")))?,
        ),
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => return Err(Refusal::failed(format!("`{given}` cannot be read: {error}."))),
    };
    let shown = workspace.show(&path);
    let before = before.filter(|bytes| !(bytes.is_empty() && old.is_empty()));
    let Some(before) = before else {
        if !old.is_empty() {
            return Err(Refusal::failed(missing(workspace, given, &path)));
        }
        let seen = store(workspace, given, &path, new)?;
        return Ok(changed(format!("Created `{shown}`."), &shown, "", new).having_seen(seen));
    };
    if old.is_empty() {
        return Err(Refusal::failed(format!(
            "`{given}` exists, and an empty `old_string` only creates new files; give the text to replace."
        )));
    }
    if let Some(refusal) = unread(workspace, given, &path, Fingerprint::of(&before)) {
        return Err(refusal);
    }
    let before = String::from_utf8(before).map_err(|_| {
        Refusal::failed(format!("`{given}` is not valid UTF-8, and editing it as text would damage it."))
    })?;
    let Replaced { text, times, line } =
        replace(&before, old, new, count).map_err(|why| Refusal::failed(why.say(given)))?;
    let seen = store(workspace, given, &path, &text)?;
    let message = match times {
        1 => format!("Edited `{shown}` at line {line}."),
        n => format!("Edited `{shown}` in {n} places, the first at line {line}."),
    };
    Ok(changed(message, &shown, &before, &text).having_seen(seen))
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Count {
    One,
    All,
}

#[derive(Debug)]
struct Replaced {
    text: String,
    times: usize,
    /// Of the first place, counted from 1.
    line: usize,
}

enum NoEdit {
    Nothing,
    Missing { hint: Option<String> },
    Ambiguous { times: usize, lines: Vec<usize> },
}

/// Models see and write `\n`. A file with `\r\n` is matched with those, and keeps them.
fn replace(text: &str, old: &str, new: &str, count: Count) -> Result<Replaced, NoEdit> {
    let crlf = text.matches("\r\n").count();
    let is_crlf = crlf > 0 && crlf * 2 > text.matches('\n').count();
    let mut old = old.to_owned();
    if !text.contains(&old) && crlf > 0 {
        old = with_crlf(&old);
    }
    let new = if is_crlf { with_crlf(new) } else { new.to_owned() };
    if old == new {
        return Err(NoEdit::Nothing);
    }
    let places: Vec<usize> = text.match_indices(&old).map(|(at, _)| at).collect();
    let line_at = |at: usize| text[..at].matches('\n').count() + 1;
    match places.as_slice() {
        [] => Err(NoEdit::Missing { hint: nearest_place(text, &old) }),
        [_, _, ..] if count == Count::One => Err(NoEdit::Ambiguous {
            times: places.len(),
            lines: places.iter().take(PLACES_SHOWN).map(|at| line_at(*at)).collect(),
        }),
        [first, ..] => {
            Ok(Replaced { text: text.replace(&old, &new), times: places.len(), line: line_at(*first) })
        }
    }
}

fn with_crlf(text: &str) -> String {
    text.replace("\r\n", "\n").replace('\n', "\r\n")
}

/// Where the wanted text probably is: a place that differs in whitespace only, or a line much like its first.
fn nearest_place(text: &str, old: &str) -> Option<String> {
    let first = old.lines().map(str::trim).find(|line| !line.is_empty())?;
    let lines = || {
        text.lines().enumerate().map(|(n, line)| (n + 1, line.trim())).filter(|(_, line)| !line.is_empty())
    };
    if let Some((number, _)) = lines().find(|(_, line)| *line == first) {
        return Some(format!(
            "line {number} is like its first line, but the whitespace or what follows differs"
        ));
    }
    let first = first_chars(first, QUOTED);
    let (score, number, line) = lines()
        .take(LINES_COMPARED)
        .map(|(number, line)| {
            let line = first_chars(line, QUOTED);
            (likeness(first, line), number, line)
        })
        .max_by(|a, b| a.0.total_cmp(&b.0).then(b.1.cmp(&a.1)))?;
    (score >= ALIKE).then(|| format!("the nearest line is {number}: `{line}`"))
}

impl NoEdit {
    fn say(&self, given: &str) -> String {
        match self {
            NoEdit::Nothing => {
                "`old_string` and `new_string` are the same, so there is nothing to do.".to_owned()
            }
            NoEdit::Missing { hint: None } => {
                format!("`old_string` does not occur in `{given}` (0 matches).")
            }
            NoEdit::Missing { hint: Some(hint) } => {
                format!("`old_string` does not occur in `{given}` (0 matches); {hint}.")
            }
            NoEdit::Ambiguous { times, lines } => {
                let named: Vec<String> = lines.iter().map(ToString::to_string).collect();
                let more = if *times > lines.len() { ", …" } else { "" };
                format!(
                    "`old_string` occurs {times} times in `{given}` (lines {}{more}); add context to make it unique, or set `replace_all`.",
                    named.join(", ")
                )
            }
        }
    }
}

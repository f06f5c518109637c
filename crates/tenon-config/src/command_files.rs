//! Commands that the user or a project wrote: `commands/**/*.md` in `$TENON_HOME` and in `.tenon`.
//!
//! A file is a prompt, perhaps with front matter (`front_matter.rs`) before it; the folders it lies in are part
//! of its name: `git/commit.md` is `/git:commit`. One that is not understood is reported and skipped. An untrusted project's
//! commands are known and marked: what they say would stand in the user's own place. What a command does with its
//! text is decided in `tenon-session/src/commands/own.rs`.

use std::fs;
use std::path::{Path, PathBuf};

use crate::files::{Confine, Found, Size, read_capped};
use crate::front_matter::{FieldValue, read_front_matter};
use crate::problem::{quotable, shown_path};

pub(crate) const COMMANDS_FOLDER: &str = "commands";
/// About 16,000 tokens: more belongs into files that the prompt names with `@`.
const MAX_COMMAND_BYTES: u64 = 64 * 1024;
const MAX_DESCRIPTION_CHARS: usize = 1_000;
const MAX_NAME_CHARS: usize = 64;
/// More than anybody writes by hand, in one folder with all below it.
const MAX_COMMANDS: usize = 200;
/// Folders within folders; a tree deeper than this is something else.
const MAX_DEPTH: usize = 8;

/// One command, as it was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandFile {
    /// Such as `git:commit`.
    pub name: String,
    /// May be empty.
    pub description: String,
    /// What to type after it, for people.
    pub argument_hint: String,
    pub prompt: String,
    pub path: PathBuf,
    pub from: CommandSource,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommandSource {
    User,
    Project,
    /// It may be listed and not run.
    UntrustedProject,
}

/// A file that was read and not yet understood.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RawCommandFile {
    /// Below the folder of commands, with slashes.
    pub(crate) below: String,
    pub(crate) path: PathBuf,
    pub(crate) bytes: Vec<u8>,
}

/// The commands of a folder and all folders in it, by path. A folder that is not there has none.
pub(crate) fn read_command_folder(
    folder: &Path,
    confine: Confine<'_>,
    warnings: &mut Vec<String>,
) -> Vec<RawCommandFile> {
    let mut paths = Vec::new();
    collect(folder, 0, &mut paths);
    paths.sort();
    if paths.len() > MAX_COMMANDS {
        warnings.push(format!(
            "`{}` holds more than {MAX_COMMANDS} commands; the last ones are skipped",
            shown_path(folder)
        ));
        paths.truncate(MAX_COMMANDS);
    }
    let mut files = Vec::new();
    for path in paths {
        let below = path.strip_prefix(folder).unwrap_or(&path);
        let Some(below) = below.to_str().map(str::to_owned) else {
            warnings.push(skipped(&path, "its name is not UTF-8"));
            continue;
        };
        match read_capped(&path, MAX_COMMAND_BYTES, confine) {
            Ok(Found::Missing) => {}
            Ok(Found::Bytes { bytes, size: Size::Whole }) => {
                files.push(RawCommandFile { below, path, bytes })
            }
            Ok(Found::Bytes { size: Size::Cut { .. }, .. }) => {
                warnings.push(skipped(&path, &format!("it is larger than {} KiB", MAX_COMMAND_BYTES / 1024)));
            }
            Err(problem) => warnings.push(skipped(&path, &problem.to_string())),
        }
    }
    files
}

/// Links to folders are not followed: they could lead round in a circle.
fn collect(folder: &Path, depth: usize, paths: &mut Vec<PathBuf>) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    for entry in entries.flatten() {
        let Ok(kind) = entry.file_type() else { continue };
        let path = entry.path();
        if kind.is_dir() {
            if depth < MAX_DEPTH && paths.len() <= MAX_COMMANDS {
                collect(&path, depth + 1, paths);
            }
        } else if path.extension().is_some_and(|extension| extension == "md") {
            paths.push(path);
        }
    }
}

/// Understands what was read.
pub(crate) fn understand_commands(
    files: &[RawCommandFile],
    from: CommandSource,
    warnings: &mut Vec<String>,
) -> Vec<CommandFile> {
    let mut commands = Vec::new();
    for file in files {
        match understand(file, from) {
            Ok((command, unused)) => {
                if !unused.is_empty() {
                    let unused: Vec<String> =
                        unused.iter().map(|key| format!("`{}`", quotable(key))).collect();
                    warnings.push(format!(
                        "`{}`: {} of its front matter {} no effect in tenon",
                        shown_path(&file.path),
                        unused.join(", "),
                        if unused.len() == 1 { "has" } else { "have" }
                    ));
                }
                commands.push(command);
            }
            Err(why) => warnings.push(skipped(&file.path, &why)),
        }
    }
    commands
}

/// A project's over the user's, by name; those of an untrusted one only where the name is free.
pub(crate) fn overlay_commands(user: Vec<CommandFile>, project: Vec<CommandFile>) -> Vec<CommandFile> {
    let is_in = |list: &[CommandFile], name: &str| list.iter().any(|command| command.name == name);
    let (trusted, untrusted): (Vec<_>, Vec<_>) =
        project.into_iter().partition(|command| command.from == CommandSource::Project);
    let mut commands = user;
    commands.retain(|command| !is_in(&trusted, &command.name));
    commands.extend(trusted);
    let free: Vec<CommandFile> =
        untrusted.into_iter().filter(|command| !is_in(&commands, &command.name)).collect();
    commands.extend(free);
    commands
}

/// The command, and the keys that mean nothing here.
fn understand(file: &RawCommandFile, from: CommandSource) -> Result<(CommandFile, Vec<String>), String> {
    let text = std::str::from_utf8(&file.bytes).map_err(|_| "it is not UTF-8")?;
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut command = CommandFile {
        name: name(&file.below)?,
        description: String::new(),
        argument_hint: String::new(),
        prompt: String::new(),
        path: file.path.clone(),
        from,
    };
    let mut unused = Vec::new();
    let body = match read_front_matter(text).map_err(|error| error.to_string())? {
        None => text,
        Some(matter) => {
            for field in &matter.fields {
                let one = || match &field.value {
                    FieldValue::Text(text) => Ok(text.trim().to_owned()),
                    // What other systems write for an argument: `[message]`.
                    FieldValue::List(items) if field.key == "argument-hint" => {
                        Ok(format!("[{}]", items.join(", ")))
                    }
                    FieldValue::List(_) => {
                        Err(format!("line {}: `{}` must be a text", field.line, field.key))
                    }
                };
                match field.key {
                    "description" => command.description = one()?,
                    "argument-hint" => command.argument_hint = one()?,
                    other => unused.push(other.to_owned()),
                }
            }
            matter.body
        }
    };
    if command.description.chars().count() > MAX_DESCRIPTION_CHARS {
        return Err(format!("`description` is longer than {MAX_DESCRIPTION_CHARS} characters"));
    }
    command.prompt = body.trim().to_owned();
    if command.prompt.is_empty() {
        return Err("it has no text to send to the model".to_owned());
    }
    Ok((command, unused))
}

/// `git/commit.md` is `git:commit`.
fn name(below: &str) -> Result<String, String> {
    let name = below.strip_suffix(".md").unwrap_or(below).replace('/', ":");
    let is_word = |part: &str| {
        !part.is_empty() && part.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_'))
    };
    if name.chars().count() <= MAX_NAME_CHARS && name.split(':').all(is_word) {
        return Ok(name);
    }
    Err(format!(
        "`{}` is no name for a command: up to {MAX_NAME_CHARS} letters, digits, `-` and `_`, folders included",
        quotable(below)
    ))
}

fn skipped(path: &Path, why: &str) -> String {
    format!("`{}` is no command and is skipped: {why}", shown_path(path))
}

//! Files that a document names: `@path` for a text, a path for an included workflow or a context file.
//!
//! All of them are confined to the folder of the document that names them, symbolic links resolved: a document that
//! was merely cloned shows a model nothing from outside its folder.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use crate::fields::MAX_FILE_BYTES;
use crate::not_text::{self, NotText};
use crate::pinned::Files;
use crate::unicode;

/// A file that names a file that names a file.
const MAX_CHAIN: usize = 20;
/// How a text says that it stands in a file.
pub(crate) const MARK: char = '@';

/// The text a field means: itself, or the file that `@path` names, followed while files name files.
pub(crate) fn resolve(files: &Files, folder: &Path, text: &str) -> Result<Resolved, RefError> {
    let Some(mut name) = text.strip_prefix(MARK).map(|name| name.trim().to_owned()) else {
        return Ok(Resolved::Inline);
    };
    let mut seen: Vec<PathBuf> = Vec::new();
    // The file that named this one, and its text.
    let mut through: Option<(String, String)> = None;
    loop {
        if seen.len() >= MAX_CHAIN {
            return Err(RefError::Depth(seen.len() + 1));
        }
        let (path, content) = match read(files, folder, &name, &seen) {
            Ok(found) => found,
            Err(error) => {
                return Err(match through {
                    Some((file, text)) => RefError::Chained { file, text, error: Box::new(error) },
                    None => error,
                });
            }
        };
        seen.push(path);
        // A text of several lines is no path.
        let plain = unicode::clean(&content).unwrap_or_default();
        match plain.trim().strip_prefix(MARK).filter(|next| !next.contains(['\n', '\r'])) {
            Some(next) => {
                let next = next.trim().to_owned();
                through = Some((std::mem::replace(&mut name, next), content));
            }
            None => return Ok(Resolved::File { name, content }),
        }
    }
}

fn read(files: &Files, folder: &Path, name: &str, seen: &[PathBuf]) -> Result<(PathBuf, String), RefError> {
    if name.is_empty() {
        return Err(RefError::Empty(seen.len()));
    }
    let path = files.confined(folder, name)?;
    if seen.contains(&path) {
        return Err(RefError::Cycle { name: name.to_owned(), depth: seen.len() });
    }
    let content = files.read_text(&path, name)?;
    Ok((path, content))
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Resolved {
    Inline,
    /// The last file of the chain, by the name that led to it.
    File {
        name: String,
        content: String,
    },
}

/// The file that `name` means, if it is inside `folder` when all links are followed.
pub fn confined(folder: &Path, name: &str) -> Result<PathBuf, RefError> {
    let missing = |error: std::io::Error| RefError::Missing { name: name.to_owned(), reason: reason(&error) };
    let root = folder.canonicalize().map_err(missing)?;
    let joined = root.join(name);
    // Said before the file is looked for: whether it exists outside is nobody's business.
    if leaves(&root, &joined) {
        return Err(RefError::Escape(name.to_owned()));
    }
    let path = joined.canonicalize().map_err(missing)?;
    if path.starts_with(&root) { Ok(path) } else { Err(RefError::Escape(name.to_owned())) }
}

/// Whether the words of a path lead out, links aside.
fn leaves(root: &Path, joined: &Path) -> bool {
    let mut plain = PathBuf::new();
    for part in joined.components() {
        match part {
            std::path::Component::ParentDir => {
                plain.pop();
            }
            std::path::Component::CurDir => {}
            other => plain.push(other),
        }
    }
    !plain.starts_with(root)
}

/// A text file of a document's folder.
pub(crate) fn read_text(path: &Path, name: &str) -> Result<String, RefError> {
    let missing = |reason: String| RefError::Missing { name: name.to_owned(), reason };
    let about = path.metadata().map_err(|error| missing(reason(&error)))?;
    // A pipe would never end, a device is none of ours.
    if !about.is_file() {
        return Err(missing("it is not a file".to_owned()));
    }
    let file = File::open(path).map_err(|error| missing(reason(&error)))?;
    let mut bytes = Vec::new();
    file.take(MAX_FILE_BYTES as u64 + 1).read_to_end(&mut bytes).map_err(|error| missing(reason(&error)))?;
    if bytes.len() > MAX_FILE_BYTES {
        return Err(RefError::TooLarge(name.to_owned()));
    }
    not_text::text(bytes).map_err(|why| RefError::NotText { name: name.to_owned(), why: Box::new(why) })
}

fn reason(error: &std::io::Error) -> String {
    match error.kind() {
        std::io::ErrorKind::NotFound => "there is no such file".to_owned(),
        std::io::ErrorKind::PermissionDenied => "it may not be read".to_owned(),
        _ => error.to_string(),
    }
}

impl RefError {
    /// What to do about it.
    pub(crate) fn hint(&self) -> String {
        let hint = match self {
            RefError::NotText { why, .. } => return why.hint(),
            RefError::Chained { error, .. } if !matches!(**error, RefError::Missing { .. }) => {
                return error.hint();
            }
            RefError::Chained { .. } => {
                "a file that holds nothing but `@path` stands for the file it names: is the name right?"
            }
            RefError::Missing { .. } => "paths start at the folder of the document; is the name right?",
            RefError::Escape(_) => {
                "move or copy the file into the folder of the document, or the document up"
            }
            RefError::TooLarge(_) => "shorten it, or let the agent read it with a tool",
            RefError::Cycle { .. } => {
                "a file that holds nothing but `@path` is followed: put text into one of them"
            }
            RefError::Depth(_) => "name the file with the text itself",
            RefError::Empty(_) => "write a path after the `@`, or text that does not begin with it",
        };
        hint.to_owned()
    }
}

/// Why a file cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RefError {
    #[error("`{name}` cannot be read: {reason}")]
    Missing { name: String, reason: String },
    /// It is there, and no text.
    #[error("`{name}`: {why}")]
    NotText { name: String, why: Box<NotText> },
    /// What a file names that the document names.
    #[error("{error}")]
    Chained { file: String, text: String, error: Box<RefError> },
    #[error("`{0}` is outside the folder of the document")]
    Escape(String),
    #[error("`{0}` is larger than {MAX_FILE_BYTES} bytes")]
    TooLarge(String),
    #[error("@-ref cycle detected at `{name}` (depth {depth})")]
    Cycle { name: String, depth: usize },
    #[error("reference nesting depth {0} exceeds max {MAX_CHAIN}")]
    Depth(usize),
    #[error("empty chained reference at depth {0}")]
    Empty(usize),
}

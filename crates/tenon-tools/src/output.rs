//! How much of an output the model gets to read, and where the rest is kept.

use std::borrow::Cow;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use tenon_core::{HidingStream, Secrets};

/// What any tool may put into the model's context: roughly 6,000 tokens, or a long screenful of lines.
pub(crate) const GENERIC: Cap = Cap { chars: 25_000, lines: 1_000 };
/// Commands get a little more: their end often holds the one error that matters.
pub(crate) const SHELL_CHARS: usize = 30_000;
/// Of a cut output, the first fifth stays from the beginning, the rest from the end.
const HEAD_SHARE: usize = 5;
/// How many names are tried before a folder counts as unusable.
const NAME_TRIES: u32 = 10_000;
const PRIVATE_FOLDER: u32 = 0o700;
const PRIVATE_FILE: u32 = 0o600;
const OTHERS: u32 = 0o077;

/// Cuts `text` to the cap and keeps the whole in `store`. Short texts come back as they are.
pub(crate) fn cap(store: &OutputStore, tool: &str, text: String, cap: Cap) -> String {
    let Some(parts) = cut(&text, cap) else { return text };
    let kept = store.keep(tool, &text);
    cut_notice(&kept, &parts)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cap {
    pub chars: usize,
    pub lines: usize,
}

/// What is left of an output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Parts {
    pub head: String,
    pub tail: String,
    pub chars_cut: u64,
}

/// What became of the whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Kept {
    In(PathBuf),
    /// The file itself reached its limit: only the beginning is there.
    PartlyIn(PathBuf),
    /// Why there is no file.
    Nowhere(String),
}

/// The text that stands for a cut output: where the whole is, the beginning, what is missing, the end.
pub(crate) fn cut_notice(kept: &Kept, parts: &Parts) -> String {
    let place = match kept {
        Kept::In(path) => format!(
            "The full output is in {}\nRead it with read_file (offset and limit) or search it with grep_search.",
            path.display()
        ),
        Kept::PartlyIn(path) => format!(
            "It was too large even for a file: its beginning is in {}\nRead that with read_file (offset and limit) or search it with grep_search.",
            path.display()
        ),
        Kept::Nowhere(why) => format!("The full output could not be kept ({why})."),
    };
    format!(
        "The output was too large and is shown in part.\n{place}\n\n{}\n\n[… {} characters left out …]\n\n{}",
        parts.head, parts.chars_cut, parts.tail
    )
}

/// `None` if the text is within the cap.
fn cut(text: &str, cap: Cap) -> Option<Parts> {
    let chars = text.chars().count();
    let lines = text.lines().count();
    if chars <= cap.chars && lines <= cap.lines {
        return None;
    }
    let head = first_chars(first_lines(text, cap.lines / HEAD_SHARE), head_chars(cap.chars));
    let rest = &text[head.len()..];
    let tail =
        last_chars(last_lines(rest, cap.lines - cap.lines / HEAD_SHARE), cap.chars - head_chars(cap.chars));
    let shown = head.chars().count() + tail.chars().count();
    Some(Parts { head: head.to_owned(), tail: tail.to_owned(), chars_cut: (chars - shown) as u64 })
}

pub(crate) fn head_chars(chars: usize) -> usize {
    chars / HEAD_SHARE
}

/// The longest beginning of at most `n` characters.
pub(crate) fn first_chars(text: &str, n: usize) -> &str {
    text.char_indices().nth(n).map_or(text, |(at, _)| &text[..at])
}

/// The longest end of at most `n` characters.
pub(crate) fn last_chars(text: &str, n: usize) -> &str {
    if n == 0 {
        return "";
    }
    text.char_indices().rev().nth(n - 1).map_or(text, |(at, _)| &text[at..])
}

fn first_lines(text: &str, n: usize) -> &str {
    text.match_indices('\n').nth(n.saturating_sub(1)).map_or(text, |(at, _)| &text[..at])
}

fn last_lines(text: &str, n: usize) -> &str {
    let body = text.strip_suffix('\n').unwrap_or(text);
    body.rmatch_indices('\n').nth(n.saturating_sub(1)).map_or(text, |(at, _)| &text[at + 1..])
}

/// A private folder for outputs that are too large for the model. It is created when the first one comes.
#[derive(Clone, Debug, Default)]
pub struct OutputStore {
    folder: Option<Arc<PathBuf>>,
    /// What must not stand in its files. Known once a model is chosen.
    secrets: Arc<OnceLock<Secrets>>,
}

impl OutputStore {
    pub fn at(folder: impl Into<PathBuf>) -> OutputStore {
        OutputStore { folder: Some(Arc::new(folder.into())), secrets: Arc::default() }
    }

    /// Keeps nothing: outputs are only cut.
    pub fn none() -> OutputStore {
        OutputStore::default()
    }

    /// From here on these are kept out of its files. The first who says so is heard.
    pub fn keep_out(&self, secrets: &Secrets) {
        let _ = self.secrets.set(secrets.clone());
    }

    /// For text that comes in pieces.
    pub(crate) fn hiding(&self) -> HidingStream {
        HidingStream::new(self.secrets.get().cloned().unwrap_or_default())
    }

    pub fn folder(&self) -> Option<&Path> {
        self.folder.as_ref().map(|folder| folder.as_path())
    }

    /// Whether a path, links resolved, lies in this folder.
    pub(crate) fn contains(&self, real: &Path) -> bool {
        self.folder()
            .and_then(|folder| fs::canonicalize(folder).ok())
            .is_some_and(|folder| real.starts_with(folder))
    }

    /// `text`, or its last `chars` characters with a note of where the whole is kept.
    pub fn keep_end(&self, tool: &str, text: String, chars: usize) -> String {
        if text.chars().nth(chars).is_none() {
            return text;
        }
        match self.keep(tool, &text) {
            Kept::In(path) | Kept::PartlyIn(path) => OutputStore::end_of(&text, chars, &path),
            Kept::Nowhere(why) => {
                format!(
                    "[the beginning was cut off, and could not be kept ({why})]\n{}",
                    last_chars(&text, chars)
                )
            }
        }
    }

    /// The same for a text that is kept in `path` already.
    pub fn end_of(text: &str, chars: usize, path: &Path) -> String {
        match text.chars().nth(chars) {
            None => text.to_owned(),
            Some(_) => {
                format!(
                    "[the beginning was cut off; the whole is in {}]\n{}",
                    path.display(),
                    last_chars(text, chars)
                )
            }
        }
    }

    /// A new, empty file for an output of `tool`.
    pub fn create(&self, tool: &str) -> io::Result<(PathBuf, File)> {
        let Some(folder) = self.folder() else {
            return Err(io::Error::other("there is no folder for outputs"));
        };
        private_folder(folder)?;
        let folder = fs::canonicalize(folder)?;
        for n in 1..=NAME_TRIES {
            let path = folder.join(format!("{tool}_{n}.output"));
            match OpenOptions::new().write(true).create_new(true).mode(PRIVATE_FILE).open(&path) {
                Ok(file) => return Ok((path, file)),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        }
        Err(io::Error::other("the folder for outputs is full"))
    }

    /// A text as it may be written to one of its files.
    pub fn hide<'t>(&self, text: &'t str) -> Cow<'t, str> {
        self.secrets.get().map_or(Cow::Borrowed(text), |secrets| secrets.hide(text))
    }

    fn keep(&self, tool: &str, text: &str) -> Kept {
        let written = self.create(tool).and_then(|(path, mut file)| {
            file.write_all(self.hide(text).as_bytes())?;
            Ok(path)
        });
        match written {
            Ok(path) => Kept::In(path),
            Err(error) => Kept::Nowhere(error.to_string()),
        }
    }
}

/// Creates the folder, or accepts one that only its owner can enter. A folder open to others is left
/// alone: it may be anything, and changing its mode could lock somebody out.
pub(crate) fn private_folder(folder: &Path) -> io::Result<()> {
    match fs::symlink_metadata(folder) {
        Ok(meta) if meta.is_dir() && meta.permissions().mode() & OTHERS == 0 => Ok(()),
        Ok(_) => Err(io::Error::other("the folder for outputs exists and is not private")),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            DirBuilder::new().recursive(true).mode(PRIVATE_FOLDER).create(folder)
        }
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cut_keeps_a_fifth_from_the_beginning_and_ends_at_character_boundaries() {
        let text = "ä".repeat(30);
        let parts = cut(&text, Cap { chars: 10, lines: 1_000 }).unwrap();
        assert_eq!(parts, Parts { head: "ää".into(), tail: "ä".repeat(8), chars_cut: 20 });
        assert_eq!(cut(&text, Cap { chars: 30, lines: 1 }), None);
    }

    #[test]
    fn lines_are_cut_like_characters() {
        let text: String = (1..=20).map(|n| format!("{n}\n")).collect();
        let parts = cut(&text, Cap { chars: 1_000, lines: 5 }).unwrap();
        assert_eq!((parts.head.as_str(), parts.tail.as_str()), ("1", "17\n18\n19\n20\n"));
    }
}

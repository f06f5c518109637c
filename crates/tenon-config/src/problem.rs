//! What is wrong with a settings file, and where.

use std::fmt;
use std::path::{Path, PathBuf};

/// Text from a file is quoted up to this many characters: enough to recognise it.
const QUOTED_CHARS: usize = 60;
/// Names longer than this are not typing errors of a known key.
const MAX_SUGGESTION_CHARS: usize = 40;
/// How alike two names must be (0 to 1) to be offered as a correction.
const SUGGESTION_LIKENESS: f64 = 0.6;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    Error,
    Warning,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    pub severity: Severity,
    /// The file, or the flag the text came from.
    pub file: PathBuf,
    /// From 1.
    pub line: usize,
    /// In characters, from 1.
    pub column: usize,
    /// One sentence without a full stop.
    pub message: String,
    pub hint: Option<String>,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}: {}", shown_path(&self.file), self.line, self.column, self.message)
    }
}

impl Problem {
    /// Message and hint in one line, for lists of warnings.
    pub fn one_line(&self) -> String {
        match &self.hint {
            Some(hint) => format!("{self}; {hint}"),
            None => self.to_string(),
        }
    }
}

/// Line and column of a byte offset.
pub(crate) fn position(text: &str, offset: usize) -> (usize, usize) {
    let bytes = text.as_bytes();
    let before = &bytes[..offset.min(bytes.len())];
    let line_start = before.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
    let line = before.iter().filter(|byte| **byte == b'\n').count() + 1;
    // Bytes that continue a character do not count.
    let column = before[line_start..].iter().filter(|byte| **byte & 0xc0 != 0x80).count() + 1;
    (line, column)
}

/// The known name that `name` was probably meant to be.
pub(crate) fn nearest<'k>(name: &str, known: &[&'k str]) -> Option<&'k str> {
    if name.chars().count() > MAX_SUGGESTION_CHARS {
        return None;
    }
    let likeness = |candidate: &str| {
        strsim::normalized_damerau_levenshtein(&name.to_ascii_lowercase(), &candidate.to_ascii_lowercase())
    };
    known
        .iter()
        .map(|candidate| (likeness(candidate), *candidate))
        .filter(|(score, _)| *score >= SUGGESTION_LIKENESS)
        .max_by(|left, right| left.0.total_cmp(&right.0))
        .map(|(_, candidate)| candidate)
}

/// Text from a file made fit for a terminal: control characters escaped, long text cut.
pub(crate) fn quotable(text: &str) -> String {
    let mut shown = String::new();
    for (count, c) in text.chars().enumerate() {
        if count == QUOTED_CHARS {
            shown.push('…');
            break;
        }
        push_escaped(&mut shown, c);
    }
    shown
}

/// A path as messages show it. A folder in a cloned repository may have any name.
pub(crate) fn shown_path(path: &Path) -> String {
    let mut shown = String::new();
    path.to_string_lossy().chars().for_each(|c| push_escaped(&mut shown, c));
    shown
}

fn push_escaped(shown: &mut String, c: char) {
    // Besides control characters: the marks that reorder or hide what follows on a terminal.
    let hides =
        matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}');
    if c.is_control() || hides { shown.extend(c.escape_unicode()) } else { shown.push(c) }
}

//! Why a schema was refused, in words for the person who wrote it.
//!
//! The texts name no flag: whoever took the schema puts its own name in front.

use std::fmt;
use std::path::PathBuf;

use crate::pointer::shown;

/// More problems than this are counted, not listed: by then the reader has enough to do.
const MAX_PROBLEMS_SHOWN: usize = 20;

#[derive(Debug, thiserror::Error)]
pub enum SchemaError {
    /// The argument names no schema that could be read.
    #[error("{message}")]
    Source { message: String, hint: Option<String> },
    /// Inline text that is not JSON.
    #[error("the schema is not valid JSON: line {line}, column {column}: {message}")]
    Syntax { line: usize, column: usize, message: String, hint: Option<String> },
    /// A file whose content is not JSON. Its content is not quoted: it may not be meant for the reader of
    /// an error message.
    #[error("the content of `{}` is not valid JSON", path.display())]
    FileSyntax { path: PathBuf },
    /// It is JSON, but it cannot be a contract.
    #[error("{}", Listed(.0))]
    Refused(Vec<Problem>),
}

/// One thing that is wrong with a schema.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// JSON Pointer into the schema.
    pub pointer: String,
    pub message: String,
    pub hint: Option<String>,
}

impl Problem {
    pub(crate) fn new(pointer: impl Into<String>, message: impl Into<String>) -> Problem {
        Problem { pointer: pointer.into(), message: message.into(), hint: None }
    }

    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Problem {
        self.hint = Some(hint.into());
        self
    }
}

impl SchemaError {
    pub(crate) fn source(message: impl Into<String>, hint: Option<&str>) -> SchemaError {
        SchemaError::Source { message: message.into(), hint: hint.map(str::to_owned) }
    }

    /// What to do about it, where there is something to say.
    pub fn hint(&self) -> Option<String> {
        match self {
            SchemaError::Source { hint, .. } | SchemaError::Syntax { hint, .. } => hint.clone(),
            SchemaError::FileSyntax { .. } => None,
            SchemaError::Refused(problems) => {
                let mut hints: Vec<&str> = Vec::new();
                for hint in problems.iter().filter_map(|problem| problem.hint.as_deref()) {
                    if !hints.contains(&hint) {
                        hints.push(hint);
                    }
                }
                if hints.is_empty() { None } else { Some(hints.join("\n")) }
            }
        }
    }

    /// Where the first problem is.
    pub fn pointer(&self) -> Option<&str> {
        self.problems().first().map(|problem| problem.pointer.as_str())
    }

    /// Everything that is wrong, if the schema could be read at all.
    pub fn problems(&self) -> &[Problem] {
        match self {
            SchemaError::Refused(problems) => problems,
            _ => &[],
        }
    }
}

struct Listed<'a>(&'a [Problem]);

impl fmt::Display for Listed<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let problems = self.0;
        if let [only] = problems {
            return if only.pointer.is_empty() {
                out.write_str(&only.message)
            } else {
                write!(out, "at `{}`: {}", only.pointer, only.message)
            };
        }
        write!(out, "the schema has {} problems", problems.len())?;
        for (index, problem) in problems.iter().take(MAX_PROBLEMS_SHOWN).enumerate() {
            let separator = if index == 0 { ": " } else { "; " };
            write!(out, "{separator}at `{}`: {}", shown(&problem.pointer), problem.message)?;
        }
        match problems.len().saturating_sub(MAX_PROBLEMS_SHOWN) {
            0 => Ok(()),
            more => write!(out, "; and {more} more"),
        }
    }
}

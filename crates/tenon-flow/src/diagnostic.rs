//! What is wrong with a document, and where: one [`Diagnostic`] per problem, with a stable code.
//!
//! The codes are the categories of the format's own suite and, for what tenon checks beyond it, names of its own.
//! They are an interface: editors and scripts match on them. Drawing the line a diagnostic points at is here too.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::ser::SerializeStruct;
use serde::{Serialize, Serializer};
use tenon_core::harmless_line;
use unicode_width::UnicodeWidthChar;

use crate::document::Place;
use crate::lined::Lined;

/// A line is shown up to this many characters; the caret decides which part.
const SHOWN_COLUMNS: usize = 100;
/// Text from a document is quoted up to this many characters.
const QUOTED_CHARS: usize = 60;

macro_rules! codes {
    ($($(#[$doc:meta])* $name:ident = $text:literal,)*) => {
        /// The kind of a problem.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
        #[serde(rename_all = "snake_case")]
        pub enum Code { $($(#[$doc])* $name,)* }

        impl Code {
            /// Every code with its text, in the order of the reference.
            pub const ALL: &'static [(Code, &'static str)] = &[$((Code::$name, $text),)*];

            pub fn text(self) -> &'static str {
                match self { $(Code::$name => $text,)* }
            }
        }
    };
}

codes! {
    MissingName = "missing_name",
    MissingSteps = "missing_steps",
    EmptySteps = "empty_steps",
    UnknownVersion = "unknown_version",
    AgentMissingDescription = "agent_missing_description",
    InvalidStepId = "invalid_step_id",
    DuplicateStep = "duplicate_step",
    MissingAgent = "missing_agent",
    MissingDep = "missing_dep",
    Cycle = "cycle",
    IncludeHasAgent = "include_has_agent",
    IncludeHasInstructions = "include_has_instructions",
    IncludeHasLoop = "include_has_loop",
    IncludeHasCondition = "include_has_condition",
    IncludeHasContextfiles = "include_has_contextfiles",
    IncludeHasModel = "include_has_model",
    LoopMissingMaxIterations = "loop_missing_max_iterations",
    ForeachWithMaxIterations = "foreach_with_max_iterations",
    ForeachWithUntil = "foreach_with_until",
    ForeachWithUntilagent = "foreach_with_untilagent",
    ForeachWithDelay = "foreach_with_delay",
    ForeachEmptyArray = "foreach_empty_array",
    NestedLoopProhibited = "nested_loop_prohibited",
    LoopValidation = "loop_validation",
    UntilagentBadRef = "untilagent_bad_ref",
    NegativeValue = "negative_value",
    Validation = "validation",
    UnknownField = "unknown_field",
    ApproveConflict = "approve_conflict",
    UnicodeUnsafe = "unicode_unsafe",
    TooLarge = "too_large",
    RefMissing = "ref_missing",
    RefEscape = "ref_escape",
    IncludeMissing = "include_missing",
    IncludeEscape = "include_escape",
    IncludeDepth = "include_depth",
    IncludeCollision = "include_collision",
    IncludeInputs = "include_inputs",
    SchemaInvalid = "schema_invalid",
    UnknownTool = "unknown_tool",
    UnknownModel = "unknown_model",
    CelSyntax = "cel_syntax",
    CelType = "cel_type",
    CelUnknownStep = "cel_unknown_step",
    CelUnknownField = "cel_unknown_field",
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    Error,
    Warning,
}

/// One problem of a document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    pub code: Code,
    pub severity: Severity,
    /// As it was named by whoever asked.
    pub file: PathBuf,
    pub line: u32,
    pub column: u32,
    /// One sentence without a full stop.
    pub message: String,
    /// What to do about it.
    pub hint: String,
    /// The line itself, with a caret under the column.
    pub snippet: String,
}

impl Serialize for Diagnostic {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut object = serializer.serialize_struct("Diagnostic", 8)?;
        object.serialize_field("code", &self.code)?;
        object.serialize_field("category", self.code.category())?;
        object.serialize_field("severity", &self.severity)?;
        object.serialize_field("file", &self.file)?;
        object.serialize_field("line", &self.line)?;
        object.serialize_field("column", &self.column)?;
        object.serialize_field("message", &self.message)?;
        object.serialize_field("hint", &self.hint)?;
        object.end()
    }
}

impl Code {
    /// The category of the format's own suite that covers it.
    pub fn category(self) -> &'static str {
        if self <= Code::Validation { self.text() } else { Code::Validation.text() }
    }
}

impl Diagnostic {
    pub fn is_error(&self) -> bool {
        self.severity == Severity::Error
    }
}

/// `file:line:column: error[code]: message`, the line, and the hint, fit for a terminal.
impl fmt::Display for Diagnostic {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let severity = match self.severity {
            Severity::Error => "error",
            Severity::Warning => "warning",
        };
        let Diagnostic { line, column, .. } = self;
        let (file, message) = (self.file.display().to_string(), harmless_line(&self.message));
        let (file, code) = (harmless_line(&file), self.code.text());
        write!(out, "{file}:{line}:{column}: {severity}[{code}]: {message}")?;
        if !self.snippet.is_empty() {
            write!(out, "\n{}", self.snippet)?;
        }
        write!(out, "\nhint: {}", harmless_line(&self.hint))
    }
}

/// A file that problems can be in. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Source<'a> {
    pub(crate) file: &'a Path,
    pub(crate) lined: Arc<Lined<'a>>,
}

impl<'a> Source<'a> {
    pub(crate) fn new(file: &'a Path, text: &'a str) -> Source<'a> {
        Source { file, lined: Arc::new(Lined::new(text)) }
    }
}

/// Collects the problems of one document and of the texts it refers to.
#[derive(Clone, Debug)]
pub(crate) struct Problems<'a> {
    source: Source<'a>,
    found: Vec<Diagnostic>,
    left_out: Vec<LeftOut>,
}

/// Problems of a severity beyond those that are shown.
#[derive(Clone, Debug)]
struct LeftOut {
    /// What stands for them, at the first of them.
    instead: Diagnostic,
    count: usize,
}

/// More errors, or warnings, of one document are not read; each costs a line, a snippet and a hint.
const MAX_FOUND: usize = 1_000;

impl<'a> Problems<'a> {
    pub(crate) fn new(file: &'a Path, text: &'a str) -> Problems<'a> {
        Problems { source: Source::new(file, text), found: Vec::new(), left_out: Vec::new() }
    }

    pub(crate) fn source(&self) -> Source<'a> {
        self.source.clone()
    }

    pub(crate) fn error(
        &mut self,
        code: Code,
        place: Place,
        message: impl Into<String>,
        hint: impl Into<String>,
    ) {
        self.add(&self.source(), Severity::Error, code, place, message.into(), hint.into());
    }

    pub(crate) fn warning(
        &mut self,
        code: Code,
        place: Place,
        message: impl Into<String>,
        hint: impl Into<String>,
    ) {
        self.add(&self.source(), Severity::Warning, code, place, message.into(), hint.into());
    }

    pub(crate) fn has_errors(&self) -> bool {
        // Errors are left out only where others were kept.
        self.found.iter().any(Diagnostic::is_error)
    }

    /// In the order of the file.
    pub(crate) fn into_found(mut self) -> Vec<Diagnostic> {
        self.found.extend(self.left_out.into_iter().map(|LeftOut { instead, count }| {
            let message = format!("there are {count} more problems like these, which are not shown");
            Diagnostic { message, ..instead }
        }));
        self.found.sort_by_key(|problem| (problem.line, problem.column));
        self.found
    }

    /// Of any file.
    pub(crate) fn add(
        &mut self,
        source: &Source<'_>,
        severity: Severity,
        code: Code,
        place: Place,
        message: String,
        hint: String,
    ) {
        if let Some(left_out) = self.left_out.iter_mut().find(|it| it.instead.severity == severity) {
            left_out.count += 1;
            return;
        }
        let mut found = Diagnostic {
            code,
            severity,
            file: source.file.to_owned(),
            line: place.line,
            column: place.column,
            message,
            hint,
            snippet: snippet(&source.lined, place),
        };
        if self.found.iter().filter(|other| other.severity == severity).count() < MAX_FOUND {
            return self.found.push(found);
        }
        found.code = Code::TooLarge;
        found.hint = "mend those that are shown, then validate again".to_owned();
        self.left_out.push(LeftOut { instead: found, count: 1 });
    }
}

/// The lines of a text as readers of YAML count them; a byte order mark is no part of the first.
pub(crate) fn lines(text: &str) -> impl Iterator<Item = &str> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut rest = Some(text);
    std::iter::from_fn(move || {
        let text = rest?;
        let Some(end) = text.find(['\n', '\r']) else {
            rest = None;
            return Some(text);
        };
        let width = if text[end..].starts_with("\r\n") { 2 } else { 1 };
        rest = Some(&text[end + width..]);
        Some(&text[..end])
    })
}

fn snippet(lined: &Lined<'_>, place: Place) -> String {
    let Some(line) = lined.line(place.line) else { return String::new() };
    let column = place.column.saturating_sub(1) as usize;
    // A long line is cut so that the caret stays in view.
    let skipped = column.saturating_sub(SHOWN_COLUMNS * 3 / 4);
    let shown: Vec<char> =
        line.chars().skip(skipped).take(SHOWN_COLUMNS).map(|c| if is_plain(c) { c } else { ' ' }).collect();
    // A column is a character of the file; a terminal gives some of them two cells, and some none.
    let before = column - skipped;
    let cells: usize = shown.iter().take(before).map(|c| c.width().unwrap_or(1)).sum();
    let caret = " ".repeat(cells + before.saturating_sub(shown.len()));
    let shown: String = shown.into_iter().collect();
    let number = place.line.to_string();
    let margin = " ".repeat(number.len());
    format!("{margin} |\n{number} | {}\n{margin} | {caret}^", shown.trim_end())
}

/// Neither moves the cursor nor hides what follows.
fn is_plain(c: char) -> bool {
    !c.is_control() && !crate::unicode::is_invisible(c) && !crate::unicode::is_bidi(c)
}

/// Text of a document, fit for a message.
pub(crate) fn quoted(text: &str) -> String {
    let mut shown: String =
        text.chars().take(QUOTED_CHARS).map(|c| if is_plain(c) { c } else { '\u{fffd}' }).collect();
    if text.chars().nth(QUOTED_CHARS).is_some() {
        shown.push('…');
    }
    shown
}

/// The known name that was probably meant.
pub(crate) fn nearest<'k>(name: &str, known: impl IntoIterator<Item = &'k str>) -> Option<&'k str> {
    /// Below this likeness a suggestion is noise.
    const LIKELY: f64 = 0.6;
    /// Comparing names takes time, and so many come only from programs.
    const COMPARED: usize = 300;
    let likeness = |left: &str, right: &str| strsim::normalized_damerau_levenshtein(left, right);
    let lower = name.to_lowercase();
    known
        .into_iter()
        .take(COMPARED)
        .map(|candidate| (likeness(&lower, &candidate.to_lowercase()), candidate))
        .filter(|(score, _)| *score >= LIKELY)
        .max_by(|left, right| {
            let exact = |candidate: &str| likeness(name, candidate);
            left.0
                .total_cmp(&right.0)
                .then_with(|| exact(left.1).total_cmp(&exact(right.1)))
                .then(right.1.cmp(left.1))
        })
        .map(|(_, candidate)| candidate)
}

/// The known name that was probably meant, or all of them.
pub(crate) fn meant<'k>(name: &str, known: impl IntoIterator<Item = &'k str>, none: &str) -> String {
    /// More names than this are not read.
    const SHOWN: usize = 12;
    // What has no name is no answer, and neither is the name that was just refused.
    let known = known.into_iter().filter(|known| !known.is_empty() && *known != name).collect::<Vec<_>>();
    if let Some(meant) = nearest(name, known.iter().copied()) {
        return format!("did you mean `{}`?", quoted(meant));
    }
    let names: Vec<String> = known.iter().take(SHOWN).map(|name| format!("`{}`", quoted(name))).collect();
    match known.len() {
        0 => none.to_owned(),
        1 => format!("there is only {}", names[0]),
        count if count > SHOWN => format!("there are {} and {} more", names.join(", "), count - SHOWN),
        _ => format!("there are {}", names.join(", ")),
    }
}

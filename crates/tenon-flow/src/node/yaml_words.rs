//! What a parser of YAML stumbles over, in words, and what to do about it.
//!
//! It stops at the first such place: behind it nothing is certain. The slips of everyday (a tab, a colon in a text, a
//! line that is indented too far or not far enough) are told from their line rather than from the grammar.

use granit_parser::{ErrorKind, ScanError};

use super::{Fault, too_deep};
use crate::diagnostic::lines;
use crate::document::Place;

pub(super) fn fault(text: &str, error: &ScanError, place: Place) -> Fault {
    let line = lines(text).nth(place.line.saturating_sub(1) as usize).unwrap_or_default();
    if let Some(fault) = slip(line, error.kind(), place).or_else(|| open_quote(text, error.kind(), place)) {
        return fault;
    }
    let (message, hint) = words(error.kind());
    match error.kind() {
        ErrorKind::RecursionLimitExceeded => too_deep(place),
        ErrorKind::UnexpectedCharacter { character } => {
            let message = match character {
                '`' => "a backtick cannot begin a value".to_owned(),
                _ => format!("`{character}` cannot begin a value"),
            };
            Fault::new(place, message, "put the text in quotes")
        }
        ErrorKind::MismatchedFlowCollectionEnd { open, close } => {
            let message = format!("`{close}` does not close `{open}`");
            Fault::new(place, message, "close each bracket by its own kind, the last one opened first")
        }
        ErrorKind::UnclosedFlowCollection { open } => {
            let message = format!("`{open}` is not closed");
            Fault::new(place, message, closing(*open))
        }
        kind if message.is_empty() => {
            let message = format!("not YAML: {kind}");
            Fault::new(place, message, "put text with special characters in quotes, and indent by spaces")
        }
        _ => Fault::new(place, message, hint),
    }
}

fn closing(open: char) -> &'static str {
    if open == '[' {
        "close the list by `]`, or put the text in quotes"
    } else {
        "close the map by `}`, or put the text in quotes"
    }
}

/// What the line itself gives away.
fn slip(line: &str, kind: &ErrorKind, place: Place) -> Option<Fault> {
    let indent = line.len() - line.trim_start().len();
    if let Some(tab) = line[..indent].find('\t')
        && !matches!(kind, ErrorKind::UnclosedQuotedScalar | ErrorKind::UnclosedFlowCollection { .. })
    {
        let column = u32::try_from(tab + 1).unwrap_or(u32::MAX);
        let place = Place { column, ..place };
        return Some(Fault::new(
            place,
            "a tab indents this line",
            "indent by spaces: YAML does not allow tabs",
        ));
    }
    if matches!(kind, ErrorKind::ExpectedBlockSequenceEntry) && !line.trim_start().starts_with('-') {
        let (message, hint) = words(&ErrorKind::InvalidIndentation);
        return Some(Fault::new(place, message, hint));
    }
    let is_about_a_colon = matches!(
        kind,
        ErrorKind::MappingValueNotAllowed | ErrorKind::SimpleKeyExpected | ErrorKind::InvalidSimpleKey
    );
    if is_about_a_colon
        && let Some(first) = line.find(": ")
        && line[first + 2..].contains(": ")
        && !line[first + 2..].trim_start().starts_with(['"', '\'', '{', '['])
    {
        let at = first + 2 + line[first + 2..].find(": ")?;
        let column = u32::try_from(line[..at].chars().count() + 1).unwrap_or(u32::MAX);
        let message = "a text with `: ` in it reads as one more key";
        return Some(Fault::new(Place { column, ..place }, message, "put the whole text in quotes"));
    }
    None
}

/// The quote that was opened last and not closed in its line: the parser only sees where it gives up.
fn open_quote(text: &str, kind: &ErrorKind, place: Place) -> Option<Fault> {
    if !matches!(kind, ErrorKind::UnclosedQuotedScalar | ErrorKind::InvalidQuotedScalarIndent) {
        return None;
    }
    let before: Vec<&str> = lines(text).take(place.line as usize).collect();
    for (index, line) in before.iter().enumerate().rev() {
        let begins = line.char_indices().find(|(at, c)| {
            matches!(c, '"' | '\'') && line[..*at].chars().next_back().is_none_or(|c| " [{,".contains(c))
        });
        let Some((at, quote)) = begins else { continue };
        if line[at..].matches(quote).count() % 2 == 1 {
            let count = |number: usize| u32::try_from(number + 1).unwrap_or(u32::MAX);
            let place = Place { line: count(index), column: count(line[..at].chars().count()) };
            let hint = format!("close it by `{quote}`");
            return Some(Fault::new(place, "the quote that begins here is not closed", hint));
        }
    }
    None
}

/// Empty where the parser's own words have to do.
fn words(kind: &ErrorKind) -> (&'static str, &'static str) {
    match kind {
        ErrorKind::TabNotAllowed
        | ErrorKind::TabInBlockIndentation
        | ErrorKind::TabInIndentation
        | ErrorKind::TabAtBlockScalarStart
        | ErrorKind::TabInPlainScalar => ("there is a tab where only spaces may be", "indent by spaces"),
        ErrorKind::UnclosedQuotedScalar => {
            ("a text in quotes is not closed", "close it by the quote it begins with")
        }
        ErrorKind::UnknownQuotedScalarEscape => (
            "a backslash before this has no meaning in double quotes",
            "write `\\\\` for a backslash, or put the text in single quotes",
        ),
        ErrorKind::InvalidQuotedScalarHexEscape
        | ErrorKind::InvalidLowSurrogateHexEscape
        | ErrorKind::InvalidLowSurrogate
        | ErrorKind::MissingLowSurrogate
        | ErrorKind::UnpairedLowSurrogate
        | ErrorKind::InvalidUnicodeEscape => {
            ("this escape names no character", "write the character itself, or `\\\\` for a backslash")
        }
        ErrorKind::InvalidTrailingSingleQuotedScalar | ErrorKind::InvalidTrailingDoubleQuotedScalar => (
            "something follows a text in quotes",
            "put the whole text in quotes; inside single quotes, `'` is written `''`",
        ),
        ErrorKind::MappingValueNotAllowed | ErrorKind::InvalidColonPlacement => (
            "a `:` is not expected here",
            "put a text with `: ` in it in quotes; indent the fields of one map alike",
        ),
        ErrorKind::SimpleKeyExpected | ErrorKind::InvalidSimpleKey | ErrorKind::MappingKeyNotAllowed => (
            "this line is no `key: value`",
            "write `key: value` with a space after the colon; indent a text that follows `|` further than its key",
        ),
        ErrorKind::ExpectedBlockMappingKey | ErrorKind::InvalidIndentation => (
            "this line is indented differently from those around it",
            "indent the fields of one map alike, and the `- ` of one list alike",
        ),
        ErrorKind::ExpectedBlockSequenceEntry
        | ErrorKind::BlockSequenceEntryNotAllowed
        | ErrorKind::InvalidBlockEntryWhitespace
        | ErrorKind::BlockEntryInFlowCollection => (
            "a list is not expected here, or an entry of one lacks its `- `",
            "each entry of a list begins with `- ` on a line of its own, all of them indented alike",
        ),
        ErrorKind::ExpectedFlowSequenceSeparator | ErrorKind::UnexpectedEofFlowSequence => (
            "a list in brackets is not closed, or lacks a comma",
            "separate its entries by `,` and close it by `]`",
        ),
        ErrorKind::ExpectedFlowMappingSeparator
        | ErrorKind::UnexpectedEofFlowMapping
        | ErrorKind::UnexpectedEofImplicitFlowMapping => (
            "a map in braces is not closed, or lacks a comma",
            "separate its entries by `,` and close it by `}`",
        ),
        ErrorKind::MisplacedFlowCollectionEnd => {
            ("a bracket is closed that was not opened", "take it out, or put the text in quotes")
        }
        ErrorKind::UnknownAnchor => (
            "an alias names an anchor that is not there",
            "define it before: `&name`; a text that begins with `*` stands in quotes",
        ),
        ErrorKind::MissingAnchorOrAliasName => {
            ("an anchor or alias has no name", "put a text that begins with `&` or `*` in quotes")
        }
        ErrorKind::ExpectedNodeContent => {
            ("a value is missing here", "write one, or put text with special characters in quotes")
        }
        ErrorKind::CommentInterceptedScalar | ErrorKind::CommentNotSeparated => (
            "a `#` begins a comment here",
            "put a text with `#` in it in quotes, and a space before a comment",
        ),
        ErrorKind::InvalidBlockScalarIndent
        | ErrorKind::InvalidBlockScalarHeader
        | ErrorKind::ZeroBlockScalarIndent => (
            "a text that begins with `|` or `>` is not indented as it should be",
            "begin it on the next line, all its lines indented further than its key",
        ),
        ErrorKind::InvalidQuotedScalarIndent | ErrorKind::InvalidFlowScalarIndent => (
            "a text over several lines is not indented far enough",
            "indent its lines further than its key, or begin it with `|`",
        ),
        ErrorKind::BomInsideDocument => (
            "a byte order mark stands inside the document",
            "take it out: it belongs at the very beginning, if anywhere",
        ),
        ErrorKind::UndeclaredTagHandle | ErrorKind::InvalidTagTerminator | ErrorKind::MissingTagUri => {
            ("a tag is not expected here", "put a text that begins with `!` in quotes")
        }
        ErrorKind::ExpectedDocumentStart | ErrorKind::InvalidDocumentEnd => (
            "something follows the document that is no part of it",
            "indent it as the rest is, or take it out",
        ),
        ErrorKind::UnexpectedEof
        | ErrorKind::UnexpectedEofBlockSequence
        | ErrorKind::UnexpectedEofBlockMapping => ("the document ends too early", "complete its last line"),
        _ => ("", ""),
    }
}

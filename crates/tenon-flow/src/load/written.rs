//! Where a byte of a value stands in the file it was written in.
//!
//! Between the two are quotes, escapes, indentation, folded lines and characters that were taken out. Both are walked
//! together: what is not blank must be the same in both, so blanks of the file that the value lacks are skipped, and so
//! the second of two equal words is not taken for the first. How the value is written shows from its first character.

use std::collections::HashMap;
use std::path::PathBuf;
use std::str::CharIndices;

use crate::diagnostic::Source;
use crate::document::Place;
use crate::lined::Lined;

/// A value, and where the document has it.
#[derive(Clone, Copy)]
pub(super) struct Written<'t> {
    pub(super) value: &'t str,
    pub(super) pointer: &'t str,
    pub(super) start: Place,
}

/// A document, and the files that stand for some of its values.
pub(super) struct Texts<'c> {
    document: Source<'c>,
    /// By the pointer of the value: the file, and its text.
    referred: HashMap<String, (PathBuf, String)>,
}

impl<'c> Texts<'c> {
    pub(super) fn new(document: Source<'c>) -> Texts<'c> {
        Texts { document, referred: HashMap::new() }
    }

    pub(super) fn refer(&mut self, pointer: &str, file: PathBuf, text: String) {
        self.referred.insert(pointer.to_owned(), (file, text));
    }

    /// The file in which bytes of a value stand, and where; the `offsets` ascend.
    pub(super) fn places(&self, written: Written<'_>, offsets: &[usize]) -> (Source<'_>, Vec<Place>) {
        let Written { value, pointer, start } = written;
        match self.referred.get(pointer) {
            Some((file, text)) => {
                // The file is the value, less what was taken out of it.
                let source = Source::new(file, text);
                let places = places(&source.lined, 0, Style::Plain, value, offsets);
                (source, places)
            }
            None => (self.document.clone(), places_of(&self.document.lined, start, value, offsets)),
        }
    }
}

/// The places of bytes of `value`, which is written at `start`; the `offsets` ascend.
fn places_of(lined: &Lined<'_>, start: Place, value: &str, offsets: &[usize]) -> Vec<Place> {
    let Some(begin) = lined.byte_at(start) else { return vec![start; offsets.len()] };
    let begin = begin + before_scalar(&lined.text()[begin..]);
    let rest = &lined.text()[begin..];
    let (body, style) = match rest.chars().next() {
        Some('"') => (begin + 1, Style::Double),
        Some('\'') => (begin + 1, Style::Single),
        Some('|' | '>') => (begin + rest.find(['\n', '\r']).unwrap_or(rest.len()), Style::Plain),
        _ => (begin, Style::Plain),
    };
    places(lined, body, style, value, offsets)
}

fn places(lined: &Lined<'_>, body: usize, style: Style, value: &str, offsets: &[usize]) -> Vec<Place> {
    let found = aligned(&lined.text()[body..], style, value, offsets);
    found.into_iter().map(|at| lined.place_at(at + body)).collect()
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Style {
    Plain,
    Single,
    Double,
}

/// A tag and an anchor stand before the scalar they belong to.
fn before_scalar(text: &str) -> usize {
    let mut at = 0;
    while text[at..].starts_with(['!', '&']) {
        let word = text[at..].find(char::is_whitespace).unwrap_or(text.len() - at);
        let blank = text[at + word..].len() - text[at + word..].trim_start().len();
        at += word + blank;
    }
    at
}

/// Walks both; the offsets in `source` of the bytes `offsets` of `value`.
fn aligned(source: &str, style: Style, value: &str, offsets: &[usize]) -> Vec<usize> {
    let mut units = Units { source, style, chars: source.char_indices(), ahead: None };
    let mut found = Vec::with_capacity(offsets.len());
    let mut last = 0;
    for (at, wanted) in value.char_indices() {
        if found.len() == offsets.len() {
            break;
        }
        // What only lays the text out, and what was taken out of it.
        while units.peek().is_some_and(|unit| {
            unit.means != Some(wanted) && (unit.is_dropped() || unit.is_blank() && !wanted.is_whitespace())
        }) {
            units.take();
        }
        let Some(unit) = units.peek() else { break };
        let reached = offsets[found.len()..].iter().take_while(|offset| at >= **offset).count();
        found.extend(std::iter::repeat_n(unit.at, reached));
        // A blank that the file lacks takes no room in it.
        if unit.is_blank() || !wanted.is_whitespace() {
            last = unit.end;
            units.take();
        }
    }
    found.resize(offsets.len(), last);
    found
}

/// One character of a value as it is written.
#[derive(Clone, Copy)]
struct Unit {
    at: usize,
    end: usize,
    /// Nothing for an escaped line break.
    means: Option<char>,
}

impl Unit {
    fn is_blank(&self) -> bool {
        self.means.is_none_or(char::is_whitespace)
    }

    /// Not in a cleaned text, or only as a part of the letter before it.
    fn is_dropped(&self) -> bool {
        let is_part = |c: char| ('\u{300}'..='\u{36f}').contains(&c);
        let is_out = |c: char| c.is_control() || crate::unicode::is_invisible(c) || is_part(c);
        !self.is_blank() && self.means.is_some_and(is_out)
    }
}

struct Units<'s> {
    source: &'s str,
    style: Style,
    chars: CharIndices<'s>,
    ahead: Option<Unit>,
}

impl Units<'_> {
    fn peek(&mut self) -> Option<Unit> {
        if self.ahead.is_none() {
            self.ahead = self.read();
        }
        self.ahead
    }

    fn take(&mut self) {
        self.ahead = None;
    }

    fn read(&mut self) -> Option<Unit> {
        let (at, first) = self.chars.next()?;
        let means = match (self.style, first) {
            (Style::Single, '\'') => {
                // Two are one; one is the end.
                self.chars.next().filter(|(_, second)| *second == '\'')?;
                Some('\'')
            }
            (Style::Double, '"') => return None,
            (Style::Double, '\\') => self.escape(),
            _ => Some(first),
        };
        Some(Unit { at, end: self.chars.offset(), means })
    }

    fn escape(&mut self) -> Option<char> {
        let (_, letter) = self.chars.next()?;
        let digits = match letter {
            'x' => 2,
            'u' => 4,
            'U' => 8,
            '\n' | '\r' => return None,
            other => return Some(meaning(other)),
        };
        let code = self.hex(digits)?;
        // JSON writes what is beyond the first plane as two halves.
        if (0xd800..0xdc00).contains(&code) && self.source[self.chars.offset()..].starts_with("\\u") {
            self.chars.nth(1);
            let low = self.hex(4)?;
            return char::from_u32(0x10000 + ((code - 0xd800) << 10) + low.saturating_sub(0xdc00));
        }
        char::from_u32(code)
    }

    fn hex(&mut self, digits: usize) -> Option<u32> {
        let start = self.chars.offset();
        let text = self.source.get(start..start + digits)?;
        self.chars.nth(digits - 1);
        u32::from_str_radix(text, 16).ok()
    }
}

/// Of a letter after a backslash.
fn meaning(letter: char) -> char {
    match letter {
        '0' => '\0',
        'a' => '\u{7}',
        'b' => '\u{8}',
        't' => '\t',
        'n' => '\n',
        'v' => '\u{b}',
        'f' => '\u{c}',
        'r' => '\r',
        'e' => '\u{1b}',
        'N' => '\u{85}',
        '_' => '\u{a0}',
        'L' => '\u{2028}',
        'P' => '\u{2029}',
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The line and column of `X` in the value must be those of `X` in the file.
    #[test]
    fn a_character_is_found_however_it_is_written() {
        let table: &[(&str, u32, u32, &str)] = &[
            ("a: one X", 1, 4, "one X"),
            ("a: 'it''s X'", 1, 4, "it's X"),
            ("a: \"q\\\"\\u00e9\\x41\\n X\"", 1, 4, "q\"éA\n X"),
            ("a: \"\\ud83d\\ude00 X\"", 1, 4, "\u{1f600} X"),
            ("a: \"one \\\n   two X\"", 1, 4, "one two X"),
            ("a: one\n  two\n  X", 1, 4, "one two X"),
            ("a: |\n  one\n\n    two X\n", 1, 4, "one\n\n  two X\n"),
            ("a: >-\n  one\n  two\n\n  X\n", 1, 4, "one two\nX"),
            ("a: |2 # with a comment\n    X\n", 1, 4, "  X\n"),
            ("a: !!str &n 'X'", 1, 4, "X"),
            ("a: ünï ｗide X", 1, 4, "ünï ｗide X"),
            ("\u{feff}a: X", 1, 4, "X"),
            ("b: 1\r\na: |\r\n  one\r\n  X\r\n", 2, 4, "one\nX\n"),
            ("a: e\u{301}te\u{301} X", 1, 4, "été X"),
            ("a: \u{200b}one\u{7}\u{200b} X", 1, 4, "one X"),
            ("a: x x x X x", 1, 4, "x x x X x"),
        ];
        for (text, line, column, value) in table {
            let start = Place { line: *line, column: *column };
            let lined = Lined::new(text);
            let found = places_of(&lined, start, value, &[value.find('X').unwrap()]);
            let wanted = lined.place_at(lined.text().rfind('X').unwrap());
            assert_eq!(found, [wanted], "{text:?}");
        }
    }

    #[test]
    fn no_offset_is_too_far() {
        let place = |line, column| Place { line, column };
        type Row<'a> = (&'a str, Place, &'a str, &'a [usize], &'a [Place]);
        let table: &[Row<'_>] = &[
            ("a: one", place(1, 4), "one", &[0, 1, 3], &[place(1, 4), place(1, 5), place(1, 7)]),
            ("a: 'one'", place(1, 4), "one", &[2, 99], &[place(1, 7), place(1, 8)]),
            ("a: one", place(7, 1), "one", &[1, 2], &[place(7, 1), place(7, 1)]),
            ("a: |\n  b\n  c", place(1, 4), "b\nc", &[0, 2, 2], &[place(2, 3), place(3, 3), place(3, 3)]),
        ];
        for (text, start, value, offsets, wanted) in table {
            assert_eq!(places_of(&Lined::new(text), *start, value, offsets), *wanted, "{text:?}");
        }
        let cleaned = Lined::new("\u{feff}a\nb\u{7}X");
        assert_eq!(places(&cleaned, 0, Style::Plain, "a\nbX", &[3]), [place(2, 3)]);
    }
}

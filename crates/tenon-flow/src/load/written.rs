//! Where a byte of a value stands in the file it was written in.
//!
//! Between the two are quotes, escapes, indentation, folded lines and characters that were taken out. Both are walked
//! together: what is not blank must be the same in both, so blanks of the file that the value lacks are skipped, and so
//! the second of two equal words is not taken for the first. How the value is written shows from its first character.

use std::str::CharIndices;

use crate::document::Place;

/// The place of the byte `offset` of `value`, which is written in `text` at `start`.
pub(super) fn place_of(text: &str, start: Place, value: &str, offset: usize) -> Place {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let Some(begin) = byte_at(text, start) else { return start };
    let begin = begin + before_scalar(&text[begin..]);
    let (body, style) = match text[begin..].chars().next() {
        Some('"') => (begin + 1, Style::Double),
        Some('\'') => (begin + 1, Style::Single),
        Some('|' | '>') => {
            (begin + text[begin..].find(['\n', '\r']).unwrap_or(text.len() - begin), Style::Plain)
        }
        _ => (begin, Style::Plain),
    };
    place_at(text, aligned(&text[body..], style, value, offset) + body)
}

/// The same for a file that is the value, less what was taken out of it.
pub(super) fn place_in_file(text: &str, value: &str, offset: usize) -> Place {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    place_at(text, aligned(text, Style::Plain, value, offset))
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

/// Walks both; the offset in `source` of the byte `offset` of `value`.
fn aligned(source: &str, style: Style, value: &str, offset: usize) -> usize {
    let mut units = Units { source, style, chars: source.char_indices(), ahead: None };
    let mut last = 0;
    for (at, wanted) in value.char_indices() {
        // What only lays the text out, and what was taken out of it.
        while units.peek().is_some_and(|unit| {
            unit.means != Some(wanted) && (unit.is_dropped() || unit.is_blank() && !wanted.is_whitespace())
        }) {
            units.take();
        }
        let Some(unit) = units.peek() else { return last };
        if at >= offset {
            return unit.at;
        }
        // A blank that the file lacks takes no room in it.
        if unit.is_blank() || !wanted.is_whitespace() {
            last = unit.end;
            units.take();
        }
    }
    last
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

/// The byte where a place is.
fn byte_at(text: &str, place: Place) -> Option<usize> {
    let line = line_starts(text).nth(place.line.saturating_sub(1) as usize)?;
    let column = place.column.saturating_sub(1) as usize;
    let rest = &text[line..];
    Some(line + rest.char_indices().nth(column).map_or(rest.len(), |(at, _)| at))
}

fn place_at(text: &str, byte: usize) -> Place {
    let starts = line_starts(text).take_while(|start| *start <= byte);
    let (line, start) = starts.enumerate().last().unwrap_or((0, 0));
    let column = text.get(start..byte).unwrap_or_default().chars().count();
    let count = |number: usize| u32::try_from(number + 1).unwrap_or(u32::MAX);
    Place { line: count(line), column: count(column) }
}

fn line_starts(text: &str) -> impl Iterator<Item = usize> {
    let breaks = text.match_indices(['\n', '\r']).filter(|(at, found)| {
        // `\r\n` ends one line, not two.
        !(*found == "\r" && text[at + 1..].starts_with('\n'))
    });
    std::iter::once(0).chain(breaks.map(|(at, _)| at + 1))
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
            let found = place_of(text, start, value, value.find('X').unwrap());
            let plain = text.trim_start_matches('\u{feff}');
            let wanted = place_at(plain, plain.rfind('X').unwrap());
            assert_eq!(found, wanted, "{text:?}");
        }
    }

    #[test]
    fn no_offset_is_too_far() {
        let start = Place { line: 1, column: 4 };
        assert_eq!(place_of("a: one", start, "one", 3), Place { line: 1, column: 7 });
        assert_eq!(place_of("a: 'one'", start, "one", 99), Place { line: 1, column: 8 });
        assert_eq!(place_of("a: one", Place { line: 7, column: 1 }, "one", 1), Place { line: 7, column: 1 });
        assert_eq!(place_in_file("\u{feff}a\nb\u{7}X", "a\nbX", 3), Place { line: 2, column: 3 });
    }
}

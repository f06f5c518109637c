//! One value, one line: compact JSON without anything that some reader takes for the end of a line.
//!
//! JSON escapes line feeds, but leaves U+0085, U+2028 and U+2029 alone, and these end a line for Python's
//! `splitlines` and for Node's `readline`. They are written as escapes. Raw JSON (a payload, arguments)
//! goes through untouched, except that a line break between its tokens becomes a space.

use std::io::{self, Write};

use serde::Serialize;
use serde_json::ser::Formatter;

/// Appends `value` as JSON, without a line feed.
pub(crate) fn append<T: Serialize>(out: &mut Vec<u8>, value: &T) {
    let mut serializer = serde_json::Serializer::with_formatter(out, OneLine);
    let written = value.serialize(&mut serializer);
    // Plain data with string keys, written to memory: there is nothing that could fail.
    debug_assert!(written.is_ok(), "{written:?}");
}

/// How many bytes `append` writes for this character inside a string.
pub(crate) fn encoded_len(character: char) -> usize {
    match character {
        '"' | '\\' | '\n' | '\r' | '\t' | '\u{8}' | '\u{c}' => 2,
        '\0'..='\u{1f}' => 6,
        _ if UNICODE_BREAKS.contains(&character) => 6,
        _ => character.len_utf8(),
    }
}

const UNICODE_BREAKS: [char; 3] = ['\u{85}', '\u{2028}', '\u{2029}'];

struct OneLine;

impl Formatter for OneLine {
    fn write_string_fragment<W: ?Sized + Write>(&mut self, writer: &mut W, fragment: &str) -> io::Result<()> {
        // Most text has none of them, and this check is the quickest there is.
        if fragment.is_ascii() {
            return writer.write_all(fragment.as_bytes());
        }
        write_escaped(writer, fragment, |character| UNICODE_BREAKS.contains(&character))
    }

    fn write_raw_fragment<W: ?Sized + Write>(&mut self, writer: &mut W, fragment: &str) -> io::Result<()> {
        write_escaped(writer, fragment, |character| {
            matches!(character, '\n' | '\r') || UNICODE_BREAKS.contains(&character)
        })
    }
}

fn write_escaped<W: ?Sized + Write>(
    writer: &mut W,
    text: &str,
    breaks_line: impl Fn(char) -> bool,
) -> io::Result<()> {
    let mut rest = text;
    while let Some(at) = rest.find(&breaks_line) {
        let (before, from) = rest.split_at(at);
        writer.write_all(before.as_bytes())?;
        let mut characters = from.chars();
        match characters.next() {
            // Valid JSON has these between tokens only, where they are white space.
            Some('\n' | '\r') | None => writer.write_all(b" ")?,
            Some(character) => write!(writer, "\\u{:04x}", u32::from(character))?,
        }
        rest = characters.as_str();
    }
    writer.write_all(rest.as_bytes())
}

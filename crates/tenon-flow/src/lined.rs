//! A text whose lines and characters are counted once, so that asking for many places does not go through it as many
//! times: neither where it has many lines, nor where all of it is one.
//!
//! Lines are those that readers of YAML count, and columns are characters. Where a value stands in a document is
//! `load/written.rs`.

use crate::document::Place;

/// Between two marks characters are counted one by one.
const CHARS_PER_MARK: usize = 128;

#[derive(Clone, Debug)]
pub(crate) struct Lined<'t> {
    /// Without its byte order mark.
    text: &'t str,
    /// Where each line begins, in bytes.
    starts: Vec<usize>,
    /// Where every [`CHARS_PER_MARK`]th character is, in bytes.
    marks: Vec<usize>,
}

impl<'t> Lined<'t> {
    pub(crate) fn new(text: &'t str) -> Lined<'t> {
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let breaks = text.match_indices(['\n', '\r']).filter(|(at, found)| {
            // `\r\n` ends one line, not two.
            !(*found == "\r" && text[at + 1..].starts_with('\n'))
        });
        let starts = std::iter::once(0).chain(breaks.map(|(at, _)| at + 1)).collect();
        let marks = text.char_indices().step_by(CHARS_PER_MARK).map(|(at, _)| at).collect();
        Lined { text, starts, marks }
    }

    pub(crate) fn text(&self) -> &'t str {
        self.text
    }

    /// A line without its end.
    pub(crate) fn line(&self, number: u32) -> Option<&'t str> {
        let index = number.saturating_sub(1) as usize;
        let start = *self.starts.get(index)?;
        let end = self.starts.get(index + 1).copied().unwrap_or(self.text.len());
        Some(self.text[start..end].trim_end_matches(['\n', '\r']))
    }

    /// The byte where a place is; beyond the end of the text there is none.
    pub(crate) fn byte_at(&self, place: Place) -> Option<usize> {
        let line = *self.starts.get(place.line.saturating_sub(1) as usize)?;
        let wanted = self.chars_before(line) + place.column.saturating_sub(1) as usize;
        let Some(mark) = self.marks.get(wanted / CHARS_PER_MARK) else { return Some(self.text.len()) };
        let mut chars = self.text[*mark..].char_indices();
        Some(mark + chars.nth(wanted % CHARS_PER_MARK).map_or(self.text.len() - mark, |(at, _)| at))
    }

    pub(crate) fn place_at(&self, byte: usize) -> Place {
        let line = self.starts.partition_point(|start| *start <= byte).saturating_sub(1);
        let column = self.chars_before(byte) - self.chars_before(self.starts[line]);
        let count = |number: usize| u32::try_from(number + 1).unwrap_or(u32::MAX);
        Place { line: count(line), column: count(column) }
    }

    fn chars_before(&self, byte: usize) -> usize {
        let after = self.marks.partition_point(|mark| *mark <= byte);
        let Some(before) = after.checked_sub(1) else { return 0 };
        let rest = self.text[self.marks[before]..].char_indices();
        let mark = self.marks[before];
        before * CHARS_PER_MARK + rest.take_while(|(at, _)| mark + at < byte).count()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// As counted by going through the text.
        #[test]
        fn places_and_bytes_are_each_others(text in "(a|é|\u{1f600}|\n|\r|\r\n| ){0,400}") {
            let lined = Lined::new(&text);
            let (mut line, mut column) = (1, 1);
            let mut before = ' ';
            for (at, c) in text.char_indices() {
                if before == '\n' || before == '\r' && c != '\n' {
                    (line, column) = (line + 1, 1);
                }
                let place = Place { line, column };
                prop_assert_eq!(lined.place_at(at), place);
                prop_assert_eq!(lined.byte_at(place), Some(at));
                column += 1;
                before = c;
            }
            prop_assert_eq!(lined.byte_at(Place { line: u32::MAX, column: 1 }), None);
            let lines: Vec<&str> = (1..).map_while(|number| lined.line(number)).collect();
            let wanted: Vec<&str> = crate::diagnostic::lines(&text).collect();
            prop_assert_eq!(lines, wanted);
        }
    }
}

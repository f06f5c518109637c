//! Takes terminal sequences out of text, and remembers where they were.

use tenon_core::AnsiStripper;

use super::annotation_types::Ansi;

/// One text, in as many pieces as it comes.
#[derive(Default)]
pub(super) struct TerminalText {
    strip: AnsiStripper,
    /// The sequence that is being read.
    pending: String,
}

impl TerminalText {
    /// The piece without sequences, and the sequences by their offset into it, in UTF-16 code units.
    pub fn push(&mut self, piece: &str) -> (String, Vec<Ansi>) {
        let mut text = String::with_capacity(piece.len());
        let mut found = Vec::new();
        let mut offset = 0;
        for character in piece.chars() {
            let kept = self.strip.push_text(character.encode_utf8(&mut [0; 4]));
            if kept.is_empty() {
                self.pending.push(character);
                continue;
            }
            if !self.pending.is_empty() {
                found.push(Ansi { offset, code: std::mem::take(&mut self.pending) });
            }
            offset += kept.encode_utf16().count();
            text.push_str(&kept);
        }
        // A sequence that ends with the piece belongs to its end; one that does not, to the next piece.
        if !self.pending.is_empty() && self.strip.is_in_text() {
            found.push(Ansi { offset, code: std::mem::take(&mut self.pending) });
        }
        (text, found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ansi(offset: usize, code: &str) -> Ansi {
        Ansi { offset, code: code.to_owned() }
    }

    #[test]
    fn sequences_are_found_where_they_stood() {
        let mut text = TerminalText::default();
        assert_eq!(
            text.push("👋\u{1b}[32mok\u{1b}[0m"),
            ("👋ok".to_owned(), vec![ansi(2, "\u{1b}[32m"), ansi(4, "\u{1b}[0m")])
        );
    }

    #[test]
    fn a_sequence_split_between_pieces_belongs_to_the_second() {
        let mut text = TerminalText::default();
        assert_eq!(text.push("a\u{1b}[3"), ("a".to_owned(), Vec::new()));
        assert_eq!(text.push("2mb"), ("b".to_owned(), vec![ansi(0, "\u{1b}[32m")]));
    }
}

//! Terminal escape sequences, taken out of the text that programs and models write, also across the boundaries
//! of pieces.

const ESC: char = '\u{1b}';
const BEL: char = '\u{7}';

/// Removes terminal escape sequences from a stream of text.
#[derive(Debug, Default)]
pub struct AnsiStripper {
    state: State,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    #[default]
    Text,
    /// After ESC.
    Escape,
    /// ESC with intermediate characters, such as the choice of a character set: one more ends it.
    Intermediate,
    /// ESC `[` up to its final character.
    Control,
    /// A string (title, link, picture) up to BEL or ESC `\`.
    String,
    /// ESC within a string.
    StringEscape,
}

impl AnsiStripper {
    pub fn push(&mut self, text: &str, out: &mut String) {
        if self.state == State::Text && !text.contains(ESC) {
            out.push_str(text);
            return;
        }
        for c in text.chars() {
            self.state = self.step(c, out);
        }
    }

    /// The same, as a text of its own.
    pub fn push_text(&mut self, text: &str) -> String {
        let mut out = String::with_capacity(text.len());
        self.push(text, &mut out);
        out
    }

    /// No sequence has begun that is not yet whole.
    pub fn is_in_text(&self) -> bool {
        self.state == State::Text
    }

    fn step(&self, c: char, out: &mut String) -> State {
        match (self.state, c) {
            (State::Text, ESC) => State::Escape,
            (State::Text, _) => plain(c, out),
            (State::Escape, '[') => State::Control,
            (State::Escape, ']' | 'P' | 'X' | '^' | '_') => State::String,
            (State::Escape | State::Intermediate, ' '..='/') => State::Intermediate,
            (State::Escape | State::Intermediate, '0'..='~') => State::Text,
            (State::Control, ' '..='?') => State::Control,
            (State::Control, '@'..='~') => State::Text,
            (State::String, BEL) => State::Text,
            (State::String, ESC) => State::StringEscape,
            // No real string spans lines: one that was never closed must not swallow the rest of the output.
            (State::String | State::StringEscape, '\n') => plain(c, out),
            (State::String, _) => State::String,
            (State::StringEscape, '\\') => State::Text,
            (State::StringEscape, ESC) => State::StringEscape,
            (State::StringEscape, _) => State::String,
            (_, ESC) => State::Escape,
            // Not a sequence after all.
            (State::Escape | State::Intermediate | State::Control, _) => plain(c, out),
        }
    }
}

fn plain(c: char, out: &mut String) -> State {
    out.push(c);
    State::Text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sequences_are_removed_wherever_a_chunk_ends() {
        let table: &[(&str, &str)] = &[
            ("\x1b[1;31mred\x1b[0m", "red"),
            ("\x1b]0;title\x07text", "text"),
            ("\x1b]8;;https://x\x1b\\link\x1b]8;;\x1b\\", "link"),
            ("\x1b(Bascii", "ascii"),
            ("\x1b]never closed\nnext line", "\nnext line"),
            ("\x1b[12\nline", "\nline"),
            ("\x1b\x1b[0mx", "x"),
            ("a\x1b7b\x1b=c", "abc"),
            ("plain ü", "plain ü"),
            ("\x1bü \x1b]0;ü\x07", "ü "),
        ];
        for (input, wanted) in table {
            for at in (0..=input.len()).filter(|at| input.is_char_boundary(*at)) {
                let (mut strip, mut out) = (AnsiStripper::default(), String::new());
                strip.push(&input[..at], &mut out);
                strip.push(&input[at..], &mut out);
                assert_eq!(out, *wanted, "{input:?} cut at {at}");
            }
        }
    }
}

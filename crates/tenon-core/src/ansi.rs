//! Removes terminal escape sequences from what programs and models write.

const ESC: u8 = 0x1b;
const BEL: u8 = 0x07;

/// Removes terminal escape sequences from a stream, also where one is split between two pieces.
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
    /// ESC with intermediate bytes, such as the choice of a character set: one more byte ends it.
    Intermediate,
    /// ESC `[` up to its final byte.
    Control,
    /// A string (title, link, picture) up to BEL or ESC `\`.
    String,
    /// ESC within a string.
    StringEscape,
}

impl AnsiStripper {
    pub fn push(&mut self, bytes: &[u8], out: &mut Vec<u8>) {
        if self.state == State::Text && !bytes.contains(&ESC) {
            out.extend_from_slice(bytes);
            return;
        }
        for byte in bytes {
            self.state = self.step(*byte, out);
        }
    }

    /// The same for text, which stays text: only whole sequences of ASCII are taken out.
    pub fn push_text(&mut self, text: &str) -> String {
        let mut out = Vec::with_capacity(text.len());
        self.push(text.as_bytes(), &mut out);
        String::from_utf8_lossy(&out).into_owned()
    }

    /// No sequence has begun that is not yet whole.
    pub fn is_in_text(&self) -> bool {
        self.state == State::Text
    }

    fn step(&self, byte: u8, out: &mut Vec<u8>) -> State {
        match (self.state, byte) {
            (State::Text, ESC) => State::Escape,
            (State::Text, _) => plain(byte, out),
            (State::Escape, b'[') => State::Control,
            (State::Escape, b']' | b'P' | b'X' | b'^' | b'_') => State::String,
            (State::Escape | State::Intermediate, 0x20..=0x2f) => State::Intermediate,
            (State::Escape | State::Intermediate, 0x30..=0x7e) => State::Text,
            (State::Control, 0x20..=0x3f) => State::Control,
            (State::Control, 0x40..=0x7e) => State::Text,
            (State::String, BEL) => State::Text,
            (State::String, ESC) => State::StringEscape,
            // No real string spans lines: one that was never closed must not swallow the rest of the output.
            (State::String | State::StringEscape, b'\n') => plain(byte, out),
            (State::String, _) => State::String,
            (State::StringEscape, b'\\') => State::Text,
            (State::StringEscape, ESC) => State::StringEscape,
            (State::StringEscape, _) => State::String,
            (_, ESC) => State::Escape,
            // Not a sequence after all.
            (State::Escape | State::Intermediate | State::Control, _) => plain(byte, out),
        }
    }
}

fn plain(byte: u8, out: &mut Vec<u8>) -> State {
    out.push(byte);
    State::Text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sequence_split_between_two_texts_is_removed() {
        let mut strip = AnsiStripper::default();
        let pieces = ["ü\x1b[3", "1mröt\x1b", "[0m!\x1b]0;täter", "\x07 ok"];
        let text: String = pieces.iter().map(|piece| strip.push_text(piece)).collect();
        assert_eq!(text, "üröt! ok");
    }
}

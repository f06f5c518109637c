//! Makes text of what a program writes: terminal sequences removed, bytes decoded, both across the
//! boundaries of chunks.

const ESC: u8 = 0x1b;
const BEL: u8 = 0x07;

/// Removes terminal escape sequences from a stream of bytes.
#[derive(Debug, Default)]
pub(crate) struct AnsiStripper {
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

/// Decodes a stream of bytes as UTF-8. A character split between two chunks stays whole; invalid bytes
/// become U+FFFD.
#[derive(Debug, Default)]
pub(crate) struct Utf8Decoder {
    pending: Vec<u8>,
}

impl Utf8Decoder {
    pub fn push(&mut self, bytes: &[u8], out: &mut String) {
        let joined;
        let mut rest = bytes;
        if !self.pending.is_empty() {
            self.pending.extend_from_slice(bytes);
            joined = std::mem::take(&mut self.pending);
            rest = &joined;
        }
        loop {
            match std::str::from_utf8(rest) {
                Ok(text) => {
                    out.push_str(text);
                    return;
                }
                Err(error) => {
                    let (valid, after) = rest.split_at(error.valid_up_to());
                    out.push_str(std::str::from_utf8(valid).unwrap_or_default());
                    let Some(invalid) = error.error_len() else {
                        self.pending = after.to_vec();
                        return;
                    };
                    out.push(char::REPLACEMENT_CHARACTER);
                    rest = &after[invalid..];
                }
            }
        }
    }

    /// The stream is over: what is pending was no character.
    pub fn finish(&mut self, out: &mut String) {
        if !std::mem::take(&mut self.pending).is_empty() {
            out.push(char::REPLACEMENT_CHARACTER);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn text(chunks: &[&[u8]]) -> String {
        let (mut strip, mut decode, mut out) =
            (AnsiStripper::default(), Utf8Decoder::default(), String::new());
        for chunk in chunks {
            let mut plain = Vec::new();
            strip.push(chunk, &mut plain);
            decode.push(&plain, &mut out);
        }
        decode.finish(&mut out);
        out
    }

    #[test]
    fn sequences_are_removed() {
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
        ];
        for (input, wanted) in table {
            assert_eq!(text(&[input.as_bytes()]), *wanted, "{input:?}");
        }
    }

    #[test]
    fn invalid_bytes_are_replaced() {
        assert_eq!(text(&[b"a\xffb", b"\xe2\x82"]), "a\u{fffd}b\u{fffd}");
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(tenon_testkit::cases(256)))]

        #[test]
        fn chunk_boundaries_do_not_matter(
            pieces in prop::collection::vec(
                prop_oneof![
                    any::<Vec<u8>>(),
                    "[ü€a]{0,4}".prop_map(String::into_bytes),
                    Just(b"\x1b[31m".to_vec()),
                    Just(b"\x1b]0;t\x07".to_vec()),
                ],
                0..6,
            ),
            size in 1_usize..7,
        ) {
            let whole: Vec<u8> = pieces.concat();
            let chunks: Vec<&[u8]> = whole.chunks(size).collect();
            prop_assert_eq!(text(&chunks), text(&[&whole]));
        }
    }
}

//! Makes text of the bytes a program writes, across the boundaries of chunks. Terminal sequences are removed
//! by [`tenon_core::AnsiStripper`].

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
    use tenon_core::AnsiStripper;

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

//! Makes text of the bytes of one stream, whatever its encoding, wherever a chunk ends.
//!
//! UTF-8 as long as it is UTF-8. The first byte that is not decides, once and for all: a stream that had
//! characters beyond ASCII or zeros before stays UTF-8, with U+FFFD for what is wrong; otherwise the character set of
//! the locale counts, if it has another one, and else a guess from what follows. Escape sequences are
//! taken out afterwards, by [`tenon_core::AnsiStripper`].

use chardetng::{EncodingDetector, Iso2022JpDetection, Utf8Detection};
use encoding_rs::{Encoding, UTF_8};

/// From how many bytes an encoding is guessed: enough for a few words of any language, and little enough
/// that a command's output is not held back for long.
const GUESS_BYTES: usize = 512;

pub(crate) struct Decoder {
    /// The character set of the locale, where that is not UTF-8.
    locale: Option<&'static Encoding>,
    /// Data, not text: zeros were among the bytes so far.
    has_zeros: bool,
    state: State,
}

enum State {
    /// Nothing but ASCII so far; a character may have begun.
    Ascii {
        pending: Vec<u8>,
    },
    /// No UTF-8, and not enough to tell what else.
    Guessing {
        held: Vec<u8>,
    },
    Known(encoding_rs::Decoder),
}

impl Decoder {
    pub fn new(locale: Option<&'static Encoding>) -> Decoder {
        Decoder { locale, has_zeros: false, state: State::Ascii { pending: Vec::new() } }
    }

    pub fn push(&mut self, bytes: &[u8], out: &mut String) {
        match &mut self.state {
            State::Known(decoder) => decode(decoder, bytes, out, Last::No),
            State::Guessing { held } => {
                let wanted = GUESS_BYTES - held.len();
                let (guess, rest) = bytes.split_at(wanted.min(bytes.len()));
                held.extend_from_slice(guess);
                if held.len() == GUESS_BYTES {
                    self.guess(out);
                    self.push(rest, out);
                }
            }
            State::Ascii { pending } if pending.is_empty() && bytes.is_ascii() => {
                self.has_zeros |= bytes.contains(&0);
                // Every byte stands for itself.
                out.push_str(std::str::from_utf8(bytes).unwrap_or_default());
            }
            State::Ascii { pending } => {
                pending.extend_from_slice(bytes);
                let pending = std::mem::take(pending);
                self.beyond_ascii(&pending, out);
            }
        }
    }

    /// The stream is over.
    pub fn finish(&mut self, out: &mut String) {
        match &mut self.state {
            State::Ascii { pending } => {
                let pending = std::mem::take(pending);
                match pending.len() {
                    0 => return,
                    1 => self.not_utf8(&pending, out),
                    // A character that was cut off: nothing else begins like this.
                    _ => self.known(UTF_8, &pending, out),
                }
                self.finish(out);
            }
            State::Guessing { .. } => {
                self.guess(out);
                self.finish(out);
            }
            State::Known(decoder) => decode(decoder, &[], out, Last::Yes),
        }
    }

    fn beyond_ascii(&mut self, bytes: &[u8], out: &mut String) {
        let ascii = bytes.iter().take_while(|byte| byte.is_ascii()).count();
        let (ascii, rest) = bytes.split_at(ascii);
        self.has_zeros |= ascii.contains(&0);
        out.push_str(std::str::from_utf8(ascii).unwrap_or_default());
        match std::str::from_utf8(rest) {
            Err(error) if error.valid_up_to() == 0 && error.error_len().is_none() => {
                self.state = State::Ascii { pending: rest.to_vec() };
            }
            Err(error) if error.valid_up_to() == 0 => self.not_utf8(rest, out),
            Ok(_) | Err(_) => self.known(UTF_8, rest, out),
        }
    }

    fn not_utf8(&mut self, bytes: &[u8], out: &mut String) {
        match self.locale {
            Some(encoding) => self.known(encoding, bytes, out),
            None => {
                self.state = State::Guessing { held: Vec::new() };
                self.push(bytes, out);
            }
        }
    }

    fn guess(&mut self, out: &mut String) {
        let State::Guessing { held } = &mut self.state else { return };
        let held = std::mem::take(held);
        let is_data = self.has_zeros || held.contains(&0);
        self.known(if is_data { UTF_8 } else { guess(&held) }, &held, out);
    }

    fn known(&mut self, encoding: &'static Encoding, bytes: &[u8], out: &mut String) {
        let mut decoder = encoding.new_decoder_without_bom_handling();
        decode(&mut decoder, bytes, out, Last::No);
        self.state = State::Known(decoder);
    }
}

/// The character set that a locale such as `de_DE.ISO-8859-1@euro` names, where that is not UTF-8.
pub(crate) fn locale_encoding(locale: &str) -> Option<&'static Encoding> {
    let (_, name) = locale.split_once('.')?;
    let name = name.split('@').next().unwrap_or(name);
    // `ISO8859-1` and `eucJP` are how locales write what others call `ISO-8859-1` and `EUC-JP`.
    let spelled = name.to_ascii_lowercase().replace("iso8859", "iso-8859").replace("eucjp", "euc-jp");
    let spelled =
        spelled.replace("euckr", "euc-kr").replace("koi8r", "koi8-r").replace("cp125", "windows-125");
    Encoding::for_label(spelled.as_bytes()).filter(|encoding| *encoding != UTF_8)
}

/// What the detector says, unless it is mostly right UTF-8: one bad byte does not make it anything else.
fn guess(bytes: &[u8]) -> &'static Encoding {
    let (right, wrong) = utf8_characters(bytes);
    if right > wrong {
        return UTF_8;
    }
    let mut detector = EncodingDetector::new(Iso2022JpDetection::Deny);
    detector.feed(bytes, true);
    detector.guess(None, Utf8Detection::Deny)
}

/// How many characters beyond ASCII are right, and how many sequences are wrong.
fn utf8_characters(bytes: &[u8]) -> (usize, usize) {
    bytes.utf8_chunks().fold((0, 0), |(right, wrong), chunk| {
        let beyond_ascii = chunk.valid().chars().filter(|c| !c.is_ascii()).count();
        (right + beyond_ascii, wrong + usize::from(!chunk.invalid().is_empty()))
    })
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Last {
    No,
    Yes,
}

fn decode(decoder: &mut encoding_rs::Decoder, mut bytes: &[u8], out: &mut String, last: Last) {
    loop {
        // At least one more character, so that every round makes progress.
        out.reserve(decoder.max_utf8_buffer_length(bytes.len()).unwrap_or(bytes.len()).max(16));
        let (result, read, _) = decoder.decode_to_string(bytes, out, last == Last::Yes);
        bytes = &bytes[read..];
        if result == encoding_rs::CoderResult::InputEmpty {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn text(locale: Option<&'static Encoding>, chunks: &[&[u8]]) -> String {
        let (mut decoder, mut out) = (Decoder::new(locale), String::new());
        chunks.iter().for_each(|chunk| decoder.push(chunk, &mut out));
        decoder.finish(&mut out);
        out
    }

    fn encoded(encoding: &'static Encoding, text: &str) -> Vec<u8> {
        encoding.encode(text).0.into_owned()
    }

    #[test]
    fn bytes_are_read_as_what_they_are() {
        let german = "Die Größe der Straße wächst, überall über Bäume: schöne Grüße.";
        let chinese = "这是一个简单的测试文件，用来检查编码。".repeat(3);
        let japanese = "これは文字コードを調べるための簡単なテストです。".repeat(3);
        let russian = "Это простой текст для проверки кодировки файлов.";
        for (encoding, wanted) in [
            (encoding_rs::UTF_8, german),
            (encoding_rs::WINDOWS_1252, german),
            (encoding_rs::GBK, chinese.as_str()),
            (encoding_rs::SHIFT_JIS, japanese.as_str()),
            (encoding_rs::EUC_JP, japanese.as_str()),
            (encoding_rs::WINDOWS_1251, russian),
            (encoding_rs::KOI8_R, russian),
        ] {
            assert_eq!(text(None, &[&encoded(encoding, wanted)]), wanted, "{}", encoding.name());
        }
    }

    #[test]
    fn a_stream_stays_what_it_was_found_to_be() {
        let table: &[(&[u8], &str)] = &[
            (b"\xe2\x82\xac \xff", "€ \u{fffd}"),
            (b"a\xe2\x82", "a\u{fffd}"),
            (b"\x00\xff\xfe", "\0\u{fffd}\u{fffd}"),
            (b"\xff ok \xc3\xbc \xc3\xa9", "\u{fffd} ok ü é"),
            (b"caf\xe9\n", "café\n"),
            (b"caf\xe9", "café"),
            (b"", ""),
        ];
        for (bytes, wanted) in table {
            assert_eq!(text(None, &[bytes]), *wanted, "{bytes:?}");
        }
        // A guess is made once: what follows is read the same way.
        let mut bytes = encoded(encoding_rs::WINDOWS_1252, &"größer ".repeat(100));
        bytes.extend_from_slice(b"\xfc");
        assert!(text(None, &[&bytes]).ends_with("größer ü"));
    }

    #[test]
    fn the_locale_is_asked_before_anything_is_guessed() {
        let latin2 = locale_encoding("cs_CZ.ISO8859-2");
        assert_eq!(text(latin2, &[b"\xb9\n"]), "š\n");
        assert_eq!(text(latin2, &["š €\n".as_bytes()]), "š €\n");
        for (locale, name) in [
            ("zh_CN.GBK", Some("GBK")),
            ("zh_CN.GB18030", Some("gb18030")),
            ("ja_JP.eucJP", Some("EUC-JP")),
            ("ru_RU.KOI8-R", Some("KOI8-R")),
            ("de_DE.ISO-8859-15@euro", Some("ISO-8859-15")),
            ("de_DE.UTF-8", None),
            ("de_DE.utf8", None),
            ("C.UTF-8", None),
            ("C", None),
            ("", None),
            ("de_DE.nothing", None),
        ] {
            assert_eq!(locale_encoding(locale).map(Encoding::name), name, "{locale}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(tenon_testkit::cases(256)))]

        #[test]
        fn chunk_boundaries_do_not_matter(
            pieces in prop::collection::vec(
                prop_oneof![
                    any::<Vec<u8>>(),
                    "[ü€a]{0,400}".prop_map(String::into_bytes),
                    "[äöü中]{0,300}".prop_map(|text| encoded(encoding_rs::GBK, &text)),
                ],
                0..6,
            ),
            cuts in prop::collection::vec(1_usize..700, 1..8),
            latin in any::<bool>(),
        ) {
            let locale = latin.then_some(encoding_rs::WINDOWS_1252);
            let whole: Vec<u8> = pieces.concat();
            let mut chunks = Vec::new();
            let mut rest: &[u8] = &whole;
            for size in cuts.iter().cycle() {
                if rest.is_empty() {
                    break;
                }
                let (chunk, after) = rest.split_at((*size).min(rest.len()));
                chunks.push(chunk);
                rest = after;
            }
            prop_assert_eq!(text(locale, &chunks), text(locale, &[&whole]));
        }

        #[test]
        fn utf8_comes_through_as_it_is(whole in any::<String>(), size in 1_usize..7) {
            let chunks: Vec<&[u8]> = whole.as_bytes().chunks(size).collect();
            prop_assert_eq!(text(None, &chunks), whole);
        }
    }
}

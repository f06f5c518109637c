//! Files that should be UTF-8 text and are not: where they stop being it, and what to do about it.
//!
//! Which file is read for what is in `references.rs` and `context_files.rs`.

use crate::document::Place;

/// A file that is there and holds no UTF-8 text.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", self.message())]
pub struct NotText {
    /// Of the first byte that is no part of a character.
    pub place: Place,
    pub byte: u8,
    /// What the first bytes say that it is.
    pub mark: Mark,
    /// What can be shown of it.
    pub shown: String,
}

/// The mark that a file begins with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mark {
    Nothing,
    Utf16,
    Utf32,
}

/// The bytes as text, a byte order mark included.
pub(crate) fn text(bytes: Vec<u8>) -> Result<String, NotText> {
    String::from_utf8(bytes).map_err(|error| not_text(error.as_bytes(), error.utf8_error().valid_up_to()))
}

/// Of bytes whose first `valid` ones are text.
fn not_text(bytes: &[u8], valid: usize) -> NotText {
    let before = String::from_utf8_lossy(&bytes[..valid]).into_owned();
    let lines: Vec<&str> = crate::diagnostic::lines(&before).collect();
    let count = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
    let column = lines.last().map_or(0, |line| line.chars().count());
    NotText {
        place: Place { line: count(lines.len()), column: count(column + 1) },
        byte: bytes.get(valid).copied().unwrap_or_default(),
        mark: Mark::of(bytes),
        shown: String::from_utf8_lossy(bytes).into_owned(),
    }
}

impl Mark {
    fn of(bytes: &[u8]) -> Mark {
        match bytes {
            [0xff, 0xfe, 0, 0, ..] | [0, 0, 0xfe, 0xff, ..] => Mark::Utf32,
            [0xff, 0xfe, ..] | [0xfe, 0xff, ..] => Mark::Utf16,
            _ => Mark::Nothing,
        }
    }

    fn name(self) -> Option<&'static str> {
        match self {
            Mark::Nothing => None,
            Mark::Utf16 => Some("UTF-16"),
            Mark::Utf32 => Some("UTF-32"),
        }
    }
}

impl NotText {
    fn message(&self) -> String {
        match self.mark.name() {
            Some(name) => format!("the file is {name}, and must be UTF-8 text"),
            None => format!("the byte 0x{:02X} is no UTF-8 text", self.byte),
        }
    }

    pub(crate) fn hint(&self) -> String {
        match self.mark.name() {
            Some(name) => {
                format!(
                    "it begins with the byte order mark of {name}: save it as UTF-8, or convert it (`iconv -f {name} -t UTF-8`)"
                )
            }
            None => "save the file as UTF-8; it may be in an older encoding, such as Latin-1".to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_bad_byte_is_found() {
        let table: [(&[u8], _); 8] = [
            (b"caf\xe9", (1, 4, 0xe9)),
            ("\u{feff}é\n\tü\u{1f600}\n".as_bytes(), (0, 0, 0)),
            (b"a\nb\r\nc\rd \xff", (4, 3, 0xff)),
            ("\u{feff}é".as_bytes(), (0, 0, 0)),
            (b"\xef\xbb\xbfx\xc3", (1, 2, 0xc3)),
            (b"\xc3\xa9\xc3", (1, 2, 0xc3)),
            (b"\n\xc3(", (2, 1, 0xc3)),
            (b"\xff\xfea\0", (1, 1, 0xff)),
        ];
        for (bytes, (line, column, byte)) in table {
            match text(bytes.to_vec()) {
                Ok(_) => assert_eq!(line, 0, "{bytes:?}"),
                Err(found) => {
                    assert_eq!((found.place, found.byte), (Place { line, column }, byte), "{bytes:?}")
                }
            }
        }
    }

    #[test]
    fn marks_of_other_encodings_have_hints_of_their_own() {
        for (bytes, name) in [
            (&b"\xff\xfen\0"[..], "UTF-16"),
            (b"\xfe\xff\0n", "UTF-16"),
            (b"\xff\xfe\0\0n\0\0\0", "UTF-32"),
            (b"\0\0\xfe\xff\0\0\0n", "UTF-32"),
        ] {
            let found = text(bytes.to_vec()).unwrap_err();
            assert_eq!(found.to_string(), format!("the file is {name}, and must be UTF-8 text"));
            assert!(found.hint().contains(&format!("iconv -f {name} -t UTF-8")));
        }
        assert_eq!(text(b"\xe9".to_vec()).unwrap_err().to_string(), "the byte 0xE9 is no UTF-8 text");
    }
}

//! Where in a JSON document the model is, and whether it is time to come to an end.
//!
//! A small model starts lists it never closes and repeats a word without end. Inside the grammar every
//! prefix can be finished, so when a string, number, list, nesting or the whole grows too long, the tokens that
//! close something are preferred over the model's own choice. What comes out is one of the values that the schema
//! allows: this is how sizes that the schema leaves open are bounded.

/// Characters of a string that the model writes freely.
const LONG_STRING: usize = 320;
/// Digits and signs of a number: more than a double holds.
const LONG_NUMBER: usize = 16;
const LONG_LIST: usize = 16;
const DEEP: usize = 12;

/// What a document is like after the bytes so far.
#[derive(Clone, Debug, Default)]
pub(crate) struct Document {
    /// Open lists and objects, each with its number of commas.
    open: Vec<(u8, usize)>,
    string: Option<InString>,
    number: usize,
}

#[derive(Clone, Copy, Debug, Default)]
struct InString {
    bytes: usize,
    escaped: bool,
}

/// The grammar's leave to write on as the model likes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pace {
    Free,
    /// Close what can be closed, with the shortest values there are.
    Close,
}

impl Document {
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.push_byte(*byte);
        }
    }

    fn push_byte(&mut self, byte: u8) {
        if let Some(string) = &mut self.string {
            match byte {
                b'"' if !string.escaped => self.string = None,
                _ => {
                    string.escaped = byte == b'\\' && !string.escaped;
                    string.bytes += 1;
                }
            }
            return;
        }
        match byte {
            b'"' => self.string = Some(InString::default()),
            b'{' | b'[' => self.open.push((byte, 0)),
            b'}' | b']' => drop(self.open.pop()),
            b',' => {
                if let Some((_, commas)) = self.open.last_mut() {
                    *commas += 1;
                }
            }
            _ => {}
        }
        let in_number = matches!(byte, b'0'..=b'9' | b'-' | b'+' | b'.' | b'e' | b'E');
        self.number = if in_number { self.number + 1 } else { 0 };
    }

    pub(crate) fn pace(&self) -> Pace {
        let too_long = match &self.string {
            Some(string) => string.bytes >= LONG_STRING,
            None => {
                self.number >= LONG_NUMBER
                    || self.open.len() > DEEP
                    || self.open.last().is_some_and(|(_, commas)| *commas + 1 >= LONG_LIST)
            }
        };
        if too_long { Pace::Close } else { Pace::Free }
    }

    /// Outside of strings and too long: what stands here should be closed before anything else is written.
    pub(crate) fn should_close_here(&self) -> bool {
        self.string.is_none() && self.pace() == Pace::Close
    }

    /// The bytes that bring the end nearer, the best first. One that the grammar does not allow here is passed
    /// over.
    pub(crate) fn closers(&self) -> &'static [u8] {
        match &self.string {
            Some(string) if string.escaped => b"",
            Some(_) => b"\"",
            None if self.number > 0 => b"}],",
            // A value that begins with 0 may never become larger than 0.
            None => b"}]n1234567890tf\"-:[{, ",
        }
    }

    /// Bytes that lead from one part of a string to the next, when no single step is enough.
    pub(crate) fn leaps(&self) -> &'static [u8] {
        if self.string.is_some() { b"@.:/-TZ#" } else { b"" }
    }

    pub(crate) fn is_in_string(&self) -> bool {
        self.string.is_some()
    }

    /// The few of [`Document::steps`] that stand for the others where several are needed.
    pub(crate) fn few_steps(&self) -> &'static [u8] {
        match &self.string {
            Some(_) => b"a0A",
            None if self.number > 0 => b"10",
            None => b"",
        }
    }

    /// When none of [`Document::closers`] is allowed: bytes, one of which may make one of them allowed.
    pub(crate) fn steps(&self) -> &'static [u8] {
        match &self.string {
            Some(_) => b"abcdefghijklmnopqrstuvwxyz0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ_-.@:/ #+!?*%&=~",
            None if self.number > 0 => b"1234567890",
            None => b"",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_place_is_known() {
        let at = |text: &str| {
            let mut document = Document::default();
            document.push(text.as_bytes());
            document
        };
        assert_eq!(at(r#"{"a": "x\"#).closers(), b"");
        assert_eq!(at(r#"{"a": "x\""#).closers(), b"\"");
        assert_eq!(at(r#"{"a": "x\\""#).closers()[0], b'}');
        assert_eq!(at(r#"{"a": 12"#).closers()[2], b',');
        assert_eq!(at(r#"{"a": "[["#).pace(), Pace::Free);
        assert_eq!(at(&"[".repeat(DEEP + 1)).pace(), Pace::Close);
        assert_eq!(at(&format!("[{}", "1,".repeat(LONG_LIST))).pace(), Pace::Close);
        assert_eq!(at("[12345678901234567").pace(), Pace::Close);
        assert_eq!(at(&format!("[\"{}", "a".repeat(LONG_STRING))).pace(), Pace::Close);
        assert_eq!(at(&format!("[\"{}\"", "a".repeat(LONG_STRING))).pace(), Pace::Free);
    }
}

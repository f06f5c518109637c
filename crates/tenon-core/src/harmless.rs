//! Somebody else's words, fit for a terminal: what would move the cursor, change colours or turn the direction of
//! writing is shown by its number instead.
//!
//! Messages quote servers, files, documents and models. Whoever prints them calls this once, on what is printed; formats
//! that programs read have escapes of their own.

use std::borrow::Cow;

/// Text that may have several lines.
pub fn harmless(text: &str) -> Cow<'_, str> {
    by_number(text, |c| acts(c) && c != '\n')
}

/// Text that has to stay in its line: a name, a path, a message.
pub fn harmless_line(text: &str) -> Cow<'_, str> {
    by_number(text, acts)
}

fn acts(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}' | '\u{2029}')
        || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

fn by_number(text: &str, acts: impl Fn(char) -> bool + Copy) -> Cow<'_, str> {
    if !text.contains(acts) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        if acts(c) { shown.extend(c.escape_unicode()) } else { shown.push(c) }
    }
    Cow::Owned(shown)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_acts_on_a_terminal_is_shown_by_its_number() {
        for (text, wanted) in [
            ("plain, größer, 模型", "plain, größer, 模型"),
            ("a\u{1b}[31mb\u{7}", r"a\u{1b}[31mb\u{7}"),
            ("a\u{9b}2Jb", r"a\u{9b}2Jb"),
            ("a\r\tb\u{202e}c", r"a\u{d}\u{9}b\u{202e}c"),
        ] {
            assert_eq!(harmless(text), wanted);
            assert_eq!(harmless_line(text), wanted);
        }
        assert_eq!(harmless("a\nb"), "a\nb");
        assert_eq!(harmless_line("a\nb"), r"a\u{a}b");
    }
}

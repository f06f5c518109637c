//! What text of a document may contain: no characters that show it differently from what it says.
//!
//! Characters that reorder text are refused. Controls, invisible and private characters are taken out, and the
//! rest is brought into one form (NFC), so that two names that look the same are the same.

use unicode_normalization::UnicodeNormalization;

/// The text, cleaned, or the character that reorders it.
pub fn clean(text: &str) -> Result<String, Unsafe> {
    if let Some((at, found)) = text.char_indices().find(|(_, c)| is_bidi(*c)) {
        return Err(Unsafe { found, at });
    }
    if text.bytes().all(|byte| byte.is_ascii_graphic() || matches!(byte, b' ' | b'\n' | b'\t')) {
        return Ok(text.to_owned());
    }
    Ok(text.chars().filter(|c| is_kept(*c)).nfc().collect())
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unicode-unsafe (bidi-override): U+{:04X}", *found as u32)]
pub struct Unsafe {
    pub found: char,
    /// In bytes.
    pub at: usize,
}

/// Reorders the text around it.
pub(crate) fn is_bidi(c: char) -> bool {
    matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Takes no room: zero width, joiners, the byte order mark.
pub(crate) fn is_invisible(c: char) -> bool {
    matches!(c, '\u{200b}'..='\u{200d}' | '\u{2060}' | '\u{feff}')
}

fn is_kept(c: char) -> bool {
    let private = matches!(c, '\u{e000}'..='\u{f8ff}' | '\u{f0000}'..='\u{10ffff}');
    let other = matches!(c,
        '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200e}' | '\u{200f}' | '\u{2061}'..='\u{2065}'
        | '\u{206a}'..='\u{206f}' | '\u{2028}' | '\u{2029}' | '\u{fff9}'..='\u{fffb}' | '\u{fffe}' | '\u{ffff}'
        | '\u{e0000}'..='\u{e007f}');
    matches!(c, '\n' | '\t') || !(c.is_control() || is_invisible(c) || private || other)
}

/// Letters of several scripts in one name: two names can look alike.
pub(crate) fn mixes_scripts(name: &str) -> bool {
    let mut seen = [false; 3];
    for c in name.chars() {
        match c {
            'a'..='z' | 'A'..='Z' | '\u{c0}'..='\u{24f}' => seen[0] = true,
            '\u{370}'..='\u{3ff}' => seen[1] = true,
            '\u{400}'..='\u{52f}' => seen[2] = true,
            _ => {}
        }
    }
    seen.iter().filter(|seen| **seen).count() > 1
}

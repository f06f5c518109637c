//! Regular expressions as ECMA-262 means them, written for an engine whose time is linear in the text.
//!
//! Schemas are written for JavaScript's syntax: `\d` is ten digits, `.` stops at four line ends, `[^]` is
//! any character. The engine here has another syntax and no look-around and no back-references, which is
//! what makes it safe: no pattern can take exponential time. What cannot be expressed is refused.
//! Character classes are in `pattern_class.rs`.

use std::fmt::Write as _;

/// What a compiled pattern may take: enough for a name of 255 letters of any script, not for nested
/// repetitions.
pub(crate) const MAX_PATTERN_BYTES: usize = 32 * 1024 * 1024;
/// What matching may keep in memory to be fast; past it the engine is slower, and still linear.
pub(crate) const MATCHING_BYTES: usize = 2 * 1024 * 1024;

/// Why a pattern is refused: the end of a sentence that starts with the pattern.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Refused {
    pub reason: String,
    pub hint: Option<String>,
}

pub(crate) type Translated<T> = Result<T, Refused>;

pub(crate) fn refuse<T>(reason: impl Into<String>) -> Translated<T> {
    Err(Refused { reason: reason.into(), hint: None })
}

/// The pattern in the engine's syntax.
pub(crate) fn to_engine(pattern: &str) -> Translated<String> {
    let mut reader =
        Reader { chars: pattern.chars().collect(), at: 0, out: String::with_capacity(pattern.len()) };
    reader.alternatives()?;
    Ok(reader.out)
}

/// Compiles a translated pattern, to say why the validator did not take it.
pub(crate) fn engine_fault(pattern: &str) -> Option<Refused> {
    let translated = match to_engine(pattern) {
        Ok(translated) => translated,
        Err(refused) => return Some(refused),
    };
    let built = regex::RegexBuilder::new(&translated)
        .size_limit(MAX_PATTERN_BYTES)
        .dfa_size_limit(MATCHING_BYTES)
        .build();
    match built {
        Ok(_) => None,
        Err(regex::Error::CompiledTooBig(_)) => Some(Refused {
            reason: "is too large once its repetitions are written out".to_owned(),
            hint: Some("use smaller repetition counts, or `maxLength` for the length".to_owned()),
        }),
        Err(_) if pattern.contains("\\p") || pattern.contains("\\P") => {
            refuse::<()>("names a Unicode property that is not known").err()
        }
        Err(_) => refuse::<()>("is not a regular expression").err(),
    }
}

pub(crate) struct Reader {
    chars: Vec<char>,
    at: usize,
    pub out: String,
}

/// What a backslash and the characters after it stand for.
pub(crate) enum Escape {
    Char(char),
    /// The inside of a class, in the engine's syntax.
    Set(&'static str),
    /// `\p{…}` or `\P{…}`.
    Property(String),
    /// `\b`, or backspace inside a class.
    Boundary,
    NoBoundary,
}

const DIGIT: &str = "0-9";
const NO_DIGIT: &str = r"\x{0}-\x{2F}\x{3A}-\x{10FFFF}";
const WORD: &str = "0-9A-Z_a-z";
const NO_WORD: &str = r"\x{0}-\x{2F}\x{3A}-\x{40}\x{5B}-\x{5E}\x{60}\x{7B}-\x{10FFFF}";
const SPACE: &str =
    r"\x{9}-\x{D}\x{20}\x{A0}\x{1680}\x{2000}-\x{200A}\x{2028}\x{2029}\x{202F}\x{205F}\x{3000}\x{FEFF}";
const NO_SPACE: &str = r"\x{0}-\x{8}\x{E}-\x{1F}\x{21}-\x{9F}\x{A1}-\x{167F}\x{1681}-\x{1FFF}\x{200B}-\x{2027}\x{202A}-\x{202E}\x{2030}-\x{205E}\x{2060}-\x{2FFF}\x{3001}-\x{FEFE}\x{FF00}-\x{10FFFF}";
const NO_LINE_END: &str = r"[^\n\r\x{2028}\x{2029}]";

/// Whether a quantifier may follow.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Before {
    Nothing,
    Atom,
}

impl Reader {
    fn alternatives(&mut self) -> Translated<()> {
        let mut open_groups = 0_usize;
        let mut before = Before::Nothing;
        while let Some(c) = self.next() {
            before = match c {
                '^' | '$' | '|' => {
                    self.out.push(c);
                    Before::Nothing
                }
                '.' => {
                    self.out.push_str(NO_LINE_END);
                    Before::Atom
                }
                '(' => {
                    self.group()?;
                    open_groups += 1;
                    Before::Nothing
                }
                ')' => {
                    if open_groups == 0 {
                        return refuse("closes a group that was not opened");
                    }
                    open_groups -= 1;
                    self.out.push(')');
                    Before::Atom
                }
                '[' => {
                    self.class()?;
                    Before::Atom
                }
                '*' | '+' | '?' => self.quantifier(&c.to_string(), before)?,
                '{' => match self.counts()? {
                    Some(counts) => self.quantifier(&counts, before)?,
                    None => self.literal(c),
                },
                '\\' => self.escaped_atom()?,
                other => self.literal(other),
            };
        }
        if open_groups > 0 { refuse("opens a group that is not closed") } else { Ok(()) }
    }

    fn group(&mut self) -> Translated<()> {
        if !self.take('?') {
            self.out.push('(');
            return Ok(());
        }
        match (self.peek(0), self.peek(1)) {
            (Some('='), _) | (Some('!'), _) => no_look("look-ahead"),
            (Some('<'), Some('=' | '!')) => no_look("look-behind"),
            (Some(':'), _) => {
                self.at += 1;
                self.out.push_str("(?:");
                Ok(())
            }
            (Some('<'), Some(_)) => {
                // Nobody reads what a group caught: its name does not matter.
                while let Some(c) = self.next() {
                    if c == '>' {
                        self.out.push_str("(?:");
                        return Ok(());
                    }
                }
                refuse("has a group name that does not end")
            }
            _ => refuse("has a group that starts with `(?` in a way ECMA-262 does not know"),
        }
    }

    fn quantifier(&mut self, text: &str, before: Before) -> Translated<Before> {
        if before == Before::Nothing {
            return refuse(format!("has nothing to repeat before `{text}`"));
        }
        self.out.push_str(text);
        if self.take('?') {
            self.out.push('?');
        }
        Ok(Before::Nothing)
    }

    /// After `{`: `3}`, `3,}` or `3,5}`. Anything else is an ordinary brace.
    fn counts(&mut self) -> Translated<Option<String>> {
        let start = self.at;
        let low = self.number();
        let comma = self.take(',');
        let high = self.number();
        if !self.take('}') {
            self.at = start;
            return Ok(None);
        }
        match (low.as_str(), comma, high.as_str()) {
            ("", true, "") | ("", false, _) => {
                self.at = start;
                Ok(None)
            }
            ("", true, high) => Err(Refused {
                reason: format!("has `{{,{high}}}`, which is not a repetition in ECMA-262"),
                hint: Some(format!("write `{{0,{high}}}`")),
            }),
            (low, true, high) if !high.is_empty() && number_is_less(high, low) => {
                refuse(format!("repeats `{{{low},{high}}}`, which ends before it starts"))
            }
            (low, true, high) => Ok(Some(format!("{{{low},{high}}}"))),
            (low, false, _) => Ok(Some(format!("{{{low}}}"))),
        }
    }

    fn number(&mut self) -> String {
        let mut digits = String::new();
        while let Some(c) = self.peek(0).filter(char::is_ascii_digit) {
            digits.push(c);
            self.at += 1;
        }
        digits
    }

    fn escaped_atom(&mut self) -> Translated<Before> {
        match self.escape()? {
            Escape::Char(c) => return Ok(self.literal(c)),
            Escape::Set(set) => {
                let _ = write!(self.out, "[{set}]");
            }
            Escape::Property(property) => self.out.push_str(&property),
            Escape::Boundary => {
                self.out.push_str(r"(?-u:\b)");
                return Ok(Before::Nothing);
            }
            Escape::NoBoundary => return refuse("uses `\\B`, which the linear-time engine cannot express"),
        }
        Ok(Before::Atom)
    }

    /// After a backslash.
    pub(crate) fn escape(&mut self) -> Translated<Escape> {
        let Some(c) = self.next() else { return refuse("ends with a backslash") };
        let char = match c {
            'd' => return Ok(Escape::Set(DIGIT)),
            'D' => return Ok(Escape::Set(NO_DIGIT)),
            'w' => return Ok(Escape::Set(WORD)),
            'W' => return Ok(Escape::Set(NO_WORD)),
            's' => return Ok(Escape::Set(SPACE)),
            'S' => return Ok(Escape::Set(NO_SPACE)),
            'b' => return Ok(Escape::Boundary),
            'B' => return Ok(Escape::NoBoundary),
            'p' | 'P' => return self.property(c),
            't' => '\t',
            'n' => '\n',
            'v' => '\u{b}',
            'f' => '\u{c}',
            'r' => '\r',
            '0' if !self.peek(0).is_some_and(|next| next.is_ascii_digit()) => '\0',
            '0'..='9' => return no_back_reference(),
            'k' => return no_back_reference(),
            'c' => match self.next() {
                Some(letter) if letter.is_ascii_alphabetic() => char::from(letter as u8 % 32),
                _ => return refuse("has `\\c` without a letter after it"),
            },
            'x' => match self.hex(2).and_then(char::from_u32) {
                Some(c) => c,
                None => return refuse("has `\\x` without two hexadecimal digits after it"),
            },
            'u' => self.unicode()?,
            'A' => return foreign(c, "^"),
            'z' | 'Z' => return foreign(c, "$"),
            letter if letter.is_ascii_alphanumeric() => {
                return refuse(format!("has `\\{letter}`, which means nothing in ECMA-262"));
            }
            other => other,
        };
        Ok(Escape::Char(char))
    }

    fn property(&mut self, letter: char) -> Translated<Escape> {
        let mut name = String::new();
        if self.take('{') {
            while let Some(c) = self.next() {
                match c {
                    '}' if !name.is_empty() => return Ok(Escape::Property(format!("\\{letter}{{{name}}}"))),
                    c if c.is_ascii_alphanumeric() || matches!(c, '_' | '=') => name.push(c),
                    _ => break,
                }
            }
        }
        refuse(format!("has `\\{letter}` without a property in braces after it, such as `\\{letter}{{L}}`"))
    }

    fn unicode(&mut self) -> Translated<char> {
        if self.take('{') {
            let mut code = Some(0_u32);
            let mut digits = 0;
            while let Some(digit) = self.peek(0).and_then(|c| c.to_digit(16)) {
                code = code.and_then(|code| code.checked_mul(16)).map(|code| code + digit);
                digits += 1;
                self.at += 1;
            }
            return match code.and_then(char::from_u32) {
                Some(c) if digits > 0 && self.take('}') => Ok(c),
                _ => refuse("has `\\u{…}` without the number of a character in it"),
            };
        }
        let Some(first) = self.hex(4) else {
            return refuse("has `\\u` without four hexadecimal digits after it");
        };
        if (0xD800..0xDC00).contains(&first) && self.peek(0) == Some('\\') && self.peek(1) == Some('u') {
            self.at += 2;
            if let Some(second) = self.hex(4).filter(|second| (0xDC00..0xE000).contains(second)) {
                let code = 0x10000 + ((first - 0xD800) << 10) + (second - 0xDC00);
                return char::from_u32(code).map_or_else(|| refuse("names no character"), Ok);
            }
        }
        match char::from_u32(first) {
            Some(c) => Ok(c),
            None => {
                refuse(format!("has `\\u{first:04x}`, which is half of a surrogate pair and matches nothing"))
            }
        }
    }

    fn hex(&mut self, digits: usize) -> Option<u32> {
        let mut code = 0;
        for offset in 0..digits {
            code = code * 16 + self.peek(offset)?.to_digit(16)?;
        }
        self.at += digits;
        Some(code)
    }

    fn literal(&mut self, c: char) -> Before {
        if c.is_control() {
            let _ = write!(self.out, "\\x{{{:X}}}", u32::from(c));
        } else {
            if r"\.+*?()|[]{}^$".contains(c) {
                self.out.push('\\');
            }
            self.out.push(c);
        }
        Before::Atom
    }

    pub(crate) fn next(&mut self) -> Option<char> {
        let c = self.peek(0)?;
        self.at += 1;
        Some(c)
    }

    pub(crate) fn peek(&self, ahead: usize) -> Option<char> {
        self.chars.get(self.at + ahead).copied()
    }

    pub(crate) fn take(&mut self, c: char) -> bool {
        let there = self.peek(0) == Some(c);
        if there {
            self.at += 1;
        }
        there
    }
}

fn no_look<T>(what: &str) -> Translated<T> {
    Err(Refused {
        reason: format!("uses {what}, which the linear-time engine cannot express"),
        hint: Some(
            "write it without look-around, or split the condition over several `allOf` patterns".to_owned(),
        ),
    })
}

fn no_back_reference<T>() -> Translated<T> {
    refuse("uses a back-reference, which the linear-time engine cannot express")
}

fn foreign<T>(letter: char, instead: &str) -> Translated<T> {
    Err(Refused {
        reason: format!("has `\\{letter}`, which means nothing in ECMA-262"),
        hint: Some(format!("write `{instead}`")),
    })
}

/// Of two numbers written in digits, however many.
fn number_is_less(left: &str, right: &str) -> bool {
    let (left, right) = (left.trim_start_matches('0'), right.trim_start_matches('0'));
    (left.len(), left) < (right.len(), right)
}

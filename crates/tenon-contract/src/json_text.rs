//! Reads JSON text strictly and writes it back compact, touching nothing that carries meaning.
//!
//! Numbers stay as they were written, keys stay in their order, strings get the shortest escapes. A parser
//! that builds values cannot promise that, so this one works from text to text. It refuses what different
//! readers would understand differently: duplicate keys, lone surrogates, nesting without end.

use std::collections::HashSet;
use std::fmt;

use serde_json::value::RawValue;

/// The deepest nesting that is read: what common JSON readers (ours among them) take by default.
pub(crate) const MAX_DEPTH: usize = 127;

/// Keys that our JSON library reads as something else than a key. Refused, or `{"…Number": "7"}` would be
/// validated as a number.
const RESERVED_KEYS: [&str; 2] = ["$serde_json::private::Number", "$serde_json::private::RawValue"];

/// The text as one compact line, provided it is one JSON value.
pub fn compact_json(text: &str) -> Result<Box<RawValue>, JsonFault> {
    let compact = compact(text)?;
    raw(compact.text)
}

/// `text` must be JSON already; a failure would be a bug in this file, and is reported, not hidden.
pub(crate) fn raw(text: String) -> Result<Box<RawValue>, JsonFault> {
    RawValue::from_string(text).map_err(|error| JsonFault {
        line: error.line(),
        column: error.column(),
        message: "the text could not be read back".to_owned(),
    })
}

/// What is wrong with a text that should be JSON, and where. Lines and columns count from 1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JsonFault {
    pub line: usize,
    /// In characters.
    pub column: usize,
    pub message: String,
}

impl fmt::Display for JsonFault {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "line {}, column {}: {}", self.line, self.column, self.message)
    }
}

impl std::error::Error for JsonFault {}

pub(crate) struct Compact {
    pub text: String,
    pub root: Root,
}

/// What kind of value the text is; a string brings its content.
pub(crate) enum Root {
    Object,
    Array,
    String(String),
    Number,
    Boolean,
    Null,
}

impl Root {
    pub fn name(&self) -> &'static str {
        match self {
            Root::Object => "object",
            Root::Array => "array",
            Root::String(_) => "string",
            Root::Number => "number",
            Root::Boolean => "boolean",
            Root::Null => "null",
        }
    }
}

pub(crate) fn compact(text: &str) -> Result<Compact, JsonFault> {
    let mut scanner = Scanner { text, at: 0, out: String::with_capacity(text.len()), depth: 0 };
    let root = scanner.document().map_err(|message| scanner.fault(message))?;
    Ok(Compact { text: scanner.out, root })
}

struct Scanner<'a> {
    text: &'a str,
    /// Byte offset, always on a character boundary when an error is made.
    at: usize,
    out: String,
    depth: usize,
}

type Step<T> = Result<T, String>;

impl Scanner<'_> {
    fn document(&mut self) -> Step<Root> {
        self.skip_space();
        let root = self.value()?;
        self.skip_space();
        match self.peek() {
            None => Ok(root),
            Some(_) => Err(format!("expected the end of the text, found {}", self.found())),
        }
    }

    fn value(&mut self) -> Step<Root> {
        match self.peek() {
            Some(b'{') => self.object().map(|()| Root::Object),
            Some(b'[') => self.array().map(|()| Root::Array),
            Some(b'"') => {
                let content = self.string()?;
                write_string(&content, &mut self.out);
                Ok(Root::String(content))
            }
            Some(b'-' | b'0'..=b'9') => self.number().map(|()| Root::Number),
            Some(b't') => self.word("true").map(|()| Root::Boolean),
            Some(b'f') => self.word("false").map(|()| Root::Boolean),
            Some(b'n') => self.word("null").map(|()| Root::Null),
            _ => Err(format!("expected a value, found {}", self.found())),
        }
    }

    fn object(&mut self) -> Step<()> {
        self.enter()?;
        self.take(b'{');
        self.out.push('{');
        let mut seen = HashSet::new();
        self.skip_space();
        if self.peek() != Some(b'}') {
            loop {
                if self.peek() != Some(b'"') {
                    return Err(format!("expected a property name in double quotes, found {}", self.found()));
                }
                let start = self.at;
                let key = self.string()?;
                write_string(&key, &mut self.out);
                if RESERVED_KEYS.contains(&key.as_str()) {
                    self.at = start;
                    return Err(format!("the property name `{key}` is reserved"));
                }
                self.skip_space();
                self.expect(b':', "`:` after the property name")?;
                self.out.push(':');
                self.skip_space();
                self.value()?;
                self.skip_space();
                if let Some(key) = seen.replace(key) {
                    self.at = start;
                    return Err(format!("the property `{key}` is there twice"));
                }
                if self.take(b',') {
                    self.out.push(',');
                    self.skip_space();
                    if self.peek() == Some(b'}') {
                        return Err("a comma before `}` is not JSON".to_owned());
                    }
                } else {
                    break;
                }
            }
        }
        self.expect(b'}', "`,` or `}`")?;
        self.out.push('}');
        self.depth -= 1;
        Ok(())
    }

    fn array(&mut self) -> Step<()> {
        self.enter()?;
        self.take(b'[');
        self.out.push('[');
        self.skip_space();
        if self.peek() != Some(b']') {
            loop {
                self.value()?;
                self.skip_space();
                if self.take(b',') {
                    self.out.push(',');
                    self.skip_space();
                    if self.peek() == Some(b']') {
                        return Err("a comma before `]` is not JSON".to_owned());
                    }
                } else {
                    break;
                }
            }
        }
        self.expect(b']', "`,` or `]`")?;
        self.out.push(']');
        self.depth -= 1;
        Ok(())
    }

    fn enter(&mut self) -> Step<()> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(format!("nested deeper than {MAX_DEPTH} levels"));
        }
        Ok(())
    }

    fn number(&mut self) -> Step<()> {
        let start = self.at;
        self.take(b'-');
        match self.peek() {
            Some(b'0') => {
                self.at += 1;
                if matches!(self.peek(), Some(b'0'..=b'9')) {
                    return Err("a number may not start with 0".to_owned());
                }
            }
            _ => self.digits()?,
        }
        if self.take(b'.') {
            self.digits()?;
        }
        if self.take(b'e') || self.take(b'E') {
            if !self.take(b'+') {
                self.take(b'-');
            }
            self.digits()?;
        }
        self.out.push_str(&self.text[start..self.at]);
        Ok(())
    }

    fn digits(&mut self) -> Step<()> {
        if !matches!(self.peek(), Some(b'0'..=b'9')) {
            return Err(format!("expected a digit, found {}", self.found()));
        }
        while matches!(self.peek(), Some(b'0'..=b'9')) {
            self.at += 1;
        }
        Ok(())
    }

    fn word(&mut self, word: &'static str) -> Step<()> {
        if !self.text[self.at..].starts_with(word) {
            return Err(format!("expected a value, found {}", self.found()));
        }
        self.at += word.len();
        self.out.push_str(word);
        Ok(())
    }

    /// Reads a string and gives its content, unescaped.
    fn string(&mut self) -> Step<String> {
        self.take(b'"');
        let mut content = String::new();
        loop {
            let rest = &self.text[self.at..];
            let plain = rest
                .bytes()
                .position(|byte| byte == b'"' || byte == b'\\' || byte < 0x20)
                .unwrap_or(rest.len());
            content.push_str(&rest[..plain]);
            self.at += plain;
            match self.peek() {
                None => return Err("the text ends inside a string".to_owned()),
                Some(b'"') => {
                    self.at += 1;
                    return Ok(content);
                }
                Some(b'\\') => content.push(self.escape()?),
                Some(control) => {
                    return Err(format!("the control character U+{control:04X} must be escaped in a string"));
                }
            }
        }
    }

    fn escape(&mut self) -> Step<char> {
        let start = self.at;
        self.at += 1;
        let Some(letter) = self.peek() else {
            return Err("the text ends inside a string".to_owned());
        };
        let plain = match letter {
            b'"' => '"',
            b'\\' => '\\',
            b'/' => '/',
            b'b' => '\u{8}',
            b'f' => '\u{c}',
            b'n' => '\n',
            b'r' => '\r',
            b't' => '\t',
            b'u' => {
                self.at += 1;
                return self.unicode_escape(start);
            }
            _ => {
                let found = self.found();
                self.at = start;
                return Err(format!("a backslash may not stand before {found}"));
            }
        };
        self.at += 1;
        Ok(plain)
    }

    fn unicode_escape(&mut self, start: usize) -> Step<char> {
        let first = self.four_hex_digits()?;
        let code = if (0xD800..0xDC00).contains(&first) && self.text[self.at..].starts_with("\\u") {
            self.at += 2;
            let second = self.four_hex_digits()?;
            if (0xDC00..0xE000).contains(&second) {
                0x10000 + ((first - 0xD800) << 10) + (second - 0xDC00)
            } else {
                first
            }
        } else {
            first
        };
        char::from_u32(code).ok_or_else(|| {
            self.at = start;
            format!("`\\u{first:04x}` is half of a surrogate pair, not a character")
        })
    }

    fn four_hex_digits(&mut self) -> Step<u32> {
        let mut code = 0;
        for _ in 0..4 {
            let digit = self.peek().and_then(|byte| char::from(byte).to_digit(16));
            let Some(digit) = digit else {
                return Err(format!("expected four hexadecimal digits after `\\u`, found {}", self.found()));
            };
            code = code * 16 + digit;
            self.at += 1;
        }
        Ok(code)
    }

    fn skip_space(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\n' | b'\r' | b'\t')) {
            self.at += 1;
        }
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn take(&mut self, byte: u8) -> bool {
        let there = self.peek() == Some(byte);
        if there {
            self.at += 1;
        }
        there
    }

    fn expect(&mut self, byte: u8, what: &str) -> Step<()> {
        if self.take(byte) { Ok(()) } else { Err(format!("expected {what}, found {}", self.found())) }
    }

    fn found(&self) -> String {
        match self.text[self.at..].chars().next() {
            None => "the end of the text".to_owned(),
            Some(c) if c.is_control() => format!("U+{:04X}", u32::from(c)),
            Some(c) => format!("`{c}`"),
        }
    }

    fn fault(&self, message: String) -> JsonFault {
        let before = &self.text[..self.at];
        let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
        JsonFault {
            line: before.matches('\n').count() + 1,
            column: before[line_start..].chars().count() + 1,
            message,
        }
    }
}

/// Writes a JSON string with no escape that is not needed.
pub(crate) fn write_string(content: &str, out: &mut String) {
    use fmt::Write as _;
    out.push('"');
    let mut plain = 0;
    for (at, byte) in content.bytes().enumerate() {
        let short = match byte {
            b'"' => "\\\"",
            b'\\' => "\\\\",
            0x08 => "\\b",
            0x0C => "\\f",
            b'\n' => "\\n",
            b'\r' => "\\r",
            b'\t' => "\\t",
            0x00..0x20 => "",
            _ => continue,
        };
        out.push_str(&content[plain..at]);
        plain = at + 1;
        if short.is_empty() {
            // Writing to a string does not fail.
            let _ = write!(out, "\\u{byte:04x}");
        } else {
            out.push_str(short);
        }
    }
    out.push_str(&content[plain..]);
    out.push('"');
}

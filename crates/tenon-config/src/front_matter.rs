//! The few lines between `---` at the top of a Markdown file: keys with a text or a list of texts.
//!
//! A small part of YAML, written the same way: `key: value`, quotes where a value needs them, lists as
//! `[a, b]` or as lines that begin with `- `. What this reader does not understand (nested maps, anchors,
//! block texts) it refuses by line: a definition that is half understood would do something else than its
//! author wrote. What the keys mean is decided by whoever asks, for agents in `agent_files.rs`.

use std::fmt;

use crate::problem::quotable;

const FENCE: &str = "---";
/// Characters that begin something else than a plain text in YAML.
const MARKS: &[char] = &['&', '*', '!', '|', '>', '{', '}', ']', '%', '@', '`', ',', '?', '#'];

/// A file taken apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FrontMatter<'t> {
    /// In the order of the file, each key once.
    pub fields: Vec<Field<'t>>,
    /// What follows the second `---`.
    pub body: &'t str,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field<'t> {
    pub key: &'t str,
    /// From 1.
    pub line: usize,
    pub value: FieldValue,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FieldValue {
    Text(String),
    List(Vec<String>),
}

/// What is wrong, and in which line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FrontMatterError {
    pub line: usize,
    /// One sentence without a full stop.
    pub message: String,
}

impl fmt::Display for FrontMatterError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.message)
    }
}

/// `None` when the text has no front matter at all.
pub fn read_front_matter(text: &str) -> Result<Option<FrontMatter<'_>>, FrontMatterError> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut lines = Lines { rest: text, number: 0 };
    match lines.next() {
        Some(first) if first.trim_end() == FENCE => {}
        _ => return Ok(None),
    }
    let mut fields: Vec<Field<'_>> = Vec::new();
    loop {
        let Some(line) = lines.next() else {
            return Err(FrontMatterError {
                line: 1,
                message: format!("the front matter is not closed by a second `{FENCE}`"),
            });
        };
        let at = lines.number;
        let wrong = |message: String| FrontMatterError { line: at, message };
        if line.trim_end() == FENCE {
            return Ok(Some(FrontMatter { fields, body: lines.rest }));
        }
        if is_blank(line) {
            continue;
        }
        if let Some(item) = list_item(line) {
            let Some(Field { value: FieldValue::List(items), .. }) = fields.last_mut() else {
                return Err(wrong("a list item stands under no key".to_owned()));
            };
            items.push(scalar(item, &[]).map_err(wrong)?);
            continue;
        }
        if line.starts_with([' ', '\t']) {
            let message = "nested values are not understood; a key starts at the beginning of its line";
            return Err(wrong(message.to_owned()));
        }
        let Some((key, value)) = line.split_once(':').filter(|(key, rest)| is_key(key) && is_separated(rest))
        else {
            return Err(wrong(format!("`{}` is not `key: value`", quotable(line.trim_end()))));
        };
        if let Some(first) = fields.iter().find(|field| field.key == key) {
            return Err(wrong(format!("`{key}` stands in line {} already", first.line)));
        }
        let value = value_of(value.trim()).map_err(wrong)?;
        fields.push(Field { key, line: at, value });
    }
}

impl FieldValue {
    /// A list, or a text that lists its items with commas.
    pub fn items(&self) -> Vec<String> {
        match self {
            FieldValue::List(items) => items.clone(),
            FieldValue::Text(text) => {
                let items = text.split(',').map(str::trim).filter(|item| !item.is_empty());
                items.map(str::to_owned).collect()
            }
        }
    }
}

struct Lines<'t> {
    rest: &'t str,
    /// Of the line given last, from 1.
    number: usize,
}

impl<'t> Lines<'t> {
    fn next(&mut self) -> Option<&'t str> {
        if self.rest.is_empty() {
            return None;
        }
        let (line, rest) = self.rest.split_once('\n').unwrap_or((self.rest, ""));
        self.rest = rest;
        self.number += 1;
        Some(line.strip_suffix('\r').unwrap_or(line))
    }
}

fn is_blank(line: &str) -> bool {
    let line = line.trim();
    line.is_empty() || line.starts_with('#')
}

fn is_key(key: &str) -> bool {
    !key.is_empty() && key.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-'))
}

/// `key:value` is one text in YAML.
fn is_separated(rest: &str) -> bool {
    rest.is_empty() || rest.starts_with([' ', '\t'])
}

fn list_item(line: &str) -> Option<&str> {
    let rest = line.trim_start().strip_prefix('-')?;
    rest.starts_with([' ', '\t']).then(|| rest.trim())
}

fn value_of(text: &str) -> Result<FieldValue, String> {
    if text.is_empty() || text.starts_with('#') {
        // What follows are its items, or nothing at all.
        return Ok(FieldValue::List(Vec::new()));
    }
    match text.strip_prefix('[') {
        Some(inner) => flow_list(inner).map(FieldValue::List),
        None => scalar(text, &[]).map(FieldValue::Text),
    }
}

/// `[a, 'b', "c"]`, in one line.
fn flow_list(inner: &str) -> Result<Vec<String>, String> {
    let mut items = Vec::new();
    let mut rest = inner.trim_start();
    loop {
        if let Some(after) = rest.strip_prefix(']') {
            return match is_blank(after) {
                true => Ok(items),
                false => Err("something follows the list".to_owned()),
            };
        }
        let (item, after) = match quoted(rest)? {
            Some(found) => found,
            None => {
                let end = rest.find([',', ']']).ok_or("the list is not closed by `]` in its line")?;
                (scalar(rest[..end].trim_end(), &['['])?, &rest[end..])
            }
        };
        items.push(item);
        rest = after.trim_start();
        match rest.strip_prefix(',') {
            Some(after) => rest = after.trim_start(),
            None if rest.starts_with(']') => {}
            None => return Err("the list is not closed by `]` in its line".to_owned()),
        }
    }
}

/// One text: quoted, or plain up to a comment. `more_marks` are further beginnings to refuse.
fn scalar(text: &str, more_marks: &[char]) -> Result<String, String> {
    if let Some((value, after)) = quoted(text)? {
        return match is_blank(after) {
            true => Ok(value),
            false => Err("something follows the closing quote".to_owned()),
        };
    }
    let plain = text.split(" #").next().unwrap_or(text).trim_end();
    let Some(first) = plain.chars().next() else { return Err("a value is empty".to_owned()) };
    if MARKS.contains(&first) || more_marks.contains(&first) || first == '[' {
        return Err(format!(
            "a value that begins with `{first}` needs quotes; nested and block values are not understood"
        ));
    }
    if plain.contains(": ") || plain.ends_with(':') {
        return Err(format!("`{}` has a colon and needs quotes", quotable(plain)));
    }
    Ok(plain.to_owned())
}

/// A quoted text at the beginning, and what follows it.
fn quoted(text: &str) -> Result<Option<(String, &str)>, String> {
    let Some(quote) = text.chars().next().filter(|c| matches!(c, '"' | '\'')) else { return Ok(None) };
    let mut value = String::new();
    let mut chars = text.char_indices().skip(1).peekable();
    while let Some((at, c)) = chars.next() {
        match c {
            // In single quotes a quote is written twice.
            '\'' if quote == '\'' && chars.peek().is_some_and(|(_, next)| *next == '\'') => {
                value.push('\'');
                chars.next();
            }
            c if c == quote => return Ok(Some((value, &text[at + c.len_utf8()..]))),
            '\\' if quote == '"' => value.push(match chars.next() {
                Some((_, 'n')) => '\n',
                Some((_, 't')) => '\t',
                Some((_, c @ ('"' | '\\' | '/'))) => c,
                Some((_, c)) => return Err(format!("`\\{c}` is not an escape this reader knows")),
                None => break,
            }),
            c => value.push(c),
        }
    }
    Err("a quoted value is not closed in its line".to_owned())
}

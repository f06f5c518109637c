//! JSON with places. The text is checked by the one strict reader of the workspace first; this scanner only walks
//! what is known to be valid.

use std::collections::HashSet;

use super::{Fault, Key, Kind, MAX_DEPTH, MAX_NODES, Node, Read, Style, too_deep, too_many};
use crate::diagnostic::quoted;
use crate::document::Place;

pub(super) fn read(text: &str) -> Read {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    if text.trim().is_empty() {
        // Nothing at all is told by who reads the document.
        let kind = Kind::Scalar { text: String::new(), style: Style::Plain };
        return Read { root: Some(Node { place: Place::START, kind }), faults: Vec::new() };
    }
    if let Some(deep) = deeper_than(text, MAX_DEPTH) {
        return Read::failed(deep);
    }
    // A name that is there twice hides nothing else: the scanner finds all of them.
    let is_json = || serde_json::from_str::<serde::de::IgnoredAny>(text).is_ok();
    if let Err(fault) = tenon_contract::compact_json(text)
        && !(fault.message.contains(TWICE) && is_json())
    {
        let count = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
        let place = Place { line: count(fault.line), column: count(fault.column) };
        let hint = hint_for(&fault.message);
        return Read::failed(Fault::new(place, format!("not JSON: {}", fault.message), hint));
    }
    let mut scanner = Scanner::new(text);
    match scanner.value() {
        Ok(root) => Read { root: Some(root), faults: scanner.faults },
        Err(fault) => Read::failed(fault),
    }
}

/// How the strict reader says it.
const TWICE: &str = "there twice";

/// What to do about a fault of the strict reader.
fn hint_for(message: &str) -> &'static str {
    match message {
        it if it.contains(TWICE) => "give the second one another name, or take it out",
        it if it.starts_with("a comma before") => "take the comma out",
        it if it.contains("property name in double quotes") => "names stand in double quotes: `\"name\":`",
        it if it.contains("`,` or") => "put a comma between two values, or close the bracket before this",
        it if it.contains("`:` after") => "write `:` between a name and its value",
        it if it.contains("inside a string") => "close the text by a `\"`",
        it if it.contains("control character") => "write a line break as `\\n` and a tab as `\\t`",
        it if it.contains("backslash") || it.contains("\\u") => "write a backslash as `\\\\`",
        it if it.contains("end of the text") => "take out what follows the document",
        it if it.contains("start with 0") => "take the leading zero out, or write the number in quotes",
        it if it.contains("is reserved") => "give it another name",
        _ => {
            "JSON has text in double quotes, numbers, `true`, `false`, `null`, lists and objects, and no comments"
        }
    }
}

/// Where brackets are open deeper than `most`: the same answer, and the same words, as for YAML.
fn deeper_than(text: &str, most: usize) -> Option<Fault> {
    let mut scanner = Scanner::new(text);
    let mut depth: usize = 0;
    loop {
        scanner.blank();
        match scanner.peek() {
            0 => return None,
            b'"' => {
                scanner.string();
            }
            byte => {
                match byte {
                    b'{' | b'[' => depth += 1,
                    b'}' | b']' => depth = depth.saturating_sub(1),
                    _ => {}
                }
                if depth > most {
                    return Some(too_deep(scanner.place()));
                }
                scanner.at += 1;
            }
        }
    }
}

struct Scanner<'a> {
    text: &'a str,
    at: usize,
    line: u32,
    /// A byte of this line, and its column.
    counted: (usize, u32),
    nodes: usize,
    faults: Vec<Fault>,
}

impl Scanner<'_> {
    fn new(text: &str) -> Scanner<'_> {
        Scanner { text, at: 0, line: 1, counted: (0, 1), nodes: 0, faults: Vec::new() }
    }

    /// Nesting has been bounded.
    fn value(&mut self) -> Result<Node, Fault> {
        self.blank();
        let place = self.place();
        self.nodes += 1;
        if self.nodes > MAX_NODES {
            return Err(too_many(place));
        }
        let kind = match self.peek() {
            b'{' => {
                let mut entries = Vec::new();
                let mut seen = HashSet::new();
                self.at += 1;
                while !self.closes(b'}') {
                    let place = self.place();
                    let name = self.string();
                    self.blank();
                    self.at += 1;
                    let value = self.value()?;
                    // The first one stays.
                    match seen.insert(name.clone()) {
                        true => entries.push((Key { name, place }, value)),
                        false => {
                            let message = format!("not JSON: the property `{}` is {TWICE}", quoted(&name));
                            self.faults.push(Fault::new(place, message, hint_for(TWICE)));
                        }
                    }
                }
                Kind::Map(entries)
            }
            b'[' => {
                let mut items = Vec::new();
                self.at += 1;
                while !self.closes(b']') {
                    items.push(self.value()?);
                }
                Kind::List(items)
            }
            b'"' => Kind::Scalar { text: self.string(), style: Style::Quoted },
            _ => {
                let start = self.at;
                while !matches!(self.peek(), b',' | b']' | b'}' | b' ' | b'\t' | b'\r' | b'\n' | 0) {
                    self.at += 1;
                }
                Kind::Scalar { text: self.text[start..self.at].to_owned(), style: Style::Plain }
            }
        };
        Ok(Node { place, kind })
    }

    /// Past blanks and a comma; whether the bracket closes here.
    fn closes(&mut self, bracket: u8) -> bool {
        self.blank();
        if self.peek() == b',' {
            self.at += 1;
            self.blank();
        }
        let closes = self.peek() == bracket || self.peek() == 0;
        if closes {
            self.at += 1;
        }
        closes
    }

    fn string(&mut self) -> String {
        let start = self.at;
        self.at += 1;
        while !matches!(self.peek(), b'"' | 0) {
            self.at += if self.peek() == b'\\' { 2 } else { 1 };
        }
        self.at += 1;
        let literal = self.text.get(start..self.at).unwrap_or_default();
        serde_json::from_str(literal).unwrap_or_default()
    }

    fn blank(&mut self) {
        loop {
            match self.peek() {
                b'\n' => {
                    self.at += 1;
                    self.line += 1;
                    self.counted = (self.at, 1);
                }
                b' ' | b'\t' | b'\r' => self.at += 1,
                _ => return,
            }
        }
    }

    fn peek(&self) -> u8 {
        self.text.as_bytes().get(self.at).copied().unwrap_or(0)
    }

    /// Counts from the place before: a line may be the whole document.
    fn place(&mut self) -> Place {
        let (from, column) = self.counted;
        let more = self.text.get(from..self.at).unwrap_or_default().chars().count();
        let column = column.saturating_add(u32::try_from(more).unwrap_or(u32::MAX));
        self.counted = (self.at, column);
        Place { line: self.line, column }
    }
}

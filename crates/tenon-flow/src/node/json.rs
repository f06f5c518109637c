//! JSON with places. The text is checked by the one strict reader of the workspace first; this scanner only walks
//! what is known to be valid.

use super::{Key, Kind, MAX_NODES, Node, Style, Unreadable};
use crate::document::Place;

pub(super) fn read(text: &str) -> Result<Node, Unreadable> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    tenon_contract::compact_json(text).map_err(|fault| {
        let count = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
        Unreadable::new(Place { line: count(fault.line), column: count(fault.column) }, fault.message)
    })?;
    let mut scanner = Scanner { text, at: 0, line: 1, line_start: 0, nodes: 0 };
    scanner.value()
}

struct Scanner<'a> {
    text: &'a str,
    at: usize,
    line: u32,
    line_start: usize,
    nodes: usize,
}

impl Scanner<'_> {
    /// Nesting is bounded by the strict reader.
    fn value(&mut self) -> Result<Node, Unreadable> {
        self.blank();
        let place = self.place();
        self.nodes += 1;
        if self.nodes > MAX_NODES {
            return Err(Unreadable::too_large(
                place,
                format!("the document holds more than {MAX_NODES} values"),
            ));
        }
        let kind = match self.peek() {
            b'{' => {
                let mut entries = Vec::new();
                self.at += 1;
                while !self.closes(b'}') {
                    let place = self.place();
                    let name = self.string();
                    self.blank();
                    self.at += 1;
                    let value = self.value()?;
                    entries.push((Key { name, place }, value));
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
                    self.line_start = self.at;
                }
                b' ' | b'\t' | b'\r' => self.at += 1,
                _ => return,
            }
        }
    }

    fn peek(&self) -> u8 {
        self.text.as_bytes().get(self.at).copied().unwrap_or(0)
    }

    fn place(&self) -> Place {
        let column = self.text.get(self.line_start..self.at).unwrap_or_default().chars().count() + 1;
        Place { line: self.line, column: u32::try_from(column).unwrap_or(u32::MAX) }
    }
}

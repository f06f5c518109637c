//! Shows a payload while it is being written.
//!
//! Fragments go in as they arrive; at any time a snapshot holds every member and item that is complete,
//! with what is still open closed. Nothing half-written is ever shown: a number may still grow, a string
//! may still go on. Whether the payload fits its schema is decided at the end, in `validate.rs`.

use serde_json::value::RawValue;

use crate::json_text::{MAX_DEPTH, compact_json};

/// Each character is looked at once, however the text is cut into fragments.
#[derive(Clone, Debug)]
pub struct PartialJson {
    text: String,
    /// What closes the containers that are open, outermost first.
    closers: Vec<char>,
    state: State,
    /// The text up to here, plus `closers[..safe_depth]`, is JSON. Since then containers were only opened:
    /// closing one completes a value and moves this point.
    safe_len: usize,
    safe_depth: usize,
    grown: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Outside strings, numbers and words; the role is that of a string that would start here.
    Between(Role),
    InString(Role),
    AfterBackslash(Role),
    /// In a number or a word, which end only with what comes after them.
    InScalar,
    /// The object is complete.
    Done,
    /// Not JSON, or not an object: there is nothing to show.
    Broken,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    Key,
    Value,
}

impl Default for PartialJson {
    fn default() -> PartialJson {
        PartialJson::new()
    }
}

impl PartialJson {
    pub fn new() -> PartialJson {
        PartialJson {
            text: String::new(),
            closers: Vec::new(),
            state: State::Between(Role::Value),
            safe_len: 0,
            safe_depth: 0,
            grown: false,
        }
    }

    /// Takes the next fragment. True if a member or item was completed since the last snapshot.
    pub fn push(&mut self, fragment: &str) -> bool {
        for c in fragment.chars() {
            self.step(c);
            if matches!(self.state, State::Broken) {
                return false;
            }
            self.text.push(c);
        }
        self.grown
    }

    /// What is complete so far. `None` before the first member, and when the text is not a JSON object.
    pub fn snapshot(&mut self) -> Option<Box<RawValue>> {
        self.grown = false;
        if self.safe_len == 0 || self.state == State::Broken {
            return None;
        }
        let mut text = String::with_capacity(self.safe_len + self.safe_depth);
        text.push_str(&self.text[..self.safe_len]);
        text.extend(self.closers[..self.safe_depth].iter().rev());
        match compact_json(&text) {
            Ok(snapshot) => Some(snapshot),
            Err(_) => {
                self.state = State::Broken;
                None
            }
        }
    }

    /// Moves over one character; `text` does not hold it yet.
    fn step(&mut self, c: char) {
        self.state = match self.state {
            State::InString(role) => match c {
                '\\' => State::AfterBackslash(role),
                '"' => {
                    if role == Role::Value {
                        self.complete(self.text.len() + 1);
                    }
                    State::Between(role)
                }
                _ => State::InString(role),
            },
            State::AfterBackslash(role) => State::InString(role),
            State::InScalar => match c {
                ',' | '}' | ']' | ' ' | '\n' | '\r' | '\t' => {
                    self.complete(self.text.len());
                    self.between(c, Role::Value)
                }
                _ => State::InScalar,
            },
            State::Between(role) => self.between(c, role),
            State::Done if matches!(c, ' ' | '\n' | '\r' | '\t') => State::Done,
            State::Done | State::Broken => State::Broken,
        };
    }

    fn between(&mut self, c: char, role: Role) -> State {
        match c {
            ' ' | '\n' | '\r' | '\t' => State::Between(role),
            '{' => self.open('}', Role::Key),
            _ if self.closers.is_empty() => State::Broken,
            '[' => self.open(']', Role::Value),
            '}' | ']' => {
                if self.closers.pop() != Some(c) {
                    return State::Broken;
                }
                self.complete(self.text.len() + 1);
                if self.closers.is_empty() { State::Done } else { State::Between(Role::Value) }
            }
            ',' => match self.closers.last() {
                Some('}') => State::Between(Role::Key),
                _ => State::Between(Role::Value),
            },
            ':' => State::Between(Role::Value),
            '"' => State::InString(role),
            _ => State::InScalar,
        }
    }

    fn open(&mut self, closer: char, role: Role) -> State {
        if self.closers.len() == MAX_DEPTH {
            return State::Broken;
        }
        self.closers.push(closer);
        State::Between(role)
    }

    fn complete(&mut self, len: usize) {
        self.safe_len = len;
        self.safe_depth = self.closers.len();
        self.grown = true;
    }
}

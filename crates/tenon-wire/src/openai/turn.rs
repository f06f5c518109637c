//! Gathers one answer of the model until it is whole.

use std::collections::BTreeMap;

use tenon_core::{FinishReason as Ended, Part, PartKind, ToolCall};

use super::terminal_text::TerminalText;

/// One model turn, as far as it has come.
#[derive(Default)]
pub(super) struct Turn {
    pub model: String,
    /// Where one text ends and another begins, a line ends.
    pub text: String,
    pub thoughts: Vec<String>,
    /// Whole calls, without those of the terminal tool: their arguments are the answer, and the last line
    /// has it.
    pub calls: Vec<ToolCall>,
    /// Open parts, by number.
    open: BTreeMap<usize, Open>,
    calls_started: usize,
}

pub(super) enum Open {
    Text {
        text: TerminalText,
        /// Another text stands before it, and nothing of this one has been written.
        follows: bool,
    },
    Thinking,
    Call {
        index: usize,
    },
    /// The terminal tool's.
    Hidden,
}

impl Turn {
    pub fn begin(&mut self, model: &str) {
        *self = Turn { model: model.to_owned(), ..Turn::default() };
    }

    pub fn part_started(&mut self, part: usize, kind: &PartKind) -> &Open {
        let open = match kind {
            PartKind::Text => Open::Text { text: TerminalText::default(), follows: !self.text.is_empty() },
            PartKind::Thinking => Open::Thinking,
            PartKind::ToolCall { terminal: true, .. } => Open::Hidden,
            PartKind::ToolCall { .. } => {
                self.calls_started += 1;
                Open::Call { index: self.calls_started - 1 }
            }
        };
        self.open.entry(part).insert_entry(open).into_mut()
    }

    pub fn open(&mut self, part: usize) -> Option<&mut Open> {
        self.open.get_mut(&part)
    }

    pub fn part_stopped(&mut self, part: usize, content: &Part) {
        self.open.remove(&part);
        match content {
            Part::Text { text } => {
                if !self.text.is_empty() {
                    self.text.push('\n');
                }
                self.text.push_str(text);
            }
            Part::Thinking { text, .. } if !text.trim().is_empty() => self.thoughts.push(text.clone()),
            Part::ToolCall(call) if !call.terminal => self.calls.push(call.clone()),
            _ => {}
        }
    }

    /// Nothing of it is worth a line.
    pub fn is_empty(&self) -> bool {
        self.text.is_empty() && self.thoughts.is_empty() && self.calls.is_empty()
    }
}

/// Only what the events tell: a turn with calls ends in them.
pub(super) fn ended(turn: &Turn) -> Ended {
    if turn.calls.is_empty() { Ended::Stop } else { Ended::ToolCalls }
}

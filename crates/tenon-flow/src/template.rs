//! Text with expressions in it: `Deploy ${{ inputs.version }} to ${{ steps.plan.result.target }}`.
//!
//! An expression's value is put in as it is if it is text, and as compact JSON otherwise. `$${{` is a literal `${{`.
//! What an expression is and sees is in `cel.rs`.

use serde_json::Value;

use crate::cel::{CelError, CelSyntax, Expression, Scope};

const OPEN: &str = "${{";
const CLOSE: &str = "}}";
const ESCAPED: &str = "$${{";

/// Instructions or a prompt, compiled. Cheap to clone where it has no expressions to speak of.
#[derive(Clone, Debug, PartialEq)]
pub struct Template {
    pieces: Vec<Piece>,
}

#[derive(Clone, Debug, PartialEq)]
enum Piece {
    Text(String),
    Expression {
        expression: Expression,
        /// In bytes, into the text that was given.
        offset: usize,
    },
}

impl Template {
    /// `ids` are the steps that the expressions may name.
    pub fn compile(text: &str, ids: &[&str]) -> Result<Template, CelSyntax> {
        let mut pieces = Vec::new();
        let mut plain = String::new();
        let mut at = 0;
        while let Some(found) = text[at..].find(OPEN) {
            let open = at + found;
            if text[..open].ends_with('$') && open > at {
                plain.push_str(&text[at..open - 1]);
                plain.push_str(OPEN);
                at = open + OPEN.len();
                continue;
            }
            plain.push_str(&text[at..open]);
            let inner_at = open + OPEN.len();
            let Some(length) = close(&text[inner_at..]) else {
                let message =
                    format!("`{OPEN}` is not closed by `{CLOSE}`; write `{ESCAPED}` for the text itself");
                return Err(CelSyntax { message, offset: open });
            };
            let source = &text[inner_at..inner_at + length];
            let lead = source.len() - source.trim_start().len();
            let offset = inner_at + lead;
            if source.trim().is_empty() {
                return Err(CelSyntax { message: format!("`{OPEN} {CLOSE}` is empty"), offset: open });
            }
            let expression = Expression::compile(source.trim(), ids.iter().copied())
                .map_err(|error| CelSyntax { offset: offset + error.offset, ..error })?;
            if !plain.is_empty() {
                pieces.push(Piece::Text(std::mem::take(&mut plain)));
            }
            pieces.push(Piece::Expression { expression, offset });
            at = inner_at + length + CLOSE.len();
        }
        plain.push_str(&text[at..]);
        if !plain.is_empty() {
            pieces.push(Piece::Text(plain));
        }
        Ok(Template { pieces })
    }

    /// The text with its values in place.
    pub fn render(&self, scope: &Scope) -> Result<String, CelError> {
        let mut text = String::new();
        for piece in &self.pieces {
            match piece {
                Piece::Text(plain) => text.push_str(plain),
                Piece::Expression { expression, .. } => match expression.evaluate_value(scope)? {
                    Value::String(value) => text.push_str(&value),
                    value => text.push_str(&value.to_string()),
                },
            }
        }
        Ok(text)
    }

    /// Each expression, and where it is in the text that was given.
    pub fn expressions(&self) -> impl Iterator<Item = (&Expression, usize)> {
        self.pieces.iter().filter_map(|piece| match piece {
            Piece::Text(_) => None,
            Piece::Expression { expression, offset } => Some((expression, *offset)),
        })
    }
}

/// The length of the expression before `}}`, which may itself hold braces and quoted `}}`.
fn close(text: &str) -> Option<usize> {
    let mut depth: usize = 0;
    let mut quote: Option<char> = None;
    let mut escaped = false;
    for (at, c) in text.char_indices() {
        match quote {
            Some(_) if escaped => escaped = false,
            Some(_) if c == '\\' => escaped = true,
            Some(open) if c == open => quote = None,
            Some(_) => {}
            None => match c {
                '\'' | '"' => quote = Some(c),
                '{' => depth += 1,
                '}' if depth > 0 => depth -= 1,
                '}' if text[at..].starts_with(CLOSE) => return Some(at),
                _ => {}
            },
        }
    }
    None
}

//! Text with expressions in it: `Deploy ${{ inputs.version }} to ${{ steps.plan.result.target }}`.
//!
//! An expression's value is put in as it is if it is text, and as compact JSON otherwise. `$${{` is a literal `${{`.
//! What an expression is and sees is in `cel.rs`.

use serde_json::Value;

use crate::cel::{CelError, CelSyntax, Expression, Scope, SyntaxKind};

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
        let (template, errors) = Template::read(text, ids);
        errors.into_iter().next().map_or(Ok(template), Err)
    }

    /// Every part that can be read, and what is wrong with the others.
    pub(crate) fn read(text: &str, ids: &[&str]) -> (Template, Vec<CelSyntax>) {
        let mut pieces = Vec::new();
        let mut errors = Vec::new();
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
                errors.push(unclosed(open));
                at = inner_at;
                continue;
            };
            let source = &text[inner_at..inner_at + length];
            // The next one begins before this one ends: this one does not end.
            if let Some(next) = source.find(OPEN) {
                errors.push(unclosed(open));
                at = inner_at + next;
                continue;
            }
            let lead = source.len() - source.trim_start().len();
            let offset = inner_at + lead;
            at = inner_at + length + CLOSE.len();
            if source.trim().is_empty() {
                let message = format!("`{OPEN} {CLOSE}` is empty");
                errors.push(wrong(open, message, "name a value in it: `${{ inputs.topic }}`"));
                continue;
            }
            match Expression::compile(source.trim(), ids.iter().copied()) {
                Ok(expression) => {
                    if !plain.is_empty() {
                        pieces.push(Piece::Text(std::mem::take(&mut plain)));
                    }
                    pieces.push(Piece::Expression { expression, offset });
                }
                Err(error) => errors.push(CelSyntax { offset: offset + error.offset, ..error }),
            }
        }
        plain.push_str(&text[at..]);
        if !plain.is_empty() {
            pieces.push(Piece::Text(plain));
        }
        (Template { pieces }, errors)
    }

    /// The text with its values in place.
    pub fn render(&self, scope: &Scope) -> Result<String, NoValue> {
        let mut text = String::new();
        for piece in &self.pieces {
            match piece {
                Piece::Text(plain) => text.push_str(plain),
                Piece::Expression { expression, .. } => match expression.evaluate_value(scope) {
                    Ok(Value::String(value)) => text.push_str(&value),
                    Ok(value) => text.push_str(&value.to_string()),
                    Err(error) => return Err(NoValue { expression: expression.clone(), error }),
                },
            }
        }
        Ok(text)
    }

    /// The same, each expression knowing where it stands; the places are in the order of [`Template::expressions`].
    pub(crate) fn standing_in(self, places: impl IntoIterator<Item = String>) -> Template {
        let mut places = places.into_iter();
        let pieces = self.pieces.into_iter().map(|piece| match piece {
            Piece::Expression { expression, offset } => {
                let expression = match places.next() {
                    Some(place) => expression.standing_in(&place),
                    None => expression,
                };
                Piece::Expression { expression, offset }
            }
            text @ Piece::Text(_) => text,
        });
        Template { pieces: pieces.collect() }
    }

    /// Each expression, and where it is in the text that was given.
    pub fn expressions(&self) -> impl Iterator<Item = (&Expression, usize)> {
        self.pieces.iter().filter_map(|piece| match piece {
            Piece::Text(_) => None,
            Piece::Expression { expression, offset } => Some((expression, *offset)),
        })
    }
}

/// An expression of a template that gave no value.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{error}")]
pub struct NoValue {
    pub expression: Expression,
    #[source]
    pub error: CelError,
}

fn unclosed(open: usize) -> CelSyntax {
    let hint = format!("close it by `{CLOSE}`, or write `{ESCAPED}` for the text itself");
    wrong(open, format!("`{OPEN}` is not closed by `{CLOSE}`"), hint)
}

fn wrong(offset: usize, message: String, hint: impl Into<String>) -> CelSyntax {
    CelSyntax { message, hint: hint.into(), offset, kind: SyntaxKind::Unreadable }
}

/// The length of the expression before `}}`, which may itself hold braces and quoted `}}`. A quote that nothing closes
/// does not swallow the rest of the text.
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
    text.find(CLOSE).filter(|_| quote.is_some())
}

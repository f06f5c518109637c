//! `steps.plan.result.files[0].name`: a path without operators, which needs no parser.
//!
//! Most templates and lists are such paths. The tree is the one the parser would give; whatever is not plainly a path
//! is left to it.

use cel::common::ast::{CallExpr, Expr, IdedExpr, LiteralValue, SelectExpr, operators};
use cel::common::types::{CelInt, CelString};

/// Longer numbers are for the parser to judge.
const MAX_DIGITS: usize = 9;
/// Words that are no names.
const RESERVED: [&str; 20] = [
    "true",
    "false",
    "null",
    "in",
    "as",
    "break",
    "const",
    "continue",
    "else",
    "for",
    "function",
    "if",
    "import",
    "let",
    "loop",
    "package",
    "namespace",
    "return",
    "var",
    "void",
];

/// The tree, and where each node is: a node's id is its position in the list.
pub(super) fn read(text: &str) -> Option<(IdedExpr, Vec<usize>)> {
    let mut offsets = vec![0];
    let first = word(text)?;
    let mut tree = IdedExpr { id: 0, expr: Expr::Ident(first.to_owned()) };
    let mut at = first.len();
    while at < text.len() {
        let rest = &text[at..];
        let (expr, length) = if let Some(after) = rest.strip_prefix('.') {
            let field = word(after)?;
            let select = SelectExpr { operand: Box::new(tree), field: field.to_owned(), test: false };
            (Expr::Select(select), field.len() + 1)
        } else {
            let inside = rest.strip_prefix('[')?;
            let (key, length) = literal(inside)?;
            if !inside[length..].starts_with(']') {
                return None;
            }
            let key = IdedExpr { id: push(&mut offsets, at + 1), expr: Expr::Literal(key) };
            let args = vec![tree, key];
            let call = CallExpr { func_name: operators::INDEX.to_owned(), target: None, args };
            (Expr::Call(call), length + 2)
        };
        tree = IdedExpr { id: push(&mut offsets, at), expr };
        at += length;
    }
    Some((tree, offsets))
}

fn push(offsets: &mut Vec<usize>, offset: usize) -> u64 {
    offsets.push(offset);
    offsets.len() as u64 - 1
}

/// The name at the beginning of the text.
fn word(text: &str) -> Option<&str> {
    let length = text.bytes().take_while(|byte| byte.is_ascii_alphanumeric() || *byte == b'_').count();
    let word = &text[..length];
    let is_name =
        !word.is_empty() && !word.starts_with(|c: char| c.is_ascii_digit()) && !RESERVED.contains(&word);
    // `while` is reserved too, and `r"…"` is a text: neither is followed by what follows a name here.
    (is_name && word != "while").then_some(word)
}

/// A whole number or a text without escapes, and its length.
fn literal(text: &str) -> Option<(LiteralValue, usize)> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    if digits > 0 {
        let is_plain = digits <= MAX_DIGITS && (digits == 1 || !text.starts_with('0'));
        let number: i64 = text[..digits].parse().ok().filter(|_| is_plain)?;
        return Some((LiteralValue::Int(CelInt::from(number)), digits));
    }
    let quote = text.chars().next().filter(|c| matches!(c, '"' | '\''))?;
    let length = text[1..].find(quote)?;
    let inner = &text[1..1 + length];
    if inner.is_empty() || inner.contains(['\\', '\n', '\r']) {
        return None;
    }
    Some((LiteralValue::String(CelString::from(inner.to_owned())), length + 2))
}

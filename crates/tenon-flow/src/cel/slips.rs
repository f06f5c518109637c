//! What people write when they mean CEL: a single `=`, `and`, a quote that is not closed.
//!
//! Asked only about text that the parser refused: its own words name tokens, and often not the one that is wrong.

use super::rewrite::{is_closed, is_literal, pieces};
use super::{CelSyntax, SyntaxKind};

/// Words that cannot follow a dot.
const KEYWORDS: [&str; 4] = ["in", "true", "false", "null"];

/// The first slip of the text, if it has a familiar one.
pub(super) fn find(source: &str) -> Option<CelSyntax> {
    let mut slips = Vec::new();
    let mut brackets: Vec<(char, usize)> = Vec::new();
    let mut at = 0;
    let mut code_before = "";
    for piece in pieces(source) {
        if is_literal(piece) {
            slips.extend(in_literal(piece, code_before, at));
        } else {
            slips.extend(in_code(piece).map(|slip| CelSyntax { offset: slip.offset + at, ..slip }));
            slips.extend(balance(piece, at, &mut brackets));
            code_before = piece;
        }
        at += piece.len();
    }
    if let Some((open, at)) = brackets.last() {
        let message = format!("`{open}` is not closed");
        slips.push(slip(*at, message, format!("close it by `{}`", closing(*open))));
    }
    // What a quote swallowed is told by the quote.
    slips.into_iter().min_by_key(|slip| slip.offset)
}

fn slip(offset: usize, message: impl Into<String>, hint: impl Into<String>) -> CelSyntax {
    CelSyntax { message: message.into(), hint: hint.into(), offset, kind: SyntaxKind::Unreadable }
}

fn in_literal(literal: &str, code_before: &str, at: usize) -> Option<CelSyntax> {
    let raw = code_before.ends_with(['r', 'R']);
    let quote = &literal[..1];
    if !is_closed(literal, raw) {
        let hint = format!("close it by `{quote}`; inside, `{quote}` is written `\\{quote}`");
        return Some(slip(at, "the text that begins here is not closed", hint));
    }
    if literal.contains('\n') && !literal.starts_with(&quote.repeat(3)) {
        let hint = "write `\\n` for a line break, or put the expression on one line";
        return Some(slip(at, "a text in quotes cannot go on in the next line", hint));
    }
    None
}

fn in_code(code: &str) -> Option<CelSyntax> {
    let mut found: Vec<CelSyntax> = Vec::new();
    if let Some(at) = code.find("${{") {
        let hint = "take `${{` and `}}` out: only instructions have them";
        found.push(slip(at, "`${{` stands around an expression in a text, and this is one already", hint));
    }
    if let Some(at) = code.find(['‘', '’', '“', '”', '`']) {
        let quote = code[at..].chars().next().unwrap_or('`');
        found.push(slip(at, format!("`{quote}` is no quote here"), "write `'` or `\"`"));
    }
    let bytes = code.as_bytes();
    let byte = |at: usize| bytes.get(at).copied().unwrap_or(b' ');
    for (at, this) in bytes.iter().enumerate() {
        let before = if at == 0 { b' ' } else { byte(at - 1) };
        let after = byte(at + 1);
        match this {
            b'=' if before == b'=' && after == b'=' => {
                found.push(slip(at, "`===` is no operator", "write `==` to compare"));
            }
            b'=' if after == b'>' => found.push(slip(at, "`=>` is no operator", "write `>=` to compare")),
            b'=' if after != b'=' && !matches!(before, b'=' | b'!' | b'<' | b'>') => {
                found.push(slip(
                    at,
                    "`=` gives a value, and nothing can be given one here",
                    "write `==` to compare",
                ));
            }
            b'<' if after == b'>' => found.push(slip(at, "`<>` is no operator", "write `!=`")),
            b'&' if after != b'&' && before != b'&' => {
                found.push(slip(at, "`&` is no operator", "write `&&` for and"))
            }
            b'|' if after != b'|' && before != b'|' => {
                found.push(slip(at, "`|` is no operator", "write `||` for or"))
            }
            _ => {}
        }
    }
    for (word, meant) in
        [("and", "&&"), ("or", "||"), ("not", "!"), ("AND", "&&"), ("OR", "||"), ("NOT", "!")]
    {
        if let Some(at) = word_at(code, word) {
            found.push(slip(at, format!("`{word}` is no operator"), format!("write `{meant}`")));
        }
    }
    found.extend(reserved_field(code));
    found.into_iter().min_by_key(|slip| slip.offset)
}

/// `result.in`: after a dot, a word of the language is no name.
fn reserved_field(code: &str) -> Option<CelSyntax> {
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    code.match_indices('.').find_map(|(dot, _)| {
        let rest = code[dot + 1..].trim_start();
        let word = &rest[..rest.find(|c: char| !is_word(c)).unwrap_or(rest.len())];
        if !KEYWORDS.contains(&word) {
            return None;
        }
        let before = code[..dot].trim_end();
        let from = before
            .rfind(|c: char| !(is_word(c) || c == '.'))
            .map_or(0, |at| at + before[at..].chars().next().map_or(0, char::len_utf8));
        let path = if before[from..].is_empty() { "…" } else { &before[from..] };
        let is_asked =
            before[..from].trim_end().strip_suffix('(').is_some_and(|it| it.trim_end().ends_with("has"));
        let hint = match is_asked {
            true => format!("write `\"{word}\" in {path}` instead of `has(…)`"),
            false => format!("write `{path}[\"{word}\"]`"),
        };
        Some(slip(code.len() - rest.len(), format!("`{word}` is a word of the language, not a name"), hint))
    })
}

/// Where the word stands between blanks, brackets or the ends.
fn word_at(code: &str, word: &str) -> Option<usize> {
    let is_apart = |c: Option<char>| c.is_none_or(|c| c.is_whitespace() || "()!".contains(c));
    code.match_indices(word).map(|(at, _)| at).find(|at| {
        is_apart(code[..*at].chars().next_back()) && is_apart(code[at + word.len()..].chars().next())
    })
}

/// A bracket that closes what is not open.
fn balance(code: &str, at: usize, open: &mut Vec<(char, usize)>) -> Option<CelSyntax> {
    for (offset, c) in code.char_indices() {
        match c {
            '(' | '[' | '{' => open.push((c, at + offset)),
            ')' | ']' | '}' => match open.pop() {
                Some((opened, _)) if closing(opened) == c => {}
                Some((opened, _)) => {
                    let message = format!("`{c}` does not close `{opened}`");
                    return Some(slip(
                        at + offset,
                        message,
                        format!("close it by `{}` first", closing(opened)),
                    ));
                }
                None => {
                    let message = format!("`{c}` closes nothing");
                    return Some(slip(at + offset, message, "take it out, or open the bracket before it"));
                }
            },
            _ => {}
        }
    }
    None
}

fn closing(open: char) -> char {
    match open {
        '(' => ')',
        '[' => ']',
        _ => '}',
    }
}

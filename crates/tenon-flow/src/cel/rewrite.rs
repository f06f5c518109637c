//! Text before it is parsed: ids with hyphens, and brackets that are nested too deeply to parse.
//!
//! `steps.health-check.status` is a subtraction to CEL. Where `health-check` is the id of a step, a name that CEL can read
//! stands in for it while the text is parsed, and is put back in the tree ([`Stand`]). It is as long as the id, so every
//! place in the text stays what it was.

use cel::common::ast::{Expr, IdedExpr};

use super::{MAX_EXPRESSION_DEPTH, walk};

const STEPS: &str = "steps";
/// What a name may have in it, in the order of digits.
const DIGITS: &[u8; 63] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_";

/// A name that stands for an id with hyphens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Stand {
    name: String,
    id: String,
}

/// The text to parse, and which names in it stand for ids.
pub(super) fn hyphenated_ids<'a>(
    source: &str,
    ids: impl IntoIterator<Item = &'a str>,
) -> (String, Vec<Stand>) {
    if !source.contains('-') {
        return (source.to_owned(), Vec::new());
    }
    let hyphenated: Vec<&str> = ids.into_iter().filter(|id| id.contains('-')).collect();
    let mut text = String::with_capacity(source.len());
    let mut stands = Vec::new();
    let mut at = 0;
    for piece in pieces(source) {
        let end = at + piece.len();
        if is_literal(piece) {
            text.push_str(piece);
        } else {
            rewrite_code(source, at..end, &hyphenated, &mut text, &mut stands);
        }
        at = end;
    }
    let text = if text.contains("has") { fields_asked_for(&text, source, &mut stands) } else { text };
    (text, stands)
}

fn rewrite_code(
    source: &str,
    range: std::ops::Range<usize>,
    ids: &[&str],
    text: &mut String,
    stands: &mut Vec<Stand>,
) {
    let mut at = range.start;
    let mut rest = &source[range];
    while let Some(found) = rest.find(STEPS) {
        let before = &source[..at + found];
        let (head, tail) = rest.split_at(found + STEPS.len());
        text.push_str(head);
        at += head.len();
        rest = tail;
        let Some(to_field) = to_field(before, tail) else { continue };
        let (head, tail) = rest.split_at(to_field);
        text.push_str(head);
        at += head.len();
        rest = tail;
        let is_here = |id: &&&str| {
            let after = tail.strip_prefix(**id);
            after.is_some_and(|after| !after.starts_with(|c: char| is_word(c) || c == '-'))
        };
        // `a-b-c` is not `a-b` minus `c` when both are steps.
        let known = ids.iter().filter(is_here).max_by_key(|id| id.len()).copied();
        let Some(id) = known else { continue };
        let Some(name) = stand_for(id, source, stands) else { continue };
        text.push_str(&name);
        at += id.len();
        rest = &tail[id.len()..];
    }
    text.push_str(rest);
}

/// How far it is from behind `steps` to the field that is asked of it: `steps.x`, `steps\n  .x`, `(steps).x`.
fn to_field(before: &str, after: &str) -> Option<usize> {
    let mut rest = after.trim_start();
    if is_of_something(before) || after.starts_with(is_word) {
        return None;
    }
    // A dot is where names begin.
    let mut before = before.trim_end().strip_suffix('.').unwrap_or(before);
    // Brackets around the name alone change nothing.
    while let Some(behind) = rest.strip_prefix(')') {
        before = before.trim_end().strip_suffix('(')?;
        // Those of a call hold its argument.
        if before.trim_end().ends_with(is_word) && !ends_in_operator(before) {
            return None;
        }
        rest = behind.trim_start();
    }
    let rest = rest.strip_prefix('.')?.trim_start();
    Some(after.len() - rest.len())
}

/// `x in (steps)`, where the word before a bracket calls nothing.
fn ends_in_operator(before: &str) -> bool {
    before
        .trim_end()
        .strip_suffix("in")
        .is_some_and(|before| !before.ends_with(|c: char| is_word(c) || c == '.'))
}

/// `my.steps.x` and `mysteps.x` are other things; a dot with nothing before it is only where names begin.
fn is_of_something(before: &str) -> bool {
    match before.trim_end().strip_suffix('.') {
        Some(before) => before.trim_end().ends_with(|c: char| is_word(c) || ")]}'\"".contains(c)),
        None => before.ends_with(is_word),
    }
}

/// `has` takes no subtraction, so a name with hyphens in its path is a field: `has(steps.plan.result.next-step)`.
fn fields_asked_for(text: &str, source: &str, stands: &mut Vec<Stand>) -> String {
    let mut out = String::with_capacity(text.len());
    for piece in pieces(text) {
        let mut rest = piece;
        while !is_literal(piece)
            && let Some(found) = rest.find("has")
        {
            let (head, tail) = rest.split_at(found + "has".len());
            out.push_str(head);
            rest = tail;
            let is_word_before = head[..found].ends_with(|c: char| is_word(c) || c == '.');
            let Some(open) =
                tail.find(|c: char| !c.is_whitespace()).filter(|at| tail[*at..].starts_with('('))
            else {
                continue;
            };
            let is_path = |c: char| is_word(c) || c == '.' || c == '-' || c.is_whitespace();
            let end = tail[open + 1..].find(|c: char| !is_path(c)).map_or(tail.len(), |at| open + 1 + at);
            if is_word_before || !tail[end..].starts_with(')') {
                continue;
            }
            let names: Vec<String> = tail[open + 1..end]
                .split('.')
                .enumerate()
                .map(|(position, name)| {
                    let bare = name.trim();
                    let is_name = position > 0
                        && bare.contains('-')
                        && !bare.ends_with('-')
                        && bare.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
                        && !bare.contains(char::is_whitespace);
                    let stand = if is_name { stand_for(bare, source, stands) } else { None };
                    stand.map_or_else(|| name.to_owned(), |stand| name.replace(bare, &stand))
                })
                .collect();
            out.push_str(&tail[..=open]);
            out.push_str(&names.join("."));
            rest = &tail[end..];
        }
        out.push_str(rest);
    }
    out
}

/// The tree with `steps` for `.steps`: names begin nowhere but here. Where an element has the same name, the dot stays.
pub(super) fn from_the_root(node: &mut IdedExpr, bound: &mut Vec<String>) {
    match &mut node.expr {
        Expr::Ident(name) => {
            if let Some(plain) = name.strip_prefix('.')
                && !bound.iter().any(|bound| bound == plain)
            {
                *name = plain.to_owned();
            }
        }
        Expr::Comprehension(it) => {
            from_the_root(&mut it.iter_range, bound);
            from_the_root(&mut it.accu_init, bound);
            bound.push(it.iter_var.clone());
            for part in [&mut it.loop_cond, &mut it.loop_step, &mut it.result] {
                from_the_root(part, bound);
            }
            bound.pop();
        }
        _ => walk::children_mut(node).into_iter().for_each(|child| from_the_root(child, bound)),
    }
}

/// The name that stands for this id: one that nobody wrote and that no step can have, since ids begin with a letter.
fn stand_for(id: &str, source: &str, stands: &mut Vec<Stand>) -> Option<String> {
    /// A text that has written this many of them out did so on purpose.
    const TRIES: usize = 256;
    if let Some(stand) = stands.iter().find(|stand| stand.id == id) {
        return Some(stand.name.clone());
    }
    let is_free =
        |name: &String| !source.contains(name.as_str()) && stands.iter().all(|stand| stand.name != *name);
    let name = (0..TRIES).map(|number| numbered(number, id.len())).find(is_free)?;
    stands.push(Stand { name: name.clone(), id: id.to_owned() });
    Some(name)
}

/// `_` and a number in so many characters.
fn numbered(mut number: usize, length: usize) -> String {
    let mut digits = vec![b'0'; length.saturating_sub(1)];
    for digit in digits.iter_mut().rev() {
        *digit = DIGITS[number % DIGITS.len()];
        number /= DIGITS.len();
    }
    std::iter::once('_').chain(digits.into_iter().map(char::from)).collect()
}

/// The tree with the ids themselves in it.
pub(super) fn restore(tree: &mut IdedExpr, stands: &[Stand]) {
    if stands.is_empty() {
        return;
    }
    if let Expr::Select(select) = &mut tree.expr
        && let Some(stand) = stands.iter().find(|stand| stand.name == select.field)
    {
        select.field.clone_from(&stand.id);
    }
    walk::children_mut(tree).into_iter().for_each(|child| restore(child, stands));
}

/// What a parser quotes, as it was written.
pub(super) fn as_written(words: &str, stands: &[Stand]) -> String {
    stands.iter().fold(words.to_owned(), |words, stand| words.replace(&stand.name, &stand.id))
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// Where the next field of this name is written, behind `from`.
pub(super) fn field_after(source: &str, from: usize, field: &str) -> Option<usize> {
    let mut at = 0;
    for piece in pieces(source) {
        let start = at;
        at += piece.len();
        if is_literal(piece) || at <= from {
            continue;
        }
        let is_field = |found: &usize| {
            // Not the place it starts from: that is another field, or the dot before one.
            start + found > from + 1
                && piece[..*found].trim_end().ends_with('.')
                && !piece[found + field.len()..].starts_with(is_word)
        };
        if let Some(found) = piece.match_indices(field).map(|(found, _)| found).find(is_field) {
            return Some(start + found);
        }
    }
    None
}

/// Code and string literals, in turn; together they are the whole text.
pub(super) fn pieces(source: &str) -> Vec<&str> {
    let mut pieces = Vec::new();
    let mut rest = source;
    while let Some(open) = rest.find(['"', '\'']) {
        let (code, literal) = rest.split_at(open);
        let raw = code.ends_with(['r', 'R']);
        let end = literal_end(literal, raw);
        pieces.push(code);
        pieces.push(&literal[..end]);
        rest = &literal[end..];
    }
    pieces.push(rest);
    pieces.retain(|piece| !piece.is_empty());
    pieces
}

pub(super) fn is_literal(piece: &str) -> bool {
    piece.starts_with(['"', '\''])
}

/// Whether a string literal has the quote at its end that it has at its beginning.
pub(super) fn is_closed(literal: &str, raw: bool) -> bool {
    // One more of anything is a part of it only if it is still open.
    literal_end(&format!("{literal} "), raw) == literal.len()
}

/// Where the string literal at the beginning of `text` ends.
fn literal_end(text: &str, raw: bool) -> usize {
    let quote = &text[..1];
    let triple = quote.repeat(3);
    let closing = if text.starts_with(&triple) { triple } else { quote.to_owned() };
    let mut at = closing.len();
    while at < text.len() {
        if text[at..].starts_with(&closing) {
            return at + closing.len();
        }
        let step = text[at..].chars().next().map_or(1, char::len_utf8);
        let escaped = !raw && text[at..].starts_with('\\');
        at += step;
        if escaped {
            at += text[at..].chars().next().map_or(0, char::len_utf8);
        }
    }
    text.len()
}

/// Where the brackets, signs or negations become too many to parse.
pub(super) fn shallow(source: &str) -> Result<(), usize> {
    let mut at = 0;
    let mut open: usize = 0;
    let mut prefixes: usize = 0;
    for piece in pieces(source) {
        if is_literal(piece) {
            at += piece.len();
            prefixes = 0;
            continue;
        }
        for (offset, c) in piece.char_indices() {
            match c {
                '(' | '[' | '{' => open += 1,
                ')' | ']' | '}' => open = open.saturating_sub(1),
                '!' | '-' => prefixes += 1,
                c if c.is_whitespace() => {}
                _ => prefixes = 0,
            }
            if open > MAX_EXPRESSION_DEPTH || prefixes > MAX_EXPRESSION_DEPTH {
                return Err(at + offset);
            }
        }
        at += piece.len();
    }
    Ok(())
}

/// Operators, dots and brackets: the tree has at most a few levels for each. What a comma separates stands side by side.
pub(super) fn joints(source: &str) -> usize {
    let mut joints = 0;
    for code in pieces(source).into_iter().filter(|piece| !is_literal(piece)) {
        let mut before = ' ';
        for c in code.chars() {
            // `&&`, `==`, `<=` are one each.
            let is_second = matches!((before, c), ('&', '&') | ('|', '|') | ('=' | '!' | '<' | '>', '='));
            if "+-*/%&|<>=!?.([{".contains(c) && !is_second {
                joints += 1;
            }
            before = if is_second { ' ' } else { c };
        }
        // `in` is an operator too.
        joints += code.split(|c: char| !is_word(c)).filter(|word| *word == "in").count();
    }
    joints
}

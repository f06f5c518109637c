//! Text before it is parsed: ids with hyphens, and brackets that are nested too deeply to parse.
//!
//! `steps.health-check.status` is a subtraction to CEL. Where `health-check` is the id of a step, it is rewritten to
//! `steps["health-check"].status`; [`Moved`] leads from a place in the new text back to the one that was written.

/// The parser takes a few stack frames and some time per level; people stop well below this.
const MAX_BRACKETS: usize = 32;

const PREFIX: &str = "steps.";

/// Which text was replaced by longer text.
#[derive(Clone, Debug, Default)]
pub(super) struct Moved {
    /// Where the new text begins, how long it is, and how long the old text was.
    edits: Vec<(usize, usize, usize)>,
}

impl Moved {
    /// The offset, in the text that was written, of an offset in the rewritten text.
    pub(super) fn original(&self, offset: usize) -> usize {
        let mut shift = 0;
        for (start, new, old) in &self.edits {
            if offset >= start + new {
                shift += new - old;
            } else if offset > *start {
                // Inside the replacement: its beginning is the nearest thing that was written.
                return start - shift;
            }
        }
        offset - shift
    }
}

pub(super) fn hyphenated_ids<'a>(source: &str, ids: impl IntoIterator<Item = &'a str>) -> (String, Moved) {
    if !source.contains('-') {
        return (source.to_owned(), Moved::default());
    }
    let hyphenated: Vec<&str> = ids.into_iter().filter(|id| id.contains('-')).collect();
    if hyphenated.is_empty() {
        return (source.to_owned(), Moved::default());
    }
    let mut text = String::with_capacity(source.len() + 16);
    let mut moved = Moved::default();
    let mut at = 0;
    for piece in pieces(source) {
        let end = at + piece.len();
        if !piece.starts_with(['"', '\'']) {
            rewrite_code(&source[at..end], preceded(source, at), &hyphenated, &mut text, &mut moved);
        } else {
            text.push_str(piece);
        }
        at = end;
    }
    (text, moved)
}

fn preceded(source: &str, at: usize) -> Option<char> {
    source[..at].chars().next_back()
}

fn rewrite_code(code: &str, before: Option<char>, ids: &[&str], text: &mut String, moved: &mut Moved) {
    let mut rest = code;
    let mut last = before;
    while let Some(found) = rest.find(PREFIX) {
        let previous = rest[..found].chars().next_back().or(last);
        let (head, tail) = rest.split_at(found + PREFIX.len());
        text.push_str(head);
        last = Some('.');
        rest = tail;
        // `my.steps.x` and `mysteps.x` are other things.
        if previous.is_some_and(|c| is_word(c) || c == '.') {
            continue;
        }
        let is_here = |id: &&&str| {
            let after = tail.strip_prefix(**id);
            after.is_some_and(|after| !after.starts_with(|c: char| is_word(c) || c == '-'))
        };
        // `a-b-c` is not `a-b` minus `c` when both are steps.
        let Some(id) = ids.iter().filter(is_here).max_by_key(|id| id.len()) else { continue };
        // The dot goes, the brackets come.
        text.pop();
        let replacement = format!("[\"{id}\"]");
        moved.edits.push((text.len(), replacement.len(), id.len() + 1));
        text.push_str(&replacement);
        rest = &tail[id.len()..];
        last = Some(']');
    }
    text.push_str(rest);
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// Code and string literals, in turn; together they are the whole text.
fn pieces(source: &str) -> Vec<&str> {
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
        if piece.starts_with(['"', '\'']) {
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
            if open > MAX_BRACKETS || prefixes > MAX_BRACKETS {
                return Err(at + offset);
            }
        }
        at += piece.len();
    }
    Ok(())
}

/// Operators, dots, commas and brackets: the tree has at most a few levels for each.
pub(super) fn joints(source: &str) -> usize {
    let code = pieces(source).into_iter().filter(|piece| !piece.starts_with(['"', '\'']));
    code.map(|code| code.chars().filter(|c| "+-*/%&|<>=!?:.,([{".contains(*c)).count()).sum()
}

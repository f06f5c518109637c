//! How values of a schema or a payload look inside a message.

use serde_json::Value;

use crate::json_text::write_string;

/// A longer value is cut: the reader has it already and needs to recognise it, not to read it again.
const MAX_VALUE_CHARS: usize = 120;
/// More choices than this are counted. Enough for real enumerations, such as the states of a country.
const MAX_CHOICES: usize = 60;

/// The value as JSON, cut if it is long.
pub(crate) fn value(value: &Value) -> String {
    match value {
        // Cut before it is quoted, or the cut could hide the closing quote.
        Value::String(text) => {
            let count = text.chars().count();
            let mut shown = String::new();
            if count > MAX_VALUE_CHARS {
                let head: String = text.chars().take(MAX_VALUE_CHARS).collect();
                write_string(&head, &mut shown);
                format!("{shown}… ({count} characters)")
            } else {
                write_string(text, &mut shown);
                shown
            }
        }
        other => cut(&other.to_string(), MAX_VALUE_CHARS),
    }
}

/// `"a", "b", "c"`.
pub(crate) fn choices<'a>(values: impl IntoIterator<Item = &'a Value>) -> String {
    let all: Vec<String> = values.into_iter().map(value).collect();
    let shown = all.iter().take(MAX_CHOICES).map(String::as_str).collect::<Vec<_>>().join(", ");
    match all.len().saturating_sub(MAX_CHOICES) {
        0 => shown,
        more => format!("{shown}, … ({more} more)"),
    }
}

/// `a`, `a or b`, `a, b or c`.
pub(crate) fn alternatives(names: &[&str]) -> String {
    match names {
        [] => String::new(),
        [only] => (*only).to_owned(),
        [head @ .., last] => format!("{} or {last}", head.join(", ")),
    }
}

pub(crate) fn cut(text: &str, max_chars: usize) -> String {
    match text.char_indices().nth(max_chars) {
        None => text.to_owned(),
        Some((end, _)) => format!("{}…", &text[..end]),
    }
}

/// `1 item`, `2 items`.
pub(crate) fn count(number: u64, thing: &str) -> String {
    match (number, thing) {
        (1, _) => format!("1 {thing}"),
        (_, "property") => format!("{number} properties"),
        _ => format!("{number} {thing}s"),
    }
}

/// The candidate nearest to a misspelt word, if one is near enough to be meant.
pub(crate) fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let lower = word.to_lowercase();
    candidates
        .into_iter()
        .map(|candidate| (strsim::osa_distance(&lower, &candidate.to_lowercase()), candidate))
        .filter(|(distance, candidate)| {
            // One slip in three letters still reads as the same word.
            *distance <= (candidate.chars().count().min(word.chars().count()) / 3).clamp(1, 3)
        })
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

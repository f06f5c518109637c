//! `$VAR` and `${VAR}` in the strings of user settings. `$$` is a dollar sign.

use std::collections::BTreeMap;

/// The text with variables replaced, and the names that were not set (their text stays as it is).
pub(crate) fn expand(text: &str, env: &BTreeMap<String, String>) -> (String, Vec<String>) {
    let mut expanded = String::with_capacity(text.len());
    let mut unset = Vec::new();
    let mut rest = text;
    while let Some(at) = rest.find('$') {
        expanded.push_str(&rest[..at]);
        let after = &rest[at + 1..];
        if let Some(after) = after.strip_prefix('$') {
            expanded.push('$');
            rest = after;
            continue;
        }
        let (name, length) = variable(after);
        match env.get(name) {
            _ if name.is_empty() => expanded.push('$'),
            Some(value) => expanded.push_str(value),
            None => {
                unset.push(name.to_owned());
                expanded.push_str(&rest[at..=at + length]);
            }
        }
        rest = &after[length..];
    }
    expanded.push_str(rest);
    (expanded, unset)
}

/// The name after a dollar sign and how many bytes it takes, braces included. Empty when there is none.
fn variable(after: &str) -> (&str, usize) {
    if let Some(braced) = after.strip_prefix('{') {
        let name = &braced[..name_length(braced)];
        return if !name.is_empty() && braced[name.len()..].starts_with('}') {
            (name, name.len() + 2)
        } else {
            ("", 0)
        };
    }
    let name = &after[..name_length(after)];
    (name, name.len())
}

fn name_length(text: &str) -> usize {
    let starts_like_a_name = text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    if !starts_like_a_name {
        return 0;
    }
    text.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(text.len())
}

/// Could this be the name of an environment variable?
pub(crate) fn is_variable_name(text: &str) -> bool {
    !text.is_empty() && name_length(text) == text.len()
}

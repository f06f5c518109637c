//! What the model said in terminal calls, to be kept out of other people's sentences: a provider that refuses a
//! conversation quotes from it, and its words end up on stderr and in files.

use tenon_core::{Secret, Secrets};

/// A payload of more texts than this is not quoted whole by anybody.
const MAX_WORDS: usize = 1_000;

#[derive(Default)]
pub(crate) struct PayloadWords(Secrets);

impl PayloadWords {
    /// The arguments as the model wrote them, whole or cut off.
    pub(crate) fn add(&mut self, arguments: &str) {
        let words = texts(arguments).into_iter().map(Secret::new);
        self.0 = self.0.and(&words.collect());
    }

    /// A message without any of them.
    pub(crate) fn kept_out_of(&self, message: &mut String) {
        if let std::borrow::Cow::Owned(hidden) = self.0.hide(message) {
            *message = hidden;
        }
    }
}

/// Every text between quotes, names of members included; of an unfinished one what there is.
fn texts(json: &str) -> Vec<String> {
    let mut texts = Vec::new();
    let mut rest = json;
    while let Some(start) = rest.find('"')
        && texts.len() < MAX_WORDS
    {
        let inside = &rest[start + 1..];
        let end = end_of_text(inside);
        let literal = &inside[..end];
        texts.push(serde_json::from_str(&format!("\"{literal}\"")).unwrap_or_else(|_| literal.to_owned()));
        rest = inside.get(end + 1..).unwrap_or_default();
    }
    texts
}

fn end_of_text(inside: &str) -> usize {
    let mut escaped = false;
    for (at, byte) in inside.bytes().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'"' => return at,
            _ => {}
        }
    }
    inside.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_said_is_kept_out_however_it_is_quoted() {
        let mut words = PayloadWords::default();
        words.add(r#"{"note": "all of \"it\" is secret", "list": ["another one", "x"], "cut": "and the be"#);
        for (message, expected) in [
            ("it said all of \"it\" is secret.", "it said ***."),
            (r#"it said {"note":"all of \"it\" is secret"}"#, r#"it said {"note":"***"}"#),
            ("another one, and the be", "***, ***"),
            ("nothing of that: x", "nothing of that: x"),
        ] {
            let mut message = message.to_owned();
            words.kept_out_of(&mut message);
            assert_eq!(message, expected);
        }
    }

    #[test]
    fn texts_are_found_in_anything() {
        for (json, expected) in [
            ("", vec![]),
            ("\"", vec![""]),
            (r#""\""#, vec!["\""]),
            (r#"{"a\u00e9":"b"}"#, vec!["aé", "b"]),
            ("\"日本", vec!["日本"]),
        ] {
            assert_eq!(texts(json), expected, "{json}");
        }
    }
}

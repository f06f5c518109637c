//! Keys, and how they are kept out of everything that is shown, stored or sent on.
//!
//! A [`Secret`] does not print. [`Secrets`] are all that a run knows: whatever leaves the process through a
//! file, a trace or a message is searched for them last of all, after redaction (`redact.rs`).

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use serde_json::Value;

/// A key. It shows as `***` wherever it is printed, and cannot be serialised.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

/// Shorter values are placeholders such as `none` or `x`: hiding every occurrence would blot out text.
const SHORTEST_SECRET: usize = 6;
pub(crate) const HIDDEN: &str = "***";
/// What is no longer than this, made of small letters only and calls itself no key is a word that stands where a server wants any
/// key at all, such as `lm-studio` or `ollama`.
const LONGEST_WORD: usize = 12;
/// What calls itself a key is hidden as one.
const CALLED_A_KEY: &[&str] = &["key", "secret", "token", "pass", "sk-", "sk_"];

impl Secret {
    pub fn new(value: impl Into<String>) -> Secret {
        Secret(value.into())
    }

    pub fn expose(&self) -> &str {
        &self.0
    }

    /// The text to look for when hiding this secret, if it is long enough to be one.
    fn needle(&self) -> Option<&str> {
        let value = self.0.trim();
        let value = value.strip_prefix("Bearer ").unwrap_or(value);
        (value.len() >= SHORTEST_SECRET).then_some(value)
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(HIDDEN)
    }
}

impl fmt::Display for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(HIDDEN)
    }
}

/// Every secret that is known. Cheap to clone.
#[derive(Clone, Default)]
pub struct Secrets {
    /// As they are and as JSON writes them; longest first, so that one inside another leaves no rest.
    needles: Arc<[String]>,
}

impl FromIterator<Secret> for Secrets {
    fn from_iter<I: IntoIterator<Item = Secret>>(secrets: I) -> Secrets {
        let mut needles = Vec::new();
        for secret in secrets {
            let Some(needle) = secret.needle() else { continue };
            let quoted = Value::from(needle).to_string();
            needles.push(quoted[1..quoted.len() - 1].to_owned());
            needles.push(needle.to_owned());
        }
        Secrets::of(needles)
    }
}

impl Secrets {
    fn of(mut needles: Vec<String>) -> Secrets {
        needles.sort_by(|a, b| b.len().cmp(&a.len()).then_with(|| a.cmp(b)));
        needles.dedup();
        Secrets { needles: needles.into() }
    }

    /// These and those.
    #[must_use]
    pub fn and(&self, others: &Secrets) -> Secrets {
        Secrets::of(self.needles.iter().chain(others.needles.iter()).cloned().collect())
    }

    /// These but for words that only stand for a key. For what is read back and gone on with: a text that says such a word has
    /// to stay as it is.
    #[must_use]
    pub fn without_words(&self) -> Secrets {
        Secrets::of(self.needles.iter().filter(|needle| !is_word(needle)).cloned().collect())
    }

    /// `text` with every secret replaced.
    pub fn hide<'t>(&self, text: &'t str) -> Cow<'t, str> {
        let mut text = Cow::Borrowed(text);
        for needle in self.needles.iter() {
            if text.contains(needle.as_str()) {
                text = Cow::Owned(text.replace(needle.as_str(), HIDDEN));
            }
        }
        text
    }

    /// The same in every string and key of a JSON value. Better than searching written JSON, where a key
    /// that reads like a number or a word of the format would break the whole.
    pub fn hide_in(&self, value: &mut Value) {
        match value {
            Value::String(text) => {
                if let Cow::Owned(hidden) = self.hide(text) {
                    *text = hidden;
                }
            }
            Value::Array(items) => items.iter_mut().for_each(|item| self.hide_in(item)),
            Value::Object(members) => {
                members.values_mut().for_each(|member| self.hide_in(member));
                if members.keys().any(|name| matches!(self.hide(name), Cow::Owned(_))) {
                    let named = std::mem::take(members).into_iter();
                    *members = named.map(|(name, member)| (self.hide(&name).into_owned(), member)).collect();
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }

    /// The texts to look for, longest first, for those who replace them in a way of their own.
    pub fn needles(&self) -> impl Iterator<Item = &str> {
        self.needles.iter().map(String::as_str)
    }
}

fn is_word(value: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_lowercase() || matches!(c, '-' | '_' | '.' | ' ');
    let is_called_a_key = CALLED_A_KEY.iter().any(|part| value.contains(part));
    value.len() <= LONGEST_WORD && value.chars().all(is_plain) && !is_called_a_key
}

impl fmt::Debug for Secrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(HIDDEN)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn secrets(values: &[&str]) -> Secrets {
        values.iter().map(|value| Secret::new(*value)).collect()
    }

    #[test]
    fn a_secret_never_prints() {
        let secret = Secret::new("sk-very-secret");
        assert_eq!(format!("{secret} {secret:?}"), "*** ***");
        assert_eq!(format!("{:?}", secrets(&["sk-very-secret"])), "***");
        assert_eq!(secrets(&["Bearer sk-very-secret"]).hide("key sk-very-secret!"), "key ***!");
        assert_eq!(secrets(&["none"]).hide("none of it"), "none of it");
    }

    #[test]
    fn a_word_that_stands_for_a_key_can_stay() {
        for word in ["lm-studio", "ollama", "release", "not-needed"] {
            assert_eq!(secrets(&[word]).without_words().hide(word), word);
            assert_eq!(secrets(&[word]).hide(word), "***");
        }
        for key in ["lm-studio-1", "Password", "password", "sk-test", "test-key", "correct-horse-battery"] {
            assert_eq!(secrets(&[key]).without_words().hide(key), "***");
        }
    }

    #[test]
    fn of_two_secrets_the_longer_one_is_hidden_first() {
        assert_eq!(secrets(&["sk-abc", "sk-abcdef"]).hide("sk-abcdef sk-abc"), "*** ***");
        let both = secrets(&["sk-abc"]).and(&secrets(&["sk-abcdef"]));
        assert_eq!(both.hide("sk-abcdef sk-abc"), "*** ***");
    }

    #[test]
    fn values_are_hidden_in_strings_and_keys_and_numbers_stay() {
        let mut value = json!({ "a": ["123456 x"], "123456": 123456, "n": "{\"k\":\"a\\\"b/c\\\"d\"}" });
        secrets(&["123456", "a\"b/c\"d"]).hide_in(&mut value);
        assert_eq!(value, json!({ "a": ["*** x"], "***": 123456, "n": "{\"k\":\"***\"}" }));
    }
}

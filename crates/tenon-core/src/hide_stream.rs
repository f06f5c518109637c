//! Keys kept out of text that comes in pieces: a key may begin in one and end in another.

use crate::Secrets;
use crate::secret::HIDDEN;

/// Replaces secrets in a stream of text. What may be the beginning of one is held back until it is known to be none.
#[derive(Clone, Debug, Default)]
pub struct HidingStream {
    secrets: Secrets,
    held: String,
}

impl HidingStream {
    pub fn new(secrets: Secrets) -> HidingStream {
        HidingStream { secrets, held: String::new() }
    }

    /// What can be passed on now.
    pub fn push(&mut self, text: &str) -> String {
        self.held.push_str(text);
        let text = std::mem::take(&mut self.held);
        let (mut rest, mut passed) = (text.as_str(), String::with_capacity(text.len()));
        while let Some(at) = rest.find(|c| self.secrets.needles().any(|needle| needle.starts_with(c))) {
            passed.push_str(&rest[..at]);
            rest = &rest[at..];
            let is_longer = |needle: &str| needle.len() > rest.len() && needle.starts_with(rest);
            if self.secrets.needles().any(is_longer) {
                self.held = rest.to_owned();
                return passed;
            }
            // The longest come first.
            let secret = self.secrets.needles().find(|needle| rest.starts_with(needle));
            let first = rest.chars().next().map_or(0, char::len_utf8);
            passed.push_str(if secret.is_some() { HIDDEN } else { &rest[..first] });
            rest = &rest[secret.map_or(first, str::len)..];
        }
        passed.push_str(rest);
        passed
    }

    /// What was held back, when no more will come.
    pub fn finish(&mut self) -> String {
        self.secrets.hide(&std::mem::take(&mut self.held)).into_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Secret;

    #[test]
    fn wherever_a_key_is_cut_it_is_hidden_and_nothing_else_is_lost() {
        let secrets: Secrets = ["sk-12345678", "sk-1234-abcd", "sk-12345678-longer", "abababab"]
            .map(Secret::new)
            .into_iter()
            .collect();
        let text =
            "ä sk-12345678 b sk-1234-abcd c sk-12345678-longer ababababab sk-123 sk-sk-12345678 sk-1234";
        let whole = secrets.hide(text).into_owned();
        assert!(!whole.contains("sk-12345678") && whole.ends_with("sk-1234"), "{whole}");
        for cut in (0..=text.len()).filter(|at| text.is_char_boundary(*at)) {
            let mut stream = HidingStream::new(secrets.clone());
            let mut passed = stream.push(&text[..cut]);
            passed.push_str(&stream.push(&text[cut..]));
            passed.push_str(&stream.finish());
            assert_eq!(passed, whole, "cut at {cut}");
        }
        let mut stream = HidingStream::new(secrets.clone());
        let mut passed: String = text.chars().map(|c| stream.push(&c.to_string())).collect();
        passed.push_str(&stream.finish());
        assert_eq!(passed, whole);
    }
}

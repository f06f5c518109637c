//! Cuts text into the words that a tokenizer looks at one by one: what the regular expressions of the model
//! families say, as loops (they look ahead, which the linear engines do not).
//!
//! Which tokens make up a word is `tokenizer.rs`' business.

use std::sync::LazyLock;

/// How a family cuts text, by the name in `tokenizer.ggml.pre`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cut {
    /// `'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+`
    Gpt2,
    /// Every digit by itself, then as [`Cut::Gpt2`] what is between them.
    SmolLm,
    /// `(?i:'s|…)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,n}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`
    Modern { digits: usize },
}

impl Cut {
    pub(crate) fn parse(name: &str) -> Option<Cut> {
        Some(match name {
            "gpt-2" | "gpt2" | "default" => Cut::Gpt2,
            "smollm" => Cut::SmolLm,
            "qwen2" | "deepseek-r1-qwen" => Cut::Modern { digits: 1 },
            "llama-bpe" | "llama3" | "llama-v3" | "smaug-bpe" => Cut::Modern { digits: 3 },
            _ => return None,
        })
    }

    /// The words of `text`; together they are the text.
    pub(crate) fn words<'a>(self, text: &'a str, mut word: impl FnMut(&'a str)) {
        match self {
            Cut::Gpt2 => cut(text, gpt2_word, &mut word),
            Cut::Modern { digits } => cut(text, |rest| modern_word(rest, digits), &mut word),
            Cut::SmolLm => {
                let mut start = 0;
                for (at, c) in text.char_indices().filter(|(_, c)| c.is_numeric()) {
                    cut(&text[start..at], gpt2_word, &mut word);
                    start = at + c.len_utf8();
                    word(&text[at..start]);
                }
                cut(&text[start..], gpt2_word, &mut word);
            }
        }
    }
}

fn cut<'a>(mut rest: &'a str, length: impl Fn(&str) -> usize, word: &mut impl FnMut(&'a str)) {
    while !rest.is_empty() {
        let (first, others) = rest.split_at(length(rest));
        word(first);
        rest = others;
    }
}

/// The length of the first word in bytes; never 0.
fn gpt2_word(text: &str) -> usize {
    for ending in ["'s", "'t", "'re", "'ve", "'m", "'ll", "'d"] {
        if text.starts_with(ending) {
            return ending.len();
        }
    }
    let space = usize::from(text.starts_with(' '));
    let after = &text[space..];
    for class in [is_letter, char::is_numeric, is_other] {
        let run = run(after, class);
        if run > 0 {
            return space + run;
        }
    }
    space_run(text)
}

fn modern_word(text: &str, digits: usize) -> usize {
    for ending in ["'s", "'t", "'re", "'ve", "'m", "'ll", "'d"] {
        if text.get(..ending.len()).is_some_and(|start| start.eq_ignore_ascii_case(ending)) {
            return ending.len();
        }
    }
    let first = text.chars().next().unwrap_or_default();
    let letters = run(text, is_letter);
    if letters > 0 {
        return letters;
    }
    if first.is_numeric() {
        return text.chars().take(digits).take_while(|c| c.is_numeric()).map(char::len_utf8).sum();
    }
    if !matches!(first, '\r' | '\n') {
        let letters = run(&text[first.len_utf8()..], is_letter);
        if letters > 0 {
            return first.len_utf8() + letters;
        }
    }
    let space = usize::from(first == ' ');
    let others = run(&text[space..], is_other);
    if others > 0 {
        return space + others + run(&text[space + others..], |c| matches!(c, '\r' | '\n'));
    }
    let spaces = &text[..run(text, char::is_whitespace)];
    match spaces.rfind(['\r', '\n']) {
        Some(line_end) => line_end + 1,
        None => space_run(text),
    }
}

/// White space up to the end, or all but the last of it: that one belongs to the next word.
fn space_run(text: &str) -> usize {
    let spaces = run(text, char::is_whitespace);
    let last = text[..spaces].chars().next_back().map_or(1, char::len_utf8);
    if spaces == text.len() || spaces == last { spaces.max(last) } else { spaces - last }
}

fn run(text: &str, class: impl Fn(char) -> bool) -> usize {
    text.find(|c| !class(c)).unwrap_or(text.len())
}

fn is_other(c: char) -> bool {
    !c.is_whitespace() && !c.is_numeric() && !is_letter(c)
}

/// `\p{L}`, which is narrower than what the standard library calls alphabetic.
fn is_letter(c: char) -> bool {
    static RANGES: LazyLock<Vec<(char, char)>> = LazyLock::new(|| {
        let parsed = regex_syntax::Parser::new().parse(r"\p{L}");
        let class = parsed.map(regex_syntax::hir::Hir::into_kind);
        match class {
            Ok(regex_syntax::hir::HirKind::Class(regex_syntax::hir::Class::Unicode(class))) => {
                class.ranges().iter().map(|range| (range.start(), range.end())).collect()
            }
            // A test sees that it is a class.
            _ => Vec::new(),
        }
    });
    if c.is_ascii() {
        return c.is_ascii_alphabetic();
    }
    let after = RANGES.partition_point(|(start, _)| *start <= c);
    after > 0 && c <= RANGES[after - 1].1
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(cut: Cut, text: &str) -> Vec<String> {
        let mut words = Vec::new();
        cut.words(text, |word| words.push(word.to_owned()));
        assert_eq!(words.concat(), text);
        words
    }

    #[test]
    fn letters_are_letters() {
        assert!(is_letter('é') && is_letter('中') && is_letter('ß') && is_letter('ª'));
        assert!(!is_letter('Ⅷ') && !is_letter('\u{345}') && !is_letter('5') && !is_letter('😀'));
    }

    /// What the regular expressions themselves give.
    #[test]
    fn each_family_cuts_its_way() {
        let gpt2 = Cut::Gpt2;
        let qwen = Cut::Modern { digits: 1 };
        let llama = Cut::Modern { digits: 3 };
        for (cut, text, expected) in [
            (gpt2, "Hello  world", vec!["Hello", " ", " world"]),
            (gpt2, "it's 123!", vec!["it", "'s", " 123", "!"]),
            (gpt2, "a\n\n b  ", vec!["a", "\n\n", " b", "  "]),
            (gpt2, " 's", vec![" '", "s"]),
            (gpt2, "x\ty", vec!["x", "\t", "y"]),
            (Cut::SmolLm, "ab 12c", vec!["ab", " ", "1", "2", "c"]),
            (Cut::SmolLm, "x  7", vec!["x", "  ", "7"]),
            (Cut::SmolLm, "ⅷ½ a", vec!["ⅷ", "½", " a"]),
            (qwen, "It'S 123 ok", vec!["It", "'S", " ", "1", "2", "3", " ok"]),
            (llama, "12345", vec!["123", "45"]),
            (qwen, "foo(bar)\n\nbaz", vec!["foo", "(bar", ")\n\n", "baz"]),
            (qwen, "a \n b", vec!["a", " \n", " b"]),
            (qwen, "\t\tfoo", vec!["\t", "\tfoo"]),
            (qwen, "a  ", vec!["a", "  "]),
            (qwen, "  !x", vec![" ", " !", "x"]),
            (qwen, "\n \n x", vec!["\n \n", " x"]),
            (qwen, "Müller–Straße", vec!["Müller", "–Straße"]),
        ] {
            assert_eq!(words(cut, text), expected, "{cut:?} {text:?}");
        }
    }
}

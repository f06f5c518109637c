//! Shell rules with a specifier, such as `Bash(rm *)`, judged without reading bash.
//!
//! Commands are not parsed here, so these rules err on the strict side: a command falls under a deny or
//! ask rule if it so much as mentions the rule's program, or if what it runs cannot be told from its
//! text. An allow rule with a specifier never allows anything by itself.

/// Words that run a text as a program.
const RUN_TEXT: &[&str] = &["eval", "source", "sh", "bash", "dash", "zsh", "ksh", "fish"];
/// Characters by which bash makes a word out of something else.
const EXPANSIONS: &[char] = &['$', '`', '*', '?', '[', '{'];

/// How a command relates to a rule's specifier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mention {
    None,
    /// The rule's program is named somewhere in the command.
    Program,
    /// The command's text does not tell what it runs.
    Unknowable,
}

pub(crate) fn mention(command: &str, specifier: &str) -> Mention {
    let command = command.to_ascii_lowercase();
    let plain = without_quotes(&command);
    let Some(program) = program(specifier) else { return Mention::Program };
    if has_word(&command, &program) || has_word(&plain, &program) {
        Mention::Program
    } else if is_unknowable(&command, &plain) {
        Mention::Unknowable
    } else {
        Mention::None
    }
}

/// The base name of the program a specifier is about; `None` if that could be any program.
fn program(specifier: &str) -> Option<String> {
    let word = specifier.split([' ', '\t', ':']).next().unwrap_or_default();
    let name = without_quotes(word.rsplit('/').next().unwrap_or_default()).to_ascii_lowercase();
    let is_plain = !name.is_empty() && !name.contains(EXPANSIONS) && !name.contains('=');
    is_plain.then_some(name)
}

fn is_unknowable(command: &str, plain: &str) -> bool {
    command.contains(EXPANSIONS)
        || ["<(", ">("].iter().any(|substitution| command.contains(substitution))
        || RUN_TEXT.iter().any(|word| has_word(command, word) || has_word(plain, word))
        || plain.split(is_separator).any(|word| word == ".")
}

/// `r"m"` and `r\m` are `rm` to bash.
fn without_quotes(text: &str) -> String {
    text.replace("\\\n", "").chars().filter(|c| !matches!(c, '\'' | '"' | '\\')).collect()
}

fn is_separator(c: char) -> bool {
    c.is_whitespace() || matches!(c, ';' | '&' | '|' | '(' | ')' | '<' | '>')
}

/// Whether `word` stands in `text` with no letter, digit or underscore beside it.
fn has_word(text: &str, word: &str) -> bool {
    let joins = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || c == '_');
    text.match_indices(word).any(|(at, _)| {
        !joins(text[..at].chars().next_back()) && !joins(text[at + word.len()..].chars().next())
    })
}

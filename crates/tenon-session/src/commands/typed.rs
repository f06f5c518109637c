//! Are these words a command? By their first character: `/` with a name, `@` with a path, and `?` where a program
//! types.
//!
//! A path such as `/usr/bin` is no command, for names have no slash; nor is a question such as `?why is this`, for help
//! is asked about one word at most.

use tenon_wire::input::{Command, CommandKind};

use super::at;
use super::builtin;

/// Where words come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TypedIn {
    /// On a command line: `?` may be a pattern of the shell.
    Prompt,
    /// In a client's message.
    StructuredInput,
}

/// `None` for words that are for the model as they stand.
pub fn understand(text: &str, typed_in: TypedIn) -> Option<Command> {
    match text.chars().next()? {
        '/' => slash(&text[1..]),
        '@' => {
            let (path, rest) = at::at_start(text)?;
            Some(Command { kind: CommandKind::At, path: vec![path], args: rest.trim().to_owned() })
        }
        '?' if typed_in == TypedIn::StructuredInput => {
            let mut words = text[1..].split_whitespace();
            let asked = words.next().map(|word| word.trim_start_matches('/'));
            let is_name = asked.is_none_or(is_name);
            (is_name && words.next().is_none()).then(|| Command {
                kind: CommandKind::Help,
                path: asked.map(str::to_owned).into_iter().collect(),
                args: String::new(),
            })
        }
        _ => None,
    }
}

fn slash(rest: &str) -> Option<Command> {
    let end = rest.find(char::is_whitespace).unwrap_or(rest.len());
    let (name, args) = (&rest[..end], rest[end..].trim());
    if !is_name(name) {
        return None;
    }
    let mut path: Vec<String> = name.split(':').map(str::to_owned).collect();
    let mut args = args;
    // `/chat list` and the path `chat`, `list` are the same.
    if let Some(built_in) = builtin::named(name) {
        let word_end = args.find(char::is_whitespace).unwrap_or(args.len());
        if built_in.subcommands.contains(&&args[..word_end]) {
            path.push(args[..word_end].to_owned());
            args = args[word_end..].trim();
        }
    }
    Some(Command { kind: CommandKind::Slash, path, args: args.to_owned() })
}

fn is_name(word: &str) -> bool {
    word.starts_with(|c: char| c.is_ascii_alphanumeric())
        && word.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | ':'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn which_words_are_a_command() {
        let command = |kind, path: &[&str], args: &str| {
            let path = path.iter().map(|part| (*part).to_owned()).collect();
            Some(Command { kind, path, args: args.to_owned() })
        };
        use CommandKind::{At, Help, Slash};
        let table = [
            ("/help", command(Slash, &["help"], "")),
            ("/clear\n", command(Slash, &["clear"], "")),
            ("/chat list", command(Slash, &["chat", "list"], "")),
            ("/chat save  a b", command(Slash, &["chat", "save"], "a b")),
            ("/chat other", command(Slash, &["chat"], "other")),
            ("/git:commit all of it", command(Slash, &["git", "commit"], "all of it")),
            ("/nothing-like-it", command(Slash, &["nothing-like-it"], "")),
            ("@src/main.rs what is it", command(At, &["src/main.rs"], "what is it")),
            ("@\"my notes.md\"", command(At, &["my notes.md"], "")),
            ("?", command(Help, &[], "")),
            ("? chat", command(Help, &["chat"], "")),
            ("?/chat", command(Help, &["chat"], "")),
            ("?why is this so", None),
            ("/usr/bin/env", None),
            ("/", None),
            ("// a comment", None),
            ("/* a comment */", None),
            ("@", None),
            ("@ home", None),
            (" /help", None),
            ("tell me of /help", None),
            ("", None),
        ];
        for (text, wanted) in table {
            assert_eq!(understand(text, TypedIn::StructuredInput), wanted, "{text}");
        }
        assert_eq!(understand("?", TypedIn::Prompt), None);
    }
}

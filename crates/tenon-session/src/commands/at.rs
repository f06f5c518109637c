//! `@path` in what somebody typed: the file, image or folder that it names is put after the words.
//!
//! The words themselves stay as they are. What may be read, and how much of it, is decided in
//! `tenon-tools/src/mention.rs`; here is where such words stand, and how much they may bring along together.

use std::sync::Arc;

use tenon_tools::{Mentioned, Workspace};
use tenon_wire::input::{Command, FileData, InputPart};

use super::{CommandAnswer, Submitted, Submitting};

/// More files than this are a job for the tools.
const MAX_MENTIONS: usize = 20;
/// All of them together: about 50,000 tokens, a quarter of a common context.
const MAX_CHARS: usize = 200_000;
/// What may stand directly before such a word.
const BEFORE: &[char] = &['(', '[', '{', '<', '"', '\''];
/// What people put after a name without meaning a part of it.
const AFTER: &[char] = &['.', ',', ';', ':', '!', '?', ')', ']', '}', '>', '"', '\''];

/// Words with what they name.
#[derive(Clone, Debug, PartialEq)]
pub struct Mentions {
    pub parts: Vec<InputPart>,
    /// What was left as it is, and why.
    pub warnings: Vec<String>,
}

/// The text, and after it what it names. Text that names nothing comes back as it is.
pub async fn expand(workspace: Arc<Workspace>, text: String) -> Mentions {
    if !text.contains('@') {
        return Mentions { parts: vec![InputPart::Text(text)], warnings: Vec::new() };
    }
    let words = text.clone();
    let expanded = tokio::task::spawn_blocking(move || expand_now(&workspace, &text)).await;
    expanded.unwrap_or_else(|_| Mentions {
        parts: vec![InputPart::Text(words)],
        warnings: vec!["the files that are named with `@` could not be read".to_owned()],
    })
}

/// A declared `@path`; the words after it are looked at as well.
pub(super) fn run(command: &Command, workspace: &Arc<Workspace>) -> Submitting {
    let path = command.path.join("/");
    let quoted = if path.contains(char::is_whitespace) { format!("\"{path}\"") } else { path };
    let text = format!("@{quoted} {}", command.args);
    submitting(text.trim_end().to_owned(), workspace)
}

/// Words that a command asks the model, with what they name.
pub(super) fn submitting(text: String, workspace: &Arc<Workspace>) -> Submitting {
    let answer = CommandAnswer::submit(&text);
    let workspace = Arc::clone(workspace);
    Box::pin(async move {
        let Mentions { parts, warnings } = expand(workspace, text).await;
        Submitted { answer, parts, warnings }
    })
}

/// The path at the beginning of a text, and what follows it.
pub(super) fn at_start(text: &str) -> Option<(String, &str)> {
    let rest = text.strip_prefix('@')?;
    let (path, length) = path_at(rest)?;
    Some((path, &rest[length..]))
}

fn expand_now(workspace: &Workspace, text: &str) -> Mentions {
    let mut words = text.to_owned();
    let mut images = Vec::new();
    let mut warnings = Vec::new();
    let mut seen: Vec<String> = Vec::new();
    let mut chars = 0;
    let mut paths = paths_in(text);
    if paths.len() > MAX_MENTIONS {
        warnings.push(format!("only the first {MAX_MENTIONS} paths after `@` are read"));
        paths.truncate(MAX_MENTIONS);
    }
    for path in paths {
        let (name, told, image) = match look(workspace, &path) {
            Mentioned::Missing => {
                warnings.push(format!("`@{path}` names no file here, and is left as it is"));
                continue;
            }
            Mentioned::Refused(why) => {
                warnings.push(format!("`@{path}` is left as it is: {why}"));
                continue;
            }
            Mentioned::File { name, text } => {
                let told =
                    format!("[The file `{name}`:]\n{}\n[End of `{name}`]", text.trim_end_matches('\n'));
                (name, told, None)
            }
            Mentioned::Folder { name, names } => {
                let told = format!("[The folder `{name}`:]\n{}\n[End of `{name}`]", names.trim_end());
                (name, told, None)
            }
            Mentioned::Image { name, media } => {
                let told = format!("[The image `{name}` follows.]");
                (name, told, Some(media))
            }
        };
        // Named twice, perhaps with other punctuation after it.
        if seen.contains(&name) {
            continue;
        }
        seen.push(name);
        chars += told.chars().count();
        if chars > MAX_CHARS {
            let most = MAX_CHARS / 1000;
            warnings.push(format!(
                "`@{path}` is left as it is: the files of one message may have {most},000 characters together"
            ));
            break;
        }
        words.push_str("\n\n");
        words.push_str(&told);
        images.extend(image.map(|media| {
            InputPart::File(FileData::Inline { data: media.data.to_string(), mime: media.mime })
        }));
    }
    let parts = std::iter::once(InputPart::Text(words)).chain(images).collect();
    Mentions { parts, warnings }
}

/// What a path names, without what may be the punctuation after it.
fn look(workspace: &Workspace, path: &str) -> Mentioned {
    let whole = workspace.mention(path);
    if whole != Mentioned::Missing {
        return whole;
    }
    let mut shorter = path;
    while let Some(rest) = shorter.strip_suffix(AFTER).filter(|rest| !rest.is_empty()) {
        shorter = rest;
        match workspace.mention(shorter) {
            Mentioned::Missing => {}
            found => return found,
        }
    }
    whole
}

/// The paths after each `@` that begins a word, as they were typed.
fn paths_in(text: &str) -> Vec<String> {
    let mut paths = Vec::new();
    let mut before: Option<char> = None;
    let mut at = 0;
    while let Some(c) = text[at..].chars().next() {
        let begins = before.is_none_or(|before| before.is_whitespace() || BEFORE.contains(&before));
        at += c.len_utf8();
        before = Some(c);
        if c == '@'
            && begins
            && let Some((path, length)) = path_at(&text[at..])
        {
            paths.push(path);
            at += length;
            before = text[..at].chars().next_back();
        }
    }
    paths
}

/// A path and how many bytes it takes: to the next space that has no backslash, or in quotes or braces.
fn path_at(text: &str) -> Option<(String, usize)> {
    if let Some(quoted) = text.strip_prefix('"') {
        let end = quoted.find('"').filter(|end| *end > 0)?;
        return Some((quoted[..end].to_owned(), end + 2));
    }
    // As files with commands have it.
    if let Some(braced) = text.strip_prefix('{') {
        let end = braced.find('}').filter(|end| !braced[..*end].trim().is_empty())?;
        return Some((braced[..end].trim().to_owned(), end + 2));
    }
    let mut path = String::new();
    let mut length = 0;
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        let is_escape = c == '\\' && chars.peek().is_some_and(|next| *next == ' ');
        match c {
            _ if is_escape => {
                path.push(' ');
                chars.next();
                length += 2;
            }
            c if c.is_whitespace() => break,
            c => {
                path.push(c);
                length += c.len_utf8();
            }
        }
    }
    (!path.is_empty()).then_some((path, length))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_stand_at_the_beginning_of_words() {
        let table: [(&str, &[&str]); 11] = [
            ("fix the bug in @main.py", &["main.py"]),
            ("@a (@b) \"@c\" x@d.e `@f`", &["a", "b)", "c\""]),
            ("@my\\ file.md and @\"an other.md\" end", &["my file.md", "an other.md"]),
            ("see @{src/a b.rs}, @{ c }", &["src/a b.rs", "c"]),
            ("@{} @{open", &[]),
            ("@@a", &["@a"]),
            ("@", &[]),
            ("@ a", &[]),
            ("@\"\" @\"open", &[]),
            ("a@b", &[]),
            ("ä @ö", &["ö"]),
        ];
        for (text, wanted) in table {
            assert_eq!(paths_in(text), wanted, "{text}");
        }
    }
}

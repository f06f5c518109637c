//! Which words of well-known programs are files they read or write, and which are addresses they fetch.
//!
//! Such a word can only make a command stricter: it is checked against `Read(…)`, `Edit(…)` and
//! `WebFetch(…)` rules. A word too many does no harm, so options with values are not told from operands.

use crate::command_parse::{FileAccess, FileUse, How, Part};
use crate::command_word::Word;

const READ: &[&str] = &[
    "cat",
    "tac",
    "head",
    "tail",
    "less",
    "more",
    "nl",
    "od",
    "xxd",
    "hexdump",
    "hd",
    "strings",
    "base64",
    "base32",
    "md5sum",
    "sha1sum",
    "sha224sum",
    "sha256sum",
    "sha384sum",
    "sha512sum",
    "b2sum",
    "cksum",
    "sum",
    "wc",
    "sort",
    "uniq",
    "cut",
    "paste",
    "rev",
    "fold",
    "fmt",
    "pr",
    "expand",
    "unexpand",
    "tr",
    "diff",
    "cmp",
    "comm",
    "join",
    "grep",
    "egrep",
    "fgrep",
    "rg",
    "ag",
    "ack",
    "awk",
    "gawk",
    "mawk",
    "sed",
    "jq",
    "yq",
    "bat",
    "batcat",
    "view",
    "file",
    "readelf",
    "objdump",
    "zcat",
    "zless",
    "zgrep",
    "bzcat",
    "xzcat",
    "gunzip",
    "gzip",
    "iconv",
    "column",
    "csplit",
    "split",
    "shuf",
    "source",
    ".",
    "tar",
    "zip",
    "cpio",
    "xargs",
    "openssl",
    "gpg",
    "curl",
    "wget",
    "scp",
    "rsync",
    "node",
    "python",
    "python3",
    "perl",
    "ruby",
    "bash",
    "sh",
    "install",
    "cp",
    "mv",
    "ln",
    "dd",
    "nano",
    "vi",
    "vim",
    "emacs",
    "ls",
    "stat",
    "find",
    "tree",
    "du",
];
/// Every operand is written.
const WRITE: &[&str] = &[
    "tee", "touch", "truncate", "rm", "rmdir", "mkdir", "unlink", "shred", "chmod", "chown", "chgrp",
    "chattr", "setfacl", "mkfifo", "mknod", "sponge", "patch", "mktemp",
];
/// The last operand, or the one after `-t`, is written.
const COPY: &[&str] = &["cp", "mv", "ln", "install", "rsync", "scp"];
/// They move their sources away.
const MOVE: &[&str] = &["mv"];
const FETCH: &[&str] = &["curl", "wget", "aria2c", "http", "https", "xh", "lynx", "w3m", "links", "axel"];
/// Options whose value is a file to write.
const OUTPUT_OPTIONS: &[&str] = &[
    "-o",
    "--output",
    "-O",
    "--output-document",
    "--output-file",
    "-fprint",
    "-fprintf",
    "-fls",
    "-fprint0",
    "--target-directory",
    "-t",
    "-D",
    "--dump-header",
    "-c",
    "--cookie-jar",
];
/// Programs whose `-o` and its like name a file to write.
const WRITE_BY_OPTION: &[&str] = &[
    "sort", "curl", "wget", "find", "shuf", "git", "gcc", "cc", "cp", "mv", "install", "ln", "jq", "yq",
    "tree", "gpg", "openssl",
];

pub(crate) fn of(program: &str, args: &[Word]) -> Vec<Part> {
    let mut parts = Vec::new();
    let mut add = |access: FileAccess, path: Word| {
        parts.push(Part::File(FileUse { access, path, how: How::Operand }));
    };
    let operands = || args.iter().filter(|word| !word.known().is_some_and(|word| word.starts_with('-')));
    if READ.contains(&program) {
        operands().for_each(|path| add(FileAccess::Read, path.clone()));
        attached_values(args).for_each(|path| add(FileAccess::Read, path));
    }
    if WRITE.contains(&program) || MOVE.contains(&program) || program == "sed" && edits_in_place(args) {
        operands().for_each(|path| add(FileAccess::Write, path.clone()));
    }
    if COPY.contains(&program)
        && let Some(last) = operands().next_back()
    {
        add(FileAccess::Write, last.clone());
        // Into a folder: under the names of the sources.
        let into = target_folder(args).or_else(|| last.known().map(str::to_owned));
        for source in operands().filter_map(Word::known) {
            let name = source.trim_end_matches('/').rsplit('/').next().unwrap_or(source);
            if let Some(folder) = into.as_ref().filter(|folder| *folder != source) {
                add(FileAccess::Write, Word::Known(format!("{}/{name}", folder.trim_end_matches('/'))));
            }
        }
    }
    if WRITE_BY_OPTION.contains(&program) {
        for (option, value) in args.iter().zip(args.iter().skip(1)) {
            if option.known().is_some_and(|option| OUTPUT_OPTIONS.contains(&option)) {
                add(FileAccess::Write, value.clone());
            }
        }
        for word in args.iter().filter_map(Word::known) {
            let long = word
                .split_once('=')
                .filter(|(name, _)| OUTPUT_OPTIONS.contains(name))
                .map(|(_, value)| value);
            let short =
                word.strip_prefix("-o").or_else(|| word.strip_prefix("-O")).filter(|value| !value.is_empty());
            long.into_iter()
                .chain(short)
                .for_each(|value| add(FileAccess::Write, Word::Known(value.to_owned())));
        }
    }
    if program == "dd" {
        for word in args.iter().filter_map(Word::known) {
            if let Some(path) = word.strip_prefix("of=") {
                add(FileAccess::Write, Word::Known(path.to_owned()));
            }
        }
    }
    if FETCH.contains(&program) {
        parts.extend(addresses(args).map(Part::Fetches));
    }
    parts
}

/// `cp -t folder sources…`
fn target_folder(args: &[Word]) -> Option<String> {
    args.iter().zip(args.iter().skip(1).map(Some).chain([None])).find_map(|(word, next)| {
        let word = word.known()?;
        match word.strip_prefix("--target-directory=").or_else(|| word.strip_prefix("-t")) {
            Some("") => next?.known().map(str::to_owned),
            Some(folder) => Some(folder.to_owned()),
            None if word == "--target-directory" => next?.known().map(str::to_owned),
            None => None,
        }
    })
}

fn edits_in_place(args: &[Word]) -> bool {
    args.iter().filter_map(Word::known).any(|word| {
        word.starts_with("--in-place")
            || word.strip_prefix('-').is_some_and(|letters| {
                !letters.starts_with('-')
                    && letters.split(['e', 'f']).next().unwrap_or_default().contains('i')
            })
    })
}

/// `--file=x`, `-fx`, `if=x`, `@x`.
fn attached_values(args: &[Word]) -> impl Iterator<Item = Word> {
    args.iter().filter_map(Word::known).flat_map(|word| {
        let long = word.split_once('=').map(|(_, value)| value);
        let short = word.strip_prefix('-').filter(|rest| !rest.starts_with('-') && rest.len() > 1);
        let short = short.and_then(|rest| rest.get(1..));
        let at = [long, short, Some(word)]
            .into_iter()
            .flatten()
            .find_map(|text| text.split_once('@'))
            .map(|(_, file)| file);
        [long, short, at]
            .into_iter()
            .flatten()
            .filter(|path| !path.is_empty())
            .map(|path| Word::Known(path.to_owned()))
    })
}

/// The hosts that are named, and `None` for each word that may be an address and is not known.
fn addresses(args: &[Word]) -> impl Iterator<Item = Option<String>> {
    args.iter()
        .filter(|word| !word.known().is_some_and(|word| word.starts_with('-')))
        .map(|word| match word {
            Word::Known(text) => host(text),
            Word::Unknown { prefix, .. } if prefix.contains("://") => {
                // The host is known once something follows it.
                let rest = prefix.split_once("://").map_or("", |(_, rest)| rest);
                rest.contains('/').then(|| host(prefix)).flatten()
            }
            Word::Glob(pattern) => host(&pattern.replace('\\', "")),
            Word::Unknown { .. } => None,
        })
        .map(|host| host.filter(|host| !host.is_empty()))
}

/// The host of an address, with or without a scheme.
pub(crate) fn host(address: &str) -> Option<String> {
    let rest = address.split_once("://").map_or(address, |(_, rest)| rest);
    let authority = rest.split(['/', '?', '#', '\\']).next().unwrap_or(rest);
    let authority = authority.rsplit('@').next().unwrap_or(authority);
    let host = match authority.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or(rest),
        None => authority.split(':').next().unwrap_or(authority),
    };
    let host = host.trim_end_matches('.').to_ascii_lowercase();
    (!host.is_empty()).then_some(host)
}

//! How the words of a wrapper (`nice -n 5 make`) are told from those of the command it runs: one row for each, and
//! how a row is read. What each wrapper runs is in `wrappers.rs`.

use crate::command_parse::Role;
use crate::command_word::{Count, Word};

/// How a wrapper's own words look.
pub(crate) struct Row {
    pub name: &'static str,
    /// Short options that take no value.
    pub flags: &'static str,
    /// Short options with a value, here or in the next word.
    pub values: &'static str,
    pub long_flags: &'static [&'static str],
    pub long_values: &'static [&'static str],
    /// Words of its own after the options.
    pub operands: usize,
    /// Whether `NAME=value` may come before the command.
    pub assigns: bool,
    pub role: Role,
}

pub(crate) const fn row(
    name: &'static str,
    flags: &'static str,
    values: &'static str,
    operands: usize,
) -> Row {
    Row {
        name,
        flags,
        values,
        long_flags: &[],
        long_values: &[],
        operands,
        assigns: false,
        role: Role::PassesOn,
    }
}

const ROWS: &[Row] = &[
    Row {
        long_flags: &["ignore-environment", "null", "debug"],
        long_values: &["unset", "chdir", "argv0"],
        assigns: true,
        ..row("env", "i0v", "uCa", 0)
    },
    Row {
        long_flags: &[
            "non-interactive",
            "preserve-env",
            "set-home",
            "reset-timestamp",
            "stdin",
            "background",
            "askpass",
            "bell",
        ],
        long_values: &[
            "user",
            "group",
            "host",
            "prompt",
            "close-from",
            "chdir",
            "role",
            "type",
            "command-timeout",
            "other-user",
            "chroot",
        ],
        assigns: true,
        role: Role::Plain,
        ..row("sudo", "nEHkSbABP", "ughpCDrtTUR", 0)
    },
    Row { role: Role::Plain, ..row("doas", "nsL", "uCa", 0) },
    Row { long_values: &["adjustment"], ..row("nice", "0123456789", "n", 0) },
    row("nohup", "", "", 0),
    Row {
        long_flags: &["foreground", "preserve-status", "verbose"],
        long_values: &["kill-after", "signal"],
        ..row("timeout", "vfp", "ks", 1)
    },
    Row {
        long_flags: &["portability", "verbose", "append", "quiet"],
        long_values: &["format"],
        ..row("time", "pvaq", "f", 0)
    },
    Row { long_values: &["input", "output", "error"], ..row("stdbuf", "", "ioe", 0) },
    Row { long_flags: &["ctty", "fork", "wait"], ..row("setsid", "cfw", "", 0) },
    Row { long_values: &["class", "classdata"], long_flags: &["ignore"], ..row("ionice", "t", "cn", 0) },
    row("chrt", "bfiorR", "TPD", 1),
    row("taskset", "ac", "", 1),
    Row {
        long_flags: &["skip-chdir"],
        long_values: &["userspec", "groups"],
        role: Role::Plain,
        ..row("chroot", "", "", 1)
    },
    row("builtin", "", "", 0),
    row("exec", "cl", "a", 0),
    Row {
        long_flags: &["null", "no-run-if-empty", "verbose", "interactive", "exit", "open-tty", "show-limits"],
        long_values: &[
            "arg-file",
            "delimiter",
            "eof",
            "replace",
            "max-lines",
            "max-args",
            "max-procs",
            "max-chars",
            "process-slot-var",
        ],
        role: Role::Plain,
        ..row("xargs", "0rtpxo", "adEILnPs", 0)
    },
    row("entr", "acdnprsxz", "", 0),
];

/// A wrapper's own words, read.
pub(crate) struct Own {
    /// Options with their values, as far as a caller asks for them.
    pub values: Vec<(String, Word)>,
    pub assignments: Vec<String>,
    /// Where the command starts.
    pub at: usize,
}

impl Row {
    pub fn own(&self, args: &[Word]) -> Result<Own, String> {
        let unclear =
            |word: &Word| format!("`{}` has the option `{}`, which is not plain", self.name, word.prefix());
        let mut own = Own { values: Vec::new(), assignments: Vec::new(), at: 0 };
        let mut operands = self.operands;
        let mut options_are_over = false;
        while let Some(word) = args.get(own.at) {
            let Some(text) = word.known() else {
                if !options_are_over && word.may_be_option() {
                    return Err(unclear(word));
                }
                let is_one = matches!(word, Word::Unknown { count: Count::One, .. });
                match word.prefix().split_once('=') {
                    Some((name, _)) if self.assigns && is_one => own.assignments.push(name.to_owned()),
                    _ if operands > 0 && is_one => operands -= 1,
                    // As a command's name it is refused by whoever reads it.
                    _ => break,
                }
                own.at += 1;
                continue;
            };
            if !options_are_over && text == "--" {
                options_are_over = true;
                own.at += 1;
            } else if !options_are_over && text.starts_with("--") {
                let (name, value) =
                    text[2..].split_once('=').map_or((&text[2..], None), |(n, v)| (n, Some(v)));
                own.at += 1;
                if self.long_flags.contains(&name) {
                    continue;
                }
                if !self.long_values.contains(&name) {
                    return Err(unclear(word));
                }
                let value = match value {
                    Some(value) => Word::Known(value.to_owned()),
                    None => {
                        args.get(own.at).cloned().ok_or_else(|| unclear(word)).inspect(|_| own.at += 1)?
                    }
                };
                own.values.push((name.to_owned(), value));
            } else if !options_are_over && text.len() > 1 && text.starts_with('-') {
                own.at += 1;
                let letters = &text[1..];
                let takes_value = letters.char_indices().find(|(_, letter)| !self.flags.contains(*letter));
                if let Some((at, letter)) = takes_value {
                    if !self.values.contains(letter) {
                        return Err(unclear(word));
                    }
                    let rest = &letters[at + letter.len_utf8()..];
                    let value = if rest.is_empty() {
                        let value = args.get(own.at).cloned().ok_or_else(|| unclear(word))?;
                        own.at += 1;
                        value
                    } else {
                        Word::Known(rest.to_owned())
                    };
                    if matches!(value, Word::Unknown { count: Count::Any, .. } | Word::Glob(_)) {
                        return Err(unclear(word));
                    }
                    own.values.push((letter.to_string(), value));
                }
            } else if let Some((name, _)) = text.split_once('=').filter(|_| self.assigns) {
                own.assignments.push(name.to_owned());
                own.at += 1;
                options_are_over = true;
            } else if operands > 0 {
                operands -= 1;
                own.at += 1;
                options_are_over = true;
            } else {
                break;
            }
        }
        Ok(own)
    }
}

pub(crate) fn table(name: &str) -> Option<&'static Row> {
    ROWS.iter().find(|row| row.name == name)
}

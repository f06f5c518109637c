//! Programs that run other programs: `env`, `sudo`, `xargs`, `find -exec`, `bash -c` and their like.
//!
//! Each row says how the wrapper's own words are told from those of the command it runs. A word that does
//! not fit leaves the command unknowable: guessing where it starts would be guessing what runs.

use crate::bash_builtins as builtins;
use crate::command_parse::Role;
use crate::command_word::{Count, Word};
use crate::wrapper_words::{Row, row, table};

/// What a program runs besides itself.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Reach {
    pub commands: Vec<Vec<Word>>,
    /// Texts run by a shell.
    pub scripts: Vec<Script>,
    /// A file that a shell was told to run, with its arguments.
    pub file: Option<Vec<Word>>,
    pub unknowable: Option<String>,
    pub assignments: Vec<String>,
    pub role: Role,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Script {
    pub text: Word,
    pub shell: Shell,
}

/// Who reads a script. To shells that are not bash, `[[ a && b ]]` and `((a))` run `b` and `a`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shell {
    Bash,
    Other,
}

/// Programs that read commands from a file, a terminal or another machine, or run them where and how the
/// line does not show.
const UNKNOWABLE: &[&str] = &[
    "ssh",
    "mosh",
    "rsh",
    "parallel",
    "strace",
    "ltrace",
    "gdb",
    "lldb",
    "valgrind",
    "perf",
    "unshare",
    "nsenter",
    "systemd-run",
    "firejail",
    "bwrap",
    "proot",
    "fakeroot",
    "fakechroot",
    "runuser",
    "pkexec",
    "setpriv",
    "capsh",
    "unbuffer",
    "expect",
    "rlwrap",
    "faketime",
    "cgexec",
    "prlimit",
    "numactl",
    "dbus-run-session",
    "dbus-launch",
    "xvfb-run",
    "at",
    "batch",
    "crontab",
    "screen",
    "tmux",
    "byobu",
    "daemonize",
    "start-stop-daemon",
    "runcon",
    "run0",
    "machinectl",
    "uidmap",
    "newgrp",
    "sg",
    "coreutils",
    "catchsegv",
    "choom",
    "uclampset",
    "eatmydata",
    "torsocks",
    "tsocks",
    "proxychains",
    "proxychains4",
    "linux32",
    "linux64",
    "setarch",
    "i386",
    "x86_64",
    "qemu-x86_64",
    "qemu-aarch64",
    "hyperfine",
    "tini",
    "dumb-init",
    "gosu",
    "su-exec",
    "socat",
    "nc",
    "ncat",
    "netcat",
    "telnet",
    "op",
    "direnv",
    "nix-shell",
    "guix",
    "flatpak-spawn",
    "distrobox-enter",
    "toolbox",
    "chpst",
    "softlimit",
    "setuidgid",
    "envdir",
    "envuidgid",
    "s6-setuidgid",
    "execlineb",
];
const SHELLS: &[&str] = &["sh", "bash", "dash", "ash", "ksh", "mksh", "rbash", "yash"];
/// Shells with a language of their own.
const FOREIGN_SHELLS: &[&str] = &["zsh", "fish", "csh", "tcsh", "pwsh", "nu", "elvish", "xonsh", "rc", "es"];
/// They are many programs in one; the first word says which.
const MANY_IN_ONE: &[&str] = &["busybox", "toybox"];

/// What `program` runs, if it runs anything. `has_input` tells whether a text is put on its stdin.
pub(crate) fn reach(program: &str, args: &[Word], has_input: bool) -> Reach {
    if program.starts_with("ld-linux")
        || program.starts_with("ld-musl")
        || program == "ld.so"
        || UNKNOWABLE.contains(&program)
    {
        return Reach::unknowable(format!("what `{program}` runs is not plain"));
    }
    if SHELLS.contains(&program) {
        return shell(program, args, has_input);
    }
    if FOREIGN_SHELLS.contains(&program) {
        return match args {
            [Word::Known(file)] if !has_input && !file.starts_with('-') && !is_stream(file) => {
                Reach::file(args)
            }
            _ => Reach::unknowable(format!("what `{program}` runs is not plain")),
        };
    }
    if MANY_IN_ONE.contains(&program) {
        return match args.first() {
            None => Reach::nothing(Role::Plain),
            Some(Word::Known(option)) if option.starts_with('-') => Reach::nothing(Role::Plain),
            Some(_) => Reach::command(args.to_vec(), Role::Plain),
        };
    }
    match program {
        "command" => command(args),
        "find" => find(args),
        "su" => su(args),
        "flock" => flock(args),
        "script" => script(args),
        "watch" => watch(args),
        "env" => env(args),
        "xargs" => xargs(args),
        _ => table(program).map_or_else(
            || Reach::nothing(builtins::role(program)),
            |row| {
                reach_of(row, args).unwrap_or_else(|why| Reach { role: row.role, ..Reach::unknowable(why) })
            },
        ),
    }
}

impl Reach {
    fn nothing(role: Role) -> Reach {
        Reach {
            commands: Vec::new(),
            file: None,
            scripts: Vec::new(),
            unknowable: None,
            assignments: Vec::new(),
            role,
        }
    }

    fn unknowable(why: String) -> Reach {
        Reach { unknowable: Some(why), ..Reach::nothing(Role::Plain) }
    }

    fn file(words: &[Word]) -> Reach {
        Reach { file: Some(words.to_vec()), ..Reach::nothing(Role::Plain) }
    }

    fn command(words: Vec<Word>, role: Role) -> Reach {
        Reach { commands: vec![words], ..Reach::nothing(role) }
    }

    fn script(text: Word, shell: Shell) -> Reach {
        Reach { scripts: vec![Script { text, shell }], ..Reach::nothing(Role::Plain) }
    }
}

fn reach_of(row: &Row, args: &[Word]) -> Result<Reach, String> {
    let own = row.own(args)?;
    let assignments = own.assignments;
    Ok(match args.get(own.at..) {
        None | Some([]) => Reach { assignments, ..Reach::nothing(row.role) },
        Some(command) => Reach { assignments, ..Reach::command(command.to_vec(), row.role) },
    })
}

/// `env -S` splits its text by rules of its own; only a text without special characters is the same to all.
fn env(args: &[Word]) -> Reach {
    let split = args.iter().enumerate().find_map(|(at, word)| {
        let text = word.known()?;
        let attached = text.strip_prefix("--split-string=").or_else(|| {
            let letters = text.strip_prefix('-').filter(|rest| !rest.starts_with('-'))?;
            letters.trim_start_matches(['i', '0', 'v']).strip_prefix('S')
        });
        match attached {
            Some("") => Some((at, args.get(at + 1)?.known()?.to_owned(), at + 2)),
            Some(text) => Some((at, text.to_owned(), at + 1)),
            None if text == "--split-string" => Some((at, args.get(at + 1)?.known()?.to_owned(), at + 2)),
            None => None,
        }
    });
    let Some(row) = table("env") else { return Reach::unknowable("`env` is not plain".to_owned()) };
    let words = match split {
        None => args.to_vec(),
        Some((at, text, next)) => {
            if text.contains(['\\', '$', '\'', '"', '#']) {
                return Reach::unknowable("`env -S` splits a text that is not plain".to_owned());
            }
            let parts = text.split_whitespace().map(|part| Word::Known(part.to_owned()));
            args[..at]
                .iter()
                .cloned()
                .chain(parts)
                .chain(args[next.min(args.len())..].iter().cloned())
                .collect()
        }
    };
    reach_of(row, &words).unwrap_or_else(Reach::unknowable)
}

/// `command -v name` only asks.
fn command(args: &[Word]) -> Reach {
    let asks = args
        .iter()
        .take_while(|word| word.known().is_some_and(|word| word.starts_with('-')))
        .any(|word| word.known().is_some_and(|word| word.contains(['v', 'V'])));
    if asks {
        return Reach::nothing(Role::Harmless);
    }
    reach_of(&row("command", "p", "", 0), args).unwrap_or_else(Reach::unknowable)
}

/// What `xargs` reads is appended, or put where the pattern stands.
fn xargs(args: &[Word]) -> Reach {
    // The old spellings `-i`, `-l` and `-e` take a value only if it is attached.
    let old = |word: &Word| {
        word.known()
            .is_some_and(|word| word.starts_with("-i") || word.starts_with("-l") || word.starts_with("-e"))
    };
    if args.iter().take_while(|word| word.prefix().starts_with('-')).any(old) {
        return Reach::unknowable("`xargs` has an option that is not plain".to_owned());
    }
    let Some(row) = table("xargs") else { return Reach::unknowable("`xargs` is not plain".to_owned()) };
    let own = match row.own(args) {
        Ok(own) => own,
        Err(why) => return Reach::unknowable(why),
    };
    let pattern =
        own.values.iter().rev().find(|(name, _)| name == "I" || name == "replace").map(|(_, value)| value);
    let command = args.get(own.at..).unwrap_or_default();
    if command.is_empty() {
        return Reach::command(vec![Word::Known("echo".to_owned()), Word::anything()], Role::Plain);
    }
    let words = match pattern {
        None => command.iter().cloned().chain([Word::anything()]).collect(),
        Some(Word::Known(pattern)) => replaced(command, pattern),
        Some(_) => return Reach::unknowable("`xargs` replaces a pattern that is not known".to_owned()),
    };
    Reach::command(words, Role::Plain)
}

/// Words with the pattern in them become one word each that nobody knows.
fn replaced(command: &[Word], pattern: &str) -> Vec<Word> {
    let unknown = |text: &str| {
        let prefix = text.split(pattern).next().unwrap_or_default().to_owned();
        Word::Unknown { prefix, count: Count::One }
    };
    command
        .iter()
        .map(|word| match word {
            Word::Known(text) if !pattern.is_empty() && text.contains(pattern) => unknown(text),
            other => other.clone(),
        })
        .collect()
}

fn find(args: &[Word]) -> Reach {
    const RUNS: &[&str] = &["-exec", "-execdir", "-ok", "-okdir"];
    let mut reach = Reach::nothing(Role::Plain);
    let mut at = 0;
    while let Some(word) = args.get(at) {
        at += 1;
        match word.known() {
            Some(action) if RUNS.contains(&action) => {
                let rest = &args[at..];
                let length = rest.iter().position(|word| matches!(word.known(), Some(";" | "+")));
                let Some(length) = length else {
                    return Reach::unknowable("`find` runs a command whose end is not plain".to_owned());
                };
                reach.commands.push(replaced(&rest[..length], "{}"));
                at += length + 1;
            }
            // Deleting is what `rm` does, and a rule about one is meant for both.
            Some("-delete") => reach.commands.push(vec![Word::Known("rm".to_owned()), Word::anything()]),
            Some(_) => {}
            None if word.may_be_option() => {
                reach.unknowable = Some("`find` has a word that may be an action".to_owned());
            }
            None => {}
        }
    }
    reach
}

/// `-c text` runs a text, a file is a script of its own, and without either the text comes from elsewhere.
fn shell(name: &str, args: &[Word], has_input: bool) -> Reach {
    let unclear = || Reach::unknowable(format!("what `{name}` runs is not plain"));
    let mut at = 0;
    let mut is_text = false;
    while let Some(word) = args.get(at) {
        let Some(text) = word.known() else { break };
        match text {
            "--norc" | "--noprofile" | "--posix" => {}
            "-o" | "+o" => {
                if !matches!(
                    args.get(at + 1).and_then(Word::known),
                    Some("pipefail" | "errexit" | "nounset" | "xtrace" | "posix")
                ) {
                    return unclear();
                }
                at += 1;
            }
            "-" | "--" => {
                at += 1;
                break;
            }
            _ if text.starts_with(['-', '+']) && text.len() > 1 => {
                let letters = &text[1..];
                // A cluster such as `-euxc`, or `-euo pipefail`.
                if !letters.chars().all(|letter| "ceuxvnlho".contains(letter)) {
                    return unclear();
                }
                if letters.contains('o') {
                    if args.get(at + 1).and_then(Word::known) != Some("pipefail") {
                        return unclear();
                    }
                    at += 1;
                }
                is_text |= letters.contains('c');
            }
            _ => break,
        }
        at += 1;
    }
    match (args.get(at), is_text) {
        (Some(text), true) => Reach::script(
            text.clone(),
            if name == "bash" || name == "rbash" { Shell::Bash } else { Shell::Other },
        ),
        (None, _) => unclear(),
        // A script on disk. What it holds is the sandbox's business, unless it is what was just put in.
        (Some(Word::Known(file)), false) if !has_input && !is_stream(file) => Reach::file(&args[at..]),
        (Some(_), false) => unclear(),
    }
}

fn is_stream(file: &str) -> bool {
    file.starts_with("/dev/") || file.starts_with("/proc/")
}

fn su(args: &[Word]) -> Reach {
    let text = args.iter().enumerate().find_map(|(at, word)| {
        let word = word.known()?;
        match word.strip_prefix("--command=") {
            Some(text) => Some(Word::Known(text.to_owned())),
            None if word == "-c" || word == "--command" => args.get(at + 1).cloned(),
            None => None,
        }
    });
    let plain = args.iter().all(|word| {
        word.known().is_some_and(|word| !matches!(word, "-s" | "--shell" | "-l" | "-" | "--login"))
    });
    match text {
        Some(text) if plain => Reach::script(text, Shell::Other),
        _ => Reach::unknowable("what `su` runs is not plain".to_owned()),
    }
}

fn flock(args: &[Word]) -> Reach {
    let row = Row {
        long_flags: &["shared", "exclusive", "unlock", "nonblock", "close", "no-fork", "verbose"],
        long_values: &["timeout", "conflict-exit-code"],
        ..row("flock", "sxeunoFv", "wE", 1)
    };
    match row.own(args) {
        Err(why) => Reach::unknowable(why),
        Ok(own) => match args.get(own.at..).unwrap_or_default() {
            [] => Reach::nothing(Role::Plain),
            [Word::Known(option), text] if option == "-c" || option == "--command" => {
                Reach::script(text.clone(), Shell::Other)
            }
            [Word::Known(option), ..] if option.starts_with('-') => {
                Reach::unknowable("what `flock` runs is not plain".to_owned())
            }
            command => Reach::command(command.to_vec(), Role::Plain),
        },
    }
}

fn script(args: &[Word]) -> Reach {
    let text = args.iter().enumerate().find_map(|(at, word)| {
        let word = word.known()?;
        if let Some(text) = word.strip_prefix("--command=") {
            return Some(Word::Known(text.to_owned()));
        }
        let is_command = word == "--command"
            || word
                .strip_prefix('-')
                .is_some_and(|rest| rest.trim_start_matches(['q', 'e', 'f', 'a']) == "c");
        is_command.then(|| args.get(at + 1).cloned()).flatten()
    });
    match text {
        Some(text) => Reach::script(text, Shell::Other),
        None => Reach::unknowable("what `script` runs is not plain".to_owned()),
    }
}

/// `watch` hands its words to `sh -c`, joined by spaces.
fn watch(args: &[Word]) -> Reach {
    let row = Row {
        long_flags: &[
            "beep",
            "color",
            "no-color",
            "differences",
            "errexit",
            "chgexit",
            "precise",
            "no-title",
            "no-rerun",
            "no-wrap",
            "exec",
        ],
        long_values: &["interval", "equexit"],
        ..row("watch", "bcCdegprtwx", "nqs", 0)
    };
    let own = match row.own(args) {
        Ok(own) => own,
        Err(why) => return Reach::unknowable(why),
    };
    let words: Option<Vec<&str>> = args.get(own.at..).unwrap_or_default().iter().map(Word::known).collect();
    match words {
        Some(words) if !words.is_empty() => Reach::script(Word::Known(words.join(" ")), Shell::Other),
        Some(_) => Reach::nothing(Role::Plain),
        None => Reach::unknowable("`watch` runs a text that is not known".to_owned()),
    }
}

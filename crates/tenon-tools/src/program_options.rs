//! Options and subcommands by which a program runs another one, or works on something else than the folder
//! it was started in. An allow rule for the program does not cover them unless it names them.
//!
//! One row per program; a program without a row does what its rule's author knows it to do.

use crate::command_word::{Count, Word};

/// A word that a rule has to name before it allows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Hazard {
    /// As it would stand in a rule.
    pub word: String,
    pub kind: HazardKind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HazardKind {
    /// It makes the program run another one.
    Runs,
    /// It makes the program obey files that lie elsewhere.
    Elsewhere,
    /// A word that is not known yet could be one of the above.
    Unknown,
}

struct Row {
    program: &'static str,
    /// Long options without their dashes; also matched by their abbreviations.
    runs: &'static [&'static str],
    /// Short options.
    runs_short: &'static str,
    /// First operands.
    subcommands: &'static [&'static str],
    elsewhere: &'static [&'static str],
    elsewhere_short: &'static str,
    /// Options whose value may be anything.
    takes_text: &'static [&'static str],
}

const fn row(program: &'static str, runs: &'static [&'static str], runs_short: &'static str) -> Row {
    Row { program, runs, runs_short, subcommands: &[], elsewhere: &[], elsewhere_short: "", takes_text: &[] }
}

const ROWS: &[Row] = &[
    Row {
        subcommands: &[
            "credential",
            "daemon",
            "difftool",
            "filter-branch",
            "for-each-repo",
            "gui",
            "citool",
            "hook",
            "instaweb",
            "mergetool",
            "p4",
            "quiltimport",
            "remote-ext",
            "remote-fd",
            "send-email",
            "shell",
            "svn",
            "web--browse",
            "cvsserver",
            "cvsimport",
            "cvsexportcommit",
            "archimport",
            "upload-pack",
            "receive-pack",
            "upload-archive",
            "http-backend",
            "credential-store",
            "credential-cache",
            "fsmonitor--daemon",
        ],
        elsewhere: &["git-dir", "work-tree", "separate-git-dir", "reference", "template"],
        elsewhere_short: "",
        takes_text: &["-m", "-am", "--message", "--author", "--date", "--grep"],
        ..row(
            "git",
            &[
                "exec-path",
                "config-env",
                "config",
                "upload-pack",
                "receive-pack",
                "exec",
                "ext-diff",
                "textconv",
                "extcmd",
                "open-files-in-pager",
                "smtp-server",
                "sendmail-cmd",
                "to-cmd",
                "cc-cmd",
                "header-cmd",
            ],
            "",
        )
    },
    row("rg", &["pre", "hostname-bin"], ""),
    row("fd", &["exec", "exec-batch"], "xX"),
    row("fdfind", &["exec", "exec-batch"], "xX"),
    row(
        "tar",
        &[
            "checkpoint-action",
            "to-command",
            "use-compress-program",
            "rsh-command",
            "rmt-command",
            "info-script",
            "new-volume-script",
            "checkpoint",
        ],
        "IF",
    ),
    row("bsdtar", &["use-compress-program"], ""),
    row("cpio", &["rsh-command", "rmt-command", "to-command"], "F"),
    row("rsync", &["rsh", "rsync-path", "files-from"], "eM"),
    row("scp", &[], "SoFDJ"),
    row("sftp", &[], "SoFDJb"),
    row("man", &["pager", "html", "config-file", "preprocessor"], "PHCp"),
    row("less", &["lesskey-file", "lesskey-src", "log-file", "tag"], "kKoOtT"),
    row("sort", &["compress-program"], ""),
    row("split", &["filter"], ""),
    row("install", &["strip-program"], ""),
    row("zip", &["unzip-command"], "T"),
    row("wget", &["use-askpass", "execute", "config"], "e"),
    row("curl", &["config", "engine"], "K"),
    Row { elsewhere: &["manifest-path"], elsewhere_short: "C", ..row("cargo", &["config"], "Z") },
    Row {
        elsewhere: &["C", "modfile", "overlay"],
        ..row("go", &["exec", "toolexec", "vettool", "pkgdir"], "")
    },
    Row {
        elsewhere: &["prefix", "userconfig", "globalconfig", "workspace"],
        elsewhere_short: "Cw",
        ..row(
            "npm",
            &["script-shell", "node-options", "shell", "init-module", "git", "viewer", "editor", "browser"],
            "",
        )
    },
    Row {
        elsewhere: &["dir", "prefix", "filter"],
        elsewhere_short: "CF",
        ..row("pnpm", &["script-shell", "node-options", "shell-emulator"], "")
    },
    Row { elsewhere: &["cwd", "use-yarnrc"], ..row("yarn", &["script-shell", "run-yarn"], "") },
    row("gcc", &["wrapper"], "B"),
    row("cc", &["wrapper"], "B"),
    row("g++", &["wrapper"], "B"),
    row("c++", &["wrapper"], "B"),
    Row {
        elsewhere: &["repository", "cwd"],
        elsewhere_short: "R",
        ..row("hg", &["config", "config-file", "debugger"], "")
    },
    row("svn", &["editor-cmd", "diff-cmd", "diff3-cmd", "config-option", "config-dir", "merge-cmd"], ""),
    row("ack", &["pager", "env", "ackrc"], ""),
    row("ag", &["pager"], ""),
    row("bat", &["pager", "diff-context"], ""),
    row("tcpdump", &[], "zw"),
    row("nmap", &["script", "interactive"], ""),
    row("rpm", &["eval", "define", "load", "macros", "pipe"], "ED"),
    row("apt-get", &["option", "config-file"], "oc"),
    row("apt", &["option", "config-file"], "oc"),
    row("make", &["eval", "file", "makefile"], "f"),
    row("vim", &["cmd", "startuptime"], "cSuU"),
    row("vi", &["cmd"], "cSuU"),
    row("nvim", &["cmd", "listen", "headless"], "cSul"),
    row("psql", &["pset", "command", "file"], "cfP"),
    row("sqlite3", &["cmd", "init"], ""),
    row("mysql", &["pager", "execute", "init-command"], "e"),
    row("ctags", &["options", "optlib-dir"], ""),
    row("ip", &["batch"], "b"),
];

/// Words of a configuration (`git -c`) that change no more than how things look or who is named.
const HARMLESS_CONFIG: &[&str] = &[
    "user.name",
    "user.email",
    "core.quotepath",
    "color.ui",
    "init.defaultbranch",
    "core.abbrev",
    "log.showsignature",
];

/// The words of this command that a rule for its program does not cover.
pub(crate) fn hazards(program: &str, args: &[Word]) -> Vec<Hazard> {
    let Some(row) = ROWS.iter().find(|row| row.program == program) else { return Vec::new() };
    let mut found = Vec::new();
    if program == "git" {
        found.extend(git(args));
    }
    let mut text_follows = false;
    let mut options_are_over = false;
    for word in args {
        if std::mem::take(&mut text_follows)
            && !matches!(word, Word::Unknown { count: Count::Any, .. } | Word::Glob(_))
        {
            continue;
        }
        let Some(text) = word.known() else {
            let option = word.prefix();
            // `--message="$x"`: a harmless option with a value.
            let is_value = option.starts_with("--")
                && option.contains('=')
                && matches!(word, Word::Unknown { count: Count::One, .. });
            if is_value {
                found.extend(row.option(option));
            } else if word.may_be_option() && !options_are_over {
                found.push(Hazard { word: "$".to_owned(), kind: HazardKind::Unknown });
            }
            continue;
        };
        if options_are_over {
            continue;
        }
        text_follows = row.takes_text.contains(&text);
        options_are_over = text == "--";
        if program == "less" && text.starts_with('+') || program.contains("vi") && text.starts_with('+') {
            found.push(Hazard { word: text.to_owned(), kind: HazardKind::Runs });
        }
        found.extend(row.option(text));
    }
    if program == "tar"
        && let Some(cluster) = args.first().and_then(Word::known).filter(|word| !word.starts_with('-'))
        && let Some(letter) = cluster.chars().find(|letter| row.runs_short.contains(*letter))
    {
        found.push(Hazard { word: format!("-{letter}"), kind: HazardKind::Runs });
    }
    found
}

impl Row {
    fn option(&self, text: &str) -> Option<Hazard> {
        let hazard = |word: String, kind| Some(Hazard { word, kind });
        if let Some(long) = text.strip_prefix("--").filter(|long| !long.is_empty()) {
            let name = long.split('=').next().unwrap_or(long);
            let is_in = |names: &[&str]| names.iter().any(|known| known.starts_with(name));
            return if is_in(self.runs) {
                hazard(format!("--{name}"), HazardKind::Runs)
            } else if is_in(self.elsewhere) {
                hazard(format!("--{name}"), HazardKind::Elsewhere)
            } else {
                None
            };
        }
        let letters = text.strip_prefix('-').filter(|letters| !letters.is_empty())?;
        // Some programs write long options with one dash (`go -exec`, `gcc -wrapper`).
        let name = letters.split(['=', ',']).next().unwrap_or(letters);
        if name.len() > 1 && self.runs.contains(&name) {
            return hazard(format!("-{name}"), HazardKind::Runs);
        }
        if self.elsewhere.contains(&name) {
            return hazard(format!("-{name}"), HazardKind::Elsewhere);
        }
        let in_cluster = |short: &str| letters.chars().find(|letter| short.contains(*letter));
        if let Some(letter) = in_cluster(self.runs_short) {
            return hazard(format!("-{letter}"), HazardKind::Runs);
        }
        in_cluster(self.elsewhere_short)
            .and_then(|letter| hazard(format!("-{letter}"), HazardKind::Elsewhere))
    }
}

/// What short options of `git` mean depends on the subcommand they belong to.
fn git(args: &[Word]) -> Vec<Hazard> {
    let mut found = Vec::new();
    let runs = |word: &str| Hazard { word: word.to_owned(), kind: HazardKind::Runs };
    let mut rest = args.iter();
    let mut subcommand = None;
    while let Some(word) = rest.next() {
        match word.known() {
            Some("-c") => {
                let setting = rest.next().map_or("", Word::prefix).to_ascii_lowercase();
                let key = setting.split('=').next().unwrap_or_default();
                if !HARMLESS_CONFIG.contains(&key) {
                    found.push(runs("-c"));
                }
            }
            Some("-C") => {
                found.push(Hazard { word: "-C".to_owned(), kind: HazardKind::Elsewhere });
                rest.next();
            }
            Some("--git-dir" | "--work-tree" | "--namespace") => {
                rest.next();
            }
            Some(option) if option.starts_with("-c") => found.push(runs("-c")),
            Some(option) if option.starts_with('-') => {}
            Some(name) => {
                subcommand = Some(name);
                break;
            }
            None => break,
        }
    }
    let Some(subcommand) = subcommand else { return found };
    let is_known = |word: &Word, texts: &[&str]| word.known().is_some_and(|word| texts.contains(&word));
    let reads_config = |word: &Word| {
        word.known().is_some_and(|word| {
            matches!(word, "-l" | "list" | "get") || word.starts_with("--get") || word == "--list"
        })
    };
    let obeys = match subcommand {
        "bisect" => rest.clone().any(|word| is_known(word, &["run"])),
        "submodule" => rest.clone().any(|word| is_known(word, &["foreach"])),
        // What is written there decides what later commands run.
        "config" => !rest.clone().any(reads_config),
        _ => ROWS.first().is_some_and(|row| row.subcommands.contains(&subcommand)),
    };
    if obeys {
        found.push(runs(subcommand));
    }
    let short: &[char] = match subcommand {
        "rebase" => &['x'],
        "clone" => &['u', 'c'],
        "grep" => &['O'],
        _ => &[],
    };
    for word in rest {
        let Some(text) = word.known() else { continue };
        if text.contains("::") && !text.contains("://") {
            found.push(runs(text));
        }
        let letters = text.strip_prefix('-').filter(|letters| !letters.starts_with('-')).unwrap_or_default();
        if let Some(letter) = letters.chars().find(|letter| short.contains(letter)) {
            found.push(runs(&format!("-{letter}")));
        }
    }
    found
}

//! What bash itself does: which of its own commands run texts or set variables, and which variables
//! decide what other commands mean. Tables for `command_parse.rs`.

use crate::command_parse::Role;
use crate::command_word::{Count, Word};

/// Words that open something which has to be closed again.
pub(crate) const OPENERS: &[&str] = &[
    "if", "while", "until", "for", "case", "select", "do", "then", "{", "(", "((", "[[", "!", "coproc",
    "function", "time",
];

/// Commands that run a text, or change what later words mean.
const RUN_TEXTS: &[&str] = &[
    "eval", ".", "source", "trap", "alias", "unalias", "enable", "bind", "complete", "compopt", "compgen",
    "fc", "history", "shopt", "hash", "jobs", "logout", "suspend",
];
const DECLARE: &[&str] = &["declare", "typeset", "local", "export", "readonly"];
/// Commands whose operands name variables.
const NAME_VARIABLES: &[&str] =
    &["read", "mapfile", "readarray", "getopts", "unset", "printf", "wait", "test", "[", "let"];
/// They set variables from what they read.
const SET_UNSEEN: &[&str] = &["read", "mapfile", "readarray", "getopts"];
const CHANGE_FOLDER: &[&str] = &["cd", "pushd", "popd"];
/// Programs and builtins that change nothing, whatever their arguments.
const HARMLESS: &[&str] = &[
    "true", "false", ":", "echo", "printf", "pwd", "test", "[", "exit", "return", "break", "continue",
    "shift", "wait", "sleep", "type", "local", "declare", "typeset", "readonly", "export", "unset", "read",
    "set", "getopts", "let", "umask", "ulimit", "times", "seq", "basename", "dirname",
];

/// Variables that decide which program a word means, or what a program loads before it starts.
const DECIDE: &[&str] = &[
    "PATH",
    "IFS",
    "ENV",
    "SHELLOPTS",
    "BASHOPTS",
    "PROMPT_COMMAND",
    "PS0",
    "PS1",
    "PS2",
    "PS4",
    "CDPATH",
    "SHELL",
    "EDITOR",
    "VISUAL",
    "PAGER",
    "BROWSER",
    "MANPAGER",
    "LESSOPEN",
    "LESSCLOSE",
    "LESS",
    "MANOPT",
    "TAR_OPTIONS",
    "RSYNC_RSH",
    "CVS_RSH",
    "SVN_SSH",
    "SVN_EDITOR",
    "HGEDITOR",
    "FCEDIT",
    "NODE_OPTIONS",
    "NODE_PATH",
    "RUBYOPT",
    "RUBYLIB",
    "JAVA_TOOL_OPTIONS",
    "_JAVA_OPTIONS",
    "JDK_JAVA_OPTIONS",
    "MAKEFLAGS",
    "MAKEFILES",
    "GNUMAKEFLAGS",
    "RUSTC",
    "RUSTC_WRAPPER",
    "RUSTC_WORKSPACE_WRAPPER",
    "RUSTDOC",
    "RUSTFLAGS",
    "RUSTDOCFLAGS",
    "GOFLAGS",
    "GOROOT",
    "CC",
    "CXX",
    "LD",
    "AR",
    "CFLAGS",
    "CXXFLAGS",
    "LDFLAGS",
    "CONFIG_SHELL",
    "RIPGREP_CONFIG_PATH",
    "GREP_OPTIONS",
    "WGETRC",
    "CURL_HOME",
    "ZDOTDIR",
    "HOME",
    "SUDO_ASKPASS",
    "SSH_ASKPASS",
    "HOSTALIASES",
    "TMPDIR",
    "EXECIGNORE",
    "GLOBIGNORE",
    "FIGNORE",
    "OPTERR",
    "COMP_WORDBREAKS",
    "HISTFILE",
    "INPUTRC",
    "TERMINFO",
    "TERMCAP",
    "LOCPATH",
    "NLSPATH",
    "GCONV_PATH",
    "XDG_CONFIG_HOME",
    "XDG_DATA_HOME",
    "XDG_CONFIG_DIRS",
];
const DECIDE_BY_PREFIX: &[&str] = &[
    "LD_",
    "DYLD_",
    "BASH_",
    "GIT_",
    "PYTHON",
    "PERL",
    "npm_config_",
    "NPM_CONFIG_",
    "CARGO_",
    "RUSTUP_",
    "PIP_",
    "UV_",
    "DOCKER_",
    "YARN_",
    "PNPM_",
    "BUN_",
    "DENO_",
    "SSH_",
];

/// Variables that programs read and that change no more than how they print.
const HARMLESS_VARIABLES: &[&str] = &[
    "LANG",
    "LANGUAGE",
    "TZ",
    "CI",
    "NO_COLOR",
    "FORCE_COLOR",
    "CLICOLOR",
    "CLICOLOR_FORCE",
    "COLUMNS",
    "LINES",
    "TERM",
    "NODE_ENV",
    "RUST_BACKTRACE",
    "RUST_LOG",
    "CARGO_TERM_COLOR",
    "PYTHONUNBUFFERED",
    "PYTHONDONTWRITEBYTECODE",
    "PYTHONHASHSEED",
    "PYTHONIOENCODING",
    "DEBUG",
    "VERBOSE",
    "DEBIAN_FRONTEND",
    "GIT_TERMINAL_PROMPT",
    "GIT_OPTIONAL_LOCKS",
    "GIT_AUTHOR_NAME",
    "GIT_AUTHOR_EMAIL",
    "GIT_AUTHOR_DATE",
    "GIT_COMMITTER_NAME",
    "GIT_COMMITTER_EMAIL",
    "GIT_COMMITTER_DATE",
    "GIT_MERGE_AUTOEDIT",
    "SOURCE_DATE_EPOCH",
    "PORT",
];

pub(crate) fn role(name: &str) -> Role {
    if HARMLESS.contains(&name) { Role::Harmless } else { Role::Plain }
}

pub(crate) fn declares(name: &str) -> bool {
    DECLARE.contains(&name)
}

/// Whether a declaration makes variables that programs see.
pub(crate) fn exports(words: &[Word]) -> bool {
    words
        .iter()
        .filter_map(Word::known)
        .any(|word| word == "export" || word.starts_with('-') && word.contains('x'))
}

/// Why it cannot be told what this builtin does, if that is so.
pub(crate) fn unknowable(name: &str, args: &[Word]) -> Option<String> {
    if RUN_TEXTS.contains(&name) {
        return Some(format!("`{name}` runs a text or changes what words mean"));
    }
    let option = |letters: &[char]| {
        args.iter().any(|arg| {
            arg.known().is_some_and(|arg| {
                arg.starts_with(['-', '+']) && !arg.starts_with("--") && arg.contains(letters)
            }) || arg.known().is_none() && arg.may_be_option()
        })
    };
    let refused = match name {
        "set" => args.iter().any(|arg| {
            // `set -euo pipefail` is what careful scripts start with.
            !matches!(
                arg.known(),
                Some(
                    "-e" | "-u"
                        | "-x"
                        | "-o"
                        | "+e"
                        | "+u"
                        | "+x"
                        | "-eu"
                        | "-ex"
                        | "-eux"
                        | "-eo"
                        | "-uo"
                        | "-euo"
                        | "-euxo"
                        | "-xe"
                        | "-exo"
                        | "-ue"
                        | "pipefail"
                        | "--"
                )
            )
        }),
        // `-n` makes a name stand for another, `-i` computes what is assigned, `-f` exports functions.
        _ if declares(name) => option(&['n', 'i', 'f', 'F', 'I']),
        "mapfile" | "readarray" => option(&['C']),
        "command" | "builtin" | "exec" => false,
        _ => false,
    };
    if refused {
        return Some(format!("`{name}` with these options changes what words mean"));
    }
    let subscript = |arg: &Word| arg.prefix().contains('[') && arg.prefix().contains(['$', '`']);
    if (NAME_VARIABLES.contains(&name) || declares(name)) && args.iter().any(subscript) {
        return Some(format!("`{name}` computes a subscript"));
    }
    None
}

/// Whether an operand that is not known may be evaluated as a variable with a subscript.
pub(crate) fn evaluates(name: &str, args: &[Word]) -> bool {
    const COMPARE: &[&str] =
        &["=", "==", "!=", "<", ">", "-eq", "-ne", "-lt", "-le", "-gt", "-ge", "-nt", "-ot", "-ef"];
    if !NAME_VARIABLES.contains(&name) && !declares(name) {
        return false;
    }
    let is_unknown = |arg: &Word| arg.known().is_none();
    let is_many = |arg: &Word| !matches!(arg, Word::Known(_) | Word::Unknown { count: Count::One, .. });
    let is_test = name == "test" || name == "[";
    match args {
        // Quoted, `[ "$x" = y ]` and `[ -n "$x" ]` are what they look like.
        _ if is_test && !args.iter().any(is_many) => {
            let compares = args.iter().any(|arg| arg.known().is_some_and(|arg| COMPARE.contains(&arg)));
            let asks = |arg: &Word| {
                arg.known().is_some_and(|arg| arg.starts_with('-') && !matches!(arg, "-v" | "-R"))
            };
            args.iter().any(is_unknown) && !compares && !args.first().is_some_and(asks)
        }
        [Word::Known(first), ..] if name == "printf" && first != "-v" => false,
        _ => args.iter().any(is_unknown),
    }
}

/// Whether variables get values that nobody sees before.
pub(crate) fn sets_unseen(name: &str, args: &[Word]) -> bool {
    SET_UNSEEN.contains(&name)
        || name == "printf"
            && args.first().is_none_or(|arg| {
                arg.prefix().starts_with("-v") || arg.known().is_none() && arg.may_be_option()
            })
        || declares(name) && args.iter().any(|arg| arg.known().is_none())
}

/// Variables that a builtin sets by name.
pub(crate) fn named_variables(name: &str, args: &[Word]) -> Vec<String> {
    let takes_names =
        SET_UNSEEN.contains(&name) || declares(name) || name == "printf" && sets_unseen(name, args);
    if !takes_names {
        return Vec::new();
    }
    let known = args.iter().filter_map(Word::known);
    let names =
        known.map(|arg| arg.trim_start_matches("-v").split(['=', '[', '+']).next().unwrap_or_default());
    names.filter(|arg| is_name(arg)).map(str::to_owned).collect()
}

pub(crate) fn changes_folder(name: &str) -> bool {
    CHANGE_FOLDER.contains(&name)
}

/// Where `cd` goes, if that is plain.
pub(crate) fn folder(args: &[Word]) -> Option<String> {
    let operands: Vec<&Word> =
        args.iter().filter(|arg| !matches!(arg.known(), Some("-P" | "-L" | "--" | "-e"))).collect();
    match operands.as_slice() {
        [target] => {
            target.known().filter(|path| !path.is_empty() && !path.starts_with(['-', '+'])).map(str::to_owned)
        }
        _ => None,
    }
}

/// Whether a variable decides what commands mean or load.
pub(crate) fn decides_what_runs(name: &str) -> bool {
    if HARMLESS_VARIABLES.contains(&name) {
        return false;
    }
    DECIDE.contains(&name) || DECIDE_BY_PREFIX.iter().any(|prefix| name.starts_with(prefix))
}

/// Whether setting it cannot make a program do something else. A name in small letters that only the shell
/// sees is the line's own.
pub(crate) fn is_harmless_variable(name: &str, is_of_the_shell: bool) -> bool {
    let own = is_of_the_shell && name.chars().any(|c| c.is_ascii_lowercase()) && !name.ends_with("_proxy");
    own || name.starts_with("LC_") || HARMLESS_VARIABLES.contains(&name)
}

fn is_name(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

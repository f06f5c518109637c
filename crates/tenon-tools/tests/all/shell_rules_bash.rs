//! Rules on command lines for lines that nobody wrote down: no wrapping makes a command freer, and bash itself never
//! runs what was denied.

use std::fs;
use std::path::Path;

use proptest::prelude::*;
use tenon_core::ApprovalMode;
use tenon_testkit::cases;
use tenon_tools::Verdict;

use crate::hostile_commands::AGAINST_DENY;
use crate::shell_rules::{ALLOWED, DENIED, Given, decide, letter};

/// Ways to run the same command differently.
const WRAPPERS: &[&str] = &[
    "{}",
    "( {} )",
    "{ {}; }",
    "! {}",
    "time {}",
    "true && {}",
    "false || {}",
    "ls; {}",
    "ls | {}",
    "{} | cat",
    "{} &",
    "{} > /dev/null",
    "if true; then {}; fi",
    "for i in 1; do {}; done",
    "while true; do {}; break; done",
    "case x in x) {};; esac",
    "f() { {}; }; f",
    "echo $( {} )",
    "echo \"$( {} )\"",
    "echo ${x:-$( {} )}",
    "cat <({})",
    "cat <<E\n$( {} )\nE",
    "x=$( {} )",
    "[[ -n $( {} ) ]]",
    "env {}",
    "env -i {}",
    "env A=1 {}",
    "sudo {}",
    "sudo -u root {}",
    "doas {}",
    "nice -n 1 {}",
    "nohup {}",
    "timeout 5 {}",
    "stdbuf -o L {}",
    "setsid {}",
    "ionice -c 3 {}",
    "chroot / {}",
    "command {}",
    "exec {}",
    "xargs {}",
    "xargs -n 1 {}",
    "find . -exec {} \\;",
    "busybox {}",
    "flock f {}",
    "watch {}",
    "LC_ALL=C {}",
    "FOO=1 {}",
];

fn wrapped(wrapper: &str, command: &str) -> String {
    match wrapper {
        "find . -exec {} \\;" => format!("find . -exec {command} \\;"),
        _ => wrapper.replacen("{}", command, 1).replace("{ {}; }", command),
    }
}

/// What lines are made of, for comparing notes with bash.
const PIECES: &[&str] = &[
    "rm",
    "rm",
    "rm x",
    "ls",
    "cat",
    "echo",
    " ",
    " ",
    " ",
    "\n",
    ";",
    "|",
    "||",
    "&&",
    "&",
    "(",
    ")",
    "((",
    "))",
    "( (",
    ") )",
    "{ ",
    "; }",
    "$(",
    "`",
    "\"",
    "'",
    "\\",
    "$'",
    "$\"",
    "${x:-",
    "${x:=",
    "${x/",
    "}",
    "$((",
    "$[",
    "]",
    "[",
    "[[ ",
    " ]]",
    "<(",
    ">(",
    "<<E\n",
    "\nE\n",
    "<<'E'\n",
    "<<-E\n\t",
    "<<<",
    "> f",
    "< f",
    "2>&1",
    "&>f",
    ">&",
    "{fd}>f ",
    "#",
    "# ",
    "!",
    "! ",
    "time ",
    "if ",
    "; then ",
    "; fi",
    "while ",
    "; do ",
    "; done",
    "for i in ",
    "case x in ",
    "x) ",
    ";; ",
    "esac",
    "f() ",
    "f",
    "function f ",
    "coproc ",
    "select ",
    "until ",
    "x=",
    "a[",
    "]=",
    "=(",
    "x=rm",
    "$x",
    "\"$x\"",
    "$@",
    "${!x}",
    "*",
    "?",
    "~",
    "{a,",
    "}",
    "-c ",
    "-exec ",
    "{} ",
    "\\;",
    "+",
    "bash -c ",
    "sh -c ",
    "env ",
    "env -S ",
    "xargs ",
    "nice ",
    "nohup ",
    "timeout 1 ",
    "find . ",
    "command ",
    "exec ",
    "builtin ",
    "eval ",
    ". ",
    "source ",
    "trap ",
    "alias ls=rm",
    "declare ",
    "export ",
    "let ",
    "test ",
    "-v ",
    "X=1 ",
    "\\\n",
    "\t",
    "\r",
    "/dev/stdin",
    "-",
    "--",
    "1",
    "é",
];

/// Spells a word's letters in another way that bash reads as the same.
fn respelled(word: &str, how: u8) -> String {
    match how % 6 {
        0 => word.to_owned(),
        1 => format!("'{word}'"),
        2 => format!("\"{word}\""),
        3 => word.chars().map(|c| format!("\\{c}")).collect(),
        4 => format!("{}''{}", &word[..1], &word[1..]),
        _ => format!("$'{}'", word.bytes().map(|b| format!("\\x{b:02x}")).collect::<String>()),
    }
}

/// From free to strict.
fn strictness(verdict: &Verdict) -> u8 {
    match verdict {
        Verdict::Allow { .. } => 0,
        Verdict::Ask { .. } => 1,
        Verdict::Deny { .. } => 2,
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(cases(256)))]

    #[test]
    fn neither_wrapping_nor_quoting_makes_a_command_freer(
        program in prop::sample::select(vec!["rm", "git", "ls", "curl", "cat", "make"]),
        args in prop::collection::vec(prop::sample::select(vec!["x", "-rf", "push", "status", "-c", "a=b", "$y", "*", "'a b'", "--ext-diff"]), 0..4),
        wrappers in prop::collection::vec(prop::sample::select(WRAPPERS.to_vec()), 0..4),
        how in any::<u8>(),
    ) {
        let plain = format!("{program} {}", args.join(" "));
        let mut hidden = format!("{} {}", respelled(program, how), args.join(" "));
        // A wrapper that takes words gets words only.
        for wrapper in &wrappers {
            let takes_words = !hidden.contains([';', '|', '&', '(', '\n', '!', '>', '<', '{', '}']) && !hidden.starts_with("time ") && !hidden.contains('=');
            let is_find = *wrapper == "find . -exec {} \\;";
            let is_syntax = !is_find
                && (!wrapper.ends_with(" {}")
                    || ["! {}", "time {}"].contains(wrapper)
                    || wrapper.contains([';', '|', '&']));
            if is_syntax || takes_words {
                hidden = wrapped(wrapper, &hidden);
            }
        }
        for given in [
            Given { mode: ApprovalMode::Yolo, deny: DENIED, ..Given::default() },
            Given { mode: ApprovalMode::Yolo, ask: DENIED, ..Given::default() },
            Given { allow: ALLOWED, ..Given::default() },
            Given { allow: ALLOWED, deny: DENIED, ..Given::default() },
        ] {
            let (free, strict) = (decide(given, &plain), decide(given, &hidden));
            prop_assert!(strictness(&strict) >= strictness(&free), "{plain:?} {free:?}\n{hidden:?} {strict:?}");
        }
    }

    /// The parser and bash may read a line differently. Whatever is let through does not run `rm`.
    #[test]
    fn bash_never_runs_what_was_denied(
        pieces in prop::collection::vec(prop::sample::select(PIECES.to_vec()), 1..14)
    ) {
        let line = pieces.concat();
        let deny = Given { mode: ApprovalMode::Yolo, deny: &["Bash(rm:*)"], ..Given::default() };
        let allow = Given { allow: &["Bash(ls:*)", "Bash(cat:*)", "Bash(env:*)", "Bash(xargs:*)", "Bash(sh:*)", "Bash(bash:*)", "Bash(find:*)"], ..Given::default() };
        if line.contains("rm") && (letter(&decide(deny, &line)) == 'y' || letter(&decide(allow, &line)) == 'y') {
            let base = marked_rm();
            prop_assert!(!bash_runs_rm(base.path(), &line), "{line:?}");
        }
    }

    /// The same for hostile lines with a few characters changed.
    #[test]
    fn bash_never_runs_what_was_denied_in_other_words(
        line in prop::sample::select(AGAINST_DENY.to_vec()),
        changes in prop::collection::vec((any::<prop::sample::Index>(), 0_usize..4, prop::sample::select(PIECES.to_vec())), 1..4),
    ) {
        let mut line: Vec<char> = line.chars().collect();
        for (at, removed, piece) in changes {
            let at = at.index(line.len() + 1);
            let end = (at + removed).min(line.len());
            let piece = if removed % 2 == 0 { piece } else { "" };
            line.splice(at..end, piece.chars());
        }
        let line: String = line.into_iter().collect();
        let deny = Given { mode: ApprovalMode::Yolo, deny: &["Bash(rm:*)"], ..Given::default() };
        if line.contains("rm") && !line.contains(['/', '~']) && letter(&decide(deny, &line)) == 'y' {
            let base = marked_rm();
            prop_assert!(!bash_runs_rm(base.path(), &line), "{line:?}");
        }
    }

    #[test]
    fn any_text_is_judged_without_a_panic(text in any::<String>()) {
        let given = Given { mode: ApprovalMode::Yolo, allow: ALLOWED, deny: DENIED, ask: &["Edit(x)"] };
        decide(given, &text);
    }

    #[test]
    fn any_line_of_shell_pieces_is_judged_without_a_panic(
        pieces in prop::collection::vec(prop::sample::select(vec![
            "rm", " ", "x", "$(", ")", "`", "'", "\"", "\\", "$", "{", "}", "${", ":-", "<<E\n", "\nE\n", ";", "|", "&", "&&", ">", "<", "<(", "((", "))", "[[", "]]",
            "if ", "then ", "fi", "for ", "in ", "do ", "done", "case ", "esac", "a=", "=(", "*", "?", "[", "]", "~", "!", "#", "\n", "1", "-c ", "bash ", "env ", "xargs ", "git ", "find ", "-exec ",
        ]), 0..40)
    ) {
        let text = pieces.concat();
        let yolo = Given { mode: ApprovalMode::Yolo, deny: DENIED, ..Given::default() };
        decide(yolo, &text);
    }
}

/// A folder of programs in which `rm` only leaves a mark. Nothing else is in `PATH`.
fn marked_rm() -> tempfile::TempDir {
    let base = tempfile::tempdir().unwrap();
    let bin = base.path().join("bin");
    fs::create_dir_all(base.path().join("work")).unwrap();
    fs::create_dir_all(&bin).unwrap();
    for program in
        ["env", "nice", "nohup", "timeout", "xargs", "find", "sh", "bash", "cat", "ls", "stdbuf", "setsid"]
    {
        let found = ["/bin", "/usr/bin"]
            .iter()
            .map(|folder| Path::new(folder).join(program))
            .find(|path| path.exists());
        found.into_iter().for_each(|path| std::os::unix::fs::symlink(path, bin.join(program)).unwrap());
    }
    let script = format!("#!/bin/sh\necho ran > {}\n", base.path().join("mark").display());
    for name in ["rm", "RM"] {
        fs::write(bin.join(name), &script).unwrap();
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        fs::set_permissions(bin.join(name), mode).unwrap();
    }
    base
}

/// Whether bash, given this line, runs `rm`.
fn bash_runs_rm(base: &Path, line: &str) -> bool {
    let mark = base.join("mark");
    let _ = fs::remove_file(&mark);
    let _ = std::process::Command::new("timeout")
        .args(["-s", "KILL", "5", "bash", "-c", line])
        .current_dir(base.join("work"))
        .env_clear()
        .env("PATH", base.join("bin"))
        .stdin(std::process::Stdio::null())
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null())
        .status();
    mark.exists()
}

#[test]
fn bash_agrees_that_a_denied_program_would_have_run() {
    // The table is no invention: of these bash itself says that they reach `rm`.
    let base = marked_rm();
    let ran =
        AGAINST_DENY.iter().filter(|line| !line.contains(['/', '~']) && bash_runs_rm(base.path(), line));
    assert!(ran.count() > 100);
}

#[test]
fn the_corpus_of_the_fuzz_target_is_judged() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/shell_command");
    let seeds: Vec<_> = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert!(seeds.len() >= 10, "the corpus is missing");
    for seed in seeds {
        let text = String::from_utf8_lossy(&fs::read(&seed).unwrap()).into_owned();
        let free = decide(Given { mode: ApprovalMode::Yolo, deny: DENIED, ..Given::default() }, &text);
        let shut = decide(Given { mode: ApprovalMode::Yolo, deny: &["Bash"], ..Given::default() }, &text);
        assert!(strictness(&shut) >= strictness(&free));
    }
}

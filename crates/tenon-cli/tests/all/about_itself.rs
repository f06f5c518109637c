//! What tenon says about itself: help, version, completions, the manual, the doctor.

use std::collections::BTreeSet;

use tenon_testkit::{Server, Tenon, scrub};

use crate::tenon;

#[test]
fn help_and_version_go_to_stdout() {
    for flag in ["--version", "-V"] {
        let run = tenon().arg(flag).run();
        assert_eq!((run.code, scrub(&run.stdout), run.stderr.as_str()), (0, "tenon <version>\n".into(), ""));
    }
    for args in [&["--help"][..], &["-h"], &["help"], &["schema", "--help"], &["help", "trust"]] {
        let run = tenon().args(args).run();
        assert_eq!((run.code, run.stderr.as_str()), (0, ""), "{run}");
        assert!(run.stdout.contains("Usage: tenon"), "{run}");
    }
    let help = tenon().arg("--help").run().stdout;
    assert!(help.contains("Exit codes:") && help.contains("Examples:"));
    for later in ["--acp", "--worktree", "--insecure"] {
        assert!(!help.contains(later), "`{later}` is offered and would be refused");
    }
}

/// A flag that is offered is a flag that is tested: here, by its name.
#[test]
fn every_flag_of_the_help_has_a_test() {
    let help = tenon().arg("--help").run().stdout;
    let flags: BTreeSet<&str> = help
        .lines()
        .filter(|line| line.trim_start().starts_with('-'))
        .flat_map(str::split_whitespace)
        .filter(|word| word.starts_with("--"))
        .map(|word| word.trim_end_matches([',', ']']).split("[=").next().unwrap_or(word))
        .collect();
    assert!(flags.len() > 40, "{flags:?}");
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/all");
    let files = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let files = files.filter(|path| path.is_file());
    let tests: String = files.map(|file| std::fs::read_to_string(file).unwrap()).collect();
    for flag in flags {
        let named = [format!("\"{flag}\""), format!("\"{flag}=")];
        assert!(named.iter().any(|named| tests.contains(named)), "{flag} has no test");
    }
}

#[test]
fn completions_know_flags_and_commands() {
    for shell in ["bash", "zsh", "fish"] {
        let run = tenon().args(["completions", shell]).run();
        assert_eq!((run.code, run.stderr.as_str()), (0, ""));
        for word in ["json-schema", "doctor", "stream-json"] {
            assert!(run.stdout.contains(word), "{shell} does not complete `{word}`");
        }
        assert!(!run.stdout.contains("openai-api-key"), "{shell} offers what is refused");
    }
}

#[test]
fn the_manual_is_a_page_of_the_man_format() {
    let run = tenon().arg("man").run();
    assert_eq!((run.code, run.stderr.as_str()), (0, ""));
    for part in [".TH tenon 1", ".SH SYNOPSIS", "\\-\\-json\\-schema", "Exit codes"] {
        assert!(run.stdout.contains(part), "no `{part}` in the page");
    }
}

#[test]
fn the_doctor_says_what_works_and_what_to_do() {
    let run = tenon().arg("doctor").run();
    run.assert_code(1);
    let (shown, sandbox) = run.stdout.split_once("ok   sandbox: ").unwrap_or((&run.stdout, ""));
    // What the kernel can do differs.
    assert!(sandbox.starts_with("files "), "{run}");
    assert_eq!(
        scrub(shown),
        "ok   tenon <version> on linux\n\
         ok   settings and outputs: <home>/.tenon\n\
         ok   settings: valid\n\
         FAIL model: no credentials for any model were found\n     \
         hint: set a key (`OPENAI_API_KEY`, `ANTHROPIC_API_KEY` or `GEMINI_API_KEY`), point `OPENAI_BASE_URL` to a server on this machine (`http://127.0.0.1:PORT/v1`), or use the small embedded model: `-m local`\n\
         ok   embedded model: not here yet; `-m local` or `tenon local pull` downloads 98 MB\n\
         ok   workflow runs: 0 in <home>/.tenon/runs.db\n\
         ok   shell: bash\n"
    );
    let server = Server::start([]);
    let run = tenon().server(&server).arg("doctor").run();
    run.assert_code(0);
    assert!(
        scrub(&run.stdout)
            .contains("ok   model: `openai/test-model` at http://127.0.0.1:PORT/v1 with a key\n"),
        "{run}"
    );
    assert!(server.requests().is_empty(), "looking costs nothing");
    assert!(!run.stdout.contains("test-key"));

    // A port that no test is given: one that was let go may be another test's by now.
    let run = tenon().server(&server).env("OPENAI_BASE_URL", "http://127.0.0.1:1/v1").arg("doctor").run();
    run.assert_code(1);
    assert!(run.stdout.contains("FAIL model: ") && run.stdout.contains("hint: start the server"), "{run}");

    let run = tenon().home_file("settings.json", "{ nope").arg("doctor").run();
    run.assert_code(1);
    assert!(run.stdout.contains("FAIL settings: "), "{run}");
}

#[test]
fn arguments_that_are_not_text_are_a_usage_error() {
    use std::os::unix::ffi::OsStrExt;

    let run = tenon().arg("-p").arg(std::ffi::OsStr::from_bytes(b"caf\xe9")).run();
    run.assert_code(2);
    assert!(run.stderr.contains("UTF-8"), "{run}");
}

/// `script` lends a terminal.
#[test]
fn on_a_terminal_a_bare_call_shows_examples() {
    let there = std::process::Command::new("script").arg("--version").output();
    if there.is_err() {
        return;
    }
    for (args, shown) in [
        ("", "tenon -p \"What does this project do?\""),
        (" --json-schema '{}'", "`--json-schema` needs a prompt"),
    ] {
        let command = format!("{}{args}", env!("CARGO_BIN_EXE_tenon"));
        let run = Tenon::new("script").args(["-q", "-e", "-c", &command, "/dev/null"]).run();
        run.assert_code(2);
        assert!(run.stdout.contains(shown), "{run}");
    }
}

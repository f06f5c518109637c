//! Where the prompt comes from: flags, files, stdin, and every way in which stdin can be odd.

use std::time::Duration;

use tenon_testkit::{Run, Server, Tenon, json, reply};

use crate::tenon;

const IDLE: &str = "nothing came on stdin within 500 ms, so the run goes on without it (`--stdin wait` waits, `--stdin ignore` does not look)";
const NO_PROMPT: &str = "error[input]: there is no prompt: stdin and the prompt given are empty\n\
                         hint: give one with `-p`, as bare words, in a `--prompt-file`, or piped to stdin\n";
const TOO_LARGE: usize = 8 * 1024 * 1024 + 1;

/// What the model was asked.
fn asked(tenon: Tenon) -> (Run, String) {
    let server = Server::start([reply().text("ok")]);
    let run = tenon.server(&server).args(["-m", "test-model"]).run();
    run.assert_code(0);
    assert_eq!(run.stdout, "ok\n");
    let prompt = server.request(0).last_message()["content"].as_str().unwrap().to_owned();
    (run, prompt)
}

/// Exit 42 with this on stderr, in every format; nobody was asked anything.
#[track_caller]
fn bad_input(tenon: &Tenon, stderr: &str) {
    let server = Server::start([]);
    let tenon = tenon.clone().server(&server).args(["-m", "test-model"]);
    let text = tenon.run();
    text.assert_code(42);
    assert_eq!((text.stdout.as_str(), text.stderr.as_str()), ("", stderr));
    let stream = tenon.clone().args(["-o", "stream-json"]).run();
    stream.assert_code(42);
    let error = &stream.last_json()["error"];
    assert_eq!((&error["code"], &error["class"]), (&json!(42), &json!("input")));
    assert!(stderr.contains(error["message"].as_str().unwrap()), "{stream}");
    assert!(server.requests().is_empty());
}

/// Started by a shell that redirects its stdin.
fn redirected(redirection: &str) -> Tenon {
    let command = format!("exec \"$0\" \"$@\" {redirection}");
    Tenon::new("sh").args(["-c", &command, env!("CARGO_BIN_EXE_tenon")])
}

#[test]
fn with_a_prompt_and_nothing_on_stdin_the_prompt_is_all() {
    for started in
        [tenon(), tenon().stdin(""), tenon().stdin(" \n\t\n"), redirected("</dev/null"), redirected("<&-")]
    {
        let (run, prompt) = asked(started.args(["-p", "Why?"]));
        assert_eq!(prompt, "Why?");
        assert_eq!(run.stderr, "", "{run}");
    }
}

#[test]
fn an_open_pipe_that_nobody_writes_to_does_not_hold_up_the_run() {
    let (run, prompt) = asked(tenon().stdin_idle().args(["-p", "Why?"]));
    assert_eq!(prompt, "Why?");
    assert_eq!(run.stderr, format!("warning: {IDLE}\n"));

    let server = Server::start([reply().text("ok")]);
    let run = tenon().server(&server).stdin_idle().args(["-q", "-p", "Why?", "-o", "json"]).run();
    run.assert_code(0);
    assert_eq!(run.stderr, "");
    assert_eq!(run.json().as_array().unwrap().last().unwrap()["warnings"], json!([IDLE]));
}

#[test]
fn stdin_stands_before_the_prompt() {
    let table: &[(&str, &str)] = &[
        ("data", "data\n\nWhy?"),
        ("data\n", "data\n\nWhy?"),
        ("a\r\nb\r\n\r\n", "a\r\nb\n\nWhy?"),
        ("  indented\n", "  indented\n\nWhy?"),
        ("\n\nlate\n", "\n\nlate\n\nWhy?"),
        ("@file /help", "@file /help\n\nWhy?"),
        ("zero \0 byte", "zero \0 byte\n\nWhy?"),
        ("\u{feff}with a mark", "with a mark\n\nWhy?"),
        ("ünïcödé 🦀", "ünïcödé 🦀\n\nWhy?"),
    ];
    for (stdin, expected) in table {
        for args in [&["-p", "Why?"][..], &["Why?"], &["--stdin", "wait", "-p", "Why?"], &["-p", "Why?", "-"]]
        {
            let (run, prompt) = asked(tenon().stdin(*stdin).args(args));
            assert_eq!(prompt, *expected, "{args:?}");
            assert_eq!(run.stderr, "");
        }
    }
}

#[test]
fn without_a_prompt_stdin_is_the_prompt() {
    for args in [&[][..], &["-"], &["--stdin=wait"]] {
        let (run, prompt) = asked(tenon().stdin("What\nis this?\n").args(args));
        assert_eq!(prompt, "What\nis this?\n", "{args:?}");
        assert_eq!(run.stderr, "");
    }
}

#[test]
fn no_prompt_at_all_is_bad_input() {
    for started in [
        tenon(),
        tenon().stdin(""),
        tenon().stdin(" \n \t"),
        tenon().args(["-p", ""]),
        tenon().args(["-p", "  \n"]),
        tenon().arg("-"),
        tenon().arg(""),
        tenon().args(["--stdin", "wait"]),
        redirected("<&-"),
        tenon().file("empty.md", "\n").args(["--prompt-file", "empty.md"]),
        tenon().args(["--json-schema", "{}"]),
    ] {
        bad_input(&started, NO_PROMPT);
    }
}

#[test]
fn stdin_that_is_ignored_is_not_looked_at() {
    for started in
        [tenon().stdin("data"), tenon().stdin_idle(), redirected("<."), tenon().stdin(vec![b'x'; TOO_LARGE])]
    {
        let (run, prompt) = asked(started.args(["--stdin", "ignore", "-p", "Why?"]));
        assert_eq!(prompt, "Why?");
        assert_eq!(run.stderr, "");
    }
    let stderr = "error[input]: there is no prompt, and `--stdin ignore` does not look for one\n\
                  hint: give one with `-p`, as bare words, in a `--prompt-file`, or piped to stdin\n";
    bad_input(&tenon().stdin("data").args(["--stdin", "ignore"]), stderr);
    bad_input(&tenon().stdin("data").args(["--stdin", "ignore", "-"]), stderr);
}

/// Longer than `auto` would wait, before and between.
#[test]
fn a_slow_writer_is_waited_for_when_asked_to() {
    for args in [&["--stdin", "wait", "-p", "Why?"][..], &["-p", "Why?", "-"]] {
        let server = Server::start([reply().text("ok")]);
        let mut run = tenon().server(&server).stdin_idle().args(args).spawn();
        std::thread::sleep(Duration::from_millis(800));
        run.write("slow");
        std::thread::sleep(Duration::from_millis(100));
        run.write("ly");
        assert!(server.requests().is_empty());
        run.close_stdin();
        run.wait().assert_code(0);
        assert_eq!(server.request(0).last_message()["content"], "slowly\n\nWhy?");
    }
}

/// The one slow test: input that began must end.
#[test]
fn input_that_goes_silent_is_not_used_as_if_whole() {
    let server = Server::start([]);
    let mut run = tenon().server(&server).stdin_idle().args(["-p", "Why?", "-o", "stream-json"]).spawn();
    run.write("half a fi");
    let line = run.json();
    let run = run.wait();
    run.assert_code(42);
    assert_eq!(
        run.stderr,
        "error[input]: stdin went silent for 10 s after 9 bytes without ending\n\
         hint: close the pipe after writing, or wait for its end with `--stdin wait`\n"
    );
    assert_eq!((&line["type"], &line["error"]["code"]), (&json!("result"), &json!(42)));
    assert!(server.requests().is_empty());
}

#[test]
fn too_much_input_is_refused_rather_than_cut() {
    let stderr = "error[input]: stdin has more than 8 MiB\n\
                  hint: put the data into files in the working folder and let the agent read them\n";
    bad_input(&tenon().stdin(vec![b'x'; TOO_LARGE]).args(["-p", "Why?"]), stderr);
    bad_input(&tenon().stdin(vec![b'x'; TOO_LARGE]), stderr);
    // A writer that never ends is left at the limit, not read for ever.
    bad_input(&redirected("</dev/zero").args(["-p", "Why?"]), stderr);
}

#[test]
fn large_input_arrives_whole() {
    let line = "0123456789abcdef ünïcödé\n";
    let data = line.repeat(5_000_000 / line.len());
    let (_, prompt) = asked(tenon().stdin(data.clone()).args(["-p", "Why?"]));
    assert!(prompt == format!("{}\n\nWhy?", data.trim_end()), "{} bytes arrived", prompt.len());
    let largest = "x".repeat(TOO_LARGE - 1);
    let (_, prompt) = asked(tenon().stdin(largest.clone()));
    assert!(prompt == largest, "{} bytes arrived", prompt.len());
}

#[test]
fn bytes_that_are_not_utf8_are_replaced_and_reported() {
    let (run, prompt) = asked(tenon().stdin(&b"caf\xe9 \xff\xfe."[..]).args(["-p", "Why?"]));
    assert_eq!(prompt, "caf\u{fffd} \u{fffd}\u{fffd}.\n\nWhy?");
    assert_eq!(run.stderr, "warning: stdin is not valid UTF-8; the invalid bytes were replaced\n");
}

#[test]
fn stdin_that_cannot_be_read_is_bad_input() {
    let directory = "error[input]: stdin could not be read: Is a directory (os error 21)\n\
                     hint: `--stdin ignore` does not look at it\n";
    bad_input(&redirected("<.").args(["-p", "Why?"]), directory);
    bad_input(&redirected("<."), directory);
}

#[test]
fn a_prompt_can_come_from_a_file() {
    let table: &[(&[u8], &str)] = &[
        (b"Long\nprompt\n", "Long\nprompt\n"),
        (b"\xef\xbb\xbfwith a mark", "with a mark"),
        ("ünïcödé".as_bytes(), "ünïcödé"),
    ];
    for (content, expected) in table {
        let (_, prompt) = asked(tenon().file("p.md", content).args(["--prompt-file", "p.md"]));
        assert_eq!(prompt, *expected);
    }
    let (_, prompt) = asked(tenon().stdin("data\n").file("p.md", "Why?").args(["--prompt-file=p.md"]));
    assert_eq!(prompt, "data\n\nWhy?");
    // Paths in flags start where tenon was started, also with `-C`.
    let (_, prompt) = asked(tenon().file("p.md", "outer").file("sub/p.md", "inner").args([
        "-C",
        "sub",
        "--prompt-file",
        "p.md",
    ]));
    assert_eq!(prompt, "outer");
}

#[test]
fn a_prompt_file_that_cannot_be_used_is_bad_input() {
    let folder =
        tenon().file("latin1.md", b"caf\xe9").file("large.md", vec![b'x'; TOO_LARGE]).file("d/x", "");
    make_fifo(&folder.workspace().join("fifo"));
    let table = [
        ("nope.md", "No such file or directory (os error 2)"),
        ("d", "it is not a regular file"),
        ("fifo", "it is not a regular file"),
        ("large.md", "it has more than 8 MiB"),
        ("latin1.md", "it is not valid UTF-8"),
        ("latin1.md/x", "Not a directory (os error 20)"),
    ];
    for (file, why) in table {
        let stderr = format!("error[input]: `--prompt-file {file}` cannot be read: {why}\n");
        bad_input(&folder.clone().args(["--prompt-file", file]), &stderr);
    }
}

pub fn make_fifo(path: &std::path::Path) {
    let made = std::process::Command::new("mkfifo").arg(path).status().expect("mkfifo");
    assert!(made.success());
}

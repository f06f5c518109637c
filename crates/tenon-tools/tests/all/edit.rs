use serde_json::json;
use tenon_core::ToolErrorKind;

use crate::support::Bench;

/// Reads a file with this content, edits it and gives back what it holds then.
fn edited(content: &str, old: &str, new: &str, replace_all: bool) -> Result<String, String> {
    let bench = Bench::new();
    bench.file("a.txt", content);
    bench.ok("read_file", json!({ "file_path": "a.txt" }));
    let args =
        json!({ "file_path": "a.txt", "old_string": old, "new_string": new, "replace_all": replace_all });
    let outcome = bench.call("edit", args);
    match outcome.error {
        None => Ok(bench.text("a.txt")),
        Some(_) => {
            assert_eq!(bench.text("a.txt"), content, "a failed edit changes nothing");
            Err(outcome.content)
        }
    }
}

#[test]
fn edits() {
    let table: &[(&str, &str, &str, bool, &str)] = &[
        ("a b c", "b", "X", false, "a X c"),
        ("a b b", "b", "X", true, "a X X"),
        ("one\ntwo\nthree\n", "two\nthree", "2", false, "one\n2\n"),
        // Line ends stay what they were, whatever the model writes.
        ("one\r\ntwo\r\n", "one\ntwo", "1\n2", false, "1\r\n2\r\n"),
        ("one\r\ntwo\r\n", "two", "2\n3", false, "one\r\n2\r\n3\r\n"),
        ("one\r\ntwo\r\n", "one\r\ntwo", "1\r\n2", false, "1\r\n2\r\n"),
        ("lf\nlf\ncrlf\r\nend", "crlf\nend", "x", false, "lf\nlf\nx"),
        ("\u{feff}bom\n", "bom", "mark", false, "\u{feff}mark\n"),
        ("delete me", "delete me", "", false, ""),
        ("$1 \\0", "$1", "$&", false, "$& \\0"),
    ];
    for (content, old, new, all, wanted) in table {
        assert_eq!(edited(content, old, new, *all).as_deref(), Ok(*wanted), "{content:?}");
    }
}

#[test]
fn edits_that_cannot_be() {
    let table: &[(&str, &str, &str, &str)] = &[
        (
            "b\nb\nx\nb\n",
            "b",
            "c",
            "`old_string` occurs 3 times in `a.txt` (lines 1, 2, 4); add context to make it unique, or set `replace_all`.",
        ),
        ("abc", "abc", "abc", "`old_string` and `new_string` are the same, so there is nothing to do."),
        ("abc", "xyz", "q", "`old_string` does not occur in `a.txt` (0 matches)."),
        (
            "fn a() {\n    call(one);\n}\n",
            "call(two);",
            "q",
            "`old_string` does not occur in `a.txt` (0 matches); the nearest line is 2: `call(one);`.",
        ),
        (
            "fn a() {\n\tcall();\n}\n",
            "  call();\n}",
            "q",
            "`old_string` does not occur in `a.txt` (0 matches); line 2 is like its first line, but the whitespace or what follows differs.",
        ),
        (
            "abc",
            "",
            "q",
            "`a.txt` exists, and an empty `old_string` only creates new files; give the text to replace.",
        ),
    ];
    for (content, old, new, wanted) in table {
        assert_eq!(edited(content, old, new, false).unwrap_err(), *wanted);
    }
}

#[test]
fn an_empty_old_string_creates() {
    let bench = Bench::new();
    let args = json!({ "file_path": "sub/new.txt", "old_string": "", "new_string": "one\n" });
    let outcome = bench.call("edit", args);
    assert_eq!((outcome.content.as_str(), outcome.lines_added), ("Created `sub/new.txt`.", 1));
    assert_eq!(bench.text("sub/new.txt"), "one\n");
    // The new file counts as read.
    let args = json!({ "file_path": "sub/new.txt", "old_string": "one", "new_string": "1" });
    let outcome = bench.call("edit", args);
    assert_eq!(outcome.content, "Edited `sub/new.txt` at line 1.");
    assert_eq!((outcome.lines_added, outcome.lines_removed), (1, 1));
}

#[test]
fn a_file_must_have_been_read_and_not_changed() {
    let bench = Bench::new();
    bench.file("a.txt", "one");
    let args = json!({ "file_path": "a.txt", "old_string": "one", "new_string": "1" });
    assert!(bench.error("edit", args.clone()).1.contains("has not been read"));
    bench.ok("read_file", json!({ "file_path": "a.txt" }));
    bench.file("a.txt", "one more");
    assert!(bench.error("edit", args.clone()).1.contains("has changed on disk"));
    bench.ok("read_file", json!({ "file_path": "a.txt" }));
    bench.ok("edit", args);
    assert_eq!(bench.text("a.txt"), "1 more");
}

#[test]
fn a_file_read_in_many_chunks_is_recognised() {
    let bench = Bench::new();
    bench.file("a.txt", format!("first\n{}last\n", "line\n".repeat(100_000)));
    bench.ok("read_file", json!({ "file_path": "a.txt", "limit": 1 }));
    bench.ok("edit", json!({ "file_path": "a.txt", "old_string": "last", "new_string": "end" }));
    bench.ok("edit", json!({ "file_path": "a.txt", "old_string": "first", "new_string": "start" }));
    assert!(bench.text("a.txt").starts_with("start\nline\n") && bench.text("a.txt").ends_with("line\nend\n"));
}

#[test]
fn text_that_is_not_utf8_is_left_alone() {
    let bench = Bench::new();
    bench.file("a.txt", b"caf\xe9 one");
    bench.ok("read_file", json!({ "file_path": "a.txt" }));
    let args = json!({ "file_path": "a.txt", "old_string": "one", "new_string": "1" });
    assert!(bench.error("edit", args).1.contains("not valid UTF-8"));
}

#[test]
fn a_missing_file_is_an_error_with_a_suggestion() {
    let bench = Bench::new();
    bench.file("main.rs", "x");
    let args = json!({ "file_path": "mian.rs", "old_string": "x", "new_string": "y" });
    let (kind, message) = bench.error("edit", args);
    assert_eq!(kind, ToolErrorKind::Failed);
    assert_eq!(message, "There is no file `mian.rs`; did you mean `main.rs`?");
}

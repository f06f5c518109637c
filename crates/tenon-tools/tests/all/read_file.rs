use std::fs::{self, File};

use serde_json::json;
use tenon_core::ToolErrorKind;

use crate::support::Bench;

#[test]
fn a_file_is_shown_as_it_is() {
    let bench = Bench::new();
    let table: &[(&[u8], &str)] = &[
        (b"one\ntwo\n", "one\ntwo\n"),
        (b"no newline", "no newline"),
        (b"crlf\r\nlines\r\n", "crlf\nlines\n"),
        (b"\xef\xbb\xbfbom\n", "bom\n"),
        (b"bad \xff byte", "bad \u{fffd} byte"),
        (b"\n\n", "\n\n"),
        (b"", "The file is empty."),
    ];
    for (content, wanted) in table {
        let path = bench.file("a.txt", content);
        assert_eq!(bench.ok("read_file", json!({ "file_path": path })), *wanted);
        assert_eq!(bench.ok("read_file", json!({ "file_path": "a.txt" })), *wanted);
    }
}

#[test]
fn offset_and_limit_pick_lines() {
    let bench = Bench::new();
    bench.file("a.txt", "1\n2\n3\n4\n5\n");
    let table = [
        (json!({ "offset": 0, "limit": 5 }), "1\n2\n3\n4\n5\n"),
        (json!({ "offset": 1, "limit": 2 }), "Showing lines 2-3 of 5 total lines.\n\n---\n\n2\n3\n"),
        (json!({ "offset": 3.0 }), "Showing lines 4-5 of 5 total lines.\n\n---\n\n4\n5\n"),
        (json!({ "limit": 1 }), "Showing lines 1-1 of 5 total lines.\n\n---\n\n1\n"),
        (json!({ "offset": null, "limit": 100 }), "1\n2\n3\n4\n5\n"),
    ];
    for (mut args, wanted) in table {
        args["file_path"] = json!("a.txt");
        assert_eq!(bench.ok("read_file", args), wanted);
    }
    let (_, message) = bench.error("read_file", json!({ "file_path": "a.txt", "offset": 5 }));
    assert_eq!(message, "`a.txt` has 5 lines, so there is none at offset 5.");
}

#[test]
fn long_files_are_shown_in_part() {
    let bench = Bench::new();
    bench.file("lines.txt", "x\n".repeat(5_000));
    let shown = bench.ok("read_file", json!({ "file_path": "lines.txt" }));
    assert!(shown.starts_with("Showing lines 1-1000 of 5000 total lines.\n\n---\n\nx\n"));
    assert_eq!(shown.matches('x').count(), 1_000);

    bench.file("wide.txt", format!("{}\n", "y".repeat(1_000)).repeat(100));
    let shown = bench.ok("read_file", json!({ "file_path": "wide.txt" }));
    assert!(shown.starts_with("Showing lines 1-24 of 100 total lines."), "{}", &shown[..60]);

    // One line of umlauts that is longer than everything that may be shown.
    bench.file("one.txt", "ü".repeat(300_000));
    let shown = bench.ok("read_file", json!({ "file_path": "one.txt" }));
    assert_eq!(shown.matches('ü').count(), 25_000);
    assert!(shown.contains("[line 1 is longer than 25000 characters and was cut"));
}

#[test]
fn a_huge_file_is_not_held_in_memory() {
    let bench = Bench::new();
    // Sparse, with text in front: the zeros come late enough not to make it binary at first sight.
    let path = bench.file("huge.txt", "start\n".repeat(2_000));
    File::options().write(true).open(&path).unwrap().set_len(200 * 1024 * 1024).unwrap();
    let shown = bench.ok("read_file", json!({ "file_path": path, "limit": 1 }));
    assert_eq!(shown, "Showing lines 1-1 of 2001 total lines.\n\n---\n\nstart\n");
}

#[test]
fn what_is_no_text_is_refused() {
    let bench = Bench::new();
    let table: &[(&[u8], &str)] = &[
        (b"\x7fELF\x00\x01", "a binary file"),
        (b"%PDF-1.7", "a PDF document"),
        (b"\xff\xfea\x00", "UTF-16"),
    ];
    for (content, wanted) in table {
        bench.file("thing", content);
        let (kind, message) = bench.error("read_file", json!({ "file_path": "thing" }));
        assert_eq!(kind, ToolErrorKind::Failed);
        assert!(message.contains(wanted), "{message}");
    }
}

#[test]
fn what_is_no_file_is_refused_without_waiting() {
    let bench = Bench::new();
    fs::create_dir(bench.work().join("folder")).unwrap();
    assert!(bench.error("read_file", json!({ "file_path": "folder" })).1.contains("list_directory"));
    bench.ok("run_shell_command", json!({ "command": "mkfifo pipe" }));
    assert!(bench.error("read_file", json!({ "file_path": "pipe" })).1.contains("not a plain file"));
    assert!(
        bench
            .error("write_file", json!({ "file_path": "pipe", "content": "x" }))
            .1
            .contains("not a plain file")
    );
    // A zero byte cannot be part of a path.
    assert_eq!(bench.error("read_file", json!({ "file_path": "a\0b" })).0, ToolErrorKind::Failed);
}

#[test]
fn a_missing_file_brings_a_suggestion() {
    let bench = Bench::new();
    bench.file("src/main.rs", "x");
    let message = |path: &str| bench.error("read_file", json!({ "file_path": path })).1;
    assert_eq!(message("src/mian.rs"), "There is no file `src/mian.rs`; did you mean `src/main.rs`?");
    assert_eq!(message("src/other.txt"), "There is no file `src/other.txt`.");
    assert_eq!(message("none/at/all"), "There is no file `none/at/all`.");
}

#[test]
fn arguments_are_checked() {
    let bench = Bench::new();
    let table = [
        (json!({}), "`read_file` needs `file_path`."),
        (json!({ "path": "a" }), "`read_file` needs `file_path`; it does not know `path`."),
        (json!({ "file_path": 1 }), "`file_path` of `read_file` must be a string, not a number."),
        (json!({ "file_path": " " }), "`file_path` must not be empty."),
        (
            json!({ "file_path": "a", "offset": -1 }),
            "`offset` of `read_file` must be a whole number, 0 or more, not a number.",
        ),
        (
            json!({ "file_path": "a", "offset": "1" }),
            "`offset` of `read_file` must be a whole number, 0 or more, not a string.",
        ),
        (
            json!({ "file_path": "a", "limit": 1.5 }),
            "`limit` of `read_file` must be a whole number, 0 or more, not a number.",
        ),
        (json!({ "file_path": "a", "limit": 0 }), "`limit` must be at least 1."),
    ];
    for (args, wanted) in table {
        assert_eq!(bench.error("read_file", args), (ToolErrorKind::InvalidArguments, wanted.to_owned()));
    }
}

#[test]
fn a_cancelled_read_says_so() {
    let bench = Bench::new();
    bench.file("a.txt", "x");
    bench.cancel.cancel();
    for (tool, args) in [
        ("read_file", json!({ "file_path": "a.txt" })),
        ("grep_search", json!({ "pattern": "x" })),
        ("write_file", json!({ "file_path": "b.txt", "content": "x" })),
    ] {
        assert_eq!(bench.error(tool, args).0, ToolErrorKind::Cancelled);
    }
    assert!(!bench.work().join("b.txt").exists());
}

#[test]
fn an_image_is_shown_as_one() {
    let bench = Bench::new();
    let png = base64_of(tenon_testkit::TINY_PNG);
    let path = bench.file("dot.png", &png);
    let outcome = bench.call("read_file", json!({ "file_path": path }));
    assert_eq!(outcome.content, format!("`{}`: image/png, 70 bytes", path.display()));
    assert_eq!(outcome.media.iter().map(|media| &*media.data).collect::<Vec<_>>(), [tenon_testkit::TINY_PNG]);
    // By what is in it, not by its name; and not what is too large for any model.
    bench.file("dot.txt", &png);
    assert_eq!(bench.call("read_file", json!({ "file_path": "dot.txt" })).media.len(), 1);
    bench.file("large.png", [png.as_slice(), &vec![0; 4 * 1024 * 1024]].concat());
    let (kind, told) = bench.error("read_file", json!({ "file_path": "large.png" }));
    assert_eq!(kind, ToolErrorKind::Failed);
    assert_eq!(told, "`large.png` is an image that cannot be shown: it is too large to be shown.");
}

/// Enough of base64 for a constant of ours.
fn base64_of(text: &str) -> Vec<u8> {
    const ALPHABET: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let digits: Vec<u32> = text
        .bytes()
        .filter_map(|byte| ALPHABET.iter().position(|known| *known == byte))
        .map(|at| at as u32)
        .collect();
    digits
        .chunks(4)
        .flat_map(|four| {
            let bits = four.iter().fold(0, |bits, digit| bits << 6 | digit) << (6 * (4 - four.len()));
            bits.to_be_bytes()[1..four.len()].to_vec()
        })
        .collect()
}

use std::fs;
use std::os::unix::fs::PermissionsExt;

use serde_json::json;
use tenon_core::ToolErrorKind;

use crate::support::{Bench, names_in};

#[test]
fn a_new_file_is_created_with_its_folders() {
    let bench = Bench::new();
    let outcome = bench.call("write_file", json!({ "file_path": "a/b/c.txt", "content": "one\ntwo\n" }));
    assert_eq!(outcome.content, "Created `a/b/c.txt` (2 lines).");
    assert_eq!((outcome.error, outcome.lines_added, outcome.lines_removed), (None, 2, 0));
    assert_eq!(bench.text("a/b/c.txt"), "one\ntwo\n");
    assert_eq!(names_in(&bench.work().join("a/b")), ["c.txt"], "no temporary file is left");
}

#[test]
fn an_existing_file_must_have_been_read_and_not_changed() {
    let bench = Bench::new();
    bench.file("a.txt", "one\ntwo\n");
    let write = json!({ "file_path": "a.txt", "content": "one\n2\n3\n" });
    let unread = "`a.txt` exists and has not been read; read it with read_file first.";
    assert_eq!(bench.error("write_file", write.clone()), (ToolErrorKind::Failed, unread.to_owned()));
    bench.ok("read_file", json!({ "file_path": "a.txt", "limit": 1 }));
    bench.file("a.txt", "one\nTWO\n");
    let changed = "`a.txt` has changed on disk since it was read; read it again with read_file first.";
    assert_eq!(bench.error("write_file", write.clone()), (ToolErrorKind::Failed, changed.to_owned()));
    bench.ok("read_file", json!({ "file_path": "a.txt" }));
    // Rewritten with the same bytes: nothing was lost.
    bench.file("a.txt", "one\nTWO\n");
    let outcome = bench.call("write_file", write.clone());
    assert_eq!(
        (outcome.content.as_str(), outcome.lines_added, outcome.lines_removed),
        ("Replaced `a.txt` (3 lines).", 2, 1)
    );
    // What a tool wrote needs no reading.
    bench.ok("write_file", write);
    // Nothing can be lost of an empty file.
    bench.file("empty.txt", "");
    bench.ok("write_file", json!({ "file_path": "empty.txt", "content": "x" }));
}

#[test]
fn permissions_are_kept_and_read_only_files_stay() {
    let bench = Bench::new();
    let path = bench.file("run.sh", "old");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o750)).unwrap();
    bench.ok("read_file", json!({ "file_path": "run.sh" }));
    bench.ok("write_file", json!({ "file_path": "run.sh", "content": "new" }));
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o750);

    fs::set_permissions(&path, fs::Permissions::from_mode(0o444)).unwrap();
    let (_, message) = bench.error("write_file", json!({ "file_path": "run.sh", "content": "newer" }));
    assert_eq!(message, "`run.sh` cannot be written: the file is read-only.");
    assert_eq!(bench.text("run.sh"), "new");
    assert_eq!(names_in(&bench.work()), ["run.sh"]);
}

#[test]
fn a_folder_is_not_a_file() {
    let bench = Bench::new();
    fs::create_dir(bench.work().join("folder")).unwrap();
    assert_eq!(
        bench.error("write_file", json!({ "file_path": "folder", "content": "" })).1,
        "`folder` is a folder."
    );
    bench.file("file", "x");
    let (kind, message) = bench.error("write_file", json!({ "file_path": "file/below", "content": "" }));
    assert_eq!(kind, ToolErrorKind::Failed, "{message}");
    assert_eq!(bench.error("write_file", json!({ "file_path": "a" })).1, "`write_file` needs `content`.");
}

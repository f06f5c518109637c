//! Attempts to get out of the workspace.

use std::fs;
use std::os::unix::fs::symlink;

use serde_json::{Value, json};
use tenon_core::ToolErrorKind;

use crate::support::{Bench, Setup, names_in};

fn with_outside() -> Bench {
    let bench = Bench::new();
    fs::create_dir(bench.base.path().join("outside")).unwrap();
    fs::write(bench.base.path().join("outside/secret.txt"), "needle\n").unwrap();
    symlink(bench.base.path().join("outside"), bench.work().join("folder_link")).unwrap();
    symlink(bench.base.path().join("outside/secret.txt"), bench.work().join("file_link")).unwrap();
    symlink(bench.base.path().join("outside/new.txt"), bench.work().join("dangling")).unwrap();
    symlink("loop_b", bench.work().join("loop_a")).unwrap();
    symlink("loop_a", bench.work().join("loop_b")).unwrap();
    // A folder whose name merely begins like the root's.
    fs::create_dir(bench.base.path().join("work-too")).unwrap();
    fs::write(bench.base.path().join("work-too/secret.txt"), "needle\n").unwrap();
    bench.file("inside.txt", "needle\n");
    bench
}

fn ways_out(bench: &Bench) -> Vec<String> {
    let absolute = |name: &str| bench.base.path().join(name).display().to_string();
    vec![
        "../outside/secret.txt".to_owned(),
        "x/../../outside/secret.txt".to_owned(),
        "./missing/../../outside/secret.txt".to_owned(),
        absolute("outside/secret.txt"),
        absolute("work/../outside/secret.txt"),
        absolute("work-too/secret.txt"),
        "folder_link/secret.txt".to_owned(),
        "folder_link/../outside/secret.txt".to_owned(),
        "file_link".to_owned(),
        "/etc/passwd".to_owned(),
        "/proc/self/root/etc/passwd".to_owned(),
        "/proc/self/environ".to_owned(),
    ]
}

#[test]
fn nothing_outside_is_read() {
    let bench = with_outside();
    for path in ways_out(&bench) {
        for (tool, args) in [
            ("read_file", json!({ "file_path": path })),
            ("grep_search", json!({ "pattern": ".", "path": path })),
            ("glob", json!({ "pattern": "**", "path": path })),
            ("list_directory", json!({ "path": path })),
        ] {
            let (kind, content) = bench.error(tool, args);
            assert_eq!(kind, ToolErrorKind::Denied, "{tool} {path}");
            assert!(content.contains("is outside the workspace") && !content.contains("needle"), "{content}");
        }
    }
}

#[test]
fn nothing_outside_is_written() {
    let bench = with_outside();
    let mut paths = ways_out(&bench);
    paths.push("dangling".to_owned());
    paths.push("folder_link/new.txt".to_owned());
    for path in paths {
        for (tool, args) in [
            ("write_file", json!({ "file_path": path, "content": "x" })),
            ("edit", json!({ "file_path": path, "old_string": "", "new_string": "x" })),
        ] {
            assert_eq!(bench.error(tool, args).0, ToolErrorKind::Denied, "{tool} {path}");
        }
    }
    assert_eq!(names_in(&bench.base.path().join("outside")), ["secret.txt"]);
    assert_eq!(fs::read_to_string(bench.base.path().join("outside/secret.txt")).unwrap(), "needle\n");
}

#[test]
fn a_command_starts_inside() {
    let bench = with_outside();
    for directory in ["..", "/", "folder_link", "../outside"] {
        let args = json!({ "command": "pwd", "directory": directory });
        assert_eq!(bench.error("run_shell_command", args).0, ToolErrorKind::Denied, "{directory}");
    }
    assert!(
        bench
            .error("run_shell_command", json!({ "command": "pwd", "directory": "inside.txt" }))
            .1
            .contains("no folder")
    );
}

#[test]
fn a_loop_of_links_is_an_error() {
    let bench = with_outside();
    assert!(bench.error("read_file", json!({ "file_path": "loop_a" })).1.contains("too many symbolic links"));
}

#[test]
fn searches_do_not_follow_links_out() {
    let bench = with_outside();
    let found = bench.ok("grep_search", json!({ "pattern": "needle" }));
    assert_eq!(found, "1 line matches `needle` in `.`:\ninside.txt:1:needle\n");
    assert!(!bench.ok("glob", json!({ "pattern": "**/*.txt" })).contains("secret"));
}

#[test]
fn links_inside_and_added_folders_are_fine() {
    let bench = Bench::with(Setup { add_dirs: vec!["more"], ..Setup::default() });
    bench.file("real/a.txt", "hello\n");
    symlink("real", bench.work().join("link")).unwrap();
    assert_eq!(bench.ok("read_file", json!({ "file_path": "link/a.txt" })), "hello\n");
    let added = bench.base.path().join("more/b.txt").display().to_string();
    bench.ok("write_file", json!({ "file_path": added, "content": "there" }));
    assert_eq!(bench.ok("read_file", json!({ "file_path": "../more/b.txt" })), "there");
}

#[test]
fn writing_through_a_link_changes_its_target_and_keeps_the_link() {
    let bench = Bench::new();
    bench.file("real.txt", "old");
    symlink("real.txt", bench.work().join("link")).unwrap();
    bench.ok("read_file", json!({ "file_path": "link" }));
    bench.ok("write_file", json!({ "file_path": "link", "content": "new" }));
    assert_eq!(bench.text("real.txt"), "new");
    assert!(fs::symlink_metadata(bench.work().join("link")).unwrap().is_symlink());
}

#[test]
fn kept_outputs_are_readable_and_not_writable() {
    let bench = Bench::new();
    let content = bench.ok("run_shell_command", json!({ "command": "seq 1 20000" }));
    let path =
        content.lines().find_map(|line| line.strip_prefix("The full output is in ")).unwrap().to_owned();
    assert!(bench.ok("read_file", json!({ "file_path": path, "offset": 19_999 })).ends_with("20000\n"));
    let args: Value = json!({ "file_path": path, "content": "x" });
    assert_eq!(bench.error("write_file", args).0, ToolErrorKind::Denied);
}

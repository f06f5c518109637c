//! `list_directory`, `glob` and `grep_search`.

use std::fs::{self, File};
use std::os::unix::fs::symlink;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use serde_json::json;
use tenon_core::ToolErrorKind;
use tenon_tools::{PermissionOptions, Permissions, Rule};

use crate::support::{Bench, Setup};

fn tree() -> Bench {
    let bench = Bench::new();
    bench.file(".gitignore", "target/\n*.log\n");
    bench.file(".env", "KEY=needle\n");
    bench.file("src/main.rs", "fn main() {}\n// needle\n");
    bench.file("src/deep/lib.rs", "// Needle\r\n// needle\r\n");
    bench.file("target/out.rs", "needle\n");
    bench.file("trace.log", "needle\n");
    bench.file(".git/config", "needle\n");
    bench.file("image.bin", b"needle\n\x00\x01needle");
    bench
}

#[test]
fn a_folder_is_listed_folders_first() {
    let bench = tree();
    let listed = bench.ok("list_directory", json!({ "path": bench.work() }));
    assert_eq!(listed, "In `.`:\n[DIR] src\n.env\n.gitignore\nimage.bin\n");
    let listed = bench.ok("list_directory", json!({ "path": ".", "ignore": ["*.bin", ".*"] }));
    assert_eq!(listed, "In `.`:\n[DIR] src\n");
    let args =
        json!({ "path": ".", "file_filtering_options": { "respect_git_ignore": false }, "ignore": [".*"] });
    assert_eq!(bench.ok("list_directory", args), "In `.`:\n[DIR] src\n[DIR] target\nimage.bin\ntrace.log\n");
    fs::create_dir(bench.work().join("empty")).unwrap();
    assert_eq!(
        bench.ok("list_directory", json!({ "path": "empty" })),
        "`empty` is empty, or all in it is left out."
    );
    assert!(bench.error("list_directory", json!({ "path": ".env" })).1.contains("is a file"));
    assert_eq!(bench.error("list_directory", json!({ "path": "none" })).1, "There is no folder `none`.");
    let wrong = json!({ "path": ".", "ignore": "x" });
    assert_eq!(bench.error("list_directory", wrong).0, ToolErrorKind::InvalidArguments);
}

#[test]
fn a_full_folder_is_listed_in_part() {
    let bench = Bench::new();
    (0..130).for_each(|n| drop(bench.file(&format!("f{n:03}"), "")));
    let listed = bench.ok("list_directory", json!({ "path": "." }));
    assert!(listed.ends_with("f099\n[30 more are not shown; glob finds names by pattern]\n"), "{listed}");
}

#[test]
fn glob_finds_the_newest_first() {
    let bench = Bench::new();
    for (age, name) in [(30, "a.rs"), (10, "sub/b.rs"), (20, "sub/deep/c.rs")] {
        let path = bench.file(name, "x");
        let time = SystemTime::now() - Duration::from_secs(age);
        File::options().write(true).open(path).unwrap().set_modified(time).unwrap();
    }
    let work = bench.work().display().to_string();
    let found = |pattern: &str| {
        let text = bench.ok("glob", json!({ "pattern": pattern }));
        text.lines().skip(1).map(|line| line.replace(&format!("{work}/"), "")).collect::<Vec<String>>()
    };
    assert_eq!(found("**/*.rs"), ["sub/b.rs", "sub/deep/c.rs", "a.rs"]);
    assert_eq!(found("*.rs"), ["a.rs"], "a star stays in its folder");
    assert_eq!(found("sub/*.{rs,txt}"), ["sub/b.rs"]);
    assert_eq!(found(&format!("{work}/sub/**")), ["sub/b.rs", "sub/deep/c.rs"]);
    assert_eq!(bench.ok("glob", json!({ "pattern": "*.py" })), "No files match `*.py` in `.`.");
    let one = bench.ok("glob", json!({ "pattern": "*.rs", "path": "sub" }));
    assert_eq!(one, format!("1 file matches `*.rs` in `sub`, newest first:\n{work}/sub/b.rs\n"));
    assert_eq!(bench.error("glob", json!({ "pattern": "../*" })).0, ToolErrorKind::InvalidArguments);
    assert_eq!(bench.error("glob", json!({ "pattern": "/etc/*" })).0, ToolErrorKind::InvalidArguments);
    assert!(bench.error("glob", json!({ "pattern": "a{" })).1.contains("is not a file pattern"));
}

#[test]
fn glob_shows_a_hundred_and_respects_ignore_files() {
    let bench = tree();
    let all = bench.ok("glob", json!({ "pattern": "**" }));
    assert!(all.starts_with("5 files match") && !all.contains("target") && !all.contains("/.git/"), "{all}");
    (0..150).for_each(|n| drop(bench.file(&format!("many/{n}"), "")));
    let many = bench.ok("glob", json!({ "pattern": "many/*" }));
    assert!(many.starts_with("150 files match `many/*`"));
    assert!(many.ends_with("[50 more are not shown; a narrower pattern finds them]\n"));
    assert_eq!(many.lines().count(), 102);
}

#[test]
fn grep_lists_lines_in_the_order_of_paths() {
    let bench = tree();
    let found = bench.ok("grep_search", json!({ "pattern": "needle" }));
    assert_eq!(
        found,
        "3 lines match `needle` in `.`:\n.env:1:KEY=needle\nsrc/deep/lib.rs:2:// needle\nsrc/main.rs:2:// needle\n"
    );
    let table = [
        (json!({ "pattern": "(?i)^// needle$", "glob": "*.rs" }), 3),
        (json!({ "pattern": "needle", "glob": "src/*.rs" }), 1),
        (json!({ "pattern": "needle", "glob": "*.{rs,env}" }), 3),
        (json!({ "pattern": "needle", "path": "src/main.rs" }), 1),
        (json!({ "pattern": "needle", "path": "src/deep" }), 1),
        (json!({ "pattern": "needle", "path": "target" }), 1),
    ];
    for (args, count) in table {
        let found = bench.ok("grep_search", args.clone());
        assert_eq!(found.lines().count(), count + 1, "{args}: {found}");
    }
    assert_eq!(bench.ok("grep_search", json!({ "pattern": "nowhere" })), "No matches for `nowhere` in `.`.");
    assert!(bench.error("grep_search", json!({ "pattern": "(" })).1.contains("is not a regular expression"));
    assert_eq!(bench.error("grep_search", json!({ "pattern": "" })).0, ToolErrorKind::InvalidArguments);
}

#[test]
fn grep_stops_at_its_limits() {
    let bench = Bench::new();
    bench.file("a.txt", "match\n".repeat(3_000));
    let found = bench.ok("grep_search", json!({ "pattern": "match", "limit": 2 }));
    assert_eq!(
        found,
        "The first 2 lines match `match` in `.`:\na.txt:1:match\na.txt:2:match\n\
         [there are more; a narrower pattern, `glob` or `path` shows them]\n"
    );
    let found = bench.ok("grep_search", json!({ "pattern": "match" }));
    assert!(found.starts_with("The first 1000 lines match"));
    bench.file("a.txt", format!("{}\n", "x".repeat(400)).repeat(1_000));
    assert!(bench.ok("grep_search", json!({ "pattern": "x" })).chars().count() < 25_500);
    // Exactly as many as asked for is not "more".
    bench.file("a.txt", "match\nmatch\n");
    assert!(!bench.ok("grep_search", json!({ "pattern": "match", "limit": 2 })).contains("more"));
}

#[test]
fn grep_shows_long_lines_around_the_match() {
    let bench = Bench::new();
    bench.file("min.js", format!("{}needle{}", "ü".repeat(5_000), "y".repeat(5_000)));
    let found = bench.ok("grep_search", json!({ "pattern": "needle" }));
    assert!(
        found.contains("min.js:1:…ü") && found.contains("needleyyy") && found.ends_with("y…\n"),
        "{found}"
    );
    assert!(found.chars().count() < 700);
}

#[test]
fn files_that_rules_forbid_are_not_found() {
    let base = tempfile::tempdir().unwrap();
    let rules = |texts: &[&str]| texts.iter().map(|text| Rule::parse(text).unwrap()).collect::<Vec<Rule>>();
    // The folder of the bench is not known yet, so these rules match anywhere.
    let permissions = Permissions::new(PermissionOptions {
        deny: rules(&["Read(.env)", "Read(secrets/)"]),
        ask: rules(&["Read(*.pem)"]),
        cwd: base.path().to_owned(),
        ..PermissionOptions::default()
    })
    .unwrap();
    let hidden = Arc::new(move |path: &std::path::Path| permissions.hides(path));
    let bench = Bench::with(Setup { hidden: Some(hidden), ..Setup::default() });
    bench.file(".env", "needle");
    bench.file("secrets/deep/key.txt", "needle");
    bench.file("id.pem", "needle");
    bench.file("open.txt", "needle");
    symlink(".env", bench.work().join("innocent")).unwrap();
    let found = bench.ok("grep_search", json!({ "pattern": "needle" }));
    assert_eq!(found, "1 line matches `needle` in `.`:\nopen.txt:1:needle\n");
    assert_eq!(
        bench.ok("grep_search", json!({ "pattern": "needle", "path": ".env" })),
        "No matches for `needle` in `.env`."
    );
    assert!(bench.ok("glob", json!({ "pattern": "**" })).starts_with("1 file matches"));
    assert_eq!(bench.ok("list_directory", json!({ "path": "." })), "In `.`:\nopen.txt\n");
    assert_eq!(bench.error("read_file", json!({ "file_path": "id.pen" })).1, "There is no file `id.pen`.");
}

#[test]
fn files_are_searched_side_by_side_and_shown_in_order() {
    let bench = Bench::new();
    for number in 0..400 {
        bench.file(&format!("d{:02}/f{number:03}.txt", number % 20), "hit\nmiss\nhit\nhit\n");
    }
    let first = bench.ok("grep_search", json!({ "pattern": "hit" }));
    let mut shown: Vec<&str> = first.lines().filter(|line| line.contains(".txt:")).collect();
    assert_eq!(shown.len(), 1_000);
    assert!(shown[0].starts_with("d00/f000.txt:1:") && shown[3].starts_with("d00/f020.txt:1:"), "{shown:?}");
    assert!(first.contains("there are more"));
    let before = shown.clone();
    shown.sort_unstable();
    assert_eq!(shown, before);
    for _ in 0..5 {
        assert_eq!(bench.ok("grep_search", json!({ "pattern": "hit" })), first);
        let few = bench.ok("grep_search", json!({ "pattern": "hit", "limit": 4 }));
        let lines: Vec<&str> = few.lines().filter(|line| line.contains(".txt:")).collect();
        assert_eq!(lines, before[..4]);
        assert!(few.starts_with("The first 4 lines match"), "{few}");
    }
    let all = bench.ok("grep_search", json!({ "pattern": "miss" }));
    assert!(all.starts_with("400 lines match") && !all.contains("there are more"), "{all}");
}

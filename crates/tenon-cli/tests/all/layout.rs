//! The map in `ARCHITECTURE.md` leads to files that exist, and the project names no place outside itself.

use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

#[test]
fn every_path_in_the_table_of_where_things_live_exists() {
    let text = std::fs::read_to_string(root().join("ARCHITECTURE.md")).unwrap();
    let table = text.split("## Where things live").nth(1).unwrap().split("\n## ").next().unwrap();
    let paths: Vec<&str> = table
        .lines()
        .filter(|line| line.starts_with('|'))
        .flat_map(|line| line.rsplit('|').nth(1).unwrap_or_default().split('`'))
        .filter(|word| word.ends_with(".rs"))
        .collect();
    assert!(paths.len() > 30, "the table is there: {paths:?}");
    for path in paths {
        assert!(root().join("crates").join(path).is_file(), "{path} does not exist");
    }
}

#[test]
fn lib_files_hold_only_documentation_modules_and_exports() {
    for entry in std::fs::read_dir(root().join("crates")).unwrap() {
        let file = entry.unwrap().path().join("src/lib.rs");
        let Ok(text) = std::fs::read_to_string(&file) else { continue };
        for word in ["fn ", "struct ", "enum ", "impl ", "trait "] {
            let found = text.lines().find(|line| {
                let line = line.trim_start();
                !line.starts_with("//") && line.trim_start_matches("pub ").starts_with(word)
            });
            assert_eq!(found, None, "{}", file.display());
        }
    }
}

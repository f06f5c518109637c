//! Every property test, with far more cases than a usual run tries.
//!
//! The tests are found in the source, not by a convention for their names: one that was forgotten would look
//! like one that passed.

use std::path::{Path, PathBuf};

use crate::Failure;
use crate::peers::workspace::{Binary, cargo_test, root};

const CASES: &str = "1024";
/// Each case there starts a process.
const CASES_OF_THE_BINARY: &str = "192";

pub fn run(_: &Binary) -> Result<(), Failure> {
    let crates = root().join("crates");
    let mut failed = Vec::new();
    for (of, cases) in [(Of::Libraries, CASES), (Of::Binary, CASES_OF_THE_BINARY)] {
        let mut names = Vec::new();
        for file in sources(&crates)? {
            let in_binary = file.starts_with(crates.join("tenon-cli"));
            if in_binary == matches!(of, Of::Binary) {
                names.extend(property_tests(&std::fs::read_to_string(file)?));
            }
        }
        if names.is_empty() {
            return Err(Failure::other("no property tests were found in the source"));
        }
        println!("{} tests, {cases} cases each", names.len());
        let status = cargo_test()
            .args(["--quiet", "--no-fail-fast", "--"])
            .args(&names)
            .env("PROPTEST_CASES", cases)
            .status()?;
        if !status.success() {
            failed.push(cases);
        }
    }
    if failed.is_empty() { Ok(()) } else { Err(Failure::other("a property does not hold; see above")) }
}

enum Of {
    Libraries,
    Binary,
}

fn sources(folder: &Path) -> Result<Vec<PathBuf>, Failure> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            files.extend(sources(&path)?);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
    Ok(files)
}

/// The functions with `#[test]` inside `proptest! { … }` of a formatted source: the block ends with a brace
/// in the column where it began.
fn property_tests(source: &str) -> Vec<String> {
    let mut names = Vec::new();
    let mut block_end: Option<String> = None;
    let mut is_test = false;
    for line in source.lines() {
        let text = line.trim_start();
        let Some(end) = &block_end else {
            if text.starts_with("proptest! {") {
                block_end = Some(format!("{}}}", &line[..line.len() - text.len()]));
            }
            continue;
        };
        if line == end {
            block_end = None;
        } else if text == "#[test]" {
            is_test = true;
        } else if let Some(rest) = text.strip_prefix("fn ")
            && std::mem::take(&mut is_test)
        {
            names.extend(rest.split('(').next().map(str::to_owned));
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn property_tests_are_found_in_their_blocks() {
        let source = "\
#[test]
fn before() {}
mod tests {
    proptest! {
        #![proptest_config(cases(8))]
        /// A comment.
        #[test]
        fn one(a in any::<u8>()) {
            let x = |y| { y };
        }

        #[test]
        fn two(
            a in any::<u8>(),
        ) {
            fn helper() {}
        }
    }

    #[test]
    fn after() {}
}
";
        assert_eq!(property_tests(source), ["one", "two"]);
    }

    #[test]
    fn the_workspace_has_some() {
        let Ok(files) = sources(&root().join("crates")) else { panic!("cannot read the sources") };
        let found = files.iter().filter_map(|file| std::fs::read_to_string(file).ok());
        assert!(found.flat_map(|source| property_tests(&source)).count() > 20);
    }
}

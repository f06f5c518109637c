//! Suggestions of files in a large tree: the first answer, for which the tree is walked, and one letter more.

use std::fs;
use std::path::Path;
use std::time::Instant;

use tenon_core::Cancel;
use tenon_tools::{FileIndex, Typed, Workspace, WorkspaceOptions};

use crate::Failure;

/// A very large repository.
const FILES: usize = 100_000;
const FILES_IN_A_FOLDER: usize = 50;
const ROUNDS: usize = 9;
/// What clients are shown at most.
const MOST: usize = 20;
/// Something rare, and nothing.
const TYPED: [&str; 2] = ["f99123", "zzzz"];
/// What every file fits, so that each is compared to its end and ranked: by its whole path, by its name, by long words,
/// and by nothing at all.
const TYPED_BY_ALL: [&str; 4] = ["srs", "f.rs", "src/module_part_f.rs", ""];

pub struct Hinted {
    /// Medians, in seconds: until the first answer of a process, and for the slowest of the words typed later.
    pub cold: f64,
    pub warm: f64,
}

pub fn hints() -> Result<Hinted, Failure> {
    let folder = tempfile::tempdir()?;
    fill(folder.path())?;
    let workspace = Workspace::new(WorkspaceOptions::new(folder.path()))?;
    let (mut cold, mut warm) = (Vec::new(), Vec::new());
    // The first round fills the system's cache, as whoever cloned the tree did.
    for round in 0..=ROUNDS {
        let start = Instant::now();
        let index = FileIndex::build(&workspace, &Cancel::new());
        let found = index.best(&Typed::new(TYPED[0]), MOST);
        let first = start.elapsed().as_secs_f64();
        if index.len() < FILES || found.first().is_none_or(|path| !path.ends_with("f99123.rs")) {
            return Err(Failure::other(format!("{} paths are known, and {found:?} fit", index.len())));
        }
        let mut slowest = 0.0_f64;
        for typed in TYPED.into_iter().chain(TYPED_BY_ALL) {
            let start = Instant::now();
            let found = index.best(&Typed::new(typed), MOST);
            slowest = slowest.max(start.elapsed().as_secs_f64());
            drop(found);
        }
        if let Some(typed) = TYPED_BY_ALL.iter().find(|typed| fitting(&index, typed) < FILES) {
            return Err(Failure::other(format!("`{typed}` does not fit every file")));
        }
        if round > 0 {
            cold.push(first);
            warm.push(slowest);
        }
    }
    Ok(Hinted { cold: crate::bench::median(cold), warm: crate::bench::median(warm) })
}

fn fitting(index: &FileIndex, typed: &str) -> usize {
    index.best(&Typed::new(typed), index.len()).len()
}

fn fill(folder: &Path) -> Result<(), Failure> {
    for number in 0..FILES {
        let place = folder
            .join("src")
            .join(format!("module_{:03}", number / FILES_IN_A_FOLDER / 20))
            .join(format!("part_{:02}", number / FILES_IN_A_FOLDER % 20));
        if number % FILES_IN_A_FOLDER == 0 {
            fs::create_dir_all(&place)?;
        }
        fs::File::create(place.join(format!("f{number}.rs")))?;
    }
    fs::write(folder.join(".gitignore"), "target/\n*.log\n")?;
    Ok(())
}

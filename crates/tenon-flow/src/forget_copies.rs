//! Copies of a repository that are about to be removed with their run: the repository forgets them first.
//!
//! A copy says in its `.git` where the repository keeps its record of it, and that record says where the copy is. Only a record
//! that names the copy is removed, as `git worktree prune` would once the copy is gone. How copies are made is `isolation.rs`.

use std::fs;
use std::path::{Path, PathBuf};

/// The folder of a repository that holds its records of copies.
const RECORDS: &str = "worktrees";
/// A run's id, a step's key and its parts: copies are no deeper below the folder than that.
const MAX_DEPTH: usize = 32;

/// Makes the repositories of all copies below a folder forget them. The copies stay.
pub fn forget_copies(folder: &Path) {
    let mut folders = vec![(folder.to_owned(), 0)];
    while let Some((folder, depth)) = folders.pop() {
        if let Some(record) = record_of(&folder) {
            // What cannot be removed is pruned by git in time.
            let _ = fs::remove_dir_all(record);
            continue;
        }
        if depth < MAX_DEPTH {
            let inner = fs::read_dir(&folder).into_iter().flatten().flatten();
            let is_folder = |entry: &fs::DirEntry| entry.file_type().is_ok_and(|kind| kind.is_dir());
            folders.extend(inner.filter(is_folder).map(|entry| (entry.path(), depth + 1)));
        }
    }
}

/// Makes a repository, by its own folder, forget a copy whose folder is gone. How many records of it there were.
pub(crate) fn forget_gone(repository: &Path, copy: &Path) -> usize {
    let own = copy.join(".git");
    let records = fs::read_dir(repository.join(RECORDS)).into_iter().flatten().flatten();
    let is_of_copy = |record: &PathBuf| {
        let named = fs::read_to_string(record.join("gitdir"));
        named.is_ok_and(|named| real(Path::new(named.trim_end())) == real(&own))
    };
    let records = records.map(|entry| entry.path()).filter(is_of_copy);
    records.filter(|record| fs::remove_dir_all(record).is_ok()).count()
}

/// A path in the words of the system, as far as there is something of it.
fn real(path: &Path) -> PathBuf {
    match (path.canonicalize(), path.parent(), path.file_name()) {
        (Ok(real), _, _) => real,
        (Err(_), Some(around), Some(name)) => real(around).join(name),
        _ => path.to_owned(),
    }
}

/// Where the repository keeps its record of a copy, if this is one and the record says so too.
fn record_of(copy: &Path) -> Option<PathBuf> {
    let own = copy.join(".git");
    let said = fs::read_to_string(&own).ok()?;
    let record = PathBuf::from(said.strip_prefix("gitdir: ")?.trim_end());
    let is_record = record.parent().and_then(Path::file_name).is_some_and(|name| name == RECORDS);
    let named = fs::read_to_string(record.join("gitdir")).ok().filter(|_| is_record)?;
    let same = |left: &Path, right: &Path| left.canonicalize().ok() == right.canonicalize().ok();
    same(Path::new(named.trim_end()), &own).then_some(record)
}

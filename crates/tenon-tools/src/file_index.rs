//! The names of all files and folders of a workspace, to be found again by a few typed letters.
//!
//! Ignored and secret files are not in it (`secret_file.rs`), nor what a rule hides. The paths stand packed in one
//! text, so that a hundred thousand of them are compared without an allocation. When the index is built and how long it
//! is used is decided by whoever asks (`tenon-session/src/hints.rs`).

use std::collections::BinaryHeap;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use ignore::{DirEntry, ParallelVisitor, ParallelVisitorBuilder, WalkState};
use tenon_core::Cancel;

use crate::Workspace;
use crate::fuzzy::{Typed, mask};
use crate::secret_file::is_secret_name;
use crate::walk::{self, Ignored};

/// More bytes of names than this are no project; the rest is left out.
const MAX_BYTES: usize = 64 * 1024 * 1024;

/// What it is worth to lie in the folder that somebody works in: about as much as the name beginning with what was typed.
const NEAR: i32 = 40;

/// Paths relative to the working folder; those of added folders are absolute. Folders end with a slash.
#[derive(Debug, Default)]
pub struct FileIndex {
    text: Vec<u8>,
    /// Where each path ends in `text`.
    ends: Vec<usize>,
    /// Which letters a path has.
    masks: Vec<u64>,
}

impl FileIndex {
    /// Walks all folders of the workspace, side by side. What was found so far, when `cancel` falls.
    pub fn build(workspace: &Workspace, cancel: &Cancel) -> FileIndex {
        let index = Mutex::new(FileIndex::default());
        let roots = workspace.roots();
        for (at, root) in roots.iter().enumerate() {
            let below_another = roots[..at].iter().any(|other| root.starts_with(other));
            if below_another {
                continue;
            }
            let strip = if at == 0 { root.as_path() } else { Path::new("") };
            let mut visitors = Visitors { workspace, cancel, strip, index: &index };
            walk::walker(root, Ignored::Skipped).build_parallel().visit(&mut visitors);
        }
        index.into_inner().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn len(&self) -> usize {
        self.ends.len()
    }

    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// The paths that fit best, the best first.
    pub fn best(&self, typed: &Typed, most: usize) -> Vec<String> {
        self.best_near(typed, most, "")
    }

    /// The same, with paths that begin with `near` before others that fit as well.
    pub fn best_near(&self, typed: &Typed, most: usize, near: &str) -> Vec<String> {
        // The worst of the kept ones is on top, so that it can be thrown out.
        let mut kept: BinaryHeap<(std::cmp::Reverse<i32>, &[u8])> = BinaryHeap::with_capacity(most + 1);
        // What is no better than this cannot be kept any more; where everything fits, that is nearly everything.
        let mut worst: (i32, &[u8]) = (i32::MIN, &[]);
        let mut start = 0;
        for (at, end) in self.ends.iter().enumerate() {
            let path = &self.text[start..*end];
            start = *end;
            if !typed.may_fit(self.masks[at]) {
                continue;
            }
            let Some(mut score) = typed.score(path) else { continue };
            if !near.is_empty() && path.starts_with(near.as_bytes()) {
                score += NEAR;
            }
            if score < worst.0 || score == worst.0 && path >= worst.1 {
                continue;
            }
            kept.push((std::cmp::Reverse(score), path));
            if kept.len() > most {
                kept.pop();
                worst = kept.peek().map_or(worst, |(score, path)| (score.0, path));
            }
        }
        let sorted = kept.into_sorted_vec();
        sorted.into_iter().map(|(_, path)| String::from_utf8_lossy(path).into_owned()).collect()
    }

    fn push(&mut self, path: &[u8], is_folder: bool) {
        self.text.extend_from_slice(path);
        if is_folder {
            self.text.push(b'/');
        }
        self.ends.push(self.text.len());
        self.masks.push(mask(path) | if is_folder { mask(b"/") } else { 0 });
    }

    fn append(&mut self, other: &mut FileIndex) {
        let offset = self.text.len();
        self.text.append(&mut other.text);
        self.ends.extend(other.ends.drain(..).map(|end| end + offset));
        self.masks.append(&mut other.masks);
    }
}

struct Visitors<'a> {
    workspace: &'a Workspace,
    cancel: &'a Cancel,
    strip: &'a Path,
    index: &'a Mutex<FileIndex>,
}

impl<'s, 'a: 's> ParallelVisitorBuilder<'s> for Visitors<'a> {
    fn build(&mut self) -> Box<dyn ParallelVisitor + 's> {
        Box::new(Visitor {
            workspace: self.workspace,
            cancel: self.cancel,
            strip: self.strip,
            found: FileIndex::default(),
            index: self.index,
        })
    }
}

/// What one thread has found; it is added to the whole when the thread is done.
struct Visitor<'a> {
    workspace: &'a Workspace,
    cancel: &'a Cancel,
    strip: &'a Path,
    found: FileIndex,
    index: &'a Mutex<FileIndex>,
}

impl ParallelVisitor for Visitor<'_> {
    fn visit(&mut self, entry: Result<DirEntry, ignore::Error>) -> WalkState {
        let Ok(entry) = entry else { return WalkState::Continue };
        if self.cancel.is_cancelled() || self.found.text.len() > MAX_BYTES {
            return WalkState::Quit;
        }
        if entry.depth() == 0 {
            return WalkState::Continue;
        }
        if is_secret_name(entry.file_name()) || !walk::is_visible(self.workspace, &entry) {
            return WalkState::Skip;
        }
        let is_folder = entry.file_type().is_some_and(|kind| kind.is_dir());
        self.found.push(walk::below(self.strip, entry.path()).as_os_str().as_bytes(), is_folder);
        WalkState::Continue
    }
}

impl Drop for Visitor<'_> {
    fn drop(&mut self) {
        self.index.lock().unwrap_or_else(PoisonError::into_inner).append(&mut self.found);
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::WorkspaceOptions;

    #[test]
    fn files_and_folders_are_found_and_ignored_and_secret_ones_are_not() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        for file in ["src/main.rs", "src/deep/er/main_loop.rs", "target/main.o", ".env", "k/id_rsa", "a.log"]
        {
            fs::create_dir_all(root.join(file).parent().unwrap()).unwrap();
            fs::write(root.join(file), "").unwrap();
        }
        fs::create_dir_all(root.join(".git/objects")).unwrap();
        fs::write(root.join(".gitignore"), "target/\n*.log\n").unwrap();
        let workspace = Workspace::new(WorkspaceOptions::new(root)).unwrap();
        let index = FileIndex::build(&workspace, &Cancel::new());
        let mut all = index.best(&Typed::new(""), 100);
        all.sort();
        let wanted = [
            ".gitignore",
            "k/",
            "src/",
            "src/deep/",
            "src/deep/er/",
            "src/deep/er/main_loop.rs",
            "src/main.rs",
        ];
        assert_eq!(all, wanted);
        assert_eq!(index.best(&Typed::new("main"), 2), ["src/main.rs", "src/deep/er/main_loop.rs"]);
        assert_eq!(index.best(&Typed::new("mainloop"), 5), ["src/deep/er/main_loop.rs"]);
        assert_eq!(index.best(&Typed::new("deep/"), 1), ["src/deep/"]);
        assert_eq!(index.best(&Typed::new("env"), 5), [""; 0]);
        assert_eq!(index.best_near(&Typed::new("main"), 1, "src/deep/"), ["src/deep/er/main_loop.rs"]);
    }
}

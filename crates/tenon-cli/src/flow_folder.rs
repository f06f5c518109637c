//! The folder of a run that is kept, beside the journal: outputs that were too large for the model, the copies of the
//! repository that isolated steps work in, and which commands run. Whoever goes on with the run finds them under the same paths.
//!
//! It belongs to its owner alone, is made when something is put into it, and goes with the run: `tenon flow delete`, retention.
//! What a run that is not kept has of these is in a temporary folder (`flow_prepare.rs`).

use std::path::{Path, PathBuf};

use tenon_flow::{Journal, forget_copies};

/// Beside the journal; one folder for each run in it.
const RUNS: &str = "runs";
const OUTPUTS: &str = "outputs";
const COPIES: &str = "copies";
const COMMANDS: &str = "commands";

#[derive(Clone, Debug)]
pub struct RunFolder {
    path: PathBuf,
}

impl RunFolder {
    pub fn of(journal: &Journal, run_id: &str) -> RunFolder {
        RunFolder::in_home(journal.path().parent().unwrap_or(Path::new(".")), run_id)
    }

    pub fn in_home(home: &Path, run_id: &str) -> RunFolder {
        RunFolder { path: home.join(RUNS).join(run_id) }
    }

    /// Where commands are written down while they run.
    pub fn commands(&self) -> PathBuf {
        self.path.join(COMMANDS)
    }

    pub fn outputs(&self) -> PathBuf {
        self.path.join(OUTPUTS)
    }

    pub fn copies(&self) -> PathBuf {
        self.path.join(COPIES)
    }

    /// Takes away what holds nothing.
    pub fn tidy(&self) {
        remove_empty(&self.path);
    }

    /// The run is gone, and everything of it. Repositories no longer know of its copies.
    pub fn remove(&self) {
        remove_copies(&self.copies());
        // Most runs have none.
        let _ = std::fs::remove_dir_all(&self.path);
    }
}

/// Copies below a folder, and the folder.
pub fn remove_copies(folder: &Path) {
    forget_copies(folder);
    let _ = std::fs::remove_dir_all(folder);
}

/// Folders without files: what is left of copies that are gone. A copy that could not be put away stays.
pub fn remove_empty(folder: &Path) {
    if let Ok(inner) = std::fs::read_dir(folder) {
        // A link to a folder is no folder.
        let is_folder = |entry: &std::fs::DirEntry| entry.file_type().is_ok_and(|kind| kind.is_dir());
        inner.flatten().filter(is_folder).for_each(|entry| remove_empty(&entry.path()));
    }
    // It may hold something, or may never have been made.
    let _ = std::fs::remove_dir(folder);
}

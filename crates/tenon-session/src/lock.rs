//! One writer for a session: a lock on its file that ends with the process, however it ends.
//!
//! The lock says that somebody writes; a small file beside it says who, and means nothing without the lock.

use std::fs::{File, TryLockError};
use std::io::Write;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// Held as long as the session is written.
#[derive(Debug)]
pub(crate) struct Writer {
    name_tag: PathBuf,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    /// Somebody else has it.
    InUse(Option<u32>),
    /// It was deleted while we took the lock.
    Gone,
}

impl Writer {
    /// Takes the lock on a session's open file, at once or not at all. A file system that knows no locks
    /// gives none, and the session is used without.
    pub(crate) fn take(file: &File, path: &Path) -> Result<Writer, Refused> {
        if let Err(TryLockError::WouldBlock) = file.try_lock() {
            return Err(Refused::InUse(writer_of(path)));
        }
        if !is_at(file, path) {
            return Err(Refused::Gone);
        }
        let name_tag = name_tag(path);
        let mut options = File::options();
        options.write(true).create(true).truncate(true).mode(0o600);
        // Only for the message somebody else would get.
        let _ = options.open(&name_tag).and_then(|mut file| write!(file, "{}", std::process::id()));
        Ok(Writer { name_tag })
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        // Before the lock goes, so that nobody's tag but ours is removed.
        let _ = std::fs::remove_file(&self.name_tag);
    }
}

/// Who says that they write this session.
pub(crate) fn writer_of(path: &Path) -> Option<u32> {
    std::fs::read_to_string(name_tag(path)).ok()?.trim().parse().ok()
}

fn name_tag(path: &Path) -> PathBuf {
    path.with_extension("pid")
}

fn is_at(file: &File, path: &Path) -> bool {
    match (file.metadata(), std::fs::metadata(path)) {
        (Ok(ours), Ok(there)) => ours.ino() == there.ino() && ours.dev() == there.dev(),
        _ => false,
    }
}

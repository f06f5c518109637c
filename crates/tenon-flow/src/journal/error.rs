//! What can be wrong with the journal, in words for whoever runs a workflow.

use std::path::{Path, PathBuf};

use rusqlite::ErrorCode;

#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    #[error("there is no run `{id}`")]
    Unknown { id: String },
    #[error("`{prefix}` is the beginning of several runs: {}{}", .ids.join(", "), and_more(*.more))]
    Ambiguous { prefix: String, ids: Vec<String>, more: u64 },
    #[error("there is a run `{id}` already")]
    Exists { id: String },
    #[error("the run `{id}` is being run by process {pid}")]
    Held { id: String, pid: u32 },
    /// Its rows would be mixed with another's.
    #[error("the run `{id}` was taken over by another process, or deleted")]
    Lost { id: String },
    #[error("`{}` was written by a newer tenon (format {found})", path.display())]
    Newer { path: PathBuf, found: i64 },
    #[error("`{}` is no journal of workflow runs", path.display())]
    Foreign { path: PathBuf },
    #[error("row {seq} of the run `{id}` cannot be read: {why}")]
    Damaged { id: String, seq: u64, why: String },
    /// It holds whole conversations.
    #[error("`{}` can be read by others, and that cannot be changed: {error}", path.display())]
    Exposed { path: PathBuf, error: std::io::Error },
    #[error("`{}`: {error}", path.display())]
    Unusable { path: PathBuf, error: std::io::Error },
    /// The file has a problem.
    #[error("the journal cannot be used: `{}`: {why}", path.display())]
    File { path: PathBuf, trouble: Trouble, why: String },
    /// The same, before it is known which file.
    #[error("the journal cannot be used: {0}")]
    Database(#[from] rusqlite::Error),
    #[error("the journal's thread cannot be started: {0}")]
    NoThread(String),
    #[error("the journal's thread has ended")]
    Ended,
}

/// What is the matter with the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trouble {
    NoRoom,
    Locked,
    Damaged,
    NotWritable,
    Other,
}

fn and_more(more: u64) -> String {
    if more == 0 { String::new() } else { format!(" and {more} more") }
}

impl JournalError {
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            JournalError::Unknown { .. } => Some("`tenon flow list` shows the runs there are"),
            JournalError::Ambiguous { .. } => Some("write more of the id"),
            JournalError::Exists { .. } => Some("choose another `--run-id`, or `tenon flow resume` it"),
            JournalError::Held { .. } => Some("wait for it, or stop it with `tenon flow cancel`"),
            JournalError::Lost { .. } => Some(
                "one process at a time runs a run: `tenon flow list` shows whether it is there and who runs it",
            ),
            JournalError::Newer { .. } => Some("use the newer tenon, or another `TENON_HOME`"),
            JournalError::Foreign { .. } => Some("move the file away, or use another `TENON_HOME`"),
            JournalError::Exposed { .. } => {
                Some("have its owner run `chmod 600` on it, or use another `TENON_HOME`")
            }
            JournalError::Damaged { .. } => Some("`tenon flow export` prints what can be read of it"),
            JournalError::File { trouble, .. } => match trouble {
                Trouble::NoRoom => Some("make room on its disk, or use another `TENON_HOME`"),
                Trouble::Locked => Some("another program holds it: try again when that is done"),
                Trouble::Damaged => Some("move the file away, or use another `TENON_HOME`"),
                Trouble::NotWritable => {
                    Some("may it and its folder be written to? `TENON_HOME` names another")
                }
                Trouble::Other => None,
            },
            _ => None,
        }
    }

    /// With the name of the file.
    pub(super) fn at(self, path: &Path) -> JournalError {
        match self {
            JournalError::Database(error) => of_file(path, &error),
            other => other,
        }
    }
}

pub(super) fn of_file(path: &Path, error: &rusqlite::Error) -> JournalError {
    let trouble = match error.sqlite_error_code() {
        Some(ErrorCode::DiskFull) => Trouble::NoRoom,
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked | ErrorCode::FileLockingProtocolFailed) => {
            Trouble::Locked
        }
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => Trouble::Damaged,
        Some(ErrorCode::ReadOnly | ErrorCode::PermissionDenied | ErrorCode::CannotOpen) => {
            Trouble::NotWritable
        }
        // A write that the disk refuses is told like this where the limit is one of files.
        Some(ErrorCode::SystemIoFailure) => Trouble::NoRoom,
        _ => Trouble::Other,
    };
    JournalError::File { path: path.to_owned(), trouble, why: error.to_string() }
}

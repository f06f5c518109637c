//! What can be wrong with the journal, in words for whoever runs a workflow.

use std::path::PathBuf;

#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    #[error("there is no run `{id}`")]
    Unknown { id: String },
    #[error("`{prefix}` is the beginning of several runs: {}", .ids.join(", "))]
    Ambiguous { prefix: String, ids: Vec<String> },
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
    #[error("`{}`: {error}", path.display())]
    Unusable { path: PathBuf, error: std::io::Error },
    #[error("the journal cannot be used: {0}")]
    Database(#[from] rusqlite::Error),
    /// Its message is that of the first one told; the transaction was shared.
    #[error("the journal cannot be written: {0}")]
    Commit(String),
    #[error("the journal's thread has ended")]
    Ended,
}

impl JournalError {
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            JournalError::Unknown { .. } => Some("`tenon flow list` shows the runs there are"),
            JournalError::Ambiguous { .. } => Some("write more of the id"),
            JournalError::Exists { .. } => Some("choose another `--run-id`, or `tenon flow resume` it"),
            JournalError::Held { .. } => Some("wait for it, or stop it with `tenon flow cancel`"),
            JournalError::Newer { .. } => Some("use the newer tenon, or another `TENON_HOME`"),
            JournalError::Foreign { .. } => Some("move the file away, or use another `TENON_HOME`"),
            _ => None,
        }
    }
}

//! Why a session cannot be used, in words for a person. Which of these end a run is for the binary to say.

use std::io;
use std::path::PathBuf;

use tenon_core::Id;

use crate::FORMAT;

/// Why a session cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum SessionError {
    #[error("the session {id} is in use{}", by(*.pid))]
    InUse { id: Id, pid: Option<u32> },
    #[error("there is a session {id} already")]
    Exists { id: Id },
    #[error("there is no session {id} in this folder")]
    Missing { id: Id },
    #[error("the session {id} was written by a newer tenon (format {format}, and this one reads {FORMAT})")]
    Newer { id: Id, format: u32 },
    #[error("`{}` cannot be read: {error}", .path.display())]
    Unreadable { path: PathBuf, error: io::Error },
    /// Recording is not possible; a run can do without.
    #[error("`{}` cannot be written: {error}", .path.display())]
    Unwritable { path: PathBuf, error: io::Error },
}

fn by(pid: Option<u32>) -> String {
    pid.map(|pid| format!(" by the process {pid}")).unwrap_or_default()
}

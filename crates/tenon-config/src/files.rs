//! Reading a file that somebody else may have put there: regular, of bounded size, and inside its folder
//! where that matters.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::Path;

/// What stands at a path.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Found {
    Missing,
    /// The bytes, and whether there were more than the cap.
    Bytes {
        bytes: Vec<u8>,
        size: Size,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Size {
    Whole,
    /// The file holds this many bytes or more; only the capped start was read.
    Cut {
        total: u64,
    },
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Confine<'a> {
    /// The user's own file may be a symlink to anywhere.
    Anywhere,
    /// A project's file may not lead out of the project. The path must be canonical.
    Inside(&'a Path),
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum FileProblem {
    #[error("it is not a regular file")]
    NotRegular,
    #[error("it is a link that leads out of the project")]
    LeadsOut,
    #[error("{0}")]
    Io(#[from] io::Error),
}

/// Reads at most `cap` bytes. Nothing but a regular file is opened: a FIFO would wait for ever.
pub(crate) fn read_capped(path: &Path, cap: u64, confine: Confine<'_>) -> Result<Found, FileProblem> {
    let real = match fs::canonicalize(path) {
        Ok(real) => real,
        // A link to nothing is not a missing file, but reads the same and is as harmless.
        Err(error) if is_missing(&error) => return Ok(Found::Missing),
        Err(error) => return Err(error.into()),
    };
    if let Confine::Inside(root) = confine
        && !real.starts_with(root)
    {
        return Err(FileProblem::LeadsOut);
    }
    if !fs::metadata(&real)?.is_file() {
        return Err(FileProblem::NotRegular);
    }
    let file = File::open(&real)?;
    let metadata = file.metadata()?;
    if !metadata.is_file() {
        return Err(FileProblem::NotRegular);
    }
    let mut bytes = Vec::new();
    file.take(cap + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > cap {
        let total = metadata.len().max(bytes.len() as u64);
        bytes.truncate(usize::try_from(cap).unwrap_or(usize::MAX));
        return Ok(Found::Bytes { bytes, size: Size::Cut { total } });
    }
    Ok(Found::Bytes { bytes, size: Size::Whole })
}

fn is_missing(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

//! The files of a document as a run began with them: enough to load it again when they have changed, or are gone.
//!
//! A load takes its files from the disk and keeps what it took ([`Pinned`]); a run that goes on takes them from there.
//! What a step names in `contextFiles` is not part of the document: it is read when the step starts.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::references::{self, RefError};

/// A document and every file it refers to, as text.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pinned {
    /// The document as it was called, relative to wherever that was.
    pub file: PathBuf,
    /// Where it is.
    pub path: PathBuf,
    /// What names of files mean, by the folder of the document that names them.
    names: BTreeMap<PathBuf, BTreeMap<String, PathBuf>>,
    texts: BTreeMap<PathBuf, String>,
}

/// A document that cannot be kept, or one that was kept and cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("the document cannot be kept: {0}")]
pub struct NotPinned(#[from] serde_json::Error);

impl Pinned {
    pub fn to_json(&self) -> Result<String, NotPinned> {
        Ok(serde_json::to_string(self)?)
    }

    pub fn from_json(text: &str) -> Result<Pinned, NotPinned> {
        Ok(serde_json::from_str(text)?)
    }
}

/// Where the files of one load come from.
pub(crate) enum Files {
    /// What is read is kept.
    Disk(RefCell<Pinned>),
    Kept(Pinned),
}

impl Files {
    pub fn disk(file: &Path, path: &Path) -> Files {
        let (file, path) = (file.to_owned(), path.to_owned());
        Files::Disk(RefCell::new(Pinned { file, path, ..Pinned::default() }))
    }

    /// The file that `name` means in a document of this folder.
    pub fn confined(&self, folder: &Path, name: &str) -> Result<PathBuf, RefError> {
        match self {
            Files::Disk(kept) => {
                let path = references::confined(folder, name)?;
                let mut kept = kept.borrow_mut();
                kept.names.entry(folder.to_owned()).or_default().insert(name.to_owned(), path.clone());
                Ok(path)
            }
            Files::Kept(kept) => {
                kept.names.get(folder).and_then(|names| names.get(name)).cloned().ok_or_else(|| missing(name))
            }
        }
    }

    pub fn read_text(&self, path: &Path, name: &str) -> Result<String, RefError> {
        match self {
            Files::Disk(kept) => {
                let text = references::read_text(path, name)?;
                kept.borrow_mut().texts.insert(path.to_owned(), text.clone());
                Ok(text)
            }
            Files::Kept(kept) => kept.texts.get(path).cloned().ok_or_else(|| missing(name)),
        }
    }

    pub fn into_pinned(self) -> Pinned {
        match self {
            Files::Disk(kept) => kept.into_inner(),
            Files::Kept(kept) => kept,
        }
    }
}

fn missing(name: &str) -> RefError {
    RefError::Missing { name: name.to_owned(), reason: "the run does not hold it".to_owned() }
}

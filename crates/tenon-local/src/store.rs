//! The folder with weights: what is there, what a name means, and files that are ready to be computed with.
//!
//! A model that was pulled is stored ready, under its name. Of a file of the user's own that is not, a converted copy is
//! kept in `cache/`. Files appear whole: written beside, then renamed. Getting them here is `pull.rs`' business.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use ring::digest::{Context, SHA256};

use crate::error::{GgufError, LocalError};
use crate::gguf::Gguf;
use crate::manifest::{DEFAULT, Entry, entries, entry};
use crate::model::is_ready;
use crate::requantise::{converted_bytes, requantise};
use crate::sys;

/// Left free on the disk.
const SPARE_BYTES: u64 = 32 << 20;

/// `$TENON_HOME/models`
#[derive(Clone, Debug)]
pub struct Store {
    folder: PathBuf,
}

/// What stands behind `local/`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Weights {
    Named(&'static Entry),
    File(PathBuf),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Installed {
    pub path: PathBuf,
    pub bytes: u64,
}

impl Weights {
    /// `id` is what follows `local/`; `None` or `default` is the default model. Files are relative to `folder`.
    pub fn find(id: Option<&str>, folder: &Path) -> Result<Weights, LocalError> {
        let id = id.filter(|id| !id.is_empty()).unwrap_or(DEFAULT);
        if let Some(entry) = entry(id) {
            return Ok(Weights::Named(entry));
        }
        if id.ends_with(".gguf") {
            return Ok(Weights::File(folder.join(id)));
        }
        Err(LocalError::UnknownModel {
            name: id.to_owned(),
            known: entries().iter().map(|entry| entry.name).collect(),
        })
    }
}

impl Store {
    pub fn new(folder: PathBuf) -> Store {
        Store { folder }
    }

    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Where the weights of a model are, or will be.
    pub fn path(&self, entry: &Entry) -> PathBuf {
        self.folder.join(format!("{}.gguf", entry.name))
    }

    pub fn installed(&self, entry: &Entry) -> Option<Installed> {
        let path = self.path(entry);
        let bytes = fs::metadata(&path).ok().filter(fs::Metadata::is_file)?.len();
        Some(Installed { path, bytes })
    }

    /// Removes a model and what a download has left. `false` when there was nothing.
    pub fn remove(&self, entry: &Entry) -> Result<bool, LocalError> {
        let mut removed = false;
        for path in [self.path(entry), self.part(entry), self.part(entry).with_extension("ready")] {
            match fs::remove_file(&path) {
                Ok(()) => removed = true,
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(LocalError::Write { path, error }),
            }
        }
        Ok(removed)
    }

    /// A file that can be computed with: the model's own, or a converted copy. Blocks while it converts; `go_on` is asked now and then.
    pub fn ready(
        &self,
        weights: &Weights,
        tell: &mut dyn FnMut(&str),
        go_on: &mut dyn FnMut() -> bool,
    ) -> Result<PathBuf, LocalError> {
        let path = match weights {
            Weights::Named(entry) => {
                let found = self.installed(entry).map(|installed| installed.path);
                return found.ok_or_else(|| LocalError::NoWeights { name: entry.name.to_owned() });
            }
            Weights::File(path) => path,
        };
        let read = |error| LocalError::Read { path: path.clone(), error };
        let file = File::open(path).map_err(read)?;
        let about = file.metadata().map_err(read)?;
        if !about.is_file() {
            return Err(read(io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file")));
        }
        let map = sys::map(&file).map_err(read)?;
        let header = Gguf::parse(&map).map_err(|error| LocalError::BadFile { path: path.clone(), error })?;
        if is_ready(&header) {
            return Ok(path.clone());
        }
        // A file that was replaced or written to since has another name in the cache.
        let place = path.canonicalize().map_err(read)?;
        let identity =
            format!("{}\n{}\n{}\n{}", place.display(), about.len(), about.mtime(), about.mtime_nsec());
        let folder = self.folder.join("cache");
        make_folder(&folder)?;
        let ready = folder.join(format!("{}.gguf", &sha256_text(identity.as_bytes())[..32]));
        if !ready.is_file() {
            tell(&format!("converting `{}` for this machine, once", path.display()));
            self.convert(path, &header, &ready, go_on)?;
        }
        Ok(ready)
    }

    /// The file that a download is written to.
    pub(crate) fn part(&self, entry: &Entry) -> PathBuf {
        self.folder.join(format!(".{}.part", entry.name))
    }

    pub(crate) fn make_folder(&self) -> Result<(), LocalError> {
        make_folder(&self.folder)
    }

    pub(crate) fn check_space(&self, needed: u64, path: &Path) -> Result<(), LocalError> {
        match sys::free_bytes(&self.folder) {
            Some(free) if free < needed.saturating_add(SPARE_BYTES) => Err(LocalError::NoSpace {
                path: path.to_owned(),
                needed: needed.saturating_add(SPARE_BYTES) >> 20,
                free: free >> 20,
            }),
            _ => Ok(()),
        }
    }

    /// Checks a downloaded file and puts it, ready, under its name.
    pub(crate) fn install(&self, entry: &Entry, part: &Path) -> Result<PathBuf, LocalError> {
        let read = |error| LocalError::Read { path: part.to_owned(), error };
        let map = sys::map(&File::open(part).map_err(read)?).map_err(read)?;
        let header =
            Gguf::parse(&map).map_err(|error| LocalError::BadFile { path: part.to_owned(), error })?;
        let target = self.path(entry);
        match is_ready(&header) {
            true => fs::rename(part, &target)
                .map_err(|error| LocalError::Write { path: target.clone(), error })?,
            false => {
                self.convert(part, &header, &target, &mut || true)?;
                // It is no longer needed; that it is still there harms nobody.
                let _ = fs::remove_file(part);
            }
        }
        Ok(target)
    }

    fn convert(
        &self,
        source: &Path,
        header: &Gguf<'_>,
        target: &Path,
        go_on: &mut dyn FnMut() -> bool,
    ) -> Result<(), LocalError> {
        self.check_space(converted_bytes(header), target)?;
        let beside = target.with_extension(format!("{}.ready", std::process::id()));
        let write = |error: io::Error| match error.kind() {
            io::ErrorKind::Interrupted => LocalError::Cancelled,
            io::ErrorKind::InvalidData => LocalError::BadFile {
                path: source.to_owned(),
                error: GgufError::broken("a tensor is too large"),
            },
            _ => LocalError::Write { path: beside.clone(), error },
        };
        let written = create(&beside).and_then(|file| {
            requantise(header, &file, go_on)?;
            file.sync_all()?;
            fs::rename(&beside, target)
        });
        written.map_err(|error| {
            let _ = fs::remove_file(&beside);
            write(error)
        })
    }
}

fn make_folder(folder: &Path) -> Result<(), LocalError> {
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(folder)
        .map_err(|error| LocalError::Write { path: folder.to_owned(), error })
}

fn create(path: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path)
}

pub(crate) fn sha256_text(bytes: &[u8]) -> String {
    hex(ring::digest::digest(&SHA256, bytes).as_ref())
}

pub(crate) fn sha256_file(path: &Path) -> io::Result<String> {
    let mut file = File::open(path)?;
    let mut context = Context::new(&SHA256);
    let mut buffer = vec![0; 1 << 20];
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok(hex(context.finish().as_ref())),
            count => context.update(&buffer[..count]),
        }
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

//! Which files the tools can reach, and what they have already read.
//!
//! Confinement is not permission: whatever a rule allows (`permission.rs`), a file tool stays inside the
//! roots. The shell is not confined here.

use std::collections::HashMap;
use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use ring::digest::{Context, SHA256};
use tenon_core::SeenFile;

use crate::OutputStore;
use crate::paths::{self, PathError};

/// Says which files searches and listings pass over, as if they were not there.
pub type Hidden = Arc<dyn Fn(&Path) -> bool + Send + Sync>;

/// Pieces in which files are read, to hash or to scan them.
pub(crate) const CHUNK: usize = 64 * 1024;

#[derive(Clone)]
pub struct WorkspaceOptions {
    /// Where relative paths start; the first root.
    pub cwd: PathBuf,
    /// Further roots (`--add-dir`).
    pub add_dirs: Vec<PathBuf>,
    /// Where outputs too large for the model are kept. Readable, never writable, by the tools.
    pub outputs: OutputStore,
    /// Usually [`crate::Permissions::hides`].
    pub hidden: Option<Hidden>,
}

impl WorkspaceOptions {
    /// One root, nothing kept, nothing hidden.
    pub fn new(cwd: impl Into<PathBuf>) -> WorkspaceOptions {
        WorkspaceOptions { cwd: cwd.into(), add_dirs: Vec::new(), outputs: OutputStore::none(), hidden: None }
    }
}

/// The folders a run works in.
pub struct Workspace {
    /// Where relative paths start; always a root.
    cwd: PathBuf,
    /// Further roots, from the start on.
    given: Vec<PathBuf>,
    /// Further roots, opened since.
    opened: Arc<RwLock<Vec<PathBuf>>>,
    pub(crate) outputs: OutputStore,
    hidden: Option<Hidden>,
    /// What one conversation knows.
    reads: Mutex<HashMap<PathBuf, Fingerprint>>,
}

/// What a file held when it was last read or written by a tool.
///
/// It may be kept for another process to compare with: `sha256` in hexadecimal digits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Fingerprint(String);

/// Whether a file may be overwritten, as far as reading it first goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PriorRead {
    Unchanged,
    Changed,
    Never,
}

impl Workspace {
    pub fn new(options: WorkspaceOptions) -> io::Result<Arc<Workspace>> {
        let given = options.add_dirs.iter().map(|path| root(path)).collect::<io::Result<Vec<PathBuf>>>()?;
        Ok(Arc::new(Workspace {
            cwd: root(&options.cwd)?,
            given,
            opened: Arc::default(),
            outputs: options.outputs,
            hidden: options.hidden,
            reads: Mutex::new(HashMap::new()),
        }))
    }

    /// The same folders for another agent: what one has read, another has not.
    pub fn for_another_agent(&self) -> Arc<Workspace> {
        Arc::new(Workspace {
            cwd: self.cwd.clone(),
            given: self.given.clone(),
            opened: Arc::clone(&self.opened),
            outputs: self.outputs.clone(),
            hidden: self.hidden.clone(),
            reads: Mutex::default(),
        })
    }

    /// Where relative paths start.
    pub fn cwd(&self) -> &Path {
        &self.cwd
    }

    /// `cwd` and the added folders, links resolved.
    pub fn roots(&self) -> Vec<PathBuf> {
        let opened = self.opened.read().unwrap_or_else(PoisonError::into_inner);
        std::iter::once(&self.cwd).chain(&self.given).chain(&*opened).cloned().collect()
    }

    /// Opens further folders; relative ones are below `cwd`. On an error none was.
    pub fn add_roots(&self, paths: &[PathBuf]) -> io::Result<()> {
        let added = paths.iter().map(|path| root(&self.cwd.join(path)));
        let added = added.collect::<io::Result<Vec<PathBuf>>>()?;
        let known = self.roots();
        let mut opened = self.opened.write().unwrap_or_else(PoisonError::into_inner);
        opened.extend(added.into_iter().filter(|path| !known.contains(path)));
        Ok(())
    }

    /// Closes folders that were opened since the start. On an error none was.
    pub fn remove_roots(&self, paths: &[PathBuf]) -> Result<(), String> {
        let removed: Vec<PathBuf> = paths
            .iter()
            .map(|path| root(&self.cwd.join(path)).unwrap_or_else(|_| self.cwd.join(path)))
            .collect();
        let mut opened = self.opened.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(other) = removed.iter().find(|path| !opened.contains(path)) {
            return Err(format!("`{}` was not opened since the start, and stays as it is", other.display()));
        }
        opened.retain(|path| !removed.contains(path));
        Ok(())
    }

    /// The file a path names, inside the roots, with links and `..` resolved. It need not exist.
    pub fn resolve(&self, path: &str) -> Result<PathBuf, PathError> {
        self.confine(path, |real| self.in_roots(real))
    }

    /// Like [`Workspace::resolve`], and kept outputs are in reach too.
    pub fn resolve_readable(&self, path: &str) -> Result<PathBuf, PathError> {
        self.confine(path, |real| self.in_roots(real) || self.outputs.contains(real))
    }

    /// A path as people read it: relative to `cwd` where it is below it.
    pub(crate) fn show(&self, path: &Path) -> String {
        match path.strip_prefix(self.cwd()) {
            Ok(relative) if relative.as_os_str().is_empty() => ".".to_owned(),
            Ok(relative) => in_one_line(&relative.to_string_lossy()),
            Err(_) => in_one_line(&path.to_string_lossy()),
        }
    }

    pub(crate) fn is_hidden(&self, path: &Path) -> bool {
        self.hidden.as_ref().is_some_and(|hidden| hidden(path))
    }

    /// Remembers what a file held, so that it may be edited while it still holds that. What is to be kept of it.
    pub(crate) fn remember(&self, path: &Path, fingerprint: Fingerprint) -> SeenFile {
        let seen = SeenFile { path: path.to_owned(), sha256: fingerprint.0 };
        self.recall(std::slice::from_ref(&seen));
        seen
    }

    /// The conversation has read these files before, in a process that is gone.
    pub fn recall(&self, files: &[SeenFile]) {
        let known = files.iter().map(|file| (file.path.clone(), Fingerprint(file.sha256.clone())));
        self.reads.lock().unwrap_or_else(PoisonError::into_inner).extend(known);
    }

    /// A conversation that knows nothing of the files begins: they have to be read again.
    pub fn forget_reads(&self) {
        self.reads.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    pub(crate) fn prior_read(&self, path: &Path, now: Fingerprint) -> PriorRead {
        match self.reads.lock().unwrap_or_else(PoisonError::into_inner).get(path) {
            Some(then) if *then == now => PriorRead::Unchanged,
            Some(_) => PriorRead::Changed,
            None => PriorRead::Never,
        }
    }

    fn confine(&self, path: &str, inside: impl Fn(&Path) -> bool) -> Result<PathBuf, PathError> {
        let trace = paths::trace(self.cwd(), Path::new(path))
            .map_err(|error| PathError::Unfollowable { path: path.to_owned(), why: error.to_string() })?;
        if inside(&trace.real) {
            return Ok(trace.real);
        }
        let roots: Vec<String> = self.roots().iter().map(|root| format!("`{}`", root.display())).collect();
        Err(PathError::Outside { path: path.to_owned(), roots: roots.join(", ") })
    }

    fn in_roots(&self, real: &Path) -> bool {
        let opened = self.opened.read().unwrap_or_else(PoisonError::into_inner);
        let mut roots = std::iter::once(&self.cwd).chain(&self.given).chain(&*opened);
        roots.any(|root| real.starts_with(root))
    }
}

impl Fingerprint {
    pub fn of(content: &[u8]) -> Fingerprint {
        let mut hash = FingerprintHasher::default();
        hash.update(content);
        hash.finish()
    }

    /// Reads `source` to its end, a chunk at a time.
    pub fn of_reader(mut source: impl Read) -> io::Result<Fingerprint> {
        let mut hash = FingerprintHasher::default();
        let mut chunk = vec![0; CHUNK];
        loop {
            match source.read(&mut chunk) {
                Ok(0) => return Ok(hash.finish()),
                Ok(n) => hash.update(&chunk[..n]),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }
}

pub(crate) struct FingerprintHasher(Context);

impl Default for FingerprintHasher {
    fn default() -> FingerprintHasher {
        FingerprintHasher(Context::new(&SHA256))
    }
}

impl FingerprintHasher {
    pub fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    pub fn finish(self) -> Fingerprint {
        Fingerprint(self.0.finish().as_ref().iter().map(|byte| format!("{byte:02x}")).collect())
    }
}

fn root(path: &Path) -> io::Result<PathBuf> {
    let real = fs::canonicalize(path).map_err(|error| {
        io::Error::new(error.kind(), format!("cannot open folder `{}`: {error}", path.display()))
    })?;
    if real.is_dir() {
        Ok(real)
    } else {
        Err(io::Error::new(io::ErrorKind::NotADirectory, format!("`{}` is not a folder", path.display())))
    }
}

/// A name stands in a line of its own, whatever it holds: a line feed in it would look like another name.
pub(crate) fn in_one_line(name: &str) -> String {
    if !name.contains(char::is_control) {
        return name.to_owned();
    }
    let mut shown = String::with_capacity(name.len());
    for c in name.chars() {
        if c.is_control() { shown.extend(c.escape_default()) } else { shown.push(c) }
    }
    shown
}

//! Replaces a file in one step: a reader sees the old text or the new one, never a half.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// Distinguishes the temporary files of parallel writes.
static NEXT: AtomicU64 = AtomicU64::new(1);

/// Writes `content` to `path`, creating missing folders. An existing file keeps its permissions; a
/// read-only one is refused, because the rename would otherwise replace it all the same.
pub(crate) fn replace(path: &Path, content: &[u8]) -> io::Result<()> {
    let folder = path.parent().unwrap_or(Path::new("/"));
    fs::create_dir_all(folder)?;
    let permissions = match fs::metadata(path) {
        Ok(meta) if meta.permissions().readonly() => {
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, "the file is read-only"));
        }
        Ok(meta) => Some(meta.permissions()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => return Err(error),
    };
    let temporary = Temporary(folder.join(format!(
        ".tenon-{}-{}.tmp",
        std::process::id(),
        NEXT.fetch_add(1, Ordering::Relaxed)
    )));
    let mut file = OpenOptions::new().write(true).create_new(true).open(&temporary.0)?;
    file.write_all(content)?;
    if let Some(permissions) = permissions {
        file.set_permissions(permissions)?;
    }
    file.sync_data()?;
    fs::rename(&temporary.0, path)
}

/// Removed when it was not renamed away.
struct Temporary(PathBuf);

impl Drop for Temporary {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

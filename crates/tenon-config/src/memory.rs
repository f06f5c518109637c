//! What the user and the project want every model to know: `AGENTS.md` and `TENON.md`.
//!
//! Memory enters the model's context, so its size has a hard cap. It is advice, not permission: untrusted
//! projects may have it too.

use std::fs::{DirBuilder, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use crate::config_error::ConfigError;
use crate::files::{Confine, Found, Size, read_capped};
use crate::problem::shown_path;
use crate::project::canonical;

/// What the user has added from within a session.
const USER_FILE: &str = "TENON.md";
const FILE_NAMES: [&str; 2] = ["AGENTS.md", "TENON.md"];
/// About 8,000 tokens: a long page of advice.
pub const MAX_MEMORY_FILE_BYTES: usize = 32 * 1024;
/// All files together, a tenth of a common context.
pub const MAX_MEMORY_TOTAL_BYTES: usize = 64 * 1024;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemoryFile {
    pub path: PathBuf,
    /// The text, with a note at its end where it was cut.
    pub text: String,
}

/// The user's files, then the project's from its root down to `cwd`.
pub(crate) struct MemoryPlaces<'a> {
    pub(crate) user: Option<&'a Path>,
    /// The project's root, canonical, and the folder the run works in.
    pub(crate) project: Option<(&'a Path, &'a Path)>,
}

pub(crate) fn read_memory(places: &MemoryPlaces<'_>, warnings: &mut Vec<String>) -> Vec<MemoryFile> {
    let mut collected = Collected { files: Vec::new(), left: MAX_MEMORY_TOTAL_BYTES, warnings };
    if let Some(folder) = places.user {
        collected.add_folder(folder, Confine::Anywhere);
    }
    if let Some((root, cwd)) = places.project {
        let cwd = canonical(cwd);
        let mut folders: Vec<&Path> = cwd.ancestors().take_while(|folder| folder.starts_with(root)).collect();
        folders.reverse();
        folders.into_iter().for_each(|folder| collected.add_folder(folder, Confine::Inside(root)));
    }
    collected.files
}

/// Adds a line to the user's own file. Where it stands.
pub fn add_to_user_memory(tenon_home: &Path, text: &str) -> Result<PathBuf, ConfigError> {
    let path = tenon_home.join(USER_FILE);
    let cannot = |reason: String| ConfigError::Unwritable { path: path.clone(), reason };
    // One line, whatever was typed: the next one begins with a mark of its own.
    let line = format!("- {}\n", text.split_whitespace().collect::<Vec<_>>().join(" "));
    let existing = match read_capped(&path, MAX_MEMORY_FILE_BYTES as u64, Confine::Anywhere) {
        Ok(Found::Missing) => Vec::new(),
        Ok(Found::Bytes { bytes, .. }) => bytes,
        Err(problem) => return Err(cannot(problem.to_string())),
    };
    if existing.len() + line.len() > MAX_MEMORY_FILE_BYTES {
        return Err(cannot(format!("it would have more than {} KiB", MAX_MEMORY_FILE_BYTES / 1024)));
    }
    let gap = if existing.is_empty() || existing.ends_with(b"\n") { "" } else { "\n" };
    let written = (|| {
        DirBuilder::new().recursive(true).mode(0o700).create(tenon_home)?;
        let mut file = OpenOptions::new().append(true).create(true).mode(0o600).open(&path)?;
        file.write_all(format!("{gap}{line}").as_bytes())?;
        file.sync_data()
    })();
    written.map_err(|error: io::Error| cannot(error.to_string()))?;
    Ok(path)
}

struct Collected<'a> {
    files: Vec<MemoryFile>,
    left: usize,
    warnings: &'a mut Vec<String>,
}

impl Collected<'_> {
    fn add_folder(&mut self, folder: &Path, confine: Confine<'_>) {
        FILE_NAMES.iter().for_each(|name| self.add(&folder.join(name), confine));
    }

    fn add(&mut self, path: &Path, confine: Confine<'_>) {
        let (bytes, size) = match read_capped(path, MAX_MEMORY_FILE_BYTES as u64, confine) {
            Ok(Found::Missing) => return,
            Ok(Found::Bytes { bytes, size }) => (bytes, size),
            Err(problem) => {
                self.warnings.push(format!("`{}` is not used: {problem}", shown_path(path)));
                return;
            }
        };
        let total = match size {
            Size::Whole => bytes.len() as u64,
            Size::Cut { total } => total,
        };
        let whole = String::from_utf8_lossy(&bytes);
        let text = whole.strip_prefix('\u{feff}').unwrap_or(&whole);
        let kept = &text[..text.floor_char_boundary(self.left.min(MAX_MEMORY_FILE_BYTES))];
        // A character that the cap cut in two was replaced by a mark.
        let cut = kept.len() < text.len() || matches!(size, Size::Cut { .. });
        let kept = if cut { kept.trim_end_matches('\u{fffd}') } else { kept };
        self.left -= kept.len();
        if cut {
            let shown = kept.len();
            self.warnings.push(format!(
                "`{}` is too long: {shown} of its {total} bytes are used; a file may have {} KiB, all \
                 together {} KiB",
                shown_path(path),
                MAX_MEMORY_FILE_BYTES / 1024,
                MAX_MEMORY_TOTAL_BYTES / 1024
            ));
        }
        if kept.trim().is_empty() {
            return;
        }
        let note = if cut { format!("\n[cut here: {total} bytes in all]") } else { String::new() };
        self.files.push(MemoryFile { path: path.to_owned(), text: format!("{kept}{note}") });
    }
}

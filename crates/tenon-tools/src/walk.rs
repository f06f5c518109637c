//! Walks a folder the way all search tools see it: without ignored files, hidden ones and links out of it.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use globset::{GlobBuilder, GlobSet, GlobSetBuilder};
use ignore::{DirEntry, WalkBuilder};

use crate::Workspace;
use crate::args::{ArgReader, Refusal};

/// Whether ignore files are listened to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ignored {
    Skipped,
    Shown,
}

/// The folder's entries. Links are listed but not followed. Dot files are included, `.git` is not.
pub(crate) fn walker(folder: &Path, ignored: Ignored) -> WalkBuilder {
    let skip = ignored == Ignored::Skipped;
    let mut builder = WalkBuilder::new(folder);
    builder
        .hidden(false)
        .follow_links(false)
        .require_git(false)
        // Somebody's personal ignore file lies in their home, which is none of a library's business.
        .git_global(false)
        .git_exclude(skip)
        .git_ignore(skip)
        .ignore(skip)
        .parents(skip)
        .filter_entry(|entry| entry.file_name() != ".git" || entry.depth() == 0);
    builder
}

/// Whether `entry` may be shown: no rule hides it, by its own name or by the one it links to.
pub(crate) fn is_visible(workspace: &Workspace, entry: &DirEntry) -> bool {
    entry.depth() == 0 || !workspace.is_hidden(entry.path())
}

/// The folder or file a search starts at: the argument `path`, or the working folder.
pub(crate) fn start(workspace: &Workspace, args: &ArgReader<'_>) -> Result<PathBuf, Refusal> {
    let given = args.optional_text("path")?.filter(|path| !path.trim().is_empty());
    let Some(given) = given else { return Ok(workspace.cwd().to_owned()) };
    let path = workspace.resolve_readable(given)?;
    if path.exists() { Ok(path) } else { Err(Refusal::failed(format!("There is no folder `{given}`."))) }
}

/// The part of an entry's path below the folder that is walked. By bytes: it is asked for every file of a
/// tree, and taking paths apart costs more than reading the folder.
pub(crate) fn below<'p>(folder: &Path, path: &'p Path) -> &'p Path {
    let whole = path.as_os_str().as_bytes();
    match whole.strip_prefix(folder.as_os_str().as_bytes()) {
        Some(rest) => Path::new(OsStr::from_bytes(rest.strip_prefix(b"/").unwrap_or(rest))),
        None => path,
    }
}

/// A file pattern in which `*` stops at a slash and `**` does not.
pub(crate) fn pattern(text: &str) -> Result<GlobSet, Refusal> {
    // A set of one: unlike a lone pattern it compares endings such as `*.rs` without a regular expression.
    GlobBuilder::new(text)
        .literal_separator(true)
        .build()
        .and_then(|glob| GlobSetBuilder::new().add(glob).build())
        .map_err(|error| Refusal::arguments(format!("`{text}` is not a file pattern: {}.", error.kind())))
}

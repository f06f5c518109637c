//! Walks a folder the way all search tools see it: without ignored files, hidden ones and links out of it.

use std::path::{Path, PathBuf};

use globset::{GlobBuilder, GlobMatcher};
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

/// A file pattern in which `*` stops at a slash and `**` does not.
pub(crate) fn pattern(text: &str) -> Result<GlobMatcher, Refusal> {
    GlobBuilder::new(text)
        .literal_separator(true)
        .build()
        .map(|glob| glob.compile_matcher())
        .map_err(|error| Refusal::arguments(format!("`{text}` is not a file pattern: {}.", error.kind())))
}

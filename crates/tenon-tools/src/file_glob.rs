//! The files a pattern on a command line names right now, as bash would find them.

use std::fs;
use std::path::{Component, Path, PathBuf};

use globset::GlobBuilder;

/// A pattern that fits more is checked by what was found so far.
const MAX_FOUND: usize = 10_000;

/// Every existing path that fits, and the pattern itself, which bash leaves standing if nothing does.
pub(crate) fn expand(pattern: &Path) -> Vec<PathBuf> {
    let mut found = vec![PathBuf::from("/")];
    for component in pattern.components() {
        let Component::Normal(part) = component else {
            if component == Component::ParentDir {
                found.iter_mut().for_each(|path| path.push(".."));
            }
            continue;
        };
        let part = part.to_string_lossy();
        if !part.contains(['*', '?', '[']) {
            let plain = part.replace('\\', "");
            found.iter_mut().for_each(|path| path.push(&plain));
            continue;
        }
        found = found.iter().flat_map(|folder| fitting(folder, &part)).take(MAX_FOUND).collect();
    }
    found.push(PathBuf::from(pattern.to_string_lossy().replace('\\', "")));
    found
}

fn fitting(folder: &Path, pattern: &str) -> Vec<PathBuf> {
    let Ok(matcher) = GlobBuilder::new(pattern).literal_separator(true).backslash_escape(true).build() else {
        return Vec::new();
    };
    let matcher = matcher.compile_matcher();
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    entries
        .flatten()
        .map(|entry| entry.file_name())
        .filter(|name| matcher.is_match(name))
        .map(|name| folder.join(name))
        .collect()
}

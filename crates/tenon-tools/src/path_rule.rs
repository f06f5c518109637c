//! The path in a rule such as `Read(./secrets/**)`: gitignore syntax, with a prefix that says where it starts.
//!
//! `//x` is absolute, `~/x` below the home folder, `/x` below the project, `./x` and `a/x` below the
//! working folder, and `x` (no slash before its end) matches at any depth, anywhere.

use std::path::{Component, Path, PathBuf};

use ignore::gitignore::{Gitignore, GitignoreBuilder};

use crate::paths;

/// Where the prefixes of patterns lead. All absolute, links resolved.
#[derive(Clone, Debug)]
pub(crate) struct Bases {
    pub cwd: PathBuf,
    pub project_root: PathBuf,
    pub home: Option<PathBuf>,
}

/// A pattern with its start, ready to be asked about absolute paths.
#[derive(Clone, Debug)]
pub(crate) struct PathMatcher {
    /// The pattern as written, and, where it leads through links, the same place by its real name.
    places: Vec<Place>,
}

#[derive(Clone, Debug)]
struct Place {
    base: PathBuf,
    pattern: Gitignore,
    folders_only: bool,
}

impl PathMatcher {
    pub fn new(pattern: &str, bases: &Bases) -> Result<PathMatcher, String> {
        let (base, pattern) = place(pattern, bases)?;
        let mut places = vec![Place::new(base.clone(), &pattern)?];
        if let Some((base, pattern)) = behind_links(&base, &pattern) {
            places.push(Place::new(base, &pattern)?);
        }
        Ok(PathMatcher { places })
    }

    /// Whether the pattern names this file, or a folder that holds it.
    pub fn matches(&self, path: &Path) -> bool {
        self.places.iter().any(|place| place.matches(path))
    }
}

/// Whether a pattern can be understood, wherever it will start.
pub(crate) fn check(pattern: &str) -> Result<(), String> {
    let anywhere = PathBuf::from("/");
    let bases = Bases { cwd: anywhere.clone(), project_root: anywhere.clone(), home: Some(anywhere) };
    let (base, pattern) = place(pattern, &bases)?;
    Place::new(base, &pattern).map(|_| ())
}

impl Place {
    fn new(base: PathBuf, pattern: &str) -> Result<Place, String> {
        let mut builder = GitignoreBuilder::new("/");
        // Where the file system does not tell `.ENV` from `.env`, neither does a rule.
        builder.case_insensitive(cfg!(target_os = "macos")).map_err(|error| error.to_string())?;
        builder.add_line(None, pattern).map_err(|error| error.to_string())?;
        let built = builder.build().map_err(|error| error.to_string())?;
        Ok(Place { base, pattern: built, folders_only: pattern.ends_with('/') })
    }

    fn matches(&self, path: &Path) -> bool {
        let Ok(relative) = path.strip_prefix(&self.base) else { return false };
        if relative.as_os_str().is_empty() {
            return false;
        }
        let is_folder = self.folders_only && path.is_dir();
        self.pattern.matched_path_or_any_parents(relative, is_folder).is_ignore()
    }
}

/// Splits a pattern as written into where it starts and a gitignore line anchored there.
fn place(pattern: &str, bases: &Bases) -> Result<(PathBuf, String), String> {
    if pattern.starts_with('!') {
        return Err("a leading `!` has no meaning here".to_owned());
    }
    if pattern.split('/').any(|part| part == "..") {
        return Err("`..` is not possible".to_owned());
    }
    if pattern.trim_start_matches(['~', '.']).trim_matches('/').is_empty() {
        return Err("it names no file".to_owned());
    }
    let root = || PathBuf::from("/");
    let anchored = |rest: &str| format!("/{}", rest.trim_start_matches('/'));
    if let Some(rest) = pattern.strip_prefix("//") {
        return Ok((root(), anchored(rest)));
    }
    if let Some(rest) = pattern.strip_prefix("~/") {
        let home = bases.home.clone().ok_or("the home folder is not known")?;
        return Ok((home, anchored(rest)));
    }
    if let Some(rest) = pattern.strip_prefix('/') {
        return Ok((bases.project_root.clone(), anchored(rest)));
    }
    if let Some(rest) = pattern.strip_prefix("./") {
        return Ok((bases.cwd.clone(), anchored(rest)));
    }
    if pattern.starts_with("**/") {
        return Ok((root(), pattern.to_owned()));
    }
    let has_inner_slash = pattern.trim_end_matches('/').contains('/');
    Ok(if has_inner_slash {
        (bases.cwd.clone(), anchored(pattern))
    } else {
        (root(), format!("**/{pattern}"))
    })
}

/// The same place by its real name, if the part of the pattern without wildcards leads through links.
/// Without this, denying `link/**` would leave the target open to whoever knows its name.
fn behind_links(base: &Path, pattern: &str) -> Option<(PathBuf, String)> {
    let body = pattern.strip_prefix('/')?;
    let parts: Vec<&str> = body.split('/').filter(|part| !part.is_empty()).collect();
    let plain = parts.iter().take_while(|part| !part.contains(['*', '?', '[', '{', '\\'])).count();
    let literal: PathBuf = parts[..plain].iter().fold(base.to_owned(), |path, part| path.join(part));
    let real = paths::trace(base, &literal).ok()?.real;
    if real == literal {
        return None;
    }
    let slash = if body.ends_with('/') { "/" } else { "" };
    if plain < parts.len() {
        return Some((real, format!("/{}{slash}", parts[plain..].join("/"))));
    }
    let Some(Component::Normal(name)) = real.components().next_back() else { return None };
    let parent = real.parent()?.to_owned();
    Some((parent, format!("/{}{slash}", escaped(&name.to_string_lossy()))))
}

fn escaped(name: &str) -> String {
    let mut escaped = String::new();
    for c in name.chars() {
        if matches!(c, '*' | '?' | '[' | ']' | '{' | '}' | '\\' | ' ') {
            escaped.push('\\');
        }
        escaped.push(c);
    }
    escaped
}

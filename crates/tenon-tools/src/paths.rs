//! Where a path really leads: `..` and symbolic links resolved, also when the last part does not exist yet.
//! What may be reached is decided in `workspace.rs`; what is allowed, in `permission.rs`.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Component, Path, PathBuf};

/// As many links as the kernel follows before it calls the path a loop.
const MAX_LINKS: usize = 40;

/// A path followed to its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Trace {
    /// The path as written, absolute, with `.` and `..` folded without looking at the disk.
    pub lexical: PathBuf,
    /// Where it leads: absolute, free of links and `..`. The end may be missing.
    pub real: PathBuf,
    /// The links that were passed on the way, each with what was left of the path behind it.
    pub passed: Vec<PathBuf>,
}

impl Trace {
    /// Every name this file was reached by. A rule that forbids one of them forbids the file.
    pub fn names(&self) -> impl Iterator<Item = &Path> {
        [self.lexical.as_path(), self.real.as_path()]
            .into_iter()
            .chain(self.passed.iter().map(PathBuf::as_path))
    }
}

/// Why a path cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PathError {
    #[error("`{path}` is outside the workspace ({roots}); only `--add-dir` adds a folder to it")]
    Outside { path: String, roots: String },
    #[error("`{path}` cannot be followed: {why}")]
    Unfollowable { path: String, why: String },
}

enum Step {
    Up,
    Down(OsString),
}

/// Follows `path` (relative to `base`, which is absolute) link by link. A dangling link is followed too:
/// writing through it would create its target.
pub(crate) fn trace(base: &Path, path: &Path) -> io::Result<Trace> {
    let absolute = base.join(path);
    let mut real = PathBuf::from("/");
    let mut passed = Vec::new();
    let mut rest: Vec<Step> = Vec::new();
    push_steps(&mut rest, &absolute);
    while let Some(step) = rest.pop() {
        let name = match step {
            Step::Up => {
                real.pop();
                continue;
            }
            Step::Down(name) => name,
        };
        let next = real.join(name);
        let is_link = fs::symlink_metadata(&next).is_ok_and(|meta| meta.is_symlink());
        if !is_link {
            real = next;
            continue;
        }
        if passed.len() == MAX_LINKS {
            return Err(io::Error::other("too many symbolic links"));
        }
        let target = fs::read_link(&next)?;
        passed.push(with_rest(next, &rest));
        if target.is_absolute() {
            real = PathBuf::from("/");
        }
        push_steps(&mut rest, &target);
    }
    Ok(Trace { lexical: fold(&absolute), real, passed })
}

/// Folds `.` and `..` without looking at the disk.
pub(crate) fn fold(path: &Path) -> PathBuf {
    let mut folded = PathBuf::new();
    for component in path.components() {
        match component {
            Component::ParentDir => {
                folded.pop();
            }
            Component::CurDir => {}
            other => folded.push(other),
        }
    }
    folded
}

fn push_steps(rest: &mut Vec<Step>, path: &Path) {
    for component in path.components().rev() {
        match component {
            Component::ParentDir => rest.push(Step::Up),
            Component::Normal(name) => rest.push(Step::Down(name.to_owned())),
            Component::CurDir | Component::RootDir | Component::Prefix(_) => {}
        }
    }
}

fn with_rest(mut path: PathBuf, rest: &[Step]) -> PathBuf {
    for step in rest.iter().rev() {
        match step {
            Step::Up => {
                path.pop();
            }
            Step::Down(name) => path.push(name),
        }
    }
    path
}

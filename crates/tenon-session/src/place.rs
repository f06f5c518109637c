//! Where the sessions of a project lie: `$TENON_HOME/projects/<folder's name>/`, folders for their owner only.

use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use tenon_core::Id;

/// File systems take names of 255 bytes. Longer ones are cut and told apart by a number.
const LONGEST_NAME: usize = 200;

/// What belongs to one working folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    folder: PathBuf,
}

impl Place {
    pub fn of(tenon_home: &Path, cwd: &Path) -> Place {
        Place { folder: projects(tenon_home).join(name_of(cwd)) }
    }

    pub(crate) fn at(folder: PathBuf) -> Place {
        Place { folder }
    }

    pub fn chats(&self) -> PathBuf {
        self.folder.join("chats")
    }

    pub fn session_file(&self, id: Id) -> PathBuf {
        self.chats().join(format!("{id}.jsonl"))
    }

    /// Outputs of tools that were too large for the model.
    pub fn outputs(&self, id: Id) -> PathBuf {
        self.all_outputs().join(id.to_string())
    }

    /// Conversations that somebody gave a name.
    pub(crate) fn saved(&self) -> PathBuf {
        self.folder.join("saved")
    }

    pub(crate) fn all_outputs(&self) -> PathBuf {
        self.folder.join("outputs")
    }

    /// Removes the folders if nothing is left in them.
    pub(crate) fn remove_if_empty(&self) {
        for folder in [self.chats(), self.all_outputs(), self.folder.clone()] {
            // It may hold something, and then it stays.
            let _ = std::fs::remove_dir(folder);
        }
    }
}

pub(crate) fn projects(tenon_home: &Path) -> PathBuf {
    tenon_home.join("projects")
}

pub(crate) fn make_folder(folder: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(folder)
}

/// The path with every character that is no ASCII letter or digit as `-`. Different folders can share a
/// name; a session's first record says which folder it is of.
fn name_of(cwd: &Path) -> String {
    let path = cwd.to_string_lossy();
    let name: String = path.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
    if name.len() <= LONGEST_NAME {
        return name;
    }
    let end = &name[name.len() - LONGEST_NAME..];
    format!("{:016x}-{end}", fnv1a(path.as_bytes()))
}

/// A hash that is the same in every version of every compiler.
fn fnv1a(bytes: &[u8]) -> u64 {
    let step = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, step)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_folders() {
        for (cwd, name) in
            [("/home/ann/my.project", "-home-ann-my-project"), ("/", "-"), ("/ä/b_c", "---b-c")]
        {
            assert_eq!(name_of(Path::new(cwd)), name);
        }
        let (long, other) = (format!("/{}x", "a".repeat(4000)), format!("/b{}x", "a".repeat(4000)));
        let (long, other) = (name_of(Path::new(&long)), name_of(Path::new(&other)));
        assert!(long.len() < 255 && other.len() < 255 && long != other, "{long} {other}");
    }
}

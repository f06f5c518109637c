//! Files that are not put into a prompt or a list of suggestions by their mere name: secrets, and what the
//! project's ignore files leave out.
//!
//! This is about convenience that reads without anybody looking twice (`mention.rs`, `file_index.rs`). What a tool may
//! read is decided by rules (`permission.rs`).

use std::ffi::OsStr;
use std::path::Path;

use ignore::gitignore::Gitignore;

/// Names that hold keys and passwords wherever they lie.
const SECRET_NAMES: [&str; 13] = [
    ".env",
    ".envrc",
    ".netrc",
    "_netrc",
    ".npmrc",
    ".pypirc",
    ".pgpass",
    ".htpasswd",
    ".git-credentials",
    "id_rsa",
    "id_dsa",
    "id_ecdsa",
    "id_ed25519",
];
const SECRET_ENDINGS: [&str; 7] = ["pem", "key", "p12", "pfx", "jks", "keystore", "kdbx"];
/// `.env.local` is a secret, `.env.example` is there to be read.
const ENV_START: &str = ".env.";
const PUBLIC_ENVS: [&str; 5] = ["example", "sample", "template", "dist", "defaults"];
/// Whatever lies in these.
const SECRET_FOLDERS: [&str; 4] = [".git", ".ssh", ".aws", ".gnupg"];
const IGNORE_FILES: [&str; 2] = [".ignore", ".gitignore"];

/// Why a file is not to be read by its mere name, worded to follow a colon. `below` is its path from the root of
/// the workspace.
pub(crate) fn kept_out(below: &Path, real: &Path) -> Option<&'static str> {
    if below.iter().any(is_secret_name) {
        return Some("its name says that it holds secrets");
    }
    let is_root = below.as_os_str().is_empty();
    (!is_root && is_ignored(real)).then_some("the project's ignore files leave it out")
}

pub(crate) fn is_secret_name(name: &OsStr) -> bool {
    let Some(name) = name.to_str() else { return false };
    if SECRET_NAMES.contains(&name) || SECRET_FOLDERS.contains(&name) {
        return true;
    }
    if let Some(kind) = name.strip_prefix(ENV_START) {
        return !PUBLIC_ENVS.contains(&kind);
    }
    name.rsplit_once('.')
        .is_some_and(|(_, ending)| SECRET_ENDINGS.iter().any(|secret| ending.eq_ignore_ascii_case(secret)))
}

/// Whether ignore files of the folders above leave this path out, by itself or by a folder that it lies in.
fn is_ignored(path: &Path) -> bool {
    let folders: Vec<&Path> = path.ancestors().skip(1).collect();
    // By folder, the nearest first.
    let rules: Vec<Vec<Gitignore>> = folders.iter().map(|folder| rules_of(folder)).collect();
    let above = |at: usize| rules[at..].iter().flatten();
    // Of every folder on the way it is asked, for what lies in an ignored one is ignored whatever else is said.
    path.ancestors().take(folders.len()).enumerate().any(|(at, part)| {
        let is_folder = at > 0 || part.is_dir();
        let said = above(at).map(|rules| rules.matched(part, is_folder)).find(|said| !said.is_none());
        said.is_some_and(|said| said.is_ignore())
    })
}

fn rules_of(folder: &Path) -> Vec<Gitignore> {
    let exclude = folder.join(".git/info/exclude");
    let own = IGNORE_FILES.iter().map(|name| folder.join(name)).filter(|file| file.is_file());
    let mut rules: Vec<Gitignore> = own.map(|file| Gitignore::new(file).0).collect();
    if exclude.is_file() {
        let mut builder = ignore::gitignore::GitignoreBuilder::new(folder);
        // A pattern that is none excludes nothing.
        let _ = builder.add(exclude);
        rules.extend(builder.build());
    }
    rules
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn names_of_secrets() {
        for name in [".env", ".env.local", "server.PEM", "id_rsa", ".npmrc", ".git"] {
            assert!(is_secret_name(OsStr::new(name)), "{name}");
        }
        for name in [".env.example", "environment.md", "id_rsa.pub", "keys.rs", "a.keys", ".gitignore"] {
            assert!(!is_secret_name(OsStr::new(name)), "{name}");
        }
    }

    #[test]
    fn ignore_files_of_all_folders_above_count() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        fs::create_dir_all(root.join("a/out/b")).unwrap();
        fs::create_dir_all(root.join(".git/info")).unwrap();
        fs::write(root.join(".gitignore"), "out/\n*.log\n").unwrap();
        fs::write(root.join("a/.gitignore"), "!keep.log\n").unwrap();
        fs::write(root.join(".git/info/exclude"), "private.txt\n").unwrap();
        for (path, ignored) in [
            ("a/x.log", true),
            ("a/keep.log", false),
            ("keep.log", true),
            ("a/out/b/c.txt", true),
            ("a/main.rs", false),
            ("a/private.txt", true),
        ] {
            assert_eq!(is_ignored(&root.join(path)), ignored, "{path}");
        }
    }
}

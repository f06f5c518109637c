//! Where the workspace is, what it builds, and where the jobs keep what they install.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::Failure;

pub fn root() -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    root.canonicalize().unwrap_or(root)
}

/// A relative target folder counts from where the build ran.
pub fn target() -> PathBuf {
    root().join(std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| "target".into(), PathBuf::from))
}

/// A script of ours for a peer's own language.
pub fn script(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("peers").join(name)
}

/// Cargo in the workspace, with the profile and the features of `cargo test --workspace`: after that nothing
/// is built twice.
pub fn cargo_test() -> Command {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.args(["test", "--workspace", "--tests"]).current_dir(root());
    cargo
}

/// The `tenon` that is tested.
pub enum Binary {
    /// The one of the tests.
    ToBuild,
    Given(PathBuf),
}

impl Binary {
    pub fn path(&self) -> Result<PathBuf, Failure> {
        match self {
            Self::Given(path) => Ok(path.clone()),
            Self::ToBuild if cargo_test().args(["--no-run", "--quiet"]).status()?.success() => {
                Ok(target().join("debug").join("tenon"))
            }
            Self::ToBuild => Err(Failure::other("the workspace does not build")),
        }
    }
}

//! The packages for Node.js that peers are made of: in `target/peers/node`, a folder for each set, installed once.
//!
//! They come through `npm` with whatever registry it is configured for.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::Failure;
use crate::peers::workspace::target;

/// A folder that has the packages in its `node_modules`, at these versions.
pub fn with(name: &str, pins: &[&str]) -> Result<PathBuf, Failure> {
    let folder = target().join("peers").join("node").join(name);
    let stamp = folder.join("installed");
    let wanted = pins.join("\n");
    if std::fs::read_to_string(&stamp).is_ok_and(|installed| installed == wanted) {
        return Ok(folder);
    }
    ready()?;
    println!("installing {}", pins.join(" "));
    std::fs::create_dir_all(&folder)?;
    let installed = npm(&folder, pins)?;
    if !installed {
        return Err(Failure::other(format!("`npm` could not install `{}`", pins.join("`, `"))));
    }
    std::fs::write(stamp, wanted)?;
    Ok(folder)
}

/// `node` and `npm` are there, installed now if they were not.
pub fn ready() -> Result<(), Failure> {
    if works("node") && works("npm") { Ok(()) } else { install_node() }
}

fn npm(folder: &Path, pins: &[&str]) -> Result<bool, Failure> {
    let mut npm = Command::new("npm");
    npm.args(["install", "--silent", "--no-audit", "--no-fund", "--ignore-scripts"]);
    // Optional ones are whole programs of the peers' own, which nobody starts here.
    npm.args(["--omit=optional", "--prefix"]).arg(folder);
    Ok(npm.args(pins).stdin(Stdio::null()).status()?.success())
}

fn install_node() -> Result<(), Failure> {
    println!("installing nodejs and npm");
    if apt(&["nodejs", "npm"]) && works("node") {
        return Ok(());
    }
    Err(Failure::other(
        "`node` and `npm` are needed (Debian: `nodejs`, `npm`), and could not be installed here",
    ))
}

/// Installs packages of Debian, where that may be done.
pub fn apt(packages: &[&str]) -> bool {
    let apt = |args: &[&str]| {
        let mut apt = Command::new("apt-get");
        apt.args(args).env("DEBIAN_FRONTEND", "noninteractive").stdin(Stdio::null()).stdout(Stdio::null());
        apt.status().is_ok_and(|status| status.success())
    };
    apt(&["update"]) && apt(&[&["install", "-y", "--no-install-recommends"], packages].concat())
}

fn works(program: &str) -> bool {
    let mut command = Command::new(program);
    command.arg("--version").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

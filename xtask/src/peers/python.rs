//! The Python that peers are installed into: a virtual environment in `target/peers`, made once.
//!
//! Packages come through `pip` with whatever index it is configured for.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::Failure;
use crate::peers::workspace::target;

/// Packages that belong together, at the versions the jobs were written for.
pub struct Packages {
    pub name: &'static str,
    pub pins: &'static [&'static str],
    pub dependencies: Dependencies,
}

#[derive(Clone, Copy)]
pub enum Dependencies {
    /// Only the packages themselves: what they ask for would have to be compiled, and is not used.
    Left,
    Installed,
    /// Installed, and this package from its source: its ready-made form carries a program of its own, hundreds of
    /// times larger, that nobody starts here.
    InstalledAround(&'static str),
}

/// The interpreter of an environment that has the packages.
pub fn with(packages: &Packages) -> Result<PathBuf, Failure> {
    let environment = environment()?;
    let python = environment.join("bin").join("python");
    let stamp = environment.join(format!("{}.installed", packages.name));
    let wanted = packages.pins.join("\n");
    if std::fs::read_to_string(&stamp).is_ok_and(|installed| installed == wanted) {
        return Ok(python);
    }
    println!("installing {}", packages.pins.join(" "));
    let mut pip = Command::new(&python);
    pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--only-binary=:all:"]);
    match packages.dependencies {
        Dependencies::Left => _ = pip.arg("--no-deps"),
        Dependencies::Installed => {}
        Dependencies::InstalledAround(package) => _ = pip.args(["--no-binary", package]),
    }
    if !pip.args(packages.pins).stdin(Stdio::null()).status()?.success() {
        return Err(Failure::other(format!("`pip` could not install `{}`", packages.pins.join("`, `"))));
    }
    std::fs::write(stamp, wanted)?;
    Ok(python)
}

fn environment() -> Result<PathBuf, Failure> {
    let environment = target().join("peers").join("venv");
    if usable(&environment) {
        return Ok(environment);
    }
    if !create(&environment) {
        install_python()?;
        if !create(&environment) {
            return Err(Failure::other("`python3 -m venv` makes no environment with `pip`"));
        }
    }
    Ok(environment)
}

fn usable(environment: &Path) -> bool {
    quietly(Command::new(environment.join("bin").join("python")).args(["-m", "pip", "--version"]))
}

fn create(environment: &Path) -> bool {
    quietly(Command::new("python3").args(["-m", "venv", "--clear"]).arg(environment)) && usable(environment)
}

fn install_python() -> Result<(), Failure> {
    let missing = "`python3` with `venv` and `pip` is needed (Debian: `python3-venv`, `python3-pip`)";
    if !is_root() {
        return Err(Failure::other(format!("{missing}; without root it cannot be installed here")));
    }
    println!("installing python3-venv and python3-pip");
    let apt =
        |args: &[&str]| quietly(Command::new("apt-get").args(args).env("DEBIAN_FRONTEND", "noninteractive"));
    let installed = apt(&["update"]) && apt(&["install", "-y", "python3-venv", "python3-pip"]);
    if installed { Ok(()) } else { Err(Failure::other(format!("{missing}; `apt-get` could not install it"))) }
}

fn quietly(command: &mut Command) -> bool {
    let command = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

#[allow(unsafe_code, reason = "the standard library does not say who we are")]
fn is_root() -> bool {
    // SAFETY: geteuid(2) takes nothing and cannot fail.
    unsafe { libc::geteuid() == 0 }
}

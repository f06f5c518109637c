//! What shell commands can touch, whatever program they run: writes only in some folders, secrets out of
//! sight, and no network if that is wished.
//!
//! Rules (`permission.rs`) read a command before it runs; this binds it while it runs, and with it every
//! process it starts. What the kernel has to do is in `sandbox/linux.rs`. Only shell commands are bound:
//! hooks and tool servers are the user's own choice.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use tenon_core::{NetworkAccess, SandboxMode};

use crate::paths;

#[cfg(target_os = "linux")]
mod linux;
#[cfg(target_os = "linux")]
pub(crate) use linux::Confinement;
#[cfg(not(target_os = "linux"))]
mod elsewhere;
#[cfg(not(target_os = "linux"))]
pub(crate) use elsewhere::Confinement;

/// The first version of Landlock whose rules also hold for cutting a file short.
const COMPLETE_ABI: u32 = 3;

/// Only the devices that programs of all kinds use are let through.
const DEVICE_FOLDER: &str = "/dev";

/// Texts by which programs say that the system refused them a file.
const REFUSED_FILE: &[&str] = &[
    "Permission denied",
    "permission denied",
    "Operation not permitted",
    "EACCES",
    "EPERM",
    "PermissionError",
];
/// Texts by which programs say that there is no network.
const REFUSED_NETWORK: &[&str] = &[
    "Could not resolve host",
    "ould not resolve",
    "name resolution",
    "Name or service not known",
    "Network is unreachable",
    "getaddrinfo",
    "EAI_AGAIN",
    "ENETUNREACH",
];

#[derive(Clone, Debug, Default)]
pub struct SandboxOptions {
    pub mode: SandboxMode,
    pub network: NetworkAccess,
    /// Folders (and files) commands may write: the workspace, added folders, the temp folder.
    pub writable: Vec<PathBuf>,
    /// Folders (and files) commands may not read. What is writable is readable all the same.
    pub secret: Vec<PathBuf>,
    /// Folders below secret ones that commands may read after all.
    pub readable: Vec<PathBuf>,
}

/// What a kernel can do for a sandbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KernelSupport {
    /// The version of Landlock; 0 where there is none.
    pub landlock: u32,
    /// Whether system calls can be filtered.
    pub seccomp: bool,
}

impl KernelSupport {
    /// Asks the kernel this process runs on.
    pub fn here() -> KernelSupport {
        Confinement::support()
    }
}

#[derive(Debug, thiserror::Error)]
pub enum SandboxError {
    #[error(
        "the sandbox cannot be set up: this kernel cannot confine files (Landlock version {found}, {needed} is needed)"
    )]
    Files { found: u32, needed: u32 },
    #[error(
        "the sandbox cannot be set up: this kernel cannot keep commands off the network (no seccomp filters)"
    )]
    Network,
    #[error("the sandbox cannot be set up: {0}")]
    Kernel(String),
}

/// What is in force for every command of a run.
#[derive(Clone, Debug)]
pub struct Sandbox {
    bounds: Arc<Bounds>,
}

/// Everything absolute and free of links.
#[derive(Debug)]
pub(crate) struct Bounds {
    pub landlock: u32,
    pub network: NetworkAccess,
    pub writable: Vec<PathBuf>,
    /// As told to the model.
    pub secret: Vec<PathBuf>,
    /// The secret ones and the devices, among which are disks.
    hidden: Vec<PathBuf>,
    pub readable: Vec<PathBuf>,
}

impl Sandbox {
    /// `None` where there is to be no sandbox: it is off, or the kernel cannot and nobody insists.
    /// A network that was denied is insisted on: an open one instead would be a surprise.
    pub fn prepare(options: &SandboxOptions, kernel: KernelSupport) -> Result<Option<Sandbox>, SandboxError> {
        let network = match options.mode {
            SandboxMode::Off => return Ok(None),
            SandboxMode::Require => NetworkAccess::Denied,
            SandboxMode::Auto => options.network,
        };
        let insisted = options.mode == SandboxMode::Require || network == NetworkAccess::Denied;
        let needed = if insisted { COMPLETE_ABI } else { 1 };
        if kernel.landlock < needed {
            let error = SandboxError::Files { found: kernel.landlock, needed };
            return if insisted { Err(error) } else { Ok(None) };
        }
        if network == NetworkAccess::Denied && !kernel.seccomp {
            return Err(SandboxError::Network);
        }
        let real = |paths: &[PathBuf]| paths.iter().map(|path| real(path)).collect::<Vec<_>>();
        let secret = real(&options.secret);
        let devices = Path::new(DEVICE_FOLDER).to_owned();
        let bounds = Bounds {
            landlock: kernel.landlock,
            network,
            writable: real(&options.writable),
            hidden: secret.iter().cloned().chain([devices]).collect(),
            secret,
            readable: real(&options.readable),
        };
        Ok(Some(Sandbox { bounds: Arc::new(bounds) }))
    }

    pub fn network(&self) -> NetworkAccess {
        self.bounds.network
    }

    /// Whether the kernel is too old to keep commands from cutting files short outside.
    pub fn is_partial(&self) -> bool {
        self.bounds.landlock < COMPLETE_ABI
    }

    /// What the next child enters before it becomes its program. Made anew for each child, because rules
    /// name files that exist: folders made since the last one are to be in reach.
    pub(crate) fn confinement(&self) -> Result<Confinement, SandboxError> {
        Confinement::new(&self.bounds)
    }

    /// What a model needs to know about a failed command that may have met a boundary.
    pub fn explain(&self, output: &str) -> Option<String> {
        let says = |texts: &[&str]| texts.iter().any(|text| output.contains(text));
        let denied = self.bounds.network == NetworkAccess::Denied;
        if denied && says(REFUSED_NETWORK) {
            return Some("Note: the sandbox keeps commands off the network.".to_owned());
        }
        if !says(REFUSED_FILE) {
            return None;
        }
        let list = |paths: &[PathBuf]| {
            paths.iter().map(|path| format!("`{}`", path.display())).collect::<Vec<_>>().join(", ")
        };
        let network = if denied { ", and it has no network" } else { "" };
        let mut note = format!(
            "Note: commands run in a sandbox that lets them write only in {}{network}.",
            list(&self.bounds.writable)
        );
        if !self.bounds.secret.is_empty() {
            note.push_str(&format!(
                " It hides {} and cannot list the folders that hold them.",
                list(&self.bounds.secret)
            ));
        }
        Some(note)
    }
}

impl Bounds {
    /// Whether something hidden is this path or lies below it.
    pub fn holds_hidden(&self, path: &Path) -> bool {
        self.hidden.iter().any(|hidden| hidden.starts_with(path))
    }

    pub fn is_hidden(&self, path: &Path) -> bool {
        self.hidden.iter().any(|hidden| path.starts_with(hidden))
    }
}

fn real(path: &Path) -> PathBuf {
    paths::trace(Path::new("/"), path).map_or_else(|_| path.to_owned(), |trace| trace.real)
}

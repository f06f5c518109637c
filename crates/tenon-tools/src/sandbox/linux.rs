//! The sandbox on Linux: Landlock for files, a seccomp filter for the network.
//!
//! Landlock can only allow, and what is allowed for a folder holds for everything below it. A secret folder
//! is therefore kept out of reach by allowing its siblings one by one, all the way down from `/`.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use landlock::{
    ABI, Access, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible, PathBeneath, Ruleset, RulesetAttr,
    RulesetCreated, RulesetCreatedAttr, RulesetError, Scope, make_bitflags,
};
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
    TargetArch, sock_filter,
};

use tenon_core::NetworkAccess;

use super::{Bounds, KernelSupport, SandboxError};
use crate::sys;

/// The newest version whose rules are known here; an older kernel leaves out what it does not have.
const NEWEST: ABI = ABI::V7;
/// Devices that programs of all kinds use. Others, disks above all, are neither read nor written.
const DEVICES: &[&str] = &[
    "/dev/null",
    "/dev/zero",
    "/dev/full",
    "/dev/random",
    "/dev/urandom",
    "/dev/tty",
    "/dev/ptmx",
    "/dev/pts",
    "/dev/shm",
];
/// System calls that reach the network without `socket`, or that change what a filter sees.
const OTHER_WAYS: &[libc::c_long] =
    &[libc::SYS_io_uring_setup, libc::SYS_io_uring_enter, libc::SYS_io_uring_register, libc::SYS_bpf];

/// Ready to be entered by a child, between fork and exec.
#[derive(Debug)]
pub(crate) struct Confinement {
    files: OwnedFd,
    system_calls: Option<BpfProgram>,
}

impl Confinement {
    pub fn support() -> KernelSupport {
        KernelSupport { landlock: sys::landlock_version(), seccomp: sys::has_seccomp_filters() }
    }

    pub fn new(bounds: &Bounds) -> Result<Confinement, SandboxError> {
        let failed = |error: RulesetError| SandboxError::Kernel(error.to_string());
        let network_denied = bounds.network == NetworkAccess::Denied;
        let mut ruleset = Ruleset::default()
            .set_compatibility(CompatLevel::BestEffort)
            .handle_access(AccessFs::from_all(NEWEST))
            .map_err(failed)?;
        if network_denied {
            // The filter below refuses the sockets themselves; this is for those that come from elsewhere.
            ruleset = ruleset
                .handle_access(AccessNet::from_all(NEWEST))
                .and_then(|ruleset| ruleset.scope(Scope::AbstractUnixSocket))
                .map_err(failed)?;
        }
        let mut rules = Rules { bounds, ruleset: ruleset.create().map_err(failed)? };
        rules.add()?;
        let files: Option<OwnedFd> = rules.ruleset.into();
        Ok(Confinement {
            files: files.ok_or_else(|| SandboxError::Kernel("the kernel has no Landlock".to_owned()))?,
            system_calls: if network_denied { Some(no_network()?) } else { None },
        })
    }

    /// Binds the calling process for good. Only system calls: this runs between fork and exec.
    pub fn enter(&self) -> io::Result<()> {
        sys::give_up_new_privileges()?;
        sys::restrict_files(self.files.as_raw_fd())?;
        self.system_calls.as_deref().map_or(Ok(()), sys::filter_system_calls)
    }
}

struct Rules<'a> {
    bounds: &'a Bounds,
    ruleset: RulesetCreated,
}

impl Rules<'_> {
    fn add(&mut self) -> Result<(), SandboxError> {
        self.allow_except_secrets(Path::new("/"), reading(), BitFlags::EMPTY)?;
        for folder in &self.bounds.writable.clone() {
            // A folder somebody chose to work in stays listable, even if it holds a secret.
            self.allow_except_secrets(folder, reading() | writing(), AccessFs::ReadDir.into())?;
        }
        for folder in &self.bounds.readable.clone() {
            self.allow(folder, reading())?;
        }
        for device in DEVICES {
            self.allow(Path::new(device), reading() | writing())?;
        }
        Ok(())
    }

    /// Allows `access` below `path`, around secrets; `anyway` is allowed on folders that hold one.
    fn allow_except_secrets(
        &mut self,
        path: &Path,
        access: BitFlags<AccessFs>,
        anyway: BitFlags<AccessFs>,
    ) -> Result<(), SandboxError> {
        let mut folders = vec![path.to_owned()];
        while let Some(folder) = folders.pop() {
            if !self.bounds.holds_hidden(&folder) {
                self.allow(&folder, access)?;
                continue;
            }
            if !anyway.is_empty() {
                self.allow(&folder, anyway)?;
            }
            folders.extend(children(&folder).into_iter().filter(|child| !self.bounds.is_hidden(child)));
        }
        Ok(())
    }

    /// What is not there, cannot be opened or is a link gets no rule: a link leads to a place that has
    /// its own.
    fn allow(&mut self, path: &Path, access: BitFlags<AccessFs>) -> Result<(), SandboxError> {
        let Some((file, is_folder)) = open_itself(path) else { return Ok(()) };
        let access = if is_folder { access } else { access & AccessFs::from_file(NEWEST) };
        if access.is_empty() {
            return Ok(());
        }
        (&mut self.ruleset)
            .add_rule(PathBeneath::new(file, access))
            .map(|_| ())
            .map_err(|error| SandboxError::Kernel(format!("`{}`: {error}", path.display())))
    }
}

fn reading() -> BitFlags<AccessFs> {
    AccessFs::from_read(NEWEST)
}

/// Everything but making devices: a disk by another name is a disk.
fn writing() -> BitFlags<AccessFs> {
    AccessFs::from_write(NEWEST) & !make_bitflags!(AccessFs::{MakeChar | MakeBlock})
}

/// A handle on exactly this file, and whether it is a folder.
fn open_itself(path: &Path) -> Option<(File, bool)> {
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_PATH | libc::O_NOFOLLOW | libc::O_CLOEXEC)
        .open(path)
        .ok()?;
    let kind = file.metadata().ok()?.file_type();
    (!kind.is_symlink()).then(|| (file, kind.is_dir()))
}

fn children(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    entries.flatten().map(|entry| entry.path()).collect()
}

/// Refuses every kind of socket but those between processes of this machine.
fn no_network() -> Result<BpfProgram, SandboxError> {
    let failed = |error: seccompiler::BackendError| SandboxError::Kernel(error.to_string());
    let arch = TargetArch::try_from(std::env::consts::ARCH).map_err(failed)?;
    let local = u64::from(libc::AF_UNIX.unsigned_abs());
    let not_local = || {
        SeccompCondition::new(0, SeccompCmpArgLen::Dword, SeccompCmpOp::Ne, local)
            .and_then(|condition| SeccompRule::new(vec![condition]))
            .map_err(failed)
    };
    let mut rules =
        BTreeMap::from([(libc::SYS_socket, vec![not_local()?]), (libc::SYS_socketpair, vec![not_local()?])]);
    rules.extend(OTHER_WAYS.iter().map(|call| (*call, Vec::new())));
    let refused = SeccompAction::Errno(libc::EACCES.unsigned_abs());
    let filter = SeccompFilter::new(rules, SeccompAction::Allow, refused, arch).map_err(failed)?;
    let mut program = second_names_refused();
    program.extend(BpfProgram::try_from(filter).map_err(failed)?);
    Ok(program)
}

/// On x86-64 every system call has a second number, which a filter by number does not see.
#[cfg(target_arch = "x86_64")]
fn second_names_refused() -> BpfProgram {
    const LOAD_NUMBER: u16 = 0x20;
    const JUMP_IF_AT_LEAST: u16 = 0x35;
    const RETURN: u16 = 0x06;
    const X32: u32 = 0x4000_0000;
    let refuse = libc::SECCOMP_RET_ERRNO | libc::ENOSYS.unsigned_abs();
    vec![
        sock_filter { code: LOAD_NUMBER, jt: 0, jf: 0, k: 0 },
        sock_filter { code: JUMP_IF_AT_LEAST, jt: 0, jf: 1, k: X32 },
        sock_filter { code: RETURN, jt: 0, jf: 0, k: refuse },
    ]
}

#[cfg(not(target_arch = "x86_64"))]
fn second_names_refused() -> BpfProgram {
    Vec::new()
}

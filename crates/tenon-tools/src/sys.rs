//! The system calls for which there is no safe wrapper at hand.

use std::io;

use tokio::process::Command;

use crate::sandbox::Confinement;

/// A process group, by the id of the process that leads it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ProcessGroup(libc::pid_t);

impl ProcessGroup {
    /// `None` for ids that would mean "my own group" or "everybody" to `kill`.
    pub fn of(pid: u32) -> Option<ProcessGroup> {
        libc::pid_t::try_from(pid).ok().filter(|pid| *pid > 1).map(ProcessGroup)
    }

    pub fn id(self) -> libc::pid_t {
        self.0
    }

    /// Asks every process of the group to end.
    pub fn terminate(self) {
        self.signal(libc::SIGTERM);
    }

    /// Ends every process of the group.
    pub fn kill(self) {
        self.signal(libc::SIGKILL);
    }

    /// A group that is already gone is as good as a signalled one.
    #[allow(unsafe_code)]
    fn signal(self, signal: libc::c_int) {
        // SAFETY: `kill` touches no memory of this process, and the constructor keeps the id above 1.
        unsafe {
            libc::kill(-self.0, signal);
        }
    }
}

/// Starts the child in a session of its own: a new process group, and no terminal to ask for a password.
#[allow(unsafe_code)]
pub(crate) fn in_new_session(command: &mut Command) {
    let detach = || if unsafe { libc::setsid() } == -1 { Err(io::Error::last_os_error()) } else { Ok(()) };
    // SAFETY: between fork and exec only `setsid` is called, which is async-signal-safe, and nothing is
    // allocated: the error is built from the error number alone.
    unsafe {
        command.pre_exec(detach);
    }
}

/// The child enters the confinement before it becomes its program.
#[allow(unsafe_code)]
pub(crate) fn confine(command: &mut Command, confinement: Confinement) {
    // SAFETY: `enter` makes system calls only, which are async-signal-safe, and allocates nothing.
    unsafe {
        command.pre_exec(move || confinement.enter());
    }
}

/// The same for a child on a terminal of its own.
#[allow(dead_code, reason = "children on a terminal are on their way")]
#[allow(unsafe_code)]
pub(crate) fn confine_on_terminal(
    command: pty_process::Command,
    confinement: Confinement,
) -> pty_process::Command {
    // SAFETY: as in `confine`.
    unsafe { command.pre_exec(move || confinement.enter()) }
}

/// No program started from here on can gain rights by being started (`sudo`); both kinds of confinement
/// ask for it.
#[cfg(target_os = "linux")]
#[allow(unsafe_code)]
pub(crate) fn give_up_new_privileges() -> io::Result<()> {
    // SAFETY: takes numbers only.
    checked(unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) }.into())
}

/// Binds this process to a Landlock ruleset.
#[cfg(target_os = "linux")]
#[allow(unsafe_code)]
pub(crate) fn restrict_files(ruleset: std::os::fd::RawFd) -> io::Result<()> {
    // SAFETY: takes numbers only; a descriptor that is no ruleset is refused by the kernel.
    checked(unsafe { libc::syscall(libc::SYS_landlock_restrict_self, ruleset, 0) })
}

/// Binds this process to a filter on its system calls.
#[cfg(target_os = "linux")]
#[allow(unsafe_code)]
pub(crate) fn filter_system_calls(program: &[seccompiler::sock_filter]) -> io::Result<()> {
    let len = u16::try_from(program.len()).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?;
    let program = libc::sock_fprog { len, filter: program.as_ptr().cast_mut().cast() };
    // SAFETY: the kernel copies `len` instructions, which outlive the call; both crates lay an
    // instruction out as the kernel does.
    checked(unsafe { libc::syscall(libc::SYS_seccomp, libc::SECCOMP_SET_MODE_FILTER, 0, &raw const program) })
}

/// The version of Landlock this kernel offers; 0 for none.
#[cfg(target_os = "linux")]
#[allow(unsafe_code)]
pub(crate) fn landlock_version() -> u32 {
    const ASK_FOR_VERSION: u32 = 1;
    let nothing = std::ptr::null::<libc::c_void>();
    // SAFETY: with this flag the call takes no structure and changes nothing.
    let version =
        unsafe { libc::syscall(libc::SYS_landlock_create_ruleset, nothing, 0_usize, ASK_FOR_VERSION) };
    u32::try_from(version).unwrap_or(0)
}

#[cfg(target_os = "linux")]
#[allow(unsafe_code)]
pub(crate) fn has_seccomp_filters() -> bool {
    let action = libc::SECCOMP_RET_ERRNO;
    // SAFETY: reads one number.
    unsafe { libc::syscall(libc::SYS_seccomp, libc::SECCOMP_GET_ACTION_AVAIL, 0, &raw const action) == 0 }
}

#[cfg(target_os = "linux")]
fn checked(result: libc::c_long) -> io::Result<()> {
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

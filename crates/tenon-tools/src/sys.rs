//! The two system calls for which there is no safe wrapper at hand.

use std::io;

use tokio::process::Command;

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

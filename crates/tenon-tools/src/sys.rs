//! The system calls for which there is no safe wrapper at hand.

use std::io;
#[cfg(target_os = "linux")]
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

#[cfg(target_os = "linux")]
use tokio::io::{Interest, unix::AsyncFd};
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

    /// The group of a process that leads its group and its session; `None` for any other.
    pub fn led_by(pid: u32) -> Option<ProcessGroup> {
        let group = ProcessGroup::of(pid)?;
        // State, parent, group, session.
        let leads = |place: usize| stat_field(group.0, place) == Some(group.0);
        (leads(2) && leads(3)).then_some(group)
    }

    pub fn id(self) -> libc::pid_t {
        self.0
    }

    /// Asks every process of the group to end, and every other one of its session.
    pub fn terminate(self) {
        self.signal(libc::SIGTERM);
    }

    /// Ends every process of the group, and every other one of its session.
    pub fn kill(self) {
        self.signal(libc::SIGKILL);
    }

    /// A group that is already gone is as good as a signalled one. A shell with job control puts what it
    /// starts into groups of their own: those are found by their session.
    #[allow(unsafe_code)]
    fn signal(self, signal: libc::c_int) {
        let others = session_members(self.0);
        // SAFETY: `kill` touches no memory of this process, and the constructor keeps the id above 1.
        unsafe {
            libc::kill(-self.0, signal);
        }
        for pid in others {
            // SAFETY: as above; `session_members` keeps the ids above 1.
            unsafe {
                libc::kill(pid, signal);
            }
        }
    }
}

/// The processes of a session; none where the system does not tell.
fn session_members(session: libc::pid_t) -> Vec<libc::pid_t> {
    let Ok(processes) = std::fs::read_dir("/proc") else { return Vec::new() };
    processes
        .filter_map(|entry| {
            let pid: libc::pid_t = entry.ok()?.file_name().to_str()?.parse().ok()?;
            (pid > 1 && stat_field(pid, 3) == Some(session)).then_some(pid)
        })
        .collect()
}

/// What the kernel says about a process, counted from behind its name, which stands in parentheses and may hold anything: state,
/// parent, group, session.
fn stat_field(pid: libc::pid_t, place: usize) -> Option<libc::pid_t> {
    let stat = std::fs::read(format!("/proc/{pid}/stat")).ok()?;
    let after_name = stat.iter().rposition(|byte| *byte == b')')?;
    let fields = std::str::from_utf8(&stat[after_name + 1..]).ok()?;
    fields.split_ascii_whitespace().nth(place)?.parse().ok()
}

/// A pipe whose reader does not wait.
#[cfg(target_os = "linux")]
#[allow(unsafe_code)]
pub(crate) fn pipe_to_watch() -> io::Result<(io::PipeReader, io::PipeWriter)> {
    let (reader, writer) = io::pipe()?;
    // SAFETY: takes numbers only, and the descriptor is open.
    let done = unsafe { libc::fcntl(reader.as_raw_fd(), libc::F_SETFL, libc::O_NONBLOCK) };
    checked(done.into())?;
    Ok((reader, writer))
}

/// Descriptors that became readable, in the order they did (an epoll instance).
#[cfg(target_os = "linux")]
pub(crate) struct ReadyList(OwnedFd);

#[cfg(target_os = "linux")]
#[allow(unsafe_code)]
impl ReadyList {
    pub fn new() -> io::Result<ReadyList> {
        // SAFETY: takes numbers only, and the descriptor it gives belongs to nobody else.
        unsafe {
            let list = libc::epoll_create1(libc::EPOLL_CLOEXEC);
            if list == -1 {
                Err(io::Error::last_os_error())
            } else {
                Ok(ReadyList(OwnedFd::from_raw_fd(list)))
            }
        }
    }

    pub fn add(&self, what: &impl AsRawFd, name: u64) -> io::Result<()> {
        self.change(libc::EPOLL_CTL_ADD, what, name)
    }

    /// With a way to wait until there is something on the list.
    pub fn watched(self) -> io::Result<AsyncFd<ReadyList>> {
        // SAFETY: the descriptor is open as long as the list lives, and stays the same.
        Ok(unsafe { AsyncFd::register_with_interest(self, Interest::READABLE) }?)
    }

    /// Puts it at the end of the list if it is readable and not on it.
    pub fn again(&self, what: &impl AsRawFd, name: u64) -> io::Result<()> {
        self.change(libc::EPOLL_CTL_MOD, what, name)
    }

    pub fn remove(&self, what: &impl AsRawFd) -> io::Result<()> {
        self.change(libc::EPOLL_CTL_DEL, what, 0)
    }

    /// The name of what became readable first, taken off the list. Does not wait.
    pub fn next(&self) -> io::Result<Option<u64>> {
        let mut event = libc::epoll_event { events: 0, u64: 0 };
        // SAFETY: the kernel writes at most one event, for which there is room.
        match unsafe { libc::epoll_wait(self.0.as_raw_fd(), &raw mut event, 1, 0) } {
            -1 => Err(io::Error::last_os_error()),
            0 => Ok(None),
            _ => Ok(Some(event.u64)),
        }
    }

    fn change(&self, how: libc::c_int, what: &impl AsRawFd, name: u64) -> io::Result<()> {
        // Edge-triggered: only what happens puts it on the list, so its place tells when that was.
        let events = (libc::EPOLLIN | libc::EPOLLET).cast_unsigned();
        let mut event = libc::epoll_event { events, u64: name };
        // SAFETY: the kernel reads one event, and both descriptors are open.
        let done = unsafe { libc::epoll_ctl(self.0.as_raw_fd(), how, what.as_raw_fd(), &raw mut event) };
        checked(done.into())
    }
}

#[cfg(target_os = "linux")]
impl AsRawFd for ReadyList {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_raw_fd()
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

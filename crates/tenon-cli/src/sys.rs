//! The few things that have no safe function.

use std::ffi::CString;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Could a folder be made and filled here? Asked of the nearest one that exists; nothing is made.
pub fn can_be_written(folder: &Path) -> bool {
    let Some(nearest) = folder.ancestors().find(|folder| folder.exists()) else { return false };
    let Ok(path) = CString::new(nearest.as_os_str().as_bytes()) else { return false };
    #[expect(unsafe_code, reason = "access has no safe wrapper in the standard library")]
    // SAFETY: `path` is a string that ends in a zero byte and outlives the call.
    let answer = unsafe { libc::access(path.as_ptr(), libc::W_OK | libc::X_OK) };
    nearest.is_dir() && answer == 0
}

/// Which of our streams is asked about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Terminal {
    Stdout,
    Stderr,
}

/// What fits on a screen, in characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TerminalSize {
    pub columns: usize,
    pub lines: usize,
}

/// The size of the terminal behind a stream; `None` when there is none, or it does not say.
pub fn terminal_size(terminal: Terminal) -> Option<TerminalSize> {
    let stream = match terminal {
        Terminal::Stdout => libc::STDOUT_FILENO,
        Terminal::Stderr => libc::STDERR_FILENO,
    };
    let mut size = libc::winsize { ws_row: 0, ws_col: 0, ws_xpixel: 0, ws_ypixel: 0 };
    #[expect(unsafe_code, reason = "the standard library knows no sizes of terminals")]
    // SAFETY: the request fills in a `winsize`, which outlives the call.
    let answer = unsafe { libc::ioctl(stream, libc::TIOCGWINSZ, &mut size) };
    let (columns, lines) = (usize::from(size.ws_col), usize::from(size.ws_row));
    (answer == 0 && columns > 0 && lines > 0).then_some(TerminalSize { columns, lines })
}

/// How far local time is ahead of UTC at a moment, both in seconds; 0 where nobody knows.
pub fn utc_offset_at(unix_seconds: i64) -> i64 {
    let time: libc::time_t = unix_seconds;
    let mut local = std::mem::MaybeUninit::<libc::tm>::zeroed();
    #[expect(unsafe_code, reason = "the standard library knows no local time")]
    // SAFETY: both pointers are to values that outlive the call; all zeroes is a valid `tm`, whatever the call does.
    let local = unsafe {
        libc::localtime_r(&time, local.as_mut_ptr());
        local.assume_init()
    };
    local.tm_gmtoff
}

/// Keys are in this process's memory: other processes of the same user may not read it, and a crash
/// leaves no core file. A panic says where it happened and nothing about the data.
pub fn protect_process() {
    #[cfg(target_os = "linux")]
    #[expect(unsafe_code, reason = "prctl has no safe wrapper in the standard library")]
    // SAFETY: PR_SET_DUMPABLE takes one integer and touches no memory of ours.
    unsafe {
        libc::prctl(libc::PR_SET_DUMPABLE, 0);
    }
    std::panic::set_hook(Box::new(|panic| {
        let place = panic.location().map(|place| format!(" at {}:{}", place.file(), place.line()));
        crate::stderr::line(&format!("error[internal]: tenon broke down{}", place.unwrap_or_default()));
    }));
}

/// The user that this process acts for.
pub fn user_id() -> u32 {
    #[expect(unsafe_code, reason = "the standard library does not say who one is")]
    // SAFETY: it takes nothing, changes nothing and cannot fail.
    let id = unsafe { libc::getuid() };
    id
}

//! Runs one program to its end and says what it cost: wall time, CPU time, peak memory, first output.

use std::fs::File;
use std::io::Read;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use crate::Failure;

/// No measured run takes seconds; this ends one that hangs.
const LIFE_LIMIT: Duration = Duration::from_secs(120);
/// Enough of the end of stdout to see the result in it. What came before is dropped, because a large parent
/// would show up as memory of the next child.
const KEPT_OUTPUT_BYTES: usize = 64 * 1024;

pub struct Sample {
    pub wall: Duration,
    /// User and system time, with that of children it waited for.
    pub cpu: Duration,
    pub peak_rss_bytes: u64,
    pub first_byte: Option<Duration>,
    pub status: ExitStatus,
    /// The end of what it printed.
    pub output: Vec<u8>,
}

/// Measures a command with an empty stdin; its stderr goes to a file, for when it fails.
pub fn measure(command: &mut Command, stderr: &Path) -> Result<Sample, Failure> {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(File::create(stderr)?);
    let start = Instant::now();
    let mut child = command.spawn()?;
    let pid = child.id().cast_signed();
    let _watchdog = kill_when_late(pid);

    let mut output = Vec::new();
    let mut first_byte = None;
    if let Some(mut stdout) = child.stdout.take() {
        let mut buffer = [0; 16 * 1024];
        loop {
            let count = stdout.read(&mut buffer)?;
            if count == 0 {
                break;
            }
            first_byte.get_or_insert_with(|| start.elapsed());
            output.extend_from_slice(&buffer[..count]);
            if output.len() > 2 * KEPT_OUTPUT_BYTES {
                output.drain(..output.len() - KEPT_OUTPUT_BYTES);
            }
        }
    }
    let (status, usage) = wait4(pid)?;
    let wall = start.elapsed();
    Ok(Sample {
        wall,
        cpu: duration(usage.ru_utime) + duration(usage.ru_stime),
        // Kilobytes on Linux.
        peak_rss_bytes: usage.ru_maxrss.unsigned_abs() * 1024,
        first_byte,
        status,
        output,
    })
}

/// The smallest peak that can be seen from here: that of a program that does nothing. A child starts out as
/// a copy of its parent, and the kernel keeps that size as the child's first peak.
pub fn peak_rss_floor(stderr: &Path) -> Result<u64, Failure> {
    Ok(measure(&mut Command::new("/bin/true"), stderr)?.peak_rss_bytes)
}

/// Memory of a process and all it started, shared pages counted in part (`Pss`).
pub fn pss_of_tree(pid: u32) -> u64 {
    let own = std::fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).unwrap_or_default();
    let own: u64 = own
        .lines()
        .find_map(|line| line.strip_prefix("Pss:"))
        .and_then(|rest| rest.trim().trim_end_matches("kB").trim().parse().ok())
        .unwrap_or(0);
    let children: u64 = children(pid).into_iter().map(pss_of_tree).sum();
    own * 1024 + children
}

fn children(pid: u32) -> Vec<u32> {
    let Ok(threads) = std::fs::read_dir(format!("/proc/{pid}/task")) else { return Vec::new() };
    let lists =
        threads.flatten().filter_map(|thread| std::fs::read_to_string(thread.path().join("children")).ok());
    lists
        .flat_map(|list| list.split_whitespace().filter_map(|pid| pid.parse().ok()).collect::<Vec<_>>())
        .collect()
}

/// Kills the process when the limit passes before the returned value is dropped.
fn kill_when_late(pid: i32) -> mpsc::Sender<()> {
    let (alive, watched) = mpsc::channel();
    std::thread::spawn(move || {
        if watched.recv_timeout(LIFE_LIMIT) == Err(mpsc::RecvTimeoutError::Timeout) {
            kill(pid);
        }
    });
    alive
}

#[allow(unsafe_code, reason = "the standard library does not report what a child used")]
fn wait4(pid: i32) -> std::io::Result<(ExitStatus, libc::rusage)> {
    let mut status = 0;
    // SAFETY: `rusage` is plain numbers, for which all zeros is a value.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: both pointers are to locals that outlive the call.
    let waited = unsafe { libc::wait4(pid, &raw mut status, 0, &raw mut usage) };
    if waited == pid {
        Ok((ExitStatus::from_raw(status), usage))
    } else {
        Err(std::io::Error::last_os_error())
    }
}

#[allow(unsafe_code, reason = "the process is known by its number only")]
fn kill(pid: i32) {
    // SAFETY: kill(2) takes two integers and touches no memory of ours.
    unsafe { libc::kill(pid, libc::SIGKILL) };
}

fn duration(time: libc::timeval) -> Duration {
    Duration::from_secs(time.tv_sec.unsigned_abs()) + Duration::from_micros(time.tv_usec.unsigned_abs())
}

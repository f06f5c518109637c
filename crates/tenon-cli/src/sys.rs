//! The few things that have no safe function.

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

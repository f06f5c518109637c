//! What the compiler cannot check: a mapped file, and work that is lent to other threads.
//!
//! The kernels in `simd.rs` are the other place.

use std::ffi::CString;
use std::fs::File;
use std::io;
use std::mem::MaybeUninit;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::atomic::{AtomicPtr, Ordering};

use memmap2::Mmap;

/// Maps a whole file. Pages are read when they are touched and shared with every process that maps them, so
/// weights cost no memory of their own.
#[expect(
    unsafe_code,
    reason = "a file that is cut while it is mapped ends the process; ours are written beside and renamed"
)]
pub(crate) fn map(file: &File) -> io::Result<Mmap> {
    // SAFETY: the bytes are only ever read, as plain numbers. A change of the file by another program can make
    // answers wrong, which is that program's doing.
    unsafe { Mmap::map(file) }
}

/// Work that is lent to other threads for a while.
pub(crate) struct Lent(AtomicPtr<Work<'static>>);

/// A thin thing to point at.
pub(crate) struct Work<'a>(pub &'a (dyn Fn(usize) + Sync));

impl Lent {
    pub(crate) fn nothing() -> Lent {
        Lent(AtomicPtr::new(std::ptr::null_mut()))
    }

    /// Until the next loan, [`Lent::perform`] does this work. Whoever lends waits, before `work` ends, until
    /// every `perform` that began has ended, and sees to it that none begins any more.
    pub(crate) fn lend(&self, work: &Work<'_>) {
        let pointer: *const Work<'_> = work;
        self.0.store(pointer.cast_mut().cast(), Ordering::Release);
    }

    /// Only for the holder of a part of the work that was lent last: see `pool.rs`.
    #[expect(unsafe_code, reason = "threads that live longer than the work cannot borrow it")]
    pub(crate) fn perform(&self, part: usize) {
        // SAFETY: `pool.rs` gives out each part once, only while the loan lasts, and ends the loan only when
        // all parts are done; the pointer was made from a reference that lives until then.
        if let Some(work) = unsafe { self.0.load(Ordering::Acquire).as_ref() } {
            (work.0)(part);
        }
    }
}

/// How much can be written to the disk that holds `folder`; `None` where the system does not tell.
#[expect(unsafe_code, reason = "statvfs has no safe wrapper in the standard library")]
pub(crate) fn free_bytes(folder: &Path) -> Option<u64> {
    let folder = CString::new(folder.as_os_str().as_bytes()).ok()?;
    let mut found = MaybeUninit::<libc::statvfs>::uninit();
    // SAFETY: the path ends in a zero byte, and the other side is room for the answer, which is read only when
    // the call says that it has written it.
    let found = unsafe {
        match libc::statvfs(folder.as_ptr(), found.as_mut_ptr()) {
            0 => found.assume_init(),
            _ => return None,
        }
    };
    #[allow(clippy::unnecessary_cast, reason = "the types differ between systems")]
    Some((found.f_bavail as u64).saturating_mul(found.f_frsize as u64))
}

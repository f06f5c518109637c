//! What a command writes to stdout and to stderr: told apart, and in the order it was written as far as two
//! pipes can tell. The reader is `shell_run.rs`.
//!
//! Two pipes keep the streams apart, so that a character split between two writes stays whole whatever the
//! other stream writes in between. Which of them became readable first is what the kernel's own list says;
//! only writes that follow each other faster than they are read, to one stream, the other and the first again, can change
//! places. Pipes that hold a single write would rule that out too, but programs that share a non-blocking
//! stdout (whatever `npm run` starts does) fail where a pipe is full after a page.

use std::io;

#[cfg(not(target_os = "linux"))]
pub(crate) use as_found::BothPipes;
#[cfg(target_os = "linux")]
pub(crate) use in_order::BothPipes;

/// The command's ends: stdout, stderr.
pub(crate) type Writers = (io::PipeWriter, io::PipeWriter);

#[cfg(target_os = "linux")]
mod in_order {
    use std::io::{self, PipeReader, Read};

    use tokio::io::unix::AsyncFd;

    use super::Writers;
    use crate::shell_output::Stream;
    use crate::sys::{self, ReadyList};

    pub(crate) struct BothPipes {
        ready: AsyncFd<ReadyList>,
        stdout: Option<PipeReader>,
        stderr: Option<PipeReader>,
    }

    const STDOUT: u64 = 1;
    const STDERR: u64 = 2;

    impl BothPipes {
        pub fn open() -> io::Result<(BothPipes, Writers)> {
            let (stdout, to_stdout) = sys::pipe_to_watch()?;
            let (stderr, to_stderr) = sys::pipe_to_watch()?;
            let list = ReadyList::new()?;
            list.add(&stdout, STDOUT)?;
            list.add(&stderr, STDERR)?;
            let ready = list.watched()?;
            Ok((BothPipes { ready, stdout: Some(stdout), stderr: Some(stderr) }, (to_stdout, to_stderr)))
        }

        /// The next piece, or `None` when nobody holds the other ends any more. Dropping the future loses
        /// nothing.
        pub async fn read(&mut self, buffer: &mut [u8]) -> io::Result<Option<(Stream, usize)>> {
            while self.stdout.is_some() || self.stderr.is_some() {
                let mut guard = self.ready.readable().await?;
                let Some(which) = guard.get_inner().next()? else {
                    guard.clear_ready();
                    continue;
                };
                let (stream, pipe) = match which {
                    STDOUT => (Stream::Stdout, &mut self.stdout),
                    _ => (Stream::Stderr, &mut self.stderr),
                };
                let Some(open) = pipe else { continue };
                let waits = |error: &io::Error| {
                    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
                };
                match open.read(buffer) {
                    Ok(n) if n > 0 => {
                        // Whatever is left puts it on the list again.
                        guard.get_inner().again(open, which)?;
                        return Ok(Some((stream, n)));
                    }
                    Err(error) if waits(&error) => guard.get_inner().again(open, which)?,
                    Ok(_) | Err(_) => {
                        guard.get_inner().remove(open)?;
                        *pipe = None;
                    }
                }
            }
            Ok(None)
        }
    }
}

#[cfg(not(target_os = "linux"))]
mod as_found {
    use std::io;

    use tokio::io::AsyncReadExt;
    use tokio::net::unix::pipe;

    use super::Writers;
    use crate::shell_output::Stream;

    pub(crate) struct BothPipes {
        stdout: Option<pipe::Receiver>,
        stderr: Option<pipe::Receiver>,
        other: Vec<u8>,
    }

    impl BothPipes {
        pub fn open() -> io::Result<(BothPipes, Writers)> {
            let (stdout, to_stdout) = io::pipe()?;
            let (stderr, to_stderr) = io::pipe()?;
            let pipes = BothPipes {
                stdout: Some(pipe::Receiver::from_owned_fd(stdout.into())?),
                stderr: Some(pipe::Receiver::from_owned_fd(stderr.into())?),
                other: Vec::new(),
            };
            Ok((pipes, (to_stdout, to_stderr)))
        }

        pub async fn read(&mut self, buffer: &mut [u8]) -> io::Result<Option<(Stream, usize)>> {
            self.other.resize(buffer.len(), 0);
            loop {
                let (stream, read) = match (&mut self.stdout, &mut self.stderr) {
                    (None, None) => return Ok(None),
                    (Some(stdout), None) => (Stream::Stdout, stdout.read(buffer).await),
                    (None, Some(stderr)) => (Stream::Stderr, stderr.read(buffer).await),
                    (Some(stdout), Some(stderr)) => tokio::select! {
                        read = stdout.read(buffer) => (Stream::Stdout, read),
                        read = stderr.read(&mut self.other) => {
                            if let Ok(n) = read {
                                buffer[..n].copy_from_slice(&self.other[..n]);
                            }
                            (Stream::Stderr, read)
                        }
                    },
                };
                match (read, stream) {
                    (Ok(n), _) if n > 0 => return Ok(Some((stream, n))),
                    (_, Stream::Stdout | Stream::Terminal) => self.stdout = None,
                    (_, Stream::Stderr) => self.stderr = None,
                }
            }
        }
    }
}

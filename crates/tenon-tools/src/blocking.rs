//! Runs work that reads files off the async threads, and stops it when nobody waits for it any more.

use std::io::{self, Read};

use tenon_core::{Cancel, ToolCtx, ToolErrorKind, ToolOutcome};

use crate::args::{Refusal, outcome};

/// Runs `work` on a thread of its own. It should look at the token it gets now and then: the token falls
/// when the run is cancelled and when the call is dropped. The answer does not wait for it then.
pub(crate) async fn read_only<F>(ctx: ToolCtx, work: F) -> ToolOutcome
where
    F: FnOnce(&Cancel) -> Result<ToolOutcome, Refusal> + Send + 'static,
{
    let token = ctx.cancel.child_token();
    let _falls_on_drop = token.clone().drop_guard();
    let inner = token.clone();
    let running = tokio::task::spawn_blocking(move || outcome(work(&inner)));
    tokio::select! {
        biased;
        () = token.cancelled() => cancelled(),
        done = running => done.unwrap_or_else(|error| crashed(&error)),
    }
}

/// Like [`read_only`] for work that changes files: once started it is waited for, so that what it says
/// about the file is true.
pub(crate) async fn changing<F>(ctx: ToolCtx, work: F) -> ToolOutcome
where
    F: FnOnce() -> Result<ToolOutcome, Refusal> + Send + 'static,
{
    if ctx.cancel.is_cancelled() {
        return cancelled();
    }
    tokio::task::spawn_blocking(move || outcome(work())).await.unwrap_or_else(|error| crashed(&error))
}

fn cancelled() -> ToolOutcome {
    ToolOutcome::error(ToolErrorKind::Cancelled, "The call was cancelled before it finished.")
}

fn crashed(error: &tokio::task::JoinError) -> ToolOutcome {
    ToolOutcome::error(ToolErrorKind::Failed, format!("The tool stopped unexpectedly: {error}."))
}

/// A reader that ends with an error once `cancel` falls, for files that take long.
pub(crate) struct Cancellable<'a, R> {
    pub inner: R,
    pub cancel: &'a Cancel,
}

impl<R: Read> Read for Cancellable<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.cancel.is_cancelled() {
            return Err(io::Error::other("cancelled"));
        }
        self.inner.read(buffer)
    }
}

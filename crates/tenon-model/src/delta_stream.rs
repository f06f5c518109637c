//! Streams of deltas written as straight-line async code.
//!
//! The future pushes deltas and pauses; whoever reads the stream drives it. Nothing is spawned, so
//! dropping the stream drops the work, and a fired `Cancel` ends it with nothing more.

use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use futures_core::Stream;
use tenon_core::{BoxFut, Cancel, Delta, DeltaStream, ModelError};

/// The stream of what `work` gives to its [`Out`]; its error, if any, comes last.
pub(crate) fn deltas<F, W>(cancel: Cancel, work: F) -> DeltaStream
where
    F: FnOnce(Out) -> W,
    W: Future<Output = Result<(), ModelError>> + Send + 'static,
{
    let out = Out(Arc::default());
    let queue = out.clone();
    let work = work(out);
    let until_cancelled = cancel.clone();
    let work = Box::pin(async move { until_cancelled.run_until_cancelled(work).await });
    Box::pin(Deltas { work: Some(work), queue, failed: None, cancel })
}

/// Where the work puts its deltas.
#[derive(Clone)]
pub(crate) struct Out(Arc<Mutex<VecDeque<Delta>>>);

impl Out {
    pub fn push(&self, delta: Delta) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push_back(delta);
    }

    /// Lets the reader take what was pushed. It polls again when it has, so no waker is needed.
    pub async fn pause(&self) {
        let mut paused = self.is_empty();
        std::future::poll_fn(|_| {
            if std::mem::replace(&mut paused, true) { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    }

    fn is_empty(&self) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).is_empty()
    }

    fn pop(&self) -> Option<Delta> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).pop_front()
    }
}

struct Deltas {
    /// `None` inside: cancelled.
    work: Option<BoxFut<'static, Option<Result<(), ModelError>>>>,
    queue: Out,
    failed: Option<ModelError>,
    cancel: Cancel,
}

impl Stream for Deltas {
    type Item = Result<Delta, ModelError>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        loop {
            if self.cancel.is_cancelled() {
                self.work = None;
                return Poll::Ready(None);
            }
            if let Some(delta) = self.queue.pop() {
                return Poll::Ready(Some(Ok(delta)));
            }
            let Some(work) = self.work.as_mut() else {
                return Poll::Ready(self.failed.take().map(Err));
            };
            match work.as_mut().poll(cx) {
                Poll::Ready(end) => {
                    self.work = None;
                    self.failed = end.and_then(Result::err);
                }
                Poll::Pending if self.queue.is_empty() => return Poll::Pending,
                Poll::Pending => {}
            }
        }
    }
}

//! Reads server-sent events. The framing is the `sse-stream` crate's; this adds what an open network
//! needs: caps on memory, and a last event whose closing blank line never came.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use futures_core::Stream;
use futures_util::StreamExt;
use sse_stream::SseByteStream;
use tenon_core::{ErrorClass, ModelError};

use crate::ByteStream;
use crate::transport::MAX_ANSWER_BYTES;

/// One event may hold a whole answer (a file to write, say), but an endless line must not eat the memory.
const MAX_EVENT_BYTES: usize = 16 << 20;

pub(crate) struct Events {
    events: SseByteStream<Fed>,
    progress: Arc<Progress>,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Event {
    /// The `event:` field, where there is one.
    pub name: Option<String>,
    pub data: String,
    pub ending: Ending,
}

/// How the text of an event ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// With its blank line.
    Closed,
    /// With the body: it may be whole or cut.
    EndOfBody,
}

impl Events {
    pub fn new(body: ByteStream) -> Events {
        let progress = Arc::new(Progress::default());
        let fed = Fed { body, progress: progress.clone(), total: 0 };
        Events { events: SseByteStream::new(fed), progress }
    }

    /// The next event that has data. `None` when the body has ended.
    pub async fn next(&mut self) -> Option<Result<Event, ModelError>> {
        loop {
            let event = match self.events.next().await? {
                Ok(event) => event,
                Err(error) => return Some(Err(sorted(error))),
            };
            self.progress.since_event.store(0, Ordering::Relaxed);
            let ending =
                if self.progress.ended.load(Ordering::Relaxed) { Ending::EndOfBody } else { Ending::Closed };
            if let Some(data) = event.data {
                return Some(Ok(Event { name: event.event, data, ending }));
            }
        }
    }
}

fn sorted(error: sse_stream::Error) -> ModelError {
    match error {
        sse_stream::Error::Body(error) => match error.downcast::<ModelError>() {
            Ok(error) => *error,
            Err(error) => ModelError::new(ErrorClass::Network, error.to_string()),
        },
        _ => ModelError::new(ErrorClass::Protocol, "the server sent an answer that is not UTF-8 text"),
    }
}

#[derive(Default)]
struct Progress {
    since_event: AtomicUsize,
    ended: AtomicBool,
}

/// The body on its way into the parser: counted, and closed with a blank line at its end.
struct Fed {
    body: ByteStream,
    progress: Arc<Progress>,
    total: usize,
}

impl Stream for Fed {
    type Item = Result<Bytes, ModelError>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if self.progress.ended.load(Ordering::Relaxed) {
            return Poll::Ready(None);
        }
        let Some(chunk) = ready!(self.body.as_mut().poll_next(cx)) else {
            self.progress.ended.store(true, Ordering::Relaxed);
            return Poll::Ready(Some(Ok(Bytes::from_static(b"\n\n"))));
        };
        let chunk = match chunk {
            Ok(chunk) => chunk,
            Err(error) => return Poll::Ready(Some(Err(error))),
        };
        self.total += chunk.len();
        let event = self.progress.since_event.fetch_add(chunk.len(), Ordering::Relaxed) + chunk.len();
        let problem = if self.total > MAX_ANSWER_BYTES {
            format!("the answer is larger than {} MiB", MAX_ANSWER_BYTES >> 20)
        } else if event > MAX_EVENT_BYTES {
            format!("one event of the answer is larger than {} MiB", MAX_EVENT_BYTES >> 20)
        } else {
            return Poll::Ready(Some(Ok(chunk)));
        };
        Poll::Ready(Some(Err(ModelError::new(ErrorClass::Protocol, problem))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt;
    use futures_util::stream;

    fn read(chunks: Vec<Vec<u8>>) -> Vec<Result<Event, String>> {
        let body = stream::iter(chunks.into_iter().map(|chunk| Ok(Bytes::from(chunk))));
        let mut events = Events::new(Box::pin(body));
        let mut seen = Vec::new();
        while let Some(event) = events.next().now_or_never().unwrap() {
            seen.push(event.map_err(|error| error.message));
        }
        seen
    }

    fn event(name: Option<&str>, data: &str, ending: Ending) -> Result<Event, String> {
        Ok(Event { name: name.map(str::to_owned), data: data.to_owned(), ending })
    }

    #[test]
    fn framing() {
        use Ending::{Closed, EndOfBody};
        for (text, expected) in [
            ("data: a\n\ndata:b\n\n", vec![event(None, "a", Closed), event(None, "b", Closed)]),
            ("data: a\r\n\r\ndata: b\r\r", vec![event(None, "a", Closed), event(None, "b", Closed)]),
            ("\u{feff}data: a\n\n", vec![event(None, "a", Closed)]),
            (": hello\n\ndata: a\n: more\ndata: b\n\n", vec![event(None, "a\nb", Closed)]),
            ("event: error\ndata: x\n\n", vec![event(Some("error"), "x", Closed)]),
            ("id: 1\nretry: 5\n\nodd: 1\ndata: a\n\n", vec![event(None, "a", Closed)]),
            ("data: a\n\ndata: last", vec![event(None, "a", Closed), event(None, "last", EndOfBody)]),
            ("data: grüße 🦀\n\n", vec![event(None, "grüße 🦀", Closed)]),
            ("", vec![]),
        ] {
            assert_eq!(read(vec![text.as_bytes().to_vec()]), expected, "{text:?} in one piece");
            let bytes = text.bytes().map(|byte| vec![byte]).collect();
            assert_eq!(read(bytes), expected, "{text:?} byte by byte");
        }
    }

    #[test]
    fn an_endless_line_is_refused() {
        let mut chunks = vec![b"data: ".to_vec()];
        chunks.extend((0..17).map(|_| vec![b'x'; 1 << 20]));
        assert_eq!(read(chunks), vec![Err("one event of the answer is larger than 16 MiB".to_owned())]);
    }

    #[test]
    fn an_endless_answer_is_refused() {
        let mut chunk = b"data: ".to_vec();
        chunk.extend(std::iter::repeat_n(b'x', 1 << 20));
        chunk.extend(b"\n\n");
        let seen = read(vec![chunk; 65]);
        assert_eq!(seen.last().unwrap(), &Err("the answer is larger than 64 MiB".to_owned()));
    }

    #[test]
    fn bytes_that_are_not_text_are_refused() {
        let seen = read(vec![b"data: \xff\xfe\n\n".to_vec()]);
        assert_eq!(seen, vec![Err("the server sent an answer that is not UTF-8 text".to_owned())]);
    }
}

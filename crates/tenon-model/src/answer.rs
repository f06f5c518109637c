//! Drives the answer to one request, whichever wire it comes on: is it a stream or one JSON value, when is it
//! over, was it whole, and how long is waited for the next word of it.
//!
//! What the events of a wire mean is its [`Reader`]'s business.

use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::{FutureExt, StreamExt};
use tenon_core::{Delta, ModelError};
use tokio::time::{Instant, timeout_at};

use crate::ByteStream;
use crate::delta_stream::Out;
use crate::errors::{self, Asked, Quotes};
use crate::peek::{Peeked, peek};
use crate::sse::{self, Events};
use crate::transport::read_all;

/// When the reason for the end is known, only token counts are due, and servers that send them do so at once.
/// Those that send none and keep the connection open are not waited for longer than this.
const TAIL_WAIT: Duration = Duration::from_secs(1);

/// Turns what a server sends into deltas.
pub(crate) trait Reader {
    /// One event of a stream; its data is never empty.
    fn event(&mut self, event: &sse::Event, give: Give<'_>) -> Result<Next, Trouble>;

    /// An answer in one piece, although a stream was asked for.
    fn whole(&mut self, json: &str, give: Give<'_>) -> Result<(), Trouble>;

    /// Is the answer complete, whatever may still follow?
    fn is_finished(&self) -> bool;

    /// What is left to give when the answer is over.
    fn finish(&mut self, give: Give<'_>) -> Result<(), ModelError>;
}

/// Where deltas go.
pub(crate) type Give<'a> = &'a mut dyn FnMut(Delta);

pub(crate) enum Next {
    More,
    /// The answer is over.
    Done,
}

/// Why a piece of the answer is none.
pub(crate) enum Trouble {
    NotJson,
    /// The text is the server's report of an error.
    ErrorReport,
    Failed(ModelError),
}

/// Reads the body of a success. `url` is where it came from, for messages. `patience` is how long the server
/// may keep the connection open without saying anything: a sign of life is not an answer.
pub(crate) async fn read_answer(
    body: ByteStream,
    reader: &mut impl Reader,
    asked: &Asked<'_>,
    url: &str,
    patience: Duration,
    out: &Out,
) -> Result<(), ModelError> {
    let mut body = body.peekable();
    // The transport has a deadline for the first byte; what follows is for this one.
    Pin::new(&mut body).peek().await;
    let patience = Patience::starting_now(patience);
    let read = match patience.wait(peek(Box::pin(body)), errors::nothing_said).await?? {
        Peeked::Json(body) => whole(body, reader, asked, patience, out).await,
        Peeked::Html => return Err(errors::web_page(url)),
        Peeked::Events(body) => streamed(body, reader, asked, patience, out).await,
    };
    let mut give = |delta| out.push(delta);
    match read {
        Ok(()) => reader.finish(&mut give),
        // An error after the end does not spoil the answer. It may say why the answer ended in one.
        Err(error) if reader.is_finished() => reader.finish(&mut give).map_err(|_| error),
        Err(error) => Err(error),
    }
}

/// How long is waited for the next piece of the answer, whatever else may come.
#[derive(Clone, Copy)]
struct Patience {
    limit: Duration,
    until: Instant,
}

impl Patience {
    fn starting_now(limit: Duration) -> Patience {
        Patience { limit, until: Instant::now() + limit }
    }

    async fn wait<T>(
        self,
        work: impl Future<Output = T>,
        error: fn(Duration) -> ModelError,
    ) -> Result<T, ModelError> {
        timeout_at(self.until, work).await.map_err(|_| error(self.limit))
    }
}

async fn whole(
    body: ByteStream,
    reader: &mut impl Reader,
    asked: &Asked<'_>,
    patience: Patience,
    out: &Out,
) -> Result<(), ModelError> {
    let bytes = patience.wait(read_all(body), errors::never_ends).await??;
    let text = String::from_utf8_lossy(&bytes);
    let text = text.trim_start_matches('\u{feff}');
    reader.whole(text, &mut |delta| out.push(delta)).map_err(|trouble| match trouble {
        // An error in a list is still an error; anything else is not an answer.
        Trouble::NotJson if serde_json::from_str::<serde::de::IgnoredAny>(text).is_err() => {
            errors::not_json(text, asked)
        }
        Trouble::NotJson if asked.quotes == Quotes::Never => errors::not_an_answer(text, asked),
        Trouble::NotJson | Trouble::ErrorReport => errors::from_error_json(text, asked),
        Trouble::Failed(error) => error,
    })
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Seen {
    NoEvent,
    Events,
}

async fn streamed(
    body: ByteStream,
    reader: &mut impl Reader,
    asked: &Asked<'_>,
    mut patience: Patience,
    out: &Out,
) -> Result<(), ModelError> {
    let start = Arc::<Mutex<Vec<u8>>>::default();
    let mut events = Events::new(keeping_start(body, Arc::clone(&start)));
    let mut seen = Seen::NoEvent;
    // Set when the reason for the end is known.
    let mut tail_until = None;
    loop {
        let event = match tail_until {
            Some(until) => timeout_at(until, events.next()).await.unwrap_or(None),
            None => patience.wait(events.next(), errors::nothing_said).await?,
        };
        let event = match event {
            Some(Ok(event)) => event,
            // The answer itself is complete: what breaks after it does not matter.
            None | Some(Err(_)) if reader.is_finished() => return Ok(()),
            None if seen == Seen::NoEvent => return Err(without_events(&start, asked)),
            None => return Err(errors::half_an_answer()),
            Some(Err(error)) => return Err(error),
        };
        let data = event.data.trim();
        if data.is_empty() {
            continue;
        }
        seen = Seen::Events;
        let mut given = Given::Nothing;
        let next = reader.event(&event, &mut |delta| {
            given = given.max(Given::of(&delta));
            out.push(delta);
        });
        match next {
            Ok(Next::More) => {
                out.pause().await;
                if given != Given::Nothing {
                    patience = Patience::starting_now(patience.limit);
                }
                // Where the answer goes on after its end, so does the wait.
                if reader.is_finished() && (tail_until.is_none() || given == Given::Content) {
                    tail_until = Some(Instant::now() + TAIL_WAIT);
                }
            }
            Ok(Next::Done) => {
                // Taking the end of the body, where it is already there, lets the connection be reused.
                let _ = events.next().now_or_never();
                return Ok(());
            }
            Err(Trouble::NotJson) if reader.is_finished() => return Ok(()),
            Err(Trouble::NotJson) => match event.ending {
                sse::Ending::EndOfBody => return Err(errors::half_an_answer()),
                sse::Ending::Closed => return Err(errors::not_json(data, asked)),
            },
            Err(Trouble::ErrorReport) => return Err(errors::from_error_json(data, asked)),
            Err(Trouble::Failed(error)) => return Err(error),
        }
    }
}

/// The most that an event has led to.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Given {
    Nothing,
    Counts,
    Content,
}

impl Given {
    fn of(delta: &Delta) -> Given {
        match delta {
            Delta::Usage(_) => Given::Counts,
            _ => Given::Content,
        }
    }
}

/// How much of a body is kept, to say what it was if it was no answer.
const KEPT_BYTES: usize = 512;

fn keeping_start(body: ByteStream, start: Arc<Mutex<Vec<u8>>>) -> ByteStream {
    Box::pin(body.inspect(move |chunk| {
        let mut start = start.lock().unwrap_or_else(PoisonError::into_inner);
        if let (Ok(chunk), Some(room)) = (chunk, KEPT_BYTES.checked_sub(start.len())) {
            start.extend_from_slice(&chunk[..chunk.len().min(room)]);
        }
    }))
}

/// The body is over, and nothing in it was an event.
fn without_events(start: &Mutex<Vec<u8>>, asked: &Asked<'_>) -> ModelError {
    let start = start.lock().unwrap_or_else(PoisonError::into_inner);
    let start = String::from_utf8_lossy(&start);
    let text = start.trim_start_matches('\u{feff}').trim();
    if text.is_empty() {
        return errors::empty_body();
    }
    let name = text.split([':', '\r', '\n']).next().unwrap_or_default();
    match ["", "data", "event", "id", "retry"].contains(&name) {
        // A stream that has only said that it is there.
        true => errors::half_an_answer(),
        false => errors::not_an_answer(text, asked),
    }
}

//! Drives the answer to one request, whichever wire it comes on: is it a stream or one JSON value, when is it
//! over, was it whole.
//!
//! What the events of a wire mean is its [`Reader`]'s business.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::{FutureExt, StreamExt};
use tenon_core::{Delta, ModelError};

use crate::ByteStream;
use crate::delta_stream::Out;
use crate::errors::{self, Asked};
use crate::peek::{Peeked, peek};
use crate::sse::{self, Events};
use crate::transport::read_all;

/// When the reason for the end is known, only token counts are due. Servers that send none and keep the
/// connection open are not waited for longer than this.
const TAIL_WAIT: Duration = Duration::from_secs(5);

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

/// Reads the body of a success. `url` is where it came from, for messages.
pub(crate) async fn read_answer(
    body: ByteStream,
    reader: &mut impl Reader,
    asked: &Asked<'_>,
    url: &str,
    out: &Out,
) -> Result<(), ModelError> {
    match peek(body).await? {
        Peeked::Json(body) => whole(body, reader, asked, out).await?,
        Peeked::Html => return Err(errors::web_page(url)),
        Peeked::Events(body) => streamed(body, reader, asked, out).await?,
    }
    reader.finish(&mut |delta| out.push(delta))
}

async fn whole(
    body: ByteStream,
    reader: &mut impl Reader,
    asked: &Asked<'_>,
    out: &Out,
) -> Result<(), ModelError> {
    let bytes = read_all(body).await?;
    let text = String::from_utf8_lossy(&bytes);
    let text = text.trim_start_matches('\u{feff}');
    reader.whole(text, &mut |delta| out.push(delta)).map_err(|trouble| match trouble {
        // An error in a list is still an error; anything else is not an answer.
        Trouble::NotJson if serde_json::from_str::<serde::de::IgnoredAny>(text).is_err() => {
            errors::not_json(text, asked)
        }
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
    out: &Out,
) -> Result<(), ModelError> {
    let start = Arc::<Mutex<Vec<u8>>>::default();
    let mut events = Events::new(keeping_start(body, Arc::clone(&start)));
    let mut seen = Seen::NoEvent;
    loop {
        let event = match reader.is_finished() {
            true => tokio::time::timeout(TAIL_WAIT, events.next()).await.unwrap_or(None),
            false => events.next().await,
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
        match reader.event(&event, &mut |delta| out.push(delta)) {
            Ok(Next::More) => out.pause().await,
            Ok(Next::Done) => {
                // Taking the end of the body, where it is already there, lets the connection be reused.
                let _ = events.next().now_or_never();
                return Ok(());
            }
            Err(Trouble::NotJson) => match event.ending {
                sse::Ending::EndOfBody if reader.is_finished() => return Ok(()),
                sse::Ending::EndOfBody => return Err(errors::half_an_answer()),
                sse::Ending::Closed => return Err(errors::not_json(data, asked)),
            },
            Err(Trouble::ErrorReport) => return Err(errors::from_error_json(data, asked)),
            Err(Trouble::Failed(error)) => return Err(error),
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

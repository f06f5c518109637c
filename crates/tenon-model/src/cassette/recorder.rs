//! Writes every exchange to a cassette while it passes through.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use futures_core::Stream;
use futures_util::{FutureExt, stream};
use serde::Serialize;
use serde_json::Value;
use tenon_core::{BoxFut, Cancel, ErrorClass, ModelError, Secrets};

use super::Protocol;
use super::conversation::recorded_body;
use super::format::{Exchange, Header, KEPT_HEADERS, Request, Response, VERSION, written};
use super::places::Hider;
use crate::sse::{Ending, Event, Events};
use crate::{ByteStream, HttpRequest, HttpResponse, Places, Transport};

pub struct Recorder {
    inner: Arc<dyn Transport>,
    tape: Arc<Tape>,
}

/// The file and what must not stand in it.
struct Tape {
    path: PathBuf,
    hider: Hider,
    file: Mutex<State>,
}

struct State {
    file: File,
    failed: Option<ModelError>,
}

impl Recorder {
    /// Starts a new cassette at `path`, readable by its owner only. What was there is gone.
    pub fn create(
        path: &Path,
        inner: Arc<dyn Transport>,
        places: Places,
        secrets: Secrets,
    ) -> Result<Recorder, ModelError> {
        let file = create_private(path).map_err(|error| not_written(path, &error))?;
        let hider = Hider::new(&places, &secrets);
        let tape = Tape { path: path.to_owned(), hider, file: Mutex::new(State { file, failed: None }) };
        tape.line(&Header { tenon_cassette: VERSION });
        let recorder = Recorder { inner, tape: Arc::new(tape) };
        recorder.check()?;
        Ok(recorder)
    }

    /// The first problem in writing, if there was one. Ask at the end of a run: the last exchange is
    /// written after its answer was read.
    pub fn check(&self) -> Result<(), ModelError> {
        self.tape.lock().failed.clone().map_or(Ok(()), Err)
    }
}

impl Transport for Recorder {
    fn send(&self, exchange: HttpRequest, cancel: Cancel) -> BoxFut<'_, Result<HttpResponse, ModelError>> {
        Box::pin(async move {
            self.check()?;
            let request = self.tape.request(&exchange);
            let HttpResponse { status, headers, body } = self.inner.send(exchange, cancel).await?;
            let kept = headers.iter().filter(|(name, _)| KEPT_HEADERS.contains(&name.as_str())).cloned();
            let response = Response { status, headers: kept.collect(), events: None, text: None, cut: false };
            let pending = Pending { exchange: Exchange { request, response }, bytes: Vec::new() };
            let body = Taped { inner: body, pending: Some(pending), tape: self.tape.clone() };
            Ok(HttpResponse { status, headers, body: Box::pin(body) })
        })
    }

    fn patience(&self) -> Duration {
        self.inner.patience()
    }
}

impl Tape {
    fn request(&self, exchange: &HttpRequest) -> Request {
        let path = exchange.path();
        let body = serde_json::from_str::<Value>(&exchange.body).unwrap_or_default();
        let mut body = recorded_body(Protocol::of_path(&path), &path, &body);
        self.hider.value(&mut body);
        Request { method: "POST".to_owned(), path, body }
    }

    /// Writes a line as a whole; the first failure is kept.
    fn line(&self, value: &impl Serialize) {
        let mut state = self.lock();
        if state.failed.is_some() {
            return;
        }
        let mut line = serde_json::to_vec(value).unwrap_or_default();
        line.push(b'\n');
        if let Err(error) = state.file.write_all(&line) {
            state.failed = Some(not_written(&self.path, &error));
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.file.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A body that is written down when it has been read, or when nobody reads on.
struct Taped {
    inner: ByteStream,
    pending: Option<Pending>,
    tape: Arc<Tape>,
}

struct Pending {
    exchange: Exchange,
    bytes: Vec<u8>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Stop {
    EndOfBody,
    Broken,
    /// The reader had enough, or the run was cancelled.
    Dropped,
}

impl Stream for Taped {
    type Item = Result<Bytes, ModelError>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let item = ready!(self.inner.as_mut().poll_next(cx));
        match &item {
            Some(Ok(chunk)) => {
                if let Some(pending) = &mut self.pending {
                    pending.bytes.extend_from_slice(chunk);
                }
            }
            Some(Err(_)) => self.write(Stop::Broken),
            None => self.write(Stop::EndOfBody),
        }
        Poll::Ready(item)
    }
}

impl Drop for Taped {
    fn drop(&mut self) {
        self.write(Stop::Dropped);
    }
}

impl Taped {
    fn write(&mut self, stop: Stop) {
        let Some(Pending { mut exchange, bytes }) = self.pending.take() else { return };
        let hider = &self.tape.hider;
        let protocol = Protocol::of_path(&exchange.request.path);
        let mut is_done = false;
        let mut is_torn = false;
        match events(&bytes) {
            Some(mut events) => {
                // Half an event is where the connection broke, and so it does on replay.
                is_torn = events.last().is_some_and(is_half);
                if is_torn {
                    events.pop();
                }
                is_done = events.last().is_some_and(|event| protocol.is_last(event));
                let (names, mut data): (Vec<_>, Vec<_>) =
                    events.into_iter().map(|event| (event.name, protocol.without_echo(event.data))).unzip();
                hider.events(&mut data);
                let lines = names.iter().zip(&data).filter_map(|(name, data)| written(name.as_deref(), data));
                exchange.response.events = Some(lines.collect());
            }
            None => {
                let mut text = [String::from_utf8_lossy(&bytes).into_owned()];
                hider.events(&mut text);
                let [text] = text;
                exchange.response.text = Some(text);
            }
        }
        exchange.response.cut = is_torn || (stop != Stop::EndOfBody && !is_done);
        self.tape.line(&exchange);
    }
}

fn is_half(event: &Event) -> bool {
    let is_json = serde_json::from_str::<serde::de::IgnoredAny>(&event.data).is_ok();
    event.ending == Ending::EndOfBody && !is_json && event.data.trim() != "[DONE]"
}

/// The events of a body that is an event stream.
fn events(bytes: &[u8]) -> Option<Vec<Event>> {
    let start = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes).trim_ascii_start();
    let is_stream = [b"data:".as_slice(), b"event:", b":", b"id:", b"retry:"]
        .iter()
        .any(|field| start.starts_with(field));
    if !is_stream {
        return None;
    }
    let body = stream::iter([Ok(Bytes::copy_from_slice(bytes))]);
    let mut reader = Events::new(Box::pin(body));
    let mut events = Vec::new();
    // The bytes are all there, so nothing is ever waited for.
    while let Some(Some(Ok(event))) = reader.next().now_or_never() {
        events.push(event);
    }
    Some(events)
}

fn create_private(path: &Path) -> std::io::Result<File> {
    // Asked before opening: a pipe without a reader would be waited for.
    if path.metadata().is_ok_and(|meta| !meta.is_file()) {
        return Err(std::io::Error::other("it is not a regular file"));
    }
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create(true).truncate(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
        let file = options.mode(0o600).open(path)?;
        // The mode counts for new files only.
        file.set_permissions(std::fs::Permissions::from_mode(0o600))?;
        Ok(file)
    }
    #[cfg(not(unix))]
    options.open(path)
}

fn not_written(path: &Path, error: &std::io::Error) -> ModelError {
    ModelError {
        hint: Some("choose a file in a folder that exists and that you may write to".to_owned()),
        ..ModelError::new(
            ErrorClass::Input,
            format!("the cassette `{}` could not be written: {error}", path.display()),
        )
    }
}

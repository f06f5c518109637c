//! Answers requests from a cassette. No network, no key.

use std::path::Path;
use std::sync::{Mutex, PoisonError};

use bytes::Bytes;
use futures_util::stream;
use serde_json::Value;
use tenon_core::{BoxFut, Cancel, ErrorClass, ModelError, Secrets};

use super::Protocol;
use super::conversation::recorded_body;
use super::format::{Exchange, Header, Response, VERSION, framed, read};
use super::matching::{closeness, comparable, first_difference};
use super::places::Hider;
use crate::errors::half_an_answer;
use crate::sse::{Ending, Event};
use crate::{HttpRequest, HttpResponse, Places, Transport};

/// A cassette larger than this was not recorded by us.
const MAX_CASSETTE_BYTES: u64 = 256 << 20;

pub struct Replayer {
    first: Option<Protocol>,
    places: Places,
    hider: Hider,
    state: Mutex<State>,
}

struct State {
    tracks: Vec<Track>,
    requests: usize,
}

struct Track {
    protocol: Protocol,
    comparable: Value,
    response: Response,
    played: Played,
}

#[derive(PartialEq, Eq)]
enum Played {
    NotYet,
    Once,
}

impl Replayer {
    pub fn open(path: &Path, places: Places) -> Result<Replayer, ModelError> {
        let text = read_file(path)?;
        let tracks = parse(&text).map_err(|problem| {
            let Problem { line, what } = problem;
            let message = format!("the cassette `{}` cannot be used: line {line} {what}", path.display());
            unusable(message, "record it again with `--record`")
        })?;
        let hider = Hider::new(&places, &Secrets::default());
        let first = tracks.first().map(|track| track.protocol);
        Ok(Replayer { first, places, hider, state: Mutex::new(State { tracks, requests: 0 }) })
    }

    /// What the first recorded request was made in: the client of this protocol understands the answers.
    /// `None`: nothing was recorded.
    pub fn protocol(&self) -> Option<Protocol> {
        self.first
    }

    fn answer(&self, exchange: &HttpRequest) -> Result<HttpResponse, ModelError> {
        let path = exchange.path();
        let protocol = Protocol::of_path(&path);
        let body = serde_json::from_str::<Value>(&exchange.body).unwrap_or_default();
        let mut body = recorded_body(protocol, &path, &body);
        self.hider.value(&mut body);
        let wanted = comparable(protocol, &body);
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.requests += 1;
        let number = state.requests;
        let mut unplayed = state.tracks.iter_mut().filter(|track| track.played == Played::NotYet);
        if let Some(track) = unplayed.find(|track| track.comparable == wanted) {
            track.played = Played::Once;
            return Ok(self.response(&track.response));
        }
        let unplayed: Vec<&Track> =
            state.tracks.iter().filter(|track| track.played == Played::NotYet).collect();
        Err(no_answer(number, &unplayed, state.tracks.len(), &wanted))
    }

    fn response(&self, recorded: &Response) -> HttpResponse {
        let mut chunks: Vec<Result<Bytes, ModelError>> = Vec::new();
        if let Some(text) = &recorded.text {
            chunks.push(Ok(Bytes::from(self.places.put_back(text))));
        }
        for event in recorded.events.iter().flatten() {
            let (name, data) = read(event);
            let event = Event { name, data: self.places.put_back(&data), ending: Ending::Closed };
            chunks.push(Ok(Bytes::from(framed(&event))));
        }
        if recorded.cut {
            chunks.push(Err(half_an_answer()));
        }
        let headers = recorded.headers.iter().map(|(name, value)| (name.clone(), quick(name, value)));
        HttpResponse {
            status: recorded.status,
            headers: headers.collect(),
            body: Box::pin(stream::iter(chunks)),
        }
    }
}

impl Transport for Replayer {
    fn send(&self, exchange: HttpRequest, _cancel: Cancel) -> BoxFut<'_, Result<HttpResponse, ModelError>> {
        Box::pin(async move { self.answer(&exchange) })
    }
}

/// A server asked for a wait, and it was waited when recording. Waiting again would show nothing new; only
/// one that was too long to wait for is passed on.
fn quick(name: &str, value: &str) -> String {
    const WAITED_MS: f64 = 60_000.0;
    let unit = if name == "retry-after-ms" { 1.0 } else { 1000.0 };
    match (name, value.trim().parse::<f64>()) {
        ("retry-after" | "retry-after-ms", Ok(wait)) if wait * unit <= WAITED_MS => "0".to_owned(),
        _ => value.to_owned(),
    }
}

fn no_answer(number: usize, unplayed: &[&Track], recorded: usize, wanted: &Value) -> ModelError {
    // The first of the closest: `max_by_key` would take the last.
    let closest = unplayed.iter().rev().max_by_key(|track| closeness(&track.comparable, wanted));
    let hint = match closest.and_then(|track| first_difference(&track.comparable, wanted)) {
        None => format!(
            "all {recorded} recorded answers have been used; record it again with `--record` if the longer run is right"
        ),
        Some(difference) => format!(
            "the first difference to the closest recorded request is at `{}`: recorded {}, now {}",
            difference.pointer, difference.recorded, difference.actual
        ),
    };
    unusable(format!("the cassette has no answer for request {number}"), hint)
}

struct Problem {
    line: usize,
    what: String,
}

fn parse(text: &str) -> Result<Vec<Track>, Problem> {
    let text = text.trim_start_matches('\u{feff}');
    let mut lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    let header = lines.next().and_then(|(_, line)| serde_json::from_str::<Header>(line).ok());
    match header {
        Some(Header { tenon_cassette: VERSION }) => {}
        Some(Header { tenon_cassette }) => {
            let what = format!("says version {tenon_cassette}, and only version {VERSION} is known");
            return Err(Problem { line: 1, what });
        }
        None => {
            return Err(Problem { line: 1, what: r#"is not the header `{"tenon_cassette":1}`"#.to_owned() });
        }
    }
    lines
        .map(|(at, line)| match serde_json::from_str::<Exchange>(line) {
            Ok(Exchange { request, response }) => {
                let protocol = Protocol::of_path(&request.path);
                let comparable = comparable(protocol, &request.body);
                Ok(Track { protocol, comparable, response, played: Played::NotYet })
            }
            Err(error) if error.is_eof() => {
                Err(Problem { line: at + 1, what: "is cut off: the recording was interrupted".to_owned() })
            }
            Err(error) => Err(Problem { line: at + 1, what: format!("is not a recorded exchange: {error}") }),
        })
        .collect()
}

fn read_file(path: &Path) -> Result<String, ModelError> {
    let failed = |what: &str| {
        unusable(
            format!("the cassette `{}` {what}", path.display()),
            "make one with `--record`, or check the path",
        )
    };
    let meta = std::fs::metadata(path).map_err(|error| failed(&format!("cannot be read: {error}")))?;
    if !meta.is_file() {
        return Err(failed("is not a regular file"));
    }
    if meta.len() > MAX_CASSETTE_BYTES {
        return Err(failed(&format!("is larger than {} MiB", MAX_CASSETTE_BYTES >> 20)));
    }
    std::fs::read_to_string(path).map_err(|error| failed(&format!("cannot be read: {error}")))
}

fn unusable(message: String, hint: impl Into<String>) -> ModelError {
    ModelError { hint: Some(hint.into()), ..ModelError::new(ErrorClass::Input, message) }
}

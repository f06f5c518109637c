//! As much HTTP/1.1 as a model server needs, over a blocking socket: read a request, perform the actions of
//! a reply. By hand, because a real server library would not let a test decide where a byte goes.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use crate::render::Action;

/// A request with a long history and a few images fits well inside this.
const MAX_BODY_BYTES: usize = 64 * 1024 * 1024;
/// Generous for headers; keeps a client that never ends its line from filling memory.
const MAX_HEAD_BYTES: u64 = 256 * 1024;
/// How often a held reply looks whether its gate is open and its client still there.
const HOLD_POLL: Duration = Duration::from_millis(5);

pub(crate) struct Request {
    pub method: String,
    pub path: String,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

/// The next request of a connection; `None` when the client closed it instead.
pub(crate) fn read_request(reader: &mut BufReader<TcpStream>) -> io::Result<Option<Request>> {
    let mut lines = Vec::new();
    let mut head = reader.by_ref().take(MAX_HEAD_BYTES);
    loop {
        let mut line = String::new();
        if head.read_line(&mut line)? == 0 {
            return if lines.is_empty() { Ok(None) } else { Err(io::ErrorKind::UnexpectedEof.into()) };
        }
        let line = line.trim_end_matches(['\r', '\n']);
        if line.is_empty() {
            break;
        }
        lines.push(line.to_owned());
    }
    let mut words = lines.first().map(String::as_str).unwrap_or_default().split(' ');
    let method = words.next().unwrap_or_default().to_owned();
    let path = words.next().unwrap_or_default().to_owned();
    let headers: Vec<(String, String)> = lines
        .iter()
        .skip(1)
        .filter_map(|line| line.split_once(':'))
        .map(|(name, value)| (name.to_owned(), value.trim().to_owned()))
        .collect();

    if header(&headers, "expect").is_some_and(|value| value.eq_ignore_ascii_case("100-continue")) {
        reader.get_ref().write_all(b"HTTP/1.1 100 Continue\r\n\r\n")?;
    }
    let chunked =
        header(&headers, "transfer-encoding").is_some_and(|value| value.eq_ignore_ascii_case("chunked"));
    let length = header(&headers, "content-length").and_then(|value| value.parse().ok()).unwrap_or(0);
    let body = if chunked { read_chunks(reader)? } else { read_exactly(reader, length)? };
    Ok(Some(Request { method, path, headers, body }))
}

pub(crate) fn header<'a>(headers: &'a [(String, String)], name: &str) -> Option<&'a str> {
    headers.iter().find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
}

fn read_exactly(reader: &mut impl Read, length: usize) -> io::Result<Vec<u8>> {
    if length > MAX_BODY_BYTES {
        return Err(io::Error::other("the request body is larger than the test server takes"));
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body)?;
    Ok(body)
}

fn read_chunks(reader: &mut impl BufRead) -> io::Result<Vec<u8>> {
    let mut body = Vec::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line)?;
        let digits = line.trim().split(';').next().unwrap_or_default();
        let size = usize::from_str_radix(digits, 16).map_err(io::Error::other)?;
        body.extend(read_exactly(reader, size)?);
        reader.read_line(&mut String::new())?;
        if size == 0 {
            return Ok(body);
        }
    }
}

/// How a reply ended, seen from the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// Everything was sent; the connection can take another request.
    Complete,
    /// The script closed the connection.
    Closed,
    /// The client closed it first.
    ClientLeft,
}

/// Performs a reply. `requests` says how many requests have arrived so far.
pub(crate) fn perform(stream: &TcpStream, actions: &[Action], requests: impl Fn() -> usize) -> Ending {
    for action in actions {
        let still_there = match action {
            Action::Wait(delay) => wait(stream, *delay),
            Action::Hold(gate) => hold(stream, || gate.is_open()),
            Action::HoldUntilRequests(count) => hold(stream, || requests() >= *count),
            Action::Write(bytes) => write(stream, bytes),
            Action::Hang => hold(stream, || false),
            Action::Endless(bytes, gap) => {
                while write(stream, bytes) && wait(stream, *gap) {}
                false
            }
            Action::Close => return Ending::Closed,
        };
        if !still_there {
            return Ending::ClientLeft;
        }
    }
    Ending::Complete
}

fn write(mut stream: &TcpStream, bytes: &[u8]) -> bool {
    stream.write_all(bytes).is_ok()
}

/// Waits while watching the client; false when it left.
fn wait(stream: &TcpStream, delay: Duration) -> bool {
    let until = Instant::now() + delay;
    loop {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return true;
        }
        // A read timeout of the socket is the wait: it ends at once when the client closes.
        if stream.set_read_timeout(Some(left)).is_err() {
            return false;
        }
        let seen = stream.peek(&mut [0]);
        let _ = stream.set_read_timeout(None);
        match seen {
            Ok(0) => return false,
            // An early next request: the rest of the wait is an ordinary one.
            Ok(_) => std::thread::sleep(left),
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {}
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => return false,
        }
    }
}

fn hold(stream: &TcpStream, released: impl Fn() -> bool) -> bool {
    while !released() {
        if !wait(stream, HOLD_POLL) {
            return false;
        }
    }
    true
}
